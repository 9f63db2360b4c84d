"""The sample of a wrong output that its diagnosis is about, and tensors of other sizes that are read as an output.

All of a small tensor is its sample. Of a larger one, some indices of each dimension are, with whole lines or parts of
them. A place is a tuple of true indices, an array for each dimension, which broadcast: so the same functions serve a
few elements, these with many numbers tried at once, and the whole sample.
"""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import prod
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
from revseq_cli.porting.hypotheses import mirrored, words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Source
    from revseq_cli.pipeline.assembly import Job
    from revseq_cli.pipeline.comparison import Differences, Tolerance
    from revseq_cli.pipeline.plan import Resources

    Array = NDArray[Any]
    Places = Sequence[Any]

HUGE = 1 << 62  # in place of longer lengths
_SAMPLE_BYTES = 256  # that are computed with for an element of the sample
_MOST, _FEWEST = 1 << 18, 1 << 12  # elements of a sample
_LINES = 64  # of which a larger tensor's sample has elements, at least


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
