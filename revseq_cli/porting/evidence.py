"""What is wrong in an output, and how many bits a list of it takes.

A list of wrong elements takes the bits of their positions and of their values. A value takes fewer
bits if the data have it often, and a wrong boolean none.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import log2

import numpy as np

from revseq_cli.core.dtypes import bits
from revseq_cli.pipeline.folds import Tolerance, unequal
from revseq_cli.porting.positions import (
    Array,
    Positions,
    ravel_positions,
    replace_at,
    unravel_positions,
)
from revseq_cli.porting.rules import count_true, price_choice
from revseq_cli.porting.sequences import Sequences

_MOST_SURPRISE = 12.0  # bits of the value of one element, at most
_PROBES = 64  # wrong elements that are tried first


@dataclass(frozen=True, eq=False)
class Probes:
    """Some wrong elements: their positions, and their values in both outputs."""

    at: Positions
    output: Array
    expected: Array


@dataclass(frozen=True, eq=False)
class Evidence:
    """A wrong output, the expected one, and the input of the job.

    `values` are a window of the input, which begins at `window_starts` in the whole tensor. The
    outputs have the elements at `sample_index` in that window: not all of them if the tensor is
    large, which `is_sample` says. Only elements in `asked` are to be explained.
    """

    sequences: Sequences
    sample_index: list[Array]
    window_starts: list[int]
    tolerance: Tolerance | None
    values: Array
    output: Array
    expected: Array
    is_sample: bool
    asked: Array | bool = True

    @property
    def axis(self) -> int:
        """The axis of the sequences."""
        return self.sequences.axis

    @cached_property
    def at(self) -> Positions:
        """The positions of the outputs' elements in the window."""
        return np.ix_(*self.sample_index)

    @cached_property
    def unmoved(self) -> Array:
        """The input's elements at these positions."""
        return self.values[self.at]

    @cached_property
    def wrong(self) -> Array:
        """The wrong elements among those that are asked for."""
        return self.asked & ~self.find_equal(self.output, self.expected)

    @cached_property
    def wrong_sequences(self) -> Array:
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
        """The input's elements at positions in the window; zeros outside of it."""
        inside = np.ones((), np.bool_)
        for i, size in zip(at, self.values.shape, strict=True):
            inside = inside & (i >= 0) & (i < size)
        flat = np.where(inside, ravel_positions(at, self.values.shape), 0)
        zero = np.zeros((), self.values.dtype)
        return np.where(inside, self.values.reshape(-1)[flat], zero)

    def find_whole_indices(self, d: int) -> list[int]:
        """The indices of a dimension, as they are in the whole tensor."""
        return [self.window_starts[d] + int(i) for i in self.sample_index[d]]

    # Prices

    @cached_property
    def surprise(self) -> Array:
        """The bits of the value of each wrong element: few if the data have it often."""
        share = _measure_share(self.unmoved, self.output[self.wrong])
        expected_share = _measure_share(self.unmoved, self.expected[self.wrong])
        # The chance of this value among all values that are not the expected one.
        chance = share / np.maximum(1 - expected_share, 1e-9)
        if self.tolerance:  # other values equal it, too: at least as many as equal a random one
            values = self.unmoved.reshape(-1)
            others = np.random.default_rng(0).permutation(values)
            chance = np.maximum(chance, self.find_equal(values, others).mean())
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

        Positions take more bits if random values would make fewer elements wrong. If all booleans
        are wrong, for instance, their list would be short; but random values make half of them
        wrong, so that all are wrong only by an inversion.
        """
        asked = count_true(np.broadcast_to(self.asked, elements.shape))
        count = count_true(elements)
        of_positions = price_choice(asked, count)
        chance = self.chance_of_wrong
        if 0 < chance * asked < count and chance < 1:
            by_chance = -count * log2(chance)
            by_chance -= (asked - count) * log2(1 - chance)
            of_positions = max(of_positions, by_chance)
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
