"""Chunks read and written where they lie in the file, by several threads at once: HDF5 only says where that is."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.formats.raw import RawTensor
from revseq_cli.formats.regions import chunk_boxes
from revseq_cli.formats.storage import positioned
from revseq_cli.ground.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from revseq_cli.formats.hdf5.coding import Coding
    from revseq_cli.formats.regions import Region
    from revseq_cli.formats.storage.positioned import Edge

# Where a chunk lies in its file: offset, size in bytes, and the filters that it skipped, as bits. The offset is 0 where
# only HDF5 can read the chunk, or none is stored.
PLACE = np.dtype([("offset", "<i8"), ("size", "<i8"), ("mask", "<u4")])


class Chunk(NamedTuple):
    """An encoded chunk: its first index in each dimension, the filters that it skipped, as bits, and its bytes."""

    start: tuple[int, ...]
    mask: int
    data: bytes | memoryview


def damaged(box: Region, where: str) -> FormatError:
    """The error for a chunk that cannot be decoded."""
    found = f"the chunk at {[part.start for part in box]} is damaged: it fails its checksum or its filter"
    return FormatError(found, "the whole file", "fetch it again", where)


def parts(region: Region, values: NDArray[Any], chunks: tuple[int, ...]) -> Iterator[tuple[Region, NDArray[Any]]]:
    """Each chunk of a region that begins at a chunk: its own region, up to the end of that one, and its values."""
    for box in chunk_boxes(region, chunks):
        yield box, values[_inside(box, region)]


def padded(part: NDArray[Any], chunks: tuple[int, ...], padding: bytes) -> NDArray[Any]:
    """A whole chunk of which `part` lies in the tensor; the other elements are `padding`."""
    if part.shape == chunks:
        return part
    whole = np.frombuffer(bytearray(padding) * prod(chunks), part.dtype).reshape(chunks)
    whole[tuple(slice(0, size) for size in part.shape)] = part
    return whole


@dataclass(frozen=True)
class ChunkTicket:
    """Reads one region, whose chunks lie at `places`, of a file that must be as it was when its header was read."""

    path: str
    name: str
    dtype: np.dtype[Any]
    chunks: tuple[int, ...]
    coding: Coding
    unchanged: positioned.Identity
    region: Region
    places: NDArray[Any]

    def read(self) -> NDArray[Any]:
        """The values of the region."""
        values = np.empty([part.stop - part.start for part in self.region], self.dtype)
        with positioned.opened(self.path, self.unchanged, self.name) as fd:
            boxes = chunk_boxes(self.region, self.chunks)
            for box, place in zip(boxes, self.places.reshape(-1).tolist(), strict=True):
                shared = tuple(slice(max(b.start, r.start), b.stop) for b, r in zip(box, self.region, strict=True))
                into = values[_inside(shared, self.region)]
                if self.coding.filters:
                    into[...] = self._decoded(fd, place, box)[_inside(shared, box)]
                else:
                    self._copy(fd, place[0], _inside(shared, box), into)
        return values

    def _decoded(self, fd: int, place: tuple[int, int, int], box: Region) -> NDArray[Any]:
        offset, size, mask = place
        data = bytearray(size)
        positioned.read_into(fd, memoryview(data), offset, self.name)
        try:
            chunk = self.coding.decode(data, mask, prod(self.chunks) * self.dtype.itemsize)
        except ValueError:
            raise damaged(box, self.name) from None
        return chunk.view(self.dtype).reshape(self.chunks)

    def _copy(self, fd: int, offset: int, own: Region, into: NDArray[Any]) -> None:
        """Read the part `own` of a chunk that is stored as it is."""
        if into.shape == self.chunks and into.flags.c_contiguous:
            positioned.read_into(fd, into.reshape(-1).view(np.uint8).data, offset, self.name)
        else:
            into[...] = RawTensor(self.path, self.name, offset, self.dtype, self.chunks).read(fd, own)


@dataclass(frozen=True)
class PlacedOutlet:
    """Writes the chunks of a block at their offsets, as they are. `padding` is the element behind the tensor's end."""

    path: str
    name: str
    chunks: tuple[int, ...]
    padding: bytes
    offsets: tuple[int, ...]
    writers: int

    def deliver(self, region: Region, values: NDArray[Any]) -> list[Edge]:
        """Write the chunks; return the edges of large ones, which the parent writes."""
        edges: list[Edge] = []
        whole = tuple(slice(0, size) for size in self.chunks)
        with positioned.opened_to_write(self.path, self.name) as fd:
            for (_, part), offset in zip(parts(region, values, self.chunks), self.offsets, strict=True):
                tensor = RawTensor(self.path, self.name, offset, values.dtype, self.chunks)
                edges += tensor.write(fd, whole, padded(part, self.chunks, self.padding), self.writers)
        return edges


@dataclass(frozen=True)
class CodedOutlet:
    """Encodes the chunks of a block.

    `last` is the coding and the mask of those that reach beyond the tensor's end, and `padding` the element there.
    """

    chunks: tuple[int, ...]
    coding: Coding
    padding: bytes
    last: tuple[Coding, int]

    def deliver(self, region: Region, values: NDArray[Any]) -> list[Chunk]:
        """The encoded chunks, which the parent writes."""
        encoded = []
        for box, part in parts(region, values, self.chunks):
            coding, mask = (self.coding, 0) if part.shape == self.chunks else self.last
            data = coding.encode(padded(part, self.chunks, self.padding))
            encoded.append(Chunk(tuple(b.start for b in box), mask, data))
        return encoded


def _inside(part: Region, whole: Region) -> Region:
    """A part of a region, as indices into that region's values."""
    return tuple(slice(p.start - w.start, p.stop - w.start) for p, w in zip(part, whole, strict=True))
