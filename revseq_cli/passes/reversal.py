"""The pass that reverses the input by the lengths, and the pass that reverses the output again to verify it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.formats.contract import Source, Ticket
from revseq_cli.formats.held import HeldSink, HeldSource, HeldTicket
from revseq_cli.formats.registry import create_scratch
from revseq_cli.ground.errors import EngineError
from revseq_cli.operator import kernel
from revseq_cli.passes.arrangement import Arrangement, Resources, arrange
from revseq_cli.passes.copying import move, spooled
from revseq_cli.passes.tasks import UNTRUE_HINT, Block, Task, deliver_all, lengths_of
from revseq_cli.passes.tiling import tiled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Sink
    from revseq_cli.formats.regions import Region
    from revseq_cli.passes.assembly import Job
    from revseq_cli.passes.plan import Plan

    # What reverses a block, and the tickets that it reads, of which the lengths are the last; and these for any block.
    Step = tuple[Callable[..., NDArray[Any]], tuple[Ticket, ...]]
    Steps = Callable[[Region], Step]


@dataclass(frozen=True)
class Reverse:
    """The step that reverses a block of whole lines."""

    axis: int

    def __call__(self, values: Ticket, lengths: Ticket) -> NDArray[Any]:
        """The reversed block."""
        return kernel.reverse(values.read(), lengths.read(), self.axis)


@dataclass(frozen=True)
class ReverseCut:
    """The step that reverses a block of parts of lines; it reads what it needs of the other parts from `source`."""

    source: Source
    axis: int
    region: Region

    def __call__(self, lengths: Ticket) -> NDArray[Any]:
        """The reversed block: a copy of the input, then for each different length one read of what is reversed."""
        part = self.region[self.axis]
        clamped = kernel.clamp(lengths.read(), self.source.sizes[self.axis])
        out = self._read(self.region).copy()  # a source in memory returns a view of itself
        for length in np.unique(clamped[clamped > part.start]).tolist():
            backwards, _ = kernel.mirrored(part.start, part.stop, length)
            lines = clamped == length
            box = [slice(int(i.min()), int(i.max()) + 1) for i in lines.nonzero()]
            box[self.axis] = slice(0, 1)
            of_file = [slice(r.start + b.start, r.start + b.stop) for r, b in zip(self.region, box, strict=True)]
            of_file[self.axis] = backwards
            reversed_part = np.flip(self._read(tuple(of_file)), self.axis)
            chosen = lines[tuple(box)]
            box[self.axis] = slice(0, reversed_part.shape[self.axis])
            np.copyto(out[tuple(box)], reversed_part, where=chosen)
        return out

    def _read(self, region: Region) -> NDArray[Any]:
        return self.source.ticket(region).read()


class Reversed(Source):
    """The output of a job, computed where it is read: of a region of whole lines at once, of parts of lines as cut."""

    def __init__(self, job: Job, steps: Steps | None = None) -> None:
        self.job, self._steps = job, steps or steps_of(job)
        values = job.values
        self.name, self.dtype, self.sizes, self.order = values.name, values.dtype, values.sizes, values.order
        self.storage, self.chunks, self.encoded = values.storage, values.chunks, values.encoded
        self.reads_in_parallel, self.held = values.reads_in_parallel, values.held

    def ticket(self, region: Region) -> Ticket:
        """A ticket that reads what the region needs, and reverses."""
        return Computed(*self._steps(region))

    def recheck(self) -> None:
        """TensorIOError if a file of the job is not as it was."""
        self.job.recheck()


@dataclass(frozen=True)
class Computed:
    """A ticket whose values a step makes of other tickets."""

    step: Callable[..., NDArray[Any]]
    tickets: tuple[Ticket, ...]

    def read(self) -> NDArray[Any]:
        """The result of the step."""
        return self.step(*self.tickets)


@dataclass(frozen=True)
class Counting:
    """The step that reverses a block by another step, and counts the lengths above `size`.

    `counted` is the part of the block's lengths to count, or None; the lengths are the last ticket, and read once.
    """

    step: Callable[..., NDArray[Any]]
    counted: Region | None
    size: int

    def __call__(self, *tickets: Ticket) -> Block:
        """The reversed block, and the count."""
        *others, last = tickets
        lengths = last.read()
        clamped = 0 if self.counted is None else kernel.count_clamped(lengths[self.counted], self.size)
        return Block(self.step(*others, HeldTicket(lengths)), clamped)


def reverse(job: Job, sink: Sink, arrangement: Arrangement) -> int:
    """Reverse into the sink, which the caller has entered; the number of lengths that are above the axis size."""

    def delivered(into: Sink) -> int:
        tasks = _reversals(job, steps, arrangement.plan, into)
        return deliver_all("reverse", tasks, into, arrangement, ready.values)

    if arrangement.lacks_room:
        runs = arrangement.plan.run(job.values.order) * job.values.dtype.itemsize
        sink.notes += (f"there was no room for a temporary file beside it: it was made in runs of {runs} bytes",)
    with (
        at_hand(job, sink.beside, arrangement, holds_lengths=not sink.beside) as ready,
        _prepared(ready, sink.beside, arrangement) as steps,
    ):
        if not (arrangement.spooled and sink.chunks):
            return delivered(sink)
        with create_scratch(sink.beside, ready.values) as turned:
            clamped = delivered(turned)
            move(turned.written(), sink, arrangement)
        return clamped


def reversed_in_memory(job: Job, resources: Resources) -> tuple[Source, int]:
    """The result in memory, for printing, and the number of lengths that are above the axis size."""
    with HeldSink(job.values) as sink:
        clamped = reverse(job, sink, arrange(job, resources))
    job.recheck()
    return sink.written(), clamped


def verify(job: Job, sink: Sink, arrangement: Arrangement) -> None:
    """Reverse the output again and compare it with the input; EngineError with the first index where they differ."""
    from revseq_cli.passes.comparison import compared  # few commands verify

    written = sink.written()
    with (
        at_hand(job, sink.beside, arrangement) as ready,
        spooled(written, sink.beside, arrangement) as turned,
        _prepared(replace(ready, values=turned), sink.beside, arrangement) as steps,
    ):
        again = Reversed(replace(ready, values=turned), steps)
        found = compared("verify", again, ready.values, None, 1, arrangement)
    if found.count:
        raise EngineError(
            f"what was written does not reverse to the input at {found.indices[0].tolist()}", "the same bits",
            UNTRUE_HINT, written.name,
        )  # fmt: skip


@contextlib.contextmanager
def at_hand(job: Job, beside: str, arrangement: Arrangement, *, holds_lengths: bool = False) -> Iterator[Job]:
    """The job with tensors of which any region is cheap to read: in memory or temporary files if need be.

    With `holds_lengths`, the lengths are never in a file, as where the whole output is in memory.
    """
    with (
        job.values.at_hand(beside) as whole,
        spooled(whole, beside, arrangement) as values,
        job.lengths.at_hand(beside) as lengths,
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


@contextlib.contextmanager
def _prepared(job: Job, beside: str, arrangement: Arrangement) -> Iterator[Steps]:
    """The steps of a job, which is now written in tiles next to the file `beside` if the arrangement has a tiling."""
    if not arrangement.tiling:
        yield steps_of(job)
        return
    with tiled(job, beside, arrangement, arrangement.tiling) as step:
        yield lambda region: (step(region), (job.lengths.ticket(lengths_of(region, job.axis)),))


def steps_of(job: Job) -> Steps:
    """The steps that read the files of the job itself."""

    def step(region: Region) -> Step:
        lengths = job.lengths.ticket(lengths_of(region, job.axis))
        part = region[job.axis]
        if part.stop - part.start < job.values.sizes[job.axis]:
            return ReverseCut(job.values, job.axis, region), (lengths,)
        return Reverse(job.axis), (job.values.ticket(region), lengths)

    return step


def _reversals(job: Job, steps: Steps, plan: Plan, sink: Sink) -> Iterator[Task]:
    """The tasks that reverse by the lengths into the sink, one for each block."""
    for region in plan:
        step, tickets = steps(region)
        counting = Counting(step, job.counted_lengths(region), job.values.sizes[job.axis])
        yield Task(counting, tickets, region, sink.outlet(region))
