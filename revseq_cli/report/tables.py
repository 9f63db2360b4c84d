"""Results as text for people: rich tables on a terminal, plain lines in a pipe."""

from __future__ import annotations

import itertools
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.ground import minifloats
from revseq_cli.ground.errors import RevseqError, printable
from revseq_cli.ground.tensors import braced
from revseq_cli.operator.spec import span, support
from revseq_cli.report import view
from revseq_cli.report.results import Check, Outcome, difference_of, statistics_of
from revseq_cli.report.words import spelled
from revseq_cli.texts import literals

_PREVIEW_CHUNK = 1 << 28  # bytes; of larger chunks no preview is shown, since they are decoded whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from revseq_cli.formats.contract import Source
    from revseq_cli.ground.tensors import TensorDesc
    from revseq_cli.operator.spec import FeatureLevel
    from revseq_cli.passes.arrangement import Arrangement
    from revseq_cli.passes.pages import Finding, PageReport
    from revseq_cli.passes.statistics import Statistics


def show(source: Source, statistics: Statistics | None = None, *, preview: bool) -> str:
    """The text of `show` for one tensor: data type, sizes and storage, its statistics if given, and a preview."""
    desc, storage = source.desc, source.storage
    details = ", ".join(f"{key} {value}" for key, value in storage.details.items())
    lines = [
        printable(source.name),
        f"  DataType         {desc.data_type.name}",
        f"  Sizes            {braced(desc.sizes)}",
        f"  dimension count  {desc.dimension_count}",
        f"  elements         {desc.element_count:,}",
        f"  bytes            {desc.total_bytes:,}",
        f"  storage          {storage.format}{', ' if details else ''}{printable(details)}",
    ]
    lines += [f"  note             {printable(note)}" for note in source.gaps()]
    if statistics:
        lines += [f"  {key:<15}  {_statistic(key, value, source)}" for key, value in statistics_of(statistics).items()]
    if preview:
        chunk = prod(source.chunks or ()) * source.dtype.itemsize
        rows = (
            view.shortened(source, view.PREVIEW)
            if chunk <= _PREVIEW_CHUNK
            else f"// no preview: a chunk has {chunk:,} bytes"
        )
        lines += ["", *(f"  {line}" for line in rows.split("\n"))]
    return "\n".join(lines)


def plan(values: TensorDesc, lengths: TensorDesc, axis: int, arrangement: Arrangement) -> str:
    """The text of `run --dry-run`; -v prints it, too."""
    plan = arrangement.plan
    cut = ", lines are cut" if plan.cuts_lines else ""
    spooled = ", through temporary files" if arrangement.spooled else ""
    block = plan.block_elements * values.data_type.size
    return "\n".join(
        [
            f"InputTensor            {values}, {values.total_bytes:,} bytes",
            f"SequenceLengthsTensor  {lengths}, {lengths.total_bytes:,} bytes",
            f"Axis                   {_axis_text(values, axis)}",
            f"blocks                 {plan.block_count:,} of {block:,} bytes{cut}{spooled}",
            f"bytes                  {values.total_bytes + lengths.total_bytes:,} read, {values.total_bytes:,} written",
            f"engine                 {printable(arrangement.means)}",
        ]
    )


def print_check(check: Check, *, color: bool) -> None:
    """Print the tensors, the table of constraints, hints, the lowest level, and what the lengths do."""
    from rich.table import Column, Table  # rich is loaded where it is used
    from rich.text import Text

    console = _console(color)
    for tensor, desc in (("InputTensor", check.values), ("SequenceLengthsTensor", check.lengths)):
        console.print(Text(f"{tensor}: {desc}  {printable(check.names[tensor])}"))
    console.print(Text(f"Axis: {_axis_text(check.values, check.axis)}"))
    if check.batch_axis is not None:
        count = check.values.sizes[check.batch_axis]
        lengths = "1 length" if count == 1 else f"a length for each of {count:,} indices"
        console.print(Text(f"Reversed is axis {check.axis}; the batch is axis {check.batch_axis}, {lengths}"))
    console.print(Text(str(check.level)))
    table = Table("", *(Column(name, overflow="fold") for name in ("constraint", "found", "wanted", "rule")))
    for c in check.constraints:
        mark = Text("pass", "green") if c.ok else Text("FAIL", "bold red")
        table.add_row(mark, Text(f"{c.tensor} {c.property}".strip()), Text(c.found), Text(c.wanted), Text(c.rule))
    console.print(table)
    for hint in dict.fromkeys(spelled(c.hint) for c in check.constraints if not c.ok and c.hint):
        console.print(Text(f"Hint: {hint}"))
    lowest = f"{check.lowest} is the lowest that accepts" if check.lowest is not None else "no feature level accepts"
    console.print(Text(f"{lowest} these tensors"))
    if check.counts is not None:
        total, clamped, unchanged = check.counts
        size = check.values.sizes[check.axis]
        effects = f"{clamped:,} above {size} and clamped, {unchanged:,} change nothing"
        console.print(Text(f"lengths: {total:,} in all, {effects}"))
    for note in check.notes:
        console.print(Text(printable(f"Note: {spelled(note)}")))


def print_pages(reports: dict[str, PageReport | RevseqError], *, color: bool) -> None:
    """Print a line for each example on each page, what is wrong with it, and a summary; errors are left out."""
    from rich.text import Text

    console = _console(color)
    pages = {name: page for name, page in reports.items() if not isinstance(page, RevseqError)}
    for name, page in pages.items():
        console.print(Text(printable(name), "bold"))
        for finding in page.findings:
            mark = Text("right", "green") if finding.right else Text("WRONG", "bold red")
            clamped = f", lengths that are clamped: {finding.clamped}" if finding.clamped else ""
            console.print(Text(f"  example {finding.number}, line {finding.line}: ").append(mark).append(clamped))
            for line in _wrongs(finding):
                console.print(Text(f"    {printable(line)}"), soft_wrap=True)
    findings = [finding for page in pages.values() for finding in page.findings]
    skipped = sum(page.skipped for page in pages.values())
    others = f", {skipped} of other operators skipped" if skipped else ""
    if pages:
        wrong = sum(not finding.right for finding in findings)
        examples = "1 example" if len(findings) == 1 else f"{len(findings)} examples"
        console.print(Text(f"{examples}, {wrong} wrong{others}"))


def print_batch(outcomes: Sequence[Outcome], jobs: int, seconds: float, *, color: bool) -> None:
    """Print how many of all jobs are done, failed or not begun, with their bytes and seconds."""
    from rich.table import Column, Table

    failed = sum(outcome.error is not None for outcome in outcomes)
    cells = {"jobs": jobs, "done": len(outcomes) - failed, "failed": failed, "not begun": jobs - len(outcomes)}
    cells["bytes"] = sum(outcome.bytes for outcome in outcomes)
    table = Table(*(Column(title, justify="right") for title in (*cells, "seconds")))
    table.columns[2].style = "bold red" if failed else ""
    table.add_row(*(f"{count:,}" for count in cells.values()), f"{seconds:.2f}")
    _console(color).print(table)


def print_levels(levels: Sequence[FeatureLevel], *, color: bool) -> None:
    """Print the table of levels; those that accept the same share a row."""
    from rich.table import Table

    table = Table("levels", "dimension counts", "InputTensor, OutputTensor", "SequenceLengthsTensor", show_lines=True)
    for row, group in itertools.groupby(levels, support):
        names = " ".join(level.short for level in group)
        if row is None:
            table.add_row(names, "-", "the operator does not exist yet", "-")
            continue
        types = [" ".join(t.name for t in allowed) for allowed in (row.values, row.lengths)]
        table.add_row(names, span(row.dimension_counts), *types)
    console = _console(color)
    console.print(table)
    if len(levels) > 1:
        console.print("none is not a level of DirectML: it lifts DirectML's limits and keeps the operator's own rules.")


def _statistic(key: str, value: complex | None, source: Source) -> str:
    """A statistic as text, "-" for None; minimum and maximum of floats as elements of the tensor are printed."""
    if value is None:
        return "-"
    dtype = minifloats.numbers(np.empty(0, source.dtype)).dtype
    ends = key in ("min", "max") and dtype.kind == "f"
    return literals.render(np.array([value], dtype))[0] if ends else str(value)


def _axis_text(values: TensorDesc, axis: int) -> str:
    """The axis, with the number and the size of its lines if the tensor has it."""
    if not 0 <= axis < values.dimension_count:
        return str(axis)
    lines = prod((*values.sizes[:axis], *values.sizes[axis + 1 :]))
    return f"{axis}, {lines:,} lines of {values.sizes[axis]:,} elements"


def _wrongs(finding: Finding) -> list[str]:
    """The lines that say what is wrong with an example."""
    lines = [line for problem in finding.problems for line in problem.split("\n")]
    if wrong := difference_of(finding):
        place = "line {line}: OutputTensor at {index} is {found}, and the operator gives {expected}"
        lines += [place.format(**wrong), "{count} of {total} elements differ".format(**wrong)]
    return lines


def _console(color: bool) -> Any:  # noqa: ANN401 - rich's Console, which is not loaded yet
    """A rich Console on standard output, 200 columns wide if that is no terminal."""
    import sys

    from rich.console import Console

    return Console(
        width=None if sys.stdout.isatty() else 200,
        color_system="standard" if color else None,
        no_color=not color,  # or rich would look at NO_COLOR itself
        force_terminal=color or None,
        highlight=False,
        emoji=False,
        markup=False,
    )
