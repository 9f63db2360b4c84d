"""Which lines or elements are wrong: the simplest rule that parts them from others, or their indices by name.

A rule is a quantity of a line or an element, such as its length, and a test of that quantity, such as "is above 7".
Lines that go wrong together, as those of a batch do, are one witness: what so few could fit by chance is no rule.
"""

from __future__ import annotations

from math import lgamma, log, log2, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.porting.sample import named, number_of, put

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from revseq_cli.porting.sample import Places, Sample

    Array = NDArray[Any]
    Test = tuple[int, int, str, Callable[..., Any], Callable[..., Array]]

RULE_BITS = 6.0  # by which a rule must be better than chance
MOST_NAMED = 6  # runs of indices
_SOME = 1 << 11  # of which a rule is read first


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
                and runs <= MOST_NAMED
            ):
                indices = np.broadcast_to(np.ravel(self.at[d]), bad.shape)[bad]
                return named(sample.shape, sample.axis, d, indices, f" of {sample.shape[d]}")
        count = int(np.count_nonzero(wrong))
        if not self.of_lines or wrong.ndim < 3 or count > MOST_NAMED:
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
