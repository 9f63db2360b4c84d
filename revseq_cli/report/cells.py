"""Pictures of short sequences: a table for each tensor, with a row for each sequence.

Long numbers are rounded, and have all of their digits in a tooltip. Where a row is too wide, the
columns at differences and at ends of sequences are drawn, and marks show where others are left out.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from revseq_cli.core.errors import shorten
from revseq_cli.formats.contract import Source
from revseq_cli.operator.spec import LENGTHS
from revseq_cli.report import preview, svg
from revseq_cli.report.subject import Row, Subject
from revseq_cli.report.svg import CLAMPED, COPIED, DIFFERENT, REVERSED
from revseq_cli.text.numbers import render_numbers

_MOST_CHARACTERS = 8  # of an element; longer numbers are rounded
_DIGITS = 4  # of a rounded number
_CHARACTER = 8.5  # pixels, with room for wide fonts
_TILE = 30  # pixels: the height of a cell, and its least width
_PADDING = 12  # pixels in a cell next to its text
_TEXT = 20  # pixels from the top of a cell to the baseline of its text
_HEAD = -10  # pixels from the top of the first row to the baseline of the heads of columns
_AXIS = -26  # to that of the name of the axis
_AFTER_LABEL = 8  # pixels between the label of a row and what follows
_AFTER_LENGTH = 14
_BRACKET = 8  # pixels between two rows, for the bracket above what is reversed
_GAP = 2  # pixels between two columns
_CUT = 18  # pixels of the mark for columns that are left out
_BETWEEN = 40  # pixels between two tables side by side
_BELOW = 24  # pixels below a table
_HEADING = 50  # pixels above the first row: the name of the tensor, and the axis
_NARROWEST = 120  # pixels of a table: the name of a tensor
_LENGTH_END = -10  # pixels from the first cell to the end of the lengths before it
_ROOM = svg.WIDEST - 2 * svg.MARGIN

Texts = list[list[str]]  # the elements of a tensor as text: those of each row


@dataclass(frozen=True)
class _Layout:
    """The tables of all tensors, which have the same rows, columns and size.

    `columns` are the indices along the axis that are drawn, and `xs` where each begins. The labels
    of rows and the lengths take `left` pixels before the first one, the labels only `label_width`.
    """

    subject: Subject
    texts: list[Texts]
    columns: list[int]
    xs: list[float]
    column_width: float
    label_width: float
    left: float

    @property
    def width(self) -> float:
        right = self.xs[-1] + self.column_width if self.xs else 0
        return max(self.left + right, _NARROWEST)

    @property
    def height(self) -> float:
        return _row_y(len(self.subject.rows)) + _HEADING


def draw_cells(subject: Subject) -> svg.Drawing:
    """A table for each tensor, side by side if there is room, and a legend below them."""
    layout = _lay_out(subject)
    tables = [_draw_table(layout, number) for number in range(len(subject.tensors))]
    step = layout.width + _BETWEEN
    if len(tables) * step - _BETWEEN <= _ROOM:
        elements = [svg.group(table, i * step, 0) for i, table in enumerate(tables)]
        width = (len(tables) - 1) * step + layout.width
        y = layout.height + _BELOW
    else:
        step = layout.height + _BELOW
        elements = [svg.group(table, 0, i * step) for i, table in enumerate(tables)]
        width = layout.width
        y = len(tables) * step
    legend = _draw_legend(layout, y)
    elements += legend.elements
    return svg.Drawing(elements, max(width, legend.width), y + legend.height)


def describe_cells(subject: Subject) -> list[str]:
    """The tensors in the notation of the pages, for those who cannot see the cells."""
    parts = [_notate(name, source) for name, source in subject.tensors]
    if subject.lengths is not None:
        lengths = _notate("SequenceTensor", subject.lengths)
        parts.insert(1, [*lengths, f"Axis: {subject.axis}", ""])
    return list(itertools.chain(*parts))


def _notate(name: str, source: Source) -> list[str]:
    part = preview.choose_part(source.sizes, preview.MOST_ELEMENTS)
    return [f"{name}: {source.desc}", *preview.part_text(source, part).split("\n"), ""]


def _render_rows(subject: Subject, source: Source) -> Texts:
    size = subject.sequence_size
    return [render_numbers(subject.read(source, row, 0, size)) for row in subject.rows]


def _lay_out(subject: Subject) -> _Layout:
    """Read the tensors, choose the columns that fit, and find where they are."""
    texts = [_render_rows(subject, source) for _, source in subject.tensors]
    lengths_of_words = [len(_round(word)) for row in itertools.chain(*texts) for word in row]
    column_width = max(_TILE, max(lengths_of_words, default=1) * _CHARACTER + _PADDING)
    label_width = max((len(subject.label(row)) for row in subject.rows), default=0) * svg.SMALL
    left = label_width + _AFTER_LABEL if label_width else 0.0
    if subject.lengths is not None:
        lengths = ["length", *(_length_text(subject, row) for row in subject.rows)]
        left += max(map(len, lengths)) * _CHARACTER + _AFTER_LENGTH
    columns = _choose_columns(subject, int((_ROOM - left) // (column_width + _GAP)))
    xs: list[float] = []
    x = 0.0
    before = -1
    for column in columns:
        if xs and column != before + 1:
            x += _CUT
        xs.append(x)
        x += column_width + _GAP
        before = column
    return _Layout(subject, texts, columns, xs, column_width, label_width, left)


def _choose_columns(subject: Subject, most: int) -> list[int]:
    """All columns, or those at differences, at both ends of the axis, and at ends of lengths."""
    rows = subject.rows
    size = subject.sequence_size if rows else 0
    if size <= most:
        return list(range(size))
    # The most important columns come first: where differences begin, all other differences, the
    # ends of the axis, the ends of lengths, and then the rest.
    runs = [run for row in rows for run in row.wrong]
    by_importance = [start for start, _ in runs]
    for start, stop in runs:
        by_importance += range(start, stop)
    by_importance += [0, size - 1]
    for row in rows:
        if row.length:
            length = min(row.length, size)
            by_importance += [length - 1, min(length, size - 1)]
    by_importance += range(size)
    most = max(1, most - 1)  # a cut takes room, too
    return sorted(list(dict.fromkeys(by_importance))[:most])


def _row_y(i: int) -> float:
    return i * (_TILE + _BRACKET)


def _draw_table(layout: _Layout, number: int) -> list[str]:
    """The tensor of that number; the first one has the lengths, too."""
    subject = layout.subject
    name, source = subject.tensors[number]
    rows = [_draw_heads(layout)]
    rows += [_draw_row(layout, i, words) for i, words in enumerate(layout.texts[number])]
    elements = [svg.tag("g", "".join(rows), role="table", aria_label=name)]
    elements += _draw_cuts(layout)
    if number == 0 and subject.lengths is not None:
        elements.append(svg.text("length", _LENGTH_END, _HEAD, "small length end"))
        for i, row in enumerate(subject.rows):
            elements += _draw_length(layout, row, _row_y(i))
    if source.sizes:
        elements.append(svg.text(f"axis {subject.axis} \u2192", 0, _AXIS, "small length"))
    return [
        svg.text(name, 0, 14, "name"),
        svg.group(elements, layout.left, _HEADING + _BRACKET),
    ]


def _draw_heads(layout: _Layout) -> str:
    """The index of each column above it."""
    middle = layout.column_width / 2
    heads = [
        svg.text(str(column), x + middle, _HEAD, "cell small quiet", "columnheader")
        for column, x in zip(layout.columns, layout.xs, strict=True)
    ]
    return svg.tag("g", "".join(heads), role="row")


def _draw_row(layout: _Layout, i: int, words: list[str]) -> str:
    """The cells of a sequence, after its label."""
    subject = layout.subject
    row = subject.rows[i]
    y = _row_y(i)
    cells = []
    label = subject.label(row)
    if label:
        x = layout.label_width - layout.left
        cells.append(svg.text(label, x, y + _TEXT, "end small quiet", "rowheader"))
    for x, column in zip(layout.xs, layout.columns, strict=True):
        mark = _choose_mark(subject, row, column)
        cells.append(_draw_cell(words[column], mark, x, y, layout.column_width))
    return svg.tag("g", "".join(cells), role="row")


def _draw_cell(word: str, mark: str, x: float, y: float, width: float) -> str:
    """An element; if it is rounded, all of its digits are in a tooltip."""
    short = _round(word)
    parts = [
        svg.tag("rect", class_=mark, x=x, y=y, width=width, height=_TILE, rx=4),
        svg.text(short, x + width / 2, y + _TEXT, f"cell {mark}"),
    ]
    if short != word:
        parts.insert(0, svg.tooltip(word))
    return svg.tag("g", "".join(parts), role="cell")


def _draw_cuts(layout: _Layout) -> list[str]:
    """A mark where columns are left out, and one below the last row where rows are."""
    marks = []
    for i, column in enumerate(layout.columns[1:], 1):
        if column != layout.columns[i - 1] + 1:
            marks.append(svg.text("\u22ef", layout.xs[i] - 1 - _CUT / 2, _HEAD, "cell quiet"))
    if layout.subject.words_for_left_out() and layout.xs:
        y = _row_y(len(layout.subject.rows)) + 8
        marks.append(svg.text("\u2026", layout.column_width / 2, y, "cell quiet"))
    return marks


def _choose_mark(subject: Subject, row: Row, column: int) -> str:
    """What an element is drawn as."""
    if row.is_wrong_at(column):
        return DIFFERENT
    if column < subject.reversed_size(row):
        return REVERSED
    return COPIED


def _length_text(subject: Subject, row: Row) -> str:
    if _is_clamped(subject, row):
        return f"{row.length} \u2192 {subject.sequence_size}"
    return str(row.length)


def _is_clamped(subject: Subject, row: Row) -> bool:
    return row.length is not None and row.length > subject.sequence_size


def _draw_length(layout: _Layout, row: Row, y: float) -> list[str]:
    """The length of a sequence, and a bracket above what it reverses.

    The bracket is open at the right if the last of these columns is left out.
    """
    subject = layout.subject
    mark = CLAMPED if _is_clamped(subject, row) else "length"
    elements = [svg.text(_length_text(subject, row), _LENGTH_END, y + _TEXT, f"end {mark}")]
    length = min(row.length or 0, subject.sequence_size)
    reversed_columns = [column for column in layout.columns if column < length]
    if not reversed_columns:
        return elements
    right = layout.xs[len(reversed_columns) - 1] + layout.column_width - 1
    path = f"M1 {y - 2:g} 1 {y - 6.5:g} {right:g} {y - 6.5:g}"
    if reversed_columns[-1] == length - 1:
        path += f" {right:g} {y - 2:g}"
    return [*elements, svg.tag("path", d=path, class_="bracket")]


def _draw_legend(layout: _Layout, top: float) -> svg.Drawing:
    """The sentences of the legend, of which long ones take several lines."""
    elements = []
    width = 0.0
    y = top
    for sentence, sample in _list_meanings(layout):
        x = svg.SAMPLE if sample else 0
        for line in svg.wrap(sentence):
            words = svg.text(line, x, svg.LEGEND_TEXT, "words quiet")
            elements.append(svg.group([*sample, words], 0, y))
            sample = []  # only the first line has it
            width = max(width, x + len(line) * svg.WORD)
            y += svg.LEGEND_LINE
    return svg.Drawing(elements, width, y - top)


def _list_meanings(layout: _Layout) -> Iterator[tuple[str, list[str]]]:
    """What marks and brackets mean, and what is left out: sentences, each with a sample."""
    subject = layout.subject
    yield from _explain_marks(layout)
    if subject.lengths is not None:
        about = shorten(f"{LENGTHS} {subject.lengths.desc}", 60)
        sample = svg.tag("path", d="M1 12 v-5 h22 v5")
        yield f"length of the sequence, from {about}", [sample]
    rows = itertools.chain(*layout.texts)
    words = [row[column] for row in rows for column in layout.columns]
    if any(_round(word) != word for word in words):
        yield "rounded: pointing at a number shows all of its digits", []
    if len(layout.columns) < subject.sequence_size and subject.rows:
        yield f"{len(layout.columns)} of {subject.sequence_size} columns are shown", []
    left_out = subject.words_for_left_out()
    if left_out:
        yield left_out, []
    if not words:
        yield "there are no elements", []


def _explain_marks(layout: _Layout) -> Iterator[tuple[str, list[str]]]:
    """What the colours mean that are in the picture, each with a cell of that colour."""
    subject = layout.subject
    marks = set()
    for row in subject.rows:
        marks |= {_choose_mark(subject, row, column) for column in layout.columns}
    if any(_is_clamped(subject, row) for row in subject.rows):
        marks.add(CLAMPED)
    meanings = {
        REVERSED: "reversed",
        COPIED: "equal" if subject.lengths is None else "copied",
        DIFFERENT: "differs",
        CLAMPED: f"length above the axis size, which counts as {subject.sequence_size:,}",
    }
    for mark, meaning in meanings.items():
        if mark in marks:
            tile = svg.tag("rect", class_=mark, x=1, y=1, width=22, height=16, rx=4)
            yield meaning, [tile, svg.text("1", 12, 13.5, f"cell small {mark}")]


def _round(word: str) -> str:
    """The text of an element, rounded if it is a long number."""
    if len(word) <= _MOST_CHARACTERS:
        return word
    try:
        return f"{float(word):.{_DIGITS}g}"
    except ValueError:
        return shorten(word, _MOST_CHARACTERS)
