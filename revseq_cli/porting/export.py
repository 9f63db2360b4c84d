"""A job as a model for Microsoft's DxDispatch, which runs it on DirectML itself: JSON, and .npy files beside it.

Source: DxDispatch/ in Microsoft's repository DirectML: doc/Guide.md, models/_schema.json, src/model/JsonParsers.cpp.
The .npy files are in C order and little-endian, since src/model/NpyReaderWriter.cpp refuses or ruins all others.
"""

from __future__ import annotations

import json
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


def write(job: Job, path: str, result: str, *, overwrite: bool) -> tuple[list[str], list[str]]:
    """Write the model of a job, and a .npy for each tensor that does not stand in the model; all of them or nothing.

    `result` is the name of the file that the model will write. Returns the files, the model first, and notes.
    """
    model = Path(path)
    sinks: list[tuple[Source, FileSink]] = []
    resources: dict[str, Any] = {}
    file = registry.new_file(path, overwrite=overwrite, inputs=job.files)
    for role, source in ((INPUT, job.values), (LENGTHS, job.lengths)):
        values = source.read() if source.desc.element_count <= SMALL else None
        if values is not None and _has_text(values):
            resources[role] = _resource(source.desc, _texts(values))
            continue
        beside = model.with_name(f"{model.stem}.{role}.npy")
        # In C order and little-endian; one element in memory.
        like = np.broadcast_to(np.zeros((), source.dtype.newbyteorder("<")), source.sizes)
        template = MemorySource(source.name, like, source.storage)
        sink = registry.create_sink(Reference(str(beside)), template, overwrite=overwrite, inputs=job.files)
        sinks.append((source, sink))
        resources[role] = _resource(source.desc, {"sourcePath": beside.name})
    with FileTransaction(*(sink.file for _, sink in sinks), file) as together:  # the model gets its name last
        for source, sink in sinks:
            with sink:
                copy(source, sink, plan_copy(source, Resources(), sink))
        job.recheck()
        file.write(_model(job, resources, result).encode())
    return [file.name, *(sink.file.name for _, sink in sinks)], [*together.notes]


def _has_text(values: NDArray[Any]) -> bool:
    """Whether JSON can hold the values: it has no text for a NaN of other bits than the usual one."""
    if values.dtype.kind != "f":
        return True
    return bool(np.all(bits(values[np.isnan(values)]) == bits(np.array(np.nan, values.dtype))))


def _texts(values: NDArray[Any]) -> list[int | float | str]:
    """The values for JSON; floats as FLOAT64, whose text gives the narrower types exactly however a reader rounds."""
    if values.dtype.kind != "f":
        return values.ravel().tolist()
    numbers = values.ravel().astype(np.float64).tolist()
    return [number if np.isfinite(number) else str(number) for number in numbers]


def _resource(desc: TensorDesc, values: list[int | float | str] | dict[str, Any]) -> dict[str, Any]:
    """A buffer of whole 4 bytes, as DirectML wants it; some versions do not read the data type from a .npy."""
    size = -(-desc.total_bytes // 4) * 4
    return {"initialValuesDataType": desc.data_type.name, "initialValues": values, "sizeInBytes": size}


def _unwritten(data_type: DataType) -> int:
    """What elements of the output are before the operator runs: a number that few tensors have, exact in FLOAT16."""
    if data_type.kind == "uint":
        return 0xCD if data_type.size == 1 else 0xCDCD
    return -123 if data_type.size == 1 else -12344


def _model(job: Job, resources: dict[str, Any], result: str) -> str:
    values, lengths = job.values.desc, job.lengths.desc
    blank = {"valueCount": values.element_count, "value": _unwritten(values.data_type)}
    roles = {INPUT: values, LENGTHS: lengths, OUTPUT: values}
    descs = {role: {"DataType": desc.data_type.name, "Sizes": list(desc.sizes)} for role, desc in roles.items()}
    operator = {"type": "DML_OPERATOR_REVERSE_SUBSEQUENCES", "desc": {**descs, "Axis": job.axis}}
    commands: list[dict[str, Any]] = [
        {"type": "dispatch", "dispatchable": "reverse", "bindings": {role: role for role in roles}},
        # Without `dimensions` the .npy would be flat. A `print` that fails ends the run, and so it comes last.
        {"type": "writeFile", "resource": OUTPUT, "targetPath": result, "dimensions": list(values.sizes)},
    ]
    if values.element_count <= SMALL:
        commands.append({"type": "print", "resource": OUTPUT})
    resources |= {OUTPUT: _resource(values, blank)}
    model = {"resources": resources, "dispatchables": {"reverse": operator}, "commands": commands}
    return json.dumps(model, indent=1) + "\n"
