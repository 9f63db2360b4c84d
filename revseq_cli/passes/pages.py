"""Docs pages as tests: every example of the operator on a page, recomputed and compared bit for bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from revseq_cli.formats.text import notation_source
from revseq_cli.formats.textfiles import TextTypes
from revseq_cli.ground.errors import FormatError, RevseqError
from revseq_cli.operator import kernel, spec
from revseq_cli.operator.spec import OUTPUT
from revseq_cli.passes import jobs
from revseq_cli.texts import literals
from revseq_cli.texts.examples import find_examples

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from revseq_cli.formats.textfiles import Text
    from revseq_cli.operator.spec import FeatureLevel
    from revseq_cli.passes.jobs import Job
    from revseq_cli.texts.examples import Example
    from revseq_cli.texts.notation import TensorText


@dataclass(frozen=True)
class Difference:
    """The first element that is not what the operator gives, and how many there are."""

    index: list[int]
    line: int
    found: str
    expected: str
    count: int
    total: int


@dataclass(frozen=True)
class Finding:
    """One example: right, or what is wrong with it. `number` and `line` count from 1; `clamped` counts lengths."""

    number: int
    line: int
    problems: tuple[str, ...] = ()
    difference: Difference | None = None
    clamped: int = 0

    @property
    def right(self) -> bool:
        """Whether every constraint holds and every element is what the operator gives."""
        return not self.problems and self.difference is None


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
        difference = _difference(work, written, output.read())
        clamped = kernel.count_lengths(work.lengths.read(), work.values.sizes[work.axis]).clamped
        return Finding(number, example.line, (), difference, clamped)
    except RevseqError as e:
        return Finding(number, example.line, (_told(e),))


def _told(error: RevseqError) -> str:
    """An error's words, without the page's name, which stands above."""
    text = f"{error.found}; wanted: {error.wanted}" if error.wanted else error.found
    return f"{text}\n{error.context}" if error.context else text


def _difference(work: Job, written: TensorText, found: NDArray[Any]) -> Difference | None:
    expected = kernel.reverse(work.values.read(), work.lengths.read(), work.axis)
    bits = np.dtype(f"u{expected.dtype.itemsize}")
    different = np.flatnonzero(expected.view(bits).ravel() != np.ascontiguousarray(found).view(bits).ravel())
    if not different.size:
        return None
    first = int(different[0])
    index = [int(i) for i in np.unravel_index(first, found.shape)]
    is_, should_be = (literals.render(array.ravel()[first : first + 1])[0] for array in (found, expected))
    return Difference(index, written.line_of(first), is_, should_be, int(different.size), found.size)
