"""Tensors whose elements lie in a file, uncompressed, at an offset: sources and sinks for most formats."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from revseq_cli.formats.contract import FileSink, Outlet, Source, Storage, Ticket
from revseq_cli.formats.storage import positioned

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from revseq_cli.formats.regions import Region
    from revseq_cli.formats.storage.newfile import NewFile
    from revseq_cli.formats.storage.positioned import Edge


# Runs of at least so many bytes are written past the page cache: for smaller ones, a call each costs more than the
# cache does.
LARGE = 1 << 20
_CHEAP_RUN, _CACHE_LINE = 1 << 14, 64  # bytes
_EDGES = 1 << 10  # edges, each of less than a page, are written when there are so many


def grains_of(dtype: np.dtype[Any], sizes: tuple[int, ...], order: str = "C") -> list[tuple[int, ...]]:
    """The multiples of indices at which to cut a tensor that lies uncompressed in a file; the cheap ones come first.

    Along the fastest dimension, the first is a run that is worth a system call, and the second a CPU cache line.
    """
    others = (1,) * (len(sizes) - 1)
    runs = [max(1, run // dtype.itemsize) for run in (_CHEAP_RUN, _CACHE_LINE)]
    return [((run, *others) if order == "F" else (*others, run))[: len(sizes)] for run in runs]


@dataclass(frozen=True)
class RawTensor:
    """Where the elements of a tensor lie: `offset` in bytes, `order` "C" or "F"; `name` is for messages."""

    path: str
    name: str
    offset: int
    dtype: np.dtype[Any]
    sizes: tuple[int, ...]
    order: str = "C"

    @property
    def end(self) -> int:
        """The offset of the first byte behind the elements."""
        return self.offset + prod(self.sizes) * self.dtype.itemsize

    @property
    def grain(self) -> tuple[int, ...]:
        """A run along the fastest dimension that is worth a system call."""
        return grains_of(self.dtype, self.sizes, self.order)[0]

    @property
    def finest_grain(self) -> tuple[int, ...]:
        """A run along the fastest dimension as long as a CPU cache line."""
        return grains_of(self.dtype, self.sizes, self.order)[1]

    def read(self, fd: int, region: Region) -> NDArray[Any]:
        """The values of the region, in the file's memory order."""
        sizes, parts = self._stored(region)
        values = np.empty([part.stop - part.start for part in parts], self.dtype)
        buffer = values.reshape(-1).view(np.uint8).data
        for place, chunk in self._runs(sizes, parts, buffer):
            positioned.read_into(fd, chunk, place, self.name)
        return values.T if self.order == "F" else values

    def write(self, fd: int, region: Region, values: NDArray[Any], writers: int = 1) -> list[Edge]:
        """Write the values of the region as one of so many workers; return the edges, which the caller writes."""
        sizes, parts = self._stored(region)
        stored = np.ascontiguousarray(values.T if self.order == "F" else values, self.dtype)
        buffer = stored.reshape(-1).view(np.uint8).data
        edges: list[Edge] = []
        for place, chunk in self._runs(sizes, parts, buffer):
            if len(chunk) >= LARGE:
                edges += positioned.write_large(self.path, fd, chunk, place, self.name, writers=writers)
            else:
                positioned.write_all(fd, chunk, place, self.name)
        return edges

    def _stored(self, region: Region) -> tuple[tuple[int, ...], Region]:
        """Sizes and region in the file's order: Fortran order is C order with the dimensions reversed."""
        return (self.sizes[::-1], region[::-1]) if self.order == "F" else (self.sizes, region)

    def _runs(self, sizes: tuple[int, ...], parts: Region, buffer: memoryview) -> Iterator[tuple[int, memoryview]]:
        """Each contiguous run of the region: its offset in the file, and its part of the buffer."""
        if not sizes or not buffer:  # one element, or none
            return iter([(self.offset, buffer)][: len(buffer)])
        cut = len(sizes)  # from this dimension on, the region is whole, and so one run
        while cut > 0 and parts[cut - 1] == slice(0, sizes[cut - 1]):
            cut -= 1
        cut = max(cut - 1, 0)  # with a part of the dimension before, it is still one run
        item = self.dtype.itemsize
        strides = [item * prod(sizes[d + 1 :]) for d in range(len(sizes))]
        length = (parts[cut].stop - parts[cut].start) * strides[cut]
        places = np.array([self.offset + parts[cut].start * strides[cut]])
        for part, stride in zip(parts[:cut], strides, strict=False):
            places = np.add.outer(places, np.arange(part.start, part.stop) * stride)
        return zip(
            places.reshape(-1).tolist(), (buffer[i : i + length] for i in range(0, len(buffer), length)), strict=True
        )


@dataclass(frozen=True)
class RawTicket:
    """Reads one region; TensorIOError if the file is not as it was when its header was read."""

    tensor: RawTensor
    unchanged: positioned.Identity
    region: Region

    def read(self) -> NDArray[Any]:
        """The values of the region."""
        with positioned.opened(self.tensor.path, self.unchanged, self.tensor.name) as fd:
            return self.tensor.read(fd, self.region)


class RawSource(Source):
    """A tensor whose elements lie uncompressed in a file; the format has read their offset from the header."""

    def __init__(self, tensor: RawTensor, unchanged: positioned.Identity, storage: Storage) -> None:
        self.tensor, self.unchanged, self.identity, self.storage = tensor, unchanged, unchanged, storage
        self.name, self.path = tensor.name, tensor.path
        self.dtype, self.sizes, self.order = tensor.dtype, tensor.sizes, tensor.order

    @property
    def grain(self) -> tuple[int, ...]:
        """A run along the fastest dimension that is worth a system call."""
        return self.tensor.grain

    @property
    def finest_grain(self) -> tuple[int, ...]:
        """A run along the fastest dimension as long as a CPU cache line."""
        return self.tensor.finest_grain

    def ticket(self, region: Region) -> Ticket:
        """A ticket that opens the file and reads the region."""
        return RawTicket(self.tensor, self.unchanged, region)


@dataclass(frozen=True)
class RawOutlet:
    """Writes regions into a file that has its full size already."""

    tensor: RawTensor
    writers: int

    def deliver(self, region: Region, values: NDArray[Any]) -> list[Edge]:
        """Write the values; return the edges of large runs, which the parent writes."""
        with positioned.opened_to_write(self.tensor.path, self.tensor.name) as fd:
            return self.tensor.write(fd, region, values, self.writers)


class Edges:
    """The edges that workers have left in a new file, written many at once.

    Writes through the page cache and direct ones wait for each other.
    """

    def __init__(self, file: NewFile) -> None:
        self._file = file
        self._edges: list[Edge] = []

    def add(self, edges: list[Edge]) -> None:
        """Gather edges, and write them if they are many."""
        self._edges += edges
        if len(self._edges) >= _EDGES:
            self.write()

    def write(self) -> None:
        """Write all that were gathered."""
        with positioned.opened_to_write(self._file.temporary, self._file.name) as fd:
            for place, data in sorted(self._edges):
                positioned.write_all(fd, data, place, self._file.name)
        self._edges.clear()


class RawSink(FileSink):
    """A new file into which the workers write their regions, and the parent the edges between them.

    A subclass sets `tensor`, at the latest in `start`, and reserves the file's bytes in `start`.
    """

    tensor: RawTensor

    def __init__(self, file: NewFile) -> None:
        super().__init__(file)
        self._edges = Edges(file)

    def outlet(self, region: Region) -> Outlet:  # noqa: ARG002 - every region has the same one
        """An outlet that writes into the temporary file."""
        return RawOutlet(self.tensor, self.writers)

    def receive(self, parcel: object) -> None:
        """Gather the edges."""
        self._edges.add(cast("list[Edge]", parcel))

    def finish(self) -> None:
        """Write the last edges."""
        self._edges.write()
