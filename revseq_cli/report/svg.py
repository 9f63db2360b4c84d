"""Figures as SVG: text as text, nothing to load, and colours that the reader's system prefers."""

from __future__ import annotations

import itertools
import re
from math import ceil
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, NamedTuple
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from revseq_cli.core.errors import printable
from revseq_cli.core.tensors import braced
from revseq_cli.operator.spec import LENGTHS
from revseq_cli.report import terminal
from revseq_cli.report.figures import CLAMPED, COPIED, DIFFERENT, REVERSED
from revseq_cli.report.view import Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from revseq_cli.report.figures import Cell, Figure, Length, Side, Slice

WIDEST = 880  # pixels: a column of text on documentation pages
_MOST_ELEMENTS, _LONGEST, _MOST_SLICES = 200, 16, 12  # of a tensor; indices of a dimension; larger ones are shortened
_MOST_COLUMNS = (16, 6, 2, 1)  # the first of these with which the drawing is narrow enough
_MOST_WITH_ARROWS, _MOST_LANES = 64, 4  # elements of a tensor; arrows around the middle of a line

_WHOLE = re.compile(r"-?\d+")  # a number before its point or exponent
_MARGIN, _BETWEEN, _BELOW = 16, 24, 24  # around all; between pieces side by side; between those below each other
_SLICES = 44  # between slices, so that each heading is nearer to its own table
_CHARACTER, _SMALL, _WORDS = 8.5, 7.4, 7.2  # the widths of characters, with room for wide fonts
_NARROWEST, _CAPTION, _LEGEND = 460, 28, 52  # the sentence's least width; characters of a caption's and a legend's line
_TILE, _PAD, _LINE, _GAP = 30, 6, 18, 26  # of a cell; the height of a line of text; what stands for what is left out
_BRACKET, _LANE, _HEAD, _ARROW = 8, 6, 5, 40  # what brackets take; between arrows; their heads; from input to output
_DOWN = 30  # the same where the output stands below

# For each name the light colour and the dark one. The grounds of marks have the names of the marks.
_PALETTE = {
    "ground": ("#ffffff", "#1f1f1f"), "text": ("#161616", "#e6e6e6"), "quiet": ("#595959", "#a8a8a8"),
    "faint": ("#8a8a8a", "#7d7d7d"), "line": ("#d2d2d2", "#505050"), "accent": ("#0067b8", "#6cb8f6"),
    COPIED: ("#f3f3f3", "#2d2d2d"), f"{COPIED}_text": ("#3d3d3d", "#cfcfcf"),
    REVERSED: ("#cfe6fa", "#10426a"), f"{REVERSED}_text": ("#003f73", "#c3e3ff"),
    CLAMPED: ("#fff0bf", "#4a3a08"), f"{CLAMPED}_text": ("#6b4900", "#ffdc84"),
    DIFFERENT: ("#fde0e3", "#4e2126"), f"{DIFFERENT}_text": ("#a4262c", "#ffb3b8"),
}  # fmt: skip
_SANS = '"Segoe UI", system-ui, -apple-system, "Helvetica Neue", Arial, sans-serif'
LIGHT, DARK = ({name: pair[n] for name, pair in _PALETTE.items()} for n in (0, 1))


def element(tag: str, *children: str | Element, **attributes: str | float) -> Element:
    """An element of SVG or HTML with these children: elements, and texts, which are made printable.

    In the names of attributes, `_` stands for `-`, and one at the end is left out; a number has no more digits than it
    needs, so that a drawing is the same on every machine.
    """
    made = Element(tag)
    for name, value in attributes.items():
        text = printable(value) if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")
        made.set(name.rstrip("_").replace("_", "-"), text)
    for child in children:
        if isinstance(child, Element):
            made.append(child)
            continue
        text = "\n".join(map(printable, child.split("\n")))  # XML could not have other control characters
        if len(made):
            made[-1].tail = (made[-1].tail or "") + text
        else:
            made.text = (made.text or "") + text
    return made


def _style() -> str:
    """The rules of the style sheet, with the colours that the reader's system prefers."""
    text = Path(__file__).with_name("figure.css").read_text(encoding="utf-8")
    _, shapes, colors = re.split(r"/\*.*\*/", text)
    light, dark = (Template(colors).substitute(each) for each in (LIGHT, DARK))
    return f"{Template(shapes).substitute(sans=_SANS)}{light}@media (prefers-color-scheme: dark) {{{dark}}}\n"


class Piece(NamedTuple):
    """A part of a drawing with a size of its own; `label` says which table it is, if it is one.

    `arrow` is the width of the arrow on its left, which comes from the part before it.
    """

    elements: list[Element]
    width: float
    height: float
    label: str = ""
    arrow: float = 0

    def below(self) -> Piece:
        """The part below the one that its arrow comes from: without that arrow, and with one that points down."""
        others = [each for each in self.elements if each.get("class") != "across"]
        moved = element("g", *others, transform=f"translate({-self.arrow:g} {_DOWN})")
        return self._replace(
            elements=[_arrow_down(), moved], width=self.width - self.arrow, height=self.height + _DOWN, arrow=0
        )


def _arrow_down() -> Element:
    return element("path", d="M20 0 v22 m-5 -6 l5 6 l5 -6")


def pieces(figure_of: Callable[[Limits], Figure]) -> tuple[Figure, list[list[Piece]]]:
    """The parts of a drawing: in each list those that stand side by side if there is room; the last has the legend.

    `figure_of` makes the figure with these limits: as much of it as lies in WIDEST side by side or, if a part alone is
    too wide for that, below each other.
    """
    room = WIDEST - 2 * _MARGIN
    for columns in _MOST_COLUMNS:
        figure = figure_of(Limits(_MOST_ELEMENTS, _LONGEST, columns, _MOST_SLICES))
        for lanes in (_lanes(figure), 0):
            lines = _Drawing(figure, lanes).pieces()
            if all(sum(piece.width + _BETWEEN for piece in line) <= room + _BETWEEN for line in lines[:-1]):
                return figure, lines
        if all(piece.width <= room for line in lines for piece in line):
            break
    return figure, lines


def drawn(figure_of: Callable[[Limits], Figure]) -> str:
    """The SVG of a figure, at most WIDEST wide; `figure_of` makes the figure with these limits."""
    figure, lines = pieces(figure_of)
    placed: list[tuple[Piece, float, float]] = []
    width, y = float(_NARROWEST), 0.0
    for n, line in enumerate(lines):
        room, x, below = width if n == len(lines) - 1 else WIDEST - 2 * _MARGIN, 0.0, 0.0
        for part in line:
            piece = part
            if x and x + piece.width > room:
                x, y, below = 0, y + below + (_BELOW if piece.label else 8), 0
                piece = piece.below() if piece.arrow else piece
            placed.append((piece, x, y))
            width, below, x = max(width, x + piece.width), max(below, piece.height), x + piece.width + _BETWEEN
        y += below + (_SLICES if n < len(lines) - 2 else _BELOW)  # the last has the legend
    words = [figure.sentence] if len(figure.sentence) * _WORDS <= width else re.split("(?<=;) ", figure.sentence)
    top = _MARGIN + 20 * len(words) + _BELOW / 2
    size = {"width": ceil(width) + 2 * _MARGIN, "height": ceil(y) - _BELOW + top + _MARGIN}
    root = element(
        "svg",
        element("title", figure.title),
        element("desc", f"{figure.sentence}\n{figure.text}"),
        element("style", _style()),
        element("rect", class_="ground", **size),
        *(element("text", *emphasized(each, "tspan"), class_="words", x=_MARGIN, y=_MARGIN + 14 + 20 * n)
          for n, each in enumerate(words)),
        *(element("g", *piece.elements, transform=f"translate({_MARGIN + x:g} {top + y:g})") for piece, x, y in placed),
        xmlns="http://www.w3.org/2000/svg", class_="revseq", viewBox=f"0 0 {size['width']:g} {size['height']:g}",
        role="img", **size,
    )  # fmt: skip
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def emphasized(sentence: str, tag: str) -> Iterator[str | Element]:
    """A sentence, in which the word for the numbers in the drawing is an element of its own."""
    for part in re.split(r"\b(length)\b", sentence):
        yield element(tag, part) if part == "length" else part


def _lanes(figure: Figure) -> int:
    """How many arrows lie around each other at most; 0 where arrows would fill the drawing."""
    lanes = max((length.covers // 2 for part in figure.slices if part for length in part.lengths), default=0)
    few = figure.tensors[0][1].element_count <= _MOST_WITH_ARROWS and lanes <= _MOST_LANES
    return lanes if few and not figure.told else 0


def _text(text: str, x: float, y: float, classes: str, role: str = "") -> Element:
    return element("text", text, class_=classes, x=x, y=y, **({"role": role} if role else {}))


class _Tiles(NamedTuple):
    """The rows or the columns of a table, what stands for those that are left out, and how far all of them reach."""

    spans: list[tuple[float, float]]
    left_out: tuple[float, float] | None
    size: float

    @classmethod
    def of(cls, sizes: Sequence[float], side: Side, before: float, after: float) -> _Tiles:
        """Tiles of these sizes with room before and after each."""
        spans, left_out, place = [], None, 0.0
        for n, size in enumerate([*sizes, 0]):
            if n and n == side.gap:
                left_out = (place, place + _GAP)
                place += _GAP
            spans.append((place + before, place + before + size))
            place += before + size + (after or 2)
        return cls(spans[:-1], left_out, spans[-1][0] - before)


def _middle(span: tuple[float, float]) -> float:
    return sum(span) / 2


def _filled(texts: Sequence[str]) -> dict[str, str]:
    """Each text of a column with blanks around it: points are below each other, and all texts are as long.

    One that is no number ends where numbers do.
    """
    points = {text: number.end() for text in texts if (number := _WHOLE.match(text))}
    behind = max((len(text) - point for text, point in points.items()), default=0)
    shifted = {text: text + " " * (behind - len(text) + points.get(text, len(text) - behind)) for text in texts}
    longest = max(map(len, shifted.values()), default=0)
    return {text: each.rjust(longest) for text, each in shifted.items()}


class _Drawing:
    """A figure and the places of its tiles: rows are the same in all tables, so that they lie beside each other."""

    def __init__(self, figure: Figure, lanes: int) -> None:
        self.figure, self.lanes = figure, lanes
        slices = [part for part in figure.slices if part]
        self.has_lengths = any(part.lengths for part in slices)
        columns, brackets = range(len(figure.columns.labels)), _BRACKET * self.has_lengths
        arrows = lanes * _LANE + _HEAD if lanes else 0
        tables = [table for part in slices for table in part.tables]
        self.texts = [_filled([cell.text for table in tables for cell in table[:, n]]) for n in columns]
        widths = [max([_TILE, *(len(text) * _CHARACTER + 2 * _PAD for text in each.values())]) for each in self.texts]
        first = widths
        if figure.down and self.has_lengths:
            over = ([len(part.lengths[n].text) * _CHARACTER + _PAD for part in slices] for n in columns)
            first = [max(width, *lengths) for width, lengths in zip(widths, over, strict=True)]
        room = (brackets, arrows, 0, 0) if figure.down else (0, 0, brackets, arrows)
        self.columns = [_Tiles.of(first, figure.columns, *room[:2]), _Tiles.of(widths, figure.columns, 0, 0)]
        self.rows = _Tiles.of([_TILE] * len(figure.rows.labels), figure.rows, *room[2:])

    def pieces(self) -> list[list[Piece]]:
        """The tables of each slice side by side, and the legend."""
        dots = [Piece([_text("\u22ee", 20, 14, "cell faint")], 40, 18)]
        lines = [[self._table(part, number) for number in (0, 1)] if part else dots for part in self.figure.slices]
        return [*lines, [*self._legend()]]

    def _table(self, part: Slice, number: int) -> Piece:
        """A table below its heading; that of the input has the axis and the lengths of lines, too."""
        figure, columns = self.figure, self.columns[number]
        name, desc = figure.tensors[-number]  # the first and the last
        about = filter(None, [f"{braced(desc.sizes)} {desc.data_type.name}", part.caption])
        room = max(_CAPTION, int(columns.size / _SMALL))
        lines = [line for text in about for line in terminal.hanging("", text, room)]
        left = float(_ARROW if number and part.lengths else 0)
        heading = [_text(name, left, 14, "name")]
        heading += [_text(line, left, 32 + 16 * n, "small quiet") for n, line in enumerate(lines)]
        width = left + max(len(name) * 9.5, *(len(line) * _SMALL for line in lines))
        rows, beside = self._rows(part, number)
        has_axis_above = figure.axis is not None and not figure.down
        top = 26 + 16 * len(lines) + _LINE * (2 if self.has_lengths or has_axis_above else 1)
        if left:
            arrow = f"M4 {top + self.rows.size / 2:g} h24 m-6 -5 l6 5 l-6 5"
            heading.append(element("path", d=arrow, class_="across"))
        marks = [*self._left_out(columns), *([] if number else self._lines(part))]
        label = " ".join([name, *lines])
        table = element("g", *rows, role="table", aria_label=label)
        tiles = element("g", table, *marks, transform=f"translate({left + beside:g} {top:g})")
        width = max(width, left + beside + columns.size)
        return Piece([*heading, tiles], width, top + self.rows.size, label, left)

    def _left_out(self, columns: _Tiles) -> list[Element]:
        """What stands for columns and rows that are left out."""
        across = ((columns.left_out, row, "\u2026") for row in self.rows.spans)
        down = ((column, self.rows.left_out, "\u22ee") for column in columns.spans)
        places = itertools.chain(across, down)
        return [_text(dots, _middle(x), _middle(y) + 5, "cell faint") for x, y, dots in places if x and y]

    def _rows(self, part: Slice, number: int) -> tuple[list[Element], float]:
        """The rows of a table, and the room on their left for indices and lengths."""
        figure, columns, lengths = self.figure, self.columns[number].spans, [] if number else part.lengths
        across = [] if figure.down else lengths
        beside = max([6 * _SMALL, *(len(each.text) * _CHARACTER for each in across)]) + 14 if across else 0
        above = [_text(label, _middle(column), -6, "cell small quiet", "columnheader")
                 for label, column in zip(figure.columns.labels, columns, strict=True)]  # fmt: skip
        above[:0] = [_text("length", -10, -6, "small length end", "columnheader")] if across else []
        rows = [above]
        if lengths and figure.down:
            over = [_length(each, _middle(at), -24, "cell") for each, at in zip(lengths, columns, strict=True)]
            rows.insert(0, [_text("length", -10, -24, "small length end", "rowheader"), *over])
        for n, (label, row) in enumerate(zip(figure.rows.labels, self.rows.spans, strict=True)):
            y = _middle(row) + 5
            rows.append([_text(label, -beside - 8, y, "end small quiet", "rowheader")] if label else [])
            rows[-1] += [_length(each, -10, y, "end") for each in across[n : n + 1]]
            rows[-1] += [self._cell(cell, k, row, number) for k, cell in enumerate(part.tables[number][n])]
        longest = max(map(len, figure.rows.labels), default=0)
        axis = 8 * _SMALL + 10 if figure.down and not number else 0
        room = max(beside + longest * _SMALL + 8 * bool(longest), axis)
        return [element("g", *row, role="row") for row in rows], room

    def _cell(self, cell: Cell, column: int, row: tuple[float, float], number: int) -> Element:
        """An element on its tile."""
        start, stop = span = self.columns[number].spans[column]
        tile = element("rect", class_=cell.mark, x=start, y=row[0], width=stop - start, height=_TILE, rx=4)
        text = _text(self.texts[column][cell.text], _middle(span), _middle(row) + 5, f"cell {cell.mark}")
        return element("g", tile, text, role="cell")

    def _lines(self, part: Slice) -> Iterator[Element]:
        """What tells of the lines: the axis; a bracket over what each length covers; arrows between digits.

        An arrow has two heads, for two elements that change places. A bracket has no end where it goes on in what is
        left out.
        """
        figure, columns = self.figure, self.columns[0]
        if figure.axis is None:
            return
        if figure.down:
            side, along, across = figure.rows, self.rows, columns
            yield _text(f"axis {figure.axis} \u2193", -10, -6, "small length end")
        else:
            side, along, across = figure.columns, columns, self.rows
            yield _text(f"axis {figure.axis} \u2192", 0, -24, "small length")
        for n, length in enumerate(part.lengths):
            covered = [i for i, label in enumerate(side.labels) if int(label) < length.covers]
            if not covered:
                continue
            (start, stop), (near, far) = (along.spans[0][0] + 1, along.spans[covered[-1]][1] - 1), across.spans[n]
            corners = [(start, near - 2), (start, near - 6.5), (stop, near - 6.5), (stop, near - 2)]
            if along.left_out and len(covered) == side.gap and length.covers > int(side.labels[covered[-1]]) + 1:
                corners[2:] = [(_middle(along.left_out), near - 6.5)]
            yield self._path("bracket", corners)
            line = part.tables[0][:, n] if figure.down else part.tables[0][n]
            for a in range(length.covers // 2 if self.lanes else 0):
                deep = far + (_LANE * (length.covers // 2 - a) + _HEAD) / 0.75 - 6
                ends = [self._end(line[i], i, n) for i in (a, length.covers - 1 - a)]
                (x, y), (to, back) = ends
                yield self._path("arrow", [(x, y + 3), (x, deep), (to, deep), (to, back + 3)], " C")
                for x, y in ends:
                    yield self._path("head", [(x - 3, y + _HEAD), (x + 3, y + _HEAD), (x, y)])

    def _end(self, cell: Cell, place: int, line: int) -> tuple[float, float]:
        """Where an arrow touches the digits of an element, along the axis and across it."""
        column = line if self.figure.down else place
        text, middle = self.texts[column][cell.text], _middle(self.columns[0].spans[column])
        stop = middle + (len(text.rstrip()) - len(text) / 2) * _CHARACTER
        if self.figure.down:
            return _middle(self.rows.spans[place]), stop + 2
        return stop - len(cell.text) * _CHARACTER / 2, _middle(self.rows.spans[line]) + 8

    def _path(self, kind: str, points: list[tuple[float, float]], way: str = "") -> Element:
        """A path through points, of which each has a place along the axis and one across it."""
        first, *others = (f"{y:.1f} {x:.1f}" if self.figure.down else f"{x:.1f} {y:.1f}" for x, y in points)
        return element("path", d=f"M{first}{way} {' '.join(others)}", class_=kind)

    def _legend(self) -> Iterator[Piece]:
        """What marks, arrows and brackets mean, and how much is shown."""
        tile = {"width": 24, "height": 18, "rx": 4}
        items = [
            (meaning, [element("rect", class_=mark, **tile), _text("1", 12, 13.5, f"cell small {mark}")])
            for mark, meaning in self.figure.legend.items()
        ]
        if self.lanes:
            heads = element("path", d="M0 8 h6 L3 3 z M18 8 h6 L21 3 z", class_="head")
            items.append(("these two change places", [element("path", d="M3 6 C3 16 21 16 21 6"), heads]))
        if self.has_lengths:
            desc = self.figure.tensors[1][1]
            meaning = f"length, from {LENGTHS} {braced(desc.sizes)} {desc.data_type.name}"
            items.append((meaning, [element("path", d="M1 12 v-5 h22 v5")]))
        items += [(f"shown: {self.figure.told}", [])] if self.figure.told else []
        for meaning, swatch in items:
            left, lines = 32 if swatch else 0, terminal.hanging("", meaning, _LEGEND)
            texts = [_text(line, left, 14 + 18 * n, "words quiet") for n, line in enumerate(lines)]
            yield Piece([*swatch, *texts], left + max(map(len, lines)) * 8 + 4, 18 * len(lines) + 2)


def _length(length: Length, x: float, y: float, anchor: str) -> Element:
    """The length of a line, on a ground of its own if it is clamped."""
    text = _text(length.text, x, y, f"{anchor} {length.mark or 'length'}", "cell")
    width = len(length.text) * _CHARACTER + 8
    left = x - width / 2 if anchor == "cell" else x - width + 4
    ground = element("rect", class_=length.mark, x=left, y=y - 15, width=width, height=20, rx=4)
    return element("g", ground, text) if length.mark else text
