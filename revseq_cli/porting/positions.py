"""Positions in a tensor: index arrays that broadcast, one for each dimension.

So one function serves a few elements, a few elements with many numbers k, and the whole tensor.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Positions = Sequence[Any]
Shape = tuple[int, ...]
# The positions from which the elements at positions come, by a mistake with the number k.
Origin = Callable[[Positions, Any], Positions]


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
    """The position of each flat index; outside of the tensor, the first index is outside.

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
        orders.append(Order(axes, tuple(shape[d] for d in axes)))
    return orders[1:]  # the first is the order that the tensor has


@dataclass(frozen=True)
class Memory:
    """The memory of a tensor of this shape, in C order, as a port misreads it.

    With their first arguments bound, the methods are origins.
    """

    shape: Shape

    def read_transposed(self, order: Order, at: Positions, k: Any) -> Positions:
        """The memory has the elements of the tensor with its axes transposed to this order."""
        there = unravel_positions(ravel_positions(at, self.shape), order.sizes)
        return [there[order.axes.index(d)] for d in range(len(order.axes))]

    def read_untransposed(self, order: Order, at: Positions, k: Any) -> Positions:
        """The memory is read as if it had the elements of such a transposed tensor."""
        there = [at[d] for d in order.axes]
        return unravel_positions(ravel_positions(there, order.sizes), self.shape)

    def read_around(self, at: Positions, k: Any) -> Positions:
        """Elements come from k further in memory, where the last is followed by the first."""
        flat = (ravel_positions(at, self.shape) + k) % prod(self.shape)
        return unravel_positions(flat, self.shape)

    def read_shifted(self, at: Positions, k: Any) -> Positions:
        """Elements come from k further in memory, or from outside."""
        return unravel_positions(ravel_positions(at, self.shape) + k, self.shape)

    def read_padded(self, row: int, at: Positions, k: Any) -> Positions:
        """The memory has rows padded to a multiple of k elements, and is read as if they were not.

        Where rows of 3 are padded to 4, the output has the elements 0 1 2 - 3 4 5 -.
        """
        i, column = np.divmod(ravel_positions(at, self.shape), _round_up(row, k))
        flat = np.where(column < row, i * row + column, -1)
        return unravel_positions(flat, self.shape)

    def read_packed(self, row: int, at: Positions, k: Any) -> Positions:
        """The memory is read as if it had rows padded to a multiple of k elements.

        Where rows of 3 are taken for rows padded to 4, the output has 0 1 2 4 5 6 8 9 10.
        """
        i, column = np.divmod(ravel_positions(at, self.shape), row)
        flat = i * _round_up(row, k) + column
        return unravel_positions(flat, self.shape)


def _round_up(row: int, k: Any) -> Any:
    """The least multiple of k that is not below the row."""
    return -(-row // k) * k
