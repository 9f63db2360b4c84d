"""What somebody's wrong output of a reversal is: which of its lines are wrong, and what was done in its place.

All of a small tensor is looked at, or some lines of a larger one. An idea is tried on a few wrong elements, with all
numbers that may be in its sentence at once, and then on all. It is told if it explains all that is wrong and breaks
nothing that is right; or with a rule that says where it is so; or, if it explains most of the wrong lines and breaks
nothing, with their count.
"""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass, replace
from functools import cached_property
from math import lgamma, log, log2, prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.core import dtypes
from revseq_cli.core.dtypes import bits, native
from revseq_cli.core.tensors import braced
from revseq_cli.formats.contract import Storage
from revseq_cli.formats.raw import MemorySource
from revseq_cli.operator import kernel
from revseq_cli.pipeline.folds import Pair, unequal
from revseq_cli.pipeline.plan import plan_reversal
from revseq_cli.pipeline.reversal import made_ready, reversed_output
from revseq_cli.pipeline.tasks import spooled
from revseq_cli.porting.hypotheses import Idea, Lines, changes, ideas, number_of, orders, place_of, put, quantities

if TYPE_CHECKING:
    from collections.abc import Iterator

    from revseq_cli.formats.contract import Source
    from revseq_cli.pipeline.folds import Differences, Tolerance
    from revseq_cli.pipeline.jobs import Job
    from revseq_cli.pipeline.plan import Resources
    from revseq_cli.porting.hypotheses import Array, Places

# Elements of a sample at most, and of one of long lines; so many as are few in any memory; what each takes in it.
_MOST, _MOST_LONG, _FEW, _BYTES = 1 << 18, 1 << 20, 1 << 12, 256
_PROBES, _MOST_NUMBERS = 64, 6  # wrong elements that are asked first; numbers of a sentence that are tried on all
_MOST_NAMED = 6  # runs of indices, exchanged batches, other lengths
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


@contextlib.contextmanager
def opened(a: Source, job: Job, resources: Resources) -> Iterator[Pair]:
    """A tensor and the output of a job, of the same sizes and data type.

    EngineError where the smallest block needs more memory than there is.
    """
    plan = plan_reversal(job, resources, a, a.dtype.itemsize)
    with made_ready(job, "", plan) as ready, spooled(a, "", plan) as ready_a:
        yield Pair(ready_a, reversed_output(ready), plan, ready)


def diagnose(
    pair: Pair, job: Job, found: Differences, tolerance: Tolerance | None, memory: int, undone: str = ""
) -> tuple[WrongLines, tuple[Mistake, ...]]:
    """Which lines are wrong in an output that differs from what is right, as was found, and what explains them.

    What stands there comes first, then what was done; it is computed in so much memory, and of lines that are too long
    for it, only which are wrong is told. `undone` is what was undone before the output was compared.
    """
    of, wrong = job.lengths.desc.element_count, found.lines
    mistakes = [Mistake(undone, of)] if undone else []
    if not found.count or wrong is None:
        return WrongLines(found.line_count, of), tuple(mistakes)
    given = native(job.lengths.read_task(tuple(slice(0, size) for size in wrong.shape)).read())
    table = np.minimum(given.astype(np.uint64), np.uint64(_HUGE)).astype(np.int64)
    for d in range(table.ndim):
        first = table.take([0], d)
        table = first if (table == first).all() else table
    lines = Lines(job.values.sizes, job.axis, table, job.given_lengths.dtype.itemsize)
    with np.errstate(all="ignore"):
        rule = _rule_of_lines(lines, wrong)
        if search := _sample(lines, wrong, pair, job, tolerance, memory):
            mistakes += [Mistake(one.text, one.count) for one in _told(search)]
    return WrongLines(found.line_count, of, rule), tuple(mistakes)


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
    skipped: Array | None = None

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
            value = self.there[0]
            word = str(value) if value.dtype.names is None else f"{int(bits(value.reshape(1))[0]):#x}"
            yield self._judged(0, f"the output is only {word}", self.wrong | self.same(self.got, value))
        some = bits(self.x.reshape(-1)[:: 1 + self.x.size // 4096])
        counts = np.unique(some.view("u1").reshape(len(some), -1), axis=0, return_counts=True)[1]
        alike = float((counts * (counts - 1)).sum()) / max(1, len(some) * (len(some) - 1))
        is_evident = len(self.there) * -log2(max(alike, 2.0**-_IDEA_BITS)) > _IDEA_BITS  # no chance by equal elements
        for idea in ideas(self.lines):
            if is_evident or not idea.cost:
                yield self._of_idea(idea)
        if self.x.dtype.kind == "f":
            flushed = np.where(np.abs(self.right) < np.finfo(self.x.dtype).tiny, self.x.dtype.type(0), self.right)
            yield self._judged(1, "denormal values are 0", self.same(self.got, flushed))
        if self.same(self.there, self.belongs, near=True).all():
            return
        wrong = np.flatnonzero(self.wrong)[:: 1 + np.count_nonzero(self.wrong) // 4096]
        for cost, text, change in changes(self.x, *(values.reshape(-1)[wrong] for values in (self.got, self.right))):
            if self.same(self.there, change(self.belongs), near=True).mean() >= _LEAST_PART:
                yield self._judged(cost, text, self.same(self.got, change(self.right), near=True))
        if self.x.dtype.kind in "fiuc":
            added = self.same(self.got, self.right + self.x, near=True)
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
        agree = agree if self.skipped is None else agree | self.skipped
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
            return Explanation(max(cost, 1), f"{text}; {self.share(count)}", count, "part")
        count, enough = self.count, _witnesses(explained, ~explained)[0] >= _LEAST_WITNESSES
        all_of = "" if self.is_whole else f"; this explains all {count:,} sampled wrong lines"
        if not broken.any():
            return Explanation(cost, text + all_of, count, "all")
        if cost and self.is_constant:
            return None
        is_apart = not (broken_lines & self.wrong_lines).any()
        enough = enough and not (is_fitted and len(np.unique(self.own[self.wrong_lines])) < _LEAST_WITNESSES)
        if is_apart and (enough or not cost):
            return Explanation(cost + (cost > 0), f"{text}, in the wrong lines alone{all_of}", count, "alone")
        margin = _SOUGHT_BITS if cost else _RULE_BITS
        rule = _rule(self._quantities, self.wrong, broken, margin, numbers=self.is_whole)
        if not rule and cost:
            return None
        told = f"{text}, in {rule or 'the wrong elements alone'}{all_of}"
        return Explanation(cost + (cost > 0), told, count, "where" if rule else "alone")

    def before_padding(self) -> Iterator[Explanation]:
        """What explains all that is wrong before the length, where a mask has left one value behind it."""
        behind = np.broadcast_to(self.at[self.axis] >= self.own, self.x.shape)
        rest = bits(self.got[behind])
        if len(rest) and (rest == rest[0]).all() and (self.wrong & ~behind).any() and (self.wrong & behind).any():
            masked = replace(self, got=np.where(behind, self.right, self.got), skipped=behind)
            for one in masked.explanations():
                if one and one.how == "all" and not masked.is_constant:
                    text = f"{one.text}; and the output is only {self.got[behind][0]} behind the length"
                    yield Explanation(one.cost + 1, text, self.count, "all")

    @cached_property
    def _quantities(self) -> list[tuple[int, str, Any]]:
        return quantities(self.lines, self.at, of_lines=False)

    def share(self, count: int) -> str:
        """How many of the wrong lines are explained."""
        return f"this explains {count:,} of {self.count:,} {'sampled ' * (not self.is_whole)}wrong lines"

    @cached_property
    def seen(self) -> Array:
        """By which length each line looks reversed: one more than the last index at which it is not the input."""
        changed = ~self.same(self.got, self.x)
        last = changed.shape[self.axis] - np.flip(changed, self.axis).argmax(self.axis, keepdims=True)
        return np.where(changed.any(self.axis, keepdims=True), last, 0)

    @cached_property
    def _numbers(self) -> Array:
        """The numbers that k may be, the likely ones first: usual ones, sizes, and those by which elements moved."""
        shape, axis = self.lines.shape, self.axis
        s, n, m = shape[axis], self.own[self.wrong_lines], self.seen[self.wrong_lines]
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

    def read(source: Source) -> Array:
        out = np.empty([len(own) for own in index], source.dtype.newbyteorder("="))
        runs = [np.split(np.arange(len(own)), np.flatnonzero(np.diff(own) != 1) + 1) for own in index]
        for places in itertools.product(*runs):  # each run of adjacent indices is read at once
            ends = [(int(own[run[0]]), int(own[run[-1]]) + 1) for own, run in zip(index, places, strict=True)]
            out[np.ix_(*places)] = native(source.read_task(tuple(itertools.starmap(slice, ends))).read())
        return dtypes.numbers(out) if dtypes.has_numbers(out.dtype) else out

    return Search(lines, index, tolerance, read(job.values), read(pair.a), read(pair.right))


# Which lines or elements are wrong. A rule is a quantity, such as the length, and a test, such as "is above 7". Lines
# that go wrong together, as those of a batch do, are one witness: what so few could fit by chance is no rule.


def _witnesses(wrong: Any, others: Any) -> tuple[int, int]:
    """How many independent ones of both there are: in a dimension along which all agree, there is one."""
    for d in range(wrong.ndim):
        narrow, narrow_others = (np.asarray(mask.any(d, keepdims=True)) for mask in (wrong, others))
        if not (narrow & narrow_others).any():
            wrong, others = narrow, narrow_others
    return int(np.count_nonzero(wrong)), int(np.count_nonzero(others))


def _rule(rows: list[tuple[int, str, Any]], wrong: Array, others: Array, bits: float, *, numbers: bool) -> str:
    """The simplest words for all that is wrong and nothing of the others; "" if none is so many bits above chance.

    Without `numbers`, which would be those of a sample, only what needs none is tried.
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
                (0, 1, f"is {low}", is_apart and low == high),
                (1, 0, f"is {'odd' if low % 2 else 'even'}", step % 2 == 0 and not (r % 2 == low % 2).any()),
                (0, 1, f"is above {below.max() if below.size else low}", is_apart and not above.size),
                (0, 1, f"is below {above.min() if above.size else high}", is_apart and not below.size),
                (1, 2, f"is {low} to {high}", is_apart),
                (1, 1, f"has the remainder {low % max(step, 1)} by {step}",
                 step > 1 and not (r % step == low % step).any()),
            ]  # fmt: skip
        for base, share, phrase, holds in tests if numbers or w.dtype == bool else tests[1:2]:
            some = np.concatenate([values[:: 1 + len(values) // 2048] for values in (w, r)])
            total = cost + base + (share and share * log2(1 + len(np.unique(some))))  # for each bit of its numbers
            if holds and total < best:
                best, rule = total, f"{text} {phrase}".strip()
    return rule


def _rule_of_lines(lines: Lines, wrong: Array) -> str:
    """Which of all lines of the tensor are wrong, in words; "" if no simple ones are so but by chance.

    A line of one element or none looks right whatever happens to it.
    """
    at = np.ix_(*map(np.arange, wrong.shape))
    visible = ~wrong & (np.broadcast_to(lines.length(at), wrong.shape) > 1)
    if wrong.all() or not visible.any():
        return "all lines" if wrong.all() else "lines whose length is above 1"
    for others, but in ((~wrong, ""), (visible, ", but for lines whose length is 0 or 1")):
        told = _rule(quantities(lines, at, of_lines=True), wrong, others, _RULE_BITS, numbers=True)
        if told := told or _names(lines, wrong, others):
            return told + but
    return ""


def _names(lines: Lines, wrong: Array, others: Array) -> str:
    """The indices of one dimension, or the lines, that have all that is wrong and nothing of the others, if few."""
    for d, size in enumerate(wrong.shape):
        bad, good = (mask.any(tuple({*range(wrong.ndim)} - {d})) for mask in (wrong, others))
        runs = np.count_nonzero(np.diff(bad.astype(np.int8), prepend=0) == 1)
        if size > 1 and not (bad & good).any() and not bad.all() and runs <= _MOST_NAMED:
            return f"{lines.named(d, np.flatnonzero(bad))} of {size}"
    places = np.argwhere(wrong if wrong.ndim > 2 else False)
    names: list[str] = [str(np.delete(place, lines.axis).tolist()) for place in places[: _MOST_NAMED + 1]]
    return f"the line{'s' * (len(names) > 1)} {', '.join(names)}" if 0 < len(names) <= _MOST_NAMED else ""


# What was done


class Explanation(NamedTuple):
    """A sentence with its cost, and how many wrong lines it explains.

    `how`: "all" that is wrong is explained; or it is so "where" a rule says; or in what is wrong "alone"; or a "part"
    is explained; or the lengths are "seen" by which lines are reversed. What costs less than 1 is no guess, but stands
    there.
    """

    cost: float
    text: str
    count: int  # type: ignore[assignment] # a tuple has a method of that name
    how: str


def _told(search: Search) -> list[Explanation]:
    """What stands there, and then the simplest sentence."""
    found = [one for one in (*_exchanges(search), *_other_lengths(search), *search.explanations()) if one]
    if not any(one.how == "all" for one in found):
        found += search.before_padding()
    found.sort(key=lambda one: (("all", "where", "alone", "seen", "part").index(one.how), -one.count, one.cost))
    plain, facts, guesses = (
        [one for one in found if low <= one.cost < high] for low, high in ((0, 0.5), (0, 1), (1, 9))
    )
    if any(one.how == "all" for one in plain):
        return plain
    if guesses and guesses[0].how == "all":  # all else is the same in other words, of these data
        facts = [one for one in facts if one.how != "seen"]
        return [*facts, *guesses[: not facts or guesses[0].cost <= 1]]
    return facts if plain or any(one.count == search.count for one in facts) else [*facts, *guesses[:1]]


def _listed(texts: list[str], separator: str) -> str:
    more = len(texts) - _MOST_NAMED
    return separator.join([*texts[:_MOST_NAMED], *([f"and {more} more"] if more > 0 else [])])


def _other_lengths(search: Search) -> Iterator[Explanation]:
    """By which lengths wrong lines are right, in place of their own."""
    values, unknown = search.read(search.x, search.lines.home(search.at, search.seen))
    explained = search.wrong_lines & (search.same(search.got, values) | unknown).all(search.axis, keepdims=True)
    n, m, count = search.own[explained], search.seen[explained], int(np.count_nonzero(explained))
    is_plain = not m.any() or (m == search.lines.shape[search.axis]).all()  # which is told in other words
    if not is_plain and count >= _LEAST_PART * search.count:
        pairs, counts = np.unique(np.stack([m, n], 1), axis=0, return_counts=True)
        pairs = pairs[np.argsort(-counts, kind="stable")]
        text = _listed([f"{m or '0 or 1'} in place of {n}" for m, n in pairs.tolist()], ", ")
        part = "" if count == search.count and search.is_whole else f"; {search.share(count)}"
        yield Explanation(0.5, f"lines are reversed by other lengths: {text}{part}", count, "seen")


def _exchanges(search: Search) -> Iterator[Explanation]:
    """Which batches, or indices of other dimensions, hold what belongs in others, if all that are wrong do."""
    lines = search.lines
    as_read, _ = search.read(search.got, lines.home(search.at))  # what was reversed, if lengths are right
    for d in (d for d, size in enumerate(search.wrong.shape) if d != search.axis and 1 < size < 1 << 10):
        wrong = np.flatnonzero(search.wrong_lines.any(tuple({*range(search.wrong.ndim)} - {d}))).tolist()
        for of, has, belong in (("", search.got, search.right), (" of the input", as_read, search.x)):
            here, there = ([slab.tobytes() for slab in np.moveaxis(array, d, 0)] for array in (has, belong))
            moved = {i: there.index(here[i]) for i in wrong if there.count(here[i]) == 1 and here[i] != there[i]}
            if len(moved) == len(wrong):
                name = {i: lines.named(d, search.index[d][[i]]) for i in range(len(here))}
                told = [f"{name[i]}{of} has what belongs in {name[k]}" for i, k in moved.items()]
                if len(moved) == 2 and all(moved.get(k) == i for i, k in moved.items()):
                    told = [f"{lines.named(d, search.index[d][sorted(moved)])}{of} are exchanged"]
                cost = 0.5 if len(moved) <= _MOST_NAMED else 3
                yield Explanation(cost, _listed(told, "; "), search.count, "all")
                return


def reading(a: Source, job: Job, tolerance: Tolerance | None, memory: int) -> tuple[str, Source, Job]:
    """What was done to A besides, A without it, and the job that is then right for it; "" if A is like the output.

    A tensor that is too large for the memory stays as it is.
    """
    values, axis = job.values, job.axis
    if a.desc == values.desc or 8 * (a.desc.total_bytes + values.desc.total_bytes) > memory:
        return "", a, job
    array, x, n = native(a.read()), native(values.read()), job.lengths.read()
    kept, size, longest = array.shape[axis] if array.ndim == x.ndim else 0, x.shape[axis], n.max(initial=0)
    if array.dtype == x.dtype and longest <= kept < size and array.shape == tuple(put(x.shape, axis, kept)):
        cut = MemorySource(values.name, x.take(range(kept), axis), values.storage)
        of = "the longest length, " if longest == kept else ""
        return f"along axis {axis} the output is cut to {of}{kept} of {size}", a, replace(job, values=cut)
    done = []
    if array.dtype != x.dtype:
        done.append(f"{values.desc.data_type.name} is saved as {a.desc.data_type.name}")
        with np.errstate(all="ignore"):
            cast = array.astype(x.dtype) if {array.dtype.kind, x.dtype.kind} <= {*"fiu"} else array
        if cast.dtype == x.dtype and (cast.astype(array.dtype) == array).all():
            array = cast
        elif array.itemsize == x.itemsize:
            done[0], array = f"{done[0]}, byte for byte", array.view(x.dtype)
        else:
            return "", a, job
    readings = [(done, array)] if array.shape == x.shape else []
    if array.size == x.size and array.shape != x.shape:
        if array.ndim == 1 or [n for n in array.shape if n > 1] == [n for n in x.shape if n > 1]:
            saved = f"sizes {braced(x.shape)} are saved as {braced(array.shape)}"
            readings.append(([*done, saved], array.reshape(x.shape)))
        readings += [
            ([*done, f"the axes of the output are in the order {braced(order)}"], array.transpose(np.argsort(order)))
            for order, other in orders(x.shape)
            if array.shape == other
        ]
    right = kernel.reverse(x, n, axis)
    counts = [int(unequal(array, right, tolerance).sum()) for _, array in readings]
    if not counts or (min(counts) == x.size and a.dtype != values.dtype):  # integers are no bytes of floats
        return "", a, job
    done, array = readings[counts.index(min(counts))]
    return ", and ".join(done), MemorySource(a.name, array, Storage("memory", {}), a.identity), job
