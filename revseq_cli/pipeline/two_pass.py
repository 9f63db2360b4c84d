"""The way of a tensor whose long lines lie across the rows of its file: through tiles in a temporary file.

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
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revseq_cli import files
from revseq_cli.core import thresholds
from revseq_cli.core.dtypes import word_of
from revseq_cli.core.errors import DiskFullError
from revseq_cli.core.tensors import Region, sizes_of
from revseq_cli.files import local
from revseq_cli.files.base import InputFile
from revseq_cli.files.new import FileTransaction, Scratch
from revseq_cli.formats.contract import ReadTask, Source
from revseq_cli.operator import kernel
from revseq_cli.pipeline.blocks import Tiling


@dataclass(frozen=True)
class Tiles:
    """A temporary file with the columns of a tensor, sorted by their lengths inside each panel of the tiling.

    Stripes follow each other, and the elements of a stripe lie row by row: a tile is one run of bytes. Columns have
    `rows` elements; `dtype` is that of words, and `name` is for messages. A worker gets it with each block.
    """

    path: str
    name: str
    dtype: np.dtype[Any]
    rows: int
    tiling: Tiling
    axis: int
    order: str

    def sort(self, region: Region, values: ReadTask, lengths: NDArray[Any]) -> None:
        """Sort the columns of a block, which is not held as it is read, and write a tile for each stripe."""
        _, order = self._sorted(lengths)
        rows = self._matrix(values.read()).view(self.dtype).take(order, axis=1)
        first, top = self._first_column(region), region[self.axis].start
        with local.open_to_write(self.path, self.name) as fd:
            for part in self._stripes(len(order)):
                tile = np.ascontiguousarray(rows[:, part])
                place = self._place(first + part.start, tile.shape[1], top)
                fd.write(tile.reshape(-1).view(np.uint8).data, place)

    def reverse(self, dtype: np.dtype[Any], region: Region, lengths: NDArray[Any]) -> NDArray[Any]:
        """A block of that data type, read from the temporary file, and reversed."""
        part, first = region[self.axis], self._first_column(region)
        clamped, order = self._sorted(lengths)
        clamped = clamped[order]
        rows = np.empty((part.stop - part.start, len(order)), self.dtype)
        with files.open_file(self.path, name=self.name) as fd:
            for columns in self._stripes(len(order)):
                rows[:, columns] = self._stripe(fd, first + columns.start, clamped[columns], part)
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        sizes, axis, is_fortran = [*sizes_of(region)], self.axis, self.order == "F"
        if is_fortran:
            sizes, axis = sizes[::-1], len(sizes) - 1 - axis
        across = sizes[:axis] + sizes[axis + 1 :]
        values = np.moveaxis(rows.take(back, axis=1).view(dtype).reshape(-1, *across), 0, axis)
        return values.T if is_fortran else values

    def _matrix(self, values: NDArray[Any]) -> NDArray[Any]:
        """A block, or its lengths, as a matrix of one row for each index along the axis, in memory order."""
        axis = self.axis
        if self.order == "F":
            values, axis = values.T, values.ndim - 1 - axis
        return np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)

    def _sorted(self, lengths: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The clamped length of each column of a panel, and the columns in the order in which they are stored."""
        clamped = self._matrix(kernel.clamp(lengths, self.rows))[0]
        keys = clamped >> max(
            0, self.rows.bit_length() - 16
        )  # NumPy sorts integers of 16 bits fastest
        return clamped, np.argsort(keys.astype(np.uint16), kind="stable")

    def _stripes(self, columns: int) -> Iterator[slice]:
        width = self.tiling.width
        return (slice(left, min(left + width, columns)) for left in range(0, columns, width))

    def _first_column(self, region: Region) -> int:
        """The number of columns before the panel of a block, in the order in which panels follow each other."""
        count = 0
        for d, part in enumerate(region):
            if d != self.axis:
                before = prod(size for i, size in enumerate(sizes_of(region[:d])) if i != self.axis)
                behind = prod(
                    size
                    for i, size in enumerate(self.tiling.blocks.sizes)
                    if i > d and i != self.axis
                )
                count += before * part.start * behind
        return count

    def _place(self, first: int, columns: int, row: int) -> int:
        return (first * self.rows + row * columns) * self.dtype.itemsize

    def _tile(self, file: InputFile, first: int, columns: int, rows: slice) -> NDArray[Any]:
        tile = np.empty((rows.stop - rows.start, columns), self.dtype)
        file.read_into(
            tile.reshape(-1).view(np.uint8).data, self._place(first, columns, rows.start)
        )
        return tile

    def _stripe(
        self, file: InputFile, first: int, lengths: NDArray[np.intp], part: slice
    ) -> NDArray[Any]:
        """The part of a stripe, reversed: the rows that stay, and of all others those that move into it."""
        columns, shortest, longest = len(lengths), int(lengths.min()), int(lengths.max())
        if shortest < part.stop:
            out = self._tile(file, first, columns, part)
        else:
            out = np.empty((part.stop - part.start, columns), self.dtype)
        if longest <= part.start:
            return out
        window = slice(max(0, shortest - part.stop), longest - part.start)
        words = self._tile(file, first, columns, window).reshape(-1)
        last = (lengths - 1 - window.start) * columns + np.arange(
            columns
        )  # where row 0 of the output comes from
        step = max(1, thresholds.TILE // columns)
        for top in range(part.start, part.stop, step):
            rows = np.arange(top, min(top + step, part.stop))[:, None]
            gathered = words.take(last - rows * columns, mode="clip")
            is_reversed = True if rows[-1, 0] < shortest else rows < lengths
            np.copyto(
                out[top - part.start : top - part.start + len(rows)], gathered, where=is_reversed
            )
        return out


@contextlib.contextmanager
def tiles_beside(
    beside: str, source: Source, axis: int, tiling: Tiling, enough: int
) -> Iterator[Tiles]:
    """The new temporary file next to the file `beside`, which is removed in the end.

    DiskFullError if its disk has no room for it: with `enough` bytes of memory, it is not needed.
    """
    file = Scratch(beside)
    with FileTransaction(file):
        try:
            with local.open_to_write(file.temporary, file.name) as fd:
                fd.allocate(source.desc.total_bytes)
        except DiskFullError as e:
            e.hint = f"add --memory {enough}, or write to another disk"
            raise
        rows = source.sizes[axis]
        yield Tiles(
            file.temporary,
            file.name,
            word_of(source.dtype.itemsize),
            rows,
            tiling,
            axis,
            source.order,
        )
