"""The usual mistakes in an operator that reverses the starts of lines: what each would give in the place of a job.

Each mistake is a source that is computed where it is read, so that a wrong output of any size can be held against it.
Some are documented: Flax reverses the rest of a line, too; ONNX Runtime wrote zeros for length 0; known stacks read the
low 32 bits of a length; TensorFlow on a GPU reads beyond the end of a line. What an implementation finds out of bounds
is unknown, unless it stays within the line, or gets zeros, as D3D12 has it for reads beyond a buffer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.operator import kernel
from revseq_cli.passes.lengths import View, WidenedSource
from revseq_cli.passes.reversal import Computed, Reversed
from revseq_cli.passes.tasks import lengths_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Source, Ticket
    from revseq_cli.formats.regions import Region
    from revseq_cli.passes.assembly import Job

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


def suspects(job: Job, *, whole_lines: bool) -> Iterator[Suspect]:
    """What each mistake would give, the simplest mistakes first; some can only be told where blocks have whole lines.

    The job's tensors must be cheap to read anywhere.
    """
    for number, (name, _) in enumerate(_LENGTHS):
        yield Suspect(name, Reversed(replace(job, lengths=_Wrong(job.lengths, number, job.values.sizes[job.axis]))))
    for number, (name, _) in enumerate(_ZEROS):
        yield Suspect(name, _Zeroed(job, number))
    for number, (name, _) in enumerate(_ELEMENTS if whole_lines else ()):
        yield Suspect(name, _Misplaced(job, number))
    for name, other in (*_halves(job), *_other_axes(job)):
        yield Suspect(name, _Elsewhere(job, other))


def _halves(job: Job) -> Iterator[tuple[str, Job]]:
    """The job where INT64 lengths, one for each index of the batch axis, are bound as UINT32: their halves in turn."""
    lengths = job.lengths
    of_64_bits = job.parts is not None and job.parts.lengths.desc.data_type.size == 8
    if of_64_bits and isinstance(lengths, WidenedSource) and job.batch_axis is not None:
        wide = WidenedSource(_Halves(lengths.source), job.values.sizes, job.axis, job.batch_axis)
        yield "lengths of 64 bits are read as twice as many of 32 bits", replace(job, lengths=wide)


def _other_axes(job: Job) -> Iterator[tuple[str, Job]]:
    """The jobs along other axes for which the lengths would do; none along an axis of size 1, which changes nothing."""
    lengths, sizes = job.lengths, job.values.sizes
    others = [d for d, size in enumerate(sizes) if size > 1]
    if isinstance(lengths, WidenedSource):
        count = lengths.source.sizes[0]
        for axis in others:
            for batch in (d for d, size in enumerate(sizes) if size == count and d != axis):
                if (axis, batch) != (job.axis, job.batch_axis):
                    name = f"axis {axis} is reversed with the batch axis {batch}, not {job.axis} with {job.batch_axis}"
                    yield name, replace(job, axis=axis, lengths=WidenedSource(lengths.source, sizes, axis, batch))
        return
    for axis in (d for d in others if d != job.axis):
        yield (
            f"axis {axis} is reversed, not {job.axis}",
            replace(job, axis=axis, lengths=_Along(job, axis, turned=False)),
        )
        if sizes[axis] == sizes[job.axis]:
            name = f"axis {axis} is reversed, not {job.axis}, with a length for each index of axis {job.axis}"
            yield name, replace(job, axis=axis, lengths=_Along(job, axis, turned=True))


class _Wrong(View):
    """Lengths that a mistake has changed."""

    def __init__(self, lengths: Source, mistake: int, size: int) -> None:
        super().__init__(lengths)
        self.dtype = np.dtype(np.uint64)
        self._mistake, self._size = mistake, size

    def ticket(self, region: Region) -> Ticket:
        """A ticket that reads the lengths and changes them."""
        return Computed(_Change(self._mistake, self._size), (self.source.ticket(region),))


@dataclass(frozen=True)
class _Change:
    mistake: int
    size: int

    def __call__(self, lengths: Ticket) -> Lengths:
        return _LENGTHS[self.mistake][1](lengths.read().astype(np.uint64), self.size)


class _Halves(View):
    """The first half of some lengths of 64 bits, each as two of 32 bits, the low one first."""

    def __init__(self, lengths: Source) -> None:
        super().__init__(lengths)
        self.dtype = np.dtype(np.uint32)

    def ticket(self, region: Region) -> Ticket:
        """A ticket that reads the lengths and takes their halves."""
        (part,) = region
        whole = slice(part.start // 2, (part.stop + 1) // 2)
        return Computed(_Halve(part.start % 2, part.stop - part.start), (self.source.ticket((whole,)),))


@dataclass(frozen=True)
class _Halve:
    first: int
    count: int

    def __call__(self, lengths: Ticket) -> Lengths:
        halves = lengths.read().astype("<u8").view("<u4")[self.first : self.first + self.count]
        return halves.astype(np.uint32)


class NoOutputError(Exception):
    """The mistake cannot have been made, since the lengths do not do for it."""


class _Elsewhere(Reversed):
    """The output of another job; NoOutputError where that takes one length in the place of several that differ."""

    def __init__(self, job: Job, other: Job) -> None:
        super().__init__(other)
        self._lengths = job.lengths
        self._merges = isinstance(other.lengths, _Along) and not other.lengths.turned
        self._own = job.axis

    def ticket(self, region: Region) -> Ticket:
        """A ticket that compares the lengths, if need be, and computes the output."""
        output = super().ticket(region)
        if not self._merges:
            return output
        own = lengths_of(region, self._own)
        return Computed(_same, (output, *map(self._lengths.ticket, (own, lengths_of(own, self.job.axis)))))


def _same(output: Ticket, lengths: Ticket, first: Ticket) -> NDArray[Any]:
    if not (lengths.read() == first.read()).all():
        raise NoOutputError
    return output.read()


class _Along(View):
    """Lengths for another axis: those at its first index, for each index of the job's axis; or with axes `turned`."""

    def __init__(self, job: Job, axis: int, *, turned: bool) -> None:
        super().__init__(job.lengths)
        self.sizes = tuple(1 if d == axis else size for d, size in enumerate(job.values.sizes))
        self._axes, self.turned = (job.axis, axis), turned

    def ticket(self, region: Region) -> Ticket:
        """A ticket that reads lengths of the job, and repeats or turns them."""
        own, axis = self._axes
        part = list(region)
        part[own], part[axis] = slice(0, 1), region[own] if self.turned else slice(0, 1)
        sizes = tuple(each.stop - each.start for each in region)
        return Computed(_Turn(self._axes, self.turned, sizes), (self.source.ticket(tuple(part)),))


@dataclass(frozen=True)
class _Turn:
    axes: tuple[int, int]
    turned: bool
    sizes: tuple[int, ...]

    def __call__(self, lengths: Ticket) -> Lengths:
        values = lengths.read()
        return np.broadcast_to(values.swapaxes(*self.axes) if self.turned else values, self.sizes)


class _Zeroed(Reversed):
    """The right output with some elements that are zeros."""

    def __init__(self, job: Job, mistake: int) -> None:
        super().__init__(job)
        self._mistake = mistake

    def ticket(self, region: Region) -> Ticket:
        """A ticket that computes the output and sets elements to zero."""
        axis = self.job.axis
        step = _SetToZero(self._mistake, axis, self.sizes[axis], region[axis])
        return Computed(step, (super().ticket(region), self.job.lengths.ticket(lengths_of(region, axis))))


@dataclass(frozen=True)
class _SetToZero:
    mistake: int
    axis: int
    size: int
    part: slice

    def __call__(self, right: Ticket, lengths: Ticket) -> NDArray[Any]:
        values = right.read()  # a new array
        clamped = kernel.clamp(lengths.read(), self.size)
        chosen = _ZEROS[self.mistake][1](_along(self.part, self.axis, values.ndim), clamped)
        values[np.broadcast_to(chosen, values.shape)] = np.zeros((), values.dtype)
        return values


class _Misplaced(Reversed):
    """Lines with elements from other places than the right ones; only for regions of whole lines."""

    def __init__(self, job: Job, mistake: int) -> None:
        super().__init__(job)
        self._mistake = mistake

    def ticket(self, region: Region) -> Ticket:
        """A ticket that reads whole lines and takes their elements from the places of the mistake."""
        axis = self.job.axis
        tickets = (self.job.values.ticket(region), self.job.lengths.ticket(lengths_of(region, axis)))
        return Computed(_Take(self._mistake, axis), tickets)


@dataclass(frozen=True)
class _Take:
    mistake: int
    axis: int

    def __call__(self, values: Ticket, lengths: Ticket) -> NDArray[Any]:
        line = values.read()
        size = line.shape[self.axis]
        held = kernel.clamp(lengths.read(), 2 * size)
        index = _ELEMENTS[self.mistake][1](_along(slice(0, size), self.axis, line.ndim), held, size)
        outside = index >= size
        taken = np.take_along_axis(line, np.where(outside, 0, index), self.axis)
        taken[outside] = np.zeros((), line.dtype)
        return taken


def _along(part: slice, axis: int, rank: int) -> NDArray[np.intp]:
    """The indices of a slice of the axis, in an array of that rank."""
    return np.arange(part.start, part.stop).reshape([-1 if d == axis else 1 for d in range(rank)])
