"""Tensors whose elements lie in a file as they are, at an offset: sources and sinks for most formats."""

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


# Runs of at least so many bytes are written past the page cache: for smaller ones, a call for each costs more than the
# cache does.
_LARGE = 1 << 20
_CHEAP_RUN, _CACHE_LINE = 1 << 14, 64  # bytes
_EDGES = 1 << 10  # the edges that are gathered before they are written, each of less than a page


def grains_of(dtype: np.dtype[Any], sizes: tuple[int, ...], order: str = "C") -> list[tuple[int, ...]]:
    """At which multiples of indices to cut elements that lie in a file as they are, the best first.

    A run along the fastest dimension for which a call of its own is no great cost; then a line of the CPU's cache.
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
        """The first byte behind the elements."""
        return self.offset + prod(self.sizes) * self.dtype.itemsize

    @property
    def grain(self) -> tuple[int, ...]:
        """A run along the fastest dimension that is worth a system call of its own."""
        return grains_of(self.dtype, self.sizes, self.order)[0]

    @property
    def finest_grain(self) -> tuple[int, ...]:
        """A run along the fastest dimension of one line of the processor's cache."""
        return grains_of(self.dtype, self.sizes, self.order)[1]

    def read(self, fd: int, region: Region) -> NDArray[Any]:
        """The values of the region, in the file's memory order."""
        sizes, parts = self._stored(region)
        values = np.empty([part.stop - part.start for part in parts], self.dtype)
        buffer = values.reshape(-1).view(np.uint8).data
        for place, chunk in self._runs(sizes, parts, buffer):
            positioned.read_into(fd, chunk, place, self.name)
        return values.T if self.order == "F" else values

    def write(self, fd: int, region: Region, values: NDArray[Any]) -> list[Edge]:
        """Write the values of the region; return the edges that the caller is to write."""
        sizes, parts = self._stored(region)
        stored = np.ascontiguousarray(values.T if self.order == "F" else values, self.dtype)
        buffer = stored.reshape(-1).view(np.uint8).data
        edges: list[Edge] = []
        for place, chunk in self._runs(sizes, parts, buffer):
            if len(chunk) >= _LARGE:
                edges += positioned.write_large(self.path, fd, chunk, place, self.name)
            else:
                positioned.write_all(fd, chunk, place, self.name)
        return edges

    def _stored(self, region: Region) -> tuple[tuple[int, ...], Region]:
        """Sizes and region as they lie in the file: Fortran order is C order with the dimensions reversed."""
        return (self.sizes[::-1], region[::-1]) if self.order == "F" else (self.sizes, region)

    def _runs(self, sizes: tuple[int, ...], parts: Region, buffer: memoryview) -> Iterator[tuple[int, memoryview]]:
        """Each contiguous run of the region: its place in the file, and its part of the buffer."""
        if not sizes or not buffer:  # one element, or none
            return iter([(self.offset, buffer)][: len(buffer)])
        cut = len(sizes)  # the region has all of the dimensions from here on, so that they are one run
        while cut > 0 and parts[cut - 1] == slice(0, sizes[cut - 1]):
            cut -= 1
        cut = max(cut - 1, 0)  # a part of one more dimension is still one run
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
    """One region of a file that must be as it was when its header was read."""

    tensor: RawTensor
    unchanged: positioned.Identity
    region: Region

    def read(self) -> NDArray[Any]:
        """The values of the region."""
        with positioned.opened(self.tensor.path, self.unchanged, self.tensor.name) as fd:
            return self.tensor.read(fd, self.region)


class RawSource(Source):
    """A tensor whose elements lie in a file as they are, at an offset that the format has read from the header."""

    def __init__(self, tensor: RawTensor, unchanged: positioned.Identity, storage: Storage) -> None:
        self._raw, self._unchanged, self.identity, self.storage = tensor, unchanged, unchanged, storage
        self.name, self.path = tensor.name, tensor.path
        self.dtype, self.sizes, self.order = tensor.dtype, tensor.sizes, tensor.order

    @property
    def grain(self) -> tuple[int, ...]:
        """A run along the fastest dimension that is worth a system call of its own."""
        return self._raw.grain

    @property
    def finest_grain(self) -> tuple[int, ...]:
        """A run along the fastest dimension of one line of the processor's cache."""
        return self._raw.finest_grain

    def ticket(self, region: Region) -> Ticket:
        """The right to read that region."""
        return RawTicket(self._raw, self._unchanged, region)


@dataclass(frozen=True)
class RawOutlet:
    """Writes regions into a file that exists and has its full size."""

    tensor: RawTensor

    def deliver(self, region: Region, values: NDArray[Any]) -> list[Edge]:
        """Write the values; return the edges of large runs, which the parent writes."""
        with positioned.opened_to_write(self.tensor.path, self.tensor.name) as fd:
            return self.tensor.write(fd, region, values)


class RawSink(FileSink):
    """A new file into which the workers write their regions themselves, and the parent the edges between them.

    A format sets `tensor` at the latest in `start`, and reserves the bytes there.
    """

    tensor: RawTensor

    def __init__(self, file: NewFile) -> None:
        super().__init__(file)
        self._edges: list[Edge] = []

    def outlet(self) -> Outlet:
        """Writes each region at its offsets in the temporary file."""
        return RawOutlet(self.tensor)

    def receive(self, parcel: object) -> None:
        """Gather the edges, and write them when there are many: direct writes wait for each write through the cache."""
        self._edges += cast("list[Edge]", parcel)
        if len(self._edges) >= _EDGES:
            self._write_edges()

    def finish(self) -> None:
        """Write the last edges."""
        self._write_edges()

    def _write_edges(self) -> None:
        with positioned.opened_to_write(self.file.temporary, self.file.name) as fd:
            for place, data in sorted(self._edges):
                positioned.write_all(fd, data, place, self.file.name)
        self._edges.clear()
