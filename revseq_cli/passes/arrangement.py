"""What a pass needs and what it may use: the engine, the workers, and the plan that fits their memory."""

from __future__ import annotations

import os
from math import lcm, prod
from typing import TYPE_CHECKING, NamedTuple

from revseq_cli.formats.storage.raw import RawTensor
from revseq_cli.ground.errors import EngineError, Words
from revseq_cli.passes.plan import Plan, make_plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from revseq_cli.formats.contract import Sink, Source
    from revseq_cli.passes.jobs import Job

ENGINES = ("auto", "serial", "threads", "processes", "dask")
DEFAULT_MEMORY = 1 << 30
# Bytes of a block's input, where the memory allows: enough to hide the cost of opening a file, little enough that a
# block is still in the cache when it is written. The benchmarks of 1, 4 and 16 MiB chose it.
BLOCK_BYTES = 1 << 22
# For dask, whose scheduler takes some milliseconds for each block: 4 GiB took 7.6 s in blocks of 8 MiB, and 5.7, 4.8
# and 4.5 s in those of 16, 32 and 64.
_DASK_BLOCK_BYTES = 1 << 26
# What travels between processes is held once more on its way, and in the parent.
_TRAVELLING = ("processes", "dask")
# Below this many bytes, starting threads costs more than they give; and processes, which start slower.
_WORTH_THREADS = 1 << 25
_WORTH_PROCESSES = 1 << 28
# Bytes that an element takes where it differs, beside its values: where it is, how far, and how far it may be.
_DIFFERENT_BYTES = 64


class Resources(NamedTuple):
    """How much of the machine a pass may use: `memory` is the bound in bytes for all workers together.

    `scheduler` is the address of dask's. Its workers are not ours to count: `memory` is then for each of their threads.
    """

    engine: str = "auto"
    jobs: int = 0
    memory: int = DEFAULT_MEMORY
    scheduler: str = ""

    @property
    def workers(self) -> int:
        """The jobs asked for, or as many as this process may use cores; one thread stands for a scheduler's."""
        if self.engine == "dask" and self.scheduler:
            return 1
        affinity = getattr(os, "sched_getaffinity", None)
        return self.jobs or (len(affinity(0)) if affinity else os.cpu_count() or 1)

    @property
    def elsewhere(self) -> bool:
        """Whether those who do the work may stand in another folder."""
        return bool(self.scheduler)


class Arrangement(NamedTuple):
    """A plan, and what carries it out: `memory` is what all workers together will hold at most.

    `spooled` says that the tensor passes through temporary files, since chunks that lie across its lines are too many
    to be held at once. With dask's `scheduler`, `memory` is for each worker thread.
    """

    plan: Plan
    engine: str
    workers: int
    memory: int
    spooled: bool = False
    scheduler: str = ""

    @property
    def means(self) -> str:
        """The engine, its workers and their memory, for a person."""
        if self.scheduler:
            return f"{self.engine}, all workers of {self.scheduler}, {self.memory:,} bytes of memory for each thread"
        return f"{self.engine}, workers: {self.workers}, {self.memory:,} bytes of memory"


def arrange(job: Job, resources: Resources, sink: Sink | None = None) -> Arrangement:
    """The plan of a job within the resources; EngineError where its smallest block needs more memory for one worker."""
    chosen = choose(job.values, sink, resources.workers)
    return _within(resources, chosen, job.values.name, lambda *means: _fitted(job, sink, *means))


def arrange_copy(source: Source, resources: Resources, sink: Sink) -> Arrangement:
    """The same for a copy."""
    chunks = _chunks(source, sink)
    chosen = choose(source, sink, resources.workers)
    return _within(resources, chosen, source.name, lambda *means: _evenly(source, chunks, 0, *means))


def arrange_pair(a: Source, b: Source, resources: Resources) -> Arrangement:
    """The same for a comparison of two tensors of the same sizes and data type."""
    chunks = sorted(_chunks(a, b), key=prod)
    chosen = max((choose(each, None, resources.workers) for each in (a, b)), key=ENGINES.index)
    return _within(resources, chosen, a.name, lambda *means: _evenly(a, chunks, _DIFFERENT_BYTES, *means))


def _within(
    resources: Resources, chosen: str, name: str, fitted: Callable[[str, int, int], Arrangement]
) -> Arrangement:
    """What fits as many workers as the memory allows; `fitted` gets the engine, the workers, and each one's bytes."""
    engine = resources.engine if resources.engine != "auto" else chosen
    workers = workers_of(engine, resources.workers)
    found = fitted(engine, workers, resources.memory // workers)
    while found.memory > resources.memory and workers > 1:
        workers //= 2
        found = fitted(engine, workers, resources.memory // workers)
    if found.memory > resources.memory:
        raise EngineError(
            f"the memory is {resources.memory} bytes, and a block takes {found.memory}",
            f"at least {found.memory} bytes", Words.of("add {}", memory=found.memory), name,
        )  # fmt: skip
    if found.workers == 1 and resources.engine == "auto":
        return found._replace(engine="serial")
    return found._replace(scheduler=resources.scheduler) if engine == "dask" else found


def _fitted(job: Job, sink: Sink | None, engine: str, workers: int, share: int) -> Arrangement:
    """The best plan for workers who have so many bytes each; its smallest block may yet need more."""
    values, size = job.values, job.values.sizes[job.axis]
    # An element's share of a block, and of its line's length, as it is and as the index that it becomes.
    cost = _copies(engine) * values.dtype.itemsize + (job.lengths.dtype.itemsize + 16) / size
    most = max(1, int(share / cost))
    chunks = [prod(each) for each in _chunks(values, sink)]
    of_lengths = prod(job.lengths.chunks) * job.lengths.dtype.itemsize if job.lengths.chunks else 0
    aim = _usual_bytes(engine) // values.dtype.itemsize
    plan = _cut(values, job.axis, most, aim, sink.chunks if sink else None)
    spooled = bool(sink and chunks) and (plan.cuts_lines or plan.block_elements > most)
    if spooled:
        plan = _cut(RawTensor("", values.name, 0, values.dtype, values.sizes), job.axis, most, aim)
    needed = max(int(max(plan.block_elements, *chunks, 0) * cost) + 1, 2 * of_lengths)  # decoded, and as it is read
    workers = min(workers, plan.block_count)
    return Arrangement(plan, engine, workers, needed * workers, spooled)


def _evenly(
    source: Source, chunks: list[tuple[int, ...]], extra: int, engine: str, workers: int, share: int
) -> Arrangement:
    """The same for elements that each are on their own and take `extra` bytes more."""
    cost = _copies(engine) * source.dtype.itemsize + extra
    usual = _usual_bytes(engine) // (8 if extra else source.dtype.itemsize)  # what is computed with grows to 8 bytes
    plan = _cut_evenly(source, chunks, max(1, share // cost), usual)
    # A chunk that reaches beyond the block, or the tensor, is decoded whole.
    beyond = max([0, *(prod(each) - plan.block_elements for each in chunks)])
    needed = plan.block_elements * cost + beyond * source.dtype.itemsize
    workers = max(1, min(workers, plan.block_count))
    return Arrangement(plan, engine, workers, needed * workers)


def _copies(engine: str) -> int:
    """How often an element of a block is held: input, output, twice its size of scratch; where it travels, 2 more."""
    return 6 if engine in _TRAVELLING else 4


def _usual_bytes(engine: str) -> int:
    """How large a block of the input is, where nothing asks for another size."""
    return _DASK_BLOCK_BYTES if engine == "dask" else BLOCK_BYTES


def cut_copy(source: Source, sink: Sink, most: int) -> Plan:
    """The blocks of a copy."""
    return _cut_evenly(source, _chunks(source, sink), most, most)


def _chunks(*sides: Source | Sink | None) -> list[tuple[int, ...]]:
    return [side.chunks for side in sides if side and side.chunks]


def _cut_evenly(source: Source, chunks: list[tuple[int, ...]], most: int, usual: int) -> Plan:
    """Blocks that follow the chunks of all sides, or where those are too large together, the last."""
    both = tuple(map(lcm, *chunks)) if chunks else source.grain
    fits = prod(map(min, both, source.sizes)) <= most
    grain = both if fits or not chunks else chunks[-1]
    return make_plan(source.sizes, None, most_elements=min(most, usual), grain=grain, order=source.order)


def _cut(values: Source | RawTensor, axis: int, most: int, aim: int, chunks: tuple[int, ...] | None = None) -> Plan:
    """Whole lines, as wide as is cheap to cut, or else as wide as fits; to cut lines is the last resort.

    To fill the memory is no aim, but `aim` elements are. With `chunks`, as the output has them, every cut is at one.
    """

    def aligned(grain: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(map(lcm, grain, chunks)) if chunks else grain

    grain = aligned(values.grain)
    whole = prod(size if d == axis else min(grain[d], size) for d, size in enumerate(values.sizes))
    if whole <= most:
        most = min(most, max(whole, aim))
    else:
        grain = aligned(values.finest_grain)
    return make_plan(values.sizes, axis, most_elements=most, grain=grain, order=values.order)


def workers_of(engine: str, jobs: int) -> int:
    """How many blocks are under way at once: one a job; one more for threads, since the disk takes its time.

    4 GiB with two jobs took 2.7 s so, and 3.3 s without (medians of three).
    """
    return {"serial": 1, "threads": jobs + 1 if jobs > 1 else 1}.get(engine, jobs)


def choose(values: Source, sink: Sink | None, jobs: int) -> str:
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
