"""The pass that reverses: input and lengths to output, and back to verify it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.formats.held import HeldSink, HeldSource
from revseq_cli.formats.registry import create_scratch
from revseq_cli.ground.errors import EngineError
from revseq_cli.operator import kernel
from revseq_cli.passes.arrangement import Arrangement, Resources, arrange
from revseq_cli.passes.copying import move, spooled
from revseq_cli.passes.differences import first_difference
from revseq_cli.passes.engines.crew import results
from revseq_cli.passes.tasks import UNTRUE_HINT, Task, deliver_all, elements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Outlet, Sink, Source, Ticket
    from revseq_cli.formats.regions import Region
    from revseq_cli.passes.jobs import Job
    from revseq_cli.passes.plan import Plan


@dataclass(frozen=True)
class Reverse:
    """The reversal of a block of whole lines."""

    axis: int

    def __call__(self, values: Ticket, lengths: Ticket) -> NDArray[Any]:
        """The reversed block."""
        return kernel.reverse(values.read(), lengths.read(), self.axis)


@dataclass(frozen=True)
class ReverseCut:
    """The reversal of a block that holds a part of each of its lines, whose other parts are read where needed."""

    source: Source
    axis: int
    region: Region

    def __call__(self, lengths: Ticket) -> NDArray[Any]:
        """The block as it is, with what is reversed laid over it: one read for each different length."""
        part = self.region[self.axis]
        clamped = kernel.clamp(lengths.read(), self.source.sizes[self.axis])
        out = self._read(self.region).copy()  # what a source in memory gives is its own
        for length in np.unique(clamped[clamped > part.start]).tolist():
            backwards, _ = kernel.mirrored(part.start, part.stop, length)
            lines = clamped == length
            box = [slice(int(i.min()), int(i.max()) + 1) for i in lines.nonzero()]
            box[self.axis] = slice(0, 1)
            of_file = [slice(r.start + b.start, r.start + b.stop) for r, b in zip(self.region, box, strict=True)]
            of_file[self.axis] = backwards
            found = np.flip(self._read(tuple(of_file)), self.axis)
            chosen = lines[tuple(box)]
            box[self.axis] = slice(0, found.shape[self.axis])
            np.copyto(out[tuple(box)], found, where=chosen)
        return out

    def _read(self, region: Region) -> NDArray[Any]:
        return self.source.ticket(region).read()


@dataclass(frozen=True)
class Differ:
    """Holds a block against what a step makes of others; the index of the first different element, or None."""

    step: Callable[..., NDArray[Any]]

    def __call__(self, values: Ticket, *others: Ticket) -> tuple[int, ...] | None:
        """The first difference in bits, counted from the block's own start."""
        return first_difference(values.read(), self.step(*others))


def reverse(job: Job, sink: Sink, arrangement: Arrangement, done: Callable[[int], None] = lambda _: None) -> None:
    """Run the reversal into the sink, which the caller has entered; `done` hears of the elements of each block."""
    with _at_hand(job, sink, arrangement) as ready:
        if not (arrangement.spooled and sink.chunks):
            deliver_all(_reversals(ready, ready.values, arrangement.plan, sink.outlet()), sink, arrangement, done)
            return
        with create_scratch(sink.beside, ready.values) as turned:
            deliver_all(_reversals(ready, ready.values, arrangement.plan, turned.outlet()), turned, arrangement, done)
            move(turned.written(), sink, arrangement)


def reversed_in_memory(job: Job, resources: Resources) -> Source:
    """The result, for what is printed whole."""
    with HeldSink(job.values) as sink:
        reverse(job, sink, arrange(job, resources))
    job.recheck()
    return sink.written()


def verify(job: Job, sink: Sink, arrangement: Arrangement, done: Callable[[int], None] = lambda _: None) -> None:
    """Hold what was written, reversed again, against the input; EngineError where they differ."""
    written = sink.written()
    with _at_hand(job, sink, arrangement) as ready, spooled(written, sink, arrangement) as turned:
        tasks = (
            Task(Differ(task.step), (ready.values.ticket(task.region), *task.tickets), task.region, None)
            for task in _reversals(ready, turned, arrangement.plan, None)
        )
        for region, place in results(tasks, arrangement):
            if place is not None:
                index = [part.start + i for part, i in zip(region, place, strict=True)]
                raise EngineError(
                    f"what was written does not reverse to the input at {index}", "the same bits",
                    UNTRUE_HINT, written.name,
                )  # fmt: skip
            done(elements(region))


@contextlib.contextmanager
def _at_hand(job: Job, sink: Sink, arrangement: Arrangement) -> Iterator[Job]:
    """The job with its tensors where any region is cheap to read."""
    with (
        job.values.at_hand(sink.beside) as whole,
        spooled(whole, sink, arrangement) as values,
        job.lengths.at_hand(sink.beside) as lengths,
        contextlib.ExitStack() as stack,
    ):
        if not lengths.reads_anywhere:  # every block would decode their chunks again, or wait for a lock
            if lengths.desc.total_bytes <= arrangement.need // 8 or not sink.beside:
                lengths = HeldSource(lengths.name, lengths.read(), lengths.storage)
            else:
                spool = stack.enter_context(create_scratch(sink.beside, lengths))
                move(lengths, spool, arrangement)
                lengths = spool.written()
        yield replace(job, values=values, lengths=lengths)


def _reversals(job: Job, source: Source, plan: Plan, outlet: Outlet | None) -> Iterator[Task]:
    """The tasks that reverse `source` by the job's lengths, block by block."""
    for region in plan:
        lengths = job.lengths.ticket((*region[: job.axis], slice(0, 1), *region[job.axis + 1 :]))
        if plan.cuts_lines:
            yield Task(ReverseCut(source, job.axis, region), (lengths,), region, outlet)
        else:
            yield Task(Reverse(job.axis), (source.ticket(region), lengths), region, outlet)
