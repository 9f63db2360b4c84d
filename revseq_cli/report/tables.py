"""Results as text for people, rich tables on a terminal and plain lines in a pipe; and lists of what files hold."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from math import inf, prod
from typing import Any

import numpy as np

from revseq_cli.core import dtypes, platform
from revseq_cli.core.errors import printable, shortened
from revseq_cli.core.tensors import TensorDesc, braced
from revseq_cli.formats.contents import Contents, Item
from revseq_cli.formats.contract import Source
from revseq_cli.pipeline.jobs import Job
from revseq_cli.pipeline.plan import Plan
from revseq_cli.report import terminal, view
from revseq_cli.report.objects import Comparison, Outcome, first_differences
from revseq_cli.text.numbers import render

_HEADS = ("name", "DataType", "Sizes", "dimensions", "attributes", "storage")
_AROUND = 4  # lines of a screen that are no items: two above them, one below, and the prompt
_LONGEST_ATTRIBUTE = 100  # characters of an attribute's name and value
_PREVIEW_CHUNK = 1 << 28  # bytes; of larger chunks no preview is shown, since they are decoded whole


def show(
    source: Source, attributes: dict[str, Any], statistics: dict[str, Any] | None, *, preview: bool, room: view.Room
) -> str:
    """The text of `show` for one tensor: data type, sizes and storage, attributes, any statistics, and a preview."""
    desc, details = source.desc, details_of(source.storage.details)
    rows = [("DataType", desc.data_type.name), ("Sizes", braced(desc.sizes))]
    rows += [("dimension count", str(desc.dimension_count))]
    rows += [("dimensions", _names_of(source))] * bool(source.dimensions)
    rows += [("elements", f"{desc.element_count:,}"), ("bytes", f"{desc.total_bytes:,}")]
    rows += [("storage", ", ".join(filter(None, (source.storage.format, details))))]
    for i, (name, value) in enumerate(attributes.items()):  # as ncdump -h has them
        text = json.dumps(value, ensure_ascii=False).removeprefix("[").removesuffix("]")
        rows.append(("" if i else "attributes", printable(shortened(f"{name} = {text}", _LONGEST_ATTRIBUTE))))
    # Without ml_dtypes, numbers of minifloats are not known, and there are no statistics.
    dtype = dtypes.numbers(np.empty(0, source.dtype)).dtype if statistics else source.dtype
    for key, value in (statistics or {}).items():
        if key in ("min", "max") and value is not None and dtype.kind == "f":
            rows.append((key, render(np.array([value], dtype))[0]))  # as an element is printed
        elif key != "missing":
            rows.append((key, "-" if value is None else str(value)))
        elif value:
            rows.append((key, f"{value:,}, left out"))
    lines = [printable(source.name)]
    for key, text in rows:
        head = f"  {key:<15}  "
        lines += [head + text] if room.columns == inf else terminal.hanging(head, text, int(room.columns))
    if preview:
        chunk = prod(source.chunks or ()) * source.dtype.itemsize
        values = f"// no preview: a chunk has {chunk:,} bytes"
        if chunk <= _PREVIEW_CHUNK:
            values = view.shortened(source, room._replace(elements=view.PREVIEW, columns=room.columns - 2))
        lines += ["", *(f"  {line}" for line in values.split("\n"))]
    return "\n".join(lines)


def listing(contents: Contents, screen: tuple[int, int] | None = None) -> str:
    """The table of what a file or a group holds; cut to a screen of so many columns and lines, if one is given."""
    items, tensors = contents.items, contents.tensors
    shown = _fitting(items, max(1, screen[1] - _AROUND)) if screen else items
    hidden = {item.key for item in items} - {item.key for item in shown}
    groups = [item for item in items if item.is_group]
    counts = {"tensor": len(tensors), "group": len(groups), "other": len(items) - len(tensors) - len(groups)}
    counts["attribute"] = contents.attributes or 0
    told = [terminal.counted(count, noun) for noun, count in counts.items() if count or noun == "tensor"]
    lines = [f"{printable(contents.name)}: {', '.join([contents.format, *told])}"]
    lines += _table([_row(contents, item, hidden) for item in shown], screen[0] if screen else 0)
    if screen:
        to_type = [
            item for item in (groups if hidden else tensors) if item.key.isprintable() and item.key not in hidden
        ]
        command = f"revseq show {platform.typed(contents.name_of(to_type[0]))}" if to_type else ""
        if hidden:
            more = f", {command} a group" if command else ""
            lines.append(f"{len(hidden):,} of {len(items):,} are not shown: --full shows all{more}")
        elif command:
            lines.append(f"one of them: {command}")
    return "\n".join(lines)


def details_of(details: dict[str, str]) -> str:
    """How a tensor is stored, in words."""
    return printable(", ".join(f"{key} {value or repr(value)}" for key, value in details.items()))


def _names_of(tensor: Source | Item) -> str:
    return ", ".join(printable(name) or "-" for name in tensor.dimensions)


def _fitting(items: Sequence[Item], most: int) -> Sequence[Item]:
    """At most so many items: as many levels of groups as there is room for, or the first ones of the first level."""
    if len(items) <= most:
        return items
    depths = sorted({item.depth for item in items}, reverse=True)
    levels = ([item for item in items if item.depth <= depth] for depth in depths)
    return next((level for level in levels if len(level) <= most), [item for item in items if not item.depth][:most])


def _row(contents: Contents, item: Item, hidden: Collection[str]) -> list[str]:
    """The cells of an item; one without sizes has only its name and what it is. A group's `hidden` ones are counted."""
    label = item.key.rpartition("/")[2] if contents.is_tree else item.key
    # As a shell takes it; what no terminal shows is escaped.
    name = "  " * item.depth + (platform.quoted(label) if label and label.isprintable() else printable(label))
    attributes = f"{item.attributes:,}" if item.attributes is not None else ""
    if item.is_group:
        inside = sum(key.startswith(f"{item.key}/") for key in hidden)
        return [f"{name}/", "", "", "", attributes, f"{inside:,} inside" if inside else ""]
    if item.sizes is None:
        return [name, printable(item.what)]
    kind = item.desc.data_type.name if item.desc else printable(item.what)
    return [name, kind, braced(item.sizes), _names_of(item), attributes, details_of(item.details)]


def _table(rows: list[list[str]], screen: int) -> Iterator[str]:
    """The rows below the heads of their columns; a column in which nothing stands is left out.

    Lines are cut to a screen of so many columns, if it is not 0, but for names, since they are to be typed.
    """
    from rich.cells import cell_len, set_cell_size  # some characters take two columns

    whole = [row for row in rows if len(row) == len(_HEADS)]
    used = [i for i in range(len(_HEADS)) if any(row[i] for row in whole)] or [0]
    if len(used) > 1:
        rows, whole = [[*_HEADS], *rows], [[*_HEADS], *whole]
    widths = {i: max((cell_len(row[i]) for row in (rows if i == 0 else whole)), default=0) for i in used}
    for row in rows:
        cells = [row[i] for i in used] if len(row) == len(_HEADS) else row
        padded = [set_cell_size(cell, widths.get(i, 0)) for i, cell in zip(used, cells[:-1], strict=False)]
        line = f"  {'  '.join([*padded, cells[-1]])}".rstrip()
        if screen and cell_len(line) > screen:
            kept = max(screen - 1, 2 + cell_len(row[0]))
            line = f"{set_cell_size(line, kept).rstrip()}{terminal.dots() if kept < screen else ''}"
        yield line


def diff(comparison: Comparison) -> str:
    """The text of `diff`: both tensors, how many elements differ and where, the first of them, and by how much."""
    a, b, found, axis, wrong, mistakes, _ = comparison
    roles, sides = comparison.roles, (a, b)
    heads = [f"{role + ':':<{len(roles[1]) + 1}}" for role in roles]
    lines = [f"{head} {side.desc}  {printable(side.name)}" for head, side in zip(heads, sides, strict=True)]
    lines[1] += f", reversed along axis {axis}" if axis is not None else ""
    if not found:
        unlike = {"DataType": a.desc.data_type != b.desc.data_type, "Sizes": a.sizes != b.sizes}
        return "\n".join([*lines, f"different {' and '.join(name for name, differs in unlike.items() if differs)}"])
    told = f"{found.count:,} of {found.total:,} elements differ"
    if comparison.equal:
        told = f"equal, {terminal.counted(found.total, 'element')}"
    elif found.count and axis is not None:
        inside, behind = found.inside, found.count - found.inside
        where = f"{inside:,} inside the reversed part, {behind:,} behind it"
        if not inside or not behind:
            where = f"only {'inside' if inside else 'behind'} the reversed part"
        told += f", in {found.line_count:,} of {b.desc.element_count // b.sizes[axis]:,} lines, {where}"
    lines.append(told)
    if wrong and wrong.rule and wrong.count < wrong.of:
        lines.append(f"wrong are just {wrong.rule}")
    lines += [f"{'         and:' if i else 'explained by:'} {one.text}" for i, one in enumerate(mistakes)]
    rows = [(str(index), *values) for index, *values in first_differences(found)]
    rows[:0] = [("index", *roles)] * bool(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines += ["  " + "  ".join(map(str.rjust, row, widths)) for row in rows]
    largest = {f"|A - {roles[1]}|": found.largest_absolute, f"|A - {roles[1]}| / |{roles[1]}|": found.largest_relative}
    lines += [f"largest {name}: {number:.7g}" for name, number in largest.items() if number is not None]
    if found.wider and found.largest_ulps:
        lines.append(f"largest distance in steps of the data type: {found.largest_ulps:,}")
    if found.nans:
        lines.append(f"NaN in both: {found.nans:,} of the elements that differ")
    return "\n".join([*lines, *([f"Hint: {comparison.hint}"] if comparison.hint else [])])


def plan(job: Job, plan: Plan) -> str:
    """The text of `run --dry-run`; -v prints it, too."""
    values, lengths, tiling = job.values.desc, job.lengths.desc, plan.tiling
    cut = ", lines are cut" if plan.blocks.cuts_lines else ""
    block = plan.blocks.elements * job.values.dtype.itemsize
    lines = [
        f"InputTensor            {values}, {values.total_bytes:,} bytes",
        f"SequenceLengthsTensor  {lengths}, {lengths.total_bytes:,} bytes",
        f"Axis                   {axis_text(values, job.axis)}",
        f"blocks                 {plan.blocks.count:,} of {block:,} bytes{cut}",
    ]
    if plan.spooled:
        lines.append(f"unchunked copies       {plan.spooled} of {values.total_bytes:,} bytes")
    if tiling:
        run, enough = tiling.run_length * values.data_type.size, f"--memory {plan.enough}"
        lines += [
            f"temporary file         {values.total_bytes:,} bytes; none with {enough}",
            f"passes                 2, in runs of {run:,} bytes",
        ]
    return "\n".join([*lines, f"engine                 {printable(plan.means)}"])


def batch(outcomes: Sequence[Outcome], jobs: int, seconds: float | None) -> str:
    """How many of all jobs are done, skipped, failed or not begun, with their bytes, and the seconds of no dry run."""
    failed, skipped = sum(each.error is not None for each in outcomes), sum(each.skipped for each in outcomes)
    done, wrong = ("done", "failed") if seconds is not None else ("to do", "wrong")
    counts = {
        done: len(outcomes) - failed - skipped,
        "skipped": skipped,
        wrong: failed,
        "not begun": jobs - len(outcomes),
    }
    told = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
    size = sum(outcome.bytes for outcome in outcomes)
    took = f" in {seconds:.2f} s" if seconds is not None else ""
    return f"{terminal.counted(jobs, 'job')}: {told or 'nothing'}; {size:,} bytes{took}"


def axis_text(values: TensorDesc, axis: int) -> str:
    """The axis, with the number and the size of its lines if the tensor has it."""
    if not 0 <= axis < values.dimension_count:
        return str(axis)
    lines = terminal.counted(prod((*values.sizes[:axis], *values.sizes[axis + 1 :])), "line")
    return f"{axis} ({lines} of {terminal.counted(values.sizes[axis], 'element')})"
