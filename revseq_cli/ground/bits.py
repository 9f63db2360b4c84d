"""Elements as bits: words, which are unsigned integers of an element's size, and byte order.

Words are compared and moved without a change of value; floats are not, since NumPy may make a signaling NaN quiet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def word(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of the words for elements of that dtype: unsigned integers, or void above 8 bytes."""
    return np.dtype(f"u{dtype.itemsize}") if dtype.itemsize <= 8 else np.dtype(f"V{dtype.itemsize}")


def native(values: NDArray[Any]) -> NDArray[Any]:
    """The elements in this machine's byte order, with every bit kept: bytes are swapped, not converted."""
    return values if values.dtype.isnative else values.byteswap().view(values.dtype.newbyteorder("="))


def bits(values: NDArray[Any]) -> NDArray[Any]:
    """The elements as words in this machine's byte order; the shape stays, the memory order becomes C."""
    return np.ascontiguousarray(native(values)).view(word(values.dtype)).reshape(values.shape)
