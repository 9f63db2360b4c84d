"""Results as text for people, rich tables on a terminal and plain lines in a pipe; and lists of what files hold."""

from __future__ import annotations

import json
from math import inf, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.core import dtypes, platform
from revseq_cli.core.errors import printable, shortened
from revseq_cli.core.tensors import braced
from revseq_cli.report import terminal, view
from revseq_cli.report.objects import Comparison, Outcome, Planned, first_differences
from revseq_cli.text.numbers import render

_HEADS = ("name", "DataType", "Sizes", "dimensions", "attributes", "storage")
_AROUND = 4  # lines of a screen that are no items: two above them, one below, and the prompt
_LONGEST_ATTRIBUTE = 100  # characters of an attribute's name and value
_PREVIEW_CHUNK = 1 << 28  # bytes; of larger chunks no preview is shown, since they are decoded whole

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from revseq_cli.core.tensors import TensorDesc
    from revseq_cli.formats.contents import Contents, Item
    from revseq_cli.formats.contract import Source
    from revseq_cli.pipeline.comparison import Differences
    from revseq_cli.porting.diagnose import Diagnosis


def show(
    source: Source, attributes: dict[str, Any], statistics: dict[str, Any] | None, *, preview: bool, room: view.Room
) -> str:
    """The text of `show` for one tensor: data type, sizes and storage, attributes, any statistics, and a preview."""
    desc, storage = source.desc, source.storage
    details = details_of(storage.details)
    rows = [
        ("DataType", desc.data_type.name),
        ("Sizes", braced(desc.sizes)),
        ("dimension count", str(desc.dimension_count)),
        *[("dimensions", names_of(source.dimensions))] * bool(source.dimensions),
        ("elements", f"{desc.element_count:,}"),
        ("bytes", f"{desc.total_bytes:,}"),
        ("storage", f"{storage.format}{', ' if details else ''}{details}"),
        *(("" if i else "attributes", line) for i, line in enumerate(_stated(attributes))),
    ]
    if statistics:
        told = {**statistics, **{end: _element(statistics[end], source) for end in ("min", "max")}}
        missing = told.pop("missing")
        told |= {"missing": f"{missing:,}, left out"} if missing else {}
        rows += [(key, "-" if value is None else str(value)) for key, value in told.items()]
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


def _stated(attributes: dict[str, Any]) -> Iterator[str]:
    """The attributes with their values, as ncdump -h has them; long ones are cut."""
    for name, value in attributes.items():
        text = json.dumps(value, ensure_ascii=False).removeprefix("[").removesuffix("]")
        yield printable(shortened(f"{name} = {text}", _LONGEST_ATTRIBUTE))


def listing(contents: Contents, screen: tuple[int, int] | None = None) -> str:
    """The table of what a file or a group holds; cut to a screen of so many columns and lines, if one is given."""
    items = contents.items
    shown = _fitting(items, max(1, screen[1] - _AROUND)) if screen else items
    hidden = {item.key for item in items} - {item.key for item in shown}
    lines = [_head(contents), *_table([_row(contents, item, hidden) for item in shown], screen[0] if screen else 0)]
    return "\n".join([*lines, *([_below(contents, shown, len(hidden))] if screen else [])]).rstrip("\n")


def names_of(dimensions: Iterable[str]) -> str:
    """The names of dimensions, with - for one without."""
    return ", ".join(printable(name) or "-" for name in dimensions)


def details_of(details: dict[str, str]) -> str:
    """How a tensor is stored, in words."""
    return printable(", ".join(f"{key} {value or repr(value)}" for key, value in details.items()))


def _fitting(items: Sequence[Item], most: int) -> Sequence[Item]:
    """At most so many items: as many levels of groups as there is room for, or the first ones of the first level."""
    if len(items) <= most:
        return items
    depths = sorted({item.depth for item in items}, reverse=True)
    levels = ([item for item in items if item.depth <= depth] for depth in depths)
    return next((level for level in levels if len(level) <= most), [item for item in items if not item.depth][:most])


def _head(contents: Contents) -> str:
    """The name of what is listed, its format, and how much is in it."""
    groups = sum(item.is_group for item in contents.items)
    tensors = len(contents.tensors)
    counts = {
        "tensor": tensors, "group": groups, "other": len(contents.items) - tensors - groups,
        "attribute": contents.attributes or 0,
    }  # fmt: skip
    told = (f"{n:,} {noun}{'s' * (n != 1)}" for noun, n in counts.items() if n or noun == "tensor")
    return f"{printable(contents.name)}: {', '.join([contents.format, *told])}"


def _row(contents: Contents, item: Item, hidden: Collection[str]) -> list[str]:
    """The cells of an item; one without sizes has only its name and what it is. A group's `hidden` ones are counted."""
    label = item.key.rpartition("/")[2] if contents.is_tree else item.key
    name = "  " * item.depth + _typed(label)
    attributes = f"{item.attributes:,}" if item.attributes is not None else ""
    if item.is_group:
        inside = sum(key.startswith(f"{item.key}/") for key in hidden)
        return [f"{name}/", "", "", "", attributes, f"{inside:,} inside" if inside else ""]
    if item.sizes is None:
        return [name, printable(item.what)]
    kind = item.desc.data_type.name if item.desc else printable(item.what)
    return [name, kind, braced(item.sizes), names_of(item.dimensions), attributes, details_of(item.details)]


def _typed(label: str) -> str:
    """A name as a shell takes it; what no terminal shows is escaped."""
    return (platform.quoted(label) if label else "") if label.isprintable() else printable(label)


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


def _below(contents: Contents, shown: Sequence[Item], hidden: int) -> str:
    """What to type to see more; "" if nothing can be typed."""
    if not hidden:
        items = [item for item in contents.tensors if item.key.isprintable()]
        return f"one of them: revseq show {platform.typed(contents.name_of(items[0]))}" if items else ""
    groups = [item for item in shown if item.is_group and item.key.isprintable()]
    one = f", revseq show {platform.typed(contents.name_of(groups[0]))} a group" if groups else ""
    return f"{hidden:,} of {len(contents.items):,} are not shown: --full shows all{one}"


def diff(comparison: Comparison) -> str:
    """The text of `diff`: both tensors, how many elements differ and where, the first of them, and by how much."""
    a, b, found, axis, why, _ = comparison
    labels = comparison.roles
    lines = [
        f"{label + ':':<{len(labels[1]) + 1}} {each.desc}  {printable(each.name)}"
        for label, each in zip(labels, (a, b), strict=True)
    ]
    if axis is not None:
        lines[1] += f", reversed along axis {axis}"
    if found:
        equal = f"equal, {terminal.counted(found.total, 'element')}"
        lines.append(equal if comparison.equal else _difference(comparison))
        lines += _explanation(why) if why else ()
        rows = [(str(index), *values) for index, *values in first_differences(found)]
        if rows:
            rows.insert(0, ("index", *labels))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines += ["  " + "  ".join(map(str.rjust, row, widths)) for row in rows]
        largest = (found.largest_absolute, found.largest_relative)
        names = (f"|A - {labels[1]}|", f"|A - {labels[1]}| / |{labels[1]}|")
        lines += [f"largest {name}: {n:.7g}" for name, n in zip(names, largest, strict=True) if n is not None]
        if found.wider and found.largest_ulps:
            lines.append(f"largest distance in steps of the data type: {found.largest_ulps:,}")
        if found.nans:
            lines.append(f"NaN in both: {found.nans:,} of the elements that differ")
    else:
        lines.append(_difference(comparison))
    if comparison.hint:
        lines.append(f"Hint: {comparison.hint}")
    return "\n".join(lines)


def _difference(comparison: Comparison) -> str:
    """In how many elements and lines both differ, or in what else."""
    a, b, found, axis, *_ = comparison
    if not found:
        unlike = {"DataType": a.desc.data_type != b.desc.data_type, "Sizes": a.sizes != b.sizes}
        return f"different {' and '.join(name for name, differs in unlike.items() if differs)}"
    told = f"{found.count:,} of {found.total:,} elements differ"
    if found.count and axis is not None:
        told += f", {_places(found, b.desc.element_count // b.sizes[axis])}"
    return told


def _explanation(why: Diagnosis) -> Iterator[str]:
    """Which lines are wrong, and what explains that."""
    if why.lines and why.lines.rule and why.lines.count < why.lines.of:
        yield f"wrong are just {why.lines.rule}"
    for i, mistake in enumerate(why.mistakes):
        yield f"{'         and:' if i else 'explained by:'} {mistake.text}"


def _places(found: Differences, total: int) -> str:
    """In how many lines there are differences, and whether inside or behind the reversed parts."""
    lines, inside, behind = found.line_count, found.inside, found.count - found.inside
    where = f"{inside:,} inside the reversed part, {behind:,} behind it"
    if not inside or not behind:
        where = f"only {'inside' if inside else 'behind'} the reversed part"
    return f"in {lines:,} of {total:,} lines, {where}"


def plan(planned: Planned) -> str:
    """The text of `run --dry-run`; -v prints it, too."""
    values, lengths, axis, plan, _ = planned
    tiling = plan.tiling
    cut = ", lines are cut" if plan.blocks.cuts_lines else ""
    block = plan.blocks.elements * values.data_type.size
    lines = [
        f"InputTensor            {values}, {values.total_bytes:,} bytes",
        f"SequenceLengthsTensor  {lengths}, {lengths.total_bytes:,} bytes",
        f"Axis                   {axis_text(values, axis)}",
        f"blocks                 {plan.blocks.count:,} of {block:,} bytes{cut}",
    ]
    if plan.spooled:
        lines.append(f"unchunked copies       {plan.spooled} of {values.total_bytes:,} bytes")
    if tiling:
        run, enough = tiling.run * values.data_type.size, f"--memory {plan.direct}"
        lines += [
            f"temporary file         {values.total_bytes:,} bytes; none with {enough}",
            f"passes                 2, in runs of {run:,} bytes",
        ]
    if plan.lacks_room:
        lines.append(f"temporary file         none: {2 * values.total_bytes:,} bytes are not free, so runs are short")
    traffic = planned.traffic
    most = "about " if tiling else ""
    lines += [
        f"bytes                  {most}{traffic.read_bytes:,} read, {traffic.write_bytes:,} written",
        f"engine                 {printable(plan.means)}",
    ]
    return "\n".join(lines)


def batch(outcomes: Sequence[Outcome], jobs: int, seconds: float) -> str:
    """How many of all jobs are done, skipped, failed or not begun, with their bytes and seconds."""
    failed, skipped = sum(each.error is not None for each in outcomes), sum(each.skipped for each in outcomes)
    counts = {"done": len(outcomes) - failed - skipped, "skipped": skipped, "failed": failed}
    size = sum(outcome.bytes for outcome in outcomes)
    return f"{_counts(jobs, counts | {'not begun': jobs - len(outcomes)})}; {size:,} bytes in {seconds:.2f} s"


def batch_plan(outcomes: Sequence[Outcome], file_systems: Sequence[dict[str, Any]]) -> str:
    """What a batch would do: its jobs and their bytes, and what it needs on each file system."""
    plans = [outcome.plan for outcome in outcomes if outcome.plan]
    counts = {"to do": len(plans), "skipped": sum(outcome.skipped for outcome in outcomes)}
    counts["wrong"] = sum(outcome.error is not None for outcome in outcomes)
    read, written = sum(plan.read_bytes for plan in plans), sum(plan.write_bytes for plan in plans)
    lines = [f"{_counts(len(outcomes), counts)}; {read:,} bytes to read, {written:,} to write"]
    text = "{path}: {needed_bytes:,} bytes needed, {free_bytes:,} bytes free"
    return "\n".join(map(printable, [*lines, *(text.format(**each) for each in file_systems)]))


def _counts(jobs: int, counts: dict[str, int]) -> str:
    told = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
    return f"{terminal.counted(jobs, 'job')}: {told or 'nothing'}"


def _element(value: float | None, source: Source) -> object:
    """A number as an element of the tensor is printed; None stays."""
    dtype = dtypes.numbers(np.empty(0, source.dtype)).dtype
    return value if value is None or dtype.kind != "f" else render(np.array([value], dtype))[0]


def axis_text(values: TensorDesc, axis: int) -> str:
    """The axis, with the number and the size of its lines if the tensor has it."""
    if not 0 <= axis < values.dimension_count:
        return str(axis)
    lines = terminal.counted(prod((*values.sizes[:axis], *values.sizes[axis + 1 :])), "line")
    return f"{axis} ({lines} of {terminal.counted(values.sizes[axis], 'element')})"
