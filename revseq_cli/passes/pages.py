"""Docs pages as tests: recompute every example of the operator on a page, and compare bit for bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from revseq_cli.formats.documents import TextTypes
from revseq_cli.formats.text import notation_source
from revseq_cli.ground.errors import FormatError, RevseqError
from revseq_cli.operator import kernel, spec
from revseq_cli.operator.spec import OUTPUT
from revseq_cli.passes import jobs
from revseq_cli.passes.differences import differences
from revseq_cli.texts.examples import find_examples

if TYPE_CHECKING:
    from revseq_cli.formats.documents import Text
    from revseq_cli.operator.spec import FeatureLevel
    from revseq_cli.passes.differences import Differences
    from revseq_cli.texts.examples import Example


@dataclass(frozen=True)
class Finding:
    """The result for one example: the `number`-th of the page, which begins on `line`; both count from 1.

    `problems` has a message for each reason why the operator cannot be applied. `differences` compares the written
    OutputTensor (a) with the operator's (b), and is None where they are equal; `wrong_line` is the line of the first
    wrong element. `clamped` counts the lengths above the axis size.
    """

    number: int
    line: int
    problems: tuple[str, ...] = ()
    differences: Differences | None = None
    wrong_line: int | None = None
    clamped: int = 0

    @property
    def right(self) -> bool:
        """Whether the operator can be applied, and gives every element as it is written."""
        return not self.problems and self.differences is None


class PageReport(NamedTuple):
    """The findings for a page's examples of this operator, and how many other examples were skipped."""

    findings: list[Finding]
    skipped: int


def verify(text: Text, level: FeatureLevel, number: int | None = None) -> PageReport:
    """Recompute every example of this operator in the text, or only example `number`, counted from 1.

    An example that is wrong is a finding, not an error. FormatError for a text that has no example of this operator, or
    none of that number.
    """
    examples = find_examples(text.text, text.items)
    ours = [example for example in examples if example.is_ours]
    skipped = len(examples) - len(ours)
    if not ours:
        others = f"; {skipped} of other operators" if skipped else ""
        raise FormatError(
            f"holds no example of this operator{others}", "InputTensor, SequenceTensor, Axis and OutputTensor",
            where=text.name,
        )  # fmt: skip
    if number is not None and not 1 <= number <= len(ours):
        raise FormatError(f"no example {number}", f"1 to {len(ours)}", where=text.name)
    chosen = [(i, example) for i, example in enumerate(ours, 1) if number in (None, i)]
    return PageReport([_examine(text, i, example, level) for i, example in chosen], skipped)


def _examine(text: Text, number: int, example: Example, level: FeatureLevel) -> Finding:
    try:
        if example.problem:
            raise example.problem
        written = example.tensor(OUTPUT)
        work = jobs.load_example(text, example)
        output = notation_source(text, written, TextTypes(None, work.values.desc.data_type))
        broken = spec.violations(work.values.desc, work.lengths.desc, work.axis, level, output.desc)
        if broken:
            parts = spec.SpecError(broken, {}).parts()
            return Finding(number, example.line, tuple(f"{each.where} {_message(each)}" for each in parts))
        lengths = work.lengths.read()
        wrong = differences(output.read(), kernel.reverse(work.values.read(), lengths, work.axis))
        clamped = kernel.count_lengths(lengths, work.values.sizes[work.axis]).clamped
        if not wrong.count:
            return Finding(number, example.line, clamped=clamped)
        first = int(np.ravel_multi_index(tuple(wrong.indices[0]), output.sizes))
        return Finding(number, example.line, (), wrong, written.line_of(first), clamped)
    except RevseqError as e:
        return Finding(number, example.line, (_message(e),))


def _message(error: RevseqError) -> str:
    """What an error says, without the page's name and without hints, which are about other commands."""
    text = f"{error.found}; wanted: {error.wanted}" if error.wanted else error.found
    return f"{text}\n{error.context}" if error.context else text
