"""What a picture shows: its tensors, and which of their sequences are drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revseq_cli.core.errors import shorten
from revseq_cli.core.tensors import Region, Sizes
from revseq_cli.formats.contract import Source
from revseq_cli.pipeline.folds import Differences
from revseq_cli.report import svg

MOST_COLUMNS = 12  # elements of a sequence that are drawn as cells; longer ones become bars
_MOST_CELL_ROWS = 24
_MOST_BARS = 40
_LONGEST_LABEL = 24  # characters
_PIECE = 1 << 16  # elements that are compared at once

Mask = Callable[[Region], NDArray[np.bool_]]
Run = tuple[int, int]  # the first element, and the one after the last


@dataclass(frozen=True)
class Row:
    """A sequence that is drawn: its index with 0 at the axis, its length, and where it is wrong.

    With a batch axis, a row stands for all sequences of one index of it, which have one length.
    """

    index: tuple[int, ...]
    length: int | None
    wrong: tuple[Run, ...] = ()


@dataclass(frozen=True)
class Subject:
    """What a picture shows: tensors of one shape, each with its name, and sequences along `axis`.

    `lengths` has the shape of the tensors with 1 along the axis. `mask` reads which elements of a
    region differ, and `differences` says how many do, and where the first of them are.
    """

    title: str
    sentences: tuple[str, ...]
    tensors: tuple[tuple[str, Source], ...]
    axis: int
    lengths: Source | None = None
    batch_axis: int | None = None
    mask: Mask | None = None
    differences: Differences | None = None

    @property
    def sizes(self) -> Sizes:
        """The shape of the tensors."""
        return self.tensors[0][1].sizes

    @property
    def sequence_size(self) -> int:
        """How many elements a sequence has."""
        return self.sizes[self.axis] if self.sizes else 1

    @property
    def has_cells(self) -> bool:
        """Whether the sequences are short enough to be drawn as cells."""
        return self.sequence_size <= MOST_COLUMNS

    @cached_property
    def row_sizes(self) -> Sizes:
        """How many rows there are along each dimension: 1 along the axis."""
        if self.batch_axis is None or self.has_cells:
            return self._sequence_sizes()
        # A bar stands for all sequences of one index of the batch axis.
        sizes = [1] * len(self.sizes)
        sizes[self.batch_axis] = self.sizes[self.batch_axis]
        return tuple(sizes)

    @property
    def row_count(self) -> int:
        """How many rows there are in all."""
        return prod(self.row_sizes) if self.sequence_size else 0

    @cached_property
    def rows(self) -> list[Row]:
        """The rows that are drawn: all, or wrong ones first and then the first of the others."""
        most = _MOST_CELL_ROWS if self.has_cells else _MOST_BARS
        numbers = list(range(min(self.row_count, most)))
        if self.row_count > most:
            wrong = self._wrong_numbers()[:most]
            others = [number for number in numbers if number not in wrong]
            numbers = wrong + others[: most - len(wrong)]
        return [self._read_row(number) for number in numbers]

    def wrong_rows(self, most: int) -> list[Row]:
        """The first rows that are known to be wrong."""
        return [self._read_row(number) for number in self._wrong_numbers()[:most]]

    def region(self, index: tuple[int, ...], start: int, stop: int) -> Region:
        """The elements of a row from `start` to `stop` along the axis."""
        slices = []
        for d, size in enumerate(self.row_sizes):
            is_whole = size == 1 and d != self.axis
            slices.append(slice(0, self.sizes[d]) if is_whole else slice(index[d], index[d] + 1))
        if slices:
            slices[self.axis] = slice(start, stop)
        return tuple(slices)

    def reversed_size(self, row: Row) -> int:
        """How many elements at the start of a row are reversed; a single one is not."""
        size = min(row.length or 0, self.sequence_size)
        return size if size > 1 else 0

    def read(self, source: Source, row: Row) -> NDArray[Any]:
        """The elements of one sequence."""
        region = self.region(row.index, 0, self.sequence_size)
        return source.read_task(region).read().reshape(-1)

    def label(self, row: Row) -> str:
        """What a row is called: its index, where more than one dimension has several rows."""
        several = [d for d, size in enumerate(self.row_sizes) if size > 1]
        if len(several) < 2:
            return str(row.index[several[0]]) if several else ""
        words = [":"] * len(self.sizes)
        for d in several:
            words[d] = str(row.index[d])
        return shorten(f"[{', '.join(words)}]", _LONGEST_LABEL)

    def words_for_left_out(self) -> str:
        """How many rows are not drawn; "" if all are."""
        more = self.row_count - len(self.rows)
        if not more:
            return ""
        noun = "sequences" if self.row_sizes == self._sequence_sizes() else "indices of the batch"
        order = ", wrong ones first" if self.mask else ""
        return f"{len(self.rows)} of {self.row_count:,} {noun} are shown{order}"

    def _sequence_sizes(self) -> Sizes:
        sizes = list(self.sizes)
        if sizes:
            sizes[self.axis] = 1
        return tuple(sizes)

    def _wrong_numbers(self) -> list[int]:
        """The numbers of rows, in C order, that are known to be wrong."""
        if self.differences is None:
            return []
        in_row = tuple(d for d, size in enumerate(self.row_sizes) if size == 1)
        if self.differences.sequences is not None:
            are_wrong = self.differences.sequences.any(axis=in_row)
            return np.flatnonzero(are_wrong).tolist()
        indices = self.differences.indices.copy()
        indices[:, list(in_row)] = 0
        numbers = np.ravel_multi_index(tuple(indices.T), self.row_sizes)
        return np.unique(numbers).tolist()  # type: ignore[no-any-return]

    def _read_row(self, number: int) -> Row:
        index = tuple(int(i) for i in np.unravel_index(number, self.row_sizes))
        length = None
        if self.lengths is not None:
            one = tuple(slice(i, i + 1) for i in index)
            length = int(self.lengths.read_task(one).read().item())
        return Row(index, length, tuple(self._wrong_runs(index)))

    def _wrong_runs(self, index: tuple[int, ...]) -> list[Run]:
        """Where a row differs; runs that are too near for the picture become one."""
        runs: list[Run] = []
        if self.mask is None:
            return runs
        if not self.sizes:
            return [(0, 1)] if self.mask(()).any() else runs
        size = self.sequence_size
        # A row has so many elements for each index along the axis.
        width = prod(self.sizes) // (size * prod(self.row_sizes))
        step = max(1, _PIECE // max(1, width))
        widest_gap = size // svg.WIDEST
        for start in range(0, size, step):
            mask = self.mask(self.region(index, start, min(start + step, size)))
            in_other_dimensions = tuple(d for d in range(mask.ndim) if d != self.axis)
            for first, stop in _runs_of(np.asarray(mask.any(axis=in_other_dimensions))):
                if runs and start + first - runs[-1][1] <= widest_gap:
                    runs[-1] = (runs[-1][0], start + stop)
                else:
                    runs.append((start + first, start + stop))
        return runs


def _runs_of(mask: NDArray[np.bool_]) -> list[Run]:
    """The runs of true elements of a one-dimensional array."""
    padded = np.concatenate([[False], mask, [False]])
    edges = np.flatnonzero(padded[1:] != padded[:-1]).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))
