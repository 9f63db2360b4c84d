"""Array functions on lines: the reversal, and counting lengths. They move words and never compute with them.

Every array is seen as (outer, axis, inner) and its lengths as (outer, inner). A word is an element's bytes, so data
type and byte order play no part. Lengths are clamped while they are unsigned.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Words = NDArray[Any]
    Lengths = NDArray[np.intp]

# Elements of a tile: what stays in a core's cache with its index, and is large enough to hide the cost of a call.
_TILE = 1 << 16
# Lines from here on are moved one by one with slices: their index would cost more than the call.
_LONG_LINE = 512


def reverse(values: NDArray[Any], lengths: NDArray[Any], axis: int) -> NDArray[Any]:
    """A copy of `values` in which the first `length` elements of each line along `axis` are reversed.

    `lengths` is unsigned, of any width, and has the sizes of `values` but 1 along `axis`; a length above the axis
    size acts as the axis size. The result has the memory order of `values`.
    """
    if values.flags.f_contiguous and not values.flags.c_contiguous:
        return reverse(values.T, lengths.T, values.ndim - 1 - axis).T
    outer, size, inner = prod(values.shape[:axis]), values.shape[axis], prod(values.shape[axis + 1 :])
    words = np.ascontiguousarray(values).reshape(-1).view(_word(values.dtype)).reshape(outer, size, inner)
    clamped = clamp(lengths, size).reshape(outer, inner)
    out = np.empty_like(words)
    if inner > 1 and not (clamped == clamped[:, :1]).all():
        _across(out, words, clamped)
    else:  # whole rows of `inner` words move together
        _along(out, words, clamped[:, 0])
    return out.reshape(-1).view(values.dtype).reshape(values.shape)


def clamp(lengths: NDArray[Any], size: int) -> Lengths:
    """Lengths as indices, none above `size`; compared while unsigned, so that 2^64-1 is large, not negative."""
    clamped: Lengths = np.minimum(lengths, np.uint64(size), dtype=np.uint64).astype(np.intp)
    return clamped


def _word(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The unsigned integer of that size; nothing that could quiet a NaN."""
    return np.dtype(f"u{dtype.itemsize}") if dtype.itemsize <= 8 else np.dtype(f"V{dtype.itemsize}")


def _along(out: Words, words: Words, lengths: Lengths) -> None:
    """One length for each outer index."""
    if words.shape[1] >= _LONG_LINE:
        _by_slices(out, words, lengths)
    else:
        _by_table(out, words, lengths)


def _by_slices(out: Words, words: Words, lengths: Lengths) -> None:
    """Line by line, for lines long enough to be worth two calls."""
    for to, line, length in zip(out, words, lengths.tolist(), strict=True):
        to[:length] = line[:length][::-1]
        to[length:] = line[length:]


def _by_table(out: Words, words: Words, lengths: Lengths) -> None:
    """Tile by tile: a table has the permutation for every length, and its rows make the tile's index."""
    outer, size, inner = words.shape
    table = _permutations(size)
    lines = max(1, _TILE // (size * inner))
    first = np.arange(min(lines, outer))[:, None] * size
    for start in range(0, outer, lines):
        part = slice(start, min(start + lines, outer))
        index = table[lengths[part]]
        index += first[: len(index)]
        np.take(
            words[part].reshape(-1, inner),
            index.reshape(-1),
            axis=0,
            out=out[part].reshape(-1, inner),
            mode="wrap",
        )


def _permutations(size: int) -> NDArray[np.intp]:
    """Shape (size + 1, size): row L reverses the first L indices and keeps the rest."""
    index = np.arange(size)
    length = np.arange(size + 1)[:, None]
    return np.where(index < length, length - 1 - index, index)


def _across(out: Words, words: Words, lengths: Lengths) -> None:
    """A length for each (outer, inner): tiles are turned so that their lines lie along, and turned back."""
    outer, size, inner = words.shape
    columns = max(1, min(inner, _TILE // size))
    rows = max(1, _TILE // (size * columns))
    for start in range(0, outer, rows):
        for left in range(0, inner, columns):
            part = np.s_[start : start + rows, :, left : left + columns]
            turned = np.ascontiguousarray(words[part].transpose(0, 2, 1))
            lines = turned.reshape(-1, size, 1)
            moved = np.empty_like(lines)
            _along(moved, lines, lengths[start : start + rows, left : left + columns].reshape(-1))
            out[part] = moved.reshape(turned.shape).transpose(0, 2, 1)


class LengthCounts(NamedTuple):
    """How many lengths there are, how many lie above the axis size, and how many change nothing (0 or 1)."""

    total: int = 0
    clamped: int = 0
    unchanged: int = 0

    def __add__(self, other: object) -> LengthCounts:
        """Field by field."""
        if not isinstance(other, LengthCounts):
            return NotImplemented
        return LengthCounts(*(a + b for a, b in zip(self, other, strict=True)))


def count_lengths(lengths: NDArray[Any], size: int) -> LengthCounts:
    """What these lengths do to lines of `size` elements."""
    clamped = int(np.count_nonzero(lengths > np.uint64(size)))
    effective = clamp(lengths, size)
    return LengthCounts(lengths.size, clamped, int(np.count_nonzero(effective <= 1)))
