"""NetCDF-3 files as inputs: classic, with 64-bit offsets, and with 64-bit data. They are never written.

Elements are big-endian, and lie in the file as they are; those of a record variable are in each record. Source of the
format: the NetCDF Users' Guide, "The NetCDF Classic Format Specification".
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.core.dtypes import data_type_of, require_sizes
from revseq_cli.core.errors import FormatError
from revseq_cli.core.tensors import TensorDesc
from revseq_cli.formats import file_io
from revseq_cli.formats.contents import Contents, Item, chosen, only_of
from revseq_cli.formats.contract import Storage, not_whole
from revseq_cli.formats.meaning import ENCODING, Attributes, Meaning, Variable, is_small, joined, plain
from revseq_cli.formats.raw import RawReadTask, RawSource, RawTensor

if TYPE_CHECKING:
    from revseq_cli.formats.contract import Address, Source, TextTypes

_FIRST_READ, _LONGEST_HEADER = 1 << 16, 1 << 26
# By the number of a type: its dtype, and the value that the library fills variables with.
_TYPES: dict[int, tuple[str, float | None]] = {
    1: ("i1", None), 2: ("S1", None), 3: (">i2", -32767), 4: (">i4", -2147483647), 5: (">f4", 9.969209968386869e36),
    6: (">f8", 9.969209968386869e36), 7: ("u1", None), 8: (">u2", 65535), 9: (">u4", 4294967295),
    10: (">i8", -9223372036854775806), 11: (">u8", 18446744073709551614),
}  # fmt: skip
_TEXT = 2
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
        tensors = [name for name, variable in variables.items() if variable.kind != _TEXT]
        self.key = chosen(variables if key is not None else tensors, key, path)
        where, variable = f"{path}::{self.key}", variables[self.key]
        if variable.kind == _TEXT:
            raise FormatError("its data type is text", "numbers", where=where)
        require_sizes(variable.sizes, where)
        super().__init__(self._tensor(self.key, path), identity, Storage("nc3", _details(self.key, variable)))
        self._variable = variable
        self.dimensions, self.attributes = variable.dimensions, len(variable.attributes)
        last = sum((size - 1) * step for size, step in zip(self.sizes, self.tensor.strides or (), strict=True))
        end = self.tensor.offset + last + self.dtype.itemsize
        if prod(self.sizes) and end > identity.size:
            raise not_whole(f"is truncated: {identity.size} bytes, and its values end at {end}", where)

    def _tensor(self, key: str, path: str) -> RawTensor:
        """Where the elements of a variable lie."""
        variable = self._header.variables[key]
        sizes, dtype = variable.sizes, variable.dtype
        steps = [prod(sizes[d + 1 :]) * dtype.itemsize for d in range(len(sizes))]
        if variable.is_record:
            steps[0] = self._header.record
        return RawTensor(path, f"{path}::{key}", variable.offset, dtype, sizes, strides=tuple(steps))

    def meaning(self) -> Meaning:
        """What the file says of the variable."""
        coordinates, left = list[Variable](), list[str]()
        for d, name in enumerate(self.dimensions):
            if name != self.key and name in self._header.variables and name not in self.dimensions[:d]:
                if coordinate := self._coordinate(name, self.sizes[d]):
                    coordinates.append(coordinate)
                else:
                    left.append(f"the variable {name}")
        return Meaning(
            self.dimensions, self._variable.attributes, tuple(coordinates), (self._header.attributes,),
            self.dimensions[: self._variable.is_record], tuple(left), _TYPES[self._variable.kind][1],
        )  # fmt: skip

    def _coordinate(self, name: str, size: int) -> Variable | None:
        """The coordinate of a dimension of that name and size; None for what is none, or is large."""
        variable = self._header.variables[name]
        rank = 1 + (variable.kind == _TEXT)
        is_one = variable.dimensions[:1] == (name,) and variable.sizes[:1] == (size,) and len(variable.sizes) == rank
        if not is_one or not is_small(variable.sizes, variable.dtype.itemsize):
            return None
        region = tuple(slice(0, n) for n in variable.sizes)
        values = RawReadTask(self._tensor(name, self.path), self.unchanged, region).read()
        if variable.kind == _TEXT:
            attributes = {n: v for n, v in variable.attributes.items() if n != ENCODING}
            return Variable(name, (name,), attributes, joined(values))
        return Variable(name, (name,), variable.attributes, values.astype(values.dtype.newbyteorder("=")))


def _details(name: str, variable: _Variable) -> dict[str, str]:
    return {"variable": name} | ({"records": str(variable.sizes[0])} if variable.is_record else {})


def open_source(address: Address, types: TextTypes) -> Source:  # noqa: ARG001 - the file names its types
    """The named variable, or the only one."""
    return NetCDF3Source(address.path, address.key)


def contents(address: Address, types: TextTypes) -> Contents | None:  # noqa: ARG001 - the file names its types
    """What the file holds; None where the address has the name of a variable."""
    if address.key is not None:
        return None
    header, _ = _read(address.path, address.path)
    items = tuple(_item(name, each) for name, each in header.variables.items())
    tensors = [each for each in items if each.desc]
    return Contents(address.path, "nc3", items, only_of(tensors), attributes=len(header.attributes))


def _item(name: str, found: _Variable) -> Item:
    details = _details(name, found)
    details.pop("variable")
    item = Item(name, sizes=found.sizes, dimensions=found.dimensions, attributes=len(found.attributes), details=details)
    if found.kind == _TEXT:
        return item._replace(what="text")
    return item._replace(desc=TensorDesc(data_type_of(found.dtype), found.sizes))
