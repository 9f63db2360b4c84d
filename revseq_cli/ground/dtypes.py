"""DirectML's data types as NumPy dtypes, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.ground import minifloats
from revseq_cli.ground.errors import FormatError, Words, listed
from revseq_cli.ground.tensors import MOST_DIMENSIONS, DataType, TensorDesc, braced

if TYPE_CHECKING:
    from numpy.typing import NDArray

_DTYPES = {
    data_type: minifloats.DTYPES.get(data_type.name)
    or np.dtype("?" if data_type.kind == "bool" else f"{data_type.kind[0]}{data_type.size}")
    for data_type in DataType
}
_DATA_TYPES = {dtype: data_type for data_type, dtype in _DTYPES.items()}


def dtype_of(data_type: DataType) -> np.dtype[Any]:
    """The dtype of a data type, in this machine's byte order."""
    return _DTYPES[data_type]


def data_type_of(dtype: np.dtype[Any]) -> DataType:
    """The data type of a dtype in either byte order; FormatError if a tensor cannot have it.

    The dtypes of the package ml_dtypes are recognized by their names.
    """
    try:
        return _DATA_TYPES.get(dtype.newbyteorder("=")) or DataType[dtype.name.upper()]
    except (KeyError, TypeError):
        known = listed((t.name for t in DataType), len(DataType))
        raise FormatError(f"its data type is {str(dtype)[:80]}", f"one of {known}") from None


def is_big_endian(dtype: np.dtype[Any]) -> bool:
    """Whether elements are stored with the highest byte first; False for elements of one byte."""
    return dtype.itemsize > 1 and dtype == dtype.newbyteorder(">")


def is_nameless(dtype: np.dtype[Any]) -> bool:
    """Whether `dtype` is NumPy's plain void, such as |V2: bytes without the name of a data type."""
    return dtype.type is np.void and not dtype.names and not dtype.subdtype


def named(dtype: np.dtype[Any], asked: DataType | None, where: str, *, big: bool = False) -> np.dtype[Any]:
    """The dtype; for bytes without a name, the dtype of the data type that the user asked for.

    It is little-endian, or big-endian with `big`. FormatError for bytes without a name if `asked` is None or has
    another size.
    """
    if not is_nameless(dtype):
        return dtype
    fitting = [data_type for data_type in DataType if data_type.size == dtype.itemsize]
    if asked in fitting:
        return dtype_of(asked).newbyteorder(">" if big else "<")
    found = f"its data type is {dtype.str}: bytes without a name"
    if not fitting:
        raise FormatError(found, "numbers of 1, 2, 4, 8 or 16 bytes", where=where)
    likely = next((each for each in fitting if each.kind == "minifloat"), fitting[0])
    known = listed((each.name for each in fitting), len(fitting))
    raise FormatError(
        found, f"the data type that they have: one of {known}", Words.of("add {}", dtype=likely.name), where
    )


def require_sizes(sizes: tuple[int, ...], where: str) -> None:
    """FormatError for sizes that no tensor has. The operator refuses more: a scalar, and sizes of 0."""
    if len(sizes) > MOST_DIMENSIONS:
        raise FormatError(
            f"has dimension count {len(sizes)}",
            f"at most {MOST_DIMENSIONS}, and at most 8 in DirectML",
            where=where,
        )
    if sizes and not 0 <= min(sizes) <= max(sizes) < 1 << 63:
        raise FormatError(f"Sizes is {braced(sizes)[:200]}", "sizes from 0 to 2^63 - 1", where=where)


def describe(array: NDArray[Any], name: str = "") -> TensorDesc:
    """The data type and the sizes of an array; FormatError, about `name`, for a dtype that a tensor cannot have."""
    try:
        return TensorDesc(data_type_of(array.dtype), array.shape)
    except FormatError as e:
        raise e.about(name) from None
