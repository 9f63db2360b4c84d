"""Numbers as text: parsed exactly, and rendered so that they read back to the same bits.

An integral number (300, 1.0) must fit its data type exactly. A fraction, or a number with an
exponent, is rounded to the nearest value. No number is wrapped, truncated or turned into infinity.
BOOL takes only 0 and 1.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revseq_cli.core import dtypes, signals
from revseq_cli.core.dtypes import bits, word_of
from revseq_cli.core.tensors import DataType

LONGEST = 1100  # characters of a number: the longest exact decimal of a FLOAT64 has 1,077
_RENDERED_AT_ONCE = 1 << 16  # numbers, which take 0.2 s
_SHOWN = 40  # characters of a number that are repeated in a message

_INTEGER_CHARACTERS = b"0123456789,+-"
_FLOAT_CHARACTERS = b"0123456789eE.,+-"
# 1.0D+00 is Fortran's.
_NUMBER = re.compile(
    r"([+-]?(?:\d+\.?\d*|\.\d+))(?:[eEdD]([+-]?\d{1,9}))?f?",
    re.ASCII,
)
_INTEGRAL = re.compile(r"([+-]?\d+)(?:\.0*)?f?", re.ASCII)
# JSON has them in quotes. A NaN that is not the usual one is written with its bits.
_SPECIAL = re.compile(
    r"(\"?)(?P<value>[+-]?inf(?:inity)?|nan(?:\(0x(?P<bits>[0-9a-f]{1,16})\))?)\1",
    re.IGNORECASE,
)
_PART = r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d{1,9})?|inf|nan(?:\(0x[0-9a-f]{1,16}\))?)"
# 1+2j, (1+2j) of a Python list, and 2j; JSON has them in quotes.
_COMPLEX = re.compile(
    rf"(\"?)\(?(?:(?P<real>{_PART})(?=[+-]))?(?P<imaginary>{_PART})j\)?\1",
    re.ASCII | re.IGNORECASE,
)
# The bits of a minifloat, as they are printed without the package ml_dtypes.
_BITS = re.compile(r"(\"?)0x(?P<bits>[0-9a-f]{1,4})\1", re.IGNORECASE)


class LiteralError(ValueError):
    """The number at `index` cannot be held by its data type; `problem` says why."""

    def __init__(self, index: int, problem: str) -> None:
        super().__init__(index, problem)
        self.index = index
        self.problem = problem


def parse_numbers(tokens: Sequence[str], data_type: DataType) -> NDArray[Any]:
    """The numbers as an array of shape (len(tokens),).

    LiteralError for the first number that the data type cannot hold, and FormatError for decimal
    numbers of a type that needs the package ml_dtypes.
    """
    _require_short(tokens)
    if data_type.kind == "float":
        return _parse_floats(tokens, _make_float_type(data_type.name, dtypes.dtype_of(data_type)))
    if data_type.kind == "complex":
        return _parse_complex(tokens, data_type)
    if data_type.kind == "minifloat":
        return _parse_minifloats(tokens, data_type)
    return _parse_integers(tokens, data_type)


def is_number(token: str) -> bool:
    """Whether the token is written as a number of any data type, whatever its size."""
    return any(form.fullmatch(token) for form in (_NUMBER, _SPECIAL, _COMPLEX, _BITS))


def _require_short(tokens: Sequence[str]) -> None:
    if max(map(len, tokens), default=0) <= LONGEST:
        return
    for i, token in enumerate(tokens):
        if len(token) > LONGEST:
            problem = f"a number of {len(token)} characters; at most {LONGEST} are allowed"
            raise LiteralError(i, problem)


def _read_plain(
    kind: type[int | float], tokens: Sequence[str], characters: bytes
) -> list[Any] | None:
    """The numbers as int() or float() reads them; None if a token is not a number for these.

    It is None also for what only Python reads: names such as inf, underscores and blanks. For
    integers this takes a sixth of the time of the patterns above, for floats two fifths.
    """
    joined = ",".join(tokens)
    if joined.isascii() and not joined.encode().translate(None, characters):
        with contextlib.suppress(ValueError):
            return list(map(kind, tokens))
    return None


def _read_exact(token: str) -> Decimal | None:
    """The exact number; None for a NaN, an infinity, and what is not a number."""
    number = _NUMBER.fullmatch(token)
    if not number:
        return None
    return Decimal(f"{number[1]}e{number[2] or 0}")


# Integers


@dataclass(frozen=True)
class _IntegerType:
    """A type of integers: its name and its range."""

    name: str
    least: int
    most: int

    def has_all(self, numbers: Sequence[int]) -> bool:
        return self.least <= min(numbers) and max(numbers) <= self.most


def _parse_integers(tokens: Sequence[str], data_type: DataType) -> NDArray[Any]:
    dtype = dtypes.dtype_of(data_type)
    kind = _IntegerType(data_type.name, 0, 1)
    if dtype.kind != "b":
        limits = np.iinfo(dtype)
        kind = _IntegerType(data_type.name, int(limits.min), int(limits.max))
    numbers = _read_plain(int, tokens, _INTEGER_CHARACTERS)
    if numbers and kind.has_all(numbers):
        return np.array(numbers, dtype=dtype)
    # Some may be written as 1.0 or 1e3.
    numbers = [_read_integer(i, token, kind) for i, token in enumerate(tokens)]
    return np.array(numbers, dtype=dtype)


def _read_integer(index: int, token: str, kind: _IntegerType) -> int:
    exact = _read_exact(token)
    shown = token[:_SHOWN]
    if exact is None and _SPECIAL.fullmatch(token):
        raise LiteralError(index, f"{kind.name} has no {shown}")
    if exact is None:
        raise _make_number_error(index, token)
    if exact != exact.to_integral_value():
        raise LiteralError(index, f"{shown} is a fraction, which {kind.name} cannot hold")
    if not kind.least <= exact <= kind.most:
        limits = f"({kind.least} to {kind.most})"
        raise LiteralError(index, f"{shown} does not fit {kind.name} {limits}")
    return int(exact)


def _make_number_error(index: int, token: str) -> LiteralError:
    return LiteralError(index, f"{token[:_SHOWN]!r} is not a number")


# Floats


@dataclass(frozen=True)
class _FloatType:
    """A type of floats: its name, and how many binary digits it has after the first one."""

    name: str
    dtype: np.dtype[Any]
    digits: int
    is_minifloat: bool = False

    def round(self, wide: NDArray[np.float64]) -> NDArray[Any]:
        """The nearest numbers of the type.

        A number is rounded to FLOAT64 when it is parsed, and here to the type; if that is a
        minifloat, ml_dtypes rounds to FLOAT32 in between. So that these steps give the result of
        one, `_correct_halves` mends that of the first, and `_round_to_odd` prepares the last.
        """
        with np.errstate(all="ignore"):
            if self.is_minifloat:
                return _round_to_odd(wide).astype(self.dtype)
            return wide.astype(self.dtype)


def _make_float_type(name: str, dtype: np.dtype[Any]) -> _FloatType:
    return _FloatType(name, dtype, int(np.finfo(dtype).nmant))


def _round_to_odd(wide: NDArray[np.float64]) -> NDArray[np.float32]:
    """FLOAT64 numbers cut to FLOAT32, with the last bit set where something was cut off.

    ml_dtypes rounds twice: FLOAT64 to FLOAT32, and that to its type. The last bit says on which
    side of a FLOAT32 the number is, so that the second rounding gives the nearest value.
    """
    narrow = wide.astype(np.float32)
    is_finite = np.isfinite(wide)
    is_larger = is_finite & (np.abs(narrow) > np.abs(wide))
    narrow[is_larger] = np.nextafter(narrow[is_larger], np.float32(0))
    is_cut = is_finite & (narrow != wide)
    words = narrow.view(np.uint32)
    words[is_cut] |= 1
    return narrow


def _parse_floats(tokens: Sequence[str], kind: _FloatType) -> NDArray[Any]:
    wide, nan_bits = _read_floats(tokens)
    _correct_halves(wide, tokens, kind)
    values = kind.round(wide)
    _require_exact(wide, values, tokens, kind)
    if kind.is_minifloat:  # some have no infinity, or no negative numbers
        is_lost = np.isnan(values.astype(np.float64)) & ~np.isnan(wide)
        for i in np.flatnonzero(is_lost).tolist():
            raise LiteralError(i, f"{kind.name} has no {tokens[i][:_SHOWN]}")
    _set_nan_bits(values, nan_bits, tokens, kind)
    return values


def _read_floats(tokens: Sequence[str]) -> tuple[NDArray[np.float64], dict[int, int]]:
    """The numbers as FLOAT64, and by their indices the bits of NaNs that are written with them."""
    nan_bits: dict[int, int] = {}
    numbers = _read_plain(float, tokens, _FLOAT_CHARACTERS)
    if numbers is not None:
        return np.array(numbers, np.float64), nan_bits
    numbers = []
    for i, token in enumerate(tokens):
        number = _NUMBER.fullmatch(token)
        if number:
            numbers.append(float(f"{number[1]}e{number[2] or 0}"))
            continue
        special = _SPECIAL.fullmatch(token)
        if not special:
            raise _make_number_error(i, token)
        numbers.append(float(special["value"].partition("(")[0]))
        if special["bits"]:
            nan_bits[i] = int(special["bits"], 16)
    return np.array(numbers, np.float64), nan_bits


def _correct_halves(wide: NDArray[np.float64], tokens: Sequence[str], kind: _FloatType) -> None:
    """Move FLOAT64 numbers half-way between two values of a type towards the number as written.

    A number is rounded twice, to FLOAT64 and to the type. The first rounding can only change the
    result if it ends half-way between two values of the type: 1.00048828125000000001 becomes
    1.00048828125, for which FLOAT16 takes 1.0, though the next value is nearer.

    A number half-way has one binary digit more than the type, and then zeros.
    """
    # FLOAT64 has 52 digits: first those of the type, then a 1 for the half, then zeros.
    zeros_after = np.uint64((1 << max(0, 52 - kind.digits - 1)) - 1)
    is_half = wide != kind.round(wide).astype(np.float64)
    is_half &= np.isfinite(wide)
    is_half &= bits(wide) & zeros_after == 0
    for i in np.flatnonzero(is_half).tolist():
        exact = _read_exact(tokens[i])
        half = Decimal(float(wide[i]))
        if exact is None or exact == half:
            continue
        towards = np.inf if exact > half else -np.inf
        wide[i] = np.nextafter(wide[i], towards)


def _require_exact(
    wide: NDArray[np.float64], values: NDArray[Any], tokens: Sequence[str], kind: _FloatType
) -> None:
    """LiteralError for a number that is too large, and for an integral one that the type rounds."""
    # The type has all smaller integers.
    for i in np.flatnonzero(np.abs(wide) >= 2.0 ** (kind.digits + 1)).tolist():
        token = tokens[i]
        shown = token[:_SHOWN]
        if _SPECIAL.fullmatch(token):
            continue
        if not np.isfinite(values[i]):
            raise LiteralError(i, f"{shown} is too large for {kind.name}")
        integral = _INTEGRAL.fullmatch(token)
        # int() on both sides: NumPy would compare 2^53+1 with 2^53 as floats, and find them equal.
        if integral and int(integral[1]) != int(values[i]):
            nearest = int(values[i])
            raise LiteralError(i, f"{kind.name} cannot hold {shown} exactly (nearest: {nearest})")


def _set_nan_bits(
    values: NDArray[Any], nan_bits: dict[int, int], tokens: Sequence[str], kind: _FloatType
) -> None:
    """Give NaNs the bits with which they are written; LiteralError for bits of anything else."""
    words = values.view(word_of(values.itemsize))
    for i, pattern in nan_bits.items():
        words[i] = pattern % (1 << 8 * values.itemsize)
        with np.errstate(invalid="ignore"):  # signaling NaNs
            is_nan = bool(np.isnan(values[i]))
        if words[i] != pattern or not is_nan:
            raise LiteralError(i, f"{tokens[i][:_SHOWN]} is not the bits of a NaN in {kind.name}")


def _parse_complex(tokens: Sequence[str], data_type: DataType) -> NDArray[Any]:
    parts: list[str] = []  # the real and the imaginary part of each number
    for i, token in enumerate(tokens):
        match = _COMPLEX.fullmatch(token)
        if match:
            parts += [match["real"] or "0", match["imaginary"].removeprefix("+")]
        elif is_number(token):
            parts += [token, "0"]
        else:
            raise _make_number_error(i, token)
    dtype = dtypes.dtype_of(data_type)
    kind = _make_float_type(data_type.name, np.dtype(f"f{dtype.itemsize // 2}"))
    try:
        return _parse_floats(parts, kind).view(dtype)
    except LiteralError as e:
        raise LiteralError(e.index // 2, e.problem) from None


def _parse_minifloats(tokens: Sequence[str], data_type: DataType) -> NDArray[Any]:
    """Numbers that are written as bits, such as 0x3c, or as decimals, which need ml_dtypes."""
    dtype = dtypes.dtype_of(data_type)
    word = word_of(dtype.itemsize)
    patterns = []
    decimals = []  # the indices of those that are not bits
    for i, token in enumerate(tokens):
        match = _BITS.fullmatch(token)
        if match:
            patterns.append(int(match["bits"], 16))
        else:
            patterns.append(0)
            decimals.append(i)
    words = np.array(patterns, np.uint16)
    if words.max(initial=0) >= 1 << 8 * dtype.itemsize:
        i = int(words.argmax())
        raise LiteralError(i, f"{tokens[i]} has more bits than {data_type.name}")
    words = words.astype(word)
    if decimals:
        numbers = dtypes.number_type(data_type.name)
        digits = dtypes.count_digits(numbers)
        kind = _FloatType(data_type.name, numbers, digits, is_minifloat=True)
        try:
            values = _parse_floats([tokens[i] for i in decimals], kind)
        except LiteralError as e:
            raise LiteralError(decimals[e.index], e.problem) from None
        words[decimals] = values.view(word)
    return words.view(dtype)


# As text


def render_numbers(values: NDArray[Any]) -> list[str]:
    """Each value, in C order, as the shortest text that means the same bits.

    Integral floats below 1e16 are written as integers (1, not 1.0), as on Microsoft's pages; -0.0
    keeps its sign. BOOL is written as 0 and 1. A signal stops it.
    """
    flat = values.ravel()
    texts: list[str] = []
    for start in range(0, flat.size, _RENDERED_AT_ONCE):
        signals.check()
        texts += _render_part(flat[start : start + _RENDERED_AT_ONCE])
    return texts


def _render_part(flat: NDArray[Any]) -> list[str]:
    if dtypes.is_minifloat(flat.dtype):
        return dtypes.render_minifloats(flat)
    if flat.dtype.kind == "c":
        return _render_complex(flat)
    if flat.dtype.kind == "f":
        return _render_floats(flat)
    if flat.dtype.kind == "b":
        flat = flat.view(np.uint8)
    return list(map(str, flat.tolist()))


def _render_complex(flat: NDArray[Any]) -> list[str]:
    texts = _render_floats(dtypes.native(flat).view(f"f{flat.itemsize // 2}"))
    joined = []
    for real, imaginary in zip(texts[::2], texts[1::2], strict=True):
        sign = "" if imaginary.startswith("-") else "+"
        joined.append(f"{real}{sign}{imaginary}j")
    return joined


def _render_floats(flat: NDArray[Any]) -> list[str]:
    with np.errstate(invalid="ignore"):  # signaling NaNs
        wide = flat.astype(np.float64)
        as_integer = (wide == np.trunc(wide)) & (np.abs(wide) < 1e16)
        as_integer &= (wide != 0) | ~np.signbit(wide)
    texts = np.empty(flat.size, dtype=object)
    texts[as_integer] = list(map(str, wide[as_integer].astype(np.int64).tolist()))
    texts[~as_integer] = _render_shortest(flat[~as_integer])
    return texts.tolist()


def _render_shortest(flat: NDArray[Any]) -> list[str]:
    """The shortest text of each float; a NaN that is not the usual one has its bits in it."""
    if flat.dtype.itemsize == 8:
        texts = list(map(repr, flat.tolist()))
    else:  # a Python float would have the digits of FLOAT64
        texts = list(map(str, flat))
    words = bits(flat)
    usual = bits(np.array([np.nan], flat.dtype))
    for i in np.flatnonzero(np.isnan(flat) & (words != usual)):
        texts[i] = f"nan({int(words[i]):#x})"
    return texts
