"""The pass that reverses the input by the lengths, and the pass that reverses the output again to verify it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.formats.held import HeldSink, HeldSource
from revseq_cli.formats.registry import create_scratch
from revseq_cli.ground.errors import EngineError
from revseq_cli.operator import kernel
from revseq_cli.passes.arrangement import Arrangement, Resources, arrange
from revseq_cli.passes.copying import move, spooled
from revseq_cli.passes.differences import first_difference
from revseq_cli.passes.engines.crew import results
from revseq_cli.passes.tasks import UNTRUE_HINT, Block, Task, deliver_all, elements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Outlet, Sink, Source, Ticket
    from revseq_cli.formats.regions import Region
    from revseq_cli.passes.assembly import Job
    from revseq_cli.passes.plan import Plan


@dataclass(frozen=True)
class Reverse:
    """The step that reverses a block of whole lines; `counted` is the part of its lengths to count, if any."""

    axis: int
    counted: Region | None

    def __call__(self, values: Ticket, lengths: Ticket) -> Block:
        """The reversed block."""
        of_lines, block = lengths.read(), values.read()
        clamped = _clamped(of_lines, self.counted, block.shape[self.axis])
        return Block(kernel.reverse(block, of_lines, self.axis), clamped)


@dataclass(frozen=True)
class ReverseCut:
    """The step that reverses a block of parts of lines; it reads what it needs of the other parts from `source`.

    `counted` is the part of the block's lengths to count, if any.
    """

    source: Source
    axis: int
    region: Region
    counted: Region | None

    def __call__(self, lengths: Ticket) -> Block:
        """The reversed block: a copy of the input, then for each different length one read of what is reversed."""
        part, size = self.region[self.axis], self.source.sizes[self.axis]
        of_lines = lengths.read()
        clamped = kernel.clamp(of_lines, size)
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
        return Block(out, _clamped(of_lines, self.counted, size))

    def _read(self, region: Region) -> NDArray[Any]:
        return self.source.ticket(region).read()


@dataclass(frozen=True)
class Differ:
    """The step that compares a block with the block that another step makes."""

    step: Callable[..., Block]

    def __call__(self, values: Ticket, *others: Ticket) -> tuple[int, ...] | None:
        """The index in the block of the first element with other bits, or None."""
        return first_difference(values.read(), self.step(*others).values)


def reverse(job: Job, sink: Sink, arrangement: Arrangement, done: Callable[[int], None] = lambda _: None) -> int:
    """Reverse into the sink, which the caller has entered; the number of lengths that are above the axis size.

    `done` gets the number of elements of each block.
    """
    with _at_hand(job, sink, arrangement) as ready:
        if not (arrangement.spooled and sink.chunks):
            tasks = _reversals(ready, ready.values, arrangement.plan, sink.outlet())
            return deliver_all(tasks, sink, arrangement, done)
        with create_scratch(sink.beside, ready.values) as turned:
            tasks = _reversals(ready, ready.values, arrangement.plan, turned.outlet())
            clamped = deliver_all(tasks, turned, arrangement, done)
            move(turned.written(), sink, arrangement)
        return clamped


def reversed_in_memory(job: Job, resources: Resources) -> tuple[Source, int]:
    """The result in memory, for printing, and the number of lengths that are above the axis size."""
    with HeldSink(job.values) as sink:
        clamped = reverse(job, sink, arrange(job, resources))
    job.recheck()
    return sink.written(), clamped


def verify(job: Job, sink: Sink, arrangement: Arrangement, done: Callable[[int], None] = lambda _: None) -> None:
    """Reverse the output again and compare it with the input; EngineError with the first index where they differ.

    `done` gets the number of elements of each block.
    """
    written = sink.written()
    with _at_hand(job, sink, arrangement) as ready, spooled(written, sink, arrangement) as turned:
        tasks = (
            Task(Differ(task.step), (ready.values.ticket(task.region), *task.tickets), task.region, None)
            for task in _reversals(ready, turned, arrangement.plan, None)
        )
        for region, place in results(tasks, arrangement):
            if place is not None:
                index = [part.start + i for part, i in zip(region, place, strict=True)]
                raise EngineError(
                    f"what was written does not reverse to the input at {index}", "the same bits",
                    UNTRUE_HINT, written.name,
                )  # fmt: skip
            done(elements(region))


@contextlib.contextmanager
def _at_hand(job: Job, sink: Sink, arrangement: Arrangement) -> Iterator[Job]:
    """The job with tensors of which any region is cheap to read: in memory or temporary files if need be."""
    with (
        job.values.at_hand(sink.beside) as whole,
        spooled(whole, sink, arrangement) as values,
        job.lengths.at_hand(sink.beside) as lengths,
        contextlib.ExitStack() as stack,
    ):
        if not lengths.reads_anywhere:  # else every block would decode their chunks again, or wait for a lock
            if lengths.desc.total_bytes <= arrangement.need // 8 or not sink.beside:
                lengths = HeldSource(lengths.name, lengths.read(), lengths.storage)
            else:
                spool = stack.enter_context(create_scratch(sink.beside, lengths))
                move(lengths, spool, arrangement)
                lengths = spool.written()
        yield replace(job, values=values, lengths=lengths)


def _reversals(job: Job, source: Source, plan: Plan, outlet: Outlet | None) -> Iterator[Task]:
    """The tasks that reverse `source` by the job's lengths, one for each block."""
    for region in plan:
        lengths = job.lengths.ticket((*region[: job.axis], slice(0, 1), *region[job.axis + 1 :]))
        counted = job.counted_lengths(region)
        if plan.cuts_lines:
            yield Task(ReverseCut(source, job.axis, region, counted), (lengths,), region, outlet)
        else:
            yield Task(Reverse(job.axis, counted), (source.ticket(region), lengths), region, outlet)


def _clamped(lengths: NDArray[Any], counted: Region | None, size: int) -> int:
    """How many lengths of that part of a block's lengths are above `size`."""
    return 0 if counted is None else kernel.count_clamped(lengths[counted], size)
