"""Passes over data: read a block's regions, take one step, deliver. One loop for every pass and every executor."""

from __future__ import annotations

import contextlib
import itertools
import os
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from revseq_cli import formats, kernel, memory, stopping
from revseq_cli.arrangement import BLOCK_BYTES, Arrangement, Resources, arrange, choose, cut_copy, workers_of
from revseq_cli.errors import EngineError
from revseq_cli.formats.base import HeldSink, HeldSource
from revseq_cli.plan import Plan, Region, make_plan, mirrored

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from concurrent.futures import Executor, Future
    from contextlib import AbstractContextManager
    from multiprocessing.process import BaseProcess

    from numpy.typing import NDArray

    from revseq_cli.cluster import Cluster
    from revseq_cli.formats.base import Outlet, Sink, Source, Ticket
    from revseq_cli.job import Job

_PATIENCE = 0.1  # seconds after which a signal is noticed, however long a block takes


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
        with formats.create_scratch(sink.beside, near.values) as turned:
            _deliver(_reversals(near, near.values, arrangement.plan, turned.outlet()), turned, arrangement, done)
            _move(turned.written(), sink, arrangement)


def reversed_in_memory(job: Job, resources: Resources, tell: Callable[[str], None] = lambda _: None) -> Source:
    """The result, for what is printed whole; `tell` as for `staffed`."""
    with HeldSink(job.values.desc, job.values.dtype) as sink, staffed(arrange(job, resources), tell) as arrangement:
        reverse(job, sink, arrangement)
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
        for region, place in run(tasks, arrangement):
            if place is not None:
                index = [part.start + i for part, i in zip(region, place, strict=True)]
                raise EngineError(
                    f"what was written does not reverse to the input at {index}", "the same bits",
                    "run it again; the disk or the memory may be failing", written.name,
                )  # fmt: skip
            done(elements(region))


def copy(source: Source, sink: Sink, arrangement: Arrangement, done: Callable[[int], None] = lambda _: None) -> None:
    """Every element as it is, into the sink, which the caller has entered; `done` hears as that of `reverse` does."""
    outlet = sink.outlet()
    tasks = (Task(_read, (source.ticket(region),), region, outlet) for region in arrangement.plan)
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
    with _spooled(job.values, sink, arrangement) as values, contextlib.ExitStack() as stack:
        lengths = job.lengths
        if not lengths.reads_in_parallel:  # every block would decode their chunks again, under one lock
            if lengths.desc.total_bytes <= arrangement.memory // 8 or not sink.beside:
                lengths = HeldSource(lengths.name, lengths.read(), lengths.storage)
            else:
                spool = stack.enter_context(formats.create_scratch(sink.beside, lengths))
                _move(lengths, spool, arrangement)
                lengths = spool.written()
        yield replace(job, values=values, lengths=lengths)


@contextlib.contextmanager
def _spooled(source: Source, sink: Sink, arrangement: Arrangement) -> Iterator[Source]:
    """The source, or where chunks lie across too many lines its copy beside the output."""
    if not (arrangement.spooled and source.chunks):
        yield source
        return
    with formats.create_scratch(sink.beside, source) as spool:
        _move(source, spool, arrangement)
        yield spool.written()


def _deliver(tasks: Iterable[Task], sink: Sink, arrangement: Arrangement, done: Callable[[int], None]) -> None:
    for region, parcel in run(tasks, arrangement):
        if parcel is not None:
            sink.receive(parcel)
        done(elements(region))


def count_lengths(job: Job, resources: Resources) -> kernel.LengthCounts:
    """What the lengths of the whole job do."""
    return sum(_folded(job.lengths, CountLengths(job.values.sizes[job.axis]), resources), kernel.LengthCounts())


def statistics(source: Source, resources: Resources) -> kernel.Statistics:
    """The statistics of a whole tensor, in one pass."""
    return sum(_folded(source, _summarized, resources), kernel.Statistics())


def _folded(source: Source, step: Callable[[Ticket], Any], resources: Resources) -> Iterator[Any]:
    """Every block's share of a fold."""
    plan = make_plan(source.sizes, None, most_elements=BLOCK_BYTES // 8, grain=source.grain, order=source.order)
    engine = choose(source, None, resources.workers)
    tasks = (Task(step, (source.ticket(region),), region, None) for region in plan)
    arrangement = Arrangement(plan, engine, workers_of(engine, resources.workers), 0)
    return (share for _, share in run(tasks, arrangement))


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


def run(tasks: Iterable[Task], arrangement: Arrangement) -> Iterator[tuple[Region, Any]]:
    """Region and result of every task, in the order in which they end; a signal is looked at between two of them."""
    memory.keep_freed()
    with stopping.deferred(), contextlib.ExitStack() as stack:
        if arrangement.engine == "serial":
            results: Iterator[tuple[Region, Any]] = (task() for task in tasks)
        else:
            crew = stack.enter_context(_crew(arrangement))
            results = stack.enter_context(contextlib.closing(_submitted(tasks, crew)))
        for result in results:
            stopping.check()
            yield result


@contextlib.contextmanager
def staffed(arrangement: Arrangement, tell: Callable[[str], None] = lambda _: None) -> Iterator[Arrangement]:
    """The same with workers that outlast a pass, where they are dear to find; `tell` hears where to watch them."""
    if arrangement.engine != "dask" or arrangement.cluster:
        yield arrangement
        return
    from revseq_cli import cluster  # dask takes a second to load

    with cluster.connected(arrangement.scheduler, arrangement.workers) as found:
        tell(found.description)
        yield arrangement._replace(cluster=found)


class _Crew(NamedTuple):
    """The workers of a pass, how many tasks may be under way, and what to hold while tasks are handed out."""

    pool: Executor
    window: Callable[[], int]
    shield: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext


@contextlib.contextmanager
def _crew(arrangement: Arrangement) -> Iterator[_Crew]:
    """The workers; they are gone when the block ends, however it ends."""
    from concurrent import futures

    if arrangement.engine == "dask":
        with staffed(arrangement) as staff:
            distant = cast("Cluster", staff.cluster).executor()
            yield _Crew(distant, distant.window)
        return
    if arrangement.engine == "threads":
        pool: Executor = futures.ThreadPoolExecutor(arrangement.workers)
    else:
        import multiprocessing

        # Not fork: a worker must inherit neither an open HDF5 file nor a lock that a thread holds. Not a server that
        # forks either: it starts no faster, and leaves its folder in TMPDIR when we end by a signal.
        context = multiprocessing.get_context("spawn")
        with stopping.shielded():  # it starts Python's tracker of semaphores, which would die of a SIGHUP
            pool = futures.ProcessPoolExecutor(arrangement.workers, context, _begin_worker)
    try:
        # A process that is half started could not be joined.
        yield _Crew(pool, lambda: 2 * arrangement.workers, stopping.shielded)
    except futures.BrokenExecutor:
        raise EngineError(
            "a worker process died", "workers that live; was one killed, or out of memory?",
            "try a smaller --memory, or --engine serial",
        ) from None  # fmt: skip
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _submitted(tasks: Iterable[Task], crew: _Crew) -> Generator[tuple[Region, Any], None, None]:
    """Hand out the tasks with at most the crew's window of them under way."""
    from concurrent.futures import FIRST_COMPLETED, wait

    tasks = iter(tasks)
    pending: set[Future[tuple[Region, Any]]] = set()
    try:
        while True:
            more = max(0, crew.window() - len(pending))
            with crew.shield():
                pending |= {crew.pool.submit(task) for task in itertools.islice(tasks, more)}
            if not pending:
                return
            ended, pending = wait(pending, _PATIENCE, FIRST_COMPLETED)
            stopping.check()
            for future in ended:
                yield future.result()
    finally:
        for future in pending:
            future.cancel()


def _begin_worker() -> None:
    """Leave signals to the parent, and end when it does."""
    import multiprocessing
    import threading

    stopping.leave_to_parent()
    memory.keep_freed()
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: BaseProcess) -> None:
    """A parent that was killed can send no word; without this its workers would wait for tasks for ever."""
    parent.join()
    os._exit(1)
