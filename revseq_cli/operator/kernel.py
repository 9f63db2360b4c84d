"""Array functions: the reversal, which moves words and never computes with them; counts, statistics, differences.

To the reversal every array is (outer, axis, inner) and its lengths are (outer, inner). A word is an element's bytes, so
data type and byte order play no part. Lengths are clamped while they are unsigned.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.ground import minifloats

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
    words = np.ascontiguousarray(values).reshape(-1).view(_word(values.dtype)).reshape(outer, size, inner)
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
    """Lengths as indices, none above `size`; compared while unsigned, so that 2^64-1 is large, not negative."""
    clamped: Lengths = np.minimum(_once(lengths), np.uint64(size), dtype=np.uint64).astype(np.intp)
    return np.broadcast_to(clamped, lengths.shape)


def mirrored(start: int, stop: int, length: int) -> tuple[slice, slice]:
    """Where elements [start, stop) of a reversed line come from: a part to be read backwards, a part as it is.

    Element j comes from length - 1 - j below `length`, and stays from there on.
    """
    turn = min(max(length, start), stop)
    return slice(length - turn, length - start), slice(turn, stop)


def _once(lengths: NDArray[Any]) -> NDArray[Any]:
    """Lengths that are repeated without a copy, each once: a stride of 0 is the same element again."""
    return lengths[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in lengths.strides)]


def _word(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The unsigned integer of that size; nothing that could quiet a NaN."""
    return np.dtype(f"u{dtype.itemsize}") if dtype.itemsize <= 8 else np.dtype(f"V{dtype.itemsize}")


def _by_slices(out: Words, words: Words, lengths: Lengths) -> None:
    """One length for each outer index, long lines: copy all, then lay each reversed start over it with one slice."""
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
            found = words[part, :, across].reshape(-1).take(index, mode="wrap")
            out[part, :, across] = found.reshape(-1, size, tile.columns)


class _Tile:
    """The parts of a tile's index that its lengths do not change; flat arrays, since short inner loops are slow."""

    def __init__(self, rows: int, size: int, columns: int) -> None:
        self.columns, self._row = columns, size * columns
        row, j, column = (i.reshape(-1) for i in np.indices((rows, size, columns), np.int32))
        self._lane = (row * columns + column).astype(np.intp)
        self._offset = j * columns
        self._mirror = 2 * self._offset + columns
        self._place = np.arange(rows * size * columns, dtype=np.intp)

    def index(self, lengths: Lengths) -> NDArray[np.intp]:
        """For lengths of shape (rows or fewer, columns): element j of a line comes from length - 1 - j, or stays."""
        n = lengths.shape[0] * self._row
        length = (lengths * self.columns).astype(np.int32).reshape(-1).take(self._lane[:n], mode="wrap")
        move = length - self._mirror[:n]
        move *= length > self._offset[:n]
        index: NDArray[np.intp] = self._place[:n] + move
        return index


def first_difference(a: NDArray[Any], b: NDArray[Any]) -> tuple[int, ...] | None:
    """The index of the first element, in C order, whose bits differ; None where all are the same."""
    different = _bits(a) != _bits(b)
    if not different.any():
        return None
    return tuple(int(i) for i in np.unravel_index(int(different.argmax()), different.shape))


def _bits(values: NDArray[Any]) -> Words:
    """The elements as words in this machine's byte order."""
    return np.ascontiguousarray(_native(values)).view(_word(values.dtype)).reshape(values.shape)


def _native(values: NDArray[Any]) -> NDArray[Any]:
    """The elements in this machine's byte order; swapped, not converted, which could quiet a NaN."""
    return values if values.dtype.isnative else values.byteswap().view(values.dtype.newbyteorder("="))


class Tolerance(NamedTuple):
    """How far a may be from b, as numpy.isclose has it: |a - b| <= absolute + relative * |b|.

    -0.0 equals 0.0. A NaN equals nothing, or with `equal_nan` every NaN.
    """

    absolute: float = 0
    relative: float = 0
    equal_nan: bool = False


@dataclass(frozen=True)
class Differences:
    """In what two arrays a and b differ: `count` elements, and the first of them in C order.

    `places` has their indices, of shape (k, rank); `a` and `b` have their values, of shape (k,). `absolute` is the
    largest |a - b|, and `relative` the largest |a - b| / |b|, over all elements that are not the same bits and of which
    it is a number; None where there is none.
    """

    count: int
    places: NDArray[np.intp]
    a: NDArray[Any]
    b: NDArray[Any]
    absolute: float | None
    relative: float | None


def differences(a: NDArray[Any], b: NDArray[Any], tolerance: Tolerance | None, first: int) -> Differences:
    """In what two arrays of one shape and data type, each in either byte order, differ; `first` elements are given.

    Without a tolerance what counts is the bits. With one, floats are compared in FLOAT64, and integers exactly, with a
    bound in FLOAT64.
    """
    unequal = _bits(a) != _bits(b)
    if tolerance and (numbers := minifloats.numbers(a)).dtype.kind in "fc":
        unequal |= np.isnan(numbers)  # which is no number's equal, its own neither
    places = np.flatnonzero(unequal)
    a, b = (_native(values).reshape(-1)[places] for values in (a, b))
    x, y = minifloats.numbers(a), minifloats.numbers(b)
    with np.errstate(all="ignore"):
        far, size = _distance(x, y), np.abs(_wide(y))
        relative = np.where(far == 0, 0, far / size)
        absolute_most, relative_most = _largest(far), _largest(relative)
        if tolerance:
            apart = ~_close(x, y, far, size, tolerance)
            places, a, b = places[apart], a[apart], b[apart]
    index = np.stack(np.unravel_index(places[:first], unequal.shape or (1,)), axis=1)[:, : unequal.ndim]
    return Differences(len(places), index, a[:first], b[:first], absolute_most, relative_most)


def _wide(values: NDArray[Any]) -> NDArray[Any]:
    """As FLOAT64, or COMPLEX128."""
    return values.astype(np.result_type(values.dtype, np.float64))


def _distance(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """|a - b|: of floats in FLOAT64, of integers exactly, as unsigned ones."""
    if a.dtype.kind in "fc":
        distance: NDArray[Any] = np.abs(_wide(a) - _wide(b))
    else:
        unsigned = _word(a.dtype)
        distance = np.maximum(a, b).view(unsigned) - np.minimum(a, b).view(unsigned)
    return distance


def _close(
    a: NDArray[Any], b: NDArray[Any], far: NDArray[Any], size: NDArray[Any], tolerance: Tolerance
) -> NDArray[np.bool_]:
    """Which are within the tolerance: infinities only where they are the same."""
    bound = tolerance.absolute + tolerance.relative * size
    close: NDArray[np.bool_] = _at_most(far, bound) & np.isfinite(size) | (a == b)
    return close | (np.isnan(a) & np.isnan(b)) if tolerance.equal_nan else close


def _at_most(far: NDArray[Any], bound: NDArray[Any]) -> NDArray[np.bool_]:
    """Far <= bound, where integers must not be rounded to FLOAT64."""
    if far.dtype.kind != "u":
        return far <= bound
    beyond = bound >= 2.0 ** (8 * far.dtype.itemsize)
    return beyond | (far <= np.floor(np.where(beyond, 0, bound)).astype(far.dtype))


def _largest(numbers: NDArray[Any]) -> float | None:
    numbers = numbers[~np.isnan(numbers)]
    return numbers.max().item() if numbers.size else None


def moved(lengths: NDArray[Any], size: int, axis: int, part: slice) -> NDArray[np.bool_]:
    """Which elements of a region the reversal concerns: those in the first `length` of a line, where that is above 1.

    `lengths` are those of the region, `size` is the axis size, and `part` is where the region lies along the axis.
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
        """Field by field."""
        if not isinstance(other, LengthCounts):
            return NotImplemented
        return LengthCounts(*(a + b for a, b in zip(self, other, strict=True)))


def count_lengths(lengths: NDArray[Any], size: int) -> LengthCounts:
    """What these lengths do to lines of `size` elements."""
    once = _once(lengths)
    times = lengths.size // once.size
    clamped = np.count_nonzero(once > np.uint64(size))
    return LengthCounts(lengths.size, int(clamped) * times, int(np.count_nonzero(clamp(once, size) <= 1)) * times)


class Statistics(NamedTuple):
    """Over the elements that are numbers: least, greatest and sum; and how many are not, the NaNs.

    A complex number has no order: `least` and `greatest` are None, as they are where every element is NaN.
    """

    numbers: int = 0
    nans: int = 0
    least: float | None = None
    greatest: float | None = None
    total: complex = 0

    @property
    def mean(self) -> complex | None:
        """The mean: of integers the exact sum divided; of FLOAT64 from a sum in a wider type, where there is one."""
        mean = self.total / self.numbers if self.numbers else None
        return float(mean) if isinstance(mean, np.floating) else mean

    def __add__(self, other: object) -> Statistics:
        """Those of two parts together."""
        if not isinstance(other, Statistics):
            return NotImplemented
        ends = [(s.least, s.greatest) for s in (self, other) if s.least is not None and s.greatest is not None]
        return Statistics(
            self.numbers + other.numbers,
            self.nans + other.nans,
            min((low for low, _ in ends), default=None),
            max((high for _, high in ends), default=None),
            self.total + other.total,
        )


def statistics(values: NDArray[Any]) -> Statistics:
    """The statistics of a region, in any data type."""
    values = minifloats.numbers(values)
    with np.errstate(all="ignore"):
        numbers = values[~np.isnan(values)] if values.dtype.kind in "fc" else values.ravel()
        nans = values.size - numbers.size
        if not numbers.size:
            return Statistics(0, nans)
        if values.dtype.kind == "c":
            return Statistics(numbers.size, nans, total=complex(numbers.sum(dtype=np.complex128)))
        if values.dtype.kind == "f":
            total: Any = numbers.sum(dtype=np.longdouble if values.dtype.itemsize == 8 else np.float64)
        else:  # in two halves, since the sum of 64-bit integers needs more bits than they have
            high, low = (numbers >> 32, numbers & 0xFFFFFFFF) if values.dtype.itemsize == 8 else (0, numbers)
            total = (int(np.sum(high, dtype=np.int64)) << 32) + int(np.sum(low, dtype=np.int64))
        return Statistics(numbers.size, nans, numbers.min().item(), numbers.max().item(), total)
