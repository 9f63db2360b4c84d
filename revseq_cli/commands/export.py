"""`revseq export`: a job as a model for Microsoft's DxDispatch: JSON, and .npy files beside it.

Source: DxDispatch/ in Microsoft's repository DirectML: doc/Guide.md, models/_schema.json, src/model/JsonParsers.cpp.
The .npy files are in C order and little-endian, since src/model/NpyReaderWriter.cpp refuses or ruins all others.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from revseq_cli.commands import options
from revseq_cli.commands.options import Console, Group
from revseq_cli.core import platform
from revseq_cli.core.errors import RevseqError, UsageError, printable
from revseq_cli.core.tensors import TensorDesc
from revseq_cli.operator.spec import FeatureLevel

if TYPE_CHECKING:
    from revseq_cli.formats.contract import FileSink, Source
    from revseq_cli.pipeline.jobs import Job

_UNWRITTEN = (
    119  # what elements of the output are before the operator runs, exact in all data types
)


@options.command(
    "export",
    examples=('revseq export "[[1, 2, 3]]" "[[2]]" --axis 1 -o model.json',),
)
@options.job_options
@options.level_option
@Group.WRITE.option(
    "-o", "--output", metavar="MODEL.json", required=True, help="Write the model to this new file."
)
@Group.WRITE.option(
    "--overwrite", is_flag=True, help="Replace MODEL.json and its .npy files if they exist."
)
@options.format_option
@options.output_options
def command(
    output: str, overwrite: bool, level: FeatureLevel, console: Console, **job_options: Any
) -> None:
    """Write a job as a model for Microsoft's DxDispatch, which runs it on DirectML itself, on Windows.

    The tensors are in model.InputTensor.npy and model.SequenceLengthsTensor.npy, which must stay beside the model.

    The job may come from a ReverseSequence node of an ONNX model: revseq export model.onnx::node --feed x=x.npy.

    This command prints which files to copy to Windows, what to type there, and how to compare the result here.
    DxDispatch is in https://github.com/microsoft/DirectML, in the folder DxDispatch.
    """
    from revseq_cli.operator import spec
    from revseq_cli.pipeline import passes, suggest
    from revseq_cli.pipeline.plan import Resources
    from revseq_cli.report import objects

    if platform.is_remote(output):
        raise UsageError("an address", "a file of this machine", where=output)
    if not output.endswith(".json"):  # DxDispatch compares it so
        name = platform.quoted(
            f"{output.removesuffix(Path(output).suffix).rstrip('/.') or 'model'}.json"
        )
        raise UsageError(
            "a model is JSON", "a name that ends in .json, in lower case", f"try -o {name}", output
        )
    if level is spec.FeatureLevel.NONE:
        level = spec.DIRECTML[-1]  # a model runs on DirectML in any case
    try:
        job = suggest.load(options.request_of(override=True, level=level, **job_options))
    except RevseqError as e:
        if "--feature-level none" in e.hint:
            e.hint = "no feature level of DirectML runs such a job"
        raise
    files, notes = _write(job, Path(output), overwrite=overwrite)
    counts = passes.count_lengths(job, Resources())
    console.note(*job.describe_lengths(counts.clamped, counts.least), *notes)
    result, name = _beside(Path(output), spec.OUTPUT), Path(output).name
    there = (
        f"dxdispatch.exe {name}" if re.fullmatch(r"[\w.-]+", name) else f'dxdispatch.exe "{name}"'
    )
    made, values, lengths = (platform.typed(str(path)) for path in (result, *files[1:]))
    here = f"revseq diff {made} --job {values} {lengths} --axis {job.axis}"
    if console.as_json:
        report = {"files": files, "command": there, "result": str(result), "comparison": here}
        click.echo(
            objects.text_of(objects.job(job.values.desc, job.lengths.desc, job.axis) | report)
        )
    elif not console.quiet:
        lines = [
            "wrote, to be copied into one folder on Windows:",
            *(f"  {name}" for name in files),
        ]
        lines += [
            "Type there, with DxDispatch of https://github.com/microsoft/DirectML:",
            f"  {there}",
        ]
        lines += [f"It writes {result.name}. Copy that here as {result}, and type:", f"  {here}"]
        click.echo("\n".join(map(printable, lines)))


def _beside(model: Path, role: str) -> Path:
    """The .npy file of a tensor of a model."""
    return model.with_name(f"{model.stem}.{role}.npy")


def _write(job: Job, path: Path, *, overwrite: bool) -> tuple[list[str], list[str]]:
    """Write the model of a job, and a .npy for each of its tensors; all of them or nothing.

    Returns the files, the model first, and notes.
    """
    import numpy as np

    from revseq_cli.files.new import FileTransaction, NewFile
    from revseq_cli.formats.outputs import create_sink
    from revseq_cli.formats.raw import MemorySource
    from revseq_cli.formats.references import Reference
    from revseq_cli.operator.spec import INPUT, LENGTHS
    from revseq_cli.pipeline import passes, plan

    file = NewFile(str(path), overwrite=overwrite, inputs=job.files)
    sinks: list[tuple[Source, FileSink]] = []
    for role, source in ((INPUT, job.values), (LENGTHS, job.lengths)):
        # In C order and little-endian; one element in memory.
        like = np.broadcast_to(np.zeros((), source.dtype.newbyteorder("<")), source.sizes)
        template = MemorySource(source.name, like, source.storage)
        beside = Reference(str(_beside(path, role)))
        sinks.append((source, create_sink(beside, template, overwrite=overwrite, inputs=job.files)))
    with FileTransaction(
        *(sink.file for _, sink in sinks), file
    ) as together:  # the model gets its name last
        for source, sink in sinks:
            with sink:
                passes.copy(source, sink, plan.plan_pass(source, sink, plan.Resources()))
        job.recheck()
        file.write(_model(job, path).encode())
    return [file.name, *(sink.file.name for _, sink in sinks)], [*together.notes]


def _model(job: Job, path: Path) -> str:
    from revseq_cli.operator.spec import INPUT, LENGTHS, OUTPUT

    def resource(desc: TensorDesc, values: dict[str, Any]) -> dict[str, Any]:
        """A buffer of whole 4 bytes, as DirectML wants it; some versions do not read the data type from a .npy."""
        size = -(-desc.total_bytes // 4) * 4
        return {
            "initialValuesDataType": desc.data_type.name,
            "initialValues": values,
            "sizeInBytes": size,
        }

    values = job.values.desc
    descs = {INPUT: values, LENGTHS: job.lengths.desc, OUTPUT: values}
    resources = {
        role: resource(descs[role], {"sourcePath": _beside(path, role).name})
        for role in (INPUT, LENGTHS)
    }
    resources[OUTPUT] = resource(values, {"valueCount": values.element_count, "value": _UNWRITTEN})
    tensors = {
        role: {"DataType": desc.data_type.name, "Sizes": list(desc.sizes)}
        for role, desc in descs.items()
    }
    operator = {"type": "DML_OPERATOR_REVERSE_SUBSEQUENCES", "desc": {**tensors, "Axis": job.axis}}
    target, sizes = _beside(path, OUTPUT).name, list(values.sizes)
    commands = [
        {"type": "dispatch", "dispatchable": "reverse", "bindings": {role: role for role in descs}},
        # Without `dimensions` the .npy would be flat.
        {"type": "writeFile", "resource": OUTPUT, "targetPath": target, "dimensions": sizes},
    ]
    model = {"resources": resources, "dispatchables": {"reverse": operator}, "commands": commands}
    return json.dumps(model, indent=1) + "\n"
