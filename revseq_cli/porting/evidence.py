"""What the search sees of a wrong output, and how many bits a list of wrong elements takes.

It sees all of a small tensor, and a sample of whole sequences of a larger one. If a tensor is too
large for the memory, the sample is from a window of it. Indices of a dimension may be, for example:

    tensor   0 1 2 3 4 5 6 7 8 9
    window         3 4 5 6 7 8      `window_starts` has 3, and `shape` of the sequences 6
    sample         3   5     8      `sample_index` has 0 2 5, which count from the window's start

All positions count from the window's start.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import log2, prod

import numpy as np

from revseq_cli.core.dtypes import Array, bits, native
from revseq_cli.core.tensors import Region, sizes_of
from revseq_cli.formats.contract import Source
from revseq_cli.pipeline.folds import Tolerance, unequal
from revseq_cli.pipeline.passes import Pair
from revseq_cli.porting.origins import (
    Positions,
    Sequences,
    Shape,
    ravel_positions,
    replace_at,
    unravel_positions,
)
from revseq_cli.porting.restore import as_numbers
from revseq_cli.porting.rules import count_true, price_choice

_MOST_SURPRISE = 12.0  # bits of the value of one element, at most
_PROBES = 64  # wrong elements that are tried first
_MOST_WHOLE = 1 << 18  # elements of a tensor that is not sampled
_MOST_SAMPLED = 1 << 20  # elements of a sample, or one sequence
_LEAST = 1 << 12  # elements of a sample, also if the memory is small
_BYTES = 256  # of memory for each element of a sample
_COPIES = 4  # of a window: of three tensors, and of the one that is computed
_EXAMPLES = 12  # wrong sequences whose neighbours are in a sample


@dataclass(frozen=True, eq=False)
class Probes:
    """Some wrong elements: their positions, and their values in both outputs."""

    at: Positions
    output: Array
    expected: Array


@dataclass(frozen=True, eq=False)
class Evidence:
    """A wrong output, the expected one, and the input of the job.

    `values`, the input, has the whole window, since elements may come from anywhere in it. `output`
    and `expected` have only the sample, and `scope` marks those of its elements that are to be
    explained. `is_sample` says that the tensor has elements that the sample lacks.
    """

    sequences: Sequences
    sample_index: list[Array]
    window_starts: list[int]
    tolerance: Tolerance | None
    values: Array
    output: Array
    expected: Array
    is_sample: bool
    scope: Array | bool = True

    @property
    def axis(self) -> int:
        """The axis of the sequences."""
        return self.sequences.axis

    @cached_property
    def at(self) -> Positions:
        """The positions of the sample."""
        return np.ix_(*self.sample_index)

    @cached_property
    def unmoved(self) -> Array:
        """The input's elements at these positions."""
        return self.values[self.at]

    @cached_property
    def wrong(self) -> Array:
        """The wrong elements that are to be explained."""
        return self.scope & ~self.find_equal(self.output, self.expected)

    @cached_property
    def wrong_sequences(self) -> Array:
        """The sequences with any of these elements."""
        return self.find_sequences(self.wrong)

    @cached_property
    def wrong_count(self) -> int:
        """How many sequences are wrong."""
        return count_true(self.wrong_sequences)

    @cached_property
    def length_index(self) -> Array:
        """Where the length of each sequence is in the table of lengths."""
        zero = np.zeros((1,) * self.values.ndim, np.intp)
        index = self.sequences.find_length_index(replace_at(self.at, self.axis, zero))
        return np.broadcast_to(index, self.wrong_sequences.shape)

    @cached_property
    def own_lengths(self) -> Array:
        return self.sequences.flat_lengths[self.length_index]

    @cached_property
    def seen_lengths(self) -> Array:
        """The length by which each sequence looks reversed: up to its last changed element."""
        changed = ~self.find_equal(self.output, self.unmoved)
        is_changed = changed.any(self.axis, keepdims=True)
        after = np.flip(changed, self.axis).argmax(self.axis, keepdims=True)
        return np.where(is_changed, self.sequences.size - after, 0)

    @cached_property
    def probes(self) -> Probes:
        """Wrong elements, evenly from the first to the last."""
        flat = np.flatnonzero(self.wrong)
        count = min(len(flat), _PROBES)
        spread = np.linspace(0, len(flat) - 1, count)
        chosen = flat[spread.astype(np.intp)]
        at: list[Array] = []
        in_sample = unravel_positions(chosen, self.output.shape)
        for indices, i in zip(self.sample_index, in_sample, strict=True):
            at.append(indices[i][:, None])
        return Probes(at, self.output.reshape(-1)[chosen], self.expected.reshape(-1)[chosen])

    def find_equal(self, a: Array, b: Array) -> Array:
        """Which elements are equal, within the tolerance."""
        a, b = np.broadcast_arrays(a, b)
        if self.tolerance is None:
            return np.asarray(bits(a) == bits(b))
        return np.asarray(~unequal(a, b, self.tolerance))

    def find_sequences(self, elements: Array) -> Array:
        """Which sequences have any of these elements."""
        return np.asarray(elements.any(self.axis, keepdims=True))

    def read_input(self, at: Positions) -> Array:
        """The input's elements at positions; zeros outside of the window."""
        inside = np.ones((), np.bool_)
        for i, size in zip(at, self.values.shape, strict=True):
            inside = inside & (i >= 0) & (i < size)
        flat = np.where(inside, ravel_positions(at, self.values.shape), 0)
        zero = np.zeros((), self.values.dtype)
        return np.where(inside, self.values.reshape(-1)[flat], zero)

    def find_whole_indices(self, d: int) -> list[int]:
        """The sample's indices of a dimension, as they are in the whole tensor."""
        return [self.window_starts[d] + int(i) for i in self.sample_index[d]]

    @cached_property
    def surprise(self) -> Array:
        """The bits of the value of each wrong element: fewer for a value that the data have often.

        A wrong boolean takes none, since it has the only other value.
        """
        share = _measure_share(self.unmoved, self.output[self.wrong])
        expected_share = _measure_share(self.unmoved, self.expected[self.wrong])
        # The chance of this value among all values that are not the expected one.
        chance = share / np.maximum(1 - expected_share, 1e-9)
        if self.tolerance:
            # Near values count as equal, too. The chance that two random elements are near is
            # measured: in a shuffled copy of the data, each element has a random partner.
            values = self.unmoved.reshape(-1)
            partners = np.random.default_rng(0).permutation(values)
            chance_of_near = self.find_equal(values, partners).mean()
            chance = np.maximum(chance, chance_of_near)
        surprise = np.zeros(self.wrong.shape)
        surprise[self.wrong] = -np.log2(chance.clip(2**-_MOST_SURPRISE, 1))
        return surprise

    @cached_property
    def chance_of_wrong(self) -> float:
        """The chance that an element is wrong if the output is random: of booleans, about half."""
        _, counts = np.unique(hash_elements(self.unmoved), return_counts=True)
        shares = counts / counts.sum()
        return float(1 - (shares**2).sum())

    def price_list(self, elements: Array) -> float:
        """The bits of a list of wrong elements: of their positions, and of their values.

        Positions take at least the bits of the chance that so many elements of a random output are
        wrong. Otherwise, a list of 100 booleans of which all are wrong would take no bits, and no
        sentence could take fewer. Of random booleans, all are wrong once in 2^100 times: so their
        list takes 100 bits.
        """
        total = count_true(np.broadcast_to(self.scope, elements.shape))
        count = count_true(elements)
        of_positions = price_choice(total, count)
        chance = self.chance_of_wrong
        if 0 < chance * total < count:
            bits_of_wrong = -log2(chance)  # of one wrong element, if values are random
            bits_of_others = -log2(1 - chance)
            of_chance = count * bits_of_wrong + (total - count) * bits_of_others
            of_positions = max(of_positions, of_chance)
        of_values = float(self.surprise[elements].sum())
        return of_positions + of_values

    @cached_property
    def price_of_all(self) -> float:
        """The bits of the list of all that is wrong."""
        return self.price_list(self.wrong)


def clear_sign_of_zeros(output: Array, expected: Array) -> Array:
    """The output with +0 for -0 where another value is expected: there, the sign means nothing."""
    if output.dtype.kind not in "fc":
        return output
    is_wrong_zero = (output == 0) & (expected != 0)
    return np.where(is_wrong_zero, output.dtype.type(0), output)


def _measure_share(values: Array, some: Array) -> Array:
    """The share of the values that each of some elements has; at least that of one value."""
    known, counts = np.unique(hash_elements(values), return_counts=True)
    own = hash_elements(some)
    index = np.searchsorted(known, own).clip(max=len(known) - 1)
    count = np.where(known[index] == own, counts[index], 1)
    return np.asarray(count / values.size)


def hash_elements(values: Array) -> Array:
    """The bits of elements as integers; those of 16 bytes are hashed into 8."""
    words = bits(values)
    if words.dtype.kind != "V":
        return words.reshape(-1)
    halves = words.view("u8").reshape(-1, 2)
    mixed = halves[:, 0] * np.uint64(0x9E3779B97F4A7C15)
    return np.asarray(mixed ^ halves[:, 1])


# Reading


def read_evidence(
    pair: Pair,
    values: Source,
    sequences: Sequences,
    wrong: Array,
    tolerance: Tolerance | None,
    memory: int,
) -> Evidence | None:
    """The evidence of the sequences that are marked as wrong; None if none of them fit in memory.

    `values` is the input, and `sequences` are those of the whole tensor.
    """
    window = _choose_window(sequences, wrong, memory // _COPIES // pair.a.dtype.itemsize)
    if window is None:
        return None
    lengths = sequences.lengths[_clip(window, sequences.lengths.shape)]
    part = Sequences(sizes_of(window), sequences.axis, lengths, sequences.width)
    most = max(_LEAST, memory // _BYTES)
    index = _choose_sequences(part, wrong[_clip(window, wrong.shape)], most)
    if index is None:
        return None
    at = np.ix_(*index)
    expected = _read_numbers(pair.b, window)[at]
    return Evidence(
        part,
        index,
        [bounds.start for bounds in window],
        tolerance,
        values=_read_numbers(values, window),
        output=clear_sign_of_zeros(_read_numbers(pair.a, window)[at], expected),
        expected=expected,
        is_sample=sum(map(len, index)) < sum(sequences.shape),
    )


def _choose_window(sequences: Sequences, wrong: Array, most: int) -> Region | None:
    """A region of this many elements around the first wrong sequence; None if that is too long.

    If the tensor has not more elements, the region is all of it.
    """
    window = [slice(0, size) for size in sequences.shape]
    first = np.argwhere(wrong)[0]
    for d, size in enumerate(sequences.shape):
        if d == sequences.axis:
            continue
        others = prod(sizes_of(tuple(window))) // size
        count = min(max(1, most // others), size)
        start = min(int(first[d]), size - count)
        window[d] = slice(start, start + count)
    region = tuple(window)
    if prod(sizes_of(region)) > most:
        return None
    return region


def _clip(window: Region, sizes: Shape) -> Region:
    """The window in a tensor that has size 1 in some of the dimensions."""
    parts: list[slice] = []
    for bounds, size in zip(window, sizes, strict=True):
        parts.append(slice(0, 1) if size == 1 else bounds)
    return tuple(parts)


def _choose_sequences(sequences: Sequences, wrong: Array, most: int) -> list[Array] | None:
    """The indices of a sample in each dimension; None if not even one sequence has room.

    A small tensor is taken whole. A sample of a larger one has whole sequences, `room` of them at
    most. Each of the k dimensions that are not the axis has about the k-th root of `room` indices:
    those of some wrong sequences, of their neighbours, and of others.
    """
    shape = sequences.shape
    size = sequences.size
    index = [np.arange(count) for count in shape]
    if prod(shape) <= min(_MOST_WHOLE, most):
        return index
    room = min(max(1, _MOST_SAMPLED // size), most // size)
    if not room:
        return None
    examples = np.argwhere(wrong)
    examples = examples[np.linspace(0, len(examples) - 1, _EXAMPLES).astype(np.intp)]
    others = [d for d in range(len(shape)) if d != sequences.axis]
    others.sort(key=lambda d: shape[d])  # what a small dimension leaves, larger ones can use
    for i, d in enumerate(others):
        root = int(room ** (1 / (len(others) - i)))
        index[d] = _choose_sample_indices(examples[:, d], shape[d], max(1, root))
        room //= len(index[d])
    return index


def _choose_sample_indices(examples: Array, size: int, most: int) -> Array:
    """At most this many indices of a dimension.

    They are chosen in this order: those of examples and of their neighbours, some that are spread
    over the dimension, and those of the other examples.
    """
    count = min(most, size)
    # An example and its neighbours take 3 indices, and a fourth is left for one that is spread.
    # With less room than that, only each `step`-th example has neighbours.
    step = 1 + 4 * _EXAMPLES // count
    near = examples[::step, None] + np.array([0, -1, 1])
    spread = np.linspace(0, size - 1, count).astype(np.intp)
    by_importance = np.concatenate([near.ravel(), spread, examples])
    distinct = dict.fromkeys(by_importance.tolist())
    inside = [i for i in distinct if 0 <= i < size]
    return np.array(sorted(inside[:count]))


def _read_numbers(source: Source, region: Region) -> Array:
    """The elements of a region as numbers, of minifloats as FLOAT32."""
    return np.ascontiguousarray(as_numbers(native(source.read_task(region).read())))
