"""The task for one block of a pass, and how the results of tasks reach the output."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from revseq_cli.passes.engines.crew import results

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from revseq_cli.formats.contract import Outlet, Sink, Ticket
    from revseq_cli.formats.regions import Region
    from revseq_cli.passes.arrangement import Arrangement

# A hint where a file does not hold what was written to it; an error at the same place twice is a bug.
UNTRUE_HINT = (
    "run it again: if it fails at the same place, write a .npy file instead, and report this one; "
    "if not, test the disk and the memory"
)


@dataclass(frozen=True)
class Task:
    """The work on one block, which pickles: `step` reads the tickets, and the outlet stores the result."""

    step: Callable[..., Any]
    tickets: tuple[Ticket, ...]
    region: Region
    outlet: Outlet | None

    def __call__(self) -> tuple[Region, Any]:
        """The region, and what the parent gets: what the outlet left to do, or without an outlet the step's result."""
        result = self.step(*self.tickets)
        return self.region, result if self.outlet is None else self.outlet.deliver(self.region, result)


def deliver_all(tasks: Iterable[Task], sink: Sink, arrangement: Arrangement, done: Callable[[int], None]) -> None:
    """Run the tasks, and let the sink finish each; `done` gets the number of elements of each block."""
    for region, parcel in results(tasks, arrangement):
        if parcel is not None:
            sink.receive(parcel)
        done(elements(region))


def elements(region: Region) -> int:
    """The number of elements in a region."""
    return prod(part.stop - part.start for part in region)
