"""NumPy's .npz format: the .npy members of a zip archive, `file.npz::name` or the only one.

A stored member is read where it is; a deflated one is decompressed once, into a temporary file. The
output is one member: a copy of the input's archive with that member replaced or added, or a new
archive. Source of the format: PKWARE's APPNOTE.TXT 6.3.10, whose sections are named below, and the
docstring of numpy.savez.
"""

from __future__ import annotations

import contextlib
import functools
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, cast
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from revseq_cli import files
from revseq_cli.core import platform, signals, thresholds
from revseq_cli.core.dtypes import data_type_of
from revseq_cli.core.errors import HALVES, FormatError, RevseqError
from revseq_cli.core.tensors import DataType, TensorDesc
from revseq_cli.files import base, local
from revseq_cli.files.new import NewFile
from revseq_cli.formats import npy
from revseq_cli.formats.contract import Address, FileSink, Original, Source, Storage, TextTypes
from revseq_cli.formats.listings import Contents, Item, only_of
from revseq_cli.formats.raw import RawSink, RawSource, RawTensor, UnpackedSource
from revseq_cli.formats.refusals import choose_tensor, damaged_file, invalid_name, refuse_bomb
from revseq_cli.formats.table import NPY_MAGIC, STORE_FILES, ZIP_MAGIC

# What zipfile raises for damage; RuntimeError for an encrypted member.
_DAMAGE = (
    zipfile.BadZipFile, RuntimeError, struct.error, zlib.error, ValueError, OverflowError,
    EOFError, OSError,
)  # fmt: skip
# Bytes of a directory, enough for some 200,000 members; the file itself declares the size.
_LARGEST_DIRECTORY = 1 << 24
# APPNOTE 4.3.7: a local header ends with the lengths of the name and of the extra field that follow
# it.
_LOCAL_BYTES = 30
_LENGTHS = struct.Struct("<2H")
# APPNOTE 4.4.4: flags. The name of a member without _IS_UTF8 is in code page 437.
_IS_ENCRYPTED = 1
_IS_UTF8 = 1 << 11
# APPNOTE 4.3.16: the last record, which ends with the length of the comment that follows it.
_END_MAGIC = b"PK\5\6"
_END_BYTES = 22
_METHODS = {ZIP_STORED: "stored", ZIP_DEFLATED: "deflated"}
_METHOD_NUMBERS = {name: number for number, name in _METHODS.items()}
_SUFFIX = ".npy"


@contextlib.contextmanager
def _refusing(error: FormatError) -> Iterator[None]:
    """Raise `error` where zipfile finds damage."""
    try:
        yield
    except RevseqError:  # some are of the kinds that zipfile raises, too
        raise
    except _DAMAGE:
        raise error from None


class _Bounded:
    """A file that limits how many bytes zipfile reads at once, which the file itself declares."""

    def __init__(self, fd: base.InputFile, where: str) -> None:
        self._stream = fd.stream()
        self._where = where
        self._size = fd.identity.size
        self.seek = self._stream.seek
        self.tell = self._stream.tell
        self.seekable = self._stream.seekable

    def read(self, size: int | None = -1) -> bytes:
        if size is None or size < 0:  # all that is left, for which memory is taken at once
            size = min(_LARGEST_DIRECTORY, max(0, self._size - self.tell()))
        if size > _LARGEST_DIRECTORY:
            found = f"has a directory of {size} bytes"
            raise FormatError(found, f"at most {_LARGEST_DIRECTORY}", where=self._where)
        with base.trying_to("read", self._where):
            return self._stream.read(size)


@contextlib.contextmanager
def _open_archive(
    path: str, name: str = "", unchanged: base.Identity | None = None
) -> Iterator[tuple[base.InputFile, ZipFile]]:
    """An archive and its file; FormatError if it is damaged, or is not the whole file.

    zipfile ignores bytes before the first member and after the directory, so it reads only the
    second of two archives that were joined. Of two members of one name, it ignores the first.
    """
    name = name or path
    with files.open_file(path, unchanged) as fd:
        truncated = damaged_file("has no complete zip directory: it is truncated or damaged", name)
        with _refusing(truncated):
            archive = zipfile.ZipFile(cast("BinaryIO", _Bounded(fd, name)))
        with archive:
            infos = archive.infolist()
            if len(archive.NameToInfo) < len(infos):
                raise FormatError("has two members of one name", "each name once", where=name)
            begin = min((info.header_offset for info in infos), default=0)
            if begin > 0 or not _ends_with(fd, archive.comment):
                found = "has bytes outside its archive: were two files joined?"
                raise FormatError(found, where=name)
            yield fd, archive


def _ends_with(fd: base.InputFile, comment: bytes) -> bool:
    """Whether the file ends with the last record of an archive and that comment."""
    tail = fd.read(_END_BYTES, fd.identity.size - _END_BYTES - len(comment))
    length = int.from_bytes(tail[-2:], "little")
    return tail.startswith(_END_MAGIC) and length == len(comment)


def _data_offset(fd: base.InputFile, info: ZipInfo) -> int:
    """The offset of a member's data, which follow its complete local header."""
    end = info.header_offset + _LOCAL_BYTES
    name, extra = _LENGTHS.unpack(fd.read(_LENGTHS.size, end - _LENGTHS.size))
    return int(end + name + extra)


def _find_tensors(archive: ZipFile, path: str) -> dict[str, ZipInfo]:
    """The members that are tensors, by key, which is the name without .npy.

    As numpy.load, by their first bytes.
    """
    tensors = {}
    _refuse_other_archives(archive.namelist(), path)
    if any(name.endswith("/data.pkl") for name in archive.namelist()):
        code = f"numpy.save('new.npy', torch.load({path!r}).numpy())"
        hint = f"to save one of its tensors, type in Python: {code}"
        raise FormatError("is a PyTorch file, whose objects are pickled", hint=hint, where=path)
    for info in archive.infolist():
        is_tensor = info.filename.endswith(_SUFFIX)
        if not is_tensor and info.filename and not info.is_dir():
            with contextlib.suppress(*_DAMAGE), archive.open(info) as file:
                is_tensor = file.read(len(NPY_MAGIC)) == NPY_MAGIC
        if is_tensor:
            key = info.filename.removesuffix(_SUFFIX)
            tensors[info.filename if key in archive.NameToInfo else key] = info
    return tensors


def _refuse_other_archives(names: list[str], path: str) -> None:
    """FormatError for a zipped Zarr store, and for a table of Excel."""
    if any(name.rpartition("/")[2] in STORE_FILES for name in names):
        folder = path.removesuffix(".zip")
        folder = folder if folder.endswith(".zarr") else f"{folder}.zarr"
        unzip = f"unzip {platform.quote(path)} -d {platform.quote(folder)}"
        raise FormatError(
            "is a Zarr store in a zip archive", hint=f"to unpack it: {unzip}", where=path
        )
    if "[Content_Types].xml" in names:
        hint = "to make it a text table, save the sheet as .csv"
        raise FormatError("is a file of Excel or another office program", hint=hint, where=path)


class _Member(NamedTuple):
    """A member that can be read: its data begin at `offset`, with a header.

    `where` is for messages.
    """

    where: str
    info: ZipInfo
    offset: int
    header: npy.Header

    @classmethod
    def of(cls, fd: base.InputFile, archive: ZipFile, info: ZipInfo, where: str) -> _Member:
        """The member.

        FormatError unless its local header agrees with the directory, and it ends with its
        elements.
        """
        if info.flag_bits & _IS_ENCRYPTED:
            raise _unusual("encrypted", where)
        if info.compress_type not in _METHODS:
            raise _unusual(f"has the compression method {info.compress_type}", where)
        with _refusing(damaged_file("damaged", where)), archive.open(info) as file:
            head = file.read(npy.HEAD_BYTES)
        offset = _data_offset(fd, info)
        is_cut = info.compress_type == ZIP_STORED and info.compress_size != info.file_size
        if is_cut or offset + info.compress_size > archive.start_dir:
            raise damaged_file("damaged: its size is not that of its data", where)
        header = npy.Header.of(head, info.file_size, where)
        header.require_whole(info.file_size, where)
        return cls(where, info, offset, header)

    def wrong_crc(self) -> FormatError:
        """The error for elements that are not those that were written."""
        found = f"damaged: its CRC-32 is not the {self.info.CRC:08x} that the archive says"
        return damaged_file(found, self.where)

    def pieces(self, path: str, unchanged: base.Identity) -> Iterator[bytes]:
        """The decompressed bytes; FormatError if they are damaged."""
        with (
            _open_archive(path, unchanged=unchanged) as (_, archive),
            _refusing(self.wrong_crc()),
            archive.open(self.info) as file,
        ):
            while piece := file.read(thresholds.PIECE):
                signals.check()
                yield piece


def _unusual(found: str, where: str) -> FormatError:
    """The error for a member that numpy.savez does not write."""
    return FormatError(found, "plain members, stored or deflated", "unpack the archive", where)


class _StoredSource(RawSource):
    """A stored member, which is read where it is in the archive."""

    def __init__(
        self,
        tensor: RawTensor,
        identity: base.Identity,
        storage: Storage,
        key: str,
        member: _Member,
    ) -> None:
        super().__init__(tensor, identity, storage, key)
        self.member = member

    def recheck(self) -> None:
        """FormatError if the CRC-32 is wrong.

        All is read once more for that, since regions are read in any order.
        """
        with files.open_file(self.path, self.identity) as fd:
            crc = _crc(fd, self.member.offset, self.member.info.file_size)
        if crc != self.member.info.CRC:
            raise self.member.wrong_crc()


def _crc(fd: base.InputFile, offset: int, size: int) -> int:
    crc = 0
    for piece in fd.read_pieces(offset, size):
        crc = zlib.crc32(piece, crc)
    return crc


def open_member(
    path: str, key: str | None, name: str = "", asked: DataType | None = None
) -> Source:
    """The tensor `key`, or the only one.

    `name` is for messages, the path without it; `asked` is for nameless bytes.
    """
    name = name or path
    with _open_archive(path, name) as (fd, archive):
        identity = fd.identity
        infos = _find_tensors(archive, path)
        if key is not None and key not in infos:
            key = key.removesuffix(_SUFFIX)

        def is_tensor(member_name: str) -> bool:
            """Whether a member has numbers, as far as its header says."""
            try:
                member = _Member.of(fd, archive, infos[member_name], member_name)
                data_type_of(member.header.name_bytes(asked, member_name).dtype)
            except RevseqError:
                return False
            return True

        key = choose_tensor(infos, key, name, is_tensor=is_tensor)
        info, where = infos[key], f"{name}::{key}"
        refuse_bomb(info.file_size, info.compress_size, "unzip it", where)
        member = _Member.of(fd, archive, info, where)
    header = member.header.name_bytes(asked, where)
    storage = header.storage("npz", member=info.filename, method=_METHODS[info.compress_type])
    if info.compress_type == ZIP_STORED:
        tensor = header.tensor(path, where, member.offset)
        return _StoredSource(tensor, identity, storage, key, member)
    unpack = functools.partial(member.pieces, path, identity)
    return UnpackedSource(header.tensor(path, where), identity, storage, unpack, key)


class _NpzSink(RawSink):
    """A new archive with one member.

    Or a copy of an archive with that member replaced or added after the others.

    The member is deflated where the one that it replaces, or else INPUT, is a deflated member.
    Others are stored: floats hardly get smaller. Workers write the elements in place. Those of a
    deflated member get their place a bit further on, from where `finish` moves them as it deflates
    them.
    """

    def __init__(
        self, file: NewFile, template: Source, key: str, original: Original | None
    ) -> None:
        self._members: list[ZipInfo] = []
        self._comment = b""
        parts: list[tuple[int, int, int]] = []
        method = _METHOD_NUMBERS.get(template.storage.details.get("method", ""), ZIP_STORED)
        if original:
            name, method, parts = self._look_into(original, key, file.name, method)
        else:
            name = _member_name(key, file.name)
        data_type = template.desc.data_type
        reopen = functools.partial(open_member, file.temporary, name, file.name, data_type)
        super().__init__(file, reopen)
        if original:
            self.copy_parts(original, parts)
        self._info = zipfile.ZipInfo(name)  # of 1980, so that the same values make the same file
        self._info.create_system = 0  # on every system
        self._info.compress_type = method
        self._insert(self._info)
        head = npy.header_bytes(template.dtype, template.sizes, template.order)
        self._info.file_size = self._info.compress_size = len(head) + template.desc.total_bytes
        self._info.header_offset, self._info.CRC = self.kept, 0
        self._local = self._info.FileHeader(zip64=True)
        if method == ZIP_STORED:
            self.place(template, self._local + head, at=self.kept)
        else:
            self._data_begin = self.kept + len(self._local)
            begin = self._data_begin + _most_growth(self._info.file_size)
            self._unpacked = begin, self._info.file_size
            self.place(template, head, at=begin)

    def _insert(self, new: ZipInfo) -> None:
        """Put the member into the directory: where the one of its name is, or at the end."""
        names = [info.filename for info in self._members]
        if new.filename in names:
            self._members[names.index(new.filename)] = new
        else:
            self._members.append(new)

    def _look_into(
        self, original: Original, key: str, where: str, method: int
    ) -> tuple[str, int, list[tuple[int, int, int]]]:
        """The name and the method of the new member in the copy of an archive.

        And the parts that are copied.

        The method is that of a member which is replaced, and else `method`.
        """
        with _open_archive(original.path, unchanged=original.identity) as (fd, archive):
            self._members, self._comment = archive.infolist(), archive.comment
            tensors = _find_tensors(archive, original.path)
            if key not in tensors:
                key = key.removesuffix(_SUFFIX)
            if key in tensors:
                original.require_replaceable(key)
                name, method = tensors[key].filename, tensors[key].compress_type
            else:
                name = _member_name(key, where)
            return name, method, _kept_parts(fd, archive, name, original.path)

    def finish(self) -> None:
        """Write the member's header, with the CRC-32 of what is read back, and the directory."""
        super().finish()
        path, name, info = self.file.temporary, self.file.name, self._info
        if info.compress_type == ZIP_STORED:
            with files.open_file(path, name=name) as fd:
                info.CRC = _crc(fd, info.header_offset + len(self._local), info.file_size)
            end = self.tensor.end
        else:
            end = self._deflate()
        with local.open_to_write(path, name) as fd, base.trying_to("write", name):
            fd.write(info.FileHeader(zip64=True), info.header_offset)
            with open(fd.fd, "r+b", closefd=False) as file:
                file.seek(end)
                with zipfile.ZipFile(file, "w") as archive:
                    archive.comment = self._comment
                    archive.infolist().extend(self._members)
                file.truncate()

    def _deflate(self) -> int:
        """Deflate the member to its place in the archive; where it ends there."""
        path, name = self.file.temporary, self.file.name
        deflate = zlib.compressobj(wbits=-zlib.MAX_WBITS)
        crc, end = 0, self._data_begin
        with (
            files.open_file(path, name=name) as source,
            local.open_to_write(path, name) as target,
        ):
            for piece in source.read_pieces(*self._unpacked):
                signals.check()
                crc = zlib.crc32(piece, crc)
                packed = deflate.compress(piece)
                target.write(packed, end)
                end += len(packed)
            packed = deflate.flush()
            target.write(packed, end)
        end += len(packed)
        self._info.CRC = crc
        self._info.compress_size = end - self._data_begin
        return end


def _most_growth(size: int) -> int:
    """By how many bytes deflating can at most enlarge so many.

    zlib adds 5 bytes to each block that it only stores.
    """
    return size // 1000 + (1 << 16)


def _kept_parts(
    fd: base.InputFile, archive: ZipFile, name: str, path: str
) -> list[tuple[int, int, int]]:
    """The part of each member but the one of that name, which get their new offsets.

    FormatError if two members overlap, and for a damaged local header: numpy.load reads no copy
    that begins with one.
    """
    parts, offset = [], 0
    infos = sorted(archive.infolist(), key=lambda info: info.header_offset)
    ends = [*(info.header_offset for info in infos[1:]), archive.start_dir]
    for info, end in zip(infos, ends, strict=False):
        begin = info.header_offset
        if info.filename == name:
            continue
        _require_local_header(fd, info, path)
        if begin + _LOCAL_BYTES > end or _data_offset(fd, info) + info.compress_size > end:
            raise damaged_file("has members that overlap", path)
        parts.append((begin, end - begin, offset))
        info.header_offset = offset
        info.filename = info.orig_filename  # as in the file, even if no folder may have that name
        offset += end - begin
    return parts


def _require_local_header(fd: base.InputFile, info: ZipInfo, path: str) -> None:
    """FormatError unless the member's local header begins as one.

    It must also have the name that the directory says.
    """
    head = fd.read(_LOCAL_BYTES, info.header_offset)
    length, _ = _LENGTHS.unpack(head[-_LENGTHS.size :])
    name = fd.read(length, info.header_offset + _LOCAL_BYTES)
    encoding = "utf-8" if info.flag_bits & _IS_UTF8 else "cp437"
    if head.startswith(ZIP_MAGIC) and name.decode(encoding, "replace") == info.orig_filename:
        return
    where = f"{path}::{info.filename.removesuffix(_SUFFIX)}"
    hint = "to write only this tensor, add --only"
    raise FormatError("damaged: there is no local header of its name", "", hint, where)


def _member_name(key: str, where: str) -> str:
    """The file name of a new member.

    UsageError for one that no tool could unpack under that name.
    """
    name = f"{key.removesuffix(_SUFFIX)}{_SUFFIX}"
    is_whole = not HALVES.search(name) and len(name.encode()) <= 1 << 15
    if not is_whole or {"", ".", ".."} & {*key.split("/")} or {*"\0\\:"} & {*key}:
        raise invalid_name(key, "member", "a name such as x, without .. or a leading /", where)
    return name


def open_source(address: Address, types: TextTypes) -> Source:
    """The member named by the key, or the only one."""
    return open_member(address.path, address.key, asked=types.asked)


def create_sink(file: NewFile, template: Source, key: str, original: Original | None) -> FileSink:
    """The sink of a new archive of one member.

    Or of a copy of an archive with one replaced or added.
    """
    return _NpzSink(file, template, key, original)


def contents(address: Address, types: TextTypes) -> Contents | None:
    """What the archive holds; None where the address has the name of a member."""
    path, items = address.path, []
    if address.key is not None:
        return None
    with _open_archive(path) as (fd, archive):
        tensors = _find_tensors(archive, path)
        for key, info in tensors.items():
            try:
                header = _Member.of(fd, archive, info, f"{path}::{key}").header.name_bytes(
                    types.asked, f"{path}::{key}"
                )
            except FormatError as e:
                # What is wrong with a member is listed instead of it.
                items.append(Item(key).with_reason(e))
                continue
            desc = TensorDesc(data_type_of(header.dtype), header.sizes)
            details = header.storage(method=_METHODS[info.compress_type]).details
            items.append(Item(key, desc, sizes=header.sizes, details=details))
        rest = {*archive.namelist()} - {info.filename for info in tensors.values()}
        others = [Item(name, what="no .npy file") for name in archive.namelist() if name in rest]
    return Contents(path, "npz", (*items, *others), only_of(items))
