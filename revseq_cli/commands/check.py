"""`revseq check`: a job against the constraints of the operator and of a level."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from revseq_cli.commands import options
from revseq_cli.commands.options import Console, Group
from revseq_cli.core.errors import RevseqError, printable
from revseq_cli.core.tensors import DataType
from revseq_cli.operator import spec
from revseq_cli.operator.spec import INPUT, LENGTHS, Constraint, FeatureLevel
from revseq_cli.report import terminal

if TYPE_CHECKING:
    from revseq_cli.formats.onnx import Model, Node
    from revseq_cli.pipeline.folds import LengthCounts
    from revseq_cli.pipeline.jobs import Job

_COLUMN = 23  # where the text begins behind the names of tensors and the like


@options.command(
    "check",
    examples=(
        'revseq check "[[1, 2, 3], [4, 5, 6]]" "[[2], [3]]" --axis 1',
        'revseq check "[[1, 2, 3]]" "[[2]]" --axis 1 --feature-level 4_0',
    ),
)
@options.job_options
@options.level_option
@Group.PRINT.option("--all", "every", is_flag=True, help="Also print the constraints that pass.")
@options.input_format_option
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
    from revseq_cli.formats.references import Reference  # --help must not load NumPy
    from revseq_cli.pipeline import passes, suggest
    from revseq_cli.pipeline.plan import Resources
    from revseq_cli.report import objects

    reference = Reference.input(job_options["input"], job_options["input_format"], override=True)
    if reference.is_onnx_model and not (job_options["feed"] or job_options["lengths"]):
        from revseq_cli.formats.onnx import Model

        model = Model(reference.path)
        key = reference.key
        nodes = [*model.nodes.values()] if key is None else [model.node(key)]
        return _check_nodes(model, nodes, level, job_options["lengths_dtype"], console)
    job = suggest.open_job(options.request_of(override=True, level=level, **job_options))
    constraints = spec.constraints(*job.descs, level)
    lowest = spec.lowest_level(*job.descs)
    # Lengths that no level accepts have no effects to count.
    counts = passes.count_lengths(job, Resources()) if lowest else None
    notes = job.notes
    if counts:
        notes = job.describe_lengths(0, counts.least)  # the report says how many are clamped
    failing = spec.broken(constraints)
    hint = suggest.suggestion(job) if failing else ""
    if console.as_json:
        report = {
            "level": level.short,
            "valid": not failing,
            **objects.job(job.values.desc, job.descs[1], job.axis),
        }
        report |= {
            "BatchAxis": job.batch_axis,
            "hint": hint,
            "lowest_level": lowest and lowest.short,
        }
        report |= {
            "lengths": counts and counts._asdict(),
            "constraints": [*map(asdict, constraints)],
            "notes": notes,
        }
        click.echo(objects.text_of(report))
    elif not console.quiet:
        by, count = "the operator" if level is FeatureLevel.NONE else level, len(constraints)
        verdict = f"{by} accepts it: all {count} constraints hold"
        if failing:
            verdict = f"{by} refuses it: {len(failing)} of {count} constraints {'fail' if failing[1:] else 'fails'}"
        lines = [console.paint(verdict, terminal.RED if failing else terminal.GREEN)]
        lines += (
            ["", *_constraints(constraints, hint, console, every=every)] if failing or every else []
        )
        misfits = suggest.describe_misfit(job, failing, "")
        text = "\n".join([*lines, "", *_about(job, counts, lowest, misfits)])
        click.echo(text, sys.stdout, color=console.colored)  # or Click would not print in ASCII
        console.note(*notes)
    return 1 if failing else 0


def _check_nodes(
    model: Model,
    nodes: list[Node],
    level: FeatureLevel,
    lengths_dtype: DataType | None,
    console: Console,
) -> int:
    """Print a verdict on each node of a model; the exit status."""
    from revseq_cli.porting.nodes import judge_node
    from revseq_cli.report import objects

    rows: list[dict[str, Any]] = []
    lines: list[str] = []
    for node in nodes:
        known = model.known[node.values]
        verdict = judge_node(model, node, level, lengths_dtype)
        name = f"{model.path}::{node.key}"
        row = {
            "name": name,
            "time_axis": node.time_axis,
            "batch_axis": node.batch_axis,
            "DataType": known.data_type and known.data_type.name,
            "Sizes": known.sizes,
            "valid": verdict.is_valid,
            "lowest_level": verdict.lowest and verdict.lowest.short,
            "told": verdict.text,
        }
        rows.append(row)
        word = "pass" if verdict.is_valid else "FAIL"
        lines.append(printable(f"{word}  {name}: {model.told(node)}: {verdict.text}"))
    status = 0 if all(row["valid"] for row in rows) else 1
    if console.as_json:
        click.echo(objects.text_of({"command": "check", "exit_status": status, "nodes": rows}))
    elif not console.quiet:
        click.echo("\n".join(lines))
    return status


def _constraints(
    constraints: Sequence[Constraint], hint: str, console: Console, *, every: bool
) -> Iterator[str]:
    """The lines of what fails, as an error says it, and of a hint for all; with `every`, of what passes, too."""
    for constraint in spec.broken(constraints):
        yield f"{console.paint('FAIL', terminal.RED)}  {constraint.label()}: {constraint.found}"
        yield f"      expected {constraint.wanted} ({constraint.rule})"
        if constraint.hint and not hint:
            yield printable(f"      Hint: {constraint.hint}")  # which is copied
    if hint:
        yield from (printable(f"      {line}") for line in f"Hint: {hint}".split("\n"))
    for constraint in constraints if every else ():
        if constraint.ok:
            yield f"{console.paint('pass', terminal.GREEN)}  {constraint.label()}: {constraint.found}"


def _about(
    job: Job,
    counts: LengthCounts | None,
    lowest: FeatureLevel | None,
    misfits: Sequence[RevseqError],
) -> Iterator[str]:
    """The tensors, the axes, what the lengths do, why they do not fit, and the lowest level."""
    from revseq_cli.porting.nodes import describe_lowest
    from revseq_cli.report.view import axis_text

    values, lengths, axis = job.descs
    rows = {
        tensor: f"{desc}  {printable(job.names[tensor])}"
        for tensor, desc in ((INPUT, values), (LENGTHS, lengths))
    }
    rows["Axis"] = axis_text(values, axis)
    if job.batch_axis is not None:
        count = values.sizes[job.batch_axis]
        rows["batch axis"] = f"{job.batch_axis}, one length for each of its {count:,} indices"
        if count == 1:
            rows["batch axis"] = f"{job.batch_axis}, one length for its only index"
    if counts:
        rows["lengths"] = _describe_counts(counts, job)
    for error in misfits:
        rows["reason"] = printable(f"{error.where}: {error.found}, expected {error.wanted}")
    rows["lowest level"] = describe_lowest(lowest, values, lengths, axis)
    for name, text in rows.items():
        yield f"{name:<{_COLUMN}}{text}"


def _describe_counts(counts: LengthCounts, job: Job) -> str:
    """How many lengths there are, their range, and how many are clamped or change nothing."""
    text = f"{counts.total:,}"
    if counts.total:
        text += f", from {counts.least:,} to {counts.greatest:,}"
    if job.is_padded and job.request:
        text += f", found by the padding {job.request.padding}"
    if counts.clamped:
        text += f"; {counts.clamped:,} clamped to {job.values.sizes[job.axis]:,}"
    if counts.unchanged:
        text += f"; {counts.unchanged:,} with no effect"
    return text
