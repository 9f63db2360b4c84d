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
from click.core import ParameterSource

from revseq_cli.commands import base, options
from revseq_cli.commands.base import Group
from revseq_cli.core import platform
from revseq_cli.core.errors import RevseqError, UsageError, printable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from revseq_cli.commands.base import Console
    from revseq_cli.core.tensors import DataType, TensorDesc
    from revseq_cli.formats.contract import FileSink, Source
    from revseq_cli.operator.spec import FeatureLevel
    from revseq_cli.pipeline.assembly import Job

_SMALL = 1000  # elements of a tensor that stands in the model itself, and of a result that DxDispatch also prints
_NOT_OF_JOB = ("output", "overwrite", "level", "as_json", "quiet", "verbose", "color", "input", "lengths")


@base.command(
    "export",
    examples=('revseq export "[[1, 2, 3]]" "[[2]]" --axis 1 -o model.json',),
)
@options.job_options
@options.level_option
@Group.WRITE.option("-o", "--output", metavar="MODEL.json", required=True, help="Write the model to this new file.")
@Group.WRITE.option("--overwrite", is_flag=True, help="Replace MODEL.json and its .npy files if they exist.")
@options.format_option
@options.output_options
def command(output: str, overwrite: bool, level: FeatureLevel, console: Console, **job_options: Any) -> None:
    """Write a job as a model for Microsoft's DxDispatch, which runs it on DirectML itself, on Windows.

    The model contains the values of tensors of up to 1,000 elements. Those of larger ones are in
    model.InputTensor.npy and model.SequenceLengthsTensor.npy, which must stay beside it.

    The job may come from a ReverseSequence node of an ONNX model: revseq export model.onnx::node --feed x=x.npy.

    This command prints which files to copy to Windows, what to type there, and how to compare the result here.
    DxDispatch is in https://github.com/microsoft/DirectML, in the folder DxDispatch.
    """
    from revseq_cli.operator import spec
    from revseq_cli.pipeline import jobs, summaries
    from revseq_cli.pipeline.plan import Resources
    from revseq_cli.report import objects

    if not output.endswith(".json"):  # DxDispatch compares it so
        name = platform.quoted(f"{output.removesuffix(Path(output).suffix).rstrip('/.') or 'model'}.json")
        raise UsageError("a model is JSON", "a name that ends in .json, in lower case", f"try -o {name}", output)
    if level is spec.FeatureLevel.NONE:
        level = spec.DIRECTML[-1]  # a model runs on DirectML in any case
    try:
        job = jobs.load(options.request_of(override=True, level=level, **job_options))
        jobs.require(job)
    except RevseqError as e:
        if "--feature-level none" in e.hint:
            e.hint = "no feature level of DirectML runs such a job"
        raise
    result = Path(output).with_name(f"{Path(output).stem}.{spec.OUTPUT}.npy")
    files, notes = _write(job, output, result.name, overwrite=overwrite)
    console.note(*job.notes, *job.clamping(summaries.count_lengths(job, Resources()).clamped), *notes)
    there = _on_windows(Path(output).name)
    here = f"revseq diff {platform.typed(str(result))} --job {_typed_job()}"
    if console.as_json:
        report = {**objects.job(job.values.desc, job.lengths.desc, job.axis), "output": files[0]}
        report |= {"files": files, "result": str(result), "command": there, "comparison": here}
        click.echo(objects.text_of({**report, "notes": job.notes}))
    elif not console.quiet:
        lines = ["wrote, to be copied into one folder on Windows:", *(f"  {name}" for name in files)]
        lines += ["Type there, with DxDispatch of https://github.com/microsoft/DirectML:", f"  {there}"]
        lines += [f"It writes {result.name}. Copy that here as {result}, and type:", f"  {here}"]
        click.echo("\n".join(map(printable, lines)))


def _on_windows(name: str) -> str:
    """What to type there, in the folder of the model: DxDispatch writes results into the current folder."""
    name = f".\\{name}" if name.startswith("-") else name  # or it would be an option
    return f"dxdispatch.exe {name}" if re.fullmatch(r"[\w.\\-]+", name) else f'dxdispatch.exe "{name}"'


def _typed_job() -> str:
    """INPUT, LENGTHS and the options of the job as they were typed."""
    context = click.get_current_context()
    tensors = [context.params[name] for name in ("input", "lengths") if context.params[name] is not None]
    words = [platform.quoted(text) if text.startswith("[") else platform.typed(text) for text in tensors]
    for option in context.command.params:
        is_typed = context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
        if not is_typed or option.name in _NOT_OF_JOB:
            continue
        value, word = context.params[option.name or ""], max(option.opts, key=len)
        values = value if isinstance(value, tuple) and option.multiple else [value]
        words += [word if value is True else f"{word} {platform.quoted(_word(value))}" for value in values]
    return " ".join(words)


def _word(value: object) -> str:
    if isinstance(value, tuple):  # sizes
        return "x".join(map(str, value))
    return str(getattr(value, "name", value))


def _write(job: Job, path: str, result: str, *, overwrite: bool) -> tuple[list[str], list[str]]:
    """Write the model of a job, and a .npy for each tensor that does not stand in the model; all of them or nothing.

    `result` is the name of the file that the model will write. Returns the files, the model first, and notes.
    """
    import numpy as np

    from revseq_cli.formats.atomic_file import AtomicFile, FileTransaction
    from revseq_cli.formats.in_memory import MemorySource
    from revseq_cli.formats.references import Reference, create_sink
    from revseq_cli.operator.spec import INPUT, LENGTHS
    from revseq_cli.pipeline import plan, tasks

    model = Path(path)
    sinks: list[tuple[Source, FileSink]] = []
    resources: dict[str, Any] = {}
    file = AtomicFile(path, overwrite=overwrite, inputs=job.files)
    for role, source in ((INPUT, job.values), (LENGTHS, job.lengths)):
        numbers = _numbers(source.read()) if source.desc.element_count <= _SMALL else None
        if numbers is not None:
            resources[role] = _resource(source.desc, numbers)
            continue
        beside = model.with_name(f"{model.stem}.{role}.npy")
        # In C order and little-endian; one element in memory.
        like = np.broadcast_to(np.zeros((), source.dtype.newbyteorder("<")), source.sizes)
        template = MemorySource(source.name, like, source.storage)
        sink = create_sink(Reference(str(beside)), template, overwrite=overwrite, inputs=job.files)
        sinks.append((source, sink))
        resources[role] = _resource(source.desc, {"sourcePath": beside.name})
    with FileTransaction(*(sink.file for _, sink in sinks), file) as together:  # the model gets its name last
        for source, sink in sinks:
            with sink:
                tasks.copy(source, sink, plan.plan_copy(source, plan.Resources(), sink))
        job.recheck()
        file.write(_model(job, resources, result).encode())
    return [file.name, *(sink.file.name for _, sink in sinks)], [*together.notes]


def _numbers(values: NDArray[Any]) -> list[int | float | str] | None:
    """The values for JSON; None where it cannot hold them: it has no text for a NaN of other bits than the usual one.

    Floats are FLOAT64, whose text gives the narrower types exactly however a reader rounds.
    """
    import numpy as np

    from revseq_cli.core.dtypes import bits

    if values.dtype.kind != "f":
        return values.ravel().tolist()
    if np.any(bits(values[np.isnan(values)]) != bits(np.array(np.nan, values.dtype))):
        return None
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
    from revseq_cli.operator.spec import INPUT, LENGTHS, OUTPUT

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
    if values.element_count <= _SMALL:
        commands.append({"type": "print", "resource": OUTPUT})
    resources |= {OUTPUT: _resource(values, blank)}
    model = {"resources": resources, "dispatchables": {"reverse": operator}, "commands": commands}
    return json.dumps(model, indent=1) + "\n"
