"""ONNX Runtime: its ReverseSequence runs a whole job in memory, on any of its providers.

DirectML's provider maps ReverseSequence to DML_OPERATOR_REVERSE_SUBSEQUENCES. Source:
onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorReverseSequence.cpp.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from revseq_cli.core import platform
from revseq_cli.core.dtypes import bits, native
from revseq_cli.core.errors import EngineError, FormatError, UsageError, listed
from revseq_cli.formats.contents import extra
from revseq_cli.formats.contract import Source, Storage
from revseq_cli.formats.onnx_models import RUNTIME, package, require_written, saying
from revseq_cli.formats.raw import MemorySource
from revseq_cli.operator import kernel
from revseq_cli.pipeline.jobs import Job

CPU = "CPUExecutionProvider"
_PACKAGES = {"dml": "onnxruntime-directml", "cuda": "onnxruntime-gpu"}  # of providers that have one of their own
_COPIES = 4  # how often the tensor is in memory: as it is read, in lines of its own, as it comes back, and in place


def computed(job: Job, on: str, memory: int) -> Source:
    """The output of a job that a provider computes, such as cpu or directml.

    UsageError for a provider that is not here, FormatError for a data type that it does not have, and EngineError for
    what does not fit into so many bytes.
    """
    runtime, provider = _provider(on)
    name = f"{RUNTIME} {runtime.__version__}, {provider}"
    needed = _COPIES * job.values.desc.total_bytes
    if needed > memory:
        found = f"takes {needed} bytes in {RUNTIME}, which gets the whole tensor, and the memory is {memory}"
        raise EngineError(found, "a job that fits", f"add --memory {needed}", job.values.name)
    values, lengths = job.values.read(), job.lengths.read()
    if not values.size:
        return MemorySource(name, values, Storage("onnxruntime", {}))
    clamped = kernel.clamp(lengths, values.shape[job.axis]).astype(np.int64)
    if provider == CPU and not clamped.all():
        require_written(runtime, job.lengths.name, "has a length of 0")
    moved = np.moveaxis(native(values), job.axis, -1)
    lines, counts = moved.reshape(-1, values.shape[job.axis]), np.moveaxis(clamped, job.axis, -1).reshape(-1)
    own = lines.dtype.kind in "fiub"  # others, such as BFLOAT16 and COMPLEX64, run as words of the same bits
    given = np.ascontiguousarray(lines) if own else bits(lines)
    if given.dtype.kind == "V":
        found = f"{RUNTIME} has no ReverseSequence of {job.values.desc.data_type.name}"
        raise FormatError(found, where=job.values.name)
    with saying(name, EngineError):
        session = _session(runtime, provider, given.dtype)
        (made,) = session.run(None, {"x": given, "n": np.ascontiguousarray(counts)})
    if (made.dtype, made.shape) != (given.dtype, given.shape):
        found = f"returned elements {made.dtype} of sizes {made.shape}"
        raise EngineError(found, f"{given.dtype} of sizes {given.shape}, like its input", where=name)
    elements = np.moveaxis(made.view(values.dtype.newbyteorder("=")).reshape(moved.shape), -1, job.axis)
    return MemorySource(name, elements, Storage("onnxruntime", {}))


def _provider(on: str) -> tuple[ModuleType, str]:
    """The package, and the full name of the provider, which may be typed in any case and without its suffix."""
    typed = on.lower().removeprefix("onnxruntime").lstrip(":").removesuffix("executionprovider") or "cpu"
    name = {"directml": "dml"}.get(typed, typed)
    needed = _PACKAGES.get(name, "onnxruntime")
    runtime = package(needed)
    providers = {each.lower().removesuffix("executionprovider"): each for each in runtime.get_available_providers()}
    if name in providers:
        return runtime, providers[name]
    exchange = f"{platform.pip('uninstall onnxruntime')}, and then {platform.pip(f'install {needed}')}"
    hint = exchange if needed != "onnxruntime" else ""
    raise UsageError(f"{RUNTIME} {runtime.__version__} has no {on[:40]} here", f"one of {listed(providers)}", hint)


def _session(runtime: ModuleType, provider: str, dtype: np.dtype[Any]) -> Any:  # noqa: ANN401
    """A session with the operator alone, on lines, on that provider alone; FormatError where there is none."""
    onnx = extra("onnx", "gets its model from the package onnx", RUNTIME)
    kind = onnx.helper.np_dtype_to_tensor_dtype(dtype)
    x, y = (onnx.helper.make_tensor_value_info(name, kind, [None, None]) for name in "xy")
    n = onnx.helper.make_tensor_value_info("n", onnx.TensorProto.INT64, [None])
    node = onnx.helper.make_node("ReverseSequence", ["x", "n"], ["y"], time_axis=1, batch_axis=0)
    graph = onnx.helper.make_graph([node], "job", [x, n], [y])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 10)], ir_version=5)
    options = runtime.SessionOptions()
    if provider != CPU:
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    data = model.SerializeToString()
    session = runtime.InferenceSession(data, options, providers=[provider], enable_fallback=0)
    if session.get_providers()[0] != provider:
        found = f"has no ReverseSequence of {dtype} on {provider}: it runs on {listed(session.get_providers())} instead"
        raise FormatError(found, where=RUNTIME)
    return session
