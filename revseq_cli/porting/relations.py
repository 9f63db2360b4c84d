"""What was done instead of the reversal: tables of relations of lengths, places and values, which take a row.

A row has an id that stays, a text, and a function of arrays. Where the text has {k}, `tries` says which numbers are
tried: they are read from the wrong output. The functions are known by their table and number where they travel to a
worker, since a lambda does not pickle.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.core.dtypes import dtype_of, word
from revseq_cli.core.tensors import DataType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Numbers = NDArray[Any]
    Place = Callable[..., Numbers | int]

# Dimensions that are tried in every order.
_MOST_TURNED = 4


class Relation(NamedTuple):
    """A row: `tries` is the name of the numbers that k may be, and `kind` what the functions of its table need.

    What has a `cost` is told only where nothing simpler explains as much.
    """

    id: str
    text: str
    function: Callable[..., Any]
    tries: str = ""
    kind: str = ""
    cost: int = 0


def _signed(n: Numbers, k: int) -> Numbers:
    """The low k bits as a signed number."""
    return (n + (1 << (k - 1))) % (1 << k) - (1 << (k - 1))


# A length for each length n, and the axis size; neither is clamped. A negative one reverses nothing. With the kind
# "all", it depends on all lengths, and is computed for all of them at once.
LENGTHS = (
    Relation("not-reversed", "the output is the input: nothing is reversed", lambda n, s, k: n * 0),
    Relation("whole-lines", "whole lines are reversed, whatever their lengths are", lambda n, s, k: n * 0 + s),
    Relation("zero-is-whole", "a length of 0 is taken as the whole line", lambda n, s, k: np.where(n == 0, s, n)),
    Relation("minus", "lengths are {k} too small", lambda n, s, k: np.maximum(n, k) - k, "step"),
    Relation("minus", "lengths are {k} too small", lambda n, s, k: np.maximum(np.minimum(n, s), k) - k, "step"),
    Relation("minus-wraps", "lengths are {k} too small, and below 0 becomes the whole line",
             lambda n, s, k: np.where(n < k, s, n - k), "step", cost=2),
    Relation("plus", "lengths are {k} too large", lambda n, s, k: np.minimum(n, s) + k, "step"),
    Relation("at-most", "lengths are clamped to {k}", lambda n, s, k: np.minimum(n, k), "value"),
    Relation("at-least", "lengths are at least {k}", lambda n, s, k: np.maximum(n, k), "value"),
    Relation("above-modulo", "lengths above the axis size are taken modulo it",
             lambda n, s, k: np.where(n > s, n % s, n)),
    Relation("modulo", "lengths are taken modulo the axis size", lambda n, s, k: n % s),
    Relation("halved", "lengths are divided by {k}, rounded down", lambda n, s, k: n // k, "divisor"),
    Relation("halved", "clamped lengths are divided by {k}, rounded down",
             lambda n, s, k: np.minimum(n, s) // k, "divisor"),
    Relation("halved-up", "lengths are divided by {k}, rounded up", lambda n, s, k: -(-n // k), "divisor"),
    Relation("times", "lengths are multiplied by {k}", lambda n, s, k: n * k, "divisor"),
    Relation("complement", "the axis size minus the length is reversed", lambda n, s, k: s - np.minimum(n, s)),
    *(Relation(f"multiple-{id_}", f"lengths are rounded {to} multiple of {{k}}",
               lambda n, s, k, halves=halves: (n + k * halves // 2 - halves // 2) // k * k, "divisor")
      for id_, to, halves in (("down", "down to a", 0), ("near", "to the nearest", 1), ("up", "up to a", 2))),
    *(Relation(f"power-{to}", f"lengths are rounded {to} to a power of 2",
               lambda n, s, k, whole=whole: np.where(n > 0, 2 ** whole(np.log2(np.maximum(n, 1))).astype(int), 0))
      for to, whole in (("down", np.floor), ("up", np.ceil))),
    Relation("low-bits", "only the low {k} bits of each length are used", lambda n, s, k: n & ((1 << k) - 1), "bits"),
    Relation("signed", "lengths are read as signed numbers of {k} bits, and none below 0 reverses",
             lambda n, s, k: _signed(n, k), "bits"),
    Relation("signed-wraps", "lengths are read as signed numbers of {k} bits, and below 0 is the whole line",
             lambda n, s, k: np.where(_signed(n, k) < 0, s, _signed(n, k)), "bits"),
    Relation("saturated", "lengths are saturated at {k} bits", lambda n, s, k: np.minimum(n, (1 << k) - 1), "bits"),
    Relation("float16", "lengths are rounded to FLOAT16",
             lambda n, s, k: np.minimum(n.astype(np.float16).astype(np.float64), 2.0**60).astype(np.int64)),
    Relation("only-from", "only lengths from {k} on are used", lambda n, s, k: np.where(n >= k, n, 0), "given"),
    Relation("only-to", "only lengths up to {k} are used", lambda n, s, k: np.where(n <= k, n, 0), "given"),
    Relation("from-whole", "lengths from {k} on are taken as the whole line",
             lambda n, s, k: np.where(n >= k, s, n), "given"),
    Relation("byte-order", "the bytes of each length are in the other order, for {k} bits",
             lambda n, s, k: n.astype(f"u{k // 8}").byteswap().astype(np.uint64), "words"),
    *(Relation(id_, f"the {id_} length is taken for all",
               lambda n, s, k, of=of: n * 0 + int(of(np.minimum(n, s))), "", "all")
      for id_, of in (("longest", np.max), ("shortest", np.min), ("mean", np.mean))),
    Relation("one-length", "all lines are reversed by the length {k}", lambda n, s, k: n * 0 + k, "value"),
    Relation("sum", "sums of all lengths so far are taken as lengths", lambda n, s, k: np.cumsum(n), "", "all"),
    Relation("difference", "differences from the length before are taken as lengths",
             lambda n, s, k: np.diff(n, prepend=0), "", "all"),
)  # fmt: skip


def _order(n: Numbers) -> Numbers:
    """The places of lengths, the shortest first; small words are sorted in one pass."""
    return np.argsort(n.astype(np.min_scalar_type(int(n.max()))), kind="stable")


def _ranks(order: Numbers) -> Numbers:
    """The place of each number in a permutation of them."""
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return places


# From which place comes what belongs at place i, of so many in a row; beyond the ends there are zeros. With the kind
# "sorted", the function gives the places for all lengths of the row. Ids are those of the families in `candidates`.
PLACES = (
    Relation("", "in reverse order", lambda i, c, k: c - 1 - i),
    Relation("", "the first for all", lambda i, c, k: i * 0),
    Relation("", "the last for all", lambda i, c, k: i * 0 + c - 1),
    Relation("", "that at {k} for all", lambda i, c, k: i * 0 + min(k, c - 1), "small"),
    *(Relation("", f"{{k}} {side}, {rest}", lambda i, c, k, sign=sign, ends=ends: ends(i + sign * k, c), "small")
      for side, sign in (("before", -1), ("behind", 1))
      for rest, ends in (("around the ends", np.mod), ("and the end again", lambda i, c: np.clip(i, 0, c - 1)),
                         ("and zeros", lambda i, c: i))),
    Relation("", "both halves change places", lambda i, c, k: (i + c // 2) % c),
    Relation("", "each block of {k} is in reverse order",
             lambda i, c, k: np.minimum(i // k * k + k, c) - 1 - i % k, "powers"),
    Relation("", "taken in turn from {k} equal parts", lambda i, c, k: i % k * (c // k) + i // k, "powers"),
    *(Relation("", text.format(which), lambda n, of=of, zero=zero: of(_order(np.abs(n - zero(n)))), "", "sorted")
      for text, of in (("sorted, the {} first", np.copy), ("sorted twice, the {} first", lambda order: order[order]),
                       ("as if sorting, the {} first, were taken back", _ranks))
      for which, zero in (("shortest", np.min), ("longest", np.max))),
)  # fmt: skip


def mirrored(j: Numbers, n: Numbers) -> Numbers:
    """Where the right element comes from, for lengths n."""
    return np.where(j < n, n - 1 - j, j)


def _in_blocks(j: Numbers, n: Numbers, k: Numbers | int) -> Numbers:
    """Each block of k elements is reversed alone."""
    return np.where(j < n, j // k * k + np.minimum(j // k * k + k, n) - 1 - j, j)


def _line(id_: str, text: str, place: Place, tries: str = "") -> Relation:
    """A row by the place in the line that each element comes from."""
    return Relation(id_, text, lambda j, m, n, s, k: place(j, n, s, k), tries)


def _start(id_: str, text: str, place: Place, tries: str = "", kind: str = "", cost: int = 0) -> Relation:
    """The same for elements before the length; those behind it stay."""
    return Relation(id_, text, lambda j, m, n, s, k: np.where(j < n, place(j, n, s, k), j), tries, kind, cost)


def _rest(id_: str, text: str, place: Place, tries: str = "") -> Relation:
    """The same for elements behind the length; those before it are right."""
    return Relation(id_, text, lambda j, m, n, s, k: np.where(j < n, n - 1 - j, place(j, n, s, k)), tries)


# Which element of its line stands at index j, for the length as it is (at most twice the axis size), the clamped one n,
# and the axis size s. The kind says what is found outside of the line: zeros, the "neighbour" lines in memory, or what
# is at the end nearest ("clip") or at the other end ("wrap").
ELEMENTS = (
    *(Relation("not-clamped", f"lengths are not clamped: outside of the line, {what}",
               lambda j, m, n, s, k: mirrored(j, m), "", kind)
      for kind, what in (("", "there are zeros"), ("neighbour", "its neighbour is read"),
                         ("clip", "its last element is read"), ("wrap", "reading goes on at its start"))),
    *(_start(f"too-{way}", f"elements are read {{k}} too {way}",
             lambda j, n, s, k, sign=sign: n - 1 - j + sign * k, "small", kind)
      for way, sign in (("far", 1), ("near", -1)) for kind in ("", "neighbour", "clip", "wrap")),
    _start("start-rotated", "reversed parts are rotated by {k}",
           lambda j, n, s, k: (n - 1 - j + k) % np.maximum(n, 1), "either", cost=2),
    _line("line-rotated", "lines are rotated by {k}", lambda j, n, s, k: mirrored((j - k) % s, n), "either"),
    _line("line-shifted", "lines are moved by {k}",
          lambda j, n, s, k: np.where(j < k, -1, mirrored(j - k, n)), "either"),
    _start("rotated-not-reversed", "starts of lines are rotated by {k}, not reversed",
           lambda j, n, s, k: (j - k) % np.maximum(n, 1), "either"),
    _line("whole-rotated", "whole lines are rotated by their lengths, not reversed", lambda j, n, s, k: (j + n) % s),
    _line("reversed-again", "right lines are reversed once more, whole", lambda j, n, s, k: mirrored(s - 1 - j, n)),
    _line("reversed-before", "whole lines are reversed first", lambda j, n, s, k: s - 1 - mirrored(j, n)),
    _line("last-reversed", "line ends are reversed, not starts", lambda j, n, s, k: s - 1 - mirrored(s - 1 - j, n)),
    _line("only-rest", "only what is behind the length is reversed",
          lambda j, n, s, k: np.where(j < n, j, s - 1 - j + n)),
    _line("padded-left", "each reversed part stands at the end of its line, with zeros before it",
          lambda j, n, s, k: np.where(j >= s - n, s - 1 - j, -1)),
    _line("moved-to-end", "each reversed part stands at the end of its line, and what was behind it before it",
          lambda j, n, s, k: mirrored((j + n) % s, n)),
    _line("start-at-end", "the start of each line stands at its end, not reversed, with zeros before it",
          lambda j, n, s, k: np.maximum(j - s + n, -1)),
    _start("first-kept", "the reversal begins {k} too late",
           lambda j, n, s, k: np.where(j < k, j, n - 1 - j + k), "small"),
    *(_start("in-place", "lines are overwritten in place while they are read",
             lambda j, n, s, k, far=far: far(j, n - 1 - j)) for far in (np.minimum, np.maximum)),
    _start("halves-reversed", "both halves of each reversed part are reversed alone",
           lambda j, n, s, k: np.where(j < n // 2, n // 2, n + n // 2) - 1 - j),
    _line("blocks-inside", "blocks of {k} elements are reversed inside, and not their order",
          lambda j, n, s, k: _in_blocks(j, n, k), "powers"),
    _start("blocks-order", "the order of blocks of {k} elements is reversed, and not what is in them",
           lambda j, n, s, k: _in_blocks(mirrored(j, n), n, k), "powers"),
    _line("blocks-order", "the order of whole blocks of {k} elements is reversed, and not what is in them",
          lambda j, n, s, k: np.where(j < n // k * k, n // k * k - k - j // k * k + j % k, j), "powers"),
    _start("multiples-reversed", "only elements whose index is a multiple of {k} change places",
           lambda j, n, s, k: np.where(j % k, j, (n - 1) // k * k - j), "powers"),
    _start("deinterleaved", "elements with even indices come first in each reversed part",
           lambda j, n, s, k: np.where(j < (n + 1) // 2, 2 * j, 2 * (j - (n + 1) // 2) + 1)),
    _start("doubled", "each reversed element is taken {k} times", lambda j, n, s, k: n - 1 - j // k, "powers"),
    _start("first-again", "the first element fills each reversed part", lambda j, n, s, k: 0),
    _start("first-again", "the last element before the length fills each reversed part", lambda j, n, s, k: n - 1),
    _start("from-end", "reading begins at the end of the line, not at the length", lambda j, n, s, k: s - 1 - j),
    _rest("rest-reversed", "what is behind the length is reversed, too", lambda j, n, s, k: s - 1 - j + n),
    _rest("rest-shifted", "what is behind the length is moved by {k}", lambda j, n, s, k: j - k, "either"),
    _rest("rest-shifted", "what is behind the length is rotated by {k}",
          lambda j, n, s, k: n + (j - n - k) % np.maximum(s - n, 1), "either"),
    _rest("rest-from-start", "behind the length, the line begins again", lambda j, n, s, k: j - n),
    _rest("rest-is-last", "behind the length, the last one before it stands", lambda j, n, s, k: np.maximum(n, 1) - 1),
    _rest("rest-is-first", "behind the length, the first element stands", lambda j, n, s, k: 0),
    _start("wrapped", "indices in the line are taken modulo {k}", lambda j, n, s, k: (n - 1 - j) % k, "wrap"),
    _line("wrapped", "indices in the line are taken modulo {k}", lambda j, n, s, k: mirrored(j, n) % k, "wrap"),
)  # fmt: skip


# Values


def truncated(x: Numbers, count: int) -> Numbers:
    """Numbers without so many low bits of their words; NaNs stay."""
    words = x.view(word(x.dtype))
    return np.where(np.isnan(x), words, words & ~words.dtype.type((1 << count) - 1)).view(x.dtype)


def rounded(x: Numbers, count: int) -> Numbers:
    """Floats rounded to nearest, of two to the even one, where so many low bits of their words are lost."""
    words = x.view(word(x.dtype))
    one = words.dtype.type(1)
    up = words + ((one << words.dtype.type(count - 1)) - one) + (words >> words.dtype.type(count) & one)
    return np.where(np.isnan(x), x, truncated(up.view(x.dtype), count))


def _halves(x: Numbers, size: int) -> Numbers:
    """The bytes of each element in words of that size, these in the other order."""
    words = np.ascontiguousarray(x).view(f"u{size}").reshape(*x.shape, -1)
    return np.ascontiguousarray(words[..., ::-1]).view(x.dtype).reshape(x.shape)


def _clipped(x: Numbers, low: float, high: float) -> Numbers:
    limits = np.finfo(x.dtype) if x.dtype.kind == "f" else np.iinfo(x.dtype)
    return np.clip(x, x.dtype.type(max(low, limits.min)), x.dtype.type(min(high, limits.max)))


def _bits_changed(x: Numbers, change: Callable[[Numbers, Any], Numbers], bits: int) -> Numbers:
    """The words of all elements, changed with these bits."""
    words = x.view(word(x.dtype))
    return change(words, words.dtype.type(bits)).view(x.dtype)


# What becomes of right values x of these kinds, in this machine's byte order.
VALUES = (
    Relation("byte-order", "the bytes of each element are in the other order", lambda x, k: x.byteswap(), "", "fiuc"),
    Relation("words-swapped", "the words of {k} bits of each element are in the other order",
             lambda x, k: _halves(x, k // 8), "words", "fiuc"),
    Relation("negated", "values are negated", lambda x, k: np.negative(x), "", "fiuc"),
    Relation("conjugated", "values are conjugated", lambda x, k: np.conj(x), "", "c"),
    Relation("no-sign", "values are without their sign", lambda x, k: np.abs(x), "", "fi"),
    Relation("relu", "negative values are 0", lambda x, k: np.maximum(x, x.dtype.type(0)), "", "fi"),
    Relation("relu", "negative values are 0", lambda x, k: np.where(x < 0, x * 0, x), "", "f"),
    Relation("denormals", "denormal numbers are 0",
             lambda x, k: np.where(np.abs(x) < np.finfo(x.dtype).tiny, x * 0, x), "", "f"),
    *(Relation(id_, text, lambda x, k, to=to, is_so=is_so: np.where(is_so(x), x.dtype.type(to), x), "", "f")
      for id_, text, is_so, to in (
          ("negative-zero", "-0.0 is 0.0", lambda x: x == 0, 0), ("nan-is-0", "every NaN is 0", np.isnan, 0),
          ("usual-nan", "every NaN is the usual one", np.isnan, np.nan))),
    Relation("quiet-nan", "NaNs are made quiet", lambda x, k: np.where(
        np.isnan(x), _bits_changed(x, np.bitwise_or, 1 << np.finfo(x.dtype).nmant - 1), x), "", "f"),
    Relation("infinity", "infinities are the largest finite numbers",
             lambda x, k: _clipped(x, -np.inf, np.inf), "", "f"),
    *(Relation(f"{name}{cut}", f"values are {verb} to {name.upper()}",
               lambda x, k, change=change, lost=lost: change(x.astype(np.float32), lost).astype(x.dtype), "", "f")
      for name, lost in (("bfloat16", 16), ("tf32", 13))
      for cut, verb, change in (("", "rounded", rounded), ("-cut", "cut", truncated))),
    Relation("low-bits-lost", "the low {k} bits of each element are 0", lambda x, k: truncated(x, k), "lost", "fiu"),
    Relation("ulp-up", "values are one unit in the last place farther from 0",
             lambda x, k: _bits_changed(x, np.add, 1), "", "f"),
    Relation("ulp-down", "values are one unit in the last place nearer to 0",
             lambda x, k: _bits_changed(x, np.subtract, 1), "", "f"),
    *(Relation(id_, f"values are {verb} to integers", lambda x, k, whole=whole, zero=zero: whole(x) + zero, "", "f")
      for id_, verb, whole in (("cut-to-integer", "cut", np.trunc), ("integer", "rounded", np.rint),
                               ("floor", "rounded down", np.floor))
      for zero in (-0.0, 0.0)),  # with and without -0.0
    Relation("plus", "values are {k} too large", lambda x, k: x + x.dtype.type(k), "difference", "fiu"),
    Relation("scaled", "values are multiplied by {k}",
             lambda x, k: x * (x.dtype.type(k) if x.dtype.kind == "f" else k), "factor", "fi"),
    Relation("divided", "values are divided by {k}", lambda x, k: x / x.dtype.type(k), "quotient", "f", cost=1),
    Relation("quantised", "values are rounded to multiples of {k}",
             lambda x, k: np.rint(x / x.dtype.type(k)) * x.dtype.type(k), "quantum", "f"),
    Relation("clipped", "values are between -{k} and {k}", lambda x, k: _clipped(x, -k, k), "most", "fi"),
    Relation("inverted", "all bits are turned over", lambda x, k: (~x.view(word(x.dtype))).view(x.dtype), "", "fiu"),
    Relation("only-low-bits", "only the low {k} bits of each element are left",
             lambda x, k: _bits_changed(x, np.bitwise_and, (1 << k) - 1), "fewer", "iu"),
)  # fmt: skip


def changed(number: int, k: float, x: Numbers) -> Numbers:
    """What becomes of values by that row."""
    with np.errstate(all="ignore"):
        return np.asarray(VALUES[number].function(x, k), x.dtype)


def casts(dtype: np.dtype[Any]) -> Iterator[tuple[str, str, np.dtype[Any], bool]]:
    """Casts to another data type and back: id, text, the dtype there, and whether values saturate."""
    for other in DataType if dtype.kind in "fiu" else ():
        to = dtype_of(other)
        alike = other.kind in ("int", "uint") and dtype.kind in "iuf"
        if to != dtype and to.itemsize <= dtype.itemsize and (other.kind == "float" or alike):
            for saturates in (True, False) if alike else (False,):
                told = "rounded" if other.kind == "float" else "saturated" if saturates else "wrapped"
                yield f"{told}-to-{other.name.lower()}", f"values are {told} to {other.name}", to, saturates


def cast(to: np.dtype[Any], x: Numbers, *, saturates: bool) -> Numbers:
    """The values after a cast to another data type and back; with `saturates`, none is beyond what both types hold."""
    with np.errstate(all="ignore"):
        values = np.trunc(x) if x.dtype.kind == "f" and to.kind != "f" else x
        if saturates:
            limits = [np.finfo(each) if each.kind == "f" else np.iinfo(each) for each in (to, x.dtype)]
            values = np.clip(values, max(each.min for each in limits), min(each.max for each in limits))
        elif values.dtype.kind == "f" and to.kind != "f":
            values = np.nan_to_num(values, posinf=0, neginf=0).astype(np.int64)
        return values.astype(to).astype(x.dtype)


# Orders of dimensions


def _simple_orders(dimensions: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The reverse order, and those where one dimension moves, or two change places."""
    yield dimensions[::-1]
    for a, b in itertools.permutations(range(len(dimensions)), 2):
        moved_one, exchanged = [*dimensions], [*dimensions]
        moved_one.insert(b, moved_one.pop(a))
        exchanged[a], exchanged[b] = exchanged[b], exchanged[a]
        yield from ((*moved_one,), (*exchanged,))


def orders(sizes: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Other orders of the dimensions: all that change something, or of more than four dimensions, the simple ones."""
    long = tuple(d for d, size in enumerate(sizes) if size > 1)
    for each in dict.fromkeys((itertools.permutations if len(long) <= _MOST_TURNED else _simple_orders)(long)):
        order = dict(zip(long, each, strict=True))
        if each != long:
            yield tuple(order.get(d, d) for d in range(len(sizes)))
