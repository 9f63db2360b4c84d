"""Tensors that are unpacked before they are read, and files that are compressed as a whole: x.npy.gz, x.csv.zst."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from revseq_cli.core import progress, thresholds
from revseq_cli.core.errors import FormatError
from revseq_cli.formats import compression, file_io, npy
from revseq_cli.formats.atomic_file import FileTransaction, Scratch
from revseq_cli.formats.contents import refuse_key
from revseq_cli.formats.contract import FileSink, Storage, refuse_bomb
from revseq_cli.formats.in_memory import MemorySource
from revseq_cli.formats.raw import RawSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, Self

    from numpy.typing import NDArray

    from revseq_cli.core.tensors import DataType
    from revseq_cli.formats.atomic_file import AtomicFile
    from revseq_cli.formats.contract import Address, BlockWriter, ReadTask, Region, Source
    from revseq_cli.formats.table import Compression, Format


def open_source(address: Address, row: Format, method: Compression, asked: DataType | None) -> Source:
    """The tensor of a packed .npy file, of which a small one is held in memory; FormatError for other formats.

    `asked` is the data type of nameless bytes.
    """
    path = address.path
    if not row.may_be_compressed:
        hint = compression.unpack_hint(method, path)
        raise FormatError(f"a packed .{row.name} file cannot be read", "the file itself", hint, path)
    refuse_key(address.key, "a .npy file", path)
    with file_io.opened(path) as fd:
        identity = file_io.identity(fd)
        first = compression.head(fd, method, npy.HEAD_BYTES, path)
        header = npy.Header(first, len(first), path).named(asked)
        refuse_bomb(header.end, identity.size, compression.unpack_hint(method, path), path, compression.UNPACKS)
        source = CompressedSource(header, path, identity, method)
        return source.at_once(source.pieces(fd))


class SpooledSource(RawSource):
    """A tensor in a .npy of which all is unpacked before any region is read: into memory, or a temporary file."""

    def __init__(self, header: npy.Header, path: str, identity: file_io.Identity, storage: Storage) -> None:
        super().__init__(header.tensor(path), identity, storage)
        self.header = header

    @abstractmethod
    def pieces(self, fd: int) -> Iterator[bytes]:
        """The bytes of the .npy, from the open file; FormatError unless there are as many as its header says."""

    def at_once(self, pieces: Iterable[bytes]) -> Source:
        """The tensor in memory, which the pieces are unpacked into; itself where it is too large for that."""
        if self.header.end > thresholds.LARGEST_HELD:
            return self
        values = self.header.values(bytearray().join(pieces), self.header.offset)
        held = MemorySource(self.name, values, self.storage, self.identity)
        held.path, held.key, held.siblings, held.notes = self.path, self.key, self.siblings, self.notes
        return held

    @contextlib.contextmanager
    def random_access(self, beside: str = "") -> Iterator[Source]:
        """The tensor in a temporary file next to `beside`, whose bytes are reserved first."""
        file = Scratch(beside)
        with FileTransaction(file):
            with file_io.opened(self.path, self.identity) as fd, progress.begun("unpack", self.header.end) as advance:
                file.fill(_counted(self.pieces(fd), advance), self.header.end)
            yield npy.NpySource(file.temporary, self.name, self.desc.data_type)

    def read_task(self, region: Region) -> ReadTask:
        """A read task that unpacks all of it for this region; `random_access` does it once for all regions."""
        return _SpoolingReadTask(self, region)


@dataclass(frozen=True)
class _SpoolingReadTask:
    source: SpooledSource
    region: Region

    def read(self) -> NDArray[Any]:
        """The values of the region."""
        with self.source.random_access() as ready:
            return ready.read_task(self.region).read()


class CompressedSource(SpooledSource):
    """A packed .npy file that is too large for memory."""

    def __init__(self, header: npy.Header, path: str, identity: file_io.Identity, method: Compression) -> None:
        storage = Storage(header.storage.format, {"compression": method.name, **header.storage.details})
        super().__init__(header, path, identity, storage)
        self._method = method

    def pieces(self, fd: int) -> Iterator[bytes]:
        """Unpack the file; FormatError unless it ends with the last element, or DxDispatch's padding behind it."""
        done, behind = 0, b""
        for data in compression.decompressed(compression.file_pieces(fd, self.path), self._method, self.path):
            behind += data[max(0, self.header.end - done) :]
            done += len(data)
            if len(behind) > npy.MOST_PADDING:
                self.header.check_size(done)
            yield data
        self.notes = self.header.notes_on_size(done, behind)


class CompressedSink(FileSink):
    """A new packed file: `make` gives the sink of what is in it, which goes into a temporary file first."""

    def __init__(self, file: AtomicFile, method: Compression, make: Callable[[AtomicFile], FileSink]) -> None:
        super().__init__(file)
        compression.library(method, file.name)  # or an error now
        self._method, self.inner = method, make(Scratch(file.name))
        self.chunks, self.encoded, self.notes = self.inner.chunks, self.inner.encoded, self.inner.notes
        self.held = self.inner.held

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.inner)
            super().__enter__()
            stack.push(self._leaving)
            self._leaving = stack.pop_all()
        return self

    def block_writer(self, region: Region) -> BlockWriter:
        """That of what is in it."""
        return self.inner.block_writer(region)

    def receive(self, write_result: object) -> None:
        """Do what a block writer left to do."""
        self.inner.receive(write_result)

    def finish(self) -> None:
        """Pack the complete temporary file."""
        self.inner.complete()
        scratch, name = self.inner.file.temporary, self.file.name
        with (
            file_io.opened(scratch, name=name) as fd,
            progress.begun("pack", file_io.identity(fd).size) as advance,
        ):
            pieces = compression.file_pieces(fd, name)
            self.file.fill(compression.compressed(_counted(pieces, advance), self._method, name))

    def reopen(self) -> Source:
        """What is in the complete file, unpacked again, in place of what was packed."""
        self.inner.file.remove()
        self.inner.file.create()
        name = self.file.name
        with file_io.opened(self.file.temporary, name=name) as fd:
            self.inner.file.fill(compression.decompressed(compression.file_pieces(fd, name), self._method, name))
        return self.inner.reopen()


def _counted(pieces: Iterator[bytes], advance: Callable[[int], None]) -> Iterator[bytes]:
    """The pieces; `advance` gets the number of bytes of each."""
    for piece in pieces:
        yield piece
        advance(len(piece))
