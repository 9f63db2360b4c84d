"""The bytes of stored zip members: their checksum, and new archives of .npy files and texts, written in place.

Members are stored and not deflated: floats hardly get smaller, and workers write a stored member at any offset.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from revseq_cli.formats import npy, zip_headers
from revseq_cli.formats.contract import Storage
from revseq_cli.formats.raw import RawSink, RawSource, RawTensor
from revseq_cli.formats.storage import positioned
from revseq_cli.ground import stopping

if TYPE_CHECKING:
    from collections.abc import Iterator

    from revseq_cli.formats.contract import FileSink, Source
    from revseq_cli.formats.storage.newfile import NewFile

_PIECE = 1 << 20


def pieces(fd: int, offset: int, size: int, piece: int, where: str) -> Iterator[memoryview]:
    """Read `size` bytes from `offset` on; all pieces are views of the same buffer."""
    buffer = memoryview(bytearray(min(piece, size)))
    for place in range(0, size, piece):
        stopping.check()
        part = buffer[: size - place]
        positioned.read_into(fd, part, offset + place, where)
        yield part


def checksum(fd: int, offset: int, size: int, where: str) -> int:
    """The CRC-32 of `size` bytes from `offset` on; `where` names the file for messages."""
    crc = 0
    for piece in pieces(fd, offset, size, _PIECE, where):
        crc = zlib.crc32(piece, crc)
    return crc


class NewArchive:
    """A new archive: one sink for each .npy member, then `finish` with a text as the last member.

    All is written into the temporary file of `file`, which the caller creates, and names when `finish` is done.
    """

    def __init__(self, file: NewFile) -> None:
        self.file = file
        self._entries: list[zip_headers.Entry] = []
        self._end = 0

    def sink(self, name: str, like: Source) -> FileSink:
        """The sink of a new member `name`, a .npy file with the sizes, data type and memory order of `like`."""
        header = npy.header_bytes(like.dtype, like.sizes, like.order)
        start = self._add(name, len(header) + like.desc.total_bytes)
        return _MemberSink(self.file, like, header, start)

    def _add(self, name: str, size: int) -> int:
        """Add a member of `size` bytes; the offset of its first byte."""
        entry = zip_headers.Entry(name.encode(), zip_headers.UTF8_FLAG, stored=size, size=size, offset=self._end)
        self._entries.append(entry)
        start = _start(entry)
        self._end = start + size
        return start

    def finish(self, name: str, data: bytes) -> None:
        """Write `data` as the last member, then all headers with the CRC-32 of what is read back, and the directory."""
        start = self._add(name, len(data))
        path, archive = self.file.temporary, self.file.name
        with positioned.opened_to_write(path, archive) as fd:
            positioned.write_all(fd, data, start, archive)
            with positioned.opened(path, name=archive) as written:
                entries = [
                    each._replace(crc=checksum(written, _start(each), each.size, archive)) for each in self._entries
                ]
            for entry in entries:
                positioned.write_all(fd, entry.local(), entry.offset, archive)
            positioned.write_all(fd, zip_headers.directory(entries, self._end, b""), self._end, archive)


def _start(entry: zip_headers.Entry) -> int:
    return entry.offset + len(entry.local())


class _MemberSink(RawSink):
    """A member that is a .npy file, whose first byte is at the offset `start`."""

    def __init__(self, file: NewFile, like: Source, header: bytes, start: int) -> None:
        super().__init__(file)
        self._header, self._start = header, start
        self.tensor = RawTensor(file.temporary, file.name, start + len(header), like.dtype, like.sizes, like.order)

    def start(self) -> None:
        """Reserve the bytes up to the end of the member, and write the header of the .npy file."""
        with positioned.opened_to_write(self.file.temporary, self.file.name) as fd:
            positioned.allocate(fd, self.tensor.end, self.file.name)
            positioned.write_all(fd, self._header, self._start, self.file.name)

    def reopen(self) -> Source:
        """The complete member, as an input."""
        with positioned.opened(self.file.temporary, name=self.file.name) as fd:
            return RawSource(self.tensor, positioned.identity(fd), Storage("npy", {}))
