"""The elements of HDF5 datasets, read and written by HDF5, which converts none of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import h5py
import numpy as np
from h5py import h5s
from numpy.typing import NDArray

from revseq_cli.core import signals
from revseq_cli.core.tensors import Region, chunk_boxes, inside, sizes_of
from revseq_cli.formats.hdf5.types import memory_type

# Held while values are read and written: workers of dask have several threads, and some functions
# of h5py take no lock.
LOCK = threading.RLock()
_CHUNKS_AT_ONCE = 1 << 12  # of which HDF5 reads a part in one call


def read_elements(dataset: h5py.Dataset, region: Region, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The values of the region; 0 for chunks that were never written and have no fill value.

    A signal stops it between parts of the region.
    """
    values: NDArray[Any] = np.zeros(sizes_of(region), dtype)
    kind = memory_type(dataset.id.get_type(), dtype)
    for part in _cut_region(region, dataset.chunks):
        signals.check()
        in_values = h5s.create_simple(values.shape)
        if part != region:
            _select(in_values, inside(part, region))
        in_file = _select(dataset.id.get_space(), part)
        dataset.id.read(in_values, in_file, values, kind)
    return values


def write_elements(dataset: h5py.Dataset, region: Region, values: NDArray[Any]) -> None:
    """Write the values of the region."""
    kind = memory_type(dataset.id.get_type(), values.dtype)
    in_values = h5s.create_simple(sizes_of(region))
    in_file = _select(dataset.id.get_space(), region)
    dataset.id.write(in_values, in_file, np.require(values, requirements="C"), kind)


def _select(space: h5s.SpaceID, region: Region) -> h5s.SpaceID:
    """The dataspace, of which only a region is selected."""
    if region:  # without dimensions, there is nothing to select
        space.select_hyperslab(tuple(part.start for part in region), sizes_of(region))
    return space


def _cut_region(region: Region, chunks: tuple[int, ...] | None) -> Iterator[Region]:
    """The region in parts of few chunks, so that signals are looked at between the parts.

    HDF5 takes 5 s only to find out that 400,000 chunks were never written.
    """
    if chunks is None:
        yield region
        return
    part_sizes = list(chunks)
    chunks_left = _CHUNKS_AT_ONCE
    for d in reversed(range(len(chunks))):
        size = region[d].stop - region[d].start
        most_touched = size // chunks[d] + 2  # it may begin and end inside a chunk
        count = min(chunks_left, most_touched)
        part_sizes[d] = count * chunks[d]
        chunks_left = max(1, chunks_left // count)
    yield from chunk_boxes(region, tuple(part_sizes))
