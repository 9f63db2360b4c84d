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

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from revseq_cli.formats.contract import Source
    from revseq_cli.formats.references import Reference
    from revseq_cli.operator.spec import FeatureLevel
    from revseq_cli.passes.assembly import Job
    from revseq_cli.passes.differences import Differences


class Example(Protocol):
    """A job with the output that somebody wrote down for it: on a page, or in a folder of tensors."""

    @property
    def line(self) -> int | None:
        """The line on which it begins, if it is in a text."""

    @property
    def data_set(self) -> str | None:
        """The name of its folder, if it has one."""

    def job(self) -> Job:
        """The job, opened; FormatError if it is not whole."""

    def output(self, work: Job) -> Source:
        """The output that is written down."""

    def line_of(self, first: int) -> int | None:
        """The line of the element of that number in the output, if it is in a text."""


class Examples(Protocol):
    """The examples of this operator in one place, of which `skipped` is the number of other operators' ones."""

    @property
    def name(self) -> str:
        """The name of the place, for messages."""

    @property
    def examples(self) -> Sequence[Example]:
        """The examples, at least one."""

    @property
    def skipped(self) -> int:
        """How many examples of other operators are there."""


# Each opens the examples behind a reference, or gives None where they are of another kind; the last one takes the rest.
_KINDS: tuple[Callable[[Reference], Examples | None], ...] = (datasets.open_folder, pages.open_page)


@dataclass(frozen=True)
class Finding:
    """The result for one example: the `number`-th of its page or folder, from 1, at that `line` or in that `data_set`.

    `problems` has a message for each reason why the operator cannot be applied, and `hints` has feature levels that
    lift some. `differences` compares the written OutputTensor (a) with the operator's (b), and is None where they are
    equal; `wrong_line` is the line of the first wrong element. `clamped` counts the lengths above the axis size.
    """

    number: int
    line: int | None
    data_set: str | None
    problems: tuple[str, ...] = ()
    hints: tuple[Words, ...] = ()
    differences: Differences | None = None
    wrong_line: int | None = None
    clamped: int = 0

    @property
    def right(self) -> bool:
        """Whether the operator can be applied, and gives every element as it is written."""
        return not self.problems and self.differences is None


class Report(NamedTuple):
    """The findings for the examples of a page or a folder, and how many examples of other operators were skipped."""

    findings: list[Finding]
    skipped: int


def examples_of(reference: Reference) -> Examples:
    """The examples behind a reference; RevseqError if there is none, or if it cannot be read."""
    return next(found for open_ in _KINDS if (found := open_(reference)))


def verify(found: Examples, level: FeatureLevel, number: int | None = None) -> Report:
    """Recompute every example, or only example `number`, counted from 1; FormatError if there is none of that number.

    An example that is wrong is a finding, not an error.
    """
    count = len(found.examples)
    if number is not None and not 1 <= number <= count:
        raise FormatError(f"no example {number}", f"1 to {count}", where=found.name)
    chosen = [(i, example) for i, example in enumerate(found.examples, 1) if number in (None, i)]
    findings = []
    with stages.begun("verify", len(chosen), "examples") as advance:
        for i, example in chosen:
            findings.append(_examine(i, example, level))
            advance(1)
    return Report(findings, found.skipped)


def _examine(number: int, example: Example, level: FeatureLevel) -> Finding:
    finding = Finding(number, example.line, example.data_set)
    try:
        work = example.job()
        output = example.output(work)
        if broken := spec.violations(work.values.desc, work.lengths.desc, work.axis, level, output.desc):
            parts = spec.SpecError(broken, {}).parts()
            hints = dict.fromkeys(
                each.hint for each in parts if isinstance(each.hint, Words) and _is_our_own(each.hint)
            )
            problems = (f"{each.where} {_message(each)}".strip() for each in parts)
            return replace(finding, problems=tuple(problems), hints=tuple(hints))
        with oracle.opened(output, work, Resources()) as pair:
            wrong = pair.compare(None, 1)
        clamped = folds.count_lengths(work, Resources()).clamped
    except TensorIOError:  # it says nothing about the example
        raise
    except RevseqError as e:
        return replace(finding, problems=(_message(e),))
    work.recheck()
    output.recheck()
    finding = replace(finding, clamped=clamped)
    if not wrong.count:
        return finding
    first = int(np.ravel_multi_index(tuple(wrong.indices[0]), output.sizes))
    return replace(finding, differences=wrong, wrong_line=example.line_of(first))


def _is_our_own(hint: Words) -> bool:
    """Whether a hint names no setting but the feature level; others are of other commands."""
    return {name for name, _ in hint.settings} == {"feature_level"}


def _message(error: RevseqError) -> str:
    """What an error says, without the name of the page and without hints, which are about other commands."""
    text = f"{error.found}; wanted: {error.wanted}" if error.wanted else error.found
    return f"{text}\n{error.context}" if error.context else text
