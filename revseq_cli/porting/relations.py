"""What was done instead of the reversal: tables of relations of lengths, places and values, which take a row.

A row has an id that stays, a text, and a function of arrays. Where the text has {k}, `tries` says which numbers are
tried: they are read from the wrong output. The functions are known by their table and number where they travel to a
worker, since a lambda does not pickle.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.core.dtypes import dtype_of, word
from revseq_cli.core.tensors import DataType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Numbers = NDArray[Any]

_POWERS = (2, 4, 8, 16, 32, 64, 128)
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


def _low_bits(n: Numbers, k: int) -> Numbers:
    return n & ((1 << k) - 1)


def _signed(n: Numbers, k: int) -> Numbers:
    """The low k bits as a signed number."""
    low = _low_bits(n, k)
    return np.where(low >> (k - 1) & 1, low - (1 << k), low)


def _as_float(n: Numbers, k: int) -> Numbers:
    dtype = {16: np.float16, 32: np.float32}[k]
    with np.errstate(all="ignore"):
        return np.nan_to_num(n.astype(dtype).astype(np.float64), posinf=2.0**60).astype(np.int64)


def _order(n: Numbers) -> Numbers:
    """The places of lengths, the shortest first; small words are sorted in one pass."""
    return np.argsort(n.astype(np.min_scalar_type(int(n.max()))), kind="stable")


def _ranks(order: Numbers) -> Numbers:
    """The place of each number in a permutation of them."""
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return places


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
    Relation("plus-not-0", "lengths are {k} too large, but for 0",
             lambda n, s, k: np.where(n > 0, n + k, 0), "step", cost=2),
    Relation("at-most", "lengths are clamped to {k}", lambda n, s, k: np.minimum(n, k), "value"),
    Relation("at-least", "lengths are at least {k}", lambda n, s, k: np.maximum(n, k), "value"),
    Relation("clamped-minus", "lengths are clamped to one less than the axis size",
             lambda n, s, k: np.minimum(n, s - 1)),
    Relation("above-is-0", "lengths above the axis size are taken as 0", lambda n, s, k: np.where(n > s, 0, n)),
    Relation("equal-is-0", "lengths from the axis size on are taken as 0", lambda n, s, k: np.where(n >= s, 0, n)),
    Relation("above-modulo", "lengths above the axis size are taken modulo it",
             lambda n, s, k: np.where(n > s, n % s, n)),
    Relation("above-folded", "lengths above the axis size count back from it",
             lambda n, s, k: np.where(n > s, 2 * s - n, n)),
    Relation("modulo", "lengths are taken modulo the axis size", lambda n, s, k: n % s),
    Relation("modulo-k", "lengths are taken modulo {k}", lambda n, s, k: n % k, "odd"),
    Relation("halved", "lengths are divided by {k}, rounded down", lambda n, s, k: n // k, "divisor"),
    Relation("halved", "clamped lengths are divided by {k}, rounded down",
             lambda n, s, k: np.minimum(n, s) // k, "divisor"),
    Relation("halved-up", "lengths are divided by {k}, rounded up", lambda n, s, k: -(-n // k), "divisor"),
    Relation("halved-up", "clamped lengths are divided by {k}, rounded up",
             lambda n, s, k: -(-np.minimum(n, s) // k), "divisor"),
    Relation("times", "lengths are multiplied by {k}", lambda n, s, k: n * k, "divisor"),
    Relation("complement", "the axis size minus the length is reversed", lambda n, s, k: s - np.minimum(n, s)),
    Relation("complement-minus", "the axis size minus the length minus one is reversed",
             lambda n, s, k: s - 1 - np.minimum(n, s)),
    Relation("multiple-down", "lengths are rounded down to a multiple of {k}",
             lambda n, s, k: n // k * k, "divisor"),
    Relation("multiple-down", "clamped lengths are rounded down to a multiple of {k}",
             lambda n, s, k: np.minimum(n, s) // k * k, "divisor"),
    Relation("multiple-up", "lengths are rounded up to a multiple of {k}", lambda n, s, k: -(-n // k) * k, "divisor"),
    Relation("multiple-near", "lengths are rounded to the nearest multiple of {k}",
             lambda n, s, k: (n + k // 2) // k * k, "divisor"),
    Relation("power-down", "lengths are rounded down to a power of 2",
             lambda n, s, k: np.where(n > 0, 2 ** np.floor(np.log2(np.maximum(n, 1))).astype(int), 0)),
    Relation("power-up", "lengths are rounded up to a power of 2",
             lambda n, s, k: np.where(n > 0, 2 ** np.ceil(np.log2(np.maximum(n, 1))).astype(int), 0)),
    Relation("odd-up", "lengths are made odd", lambda n, s, k: n | 1),
    Relation("xor", "the lowest bit of each length is turned over", lambda n, s, k: n ^ 1),
    Relation("low-bits", "only the low {k} bits of each length are used", lambda n, s, k: _low_bits(n, k), "bits"),
    Relation("signed", "lengths are read as signed numbers of {k} bits, and none below 0 reverses",
             lambda n, s, k: _signed(n, k), "bits"),
    Relation("signed-wraps", "lengths are read as signed numbers of {k} bits, and below 0 is the whole line",
             lambda n, s, k: np.where(_signed(n, k) < 0, s, _signed(n, k)), "bits"),
    Relation("signed-abs", "lengths are read as signed numbers of {k} bits, without their sign",
             lambda n, s, k: np.abs(_signed(n, k)), "bits"),
    Relation("saturated", "lengths are saturated at {k} bits",
             lambda n, s, k: np.minimum(n, (1 << k) - 1), "bits"),
    Relation("saturated-signed", "lengths are saturated as signed numbers of {k} bits",
             lambda n, s, k: np.minimum(n, (1 << (k - 1)) - 1), "bits"),
    Relation("float", "lengths are rounded to floats of {k} bits", lambda n, s, k: _as_float(n, k), "floats"),
    Relation("bfloat16", "lengths are rounded to BFLOAT16",
             lambda n, s, k: rounded(n.astype(np.float32), 16).astype(np.int64)),
    Relation("only-from", "only lengths from {k} on are used", lambda n, s, k: np.where(n >= k, n, 0), "given"),
    Relation("only-to", "only lengths up to {k} are used", lambda n, s, k: np.where(n <= k, n, 0), "given"),
    Relation("from-whole", "lengths from {k} on are taken as the whole line",
             lambda n, s, k: np.where(n >= k, s, n), "given"),
    Relation("byte-order", "the bytes of each length are in the other order, for {k} bits",
             lambda n, s, k: n.astype(f"u{k // 8}").byteswap().astype(np.uint64), "words"),
    Relation("longest", "the longest length is taken for all", lambda n, s, k: n * 0 + n.max(), "", "all"),
    Relation("shortest", "the shortest length is taken for all", lambda n, s, k: n * 0 + n.min(), "", "all"),
    Relation("mean", "the mean length is taken for all",
             lambda n, s, k: n * 0 + int(np.minimum(n, s).mean()), "", "all"),
    Relation("median", "the median length is taken for all",
             lambda n, s, k: n * 0 + int(np.median(np.minimum(n, s))), "", "all"),
    Relation("one-length", "all lines are reversed by the length {k}", lambda n, s, k: n * 0 + k, "value"),
    Relation("rank-of-length", "the place of each length among the sorted ones is taken as length",
             lambda n, s, k: _ranks(_order(n)), "", "all"),
    Relation("sum", "sums of all lengths so far are taken as lengths",
             lambda n, s, k: np.cumsum(n), "", "all"),
)  # fmt: skip

# From which place comes what belongs at place i, of so many in a row; beyond the ends there are zeros. With the kind
# "sorted", the function gives the places for all lengths of the row.
PLACES = (
    Relation("reversed-order", "in reverse order", lambda i, c, k: c - 1 - i),
    Relation("first-for-all", "the first for all", lambda i, c, k: i * 0),
    Relation("last-for-all", "the last for all", lambda i, c, k: i * 0 + c - 1),
    Relation("one-for-all", "that at {k} for all", lambda i, c, k: i * 0 + min(k, c - 1), "small"),
    Relation("before", "{k} before, around the ends", lambda i, c, k: (i - k) % c, "small"),
    Relation("before", "{k} before, and the first again", lambda i, c, k: np.maximum(i - k, 0), "small"),
    Relation("before", "{k} before, and zeros", lambda i, c, k: i - k, "small"),
    Relation("after", "{k} behind, around the ends", lambda i, c, k: (i + k) % c, "small"),
    Relation("after", "{k} behind, and the last again",
             lambda i, c, k: np.minimum(i + k, c - 1), "small"),
    Relation("after", "{k} behind, and zeros", lambda i, c, k: i + k, "small"),
    Relation("halves", "both halves change places", lambda i, c, k: (i + c // 2) % c),
    Relation("halves", "both halves change places", lambda i, c, k: (i - c // 2) % c),
    Relation("swapped", "blocks of {k} change places with their neighbours",
             lambda i, c, k: np.where((i ^ k) < c, i ^ k, i), "powers"),
    Relation("reversed-inside", "each block of {k} is in reverse order",
             lambda i, c, k: np.minimum(i // k * k + k, c) - 1 - i % k, "powers"),
    Relation("second", "one of {k}, around the ends", lambda i, c, k: i * k % c, "powers"),
    Relation("doubled", "each {k} times", lambda i, c, k: i // k, "powers"),
    Relation("modulo", "the first {k} again and again", lambda i, c, k: i % k, "powers"),
    Relation("shortest-first", "sorted, the shortest first",
             lambda n: _order(n), "", "sorted"),
    Relation("longest-first", "sorted, the longest first",
             lambda n: _order(n.max() - n), "", "sorted"),
    Relation("unsorted", "as if sorting, the shortest first, were taken back",
             lambda n: _ranks(_order(n)), "", "sorted"),
    Relation("unsorted-longest", "as if sorting, the longest first, were taken back",
             lambda n: _ranks(_order(n.max() - n)), "", "sorted"),
)  # fmt: skip


def mirrored(j: Numbers, n: Numbers) -> Numbers:
    """Where the right element comes from, for lengths n."""
    return np.where(j < n, n - 1 - j, j)


def _turned(j: Numbers, n: Numbers, k: int) -> Numbers:
    """The place that is so many further in the start of the line, which is a circle."""
    return np.where(j < n, (j + k) % np.maximum(n, 1), j)


def _in_blocks(j: Numbers, n: Numbers, k: Numbers | int) -> Numbers:
    """Each block of k elements is reversed alone."""
    first = j // k * k
    return np.where(j < n, first + np.minimum(first + k, n) - 1 - j, j)


def _outside(j: Numbers, low: int, high: int) -> Numbers:
    """The places in the line, and -1 for those outside."""
    return np.where((j >= low) & (j <= high), j, -1)


def _shifted(j: Numbers, m: Numbers, n: Numbers, s: int, k: int, *, sign: int, step: Callable[..., Any]) -> Numbers:  # noqa: ARG001
    """The right line moved by k; `step` says what is outside."""
    place = step(j + sign * k, 0, s - 1)
    return np.where(place < 0, -1, mirrored(place, n))


# Which element of its line stands at index j, for the length as it is (at most twice the axis size), the clamped one n,
# and the axis size s. The kind says what is found outside of the line: zeros, the "neighbour" lines in memory, or what
# is at the end nearest ("clip") or at the other end ("wrap").
ELEMENTS = (
    Relation("rest-reversed", "what is behind the length is reversed, too",
             lambda j, m, n, s, k: np.where(j < n, n - 1 - j, s - 1 - j + n)),
    *(Relation("not-clamped", f"lengths are not clamped: outside of the line, {what}",
               lambda j, m, n, s, k: mirrored(j, m), "", kind)
      for kind, what in (("", "there are zeros"), ("neighbour", "its neighbour is read"),
                         ("clip", "its last element is read"), ("wrap", "reading goes on at its start"))),
    *(Relation("too-far", "elements are read {k} too far",
               lambda j, m, n, s, k: np.where(j < n, n - 1 - j + k, j), "small", kind)
      for kind in ("", "neighbour", "clip", "wrap")),
    *(Relation("too-near", "elements are read {k} too near",
               lambda j, m, n, s, k: np.where(j < n, n - 1 - j - k, j), "small", kind)
      for kind in ("", "neighbour", "clip", "wrap")),
    Relation("start-rotated", "reversed parts are rotated by {k}",
             lambda j, m, n, s, k: mirrored(_turned(j, n, -k), n), "small", cost=2),
    Relation("start-rotated", "reversed parts are rotated by {k}",
             lambda j, m, n, s, k: mirrored(_turned(j, n, k), n), "small", cost=2),
    Relation("line-rotated", "lines are rotated by {k}", lambda j, m, n, s, k: mirrored((j + k) % s, n), "small"),
    Relation("line-rotated", "lines are rotated by {k}", lambda j, m, n, s, k: mirrored((j - k) % s, n), "small"),
    *(Relation("line-shifted", "lines are moved by {k}", partial(_shifted, sign=sign, step=step), "small")
      for sign in (1, -1) for step in (_outside, np.clip)),
    Relation("rotated-not-reversed", "starts of lines are rotated by {k}, not reversed",
             lambda j, m, n, s, k: _turned(j, n, k), "small"),
    Relation("rotated-not-reversed", "starts of lines are rotated by {k}, not reversed",
             lambda j, m, n, s, k: _turned(j, n, -k), "small"),
    Relation("rotated-halves", "both halves of each start change places, not reversed",
             lambda j, m, n, s, k: np.where(j < n, (j + n // 2) % np.maximum(n, 1), j)),
    Relation("whole-rotated", "whole lines are rotated by their lengths, not reversed",
             lambda j, m, n, s, k: (j + n) % s),
    Relation("whole-rotated", "whole lines are rotated by their lengths, not reversed",
             lambda j, m, n, s, k: (j - n) % s),
    Relation("reversed-again", "lines are reversed whole behind the right reversal",
             lambda j, m, n, s, k: mirrored(s - 1 - j, n)),
    Relation("reversed-before", "lines are reversed whole before the right reversal",
             lambda j, m, n, s, k: s - 1 - mirrored(j, n)),
    Relation("last-reversed", "the last elements of each line are reversed, not the first",
             lambda j, m, n, s, k: s - 1 - mirrored(s - 1 - j, n)),
    Relation("only-rest", "what is behind the length is reversed, and not what is before it",
             lambda j, m, n, s, k: np.where(j < n, j, s - 1 - j + n)),
    Relation("padded-left", "the reversed start of each line is moved to its end, with zeros before it",
             lambda j, m, n, s, k: np.where(j >= s - n, s - 1 - j, -1)),
    Relation("moved-to-end", "the reversed start of each line is moved to its end",
             lambda j, m, n, s, k: np.where(j >= s - n, s - 1 - j, j + n)),
    Relation("start-at-end", "the start of each line is moved to its end, not reversed, with zeros before it",
             lambda j, m, n, s, k: np.where(j >= s - n, j - s + n, -1)),
    Relation("rest-first", "what is behind the length comes first, and then the reversed start",
             lambda j, m, n, s, k: np.where(j < s - n, j + n, s - 1 - j)),
    Relation("only-ends", "only the outer elements of each reversed part are exchanged, {k} at each end",
             lambda j, m, n, s, k: np.where((j < k) | (j >= n - k), mirrored(j, n), j), "small"),
    Relation("ends-kept", "the outer elements of each reversed part are not exchanged, {k} at each end",
             lambda j, m, n, s, k: np.where((j < k) | (j >= n - k), j, mirrored(j, n)), "small"),
    Relation("first-kept", "each line keeps its first {k}, and the others up to the length are reversed",
             lambda j, m, n, s, k: np.where((j >= k) & (j < n), n - 1 - j + k, j), "small"),
    Relation("last-kept", "each line keeps the last {k} before the length, and the others are reversed",
             lambda j, m, n, s, k: mirrored(j, np.maximum(n - k, 0)), "small", cost=2),
    Relation("both-kept", "the first and the last element before the length stay, and the others are reversed",
             lambda j, m, n, s, k: np.where((j > 0) & (j < n - 1), n - 1 - j, j)),
    Relation("middle-kept", "the middle of each reversed part stays, for {k} at both sides of it",
             lambda j, m, n, s, k: np.where((j < n // 2 - k) | (j >= n - n // 2 + k), mirrored(j, n), j), "small"),
    Relation("middle-off", "the middle element of each reversed part is another one",
             lambda j, m, n, s, k: np.where((j < n) & (2 * j == n - 1), np.maximum(j - 1, 0), mirrored(j, n))),
    Relation("in-place", "lines are overwritten in place while they are read",
             lambda j, m, n, s, k: np.where(2 * j < n, mirrored(j, n), j)),
    Relation("in-place", "lines are overwritten in place while they are read",  # from behind
             lambda j, m, n, s, k: np.where(2 * j < n, j, mirrored(j, n))),
    Relation("first-half", "only the first half of each reversed part is exchanged",
             lambda j, m, n, s, k: np.where((j < n // 4) | ((j >= n - n // 4) & (j < n)), mirrored(j, n), j)),
    Relation("halves-reversed", "both halves of each reversed part are reversed alone",
             lambda j, m, n, s, k: _in_halves(j, n, n // 2)),
    Relation("halves-reversed", "both halves of each reversed part are reversed alone",
             lambda j, m, n, s, k: _in_halves(j, n, (n + 1) // 2)),
    Relation("blocks-inside", "blocks of {k} elements are reversed inside, and not their order",
             lambda j, m, n, s, k: _in_blocks(j, n, k), "powers"),
    Relation("blocks-inside", "only whole blocks of {k} elements are reversed inside, and not their order",
             lambda j, m, n, s, k: _in_blocks(j, n // k * k, k), "powers"),
    Relation("blocks-order", "the order of blocks of {k} elements is reversed, and not what is in them",
             lambda j, m, n, s, k: np.where(j < n, _in_blocks(mirrored(j, n), n, k), j), "powers"),
    Relation("blocks-order", "the order of blocks of {k} elements is reversed, and not what is in them",
             lambda j, m, n, s, k: np.where(j < n // k * k, n // k * k - k - j // k * k + j % k, j), "powers"),
    Relation("blocks-order", "the order of blocks of {k} elements is reversed, and not what is in them",
             lambda j, m, n, s, k: np.where(j < n, mirrored(_in_blocks(j, n, k), n), j), "powers"),
    Relation("blocks-order", "the order of whole blocks of {k} elements is reversed, and not what is in them",
             lambda j, m, n, s, k: np.where(j < n, mirrored(_in_blocks(j, n // k * k, k), n), j), "powers"),
    Relation("multiples-reversed", "only elements whose index is a multiple of {k} change places",
             lambda j, m, n, s, k: np.where((j < n) & (j % k == 0), (n - 1) // k * k - j, j), "powers"),
    Relation("multiple-reversed", "only whole blocks of {k} of each reversed part are exchanged",
             lambda j, m, n, s, k: np.where((j < n // 2 // k * k) | ((j >= n - n // 2 // k * k) & (j < n)),
                                            mirrored(j, n), j), "powers"),
    Relation("only-first", "only the first {k} elements of each line are made; the others stay",
             lambda j, m, n, s, k: np.where(j < k, mirrored(j, n), j), "powers"),
    Relation("stride", "of each reversed part, one of {k} elements is read, around its ends",
             lambda j, m, n, s, k: np.where(j < n, (n - 1 - j * k) % np.maximum(n, 1), j), "powers"),
    Relation("deinterleaved", "elements with even indices come first in each start",
             lambda j, m, n, s, k: np.where(j < n, np.where(j < (n + 1) // 2, 2 * j, 2 * (j - (n + 1) // 2) + 1), j)),
    Relation("doubled", "each element of a reversed part is taken {k} times",
             lambda j, m, n, s, k: np.where(j < n, n - 1 - j // k, j), "powers"),
    Relation("first-again", "the element at the length is taken for the whole reversed part",
             lambda j, m, n, s, k: np.where(j < n, n - 1, j)),
    Relation("first-again", "the first element is taken for the whole reversed part",
             lambda j, m, n, s, k: np.where(j < n, 0, j)),
    Relation("from-end", "reading begins at the end of the line, not at the length",
             lambda j, m, n, s, k: np.where(j < n, s - 1 - j, j)),
    *(Relation("rest-shifted", "what is behind the length is moved by {k}",
               lambda j, m, n, s, k: np.where(j < n, n - 1 - j, j + k), "small", kind)
      for kind in ("", "neighbour", "clip")),
    Relation("rest-shifted", "what is behind the length is moved by {k}",
             lambda j, m, n, s, k: np.where(j < n, n - 1 - j, j - k), "small"),
    Relation("rest-shifted", "what is behind the length is moved by {k}",
             lambda j, m, n, s, k: np.where(j < n, n - 1 - j, n + (j - n + k) % np.maximum(s - n, 1)), "small"),
    Relation("rest-shifted", "what is behind the length is moved by {k}",
             lambda j, m, n, s, k: np.where(j < n, n - 1 - j, n + (j - n - k) % np.maximum(s - n, 1)), "small"),
    Relation("rest-from-start", "behind the length, the line begins again",
             lambda j, m, n, s, k: np.where(j < n, n - 1 - j, j - n)),
    Relation("rest-is-last", "behind the length, the last element before it stands again",
             lambda j, m, n, s, k: np.where(j < n, n - 1 - j, np.maximum(n - 1, 0))),
    Relation("rest-is-first", "behind the length, the first element stands again",
             lambda j, m, n, s, k: np.where(j < n, n - 1 - j, 0)),
    Relation("rest-is-end", "behind the length, the last element of the line stands",
             lambda j, m, n, s, k: np.where(j < n, n - 1 - j, s - 1)),
    Relation("wrapped", "indices in the line are taken modulo {k}",
             lambda j, m, n, s, k: np.where(j < n, (n - 1 - j) % k, j), "wrap"),
    Relation("wrapped", "indices in the line are taken modulo {k}", lambda j, m, n, s, k: mirrored(j, n) % k, "wrap"),
)  # fmt: skip


def _in_halves(j: Numbers, n: Numbers, half: Numbers) -> Numbers:
    return np.where(j < half, half - 1 - j, np.where(j < n, n - 1 - j + half, j))


# Values


def truncated(x: Numbers, count: int) -> Numbers:
    """Floats without so many low bits of their words; NaNs stay."""
    words = x.view(word(x.dtype))
    cut = words & ~words.dtype.type((1 << count) - 1)
    return np.where(np.isnan(x), words, cut).view(x.dtype)


def rounded(x: Numbers, count: int) -> Numbers:
    """Floats rounded to nearest, of two to the even one, where so many low bits of their words are lost."""
    words = x.view(word(x.dtype))
    one = words.dtype.type(1)
    up = words + ((one << words.dtype.type(count - 1)) - one) + (words >> words.dtype.type(count) & one)
    return np.where(np.isnan(x), x, truncated(up.view(x.dtype), count))


def _as_float32(x: Numbers, change: Callable[[Numbers, int], Numbers], count: int) -> Numbers:
    return change(x.astype(np.float32), count).astype(x.dtype)


def _halves(x: Numbers, size: int) -> Numbers:
    """The bytes of each element in words of that size, these in the other order."""
    words = np.ascontiguousarray(x).view(f"u{size}").reshape(*x.shape, -1)
    return np.ascontiguousarray(words[..., ::-1]).view(x.dtype).reshape(x.shape)


def _is_denormal(x: Numbers) -> NDArray[np.bool_]:
    return np.asarray(np.abs(x) < np.finfo(x.dtype).tiny)


def _next(x: Numbers, step: int) -> Numbers:
    words = x.view(word(x.dtype))
    moved = words + words.dtype.type(step % (1 << 8 * x.itemsize))
    return np.asarray(np.where(np.isfinite(x), moved, words)).view(x.dtype)


def _infinity(x: Numbers, to: float | None = None) -> Numbers:
    most = np.finfo(x.dtype).max if to is None else to
    return np.where(np.isinf(x), np.copysign(x.dtype.type(most), x), x)


def _clipped(x: Numbers, low: float, high: float) -> Numbers:
    limits = np.finfo(x.dtype) if x.dtype.kind == "f" else np.iinfo(x.dtype)
    return np.clip(x, x.dtype.type(max(low, limits.min)), x.dtype.type(min(high, limits.max)))


def _scaled(x: Numbers, k: float) -> Numbers:
    return np.asarray(x * k if x.dtype.kind != "f" else x * x.dtype.type(k), x.dtype)


def _quantised(x: Numbers, k: float) -> Numbers:
    return np.asarray(np.rint(x / x.dtype.type(k)) * x.dtype.type(k), x.dtype)


# What becomes of right values x of these kinds, in this machine's byte order.
VALUES = (
    Relation("byte-order", "the bytes of each element are in the other order", lambda x, k: x.byteswap(), "", "fiuc"),
    Relation("words-swapped", "the words of {k} bits of each element are in the other order",
             lambda x, k: _halves(x, k // 8), "words", "fiuc"),
    Relation("negated", "values are negated", lambda x, k: np.negative(x), "", "fiuc"),
    Relation("real", "imaginary parts are 0", lambda x, k: x.real, "", "c"),
    Relation("conjugated", "values are conjugated", lambda x, k: np.conj(x), "", "c"),
    Relation("no-sign", "values are without their sign", lambda x, k: np.abs(x), "", "fi"),
    Relation("relu", "negative values are 0", lambda x, k: np.maximum(x, x.dtype.type(0)), "", "fi"),
    Relation("relu", "negative values are 0", lambda x, k: np.where(x > 0, x, x.dtype.type(0)), "", "fi"),
    Relation("relu", "negative values are 0", lambda x, k: np.where(x < 0, x * 0, x), "", "f"),
    Relation("relu", "negative values are 0", lambda x, k: np.where(x < 0, x.dtype.type(0), x), "", "fi"),
    Relation("denormals", "denormal numbers are 0", lambda x, k: np.where(_is_denormal(x), x * 0, x), "", "f"),
    Relation("denormals", "denormal numbers are 0", lambda x, k: np.where(_is_denormal(x), np.abs(x * 0), x), "", "f"),
    Relation("negative-zero", "-0.0 is 0.0", lambda x, k: np.where(x == 0, np.abs(x), x), "", "f"),
    Relation("usual-nan", "every NaN is the usual one",
             lambda x, k: np.where(np.isnan(x), x.dtype.type(np.nan), x), "", "f"),
    Relation("quiet-nan", "NaNs are made quiet", lambda x, k: _quiet(x), "", "f"),
    Relation("nan-is-0", "every NaN is 0", lambda x, k: np.where(np.isnan(x), x.dtype.type(0), x), "", "f"),
    Relation("infinity", "infinities are the largest finite numbers", lambda x, k: _infinity(x), "", "f"),
    Relation("infinity-nan", "infinities are NaN",
             lambda x, k: np.where(np.isinf(x), x.dtype.type(np.nan), x), "", "f"),
    Relation("infinity-0", "infinities are 0", lambda x, k: np.where(np.isinf(x), x.dtype.type(0), x), "", "f"),
    Relation("not-finite-0", "what is not finite is 0",
             lambda x, k: np.where(np.isfinite(x), x, x.dtype.type(0)), "", "f", cost=2),
    Relation("nan-to-num", "NaN is 0, and infinities are the largest finite numbers",
             lambda x, k: np.nan_to_num(x), "", "f", cost=2),
    Relation("bfloat16", "values are rounded to BFLOAT16", lambda x, k: _as_float32(x, rounded, 16), "", "f"),
    Relation("bfloat16-cut", "values are cut to BFLOAT16", lambda x, k: _as_float32(x, truncated, 16), "", "f"),
    Relation("tf32", "values are rounded to TF32", lambda x, k: _as_float32(x, rounded, 13), "", "f"),
    Relation("tf32-cut", "values are cut to TF32", lambda x, k: _as_float32(x, truncated, 13), "", "f"),
    Relation("low-bits-lost", "the low {k} bits of each element are 0", lambda x, k: truncated(x, k), "lost", "f"),
    Relation("low-bits-lost", "the low {k} bits of each element are 0", lambda x, k: x >> k << k, "lost", "iu"),
    Relation("low-bits-rounded", "elements are rounded to {k} bits less",
             lambda x, k: rounded(x, k), "lost", "f", cost=2),
    Relation("ulp-up", "values are one unit in the last place farther from 0", lambda x, k: _next(x, 1), "", "f"),
    Relation("ulp-down", "values are one unit in the last place nearer to 0", lambda x, k: _next(x, -1), "", "f"),
    Relation("cut-to-integer", "values are cut to integers", lambda x, k: np.trunc(x), "", "f"),
    Relation("cut-to-integer", "values are cut to integers", lambda x, k: np.trunc(x) + 0, "", "f"),
    Relation("floor", "values are rounded down to integers", lambda x, k: np.floor(x), "", "f"),
    Relation("integer", "values are rounded to integers", lambda x, k: np.rint(x), "", "f"),
    Relation("integer", "values are rounded to integers", lambda x, k: np.rint(x) + 0, "", "f"),
    Relation("plus", "values are {k} too large", lambda x, k: x + x.dtype.type(k), "difference", "fiu"),
    Relation("scaled", "values are multiplied by {k}", _scaled, "factor", "fi"),
    Relation("quantised", "values are rounded to multiples of {k}", _quantised, "quantum", "f"),
    Relation("clipped", "values are between -{k} and {k}", lambda x, k: _clipped(x, -k, k), "most", "fi"),
    Relation("clipped-above", "values are at most {k}",
             lambda x, k: np.minimum(x, x.dtype.type(k)), "greatest", "fiu"),
    Relation("inverted", "all bits are turned over", lambda x, k: (~x.view(word(x.dtype))).view(x.dtype), "", "fiu"),
    Relation("top-bit", "the highest bit of each element is turned over",
             lambda x, k: (x.view(word(x.dtype)) ^ word(x.dtype).type(1 << (8 * x.itemsize - 1))).view(x.dtype),
             "", "iu"),
    Relation("top-bit-lost", "the highest bit of each element is 0",
             lambda x, k: (x.view(word(x.dtype)) & word(x.dtype).type((1 << (8 * x.itemsize - 1)) - 1)).view(x.dtype),
             "", "iu"),
    Relation("only-low-bits", "only the low {k} bits of each element are left",
             lambda x, k: x & x.dtype.type((1 << k) - 1), "fewer", "iu"),
)  # fmt: skip


def _quiet(x: Numbers) -> Numbers:
    words = x.view(word(x.dtype))
    quiet = words.dtype.type(1 << (np.finfo(x.dtype).nmant - 1))
    return np.where(np.isnan(x), words | quiet, words).view(x.dtype)


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
