"""The passes over data: copy, reverse, compare, verify and count, with one task for each block."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial, reduce
from math import prod
from typing import Any

import numpy as np

from revseq_cli import files
from revseq_cli.core import signals, thresholds
from revseq_cli.core.dtypes import Array
from revseq_cli.core.errors import EngineError
from revseq_cli.core.tensors import Region, shift, sizes_of
from revseq_cli.formats.contract import FileSink, ReadTask, Sink, Source
from revseq_cli.formats.memory import MemorySink, MemorySource
from revseq_cli.formats.npy import create_scratch
from revseq_cli.operator import kernel
from revseq_cli.pipeline.blocks import cut, lengths_region
from revseq_cli.pipeline.folds import (
    Differences,
    LengthCounts,
    Statistics,
    Tolerance,
    find_differences,
)
from revseq_cli.pipeline.jobs import Job
from revseq_cli.pipeline.lengths import ScannedSource, find_missing_values
from revseq_cli.pipeline.plan import Plan, plan_fold, plan_move, plan_pass
from revseq_cli.pipeline.resources import DASK, Resources
from revseq_cli.pipeline.tasks import Task, run_tasks
from revseq_cli.pipeline.views import ComputedTask, DerivedSource, PlacedSource

_FEW_SEQUENCES = 4096  # up to this many are marked within any memory limit
# In bytes:
_SEQUENCE_BYTES = 48  # for the mark of a sequence, and for what is computed from it
_COUNTED_BYTES = 24  # for a length while it is cast and compared


def run_stage(
    stage: str,
    tasks: Iterable[Task],
    plan: Plan,
    source: Source,
    *,
    in_order: bool = False,
) -> Generator[tuple[Region, Any], None, None]:
    """Run the tasks of a stage, which together read all of the source, and show the progress.

    Yields the region and the result of each task, in the order of `run_tasks`.
    """
    with signals.begin_stage(stage, source.desc.total_bytes) as advance:
        for region, result in run_tasks(tasks, plan, in_order=in_order):
            yield region, result
            advance(prod(sizes_of(region)) * source.dtype.itemsize)


def deliver_all(stage: str, tasks: Iterable[Task], sink: Sink, plan: Plan, source: Source) -> None:
    """Run the tasks of a stage, and let the sink finish each of them."""
    for _, write_result in run_stage(stage, tasks, plan, source, in_order=sink.in_order):
        if write_result is not None:
            sink.receive(write_result)


def fetch_sources(plan: Plan, *sources: Source) -> None:
    """Fetch the files of which a pass reads all.

    Workers of dask have other folders, and so read at the address.
    """
    if plan.engine == DASK:
        return
    for source in sources:
        if source.path and source.identity:
            files.fetch(source.path, source.identity)


def copy(source: Source, sink: Sink, plan: Plan) -> None:
    """Copy into the sink, which the caller has entered."""
    fetch_sources(plan, source)
    tasks = (
        Task(np.asarray, (source.read_task(region),), region, sink.block_writer())
        for region in plan.blocks
    )
    deliver_all("copy", tasks, sink, plan, source)


def make_storage_error(how: str, name: str) -> EngineError:
    """The error for a file whose bits are not those that were written; `how` is how they differ."""
    hint = "run it again: if it fails at the same index, report it, else test the disk"
    return EngineError(f"what was written {how}", "the same bits", hint, name)


# To reverse


class Substitutes(contextlib.ExitStack):
    """Copies that a pass reads or writes instead of tensors that would be slow block by block.

    They are in memory, or in temporary files next to the file `next_to`, which are removed at the
    end of the context. A tensor that needs no detour is used as it is.
    """

    def __init__(self, plan: Plan, next_to: str) -> None:
        super().__init__()
        self._plan = plan
        self._next_to = next_to

    def prepare_job(self, job: Job, *, holds_lengths: bool = False) -> Job:
        """The job with tensors of which any region is cheap to read.

        With `holds_lengths`, the lengths are copied into memory even if they are large.
        """
        values = self.open_unchunked(job.values)
        lengths = self._open_cheap_lengths(job.lengths, holds_lengths=holds_lengths)
        return replace(job, values=values, lengths=lengths)

    def open_unchunked(self, source: Source) -> Source:
        """The source; or, if the plan asks for it, a copy without chunks."""
        if not source.chunks or self._plan.detour.copies == 0:
            return source
        return self._copy_to_file(source)

    def open_unchunked_sink(self, sink: Sink, values: Source) -> Sink:
        """The sink; or, if the plan asks for it, a temporary file without chunks."""
        if not sink.chunks or self._plan.detour.copies == 0:
            return sink
        return self.enter_context(create_scratch(self._next_to, values))

    def _copy_to_file(self, source: Source) -> Source:
        scratch = self.enter_context(create_scratch(self._next_to, source))
        copy(source, scratch, plan_move(source, scratch, self._plan))
        return scratch.open_output()

    def _open_cheap_lengths(self, lengths: Source, *, holds_lengths: bool) -> Source:
        """The lengths, or a copy of which any region is cheap to read.

        Each block would open the file of the lengths, and decode their chunks.

            few lengths              a copy in memory
            chunks that fit          a copy in memory
            chunks that do not fit   a temporary file; with `holds_lengths`, a copy in memory
            all others               the lengths themselves
        """
        most_bytes = self._plan.bytes // 8
        if isinstance(lengths, PlacedSource):
            lengths = lengths.in_memory(most_bytes)  # few lengths, before they are repeated
        do_fit = lengths.desc.total_bytes <= most_bytes
        are_few = do_fit and lengths.desc.element_count <= thresholds.LENGTHS_AT_ONCE
        has_chunks = lengths.chunks is not None
        if not are_few and not has_chunks:
            return lengths
        if do_fit or holds_lengths:
            return MemorySource(lengths.name, lengths.read(), lengths.storage)
        return self._copy_to_file(lengths)

    def derive_output(self, job: Job) -> Source:
        """The output of a job, which is computed where it is read.

        If the plan has a tiling, the values are first written in tiles into a temporary file.
        """
        values = job.values
        detour = self._plan.detour
        if detour.tiling is None:
            return DerivedSource(values, values.dtype, partial(_make_read_task, job))
        from revseq_cli.pipeline import two_pass  # few jobs need it

        memory = detour.memory_for_long_runs
        tiles = self.enter_context(
            two_pass.open_tiles(self._next_to, values, detour.tiling, memory)
        )
        tasks = (
            Task(
                partial(tiles.sort, region, values.read_task(region)),
                (_read_lengths_task(job, region),),
                region,
            )
            for region in detour.tiling.blocks
        )
        for _ in run_stage("sort", tasks, self._plan, values):
            pass

        def make_read_task(region: Region) -> ComputedTask:
            reverse_region = partial(tiles.reverse_region, values.dtype, region)
            return ComputedTask(reverse_region, (_read_lengths_task(job, region),))

        return DerivedSource(values, values.dtype, make_read_task)


def _make_read_task(job: Job, region: Region) -> ComputedTask:
    """The task that reads what a region of the output needs, and reverses it."""
    lengths = _read_lengths_task(job, region)
    part = region[job.axis]
    is_whole = part.stop - part.start == job.values.sizes[job.axis]
    if not is_whole:
        step = partial(_reverse_cut, job.values, job.axis, region)
        return ComputedTask(step, (lengths,))
    reverse_block = partial(kernel.reverse, axis=job.axis, overwrite=True)
    return ComputedTask(reverse_block, (job.values.read_task(region), lengths))


def _read_lengths_task(job: Job, region: Region) -> ReadTask:
    """The task that reads the lengths for a region of the values."""
    return job.lengths.read_task(lengths_region(region, job.axis))


def _reverse_cut(source: Source, axis: int, region: Region, lengths: Array) -> Array:
    """A reversed block that has only a part of its sequences.

    It is a copy of the input, into which the reversed elements are read: once for each length.
    """
    part = region[axis]
    clamped = kernel.clamp(lengths, source.sizes[axis])
    out = source.read_task(region).read().copy()  # a source in memory returns a view of itself
    for length in np.unique(clamped[clamped > part.start]).tolist():
        # Element j comes from element length - 1 - j, if j < length. With length 8, elements 2 to 4
        # come from 5, 4 and 3, and so the part [2, 5) comes from [3, 6).
        source_part = slice(max(0, length - part.stop), length - part.start)
        has_length = clamped == length
        # The box around the sequences of this length: a region of the block's lengths, and so with
        # one index along the axis.
        lengths_box = tuple(slice(int(i.min()), int(i.max()) + 1) for i in has_length.nonzero())
        source_box = list(shift(lengths_box, region))
        source_box[axis] = source_part
        target_box = list(lengths_box)
        target_box[axis] = slice(0, source_part.stop - source_part.start)
        reversed_part = np.flip(source.read_task(tuple(source_box)).read(), axis)
        np.copyto(out[tuple(target_box)], reversed_part, where=has_length[lengths_box])
    return out


def reverse_into(job: Job, sink: Sink, plan: Plan) -> tuple[int, int | None]:
    """Reverse into the sink, which the caller has entered.

    Returns the number of lengths above the axis size; and the least length if the padding of the
    values gives the lengths, else None.
    """
    fetch_sources(plan, job.values, job.lengths)
    # Only a sink in memory has no file. Where the output is held in memory, so may be its lengths.
    is_in_memory = not sink.next_to
    with Substitutes(plan, sink.next_to) as substitutes:
        ready = substitutes.prepare_job(job, holds_lengths=is_in_memory)
        output = substitutes.derive_output(ready)
        target = substitutes.open_unchunked_sink(sink, ready.values)
        tasks = (
            Task(output.read_task(region).read, (), region, target.block_writer())
            for region in plan.blocks
        )
        deliver_all("reverse", tasks, target, plan, ready.values)
        if target is not sink:
            reversed_values = target.open_output()
            copy(reversed_values, sink, plan_move(reversed_values, sink, plan))
        return _count_for_notes(job, ready.lengths, plan)


def _count_for_notes(job: Job, lengths: Source, plan: Plan) -> tuple[int, int | None]:
    """The two numbers that `reverse_into` returns, of which only the needed one is counted.

    `lengths` has a length for each sequence. A length that the user gave stands there once for each
    sequence that it is for; the count is divided by these repeats.
    """
    size = job.values.sizes[job.axis]
    count = lengths.desc.element_count
    if count == 0:
        return 0, None
    most = max(1, min(thresholds.LENGTHS_AT_ONCE, plan.bytes // _COUNTED_BYTES))
    blocks = cut(lengths.sizes, None, most=most, alignment=lengths.cut_alignments[0])
    parts = (lengths.read_task(region).read() for region in blocks)
    if job.padding is not None:
        return 0, min(int(part.min()) for part in parts)
    is_scanned = isinstance(job.given_lengths, ScannedSource)  # lengths up to the axis size
    if is_scanned or np.iinfo(lengths.dtype).max <= size:
        return 0, None
    clamped = sum(kernel.count_clamped(part, size) for part in parts)
    repeats = count // job.given_lengths.desc.element_count
    return clamped // repeats, None


def reverse_into_file(job: Job, sink: FileSink, plan: Plan, *, verified: bool) -> int:
    """Reverse into a new file, which the caller has entered, and add notes on the lengths.

    Returns the number of lengths above the axis size.
    """
    clamped, least = reverse_into(job, sink, plan)
    sink.add_notes(job.describe_lengths(clamped, least))
    if verified:
        verify(job, sink, plan)
    job.recheck()
    return clamped


def reverse_in_memory(job: Job, resources: Resources) -> tuple[Source, tuple[str, ...]]:
    """The result in memory, for printing, and the notes on the lengths."""
    with MemorySink(job.values) as sink:
        clamped, least = reverse_into(job, sink, plan_pass(job.values, None, resources, job))
    job.recheck()
    return sink.open_output(), job.describe_lengths(clamped, least)


# To compare, and to verify


@dataclass(frozen=True)
class Pair:
    """Two tensors of the same shape and data type, cheap to read in the blocks of the plan.

    With a `job`, `b` is its expected output, and the sequences of `a` that are wrong are marked in
    the `free_bytes` of memory that the plan leaves.
    """

    a: Source
    b: Source
    plan: Plan
    job: Job | None = None
    free_bytes: int = 0


def verify_copy(source: Source, sink: Sink, plan: Plan) -> None:
    """Compare what was written with the source; EngineError if a bit differs."""
    written = sink.open_output()
    if written.desc != source.desc:
        raise make_storage_error("differs from the input in shape or data type", written.name)
    differing = compare("verify", Pair(source, written, plan.to_read_back(sink)))
    if differing.count:
        index = differing.indices[0].tolist()
        raise make_storage_error(f"differs from the input at {index}", written.name)


def compare(
    stage: str, pair: Pair, tolerance: Tolerance | None = None, first: int = 1
) -> Differences:
    """How a pair differs, block by block; for a job's output, also which sequences differ.

    The `first` differences are kept. Sequences are not marked if they are too many.
    """
    job = pair.job
    fetch_sources(pair.plan, pair.a, pair.b)
    if job:
        fetch_sources(pair.plan, job.lengths)
    tasks = (_make_comparison(pair, region, tolerance, first) for region in pair.plan.blocks)
    parts = run_stage(stage, tasks, pair.plan, pair.a)
    total = Differences.none(pair.a.dtype, len(pair.a.sizes))
    if job is None or not _can_mark_sequences(pair, job):
        for _, part in parts:
            total = total.merge(part, first)
        return total
    marks = np.zeros(job.lengths.sizes, np.bool_)
    for region, part in parts:
        total = total.merge(part, first)
        if part.sequences is not None:
            marks[lengths_region(region, job.axis)] |= part.sequences
    return replace(total, sequences=marks, sequence_count=int(np.count_nonzero(marks)))


def _can_mark_sequences(pair: Pair, job: Job) -> bool:
    """Whether there is memory to mark each sequence.

    If blocks cut sequences, marks are needed to count each sequence once. Such sequences are long,
    and so there are few.
    """
    if pair.plan.blocks.cuts_sequences:
        return True
    most = max(_FEW_SEQUENCES, pair.free_bytes // _SEQUENCE_BYTES)
    return job.lengths.desc.element_count <= most


def _make_comparison(pair: Pair, region: Region, tolerance: Tolerance | None, first: int) -> Task:
    """The task that compares a block; of a job's output, also its sequences."""
    step = partial(_compare_block, tolerance, first, region)
    read_tasks = (pair.a.read_task(region), pair.b.read_task(region))
    if pair.job is None:
        return Task(step, read_tasks, region)
    step = partial(step, axis=pair.job.axis)
    return Task(step, (*read_tasks, _read_lengths_task(pair.job, region)), region)


def _compare_block(
    tolerance: Tolerance | None,
    first: int,
    region: Region,
    a: Array,
    b: Array,
    lengths: Array | None = None,
    *,
    axis: int = 0,
) -> Differences:
    """The differences of a block of two tensors, with the `first` indices in the whole tensor.

    With lengths, also which of its sequences along the axis differ.
    """
    differences, positions = find_differences(a, b, tolerance, first)
    differences = differences.move_to(region)
    if lengths is None or not len(positions):
        return differences
    differs = np.zeros(sizes_of(region), np.bool_)
    differs.reshape(-1)[positions] = True
    shape = [1] * differs.ndim
    shape[axis] = -1
    j = np.arange(region[axis].start, region[axis].stop).reshape(shape)
    is_inside = j < kernel.clamp(lengths, region[axis].stop)
    sequences = np.asarray(differs.any(axis, keepdims=True))
    return replace(
        differences,
        inside=int(np.count_nonzero(differs & is_inside)),
        sequences=sequences,
        sequence_count=int(np.count_nonzero(sequences)),
    )


def verify(job: Job, sink: Sink, plan: Plan) -> None:
    """Reverse the output again and compare it with the input; EngineError if they differ."""
    written = sink.open_output()
    plan = plan.to_read_back(sink)
    with Substitutes(plan, sink.next_to) as substitutes:
        ready = substitutes.prepare_job(job)
        job_back = replace(ready, values=substitutes.open_unchunked(written))
        pair = Pair(substitutes.derive_output(job_back), ready.values, plan)
        differing = compare("verify", pair)
    if differing.count:
        index = differing.indices[0].tolist()
        raise make_storage_error(f"does not reverse to the input at {index}", written.name)


# To count


def count_lengths(job: Job, resources: Resources) -> LengthCounts:
    """The counts of the job's lengths as the user gave them, not repeated along other axes."""
    return count_for_size(job.given_lengths, job.values.sizes[job.axis], resources)


def count_for_size(lengths: Source, size: int, resources: Resources) -> LengthCounts:
    """The counts and the range of unsigned lengths, for sequences of `size` elements."""
    parts = _fold(lengths, partial(LengthCounts.of, size), resources)
    return reduce(LengthCounts.merge, parts, LengthCounts())


def compute_statistics(source: Source, resources: Resources) -> Statistics:
    """The statistics of a whole tensor, without the values that its file says are missing."""
    step: Callable[[Array], Statistics] = Statistics.of
    if source.dtype.kind in "iuf":
        missing_values = find_missing_values(source)
        if missing_values:
            step = partial(_compute_without, missing_values)
    return reduce(Statistics.merge, _fold(source, step, resources), Statistics())


def _compute_without(missing_values: tuple[Any, ...], values: Array) -> Statistics:
    """The statistics of a block without missing values, which are only counted."""
    is_missing = np.any([values == value for value in missing_values], axis=0)
    statistics = Statistics.of(values[~is_missing])
    return statistics._replace(missing=int(np.count_nonzero(is_missing)))


def _fold(source: Source, step: Callable[[Array], Any], resources: Resources) -> Iterator[Any]:
    """The result of the step for each block."""
    plan = plan_fold(source, resources)
    fetch_sources(plan, source)
    tasks = (Task(step, (source.read_task(region),), region) for region in plan.blocks)
    for _, part in run_stage("read", tasks, plan, source):
        yield part
    source.recheck()
