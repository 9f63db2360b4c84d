"""Files that are compressed as a whole, .npy and text: x.npy.gz, x.csv.zst."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import numpy as np

from revseq_cli.formats import npy, packing
from revseq_cli.formats.contract import FileSink, Storage
from revseq_cli.formats.held import HeldSource
from revseq_cli.formats.spooled import LARGEST_HELD, SpooledSource
from revseq_cli.formats.storage import positioned
from revseq_cli.formats.storage.newfile import Scratch
from revseq_cli.ground import stages
from revseq_cli.ground.errors import FormatError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType
    from typing import Self

    from revseq_cli.formats.contract import Address, Outlet, Source
    from revseq_cli.formats.regions import Region
    from revseq_cli.formats.storage.newfile import NewFile
    from revseq_cli.formats.table import Format, Packing
    from revseq_cli.ground.tensors import DataType


def open_source(address: Address, row: Format, method: Packing, asked: DataType | None) -> Source:
    """The tensor of a packed file that is no text; `asked` is the data type of nameless bytes."""
    path = address.path
    if not row.is_packed:
        hint = packing.unpack_hint(method, path)
        raise FormatError(f".{row.name} is not read packed", "the file itself", hint, path)
    if address.key is not None:
        raise UsageError("a .npy file holds one tensor", "no name after ::", where=path)
    return _open_npy(path, method, asked)


def _open_npy(path: str, method: Packing, asked: DataType | None) -> Source:
    """The tensor of a packed .npy file: a small one is held in memory."""
    with positioned.opened(path) as fd:
        identity = positioned.identity(fd)
        head = packing.head(fd, method, npy.HEAD_BYTES, path)
        header = npy.Header(head, len(head), path).named(asked)
        packing.refuse_bomb(header.end, identity.size, method, path)
        source = PackedSource(header, path, identity, method)
        if header.end > LARGEST_HELD:
            return source
        data = bytearray().join(source.pieces(fd))
    values = np.frombuffer(data, header.dtype, offset=header.offset, count=source.desc.element_count)
    held = HeldSource(
        path, values.reshape(header.sizes, order="F" if header.order == "F" else "C"), source.storage, identity
    )
    held.path, held.notes = path, header.notes_on_size(len(data))
    return held


class PackedSource(SpooledSource):
    """A packed .npy file that is too large for memory."""

    def __init__(self, header: npy.Header, path: str, identity: positioned.Identity, method: Packing) -> None:
        storage = Storage(header.storage.format, {"compression": method.name, **header.storage.details})
        super().__init__(header.tensor(path), identity, storage)
        self._header, self._method, self.unpacked_bytes = header, method, header.end

    def pieces(self, fd: int) -> Iterator[bytes]:
        """Unpack the file; FormatError unless it ends with the last element, or DxDispatch's padding behind it."""
        done = 0
        for data in packing.unpacked(packing.file_pieces(fd, self.path), self._method, self.path):
            done += len(data)
            if done > self.unpacked_bytes + npy.MOST_PADDING:
                self._header.check_size(done)
            yield data
        self._header.notes_on_size(done)


class PackedSink(FileSink):
    """A new packed file: `make` gives the sink of what is in it, which goes into a temporary file first."""

    def __init__(self, file: NewFile, method: Packing, make: Callable[[NewFile], FileSink]) -> None:
        super().__init__(file)
        packing.library(method, file.name)  # or an error now
        self._method, self.inner = method, make(Scratch(file.name))
        self.chunks, self.encoded, self.notes = self.inner.chunks, self.inner.encoded, self.inner.notes
        self.gathers, self.held = self.inner.gathers, self.inner.held
        self.writes_in_parallel = self.inner.writes_in_parallel

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.inner)
            super().__enter__()
            stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            super().__exit__(kind, error, trace)
        finally:
            self.inner.__exit__(kind, error, trace)

    def outlet(self, region: Region) -> Outlet:
        """That of what is in it."""
        self.inner.writers = self.writers
        return self.inner.outlet(region)

    def receive(self, parcel: object) -> None:
        """Do what an outlet left to do."""
        self.inner.receive(parcel)

    def finish(self) -> None:
        """Pack the complete temporary file."""
        self.inner.complete()
        scratch, name = self.inner.file.temporary, self.file.name
        with (
            positioned.opened(scratch, name=name) as fd,
            stages.begun("pack", positioned.identity(fd).size) as advance,
        ):
            pieces = packing.file_pieces(fd, name)
            self._write(self.file.temporary, packing.packed(_counted(pieces, advance), self._method, name))

    def reopen(self) -> Source:
        """What is in the complete file, unpacked again, in the place of what was packed."""
        self.inner.file.remove()
        self.inner.file.create()
        scratch, name = self.inner.file.temporary, self.file.name
        with positioned.opened(self.file.temporary, name=name) as fd:
            self._write(scratch, packing.unpacked(packing.file_pieces(fd, name), self._method, name))
        return self.inner.reopen()

    def _write(self, path: str, pieces: Iterator[bytes]) -> None:
        """Write the pieces as the whole content of a file."""
        place = 0
        with positioned.opened_to_write(path, self.file.name) as fd:
            for piece in pieces:
                positioned.write_all(fd, piece, place, self.file.name)
                place += len(piece)


def _counted(pieces: Iterator[bytes], advance: Callable[[int], None]) -> Iterator[bytes]:
    """The pieces; `advance` gets the number of bytes of each."""
    for piece in pieces:
        yield piece
        advance(len(piece))
