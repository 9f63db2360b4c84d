"""Holds a tensor against what a job's output should be, and explains what is wrong with it.

One pass compares, and notes which lines are wrong. A sample of them, which is all of a small tensor, shows what may
have been done: the relations of `relations` that fit some elements of it are candidates. The simplest that explains the
sample of a large tensor is held against all of it in one more pass, which ends where it fails.

A tensor of other sizes or another data type may still be read as the output: then what was done to it is a mistake.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from dataclasses import dataclass, replace
from functools import partial
from operator import mul
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.core.dtypes import dtype_of, native
from revseq_cli.core.tensors import TensorDesc, braced
from revseq_cli.formats.contract import Storage
from revseq_cli.formats.in_memory import MemorySource
from revseq_cli.pipeline.blocks import cut, lengths_of
from revseq_cli.pipeline.comparison import Diagnosis, Mistake, Pair, compared
from revseq_cli.pipeline.plan import plan_reversal
from revseq_cli.pipeline.reversal import made_ready, reversed_output
from revseq_cli.pipeline.summaries import span_of_lengths
from revseq_cli.pipeline.tasks import Task, completed, spooled
from revseq_cli.pipeline.views import Computed, Reshaped, UnreadableError, View, inverse, transposed
from revseq_cli.porting.candidates import LEAST_PART, Candidate, candidates
from revseq_cli.porting.features import Spots, WrongLines, of_lines, rule_among
from revseq_cli.porting.relations import orders
from revseq_cli.porting.sample import SMALL, Piece, Sample, differing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import ReadTask, Region, Source
    from revseq_cli.pipeline.assembly import Job
    from revseq_cli.pipeline.comparison import Differences, Tolerance
    from revseq_cli.pipeline.plan import Resources

# How many explanations are told, and how many are held against all of a large tensor.
_MOST_TOLD, _MOST_VERIFIED = 3, 4
# The kinds of data types that are taken for each other where only bytes are saved.
_SAME_BYTES = ({"int", "uint"}, {"float", "uint"}, {"float", "int"})


def unchanged(source: Source) -> Source:
    """How most outputs are seen."""
    return source


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
        return compared("compare", self, tolerance, max(first, 1), self.job)

    def diagnosis(self, found: Differences, tolerance: Tolerance | None) -> Diagnosis:
        """Which lines are wrong, by which rule, and what explains them, given how `a` differs."""
        wrong = found.where.wrong
        if wrong is None:
            of = self.job.lengths.desc.element_count
            return Diagnosis(WrongLines(found.where.lines, of, nearest="lines are too many for this memory"))
        lengths = lengths_held(self.job.lengths.read_task(tuple(slice(0, size) for size in wrong.shape)).read())
        spots = Spots(
            tuple(np.ogrid[tuple(map(slice, wrong.shape))]), self.job.values.sizes, self.job.axis, lengths, True
        )
        is_printed, extent = self.seen is not unchanged, self.plan.blocks.extents[self.job.axis]
        sample = Sample(self.job, self.a, self.right, found, tolerance, lengths, is_printed, extent)
        return Diagnosis(of_lines(spots, wrong), _Search(self, sample, spots).mistakes())


def lengths_held(lengths: NDArray[Any]) -> NDArray[np.int64]:
    """Lengths as signed integers with which to compute: of the largest ones the low 62 bits, and one above."""
    wide = native(lengths).astype(np.uint64)
    top = np.uint64(1 << 62)
    return np.where(wide >= top, (wide & (top - np.uint64(1))) | top, wide).astype(np.int64)


class _Part(NamedTuple):
    """What explains some wrong lines of the sample, and how many right ones it breaks; which of all lines, if known."""

    candidate: Candidate
    explained: int
    broken: int
    contradicted: NDArray[np.bool_] | None = None

    def order(self) -> tuple[int, int]:
        """What explains most comes first, and of these the simplest."""
        return -self.explained, self.candidate.cost


class _Search:
    """The search for what explains a wrong output: on its sample, then in all of a large tensor."""

    def __init__(self, oracle: Oracle, sample: Sample, lines: Spots) -> None:
        self.oracle, self.sample, self.lines = oracle, sample, lines
        self.where, self.wrong = sample.found.where, np.asarray(sample.found.where.wrong)
        self.full: dict[str | int, Candidate] = {}
        self.parts: list[_Part] = []

    def mistakes(self) -> tuple[Mistake, ...]:
        """The explanations, the simplest first; if none explains all lines, the one that explains most of them."""
        for candidate in candidates(self.sample, lambda: bool(self.full)):
            if candidate.a is not None and not self.sample.is_whole:
                if self._is_moved(candidate, candidate.a):
                    self._keep(candidate)
            elif part := self._on_sample(candidate):
                if part.explained == self._wrong_of_sample and not part.broken:
                    self._keep(candidate)
                elif part.explained > 1:
                    self.parts.append(part)
        by_cost = sorted(self.full.values(), key=lambda each: each.cost)
        if not self.sample.is_whole:
            by_cost = self._verified(by_cost)
        return _told(by_cost, self.where.lines) if by_cost else self._partial()

    def _keep(self, candidate: Candidate) -> None:
        """Add what explains all of the sample; where that is all of the tensor, unless a simpler one has its id."""
        key = candidate.id if self.sample.is_whole else len(self.full)
        if key not in self.full or candidate.cost < self.full[key].cost:
            self.full[key] = candidate

    def _verified(self, by_cost: list[Candidate]) -> list[Candidate]:
        """The simplest one that explains all of a large tensor, too, and those alike; what fails may explain a part."""
        found = [each for each in by_cost if each.a is not None]  # they are verified
        tried = [*by_cost, *(other for each in by_cost for other in each.alike)]
        for each in tried[:_MOST_VERIFIED] if not found else ():
            if self._everywhere(each, stops=True):
                found = [each]
                break
            self.parts.insert(0, _Part(each, self._wrong_of_sample, 0))
        told: dict[str, Candidate] = {}
        for one in (one for each in found for one in (each, *each.alike)):
            told.setdefault(one.id, one)
        return [*told.values()]

    def _partial(self) -> tuple[Mistake, ...]:
        """What explains all wrong lines, and would change right ones as well; or the most of them, and no right one."""
        total = self.where.lines
        broken = [each for each in self.parts if each.broken and each.explained == self._wrong_of_sample]
        unbroken = sorted((each for each in self.parts if not each.broken), key=_Part.order)
        found = []
        for part in map(self._known, [*broken[:_MOST_VERIFIED], *unbroken[:_MOST_VERIFIED]]):
            if not part.broken:
                found.append(part)
                continue
            others = np.asarray(part.contradicted)
            if part.explained == total and (rule := rule_among(self.lines, self.wrong, others)):
                told = f"only in lines {rule.text}: {part.candidate.text}"
                return (Mistake(part.candidate.id, told, total),)
        best = min(found, key=_Part.order, default=None)
        if best is None or best.explained < LEAST_PART * total:
            return ()
        told = f"{best.candidate.text}; this explains {best.explained:,} of {total:,} wrong lines"
        return (Mistake(best.candidate.id, told, best.explained),)

    # How candidates agree with the sample, and with all of the tensor

    @functools.cached_property
    def _wrong_of_sample(self) -> int:
        return sum(int(np.count_nonzero(each.wrong)) for each in self.sample.pieces)

    def _on_sample(self, candidate: Candidate) -> _Part | None:
        """How it agrees with the sample; None if it explains too little."""
        explained = broken = wrong = 0
        for piece in self.sample.pieces:
            try:
                differs = self._contradicted(candidate, piece)
            except UnreadableError:
                return None
            explained += int(np.count_nonzero(piece.wrong & ~differs))
            broken += int(np.count_nonzero(~piece.wrong & differs))
            wrong += int(np.count_nonzero(piece.wrong))
            if explained < LEAST_PART * wrong:
                return None
        return _Part(candidate, explained, broken, differs if self.sample.is_whole else None)

    def _contradicted(self, candidate: Candidate, piece: Piece) -> NDArray[np.bool_]:
        """Which lines of a piece are not what it has there."""
        output = candidate.output
        if self.sample.is_whole:
            values = candidate.elements().reshape(piece.a.shape)
            output = MemorySource(output.name, values, Storage("memory", {}))
        given = self.oracle.seen(output).read_task(piece.region).read()
        return np.asarray(differing(piece.a, given, self.sample.tolerance).any(self.lines.axis, keepdims=True))

    def _is_moved(self, candidate: Candidate, a: Source) -> bool:
        """Whether an output in other sizes or places is this `a`."""
        plan, sizes = self.oracle.plan, candidate.output.sizes
        most = plan.blocks.elements
        blocks = cut(sizes, candidate.axis, most=most, alignment=(1,) * len(sizes))
        try:
            pair = Pair(a, candidate.output, plan._replace(blocks=blocks))
            return not compared("find the mistake", pair, self.sample.tolerance).count
        except UnreadableError:
            return False

    def _known(self, part: _Part) -> _Part:
        return part if part.contradicted is not None else self._everywhere(part.candidate) or part

    def _everywhere(self, candidate: Candidate, *, stops: bool = False) -> _Part | None:
        """How it agrees with all of the tensor, which takes a pass; None if it `stops` where it explains too little."""
        oracle, axis = self.oracle, self.lines.axis
        found, output = np.zeros(self.wrong.shape, np.bool_), oracle.seen(candidate.output)

        def tasks() -> Iterator[Task]:
            for region in oracle.plan.blocks:
                step = partial(_lines_that_differ, output.read_task(region), self.sample.tolerance, axis)
                yield Task(step, (oracle.a.read_task(region),), region)

        with contextlib.closing(completed("find the mistake", tasks(), oracle.plan, oracle.a)) as results:
            for region, lines in results:
                found[lengths_of(region, axis)] |= lines
                if stops and lines.any():
                    return None
        explained, broken = self.wrong & ~found, found & ~self.wrong
        return _Part(candidate, int(np.count_nonzero(explained)), int(np.count_nonzero(broken)), found)


def _told(by_cost: list[Candidate], lines: int) -> tuple[Mistake, ...]:
    """The simplest explanations; where they are many, that the lines are too few to tell."""
    most = by_cost[0].cost if by_cost[0].cost < 0 else max(1, by_cost[0].cost)
    told = [Mistake(each.id, each.text, lines) for each in by_cost if each.cost <= most]
    if len(told) > _MOST_TOLD:
        others = len(told) - _MOST_TOLD + 1
        text = f"one of {others} others: the lines are too few, or too much alike, to tell"
        told[_MOST_TOLD - 1 :] = [Mistake("too-few-lines", text, lines)]
    return tuple(told)


def _lines_that_differ(output: ReadTask, tolerance: Tolerance | None, axis: int, a: NDArray[Any]) -> NDArray[np.bool_]:
    try:
        return np.asarray(differing(a, output.read(), tolerance).any(axis, keepdims=True))
    except UnreadableError:
        return np.ones([1 if d == axis else size for d, size in enumerate(a.shape)], np.bool_)


@contextlib.contextmanager
def opened(a: Source, job: Job, resources: Resources, seen: Callable[[Source], Source] = unchanged) -> Iterator[Oracle]:
    """The oracle for a tensor of the output's sizes; EngineError if the smallest block needs more memory than there is.

    Tensors that are slow to read anywhere are unpacked into the temporary folder.
    """
    plan = plan_reversal(job, resources, a, a.dtype.itemsize)
    with (
        made_ready(job, "", plan) as ready,
        spooled(a, "", plan) as ready_a,
    ):
        if a.desc.element_count <= SMALL:  # it is read again and again
            ready_a, ready = MemorySource.of(ready_a), replace(ready, values=MemorySource.of(ready.values))
        yield Oracle(ready_a, seen(reversed_output(ready)), plan, ready, seen)


# Tensors of other sizes or another data type


def nearest_reading(a: Source, job: Job, resources: Resources, tolerance: Tolerance | None) -> tuple[str, Source, Job]:
    """What was done to A, if it can be read as the output, A as it was, and the job that is right for it.

    Of several readings, it is the one that differs least.
    """
    found = {}
    if a.desc != job.values.desc:
        if of_cut := _cut(a, job):
            return of_cut[0], a, of_cut[1]
        for told, read in _readings(a, job.values.desc):
            with opened(read, job, resources) as pair:
                count = pair.compare(tolerance, 1).count
            if not _is_numbers(a, job.values.desc, count):
                found[told] = count, read
    told = min(found, key=lambda each: found[each][0], default="")
    return told, found[told][1] if found else a, job


def _is_numbers(a: Source, desc: TensorDesc, differing: int) -> bool:
    """Whether integers are no bytes of floats: read so, none of them is right."""
    return (
        "float" in (a.desc.data_type.kind, desc.data_type.kind)
        and a.desc.data_type is not desc.data_type
        and (differing == desc.element_count)
    )


def _readings(a: Source, desc: TensorDesc) -> Iterator[tuple[str, Source]]:
    """How a tensor of another desc can be read as one of this desc: what was done to it, and the tensor that it was.

    Its sizes are a transposition or a flattening, or have more or fewer of 1, or elements of as many bytes are of
    another data type.
    """
    own, given, sizes = desc.data_type, a.desc.data_type, desc.sizes
    told = ""
    if own is not given:
        if {own.kind, given.kind} not in _SAME_BYTES or own.size != given.size:
            return
        told = f"{own.name} is saved as {given.name}, byte for byte"
        a = _Viewed(a, dtype_of(own).newbyteorder(a.dtype.byteorder))
    if a.sizes == sizes:
        yield told, a
        return
    told = told and f"{told} and "
    long, own_long = (tuple(size for size in each if size > 1) for each in (a.sizes, sizes))
    ends, own_ends = ({*itertools.accumulate(each, mul)} for each in (long, own_long))
    if long == own_long:
        yield f"{told}sizes {braced(sizes)} are {braced(a.sizes)}, with other sizes of 1", Reshaped(a, sizes)
    elif ends <= own_ends and a.desc.element_count == desc.element_count:
        yield f"{told}sizes {braced(sizes)} are flattened to {braced(a.sizes)}", Reshaped(a, sizes)
    for order in orders(sizes):
        if a.sizes == tuple(sizes[d] for d in order):
            yield f"{told}the axes of the output are in the order {braced(order)}", transposed(a, inverse(order))


def _cut(a: Source, job: Job) -> tuple[str, Job] | None:
    """Where A is the output cut along the axis, and no line is longer than that: what was done, and the job of A.

    So PyTorch's pad_packed_sequence gives it, cut to the longest length.
    """
    size, axis = job.values.sizes[job.axis], job.axis
    kept = a.sizes[axis] if len(a.sizes) > axis else size
    sizes = tuple(kept if d == axis else each for d, each in enumerate(job.values.sizes))
    if not 0 < kept < size or a.sizes != sizes or a.desc.data_type is not job.values.desc.data_type:
        return None
    longest = span_of_lengths(job.lengths, ()).greatest if job.lengths.desc.element_count else 0
    if longest > kept:
        return None
    what = "the longest length, " if longest == kept else ""
    told = f"along axis {axis} the output is cut to {what}{kept} of {size}"
    return told, replace(job, values=_Cut(job.values, sizes))


class _Cut(View):
    """The first elements of another source along its dimensions."""

    def __init__(self, source: Source, sizes: tuple[int, ...]) -> None:
        super().__init__(source)
        self.sizes = sizes
        if source.chunks:
            self.chunks = tuple(map(min, source.chunks, sizes))

    def read_task(self, region: Region) -> ReadTask:
        """That of the source."""
        return self.source.read_task(region)


class _Viewed(View):
    """The bytes of another source as elements of another data type of the same size."""

    def __init__(self, source: Source, dtype: np.dtype[Any]) -> None:
        super().__init__(source)
        self.dtype = dtype

    def read_task(self, region: Region) -> ReadTask:
        """A read task that reads the region, and keeps its bytes."""
        return Computed(partial(np.ndarray.view, dtype=self.dtype), (self.source.read_task(region),))
