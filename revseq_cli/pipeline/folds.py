"""What passes keep of arrays: how two of them differ, counts of lengths, and statistics.

Each record is of a part; two of them merge into the record of both parts. Small ones are
NamedTuples: a dataclass takes 0.6 ms of the start of each command.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from revseq_cli.core import dtypes
from revseq_cli.core.dtypes import Array, DType, bits, native, word_of
from revseq_cli.core.errors import UsageError
from revseq_cli.core.tensors import Region, Sizes
from revseq_cli.operator import directml, kernel

_Number = TypeVar("_Number", int, float)
_ROUNDING_ULPS = 16  # steps that are as small as rounding


class Tolerance(NamedTuple):
    """How far a may be from b.

    |a - b| <= absolute + relative * |b|, as numpy.isclose has it, or at most `ulps` steps. A step
    leads from a number of the data type to the next one; infinity comes after the largest. -0.0
    equals 0.0. A NaN equals nothing, or with `equal_nan` every NaN.
    """

    absolute: float = 0
    relative: float = 0
    equal_nan: bool = False
    ulps: int = 0


def tolerance_of(
    atol: float | None, rtol: float | None, ulp: int | None, equal_nan: bool
) -> Tolerance | None:
    """The tolerance from options, where None is not typed; without one, None: bits are compared.

    UsageError for a number that is negative, infinite or NaN.
    """
    for name, limit in (("atol", atol), ("rtol", rtol), ("ulp", ulp)):
        if limit is not None and not 0 <= limit < np.inf:
            raise UsageError(f"{limit}", "a number of at least 0", where=name)
    has_limit = any(limit is not None for limit in (atol, rtol, ulp))
    if not has_limit and not equal_nan:
        return None
    return Tolerance(atol or 0, rtol or 0, equal_nan, operator.index(ulp or 0))


@dataclass(frozen=True, eq=False)
class Differences:
    """How two arrays a and b differ: `count` of their `total` elements do.

    The first k of these in C order have their indices in `indices`, of shape (k, rank), and their
    values in `a` and `b`, of shape (k,).

    The largest |a - b|, |a - b| / |b| and number of steps are over all elements that differ in
    bits; they are None if none of these has such a number. `nans` of the elements are NaN in both
    arrays, and `lone_nans` in only one.

    If a and b are outputs of a job, `inside` counts the elements that differ and lie before the
    length of their sequence. `sequence_count` is the number of sequences that differ, and
    `sequences` marks them; it is None if there are too many sequences for the memory.
    """

    total: int
    count: int
    indices: NDArray[np.intp]
    a: Array
    b: Array
    largest_absolute: float | None = None
    largest_relative: float | None = None
    largest_ulps: int | None = None
    nans: int = 0
    lone_nans: int = 0
    inside: int = 0
    sequence_count: int = 0
    sequences: NDArray[np.bool_] | None = None

    @classmethod
    def none(cls, dtype: DType, rank: int) -> Differences:
        """No differences of arrays without elements."""
        values = np.empty(0, dtype.newbyteorder("="))
        return cls(0, 0, np.empty((0, rank), np.intp), values, values)

    def move_to(self, region: Region) -> Differences:
        """The same differences of the tensors of which the two arrays are a region."""
        starts = np.array([part.start for part in region], np.intp)
        return replace(self, indices=self.indices + starts)

    def merge(self, other: Differences, first: int) -> Differences:
        """The differences of this part and another one, with the `first` of both in C order."""
        merged = replace(
            self,
            total=self.total + other.total,
            count=self.count + other.count,
            nans=self.nans + other.nans,
            lone_nans=self.lone_nans + other.lone_nans,
            inside=self.inside + other.inside,
            sequence_count=self.sequence_count + other.sequence_count,
            largest_absolute=_greatest(self.largest_absolute, other.largest_absolute),
            largest_relative=_greatest(self.largest_relative, other.largest_relative),
            largest_ulps=_greatest(self.largest_ulps, other.largest_ulps),
        )
        if not len(other.indices):
            return merged
        # Parts mostly come in C order, so that `self` already has the first ones.
        is_full = len(self.indices) >= first
        if is_full and tuple(other.indices[0]) >= tuple(self.indices[-1]):
            return merged
        indices = np.concatenate([self.indices, other.indices])
        a = np.concatenate([self.a, other.a])
        b = np.concatenate([self.b, other.b])
        order = np.arange(len(indices))
        if indices.shape[1]:
            order = np.lexsort(indices.T[::-1])
        order = order[:first]
        return replace(merged, indices=indices[order], a=a[order], b=b[order])

    @property
    def rounding_options(self) -> str:
        """The options that accept all differences, if these are as small as rounding; else ""."""
        steps = self.largest_ulps or 0
        is_minifloat = dtypes.is_minifloat(self.a.dtype)
        is_float = self.a.dtype.kind in "fc" or is_minifloat
        most = 1 if is_minifloat else _ROUNDING_ULPS  # 8 steps of FLOAT8 are a factor of 2
        if self.count == 0 or not is_float:
            return ""
        if self.lone_nans or steps > most:
            return ""
        options = []
        if steps:
            options.append(f"--ulp {steps}")
        if self.nans:
            options.append("--equal-nan")
        return " ".join(options)


def unequal(a: Array, b: Array, tolerance: Tolerance | None) -> NDArray[np.bool_]:
    """Which elements differ, of arrays with one shape and data type, each in either byte order."""
    mask = np.zeros(a.shape, np.bool_)
    _, positions = find_differences(a, b, tolerance, 0)
    mask.reshape(-1)[positions] = True
    return mask


@np.errstate(all="ignore")  # signaling NaNs, too
def find_differences(
    a: Array, b: Array, tolerance: Tolerance | None = None, first: int = 1
) -> tuple[Differences, NDArray[np.intp]]:
    """How two arrays differ, and the flat indices of all elements that do.

    The values of the `first` of these are kept. The arrays have one shape and one data type, each
    in either byte order. Without a tolerance, elements differ in bits. With one, floats are
    compared in FLOAT64, and integers exactly, with a bound in FLOAT64.
    """
    differing = bits(a) != bits(b)
    shape = differing.shape
    if tolerance:
        # A NaN equals nothing, not even a NaN of the same bits.
        numbers = dtypes.numbers(a)  # FormatError for elements whose numbers are not known
        differing |= numbers != numbers
    positions = np.flatnonzero(differing)
    a = native(a).reshape(-1)[positions]
    b = native(b).reshape(-1)[positions]
    if not dtypes.has_numbers(a.dtype):  # only their bits are known
        return _make_differences(shape, positions, a, b, first), positions
    distances = _Distances.of(a, b)
    is_apart = distances.exceed(tolerance)
    positions = positions[is_apart]
    differences = _make_differences(shape, positions, a[is_apart], b[is_apart], first)
    return distances.measure(differences, is_apart), positions


def _make_differences(
    shape: Sizes, positions: NDArray[np.intp], a: Array, b: Array, first: int
) -> Differences:
    """The differences at these flat indices of two arrays of that shape, without distances.

    `a` and `b` are the elements there, of which the `first` are kept.
    """
    indices = np.empty((len(positions[:first]), 0), np.intp)
    if shape:
        indices = np.stack(np.unravel_index(positions[:first], shape), axis=1)
    return Differences(prod(shape), len(positions), indices, a[:first], b[:first])


class _Distances(NamedTuple):
    """How far the numbers of two arrays x and y, of one dimension, are apart.

    `nans` says how many of two numbers are NaN: 0, 1 or 2.
    """

    x: Array
    y: Array
    steps: Array
    nans: Array

    @classmethod
    def of(cls, a: Array, b: Array) -> _Distances:
        """The distances of elements of any data type that has numbers."""
        x = dtypes.numbers(a)
        y = dtypes.numbers(b)
        nans = (x != x).astype(np.uint8) + (y != y)
        return cls(x, y, _steps(a, b), nans)

    def exceed(self, tolerance: Tolerance | None) -> NDArray[np.bool_]:
        """Which numbers are apart by more than the tolerance; without one, all are."""
        if tolerance is None:
            return np.ones(len(self.x), np.bool_)
        has_nan = self.nans > 0
        has_steps = has_nan | (self.steps > tolerance.ulps)
        return has_steps & ~_are_close(self.x, self.y, tolerance)

    def measure(self, differences: Differences, is_apart: NDArray[np.bool_]) -> Differences:
        """The differences with the largest distances, and with the NaNs that are apart."""
        absolute = _distance(self.x, self.y)
        relative = absolute / np.abs(_wide(self.y))
        relative[absolute == 0] = 0
        has_numbers = self.nans == 0
        largest_ulps = None
        if has_numbers.any():
            largest_ulps = int(self.steps.max(initial=0, where=has_numbers))
        nans = self.nans[is_apart]
        return replace(
            differences,
            largest_absolute=_largest(absolute),
            largest_relative=_largest(relative),
            largest_ulps=largest_ulps,
            nans=int(np.count_nonzero(nans == 2)),
            lone_nans=int(np.count_nonzero(nans == 1)),
        )


def _wide(values: Array) -> Array:
    return values.astype(np.result_type(values.dtype, np.float64))  # or COMPLEX128


def _distance(a: Array, b: Array) -> Array:
    """|a - b|: of floats in FLOAT64, of integers exactly, as unsigned ones."""
    if a.dtype.kind in "fc":
        return np.abs(_wide(a) - b)  # type: ignore[no-any-return]
    unsigned = word_of(a.itemsize)
    difference: NDArray[Any] = np.maximum(a, b).view(unsigned) - np.minimum(a, b).view(unsigned)
    return difference


def _are_close(a: Array, b: Array, tolerance: Tolerance) -> Array:
    if a.dtype.kind in "fc":
        are_close = np.isclose(
            _wide(a),
            _wide(b),
            rtol=tolerance.relative,
            atol=tolerance.absolute,
            equal_nan=tolerance.equal_nan,
        )
        return np.asarray(are_close)
    distance = _distance(a, b)
    bound = tolerance.absolute + tolerance.relative * np.abs(_wide(b))
    # A distance of integers must not be rounded to FLOAT64, so the bound becomes an integer.
    beyond = bound >= 2.0 ** (8 * distance.dtype.itemsize)
    whole = np.floor(np.where(beyond, 0, bound)).astype(distance.dtype)
    return np.asarray(beyond | (distance <= whole))


def _steps(a: Array, b: Array) -> Array:
    """How many steps lead from a to b; of complex numbers, the larger count of both parts."""
    dtype = a.dtype
    if dtype.kind == "c":
        return np.maximum(_steps(a.real, b.real), _steps(a.imag, b.imag))
    is_minifloat = dtypes.is_minifloat(dtype)
    if dtype.names == ("FLOAT8_E8M0FNU",):  # it has no sign
        return _distance(bits(a), bits(b))
    if dtype.kind != "f" and not is_minifloat:
        return _distance(a, b)
    # The words of floats are a sign and a magnitude, in the order of the numbers; 0.0 equals -0.0.
    x = bits(a)
    y = bits(b)
    sign = x.dtype.type(1 << (8 * x.dtype.itemsize - 1))
    opposite = ((x ^ y) & sign).astype(np.bool_)
    x = x & ~sign
    y = y & ~sign
    apart = np.maximum(x, y) - np.minimum(x, y)
    return np.where(opposite, x + y, apart)  # type: ignore[no-any-return]


def _largest(numbers: Array) -> float | None:
    """The largest one that is not a NaN; None if there is none."""
    if not numbers.size:
        return None
    largest: float = np.fmax.reduce(numbers, axis=None).item()
    if largest != largest:
        return None
    return largest


def _least(*numbers: _Number | None) -> _Number | None:
    """The least number; None if there is none."""
    return min((number for number in numbers if number is not None), default=None)


def _greatest(*numbers: _Number | None) -> _Number | None:
    """The greatest number; None if there is none."""
    return max((number for number in numbers if number is not None), default=None)


# Numbers of one array


class Statistics(NamedTuple):
    """The statistics of an array.

    `numbers` counts the elements that are not NaN, `infinite` the infinities among them, and `nans`
    the others. `least`, `greatest` and `total` (the sum) are over the numbers. `least` and
    `greatest` are None if there is no number, and for complex numbers, which have no order.
    `missing` counts elements that mark a missing value; nothing else counts them.
    """

    numbers: int = 0
    nans: int = 0
    least: float | None = None
    greatest: float | None = None
    total: complex = 0
    infinite: int = 0
    missing: int = 0

    @classmethod
    def of(cls, values: Array) -> Statistics:
        """The statistics of an array of any shape and data type."""
        values = dtypes.numbers(values)
        with np.errstate(all="ignore"):
            numbers = values.ravel()
            if values.dtype.kind in "fc":
                numbers = values[~np.isnan(values)]
            nans = values.size - numbers.size
            if not numbers.size:
                return cls(0, nans)
            infinite = int(np.count_nonzero(np.isinf(numbers)))
            if values.dtype.kind == "c":
                sum_ = complex(numbers.sum(dtype=np.complex128))
                return cls(numbers.size, nans, total=sum_, infinite=infinite)
            total: Any = numbers.sum(dtype=np.longdouble)
            least = numbers.min().item()
            greatest = numbers.max().item()
            return cls(numbers.size, nans, least, greatest, total, infinite)

    @property
    def mean(self) -> complex | None:
        """The mean of the numbers; None if there are none."""
        if not self.numbers:
            return None
        mean: complex | np.floating[Any] = self.total / self.numbers
        if isinstance(mean, np.floating):  # of a sum in the widest type of floats
            return float(mean)
        return mean

    @np.errstate(all="ignore")  # a sum that its type cannot hold is infinite
    def merge(self, other: Statistics) -> Statistics:
        """The statistics of this part and another one."""
        return Statistics(
            numbers=self.numbers + other.numbers,
            nans=self.nans + other.nans,
            least=_least(self.least, other.least),
            greatest=_greatest(self.greatest, other.greatest),
            total=self.total + other.total,
            infinite=self.infinite + other.infinite,
            missing=self.missing + other.missing,
        )


class LengthCounts(NamedTuple):
    """How many lengths there are, and the least and the greatest one.

    `clamped` of them are above the axis size, and `unchanged` are 0 or 1, so that they change
    nothing. DirectML itself reads only the low 32 bits of a length: `wide` lengths have more bits,
    and `above` lengths have low bits that are above the axis size.
    """

    total: int = 0
    clamped: int = 0
    unchanged: int = 0
    least: int | None = None
    greatest: int | None = None
    above: int = 0
    wide: int = 0

    @classmethod
    def of(cls, size: int, lengths: Array) -> LengthCounts:
        """The counts of unsigned lengths, at least one, of any shape, for a size of the axis."""
        unchanged = lengths.size
        if size > 1:
            unchanged = int(np.count_nonzero(lengths <= 1))
        clamped = kernel.count_clamped(lengths, size)
        least = int(lengths.min())
        greatest = int(lengths.max())
        above = clamped
        wide = 0
        if greatest > directml.MOST_LENGTH:
            wide = int(np.count_nonzero(lengths > directml.MOST_LENGTH))
            above = int(np.count_nonzero(directml.keep_low_bits(lengths) > size))
        return cls(lengths.size, clamped, unchanged, least, greatest, above, wide)

    def merge(self, other: LengthCounts) -> LengthCounts:
        """The counts of these lengths and others."""
        return LengthCounts(
            total=self.total + other.total,
            clamped=self.clamped + other.clamped,
            unchanged=self.unchanged + other.unchanged,
            least=_least(self.least, other.least),
            greatest=_greatest(self.greatest, other.greatest),
            above=self.above + other.above,
            wide=self.wide + other.wide,
        )
