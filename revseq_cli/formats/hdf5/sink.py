"""New HDF5 files: workers encode chunks, which the parent stores; contiguous elements they write where they belong."""

from __future__ import annotations

import contextlib
import functools
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, cast

from revseq_cli.formats import file_io
from revseq_cli.formats.contract import BlockWriter, FileSink, Layout, Source, chunk_boxes
from revseq_cli.formats.hdf5 import copying, meaning, netcdf, types
from revseq_cli.formats.hdf5.files import Recorder, in_memory, opened, writing
from revseq_cli.formats.hdf5.filters import UNCOMPRESSED, Chunk, ChunkBlockWriter, block_writer_for
from revseq_cli.formats.hdf5.library import h5py
from revseq_cli.formats.hdf5.links import parts_of
from revseq_cli.formats.hdf5.source import Hdf5Source, offset_of
from revseq_cli.formats.in_memory import Handing
from revseq_cli.formats.netcdf3 import NetCDF3Source
from revseq_cli.formats.raw import RawSink

if TYPE_CHECKING:
    from revseq_cli.formats.atomic_file import AtomicFile
    from revseq_cli.formats.contract import Region, WriteResult

# The file format since HDF5 1.8 of 2008: in older ones, an attribute has at most 64 KiB.
_VERSIONS = ("v108", "latest")
_PAGE = 1 << 12


def create_sink(file: AtomicFile, template: Source, key: str, layout: Layout) -> FileSink:
    """The sink for a tensor like `template`, with the path `key`; RevseqError for every reason to refuse it."""
    name = "/" + "/".join(parts_of(key, file.name))
    properties = _creation_properties(template)
    is_copy = (
        not layout.only
        and isinstance(template, Hdf5Source)
        and template.is_plain
        and template.key.strip("/") == name[1:]
    )
    if not is_copy:
        properties.set_obj_track_times(False)  # so that the same job gives the same bytes
        copying.refuse_clashes(template, name, file.name)
    making = (_Replacing if is_copy else _Making)(name, template, properties, file.name, layout.history)
    if properties.get_layout() == h5py.h5d.CONTIGUOUS:
        return ContiguousSink(file, making)
    return Hdf5Sink(file, making)


def _creation_properties(template: Source) -> h5py.h5p.PropDCID:
    """The storage of the new dataset: that of the input."""
    guesses = False
    if isinstance(template, Hdf5Source):
        properties = template.origin.properties.copy()
    else:
        properties, said = h5py.h5p.create(h5py.h5p.DATASET_CREATE), template.meaning()
        meaning.prepare(properties, said, template.dtype)
        guesses = bool(said.unlimited)  # only chunks can grow
    if guesses or (properties.get_nfilters() and properties.get_layout() != h5py.h5d.CHUNKED):
        properties.set_chunk(_guessed_chunks(template))
    return properties


def _guessed_chunks(template: Source) -> tuple[int, ...]:
    """The sizes of chunks that h5py would choose."""
    with in_memory() as file:
        chunks: tuple[int, ...] = file.create_dataset("x", template.sizes, template.dtype, chunks=True).chunks
        return chunks


@dataclass(frozen=True)
class _Making:
    """How the new file gets its dataset: here, in an empty file, with what is carried over from the input.

    The line `history` goes into it where the input is a NetCDF file.
    """

    name: str
    template: Source
    properties: h5py.h5p.PropDCID
    where: str
    history: str

    def opened(self, recorder: Recorder, **options: int) -> h5py.File:
        """The new file, opened by h5py through the recorder; `options` are h5py's."""
        track_order = copying.keeps_order(self.template, self.where) or None
        return h5py.File(recorder, "w", libver=_VERSIONS, track_order=track_order, **options)

    @property
    def kept(self) -> int:
        """The bytes of the input's file that are copied with the dataset."""
        return copying.companion_bytes(self.template, self.name)

    def create(self, file: h5py.File) -> tuple[h5py.Dataset, list[str]]:
        """The new dataset, without values, and notes on what is not copied."""
        dataset, notes = copying.create_dataset(file, self.name, self.template, self.properties, self.where)
        return dataset, [*notes, *self.recorded(file)]

    def recorded(self, file: h5py.File) -> list[str]:
        """Add the line to the file's history; notes if that is not possible."""
        like = self.template
        is_netcdf = like.origin.is_netcdf if isinstance(like, Hdf5Source) else isinstance(like, NetCDF3Source)
        return netcdf.record_history(file, self.history) if is_netcdf and self.history else []

    def prepare(self, file: AtomicFile) -> None:
        """Fill the file before HDF5 opens it; HDF5 itself begins an empty one."""


class _Replacing(_Making):
    """The file's other objects are kept: the new file is a copy of the input's, in which the dataset gets other values.

    All else in the file but a NetCDF history stays as it is, byte by byte, so that references, dimension lists and user
    blocks stay valid.
    """

    @property
    def kept(self) -> int:
        """The bytes of the whole file but for the values, as they are stored."""
        if not self.template.identity:
            return 0
        with opened(self.template.path, self.template.name) as old:
            stored: int = old[self.template.key].id.get_storage_size()
        return max(0, self.template.identity.size - stored)

    def opened(self, recorder: Recorder, **_: int) -> h5py.File:
        """The copy, opened for reading and writing."""
        return h5py.File(recorder, "r+")

    def create(self, file: h5py.File) -> tuple[h5py.Dataset, list[str]]:
        """The dataset of the copy, with the old values; nothing is left behind."""
        dataset = file[self.name]
        if dataset.chunks is None and offset_of(dataset) is None:
            # It was never written, and so has no offset yet; HDF5 gives it one when an element is written.
            first = tuple(slice(0, min(1, size)) for size in dataset.shape)
            types.write(dataset, first, types.read(dataset, first, self.template.dtype))
        if self.properties.get_nfilters():
            _clear_chunks(dataset)
        return dataset, [*self.recorded(file)]

    def prepare(self, file: AtomicFile) -> None:
        """Copy the input's file."""
        if self.template.identity:
            file.fill_from(self.template.path, self.template.identity)


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

    def __init__(self, file: AtomicFile, making: _Making) -> None:
        super().__init__(file)
        self._making = making

    @property
    def kept(self) -> int:
        """The bytes of the input's file that are copied with the dataset, for which it is opened again."""
        return self._making.kept

    def reopen(self) -> Source:
        """The complete file, as an input."""
        return Hdf5Source(self.file.temporary, self._making.name, self.file.name, self._making.template.desc.data_type)


class Hdf5Sink(_DatasetSink):
    """A new HDF5 file with a dataset that HDF5 stores; it has one writer, which is the parent.

    HDF5 gives chunks their places in the order in which they are written, which is that of the blocks.
    """

    held = True
    in_order = True

    def __init__(self, file: AtomicFile, making: _Making) -> None:
        super().__init__(file, making)
        if making.properties.get_layout() == h5py.h5d.CHUNKED:
            self.chunks = making.properties.get_chunk()
        self.encoded = making.properties.get_nfilters() > 0
        self._file: h5py.File | None = None
        self._recorder: Recorder | None = None

    def start(self) -> None:
        """Create the file and its dataset, and reserve the bytes of chunks without filters, whose size is known."""
        self._making.prepare(self.file)
        self._recorder = Recorder(self.file)
        with writing(self.file.name, self._recorder):
            self._file = self._making.opened(self._recorder)
            self._values, notes = self._making.create(self._file)
            self.notes = tuple(notes)
            end = self._file.id.get_filesize() + self._missing_bytes()
        with file_io.opened_to_write(self.file.temporary, self.file.name) as fd:
            file_io.allocate(fd, end, self.file.name)

    def _missing_bytes(self) -> int:
        """The bytes of the chunks that the file has not yet; 0 where filters decide how many."""
        if self.encoded or not self.chunks:
            return 0
        count = prod(-(-size // chunk) for size, chunk in zip(self._values.shape, self.chunks, strict=True))
        whole: int = count * prod(self.chunks) * self._making.template.dtype.itemsize
        stored: int = self._values.id.get_storage_size()
        return whole - stored

    def block_writer(self, region: Region) -> BlockWriter:  # noqa: ARG002 - every region has the same one
        """Workers encode chunks that have filters; all other blocks go to the parent as they are."""
        return self._encoder if self.encoded else Handing()

    @functools.cached_property
    def _encoder(self) -> ChunkBlockWriter:
        return block_writer_for(self._values, self._making.properties, self.file.name, UNCOMPRESSED)

    def receive(self, write_result: object) -> None:
        """Write the encoded chunks of a block, or its values."""
        with writing(self.file.name, self._recorder):
            if self.encoded:
                for chunk in cast("list[Chunk]", write_result):
                    self._values.id.write_direct_chunk(chunk.start, chunk.data, chunk.mask)
            else:
                region, values = cast("WriteResult", write_result)
                types.write(self._values, region, values)

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


class ContiguousSink(_DatasetSink, RawSink):
    """A new HDF5 file with a contiguous dataset, whose elements the workers write themselves at their offset.

    Through HDF5 in the parent, 256 MiB took 1.3 times as long in one process, and 1.4 times with two.
    """

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
        self.place(self._making.template, at=offset, dtype=self._making.template.dtype)
        super().start()
