"""What may have been done instead of a reversal: a sentence and an origin for each mistake."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import log2, prod
from typing import Any

import numpy as np

from revseq_cli.operator import directml
from revseq_cli.porting import hypotheses
from revseq_cli.porting.hypotheses import ORDERS, SORTS
from revseq_cli.porting.positions import Array, Memory, Origin, list_orders
from revseq_cli.porting.sequences import Sequences

# Bits of a sentence.
IDEA_PRICE = 9.0  # of an ordinary one: 8 to choose it among some 300, and 1 not to be a list
LIKELY_PRICE = 5.0  # of the first row of LENGTHS, whose first rows are the likely ones
DIRECTML_PRICE = 2.0  # of what DirectML is known to do
LIST_PRICE = 1.0  # of a list of lengths
_ANY = -(1 << 62)


@dataclass(frozen=True)
class Idea:
    """A sentence, its price in bits, and the positions from which elements come."""

    price: float
    text: str
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


def _read_low_bits(n: Array, s: int, k: Any, g: Array) -> Array:
    """The lengths that DirectML reads, as a formula of LENGTHS."""
    return directml.keep_low_bits(n)


def list_likely_ideas(sequences: Sequences) -> Iterator[Idea]:
    """The likeliest mistakes: nothing or all is reversed, or DirectML did the job."""
    for text, formula in hypotheses.PLAIN.items():
        yield Idea(0, text, partial(sequences.reverse_by_formula, formula))
    if (sequences.flat_lengths > directml.MOST_LENGTH).any():
        low = partial(sequences.reverse_by_formula, _read_low_bits)
        yield Idea(DIRECTML_PRICE, hypotheses.LOW_BITS, low)
    if (sequences.flat_lengths > sequences.size).any():
        clamped = partial(sequences.read_unclamped, _clamp_index)
        yield Idea(DIRECTML_PRICE, hypotheses.INDEX_CLAMPED, clamped)
        yield Idea(DIRECTML_PRICE, hypotheses.PAST_THE_END, sequences.read_past_the_end)


def list_ideas(sequences: Sequences) -> Iterator[Idea]:
    """All that may have been done to lengths, in sequences, between them, and in memory."""
    yield from list_likely_ideas(sequences)
    for index, (text, formula) in enumerate(hypotheses.LENGTHS.items()):
        price = LIKELY_PRICE + log2(1 + index)
        yield Idea(price, text, partial(sequences.reverse_by_formula, formula))
    for read, table in (
        (sequences.read_start, hypotheses.START),
        (sequences.read_rest, hypotheses.REST),
        (sequences.read_whole, hypotheses.WHOLE),
    ):
        for text, formula in table.items():
            yield Idea(IDEA_PRICE, text, partial(read, formula))
    for text, formula in hypotheses.UNCLAMPED.items():
        yield Idea(IDEA_PRICE - 1, text, partial(sequences.read_unclamped, formula))
    if sequences.lengths.size > 1:
        yield from _list_ideas_of_tables(sequences)
    yield from _list_ideas_of_axes(sequences)
    yield from _list_ideas_of_layouts(sequences)
    for move in _list_moves(sequences):
        of_output = partial(sequences.move_output, move.origin)
        of_input = partial(sequences.move_input, move.origin)
        yield Idea(IDEA_PRICE, f"{move.what} of the output come {move.where}", of_output)
        yield Idea(IDEA_PRICE, f"{move.what} of the input are read {move.where}", of_input)


def _list_ideas_of_tables(sequences: Sequences) -> Iterator[Idea]:
    """What may have been done to the table of lengths, which has one for each sequence."""
    flat = sequences.flat_lengths
    for where, formula in (ORDERS | SORTS).items():
        text = f"lengths are those of other sequences: {where}"
        yield Idea(IDEA_PRICE, text, partial(sequences.reverse_by_others, formula))
    clamped = np.minimum(flat, sequences.size)
    tables = {
        "lengths are the sums of all lengths so far": np.cumsum(clamped),
        "lengths are the sums of all lengths before": np.cumsum(clamped) - clamped,
        "lengths are the differences from the length before": np.diff(flat, prepend=0),
        "lengths are read in Fortran order": sequences.lengths.reshape(-1, order="F"),
    }
    stored = flat.astype(f"u{sequences.width}").tobytes()
    stored = stored.ljust(8 * flat.size, b"\0")
    for size in (2, 4, 8):
        words = np.frombuffer(stored[: size * flat.size], f"u{size}")
        tables[f"lengths are read as words of {8 * size} bits"] = words.astype(np.int64)
    for text, table in tables.items():
        yield Idea(IDEA_PRICE, text, partial(sequences.reverse_by_table, table))
    yield Idea(IDEA_PRICE, hypotheses.BY_NUMBER, sequences.reverse_by_number)


def _list_ideas_of_axes(sequences: Sequences) -> Iterator[Idea]:
    """Another axis is reversed, or lengths go by the index in another dimension."""
    own = sequences.axis
    dims = [d for d, size in enumerate(sequences.shape) if size > 1]
    for d in {*dims} - {own}:
        flip = partial(sequences.read_indices, d, ORDERS["in reverse order"])
        yield Idea(IDEA_PRICE - 2, f"axis {d} is reversed whole, not {own}", flip)
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
        yield Idea(IDEA_PRICE, text, origin)


def _list_ideas_of_layouts(sequences: Sequences) -> Iterator[Idea]:
    """The memory is taken for that of a tensor with the axes in another order."""
    for order in list_orders(sequences.shape):
        if order.sizes != sequences.shape:
            text = f"memory of sizes {sequences.shape} is taken for one of {order.sizes}"
            yield Idea(IDEA_PRICE + 2, text, partial(sequences.reverse_untransposed, order))


@dataclass(frozen=True)
class _Move:
    """What is moved in a tensor, from where in words, and its origin."""

    what: str
    where: str
    origin: Origin


def _list_moves(sequences: Sequences) -> Iterator[_Move]:
    """How the elements of a tensor may be moved, in the input or in the output."""
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
            yield _Move(what, where, partial(sequences.read_indices, d, formula))
    yield from _list_moves_in_memory(Memory(sequences.shape))


def _list_moves_in_memory(memory: Memory) -> Iterator[_Move]:
    for order in list_orders(memory.shape):
        where = f"in the memory order of the axes {order.axes}"
        yield _Move("elements", where, partial(memory.read_transposed, order))
        where = f"as if their memory had the axes in the order {order.axes}"
        yield _Move("elements", where, partial(memory.read_untransposed, order))
    where = "from the place in memory {ahead}"
    yield _Move("elements", f"{where}, around the ends", memory.read_around)
    yield _Move("elements", f"{where}, with zeros outside", memory.read_shifted)
    for d in range(1, len(memory.shape)):
        row = prod(memory.shape[d:])
        where = f"as if rows of {row} elements took multiples of {{K}} in memory"
        yield _Move("elements", where, partial(memory.read_packed, row))
        where = f"as if rows of multiples of {{K}} elements were rows of {row}"
        yield _Move("elements", where, partial(memory.read_padded, row))
