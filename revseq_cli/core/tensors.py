"""Data types and sizes of tensors, and regions of them.

This module loads no NumPy, since completion needs it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import TYPE_CHECKING, Any

from revseq_cli.core.errors import UsageError, join_names

if TYPE_CHECKING:
    from numpy.typing import NDArray

Sizes = tuple[int, ...]
# Of a tensor: for each dimension a slice with a start and a stop, without a step.
Region = tuple[slice, ...]


class DataType(Enum):
    """The data types, each with its kind and its size in bytes.

    BOOL and the data types below it are not in DirectML: they need --feature-level none.

    A minifloat has a third entry, its layout, which tells data types of the same size apart.
    """

    FLOAT64 = ("float", 8)
    FLOAT32 = ("float", 4)
    FLOAT16 = ("float", 2)
    INT64 = ("int", 8)
    INT32 = ("int", 4)
    INT16 = ("int", 2)
    INT8 = ("int", 1)
    UINT64 = ("uint", 8)
    UINT32 = ("uint", 4)
    UINT16 = ("uint", 2)
    UINT8 = ("uint", 1)
    BOOL = ("bool", 1)
    COMPLEX64 = ("complex", 8)
    COMPLEX128 = ("complex", 16)
    BFLOAT16 = ("minifloat", 2, "E8M7")
    FLOAT8_E4M3FN = ("minifloat", 1, "E4M3FN")
    FLOAT8_E5M2 = ("minifloat", 1, "E5M2")
    FLOAT8_E4M3FNUZ = ("minifloat", 1, "E4M3FNUZ")
    FLOAT8_E5M2FNUZ = ("minifloat", 1, "E5M2FNUZ")
    FLOAT8_E8M0FNU = ("minifloat", 1, "E8M0FNU")

    def __init__(self, kind: str, size: int, _layout: str = "") -> None:
        self.kind, self.size = kind, size

    @classmethod
    def parse(cls, text: str) -> DataType:
        """The data type with a name, in upper or lower case; UsageError for an unknown name."""
        try:
            return cls[text.strip().upper()]
        except KeyError:
            _refuse_numpy_name(text)
            known = join_names(cls.__members__, len(cls))
            raise UsageError(f"{text[:40]!r} is not a data type", f"one of {known}") from None

    @classmethod
    def parse_length(cls, text: str) -> DataType:
        """The data type with a name, if lengths can have it; UsageError for others."""
        data_type = cls.parse(text)
        if data_type.kind != "uint":
            raise UsageError(f"{data_type.name} is not a data type of lengths", "UINT32 or UINT64")
        return data_type


def _refuse_numpy_name(text: str) -> None:
    """UsageError for a data type as NumPy writes it, such as >f4, with what to type instead."""
    match = re.fullmatch(r"([<>=|]?)([iufbc])(1|2|4|8|16)", text.strip())
    if not match:
        return
    order, letter, size = match.groups()
    names = [
        data_type.name
        for data_type in DataType
        if data_type.kind[0] == letter and data_type.size == int(size)
    ]
    if not names:
        return
    expected = names[0]
    if order == ">":
        swap = f"numpy.fromfile('x.bin', '{text}').astype('<{letter}{size}').tofile('y.bin')"
        expected = f"little-endian data and {names[0]}; in Python, this swaps the bytes: {swap}"
    raise UsageError(f"{text!r} is not a data type", expected)


@dataclass(frozen=True)
class TensorDesc:
    """The data type and the sizes of a tensor, without its values."""

    data_type: DataType
    sizes: tuple[int, ...]

    @property
    def dimension_count(self) -> int:
        return len(self.sizes)

    @property
    def element_count(self) -> int:
        """The number of elements: the product of the sizes."""
        return prod(self.sizes)

    @property
    def total_bytes(self) -> int:
        return self.element_count * self.data_type.size

    def __str__(self) -> str:
        return f"(Sizes:{in_braces(self.sizes)}, DataType:{self.data_type.name})"


MOST_DIMENSIONS = 64  # NumPy's limit; DirectML's feature levels accept fewer


def numbers_of(rank: int) -> str:
    """The indices of that many dimensions, in words: 0 to 2, or 0 if there is only one."""
    return f"0 to {rank - 1}" if rank > 1 else "0"


def in_braces(sizes: tuple[int, ...]) -> str:
    """Sizes as the reference page writes them: {1,1,3,4}."""
    return "{" + ",".join(map(str, sizes)) + "}"


def sizes_of(region: Region) -> tuple[int, ...]:
    """The sizes of a region."""
    return tuple(part.stop - part.start for part in region)


def chunk_boxes(region: Region, chunks: tuple[int, ...]) -> Iterator[Region]:
    """The part of each chunk that is in the region, one after another without a list of all."""
    if not region:
        yield ()
        return
    part, chunk = region[0], chunks[0]
    for start in range(part.start // chunk * chunk, part.stop, chunk):
        for rest in chunk_boxes(region[1:], chunks[1:]):
            yield slice(max(start, part.start), min(start + chunk, part.stop)), *rest


def chunk_start(part: Region, chunks: tuple[int, ...]) -> list[int]:
    """The first index, in each dimension, of the chunk that contains the part."""
    return [side.start // chunk * chunk for side, chunk in zip(part, chunks, strict=True)]


def inside(part: Region, whole: Region) -> Region:
    """A part of a region, as indices into that region's values."""
    return tuple(
        slice(p.start - w.start, p.stop - w.start) for p, w in zip(part, whole, strict=True)
    )


def shift(part: Region, whole: Region) -> Region:
    """A part of a region's values, as a region of the tensor: the opposite of `inside`."""
    return tuple(
        slice(p.start + w.start, p.stop + w.start) for p, w in zip(part, whole, strict=True)
    )


def split_chunks(
    region: Region, values: NDArray[Any], chunks: tuple[int, ...]
) -> Iterator[tuple[Region, NDArray[Any]]]:
    """The chunks of a region, each as its region of the tensor and its values.

    The region begins at the start of a chunk. Where it ends inside a chunk, so does the last part.
    """
    for box in chunk_boxes(region, chunks):
        yield box, values[inside(box, region)]
