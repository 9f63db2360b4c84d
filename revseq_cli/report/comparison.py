"""The result of `diff`: how many elements differ, in which sequences, and what explains them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from revseq_cli.core.errors import printable
from revseq_cli.formats.contract import Source
from revseq_cli.pipeline.folds import Differences
from revseq_cli.report import objects, terminal
from revseq_cli.report.subject import Row, Subject
from revseq_cli.text.numbers import render_numbers
from revseq_cli.text.rows import DOTS

if TYPE_CHECKING:
    from revseq_cli.porting.diagnose import Mistake, WrongSequences

_WIDTH = 100  # columns where there is no terminal
_MOST_ELEMENTS = 12  # of a sequence that are shown, from the first wrong one on


@dataclass(frozen=True)
class WrongSequence:
    """A wrong sequence of a job's output: its index, its length, and some of its elements.

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


@dataclass(frozen=True)
class Comparison:
    """The result of `diff`: `differences` is None for tensors of other data types or sizes.

    `b` is what `a` is compared with: a tensor, or the expected output of a job, whose `axis` is
    reversed. `wrong_sequences` says which are wrong, and `mistakes` what explains that.
    """

    a: Source
    b: Source
    differences: Differences | None
    axis: int | None = None
    wrong_sequences: WrongSequences | None = None
    mistakes: tuple[Mistake, ...] = ()
    sequences: tuple[WrongSequence, ...] = ()

    @property
    def hint(self) -> str:
        """What to do about the mistakes, or else the options with which rounding is accepted."""
        remedies = [mistake.remedy for mistake in self.mistakes if mistake.remedy]
        if remedies:
            return "; ".join(remedies)
        options = self.differences.rounding_options if self.differences else ""
        if options == "--equal-nan":
            return "to treat all NaNs as equal, add --equal-nan"
        if options:
            return f"the differences are as small as rounding: add {options}"
        return ""

    @property
    def equal(self) -> bool:
        """Whether no element differs, and nothing in A had to be undone before the comparison."""
        if self.differences is None:
            return False
        return not self.differences.count and not self.mistakes

    @property
    def roles(self) -> tuple[str, str]:
        """What `a` and `b` are called."""
        return ("A", "B") if self.axis is None else ("A", "expected")

    def as_record(self) -> objects.DiffRecord:
        """What --json has of it."""
        wrong = None
        if self.wrong_sequences:
            wrong = objects.WrongSequencesRecord(
                self.wrong_sequences.count, self.wrong_sequences.of, self.wrong_sequences.rule
            )
        mistakes = [
            objects.MistakeRecord(mistake.text, mistake.sequences, mistake.remedy)
            for mistake in self.mistakes
        ]
        return objects.DiffRecord(
            a=objects.describe_tensor(self.a.name, self.a.desc),
            b=objects.describe_tensor(self.b.name, self.b.desc),
            equal=self.equal,
            **_difference_fields(self.differences),
            axis=self.axis,
            wrong_sequences=wrong,
            mistakes=mistakes,
            hint=self.hint,
        )


_KEPT = ("total", "nans", "inside", "largest_absolute", "largest_relative", "largest_ulps")


def _difference_fields(differences: Differences | None) -> dict[str, Any]:
    """What --json has of the elements that differ."""
    if differences is None:
        return dict.fromkeys(("different", "first", *_KEPT))
    numbers = {name: getattr(differences, name) for name in _KEPT}
    first = [objects.DifferenceRecord(*row) for row in list_differences(differences)]
    return {"different": differences.count, "first": first, **numbers}


def list_differences(differences: Differences) -> list[tuple[list[int], str, str]]:
    """The first elements that differ: the index, and the values in a and in b as text."""
    texts = map(render_numbers, (differences.a, differences.b))
    return list(zip(differences.indices.tolist(), *texts, strict=True))


def read_wrong_sequences(subject: Subject, most: int) -> list[WrongSequence]:
    """The first wrong sequences of a job's output, read from both tensors."""
    (_, a), (_, expected) = subject.tensors
    return [_read_sequence(subject, row, a, expected) for row in subject.wrong_rows(most)]


def _read_sequence(subject: Subject, row: Row, a: Source, expected: Source) -> WrongSequence:
    start = 0
    if subject.sequence_size > _MOST_ELEMENTS:
        start = min(row.wrong[0][0], subject.sequence_size - _MOST_ELEMENTS)
    stop = min(start + _MOST_ELEMENTS, subject.sequence_size)
    region = subject.region(row.index, start, stop)
    index = [str(i) for i in row.index]
    index[subject.axis] = ":"
    return WrongSequence(
        f"[{', '.join(index)}]",
        row.length or 0,
        start,
        subject.sequence_size,
        render_numbers(a.read_task(region).read().reshape(-1)),
        render_numbers(expected.read_task(region).read().reshape(-1)),
        [any(first <= i < end for first, end in row.wrong) for i in range(start, stop)],
    )


def comparison_text(
    comparison: Comparison, width: int | None = None, *, in_color: bool = False
) -> str:
    """The whole report, which fits the width of a terminal, if there is one."""
    heads = terminal.fit("\n".join(_heads(comparison)), width).split("\n")
    verdict = terminal.fit(_verdict_text(comparison), width)
    if in_color:
        style = terminal.GREEN if comparison.equal else terminal.RED
        verdict = terminal.paint(verdict, style)
    lines = [*heads, verdict]
    differences = comparison.differences
    if differences is None:
        return "\n".join(lines)
    lines += [terminal.fit(line, width) for line in _list_causes(comparison)]
    if comparison.axis is None or not comparison.sequences:
        lines += _element_rows(comparison, differences)
    else:
        lines += _sequences(comparison, differences, width or _WIDTH, in_color=in_color)
    lines += [terminal.fit(line, width) for line in _distances(comparison, differences)]
    if comparison.hint:
        lines.append(terminal.fit(f"Hint: {comparison.hint}", width))
    text = "\n".join(lines)
    return terminal.paint_labels(text) if in_color else text


def _verdict_text(comparison: Comparison) -> str:
    """Whether the tensors are equal, or how many elements differ."""
    if comparison.differences is None:
        return f"{_unlike(comparison)} differ"
    return _count_text(comparison, comparison.differences)


def _list_causes(comparison: Comparison) -> Iterator[str]:
    """Which sequences are wrong, if not all are, and the mistakes that explain it."""
    wrong = comparison.wrong_sequences
    if wrong and wrong.count < wrong.of:
        if wrong.rule:
            yield f"only {wrong.rule} are wrong"
    label = "explained by"
    for mistake in comparison.mistakes:
        yield f"{label}: {mistake.text}"
        label = "and"


def _heads(comparison: Comparison) -> Iterator[str]:
    """Both tensors, each with what it is called."""
    roles = comparison.roles
    column = max(len(role) for role in roles) + 1
    for role, side in zip(roles, (comparison.a, comparison.b), strict=True):
        words = f"{role + ':':<{column}} {side.desc}  {printable(side.name)}"
        if role == "expected":
            words += f", reversed along axis {comparison.axis}"
        yield words


def _unlike(comparison: Comparison) -> str:
    """Which of their data types and shapes differ."""
    a = comparison.a
    b = comparison.b
    words = []
    if a.desc.data_type != b.desc.data_type:
        words.append("data types")
    if a.sizes != b.sizes:
        words.append("shapes")
    return " and ".join(words)


def _count_text(comparison: Comparison, differences: Differences) -> str:
    """How many elements differ, and where these are."""
    if comparison.equal:
        return f"equal: {terminal.say_count(differences.total, 'element')}"
    count = f"{differences.count:,} of {differences.total:,} elements differ"
    axis = comparison.axis
    if axis is None or not differences.count:
        return count
    sizes = comparison.b.sizes
    sequences = comparison.b.desc.element_count // sizes[axis]
    inside = differences.inside
    after = differences.count - inside
    part = f"{inside:,} in the reversed part, {after:,} after it"
    if not inside:
        part = "only after the reversed part"
    if not after:
        part = "only in the reversed part"
    return f"{count}, in {differences.sequence_count:,} of {sequences:,} sequences, {part}"


def _element_rows(comparison: Comparison, differences: Differences) -> Iterator[str]:
    """The first elements that differ, and how many more there are."""
    rows = [(str(index), a, b) for index, a, b in list_differences(differences)]
    if not rows:
        return
    rows.insert(0, ("index", *comparison.roles))
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  " + "  ".join(map(str.rjust, row, widths))
    more = differences.count - (len(rows) - 1)
    if more:
        yield f"{more:,} more: to see them, add --first {differences.count}"


def _sequences(
    comparison: Comparison, differences: Differences, width: int, *, in_color: bool
) -> list[str]:
    """The first wrong sequences, each as it is and as it should be, and how many more there are."""
    sequences = comparison.sequences
    shown = _MOST_ELEMENTS
    while shown > 1 and _widest(sequences, shown) > width:
        shown -= 1
    rows = _rows(sequences, shown, in_color=in_color)
    if _widest(sequences, shown) > width:
        rows = [line for sequence in sequences for line in _stack(sequence, in_color=in_color)]
    more = differences.sequence_count - len(sequences)
    if more > 0:
        words = terminal.say_count(more, "more sequence")
        rest = f"{words}: to see them, add --first {differences.sequence_count}"
        rows.append(terminal.fit(rest, width))
    return rows


def _widest(sequences: Sequence[WrongSequence], shown: int) -> int:
    return max(len(row) for row in _rows(sequences, shown, in_color=False))


def _rows(sequences: Sequence[WrongSequence], shown: int, *, in_color: bool) -> list[str]:
    """A line for each sequence, with at most so many elements of it; columns are aligned."""
    label_width = max(len(sequence.label) for sequence in sequences)
    length_width = max(len(str(sequence.length)) for sequence in sequences)
    values_width = max(len(_values_text(sequence, sequence.a, shown)) for sequence in sequences)
    rows = []
    for sequence in sequences:
        values = _values_text(sequence, sequence.a, shown, in_color=in_color)
        padding = " " * (values_width - len(_values_text(sequence, sequence.a, shown)))
        expected = _values_text(sequence, sequence.expected, shown)
        rows.append(
            f"  sequence {sequence.label:<{label_width}}  length {sequence.length:>{length_width}}"
            f"  A  {values}{padding}  expected  {expected}"
        )
    return rows


def _stack(sequence: WrongSequence, *, in_color: bool) -> list[str]:
    """A sequence in three lines, for a narrow terminal."""
    return [
        f"  sequence {sequence.label}  length {sequence.length}",
        f"    A         {_values_text(sequence, sequence.a, 1, in_color=in_color)}",
        f"    expected  {_values_text(sequence, sequence.expected, 1)}",
    ]


def _values_text(
    sequence: WrongSequence, texts: list[str], shown: int, *, in_color: bool = False
) -> str:
    """Elements of a sequence: a bar after its reversed part, dots where others are left out."""
    words = []
    if sequence.start:
        words.append(DOTS)
    for i, text in enumerate(texts[:shown]):
        if 0 < sequence.start + i == sequence.length:
            words.append("|")
        word = text
        if in_color and sequence.wrong[i]:
            word = terminal.paint(text, terminal.WRONG)
        words.append(word)
    if sequence.start + min(shown, len(texts)) < sequence.size:
        words.append(DOTS)
    return " ".join(words)


def _distances(comparison: Comparison, differences: Differences) -> Iterator[str]:
    """How far the elements are apart."""
    role = comparison.roles[1]
    largest = {
        f"|A - {role}|": differences.largest_absolute,
        f"|A - {role}| / |{role}|": differences.largest_relative,
    }
    for name, number in largest.items():
        if number is not None:
            yield f"largest {name}: {number:.7g}"
    if differences.rounding_options and differences.largest_ulps:
        yield f"largest difference: {differences.largest_ulps:,} ulp"
    if differences.nans:
        yield f"{differences.nans:,} of the differing elements are NaN in both"
