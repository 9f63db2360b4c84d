"""Reversal through tiles in a temporary file, for long sequences that cross the rows of a file.

Along the first axis of a large tensor, a sequence has one element in each row. A block of whole
sequences is then a short run of every row, and reading that takes as long as reading a long one.
Instead, the tensor is read and written twice, in long runs:

1. Blocks of rows are read. Their columns, which are sequences, are sorted by length and written as
   stripes of columns.
2. For each block of the output, the rows that move into it are read from each stripe. Where the
   lengths of a stripe are n to m, output rows [a, b) come from input rows [n - b, m - a). Since
   columns are sorted, m - n is small.

A tile is a block's part of a stripe. A panel is all blocks with the same columns, one above the
other: its columns have the same order in all of them. With blocks of B elements and sequences of N,
a tile and a row of a block both have about B / sqrt(4 N) elements, and about a quarter of the
stripes is read more than once. 87,500 x 4,096 FLOAT32 within 64 MiB on a disk take 9 s in this way,
and 106 s in short runs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from revseq_cli import files
from revseq_cli.core import thresholds
from revseq_cli.core.dtypes import Array, DType, word_of
from revseq_cli.core.errors import DiskFullError
from revseq_cli.core.tensors import Region, sizes_of
from revseq_cli.files import local
from revseq_cli.files.base import InputFile
from revseq_cli.files.new import FileTransaction, Scratch
from revseq_cli.formats.contract import ReadTask, Source
from revseq_cli.operator import kernel
from revseq_cli.operator.kernel import Lengths
from revseq_cli.pipeline.blocks import Tiling

_KEY_BITS = 16  # NumPy sorts integers of 16 bits fastest


@dataclass(frozen=True)
class Tiles:
    """A temporary file with the columns of a tensor, sorted by length inside each panel.

    Stripes follow each other, and the elements of a stripe lie row by row: a tile is one run of
    bytes. Columns have `rows` elements; `dtype` is
    an unsigned integer of the size of an element, and `name` is for messages. A worker gets this
    record with each block.
    """

    path: str
    name: str
    dtype: DType
    rows: int
    tiling: Tiling
    axis: int
    order: str

    def sort(self, region: Region, values: ReadTask, lengths: Array) -> None:
        """Sort the columns of a block by length, and write a tile for each stripe.

        The block is read here, so that it is not held next to the sorted one.
        """
        _, order = self._sort_columns(lengths)
        rows = self._as_matrix(values.read()).view(self.dtype).take(order, axis=1)
        first = self._count_columns_before(region)
        top = region[self.axis].start
        with local.open_to_write(self.path, self.name) as file:
            for columns in self._stripes(len(order)):
                tile = np.ascontiguousarray(rows[:, columns])
                offset = self._offset(first + columns.start, tile.shape[1], top)
                file.write(_as_bytes(tile), offset)

    def reverse_region(self, dtype: DType, region: Region, lengths: Array) -> Array:
        """A block of that data type, read from the temporary file, and reversed."""
        part = region[self.axis]
        first = self._count_columns_before(region)
        clamped, order = self._sort_columns(lengths)
        clamped = clamped[order]
        rows = np.empty((part.stop - part.start, len(order)), self.dtype)
        with files.open_file(self.path, name=self.name) as file:
            for columns in self._stripes(len(order)):
                stripe_first = first + columns.start
                rows[:, columns] = self._reverse_stripe(file, stripe_first, clamped[columns], part)
        original = np.empty_like(order)
        original[order] = np.arange(len(order))
        matrix = rows.take(original, axis=1).view(dtype)
        return self._as_block(matrix, sizes_of(region))

    def _as_matrix(self, values: Array) -> Array:
        """A block, or its lengths, with a row for each index along the axis, in memory order."""
        axis = self.axis
        if self.order == "F":
            values = values.T
            axis = values.ndim - 1 - axis
        return np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)

    def _as_block(self, matrix: Array, sizes: tuple[int, ...]) -> Array:
        """The block of these sizes that `_as_matrix` makes the matrix of."""
        axis = self.axis
        is_fortran = self.order == "F"
        if is_fortran:
            sizes = sizes[::-1]
            axis = len(sizes) - 1 - axis
        across = sizes[:axis] + sizes[axis + 1 :]
        block = np.moveaxis(matrix.reshape(-1, *across), 0, axis)
        if is_fortran:
            return block.T
        return block

    def _sort_columns(self, lengths: Array) -> tuple[Lengths, NDArray[np.intp]]:
        """The clamped length of each column of a panel, and the columns in the stored order."""
        clamped = self._as_matrix(kernel.clamp(lengths, self.rows))[0]
        low_bits = max(0, self.rows.bit_length() - _KEY_BITS)
        keys = (clamped >> low_bits).astype(np.uint16)
        return clamped, np.argsort(keys, kind="stable")

    def _stripes(self, columns: int) -> Iterator[slice]:
        width = self.tiling.width
        for left in range(0, columns, width):
            yield slice(left, min(left + width, columns))

    def _count_columns_before(self, region: Region) -> int:
        """The number of columns before the panel of a block; panels are in C order."""
        others = [d for d in range(len(region)) if d != self.axis]
        sizes = self.tiling.blocks.sizes
        count = 0
        across = 1  # columns of the panel along the dimensions before d
        for i, d in enumerate(others):
            # All panels that begin at the same index in the dimensions before d, and lower in d.
            after = prod(sizes[other] for other in others[i + 1 :])
            count += across * region[d].start * after
            across *= region[d].stop - region[d].start
        return count

    def _offset(self, first: int, columns: int, row: int) -> int:
        """Where in the file a row of a stripe begins; `first` columns are before the stripe."""
        return (first * self.rows + row * columns) * self.dtype.itemsize

    def _read_tile(self, file: InputFile, first: int, columns: int, rows: slice) -> Array:
        tile = np.empty((rows.stop - rows.start, columns), self.dtype)
        file.read_into(_as_bytes(tile), self._offset(first, columns, rows.start))
        return tile

    def _reverse_stripe(self, file: InputFile, first: int, lengths: Lengths, part: slice) -> Array:
        """Rows of a stripe, reversed: the rows that stay are read, and those that move into them.

        `part` says which rows of the output they are, and `first` columns are before the stripe.
        """
        columns = len(lengths)
        shortest = int(lengths.min())
        longest = int(lengths.max())
        if shortest < part.stop:
            out = self._read_tile(file, first, columns, part)
        else:
            out = np.empty((part.stop - part.start, columns), self.dtype)
        if longest <= part.start:
            return out
        window = slice(max(0, shortest - part.stop), longest - part.start)
        words = self._read_tile(file, first, columns, window).reshape(-1)
        # Where in the window row 0 of the output comes from; row r comes from r rows above that.
        sources = (lengths - 1 - window.start) * columns + np.arange(columns)
        step = max(1, thresholds.TILE // columns)
        for top in range(part.start, part.stop, step):
            bottom = min(top + step, part.stop)
            rows = np.arange(top, bottom)[:, None]
            gathered = words.take(sources - rows * columns, mode="clip")
            target = out[top - part.start : bottom - part.start]
            if bottom <= shortest:
                target[...] = gathered
            else:
                np.copyto(target, gathered, where=rows < lengths)
        return out


def _as_bytes(tile: Array) -> memoryview:
    return tile.reshape(-1).view(np.uint8).data


@contextlib.contextmanager
def open_tiles(
    next_to: str, source: Source, axis: int, tiling: Tiling, enough: int
) -> Iterator[Tiles]:
    """The new temporary file next to the file `next_to`, which is removed at the end.

    DiskFullError if its disk has no room for it; with `enough` bytes of memory, it is not needed.
    """
    scratch = Scratch(next_to)
    with FileTransaction(scratch):
        try:
            with local.open_to_write(scratch.temporary, scratch.name) as file:
                file.allocate(source.desc.total_bytes)
        except DiskFullError as e:
            e.set_hint(f"add --memory {enough}, or write to another disk")
            raise
        yield Tiles(
            path=scratch.temporary,
            name=scratch.name,
            dtype=word_of(source.dtype.itemsize),
            rows=source.sizes[axis],
            tiling=tiling,
            axis=axis,
            order=source.order,
        )
