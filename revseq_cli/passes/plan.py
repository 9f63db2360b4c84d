"""Cuts a tensor into blocks that fit the memory: plain integers, computed lazily, each element in exactly one block."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from revseq_cli.formats.regions import Region


@dataclass(frozen=True)
class Plan:
    """Blocks of `extents` indices in each dimension, smaller at the far ends; they are computed while iterating.

    It `is_cheap` unless memory is so short that blocks are cut where more has to be read than they hold, or in many
    short runs.
    """

    sizes: tuple[int, ...]
    extents: tuple[int, ...]
    axis: int | None = None
    is_cheap: bool = True

    @property
    def block_count(self) -> int:
        """The number of blocks, which may be too large for len()."""
        return prod(map(len, self._cuts()))

    def __iter__(self) -> Iterator[Region]:
        """The blocks in C order; none for a tensor without elements."""
        starts = self._cuts()
        if not all(starts):
            return
        index = [0] * len(starts)
        while True:  # itertools.product would first list every cut of every dimension
            yield tuple(
                slice(cuts[i], min(cuts[i] + cuts.step, size))
                for cuts, i, size in zip(starts, index, self.sizes, strict=True)
            )
            for d in reversed(range(len(index))):
                index[d] += 1
                if index[d] < len(starts[d]):
                    break
                index[d] = 0
            else:
                return

    def _cuts(self) -> list[range]:
        return [range(0, size, extent) for size, extent in zip(self.sizes, self.extents, strict=True)]

    @property
    def block_elements(self) -> int:
        """The number of elements in the largest block."""
        return prod(self.extents)

    @property
    def cuts_lines(self) -> bool:
        """Whether lines are cut, since a whole one is too large for a block."""
        return self.axis is not None and self.extents[self.axis] < self.sizes[self.axis]


def make_plan(
    sizes: tuple[int, ...], axis: int | None, *, most_elements: int, grain: tuple[int, ...], order: str = "C"
) -> Plan:
    """Cut the slowest dimension first, at multiples of its grain, until a block has at most `most_elements`.

    The axis comes last in any order, so that lines stay whole as long as one of them fits. `order` is the memory order,
    "C" or "F". No block is smaller than one grain in each dimension, and so it may have more than `most_elements`.
    """
    extents = [max(1, size) for size in sizes]
    slowest_first = range(len(sizes)) if order == "C" else reversed(range(len(sizes)))
    for d in itertools.chain((d for d in slowest_first if d != axis), [] if axis is None else [axis]):
        others = prod(extents) // extents[d]
        steps = most_elements // (others * grain[d])
        extents[d] = min(extents[d], max(1, steps) * grain[d])
        if steps:
            break
    return Plan(sizes, tuple(extents), axis)
