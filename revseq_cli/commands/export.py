"""`revseq export`: a job as a model for Microsoft's DxDispatch."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from revseq_cli import files
from revseq_cli.commands import options
from revseq_cli.commands.options import Console, Group
from revseq_cli.core import platform
from revseq_cli.core.errors import RevseqError, UsageError, printable
from revseq_cli.operator.spec import FeatureLevel


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
@options.input_format_option
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
    from revseq_cli.porting.dxdispatch import write_model
    from revseq_cli.report import objects

    output = files.require_path(output)
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
    written, result, notes = write_model(job, Path(output), overwrite=overwrite)
    counts = passes.count_lengths(job, Resources())
    console.note(*job.describe_lengths(counts.clamped, counts.least), *notes)
    name = Path(output).name
    argument = f".\\{name}" if name.startswith("-") else name  # else it would be an option there
    if not re.fullmatch(r"[\w.\\-]+", argument):
        argument = f'"{argument}"'
    there = f"dxdispatch.exe {argument}"
    made, values, lengths = (platform.typed(str(path)) for path in (result, *written[1:]))
    here = f"revseq diff {made} --job {values} {lengths} --axis {job.axis}"
    if console.as_json:
        report = {"files": written, "command": there, "result": str(result), "comparison": here}
        click.echo(
            objects.text_of(objects.job(job.values.desc, job.lengths.desc, job.axis) | report)
        )
    elif not console.quiet:
        lines = [
            "wrote, to be copied into one folder on Windows:",
            *(f"  {name}" for name in written),
        ]
        lines += [
            "Type there, with DxDispatch of https://github.com/microsoft/DirectML:",
            f"  {there}",
        ]
        lines += [f"It writes {result.name}. Copy that here as {result}, and type:", f"  {here}"]
        click.echo("\n".join(map(printable, lines)))
