"""What somebody's wrong output of a reversal is: which of its lines are wrong, and what was done in its place.

All of a small tensor is looked at, or some lines of a larger one. An idea is tried on a few wrong elements, with all
numbers that may be in its sentence at once, and then on all. It is told if it explains all that is wrong and breaks
nothing that is right; or with a rule that says where it is so; or, if it explains most of the wrong lines and breaks
nothing, with their count.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import lgamma, log, log2, prod
from typing import Any, NamedTuple

import numpy as np

from revseq_cli.core import dtypes
from revseq_cli.core.dtypes import bits, native
from revseq_cli.core.tensors import braced
from revseq_cli.formats.contract import Source, Storage
from revseq_cli.formats.raw import MemorySource
from revseq_cli.operator import kernel
from revseq_cli.pipeline.folds import Differences, Tolerance, unequal
from revseq_cli.pipeline.jobs import Job
from revseq_cli.pipeline.passes import Pair, compared, made_ready, reversed_output, spooled
from revseq_cli.pipeline.plan import Resources, plan_reversal
from revseq_cli.porting.hypotheses import (
    Array,
    Idea,
    Lines,
    Places,
    changes,
    ideas,
    number_of,
    orders,
    place_of,
    put,
    quantities,
)
from revseq_cli.text.numbers import render

# Elements of a sample at most, and of one of long lines; so many as are few in any memory; what each takes in it.
_MOST, _MOST_LONG, _FEW, _BYTES = 1 << 18, 1 << 20, 1 << 12, 256
_PROBES, _MOST_NUMBERS = 64, 6  # wrong elements that are asked first; numbers of a sentence that are tried on all
_MOST_NAMED = 6  # batches or lines, exchanges, other lengths
_LEAST_PART, _LEAST_WITNESSES = 0.7, 3  # what explains fewer of the wrong lines, or fewer independent ones, is not told
# Bits by which an idea must be better than chance; a rule; and a rule that goes with one of a thousand ideas.
_IDEA_BITS, _RULE_BITS, _SOUGHT_BITS = 16.0, 6.0, 16.0
_HUGE = 1 << 62  # in place of longer lengths


class WrongLines(NamedTuple):
    """How many lines are wrong `of` how many, and which, in words: empty where no simple rule is known."""

    count: int  # type: ignore[assignment] # a tuple has a method of that name
    of: int
    rule: str = ""


class Mistake(NamedTuple):
    """What was done, and how many of the wrong lines that explains."""

    text: str
    lines: int


class Diagnosis(NamedTuple):
    """How a tensor differs from the output of a job, which of its lines are wrong, and what explains them.

    The `pair` can be read in the context of `diagnosed`.
    """

    pair: Pair
    differences: Differences
    lines: WrongLines
    mistakes: tuple[Mistake, ...]


@contextlib.contextmanager
def diagnosed(
    a: Source, job: Job, tolerance: Tolerance | None, resources: Resources, first: int = 1
) -> Iterator[Diagnosis | None]:
    """Compare a tensor with the output of a job; None if it has other sizes or another data type, which none explains.

    The `first` differences are kept. What stands there is told before what was done; of lines that are too long for
    the memory, only which are wrong. EngineError where the smallest block needs more memory than there is.
    """
    undone, like, job = _undone(a, job, tolerance, resources.memory)
    if like.desc != job.values.desc:
        yield None
        return
    plan = plan_reversal(job, resources, like, like.dtype.itemsize)
    with made_ready(job, "", plan) as ready, spooled(like, "", plan) as ready_a:
        pair = Pair(ready_a, reversed_output(ready), plan, ready)
        found = compared("compare", pair, tolerance, first)
        wrong = found.lines
        rule, mistakes = "", [Mistake(undone, job.lengths.desc.element_count)] if undone else []
        if found.count and wrong is not None:
            lengths = native(ready.lengths.read_task(tuple(slice(0, size) for size in wrong.shape)).read())
            table = np.minimum(lengths.astype(np.uint64), np.uint64(_HUGE)).astype(np.int64)
            for d in range(table.ndim):
                if (table == table.take([0], d)).all():
                    table = table.take([0], d)
            lines = Lines(job.values.sizes, job.axis, table, job.given_lengths.dtype.itemsize)
            with np.errstate(all="ignore"):
                rule = _rule_of_lines(lines, wrong)
                if search := _sample(lines, wrong, pair, ready, tolerance, resources.memory):
                    mistakes += [Mistake(one.text, one.count) for one in _told(search)]
        of = WrongLines(found.line_count, job.lengths.desc.element_count, rule)
        yield Diagnosis(pair, found, of, tuple(mistakes))


def _undone(a: Source, job: Job, tolerance: Tolerance | None, memory: int) -> tuple[str, Source, Job]:
    """What was done to A besides, A without it, and the job that is then right for it; "" if A is like the output.

    A tensor that is too large for the memory stays as it is.
    """
    values, axis = job.values, job.axis
    if a.desc == values.desc or 8 * (a.desc.total_bytes + values.desc.total_bytes) > memory:
        return "", a, job
    array, x, n = native(a.read()), native(values.read()), job.lengths.read()
    size, longest = x.shape[axis], n.max(initial=0)
    if array.dtype == x.dtype and longest < size and array.shape == put(x.shape, axis, longest):
        cut = MemorySource(values.name, x.take(range(longest), axis), values.storage)
        text = f"along axis {axis} the output is cut to the longest length, {longest} of {size}"
        return text, a, replace(job, values=cut)
    saved = ""
    if array.dtype != x.dtype:
        saved = f"{values.desc.data_type.name} is saved as {a.desc.data_type.name}"
        with np.errstate(all="ignore"):
            cast = array.astype(x.dtype) if {array.dtype.kind, x.dtype.kind} <= {*"fiu"} else array
        if cast.dtype == x.dtype and (cast.astype(array.dtype) == array).all():
            array = cast
        elif array.itemsize == x.itemsize:
            saved, array = f"{saved}, byte for byte", array.view(x.dtype)
        else:
            return "", a, job
    readings = {saved: array} if array.shape == x.shape else {}
    if array.size == x.size and array.shape != x.shape:
        if array.ndim == 1 or [n for n in array.shape if n > 1] == [n for n in x.shape if n > 1]:
            readings[f"sizes {braced(x.shape)} are saved as {braced(array.shape)}"] = array.reshape(x.shape)
        for order, other in orders(x.shape):
            if array.shape == other:
                turned = array.transpose(np.argsort(order))
                readings[f"the axes of the output are in the order {braced(order)}"] = turned
    right = kernel.reverse(x, n, axis)
    counts = {words: int(unequal(one, right, tolerance).sum()) for words, one in readings.items()}
    best = min(counts, key=counts.__getitem__, default="")
    if not counts or (counts[best] == x.size and saved):  # integers are no bytes of floats
        return "", a, job
    done = ", and ".join(dict.fromkeys(filter(None, (saved, best))))
    return done, MemorySource(a.name, readings[best], Storage("memory", {}), a.identity), job


def _sample(
    lines: Lines, wrong: Array, pair: Pair, job: Job, tolerance: Tolerance | None, memory: int
) -> Search | None:
    """All of a tensor, or of a large one some wrong lines, those beside them, and right ones; None if none fits."""
    shape, size, most = lines.shape, lines.shape[lines.axis], max(_FEW, memory // _BYTES)
    index = [np.arange(size) for size in shape]
    if prod(shape) > min(_MOST, most):
        # Of many lines, a quarter tells as much; of the longest, one is looked at.
        room = max(min(_MOST, most) // size // 4, min(max(1, _MOST_LONG // size), most // size))
        if not room:
            return None
        some = np.argwhere(wrong)
        some = some[np.linspace(0, len(some) - 1, 12).astype(np.intp)]
        others = sorted({*range(len(shape))} - {lines.axis}, key=lambda d: shape[d])
        for left, d in enumerate(others):
            count = min(max(1, int(room ** (1 / (len(others) - left)))), shape[d])
            beside = (some[:: 1 + 48 // count, d, None] + np.array([0, -1, 1])).ravel()
            spread = np.linspace(0, shape[d] - 1, count).astype(np.intp)
            chosen = dict.fromkeys(i for i in [*beside, *spread, *some[:, d]] if 0 <= i < shape[d])
            index[d] = np.array(sorted([*chosen][:count]))
            room //= len(index[d])
    runs = [np.split(np.arange(len(own)), np.flatnonzero(np.diff(own) != 1) + 1) for own in index]

    def read(source: Source) -> Array:
        out = np.empty([len(own) for own in index], source.dtype.newbyteorder("="))
        for places in itertools.product(*runs):  # each run of adjacent indices is read at once
            ends = [(int(own[run[0]]), int(own[run[-1]]) + 1) for own, run in zip(index, places, strict=True)]
            out[np.ix_(*places)] = native(source.read_task(tuple(itertools.starmap(slice, ends))).read())
        return dtypes.numbers(out) if dtypes.has_numbers(out.dtype) else out

    return Search(lines, index, tolerance, *map(read, (job.values, pair.a, pair.right)))


# Which lines or elements are wrong. A rule is a quantity, such as the length, and a test, such as "is above 7". Lines
# that go wrong together, as those of a batch do, are one witness: what so few could fit by chance is no rule.


def _rule_of_lines(lines: Lines, wrong: Array) -> str:
    """Which of all lines of the tensor are wrong, in words; "" if no simple ones are so but by chance.

    A line of one element or none looks right whatever happens to it.
    """
    at = np.ix_(*map(np.arange, wrong.shape))
    visible = ~wrong & (np.broadcast_to(lines.length(at), wrong.shape) > 1)
    if wrong.all() or not visible.any():
        return "all lines" if wrong.all() else "lines whose length is above 1"
    for others, but in ((~wrong, ""), (visible, ", but for lines whose length is 0 or 1")):
        told = _rule(quantities(lines, at, of_lines=True), wrong, others, _RULE_BITS) or _names(lines, wrong, others)
        if told:
            return told + but
    return ""


def _names(lines: Lines, wrong: Array, others: Array) -> str:
    """The indices of one dimension, or the lines, that have all that is wrong and nothing of the others, if few."""
    for d, size in enumerate(wrong.shape):
        bad, good = (mask.any(tuple({*range(wrong.ndim)} - {d})) for mask in (wrong, others))
        if size > 1 and not (bad & good).any() and bad.sum() <= min(_MOST_NAMED, size - 1):
            return f"{lines.named(d, np.flatnonzero(bad).tolist())} of {size}"
    if wrong.ndim < 3 or wrong.sum() > _MOST_NAMED:
        return ""
    return f"lines {', '.join(str(np.delete(place, lines.axis).tolist()) for place in np.argwhere(wrong))}"


def _rule(
    rows: list[tuple[int, str, Any]], wrong: Array, others: Array, bits: float, *, has_numbers: bool = True
) -> str:
    """The simplest words for all that is wrong and nothing of the others; "" if none is so many bits above chance.

    If it has no numbers, which would be those of a sample, only what needs none is tried.
    """
    count, rest = _witnesses(wrong, others)
    best, rule = (lgamma(count + rest + 1) - lgamma(count + 1) - lgamma(rest + 1)) / log(2) - bits, ""
    for cost, text, quantity in rows if best > 0 else ():
        w, r = (np.broadcast_to(quantity, wrong.shape)[mask] for mask in (wrong, others))
        if w.dtype == bool:
            tests = [(0, 0, "", w.all() and not r.any())]
        else:
            low, high, step = int(w.min()), int(w.max()), int(np.gcd.reduce(w - w.min()))
            below, above, is_apart = r[r < low], r[r > high], not ((r >= low) & (r <= high)).any()
            tests = [
                (1, 0, f"is {'odd' if low % 2 else 'even'}", step % 2 == 0 and not (r % 2 == low % 2).any()),
                (0, 1, f"is {low}", is_apart and low == high),
                (0, 1, f"is above {below.max() if below.size else low}", is_apart and not above.size),
                (0, 1, f"is below {above.min() if above.size else high}", is_apart and not below.size),
                (1, 2, f"is {low} to {high}", is_apart),
                (1, 1, f"has the remainder {low % max(step, 1)} by {step}",
                 step > 1 and not (r % step == low % step).any()),
            ]  # fmt: skip
        for base, share, phrase, holds in tests if has_numbers else tests[:1]:
            some = np.concatenate([values[:: 1 + len(values) // 2048] for values in (w, r)])
            total = cost + base + (share and share * log2(1 + len(np.unique(some))))  # for each bit of its numbers
            if holds and total < best:
                best, rule = total, f"{text} {phrase}".strip()
    return rule


def _witnesses(wrong: Any, others: Any) -> tuple[int, int]:
    """How many independent ones of both there are: in a dimension along which all agree, there is one."""
    for d in range(wrong.ndim):
        narrow, narrow_others = (np.asarray(mask.any(d, keepdims=True)) for mask in (wrong, others))
        if not (narrow & narrow_others).any():
            wrong, others = narrow, narrow_others
    return int(np.count_nonzero(wrong)), int(np.count_nonzero(others))


# What was done


class Explanation(NamedTuple):
    """A sentence with its cost, and how many wrong lines it explains.

    `how`: "all" that is wrong is explained; or it is so "where" a rule says; or in what is wrong "alone"; or the
    lengths are "seen" by which lines are reversed; or a "part" is explained. What costs less than 1 is no guess, but
    stands there.
    """

    cost: float
    text: str
    count: int  # type: ignore[assignment] # a tuple has a method of that name
    how: str


def _told(search: Search) -> list[Explanation]:
    """What stands there, and then the simplest sentence."""
    found = [one for one in (*search.exchanges(), *search.other_lengths(), *search.explanations()) if one]
    if not any(one.how == "all" for one in found):
        found += search.before_padding()
    found.sort(key=lambda one: (("all", "where", "alone", "seen", "part").index(one.how), -one.count, one.cost))
    facts, guesses = [one for one in found if one.cost < 1], [one for one in found if one.cost >= 1]
    plain = [one for one in facts if one.cost < 0.5]
    if any(one.how == "all" for one in plain):
        return plain
    if guesses and guesses[0].how == "all":  # all else is the same in other words, of these data
        facts = [one for one in facts if one.how != "seen"]
        return [*facts, guesses[0]] if not facts or guesses[0].cost <= 1 else facts
    return facts if plain or any(one.count == search.count for one in facts) else [*facts, *guesses[:1]]


def _listed(texts: list[str], separator: str) -> str:
    more = len(texts) - _MOST_NAMED
    return separator.join([*texts[:_MOST_NAMED], *([f"and {more} more"] if more > 0 else [])])


@dataclass(eq=False)
class Search:
    """The search for what made elements of `got` from the input x, where `right` is what belongs there.

    They have the indices `index` in the tensor, which has these lines. What is `skipped` counts as right for any idea.
    """

    lines: Lines
    index: list[Array]
    tolerance: Tolerance | None
    x: Array
    got: Array
    right: Array
    skipped: Array | bool = False

    def __post_init__(self) -> None:
        self.axis, self.at = self.lines.axis, np.ix_(*self.index)
        # The sign of a zero in place of a number tells nothing: of x * 0, it is that of x.
        if self.got.dtype.kind in "fc":
            self.got = np.where((self.got == 0) & (self.right != 0), np.zeros((), self.got.dtype), self.got)
        self.wrong = ~self.same(self.got, self.right)
        self.wrong_lines = self.wrong.any(self.axis, keepdims=True)
        self.count, self.is_whole = int(np.count_nonzero(self.wrong_lines)), self.x.shape == self.lines.shape
        own = self.lines.length(put(self.at, self.axis, np.zeros((1,) * self.x.ndim, np.intp)))
        self.own = np.broadcast_to(own, self.wrong_lines.shape)
        chosen = np.flatnonzero(self.wrong)
        chosen = chosen[np.linspace(0, max(len(chosen) - 1, 0), min(len(chosen), _PROBES)).astype(np.intp)]
        self.probes = [own[i][:, None] for own, i in zip(self.index, place_of(chosen, self.x.shape), strict=True)]
        self.there, self.belongs = self.got.reshape(-1)[chosen], self.right.reshape(-1)[chosen]
        there = bits(self.got[self.wrong])
        self.is_constant = len(there) > 1 and bool((there == there[0]).all())

    def read(self, values: Array, at: Places) -> tuple[Array, Any]:
        """The elements of `values` at places, zeros outside of the tensor; and which are not in the sample."""
        inside, unknown, near = np.ones((), np.bool_), np.zeros((), np.bool_), []
        for i, size, own in zip(at, self.lines.shape, self.index, strict=True):
            inside = inside & (i >= 0) & (i < size)
            if len(own) < size:
                nearest = np.searchsorted(own, i).clip(max=len(own) - 1)
                unknown, i = unknown | (own[nearest] != i), nearest
            near.append(i)
        number = np.where(inside & ~unknown, number_of(near, values.shape), 0)
        return np.where(inside, values.reshape(-1)[number], np.zeros((), values.dtype)), unknown & inside

    def same(self, a: Array, b: Array, *, near: bool = False) -> Array:
        """Which elements are equal; or `near`, but for the rounding of a computation."""
        a, b = np.broadcast_arrays(a, b)
        equal = bits(a) == bits(b) if self.tolerance is None else ~unequal(a, b, self.tolerance)
        if near and a.dtype.kind in "fc":
            rounding = 8 * float(np.finfo(a.dtype).eps)
            atol = rounding * float(np.abs(a[np.isfinite(a)]).max(initial=0))
            equal |= np.isclose(a, b, rtol=rounding, atol=atol, equal_nan=True)
        return np.asarray(equal)

    def explanations(self) -> Iterator[Explanation | None]:
        """What explains all that is wrong, or most of it."""
        if self.is_constant:
            text = f"the output is only {render(self.there[:1])[0]}"
            yield self._judged(0, text, self.wrong | self.same(self.got, self.there[0]))
        some = bits(self.x.reshape(-1)[:: 1 + self.x.size // 4096])
        pairs = max(1, len(some) * (len(some) - 1))
        alike = sum(count * (count - 1) for count in Counter(some.tolist()).values()) / pairs
        is_evident = len(self.there) * -log2(max(alike, 2.0**-_IDEA_BITS)) > _IDEA_BITS  # no chance by equal elements
        for idea in ideas(self.lines):
            if is_evident or not idea.cost:
                yield self._of_idea(idea)
        if self.x.dtype.kind in "fiuc":
            near = not self.same(self.there, self.belongs, near=True).all()  # else what is wrong is a rounding, too
            wrong = np.flatnonzero(self.wrong)[:: 1 + np.count_nonzero(self.wrong) // 4096]
            for cost, text, change in changes(self.x, *(a.reshape(-1)[wrong] for a in (self.got, self.right))):
                if self.same(self.there, change(self.belongs), near=near).mean() >= _LEAST_PART:
                    yield self._judged(cost, text, self.same(self.got, change(self.right), near=near))
            added = self.same(self.got, self.right + self.x, near=near)
            yield self._judged(1, "the input is added to what is right", added)

    def _of_idea(self, idea: Idea) -> Explanation | None:
        """What an idea explains, with the numbers for which it does."""
        least = next((k for mark, k in (("{K}", 2), ("{N}", 1), ("{", -_HUGE)) if mark in idea.text), 0)
        numbers = self._numbers[self._numbers >= least] if least else np.zeros(1, np.int64)
        for step in (8, 1):  # few probes rule out most numbers
            values, unknown = self.read(self.x, idea.place([i[::step] for i in self.probes], numbers[None]))
            known = np.broadcast_to(~unknown, (len(values), len(numbers)))
            counts, fits = known.sum(0), (self.same(self.there[::step, None], values) & known).sum(0)
            enough = (fits >= _LEAST_PART * counts - (step > 1)) & (2 * counts >= len(values))
            whole, numbers = numbers[enough & (fits == counts)], numbers[enough]
            if not len(numbers):
                return None
        found = {}
        for k in whole[:_MOST_NUMBERS].tolist() or numbers[:1].tolist():
            values, unknown = self.read(self.x, idea.place(self.at, k))
            agree = self.same(self.got, values) | unknown
            if one := self._judged(idea.cost, idea.worded(k), agree, is_fitted=bool(least)):
                found[k] = one
        if exact := [k for k, one in found.items() if one.how == "all"]:
            one, text = found[exact[0]], idea.worded(*exact)
            cost = idea.cost + (min(map(abs, exact)) > 1)
            return one._replace(cost=cost, text=one.text.replace(idea.worded(exact[0]), text))
        return next(iter(found.values()), None)

    def _judged(self, cost: float, text: str, agree: Array, *, is_fitted: bool = False) -> Explanation | None:
        """How an output explains what is wrong that agrees with it in these elements, if it does."""
        agree = agree | self.skipped
        explained = np.asarray(self.wrong_lines & (agree | ~self.wrong).all(self.axis, keepdims=True))
        broken = ~agree & ~self.wrong
        broken_lines = broken.any(self.axis, keepdims=True)
        if not explained[self.wrong_lines].all():
            explained &= ~broken_lines
            count = int(np.count_nonzero(explained))
            there = bits(self.got[np.broadcast_to(explained, self.wrong.shape)])
            if count < _LEAST_PART * self.count or cost > 1 or (broken_lines & ~self.wrong_lines).any():
                return None
            if _witnesses(explained, ~explained)[0] < _LEAST_WITNESSES or (there == there[0]).all():
                return None
            return Explanation(max(cost, 1), f"{text}; {self._share(count)}", count, "part")
        all_of = "" if self.is_whole else f"; this explains all {self.count:,} sampled wrong lines"
        if not broken.any():
            return Explanation(cost, text + all_of, self.count, "all")
        if cost and self.is_constant:
            return None
        enough = _witnesses(explained, ~explained)[0] >= _LEAST_WITNESSES
        enough = enough and not (is_fitted and len(np.unique(self.own[self.wrong_lines])) < _LEAST_WITNESSES)
        where, how = "the wrong lines alone", "alone"
        if (broken_lines & self.wrong_lines).any() or not (enough or not cost):
            rows, bits_above = quantities(self.lines, self.at, of_lines=False), _SOUGHT_BITS if cost else _RULE_BITS
            rule = _rule(rows, self.wrong, broken, bits_above, has_numbers=self.is_whole)
            if not rule and cost:
                return None
            where, how = (rule, "where") if rule else ("the wrong elements alone", "alone")
        return Explanation(cost + (cost > 0), f"{text}, in {where}{all_of}", self.count, how)

    def before_padding(self) -> Iterator[Explanation]:
        """What explains all that is wrong before the length, where a mask has left one value behind it."""
        behind = np.broadcast_to(self.at[self.axis] >= self.own, self.x.shape)
        rest = self.got[behind]
        is_filled = len(rest) and (bits(rest) == bits(rest[:1])).all()
        if is_filled and (self.wrong & ~behind).any() and (self.wrong & behind).any():
            masked = replace(self, got=np.where(behind, self.right, self.got), skipped=behind)
            for one in masked.explanations():
                if one and one.how == "all" and not masked.is_constant:
                    text = f"{one.text}; and the output is only {render(rest[:1])[0]} behind the length"
                    yield Explanation(one.cost + 1, text, self.count, "all")

    def other_lengths(self) -> Iterator[Explanation]:
        """By which lengths wrong lines are right, in place of their own."""
        values, unknown = self.read(self.x, self.lines.home(self.at, self._seen))
        explained = self.wrong_lines & (self.same(self.got, values) | unknown).all(self.axis, keepdims=True)
        n, m, count = self.own[explained], self._seen[explained], int(np.count_nonzero(explained))
        is_plain = not m.any() or (m == self.lines.shape[self.axis]).all()  # which is told in other words
        if not is_plain and count >= _LEAST_PART * self.count:
            pairs, counts = np.unique(np.stack([m, n], 1), axis=0, return_counts=True)
            pairs = pairs[np.argsort(-counts, kind="stable")]
            text = _listed([f"{m or '0 or 1'} in place of {n}" for m, n in pairs.tolist()], ", ")
            part = "" if count == self.count and self.is_whole else f"; {self._share(count)}"
            yield Explanation(0.5, f"lines are reversed by other lengths: {text}{part}", count, "seen")

    def exchanges(self) -> Iterator[Explanation]:
        """Which batches, or indices of other dimensions, hold what belongs in others, if all that are wrong do."""
        as_read, _ = self.read(self.got, self.lines.home(self.at))  # what was reversed, if lengths are right
        for d in (d for d, size in enumerate(self.wrong.shape) if d != self.axis and 1 < size < 1 << 10):
            wrong = np.flatnonzero(self.wrong_lines.any(tuple({*range(self.wrong.ndim)} - {d}))).tolist()
            name = [self.lines.named(d, [i]) for i in self.index[d].tolist()]
            for of, has, belong in (("", self.got, self.right), (" of the input", as_read, self.x)):
                here, there = ([slab.tobytes() for slab in np.moveaxis(array, d, 0)] for array in (has, belong))
                moved = {i: there.index(here[i]) for i in wrong if there.count(here[i]) == 1 and here[i] != there[i]}
                if len(moved) == len(wrong):
                    told = [f"{name[i]}{of} has what belongs in {name[k]}" for i, k in moved.items()]
                    if len(moved) == 2 and all(moved.get(k) == i for i, k in moved.items()):
                        told = [f"{self.lines.named(d, self.index[d][sorted(moved)].tolist())}{of} are exchanged"]
                    yield Explanation(0.5 if len(moved) <= _MOST_NAMED else 3, _listed(told, "; "), self.count, "all")
                    return

    def _share(self, count: int) -> str:
        return f"this explains {count:,} of {self.count:,} {'' if self.is_whole else 'sampled '}wrong lines"

    @cached_property
    def _seen(self) -> Array:
        """By which length each line looks reversed: one more than the last index at which it is not the input."""
        changed = ~self.same(self.got, self.x)
        last = changed.shape[self.axis] - np.flip(changed, self.axis).argmax(self.axis, keepdims=True)
        return np.where(changed.any(self.axis, keepdims=True), last, 0)

    @cached_property
    def _numbers(self) -> Array:
        """The numbers that k may be, the likely ones first: usual ones, sizes, and those by which elements moved."""
        shape, axis = self.lines.shape, self.axis
        s, n, m = shape[axis], self.own[self.wrong_lines], self._seen[self.wrong_lines]
        usual = [s, 1, -1, 2, -2, 3, -3, 4, -4, 256, 65536, 127, 255, s - 1, s + 1, *range(5, 11), 12, 24, 48, 96, 100]
        usual += [*(1 << np.arange(4, 16)), *shape, *(size // 2 for size in shape)]
        along = np.arange(s)[:: 1 + s // 4096]
        same = self.same(self.there[:, None], self.read(self.x, put(self.probes, axis, along[None]))[0])
        once = same.sum(1) == 1  # so that there is no doubt where the element was
        i, j, home = along[same.argmax(1)], self.probes[axis][:, 0], self.lines.home(self.probes)[axis][:, 0]
        moved = [values[once] for values in (i - home, home - i, i - j, j - i)]
        for observed in (m, m - n, m - np.minimum(n, s), n, n - 1, n + 1, *moved, i[once & (j == 0)] + 1):
            values, counts = np.unique(observed, return_counts=True)
            usual += [*values[np.argsort(-counts, kind="stable")[:6]], *values[:1], *values[-1:]]
        return np.array([*dict.fromkeys(int(k) for k in usual if k and abs(k) < _HUGE)])
