"""Pictures of long sequences: a bar for each, with its reversed part and what is wrong.

    sequence   length  0   axis 1 →                   99
           0       60  ============================------
           1       20  ========--------------------------

The numbers of sequences and their lengths are right-aligned text.
"""

from __future__ import annotations

from dataclasses import dataclass

from revseq_cli.report import svg
from revseq_cli.report.subject import Row, Subject

_BAR = 12  # pixels: the height of a bar
_STEP = 17  # pixels from one bar to the next
_TOP = 30  # pixels for the heads of the columns
_HEAD = 20  # pixels from the top to the baseline of the heads
_TEXT = 10  # pixels from the top of a bar to the baseline of the text before it
_DOTS = 8  # pixels for the mark of sequences that are left out
_NARROWEST = 2  # pixels: the least width of a wrong part
_GAP = 10  # pixels between two columns
_ROOM = svg.WIDEST - 2 * svg.MARGIN
_MOST_PARTS = 5  # of a sequence that are put into words


@dataclass(frozen=True)
class _Columns:
    """Where the columns of labels and lengths end, and where the bars begin."""

    label_end: float
    length_end: float
    bar_start: float

    @property
    def bar_width(self) -> float:
        return _ROOM - self.bar_start


def draw_bars(subject: Subject) -> svg.Drawing:
    """The bars below the heads of the columns, and a legend below them."""
    columns = _lay_out(subject)
    elements = _draw_heads(subject, columns)
    rows = []
    y: float = _TOP
    for row in subject.rows:
        rows.append(svg.tag("g", "".join(_draw_row(subject, row, columns, y)), role="listitem"))
        y += _STEP
    elements.append(svg.tag("g", "".join(rows), role="list", aria_label="sequences", class_="bars"))
    y += _DOTS
    if subject.words_for_left_out():
        elements.append(svg.text("\u2026", columns.label_end, y, "small quiet end"))
        y += _DOTS
    for words, mark in _explain_marks(subject):
        elements += _draw_meaning(words, mark, y)
        y += svg.LEGEND_LINE
    return svg.Drawing(elements, _ROOM, y)


def describe_bars(subject: Subject) -> list[str]:
    """What the bars show, in words."""
    lines = [_describe_row(subject, row) for row in subject.rows]
    left_out = subject.words_for_left_out()
    if left_out:
        lines.append(left_out)
    return lines


def _lay_out(subject: Subject) -> _Columns:
    labels = [_label_head(subject), *(subject.label(row) for row in subject.rows)]
    label_end = max(map(len, labels)) * svg.SMALL
    if subject.lengths is None:
        return _Columns(label_end, label_end, label_end + _GAP)
    lengths = ["length", *(str(row.length) for row in subject.rows)]
    length_end = label_end + _GAP + max(map(len, lengths)) * svg.SMALL
    return _Columns(label_end, length_end, length_end + _GAP)


def _label_head(subject: Subject) -> str:
    return "sequence" if subject.batch_axis is None else "batch"


def _draw_heads(subject: Subject, columns: _Columns) -> list[str]:
    last = str(subject.sequence_size - 1)
    heads = [
        svg.text(_label_head(subject), columns.label_end, _HEAD, "small quiet end"),
        svg.text(f"0   axis {subject.axis} \u2192", columns.bar_start, _HEAD, "small quiet"),
        svg.text(last, _ROOM, _HEAD, "small quiet end"),
    ]
    if subject.lengths is not None:
        heads.append(svg.text("length", columns.length_end, _HEAD, "small length end"))
    return heads


def _draw_row(subject: Subject, row: Row, columns: _Columns, y: float) -> list[str]:
    """The label of a sequence, its length and its bar."""
    label = subject.label(row)
    elements = [
        svg.tooltip(_describe_row(subject, row)),
        svg.text(label, columns.label_end, y + _TEXT, "small quiet end"),
    ]
    if row.length is not None:
        length = svg.text(str(row.length), columns.length_end, y + _TEXT, "small length end")
        elements.append(length)
    return elements + _draw_bar(subject, row, columns, y)


def _draw_bar(subject: Subject, row: Row, columns: _Columns, y: float) -> list[str]:
    """The whole sequence, its reversed part over that, and the wrong parts over both."""
    size = subject.sequence_size
    left = columns.bar_start
    width = columns.bar_width
    parts = [_draw_part("copied", left, y, width)]
    reversed_size = subject.reversed_size(row)
    if reversed_size:
        parts.append(_draw_part("bar", left, y, width * reversed_size / size))
    for start, stop in row.wrong:
        wrong_width = max(_NARROWEST, width * (stop - start) / size)
        x = min(left + width * start / size, left + width - wrong_width)
        parts.append(_draw_part(svg.DIFFERENT, x, y, wrong_width))
    return parts


def _draw_part(mark: str, x: float, y: float, width: float) -> str:
    width = round(width, 1)
    return svg.tag("rect", class_=mark, x=round(x, 1), y=y, width=width, height=_BAR, rx=2)


def _describe_row(subject: Subject, row: Row) -> str:
    """What the bar of a sequence shows."""
    label = subject.label(row)
    noun = _label_head(subject)
    words = [f"{noun} {label}" if label else noun]
    if row.length is not None:
        words.append(f"length {row.length}")
    parts = []
    for start, stop in row.wrong:
        is_one = stop == start + 1
        parts.append(str(start) if is_one else f"{start} to {stop - 1}")
    if len(parts) > _MOST_PARTS:
        parts[_MOST_PARTS:] = [f"{len(parts) - _MOST_PARTS} more parts"]
    if parts:
        words.append(f"differs at {', '.join(parts)}")
    return ", ".join(words)


def _draw_meaning(words: str, mark: str, y: float) -> list[str]:
    """A line of the legend: a sample of the mark, if it is about one, and the words."""
    if not mark:
        return [svg.text(words, 0, y + svg.LEGEND_TEXT, "words quiet")]
    sample = svg.tag("rect", class_=mark, x=1, y=y + 3, width=22, height=_BAR, rx=2)
    return [
        svg.tag("g", sample, class_="bars"),
        svg.text(words, svg.SAMPLE, y + svg.LEGEND_TEXT, "words quiet"),
    ]


def _explain_marks(subject: Subject) -> list[tuple[str, str]]:
    """What the parts of the bars mean, and what is left out: sentences with their marks, or ""."""
    lines = [("equal", "copied")]
    if subject.lengths is not None:
        lines = [("reversed", "bar"), ("padding, copied as it is", "copied")]
    if any(row.wrong for row in subject.rows):
        lines.append(("differs", svg.DIFFERENT))
    left_out = subject.words_for_left_out()
    if left_out:
        lines.append((left_out, ""))
    return lines
