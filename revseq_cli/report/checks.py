"""What the constraints say of a job, and what each feature level accepts, as text for people."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from revseq_cli.core.errors import printable
from revseq_cli.operator.spec import INPUT, LENGTHS, OUTPUT, FeatureLevel, broken, span, support
from revseq_cli.report import terminal
from revseq_cli.report.tables import axis_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from revseq_cli.operator.spec import Constraint
    from revseq_cli.report.results import Check

PASS, FAIL = "pass", "FAIL"
_COLUMN = 23  # where the text begins behind the names of tensors and the like


def print_check(check: Check, *, every: bool, color: bool) -> None:
    """Print the verdict, what fails and, with `every`, what passes; then the job."""
    console = terminal.console(color=color)
    width = console.width
    lines = _failing(broken(check.constraints), check.hint, width)
    lines += [line for c in check.constraints if c.ok and every for line in _headline(c, width)]
    _print(console, [_verdict(check)], terminal.GOOD if check.valid else terminal.BAD)
    _print(console, ["", *lines] if lines else [], marked=True)
    _print(console, ["", *_job(check, width)])


def _verdict(check: Check) -> str:
    """Whether the level accepts the job, and how many constraints fail or hold."""
    count, failing = len(check.constraints), len(broken(check.constraints))
    by = "the operator" if check.level is FeatureLevel.NONE else str(check.level)
    if failing:
        return f"{by} refuses it: {failing} of {count} constraints {'fails' if failing == 1 else 'fail'}"
    return f"{by} accepts it: all {count} constraints hold"


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
        none = "none is no level of DirectML: it has the operator's own rules, which hold unless you choose a level."
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


def _headline(constraint: Constraint, width: int) -> list[str]:
    """The line of a constraint: whether it holds, what it is about, and what was found."""
    mark = PASS if constraint.ok else FAIL
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
    """What is said of the axes and the lengths."""
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
    cast = f"; with --lengths-dtype UINT32: {check.with_cast}" if check.with_cast else ""
    lowest = str(check.lowest)
    if check.lowest is FeatureLevel.NONE:
        lowest = "no feature level of DirectML accepts it"
    elif check.lowest is None:
        lowest = "the operator itself refuses it"
    rows["lowest level"] = f"{lowest}{cast}"
    return rows
