"""Holds a tensor against what a job's output should be, and finds the usual mistake that explains what is wrong.

The output is computed block by block. Each mistake is a source that is computed where it is read, so that a wrong
output of any size can be held against it. Some are documented: Flax reverses the rest of a line, too; ONNX Runtime
wrote zeros for length 0; known stacks read the low 32 bits of a length; TensorFlow on a GPU reads beyond the end of a
line. What an implementation finds out of bounds is unknown, unless it stays within the line, or gets zeros, as D3D12
has it for reads beyond a buffer.
"""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.operator import kernel
from revseq_cli.operator.spec import lengths_sizes
from revseq_cli.passes.arrangement import arrange_oracle
from revseq_cli.passes.comparison import Pair, compared, differences
from revseq_cli.passes.plan import lengths_of, sizes_of
from revseq_cli.passes.reversal import random_access, reversed_output, tickets_of
from revseq_cli.passes.tasks import Task, completed, spooled
from revseq_cli.passes.views import AlignedSource, Computed, Derived

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Region, Source, Ticket
    from revseq_cli.passes.arrangement import Resources
    from revseq_cli.passes.assembly import Job
    from revseq_cli.passes.comparison import Differences, Tolerance

    Lengths = NDArray[Any]


class Suspect(NamedTuple):
    """A mistake, in words, and the output that it gives."""

    name: str
    output: Source


# A wrong length for each length and the axis size. Lengths come unsigned and unclamped, and go so.
_LENGTHS: tuple[tuple[str, Callable[[Lengths, int], Lengths]], ...] = (
    ("the output is the input: nothing is reversed", lambda n, _: np.zeros_like(n)),
    ("whole lines are reversed, whatever their lengths are", lambda n, size: _all(n, size)),
    ("a length of 0 is taken as the whole line", lambda n, size: np.where(n == 0, _all(n, size), n)),
    ("lengths are one too small", lambda n, _: np.where(n == 0, n, n - 1)),  # and clamped then
    ("lengths are one too small", lambda n, size: np.maximum(_clamped(n, size), 1) - 1),  # clamped before
    ("lengths are one too large", lambda n, size: _clamped(n, size) + 1),
    ("lengths above the axis size are taken as 0", lambda n, size: np.where(n > size, np.zeros_like(n), n)),
    ("lengths above the axis size are taken modulo it", lambda n, size: np.where(n > size, n % _all(n, size), n)),
    ("lengths are taken modulo the axis size", lambda n, size: n % _all(n, size)),
    ("only the low 32 bits of each length are used", lambda n, _: n & np.uint64(0xFFFFFFFF)),
)

# Which elements are zeros in an output that is right elsewhere: for the index along the axis, and the clamped length.
_ZEROS: tuple[tuple[str, Callable[[NDArray[np.intp], Lengths], NDArray[np.bool_]]], ...] = (
    ("zeros behind the length: the rest of the line is not copied", lambda j, n: j >= n),
    ("lines of length 0 are zeros, and not copied", lambda j, n: (n == 0) & (j >= 0)),
)

# Which element of the line stands at an index, for lengths that are not clamped but at most twice the axis size. Zero
# stands where that is no index of the line.
_ELEMENTS: tuple[tuple[str, Callable[[NDArray[np.intp], Lengths, int], NDArray[np.intp]]], ...] = (
    ("what is behind the length is reversed, too", lambda j, n, size: (np.minimum(n, size) - 1 - j) % size),
    ("lengths are not clamped: elements from outside of the line are zeros",
     lambda j, n, _: np.where(j < n, n - 1 - j, j)),
    ("lengths are not clamped: outside of the line, its last element is read",
     lambda j, n, size: np.where(j < n, np.minimum(n - 1 - j, size - 1), j)),
    ("elements are read one too far: at length - j, not at length - 1 - j",
     lambda j, n, size: np.where(j < np.minimum(n, size), np.minimum(n, size) - j, j)),
)  # fmt: skip


def _all(lengths: Lengths, size: int) -> Lengths:
    return np.full_like(lengths, min(size, np.iinfo(lengths.dtype).max))


def _clamped(lengths: Lengths, size: int) -> Lengths:
    return kernel.clamp(lengths, size).astype(np.uint64)


@dataclass(frozen=True)
class Oracle(Pair):
    """A tensor `a` and what is right: the output of a job, whose tensors are cheap to read.

    `seen` makes of each computed output what it looks like in `a`.
    """

    job: Job
    seen: Callable[[Source], Source]
    label = "right"

    def compare(self, tolerance: Tolerance | None, first: int) -> Differences:
        """How `a` differs from what is right, and where in the lines."""
        return compared("compare", self, tolerance, first, self.job)

    def mistakes(self, found: Differences, tolerance: Tolerance | None) -> tuple[str, ...]:
        """The mistakes that explain every element of `a`, given how it differs: `found` has its first difference."""
        whole = not self.arrangement.plan.cuts_lines
        possible = dict(enumerate(suspects(self.job, whole_lines=whole)))

        def task(region: Region) -> Task:
            outputs = {key: self.seen(suspect.output).ticket(region) for key, suspect in possible.items()}
            return Task(partial(_contradicted, tolerance, outputs), (self.a.ticket(region),), region)

        def exclude(keys: Iterable[int]) -> None:
            for key in keys:
                possible.pop(key, None)

        exclude(task(self._line(found.indices[0].tolist(), whole=whole))()[1])  # most mistakes are excluded here
        regions = itertools.takewhile(lambda _: possible, self.arrangement.plan)
        for _, keys in completed("find the mistake", map(task, regions), self.arrangement, self.a):
            exclude(keys)
        return tuple(dict.fromkeys(suspect.name for suspect in possible.values()))

    def _line(self, place: list[int], *, whole: bool) -> Region:
        """The line through an element, or the element alone."""
        axis = self.job.axis
        return tuple(slice(0, self.a.sizes[d]) if whole and d == axis else slice(i, i + 1) for d, i in enumerate(place))


def _contradicted(tolerance: Tolerance | None, outputs: dict[int, Ticket], a: NDArray[Any]) -> list[int]:
    """The keys of the outputs that differ from a block; they are computed one after the other."""

    def explains(output: Ticket) -> bool:
        try:
            return not differences(a, output.read(), tolerance, 0).count
        except NoOutputError:
            return False

    return [key for key, output in outputs.items() if not explains(output)]


@contextlib.contextmanager
def opened(
    a: Source, job: Job, resources: Resources, seen: Callable[[Source], Source] = lambda source: source
) -> Iterator[Oracle]:
    """The oracle for a tensor of the output's sizes; EngineError if the smallest block needs more memory than there is.

    Tensors that are slow to read anywhere are unpacked into the temporary folder.
    """
    arrangement = arrange_oracle(job, a, resources)
    with (
        random_access(job, "", arrangement) as ready,
        a.random_access() as whole,
        spooled(whole, "", arrangement) as ready_a,
    ):
        yield Oracle(ready_a, seen(reversed_output(ready)), arrangement, ready, seen)


def suspects(job: Job, *, whole_lines: bool) -> Iterator[Suspect]:
    """What each mistake would give, the simplest mistakes first; some can only be told where blocks have whole lines.

    The job's tensors must be cheap to read anywhere.
    """
    axis, size, right = job.axis, job.values.sizes[job.axis], tickets_of(job)

    def wrong_lengths(number: int, region: Region) -> Ticket:
        return Computed(partial(_changed, number, size), (job.lengths.ticket(region),))

    def zeroed(number: int, region: Region) -> Ticket:
        lengths = job.lengths.ticket(lengths_of(region, axis))
        return Computed(partial(_zeroed, number, axis, size, region[axis]), (right(region), lengths))

    def misplaced(number: int, region: Region) -> Ticket:
        tickets = job.values.ticket(region), job.lengths.ticket(lengths_of(region, axis))
        return Computed(partial(_misplaced, number, axis), tickets)

    for number, (name, _) in enumerate(_LENGTHS):
        lengths = Derived(job.lengths, np.dtype(np.uint64), partial(wrong_lengths, number))
        yield Suspect(name, reversed_output(replace(job, lengths=lengths)))
    for number, (name, _) in enumerate(_ZEROS):
        yield Suspect(name, Derived(job.values, job.values.dtype, partial(zeroed, number)))
    for number, (name, _) in enumerate(_ELEMENTS if whole_lines else ()):
        yield Suspect(name, Derived(job.values, job.values.dtype, partial(misplaced, number)))
    yield from (*_halves(job), *_other_axes(job))


def _changed(mistake: int, size: int, lengths: Lengths) -> Lengths:
    return _LENGTHS[mistake][1](lengths.astype(np.uint64), size)


def _zeroed(mistake: int, axis: int, size: int, part: slice, right: NDArray[Any], lengths: Lengths) -> NDArray[Any]:
    """The right output of a block, which is a new array, with some elements that are zeros."""
    chosen = _ZEROS[mistake][1](_along(part, axis, right.ndim), kernel.clamp(lengths, size))
    right[np.broadcast_to(chosen, right.shape)] = np.zeros((), right.dtype)
    return right


def _misplaced(mistake: int, axis: int, lines: NDArray[Any], lengths: Lengths) -> NDArray[Any]:
    """Whole lines with elements from other places than the right ones."""
    size = lines.shape[axis]
    held = kernel.clamp(lengths, 2 * size)
    index = _ELEMENTS[mistake][1](_along(slice(0, size), axis, lines.ndim), held, size)
    outside = index >= size
    taken = np.take_along_axis(lines, np.where(outside, 0, index), axis)
    taken[outside] = np.zeros((), lines.dtype)
    return taken


def _along(part: slice, axis: int, rank: int) -> NDArray[np.intp]:
    """The indices of a slice of the axis, in an array of that rank."""
    return np.arange(part.start, part.stop).reshape([-1 if d == axis else 1 for d in range(rank)])


def _halves(job: Job) -> Iterator[Suspect]:
    """The output where INT64 lengths, one for each index of the batch axis, are bound as UINT32: halves in turn."""
    lengths = job.lengths
    of_64_bits = job.parts is not None and job.parts.lengths.desc.data_type.size == 8
    if of_64_bits and isinstance(lengths, AlignedSource) and job.batch_axis is not None:
        given = lengths.source

        def ticket(region: Region) -> Ticket:
            (part,) = region
            whole = slice(part.start // 2, (part.stop + 1) // 2)
            return Computed(partial(_halved, part.start % 2, part.stop - part.start), (given.ticket((whole,)),))

        halves = Derived(given, np.dtype(np.uint32), ticket)
        wide = AlignedSource(halves, job.values.sizes, job.axis, (job.batch_axis,))
        name = "lengths of 64 bits are read as twice as many of 32 bits"
        yield Suspect(name, reversed_output(replace(job, lengths=wide)))


def _halved(first: int, count: int, lengths: Lengths) -> Lengths:
    """So many halves of lengths of 64 bits, from one of them on, the low ones first."""
    return lengths.astype("<u8").view("<u4")[first : first + count].astype(np.uint32)


def _other_axes(job: Job) -> Iterator[Suspect]:
    """The outputs along other axes for which the lengths do; none along an axis of size 1, which changes nothing."""
    lengths, sizes = job.lengths, job.values.sizes
    others = [d for d, size in enumerate(sizes) if size > 1]
    if isinstance(lengths, AlignedSource) and job.batch_axis is not None:
        count = lengths.source.sizes[0]
        for axis in others:
            for batch in (d for d, size in enumerate(sizes) if size == count and d != axis):
                if (axis, batch) != (job.axis, job.batch_axis):
                    name = f"axis {axis} is reversed with the batch axis {batch}, not {job.axis} with {job.batch_axis}"
                    aligned = AlignedSource(lengths.source, sizes, axis, (batch,))
                    yield Suspect(name, reversed_output(replace(job, axis=axis, lengths=aligned)))
        return

    def if_alike(output: Source, axis: int, region: Region) -> Ticket:
        own = lengths_of(region, job.axis)
        lengths = job.lengths.ticket(own), job.lengths.ticket(lengths_of(own, axis))
        return Computed(partial(_if_alike, output.ticket(region)), lengths)

    for axis in (d for d in others if d != job.axis):
        name = f"axis {axis} is reversed, not {job.axis}"
        output = reversed_output(replace(job, axis=axis, lengths=_lengths_along(job, axis, turned=False)))
        yield Suspect(name, Derived(job.values, job.values.dtype, partial(if_alike, output, axis)))
        if sizes[axis] == sizes[job.axis]:
            name += f", with a length for each index of axis {job.axis}"
            other = replace(job, axis=axis, lengths=_lengths_along(job, axis, turned=True))
            yield Suspect(name, reversed_output(other))


def _if_alike(output: Ticket, lengths: Lengths, first: Lengths) -> NDArray[Any]:
    """The output, which takes the first length for all; NoOutputError where they differ."""
    if not (lengths == first).all():
        raise NoOutputError
    return output.read()


class NoOutputError(Exception):
    """The mistake cannot have been made, since the lengths do not do for it."""


def _lengths_along(job: Job, axis: int, *, turned: bool) -> Source:
    """Lengths for another axis: those at its first index, for each index of the job's axis; or with axes `turned`."""

    def ticket(region: Region) -> Ticket:
        part = list(region)
        part[job.axis], part[axis] = slice(0, 1), region[job.axis] if turned else slice(0, 1)
        axes = (job.axis, axis) if turned else (0, 0)
        return Computed(partial(_turned, axes, sizes_of(region)), (job.lengths.ticket(tuple(part)),))

    lengths = Derived(job.lengths, job.lengths.dtype, ticket)
    lengths.sizes = lengths_sizes(job.values.sizes, axis)
    return lengths


def _turned(axes: tuple[int, int], sizes: tuple[int, ...], lengths: Lengths) -> Lengths:
    """The lengths with two axes exchanged, repeated to these sizes."""
    return np.broadcast_to(lengths.swapaxes(*axes), sizes)
