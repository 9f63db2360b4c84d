"""Chunks encoded by HDF5's own filters, in a worker."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.formats.hdf5.coding import Coding
from revseq_cli.formats.hdf5.files import in_memory
from revseq_cli.formats.hdf5.filters import UNCOMPRESSED, filters_of, require_filters
from revseq_cli.formats.hdf5.library import h5py, lock
from revseq_cli.formats.hdf5.places import Chunk, parts
from revseq_cli.ground.errors import FormatError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from revseq_cli.formats.regions import Region

# Filters that never lose anything; chunks that pass any other filter are decoded again and compared.
_LOSSLESS = frozenset({1, 2, 3, 4, 32000})
_scratches = threading.local()


@dataclass(frozen=True)
class ChunkOutlet:
    """Encodes the chunks of a block through HDF5's own filters.

    Property lists cannot be pickled, but the image of a file can: `image` is a file with a dataset of one chunk and of
    the same storage. Each chunk is written into that, and read back as HDF5 stores it. `encoded` says whether there are
    filters, and `checked` whether some of them may lose something.
    """

    chunks: tuple[int, ...]
    image: bytes
    name: str
    encoded: bool
    checked: bool

    def deliver(self, region: Region, values: NDArray[Any]) -> list[Chunk]:
        """The encoded chunks of a region that begins at a chunk, and ends at one or at the tensor's end."""
        return [
            Chunk(tuple(b.start for b in box), *self.stored(np.ascontiguousarray(part)))
            for box, part in parts(region, values, self.chunks)
        ]

    def stored(self, part: NDArray[Any]) -> tuple[int, bytes]:
        """Encode a chunk: the filters that were skipped, as bits, and its bytes as HDF5 stores them.

        `part` is the chunk up to the tensor's end. HDF5 fills up a chunk beyond the end, and decides whether such a
        chunk passes through the filters.
        """
        if not self.encoded and part.shape == self.chunks:
            return 0, part.tobytes()
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
                        "its filters do not give back what they took", "filters without loss",
                        UNCOMPRESSED, self.name,
                    )  # fmt: skip
        except (OSError, RuntimeError, ValueError) as e:
            if isinstance(e, FormatError):
                raise
            if "memory allocation failed" in str(e):
                raise MemoryError from None
            raise FormatError(
                f"its filters cannot encode: {str(e)[:200]}", "filters that can", UNCOMPRESSED, self.name
            ) from None
        return mask, data


def outlet_for(dataset: h5py.Dataset, properties: h5py.h5p.PropDCID, name: str) -> ChunkOutlet:
    """The outlet for chunks of a new dataset, which was made with these properties; `name` is for messages."""
    codes = filters_of(dataset)
    image = _image(dataset, properties)
    return ChunkOutlet(properties.get_chunk(), image, name, bool(codes), not _LOSSLESS.issuperset(codes))


def last_chunk(outlet: ChunkOutlet, coding: Coding, dtype: np.dtype[Any]) -> tuple[Coding, int, bytes]:
    """How HDF5 stores chunks that reach beyond the tensor's end: their coding, their mask, and the element there.

    A chunk that HDF5 encodes tells: it fills such chunks up, and they may pass no filter.
    """
    chunks, size = outlet.chunks, prod(outlet.chunks) * dtype.itemsize
    longest = chunks.index(max(chunks))
    shape = tuple(chunk - (d == longest) for d, chunk in enumerate(chunks))
    part = np.resize(np.arange(251, dtype=np.uint8), prod(shape) * dtype.itemsize).view(dtype).reshape(shape)
    mask, data = outlet.stored(part)
    try:
        whole = coding.decode(bytearray(data), mask, size).view(dtype).reshape(chunks)
        if whole[tuple(slice(0, length) for length in shape)].tobytes() == part.tobytes():
            return coding, mask, whole.tobytes()[-dtype.itemsize :]
    except ValueError:
        pass
    return Coding(), mask, data[-dtype.itemsize :]


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
