"""Where the chunks of a dataset lie in its file, so that they are read without HDF5."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.formats.hdf5.coding import Coding
from revseq_cli.formats.hdf5.filters import pipeline
from revseq_cli.formats.hdf5.places import PLACE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from revseq_cli.formats.hdf5.library import h5py

_MOST_CHUNKS = 1 << 20  # whose places take 20 MiB of memory, and seconds to collect


def coding_of(dataset: h5py.Dataset, dtype: np.dtype[Any]) -> Coding | None:
    """The coding of the chunks of a dataset that can be read without HDF5; None for any other dataset."""
    if not dataset.chunks or prod(_grid(dataset)) > _MOST_CHUNKS:
        return None
    if dataset.file.userblock_size or not hasattr(dataset.id, "chunk_iter"):
        return None  # HDF5's versions differ in where they say that chunks lie, or do not say it
    return Coding.of(pipeline(dataset.id.get_create_plist()), dtype.itemsize)


def places_of(dataset: h5py.Dataset, dtype: np.dtype[Any], end: int) -> NDArray[Any]:
    """The place of each chunk of a dataset that has a coding, in a file that ends at `end`."""
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
