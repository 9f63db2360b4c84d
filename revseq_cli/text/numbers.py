"""Numbers as text: exact conversion to a data type, and tensors printed so that they read back to the same bits.

The data type must hold an integral number (300, 1.0) exactly. A fraction, or a number with an exponent, is rounded to
nearest. No number is wrapped, truncated or turned to infinity. BOOL takes only 0 and 1. A complex type takes what its
real part can hold; the imaginary part, which text cannot say, is 0.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from revseq_cli.core import dtypes
from revseq_cli.core.dtypes import bits, word
from revseq_cli.core.errors import FormatError, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from revseq_cli.core.tensors import DataType, TensorDesc

_Number = TypeVar("_Number", int, float)
# Characters of a number: the longest exact decimal of a FLOAT64 has 1,077.
LONGEST = 1100
_PLAIN_INTEGER, _PLAIN = b"0123456789,+-", b"0123456789eE.,+-"
_NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:[eEdD]([+-]?\d+))?f?", re.ASCII)  # 1.0D+00 is Fortran's
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

DOTS = "..."  # for what is left out


class LiteralError(ValueError):
    """The number at `index` that its data type cannot hold, and why."""

    def __init__(self, index: int, problem: str) -> None:
        super().__init__(index, problem)
        self.index, self.problem = index, problem


def parse(tokens: Sequence[str], data_type: DataType) -> NDArray[Any]:
    """The numbers as an array of shape (len(tokens),); LiteralError for the first that the data type cannot hold."""
    name, dtype = data_type.name, dtypes.dtype_of(data_type)
    if tokens and max(map(len, tokens)) > LONGEST:
        i = next(i for i, token in enumerate(tokens) if len(token) > LONGEST)
        raise LiteralError(i, f"a number of {len(tokens[i])} characters; at most {LONGEST} are allowed")
    part = _READ.get(name)
    if part is None:
        raise LiteralError(0, f"{name} cannot be written as text")
    parts = _parse_floats(tokens, part, name) if part.kind == "f" else _parse_integers(tokens, part, name)
    if dtype.kind != "c":
        return parts.view(dtype)
    values = np.zeros(parts.size, dtype)
    values.real = parts
    return values


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
    least, most = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    if numbers and not least <= min(numbers) <= max(numbers) <= most:  # NumPy would take 2 for True
        i = next(i for i, n in enumerate(numbers) if not least <= n <= most)
        raise LiteralError(i, f"{tokens[i][:40]} does not fit {name} ({least} to {most})")
    return np.array(numbers, dtype=dtype)


def _integer(i: int, token: str, name: str) -> int:
    """One integer, exactly; it may be written as 1.0 or 1e3."""
    number = _NUMBER.fullmatch(token)
    if not number:
        why = f"{name} has no {token[:40]}" if _is_special(token) else f"{token[:40]!r} is not a number"
        raise LiteralError(i, why)
    exact, exponent = Fraction(number[1].rstrip(".")), int(number[2] or 0)
    if exact and exponent > LONGEST:  # 1e999999999 has no digits worth computing
        raise LiteralError(i, f"{token[:40]} does not fit {name}")
    exact *= Fraction(10) ** max(exponent, -2 * LONGEST) if exact else 0
    if exact.denominator != 1:
        raise LiteralError(i, f"{token[:40]} is a fraction, and {name} holds integers")
    return exact.numerator


def _parse_floats(tokens: Sequence[str], dtype: np.dtype[Any], name: str) -> NDArray[Any]:
    patterns: dict[int, int] = {}  # NaN bits, by index
    numbers = _read_plain(float, tokens, _PLAIN)
    wide = np.array(numbers or [_float(i, token, dtype, name, patterns) for i, token in enumerate(tokens)], np.float64)
    with np.errstate(over="ignore"):
        values = wide.astype(dtype)
        # A FLOAT64 half-way between two values has one bit more than they, and zeros behind it.
        zeros = np.uint64((1 << max(0, 51 - np.finfo(dtype).nmant)) - 1)
        for i in np.flatnonzero((wide != values) & np.isfinite(wide) & (bits(wide) & zeros == 0)).tolist():
            values[i] = _nearest(tokens[i], wide[i], values[i])
    for i in map(int, np.flatnonzero(np.isinf(values))):
        if not _is_special(tokens[i]):
            raise LiteralError(i, f"{tokens[i][:40]} is too large for {name}")
    for i in map(int, np.flatnonzero(np.abs(wide) >= 2.0 ** (np.finfo(dtype).nmant + 1))):
        integral = _INTEGRAL.fullmatch(tokens[i])
        # int() on both sides: NumPy would compare 2^53+1 with 2^53 as floats, and find them equal.
        if integral and int(integral[1]) != int(values[i]):
            raise LiteralError(i, f"{tokens[i][:40]} is not exact in {name}, which would hold {int(values[i])}")
    words = values.view(word(dtype))
    for i, pattern in patterns.items():
        words[i] = pattern
    return values


def _nearest(token: str, wide: Any, value: Any) -> Any:  # noqa: ANN401 - NumPy's numbers
    """The value that is nearest to a number, which was rounded to the FLOAT64 `wide` and then to `value`."""
    number = _NUMBER.fullmatch(token)
    exact = Fraction(number[1].rstrip(".")) * Fraction(10) ** int(number[2] or 0) if number else Fraction(float(wide))
    beyond = Fraction(2) ** int(np.finfo(value.dtype).maxexp)  # is what rounds to infinity

    def distance(it: Any) -> Fraction:  # noqa: ANN401
        return abs(exact - (Fraction(float(it)) if np.isfinite(it) else beyond * (1 if it > 0 else -1)))

    other = np.nextafter(value, value.dtype.type(np.inf if wide > value else -np.inf))
    return other if distance(other) < distance(value) else value


def _float(i: int, token: str, dtype: np.dtype[Any], name: str, patterns: dict[int, int]) -> float:
    """One number as FLOAT64; for a NaN that is written with its bits, these go into `patterns` at index i."""
    if number := _NUMBER.fullmatch(token):
        return float(f"{number[1]}e{number[2] or 0}")
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
    return bool(_NUMBER.fullmatch(token)) or _is_special(token)


def _is_special(token: str) -> bool:
    """Whether it is written as a NaN or an infinity."""
    return bool(_SPECIAL.fullmatch(token) or _NAN_BITS.fullmatch(token))


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; FormatError for one that has a key twice, since readers differ in which one they take."""
    entries = dict(pairs)
    if len(entries) < len(pairs):
        raise FormatError(f"has a key twice: {listed(key for key, _ in pairs)}", "each key once")
    return entries


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
    rest = flat[~integral]
    # repr of a Python float is FLOAT64's shortest text; the narrower types have theirs in NumPy's str.
    written = list(map(repr, rest.tolist())) if rest.dtype.itemsize == 8 else list(map(str, rest))
    words, usual = bits(rest), bits(np.array([np.nan], rest.dtype))
    for i in np.flatnonzero(np.isnan(rest) & (words != usual)):
        written[i] = f"nan({int(words[i]):#x})"
    texts[~integral] = written
    return texts.tolist()


def header(name: str, desc: TensorDesc) -> str:
    """The line above a body: `Name: (Sizes:{1,1,3,4}, DataType:FLOAT32)`."""
    return f"{name}: {desc}"


def body(rows: Sequence[str], sizes: tuple[int, ...], gaps: Sequence[int] = (), dots: str = DOTS) -> str:
    """A tensor's rows in brackets, one row a line; a tensor of no dimensions has no brackets, and [] has no elements.

    A row that opens k brackets is indented by (rank - k) blanks. `gaps` has a number for each dimension: `dots` stand
    after so many of its indices, for those that were left out; 0 is for a dimension that is whole.
    """
    if not rows or not sizes:
        return rows[0] if rows else "[]"
    rank = len(sizes)
    gaps = gaps or (0,) * rank
    # From the innermost dimension but one outwards: the rows of one of its indices, and of all its indices.
    spans = [prod(sizes[d + 1 : -1]) for d in range(rank - 2, -1, -1)]
    blocks = [prod(sizes[d:-1]) for d in range(rank - 2, -1, -1)]
    starts = np.arange(len(rows) + 1)
    opened = (1 + sum(((starts % block == 0) for block in blocks), np.zeros(starts.size, int))).tolist()
    before = [" " * (rank - count) + "[" * count for count in range(rank + 1)]
    after = ["]" * count + "," for count in range(rank + 1)]
    lines = [before[o] + row + after[c] for row, o, c in zip(rows, opened, opened[1:], strict=False)]
    lines[-1] = lines[-1][:-1]
    for d, (span, block) in enumerate(zip(spans, blocks, strict=True)):
        if gap := gaps[rank - 2 - d]:
            for i in range(gap * span - 1, len(rows), block):
                lines[i] += "\n" + " " * (rank - 1 - d) + dots
    return "\n".join(lines)


def aligned(
    texts: Sequence[str], width: int, gap: int = 0, mark: Callable[[int, str], str] | None = None, dots: str = DOTS
) -> list[str]:
    """Rows of `width` elements, from the elements' texts in C order, right-justified.

    The first column has its own width, and all others share one, as on the reference page. `dots` stand after `gap`
    elements, unless that is 0. `mark` may add terminal codes to a text; its first argument is the element's place in
    C order.
    """
    starts = range(0, len(texts), width)
    first = max(map(len, texts[::width]))
    if width == 1 and not mark and not gap:
        return [text.rjust(first) for text in texts]
    other = max(max(map(len, texts[start + 1 : start + width]), default=0) for start in starts)
    rows = []
    for start in starts:
        stop = start + width
        cells = [texts[start].rjust(first), *map(str.rjust, texts[start + 1 : stop], itertools.repeat(other))]
        if mark:
            cells = [
                cell[: -len(text)] + mark(i, text)
                for i, (cell, text) in enumerate(zip(cells, texts[start:stop], strict=True), start)
            ]
        if gap:
            cells.insert(gap, dots)
        rows.append(", ".join(cells))
    return rows


def rows_of(values: NDArray[Any], render: Callable[[NDArray[Any]], list[str]] = render) -> list[str]:
    """A tensor's rows, aligned; `render` gives the texts of elements that are no integers.

    Integers are printed by one template for a whole row, which is faster.
    """
    if not values.ndim or not values.size:
        return render(values)
    if values.dtype.kind not in "iu":
        return aligned(render(values), values.shape[-1])
    columns = values.reshape(-1, values.shape[-1])

    def longest(part: NDArray[Any]) -> int:
        return max(len(str(part.min())), len(str(part.max()))) if part.size else 0

    first, other = longest(columns[:, :1]), longest(columns[:, 1:])
    template = f"%{first}d" + f", %{other}d" * (columns.shape[1] - 1)
    if columns.shape[1] == 1:
        return list(map(template.__mod__, columns.ravel().tolist()))
    return [template % tuple(row) for row in columns.tolist()]


def tensor_text(name: str, desc: TensorDesc, values: NDArray[Any]) -> str:
    """A tensor's header and body, without a line break at the end."""
    return f"{header(name, desc)}\n{body(rows_of(values), desc.sizes)}"
