"""New HDF5 files: workers encode chunks, or write the elements of a contiguous dataset at their offset."""

from __future__ import annotations

import contextlib
import io
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from revseq_cli.formats.contract import FileSink, Layout, Outlet, Source
from revseq_cli.formats.hdf5 import copying, types
from revseq_cli.formats.hdf5.creation import creation_properties
from revseq_cli.formats.hdf5.files import error_number, in_memory
from revseq_cli.formats.hdf5.filters import UNCOMPRESSED, filters_of, require_filters
from revseq_cli.formats.hdf5.library import h5py
from revseq_cli.formats.hdf5.links import parts_of
from revseq_cli.formats.hdf5.source import Hdf5Source
from revseq_cli.formats.held import Handing
from revseq_cli.formats.raw import RawSink, RawTensor
from revseq_cli.formats.regions import chunk_boxes
from revseq_cli.formats.storage import positioned
from revseq_cli.ground import system
from revseq_cli.ground.errors import FormatError, RevseqError, TensorIOError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Parcel
    from revseq_cli.formats.regions import Region
    from revseq_cli.formats.storage.newfile import NewFile
    from revseq_cli.ground.errors import Words

# Filters that never lose anything; chunks that pass any other filter are decoded again and compared.
_LOSSLESS = frozenset({1, 2, 3, 4, 32000})
# The file format since HDF5 1.8 of 2008: in older ones, an attribute has at most 64 KiB.
_VERSIONS = ("v108", "latest")
_PAGE = 1 << 12
_scratches = threading.local()


def create_sink(file: NewFile, like: Source, key: str, layout: Layout) -> FileSink:
    """The sink for a tensor like `like`, with the path `key`; RevseqError for every reason to refuse it."""
    name = "/" + "/".join(parts_of(key, file.name))
    properties = creation_properties(like, layout, file.name)
    making: _Making
    if layout.keep_others:
        making = _Replacing(name, like, properties, file.name)
    else:
        properties.set_obj_track_times(False)  # so that the same job gives the same bytes
        copying.refuse_clashes(like, name, file.name)
        making = _Making(name, like, properties, file.name)
    if properties.get_layout() == h5py.h5d.CONTIGUOUS:
        return ContiguousSink(file, making)
    return Hdf5Sink(file, making)


@dataclass(frozen=True)
class _Making:
    """How the new file gets its dataset: here, in an empty file, with what is carried over from the input."""

    name: str
    like: Source
    properties: h5py.h5p.PropDCID
    where: str

    def opened(self, recorder: _Recorder, **options: int) -> h5py.File:
        """The new file, opened by h5py through the recorder; `options` are h5py's."""
        return h5py.File(recorder, "w", libver=_VERSIONS, track_order=copying.keeps_order(self.like) or None, **options)

    def create(self, file: h5py.File) -> tuple[h5py.Dataset, list[str | Words]]:
        """The new dataset, without values, and notes on what is not carried over."""
        return copying.create_dataset(file, self.name, self.like, self.properties, self.where)

    def prepare(self, file: NewFile) -> None:
        """Fill the file before HDF5 opens it; HDF5 itself begins an empty one."""

    def reopen(self, file: NewFile) -> Source:
        """The dataset of the complete file, as an input."""
        return Hdf5Source(file.temporary, self.name, file.name, self.like.desc.data_type)


class _Replacing(_Making):
    """The file's other objects are kept: the new file is a copy of the input's, in which the dataset gets other values.

    All else in the file stays as it is, byte by byte, so that references, dimension lists and user blocks stay valid.
    """

    def opened(self, recorder: _Recorder, **_: int) -> h5py.File:
        """The copy, opened for reading and writing."""
        return h5py.File(recorder, "r+")

    def create(self, file: h5py.File) -> tuple[h5py.Dataset, list[str | Words]]:
        """The dataset of the copy, with the old values, and no notes."""
        dataset = file[self.name]
        if dataset.chunks is None and dataset.id.get_offset() is None:
            # It was never written, and so has no offset yet; HDF5 gives it one when an element is written.
            first = tuple(slice(0, min(1, size)) for size in dataset.shape)
            types.write(dataset, first, types.read(dataset, first, self.like.dtype))
        return dataset, []

    def prepare(self, file: NewFile) -> None:
        """Copy the input's file."""
        if self.like.identity:
            file.fill_from(self.like.path, self.like.identity)


class _Recorder(io.FileIO):
    """A file that keeps the first error of a write in `error`, and reports success to HDF5.

    HDF5 does not survive a failed write: it reports it late, and may crash when the process ends. `_writing` raises the
    error instead.
    """

    error: OSError | None = None

    def __init__(self, file: NewFile) -> None:
        try:
            super().__init__(file.temporary, "r+", opener=lambda path, _: system.open_file(path, system.UPDATE))
        except OSError as e:
            raise positioned.failed(file.name, "write", e) from None

    def write(self, data: Any) -> int:  # noqa: ANN401 - any buffer
        """Write all of the data, or keep the error."""
        view = memoryview(data).cast("B")
        done = 0
        while done < len(view) and not self.error:
            try:
                done += super().write(view[done:])
            except OSError as e:
                self.error = e
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        """Change the file's size, or keep the error."""
        try:
            return super().truncate(size)
        except OSError as e:
            self.error = self.error or e
            return size or 0


@contextlib.contextmanager
def _writing(name: str, recorder: _Recorder | None = None) -> Iterator[None]:
    """Turn what h5py raises into a RevseqError about `name`, and raise the error that the recorder has kept."""
    try:
        yield
    except RevseqError:
        raise
    except (OSError, RuntimeError, ValueError) as e:
        if not (recorder and recorder.error):
            if number := error_number(e):
                raise positioned.failed(name, "write", OSError(number, os.strerror(number))) from None
            raise TensorIOError(f"HDF5 cannot write it: {str(e)[:200]}", where=name) from None
    if recorder and recorder.error:
        raise positioned.failed(name, "write", recorder.error) from None


class Hdf5Sink(FileSink):
    """A new HDF5 file with a dataset that HDF5 stores; it has one writer, which is the parent."""

    held = True

    def __init__(self, file: NewFile, making: _Making) -> None:
        super().__init__(file)
        self._making = making
        if making.properties.get_layout() == h5py.h5d.CHUNKED:
            self.chunks = making.properties.get_chunk()
        self.encoded = making.properties.get_nfilters() > 0
        self._file: h5py.File | None = None
        self._recorder: _Recorder | None = None

    def start(self) -> None:
        """Create the file and its dataset."""
        self._making.prepare(self.file)
        self._recorder = _Recorder(self.file)
        with _writing(self.file.name, self._recorder):
            self._file = self._making.opened(self._recorder)
            self._values, notes = self._making.create(self._file)
            self.notes = tuple(notes)

    def outlet(self) -> Outlet:
        """Workers encode chunks; the blocks of a dataset without chunks go to the parent as they are."""
        if not self.chunks:
            return Handing()
        image = _image(self._values, self._making.properties)
        codes = filters_of(self._values)
        return ChunkOutlet(
            self.chunks, image, self.file.name, encoded=bool(codes), checked=not _LOSSLESS.issuperset(codes)
        )

    def receive(self, parcel: object) -> None:
        """Write the encoded chunks of a block, or its values."""
        with _writing(self.file.name, self._recorder):
            if self.chunks:
                for chunk in cast("list[_Chunk]", parcel):
                    self._values.id.write_direct_chunk(chunk.place, chunk.data, chunk.mask)
            else:
                region, values = cast("Parcel", parcel)
                types.write(self._values, region, values)

    def finish(self) -> None:
        """Close the file, which HDF5 flushes then."""
        with _writing(self.file.name, self._recorder):
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


class _Chunk(NamedTuple):
    """An encoded chunk: its first index in each dimension, the filters that it skipped, as bits, and its bytes."""

    place: tuple[int, ...]
    mask: int
    data: bytes


@dataclass(frozen=True)
class ChunkOutlet:
    """Encodes the chunks of a block through HDF5's own filters.

    Property lists cannot be pickled, but the image of a file can: `image` is a file with a dataset of one chunk and of
    the same storage. Each chunk is written into that, and read back as HDF5 stores it. `encoded` says whether there are
    filters, and `checked` whether some of them may lose something.
    """

    chunks: tuple[int, ...]
    image: bytes
    name: str
    encoded: bool
    checked: bool

    def deliver(self, region: Region, values: NDArray[Any]) -> list[_Chunk]:
        """The encoded chunks of a region that begins at a chunk, and ends at one or at the tensor's end."""
        origin = [part.start for part in region]
        encoded = []
        for box in chunk_boxes(region, self.chunks):
            part = values[tuple(slice(b.start - o, b.stop - o) for b, o in zip(box, origin, strict=True))]
            mask, data = self._stored(np.ascontiguousarray(part))
            encoded.append(_Chunk(tuple(b.start for b in box), mask, data))
        return encoded

    def _stored(self, part: NDArray[Any]) -> tuple[int, bytes]:
        """Encode a chunk: the filters that were skipped, as bits, and its bytes as HDF5 stores them.

        `part` is the chunk up to the tensor's end. HDF5 fills up a chunk beyond the end, and decides whether such a
        chunk passes through the filters.
        """
        if not self.encoded and part.shape == self.chunks:
            return 0, part.tobytes()
        scratch = _scratch(self.image).id
        place, kind = (0,) * part.ndim, scratch.get_type()
        try:
            if scratch.shape != part.shape:
                scratch.set_extent(self.chunks)  # shrinking it next fills up what is cut off, and nothing else
                scratch.write(h5py.h5s.ALL, h5py.h5s.ALL, np.zeros(self.chunks, part.dtype), kind)
                scratch.set_extent(part.shape)
            scratch.write(h5py.h5s.ALL, h5py.h5s.ALL, part, kind)
            scratch.flush()  # else, in files of HDF5's latest layout, h5py reserves 0 bytes below and overruns them
            mask, data = scratch.read_direct_chunk(place)
            if self.checked:
                decoded = np.empty_like(part)
                scratch.write_direct_chunk(place, data, mask)
                scratch.read(h5py.h5s.ALL, h5py.h5s.ALL, decoded, kind)
                if decoded.tobytes() != part.tobytes():
                    raise FormatError(
                        "its filters do not give back what they took", "filters without loss",
                        UNCOMPRESSED, self.name,
                    )  # fmt: skip
        except (OSError, RuntimeError, ValueError) as e:
            if isinstance(e, FormatError):
                raise
            if "memory allocation failed" in str(e):
                raise MemoryError from None
            raise FormatError(
                f"its filters cannot encode: {str(e)[:200]}", "filters that can", UNCOMPRESSED, self.name
            ) from None
        return mask, data


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
        with _Recorder(self.file) as recorder, _writing(self.file.name, recorder):
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
