"""The pass that reverses the input by the lengths, and the pass that reverses the output again to verify it."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.formats.held import HeldSink, HeldSource
from revseq_cli.formats.registry import create_scratch
from revseq_cli.operator import kernel
from revseq_cli.passes.arrangement import Arrangement, Resources, arrange
from revseq_cli.passes.plan import lengths_of
from revseq_cli.passes.tasks import Task, deliver_all, move, reading_back, spooled, untrue
from revseq_cli.passes.tiling import tiled
from revseq_cli.passes.views import Computed, Derived

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Region, Sink, Source
    from revseq_cli.passes.assembly import Job
    from revseq_cli.passes.plan import Plan

    # The reversal of any region, as tickets of which the lengths are the last.
    TicketOf = Callable[[Region], Computed]


def reversed_output(job: Job, ticket_of: TicketOf | None = None) -> Source:
    """The output of a job, which is computed where it is read, by tickets that read the job's files unless given."""
    return Derived(job.values, job.values.dtype, ticket_of or tickets_of(job))


def tickets_of(job: Job) -> TicketOf:
    """The tickets that read what a region needs of the job's own files, and reverse it."""

    def ticket(region: Region) -> Computed:
        lengths, part = job.lengths.ticket(lengths_of(region, job.axis)), region[job.axis]
        if part.stop - part.start < job.values.sizes[job.axis]:
            return Computed(partial(_reverse_cut, job.values, job.axis, region), (lengths,))
        step = partial(kernel.reverse, axis=job.axis, overwrite=job.values.reads_anew)
        return Computed(step, (job.values.ticket(region), lengths))

    return ticket


def _reverse_cut(source: Source, axis: int, region: Region, lengths: NDArray[Any]) -> NDArray[Any]:
    """A reversed block of parts of lines: a copy of the input, then for each length one read of what is reversed."""
    part = region[axis]
    clamped = kernel.clamp(lengths, source.sizes[axis])
    out = source.ticket(region).read().copy()  # a source in memory returns a view of itself
    for length in np.unique(clamped[clamped > part.start]).tolist():
        lines = clamped == length
        box = [slice(int(i.min()), int(i.max()) + 1) for i in lines.nonzero()]
        box[axis] = slice(0, 1)
        of_file = [slice(r.start + b.start, r.start + b.stop) for r, b in zip(region, box, strict=True)]
        # Below `length`, element j of the reversal is element length - 1 - j of the line.
        of_file[axis] = slice(max(0, length - part.stop), length - part.start)
        reversed_part = np.flip(source.ticket(tuple(of_file)).read(), axis)
        chosen = lines[tuple(box)]
        box[axis] = slice(0, reversed_part.shape[axis])
        np.copyto(out[tuple(box)], reversed_part, where=chosen)
    return out


def reverse(job: Job, sink: Sink, arrangement: Arrangement) -> int:
    """Reverse into the sink, which the caller has entered; the number of lengths that are above the axis size."""
    count = partial(kernel.count_clamped, size=job.values.sizes[job.axis])

    def task(into: Sink, region: Region) -> Task:
        ticket = ticket_of(region)
        return Task(ticket.step, ticket.tickets, region, into.outlet(region), count)

    def delivered(into: Sink) -> int:
        counted = deliver_all("reverse", map(partial(task, into), arrangement.plan), into, arrangement, ready.values)
        return counted // _readings(job, arrangement.plan) if counted else 0

    if arrangement.lacks_room:
        runs = arrangement.plan.run(job.values.order) * job.values.dtype.itemsize
        sink.notes += (f"there was no room for a temporary file beside it: it was made in runs of {runs} bytes",)
    with (
        random_access(job, sink.beside, arrangement, holds_lengths=not sink.beside) as ready,
        _prepared(ready, sink.beside, arrangement) as ticket_of,
    ):
        if not (arrangement.spooled and sink.chunks):
            return delivered(sink)
        with create_scratch(sink.beside, ready.values) as turned:
            clamped = delivered(turned)
            move(turned.written(), sink, arrangement)
        return clamped


def _readings(job: Job, plan: Plan) -> int:
    """How often each given length is read: for each line that it is repeated for, and each part of a line."""
    parts = -(-job.values.sizes[job.axis] // plan.extents[job.axis])
    return parts * job.lengths.desc.element_count // job.given_lengths.desc.element_count


def reversed_in_memory(job: Job, resources: Resources) -> tuple[Source, int]:
    """The result in memory, for printing, and the number of lengths that are above the axis size."""
    with HeldSink(job.values) as sink:
        clamped = reverse(job, sink, arrange(job, resources))
    job.recheck()
    return sink.written(), clamped


def verify(job: Job, sink: Sink, arrangement: Arrangement) -> None:
    """Reverse the output again and compare it with the input; EngineError with the first index where they differ."""
    from revseq_cli.passes.comparison import Pair, compared  # few commands verify

    written = sink.written()
    with (
        reading_back(written),
        random_access(job, sink.beside, arrangement) as ready,
        spooled(written, sink.beside, arrangement) as turned,
        _prepared(replace(ready, values=turned), sink.beside, arrangement) as ticket_of,
    ):
        again = reversed_output(replace(ready, values=turned), ticket_of)
        found = compared("verify", Pair(again, ready.values, arrangement))
    if found.count:
        raise untrue(f"does not reverse to the input at {found.indices[0].tolist()}", written.name)


@contextlib.contextmanager
def random_access(job: Job, beside: str, arrangement: Arrangement, *, holds_lengths: bool = False) -> Iterator[Job]:
    """The job with tensors of which any region is cheap to read: in memory or temporary files if need be.

    With `holds_lengths`, the lengths are never in a file, as where the whole output is in memory.
    """
    with (
        job.values.random_access(beside) as whole,
        spooled(whole, beside, arrangement) as values,
        job.lengths.random_access(beside) as lengths,
        contextlib.ExitStack() as stack,
    ):
        if not lengths.reads_anywhere:  # else every block would decode their chunks again, or wait for a lock
            if lengths.desc.total_bytes <= arrangement.need // 8 or holds_lengths:
                lengths = HeldSource(lengths.name, lengths.read(), lengths.storage)
            else:
                spool = stack.enter_context(create_scratch(beside, lengths))
                move(lengths, spool, arrangement)
                lengths = spool.written()
        yield replace(job, values=values, lengths=lengths)


def _prepared(job: Job, beside: str, arrangement: Arrangement) -> AbstractContextManager[TicketOf]:
    """The tickets of a job, which is now written in tiles next to the file `beside` if the arrangement has a tiling."""
    if arrangement.tiling:
        return tiled(job, beside, arrangement, arrangement.tiling)
    return contextlib.nullcontext(tickets_of(job))
