"""The wrong sequences of a job's output as text, each next to what is expected.

sequence [0, :]  length 3  A  1 2 3 | 4  expected  3 2 1 | 4
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from revseq_cli.formats.contract import Source
from revseq_cli.report import terminal
from revseq_cli.report.subject import Row, Subject
from revseq_cli.text.numbers import render_numbers
from revseq_cli.text.rows import DOTS

_MOST_ELEMENTS = 12  # of a sequence that are shown, from the first wrong one on


@dataclass(frozen=True)
class ShownSequence:
    """A wrong sequence that is shown: its index, its length, and some of its elements.

    `start` is the index along the axis of the first element that is shown, and `size` how many the
    sequence has. `wrong` says which of the shown elements differ.
    """

    label: str
    length: int
    start: int
    size: int
    a: list[str]
    expected: list[str]
    wrong: list[bool]


def read_shown_sequences(subject: Subject, most: int) -> list[ShownSequence]:
    """The first wrong sequences of a job's output, read from both tensors."""
    (_, a), (_, expected) = subject.tensors
    return [_read_sequence(subject, row, a, expected) for row in subject.read_wrong_rows(most)]


def _read_sequence(subject: Subject, row: Row, a: Source, expected: Source) -> ShownSequence:
    size = subject.sequence_size
    first_wrong, _ = row.wrong[0]
    start = max(0, min(first_wrong, size - _MOST_ELEMENTS))
    stop = min(start + _MOST_ELEMENTS, size)
    index = [str(i) for i in row.index]
    index[subject.axis] = ":"
    return ShownSequence(
        label=f"[{', '.join(index)}]",
        length=row.length or 0,
        start=start,
        size=size,
        a=render_numbers(subject.read(a, row, start, stop)),
        expected=render_numbers(subject.read(expected, row, start, stop)),
        wrong=[row.is_wrong_at(i) for i in range(start, stop)],
    )


def write_sequences(sequences: Sequence[ShownSequence], width: int, *, in_color: bool) -> list[str]:
    """A line for each sequence, with as many elements as the width has room for.

    If there is not even room for one, a sequence takes three lines.
    """
    if in_color:
        sequences = [_paint_wrong(sequence) for sequence in sequences]
    for most in range(_MOST_ELEMENTS, 0, -1):
        lines = _write_lines(sequences, most)
        if max(map(terminal.count_columns, lines)) <= width:
            return lines
    return [line for sequence in sequences for line in _write_three_lines(sequence)]


def _paint_wrong(sequence: ShownSequence) -> ShownSequence:
    """The sequence with its wrong elements in the style of wrong ones."""
    painted = list(sequence.a)
    for i, is_wrong in enumerate(sequence.wrong):
        if is_wrong:
            painted[i] = terminal.paint(painted[i], terminal.WRONG)
    return replace(sequence, a=painted)


def _write_lines(sequences: Sequence[ShownSequence], most: int) -> list[str]:
    """A line for each sequence, with at most `most` of its elements; columns are aligned."""
    label_width = max(len(sequence.label) for sequence in sequences)
    length_width = max(len(str(sequence.length)) for sequence in sequences)
    values = [_join_elements(sequence, sequence.a, most) for sequence in sequences]
    values_width = max(map(terminal.count_columns, values))
    lines = []
    for sequence, value in zip(sequences, values, strict=True):
        label = f"{sequence.label:<{label_width}}"
        length = f"{sequence.length:>{length_width}}"
        padding = " " * (values_width - terminal.count_columns(value))
        expected = _join_elements(sequence, sequence.expected, most)
        lines.append(
            f"  sequence {label}  length {length}  A  {value}{padding}  expected  {expected}"
        )
    return lines


def _write_three_lines(sequence: ShownSequence) -> list[str]:
    return [
        f"  sequence {sequence.label}  length {sequence.length}",
        f"    A         {_join_elements(sequence, sequence.a, 1)}",
        f"    expected  {_join_elements(sequence, sequence.expected, 1)}",
    ]


def _join_elements(sequence: ShownSequence, elements: Sequence[str], most: int) -> str:
    """Elements with a bar after the reversed part, and dots where others are left out."""
    words = list(elements[:most])
    stop = sequence.start + len(words)
    if sequence.length and sequence.start <= sequence.length < stop:
        words.insert(sequence.length - sequence.start, "|")
    if sequence.start:
        words.insert(0, DOTS)
    if stop < sequence.size:
        words.append(DOTS)
    return " ".join(words)
