"""Holds a tensor against what a job's output should be, and explains what is wrong with it.

One pass compares, and notes which lines are wrong. A sample of them, which is all of a small tensor, shows what may
have been done: the relations of `relations` that fit some elements of it are candidates, each a source that is computed
where it is read. Those that explain the sample are held against all of the tensor in one more pass.
"""

from __future__ import annotations

import contextlib
import functools
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.core.dtypes import bits, native
from revseq_cli.formats.in_memory import MemorySource
from revseq_cli.pipeline.arrangement import arrange_oracle
from revseq_cli.pipeline.comparison import Diagnosis, Mistake, Pair, compared, located
from revseq_cli.pipeline.plan import lengths_of, make_plan
from revseq_cli.pipeline.reversal import random_access, reversed_output
from revseq_cli.pipeline.tasks import Task, completed, spooled
from revseq_cli.pipeline.views import UnreadableError
from revseq_cli.porting.candidates import Candidate, candidates
from revseq_cli.porting.features import Spots, WrongLines, of_lines, rule_among

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import ReadTask, Region, Source
    from revseq_cli.pipeline.arrangement import Resources
    from revseq_cli.pipeline.assembly import Job
    from revseq_cli.pipeline.comparison import Differences, Tolerance

# A tensor of so many elements is its own sample; of a larger one, it has a few blocks of so many.
_SMALL, _BLOCK, _BLOCKS = 1 << 16, 1 << 13, 6
# How many of the first differences exclude what is read in other sizes than those of the output.
_MOST_PLACES = 10
_PROBES = 64
# So many wrong lines are read before whole pieces.
_FIRST_LINES = 4
# How many explanations are told, and how many are held against all of a large tensor.
_MOST_TOLD, _MOST_VERIFIED = 3, 4
# What explains less of the wrong lines is no explanation.
_LEAST_PART = 0.5


def unchanged(source: Source) -> Source:
    """How most outputs are seen."""
    return source


class Piece(NamedTuple):
    """A part of the sample: what is there in `a`, what is right, and which of its lines differ."""

    region: Region
    a: NDArray[Any]
    right: NDArray[Any]
    wrong: NDArray[np.bool_]


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
        return compared("compare", self, tolerance, max(first, _MOST_PLACES), self.job)

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
        lines = of_lines(spots, wrong)
        return Diagnosis(lines, _Search(self, found, tolerance, spots).mistakes())


def lengths_held(lengths: NDArray[Any]) -> NDArray[np.int64]:
    """Lengths as signed integers with which to compute: of the largest ones the low 62 bits, and one above."""
    wide = native(lengths).astype(np.uint64)
    top = np.uint64(1 << 62)
    return np.where(wide >= top, (wide & (top - np.uint64(1))) | top, wide).astype(np.int64)


class _Search:
    """The search for what explains a wrong output."""

    def __init__(
        self,
        oracle: Oracle,
        found: Differences,
        tolerance: Tolerance | None,
        spots: Spots,
    ) -> None:
        self.oracle, self.found, self.tolerance, self.spots, self.lengths = (
            oracle,
            found,
            tolerance,
            spots,
            spots.lengths,
        )
        self.job, self.a, self.seen = oracle.job, oracle.a, oracle.seen
        self.size = self.job.values.sizes[self.job.axis]
        self.is_whole = self.a.desc.element_count <= _SMALL
        self.known: dict[bytes, tuple[int, int, int] | None] = {}
        self.full: dict[str, Candidate] = {}
        self.some: list[tuple[int, int, Candidate]] = []
        self.is_printed = self.seen is not unchanged

    def mistakes(self) -> tuple[Mistake, ...]:
        """The explanations, the simplest first; if none explains all lines, the one that explains most of them."""
        where = self.found.where
        full, some = self.full, self.some
        for candidate in candidates(self):
            if candidate.a is not None:
                if self._explains_moved(candidate, candidate.a):
                    _keep(full, candidate)
            elif (agreement := self._agreement(candidate)) is not None:
                explained, broken, wrong = agreement
                if explained == wrong and not broken:
                    _keep(full, candidate)
                elif explained >= _LEAST_PART * wrong and explained > 1:
                    some.append((explained, broken, candidate))
        if not self.is_whole:
            full, some = self._verified(full, some)
        if full:
            return _told(full, where.lines)
        return self._partial(some)

    @property
    def is_explained(self) -> bool:
        """Whether a candidate explains all lines of the sample."""
        return bool(self.full)

    def _partial(self, some: list[tuple[int, int, Candidate]]) -> tuple[Mistake, ...]:
        """What explains all wrong lines, and would change right ones as well; or the most of them, and no right one."""
        total, wrong = self.found.where.lines, np.asarray(self.found.where.wrong)
        for each in [each for explained, broken, each in some if broken and explained == total][:_MOST_VERIFIED]:
            (elsewhere,) = self._contradictions([each])
            if rule := rule_among(self.spots, wrong, elsewhere):
                return (Mistake(each.id, f"only in lines {rule.text}: {each.text}", total),)
        parts = [(explained, each) for explained, broken, each in some if not broken]
        if not parts:
            return ()
        explained, best = max(parts, key=lambda each: (each[0], -each[1].cost))
        return (Mistake(best.id, f"{best.text}; this explains {explained:,} of {total:,} wrong lines", explained),)

    # The sample

    @functools.cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """The sample: all of a small tensor, or blocks where it differs, with the first and the last difference."""
        sizes, axis = self.job.values.sizes, self.job.axis
        regions: list[Region] = [tuple(slice(0, size) for size in sizes)]
        if not self.is_whole:
            plan = make_plan(sizes, axis, most_elements=_BLOCK, cut_alignment=(1,) * len(sizes))
            lines = np.argwhere(np.asarray(self.found.where.wrong))
            chosen = lines[np.linspace(0, len(lines) - 1, _BLOCKS).astype(int)].tolist()
            places = [*self.found.indices[:1].tolist(), list(self.found.where.last), *chosen]
            starts = [[i // extent * extent for i, extent in zip(at, plan.extents, strict=True)] for at in places]
            ends = zip(plan.extents, sizes, strict=True)
            extents = [(extent, size) for extent, size in ends]
            regions = [
                tuple(slice(i, min(i + extent, size)) for i, (extent, size) in zip(start, extents, strict=True))
                for start in dict.fromkeys(map(tuple, starts))
            ]
        return tuple(map(self._piece, regions))

    def _piece(self, region: Region) -> Piece:
        a, right = self.a.read_task(region).read(), self.oracle.right.read_task(region).read()
        wrong = np.asarray(_differ(a, right, self.tolerance).any(self.job.axis, keepdims=True))
        return Piece(region, a, right, wrong)

    @functools.cached_property
    def rows(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.intp], NDArray[np.bool_]] | None:
        """Whole lines of the sample, of the input and of `a`, their numbers, and whether they are wrong."""
        axis = self.job.axis
        pieces = [each for each in self.pieces if each.a.shape[axis] == self.size]
        if not pieces:
            return None
        numbers = np.arange(self.lengths.size).reshape(self.lengths.shape)
        values = [self.job.values.read_task(each.region).read() for each in pieces]
        return (
            np.concatenate([_rows(each, axis) for each in values]),
            np.concatenate([_rows(each.a, axis) for each in pieces]),
            np.concatenate([numbers[lengths_of(each.region, axis)].reshape(-1) for each in pieces]),
            np.concatenate([each.wrong.reshape(-1) for each in pieces]),
        )

    @functools.cached_property
    def probes(self) -> tuple[NDArray[Any], ...]:
        """Some wrong elements of the sample: the row of each, its index there, what stands there, and what is right."""
        x, a, numbers, _ = self.rows or _NO_ROWS
        n = np.minimum(self.lengths.reshape(-1)[numbers], self.size)[:, None]
        j = np.arange(self.size)
        right = np.take_along_axis(x, np.where(j < n, n - 1 - j, j), 1)
        row, at = np.nonzero(self.differ(a, right))
        chosen = np.linspace(0, len(row) - 1, min(_PROBES, len(row))).astype(int) if len(row) else np.empty(0, int)
        row, at = row[chosen], at[chosen]
        return row, at, a[row, at], right[row, at]

    @functools.cached_property
    def reversed_by(self) -> list[tuple[int, int]]:
        """For wrong lines, the given length, and the one that they look reversed by: one behind their last change."""
        if self.rows is None:
            return []
        x, a, numbers, wrong = self.rows
        changed = self.differ(x, a)
        ends = np.where(changed.any(1), self.size - changed[:, ::-1].argmax(1), 0)
        given = self.lengths.reshape(-1)[numbers]
        return [*zip(given[wrong].tolist(), ends[wrong].tolist(), strict=True)]

    def numbers_tried(self, name: str) -> list[int]:
        """The numbers that k may be for relations of lengths and places, the likely ones first."""
        pairs, size = self.reversed_by, self.size
        if name == "step":
            counts = Counter(abs(min(n, size) - m) for n, m in pairs) + Counter(abs(n - m) for n, m in pairs)
            return list(dict.fromkeys([1, *(k for k, _ in counts.most_common(4) if k)]))
        if name == "value":
            counts = Counter(m for _, m in pairs)
            likely = [*(m for m, _ in counts.most_common(3)), *sorted(counts)[-1:]]
            return list(dict.fromkeys(m for m in likely if m < size))
        if name == "given":
            given = self.lengths[self.found.where.wrong] if self.found.where.wrong is not None else self.lengths
            low, high = int(given.min()), int(given.max())
            return list(dict.fromkeys(min(k, size) for k in (high + 1, low, max(low - 1, 0), high)))
        return _TRIED.get(name, [0])

    # How candidates agree with it

    def differ(self, a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.bool_]:
        """Which elements differ; where `a` is printed, by more than its digits."""
        if self.is_printed:
            return ~np.isclose(a.astype(np.float64), b.astype(np.float64), rtol=1e-4, atol=1e-7, equal_nan=True)
        return _differ(a, b, self.tolerance)

    def is_likely(self, elements: NDArray[Any]) -> bool:
        """Whether these elements stand at a good part of the probes."""
        return bool(np.count_nonzero(self.differ(self.probes[2], elements)) <= (1 - _LEAST_PART) * len(elements))

    def _agreement(self, candidate: Candidate) -> tuple[int, int, int] | None:
        """How many wrong lines of the sample it explains, how many right ones it breaks, and how many are wrong."""
        if candidate.key not in self.known or not candidate.key:
            self.known[candidate.key] = self._measured(candidate)
        return self.known[candidate.key]

    @functools.cached_property
    def first_lines(self) -> tuple[Piece, ...]:
        """The first wrong line of some pieces of a large tensor, which is read sooner than a piece."""
        found = []
        for piece in () if self.is_whole else self.pieces[:_FIRST_LINES]:
            place = np.unravel_index(int(piece.wrong.argmax()), piece.wrong.shape)
            starts = [part.start + int(i) for part, i in zip(piece.region, place, strict=True)]
            region = [slice(i, i + 1) for i in starts]
            region[self.job.axis] = piece.region[self.job.axis]
            found.append(self._piece(tuple(region)))
        return tuple(found)

    def _explains_one(self, candidate: Candidate) -> bool:
        """Whether it explains one of the first lines, if there are any."""
        output = self.seen(candidate.output)
        try:
            return not self.first_lines or any(
                not _differ(each.a, output.read_task(each.region).read(), self.tolerance).any()
                for each in self.first_lines
            )
        except UnreadableError:
            return False

    def _measured(self, candidate: Candidate) -> tuple[int, int, int] | None:
        explained = broken = wrong = 0
        if not self._explains_one(candidate):
            return None
        for piece in self.pieces:
            try:
                given = self.seen(candidate.output).read_task(piece.region).read()
            except UnreadableError:
                return None
            differ = _differ(piece.a, given, self.tolerance).any(self.job.axis, keepdims=True)
            explained += int(np.count_nonzero(piece.wrong & ~differ))
            broken += int(np.count_nonzero(~piece.wrong & differ))
            wrong += int(np.count_nonzero(piece.wrong))
            if explained < _LEAST_PART * wrong:
                return None
        return explained, broken, wrong

    def _explains_moved(self, candidate: Candidate, a: Source) -> bool:
        """Whether an output in other sizes or places is this `a`: first at some elements, then everywhere."""
        sizes = candidate.output.sizes
        for place in self.found.indices[:_MOST_PLACES]:
            number = int(np.ravel_multi_index(tuple(place), self.a.sizes))
            region = tuple(slice(int(i), int(i) + 1) for i in np.unravel_index(number, sizes))
            try:
                if _differ(a.read_task(region).read(), candidate.output.read_task(region).read(), self.tolerance).any():
                    return False
            except UnreadableError:
                return False
        arrangement = self.oracle.arrangement
        most = arrangement.plan.block_elements
        plan = make_plan(sizes, candidate.axis, most_elements=most, cut_alignment=(1,) * len(sizes))
        try:
            pair = Pair(a, candidate.output, arrangement._replace(plan=plan))
            return not compared("find the mistake", pair, self.tolerance).count
        except UnreadableError:
            return False

    def _verified(
        self, full: dict[str, Candidate], some: list[tuple[int, int, Candidate]]
    ) -> tuple[dict[str, Candidate], list[tuple[int, int, Candidate]]]:
        """The same for all of a large tensor, in one pass; if nothing explains it, what explains a part, in another."""
        moved = {key: each for key, each in full.items() if each.a is not None}  # these are verified
        chosen = sorted((each for each in full.values() if each.a is None), key=lambda each: each.cost)
        of_all = bool(chosen)
        if not of_all:
            chosen = [each for _, _, each in sorted(some, key=lambda it: (it[1], -it[0]))]
        chosen = chosen[:_MOST_VERIFIED]
        wrong = self.found.where.wrong
        if not chosen or wrong is None:
            return moved, []
        found = [
            (int(np.count_nonzero(wrong & ~each)), int(np.count_nonzero(each & ~wrong)), candidate)
            for each, candidate in zip(self._contradictions(chosen), chosen, strict=True)
        ]
        total = self.found.where.lines
        exact = {each.id: each for explained, broken, each in reversed(found) if explained == total and not broken}
        exact = {each.id: each for each in chosen if exact.get(each.id) is each}
        parts = [each for each in found if each[0] >= _LEAST_PART * total]
        if of_all and not (exact or parts):
            return self._verified(moved, some)
        return {**exact, **moved}, parts

    def _contradictions(self, chosen: list[Candidate]) -> list[NDArray[np.bool_]]:
        """For each candidate, which lines of the whole tensor are not what it has there: one pass for all."""
        found = [np.zeros(self.lengths.shape, np.bool_) for _ in chosen]
        axis = self.job.axis

        def tasks() -> Iterator[Task]:
            for region in self.oracle.arrangement.plan:
                outputs = [self.seen(each.output).read_task(region) for each in chosen]
                yield Task(partial(_contradicted, self.tolerance, axis, outputs), (self.a.read_task(region),), region)

        for region, lines in completed("find the mistake", tasks(), self.oracle.arrangement, self.a):
            for each, part in zip(found, lines, strict=True):
                each[lengths_of(region, axis)] |= part
        return found


_NO_ROWS = (np.empty((0, 1)), np.empty((0, 1)), np.empty(0, np.intp), np.empty(0, np.bool_))
# Numbers that are tried for k where nothing is read from the output.
_TRIED = {
    "small": [1, 2, 3, 4],
    "either": [1, -1, 2, -2, 3, -3, 4, -4],
    "divisor": [2, 3, 4, 5, 8, 10, 16, 32, 64],
    "powers": [2, 4, 8, 16, 32, 64, 128],
    "bits": [32, 31, 16, 15, 8, 7, 6, 5, 4, 3],
    "words": [16, 32, 64],
    "wrap": [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 32768, 65536],
}


def _keep(full: dict[str, Candidate], candidate: Candidate) -> None:
    """Add it, unless a simpler one has its id."""
    if candidate.id not in full or candidate.cost < full[candidate.id].cost:
        full[candidate.id] = candidate


def _told(full: dict[str, Candidate], lines: int) -> tuple[Mistake, ...]:
    """The simplest explanations; where they are many, that the lines are too few to tell."""
    by_cost = sorted(full.values(), key=lambda each: each.cost)
    most = by_cost[0].cost if by_cost[0].cost < 0 else max(1, by_cost[0].cost)
    told = [Mistake(each.id, each.text, lines) for each in by_cost if each.cost <= most]
    if len(told) > _MOST_TOLD:
        others = len(told) - _MOST_TOLD + 1
        text = f"or one of {others} others: the lines are too few, or too much alike, to tell"
        told[_MOST_TOLD - 1 :] = [Mistake("too-few-lines", text, lines)]
    return tuple(told)


def _rows(values: NDArray[Any], axis: int) -> NDArray[Any]:
    """The lines of a block as the rows of a matrix."""
    turned = np.moveaxis(native(values), axis, -1)
    return np.ascontiguousarray(turned).reshape(-1, turned.shape[-1])


def _differ(a: NDArray[Any], b: NDArray[Any], tolerance: Tolerance | None) -> NDArray[np.bool_]:
    """Which elements differ."""
    if tolerance is None:
        return np.asarray(bits(a) != bits(b))
    different = np.zeros(a.size, np.bool_)
    different[located(a, b, tolerance, 0)[1]] = True
    return different.reshape(a.shape)


def _contradicted(
    tolerance: Tolerance | None, axis: int, outputs: list[ReadTask], a: NDArray[Any]
) -> list[NDArray[np.bool_]]:
    """For each output, which lines of a block are not what it has there; they are computed one after the other."""
    return [_lines_that_differ(output, tolerance, axis, a) for output in outputs]


def _lines_that_differ(output: ReadTask, tolerance: Tolerance | None, axis: int, a: NDArray[Any]) -> NDArray[np.bool_]:
    try:
        return np.asarray(_differ(a, output.read(), tolerance).any(axis, keepdims=True))
    except UnreadableError:
        return np.ones([1 if d == axis else size for d, size in enumerate(a.shape)], np.bool_)


@contextlib.contextmanager
def opened(a: Source, job: Job, resources: Resources, seen: Callable[[Source], Source] = unchanged) -> Iterator[Oracle]:
    """The oracle for a tensor of the output's sizes; EngineError if the smallest block needs more memory than there is.

    Tensors that are slow to read anywhere are unpacked into the temporary folder.
    """
    arrangement = arrange_oracle(job, a, resources)
    with (
        random_access(job, "", arrangement) as ready,
        a.random_access() as whole,
        spooled(whole, "", arrangement) as ready_a,
    ):
        if a.desc.element_count <= _SMALL:  # it is read again and again
            ready_a, ready = MemorySource.of(ready_a), replace(ready, values=MemorySource.of(ready.values))
        yield Oracle(ready_a, seen(reversed_output(ready)), arrangement, ready, seen)
