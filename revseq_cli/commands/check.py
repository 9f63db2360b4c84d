"""`revseq check`: a job against the constraints of the operator and of a level."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from revseq_cli.commands import options
from revseq_cli.commands.console import Console
from revseq_cli.commands.groups import Group, make_command
from revseq_cli.core.errors import RevseqError, printable
from revseq_cli.core.tensors import DataType
from revseq_cli.operator import spec
from revseq_cli.operator.spec import INPUT, LENGTHS, Constraint, FeatureLevel
from revseq_cli.report import terminal

if TYPE_CHECKING:
    from revseq_cli.formats.onnx.models import Model, Node
    from revseq_cli.operator.directml import Departure
    from revseq_cli.pipeline.folds import LengthCounts
    from revseq_cli.pipeline.jobs import Job
    from revseq_cli.pipeline.request import Request
    from revseq_cli.porting.verdicts import NodeVerdict
    from revseq_cli.report.objects import CheckRecord, NodeRecord

_INDENT = " " * len("FAIL  ")


@make_command(
    "check",
    examples=(
        'revseq check "[[1, 2, 3], [4, 5, 6]]" "[[2], [3]]" --axis 1',
        'revseq check "[[1, 2, 3]]" "[[2]]" --axis 1 --feature-level 4_0',
    ),
)
@options.job_parameters
@options.level_option
@Group.PRINT.option("--all", "every", is_flag=True, help="Also print the constraints that pass.")
@options.input_format_option
@options.output_options
def command(every: bool, level: FeatureLevel, console: Console, **job_parameters: Any) -> int:
    """Check a job against every constraint of the operator, or of a feature level of DirectML.

    INPUT and LENGTHS are named as in revseq run. The report begins with the verdict. Then it lists
    each constraint that fails, with the expected value and a hint (--all adds those that pass), and
    describes the job: its axes, the range of the lengths, how many of them are clamped or have no
    effect, the lowest feature level that accepts it, and where DirectML itself gives something
    else than its reference page says.

    LENGTHS is not needed for an example with an Axis, or for a ReverseSequence node
    (model.onnx::node). Given a model without --feed, the command prints one line per
    ReverseSequence node, checked by the shapes and data types that the model declares or implies.

    The exit status is 0 if every constraint holds, 1 if one fails, and 2 if an error stopped the
    command.
    """
    from revseq_cli.formats.references import Reference  # --help must not load NumPy

    reference = Reference.input(
        job_parameters["input"], job_parameters["input_format"], forces_format=True
    )
    has_inputs = job_parameters["feed"] or job_parameters["lengths"]
    if reference.is_onnx_model and not has_inputs:
        from revseq_cli.formats.onnx.models import Model

        model = Model(reference.path)
        key = reference.key
        nodes = [*model.nodes.values()] if key is None else [model.choose_node(key)]
        return _check_nodes(model, nodes, level, job_parameters["lengths_dtype"], console)
    return _check_job(
        options.make_request(forces_format=True, level=level, **job_parameters), every, console
    )


@dataclass(frozen=True)
class _CheckResult:
    """What the check says of a job.

    `constraints` are those of the `level`, and `hint` is one for all that fail. `lowest` is the
    lowest level that accepts the job. If none does, the lengths are not read: `counts` is None.
    """

    level: FeatureLevel
    constraints: Sequence[Constraint]
    hint: str
    lowest: FeatureLevel | None
    counts: LengthCounts | None
    departures: Sequence[Departure]
    notes: Sequence[str]

    @property
    def failing(self) -> Sequence[Constraint]:
        return spec.select_violations(self.constraints)


def _check_job(request: Request, every: bool, console: Console) -> int:
    """Print the report on a job; the exit status."""
    from revseq_cli.pipeline import loading, passes, suggest
    from revseq_cli.pipeline.resources import Resources
    from revseq_cli.porting.verdicts import list_departures

    job = loading.open_job(request)
    constraints = spec.constraints(*job.descs, request.level)
    lowest = spec.lowest_level(*job.descs)
    counts = None
    departures: tuple[Departure, ...] = ()
    notes = tuple(job.notes)
    if lowest:
        counts = passes.count_lengths(job, Resources())
        departures = tuple(list_departures(job, counts, request.level))
        notes = job.describe_lengths(0, counts.least)  # the report says how many are clamped
    hint = suggest.find_job_hint(job) if spec.select_violations(constraints) else ""
    result = _CheckResult(request.level, constraints, hint, lowest, counts, departures, notes)
    status = 1 if result.failing else 0
    if console.as_json:
        console.note(*result.notes)
        console.report(_make_record(job, result), status)
    elif not console.quiet:
        _print_report(job, result, console, every=every)
    return status


def _make_record(job: Job, result: _CheckResult) -> CheckRecord:
    """What --json has of the check."""
    from revseq_cli.report import objects

    lowest = result.lowest.short if result.lowest else None
    counts: objects.CountsRecord | None = None
    if result.counts:
        counts = objects.CountsRecord(
            total=result.counts.total,
            clamped=result.counts.clamped,
            unchanged=result.counts.unchanged,
            least=result.counts.least,
            greatest=result.counts.greatest,
        )
    return objects.CheckRecord(
        **objects.describe_job(job),
        level=result.level.short,
        valid=not result.failing,
        lowest_level=lowest,
        hint=result.hint,
        constraints=result.constraints,
        length_counts=counts,
        directml=result.departures,
    )


def _print_report(job: Job, result: _CheckResult, console: Console, *, every: bool) -> None:
    """Print the verdict, the constraints that fail, and the description of the job."""
    from revseq_cli.pipeline import loading

    width = terminal.width_of(sys.stdout)
    style = terminal.RED if result.failing else terminal.GREEN
    lines = [console.paint(terminal.fit(_say_verdict(result), width), style)]
    if result.failing or every:
        lines += ["", *_list_constraints(result, console, width, every=every)]
    misfit = loading.describe_misfit(job, result.failing)
    lines += ["", *terminal.fit_rows(_describe_job(job, result, misfit), width)]
    text = "\n".join(lines)
    # Given the file, Click writes to our own stream, which escapes what ASCII lacks.
    click.echo(text, sys.stdout, color=console.in_color)
    console.note(*result.notes)


def _say_verdict(result: _CheckResult) -> str:
    judge = "the operator" if result.level is FeatureLevel.NONE else str(result.level)
    count = len(result.constraints)
    failing = len(result.failing)
    if not failing:
        return f"{judge} accepts it: all {count} constraints hold"
    fail = "fails" if failing == 1 else "fail"
    return f"{judge} refuses it: {failing} of {count} constraints {fail}"


def _check_nodes(
    model: Model,
    nodes: list[Node],
    level: FeatureLevel,
    lengths_dtype: DataType | None,
    console: Console,
) -> int:
    """Print a verdict on each node of a model; the exit status."""
    from revseq_cli.porting.verdicts import judge_node
    from revseq_cli.report import objects

    pairs = [(node, judge_node(model, node, level, lengths_dtype)) for node in nodes]
    is_valid = all(verdict.is_valid for _, verdict in pairs)
    status = 0 if is_valid else 1
    if console.as_json:
        rows = [_make_row(model, node, verdict) for node, verdict in pairs]
        console.report(objects.NodesRecord(level=level.short, valid=is_valid, nodes=rows), status)
    elif not console.quiet:
        lines = [_say_node(model, node, verdict) for node, verdict in pairs]
        click.echo("\n".join(lines))
    return status


def _say_node(model: Model, node: Node, verdict: NodeVerdict) -> str:
    word = "pass" if verdict.is_valid else "FAIL"
    name = f"{model.path}::{node.key}"
    line = printable(f"{word}  {name}: {model.describe_node(node)}: {verdict.text}")
    return terminal.fit(line, terminal.width_of(sys.stdout), indent=_INDENT)


def _make_row(model: Model, node: Node, verdict: NodeVerdict) -> NodeRecord:
    """What --json has of a node."""
    from revseq_cli.report.objects import NodeRecord

    known = model.stated[node.values]
    return NodeRecord(
        name=f"{model.path}::{node.key}",
        data_type=known.data_type.name if known.data_type else None,
        shape=known.sizes,
        time_axis=node.time_axis,
        batch_axis=node.batch_axis,
        valid=verdict.is_valid,
        lowest_level=verdict.lowest.short if verdict.lowest else None,
        verdict=verdict.text,
    )


def _list_constraints(
    result: _CheckResult, console: Console, width: int | None, *, every: bool
) -> Iterator[str]:
    """The lines of what fails, and of a hint for all; with `every`, of what passes, too."""
    for constraint in result.failing:
        yield _say_constraint("FAIL", terminal.RED, constraint, console, width)
        yield _indent(f"expected {constraint.expected} ({constraint.rule})", width)
        if constraint.hint and not result.hint:
            yield _indent(printable(f"Hint: {constraint.hint}"), width)
    if result.hint:
        lines = f"Hint: {result.hint}".split("\n")
        yield _indent("\n".join(map(printable, lines)), width)
    for constraint in result.constraints:
        if every and constraint.ok:
            yield _say_constraint("pass", terminal.GREEN, constraint, console, width)


def _say_constraint(
    word: str, style: str, constraint: Constraint, console: Console, width: int | None
) -> str:
    """A constraint with what was found; lines that go on begin under the label."""
    line = terminal.fit(f"{word}  {constraint.label()}: {constraint.found}", width, indent=_INDENT)
    return console.paint(word, style) + line.removeprefix(word)


def _indent(text: str, width: int | None) -> str:
    """Lines under a label, in the width; a command stays on one line."""
    room = None
    if width is not None:
        room = width - len(_INDENT)
    return "\n".join(f"{_INDENT}{line}" for line in terminal.fit(text, room).split("\n"))


def _describe_job(
    job: Job, result: _CheckResult, misfit: RevseqError | None
) -> Iterator[tuple[str, str]]:
    """Rows on the tensors, the axes, the lengths, the lowest level, and DirectML itself."""
    from revseq_cli.porting.verdicts import describe_lowest
    from revseq_cli.report.view import axis_text

    values, lengths, axis = job.descs
    yield INPUT, f"{values}  {printable(job.names[INPUT])}"
    yield LENGTHS, f"{lengths}  {printable(job.names[LENGTHS])}"
    yield "Axis", axis_text(values, axis)
    if job.batch_axis is not None:
        count = values.sizes[job.batch_axis]
        indices = "only index" if count == 1 else f"{count:,} indices"
        owner = "its" if count == 1 else "each of its"
        yield "batch axis", f"{job.batch_axis}, one length for {owner} {indices}"
    if result.counts:
        yield "lengths", _describe_counts(result.counts, job)
    if misfit:
        yield "reason", printable(f"{misfit.where}: {misfit.found}, expected {misfit.expected}")
    yield "lowest level", describe_lowest(result.lowest, values, lengths, axis)
    name = "DirectML itself"
    for departure in result.departures:
        yield name, str(departure)
        name = ""  # which stands only in the first of these rows


def _describe_counts(counts: LengthCounts, job: Job) -> str:
    """How many lengths there are, their range, and how many are clamped or change nothing."""
    text = f"{counts.total:,}"
    if counts.total:
        text += f", from {counts.least:,} to {counts.greatest:,}"
    if job.padding is not None:
        text += f", found by the padding {job.padding}"
    if counts.clamped:
        text += f"; {counts.clamped:,} clamped to {job.values.sizes[job.axis]:,}"
    if counts.unchanged:
        text += f"; {counts.unchanged:,} with no effect"
    return text
