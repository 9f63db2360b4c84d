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
    if not values.flags.c_contiguous and values.flags.f_contiguous:
        return reverse(values.T, lengths.T, values.ndim - 1 - axis, overwrite=overwrite).T
    outer, size = prod(values.shape[:axis]), values.shape[axis]
    of_lines, shared = _shared(lengths, axis, _WIDEST_WORD // values.itemsize)
    clamped = clamp(of_lines, size).reshape(outer, -1)
    words = (
        np.ascontiguousarray(values)
        .reshape(-1)
        .view(word_of(values.itemsize * shared))
        .reshape(outer, size, -1)
    )
    strategy = _choose(words)
    out = (
        words
        if overwrite and values.flags.writeable and strategy is _by_columns
        else np.empty_like(words)
    )
    strategy(out, words, clamped)
    return out.reshape(-1).view(values.dtype).reshape(values.shape)


def _shared(lengths: NDArray[Any], axis: int, most: int) -> tuple[NDArray[Any], int]:
    """The lengths without the last dimensions along which they are constant, and how many elements these hold."""
    shared = 1
    while (
        lengths.ndim > axis + 1
        and shared * lengths.shape[-1] <= most
        and (lengths == lengths[..., :1]).all()
    ):
        shared *= lengths.shape[-1]
        lengths = lengths[..., 0]
    return lengths, shared


def _choose(words: Words) -> Callable[[Words, Words, Lengths], None]:
    """The fastest strategy for the shape: each is 2 to 12 times as fast in its place."""
    outer, size, inner = words.shape
    if inner == 1:
        long = size >= thresholds.LONG_LINE or size > outer or outer <= thresholds.FEW_LINES
        # For bytes in lines of 128, a whole command takes 1.55 times as long with tables.
        least, most = thresholds.WINDOWS
        if (
            words.itemsize <= thresholds.WINDOW_WORD
            and least <= size < most
            and outer > thresholds.FEW_LINES
        ):
            return _by_windows
        return _by_slices if long else _by_table
    # Of wide words, whose rows are long, more are gathered.
    is_short = size < thresholds.LONG_COLUMN or (
        words.itemsize >= thresholds.WIDE_WORD and size * inner <= thresholds.TILE_ROW
    )
    return _by_index if is_short else _by_columns


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
    """One length for each outer index, small words: whole lines are moved, each as one item.

    The reversed line is written over a copy of the line, `length` elements behind the place one line before it: its
    last elements are then the reversed start, and its first ones lie in room that nobody reads.
    """
    outer, size, _ = words.shape
    item = np.dtype((np.void, size * words.itemsize))
    lines = min(outer, max(1, thresholds.TILE_BYTES // item.itemsize))
    rooms = np.empty((lines, 2 * size), words.dtype)
    copies = rooms[:, size:].view(item)[:, 0]
    windows: Words = np.ndarray(rooms.size - size + 1, item, rooms, strides=(words.itemsize,))
    firsts = np.arange(lines) * (2 * size)
    for start in range(0, outer, lines):
        part = words[start : start + lines].reshape(-1)
        n = len(part) // size
        copies[:n] = part.view(item)
        backwards = part[::-1].copy().view(item)  # the last line comes first
        windows[(firsts[:n] + lengths[start : start + n, 0])[::-1]] = backwards
        out[start : start + n].reshape(-1).view(item)[...] = copies[:n]


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
    """A length for each (outer, inner), long lines: columns are packed, and each reversed start is one strided slice.

    A few columns at a time: a step along a line of the wide array would leave the cache. `out` may be `words`.
    """
    outer, size, inner = words.shape
    least, most = thresholds.PACKED_ROW
    columns = min(inner, max(1, max(least, min(most, thresholds.PACKED // size)) // words.itemsize))
    gap = min(_GAP // words.itemsize, inner - columns)  # so that both are no more than two copies
    source, to = np.empty((2, size, columns + gap), words.dtype)
    for i in range(outer):
        for left in range(0, inner, columns):
            part = slice(left, min(left + columns, inner))
            few = part.stop - part.start
            source[:, :few] = words[i, :, part]
            to[...] = source
            of_columns = zip(
                to[:, :few].T, source[::-1, :few].T, lengths[i, part].tolist(), strict=True
            )
            for column, backwards, length in of_columns:
                column[:length] = backwards[size - length :]
            out[i, :, part] = to[:, :few]


def _by_index(out: Words, words: Words, lengths: Lengths) -> None:
    """A length for each (outer, inner), short lines: a tile's index is computed from its lengths, and gathered."""
    outer, size, inner = words.shape
    most = inner if size * inner <= thresholds.TILE_ROW else thresholds.TILE_ROW // size
    rows = min(outer, max(1, thresholds.TILE // (size * most)))
    for left in range(0, inner, most):
        columns = min(most, inner - left)
        if left == 0 or columns < most:
            index_of = _tile_index(rows, size, columns)
        across = slice(left, left + columns)
        for start in range(0, outer, rows):
            part = slice(start, min(start + rows, outer))
            index = index_of(lengths[part, across])
            source, to = words[part, :, across], out[part, :, across]
            if (
                columns == inner
            ):  # else a part of every row is not contiguous: it is copied, there and back
                np.take(source.reshape(-1), index, out=to.reshape(-1), mode="wrap")
            else:
                to[...] = source.reshape(-1).take(index, mode="wrap").reshape(to.shape)


def _tile_index(rows: int, size: int, columns: int) -> Callable[[Lengths], NDArray[np.uint16]]:
    """The function from lengths of shape (rows or fewer, columns) to where each element of their tile comes from.

    Indices are flat, since short inner loops are slow, and have 16 bits, so that little memory moves. Those of a row
    are below `TILE_ROW`, a quarter of what 16 bits hold.
    """
    stays = np.uint16(1 << 15)
    row, j, column = (i.reshape(-1) for i in np.indices((rows, size, columns), np.uint16))
    first, offset = row * np.uint16(size * columns) + column, j * np.uint16(columns)
    stay = offset | stays

    def index_of(lengths: Lengths) -> NDArray[np.uint16]:
        # The last element that moves, for each row as an item, which is repeated faster than one by one.
        last = ((lengths - 1) * columns).astype(np.uint16, order="C")
        index = last.view(f"V{2 * columns}").repeat(size).view(np.uint16)
        n = len(index)
        # Where the mirror image lies; where an element stays, that is below 0, and becomes more than any `stay`.
        index -= offset[:n]
        np.minimum(index, stay[:n], out=index)
        index &= ~stays
        index += first[:n]
        return index

    return index_of


def count_clamped(lengths: NDArray[Any], size: int) -> int:
    """How many of these lengths, unsigned and of any shape, are above `size`."""
    once = _once(lengths)
    # The maximum takes a fifth of the time of the comparison, and mostly no length is above.
    if int(once.max(initial=0)) <= size:
        return 0
    return int(np.count_nonzero(once > np.uint64(size))) * (lengths.size // once.size)
