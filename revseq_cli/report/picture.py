"""Pictures of tensors as SVG: what lengths reverse, or where two tensors differ.

Text is text, nothing is loaded, and the colours are those that the reader's system prefers. Long numbers are rounded,
and have all of their digits in a tooltip.
"""

from __future__ import annotations

import html
import itertools
from math import ceil, prod
from string import Template
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.core.errors import printable, shortened
from revseq_cli.core.tensors import braced
from revseq_cli.operator.spec import INPUT, LENGTHS, OUTPUT
from revseq_cli.report import view
from revseq_cli.report.view import Limits
from revseq_cli.text.numbers import header

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Region, Source
    from revseq_cli.report.view import Ends

COPIED, REVERSED, CLAMPED, DIFFERENT = "copied", "reversed", "clamped", "different"  # marks, and classes of the style
WIDEST = 880  # pixels: a column of text on documentation pages
_MOST_ELEMENTS, _LONGEST, _MOST_TABLES = 200, 16, 12  # of a tensor; indices of a dimension; larger ones are shortened
_MOST_COLUMNS = (16, 6, 2, 1)  # the first of these with which a table is narrow enough
_MOST_CHARACTERS, _DIGITS = 8, 4  # of an element; longer numbers are rounded to so many digits
_MARGIN, _BETWEEN, _TILE, _LINE, _GAP = 16, 40, 30, 18, 26  # pixels; _GAP is for what is left out
_BRACKET = 8  # what a bracket takes
_CHARACTER, _SMALL, _WORD = 8.5, 7.4, 7.4  # the widths of characters, with room for wide fonts

_SHAPES = """
text { font: 14px Consolas, "SF Mono", Menlo, "DejaVu Sans Mono", monospace; white-space: pre }
.words { font: 14px "Segoe UI", system-ui, -apple-system, "Helvetica Neue", Arial, sans-serif }
.name { font: 600 15px "Segoe UI", system-ui, -apple-system, "Helvetica Neue", Arial, sans-serif }
.small { font-size: 12px } .cell { text-anchor: middle } .end { text-anchor: end } .length { font-weight: 700 }
text.reversed, text.clamped, text.different { font-weight: 700 }
path { fill: none; stroke-width: 1.5 }
"""
_COLORS = """
.ground { fill: $ground } text { fill: $text } .quiet { fill: $quiet } .length { fill: $accent }
path { stroke: $accent }
rect.copied { fill: $copied } text.copied { fill: $copied_text }
rect.reversed { fill: $reversed } text.reversed { fill: $reversed_text }
rect.clamped { fill: $clamped } text.clamped { fill: $clamped_text }
rect.different { fill: $different } text.different { fill: $different_text }
"""
# For each name the light colour and the dark one.
PALETTE = {
    "ground": ("#ffffff", "#1f1f1f"), "text": ("#161616", "#e6e6e6"), "quiet": ("#595959", "#a8a8a8"),
    "accent": ("#0067b8", "#6cb8f6"),
    COPIED: ("#f3f3f3", "#2d2d2d"), f"{COPIED}_text": ("#3d3d3d", "#cfcfcf"),
    REVERSED: ("#cfe6fa", "#10426a"), f"{REVERSED}_text": ("#003f73", "#c3e3ff"),
    CLAMPED: ("#fff0bf", "#4a3a08"), f"{CLAMPED}_text": ("#6b4900", "#ffdc84"),
    DIFFERENT: ("#fde0e3", "#4e2126"), f"{DIFFERENT}_text": ("#a4262c", "#ffb3b8"),
}  # fmt: skip


def of_job(values: Source, lengths: Source, axis: int, result: Source) -> str:
    """Input, with a length for each line, and output. A table has the axis, and the last other dimension."""
    tensors, title = [(INPUT, values), (OUTPUT, result)], f"DML_REVERSE_SUBSEQUENCES along axis {axis}"
    sentence = f"The first N elements of each line along axis {axis} are reversed; N is the length of the line."
    return _drawn(tensors, title, sentence, axis, lengths, None)


def of_differences(
    tensors: Sequence[tuple[str, Source]], title: str, axis: int | None, lengths: Source | None,
    mask: Callable[[Region], NDArray[np.bool_]],
) -> str:  # fmt: skip
    """Tensors of one size, each with its name; those elements are marked that `mask` selects.

    The output of a job has its axis, and its lengths.
    """
    return _drawn(tensors, title, title, axis, lengths, mask)


class _Layout(NamedTuple):
    """Which indices of tensors of these sizes are shown: tables have the last two dimensions of `order`.

    The first of these is the axis if `down`.
    """

    sizes: tuple[int, ...]
    order: list[int]
    ends: Ends
    down: bool

    @classmethod
    def of(cls, sizes: tuple[int, ...], axis: int | None, columns: int) -> _Layout:
        last, order = len(sizes) - 1, [*range(len(sizes))]
        down = axis is not None and axis < last
        if axis is not None and down:
            order.insert(last - 1, order.pop(axis))
        limits = Limits(_MOST_ELEMENTS, _LONGEST, columns, _MOST_TABLES)
        ends = view.ends_of(tuple(sizes[d] for d in order), limits)
        return cls(sizes, order, [ends[order.index(d)] for d in range(len(sizes))], down)

    def tables(self, values: NDArray[Any]) -> NDArray[Any]:
        """The shown elements of a tensor as an array of tables, rows and columns."""
        turned = values.transpose(self.order)
        count: int = prod(turned.shape[:-2])
        return turned.reshape(count, *(1, 1, *turned.shape)[-2:])

    def labels(self, place: int) -> tuple[list[str], int]:
        """The indices of rows or columns, and after how many of them others are left out, or 0."""
        if len(self.order) < -place:
            return [""], 0
        parts = self.ends[self.order[place]]
        labels = [*map(str, view.indices(parts))]
        return labels, view.gap(parts) or (len(labels) if len(labels) < self.sizes[self.order[place]] else 0)

    def captions(self) -> list[tuple[str, bool]]:
        """For each table the indices of its other dimensions, and whether tables are left out before it."""
        captions, expected = [], 0
        leading = [self.sizes[d] for d in self.order[:-2]]
        for lead in itertools.product(*(view.indices(self.ends[d]) for d in self.order[:-2])):
            place = sum(i * prod(leading[d + 1 :]) for d, i in enumerate(lead))
            index = dict(zip(self.order, map(str, lead), strict=False))
            caption = f"[{', '.join(index.get(d, ':') for d in range(len(self.order)))}]" if prod(leading) > 1 else ""
            captions.append((caption, place > expected))
            expected = place + 1
        return captions


class _Tiles(NamedTuple):
    """Where the rows or columns of a table begin, how long each is, and how far all of them reach."""

    starts: list[float]
    size: float
    reach: float
    dots: float | None

    @classmethod
    def of(cls, count: int, size: float, before: float, gap: int) -> _Tiles:
        """Tiles of that size with room before each; after `gap` of them others are left out, if it is not 0."""
        pitch = size + (before or 2)
        starts = [before + n * pitch + (_GAP if gap and n >= gap else 0) for n in range(count)]
        dots = gap * pitch + _GAP / 2 if gap else None
        return cls(starts, size, max(starts[-1] + size if starts else 0, (dots or 0) + _GAP / 2), dots)


def _drawn(
    tensors: Sequence[tuple[str, Source]], title: str, sentence: str, axis: int | None, lengths: Source | None,
    mask: Callable[[Region], NDArray[np.bool_]] | None,
) -> str:  # fmt: skip
    sizes = tensors[0][1].sizes
    for columns in _MOST_COLUMNS:
        layout = _Layout.of(sizes, axis, columns)
        drawing = _Drawing(layout, tensors, axis, lengths, mask)
        if drawing.width <= WIDEST - 2 * _MARGIN:
            break
    lines = sentence.replace("; ", ";\n").split("\n")
    parts = [_text(line, 0, 14 + 20 * n, "words") for n, line in enumerate(lines)]
    width, y = max(map(len, lines)) * _WORD, 20.0 * len(lines) + 8
    beside = drawing.width + _BETWEEN
    columns = len(tensors) if beside * len(tensors) - _BETWEEN <= WIDEST - 2 * _MARGIN else 1
    for number, (caption, is_apart) in enumerate(layout.captions()):
        if is_apart:
            parts.append(_text("\u22ee", 20, y + 14, "cell quiet"))
            y += 30
        for n in range(len(tensors)):
            x = beside * (n % columns)
            parts.append(_group(drawing.table(n, number, caption), x, y))
            width = max(width, x + drawing.width)
            if n % columns == columns - 1:
                y += drawing.height + 24
    for meaning, swatch in drawing.legend():
        parts.append(_group([*swatch, _text(meaning, 32 if swatch else 0, 14, "words quiet")], 0, y))
        width = max(width, 32 + len(meaning) * _WORD)
        y += 22
    size: dict[str, Any] = {"width": ceil(width) + 2 * _MARGIN, "height": ceil(y) + 2 * _MARGIN}
    light, dark = (Template(_COLORS).substitute({name: pair[n] for name, pair in PALETTE.items()}) for n in (0, 1))
    style = f"{_SHAPES}{light}@media (prefers-color-scheme: dark) {{{dark}}}\n"
    body = [
        _tag("title", html.escape(title)),
        _tag("desc", "\n".join(html.escape(printable(line)) for line in [sentence, *drawing.text(tensors, lengths)])),
        _tag("style", style),
        _tag("rect", class_="ground", **size),
        _group(parts, _MARGIN, _MARGIN),
    ]
    size |= {"viewBox": f"0 0 {size['width']} {size['height']}", "role": "img"}
    return _tag("svg", "\n".join(["", *body, ""]), xmlns="http://www.w3.org/2000/svg", **size) + "\n"


class _Drawing:
    """The tables of tensors that have one layout: all are as large, so that rows and columns lie beside each other."""

    def __init__(
        self, layout: _Layout, tensors: Sequence[tuple[str, Source]], axis: int | None, lengths: Source | None,
        mask: Callable[[Region], NDArray[np.bool_]] | None,
    ) -> None:  # fmt: skip
        self.layout, self.axis, self.tensors, self.lengths_of = layout, axis, tensors, lengths
        shown = [view.elements(source, layout.ends) for _, source in tensors]
        self.told = view.left_out(shown[0].size, layout.sizes, layout.ends) if shown[0].size else "no elements"
        self.texts = [layout.tables(_objects(view.rendered(values), values.shape)) for values in shown]
        marks: NDArray[Any] = np.full(shown[0].shape, COPIED, object)
        self.lengths: NDArray[Any] | None = None
        if lengths is not None and axis is not None:
            size = layout.sizes[axis]
            reversal = view.Reversal.of(lengths, axis, size, layout.ends)
            marks[reversal.moved] = REVERSED
            given = view.rendered(view.elements(lengths, reversal.ends))
            covers, clamped = reversal.covers.ravel().tolist(), reversal.clamped.ravel().tolist()
            words = [f"{text} \u2192 {size}" if over else text for text, over in zip(given, clamped, strict=True)]
            lines = _objects([*zip(words, covers, clamped, strict=True)], reversal.covers.shape)
            self.lengths = layout.tables(lines)
        self.compares = mask is not None
        if mask is not None:
            differs = view.gathered(mask, layout.ends) if marks.size and marks.ndim else np.zeros(marks.shape, bool)
            marks = np.where(differs, DIFFERENT, COPIED).astype(object)
        self.marks = layout.tables(marks)
        (self.row_labels, row_gap), (self.column_labels, column_gap) = layout.labels(-2), layout.labels(-1)
        exact = [text for texts in self.texts for text in texts.ravel().tolist()]
        short = [*map(_short, exact)]
        self.rounds = short != exact
        line_words = [word for word, _, _ in self.lengths.ravel().tolist()] if self.lengths is not None else []
        wide = max(map(len, [*short, *(line_words if layout.down else [])]), default=0)
        bracket = _BRACKET if line_words else 0
        self.columns = _Tiles.of(
            len(self.column_labels), max(_TILE, wide * _CHARACTER + 12), bracket if layout.down else 0, column_gap
        )
        self.rows = _Tiles.of(len(self.row_labels), _TILE, 0 if layout.down else bracket, row_gap)
        label = max(map(len, self.row_labels)) * _SMALL + 8 if any(self.row_labels) else 0
        beside = max(map(len, ["length", *line_words])) * _CHARACTER + 14 if line_words and not layout.down else 0
        way = len(f"axis {axis} ") * _CHARACTER + 8 if layout.down else 0
        self.left = max(label + beside, way)
        captions = [caption for caption, _ in layout.captions()]
        headings = [line for n in range(len(tensors)) for caption in captions for line in self._heading(n, caption)]
        widest = max([len(line) * _SMALL for line in headings] + [len(OUTPUT) * 9.5])
        self.top = 26 + 16 * (1 + bool(any(captions))) + 2 * _LINE
        self.width, self.height = max(widest, self.left + self.columns.reach), self.top + self.rows.reach

    def _heading(self, n: int, caption: str) -> list[str]:
        desc = self.tensors[n][1].desc
        about = shortened(f"{braced(desc.sizes)} {desc.data_type.name}", 60)
        return [about, shortened(caption, 60)] if caption else [about]

    def table(self, n: int, number: int, caption: str) -> list[str]:
        """A table of a tensor below its heading; the first tensor's has the lengths of lines, too."""
        name = self.tensors[n][0]
        lines = self._heading(n, caption)
        drawn = [_text(name, 0, 14, "name")]
        drawn += [_text(line, 0, 32 + 16 * i, "small quiet") for i, line in enumerate(lines)]
        rows = [_row([_text(label, x + self.columns.size / 2, -6, "cell small quiet", "columnheader")
                      for label, x in zip(self.column_labels, self.columns.starts, strict=True)])]  # fmt: skip
        has_lengths = n == 0 and self.lengths is not None
        has_lengths_beside = has_lengths and not self.layout.down  # between the labels and the tiles
        place, anchor = (-self.left, "") if has_lengths_beside else (-8.0, "end ")
        for i, (label, y) in enumerate(zip(self.row_labels, self.rows.starts, strict=True)):
            cells = [_text(label, place, y + 20, f"{anchor}small quiet", "rowheader")] if label else []
            for k, x in enumerate(self.columns.starts):
                exact, mark = self.texts[n][number, i, k], self.marks[number, i, k]
                tile = _tag("rect", class_=mark, x=x, y=y, width=self.columns.size, height=_TILE, rx=4)
                text = _text(_short(exact), x + self.columns.size / 2, y + 20, f"cell {mark}")
                whole = _tag("title", html.escape(printable(exact))) if _short(exact) != exact else ""
                cells.append(_tag("g", whole + tile + text, role="cell"))
            rows.append(_row(cells))
        label = " ".join([name, *lines])
        tiles = [_tag("g", "".join(rows), role="table", aria_label=label), *self._left_out()]
        if self.axis is not None:
            way = (-self.left, -6, "\u2193") if self.layout.down else (0, -24, "\u2192")
            tiles.append(_text(f"axis {self.axis} {way[2]}", way[0], way[1], "small length"))
        if has_lengths and self.lengths is not None:
            tiles += self._lines(self.lengths[number].ravel().tolist())
        return [*drawn, _group(tiles, self.left, self.top)]

    def _left_out(self) -> list[str]:
        dots = []
        if self.columns.dots:
            dots = [_text("\u2026", self.columns.dots, y + 20, "cell quiet") for y in self.rows.starts]
        if self.rows.dots:
            y = self.rows.dots + 5
            dots += [_text("\u22ee", x + self.columns.size / 2, y, "cell quiet") for x in self.columns.starts]
        return dots

    def _lines(self, lines: list[tuple[str, int, bool]]) -> list[str]:
        """The length of each line, and a bracket over what it covers, without an end where that is not all shown."""
        down = self.layout.down
        along, across = (self.rows, self.columns) if down else (self.columns, self.rows)
        labels = self.row_labels if down else self.column_labels
        drawn = [] if down else [_text("length", -10, -6, "small length end")]
        for (word, covers, clamped), start in zip(lines, across.starts, strict=True):
            x, y = (start + across.size / 2, -24) if down else (-10, start + 20)
            drawn.append(_text(word, x, y, f"{'cell' if down else 'end'} {CLAMPED if clamped else 'length'}"))
            covered = [i for i, label in enumerate(labels) if int(label) < covers]
            if not covered:
                continue
            first, last = along.starts[0] + 1, along.starts[covered[-1]] + along.size - 1
            is_cut = len(covered) < covers and along.dots is not None and last < along.dots
            end = [(along.dots, start - 6.5)] if is_cut else [(last, start - 6.5), (last, start - 2)]
            points = [(first, start - 2), (first, start - 6.5), *end]
            path = " ".join(f"{b:g} {a:g}" if down else f"{a:g} {b:g}" for a, b in points)
            drawn.append(_tag("path", d=f"M{path}", class_="bracket"))
        return drawn

    def legend(self) -> list[tuple[str, list[str]]]:
        """What marks and brackets mean, and how much is shown: a sentence, and what stands before it."""
        there = {*self.marks.ravel().tolist()}
        clamped = self.lengths is not None and any(over for _, _, over in self.lengths.ravel().tolist())
        words = {REVERSED: "reversed", COPIED: "equal" if self.compares else "copied", DIFFERENT: "differs"}
        if clamped:
            words[CLAMPED] = f"length above the axis size, which counts as {self.layout.sizes[self.axis or 0]:,}"
        items: list[tuple[str, list[str]]] = []
        for mark, meaning in words.items():
            if mark in there or mark == CLAMPED:
                tile = _tag("rect", class_=mark, width=24, height=18, rx=4)
                items.append((meaning, [tile, _text("1", 12, 13.5, f"cell small {mark}")]))
        if self.lengths_of is not None:
            desc = self.lengths_of.desc
            meaning = f"length of the line, from {LENGTHS} {shortened(braced(desc.sizes), 40)} {desc.data_type.name}"
            items.append((meaning, [_tag("path", d="M1 12 v-5 h22 v5")]))
        items += [("rounded: pointing at a number shows all of its digits", [])] if self.rounds else []
        return [*items, *([(f"shown: {self.told}", [])] if self.told else [])]

    def text(self, tensors: Sequence[tuple[str, Source]], lengths: Source | None) -> list[str]:
        """The lines of the tensors in the bracket notation, for those who cannot see the tables."""
        texts = [f"{header(name, source.desc)}\n{view.shown(source, self.layout.ends)}\n" for name, source in tensors]
        if lengths is not None and self.axis is not None:
            ends = [*self.layout.ends[: self.axis], [slice(0, 1)], *self.layout.ends[self.axis + 1 :]]
            texts.insert(1, f"{header('SequenceTensor', lengths.desc)}\n{view.shown(lengths, ends)}\n")
            texts.insert(2, f"Axis: {self.axis}\n")
        return "\n".join(texts).split("\n")


def _short(text: str) -> str:
    """The text of an element, rounded if it is a long number."""
    if len(text) <= _MOST_CHARACTERS:
        return text
    try:
        return f"{float(text):.{_DIGITS}g}"
    except ValueError:
        return shortened(text, _MOST_CHARACTERS)


def _objects(values: Sequence[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """An array of these objects, which may be tuples."""
    return np.fromiter(values, object, len(values)).reshape(shape)


def _tag(name: str, content: str = "", **attributes: str | float) -> str:
    """An element; in the names of attributes `_` stands for `-`, and one at the end is left out."""
    words = ""
    for key, value in attributes.items():
        word = printable(value) if isinstance(value, str) else f"{value:g}"
        words += f' {key.rstrip("_").replace("_", "-")}="{html.escape(word)}"'
    return f"<{name}{words}>{content}</{name}>" if content else f"<{name}{words}/>"


def _text(text: str, x: float, y: float, classes: str, role: str = "") -> str:
    return _tag("text", html.escape(printable(text)), class_=classes, x=x, y=y, **({"role": role} if role else {}))


def _row(cells: list[str]) -> str:
    return _tag("g", "".join(cells), role="row")


def _group(elements: Sequence[str], x: float, y: float) -> str:
    return _tag("g", "\n".join(["", *elements, ""]), transform=f"translate({x:g} {y:g})")
