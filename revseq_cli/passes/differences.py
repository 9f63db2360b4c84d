"""Differences of arrays: which elements differ, in bits or by more than a tolerance, and by how much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.ground import minifloats
from revseq_cli.ground.bits import bits, native, word

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Tolerance(NamedTuple):
    """How far a may be from b, as numpy.isclose has it: |a - b| <= absolute + relative * |b|.

    -0.0 equals 0.0. A NaN equals nothing, or with `equal_nan` every NaN.
    """

    absolute: float = 0
    relative: float = 0
    equal_nan: bool = False


@dataclass(frozen=True, eq=False)
class Differences:
    """How two arrays a and b differ: `count` of their `total` elements do.

    The first k of these in C order have their indices in `indices`, of shape (k, rank), and their values in `a` and
    `b`, of shape (k,). `largest_absolute` is the largest |a - b|, and `largest_relative` the largest |a - b| / |b|:
    over all elements that differ in bits, or None where that is a number for none of them.
    """

    total: int
    count: int
    indices: NDArray[np.intp]
    a: NDArray[Any]
    b: NDArray[Any]
    largest_absolute: float | None = None
    largest_relative: float | None = None

    @classmethod
    def none(cls, dtype: np.dtype[Any], rank: int) -> Differences:
        """The differences of no elements."""
        values = np.empty(0, dtype.newbyteorder("="))
        return cls(0, 0, np.empty((0, rank), np.intp), values, values)

    def merged(self, other: Differences, first: int) -> Differences:
        """The differences of this part and another part of the same arrays, with the `first` of both in C order."""
        indices, a, b = self.indices, self.a, self.b
        if not len(indices):
            indices, a, b = other.indices, other.a, other.b
        # Parts mostly come in C order, so that `self` already has the first ones.
        elif len(other.indices) and (len(indices) < first or tuple(other.indices[0]) < tuple(indices[-1])):
            indices = np.concatenate([indices, other.indices])
            order = np.lexsort(indices.T[::-1])[:first]
            indices, a, b = indices[order], np.concatenate([a, other.a])[order], np.concatenate([b, other.b])[order]
        return Differences(
            self.total + other.total,
            self.count + other.count,
            indices,
            a,
            b,
            _larger(self.largest_absolute, other.largest_absolute),
            _larger(self.largest_relative, other.largest_relative),
        )


def _larger(*numbers: float | None) -> float | None:
    return max((number for number in numbers if number is not None), default=None)


def first_difference(a: NDArray[Any], b: NDArray[Any]) -> tuple[int, ...] | None:
    """The index of the first element, in C order, whose bits differ; None where all are the same."""
    different = bits(a) != bits(b)
    if not different.any():
        return None
    return tuple(int(i) for i in np.unravel_index(int(different.argmax()), different.shape))


def differences(a: NDArray[Any], b: NDArray[Any], tolerance: Tolerance | None = None, first: int = 1) -> Differences:
    """How two arrays differ, with the values of the `first` elements that do.

    The arrays have one shape and one data type, each in either byte order. Without a tolerance, elements differ in
    bits. With one, floats are compared in FLOAT64, and integers exactly, with a bound in FLOAT64.
    """
    unequal = bits(a) != bits(b)
    if tolerance and (numbers := minifloats.numbers(a)).dtype.kind in "fc":
        unequal |= np.isnan(numbers)  # a NaN equals nothing, not even a NaN of the same bits
    places = np.flatnonzero(unequal)
    a, b = (native(values).reshape(-1)[places] for values in (a, b))
    x, y = minifloats.numbers(a), minifloats.numbers(b)
    with np.errstate(all="ignore"):
        far, size = _distance(x, y), np.abs(_wide(y))
        relative = np.where(far == 0, 0, far / size)
        largest = _largest(far), _largest(relative)
        if tolerance:
            apart = ~_close(x, y, far, size, tolerance)
            places, a, b = places[apart], a[apart], b[apart]
    indices = np.stack(np.unravel_index(places[:first], unequal.shape or (1,)), axis=1)[:, : unequal.ndim]
    return Differences(unequal.size, len(places), indices, a[:first], b[:first], *largest)


def _wide(values: NDArray[Any]) -> NDArray[Any]:
    """As FLOAT64, or COMPLEX128."""
    return values.astype(np.result_type(values.dtype, np.float64))


def _distance(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """|a - b|: of floats in FLOAT64, of integers exactly, as unsigned ones."""
    if a.dtype.kind in "fc":
        distance: NDArray[Any] = np.abs(_wide(a) - _wide(b))
    else:
        unsigned = word(a.dtype)
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
