"""What ports do instead of a reversal: to lengths, in a sequence, and between sequences.

To add a mistake, add a row to a table: a sentence, and a formula of whole arrays. A sentence may
have one number, k in the formula, for which many are tried: any number for {any}, one of at least 1
for {N}, and of at least 2 for {K}. {off} and {ahead} take any number, too: 2 is printed as "2 too
large" or "2 ahead", and -2 as "2 too small" or "2 behind".
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import log2, prod
from typing import Any

import numpy as np

from revseq_cli.core.dtypes import Array
from revseq_cli.operator import directml
from revseq_cli.porting.changes import shorten_floats
from revseq_cli.porting.origins import (
    Formula,
    Origin,
    Sequences,
    flip_tiles,
    list_orders,
    mirror,
    pack_rows,
    pad_rows,
)
from revseq_cli.porting.rules import Sentence

# What DirectML and ONNX Runtime's provider for it do themselves, and what helps.
INDEX_CLAMPED = (
    "lengths are not clamped, and the last element is read again (as in DirectML 1.13 to 1.15)"
)
PAST_THE_END = (
    "lengths are not clamped, and the memory after the sequence is read (as in DirectML to 1.12)"
)
LOW_BITS = "of 64-bit lengths, only the low 32 bits count (as in DirectML)"
BY_NUMBER = (
    "lengths are read by the sequence's number: sequence k takes length k of the list"
    " (as in ONNX Runtime's DirectML provider)"
)
IN_PLACE = "only the first half is written: it is in place (which DirectML does not support)"
_CLAMP = "clamp the lengths to the axis size before DirectML gets them"
REMEDIES = {
    INDEX_CLAMPED: _CLAMP,
    PAST_THE_END: _CLAMP,
    LOW_BITS: _CLAMP,
    BY_NUMBER: "give ONNX Runtime the tensor with two dimensions and a length for each sequence",
    IN_PLACE: "give the operator an output of its own",
}

# fmt: off
# The length by which a sequence is reversed: n is its own, s the axis size, and g has all lengths.
# A result below 0 counts as 0, and one above s as s.
PLAIN: dict[str, Formula] = {
    "nothing is reversed: the output is the input":
        lambda n, s, k, g: n * 0,
    "whole sequences are reversed":
        lambda n, s, k, g: n * 0 + s,
}
LENGTHS: dict[str, Formula] = {
    "lengths are {off}":
        lambda n, s, k, g: n + k,
    "lengths are {off} after they are clamped":
        lambda n, s, k, g: np.minimum(n, s) + k,
    "lengths are {off}, and one below 0 is the whole sequence":
        lambda n, s, k, g: np.where(n + k < 0, s, n + k),
    "lengths are at most {N}":
        lambda n, s, k, g: np.minimum(n, k),
    "lengths are at least {K}":
        lambda n, s, k, g: np.maximum(n, k),
    "lengths are taken modulo {K}":
        lambda n, s, k, g: n % k,
    "lengths above the axis size are taken modulo it":
        lambda n, s, k, g: np.where(n > s, n % s, n),
    "lengths are divided by {K}, rounded down":
        lambda n, s, k, g: n // k,
    "lengths are divided by {K}, rounded up":
        lambda n, s, k, g: -(-n // k),
    "lengths are multiplied by {K}":
        lambda n, s, k, g: np.minimum(n, s) * k,
    "the axis size minus the length is reversed":
        lambda n, s, k, g: s - np.minimum(n, s),
    "lengths are rounded down to multiples of {K}":
        lambda n, s, k, g: n - n % k,
    "lengths are rounded up to multiples of {K}":
        lambda n, s, k, g: n + -n % k,
    "lengths are rounded to the nearest multiple of {K}":
        lambda n, s, k, g: (n + k // 2) // k * k,
    "lengths are rounded down to powers of 2":
        lambda n, s, k, g: np.exp2(np.log2(n) // 1).astype(int),
    "lengths are rounded up to powers of 2":
        lambda n, s, k, g: np.exp2(np.ceil(np.log2(n))).astype(int),
    "lengths are rounded to FLOAT16":
        lambda n, s, k, g: n.astype("f2").astype(int),
    "lengths are rounded to BFLOAT16":
        lambda n, s, k, g: shorten_floats(n * 1.0, 16).astype(int),
    "all sequences are reversed by the longest length":
        lambda n, s, k, g: n * 0 + g.max(),
    "all sequences are reversed by the shortest length":
        lambda n, s, k, g: n * 0 + g.min(),
    "all sequences are reversed by the mean length":
        lambda n, s, k, g: n * 0 + int(g.mean()),
    "all sequences are reversed by the length {N}":
        lambda n, s, k, g: n * 0 + k,
}

# For each index i of c, the index from which its elements come; g has the lengths in the order of
# the indices.
ORDERS: dict[str, Formula] = {
    "in reverse order":
        lambda i, c, k, g: c - 1 - i,
    "from index 0 for all":
        lambda i, c, k, g: i * 0,
    "from index {any} for all":
        lambda i, c, k, g: i * 0 + k,
    "from the index {ahead}, around the ends":
        lambda i, c, k, g: (i + k) % c,
    "from the index {ahead}, or the outermost one":
        lambda i, c, k, g: np.clip(i + k, 0, c - 1),
    "from the index {ahead}, with zeros outside":
        lambda i, c, k, g: i + k,
    "from the index modulo {K}":
        lambda i, c, k, g: i % k,
    "from the index times {K}, around the end":
        lambda i, c, k, g: i * k % c,
    "from the first index of each group of {K}":
        lambda i, c, k, g: i - i % k,
    "from the index divided by {K}":
        lambda i, c, k, g: i // k,
    "in reverse order in each group of {K}":
        lambda i, c, k, g: flip_tiles(i, c, k),
    "from the even indices, and then from the odd ones":
        lambda i, c, k, g: np.where(2 * i < c, 2 * i, 2 * (i - (c + 1) // 2) + 1),
}
SORTS: dict[str, Formula] = {
    "sorted by length, the longest first":
        lambda i, c, k, g: np.argsort(-g, kind="stable")[i],
    "sorted by length, the shortest first":
        lambda i, c, k, g: np.argsort(g, kind="stable")[i],
    "as they were before a sort by length":
        lambda i, c, k, g: np.argsort(np.argsort(-g, kind="stable"))[i],
}

# The index of its sequence from which the element at index j comes; n is the length, clamped to the
# axis size s. Zeros are read outside of the sequence. START is about the elements before the length
# and REST about those after it, and the others are right; WHOLE is about both. In UNCLAMPED, n is
# the length as it is.
START: dict[str, Formula] = {
    "elements are read from the index {ahead}, with zeros outside":
        lambda j, n, s, k: n - 1 - j + k,
    "elements are read from the index {ahead}, around the ends":
        lambda j, n, s, k: (n - 1 - j + k) % s,
    "elements are read from the index {ahead}, or the outermost one":
        lambda j, n, s, k: np.clip(n - 1 - j + k, 0, s - 1),
    "elements are read from the index {ahead}, or the last one before the length":
        lambda j, n, s, k: np.clip(n - 1 - j + k, 0, n - 1),
    "the index to read from is taken modulo {K}":
        lambda j, n, s, k: (n - 1 - j) % k,
    "the index to read from is at most {N}":
        lambda j, n, s, k: np.minimum(n - 1 - j, k),
    "the reversed part is rotated by {any}":
        lambda j, n, s, k: (n - 1 - j + k) % n,
    "what is before the length is rotated by {any}, not reversed":
        lambda j, n, s, k: (j - k) % n,
    "the first {N} stay, the others are reversed":
        lambda j, n, s, k: np.where(j < k, j, n - 1 - j + k),
    "each tile of {K} is reversed by itself":
        lambda j, n, s, k: flip_tiles(j, n, k),
    "both halves are reversed by themselves":
        lambda j, n, s, k: np.where(j < n // 2, n // 2, n + n // 2) - 1 - j,
    "tiles of {K} are in reverse order, but not what is in them":
        lambda j, n, s, k: flip_tiles(n - 1 - j, n, k),
    "each reversed element is taken {K} times":
        lambda j, n, s, k: n - 1 - j // k,
    IN_PLACE:
        lambda j, n, s, k: np.maximum(j, n - 1 - j),
    "only the first half is reversed":
        lambda j, n, s, k: np.where(j < n // 2, n - 1 - j, j),
    "the first element fills the reversed part":
        lambda j, n, s, k: j * 0,
}
REST: dict[str, Formula] = {
    "what is after the length is reversed, too":
        lambda j, n, s, k: s - 1 - j + n,
    "after the length, the whole sequence is reversed":
        lambda j, n, s, k: s - 1 - j,
    "after the length, the sequence begins again":
        lambda j, n, s, k: j - n,
    "after the length, the reversed part is repeated":
        lambda j, n, s, k: n - 1 - j % n,
    "after the length is the last element before it":
        lambda j, n, s, k: np.maximum(n, 1) - 1,
    "after the length is the first element":
        lambda j, n, s, k: j * 0,
}
WHOLE: dict[str, Formula] = {
    "the sequence is rotated by its length, and not reversed":
        lambda j, n, s, k: (j + n) % s,
    "the sequence is rotated back by its length, and not reversed":
        lambda j, n, s, k: (j - n) % s,
    "the sequence is reversed whole, and rotated the wrong way":
        lambda j, n, s, k: s - 1 - (j + n) % s,
    "the end of the sequence is reversed, not its start":
        lambda j, n, s, k: s - 1 - mirror(s - 1 - j, n),
    "the sequence is reversed whole, with zeros after the length":
        lambda j, n, s, k: np.where(j < n, s - 1 - j, -1),
    "only what is after the length is reversed":
        lambda j, n, s, k: np.where(j < n, j, s - 1 - j + n),
    "the reversed part ends the sequence, after zeros":
        lambda j, n, s, k: np.where(j < s - n, -1, s - 1 - j),
    "the reversed part ends the sequence, after the rest":
        lambda j, n, s, k: mirror((j + n) % s, n),
    "the start ends the sequence, not reversed, after zeros":
        lambda j, n, s, k: j - s + n,
}
UNCLAMPED: dict[str, Formula] = {
    "lengths are not clamped, and zeros are read after the sequence":
        lambda j, n, s, k: mirror(j, n),
    "lengths are not clamped, and the sequence is read around its end":
        lambda j, n, s, k: mirror(j, n) % s,
}
# fmt: on


# Bits of a sentence.
_IDEA_PRICE = 9.0  # 8 to choose it among some 300, and 1 to say that it is not a list
_LIKELY_PRICE = 5.0  # of the first row of LENGTHS, whose first rows are the likely ones
_DIRECTML_PRICE = 2.0  # of what DirectML is known to do
LIST_PRICE = 1.0  # of a list of lengths
_ANY = -(1 << 62)


@dataclass(frozen=True)
class Idea(Sentence):
    """A sentence about a mistake, and from where elements come by it."""

    origin: Origin

    @property
    def least(self) -> int | None:
        """The least number that the sentence takes; None if it takes none."""
        if "{K}" in self.text:
            return 2
        if "{N}" in self.text:
            return 1
        if "{" in self.text:
            return _ANY
        return None

    def format(self, numbers: list[int]) -> str:
        """The sentence with its number, or with the first three of several that are as good."""
        k = numbers[0]
        several = " or ".join(map(str, numbers[:3]))
        off = f"{abs(k)} too large"
        ahead = f"{abs(k)} ahead"
        if k < 0:
            off = f"{abs(k)} too small"
            ahead = f"{abs(k)} behind"
        return self.text.format(any=k, N=several, K=several, off=off, ahead=ahead)


def _clamp_index(j: Array, n: Array, s: int, k: Any) -> Array:
    """The index from which DirectML 1.13 to 1.15 reads, as a formula of UNCLAMPED."""
    return directml.find_index_newer(j, directml.keep_low_bits(n), s)


def list_likely_ideas(sequences: Sequences) -> Iterator[Idea]:
    """The likeliest mistakes: nothing or all is reversed, or DirectML did the job."""
    for text, formula in PLAIN.items():
        yield Idea(0, text, partial(sequences.reverse_by_formula, formula))
    if (sequences.flat_lengths > directml.MOST_LENGTH).any():
        low_bits = directml.keep_low_bits(sequences.flat_lengths)
        yield Idea(_DIRECTML_PRICE, LOW_BITS, partial(sequences.reverse_by_table, low_bits))
    if (sequences.flat_lengths > sequences.size).any():
        clamped = partial(sequences.read_unclamped, _clamp_index)
        yield Idea(_DIRECTML_PRICE, INDEX_CLAMPED, clamped)
        yield Idea(_DIRECTML_PRICE, PAST_THE_END, sequences.read_past_the_end)


def list_ideas(sequences: Sequences) -> Iterator[Idea]:
    """All that may have been done to lengths, in sequences, between them, and in memory."""
    yield from list_likely_ideas(sequences)
    for index, (text, formula) in enumerate(LENGTHS.items()):
        price = _LIKELY_PRICE + log2(1 + index)
        yield Idea(price, text, partial(sequences.reverse_by_formula, formula))
    for table, is_in_part in (
        (START, lambda j, n: j < n),
        (REST, lambda j, n: j >= n),
        (WHOLE, lambda j, n: True),
    ):
        for text, formula in table.items():
            yield Idea(_IDEA_PRICE, text, partial(sequences.read_part, formula, is_in_part))
    for text, formula in UNCLAMPED.items():
        yield Idea(_IDEA_PRICE - 1, text, partial(sequences.read_unclamped, formula))
    if sequences.lengths.size > 1:
        yield from _list_ideas_of_tables(sequences)
    yield from _list_ideas_of_axes(sequences)
    yield from _list_ideas_of_layouts(sequences)
    for what, where, origin in _list_moves(sequences):
        of_output = partial(sequences.move_output, origin)
        of_input = partial(sequences.move_input, origin)
        yield Idea(_IDEA_PRICE, f"{what} of the output come {where}", of_output)
        yield Idea(_IDEA_PRICE, f"{what} of the input are read {where}", of_input)


def _list_ideas_of_tables(sequences: Sequences) -> Iterator[Idea]:
    """What may have been done to the table of lengths, which has one for each sequence."""
    flat = sequences.flat_lengths
    for where, formula in (ORDERS | SORTS).items():
        text = f"lengths are those of other sequences: {where}"
        yield Idea(_IDEA_PRICE, text, partial(sequences.reverse_by_others, formula))
    clamped = np.minimum(flat, sequences.size)
    tables = {
        "lengths are the sums of all lengths so far": np.cumsum(clamped),
        "lengths are the sums of all lengths before": np.cumsum(clamped) - clamped,
        "lengths are the differences from the length before": np.diff(flat, prepend=0),
        "lengths are read in Fortran order": sequences.lengths.reshape(-1, order="F"),
    }
    # The bytes of the lengths, read as words of another size. Larger words need more bytes than
    # there are: after these, zeros are read.
    stored = flat.astype(f"u{sequences.width}").tobytes()
    stored = stored.ljust(8 * flat.size, b"\0")
    for size in (2, 4, 8):
        words = np.frombuffer(stored[: size * flat.size], f"u{size}")
        tables[f"lengths are read as words of {8 * size} bits"] = words.astype(np.int64)
    for text, table in tables.items():
        yield Idea(_IDEA_PRICE, text, partial(sequences.reverse_by_table, table))
    yield Idea(_IDEA_PRICE, BY_NUMBER, sequences.reverse_by_number)


def _list_ideas_of_axes(sequences: Sequences) -> Iterator[Idea]:
    """Another axis is reversed, or lengths go by the index in another dimension."""
    own = sequences.axis
    dims = [d for d, size in enumerate(sequences.shape) if size > 1]
    for d in {*dims} - {own}:
        flip = partial(sequences.read_indices, d, ORDERS["in reverse order"])
        yield Idea(_IDEA_PRICE - 2, f"axis {d} is reversed whole, not {own}", flip)
    for axis, length_axis, index_axis in itertools.product(dims, dims, dims):
        is_expected = axis == own and length_axis == index_axis
        if is_expected or sequences.lengths.shape[length_axis] == 1:
            continue
        text = f"axis {axis} is reversed"
        if axis != own:
            text += f", not {own}"
        if index_axis != length_axis:
            text += f", with lengths by the index in dimension {index_axis}, not {length_axis}"
        origin = partial(sequences.reverse_other_axis, axis, length_axis, index_axis)
        yield Idea(_IDEA_PRICE, text, origin)


def _list_ideas_of_layouts(sequences: Sequences) -> Iterator[Idea]:
    """The memory is taken for that of a tensor with the axes in another order."""
    for order in list_orders(sequences.shape):
        if order.sizes != sequences.shape:
            text = f"memory of sizes {sequences.shape} is taken for one of {order.sizes}"
            yield Idea(_IDEA_PRICE + 2, text, partial(sequences.reverse_untransposed, order))


def _list_moves(sequences: Sequences) -> Iterator[tuple[str, str, Origin]]:
    """How a tensor's elements may be moved: what is moved, from where, and the function of it."""
    lengths = sequences.lengths
    for d, size in enumerate(sequences.shape):
        if size == 1:
            continue
        what = f"indices in dimension {d}"
        if d == sequences.axis:
            what = "elements of the sequences"
        elif d == sequences.batch_dimension:
            what = "batches"
        formulas = ORDERS
        if lengths.shape[d] == lengths.size == size:
            formulas = ORDERS | SORTS
        for where, formula in formulas.items():
            yield what, where, partial(sequences.read_indices, d, formula)
    yield from _list_moves_in_memory(sequences)


def _list_moves_in_memory(sequences: Sequences) -> Iterator[tuple[str, str, Origin]]:
    shape = sequences.shape
    for order in list_orders(shape):
        where = f"in the memory order of the axes {order.axes}"
        yield "elements", where, partial(sequences.read_transposed, order)
        where = f"as if their memory had the axes in the order {order.axes}"
        yield "elements", where, partial(sequences.read_untransposed, order)
    where = "from the place in memory {ahead}"
    formulas: dict[str, Formula] = {
        f"{where}, around the ends": lambda i, k: (i + k) % prod(shape),
        f"{where}, with zeros outside": lambda i, k: i + k,
    }
    for d in range(1, len(shape)):
        row = prod(shape[d:])
        where = f"as if rows of {row} elements took multiples of {{K}} in memory"
        formulas[where] = partial(pack_rows, row)
        where = f"as if rows of multiples of {{K}} elements were rows of {row}"
        formulas[where] = partial(pad_rows, row)
    for where, formula in formulas.items():
        yield "elements", where, partial(sequences.read_memory, formula)
