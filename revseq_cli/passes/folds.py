"""The passes that read a tensor once and keep a few numbers: counts of lengths, and statistics."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.operator import kernel
from revseq_cli.passes.arrangement import Resources, arrange_fold
from revseq_cli.passes.statistics import Statistics
from revseq_cli.passes.tasks import Task, completed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from revseq_cli.formats.contract import Source, Ticket
    from revseq_cli.passes.assembly import Job


@dataclass(frozen=True)
class CountLengths:
    """The step that counts lengths for lines of `size` elements."""

    size: int

    def __call__(self, lengths: Ticket) -> kernel.LengthCounts:
        """The counts of a block of lengths."""
        return kernel.count_lengths(lengths.read(), self.size)


def _summarized(ticket: Ticket) -> Statistics:
    return Statistics.of(ticket.read())


def count_lengths(job: Job, resources: Resources) -> kernel.LengthCounts:
    """The counts of the job's lengths, each as often as the user gave it."""
    step = CountLengths(job.values.sizes[job.axis])
    return sum(_folded(job.given_lengths, step, resources), kernel.LengthCounts())


@dataclass(frozen=True)
class Span:
    """The least and the greatest of some lengths, and how many are above each of some axis sizes."""

    least: int
    greatest: int
    above: dict[int, int]

    def __str__(self) -> str:
        return str(self.least) if self.least == self.greatest else f"{self.least} to {self.greatest}"

    def merged(self, other: Span) -> Span:
        """The span of both."""
        above = {size: count + other.above[size] for size, count in self.above.items()}
        return Span(min(self.least, other.least), max(self.greatest, other.greatest), above)


@dataclass(frozen=True)
class SpanLengths:
    """The step that finds the span of a block of lengths, for lines of these sizes."""

    sizes: tuple[int, ...]

    def __call__(self, lengths: Ticket) -> Span:
        """The span of the block."""
        values = lengths.read()
        above = {size: int(np.count_nonzero(values > size)) for size in self.sizes}
        return Span(int(values.min()), int(values.max()), above)


def span_of_lengths(lengths: Source, sizes: Iterable[int]) -> Span:
    """The span of all lengths, of which there is at least one."""
    spans: Iterator[Span] = _folded(lengths, SpanLengths(tuple(sizes)), Resources())
    return functools.reduce(Span.merged, spans)


def statistics(source: Source, resources: Resources) -> Statistics:
    """The statistics of a whole tensor."""
    return sum(_folded(source, _summarized, resources), Statistics())


def _folded(source: Source, step: Callable[[Ticket], Any], resources: Resources) -> Iterator[Any]:
    """The result of `step` for each block."""
    arrangement = arrange_fold(source, resources)
    with source.at_hand() as ready:
        tasks = (Task(step, (ready.ticket(region),), region, None) for region in arrangement.plan)
        for _, share in completed("read", tasks, arrangement, ready):
            yield share
    source.recheck()
