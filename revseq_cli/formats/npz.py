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
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple, cast
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from revseq_cli import files
from revseq_cli.core import platform, signals, thresholds
from revseq_cli.core.dtypes import data_type_of
from revseq_cli.core.errors import HALVES, FormatError, RevseqError
from revseq_cli.core.tensors import DataType, TensorDesc
from revseq_cli.files import local
from revseq_cli.files.address import STORE_FILES
from revseq_cli.files.copies import CopiedPart
from revseq_cli.files.input_file import Identity, InputFile
from revseq_cli.files.new import NewFile
from revseq_cli.files.system_errors import wrap_os_errors
from revseq_cli.formats import npy
from revseq_cli.formats.contract import FileSink, Location, Original, Source, Storage, TextTypes
from revseq_cli.formats.listings import Contents, Item, find_sole_key
from revseq_cli.formats.raw import CompressedSource, RawSink, RawSource, RawTensor
from revseq_cli.formats.refusals import (
    choose_tensor,
    make_damage_error,
    make_name_error,
    refuse_bomb,
)
from revseq_cli.formats.table import NPY_MAGIC, ZIP_MAGIC

# What zipfile raises for damage; RuntimeError for an encrypted member.
_DAMAGE = (
    zipfile.BadZipFile, RuntimeError, struct.error, zlib.error, ValueError, OverflowError,
    EOFError, OSError,
)  # fmt: skip
# Bytes of a directory, enough for some 200,000 members.
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
    """Raise `error` if zipfile finds damage."""
    try:
        yield
    except RevseqError:  # some are of the kinds that zipfile raises, too
        raise
    except _DAMAGE:
        raise error from None


class _BoundedFile:
    """A file for zipfile that refuses to read more at once than a sensible directory has.

    The file itself says how many bytes its directory has, and zipfile takes memory for as many.
    """

    def __init__(self, fd: InputFile, where: str) -> None:
        self._stream = fd.stream()
        self._where = where
        self._size = fd.identity.size
        self.seek = self._stream.seek
        self.tell = self._stream.tell
        self.seekable = self._stream.seekable

    def read(self, size: int | None = -1) -> bytes:
        if size is None or size < 0:  # all that is left
            size = min(_LARGEST_DIRECTORY, max(0, self._size - self.tell()))
        if size > _LARGEST_DIRECTORY:
            found = f"has a directory of {size} bytes"
            raise FormatError(found, f"at most {_LARGEST_DIRECTORY}", where=self._where)
        with wrap_os_errors(self._where, "read"):
            return self._stream.read(size)


@contextlib.contextmanager
def _open_archive(
    path: str, where: str = "", unchanged: Identity | None = None
) -> Iterator[tuple[InputFile, ZipFile]]:
    """An archive and its file; FormatError if it is damaged, or is not the whole file.

    zipfile ignores bytes before the first member and after the directory, so it reads only the
    second of two archives that were joined. Of two members of one name, it ignores the first.
    """
    where = where or path
    with files.open_file(path, unchanged) as fd:
        truncated = make_damage_error(
            "has no complete zip directory: it is truncated or damaged", where
        )
        with _refusing(truncated):
            archive = zipfile.ZipFile(cast("BinaryIO", _BoundedFile(fd, where)))
        with archive:
            infos = archive.infolist()
            if len(archive.NameToInfo) < len(infos):
                raise FormatError("has two members of one name", "each name once", where=where)
            begin = min((info.header_offset for info in infos), default=0)
            if begin > 0 or not _ends_with(fd, archive.comment):
                found = "has bytes outside its archive: were two files joined?"
                raise FormatError(found, where=where)
            yield fd, archive


def _ends_with(fd: InputFile, comment: bytes) -> bool:
    """Whether the file ends with the last record of an archive and that comment."""
    tail = fd.read(_END_BYTES, fd.identity.size - _END_BYTES - len(comment))
    length = int.from_bytes(tail[-2:], "little")
    return tail.startswith(_END_MAGIC) and length == len(comment)


def _data_offset(fd: InputFile, info: ZipInfo) -> int:
    """The offset of a member's data, which follow its local header with a name and extra field."""
    end = info.header_offset + _LOCAL_BYTES
    name_bytes, extra_bytes = _LENGTHS.unpack(fd.read(_LENGTHS.size, end - _LENGTHS.size))
    return int(end + name_bytes + extra_bytes)


def _find_tensors(archive: ZipFile, path: str) -> dict[str, ZipInfo]:
    """The members that are tensors, by the keys that numpy.load gives them: names without .npy."""
    _refuse_other_archives(archive.namelist(), path)
    tensors = {}
    for info in archive.infolist():
        if not _is_npy(archive, info):
            continue
        key = info.filename.removesuffix(_SUFFIX)
        if key in archive.NameToInfo:  # another member has this name
            key = info.filename
        tensors[key] = info
    return tensors


def _is_npy(archive: ZipFile, info: ZipInfo) -> bool:
    """Whether a member is a .npy file, by its name or by its first bytes."""
    if info.filename.endswith(_SUFFIX):
        return True
    if not info.filename or info.is_dir():
        return False
    with contextlib.suppress(*_DAMAGE), archive.open(info) as file:
        return file.read(len(NPY_MAGIC)) == NPY_MAGIC
    return False


def _refuse_other_archives(names: list[str], path: str) -> None:
    """FormatError for a Zarr store, a table of Excel and a PyTorch file, which are zip archives."""
    if any(name.rpartition("/")[2] in STORE_FILES for name in names):
        folder = path.removesuffix(".zip")
        if not folder.endswith(".zarr"):
            folder += ".zarr"
        hint = f"to unpack it: unzip {platform.quote(path)} -d {platform.quote(folder)}"
        raise FormatError("is a Zarr store in a zip archive", hint=hint, where=path)
    if "[Content_Types].xml" in names:
        hint = "to make it a text table, save the sheet as .csv"
        raise FormatError("is a file of Excel or another office program", hint=hint, where=path)
    if any(name.endswith("/data.pkl") for name in names):
        code = f"numpy.save('new.npy', torch.load({path!r}).numpy())"
        hint = f"to save one of its tensors, type in Python: {code}"
        raise FormatError("is a PyTorch file, whose objects are pickled", hint=hint, where=path)


class _Member(NamedTuple):
    """A member that can be read: its .npy file, with that header, begins at `offset`."""

    where: str
    info: ZipInfo
    offset: int
    header: npy.Header

    @classmethod
    def of(cls, fd: InputFile, archive: ZipFile, info: ZipInfo, where: str) -> _Member:
        """The member; FormatError for one that is damaged, or that numpy.savez does not write."""
        if info.flag_bits & _IS_ENCRYPTED:
            raise _make_member_error("encrypted", where)
        if info.compress_type not in _METHODS:
            raise _make_member_error(f"has the compression method {info.compress_type}", where)
        with _refusing(make_damage_error("damaged", where)), archive.open(info) as file:
            head = file.read(npy.HEAD_BYTES)
        offset = _data_offset(fd, info)
        is_cut = info.compress_type == ZIP_STORED and info.compress_size != info.file_size
        if is_cut or offset + info.compress_size > archive.start_dir:
            raise make_damage_error("damaged: its size is not that of its data", where)
        header = npy.Header.of(head, info.file_size, where)
        header.require_whole(info.file_size, where)
        return cls(where, info, offset, header)

    def make_crc_error(self) -> FormatError:
        """The error for elements that are not those that were written."""
        found = f"damaged: its CRC-32 is not the {self.info.CRC:08x} that the archive says"
        return make_damage_error(found, self.where)

    def decompress(self, path: str, unchanged: Identity) -> Iterator[bytes]:
        """The decompressed bytes, piece by piece; FormatError if they are damaged."""
        with (
            _open_archive(path, unchanged=unchanged) as (_, archive),
            _refusing(self.make_crc_error()),
            archive.open(self.info) as file,
        ):
            while piece := file.read(thresholds.PIECE):
                signals.check()
                yield piece


def _make_member_error(found: str, where: str) -> FormatError:
    """The error for a member that numpy.savez does not write."""
    return FormatError(found, "plain members, stored or deflated", "unpack the archive", where)


class _StoredSource(RawSource):
    """A stored member, which is read where it is in the archive."""

    def __init__(
        self,
        tensor: RawTensor,
        identity: Identity,
        storage: Storage,
        key: str,
        member: _Member,
    ) -> None:
        super().__init__(tensor, identity, storage, key)
        self.member = member

    def recheck(self) -> None:
        """FormatError if the CRC-32 is wrong.

        The whole member is read once more, since its regions were read in any order.
        """
        with files.open_file(self.path, self.identity) as fd:
            crc = _compute_crc(fd, self.member.offset, self.member.info.file_size)
        if crc != self.member.info.CRC:
            raise self.member.make_crc_error()


def _compute_crc(fd: InputFile, offset: int, size: int) -> int:
    crc = 0
    for piece in fd.read_pieces(offset, size):
        crc = zlib.crc32(piece, crc)
    return crc


def open_member(
    path: str, key: str | None, where: str = "", asked: DataType | None = None
) -> Source:
    """The tensor `key`, or the only one; `asked` is the data type of untyped bytes.

    Messages call the archive `where`, or else by its path.
    """
    where = where or path
    with _open_archive(path, where) as (fd, archive):
        identity = fd.identity
        tensors = _find_tensors(archive, path)
        if key is not None and key not in tensors:
            key = key.removesuffix(_SUFFIX)
        key = choose_tensor(
            tensors,
            key,
            where,
            is_tensor=lambda other: _has_numbers(fd, archive, tensors[other], asked),
        )
        info = tensors[key]
        where = f"{where}::{key}"
        refuse_bomb(info.file_size, info.compress_size, "unzip it", where)
        member = _Member.of(fd, archive, info, where)
    header = member.header.as_typed(asked, where)
    storage = header.describe_storage(
        "npz", member=info.filename, method=_METHODS[info.compress_type]
    )
    if info.compress_type == ZIP_STORED:
        tensor = header.locate_elements(path, where, member.offset)
        return _StoredSource(tensor, identity, storage, key, member)
    decompress = functools.partial(member.decompress, path, identity)
    return CompressedSource(header.locate_elements(path, where), identity, storage, decompress, key)


def _has_numbers(fd: InputFile, archive: ZipFile, info: ZipInfo, asked: DataType | None) -> bool:
    """Whether a member is a tensor of numbers, as far as its header says."""
    try:
        member = _Member.of(fd, archive, info, info.filename)
        data_type_of(member.header.as_typed(asked, info.filename).dtype)
    except RevseqError:
        return False
    return True


@dataclass(frozen=True)
class _Frame:
    """What a new archive has besides the data of its new member."""

    name: str  # the file name of the new member
    method: int  # how that is compressed, by zipfile's number
    # Of a copy of an archive: its members with their new offsets, even the one that is replaced.
    others: list[ZipInfo] = field(default_factory=list)
    comment: bytes = b""
    parts: list[CopiedPart] = field(default_factory=list)  # what is copied

    @classmethod
    def of_copy(cls, original: Original, key: str, where: str, method: int) -> _Frame:
        """The frame of a copy; `method` counts if the new member replaces no other."""
        with _open_archive(original.path, unchanged=original.identity) as (fd, archive):
            tensors = _find_tensors(archive, original.path)
            if key not in tensors:
                key = key.removesuffix(_SUFFIX)
            replaced = tensors.get(key)
            if replaced:
                original.require_replaceable(key)
                name = replaced.filename
                method = replaced.compress_type
            else:
                name = _name_member(key, where)
            parts = _move_members(fd, archive, name, original.path)
            return cls(name, method, archive.infolist(), archive.comment, parts)

    def list_members(self, new: ZipInfo) -> list[ZipInfo]:
        """The directory: the new member is where the one of its name was, or else the last."""
        names = [info.filename for info in self.others]
        if new.filename not in names:
            return [*self.others, new]
        members = list(self.others)
        members[names.index(new.filename)] = new
        return members


class _NpzSink(RawSink):
    """A new archive, in which the data of the new member follow those that are copied.

    Workers write the elements where they stay, and `finish` adds what depends on them:

        copied members | local header | .npy header and elements | directory

    If the member is to be deflated, workers leave room before the elements, and `finish` reads the
    elements there while it writes what they deflate to at the beginning of the room:

        copied members | local header | room | .npy header and elements

    The room is for data that deflate to more bytes than they had, which would otherwise overwrite
    elements that have not been read.
    """

    def __init__(
        self, file: NewFile, template: Source, frame: _Frame, original: Original | None
    ) -> None:
        head = npy.make_header(template.dtype, template.sizes, template.order)
        info = zipfile.ZipInfo(frame.name)  # of 1980, so that the same values make the same file
        info.create_system = 0  # on every system
        info.compress_type = frame.method
        info.file_size = len(head) + template.desc.total_bytes
        info.compress_size = info.file_size
        info.header_offset = sum(part.size for part in frame.parts)
        info.CRC = 0
        self._info = info
        self._frame = frame
        self._data_offset = info.header_offset + len(info.FileHeader(zip64=True))
        self._npy_offset = self._data_offset
        if frame.method == ZIP_DEFLATED:
            # zlib adds 5 bytes to each block of data that would get larger.
            self._npy_offset += info.file_size // 1000 + (1 << 16)
        super().__init__(
            file,
            RawTensor.like(template, file, self._npy_offset + len(head)),
            functools.partial(
                open_member, file.temporary, frame.name, file.name, template.desc.data_type
            ),
            head=head,
            head_offset=self._npy_offset,
            original=original,
            parts=frame.parts,
        )

    def finish(self) -> None:
        """Write the local header, with the CRC-32 of what is read back, and the directory."""
        super().finish()
        path = self.file.temporary
        where = self.file.name
        info = self._info
        if info.compress_type == ZIP_DEFLATED:
            self._deflate()
        else:
            with files.open_file(path, name=where) as fd:
                info.CRC = _compute_crc(fd, self._data_offset, info.file_size)
        with local.open_to_write(path, where) as fd, wrap_os_errors(where, "write"):
            fd.write(info.FileHeader(zip64=True), info.header_offset)
            with open(fd.fd, "r+b", closefd=False) as file:
                file.seek(self._data_offset + info.compress_size)
                # This archive begins where the file stands. It gets no members: when it is closed,
                # it writes the directory of all those in its list.
                with zipfile.ZipFile(file, "w") as archive:
                    archive.comment = self._frame.comment
                    archive.infolist().extend(self._frame.list_members(info))
                file.truncate()

    def _deflate(self) -> None:
        """Deflate the member to its place in the archive."""
        path = self.file.temporary
        where = self.file.name
        deflater = zlib.compressobj(wbits=-zlib.MAX_WBITS)
        crc = 0
        end = self._data_offset
        with (
            files.open_file(path, name=where) as source,
            local.open_to_write(path, where) as target,
        ):
            for piece in source.read_pieces(self._npy_offset, self._info.file_size):
                signals.check()
                crc = zlib.crc32(piece, crc)
                deflated = deflater.compress(piece)
                target.write(deflated, end)
                end += len(deflated)
            deflated = deflater.flush()
            target.write(deflated, end)
            end += len(deflated)
        self._info.CRC = crc
        self._info.compress_size = end - self._data_offset


def _move_members(fd: InputFile, archive: ZipFile, without: str, path: str) -> list[CopiedPart]:
    """Give all members but one new offsets, without gaps; the parts of the file to copy there.

    FormatError if two members overlap, and for a damaged local header: numpy.load reads no copy
    that begins with one.
    """
    infos = sorted(archive.infolist(), key=lambda info: info.header_offset)
    ends = [info.header_offset for info in infos[1:]]
    ends.append(archive.start_dir)
    parts = []
    target = 0
    for info, end in zip(infos, ends, strict=False):
        begin = info.header_offset
        if info.filename == without:
            continue
        _require_local_header(fd, info, path)
        if begin + _LOCAL_BYTES > end or _data_offset(fd, info) + info.compress_size > end:
            raise make_damage_error("has members that overlap", path)
        parts.append(CopiedPart(begin, end - begin, target))
        info.header_offset = target
        info.filename = info.orig_filename  # as in the file, even if no folder may have that name
        target += end - begin
    return parts


def _require_local_header(fd: InputFile, info: ZipInfo, path: str) -> None:
    """FormatError unless a local header is there, with the name that the directory says."""
    head = fd.read(_LOCAL_BYTES, info.header_offset)
    name_bytes, _ = _LENGTHS.unpack(head[-_LENGTHS.size :])
    name = fd.read(name_bytes, info.header_offset + _LOCAL_BYTES)
    encoding = "utf-8" if info.flag_bits & _IS_UTF8 else "cp437"
    if head.startswith(ZIP_MAGIC) and name.decode(encoding, "replace") == info.orig_filename:
        return
    where = f"{path}::{info.filename.removesuffix(_SUFFIX)}"
    hint = "to write only this tensor, add --only"
    raise FormatError("damaged: there is no local header of its name", "", hint, where)


def _name_member(key: str, where: str) -> str:
    """The file name of a new member; UsageError for one that no tool could unpack."""
    name = f"{key.removesuffix(_SUFFIX)}{_SUFFIX}"
    has_half = HALVES.search(name) is not None
    is_long = len(name.encode(errors="replace")) > 1 << 15
    has_unsafe_part = any(part in ("", ".", "..") for part in key.split("/"))
    has_unsafe_character = any(character in key for character in "\0\\:")
    if any((has_half, is_long, has_unsafe_part, has_unsafe_character)):
        raise make_name_error(key, "member", "a name such as x, without .. or a leading /", where)
    return name


def open_source(location: Location, types: TextTypes) -> Source:
    """The member named by the key, or the only one."""
    return open_member(location.path, location.key, asked=types.asked)


def create_sink(file: NewFile, template: Source, key: str, original: Original | None) -> FileSink:
    """The sink of a new archive of one member, or of a copy with one replaced or added.

    The member is deflated if the one that it replaces is, or, if it replaces none, if INPUT is.
    Other members are stored, since floats hardly get smaller.
    """
    method = _METHOD_NUMBERS.get(template.storage.details.get("method", ""), ZIP_STORED)
    if original:
        frame = _Frame.of_copy(original, key, file.name, method)
    else:
        frame = _Frame(_name_member(key, file.name), method)
    return _NpzSink(file, template, frame, original)


def contents(location: Location, types: TextTypes) -> Contents:
    """What the archive holds."""
    path = location.path
    items = []
    with _open_archive(path) as (fd, archive):
        tensors = _find_tensors(archive, path)
        for key, info in tensors.items():
            where = f"{path}::{key}"
            try:
                header = _Member.of(fd, archive, info, where).header.as_typed(types.asked, where)
            except FormatError as e:
                # What is wrong with a member is listed instead of it.
                items.append(Item(key).with_reason(e))
                continue
            desc = TensorDesc(data_type_of(header.dtype), header.sizes)
            details = header.describe_storage(method=_METHODS[info.compress_type]).details
            items.append(Item(key, desc, sizes=header.sizes, details=details))
        tensor_names = {info.filename for info in tensors.values()}
        others = [
            Item(name, what="no .npy file")
            for name in archive.namelist()
            if name not in tensor_names
        ]
    return Contents(path, "npz", (*items, *others), find_sole_key(items))
