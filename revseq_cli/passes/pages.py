"""Docs pages as tests: every example of the operator on a page, recomputed and compared bit for bit."""

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
    """What is found of one example; `number` is its place among the page's examples, `line` where it begins.

    Both count from 1. `problems` says in words why the operator cannot be applied. `differences` is between the
    OutputTensor as it is written and the operator's, or None where there is none; `wrong_line` is the line of the first
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
        """Whether every constraint holds and every element is what the operator gives."""
        return not self.problems and self.differences is None


class PageReport(NamedTuple):
    """What a page holds: findings for the examples of this operator, and how many others were skipped."""

    findings: list[Finding]
    skipped: int


def verify(text: Text, level: FeatureLevel, number: int | None = None) -> PageReport:
    """Recompute every example of the text, or the one of that number; FormatError if it has none of this operator."""
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
            problems = tuple(
                f"{c.tensor} {c.property} is {c.found}; wanted: {c.wanted} ({c.rule})".strip() for c in broken
            )
            return Finding(number, example.line, problems)
        values, lengths, found = work.values.read(), work.lengths.read(), output.read()
        wrong = differences(found, kernel.reverse(values, lengths, work.axis))
        clamped = kernel.count_lengths(lengths, work.values.sizes[work.axis]).clamped
        if not wrong.count:
            return Finding(number, example.line, clamped=clamped)
        first = int(np.ravel_multi_index(tuple(wrong.indices[0]), found.shape))
        return Finding(number, example.line, (), wrong, written.line_of(first), clamped)
    except RevseqError as e:
        return Finding(number, example.line, (_told(e),))


def _told(error: RevseqError) -> str:
    """An error's words, without the page's name, which stands above."""
    text = f"{error.found}; wanted: {error.wanted}" if error.wanted else error.found
    return f"{text}\n{error.context}" if error.context else text
