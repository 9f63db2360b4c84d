"""What files hold, as text: a table whose names make a tree, and lines for scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from revseq_cli.ground import system
from revseq_cli.ground.errors import printable
from revseq_cli.ground.tensors import braced

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from revseq_cli.formats.contents import Contents, Item
    from revseq_cli.report.results import Described

_HEADS = ("name", "DataType", "Sizes", "dimensions", "attributes", "storage")
_NUMBER = _HEADS.index("attributes")  # the column that ends at the right
_WIDEST = 36  # columns of a cell; a longer name has a line of its own, and what else is longer moves its line's rest
_AROUND = 4  # lines of a screen that are no items: two above them, one below, and the prompt
_BREAKS = ("\n", "\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029")


def listing(contents: Contents, screen: tuple[int, int] | None = None) -> str:
    """The table of what a file or a group holds; cut to a screen of so many columns and lines, if one is given."""
    items = contents.items
    shown = _fitting(items, max(1, screen[1] - _AROUND)) if screen else items
    keys = {item.key for item in shown}
    hidden = [item.key for item in items if item.key not in keys]
    rows = [_row(contents, item, hidden) for item in shown]
    lines = [_head(contents), *(f"  {line}" for line in _table(rows))]
    if screen:
        lines = [_cut(line, screen[0]) for line in lines]
        lines.append(_below(contents, shown, len(hidden)))
    return "\n".join(filter(None, lines))


def columns(tensors: Iterable[Described], asked: Collection[str], *, is_terminal: bool) -> Iterator[str]:
    """A line for each tensor, with what is asked for between tabs: shape, dtype, and names, which can be typed.

    A name is as it is, but on a terminal printable, and everywhere without a line break.
    """
    for tensor in tensors:
        plain = not is_terminal and not any(each in tensor.typed for each in _BREAKS)
        cells = {
            "shape": " ".join(map(str, tensor.desc.sizes)),
            "dtype": tensor.desc.data_type.name,
            "names": tensor.typed if plain else printable(tensor.typed),
        }
        yield "\t".join(cell for name, cell in cells.items() if name in asked)


def names_of(dimensions: Iterable[str]) -> str:
    """The names of dimensions, with - for one without."""
    return ", ".join(printable(name) or "-" for name in dimensions)


def details_of(details: dict[str, str]) -> str:
    """How a tensor is stored, in words."""
    return printable(", ".join(f"{key} {value}" for key, value in details.items()))


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
    return (system.quoted(label) if label else "") if label.isprintable() else printable(label)


def _table(rows: list[list[str]]) -> Iterator[str]:
    """The rows below the heads of their columns; a column in which nothing stands is left out."""
    from rich.cells import cell_len  # some characters take two columns

    whole = [row for row in rows if len(row) == len(_HEADS)]
    used = [i for i in range(len(_HEADS)) if any(row[i] for row in whole)]
    if len(used) > 1:
        rows = [list(_HEADS), *rows]
        whole.append(rows[0])
    widths = [min(_WIDEST, max((cell_len(row[i]) for row in whole), default=0)) for i in range(len(_HEADS))]
    widths[0] = max((width for row in rows if (width := cell_len(row[0])) <= _WIDEST), default=0)
    for name, *cells in rows:
        if cell_len(name) > widths[0] and any(cells):  # the rest stands below it, in its columns
            yield name
            name = ""
        name += " " * (widths[0] - cell_len(name))
        if len(cells) == 1:
            yield f"{name}  {cells[0]}"
            continue
        blanks = {i: " " * (widths[i] - cell_len(cells[i - 1])) for i in used[1:]}
        padded = (blanks[i] + cells[i - 1] if i == _NUMBER else cells[i - 1] + blanks[i] for i in used[1:])
        yield "  ".join([name, *padded]).rstrip()


def _cut(line: str, width: int) -> str:
    """The line in at most so many columns; a name alone is never cut, since it is to be typed."""
    from rich.cells import cell_len

    name = len(line) - len(line.lstrip()) + len(line.lstrip().partition("  ")[0])
    end = len(line)
    while end > name and cell_len(line[:end]) + 3 * (end < len(line)) > width:
        end -= 1
    return line if end == len(line) else f"{line[:end].rstrip()}..." if end > name else line[:name]


def _below(contents: Contents, shown: Sequence[Item], hidden: int) -> str:
    """What to type to see more; "" if nothing can be typed."""
    if not hidden:
        items = [item for item in contents.tensors if item.key.isprintable()]
        return f"one of them: revseq show {system.quoted(contents.name_of(items[0]))}" if items else ""
    groups = [item for item in shown if item.is_group and item.key.isprintable()]
    one = f", revseq show {system.quoted(contents.name_of(groups[0]))} a group" if groups else ""
    return f"{hidden:,} of {len(contents.items):,} are not shown: --full shows all{one}"
