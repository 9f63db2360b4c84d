"""New HDF5 files.

Workers encode chunks, which the parent stores, or write contiguous elements at their offset.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from math import prod
from typing import Any, cast

import h5py
import numpy as np
from h5py import h5d

from revseq_cli.core import platform, signals
from revseq_cli.core.errors import RevseqError
from revseq_cli.files import local
from revseq_cli.files.copies import CopiedPart, fill_from
from revseq_cli.files.input_file import Identity
from revseq_cli.files.new import NewFile
from revseq_cli.files.system_errors import make_os_error
from revseq_cli.formats.contract import BlockWriter, FileSink, Original, Source
from revseq_cli.formats.hdf5.datasets import (
    AddedDataset,
    DatasetLikeInput,
    NewDataset,
    OwnDataset,
    ReplacedDataset,
)
from revseq_cli.formats.hdf5.elements import LOCK, write_elements
from revseq_cli.formats.hdf5.files import hdf5_error
from revseq_cli.formats.hdf5.filters import ChunkBlockWriter, EncodedChunk
from revseq_cli.formats.hdf5.links import parts_of
from revseq_cli.formats.hdf5.source import Hdf5Source
from revseq_cli.formats.memory import ReturnedBlock, ReturningWriter
from revseq_cli.formats.raw import RawTensor, RegionSink

_ALIGNED = {"alignment_threshold": 1 << 12, "alignment_interval": 1 << 12}


def choose_sink(file: NewFile, template: Source, key: str, original: Original | None) -> FileSink:
    """The sink for a tensor like `template` with the path `key`, in a new file or a copy."""
    name = "/" + "/".join(parts_of(key, file.name))
    dataset = _choose_dataset(name, template, file.name, original)
    if dataset.is_raw:
        return ContiguousSink(file, dataset)
    return Hdf5Sink(file, dataset)


def _choose_dataset(
    name: str, template: Source, where: str, original: Original | None
) -> NewDataset:
    if original is None:
        return OwnDataset(name, template, where)
    if not original.is_input:
        return AddedDataset(name, template, where, original)
    source = cast("Hdf5Source", template)
    if source.is_item(name):
        return ReplacedDataset(name, source, where, original)
    return DatasetLikeInput(name, source, where, original)


class _Recorder(io.FileIO):
    """The new file for HDF5 to write, to which it says that every write succeeds.

    HDF5 reports a failed write late, and may crash when the process ends. So the first error is
    kept in `error`, nothing more is written, and `wrap_errors` raises the error.
    """

    error: OSError | None = None

    def __init__(self, file: NewFile) -> None:
        self._file_name = file.name
        try:
            super().__init__(
                file.temporary,
                "r+",
                opener=lambda path, _: platform.open_descriptor(path, platform.UPDATE),
            )
        except OSError as e:
            raise make_os_error(file.name, "write", e) from None

    def write(self, data: Any) -> int:  # noqa: ANN401 - any buffer
        view = memoryview(data).cast("B")
        done = 0
        while done < len(view) and not self.error:
            try:
                done += super().write(view[done:])
            except OSError as e:
                self.error = e
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        try:
            return super().truncate(size)
        except OSError as e:
            self.error = self.error or e
            return size or 0

    @contextlib.contextmanager
    def wrap_errors(self) -> Iterator[None]:
        """Turn what h5py raises into a RevseqError, and raise the error that was kept."""
        try:
            yield
        except RevseqError:
            raise
        except (OSError, RuntimeError, ValueError) as e:
            if not self.error:
                raise hdf5_error(e, self._file_name, self._file_name, "write") from e
        if self.error:
            raise make_os_error(self._file_name, "write", self.error) from None


class _DatasetSink(FileSink):
    """A new HDF5 file: the base of sinks that differ in who writes the values of the dataset."""

    _recorder: _Recorder | None = None
    _file: h5py.File | None = None

    def __init__(self, file: NewFile, dataset: NewDataset) -> None:
        super().__init__(file)
        self.left_out = dataset.left_out
        self._new_dataset = dataset
        self._template = dataset.template

    def _create_file(self, **options: int) -> h5py.Dataset:
        """Create the dataset in a new file, or in a copy; its values are still to be written."""
        original = self._new_dataset.original
        if original:
            identity = cast("Identity", original.identity)
            fill_from(self.file, original.path, identity, [CopiedPart(0, identity.size, 0)])
        self._recorder = _Recorder(self.file)
        with self._recorder.wrap_errors():
            self._file = h5py.File(self._recorder, **self._new_dataset.options, **options)
            dataset, notes = self._new_dataset.create_in(self._file)
            self.notes += tuple(notes)
        return dataset

    def _close_file(self) -> None:
        if self._recorder:
            with self._recorder.wrap_errors():
                if self._file:
                    self._file.close()
                self._recorder.close()

    def abandon(self) -> None:
        with contextlib.suppress(RevseqError):  # the file is removed afterwards
            self._close_file()

    def reopen(self) -> Source:
        return Hdf5Source(
            self.file.temporary,
            self._new_dataset.name,
            self.file.name,
            self._template.desc.data_type,
        )


class Hdf5Sink(_DatasetSink):
    """A new HDF5 file with a dataset that HDF5 stores; it has one writer, which is the parent.

    Workers encode chunks that have filters; all other blocks go to the parent as they are. HDF5
    gives chunks their places in the order in which they are written, which is that of the blocks.
    """

    in_workers = False
    in_order = True
    _writer: BlockWriter = ReturningWriter()

    def __init__(self, file: NewFile, dataset: NewDataset) -> None:
        super().__init__(file, dataset)
        if dataset.properties.get_layout() == h5d.CHUNKED:
            self.chunks = dataset.properties.get_chunk()
        self.encoded = dataset.properties.get_nfilters() > 0

    def start(self) -> None:
        self._dataset = self._create_file()
        if self.encoded:
            self._writer = ChunkBlockWriter.like(
                self._dataset, self._new_dataset.properties, self._template.dtype, self.file.name
            )
        elif self.chunks:
            self._reserve_space(self.chunks)

    def _reserve_space(self, chunks: tuple[int, ...]) -> None:
        """Reserve space for chunks without filters, so that a full disk fails before the work."""
        count = 1
        for size, chunk in zip(self._template.sizes, chunks, strict=True):
            count *= -(-size // chunk)
        whole = count * prod(chunks) * self._template.dtype.itemsize
        missing = max(0, whole - self._dataset.id.get_storage_size())
        with local.open_to_write(self.file.temporary, self.file.name) as fd:
            fd.allocate(self._dataset.file.id.get_filesize() + missing)

    def block_writer(self) -> BlockWriter:
        return self._writer

    def receive(self, write_result: object) -> None:
        with LOCK, cast("_Recorder", self._recorder).wrap_errors():
            if self.encoded:
                for chunk in cast("list[EncodedChunk]", write_result):
                    signals.check()
                    self._dataset.id.write_direct_chunk(*chunk)
            else:
                region, values = cast("ReturnedBlock", write_result)
                # Values that were pickled may have another byte order.
                write_elements(self._dataset, region, np.asarray(values, self._template.dtype))

    def finish(self) -> None:
        self._close_file()


class ContiguousSink(_DatasetSink, RegionSink):
    """A new HDF5 file with a contiguous dataset, whose elements workers write at their offset.

    Through HDF5 in the parent, 256 MiB took 1.3 times as long with one process, and 1.4 times as
    long with two.
    """

    def start(self) -> None:
        offset = self._create_file(**_ALIGNED).id.get_offset()
        self._close_file()
        path = self.file.temporary
        template = self._template
        self.tensor = RawTensor(path, self.file.name, offset, template.dtype, template.sizes)
        RegionSink.start(self)  # which reserves the bytes of the elements
