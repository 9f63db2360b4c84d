"""Written examples as tests of the operator: each is computed again, and compared bit for bit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from revseq_cli.ground import stages
from revseq_cli.ground.errors import FormatError, RevseqError, TensorIOError, Words
from revseq_cli.operator import spec
from revseq_cli.passes import datasets, folds, oracle, pages
from revseq_cli.passes.arrangement import Resources
from revseq_cli.texts.places import PlacedError
from revseq_cli.texts.support_checks import Checked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from revseq_cli.formats.contract import Source
    from revseq_cli.formats.references import Reference
    from revseq_cli.operator.spec import FeatureLevel
    from revseq_cli.passes.assembly import Job
    from revseq_cli.passes.differences import Differences
    from revseq_cli.passes.pages import Spot
    from revseq_cli.texts.support_checks import Remark


class Example(Protocol):
    """A job with the output that somebody wrote down for it: on a page, or in a folder of tensors."""

    @property
    def data_set(self) -> str | None:
        """The name of its folder, if it has one."""

    def job(self) -> Job:
        """The job, opened; FormatError if it is not whole."""

    def output(self, work: Job) -> Source:
        """The output that is written down."""

    def spot(self, about: str | RevseqError = "") -> Spot | None:
        """Where in a text that part of it begins, or what an error is about; else where it begins."""

    def spot_of_element(self, first: int) -> Spot | None:
        """Where in a text the output has the element of that number."""


class Examples(Protocol):
    """The examples of this operator in one place, of which `skipped` is the number of other operators' ones.

    `support` counts what is said there of feature levels, and `remarks` has what is wrong with that, and where.
    """

    @property
    def name(self) -> str:
        """The name of the place, for messages."""

    @property
    def examples(self) -> Sequence[Example]:
        """The examples."""

    @property
    def skipped(self) -> int:
        """How many examples of other operators are there."""

    @property
    def support(self) -> Checked:
        """What is said of feature levels."""

    @property
    def remarks(self) -> Sequence[tuple[Spot, Remark]]:
        """What is wrong with that."""


# Each opens the examples behind a reference, or gives None where they are of another kind; the last one takes the rest.
_KINDS: tuple[Callable[[Reference], Examples | None], ...] = (datasets.open_folder, pages.open_page)


class Problem(NamedTuple):
    """A reason why the operator cannot be applied, and where it stands in a text."""

    message: str
    spot: Spot | None

    def __str__(self) -> str:
        """The message behind its line and column, and the line with a caret."""
        if not self.spot:
            return self.message
        line, column = self.spot.place
        return f"line {line}, column {column}: {self.message}\n{self.spot.shown}"


@dataclass(frozen=True)
class Finding:
    """The result for one example: the `number`-th of its page or folder, from 1; its `spot`, or its `data_set`.

    `problems` has each reason why the operator cannot be applied, and `hints` has feature levels that lift some.
    `differences` compares the written OutputTensor (a) with the operator's (b), and is None where they are equal;
    `wrong` is the spot of the first wrong element. `clamped` counts the lengths above the axis size, and `fixed` the
    elements that were wrong before the page was fixed.
    """

    number: int
    spot: Spot | None
    data_set: str | None
    problems: tuple[Problem, ...] = ()
    hints: tuple[Words, ...] = ()
    differences: Differences | None = None
    wrong: Spot | None = None
    clamped: int = 0
    fixed: int = 0

    @property
    def right(self) -> bool:
        """Whether the operator can be applied, and gives every element as it is written."""
        return not self.problems and self.differences is None

    @property
    def line(self) -> int | None:
        """The line on which it begins, if it is in a text."""
        return self.spot.place.line if self.spot else None


class Report(NamedTuple):
    """The findings for the examples of a page or a folder, and how many examples of other operators were skipped.

    `support` counts what a page says of feature levels, and `remarks` has what is wrong with that, and where. `unfixed`
    says why a page was not fixed that was to be, and `diff` has the lines of what would be.
    """

    findings: list[Finding]
    skipped: int
    support: Checked
    remarks: Sequence[tuple[Spot, Remark]]
    unfixed: str = ""
    diff: Sequence[str] = ()

    @property
    def right(self) -> bool:
        """Whether nothing is wrong; notes are only worth a look."""
        return all(finding.right for finding in self.findings) and all(remark.is_note for _, remark in self.remarks)


def examples_of(reference: Reference) -> Examples:
    """The examples behind a reference; RevseqError if there is none, or if it cannot be read."""
    return next(found for open_ in _KINDS if (found := open_(reference)))


def verify(found: Examples, level: FeatureLevel, number: int | None = None) -> Report:
    """Recompute every example, or only example `number`, counted from 1; FormatError if there is none of that number.

    An example that is wrong is a finding, not an error. With a number, nothing else of the page is checked.
    """
    count = len(found.examples)
    if number is not None and not 1 <= number <= count:
        wanted = f"1 to {count}" if count else "a page with examples"
        raise FormatError(f"no example {number}", wanted, where=found.name)
    chosen = [(i, example) for i, example in enumerate(found.examples, 1) if number in (None, i)]
    findings = []
    with stages.begun("verify", len(chosen), "examples") as advance:
        for i, example in chosen:
            findings.append(_examine(i, example, level))
            advance(1)
    if number is not None:
        return Report(findings, found.skipped, Checked(0, 0, ()), ())
    return Report(findings, found.skipped, found.support, found.remarks)


def _examine(number: int, example: Example, level: FeatureLevel) -> Finding:
    finding = Finding(number, example.spot(), example.data_set)
    try:
        work = example.job()
        output = example.output(work)
        if broken := spec.violations(work.values.desc, work.lengths.desc, work.axis, level, output.desc):
            parts = spec.SpecError(broken, {}).parts()
            hints = dict.fromkeys(
                each.hint for each in parts if isinstance(each.hint, Words) and _is_our_own(each.hint)
            )
            about = ("Axis" if each.property == "Axis" else each.tensor for each in broken)
            messages = (f"{each.where} {_message(each)}".strip() for each in parts)
            problems = map(Problem, messages, map(example.spot, about))
            return replace(finding, problems=tuple(problems), hints=tuple(hints))
        with oracle.opened(output, work, Resources()) as pair:
            wrong = pair.compare(None, 1)
        clamped = folds.count_lengths(work, Resources()).clamped
    except TensorIOError:  # it says nothing about the example
        raise
    except RevseqError as e:
        return replace(finding, problems=(Problem(_message(e), example.spot(e)),))
    work.recheck()
    output.recheck()
    finding = replace(finding, clamped=clamped)
    if not wrong.count:
        return finding
    first = int(np.ravel_multi_index(tuple(wrong.indices[0]), output.sizes))
    return replace(finding, differences=wrong, wrong=example.spot_of_element(first))


def _is_our_own(hint: Words) -> bool:
    """Whether a hint names no setting but the feature level; others are of other commands."""
    return {name for name, _ in hint.settings} == {"feature_level"}


def _message(error: RevseqError) -> str:
    """What an error says, without the name of the page and without hints, which are about other commands."""
    found = error.problem if isinstance(error, PlacedError) else error.found
    return f"{found}; wanted: {error.wanted}" if error.wanted else found
