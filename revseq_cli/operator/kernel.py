"""The reversal of arrays, and what lengths do to lines.

An array is reversed as one of shape (outer, axis, inner), and its lengths as one of shape (outer, inner). Elements are
moved as words, that is, as their bytes: nothing is computed with them, and data type and byte order do not matter.
Lengths are clamped before they are converted to signed indices.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.ground.bits import word

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Words = NDArray[Any]
    Lengths = NDArray[np.intp]

# Elements of a tile: its index stays in a core's cache, and it is large enough to hide the cost of a call.
_TILE = 1 << 16
# From this many elements on, a line is worth a slice of its own; below, lines are gathered many at a time.
_LONG_LINE = 512
# Bytes of a row of packed columns: four cache lines, so that every line fetched from a wide row is used whole.
_PACKED_ROW = 256


def reverse(values: NDArray[Any], lengths: NDArray[Any], axis: int) -> NDArray[Any]:
    """A copy of `values` in which the first `length` elements of each line along `axis` are reversed.

    `lengths` is unsigned, of any width, and has the sizes of `values` but 1 along `axis`; a length above the axis
    size acts as the axis size. The result has the memory order of `values`.
    """
    if values.flags.f_contiguous and not values.flags.c_contiguous:
        return reverse(values.T, lengths.T, values.ndim - 1 - axis).T
    outer, size, inner = prod(values.shape[:axis]), values.shape[axis], prod(values.shape[axis + 1 :])
    words = np.ascontiguousarray(values).reshape(-1).view(word(values.dtype)).reshape(outer, size, inner)
    clamped = clamp(lengths, size).reshape(outer, inner)
    out = np.empty_like(words)
    _choose(words, clamped)(out, words, clamped)
    return out.reshape(-1).view(values.dtype).reshape(values.shape)


def _choose(words: Words, lengths: Lengths) -> Callable[[Words, Words, Lengths], None]:
    """The strategy for this shape; the thresholds are those of tests/benchmarks/kernel.py."""
    _, size, inner = words.shape
    if inner == 1 or (lengths == lengths[:, :1]).all():
        return _by_slices if size * inner >= _LONG_LINE else _by_table
    return _by_columns if size >= _LONG_LINE else _by_arithmetic


def clamp(lengths: NDArray[Any], size: int) -> Lengths:
    """Lengths as indices, none above `size`; they are compared as unsigned integers, so that 2^64-1 is not -1."""
    clamped: Lengths = np.minimum(_once(lengths), np.uint64(size), dtype=np.uint64).astype(np.intp)
    return np.broadcast_to(clamped, lengths.shape)


def mirrored(start: int, stop: int, length: int) -> tuple[slice, slice]:
    """Two slices of a line that give elements [start, stop) of its reversal: one is read backwards, one as it is.

    Below `length`, element j of the reversal is element length - 1 - j of the line; from there on, it is element j.
    """
    turn = min(max(length, start), stop)
    return slice(length - turn, length - start), slice(turn, stop)


def _once(lengths: NDArray[Any]) -> NDArray[Any]:
    """The lengths without repetitions: along a dimension of stride 0, all elements are one, and one is kept."""
    return lengths[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in lengths.strides)]


def _by_slices(out: Words, words: Words, lengths: Lengths) -> None:
    """One length for each outer index, long lines: copy all, then write each reversed start as one slice."""
    outer, size, inner = words.shape
    out[...] = words
    to, backwards = out.reshape(-1, inner), words.reshape(-1, inner)[::-1]
    if inner == 1:  # slices of one dimension are made faster
        to, backwards = to[:, 0], backwards[:, 0]
    starts = np.arange(outer) * size
    stops = starts + lengths[:, 0]
    total = outer * size
    for start, stop, first, last in zip(
        starts.tolist(), stops.tolist(), (total - stops).tolist(), (total - starts).tolist(), strict=True
    ):
        to[start:stop] = backwards[first:last]


def _by_table(out: Words, words: Words, lengths: Lengths) -> None:
    """One length for each outer index, short lines: a table of all permutations gives a tile's index row by row."""
    outer, size, inner = words.shape
    table = _permutations(size)
    lines = min(outer, max(1, _TILE // (size * inner)))
    firsts = np.repeat(np.arange(lines) * size, size).reshape(lines, size)
    index = np.empty((lines, size), np.intp)
    for start in range(0, outer, lines):
        part = slice(start, min(start + lines, outer))
        tile = index[: part.stop - part.start]
        # "wrap", since "raise" would gather into a buffer first; no index is out of range.
        np.take(table, lengths[part, 0], axis=0, out=tile, mode="wrap")
        tile += firsts[: len(tile)]
        _gather(words[part], tile, out[part])


def _gather(words: Words, rows: NDArray[np.intp], out: Words) -> None:
    """Rows of `inner` words, by their index."""
    inner = words.shape[2]
    if inner == 1:
        np.take(words.reshape(-1), rows.reshape(-1), out=out.reshape(-1), mode="wrap")
    else:
        np.take(words.reshape(-1, inner), rows.reshape(-1), axis=0, out=out.reshape(-1, inner), mode="wrap")


def _permutations(size: int) -> NDArray[np.intp]:
    """Shape (size + 1, size): row L reverses the first L indices and keeps the rest."""
    index = np.arange(size)
    length = np.arange(size + 1)[:, None]
    table: NDArray[np.intp] = np.where(index < length, length - 1 - index, index)
    return table


def _by_columns(out: Words, words: Words, lengths: Lengths) -> None:
    """A length for each (outer, inner), long lines: columns are packed, and each reversed start is one strided slice.

    A few columns at a time: a step along a line of the wide array would leave the cache.
    """
    outer, size, inner = words.shape
    columns = min(inner, max(1, _PACKED_ROW // words.itemsize))
    packed, turned = (np.empty((size, columns), words.dtype) for _ in range(2))
    for i in range(outer):
        for left in range(0, inner, columns):
            part = slice(left, min(left + columns, inner))
            source, result = packed[:, : part.stop - left], turned[:, : part.stop - left]
            source[...] = words[i, :, part]
            result[...] = source
            backwards = source[::-1]
            for column, length in enumerate(lengths[i, part].tolist()):
                result[:length, column] = backwards[size - length :, column]
            out[i, :, part] = result


def _by_arithmetic(out: Words, words: Words, lengths: Lengths) -> None:
    """A length for each (outer, inner), short lines: a tile's index is computed from its lengths, and gathered."""
    outer, size, inner = words.shape
    columns = min(inner, _TILE // size)
    rows = min(outer, max(1, _TILE // (size * columns)))
    tile = _Tile(rows, size, columns)
    for left in range(0, inner, columns):
        if inner - left < columns:
            tile = _Tile(rows, size, inner - left)
        across = slice(left, left + tile.columns)
        for start in range(0, outer, rows):
            part = slice(start, min(start + rows, outer))
            index = tile.index(lengths[part, across])
            # A part of every row is not contiguous: reshape copies it, and the result is copied back.
            gathered = words[part, :, across].reshape(-1).take(index, mode="wrap")
            out[part, :, across] = gathered.reshape(-1, size, tile.columns)


class _Tile:
    """What all tiles of `rows` x `size` x `columns` elements share; flat arrays, since short inner loops are slow."""

    def __init__(self, rows: int, size: int, columns: int) -> None:
        self.columns, self._row = columns, size * columns
        row, j, column = (i.reshape(-1) for i in np.indices((rows, size, columns), np.int32))
        self._lane = (row * columns + column).astype(np.intp)
        self._offset = j * columns
        self._mirror = 2 * self._offset + columns
        self._place = np.arange(rows * size * columns, dtype=np.intp)

    def index(self, lengths: Lengths) -> NDArray[np.intp]:
        """Where each element of a tile comes from, as a flat index; `lengths` has shape (rows or fewer, columns)."""
        n = lengths.shape[0] * self._row
        length = (lengths * self.columns).astype(np.int32).reshape(-1).take(self._lane[:n], mode="wrap")
        move = length - self._mirror[:n]
        move *= length > self._offset[:n]
        index: NDArray[np.intp] = self._place[:n] + move
        return index


def moved(lengths: NDArray[Any], size: int, axis: int, part: slice) -> NDArray[np.bool_]:
    """A mask of the elements of a region that lie in the first `length` of their line, for lengths above 1.

    `lengths` are the region's own, with 1 along `axis`; `size` is the axis size of the whole tensor, and `part` is the
    region's slice along the axis.
    """
    clamped = clamp(lengths, size)
    index = np.arange(part.start, part.stop).reshape([-1 if d == axis else 1 for d in range(lengths.ndim)])
    mask: NDArray[np.bool_] = (index < clamped) & (clamped > 1)
    return mask


class LengthCounts(NamedTuple):
    """How many lengths there are, how many lie above the axis size, and how many change nothing (0 or 1)."""

    total: int = 0
    clamped: int = 0
    unchanged: int = 0

    def __add__(self, other: object) -> LengthCounts:
        """The counts of this part and the other part together."""
        if not isinstance(other, LengthCounts):
            return NotImplemented
        return LengthCounts(*(a + b for a, b in zip(self, other, strict=True)))


def count_lengths(lengths: NDArray[Any], size: int) -> LengthCounts:
    """What these lengths, unsigned and of any shape, do to lines of `size` elements."""
    once = _once(lengths)
    times = lengths.size // once.size
    unchanged = int(np.count_nonzero(clamp(once, size) <= 1))
    return LengthCounts(lengths.size, count_clamped(lengths, size), unchanged * times)


def count_clamped(lengths: NDArray[Any], size: int) -> int:
    """How many of these lengths, unsigned and of any shape, are above `size`."""
    once = _once(lengths)
    # The maximum takes a fifth of the time of the comparison, and mostly no length is above.
    if int(once.max(initial=0)) <= size:
        return 0
    return int(np.count_nonzero(once > np.uint64(size))) * (lengths.size // once.size)
