"""Statistics of arrays: minimum, maximum, mean, and how many elements are NaN."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.ground import minifloats

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Statistics(NamedTuple):
    """The statistics of an array: `numbers` counts the elements that are no NaN, `nans` those that are.

    `least`, `greatest` and `total` (the sum) are over the numbers. `least` and `greatest` are None where there is no
    number, and for complex numbers, which have no order. Add the statistics of two parts for those of both.
    """

    numbers: int = 0
    nans: int = 0
    least: float | None = None
    greatest: float | None = None
    total: complex = 0

    @classmethod
    def of(cls, values: NDArray[Any]) -> Statistics:
        """The statistics of an array of any shape and data type."""
        values = minifloats.numbers(values)
        with np.errstate(all="ignore"):
            numbers = values[~np.isnan(values)] if values.dtype.kind in "fc" else values.ravel()
            nans = values.size - numbers.size
            if not numbers.size:
                return cls(0, nans)
            if values.dtype.kind == "c":
                return cls(numbers.size, nans, total=complex(numbers.sum(dtype=np.complex128)))
            if values.dtype.kind == "f":
                total: Any = numbers.sum(dtype=np.longdouble if values.dtype.itemsize == 8 else np.float64)
            else:  # in two halves, since the sum of 64-bit integers needs more bits than they have
                high, low = (numbers >> 32, numbers & 0xFFFFFFFF) if values.dtype.itemsize == 8 else (0, numbers)
                total = (int(np.sum(high, dtype=np.int64)) << 32) + int(np.sum(low, dtype=np.int64))
            return cls(numbers.size, nans, numbers.min().item(), numbers.max().item(), total)

    @property
    def mean(self) -> complex | None:
        """The mean of the numbers: of integers from the exact sum, of FLOAT64 from a sum in a wider type, if any."""
        mean = self.total / self.numbers if self.numbers else None
        return float(mean) if isinstance(mean, np.floating) else mean

    def __add__(self, other: object) -> Statistics:
        """The statistics of this part and the other part together."""
        if not isinstance(other, Statistics):
            return NotImplemented
        ends = [(s.least, s.greatest) for s in (self, other) if s.least is not None and s.greatest is not None]
        with np.errstate(all="ignore"):  # a sum that its type cannot hold is infinite
            total = self.total + other.total
        return Statistics(
            self.numbers + other.numbers,
            self.nans + other.nans,
            min((low for low, _ in ends), default=None),
            max((high for _, high in ends), default=None),
            total,
        )
