"""Figures as SVG, for pages: light and dark in one file, text as text, and nothing that a page would have to load."""

from __future__ import annotations

import itertools
from collections import defaultdict
from math import ceil
from typing import TYPE_CHECKING, NamedTuple
from xml.etree import ElementTree

from revseq_cli.ground.tensors import braced
from revseq_cli.report import layout, palette
from revseq_cli.report.excerpts import Limits
from revseq_cli.report.figures import cell_text
from revseq_cli.report.markup import element

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from xml.etree.ElementTree import Element

    from revseq_cli.report.figures import Block, Figure, Index, Panel

_MOST_ELEMENTS = 200  # of a tensor; larger ones are shortened
WIDEST = 880  # pixels: a column of text on documentation pages
_LONGEST, _MOST_TABLES = 16, 12  # indices of a dimension; tables below each other
_MOST_COLUMNS = (16, 6, 2, 1)  # the first of these with which the drawing is narrow enough
# Arrows are drawn for tensors with at most so many elements, if at most so many arrows lie one beside another.
_MOST_WITH_ARROWS, _MOST_LANES = 64, 4

_MARGIN, _BETWEEN, _BELOW = 16, 32, 24  # around all; between tables side by side; between those below each other
_CHARACTER, _SMALL, _NAME = 8.5, 7.9, 10.0  # the widths of characters, with room for wide fonts
_PAD, _ROW, _LINE, _CAPTION, _DOTS = 11, 27, 18, 22, 30  # of a cell; the heights of rows and lines; what is left out
_LANE, _HEAD = 7, 4.5  # between two arrows that lie side by side; the length of an arrow's head
_LAYERS = ["rect", "path", "text"]  # in which a panel with arrows is drawn
_LINE_LENGTH = 36  # characters of a line of text where it is long

_SANS = '"Segoe UI", system-ui, -apple-system, "Helvetica Neue", Arial, sans-serif'
_STYLE = {
    "text": 'font: 14px Consolas, "SF Mono", Menlo, "DejaVu Sans Mono", monospace; white-space: pre',
    ".name": f"font: 600 15px {_SANS}",
    ".legend": f"font: 13px {_SANS}",
    ".small": "font-size: 13px",
    ".cell": "text-anchor: end",
    ".middle": "text-anchor: middle",
    ".mark": "font-weight: 700",
    ".caption": "stroke-width: 5; paint-order: stroke",
    ".line": "fill: none; stroke-width: 1",
    ".arrow": "fill: none; stroke-width: 1.4",
}


def drawn(figure_of: Callable[[Limits], Figure]) -> str:
    """The SVG of a figure, at most WIDEST wide; `figure_of` makes the figure with these limits."""
    for columns in _MOST_COLUMNS:
        figure = figure_of(Limits(_MOST_ELEMENTS, _LONGEST, columns, _MOST_TABLES))
        boxes = _boxes(figure)
        if max(box.width for box in boxes) + 2 * _MARGIN <= WIDEST:
            break
    root = _root(figure, boxes)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


class _Box(NamedTuple):
    """Elements that are drawn from (0, 0) on, and the room that they take."""

    elements: list[Element]
    width: float
    height: float


class _Place(NamedTuple):
    """The right edge and the top of a cell's text, below and left of the room for arrows, and its width."""

    right: float
    top: float
    width: float


class _Room(NamedTuple):
    """What arrows take: above the texts of rows, by the index without its last number, and on the right of columns.

    Rows of the other tensors are as high, so that they lie beside each other; `below` is the part that is below texts.
    """

    above: dict[Index, float]
    right: dict[Index, float]
    below: float = 0


def _root(figure: Figure, boxes: list[_Box]) -> Element:
    """The whole drawing."""
    boxes = [_Box([_text(figure.heading, 0, 15, "name")], len(figure.heading) * _NAME, _LINE), *boxes]
    groups, x, y, below, width = [], 0.0, float(_MARGIN), 0.0, 0.0
    for n, box in enumerate(boxes):
        is_panel = 0 < n <= len(figure.panels)
        if x and (not is_panel or n == 1 or x + box.width + 2 * _MARGIN > WIDEST):
            x, y = 0, y + below + _BELOW
            below = 0
        groups.append(element("g", *box.elements, transform=f"translate({_MARGIN + x:g} {y:g})"))
        width, below = max(width, x + box.width + 2 * _MARGIN), max(below, box.height)
        x += box.width + _BETWEEN
    height = y + below + _MARGIN
    width, height = ceil(width), ceil(height)
    attributes = {"xmlns": "http://www.w3.org/2000/svg", "class": "revseq", "viewBox": f"0 0 {width} {height}"}
    return element(
        "svg",
        element("title", figure.title),
        element("desc", "\n".join([figure.heading, *(panel.text for panel in figure.panels)])),
        element("style", _style()),
        element("rect", class_="ground", width=width, height=height),
        *groups,
        **attributes,
        role="img",
        width=width,
        height=height,
    )


def _style() -> str:
    """The rules, with the light colours, and the dark ones for who prefers them."""
    light, dark = _rules(_colors(palette.LIGHT)), _rules(_colors(palette.DARK))
    return f"\n{_rules(_STYLE)}{light}@media (prefers-color-scheme: dark) {{\n{dark}}}\n"


def _rules(rules: Mapping[str, str]) -> str:
    """Rules for this drawing alone, since a page may hold it as a part of its own text."""
    return "".join(f".revseq {selector} {{ {rule} }}\n" for selector, rule in rules.items())


def _colors(colors: palette.Palette) -> dict[str, str]:
    """The rules that have colours."""
    rules = {
        ".ground": f"fill: {colors.ground}",
        "text": f"fill: {colors.text}",
        ".quiet": f"fill: {colors.quiet}",
        ".caption": f"stroke: {colors.ground}",
        ".line": f"stroke: {colors.line}",
        ".arrow": f"stroke: {colors.arrow}",
        ".head": f"fill: {colors.arrow}",
    }
    for mark, (ground, text) in colors.marks.items():
        rules |= {f"rect.{mark}": f"fill: {ground}", f"text.{mark}": f"fill: {text}"}
    return rules


def _boxes(figure: Figure) -> list[_Box]:
    """The panels, and the legend if there is one."""
    lanes, room = _lanes(figure), _Room({}, {})
    for (a, b), lane in lanes.items():
        taken, strip = (room.above, a[:-1]) if _along_row(a, b) else (room.right, a[-1:])
        taken[strip] = max(taken.get(strip, 0), (lane + 1) * _LANE + _HEAD + 1)
    places: dict[Index, _Place] = {}
    boxes = [_panel(figure.panels[0], room, places)]
    for (a, b), lane in lanes.items():
        boxes[0].elements.extend(_arrow(places[a], places[b], lane, along_row=_along_row(a, b)))
    boxes[0].elements.sort(key=lambda each: _LAYERS.index(each.tag))
    boxes += [_panel(panel, room._replace(right={}, below=0.5), {}) for panel in figure.panels[1:]]
    legend = _legend(figure, arrows=bool(lanes))
    return [*boxes, legend] if legend.elements else boxes


def _lanes(figure: Figure) -> dict[tuple[Index, Index], int]:
    """For each pair of elements that change places its lane: how far the arrow lies from the cells.

    Arrows that would overlap, since they lie along one row or one column, have different lanes. A figure that is not
    whole or would be full of arrows has none.
    """
    if not figure.is_whole or figure.panels[0].desc.element_count > _MOST_WITH_ARROWS:
        return {}
    lanes = {}
    taken: defaultdict[Index, list[tuple[Index, Index, int]]] = defaultdict(list)
    for a, b in sorted(figure.swaps(), key=lambda swap: swap[1]):  # an inner one before those around it
        strip, first, last = (a[:-1], a[-1:], b[-1:]) if _along_row(a, b) else (a[-1:], a[:-1], b[:-1])
        beside = {lane for start, stop, lane in taken[strip] if start <= last and first <= stop}
        lanes[a, b] = next(lane for lane in itertools.count() if lane not in beside)
        taken[strip].append((first, last, lanes[a, b]))
    return lanes if max(lanes.values(), default=0) < _MOST_LANES else {}


def _along_row(a: Index, b: Index) -> bool:
    return a[:-1] == b[:-1]


def _arrow(a: _Place, b: _Place, lane: int, *, along_row: bool) -> list[Element]:
    """An arrow with two heads between two cells: above a row, or on the right of a column."""
    far = (lane + 1) * _LANE
    if along_row:
        (x, stop), y = (each.right - each.width / 2 for each in (a, b)), a.top
        path = f"M{x:g} {y - 1:g} V{y - far:g} H{stop:g} V{y - 1:g}"
        heads = [f"M{each - 3:g} {y - _HEAD:g} h6 L{each:g} {y + 1:g} z" for each in (x, stop)]
    else:
        (y, stop), x = (each.top + _ROW / 2 for each in (a, b)), a.right - _PAD / 2
        path = f"M{x + 1:g} {y:g} H{x + _HEAD + far:g} V{stop:g} H{x + 1:g}"
        heads = [f"M{x + _HEAD + 1:g} {each - 3:g} v6 L{x - 1:g} {each:g} z" for each in (y, stop)]
    return [element("path", class_="arrow", d=path), *(element("path", class_="head", d=each) for each in heads)]


def _panel(panel: Panel, room: _Room, places: dict[Index, _Place]) -> _Box:
    """A tensor: its name, sizes and data type, and its tables below each other; notes the places of its cells."""
    elements = [_text(panel.name, 0, 15, "name")]
    y, width = 20.0, len(panel.name) * _NAME
    for line in layout.hanging("", f"{braced(panel.desc.sizes)} {panel.desc.data_type.name}", _LINE_LENGTH):
        elements.append(_text(line, 0, y + 13, "small quiet"))
        y, width = y + _LINE, max(width, len(line) * _SMALL)
    y += 8
    columns = _columns(panel, room)
    for block in panel.blocks:
        if block is None:
            elements.append(_text("...", 0, y + 10, "quiet"))
            y += _ROW
            continue
        for line in layout.hanging("", block.caption, _LINE_LENGTH) if block.caption else []:
            elements.append(_text(line, 0, y + 13, "caption small quiet"))
            y, width = y + _CAPTION, max(width, len(line) * _SMALL)
        drawn, height = _table(block, columns, y, room, places)
        elements += drawn
        y, width = y + height + 12, max(width, columns[-1].end)
    told = panel.told if panel.blocks else "no elements"
    for line in layout.hanging("", told, _LINE_LENGTH) if told else []:
        elements.append(_text(line, 0, y + 10, "small quiet"))
        y, width = y + _LINE, max(width, len(line) * _SMALL)
    return _Box(elements, width, y - 12)


class _Column(NamedTuple):
    """A column of a panel's tables: where it ends, its width, and what arrows take of it, on the right."""

    end: float
    width: float
    room: float = 0


def _columns(panel: Panel, room: _Room) -> list[_Column]:
    """The columns, first that of the rows' numbers; each is as wide as its longest text in any of the tables."""
    blocks = [block for block in panel.blocks if block]
    rows = [row for block in blocks for row in block.rows if row]
    longest = max((len(row.label) for row in rows), default=0)
    width = ceil(longest * _CHARACTER) + 2 * _PAD if longest else 0
    columns = [_Column(width, width)]
    for n, label in enumerate(blocks[0].columns if blocks else ()):
        cells = [row.cells[n] for row in rows]
        taken = max((room.right.get(cell.at[-1:], 0) for cell in cells if cell), default=0)
        longest = max(map(len, [*map(cell_text, cells), label or ""]))
        width = _DOTS if label is None else ceil(longest * _CHARACTER + taken) + 2 * _PAD
        columns.append(_Column(columns[-1].end + width, width, taken))
    return columns


def _table(
    block: Block, columns: list[_Column], top: float, room: _Room, places: dict[Index, _Place]
) -> tuple[list[Element], float]:
    """A table and its height: a line with the numbers of columns, and rows with lines between them."""
    grounds, lines, texts = [], [], []
    (first, *others), y, width = columns, top, columns[-1].end
    if any(block.columns):
        texts += [_number(label, column, y) for label, column in zip(block.columns, others, strict=True)]
        y += _ROW
    for row in block.rows:
        if y > top:
            lines.append(f"M0 {y:g} H{width:g}")
        if row is None:
            texts.append(_number(None, first if first.width else others[0], y - 2))
            y += _ROW
            continue
        more = max(room.above.get(cell.at[:-1], 0) for cell in row.cells if cell)
        text_top = y + more * (1 - room.below)
        texts += [_number(row.label, first, text_top)] if row.label else []
        for cell, column in zip(row.cells, others, strict=True):
            if cell is None:
                texts.append(_number(None, column, text_top))
                continue
            if cell.mark:
                ground = {"x": column.end - column.width, "y": y, "width": column.width, "height": more + _ROW}
                grounds.append(element("rect", class_=cell.mark, **ground))
            place = _Place(column.end - column.room, text_top, column.width - column.room)
            classes = f"cell mark {cell.mark}" if cell.mark else "cell"
            texts.append(_text(cell_text(cell), place.right - _PAD, place.top + 18, classes))
            places[cell.at] = place
        y += more + _ROW
    frame = f"M0 {top:g} H{width:g} V{y:g} H0 z"
    return [*grounds, element("path", class_="line", d=" ".join([frame, *lines])), *texts], y - top


def _number(label: str | None, column: _Column, top: float) -> Element:
    """The number of a row or a column, or dots in the middle of what is left out."""
    if label is None:
        return _text("...", column.end - column.width / 2, top + 16, "middle quiet")
    return _text(label, column.end - column.room - _PAD, top + 18, "cell small quiet")


def _legend(figure: Figure, *, arrows: bool) -> _Box:
    """What the marks and the arrows mean, one below the other."""
    elements: list[Element] = []
    width = y = 0.0
    for mark, meaning in figure.legend.items():
        elements.append(element("rect", class_=mark, x=0, y=y, width=26, height=16))
        elements.append(_text("1", 13, y + 12, f"small middle mark {mark}"))
        elements.append(_text(meaning, 36, y + 12.5, "legend quiet"))
        y, width = y + _CAPTION, max(width, 36 + len(meaning) * _SMALL)
    if arrows:
        meaning = "these two elements change places"
        ends = [_Place(each, y + 14, 4) for each in (6, 24)]
        elements += [*_arrow(ends[0], ends[1], 0, along_row=True), _text(meaning, 36, y + 12.5, "legend quiet")]
        y, width = y + _CAPTION, max(width, 36 + len(meaning) * _SMALL)
    return _Box(elements, width, y - 6)


def _text(text: str, x: float, y: float, classes: str) -> Element:
    return element("text", text, class_=classes, x=x, y=y)
