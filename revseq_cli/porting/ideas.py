"""Ideas of what was done in place of a reversal: from which places of the input the elements of the output come.

Each is a sentence and a function that gets places of the output and numbers k, and returns places of the input.
"""

from __future__ import annotations

import itertools
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.porting.hypotheses import LENGTHS, ORDERS, PLACES, mirrored
from revseq_cli.porting.sample import HUGE, noun, number_of, place_of, put

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from revseq_cli.porting.sample import Places, Sample

    Array = NDArray[Any]
    Row = Callable[..., Array]
    Place = Callable[[Places, Any], Places]


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
        words = np.frombuffer(raw[: size * flat.size], f"u{size}")
        tables[f"lengths are read as words of {8 * size} bits"] = np.minimum(
            words.astype("u8"), np.uint64(HUGE)
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
        other = tuple(shape[d] for d in order)
        yield "elements", 1, f"in the memory order of the axes {order}", partial(_memory_of, shape, other, order)
        yield (
            "elements",
            1,
            f"as if their memory had the axes in the order {order}",
            partial(_memory_as, shape, other, order),
        )
    yield "elements", 1, "from the place in memory {ahead}, around the ends", partial(_further, shape, True)
    yield "elements", 1, "from the place in memory {ahead}, with zeros outside", partial(_further, shape, False)


def _indices(shape: tuple[int, ...], d: int, row: Row, lengths: Array | None, at: Places, k: Any) -> Places:
    return put(at, d, np.where(np.abs(k) < shape[d], row(at[d], shape[d], k, lengths), at[d]))


def _memory_of(
    shape: tuple[int, ...], other: tuple[int, ...], order: tuple[int, ...], at: Places, k: Any
) -> Places:  # fmt: skip
    there = place_of(number_of(at, shape), other)
    return tuple(there[order.index(d)] for d in range(len(order)))


def _memory_as(
    shape: tuple[int, ...], other: tuple[int, ...], order: tuple[int, ...], at: Places, k: Any
) -> Places:  # fmt: skip
    return place_of(number_of([at[d] for d in order], other), shape)


def _further(shape: tuple[int, ...], is_around: bool, at: Places, k: Any) -> Places:
    number = number_of(at, shape) + k
    return place_of(number % prod(shape) if is_around else number, shape)
