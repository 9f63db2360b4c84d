"""The bits of elements: byte order, and words, which are unsigned integers of an element's size.

Comparing and moving words keeps every bit. With floats, NumPy may change a signaling NaN to a quiet one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def word(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of the words for elements of `dtype`: an unsigned integer, or void where there is none of this size."""
    return np.dtype(f"{'u' if dtype.itemsize in (1, 2, 4, 8) else 'V'}{dtype.itemsize}")


def native(values: NDArray[Any]) -> NDArray[Any]:
    """The elements in this machine's byte order; bytes are swapped, not converted, so every bit is kept."""
    return values if values.dtype.isnative else values.byteswap().view(values.dtype.newbyteorder("="))


def bits(values: NDArray[Any]) -> NDArray[Any]:
    """The elements as words in this machine's byte order: of the same shape, and contiguous in C order."""
    return np.ascontiguousarray(native(values)).view(word(values.dtype)).reshape(values.shape)
