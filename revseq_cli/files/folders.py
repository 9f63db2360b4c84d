"""Folders of many files that are read and written together, such as those of Zarr stores."""

from __future__ import annotations

import stat
from abc import ABC, abstractmethod
from pathlib import Path

from revseq_cli.core.errors import FormatError
from revseq_cli.files.local import open_local


class Folder(ABC):
    """A folder of files; TensorIOError if one cannot be read, FormatError if it is not a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    @abstractmethod
    async def read(self, name: str, part: slice) -> bytes | None:
        """The bytes of a part of a file, as `data[part]` would have them; None without the file."""

    @abstractmethod
    async def write(self, name: str, data: bytes) -> None:
        """Write a file, and the folders above it."""


class LocalFolder(Folder):
    """A folder of this machine. No link is followed."""

    async def read(self, name: str, part: slice) -> bytes | None:
        path = Path(self.path, name)
        if not _is_file(path, name):
            return None
        with open_local(str(path)) as file:
            start, stop, _ = part.indices(file.identity.size)
            return file.read(max(0, stop - start), start)

    async def write(self, name: str, data: bytes) -> None:
        path = Path(self.path, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.write(data)


def _is_file(path: Path, name: str) -> bool:
    """Whether there is a file.

    FormatError for anything else there, or for a file instead of a folder above it.
    """
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise FormatError(f"{name} is not a regular file")
    except (FileNotFoundError, NotADirectoryError):
        if any(above.is_file() for above in path.parents):
            raise FormatError(f"{name}: a file instead of one of its folders") from None
        return False
    return True
