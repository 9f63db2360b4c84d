"""What somebody's wrong output of a reversal is: which of its lines are wrong, and what was done in its place.

An idea is tried on a few wrong elements, with all numbers that may be in its sentence at once, and then on the whole
sample. It is told if it explains all that is wrong and breaks nothing that is right; or with a rule that says where it
is so; or, if it explains most of the wrong lines and breaks nothing, with their count.
"""

from __future__ import annotations

import itertools
from functools import cached_property, partial
from math import log2
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.porting.hypotheses import MIXED, VALUES, Idea, ideas, worded
from revseq_cli.porting.sample import (
    HUGE,
    RULE_BITS,
    Rules,
    Sample,
    named,
    place_of,
    put,
    rule_of_lines,
    sampled,
    witnesses,
    words,
)  # fmt: skip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from revseq_cli.pipeline.assembly import Job
    from revseq_cli.pipeline.comparison import Differences, Pair, Tolerance
    from revseq_cli.porting.sample import Places

    Array = NDArray[Any]
    Change = Callable[[Array], Array]

# So many wrong elements are asked first; so many numbers of one sentence are tried on all; so many moves are told.
_PROBES, _MOST_NUMBERS, _MOST_MOVED = 64, 6, 6
# What explains fewer of the wrong lines, or fewer of the witnesses, is not told.
_LEAST_PART, _LEAST_WITNESSES = 0.7, 3
# Bits by which an idea must be better than chance; and a rule besides, of one of a thousand ideas.
_IDEA_BITS, _SOUGHT_BITS = 16.0, 10.0
# Costs: of what is no guess, but stands there; and of more than one mistake.
_FACT, _PAIR = 0.5, 1


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
    """Which lines are wrong, and what explains them: what stands there first, then what was done."""

    lines: WrongLines | None = None
    mistakes: tuple[Mistake, ...] = ()


def diagnose(
    pair: Pair, job: Job, found: Differences, tolerance: Tolerance | None, memory: int, undone: str = ""
) -> Diagnosis:
    """What is wrong in an output that differs from what is right, as was found, with so much memory to compute in.

    `undone` is what was done to the output besides, which was undone before it was compared.
    """
    of = job.lengths.desc.element_count
    before = [Mistake(undone, of)] if undone else []
    if not found.count or found.lines is None:
        return Diagnosis(WrongLines(found.line_count, of), tuple(before))
    sample = sampled(pair, job, found, tolerance, memory)
    with np.errstate(all="ignore"):
        lines = WrongLines(found.line_count, of, rule_of_lines(sample, found.lines))
        return Diagnosis(lines, (*before, *_mistakes(sample)))


class Explanation(NamedTuple):
    """A sentence with its cost, and the wrong lines that it explains.

    `how`: "all" that is wrong is explained, or is "where" a rule holds, or "alone" and no rule says where, or a "part"
    of it. A fact is what stands there, and no guess.
    """

    cost: float
    text: str
    lines: int
    how: str
    is_fact: bool = False


def _mistakes(sample: Sample) -> Iterator[Mistake]:
    """What stands there, and then the simplest sentences."""
    search = Search(sample, sample.x, sample.right)
    found = [*_exchanges(search), *_other_lengths(search), *search.explanations()]
    if not any(one.how in ("all", "where") for one in found):
        found += _together(search)
    found.sort(key=lambda one: one.cost)
    facts = [one for one in found if one.is_fact]
    guesses = [one for one in found if not one.is_fact]
    exact = [one for one in guesses if one.how == "all"]
    plain = [one for one in facts if one.cost < _FACT]
    if any(one.how == "all" for one in plain):
        facts, guesses = plain, []
    elif exact:  # the others are the same in other words, of these data
        facts = [one for one in facts if one.how != "seen"]
        guesses = [one for one in exact if one.cost <= (1 if facts else exact[0].cost)]
    else:
        where, alone = ([one for one in guesses if one.how == how and not plain] for how in ("where", "alone"))
        part = sorted((one for one in guesses if one.how == "part"), key=lambda one: (-one.lines, one.cost))
        guesses = where or alone or ([] if plain else part)
    for one in [*facts, *guesses[:1]]:
        yield Mistake(one.text, one.lines)


class Search:
    """The search for what made elements of `got` from x, where `right` is what belongs there, of those `asked`."""

    def __init__(self, sample: Sample, x: Array, right: Array, asked: Any = True) -> None:
        self.sample, self.x, self.right, self.asked = sample, x, right, np.broadcast_to(asked, x.shape)
        self.wrong = ~sample.same(sample.got, right) & self.asked
        self.lines = self.wrong.any(sample.axis, keepdims=True)
        self.count = int(np.count_nonzero(self.lines))
        _, unknown = sample.read(x, sample.home(sample.at))  # of parts of lines, not all that belongs there is read
        chosen = np.flatnonzero(self.wrong & ~unknown)
        chosen = chosen[np.linspace(0, max(len(chosen) - 1, 0), min(len(chosen), _PROBES)).astype(np.intp)]
        at = place_of(chosen, x.shape)
        self.probes = tuple(own[i][:, None] for own, i in zip(sample.index, at, strict=True))
        self.there, self.belongs = sample.got.reshape(-1)[chosen], right.reshape(-1)[chosen]

    def explanations(self) -> list[Explanation]:
        """What explains all that is wrong, or most of it."""
        found: list[Explanation] = []
        if not len(self.there):
            return found
        if self._constant:
            values = np.full_like(self.right, self.there[0])
            text = f"the output is only {self.sample.number(self.there[0])}"
            found += self._judged(0, text, np.where(self.wrong, self.sample.got, values))
        is_cleared = bool((words(self.there) == words(np.zeros_like(self.there))).any())
        found += itertools.chain.from_iterable(map(self._of_idea, ideas(self.sample, cleared=is_cleared)))
        wrong = np.flatnonzero(self.wrong)[:: 1 + np.count_nonzero(self.wrong) // 4096]
        observed = (values.reshape(-1)[wrong] for values in (self.sample.got, self.right))
        is_rounding = bool(self._same(self.there, self.belongs, is_near=True).all())
        for cost, text, change, is_near in changes(self.right, *observed):
            if is_near and is_rounding:
                continue
            if self._same(self.there, change(self.belongs), is_near=is_near).mean() >= _LEAST_PART:
                found += self._judged(cost, text, change(self.right), is_near=is_near)
        for text, mix in MIXED if self.right.dtype.kind in "fiuc" and not is_rounding else ():
            found += self._judged(1, text, mix(self.right, self.sample.x).astype(self.right.dtype), is_near=True)
        return found

    def _of_idea(self, idea: Idea) -> Iterator[Explanation]:
        """What an idea explains, with the numbers for which it does."""
        numbers = self._numbers if "{" in idea.text else np.zeros(1, np.int64)
        numbers = (
            numbers[numbers > 1] if "{K}" in idea.text else numbers[numbers > 0] if "{N}" in idea.text else numbers
        )
        for step in (8, 1):  # few probes rule out most numbers
            there, probes = self.there[::step, None], tuple(i[::step] for i in self.probes)
            values, unknown = self.sample.read(self.x, idea.place(probes, numbers[None]))
            values = np.broadcast_to(values, (len(there), len(numbers)))
            known = np.broadcast_to(~unknown, values.shape)
            fits = (self.sample.same(np.broadcast_to(there, values.shape), values) & known).sum(0)
            counts = known.sum(0)
            enough = (fits >= _LEAST_PART * counts - (step > 1)) & (2 * counts >= len(there))
            whole, part, numbers = numbers[enough & (fits == counts)], numbers[enough], numbers[enough]
            if not len(numbers):
                return
        found: dict[int, Explanation] = {}
        for k in whole[:_MOST_NUMBERS].tolist() or part[:1].tolist():
            place = idea.place(self.sample.at, k)
            values, unknown = self.sample.read(self.x, place)
            if not idea.cost or self._is_evident(place):
                for one in self._judged(idea.cost, worded(idea.text, k), values, unknown, is_fitted="{" in idea.text):
                    found[k] = one
        if exact := [k for k, one in found.items() if one.how == "all"]:
            also = found[exact[0]].text.removeprefix(worded(idea.text, exact[0]))
            cost = idea.cost + (min(map(abs, exact)) > 1)
            yield found[exact[0]]._replace(cost=cost, text=worded(idea.text, *exact) + also)
        else:
            yield from itertools.islice(found.values(), 1)

    def _judged(
        self, cost: float, text: str, values: Array, unknown: Any = False, *, is_near: bool = False,
        is_fitted: bool = False,
    ) -> Iterator[Explanation]:  # fmt: skip
        """How an output of these values explains what is wrong, if it does; `unknown` ones are not in the sample."""
        axis = self.sample.axis
        agree = self._same(self.sample.got, np.broadcast_to(values, self.wrong.shape), is_near=is_near)
        agree |= unknown | ~self.asked
        broken = ~agree & ~self.wrong
        broken_lines = broken.any(axis, keepdims=True)
        explained = self.lines & ~(~agree & self.wrong).any(axis, keepdims=True)
        count = int(np.count_nonzero(explained))
        independent = np.count_nonzero(witnesses(explained, ~self.lines)[0])
        all_of = "" if self.sample.is_whole else f"; this explains all {count:,} sampled wrong lines"
        if count < self.count:
            there = words(self.sample.got[np.broadcast_to(explained, self.wrong.shape)])
            enough = count >= _LEAST_PART * self.count and independent >= _LEAST_WITNESSES and cost < 2
            enough = enough and bool((there != there[0]).any())
            if enough and not (broken_lines & ~self.lines).any():
                yield Explanation(cost, f"{text}; {self.share(count)}", count, "part")
        elif not broken.any():
            yield Explanation(cost, text + all_of, count, "all", is_fact=not cost)
        elif not cost or not self._constant:
            apart = not (broken_lines & self.lines).any()
            margin = RULE_BITS if not cost else RULE_BITS + _SOUGHT_BITS
            rule = self._line_rules.rule(self.lines, broken_lines, margin) if apart else ""
            if rule := rule or self._element_rules.rule(self.wrong, broken, margin):
                yield Explanation(cost + (cost > 0), f"{text}, in {rule}{all_of}", count, "where", is_fact=not cost)
            elif apart and (not cost or (independent >= _LEAST_WITNESSES and not is_fitted)):
                yield Explanation(cost, f"{text}, in the wrong lines alone{all_of}", count, "alone", is_fact=not cost)
            elif not cost:
                where = self._element_rules.names(self.wrong, broken) or "the wrong elements alone"
                yield Explanation(cost, f"{text}, in {where}{all_of}", count, "alone", is_fact=True)

    def share(self, count: int) -> str:
        """How many of the wrong lines are explained."""
        return f"this explains {count:,} of {self.count:,} {'' if self.sample.is_whole else 'sampled '}wrong lines"

    def _same(self, a: Array, b: Array, *, is_near: bool) -> Array:
        equal = self.sample.same(a, b)
        if is_near and a.dtype.kind in "fc":
            finite = np.abs(a[np.isfinite(a)])
            atol = self.sample.rounding * float(finite.max(initial=0))
            equal |= np.isclose(a, b, rtol=self.sample.rounding, atol=atol, equal_nan=True)
        return equal

    @cached_property
    def _line_rules(self) -> Rules:
        return Rules(self.sample, self.sample.at, of_lines=True)

    @cached_property
    def _element_rules(self) -> Rules:
        return Rules(self.sample, self.sample.at, of_lines=False, right=self.right)

    @cached_property
    def _constant(self) -> bool:
        """Whether all wrong elements are the same."""
        there = words(self.sample.got[self.wrong])
        zeros = self.there.dtype.kind in "fc" and not self.sample.got[self.wrong].any()  # of either sign
        return len(there) > 1 and (zeros or bool((there == there[0]).all()))

    def _is_evident(self, place: Places) -> bool:
        """Whether elements come from so many other places that they would hardly be right by chance."""
        home = self.sample.home(self.sample.at)
        moved = [np.broadcast_to(i != j, self.wrong.shape) for i, j in zip(place, home, strict=True)]
        return bool(np.count_nonzero(np.logical_or.reduce(moved) & self.asked) * self._bits >= _IDEA_BITS)

    @cached_property
    def _bits(self) -> float:
        """How surprising it is that two elements of the input are the same."""
        some = words(self.x.reshape(-1)[:: max(1, self.x.size >> 12)])
        counts = np.unique(some.view(np.uint8).reshape(len(some), -1), axis=0, return_counts=True)[1]
        return -log2(max(float((counts * (counts - 1)).sum()) / max(1, len(some) * (len(some) - 1)), 2.0**-_IDEA_BITS))

    @cached_property
    def _numbers(self) -> Array:
        """The numbers that k may be, the likely ones first: usual ones, sizes, and those by which elements moved."""
        sample, axis = self.sample, self.sample.axis
        s = sample.shape[axis]
        usual = [s, 1, -1, 2, -2, 3, -3, 4, -4, 256, 65536, 127, 255, 32767, 65535, s - 1, s + 1, *range(5, 11), 12, 24]
        usual += [48, 96, 100, 1000, *(1 << np.arange(4, 16)), *sample.shape, *(size // 2 for size in sample.shape)]
        n, m = np.broadcast_to(sample.lengths_at(sample.first), self.lines.shape)[self.lines], self.seen[self.lines]
        along = sample.index[axis][:: max(1, len(sample.index[axis]) >> 12)]
        in_line, _ = sample.read(self.x, put(self.probes, axis, along[None]))
        both = np.broadcast_arrays(self.there[:, None], in_line)  # of one line, it has no dimension of probes
        same = sample.same(both[0], both[1])
        only = same.sum(1) == 1  # so that there is no doubt where the element was
        i, j, home = along[same.argmax(1)][only], self.probes[axis][only, 0], sample.home(self.probes)[axis][only, 0]
        of_line = np.moveaxis(self.lines, axis, -1)[..., 0]
        x, got = (np.moveaxis(values, axis, -1)[of_line][:16] for values in (self.x, sample.got))
        same = sample.same(np.broadcast_to(got[:, :1], x.shape), x)
        tiles = sample.index[axis][same.argmax(1)][same.sum(1) == 1] + 1  # the first element was the last of its tile
        numbers = [int(k) for k in usual]
        for observed in (m, m - n, m - np.minimum(n, s), n, n - 1, n + 1, i - home, home - i, i - j, j - i, tiles):
            values, counts = np.unique(observed, return_counts=True)
            numbers += [int(k) for k in [*values[np.argsort(-counts, kind="stable")[:6]], *values[:1], *values[-1:]]]
        return np.array([*dict.fromkeys(k for k in numbers if k and abs(k) < HUGE)])

    @cached_property
    def seen(self) -> Array:
        """By which length each line looks reversed: one more than the last index at which it is not the input."""
        sample, axis = self.sample, self.sample.axis
        changed = ~sample.same(sample.got, self.x) & self.asked
        last = changed.shape[axis] - 1 - np.flip(changed, axis).argmax(axis, keepdims=True)
        return np.where(changed.any(axis, keepdims=True), sample.index[axis][last] + 1, 0)

    @cached_property
    def is_seen(self) -> Array:
        """Which lines are right by the length by which they look reversed."""
        values, unknown = self.sample.read(self.x, self.sample.home(self.sample.at, self.seen))
        agree = self.sample.same(self.sample.got, values) | unknown
        return np.asarray(agree.all(self.sample.axis, keepdims=True))


def changes(x: Array, a: Array, r: Array) -> Iterator[tuple[int, str, Change, bool]]:
    """What may have become of values x, where elements a stand for right ones r: cost, words, how, if it is near."""
    kind = x.dtype.kind
    for kinds, is_near, text, change, read in VALUES:
        if kind in kinds:
            for k in read(a, r) if read else [0]:
                yield 1 + bool(read), text.format(k=k), partial(change, k=k), is_near


# What stands there: other lengths, and what changed places


def _other_lengths(search: Search) -> Iterator[Explanation]:
    """By which lengths wrong lines are right, in place of their own."""
    sample, axis = search.sample, search.sample.axis
    explained = search.lines & search.is_seen
    n = np.broadcast_to(sample.lengths_at(sample.first), explained.shape)[explained]
    m, count = search.seen[explained], int(np.count_nonzero(explained))
    is_plain = not m.any() or (m == sample.shape[axis]).all()  # which is told in other words
    if len(sample.index[axis]) < sample.shape[axis] or is_plain or count < _LEAST_PART * search.count:
        return
    pairs, counts = np.unique(np.stack([m, n], 1), axis=0, return_counts=True)
    listed = [f"{m or '0 or 1'} in place of {n}" for m, n in pairs[np.argsort(-counts, kind="stable")][:4].tolist()]
    listed += [f"and {len(pairs) - 4} more"] * (len(pairs) > 4)
    part = "" if count == search.count and sample.is_whole else f"; {search.share(count)}"
    yield Explanation(_FACT, f"lines are reversed by other lengths: {', '.join(listed)}{part}", count, "seen", True)


def _exchanges(search: Search) -> Iterator[Explanation]:
    """Which batches, indices of other dimensions, or lines hold what belongs in others, if all that are wrong do."""
    sample, axis = search.sample, search.sample.axis
    if len(sample.index[axis]) < sample.shape[axis]:
        return
    as_read, _ = sample.read(sample.got, sample.home(sample.at))  # what was reversed, if lengths are right
    n = np.minimum(np.broadcast_to(sample.lengths_at(sample.first), search.lines.shape), sample.shape[axis])
    others: list[int | None] = [d for d in range(search.wrong.ndim) if d != axis and search.wrong.shape[d] > 1]
    for texts, has, belong in (
        (("{} are exchanged", "{} has what belongs in {}"), sample.got, search.right),
        (("{} of the input are exchanged", "{} has the input of {}"), as_read, search.x),
        (("the lengths of {} are exchanged", "{} has the length of {}"), search.seen, n),
    ):
        for d in [*others, None] if len(others) > 1 else others:
            here, there = _slabs(has, d, axis), _slabs(belong, d, axis)
            sources = {key: i for i, key in enumerate(there)}
            unique = {key for key, i in sources.items() if there.count(key) == 1} if len(there) < 1 << 12 else set()
            wrong = [i for i, key in enumerate(_slabs(search.lines, d, axis)) if any(key)]
            moved = {i: sources[here[i]] for i in wrong if here[i] in unique and sources[here[i]] != i}
            if has is search.seen and (set(moved.values()) != {*moved} or not search.is_seen[search.lines].all()):
                continue
            if len(moved) == len(wrong):
                cost, is_few = (_FACT, True) if len(moved) <= _MOST_MOVED else (3, False)
                yield Explanation(cost, _exchanged(sample, d, moved, texts), search.count, "all", is_few)
                return


def _slabs(values: Array, d: int | None, axis: int) -> list[bytes]:
    """The bytes of all that has each index of a dimension, or of each line."""
    rows = np.moveaxis(values, axis, -1).reshape(-1, values.shape[axis]) if d is None else np.moveaxis(values, d, 0)
    return [row.tobytes() for row in rows]


def _exchanged(sample: Sample, d: int | None, moved: dict[int, int], texts: tuple[str, str]) -> str:
    """What changed places, in words: of two that are exchanged, or of each."""

    def name(*numbers: int) -> str:
        if d is not None:
            return named(sample.shape, sample.axis, d, sample.index[d][list(numbers)])
        others = [own for other, own in enumerate(sample.index) if other != sample.axis]
        at = np.unravel_index(numbers, [len(own) for own in others])
        lines = [[int(own[i]) for own, i in zip(others, place, strict=True)] for place in zip(*at, strict=True)]
        return f"line{'s' * (len(lines) > 1)} {' and '.join(map(str, lines))}"

    if len(moved) == 2 and all(moved.get(j) == i for i, j in moved.items()):
        return texts[0].format(name(*sorted(moved)))
    told = [texts[1].format(name(i), name(j)) for i, j in moved.items()]
    return "; ".join(told[:_MOST_MOVED]) + f"; and {len(told) - _MOST_MOVED} more" * (len(told) > _MOST_MOVED)


# Two mistakes together


def _together(search: Search) -> Iterator[Explanation]:
    """What explains it together with one value behind the lengths, before or after it, or with changed values."""
    sample, x, right = search.sample, search.x, search.right
    behind = np.broadcast_to(sample.at[sample.axis] >= sample.lengths_at(sample.first), x.shape)
    rest = words(sample.got[behind])
    if len(rest) and (rest == rest[0]).all() and not behind.all():
        also = f"; and the output is only {sample.number(sample.got[behind][0])} behind the length"
        before = Search(sample, x, right, ~behind)
        yield from _with(also, before.explanations() or _after_changes(before), search.count)
    cleared = np.where(behind, np.zeros((), x.dtype), x)
    if (words(cleared) != words(x)).any():
        also = "; and the input was cleared behind the lengths before"
        found = Search(sample, cleared, np.where(behind, cleared, right)).explanations()
        yield from _with(also, found, search.count)
    yield from _after_changes(search)


def _with(also: str, found: Iterable[Explanation], lines: int, cost: int = _PAIR) -> Iterator[Explanation]:
    for one in found:
        if one.how != "part":
            yield one._replace(cost=one.cost + cost, text=one.text + also, lines=lines, is_fact=False)


def _after_changes(search: Search) -> Iterator[Explanation]:
    """What explains it together with changed values: those that make of the input what occurs in the output."""
    sample, x = search.sample, search.x
    some = np.linspace(0, x.size - 1, min(x.size, 4096)).astype(np.intp)
    in_order = [np.sort(values, None)[some] for values in (sample.got, x)] if x.dtype.kind in "fiu" else []
    probes = words(search.there[::4])
    tried = []
    for cost, text, change, _ in changes(x, *in_order) if in_order else ():
        pool = words(change(x)).reshape(-1)
        known = pool[np.isin(pool, probes, kind="sort")]  # by a table, NumPy 2.0 overflows
        tried.append((np.isin(probes, known, kind="sort").mean(), cost, text, change))
    least = max(0.5, np.isin(probes, words(x).reshape(-1), kind="sort").mean() if in_order else 1)
    for share, cost, text, change in sorted(tried, key=lambda row: -row[0])[:3]:
        if share > least:
            changed = Search(sample, change(x), change(search.right), search.asked)
            yield from _with(
                f"; and {text}", (one for one in changed.explanations() if one.how == "all"), search.count, cost
            )
