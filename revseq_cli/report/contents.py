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
from revseq_cli.report import terminal, view
from revseq_cli.text.numbers import render_numbers

if TYPE_CHECKING:
    from revseq_cli.report.objects import StatisticsRecord

_HEADS = ("name", "data type", "shape", "dimensions", "attributes", "storage")
_SHAPE = 2  # columns
_DIMENSIONS = 3
_ATTRIBUTES = 4
_STORAGE = 5
_LEAST_NEEDED = (_STORAGE, _ATTRIBUTES, _DIMENSIONS)  # those that a narrow terminal does without
_GAP = 2  # blanks between two columns
_LONGEST_ATTRIBUTE = 100  # characters of an attribute's name and value
_MOST_ROWS = 60  # of a file on a terminal; of a larger one, groups are shown with what to type
_PREVIEW_CHUNK = 1 << 28  # bytes; larger chunks are decoded whole, which takes too long
_LABEL_WIDTH = 12  # columns

Cells = list[str]


def tensor_text(
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


def file_text(contents: Contents, width: int | None = None) -> str:
    """What a file or a group holds, in a table; on a terminal, not more than one can read."""
    items = contents.items
    rest = ""
    if width is not None and len(items) > _MOST_ROWS:
        items, rest = _choose_items(contents)
    rows = [_cells_of(contents, item) for item in items]
    lines = [_summary(contents), *_table(rows, width)]
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

    They are those that are in no further group, or the first ones.
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
    yield "min", _element_text(source, statistics.min)
    yield "max", _element_text(source, statistics.max)
    yield "mean", "-" if statistics.mean is None else str(statistics.mean)
    yield "NaN", str(statistics.nan)
    yield "infinite", str(statistics.infinite)
    yield "missing", str(statistics.missing)


def _element_text(source: Source, value: Any) -> str:  # noqa: ANN401 - any number
    if value is None:
        return "-"
    if dtypes.is_minifloat(source.dtype):
        return f"{value:.4g}"
    return render_numbers(np.array([value], source.dtype))[0]


def _preview(source: Source) -> str:
    is_far = files.waits_for_servers(source.path)
    most = thresholds.FAR_PREVIEW if is_far else _PREVIEW_CHUNK
    chunk = prod(source.chunks or ()) * source.dtype.itemsize
    if chunk > most:
        return f"// no preview: a chunk has {chunk:,} bytes"
    ends = view.ends_of(source.sizes, view.PREVIEW)
    if is_far:
        ends = view.choose_near_ends(source, ends)
    return view.show_rows(source, ends)


def _cells_of(contents: Contents, item: Item) -> Cells:
    """The cells of an item; one without a shape has only what it is."""
    label = item.key.rpartition("/")[2] if contents.is_tree else item.key
    # As a shell takes it; what no terminal shows is escaped.
    is_shown = bool(label) and label.isprintable()
    name = "  " * item.depth + (platform.quote(label) if is_shown else printable(label))
    attributes = "" if item.attributes is None else f"{item.attributes:,}"
    if item.is_group:
        inside = [other for other in contents.tensors if other.key.startswith(f"{item.key}/")]
        return [f"{name}/", terminal.say_count(len(inside), "tensor"), "", "", attributes, ""]
    if item.sizes is None:
        return [name, printable(item.what), "", "", "", ""]
    kind = item.desc.data_type.name if item.desc else printable(item.what)
    # What a compound is stored as is in the column before.
    details = {key: value for key, value in item.details.items() if value != kind}
    storage = _details_text(details)
    return [name, kind, in_braces(item.sizes), _dimensions_text(item), attributes, storage]


def _table(rows: list[Cells], width: int | None) -> list[str]:
    """The rows under the heads of their columns, without columns that are empty or have no room."""
    columns = [i for i in range(len(_HEADS)) if any(row[i] for row in rows)]
    if _SHAPE in columns:
        rows = [[*_HEADS], *rows]
    widths = {i: max(_cell_length(row[i]) for row in rows) for i in columns}
    if width is not None:
        _drop_columns(widths, width)
    return [line for row in rows for line in _lines_of(row, widths, width)]


def _drop_columns(widths: dict[int, int], width: int) -> None:
    """Leave out the columns that are needed least until the table fits."""
    for column in _LEAST_NEEDED:
        if sum(widths.values()) + _GAP * len(widths) > width:
            widths.pop(column, None)


def _lines_of(row: Cells, widths: dict[int, int], width: int | None) -> list[str]:
    """A row; the last column wraps under itself where the terminal ends."""
    from rich.cells import set_cell_size  # some characters take two columns

    *first, last = widths
    head = "  " + "".join(f"{set_cell_size(row[i], widths[i])}  " for i in first)
    return [line.rstrip() for line in _wrap_cell(head.removesuffix("  "), row[last], width)]


def _wrap_cell(head: str, text: str, width: int | None) -> list[str]:
    """What stands before a cell, and the cell, which wraps under itself."""
    head += "  "
    room = None if width is None else width - _cell_length(head)
    if room is None or room < 8:
        return [head + text]
    first, *rest = terminal.fit(text, room, indent="").split("\n")
    return [head + first, *(" " * _cell_length(head) + line for line in rest)]


def _cell_length(text: str) -> int:
    from rich.cells import cell_len  # some characters take two columns

    return cell_len(text)
