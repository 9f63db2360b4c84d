"""A job as a model for Microsoft's DxDispatch: JSON, and .npy files next to it.

Source: DxDispatch/ in Microsoft's repository DirectML: doc/Guide.md, models/_schema.json,
src/model/JsonParsers.cpp. The .npy files are in C order and little-endian, since
src/model/NpyReaderWriter.cpp refuses or ruins all others.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from revseq_cli.core.tensors import TensorDesc
from revseq_cli.files.new import NewLocalFile
from revseq_cli.files.transactions import FileTransaction
from revseq_cli.formats.contract import FileSink, Source
from revseq_cli.formats.memory import MemorySource
from revseq_cli.formats.outputs import create_sink
from revseq_cli.formats.references import Reference
from revseq_cli.operator.spec import INPUT, LENGTHS, OUTPUT
from revseq_cli.pipeline import passes
from revseq_cli.pipeline.jobs import Job
from revseq_cli.pipeline.plan import plan_pass
from revseq_cli.pipeline.resources import Resources

_UNWRITTEN = 119  # in the output before the operator runs; exact in all data types


class WrittenModel(NamedTuple):
    """What was written, the model first, the output that DxDispatch will write, and notes."""

    files: list[str]
    result: Path
    notes: list[str]


def _name_npy(model: Path, role: str) -> Path:
    """The .npy file of a tensor of a model."""
    return model.with_name(f"{model.stem}.{role}.npy")


def write_model(job: Job, path: Path, *, overwrite: bool) -> WrittenModel:
    """Write the model of a job, and a .npy for each of its tensors; all of them or nothing."""
    file = NewLocalFile(str(path), overwrite=overwrite, inputs=job.files)
    sinks: list[tuple[Source, FileSink]] = []
    for role, source in ((INPUT, job.values), (LENGTHS, job.lengths)):
        target = Reference(str(_name_npy(path, role)))
        template = _make_template(source)
        sinks.append((source, create_sink(target, template, overwrite=overwrite, inputs=job.files)))
    npy_files = [sink.file for _, sink in sinks]
    with FileTransaction(*npy_files, file) as transaction:  # the model gets its name last
        for source, sink in sinks:
            with sink:
                passes.copy(source, sink, plan_pass(source, sink, Resources()))
        job.recheck()
        file.write(_make_model(job, path).encode())
    names = [file.name, *(npy.name for npy in npy_files)]
    return WrittenModel(names, _name_npy(path, OUTPUT), [*transaction.notes])


def _make_template(source: Source) -> MemorySource:
    """A tensor like the source in C order and little-endian, which takes one element of memory."""
    zero = np.zeros((), source.dtype.newbyteorder("<"))
    return MemorySource(source.name, np.broadcast_to(zero, source.sizes), source.storage)


def _make_model(job: Job, path: Path) -> str:
    """The text of the model."""
    values = job.values.desc
    descs = {INPUT: values, LENGTHS: job.lengths.desc, OUTPUT: values}
    resources: dict[str, Any] = {}
    tensors: dict[str, Any] = {}
    for role, desc in descs.items():
        initial: dict[str, Any] = {"sourcePath": _name_npy(path, role).name}
        if role == OUTPUT:
            initial = {"valueCount": desc.element_count, "value": _UNWRITTEN}
        resources[role] = _make_resource(desc, initial)
        tensors[role] = {"DataType": desc.data_type.name, "Sizes": list(desc.sizes)}
    operator = {"type": "DML_OPERATOR_REVERSE_SUBSEQUENCES", "desc": {**tensors, "Axis": job.axis}}
    dispatch = {
        "type": "dispatch",
        "dispatchable": "reverse",
        "bindings": {role: role for role in descs},
    }
    write = {
        "type": "writeFile",
        "resource": OUTPUT,
        "targetPath": _name_npy(path, OUTPUT).name,
        "dimensions": list(values.sizes),  # without them the .npy would be flat
    }
    model = {
        "resources": resources,
        "dispatchables": {"reverse": operator},
        "commands": [dispatch, write],
    }
    return json.dumps(model, indent=1) + "\n"


def _make_resource(desc: TensorDesc, values: dict[str, Any]) -> dict[str, Any]:
    """A buffer of whole 4 bytes, as DirectML expects it.

    Some versions do not read the data type from a .npy, so the model has it.
    """
    return {
        "initialValuesDataType": desc.data_type.name,
        "initialValues": values,
        "sizeInBytes": -(-desc.total_bytes // 4) * 4,
    }
