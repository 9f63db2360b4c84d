"""Chunks of new HDF5 datasets, which workers encode, and the parent stores as they are."""

from __future__ import annotations

import functools
import io
from dataclasses import dataclass
from typing import Any, NamedTuple

import h5py
import numpy as np
from h5py import h5p, h5s
from numpy.typing import NDArray

from revseq_cli.core import signals
from revseq_cli.core.errors import FormatError
from revseq_cli.core.tensors import Region, split_chunks
from revseq_cli.formats.hdf5.elements import LOCK
from revseq_cli.formats.hdf5.filters import filters_of, require_filters
from revseq_cli.formats.hdf5.types import memory_type

# Filters that never lose anything. Chunks that pass any other are decoded again, and compared.
_LOSSLESS = frozenset({1, 2, 3, 4, 32000})
_UNFILTERED = (
    "write another format, such as .npy, or first the input without filters: h5repack -f NONE"
)


class EncodedChunk(NamedTuple):
    """The bytes of a chunk as HDF5 stores them.

    `start` is its first index in each dimension. `skipped` has a bit for each filter, which is set
    if the chunk did not pass through it.
    """

    start: tuple[int, ...]
    data: bytes
    skipped: int


@dataclass(frozen=True)
class ChunkBlockWriter:
    """Encodes the chunks of a block with the filters of a dataset.

    HDF5 itself encodes a chunk, when it is written to a dataset with these filters; then its stored
    bytes are read. That dataset has only one chunk, and is in a file in memory, whose bytes are
    `image`: a property list cannot be pickled, but such a file can. `may_lose` says whether a
    filter may lose something. `name` is for messages.
    """

    chunks: tuple[int, ...]
    dtype: np.dtype[Any]
    image: bytes
    name: str
    may_lose: bool

    @classmethod
    def like(
        cls, dataset: h5py.Dataset, properties: h5p.PropDCID, dtype: np.dtype[Any], name: str
    ) -> ChunkBlockWriter:
        """The writer for chunks of a dataset with these properties."""
        kind = dataset.id.get_type().copy()
        chunks = properties.get_chunk()
        image = io.BytesIO()
        with h5py.File(image, "w") as file:
            space = h5s.create_simple(chunks, chunks)
            h5py.h5d.create(file.id, b"chunk", kind, space, properties)
        may_lose = not _LOSSLESS.issuperset(filters_of(properties))
        return cls(chunks, dtype, image.getvalue(), name, may_lose)

    def deliver(self, region: Region, values: NDArray[Any]) -> list[EncodedChunk]:
        """The encoded chunks of a region of whole chunks, up to the tensor's end."""
        try:
            with LOCK:
                scratch = _open_scratch(self.image)
                encoded = []
                for box, values_of_chunk in split_chunks(region, values, self.chunks):
                    signals.check()
                    skipped, data = self._encode_chunk(scratch, values_of_chunk)
                    start = tuple(part.start for part in box)
                    encoded.append(EncodedChunk(start, data, skipped))
                return encoded
        except FormatError:
            raise
        except (OSError, RuntimeError, ValueError) as e:
            found = f"its filters cannot encode: {str(e)[:200]}"
            raise FormatError(found, "filters that can", _UNFILTERED, self.name) from None

    def _encode_chunk(self, scratch: h5py.h5d.DatasetID, values: NDArray[Any]) -> tuple[int, bytes]:
        """The filters that a chunk skipped, as bits, and its bytes as HDF5 stores them.

        The values of a chunk end at the tensor's end. HDF5 fills the rest of the chunk, and decides
        whether such a chunk passes through the filters.
        """
        values = np.ascontiguousarray(values, self.dtype)
        kind = memory_type(scratch.get_type(), self.dtype)
        if scratch.shape != values.shape:
            # HDF5 fills only what a shrink cuts off. So the chunk is made whole, and cleared.
            scratch.set_extent(self.chunks)
            scratch.write(h5s.ALL, h5s.ALL, np.zeros(self.chunks, self.dtype), kind)
            scratch.set_extent(values.shape)
        scratch.write(h5s.ALL, h5s.ALL, values, kind)
        # Without a flush, in files of HDF5's latest layout, h5py reserves 0 bytes below, and
        # overruns them.
        scratch.flush()
        start = (0,) * scratch.rank
        skipped, data = scratch.read_direct_chunk(start)
        if self.may_lose:
            decoded = np.empty_like(values)
            scratch.write_direct_chunk(start, data, skipped)
            scratch.read(h5s.ALL, h5s.ALL, decoded, kind)
            if decoded.tobytes() != values.tobytes():
                raise FormatError(
                    "its filters change values", "lossless filters", _UNFILTERED, self.name
                )
        return skipped, data


@functools.lru_cache(maxsize=1)
def _open_scratch(image: bytes) -> h5py.h5d.DatasetID:
    """The dataset of one chunk in the image; a process keeps the last one open."""
    dataset = h5py.File(io.BytesIO(image), "r+")["chunk"]
    require_filters(dataset, "the output")
    return dataset.id
