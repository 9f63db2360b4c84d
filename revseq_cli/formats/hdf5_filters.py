"""The storage of a new HDF5 dataset: layout, chunks and filters, from those of the input and from the options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from revseq_cli.errors import FormatError, UsageError
from revseq_cli.formats import hdf5
from revseq_cli.formats.hdf5_library import h5py

if TYPE_CHECKING:
    from collections.abc import Callable

    from revseq_cli.formats.base import Layout, Source

_SHUFFLE, _FLETCHER32 = h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32

# A filter may complete its parameters when a dataset is made: a dataset then has more of them than were asked for, and
# asking for those again would complete them twice. These are the filters that do it in a way of their own, and what
# was asked for, in terms of what the dataset has: bitshuffle puts three numbers first, SZ and SZ3 the sizes of a chunk,
# JPEG-LS and HTJ2K need none, and SPERR packs its second one into the first.
_ASKED_FOR: dict[int, Callable[[tuple[int, ...]], tuple[int, ...]]] = {
    32008: lambda stored: stored[3:],
    32017: lambda stored: stored[-9:],
    32018: lambda _: (),
    32024: lambda stored: stored[-9:],
    32028: lambda stored: (stored[1], stored[0] >> 6 & 15),
    32033: lambda _: (),
}

_Filter = tuple[int, int, tuple[int, ...]]


def creation_properties(like: Source, layout: Layout, where: str) -> h5py.h5p.PropDCID:
    """The storage of the new dataset: that of the old one, as far as `layout` does not say otherwise."""
    if isinstance(like, hdf5.Hdf5Source):
        with hdf5.opened(like.path, like.name) as file:
            properties = properties_of(file[like.inner])
    else:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    if not like.sizes and layout.changes_storage:
        raise UsageError("has no dimensions, and so no chunks", "neither --chunks nor --compression", where=like.name)
    if layout.compression != "keep":
        _compress(properties, layout.compression)
    chunks = layout.chunks
    if chunks == "keep" and properties.get_nfilters() and properties.get_layout() != h5py.h5d.CHUNKED:
        chunks = "auto"
    if chunks == "auto":
        chunks = _guessed_chunks(like)
    if chunks != "keep":
        properties.set_chunk(_checked(chunks, like.sizes, where))
    return properties


def properties_of(dataset: h5py.Dataset) -> h5py.h5p.PropDCID:
    """What to ask for, to get a dataset with the storage of this one."""
    properties = dataset.id.get_create_plist().copy()
    filters = _filters(properties)
    if filters:
        properties.remove_filter(h5py.h5z.FILTER_ALL)
    for code, flags, stored in filters:
        properties.set_filter(code, flags, _ASKED_FOR.get(code, tuple)(stored))
    return properties


def changed_filters(made: h5py.Dataset, like: h5py.Dataset, asked: h5py.h5p.PropDCID) -> list[str]:
    """A note for each filter whose parameters differ although the same ones were asked for, as of another version."""
    kept = set(_filters(properties_of(like))) & set(_filters(asked))
    codes = {code for code, _, _ in kept}
    wanted = {code: stored for code, _, stored in _filters(like.id.get_create_plist()) if code in codes}
    found = {code: stored for code, _, stored in _filters(made.id.get_create_plist())}
    return [
        f"the filter {name} had the parameters {wanted[code]}, and has {found[code]} here"
        for code, name in hdf5.filters_of(like).items()
        if code in wanted and found[code] != wanted[code]
    ]


def _filters(properties: h5py.h5p.PropDCID) -> list[_Filter]:
    """Each filter's registered number, its flags and its parameters, in the order in which chunks pass them."""
    return [properties.get_filter(i)[:3] for i in range(properties.get_nfilters())]


def _compress(properties: h5py.h5p.PropDCID, compression: str | int) -> None:
    """Only what compresses is changed: a checksum stays, and so does a shuffle before gzip."""
    codes = [code for code, _, _ in _filters(properties)]
    if codes:
        properties.remove_filter(h5py.h5z.FILTER_ALL)
    if isinstance(compression, int):
        if _SHUFFLE in codes:
            properties.set_shuffle()
        properties.set_deflate(compression)
    if _FLETCHER32 in codes:
        properties.set_fletcher32()


def _guessed_chunks(like: Source) -> tuple[int, ...]:
    """What h5py would choose."""
    with h5py.File.in_memory() as file:
        chunks: tuple[int, ...] = file.create_dataset("x", like.sizes, like.dtype, chunks=True).chunks
        return chunks


def _checked(chunks: Any, sizes: tuple[int, ...], where: str) -> tuple[int, ...]:  # noqa: ANN401 - h5py's or the user's
    if len(chunks) != len(sizes):
        found = f"--chunks has {len(chunks)} sizes"
        raise FormatError(
            found, f"{len(sizes)}, one for each dimension", f"--chunks {'x'.join(map(str, sizes))}", where
        )
    return tuple(min(chunk, max(1, size)) for chunk, size in zip(chunks, sizes, strict=True))
