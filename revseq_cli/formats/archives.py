"""Zip archives: their members, and new archives, into whose members workers write in place.

zipfile reads and writes all headers. Members of new archives are stored and not deflated: floats hardly get smaller,
and a stored member can be written at any offset.
Source of the format: PKWARE's APPNOTE.TXT 6.3.10, whose sections are named below.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import io
import struct
import zipfile
import zlib
from typing import TYPE_CHECKING, NamedTuple

from revseq_cli.core.errors import FormatError, RevseqError, listed
from revseq_cli.formats import file_io, npy
from revseq_cli.formats.contract import Storage, not_whole
from revseq_cli.formats.raw import RawSink, RawSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from revseq_cli.formats.atomic_file import AtomicFile
    from revseq_cli.formats.contract import Source

# What zipfile raises for damage.
_DAMAGE = (
    zipfile.BadZipFile, NotImplementedError, struct.error, zlib.error, ValueError, OverflowError, EOFError, OSError,
)  # fmt: skip
# Bytes of a directory, enough for some 200,000 members; the file itself declares the size.
_LARGEST_DIRECTORY = 1 << 24
# APPNOTE 4.3.7: a local header ends with the lengths of the name and of the extra field behind it.
_LOCAL_BYTES, _LENGTHS = 30, struct.Struct("<2H")
# APPNOTE 4.3.16: the last record, which ends with the length of the comment behind it.
END_MAGIC, _END_BYTES = b"PK\5\6", 22
_UTF8_FLAG = 1 << 11  # APPNOTE 4.4.4: the name is in UTF-8, instead of code page 437


@contextlib.contextmanager
def refusing(error: FormatError) -> Iterator[None]:
    """Raise `error` where zipfile finds damage."""
    try:
        yield
    except RevseqError:  # some are of the kinds that zipfile raises, too
        raise
    except _DAMAGE:
        raise error from None


class _Bounded(io.FileIO):
    """A file that limits how many bytes zipfile reads at once; `where` is for messages."""

    def __init__(self, fd: int, where: str) -> None:
        super().__init__(fd, closefd=False)
        self._where = where

    def read(self, size: int | None = -1) -> bytes:
        """Read up to `size` bytes; FormatError if zipfile asks for more than a directory may have."""
        if size is None or size < 0:  # the end of the file; memory for all that is allowed would be taken at once
            size = min(_LARGEST_DIRECTORY, max(0, file_io.identity(self.fileno()).size - self.tell()))
        if size > _LARGEST_DIRECTORY:
            raise FormatError(f"has a directory of {size} bytes", f"at most {_LARGEST_DIRECTORY}", where=self._where)
        try:
            return super().read(size) or b""
        except OSError as e:
            raise file_io.failed(self._where, "read", e) from None


def opened(fd: int, name: str) -> zipfile.ZipFile:
    """The archive in an open file, which messages call `name`; FormatError if it is damaged, or not the whole file.

    zipfile ignores bytes before the first member or behind the directory, and so the first of two archives that were
    joined; and of two members of one name the first.
    """
    with refusing(not_whole("has no complete zip directory: it is truncated or damaged", name)):
        archive = zipfile.ZipFile(_Bounded(fd, name))
    counts = collections.Counter(info.filename for info in archive.infolist())
    if twice := [each for each, count in counts.items() if count > 1]:
        raise FormatError(f"has two members of one name: {listed(twice)}", "each name once", where=name)
    end = file_io.identity(fd).size - _END_BYTES - len(archive.comment)
    tail = file_io.read_some(fd, _END_BYTES, end, name)
    ends = tail.startswith(END_MAGIC) and int.from_bytes(tail[-2:], "little") == len(archive.comment)
    if not ends or min((info.header_offset for info in archive.infolist()), default=0):
        raise FormatError(
            "has bytes outside its archive", "one archive and nothing else", "were two files joined?", name
        )
    return archive


def data_offset(fd: int, info: zipfile.ZipInfo, path: str) -> int:
    """The offset of a member's data, behind the local header, which is a whole one."""
    place = info.header_offset + _LOCAL_BYTES
    name, extra = _LENGTHS.unpack(file_io.read_some(fd, _LENGTHS.size, place - _LENGTHS.size, path))
    return int(place + name + extra)


class _InPlace(io.FileIO):
    """The file of a new archive, as zipfile writes it: while it is `passing`, what zipfile writes is there already."""

    passing = False

    def __init__(self, fd: int, where: str) -> None:
        super().__init__(fd, "w", closefd=False)
        self._where = where

    def write(self, data: bytes | memoryview) -> int:  # type: ignore[override]
        """Write all bytes, or pass over them."""
        place = self.tell()
        if not self.passing:
            file_io.write_all(self.fileno(), data, place, self._where)
        self.seek(place + len(data))
        return len(data)


class _Name(str):
    """A member's name in code page 437; zipfile would write one that is not ASCII in UTF-8, unlike the local header."""

    __slots__ = ()

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        """The bytes of the name, where zipfile asks for ASCII."""
        return super().encode("cp437" if encoding == "ascii" else encoding, errors)


class Kept(NamedTuple):
    """An archive of which all is copied but the member `replaced`; the new member stands in its place.

    `infos` are all members in the order of the directory, `begin` and `stop` are the offsets of the replaced one and of
    what comes behind it, and `end` is that of the directory. Where nothing is replaced, a new member stands at the end.
    """

    infos: list[zipfile.ZipInfo]
    comment: bytes
    replaced: zipfile.ZipInfo | None
    begin: int
    stop: int
    end: int

    @classmethod
    def around(cls, template: Source, name: str) -> Kept:
        """The archive of `template`, around its member of that name if it has one; FormatError if members overlap."""
        with file_io.opened(template.path, template.identity) as fd, opened(fd, template.path) as archive:
            infos, end = archive.infolist(), archive.start_dir
            place = 0
            for info in sorted(infos, key=lambda each: each.header_offset):
                if info.header_offset < place or info.header_offset + _LOCAL_BYTES > end:
                    raise FormatError(
                        "has members that overlap", "each byte in one member", "fetch it again", template.path
                    )
                place = data_offset(fd, info, template.path) + info.compress_size
            if place > end:
                raise not_whole("has members after its directory", template.path)
            replaced = archive.NameToInfo.get(name)
        begin = replaced.header_offset if replaced else end
        stop = min((info.header_offset for info in infos if info.header_offset > begin), default=end)
        return cls(infos, archive.comment, replaced, begin, stop, end)

    @property
    def stored(self) -> int:
        """The bytes of the file that are copied."""
        return self.begin + self.end - self.stop

    def parts(self, new_end: int) -> list[tuple[int, int, int]]:
        """What is copied around new members that end at `new_end`: the old offset, the bytes, and the new offset."""
        return [(0, self.begin, 0), (self.stop, self.end - self.stop, new_end)]

    def moved(self, new: zipfile.ZipInfo, new_end: int) -> Iterator[zipfile.ZipInfo]:
        """The members of the new archive, with the `new` one in place of the replaced one, or at the end."""
        for info in self.infos:
            if info is self.replaced:
                yield new
                continue
            if info.header_offset >= self.stop:
                info.header_offset += new_end - self.stop
            info.filename = info.orig_filename if info.flag_bits & _UTF8_FLAG else _Name(info.orig_filename)
            yield info
        if not self.replaced:
            yield new


class NewMember(NamedTuple):
    """A .npy member that has its place: its name, the tensor that it is like, its header and its offset."""

    name: str
    template: Source
    head: bytes
    offset: int


class NewArchive:
    """A new archive: a place and a sink for each .npy member, then `finish`.

    All is written into the temporary file of `file`, which the caller creates, and names when `finish` is done.
    With `kept`, it is a copy of that archive, and its new member takes the place of the replaced one.
    """

    def __init__(self, file: AtomicFile, kept: Kept | None = None) -> None:
        self.file, self.kept = file, kept
        self._members: list[tuple[zipfile.ZipInfo, int]] = []
        self._end = kept.begin if kept else 0

    def place(self, name: str, template: Source) -> NewMember:
        """Add a member with the sizes, data type and memory order of `template`."""
        head = npy.header_bytes(template.dtype, template.sizes, template.order)
        size = len(head) + template.desc.total_bytes
        if self.kept and self.kept.replaced:  # its date, comment and rights stay
            info = copy.copy(self.kept.replaced)
            info.filename, info.compress_type, info.extra = name, zipfile.ZIP_STORED, b""
        else:
            info = zipfile.ZipInfo(name)  # of 1 January 1980, so that the same values make the same file
            info.create_system = 0  # on every system
        info.file_size, info.compress_size, info.CRC = size, 0, 0  # as zipfile begins a member
        start = self._end + len(info.FileHeader(zip64=True))
        self._members.append((info, start))
        self._end = start + size
        return NewMember(name, template, head, start)

    def copied(self) -> list[tuple[int, int, int]]:
        """What is copied of the archive that is kept, once all new members have their places."""
        return self.kept.parts(self._end) if self.kept else []

    def finish(self, texts: Mapping[str, bytes] | None = None) -> None:
        """Add `texts` as the last members, and write all headers, with the CRC-32 of what is read back."""
        path, name = self.file.temporary, self.file.name
        with (
            file_io.opened(path, name=name) as written,
            file_io.opened_to_write(path, name) as fd,
            _InPlace(fd, name) as file,
            zipfile.ZipFile(file, "w") as archive,
        ):
            if self.kept:
                archive.start_dir = self.kept.begin
            for info, start in self._members:
                size = info.file_size
                with archive.open(info, "w", force_zip64=True) as member:
                    file.passing = True
                    for piece in file_io.pieces(written, start, size, name):
                        member.write(piece)
                    file.passing = False
            for key, data in (texts or {}).items():
                archive.writestr(zipfile.ZipInfo(key), data)
            if self.kept:
                archive.infolist()[:] = self.kept.moved(archive.infolist()[0], self._end)
                archive.comment = self.kept.comment
                archive.start_dir += self.kept.end - self.kept.stop


class MemberSink(RawSink):
    """A new member, which is complete when `finish` of the archive is done."""

    def __init__(self, archive: NewArchive, member: NewMember) -> None:
        super().__init__(archive.file)
        self.archive = archive
        self.place(member.template, member.head, member.offset)

    def reopen(self) -> Source:
        """The complete member, as an input."""
        with file_io.opened(self.file.temporary, name=self.file.name) as fd:
            return RawSource(self.tensor, file_io.identity(fd), Storage("npy", {}))
