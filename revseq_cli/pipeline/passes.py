"""The passes over data, in a task for each block: to copy, to reverse, to compare, to verify, to count."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial, reduce
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revseq_cli import files
from revseq_cli.core import signals, thresholds
from revseq_cli.core.errors import EngineError
from revseq_cli.core.tensors import Region, sizes_of
from revseq_cli.formats.contract import FileSink, Sink, Source
from revseq_cli.formats.npy import scratch
from revseq_cli.formats.raw import MemorySink, MemorySource
from revseq_cli.operator import kernel
from revseq_cli.pipeline.alignment import PlacedSource
from revseq_cli.pipeline.blocks import cut, lengths_region
from revseq_cli.pipeline.folds import Differences, LengthCounts, Statistics, Tolerance, differences
from revseq_cli.pipeline.jobs import Job
from revseq_cli.pipeline.lengths import ScannedSource, find_missing_values
from revseq_cli.pipeline.plan import (
    DASK,
    Plan,
    Resources,
    plan_fold,
    plan_move,
    plan_reversal,
)
from revseq_cli.pipeline.tasks import Task, run_tasks
from revseq_cli.pipeline.views import ComputedTask, DerivedSource

ReadTaskOf = Callable[[Region], ComputedTask]

_FEW_LINES = 4096  # are few in any memory
_LINE_BYTES = 48  # that are kept of a line, and computed with


def completed(
    stage: str, tasks: Iterable[Task], plan: Plan, source: Source, *, in_order: bool = False
) -> Generator[tuple[Region, Any], None, None]:
    """Run a stage of tasks, which together read all of the source: region and result, in the order of `run_tasks`."""
    with signals.begun(stage, source.desc.total_bytes) as advance:
        for region, result in run_tasks(tasks, plan, in_order=in_order):
            yield region, result
            advance(prod(sizes_of(region)) * source.dtype.itemsize)


def deliver_all(stage: str, tasks: Iterable[Task], sink: Sink, plan: Plan, source: Source) -> None:
    """Run a stage of tasks, and let the sink finish each."""
    for _, write_result in completed(stage, tasks, plan, source, in_order=sink.in_order):
        if write_result is not None:
            sink.receive(write_result)


def bring_near(plan: Plan, *sources: Source) -> None:
    """Fetch the files of which a pass reads all; dask's workers read at the address, since they have other folders."""
    for source in sources:
        if plan.engine != DASK and source.path and source.identity:
            files.bring_near(source.path, source.identity)


def copy(source: Source, sink: Sink, plan: Plan) -> None:
    """Copy into the sink, which the caller has entered."""
    bring_near(plan, source)
    tasks = (
        Task(np.asarray, (source.read_task(region),), region, sink.block_writer(region))
        for region in plan.blocks
    )
    deliver_all("copy", tasks, sink, plan, source)


def move(source: Source, sink: Sink, plan: Plan) -> None:
    """Copy a tensor inside another pass, with that pass's engine and within its memory."""
    copy(source, sink, plan_move(source, sink, plan))


@contextlib.contextmanager
def spooled(source: Source, beside: str, plan: Plan) -> Iterator[Source]:
    """The source; or, if the plan is spooled and the source has chunks, its copy next to the file `beside`."""
    if not (plan.detour.copies and source.chunks):
        yield source
        return
    with scratch(beside, source) as spool:
        move(source, spool, plan)
        yield spool.written()


def untrue(found: str, where: str) -> EngineError:
    """The error for a file that does not hold what was written to it; one at the same place twice is a bug."""
    hint = "run it again: if it fails at the same place, report it; if not, test the disk and the memory"
    return EngineError(f"what was written {found}", "the same bits", hint, where)


# To reverse


def reversed_output(job: Job, read_task_of: ReadTaskOf | None = None) -> Source:
    """The output of a job, which is computed where it is read, by read tasks that read the job's files unless given."""
    return DerivedSource(job.values, job.values.dtype, read_task_of or partial(_read_task, job))


def _read_task(job: Job, region: Region) -> ComputedTask:
    """What reads of the job's own files what a region of the output needs, and reverses it."""
    lengths, part = job.lengths.read_task(lengths_region(region, job.axis)), region[job.axis]
    if part.stop - part.start < job.values.sizes[job.axis]:
        return ComputedTask(partial(_reverse_cut, job.values, job.axis, region), (lengths,))
    step = partial(kernel.reverse, axis=job.axis, overwrite=True)
    return ComputedTask(step, (job.values.read_task(region), lengths))


def _reverse_cut(source: Source, axis: int, region: Region, lengths: NDArray[Any]) -> NDArray[Any]:
    """A reversed block of parts of lines: a copy of the input, then for each length one read of what is reversed."""
    part = region[axis]
    clamped = kernel.clamp(lengths, source.sizes[axis])
    out = source.read_task(region).read().copy()  # a source in memory returns a view of itself
    for length in np.unique(clamped[clamped > part.start]).tolist():
        lines = clamped == length
        box = [slice(int(i.min()), int(i.max()) + 1) for i in lines.nonzero()]
        box[axis] = slice(0, 1)
        of_file = [
            slice(r.start + b.start, r.start + b.stop) for r, b in zip(region, box, strict=True)
        ]
        # Below `length`, element j of the reversal is element length - 1 - j of the line.
        of_file[axis] = slice(max(0, length - part.stop), length - part.start)
        reversed_part = np.flip(source.read_task(tuple(of_file)).read(), axis)
        chosen = lines[tuple(box)]
        box[axis] = slice(0, reversed_part.shape[axis])
        np.copyto(out[tuple(box)], reversed_part, where=chosen)
    return out


def reverse(job: Job, sink: Sink, plan: Plan) -> tuple[int, int | None]:
    """Reverse into the sink, which the caller has entered.

    Returns the number of lengths above the axis size; and the least length if the padding of the
    values gives the lengths, else None.
    """
    bring_near(plan, job.values, job.lengths)
    with (
        made_ready(job, sink.beside, plan, holds_lengths=not sink.beside) as ready,
        _read_tasks(ready, sink.beside, plan) as read_task_of,
        # If the plan is spooled and the sink has chunks, blocks go into a temporary file without.
        scratch(sink.beside, ready.values)
        if plan.detour.copies and sink.chunks
        else contextlib.nullcontext(sink) as to,
    ):
        tasks = (
            Task(read_task_of(region).read, (), region, to.block_writer(region))
            for region in plan.blocks
        )
        deliver_all("reverse", tasks, to, plan, ready.values)
        if to is not sink:
            move(to.written(), sink, plan)
        if job.is_padded:
            return 0, _find_least(ready.lengths)
        return _clamped(job, ready.lengths, plan), None


def _find_least(lengths: Source) -> int | None:
    """The least of these lengths, which are cheap to read; None if there are none."""
    blocks = cut(
        lengths.sizes,
        None,
        most=thresholds.LENGTHS_AT_ONCE,
        alignment=lengths.cut_alignments[0],
    )
    return min((int(lengths.read_task(region).read().min()) for region in blocks), default=None)


def write(job: Job, sink: FileSink, plan: Plan, *, verified: bool) -> int:
    """Reverse into a new file, which the caller has entered, and add notes on the lengths.

    Returns the number of lengths above the axis size.
    """
    clamped, least = reverse(job, sink, plan)
    sink.notes += job.describe_lengths(clamped, least)
    if verified:
        verify(job, sink, plan)
    job.recheck()
    return clamped


def _clamped(job: Job, lengths: Source, plan: Plan) -> int:
    """How many of the lengths that the user gave are above the axis size; these are the same, repeated for lines."""
    size, own, count = (
        job.values.sizes[job.axis],
        job.given_lengths.desc.element_count,
        lengths.desc.element_count,
    )
    if (
        isinstance(job.given_lengths, ScannedSource)
        or not own
        or not count
        or np.iinfo(lengths.dtype).max <= size
    ):
        return 0
    most = max(
        1, min(thresholds.LENGTHS_AT_ONCE, plan.bytes // 24)
    )  # a cast holds a length some three times
    blocks = cut(lengths.sizes, None, most=most, alignment=lengths.cut_alignments[0])
    clamped = sum(kernel.count_clamped(lengths.read_task(region).read(), size) for region in blocks)
    return clamped // (count // own)


def reversed_in_memory(job: Job, resources: Resources) -> tuple[Source, tuple[str, ...]]:
    """The result in memory, for printing, and the notes on the lengths."""
    with MemorySink(job.values) as sink:
        clamped, least = reverse(job, sink, plan_reversal(job, resources))
    job.recheck()
    return sink.written(), job.describe_lengths(clamped, least)


@contextlib.contextmanager
def made_ready(job: Job, beside: str, plan: Plan, *, holds_lengths: bool = False) -> Iterator[Job]:
    """The job with tensors of which any region is cheap to read: in memory or temporary files if need be.

    With `holds_lengths`, the lengths are never in a file, as where the whole output is in memory.
    """
    lengths = (
        job.lengths.in_memory(plan.bytes // 8)
        if isinstance(job.lengths, PlacedSource)
        else job.lengths
    )
    with spooled(job.values, beside, plan) as values, contextlib.ExitStack() as stack:
        fits = lengths.desc.total_bytes <= plan.bytes // 8
        is_small = lengths.desc.element_count <= thresholds.LENGTHS_AT_ONCE
        if (
            fits and is_small
        ) or lengths.chunks is not None:  # else every block would read or decode them again
            if fits or holds_lengths:
                lengths = MemorySource(lengths.name, lengths.read(), lengths.storage)
            else:
                spool = stack.enter_context(scratch(beside, lengths))
                move(lengths, spool, plan)
                lengths = spool.written()
        yield replace(job, values=values, lengths=lengths)


@contextlib.contextmanager
def _read_tasks(job: Job, beside: str, plan: Plan) -> Iterator[ReadTaskOf]:
    """The read tasks of a job; with a tiling, it is now written in tiles next to the file `beside`."""
    if not plan.detour.tiling:
        yield partial(_read_task, job)
        return
    from revseq_cli.pipeline import two_pass  # few jobs need it

    def read_lengths(region: Region) -> tuple[Any]:
        return (job.lengths.read_task(lengths_region(region, job.axis)),)

    values = job.values
    with two_pass.tiles_beside(
        beside, values, job.axis, plan.detour.tiling, plan.detour.enough
    ) as tiles:
        tasks = (
            Task(
                partial(tiles.sort, region, values.read_task(region)), read_lengths(region), region
            )
            for region in plan.detour.tiling.blocks
        )
        for _ in completed("sort", tasks, plan, values):
            pass
        yield lambda region: ComputedTask(
            partial(tiles.reverse, values.dtype, region), read_lengths(region)
        )


# To compare, and to verify


@dataclass(frozen=True)
class Pair:
    """Two tensors of the same sizes and data type, cheap to read in the blocks of the plan.

    With a `job`, `right` is what is right for it, and `free_bytes` of memory are left for its lines.
    """

    a: Source
    right: Source
    plan: Plan
    job: Job | None = None
    free_bytes: int = 0


def verify_copy(source: Source, sink: Sink, plan: Plan) -> None:
    """Compare what was written with the source, in the copy's blocks; EngineError where a bit differs."""
    written, plan = sink.written(), plan.to_read_back(sink)
    if written.desc != source.desc:
        raise untrue("differs from the input in DataType or Sizes", written.name)
    found = compared("verify", Pair(source, written, plan))
    if found.count:
        raise untrue(f"differs from the input at {found.indices[0].tolist()}", written.name)


def compared(
    stage: str, pair: Pair, tolerance: Tolerance | None = None, first: int = 1
) -> Differences:
    """How a pair differs, in blocks; of a job's output, also in which lines."""
    a, plan, job = pair.a, pair.plan, pair.job
    bring_near(plan, a, pair.right, *([job.lengths] if job else []))

    def task(region: Region) -> Task:
        lengths = (job.lengths.read_task(lengths_region(region, job.axis)),) if job else ()
        compare = partial(_compare, tolerance, first, region, job.axis if job else None)
        return Task(compare, (a.read_task(region), pair.right.read_task(region), *lengths), region)

    none = np.empty(0, a.dtype.newbyteorder("="))
    found = Differences(0, 0, np.empty((0, len(a.sizes)), np.intp), none, none)
    lines = None
    most_lines = max(_FEW_LINES, pair.free_bytes // _LINE_BYTES)
    if job and (plan.blocks.cuts_sequences or job.lengths.desc.element_count <= most_lines):
        lines = np.zeros(job.lengths.sizes, np.bool_)
    for region, part in completed(stage, map(task, plan.blocks), plan, a):
        if job and lines is not None and part.lines is not None:
            lines[lengths_region(region, job.axis)] |= part.lines
        found = found.merge(part, first)
    return (
        found
        if lines is None
        else replace(found, lines=lines, line_count=int(np.count_nonzero(lines)))
    )


def _compare(
    tolerance: Tolerance | None, first: int, region: Region, axis: int | None, *arrays: NDArray[Any]
) -> Differences:
    """The differences of two tensors' blocks at `region`, with the indices of the `first` in the whole tensor.

    With an `axis`, and the lengths as the third array, also in which lines of the block they are.
    """
    part, places = differences(arrays[0], arrays[1], tolerance, first)
    part = replace(part, indices=part.indices + np.array([side.start for side in region], np.intp))
    if axis is None or not len(places):
        return part
    mask = np.zeros(sizes_of(region), np.bool_)
    mask.reshape(-1)[places] = True
    j = np.arange(region[axis].start, region[axis].stop).reshape(
        [-1 if d == axis else 1 for d in range(mask.ndim)]
    )
    inside = int(np.count_nonzero(mask & (j < kernel.clamp(arrays[2], region[axis].stop))))
    lines = np.asarray(mask.any(axis, keepdims=True))
    return replace(part, inside=inside, lines=lines, line_count=int(np.count_nonzero(lines)))


def verify(job: Job, sink: Sink, plan: Plan) -> None:
    """Reverse the output again and compare it with the input; EngineError with the first index where they differ."""
    written, plan = sink.written(), plan.to_read_back(sink)
    with (
        made_ready(job, sink.beside, plan) as ready,
        spooled(written, sink.beside, plan) as turned,
        _read_tasks(replace(ready, values=turned), sink.beside, plan) as read_task_of,
    ):
        again = reversed_output(replace(ready, values=turned), read_task_of)
        found = compared("verify", Pair(again, ready.values, plan))
    if found.count:
        raise untrue(f"does not reverse to the input at {found.indices[0].tolist()}", written.name)


# To count


def count_lengths(job: Job, resources: Resources) -> LengthCounts:
    """The counts of the job's lengths, each as often as the user gave it."""
    return counts_of(job.given_lengths, job.values.sizes[job.axis], resources)


def counts_of(lengths: Source, size: int, resources: Resources) -> LengthCounts:
    """The counts and the range of unsigned lengths, for lines of `size` elements."""
    return reduce(
        LengthCounts.merge,
        _folded(lengths, partial(LengthCounts.of, size), resources),
        LengthCounts(),
    )


def statistics(source: Source, resources: Resources) -> Statistics:
    """The statistics of a whole tensor, without the values that its file says are missing."""
    marks = find_missing_values(source) if source.dtype.kind in "iuf" else ()
    step = partial(_without_missing, marks) if marks else Statistics.of
    return reduce(Statistics.merge, _folded(source, step, resources), Statistics())


def _without_missing(marks: tuple[Any, ...], values: NDArray[Any]) -> Statistics:
    missing = np.any([values == mark for mark in marks], axis=0)
    return Statistics.of(values[~missing])._replace(missing=int(np.count_nonzero(missing)))


def _folded(
    source: Source, step: Callable[[NDArray[Any]], Any], resources: Resources
) -> Iterator[Any]:
    """What the step makes of each block."""
    plan = plan_fold(source, resources)
    bring_near(plan, source)
    tasks = (Task(step, (source.read_task(region),), region) for region in plan.blocks)
    for _, share in completed("read", tasks, plan, source):
        yield share
    source.recheck()
