"""What lines and elements have in common: their features, and the simplest rule that parts those that are wrong.

A rule is a quantity of a line or an element, such as its length, and a test of that quantity, such as "is 0". Each of
both tables takes a row; the numbers in a test are read from what is wrong.
"""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Numbers = NDArray[Any]

# Remainders and blocks are tried for these.
_POWERS = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_DIVISORS = (3, *_POWERS[1:6], 5, 6, 7, 10, 12, 24, 48, 100)
# Limits of data types, which are named rather than the least wrong number where both part the same.
_LIMITS = (127, 255, 32767, 65535, 2**31 - 1, 2**32 - 1)
# With fewer ways to choose so many lines, a rule may hold by chance.
_FEW_WAYS = 60
# Of so many wrong lines, and of as many right ones, rules are read; those that hold are then fitted to all lines.
_SAMPLE = 1 << 12


class Spots(NamedTuple):
    """Lines or elements of a tensor, by their index in each dimension; arrays go together as NumPy has it.

    Of lines, the index along the axis is 0. `lengths` are theirs, unclamped.
    """

    at: tuple[Any, ...]
    sizes: tuple[int, ...]
    axis: int
    lengths: Numbers
    of_lines: bool

    @property
    def number(self) -> Numbers:
        """The numbers of the elements in C order, or those of the first elements of the lines."""
        return np.asarray(np.ravel_multi_index(self.at, self.sizes))

    @property
    def line(self) -> Numbers:
        """The numbers of the lines."""
        at = tuple(i * (d != self.axis) for d, i in enumerate(self.at))
        sizes = tuple(1 if d == self.axis else size for d, size in enumerate(self.sizes))
        return np.asarray(np.ravel_multi_index(at, sizes))

    @property
    def j(self) -> Numbers:
        """The indices along the axis."""
        return np.asarray(self.at[self.axis])

    @property
    def n(self) -> Numbers:
        """The clamped lengths."""
        return np.minimum(self.lengths, self.sizes[self.axis])


class Quantity(NamedTuple):
    """A number of each line or element, or whether something is so; `kinds` is "l", "e", and "d" for each dimension."""

    id: str
    text: str
    kinds: str
    function: Callable[..., Numbers]


class Test(NamedTuple):
    """A test of numbers; `fit` gives its parameters, for those that are wrong and those that are right."""

    id: str
    text: str
    fit: Callable[[Numbers, Numbers], list[Any]]
    holds: Callable[..., NDArray[np.bool_]]


QUANTITIES = (
    Quantity("behind", "lie behind the length", "e", lambda s, _: s.j >= s.n),
    Quantity("inside", "lie inside the length", "e", lambda s, _: s.j < s.n),
    Quantity("length", "length", "le", lambda s, _: s.lengths),
    Quantity("index", "index in dimension {d}", "led", lambda s, d: np.asarray(s.at[d])),
    Quantity("line", "number of the line", "le", lambda s, _: s.line),
    Quantity("place", "place in memory", "le", lambda s, _: s.number),
    *(Quantity("cut-block", f"lie in a block of {k} that the length cuts", "e",
               lambda s, _, k=k: (s.j < s.n) & (s.j >= s.n // k * k)) for k in (4, 8, 16, 32, 64)),
    Quantity("from-length", "distance from the length", "e", lambda s, _: s.j - s.n),
    Quantity("from-end", "distance from the nearer end of the reversed part", "e",
             lambda s, _: np.minimum(s.j, s.n - 1 - s.j)),
    Quantity("from-middle", "doubled distance from the middle of the reversed part", "e",
             lambda s, _: 2 * s.j - s.n + 1),
)  # fmt: skip

TESTS = (
    Test("so", "", lambda w, _: [()] if w.dtype == np.bool_ else [], lambda q: q),
    Test("is", "is {0}", lambda w, _: [(w.min(),)] if w.min() == w.max() else [], lambda q, k: q == k),
    Test("odd", "is odd", lambda w, _: [()], lambda q: q % 2 == 1),
    Test("even", "is even", lambda w, _: [()], lambda q: q % 2 == 0),
    Test("above", "is above {0}", lambda w, r: _above(w, r), lambda q, k: q > k),
    Test("below", "is below {0}", lambda w, r: [(each.min(),)] if len(each := r[r > w.max()]) else [],
         lambda q, k: q < k),
    Test("is-not", "is not {0}", lambda _, r: [(r.min(),)] if len(r) and r.min() == r.max() else [],
         lambda q, k: q != k),
    Test("multiple", "is a multiple of {0}", lambda w, _: [(m,) for m in _DIVISORS if not (w % m).any()][::-1],
         lambda q, m: q % m == 0),
    Test("not-multiple", "is no multiple of {0}", lambda w, _: [(m,) for m in _DIVISORS if (w % m).all()],
         lambda q, m: q % m != 0),
    Test("remainder", "has the remainder {1} by {0}", lambda w, _: _remainders(w), lambda q, m, r: q % m == r),
    Test("blocks", "lies in every second block of {0}, from {1} on", lambda w, _: _blocks(w),
         lambda q, m, first: (q // m - first // m) % 2 == 0),
    Test("between", "is {0} to {1}", lambda w, _: [(w.min(), w.max())], lambda q, low, high: (q >= low) & (q <= high)),
)  # fmt: skip


def _above(wrong: Numbers, right: Numbers) -> list[Any]:
    """The greatest number below all wrong ones, or the limit of a data type there."""
    least = int(wrong.min())
    greatest = int(right[right < least].max(initial=-1))
    return [(next((each for each in _LIMITS if greatest <= each < least), least - 1),)]


def _remainders(wrong: Numbers) -> list[Any]:
    found = ((m, wrong % m) for m in _DIVISORS)
    return [(m, int(rest[0])) for m, rest in found if rest[0] and (rest == rest[0]).all()]


def _blocks(wrong: Numbers) -> list[Any]:
    found = ((m, wrong // m % 2) for m in _POWERS)
    return [(m, m * int(half[0])) for m, half in found if (half == half[0]).all()]


class Rule(NamedTuple):
    """A test of a quantity, by their numbers in the tables, with the dimension and the parameters."""

    quantity: int
    d: int
    test: int
    parameters: tuple[int, ...]

    @property
    def id(self) -> str:
        """Both ids, or that of the quantity alone."""
        ids = QUANTITIES[self.quantity].id, TESTS[self.test].id
        return ids[0] if ids[1] == "so" else "-".join(ids)

    @property
    def text(self) -> str:
        """What is so of lines or elements, such as "whose length is 0"."""
        text, test = QUANTITIES[self.quantity].text.format(d=self.d), TESTS[self.test]
        return f"that {text}" if test.id == "so" else f"whose {text} {test.text.format(*self.parameters)}"

    def holds(self, spots: Spots) -> NDArray[np.bool_]:
        """For which lines or elements it holds."""
        return TESTS[self.test].holds(QUANTITIES[self.quantity].function(spots, self.d), *self.parameters)


def rules(spots: Spots, wrong: NDArray[np.bool_], able: NDArray[np.bool_]) -> Iterator[tuple[int, Rule]]:
    """The simplest rules, each with the number of spots that it parts falsely; only the `able` ones count.

    All arrays have the shape of `wrong`, or one that goes together with it.
    """
    asked = wrong | able
    is_wrong = wrong[asked]
    kind = "l" if spots.of_lines else "e"
    dimensions = [d for d, size in enumerate(spots.sizes) if size > 1 and not (spots.of_lines and d == spots.axis)]
    measured = [
        (i, d, np.broadcast_to(quantity.function(spots, d), wrong.shape)[asked])
        for i, quantity in enumerate(QUANTITIES)
        if kind in quantity.kinds
        for d in (dimensions if "d" in quantity.kinds else [0])
    ]
    for number in range(len(TESTS)):
        for i, d, numbers in measured:
            yield from _fitted(i, d, number, numbers, is_wrong)


def _fitted(i: int, d: int, number: int, numbers: Numbers, is_wrong: NDArray[np.bool_]) -> Iterator[tuple[int, Rule]]:
    """That test of a quantity with the parameters that fit, each with how many it parts falsely."""
    test = TESTS[number]
    if (numbers.dtype == np.bool_) == (test.id == "so"):
        for parameters in test.fit(numbers[is_wrong], numbers[~is_wrong]):
            missed = int(np.count_nonzero(test.holds(numbers, *parameters) != is_wrong))
            yield missed, Rule(i, d, number, tuple(int(each) for each in parameters))


def _best_rule(spots: Spots, wrong: NDArray[np.bool_], able: NDArray[np.bool_]) -> tuple[int, Rule]:
    """The simplest rule that parts all lines, or the one that parts most, with the number that it parts falsely.

    Those that part a sample of lines are fitted to all of them: what parts all of them parts any sample.
    """
    chosen = np.concatenate([_spread(np.flatnonzero(each)) for each in (wrong, able)])
    is_wrong = wrong.reshape(-1)[chosen]
    at = np.unravel_index(chosen, wrong.shape)
    sample = spots._replace(at=at, lengths=spots.lengths.reshape(-1)[chosen])
    found = sorted(rules(sample, is_wrong, ~is_wrong), key=lambda each: each[0])
    if len(chosen) == np.count_nonzero(wrong | able):
        return found[0]
    asked = wrong | able
    missed_by: dict[tuple[int, int, int], int] = {}
    for missed, rule in found:
        missed_by.setdefault(rule[:3], missed)
    best: list[tuple[int, Rule]] = []
    for (quantity, d, test), missed in missed_by.items():
        if best and (missed or not best[-1][0]):
            break
        numbers = np.broadcast_to(QUANTITIES[quantity].function(spots, d), wrong.shape)[asked]
        best += sorted(_fitted(quantity, d, test, numbers, wrong[asked]), key=lambda each: each[0])[:1]
    return min(best, key=lambda each: each[0])


def _spread(places: NDArray[np.intp]) -> NDArray[np.intp]:
    """Some of these places, from the first to the last."""
    return places[np.linspace(0, len(places) - 1, min(len(places), _SAMPLE)).astype(np.intp)]


def _is_chance(count: int, others: int) -> bool:
    """Whether so many lines can be parted from so many others in few ways, so that some rule does it by chance."""
    return comb(min(count + others, 64), min(count, others, 32)) < _FEW_WAYS


def rule_among(spots: Spots, wrong: NDArray[np.bool_], others: NDArray[np.bool_]) -> Rule | None:
    """The simplest rule that parts the wrong lines from these others; None if none does, but by chance."""
    missed, rule = _best_rule(spots, wrong, others)
    chance = _is_chance(int(np.count_nonzero(wrong)), int(np.count_nonzero(others)))
    return None if missed or chance else rule


class WrongLines(NamedTuple):
    """How many lines are wrong `of` how many, and by which rule: in words, and its id; both empty where none is found.

    `nearest` has in words what parts them best where no rule does.
    """

    count: int  # type: ignore[assignment] # a tuple has a method of that name
    of: int
    rule: str = ""
    id: str = ""
    nearest: str = ""


def of_lines(spots: Spots, wrong: NDArray[np.bool_]) -> WrongLines:
    """The simplest rule that holds for all wrong lines and no right one; or else for no right one of two or more.

    A line of one element or none looks right whatever happens to it.
    """
    count, of = int(np.count_nonzero(wrong)), wrong.size
    if count in (0, of):
        return WrongLines(count, of, "all lines are wrong" if count else "", "all" if count else "")
    if count == 1:
        index = [int(i[0]) for d, i in enumerate(np.nonzero(wrong))]
        index[spots.axis : spots.axis + 1] = []
        return WrongLines(count, of, f"the only wrong line has the index {index}", "one")
    visible = ~wrong & (spots.lengths > 1)
    if not visible.any():
        return WrongLines(count, of, "wrong are all lines whose length is above 1", "length-above")
    best: list[tuple[int, Rule]] = []
    for able, where in ((~wrong, ""), (visible, " and above 1")):
        missed, rule = _best_rule(spots, wrong, able)
        if not missed:
            others = int(np.count_nonzero(able))
            chance = "; so few lines may be so by chance" if _is_chance(count, others) else ""
            also = where and ", if their length is above 1"
            return WrongLines(count, of, f"wrong are just the lines {rule.text}{also}{chance}", rule.id)
        best.append((missed, rule))
    missed, rule = min(best, key=lambda each: each[0])
    near = f"no one rule parts wrong and right lines; nearest: lines {rule.text}, but for {missed:,}"
    return WrongLines(count, of, nearest=near)
