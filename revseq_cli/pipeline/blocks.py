"""Cuts a tensor into blocks: plain integers, computed lazily, each element in exactly one block."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from revseq_cli.formats.contract import Region


def sizes_of(region: Region) -> tuple[int, ...]:
    """The sizes of a region."""
    return tuple(part.stop - part.start for part in region)


def lengths_of(region: Region, axis: int) -> Region:
    """The region of the lengths that belongs to a region of the values."""
    return (*region[:axis], slice(0, 1), *region[axis + 1 :])


@dataclass(frozen=True)
class Blocks:
    """Blocks of `extents` indices in each dimension, smaller at the far ends; they are computed while iterating."""

    sizes: tuple[int, ...]
    extents: tuple[int, ...]
    axis: int | None = None

    @property
    def count(self) -> int:
        """The number of blocks, which may be too large for len()."""
        return prod(map(len, self._cuts()))

    def __iter__(self) -> Iterator[Region]:
        """The blocks in C order; none for a tensor without elements."""
        cuts = self._cuts()
        for number in range(self.count):  # itertools.product would first list every cut of every dimension
            block = []
            for starts, size in zip(reversed(cuts), reversed(self.sizes), strict=True):
                number, i = divmod(number, len(starts))
                block.append(slice(starts[i], min(starts[i] + starts.step, size)))
            yield tuple(reversed(block))

    def _cuts(self) -> list[range]:
        return [range(0, size, extent) for size, extent in zip(self.sizes, self.extents, strict=True)]

    @property
    def elements(self) -> int:
        """The number of elements in the largest block."""
        return prod(self.extents)

    @property
    def cuts_lines(self) -> bool:
        """Whether lines are cut, since a whole one is too large for a block."""
        return self.axis is not None and self.extents[self.axis] < self.sizes[self.axis]

    def run(self, order: str) -> int:
        """The number of a block's elements that lie one after another in the memory order `order`."""
        run = 1
        for d in reversed(_slowest_first(self.sizes, order)):
            run *= self.extents[d]
            if self.extents[d] < self.sizes[d]:
                break
        return run


def cut(sizes: tuple[int, ...], axis: int | None, *, most: int, alignment: tuple[int, ...], order: str = "C") -> Blocks:
    """Cut the slowest dimension first, at multiples of its alignment, until a block has at most `most` elements.

    The axis comes last in any order, so that lines stay whole as long as one of them fits. `order` is the memory order,
    "C" or "F". No block is smaller than one alignment in each dimension, and so it may have more than `most`.
    """
    extents = [max(1, size) for size in sizes]
    others = (d for d in _slowest_first(sizes, order) if d != axis)
    for d in itertools.chain(others, [] if axis is None else [axis]):
        across = prod(extents) // extents[d]
        steps = most // (across * alignment[d])
        extents[d] = min(extents[d], max(1, steps) * alignment[d])
        if steps:
            break
    return Blocks(sizes, tuple(extents), axis)


def _slowest_first(sizes: tuple[int, ...], order: str) -> Sequence[int]:
    return range(len(sizes)) if order == "C" else range(len(sizes))[::-1]
