"""The sample of a wrong output: its elements, the rules that part wrong ones from right ones, and how it is read.

All of a small tensor is its sample. Of a larger one, some indices of each dimension are, with whole lines or parts of
them. A place is a tuple of true indices, an array for each dimension, which broadcast: so the same functions serve a
few elements, these with many numbers tried at once, and the whole sample.
"""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import lgamma, log, log2, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.core import dtypes
from revseq_cli.core.dtypes import native
from revseq_cli.core.tensors import braced
from revseq_cli.formats.contract import Storage
from revseq_cli.formats.in_memory import MemorySource
from revseq_cli.operator import kernel
from revseq_cli.pipeline.comparison import Pair, unequal
from revseq_cli.pipeline.plan import plan_reversal
from revseq_cli.pipeline.reversal import made_ready, reversed_output
from revseq_cli.pipeline.tasks import spooled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Source
    from revseq_cli.pipeline.assembly import Job
    from revseq_cli.pipeline.comparison import Differences, Tolerance
    from revseq_cli.pipeline.plan import Resources

    Array = NDArray[Any]
    Places = Sequence[Any]
    Test = tuple[int, int, str, Callable[..., Any], Callable[..., Array]]

HUGE = 1 << 62  # in place of longer lengths
_SAMPLE_BYTES = 256  # that are computed with for an element of the sample
_MOST, _FEWEST = 1 << 18, 1 << 12  # elements of a sample
_LINES = 64  # of which a larger tensor's sample has elements, at least
RULE_BITS = 6.0  # by which a rule must be better than chance
_MOST_NAMED = 6  # runs of indices
_SOME = 1 << 11  # of which a rule is read first


@dataclass(frozen=True, eq=False)
class Sample:
    """Elements of a wrong output `got`, of the input `x` and of what is `right`, all of them at the same indices.

    `index` has for each dimension the true indices, of `shape`. `lengths` are those of all lines, as integers of at
    least 0, with the size 1 along the axis; each took `width` bytes. `same` says which elements are equal, and
    `rounding` is a relative distance between some that are so but for rounding.
    """

    shape: tuple[int, ...]
    axis: int
    lengths: Array
    width: int
    index: tuple[Array, ...]
    x: Array
    got: Array
    right: Array
    same: Callable[[Array, Array], NDArray[np.bool_]]
    rounding: float

    @cached_property
    def at(self) -> Places:
        """The places of all elements, in arrays that broadcast."""
        return np.ix_(*self.index)

    @cached_property
    def table(self) -> Array:
        """The lengths with the size 1 in each dimension along which they are all the same."""
        table = self.lengths
        for d in range(table.ndim):
            first = table.take([0], d)
            table = first if (table == first).all() else table
        return table

    @property
    def is_whole(self) -> bool:
        """Whether it is all of the tensor."""
        return self.x.shape == self.shape

    def read(self, values: Array, at: Places) -> tuple[Array, Any]:
        """The elements of the sample's `values` at places, zeros outside of the tensor; and which are not in it."""
        inside, unknown, number = np.True_, np.False_, np.intp(0)
        for i, size, own in zip(at, self.shape, self.index, strict=True):
            inside = inside & (i >= 0) & (i < size)
            if len(own) < size:
                nearest = np.searchsorted(own, i).clip(max=len(own) - 1)
                unknown = unknown | (own[nearest] != i)
                i = nearest
            number = number * len(own) + i
        unknown = unknown & inside
        taken = values.reshape(-1)[np.where(inside & ~unknown, number, 0)]
        if not inside.all():
            taken[np.broadcast_to(~inside, taken.shape)] = np.zeros((), taken.dtype)
        return taken, unknown

    @property
    def first(self) -> Places:
        """The places of the first elements of lines."""
        return put(self.at, self.axis, np.zeros((1,) * len(self.shape), np.intp))

    def line_at(self, at: Places) -> Any:
        """The number of each place's line in the table of lengths."""
        number = np.intp(0)
        for i, size in zip(at, self.table.shape, strict=True):
            number = number * size + (np.clip(i, 0, size - 1) if size > 1 else 0)
        return number

    def lengths_at(self, at: Places) -> Array:
        """The lengths of the lines of places."""
        return self.table.reshape(-1)[self.line_at(at)]  # type: ignore[no-any-return]

    def home(self, at: Places, lengths: Array | None = None) -> Places:
        """Where the elements come from that belong at places, or would if lines had other lengths."""
        n = np.minimum(self.lengths_at(at) if lengths is None else lengths, self.shape[self.axis])
        return put(at, self.axis, mirrored(at[self.axis], n))

    @staticmethod
    def number(value: Any) -> str:
        """An element in words."""
        return str(value) if value.dtype.names is None else f"{int(words(value.reshape(1))[0]):#x}"


def put(at: Places, d: int, index: Any) -> Places:
    """The places with another index in dimension d."""
    return *at[:d], index, *at[d + 1 :]


def number_of(at: Places, shape: tuple[int, ...]) -> Any:
    """The number of each place in C order."""
    number = np.intp(0)
    for i, size in zip(at, shape, strict=True):
        number = number * size + i
    return number


def place_of(number: Any, shape: tuple[int, ...]) -> Places:
    """The place of each number in C order; outside of the tensor, its first index is outside.

    numpy.unravel_index is wrong for shapes such as (n, 1): https://github.com/numpy/numpy/issues/31980
    """
    at: list[Any] = []
    for size in shape[:0:-1]:
        number, i = np.divmod(number, size)
        at.insert(0, i)
    return number, *at


@contextlib.contextmanager
def opened(a: Source, job: Job, resources: Resources) -> Iterator[Pair]:
    """A tensor and the output of a job, of the same sizes and data type.

    EngineError where the smallest block needs more memory than there is.
    """
    plan = plan_reversal(job, resources, a, a.dtype.itemsize)
    with made_ready(job, "", plan) as ready, spooled(a, "", plan) as ready_a:
        yield Pair(ready_a, reversed_output(ready), plan, ready)


def sampled(pair: Pair, job: Job, found: Differences, tolerance: Tolerance | None, memory: int) -> Sample:
    """All of a tensor, or of a large one what fits into a part of the memory: some wrong lines, and right ones."""
    shape, axis = job.values.sizes, job.axis
    lengths = native(job.lengths.read_task(tuple(slice(0, size) for size in job.lengths.sizes)).read())
    long = np.minimum(lengths.astype(np.uint64), np.uint64(HUGE)).astype(np.int64)
    most = min(_MOST, max(_FEWEST, memory // _SAMPLE_BYTES))
    index = [np.arange(size, dtype=np.intp) for size in shape]
    if prod(shape) > most:
        index = _index(shape, axis, long, found, max(_FEWEST, most // 4))  # as many lines tell as much
    x, got, right = (_read(source, index) for source in (job.values, pair.a, pair.right))
    same = _same_bits if tolerance is None else partial(_close, tolerance)
    dtype, width = pair.a.dtype, job.given_lengths.dtype.itemsize
    rounding = 8 * float(np.finfo(dtype).eps) if dtype.kind in "fc" else 2.0 ** (1 - 4 * dtype.itemsize)
    return Sample(shape, axis, long, width, tuple(index), x, got, right, same, rounding)


def _same_bits(a: Array, b: Array) -> NDArray[np.bool_]:
    return words(a) == words(b)  # type: ignore[no-any-return]


def _close(tolerance: Tolerance, a: Array, b: Array) -> NDArray[np.bool_]:
    a, b = np.broadcast_arrays(a, b)
    return ~unequal(a, b, tolerance)


def _index(shape: tuple[int, ...], axis: int, lengths: Array, found: Differences, most: int) -> list[Array]:
    """Some indices of each dimension: of wrong lines, of those beside them, and of right ones."""
    size = shape[axis]
    wrong = np.argwhere(np.asarray(found.lines))
    wrong = wrong[np.linspace(0, len(wrong) - 1, min(len(wrong), 12)).astype(np.intp)]
    along = np.arange(size, dtype=np.intp)
    lines = min(lengths.size, _LINES)
    if size > most // lines:  # parts of lines: their ends, and where lengths end that some of them have
        n = np.minimum(lengths[tuple(wrong.T)], size)
        first = int(found.indices[0][axis]) if len(found.indices) else 0
        ends = [0, size, *n.tolist(), *(n // 2).tolist(), first, *(n - first).tolist(), size // 2]
        width = max(8, most // lines // len(ends))
        parts = [np.arange(max(0, end - width // 2), min(size, end + width // 2)) for end in ends]
        along = np.unique(np.concatenate(parts)).astype(np.intp)
    others = [d for d in range(len(shape)) if d != axis]
    room, index = max(1, most // len(along)), {axis: along}
    for left, d in enumerate(sorted(others, key=lambda d: shape[d])):
        count = max(1, int(room ** (1 / (len(others) - left))))
        near = [int(i) + step for i in wrong[:: max(1, 4 * len(wrong) // count), d] for step in (0, -1, 1)]
        wanted = [*near, *range(0, shape[d], max(1, shape[d] // count)), *wrong[:, d].tolist(), *range(shape[d])]
        chosen = dict.fromkeys(i for i in wanted[: 4 * count] if 0 <= i < shape[d])
        index[d] = np.array(sorted([*chosen][:count]), np.intp)
        room //= len(index[d])
    return [index[d] for d in range(len(shape))]


def _read(source: Source, index: list[Array]) -> Array:
    """The elements of a source at all combinations of indices, each run of adjacent ones read at once."""
    out = np.empty([len(own) for own in index], source.dtype.newbyteorder("="))
    runs = [np.split(np.arange(len(own)), np.flatnonzero(np.diff(own) != 1) + 1) for own in index]
    for places in itertools.product(*runs):
        ends = [(own[run[0]], own[run[-1]] + 1) for own, run in zip(index, places, strict=True)]
        region = tuple(slice(int(start), int(stop)) for start, stop in ends)
        out[np.ix_(*places)] = native(source.read_task(region).read())
    return dtypes.numbers(out) if dtypes.has_numbers(out.dtype) else out


def noun(shape: tuple[int, ...], axis: int, d: int) -> str:
    """What all indices of a dimension are called."""
    if d == axis:
        return "elements of the lines"
    return "batches" if d == (0 if axis else 1) else f"indices in dimension {d}"


def named(shape: tuple[int, ...], axis: int, d: int, indices: Array, of: str = "") -> str:
    """What some indices of a dimension are called, in order."""
    runs = np.split(indices, np.flatnonzero(np.diff(indices) != 1) + 1)
    names = [name for run in runs for name in ([f"{run[0]} to {run[-1]}"] if len(run) > 2 else map(str, run))]
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    if d == (0 if axis else 1):
        return f"{'batches' if len(indices) > 1 else 'batch'} {listed}{of}"
    where = "along the axis" if d == axis else f"in dimension {d}"
    return f"{'indices' if len(indices) > 1 else 'index'} {listed}{of} {where}"


def words(values: Array) -> Array:
    """The bits of elements as unsigned integers, or pairs of them, which can only be compared."""
    size = values.itemsize
    return np.ascontiguousarray(values).view(f"u{size}" if size <= 8 else "u8,u8").reshape(values.shape)


def mirrored(j: Array, n: Array) -> Array:
    """The index from which the element at index j of a line comes whose length is n."""
    return np.where((j >= 0) & (j < n), n - 1 - j, j)


# Which lines or elements are wrong. A rule is a quantity, such as the length, and a test, such as "is above 7". Lines
# that go wrong together, as those of a batch do, are one witness: what so few could fit by chance is no rule.


def _ways(count: int, others: int) -> float:
    """In how many ways so many can be chosen out of all, in bits."""
    return (lgamma(count + others + 1) - lgamma(count + 1) - lgamma(others + 1)) / log(2)


def witnesses(wrong: Array, others: Array) -> tuple[Array, Array]:
    """Both, with the size 1 in each dimension along which all agree that are one or the other."""
    for d in range(wrong.ndim):
        narrow, narrow_others = (np.asarray(mask.any(d, keepdims=True)) for mask in (wrong, others))
        if not (narrow & narrow_others).any():
            wrong, others = narrow, narrow_others
    return wrong, others


class Rules:
    """The rules that may part wrong lines of a tensor from others, or wrong elements, at places `at`."""

    def __init__(self, sample: Sample, at: Places, *, of_lines: bool, right: Array | None = None) -> None:
        self.sample, self.of_lines, shape, axis = sample, of_lines, sample.shape, sample.axis
        self.is_whole = sample.is_whole  # else the numbers in most rules would be those of the sample alone
        self.at = put(at, axis, np.zeros((1,) * len(shape), np.intp)) if of_lines else at
        long, j, s = sample.lengths_at(self.at), self.at[axis], shape[axis]
        n = np.minimum(long, s)
        rows: list[tuple[float, str, Any]] = [
            (1, "lines of length 0", long == 0),
            (2, "lines of length 1", long == 1),
            (1, "lines whose length is above the axis size", long > s),
            (2, "lines whose length is the axis size or more", long >= s),
            (2, "lines whose length", long),
        ]
        if not of_lines:
            rows[:0] = [(0, "elements behind the length", j >= n), (0, "elements before the length", j < n)]
        for d, size in enumerate(shape):
            if size > 1 and not (of_lines and d == axis):
                rows += [
                    (2, f"{'elements' if d == axis else 'lines'} whose index in dimension {d}", self.at[d]),
                    (1, f"elements at the last index of dimension {d}", self.at[d] == size - 1),
                ]
        if prod(shape) > max(shape) * s:
            rows.append((4, "lines whose number", number_of(put(self.at, axis, 0), (*put(shape, axis, 1),))))
        if not of_lines:
            rows += [
                (3, "elements whose distance behind the length", j - n),
                (4, "elements whose distance from the nearer end of the reversed part", np.minimum(j, n - 1 - j)),
                (4, "elements whose place in memory", number_of(self.at, shape)),
                *((3, f"the part of lines behind the last whole block of {k} before the length",
                   (j < n) & (j >= n // k * k)) for k in (4, 8, 16, 32, 64)),
            ]  # fmt: skip
        self.rows = rows
        if right is not None and right.dtype.kind in "fciu":
            self._add_values(right)

    def _add_values(self, right: Array) -> None:
        value = right.real if right.dtype.kind == "c" else right
        self.rows += [(2, "elements whose right value is below 0", value < 0),
                      (3, "elements whose right value is above 0", value > 0)]  # fmt: skip
        if right.dtype.kind in "fc":
            tiny = np.finfo(value.dtype).tiny
            self.rows += [
                (1, "elements whose right value is NaN", right != right),
                (1, "elements whose right value is infinite", np.isinf(right)),
                (1, "elements whose right value is -0", (value == 0) & np.signbit(value)),
                (1, "elements whose right value is denormal", (value != 0) & (np.abs(value) < tiny)),
            ]

    def rule(self, wrong: Array, others: Array, margin: float = RULE_BITS) -> str:
        """The simplest words for all that is wrong and nothing of the others; "" if there are none but by chance."""
        parts = witnesses(wrong, others)
        bits = _ways(*(int(np.count_nonzero(part)) for part in parts)) - margin
        if bits <= 0:
            return ""
        some = [places[:: max(1, len(places) // _SOME)] for places in map(np.flatnonzero, (wrong, others))]
        some_at = [np.unravel_index(places, wrong.shape) for places in some]
        best = bits, ""
        for cost, text, quantity in self.rows:
            wide = np.broadcast_to(quantity, wrong.shape)
            few = [wide[places] for places in some_at]
            for test in _TESTS if self.is_whole else [test for test in _TESTS if not test[1]]:
                if _fitted(test, *few) is None or (numbers := _fitted(test, wide[wrong], wide[others])) is None:
                    continue
                base, share, phrase = test[:3]
                total = cost + base + share * log2(1 + len(np.unique(np.concatenate(few))))
                if total < best[0]:
                    best = total, f"{text} {phrase.format(*numbers)}".strip()
        return best[1]

    def names(self, wrong: Array, others: Array) -> str:
        """The indices of one dimension, or the lines, that have all that is wrong and nothing of the others, if few."""
        sample = self.sample
        for d in range(wrong.ndim):
            across = tuple(other for other in range(wrong.ndim) if other != d)
            bad, good = wrong.any(across), others.any(across)
            runs = np.count_nonzero(np.diff(bad.astype(np.int8), prepend=0) == 1)
            if (
                wrong.shape[d] == sample.shape[d] > 1
                and not (bad & good).any()
                and not bad.all()
                and runs <= _MOST_NAMED
            ):
                indices = np.broadcast_to(np.ravel(self.at[d]), bad.shape)[bad]
                return named(sample.shape, sample.axis, d, indices, f" of {sample.shape[d]}")
        count = int(np.count_nonzero(wrong))
        if not self.of_lines or wrong.ndim < 3 or count > _MOST_NAMED:
            return ""
        lines = [[int(i) for d, i in enumerate(place) if d != sample.axis] for place in np.argwhere(wrong)]
        return f"the line{'s' * (count > 1)} {', '.join(map(str, lines))}"


def _fitted(test: Test, w: Array, r: Array) -> Any:
    """The numbers with which a test holds for all of w and nothing of r; None if it does not."""
    _, _, phrase, fit, holds = test
    if (w.dtype == bool) is not (phrase == ""):
        return None
    numbers = fit(w, r)
    return numbers if numbers is not None and holds(w, *numbers).all() and not holds(r, *numbers).any() else None


def _remainder(w: Array, _: Array) -> tuple[int, int] | None:
    divisor = int(np.gcd.reduce(w - w.min()))
    return (divisor, int(w.min()) % divisor) if divisor > 1 else None


def _no_multiple(w: Array, r: Array) -> tuple[int] | None:
    divisor = int(np.gcd.reduce(r)) if len(r) else 0
    return (divisor,) if divisor > 1 and (w % divisor).all() else None


def _blocks(w: Array, _: Array) -> tuple[int, int] | None:
    for size in (2 << np.arange(10)).tolist():
        half = w // size % 2
        if (half == half[0]).all() and len(np.unique(w // size)) > 1:
            return size, size * int(half[0])
    return None


# What is so of a quantity of all that is wrong, w, and of no others, r: the cost, also for each bit of its values; the
# words; the numbers in them; and the test.
_TESTS: tuple[Test, ...] = (
    (0, 0, "", lambda w, r: (), lambda q: q),
    (0, 1, "is {}", lambda w, r: (w[0],) if (w == w[0]).all() else None, lambda q, k: q == k),
    (1, 0, "is {}", lambda w, r: ("odd" if w[0] % 2 else "even",), lambda q, k: q % 2 == (k == "odd")),
    (0, 1, "is above {}", lambda w, r: (r[r < w.min()].max(),) if (r < w.min()).any() else None, lambda q, k: q > k),
    (0, 1, "is below {}", lambda w, r: (r[r > w.max()].min(),) if (r > w.max()).any() else None, lambda q, k: q < k),
    (1, 1, "is not {}", lambda w, r: (r[0],) if (r == r[0]).all() else None, lambda q, k: q != k),
    (1, 2, "is {} to {}", lambda w, r: (w.min(), w.max()), lambda q, low, high: (q >= low) & (q <= high)),
    (1, 1, "has the remainder {1} by {0}", _remainder, lambda q, k, rest: q % k == rest),
    (1, 1, "is no multiple of {}", _no_multiple, lambda q, k: q % k != 0),
    (4, 0, "is in every second block of {0}, from {1} on", _blocks,
     lambda q, size, first: (q // size - first // size) % 2 == 0),
)  # fmt: skip


def rule_of_lines(sample: Sample, wrong: Array) -> str:
    """Which of all lines of the tensor are wrong, in words; "" if no simple ones are so but by chance.

    A line of one element or none looks right whatever happens to it.
    """
    if wrong.all():
        return "all lines"
    rules = Rules(sample, np.ix_(*(np.arange(size, dtype=np.intp) for size in wrong.shape)), of_lines=True)
    rules.is_whole = True
    visible = ~wrong & (np.broadcast_to(sample.lengths_at(rules.at), wrong.shape) > 1)
    if not visible.any():
        return "lines whose length is above 1"
    told = rules.rule(wrong, ~wrong) or rules.names(wrong, ~wrong)
    if told:
        return told
    told = rules.rule(wrong, visible) or rules.names(wrong, visible)
    return told and f"{told}, but for lines whose length is 0 or 1"


# Tensors of other sizes, or of another data type


def reading(a: Source, job: Job, tolerance: Tolerance | None, memory: int) -> tuple[str, Source, Job]:
    """What was done to A besides, A without it, and the job that is then right for it; "" if A is like the output.

    A tensor that is too large for the memory stays as it is.
    """
    values, axis = job.values, job.axis
    if a.desc == values.desc or 8 * (a.desc.total_bytes + values.desc.total_bytes) > memory:
        return "", a, job
    array, x, n = native(a.read()), native(values.read()), job.lengths.read()
    kept, size = array.shape[axis] if array.ndim == x.ndim else 0, x.shape[axis]
    if array.dtype == x.dtype and n.max(initial=0) <= kept < size and array.shape == (*put(x.shape, axis, kept),):
        of = "the longest length, " if n.max(initial=0) == kept else ""
        cut = MemorySource(values.name, x.take(range(kept), axis), values.storage)
        return f"along axis {axis} the output is cut to {of}{kept} of {size}", a, replace(job, values=cut)
    right = kernel.reverse(x, n, axis)
    found = [(int(unequal(read, right, tolerance).sum()), text, read) for text, read in _readings(array, x)]
    wrong, text, array = min(found, key=lambda row: row[0], default=(0, "", array))
    if not text or (wrong == x.size and a.dtype != values.dtype):  # integers are no bytes of floats
        return "", a, job
    return text, MemorySource(a.name, array, Storage("memory", {}), a.identity), job


def _readings(a: Array, x: Array) -> Iterator[tuple[str, Array]]:
    """How an array can be read as one like x: what was done to it, and the array without that."""
    done = []
    if a.dtype != x.dtype:
        names = " is saved as ".join(dtypes.data_type_of(array.dtype).name for array in (x, a))
        with np.errstate(all="ignore"):
            cast = a.astype(x.dtype) if {a.dtype.kind, x.dtype.kind} <= {*"fiu"} else None
        if cast is not None and (cast.astype(a.dtype) == a).all():
            done, a = [names], cast
        elif a.itemsize == x.itemsize:
            done, a = [f"{names}, byte for byte"], a.view(x.dtype)
        else:
            return
    if a.shape == x.shape:
        yield done[0], a
    elif a.size == x.size and (a.ndim == 1 or [n for n in a.shape if n > 1] == [n for n in x.shape if n > 1]):
        yield ", and ".join([*done, f"sizes {braced(x.shape)} are saved as {braced(a.shape)}"]), a.reshape(x.shape)
    for order in itertools.permutations(range(x.ndim)) if x.ndim <= 6 and a.shape != x.shape else ():
        if a.shape == tuple(x.shape[d] for d in order):
            told = ", and ".join([*done, f"the axes of the output are in the order {braced(order)}"])
            yield told, a.transpose(np.argsort(order))
