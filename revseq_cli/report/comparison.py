"""The result of `diff`: how many elements differ, in which sequences, and what explains them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from revseq_cli.core.errors import printable
from revseq_cli.formats.contract import Source
from revseq_cli.pipeline.folds import Differences
from revseq_cli.report import objects, terminal
from revseq_cli.report.sequences import ShownSequence, write_sequences
from revseq_cli.text.numbers import render_numbers

if TYPE_CHECKING:
    from revseq_cli.porting.diagnose import Mistake, WrongSequences

_WIDTH = 100  # columns where there is no terminal


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
    shown_sequences: tuple[ShownSequence, ...] = ()

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
        record = objects.DiffRecord(
            a=objects.describe_tensor(self.a.name, self.a.desc),
            b=objects.describe_tensor(self.b.name, self.b.desc),
            equal=self.equal,
            total=None,
            different=None,
            nans=None,
            inside=None,
            largest_absolute=None,
            largest_relative=None,
            largest_ulps=None,
            first=None,
            axis=self.axis,
            wrong_sequences=self.wrong_sequences,
            mistakes=self.mistakes,
            hint=self.hint,
        )
        differences = self.differences
        if differences is not None:
            record["total"] = differences.total
            record["different"] = differences.count
            record["nans"] = differences.nans
            record["inside"] = differences.inside
            record["largest_absolute"] = differences.largest_absolute
            record["largest_relative"] = differences.largest_relative
            record["largest_ulps"] = differences.largest_ulps
            record["first"] = _list_differences(differences)
        return record


def _list_differences(differences: Differences) -> list[objects.DifferenceRecord]:
    """The first elements that differ."""
    indices = differences.indices.tolist()
    a = render_numbers(differences.a)
    b = render_numbers(differences.b)
    return [
        objects.DifferenceRecord(index=index, a=in_a, b=in_b)
        for index, in_a, in_b in zip(indices, a, b, strict=True)
    ]


def comparison_text(
    comparison: Comparison, width: int | None = None, *, in_color: bool = False
) -> str:
    """The whole report, which fits the width of a terminal, if there is one."""

    def fit(lines: Iterable[str]) -> list[str]:
        return [terminal.fit(line, width) for line in lines]

    lines = fit(_describe_tensors(comparison))
    [verdict] = fit([_verdict_text(comparison)])
    if in_color:
        verdict = terminal.paint(verdict, terminal.GREEN if comparison.equal else terminal.RED)
    lines.append(verdict)
    differences = comparison.differences
    if differences is not None:
        lines += fit(_list_causes(comparison))
        if comparison.axis is not None and comparison.shown_sequences:
            lines += write_sequences(comparison.shown_sequences, width or _WIDTH, in_color=in_color)
            lines += fit(_count_more_sequences(comparison, differences))
        else:
            lines += _list_elements(comparison, differences)
        lines += fit(_describe_distances(comparison, differences))
    if comparison.hint:
        lines += fit([f"Hint: {comparison.hint}"])
    text = "\n".join(lines)
    return terminal.paint_labels(text) if in_color else text


def _describe_tensors(comparison: Comparison) -> Iterator[str]:
    """Both tensors, each with what it is called."""
    roles = comparison.roles
    column = max(len(role) for role in roles) + 1
    for role, tensor in zip(roles, (comparison.a, comparison.b), strict=True):
        words = f"{role + ':':<{column}} {tensor.desc}  {printable(tensor.name)}"
        if role == "expected":
            words += f", reversed along axis {comparison.axis}"
        yield words


def _verdict_text(comparison: Comparison) -> str:
    """Whether the tensors are equal, or how many elements differ and where these are."""
    differences = comparison.differences
    if differences is None:
        return f"{_name_unlike_parts(comparison)} differ"
    if comparison.equal:
        return f"equal: {terminal.say_count(differences.total, 'element')}"
    count = f"{differences.count:,} of {differences.total:,} elements differ"
    axis = comparison.axis
    if axis is None or not differences.count:
        return count
    sequences = comparison.b.desc.element_count // comparison.b.sizes[axis]
    in_sequences = f"in {differences.sequence_count:,} of {sequences:,} sequences"
    return f"{count}, {in_sequences}, {_say_parts(differences)}"


def _name_unlike_parts(comparison: Comparison) -> str:
    """Which of the tensors' data types and shapes differ."""
    words = []
    if comparison.a.desc.data_type != comparison.b.desc.data_type:
        words.append("data types")
    if comparison.a.sizes != comparison.b.sizes:
        words.append("shapes")
    return " and ".join(words)


def _say_parts(differences: Differences) -> str:
    """How many of the elements that differ are in the reversed parts of sequences."""
    inside = differences.inside
    after = differences.count - inside
    if not after:
        return "only in the reversed part"
    if not inside:
        return "only after the reversed part"
    return f"{inside:,} in the reversed part, {after:,} after it"


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


def _count_more_sequences(comparison: Comparison, differences: Differences) -> Iterator[str]:
    """How many wrong sequences are not shown, and what to type for them."""
    more = differences.sequence_count - len(comparison.shown_sequences)
    if more > 0:
        words = terminal.say_count(more, "more sequence")
        yield f"{words}: to see them, add --first {differences.sequence_count}"


def _list_elements(comparison: Comparison, differences: Differences) -> Iterator[str]:
    """The first elements that differ, in a table, and how many more there are."""
    first = _list_differences(differences)
    if not first:
        return
    more = differences.count - len(first)
    rows = [("index", *comparison.roles)]
    rows += [(str(element["index"]), element["a"], element["b"]) for element in first]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  " + "  ".join(map(str.rjust, row, widths))
    if more:
        yield f"{more:,} more: to see them, add --first {differences.count}"


def _describe_distances(comparison: Comparison, differences: Differences) -> Iterator[str]:
    """How far the elements are apart."""
    _, role = comparison.roles
    if differences.largest_absolute is not None:
        yield f"largest |A - {role}|: {differences.largest_absolute:.7g}"
    if differences.largest_relative is not None:
        yield f"largest |A - {role}| / |{role}|: {differences.largest_relative:.7g}"
    if differences.rounding_options and differences.largest_ulps:
        yield f"largest difference: {differences.largest_ulps:,} ulp"
    if differences.nans:
        yield f"{differences.nans:,} of the differing elements are NaN in both"
