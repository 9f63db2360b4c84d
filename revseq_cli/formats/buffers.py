"""Raw buffers, as GPU tools dump them: the elements alone, little-endian, whose sizes and data type the user names.

Strides are those of DML_BUFFER_TENSOR_DESC: for each dimension the elements from one index to the next, 0 for one that
is stored once. Its TotalTensorSizeInBytes is a multiple of 4, so that up to 3 bytes may follow the last element.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from revseq_cli.formats.contents import refuse_key
from revseq_cli.formats.contract import Storage
from revseq_cli.formats.documents import TextTypes
from revseq_cli.formats.raw import RawSink, RawSource, RawTensor, RawTicket, grains_of
from revseq_cli.formats.storage import positioned
from revseq_cli.ground.dtypes import dtype_of, require_sizes
from revseq_cli.ground.errors import Advice, FormatError, UsageError
from revseq_cli.ground.tensors import braced

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Address, FileSink, Layout, Region, Source, Ticket
    from revseq_cli.formats.storage.newfile import NewFile

_MULTIPLE = 4  # bytes


def open_source(address: Address, types: TextTypes) -> Source:
    """The tensor of a file; FormatError unless the sizes and the data type take all of its bytes."""
    refuse_key(address.key, "a raw buffer", address.path)
    return BufferSource(address.path, address.path, types)


def create_sink(file: NewFile, like: Source, key: str, layout: Layout) -> FileSink:  # noqa: ARG001 - it has neither
    """The sink of a new file, in C order."""
    return BufferSink(file, like)


def write_to(stream: BinaryIO, source: Source) -> None:
    """Write all elements into a pipe, in C order."""
    stream.write(np.ascontiguousarray(source.read(), source.dtype.newbyteorder("<")).reshape(-1).view(np.uint8).data)


@dataclass(frozen=True)
class _StridedTicket(RawTicket):
    """Reads one region; `order` has the dimension of the tensor that each stored one is: no dimension of stride 0."""

    order: tuple[int, ...]

    def read(self) -> NDArray[Any]:
        """The values of the region; those of a dimension of stride 0 are one and the same memory."""
        stored = self.tensor
        with positioned.opened(stored.path, self.unchanged, stored.name) as fd:
            values = stored.read(fd, tuple(self.region[d] for d in self.order))
        values = values.transpose(np.argsort(self.order))
        extents = [part.stop - part.start for part in self.region]
        values = values.reshape([extent if d in self.order else 1 for d, extent in enumerate(extents)])
        return np.broadcast_to(values, extents)


class BufferSource(RawSource):
    """A raw buffer as `types` says; `name` is for messages."""

    def __init__(self, path: str, name: str, types: TextTypes) -> None:
        with positioned.opened(path, name=name) as fd:
            identity = positioned.identity(fd)
        data_type, total = types.asked or types.default, identity.size
        dtype = dtype_of(data_type).newbyteorder("<")
        if types.sizes is None:
            found = f"is a raw buffer, of {total:,} bytes, and no sizes are given"
            raise UsageError(found, "one for each dimension, such as 2x3x4", Advice.of("add {}", sizes="..."), name)
        sizes = tuple(total // dtype.itemsize if size < 0 else size for size in types.sizes)
        require_sizes(sizes, name)
        strides = types.strides or tuple(prod(sizes[d + 1 :]) for d in range(len(sizes)))
        if len(strides) != len(sizes):
            raise UsageError(
                f"{len(strides)} strides are given", f"{len(sizes)}, one for each of its sizes", where=name
            )
        last = sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
        needed = (1 + last if prod(sizes) else 0) * dtype.itemsize
        # Rows that are padded may be so behind the last one, too.
        most = max(needed, *(size * stride * dtype.itemsize for size, stride in zip(sizes, strides, strict=True)), 0)
        if not needed <= total <= -(-most // _MULTIPLE) * _MULTIPLE:
            strided = f" with the strides {braced(strides)}" if types.strides else ""
            each = f", {total // prod(sizes)} for each of {prod(sizes):,} elements" if prod(sizes) else ""
            wanted = f"{needed:,}: {data_type.name} {braced(sizes)}{strided}"
            raise FormatError(f"has {total:,} bytes{each if not total % max(1, prod(sizes)) else ''}", wanted, "", name)
        spread = (d for d in range(len(sizes)) if strides[d] and sizes[d] != 1)
        self._order = tuple(sorted(spread, key=lambda d: (-strides[d], d)))
        stored = RawTensor(
            path, name, 0, dtype, tuple(sizes[d] for d in self._order),
            strides=tuple(strides[d] * dtype.itemsize for d in self._order),
        )  # fmt: skip
        super().__init__(stored, identity, Storage("raw", {"strides": braced(strides)} if types.strides else {}))
        self.sizes = sizes

    @property
    def grains(self) -> list[tuple[int, ...]]:
        """Regions that are a run of bytes, or nearly one, in the order in which the elements are stored."""
        found = (dict(zip(self._order, grain, strict=True)) for grain in grains_of(self.dtype, self.tensor.sizes))
        return [tuple(grain.get(d, 1) for d in range(len(self.sizes))) for grain in found]

    def ticket(self, region: Region) -> Ticket:
        """A ticket that opens the file and reads the region."""
        return _StridedTicket(self.tensor, self.unchanged, region, self._order)


class BufferSink(RawSink):
    """A new raw buffer, into which the workers write their regions."""

    def __init__(self, file: NewFile, like: Source) -> None:
        super().__init__(file)
        self._types = TextTypes(like.desc.data_type, like.desc.data_type, sizes=like.sizes)
        self.place(like, dtype=like.dtype.newbyteorder("<"))

    def reopen(self) -> Source:
        """The complete file, as an input."""
        return BufferSource(self.file.temporary, self.file.name, self._types)
