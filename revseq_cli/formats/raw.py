"""Tensors whose elements are stored as they are, in a file or in memory.

Sources and sinks for most formats.

And raw buffers: only the elements, little-endian, of a shape and data type that the user names.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
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
from revseq_cli.files import base, local
from revseq_cli.files.base import Identity
from revseq_cli.files.copies import fill_from
from revseq_cli.files.local import Edge
from revseq_cli.formats.contract import (
    Address,
    BlockWriter,
    FileSink,
    Original,
    ReadTask,
    Sink,
    Source,
    Storage,
    TextTypes,
    WriteResult,
)
from revseq_cli.formats.refusals import refuse_key

if TYPE_CHECKING:
    from revseq_cli.files.new import NewFile


def cut_alignments_of(
    dtype: np.dtype[Any], sizes: tuple[int, ...], order: str = "C"
) -> list[tuple[int, ...]]:
    """The multiples of indices at which to cut a tensor that lies uncompressed in a file.

    The cheap ones come first.

    A region of the first is at least a run of bytes that is worth a system call, one of the second
    a CPU cache line.
    """
    return [
        cut_alignment_of(run // dtype.itemsize, sizes, order)
        for run in (thresholds.CHEAP_RUN, thresholds.CACHE_LINE)
    ]


def cut_alignment_of(run: int, sizes: tuple[int, ...], order: str = "C") -> tuple[int, ...]:
    """The smallest region of at least `run` elements that lie one after another.

    The fastest dimensions come first.

    For sizes (1000, 128, 128) in C order and a run of 4096, it is (1, 32, 128).
    """
    if order != "F":
        return cut_alignment_of(run, sizes[::-1], "F")[::-1]
    cut_alignment = []
    left = run
    for size in sizes:
        cut_alignment.append(max(1, min(size, left)))
        left = -(-left // max(1, size))
    return tuple(cut_alignment)


@dataclass(frozen=True)
class RawTensor:
    """Where the elements of a tensor are: `offset` in bytes, `order` "C" or "F".

    `name` is for messages.

    `strides` are in bytes, from one index of each dimension to the next; None if there are no bytes
    between elements.
    """

    path: str
    name: str
    offset: int
    dtype: np.dtype[Any]
    sizes: tuple[int, ...]
    order: str = "C"
    strides: tuple[int, ...] | None = None

    @property
    def end(self) -> int:
        """The offset of the first byte after the elements."""
        return self.offset + prod(self.sizes) * self.dtype.itemsize

    def read(self, fd: base.InputFile, region: Region) -> NDArray[Any]:
        """The values of the region, in the file's memory order."""
        shape = [part.stop - part.start for part in region]
        values: NDArray[Any]
        values = np.empty(shape, self.dtype, self.order)  # type: ignore[call-overload]
        fd.read_runs(self._runs(region, values))
        return values

    def write(self, fd: local.OutputFile, region: Region, values: NDArray[Any]) -> list[Edge]:
        """Write the values of the region; return the edges, which the caller writes."""
        stored = np.asarray(values, self.dtype, self.order)  # type: ignore[call-overload]
        return fd.write_runs(self._runs(region, stored))

    def _runs(self, region: Region, values: NDArray[Any]) -> Iterator[tuple[int, memoryview]]:
        """Each contiguous run of the region.

        Its offset in the file, and its part of the values, in the file's order.

        Offsets are computed for some thousand runs at once, since runs may be short.
        """
        sizes = self.sizes
        parts = region
        if self.order == "F":  # it is C order with the dimensions reversed
            sizes = sizes[::-1]
            parts = parts[::-1]
            values = values.T
        item = self.dtype.itemsize
        strides = self.strides or tuple(item * prod(sizes[d + 1 :]) for d in range(len(sizes)))
        cut = _first_contiguous(parts, sizes, strides, item)
        inner = zip(parts[cut:], strides[cut:], strict=True)
        start = self.offset + sum(part.start * stride for part, stride in inner)
        length = item * prod(part.stop - part.start for part in parts[cut:])
        buffer = values.reshape(-1).view(np.uint8).data
        count = len(buffer) // max(1, length)
        for first in range(0, count, thresholds.RUNS_AT_ONCE):
            numbers = np.arange(first, min(first + thresholds.RUNS_AT_ONCE, count))
            offsets = np.full(len(numbers), start)
            for d in reversed(range(cut)):
                part = parts[d]
                numbers, index = np.divmod(numbers, part.stop - part.start)
                offsets += (part.start + index) * strides[d]
            for number, offset in enumerate(offsets.tolist(), first):
                yield offset, buffer[number * length : (number + 1) * length]


def _first_contiguous(
    parts: Region, sizes: tuple[int, ...], strides: tuple[int, ...], item: int
) -> int:
    """The dimension from which on the region is one run of elements, of `item` bytes each."""
    cut = len(sizes)
    run = item
    while cut > 0 and strides[cut - 1] == run:
        cut -= 1
        run = strides[cut] * sizes[cut]
        if parts[cut] != slice(0, sizes[cut]):
            break
    return cut


@dataclass(frozen=True)
class RawReadTask:
    """Reads one region; TensorIOError if the file is not as it was when its header was read."""

    tensor: RawTensor
    unchanged: Identity
    region: Region

    def read(self) -> NDArray[Any]:
        with files.open_file(self.tensor.path, self.unchanged, self.tensor.name) as file:
            return self.tensor.read(file, self.region)


class RawSource(Source):
    """A tensor whose elements are uncompressed in a file.

    The format has read their offset from the header.
    """

    def __init__(
        self, tensor: RawTensor, unchanged: Identity, storage: Storage, key: str = ""
    ) -> None:
        self.tensor = tensor
        self.key = key
        self.unchanged = unchanged
        self.identity = unchanged
        self.storage = storage
        self.name = tensor.name
        self.path = tensor.path
        self.dtype = tensor.dtype
        self.sizes = tensor.sizes
        self.order = tensor.order

    @property
    def cut_alignments(self) -> list[tuple[int, ...]]:
        alignments = cut_alignments_of(self.dtype, self.sizes, self.order)
        run = files.cheap_run(self.path) // self.dtype.itemsize
        if run:
            alignments.insert(0, cut_alignment_of(run, self.sizes, self.order))
        return alignments

    def read_task(self, region: Region) -> ReadTask:
        return RawReadTask(self.tensor, self.unchanged, region)


class UnpackedSource(RawSource):
    """A compressed tensor.

    It is decompressed into a temporary file when its first region is read.

    `unpack` yields the decompressed bytes, piece by piece, which end with the last element;
    `tensor` says where the elements are in them.
    """

    def __init__(
        self,
        tensor: RawTensor,
        identity: Identity,
        storage: Storage,
        unpack: Callable[[], Iterator[bytes]],
        key: str = "",
    ) -> None:
        super().__init__(tensor, identity, storage, key)
        self._unpack = unpack
        self._unpacked: local.UnnamedFile | None = None

    def read_task(self, region: Region) -> ReadTask:
        if self._unpacked is None:
            self._unpacked = self._unpack_all()
        return super().read_task(region)

    def _unpack_all(self) -> local.UnnamedFile:
        """The temporary file with all bytes; FormatError unless they end with the last element."""
        name = f"{self.name}, decompressed into the temporary folder"
        file = local.UnnamedFile(name)
        size = 0
        for piece in self._unpack():
            file.write(piece, size)
            size += len(piece)
        if size != self.tensor.end:
            found = f"decompresses to {size} bytes, and it promises {self.tensor.end}"
            raise FormatError(found, hint="copy or download the file again", where=self.name)
        with base.trying_to("read", name):
            self.unchanged = base.identity_of(os.fstat(file.fd))
        self.tensor = replace(self.tensor, path=file.path)
        return file


@dataclass(frozen=True)
class _RawBlockWriter:
    """Writes regions into a file that already has its full size."""

    tensor: RawTensor

    def deliver(self, region: Region, values: NDArray[Any]) -> list[Edge]:
        with local.open_to_write(self.tensor.path, self.tensor.name) as fd:
            return self.tensor.write(fd, region, values)


class RawSink(FileSink):
    """A new file into which the workers write their regions, and the parent the edges between them.

    A format calls `place` before or in `start`, and `copy_parts` for what is copied. `open_source`
    opens the complete file.
    """

    tensor: RawTensor
    head = b""
    head_at = 0
    kept = 0  # bytes that are copied

    def __init__(self, file: NewFile, open_source: Callable[[], Source] | None = None) -> None:
        super().__init__(file)
        self._edges: list[Edge] = []
        self._open_source = open_source
        self._copied: tuple[Original, list[tuple[int, int, int]]] | None = None

    def place(
        self, template: Source, head: bytes = b"", at: int = 0, dtype: np.dtype[Any] | None = None
    ) -> None:
        """Place the elements after `head`, which begins at the offset `at`.

        They have the shape of `template`. Without a `dtype`, they have its dtype and memory order,
        too, else C order.
        """
        self.head = head
        self.head_at = at
        order = template.order
        if dtype is None:
            dtype = template.dtype
        else:
            order = "C"
        path, name, offset = self.file.temporary, self.file.name, at + len(head)
        self.tensor = RawTensor(path, name, offset, dtype, template.sizes, order)

    def copy_parts(self, original: Original, parts: list[tuple[int, int, int]]) -> None:
        """Copy parts of a file in `start`: of each, the offset, the bytes, and the new offset."""
        self._copied = (original, parts)
        self.kept = sum(count for _, count, _ in parts)

    def start(self) -> None:
        """Reserve the bytes up to the last element, and write the head and what is copied."""
        with local.open_to_write(self.file.temporary, self.file.name) as fd:
            fd.allocate(self.tensor.end)
            fd.write(self.head, self.head_at)
        if self._copied:
            original, parts = self._copied
            fill_from(self.file, original.path, cast("Identity", original.identity), parts)

    def block_writer(self, region: Region) -> BlockWriter:  # noqa: ARG002 - one for all regions
        return _RawBlockWriter(self.tensor) if self.in_workers else Handing()

    def receive(self, write_result: object) -> None:
        """Gather edges, and write them if they are many.

        Writes through the page cache and direct ones wait for each other.
        """
        if not self.in_workers:
            write_result = _RawBlockWriter(self.tensor).deliver(
                *cast("tuple[Region, NDArray[Any]]", write_result)
            )
        self._edges += cast("list[Edge]", write_result)
        if len(self._edges) >= thresholds.MOST_EDGES:
            self._write_edges()

    def finish(self) -> None:
        if self._edges:
            self._write_edges()

    def reopen(self) -> Source:
        return cast("Callable[[], Source]", self._open_source)()

    def _write_edges(self) -> None:
        with local.open_to_write(self.file.temporary, self.file.name) as fd:
            for place, data in sorted(self._edges):
                fd.write(data, place)
        self._edges.clear()


# In memory: text, standard input, arguments, and what is printed whole.


@dataclass(frozen=True)
class _MemoryReadTask:
    """A read task that carries the values of its region, which nobody may overwrite."""

    values: NDArray[Any]

    def read(self) -> NDArray[Any]:
        return self.values


class MemorySource(Source):
    """A tensor in memory: from text, standard input or an argument."""

    def __init__(
        self, name: str, values: NDArray[Any], storage: Storage, identity: Identity | None = None
    ) -> None:
        self.name = name
        self._values = values
        self.storage = storage
        self.identity = identity
        self.dtype = values.dtype
        self.sizes = values.shape
        is_fortran = values.flags.f_contiguous and not values.flags.c_contiguous
        self.order = "F" if is_fortran else "C"

    @classmethod
    def of(cls, source: Source) -> MemorySource:
        """A copy of another source in memory, with its memory order."""
        copy = cls(source.name, source.read(), source.storage)
        return copy.with_order(source.order).with_columns(source.columns)

    def with_order(self, order: str) -> MemorySource:
        """The source, which says that it has that memory order, whatever its values have."""
        self.order = order
        return self

    def with_columns(self, columns: tuple[str, ...]) -> MemorySource:
        """The source, as a table whose header has these names."""
        self.columns = columns
        return self

    def read_task(self, region: Region) -> ReadTask:
        # Without dimensions, NumPy returns a scalar.
        values = np.asarray(self._values[region]).view()
        values.flags.writeable = False
        return _MemoryReadTask(values)


class Handing:
    """A block writer that sends every block to the parent."""

    def deliver(self, region: Region, values: NDArray[Any]) -> object:
        return region, values


class Gathered(Sink):
    """A base of sinks that gather the whole tensor in memory, in `values`."""

    values: NDArray[Any]
    in_workers = False

    def block_writer(self, region: Region) -> BlockWriter:  # noqa: ARG002 - one for all regions
        return Handing()

    def receive(self, write_result: object) -> None:
        region, values = cast("WriteResult", write_result)
        self.values[region] = values


class WholeSink(Gathered, FileSink):
    """A new file that is written whole.

    `message` makes its bytes of the values, and `read` opens it at a path.
    """

    def __init__(
        self,
        file: NewFile,
        template: Source,
        message: Callable[[NDArray[Any]], bytes],
        read: Callable[[str], Source],
    ) -> None:
        super().__init__(file)
        self.values = np.empty(template.sizes, template.dtype)
        self._message = message
        self._read = read

    def finish(self) -> None:
        self.file.write(self._message(self.values))

    def reopen(self) -> Source:
        return self._read(self.file.temporary)


class MemorySink(Gathered):
    """A tensor gathered in memory, with the sizes, data type and memory order of `template`."""

    def __init__(self, template: Source) -> None:
        self._order = template.order
        self._columns = template.columns
        self.values = np.empty(template.sizes, template.dtype)

    def __exit__(self, *_: object) -> None:
        pass

    def written(self) -> Source:
        source = MemorySource("the result", self.values, Storage("memory", {}))
        return source.with_order(self._order).with_columns(self._columns)


# Raw buffers, as a format of their own.


def open_source(address: Address, types: TextTypes) -> Source:
    """The tensor of a file.

    FormatError unless the sizes and the data type take all of its bytes.
    """
    refuse_key(address.key, "a raw buffer", address.path)
    return _buffer(address.path, address.path, types)


def create_sink(
    file: NewFile,
    template: Source,
    key: str,  # noqa: ARG001 - it has no name
    original: Original | None = None,  # noqa: ARG001 - a file holds one tensor
) -> FileSink:
    """The sink of a new file, in C order."""
    types = TextTypes(template.desc.data_type, template.desc.data_type, template.sizes)
    sink = RawSink(file, functools.partial(_buffer, file.temporary, file.name, types))
    sink.place(template, dtype=template.dtype.newbyteorder("<"))
    return sink


def write_to(stream: BinaryIO, source: Source) -> None:
    """Write all elements into a pipe, in C order."""
    values = np.ascontiguousarray(source.read(), source.dtype.newbyteorder("<"))
    stream.write(values.reshape(-1).view(np.uint8).data)


def _buffer(path: str, name: str, types: TextTypes) -> RawSource:
    """The elements of a file, of the sizes and the data type that the user names.

    `name` is for messages.
    """
    with files.open_file(path, name=name) as fd:
        identity = fd.identity
    data_type = types.asked or types.default
    if types.sizes is None:
        count = identity.size // data_type.size
        found = f"raw data of {identity.size:,} bytes need --sizes"
        hint = f"for a vector of {data_type.name}, add --sizes {count}"
        raise UsageError(found, "a size for each dimension, such as 2x3x4", hint, name)
    known = prod(size for size in types.sizes if size >= 0)
    rest = identity.size // data_type.size // max(1, known)
    sizes = tuple(rest if size < 0 else size for size in types.sizes)
    require_sizes(sizes, name)
    count = prod(sizes)
    if identity.size != count * data_type.size:
        expected = f"{count * data_type.size:,}: {data_type.name} {in_braces(sizes)}"
        raise FormatError(f"has {identity.size:,} bytes", expected, where=name)
    tensor = RawTensor(path, name, 0, dtype_of(data_type).newbyteorder("<"), sizes)
    return RawSource(tensor, identity, Storage("raw", {}))
