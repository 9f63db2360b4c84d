"""`revseq check`: a job against every constraint of the operator, and of a feature level."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from revseq_cli.commands import base, options
from revseq_cli.commands.base import Group
from revseq_cli.core.errors import printable
from revseq_cli.operator.spec import INPUT, LENGTHS, FeatureLevel, broken
from revseq_cli.report import terminal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from revseq_cli.commands.base import Console
    from revseq_cli.core.tensors import DataType, TensorDesc
    from revseq_cli.operator.spec import Constraint
    from revseq_cli.pipeline.assembly import Job
    from revseq_cli.report.objects import Check


_COLUMN = 23  # where the text begins behind the names of tensors and the like


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
    from revseq_cli.report import objects

    reference = Reference.input(job_options["input"], job_options["format_name"], override=True)
    if reference.is_onnx_model and not (job_options["feed"] or job_options["lengths"]):
        return _check_nodes(reference.path, reference.key, level, job_options["lengths_dtype"], console)
    result = _result_of(jobs.load(options.request_of(override=True, level=level, **job_options)))
    if console.as_json:
        click.echo(objects.check(result))
    elif not console.quiet:
        print_result(result, every=every, color=console.colored)
    return 0 if result.valid else 1


def _result_of(job: Job) -> Check:
    """What is told of a job; its lengths are read."""
    from revseq_cli.operator import spec
    from revseq_cli.pipeline import jobs, summaries
    from revseq_cli.pipeline.plan import Resources
    from revseq_cli.report.objects import Check

    values, lengths, axis = job.descs
    lowest = spec.lowest_level(values, lengths, axis)
    with_cast = _with_cast(values, lengths, axis, lowest)
    # Lengths that no level accepts have no effects to count.
    counts = summaries.count_lengths(job, Resources()) if lowest is not None else None
    constraints = spec.constraints(values, lengths, axis, job.level)
    hint = jobs.suggestion(job) if spec.broken(constraints) else ""
    notes = (*job.notes, *job.absent_notes())
    return Check(
        job.names, values, lengths, axis, job.level, constraints, lowest, counts, job.batch_axis, notes, hint, with_cast
    )


def _with_cast(values: TensorDesc, lengths: TensorDesc, axis: int, lowest: FeatureLevel | None) -> FeatureLevel | None:
    """The lowest level of DirectML that takes the tensors with lengths of UINT32; None where that does not help."""
    from dataclasses import replace

    from revseq_cli.core.tensors import DataType
    from revseq_cli.operator import spec

    if lowest not in (None, FeatureLevel.NONE) or lengths.data_type.kind not in ("int", "uint", "float"):
        return None
    cast = spec.lowest_level(values, replace(lengths, data_type=DataType.UINT32), axis)
    return None if cast is FeatureLevel.NONE else cast


def print_result(check: Check, *, every: bool, color: bool) -> None:
    """Print the verdict, what fails and, with `every`, what passes; then the job."""
    console = terminal.console(color=color)
    width = console.width
    lines = _failing(broken(check.constraints), check.hint, width)
    lines += [line for c in check.constraints if c.ok and every for line in _headline(c, width)]
    terminal.print_lines(console, [_verdict(check)], terminal.GOOD if check.valid else terminal.BAD)
    terminal.print_lines(console, ["", *lines] if lines else [], marked=True)
    terminal.print_lines(console, ["", *_job(check, width)])


def _verdict(check: Check) -> str:
    """Whether the level accepts the job, and how many constraints fail or hold."""
    count, failing = len(check.constraints), len(broken(check.constraints))
    by = "the operator" if check.level is FeatureLevel.NONE else str(check.level)
    if failing:
        return f"{by} refuses it: {failing} of {count} constraints {'fails' if failing == 1 else 'fail'}"
    return f"{by} accepts it: all {count} constraints hold"


def _headline(constraint: Constraint, width: int) -> list[str]:
    """The line of a constraint: whether it holds, what it is about, and what was found."""
    mark = terminal.PASS if constraint.ok else terminal.FAIL
    return terminal.hanging(f"{mark}  ", f"{constraint.label()}: {constraint.found}", width)


def _failing(violations: Iterable[Constraint], hint: str, width: int) -> list[str]:
    """The lines of what fails, as an error says it; the hint stands for all."""
    lines: list[str] = []
    for each in violations:
        lines += _headline(each, width)
        lines += terminal.hanging("      wanted: ", f"{each.wanted} ({each.rule})", width)
        if each.hint and not hint:
            lines += terminal.hanging("      Hint: ", printable(each.hint), width)
    if hint:
        first, *more = hint.split("\n")
        lines += [printable(f"      Hint: {first}"), *(printable(f"      {line}") for line in more)]
    return lines


def _job(check: Check, width: int) -> Iterator[str]:
    """The tensors, the axes, what the lengths do, the lowest level, and notes."""
    for tensor, desc in ((INPUT, check.values), (LENGTHS, check.lengths)):
        *lines, last = terminal.hanging(f"{tensor:<{_COLUMN}}", str(desc), width)
        yield from lines
        yield from terminal.beside(last, printable(check.names[tensor]), _COLUMN, width)
    for name, text in _about_lines(check).items():
        yield from terminal.hanging(f"{name:<{_COLUMN}}", text, width)
    for note in check.notes:
        yield from terminal.hanging("Note: ", printable(note), width)


def _about_lines(check: Check) -> dict[str, str]:
    """What is said of the axes, the lengths and the levels."""
    from revseq_cli.report.tables import axis_text

    rows = {"Axis": axis_text(check.values, check.axis)}
    if check.batch_axis is not None:
        count = check.values.sizes[check.batch_axis]
        lengths = "1 length" if count == 1 else f"a length for each of {count:,} indices"
        rows["batch axis"] = f"{check.batch_axis} is the batch, with {lengths}"
    if check.counts is not None:
        total, clamped, unchanged, least, greatest = check.counts
        size = check.values.sizes[check.axis]
        between = f", from {least:,} to {greatest:,}" if total else ""
        rows["lengths"] = (
            f"{total:,}{between}; {clamped:,} above {size:,} and so clamped; {unchanged:,} that change nothing"
        )
    rows["lowest level"] = _told_level(check.lowest, check.with_cast)
    return rows


def _told_level(lowest: FeatureLevel | None, with_cast: FeatureLevel | None) -> str:
    """The lowest level, and that for lengths of UINT32 where it is another one."""
    told = str(lowest)
    if lowest is FeatureLevel.NONE:
        told = "no feature level of DirectML accepts it"
    elif lowest is None:
        told = "the operator itself refuses it"
    return f"{told}; with --lengths-dtype UINT32: {with_cast}" if with_cast else told


def _check_nodes(
    path: str, key: str | None, level: FeatureLevel, lengths_dtype: DataType | None, console: Console
) -> int:
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
        known, lowest, with_cast = model.known_of(node), None, None
        # Of what is not known, anything that fits is assumed: dimensions that have the axes, sizes of 1, FLOAT32.
        # Lengths are INT64 in ONNX.
        open_sizes = (1,) * (node.ranks() or [2])[0] if known.sizes is None else known.sizes
        sizes = tuple(size if isinstance(size, int) else 1 for size in open_sizes)
        try:
            axis, batch_axis = node.axes(len(sizes), path)
        except FormatError as e:
            told, is_valid = e.found, False
        else:
            values = TensorDesc(known.data_type or DataType.FLOAT32, sizes)
            lengths = TensorDesc(lengths_dtype or DataType.INT64, spec.lengths_sizes(sizes, axis))
            lowest = spec.lowest_level(values, lengths, axis)
            with_cast = _with_cast(values, lengths, axis, lowest)
            broken = spec.violations(values, lengths, axis, level)
            wrong = [f"{each.label()}: {each.found}" for each in broken]
            wrong += dict.fromkeys(each.hint for each in broken if each.hint)
            if misfit := model.misfit(node, None if known.sizes is None else known.sizes[batch_axis]):
                wrong.append(misfit)
            told, is_valid = "; ".join(wrong), not wrong
        if is_valid:
            has_level = lowest not in (None, spec.FeatureLevel.NONE)
            told = f"accepted from {lowest} on" if has_level else _told_level(lowest, with_cast)
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
