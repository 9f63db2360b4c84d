"""Decides into which blocks a pass is cut, and who does them, within the memory that it may use."""

from __future__ import annotations

from math import lcm, prod
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from revseq_cli.core import platform, thresholds
from revseq_cli.core.errors import EngineError
from revseq_cli.formats.contract import Sink, Source
from revseq_cli.formats.raw import cut_alignment_of, cut_alignments_of
from revseq_cli.pipeline import AUTO, DASK, DEFAULT_MEMORY, PROCESSES, SERIAL
from revseq_cli.pipeline.blocks import Blocks, cut

if TYPE_CHECKING:
    from revseq_cli.pipeline.assembly import Job
    from revseq_cli.pipeline.two_pass import Tiling

    Alignment = tuple[int, ...]  # for each dimension, the multiple of indices at which to cut

_BYTES_OF_A_DIFFERENCE = 64  # for an element that differs, beside its values: its index, the difference, the tolerance
_BYTES_OF_A_LENGTH = 16  # beside the length itself: as an index, and what is computed from that


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
    none. Where the disk has no room for it, there is `direct` and no tiling. Values may `travel` between processes.
    Beside `bytes`, so many are `left`.
    """

    blocks: Blocks
    engine: str
    workers: int
    bytes: int
    spooled: int = 0
    tiling: Tiling | None = None
    direct: int = 0
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
    return _plan(resources, job.values, other, job.axis, job.lengths, extra)


def plan_copy(source: Source, resources: Resources, sink: Sink) -> Plan:
    """The plan of a copy; EngineError if the memory is too small for one block."""
    return _plan(resources, source, sink)


def plan_pair(a: Source, b: Source, resources: Resources) -> Plan:
    """The plan of a comparison of two tensors; EngineError if the memory is too small for one block."""
    return _plan(resources, a, b)


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


def _plan(
    resources: Resources, source: Source, other: Source | Sink | None, axis: int | None = None,
    lengths: Source | None = None, extra: int = 0,
) -> Plan:  # fmt: skip
    """The plan with as many workers as the memory allows.

    A worker less costs less than cuts in bad places, short runs or a temporary file, and half of them cost more.
    """
    engine, memory = resources.engine, resources.memory
    if engine == AUTO:
        engine = choose(resources.usable_cores, source, other)
    cores = resources.usable_cores if engine == PROCESSES else 1
    most_workers = min(cores, max(2, memory // thresholds.PROCESS_BYTES))
    is_in_parent = not source.path or bool(other and not (other.in_workers if isinstance(other, Sink) else other.path))
    travels = engine != SERIAL and is_in_parent
    # An element of a block is held as input and output, with 2 of scratch; once more where filters decode or encode it,
    # and twice where it travels.
    copies = 4 + bool(source.encoded or (other and other.encoded)) + 2 * travels
    extra += _BYTES_OF_A_DIFFERENCE if isinstance(other, Source) else 0
    best, least = None, 0
    for workers in range(most_workers, 0, -1):
        plan, is_cheap = _of_workers(source, other, axis, lengths, copies, extra, workers, memory)
        is_few, least = 2 * workers <= most_workers, plan.bytes
        if plan.bytes <= memory and ((is_cheap and not is_few) or best is None):
            best, best_is_cheap = plan, is_cheap
        if best and (best_is_cheap or is_few):
            break
    if best is None:
        found = f"the memory is {memory} byte{'' if memory == 1 else 's'}, and a block takes {least}"
        raise EngineError(found, f"at least {least} bytes", f"try --memory {least}", source.name)
    if best.workers == 1 and resources.engine == AUTO:
        engine = SERIAL
    scheduler = resources.scheduler if engine == DASK else ""
    return best._replace(
        engine=engine, direct=best.direct * cores, travels=engine != SERIAL and is_in_parent, scheduler=scheduler,
        left=memory - best.bytes,
    )  # fmt: skip


def _of_workers(
    source: Source, other: Source | Sink | None, axis: int | None, lengths: Source | None, copies: int, extra: int,
    workers: int, memory: int,
) -> tuple[Plan, bool]:  # fmt: skip
    """The plan for so many workers, and whether it cuts where cuts are cheap and needs no temporary files.

    Its `bytes` are more than the memory if the smallest block takes more. A line holds the copies of its elements and
    its length. If whole lines of chunks do not fit, the tensor goes through temporary files without chunks. If runs in
    files are short, blocks become larger, or the lines go through a tiling.
    """
    item, size = source.dtype.itemsize, 1 if axis is None else max(1, source.sizes[axis])
    line = (copies * item + extra) * size + (lengths.dtype.itemsize + _BYTES_OF_A_LENGTH if lengths else 0)
    most = max(1, memory // workers * size // line)
    usual = thresholds.BLOCK_BYTES // (8 if extra else item)  # 8 where computed with
    chunks = [side.chunks for side in (source, other) if side and side.chunks]
    alignments = _alignments(source, other, axis)
    blocks, is_cheap = _cut(source, axis, alignments, most, usual)
    spooled, tiling, direct = 0, None, 0
    if axis is not None and other and chunks and (blocks.cuts_lines or blocks.elements > most):
        spooled, alignments = len(chunks), cut_alignments_of(source.dtype, source.sizes, source.order)
        blocks, _ = _cut(source, axis, alignments, most, usual)
        is_cheap = False
    is_large = source.desc.total_bytes >= thresholds.WORTH_TILES and blocks.count > 1
    in_files = spooled or (source.path and not chunks)
    if axis is not None and isinstance(other, Sink) and in_files and is_large:
        folder = str(Path(platform.real_path(other.beside)).parent)
        in_memory = platform.lies_in_memory(source.path) and platform.lies_in_memory(folder)
        short = thresholds.SHORT_RUN // (4 if in_memory else 1)
        if blocks.run(source.order) * item < short:
            extents = [*_rounded_up(cut_alignment_of(short // item, source.sizes, source.order), alignments[-1])]
            extents[axis] = size
            least = prod(map(min, extents, source.sizes))  # elements of whole lines whose runs are not short
            if least <= most:
                blocks, is_cheap = _cut(source, axis, alignments[-1:], most, max(usual, least))
                is_cheap = is_cheap and not spooled
            else:
                direct, is_cheap = -(-least * line // size), False
                if _have_room(folder, 2 * source.desc.total_bytes):
                    from revseq_cli.pipeline import two_pass  # few jobs need it

                    # There is no scratch but for a stripe.
                    line = ((copies - 1) * item + two_pass.BYTES_OF_A_COLUMN) * size
                    tiling, workers = two_pass.best_tiling(source, axis, line // size, workers, memory)
                    blocks = tiling.blocks
    # A chunk that is larger than a block is decoded or encoded alone, and held as often as an element of a copy.
    of_chunks = max([0, *map(prod, chunks)]) * copies * item
    of_lengths = lengths.least_bytes if lengths else 0
    bytes_of_one = max(-(-blocks.elements * line // size), of_chunks, source.least_bytes, of_lengths)
    workers = max(1, min(workers, blocks.count))
    return Plan(blocks, "", workers, bytes_of_one * workers, spooled, tiling, direct), is_cheap


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


def _have_room(folder: str, size: int) -> bool:
    import shutil  # it takes 2 ms with what it imports, and small jobs do not need it

    return shutil.disk_usage(folder).free >= size
