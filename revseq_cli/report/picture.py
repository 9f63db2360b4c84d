"""Pictures of tensors as SVG: what lengths reverse, or where two tensors differ.

A row is a line along the axis. Text is text, nothing is loaded, and the colours are those that the reader's system
prefers. Long numbers are rounded, and have all of their digits in a tooltip.
"""

from __future__ import annotations

import html
import itertools
from collections.abc import Callable, Sequence
from math import ceil, prod
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revseq_cli.core.errors import printable, shortened
from revseq_cli.core.tensors import Region, braced
from revseq_cli.formats.contract import Source
from revseq_cli.operator import kernel
from revseq_cli.operator.spec import INPUT, LENGTHS, OUTPUT
from revseq_cli.report import view
from revseq_cli.text.numbers import render

Mask = Callable[[Region], NDArray[np.bool_]]

COPIED, REVERSED, CLAMPED, DIFFERENT = (
    "copied",
    "reversed",
    "clamped",
    "different",
)  # marks, and classes of the style
WIDEST = 880  # pixels: a column of text on documentation pages
_MOST_TABLES, _MOST_ROWS = 8, 12  # of a tensor; of a larger one the first are shown
_MOST_COLUMNS = (16, 6, 2, 1)  # the first of these with which a table is narrow enough
_MOST_CHARACTERS, _DIGITS = 8, 4  # of an element; longer numbers are rounded to so many digits
_MARGIN, _BETWEEN, _TILE, _LINE, _BRACKET = 16, 40, 30, 18, 8  # pixels
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
    title = f"DML_REVERSE_SUBSEQUENCES along axis {axis}"
    sentence = f"The first N elements of each line along axis {axis} are reversed; N is the length of the line."
    return of_tensors([(INPUT, values), (OUTPUT, result)], title, axis, lengths, None, sentence)


def of_tensors(
    tensors: Sequence[tuple[str, Source]], title: str, axis: int | None, lengths: Source | None, mask: Mask | None,
    sentence: str = "",
) -> str:  # fmt: skip
    """Tensors of one size, each with its name; elements that `mask` selects are marked.

    Those of a job have its axis, and its lengths. The sentence above them is the title if none is given.
    """
    sentence = sentence or title
    for columns in _MOST_COLUMNS:
        drawing = _Drawing(tensors, axis, lengths, mask, columns)
        if drawing.width <= WIDEST - 2 * _MARGIN:
            break
    lines = sentence.replace("; ", ";\n").split("\n")
    parts = [_text(line, 0, 14 + 20 * n, "words") for n, line in enumerate(lines)]
    width, y = max(map(len, lines)) * _WORD, 20.0 * len(lines) + 8
    step = drawing.width + _BETWEEN
    beside = step * len(tensors) - _BETWEEN <= WIDEST - 2 * _MARGIN
    for number, caption in enumerate(drawing.captions):
        for n in range(len(tensors)):
            x = step * n if beside else 0
            parts.append(_group(drawing.table(n, number, caption), x, y))
            width = max(width, x + drawing.width)
            if not beside or n == len(tensors) - 1:
                y += drawing.height + 24
    for meaning, swatch in drawing.legend():
        parts.append(
            _group([*swatch, _text(meaning, 32 if swatch else 0, 14, "words quiet")], 0, y)
        )
        width = max(width, 32 + len(meaning) * _WORD)
        y += 22
    size: dict[str, Any] = {"width": ceil(width) + 2 * _MARGIN, "height": ceil(y) + 2 * _MARGIN}
    light, dark = (
        Template(_COLORS).substitute({name: pair[n] for name, pair in PALETTE.items()})
        for n in (0, 1)
    )
    body = [
        _tag("title", html.escape(title)),
        _tag(
            "desc",
            "\n".join(html.escape(printable(line)) for line in [sentence, *drawing.in_words()]),
        ),
        _tag("style", f"{_SHAPES}{light}@media (prefers-color-scheme: dark) {{{dark}}}\n"),
        _tag("rect", class_="ground", **size),
        _group(parts, _MARGIN, _MARGIN),
    ]
    size |= {"viewBox": f"0 0 {size['width']} {size['height']}", "role": "img"}
    return (
        _tag("svg", "\n".join(["", *body, ""]), xmlns="http://www.w3.org/2000/svg", **size) + "\n"
    )


class _Drawing:
    """What is shown of tensors of one size: tables of rows along the axis, or else the last dimension, all as large."""

    def __init__(
        self, tensors: Sequence[tuple[str, Source]], axis: int | None, lengths: Source | None, mask: Mask | None,
        most_columns: int,
    ) -> None:  # fmt: skip
        self.tensors, self.axis, self.lengths_of, self.mask = tensors, axis, lengths, mask
        self.sizes = sizes = tensors[0][1].sizes
        self.order = sorted(range(len(sizes)), key=lambda d: d == axis)
        counts, room = dict[int, int](), _MOST_TABLES
        for place, d in enumerate(reversed(self.order)):
            counts[d] = min(
                sizes[d], (most_columns, _MOST_ROWS)[place] if place < 2 else max(1, room)
            )
            room //= max(1, counts[d]) if place >= 2 else 1
        self.ends: view.Ends = [range(counts[d]) for d in range(len(sizes))]
        shown = [view.elements(source, self.ends) for _, source in tensors]
        self.is_whole = 0 < shown[0].size == prod(sizes)
        self.shown = f"shown: {shown[0].size:,} of {prod(sizes):,} elements"
        self.texts = [self._tables(render(values), values.shape) for values in shown]
        marks: NDArray[Any] = np.full(shown[0].shape, COPIED, object)
        self.lines: list[
            tuple[str, int, bool]
        ] = []  # the length of each row, what it covers, and whether it is clamped
        if lengths is not None and axis is not None:
            self.of_lengths = [*self.ends[:axis], range(1), *self.ends[axis + 1 :]]
            given = view.elements(lengths, self.of_lengths)
            clamped, covers = given > sizes[axis], kernel.clamp(given, sizes[axis])
            index = np.array(self.ends[axis]).reshape(
                [-1 if d == axis else 1 for d in range(len(sizes))]
            )
            marks[(index < covers) & (covers > 1)] = REVERSED
            rows = zip(
                render(given), covers.ravel().tolist(), clamped.ravel().tolist(), strict=True
            )
            words = [
                (f"{text} \u2192 {sizes[axis]}" if over else text, n, over)
                for text, n, over in rows
            ]
            self.lines = self._tables(words, covers.shape).ravel().tolist()
        if mask is not None:
            region = tuple(slice(0, len(indices)) for indices in self.ends)
            differs = mask(region) if marks.size and marks.ndim else np.zeros(marks.shape, bool)
            marks = np.where(differs, DIFFERENT, COPIED).astype(object)
        self.marks = self._tables([*marks.ravel()], marks.shape)
        self._place()

    def _tables(self, items: list[Any], shape: tuple[int, ...]) -> NDArray[Any]:
        """Items of a tensor of the shown elements as an array of tables, rows and columns."""
        turned = np.fromiter(items, object, len(items)).reshape(shape).transpose(self.order)
        return turned.reshape(prod(turned.shape[:-2]), *(1, 1, *turned.shape)[-2:])

    def _place(self) -> None:
        """Find the captions of tables, the labels of rows and columns, and where each of them is."""
        named = [[""], [""], *([*map(str, self.ends[d])] for d in self.order)]
        self.row_labels, self.column_labels = named[-2:]
        exact = [text for texts in self.texts for text in texts.ravel().tolist()]
        self.rounds = [*map(_short, exact)] != exact
        self.column = max(
            _TILE, max((len(_short(text)) for text in exact), default=0) * _CHARACTER + 12
        )
        bracket = _BRACKET if self.lines else 2
        self.xs = [n * (self.column + 2) for n in range(len(self.column_labels))]
        self.ys = [bracket + n * (_TILE + bracket) for n in range(len(self.row_labels))]
        self.captions: list[str] = []
        for lead in itertools.product(*(self.ends[d] for d in self.order[:-2])):
            index = dict(zip(self.order, map(str, lead), strict=False))
            caption = f"[{', '.join(index.get(d, ':') for d in range(len(self.order)))}]"
            self.captions.append(
                caption if prod(self.sizes[d] for d in self.order[:-2]) > 1 else ""
            )
        self.label = max(map(len, self.row_labels)) * _SMALL + 8 if any(self.row_labels) else 0.0
        words = ["length", *(word for word, _, _ in self.lines)] if self.lines else []
        self.left = self.label + (max(map(len, words)) * _CHARACTER + 14 if words else 0)
        pairs = itertools.product(range(len(self.tensors)), self.captions)
        widths = [len(line) * _SMALL for pair in pairs for line in self._heading(*pair)]
        self.top = 42 + 16 * any(self.captions) + 2 * _LINE
        self.width = max(
            [*widths, len(OUTPUT) * 9.5, self.left + (self.xs[-1] + self.column if self.xs else 0)]
        )
        self.height = self.top + (self.ys[-1] + _TILE if self.ys else 0)

    def _heading(self, n: int, caption: str) -> list[str]:
        desc = self.tensors[n][1].desc
        about = shortened(f"{braced(desc.sizes)} {desc.data_type.name}", 60)
        return [about, shortened(caption, 60)] if caption else [about]

    def table(self, n: int, number: int, caption: str) -> list[str]:
        """A table of a tensor below its heading; the first tensor's has the lengths of lines, too."""
        name, lines = self.tensors[n][0], self._heading(n, caption)
        drawn = [_text(name, 0, 14, "name")]
        drawn += [_text(line, 0, 32 + 16 * i, "small quiet") for i, line in enumerate(lines)]
        middle = self.column / 2
        heads = zip(self.column_labels, self.xs, strict=True)
        rows = [
            _row(
                [
                    _text(label, x + middle, -6, "cell small quiet", "columnheader")
                    for label, x in heads
                ]
            )
        ]
        for i, (label, y) in enumerate(zip(self.row_labels, self.ys, strict=True)):
            cells = (
                [_text(label, self.label - self.left - 8, y + 20, "end small quiet", "rowheader")]
                if label
                else []
            )
            for k, x in enumerate(self.xs):
                exact, mark = self.texts[n][number, i, k], self.marks[number, i, k]
                tile = _tag("rect", class_=mark, x=x, y=y, width=self.column, height=_TILE, rx=4)
                text = _text(_short(exact), x + middle, y + 20, f"cell {mark}")
                whole = (
                    _tag("title", html.escape(printable(exact))) if _short(exact) != exact else ""
                )
                cells.append(_tag("g", whole + tile + text, role="cell"))
            rows.append(_row(cells))
        tiles = [_tag("g", "".join(rows), role="table", aria_label=" ".join([name, *lines]))]
        if self.axis is not None:
            tiles.append(_text(f"axis {self.axis} \u2192", 0, -24, "small length"))
        if n == 0 and self.lines:
            tiles.append(_text("length", -10, -6, "small length end"))
            count = len(self.ys)
            for y, line in zip(
                self.ys, self.lines[number * count : (number + 1) * count], strict=True
            ):
                tiles += self._length(y, *line)
        return [*drawn, _group(tiles, self.left, self.top)]

    def _length(self, y: float, word: str, covers: int, is_clamped: bool) -> list[str]:
        """The length of a line, and a bracket over what it covers, without an end where that is not all shown."""
        drawn = [_text(word, -10, y + 20, f"end {CLAMPED if is_clamped else 'length'}")]
        if shown := min(covers, len(self.xs)):
            last = self.xs[shown - 1] + self.column - 1
            end = f"{last:g} {y - 6.5:g}"
            if shown == covers:
                end += f" {last:g} {y - 2:g}"
            drawn.append(_tag("path", d=f"M1 {y - 2:g} 1 {y - 6.5:g} {end}", class_="bracket"))
        return drawn

    def legend(self) -> list[tuple[str, list[str]]]:
        """What marks and brackets mean, and how much is shown: a sentence, and what stands before it."""
        there = {*self.marks.ravel().tolist()} | {
            CLAMPED for _, _, is_clamped in self.lines if is_clamped
        }
        words = {
            REVERSED: "reversed",
            COPIED: "copied" if self.mask is None else "equal",
            DIFFERENT: "differs",
        }
        words[CLAMPED] = (
            f"length above the axis size, which counts as {self.sizes[self.axis or 0] if self.sizes else 0:,}"
        )
        items: list[tuple[str, list[str]]] = []
        for mark, meaning in words.items():
            if mark in there:
                tile = _tag("rect", class_=mark, width=24, height=18, rx=4)
                items.append((meaning, [tile, _text("1", 12, 13.5, f"cell small {mark}")]))
        if self.lengths_of is not None:
            desc = self.lengths_of.desc
            meaning = f"length of the line, from {LENGTHS} {shortened(braced(desc.sizes), 40)} {desc.data_type.name}"
            items.append((meaning, [_tag("path", d="M1 12 v-5 h22 v5")]))
        if self.rounds:
            items.append(("rounded: pointing at a number shows all of its digits", []))
        if not self.is_whole:
            items.append((self.shown, []))
        return items

    def in_words(self) -> list[str]:
        """The lines of the tensors in the bracket notation, for those who cannot see the tables."""
        texts = [
            f"{name}: {source.desc}\n{view.shown(source, self.ends)}\n"
            for name, source in self.tensors
        ]
        if self.lengths_of is not None and self.axis is not None:
            shown = view.shown(self.lengths_of, self.of_lengths)
            texts[1:1] = [
                f"SequenceTensor: {self.lengths_of.desc}\n{shown}\n",
                f"Axis: {self.axis}\n",
            ]
        return "\n".join(texts).split("\n")


def _short(text: str) -> str:
    """The text of an element, rounded if it is a long number."""
    if len(text) <= _MOST_CHARACTERS:
        return text
    try:
        return f"{float(text):.{_DIGITS}g}"
    except ValueError:
        return shortened(text, _MOST_CHARACTERS)


def _tag(name: str, content: str = "", **attributes: str | float) -> str:
    """An element; in the names of attributes `_` stands for `-`, and one at the end is left out."""
    words = ""
    for key, value in attributes.items():
        word = printable(value) if isinstance(value, str) else f"{value:g}"
        words += f' {key.rstrip("_").replace("_", "-")}="{html.escape(word)}"'
    return f"<{name}{words}>{content}</{name}>" if content else f"<{name}{words}/>"


def _text(text: str, x: float, y: float, classes: str, role: str = "") -> str:
    return _tag(
        "text",
        html.escape(printable(text)),
        class_=classes,
        x=x,
        y=y,
        **({"role": role} if role else {}),
    )


def _row(cells: list[str]) -> str:
    return _tag("g", "".join(cells), role="row")


def _group(elements: Sequence[str], x: float, y: float) -> str:
    return _tag("g", "\n".join(["", *elements, ""]), transform=f"translate({x:g} {y:g})")
