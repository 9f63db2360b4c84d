"""New HDF5 files: workers write elements or chunks where they belong, or encode chunks, which the parent writes."""

from __future__ import annotations

import contextlib
import functools
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from revseq_cli.formats.contract import FileSink, Layout, Outlet, Source
from revseq_cli.formats.hdf5 import copying, history, types
from revseq_cli.formats.hdf5.coding import Coding
from revseq_cli.formats.hdf5.creation import creation_properties
from revseq_cli.formats.hdf5.encoding import ChunkOutlet, last_chunk, outlet_for
from revseq_cli.formats.hdf5.filters import pipeline
from revseq_cli.formats.hdf5.library import h5py, lock
from revseq_cli.formats.hdf5.links import parts_of
from revseq_cli.formats.hdf5.places import Chunk, CodedOutlet, PlacedOutlet
from revseq_cli.formats.hdf5.recorder import Recorder, writing
from revseq_cli.formats.hdf5.source import Hdf5Source
from revseq_cli.formats.held import Handing
from revseq_cli.formats.raw import LARGE, Edges, RawSink, RawTensor
from revseq_cli.formats.regions import chunk_boxes
from revseq_cli.formats.storage import positioned

if TYPE_CHECKING:
    from revseq_cli.formats.contract import Parcel
    from revseq_cli.formats.regions import Region
    from revseq_cli.formats.storage.newfile import NewFile
    from revseq_cli.formats.storage.positioned import Edge
    from revseq_cli.ground.errors import Words

# The file format since HDF5 1.8 of 2008: in older ones, an attribute has at most 64 KiB.
_VERSIONS = ("v108", "latest")
_PAGE = 1 << 12


def create_sink(file: NewFile, like: Source, key: str, layout: Layout) -> FileSink:
    """The sink for a tensor like `like`, with the path `key`; RevseqError for every reason to refuse it."""
    name = "/" + "/".join(parts_of(key, file.name))
    properties = creation_properties(like, layout, file.name)
    making: _Making
    if layout.keep_others:
        making = _Replacing(name, like, properties, file.name, layout.history)
    else:
        properties.set_obj_track_times(False)  # so that the same job gives the same bytes
        copying.refuse_clashes(like, name, file.name)
        making = _Making(name, like, properties, file.name, layout.history)
    if properties.get_layout() == h5py.h5d.CONTIGUOUS:
        return ContiguousSink(file, making)
    if properties.get_layout() == h5py.h5d.CHUNKED and not properties.get_nfilters():
        return PlacedSink(file, making)
    return Hdf5Sink(file, making)


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

    def opened(self, recorder: Recorder, **options: int) -> h5py.File:
        """The new file, opened by h5py through the recorder; `options` are h5py's."""
        return h5py.File(recorder, "w", libver=_VERSIONS, track_order=copying.keeps_order(self.like) or None, **options)

    def create(self, file: h5py.File) -> tuple[h5py.Dataset, list[str | Words]]:
        """The new dataset, without values, and notes on what is not carried over."""
        dataset, notes = copying.create_dataset(file, self.name, self.like, self.properties, self.where)
        return dataset, [*notes, *self.recorded(file)]

    def recorded(self, file: h5py.File) -> list[str]:
        """Add the line to the file's history; notes if that is not possible."""
        is_netcdf = isinstance(self.like, Hdf5Source) and self.like.origin.is_netcdf
        return history.record(file, self.history) if is_netcdf and self.history else []

    def prepare(self, file: NewFile) -> None:
        """Fill the file before HDF5 opens it; HDF5 itself begins an empty one."""

    def reopen(self, file: NewFile) -> Source:
        """The dataset of the complete file, as an input."""
        return Hdf5Source(file.temporary, self.name, file.name, self.like.desc.data_type)


class _Replacing(_Making):
    """The file's other objects are kept: the new file is a copy of the input's, in which the dataset gets other values.

    All else in the file but a NetCDF history stays as it is, byte by byte, so that references, dimension lists and user
    blocks stay valid.
    """

    def opened(self, recorder: Recorder, **_: int) -> h5py.File:
        """The copy, opened for reading and writing."""
        return h5py.File(recorder, "r+")

    def create(self, file: h5py.File) -> tuple[h5py.Dataset, list[str | Words]]:
        """The dataset of the copy, with the old values; nothing is left behind."""
        dataset = file[self.name]
        if dataset.chunks is None and dataset.id.get_offset() is None:
            # It was never written, and so has no offset yet; HDF5 gives it one when an element is written.
            first = tuple(slice(0, min(1, size)) for size in dataset.shape)
            types.write(dataset, first, types.read(dataset, first, self.like.dtype))
        return dataset, [*self.recorded(file)]

    def prepare(self, file: NewFile) -> None:
        """Copy the input's file."""
        if self.like.identity:
            file.fill_from(self.like.path, self.like.identity)


class Hdf5Sink(FileSink):
    """A new HDF5 file with a dataset that HDF5 stores; it has one writer, which is the parent."""

    held = True

    def __init__(self, file: NewFile, making: _Making) -> None:
        super().__init__(file)
        self._making = making
        self._coding = None
        if making.properties.get_layout() == h5py.h5d.CHUNKED:
            self.chunks = making.properties.get_chunk()
            self._coding = Coding.of(pipeline(making.properties), making.like.dtype.itemsize)
        self.encoded = making.properties.get_nfilters() > 0
        self.writes_in_parallel = self._coding is not None  # HDF5's filters have one lock for all threads
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

    @property
    def _alignment(self) -> dict[str, int]:
        """Which objects of the file begin with a page, as options of h5py's; by default none."""
        return {}

    def outlet(self, region: Region) -> Outlet:  # noqa: ARG002 - every region has the same one
        """Workers encode chunks; the blocks of a dataset without chunks go to the parent as they are."""
        return self._outlet

    @functools.cached_property
    def _outlet(self) -> Outlet:
        if not self.chunks:
            return Handing()
        if self._coding is None:
            return self._encoder
        coding, mask, padding = self._last
        return CodedOutlet(self.chunks, self._coding, padding, (coding, mask))

    @functools.cached_property
    def _encoder(self) -> ChunkOutlet:
        return outlet_for(self._values, self._making.properties, self.file.name)

    @functools.cached_property
    def _last(self) -> tuple[Coding, int, bytes]:
        """Coding and mask of the chunks that reach beyond the end, and the element there; nothing if none does."""
        like, chunks = self._making.like, self.chunks or ()
        if self._coding is None or not any(size % chunk for size, chunk in zip(like.sizes, chunks, strict=True)):
            return Coding(), 0, b""
        return last_chunk(self._encoder, self._coding, like.dtype)

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

    def reopen(self) -> Source:
        """The complete file, as an input."""
        return self._making.reopen(self.file)

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

    def __init__(self, file: NewFile, making: _Making) -> None:
        super().__init__(file, making)
        self._edges = Edges(file)
        self._blank = np.zeros(prod(making.properties.get_chunk()) * making.like.dtype.itemsize, np.uint8)
        self._reserved = 0

    @property
    def _alignment(self) -> dict[str, int]:
        return {"alignment_threshold": LARGE, "alignment_interval": _PAGE}

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
        chunks, (_, _, padding) = self.chunks or (), self._last
        with writing(self.file.name, self._recorder):
            offsets = tuple(self._place(box) for box in chunk_boxes(region, chunks))
        self._reserve(max(offsets, default=0) + len(self._blank))
        return PlacedOutlet(self.file.temporary, self.file.name, chunks, padding, offsets, self.writers)

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


class ContiguousSink(RawSink):
    """A new HDF5 file with a contiguous dataset, whose elements the workers write themselves at their offset."""

    def __init__(self, file: NewFile, making: _Making) -> None:
        super().__init__(file)
        self._making = making

    def start(self) -> None:
        """Create the file with all but the values, and reserve their bytes."""
        like, properties = self._making.like, self._making.properties
        properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)  # every element will be written
        self._making.prepare(self.file)
        with Recorder(self.file) as recorder, writing(self.file.name, recorder):
            with self._making.opened(recorder, alignment_threshold=_PAGE, alignment_interval=_PAGE) as file:
                dataset, notes = self._making.create(file)
                offset = dataset.id.get_offset()
            self.notes = tuple(notes)
            if offset is None:  # there are no elements, and any offset will do
                offset = Path(self.file.temporary).stat().st_size
        self.tensor = RawTensor(self.file.temporary, self.file.name, offset, like.dtype, like.sizes)
        with positioned.opened_to_write(self.file.temporary, self.file.name) as fd:
            positioned.allocate(fd, self.tensor.end, self.file.name)

    def reopen(self) -> Source:
        """The complete file, as an input."""
        return self._making.reopen(self.file)
