"""The part of a tensor that is shown: which indices, the elements there, and what lengths do to them."""

from __future__ import annotations

import itertools
import operator
from math import inf, prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.operator import kernel
from revseq_cli.texts import literals

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Source
    from revseq_cli.formats.regions import Region

_EDGE = 3  # indices shown at either end of a dimension that is shortened

# For each dimension the slices of indices that are shown: the whole dimension, its two ends, or its first index.
Ends = list[list[slice]]


class Limits(NamedTuple):
    """What is shown of a tensor at most: elements, indices of each dimension and of the last one, and tables.

    A table has the last two dimensions.
    """

    elements: float = inf
    indices: float = inf
    columns: float = inf
    tables: float = inf


def ends_of(sizes: tuple[int, ...], limits: Limits) -> Ends:
    """The indices that are shown of a tensor."""
    longest = [limits.indices] * len(sizes)
    longest[-1:] = [min(limits.indices, limits.columns)] * bool(sizes)
    fits = prod(sizes) <= limits.elements and prod(sizes[:-2]) <= limits.tables
    if fits and all(map(operator.le, sizes, longest)):
        return [[slice(0, size)] for size in sizes]
    ends: Ends = []
    kept = tables = 1
    for size, most in zip(reversed(sizes), reversed(longest), strict=True):  # the innermost are whole if there is room
        if len(ends) >= 2:  # the dimensions of the tables are done
            most = min(most, limits.tables / tables)
        choices = [] if size > 2 * _EDGE + 1 else [[slice(0, size)]]
        choices += [[slice(0, edge), slice(size - edge, size)] for edge in (_EDGE, 1) if 2 * edge < size]
        fitting = (parts for parts in choices if count(parts) <= most and kept * count(parts) <= limits.elements)
        ends.append(next(fitting, [slice(0, 1)]))
        kept *= count(ends[-1])
        tables = prod(map(count, ends[2:]))
    return ends[::-1]


def count(parts: list[slice]) -> int:
    """The indices in the slices of a dimension."""
    return sum(part.stop - part.start for part in parts)


def indices(parts: list[slice]) -> list[int]:
    """The indices in the slices of a dimension, one by one."""
    return [i for part in parts for i in range(part.start, part.stop)]


def gap(parts: list[slice]) -> int:
    """Behind how many shown indices of a dimension others are left out; 0 if none are, or only the first is shown."""
    return parts[0].stop if len(parts) > 1 else 0


def elements(source: Source, ends: Ends) -> NDArray[Any]:
    """The elements of a tensor at the indices in `ends`, as one array; only these are read."""
    with source.at_hand() as ready:
        if not prod(source.sizes) or not source.sizes:
            return ready.read()
        return gathered(lambda region: ready.ticket(region).read(), ends, ready.chunks)


def gathered(read: Callable[[Region], NDArray[Any]], ends: Ends, chunks: tuple[int, ...] | None = None) -> NDArray[Any]:
    """What `read` gives for the indices in `ends`, as one array; a chunk is read once, since it is decoded whole."""
    groups = [[[part] for part in parts] for parts in ends]
    if chunks:
        groups = [_by_chunk(parts, size) for parts, size in zip(ends, chunks, strict=True)]
    pieces = np.empty([len(parts) for parts in groups], dtype=object)
    for place, parts in zip(np.ndindex(pieces.shape), itertools.product(*groups), strict=True):
        region = read(tuple(slice(part[0].start, part[-1].stop) for part in parts))
        for d, part in enumerate(parts):  # one dimension after another: NumPy takes no 64 arrays of indices at once
            region = region.take(np.array(indices(part)) - part[0].start, axis=d)
        pieces[place] = region
    return np.block(pieces.tolist())


def _by_chunk(parts: list[slice], size: int) -> list[list[slice]]:
    """Slices of a dimension, cut where chunks of that size begin; those in one chunk make one list."""
    cuts = [
        slice(max(part.start, start), min(part.stop, start + size))
        for part in parts
        for start in range(part.start // size * size, part.stop, size)
    ]
    return [list(group) for _, group in itertools.groupby(cuts, lambda cut: cut.start // size)]


def rendered(values: NDArray[Any]) -> list[str]:
    """Elements as text; BOOL and complex ones, which the notation lacks, as Python prints them."""
    return list(map(str, values.ravel().tolist())) if values.dtype.kind in "bc" else literals.render(values)


def left_out(shown: int, sizes: tuple[int, ...], ends: Ends) -> str:
    """A phrase that says how many elements are shown, or "" if all are."""
    total = prod(sizes)
    if shown == total:
        return ""
    first = [d for d, (parts, size) in enumerate(zip(ends, sizes, strict=True)) if parts == [slice(0, 1)] and size > 1]
    alone = f"; only the first index of the dimensions {', '.join(map(str, first))}" if first else ""
    return f"{shown:,} of {total:,} elements{alone}"


class Reversal(NamedTuple):
    """What lengths do along an axis to the shown part of a tensor of these sizes."""

    lengths: Source
    axis: int
    sizes: tuple[int, ...]

    def ends_of_lengths(self, ends: Ends) -> Ends:
        """The indices of the lengths of the shown lines."""
        return [*ends[: self.axis], [slice(0, 1)], *ends[self.axis + 1 :]]

    def moved(self, ends: Ends) -> NDArray[np.bool_]:
        """A mask of the elements in the reversed starts of their lines, for lengths above 1."""
        return gathered(self._moved, ends)

    def clamped(self, ends: Ends) -> NDArray[np.bool_]:
        """A mask of the lengths above the axis size, at the indices in `ends` of the lengths."""
        mask: NDArray[np.bool_] = elements(self.lengths, ends) > self.sizes[self.axis]
        return mask

    def origins(self, ends: Ends) -> NDArray[np.intp]:
        """For each element of the output, the index along the axis that it has in the input."""
        lengths = kernel.clamp(elements(self.lengths, self.ends_of_lengths(ends)), self.sizes[self.axis])
        places = [-1 if d == self.axis else 1 for d in range(len(ends))]
        index = np.array(indices(ends[self.axis])).reshape(places)
        return np.where(self.moved(ends), lengths - 1 - index, index)

    def _moved(self, region: Region) -> NDArray[np.bool_]:
        of_lengths = (*region[: self.axis], slice(0, 1), *region[self.axis + 1 :])
        part = region[self.axis]
        return kernel.moved(self.lengths.ticket(of_lengths).read(), self.sizes[self.axis], self.axis, part)
