"""Decides into which blocks a pass is cut, and who does them, within the memory that it may use."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import isqrt, lcm, prod
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from revseq_cli.core import platform, thresholds
from revseq_cli.core.errors import EngineError
from revseq_cli.formats.contract import Sink, Source
from revseq_cli.formats.raw import cut_alignment_of, cut_alignments_of
from revseq_cli.pipeline import AUTO, DASK, DEFAULT_MEMORY, PROCESSES, SERIAL
from revseq_cli.pipeline.blocks import Blocks, cut

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from revseq_cli.pipeline.assembly import Job

    Alignment = tuple[int, ...]  # for each dimension, the multiple of indices at which to cut

_BYTES_OF_A_DIFFERENCE = 64  # for an element that differs, beside its values: its index, the difference, the tolerance
_BYTES_OF_A_LENGTH = 16  # beside the length itself: as an index, and what is computed from that
# A block of a tiling has about so many rows, since each sorts its columns anew; a stripe of whole lines has at most
# such a part of a block's elements.
_USUAL_ROWS, _STRIPE_PART = 16, 4
_BYTES_OF_A_COLUMN = 7  # for each element of a tiling: a length, and indices that sort it, of ten rows or more


def _cut_cheaply(
    sizes: tuple[int, ...], axis: int | None, order: str, alignments: Sequence[Alignment], most: int, usual: int
) -> tuple[Blocks, bool]:
    """Blocks of about `usual` elements and at most `most`, and whether they are cut where cuts are cheap.

    Cuts at the first alignment are cheap, and the last is a last resort. The first counts if its smallest block of
    whole lines fits. Otherwise blocks are cut at the last; if whole lines do not fit even then, lines are cut.
    """
    smallest = prod(size if d == axis else min(alignments[0][d], size) for d, size in enumerate(sizes))
    if smallest <= most:
        usual = min(most, max(smallest, usual))
        return cut(sizes, axis, most=usual, alignment=alignments[0], order=order), True
    return cut(sizes, axis, most=most, alignment=alignments[-1], order=order), False


class Resources(NamedTuple):
    """How much of the machine a pass may use.

    `engine` is "auto" or the name of one; `cores` is 0 for as many as this process may use. `memory` is the limit in
    bytes for all workers together; with a `scheduler`, which is its address, for each thread of its workers.
    """

    engine: str = AUTO
    cores: int = 0
    memory: int = DEFAULT_MEMORY
    scheduler: str = ""

    @property
    def usable_cores(self) -> int:
        """The number of cores: asked for, or else what this process may use."""
        return self.cores or platform.cores()

    @property
    def elsewhere(self) -> bool:
        """Whether the workers may have another current folder, so that paths must be absolute."""
        return self.engine == DASK


class Plan(NamedTuple):
    """Blocks, who does them, and the most `bytes` that all workers together hold; of dask's, each thread.

    `spooled` is how many copies of the tensor go through temporary files, since the memory is too small for the chunks
    that its lines cross in the input, in the output, or in both. With a `tiling` its lines go through one, since files
    would be read and written in short runs, and `blocks` are the tiling's; with `direct` bytes of memory there would be
    none. Where the disk has no room for it, there is `direct` and no tiling. A plan that is not `is_cheap` cuts in bad
    places, or needs such files. Values may `travel` between processes. Beside `bytes`, so many are `left`.
    """

    blocks: Blocks
    engine: str
    workers: int
    bytes: int
    spooled: int = 0
    tiling: Tiling | None = None
    direct: int = 0
    is_cheap: bool = True
    travels: bool = False
    scheduler: str = ""
    left: int = 0

    @property
    def lacks_room(self) -> bool:
        """Whether files are read and written in short runs for lack of room for a temporary file."""
        return bool(self.direct) and self.tiling is None

    @property
    def means(self) -> str:
        """The engine, its workers and their memory, for people."""
        if self.engine == DASK:
            where = self.scheduler or "dask's own configuration"
            return f"dask, all workers of {where}, {self.bytes:,} bytes of memory for each thread"
        return f"{self.engine}, workers: {self.workers}, {self.bytes:,} bytes of memory"


def plan_reversal(job: Job, resources: Resources, other: Source | Sink | None = None, extra: int = 0) -> Plan:
    """The plan of a reversal into a sink, or of its comparison with a source; EngineError if the memory is too small.

    Of a source, `extra` bytes are held for each element, beside those that are compared.
    """
    extra += _BYTES_OF_A_DIFFERENCE if isinstance(other, Source) else 0
    return _within(resources, job.values, other, partial(_reversal, job, other, extra))


def plan_copy(source: Source, resources: Resources, sink: Sink) -> Plan:
    """The plan of a copy; EngineError if the memory is too small for one block."""
    return _within(resources, source, sink, partial(_elementwise, source, sink, 0))


def plan_pair(a: Source, b: Source, resources: Resources) -> Plan:
    """The plan of a comparison of two tensors; EngineError if the memory is too small for one block."""
    return _within(resources, a, b, partial(_elementwise, a, b, _BYTES_OF_A_DIFFERENCE))


def plan_fold(source: Source, resources: Resources) -> Plan:
    """The plan of a pass that reads a tensor once and keeps a few numbers; `bytes` is not computed, and is 0."""
    most = thresholds.BLOCK_BYTES // 8  # elements become 8 bytes where they are computed with
    engine = choose(resources.usable_cores, source)
    blocks, _ = _cut_cheaply(source.sizes, None, source.order, source.cut_alignments[:1], most, most)
    workers = resources.usable_cores if engine == PROCESSES else 1
    return Plan(blocks, engine, workers, 0, travels=_travels(engine, source, None))


def plan_move(source: Source, sink: Sink, plan: Plan) -> Plan:
    """The plan of a copy inside another pass, with that pass's engine and within its memory."""
    most = max(1, min(thresholds.BLOCK_BYTES, plan.bytes // plan.workers // 4) // source.dtype.itemsize)
    blocks, _ = _cut_cheaply(source.sizes, None, source.order, _alignments(source, sink), most, most)
    return plan._replace(blocks=blocks)


def choose(cores: int, source: Source, other: Source | Sink | None = None) -> str:
    """The fastest engine for a tensor, and for what is read or written with it."""
    is_encoded = source.encoded or bool(other and other.encoded)
    worth = thresholds.WORTH_PROCESSES_WITH_FILTERS if is_encoded else thresholds.WORTH_PROCESSES
    return PROCESSES if cores > 1 and source.desc.total_bytes >= worth else SERIAL


def _within(
    resources: Resources, source: Source, other: Source | Sink | None, plan_for: Callable[[str, int, int], Plan]
) -> Plan:
    """The plan with as many workers as the memory allows; `plan_for` gets engine, workers, and bytes of each.

    A worker less costs less than cuts in bad places, short runs or a temporary file, and half of them cost more.
    """
    engine, memory = resources.engine, resources.memory
    if engine == AUTO:
        engine = choose(resources.usable_cores, source, other)
    cores = resources.usable_cores if engine == PROCESSES else 1
    workers = min(cores, max(2, memory // thresholds.PROCESS_BYTES))
    best: Plan | None = None
    for count in range(workers, 0, -1):
        plan = plan_for(engine, count, memory // count)
        is_few = 2 * count <= workers
        if plan.bytes <= memory and ((plan.is_cheap and not is_few) or best is None):
            best = plan
        if best and (best.is_cheap or is_few):
            break
    if best is None:
        found = f"the memory is {memory} byte{'' if memory == 1 else 's'}, and a block takes {plan.bytes}"
        raise EngineError(found, f"at least {plan.bytes} bytes", f"try --memory {plan.bytes}", source.name)
    if best.workers == 1 and resources.engine == AUTO:
        engine = SERIAL
    return best._replace(
        engine=engine, left=memory - best.bytes, direct=best.direct * cores, travels=_travels(engine, source, other),
        scheduler=resources.scheduler if engine == DASK else "",
    )  # fmt: skip


def _reversal(job: Job, other: Source | Sink | None, extra: int, engine: str, workers: int, share: int) -> Plan:
    """The plan for workers of `share` bytes each; its `bytes` are more if the smallest block takes more.

    A line holds the copies of its elements and its length. If whole lines of chunks do not fit, the tensor goes through
    temporary files without chunks. If runs in files are short, blocks become larger, or the lines go through a tiling.
    """
    values, size, item = job.values, max(1, job.values.sizes[job.axis]), job.values.dtype.itemsize
    copies = _copies(engine, values, other)
    line = (copies * item + extra) * size + job.lengths.dtype.itemsize + _BYTES_OF_A_LENGTH
    most = max(1, share * size // line)
    usual = thresholds.BLOCK_BYTES // (8 if extra else item)  # 8 where computed with
    cut_blocks = partial(_cut_cheaply, values.sizes, job.axis, values.order)
    chunks = _chunks(values, other)
    alignments = [_aligned(alignment, values, other) for alignment in values.cut_alignments]
    blocks, is_cheap = cut_blocks(alignments, most, usual)
    spooled, tiling, direct = 0, None, 0
    if other and chunks and (blocks.cuts_lines or blocks.elements > most):
        spooled, alignments = len(chunks), cut_alignments_of(values.dtype, values.sizes, values.order)
        blocks, is_cheap = cut_blocks(alignments, most, usual)
    in_files = isinstance(other, Sink) and bool(spooled or (values.path and not chunks))
    if isinstance(other, Sink) and in_files and values.desc.total_bytes >= thresholds.WORTH_TILES and blocks.count > 1:
        short = _short_run(values, other)
        if blocks.run(values.order) * item < short:
            least = _least_of_long_runs(values, job.axis, alignments[-1], short)
            if least <= most:
                blocks, is_cheap = cut_blocks(alignments[-1:], most, max(usual, least))
            else:
                direct, is_cheap = -(-least * line // size), False
                if _have_room(other.beside, 2 * values.desc.total_bytes):
                    line = ((copies - 1) * item + _BYTES_OF_A_COLUMN) * size  # there is no scratch but for a stripe
                    tiling, workers = _tiling(values, job.axis, line // size, workers, share)
                    blocks = tiling.blocks
    # A chunk that is larger than a block is decoded or encoded alone, and held as often as an element of a copy.
    of_chunks = max([0, *map(prod, chunks)]) * copies * item
    bytes_of_one = max(-(-blocks.elements * line // size), of_chunks, values.least_bytes, job.lengths.least_bytes)
    workers = max(1, min(workers, blocks.count))
    return Plan(blocks, engine, workers, bytes_of_one * workers, spooled, tiling, direct, is_cheap and not spooled)


def _elementwise(source: Source, other: Source | Sink, extra: int, engine: str, workers: int, share: int) -> Plan:
    """The plan for a pass without an axis, whose elements take `extra` bytes each beside their copies.

    Chunks are decoded and encoded whole, even where they are larger than a block or reach beyond the tensor.
    """
    item, chunks = source.dtype.itemsize, _chunks(source, other)
    cost = _copies(engine, source, other) * item + extra
    usual = thresholds.BLOCK_BYTES // (8 if extra else item)
    largest, whole = max([0, *map(prod, chunks)]), len(chunks) * item
    most = share // cost if share // cost >= largest else (share - largest * whole) // (cost - whole)
    alignments = _alignments(source, other)
    blocks, is_cheap = _cut_cheaply(source.sizes, None, source.order, alignments, max(1, most), usual)
    least_bytes = blocks.elements * cost + max(0, largest - blocks.elements) * whole
    workers = max(1, min(workers, blocks.count))
    return Plan(blocks, engine, workers, max(least_bytes, source.least_bytes) * workers, is_cheap=is_cheap)


def _copies(engine: str, source: Source, other: Source | Sink | None) -> int:
    """How often an element of a block is held: input, output, and 2 of scratch; 2 more if it travels between processes.

    One more if filters decode or encode it.
    """
    return 4 + bool(source.encoded or (other and other.encoded)) + 2 * _travels(engine, source, other)


def _travels(engine: str, source: Source, other: Source | Sink | None) -> bool:
    """Whether values pass between processes, since they are not in files, or the parent stores them."""
    in_parent = not source.path or bool(other and not (other.in_workers if isinstance(other, Sink) else other.path))
    return engine != SERIAL and in_parent


def _chunks(*sides: Source | Sink | None) -> list[Alignment]:
    return [side.chunks for side in sides if side and side.chunks]


def _alignments(source: Source, other: Source | Sink) -> list[Alignment]:
    """Where no chunk of any side is cut, then a sink's chunks or the larger ones; or the source's alignments."""
    chunks = _chunks(source, other)
    if isinstance(other, Source):
        chunks.sort(key=prod)
    return [tuple(map(lcm, *chunks)), chunks[-1]] if chunks else source.cut_alignments


def _aligned(alignment: Alignment, source: Source, other: Source | Sink | None) -> Alignment:
    """The source's alignment as a multiple of the other side's chunks, if that has chunks.

    Without chunks of its own, a source is cut anywhere as cheaply, in regions of an alignment or more.
    """
    if not (other and other.chunks):
        return alignment
    return tuple(map(lcm, alignment, other.chunks)) if source.chunks else _rounded_up(alignment, other.chunks)


def _rounded_up(alignment: Alignment, step: Alignment) -> Alignment:
    """For each dimension, the least multiple of the step that is not below the alignment."""
    return tuple(-(-least // multiple) * multiple for least, multiple in zip(alignment, step, strict=True))


# Long lines across the rows of a file


class Tiling(NamedTuple):
    """How a tensor passes through a temporary file, seen as columns along its axis, and rows across them.

    `panels` have whole columns; those of a panel are sorted, and are stripes of `width` columns in the file. `blocks`
    are rows of a panel: each is read at once and written as tiles, which are its parts of the stripes; then each is
    read from tiles and written at once.
    """

    panels: Blocks
    blocks: Blocks
    width: int
    order: str

    @property
    def run(self) -> int:
        """The elements that are read or written as one run: of a tile, or, if they are fewer, of input and output."""
        rows = self.blocks.extents[self.blocks.axis or 0]
        return min(self.width * rows, self.blocks.run(self.order))


def make_tiling(sizes: tuple[int, ...], axis: int, *, most: int, order: str = "C") -> Tiling:
    """The tiling with blocks of at most `most` elements, whose runs are as long in the file as in input and output.

    A tile has `rows * width` elements, a row of a block has `most / rows`, and `width` is a constant.
    """
    width = max(1, most // _STRIPE_PART // max(1, sizes[axis]))
    columns = max(1, min(isqrt(most * width), most // _USUAL_ROWS))
    panels = cut(sizes, axis, most=columns * sizes[axis], alignment=(1,) * len(sizes), order=order)
    # A dimension has a whole number of panels, or nearly so.
    even = (max(1, -(-n // max(1, round(n / extent)))) for n, extent in zip(sizes, panels.extents, strict=True))
    panels = replace(panels, extents=tuple(even))
    columns = panels.elements // panels.extents[axis]
    rows = min(max(1, most // columns), panels.extents[axis])
    extents = tuple(rows if d == axis else extent for d, extent in enumerate(panels.extents))
    return Tiling(panels, Blocks(sizes, extents, axis), min(width, columns), order)


def _tiling(values: Source, axis: int, cost: int, workers: int, share: int) -> tuple[Tiling, int]:
    """The tiling, and its workers: fewer, with larger blocks, where that makes short runs longer.

    An element of a block takes `cost` bytes.
    """
    item = values.dtype.itemsize
    for count in range(workers, 0, -1):
        most = max(1, share * workers // count // cost)
        block = min(most, thresholds.BLOCK_BYTES // item)
        tiling = make_tiling(values.sizes, axis, most=block, order=values.order)
        while block < most and tiling.run * item < thresholds.LONG_RUN:
            block = min(most, 2 * block)
            tiling = make_tiling(values.sizes, axis, most=block, order=values.order)
        if tiling.run * item >= thresholds.LONG_RUN:
            break
    return tiling, count


def _short_run(values: Source, sink: Sink) -> int:
    """The bytes of a run in files that is so short that a temporary file is faster."""
    in_memory = all(map(platform.lies_in_memory, (values.path, _folder(sink.beside))))
    return thresholds.SHORT_RUN // (4 if in_memory else 1)


def _least_of_long_runs(values: Source, axis: int, alignment: Alignment, short: int) -> int:
    """The elements of the smallest block of whole lines, cut at the alignment, whose runs are not short."""
    least = cut_alignment_of(short // values.dtype.itemsize, values.sizes, values.order)
    extents = [*_rounded_up(least, alignment)]
    extents[axis] = values.sizes[axis]
    return prod(map(min, extents, values.sizes))


def _folder(path: str) -> str:
    return str(Path(platform.real_path(path)).parent)


def _have_room(beside: str, size: int) -> bool:
    """Whether the disk of the file `beside`, which need not be there yet, has so many free bytes."""
    import shutil  # it takes 2 ms with what it imports, and small jobs do not need it

    return shutil.disk_usage(_folder(beside)).free >= size
