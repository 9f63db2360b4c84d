"""New HDF5 files: workers write elements or chunks where they belong, or encode chunks, which the parent writes."""

from __future__ import annotations

import contextlib
import functools
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from revseq_cli.formats.contract import FileSink, Layout, Outlet, Source, chunk_boxes
from revseq_cli.formats.hdf5 import copying, netcdf, types
from revseq_cli.formats.hdf5.chunks import Chunk, ChunkOutlet, OwnFilters, PlacedOutlet, outlet_for
from revseq_cli.formats.hdf5.files import Recorder, in_memory, writing
from revseq_cli.formats.hdf5.filters import UNCOMPRESSED, pipeline
from revseq_cli.formats.hdf5.library import h5py, lock
from revseq_cli.formats.hdf5.links import parts_of
from revseq_cli.formats.hdf5.source import Hdf5Source, offset_of
from revseq_cli.formats.held import Handing
from revseq_cli.formats.raw import Edges, RawSink
from revseq_cli.formats.storage import positioned
from revseq_cli.ground import thresholds
from revseq_cli.ground.errors import Advice, FormatError, UsageError

if TYPE_CHECKING:
    from revseq_cli.formats.contract import Parcel, Region
    from revseq_cli.formats.storage.newfile import NewFile
    from revseq_cli.formats.storage.positioned import Edge

# The file format since HDF5 1.8 of 2008: in older ones, an attribute has at most 64 KiB.
_VERSIONS = ("v108", "latest")
_PAGE = 1 << 12
_SHUFFLE, _FLETCHER32 = h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32


def create_sink(file: NewFile, like: Source, key: str, layout: Layout) -> FileSink:
    """The sink for a tensor like `like`, with the path `key`; RevseqError for every reason to refuse it."""
    name = "/" + "/".join(parts_of(key, file.name))
    properties = _creation_properties(like, layout, file.name)
    if layout.keep_others:
        if isinstance(like, Hdf5Source) and not like.is_plain:
            found = f"has {like.storage.details['stored as']}, which become plain numbers"
            raise UsageError(found, "a new file for them", Advice.of("leave out {}", keep_others=""), like.name)
    else:
        properties.set_obj_track_times(False)  # so that the same job gives the same bytes
        copying.refuse_clashes(like, name, file.name)
    make = _Replacing if layout.keep_others else _Making
    making = make(name, like, properties, file.name, layout.history)
    if properties.get_layout() == h5py.h5d.CONTIGUOUS:
        return ContiguousSink(file, making)
    if properties.get_layout() == h5py.h5d.CHUNKED and not properties.get_nfilters():
        return PlacedSink(file, making)
    return Hdf5Sink(file, making)


def _creation_properties(like: Source, layout: Layout, where: str) -> h5py.h5p.PropDCID:
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
            found, f"{len(sizes)}, one for each dimension", Advice.of("try {}", chunks="x".join(map(str, sizes))), where
        )
    return tuple(min(chunk, max(1, size)) for chunk, size in zip(chunks, sizes, strict=True))


@dataclass(frozen=True)
class _Making:
    """How the new file gets its dataset: here, in an empty file, with what is carried over from the input.

    The line `history` goes into it where the input is a NetCDF file.
    """

    name: str
    like: Source
    properties: h5py.h5p.PropDCID
    where: str
    history: str

    # What to type where the input's filters do not fit.
    unfiltered = UNCOMPRESSED

    def opened(self, recorder: Recorder, **options: int) -> h5py.File:
        """The new file, opened by h5py through the recorder; `options` are h5py's."""
        track_order = copying.keeps_order(self.like, self.where) or None
        return h5py.File(recorder, "w", libver=_VERSIONS, track_order=track_order, **options)

    @property
    def kept(self) -> int:
        """The bytes of the input's file that are copied with the dataset."""
        return 0

    def create(self, file: h5py.File) -> tuple[h5py.Dataset, list[str | Advice]]:
        """The new dataset, without values, and notes on what is not carried over."""
        dataset, notes = copying.create_dataset(file, self.name, self.like, self.properties, self.where)
        return dataset, [*notes, *self.recorded(file)]

    def recorded(self, file: h5py.File) -> list[str]:
        """Add the line to the file's history; notes if that is not possible."""
        is_netcdf = isinstance(self.like, Hdf5Source) and self.like.origin.is_netcdf
        return netcdf.record_history(file, self.history) if is_netcdf and self.history else []

    def prepare(self, file: NewFile) -> None:
        """Fill the file before HDF5 opens it; HDF5 itself begins an empty one."""


class _Replacing(_Making):
    """The file's other objects are kept: the new file is a copy of the input's, in which the dataset gets other values.

    All else in the file but a NetCDF history stays as it is, byte by byte, so that references, dimension lists and user
    blocks stay valid.
    """

    unfiltered = Advice.of("leave out {}, and add {}", keep_others="", compression="none")

    @property
    def kept(self) -> int:
        """The bytes of the whole file but for the values, as they are without filters."""
        return max(0, self.like.identity.size - self.like.desc.total_bytes) if self.like.identity else 0

    def opened(self, recorder: Recorder, **_: int) -> h5py.File:
        """The copy, opened for reading and writing."""
        return h5py.File(recorder, "r+")

    def create(self, file: h5py.File) -> tuple[h5py.Dataset, list[str | Advice]]:
        """The dataset of the copy, with the old values; nothing is left behind."""
        dataset = file[self.name]
        if dataset.chunks is None and offset_of(dataset) is None:
            # It was never written, and so has no offset yet; HDF5 gives it one when an element is written.
            first = tuple(slice(0, min(1, size)) for size in dataset.shape)
            types.write(dataset, first, types.read(dataset, first, self.like.dtype))
        if self.properties.get_nfilters():
            _clear_chunks(dataset)
        return dataset, [*self.recorded(file)]

    def prepare(self, file: NewFile) -> None:
        """Copy the input's file."""
        if self.like.identity:
            file.fill_from(self.like.path, self.like.identity)


def _clear_chunks(dataset: h5py.Dataset) -> None:
    """Write one byte in place of each chunk, before all of them are written anew.

    Then HDF5 joins the free space of neighbours, which new chunks of other sizes fill: a copy of a file of 7 MB has
    0.3 % of dead space, instead of 5 %. It also drops the old filter mask, which HDF5 keeps where a chunk replaces one
    of the same size, and with which the new chunk could not be read.
    """
    raw = prod(dataset.chunks) * dataset.dtype.itemsize
    byte = bytes(2 if raw == 1 else 1)  # not the size of any chunk that comes
    for box in chunk_boxes(tuple(slice(0, size) for size in dataset.shape), dataset.chunks):
        dataset.id.write_direct_chunk(tuple(part.start for part in box), byte)


class _DatasetSink(FileSink):
    """A new HDF5 file with a dataset."""

    def __init__(self, file: NewFile, making: _Making) -> None:
        super().__init__(file)
        self._making, self.kept = making, making.kept

    def reopen(self) -> Source:
        """The complete file, as an input."""
        return Hdf5Source(self.file.temporary, self._making.name, self.file.name, self._making.like.desc.data_type)


class Hdf5Sink(_DatasetSink):
    """A new HDF5 file with a dataset that HDF5 stores; it has one writer, which is the parent.

    HDF5 gives chunks their places in the order in which they are written, which is that of the blocks.
    """

    held = True
    in_order = True

    def __init__(self, file: NewFile, making: _Making) -> None:
        super().__init__(file, making)
        self.writes_in_parallel = False
        if making.properties.get_layout() == h5py.h5d.CHUNKED:
            self.chunks = making.properties.get_chunk()
            # HDF5's filters have one lock for all threads.
            own_filters = OwnFilters.of(pipeline(making.properties), making.like.dtype.itemsize)
            self.writes_in_parallel = own_filters is not None
        self.encoded = making.properties.get_nfilters() > 0
        self._alignment: dict[str, int] = {}  # options of h5py's: which objects of the file begin with a page
        self._file: h5py.File | None = None
        self._recorder: Recorder | None = None

    def start(self) -> None:
        """Create the file and its dataset."""
        self._making.prepare(self.file)
        self._recorder = Recorder(self.file)
        with writing(self.file.name, self._recorder):
            self._file = self._making.opened(self._recorder, **self._alignment)
            self._values, notes = self._making.create(self._file)
            self.notes = tuple(notes)

    def outlet(self, region: Region) -> Outlet:  # noqa: ARG002 - every region has the same one
        """Workers encode chunks; the blocks of a dataset without chunks go to the parent as they are."""
        return self._encoder if self.chunks else Handing()

    @functools.cached_property
    def _encoder(self) -> ChunkOutlet:
        return outlet_for(self._values, self._making.properties, self.file.name, self._making.unfiltered)

    def receive(self, parcel: object) -> None:
        """Write the encoded chunks of a block, or its values."""
        with writing(self.file.name, self._recorder):
            if self.chunks:
                for chunk in cast("list[Chunk]", parcel):
                    self._write(chunk)
            else:
                region, values = cast("Parcel", parcel)
                types.write(self._values, region, values)

    def _write(self, chunk: Chunk) -> None:
        with lock:  # other threads may read through HDF5
            self._values.id.write_direct_chunk(chunk.start, chunk.data, chunk.mask)

    def finish(self) -> None:
        """Close the file, which HDF5 flushes then."""
        with writing(self.file.name, self._recorder):
            self._close()

    def abandon(self) -> None:
        """Close the file before it is removed; errors do not matter any more."""
        with contextlib.suppress(OSError, RuntimeError, ValueError):
            self._close()

    def _close(self) -> None:
        if self._file:
            self._file.close()
        if self._recorder:
            self._recorder.close()


class PlacedSink(Hdf5Sink):
    """A new HDF5 file with a dataset in chunks without filters, which the workers write themselves.

    HDF5 gives each chunk its place, in the order of the blocks, as if it wrote the chunk.
    """

    held = False
    in_order = False  # each chunk has its place before it is computed

    def __init__(self, file: NewFile, making: _Making) -> None:
        super().__init__(file, making)
        self._alignment = {"alignment_threshold": thresholds.LARGE_RUN, "alignment_interval": _PAGE}
        self._edges = Edges(file)
        self._blank = np.zeros(prod(making.properties.get_chunk()) * making.like.dtype.itemsize, np.uint8)
        self._reserved = 0

    def start(self) -> None:
        """Create the file and its dataset, and reserve the bytes of all chunks that it has not."""
        super().start()
        like, chunks = self._making.like, self._making.properties.get_chunk()
        with writing(self.file.name, self._recorder):
            count = prod(-(-size // chunk) for size, chunk in zip(like.sizes, chunks, strict=True))
            missing = count * len(self._blank) - self._values.id.get_storage_size()
            size = self._values.file.id.get_filesize()
        self._reserve(size + missing)

    def outlet(self, region: Region) -> Outlet:
        """An outlet that writes the chunks of the region into the temporary file."""
        chunks = self.chunks or ()
        with writing(self.file.name, self._recorder):
            offsets = tuple(self._place(box) for box in chunk_boxes(region, chunks))
        self._reserve(max(offsets, default=0) + len(self._blank))
        return PlacedOutlet(self.file.temporary, self.file.name, chunks, self._padding, offsets, self.writers)

    @functools.cached_property
    def _padding(self) -> bytes:
        """The element with which HDF5 fills up a chunk that reaches beyond the tensor's end."""
        sizes, dtype = self._making.like.sizes, self._making.like.dtype
        chunks = self.chunks or ()
        last = tuple(size % chunk or chunk for size, chunk in zip(sizes, chunks, strict=True))
        _, data = self._encoder.stored(np.zeros(last, dtype))
        return bytes(data[-dtype.itemsize :])

    def _place(self, box: Region) -> int:
        """The offset that HDF5 gives to a chunk."""
        chunk = Chunk(tuple(part.start for part in box), 0, self._blank.data)
        return cast("Recorder", self._recorder).offset_of(self._blank, lambda: self._write(chunk))

    def _reserve(self, end: int) -> None:
        """Reserve the file's bytes up to `end`, so that a full disk shows early."""
        if end > self._reserved:
            with positioned.opened_to_write(self.file.temporary, self.file.name) as fd:
                positioned.allocate(fd, end, self.file.name)
            self._reserved = end

    def receive(self, parcel: object) -> None:
        """Gather the edges of large chunks."""
        self._edges.add(cast("list[Edge]", parcel))

    def finish(self) -> None:
        """Write the last edges, and close the file, which HDF5 flushes and cuts to its size then."""
        self._edges.write()
        super().finish()


class ContiguousSink(_DatasetSink, RawSink):
    """A new HDF5 file with a contiguous dataset, whose elements the workers write themselves at their offset."""

    def start(self) -> None:
        """Create the file with all but the values, and reserve their bytes."""
        properties = self._making.properties
        properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)  # every element will be written
        self._making.prepare(self.file)
        with Recorder(self.file) as recorder, writing(self.file.name, recorder):
            with self._making.opened(recorder, alignment_threshold=_PAGE, alignment_interval=_PAGE) as file:
                dataset, notes = self._making.create(file)
                offset = offset_of(dataset)
            self.notes = tuple(notes)
            if offset is None:  # there are no elements, and any offset will do
                offset = Path(self.file.temporary).stat().st_size
        self.place(self._making.like, at=offset, dtype=self._making.like.dtype)
        super().start()
