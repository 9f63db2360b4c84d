"""Tensors whose elements are in a file as they are in memory: sources and sinks for most formats.

A format reads the header of its file, and says in a `RawTensor` where the elements are. Raw
buffers, a format of its own, have only elements, little-endian and in C order: the user names the
shape and the data type.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from revseq_cli import files
from revseq_cli.core import thresholds
from revseq_cli.core.dtypes import dtype_of, require_sizes
from revseq_cli.core.errors import FormatError, UsageError
from revseq_cli.core.tensors import Region, in_braces
from revseq_cli.files import local
from revseq_cli.files.input_file import Identity, InputFile, identity_of
from revseq_cli.files.local import Edge
from revseq_cli.files.system_errors import wrap_os_errors
from revseq_cli.formats.contract import (
    BlockWriter,
    FileSink,
    Location,
    Original,
    ReadTask,
    Source,
    Storage,
    TextTypes,
)
from revseq_cli.formats.memory import ReturnedBlock, ReturningWriter
from revseq_cli.formats.refusals import refuse_key

if TYPE_CHECKING:
    from revseq_cli.files.copies import CopiedPart
    from revseq_cli.files.new import NewFile


def list_cut_alignments(
    dtype: np.dtype[Any], sizes: tuple[int, ...], order: str = "C"
) -> list[tuple[int, ...]]:
    """Where to cut a tensor that is uncompressed in a file, as in `Source.cut_alignments`.

    A region of the first alignment is at least a run of bytes that is worth a system call, and one
    of the second at least a CPU cache line.
    """
    run_bytes = (thresholds.CHEAP_RUN, thresholds.CACHE_LINE)
    return [find_run_region(count // dtype.itemsize, sizes, order) for count in run_bytes]


def find_run_region(least: int, sizes: tuple[int, ...], order: str = "C") -> tuple[int, ...]:
    """The sizes of the smallest region that is one run of at least `least` elements.

    For a tensor of sizes (1000, 128, 128) in C order and 4096 elements, they are (1, 32, 128).
    """
    if order != "F":  # it is F order with the dimensions reversed
        return find_run_region(least, sizes[::-1], "F")[::-1]
    region = []
    left = least
    for size in sizes:  # in F order: the elements of the first dimension are next to each other
        region.append(max(1, min(size, left)))
        left = -(-left // max(1, size))
    return tuple(region)


def view_bytes(values: NDArray[Any]) -> memoryview:
    """The bytes of an array that is contiguous in C order, without a copy."""
    return values.reshape(-1).view(np.uint8).data


@dataclass(frozen=True)
class RawTensor:
    """Where the elements of a tensor are: at `offset` in a file, in the memory order "C" or "F".

    `strides` are the bytes from one index of each dimension to the next; None if there are no bytes
    between the elements.
    """

    path: str
    where: str  # what messages call it
    offset: int
    dtype: np.dtype[Any]
    sizes: tuple[int, ...]
    order: str = "C"
    strides: tuple[int, ...] | None = None

    @classmethod
    def like(cls, template: Source, file: NewFile, offset: int) -> RawTensor:
        """Elements of a new file with the data type, sizes and memory order of `template`."""
        sizes = template.sizes
        return cls(file.temporary, file.name, offset, template.dtype, sizes, template.order)

    @property
    def end(self) -> int:
        """The offset of the first byte after the elements."""
        itemsize = self.dtype.itemsize
        if self.strides is None or 0 in self.sizes:
            return self.offset + prod(self.sizes) * itemsize
        last = self.offset
        for size, stride in zip(self.sizes, self.strides, strict=True):
            last += (size - 1) * stride
        return last + itemsize

    def read_region(self, fd: InputFile, region: Region) -> NDArray[Any]:
        """The values of the region, in the file's memory order."""
        shape = [part.stop - part.start for part in region]
        values: NDArray[Any]
        values = np.empty(shape, self.dtype, self.order)  # type: ignore[call-overload]
        fd.read_runs(self._list_runs(region, values))
        return values

    def write_region(
        self, fd: local.OutputFile, region: Region, values: NDArray[Any]
    ) -> list[Edge]:
        """Write the values of the region; return the edges, which the caller writes."""
        stored = np.asarray(values, self.dtype, self.order)  # type: ignore[call-overload]
        return fd.write_runs(self._list_runs(region, stored))

    def _list_runs(self, region: Region, values: NDArray[Any]) -> Iterator[tuple[int, memoryview]]:
        """Each run of a region: its offset in the file, and its bytes in `values`.

        The elements of a region are one run after another in `values`, with a run for each index of
        the outer dimensions. In a tensor of sizes (2, 4, 3), the region [0:2, 1:3, 0:3] has one
        outer dimension, and two runs of six elements:

            file    . . . a b c d e f . . .  . . . g h i j k l . . .
            values  a b c d e f  g h i j k l

        Offsets are computed for some thousand runs at once, since runs may be short.
        """
        sizes = self.sizes
        if self.order == "F":  # it is C order with the dimensions reversed
            sizes = sizes[::-1]
            region = region[::-1]
            values = values.T
        itemsize = self.dtype.itemsize
        strides = self.strides
        if strides is None:
            strides = tuple(itemsize * prod(sizes[d + 1 :]) for d in range(len(sizes)))
        outer = _count_outer_dimensions(region, sizes, strides, itemsize)
        first_offset = self.offset
        for part, stride in zip(region, strides, strict=True):
            first_offset += part.start * stride
        counts = [part.stop - part.start for part in region]
        run_bytes = itemsize * prod(counts[outer:])
        data = view_bytes(values)
        run_count = len(data) // max(1, run_bytes)
        for first in range(0, run_count, thresholds.RUNS_AT_ONCE):
            runs = np.arange(first, min(first + thresholds.RUNS_AT_ONCE, run_count))
            offsets = np.full(len(runs), first_offset)
            rest = runs
            for d in reversed(range(outer)):
                rest, index = np.divmod(rest, counts[d])
                offsets += index * strides[d]
            for run, offset in enumerate(offsets.tolist(), first):
                yield offset, data[run * run_bytes : (run + 1) * run_bytes]


def _count_outer_dimensions(
    region: Region, sizes: tuple[int, ...], strides: tuple[int, ...], itemsize: int
) -> int:
    """How many dimensions are outside a run: along all others, elements follow each other."""
    outer = len(sizes)
    run_bytes = itemsize
    while outer > 0 and strides[outer - 1] == run_bytes:
        outer -= 1
        if region[outer] != slice(0, sizes[outer]):
            break
        run_bytes *= sizes[outer]
    return outer


@dataclass(frozen=True)
class RawReadTask:
    """Reads one region; TensorIOError if the file is not as it was when its header was read."""

    tensor: RawTensor
    unchanged: Identity
    region: Region

    def read(self) -> NDArray[Any]:
        with files.open_file(self.tensor.path, self.unchanged, self.tensor.where) as file:
            return self.tensor.read_region(file, self.region)


class RawSource(Source):
    """A tensor whose elements are uncompressed in a file."""

    def __init__(
        self, tensor: RawTensor, unchanged: Identity, storage: Storage, key: str = ""
    ) -> None:
        self.tensor = tensor
        self.key = key
        # `unchanged` is the state of the file that is read, and `identity` that of the user's file.
        # They are two files if the user's is compressed.
        self.unchanged = unchanged
        self.identity = unchanged
        self.storage = storage
        self.name = tensor.where
        self.path = tensor.path
        self.dtype = tensor.dtype
        self.sizes = tensor.sizes
        self.order = tensor.order

    @property
    def cut_alignments(self) -> list[tuple[int, ...]]:
        alignments = list_cut_alignments(self.dtype, self.sizes, self.order)
        run = files.run_worth_request(self.path) // self.dtype.itemsize
        if run:
            alignments.insert(0, find_run_region(run, self.sizes, self.order))
        return alignments

    def read_task(self, region: Region) -> ReadTask:
        return RawReadTask(self.tensor, self.unchanged, region)


class CompressedSource(RawSource):
    """A compressed tensor, which is decompressed into a temporary file when it is first read.

    `decompress` yields the bytes, piece by piece, and `tensor` says where the elements are in them.
    The last byte is that of the last element.
    """

    def __init__(
        self,
        tensor: RawTensor,
        identity: Identity,
        storage: Storage,
        decompress: Callable[[], Iterator[bytes]],
        key: str = "",
    ) -> None:
        super().__init__(tensor, identity, storage, key)
        self._decompress = decompress
        # Its file exists as long as this object.
        self._decompressed: local.UnnamedFile | None = None

    def read_task(self, region: Region) -> ReadTask:
        if self._decompressed is None:
            self._decompressed = self._decompress_all()
        return super().read_task(region)

    def _decompress_all(self) -> local.UnnamedFile:
        """The temporary file with all bytes; FormatError unless they end with the last element."""
        name = f"{self.name}, decompressed into the temporary folder"
        file = local.UnnamedFile(name)
        size = 0
        for piece in self._decompress():
            file.write(piece, size)
            size += len(piece)
        if size != self.tensor.end:
            found = f"decompresses to {size} bytes, and it promises {self.tensor.end}"
            raise FormatError(found, hint="copy or download the file again", where=self.name)
        with wrap_os_errors(name, "read"):
            self.unchanged = identity_of(os.fstat(file.fd))
        self.tensor = replace(self.tensor, path=file.path)
        return file


@dataclass(frozen=True)
class _RawBlockWriter:
    """Writes regions into a file that already has its full size."""

    tensor: RawTensor

    def deliver(self, region: Region, values: NDArray[Any]) -> list[Edge]:
        with local.open_to_write(self.tensor.path, self.tensor.where) as fd:
            return self.tensor.write_region(fd, region, values)


class RegionSink(FileSink):
    """A new file into which the workers write their regions, and the parent the edges between them.

    `tensor`, which says where the elements are, is set before `start` or in it.
    """

    tensor: RawTensor

    def __init__(self, file: NewFile) -> None:
        super().__init__(file)
        self._edges: list[Edge] = []
        self._head = b""
        self._head_offset = 0

    def start(self) -> None:
        """Reserve the bytes up to the last element, and write the head, if there is one."""
        with local.open_to_write(self.file.temporary, self.file.name) as fd:
            fd.allocate(self.tensor.end)
            if self._head:
                fd.write(self._head, self._head_offset)

    def block_writer(self) -> BlockWriter:
        if not self.in_workers:
            return ReturningWriter()
        return _RawBlockWriter(self.tensor)

    def receive(self, write_result: object) -> None:
        """Gather the edges of a block, and write them when they are many.

        They are written through the page cache, and wait there for the direct writes of workers.
        """
        if not self.in_workers:
            region, values = cast("ReturnedBlock", write_result)
            write_result = _RawBlockWriter(self.tensor).deliver(region, values)
        self._edges += cast("list[Edge]", write_result)
        if len(self._edges) >= thresholds.MOST_EDGES:
            self._write_edges()

    def finish(self) -> None:
        if self._edges:
            self._write_edges()

    def _write_edges(self) -> None:
        with local.open_to_write(self.file.temporary, self.file.name) as fd:
            for offset, data in sorted(self._edges):
                fd.write(data, offset)
        self._edges.clear()


class RawSink(RegionSink):
    """A new file of elements, a header at `head_offset`, and parts that are copied from a file.

    `open_source` opens the complete file.
    """

    def __init__(
        self,
        file: NewFile,
        tensor: RawTensor,
        open_source: Callable[[], Source],
        head: bytes = b"",
        head_offset: int = 0,
        original: Original | None = None,
        parts: Sequence[CopiedPart] = (),
    ) -> None:
        super().__init__(file)
        self.tensor = tensor
        self._open_source = open_source
        self._head = head
        self._head_offset = head_offset
        self._original = original
        self._parts = parts

    def start(self) -> None:
        super().start()
        if self._original:
            from revseq_cli.files.copies import fill_from  # most outputs are not copies

            identity = cast("Identity", self._original.identity)
            fill_from(self.file, self._original.path, identity, self._parts)

    def reopen(self) -> Source:
        return self._open_source()


# Raw buffers


def open_source(location: Location, types: TextTypes) -> Source:
    """The tensor of a file."""
    refuse_key(location.key, "a raw buffer", location.path)
    return _open_buffer(location.path, location.path, types)


def create_sink(file: NewFile, template: Source, _key: str, _original: Original | None) -> FileSink:
    """The sink of a new file."""
    data_type = template.desc.data_type
    types = TextTypes(data_type, data_type, template.sizes)
    path = file.temporary
    dtype = template.dtype.newbyteorder("<")
    tensor = RawTensor(path, file.name, 0, dtype, template.sizes)
    return RawSink(file, tensor, functools.partial(_open_buffer, path, file.name, types))


def write_to(stream: BinaryIO, source: Source) -> None:
    """Write all elements into a pipe."""
    values = np.ascontiguousarray(source.read(), source.dtype.newbyteorder("<"))
    stream.write(view_bytes(values))


def _open_buffer(path: str, where: str, types: TextTypes) -> RawSource:
    """The tensor of a file; FormatError unless it takes all bytes."""
    with files.open_file(path, name=where) as fd:
        identity = fd.identity
    data_type = types.asked or types.default
    element_count = identity.size // data_type.size
    if types.sizes is None:
        found = f"raw data of {identity.size:,} bytes need --sizes"
        hint = f"for a vector of {data_type.name}, add --sizes {element_count}"
        raise UsageError(found, "a size for each dimension, such as 2x3x4", hint, where)
    sizes = _fill_in_size(types.sizes, element_count)
    require_sizes(sizes, where)
    size = prod(sizes) * data_type.size
    if identity.size != size:
        expected = f"{size:,}: {data_type.name} {in_braces(sizes)}"
        raise FormatError(f"has {identity.size:,} bytes", expected, where=where)
    tensor = RawTensor(path, where, 0, dtype_of(data_type).newbyteorder("<"), sizes)
    return RawSource(tensor, identity, Storage("raw", {}))


def _fill_in_size(sizes: tuple[int, ...], element_count: int) -> tuple[int, ...]:
    """The sizes, with the one that the file's elements leave instead of -1."""
    others = prod(size for size in sizes if size >= 0)
    left = element_count // max(1, others)
    return tuple(left if size < 0 else size for size in sizes)
