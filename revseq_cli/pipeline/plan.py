"""Decides into which blocks a pass is cut, and who does them, within the memory that it may use."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from math import isqrt, lcm, prod
from typing import Any, NamedTuple

from revseq_cli.core import platform, thresholds
from revseq_cli.core.errors import EngineError
from revseq_cli.core.tensors import Region, chunk_boxes
from revseq_cli.formats.contract import Sink, Source
from revseq_cli.formats.raw import cut_alignment_of, cut_alignments_of

AUTO = "auto"
SERIAL, PROCESSES, DASK = ENGINES = "serial", "processes", "dask"

Alignment = tuple[int, ...]  # for each dimension, the multiple of indices at which to cut

_BYTES_OF_A_DIFFERENCE = 64  # for an element that differs, beside its values: its index, the difference, the tolerance
_BYTES_OF_A_LENGTH = 16  # beside the length itself: as an index, and what is computed from that
_BYTES_OF_A_COLUMN = 7  # for each element of a block: a length, and indices that sort it, of ten rows or more
# A block has about so many rows, since each sorts its columns anew; a stripe of whole lines has at most such a part of
# a block's elements.
_USUAL_ROWS, _STRIPE_PART = 16, 4


def lengths_of(region: Region, axis: int) -> Region:
    """The region of the lengths that belongs to a region of the values."""
    return (*region[:axis], slice(0, 1), *region[axis + 1 :])


@dataclass(frozen=True)
class Blocks:
    """Blocks of `extents` indices in each dimension, smaller at the far ends; they are computed while iterating."""

    sizes: tuple[int, ...]
    extents: tuple[int, ...]
    axis: int | None = None

    @property
    def count(self) -> int:
        """The number of blocks, which may be too large for len()."""
        return prod(-(-size // extent) for size, extent in zip(self.sizes, self.extents, strict=True))

    def __iter__(self) -> Iterator[Region]:
        """The blocks in C order; none for a tensor without elements."""
        whole = tuple(slice(0, size) for size in self.sizes)
        return chunk_boxes(whole, self.extents) if self.count else iter(())

    @property
    def elements(self) -> int:
        """The number of elements in the largest block."""
        return prod(self.extents)

    @property
    def cuts_lines(self) -> bool:
        """Whether lines are cut, since a whole one is too large for a block."""
        return self.axis is not None and self.extents[self.axis] < self.sizes[self.axis]

    def run_length(self, order: str) -> int:
        """The number of a block's elements that lie one after another in the memory order `order`."""
        run = 1
        for d in reversed(_slowest_first(len(self.sizes), order)):
            run *= self.extents[d]
            if self.extents[d] < self.sizes[d]:
                break
        return run


def cut(sizes: tuple[int, ...], axis: int | None, *, most: int, alignment: tuple[int, ...], order: str = "C") -> Blocks:
    """Cut the slowest dimension first, at multiples of its alignment, until a block has at most `most` elements.

    The axis comes last in any order, so that lines stay whole as long as one of them fits. `order` is the memory order,
    "C" or "F". No block is smaller than one alignment in each dimension, and so it may have more than `most`.
    """
    extents = [max(1, size) for size in sizes]
    others = (d for d in _slowest_first(len(sizes), order) if d != axis)
    for d in itertools.chain(others, [] if axis is None else [axis]):
        across = prod(extents) // extents[d]
        steps = most // (across * alignment[d])
        extents[d] = min(extents[d], max(1, steps) * alignment[d])
        if steps:
            break
    return Blocks(sizes, tuple(extents), axis)


def _slowest_first(rank: int, order: str) -> range:
    return range(rank) if order == "C" else range(rank)[::-1]


class Resources(NamedTuple):
    """How much of the machine a pass may use.

    `engine` is "auto" or the name of one; `cores` is 0 for as many as this process may use. `memory` is the limit in
    bytes for all workers together; with a `scheduler`, which is its address, for each thread of its workers.
    """

    engine: str = AUTO
    cores: int = 0
    memory: int = 1 << 30
    scheduler: str = ""

    @property
    def usable_cores(self) -> int:
        """The number of cores: asked for, or else what this process may use."""
        return self.cores or platform.cores()

    @property
    def elsewhere(self) -> bool:
        """Whether the workers may have another current folder, so that paths must be absolute."""
        return self.engine == DASK


class Tiling(NamedTuple):
    """How a tensor passes through a temporary file, seen as columns along its axis, and rows across them.

    The columns of a block are sorted, as they are in all blocks above and below it, and are stripes of `width` columns
    in the file. Each block is read at once and written as tiles, which are its parts of the stripes; then each is read
    from tiles and written at once.
    """

    blocks: Blocks
    width: int
    order: str

    @property
    def run_length(self) -> int:
        """The elements that are read or written as one run: of a tile, or, if they are fewer, of input and output."""
        rows = self.blocks.extents[self.blocks.axis or 0]
        return min(self.width * rows, self.blocks.run_length(self.order))


def make_tiling(sizes: tuple[int, ...], axis: int, *, most: int, order: str = "C") -> Tiling:
    """The tiling with blocks of at most `most` elements, whose runs are as long in the file as in input and output.

    A tile has `rows * width` elements, a row of a block has `most / rows`, and `width` is a constant.
    """
    width = max(1, most // _STRIPE_PART // max(1, sizes[axis]))
    columns = max(1, min(isqrt(most * width), most // _USUAL_ROWS))
    whole = cut(sizes, axis, most=columns * sizes[axis], alignment=(1,) * len(sizes), order=order).extents
    # A dimension has a whole number of blocks, or nearly so.
    extents = [max(1, -(-size // max(1, round(size / extent)))) for size, extent in zip(sizes, whole, strict=True)]
    columns = prod(extents) // extents[axis]
    extents[axis] = min(max(1, most // columns), extents[axis])
    return Tiling(Blocks(sizes, tuple(extents), axis), min(width, columns), order)


class Plan(NamedTuple):
    """Blocks, who does them, and the most `bytes` that all workers together hold; of dask's, each thread.

    `spooled` is how many copies of the tensor go through temporary files, since the memory is too small for the chunks
    that its lines cross in the input, in the output, or in both. With a `tiling` its lines go through one, since files
    would be read and written in short runs, and `blocks` are the tiling's; with `enough` bytes of memory there would be
    none. Values may `travel` between processes. Beside `bytes`, so many are `left`.
    """

    blocks: Blocks
    engine: str
    workers: int
    bytes: int
    spooled: int = 0
    tiling: Tiling | None = None
    enough: int = 0
    travels: bool = False
    scheduler: str = ""
    left: int = 0

    def to_read_back(self, sink: Sink) -> Plan:
        """The plan to read an output back, which workers elsewhere may not see."""
        return self if sink.in_workers or self.engine != DASK else self._replace(engine=SERIAL)


def plan_reversal(
    job: Any,  # noqa: ANN401 - a Job, whose module needs this one
    resources: Resources,
    other: Source | Sink | None = None,
    extra: int = 0,
) -> Plan:
    """The plan of a reversal into a sink, or of its comparison with a source; EngineError if the memory is too small.

    Of a source, `extra` bytes are held for each element, beside those that are compared.
    """
    return _Pass(resources, job.values, other, job.axis, job.lengths, extra).plan()


def plan_pass(source: Source, other: Source | Sink, resources: Resources) -> Plan:
    """The plan of a copy into a sink, or of a comparison; EngineError if the memory is too small for one block."""
    return _Pass(resources, source, other).plan()


def plan_fold(source: Source, resources: Resources) -> Plan:
    """The plan of a pass that reads a tensor once and keeps a few numbers; `bytes` is not computed, and is 0."""
    most = thresholds.BLOCK_BYTES // 8  # elements become 8 bytes where they are computed with
    engine = choose(resources.usable_cores, source)
    blocks, _ = _cut(source, None, source.cut_alignments[:1], most, most)
    workers = resources.usable_cores if engine == PROCESSES else 1
    return Plan(blocks, engine, workers, 0, travels=engine != SERIAL and not source.path)


def plan_move(source: Source, sink: Sink, plan: Plan) -> Plan:
    """The plan of a copy inside another pass, with that pass's engine and within its memory."""
    most = max(1, min(thresholds.BLOCK_BYTES, plan.bytes // plan.workers // 4) // source.dtype.itemsize)
    return plan._replace(blocks=_cut(source, None, _alignments(source, sink, None), most, most)[0])


def choose(cores: int, source: Source, other: Source | Sink | None = None) -> str:
    """The fastest engine for a tensor, and for what is read or written with it."""
    is_encoded = source.encoded or bool(other and other.encoded)
    worth = thresholds.WORTH_PROCESSES_WITH_FILTERS if is_encoded else thresholds.WORTH_PROCESSES
    return PROCESSES if cores > 1 and source.desc.total_bytes >= worth else SERIAL


class _Pass:
    """A source, with what is written from it or compared with it, along an axis or none; and what its blocks cost."""

    def __init__(
        self, resources: Resources, source: Source, other: Source | Sink | None, axis: int | None = None,
        lengths: Source | None = None, extra: int = 0,
    ) -> None:  # fmt: skip
        self.resources, self.source, self.other, self.axis = resources, source, other, axis
        cores = resources.usable_cores
        self.engine = choose(cores, source, other) if resources.engine == AUTO else resources.engine
        self.cores = cores if self.engine == PROCESSES else 1
        is_local = other is not None and not (other.in_workers if isinstance(other, Sink) else other.path)
        self.travels = self.engine != SERIAL and (is_local or not source.path)
        # An element of a block is held as input and output, with 2 of scratch; once more where filters decode or encode
        # it, and twice where it travels.
        self.copies = 4 + bool(source.encoded or (other and other.encoded)) + 2 * self.travels
        extra += _BYTES_OF_A_DIFFERENCE if isinstance(other, Source) else 0
        item, self.size = source.dtype.itemsize, 1 if axis is None else max(1, source.sizes[axis])
        # Bytes for the elements of a line, and for its length.
        self.line = (self.copies * item + extra) * self.size
        self.line += lengths.dtype.itemsize + _BYTES_OF_A_LENGTH if lengths else 0
        self.usual = thresholds.BLOCK_BYTES // (8 if extra else item)  # a pass that computes holds 8 bytes
        # Chunks are decoded and encoded whole. A copy does that on the way, and they may be larger than its block; a
        # reversal holds one as often as a block's elements.
        chunks = [side.chunks for side in (source, other) if side and side.chunks]
        self.largest, self.chunked = max([0, *map(prod, chunks)]) * item, len(chunks)
        self.least = max(source.least_bytes, lengths.least_bytes if lengths else 0)
        if axis is not None:
            self.least = max(self.least, self.largest * self.copies)

    def plan(self) -> Plan:
        """The plan with as many workers as the memory allows.

        A worker less costs less than cuts in bad places, short runs or a temporary file, and half of them cost more.
        """
        memory, best = self.resources.memory, None
        most_workers = min(self.cores, max(2, memory // thresholds.PROCESS_BYTES))
        for workers in range(most_workers, 0, -1):
            if best and 2 * workers <= most_workers:
                break
            plan, is_cheap = self._in_blocks(workers)
            if plan.bytes <= memory and (is_cheap or not best):
                best = plan
                if is_cheap:
                    break
        if best is None:
            found = f"the memory is {memory} bytes, and a block takes {plan.bytes}"
            raise EngineError(found, f"at least {plan.bytes} bytes", f"try --memory {plan.bytes}", self.source.name)
        if best.enough and (tiled := self._in_tiles(best)).bytes <= memory:
            best = tiled
        engine = SERIAL if best.workers == 1 and self.resources.engine == AUTO else self.engine
        scheduler = self.resources.scheduler if engine == DASK else ""
        travels = self.travels and engine != SERIAL
        return best._replace(engine=engine, travels=travels, scheduler=scheduler, left=memory - best.bytes)

    def _in_blocks(self, workers: int) -> tuple[Plan, bool]:
        """The plan for so many workers, and whether it cuts where cuts are cheap and needs no temporary files.

        Its `bytes` are more than the memory if the smallest block takes more. If whole lines of chunks do not fit, the
        tensor goes through temporary files without chunks. If runs in files are short, blocks become larger; if those
        do not fit, `enough` is the memory for them.
        """
        source, axis, item = self.source, self.axis, self.source.dtype.itemsize
        share = self.resources.memory // workers
        most = max(1, share * self.size // self.line)
        if axis is None and most * item < self.largest:
            most = max(1, (share - self.largest * self.chunked) // (self.line - item * self.chunked))
        alignments = _alignments(source, self.other, axis)
        blocks, is_cheap = _cut(source, axis, alignments, most, self.usual)
        spooled = enough = 0
        if axis is not None and self.other and self.chunked and (blocks.cuts_lines or blocks.elements > most):
            spooled, alignments = self.chunked, cut_alignments_of(source.dtype, source.sizes, source.order)
            blocks, _ = _cut(source, axis, alignments, most, self.usual)
        is_large = source.desc.total_bytes >= thresholds.WORTH_TILES and blocks.count > 1
        in_files = spooled or (source.path and not self.chunked)
        short = thresholds.LONG_RUN if platform.is_remote(source.path) else thresholds.SHORT_RUN
        is_short = is_large and in_files and blocks.run_length(source.order) * item < short
        if axis is not None and isinstance(self.other, Sink) and is_short:
            extents = [*_rounded_up(cut_alignment_of(short // item, source.sizes, source.order), alignments[-1])]
            extents[axis] = self.size
            least = prod(map(min, extents, source.sizes))  # elements of whole lines whose runs are not short
            if least <= most:
                blocks, is_cheap = _cut(source, axis, alignments[-1:], most, max(self.usual, least))
            else:
                enough = -(-least * self.line // self.size) * self.cores
        return self._made(blocks, workers, self.line, spooled, enough), is_cheap and not spooled and not enough

    def _in_tiles(self, plan: Plan) -> Plan:
        """The plan through a tiling: with fewer workers, where larger blocks make longer runs."""
        source, item = self.source, self.source.dtype.itemsize
        assert self.axis is not None  # noqa: S101 - for mypy
        cost = (self.copies - 1) * item + _BYTES_OF_A_COLUMN  # there is no scratch but for a stripe
        for count in range(plan.workers, 0, -1):
            most = max(1, self.resources.memory // count // cost)
            block = min(most, thresholds.BLOCK_BYTES // item)
            tiling = make_tiling(source.sizes, self.axis, most=block, order=source.order)
            while block < most and tiling.run_length * item < thresholds.LONG_RUN:
                block = min(most, 2 * block)
                tiling = make_tiling(source.sizes, self.axis, most=block, order=source.order)
            if tiling.run_length * item >= thresholds.LONG_RUN:
                break
        made = self._made(tiling.blocks, count, cost * self.size, plan.spooled, plan.enough)
        return made._replace(tiling=tiling)

    def _made(self, blocks: Blocks, workers: int, line: int, spooled: int, enough: int) -> Plan:
        workers = max(1, min(workers, blocks.count))
        beyond = self.largest - blocks.elements * self.source.dtype.itemsize if self.axis is None else 0
        bytes_of_one = max(-(-blocks.elements * line // self.size) + max(0, beyond) * self.chunked, self.least)
        return Plan(blocks, self.engine, workers, bytes_of_one * workers, spooled, enough=enough)


def _cut(source: Source, axis: int | None, alignments: list[Alignment], most: int, usual: int) -> tuple[Blocks, bool]:
    """Blocks of about `usual` elements and at most `most`, and whether they are cut where cuts are cheap.

    Cuts at the first alignment are cheap, and the last is a last resort. The first counts if its smallest block of
    whole lines fits. Otherwise blocks are cut at the last; if whole lines do not fit even then, lines are cut.
    """
    sizes, order = source.sizes, source.order
    smallest = prod(size if d == axis else min(alignments[0][d], size) for d, size in enumerate(sizes))
    if smallest <= most:
        usual = min(most, max(smallest, usual))
        return cut(sizes, axis, most=usual, alignment=alignments[0], order=order), True
    return cut(sizes, axis, most=most, alignment=alignments[-1], order=order), False


def _alignments(source: Source, other: Source | Sink | None, axis: int | None) -> list[Alignment]:
    """Where to cut: where no chunk of any side is cut; in the end, if no lines are, only those of one side are not.

    Without chunks of its own, a source is cut anywhere as cheaply, in regions of an alignment or more.
    """
    chunks = other.chunks if other else None
    if not chunks:
        return source.cut_alignments
    if not source.chunks:
        return [_rounded_up(alignment, chunks) for alignment in source.cut_alignments]
    whole: list[Alignment] = [tuple(map(lcm, alignment, chunks)) for alignment in source.cut_alignments]
    if axis is not None:
        return whole
    return [*whole, chunks if isinstance(other, Sink) else max(source.chunks, chunks, key=prod)]


def _rounded_up(alignment: Alignment, step: Alignment) -> Alignment:
    """For each dimension, the least multiple of the step that is not below the alignment."""
    return tuple(-(-least // multiple) * multiple for least, multiple in zip(alignment, step, strict=True))
