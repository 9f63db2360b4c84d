"""`revseq check`: a job against every constraint of a feature level, or of all levels."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from revseq_cli.commands import base, options, pictures
from revseq_cli.commands.base import Group, room_for_tensors
from revseq_cli.core.errors import UsageError

if TYPE_CHECKING:
    from revseq_cli.commands.base import Console
    from revseq_cli.formats.onnx.models import Model
    from revseq_cli.operator.spec import FeatureLevel
    from revseq_cli.report.results import NodeCheck


@base.command(
    "check",
    examples=(
        'revseq check "[[1, 2, 3], [4, 5, 6]]" "[[2], [3]]" --axis 1',
        'revseq check "[[1, 2, 3]]" "[[2]]" --axis 1 --feature-level all',
    ),
)
@options.job_options
@options.levels_option
@Group.PRINT.option("--all", "every", is_flag=True, help="Also print the constraints that pass.")
@pictures.example_option
@options.full_option
@options.format_option
@options.output_options
def command(
    every: bool,
    example: bool,
    full: bool,
    levels: tuple[FeatureLevel, ...],
    console: Console,
    **job_options: Any,
) -> int:
    """Check a job against every constraint of a feature level, or of all levels.

    Name INPUT and LENGTHS as in revseq run. A complete job needs no LENGTHS: an example with an Axis, or
    model.onnx::node, a ReverseSequence node. Without --feed, the command infers the sizes and data types of
    the node. If a model has several such nodes and you name none, it checks each and prints a line for it.

    The report begins with the verdict. Each constraint that fails follows, with the wanted value and a hint; --all adds
    those that pass. Then comes the job: the axis, the batch axis, the numbers of lengths that are clamped and that
    change nothing, and the lowest feature level that accepts the tensors.

    If every constraint holds, --example prints the job as a complete example instead of the report.

    With --feature-level all, a table shows pass or FAIL for every constraint at every level. Constraints that fail at
    all of DirectML's levels stand below it.

    The exit status is 0 if every constraint holds, and 1 if one fails. With --feature-level all it is 0 if one of
    DirectML's levels accepts the job.
    """
    from revseq_cli.formats import textfiles
    from revseq_cli.operator import spec  # --help must not load NumPy
    from revseq_cli.pipeline import (
        jobs,  # --help must not load NumPy
        reversal,  # --help must not load NumPy
    )
    from revseq_cli.pipeline.arrangement import Resources
    from revseq_cli.report import checks, objects, view  # --help must not load NumPy

    if example and console.as_json:
        raise UsageError("--example prints the job as text", "no --json with it", "leave out --json")
    if example and len(levels) > 1:
        raise UsageError("--example is for one feature level", "no --feature-level all", "try --feature-level 5_0")
    model = None if example else _model_of(job_options)  # in use from here on, and so parsed once
    if model and (nodes := _several_in(model)):
        return _check_each(nodes, levels, console, job_options)
    level = levels[0] if len(levels) == 1 else spec.DIRECTML[-1]
    job = jobs.load(options.request_of(override=True, level=level, inferred=not example, **job_options))
    values, lengths = job.values.desc, job.lengths.desc
    if len(levels) == 1 and job.parts:  # a system may have none of DirectML's
        level = job.parts.request.level
        levels = (level,)
    constraints = {level: spec.constraints(values, lengths, job.axis, level) for level in levels}
    if example and not spec.broken(constraints[levels[0]]):
        textfiles.require_text(values, job.values.name)
        output, _ = reversal.reversed_in_memory(job, Resources())
        room = room_for_tensors(full=full, whole_rows=True)
        click.echo(view.example_text(job.values, job.lengths, job.axis, output, room, console.marks), color=True)
        return 0
    result = pictures.result_of(job, constraints, Resources())
    if not result.valid:
        result = result._replace(choices=jobs.choices_for(job, spec.broken(constraints[level])))
    if console.as_json:
        click.echo(objects.check(result))
    elif not console.quiet:
        checks.print_check(result, sys.argv[1:], every=every, color=console.colored)
    return 0 if result.valid else 1


def _model_of(job_options: dict[str, Any]) -> Model | None:
    """The model of ONNX whose nodes are to be checked; None for one node of it, and for anything else."""
    from revseq_cli.formats.references import Reference

    reference = Reference.input(job_options["input"], job_options["format_name"], override=True)
    if not reference.is_onnx_model or reference.key is not None:
        return None
    from revseq_cli.formats.onnx.models import Model  # few files are models

    return Model.open(reference.path)


def _several_in(model: Model) -> list[str]:
    """The nodes of a model, as they are typed; none where there is only one."""
    told = model.told() if model.nodes else {}  # without nodes of its own, it is refused as a whole
    return [f"{model.path}::{key}" for key in told] if len(told) > 1 else []


def _check_each(
    nodes: list[str],
    levels: tuple[FeatureLevel, ...],
    console: Console,
    job_options: dict[str, Any],
) -> int:
    """Check the nodes of a model one after the other, and print a line for each; 1 if one fails."""
    from revseq_cli.report import checks, objects

    found = [_check_of(node, levels, job_options) for node in nodes]
    status = 0 if all(each.ok for each in found) else 1
    if console.as_json:
        click.echo(objects.checks(found, status))
    elif not console.quiet:
        checks.print_nodes(found, color=console.colored)
    return status


def _check_of(node: str, levels: tuple[FeatureLevel, ...], job_options: dict[str, Any]) -> NodeCheck:
    """What is found of a node."""
    from revseq_cli.core.errors import RevseqError
    from revseq_cli.operator import spec
    from revseq_cli.pipeline import jobs
    from revseq_cli.pipeline.arrangement import Resources
    from revseq_cli.report.results import NodeCheck

    level = levels[0] if len(levels) == 1 else spec.DIRECTML[-1]
    try:
        asked = {**job_options, "input": node}
        job = jobs.load(options.request_of(override=True, level=level, inferred=True, **asked))
        constraints = {each: spec.constraints(job.values.desc, job.lengths.desc, job.axis, each) for each in levels}
        return NodeCheck(node, pictures.result_of(job, constraints, Resources()), None)
    except RevseqError as e:
        return NodeCheck(node, None, e)
