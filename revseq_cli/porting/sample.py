"""The sample of a wrong output: what stands in some of its elements, what is right there, and what the input has.

All of a small tensor is its sample. Of a larger one it is a few blocks, and any other element of the input is read by
itself. Some wrong elements are the probes: what does not explain half of them explains nothing.
"""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.core.dtypes import bits, native
from revseq_cli.pipeline.blocks import cut, lengths_of
from revseq_cli.pipeline.comparison import located
from revseq_cli.pipeline.reversal import reversed_output
from revseq_cli.porting.features import Spots
from revseq_cli.porting.relations import mirrored

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Region, Source
    from revseq_cli.pipeline.assembly import Job
    from revseq_cli.pipeline.comparison import Differences, Tolerance

    Numbers = NDArray[Any]
    At = Sequence[Numbers]

# A tensor of so many elements is its own sample; of a larger one, it has a few blocks of so many.
SMALL, _BLOCK, _BLOCKS = 1 << 16, 1 << 13, 6
_PROBES = 64
# Numbers that are tried for k where nothing is read from the output.
_TRIED = {
    "small": [1, 2, 3, 4],
    "either": [1, -1, 2, -2, 3, -3, 4, -4],
    "divisor": [2, 3, 4, 5, 8, 10, 16, 32, 64],
    "powers": [2, 4, 8, 16, 32, 64, 128],
    "bits": [32, 31, 16, 15, 8, 7, 6, 5, 4, 3],
    "words": [16, 32, 64],
    "wrap": [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 32768, 65536],
}


def differing(a: Numbers, b: Numbers, tolerance: Tolerance | None) -> NDArray[np.bool_]:
    """Which elements differ."""
    if tolerance is None:
        return np.asarray(bits(a) != bits(b))
    different = np.zeros(a.size, np.bool_)
    different[located(a, b, tolerance, 0)[1]] = True
    return different.reshape(a.shape)


def number_of(at: At, sizes: Sequence[int]) -> Numbers:
    """The number in C order of the element at each index; -1 where there is none."""
    number: Any = 0
    inside: Any = True
    for i, size in zip(at, sizes, strict=True):
        number = number * size + i
        inside = inside & (i >= 0) & (i < size)
    return np.where(inside, number, -1)


def at_of(numbers: Numbers, sizes: Sequence[int]) -> list[Numbers]:
    """The indices of the elements with these numbers.

    NumPy's own are wrong above 8,192 numbers of a shape such as (n, 1): https://github.com/numpy/numpy/issues/31980
    """
    return [each.reshape(numbers.shape) for each in np.unravel_index(numbers.reshape(-1), sizes)]


def put(at: At, d: int, index: Numbers) -> tuple[Numbers, ...]:
    """The same indices, but for those in one dimension."""
    return (*at[:d], index, *at[d + 1 :])


@dataclass(frozen=True, eq=False)
class Elements:
    """Elements of a tensor by their indices in each dimension; the `table` has the lengths of all lines, unclamped."""

    at: tuple[Numbers, ...]
    sizes: tuple[int, ...]
    axis: int
    table: Numbers

    @property
    def size(self) -> int:
        """The axis size."""
        return self.sizes[self.axis]

    @property
    def j(self) -> Numbers:
        """Their indices in the line."""
        return self.at[self.axis]

    @functools.cached_property
    def line(self) -> Numbers:
        """The numbers of their lines."""
        return number_of(put(self.at, self.axis, self.j * 0), self.table.shape)

    @functools.cached_property
    def lengths(self) -> Numbers:
        """The lengths of their lines, unclamped."""
        return np.asarray(self.table.reshape(-1)[self.line])

    @functools.cached_property
    def n(self) -> Numbers:
        """The lengths of their lines, clamped."""
        return np.minimum(self.lengths, self.size)

    @functools.cached_property
    def number(self) -> Numbers:
        """Their numbers in C order."""
        return number_of(self.at, self.sizes)

    @functools.cached_property
    def origin(self) -> Elements:
        """The elements of the input that belong there."""
        return self.moved(self.axis, mirrored(self.j, self.n))

    def moved(self, d: int, index: Numbers) -> Elements:
        """Those at other indices in dimension d; at the nearest one there is."""
        return self.elsewhere(put(self.at, d, np.clip(index, 0, self.sizes[d] - 1)))

    def elsewhere(self, at: At) -> Elements:
        """Other elements of the tensor."""
        return Elements((*at,), self.sizes, self.axis, self.table)

    def numbered(self, numbers: Numbers) -> Elements:
        """The elements with these numbers, or the nearest ones there are."""
        return self.elsewhere(at_of(np.clip(numbers, 0, prod(self.sizes) - 1), self.sizes))

    @functools.cached_property
    def _first(self) -> Numbers:
        return np.asarray(self.number - self.j * prod(self.sizes[self.axis + 1 :]))

    def along(self, index: Numbers, kind: str = "neighbour") -> Numbers:
        """The numbers of elements at other indices of their lines; what is outside depends on the kind of relation."""
        if kind == "wrap":
            index = index % self.size
        elif kind == "clip":
            index = np.clip(index, 0, self.size - 1)
        found = self._first + index * prod(self.sizes[self.axis + 1 :])
        return np.asarray(found if kind else np.where((index < 0) | (index >= self.size), -1, found))

    @property
    def spots(self) -> Spots:
        """The same, as rules take them."""
        return Spots(self.at, self.sizes, self.axis, self.lengths, of_lines=False)


class Piece(NamedTuple):
    """A part of the sample: what is there in `a` and in the input, and which lines differ."""

    region: Region
    a: Numbers
    x: Numbers
    wrong: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Sample:
    """What is read of a tensor `a`, which differs from what is `right`, the output of a job, as `found`.

    `lengths` are those of all lines, unclamped. Where `a` is printed, it has the digits of other values. A block has at
    most `extent` elements of a line.
    """

    job: Job
    a: Source
    right: Source
    found: Differences
    tolerance: Tolerance | None
    lengths: Numbers
    is_printed: bool
    extent: int

    @property
    def size(self) -> int:
        """The axis size."""
        return self.job.values.sizes[self.job.axis]

    @property
    def cuts_lines(self) -> bool:
        """Whether blocks have parts of lines, since memory has no room for whole ones."""
        return self.extent < self.size

    @property
    def is_whole(self) -> bool:
        """Whether it is all of the tensor."""
        return self.a.desc.element_count <= SMALL

    @functools.cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """All of a small tensor, or blocks where it differs, with the first and the last difference."""
        sizes, axis = self.job.values.sizes, self.job.axis
        if self.is_whole:
            return (self._piece(tuple(slice(0, size) for size in sizes)),)
        plan = cut(sizes, axis, most=_BLOCK, alignment=(1,) * len(sizes))
        lines = np.argwhere(np.asarray(self.found.where.wrong))
        chosen = lines[np.linspace(0, len(lines) - 1, _BLOCKS).astype(int)].tolist()
        places = [*self.found.indices[:1].tolist(), list(self.found.where.last), *chosen]
        starts = [tuple(i // extent * extent for i, extent in zip(at, plan.extents, strict=True)) for at in places]
        ends = [*zip(plan.extents, sizes, strict=True)]
        return tuple(
            self._piece(tuple(slice(i, min(i + extent, size)) for i, (extent, size) in zip(start, ends, strict=True)))
            for start in dict.fromkeys(starts)
        )

    def _piece(self, region: Region) -> Piece:
        a, right, x = (each.read_task(region).read() for each in (self.a, self.right, self.job.values))
        wrong = np.asarray(differing(a, right, self.tolerance).any(self.job.axis, keepdims=True))
        return Piece(region, native(a), native(x), wrong)

    @functools.cached_property
    def elements(self) -> Elements:
        """Its elements, one after the other."""
        grids = [np.meshgrid(*(np.arange(part.start, part.stop) for part in piece.region), indexing="ij")
                 for piece in self.pieces]  # fmt: skip
        at = tuple(np.concatenate([each.reshape(-1) for each in found]) for found in zip(*grids, strict=True))
        return Elements(at, self.job.values.sizes, self.job.axis, self.lengths)

    @functools.cached_property
    def there(self) -> Numbers:
        """What stands in its elements."""
        return np.concatenate([piece.a.reshape(-1) for piece in self.pieces])

    @functools.cached_property
    def x(self) -> Numbers:
        """What the input has at the same places."""
        return np.concatenate([piece.x.reshape(-1) for piece in self.pieces])

    @functools.cached_property
    def belongs(self) -> Numbers:
        """What is right in its elements."""
        if self.is_whole:
            return self.inputs(self.elements.origin.number)
        right = reversed_output(self.job) if self.is_printed else self.right
        return np.concatenate([native(right.read_task(piece.region).read()).reshape(-1) for piece in self.pieces])

    @functools.cached_property
    def spread(self) -> Elements:
        """Elements all over the tensor, at uneven distances; none of them is read."""
        return self.elements.numbered(np.arange(SMALL) * 0x9E3779B1 % prod(self.job.values.sizes))

    # Probes

    @functools.cached_property
    def _chosen(self) -> Numbers:
        differs = np.flatnonzero(self.differ(self.there, self.belongs))
        return np.asarray(differs[np.linspace(0, max(len(differs) - 1, 0), min(_PROBES, len(differs))).astype(int)])

    @functools.cached_property
    def probes(self) -> Elements:
        """Some wrong elements."""
        return self.elements.elsewhere([each[self._chosen] for each in self.elements.at])

    @property
    def at_probes(self) -> tuple[Numbers, Numbers]:
        """What stands at the probes, and what is right there."""
        return self.there[self._chosen], self.belongs[self._chosen]

    def inputs(self, numbers: Numbers) -> Numbers:
        """The elements of the input with these numbers; zeros where there is none."""
        outside = (numbers < 0) | (numbers >= self.job.values.desc.element_count)
        asked = np.where(outside, 0, numbers)
        if self.is_whole:
            found = self.x[asked]
        else:
            known, x = self._known
            place = np.minimum(np.searchsorted(known, asked), len(known) - 1)
            found = x[place]
            for at in zip(*np.nonzero(known[place] != asked), strict=True):
                found[at] = self._input(int(asked[at]))
        found[outside] = np.zeros((), found.dtype)
        return found

    @functools.cached_property
    def _known(self) -> tuple[Numbers, Numbers]:
        """The numbers of the inputs that are read, in order, and the inputs."""
        numbers, first = np.unique(self.elements.number, return_index=True)
        return numbers, self.x[first]

    def _input(self, number: int) -> Any:  # noqa: ANN401 - an element
        if number not in self._read:
            values = self.job.values
            region = tuple(slice(int(i), int(i) + 1) for i in np.unravel_index(number, values.sizes))
            self._read[number] = native(values.read_task(region).read()).reshape(-1)[0]
        return self._read[number]

    @functools.cached_property
    def _read(self) -> dict[int, Any]:
        return {}

    def differ(self, a: Numbers, b: Numbers) -> NDArray[np.bool_]:
        """Which elements differ; where `a` is printed, by more than its digits."""
        if self.is_printed:
            return ~np.isclose(a.astype(np.float64), b.astype(np.float64), rtol=1e-4, atol=1e-7, equal_nan=True)
        return differing(a, b, self.tolerance)

    # Numbers that it speaks for

    @functools.cached_property
    def reversed_by(self) -> list[tuple[int, int]]:
        """For wrong lines, the given length, and the one that they look reversed by: one behind their last change."""
        found: list[tuple[int, int]] = []
        axis = self.job.axis
        for piece in self.pieces:
            if piece.a.shape[axis] == self.size:
                changed = np.moveaxis(self.differ(piece.x, piece.a), axis, -1)
                ends = np.where(changed.any(-1), self.size - changed[..., ::-1].argmax(-1), 0)
                given, wrong = (
                    np.take(each, 0, axis) for each in (self.lengths[lengths_of(piece.region, axis)], piece.wrong)
                )
                found += zip(given[wrong].tolist(), ends[wrong].tolist(), strict=True)
        return found

    def numbers_tried(self, name: str) -> list[int]:
        """The numbers that k may be for relations of lengths and places, the likely ones first."""
        if name in _TRIED or not name:
            return _TRIED.get(name, [0])
        size = self.size
        if name == "step":
            pairs = self.reversed_by
            counts = Counter(abs(min(n, size) - m) for n, m in pairs) + Counter(abs(n - m) for n, m in pairs)
            return list(dict.fromkeys([1, *(k for k, _ in counts.most_common(4) if k)]))
        if name == "value":
            counts = Counter(m for _, m in self.reversed_by)
            likely = [*(m for m, _ in counts.most_common(3)), *sorted(counts)[-1:]]
            return list(dict.fromkeys(m for m in likely if m < size))
        given = self.lengths[np.asarray(self.found.where.wrong)]  # "given"
        low, high = int(given.min()), int(given.max())
        return list(dict.fromkeys(min(k, size) for k in (high + 1, low, max(low - 1, 0), high)))
