"""The directory of a zip archive: its members, read with zipfile in bounded memory, and nothing outside of it."""

from __future__ import annotations

import collections
import io
import struct
import zipfile

from revseq_cli.formats import zip_headers
from revseq_cli.formats.storage import positioned
from revseq_cli.ground.errors import FormatError, RevseqError, listed

# Bytes of a directory, enough for some 200,000 members; the file itself declares the size.
_LARGEST_DIRECTORY = 1 << 24
# What zipfile raises for a damaged directory.
_DAMAGE = (zipfile.BadZipFile, NotImplementedError, struct.error, ValueError, OverflowError, EOFError, OSError)


class _Bounded(io.FileIO):
    """A file that limits how many bytes zipfile reads at once."""

    def read(self, size: int | None = -1) -> bytes:
        """Read up to `size` bytes; FormatError if zipfile asks for more than a directory may have."""
        if size is not None and size > _LARGEST_DIRECTORY:
            raise FormatError(f"has a directory of {size} bytes", f"at most {_LARGEST_DIRECTORY}")
        return super().read(_LARGEST_DIRECTORY if size is None or size < 0 else size) or b""


def read(fd: int, path: str, name: str) -> tuple[list[zipfile.ZipInfo], bytes, int]:
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

    zipfile accepts both, and so ignores the first of two archives that were joined.
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
