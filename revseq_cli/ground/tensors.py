"""What a tensor is, without its values: data type and sizes. It loads no NumPy, since options complete from it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import prod

from revseq_cli.ground.errors import UsageError, listed


class DataType(Enum):
    """DirectML's data types, each with its kind and its size in bytes; those from BOOL on only at level none.

    The floats that NumPy lacks have their bits as well: those of the exponent and of the mantissa.
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

    @property
    def kind(self) -> str:
        """One of float, int, uint, bool, complex, minifloat."""
        kind: str = self.value[0]
        return kind

    @property
    def size(self) -> int:
        """Bytes of an element."""
        size: int = self.value[1]
        return size

    @classmethod
    def parse(cls, text: str) -> DataType:
        """The data type of that name, in any case; UsageError otherwise."""
        try:
            return cls[text.strip().upper()]
        except KeyError:
            known = listed(cls.__members__, len(cls))
            raise UsageError(f"{text[:40]!r} is not a data type", f"one of {known}") from None

    @classmethod
    def parse_length(cls, text: str) -> DataType:
        """The data type of lengths of that name; UsageError for one that no lengths have."""
        data_type = cls.parse(text)
        if data_type.kind != "uint":
            raise UsageError(f"{data_type.name} is no data type of lengths", "UINT32 or UINT64")
        return data_type


@dataclass(frozen=True)
class TensorDesc:
    """A tensor without its values: data type and sizes."""

    data_type: DataType
    sizes: tuple[int, ...]

    @property
    def dimension_count(self) -> int:
        """How many dimensions it has."""
        return len(self.sizes)

    @property
    def element_count(self) -> int:
        """How many elements it has."""
        return prod(self.sizes)

    @property
    def total_bytes(self) -> int:
        """Bytes of all elements."""
        return self.element_count * self.data_type.size

    def __str__(self) -> str:
        return f"(Sizes:{braced(self.sizes)}, DataType:{self.data_type.name})"


MOST_DIMENSIONS = 64  # of any tensor, since NumPy has no more; DirectML's levels have fewer


def braced(sizes: tuple[int, ...]) -> str:
    """Sizes as the reference page writes them: {1,1,3,4}."""
    return "{" + ",".join(map(str, sizes)) + "}"
