"""The task for one block of a pass, and how the results of tasks reach the output."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from revseq_cli.ground import stages
from revseq_cli.passes.engines.crew import results

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Outlet, Sink, Source, Ticket
    from revseq_cli.formats.regions import Region
    from revseq_cli.passes.arrangement import Arrangement

# A hint where a file does not hold what was written to it; an error at the same place twice is a bug.
UNTRUE_HINT = (
    "run it again: if it fails at the same place, write a .npy file instead, and report this one; "
    "if not, test the disk and the memory"
)


class Block(NamedTuple):
    """What a step makes for an outlet: the values of the block, and how many of its lengths are above the axis size."""

    values: NDArray[Any]
    clamped: int = 0


class Delivered(NamedTuple):
    """What the parent gets of a block that an outlet has stored: what is left to do, and the block's `clamped`."""

    parcel: object
    clamped: int


@dataclass(frozen=True)
class Task:
    """The work on one block, which pickles: `step` reads the tickets, and the outlet stores the Block that it makes."""

    step: Callable[..., Any]
    tickets: tuple[Ticket, ...]
    region: Region
    outlet: Outlet | None

    def __call__(self) -> tuple[Region, Any]:
        """The region, and what the parent gets: a Delivered, or without an outlet the step's result."""
        result = self.step(*self.tickets)
        if self.outlet is None:
            return self.region, result
        return self.region, Delivered(self.outlet.deliver(self.region, result.values), result.clamped)


def completed(
    stage: str, tasks: Iterable[Task], arrangement: Arrangement, source: Source
) -> Iterator[tuple[Region, Any]]:
    """Run a stage of tasks, which together read all of the source: region and result, in the order of their ends."""
    with stages.begun(stage, source.desc.total_bytes) as advance:
        for region, result in results(tasks, arrangement):
            yield region, result
            advance(elements(region) * source.dtype.itemsize)


def deliver_all(stage: str, tasks: Iterable[Task], sink: Sink, arrangement: Arrangement, source: Source) -> int:
    """Run a stage of tasks, and let the sink finish each; the number of lengths that are above the axis size."""
    sink.writers = arrangement.workers if arrangement.engine.travels else 1
    clamped = 0
    for _, delivered in completed(stage, tasks, arrangement, source):
        if delivered.parcel is not None:
            sink.receive(delivered.parcel)
        clamped += delivered.clamped
    return clamped


def lengths_of(region: Region, axis: int) -> Region:
    """The region of the lengths that belongs to a region of the values."""
    return (*region[:axis], slice(0, 1), *region[axis + 1 :])


def elements(region: Region) -> int:
    """The number of elements in a region."""
    return prod(part.stop - part.start for part in region)
