"""The reversal of arrays, and what lengths do to lines.

The kernel sees an array as one of shape (outer, axis, inner), and its lengths as one of shape (outer, inner). It moves
elements as words, that is, as their bytes, and computes nothing with them: data type and byte order do not matter. It
clamps lengths before it converts them to signed indices.
"""

from __future__ import annotations

import functools
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.core import thresholds
from revseq_cli.core.dtypes import word_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Words = NDArray[Any]
    Lengths = NDArray[np.intp]


def reverse(values: NDArray[Any], lengths: NDArray[Any], axis: int, *, overwrite: bool = False) -> NDArray[Any]:
    """A copy of `values` in which the first `length` elements of each line along `axis` are reversed.

    `lengths` is unsigned, of any width, and has the shape of `values` but 1 along `axis`; a length above the axis size
    is clamped to it. The result has the memory order of `values`. With `overwrite`, it may use their memory: blocks of
    a long first axis are so large that the system would have to clear the pages of each new one.
    """
    if not values.flags.c_contiguous and values.flags.f_contiguous:
        return reverse(values.T, lengths.T, values.ndim - 1 - axis, overwrite=overwrite).T
    outer, size = prod(values.shape[:axis]), values.shape[axis]
    of_lines, shared = _shared(lengths, axis, thresholds.WIDEST_WORD // values.itemsize)
    clamped = clamp(of_lines, size).reshape(outer, -1)
    words = np.ascontiguousarray(values).reshape(-1).view(word_of(values.itemsize * shared)).reshape(outer, size, -1)
    strategy = _choose(words, clamped)
    out = words if overwrite and strategy is _by_columns else np.empty_like(words)
    strategy(out, words, clamped)
    return out.reshape(-1).view(values.dtype).reshape(values.shape)


def _shared(lengths: NDArray[Any], axis: int, most: int) -> tuple[NDArray[Any], int]:
    """The lengths without the last dimensions along which they are constant, and how many elements these hold."""
    shared = 1
    while lengths.ndim > axis + 1 and shared * lengths.shape[-1] <= most and (lengths == lengths[..., :1]).all():
        shared *= lengths.shape[-1]
        lengths = lengths[..., 0]
    return lengths, shared


def _choose(words: Words, lengths: Lengths) -> Callable[[Words, Words, Lengths], None]:
    """The first strategy that suits the shape; the thresholds are those of tests/benchmarks/kernel.py."""
    outer, size, inner = words.shape
    alone, width = inner == 1, words.itemsize
    least, most = thresholds.WINDOWS
    if alone and outer <= thresholds.FEW_LINES:  # of a small call, the table would take a tenth
        return _by_pairs_of_slices
    suits = {
        _at_once: alone and (lengths == lengths[:1]).all(),
        _by_pairs_of_slices: alone and size * width >= thresholds.LONG_BYTES,
        _by_windows: alone and width <= thresholds.WINDOW_BYTES and least <= size < most // width**2,
        _by_slices: alone and (size >= thresholds.LONG_LINE or size > outer),
        _by_table: alone,
        _by_formula: words.size <= thresholds.FEW_ELEMENTS,
        _by_index: size < thresholds.LONG_COLUMN
        if width < thresholds.WIDE_WORD
        else size * inner <= thresholds.TILE_ROW,
        _by_columns: width < thresholds.WIDE_WORD,
    }
    return next((strategy for strategy, suitable in suits.items() if suitable), _by_rows)


def clamp(lengths: NDArray[Any], size: int) -> Lengths:
    """Lengths as indices, none above `size`; they are compared as unsigned integers, so that 2^64-1 is not -1."""
    once = _once(lengths)
    clamped: Lengths = np.minimum(once, min(size, _largest(once.dtype))).astype(np.intp)
    return clamped if clamped.shape == lengths.shape else np.broadcast_to(clamped, lengths.shape)


@functools.cache
def _largest(dtype: np.dtype[Any]) -> int:
    return int(np.iinfo(dtype).max)


def _once(lengths: NDArray[Any]) -> NDArray[Any]:
    """The lengths without repetitions: along a dimension of stride 0, all elements are one, and one is kept."""
    if 0 not in lengths.strides:
        return lengths
    return lengths[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in lengths.strides)]


def _backwards(to: Words, words: Words) -> None:
    """Copy a tile of words into `to`, the last one first.

    NumPy moves one word at a time. So of words of 1 or 2 bytes, eight bytes are moved at a time with all bytes swapped,
    and then those of each word are swapped back: of 256 KiB, that takes 0.09 and 0.33 of the time. Words of 4 bytes
    gain nothing, since the memory between the two steps leaves the cache.
    """
    if words.itemsize > 2 or words.nbytes % 8:
        to[...] = words[::-1]
        return
    to.view(np.uint64)[...] = words.view(np.dtype(np.uint64).newbyteorder())[::-1]
    if words.itemsize == 2:
        to[...] = to.view(words.dtype.newbyteorder())


def _at_once(out: Words, words: Words, lengths: Lengths) -> None:
    """One length for all lines: two copies."""
    size, length = words.shape[1], int(lengths[0, 0])
    out[:, :length] = words[:, ::-1][:, size - length :]
    out[:, length:] = words[:, length:]


def _by_pairs_of_slices(out: Words, words: Words, lengths: Lengths) -> None:
    """One length for each outer index, lines of many bytes: each is written once, in two slices."""
    size = words.shape[1]
    for to, line, length in zip(out, words, lengths[:, 0].tolist(), strict=True):
        to[:length] = line[::-1][size - length :]
        to[length:] = line[length:]


def _by_slices(out: Words, words: Words, lengths: Lengths) -> None:
    """One length for each outer index, long lines: copy a tile, then write each reversed start as one slice."""
    outer, size, _ = words.shape
    to, backwards = out.reshape(-1), words.reshape(-1)[::-1]
    starts = np.arange(outer) * size
    stops = starts + lengths[:, 0]
    total = outer * size
    bounds = zip(starts.tolist(), stops.tolist(), (total - stops).tolist(), (total - starts).tolist(), strict=True)
    lines = max(1, thresholds.TILE_BYTES // (size * words.itemsize))
    for line, (start, stop, first, last) in enumerate(bounds):
        if line % lines == 0:
            out[line : line + lines] = words[line : line + lines]
        to[start:stop] = backwards[first:last]


def _by_windows(out: Words, words: Words, lengths: Lengths) -> None:
    """One length for each outer index, lines that are neither: whole lines are moved, each as one item.

    The reversed line is written over a copy of the line, `length` elements behind the place one line before it: its
    last elements are then the reversed start, and its first ones lie in room that nobody reads.
    """
    outer, size, _ = words.shape
    item = np.dtype((np.void, size * words.itemsize))
    lines = min(outer, max(1, thresholds.TILE_BYTES // item.itemsize))
    backwards = np.empty(lines * size, words.dtype)
    rooms = np.empty((lines, 2 * size), words.dtype)
    copies = rooms[:, size:].view(item)[:, 0]
    windows: Words = np.ndarray(rooms.size - size + 1, item, rooms, strides=(words.itemsize,))
    firsts = np.arange(lines) * (2 * size)
    for start in range(0, outer, lines):
        part = slice(start, min(start + lines, outer))
        n = part.stop - start
        reversed_lines = backwards[: n * size]
        _backwards(reversed_lines, words[part].reshape(-1))  # the last line comes first
        copies[:n] = words[part].reshape(-1).view(item)
        windows[(firsts[:n] + lengths[part, 0])[::-1]] = reversed_lines.view(item)
        out[part].reshape(-1).view(item)[...] = copies[:n]


def _by_table(out: Words, words: Words, lengths: Lengths) -> None:
    """One length for each outer index, short lines: a table of all permutations gives a tile's index row by row."""
    outer, size, _ = words.shape
    table = _permutations(size)
    lines = min(outer, max(1, thresholds.TILE // size))
    firsts = np.repeat(np.arange(lines, dtype=np.uint16) * np.uint16(size), size).reshape(lines, size)
    index = np.empty((lines, size), np.uint16)
    for start in range(0, outer, lines):
        part = slice(start, min(start + lines, outer))
        tile = index[: part.stop - part.start]
        # "wrap", since "raise" would gather into a buffer first; no index is out of range.
        np.take(table, lengths[part, 0], axis=0, out=tile, mode="wrap")
        tile += firsts[: len(tile)]
        np.take(words[part].reshape(-1), tile.reshape(-1), out=out[part].reshape(-1), mode="wrap")


def _permutations(size: int) -> NDArray[np.uint16]:
    """Shape (size + 1, size): row L reverses the first L indices and keeps the rest."""
    index = np.arange(size)
    length = np.arange(size + 1)[:, None]
    return np.where(index < length, length - 1 - index, index).astype(np.uint16)


def _by_formula(out: Words, words: Words, lengths: Lengths) -> None:
    """A length for each (outer, inner), few elements: nothing is made that only many of them are worth."""
    index, length = np.arange(words.shape[1])[:, None], lengths[:, None]
    out[...] = np.take_along_axis(words, np.where(index < length, length - 1 - index, index), 1)


def _by_columns(out: Words, words: Words, lengths: Lengths) -> None:
    """A length for each (outer, inner), long lines: columns are packed, and each reversed start is one strided slice.

    A few columns at a time: a step along a line of the wide array would leave the cache. `out` may be `words`.
    """
    outer, size, inner = words.shape
    least, most = thresholds.PACKED_ROW
    columns = min(inner, max(least, min(most, thresholds.PACKED // size)) // words.itemsize)
    gap = min(thresholds.PACKED_GAP // words.itemsize, inner - columns)  # so that both are no more than two copies
    source, to = np.empty((2, size, columns + gap), words.dtype)
    for i in range(outer):
        for left in range(0, inner, columns):
            part = slice(left, min(left + columns, inner))
            few = part.stop - part.start
            source[:, :few] = words[i, :, part]
            to[...] = source
            of_columns = zip(to[:, :few].T, source[::-1, :few].T, lengths[i, part].tolist(), strict=True)
            for column, backwards, length in of_columns:
                column[:length] = backwards[size - length :]
            out[i, :, part] = to[:, :few]


def _by_rows(out: Words, words: Words, lengths: Lengths) -> None:
    """A length for each (outer, inner), wide words: those of some rows of the output are gathered at once."""
    outer, size, inner = words.shape
    columns, rows = min(inner, thresholds.TILE), max(1, thresholds.TILE // inner)
    for i in range(outer):
        source = words[i].reshape(-1)
        for left in range(0, inner, columns):
            across = np.arange(left, min(left + columns, inner))
            length = lengths[i, across]
            for start in range(0, size, rows):
                j = np.arange(start, min(start + rows, size))[:, None]
                index = np.where(j < length, length - 1 - j, j) * inner + across
                to = out[i, start : start + rows, left : left + columns]
                np.take(source, index.reshape(-1), out=to.reshape(-1), mode="wrap")


def _by_index(out: Words, words: Words, lengths: Lengths) -> None:
    """A length for each (outer, inner), short lines: a tile's index is computed from its lengths, and gathered."""
    outer, size, inner = words.shape
    columns = inner if size * inner <= thresholds.TILE_ROW else thresholds.TILE_ROW // size
    rows = min(outer, max(1, thresholds.TILE // (size * columns)))
    tile = _Tile(rows, size, columns)
    for left in range(0, inner, columns):
        if inner - left < columns:
            tile = _Tile(rows, size, inner - left)
        across = slice(left, left + tile.columns)
        for start in range(0, outer, rows):
            part = slice(start, min(start + rows, outer))
            index = tile.index(lengths[part, across])
            source, to = words[part, :, across], out[part, :, across]
            if columns == inner:  # else a part of every row is not contiguous: it is copied, there and back
                np.take(source.reshape(-1), index, out=to.reshape(-1), mode="wrap")
            else:
                to[...] = source.reshape(-1).take(index, mode="wrap").reshape(to.shape)


class _Tile:
    """What all tiles of `rows` x `size` x `columns` elements share; flat arrays, since short inner loops are slow.

    Indices have 16 bits, so that little memory moves. Those of a row are below `TILE_ROW`,
    a quarter of what 16 bits hold.
    """

    _STAYS = np.uint16(1 << 15)

    def __init__(self, rows: int, size: int, columns: int) -> None:
        self.columns, self._size = columns, size
        row, j, column = (i.reshape(-1) for i in np.indices((rows, size, columns), np.uint16))
        self._first = row * np.uint16(size * columns) + column
        self._offset = j * np.uint16(columns)
        self._stay = self._offset | self._STAYS

    def index(self, lengths: Lengths) -> NDArray[np.uint16]:
        """Where each element of a tile comes from, as a flat index; `lengths` has shape (rows or fewer, columns)."""
        # The last element that moves, for each row as an item, which is repeated faster than one by one.
        last = ((lengths - 1) * self.columns).astype(np.uint16, order="C")
        index = last.view(f"V{2 * self.columns}").repeat(self._size).view(np.uint16)
        n = len(index)
        # Where the mirror image lies; where an element stays, that is below 0, and becomes more than any `_stay`.
        index -= self._offset[:n]
        np.minimum(index, self._stay[:n], out=index)
        index &= ~self._STAYS
        index += self._first[:n]
        return index


class LengthCounts(NamedTuple):
    """How many lengths there are, how many lie above the axis size, and how many change nothing (0 or 1)."""

    total: int = 0
    clamped: int = 0
    unchanged: int = 0


def count_lengths(lengths: NDArray[Any], size: int) -> LengthCounts:
    """Count what these lengths, unsigned and of any shape, do to lines of `size` elements."""
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
