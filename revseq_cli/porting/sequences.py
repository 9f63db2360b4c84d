"""The sequences of a tensor, and from where their elements come if a port makes a mistake."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from revseq_cli.operator import directml
from revseq_cli.porting.hypotheses import Formula
from revseq_cli.porting.positions import (
    Array,
    Order,
    Origin,
    Positions,
    Shape,
    mirror,
    ravel_positions,
    replace_at,
    unravel_positions,
)


@dataclass(frozen=True, eq=False)
class Sequences:
    """The sequences of a tensor along an axis, with their lengths, which are integers from 0.

    The lengths have size 1 in each dimension along which they are all the same. Each was stored in
    `width` bytes. A method whose last arguments are `at` and `k` is the origin of a mistake, if its
    first arguments are bound.
    """

    shape: Shape
    axis: int
    lengths: Array
    width: int

    @property
    def size(self) -> int:
        """The axis size."""
        return self.shape[self.axis]

    @property
    def flat_lengths(self) -> Array:
        """The lengths in C order."""
        return self.lengths.reshape(-1)

    def find_length_index(self, at: Positions) -> Any:
        """Where in `flat_lengths` the length of the sequence at each position is."""
        sizes = self.lengths.shape
        # A dimension of size 1 has one length for all its indices.
        inside = [np.clip(index, 0, size - 1) for index, size in zip(at, sizes, strict=True)]
        return ravel_positions(inside, sizes)

    def find_lengths(self, at: Positions) -> Array:
        """The lengths of the sequences at positions, not clamped."""
        return np.asarray(self.flat_lengths[self.find_length_index(at)])

    def reverse_by_lengths(self, lengths: Any, at: Positions) -> Positions:
        """From where elements come if their sequences are reversed by these lengths."""
        n = np.minimum(lengths, self.size)
        return replace_at(at, self.axis, mirror(at[self.axis], n))

    def find_origins(self, at: Positions) -> Positions:
        """From where elements come in the expected output."""
        return self.reverse_by_lengths(self.find_lengths(at), at)

    def reverse_by_formula(self, formula: Formula, at: Positions, k: Any) -> Positions:
        """Sequences are reversed by lengths that a formula of LENGTHS makes of their own."""
        return self.reverse_by_lengths(
            formula(self.find_lengths(at), self.size, k, self.flat_lengths), at
        )

    def reverse_by_table(self, table: Array, at: Positions, k: Any) -> Positions:
        """Sequences are reversed by the lengths in another table."""
        return self.reverse_by_lengths(table[self.find_length_index(at)], at)

    def reverse_by_others(self, formula: Formula, at: Positions, k: Any) -> Positions:
        """Sequences are reversed by the length of another one, which a formula of ORDERS gives.

        A number that is larger than the table changes nothing. Lengths outside of it are 0.
        """
        own = self.find_length_index(at)
        count = self.lengths.size
        other = formula(own, count, k, self.flat_lengths)
        index = np.where(np.abs(k) < count, other, own)
        is_inside = (index >= 0) & (index < count)
        lengths = np.where(is_inside, self.flat_lengths[index % count], 0)
        return self.reverse_by_lengths(lengths, at)

    def reverse_by_number(self, at: Positions, k: Any) -> Positions:
        """Sequences take lengths by their number in the tensor; after the last one these are 0."""
        first = replace_at(at, self.axis, np.intp(0))
        number = ravel_positions(first, replace_at(self.shape, self.axis, 1))
        count = self.lengths.size
        lengths = np.where(number < count, self.flat_lengths[number % count], 0)
        return self.reverse_by_lengths(lengths, at)

    def read_start(self, formula: Formula, at: Positions, k: Any) -> Positions:
        """Elements before the length are read by a formula of START."""
        is_start = at[self.axis] < self._find_clamped_lengths(at)
        return self._read_part(formula, is_start, at, k)

    def read_rest(self, formula: Formula, at: Positions, k: Any) -> Positions:
        """Elements after the length are read by a formula of REST."""
        is_rest = at[self.axis] >= self._find_clamped_lengths(at)
        return self._read_part(formula, is_rest, at, k)

    def read_whole(self, formula: Formula, at: Positions, k: Any) -> Positions:
        """All elements are read by a formula of WHOLE."""
        return self._read_part(formula, np.bool_(True), at, k)

    def _find_clamped_lengths(self, at: Positions) -> Array:
        return np.minimum(self.find_lengths(at), self.size)

    def _read_part(self, formula: Formula, is_in_part: Any, at: Positions, k: Any) -> Positions:
        """A part of each sequence is read by a formula, and the others are as expected.

        A number that is larger than the axis size changes nothing.
        """
        j = at[self.axis]
        n = self._find_clamped_lengths(at)
        index = formula(j, n, self.size, k)
        is_by_formula = is_in_part & (np.abs(k) < self.size)
        return replace_at(at, self.axis, np.where(is_by_formula, index, mirror(j, n)))

    def read_unclamped(self, formula: Formula, at: Positions, k: Any) -> Positions:
        """Sequences are read by a formula of UNCLAMPED."""
        index = formula(at[self.axis], self.find_lengths(at), self.size, k)
        return replace_at(at, self.axis, index)

    def read_past_the_end(self, at: Positions, k: Any) -> Positions:
        """The memory after sequences is read, as by DirectML to 1.12; outside of it are zeros."""
        length = directml.keep_low_bits(self.find_lengths(at))
        flat = ravel_positions(at, self.shape)
        step = prod(self.shape[self.axis + 1 :])
        # Only elements of 8 bytes have another limit, at 2^31 positions.
        position = directml.find_position_older(flat, at[self.axis], length, step, itemsize=4)
        return unravel_positions(position, self.shape)

    def reverse_other_axis(
        self, axis: int, length_axis: int, index_axis: int, at: Positions, k: Any
    ) -> Positions:
        """An axis is reversed by other lengths than its own.

        The index in one dimension, `index_axis`, chooses the length along another, `length_axis`.
        """
        lengths = self.find_lengths(replace_at(at, length_axis, at[index_axis]))
        clamped = np.minimum(lengths, self.shape[axis])
        return replace_at(at, axis, mirror(at[axis], clamped))

    def reverse_untransposed(self, order: Order, at: Positions, k: Any) -> Positions:
        """The memory is reversed as if it had the axes in this order."""
        other = Sequences(
            order.sizes,
            order.axes.index(self.axis),
            self.lengths.transpose(order.axes),
            self.width,
        )
        there = other.find_origins(unravel_positions(ravel_positions(at, self.shape), order.sizes))
        return unravel_positions(ravel_positions(there, order.sizes), self.shape)

    def move_output(self, origin: Origin, at: Positions, k: Any) -> Positions:
        """Elements of the expected output are moved."""
        return self.find_origins(origin(at, k))

    def move_input(self, origin: Origin, at: Positions, k: Any) -> Positions:
        """Elements of the input are moved before the reversal."""
        return origin(self.find_origins(at), k)

    def read_indices(self, d: int, formula: Formula, at: Positions, k: Any) -> Positions:
        """Elements come from another index in dimension d, by a formula of ORDERS.

        A number that is larger than the dimension changes nothing.
        """
        size = self.shape[d]
        index = formula(at[d], size, k, self.flat_lengths)
        return replace_at(at, d, np.where(np.abs(k) < size, index, at[d]))

    @property
    def batch_dimension(self) -> int:
        """The dimension of batches: the first one that is not the axis."""
        if self.axis == 0:
            return 1
        return 0

    def name_indices(self, d: int, indices: list[int]) -> str:
        """What some indices of a dimension are called."""
        numbers = ", ".join(map(str, indices))
        if d != self.batch_dimension:
            return f"index {numbers} in dimension {d}"
        if len(indices) == 1:
            return f"batch {numbers}"
        return f"batches {numbers}"
