"""The pass through a temporary file, where the memory holds whole lines only in runs that are too short to read.

Along the first axis of a large tensor, a line has one element in each row. A block of whole lines is then a short run
of every row, and reading that takes as long as reading a long one. Instead, the tensor is read and written twice, in
long runs:

1. Blocks of rows are read; their columns are sorted by length, and written as stripes of columns (`formats/stripes`).
2. For each block of the output, the rows that move into it are read from each stripe. Where the lengths of a stripe
   are n to m, output rows [a, b) come from input rows [n - b, m - a). Since columns are sorted, m - n is small.

A tile is a block's part of a stripe. With blocks of B elements and lines of N, a tile and a row of a block both have
about B / sqrt(4 N) elements, and what is read of the stripes more than once is about a quarter.

What else was weighed, in bytes read and written of a tensor of 1:

- Short runs: 1 and 1, but in 4 KiB pages, of which a run uses a part; a page cache that is too small fetches each page
  once for each block. Even from a cache that holds all, 512 MiB took 26 s of processor time in runs of 680 bytes, and
  5 s in runs of 4 KiB, against 2.4 to 3.7 s in tiles (tests/benchmarks/tiling.py).
- Whole columns in the temporary file, reversed there, and a third pass to make rows of them: 3 and 3.
- Rows in reverse order, and no temporary file: 1 and 1 where all lengths are equal, but 1 more for each other length.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.formats import stripes
from revseq_cli.ground.bits import word
from revseq_cli.ground.errors import Words
from revseq_cli.operator import kernel
from revseq_cli.passes.tasks import Task, completed, lengths_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Ticket
    from revseq_cli.formats.regions import Region
    from revseq_cli.formats.stripes import Stripes
    from revseq_cli.passes.arrangement import Arrangement
    from revseq_cli.passes.assembly import Job
    from revseq_cli.passes.plan import Tiling

_KEYS = 1 << 16  # different keys by which columns are sorted: NumPy sorts integers of 16 bits fastest


@dataclass(frozen=True)
class Tiles:
    """The columns of a tensor in a temporary file, sorted by their lengths inside each panel of the tiling.

    `lengths` are those by which they are sorted, and any region of them is cheap to read.
    """

    file: Stripes
    tiling: Tiling
    axis: int
    order: str

    def first(self, region: Region) -> int:
        """The number of columns before the panel of a block, in the order in which panels follow each other."""
        count = 0
        for d, part in enumerate(region):
            if d != self.axis:
                before = prod(p.stop - p.start for i, p in enumerate(region[:d]) if i != self.axis)
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
        sizes = [part.stop - part.start for part in region]
        axis = self.axis
        if self.order == "F":
            sizes, axis = sizes[::-1], len(sizes) - 1 - axis
        across = sizes[:axis] + sizes[axis + 1 :]
        values = np.moveaxis(rows.reshape(-1, *across), 0, axis)
        return values.T if self.order == "F" else values

    def lengths(self, ticket: Ticket) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The clamped length of each column of a panel, and the columns in the order in which they are stored."""
        clamped = self.rows(kernel.clamp(ticket.read(), self.file.rows))[0]
        keys = clamped >> max(0, self.file.rows.bit_length() - _KEYS.bit_length() + 1)
        return clamped, np.argsort(keys.astype(np.uint16), kind="stable")

    def stripes(self, columns: int) -> Iterator[slice]:
        """The columns of each stripe of a panel."""
        width = self.tiling.width
        return (slice(left, min(left + width, columns)) for left in range(0, columns, width))


@dataclass(frozen=True)
class Sort:
    """The step that writes a block into the temporary file."""

    tiles: Tiles
    region: Region

    def __call__(self, values: Ticket, lengths: Ticket) -> None:
        """Sort the columns, and write a tile for each stripe."""
        tiles, file = self.tiles, self.tiles.file
        _, order = tiles.lengths(lengths)
        rows = tiles.rows(values.read()).view(file.dtype).take(order, axis=1)
        first, top = tiles.first(self.region), self.region[tiles.axis].start
        with file.opened_to_write() as fd:
            for part in tiles.stripes(len(order)):
                file.write(fd, first + part.start, top, rows[:, part])


@dataclass(frozen=True)
class ReverseTiles:
    """The step that reads a block from the temporary file, reversed."""

    tiles: Tiles
    dtype: np.dtype[Any]
    region: Region

    def __call__(self, lengths: Ticket) -> NDArray[Any]:
        """The reversed block."""
        tiles, file, part = self.tiles, self.tiles.file, self.region[self.tiles.axis]
        clamped, order = tiles.lengths(lengths)
        clamped = clamped[order]
        first = tiles.first(self.region)
        rows = np.empty((part.stop - part.start, len(order)), file.dtype)
        with file.opened() as fd:
            for columns in tiles.stripes(len(order)):
                rows[:, columns] = self._stripe(fd, first + columns.start, clamped[columns], part)
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return tiles.block(rows.take(back, axis=1).view(self.dtype), self.region)

    def _stripe(self, fd: int, first: int, lengths: NDArray[np.intp], part: slice) -> NDArray[Any]:
        """The part of a stripe, reversed: the rows that stay, and of all others those that move into it."""
        file, columns = self.tiles.file, len(lengths)
        shortest, longest = int(lengths.min()), int(lengths.max())
        if shortest < part.stop:
            rows = file.read(fd, first, columns, part)
        else:
            rows = np.empty((part.stop - part.start, columns), file.dtype)
        if longest > part.start:
            window = slice(max(0, shortest - part.stop), longest - part.start)
            kernel.turn(file.read(fd, first, columns, window), window.start, lengths, part.start, rows)
        return rows


@contextlib.contextmanager
def tiled(
    job: Job, beside: str, arrangement: Arrangement, tiling: Tiling
) -> Iterator[Callable[[Region], ReverseTiles]]:
    """The steps that reverse the job's blocks from a temporary file, which is written now, next to `beside`."""
    values, lengths, axis = job.values, job.lengths, job.axis
    columns = prod(size for d, size in enumerate(values.sizes) if d != axis)
    otherwise = Words.of("add {}, or write to another disk", memory=arrangement.direct)
    with stripes.created(beside, word(values.dtype), values.sizes[axis], columns, otherwise) as file:
        tiles = Tiles(file, tiling, axis, values.order)
        tasks = (
            Task(Sort(tiles, region), (values.ticket(region), lengths.ticket(lengths_of(region, axis))), region, None)
            for region in tiling.blocks
        )
        for _ in completed("sort", tasks, arrangement, values):
            pass
        yield lambda region: ReverseTiles(tiles, values.dtype, region)
