"""Chooses the engine, the number of workers, and the plan of a pass, within the memory that it may use."""

from __future__ import annotations

from dataclasses import replace
from math import lcm, prod
from typing import TYPE_CHECKING, NamedTuple

from revseq_cli.formats import stripes
from revseq_cli.formats.contract import Source
from revseq_cli.formats.raw import grains_of
from revseq_cli.ground import system
from revseq_cli.ground.errors import EngineError, Words
from revseq_cli.passes.engines.table import (
    AUTO,
    BLOCK_BYTES,
    DEFAULT_MEMORY,
    ENGINES,
    PROCESSES,
    SERIAL,
    THREADS,
    Engine,
)
from revseq_cli.passes.plan import COLUMN_BYTES, FEWEST_ROWS, Plan, Tiling, make_plan, make_tiling

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from revseq_cli.formats.contract import Sink
    from revseq_cli.passes.assembly import Job

    Grain = tuple[int, ...]

# For tensors of fewer bytes, starting threads takes longer than they save; and processes, which start slower.
_WORTH_THREADS = 1 << 25
_WORTH_PROCESSES = 1 << 28
_WORTH_PROCESSES_NOT_THREADS = 1 << 28 if system.FORKS else 1 << 30
# Memory for each process: beside its blocks, it has some 5 MiB of its own.
_PROCESS_BYTES = 16 << 20
# Runs of fewer bytes are not read or written one by one, but through a temporary file, unless the tensor is small.
_SHORT_RUN, _LONG_RUN = 1 << 13, 1 << 16
_WORTH_TILES = 1 << 25
# Bytes for an element that differs, beside its values: its index, the difference, and the tolerance.
_DIFFERENT_BYTES = 64


class Resources(NamedTuple):
    """How much of the machine a pass may use.

    `engine` is a name of the table, or "auto"; `cores` is 0 for as many as this process may use. `memory` is the limit
    in bytes for all workers together; with a `scheduler`, which is its address, for each thread of its workers.
    """

    engine: str = AUTO
    cores: int = 0
    memory: int = DEFAULT_MEMORY
    scheduler: str = ""

    @property
    def usable_cores(self) -> int:
        """The number of cores: asked for, or else what this process may use; 1 with a scheduler, which has its own."""
        if self.scheduler:
            return 1
        return self.cores or system.cores()

    @property
    def elsewhere(self) -> bool:
        """Whether the workers may have another current folder, so that paths must be absolute."""
        return bool(self.scheduler)


class Arrangement(NamedTuple):
    """A plan, its engine and workers, and `need`, the most bytes that all workers together hold.

    `spooled` says that the tensor goes through temporary files, since the memory is too small for the chunks that its
    lines cross. With a `tiling` its lines go through one, since files would be read and written in runs that are too
    short; `plan` has the tiling's blocks, and with `direct` bytes of memory there would be none. Where the disk has no
    room for it, there is `direct` and no tiling. With a `scheduler`, which is its address, `need` is for each thread of
    its workers.
    """

    plan: Plan
    engine: Engine
    workers: int
    need: int
    spooled: bool = False
    scheduler: str = ""
    tiling: Tiling | None = None
    direct: int = 0

    @property
    def lacks_room(self) -> bool:
        """Whether files are read and written in short runs for lack of room for a temporary file."""
        return bool(self.direct) and self.tiling is None

    @property
    def means(self) -> str:
        """The engine, its workers and their memory, for people."""
        if self.scheduler:
            return f"{self.engine.name}, all workers of {self.scheduler}, {self.need:,} bytes of memory for each thread"
        return f"{self.engine.name}, workers: {self.workers}, {self.need:,} bytes of memory"


def arrange(job: Job, resources: Resources, sink: Sink | None = None) -> Arrangement:
    """The arrangement of a reversal; EngineError if the memory is too small for one block."""
    chosen = choose(job.values, sink, resources.usable_cores)
    return _within(resources, chosen, job.values.name, lambda *means: _reversal(job, sink, 0, *means))


def arrange_copy(source: Source, resources: Resources, sink: Sink) -> Arrangement:
    """The arrangement of a copy; EngineError if the memory is too small for one block."""
    chunks = _chunks(source, sink)
    chosen = choose(source, sink, resources.usable_cores)
    return _within(resources, chosen, source.name, lambda *means: _elementwise(source, sink, chunks, 0, *means))


def arrange_pair(a: Source, b: Source, resources: Resources) -> Arrangement:
    """The arrangement of a comparison of tensors of one desc; EngineError if the memory is too small for one block."""
    chunks = sorted(_chunks(a, b), key=prod)
    chosen = _choose_for(a, b, resources)
    return _within(resources, chosen, a.name, lambda *means: _elementwise(a, b, chunks, _DIFFERENT_BYTES, *means))


def arrange_oracle(job: Job, a: Source, resources: Resources) -> Arrangement:
    """The arrangement of a comparison with a job's output; EngineError if the memory is too small for one block."""
    chosen = _choose_for(job.values, a, resources)
    extra = _DIFFERENT_BYTES + a.dtype.itemsize
    return _within(resources, chosen, a.name, lambda *means: _reversal(job, a, extra, *means))


def arrange_fold(source: Source, resources: Resources) -> Arrangement:
    """The arrangement of a pass that reads a tensor once and keeps a few numbers; `need` is not computed, and is 0."""
    most = BLOCK_BYTES // 8  # elements become 8 bytes where they are computed with
    engine = choose(source, None, resources.usable_cores)
    plan = cut(source.sizes, None, source.order, [source.grain], most, most)
    return Arrangement(plan, engine, engine.workers(resources.usable_cores), 0)


def arrange_move(source: Source, sink: Sink, arrangement: Arrangement) -> Arrangement:
    """The arrangement of a copy inside another pass, with that pass's engine and within its memory."""
    most = max(1, min(BLOCK_BYTES, arrangement.need // arrangement.workers // 4) // source.dtype.itemsize)
    plan = cut(source.sizes, None, source.order, _grains(source, _chunks(source, sink)), most, most)
    return arrangement._replace(plan=plan)


def choose(source: Source, sink: Sink | None, cores: int) -> Engine:
    """The engine that the benchmarks found fastest for such a tensor.

    On two cores these are threads for most tensors: they start fast, and most of a block's time is spent in calls that
    release Python's global lock. Of more cores only processes make full use: 4 GiB in memory took 16 of them 1.1 s, and
    threads 1.8 s at best. HDF5 has one lock around all its calls, so only processes work in parallel there, and most
    codecs hold Python's.
    """
    total = source.desc.total_bytes
    if cores == 1 or total < _WORTH_THREADS:
        return SERIAL
    encoded = source.encoded or bool(sink and sink.encoded)
    many = _WORTH_THREADS if encoded else _WORTH_PROCESSES_NOT_THREADS
    in_parallel = source.reads_in_parallel and (sink is None or sink.writes_in_parallel)
    if in_parallel and (cores <= 2 or total < many):
        return THREADS
    return PROCESSES if encoded or total >= _WORTH_PROCESSES else SERIAL


def _choose_for(a: Source, b: Source, resources: Resources) -> Engine:
    """The engine for two sources that are read together: the later one of the table."""
    return max((choose(each, None, resources.usable_cores) for each in (a, b)), key=[*ENGINES.values()].index)


def cut(sizes: tuple[int, ...], axis: int | None, order: str, grains: Sequence[Grain], most: int, usual: int) -> Plan:
    """A plan of blocks of about `usual` elements, and at most `most`.

    `grains` are the multiples at which to cut: cuts at the first are cheap, and the last is a last resort. The first
    counts if its smallest block fits: one grain in each dimension, and whole lines along `axis`. Otherwise blocks are
    cut at the last and have up to `most` elements; if whole lines do not fit even then, lines are cut.
    """
    cheap = grains[0]
    smallest = prod(size if d == axis else min(cheap[d], size) for d, size in enumerate(sizes))
    if smallest <= most:
        return make_plan(sizes, axis, most_elements=min(most, max(smallest, usual)), grain=cheap, order=order)
    return replace(make_plan(sizes, axis, most_elements=most, grain=grains[-1], order=order), is_cheap=False)


def _within(
    resources: Resources, chosen: Engine, name: str, arranged: Callable[[Engine, int, int], Arrangement]
) -> Arrangement:
    """The arrangement with as many workers as the memory allows; `arranged` gets engine, workers, and bytes of each."""
    engine = chosen if resources.engine == AUTO else ENGINES[resources.engine]
    workers = engine.workers(resources.usable_cores)
    if engine.travels:
        workers = min(workers, max(2, resources.memory // _PROCESS_BYTES))
    best = arranged(engine, workers, resources.memory // workers)
    # A worker less costs less than short runs or a temporary file, and half of them cost more.
    if not best.plan.is_cheap or best.tiling or best.spooled:
        fitting = resources.memory // arranged(engine, 1, resources.memory).need
        if workers / 2 < fitting < workers:
            workers = fitting
            best = arranged(engine, workers, resources.memory // workers)
    while best.need > resources.memory and workers > 1:
        workers //= 2
        best = arranged(engine, workers, resources.memory // workers)
    if best.need > resources.memory:
        raise EngineError(
            f"the memory is {resources.memory} bytes, and a block takes {best.need}",
            f"at least {best.need} bytes", Words.of("try {}", memory=best.need), name,
        )  # fmt: skip
    if best.workers == 1 and resources.engine == AUTO:
        return best._replace(engine=SERIAL)
    return best._replace(scheduler=resources.scheduler) if engine.remote else best


def _reversal(
    job: Job, other: Source | Sink | None, extra: int, engine: Engine, workers: int, share: int
) -> Arrangement:
    """The arrangement for workers of `share` bytes each; its `need` is larger if the smallest block is.

    `other` is where the output goes, or what it is compared with, at `extra` bytes for each element.
    """
    values, size = job.values, job.values.sizes[job.axis]
    # Bytes for an element: its copies, and its share of the line's length, which also becomes an index.
    cost = _copies(engine, values, other) * values.dtype.itemsize + (job.lengths.dtype.itemsize + 16) / size + extra
    most = max(1, int((share - 1) / cost))
    usual = _usual_bytes(engine, values, other) // (8 if extra else values.dtype.itemsize)  # 8 where computed with
    grains = [_aligned(grain, other) for grain in (values.grain, values.finest_grain)]
    plan = cut(values.sizes, job.axis, values.order, grains, most, usual)
    chunks = [prod(each) for each in _chunks(values, other)]
    spooled = bool(other and chunks) and (plan.cuts_lines or plan.block_elements > most)
    if spooled:
        grains = grains_of(values.dtype, values.sizes, values.order)
        plan = cut(values.sizes, job.axis, values.order, grains, most, usual)
    in_files = spooled or bool(values.path and not chunks)
    tiling, direct = None, 0
    if other and not extra and in_files and _is_slow(plan, values):
        direct = most
        while _is_slow(cut(values.sizes, job.axis, values.order, grains, direct, usual), values):
            direct += direct // 8 + 1
        direct = workers * (int(direct * cost) + 2)
        if isinstance(other, Source) or stripes.have_room(other.beside, 2 * values.desc.total_bytes):
            tiling, workers, cost = _tiled(job, other, engine, workers, share)
            plan = tiling.blocks
    of_lengths = prod(job.lengths.chunks) * job.lengths.dtype.itemsize if job.lengths.chunks else 0
    # A chunk of the lengths is held twice, as it is read and decoded.
    need = max(int(max(plan.block_elements, *chunks, 0) * cost) + 1, 2 * of_lengths)
    workers = min(workers, plan.block_count)
    return Arrangement(plan, engine, workers, need * workers, spooled, tiling=tiling, direct=direct)


def _is_slow(plan: Plan, values: Source) -> bool:
    """Whether a plan has files read in runs so short that a temporary file is faster."""
    is_large = values.desc.total_bytes >= _WORTH_TILES and plan.block_count > 1
    return is_large and plan.run(values.order) * values.dtype.itemsize < _SHORT_RUN


def _tiled(job: Job, other: Source | Sink, engine: Engine, workers: int, share: int) -> tuple[Tiling, int, float]:
    """The tiling, the workers, and the bytes for an element; workers are fewer where that makes short runs longer."""
    values, item_size = job.values, job.values.dtype.itemsize
    # A block is held once less than others: there is no scratch but for a stripe.
    cost = (_copies(engine, values, other) - 1) * item_size + COLUMN_BYTES / FEWEST_ROWS
    while True:
        most = max(1, int((share - 1) / cost))
        elements = min(most, engine.block_bytes // item_size)
        tiling = make_tiling(values.sizes, job.axis, most_elements=elements, order=values.order)
        while elements < most and tiling.run * item_size < _LONG_RUN:
            elements = min(most, 2 * elements)
            tiling = make_tiling(values.sizes, job.axis, most_elements=elements, order=values.order)
        if workers == 1 or tiling.run * item_size >= _LONG_RUN:
            return tiling, workers, cost
        share = share * workers // (workers - 1)
        workers -= 1


def _elementwise(
    source: Source, other: Source | Sink, chunks: list[Grain], extra: int, engine: Engine, workers: int, share: int
) -> Arrangement:
    """The arrangement for a pass without an axis, whose elements take `extra` bytes each beside their copies."""
    cost = _copies(engine, source, other) * source.dtype.itemsize + extra
    usual = _usual_bytes(engine, source, other) // (8 if extra else source.dtype.itemsize)  # 8 where computed with
    plan = cut(source.sizes, None, source.order, _grains(source, chunks), max(1, share // cost), usual)
    # Chunks are decoded whole, even where they are larger than a block or reach beyond the tensor.
    beyond = max([0, *(prod(each) - plan.block_elements for each in chunks)])
    need = plan.block_elements * cost + beyond * source.dtype.itemsize
    workers = max(1, min(workers, plan.block_count))
    return Arrangement(plan, engine, workers, need * workers)


def _copies(engine: Engine, *sides: Source | Sink | None) -> int:
    """How often an element of a block is held: input, output, and 2 of scratch; 2 more if it travels."""
    return 6 if engine.travels and any(side and side.held for side in sides) else 4


def _usual_bytes(engine: Engine, *sides: Source | Sink | None) -> int:
    """The bytes of a block, where memory and chunks allow: fewer where filters work on it that wait for no lock.

    Other filters have a file to open for each block, which costs more.
    """
    given = [side for side in sides if side]
    free = all(side.reads_in_parallel if isinstance(side, Source) else side.writes_in_parallel for side in given)
    return engine.encoded_bytes if free and any(side.encoded for side in given) else engine.block_bytes


def _chunks(*sides: Source | Sink | None) -> list[Grain]:
    return [side.chunks for side in sides if side and side.chunks]


def _grains(source: Source, chunks: list[Grain]) -> list[Grain]:
    """The multiples that cut no chunk of any side, then the last side's chunks; the source's grain without chunks."""
    return [tuple(map(lcm, *chunks)), chunks[-1]] if chunks else [source.grain]


def _aligned(grain: Grain, other: Source | Sink | None) -> Grain:
    """The grain, as a multiple of the other side's chunks if it has chunks."""
    return tuple(map(lcm, grain, other.chunks)) if other and other.chunks else grain
