"""What a picture shows: its tensors, and which of their sequences are drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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
Span = tuple[int, int]  # the first element, and the one after the last


@dataclass(frozen=True)
class Row:
    """A row of the picture: its index with 0 at the axis, its length, and where it is wrong.

    It is one sequence; or, in bars with a batch axis, all sequences at one index of that axis,
    which have one length.
    """

    index: tuple[int, ...]
    length: int | None
    wrong: tuple[Span, ...] = ()

    def is_wrong_at(self, i: int) -> bool:
        """Whether the row is wrong at that index along the axis."""
        return any(start <= i < stop for start, stop in self.wrong)


@dataclass(frozen=True)
class Subject:
    """What a picture shows: tensors of one shape, each with its name, and sequences along `axis`.

    `lengths` has the shape of the tensors with 1 along the axis. `mask` reads which elements of a
    region differ, and `differences` says how many do, and where the first of them are.
    """

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
            return self._sequence_counts
        sizes = [1] * len(self.sizes)
        sizes[self.batch_axis] = self.sizes[self.batch_axis]
        return tuple(sizes)

    @property
    def _sequence_counts(self) -> Sizes:
        """How many sequences there are along each dimension."""
        counts = list(self.sizes)
        if counts:
            counts[self.axis] = 1
        return tuple(counts)

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
            wrong = self._find_wrong_rows()[:most]
            others = [number for number in numbers if number not in wrong]
            numbers = wrong + others[: most - len(wrong)]
        return [self._read_row(number) for number in numbers]

    def read_wrong_rows(self, most: int) -> list[Row]:
        """The first rows that are known to be wrong."""
        return [self._read_row(number) for number in self._find_wrong_rows()[:most]]

    def reversed_size(self, row: Row) -> int:
        """How many elements at the start of a row are reversed; a single one is not."""
        size = min(row.length or 0, self.sequence_size)
        return size if size > 1 else 0

    def read(self, source: Source, row: Row, start: int, stop: int) -> NDArray[Any]:
        """The elements of a row from `start` to `stop`."""
        region = self._region_of(row.index, start, stop)
        return source.read_task(region).read().reshape(-1)

    def label(self, row: Row) -> str:
        """What a row is called: its index in the one dimension with several rows, or [2, :, 0]."""
        several = [d for d, count in enumerate(self.row_sizes) if count > 1]
        if not several:
            return ""
        if len(several) == 1:
            return str(row.index[several[0]])
        words = [":"] * len(self.sizes)
        for d in several:
            words[d] = str(row.index[d])
        return shorten(f"[{', '.join(words)}]", _LONGEST_LABEL)

    def words_for_left_out(self) -> str:
        """How many rows are not drawn; "" if all are."""
        if len(self.rows) == self.row_count:
            return ""
        noun = "sequences" if self.row_sizes == self._sequence_counts else "indices of the batch"
        order = ", wrong ones first" if self.mask else ""
        return f"{len(self.rows)} of {self.row_count:,} {noun} are shown{order}"

    def _region_of(self, index: tuple[int, ...], start: int, stop: int) -> Region:
        """The elements of a row from `start` to `stop` along the axis."""
        region = [slice(i, i + 1) for i in index]
        for d, count in enumerate(self.row_sizes):
            if count == 1:  # the row spans this whole dimension
                region[d] = slice(0, self.sizes[d])
        if region:
            region[self.axis] = slice(start, stop)
        return tuple(region)

    def _find_wrong_rows(self) -> list[int]:
        """The numbers of rows, in C order, that are known to be wrong."""
        if self.differences is None:
            return []
        whole = [d for d, count in enumerate(self.row_sizes) if count == 1]
        if self.differences.sequences is not None:
            are_wrong = self.differences.sequences.any(axis=tuple(whole))
            return np.flatnonzero(are_wrong).tolist()
        # Only the first elements that differ are known.
        indices = self.differences.indices.copy()
        indices[:, whole] = 0
        numbers = np.ravel_multi_index(tuple(indices.T), self.row_sizes)
        return np.unique(numbers).tolist()  # type: ignore[no-any-return]

    def _read_row(self, number: int) -> Row:
        index = tuple(int(i) for i in np.unravel_index(number, self.row_sizes))
        length = None
        if self.lengths is not None:
            one = tuple(slice(i, i + 1) for i in index)
            length = int(self.lengths.read_task(one).read().item())
        # Spans with less than a pixel between them are drawn as one.
        spans = _join_near_spans(self._read_wrong_spans(index), self.sequence_size // svg.WIDEST)
        return Row(index, length, tuple(spans))

    def _read_wrong_spans(self, index: tuple[int, ...]) -> Iterator[Span]:
        """Where a row differs."""
        if self.mask is None:
            return
        if not self.sizes:
            if self.mask(()).any():
                yield 0, 1
            return
        size = self.sequence_size
        # In a row of several sequences, an index along the axis stands for an element of each of
        # them. Some indices are read at once, with about _PIECE elements in all.
        sequences_in_row = prod(self.sizes) // (size * prod(self.row_sizes))
        step = max(1, _PIECE // max(1, sequences_in_row))
        others = tuple(d for d in range(len(self.sizes)) if d != self.axis)
        for first in range(0, size, step):
            mask = self.mask(self._region_of(index, first, min(first + step, size)))
            for start, stop in _find_spans(np.asarray(mask.any(axis=others))):
                yield first + start, first + stop


def _find_spans(mask: NDArray[np.bool_]) -> list[Span]:
    """The spans of true elements of a one-dimensional array."""
    padded = np.concatenate([[False], mask, [False]])
    edges = np.flatnonzero(padded[1:] != padded[:-1]).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))


def _join_near_spans(spans: Iterable[Span], widest_gap: int) -> list[Span]:
    """The spans, of which those with at most this many elements between them become one."""
    joined: list[Span] = []
    for start, stop in spans:
        if joined and start - joined[-1][1] <= widest_gap:
            start, _ = joined.pop()
        joined.append((start, stop))
    return joined
