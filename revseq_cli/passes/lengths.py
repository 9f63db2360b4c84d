"""Lengths of rank 1 widened to the input's rank, and what all sources share that convert another source."""

from __future__ import annotations

import contextlib
import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.formats.contract import Source, Ticket
from revseq_cli.formats.held import HeldSource
from revseq_cli.ground.errors import FormatError
from revseq_cli.ground.tensors import braced

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from numpy.typing import NDArray

    from revseq_cli.formats.regions import Region


class View(Source):
    """A source that reads another source and converts what it reads."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.name, self.dtype, self.sizes, self.order = source.name, source.dtype, source.sizes, source.order
        self.storage, self.identity, self.path = source.storage, source.identity, source.path
        self.described, self.notes, self.held = source.described, source.notes, source.held

    @contextlib.contextmanager
    def at_hand(self, beside: str = "") -> Iterator[Self]:
        """A copy of this source that reads what the source's `at_hand` gives."""
        with self.source.at_hand(beside) as ready:
            view = copy.copy(self)
            view.source = ready
            yield view

    @property
    def grain(self) -> tuple[int, ...]:
        """The grain of the source."""
        return self.source.grain

    @property
    def finest_grain(self) -> tuple[int, ...]:
        """The finest grain of the source."""
        return self.source.finest_grain

    def recheck(self) -> None:
        """TensorIOError if the source's file is not as it was."""
        self.source.recheck()

    def gaps(self) -> tuple[str, ...]:
        """The notes of the source."""
        return self.source.gaps()


class WidenedSource(View):
    """Lengths of rank 1, one for each index of the batch axis, repeated along all axes but the reversed one.

    `original` is the source of rank 1. FormatError for a wrong batch axis, or for another number of lengths.
    """

    def __init__(self, source: Source, sizes: tuple[int, ...], axis: int, batch_axis: int) -> None:
        rank = len(sizes)
        if not 0 <= batch_axis < rank or batch_axis == axis:
            raise FormatError(
                f"the batch axis is {batch_axis}",
                f"0 to {rank - 1}, and not the reversed axis {axis}",
                where=source.name,
            )
        if source.sizes != (sizes[batch_axis],):
            wanted = f"{braced((sizes[batch_axis],))}: one length for each index of axis {batch_axis}"
            raise FormatError(f"Sizes is {braced(source.sizes)}", wanted, where=source.name)
        super().__init__(source)
        if not source.reads_anywhere:  # the lengths are few, and else every block would decode their chunks again
            self.source = HeldSource(source.name, source.read(), source.storage)
        self.original, self._batch_axis, self.order = source, batch_axis, "C"
        self.sizes = tuple(1 if d == axis else size for d, size in enumerate(sizes))

    @property
    def grain(self) -> tuple[int, ...]:
        """A cut anywhere is cheap."""
        return (1,) * len(self.sizes)

    finest_grain = grain

    def recheck(self) -> None:
        """TensorIOError if the file of the lengths is not as it was."""
        self.original.recheck()

    def gaps(self) -> tuple[str, ...]:
        """The notes of the lengths as they were given."""
        return self.original.gaps()

    def ticket(self, region: Region) -> Ticket:
        """A ticket that reads the lengths of the region and repeats them."""
        return _WidenedTicket(self.source.ticket((region[self._batch_axis],)), self._batch_axis, region)


@dataclass(frozen=True)
class _WidenedTicket:
    ticket: Ticket
    batch_axis: int
    region: Region

    def read(self) -> NDArray[Any]:
        """The lengths as a broadcast view, in the sizes of the region."""
        sizes = [part.stop - part.start for part in self.region]
        narrow = [1] * len(sizes)
        narrow[self.batch_axis] = sizes[self.batch_axis]
        return np.broadcast_to(self.ticket.read().reshape(narrow), sizes)
