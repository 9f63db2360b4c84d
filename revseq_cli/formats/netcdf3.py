"""NetCDF-3 files, which are only read: classic, with 64-bit offsets, and with 64-bit data.

Elements are big-endian and uncompressed. Those of a record variable, whose first dimension can
grow, are apart: a part of them is in each record. Source of the format: the NetCDF Users' Guide,
"The NetCDF Classic Format Specification".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from typing import Any, NamedTuple

import numpy as np

from revseq_cli import files
from revseq_cli.core.dtypes import data_type_of, require_sizes
from revseq_cli.core.errors import DataTypeError, FormatError
from revseq_cli.core.tensors import TensorDesc
from revseq_cli.files.input_file import Identity
from revseq_cli.formats.attributes import (
    ENCODING,
    Attributes,
    Meaning,
    NoCoordinateError,
    Variable,
    as_neutral,
    find_coordinates,
    is_small,
    join_characters,
)
from revseq_cli.formats.contract import Location, Source, Storage, TextTypes
from revseq_cli.formats.listings import Contents, Item, find_sole_key
from revseq_cli.formats.raw import RawReadTask, RawSource, RawTensor
from revseq_cli.formats.refusals import choose_tensor, make_damage_error

_HEADERS = (1 << 16, 1 << 20, 1 << 26)  # how much is read, until it holds the whole header
# By the number of a type: its dtype, and the value that the library fills variables with.
_TYPES: dict[int, tuple[str, float | None]] = {
    1: ("i1", None), 2: ("S1", None), 3: (">i2", -32767), 4: (">i4", -2147483647),
    5: (">f4", 9.969209968386869e36), 6: (">f8", 9.969209968386869e36),
    7: ("u1", None), 8: (">u2", 65535), 9: (">u4", 4294967295),
    10: (">i8", -9223372036854775806), 11: (">u8", 18446744073709551614),
}  # fmt: skip
_TEXT = 2
_LIST_TAGS = (10, 11, 12)  # of dimensions, variables and attributes
_LABEL = "NetCDF-3"  # what people call such a file


class _Variable(NamedTuple):
    """A variable as the header describes it."""

    kind: int  # the number of its type
    offset: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dimensions: tuple[str, ...]
    attributes: Attributes
    is_record: bool  # whether its first dimension is that of the records

    @property
    def is_text(self) -> bool:
        """Whether it holds characters, and so is not a tensor."""
        return self.kind == _TEXT

    @property
    def dtype(self) -> np.dtype[Any]:
        """That of its elements."""
        return np.dtype(_TYPES[self.kind][0])

    def locate_elements(self, path: str, where: str) -> RawTensor:
        """Where its elements are in the file."""
        return RawTensor(path, where, self.offset, self.dtype, self.sizes, strides=self.strides)


class _Dataset(NamedTuple):
    """What a header says of its file: the variables by their names, and the attributes."""

    variables: dict[str, _Variable]
    attributes: Attributes


class _Parser:
    """Reads a header from the first bytes of a file.

    EOFError if the header goes on after these bytes, and ValueError, KeyError or IndexError if it
    is damaged.
    """

    def __init__(self, data: bytes) -> None:
        version = data[3]
        self._data = data
        self._position = 4
        self._count_bytes = 8 if version == 5 else 4
        self._offset_bytes = 4 if version == 1 else 8
        self._dimensions: list[tuple[str, int]] = []

    def read_header(self) -> _Dataset:
        """The whole header."""
        record_count = self._read_count()
        self._dimensions = self._read_list(self._read_count)
        attributes = self._read_attributes()
        variables = dict(self._read_list(self._read_variable))
        step = _count_step(variables.values())
        for name, variable in variables.items():
            if variable.is_record:
                sizes = (record_count, *variable.sizes[1:])
                strides = (step, *variable.strides[1:])
                variables[name] = variable._replace(sizes=sizes, strides=strides)
        return _Dataset(variables, attributes)

    def _read_next(self, count: int) -> bytes:
        """The next `count` bytes, after which there is padding up to a multiple of 4."""
        begin = self._position
        self._position += _pad(count)
        if self._position > len(self._data):
            raise EOFError
        return self._data[begin : begin + count]

    def _read_number(self, size: int) -> int:
        return int.from_bytes(self._read_next(size), "big")

    def _read_count(self) -> int:
        return self._read_number(self._count_bytes)

    def _read_list(self, read: Callable[[], Any]) -> list[tuple[str, Any]]:
        """Names, each with what `read` reads after it."""
        tag = self._read_number(4)
        count = self._read_count()
        is_empty = tag == 0 and count == 0
        if tag not in _LIST_TAGS and not is_empty:
            raise ValueError
        items = []
        for _ in range(count):
            name = self._read_next(self._read_count()).decode("utf-8", "replace")
            items.append((name, read()))
        return items

    def _read_attributes(self) -> Attributes:
        values = self._read_list(self._read_attribute)
        return {name: value for name, value in values if value is not None}

    def _read_attribute(self) -> Any:  # noqa: ANN401 - a value of the neutral form
        dtype = np.dtype(_TYPES[self._read_number(4)][0])
        data = self._read_next(self._read_count() * dtype.itemsize)
        if dtype.kind == "S":
            return as_neutral(data)
        return as_neutral(np.frombuffer(data, dtype).astype(dtype.newbyteorder("=")))

    def _read_variable(self) -> _Variable:
        """A variable, as if its elements were in one piece, and with no records."""
        rank = self._read_count()
        dimensions = [self._dimensions[self._read_count()] for _ in range(rank)]
        names = tuple(name for name, _ in dimensions)
        sizes = tuple(size for _, size in dimensions)
        attributes = self._read_attributes()
        kind = self._read_number(4)
        self._read_count()  # its bytes, which are wrong for large ones
        offset = self._read_number(self._offset_bytes)
        itemsize = np.dtype(_TYPES[kind][0]).itemsize
        strides = tuple(prod(sizes[d + 1 :]) * itemsize for d in range(rank))
        is_record = sizes[:1] == (0,)  # the dimension of the records has size 0 in the header
        return _Variable(kind, offset, sizes, strides, names, attributes, is_record)


def _pad(count: int) -> int:
    """`count` with the bytes of padding, up to a multiple of 4."""
    return count + -count % 4


def _count_step(variables: Iterable[_Variable]) -> int:
    """The bytes from one record to the next: those of the record variables, each padded.

    A single record variable has no padding between its records.
    """
    records = [variable for variable in variables if variable.is_record]
    parts = [prod(variable.sizes[1:]) * variable.dtype.itemsize for variable in records]
    if len(parts) == 1:
        return parts[0]
    return sum(map(_pad, parts))


def _read_header(path: str) -> tuple[_Dataset, Identity]:
    """The header of a file, and the state of the file."""
    with files.open_file(path) as fd:
        identity = fd.identity
        for length in _HEADERS:
            data = fd.read(min(length, identity.size), 0)
            if data[:3] != b"CDF" or len(data) < 4:
                raise FormatError("not a NetCDF-3 file", "CDF as its first bytes", where=path)
            try:
                return _Parser(data).read_header(), identity
            except EOFError:
                continue
            except (ValueError, KeyError, IndexError):
                raise make_damage_error("has a damaged header", path) from None
    raise make_damage_error("truncated: its header extends beyond its end", path)


class NetCDF3Source(RawSource):
    """A variable of a NetCDF-3 file."""

    def __init__(self, path: str, key: str | None) -> None:
        dataset, identity = _read_header(path)
        names = list(dataset.variables)
        if key is None:
            names = [name for name in names if not dataset.variables[name].is_text]
        key = choose_tensor(names, key, path)
        own = dataset.variables[key]
        name = f"{path}::{key}"
        if own.is_text:
            raise DataTypeError("text", "numbers", where=name)
        require_sizes(own.sizes, name)
        storage = Storage("nc3", {"variable": key}, _LABEL)
        super().__init__(own.locate_elements(path, name), identity, storage, key)
        self.dimensions = own.dimensions
        self._dataset = dataset
        self._own = own
        end = self.tensor.end
        if 0 not in own.sizes and end > identity.size:
            raise make_damage_error(f"truncated: has {identity.size:,} of {end:,} bytes", name)

    def meaning(self) -> Meaning:
        meaning = find_coordinates(self.dimensions, self._find_coordinate)
        own = self._own
        unlimited: tuple[str, ...] = ()
        if own.is_record:
            unlimited = own.dimensions[:1]
        return meaning._replace(
            attributes=own.attributes,
            groups=(self._dataset.attributes,),
            unlimited=unlimited,
            default_fill=_TYPES[own.kind][1],
        )

    def _find_coordinate(self, d: int, name: str) -> Variable | None:
        variable = self._dataset.variables.get(name)
        if variable is None or name == self.key:
            return None
        if not self._is_coordinate(variable, d):
            raise NoCoordinateError
        return self._read_coordinate(name, variable)

    def _is_coordinate(self, variable: _Variable, d: int) -> bool:
        """Whether a variable has one small value, or one text, for each index of that dimension."""
        rank = 2 if variable.is_text else 1
        if len(variable.sizes) != rank or variable.dimensions[0] != self.dimensions[d]:
            return False
        is_whole = variable.sizes[0] == self.sizes[d]
        return is_whole and is_small(variable.sizes, variable.dtype.itemsize)

    def _read_coordinate(self, name: str, variable: _Variable) -> Variable:
        tensor = variable.locate_elements(self.path, f"{self.path}::{name}")
        region = tuple(slice(0, size) for size in variable.sizes)
        values = RawReadTask(tensor, self.unchanged, region).read()
        attributes = dict(variable.attributes)
        if variable.is_text:
            attributes.pop(ENCODING, None)
            return Variable(name, attributes, join_characters(values))
        native = values.dtype.newbyteorder("=")
        return Variable(name, attributes, values.astype(native))


def open_source(location: Location, _types: TextTypes) -> Source:
    """The named variable, or the only one."""
    return NetCDF3Source(location.path, location.key)


def contents(location: Location, _types: TextTypes) -> Contents:
    """What the file holds."""
    dataset, _ = _read_header(location.path)
    items = []
    for name, variable in dataset.variables.items():
        item = Item(
            name,
            sizes=variable.sizes,
            dimensions=variable.dimensions,
            attributes=len(variable.attributes),
        )
        if variable.is_text:
            item = item._replace(what="text")
        else:
            item = item._replace(desc=TensorDesc(data_type_of(variable.dtype), variable.sizes))
        items.append(item)
    sole_key = find_sole_key([item for item in items if item.desc])
    count = len(dataset.attributes)
    return Contents(location.path, "nc3", tuple(items), sole_key, attributes=count, label=_LABEL)
