"""The passes that read a tensor once and keep a few numbers: counts of lengths, and statistics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from revseq_cli.operator import kernel
from revseq_cli.passes.arrangement import Resources, arrange_fold
from revseq_cli.passes.engines.crew import results
from revseq_cli.passes.statistics import Statistics
from revseq_cli.passes.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from revseq_cli.formats.contract import Source, Ticket
    from revseq_cli.passes.jobs import Job


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


def statistics(source: Source, resources: Resources) -> Statistics:
    """The statistics of a whole tensor."""
    return sum(_folded(source, _summarized, resources), Statistics())


def _folded(source: Source, step: Callable[[Ticket], Any], resources: Resources) -> Iterator[Any]:
    """The result of `step` for each block."""
    arrangement = arrange_fold(source, resources)
    with source.at_hand() as ready:
        tasks = (Task(step, (ready.ticket(region),), region, None) for region in arrangement.plan)
        for _, share in results(tasks, arrangement):
            yield share
    source.recheck()
