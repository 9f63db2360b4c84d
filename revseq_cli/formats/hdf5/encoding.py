"""Encodes chunks in the workers: HDF5 does it, in a file in memory, and the parent stores the bytes as they are.

So HDF5's filters, which have one lock for all threads of a process, work in all processes at once.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.core.errors import FormatError
from revseq_cli.formats.contract import parts
from revseq_cli.formats.hdf5.files import in_memory
from revseq_cli.formats.hdf5.filters import LOSSLESS, filters_of, require_filters
from revseq_cli.formats.hdf5.library import h5py, lock

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from revseq_cli.core.errors import Hint
    from revseq_cli.formats.contract import Region

_scratches = threading.local()


class Chunk(NamedTuple):
    """An encoded chunk: its first index in each dimension, the filters that it skipped, as bits, and its bytes."""

    start: tuple[int, ...]
    mask: int
    data: bytes


@dataclass(frozen=True)
class ChunkBlockWriter:
    """Encodes the chunks of a block.

    Property lists cannot be pickled, but the image of a file can: `image` is a file with a dataset of one chunk and of
    the same storage. Each chunk is written into that, and read back as HDF5 stores it. `checked` says whether some
    filters may lose something, and `hint` what to type where they do not fit.
    """

    chunks: tuple[int, ...]
    image: bytes
    name: str
    checked: bool
    hint: Hint

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
                        "its filters change values", "lossless filters", self.hint, self.name,
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


def block_writer_for(dataset: h5py.Dataset, properties: h5py.h5p.PropDCID, name: str, hint: Hint) -> ChunkBlockWriter:
    """The block writer for chunks of a new dataset made with these properties; `name` and `hint` are for messages."""
    checked = not LOSSLESS.issuperset(filters_of(dataset.id.get_create_plist()))
    return ChunkBlockWriter(properties.get_chunk(), _image(dataset, properties), name, checked, hint)


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
