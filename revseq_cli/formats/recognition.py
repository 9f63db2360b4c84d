"""What a file is, by its first bytes."""

from __future__ import annotations

import itertools
import shlex
from typing import NamedTuple

from revseq_cli.formats.storage import positioned
from revseq_cli.ground.errors import FormatError, Words

NPY_MAGIC = b"\x93NUMPY"
HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
ZIP_MAGIC = b"PK\x03\x04"


class _Look(NamedTuple):
    """What a file begins with, what that is, and the format that reads it, or else what to do with it."""

    magic: bytes
    name: str
    advice: str = ""
    format: str = ""

    def hint(self, path: str) -> str | Words:
        """What to do with the file at that path."""
        return Words.of("add {}", format=self.format) if self.format else self.advice.format(shlex.quote(path))


_NPY = _Look(NPY_MAGIC, "a .npy file", format="npy")
_LOOKS = (
    _NPY,
    _Look(HDF5_MAGIC, "an HDF5 file", format="h5"),
    _Look(ZIP_MAGIC, "a zip archive, perhaps .npz", format="npz"),
    *(
        _Look(b"CDF" + version, "a NetCDF-3 file, which is not HDF5", "make it NetCDF-4: nccopy -k nc4 {} out.nc")
        for version in (b"\x01", b"\x02", b"\x05")
    ),
    _Look(b"\x0e\x03\x13\x01", "an HDF4 file, which is not HDF5", "make it HDF5: h4toh5 {} out.h5"),
    _Look(b"MATLAB 5.0 MAT-file", "a MATLAB file of before 7.3", "save it again with save -v7.3, which is HDF5"),
    _Look(b"version https://git-lfs", "a git-LFS pointer, not the file itself", "git lfs pull"),
    _Look(b"\x1f\x8b", "a gzip file", "gunzip it first"),
    _Look(b"\x80", "a Python pickle", "save it again with numpy.save"),
)
_TEXTS = (_Look(b"[", "text", format="text"), _Look(b"{", "JSON text", format="json"))
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def _look_of(head: bytes) -> _Look | None:
    text = head.removeprefix(_BYTE_ORDER_MARK).lstrip()
    found = (look for looks, data in ((_LOOKS, head), (_TEXTS, text)) for look in looks if data.startswith(look.magic))
    return next(found, None)


def looks_like(head: bytes, path: str) -> tuple[str, str | Words]:
    """What the file seems to be that begins so, and a hint; for messages only."""
    if not head:
        return "an empty file", ""
    look = _look_of(head)
    return (look.name, look.hint(path)) if look else ("something else", "")


def is_hdf5(fd: int, path: str) -> bool:
    """Whether HDF5 begins at the first byte of the open file, or behind a block of the user's own.

    That block has 512 bytes or twice as many, again and again, and may look like anything, also like a text.
    """
    size = positioned.identity(fd).size
    places = itertools.takewhile(lambda place: place < size, (512 << i for i in itertools.count()))
    return any(positioned.read_some(fd, len(HDF5_MAGIC), place, path) == HDF5_MAGIC for place in (0, *places))


def format_by_bytes(path: str) -> str | None:
    """The format by a file's first bytes, None where they say nothing; FormatError for one that we do not read."""
    with positioned.opened(path) as fd:
        size = positioned.identity(fd).size
        head = positioned.read_some(fd, 64, 0, path)
        if head[8:9] == b"{" and int.from_bytes(head[:8], "little") <= size - 8:
            return "safetensors"  # the length of a header, and the header
        look = _look_of(head)
        if look is _NPY:
            return look.format
        if is_hdf5(fd, path):
            return "h5"
        if look:
            if not look.format:
                name, hint = looks_like(head, path)
                raise FormatError(f"is no tensor file: it looks like {name}", "a tensor file", hint, path)
            return look.format
        return None
