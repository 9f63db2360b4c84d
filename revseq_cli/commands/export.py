"""`revseq export`: a job as a model for Microsoft's DxDispatch."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from revseq_cli import files
from revseq_cli.commands import options
from revseq_cli.commands.console import Console
from revseq_cli.commands.groups import Group, make_command
from revseq_cli.core import platform
from revseq_cli.core.errors import RevseqError, UsageError, printable
from revseq_cli.operator.spec import FeatureLevel


@make_command(
    "export",
    examples=('revseq export "[[1, 2, 3]]" "[[2]]" --axis 1 -o model.json',),
)
@options.job_parameters
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
    output: str, overwrite: bool, level: FeatureLevel, console: Console, **job_parameters: Any
) -> None:
    """Write a job as a model for Microsoft's DxDispatch, which runs it on DirectML under Windows.

    The tensors go into model.InputTensor.npy and model.SequenceLengthsTensor.npy, which must stay
    next to the model.

    The job may be a ReverseSequence node of an ONNX model: revseq export model.onnx::node
    --feed x=x.npy.

    The command prints which files to copy to Windows, what to type there, and how to compare the
    result afterwards. Get DxDispatch from
    https://github.com/microsoft/DirectML/tree/master/DxDispatch.
    """
    from revseq_cli.operator import spec
    from revseq_cli.pipeline import loading, passes
    from revseq_cli.pipeline.resources import Resources
    from revseq_cli.porting.dxdispatch import write_model
    from revseq_cli.porting.verdicts import list_departures
    from revseq_cli.report import objects

    output = files.require_path(output)
    _require_json_name(output)
    if level is spec.FeatureLevel.NONE:
        level = spec.DIRECTML[-1]  # a model runs on DirectML in any case
    try:
        job = loading.load_job(
            options.make_request(forces_format=True, level=level, **job_parameters)
        )
    except RevseqError as e:
        if "--feature-level none" in e.hint:
            e.set_hint("no feature level of DirectML runs such a job")
        raise
    counts = passes.count_lengths(job, Resources())
    departures = [*list_departures(job, counts, level)]
    console.note(*(f"DirectML itself, {departure}" for departure in departures))
    written, result, notes = write_model(job, Path(output), overwrite=overwrite)
    console.note(*job.describe_lengths(0, counts.least), *notes)
    there = _write_windows_command(Path(output).name)
    _, values, lengths = map(platform.as_argument, written)
    result_file = platform.as_argument(str(result))
    here = f"revseq diff {result_file} --job {values} {lengths} --axis {job.axis}"
    if console.as_json:
        record = objects.ExportRecord(
            **objects.describe_job(job),
            files=written,
            dxdispatch=there,
            result=str(result),
            comparison=here,
            directml=departures,
        )
        console.report(record)
        return
    if console.quiet:
        return
    lines = [
        "Copy these files into one folder on Windows:",
        *(f"  {path}" for path in written),
        "Run there, with DxDispatch (https://github.com/microsoft/DirectML):",
        f"  {there}",
        f"It writes {result.name}. Copy that file back here, as",
        f"  {result}",
        "and run:",
        f"  {here}",
    ]
    click.echo("\n".join(map(printable, lines)))


def _require_json_name(output: str) -> None:
    """UsageError for a name that DxDispatch does not take for JSON: .JSON, too."""
    if output.endswith(".json"):
        return
    stem = output.removesuffix(Path(output).suffix).rstrip("/.") or "model"
    name = platform.quote(f"{stem}.json")
    expected = "a name that ends in .json, in lower case"
    raise UsageError("a model is JSON", expected, f"to write it, add -o {name}", output)


def _write_windows_command(name: str) -> str:
    """What to type on Windows to run the model of that name."""
    argument = name
    if name.startswith("-"):
        argument = f".\\{name}"  # else it would be an option there
    if not re.fullmatch(r"[\w.\\-]+", argument):
        argument = f'"{argument}"'
    return f"dxdispatch.exe {argument}"
