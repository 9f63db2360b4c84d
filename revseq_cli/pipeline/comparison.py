"""How two tensors differ: in bits or by more than a tolerance, by how much, and where; compared block by block."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, replace
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
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Region, Sink, Source
    from revseq_cli.pipeline.assembly import Job
    from revseq_cli.pipeline.plan import Plan, Resources

_FEW_LINES = 4096  # are few in any memory
_LINE_BYTES = 48  # that are kept of a line, and computed with
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

    @classmethod
    def asked(
        cls, absolute: float | None, relative: float | None, ulps: int | None, *, equal_nan: bool
    ) -> Tolerance | None:
        """The tolerance of these, of which None is not given; None where none is, to compare bits."""
        by_value = equal_nan or any(limit is not None for limit in (absolute, relative, ulps))
        return cls(absolute or 0, relative or 0, equal_nan, ulps or 0) if by_value else None


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
        return Differences(
            self.total + other.total, self.count + other.count, indices, a, b,
            _larger(self.largest_absolute, other.largest_absolute),
            _larger(self.largest_relative, other.largest_relative),
            _larger(self.largest_ulps, other.largest_ulps),
            self.nans + other.nans, self.lone_nans + other.lone_nans, self.inside + other.inside,
            self.line_count + other.line_count,
        )  # fmt: skip

    @property
    def wider(self) -> str:
        """The options with which all is equal, if what differs is as small as rounding; "" if it is not."""
        steps, is_float = self.largest_ulps or 0, self.a.dtype.kind in "fc" or dtypes.is_minifloat(self.a.dtype)
        if not self.count or self.lone_nans or not is_float or steps > _ROUNDING_ULPS:
            return ""
        return f"--ulp {steps}" * bool(steps) + " " * bool(steps and self.nans) + "--equal-nan" * bool(self.nans)


def _larger(a: Any, b: Any) -> Any:  # noqa: ANN401 - two numbers of one type, or None
    return max((number for number in (a, b) if number is not None), default=None)


def unequal(a: NDArray[Any], b: NDArray[Any], tolerance: Tolerance | None) -> NDArray[np.bool_]:
    """Which elements differ, of arrays of one shape and one data type, each in either byte order."""
    mask = np.zeros(a.shape, np.bool_)
    mask.reshape(-1)[_located(a, b, tolerance, 0)[1]] = True
    return mask


def differences(a: NDArray[Any], b: NDArray[Any], tolerance: Tolerance | None = None, first: int = 1) -> Differences:
    """How two arrays differ, with the values of the `first` elements that do.

    The arrays have one shape and one data type, each in either byte order. Without a tolerance, elements differ in
    bits. With one, floats are compared in FLOAT64, and integers exactly, with a bound in FLOAT64.
    """
    return _located(a, b, tolerance, first)[0]


def _located(
    a: NDArray[Any], b: NDArray[Any], tolerance: Tolerance | None, first: int
) -> tuple[Differences, NDArray[np.intp]]:
    """The same, with the flat indices of all elements that differ."""
    differing = bits(a) != bits(b)
    if tolerance and (numbers := dtypes.numbers(a)).dtype.kind in "fc":
        differing |= np.isnan(numbers)  # a NaN equals nothing, not even a NaN of the same bits
    places = np.flatnonzero(differing)
    a, b = (native(values).reshape(-1)[places] for values in (a, b))
    if not (tolerance or dtypes.has_numbers(a.dtype)):  # only their bits are known
        indices = np.stack(np.unravel_index(places[:first], differing.shape or (1,)), axis=1)[:, : differing.ndim]
        return Differences(differing.size, len(places), indices, a[:first], b[:first]), places
    x, y = dtypes.numbers(a), dtypes.numbers(b)
    with np.errstate(all="ignore"):
        far, size = _distance(x, y), _magnitude(_wide(y))
        relative = far / size
        relative[far == 0] = 0
        steps = _steps(a, b)
        no_number = [
            np.isnan(numbers) if numbers.dtype.kind in "fc" else np.zeros(len(a), np.bool_) for numbers in (x, y)
        ]
        neither = ~(no_number[0] | no_number[1])
        largest = _largest(far), _largest(relative), int(steps[neither].max()) if neither.any() else None
        if tolerance:
            apart = ~_close(x, y, far, size, tolerance)
            if tolerance.ulps:
                apart &= ~(steps <= tolerance.ulps) | ~neither
            places, a, b = (values[apart] for values in (places, a, b))
            no_number = [mask[apart] for mask in no_number]
    nans, lone = (int(np.count_nonzero(op(*no_number))) for op in (np.logical_and, np.logical_xor))
    indices = np.stack(np.unravel_index(places[:first], differing.shape or (1,)), axis=1)[:, : differing.ndim]
    return Differences(differing.size, len(places), indices, a[:first], b[:first], *largest, nans, lone), places


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
        return _magnitude(distance)
    unsigned = word(a.dtype)
    return np.maximum(a, b).view(unsigned) - np.minimum(a, b).view(unsigned)  # type: ignore[no-any-return]


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
        return _distance(*((bits(values) if dtypes.is_minifloat(dtype) else values) for values in (a, b)))
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


@dataclass(frozen=True)
class Pair:
    """Two tensors of the same sizes and data type, cheap to read in the blocks of the plan.

    With a `job`, `right` is what is right for it.
    """

    a: Source
    right: Source
    plan: Plan
    job: Job | None = None


@contextlib.contextmanager
def opened(a: Source, b: Source, resources: Resources) -> Iterator[Pair]:
    """The pair; EngineError where the smallest block needs more memory than there is."""
    plan = plan_pair(a, b, resources)
    yield Pair(a, b, plan)


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


def compared(stage: str, pair: Pair, tolerance: Tolerance | None = None, first: int = 1) -> Differences:
    """How a pair differs, in blocks; of a job's output, also in which lines."""
    a, right, plan, job = pair.a, pair.right, pair.plan, pair.job

    def task(region: Region) -> Task:
        read_tasks = [a.read_task(region), right.read_task(region)]
        if job:
            read_tasks.append(job.lengths.read_task(lengths_of(region, job.axis)))
        return Task(partial(_compare, tolerance, first, region, job.axis if job else None), tuple(read_tasks), region)

    none = np.empty(0, a.dtype.newbyteorder("="))
    found = Differences(0, 0, np.empty((0, len(a.sizes)), np.intp), none, none)
    wrong = None
    most_lines = max(_FEW_LINES, plan.left // _LINE_BYTES)
    if job and (plan.blocks.cuts_lines or job.lengths.desc.element_count <= most_lines):
        wrong = np.zeros(job.lengths.sizes, np.bool_)
    for region, part in completed(stage, map(task, plan.blocks), plan, a):
        if job and wrong is not None and part.lines is not None:
            wrong[lengths_of(region, job.axis)] |= part.lines
        found = found.merged(part, first)
    return found if wrong is None else replace(found, lines=wrong, line_count=int(np.count_nonzero(wrong)))


def _compare(
    tolerance: Tolerance | None, first: int, region: Region, axis: int | None, *arrays: NDArray[Any]
) -> Differences:
    """The differences of two tensors' blocks at `region`, with the indices of the `first` in the whole tensor.

    With an `axis`, and the lengths as the third array, also in which lines of the block they are.
    """
    part, places = _located(arrays[0], arrays[1], tolerance, first)
    part = replace(part, indices=part.indices + np.array([side.start for side in region], np.intp))
    if axis is None or not len(places):
        return part
    mask = np.zeros(sizes_of(region), np.bool_)
    mask.reshape(-1)[places] = True
    j = np.arange(region[axis].start, region[axis].stop).reshape([-1 if d == axis else 1 for d in range(mask.ndim)])
    inside = int(np.count_nonzero(mask & (j < kernel.clamp(arrays[2], region[axis].stop))))
    lines = np.asarray(mask.any(axis, keepdims=True))
    return replace(part, inside=inside, lines=lines, line_count=int(np.count_nonzero(lines)))
