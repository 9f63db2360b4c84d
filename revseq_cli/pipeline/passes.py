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
from revseq_cli.pipeline.alignment import PlacedSource
from revseq_cli.pipeline.blocks import Blocks, cut, lengths_region
from revseq_cli.pipeline.folds import (
    Differences,
    LengthCounts,
    Statistics,
    Tolerance,
    find_differences,
)
from revseq_cli.pipeline.jobs import Job
from revseq_cli.pipeline.lengths import ScannedSource, find_missing_values
from revseq_cli.pipeline.plan import (
    Plan,
    plan_fold,
    plan_move,
    plan_reversal,
)
from revseq_cli.pipeline.resources import DASK, Resources
from revseq_cli.pipeline.tasks import Task, run_tasks
from revseq_cli.pipeline.views import ComputedTask, DerivedSource

MakeReadTask = Callable[[Region], ComputedTask]

_FEW_SEQUENCES = 4096  # up to so many are marked within any memory limit
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
        Task(np.asarray, (source.read_task(region),), region, sink.block_writer(region))
        for region in plan.blocks
    )
    deliver_all("copy", tasks, sink, plan, source)


def move(source: Source, sink: Sink, plan: Plan) -> None:
    """Copy a tensor inside another pass, with that pass's engine and within its memory."""
    copy(source, sink, plan_move(source, sink, plan))


@contextlib.contextmanager
def open_unchunked(source: Source, next_to: str, plan: Plan) -> Iterator[Source]:
    """The source; or, if the plan asks for it, a copy without chunks next to the file `next_to`."""
    if not source.chunks or plan.detour.copies == 0:
        yield source
        return
    with create_scratch(next_to, source) as unchunked:
        move(source, unchunked, plan)
        yield unchunked.open_output()


def make_storage_error(problem: str, name: str) -> EngineError:
    """The error for a file that does not have the bits that were written to it."""
    hint = "run it again: if it fails at the same index, report it, else test the disk"
    return EngineError(f"what was written {problem}", "the same bits", hint, name)


# To reverse


def derive_output(job: Job, make_read_task: MakeReadTask | None = None) -> Source:
    """The output of a job, which is computed where it is read.

    Its read tasks read the files of the job, if no others are given.
    """
    make = make_read_task or partial(_make_read_task, job)
    return DerivedSource(job.values, job.values.dtype, make)


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
        has_length = clamped == length
        # The box around the sequences of this length, in the block and in the whole tensor.
        box = [slice(int(i.min()), int(i.max()) + 1) for i in has_length.nonzero()]
        box[axis] = slice(0, 1)
        chosen = has_length[tuple(box)]
        source_box = list(shift(tuple(box), region))
        # Element j of the output is element length - 1 - j of the sequence, if j < length.
        source_box[axis] = slice(max(0, length - part.stop), length - part.start)
        reversed_part = np.flip(source.read_task(tuple(source_box)).read(), axis)
        box[axis] = slice(0, reversed_part.shape[axis])
        np.copyto(out[tuple(box)], reversed_part, where=chosen)
    return out


def reverse_into(job: Job, sink: Sink, plan: Plan) -> tuple[int, int | None]:
    """Reverse into the sink, which the caller has entered.

    Returns the number of lengths above the axis size; and the least length if the padding of the
    values gives the lengths, else None.
    """
    fetch_sources(plan, job.values, job.lengths)
    is_in_memory = not sink.next_to  # the output, and so its lengths may be, too
    with (
        prepare_job(job, sink.next_to, plan, holds_lengths=is_in_memory) as ready,
        _open_read_tasks(ready, sink.next_to, plan) as make_read_task,
        _open_unchunked_sink(sink, ready.values, plan) as target,
    ):
        tasks = (
            Task(make_read_task(region).read, (), region, target.block_writer(region))
            for region in plan.blocks
        )
        deliver_all("reverse", tasks, target, plan, ready.values)
        if target is not sink:
            move(target.open_output(), sink, plan)
        if job.is_padded:
            return 0, _find_least(ready.lengths)
        return _count_clamped(job, ready.lengths, plan), None


def _open_unchunked_sink(
    sink: Sink, values: Source, plan: Plan
) -> contextlib.AbstractContextManager[Sink]:
    """The sink; or, if the plan asks for it, a temporary file without chunks next to it."""
    if not sink.chunks or plan.detour.copies == 0:
        return contextlib.nullcontext(sink)
    return create_scratch(sink.next_to, values)


def _find_least(lengths: Source) -> int | None:
    """The least of these lengths, which are cheap to read; None if there are none."""
    blocks = _cut_lengths(lengths, thresholds.LENGTHS_AT_ONCE)
    return min((int(lengths.read_task(region).read().min()) for region in blocks), default=None)


def _cut_lengths(lengths: Source, most: int) -> Blocks:
    return cut(lengths.sizes, None, most=most, alignment=lengths.cut_alignments[0])


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


def _count_clamped(job: Job, lengths: Source, plan: Plan) -> int:
    """How many of the lengths that the user gave are above the axis size.

    `lengths` are those of all sequences: each of the user's lengths, equally often.
    """
    size = job.values.sizes[job.axis]
    given_count = job.given_lengths.desc.element_count
    count = lengths.desc.element_count
    if given_count == 0 or count == 0:
        return 0
    if isinstance(job.given_lengths, ScannedSource):  # they are counted up to the axis size
        return 0
    if np.iinfo(lengths.dtype).max <= size:
        return 0
    most = max(1, min(thresholds.LENGTHS_AT_ONCE, plan.bytes // _COUNTED_BYTES))
    clamped = 0
    for region in _cut_lengths(lengths, most):
        clamped += kernel.count_clamped(lengths.read_task(region).read(), size)
    repeats = count // given_count
    return clamped // repeats


def reverse_in_memory(job: Job, resources: Resources) -> tuple[Source, tuple[str, ...]]:
    """The result in memory, for printing, and the notes on the lengths."""
    with MemorySink(job.values) as sink:
        clamped, least = reverse_into(job, sink, plan_reversal(job, resources))
    job.recheck()
    return sink.open_output(), job.describe_lengths(clamped, least)


@contextlib.contextmanager
def prepare_job(
    job: Job, next_to: str, plan: Plan, *, holds_lengths: bool = False
) -> Iterator[Job]:
    """The job with tensors of which any region is cheap to read.

    If need be, they are copied into memory or into temporary files next to the file `next_to`. With
    `holds_lengths`, the lengths are copied into memory even if they are large.
    """
    most_bytes = plan.bytes // 8
    lengths = job.lengths
    if isinstance(lengths, PlacedSource):
        lengths = lengths.in_memory(most_bytes)
    with (
        open_unchunked(job.values, next_to, plan) as values,
        _open_cheap_lengths(lengths, next_to, plan, most_bytes, holds_lengths) as cheap_lengths,
    ):
        yield replace(job, values=values, lengths=cheap_lengths)


@contextlib.contextmanager
def _open_cheap_lengths(
    lengths: Source, next_to: str, plan: Plan, most_bytes: int, holds_lengths: bool
) -> Iterator[Source]:
    """The lengths; or a copy, if each block would otherwise decode them or open their file."""
    fits = lengths.desc.total_bytes <= most_bytes
    is_small = fits and lengths.desc.element_count <= thresholds.LENGTHS_AT_ONCE
    is_decoded = lengths.chunks is not None
    if not is_decoded and not is_small:
        yield lengths
    elif fits or holds_lengths:
        yield MemorySource(lengths.name, lengths.read(), lengths.storage)
    else:
        with create_scratch(next_to, lengths) as unchunked:
            move(lengths, unchunked, plan)
            yield unchunked.open_output()


@contextlib.contextmanager
def _open_read_tasks(job: Job, next_to: str, plan: Plan) -> Iterator[MakeReadTask]:
    """The read tasks of a job; with a tiling, it is first written in tiles next to `next_to`."""
    detour = plan.detour
    if detour.tiling is None:
        yield partial(_make_read_task, job)
        return
    from revseq_cli.pipeline import two_pass  # few jobs need it

    values = job.values
    with two_pass.open_tiles(next_to, values, detour.tiling, detour.enough) as tiles:
        tasks = (
            Task(
                partial(tiles.sort, region, values.read_task(region)),
                (_read_lengths_task(job, region),),
                region,
            )
            for region in detour.tiling.blocks
        )
        for _ in run_stage("sort", tasks, plan, values):
            pass
        yield lambda region: ComputedTask(
            partial(tiles.reverse_region, values.dtype, region),
            (_read_lengths_task(job, region),),
        )


# To compare, and to verify


@dataclass(frozen=True)
class Pair:
    """Two tensors of the same shape and data type, cheap to read in the blocks of the plan.

    With a `job`, `b` is its expected output, and `free_bytes` of memory are left to mark the
    sequences of `a` that are wrong.
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
    """How a pair differs, block by block; of a job's output, also in which sequences.

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
    both = (pair.a.read_task(region), pair.b.read_task(region))
    if pair.job is None:
        return Task(partial(_compare_block, tolerance, first, region), both, region)
    step = partial(_compare_sequences, tolerance, first, region, pair.job.axis)
    return Task(step, (*both, _read_lengths_task(pair.job, region)), region)


def _compare_block(
    tolerance: Tolerance | None, first: int, region: Region, a: Array, b: Array
) -> Differences:
    """The differences of a block of two tensors, with the `first` indices in the whole tensor."""
    differences, _ = find_differences(a, b, tolerance, first)
    return differences.move_to(region)


def _compare_sequences(
    tolerance: Tolerance | None,
    first: int,
    region: Region,
    axis: int,
    a: Array,
    b: Array,
    lengths: Array,
) -> Differences:
    """The differences of a block, and which of its sequences differ."""
    differences, positions = find_differences(a, b, tolerance, first)
    differences = differences.move_to(region)
    if not len(positions):
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
    with (
        prepare_job(job, sink.next_to, plan) as ready,
        open_unchunked(written, sink.next_to, plan) as output,
    ):
        job_back = replace(ready, values=output)
        with _open_read_tasks(job_back, sink.next_to, plan) as make_read_task:
            again = derive_output(job_back, make_read_task)
            differing = compare("verify", Pair(again, ready.values, plan))
    if differing.count:
        index = differing.indices[0].tolist()
        raise make_storage_error(f"does not reverse to the input at {index}", written.name)


# To count


def count_lengths(job: Job, resources: Resources) -> LengthCounts:
    """The counts of the job's lengths, each as often as the user gave it."""
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
