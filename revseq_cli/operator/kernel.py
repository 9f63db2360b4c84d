"""The reversal of arrays, and what lengths do to lines.

The kernel sees an array as one of shape (outer, axis, inner), and its lengths as one of shape (outer, inner). It moves
elements as words, that is, as their bytes, and computes nothing with them: data type and byte order do not matter. It
clamps lengths before it converts them to signed indices.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revseq_cli.core import thresholds
from revseq_cli.core.dtypes import word_of

Words = NDArray[Any]
Lengths = NDArray[np.intp]

_WIDEST_WORD = (1 << 31) - 1  # bytes, or less, that NumPy has
# Bytes between two rows of packed columns, since rows at multiples of 256 would share a few places of the cache.
_GAP = 16


def reverse(
    values: NDArray[Any], lengths: NDArray[Any], axis: int, *, overwrite: bool = False
) -> NDArray[Any]:
    """A copy of `values` in which the first `length` elements of each line along `axis` are reversed.

    `lengths` is unsigned, of any width, and has the shape of `values` but 1 along `axis`; a length above the axis size
    is clamped to it. The result has the memory order of `values`. With `overwrite`, it may use their memory, unless
    it is read-only: blocks of a long first axis are so large that the system would have to clear the pages of others.
    """
    if not values.size:
        return values.copy()
    is_fortran = values.flags.f_contiguous and not values.flags.c_contiguous
    if is_fortran:
        last_axis = values.ndim - 1
        return reverse(values.T, lengths.T, last_axis - axis, overwrite=overwrite).T
    outer = prod(values.shape[:axis])
    size = values.shape[axis]
    distinct, shared = _drop_constant_dimensions(lengths, axis, _WIDEST_WORD // values.itemsize)
    clamped = clamp(distinct, size).reshape(outer, -1)
    word = word_of(values.itemsize * shared)
    words = np.ascontiguousarray(values).reshape(-1).view(word).reshape(outer, size, -1)
    strategy = _choose(words)
    out = words
    if not overwrite or not values.flags.writeable or strategy is not _by_columns:
        out = np.empty_like(words)
    strategy(out, words, clamped)
    return out.reshape(-1).view(values.dtype).reshape(values.shape)


def _drop_constant_dimensions(
    lengths: NDArray[Any], axis: int, most: int
) -> tuple[NDArray[Any], int]:
    """The lengths without the last dimensions along which they are constant.

    And how many elements these dimensions hold, at most `most`: they are moved as one word.
    """
    shared = 1
    while lengths.ndim > axis + 1:
        count = lengths.shape[-1]
        is_constant = shared * count <= most and (lengths == lengths[..., :1]).all()
        if not is_constant:
            break
        shared *= count
        lengths = lengths[..., 0]
    return lengths, shared


def _choose(words: Words) -> Callable[[Words, Words, Lengths], None]:
    """The fastest strategy for the shape: each is 2 to 12 times as fast in its place."""
    _, size, inner = words.shape
    if inner == 1:
        return _choose_for_sequences(words)
    is_short = size < thresholds.LONG_COLUMN
    if words.itemsize >= thresholds.WIDE_WORD:  # their rows are long, so more are gathered
        is_short = is_short or size * inner <= thresholds.TILE_ROW
    return _by_index if is_short else _by_columns


def _choose_for_sequences(words: Words) -> Callable[[Words, Words, Lengths], None]:
    """The fastest strategy for sequences whose elements lie one after another."""
    outer, size, _ = words.shape
    if outer <= thresholds.FEW_LINES:
        return _by_slices
    # For bytes in sequences of 128, a whole command takes 1.55 times as long with tables.
    least, most = thresholds.WINDOWS
    if words.itemsize <= thresholds.WINDOW_WORD and least <= size < most:
        return _by_windows
    if size >= thresholds.LONG_LINE or size > outer:
        return _by_slices
    return _by_table


def clamp(lengths: NDArray[Any], size: int) -> Lengths:
    """Lengths as indices, none above `size`; they are compared as unsigned integers, so that 2^64-1 is not -1."""
    once = _once(lengths)
    clamped: Lengths = np.minimum(once, min(size, np.iinfo(once.dtype).max)).astype(np.intp)
    return clamped if clamped.shape == lengths.shape else np.broadcast_to(clamped, lengths.shape)


def _once(lengths: NDArray[Any]) -> NDArray[Any]:
    """The lengths without repetitions: along a dimension of stride 0, all elements are one, and one is kept."""
    if 0 not in lengths.strides:
        return lengths
    return lengths[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in lengths.strides)]


def _by_slices(out: Words, words: Words, lengths: Lengths) -> None:
    """One length for each outer index, long lines: copy a tile, then write each reversed start as one slice."""
    size = words.shape[1]
    to, backwards, total = out.reshape(-1), words.reshape(-1)[::-1], words.size
    lines = max(1, thresholds.TILE_BYTES // (size * words.itemsize))
    for line, length in enumerate(lengths[:, 0].tolist()):
        if line % lines == 0:
            out[line : line + lines] = words[line : line + lines]
        start = line * size
        to[start : start + length] = backwards[total - start - length : total - start]


def _by_windows(out: Words, words: Words, lengths: Lengths) -> None:
    """One length for each outer index, small words: whole sequences are moved, each as one item.

    Each sequence is copied into the second half of a room for two. Then the sequence backwards is
    written over it, so that it ends `length` elements after the beginning of the copy. Its last
    `length` elements are the reversed start, and the others are in the first half, which nobody
    reads.
    """
    outer, size, _ = words.shape
    item = np.dtype((np.void, size * words.itemsize))
    most = min(outer, max(1, thresholds.TILE_BYTES // item.itemsize))
    rooms = np.empty((most, 2 * size), words.dtype)
    copies = rooms[:, size:].view(item)[:, 0]
    # The item that begins at each element of the rooms.
    windows: Words = np.ndarray(rooms.size - size + 1, item, rooms, strides=(words.itemsize,))
    room_starts = np.arange(most) * (2 * size)
    for start in range(0, outer, most):
        part = words[start : start + most].reshape(-1)
        count = len(part) // size
        copies[:count] = part.view(item)
        backwards = part[::-1].copy().view(item)  # the last sequence comes first
        places = room_starts[:count] + lengths[start : start + count, 0]
        windows[places[::-1]] = backwards
        out[start : start + count].reshape(-1).view(item)[...] = copies[:count]


def _by_table(out: Words, words: Words, lengths: Lengths) -> None:
    """One length for each outer index, short lines: a table of all permutations gives a tile's index row by row."""
    outer, size, _ = words.shape
    position, length = np.arange(size), np.arange(size + 1)[:, None]
    table = np.where(position < length, length - 1 - position, position).astype(np.uint16)
    lines = min(outer, max(1, thresholds.TILE // size))
    firsts = np.repeat(np.arange(lines, dtype=np.uint16) * np.uint16(size), size).reshape(
        lines, size
    )
    index = np.empty((lines, size), np.uint16)
    for start in range(0, outer, lines):
        part = slice(start, min(start + lines, outer))
        tile = index[: part.stop - part.start]
        # "wrap", since "raise" would gather into a buffer first; no index is out of range.
        np.take(table, lengths[part, 0], axis=0, out=tile, mode="wrap")
        tile += firsts[: len(tile)]
        np.take(words[part].reshape(-1), tile.reshape(-1), out=out[part].reshape(-1), mode="wrap")


def _by_columns(out: Words, words: Words, lengths: Lengths) -> None:
    """A length for each (outer, inner), long columns: each reversed start is one strided slice.

    A few columns at a time are packed, since a step along a column of the wide array would leave
    the cache. `out` may be `words`.
    """
    outer, size, inner = words.shape
    least, most = thresholds.PACKED_ROW
    row_bytes = max(least, min(most, thresholds.PACKED // size))
    columns = min(inner, max(1, row_bytes // words.itemsize))
    gap = min(_GAP // words.itemsize, inner - columns)  # at most what two copies take
    packed, reversed_ = np.empty((2, size, columns + gap), words.dtype)
    for i in range(outer):
        for left in range(0, inner, columns):
            across = slice(left, min(left + columns, inner))
            count = across.stop - across.start
            packed[:, :count] = words[i, :, across]
            reversed_[...] = packed
            pairs = zip(reversed_[:, :count].T, packed[::-1, :count].T, strict=True)
            part_lengths = lengths[i, across].tolist()
            for (column, backwards), length in zip(pairs, part_lengths, strict=True):
                column[:length] = backwards[size - length :]
            out[i, :, across] = reversed_[:, :count]


def _by_index(out: Words, words: Words, lengths: Lengths) -> None:
    """A length for each (outer, inner), short columns: a tile's elements are gathered by an index."""
    outer, size, inner = words.shape
    most = inner
    if size * inner > thresholds.TILE_ROW:
        most = thresholds.TILE_ROW // size
    rows = min(outer, max(1, thresholds.TILE // (size * most)))
    for left in range(0, inner, most):
        columns = min(most, inner - left)
        if left == 0 or columns < most:
            tile = _TileIndex(rows, size, columns)
        across = slice(left, left + columns)
        for start in range(0, outer, rows):
            part = slice(start, min(start + rows, outer))
            index = tile.compute(lengths[part, across])
            source = words[part, :, across]
            target = out[part, :, across]
            if columns == inner:
                np.take(source.reshape(-1), index, out=target.reshape(-1), mode="wrap")
            else:  # a part of every row is not contiguous: it is copied, there and back
                gathered = source.reshape(-1).take(index, mode="wrap")
                target[...] = gathered.reshape(target.shape)


class _TileIndex:
    """Where each element of a tile of (rows, size, columns) comes from.

    Indices are flat, since short inner loops are slow, and have 16 bits, so that little memory
    moves. Those of a row are below `TILE_ROW`, a quarter of what 16 bits hold.
    """

    _STAYS = np.uint16(1 << 15)  # a bit that no index has

    def __init__(self, rows: int, size: int, columns: int) -> None:
        self._size = size
        self._columns = columns
        row, j, column = (i.reshape(-1) for i in np.indices((rows, size, columns), np.uint16))
        self._first = row * np.uint16(size * columns) + column  # of each element's column
        self._offset = j * np.uint16(columns)  # from there to the element
        self._stay = self._offset | self._STAYS

    def compute(self, lengths: Lengths) -> NDArray[np.uint16]:
        """The index for lengths of shape (rows or fewer, columns)."""
        # The last element that moves; a row of them is one item, which is repeated faster.
        last = ((lengths - 1) * self._columns).astype(np.uint16, order="C")
        item = f"V{2 * self._columns}"
        index = last.view(item).repeat(self._size).view(np.uint16)
        count = len(index)
        # The mirror image of an element that moves. For one that stays, it is below 0, which is
        # more than any `stay` in unsigned numbers.
        index -= self._offset[:count]
        np.minimum(index, self._stay[:count], out=index)
        index &= ~self._STAYS
        index += self._first[:count]
        return index


def count_clamped(lengths: NDArray[Any], size: int) -> int:
    """How many of these lengths, unsigned and of any shape, are above `size`."""
    once = _once(lengths)
    # The maximum takes a fifth of the time of the comparison, and mostly no length is above.
    if int(once.max(initial=0)) <= size:
        return 0
    return int(np.count_nonzero(once > np.uint64(size))) * (lengths.size // once.size)
