"""NetCDF-3 files as inputs: classic, with 64-bit offsets, and with 64-bit data. They are never written.

Elements are big-endian, and lie in the file as they are; those of a record variable are in each record. Source of the
format: the NetCDF Users' Guide, "The NetCDF Classic Format Specification".
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.core.dtypes import data_type_of, require_sizes
from revseq_cli.core.errors import FormatError
from revseq_cli.core.tensors import TensorDesc
from revseq_cli.formats import file_io
from revseq_cli.formats.contents import Contents, Item, chosen, only_of
from revseq_cli.formats.contract import DEFAULT_FILL, Coordinate, Storage, not_whole
from revseq_cli.formats.meaning import (
    CONVENTIONS,
    ENCODING,
    FILL,
    Attributes,
    Meaning,
    Variable,
    as_fill,
    gathered,
    plain,
)
from revseq_cli.formats.raw import RawReadTask, RawSource, RawTensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Address, Source
    from revseq_cli.formats.documents import TextTypes

_FIRST_READ, _LONGEST_HEADER = 1 << 16, 1 << 26
# By the number of a type: its dtype, and the value that the library fills variables with.
_TYPES: dict[int, tuple[str, float | None]] = {
    1: ("i1", None), 2: ("S1", None), 3: (">i2", -32767), 4: (">i4", -2147483647), 5: (">f4", 9.969209968386869e36),
    6: (">f8", 9.969209968386869e36), 7: ("u1", None), 8: (">u2", 65535), 9: (">u4", 4294967295),
    10: (">i8", -9223372036854775806), 11: (">u8", 18446744073709551614),
}  # fmt: skip
_DIMENSIONS, _VARIABLES, _ATTRIBUTES = 10, 11, 12
_STREAMING = (2**32 - 1, 2**64 - 1)  # in place of the number of records, which the size of the file tells


class _Variable(NamedTuple):
    """A variable as the header describes it; `is_record` says that its first dimension grows with the records."""

    kind: int
    dimensions: tuple[str, ...]
    sizes: tuple[int, ...]
    attributes: Attributes
    offset: int
    is_record: bool

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(_TYPES[self.kind][0])

    @property
    def stored(self) -> int:
        """The bytes of all elements, or of those in one record."""
        return prod(self.sizes[self.is_record :]) * self.dtype.itemsize


class _Header:
    """The header of a file: its variables, its own attributes, and the bytes from one record to the next."""

    def __init__(self, data: bytes, size: int) -> None:
        self._data, self._at, version = data, 4, data[3]
        self._count, self._offset = 8 if version == 5 else 4, 4 if version == 1 else 8
        records = self._number(self._count)
        dimensions = [(self._text(), self._number(self._count)) for _ in self._list(_DIMENSIONS)]
        self.attributes = self._read_attributes()
        found = {self._text(): self._variable(dimensions) for _ in self._list(_VARIABLES)}
        of_records = [each for each in found.values() if each.is_record]
        # One record variable alone has no padding between its records.
        padded = [each.stored + -each.stored % 4 * (len(of_records) > 1) for each in of_records]
        self.record = sum(padded)
        if records in _STREAMING and of_records:
            first = min(each.offset for each in of_records)
            records = (size - first) // self.record if self.record else 0
        self.variables = {
            name: each._replace(sizes=(records, *each.sizes[1:])) if each.is_record else each
            for name, each in found.items()
        }

    def _take(self, count: int) -> bytes:
        """So many bytes, and the padding behind them; EOFError where the data end before."""
        start, self._at = self._at, self._at + count + -count % 4
        if self._at > len(self._data):
            raise EOFError
        return self._data[start : start + count]

    def _number(self, size: int = 4) -> int:
        return int.from_bytes(self._take(size), "big")

    def _text(self) -> str:
        return self._take(self._number(self._count)).decode("utf-8", "replace")

    def _list(self, tag: int) -> range:
        found, count = self._number(), self._number(self._count)
        if found not in (0, tag) or (count and not found):
            raise ValueError
        return range(count)

    def _read_attributes(self) -> Attributes:
        read = {self._text(): self._values() for _ in self._list(_ATTRIBUTES)}
        return {name: value for name, value in read.items() if value is not None}

    def _values(self) -> Any:  # noqa: ANN401 - a value of the neutral form
        kind = np.dtype(_TYPES[self._number()][0])
        data = self._take(self._number(self._count) * kind.itemsize)
        return plain(data) if kind.kind == "S" else plain(np.frombuffer(data, kind).astype(kind.newbyteorder("=")))

    def _variable(self, known: list[tuple[str, int]]) -> _Variable:
        numbers = [self._number(self._count) for _ in range(self._number(self._count))]
        names, sizes = tuple(known[each][0] for each in numbers), tuple(known[each][1] for each in numbers)
        attributes, kind = self._read_attributes(), self._number()
        self._number(self._count)  # its bytes, which are wrong for large ones
        return _Variable(kind, names, sizes, attributes, self._number(self._offset), sizes[:1] == (0,))


def _read(path: str, name: str) -> tuple[_Header, file_io.Identity]:
    """The header, which is as long as it turns out to be."""
    with file_io.opened(path) as fd:
        identity, length = file_io.identity(fd), _FIRST_READ
        while True:
            data = file_io.read_some(fd, min(length, identity.size), 0, path)
            try:
                if data[:3] != b"CDF" or len(data) < 4:
                    raise FormatError("is not a NetCDF-3 file", "CDF as its first bytes", where=name)
                return _Header(data, identity.size), identity
            except EOFError:
                if length >= min(identity.size, _LONGEST_HEADER):
                    raise not_whole("is truncated: its header extends beyond its end", name) from None
                length *= 16
            except (ValueError, KeyError, IndexError):
                raise not_whole("has a damaged header", name) from None


class NetCDF3Source(RawSource):
    """A variable of a NetCDF-3 file."""

    def __init__(self, path: str, key: str | None) -> None:
        self._header, identity = _read(path, path)
        variables = self._header.variables
        tensors = [name for name, each in variables.items() if each.kind != 2]
        self.key = chosen(variables if key is not None else tensors, key, path)
        where, found = f"{path}::{self.key}", variables[self.key]
        if self.key not in tensors:
            raise FormatError("its data type is text", "numbers", where=where)
        require_sizes(found.sizes, where)
        self._variable, tensor = found, self._tensor(self.key, path)
        details = {"variable": self.key} | ({"records": str(found.sizes[0])} if found.is_record else {})
        super().__init__(tensor, identity, Storage("nc3", details))
        self.dimensions, self.attributes, self.siblings = found.dimensions, len(found.attributes), len(tensors) - 1
        last = tuple(slice(size - 1, size) for size in found.sizes)
        runs = tensor.offset + sum(part.start * step for part, step in zip(last, tensor.strides or (), strict=True))
        if prod(found.sizes) and runs + found.dtype.itemsize > identity.size:
            end = runs + found.dtype.itemsize
            raise not_whole(f"is truncated: {identity.size} bytes, and its values end at {end}", where)

    def _tensor(self, key: str, path: str) -> RawTensor:
        """Where the elements of a variable lie."""
        found = self._header.variables[key]
        steps = [prod(found.sizes[d + 1 :]) * found.dtype.itemsize for d in range(len(found.sizes))]
        steps = [self._header.record, *steps[1:]] if found.is_record else steps
        return RawTensor(path, f"{path}::{key}", found.offset, found.dtype, found.sizes, strides=tuple(steps))

    def meaning(self) -> Meaning:
        """What the file says of the variable; its variables are the only ones beside it."""
        given = self._variable.attributes
        attributes = {name: value for name, value in given.items() if name != FILL}
        own = Variable(self.key, self.dimensions, attributes, self.desc.total_bytes, self.read)
        attributes, variables = gathered(own, self._find)
        fill = as_fill(given.get(FILL), self.dtype.newbyteorder("="))
        lost = (FILL,) if fill is None and FILL in given else ()
        groups, records = (self._header.attributes,), self.dimensions[: self._variable.is_record]
        return Meaning(self.dimensions, attributes, fill, variables, groups, given, lost, records)

    def _find(self, name: str) -> Variable | None:
        if (found := self._header.variables.get(name)) is None:
            return None
        total, read = prod(found.sizes) * found.dtype.itemsize, partial(self._values, name, found)
        if found.kind != 2:
            return Variable(name, found.dimensions, found.attributes, total, read)
        attributes = {name: value for name, value in found.attributes.items() if name != ENCODING}
        return Variable(name, found.dimensions[:-1], attributes, total, read)

    def _values(self, name: str, found: _Variable, part: slice | None = None) -> NDArray[Any]:
        """The values of a variable, or a part of its first dimension; characters as texts."""
        region = tuple(slice(0, size) for size in found.sizes)
        values = RawReadTask(
            self._tensor(name, self.path), self.unchanged, (part, *region[1:]) if part else region
        ).read()
        if found.kind != 2:
            return values.astype(values.dtype.newbyteorder("="))
        values = np.ascontiguousarray(np.atleast_1d(values))
        texts = values.view(f"S{values.shape[-1]}")[..., 0] if values.size else np.zeros(values.shape[:-1], "S1")
        return np.array([each.decode("utf-8", "replace") for each in texts.reshape(-1)], object).reshape(texts.shape)

    def conventions(self) -> dict[str, list[Any]]:
        """The values of each attribute among CONVENTIONS that it has, and the library's fill value without one."""
        given, default = self._variable.attributes, _TYPES[self._variable.kind][1]
        found = {name: [*np.atleast_1d(np.asarray(given[name], object))] for name in CONVENTIONS if name in given}
        return found if FILL in found or default is None else found | {DEFAULT_FILL: [self.dtype.type(default)]}

    def coordinate(self, dimension: int) -> Coordinate | None:
        """The variable of the dimension's name, if it has one number for each index."""
        name = self.dimensions[dimension]
        found = self._header.variables.get(name)
        if found is None or found.kind == 2 or found.sizes != (self.sizes[dimension],) or name == self.key:
            return None
        units = found.attributes.get("units", "")
        return Coordinate(str(units), lambda part: self._values(name, found, part))


def open_source(address: Address, types: TextTypes) -> Source:  # noqa: ARG001 - the file names its types
    """The named variable, or the only one."""
    return NetCDF3Source(address.path, address.key)


def names_in(path: str) -> list[str]:
    """The name of every variable of numbers."""
    return [name for name, each in _read(path, path)[0].variables.items() if each.kind != 2]


def contents(address: Address, types: TextTypes) -> Contents | None:  # noqa: ARG001 - the file names its types
    """What the file holds; None where the address has the name of a variable."""
    if address.key is not None:
        return None
    header, _ = _read(address.path, address.path)
    items = tuple(_item(name, each) for name, each in header.variables.items())
    tensors = [each for each in items if each.desc]
    return Contents(address.path, "nc3", items, only_of(tensors), attributes=len(header.attributes))


def _item(name: str, found: _Variable) -> Item:
    details = {"records": str(found.sizes[0])} if found.is_record else {}
    item = Item(name, sizes=found.sizes, dimensions=found.dimensions, attributes=len(found.attributes), details=details)
    if found.kind == 2:
        return item._replace(what="text")
    return item._replace(desc=TensorDesc(data_type_of(found.dtype), found.sizes))
