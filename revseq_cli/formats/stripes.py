"""Temporary files of columns: rows are written into them as they come, and columns are read."""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.formats.storage import positioned
from revseq_cli.formats.storage.newfile import Scratch
from revseq_cli.formats.storage.together import Together
from revseq_cli.ground import system
from revseq_cli.ground.errors import TensorIOError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from revseq_cli.ground.errors import Words


@dataclass(frozen=True)
class Stripes:
    """Columns of `rows` elements in a file, as stripes one after another; the elements of a stripe lie row by row.

    So a part of a stripe with all its columns, a tile, is one run of bytes. `name` is for messages.
    """

    path: str
    name: str
    dtype: np.dtype[Any]
    rows: int

    def opened(self) -> AbstractContextManager[int]:
        """A descriptor to read tiles."""
        return positioned.opened(self.path, name=self.name)

    def opened_to_write(self) -> AbstractContextManager[int]:
        """A descriptor to write tiles."""
        return positioned.opened_to_write(self.path, self.name)

    def write(self, fd: int, first: int, row: int, tile: NDArray[Any]) -> None:
        """Write a tile of the stripe that begins with column `first`, from row `row` on."""
        data = np.ascontiguousarray(tile).reshape(-1).view(np.uint8).data
        positioned.write_all(fd, data, self._place(first, tile.shape[1], row), self.name)

    def read(self, fd: int, first: int, columns: int, rows: slice) -> NDArray[Any]:
        """The tile of these rows in the stripe of so many columns that begins with column `first`."""
        tile = np.empty((rows.stop - rows.start, columns), self.dtype)
        place = self._place(first, columns, rows.start)
        positioned.read_into(fd, tile.reshape(-1).view(np.uint8).data, place, self.name)
        return tile

    def _place(self, first: int, columns: int, row: int) -> int:
        return (first * self.rows + row * columns) * self.dtype.itemsize


def have_room(beside: str, size: int) -> bool:
    """Whether the disk of the file `beside`, which need not be there yet, has so many free bytes."""
    return shutil.disk_usage(Path(system.real_path(beside)).parent).free >= size


@contextlib.contextmanager
def created(beside: str, dtype: np.dtype[Any], rows: int, columns: int, otherwise: Words) -> Iterator[Stripes]:
    """A new file of so many columns next to the file `beside`, which is removed in the end.

    TensorIOError if its disk has no room for it, with the hint `otherwise`.
    """
    file, size = Scratch(beside), rows * columns * dtype.itemsize
    free = shutil.disk_usage(Path(file.temporary).parent).free
    if free < size:
        raise TensorIOError(
            f"takes a temporary file of {size} bytes beside it, and {free} are free there", f"{size} bytes",
            otherwise, file.name,
        )  # fmt: skip
    with Together(file):
        with positioned.opened_to_write(file.temporary, file.name) as fd:
            positioned.allocate(fd, size, file.name)
        yield Stripes(file.temporary, file.name, dtype, rows)
