"""A job as a model for Microsoft's DxDispatch, which runs it on DirectML itself: JSON, and .npy files beside it.

Source: DxDispatch/ in Microsoft's repository DirectML: doc/Guide.md, models/_schema.json, src/model/JsonParsers.cpp.
The .npy files are in C order and little-endian, since src/model/NpyReaderWriter.cpp refuses or ruins all others.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.core.dtypes import bits
from revseq_cli.formats import registry
from revseq_cli.formats.atomic_file import FileTransaction
from revseq_cli.formats.in_memory import MemorySource
from revseq_cli.formats.references import Reference
from revseq_cli.operator.spec import INPUT, LENGTHS, OUTPUT
from revseq_cli.pipeline.plan import Resources, plan_copy
from revseq_cli.pipeline.tasks import copy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from revseq_cli.core.tensors import DataType, TensorDesc
    from revseq_cli.formats.contract import FileSink, Source
    from revseq_cli.pipeline.assembly import Job

SMALL = 1000  # elements of a tensor that stands in the model itself, and of a result that DxDispatch also prints
_OPERATOR, _DISPATCHABLE = "DML_OPERATOR_REVERSE_SUBSEQUENCES", "reverse"


@dataclass(frozen=True)
class Exported:
    """The files that were written, of which the first is the model, and the result that the model will write."""

    files: list[str]
    result: str
    notes: list[str]


def write(job: Job, path: str, *, overwrite: bool) -> Exported:
    """Write the model of a job, and a .npy for each tensor that does not stand in the model; all of them or nothing."""
    model = Path(path)
    file = registry.new_file(path, overwrite=overwrite, inputs=job.files)
    result = model.with_name(f"{model.stem}.{OUTPUT}.npy")
    sinks: list[tuple[Source, FileSink]] = []
    resources: dict[str, Any] = {}
    for role, source in ((INPUT, job.values), (LENGTHS, job.lengths)):
        values = source.read() if source.desc.element_count <= SMALL else None
        if values is not None and _has_text(values):
            resources[role] = _resource(source.desc, _texts(values))
        else:
            beside = model.with_name(f"{model.stem}.{role}.npy")
            sink = registry.create_sink(
                Reference(str(beside)), _template(source), overwrite=overwrite, inputs=job.files
            )
            sinks.append((source, sink))
            resources[role] = _resource(source.desc, {"sourcePath": beside.name})
    with FileTransaction(*(sink.file for _, sink in sinks), file) as together:  # the model gets its name last
        for source, sink in sinks:
            with sink:
                copy(source, sink, plan_copy(source, Resources(), sink))
        job.recheck()
        file.write(_text(job, resources, result.name).encode())
    return Exported([file.name, *(sink.file.name for _, sink in sinks)], str(result), [*together.notes])


def _template(source: Source) -> Source:
    """A tensor in C order and little-endian, with the sizes and the data type of the source, and no values."""
    like = np.broadcast_to(np.zeros((), source.dtype.newbyteorder("<")), source.sizes)  # one element in memory
    return MemorySource(source.name, like, source.storage)


def _has_text(values: NDArray[Any]) -> bool:
    """Whether JSON can hold the values: it has no text for a NaN of other bits than the usual one."""
    if values.dtype.kind != "f":
        return True
    return bool(np.all(bits(values[np.isnan(values)]) == bits(np.array(np.nan, values.dtype))))


def _texts(values: NDArray[Any]) -> list[int | float | str]:
    """The values for JSON; floats as FLOAT64, whose text gives the narrower types exactly however a reader rounds."""
    flat = values.ravel()
    if flat.dtype.kind != "f":
        return flat.tolist()
    return [number if math.isfinite(number) else str(number) for number in flat.astype(np.float64).tolist()]


def _resource(desc: TensorDesc, values: list[int | float | str] | dict[str, Any]) -> dict[str, Any]:
    """A buffer of whole 4 bytes, as DirectML wants it; some versions do not read the data type from a .npy."""
    size = -(-desc.total_bytes // 4) * 4
    return {"initialValuesDataType": desc.data_type.name, "initialValues": values, "sizeInBytes": size}


def _unwritten(data_type: DataType) -> int:
    """What elements of the output are before the operator runs: a number that few tensors have, exact in FLOAT16."""
    if data_type.kind == "uint":
        return 0xCD if data_type.size == 1 else 0xCDCD
    return -123 if data_type.size == 1 else -12344


def _text(job: Job, resources: dict[str, Any], result: str) -> str:
    values, lengths = job.values.desc, job.lengths.desc
    blank = {"valueCount": values.element_count, "value": _unwritten(values.data_type)}
    descs = {
        role: {"DataType": desc.data_type.name, "Sizes": list(desc.sizes)}
        for role, desc in ((INPUT, values), (LENGTHS, lengths), (OUTPUT, values))
    }
    commands: list[dict[str, Any]] = [
        {"type": "dispatch", "dispatchable": _DISPATCHABLE, "bindings": {role: role for role in descs}},
        # Without `dimensions` the .npy would be flat. A `print` that fails ends the run, and so it comes last.
        {"type": "writeFile", "resource": OUTPUT, "targetPath": result, "dimensions": list(values.sizes)},
    ]
    if values.element_count <= SMALL:
        commands.append({"type": "print", "resource": OUTPUT})
    model = {
        "resources": {**resources, OUTPUT: _resource(values, blank)},
        "dispatchables": {_DISPATCHABLE: {"type": _OPERATOR, "desc": {**descs, "Axis": job.axis}}},
        "commands": commands,
    }
    return json.dumps(model, indent=1) + "\n"
