"""Numbers as text: exact conversion to a data type, and text that reads back to the same bits.

The data type must hold an integral number (300, 1.0) exactly. A fraction, or a number with an exponent, is rounded to
nearest. No number is wrapped, truncated or turned to infinity. BOOL takes only 0 and 1. A complex type takes what its
real part can hold; the imaginary part, which text cannot say, is 0.
"""

from __future__ import annotations

import contextlib
import re
from contextvars import ContextVar
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from revseq_cli.core import dtypes
from revseq_cli.core.dtypes import bits, word
from revseq_cli.core.errors import FormatError, listed
from revseq_cli.core.tensors import braced

if TYPE_CHECKING:
    import json
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

_Number = TypeVar("_Number", int, float)
# Characters of a number: the longest exact decimal of a FLOAT64 has 1,077.
LONGEST = 1100
_JSON_BLANKS = " \t\r\n"
_PLAIN_INTEGER, _PLAIN = b"0123456789,+-", b"0123456789eE.,+-"
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?=f?$)", re.ASCII)
_INTEGRAL = re.compile(r"([+-]?\d+)(?:\.0*)?f?", re.ASCII)
_SPECIAL = re.compile(r"[+-]?inf(?:inity)?|nan", re.IGNORECASE)
_NAN_BITS = re.compile(r"nan\(0x([0-9a-f]{1,16})\)", re.IGNORECASE)
# The data types whose values can be written as text, as NumPy calls them. Then the others that can be read from text,
# with the type that holds each number. Data types in neither table have no text.
WRITTEN = {
    "FLOAT64": "f8", "FLOAT32": "f4", "FLOAT16": "f2", "INT64": "i8", "INT32": "i4", "INT16": "i2", "INT8": "i1",
    "UINT64": "u8", "UINT32": "u4", "UINT16": "u2", "UINT8": "u1",
}  # fmt: skip
_PARTS = {"BOOL": "?", "COMPLEX64": "f4", "COMPLEX128": "f8"}
_READ = {name: np.dtype(code) for name, code in (WRITTEN | _PARTS).items()}


# Where the first number that FLOAT32 rounds to fewer digits is noted, while `noticed` is open.
_NOTICED: ContextVar[list[float] | None] = ContextVar("noticed", default=None)
_POWERS = np.array([float(f"1e{power}") for power in range(340)])
_EXACT_POWER = 22  # up to this one, a power of 10 is exact in FLOAT64
_AT_ONCE = 1 << 15  # numbers, so that they stay in a cache


class LiteralError(ValueError):
    """The number at `index` that its data type cannot hold, and why."""

    def __init__(self, index: int, problem: str) -> None:
        super().__init__(index, problem)
        self.index, self.problem = index, problem


@contextlib.contextmanager
def noticed() -> Iterator[list[float]]:
    """A list that gets the first number that is read meanwhile, and whose digits FLOAT32 does not keep."""
    found: list[float] = []
    token = _NOTICED.set(found)
    try:
        yield found
    finally:
        _NOTICED.reset(token)


def _notice(wide: NDArray[Any], values: NDArray[Any]) -> None:
    """Note the first of the numbers that has other digits in FLOAT32, if somebody wants to know."""
    found = _NOTICED.get()
    if found is None or found or values.dtype.itemsize != 4:
        return
    for start in range(0, len(wide), _AT_ONCE):
        part = wide[start : start + _AT_ONCE]
        with np.errstate(all="ignore"):  # numbers that are 0 in FLOAT32
            lost = _lost(part, values[start : start + _AT_ONCE].astype(np.float64))
        if lost.size:
            found.append(float(part[lost[0]]))
            return


def _lost(wide: NDArray[Any], values: NDArray[Any]) -> NDArray[np.intp]:
    """The indices of the numbers that cannot be had back from their values by rounding to as many digits.

    Numbers of 6 digits can, those of 9 mostly cannot, and those of more cannot but for the value itself.
    """
    left = np.flatnonzero((wide != values) & np.isfinite(wide) & np.isfinite(values))
    for digits in (6, 7, 8, 9, 5, 4, 3, 2, 1):  # the usual ones first; fewer matter for subnormal numbers
        number, value = np.abs(wide[left]), np.abs(values[left])
        powers = digits - 1 - np.floor(np.log10(number)).astype(np.int16)
        back = _scaled(np.rint(_scaled(value, powers)), -powers)
        slack = np.where(np.abs(powers) > _EXACT_POWER, 4 * np.spacing(number), 0)
        left = left[~(np.abs(back - number) <= slack)]
    return left


def _scaled(numbers: NDArray[Any], powers: NDArray[Any]) -> NDArray[Any]:
    """The numbers times these powers of 10, each rounded once where the power is exact."""
    scales = _POWERS[np.abs(powers)]
    scaled: NDArray[Any] = np.where(powers < 0, numbers / scales, numbers * scales)
    return scaled


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; FormatError for one that has a key twice, since readers differ in which one they take."""
    entries = dict(pairs)
    if len(entries) < len(pairs):
        raise FormatError(f"has a key twice: {listed(key for key, _ in pairs)}", "each key once")
    return entries


def parse(tokens: Sequence[str], dtype: np.dtype[Any], name: str) -> NDArray[Any]:
    """The numbers as an array of shape (len(tokens),); LiteralError for the first that `dtype` cannot hold.

    `name` is the name of the data type whose dtype is given.
    """
    if tokens and max(map(len, tokens)) > LONGEST:
        i = next(i for i, token in enumerate(tokens) if len(token) > LONGEST)
        raise LiteralError(i, f"a number of {len(tokens[i])} characters; at most {LONGEST} are allowed")
    part = _READ.get(name)
    if part is None:
        raise LiteralError(0, f"{name} cannot be written as text")
    parts = _parse_floats(tokens, part, name) if part.kind == "f" else _parse_integers(tokens, part, name)
    return _whole(parts, dtype)


def _whole(parts: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The numbers as `dtype`: the same bits, or for a complex type as its real parts."""
    if dtype.kind != "c":
        return parts.view(dtype)
    values = np.zeros(parts.size, dtype)
    values.real = parts
    return values


def bounds(dtype: np.dtype[Any]) -> tuple[int, int]:
    """The least and the greatest number that a type of integers, or BOOL, holds."""
    if dtype.kind == "b":
        return 0, 1
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def empty(sizes: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """An array without elements; FormatError if the sizes beside the 0 are larger than NumPy allows."""
    try:
        return np.empty(sizes, dtype)
    except ValueError:
        raise FormatError(f"Sizes is {braced(sizes)}", "smaller sizes beside the 0") from None


def json_problem(error: json.JSONDecodeError) -> tuple[str, int]:
    """What is wrong with a JSON text, and the offset of that. A comma before an end is told as since Python 3.13."""
    before, behind = error.doc[: error.pos].rstrip(_JSON_BLANKS), error.doc[error.pos :].lstrip(_JSON_BLANKS)
    for message, end, of_what in (("Expecting value", "]", "array"), ("Expecting property name", "}", "object")):
        if error.msg.startswith(message) and before.endswith(",") and behind.startswith(end):
            return f"Illegal trailing comma before end of {of_what}", len(before) - 1
    return error.msg, error.pos


def _exact_below(dtype: np.dtype[Any]) -> float:
    """The float at and above which not every integral number is exact."""
    return 2.0 ** (np.finfo(dtype).nmant + 1)


def _halfway(wide: NDArray[Any], values: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """The indices of the FLOAT64 that lie half-way between two values of a narrower type, and their other neighbours.

    The number that was rounded to such a FLOAT64 may be nearer to that other neighbour.
    """
    if values.dtype.itemsize == wide.dtype.itemsize:
        return np.empty(0, np.intp), values[:0]
    # Such a FLOAT64 has one bit more than the narrower type, and zeros behind it; few that were rounded have them.
    zeros = np.finfo(wide.dtype).nmant - np.finfo(values.dtype).nmant - 1
    left = np.flatnonzero((wide != values) & (bits(wide) & np.uint64((1 << zeros) - 1) == 0))
    wide, values = wide[left], values[left]
    with np.errstate(invalid="ignore", over="ignore"):  # NaN and infinities are at no such place
        beyond = np.ldexp(1.0, np.finfo(values.dtype).maxexp)  # what a type with one more exponent would have there
        off = wide - np.where(np.isinf(values) & np.isfinite(wide), np.copysign(beyond, wide), values)
        other = np.nextafter(values, np.copysign(np.inf, off).astype(values.dtype))
        halfway = (off != 0) & (other - wide == off)
    return left[halfway], other[halfway]


def _read_plain(kind: type[_Number], tokens: Sequence[str], characters: bytes) -> list[_Number]:
    """The numbers as int() or float() reads them; none where a token has other characters, or is no number of the kind.

    So no names, underscores or blanks are read. Of integers it takes a sixth of the time, and of floats two fifths.
    """
    joined = ",".join(tokens)
    if joined.isascii() and not joined.encode().translate(None, characters):
        with contextlib.suppress(ValueError):
            return list(map(kind, tokens))
    return []


def _parse_integers(tokens: Sequence[str], dtype: np.dtype[Any], name: str) -> NDArray[Any]:
    numbers = _read_plain(int, tokens, _PLAIN_INTEGER) or [_integer(i, each, name) for i, each in enumerate(tokens)]
    least, most = bounds(dtype)
    if numbers and not least <= min(numbers) <= max(numbers) <= most:  # NumPy would take 2 for True
        i = next(i for i, n in enumerate(numbers) if not least <= n <= most)
        raise LiteralError(i, f"{str(numbers[i])[:40]} does not fit {name} ({least} to {most})")
    return np.array(numbers, dtype=dtype)


def _integer(i: int, token: str, name: str) -> int:
    """One integer, exactly; it may be written as 1.0 or 1e3."""
    number = _NUMBER.match(token)
    if not number:
        why = f"{name} has no {token[:40]}" if is_special(token) else f"{token[:40]!r} is not a number"
        raise LiteralError(i, why)
    try:
        exact = Decimal(number[0])
    except InvalidOperation:  # its exponent has more digits than Decimal counts
        raise LiteralError(i, f"{token[:40]} does not fit {name}") from None
    if not exact:
        return 0
    if not -LONGEST < exact.adjusted() < 20:  # 2^64 has 20 digits; and 1e-999999999 has no ratio worth computing
        raise LiteralError(i, f"{token[:40]} does not fit {name}")
    numerator, denominator = exact.as_integer_ratio()
    if denominator != 1:
        raise LiteralError(i, f"{token[:40]} is a fraction, and {name} holds integers")
    return numerator


def _parse_floats(tokens: Sequence[str], dtype: np.dtype[Any], name: str) -> NDArray[Any]:
    patterns: dict[int, int] = {}  # NaN bits, by index
    numbers = _read_plain(float, tokens, _PLAIN)
    wide = np.array(numbers or [_float(i, token, dtype, name, patterns) for i, token in enumerate(tokens)], np.float64)
    with np.errstate(over="ignore"):
        values = wide.astype(dtype)
    _round_halfway(tokens, wide, values)
    for i in map(int, np.flatnonzero(np.isinf(values))):
        if not is_special(tokens[i]):
            raise LiteralError(i, f"{tokens[i][:40]} is too large for {name}")
    for i in map(int, np.flatnonzero(np.abs(wide) >= _exact_below(dtype))):
        integral = _INTEGRAL.fullmatch(tokens[i])
        # int() on both sides: NumPy would compare 2^53+1 with 2^53 as floats, and find them equal.
        if integral and int(integral[1]) != int(values[i]):
            raise LiteralError(i, f"{tokens[i][:40]} is not exact in {name}, which would hold {int(values[i])}")
    _notice(wide, values)
    words = values.view(word(dtype))
    for i, pattern in patterns.items():
        words[i] = pattern
    return values


def _round_halfway(tokens: Sequence[str], wide: NDArray[Any], values: NDArray[Any]) -> None:
    """Correct the values that were rounded twice: first to the middle of two neighbours, then to the wrong one."""
    places, others = _halfway(wide, values)
    for i, other in zip(places.tolist(), others.tolist(), strict=True):
        number = _NUMBER.match(tokens[i])
        exact, middle = Decimal(number[0] if number else 0), Decimal(float(wide[i]))
        if exact != middle and (exact > middle) != (values[i] > wide[i]):
            values[i] = other


def _float(i: int, token: str, dtype: np.dtype[Any], name: str, patterns: dict[int, int]) -> float:
    """One number as FLOAT64; for a NaN that is written with its bits, these go into `patterns` at index i."""
    if number := _NUMBER.match(token):
        return float(number[0])
    if written := _NAN_BITS.fullmatch(token):
        patterns[i] = int(written[1], 16)
        if patterns[i] >> 8 * dtype.itemsize or not np.isnan(np.array(patterns[i], word(dtype)).view(dtype)):
            raise LiteralError(i, f"{token[:40]} is not the bits of a NaN in {name}")
        return float("nan")
    if _SPECIAL.fullmatch(token):
        return float(token)
    raise LiteralError(i, f"{token[:40]!r} is not a number")


def is_number(token: str) -> bool:
    """Whether it is written as a number, whatever its size."""
    return bool(_NUMBER.match(token)) or is_special(token)


def is_special(token: str) -> bool:
    """Whether it is written as a NaN or an infinity."""
    return bool(_SPECIAL.fullmatch(token) or _NAN_BITS.fullmatch(token))


def render(values: NDArray[Any]) -> list[str]:
    """Each value, in C order, as the shortest text that `parse` reads back to the same bits.

    Integral floats below 1e16 are written as integers (1, not 1.0), as pages write them; -0.0 keeps its sign. The
    floats that NumPy lacks are only for a person to read: `parse` does not take them.
    """
    if dtypes.is_minifloat(values.dtype):
        return dtypes.render(values)
    flat = values.ravel()
    if flat.dtype.kind != "f":
        return list(map(str, flat.tolist()))
    with np.errstate(invalid="ignore"):  # signaling NaNs
        wide = flat.astype(np.float64)
        integral = (wide == np.trunc(wide)) & (np.abs(wide) < 1e16) & ~((wide == 0) & np.signbit(wide))
    texts = np.empty(flat.size, dtype=object)
    texts[integral] = list(map(str, wide[integral].astype(np.int64).tolist()))
    texts[~integral] = _render_floats(flat[~integral])
    return texts.tolist()


def _render_floats(flat: NDArray[Any]) -> list[str]:
    """The texts of floats that are not written as integers."""
    # repr of a Python float is FLOAT64's shortest text; the narrower types have theirs in NumPy's str.
    texts = list(map(repr, flat.tolist())) if flat.dtype.itemsize == 8 else list(map(str, flat))
    words, usual = bits(flat), bits(np.array([np.nan], flat.dtype))
    for i in np.flatnonzero(np.isnan(flat) & (words != usual)):
        texts[i] = f"nan({int(words[i]):#x})"
    return texts
