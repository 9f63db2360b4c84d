"""Passes over data: read a block's regions, take one step, deliver. One loop for every pass and every executor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from revseq_cli import kernel, stopping
from revseq_cli.plan import Plan, make_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from revseq_cli.formats.base import Outlet, Region, Sink, Source, Ticket
    from revseq_cli.job import Job

# Bytes of one block's input: enough to hide the cost of opening a file, and small beside the memory bound.
BLOCK_BYTES = 1 << 24


class Step(Protocol):
    """What is done to the values of a block's regions; a small frozen value that pickles."""

    def __call__(self, *values: NDArray[Any]) -> NDArray[Any]:
        """The values of the block's own region."""


@dataclass(frozen=True)
class Reverse:
    """The reversal: values and lengths in, values out."""

    axis: int

    def __call__(self, *values: NDArray[Any]) -> NDArray[Any]:
        """The reversed block."""
        return kernel.reverse(values[0], values[1], self.axis)


@dataclass(frozen=True)
class Task:
    """One block of a pass, on its way to where it is computed."""

    tickets: tuple[Ticket, ...]
    step: Callable[..., Any]
    outlet: Outlet | None
    region: Region

    def __call__(self) -> object:
        """What is left for the parent to do, or a fold's share."""
        result = self.step(*(ticket.read() for ticket in self.tickets))
        return result if self.outlet is None else self.outlet.deliver(self.region, result)


Executor = "Callable[[Iterable[Task]], Iterator[object]]"


def serial(tasks: Iterable[Task]) -> Iterator[object]:
    """Every task here and now."""
    for task in tasks:
        yield task()


def plan_for(source: Source, axis: int | None) -> Plan:
    """A plan for one pass over that tensor."""
    item_size = source.dtype.itemsize
    return make_plan(source.sizes, axis, item_size, most_bytes=BLOCK_BYTES, grain=source.grain, order=source.order)


def reverse(job: Job, sink: Sink, plan: Plan, execute: Callable[[Iterable[Task]], Iterator[object]] = serial) -> None:
    """Run the reversal into the sink, which the caller has entered."""
    outlet = sink.outlet()
    step = Reverse(job.axis)

    def tasks() -> Iterator[Task]:
        for block in plan:
            region = block.region
            lengths = (*region[: job.axis], slice(0, 1), *region[job.axis + 1 :])
            yield Task((job.values.ticket(region), job.lengths.ticket(lengths)), step, outlet, region)

    for parcel in execute(tasks()):
        stopping.check()
        if parcel is not None:
            sink.receive(parcel)


def fold(
    sources: Sequence[Source],
    step: Callable[..., Any],
    plan: Plan,
    execute: Callable[[Iterable[Task]], Iterator[object]] = serial,
) -> Iterator[Any]:
    """The step's share from every block, for sums over a whole tensor."""
    tasks = (Task(tuple(source.ticket(block.region) for source in sources), step, None, block.region) for block in plan)
    return execute(tasks)


@dataclass(frozen=True)
class _CountLengths:
    size: int

    def __call__(self, lengths: NDArray[Any]) -> kernel.LengthCounts:
        """The counts of one block."""
        return kernel.count_lengths(lengths, self.size)


def count_lengths(job: Job) -> kernel.LengthCounts:
    """What the lengths of the whole job do."""
    step = _CountLengths(job.values.sizes[job.axis])
    shares = fold([job.lengths], step, plan_for(job.lengths, None))
    return sum(shares, kernel.LengthCounts())
