"""DirectML's data types as NumPy dtypes, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.errors import FormatError, listed
from revseq_cli.spec import MOST_DIMENSIONS, DataType, TensorDesc, braced

if TYPE_CHECKING:
    from numpy.typing import NDArray

_DTYPES = {
    data_type: np.dtype("?" if data_type.kind == "bool" else f"{data_type.kind[0]}{data_type.size}")
    for data_type in DataType
}
_DATA_TYPES = {dtype: data_type for data_type, dtype in _DTYPES.items()}


def dtype_of(data_type: DataType) -> np.dtype[Any]:
    """The dtype of that data type, in this machine's byte order."""
    return _DTYPES[data_type]


def data_type_of(dtype: np.dtype[Any]) -> DataType:
    """The data type of a dtype in either byte order; FormatError for a type that no tensor has."""
    try:
        return _DATA_TYPES[dtype.newbyteorder("=")]
    except (KeyError, TypeError):
        known = listed((t.name for t in DataType), len(DataType))
        raise FormatError(f"its data type is {str(dtype)[:80]}", f"one of {known}") from None


def require_sizes(sizes: tuple[int, ...], where: str) -> None:
    """FormatError for sizes that no tensor has."""
    if not 1 <= len(sizes) <= MOST_DIMENSIONS:
        raise FormatError(
            f"has dimension count {len(sizes)}", f"1 to {MOST_DIMENSIONS}, and at most 8 in DirectML", where=where
        )
    if min(sizes) < 1 or max(sizes) >= 1 << 63:
        raise FormatError(f"Sizes is {braced(sizes)[:200]}", "sizes of at least 1, and less than 2^63", where=where)


def describe(array: NDArray[Any]) -> TensorDesc:
    """An array's data type and sizes."""
    return TensorDesc(data_type_of(array.dtype), array.shape)
