"""The storage of a new HDF5 dataset: layout, chunks and filters, as in the input or as the user asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from revseq_cli.formats.hdf5.files import in_memory
from revseq_cli.formats.hdf5.filters import pipeline
from revseq_cli.formats.hdf5.library import h5py
from revseq_cli.formats.hdf5.source import Hdf5Source
from revseq_cli.ground.errors import FormatError, UsageError, Words

if TYPE_CHECKING:
    from revseq_cli.formats.contract import Layout, Source

_SHUFFLE, _FLETCHER32 = h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32


def creation_properties(like: Source, layout: Layout, where: str) -> h5py.h5p.PropDCID:
    """The storage of the new dataset: that of the input, where `layout` does not ask for another."""
    if isinstance(like, Hdf5Source):
        properties = like.origin.properties.copy()
    else:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    if not like.sizes and layout.changes_storage:
        raise UsageError(
            "has no dimensions, and so no chunks", "neither chunks nor a compression for it", where=like.name
        )
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


def _compress(properties: h5py.h5p.PropDCID, compression: str | int) -> None:
    """Change the filters that compress; a checksum stays, and so does a shuffle before gzip."""
    codes = [code for code, _, _ in pipeline(properties)]
    if codes:
        properties.remove_filter(h5py.h5z.FILTER_ALL)
    if isinstance(compression, int):
        if _SHUFFLE in codes:
            properties.set_shuffle()
        properties.set_deflate(compression)
    if _FLETCHER32 in codes:
        properties.set_fletcher32()


def _guessed_chunks(like: Source) -> tuple[int, ...]:
    """The sizes of chunks that h5py would choose."""
    with in_memory() as file:
        chunks: tuple[int, ...] = file.create_dataset("x", like.sizes, like.dtype, chunks=True).chunks
        return chunks


def _checked(chunks: Any, sizes: tuple[int, ...], where: str) -> tuple[int, ...]:  # noqa: ANN401 - h5py's or the user's
    if len(chunks) != len(sizes):
        found = f"the chunks have {len(chunks)} sizes"
        raise FormatError(
            found, f"{len(sizes)}, one for each dimension", Words.of("try {}", chunks="x".join(map(str, sizes))), where
        )
    return tuple(min(chunk, max(1, size)) for chunk, size in zip(chunks, sizes, strict=True))
