"""What ports do in place of a reversal, as tables: to lengths, to the order of lines, to places in lines, to values.

Of these are made ideas: a sentence, and from which places of the input the elements of the output come.

A row is a sentence and arithmetic on whole arrays. {k} in a sentence is a number that is read from the wrong output,
{K} one of 2 or more, {N} of 1 or more; {off} tells it as "2 too large", {ahead} as "2 ahead" or "2 behind".
"""

from __future__ import annotations

import itertools
from functools import partial
from math import inf, prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.porting.sample import HUGE, mirrored, noun, number_of, place_of, put, words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from revseq_cli.porting.sample import Places, Sample

    Array = NDArray[Any]
    Row = Callable[..., Array]
    Place = Callable[[Places, Any], Places]


def worded(text: str, *numbers: int) -> str:
    """The sentence with its number; where several are as good, with the first three."""
    first, several = numbers[0], " or ".join(map(str, numbers[:3]))
    off = f"{abs(first)} too {'large' if first > 0 else 'small'}"
    ahead = f"{abs(first)} {'ahead' if first > 0 else 'behind'}"
    return text.format(k=first, N=several, K=several, off=off, ahead=ahead)


def _as_float(n: Array, bits: int) -> Array:
    """Lengths rounded to floats of FLOAT32's exponent that have lost so many bits."""
    return _rounded(np.minimum(n, 1 << 60).astype(np.float32), bits, nearest=True).astype(np.int64)


# By which length a line is reversed: n is its own, s the axis size, g has all lengths. Below 0 is 0, above s is s.
LENGTHS: tuple[tuple[int, str, Callable[..., Array]], ...] = (
    (0, "nothing is reversed: the output is the input", lambda n, s, k, g: n * 0),
    (0, "whole lines are reversed", lambda n, s, k, g: n * 0 + s),
    (1, "lengths are {off}", lambda n, s, k, g: n + k),
    (1, "lengths are {off} after they are clamped", lambda n, s, k, g: np.minimum(n, s) + k),
    (2, "lengths are {off}, and one below 0 is the whole line", lambda n, s, k, g: np.where(n + k < 0, s, n + k)),
    (1, "lengths are at most {N}", lambda n, s, k, g: np.minimum(n, k)),
    (1, "lengths are at least {N}", lambda n, s, k, g: np.maximum(n, k)),
    (1, "lengths are taken modulo {K}", lambda n, s, k, g: n % k),
    (1, "lengths above the axis size are taken modulo it", lambda n, s, k, g: np.where(n > s, n % s, n)),
    (1, "lengths are divided by {K}, rounded down", lambda n, s, k, g: n // k),
    (1, "lengths are divided by {K}, rounded up", lambda n, s, k, g: -(-n // k)),
    (2, "lengths are divided by {K} after they are clamped", lambda n, s, k, g: np.minimum(n, s) // k),
    (1, "lengths are multiplied by {K}", lambda n, s, k, g: n * k),
    (1, "the axis size minus the length is reversed", lambda n, s, k, g: s - np.minimum(n, s)),
    (1, "lengths are rounded down to multiples of {K}", lambda n, s, k, g: n - n % k),
    (1, "lengths are rounded up to multiples of {K}", lambda n, s, k, g: n + -n % k),
    (1, "lengths are rounded to the nearest multiple of {K}", lambda n, s, k, g: (n + k // 2) // k * k),
    (1, "lengths are rounded down to powers of 2", lambda n, s, k, g: np.exp2(np.floor(np.log2(n))).astype(np.int64)),
    (1, "lengths are rounded up to powers of 2", lambda n, s, k, g: np.exp2(np.ceil(np.log2(n))).astype(np.int64)),
    (1, "lengths are rounded to BFLOAT16", lambda n, s, k, g: _as_float(n, 16)),
    (1, "lengths are rounded to FLOAT16", lambda n, s, k, g: np.minimum(n, 65504).astype("f2").astype(np.int64)),
    (2, "lengths are signed numbers modulo {K}, and those below 0 are 0",
     lambda n, s, k, g: (n + k // 2) % k - k // 2),
    (2, "lengths have the bits {k} turned over", lambda n, s, k, g: n ^ k),
    (1, "all lines are reversed by the longest length", lambda n, s, k, g: n * 0 + g.max()),
    (1, "all lines are reversed by the shortest length", lambda n, s, k, g: n * 0 + g.min()),
    (1, "all lines are reversed by the mean length", lambda n, s, k, g: n * 0 + int(np.minimum(g, s).mean())),
    (2, "all lines are reversed by the length {N}", lambda n, s, k, g: n * 0 + k),
)  # fmt: skip

# From which index comes what belongs at index i, of c indices; g has the lengths in this order, where there are such.
ORDERS: tuple[tuple[int, str, Callable[..., Array]], ...] = (
    (1, "in reverse order", lambda i, c, k, g: c - 1 - i),
    (2, "from index {k} for all", lambda i, c, k, g: i * 0 + k),
    (1, "from index 0 for all", lambda i, c, k, g: i * 0),
    (1, "from the index {ahead}, around the ends", lambda i, c, k, g: (i + k) % c),
    (1, "from the index {ahead}, or the outermost one", lambda i, c, k, g: np.clip(i + k, 0, c - 1)),
    (1, "from the index {ahead}, with zeros outside", lambda i, c, k, g: i + k),
    (1, "from the index modulo {K}", lambda i, c, k, g: i % k),
    (1, "from the index divided by {K}", lambda i, c, k, g: i // k),
    (1, "in reverse order in each group of {K}", lambda i, c, k, g: np.minimum(i // k * k + k, c) - 1 - i % k),
    (1, "sorted by length, the shortest first", lambda i, c, k, g: np.argsort(g, kind="stable")[i]),
    (1, "sorted by length, the longest first", lambda i, c, k, g: np.argsort(-g, kind="stable")[i]),
    (1, "as they were before a sort by length, the shortest first",
     lambda i, c, k, g: np.argsort(np.argsort(g, kind="stable"))[i]),
    (1, "as they were before a sort by length, the longest first",
     lambda i, c, k, g: np.argsort(np.argsort(-g, kind="stable"))[i]),
)  # fmt: skip

# From which index of its line an element comes, of the clamped length n: at the "start", before the length, or in the
# "rest" behind it, the other part being right; or in the whole "line". Outside of the line are zeros. A row of "long"
# has the length as it is given; with one of "memory", other lines are outside.
PLACES: tuple[tuple[str, str, Callable[..., Array]], ...] = (
    ("start", "elements are read from the index {ahead}, with zeros outside", lambda j, n, s, k: n - 1 - j + k),
    ("start", "elements are read from the index {ahead}, or the outermost one",
     lambda j, n, s, k: np.clip(n - 1 - j + k, 0, s - 1)),
    ("start", "elements are read from the index {ahead}, around the ends", lambda j, n, s, k: (n - 1 - j + k) % s),
    ("long", "lengths are not clamped, and zeros are read behind the line", lambda j, n, s, k: mirrored(j, n)),
    ("long", "lengths are not clamped, and the last element is read behind the line",
     lambda j, n, s, k: np.minimum(mirrored(j, n), s - 1)),
    ("memory", "lengths are not clamped, and the memory behind the line is read", lambda j, n, s, k: mirrored(j, n)),
    ("start", "the reversed part is rotated by {k}", lambda j, n, s, k: (n - 1 - j + k) % n),
    ("start", "what is before the length is rotated by {k}, not reversed", lambda j, n, s, k: (j - k) % n),
    ("start", "the first {N} stay, and the others before the length are reversed",
     lambda j, n, s, k: np.where(j < k, j, n - 1 - j + k)),
    ("start", "the two halves of the part are reversed each by itself",
     lambda j, n, s, k: np.where(j < n // 2, n // 2, n + n // 2) - 1 - j),
    ("start", "the two halves of the part change places, and are not reversed",
     lambda j, n, s, k: (j + (n + 1) // 2) % n),
    ("start", "each tile of {K} is reversed by itself", lambda j, n, s, k: np.minimum(j // k * k + k, n) - 1 - j % k),
    ("start", "each whole tile of {K} is reversed by itself, and the rest of the part stays",
     lambda j, n, s, k: np.where(j < n // k * k, j // k * k + k - 1 - j % k, j)),
    ("start", "tiles of {K}, from the end on, are in reverse order, but not what is in them",
     lambda j, n, s, k: np.maximum(n - (j // k + 1) * k, 0) + j % k),
    ("line", "each tile of {K} of the line is reversed by itself, whatever the length",
     lambda j, n, s, k: np.minimum(j // k * k + k, s) - 1 - j % k),
    ("start", "tiles of {K} are in reverse order, but not what is in them",
     lambda j, n, s, k: np.minimum((i := n - 1 - j) // k * k + k, n) - 1 - i % k),
    ("start", "elements at even indices come first, then those at odd ones",
     lambda j, n, s, k: np.where(2 * j < n, 2 * j, 2 * (j - (n + 1) // 2) + 1)),
    ("start", "each reversed element is taken {K} times", lambda j, n, s, k: n - 1 - j // k),
    ("start", "of the reversed elements, each {K}th is taken", lambda j, n, s, k: n - 1 - j * k),
    ("start", "the first element fills the reversed part", lambda j, n, s, k: j * 0),
    ("start", "the last element before the length fills the reversed part", lambda j, n, s, k: n - 1),
    ("start", "indices are taken modulo {K}", lambda j, n, s, k: (n - 1 - j) % k),
    ("start", "only the first half is written: it is reversed in place, without a buffer",
     lambda j, n, s, k: np.maximum(j, n - 1 - j)),
    ("start", "only the second half is written: it is reversed in place, without a buffer",
     lambda j, n, s, k: np.minimum(j, n - 1 - j)),
    ("start", "of the part, only {N} at each end are exchanged",
     lambda j, n, s, k: np.where(np.minimum(j, n - 1 - j) < k, n - 1 - j, j)),
    ("start", "of the part, {N} at each end stay",
     lambda j, n, s, k: np.where(np.minimum(j, n - 1 - j) < k, j, n - 1 - j)),
    ("start", "of the part, the middle {N} or so stay",
     lambda j, n, s, k: np.where(np.abs(2 * j - n + 1) <= k, j, n - 1 - j)),
    ("start", "indices are combined with the length minus 1 by exclusive or", lambda j, n, s, k: j ^ (n - 1)),
    ("start", "indices are combined with {K} by exclusive or", lambda j, n, s, k: j ^ k),
    ("start", "the part comes from the end of the reversed line", lambda j, n, s, k: s - 1 - j),
    ("line", "the line is rotated by its length, and not reversed", lambda j, n, s, k: (j + n) % s),
    ("line", "the line is rotated back by its length, and not reversed", lambda j, n, s, k: (j - n) % s),
    ("line", "the whole line is reversed, and rotated the wrong way by its length",
     lambda j, n, s, k: s - 1 - (j + n) % s),
    ("line", "the end of the line is reversed, not its start", lambda j, n, s, k: s - 1 - mirrored(s - 1 - j, n)),
    ("line", "only what is behind the length is reversed", lambda j, n, s, k: np.where(j < n, j, s - 1 - j + n)),
    ("line", "the reversed part ends the line, behind zeros", lambda j, n, s, k: np.where(j < s - n, -1, s - 1 - j)),
    ("line", "the reversed part ends the line, behind the rest", lambda j, n, s, k: mirrored((j + n) % s, n)),
    ("line", "what is before the length ends the line, not reversed, behind zeros", lambda j, n, s, k: j - s + n),
    ("line", "what is behind the length begins the line, and zeros end it",
     lambda j, n, s, k: np.where(j + n < s, j + n, -1)),
    ("rest", "what is behind the length is reversed, too", lambda j, n, s, k: s - 1 - j + n),
    ("rest", "what is behind the length is moved by {k}", lambda j, n, s, k: j - k),
    ("rest", "what is behind the length is rotated by {k}", lambda j, n, s, k: n + (j - n - k) % (s - n)),
    ("rest", "behind the length, the line begins again", lambda j, n, s, k: j - n),
    ("rest", "behind the length, the line is read from its start on, but for the first element",
     lambda j, n, s, k: j - n + 1),
    ("rest", "behind the length, the reversed part is repeated", lambda j, n, s, k: n - 1 - j % n),
    ("rest", "behind the length stands the last element before it", lambda j, n, s, k: np.maximum(n, 1) - 1),
    ("rest", "behind the length stands the first element", lambda j, n, s, k: j * 0),
    ("rest", "behind the length stands the last element of the line", lambda j, n, s, k: j * 0 + s - 1),
    ("rest", "behind the length, the whole line is reversed", lambda j, n, s, k: s - 1 - j),
)  # fmt: skip


def _with_words(x: Array, bits: Array) -> Array:
    return bits.astype(f"u{x.itemsize}").view(x.dtype)


def _rounded(x: Array, bits: int, *, nearest: bool) -> Array:
    """Floats without so many low bits: cut, or rounded to the nearest, of two to the even one; NaNs stay."""
    raw = words(x)
    up = ((1 << bits - 1) - 1 + (raw >> bits & 1)) * nearest
    return np.where(x != x, x, _with_words(x, raw + up >> bits << bits))


def _to_float(x: Array, bits: int, *, nearest: bool) -> Array:
    """Values of any float type through a float of FLOAT32's exponent that has lost so many bits."""
    return _rounded(x.astype(np.float32), bits, nearest=nearest).astype(x.dtype)


def _in_parts(x: Array, k: int) -> Array:
    """The words of k bits of each element in the other order."""
    parts = np.ascontiguousarray(x)[..., None].view(f"u{k // 8}")
    return parts[..., ::-1].copy().view(x.dtype)[..., 0]


def _scales(a: Array, r: Array) -> Iterator[float]:
    """By which numbers right values r were multiplied or divided to give a, of few digits if it is one of these."""
    largest = int(np.argmax(np.abs(np.where(np.isfinite(r), r, 0))))
    if a[largest] and r[largest]:
        ratio = float(a[largest]) / float(r[largest])
        if 1e-9 < abs(ratio) < 1e9 and abs(ratio - 1) > 1e-6:
            yield from dict.fromkeys((float(f"{ratio:.4g}"), 1 / float(f"{1 / ratio:.4g}"), ratio))


def _steps(a: Array, _: Array) -> Iterator[float]:
    """Of which numbers all values a may be multiples: refined from the smallest distance between two."""
    values = np.unique(np.abs(a[np.isfinite(a)].astype(np.float64)))
    gaps = np.diff(np.concatenate([[0.0], values]))
    gaps = gaps[gaps > (values[-1] if len(values) else 0) * 1e-7]
    if not len(gaps) or len(values) < 2:
        return
    step = float(gaps.min())
    for value in values:  # the larger a multiple, the better it tells the step
        if round(value / step):
            step = float(value) / round(value / step)
    yield from dict.fromkeys((float(f"{step:.1g}"), float(f"{step:.3g}"), step))


def _line(a: Array, r: Array) -> Iterator[tuple[float, float]]:
    """The factor and the sum by which right values r give a, if they are not all the same."""
    x, y = (values[np.isfinite(a) & np.isfinite(r)].astype(np.float64) for values in (r, a))
    if len(x) > 2 and np.ptp(x) > 0 and np.ptp(y) > 0:
        low, high = int(x.argmin()), int(x.argmax())
        factor = float((y[high] - y[low]) / (x[high] - x[low]))
        added = float(y[low] - factor * x[low])
        if abs(factor - 1) > 1e-5 and abs(added) > 1e-5 * float(np.abs(y).max()):
            yield factor, added


def _to_digits(x: Array, k: int) -> Array:
    """Values in so many digits, as they are printed."""
    wide = x.astype(np.float64)
    unit = 10.0 ** (np.floor(np.log10(np.abs(wide))) - k + 1)
    return np.where(np.isfinite(unit) & (unit > 0), np.rint(wide / unit) * unit, wide).astype(x.dtype)


def _low_zeros(a: Array, _: Array) -> list[int]:
    """How many low bits are 0 in all."""
    bits = int(np.bitwise_or.reduce(words(a)))
    return [(bits & -bits).bit_length() - 1] if bits and not bits & 1 else []


def _multiple(x: Array, k: float, how: Callable[[Array], Array]) -> Array:
    return (how(x.astype(np.float64) / k) * k).astype(x.dtype)


_OFTEN_CAST_TO = ("float16", "float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32")


def _saturated(x: Array, to: str) -> Array:
    limits = np.iinfo(to)
    return np.clip(np.trunc(x), limits.min, limits.max).astype(x.dtype)


# What becomes of right values x of these kinds. `read` gives the numbers k that elements a of the
# output and the right ones r speak for. Those that are `near` are computed otherwise than in a port, to a few units in
# the last place.
VALUES: tuple[tuple[str, bool, str, Callable[..., Array], Callable[[Array, Array], Any] | None], ...] = (
    ("fiuc", False, "values are negated", lambda x, k: np.negative(x), None),
    ("fi", False, "values lose their sign", lambda x, k: np.abs(x), None),
    ("b", False, "values are turned over: true is false", lambda x, k: ~x, None),
    ("iu", False, "all bits of values are turned over", lambda x, k: ~x, None),
    ("c", False, "values are conjugated", lambda x, k: np.conj(x), None),
    ("c", False, "imaginary parts are 0", lambda x, k: x.real.astype(x.dtype), None),
    ("c", False, "real and imaginary parts are exchanged", lambda x, k: (x.imag + 1j * x.real).astype(x.dtype), None),
    ("fiu", False, "the bytes of elements are in the other order", lambda x, k: x.byteswap(), None),
    ("fiu", False, "the words of {k} bits of elements are in the other order", _in_parts,
     lambda a, r: [k for k in (16, 32) if k < 8 * a.itemsize]),
    ("f", False, "values are multiplied by 0, and keep their sign", lambda x, k: np.copysign(x * 0, x), None),
    ("f", False, "NaNs are 0, and infinities the largest finite values", lambda x, k: np.nan_to_num(x), None),
    *(("fiu", False, f"values are cast to {to.upper()} and back", lambda x, k, to=to: x.astype(to).astype(x.dtype),
       None) for to in _OFTEN_CAST_TO),
    *(("f", False, f"values are {verb} to {name}", lambda x, k, bits=bits, nearest=nearest: _to_float(
        x, bits, nearest=nearest), None)
      for name, bits in (("BFLOAT16", 16), ("TF32", 13)) for verb, nearest in (("rounded", True), ("cut", False))),
    *(("f", False, f"values are {verb} to integers{also}", lambda x, k, how=how, zero=zero: how(x) + zero, None)
      for verb, how in (("rounded", np.rint), ("cut", np.trunc), ("rounded down", np.floor), ("rounded up", np.ceil))
      for also, zero in (("", -0.0), (", without -0", 0.0))),
    *(("f", False, f"values are cut to integers and saturated to {to.upper()}",
       lambda x, k, to=to: _saturated(x, to) + 0.0, None) for to in _OFTEN_CAST_TO[3:]),
    ("fiu", False, "the low {k} bits are 0", lambda x, k: _with_words(x, words(x) >> k << k),
     _low_zeros),
    ("fiu", False, "the bits {k:#x} are turned over", lambda x, k: _with_words(x, words(x) ^ words(x).dtype.type(k)),
     lambda a, r: (words(a) ^ words(r))[:1].tolist()),
    ("f", False, "values are a unit in the last place too far from 0",
     lambda x, k: np.nextafter(x, np.copysign(x.dtype.type(inf), x)), None),
    ("f", False, "values are a unit in the last place too near to 0", lambda x, k: np.nextafter(x, x * 0), None),
    ("fiu", True, "{k:g} is added to values", lambda x, k: x + np.array(k).astype(x.dtype),
     lambda a, r: (a - r)[:1].tolist()),
    ("fi", True, "values are multiplied by {k:.6g}", lambda x, k: (x * k).astype(x.dtype), _scales),
    ("f", True, "values are multiplied by {k[0]:.6g}, and {k[1]:.6g} is added",
     lambda x, k: (x * k[0] + k[1]).astype(x.dtype), _line),
    ("iu", False, "the bits of values are moved by {k}", lambda x, k: x << k if k > 0 else x >> -k,
     lambda a, r: (1, -1, 2, -2, 4, -4, 8, -8)),
    *(("f", True, f"values are replaced by their {name}", lambda x, k, f=f: f(x), None)
      for name, f in (("squares", np.square), ("square roots", np.sqrt), ("exponentials", np.exp), ("tanh", np.tanh),
                      ("sigmoid", lambda x: 1 / (1 + np.exp(-x))), ("reciprocals", np.reciprocal),
                      ("logarithms", np.log))),
    ("f", True, "values are rounded to {k} significant digits", _to_digits, lambda a, r: range(2, 8)),
    ("f", True, "values are rounded to {k} decimals", lambda x, k: np.asarray(np.round(x, k)),
     lambda a, r: range(1, 7)),
    ("f", True, "values are rounded to multiples of {k:.6g}", lambda x, k: _multiple(x, k, np.rint), _steps),
    ("f", True, "values are cut to multiples of {k:.6g}", lambda x, k: _multiple(x, k, np.trunc), _steps),
    ("f", True, "values are rounded down to multiples of {k:.6g}", lambda x, k: _multiple(x, k, np.floor), _steps),
    ("fiu", False, "values are clipped to {k[0]:.7g} and {k[1]:.7g}", lambda x, k: np.clip(x, *k),
     lambda a, r: [(a.min(), a.max())] if (a == a).all() else []),
)  # fmt: skip

# What becomes of right values r and the input x at the same place.
MIXED: tuple[tuple[str, Callable[..., Array]], ...] = (
    ("the input is added to what is right", lambda r, x: r + x),
    ("the output is the mean of the input and of what is right", lambda r, x: ((r + x) / 2).astype(r.dtype)),
    ("the input is subtracted from what is right", lambda r, x: r - x),
    ("what is right is subtracted from the input", lambda r, x: x - r),
    ("what is right is multiplied by the input", lambda r, x: r * x),
    ("the output is the larger of the input and of what is right", np.maximum),
    ("the output is the smaller of the input and of what is right", np.minimum),
)


class Idea(NamedTuple):
    """A sentence, how far-fetched it is, and from which places of the input elements come, for numbers k."""

    cost: int
    text: str
    place: Place


def ideas(sample: Sample, *, cleared: bool) -> Iterator[Idea]:
    """All that may have been done to lengths, in lines, to their order, and in memory; also with zeros behind if so."""
    shape, axis = sample.shape, sample.axis
    dims = [d for d, size in enumerate(shape) if size > 1]
    for cost, text, row in LENGTHS:
        yield Idea(cost, text, partial(_by_length, sample, row, False))
        if cleared and cost:
            yield Idea(cost + 1, f"{text}, and zeros are behind them", partial(_by_length, sample, row, True))
    yield from _of_other_lines(sample)
    for part, text, row in PLACES:
        yield Idea(1, text, partial(_in_line, sample, part, row))
    for what, cost, text, move in _moves(sample, dims):
        yield Idea(cost, f"{what} of the output come {text}", partial(_home_of_moved, sample, move))
        yield Idea(cost, f"{what} of the input are read {text}", partial(_moved_home, sample, move))
    for d in dims:
        if d != axis:
            yield Idea(1, f"axis {d} is reversed whole, not {axis}", partial(_flipped, shape, d))
    for a, d, b in itertools.product(dims, dims, dims):
        if (a, d) != (axis, b) and sample.table.shape[d] > 1:
            text = f"axis {a} is reversed" + f", not {axis}" * (a != axis)
            text += f", with lengths by the index in dimension {b}, not {d}" * (b != d)
            yield Idea(1, text, partial(_along_other_axis, sample, a, d, b))
    for order in _orders(shape):
        other = tuple(shape[d] for d in order)
        if other != shape:
            yield Idea(
                1, f"memory of sizes {shape} is taken for one of {other}", partial(_in_other_sizes, sample, order)
            )


def _orders(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Other orders of the axes."""
    return [*itertools.permutations(range(len(shape)))][1:] if len(shape) < 6 else []


# Lengths


def _by_length(sample: Sample, row: Row, is_cleared: bool, at: Places, k: Any) -> Places:
    s, j = sample.shape[sample.axis], at[sample.axis]
    m = np.minimum(row(sample.lengths_at(at), s, k, sample.table.reshape(-1)), s)
    return put(at, sample.axis, np.where(j < m, m - 1 - j, -1) if is_cleared else mirrored(j, m))


def _of_other_lines(sample: Sample) -> Iterator[Idea]:
    table = sample.table
    flat, long = table.reshape(-1), [d for d, size in enumerate(table.shape) if size > 1]
    for d in [None, *long] if len(long) > 1 else long:
        where = "" if len(long) == 1 else " by number" if d is None else f" along dimension {d}"
        for cost, text, row in ORDERS:
            if d is None or len(long) == 1 or "sort" not in text:
                yield Idea(cost, f"lengths are those of other lines{where}: {text}", partial(_by_line, sample, d, row))
    lines = prod(sample.shape) // sample.shape[sample.axis]
    if 1 < table.size < lines:
        for per in (1, lines // table.size):
            text = f", divided by {per}" * (per > 1)
            yield Idea(1, f"lengths are read by the number of the line{text}", partial(_by_number, sample, per))
    tables = {
        "lengths are the sums of all lengths so far": np.cumsum(flat),
        "lengths are the differences to those before": np.diff(flat, prepend=0),
    }
    raw = flat.astype(f"u{sample.width}").tobytes().ljust(8 * flat.size, b"\0")
    for size in (1, 2, 4, 8):
        parts = np.frombuffer(raw[: size * flat.size], f"u{size}")
        tables[f"lengths are read as words of {8 * size} bits"] = np.minimum(
            parts.astype("u8"), np.uint64(HUGE)
        ).astype(np.int64)
    for order in _orders(tuple(table.shape[d] for d in long)):
        text = f"lengths are read with their dimensions in the order {tuple(long[d] for d in order)}"
        tables[text] = flat.reshape([table.shape[d] for d in long]).transpose(order).reshape(-1)
    for text, other in tables.items():
        yield Idea(1, text, partial(_by_table, sample, other.reshape(table.shape)))


def _by_line(sample: Sample, d: int | None, row: Row, at: Places, k: Any) -> Places:
    """Lengths of lines that have another index in dimension d, or another number among the lengths; 0 outside."""
    table = sample.table
    i, size = (sample.line_at(at), table.size) if d is None else (at[d], table.shape[d])
    index = np.where(np.abs(k) < size, row(i, size, k, table.reshape(-1)), i)
    inside = np.clip(index, 0, size - 1)
    lengths = table.reshape(-1)[inside] if d is None else sample.lengths_at(put(at, d, inside))
    return sample.home(at, np.where(index == inside, lengths, 0))


def _by_number(sample: Sample, per: int, at: Places, k: Any) -> Places:
    number = number_of(put(at, sample.axis, np.intp(0)), (*put(sample.shape, sample.axis, 1),))
    return sample.home(at, sample.table.reshape(-1)[number // per % sample.table.size])


def _by_table(sample: Sample, table: Array, at: Places, k: Any) -> Places:
    return sample.home(at, table.reshape(-1)[sample.line_at(at)])


# Places in lines


def _in_line(sample: Sample, part: str, row: Row, at: Places, k: Any) -> Places:
    """As a row of PLACES says; for a k that no line has room for, the right element."""
    axis, shape = sample.axis, sample.shape
    long, j, s = sample.lengths_at(at), at[axis], shape[axis]
    n = long if part in ("long", "memory") else np.minimum(long, s)
    index = row(j, n, s, k)
    if part == "memory":
        return place_of(number_of(at, shape) + (index - j) * prod(shape[axis + 1 :]), shape)
    if part != "line" and part != "long":
        index = np.where((j < n) == (part == "start"), index, mirrored(j, n))
    return put(at, axis, np.where(np.abs(k) < s, index, mirrored(j, np.minimum(n, s))))


# Axes and memory


def _flipped(shape: tuple[int, ...], d: int, at: Places, k: Any) -> Places:
    return put(at, d, shape[d] - 1 - at[d])


def _along_other_axis(sample: Sample, a: int, d: int, b: int, at: Places, k: Any) -> Places:
    lengths = np.minimum(sample.lengths_at(put(at, d, at[b])), sample.shape[a])
    return put(at, a, mirrored(at[a], lengths))


def _in_other_sizes(sample: Sample, order: tuple[int, ...], at: Places, k: Any) -> Places:
    """From where elements come if the memory is taken for that of other sizes, which are these in another order."""
    shape, axis = tuple(sample.shape[d] for d in order), order.index(sample.axis)
    there = place_of(number_of(at, sample.shape), shape)
    n = np.minimum(sample.lengths_at([there[order.index(d)] for d in range(len(order))]), shape[axis])
    return place_of(number_of(put(there, axis, mirrored(there[axis], n)), shape), sample.shape)


def _home_of_moved(sample: Sample, move: Place, at: Places, k: Any) -> Places:
    return sample.home(move(at, k))


def _moved_home(sample: Sample, move: Place, at: Places, k: Any) -> Places:
    return move(sample.home(at), k)


def _moves(sample: Sample, dims: list[int]) -> Iterator[tuple[str, int, str, Place]]:
    """From where elements of a whole tensor may be taken: which, the cost, from where in words, and the places."""
    shape, table = sample.shape, sample.table
    for d in dims:
        row_of_lengths = table.reshape(-1) if table.shape[d] == table.size == shape[d] else None
        for cost, text, row in ORDERS:
            if row_of_lengths is not None or "sort" not in text:
                yield noun(shape, sample.axis, d), cost, text, partial(_indices, shape, d, row, row_of_lengths)
    for order in _orders(shape):
        yield "elements", 1, f"in the memory order of the axes {order}", partial(_memory, shape, order, False)
        text = f"as if their memory had the axes in the order {order}"
        yield "elements", 1, text, partial(_memory, shape, order, True)
    yield "elements", 1, "from the place in memory {ahead}, around the ends", partial(_further, shape, True)
    yield "elements", 1, "from the place in memory {ahead}, with zeros outside", partial(_further, shape, False)


def _indices(shape: tuple[int, ...], d: int, row: Row, lengths: Array | None, at: Places, k: Any) -> Places:
    return put(at, d, np.where(np.abs(k) < shape[d], row(at[d], shape[d], k, lengths), at[d]))


def _memory(shape: tuple[int, ...], order: tuple[int, ...], is_read: bool, at: Places, k: Any) -> Places:
    """From where elements come whose memory has the axes in another order, or is read as if it had."""
    other = tuple(shape[d] for d in order)
    if is_read:
        return place_of(number_of([at[d] for d in order], other), shape)
    there = place_of(number_of(at, shape), other)
    return tuple(there[order.index(d)] for d in range(len(order)))


def _further(shape: tuple[int, ...], is_around: bool, at: Places, k: Any) -> Places:
    number = number_of(at, shape) + k
    return place_of(number % prod(shape) if is_around else number, shape)
