"""One block of a pass, and how the blocks of a pass reach its output."""

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

# What to do where a file does not hold what was written to it. The same twice is no accident of the machine.
UNTRUE_HINT = (
    "run it again: if it fails at the same place, write a .npy file instead, and report this one; "
    "if not, test the disk and the memory"
)


@dataclass(frozen=True)
class Task:
    """One block of a pass, on its way to where it is computed: `step` gets the tickets, and reads them."""

    step: Callable[..., Any]
    tickets: tuple[Ticket, ...]
    region: Region
    outlet: Outlet | None

    def __call__(self) -> tuple[Region, Any]:
        """The region, and what is left for the parent: a sink's parcel, or a fold's share."""
        result = self.step(*self.tickets)
        return self.region, result if self.outlet is None else self.outlet.deliver(self.region, result)


def deliver_all(tasks: Iterable[Task], sink: Sink, arrangement: Arrangement, done: Callable[[int], None]) -> None:
    """Carry the tasks out, and finish in the sink what each has left to do; `done` gets the elements of each block."""
    for region, parcel in results(tasks, arrangement):
        if parcel is not None:
            sink.receive(parcel)
        done(elements(region))


def elements(region: Region) -> int:
    """How many a region has."""
    return prod(part.stop - part.start for part in region)
