"""What passes keep of arrays: how two differ, in bits or within a tolerance; counts of lengths; statistics.

What is kept of two parts can be added to what is kept of both.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from revseq_cli.core import dtypes
from revseq_cli.core.dtypes import bits, native, word_of
from revseq_cli.core.errors import UsageError
from revseq_cli.operator import kernel

_ROUNDING_ULPS = 16  # steps that are as small as rounding


class Tolerance(NamedTuple):
    """How far a may be from b: |a - b| <= absolute + relative * |b|, as numpy.isclose has it, or at most `ulps` steps.

    A step leads from a number of the data type to the next one; that after the largest is infinity. -0.0 equals 0.0.
    A NaN equals nothing, or with `equal_nan` every NaN.
    """

    absolute: float = 0
    relative: float = 0
    equal_nan: bool = False
    ulps: int = 0


def tolerance_of(
    atol: float | None, rtol: float | None, ulp: int | None, equal_nan: bool
) -> Tolerance | None:
    """The tolerance, of which None is not given; None where none is, to compare bits. UsageError for a wrong number."""
    for name, limit in (("atol", atol), ("rtol", rtol), ("ulp", ulp)):
        if limit is not None and not 0 <= limit < np.inf:
            raise UsageError(f"{limit}", "a number of at least 0", where=name)
    by_value = equal_nan or any(limit is not None for limit in (atol, rtol, ulp))
    return (
        Tolerance(atol or 0, rtol or 0, equal_nan, operator.index(ulp or 0)) if by_value else None
    )


@dataclass(frozen=True, eq=False)
class Differences:
    """How two arrays a and b differ: `count` of their `total` elements do.

    The first k of these in C order have their indices in `indices`, of shape (k, rank), and their values in `a` and
    `b`, of shape (k,). The largest |a - b|, |a - b| / |b| and number of steps are over all elements that differ in
    bits, and None where that is a number for none of them; `nans` of these are a NaN in both, and `lone_nans` in one.

    Where a and b are the output of a job, `inside` of those that differ are before the lengths. `lines` says for each
    line whether it differs; it is None where lines are too many for the memory. `line_count` lines differ.
    """

    total: int
    count: int
    indices: NDArray[np.intp]
    a: NDArray[Any]
    b: NDArray[Any]
    largest_absolute: float | None = None
    largest_relative: float | None = None
    largest_ulps: int | None = None
    nans: int = 0
    lone_nans: int = 0
    inside: int = 0
    line_count: int = 0
    lines: NDArray[np.bool_] | None = None

    def merged(self, other: Differences, first: int) -> Differences:
        """The differences of this part and another part of the same arrays, with the `first` of both in C order."""
        sums = ("total", "count", "nans", "lone_nans", "inside", "line_count")
        names = (*sums, "largest_absolute", "largest_relative", "largest_ulps")
        both: dict[str, Any] = {
            name: _together(name, getattr(self, name), getattr(other, name)) for name in names
        }
        # Parts mostly come in C order, so that `self` already has the first ones.
        has_room = len(self.indices) < first
        if len(other.indices) and (has_room or tuple(other.indices[0]) < tuple(self.indices[-1])):
            indices = np.concatenate([self.indices, other.indices])
            order = np.lexsort(indices.T[::-1])[:first] if indices.shape[1] else slice(first)
            a, b = np.concatenate([self.a, other.a]), np.concatenate([self.b, other.b])
            both |= {"indices": indices[order], "a": a[order], "b": b[order]}
        return replace(self, **both)

    @property
    def wider(self) -> str:
        """The options with which all is equal, if what differs is as small as rounding; "" if it is not."""
        steps = self.largest_ulps or 0
        is_minifloat = dtypes.is_minifloat(self.a.dtype)
        is_float = self.a.dtype.kind in "fc" or is_minifloat
        most = 1 if is_minifloat else _ROUNDING_ULPS  # 8 steps of FLOAT8 are a factor of 2
        if not self.count or self.lone_nans or not is_float or steps > most:
            return ""
        options = [f"--ulp {steps}" if steps else "", "--equal-nan" if self.nans else ""]
        return " ".join(filter(None, options))


def unequal(a: NDArray[Any], b: NDArray[Any], tolerance: Tolerance | None) -> NDArray[np.bool_]:
    """Which elements differ, of arrays of one shape and one data type, each in either byte order."""
    mask = np.zeros(a.shape, np.bool_)
    mask.reshape(-1)[differences(a, b, tolerance, 0)[1]] = True
    return mask


@np.errstate(all="ignore")  # of NaNs that signal, too
def differences(
    a: NDArray[Any], b: NDArray[Any], tolerance: Tolerance | None = None, first: int = 1
) -> tuple[Differences, NDArray[np.intp]]:
    """How two arrays differ, with the values of the `first` elements that do, and the flat indices of all of these.

    The arrays have one shape and one data type, each in either byte order. Without a tolerance, elements differ in
    bits. With one, floats are compared in FLOAT64, and integers exactly, with a bound in FLOAT64.
    """
    differing = bits(a) != bits(b)
    if tolerance:  # a NaN equals nothing, not even a NaN of the same bits
        differing |= (numbers := dtypes.numbers(a)) != numbers
    places = np.flatnonzero(differing)
    a, b = (native(values).reshape(-1)[places] for values in (a, b))
    told: dict[str, Any] = {}
    if tolerance or dtypes.has_numbers(a.dtype):  # else only their bits are known
        x, y = dtypes.numbers(a), dtypes.numbers(b)
        nans = (x != x).astype(np.uint8) + (y != y)
        far, steps = _distance(x, y), _steps(a, b)
        relative = far / np.abs(_wide(y))
        relative[far == 0] = 0
        told["largest_absolute"], told["largest_relative"] = _largest(far), _largest(relative)
        told["largest_ulps"] = int(steps.max(initial=0, where=nans == 0)) if 0 in nans else None
        if tolerance:
            apart = ~_close(x, y, tolerance) & ((nans > 0) | (steps > tolerance.ulps))
            places, a, b, nans = places[apart], a[apart], b[apart], nans[apart]
        told["nans"], told["lone_nans"] = (int(np.count_nonzero(nans == count)) for count in (2, 1))
    indices = np.stack(np.unravel_index(places[:first], differing.shape or (1,)), axis=1)[
        :, : differing.ndim
    ]
    return Differences(differing.size, len(places), indices, a[:first], b[:first], **told), places


def _wide(values: NDArray[Any]) -> NDArray[Any]:
    return values.astype(np.result_type(values.dtype, np.float64))  # or COMPLEX128


def _distance(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """|a - b|: of floats in FLOAT64, of integers exactly, as unsigned ones."""
    if a.dtype.kind in "fc":
        return np.abs(_wide(a) - b)  # type: ignore[no-any-return]
    unsigned = word_of(a.itemsize)
    return np.maximum(a, b).view(unsigned) - np.minimum(a, b).view(unsigned)  # type: ignore[no-any-return]


def _close(a: NDArray[Any], b: NDArray[Any], tolerance: Tolerance) -> NDArray[Any]:
    if a.dtype.kind in "fc":
        absolute, relative, equal_nan, _ = tolerance
        return np.asarray(np.isclose(_wide(a), _wide(b), relative, absolute, equal_nan))
    far, bound = _distance(a, b), tolerance.absolute + tolerance.relative * np.abs(_wide(b))
    beyond = bound >= 2.0 ** (
        8 * far.dtype.itemsize
    )  # a distance of integers must not be rounded to FLOAT64
    return np.asarray(beyond | (far <= np.floor(np.where(beyond, 0, bound)).astype(far.dtype)))


def _steps(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """How many numbers of the data type lie between a and b, and 1; of complex ones, the larger of both parts."""
    dtype = a.dtype
    if dtype.kind == "c":
        return np.maximum(_steps(a.real, b.real), _steps(a.imag, b.imag))  # type: ignore[no-any-return]
    is_signed = dtype.kind == "f" or (
        dtypes.is_minifloat(dtype) and dtype.names != ("FLOAT8_E8M0FNU",)
    )
    if not is_signed:
        return _distance(
            *((bits(values) if dtypes.is_minifloat(dtype) else values) for values in (a, b))
        )
    # The words of floats are a sign and a magnitude, in the order of the numbers; 0.0 and -0.0 are no step apart.
    x, y = bits(a), bits(b)
    sign = x.dtype.type(1 << (8 * x.dtype.itemsize - 1))
    opposite = ((x ^ y) & sign).astype(np.bool_)
    x, y = x & ~sign, y & ~sign
    return np.where(opposite, x + y, np.maximum(x, y) - np.minimum(x, y))  # type: ignore[no-any-return]


def _largest(numbers: NDArray[Any]) -> float | None:
    """The largest one that is no NaN."""
    largest = np.fmax.reduce(numbers, axis=None).item() if numbers.size else np.nan
    return None if largest != largest else largest


# Numbers of one array


def _together(name: str, a: Any, b: Any) -> Any:  # noqa: ANN401 - a number, or None where there is none
    """A number of two parts together: the least or the greatest of both, or their sum."""
    if name == "least" or name.startswith(("greatest", "largest")):
        return (min if name == "least" else max)(
            [number for number in (a, b) if number is not None], default=None
        )
    return a + b


class Statistics(NamedTuple):
    """The statistics of an array: `numbers` counts the elements that are no NaN, `infinite` of them infinities.

    `nans` counts the others. `least`, `greatest` and `total` (the sum) are over the numbers. `least` and `greatest` are
    None where there is no number, and for complex numbers, which have no order. `missing` counts elements that stand
    for none, which are in no other number. Add the statistics of two parts for those of both.
    """

    numbers: int = 0
    nans: int = 0
    least: float | None = None
    greatest: float | None = None
    total: complex = 0
    infinite: int = 0
    missing: int = 0

    @classmethod
    def of(cls, values: NDArray[Any]) -> Statistics:
        """The statistics of an array of any shape and data type."""
        values = dtypes.numbers(values)
        with np.errstate(all="ignore"):
            numbers = values[~np.isnan(values)] if values.dtype.kind in "fc" else values.ravel()
            nans = values.size - numbers.size
            if not numbers.size:
                return cls(0, nans)
            infinite = int(np.count_nonzero(np.isinf(numbers)))
            if values.dtype.kind == "c":
                return cls(
                    numbers.size,
                    nans,
                    total=complex(numbers.sum(dtype=np.complex128)),
                    infinite=infinite,
                )
            total: Any = numbers.sum(dtype=np.longdouble)
            return cls(
                numbers.size, nans, numbers.min().item(), numbers.max().item(), total, infinite
            )

    @property
    def mean(self) -> complex | None:
        """The mean of the numbers, from a sum in the widest type of floats."""
        mean = self.total / self.numbers if self.numbers else None
        return float(mean) if isinstance(mean, np.floating) else mean

    def __add__(self, other: object) -> Statistics:
        if not isinstance(other, Statistics):
            return NotImplemented
        with np.errstate(all="ignore"):  # a sum that its type cannot hold is infinite
            return Statistics(*map(_together, self._fields, self, other))


class LengthCounts(NamedTuple):
    """How many lengths there are, are above the axis size, and change nothing (0 or 1); the least and the greatest."""

    total: int = 0
    clamped: int = 0
    unchanged: int = 0
    least: int | None = None
    greatest: int | None = None

    @classmethod
    def of(cls, size: int, lengths: NDArray[Any]) -> LengthCounts:
        """The counts of unsigned lengths, at least one, of any shape, for lines of `size` elements."""
        unchanged = lengths.size if size <= 1 else int(np.count_nonzero(lengths <= 1))
        clamped = kernel.count_clamped(lengths, size)
        return cls(lengths.size, clamped, unchanged, int(lengths.min()), int(lengths.max()))

    def merged(self, other: LengthCounts) -> LengthCounts:
        return LengthCounts(*map(_together, self._fields, self, other))
