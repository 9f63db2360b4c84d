"""`revseq check`: a job against every constraint of the operator, and of a feature level."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from revseq_cli.commands import base, options
from revseq_cli.commands.base import Group

if TYPE_CHECKING:
    from revseq_cli.commands.base import Console
    from revseq_cli.operator.spec import FeatureLevel
    from revseq_cli.pipeline.assembly import Job
    from revseq_cli.report.results import Check


@base.command(
    "check",
    examples=(
        'revseq check "[[1, 2, 3], [4, 5, 6]]" "[[2], [3]]" --axis 1',
        'revseq check "[[1, 2, 3]]" "[[2]]" --axis 1 --feature-level 4_0',
    ),
)
@options.job_options
@options.level_option
@Group.PRINT.option("--all", "every", is_flag=True, help="Also print the constraints that pass.")
@options.format_option
@options.output_options
def command(every: bool, level: FeatureLevel, console: Console, **job_options: Any) -> int:
    """Check a job against every constraint of the operator, or of a feature level of DirectML.

    Name INPUT and LENGTHS as in revseq run. The report begins with the verdict. Each constraint that fails follows,
    with the wanted value and a hint; --all adds those that pass. Then comes the job: the axis, the batch axis, the
    range of the lengths, how many of them are clamped or change nothing, and the lowest feature level that accepts it.

    An example with an Axis, and model.onnx::node, a ReverseSequence node, need no LENGTHS. Without --feed, the command
    prints a line for each ReverseSequence node of a model, which it checks by the sizes and the data type that the
    model states or that follow from it.

    The exit status is 0 if every constraint holds, and 1 if one fails.
    """
    from revseq_cli.formats.references import Reference
    from revseq_cli.pipeline import jobs  # --help must not load NumPy
    from revseq_cli.report import checks, objects

    reference = Reference.input(job_options["input"], job_options["format_name"], override=True)
    if reference.is_onnx_model and not (job_options["feed"] or job_options["lengths"]):
        return _check_nodes(reference.path, reference.key, level, console)
    result = _result_of(jobs.load(options.request_of(override=True, level=level, **job_options)))
    if console.as_json:
        click.echo(objects.check(result))
    elif not console.quiet:
        checks.print_check(result, every=every, color=console.colored)
    return 0 if result.valid else 1


def _result_of(job: Job) -> Check:
    """What is told of a job; its lengths are read."""
    from dataclasses import replace

    from revseq_cli.core.tensors import DataType
    from revseq_cli.operator import spec
    from revseq_cli.pipeline import jobs, summaries
    from revseq_cli.pipeline.plan import Resources
    from revseq_cli.report.results import Check

    values, lengths, axis = job.descs
    lowest = spec.lowest_level(values, lengths, axis)
    with_cast = None
    if lowest in (None, spec.FeatureLevel.NONE) and lengths.data_type.kind in ("int", "uint", "float"):
        cast = spec.lowest_level(values, replace(lengths, data_type=DataType.UINT32), axis)
        with_cast = None if cast is spec.FeatureLevel.NONE else cast
    # Lengths that no level accepts have no effects to count.
    counts = summaries.count_lengths(job, Resources()) if lowest is not None else None
    constraints = spec.constraints(values, lengths, axis, job.level)
    hint = jobs.suggestion(job) if spec.broken(constraints) else ""
    notes = (*job.notes, *job.absent_notes())
    return Check(
        job.names, values, lengths, axis, job.level, constraints, lowest, counts, job.batch_axis, notes, hint, with_cast
    )


def _check_nodes(path: str, key: str | None, level: FeatureLevel, console: Console) -> int:
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
            broken = spec.violations(values, lengths, axis, level)
            told, is_valid = "; ".join(f"{each.label()}: {each.found}" for each in broken), not broken
        if is_valid:
            has_level = lowest not in (None, spec.FeatureLevel.NONE)
            told = f"accepted from {lowest} on" if has_level else "no feature level of DirectML accepts it"
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
