"""Chooses the engine, the number of workers, and the plan of a pass, within the memory that it may use."""

from __future__ import annotations

from dataclasses import replace
from math import lcm, prod
from typing import TYPE_CHECKING, NamedTuple

from revseq_cli.core import system, thresholds
from revseq_cli.core.errors import EngineError
from revseq_cli.formats import atomic_file
from revseq_cli.formats.contract import Sink, Source
from revseq_cli.formats.raw import cut_alignment_of, cut_alignments_of
from revseq_cli.pipeline.engines import AUTO, DEFAULT_MEMORY, ENGINES, PROCESSES, SERIAL, Engine
from revseq_cli.pipeline.plan import COLUMN_BYTES, Plan, Tiling, fewest_rows, make_plan, make_tiling

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from revseq_cli.pipeline.assembly import Job

    CutAlignment = tuple[int, ...]

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

    `spooled` is how many copies of the tensor go through temporary files, since the memory is too small for the chunks
    that its lines cross in the input, in the output, or in both. With a `tiling` its lines go through one, since files
    would be read and written in runs that are too short; `plan` has the tiling's blocks, and with `direct` bytes of
    memory there would be none. Where the disk has no room for it, there is `direct` and no tiling. With a `scheduler`,
    which is its address, `need` is for each thread of its workers. Beside `need`, so many bytes are `left`.
    """

    plan: Plan
    engine: Engine
    workers: int
    need: int
    spooled: int = 0
    scheduler: str = ""
    tiling: Tiling | None = None
    direct: int = 0
    left: int = 0

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


class Cost(NamedTuple):
    """The bytes that a block holds: so many for so many of its elements, in whole numbers, so that none is lost."""

    size: int
    elements: int

    def held(self, elements: int) -> int:
        """The bytes that a block of so many elements holds."""
        return -(-elements * self.size // self.elements)

    def most(self, share: int) -> int:
        """The elements of the largest block that so many bytes hold, or 1."""
        return max(1, share * self.elements // self.size)


def arrange(job: Job, resources: Resources, sink: Sink | None = None) -> Arrangement:
    """The arrangement of a reversal; EngineError if the memory is too small for one block."""
    return _within(resources, job.values, sink, lambda *means: _reversal(job, sink, 0, *means))


def arrange_copy(source: Source, resources: Resources, sink: Sink) -> Arrangement:
    """The arrangement of a copy; EngineError if the memory is too small for one block."""
    chunks = _chunks(source, sink)
    return _within(resources, source, sink, lambda *means: _elementwise(source, sink, chunks, 0, *means))


def arrange_pair(a: Source, b: Source, resources: Resources) -> Arrangement:
    """The arrangement of a comparison of tensors of one desc; EngineError if the memory is too small for one block."""
    chunks = sorted(_chunks(a, b), key=prod)
    return _within(resources, a, b, lambda *means: _elementwise(a, b, chunks, _DIFFERENT_BYTES, *means))


def arrange_oracle(job: Job, a: Source, resources: Resources, copies: int = 1) -> Arrangement:
    """The arrangement of a comparison with a job's output; EngineError if the memory is too small for one block.

    `copies` is how often an element of `a` is held besides.
    """
    extra = _DIFFERENT_BYTES + copies * a.dtype.itemsize
    return _within(resources, a, job.values, lambda *means: _reversal(job, a, extra, *means))


def arrange_fold(source: Source, resources: Resources) -> Arrangement:
    """The arrangement of a pass that reads a tensor once and keeps a few numbers; `need` is not computed, and is 0."""
    most = thresholds.BLOCK_BYTES // 8  # elements become 8 bytes where they are computed with
    engine = choose(resources.usable_cores, source)
    plan = cut(source.sizes, None, source.order, source.cut_alignments[:1], most, most)
    return Arrangement(plan, engine, engine.workers(resources.usable_cores), 0)


def arrange_move(source: Source, sink: Sink, arrangement: Arrangement) -> Arrangement:
    """The arrangement of a copy inside another pass, with that pass's engine and within its memory."""
    most = max(1, min(thresholds.BLOCK_BYTES, arrangement.need // arrangement.workers // 4) // source.dtype.itemsize)
    plan = cut(source.sizes, None, source.order, _cut_alignments(source, _chunks(source, sink)), most, most)
    return arrangement._replace(plan=plan)


def choose(cores: int, source: Source, other: Source | Sink | None = None) -> Engine:
    """The fastest engine for a tensor, and for what is read or written with it."""
    is_encoded = source.encoded or bool(other and other.encoded)
    worth = thresholds.WORTH_PROCESSES_WITH_FILTERS if is_encoded else thresholds.WORTH_PROCESSES
    return PROCESSES if cores > 1 and source.desc.total_bytes >= worth else SERIAL


def cut(
    sizes: tuple[int, ...], axis: int | None, order: str, cut_alignments: Sequence[CutAlignment], most: int, usual: int
) -> Plan:
    """A plan of blocks of about `usual` elements, and at most `most`.

    `cut_alignments` are the multiples at which to cut: cuts at the first are cheap, and the last is a last resort. The
    first counts if its smallest block fits: one cut alignment in each dimension, and whole lines along `axis`.
    Otherwise blocks are cut at the last and have up to `most` elements; if whole lines do not fit even then, lines are
    cut.
    """
    cheap = cut_alignments[0]
    smallest = prod(size if d == axis else min(cheap[d], size) for d, size in enumerate(sizes))
    if smallest <= most:
        return make_plan(sizes, axis, most_elements=min(most, max(smallest, usual)), cut_alignment=cheap, order=order)
    return replace(
        make_plan(sizes, axis, most_elements=most, cut_alignment=cut_alignments[-1], order=order), is_cheap=False
    )


def _within(
    resources: Resources, source: Source, other: Source | Sink | None, arranged: Callable[..., Arrangement]
) -> Arrangement:
    """The arrangement with as many workers as the memory allows; `arranged` gets engine, workers, and bytes of each."""
    engine = choose(resources.usable_cores, source, other) if resources.engine == AUTO else ENGINES[resources.engine]
    workers = engine.workers(resources.usable_cores)
    if engine.travels:
        workers = min(workers, max(2, resources.memory // thresholds.PROCESS_BYTES))
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
        found = f"the memory is {resources.memory} byte{'s' * (resources.memory > 1)}, and a block takes {best.need}"
        raise EngineError(found, f"at least {best.need} bytes", f"try --memory {best.need}", source.name)
    best = best._replace(direct=best.direct * engine.workers(resources.usable_cores), left=resources.memory - best.need)
    if best.workers == 1 and resources.engine == AUTO:
        return best._replace(engine=SERIAL)
    return best._replace(scheduler=resources.scheduler) if engine.remote else best


def _reversal(
    job: Job, other: Source | Sink | None, extra: int, engine: Engine, workers: int, share: int
) -> Arrangement:
    """The arrangement for workers of `share` bytes each; its `need` is larger if the smallest block is.

    Its `direct` is that of one worker.

    `other` is where the output goes, or what it is compared with, at `extra` bytes for each element.
    """
    values, size = job.values, job.values.sizes[job.axis]
    # A line holds the copies of its elements, and its length, which also becomes an index.
    copies = _copies(engine, values, other) * values.dtype.itemsize
    cost = Cost((copies + extra) * size + job.lengths.dtype.itemsize + 16, size)
    most = cost.most(share)
    usual = thresholds.BLOCK_BYTES // (8 if extra else values.dtype.itemsize)  # 8 where computed with
    cut_alignments = [_aligned(cut_alignment, values, other) for cut_alignment in values.cut_alignments]
    plan = cut(values.sizes, job.axis, values.order, cut_alignments, most, usual)
    chunks = [prod(each) for each in _chunks(values, other)]
    spooled = 0
    if other and chunks and (plan.cuts_lines or plan.block_elements > most):
        spooled = len(chunks)
        cut_alignments = cut_alignments_of(values.dtype, values.sizes, values.order)
        plan = cut(values.sizes, job.axis, values.order, cut_alignments, most, usual)
    in_files = bool(spooled or (values.path and not chunks))
    tiling, direct = None, 0
    is_large = values.desc.total_bytes >= thresholds.WORTH_TILES and plan.block_count > 1
    short = _short_run(values, other) if other and not extra and in_files and is_large else 0
    if other and plan.run(values.order) * values.dtype.itemsize < short:
        least = _least_of_long_runs(values, job.axis, cut_alignments[-1], short)
        if least <= most:
            plan = cut(values.sizes, job.axis, values.order, cut_alignments[-1:], most, max(usual, least))
        else:
            direct = cost.held(least)
        have_room = isinstance(other, Source) or atomic_file.have_room(other.beside, 2 * values.desc.total_bytes)
        if direct and have_room:
            tiling, workers, cost = _tiled(job, other, engine, workers, share)
            plan = tiling.blocks
    # A chunk that is larger than a block is decoded or encoded alone, and held as often as an element of a copy.
    of_chunks = max([0, *chunks]) * copies
    need = max(cost.held(plan.block_elements), of_chunks, values.least_bytes, job.lengths.least_bytes)
    workers = min(workers, plan.block_count)
    return Arrangement(plan, engine, workers, need * workers, spooled, tiling=tiling, direct=direct)


def _short_run(values: Source, other: Source | Sink) -> int:
    """The bytes of a run in files that is so short that a temporary file is faster."""
    places = [values.path, atomic_file.folder_of(other.beside) if isinstance(other, Sink) and other.beside else ""]
    in_memory = all(place and system.lies_in_memory(place) for place in places)
    return thresholds.SHORT_RUN // (thresholds.PART_IN_MEMORY if in_memory else 1)


def _least_of_long_runs(values: Source, axis: int, cut_alignment: CutAlignment, short: int) -> int:
    """The elements of the smallest block of whole lines, cut at the cut alignment, whose runs are not short."""
    least = cut_alignment_of(short // values.dtype.itemsize, values.sizes, values.order)
    extents = [*_rounded_up(least, cut_alignment)]
    extents[axis] = values.sizes[axis]
    return prod(map(min, extents, values.sizes))


def _tiled(job: Job, other: Source | Sink, engine: Engine, workers: int, share: int) -> tuple[Tiling, int, Cost]:
    """The tiling, the workers, and what a block costs; workers are fewer where that makes short runs longer."""
    values, item_size = job.values, job.values.dtype.itemsize
    # A block is held once less than others: there is no scratch but for a stripe.
    rows = fewest_rows()
    cost = Cost((_copies(engine, values, other) - 1) * item_size * rows + COLUMN_BYTES, rows)
    memory = share * workers
    for count in range(workers, 0, -1):
        most = cost.most(memory // count)
        tiling = _tiling_of_long_runs(values, job.axis, min(most, thresholds.BLOCK_BYTES // item_size), most)
        if tiling.run * item_size >= thresholds.LONG_RUN:
            break
    return tiling, count, cost


def _tiling_of_long_runs(values: Source, axis: int, elements: int, most: int) -> Tiling:
    """The tiling with the smallest blocks, from so many elements on, whose runs are long; or else with the largest."""
    for doublings in range(most.bit_length() + 1):
        block = min(most, elements << doublings)
        tiling = make_tiling(values.sizes, axis, most_elements=block, order=values.order)
        if block == most or tiling.run * values.dtype.itemsize >= thresholds.LONG_RUN:
            break
    return tiling


def _elementwise(
    source: Source,
    other: Source | Sink,
    chunks: list[CutAlignment],
    extra: int,
    engine: Engine,
    workers: int,
    share: int,
) -> Arrangement:
    """The arrangement for a pass without an axis, whose elements take `extra` bytes each beside their copies."""
    cost = _copies(engine, source, other) * source.dtype.itemsize + extra
    usual = thresholds.BLOCK_BYTES // (8 if extra else source.dtype.itemsize)  # 8 where computed with
    item_size, largest = source.dtype.itemsize, max([0, *map(prod, chunks)])
    # Chunks are decoded and encoded whole, even where they are larger than a block or reach beyond the tensor.
    whole = len(chunks) * item_size
    most = share // cost if share // cost >= largest else (share - largest * whole) // (cost - whole)
    plan = cut(source.sizes, None, source.order, _cut_alignments(source, chunks), max(1, most), usual)
    need = plan.block_elements * cost + max(0, largest - plan.block_elements) * whole
    workers = max(1, min(workers, plan.block_count))
    return Arrangement(plan, engine, workers, max(need, source.least_bytes) * workers)


def _copies(engine: Engine, *sides: Source | Sink | None) -> int:
    """How often an element of a block is held: input, output, and 2 of scratch; 2 more if it travels.

    One more if filters decode or encode it.
    """
    given = [side for side in sides if side]
    encoded = any(side.encoded for side in given)
    travels = engine.travels and any(side.held for side in given)
    return 4 + encoded + 2 * travels


def _chunks(*sides: Source | Sink | None) -> list[CutAlignment]:
    return [side.chunks for side in sides if side and side.chunks]


def _cut_alignments(source: Source, chunks: list[CutAlignment]) -> list[CutAlignment]:
    """Where no chunk of any side is cut, then the last side's chunks; without chunks, the source's alignments."""
    return [tuple(map(lcm, *chunks)), chunks[-1]] if chunks else source.cut_alignments


def _aligned(cut_alignment: CutAlignment, source: Source, other: Source | Sink | None) -> CutAlignment:
    """The source's cut alignment as a multiple of the other side's chunks, if that has chunks.

    Without chunks of its own, a source is cut anywhere as cheaply, in regions of a cut alignment or more.
    """
    if not (other and other.chunks):
        return cut_alignment
    return tuple(map(lcm, cut_alignment, other.chunks)) if source.chunks else _rounded_up(cut_alignment, other.chunks)


def _rounded_up(cut_alignment: CutAlignment, step: CutAlignment) -> CutAlignment:
    """For each dimension, the least multiple of the step that is not below the cut alignment."""
    return tuple(-(-least // each) * each for least, each in zip(cut_alignment, step, strict=True))
