"""Positions in a tensor, and from where their elements come if a port makes a mistake.

Positions are index arrays that broadcast, one for each dimension. So one function serves a few
elements, a few elements with many numbers k, and the whole tensor. The functions of a mistake take
positions `at` and a number k, and return the positions from which these elements come.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from revseq_cli.core.dtypes import Array
from revseq_cli.operator import directml

Formula = Callable[..., Any]  # of arrays: see the tables in ideas.py and changes.py
Positions = Sequence[Any]
Shape = tuple[int, ...]
Origin = Callable[[Positions, Any], Positions]  # from where elements come by a mistake


def replace_at(items: Sequence[Any], d: int, item: Any) -> tuple[Any, ...]:
    """Positions or sizes with another item in dimension d."""
    return *items[:d], item, *items[d + 1 :]


def ravel_positions(at: Positions, shape: Shape) -> Any:
    """The flat index of each position, in C order."""
    flat = np.intp(0)
    for index, size in zip(at, shape, strict=True):
        flat = flat * size + index
    return flat


def unravel_positions(flat: Any, shape: Shape) -> Positions:
    """The position of each flat index; outside of the tensor, its first index is out of range.

    numpy.unravel_index is wrong for shapes like (n, 1): https://github.com/numpy/numpy/issues/31980
    """
    at: list[Any] = []
    for size in shape[:0:-1]:
        flat, index = np.divmod(flat, size)
        at.insert(0, index)
    return flat, *at


def mirror(j: Array, n: Array) -> Array:
    """The index from which the element at index j of a sequence of length n comes."""
    is_before = (j >= 0) & (j < n)
    return np.where(is_before, n - 1 - j, j)


def flip_tiles(i: Array, end: Any, k: Any) -> Array:
    """The index mirrored in its tile of k; the last tile may be cut by the end."""
    last = np.minimum(i // k * k + k, end) - 1
    return np.asarray(last - i % k)


@dataclass(frozen=True)
class Order:
    """An order of a tensor's axes, and its sizes in this order."""

    axes: Shape
    sizes: Shape


def list_orders(shape: Shape) -> list[Order]:
    """All other orders of the axes; none for a rank above 5, which has too many."""
    if len(shape) > 5:
        return []
    orders: list[Order] = []
    for axes in itertools.permutations(range(len(shape))):
        sizes = tuple(shape[d] for d in axes)
        orders.append(Order(axes, sizes))
    return orders[1:]  # the first is the order that the tensor has


def pad_rows(row: int, i: Any, k: Any) -> Any:
    """From where in memory elements come if rows are written with padding, and read without it.

    Rows are padded to a multiple of k elements. Rows of 3, padded to 4, are read as 0 1 2 - 3 4 5.
    """
    padded_row = row + -row % k
    column = i % padded_row
    return np.where(column < row, i // padded_row * row + column, -1)


def pack_rows(row: int, i: Any, k: Any) -> Any:
    """From where in memory elements come if rows are written without padding, and read with it.

    Rows of 3 that are taken for rows padded to 4 are read as 0 1 2 4 5 6 8 9 10.
    """
    padded_row = row + -row % k
    return i // row * padded_row + i % row


@dataclass(frozen=True, eq=False)
class Sequences:
    """The sequences of a tensor along an axis, with their lengths, which are integers from 0.

    The lengths have size 1 in each dimension along which they are all the same. Each was stored in
    `width` bytes. With the arguments before `at` bound, each method with a k is an Origin.
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
        inside: list[Any] = []
        for index, size in zip(at, sizes, strict=True):
            inside.append(np.clip(index, 0, size - 1))  # of size 1: one length for all indices
        return ravel_positions(inside, sizes)

    def find_lengths(self, at: Positions) -> Array:
        """The lengths of the sequences at positions, not clamped."""
        return np.asarray(self.flat_lengths[self.find_length_index(at)])

    def reverse_by_lengths(self, lengths: Any, at: Positions) -> Positions:
        """From where elements come if their sequences are reversed by these lengths."""
        j = at[self.axis]
        n = np.minimum(lengths, self.size)
        return replace_at(at, self.axis, mirror(j, n))

    def find_origins(self, at: Positions) -> Positions:
        """From where elements come in the expected output."""
        return self.reverse_by_lengths(self.find_lengths(at), at)

    def reverse_by_formula(self, formula: Formula, at: Positions, k: Any) -> Positions:
        """Sequences are reversed by lengths that a formula of LENGTHS makes of their own."""
        own = self.find_lengths(at)
        lengths = formula(own, self.size, k, self.flat_lengths)
        return self.reverse_by_lengths(lengths, at)

    def reverse_by_table(self, table: Array, at: Positions, k: Any) -> Positions:
        """Sequences are reversed by the lengths in another table."""
        lengths = table[self.find_length_index(at)]
        return self.reverse_by_lengths(lengths, at)

    def reverse_by_others(self, formula: Formula, at: Positions, k: Any) -> Positions:
        """Sequences are reversed by the length of another one, which a formula of ORDERS gives.

        A number that is larger than the table changes nothing. Lengths outside of it are 0.
        """
        own = self.find_length_index(at)
        count = self.lengths.size
        index = formula(own, count, k, self.flat_lengths)
        is_inside = np.abs(k) < count
        index = np.where(is_inside, index, own)
        lengths = self._read_lengths(index)
        return self.reverse_by_lengths(lengths, at)

    def reverse_by_number(self, at: Positions, k: Any) -> Positions:
        """Sequences take lengths by their number in the tensor; after the last one these are 0."""
        first = replace_at(at, self.axis, np.intp(0))
        counts = replace_at(self.shape, self.axis, 1)
        lengths = self._read_lengths(ravel_positions(first, counts))
        return self.reverse_by_lengths(lengths, at)

    def _read_lengths(self, index: Array) -> Array:
        """The lengths at these indices of `flat_lengths`; 0 outside of it."""
        count = self.lengths.size
        is_inside = (index >= 0) & (index < count)
        return np.where(is_inside, self.flat_lengths[index % count], 0)

    def read_part(self, formula: Formula, is_in_part: Formula, at: Positions, k: Any) -> Positions:
        """A part of each sequence is read by a formula, and the rest is as expected.

        `is_in_part` says of an index and a length whether the index is in the part. A number that
        is larger than the axis size changes nothing.
        """
        j = at[self.axis]
        n = np.minimum(self.find_lengths(at), self.size)
        index = formula(j, n, self.size, k)
        is_inside = np.abs(k) < self.size
        index = np.where(is_in_part(j, n) & is_inside, index, mirror(j, n))
        return replace_at(at, self.axis, index)

    def read_unclamped(self, formula: Formula, at: Positions, k: Any) -> Positions:
        """Sequences are read by a formula of UNCLAMPED."""
        j = at[self.axis]
        n = self.find_lengths(at)
        index = formula(j, n, self.size, k)
        return replace_at(at, self.axis, index)

    def read_past_the_end(self, at: Positions, k: Any) -> Positions:
        """The memory after sequences is read, as by DirectML to 1.12; outside of it are zeros."""
        length = directml.keep_low_bits(self.find_lengths(at))
        flat = ravel_positions(at, self.shape)
        j = at[self.axis]
        step = prod(self.shape[self.axis + 1 :])
        # Only elements of 8 bytes have another limit, at 2^31 positions.
        position = directml.find_position_older(flat, j, length, step, itemsize=4)
        return unravel_positions(position, self.shape)

    def reverse_other_axis(
        self, axis: int, length_axis: int, index_axis: int, at: Positions, k: Any
    ) -> Positions:
        """Another axis is reversed, or lengths go by the index in another dimension.

        The index in dimension `index_axis` chooses the length along dimension `length_axis`. With
        axis 2, length_axis 0 and index_axis 1, for example, the elements at [b, t, :] are reversed
        by the length of batch t.
        """
        where_length_is = replace_at(at, length_axis, at[index_axis])
        j = at[axis]
        n = np.minimum(self.find_lengths(where_length_is), self.shape[axis])
        return replace_at(at, axis, mirror(j, n))

    def reverse_untransposed(self, order: Order, at: Positions, k: Any) -> Positions:
        """The memory is reversed as if it had the axes in this order."""
        other = Sequences(
            order.sizes,
            order.axes.index(self.axis),
            self.lengths.transpose(order.axes),
            self.width,
        )
        flat = ravel_positions(at, self.shape)
        there = other.find_origins(unravel_positions(flat, order.sizes))
        flat_origin = ravel_positions(there, order.sizes)
        return unravel_positions(flat_origin, self.shape)

    def read_memory(self, formula: Formula, at: Positions, k: Any) -> Positions:
        """Elements come from another place in memory, by a formula of places and of k."""
        flat = ravel_positions(at, self.shape)
        return unravel_positions(formula(flat, k), self.shape)

    def read_transposed(self, order: Order, at: Positions, k: Any) -> Positions:
        """The tensor is written with its axes in this order, and read as if they were not.

        Elements 0 to 5 of shape (2, 3), written in the order (1, 0), are read as 0 3 1 4 2 5.
        """
        flat = ravel_positions(at, self.shape)
        there = unravel_positions(flat, order.sizes)
        return [there[i] for i in np.argsort(order.axes)]

    def read_untransposed(self, order: Order, at: Positions, k: Any) -> Positions:
        """The tensor is written as it is, and read as if its axes were in this order.

        In the order (1, 0), elements 0 to 5 of shape (2, 3) are read as 0 2 4 1 3 5.
        """
        there = [at[d] for d in order.axes]
        flat = ravel_positions(there, order.sizes)
        return unravel_positions(flat, self.shape)

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
        own = at[d]
        index = formula(own, size, k, self.flat_lengths)
        is_inside = np.abs(k) < size
        index = np.where(is_inside, index, own)
        return replace_at(at, d, index)

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
