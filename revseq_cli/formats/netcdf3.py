"""NetCDF-3 files as inputs: classic, with 64-bit offsets, and with 64-bit data. They are never written.

Elements are big-endian, and lie in the file as they are; those of a record variable are in each record. Source of the
format: the NetCDF Users' Guide, "The NetCDF Classic Format Specification".
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
    Variable,
    is_small,
    joined,
    plain,
)
from revseq_cli.formats.contents import Contents, Item, chosen, not_whole, only_of
from revseq_cli.formats.contract import Address, Source, Storage, TextTypes
from revseq_cli.formats.raw import RawReadTask, RawSource, RawTensor

_HEADERS = (1 << 16, 1 << 20, 1 << 26)  # bytes that are read, until they hold the whole header
# By the number of a type: its dtype, and the value that the library fills variables with.
_TYPES: dict[int, tuple[str, float | None]] = {
    1: ("i1", None), 2: ("S1", None), 3: (">i2", -32767), 4: (">i4", -2147483647), 5: (">f4", 9.969209968386869e36),
    6: (">f8", 9.969209968386869e36), 7: ("u1", None), 8: (">u2", 65535), 9: (">u4", 4294967295),
    10: (">i8", -9223372036854775806), 11: (">u8", 18446744073709551614),
}  # fmt: skip
_TEXT = 2


class _Variable(NamedTuple):
    """A variable as the header describes it; with `is_record`, its first dimension grows with the records."""

    tensor: RawTensor
    kind: int
    dimensions: tuple[str, ...]
    attributes: Attributes
    is_record: bool


# What a header says: the variables, and the attributes of the file.
_Header = tuple[dict[str, _Variable], Attributes]


def _parsed(data: bytes, path: str) -> _Header:
    """The header that the first bytes of a file hold; EOFError where it goes on behind them."""
    stream, wide, far = io.BytesIO(data[4:]), 8 if data[3] == 5 else 4, 4 if data[3] == 1 else 8

    def take(count: int) -> bytes:
        taken = stream.read(min(count, len(data)) + -count % 4)  # and the padding behind it
        if len(taken) < count + -count % 4:
            raise EOFError
        return taken[:count]

    def number(size: int = wide) -> int:
        return int.from_bytes(take(size), "big")

    def named(read: Callable[[], Any]) -> list[tuple[str, Any]]:
        """A list of dimensions, attributes or variables behind their tag, which is 0 for none."""
        tag, count = number(4), number()
        if tag not in (0, 10, 11, 12) or (count and not tag):
            raise ValueError
        return [(take(number()).decode("utf-8", "replace"), read()) for _ in range(count)]

    def attribute() -> Any:  # noqa: ANN401 - a value of the neutral form
        dtype = np.dtype(_TYPES[number(4)][0])
        value = take(number() * dtype.itemsize)
        return plain(
            value
            if dtype.kind == "S"
            else np.frombuffer(value, dtype).astype(dtype.newbyteorder("="))
        )

    def attributes() -> Attributes:
        return {name: value for name, value in named(attribute) if value is not None}

    def variable() -> _Variable:
        dims = [dimensions[number()] for _ in range(number())]
        stated, kind = attributes(), number(4)
        number()  # its bytes, which are wrong for large ones
        sizes, dtype = tuple(size for _, size in dims), np.dtype(_TYPES[kind][0])
        tensor = RawTensor(path, "", number(far), dtype, sizes)
        return _Variable(tensor, kind, tuple(name for name, _ in dims), stated, sizes[:1] == (0,))

    records, dimensions = number(), named(number)
    of_file, variables = attributes(), dict(named(variable))
    growing = [variable.tensor for variable in variables.values() if variable.is_record]
    steps = [prod(tensor.sizes[1:]) * tensor.dtype.itemsize for tensor in growing]
    # One record variable alone has no padding between its records.
    record = sum(step + -step % 4 * (len(steps) > 1) for step in steps)
    for name, read in variables.items():
        sizes, item = read.tensor.sizes, read.tensor.dtype.itemsize
        strides = tuple(prod(sizes[d + 1 :]) * item for d in range(len(sizes)))
        if read.is_record:
            sizes, strides = (records, *sizes[1:]), (record, *strides[1:])
        placed = replace(read.tensor, name=f"{path}::{name}", sizes=sizes, strides=strides)
        variables[name] = read._replace(tensor=placed)
    return variables, of_file


def _read(path: str) -> tuple[_Header, base.Identity]:
    with files.open_file(path) as fd:
        identity = fd.identity
        for length in _HEADERS:
            data = fd.read(min(length, identity.size), 0)
            if data[:3] != b"CDF" or len(data) < 4:
                raise FormatError("not a NetCDF-3 file", "CDF as its first bytes", where=path)
            try:
                return _parsed(data, path), identity
            except EOFError:
                continue
            except (ValueError, KeyError, IndexError):
                raise not_whole("has a damaged header", path) from None
    raise not_whole("truncated: its header extends beyond its end", path)


class NetCDF3Source(RawSource):
    """A variable of a NetCDF-3 file."""

    def __init__(self, path: str, key: str | None) -> None:
        (variables, self._of_file), identity = _read(path)
        tensors = [name for name, variable in variables.items() if variable.kind != _TEXT]
        key = chosen(variables if key is not None else tensors, key, path)
        own = variables[key]
        self._variables = variables
        if own.kind == _TEXT:
            raise FormatError("its data type is text", "numbers", where=own.tensor.name)
        require_sizes(own.tensor.sizes, own.tensor.name)
        super().__init__(own.tensor, identity, Storage("nc3", {"variable": key}), key)
        self.dimensions = own.dimensions
        last = sum(
            (size - 1) * step
            for size, step in zip(self.sizes, self.tensor.strides or (), strict=True)
        )
        end = self.tensor.offset + last + self.dtype.itemsize
        if prod(self.sizes) and end > identity.size:
            raise not_whole(
                f"truncated: {identity.size} bytes, and its values end at {end}", self.name
            )

    def meaning(self) -> Meaning:
        coordinates, left = list[Variable](), list[str]()
        for d, name in enumerate(self.dimensions):
            variable = self._variables.get(name)
            if variable is None or name == self.key or name in self.dimensions[:d]:
                continue
            is_text, attributes, tensor = (
                variable.kind == _TEXT,
                dict(variable.attributes),
                variable.tensor,
            )
            is_one = variable.dimensions[:1] == (name,) and len(tensor.sizes) == 1 + is_text
            if (
                not is_one
                or tensor.sizes[0] != self.sizes[d]
                or not is_small(tensor.sizes, tensor.dtype.itemsize)
            ):
                left.append(f"the variable {name}")
                continue
            values = RawReadTask(
                tensor, self.unchanged, tuple(slice(0, n) for n in tensor.sizes)
            ).read()
            if is_text:
                attributes.pop(ENCODING, None)
            values = joined(values) if is_text else values.astype(values.dtype.newbyteorder("="))
            coordinates.append(Variable(name, attributes, values))
        own = self._variables[self.key]
        unlimited = own.dimensions[:1] if own.is_record else ()
        fill = _TYPES[own.kind][1]
        return Meaning(
            own.dimensions,
            own.attributes,
            tuple(coordinates),
            (self._of_file,),
            unlimited,
            tuple(left),
            fill,
        )


def open_source(address: Address, types: TextTypes) -> Source:  # noqa: ARG001 - the file names its types
    """The named variable, or the only one."""
    return NetCDF3Source(address.path, address.key)


def contents(address: Address, types: TextTypes) -> Contents | None:  # noqa: ARG001 - the file names its types
    """What the file holds; None where the address has the name of a variable."""
    if address.key is not None:
        return None
    (variables, attributes), _ = _read(address.path)
    items = []
    for name, variable in variables.items():
        tensor, words = variable.tensor, "text" if variable.kind == _TEXT else ""
        desc = None if words else TensorDesc(data_type_of(tensor.dtype), tensor.sizes)
        items.append(
            Item(name, desc, words, 0, tensor.sizes, variable.dimensions, len(variable.attributes))
        )
    only = only_of([item for item in items if item.desc])
    return Contents(address.path, "nc3", tuple(items), only, attributes=len(attributes))
