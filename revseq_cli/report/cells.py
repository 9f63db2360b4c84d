"""Pictures of short sequences: a table for each tensor, with a row for each sequence.

Long numbers are rounded, and have all of their digits in a tooltip. Where a row is too wide, the
columns at differences and at ends of sequences are drawn, and a mark shows where others are cut.
"""

from __future__ import annotations

from dataclasses import dataclass

from revseq_cli.core.errors import shorten
from revseq_cli.formats.contract import Source
from revseq_cli.operator.spec import LENGTHS
from revseq_cli.report import svg, view
from revseq_cli.report.subject import Row, Subject
from revseq_cli.report.svg import CLAMPED, COPIED, DIFFERENT, REVERSED
from revseq_cli.text.numbers import render_numbers

_MOST_CHARACTERS = 8  # of an element; longer numbers are rounded
_DIGITS = 4  # of a rounded number
_CHARACTER = 8.5  # pixels, with room for wide fonts
_TILE = 30  # pixels: the height of a cell, and its least width
_BRACKET = 8  # pixels between two rows, for the bracket above what is reversed
_CUT = 18  # pixels of the mark for columns that are left out
_BETWEEN = 40  # pixels between two tables
_HEADING = 50  # pixels above the first row: the name of the tensor, and the axis
_NARROWEST = 120  # pixels of a table: the name of a tensor


@dataclass(frozen=True)
class _Table:
    """Where the columns and rows of all tables are, and what the rows hold."""

    subject: Subject
    texts: list[list[list[str]]]  # of each tensor, row and column that is drawn
    columns: list[int]
    xs: list[float]
    column_width: float
    label_width: float
    left: float  # the width of labels and lengths

    @property
    def width(self) -> float:
        right = self.xs[-1] + self.column_width if self.xs else 0
        return max(self.left + right, _NARROWEST)

    @property
    def height(self) -> float:
        return _HEADING + len(self.subject.rows) * (_TILE + _BRACKET)


def draw(subject: Subject) -> tuple[list[str], float, float]:
    """The elements of the picture, and their width and height."""
    table = _lay_out(subject)
    parts = []
    room = svg.WIDEST - 2 * svg.MARGIN
    count = len(subject.tensors)
    are_side_by_side = count * (table.width + _BETWEEN) - _BETWEEN <= room
    width = table.width
    y = 0.0
    for number in range(count):
        x = number * (table.width + _BETWEEN) if are_side_by_side else 0
        parts.append(svg.group(_draw_table(table, number), x, y))
        width = max(width, x + table.width)
        if number == count - 1 or not are_side_by_side:
            y += table.height + 24
    for meaning, swatch in _legend(table):
        x = 32 if swatch else 0
        for line in svg.wrap(meaning):
            words = svg.text(line, x, 14, "words quiet")
            parts.append(svg.group([*swatch, words], 0, y))
            width = max(width, x + len(line) * svg.WORD)
            swatch = []
            y += 22
    return parts, width, y


def describe(subject: Subject) -> list[str]:
    """The tensors in the notation of the pages, for those who cannot see the cells."""
    sources = [(name, source, "") for name, source in subject.tensors]
    if subject.lengths is not None:
        sources.insert(1, ("SequenceTensor", subject.lengths, f"Axis: {subject.axis}"))
    lines = []
    for name, source, more in sources:
        ends = view.ends_of(source.sizes, view.PREVIEW)
        lines += [f"{name}: {source.desc}", *view.show_rows(source, ends).split("\n"), ""]
        if more:
            lines += [more, ""]
    return lines


def _lay_out(subject: Subject) -> _Table:
    """Choose the columns that fit, and find where they are."""
    whole = [
        [render_numbers(subject.read(source, row)) for row in subject.rows]
        for _, source in subject.tensors
    ]
    longest = max((len(_round(word)) for rows in whole for row in rows for word in row), default=1)
    column_width = max(_TILE, longest * _CHARACTER + 12)
    labels = [subject.label(row) for row in subject.rows]
    label_width = max((len(label) for label in labels), default=0) * svg.SMALL
    left = label_width + 8 if label_width else 0.0
    if subject.lengths is not None:
        words = ["length", *(_length_words(subject, row) for row in subject.rows)]
        left += max(len(word) for word in words) * _CHARACTER + 14
    room = svg.WIDEST - 2 * svg.MARGIN - left
    columns = _choose_columns(subject, int(room // (column_width + 2)))
    xs = []
    x = 0.0
    for i, column in enumerate(columns):
        if i and column != columns[i - 1] + 1:
            x += _CUT
        xs.append(x)
        x += column_width + 2
    texts = [[[row[column] for column in columns] for row in rows] for rows in whole]
    return _Table(subject, texts, columns, xs, column_width, label_width, left)


def _choose_columns(subject: Subject, most: int) -> list[int]:
    """All columns, or those at differences, at both ends of the axis, and at ends of sequences."""
    size = subject.sequence_size if subject.rows else 0
    if size <= most:
        return list(range(size))
    most = max(1, most - 1)  # a cut takes room, too
    # The columns in the order of their importance; those that come first are drawn.
    columns = [start for row in subject.rows for start, _ in row.wrong]
    for row in subject.rows:
        for start, stop in row.wrong:
            columns += range(start, stop)
    columns += [0, size - 1]
    for row in subject.rows:
        if row.length:
            end = min(row.length, size)
            columns += [end - 1, min(end, size - 1)]
    columns += range(size)
    return sorted(list(dict.fromkeys(columns))[:most])


def _draw_table(table: _Table, number: int) -> list[str]:
    """One tensor; the first has the lengths of its rows."""
    subject = table.subject
    name, source = subject.tensors[number]
    middle = table.column_width / 2
    heads = [
        svg.text(str(column), x + middle, -10, "cell small quiet", "columnheader")
        for column, x in zip(table.columns, table.xs, strict=True)
    ]
    rows = [svg.tag("g", "".join(heads), role="row")]
    for i, row in enumerate(subject.rows):
        rows.append(svg.tag("g", "".join(_draw_row(table, number, i, row)), role="row"))
    drawn = [svg.tag("g", "".join(rows), role="table", aria_label=name)]
    drawn += _cut_marks(table)
    if number == 0 and subject.lengths is not None:
        drawn.append(svg.text("length", -10, -10, "small length end"))
        for i, row in enumerate(subject.rows):
            drawn += _draw_length(table, i, row)
    if source.sizes:
        drawn.append(svg.text(f"axis {subject.axis} \u2192", 0, -26, "small length"))
    return [
        svg.text(name, 0, 14, "name"),
        svg.group(drawn, table.left, _HEADING + 8),
    ]


def _row_y(i: int) -> float:
    return i * (_TILE + _BRACKET)


def _draw_row(table: _Table, number: int, i: int, row: Row) -> list[str]:
    """The cells of a sequence, after its label."""
    subject = table.subject
    y = _row_y(i)
    drawn = []
    label = subject.label(row)
    if label:
        x = table.label_width - table.left
        drawn.append(svg.text(label, x, y + 20, "end small quiet", "rowheader"))
    for x, column, word in zip(table.xs, table.columns, table.texts[number][i], strict=True):
        mark = _mark(subject, row, column)
        tile = svg.tag("rect", class_=mark, x=x, y=y, width=table.column_width, height=_TILE, rx=4)
        short = _round(word)
        words = svg.text(short, x + table.column_width / 2, y + 20, f"cell {mark}")
        digits = svg.tooltip(word) if short != word else ""
        drawn.append(svg.tag("g", digits + tile + words, role="cell"))
    return drawn


def _cut_marks(table: _Table) -> list[str]:
    """A mark where columns are left out, and one below the last row where rows are."""
    marks = []
    height = _row_y(len(table.subject.rows))
    for i, column in enumerate(table.columns[1:], 1):
        if column != table.columns[i - 1] + 1:
            marks.append(svg.text("\u22ef", table.xs[i] - 1 - _CUT / 2, -10, "cell quiet"))
    if table.subject.words_for_left_out() and table.xs:
        marks.append(svg.text("\u2026", table.column_width / 2, height + 8, "cell quiet"))
    return marks


def _mark(subject: Subject, row: Row, column: int) -> str:
    """What an element is drawn as."""
    if any(start <= column < stop for start, stop in row.wrong):
        return DIFFERENT
    if column < subject.reversed_size(row):
        return REVERSED
    return COPIED


def _length_words(subject: Subject, row: Row) -> str:
    if _is_clamped(subject, row):
        return f"{row.length} \u2192 {subject.sequence_size}"
    return str(row.length)


def _is_clamped(subject: Subject, row: Row) -> bool:
    return row.length is not None and row.length > subject.sequence_size


def _draw_length(table: _Table, i: int, row: Row) -> list[str]:
    """The length of a sequence, and a bracket above what it reverses; open where that is cut."""
    subject = table.subject
    y = _row_y(i)
    mark = CLAMPED if _is_clamped(subject, row) else "length"
    drawn = [svg.text(_length_words(subject, row), -10, y + 20, f"end {mark}")]
    length = min(row.length or 0, subject.sequence_size)
    inside = [x for x, column in zip(table.xs, table.columns, strict=True) if column < length]
    if not inside:
        return drawn
    right = inside[-1] + table.column_width - 1
    path = f"M1 {y - 2:g} 1 {y - 6.5:g} {right:g} {y - 6.5:g}"
    if length - 1 in table.columns:
        path += f" {right:g} {y - 2:g}"
    return [*drawn, svg.tag("path", d=path, class_="bracket")]


def _legend(table: _Table) -> list[tuple[str, list[str]]]:
    """What marks and brackets mean, and what is left out: sentences, each with a sample."""
    subject = table.subject
    marks = {_mark(subject, row, column) for row in subject.rows for column in table.columns}
    if any(_is_clamped(subject, row) for row in subject.rows):
        marks.add(CLAMPED)
    size = f"{subject.sequence_size:,}"
    meanings = {
        REVERSED: "reversed",
        COPIED: "copied" if subject.lengths is not None else "equal",
        DIFFERENT: "differs",
        CLAMPED: f"length above the axis size, which counts as {size}",
    }
    items: list[tuple[str, list[str]]] = []
    for mark, meaning in meanings.items():
        if mark in marks:
            tile = svg.tag("rect", class_=mark, x=1, y=1, width=22, height=16, rx=4)
            items.append((meaning, [tile, svg.text("1", 12, 13.5, f"cell small {mark}")]))
    if subject.lengths is not None:
        sample = [svg.tag("path", d="M1 12 v-5 h22 v5")]
        items.append((f"length of the sequence, from {_about_lengths(subject.lengths)}", sample))
    words = [word for rows in table.texts for row in rows for word in row]
    if any(_round(word) != word for word in words):
        items.append(("rounded: pointing at a number shows all of its digits", []))
    if len(table.columns) < subject.sequence_size and subject.rows:
        cut = f"{len(table.columns)} of {subject.sequence_size} columns are shown"
        items.append((cut, []))
    left_out = subject.words_for_left_out()
    if left_out:
        items.append((left_out, []))
    if not words:
        items.append(("there are no elements", []))
    return items


def _about_lengths(lengths: Source) -> str:
    return shorten(f"{LENGTHS} {lengths.desc}", 60)


def _round(word: str) -> str:
    """The text of an element, rounded if it is a long number."""
    if len(word) <= _MOST_CHARACTERS:
        return word
    try:
        return f"{float(word):.{_DIGITS}g}"
    except ValueError:
        return shorten(word, _MOST_CHARACTERS)
