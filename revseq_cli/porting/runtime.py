"""A job in ONNX Runtime, as its ReverseSequence, on any of its providers.

DirectML's provider runs DML_OPERATOR_REVERSE_SUBSEQUENCES for it. Source:
onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/DmlOperatorReverseSequence.cpp.
"""

from __future__ import annotations

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
from revseq_cli.formats.onnx import (
    OPERATOR,
    RUNTIME,
    package,
    require_written,
    saying,
)
from revseq_cli.formats.refusals import import_extra
from revseq_cli.operator import kernel
from revseq_cli.pipeline.jobs import Job

_CPU, _DIRECTML = "CPUExecutionProvider", "DmlExecutionProvider"
_SUFFIX = "executionprovider"
_PACKAGES = {
    "dml": "onnxruntime-directml",
    "cuda": "onnxruntime-gpu",
}  # of some providers
_COPIES = 4  # of the tensor: as it is read, as sequences in rows, as it comes back, and in place


class Computed(NamedTuple):
    """The output of a job that ONNX Runtime computed, and in what the job it ran is another one."""

    output: Source
    notes: list[str]


def compute(job: Job, on: str, memory: int) -> Computed:
    """The output of a job on a provider, such as cpu or directml.

    The tensor is given as {sequences, axis size}, with one length for each sequence. UsageError for
    a provider that is not here, FormatError for a data type that it does not have, and EngineError
    for what does not fit into so many bytes.
    """
    runtime, provider = find_provider(on)
    name = f"{RUNTIME} {runtime.__version__}, {provider}"
    values = job.values
    needed = _COPIES * values.desc.total_bytes
    if needed > memory:
        problem = f"takes {needed} bytes in {RUNTIME}, which gets the whole tensor"
        problem += f", and the memory is {memory}"
        raise EngineError(
            problem,
            "a job that fits",
            f"add --memory {needed}",
            values.name,
        )
    array = native(values.read())
    if not array.size:
        return Computed(MemorySource(name, array, Storage("onnxruntime", {})), [])
    moved = np.moveaxis(array, job.axis, -1)
    rows, of_type = make_rows(moved, job)
    lengths, of_lengths = make_lengths(job, provider)
    if provider == _CPU and not lengths.all():
        require_written(runtime, job.lengths.name, "has a length of 0")
    with saying(name, EngineError):
        session = open_session(runtime, provider, rows.dtype)
        [result] = session.run(None, {"x": rows, "n": lengths})
        result = result.view(array.dtype).reshape(moved.shape)
    output = MemorySource(
        name,
        np.moveaxis(result, -1, job.axis),
        Storage("onnxruntime", {}),
    )
    notes = of_type + of_lengths
    if provider == _DIRECTML:
        notes += describe_form(job, rows.shape)
    return Computed(output, notes)


def make_rows(moved: NDArray[Any], job: Job) -> tuple[NDArray[Any], list[str]]:
    """A tensor, whose last axis is reversed, as one of two dimensions of a type that is known.

    BFLOAT16 and COMPLEX64, for instance, are given as integers of the same bits, which a note says.
    """
    rows = np.ascontiguousarray(moved.reshape(-1, moved.shape[-1]))
    if rows.dtype.kind in "fiub":
        return rows, []
    data_type = job.values.desc.data_type.name
    words = bits(rows)
    if words.dtype.kind == "V":
        raise FormatError(
            f"{RUNTIME} has no {OPERATOR} of {data_type}",
            where=job.values.name,
        )
    instead = data_type_of(words.dtype).name
    return words, [f"{RUNTIME} got the {data_type} elements as {instead} with the same bits"]


def make_lengths(job: Job, provider: str) -> tuple[NDArray[np.int64], list[str]]:
    """The length of each row: as it is for DirectML, which accepts any; else clamped, with a note.

    UINT64 lengths keep their bits, of which DirectML reads the low 32.
    """
    lengths = native(job.lengths.read())
    rows = np.moveaxis(lengths, job.axis, -1).reshape(-1)
    if provider == _DIRECTML:
        return rows.astype(np.uint64).view(np.int64), []
    size = job.values.sizes[job.axis]
    clamped = kernel.clamp(rows, size).astype(np.int64)
    count = kernel.count_clamped(rows, size)
    if not count:
        return clamped, []
    lengths_were = "1 length was" if count == 1 else f"{count:,} lengths were"
    note = f"{lengths_were} clamped before {RUNTIME} got the job: it refuses lengths above {size}"
    return clamped, [note]


def describe_form(job: Job, rows: tuple[int, ...]) -> list[str]:
    """That the model's form avoids what DirectML's provider does with more dimensions.

    There, sequence k takes length k of the list, however many sequences have the same length.
    """
    if len(job.values.sizes) <= 2:
        return []
    form = ",".join(map(str, rows))
    note = f"the tensor was given as {{{form}}}, with a length for each sequence: with more than"
    note += " two dimensions, this provider reads the list of lengths by the sequence's number"
    return [note]


def find_provider(on: str) -> tuple[ModuleType, str]:
    """ONNX Runtime, and a provider's full name; it may be typed in any case, without its suffix."""
    typed = on.lower().removesuffix(_SUFFIX)
    name = "dml" if typed == "directml" else typed
    needed = _PACKAGES.get(name, "onnxruntime")
    runtime = package(needed)
    providers = {
        full.lower().removesuffix(_SUFFIX): full for full in runtime.get_available_providers()
    }
    if name in providers:
        return runtime, providers[name]
    problem = f"{RUNTIME} {runtime.__version__} has no {on[:40]} here"
    hint = ""
    if needed != "onnxruntime":
        remove = platform.pip("uninstall onnxruntime")
        hint = f"{remove}, and then {platform.pip(f'install {needed}')}"
    raise UsageError(problem, f"one of {join_names(providers)}", hint)


def open_session(runtime: ModuleType, provider: str, dtype: np.dtype[Any]) -> Any:  # noqa: ANN401
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
    if provider != _CPU:
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    data = model.SerializeToString()
    session = runtime.InferenceSession(data, options, providers=[provider], enable_fallback=0)
    actual = session.get_providers()
    if actual[0] != provider:
        problem = (
            f"has no {OPERATOR} of {dtype} on {provider}: it runs on {join_names(actual)} instead"
        )
        raise FormatError(problem, where=RUNTIME)
    return session
