"""How two tensors differ: in bits or by more than a tolerance, by how much, and where; compared block by block."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, replace
from decimal import ROUND_UP, Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.core import dtypes
from revseq_cli.core.dtypes import bits, native, word
from revseq_cli.operator import kernel
from revseq_cli.pipeline.blocks import lengths_of, sizes_of
from revseq_cli.pipeline.plan import plan_pair
from revseq_cli.pipeline.tasks import Task, completed, reading_back, untrue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Region, Sink, Source
    from revseq_cli.pipeline.assembly import Job
    from revseq_cli.pipeline.plan import Plan, Resources
    from revseq_cli.porting.features import WrongLines


# So many lines are few in any memory.
_FEW_LINES = 4096
# What is kept of a line takes so many bytes.
_LINE_BYTES = 48
# So many units in the last place are as small as rounding.
_ROUNDING = 16


class Tolerance(NamedTuple):
    """How far a may be from b: |a - b| <= absolute + relative * |b|, as numpy.isclose has it, or at most `ulps` steps.

    A step leads from a number of the data type to the next one; that after the largest is infinity. -0.0 equals 0.0.
    A NaN equals nothing, or with `equal_nan` every NaN.
    """

    absolute: float = 0
    relative: float = 0
    equal_nan: bool = False
    ulps: int = 0

    @classmethod
    def asked(
        cls, absolute: float | None, relative: float | None, ulps: int | None, *, equal_nan: bool
    ) -> Tolerance | None:
        """The tolerance of these, of which None is not given; None where none is, to compare bits."""
        by_value = equal_nan or any(each is not None for each in (absolute, relative, ulps))
        return cls(absolute or 0, relative or 0, equal_nan, ulps or 0) if by_value else None


class Where(NamedTuple):
    """Where elements differ in a job's output: in how many lines, and how many inside and behind the reversed parts.

    The reversed part of a line is its first `length` elements. `spans` has the lowest and the highest index of each
    dimension at which elements differ, and `last` is the last one in C order. `wrong` says for each line of a block
    whether it differs; it is None where none does. In a block of parts of lines, `lines` is 0: another block may have
    the rest of the line.
    """

    lines: int = 0
    inside: int = 0
    behind: int = 0
    wrong: NDArray[np.bool_] | None = None
    spans: tuple[tuple[int, int], ...] = ()
    last: tuple[int, ...] = ()

    @classmethod
    def of(cls, places: NDArray[np.intp], region: Region, lengths: NDArray[Any], axis: int, size: int) -> Where:
        """Where the elements at `places`, flat indices of the block at `region`, are.

        `lengths` are the block's own, and `size` is the axis size of the tensor.
        """
        if not len(places):
            return cls()
        sizes = sizes_of(region)
        differs = np.zeros(sizes, np.bool_)
        differs.reshape(-1)[places] = True
        wrong = np.asarray(differs.any(axis, keepdims=True))
        part = region[axis]
        along = np.expand_dims(np.arange(part.start, part.stop), [d for d in range(len(sizes)) if d != axis])
        inside = int(np.count_nonzero(differs & (along < kernel.clamp(lengths, size))))
        lines = 0 if sizes[axis] < size else int(np.count_nonzero(wrong))
        spans, starts = [], [each.start for each in region]
        for d, start in enumerate(starts):
            found = np.flatnonzero(differs.any(tuple(other for other in range(len(sizes)) if other != d)))
            spans.append((int(found[0]) + start, int(found[-1]) + start))
        last = tuple(int(i) + start for i, start in zip(np.unravel_index(places[-1], sizes), starts, strict=True))
        return cls(lines, inside, len(places) - inside, wrong, tuple(spans), last)

    def merged(self, other: Where) -> Where:
        """Both together; the caller adds up `wrong`."""
        counts = self.lines + other.lines, self.inside + other.inside, self.behind + other.behind
        pairs = zip(self.spans or other.spans, other.spans or self.spans, strict=True)
        spans = tuple((min(low, other_low), max(high, other_high)) for (low, high), (other_low, other_high) in pairs)
        return Where(*counts, None, spans, max(self.last, other.last))


_NOWHERE = Where()


@dataclass(frozen=True, eq=False)
class Differences:
    """How two arrays a and b differ: `count` of their `total` elements do.

    The first k of these in C order have their indices in `indices`, of shape (k, rank), and their values in `a` and
    `b`, of shape (k,). `largest_absolute` is the largest |a - b|, and `largest_relative` the largest |a - b| / |b|:
    over all elements that differ in bits, or None where that is a number for none of them. `nans` of the elements are
    a NaN in both. `where` is known if a and b are the output of a job.
    """

    total: int
    count: int
    indices: NDArray[np.intp]
    a: NDArray[Any]
    b: NDArray[Any]
    largest_absolute: float | None = None
    largest_relative: float | None = None
    nans: int = 0
    where: Where = _NOWHERE

    @classmethod
    def none(cls, dtype: np.dtype[Any], rank: int) -> Differences:
        """The differences of no elements."""
        values = np.empty(0, dtype.newbyteorder("="))
        return cls(0, 0, np.empty((0, rank), np.intp), values, values)

    def limited(self, first: int) -> Differences:
        """The same with the values of at most `first` elements."""
        return replace(self, indices=self.indices[:first], a=self.a[:first], b=self.b[:first])

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
        absolute = _larger(self.largest_absolute, other.largest_absolute)
        relative = _larger(self.largest_relative, other.largest_relative)
        nans, where = self.nans + other.nans, self.where.merged(other.where)
        total, count = self.total + other.total, self.count + other.count
        return Differences(total, count, indices, a, b, absolute, relative, nans, where)


def rounding_of(found: Differences) -> float | None:
    """The relative tolerance, in two digits, of differences of floats that are all as small as rounding; else None."""
    largest, dtype = found.largest_relative, found.a.dtype
    if dtype.kind != "f" or not largest or largest > _ROUNDING * float(np.finfo(dtype).eps):
        return None
    digits = Decimal(largest)
    return float(digits.quantize(Decimal(1).scaleb(digits.adjusted() - 1), ROUND_UP))


def _larger(*numbers: float | None) -> float | None:
    return max((number for number in numbers if number is not None), default=None)


def differences(a: NDArray[Any], b: NDArray[Any], tolerance: Tolerance | None = None, first: int = 1) -> Differences:
    """How two arrays differ, with the values of the `first` elements that do.

    The arrays have one shape and one data type, each in either byte order. Without a tolerance, elements differ in
    bits. With one, floats are compared in FLOAT64, and integers exactly, with a bound in FLOAT64.
    """
    return located(a, b, tolerance, first)[0]


def located(
    a: NDArray[Any], b: NDArray[Any], tolerance: Tolerance | None, first: int
) -> tuple[Differences, NDArray[np.intp]]:
    """The same, with the flat indices of all elements that differ."""
    unequal = bits(a) != bits(b)
    if tolerance and (numbers := dtypes.numbers(a)).dtype.kind in "fc":
        unequal |= np.isnan(numbers)  # a NaN equals nothing, not even a NaN of the same bits
    places = np.flatnonzero(unequal)
    a, b = (native(values).reshape(-1)[places] for values in (a, b))
    if not (tolerance or dtypes.has_numbers(a.dtype)):  # only their bits are known
        indices = np.stack(np.unravel_index(places[:first], unequal.shape or (1,)), axis=1)[:, : unequal.ndim]
        return Differences(unequal.size, len(places), indices, a[:first], b[:first], None, None, 0), places
    x, y = dtypes.numbers(a), dtypes.numbers(b)
    with np.errstate(all="ignore"):
        far, size = _distance(x, y), _magnitude(_wide(y))
        relative = far / size
        relative[far == 0] = 0
        largest = _largest(far), _largest(relative)
        if tolerance:
            apart = ~_close(x, y, far, size, tolerance)
            if tolerance.ulps:
                apart &= ~(_steps(a, b) <= tolerance.ulps) | np.isnan(x) | np.isnan(y)
            places, a, b, x, y = (values[apart] for values in (places, a, b, x, y))
        nans = np.count_nonzero(np.isnan(x) & np.isnan(y)) if x.dtype.kind in "fc" else 0
    indices = np.stack(np.unravel_index(places[:first], unequal.shape or (1,)), axis=1)[:, : unequal.ndim]
    return Differences(unequal.size, len(places), indices, a[:first], b[:first], *largest, int(nans)), places


def _wide(values: NDArray[Any]) -> NDArray[Any]:
    """As FLOAT64, or COMPLEX128."""
    return values.astype(np.result_type(values.dtype, np.float64))


def _magnitude(values: NDArray[Any]) -> NDArray[Any]:
    """The absolute values, in the memory of these where they fit."""
    return np.abs(values, out=values) if values.dtype.kind == "f" else np.abs(values)  # type: ignore[no-any-return]


def _distance(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """|a - b|: of floats in FLOAT64, of integers exactly, as unsigned ones."""
    if a.dtype.kind in "fc":
        distance = _wide(a)
        distance -= b
        distance = _magnitude(distance)
    else:
        unsigned = word(a.dtype)
        distance = np.maximum(a, b).view(unsigned) - np.minimum(a, b).view(unsigned)
    return distance


def _close(
    a: NDArray[Any], b: NDArray[Any], far: NDArray[Any], size: NDArray[Any], tolerance: Tolerance
) -> NDArray[np.bool_]:
    """Which are within the tolerance: infinities only where they are the same."""
    bound = tolerance.absolute + tolerance.relative * size
    if far.dtype.kind == "u":  # a distance of integers must not be rounded to FLOAT64
        beyond = bound >= 2.0 ** (8 * far.dtype.itemsize)
        return beyond | (far <= np.floor(np.where(beyond, 0, bound)).astype(far.dtype))
    close: NDArray[np.bool_] = (far <= bound) & np.isfinite(size) | (a == b)
    return close | (np.isnan(a) & np.isnan(b)) if tolerance.equal_nan else close


def _steps(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """How many numbers of the data type lie between a and b, and 1; of complex ones, the larger of both parts."""
    dtype = a.dtype
    if dtype.kind == "c":
        real, imaginary = (_steps(getattr(a, part), getattr(b, part)) for part in ("real", "imag"))
        return np.maximum(real, imaginary)  # type: ignore[no-any-return]
    if not (dtype.kind == "f" or dtypes.is_signed(dtype)):
        return _distance(*((bits(each) if dtypes.is_minifloat(dtype) else each) for each in (a, b)))
    # The words of floats are a sign and a magnitude, in the order of the numbers; 0.0 and -0.0 are no step apart.
    x, y = bits(a), bits(b)
    sign = x.dtype.type(1 << (8 * x.dtype.itemsize - 1))
    opposite = ((x ^ y) & sign).astype(np.bool_)
    x, y = x & ~sign, y & ~sign
    return np.where(opposite, x + y, np.maximum(x, y) - np.minimum(x, y))  # type: ignore[no-any-return]


def _largest(numbers: NDArray[Any]) -> float | None:
    """The largest one that is no NaN."""
    if not numbers.size:
        return None
    largest = np.fmax.reduce(numbers, axis=None).item()
    return None if math.isnan(largest) else largest


class Mistake(NamedTuple):
    """What explains so many of the wrong lines, in words, by an id that stays."""

    id: str
    text: str
    lines: int


class Diagnosis(NamedTuple):
    """Which lines of a job's output are wrong, and the mistakes of which each explains them."""

    lines: WrongLines | None = None
    mistakes: tuple[Mistake, ...] = ()

    def of_reading(self, told: str, *, is_wrong: bool) -> Diagnosis:
        """The same of a tensor to which something was done, as `told`, which is a mistake, too."""
        found = [each._replace(text=f"{told}, and {each.text}") for each in self.mistakes]
        return self._replace(mistakes=tuple(found if is_wrong else [Mistake("read-otherwise", told, 0)]))


NO_DIAGNOSIS = Diagnosis()


@dataclass(frozen=True)
class Pair:
    """Two tensors of the same sizes and data type, cheap to read in the blocks of the plan."""

    a: Source
    right: Source
    plan: Plan
    label = "B"

    def compare(self, tolerance: Tolerance | None, first: int) -> Differences:
        """How they differ: in bits, or by more than the tolerance, with the `first` elements that do."""
        return compared("compare", self, tolerance, first)

    def diagnosis(self, found: Differences, tolerance: Tolerance | None) -> Diagnosis:  # noqa: ARG002
        """What would give `a`: of two tensors, nothing says what they should be."""
        return NO_DIAGNOSIS


@contextlib.contextmanager
def opened(a: Source, b: Source, resources: Resources) -> Iterator[Pair]:
    """The pair; EngineError where the smallest block needs more memory than there is."""
    plan = plan_pair(a, b, resources)
    yield Pair(a, b, plan)


def differing(a: Source, b: Source, tolerance: Tolerance | None) -> Callable[[Region], NDArray[np.bool_]]:
    """A function that gives, for a region, a mask of the elements that differ."""

    def mask(region: Region) -> NDArray[np.bool_]:
        values = a.read_task(region).read()
        _, places = located(values, b.read_task(region).read(), tolerance, 0)
        chosen = np.zeros(values.shape, np.bool_)
        chosen.reshape(-1)[places] = True
        return chosen

    return mask


def verify_copy(source: Source, sink: Sink, plan: Plan) -> None:
    """Compare what was written with the source, in the copy's blocks; EngineError where a bit differs."""
    written = sink.written()
    place = "in DataType or Sizes"
    if written.desc == source.desc:
        with reading_back(written):
            result = compared("verify", Pair(source, written, plan))
        if not result.count:
            return
        place = f"at {result.indices[0].tolist()}"
    raise untrue(f"differs from the input {place}", written.name)


def compared(
    stage: str, pair: Pair, tolerance: Tolerance | None = None, first: int = 1, job: Job | None = None
) -> Differences:
    """How a pair differs, in blocks; with the `job` whose output is right, the result says where in its lines."""
    a, right, plan = pair.a, pair.right, pair.plan

    def task(region: Region) -> Task:
        where, read_tasks = None, [a.read_task(region), right.read_task(region)]
        if job:
            where = partial(Where.of, axis=job.axis, size=job.values.sizes[job.axis])
            read_tasks.append(job.lengths.read_task(lengths_of(region, job.axis)))
        return Task(partial(_compare, tolerance, first, region, where), tuple(read_tasks), region)

    found = Differences.none(a.dtype, len(a.sizes))
    wrong = None
    if job and (plan.blocks.cuts_lines or job.lengths.desc.element_count <= most_lines(plan)):
        wrong = np.zeros(job.lengths.sizes, np.bool_)
    for region, part in completed(stage, map(task, plan.blocks), plan, a):
        if job and wrong is not None and part.where.wrong is not None:
            wrong[lengths_of(region, job.axis)] |= part.where.wrong
        found = found.merged(part, first)
    if wrong is not None:
        found = replace(found, where=found.where._replace(lines=int(np.count_nonzero(wrong)), wrong=wrong))
    return found


def most_lines(plan: Plan) -> int:
    """Of how many lines at most something is kept beside the blocks, in the memory that is left."""
    return max(_FEW_LINES, plan.left // _LINE_BYTES)


def _compare(
    tolerance: Tolerance | None, first: int, region: Region, where: Callable[..., Where] | None, *arrays: NDArray[Any]
) -> Differences:
    """The differences of two tensors' blocks at `region`, with the indices of the `first` in the whole tensor.

    With the block's lengths as the third array, `where` says where in the lines the differences are.
    """
    a, b, *lengths = arrays
    part, places = located(a, b, tolerance, first)
    indices = part.indices + np.array([each.start for each in region], np.intp)
    return replace(part, indices=indices, where=where(places, region, *lengths) if where else _NOWHERE)
