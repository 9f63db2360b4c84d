"""Numbers as text: exact conversion to a data type, and tensors printed so that they read back to the same bits.

The data type must hold an integral number (300, 1.0) exactly. A fraction, or a number with an exponent, is rounded to
nearest. No number is wrapped, truncated or turned to infinity. BOOL takes only 0 and 1. Complex numbers are never text.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revseq_cli.core import dtypes
from revseq_cli.core.dtypes import bits, word_of
from revseq_cli.core.errors import FormatError, listed
from revseq_cli.core.tensors import DataType, TensorDesc

LONGEST = 1100  # characters of a number: the longest exact decimal of a FLOAT64 has 1,077
_INTEGERS, _FLOATS = b"0123456789,+-", b"0123456789eE.,+-"
_NUMBER = re.compile(
    r"([+-]?(?:\d+\.?\d*|\.\d+))(?:[eEdD]([+-]?\d{1,9}))?f?", re.ASCII
)  # 1.0D+00 is Fortran's
_INTEGRAL = re.compile(r"([+-]?\d+)(?:\.0*)?f?", re.ASCII)
# JSON has them in quotes; and a NaN that is not the usual one has its bits.
_SPECIAL = re.compile(
    r"(\"?)(?P<value>[+-]?inf(?:inity)?|nan(?:\(0x(?P<bits>[0-9a-f]{1,16})\))?)\1", re.IGNORECASE
)
WRITTEN = ("float", "int", "uint", "bool")  # the kinds of data types that text holds

DOTS = "..."  # for what is left out


class LiteralError(ValueError):
    """The number at `index` that its data type cannot hold, and why."""

    def __init__(self, index: int, problem: str) -> None:
        super().__init__(index, problem)
        self.index, self.problem = index, problem


def parse(tokens: Sequence[str], data_type: DataType) -> NDArray[Any]:
    """The numbers as an array of shape (len(tokens),); LiteralError for the first that the data type cannot hold."""
    name, dtype = data_type.name, dtypes.dtype_of(data_type)
    if max(map(len, tokens), default=0) > LONGEST:
        i = next(i for i, token in enumerate(tokens) if len(token) > LONGEST)
        raise LiteralError(
            i, f"a number of {len(tokens[i])} characters; at most {LONGEST} are allowed"
        )
    if data_type.kind not in WRITTEN:
        raise LiteralError(0, f"{name} cannot be written as text")
    return (_parse_floats if data_type.kind == "float" else _parse_integers)(tokens, dtype, name)


def _plain(kind: type[int | float], tokens: Sequence[str], characters: bytes) -> list[Any]:
    """The numbers as int() or float() reads them; none where a token has other characters, or is no number of the kind.

    So no names, underscores or blanks are read. Of integers it takes a sixth of the time, and of floats two fifths.
    """
    joined = ",".join(tokens)
    if joined.isascii() and not joined.encode().translate(None, characters):
        with contextlib.suppress(ValueError):
            return list(map(kind, tokens))
    return []


def _decimal(token: str) -> Decimal | None:
    """The exact number; None for what is not written as one, and for a NaN and an infinity."""
    number = _NUMBER.fullmatch(token)
    return Decimal(f"{number[1]}e{number[2] or 0}") if number else None


def _parse_integers(tokens: Sequence[str], dtype: np.dtype[Any], name: str) -> NDArray[Any]:
    least, most = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    numbers = _plain(int, tokens, _INTEGERS)
    if not numbers or not least <= min(numbers) <= max(numbers) <= most:
        numbers = []
        for i, token in enumerate(tokens):  # which may be written as 1.0 or 1e3
            exact = _decimal(token)
            if exact is None:
                why = (
                    f"{name} has no {token[:40]}"
                    if is_number(token)
                    else f"{token[:40]!r} is not a number"
                )
                raise LiteralError(i, why)
            if exact != exact.to_integral_value():
                raise LiteralError(i, f"{token[:40]} is a fraction, and {name} holds integers")
            if not least <= exact <= most:
                raise LiteralError(i, f"{token[:40]} does not fit {name} ({least} to {most})")
            numbers.append(int(exact))
    return np.array(numbers, dtype=dtype)


def _parse_floats(tokens: Sequence[str], dtype: np.dtype[Any], name: str) -> NDArray[Any]:
    numbers, patterns = _plain(float, tokens, _FLOATS), dict[int, int]()  # NaN bits, by index
    for i, token in enumerate(() if numbers else tokens):
        if number := _NUMBER.fullmatch(token):
            numbers.append(float(f"{number[1]}e{number[2] or 0}"))
        elif special := _SPECIAL.fullmatch(token):
            numbers.append(float(special["value"].partition("(")[0]))
            if special["bits"]:
                patterns[i] = int(special["bits"], 16)
        else:
            raise LiteralError(i, f"{token[:40]!r} is not a number")
    wide = np.array(numbers, np.float64)
    digits = np.finfo(dtype).nmant
    with np.errstate(over="ignore"):
        # Rounded twice, a number may miss its nearest value where FLOAT64 is half-way between two: such a FLOAT64 has
        # one bit more than they, and zeros behind it. The exact number decides.
        zeros = np.uint64((1 << max(0, 51 - digits)) - 1)
        halves = (wide != wide.astype(dtype)) & np.isfinite(wide) & (bits(wide) & zeros == 0)
        for i in np.flatnonzero(halves).tolist():
            exact, about = _decimal(tokens[i]), Decimal(float(wide[i]))
            if exact is not None and exact != about:
                wide[i] = np.nextafter(wide[i], np.inf if exact > about else -np.inf)
        values = wide.astype(dtype)
    for i in np.flatnonzero(np.abs(wide) >= 2.0 ** (digits + 1)).tolist():
        if np.isinf(values[i]) and not _SPECIAL.fullmatch(tokens[i]):
            raise LiteralError(i, f"{tokens[i][:40]} is too large for {name}")
        integral = _INTEGRAL.fullmatch(tokens[i])
        # int() on both sides: NumPy would compare 2^53+1 with 2^53 as floats, and find them equal.
        if integral and int(integral[1]) != int(values[i]):
            raise LiteralError(
                i, f"{tokens[i][:40]} is not exact in {name}, which would hold {int(values[i])}"
            )
    words = values.view(word_of(dtype.itemsize))
    for i, pattern in patterns.items():
        words[i] = pattern % (1 << 8 * dtype.itemsize)
        if words[i] != pattern or not np.isnan(values[i]):
            raise LiteralError(i, f"{tokens[i][:40]} is not the bits of a NaN in {name}")
    return values


def is_number(token: str) -> bool:
    """Whether it is written as a number, whatever its size, or as a NaN or an infinity."""
    return any(form.fullmatch(token) for form in (_NUMBER, _SPECIAL))


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; FormatError for one that has a key twice, since readers differ in which one they take."""
    entries = dict(pairs)
    if len(entries) < len(pairs):
        raise FormatError(f"has a key twice: {listed(key for key, _ in pairs)}", "each key once")
    return entries


def render(values: NDArray[Any]) -> list[str]:
    """Each value, in C order, as the shortest text that `parse` reads back to the same bits.

    Integral floats below 1e16 are written as integers (1, not 1.0), as pages write them; -0.0 keeps its sign. BOOL is
    written as 0 and 1. The floats that NumPy lacks are only for a person to read: `parse` does not take them.
    """
    if dtypes.is_minifloat(values.dtype):
        return dtypes.render(values)
    flat = values.ravel()
    if flat.dtype.kind != "f":
        return list(map(str, (flat.view(np.uint8) if flat.dtype.kind == "b" else flat).tolist()))
    with np.errstate(invalid="ignore"):  # signaling NaNs
        wide = flat.astype(np.float64)
        integral = (
            (wide == np.trunc(wide)) & (np.abs(wide) < 1e16) & ~((wide == 0) & np.signbit(wide))
        )
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


def body(rows: Sequence[str], sizes: tuple[int, ...], gaps: Sequence[int] = ()) -> str:
    """A tensor's rows in brackets, one row a line; a tensor of no dimensions has no brackets, and [] has no elements.

    A row that opens k brackets is indented by (rank - k) blanks. `gaps` has a number for each dimension: dots stand
    after so many of its indices, for those that were left out; 0 is for a dimension that is whole.
    """
    if not rows or not sizes:
        return rows[0] if rows else "[]"
    rank = len(sizes)
    # The rows of each dimension but the last, the inner ones first.
    blocks = [prod(sizes[d:-1]) for d in range(rank - 2, -1, -1)]
    starts = np.arange(len(rows) + 1)
    opened = (
        1 + sum(((starts % block == 0) for block in blocks), np.zeros(starts.size, int))
    ).tolist()
    before = [" " * (rank - count) + "[" * count for count in range(rank + 1)]
    after = ["]" * count + "," for count in range(rank + 1)]
    lines = [
        before[o] + row + after[c] for row, o, c in zip(rows, opened, opened[1:], strict=False)
    ]
    lines[-1] = lines[-1][:-1]
    for d in range(rank - 2, -1, -1):
        if gaps and gaps[d]:
            for i in range(gaps[d] * prod(sizes[d + 1 : -1]) - 1, len(rows), prod(sizes[d:-1])):
                lines[i] += "\n" + " " * (d + 1) + DOTS
    return "\n".join(lines)


def aligned(texts: Sequence[str], width: int, gap: int = 0) -> list[str]:
    """Rows of `width` elements, from the elements' texts in C order, right-justified.

    The first column has its own width, and all others share one, as on the reference page. Dots stand after `gap`
    elements, unless that is 0.
    """
    lengths = np.array(list(map(len, texts))).reshape(-1, width)
    widths = [int(lengths[:, 0].max()), *[int(lengths[:, 1:].max(initial=0))] * (width - 1)]
    cells = [f"%{column}s" for column in widths]
    if gap:
        cells.insert(gap, DOTS)
    template = ", ".join(cells)
    return [template % tuple(texts[start : start + width]) for start in range(0, len(texts), width)]


def rows_of(
    values: NDArray[Any], render: Callable[[NDArray[Any]], list[str]] = render
) -> list[str]:
    """A tensor's rows, aligned; `render` gives the texts of elements."""
    texts = render(values)
    return aligned(texts, values.shape[-1]) if values.ndim and texts else texts


def tensor_text(name: str, desc: TensorDesc, values: NDArray[Any]) -> str:
    """A tensor's header and body, without a line break at the end."""
    return f"{name}: {desc}\n{body(rows_of(values), desc.sizes)}"
