"""Sources of another dimension count: leading sizes of 1 are added or removed, as DirectML's older levels need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from revseq_cli.formats.contract import Storage
from revseq_cli.formats.table import named
from revseq_cli.ground.errors import FormatError
from revseq_cli.ground.tensors import braced
from revseq_cli.passes.lengths import View

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Source, Ticket
    from revseq_cli.formats.regions import Region


def ranked(source: Source, rank: int | None) -> Source:
    """The source with `rank` dimensions; itself for None, and where it has as many. FormatError if it cannot be."""
    return source if rank is None or rank == len(source.sizes) else RankedSource(source, rank)


class RankedSource(View):
    """A tensor with leading sizes of 1 added, or removed; the elements stay as they are.

    FormatError where a leading size to remove is not 1.
    """

    def __init__(self, source: Source, rank: int) -> None:
        super().__init__(source)
        self._added = rank - len(source.sizes)
        removed = source.sizes[: max(0, -self._added)]
        if any(size != 1 for size in removed):
            wanted = f"{braced((1,) * len(removed) + source.sizes[len(removed) :])}, to remove leading sizes of 1"
            raise FormatError(f"Sizes is {braced(source.sizes)}", wanted, where=source.name)
        self.sizes, self.key, self.encoded = self._fitted(source.sizes), source.key, source.encoded
        self.reads_in_parallel = source.reads_in_parallel
        self.chunks = self._fitted(source.chunks) if source.chunks else None
        if (row := named(source.storage.format)) and row.keeps_others:
            self.notes += (f"of {source.name} the elements alone are carried over, since the dimension count changes",)
        # Not the format alone: its file cannot be copied with this tensor in the place of the old one.
        self.storage = Storage(f"{source.storage.format} of another dimension count", source.storage.details)

    def _fitted(self, numbers: tuple[int, ...]) -> tuple[int, ...]:
        return (1,) * self._added + numbers[max(0, -self._added) :]

    @property
    def grain(self) -> tuple[int, ...]:
        """The grain of the source, in these dimensions."""
        return self._fitted(self.source.grain)

    @property
    def finest_grain(self) -> tuple[int, ...]:
        """The finest grain of the source, in these dimensions."""
        return self._fitted(self.source.finest_grain)

    def ticket(self, region: Region) -> Ticket:
        """A ticket that reads the region in the source's dimensions."""
        inner = (slice(0, 1),) * -self._added + region[max(0, self._added) :]
        return _RankedTicket(self.source.ticket(inner), tuple(part.stop - part.start for part in region))


@dataclass(frozen=True)
class _RankedTicket:
    ticket: Ticket
    sizes: tuple[int, ...]

    def read(self) -> NDArray[Any]:
        """The values, in the sizes of the region; leading sizes of 1 need no copy."""
        return self.ticket.read().reshape(self.sizes)
