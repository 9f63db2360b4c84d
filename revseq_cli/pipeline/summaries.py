"""The passes that read a tensor once and keep a few numbers: counts of lengths, and statistics."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.core import dtypes
from revseq_cli.pipeline.plan import Resources, plan_fold
from revseq_cli.pipeline.tasks import Task, completed
from revseq_cli.pipeline.views import missing_marks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Source
    from revseq_cli.pipeline.assembly import Job


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
                return cls(numbers.size, nans, total=complex(numbers.sum(dtype=np.complex128)), infinite=infinite)
            if values.dtype.kind == "f":
                total: Any = numbers.sum(dtype=np.longdouble)
            else:  # in two halves, since the sum of 64-bit integers needs more bits than they have
                high, low = (numbers >> 32, numbers & 0xFFFFFFFF) if values.dtype.itemsize == 8 else (0, numbers)
                total = (int(np.sum(high, dtype=np.int64)) << 32) + int(np.sum(low, dtype=np.int64))
            return cls(numbers.size, nans, numbers.min().item(), numbers.max().item(), total, infinite)

    @property
    def mean(self) -> complex | None:
        """The mean of the numbers: of integers from the exact sum, of floats from one in the widest type."""
        mean = self.total / self.numbers if self.numbers else None
        return float(mean) if isinstance(mean, np.floating) else mean

    def __add__(self, other: object) -> Statistics:
        """The statistics of this part and the other part together."""
        if not isinstance(other, Statistics):
            return NotImplemented
        ends = [(s.least, s.greatest) for s in (self, other) if s.least is not None and s.greatest is not None]
        with np.errstate(all="ignore"):  # a sum that its type cannot hold is infinite
            total = self.total + other.total
        least, greatest = min((low for low, _ in ends), default=None), max((high for _, high in ends), default=None)
        numbers, nans, infinite = self.numbers + other.numbers, self.nans + other.nans, self.infinite + other.infinite
        return Statistics(numbers, nans, least, greatest, total, infinite, self.missing + other.missing)


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
        clamped = int(np.count_nonzero(lengths > size))
        unchanged = lengths.size if size <= 1 else int(np.count_nonzero(lengths <= 1))
        return cls(lengths.size, clamped, unchanged, int(lengths.min()), int(lengths.max()))

    def merged(self, other: LengthCounts) -> LengthCounts:
        """The counts of both."""
        ends = [end for part in (self, other) for end in (part.least, part.greatest) if end is not None]
        return LengthCounts(
            self.total + other.total, self.clamped + other.clamped, self.unchanged + other.unchanged,
            min(ends, default=None), max(ends, default=None),
        )  # fmt: skip


def count_lengths(job: Job, resources: Resources) -> LengthCounts:
    """The counts of the job's lengths, each as often as the user gave it."""
    return counts_of(job.given_lengths, job.values.sizes[job.axis], resources)


def counts_of(lengths: Source, size: int, resources: Resources) -> LengthCounts:
    """The counts and the range of unsigned lengths, for lines of `size` elements."""
    counts: Iterator[LengthCounts] = _folded(lengths, functools.partial(LengthCounts.of, size), resources)
    return functools.reduce(LengthCounts.merged, counts, LengthCounts())


def statistics(source: Source, resources: Resources) -> Statistics:
    """The statistics of a whole tensor, without the values that its file says are missing."""
    marks = missing_marks(source) if source.dtype.kind in "iuf" else ()
    step = functools.partial(_without_missing, marks) if marks else Statistics.of
    return sum(_folded(source, step, resources), Statistics())


def _without_missing(marks: tuple[Any, ...], values: NDArray[Any]) -> Statistics:
    missing = np.any([values == mark for mark in marks], axis=0)
    return Statistics.of(values[~missing])._replace(missing=int(np.count_nonzero(missing)))


def _folded(source: Source, step: Callable[[NDArray[Any]], Any], resources: Resources) -> Iterator[Any]:
    """What the step makes of each block."""
    plan = plan_fold(source, resources)
    tasks = (Task(step, (source.read_task(region),), region) for region in plan.blocks)
    for _, share in completed("read", tasks, plan, source):
        yield share
    source.recheck()
