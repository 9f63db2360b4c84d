"""The kind of a file by its first bytes, and of a folder by what is in it."""

from __future__ import annotations

import codecs
import itertools
import os
from typing import TYPE_CHECKING, NamedTuple

from revseq_cli.core import platform
from revseq_cli.core.errors import FormatError
from revseq_cli.formats import file_io
from revseq_cli.formats.table import PACKINGS, Packing, named

if TYPE_CHECKING:
    from pathlib import Path

_HEAD = 64  # bytes that tell what a file is
NPY_MAGIC = b"\x93NUMPY"
HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
ZIP_MAGIC = b"PK\x03\x04"
_STORE_FILES = ("zarr.json", ".zarray", ".zgroup")
_NETCDF3_MAGIC = (b"CDF\x01", b"CDF\x02", b"CDF\x05")


# PowerShell 5 and others write UTF-16, always with a mark.
_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


def encoding_by_mark(head: bytes) -> tuple[str, bytes]:
    """The encoding of a text with these first bytes, by Python's name, and the mark that tells it; else UTF-8."""
    return next(((name, mark) for mark, name in _MARKS.items() if head.startswith(mark)), ("utf-8", b""))


class _Kind(NamedTuple):
    """A kind of file: its name, and the format that reads it, or its packing, or else advice.

    `magic` has its first bytes, or several that it may have.
    """

    magic: bytes | tuple[bytes, ...]
    name: str
    advice: str = ""
    format: str = ""
    packing: Packing | None = None

    def hint(self, path: str) -> str:
        """The advice for a file of this kind, with its path in place of {}."""
        return f"add -f {self.format}" if self.format else self.advice.format(platform.quoted(path))


_NPY = _Kind(NPY_MAGIC, "a .npy file", format="npy")
_KINDS = (
    _NPY,
    _Kind(HDF5_MAGIC, "an HDF5 file", format="h5"),
    _Kind(ZIP_MAGIC, "a zip archive, perhaps .npz", format="npz"),
    _Kind(_NETCDF3_MAGIC, "a NetCDF-3 file, which is not HDF5", format="nc3"),
    _Kind(b"\x0e\x03\x13\x01", "an HDF4 file, which is not HDF5", "make it HDF5: h4toh5 {} out.h5"),
    _Kind(
        (b"\xcd\xf3\x00\x01", b"\xcd\xf2\x60\x02", b"\x00\x00\xff\xff\x00\x00\xff\xff"),
        "a CDF file of NASA, which is not NetCDF",
        "save a variable in Python: pip install cdflib, numpy.save('new.npy', cdflib.CDF('x.cdf').varget('x'))",
    ),
    _Kind(b"MATLAB 5.0 MAT-file", "a MATLAB file of before 7.3", "save it again with save -v7.3, which is HDF5"),
    _Kind(b"version https://git-lfs", "a git-LFS pointer, not the file itself", "git lfs pull"),
    *(_Kind(each.magic, f"a {each.name} file", packing=each) for each in PACKINGS),
    _Kind(b"\x80", "a Python pickle", "save it again with numpy.save"),
)
# PowerShell 5 takes what a program prints as text, in some encoding, and writes UTF-16.
_RUINED = _Kind(
    b"NUMPY", "a .npy file that PowerShell's > has damaged", "let revseq write the file: name it in place of -"
)
_TEXTS = (_Kind(b"[", "text", format="text"), _Kind(b"{", "JSON text", format="json"))


def _kind_of(head: bytes) -> _Kind | None:
    encoding, mark = encoding_by_mark(head)
    text = head[len(mark) :].decode(encoding, "replace")
    tables = ((_KINDS, head), (_TEXTS, text.lstrip().encode()), ((_RUINED,), text[1:].encode()))
    return next((kind for table, data in tables for kind in table if data.startswith(kind.magic)), None)


def looks_like(head: bytes, path: str) -> tuple[str, str]:
    """What a file with these first bytes seems to be, and a hint; for messages only."""
    if not head:
        return "an empty file", ""
    kind = _kind_of(head)
    return (kind.name, kind.hint(path)) if kind else ("something else", "")


def is_hdf5(fd: int, path: str) -> bool:
    """Whether HDF5 begins at the first byte of the open file, or behind a user block.

    The user block has 512 bytes, or that times a power of two, and may hold anything, even a text.
    """
    size = file_io.identity(fd).size
    places = itertools.takewhile(lambda place: place < size, (512 << i for i in itertools.count()))
    return any(file_io.read_some(fd, len(HDF5_MAGIC), place, path) == HDF5_MAGIC for place in (0, *places))


class Recognised(NamedTuple):
    """What a file is by its first bytes: the name of its format, or None if they do not say it, and its packing."""

    format: str | None
    packing: Packing | None = None


def packing_of(head: bytes) -> Packing | None:
    """The packing of a pipe with these first bytes."""
    return kind.packing if (kind := _kind_of(head)) else None


def is_store(folder: str | Path) -> bool:
    """Whether the folder has metadata of Zarr's, for an array or a group."""
    return any(_is_there(os.path.join(folder, name)) for name in _STORE_FILES)  # noqa: PTH118 - see _is_there


def is_of_store(name: str) -> bool:
    """Whether a file of that path has the metadata of an array or a group of Zarr's."""
    return name.rpartition("/")[2] in _STORE_FILES


def _is_there(path: str) -> bool:
    """Whether the path exists; PermissionError where that is not told.

    Path.exists would take twice as long, which was a tenth of a batch's small job.
    """
    try:
        os.stat(path)  # noqa: PTH116
    except PermissionError:
        raise
    except (OSError, ValueError):  # the latter for what is no path
        return False
    return True


def recognised(path: str) -> Recognised:
    """What a file is by its first bytes, or a folder; FormatError for a kind that no format reads."""
    if os.path.isdir(path):  # noqa: PTH112 - any text
        return Recognised("zarr" if is_store(path) else None)
    with file_io.opened(path) as fd:
        size = file_io.identity(fd).size
        head = file_io.read_some(fd, _HEAD, 0, path)
        if head[8:9] == b"{" and int.from_bytes(head[:8], "little") <= size - 8:
            return Recognised("safetensors")  # the length of a header, and its first byte
        kind = _kind_of(head)
        if kind is not _NPY and is_hdf5(fd, path):
            return Recognised("h5")
        if kind and kind.packing:
            return _inside(kind.packing, path)
    if kind and not kind.format:
        raise FormatError(f"is not a tensor file: it looks like {kind.name}", "a tensor file", kind.hint(path), path)
    return Recognised(kind.format if kind else None)


def _inside(packing: Packing, path: str) -> Recognised:
    """What a packed file is by its first unpacked bytes; FormatError for what is neither .npy nor text."""
    from revseq_cli.formats import packed  # most files are not

    kind = _kind_of(next(packed.pieces(path, packing), b""))
    row = named(kind.format) if kind else None
    if kind and not (row and (row.is_text or kind is _NPY)):
        found = f"is {kind.name}, packed by {packing.name}"
        raise FormatError(found, "a packed .npy or text file", packed.unpack_hint(packing, path), path)
    return Recognised(row.name if row else None, packing)
