"""The pass that reverses the input block by block, and the one that verifies it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revseq_cli.core import thresholds
from revseq_cli.core.tensors import Region
from revseq_cli.formats.contract import FileSink, Sink, Source
from revseq_cli.formats.npy import scratch
from revseq_cli.formats.raw import MemorySink, MemorySource
from revseq_cli.operator import kernel
from revseq_cli.pipeline.alignment import PlacedSource
from revseq_cli.pipeline.jobs import Job
from revseq_cli.pipeline.lengths import Computed, Derived, ScannedSource
from revseq_cli.pipeline.plan import Plan, Resources, cut, lengths_of, plan_reversal
from revseq_cli.pipeline.tasks import Task, completed, deliver_all, move, reading_back, spooled, untrue

ReadTaskOf = Callable[[Region], Computed]


def reversed_output(job: Job, read_task_of: ReadTaskOf | None = None) -> Source:
    """The output of a job, which is computed where it is read, by read tasks that read the job's files unless given."""
    return Derived(job.values, job.values.dtype, read_task_of or partial(_read_task, job))


def _read_task(job: Job, region: Region) -> Computed:
    """What reads of the job's own files what a region of the output needs, and reverses it."""
    lengths, part = job.lengths.read_task(lengths_of(region, job.axis)), region[job.axis]
    if part.stop - part.start < job.values.sizes[job.axis]:
        return Computed(partial(_reverse_cut, job.values, job.axis, region), (lengths,))
    step = partial(kernel.reverse, axis=job.axis, overwrite=True)
    return Computed(step, (job.values.read_task(region), lengths))


def _reverse_cut(source: Source, axis: int, region: Region, lengths: NDArray[Any]) -> NDArray[Any]:
    """A reversed block of parts of lines: a copy of the input, then for each length one read of what is reversed."""
    part = region[axis]
    clamped = kernel.clamp(lengths, source.sizes[axis])
    out = source.read_task(region).read().copy()  # a source in memory returns a view of itself
    for length in np.unique(clamped[clamped > part.start]).tolist():
        lines = clamped == length
        box = [slice(int(i.min()), int(i.max()) + 1) for i in lines.nonzero()]
        box[axis] = slice(0, 1)
        of_file = [slice(r.start + b.start, r.start + b.stop) for r, b in zip(region, box, strict=True)]
        # Below `length`, element j of the reversal is element length - 1 - j of the line.
        of_file[axis] = slice(max(0, length - part.stop), length - part.start)
        reversed_part = np.flip(source.read_task(tuple(of_file)).read(), axis)
        chosen = lines[tuple(box)]
        box[axis] = slice(0, reversed_part.shape[axis])
        np.copyto(out[tuple(box)], reversed_part, where=chosen)
    return out


def reverse(job: Job, sink: Sink, plan: Plan) -> int:
    """Reverse into the sink, which the caller has entered; the number of lengths that are above the axis size."""
    with (
        made_ready(job, sink.beside, plan, holds_lengths=not sink.beside) as ready,
        _read_tasks(ready, sink.beside, plan) as read_task_of,
        # If the plan is spooled and the sink has chunks, blocks go into a temporary file without.
        scratch(sink.beside, ready.values) if plan.spooled and sink.chunks else contextlib.nullcontext(sink) as to,
    ):
        tasks = (Task(read_task_of(region).read, (), region, to.block_writer(region)) for region in plan.blocks)
        deliver_all("reverse", tasks, to, plan, ready.values)
        if to is not sink:
            move(to.written(), sink, plan)
        return _clamped(job, ready.lengths, plan)


def write(job: Job, sink: FileSink, plan: Plan, *, verified: bool) -> int:
    """Reverse into a new file, which the caller has entered, and note how many lengths are clamped; their number."""
    clamped = reverse(job, sink, plan)
    sink.notes += job.clamping(clamped)
    if verified:
        verify(job, sink, plan)
    job.recheck()
    return clamped


def _clamped(job: Job, lengths: Source, plan: Plan) -> int:
    """How many of the lengths that the user gave are above the axis size; these are the same, repeated for lines."""
    size, own, count = job.values.sizes[job.axis], job.given_lengths.desc.element_count, lengths.desc.element_count
    if isinstance(job.given_lengths, ScannedSource) or not own or not count or np.iinfo(lengths.dtype).max <= size:
        return 0
    most = max(1, min(thresholds.LENGTHS_AT_ONCE, plan.bytes // 24))  # a cast holds a length some three times
    blocks = cut(lengths.sizes, None, most=most, alignment=lengths.cut_alignments[0])
    clamped = sum(kernel.count_clamped(lengths.read_task(region).read(), size) for region in blocks)
    return clamped // (count // own)


def reversed_in_memory(job: Job, resources: Resources) -> tuple[Source, int]:
    """The result in memory, for printing, and the number of lengths that are above the axis size."""
    with MemorySink(job.values) as sink:
        clamped = reverse(job, sink, plan_reversal(job, resources))
    job.recheck()
    return sink.written(), clamped


def verify(job: Job, sink: Sink, plan: Plan) -> None:
    """Reverse the output again and compare it with the input; EngineError with the first index where they differ."""
    from revseq_cli.pipeline.folds import Pair, compared  # few commands verify

    written, plan = sink.written(), plan.to_read_back(sink)
    with (
        reading_back(written),
        made_ready(job, sink.beside, plan) as ready,
        spooled(written, sink.beside, plan) as turned,
        _read_tasks(replace(ready, values=turned), sink.beside, plan) as read_task_of,
    ):
        again = reversed_output(replace(ready, values=turned), read_task_of)
        found = compared("verify", Pair(again, ready.values, plan))
    if found.count:
        raise untrue(f"does not reverse to the input at {found.indices[0].tolist()}", written.name)


@contextlib.contextmanager
def made_ready(job: Job, beside: str, plan: Plan, *, holds_lengths: bool = False) -> Iterator[Job]:
    """The job with tensors of which any region is cheap to read: in memory or temporary files if need be.

    With `holds_lengths`, the lengths are never in a file, as where the whole output is in memory.
    """
    lengths = job.lengths.in_memory(plan.bytes // 8) if isinstance(job.lengths, PlacedSource) else job.lengths
    with spooled(job.values, beside, plan) as values, contextlib.ExitStack() as stack:
        fits = lengths.desc.total_bytes <= plan.bytes // 8
        is_small = lengths.desc.element_count <= thresholds.LENGTHS_AT_ONCE
        if (fits and is_small) or lengths.chunks is not None:  # else every block would read or decode them again
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
    if not plan.tiling:
        yield partial(_read_task, job)
        return
    from revseq_cli.pipeline import two_pass  # few jobs need it

    def read_lengths(region: Region) -> tuple[Any]:
        return (job.lengths.read_task(lengths_of(region, job.axis)),)

    values = job.values
    with two_pass.tiles_beside(beside, values, job.axis, plan.tiling, plan.enough) as tiles:
        tasks = (
            Task(partial(tiles.sort, region, values.read_task(region)), read_lengths(region), region)
            for region in plan.tiling.blocks
        )
        for _ in completed("sort", tasks, plan, values):
            pass
        yield lambda region: Computed(partial(tiles.reverse, values.dtype, region), read_lengths(region))
