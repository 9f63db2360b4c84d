"""Passes over data: read a block's regions, take one step, deliver. One loop for every pass."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.formats import registry
from revseq_cli.formats.contract import HeldSink, HeldSource
from revseq_cli.ground.errors import EngineError
from revseq_cli.operator import kernel
from revseq_cli.operator.kernel import mirrored
from revseq_cli.passes.arrangement import BLOCK_BYTES, Arrangement, Resources, arrange, choose, cut_copy, workers_of
from revseq_cli.passes.plan import Plan, make_plan
from revseq_cli.passes.workers import results

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Outlet, Sink, Source, Ticket
    from revseq_cli.formats.regions import Region
    from revseq_cli.passes.jobs import Job


# What to do where a file does not hold what was written to it. The same twice is no accident of the machine.
UNTRUE_HINT = (
    "run it again: if it fails at the same place, write a .npy file instead, and report this one; "
    "if not, test the disk and the memory"
)


@dataclass(frozen=True)
class Task:
    """One block of a pass, on its way to where it is computed: `step` gets the tickets, and reads them."""

    step: Callable[..., Any]
    tickets: tuple[Ticket, ...]
    region: Region
    outlet: Outlet | None

    def __call__(self) -> tuple[Region, Any]:
        """The region, and what is left for the parent: a sink's parcel, or a fold's share."""
        result = self.step(*self.tickets)
        return self.region, result if self.outlet is None else self.outlet.deliver(self.region, result)


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
            backwards, _ = mirrored(part.start, part.stop, length)
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
        return kernel.first_difference(values.read(), self.step(*others))


@dataclass(frozen=True)
class CountLengths:
    """What a block of lengths does to lines of `size` elements."""

    size: int

    def __call__(self, lengths: Ticket) -> kernel.LengthCounts:
        """The counts."""
        return kernel.count_lengths(lengths.read(), self.size)


def reverse(job: Job, sink: Sink, arrangement: Arrangement, done: Callable[[int], None] = lambda _: None) -> None:
    """Run the reversal into the sink, which the caller has entered; `done` hears of the elements of each block."""
    with _at_hand(job, sink, arrangement) as near:
        if not (arrangement.spooled and sink.chunks):
            _deliver(_reversals(near, near.values, arrangement.plan, sink.outlet()), sink, arrangement, done)
            return
        with registry.create_scratch(sink.beside, near.values) as turned:
            _deliver(_reversals(near, near.values, arrangement.plan, turned.outlet()), turned, arrangement, done)
            _move(turned.written(), sink, arrangement)


def reversed_in_memory(job: Job, resources: Resources) -> Source:
    """The result, for what is printed whole."""
    with HeldSink(job.values.desc, job.values.dtype) as sink:
        reverse(job, sink, arrange(job, resources))
    job.recheck()
    return sink.written()


def verify(job: Job, sink: Sink, arrangement: Arrangement, done: Callable[[int], None] = lambda _: None) -> None:
    """Hold what was written, reversed again, against the input; EngineError where they differ."""
    written = sink.written()
    with _at_hand(job, sink, arrangement) as near, _spooled(written, sink, arrangement) as turned:
        tasks = (
            Task(Differ(task.step), (near.values.ticket(task.region), *task.tickets), task.region, None)
            for task in _reversals(near, turned, arrangement.plan, None)
        )
        for region, place in results(tasks, arrangement):
            if place is not None:
                index = [part.start + i for part, i in zip(region, place, strict=True)]
                raise EngineError(
                    f"what was written does not reverse to the input at {index}", "the same bits",
                    UNTRUE_HINT, written.name,
                )  # fmt: skip
            done(elements(region))


def copy(source: Source, sink: Sink, arrangement: Arrangement, done: Callable[[int], None] = lambda _: None) -> None:
    """Every element as it is, into the sink, which the caller has entered; `done` hears as that of `reverse` does."""
    outlet = sink.outlet()
    with source.at_hand(sink.beside) as near:
        tasks = (Task(_read, (near.ticket(region),), region, outlet) for region in arrangement.plan)
        _deliver(tasks, sink, arrangement, done)


def _move(source: Source, sink: Sink, arrangement: Arrangement) -> None:
    """A copy on the way of another pass, within that pass's memory."""
    most = max(1, min(BLOCK_BYTES, arrangement.memory // arrangement.workers // 4) // source.dtype.itemsize)
    copy(source, sink, arrangement._replace(plan=cut_copy(source, sink, most)))


def _read(ticket: Ticket) -> NDArray[Any]:
    return ticket.read()


def _summarized(ticket: Ticket) -> kernel.Statistics:
    return kernel.statistics(ticket.read())


@contextlib.contextmanager
def _at_hand(job: Job, sink: Sink, arrangement: Arrangement) -> Iterator[Job]:
    """The job with its tensors where any region is cheap to read."""
    with (
        job.values.at_hand(sink.beside) as unpacked,
        _spooled(unpacked, sink, arrangement) as values,
        job.lengths.at_hand(sink.beside) as lengths,
        contextlib.ExitStack() as stack,
    ):
        if not lengths.reads_anywhere:  # every block would decode their chunks again, or wait for a lock
            if lengths.desc.total_bytes <= arrangement.memory // 8 or not sink.beside:
                lengths = HeldSource(lengths.name, lengths.read(), lengths.storage)
            else:
                spool = stack.enter_context(registry.create_scratch(sink.beside, lengths))
                _move(lengths, spool, arrangement)
                lengths = spool.written()
        yield replace(job, values=values, lengths=lengths)


@contextlib.contextmanager
def _spooled(source: Source, sink: Sink, arrangement: Arrangement) -> Iterator[Source]:
    """The source, or where chunks lie across too many lines its copy beside the output."""
    if not (arrangement.spooled and source.chunks):
        yield source
        return
    with registry.create_scratch(sink.beside, source) as spool:
        _move(source, spool, arrangement)
        yield spool.written()


def _deliver(tasks: Iterable[Task], sink: Sink, arrangement: Arrangement, done: Callable[[int], None]) -> None:
    for region, parcel in results(tasks, arrangement):
        if parcel is not None:
            sink.receive(parcel)
        done(elements(region))


def count_lengths(job: Job, resources: Resources) -> kernel.LengthCounts:
    """What the lengths of the whole job do."""
    return sum(
        _folded(job.lengths.each_once, CountLengths(job.values.sizes[job.axis]), resources), kernel.LengthCounts()
    )


def statistics(source: Source, resources: Resources) -> kernel.Statistics:
    """The statistics of a whole tensor, in one pass."""
    return sum(_folded(source, _summarized, resources), kernel.Statistics())


def _folded(source: Source, step: Callable[[Ticket], Any], resources: Resources) -> Iterator[Any]:
    """Every block's share of a fold."""
    plan = make_plan(source.sizes, None, most_elements=BLOCK_BYTES // 8, grain=source.grain, order=source.order)
    engine = choose(source, None, resources.workers)
    arrangement = Arrangement(plan, engine, workers_of(engine, resources.workers), 0)
    with source.at_hand() as near:
        tasks = (Task(step, (near.ticket(region),), region, None) for region in plan)
        for _, share in results(tasks, arrangement):
            yield share
    source.recheck()


def _reversals(job: Job, source: Source, plan: Plan, outlet: Outlet | None) -> Iterator[Task]:
    """The tasks that reverse `source` by the job's lengths, block by block."""
    for region in plan:
        lengths = job.lengths.ticket((*region[: job.axis], slice(0, 1), *region[job.axis + 1 :]))
        if plan.cuts_lines:
            yield Task(ReverseCut(source, job.axis, region), (lengths,), region, outlet)
        else:
            yield Task(Reverse(job.axis), (source.ticket(region), lengths), region, outlet)


def elements(region: Region) -> int:
    """How many a region has."""
    return prod(part.stop - part.start for part in region)
