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
    from revseq_cli.operator.spec import FeatureLevel


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
    model.onnx::node, a ReverseSequence node. Without --feed, the command prints a line for each ReverseSequence node of
    a model, which it checks by the sizes and the data type that the model states or that follow from it.

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
    from revseq_cli.formats.references import Reference
    from revseq_cli.operator import spec  # --help must not load NumPy
    from revseq_cli.pipeline import (
        jobs,  # --help must not load NumPy
        reversal,  # --help must not load NumPy
    )
    from revseq_cli.pipeline.plan import Resources
    from revseq_cli.report import checks, objects, view  # --help must not load NumPy

    if example and console.as_json:
        raise UsageError("--example prints the job as text", "no --json with it", "leave out --json")
    if example and len(levels) > 1:
        raise UsageError("--example is for one feature level", "no --feature-level all", "try --feature-level 5_0")
    reference = Reference.input(job_options["input"], job_options["format_name"], override=True)
    if reference.is_onnx_model and not (example or job_options["feed"] or job_options["lengths"]):
        return _check_nodes(reference.path, reference.key, levels, console)
    level = levels[0] if len(levels) == 1 else spec.DIRECTML[-1]
    job = jobs.load(options.request_of(override=True, level=level, **job_options))
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


def _check_nodes(path: str, key: str | None, levels: tuple[FeatureLevel, ...], console: Console) -> int:
    """Check nodes of a model by what is known of their values, and print a line for each; 1 if one fails."""
    from revseq_cli.core.errors import FormatError, printable
    from revseq_cli.core.tensors import DataType, TensorDesc
    from revseq_cli.formats.onnx_models import Model
    from revseq_cli.operator import spec
    from revseq_cli.report import objects

    model = Model(path)
    nodes = [model.node(key)] if key is not None else [*model.nodes.values()] or [model.node(None)]
    lines, rows = [], []
    for node in nodes:
        known, lowest = model.known_of(node), None
        # Of what is not known, anything that fits is assumed: dimensions that have the axes, sizes of 1, FLOAT32.
        open_sizes = (1,) * (node.ranks() or [2])[0] if known.sizes is None else known.sizes
        sizes = tuple(size if isinstance(size, int) else 1 for size in open_sizes)
        try:
            axis, _ = node.axes(len(sizes), path)
        except FormatError as e:
            told, is_valid = e.found, False
        else:
            values = TensorDesc(known.data_type or DataType.FLOAT32, sizes)
            lengths = TensorDesc(DataType.UINT32, spec.lengths_sizes(sizes, axis))
            lowest = spec.lowest_level(values, lengths, axis)
            broken = min((spec.violations(values, lengths, axis, level) for level in levels), key=len)
            told, is_valid = "; ".join(f"{each.label()}: {each.found}" for each in broken), not broken
        if is_valid:
            told = f"accepted from {lowest} on" if lowest else "no feature level of DirectML accepts it"
        if known.data_type is DataType.BOOL:
            told += "; revseq export takes it with --dtype UINT8, which has the same bytes"
        lines.append(f"{'pass' if is_valid else 'FAIL'}  {path}::{node.key}: {model.told(node)}: {told}")
        of_model = {"time_axis": node.time_axis, "batch_axis": node.batch_axis, "inside": node.inside or None}
        stated = {"DataType": known.data_type and known.data_type.name, "Sizes": known.sizes}
        verdict = {"valid": is_valid, "lowest_level": lowest and lowest.short, "told": told}
        rows.append({"name": f"{path}::{node.key}", **of_model, **stated, **verdict})
    status = 0 if all(row["valid"] for row in rows) else 1
    if console.as_json:
        click.echo(objects.text_of({"command": "check", "exit_status": status, "nodes": rows}))
    elif not console.quiet:
        click.echo("\n".join(map(printable, lines)))
    return status
