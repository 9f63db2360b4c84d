"""NumPy's .npz format: the .npy members of a zip archive, `file.npz::name` or the only one.

A stored member is read in place; a deflated one is unpacked once, into a temporary file. The output is one stored
member: a copy of the input's archive with that member replaced or added, or a new archive.
Source of the format: PKWARE's APPNOTE.TXT 6.3.10, whose sections are named below, and the docstring of numpy.savez.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import functools
import os
import struct
import zipfile
import zlib
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast
from zipfile import ZIP_DEFLATED, ZIP_STORED

from revseq_cli.core import platform, signals, thresholds
from revseq_cli.core.dtypes import data_type_of
from revseq_cli.core.errors import HALVES, FormatError, RevseqError, TensorIOError, listed
from revseq_cli.core.tensors import TensorDesc
from revseq_cli.formats import file_io, npy
from revseq_cli.formats.contents import Contents, Item, TensorNameError, chosen, only_of, refuse_taken
from revseq_cli.formats.contract import Storage, not_whole, refuse_bomb
from revseq_cli.formats.raw import RawSink, RawSource, UnpackedSource
from revseq_cli.formats.table import NPY_MAGIC, ZIP_MAGIC, by_suffix, is_of_store, looks_like

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from zipfile import ZipFile, ZipInfo

    from revseq_cli.core.tensors import DataType
    from revseq_cli.formats.atomic_file import AtomicFile
    from revseq_cli.formats.contract import Address, FileSink, Layout, Source, TextTypes
    from revseq_cli.formats.raw import RawTensor

# What zipfile raises for damage.
_DAMAGE = (
    zipfile.BadZipFile, NotImplementedError, struct.error, zlib.error, ValueError, OverflowError, EOFError, OSError,
)  # fmt: skip
# Bytes of a directory, enough for some 200,000 members; the file itself declares the size.
_LARGEST_DIRECTORY = 1 << 24
# APPNOTE 4.3.7: a local header ends with the lengths of the name and of the extra field behind it.
_LOCAL_BYTES, _LENGTHS = 30, struct.Struct("<2H")
# APPNOTE 4.3.16: the last record, which ends with the length of the comment behind it.
_END_MAGIC, _END_BYTES = b"PK\5\6", 22
# APPNOTE 4.4.4: encrypted, patched data, strongly encrypted, masked headers.
_UNREADABLE_FLAGS = 1 << 0 | 1 << 5 | 1 << 6 | 1 << 13
_METHODS = {ZIP_STORED: "stored", ZIP_DEFLATED: "deflated"}
_SUFFIX = ".npy"


def open_source(address: Address, types: TextTypes) -> Source:
    """The member named by the key, or the only one."""
    return open_member(address.path, address.key, asked=types.asked)


def create_sink(file: AtomicFile, template: Source, key: str, layout: Layout) -> FileSink:
    """The sink of a new archive of one member, or of the input's archive with one member replaced or added."""
    return NpzSink(file, template, key, layout)


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
    """A file that limits how many bytes zipfile reads at once; `where` is for messages."""

    def __init__(self, fd: file_io.Open, where: str) -> None:
        self._stream, self._where = file_io.stream_of(fd), where
        self._size = file_io.identity(fd).size
        self.seek, self.tell, self.seekable = self._stream.seek, self._stream.tell, self._stream.seekable

    def read(self, size: int | None = -1) -> bytes:
        """Read up to `size` bytes; FormatError if zipfile asks for more than a directory may have."""
        if size is None or size < 0:  # the end of the file; memory for all that is allowed would be taken at once
            size = min(_LARGEST_DIRECTORY, max(0, self._size - self.tell()))
        if size > _LARGEST_DIRECTORY:
            raise FormatError(f"has a directory of {size} bytes", f"at most {_LARGEST_DIRECTORY}", where=self._where)
        try:
            return self._stream.read(size)
        except TensorIOError:
            raise
        except OSError as e:
            raise file_io.failed(self._where, "read", e) from None


@contextlib.contextmanager
def _opened(path: str, name: str = "", unchanged: file_io.Identity | None = None) -> Iterator[tuple[int, ZipFile]]:
    """An archive, and its file; FormatError if it is damaged, or not the whole file.

    zipfile ignores bytes before the first member or behind the directory, and so the first of two archives that were
    joined; and of two members of one name the first.
    """
    name = name or path
    with file_io.opened(path, unchanged) as fd:
        head = file_io.read_some(fd, 64, 0, name)
        if not head.startswith((ZIP_MAGIC, _END_MAGIC)):
            seems, hint = looks_like(head)
            raise FormatError(f"is not a .npz file: it looks like {seems}", "a .npz file by its suffix", hint, name)
        with _refusing(not_whole("has no complete zip directory: it is truncated or damaged", name)):
            archive = zipfile.ZipFile(cast("BinaryIO", _Bounded(fd, name)))
        with archive:
            counts = collections.Counter(info.filename for info in archive.infolist())
            if twice := [member for member, count in counts.items() if count > 1]:
                raise FormatError(f"has two members of one name: {listed(twice)}", "each name once", where=name)
            end = file_io.identity(fd).size - _END_BYTES - len(archive.comment)
            tail = file_io.read_some(fd, _END_BYTES, end, name)
            ends = tail.startswith(_END_MAGIC) and int.from_bytes(tail[-2:], "little") == len(archive.comment)
            if not ends or min((info.header_offset for info in archive.infolist()), default=0):
                found, hint = "has bytes outside its archive", "were two files joined?"
                raise FormatError(found, "one archive and nothing else", hint, name)
            yield fd, archive


def _data_offset(fd: int, info: ZipInfo, path: str) -> int:
    """The offset of a member's data, behind the local header, which is a whole one."""
    place = info.header_offset + _LOCAL_BYTES
    name, extra = _LENGTHS.unpack(file_io.read_some(fd, _LENGTHS.size, place - _LENGTHS.size, path))
    return int(place + name + extra)


class _Member(NamedTuple):
    """A member that can be read: its data begin at `offset`; `where` is for messages."""

    where: str
    key: str
    info: ZipInfo
    offset: int

    @classmethod
    def checked(cls, fd: int, archive: ZipFile, key: str, info: ZipInfo, path: str) -> _Member:
        """The member; FormatError unless its local header agrees with the directory, and its data end before that."""
        member = cls(f"{path}::{key}", key, info, 0)
        if info.flag_bits & _UNREADABLE_FLAGS:
            raise member.wrong("is encrypted", "plain members", "unpack the archive")
        if info.compress_type not in _METHODS:
            found = f"has the compression method {info.compress_type}"
            raise member.wrong(found, "stored or deflated", "unpack the archive")
        with _refusing(member.wrong("has a damaged local header", "what the directory says")):
            archive.open(info).close()
        member = member._replace(offset=_data_offset(fd, info, member.where))
        if member.offset + info.compress_size > archive.start_dir:
            raise member.wrong("its data would lie after the directory")
        if member.is_stored and info.compress_size != info.file_size:
            raise member.wrong(f"is stored in {info.compress_size} bytes, and declares {info.file_size}")
        return member

    @property
    def is_stored(self) -> bool:
        """Whether its bytes lie in the file as they are."""
        return self.info.compress_type == ZIP_STORED

    def wrong(self, found: str, wanted: str = "the whole file", hint: str = "fetch it again") -> FormatError:
        """The error about this member."""
        return FormatError(found, wanted, hint, self.where)

    def damaged(self) -> FormatError:
        """The error about its data."""
        return self.wrong(f"is damaged: its CRC-32 is not the {self.info.CRC:08x} that the archive says")

    def header(self, archive: ZipFile, asked: DataType | None) -> npy.Header:
        """The header of the .npy file; FormatError unless the member ends with the last element."""
        with _refusing(self.damaged()), archive.open(self.info) as file:
            head = file.read(npy.HEAD_BYTES)
        header = npy.Header(head, self.info.file_size, self.where).named(asked)
        header.check_size(self.info.file_size)
        return header

    def pieces(self, path: str, unchanged: file_io.Identity) -> Iterator[bytes]:
        """The unpacked bytes of the member; FormatError if it is damaged."""
        opened = _opened(path, unchanged=unchanged)
        with opened as (_, archive), _refusing(self.damaged()), archive.open(self.info) as file:
            while piece := file.read(thresholds.PIECE):
                signals.check()
                yield piece


def open_member(path: str, key: str | None, name: str = "", asked: DataType | None = None) -> Source:
    """The tensor `key`, or the only one; `name` is for messages, the path without it; `asked` is for nameless bytes."""
    name = name or path
    with _opened(path, name) as (fd, archive):
        identity = file_io.identity(fd)
        infos = _tensors(archive, path)
        if key is not None and key not in infos:
            key = key.removesuffix(_SUFFIX)
        key = chosen(infos, key, name)
        member = _Member.checked(fd, archive, key, infos[key], name)
        refuse_bomb(member.info.file_size, member.info.compress_size, "unzip it", member.where)
        header = member.header(archive, asked)
    storage = Storage("npz", {"member": member.info.filename, "method": _METHODS[member.info.compress_type]})
    storage.details.update(header.storage.details)
    if member.is_stored:
        return StoredSource(header.tensor(path, member.offset), identity, storage, member)
    source = UnpackedSource(header.tensor(path), identity, storage, functools.partial(member.pieces, path, identity))
    source.key = key
    return source


def _tensors(archive: ZipFile, path: str) -> dict[str, ZipInfo]:
    """The members that are tensors, by key, which is the name without .npy; as numpy.load, by their first bytes."""
    infos = archive.infolist()
    _refuse_others(infos, path)
    return {_key(archive, info): info for info in infos if _is_tensor(archive, info)}


def _key(archive: ZipFile, info: ZipInfo) -> str:
    key = info.filename.removesuffix(_SUFFIX)
    return info.filename if key in archive.NameToInfo else key


def _is_tensor(archive: ZipFile, info: ZipInfo) -> bool:
    """Whether a member is a .npy file, by its name or else by its first bytes."""
    if info.filename.endswith(_SUFFIX) or info.is_dir():
        return not info.is_dir()
    try:
        with archive.open(info) as file:
            return file.read(len(NPY_MAGIC)) == NPY_MAGIC
    except (*_DAMAGE, RuntimeError):  # it is encrypted, or of another method
        return False


def contents(address: Address, types: TextTypes) -> Contents | None:
    """What the archive holds; None where the address has the name of a member."""
    path = address.path
    if address.key is not None:
        return None
    with _opened(path) as (fd, archive):
        tensors = _tensors(archive, path)
        members = [_item(fd, archive, key, info, path, types.asked) for key, info in tensors.items()]
        rest = {info.filename for info in archive.infolist()} - {info.filename for info in tensors.values()}
        others = [Item(name, what="no .npy file") for name in archive.namelist() if name in rest]
    return Contents(path, "npz", (*members, *others), only_of(members))


def _item(fd: int, archive: ZipFile, key: str, info: ZipInfo, path: str, asked: DataType | None) -> Item:
    """A member by its header; what is wrong with it is told in its place."""
    try:
        header = _Member.checked(fd, archive, key, info, path).header(archive, asked)
    except FormatError as e:
        return Item(key).refused(e)
    desc = TensorDesc(data_type_of(header.dtype), header.sizes)
    details = {"method": _METHODS[info.compress_type], **header.storage.details}
    return Item(key, desc, sizes=header.sizes, details=details)


def _refuse_others(infos: Sequence[ZipInfo], path: str) -> None:
    """FormatError for archives of other systems: of torch.save, of Keras, or a Zarr store, with what unpacks it."""
    names = [info.filename for info in infos]
    if any(name.endswith("/data.pkl") for name in names):
        hint = f"save a tensor of it in Python: numpy.save('new.npy', torch.load({path!r}).numpy())"
        raise FormatError("is a file of PyTorch, whose objects are pickled", "a tensor file", hint, path)
    if of_store := [*filter(is_of_store, names)]:
        folder = f"{path.removesuffix('.zip').removesuffix('.zarr')}.zarr"
        hint = _unpacked(path, folder, os.path.dirname(min(of_store, key=len)))  # noqa: PTH120
        raise FormatError("is a zipped Zarr store", "its folder", hint, path)
    of_several = [name for name in names if (row := by_suffix(name, reading=True)) and row.keeps_others]
    if of_several and not any(name.endswith(_SUFFIX) for name in names):  # as of Keras
        stem, suffix = os.path.splitext(path)  # noqa: PTH122
        hint = _unpacked(path, stem if suffix else f"{path}-files", of_several[0])
        raise FormatError(f"is a ZIP file with {of_several[0]}", "that file", hint, path)


def _unpacked(path: str, folder: str, member: str) -> str:
    """A hint at what unpacks the archive into a folder, and what to name then."""
    name = os.path.normpath(os.path.join(folder, member))  # noqa: PTH118
    return f"python3 -m zipfile -e {platform.quoted(path)} {platform.quoted(folder)}; then name {platform.quoted(name)}"


class StoredSource(RawSource):
    """A stored member, which is read in place."""

    def __init__(self, tensor: RawTensor, identity: file_io.Identity, storage: Storage, member: _Member) -> None:
        super().__init__(tensor, identity, storage)
        self.key, self._member = member.key, member

    def recheck(self) -> None:
        """FormatError if the CRC-32 is wrong, for which all is read once more: regions are read in any order."""
        with file_io.opened(self.path, self.identity) as fd:
            crc = _crc(fd, self._member.offset, self._member.info.file_size, self.path)
        if crc != self._member.info.CRC:
            raise self._member.damaged()


def _crc(fd: int, offset: int, size: int, name: str) -> int:
    crc = 0
    for piece in file_io.pieces(fd, offset, size, name):
        crc = zlib.crc32(piece, crc)
    return crc


class _Others(NamedTuple):
    """What a copy of an archive keeps of it: all but the member `replaced`, if there is one.

    `members` are those that stay. The data of those before the offset `begin` stay where they are, and those from
    `stop` on, up to the directory at `end`, stand behind the new member.
    """

    members: list[ZipInfo]
    replaced: ZipInfo | None
    begin: int
    stop: int
    end: int
    comment: bytes

    @classmethod
    def of(cls, template: Source, name: str) -> _Others:
        """Those of the archive of `template`, around its member of that name; FormatError if members overlap."""
        with _opened(template.path, unchanged=template.identity) as (fd, archive):
            place, end = 0, archive.start_dir
            for info in sorted(archive.infolist(), key=lambda info: info.header_offset):
                if info.header_offset < place or info.header_offset + _LOCAL_BYTES > end:
                    found, wanted = "has members that overlap", "each byte in one member"
                    raise FormatError(found, wanted, "fetch it again", template.path)
                place = _data_offset(fd, info, template.path) + info.compress_size
            if place > end:
                raise not_whole("has members after its directory", template.path)
            replaced = archive.NameToInfo.get(name)
            begin = replaced.header_offset if replaced else end
            stop = min((i.header_offset for i in archive.infolist() if i.header_offset > begin), default=end)
            return cls(archive.infolist(), replaced, begin, stop, end, archive.comment)


class NpzSink(RawSink):
    """A new archive with one stored member, or a copy of the input's with that member replaced or added.

    Members are stored and not deflated: floats hardly get smaller, and workers write a stored member in place.
    """

    def __init__(self, file: AtomicFile, template: Source, key: str, layout: Layout) -> None:
        super().__init__(file)
        name = _member_name(key, file.name)
        if not layout.only and key == template.key:
            name = template.storage.details["member"]
        self._old = None if layout.only else template
        self._others = _Others([], None, 0, 0, 0, b"") if layout.only else _Others.of(template, name)
        replaced = self._others.replaced
        if replaced and key != template.key:
            refuse_taken(key, [key], template.path)
        if replaced:  # its date, comment and rights stay
            self._info = copy.copy(replaced)
            self._info.flag_bits, self._info.compress_type, self._info.extra = 0, ZIP_STORED, b""
        else:
            self._info = zipfile.ZipInfo(name)  # of 1 January 1980, so that the same values make the same file
            self._info.create_system = 0  # on every system
        head = npy.header_bytes(template.dtype, template.sizes, template.order)
        self._info.file_size = self._info.compress_size = len(head) + template.desc.total_bytes
        self._info.header_offset, self._info.CRC = self._others.begin, 0
        self._local = self._info.FileHeader(zip64=True)
        self.place(template, self._local + head, at=self._others.begin)
        self._key, self._data_type = name.removesuffix(_SUFFIX), template.desc.data_type
        self._kept = self._others.begin + self._others.end - self._others.stop

    def start(self) -> None:
        """Begin the member, and copy the others."""
        super().start()
        if self._old and self._old.identity:
            _, _, begin, stop, end, _ = self._others
            copied = [(0, begin, 0), (stop, end - stop, self.tensor.end)]
            self.file.fill_from(self._old.path, self._old.identity, copied)

    def finish(self) -> None:
        """Write the member's header, with the CRC-32 of what is read back, and the directory."""
        super().finish()
        path, name, others, info = self.file.temporary, self.file.name, self._others, self._info
        with file_io.opened(path, name=name) as fd:
            info.CRC = _crc(fd, info.header_offset + len(self._local), info.file_size, name)
        with file_io.opened_to_write(path, name) as fd, file_io.trying_to("write", name):
            file_io.write_all(fd, info.FileHeader(zip64=True), info.header_offset, name)
            with open(fd, "r+b", closefd=False) as file:
                file.seek(self.tensor.end + others.end - others.stop)
                with zipfile.ZipFile(file, "w") as archive:
                    archive.comment = others.comment
                    archive.infolist().extend(self._moved())

    def _moved(self) -> Iterator[ZipInfo]:
        """All members of the new archive, with the new one in place of the replaced one, or at the end."""
        for info in self._others.members:
            if info is self._others.replaced:
                yield self._info
                continue
            if info.header_offset >= self._others.stop:
                info.header_offset += self.tensor.end - self._others.stop
            info.filename = info.orig_filename  # as it stands in the file, which may be a name that no folder may have
            yield info
        if not self._others.replaced:
            yield self._info

    def reopen(self) -> Source:
        """The complete file, as an input."""
        return open_member(self.file.temporary, self._key, self.file.name, self._data_type)


def _member_name(key: str, where: str) -> str:
    """The file name of a new member; TensorNameError for one that no tool could unpack under that name."""
    name = f"{key.removesuffix(_SUFFIX)}{_SUFFIX}"
    is_whole = not HALVES.search(name) and len(name.encode()) <= 1 << 15
    if not is_whole or {"", ".", ".."} & {*key.split("/")} or {*"\0\\:"} & {*key}:
        raise TensorNameError.of(key, "member", "a name such as x, without .. or a leading /", where)
    return name
