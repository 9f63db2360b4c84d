"""A job in ONNX Runtime, as its ReverseSequence, on any of its providers.

DirectML's provider runs DML_OPERATOR_REVERSE_SUBSEQUENCES for it. Source:
onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorReverseSequence.cpp.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from revseq_cli.core import platform
from revseq_cli.core.dtypes import bits, data_type_of, native
from revseq_cli.core.errors import (
    EngineError,
    FormatError,
    UsageError,
    join_names,
)
from revseq_cli.formats.contract import Source, Storage
from revseq_cli.formats.memory import MemorySource
from revseq_cli.formats.onnx.models import OPERATOR
from revseq_cli.formats.onnx.runtime import (
    CPU,
    RUNTIME,
    import_runtime,
    quote_errors,
    require_empty_written,
)
from revseq_cli.formats.refusals import import_extra
from revseq_cli.operator import kernel
from revseq_cli.pipeline.jobs import Job

_DIRECTML = "DmlExecutionProvider"
_SUFFIX = "executionprovider"
_PACKAGES = {"dml": "onnxruntime-directml", "cuda": "onnxruntime-gpu"}  # of some providers
_COPIES = 4  # of the tensor: as it is read, as sequences in rows, as it comes back, and in place


class Computed(NamedTuple):
    """The output of a job that ONNX Runtime computed, and how the job that it ran differs."""

    output: Source
    notes: list[str]


def compute(job: Job, on: str, memory: int) -> Computed:
    """The output of a job on a provider, such as cpu or directml.

    The tensor is given as {sequences, axis size}, with one length for each sequence. UsageError for
    a provider that is not here, FormatError for a data type that it does not have, and EngineError
    for what does not fit into this many bytes.
    """
    runtime, provider = _find_provider(on)
    name = f"{RUNTIME} {runtime.__version__}, {provider}"
    _require_memory(job, memory)
    array = native(job.values.read())
    storage = Storage("onnxruntime", {})
    if not array.size:
        return Computed(MemorySource(name, array, storage), [])
    moved = np.moveaxis(array, job.axis, -1)
    rows = _flatten_sequences(moved, job)
    own_lengths = np.moveaxis(native(job.lengths.read()), job.axis, -1).reshape(-1)
    lengths = _make_lengths(own_lengths, job, provider)
    if provider == CPU and not lengths.all():
        require_empty_written(runtime, job.lengths.name, "has a length of 0")
    with quote_errors(name, EngineError):
        session = _start_session(runtime, provider, rows.dtype)
        [result] = session.run(None, {"x": rows, "n": lengths})
        result = result.view(array.dtype).reshape(moved.shape)
    output = MemorySource(name, np.moveaxis(result, -1, job.axis), storage)
    notes = list(_list_notes(job, provider, rows, own_lengths))
    return Computed(output, notes)


def _require_memory(job: Job, memory: int) -> None:
    """EngineError if the tensor does not fit."""
    needed = _COPIES * job.values.desc.total_bytes
    if needed > memory:
        of_whole = f"takes {needed} bytes in {RUNTIME}, which gets the whole tensor"
        raise EngineError(
            f"{of_whole}, and the memory is {memory}",
            "a job that fits",
            f"add --memory {needed}",
            job.values.name,
        )


def _flatten_sequences(moved: NDArray[Any], job: Job) -> NDArray[Any]:
    """A tensor, whose last axis is reversed, as one of two dimensions of a type that is known.

    BFLOAT16 and COMPLEX64, for instance, are given as integers of the same bits.
    """
    rows = np.ascontiguousarray(moved.reshape(-1, moved.shape[-1]))
    if rows.dtype.kind in "fiub":
        return rows
    words = bits(rows)
    if words.dtype.kind == "V":
        found = f"{RUNTIME} has no {OPERATOR} of {job.values.desc.data_type.name}"
        raise FormatError(found, where=job.values.name)
    return words


def _make_lengths(own_lengths: NDArray[Any], job: Job, provider: str) -> NDArray[np.int64]:
    """The length of each row: as it is for DirectML, which accepts any, and else clamped.

    UINT64 lengths keep their bits, of which DirectML reads the low 32.
    """
    if provider == _DIRECTML:
        return own_lengths.astype(np.uint64).view(np.int64)
    return kernel.clamp(own_lengths, job.values.sizes[job.axis]).astype(np.int64)


def _list_notes(
    job: Job, provider: str, rows: NDArray[Any], own_lengths: NDArray[Any]
) -> Iterator[str]:
    """How the job that ONNX Runtime ran differs from this one."""
    data_type = job.values.desc.data_type
    if data_type_of(rows.dtype) is not data_type:
        instead = data_type_of(rows.dtype).name
        yield f"{RUNTIME} got the {data_type.name} elements as {instead} with the same bits"
    if provider == _DIRECTML:
        # With more dimensions, sequence k takes length k of the list, however many sequences have
        # the same length.
        if len(job.values.sizes) > 2:
            form = ",".join(map(str, rows.shape))
            given = f"the tensor was given as {{{form}}}, with a length for each sequence"
            by_number = "this provider reads the list of lengths by the sequence's number"
            yield f"{given}: with more than two dimensions, {by_number}"
        return
    size = job.values.sizes[job.axis]
    count = kernel.count_clamped(own_lengths, size)
    if count:
        lengths_were = "1 length was" if count == 1 else f"{count:,} lengths were"
        refuses = f"it refuses lengths above {size}"
        yield f"{lengths_were} clamped before {RUNTIME} got the job: {refuses}"


def _find_provider(on: str) -> tuple[ModuleType, str]:
    """ONNX Runtime, and a provider's full name; it may be typed in any case, without its suffix."""
    name = _shorten_provider(on)
    if name == "directml":
        name = "dml"
    package = _PACKAGES.get(name, "onnxruntime")
    runtime = import_runtime(package)
    providers = {_shorten_provider(full): full for full in runtime.get_available_providers()}
    if name in providers:
        return runtime, providers[name]
    hint = ""
    if package != "onnxruntime":
        remove = platform.pip("uninstall onnxruntime")
        hint = f"{remove}, and then {platform.pip(f'install {package}')}"
    found = f"{RUNTIME} {runtime.__version__} has no {on[:40]} here"
    raise UsageError(found, f"one of {join_names(providers)}", hint)


def _shorten_provider(name: str) -> str:
    return name.lower().removesuffix(_SUFFIX)


def _start_session(runtime: ModuleType, provider: str, dtype: np.dtype[Any]) -> Any:  # noqa: ANN401
    """A session with only the operator, on only that provider; FormatError if it runs elsewhere."""
    onnx = import_extra("onnx", "gets its model from the package onnx", RUNTIME)
    kind = onnx.helper.np_dtype_to_tensor_dtype(dtype)
    x, y = (onnx.helper.make_tensor_value_info(name, kind, [None, None]) for name in "xy")
    n = onnx.helper.make_tensor_value_info("n", onnx.TensorProto.INT64, [None])
    node = onnx.helper.make_node(OPERATOR, ["x", "n"], ["y"], time_axis=1, batch_axis=0)
    graph = onnx.helper.make_graph([node], "job", [x, n], [y])
    version = onnx.helper.make_opsetid("", 10)
    model = onnx.helper.make_model(graph, opset_imports=[version], ir_version=5)
    options = runtime.SessionOptions()
    if provider != CPU:
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    data = model.SerializeToString()
    session = runtime.InferenceSession(data, options, providers=[provider], enable_fallback=0)
    actual = session.get_providers()
    if actual[0] != provider:
        instead = f"it runs on {join_names(actual)} instead"
        found = f"has no {OPERATOR} of {dtype} on {provider}: {instead}"
        raise FormatError(found, where=RUNTIME)
    return session
