"""What each feature level says of a job, and what it accepts, as text for people."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from revseq_cli.core.errors import Suggestions, printable
from revseq_cli.operator.spec import DIRECTML, INPUT, LENGTHS, OUTPUT, FeatureLevel, broken, span, support
from revseq_cli.report import terminal
from revseq_cli.report.tables import axis_text
from revseq_cli.report.words import hints

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from revseq_cli.operator.spec import Constraint
    from revseq_cli.report.results import Check

PASS, FAIL, MISSING = "pass", "FAIL", "-"
LEGEND = f"{MISSING}  the level has no such constraint"
_COLUMN = 23  # where the text begins behind the names of tensors and the like


def print_check(check: Check, typed: Sequence[str], *, every: bool, color: bool) -> None:
    """Print the verdict, what fails and, with `every`, what passes, or else the table of all levels; then the job.

    `typed` has the arguments of the command line, which a hint repeats with what is missing.
    """
    console = terminal.console(color=color)
    width = console.width
    constraints = check.constraints[DIRECTML[-1] if check.level is None else check.level]
    lines = _failing(broken(constraints), check.choices, typed, width)
    if check.level is None:
        failing = ["", "At every feature level of DirectML:", *lines] if broken(constraints) else []
        lines = ["", *_matrix(check.constraints), *failing]
    else:
        lines += [line for c in constraints if c.ok and every for line in _headline(c, width)]
        lines = ["", *lines] if lines else []
    _print(console, [verdict(check)], terminal.GOOD if check.valid else terminal.BAD)
    _print(console, lines, marked=True)
    _print(console, ["", *_job(check, width)])


def verdict(check: Check) -> str:
    """Whether the level accepts the job, or from which level on DirectML does."""
    if check.level is not None:
        return verdict_of(check.level, check.constraints[check.level])
    accepting = [level for level in DIRECTML if not broken(check.constraints[level])]
    if not accepting:
        return f"DirectML refuses it: all {len(DIRECTML)} feature levels do"
    return f"DirectML accepts it from {accepting[0]} on: {len(accepting)} of {len(DIRECTML)} feature levels do"


def print_levels(levels: Sequence[FeatureLevel], *, color: bool) -> None:
    """Print what each level accepts; those that accept the same are told together."""
    console = terminal.console(color=color)
    for row, group in itertools.groupby(levels, support):
        _print(console, [" ".join(level.short for level in group)], "bold")
        if row is None:
            _print(console, ["  the operator does not exist yet"])
        else:
            accepted = {
                "dimension counts": span(row.dimension_counts),
                "elements": f"at most {row.most_elements}" if row.most_elements is not None else "any number",
                f"{INPUT}, {OUTPUT}": ", ".join(t.name for t in row.values),
                LENGTHS: ", ".join(t.name for t in row.lengths),
            }
            for name, text in accepted.items():
                _print(console, terminal.hanging(f"  {name:<27}", text, console.width))
    if len(levels) > 1:
        none = "none is not a level of DirectML: it lifts DirectML's limits and keeps the operator's own rules."
        _print(console, ["", *terminal.hanging("", none, console.width)])


def _print(console: Any, lines: Iterable[str], style: str = "", *, marked: bool = False) -> None:  # noqa: ANN401 - rich's
    """Print lines as they are; `marked` ones have their pass and FAIL in colour."""
    from rich.text import Text  # rich is loaded where it is used

    for line in lines:
        text = Text(line, style)
        if marked:
            text.highlight_regex(rf"\b{PASS}\b", terminal.GOOD)
            text.highlight_regex(rf"\b{FAIL}\b", terminal.BAD)
        console.print(text, soft_wrap=True)


def verdict_of(level: FeatureLevel, constraints: Sequence[Constraint]) -> str:
    """Whether the level accepts the job, and how many constraints fail or hold."""
    count, failing = len(constraints), len(broken(constraints))
    if failing:
        return f"{level} refuses it: {failing} of {count} constraints {'fails' if failing == 1 else 'fail'}"
    return f"{level} accepts it: all {count} constraints hold"


def _headline(constraint: Constraint, width: int) -> list[str]:
    """The line of a constraint: whether it holds, what it is about, and what was found."""
    mark = PASS if constraint.ok else FAIL
    return terminal.hanging(f"{mark}  ", f"{constraint.label()}: {constraint.found}", width)


def _failing(
    violations: Iterable[Constraint], choices: Suggestions | str, typed: Sequence[str], width: int
) -> list[str]:
    """The lines of what fails: as an error says it, and in the same words; the choices stand for all hints."""
    lines: list[str] = []
    for each in violations:
        lines += _headline(each, width)
        lines += terminal.hanging("      wanted: ", f"{each.wanted} ({each.rule})", width)
        if each.hint and not isinstance(choices, Suggestions):
            lines += terminal.hanging("      Hint: ", printable(each.hint), width)
    for line in hints(choices, typed, "Hint: "):
        indent = " " * (6 + len(line) - len(line.lstrip()))
        lines += terminal.hanging(indent, printable(line.lstrip()), width)
    return lines


def matrix(constraints: dict[FeatureLevel, list[Constraint]]) -> tuple[list[list[FeatureLevel]], dict[str, list[str]]]:
    """The groups of levels that accept the same, and for each constraint a word for each group."""
    groups = [list(group) for _, group in itertools.groupby(constraints, support)]
    columns = [{c.label(): PASS if c.ok else FAIL for c in constraints[group[0]]} for group in groups]
    return groups, ({label: [c.get(label, MISSING) for c in columns] for label in max(columns, key=len)})


def _matrix(constraints: dict[FeatureLevel, list[Constraint]]) -> list[str]:
    """A row for each constraint, and a column for each group of levels that accept the same."""
    groups, rows = matrix(constraints)
    width = max(map(len, rows))
    heads = [
        f"{'constraint':<{width - 10}}from level" + _cells(group[0].short for group in groups),
        f"{'to level':>{width}}" + _cells(group[-1].short if group[1:] else "" for group in groups),
    ]
    lines = [f"{label:<{width}}" + _cells(row) for label, row in rows.items()]
    return [*(line.rstrip() for line in (*heads, *lines)), LEGEND]


def _cells(texts: Iterable[str]) -> str:
    return "".join(f"{text:>5}" for text in texts)


def _job(check: Check, width: int) -> Iterator[str]:
    """The tensors, the axes, what the lengths do, the lowest level, and notes."""
    for tensor, desc in ((INPUT, check.values), (LENGTHS, check.lengths)):
        *lines, last = terminal.hanging(f"{tensor:<{_COLUMN}}", str(desc), width)
        yield from lines
        yield from terminal.beside(last, printable(check.names[tensor]), _COLUMN, width)
    for name, text in about_lines(check).items():
        yield from terminal.hanging(f"{name:<{_COLUMN}}", text, width)
    for note in check.notes:
        yield from terminal.hanging("Note: ", printable(note), width)
    yield from terminal.hanging(f"{'lowest level':<{_COLUMN}}", lowest(check.lowest), width)


def about_lines(check: Check) -> dict[str, str]:
    """What is said of the axes and the lengths."""
    rows = {"Axis": axis_text(check.values, check.axis)}
    if check.batch_axis is not None:
        count = check.values.sizes[check.batch_axis]
        lengths = "1 length" if count == 1 else f"a length for each of {count:,} indices"
        rows["batch axis"] = f"{check.batch_axis} is the batch, with {lengths}"
    if check.counts is not None:
        total, clamped, unchanged = check.counts
        size = check.values.sizes[check.axis]
        rows["lengths"] = f"{total:,} in all, {clamped:,} above {size} and clamped, {unchanged:,} change nothing"
    return rows


def lowest(level: FeatureLevel | None) -> str:
    """The lowest level that accepts the tensors, in words."""
    if level is FeatureLevel.NONE:
        return "feature level none, which lifts DirectML's limits"
    return "no feature level accepts these tensors" if level is None else str(level)
