"""`revseq export`: a job as a model for Microsoft's DxDispatch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from revseq_cli.commands import base, options
from revseq_cli.commands.base import Group
from revseq_cli.core.errors import RevseqError, Suggestions, UsageError

if TYPE_CHECKING:
    from revseq_cli.commands.base import Console
    from revseq_cli.operator.spec import Constraint, FeatureLevel

_LEAVES = ("--feature-level", "none")  # an option that leaves DirectML


@base.command(
    "export",
    examples=(
        'revseq export "[[1, 2, 3]]" "[[2]]" --axis 1 -o model.json',
        'revseq export "[[1, 2, 3]]" "[[2]]" --axis 1 --zip -o other.json',
    ),
)
@options.job_options
@options.level_option
@Group.WRITE.option("-o", "--output", metavar="MODEL.json", required=True, help="Write the model to this new file.")
@Group.WRITE.option(
    "--inline/--files",
    default=None,
    help="Put the values into the model or into .npy files.  [default: into the model up to 1,000 elements each]",
)
@Group.WRITE.option(
    "--zip", "zipped", is_flag=True, help="Write MODEL.zip instead, with MODEL.json and every .npy file."
)
@Group.WRITE.option(
    "--overwrite", is_flag=True, help="Replace MODEL.json and its .npy files, or MODEL.zip, if they exist."
)
@options.format_option
@options.output_options
def command(
    output: str,
    inline: bool | None,
    zipped: bool,
    overwrite: bool,
    level: FeatureLevel,
    console: Console,
    **job_options: Any,
) -> None:
    """Write a job as a model for Microsoft's DxDispatch, which runs it on DirectML itself, on Windows.

    The model contains the values of small tensors. The values of larger ones are in .npy files that must stay beside
    it: if INPUT or LENGTHS already is such a file, the model names that file; otherwise the command writes
    model.InputTensor.npy and model.SequenceLengthsTensor.npy. With --zip all of them are in one file.

    The job may come from a ReverseSequence node of an ONNX model: revseq export model.onnx::node --feed x=x.npy.

    DxDispatch writes the result to model.OutputTensor.npy, and prints it if it is small. This command prints which
    files to copy to Windows, what to type there, and how to compare the result. revseq run MODEL.json computes the same
    bits.
    """
    from revseq_cli.operator.spec import FeatureLevel, SpecError
    from revseq_cli.pipeline import jobs  # --help must not load NumPy
    from revseq_cli.porting import exports
    from revseq_cli.report import objects, tables  # --help must not load NumPy

    model = _model(output, zipped=zipped)
    if level is FeatureLevel.NONE:
        wanted = "a level of DirectML, where the model runs"
        raise UsageError("--feature-level none lifts DirectML's limits", wanted, "leave it out")
    try:
        job = jobs.load(options.request_of(for_directml=True, override=True, level=level, **job_options))
        jobs.require(job)
    except SpecError as e:
        raise SpecError(tuple(map(_within_directml, e.violations)), e.names, _for_a_model(e.choices)) from None
    except RevseqError as e:
        e.hint = _for_a_model(e.hint)
        raise
    done = exports.write(job, model, inline, zipped=zipped, overwrite=overwrite)
    console.note(*done.notes)
    if console.as_json or not console.quiet:
        click.echo((objects if console.as_json else tables).export(done))


def _within_directml(violation: Constraint) -> Constraint:
    """The violation without a hint to leave DirectML, which a model cannot."""
    leaves = " ".join(_LEAVES) in violation.hint
    return replace(violation, hint="no feature level of DirectML has it") if leaves else violation


def _for_a_model(hint: Suggestions | str) -> Suggestions | str:
    """The hint, but for choices that leave DirectML."""
    leaves = isinstance(hint, Suggestions) and any(_LEAVES in each.settings for each in hint.choices)
    return "no feature level of DirectML accepts such tensors" if leaves else hint


def _model(output: str, *, zipped: bool) -> Path:
    """The path of the model, which with `zipped` is the name of its archive but for the suffix."""
    path = Path(output)
    if zipped and path.suffix == ".zip":
        return path.with_suffix(".json")
    if path.suffix != ".json":  # DxDispatch's wrapper compares it so
        wanted = f"a name that ends in .json{' or .zip' * zipped}, in lower case"
        hint = "add --zip" if path.suffix == ".zip" else f"add -o model.{'zip' if zipped else 'json'}"
        raise UsageError("a model is JSON", wanted, hint, output)
    return path
