"""The floats that NumPy lacks, BFLOAT16 and those of 8 bits: how arrays hold them, and the number of each word.

An array of such a data type has a structured dtype with one field. The field has the data type's name, and its value is
the word: the element's bits as an unsigned integer. So the dtype names the data type, elements are copied like any
others, and NumPy refuses to compute with them.
Sources: the tables of ml_dtypes and of the ONNX operators' page "Float stored in 8 bits"; OCP MX for E8M0.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class _Layout(NamedTuple):
    """How many bits exponent and mantissa have, the exponent's bias, and the word of the usual NaN.

    `special` says which words are not finite numbers. "ieee": infinities and NaNs have the highest exponent. "fn": all
    bits but the sign are set in a NaN. "fnuz": the only NaN has the word that -0.0 would have.
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
    """Whether `dtype` is one of DTYPES, in either byte order."""
    return bool(dtype.names and DTYPES.get(dtype.names[0]) == dtype.newbyteorder("="))


def is_signed(dtype: np.dtype[Any]) -> bool:
    """Whether `dtype` is a minifloat whose words have a sign."""
    return is_minifloat(dtype) and _LAYOUTS[dtype.names[0]].signed  # type: ignore[index]


def numbers(values: NDArray[Any]) -> NDArray[Any]:
    """Minifloats as FLOAT32, which holds each of them exactly; elements of other dtypes unchanged."""
    if not is_minifloat(values.dtype):
        return values
    name = values.dtype.names[0]  # type: ignore[index]
    numbers: NDArray[Any] = _table(name)[values[name]]
    return numbers


@functools.cache
def _table(name: str) -> NDArray[np.float32]:
    """The numbers of all words, indexed by the word: of shape (256,) or (65536,)."""
    layout = _LAYOUTS[name]
    words = np.arange(1 << layout.bits)
    exponent, mantissa = words >> layout.mantissa & ((1 << layout.exponent) - 1), words & ((1 << layout.mantissa) - 1)
    fraction = mantissa / (1 << layout.mantissa)
    # A layout without mantissa bits has neither 0 nor subnormal numbers.
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
    """Each element as text, in C order: four digits, which tell all numbers apart; an unusual NaN with its word."""
    name = values.dtype.names[0]  # type: ignore[index]
    usual = _LAYOUTS[name].nan
    pairs = zip(numbers(values).ravel().tolist(), values[name].ravel().tolist(), strict=True)
    return [f"{number:.4g}" if number == number or word == usual else f"nan({word:#x})" for number, word in pairs]
