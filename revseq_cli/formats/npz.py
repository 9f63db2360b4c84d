"""NumPy's .npz: the .npy members of a zip archive, `file.npz::name` or the only one.

A stored member is read in place; a deflated one is inflated whole, into memory or a temporary file. What is written is
one stored member.
Source of the format: PKWARE's APPNOTE.TXT 6.3.10, whose sections are named below, and the docstring of numpy.savez.
"""

from __future__ import annotations

import collections
import contextlib
import io
import struct
import zipfile
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from revseq_cli.formats import npy, zip_headers
from revseq_cli.formats.contract import Storage, Ticket, chosen, refuse_bomb
from revseq_cli.formats.held import HeldSource
from revseq_cli.formats.raw import RawSink, RawSource, RawTensor
from revseq_cli.formats.recognition import ZIP_MAGIC, looks_like
from revseq_cli.formats.storage import positioned
from revseq_cli.formats.storage.newfile import Scratch
from revseq_cli.formats.storage.together import Together
from revseq_cli.formats.zip_headers import UTF8_FLAG
from revseq_cli.ground import stopping
from revseq_cli.ground.errors import FormatError, RevseqError, UsageError, listed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Address, FileSink, Layout, Source
    from revseq_cli.formats.documents import TextTypes
    from revseq_cli.formats.regions import Region
    from revseq_cli.formats.storage.newfile import NewFile
    from revseq_cli.ground.tensors import DataType

# A directory of some 200,000 members; its size is the file's own word.
_LARGEST_DIRECTORY = 1 << 24
# A deflated member that declares more than this is inflated into a temporary file, and not in memory.
_LARGEST_HELD = 1 << 26
_PIECE = 1 << 20
_DEFLATED_PIECE = 1 << 16  # deflate gives at most 1,032 times as much
# APPNOTE 4.4.4: encrypted, patched data, strongly encrypted, masked headers.
_UNREADABLE_FLAGS = 1 << 0 | 1 << 5 | 1 << 6 | 1 << 13
_METHODS = {zipfile.ZIP_STORED: "stored", zipfile.ZIP_DEFLATED: "deflated"}
_SUFFIX = ".npy"
# What zipfile raises for a directory that is damaged.
_DAMAGE = (zipfile.BadZipFile, NotImplementedError, struct.error, ValueError, OverflowError, EOFError, OSError)


def open_source(address: Address, types: TextTypes) -> Source:
    """The named member of an archive, or its only one."""
    return open_member(address.path, address.key, asked=types.asked)


def create_sink(file: NewFile, like: Source, key: str, layout: Layout) -> FileSink:
    """A new archive of one member, or the input's archive with one member replaced."""
    return NpzSink(file, like, key, keep_others=layout.keep_others)


class _Member(NamedTuple):
    """A member whose local header has been held against the directory: `offset` is that of its data.

    `others` says how many other tensors the archive holds.
    """

    where: str
    key: str
    offset: int
    info: zipfile.ZipInfo
    others: int

    def wrong(self, found: str, wanted: str = "the whole file", hint: str = "fetch it again") -> FormatError:
        """What is wrong with it."""
        return FormatError(found, wanted, hint, self.where)


class _Bounded(io.FileIO):
    """A file of which no more is read at once than a directory may have."""

    def read(self, size: int | None = -1) -> bytes:
        """At most so many bytes; FormatError where the file makes zipfile ask for more."""
        if size is not None and size > _LARGEST_DIRECTORY:
            raise FormatError(f"has a directory of {size} bytes", f"at most {_LARGEST_DIRECTORY}")
        return super().read(_LARGEST_DIRECTORY if size is None or size < 0 else size) or b""


def open_member(path: str, key: str | None, name: str = "", asked: DataType | None = None) -> Source:
    """The tensor of that name, or the only one; `name` is what to call the file, where that is not its path.

    `asked` is the data type of elements that have no name in the file.
    """
    with positioned.opened(path) as fd:
        identity = positioned.identity(fd)
        head = positioned.read_some(fd, 64, 0, path)
        if not head.startswith((ZIP_MAGIC, zip_headers.END_MAGIC)):
            seems, hint = looks_like(head, path)
            raise FormatError(f"is not a .npz file: it looks like {seems}", "a .npz file by its suffix", hint, path)
        member = _find(fd, key, path, name or path)
        if member.info.compress_type == zipfile.ZIP_STORED:
            head = positioned.read_some(fd, min(npy.HEAD_BYTES, member.info.file_size), member.offset, path)
            header = npy.Header(head, member.info.file_size, member.where).named(asked)
            header.check_size(member.info.file_size)
            return StoredSource(header, path, identity, member)
        hint = "if it is what you want, unzip it"
        refuse_bomb(member.info.file_size, member.info.compress_size, hint, member.where)
        if member.info.file_size > _LARGEST_HELD:
            header = npy.Header(_inflated_head(fd, member), member.info.file_size, member.where).named(asked)
            header.check_size(member.info.file_size)
            return DeflatedSource(header, path, identity, member)
        data = bytearray().join(_inflated(fd, member))
    header = npy.Header(bytes(data[: npy.HEAD_BYTES]), len(data), member.where).named(asked)
    header.check_size(len(data))
    values = np.frombuffer(data, header.dtype, offset=header.offset)
    values = values.reshape(header.sizes, order="F" if header.order == "F" else "C")
    source = HeldSource(member.where, values, _storage(header.storage, member), identity)
    source.path, source.key, source.siblings = path, member.key, member.others
    return source


def _storage(of_npy: Storage, member: _Member) -> Storage:
    return Storage(
        "npz", {"member": member.info.filename, "method": _METHODS[member.info.compress_type], **of_npy.details}
    )


def names_in(path: str) -> list[str]:
    """The name of every tensor."""
    with positioned.opened(path) as fd:
        return list(_directory(fd, path, path)[0])


def _find(fd: int, key: str | None, path: str, name: str) -> _Member:
    """The member, by its name with or without .npy."""
    found, end = _directory(fd, path, name)
    if key is not None and key not in found:
        key = key.removesuffix(_SUFFIX)
    key = chosen(found, key, name)
    return _checked(fd, found[key], end, path, f"{name}::{key}", len(found) - 1)


def _directory(fd: int, path: str, name: str) -> tuple[dict[str, zipfile.ZipInfo], int]:
    """The members that are tensors, and where the directory begins; FormatError for what is not a plain archive."""
    infos, _, end = _archive(fd, path, name)
    return {info.filename.removesuffix(_SUFFIX): info for info in infos if info.filename.endswith(_SUFFIX)}, end


def _archive(fd: int, path: str, name: str) -> tuple[list[zipfile.ZipInfo], bytes, int]:
    """All members, the archive's comment, and where the directory begins."""
    try:
        with _Bounded(fd, closefd=False) as file, zipfile.ZipFile(file) as archive:
            infos, comment, end = archive.infolist(), archive.comment, archive.start_dir
    except RevseqError as e:
        raise e.about(name) from None
    except _DAMAGE:
        raise FormatError(
            "has no whole zip directory: truncated or damaged", "the whole file", "fetch it again", name
        ) from None
    _require_alone(fd, infos, comment, path, name)
    return infos, comment, end


def _require_alone(fd: int, infos: list[zipfile.ZipInfo], comment: bytes, path: str, name: str) -> None:
    """FormatError for two members of one name, and for bytes before the first member or behind the directory.

    zipfile passes over both, and so hides the first of two archives that were joined.
    """
    counts = collections.Counter(info.filename for info in infos)
    if twice := [each for each, count in counts.items() if count > 1]:
        raise FormatError(f"has two members of one name: {listed(twice)}", "each name once", where=name)
    size = positioned.identity(fd).size
    tail = positioned.read_some(fd, zip_headers.END.size, size - zip_headers.END.size - len(comment), path)
    ends = tail.startswith(zip_headers.END_MAGIC) and zip_headers.END.unpack(tail)[-1] == len(comment)
    if not ends or min((info.header_offset for info in infos), default=0):
        raise FormatError(
            "has bytes outside its archive", "one archive and nothing else", "were two files joined?", name
        )


def _checked(fd: int, info: zipfile.ZipInfo, end: int, path: str, where: str, others: int) -> _Member:
    """The member, if its local header says what the directory says, and its data end before the directory."""
    damaged = FormatError("has a damaged local header", "what the directory says", "fetch it again", where)
    local = positioned.read_some(fd, zip_headers.LOCAL.size, info.header_offset, path)
    if len(local) < zip_headers.LOCAL.size:
        raise damaged
    magic, _, flags, method, *_, name_length, extra_length = zip_headers.LOCAL.unpack(local)
    name = positioned.read_some(fd, name_length, info.header_offset + zip_headers.LOCAL.size, path)
    expected = info.orig_filename.encode("utf-8" if flags & UTF8_FLAG else "cp437", "replace")
    if magic != ZIP_MAGIC or method != info.compress_type or name != expected:
        raise damaged
    offset = info.header_offset + zip_headers.LOCAL.size + name_length + extra_length
    member = _Member(where, info.filename.removesuffix(_SUFFIX), offset, info, others)
    if (flags | info.flag_bits) & _UNREADABLE_FLAGS:
        raise member.wrong("is encrypted", "plain members", "unpack the archive")
    if method not in _METHODS:
        raise member.wrong(f"has the compression method {method}", "stored or deflated", "unpack the archive")
    if member.offset + info.compress_size > end:
        raise member.wrong("its data would lie behind the directory")
    if method == zipfile.ZIP_STORED and info.compress_size != info.file_size:
        raise member.wrong(f"is stored in {info.compress_size} bytes, and declares {info.file_size}")
    return member


def _inflated(fd: int, member: _Member) -> Iterator[bytes]:
    """The data of a deflated member, piece by piece: as many bytes as it declares, and with its CRC-32."""
    declared, stored = member.info.file_size, member.info.compress_size
    engine = zlib.decompressobj(-zlib.MAX_WBITS)
    done = crc = 0
    for piece in _pieces(fd, member.offset, stored, _DEFLATED_PIECE, member.where):
        try:
            data = engine.decompress(piece, declared + 1 - done)
        except zlib.error:
            raise member.wrong("is damaged: it cannot be inflated") from None
        done, crc = done + len(data), zlib.crc32(data, crc)
        if done > declared:
            raise member.wrong(f"inflates to more than the {declared} bytes that it declares")
        if engine.unused_data:  # told at once, since the engine would gather all that follows
            raise member.wrong("has bytes behind the end of its deflated data")
        yield data
    if not engine.eof or done != declared:
        raise member.wrong(f"inflates to {done} bytes, and declares {declared}")
    _require_checksum(member, crc)


def _inflated_head(fd: int, member: _Member) -> bytes:
    """Enough of a deflated member for its header; nothing is said of the rest."""
    head = b""
    for piece in _inflated(fd, member):
        head += piece
        if len(head) >= npy.HEAD_BYTES:
            break
    return head


def _pieces(fd: int, offset: int, size: int, piece: int, where: str) -> Iterator[memoryview]:
    """The bytes of a part of a file, in one buffer again and again."""
    buffer = memoryview(bytearray(min(piece, size)))
    for place in range(0, size, piece):
        stopping.check()
        part = buffer[: size - place]
        positioned.read_into(fd, part, offset + place, where)
        yield part


def _checksum(fd: int, offset: int, size: int, where: str) -> int:
    crc = 0
    for piece in _pieces(fd, offset, size, _PIECE, where):
        crc = zlib.crc32(piece, crc)
    return crc


def _require_checksum(member: _Member, found: int) -> None:
    if found != member.info.CRC:
        raise member.wrong(f"is damaged: its CRC-32 is {found:08x}, and the archive says {member.info.CRC:08x}")


class StoredSource(RawSource):
    """A member that lies in the archive as it is."""

    def __init__(self, header: npy.Header, path: str, identity: positioned.Identity, member: _Member) -> None:
        super().__init__(header.tensor(path, member.offset), identity, _storage(header.storage, member))
        self.key, self.siblings, self._member = member.key, member.others, member

    def recheck(self) -> None:
        """Also FormatError if its CRC-32 is not right: regions came in any order, so that only now all are read."""
        with positioned.opened(self.path, self.identity) as fd:
            found = _checksum(fd, self._member.offset, self._member.info.file_size, self.path)
        _require_checksum(self._member, found)


class DeflatedSource(RawSource):
    """A deflated member that is too large to be held: all of it is inflated before any region of it is read."""

    def __init__(self, header: npy.Header, path: str, identity: positioned.Identity, member: _Member) -> None:
        super().__init__(header.tensor(path, member.offset), identity, _storage(header.storage, member))
        self.key, self.siblings, self._member = member.key, member.others, member

    @contextlib.contextmanager
    def at_hand(self, beside: str = "") -> Iterator[Source]:
        """The member in a temporary file, whose bytes are reserved before the work."""
        file = Scratch(beside)
        with Together(file):
            with (
                positioned.opened(self.path, self.identity) as archive,
                positioned.opened_to_write(file.temporary, file.name) as fd,
            ):
                positioned.allocate(fd, self._member.info.file_size, file.name)
                place = 0
                for data in _inflated(archive, self._member):
                    positioned.write_all(fd, data, place, file.name)
                    place += len(data)
            yield npy.NpySource(file.temporary, self.name, self.desc.data_type)

    def ticket(self, region: Region) -> Ticket:
        """The right to read that region, alone; for several, put the tensor at hand first."""
        return _DeflatedTicket(self, region)


@dataclass(frozen=True)
class _DeflatedTicket:
    source: DeflatedSource
    region: Region

    def read(self) -> NDArray[Any]:
        """The values of the region."""
        with self.source.at_hand() as ready:
            return ready.ticket(self.region).read()


class NpzSink(RawSink):
    """A new archive whose workers write the regions of one stored member themselves.

    It is alone, or, with `keep_others`, in the place of the input, between the other members as they are.
    """

    def __init__(self, file: NewFile, like: Source, key: str, *, keep_others: bool = False) -> None:
        super().__init__(file)
        self._key, self._like = key.removesuffix(_SUFFIX), like
        self._header = npy.header_bytes(like.dtype, like.sizes, like.order)
        self._data_type = like.desc.data_type
        size = len(self._header) + like.desc.total_bytes
        self._around = _around(like) if keep_others else None
        old = self._around.entry if self._around else zip_headers.Entry(_member_name(self._key, file.name), UTF8_FLAG)
        self._entry = old._replace(flags=old.flags & UTF8_FLAG, method=zipfile.ZIP_STORED, stored=size, size=size)
        self._start = self._entry.offset + len(self._entry.local())
        offset = self._start + len(self._header)
        self.tensor = RawTensor(file.temporary, file.name, offset, like.dtype, like.sizes, like.order)

    def start(self) -> None:
        """Reserve the bytes of the whole archive, and copy the other members."""
        directory, data = self._directory(self._entry)
        with positioned.opened_to_write(self.file.temporary, self.file.name) as fd:
            positioned.allocate(fd, directory + len(data), self.file.name)
        if self._around and self._like.identity:
            self.file.fill_from(self._like.path, self._like.identity, self._around.parts(self.tensor.end))

    def finish(self) -> None:
        """Write what stands around the elements; the CRC-32 is that of what has been written."""
        super().finish()
        with positioned.opened_to_write(self.file.temporary, self.file.name) as fd:
            positioned.write_all(fd, self._header, self._start, self.file.name)
            with positioned.opened(self.file.temporary, name=self.file.name) as written:
                entry = self._entry._replace(crc=_checksum(written, self._start, self._entry.size, self.file.name))
            positioned.write_all(fd, entry.local(), entry.offset, self.file.name)
            place, data = self._directory(entry)
            positioned.write_all(fd, data, place, self.file.name)

    def reopen(self) -> Source:
        """The complete file, as an input."""
        return open_member(self.file.temporary, self._key, self.file.name, self._data_type)

    def _directory(self, entry: zip_headers.Entry) -> tuple[int, bytes]:
        """Where the directory begins, and its bytes."""
        if self._around:
            return self._around.directory(entry, self.tensor.end)
        return self.tensor.end, zip_headers.directory([entry], self.tensor.end, b"")


def _around(like: Source) -> zip_headers.Around:
    """The input's archive around the input; FormatError where members share bytes, which cannot all stay."""
    with positioned.opened(like.path, like.identity) as fd:
        infos, comment, end = _archive(fd, like.path, like.path)
        entries = [zip_headers.Entry.of(info) for info in infos]
        place = 0
        for entry in sorted(entries, key=lambda each: each.offset):
            local = positioned.read_some(fd, zip_headers.LOCAL.size, entry.offset, like.path)
            if entry.offset < place or len(local) < zip_headers.LOCAL.size:
                raise FormatError("has members that overlap", "each byte in one member", "fetch it again", like.path)
            place = entry.offset + len(local) + sum(zip_headers.LOCAL.unpack(local)[-2:]) + entry.stored
        if place > end:
            raise FormatError("has members behind its directory", "the whole file", "fetch it again", like.path)
    index = next(i for i, info in enumerate(infos) if info.filename == f"{like.key}{_SUFFIX}")
    return zip_headers.Around.of(entries, index, end, comment)


def _member_name(key: str, where: str) -> bytes:
    """The name of a new member; UsageError for one that could not be unpacked as it stands."""
    try:
        name = f"{key}{_SUFFIX}".encode()
    except UnicodeEncodeError:
        name = b""
    if (
        not name
        or len(name) > 1 << 15
        or {"", ".", ".."}.intersection(key.split("/"))
        or set("\0\\:").intersection(key)
    ):
        raise UsageError(
            f"{key[:80]!r} is no member's name", "a name such as x, without .. or a leading /", where=where
        )
    return name
