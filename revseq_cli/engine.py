"""Passes over data: read a block's regions, take one step, deliver. One loop for every pass and every executor."""

from __future__ import annotations

import contextlib
import itertools
import os
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli import kernel, memory, stopping
from revseq_cli.errors import EngineError
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
    """A plan, and what carries it out: `memory` is what all workers together will hold at most."""

    plan: Plan
    engine: str
    workers: int
    memory: int


def arrange(job: Job, resources: Resources) -> Arrangement:
    """The plan of a job within the resources; EngineError where its smallest block needs more memory."""
    values, size = job.values, job.values.sizes[job.axis]
    engine = resources.engine if resources.engine != "auto" else _choose(values, resources.workers)
    workers = _workers(engine, resources.workers)
    # An element's share of a block: input, output, and twice its size of scratch; and of its line's length, as it is
    # and as the index that it becomes.
    cost = 4 * values.dtype.itemsize + (job.lengths.dtype.itemsize + 16) / size
    share = resources.memory // workers
    most = max(1, int(share / cost))
    # Whole lines, as wide as is cheap to cut, or else as wide as fits; to fill the memory is no aim, and to cut lines
    # the last resort.
    whole = prod(size if d == job.axis else g for d, g in enumerate(map(min, values.grain, values.sizes)))
    fits = whole <= most
    if fits:
        most = min(most, max(whole, BLOCK_BYTES // values.dtype.itemsize))
    grain = values.grain if fits else values.finest_grain
    plan = make_plan(values.sizes, job.axis, most_elements=most, grain=grain, order=values.order)
    needed = int(plan.block_elements * cost) + 1
    if needed > share:
        raise EngineError(
            f"--memory is {resources.memory} bytes, and a block takes {needed} for each of {workers} workers",
            f"at least {needed * workers} bytes", f"add --memory {needed * workers}", values.name,
        )  # fmt: skip
    workers = min(workers, plan.block_count)
    if workers == 1 and resources.engine == "auto":
        engine = "serial"
    return Arrangement(plan, engine, workers, needed * workers)


def _workers(engine: str, jobs: int) -> int:
    """How many blocks are under way at once: one a job; one more for threads, since the disk takes its time.

    4 GiB with two jobs took 2.7 s so, and 3.3 s without (medians of three).
    """
    return {"serial": 1, "threads": jobs + 1 if jobs > 1 else 1}.get(engine, jobs)


def _choose(values: Source, jobs: int) -> str:
    """The engine that the benchmarks found fastest for such a tensor.

    Threads, since they need no start and most of a block's time is spent in calls that let go of the interpreter's
    lock; even slices line by line, which do not, lose less to it than a pool of processes costs. HDF5 has a lock of
    its own around everything, which only processes get past.
    """
    total = values.desc.total_bytes
    if jobs == 1 or total < _WORTH_THREADS:
        return "serial"
    if values.reads_in_parallel:
        return "threads"
    return "processes" if total >= _WORTH_PROCESSES else "serial"


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
    tasks = _reversals(job, job.values, arrangement.plan, sink.outlet())
    for region, parcel in _run(tasks, arrangement):
        if parcel is not None:
            sink.receive(parcel)
        done(_elements(region))


def verify(job: Job, written: Source, arrangement: Arrangement, done: Callable[[int], None] = lambda _: None) -> None:
    """Hold the written tensor, reversed again, against the input; EngineError where they differ."""
    tasks = (
        Task(Differ(task.step), (job.values.ticket(task.region), *task.tickets), task.region, None)
        for task in _reversals(job, written, arrangement.plan, None)
    )
    for region, place in _run(tasks, arrangement):
        if place is not None:
            index = [part.start + i for part, i in zip(region, place, strict=True)]
            raise EngineError(
                f"what was written does not reverse to the input at {index}", "the same bits",
                "run it again; the disk or the memory may be failing", written.name,
            )  # fmt: skip
        done(_elements(region))


def count_lengths(job: Job, resources: Resources) -> kernel.LengthCounts:
    """What the lengths of the whole job do."""
    source = job.lengths
    plan = make_plan(source.sizes, None, most_elements=BLOCK_BYTES // 8, grain=source.grain, order=source.order)
    workers = resources.workers if source.desc.total_bytes >= _WORTH_THREADS and source.reads_in_parallel else 1
    step = CountLengths(job.values.sizes[job.axis])
    tasks = (Task(step, (source.ticket(region),), region, None) for region in plan)
    shares = _run(tasks, Arrangement(plan, "threads" if workers > 1 else "serial", workers, 0))
    return sum((share for _, share in shares), kernel.LengthCounts())


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
    """The result of every task, in the order in which they end."""
    memory.keep_freed()
    with contextlib.ExitStack() as stack:
        if arrangement.engine == "serial":
            results: Iterator[tuple[Region, Any]] = (task() for task in tasks)
        else:
            pool = stack.enter_context(_pool(arrangement))
            results = stack.enter_context(contextlib.closing(_submitted(tasks, pool, 2 * arrangement.workers)))
        for result in results:
            stopping.check()  # h5py may have swallowed the exception
            yield result


@contextlib.contextmanager
def _pool(arrangement: Arrangement) -> Iterator[Executor]:
    """The workers; they are gone when the block ends, however it ends."""
    from concurrent import futures

    if arrangement.engine == "threads":
        pool: Executor = futures.ThreadPoolExecutor(arrangement.workers)
    else:
        import multiprocessing

        # Not fork: a worker must inherit neither an open HDF5 file nor a lock that a thread holds.
        method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
        context = multiprocessing.get_context(method)
        if method == "forkserver":
            context.set_forkserver_preload([__name__])
        pool = futures.ProcessPoolExecutor(arrangement.workers, context, _begin_worker)
    try:
        yield pool
    except (futures.BrokenExecutor, EOFError):  # the latter where the server died that starts them
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
            with stopping.deferred():  # a worker that is half started could not be joined
                pending |= {pool.submit(task) for task in itertools.islice(tasks, window - len(pending))}
            if not pending:
                return
            ended, pending = wait(pending, return_when=FIRST_COMPLETED)
            for future in ended:
                yield future.result()
    finally:
        for future in pending:
            future.cancel()


def _begin_worker() -> None:
    """Leave signals to the parent, and end when it does."""
    import multiprocessing
    import threading

    stopping.ignore()
    memory.keep_freed()
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: BaseProcess) -> None:
    """A parent that was killed can send no word; without this its workers would wait for tasks for ever."""
    parent.join()
    os._exit(1)
