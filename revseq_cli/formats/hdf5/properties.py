"""What HDF5 is asked for when a dataset is created: limits, chunks, filters and a fill value."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import h5py
import numpy as np
from h5py import h5d, h5p, h5z

from revseq_cli.formats.attributes import Meaning, fill_of
from revseq_cli.formats.contract import Source
from revseq_cli.formats.hdf5.files import RAISED
from revseq_cli.formats.hdf5.filters import take_filters
from revseq_cli.formats.hdf5.source import Hdf5Source

# The largest size of each dimension; None for one without a limit.
Limits = tuple[int | None, ...]


def choose_limits(template: Source, meaning: Meaning) -> Limits:
    """The largest sizes that a dataset for a tensor like `template` can have: those of INPUT."""
    if isinstance(template, Hdf5Source):
        limits: Limits = template.limits
        return limits
    names = meaning.dimensions or [""] * len(template.sizes)
    own_limits = list[int | None](template.sizes)
    for d, name in enumerate(names):
        if name in meaning.unlimited:
            own_limits[d] = None
    return tuple(own_limits)


def make_properties(template: Source, meaning: Meaning, limits: Limits) -> h5p.PropDCID:
    """The properties of a dataset for a tensor like `template`.

    Chunks and filters are those of INPUT. What codecs of Zarr have compressed becomes gzip after a
    shuffle.
    """
    properties = h5p.create(h5p.DATASET_CREATE)
    properties.set_obj_track_times(False)  # so that the same job gives the same bytes
    properties.set_attr_creation_order(h5p.CRT_ORDER_TRACKED | h5p.CRT_ORDER_INDEXED)
    chunks = _choose_chunks(template, limits)
    if chunks:
        properties.set_chunk(chunks)
    if isinstance(template, Hdf5Source):
        take_filters(properties, template.properties, without=h5z.FILTER_NBIT)
    elif chunks and template.storage.is_compressed:
        properties.set_shuffle()
        properties.set_deflate(4)
    fill = _find_fill(template, meaning)
    if fill is not None:
        properties.set_fill_value(np.array(fill, template.dtype))
    allocate_early(properties)
    return properties


def copy_properties(like: h5p.PropDCID) -> h5p.PropDCID:
    """The properties for another dataset like one that exists."""
    properties = like.copy()
    take_filters(properties, like)  # since some filters change what they are asked for
    return properties


def allocate_early(properties: h5p.PropDCID) -> None:
    """Let HDF5 reserve contiguous elements at once, and fill none: workers write all of them."""
    if properties.get_layout() == h5d.CONTIGUOUS:
        properties.set_alloc_time(h5d.ALLOC_TIME_EARLY)
        properties.set_fill_time(h5d.FILL_TIME_NEVER)


def _choose_chunks(template: Source, limits: Limits) -> tuple[int, ...] | None:
    """The chunks of INPUT; without any, those that h5py chooses for a dataset that can grow."""
    chunks = template.chunks
    if not chunks and None in limits:
        with h5py.File(io.BytesIO(), "w") as scratch:
            dataset = scratch.create_dataset("x", template.sizes, template.dtype, chunks=True)
            chunks = dataset.chunks
    if not chunks:
        return None
    fitting = []
    for chunk, size, limit in zip(chunks, template.sizes, limits, strict=True):
        if limit is None:
            fitting.append(chunk)
        else:  # HDF5 refuses a chunk that is larger than a dimension with a limit
            fitting.append(min(chunk, max(1, size, limit)))
    return tuple(fitting)


def _find_fill(template: Source, meaning: Meaning) -> Any:  # noqa: ANN401 - a NumPy number, or None
    """The fill value in the attributes, or else the one that somebody has set for INPUT's storage.

    None without either.
    """
    dtype = template.dtype
    fill = fill_of(meaning.attributes, dtype)
    if fill is not None:
        return fill
    if not isinstance(template, Hdf5Source):
        return meaning.storage_fill
    if dtype.kind not in "iufc" or not template.has_own_fill:
        return None
    fill = np.zeros((), dtype)
    # HDF5 does not convert all types, such as a bitfield.
    with contextlib.suppress(*RAISED):
        template.properties.get_fill_value(fill)
    return fill
