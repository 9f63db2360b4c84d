"""What the commands report: text for a person, and the JSON that says the same to a program."""

from __future__ import annotations

import itertools
import json
import math
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.ground import minifloats
from revseq_cli.ground.errors import RevseqError, Words, printable
from revseq_cli.ground.tensors import TensorDesc, braced
from revseq_cli.operator.spec import FeatureLevel, span, support
from revseq_cli.report import view
from revseq_cli.report.words import message, spelled
from revseq_cli.texts import literals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from revseq_cli.formats.contract import Source
    from revseq_cli.operator.kernel import LengthCounts
    from revseq_cli.operator.spec import Constraint
    from revseq_cli.passes.arrangement import Arrangement
    from revseq_cli.passes.differences import Differences
    from revseq_cli.passes.pages import Finding, PageReport
    from revseq_cli.passes.statistics import Statistics

_PREVIEW_CHUNK = 1 << 28  # bytes; each chunk with something of the preview is decoded, once
SCHEMA = 1


class Check(NamedTuple):
    """All that `check` found out."""

    names: dict[str, str]
    values: TensorDesc
    lengths: TensorDesc
    axis: int
    level: FeatureLevel
    constraints: list[Constraint]
    lowest: FeatureLevel | None
    counts: LengthCounts | None
    batch_axis: int | None = None
    notes: Sequence[str | Words] = ()


class Outcome(NamedTuple):
    """What became of one job of a batch: `line` is that of the manifest, `error` is None if it is done."""

    line: int
    output: str
    error: RevseqError | None
    bytes: int = 0
    verified: bool = False
    notes: Sequence[str | Words] = ()
    sha256: str | None = None


def show_text(source: Source, statistics: Statistics | None = None, *, preview: bool) -> str:
    """One tensor's header and storage, its statistics if there are any, and its first rows."""
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


def _as_json(report: dict[str, Any]) -> str:
    return json.dumps({"schema": SCHEMA, **report})


def _desc_json(desc: TensorDesc) -> dict[str, Any]:
    return {"DataType": desc.data_type.name, "Sizes": list(desc.sizes)}


def _job_json(values: TensorDesc, lengths: TensorDesc, axis: int) -> dict[str, Any]:
    return {"InputTensor": _desc_json(values), "SequenceLengthsTensor": _desc_json(lengths), "Axis": axis}


def run_json(
    values: TensorDesc,
    lengths: TensorDesc,
    axis: int,
    output: str,
    notes: Sequence[str | Words],
    *,
    verified: bool,
    sha256: str | None,
) -> str:
    """What `run` did; the digest only where it was asked for."""
    done = {"output": output, "bytes": values.total_bytes, "verified": verified, "notes": [*map(spelled, notes)]}
    digest = {"sha256": sha256} if sha256 else {}
    return _as_json({**_job_json(values, lengths, axis), **done, **digest})


def export_json(values: TensorDesc, lengths: TensorDesc, axis: int, written: Sequence[str]) -> str:
    """What `export` wrote: the model, then its files."""
    return _as_json({**_job_json(values, lengths, axis), "output": written[0], "files": list(written[1:])})


def plan_json(values: TensorDesc, lengths: TensorDesc, axis: int, arrangement: Arrangement) -> str:
    """What `run` would do."""
    plan = {
        "blocks": arrangement.plan.block_count,
        "block_bytes": arrangement.plan.block_elements * values.data_type.size,
        "read_bytes": values.total_bytes + lengths.total_bytes,
        "write_bytes": values.total_bytes,
        "engine": arrangement.engine.name,
        "workers": None if arrangement.scheduler else arrangement.workers,
        "memory": arrangement.need,
        "spooled": arrangement.spooled,
        **({"scheduler": arrangement.scheduler} if arrangement.scheduler else {}),
    }
    return _as_json({**_job_json(values, lengths, axis), "plan": plan})


def plan_text(values: TensorDesc, lengths: TensorDesc, axis: int, arrangement: Arrangement) -> str:
    """The same for a person."""
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


def _tensor_json(source: Source) -> dict[str, Any]:
    return {"name": source.name, **_desc_json(source.desc)}


def convert_json(
    source: Source, output: str, notes: Sequence[str | Words], *, verified: bool, sha256: str | None
) -> str:
    """What `convert` did; the digest only where it was asked for."""
    done = {"output": output, "bytes": source.desc.total_bytes, "verified": verified, "notes": [*map(spelled, notes)]}
    return _as_json({"input": _tensor_json(source), **done, **({"sha256": sha256} if sha256 else {})})


def diff_json(a: Source, b: Source, found: Differences | None) -> str:
    """How two tensors differ; `found` is None where their data types or sizes do."""
    values: dict[str, Any] = {"different": None, "first": [], "largest_absolute": None, "largest_relative": None}
    if found:
        first = [{"index": index, "A": in_a, "B": in_b} for index, in_a, in_b in view.first_differences(found)]
        largest = _finite({"largest_absolute": found.largest_absolute, "largest_relative": found.largest_relative})
        values = {"different": found.count, "first": first, **largest}
    return _as_json({"equal": bool(found and not found.count), "A": _tensor_json(a), "B": _tensor_json(b), **values})


def _statistic(key: str, value: complex | None, source: Source) -> str:
    """As text; the ends as elements of the tensor are written."""
    if value is None:
        return "-"
    dtype = minifloats.numbers(np.empty(0, source.dtype)).dtype
    ends = key in ("min", "max") and dtype.kind == "f"
    return literals.render(np.array([value], dtype))[0] if ends else str(value)


def statistics_of(found: Statistics) -> dict[str, Any]:
    """By name; without elements that are numbers there is neither a minimum nor a mean."""
    return {"min": found.least, "max": found.greatest, "mean": found.mean, "NaN": found.nans}


def show_json(sources: Sequence[Source], statistics: Sequence[Statistics | None]) -> str:
    """What `show` knows of each tensor."""
    tensors = [
        {
            "name": source.name,
            **_desc_json(source.desc),
            "bytes": source.desc.total_bytes,
            "format": source.storage.format,
            "storage": source.storage.details,
            "notes": list(source.gaps()),
            **({"statistics": _finite(statistics_of(found))} if found else {}),
        }
        for source, found in zip(sources, statistics, strict=True)
    ]
    return _as_json({"tensors": tensors})


def _finite(numbers: dict[str, Any]) -> dict[str, Any]:
    """JSON has neither NaN nor infinities nor complex numbers: they are strings."""

    def plain(number: object) -> object:
        finite = not isinstance(number, float) or math.isfinite(number)
        return number if finite and not isinstance(number, complex) else str(number)

    return {key: plain(number) for key, number in numbers.items()}


def check_json(check: Check) -> str:
    """What `check` found."""
    return _as_json(
        {
            "level": check.level.short,
            "valid": all(c.ok for c in check.constraints),
            **_job_json(check.values, check.lengths, check.axis),
            "BatchAxis": check.batch_axis,
            "constraints": [c.__dict__ | {"hint": spelled(c.hint)} for c in check.constraints],
            "lowest_level": check.lowest.short if check.lowest is not None else None,
            "lengths": check.counts._asdict() if check.counts is not None else None,
            "notes": [*map(spelled, check.notes)],
        }
    )


def print_check(check: Check, *, color: bool) -> None:
    """The table of constraints, and what follows from them."""
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


def _axis_text(values: TensorDesc, axis: int) -> str:
    if not 0 <= axis < values.dimension_count:
        return str(axis)
    lines = prod((*values.sizes[:axis], *values.sizes[axis + 1 :]))
    return f"{axis}, {lines:,} lines of {values.sizes[axis]:,} elements"


def pages_json(found: dict[str, PageReport | RevseqError], level: FeatureLevel) -> str:
    """What `verify` found, page by page."""
    pages = []
    for name, page in found.items():
        if isinstance(page, RevseqError):
            pages.append({"page": name, "error": message(page), "examples": [], "skipped": 0})
            continue
        examples = [
            {
                "number": f.number,
                "line": f.line,
                "right": f.right,
                "problems": list(f.problems),
                "difference": _difference(f) or None,
                "clamped": f.clamped,
            }
            for f in page.findings
        ]
        pages.append({"page": name, "error": None, "examples": examples, "skipped": page.skipped})
    return _as_json({"level": level.short, "pages": pages})


def print_pages(found: dict[str, PageReport | RevseqError], *, color: bool) -> None:
    """The same for a person: a line for each example, and what is wrong with it."""
    from rich.text import Text

    console = _console(color)
    reports = [page for page in found.values() if not isinstance(page, RevseqError)]
    for name, page in found.items():
        if isinstance(page, RevseqError):
            continue
        console.print(Text(printable(name), "bold"))
        for finding in page.findings:
            mark = Text("right", "green") if finding.right else Text("WRONG", "bold red")
            clamped = f", lengths that are clamped: {finding.clamped}" if finding.clamped else ""
            console.print(Text(f"  example {finding.number}, line {finding.line}: ").append(mark).append(clamped))
            for line in _wrongs(finding):
                console.print(Text(f"    {printable(line)}"), soft_wrap=True)
    findings = [finding for page in reports for finding in page.findings]
    skipped = sum(page.skipped for page in reports)
    others = f", {skipped} of other operators skipped" if skipped else ""
    if reports:
        wrong = sum(not finding.right for finding in findings)
        examples = "1 example" if len(findings) == 1 else f"{len(findings)} examples"
        console.print(Text(f"{examples}, {wrong} wrong{others}"))


def _difference(finding: Finding) -> dict[str, Any]:
    """The first wrong element of an example, and how many there are; empty where there is none."""
    if not (wrong := finding.differences):
        return {}
    index, found, expected = view.first_differences(wrong)[0]
    element = {"index": index, "line": finding.wrong_line, "found": found, "expected": expected}
    return {**element, "count": wrong.count, "total": wrong.total}


def _wrongs(finding: Finding) -> list[str]:
    lines = [line for problem in finding.problems for line in problem.split("\n")]
    if wrong := _difference(finding):
        place = "line {line}: OutputTensor at {index} is {found}, and the operator gives {expected}"
        lines += [place.format(**wrong), "{count} of {total} elements differ".format(**wrong)]
    return lines


def outcome_json(outcome: Outcome) -> str:
    """What became of one job; the digest only where it was asked for."""
    line, output, error, size, verified, notes, sha256 = outcome
    found = {"line": line, "output": output, "ok": error is None, "error": message(error) if error else None}
    digest = {"sha256": sha256} if sha256 else {}
    return _as_json({**found, "bytes": size, "verified": verified, "notes": [*map(spelled, notes)], **digest})


def print_batch(outcomes: Sequence[Outcome], jobs: int, seconds: float, *, color: bool) -> None:
    """How many of all jobs are done, and with how many bytes in what time."""
    from rich.table import Column, Table

    failed = sum(outcome.error is not None for outcome in outcomes)
    cells = {"jobs": jobs, "done": len(outcomes) - failed, "failed": failed, "not begun": jobs - len(outcomes)}
    cells["bytes"] = sum(outcome.bytes for outcome in outcomes)
    table = Table(*(Column(title, justify="right") for title in (*cells, "seconds")))
    table.columns[2].style = "bold red" if failed else ""
    table.add_row(*(f"{count:,}" for count in cells.values()), f"{seconds:.2f}")
    _console(color).print(table)


def levels_json(levels: Sequence[FeatureLevel]) -> str:
    """The support table."""
    rows = []
    for level in levels:
        row = support(level)
        rows.append(
            {
                "level": level.short,
                "dimension_counts": [row.dimension_counts[0], row.dimension_counts[-1]] if row else None,
                "InputTensor": [t.name for t in row.values] if row else None,
                "SequenceLengthsTensor": [t.name for t in row.lengths] if row else None,
                "most_elements": row.most_elements if row else None,
            }
        )
    return _as_json({"levels": rows})


def print_levels(levels: Sequence[FeatureLevel], *, color: bool) -> None:
    """The support table: levels that accept the same share a row."""
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


def _console(color: bool) -> Any:  # noqa: ANN401 - rich's Console, which is not loaded yet
    """Standard output, in lines that no width breaks when it is not a terminal."""
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
