"""NumPy's .npz format: the .npy members of a zip archive, `file.npz::name` or the only one.

A stored member is read in place; a deflated one is inflated whole, into memory or a temporary file. The output is one
stored member.
Source of the format: PKWARE's APPNOTE.TXT 6.3.10, whose sections are named below, and the docstring of numpy.savez.
"""

from __future__ import annotations

import os
import zlib
from typing import TYPE_CHECKING, NamedTuple
from zipfile import ZIP_DEFLATED, ZIP_STORED

from revseq_cli.core import signals, system, thresholds
from revseq_cli.core.dtypes import data_type_of
from revseq_cli.core.errors import HALVES, FormatError
from revseq_cli.core.tensors import TensorDesc
from revseq_cli.formats import archives, file_io, npy
from revseq_cli.formats.compressed import SpooledSource
from revseq_cli.formats.contents import Contents, Item, TensorNameError, chosen, only_of, refuse_taken
from revseq_cli.formats.contract import Storage, refuse_bomb
from revseq_cli.formats.raw import RawSource
from revseq_cli.formats.recognition import ZIP_MAGIC, is_of_store, looks_like
from revseq_cli.formats.table import by_suffix

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from zipfile import ZipFile, ZipInfo

    from revseq_cli.core.tensors import DataType
    from revseq_cli.formats.atomic_file import AtomicFile
    from revseq_cli.formats.contract import Address, FileSink, Layout, Source
    from revseq_cli.formats.documents import TextTypes

# APPNOTE 4.4.4: encrypted, patched data, strongly encrypted, masked headers.
_UNREADABLE_FLAGS = 1 << 0 | 1 << 5 | 1 << 6 | 1 << 13
_METHODS = {ZIP_STORED: "stored", ZIP_DEFLATED: "deflated"}
_SUFFIX = ".npy"


def open_source(address: Address, types: TextTypes) -> Source:
    """The member named by the key, or the only one."""
    return open_member(address.path, address.key, asked=types.asked)


def create_sink(file: AtomicFile, template: Source, key: str, layout: Layout) -> FileSink:
    """The sink of a new archive of one member, or of the input's archive with one member replaced."""
    return NpzSink(file, template, key, layout)


class _Member(NamedTuple):
    """A member that can be read; `others` is the number of other tensors in the archive, and `where` is for messages.

    `offset` is that of its data.
    """

    where: str
    key: str
    info: ZipInfo
    offset: int
    others: int

    @classmethod
    def checked(cls, fd: int, archive: ZipFile, info: ZipInfo, where: str, others: int = 0) -> _Member:
        """The member; FormatError unless its local header agrees with the directory, and its data end before that."""
        member = cls(where, info.filename.removesuffix(_SUFFIX), info, 0, others)
        if info.flag_bits & _UNREADABLE_FLAGS:
            raise member.wrong("is encrypted", "plain members", "unpack the archive")
        if info.compress_type not in _METHODS:
            found = f"has the compression method {info.compress_type}"
            raise member.wrong(found, "stored or deflated", "unpack the archive")
        with archives.refusing(member.wrong("has a damaged local header", "what the directory says")):
            archive.open(info).close()
        member = member._replace(offset=archives.data_offset(fd, info, where))
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

    def pieces(self, archive: ZipFile, size: int) -> Iterator[bytes]:
        """The bytes of the member, so many at once; FormatError if it is damaged, or declares more than there are."""
        declared, done = self.info.file_size, 0
        with archives.refusing(self.damaged()), archive.open(self.info) as file:
            while piece := file.read(size):
                signals.check()
                done += len(piece)
                if len(piece) == size or done == declared:
                    yield piece
        if done != declared:
            raise self.wrong(f"inflates to {done} bytes, and declares {declared}")

    def header(self, fd: int, archive: ZipFile, asked: DataType | None) -> npy.Header:
        """The header of the .npy file; FormatError unless the member ends with the last element."""
        count = min(npy.HEAD_BYTES, self.info.file_size)
        if self.is_stored:
            head = file_io.read_some(fd, count, self.offset, self.where)
        else:
            head = next(self.pieces(archive, npy.HEAD_BYTES), b"")
        header = npy.Header(head, self.info.file_size, self.where).named(asked)
        header.check_size(self.info.file_size)
        return header

    def storage(self, header: npy.Header) -> Storage:
        """The properties that `show` prints."""
        details = {"member": self.info.filename, "method": _METHODS[self.info.compress_type]}
        return Storage("npz", {**details, **header.storage.details})


def open_member(path: str, key: str | None, name: str = "", asked: DataType | None = None) -> Source:
    """The tensor `key`, or the only one; `name` is for messages, the path without it; `asked` is for nameless bytes."""
    name = name or path
    with file_io.opened(path) as fd:
        identity = file_io.identity(fd)
        head = file_io.read_some(fd, 64, 0, path)
        if not head.startswith((ZIP_MAGIC, archives.END_MAGIC)):
            seems, hint = looks_like(head, path)
            raise FormatError(f"is not a .npz file: it looks like {seems}", "a .npz file by its suffix", hint, path)
        with archives.opened(fd, name) as archive:
            infos = _tensors(archive, path)
            if key is not None and key not in infos:
                key = key.removesuffix(_SUFFIX)
            key = chosen(infos, key, name)
            member = _Member.checked(fd, archive, infos[key], f"{name}::{key}", len(infos) - 1)
            refuse_bomb(member.info.file_size, member.info.compress_size, "unzip it", member.where)
            header = member.header(fd, archive, asked)
            if member.is_stored:
                return StoredSource(header, path, identity, member)
            source = DeflatedSource(header, path, identity, member)
            return source.at_once(member.pieces(archive, thresholds.UNPACKED_AT_ONCE))


def _tensors(archive: ZipFile, path: str) -> dict[str, ZipInfo]:
    """The members that are tensors, by key, which is the name without .npy."""
    infos = archive.infolist()
    _refuse_others(infos, path)
    return {info.filename.removesuffix(_SUFFIX): info for info in infos if info.filename.endswith(_SUFFIX)}


def names_in(path: str) -> list[str]:
    """The name of every tensor, without .npy."""
    with file_io.opened(path) as fd, archives.opened(fd, path) as archive:
        return list(_tensors(archive, path))


def contents(address: Address, types: TextTypes) -> Contents | None:
    """What the archive holds; None where the address has the name of a member."""
    path = address.path
    if address.key is not None:
        return None
    with file_io.opened(path) as fd, archives.opened(fd, path) as archive:
        infos = archive.infolist()
        _refuse_others(infos, path)
        items = tuple(_item(fd, archive, info, path, types.asked) for info in infos)
    members = [item for item, info in zip(items, infos, strict=True) if info.filename.endswith(_SUFFIX)]
    return Contents(path, "npz", items, only_of(members))


def _item(fd: int, archive: ZipFile, info: ZipInfo, path: str, asked: DataType | None) -> Item:
    """A member by its header; what is wrong with it is told in its place."""
    if not info.filename.endswith(_SUFFIX):
        return Item(info.filename, what="no .npy file")
    key = info.filename.removesuffix(_SUFFIX)
    try:
        header = _Member.checked(fd, archive, info, f"{path}::{key}").header(fd, archive, asked)
    except FormatError as e:
        return Item(key).refused(e)
    desc = TensorDesc(data_type_of(header.dtype), header.sizes)
    details = {"method": _METHODS[info.compress_type], **header.storage.details}
    return Item(key, desc, sizes=header.sizes, details=details)


def _refuse_others(infos: Sequence[ZipInfo], path: str) -> None:
    """FormatError for archives of other systems: of torch.save, of Keras, or a Zarr store, with what unpacks it."""
    if any(info.filename.endswith("/data.pkl") for info in infos):
        hint = f"save a tensor of it in Python: numpy.save('new.npy', torch.load({path!r}).numpy())"
        raise FormatError("is a file of PyTorch, whose objects are pickled", "a tensor file", hint, path)
    names = [info.filename for info in infos]
    if of_store := [*filter(is_of_store, names)]:
        folder = path.removesuffix(".zip")
        folder += "" if folder.endswith(".zarr") else ".zarr"
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
    return f"python3 -m zipfile -e {system.quoted(path)} {system.quoted(folder)}; then name {system.quoted(name)}"


class StoredSource(RawSource):
    """A stored member, which is read in place."""

    def __init__(self, header: npy.Header, path: str, identity: file_io.Identity, member: _Member) -> None:
        super().__init__(header.tensor(path, member.offset), identity, member.storage(header))
        self.key, self.siblings, self._member = member.key, member.others, member

    def recheck(self) -> None:
        """FormatError if the CRC-32 is wrong, for which all is read once more: regions are read in any order."""
        crc = 0
        with file_io.opened(self.path, self.identity) as fd:
            for piece in file_io.pieces(fd, self._member.offset, self._member.info.file_size, self.path):
                crc = zlib.crc32(piece, crc)
        if crc != self._member.info.CRC:
            raise self._member.damaged()


class DeflatedSource(SpooledSource):
    """A deflated member that is too large for memory."""

    def __init__(self, header: npy.Header, path: str, identity: file_io.Identity, member: _Member) -> None:
        super().__init__(header, path, identity, member.storage(header))
        self.key, self.siblings, self._member = member.key, member.others, member

    def pieces(self, fd: int) -> Iterator[bytes]:
        """Inflate the member; FormatError if it is damaged."""
        with archives.opened(fd, self.path) as archive:
            yield from self._member.pieces(archive, thresholds.UNPACKED_AT_ONCE)


class NpzSink(archives.MemberSink):
    """A new archive with one stored member, or a copy of the input's with that member replaced or added."""

    def __init__(self, file: AtomicFile, template: Source, key: str, layout: Layout) -> None:
        self._old = None if layout.only else template
        name = _member_name(key, file.name)
        kept = archives.Kept.around(template, name) if self._old else None
        if kept and kept.replaced and key.removesuffix(_SUFFIX) != template.key:
            refuse_taken(key, [key], template.path)
        archive = archives.NewArchive(file, kept)
        member = archive.place(name, template)
        super().__init__(archive, member)
        self._key, self._data_type = member.name.removesuffix(_SUFFIX), template.desc.data_type
        self._kept = kept.stored if kept else 0

    def start(self) -> None:
        """Begin the member, and copy the others."""
        super().start()
        if self._old and self._old.identity:
            self.file.fill_from(self._old.path, self._old.identity, self.archive.copied())

    def finish(self) -> None:
        """Complete the archive."""
        super().finish()
        self.archive.finish()

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
