"""The reversal of a tensor whose long lines lie across the rows of its file, through tiles in a temporary file.

Along the first axis of a large tensor, a line has one element in each row. A block of whole lines is then a short run
of every row, and reading that takes as long as reading a long one. Instead, the tensor is read and written twice, in
long runs:

1. Blocks of rows are read; their columns are sorted by length, and written as stripes of columns.
2. For each block of the output, the rows that move into it are read from each stripe. Where the lengths of a stripe
   are n to m, output rows [a, b) come from input rows [n - b, m - a). Since columns are sorted, m - n is small.

A tile is a block's part of a stripe. With blocks of B elements and lines of N, a tile and a row of a block both have
about B / sqrt(4 N) elements, and what is read of the stripes more than once is about a quarter. 87,500 x 4,096 FLOAT32
within 64 MiB, on a disk, take 9 s so, and 106 s in short runs.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.core import thresholds
from revseq_cli.core.dtypes import word
from revseq_cli.core.errors import TensorIOError
from revseq_cli.formats import file_io
from revseq_cli.formats.atomic_file import FileTransaction, Scratch
from revseq_cli.operator import kernel
from revseq_cli.pipeline.blocks import lengths_of, sizes_of
from revseq_cli.pipeline.tasks import Task, completed
from revseq_cli.pipeline.views import Computed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import ReadTask, Region
    from revseq_cli.pipeline.assembly import Job
    from revseq_cli.pipeline.plan import Plan, Tiling


@dataclass(frozen=True)
class ColumnFile:
    """Columns of `rows` elements in a file, as stripes one after another; the elements of a stripe lie row by row.

    So a part of a stripe with all its columns, a tile, is one run of bytes. `name` is for messages.
    """

    path: str
    name: str
    dtype: np.dtype[Any]
    rows: int

    def write(self, fd: int, first: int, row: int, tile: NDArray[Any]) -> None:
        """Write a tile of the stripe that begins with column `first`, from row `row` on."""
        data = np.ascontiguousarray(tile).reshape(-1).view(np.uint8).data
        file_io.write_all(fd, data, self._place(first, tile.shape[1], row), self.name)

    def read(self, fd: int, first: int, columns: int, rows: slice) -> NDArray[Any]:
        """The tile of these rows in the stripe of so many columns that begins with column `first`."""
        tile = np.empty((rows.stop - rows.start, columns), self.dtype)
        place = self._place(first, columns, rows.start)
        file_io.read_into(fd, tile.reshape(-1).view(np.uint8).data, place, self.name)
        return tile

    def _place(self, first: int, columns: int, row: int) -> int:
        return (first * self.rows + row * columns) * self.dtype.itemsize


@contextlib.contextmanager
def _column_file(beside: str, dtype: np.dtype[Any], rows: int, columns: int, otherwise: str) -> Iterator[ColumnFile]:
    """A new file of so many columns next to the file `beside`, which is removed in the end.

    TensorIOError if its disk has no room for it, with the hint `otherwise`.
    """
    import shutil  # it takes 2 ms with what it imports, and small jobs have no such file

    file, size = Scratch(beside), rows * columns * dtype.itemsize
    free = shutil.disk_usage(Path(file.temporary).parent).free
    if free < size:
        found = f"takes a temporary file of {size} bytes beside it, and {free} are free there"
        raise TensorIOError(found, f"{size} bytes", otherwise, file.name)
    with FileTransaction(file):
        with file_io.opened_to_write(file.temporary, file.name) as fd:
            file_io.allocate(fd, size, file.name)
        yield ColumnFile(file.temporary, file.name, dtype, rows)


@dataclass(frozen=True)
class Tiles:
    """The columns of a tensor in a temporary file, sorted by their lengths inside each panel of the tiling.

    `lengths` are those by which they are sorted, and any region of them is cheap to read.
    """

    file: ColumnFile
    tiling: Tiling
    axis: int
    order: str

    def first(self, region: Region) -> int:
        """The number of columns before the panel of a block, in the order in which panels follow each other."""
        count = 0
        for d, part in enumerate(region):
            if d != self.axis:
                before = prod(size for i, size in enumerate(sizes_of(region[:d])) if i != self.axis)
                behind = prod(size for i, size in enumerate(self.tiling.panels.sizes) if i > d and i != self.axis)
                count += before * part.start * behind
        return count

    def rows(self, values: NDArray[Any]) -> NDArray[Any]:
        """A block, or its lengths, as a matrix of one row for each index along the axis, in memory order."""
        axis = self.axis
        if self.order == "F":
            values, axis = values.T, values.ndim - 1 - axis
        return np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)

    def block(self, rows: NDArray[Any], region: Region) -> NDArray[Any]:
        """What `rows` made a matrix of."""
        sizes, axis = [*sizes_of(region)], self.axis
        if self.order == "F":
            sizes, axis = sizes[::-1], len(sizes) - 1 - axis
        across = sizes[:axis] + sizes[axis + 1 :]
        values = np.moveaxis(rows.reshape(-1, *across), 0, axis)
        return values.T if self.order == "F" else values

    def lengths(self, lengths: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The clamped length of each column of a panel, and the columns in the order in which they are stored."""
        clamped = self.rows(kernel.clamp(lengths, self.file.rows))[0]
        keys = clamped >> max(0, self.file.rows.bit_length() - 16)  # NumPy sorts integers of 16 bits fastest
        return clamped, np.argsort(keys.astype(np.uint16), kind="stable")

    def stripes(self, columns: int) -> Iterator[slice]:
        """The columns of each stripe of a panel."""
        width = self.tiling.width
        return (slice(left, min(left + width, columns)) for left in range(0, columns, width))

    def sort(self, region: Region, values: ReadTask, lengths: NDArray[Any]) -> None:
        """Sort the columns of a block, which is not held as it is read, and write a tile for each stripe."""
        _, order = self.lengths(lengths)
        rows = self.rows(values.read()).view(self.file.dtype).take(order, axis=1)
        first, top = self.first(region), region[self.axis].start
        with file_io.opened_to_write(self.file.path, self.file.name) as fd:
            for part in self.stripes(len(order)):
                self.file.write(fd, first + part.start, top, rows[:, part])

    def reverse(self, dtype: np.dtype[Any], region: Region, lengths: NDArray[Any]) -> NDArray[Any]:
        """A block of that data type, read from the temporary file, and reversed."""
        part = region[self.axis]
        clamped, order = self.lengths(lengths)
        clamped = clamped[order]
        first = self.first(region)
        rows = np.empty((part.stop - part.start, len(order)), self.file.dtype)
        with file_io.opened(self.file.path, name=self.file.name) as fd:
            for columns in self.stripes(len(order)):
                rows[:, columns] = self._stripe(fd, first + columns.start, clamped[columns], part)
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return self.block(rows.take(back, axis=1).view(dtype), region)

    def _stripe(self, fd: int, first: int, lengths: NDArray[np.intp], part: slice) -> NDArray[Any]:
        """The part of a stripe, reversed: the rows that stay, and of all others those that move into it."""
        columns, shortest, longest = len(lengths), int(lengths.min()), int(lengths.max())
        if shortest < part.stop:
            rows = self.file.read(fd, first, columns, part)
        else:
            rows = np.empty((part.stop - part.start, columns), self.file.dtype)
        if longest > part.start:
            window = slice(max(0, shortest - part.stop), longest - part.start)
            _turn(self.file.read(fd, first, columns, window), window.start, lengths, part.start, rows)
        return rows


@contextlib.contextmanager
def tiled(job: Job, beside: str, plan: Plan, tiling: Tiling) -> Iterator[Callable[[Region], Computed]]:
    """The read tasks that reverse the job's blocks from a temporary file, which is written now, next to `beside`."""
    values, lengths, axis = job.values, job.lengths, job.axis
    columns = prod(size for d, size in enumerate(values.sizes) if d != axis)
    otherwise = f"add --memory {plan.direct}, or write to another disk"
    with _column_file(beside, word(values.dtype), values.sizes[axis], columns, otherwise) as file:
        tiles = Tiles(file, tiling, axis, values.order)

        def of_lengths(region: Region) -> tuple[ReadTask]:
            return (lengths.read_task(lengths_of(region, axis)),)

        def sorting(region: Region) -> Task:
            return Task(partial(tiles.sort, region, values.read_task(region)), of_lengths(region), region)

        for _ in completed("sort", map(sorting, tiling.blocks), plan, values):
            pass
        yield lambda region: Computed(partial(tiles.reverse, values.dtype, region), of_lengths(region))


def _turn(window: NDArray[Any], first: int, lengths: NDArray[np.intp], start: int, out: NDArray[Any]) -> None:
    """Write the reversed elements of rows [start, start + len(out)) into `out`, which keeps all others as they are.

    `window` holds the rows of the input from `first` on, with every element that moves into these rows. `lengths`, of
    which there is one for each column, are clamped.
    """
    columns = out.shape[1]
    last = (lengths - 1 - first) * columns + np.arange(columns)  # where row 0 of the output comes from
    words = window.reshape(-1)
    shortest, step = int(lengths.min()), max(1, thresholds.TILE // columns)
    for top in range(start, start + len(out), step):
        rows = np.arange(top, min(top + step, start + len(out)))[:, None]
        part = out[top - start : top - start + len(rows)]
        gathered = words.take(last - rows * columns, mode="clip")
        np.copyto(part, gathered, where=True if rows[-1, 0] < shortest else rows < lengths)
