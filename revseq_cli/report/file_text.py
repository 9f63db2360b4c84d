"""The text of `show`: a tensor with its storage, attributes and a preview; what a file holds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli import files
from revseq_cli.core import dtypes, platform, thresholds
from revseq_cli.core.errors import printable
from revseq_cli.core.tensors import in_braces
from revseq_cli.formats.contract import Source
from revseq_cli.formats.listings import Contents, Item
from revseq_cli.report import terminal
from revseq_cli.report.preview import MOST_ELEMENTS, choose_near_part, choose_part, part_text
from revseq_cli.text.numbers import render_numbers

if TYPE_CHECKING:
    from revseq_cli.report.objects import StatisticsRecord

_HEADS = ("name", "data type", "shape", "dimensions", "attributes", "storage")
_LEAST_NEEDED = ("storage", "attributes", "dimensions")  # omitted in this order if room is short
_GAP = 2  # blanks between two columns
_LEAST_ROOM = 8  # columns in which a cell is wrapped
_LONGEST_ATTRIBUTE = 100  # characters of an attribute's name and value
_MOST_ROWS = 60  # of a file on a terminal; of a larger one, groups are shown with what to type
_PREVIEW_CHUNK = 1 << 28  # bytes; larger chunks are decoded whole, which takes too long
_LABEL_WIDTH = 14  # columns

Cells = dict[str, str]  # the cells of a row by the heads of their columns


def stored_text(
    source: Source,
    attributes: Mapping[str, Any],
    statistics: StatisticsRecord | None,
    *,
    preview: bool,
    width: int | None = None,
) -> str:
    """A tensor: its data type, shape and storage, attributes, any statistics, and a preview."""
    desc = source.desc
    rows = [("data type", desc.data_type.name), ("shape", in_braces(desc.sizes))]
    if source.dimensions:
        rows.append(("dimensions", _dimensions_text(source)))
    rows.append(("elements", f"{desc.element_count:,}"))
    rows.append(("bytes", f"{desc.total_bytes:,}"))
    rows.append(("storage", _storage_text(source)))
    label = "attributes"
    for name, value in attributes.items():
        rows.append((label, _attribute_text(name, value)))
        label = ""
    if statistics:
        rows += _statistics_rows(source, statistics)
    lines = [printable(source.name)]
    for label, text in rows:
        lines += _wrap_cell(f"  {label:<{_LABEL_WIDTH}}", text, width)
    if preview:
        lines += ["", *(f"  {line}" for line in _preview(source).split("\n"))]
    return "\n".join(lines)


def contents_text(contents: Contents, width: int | None = None) -> str:
    """What a file or a group holds, in a table; on a terminal, not more than one can read."""
    items = contents.items
    rest = ""
    if width is not None and len(items) > _MOST_ROWS:
        items, rest = _choose_items(contents)
    rows = [_describe_item(contents, item) for item in items]
    lines = [_summary(contents), *_format_table(rows, width)]
    if rest:
        lines.append(rest)
    return "\n".join(lines)


def _summary(contents: Contents) -> str:
    """The name of the file, its format, and how much is in it."""
    tensors = len(contents.tensors)
    groups = sum(item.is_group for item in contents.items)
    counts = {
        "tensor": tensors,
        "group": groups,
        "other": len(contents.items) - tensors - groups,
        "attribute": contents.attributes or 0,
    }
    words = [contents.label or contents.format]
    for noun, count in counts.items():
        if count or noun == "tensor":
            words.append(terminal.say_count(count, noun))
    return f"{printable(contents.name)}: {', '.join(words)}"


def _choose_items(contents: Contents) -> tuple[tuple[Item, ...], str]:
    """Some of very many items, and what to type for the rest.

    They are the groups and what is next to them, or the first ones of a file without groups.
    """
    outermost = [item for item in contents.items if item.depth == 0]
    groups = [item for item in outermost if item.is_group]
    if groups and len(outermost) <= _MOST_ROWS:
        command = f"revseq show {platform.as_argument(contents.name_of(groups[0]))}"
        return tuple(outermost), f"to see what is in a group, type, for example:\n{command}"
    more = len(contents.items) - _MOST_ROWS
    command = f"revseq show {platform.as_argument(contents.name)} --names"
    return contents.items[:_MOST_ROWS], f"{more:,} more: to see all names, type\n{command}"


def _storage_text(source: Source) -> str:
    storage = source.storage
    words = [storage.label or storage.format]
    details = _details_text(storage.details)
    if details:
        words.append(details)
    return ", ".join(words)


def _details_text(details: dict[str, str]) -> str:
    """How a tensor is stored, in words."""
    return printable(", ".join(f"{key} {value or repr(value)}" for key, value in details.items()))


def _dimensions_text(tensor: Source | Item) -> str:
    return ", ".join(printable(name) or "-" for name in tensor.dimensions)


def _attribute_text(name: str, value: object) -> str:
    """An attribute as ncdump -h has it."""
    text = json.dumps(value, ensure_ascii=False).removeprefix("[").removesuffix("]")
    return printable(f"{name} = {text}"[:_LONGEST_ATTRIBUTE])


def _statistics_rows(source: Source, statistics: StatisticsRecord) -> Iterator[tuple[str, str]]:
    """The statistics; the minimum and the maximum are printed as an element is."""
    yield "min", _element_text(source, statistics["min"])
    yield "max", _element_text(source, statistics["max"])
    yield "mean", "-" if statistics["mean"] is None else str(statistics["mean"])
    yield "NaN", str(statistics["nan"])
    yield "infinite", str(statistics["infinite"])
    yield "missing", str(statistics["missing"])


def _element_text(source: Source, value: Any) -> str:  # noqa: ANN401 - any number
    if value is None:
        return "-"
    if dtypes.is_minifloat(source.dtype):
        return f"{value:.4g}"
    return render_numbers(np.array([value], source.dtype))[0]


def _preview(source: Source) -> str:
    is_remote = files.waits_for_servers(source.path)
    most = thresholds.REMOTE_PREVIEW if is_remote else _PREVIEW_CHUNK
    chunk = prod(source.chunks or ()) * source.dtype.itemsize
    if chunk > most:
        return f"// no preview: a chunk has {chunk:,} bytes"
    part = choose_part(source.sizes, MOST_ELEMENTS)
    if is_remote:
        part = choose_near_part(source, part)
    return part_text(source, part)


def _describe_item(contents: Contents, item: Item) -> Cells:
    """The cells of an item; one without a shape has only what it is."""
    name = _write_name(contents, item)
    attributes = "" if item.attributes is None else f"{item.attributes:,}"
    if item.is_group:
        inside = [other for other in contents.tensors if other.key.startswith(f"{item.key}/")]
        count = terminal.say_count(len(inside), "tensor")
        return {"name": f"{name}/", "data type": count, "attributes": attributes}
    if item.sizes is None:
        return {"name": name, "data type": printable(item.what)}
    data_type = item.desc.data_type.name if item.desc else printable(item.what)
    # What a compound is stored as is its data type, too.
    details = {key: value for key, value in item.details.items() if value != data_type}
    return {
        "name": name,
        "data type": data_type,
        "shape": in_braces(item.sizes),
        "dimensions": _dimensions_text(item),
        "attributes": attributes,
        "storage": _details_text(details),
    }


def _write_name(contents: Contents, item: Item) -> str:
    """The name of an item as a shell takes it; what no terminal shows is escaped."""
    name = item.key.rpartition("/")[2] if contents.is_tree else item.key
    indent = "  " * item.depth
    if name and name.isprintable():
        return indent + platform.quote(name)
    return indent + printable(name)


def _format_table(rows: list[Cells], width: int | None) -> list[str]:
    """The rows under the heads of their columns, without columns that are empty or have no room."""
    heads = [head for head in _HEADS if any(row.get(head) for row in rows)]
    if "shape" in heads:
        rows = [{head: head for head in heads}, *rows]
    widths = {head: max(_cell_length(row.get(head, "")) for row in rows) for head in heads}
    for head in _LEAST_NEEDED:
        if width is not None and sum(widths.values()) + _GAP * len(widths) > width:
            widths.pop(head, None)
    return [line for row in rows for line in _write_row(row, widths, width)]


def _write_row(row: Cells, widths: dict[str, int], width: int | None) -> list[str]:
    """The lines of a row; the last column wraps under itself where the terminal ends."""
    from rich.cells import set_cell_size  # some characters take two columns

    *heads, last = widths
    before = " " * _GAP
    for head in heads:
        before += set_cell_size(row.get(head, ""), widths[head]) + " " * _GAP
    return [line.rstrip() for line in _wrap_cell(before, row.get(last, ""), width)]


def _wrap_cell(before: str, text: str, width: int | None) -> list[str]:
    """The text after what stands before it in the line; it wraps under itself."""
    column = _cell_length(before)
    if width is None or width - column < _LEAST_ROOM:
        return [before + text]
    first, *rest = terminal.fit(text, width - column, indent="").split("\n")
    return [before + first, *(" " * column + line for line in rest)]


def _cell_length(text: str) -> int:
    from rich.cells import cell_len  # some characters take two columns

    return cell_len(text)
