"""Passes over data: read a block's regions, take one step, deliver. One loop for every pass and every executor."""

from __future__ import annotations

import contextlib
import itertools
import os
from dataclasses import dataclass, replace
from math import lcm, prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli import formats, kernel, memory, stopping
from revseq_cli.errors import EngineError
from revseq_cli.formats.base import HeldSink, HeldSource
from revseq_cli.formats.raw import RawTensor
from revseq_cli.plan import Plan, Region, make_plan, mirrored

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from concurrent.futures import Executor, Future
    from multiprocessing.process import BaseProcess

    from numpy.typing import NDArray

    from revseq_cli.formats.base import Outlet, Sink, Source, Ticket
    from revseq_cli.job import Job

ENGINES = ("auto", "serial", "threads", "processes")
DEFAULT_MEMORY = 1 << 30
# Bytes of a block's input, where the memory allows: enough to hide the cost of opening a file, little enough that a
# block is still in the cache when it is written. The benchmarks of 1, 4 and 16 MiB chose it.
BLOCK_BYTES = 1 << 22
# Below this many bytes, starting threads costs more than they give; and processes, which start slower.
_WORTH_THREADS = 1 << 25
_WORTH_PROCESSES = 1 << 28
_PATIENCE = 0.1  # seconds after which a signal is noticed, however long a block takes


class Resources(NamedTuple):
    """How much of the machine a pass may use: `memory` is the bound in bytes for all workers together."""

    engine: str = "auto"
    jobs: int = 0
    memory: int = DEFAULT_MEMORY

    @property
    def workers(self) -> int:
        """The jobs asked for, or as many as this process may use cores."""
        affinity = getattr(os, "sched_getaffinity", None)
        return self.jobs or (len(affinity(0)) if affinity else os.cpu_count() or 1)


class Arrangement(NamedTuple):
    """A plan, and what carries it out: `memory` is what all workers together will hold at most.

    `spooled` says that the tensor passes through temporary files, since chunks that lie across its lines are too many
    to be held at once.
    """

    plan: Plan
    engine: str
    workers: int
    memory: int
    spooled: bool = False


def arrange(job: Job, resources: Resources, sink: Sink | None = None) -> Arrangement:
    """The plan of a job within the resources; EngineError where its smallest block needs more memory for one worker."""
    engine = resources.engine if resources.engine != "auto" else _choose(job.values, sink, resources.workers)
    workers = _workers(engine, resources.workers)
    found = _fitted(job, engine, workers, resources.memory // workers, sink)
    while found.memory > resources.memory and workers > 1:
        workers //= 2
        found = _fitted(job, engine, workers, resources.memory // workers, sink)
    if found.memory > resources.memory:
        raise EngineError(
            f"--memory is {resources.memory} bytes, and a block takes {found.memory}",
            f"at least {found.memory} bytes", f"add --memory {found.memory}", job.values.name,
        )  # fmt: skip
    if found.workers == 1 and resources.engine == "auto":
        return found._replace(engine="serial")
    return found


def _fitted(job: Job, engine: str, workers: int, share: int, sink: Sink | None) -> Arrangement:
    """The best plan for workers who have so many bytes each; its smallest block may yet need more."""
    values, size = job.values, job.values.sizes[job.axis]
    # An element's share of a block: input, output, and twice its size of scratch; for processes once more on its way
    # and in the parent; and of its line's length, as it is and as the index that it becomes.
    copies = 6 if engine == "processes" else 4
    cost = copies * values.dtype.itemsize + (job.lengths.dtype.itemsize + 16) / size
    most = max(1, int(share / cost))
    chunks = [prod(each) for each in (values.chunks, sink.chunks if sink else None) if each]
    plan = _cut(values, job.axis, most, sink.chunks if sink else None)
    spooled = bool(sink and chunks) and (plan.cuts_lines or plan.block_elements > most)
    if spooled:
        plan = _cut(RawTensor("", values.name, 0, values.dtype, values.sizes), job.axis, most)
    needed = int(max(plan.block_elements, *chunks, 0) * cost) + 1
    workers = min(workers, plan.block_count)
    return Arrangement(plan, engine, workers, needed * workers, spooled)


def _cut(values: Source | RawTensor, axis: int, most: int, chunks: tuple[int, ...] | None = None) -> Plan:
    """Whole lines, as wide as is cheap to cut, or else as wide as fits; to cut lines is the last resort.

    To fill the memory is no aim. With `chunks`, which the output is made of, every cut is at one of them.
    """

    def aligned(grain: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(map(lcm, grain, chunks)) if chunks else grain

    grain = aligned(values.grain)
    whole = prod(size if d == axis else min(grain[d], size) for d, size in enumerate(values.sizes))
    if whole <= most:
        most = min(most, max(whole, BLOCK_BYTES // values.dtype.itemsize))
    else:
        grain = aligned(values.finest_grain)
    return make_plan(values.sizes, axis, most_elements=most, grain=grain, order=values.order)


def _workers(engine: str, jobs: int) -> int:
    """How many blocks are under way at once: one a job; one more for threads, since the disk takes its time.

    4 GiB with two jobs took 2.7 s so, and 3.3 s without (medians of three).
    """
    return {"serial": 1, "threads": jobs + 1 if jobs > 1 else 1}.get(engine, jobs)


def _choose(values: Source, sink: Sink | None, jobs: int) -> str:
    """The engine that the benchmarks found fastest for such a tensor.

    Threads, since they need no start and most of a block's time is spent in calls that let go of the interpreter's
    lock; even slices line by line, which do not, lose less to it than a pool of processes costs. HDF5 has a lock of
    its own around everything, which only processes get past.
    """
    total = values.desc.total_bytes
    encoded = values.encoded or bool(sink and sink.encoded)
    if jobs == 1 or total < _WORTH_THREADS:
        return "serial"
    if values.reads_in_parallel and not encoded:
        return "threads"
    return "processes" if encoded or total >= _WORTH_PROCESSES else "serial"


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
            copy(turned.written(), sink, arrangement)


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
        for region, place in _run(tasks, arrangement):
            if place is not None:
                index = [part.start + i for part, i in zip(region, place, strict=True)]
                raise EngineError(
                    f"what was written does not reverse to the input at {index}", "the same bits",
                    "run it again; the disk or the memory may be failing", written.name,
                )  # fmt: skip
            done(_elements(region))


def copy(source: Source, sink: Sink, arrangement: Arrangement) -> None:
    """Every element as it is, in blocks that follow the chunks of both sides, or where those are too large, of one."""
    most = max(1, min(BLOCK_BYTES, arrangement.memory // arrangement.workers // 4) // source.dtype.itemsize)
    one = sink.chunks or source.chunks or source.grain
    both = tuple(map(lcm, one, source.chunks or one))
    grain = both if prod(map(min, both, source.sizes)) <= most else one
    plan = make_plan(source.sizes, None, most_elements=most, grain=grain, order=source.order)
    outlet = sink.outlet()
    tasks = (Task(_read, (source.ticket(region),), region, outlet) for region in plan)
    _deliver(tasks, sink, arrangement, lambda _: None)


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
                copy(lengths, spool, arrangement)
                lengths = spool.written()
        yield replace(job, values=values, lengths=lengths)


@contextlib.contextmanager
def _spooled(source: Source, sink: Sink, arrangement: Arrangement) -> Iterator[Source]:
    """The source, or where chunks lie across too many lines its copy beside the output."""
    if not (arrangement.spooled and source.chunks):
        yield source
        return
    with formats.create_scratch(sink.beside, source) as spool:
        copy(source, spool, arrangement)
        yield spool.written()


def _deliver(tasks: Iterable[Task], sink: Sink, arrangement: Arrangement, done: Callable[[int], None]) -> None:
    for region, parcel in _run(tasks, arrangement):
        if parcel is not None:
            sink.receive(parcel)
        done(_elements(region))


def count_lengths(job: Job, resources: Resources) -> kernel.LengthCounts:
    """What the lengths of the whole job do."""
    return sum(_folded(job.lengths, CountLengths(job.values.sizes[job.axis]), resources), kernel.LengthCounts())


def statistics(source: Source, resources: Resources) -> kernel.Statistics:
    """The statistics of a whole tensor, in one pass."""
    return sum(_folded(source, _summarized, resources), kernel.Statistics())


def _folded(source: Source, step: Callable[[Ticket], Any], resources: Resources) -> Iterator[Any]:
    """Every block's share of a fold."""
    plan = make_plan(source.sizes, None, most_elements=BLOCK_BYTES // 8, grain=source.grain, order=source.order)
    engine = _choose(source, None, resources.workers)
    tasks = (Task(step, (source.ticket(region),), region, None) for region in plan)
    arrangement = Arrangement(plan, engine, _workers(engine, resources.workers), 0)
    return (share for _, share in _run(tasks, arrangement))


def _reversals(job: Job, source: Source, plan: Plan, outlet: Outlet | None) -> Iterator[Task]:
    """The tasks that reverse `source` by the job's lengths, block by block."""
    for region in plan:
        lengths = job.lengths.ticket((*region[: job.axis], slice(0, 1), *region[job.axis + 1 :]))
        if plan.cuts_lines:
            yield Task(ReverseCut(source, job.axis, region), (lengths,), region, outlet)
        else:
            yield Task(Reverse(job.axis), (source.ticket(region), lengths), region, outlet)


def _elements(region: Region) -> int:
    return prod(part.stop - part.start for part in region)


def _run(tasks: Iterable[Task], arrangement: Arrangement) -> Iterator[tuple[Region, Any]]:
    """The result of every task, in the order in which they end; a signal is looked at between two of them."""
    memory.keep_freed()
    with stopping.deferred(), contextlib.ExitStack() as stack:
        if arrangement.engine == "serial":
            results: Iterator[tuple[Region, Any]] = (task() for task in tasks)
        else:
            pool = stack.enter_context(_pool(arrangement))
            results = stack.enter_context(contextlib.closing(_submitted(tasks, pool, 2 * arrangement.workers)))
        for result in results:
            stopping.check()
            yield result


@contextlib.contextmanager
def _pool(arrangement: Arrangement) -> Iterator[Executor]:
    """The workers; they are gone when the block ends, however it ends."""
    from concurrent import futures

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
        yield pool
    except futures.BrokenExecutor:
        raise EngineError(
            "a worker process died", "workers that live; was one killed, or out of memory?",
            "try a smaller --memory, or --engine serial",
        ) from None  # fmt: skip
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _submitted(tasks: Iterable[Task], pool: Executor, window: int) -> Generator[tuple[Region, Any], None, None]:
    """Hand out the tasks with at most `window` of them under way."""
    from concurrent.futures import FIRST_COMPLETED, wait

    tasks = iter(tasks)
    pending: set[Future[tuple[Region, Any]]] = set()
    try:
        while True:
            with stopping.shielded():  # a worker that is half started could not be joined
                pending |= {pool.submit(task) for task in itertools.islice(tasks, window - len(pending))}
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
