"""How a tensor is cut into blocks that fit the memory: integers only, lazy, every element in just one block."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from math import ceil, prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Block:
    """A planned unit: a region of the tensor, whole along the axis."""

    region: tuple[slice, ...]


@dataclass(frozen=True)
class Plan:
    """Blocks of `extents` indices each, smaller at the far ends; a plan for any number of them costs nothing."""

    sizes: tuple[int, ...]
    extents: tuple[int, ...]
    item_size: int

    def __len__(self) -> int:
        """How many blocks there are: computed, not counted."""
        return prod(ceil(size / extent) for size, extent in zip(self.sizes, self.extents, strict=True))

    def __iter__(self) -> Iterator[Block]:
        """The blocks in C order of their regions; together they cover every element exactly once."""
        cuts = [
            [slice(start, min(start + extent, size)) for start in range(0, size, extent)]
            for size, extent in zip(self.sizes, self.extents, strict=True)
        ]
        return (Block(region) for region in itertools.product(*cuts))

    @property
    def block_bytes(self) -> int:
        """Bytes of the largest block."""
        return prod(self.extents) * self.item_size


def make_plan(
    sizes: tuple[int, ...],
    axis: int | None,
    item_size: int,
    *,
    most_bytes: int,
    grain: tuple[int, ...],
    order: str = "C",
) -> Plan:
    """Cut every dimension but the axis, the slowest first, at multiples of its grain, until a block fits.

    A line is never cut: a block of one line may be larger than `most_bytes`.
    """
    extents = list(sizes)
    dimensions = range(len(sizes)) if order == "C" else range(len(sizes) - 1, -1, -1)
    for d in dimensions:
        if d == axis:
            continue
        others = item_size * prod(extents) // extents[d]
        steps = most_bytes // (others * grain[d])
        extents[d] = min(extents[d], max(1, steps) * grain[d])
        if steps:
            break
    return Plan(sizes, tuple(extents), item_size)
