"""`revseq export`: a job as a model for Microsoft's DxDispatch."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from revseq_cli.commands import base, options
from revseq_cli.commands.base import Group
from revseq_cli.core import system
from revseq_cli.core.errors import RevseqError, UsageError, printable

if TYPE_CHECKING:
    from revseq_cli.commands.base import Console
    from revseq_cli.operator.spec import FeatureLevel

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
    from revseq_cli.porting import export
    from revseq_cli.report import objects

    if not output.endswith(".json"):  # DxDispatch compares it so
        name = system.quoted(f"{output.removesuffix(Path(output).suffix).rstrip('/.') or 'model'}.json")
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
    files, notes = export.write(job, output, result.name, overwrite=overwrite)
    console.note(*job.notes, *job.clamping(summaries.count_lengths(job, Resources()).clamped), *notes)
    there = _on_windows(Path(output).name)
    here = f"revseq diff {system.typed(str(result))} --job {_typed_job()}"
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
    words = [system.quoted(text) if text.startswith("[") else system.typed(text) for text in tensors]
    for option in context.command.params:
        is_typed = context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
        if not is_typed or option.name in _NOT_OF_JOB:
            continue
        value, word = context.params[option.name or ""], max(option.opts, key=len)
        values = value if isinstance(value, tuple) and option.multiple else [value]
        words += [word if value is True else f"{word} {system.quoted(_word(value))}" for value in values]
    return " ".join(words)


def _word(value: object) -> str:
    if isinstance(value, tuple):  # sizes
        return "x".join(map(str, value))
    return str(getattr(value, "name", value))
