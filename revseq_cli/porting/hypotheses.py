"""What ports do in place of a reversal, as tables: to lengths, to the order of lines, to places in lines, to values.

A row is a sentence and arithmetic on whole arrays. A number that is read from the wrong output is {any} in a sentence,
{N} if it is 1 or more, {K} if it is 2 or more; {off} tells it as "2 too large", {ahead} as "2 ahead" or "2 behind". A
place is a tuple of indices in the tensor, an array for each dimension, which broadcast: so a row serves a few elements,
these with many numbers tried at once, and all of a tensor.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from revseq_cli.core.dtypes import bits

Array = NDArray[Any]
Places = Sequence[Any]
Row = Callable[..., Array]

# By which length a line is reversed: n is its own, s the axis size, g has all lengths. Below 0 is 0, above s is s. The
# first number is the cost: of two sentences that explain all, the one of less cost is told.
LENGTHS: tuple[tuple[int, str, Row], ...] = (
    (0, "nothing is reversed: the output is the input", lambda n, s, k, g: n * 0),
    (0, "whole lines are reversed", lambda n, s, k, g: n * 0 + s),
    (1, "lengths are {off}", lambda n, s, k, g: n + k),
    (1, "lengths are {off} after they are clamped", lambda n, s, k, g: np.minimum(n, s) + k),
    (2, "lengths are {off}, and one below 0 is the whole line", lambda n, s, k, g: np.where(n + k < 0, s, n + k)),
    (1, "lengths are at most {N}", lambda n, s, k, g: np.minimum(n, k)),
    (1, "lengths are taken modulo {K}", lambda n, s, k, g: n % k),
    (1, "lengths are divided by {K}, rounded down", lambda n, s, k, g: n // k),
    (1, "lengths are multiplied by {K}", lambda n, s, k, g: n * k),
    (1, "the axis size minus the length is reversed", lambda n, s, k, g: s - np.minimum(n, s)),
    (1, "lengths are rounded down to multiples of {K}", lambda n, s, k, g: n - n % k),
    (1, "lengths are rounded up to multiples of {K}", lambda n, s, k, g: n + -n % k),
    (2, "lengths are rounded to BFLOAT16", lambda n, s, k, g: _to_bfloat16(n * 1.0, nearest=True).astype(np.int64)),
    (1, "all lines are reversed by the longest length", lambda n, s, k, g: n * 0 + g.max()),
    (2, "all lines are reversed by the length {N}", lambda n, s, k, g: n * 0 + k),
)

# From which index comes what belongs at index i, of c indices; g has the lengths in this order, where there are such.
ORDERS: tuple[tuple[int, str, Row], ...] = (
    (1, "in reverse order", lambda i, c, k, g: c - 1 - i),
    (1, "from index 0 for all", lambda i, c, k, g: i * 0),
    (2, "from index {any} for all", lambda i, c, k, g: i * 0 + k),
    (1, "from the index {ahead}, around the ends", lambda i, c, k, g: (i + k) % c),
    (1, "from the index {ahead}, or the outermost one", lambda i, c, k, g: np.clip(i + k, 0, c - 1)),
    (1, "from the index {ahead}, with zeros outside", lambda i, c, k, g: i + k),
    (1, "from the index modulo {K}", lambda i, c, k, g: i % k),
    (1, "in reverse order in each group of {K}", lambda i, c, k, g: np.minimum(i // k * k + k, c) - 1 - i % k),
    (1, "sorted by length, the longest first", lambda i, c, k, g: np.argsort(-g, kind="stable")[i]),
    (1, "as they were before such a sort", lambda i, c, k, g: np.argsort(np.argsort(-g, kind="stable"))[i]),
)

# From which index of its line an element comes, of the clamped length n: at the "start", before the length, or in the
# "rest" behind it, the other part being right; or in the whole "line". Outside of the line are zeros. A row of "long"
# has the length as it is given; with one of "memory", other lines are outside.
PLACES: tuple[tuple[str, str, Row], ...] = (
    ("start", "elements are read from the index {ahead}, with zeros outside", lambda j, n, s, k: n - 1 - j + k),
    ("start", "elements are read from the index {ahead}, around the ends", lambda j, n, s, k: (n - 1 - j + k) % s),
    ("start", "elements are read from the index {ahead}, or the outermost one",
     lambda j, n, s, k: np.clip(n - 1 - j + k, 0, s - 1)),
    ("memory", "lengths are not clamped, and the memory behind the line is read", lambda j, n, s, k: mirrored(j, n)),
    ("long", "lengths are not clamped, and zeros are read behind the line", lambda j, n, s, k: mirrored(j, n)),
    ("long", "lengths are not clamped, and the line is read around its end", lambda j, n, s, k: mirrored(j, n) % s),
    ("start", "the reversed part is rotated by {any}", lambda j, n, s, k: (n - 1 - j + k) % n),
    ("start", "what is before the length is rotated by {any}, not reversed", lambda j, n, s, k: (j - k) % n),
    ("start", "the first {N} stay, the others are reversed", lambda j, n, s, k: np.where(j < k, j, n - 1 - j + k)),
    ("start", "each tile of {K} is reversed by itself", lambda j, n, s, k: np.minimum(j // k * k + k, n) - 1 - j % k),
    ("start", "tiles of {K} are in reverse order, but not what is in them",
     lambda j, n, s, k: np.minimum((i := n - 1 - j) // k * k + k, n) - 1 - i % k),
    ("start", "only the first half is written: it is in place", lambda j, n, s, k: np.maximum(j, n - 1 - j)),
    ("start", "the first element fills the reversed part", lambda j, n, s, k: j * 0),
    ("start", "the part comes from the end of the reversed line", lambda j, n, s, k: s - 1 - j),
    ("line", "the line is rotated by its length, and not reversed", lambda j, n, s, k: (j + n) % s),
    ("line", "the line is rotated back by its length, and not reversed", lambda j, n, s, k: (j - n) % s),
    ("line", "the line is reversed whole, and rotated the wrong way", lambda j, n, s, k: s - 1 - (j + n) % s),
    ("line", "the end of the line is reversed, not its start", lambda j, n, s, k: s - 1 - mirrored(s - 1 - j, n)),
    ("line", "the line is reversed whole, with zeros behind", lambda j, n, s, k: np.where(j < n, s - 1 - j, -1)),
    ("line", "only what is behind the length is reversed", lambda j, n, s, k: np.where(j < n, j, s - 1 - j + n)),
    ("line", "the reversed part ends the line, behind zeros", lambda j, n, s, k: np.where(j < s - n, -1, s - 1 - j)),
    ("line", "the reversed part ends the line, behind the rest", lambda j, n, s, k: mirrored((j + n) % s, n)),
    ("rest", "what is behind the length is reversed, too", lambda j, n, s, k: s - 1 - j + n),
    ("rest", "behind the length, the whole line is reversed", lambda j, n, s, k: s - 1 - j),
    ("rest", "behind the length, the line begins again", lambda j, n, s, k: j - n),
    ("rest", "behind the length, the reversed part is repeated", lambda j, n, s, k: n - 1 - j % n),
    ("rest", "behind the length stands the last element before it", lambda j, n, s, k: np.maximum(n, 1) - 1),
    ("rest", "behind the length stands the first element", lambda j, n, s, k: j * 0),
)  # fmt: skip


def changes(x: Array, a: Array, r: Array) -> Iterator[tuple[int, str, Any]]:
    """What may have become of values like x, where elements a stand for right ones r: cost, words, and how."""
    dtype, kind = x.dtype, x.dtype.kind
    if kind in "fiuc":
        yield 1, "values are negated", np.negative
    if kind not in "fiu":
        return
    yield 1, "values lose their sign", np.abs
    yield 1, "values below 0 are 0", lambda x: np.where(x < 0, dtype.type(0), x)
    yield 1, "the bytes of elements are in the other order", lambda x: x.byteswap()
    for to in ("float16", "float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32"):
        yield 1, f"values are cast to {to.upper()} and back", lambda x, to=to: x.astype(to).astype(dtype)
    if (a == a).all():
        low, high = a.min(), a.max()
        yield 2, f"values are clipped to {low:.7g} and {high:.7g}", lambda x: np.clip(x, low, high)
    x_y = np.stack([r, a]).astype(np.float64)
    x_y = x_y[:, np.isfinite(x_y).all(0)]
    if x_y.shape[1] > 1 and np.ptp(x_y, 1).all():  # factor and sum, as the least and the greatest tell; of few digits
        (x_low, y_low), (x_high, y_high) = x_y[:, x_y[0].argmin()], x_y[:, x_y[0].argmax()]
        factor = (y_high - y_low) / (x_high - x_low)
        for k in (1.0, float(f"{factor:.4g}"), 1 / float(f"{1 / factor:.4g}"), factor) if factor else ():
            added = y_low - k * x_low if k in (1, factor) else 0.0
            text = f"values are multiplied by {k:.6g}" + (f", and {added:.6g} is added" if added else "")
            yield 2, f"{added:.6g} is added to values" if k == 1 else text, lambda x, k=k, added=added: (
                x + dtype.type(added) if k == 1 and kind != "f" else (x * k + added).astype(dtype))  # fmt: skip
    if kind != "f":
        return
    yield 1, "denormal values are 0", lambda x: np.where(np.abs(x) < np.finfo(dtype).tiny, dtype.type(0), x)
    yield 1, "NaNs are 0, and infinities the largest numbers", np.nan_to_num
    for verb, nearest in (("rounded", True), ("cut", False)):
        yield 1, f"values are {verb} to BFLOAT16", partial(_to_bfloat16, nearest=nearest)
    for verb, how in (("rounded", np.rint), ("cut", np.trunc), ("rounded down", np.floor)):
        yield 1, f"values are {verb} to integers", how
    for k in range(1, 8):
        yield 2, f"values are rounded to {k} decimals", partial(np.round, decimals=k)
        digits = np.frompyfunc(lambda value, k=k: float(f"{value:.{k}g}"), 1, 1)
        yield 2, f"values are rounded to {k} significant digits", lambda x, f=digits: f(x).astype(dtype)
    values = np.unique(np.abs(a[np.isfinite(a)].astype(np.float64)))
    gaps = np.diff(values, prepend=0)
    unit = float(gaps[gaps > values.max(initial=0) * 1e-7].min(initial=np.inf))
    for value in values[values > unit / 2]:  # each larger multiple tells it better
        unit = float(value / np.rint(value / unit))
    for k in (float(f"{unit:.1g}"), float(f"{unit:.3g}"), unit) if len(values) > 1 else ():
        yield 2, f"values are rounded to multiples of {k:.6g}", lambda x, k=k: (np.rint(x / k) * k).astype(dtype)


def _to_bfloat16(x: Array, *, nearest: bool) -> Array:
    """Floats rounded to the nearest of FLOAT32's upper halves, of two to the even one, or cut to them."""
    single = x.astype(np.float32)
    words = bits(single)
    words = words + (0x7FFF + (words >> 16 & 1)) * nearest >> 16 << 16
    return np.where(x != x, single, words.astype("u4").view("f4")).astype(x.dtype)


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


def mirrored(j: Array, n: Array) -> Array:
    """The index from which the element at index j of a line comes whose length is n."""
    return np.where((j >= 0) & (j < n), n - 1 - j, j)


class Lines(NamedTuple):
    """The lines of a tensor along an axis, with lengths of size 1 in each dimension along which they are the same.

    These are integers of at least 0, and each took `width` bytes.
    """

    shape: tuple[int, ...]
    axis: int
    lengths: Array
    width: int

    def number(self, at: Places) -> Any:
        """The number of each place's line in the lengths."""
        pairs = zip(at, self.lengths.shape, strict=True)
        inside = [np.minimum(np.maximum(i, 0), size - 1) if size > 1 else np.intp(0) for i, size in pairs]
        return number_of(inside, self.lengths.shape)

    def length(self, at: Places) -> Array:
        """The lengths of the lines of places."""
        return self.lengths.reshape(-1)[self.number(at)]  # type: ignore[no-any-return]

    def home(self, at: Places, lengths: Array | None = None) -> Places:
        """Where the elements come from that belong at places, or would if lines had other lengths."""
        n = np.minimum(self.length(at) if lengths is None else lengths, self.shape[self.axis])
        return put(at, self.axis, mirrored(at[self.axis], n))

    def named(self, d: int, indices: list[int]) -> str:
        """What some indices of a dimension are called."""
        numbers = ", ".join(map(str, indices))
        if d == (0 if self.axis else 1):
            return f"batch {numbers}" if len(indices) == 1 else f"batches {numbers}"
        return f"index {numbers} in dimension {d}"


class Idea(NamedTuple):
    """A sentence, how far-fetched it is, and from which places of the input elements come, for numbers k."""

    cost: int
    text: str
    place: Any  # a function of places and k; mypy infers no type of a lambda with defaults

    def worded(self, *numbers: int) -> str:
        """The sentence with its number; where several are as good, with the first three."""
        k, several = numbers[0], " or ".join(map(str, numbers[:3]))
        off, ahead = (f"{abs(k)} {words[k < 0]}" for words in (("too large", "too small"), ("ahead", "behind")))
        return self.text.format(any=k, N=several, K=several, off=off, ahead=ahead)


def ideas(lines: Lines) -> Iterator[Idea]:
    """All that may have been done to lengths, in lines, to their order, and in memory."""
    shape, axis, table, width = lines
    flat, s, home, length = table.reshape(-1), shape[axis], lines.home, lines.length
    dims = [d for d, size in enumerate(shape) if size > 1]
    for cost, text, row in LENGTHS:
        yield Idea(cost, text, lambda at, k, row=row: home(at, row(length(at), s, k, flat)))

    def of_part(at: Places, k: Any, part: str, row: Row) -> Places:
        long, j = length(at), at[axis]
        clamped = np.minimum(long, s)
        index = row(j, long if part in ("long", "memory") else clamped, s, k)
        if part == "memory":
            return place_of(number_of(at, shape) + (index - j) * prod(shape[axis + 1 :]), shape)
        if part in ("start", "rest"):
            index = np.where((j < clamped) == (part == "start"), index, mirrored(j, clamped))
        return put(at, axis, np.where(np.abs(k) < s, index, mirrored(j, clamped)))

    for part, text, row in PLACES:
        yield Idea(1, text, partial(of_part, part=part, row=row))

    yield from _of_other_lines(lines)
    for d in {*dims} - {axis}:
        text = f"axis {d} is reversed whole, not {axis}"
        yield Idea(1, text, lambda at, k, d=d: put(at, d, shape[d] - 1 - at[d]))
    for a, d, b in itertools.product(dims, dims, dims):
        if (a, d) != (axis, b) and table.shape[d] > 1:
            text = f"axis {a} is reversed" + ("" if a == axis else f", not {axis}")
            text += "" if b == d else f", with lengths by the index in dimension {b}, not {d}"
            yield Idea(1, text, lambda at, k, a=a, d=d, b=b: put(
                at, a, mirrored(at[a], np.minimum(length(put(at, d, at[b])), shape[a]))))  # fmt: skip

    for what, cost, text, move in _moves(lines, dims):
        yield Idea(cost, f"{what} of the output come {text}", lambda at, k, move=move: home(move(at, k)))
        yield Idea(cost, f"{what} of the input are read {text}", lambda at, k, move=move: move(home(at), k))
    for order, sizes in orders(shape):
        if sizes != shape:
            there = Lines(sizes, order.index(axis), table.transpose(order), width)
            text = f"memory of sizes {shape} is taken for one of {sizes}"
            yield Idea(1, text, lambda at, k, there=there: place_of(
                number_of(there.home(place_of(number_of(at, shape), there.shape)), there.shape), shape))  # fmt: skip


def _of_other_lines(lines: Lines) -> Iterator[Idea]:
    """What may have been done to the table of lengths, which each line reads at its own place."""
    flat, home = lines.lengths.reshape(-1), lines.home

    def of_other(at: Places, k: Any, row: Row) -> Places:
        index = np.where(np.abs(k) < flat.size, row(own := lines.number(at), flat.size, k, flat), own)
        return home(at, np.where((index >= 0) & (index < flat.size), flat[index % flat.size], 0))

    for cost, text, row in ORDERS if flat.size > 1 else ():
        yield Idea(cost, f"lengths are those of other lines: {text}", partial(of_other, row=row))
    others = {"lengths are the sums of all lengths so far": np.cumsum(flat)}
    for size in (2, 4, 8):
        raw = flat.astype(f"u{lines.width}").tobytes().ljust(8 * flat.size, b"\0")[: size * flat.size]
        others[f"lengths are read as words of {8 * size} bits"] = np.frombuffer(raw, f"u{size}").astype(np.int64)
    for text, other in others.items():
        yield Idea(1, text, lambda at, k, other=other: home(at, other[lines.number(at)]))


def _moves(lines: Lines, dims: list[int]) -> Iterator[tuple[str, int, str, Any]]:
    """From where elements of a whole tensor may be taken: which, the cost, from where in words, and the places."""
    shape, axis, table, _ = lines
    for d in dims:
        lengths = table.reshape(-1) if table.shape[d] == table.size == shape[d] else None
        what = "elements of the lines" if d == axis else f"indices in dimension {d}"
        what = "batches" if d == (0 if axis else 1) else what
        for cost, text, row in ORDERS[: None if lengths is not None else -2]:  # the last two sort by length
            yield what, cost, text, lambda at, k, d=d, row=row, lengths=lengths: put(
                at, d, np.where(np.abs(k) < shape[d], row(at[d], shape[d], k, lengths), at[d]))  # fmt: skip
    for order, other in orders(shape):
        back = [order.index(d) for d in range(len(shape))]
        yield "elements", 1, f"in the memory order of the axes {order}", lambda at, k, other=other, back=back: [
            place_of(number_of(at, shape), other)[d] for d in back]  # fmt: skip
        text = f"as if their memory had the axes in the order {order}"
        yield "elements", 1, text, lambda at, k, order=order, other=other: place_of(
            number_of([at[d] for d in order], other), shape)  # fmt: skip
    text, count = "from the place in memory {ahead}", prod(shape)
    yield "elements", 1, f"{text}, around the ends", lambda at, k: place_of((number_of(at, shape) + k) % count, shape)
    yield "elements", 1, f"{text}, with zeros outside", lambda at, k: place_of(number_of(at, shape) + k, shape)


def orders(shape: tuple[int, ...]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Other orders of the axes, with the sizes in that order; none for a rank of 6 or more, which has too many."""
    found = [*itertools.permutations(range(len(shape)))][1:] if len(shape) < 6 else []
    return [(order, tuple(shape[d] for d in order)) for order in found]


def quantities(lines: Lines, at: Places, *, of_lines: bool) -> list[tuple[int, str, Any]]:
    """What a rule may be about, with its cost: of elements, or of lines at their first places."""
    long, s, j = lines.length(at), lines.shape[lines.axis], at[lines.axis]
    rows = [(1, "lines of length 0", long == 0), (2, "lines of length 1", long == 1),
            (1, "lines whose length is above the axis size", long > s), (2, "lines whose length", long)]  # fmt: skip
    for d, size in enumerate(lines.shape):
        if size > 1 and not (d == lines.axis and of_lines):
            rows.append((2, f"{'lines' if d != lines.axis else 'elements'} whose index in dimension {d}", at[d]))
    if not of_lines:
        n = np.minimum(long, s)
        rows[:0] = [(0, "elements behind the length", j >= n), (0, "elements before the length", j < n)]
        rows.append((3, "elements whose distance behind the length", j - n))
        rows.append((4, "elements whose place in memory", number_of(at, lines.shape)))
    return rows
