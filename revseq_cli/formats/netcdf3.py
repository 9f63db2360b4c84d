"""NetCDF-3 files as inputs: classic, with 64-bit offsets, and with 64-bit data.

They are never written.

Elements are big-endian, and lie in the file as they are; those of a record variable are in each
record. Source of the format: the NetCDF Users' Guide, "The NetCDF Classic Format Specification".
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

import numpy as np

from revseq_cli import files
from revseq_cli.core.dtypes import data_type_of, require_sizes
from revseq_cli.core.errors import FormatError
from revseq_cli.core.tensors import TensorDesc
from revseq_cli.files import base
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
from revseq_cli.formats.refusals import choose_tensor, damaged_file

_HEADERS = (1 << 16, 1 << 20, 1 << 26)  # bytes that are read, until they hold the whole header
# By the number of a type: its dtype, and the value that the library fills variables with.
_TYPES: dict[int, tuple[str, float | None]] = {
    1: ("i1", None), 2: ("S1", None), 3: (">i2", -32767), 4: (">i4", -2147483647),
    5: (">f4", 9.969209968386869e36), 6: (">f8", 9.969209968386869e36),
    7: ("u1", None), 8: (">u2", 65535), 9: (">u4", 4294967295),
    10: (">i8", -9223372036854775806), 11: (">u8", 18446744073709551614),
}  # fmt: skip
_TEXT = 2
_LABEL = "NetCDF-3"  # what people call such a file


class _Variable(NamedTuple):
    """A variable as the header describes it.

    With `is_record`, its first dimension grows with the records.
    """

    tensor: RawTensor
    kind: int
    dimensions: tuple[str, ...]
    attributes: Attributes
    is_record: bool

    @property
    def is_text(self) -> bool:
        """Whether it holds characters, and so is no tensor."""
        return self.kind == _TEXT


# What a header says: the variables, and the attributes of the file.
_Header = tuple[dict[str, _Variable], Attributes]


class _Parser:
    """Reads a header from the first bytes of a file; EOFError where the header goes on after them.

    ValueError, KeyError and IndexError come from damage.
    """

    def __init__(self, data: bytes, path: str) -> None:
        version = data[3]
        self._stream = io.BytesIO(data[4:])
        self._length = len(data)
        self._path = path
        # Bytes of a count, and of an offset in the file.
        self._count_bytes = 8 if version == 5 else 4
        self._offset_bytes = 4 if version == 1 else 8
        self._dimensions: list[tuple[str, int]] = []

    def read_header(self) -> _Header:
        """The variables by their names, and the attributes of the file."""
        records = self._read_number()
        self._dimensions = self._read_list(self._read_number)
        of_file = self._read_attributes()
        variables = dict(self._read_list(self._read_variable))
        record_bytes = _count_record_bytes(variables)
        for name, variable in variables.items():
            tensor = _place(variable, f"{self._path}::{name}", records, record_bytes)
            variables[name] = variable._replace(tensor=tensor)
        return variables, of_file

    def _read_next(self, count: int) -> bytes:
        """So many bytes, after which there is padding up to a multiple of 4."""
        padded = count + -count % 4
        data = self._stream.read(min(padded, self._length + 4))
        if len(data) < padded:
            raise EOFError
        return data[:count]

    def _read_number(self, size: int = 0) -> int:
        return int.from_bytes(self._read_next(size or self._count_bytes), "big")

    def _read_list(self, read: Callable[[], Any]) -> list[tuple[str, Any]]:
        """Names with what `read` reads after each.

        The list begins with a tag, which is 0 for an empty one.
        """
        tag = self._read_number(4)
        count = self._read_number()
        if tag not in (0, 10, 11, 12) or (count and not tag):
            raise ValueError
        items = []
        for _ in range(count):
            name = self._read_next(self._read_number()).decode("utf-8", "replace")
            items.append((name, read()))
        return items

    def _read_attributes(self) -> Attributes:
        values = self._read_list(self._read_attribute)
        return {name: value for name, value in values if value is not None}

    def _read_attribute(self) -> Any:  # noqa: ANN401 - a value of the neutral form
        dtype = np.dtype(_TYPES[self._read_number(4)][0])
        data = self._read_next(self._read_number() * dtype.itemsize)
        if dtype.kind == "S":
            return as_neutral(data)
        return as_neutral(np.frombuffer(data, dtype).astype(dtype.newbyteorder("=")))

    def _read_variable(self) -> _Variable:
        """A variable, whose tensor has no strides yet.

        Those of a record variable depend on the others.
        """
        count = self._read_number()
        dimensions = [self._dimensions[self._read_number()] for _ in range(count)]
        names = tuple(name for name, _ in dimensions)
        sizes = tuple(size for _, size in dimensions)
        attributes = self._read_attributes()
        kind = self._read_number(4)
        self._read_number()  # its bytes, which are wrong for large ones
        offset = self._read_number(self._offset_bytes)
        tensor = RawTensor(self._path, "", offset, np.dtype(_TYPES[kind][0]), sizes)
        return _Variable(tensor, kind, names, attributes, is_record=sizes[:1] == (0,))


def _count_record_bytes(variables: dict[str, _Variable]) -> int:
    """The bytes from one record to the next: the record variables one after another, each padded.

    A single record variable has no padding between its records.
    """
    steps = []
    for variable in variables.values():
        if variable.is_record:
            tensor = variable.tensor
            steps.append(prod(tensor.sizes[1:]) * tensor.dtype.itemsize)
    if len(steps) == 1:
        return steps[0]
    return sum(step + -step % 4 for step in steps)


def _place(variable: _Variable, name: str, records: int, record_bytes: int) -> RawTensor:
    """The tensor of a variable, with its name for messages and its strides."""
    sizes, itemsize = variable.tensor.sizes, variable.tensor.dtype.itemsize
    strides = tuple(prod(sizes[d + 1 :]) * itemsize for d in range(len(sizes)))
    if variable.is_record:
        sizes = (records, *sizes[1:])
        strides = (record_bytes, *strides[1:])
    return replace(variable.tensor, name=name, sizes=sizes, strides=strides)


def _read(path: str) -> tuple[_Header, base.Identity]:
    with files.open_file(path) as fd:
        identity = fd.identity
        for length in _HEADERS:
            data = fd.read(min(length, identity.size), 0)
            if data[:3] != b"CDF" or len(data) < 4:
                raise FormatError("not a NetCDF-3 file", "CDF as its first bytes", where=path)
            try:
                return _Parser(data, path).read_header(), identity
            except EOFError:
                continue
            except (ValueError, KeyError, IndexError):
                raise damaged_file("has a damaged header", path) from None
    raise damaged_file("truncated: its header extends beyond its end", path)


class NetCDF3Source(RawSource):
    """A variable of a NetCDF-3 file."""

    def __init__(self, path: str, key: str | None) -> None:
        (variables, self._of_file), identity = _read(path)
        tensors = [name for name, variable in variables.items() if not variable.is_text]
        key = choose_tensor(variables if key is not None else tensors, key, path)
        own = variables[key]
        self._variables = variables
        if own.is_text:
            raise FormatError("its data type is text", "numbers", where=own.tensor.name)
        require_sizes(own.tensor.sizes, own.tensor.name)
        super().__init__(own.tensor, identity, Storage("nc3", {"variable": key}, _LABEL), key)
        self.dimensions = own.dimensions
        last = sum(
            (size - 1) * step
            for size, step in zip(self.sizes, self.tensor.strides or (), strict=True)
        )
        end = self.tensor.offset + last + self.dtype.itemsize
        if prod(self.sizes) and end > identity.size:
            raise damaged_file(f"truncated: has {identity.size:,} of {end:,} bytes", self.name)

    def meaning(self) -> Meaning:
        coordinates = find_coordinates(self.dimensions, self._find_coordinate)
        own = self._variables[self.key]
        return Meaning(
            own.dimensions,
            own.attributes,
            coordinates.variables,
            groups=(self._of_file,),
            unlimited=own.dimensions[:1] if own.is_record else (),
            left=coordinates.left,
            uncopied=coordinates.uncopied,
            default_fill=_TYPES[own.kind][1],
        )

    def _find_coordinate(self, d: int, name: str) -> Variable | None:
        variable = self._variables.get(name)
        if variable is None or name == self.key:
            return None
        if not self._is_coordinate(variable, d):
            raise NoCoordinateError
        return self._read_coordinate(name, variable)

    def _is_coordinate(self, variable: _Variable, d: int) -> bool:
        """Whether a variable has one small value, or one text, for each index of that dimension."""
        tensor = variable.tensor
        rank = 2 if variable.is_text else 1
        if len(tensor.sizes) != rank or variable.dimensions[0] != self.dimensions[d]:
            return False
        is_whole = tensor.sizes[0] == self.sizes[d]
        return is_whole and is_small(tensor.sizes, tensor.dtype.itemsize)

    def _read_coordinate(self, name: str, variable: _Variable) -> Variable:
        region = tuple(slice(0, size) for size in variable.tensor.sizes)
        values = RawReadTask(variable.tensor, self.unchanged, region).read()
        attributes = dict(variable.attributes)
        if not variable.is_text:
            native = values.dtype.newbyteorder("=")
            return Variable(name, attributes, values.astype(native))
        attributes.pop(ENCODING, None)
        return Variable(name, attributes, join_characters(values))


def open_source(location: Location, types: TextTypes) -> Source:  # noqa: ARG001
    """The named variable, or the only one."""
    return NetCDF3Source(location.path, location.key)


def contents(location: Location, types: TextTypes) -> Contents | None:  # noqa: ARG001
    """What the file holds; None where the location names a variable."""
    if location.key is not None:
        return None
    (variables, attributes), _ = _read(location.path)
    items = []
    for name, variable in variables.items():
        tensor = variable.tensor
        item = Item(
            name,
            sizes=tensor.sizes,
            dimensions=variable.dimensions,
            attributes=len(variable.attributes),
        )
        if variable.is_text:
            item = item._replace(what="text")
        else:
            item = item._replace(desc=TensorDesc(data_type_of(tensor.dtype), tensor.sizes))
        items.append(item)
    sole_key = find_sole_key([item for item in items if item.desc])
    count = len(attributes)
    return Contents(location.path, "nc3", tuple(items), sole_key, attributes=count, label=_LABEL)
