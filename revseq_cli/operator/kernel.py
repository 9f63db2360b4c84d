"""The reversal of arrays, and what lengths do to sequences.

The kernel sees an array as one of shape (outer, axis, inner), and its lengths as one of shape
(outer, inner). It moves elements as words, which are just their bytes, and computes nothing with
them: data type and byte order do not matter. It clamps lengths before it converts them to signed
indices.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
from numpy.typing import NDArray

from revseq_cli.core import thresholds
from revseq_cli.core.dtypes import Array, word_of

Lengths = NDArray[np.intp]
Strategy = Callable[[Array, Array, Lengths], None]

_WIDEST_WORD = (1 << 31) - 1  # bytes; NumPy has no wider one
# Bytes between two rows of packed columns: rows at multiples of 256 would share a few cache lines.
_GAP = 16


def reverse(values: Array, lengths: Array, axis: int, *, overwrite: bool = False) -> Array:
    """A copy of `values` in which the first `length` elements of each sequence are reversed.

    Sequences run along `axis`. `lengths` is unsigned, of any width, and has the shape of `values`
    but 1 along `axis`; a length above the axis size is clamped to it. The result has the memory
    order of `values`.

    With `overwrite`, the result may use the memory of `values`, unless that is read-only. For the
    large blocks of a long first axis, new memory would cost time, since the system clears it.
    """
    if not values.size:
        return values.copy()
    is_fortran = values.flags.f_contiguous and not values.flags.c_contiguous
    if is_fortran:
        last_axis = values.ndim - 1
        return reverse(values.T, lengths.T, last_axis - axis, overwrite=overwrite).T
    outer = prod(values.shape[:axis])
    size = values.shape[axis]
    lengths = _drop_constant_dimensions(lengths, axis, _WIDEST_WORD // values.itemsize)
    # Elements next to each other that share a length move as one word.
    elements = prod(values.shape[lengths.ndim :])
    word = word_of(values.itemsize * elements)
    flat = np.ascontiguousarray(values).reshape(-1)
    words = flat.view(word).reshape(outer, size, -1)
    clamped = clamp(lengths, size).reshape(outer, -1)
    strategy = _choose(words)
    may_overwrite = overwrite and values.flags.writeable
    if may_overwrite and strategy is _by_columns:
        out = words
    else:
        out = np.empty_like(words)
    strategy(out, words, clamped)
    return out.reshape(-1).view(values.dtype).reshape(values.shape)


def _drop_constant_dimensions(lengths: Array, axis: int, most: int) -> Array:
    """The lengths without the last dimensions along which they are constant.

    Dimensions are dropped only as long as they have at most `most` elements together.
    """
    elements = 1
    while lengths.ndim > axis + 1:
        elements *= lengths.shape[-1]
        if elements > most or (lengths != lengths[..., :1]).any():
            break
        lengths = lengths[..., 0]
    return lengths


def _choose(words: Array) -> Strategy:
    """The fastest strategy for the shape: 2 to 12 times as fast as the others."""
    _, size, inner = words.shape
    if inner == 1:
        return _choose_for_sequences(words)
    if size < thresholds.LONG_COLUMN:
        return _by_index
    is_wide = words.itemsize >= thresholds.WIDE_WORD
    if is_wide and size * inner <= thresholds.TILE_ROW:
        return _by_index
    return _by_columns


def _choose_for_sequences(words: Array) -> Strategy:
    """The fastest strategy for sequences whose elements lie one after another."""
    outer, size, _ = words.shape
    if outer <= thresholds.FEW_SEQUENCES:
        return _by_slices
    # For bytes in sequences of 128, a whole command takes 1.55 times as long with tables.
    least, most = thresholds.WINDOWS
    if words.itemsize <= thresholds.WINDOW_WORD and least <= size < most:
        return _by_windows
    if size >= thresholds.LONG_SEQUENCE or size > outer:
        return _by_slices
    return _by_table


def clamp(lengths: Array, size: int) -> Lengths:
    """Lengths as indices, none above `size`.

    They are compared as unsigned integers, so that 2^64-1 is not -1.
    """
    distinct = _drop_repeated(lengths)
    most = min(size, np.iinfo(distinct.dtype).max)
    clamped: Lengths = np.minimum(distinct, most).astype(np.intp)
    if clamped.shape == lengths.shape:
        return clamped
    return np.broadcast_to(clamped, lengths.shape)


def _drop_repeated(lengths: Array) -> Array:
    """The lengths without repetitions: along a dimension of stride 0, one element is kept."""
    if 0 not in lengths.strides:
        return lengths
    kept = [slice(None)] * lengths.ndim
    for d, stride in enumerate(lengths.strides):
        if stride == 0:
            kept[d] = slice(0, 1)
    return lengths[tuple(kept)]


def _by_slices(out: Array, words: Array, lengths: Lengths) -> None:
    """One length for each outer index, long sequences: each reversed start is one slice.

    A tile of sequences is copied first. It is still in the cache when their starts are written.
    """
    size = words.shape[1]
    total = words.size
    target = out.reshape(-1)
    backwards = words.reshape(-1)[::-1]
    at_once = max(1, thresholds.TILE_BYTES // (size * words.itemsize))
    for i, length in enumerate(lengths[:, 0].tolist()):
        if i % at_once == 0:
            tile = slice(i, i + at_once)
            out[tile] = words[tile]
        start = i * size
        stop = start + length
        target[start:stop] = backwards[total - stop : total - start]


def _by_windows(out: Array, words: Array, lengths: Lengths) -> None:
    """One length for each outer index, small words: whole sequences are moved, each as one item.

    Each sequence gets a room of twice its size, of which the second half is the result. The
    sequence is copied into that half, and then written backwards from element `length` of the room
    on: it never leaves its room, and what comes to lie in the first half is never read. Of abcd
    with length 3:

        . . . . | a b c d   the copy
        . . . d | c b a d   dcba from element 3 on
    """
    outer, size, _ = words.shape
    item = np.dtype((np.void, size * words.itemsize))
    at_once = max(1, thresholds.TILE_BYTES // item.itemsize)
    at_once = min(outer, at_once)
    rooms = np.empty((at_once, 2 * size), words.dtype)
    results = rooms[:, size:].view(item)[:, 0]
    # windows[k] is the item that begins at element k of all rooms. Items overlap, and to assign to
    # one of them writes a whole sequence there.
    last_start = rooms.size - size
    windows: Array = np.ndarray(last_start + 1, item, rooms, strides=(words.itemsize,))
    room_starts = np.arange(at_once) * (2 * size)
    for start in range(0, outer, at_once):
        part = slice(start, start + at_once)
        source = words[part].reshape(-1)
        target = out[part].reshape(-1).view(item)
        count = len(target)
        results[:count] = source.view(item)
        starts = room_starts[:count] + lengths[part, 0]  # element `length` of each room
        backwards = source[::-1].copy().view(item)  # the last sequence comes first
        windows[starts[::-1]] = backwards
        target[...] = results[:count]


def _by_table(out: Array, words: Array, lengths: Lengths) -> None:
    """One length for each outer index, short sequences: a tile's elements are gathered.

    A table has the permutation for each length, and so gives the index of a tile row by row.
    """
    outer, size, _ = words.shape
    table = _make_permutations(size)
    at_once = max(1, thresholds.TILE // size)
    at_once = min(outer, at_once)
    starts = np.arange(at_once, dtype=np.uint16) * np.uint16(size)
    firsts = np.repeat(starts, size).reshape(at_once, size)
    index = np.empty((at_once, size), np.uint16)
    for start in range(0, outer, at_once):
        part = slice(start, min(start + at_once, outer))
        tile = index[: part.stop - part.start]
        # "wrap", since "raise" would gather into a buffer first; no index is out of range.
        np.take(table, lengths[part, 0], axis=0, out=tile, mode="wrap")
        tile += firsts[: len(tile)]
        source = words[part].reshape(-1)
        target = out[part].reshape(-1)
        np.take(source, tile.reshape(-1), out=target, mode="wrap")


def _make_permutations(size: int) -> NDArray[np.uint16]:
    """For each length from 0 to `size`, where each element of a sequence comes from."""
    position = np.arange(size)
    length = np.arange(size + 1)[:, None]
    mirrored = length - 1 - position
    return np.where(position < length, mirrored, position).astype(np.uint16)


def _by_columns(out: Array, words: Array, lengths: Lengths) -> None:
    """A length for each (outer, inner), long columns: each reversed start is one strided slice.

    A few columns at a time are packed next to each other, since steps along a column of a wide
    array miss the cache. `out` may be `words`.
    """
    outer, size, inner = words.shape
    least, most = thresholds.PACKED_ROW
    row_bytes = max(least, min(most, thresholds.PACKED // size))
    columns = max(1, row_bytes // words.itemsize)
    columns = min(inner, columns)
    # A packed row is no longer than a row of `words`: so `packed` and `reversed_` together take at
    # most twice the memory of words[i].
    gap = min(_GAP // words.itemsize, inner - columns)
    row = columns + gap
    packed, reversed_ = np.empty((2, size, row), words.dtype)
    for i in range(outer):
        for left in range(0, inner, columns):
            right = min(left + columns, inner)
            across = slice(left, right)
            count = right - left
            packed[:, :count] = words[i, :, across]
            reversed_[...] = packed
            targets = reversed_[:, :count].T
            backwards = packed[::-1, :count].T
            column_lengths = lengths[i, across].tolist()
            for target, back, length in zip(targets, backwards, column_lengths, strict=True):
                target[:length] = back[size - length :]
            out[i, :, across] = reversed_[:, :count]


def _by_index(out: Array, words: Array, lengths: Lengths) -> None:
    """A length for each (outer, inner), short columns: a tile's elements are gathered."""
    outer, size, inner = words.shape
    columns = min(inner, thresholds.TILE_ROW // size)
    rows = max(1, thresholds.TILE // (size * columns))
    rows = min(outer, rows)
    tile = _TileIndex(rows, size, columns)
    for left in range(0, inner, columns):
        right = min(left + columns, inner)
        across = slice(left, right)
        if right - left < columns:  # the last columns of many
            tile = _TileIndex(rows, size, right - left)
        for start in range(0, outer, rows):
            part = slice(start, start + rows)
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

    Indices are flat, since short inner loops are slow. They have 16 bits, so that little memory
    moves; `TILE_ROW` keeps those of a row below a quarter of what 16 bits hold. An element that
    moves comes from `length - 1 - j`. For one that stays, this is below 0 and wraps around to a
    large number, so that the minimum picks its own index. For one column of 3 elements and length
    2:

        last = length - 1       1      1      1
        last - _offset          1      0  65535
        _stay               32768  32769  32770
        the minimum             1      0  32770
        without _STAYS          1      0      2

    With several columns, `last` and `_offset` are multiplied by their number, because the elements
    of a column are that far apart. `_first`, where each column begins, is added at the end.
    """

    _STAYS = np.uint16(1 << 15)  # a bit that no index has

    def __init__(self, rows: int, size: int, columns: int) -> None:
        self._size = size
        self._columns = columns
        indices = np.indices((rows, size, columns), np.uint16)
        row, j, column = indices.reshape(3, -1)
        # The index of each element is that of the first element of its column, and an offset.
        self._first = row * np.uint16(size * columns) + column
        self._offset = j * np.uint16(columns)
        self._stay = self._offset | self._STAYS

    def compute(self, lengths: Lengths) -> NDArray[np.uint16]:
        """The index for lengths of shape (rows or fewer, columns)."""
        last = ((lengths - 1) * self._columns).astype(np.uint16, order="C")
        # A row of indices is repeated faster as one item. It can be one, since the order is C.
        row = f"V{2 * self._columns}"
        index = last.view(row).repeat(self._size).view(np.uint16)
        count = len(index)
        index -= self._offset[:count]
        np.minimum(index, self._stay[:count], out=index)
        index &= ~self._STAYS
        index += self._first[:count]
        return index


def count_clamped(lengths: Array, size: int) -> int:
    """How many of these lengths, unsigned and of any shape, are above `size`."""
    distinct = _drop_repeated(lengths)
    # Mostly no length is above, and the maximum takes a fifth of the time of the comparison.
    if int(distinct.max(initial=0)) <= size:
        return 0
    repeats = lengths.size // distinct.size
    return int(np.count_nonzero(distinct > np.uint64(size))) * repeats
