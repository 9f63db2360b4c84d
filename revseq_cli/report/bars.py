"""Pictures of long sequences: a bar for each, with its reversed part and what is wrong."""

from __future__ import annotations

from revseq_cli.report import svg
from revseq_cli.report.subject import Row, Subject

_BAR = 12  # pixels: the height of a bar
_STEP = 17  # pixels from one bar to the next
_TOP = 30  # pixels for the heads of the columns
_NARROWEST = 2  # pixels of a wrong part, however short it is
_GAP = 10  # pixels between two columns
_MOST_PARTS = 5  # of a sequence that are put into words


def draw(subject: Subject) -> tuple[list[str], float, float]:
    """The elements of the picture, and their width and height."""
    room = svg.WIDEST - 2 * svg.MARGIN
    labels = ["sequence" if subject.batch_axis is None else "batch"]
    labels += [subject.label(row) for row in subject.rows]
    label_width = max(len(label) for label in labels) * svg.SMALL
    lengths = ["length"] if subject.lengths is not None else []
    lengths += [str(row.length) for row in subject.rows if row.length is not None]
    length_width = max((len(word) for word in lengths), default=0) * svg.SMALL
    left = label_width + _GAP
    if length_width:
        left += length_width + _GAP
    width = room - left
    last = str(subject.sequence_size - 1)
    parts = [
        svg.text(labels[0], label_width, 20, "small quiet end"),
        svg.text(f"0   axis {subject.axis} \u2192", left, 20, "small quiet"),
        svg.text(last, room, 20, "small quiet end"),
    ]
    if length_width:
        parts.append(svg.text("length", left - _GAP, 20, "small length end"))
    bars = []
    for i, row in enumerate(subject.rows):
        y = _TOP + i * _STEP
        drawn = [svg.tooltip(_words(subject, row))]
        drawn.append(svg.text(subject.label(row), label_width, y + 10, "small quiet end"))
        if row.length is not None:
            drawn.append(svg.text(str(row.length), left - _GAP, y + 10, "small length end"))
        drawn += _draw_bar(subject, row, left, y, width)
        bars.append(svg.tag("g", "".join(drawn), role="listitem"))
    parts.append(svg.tag("g", "".join(bars), role="list", aria_label="sequences", class_="bars"))
    y = _TOP + len(subject.rows) * _STEP + 8
    if subject.words_for_left_out():
        parts.append(svg.text("\u2026", label_width, y, "small quiet end"))
        y += 8
    for meaning, mark in _legend(subject):
        if mark:
            sample = svg.tag("rect", class_=mark, x=1, y=y + 3, width=22, height=_BAR, rx=2)
            parts.append(svg.tag("g", sample, class_="bars"))
        parts.append(svg.text(meaning, 32 if mark else 0, y + 14, "words quiet"))
        y += 22
    return parts, room, y


def describe(subject: Subject) -> list[str]:
    """What the bars show, in words."""
    left_out = subject.words_for_left_out()
    lines = [_words(subject, row) for row in subject.rows]
    return [*lines, left_out] if left_out else lines


def _draw_bar(subject: Subject, row: Row, left: float, y: float, width: float) -> list[str]:
    """The whole sequence, its reversed part over that, and the wrong parts over both."""
    size = subject.sequence_size
    drawn = [_rect("copied", left, y, width)]
    reversed_size = subject.reversed_size(row)
    if reversed_size:
        drawn.append(_rect("bar", left, y, width * reversed_size / size))
    for start, stop in row.wrong:
        x = left + width * start / size
        wrong_width = max(_NARROWEST, width * (stop - start) / size)
        x = min(x, left + width - wrong_width)
        drawn.append(_rect(svg.DIFFERENT, x, y, wrong_width))
    return drawn


def _rect(mark: str, x: float, y: float, width: float) -> str:
    return svg.tag(
        "rect", class_=mark, x=round(x, 1), y=y, width=round(width, 1), height=_BAR, rx=2
    )


def _words(subject: Subject, row: Row) -> str:
    """What the bar of a sequence shows."""
    label = subject.label(row)
    noun = "sequence" if subject.batch_axis is None else "batch"
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


def _legend(subject: Subject) -> list[tuple[str, str]]:
    """What the parts of the bars mean, and what is left out: sentences with their marks, or ""."""
    items = []
    if subject.lengths is not None:
        items.append(("reversed", "bar"))
        items.append(("padding, copied as it is", "copied"))
    else:
        items.append(("equal", "copied"))
    if any(row.wrong for row in subject.rows):
        items.append(("differs", svg.DIFFERENT))
    left_out = subject.words_for_left_out()
    if left_out:
        items.append((left_out, ""))
    return items
