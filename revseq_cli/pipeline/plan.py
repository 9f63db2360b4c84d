"""Cuts a tensor into blocks that fit the memory: plain integers, computed lazily, each element in exactly one block."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from math import isqrt, prod
from typing import TYPE_CHECKING, NamedTuple

from revseq_cli.core import thresholds

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
        cuts = self._cuts()
        for number in range(self.block_count):  # itertools.product would first list every cut of every dimension
            block = []
            for starts, size in zip(reversed(cuts), reversed(self.sizes), strict=True):
                number, i = divmod(number, len(starts))
                block.append(slice(starts[i], min(starts[i] + starts.step, size)))
            yield tuple(reversed(block))

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

    def run(self, order: str) -> int:
        """The number of a block's elements that lie one after another in the memory order `order`."""
        run = 1
        for d in reversed(_slowest_first(self.sizes, order)):
            run *= self.extents[d]
            if self.extents[d] < self.sizes[d]:
                break
        return run


def make_plan(
    sizes: tuple[int, ...], axis: int | None, *, most_elements: int, cut_alignment: tuple[int, ...], order: str = "C"
) -> Plan:
    """Cut the slowest dimension first, at multiples of its cut alignment, until a block has at most `most_elements`.

    The axis comes last in any order, so that lines stay whole as long as one of them fits. `order` is the memory order,
    "C" or "F". No block is smaller than one cut alignment in each dimension, and so it may have more than
    `most_elements`.
    """
    extents = [max(1, size) for size in sizes]
    others = (d for d in _slowest_first(sizes, order) if d != axis)
    for d in itertools.chain(others, [] if axis is None else [axis]):
        across = prod(extents) // extents[d]
        steps = most_elements // (across * cut_alignment[d])
        extents[d] = min(extents[d], max(1, steps) * cut_alignment[d])
        if steps:
            break
    return Plan(sizes, tuple(extents), axis)


def _slowest_first(sizes: tuple[int, ...], order: str) -> Sequence[int]:
    return range(len(sizes)) if order == "C" else range(len(sizes))[::-1]


COLUMN_BYTES = 64  # for a column of a tiling: its length, and indices that sort it


def fewest_rows() -> int:
    """The fewest rows that a block of a tiling has, where it is not one column."""
    return max(1, 2 * thresholds.USUAL_ROWS // 3)


class Tiling(NamedTuple):
    """How a tensor passes through a temporary file, seen as columns along its axis, and rows across them.

    `panels` have whole columns; those of a panel are sorted, and are stripes of `width` columns in the file. `blocks`
    are rows of a panel: each is read at once and written as tiles, which are its parts of the stripes; then each is
    read from tiles and written at once.
    """

    panels: Plan
    blocks: Plan
    width: int
    order: str

    @property
    def run(self) -> int:
        """The elements that are read or written as one run: of a tile, or, if they are fewer, of input and output."""
        return min(self.width * self._rows, self.blocks.run(self.order))

    @property
    def most_read(self) -> int:
        """The most elements that are read of the temporary file, whatever the lengths are.

        A block reads of each stripe the rows that move into it, which are more than its own by the difference between
        the longest and the shortest length. Since columns are sorted, these differences add up to one line for each
        block. Where lengths end, a block reads its own rows, too.
        """
        rows, size = self._rows, self.panels.block_elements // self._columns
        count = -(-size // rows)
        again = (count + 1) * self.width * (size + count) if self.width > 1 else 0
        return self.panels.block_count * (self._columns * (size + 3 * rows) + again)

    @property
    def _rows(self) -> int:
        return self.blocks.extents[self.blocks.axis or 0]

    @property
    def _columns(self) -> int:
        return self.blocks.block_elements // self._rows


def make_tiling(sizes: tuple[int, ...], axis: int, *, most_elements: int, order: str = "C") -> Tiling:
    """The tiling with blocks of at most `most_elements`, whose runs are as long in the file as in input and output.

    A tile has `rows * width` elements, a row of a block has `most_elements / rows`, and `width` is a constant.
    """
    width = max(1, most_elements // thresholds.STRIPE_PART // max(1, sizes[axis]))
    columns = max(1, min(isqrt(most_elements * width), most_elements // thresholds.USUAL_ROWS))
    plan = make_plan(sizes, axis, most_elements=columns * sizes[axis], cut_alignment=(1,) * len(sizes), order=order)
    panels = replace(plan, extents=tuple(map(_even, sizes, plan.extents)))
    columns = panels.block_elements // panels.extents[axis]
    rows = min(max(1, most_elements // columns), panels.extents[axis])
    extents = tuple(rows if d == axis else extent for d, extent in enumerate(panels.extents))
    return Tiling(panels, Plan(sizes, extents, axis), min(width, columns), order)


def _even(size: int, extent: int) -> int:
    """About the same extent, of which a dimension of that size has a whole number, or nearly so."""
    return max(1, -(-size // max(1, round(size / extent))))
