"""New HDF5 files: chunks encoded where they are computed, contiguous datasets as bytes at an offset."""

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
from revseq_cli.formats.hdf5.files import error_number
from revseq_cli.formats.hdf5.filters import UNCOMPRESSED, filters_of, require_filters
from revseq_cli.formats.hdf5.library import h5py
from revseq_cli.formats.hdf5.links import parts_of
from revseq_cli.formats.hdf5.source import Hdf5Source
from revseq_cli.formats.held import Handing
from revseq_cli.formats.regions import chunk_boxes
from revseq_cli.formats.storage import positioned
from revseq_cli.formats.storage.raw import RawSink, RawTensor
from revseq_cli.ground.errors import FormatError, RevseqError, TensorIOError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Parcel
    from revseq_cli.formats.regions import Region
    from revseq_cli.formats.storage.newfile import NewFile
    from revseq_cli.ground.errors import Words

# Filters that give back what they took, whatever it was; any other is asked, chunk by chunk.
_LOSSLESS = frozenset({1, 2, 3, 4, 32000})
# Readable since HDF5 1.8 of 2008; before, an attribute had at most 64 KiB.
_VERSIONS = ("v108", "latest")
_PAGE = 1 << 12
_scratches = threading.local()


def create_sink(file: NewFile, like: Source, inner: str, layout: Layout) -> FileSink:
    """The sink for such a tensor: every reason to refuse it shows now."""
    name = "/" + "/".join(parts_of(inner, file.name))
    properties = creation_properties(like, layout, file.name)
    making: _Making
    if layout.keep_others:
        making = _Replacing(name, like, properties, file.name)
    else:
        properties.set_obj_track_times(False)  # the same job gives the same bytes
        copying.refuse_clashes(like, name, file.name)
        making = _Making(name, like, properties, file.name)
    if properties.get_layout() == h5py.h5d.CONTIGUOUS:
        return ContiguousSink(file, making)
    return Hdf5Sink(file, making)


@dataclass(frozen=True)
class _Making:
    """How the dataset comes into the new file: made there, with what belongs to it."""

    name: str
    like: Source
    properties: h5py.h5p.PropDCID
    where: str

    def opened(self, recorder: _Recorder, **options: int) -> h5py.File:
        """The new file."""
        return h5py.File(recorder, "w", libver=_VERSIONS, track_order=copying.keeps_order(self.like) or None, **options)

    def create(self, file: h5py.File) -> tuple[h5py.Dataset, list[str | Words]]:
        """The dataset, without its values, and notes on what could not be carried over."""
        return copying.create_dataset(file, self.name, self.like, self.properties, self.where)

    def prepare(self, file: NewFile) -> None:
        """What must be in the file before HDF5 opens it: nothing."""

    def reopen(self, file: NewFile) -> Source:
        """The dataset of the complete file, as an input."""
        return Hdf5Source(file.temporary, self.name, file.name, self.like.desc.data_type)


class _Replacing(_Making):
    """It is there already, with old values, since the new file begins as a copy of the input's.

    Whatever else the file holds stays as it is, byte by byte, so that references, dimension lists and all that HDF5
    has no name for keep their meaning.
    """

    def opened(self, recorder: _Recorder, **_: int) -> h5py.File:
        """The copy, for reading and writing."""
        return h5py.File(recorder, "r+")

    def create(self, file: h5py.File) -> tuple[h5py.Dataset, list[str | Words]]:
        """The dataset, and no notes."""
        dataset = file[self.name]
        if dataset.chunks is None and dataset.id.get_offset() is None:
            # Never written, so that it has no place in the file yet: it gets one with its first element.
            first = tuple(slice(0, min(1, size)) for size in dataset.shape)
            types.write(dataset, first, types.read(dataset, first, self.like.dtype))
        return dataset, []

    def prepare(self, file: NewFile) -> None:
        """Copy the input's file."""
        if self.like.identity:
            file.fill_from(self.like.path, self.like.identity)


class _Recorder(io.FileIO):
    """A file that keeps its first error and goes on as if nothing had happened.

    HDF5 does not survive a failed write: it reports it late, and may crash when the process ends. So it never hears of
    one, and the error is asked for here.
    """

    error: OSError | None = None

    def write(self, data: Any) -> int:  # noqa: ANN401 - any buffer
        """All of the data, or the error for later."""
        view = memoryview(data).cast("B")
        done = 0
        while done < len(view) and not self.error:
            try:
                done += super().write(view[done:])
            except OSError as e:
                self.error = e
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        """The new size, or the error for later."""
        try:
            return super().truncate(size)
        except OSError as e:
            self.error = self.error or e
            return size or 0


@contextlib.contextmanager
def _writing(name: str, recorder: _Recorder | None = None) -> Iterator[None]:
    """HDF5's errors in our form."""
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
        self._recorder = _Recorder(self.file.temporary, "r+")
        with _writing(self.file.name, self._recorder):
            self._file = self._making.opened(self._recorder)
            self._values, notes = self._making.create(self._file)
            self.notes = tuple(notes)

    def outlet(self) -> Outlet:
        """Chunks are encoded where they are computed; what has none goes to the parent as it is."""
        if not self.chunks:
            return Handing()
        image = _image(self._values, self._making.properties)
        codes = filters_of(self._values)
        return ChunkOutlet(
            self.chunks, image, self.file.name, encoded=bool(codes), checked=not _LOSSLESS.issuperset(codes)
        )

    def receive(self, parcel: object) -> None:
        """Store the encoded chunks of a block, or its values."""
        with _writing(self.file.name, self._recorder):
            if self.chunks:
                for chunk in cast("list[_Chunk]", parcel):
                    self._values.id.write_direct_chunk(chunk.place, chunk.data, chunk.mask)
            else:
                region, values = cast("Parcel", parcel)
                types.write(self._values, region, values)

    def finish(self) -> None:
        """Flush and close."""
        with _writing(self.file.name, self._recorder):
            self._close()

    def reopen(self) -> Source:
        """The complete file, as an input."""
        return self._making.reopen(self.file)

    def abandon(self) -> None:
        """Close the file before it is removed; what HDF5 still says of it is about a file that nobody keeps."""
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

    Property lists do not pickle, but the image of a file does: `image` holds a dataset of one chunk with the same
    storage, and what is written into that is read back as HDF5 stores it. `encoded` says whether there are filters, and
    `checked` whether some of them may lose something.
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
        """The filters that were skipped, as bits, and the bytes of a chunk, of which `part` is what lies in the tensor.

        HDF5 itself fills up a chunk at the tensor's end, and it knows whether such a chunk passes through the filters.
        """
        if not self.encoded and part.shape == self.chunks:
            return 0, part.tobytes()
        scratch = _scratch(self.image).id
        place, kind = (0,) * part.ndim, scratch.get_type()
        try:
            if scratch.shape != part.shape:
                scratch.set_extent(self.chunks)  # what it shrinks by next is filled up; what it had before is not
                scratch.write(h5py.h5s.ALL, h5py.h5s.ALL, np.zeros(self.chunks, part.dtype), kind)
                scratch.set_extent(part.shape)
            scratch.write(h5py.h5s.ALL, h5py.h5s.ALL, part, kind)
            scratch.flush()  # before, in files of HDF5's latest layout, h5py makes room for 0 bytes and overruns it
            mask, data = scratch.read_direct_chunk(place)
            if self.checked:
                found = np.empty_like(part)
                scratch.write_direct_chunk(place, data, mask)
                scratch.read(h5py.h5s.ALL, h5py.h5s.ALL, found, kind)
                if found.tobytes() != part.tobytes():
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
    """A file with a dataset of one chunk, of the same type and with the same storage."""
    with h5py.File.in_memory() as file:
        space = h5py.h5s.create_simple(properties.get_chunk(), properties.get_chunk())
        h5py.h5d.create(file.id, b"chunk", dataset.id.get_type(), space, properties)
        file.flush()
        image: bytes = file.id.get_file_image()
        return image


def _scratch(image: bytes) -> h5py.Dataset:
    """The dataset of one chunk, of this thread alone: between its writing and its reading nobody else may write."""
    if getattr(_scratches, "image", None) != image:
        _scratches.dataset = h5py.File.in_memory(file_image=image)["chunk"]
        _scratches.image = image
        require_filters(_scratches.dataset, "the output")
    return _scratches.dataset


class ContiguousSink(RawSink):
    """A new HDF5 file whose values are bytes at an offset, which the workers write themselves."""

    def __init__(self, file: NewFile, making: _Making) -> None:
        super().__init__(file)
        self._making = making

    def start(self) -> None:
        """Create everything but the values, and reserve their bytes."""
        like, properties = self._making.like, self._making.properties
        properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)  # every element will be written
        self._making.prepare(self.file)
        with _Recorder(self.file.temporary, "r+") as recorder, _writing(self.file.name, recorder):
            with self._making.opened(recorder, alignment_threshold=_PAGE, alignment_interval=_PAGE) as file:
                dataset, notes = self._making.create(file)
                offset = dataset.id.get_offset()
            self.notes = tuple(notes)
            if offset is None:  # there are no elements, and so no place for them
                offset = Path(self.file.temporary).stat().st_size
        self.tensor = RawTensor(self.file.temporary, self.file.name, offset, like.dtype, like.sizes)
        with positioned.opened_to_write(self.file.temporary, self.file.name) as fd:
            positioned.allocate(fd, self.tensor.end, self.file.name)

    def reopen(self) -> Source:
        """The complete file, as an input."""
        return self._making.reopen(self.file)
