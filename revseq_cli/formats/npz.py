"""NumPy's .npz format: the .npy members of a zip archive, `file.npz::name` or the only one.

A stored member is read in place; a deflated one is inflated whole, into memory or a temporary file. The output is one
stored member.
Source of the format: PKWARE's APPNOTE.TXT 6.3.10, whose sections are named below, and the docstring of numpy.savez.
"""

from __future__ import annotations

import zipfile
import zlib
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from revseq_cli.formats import npy, zip_directory, zip_headers
from revseq_cli.formats.contents import Contents, Item, only_of
from revseq_cli.formats.contract import Storage, chosen, refuse_bomb
from revseq_cli.formats.held import HeldSource
from revseq_cli.formats.raw import RawSink, RawSource, RawTensor
from revseq_cli.formats.recognition import ZIP_MAGIC, looks_like
from revseq_cli.formats.spooled import LARGEST_HELD, SpooledSource
from revseq_cli.formats.storage import positioned
from revseq_cli.formats.zip_headers import UTF8_FLAG
from revseq_cli.formats.zip_members import checksum, pieces
from revseq_cli.ground.dtypes import data_type_of
from revseq_cli.ground.errors import FormatError, UsageError
from revseq_cli.ground.tensors import TensorDesc

if TYPE_CHECKING:
    from collections.abc import Iterator

    from revseq_cli.formats.contract import Address, FileSink, Layout, Source
    from revseq_cli.formats.documents import TextTypes
    from revseq_cli.formats.storage.newfile import NewFile
    from revseq_cli.ground.tensors import DataType

_DEFLATED_PIECE = 1 << 16  # it inflates to at most 1,032 times as much
# APPNOTE 4.4.4: encrypted, patched data, strongly encrypted, masked headers.
_UNREADABLE_FLAGS = 1 << 0 | 1 << 5 | 1 << 6 | 1 << 13
_METHODS = {zipfile.ZIP_STORED: "stored", zipfile.ZIP_DEFLATED: "deflated"}
_SUFFIX = ".npy"


def open_source(address: Address, types: TextTypes) -> Source:
    """The member named by the key, or the only one."""
    return open_member(address.path, address.key, asked=types.asked)


def create_sink(file: NewFile, like: Source, key: str, layout: Layout) -> FileSink:
    """The sink of a new archive of one member, or of the input's archive with one member replaced."""
    return NpzSink(file, like, key, keep_others=layout.keep_others)


class _Member(NamedTuple):
    """A member whose local header agrees with the directory.

    `where` is for messages, `offset` is that of its data, and `others` the number of other tensors in the archive.
    """

    where: str
    key: str
    offset: int
    info: zipfile.ZipInfo
    others: int

    def wrong(self, found: str, wanted: str = "the whole file", hint: str = "fetch it again") -> FormatError:
        """The error about this member."""
        return FormatError(found, wanted, hint, self.where)

    def header(self, head: bytes, asked: DataType | None) -> npy.Header:
        """Parse the header in its first bytes; FormatError unless the member ends with the last element."""
        header = npy.Header(head, self.info.file_size, self.where).named(asked)
        header.check_size(self.info.file_size)
        return header


def open_member(path: str, key: str | None, name: str = "", asked: DataType | None = None) -> Source:
    """The tensor `key`, or the only one; `name` is for messages, the path without it; `asked` is for nameless bytes."""
    with positioned.opened(path) as fd:
        identity = positioned.identity(fd)
        head = positioned.read_some(fd, 64, 0, path)
        if not head.startswith((ZIP_MAGIC, zip_headers.END_MAGIC)):
            seems, hint = looks_like(head, path)
            raise FormatError(f"is not a .npz file: it looks like {seems}", "a .npz file by its suffix", hint, path)
        member = _find(fd, key, path, name or path)
        if member.info.compress_type == zipfile.ZIP_STORED:
            head = positioned.read_some(fd, min(npy.HEAD_BYTES, member.info.file_size), member.offset, path)
            return StoredSource(member.header(head, asked), path, identity, member)
        hint = "if it is what you want, unzip it"
        refuse_bomb(member.info.file_size, member.info.compress_size, hint, member.where)
        if member.info.file_size > LARGEST_HELD:
            return DeflatedSource(member.header(_inflated_head(fd, member), asked), path, identity, member)
        data = bytearray().join(_inflated(fd, member))
    header = member.header(bytes(data[: npy.HEAD_BYTES]), asked)
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
    """The name of every tensor, without .npy."""
    with positioned.opened(path) as fd:
        return list(_directory(fd, path, path)[0])


def contents(address: Address, types: TextTypes) -> Contents | None:
    """What the archive holds; None where the address has the name of a member."""
    path = address.path
    if address.key is not None:
        return None
    with positioned.opened(path) as fd:
        infos, _, end = zip_directory.read(fd, path, path)
        items = tuple(_item(fd, info, end, path, types.asked) for info in infos)
    members = [item for item, info in zip(items, infos, strict=True) if info.filename.endswith(_SUFFIX)]
    return Contents(path, "npz", items, only_of(members))


def _item(fd: int, info: zipfile.ZipInfo, end: int, path: str, asked: DataType | None) -> Item:
    """A member by its header; what is wrong with it is told in its place."""
    if not info.filename.endswith(_SUFFIX):
        return Item(info.filename, what="no .npy file")
    key = info.filename.removesuffix(_SUFFIX)
    try:
        member = _checked(fd, info, end, path, f"{path}::{key}", 0)
        head = (
            positioned.read_some(fd, min(npy.HEAD_BYTES, info.file_size), member.offset, path)
            if info.compress_type == zipfile.ZIP_STORED
            else _inflated_head(fd, member)
        )
        header = member.header(head, asked)
    except FormatError as e:
        return Item(key).refused(e)
    desc = TensorDesc(data_type_of(header.dtype), header.sizes)
    details = {"method": _METHODS[info.compress_type], **header.storage.details}
    return Item(key, desc, sizes=header.sizes, details=details)


def _find(fd: int, key: str | None, path: str, name: str) -> _Member:
    """The member `key`, with or without .npy, or the only one."""
    infos, end = _directory(fd, path, name)
    if key is not None and key not in infos:
        key = key.removesuffix(_SUFFIX)
    key = chosen(infos, key, name)
    return _checked(fd, infos[key], end, path, f"{name}::{key}", len(infos) - 1)


def _directory(fd: int, path: str, name: str) -> tuple[dict[str, zipfile.ZipInfo], int]:
    """The members that are tensors, by key, and where the directory begins; FormatError if the archive is not plain."""
    infos, _, end = zip_directory.read(fd, path, name)
    return {info.filename.removesuffix(_SUFFIX): info for info in infos if info.filename.endswith(_SUFFIX)}, end


def _checked(fd: int, info: zipfile.ZipInfo, end: int, path: str, where: str, others: int) -> _Member:
    """The member; FormatError unless its local header agrees with the directory, and its data end before that."""
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
    """Inflate a member, piece by piece; FormatError unless it has as many bytes as it declares, and its CRC-32."""
    declared, stored = member.info.file_size, member.info.compress_size
    engine = zlib.decompressobj(-zlib.MAX_WBITS)
    done = crc = 0
    for piece in pieces(fd, member.offset, stored, _DEFLATED_PIECE, member.where):
        try:
            data = engine.decompress(piece, declared + 1 - done)
        except zlib.error:
            raise member.wrong("is damaged: it cannot be inflated") from None
        done, crc = done + len(data), zlib.crc32(data, crc)
        if done > declared:
            raise member.wrong(f"inflates to more than the {declared} bytes that it declares")
        if engine.unused_data:  # raised at once, since zlib would keep all that follows in memory
            raise member.wrong("has bytes behind the end of its deflated data")
        yield data
    if not engine.eof or done != declared:
        raise member.wrong(f"inflates to {done} bytes, and declares {declared}")
    _require_checksum(member, crc)


def _inflated_head(fd: int, member: _Member) -> bytes:
    """The first bytes of a deflated member, enough for its header; the rest is not checked."""
    head = b""
    for piece in _inflated(fd, member):
        head += piece
        if len(head) >= npy.HEAD_BYTES:
            break
    return head


def _require_checksum(member: _Member, crc: int) -> None:
    if crc != member.info.CRC:
        raise member.wrong(f"is damaged: its CRC-32 is {crc:08x}, and the archive says {member.info.CRC:08x}")


class _MemberSource(RawSource):
    """A member of an archive that is not in memory."""

    def __init__(self, header: npy.Header, path: str, identity: positioned.Identity, member: _Member) -> None:
        super().__init__(header.tensor(path, member.offset), identity, _storage(header.storage, member))
        self.key, self.siblings, self._member = member.key, member.others, member


class StoredSource(_MemberSource):
    """A stored member, which is read in place."""

    def recheck(self) -> None:
        """FormatError if the CRC-32 is wrong, for which all is read once more: regions are read in any order."""
        with positioned.opened(self.path, self.identity) as fd:
            crc = checksum(fd, self._member.offset, self._member.info.file_size, self.path)
        _require_checksum(self._member, crc)


class DeflatedSource(SpooledSource, _MemberSource):
    """A deflated member that is too large for memory."""

    def __init__(self, header: npy.Header, path: str, identity: positioned.Identity, member: _Member) -> None:
        super().__init__(header, path, identity, member)
        self.unpacked_bytes = member.info.file_size

    def pieces(self, fd: int) -> Iterator[bytes]:
        """Inflate the member; FormatError if it is damaged."""
        return _inflated(fd, self._member)


class NpzSink(RawSink):
    """A new archive, with one stored member into which the workers write their regions.

    With `keep_others` it is a copy of the input's archive, and the member takes the place of the input's.
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
        """Write the headers and the directory, with the CRC-32 of the member as it is read back."""
        super().finish()
        with positioned.opened_to_write(self.file.temporary, self.file.name) as fd:
            positioned.write_all(fd, self._header, self._start, self.file.name)
            with positioned.opened(self.file.temporary, name=self.file.name) as written:
                entry = self._entry._replace(crc=checksum(written, self._start, self._entry.size, self.file.name))
            positioned.write_all(fd, entry.local(), entry.offset, self.file.name)
            place, data = self._directory(entry)
            positioned.write_all(fd, data, place, self.file.name)

    def reopen(self) -> Source:
        """The complete file, as an input."""
        return open_member(self.file.temporary, self._key, self.file.name, self._data_type)

    def _directory(self, entry: zip_headers.Entry) -> tuple[int, bytes]:
        """The offset of the directory, and its bytes."""
        if self._around:
            return self._around.directory(entry, self.tensor.end)
        return self.tensor.end, zip_headers.directory([entry], self.tensor.end, b"")


def _around(like: Source) -> zip_headers.Around:
    """The input's archive without the input; FormatError if members overlap, since a new one would damage others."""
    with positioned.opened(like.path, like.identity) as fd:
        infos, comment, end = zip_directory.read(fd, like.path, like.path)
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
    """The file name of a new member; UsageError for one that no tool could unpack under that name."""
    try:
        name = f"{key}{_SUFFIX}".encode()
    except UnicodeEncodeError:
        name = b""
    if not name or len(name) > 1 << 15 or {"", ".", ".."} & {*key.split("/")} or {*"\0\\:"} & {*key}:
        wanted = "a name such as x, without .. or a leading /"
        raise UsageError(f"{key[:80]!r} is no member's name", wanted, where=where)
    return name
