"""Sources and sinks in memory: for text, standard input, arguments, and what is printed whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from revseq_cli.formats.contract import Outlet, Sink, Source, Storage, Ticket

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Parcel, Region
    from revseq_cli.formats.storage.positioned import Identity


@dataclass(frozen=True)
class HeldTicket:
    """A ticket that carries the values of its region."""

    values: NDArray[Any]

    def read(self) -> NDArray[Any]:
        """The values of the region."""
        return self.values


class HeldSource(Source):
    """A tensor in memory: from text, standard input or an argument."""

    held = True

    def __init__(self, name: str, values: NDArray[Any], storage: Storage, identity: Identity | None = None) -> None:
        self.name, self._values, self.storage, self.identity = name, values, storage, identity
        self.dtype, self.sizes = values.dtype, values.shape
        self.order = "F" if values.flags.f_contiguous and not values.flags.c_contiguous else "C"

    @classmethod
    def of(cls, source: Source) -> HeldSource:
        """A copy of another source in memory, with its memory order."""
        held = cls(source.name, source.read(), source.storage)
        held.order = source.order
        return held

    def ticket(self, region: Region) -> Ticket:
        """A ticket with the values of the region."""
        return HeldTicket(np.asarray(self._values[region]))  # without dimensions, NumPy returns a scalar


class Gathered:
    """A base of sinks that gather the whole tensor in memory, in `values`."""

    values: NDArray[Any]
    held = True
    gathers = True

    def outlet(self, region: Region) -> Outlet:  # noqa: ARG002 - every region has the same one
        """An outlet that sends the values to the parent."""
        return Handing()

    def receive(self, parcel: object) -> None:
        """Store a block, which is its region and its values."""
        region, values = cast("Parcel", parcel)
        self.values[region] = values


class HeldSink(Gathered, Sink):
    """A tensor gathered in memory, with the sizes, data type and memory order of `like`."""

    def __init__(self, like: Source) -> None:
        self._like = like
        self.values = np.empty(like.sizes, like.dtype)

    def __exit__(self, *_: object) -> None:
        pass

    def written(self) -> Source:
        """The gathered tensor."""
        source = HeldSource("the result", self.values, Storage("memory", {}))
        source.order = self._like.order
        return source


class Handing:
    """An outlet that sends every block to the parent."""

    def deliver(self, region: Region, values: NDArray[Any]) -> object:
        """The region and its values."""
        return region, values
