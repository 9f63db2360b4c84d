"""The floats that NumPy lacks, BFLOAT16 and those of 8 bits: how arrays hold them, and the number of each word.

A tensor of such a data type is an array of structures with one field: the field has the data type's name, and its value
is the word, that is, the element's bits as an unsigned integer. So an array says which data type it has, its elements
are moved like any others, and NumPy refuses to compute with them.
Sources: the tables of ml_dtypes and of the ONNX operators' page "Float stored in 8 bits"; OCP MX for E8M0.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class _Layout(NamedTuple):
    """The bits of the exponent and of the mantissa, the exponent's bias, and the word of the usual NaN.

    `special` says which words are no finite numbers. "ieee": infinities and NaNs have the highest exponent. "fn": a NaN
    for each sign has all other bits set. "fnuz": the only NaN has the word that -0.0 would have.
    """

    exponent: int
    mantissa: int
    bias: int
    nan: int
    special: str
    signed: bool = True

    @property
    def bits(self) -> int:
        return self.signed + self.exponent + self.mantissa


_LAYOUTS = {
    "BFLOAT16": _Layout(8, 7, 127, 0x7FC0, "ieee"),
    "FLOAT8_E4M3FN": _Layout(4, 3, 7, 0x7F, "fn"),
    "FLOAT8_E5M2": _Layout(5, 2, 15, 0x7E, "ieee"),
    "FLOAT8_E4M3FNUZ": _Layout(4, 3, 8, 0x80, "fnuz"),
    "FLOAT8_E5M2FNUZ": _Layout(5, 2, 16, 0x80, "fnuz"),
    "FLOAT8_E8M0FNU": _Layout(8, 0, 127, 0xFF, "fn", signed=False),
}
DTYPES = {name: np.dtype([(name, f"u{layout.bits // 8}")]) for name, layout in _LAYOUTS.items()}


def is_minifloat(dtype: np.dtype[Any]) -> bool:
    """Whether it is a dtype of this module, in either byte order."""
    return bool(dtype.names and DTYPES.get(dtype.names[0]) == dtype.newbyteorder("="))


def numbers(values: NDArray[Any]) -> NDArray[Any]:
    """The elements as FLOAT32, which holds every one of them exactly; of another data type, as they are."""
    if not is_minifloat(values.dtype):
        return values
    name = values.dtype.names[0]  # type: ignore[index]
    numbers: NDArray[Any] = _table(name)[values[name]]
    return numbers


@functools.cache
def _table(name: str) -> NDArray[np.float32]:
    """The number of each word, by its value: shape (256,) or (65536,)."""
    layout = _LAYOUTS[name]
    words = np.arange(1 << layout.bits)
    exponent, mantissa = words >> layout.mantissa & ((1 << layout.exponent) - 1), words & ((1 << layout.mantissa) - 1)
    fraction = mantissa / (1 << layout.mantissa)
    # Without mantissa bits there is no 0 and nothing below the normal numbers.
    normal = (exponent > 0) | (layout.mantissa == 0)
    magnitude = np.ldexp(fraction + normal, np.where(normal, exponent, 1) - layout.bias)
    highest = exponent == (1 << layout.exponent) - 1
    if layout.special == "ieee":
        magnitude[highest] = np.where(mantissa[highest], np.nan, np.inf)
    elif layout.special == "fn":
        magnitude[highest & (mantissa == (1 << layout.mantissa) - 1)] = np.nan
    else:
        magnitude[layout.nan] = np.nan
    negative = layout.signed & (words >> (layout.bits - 1) == 1)
    numbers: NDArray[np.float32] = np.where(negative, -magnitude, magnitude).astype(np.float32)
    return numbers


def render(values: NDArray[Any]) -> list[str]:
    """Each element as text, in C order: in four digits, which tell all numbers apart; an unusual NaN with its bits."""
    name = values.dtype.names[0]  # type: ignore[index]
    usual = _LAYOUTS[name].nan
    pairs = zip(numbers(values).ravel().tolist(), values[name].ravel().tolist(), strict=True)
    return [f"{number:.4g}" if number == number or word == usual else f"nan({word:#x})" for number, word in pairs]
