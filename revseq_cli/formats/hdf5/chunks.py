"""Chunks of HDF5 datasets, read and written beside HDF5, which has one lock for all threads while its filters work.

`places_of` says where the chunks lie, a `ChunkTicket` reads them there, and a `PlacedOutlet` writes them there.
`OwnFilters` are gzip and shuffle, which Python's zlib does while other threads run. A `ChunkOutlet` encodes
chunks, with HDF5's own filters where it must.
"""

from __future__ import annotations

import threading
import zlib
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.formats.contract import chunk_boxes, inside, not_whole, parts
from revseq_cli.formats.hdf5.files import in_memory
from revseq_cli.formats.hdf5.filters import LOSSLESS, filters_of, pipeline, require_filters
from revseq_cli.formats.hdf5.library import h5py, lock
from revseq_cli.formats.raw import RawTensor
from revseq_cli.formats.storage import positioned
from revseq_cli.ground import thresholds
from revseq_cli.ground.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Region
    from revseq_cli.formats.storage.positioned import Edge
    from revseq_cli.ground.errors import Advice

_GZIP, _SHUFFLE = 1, 2  # HDF5's numbers
_scratches = threading.local()


@dataclass(frozen=True)
class OwnFilters:
    """The filters that a chunk passes, where Python can do all of them: gzip and shuffle.

    Of each there is HDF5's number, and a parameter: gzip's level, or shuffle's item size.
    """

    filters: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, pipeline: Sequence[tuple[int, int, tuple[int, ...]]], itemsize: int) -> OwnFilters | None:
        """The filters by their numbers, flags and parameters; None where one of them needs HDF5."""
        known = {(_SHUFFLE, ()): itemsize, (_SHUFFLE, (itemsize,)): itemsize}  # HDF5 sets it in a new dataset
        known |= {(_GZIP, (level,)): level for level in range(10)}
        if any((code, parameters) not in known for code, _, parameters in pipeline):
            return None
        codes = [code for code, _, _ in pipeline]
        if len(set(codes)) < len(codes):  # what one of two inflates may be longer than a chunk
            return None
        return cls(tuple((code, known[code, parameters]) for code, _, parameters in pipeline))

    def encode(self, chunk: NDArray[Any]) -> bytes | bytearray:
        """The bytes that HDF5 stores for a whole chunk."""
        data: bytearray | memoryview = np.ascontiguousarray(chunk).reshape(-1).view(np.uint8).data
        for code, parameter in self.filters:
            data = _shuffled(data, parameter) if code == _SHUFFLE else _deflated(data, parameter)
        return bytes(data) if isinstance(data, memoryview) else data

    def decode(self, data: bytearray, mask: int, size: int) -> NDArray[np.uint8]:
        """The `size` bytes of a chunk that skipped the filters in `mask`; ValueError where they do not give so many."""
        chunk = np.frombuffer(data, np.uint8)
        for i, (code, parameter) in reversed([*enumerate(self.filters)]):
            if mask >> i & 1:
                continue
            if code == _SHUFFLE:
                chunk = _unshuffled(chunk, parameter)
            else:
                chunk = np.frombuffer(_inflated(chunk, size), np.uint8)
        if len(chunk) != size:
            raise ValueError
        return chunk


def _shuffled(data: bytearray | memoryview, itemsize: int) -> memoryview:
    """The first bytes of all items, then all second ones, and so on; what is left over stays at the end."""
    items = np.frombuffer(data, np.uint8)
    shuffled, count = np.empty(len(items), np.uint8), len(items) // itemsize
    for i in range(itemsize):
        shuffled[i * count : (i + 1) * count] = items[i : count * itemsize : itemsize]
    shuffled[count * itemsize :] = items[count * itemsize :]
    return shuffled.data


def _unshuffled(data: NDArray[np.uint8], itemsize: int) -> NDArray[np.uint8]:
    """What was shuffled so."""
    items, count = np.empty(len(data), np.uint8), len(data) // itemsize
    for i in range(itemsize):  # faster than to transpose them
        items[i : count * itemsize : itemsize] = data[i * count : (i + 1) * count]
    items[count * itemsize :] = data[count * itemsize :]
    return items


def _deflated(data: bytearray | memoryview, level: int) -> bytearray:
    """A whole stream of zlib. It is made in pieces, since zlib.compress holds what it makes up to three times."""
    stream, deflated = zlib.compressobj(level), bytearray()
    for start in range(0, len(data), thresholds.DEFLATED_AT_ONCE):
        deflated += stream.compress(data[start : start + thresholds.DEFLATED_AT_ONCE])
    deflated += stream.flush()
    return deflated


def _inflated(data: NDArray[np.uint8], most: int) -> bytes:
    """What a whole stream of zlib holds, up to one byte more than `most`."""
    stream = zlib.decompressobj()
    try:
        inflated = stream.decompress(data.data, most + 1)
    except zlib.error:
        raise ValueError from None
    if not stream.eof:
        raise ValueError
    return inflated


# Where a chunk lies in its file: offset, size in bytes, and the filters that it skipped, as bits. The offset is 0 where
# only HDF5 can read the chunk, or none is stored.
PLACE = np.dtype([("offset", "<i8"), ("size", "<i8"), ("mask", "<u4")])


class Chunk(NamedTuple):
    """An encoded chunk: its first index in each dimension, the filters that it skipped, as bits, and its bytes."""

    start: tuple[int, ...]
    mask: int
    data: bytes | bytearray | memoryview


def damaged(box: Region, where: str) -> FormatError:
    """The error for a chunk that cannot be decoded."""
    place = [part.start for part in box]
    return not_whole(f"the chunk at {place} is damaged: it fails its checksum or its filter", where)


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
    own_filters: OwnFilters
    unchanged: positioned.Identity
    region: Region
    places: NDArray[Any]

    def read(self) -> NDArray[Any]:
        """The values of the region."""
        values = np.empty([part.stop - part.start for part in self.region], self.dtype)
        with positioned.opened(self.path, self.unchanged, self.name) as fd:
            boxes = chunk_boxes(self.region, self.chunks)
            for box, place in zip(boxes, self.places.flat, strict=True):
                shared = tuple(slice(max(b.start, r.start), b.stop) for b, r in zip(box, self.region, strict=True))
                into = values[inside(shared, self.region)]
                if self.own_filters.filters:
                    into[...] = self._decoded(fd, place.item(), box)[inside(shared, box)]
                else:
                    self._copy(fd, int(place["offset"]), inside(shared, box), into)
        return values

    def _decoded(self, fd: int, place: tuple[int, int, int], box: Region) -> NDArray[Any]:
        offset, size, mask = place
        data = bytearray(size)
        positioned.read_into(fd, memoryview(data), offset, self.name)
        try:
            chunk = self.own_filters.decode(data, mask, prod(self.chunks) * self.dtype.itemsize)
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


def own_filters_of(dataset: h5py.Dataset, dtype: np.dtype[Any]) -> OwnFilters | None:
    """The filters of a dataset whose chunks can be read without HDF5; None for any other dataset."""
    if not dataset.chunks or prod(_grid(dataset)) > thresholds.MOST_CHUNKS:
        return None
    if dataset.file.userblock_size or not hasattr(dataset.id, "chunk_iter"):
        return None  # HDF5's versions differ in where they say that chunks lie, or do not say it
    return OwnFilters.of(pipeline(dataset.id.get_create_plist()), dtype.itemsize)


def places_of(dataset: h5py.Dataset, dtype: np.dtype[Any], end: int) -> NDArray[Any]:
    """The place of each chunk of a dataset that has filters of our own, or none, in a file that ends at `end`."""
    places, chunks = np.zeros(_grid(dataset), PLACE), dataset.chunks
    counts_chunks = []  # as some versions of HDF5 1.12 do, where others count elements

    def note(chunk: Any) -> None:  # noqa: ANN401 - of a type that h5py does not name
        index, rests = zip(*map(divmod, chunk.chunk_offset, chunks), strict=True)
        if any(rests):
            counts_chunks.append(chunk)
        elif all(i < n for i, n in zip(index, places.shape, strict=True)):  # not one beyond the end of the dataset
            places[index] = chunk.byte_offset, chunk.size, chunk.filter_mask

    dataset.id.chunk_iter(note)
    if counts_chunks:
        places["offset"] = 0
    whole = prod(chunks) * dtype.itemsize
    if pipeline(dataset.id.get_create_plist()):
        unclear = _beyond(dataset) & (places["size"] == whole)  # it may have passed no filter, whatever the mask says
    else:
        unclear = places["size"] != whole
    places["offset"][unclear | (places["offset"] + places["size"] > end)] = 0
    return places


def _grid(dataset: h5py.Dataset) -> tuple[int, ...]:
    """The number of chunks along each dimension."""
    return tuple(-(-size // chunk) for size, chunk in zip(dataset.shape, dataset.chunks, strict=True))


def _beyond(dataset: h5py.Dataset) -> NDArray[np.bool_]:
    """Which chunks reach beyond the end of the dataset."""
    beyond = np.zeros(_grid(dataset), bool)
    for d, (size, chunk) in enumerate(zip(dataset.shape, dataset.chunks, strict=True)):
        if size % chunk:
            beyond[(slice(None),) * d + (-1,)] = True
    return beyond


@dataclass(frozen=True)
class ChunkOutlet:
    """Encodes the chunks of a block: with `own_filters`, where there are any and the chunk is whole, else with HDF5.

    Property lists cannot be pickled, but the image of a file can: `image` is a file with a dataset of one chunk and of
    the same storage. Each chunk is written into that, and read back as HDF5 stores it. `checked` says whether some
    filters may lose something, and `hint` what to type where they do not fit.
    """

    chunks: tuple[int, ...]
    image: bytes
    name: str
    own_filters: OwnFilters | None
    checked: bool
    hint: Advice

    def deliver(self, region: Region, values: NDArray[Any]) -> list[Chunk]:
        """The encoded chunks of a region that begins at a chunk, and ends at one or at the tensor's end."""
        return [
            Chunk(tuple(b.start for b in box), *self.stored(np.ascontiguousarray(part)))
            for box, part in parts(region, values, self.chunks)
        ]

    def stored(self, part: NDArray[Any]) -> tuple[int, bytes | bytearray]:
        """Encode a chunk: the filters that were skipped, as bits, and its bytes as HDF5 stores them.

        `part` is the chunk up to the tensor's end. HDF5 fills up a chunk beyond the end, and decides whether such a
        chunk passes through the filters.
        """
        if self.own_filters is not None and part.shape == self.chunks:
            return 0, self.own_filters.encode(part)
        scratch = _scratch(self.image).id
        place, kind = (0,) * part.ndim, scratch.get_type()
        try:
            if scratch.shape != part.shape:
                scratch.set_extent(self.chunks)  # shrinking it next fills up what is cut off, and nothing else
                scratch.write(h5py.h5s.ALL, h5py.h5s.ALL, np.zeros(self.chunks, part.dtype), kind)
                scratch.set_extent(part.shape)
            scratch.write(h5py.h5s.ALL, h5py.h5s.ALL, part, kind)
            scratch.flush()  # else, in files of HDF5's latest layout, h5py reserves 0 bytes below and overruns them
            with lock:
                mask, data = scratch.read_direct_chunk(place)
            if self.checked:
                decoded = np.empty_like(part)
                with lock:
                    scratch.write_direct_chunk(place, data, mask)
                scratch.read(h5py.h5s.ALL, h5py.h5s.ALL, decoded, kind)
                if decoded.tobytes() != part.tobytes():
                    raise FormatError(
                        "its filters do not give back what they took", "filters without loss", self.hint, self.name,
                    )  # fmt: skip
        except (OSError, RuntimeError, ValueError) as e:
            if isinstance(e, FormatError):
                raise
            if "memory allocation failed" in str(e):
                raise MemoryError from None
            raise FormatError(
                f"its filters cannot encode: {str(e)[:200]}", "filters that can", self.hint, self.name
            ) from None
        return mask, data


def outlet_for(dataset: h5py.Dataset, properties: h5py.h5p.PropDCID, name: str, hint: Advice) -> ChunkOutlet:
    """The outlet for chunks of a new dataset made with these properties; `name` and `hint` are for messages."""
    own_filters = OwnFilters.of(pipeline(properties), dataset.dtype.itemsize)
    checked = not LOSSLESS.issuperset(filters_of(dataset.id.get_create_plist()))
    return ChunkOutlet(properties.get_chunk(), _image(dataset, properties), name, own_filters, checked, hint)


def _image(dataset: h5py.Dataset, properties: h5py.h5p.PropDCID) -> bytes:
    """The bytes of a file with a dataset of one chunk, of the same type and with the same storage."""
    with in_memory() as file:
        space = h5py.h5s.create_simple(properties.get_chunk(), properties.get_chunk())
        h5py.h5d.create(file.id, b"chunk", dataset.id.get_type(), space, properties)
        file.flush()
        image: bytes = file.id.get_file_image()
        return image


def _scratch(image: bytes) -> h5py.Dataset:
    """The dataset of one chunk, one for each thread: no other thread may write between its writing and its reading."""
    if getattr(_scratches, "image", None) != image:
        _scratches.dataset = in_memory(image)["chunk"]
        _scratches.image = image
        require_filters(_scratches.dataset, "the output")
    return _scratches.dataset
