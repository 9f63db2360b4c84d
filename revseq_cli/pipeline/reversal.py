"""The pass that reverses the input, in blocks or through tiles in a temporary file, and the one that verifies it.

Along the first axis of a large tensor, a line has one element in each row. A block of whole lines is then a short run
of every row, and reading that takes as long as reading a long one. Instead, the tensor is read and written twice, in
long runs:

1. Blocks of rows are read; their columns are sorted by length, and written as stripes of columns.
2. For each block of the output, the rows that move into it are read from each stripe. Where the lengths of a stripe
   are n to m, output rows [a, b) come from input rows [n - b, m - a). Since columns are sorted, m - n is small.

A tile is a block's part of a stripe. With blocks of B elements and lines of N, a tile and a row of a block both have
about B / sqrt(4 N) elements, and what is read of the stripes more than once is about a quarter.

What else was weighed, in bytes read and written of a tensor of 1:

- Short runs: 1 and 1, but in 4 KiB pages, of which a run uses a part; a page cache that is too small fetches each page
  once for each block. Even from a cache that holds all, 512 MiB took 26 s of processor time in runs of 680 bytes, and
  5 s in runs of 4 KiB, against 2.4 to 3.7 s in tiles.
- Whole columns in the temporary file, reversed there, and a third pass to make rows of them: 3 and 3.
- Rows in reverse order, and no temporary file: 1 and 1 where all lengths are equal, but 1 more for each other length.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
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
from revseq_cli.formats.in_memory import MemorySink, MemorySource
from revseq_cli.formats.registry import create_scratch
from revseq_cli.operator import kernel
from revseq_cli.pipeline.arrangement import Arrangement, Resources, arrange
from revseq_cli.pipeline.plan import lengths_of, sizes_of
from revseq_cli.pipeline.tasks import Task, completed, deliver_all, move, reading_back, spooled, untrue
from revseq_cli.pipeline.views import Computed, Derived

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import ReadTask, Region, Sink, Source
    from revseq_cli.pipeline.assembly import Job
    from revseq_cli.pipeline.plan import Plan, Tiling

    ReadTaskOf = Callable[[Region], Computed]


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
        keys = clamped >> max(0, self.file.rows.bit_length() - thresholds.SORT_KEYS.bit_length() + 1)
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
            kernel.turn(self.file.read(fd, first, columns, window), window.start, lengths, part.start, rows)
        return rows


@contextlib.contextmanager
def tiled(job: Job, beside: str, arrangement: Arrangement, tiling: Tiling) -> Iterator[Callable[[Region], Computed]]:
    """The read tasks that reverse the job's blocks from a temporary file, which is written now, next to `beside`."""
    values, lengths, axis = job.values, job.lengths, job.axis
    columns = prod(size for d, size in enumerate(values.sizes) if d != axis)
    otherwise = f"add --memory {arrangement.direct}, or write to another disk"
    with _column_file(beside, word(values.dtype), values.sizes[axis], columns, otherwise) as file:
        tiles = Tiles(file, tiling, axis, values.order)

        def of_lengths(region: Region) -> tuple[ReadTask]:
            return (lengths.read_task(lengths_of(region, axis)),)

        def sorting(region: Region) -> Task:
            return Task(partial(tiles.sort, region, values.read_task(region)), of_lengths(region), region)

        for _ in completed("sort", map(sorting, tiling.blocks), arrangement, values):
            pass
        yield lambda region: Computed(partial(tiles.reverse, values.dtype, region), of_lengths(region))


def reversed_output(job: Job, read_task_of: ReadTaskOf | None = None) -> Source:
    """The output of a job, which is computed where it is read, by read tasks that read the job's files unless given."""
    return Derived(job.values, job.values.dtype, read_task_of or read_tasks_of(job))


def read_tasks_of(job: Job) -> ReadTaskOf:
    """The read tasks that read what a region needs of the job's own files, and reverse it."""

    def read_task(region: Region) -> Computed:
        lengths, part = job.lengths.read_task(lengths_of(region, job.axis)), region[job.axis]
        if part.stop - part.start < job.values.sizes[job.axis]:
            return Computed(partial(_reverse_cut, job.values, job.axis, region), (lengths,))
        step = partial(kernel.reverse, axis=job.axis, overwrite=job.values.reads_anew)
        return Computed(step, (job.values.read_task(region), lengths))

    return read_task


def _reverse_cut(source: Source, axis: int, region: Region, lengths: NDArray[Any]) -> NDArray[Any]:
    """A reversed block of parts of lines: a copy of the input, then for each length one read of what is reversed."""
    part = region[axis]
    clamped = kernel.clamp(lengths, source.sizes[axis])
    out = source.read_task(region).read().copy()  # a source in memory returns a view of itself
    for length in np.unique(clamped[clamped > part.start]).tolist():
        lines = clamped == length
        box = [slice(int(i.min()), int(i.max()) + 1) for i in lines.nonzero()]
        box[axis] = slice(0, 1)
        of_file = [slice(r.start + b.start, r.start + b.stop) for r, b in zip(region, box, strict=True)]
        # Below `length`, element j of the reversal is element length - 1 - j of the line.
        of_file[axis] = slice(max(0, length - part.stop), length - part.start)
        reversed_part = np.flip(source.read_task(tuple(of_file)).read(), axis)
        chosen = lines[tuple(box)]
        box[axis] = slice(0, reversed_part.shape[axis])
        np.copyto(out[tuple(box)], reversed_part, where=chosen)
    return out


def reverse(job: Job, sink: Sink, arrangement: Arrangement) -> int:
    """Reverse into the sink, which the caller has entered; the number of lengths that are above the axis size."""
    count = partial(kernel.count_clamped, size=job.values.sizes[job.axis])

    def task(into: Sink, region: Region) -> Task:
        read_task = read_task_of(region)
        return Task(read_task.step, read_task.read_tasks, region, into.block_writer(region), count)

    def delivered(into: Sink) -> int:
        counted = deliver_all("reverse", map(partial(task, into), arrangement.plan), into, arrangement, ready.values)
        return counted // _readings(job, arrangement.plan) if counted else 0

    if arrangement.lacks_room:
        runs = arrangement.plan.run(job.values.order) * job.values.dtype.itemsize
        sink.notes += (f"there was no room for a temporary file beside it: it was written in runs of {runs} bytes",)
    with (
        random_access(job, sink.beside, arrangement, holds_lengths=not sink.beside) as ready,
        _prepared(ready, sink.beside, arrangement) as read_task_of,
    ):
        if not (arrangement.spooled and sink.chunks):
            return delivered(sink)
        with create_scratch(sink.beside, ready.values) as turned:
            clamped = delivered(turned)
            move(turned.written(), sink, arrangement)
        return clamped


def _readings(job: Job, plan: Plan) -> int:
    """How often each given length is read: for each line that it is repeated for, and each part of a line."""
    parts = -(-job.values.sizes[job.axis] // plan.extents[job.axis])
    return parts * job.lengths.desc.element_count // job.given_lengths.desc.element_count


def reversed_in_memory(job: Job, resources: Resources) -> tuple[Source, int]:
    """The result in memory, for printing, and the number of lengths that are above the axis size."""
    with MemorySink(job.values) as sink:
        clamped = reverse(job, sink, arrange(job, resources))
    job.recheck()
    return sink.written(), clamped


def verify(job: Job, sink: Sink, arrangement: Arrangement) -> None:
    """Reverse the output again and compare it with the input; EngineError with the first index where they differ."""
    from revseq_cli.pipeline.comparison import Pair, compared  # few commands verify

    written = sink.written()
    with (
        reading_back(written),
        random_access(job, sink.beside, arrangement) as ready,
        spooled(written, sink.beside, arrangement) as turned,
        _prepared(replace(ready, values=turned), sink.beside, arrangement) as read_task_of,
    ):
        again = reversed_output(replace(ready, values=turned), read_task_of)
        found = compared("verify", Pair(again, ready.values, arrangement))
    if found.count:
        raise untrue(f"does not reverse to the input at {found.indices[0].tolist()}", written.name)


@contextlib.contextmanager
def random_access(job: Job, beside: str, arrangement: Arrangement, *, holds_lengths: bool = False) -> Iterator[Job]:
    """The job with tensors of which any region is cheap to read: in memory or temporary files if need be.

    With `holds_lengths`, the lengths are never in a file, as where the whole output is in memory.
    """
    with (
        job.values.random_access(beside) as whole,
        spooled(whole, beside, arrangement) as values,
        job.lengths.random_access(beside) as lengths,
        contextlib.ExitStack() as stack,
    ):
        if not lengths.reads_cheaply:  # else every block would decode their chunks again
            if lengths.desc.total_bytes <= arrangement.need // 8 or holds_lengths:
                lengths = MemorySource(lengths.name, lengths.read(), lengths.storage)
            else:
                spool = stack.enter_context(create_scratch(beside, lengths))
                move(lengths, spool, arrangement)
                lengths = spool.written()
        yield replace(job, values=values, lengths=lengths)


def _prepared(job: Job, beside: str, arrangement: Arrangement) -> AbstractContextManager[ReadTaskOf]:
    """The read tasks of a job; with a tiling, it is now written in tiles next to the file `beside`."""
    if arrangement.tiling:
        return tiled(job, beside, arrangement, arrangement.tiling)
    return contextlib.nullcontext(read_tasks_of(job))
