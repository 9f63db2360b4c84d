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
from revseq_cli.core.tensors import Region, Sizes, sizes_of
from revseq_cli.files import local
from revseq_cli.files.input_file import InputFile
from revseq_cli.files.local import OutputFile
from revseq_cli.files.new import Scratch
from revseq_cli.files.transactions import FileTransaction
from revseq_cli.formats.contract import ReadTask, Source
from revseq_cli.operator import kernel
from revseq_cli.operator.kernel import Lengths
from revseq_cli.pipeline.blocks import Tiling, drop_axis

_KEY_BITS = 16  # NumPy sorts integers of 16 bits fastest


@dataclass(frozen=True)
class Tiles:
    """A temporary file with the columns of a tensor, sorted by length inside each panel.

    It has one stripe after another. `dtype` is an unsigned integer of the size of an element, and
    `name` is for messages. A worker gets this record with each block.
    """

    path: str
    name: str
    dtype: DType
    tiling: Tiling

    def sort(self, region: Region, values: ReadTask, lengths: Array) -> None:
        """Sort the columns of a block by length, and write a tile for each stripe.

        The block is read here, so that it is not held next to the sorted one.
        """
        clamped = self._clamp(lengths)
        sorted_columns = self._sort_columns(clamped)
        matrix = self._as_matrix(values.read()).view(self.dtype)
        matrix = matrix.take(sorted_columns, axis=1)
        top = region[self.tiling.axis].start
        with local.open_to_write(self.path, self.name) as file:
            for stripe in self._list_stripes(region):
                stripe.write_tile(file, matrix[:, stripe.columns], top)

    def reverse_region(self, dtype: DType, region: Region, lengths: Array) -> Array:
        """A block of that data type, read from the temporary file, and reversed."""
        rows = region[self.tiling.axis]
        height = rows.stop - rows.start
        clamped = self._clamp(lengths)
        sorted_columns = self._sort_columns(clamped)
        clamped = clamped[sorted_columns]
        matrix = np.empty((height, len(clamped)), self.dtype)
        with files.open_file(self.path, name=self.name) as file:
            for stripe in self._list_stripes(region):
                columns = stripe.columns
                matrix[:, columns] = stripe.reverse_rows(file, rows, clamped[columns])
        positions = np.empty_like(sorted_columns)  # of each column among the sorted ones
        positions[sorted_columns] = np.arange(len(sorted_columns))
        matrix = matrix.take(positions, axis=1)
        return self._as_block(matrix.view(dtype), sizes_of(region))

    def _as_matrix(self, values: Array) -> Array:
        """A block, or its lengths, with a row for each index along the axis, in memory order."""
        axis = self.tiling.axis
        if self.tiling.order == "F":
            values = values.T
            axis = values.ndim - 1 - axis
        return np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)

    def _as_block(self, matrix: Array, sizes: Sizes) -> Array:
        """The block of these sizes that `_as_matrix` makes the matrix of."""
        axis = self.tiling.axis
        is_fortran = self.tiling.order == "F"
        if is_fortran:
            sizes = sizes[::-1]
            axis = len(sizes) - 1 - axis
        block = np.moveaxis(matrix.reshape(-1, *drop_axis(sizes, axis)), 0, axis)
        if is_fortran:
            return block.T
        return block

    def _clamp(self, lengths: Array) -> Lengths:
        """The length of each column of a block, at most that of a whole column."""
        clamped: Lengths = self._as_matrix(kernel.clamp(lengths, self.tiling.rows))[0]
        return clamped

    def _sort_columns(self, clamped: Lengths) -> NDArray[np.intp]:
        """The columns in the order in which they are stored: roughly by length."""
        low_bits = max(0, self.tiling.rows.bit_length() - _KEY_BITS)
        keys = (clamped >> low_bits).astype(np.uint16)
        return np.argsort(keys, kind="stable")

    def _list_stripes(self, region: Region) -> Iterator[_Stripe]:
        """The stripes of the panel of a block, from the left."""
        tiling = self.tiling
        before = self._count_columns_before(region)
        columns = prod(drop_axis(sizes_of(region), tiling.axis))
        column_bytes = tiling.rows * self.dtype.itemsize
        for left in range(0, columns, tiling.width):
            width = min(tiling.width, columns - left)
            part = slice(left, left + width)
            offset = (before + left) * column_bytes
            yield _Stripe(part, width, offset, self.dtype)

    def _count_columns_before(self, region: Region) -> int:
        """The number of columns in all panels before that of a block; panels are in C order.

        These panels fill a box for each dimension d: those with the same start in the dimensions
        before d, and a lower start in d. Of 4 x 6 columns in panels of 2 x 3, those before the
        panel at [2, 3] fill 2 x 6 above it, and 2 x 3 to its left.
        """
        axis = self.tiling.axis
        sizes = drop_axis(self.tiling.blocks.sizes, axis)
        panel = drop_axis(sizes_of(region), axis)
        starts = drop_axis(tuple(part.start for part in region), axis)
        boxes = [(*panel[:d], starts[d], *sizes[d + 1 :]) for d in range(len(sizes))]
        return sum(map(prod, boxes))


@dataclass(frozen=True)
class _Stripe:
    """Some of the sorted columns of a panel, `width` of them, which lie in the file row by row.

    `offset` is where its first row begins, in bytes.
    """

    columns: slice
    width: int
    offset: int
    dtype: DType

    def write_tile(self, file: OutputFile, rows: Array, top: int) -> None:
        """Write a tile, whose first row is row `top` of the stripe."""
        tile = np.ascontiguousarray(rows).reshape(-1)
        file.write(tile.view(np.uint8).data, self._find_row(top))

    def _read_rows(self, file: InputFile, rows: slice) -> Array:
        out = np.empty((rows.stop - rows.start, self.width), self.dtype)
        file.read_into(out.reshape(-1).view(np.uint8).data, self._find_row(rows.start))
        return out

    def _find_row(self, row: int) -> int:
        """Where a row begins in the file, in bytes."""
        return self.offset + row * self.width * self.dtype.itemsize

    def reverse_rows(self, file: InputFile, rows: slice, lengths: Lengths) -> Array:
        """Some rows of the reversed stripe, in which each column is reversed by its length.

        An element of row r comes from row length - 1 - r if r < length, else it stays. With lengths
        5 and 6, row 2 comes from rows 2 and 3, and row 3 from rows 1 and 2: the window of both
        begins at row 1, and ends before row 4.
        """
        shortest = int(lengths.min())
        longest = int(lengths.max())
        if longest <= rows.start:
            return self._read_rows(file, rows)  # all stay
        if shortest < rows.stop:
            out = self._read_rows(file, rows)  # some stay
        else:
            height = rows.stop - rows.start
            out = np.empty((height, self.width), self.dtype)
        first = max(0, shortest - rows.stop)
        window = slice(first, longest - rows.start)
        moving = self._read_rows(file, window).reshape(-1)
        # An element of row r comes from row length - 1 - r - first of `moving`. In the example,
        # `first` is 1, and row 2 comes from rows 1 and 2 of `moving`. For an element that stays,
        # this is below 0: the index is clipped, and what it gives is not used.
        sources_of_row_0 = (lengths - 1 - first) * self.width + np.arange(self.width)
        at_once = max(1, thresholds.TILE // self.width)
        for top in range(rows.start, rows.stop, at_once):
            bottom = min(top + at_once, rows.stop)
            r = np.arange(top, bottom)[:, None]
            moved = moving.take(sources_of_row_0 - r * self.width, mode="clip")
            target = out[top - rows.start : bottom - rows.start]
            if bottom <= shortest:
                target[...] = moved
            else:
                np.copyto(target, moved, where=r < lengths)
        return out


@contextlib.contextmanager
def open_tiles(next_to: str, source: Source, tiling: Tiling, memory: int) -> Iterator[Tiles]:
    """The new temporary file next to the file `next_to`, which is removed at the end.

    DiskFullError if its disk has no room for it. With `memory` bytes, it would not be needed.
    """
    scratch = Scratch(next_to)
    with FileTransaction(scratch):
        try:
            with local.open_to_write(scratch.temporary, scratch.name) as file:
                file.allocate(source.desc.total_bytes)
        except DiskFullError as e:
            e.set_hint(f"add --memory {memory}, or write to another disk")
            raise
        yield Tiles(scratch.temporary, scratch.name, word_of(source.dtype.itemsize), tiling)
