"""A part of a tensor as text: the elements at both ends of each dimension.

[[1, 2, 3, ..., 7, 8, 9],
 ...
 [1, 2, 3, ..., 7, 8, 9]]
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revseq_cli.core import thresholds
from revseq_cli.core.tensors import Region
from revseq_cli.formats.contract import Source
from revseq_cli.report import terminal
from revseq_cli.text.numbers import render_numbers
from revseq_cli.text.rows import DOTS, align_cells, make_rows, put_brackets

MOST_ELEMENTS = 200  # of a preview
_NEAR_CHUNKS = 2  # the most that a preview of a tensor at an address reads
_EDGE = 3  # indices shown at either end of a dimension that is shortened

Indices = Sequence[int]  # those that are shown of a dimension, with one gap at most
Part = list[Indices]  # those of each dimension


def choose_part(sizes: tuple[int, ...], most: float) -> Part:
    """The indices along each dimension, so that at most `most` elements are shown."""
    if prod(sizes) <= most:
        return [range(size) for size in sizes]
    part: Part = []
    for size in reversed(sizes):  # the innermost are whole if there is room
        part.append(_choose_indices(size, most / prod(map(len, part))))
    return part[::-1]


def _choose_indices(size: int, most: float) -> Indices:
    """All indices of a short dimension, or some at both ends, or else the first index."""
    if size <= min(most, 2 * _EDGE + 1):
        return range(size)
    for edge in (_EDGE, 1):
        if 2 * edge <= most and 2 * edge < size:
            return [*range(edge), *range(size - edge, size)]
    return range(1)


def choose_near_part(source: Source, part: Part) -> Part:
    """The indices of a part that lie in few chunks, for a tensor at an address.

    HDF5 asks for one chunk after another. Dimensions are cut to their first chunk, the outermost
    first.
    """
    chunks = source.chunks or _find_blocks(source)
    chunk = prod(chunks) * source.dtype.itemsize
    most = max(1, min(_NEAR_CHUNKS, thresholds.REMOTE_PREVIEW // chunk))
    near = list(part)
    for d, size in enumerate(chunks):
        if _count_chunks(near, chunks) > most:
            near[d] = [index for index in part[d] if index < size]
    return near


def _find_blocks(source: Source) -> list[int]:
    """The sizes of what is fetched at once of a tensor without chunks."""
    left = thresholds.REMOTE_BLOCK // source.dtype.itemsize
    sizes: list[int] = []
    for size in reversed(source.sizes):
        sizes.append(max(1, min(size, left)))
        left //= sizes[-1]
    return sizes[::-1]


def _count_chunks(part: Part, chunks: Sequence[int]) -> int:
    """How many chunks have elements of a part."""
    count = 1
    for indices, size in zip(part, chunks, strict=True):
        count *= len({index // size for index in indices})
    return count


def read_part(source: Source, part: Part) -> NDArray[Any]:
    """The elements of a part, as one array.

    Where a dimension has a gap, its two ends are read one after the other: of a matrix with two
    gaps, these are the four corners, which NumPy joins as [[corner, corner], [corner, corner]].
    """
    if not prod(source.sizes) or not source.sizes:
        return source.read()
    chunks = source.chunks or (1,) * len(part)
    ends = list(map(_split_at_gap, part, chunks))
    corners = list(itertools.product(*ends))
    regions = list(map(_region_around, corners))
    arrays = np.empty([len(ends_of_one) for ends_of_one in ends], dtype=object)
    flat = arrays.reshape(-1)  # a view
    for i, values in enumerate(source.read_each(regions)):
        flat[i] = _take_indices(values, corners[i])
    return np.block(arrays.tolist())


def _split_at_gap(indices: Indices, chunk: int) -> list[Indices]:
    """The indices before the gap and those after it.

    They stay together if one chunk has all of them, since a chunk is decoded whole.
    """
    count = _count_before_gap(indices)
    if not count or indices[0] // chunk == indices[-1] // chunk:
        return [indices]
    return [indices[:count], indices[count:]]


def _count_before_gap(indices: Indices) -> int:
    """How many indices are before a gap: half of them, as both ends are equal; 0 without a gap."""
    if indices and indices[-1] - indices[0] >= len(indices):
        return len(indices) // 2
    return 0


def _region_around(corner: Sequence[Indices]) -> Region:
    """The smallest region with these indices, which may have a gap in a chunk."""
    return tuple(slice(indices[0], indices[-1] + 1) for indices in corner)


def _take_indices(values: NDArray[Any], corner: Sequence[Indices]) -> NDArray[Any]:
    """The elements at these indices, from the values of the region around them."""
    # One dimension after another: NumPy does not take 64 arrays of indices at once.
    for d, indices in enumerate(corner):
        if len(indices) < values.shape[d]:
            values = values.take(np.array(indices) - indices[0], axis=d)
    return values


def part_text(
    source: Source, part: Part, more: str = "", is_bold: NDArray[np.bool_] | None = None
) -> str:
    """The rows of a part of a tensor: only these are read.

    If elements are left out, a last line says how many are shown, and then `more`. With `is_bold`,
    these elements are bold for a terminal, and the others dim.
    """
    sizes = source.sizes
    values = read_part(source, part)
    if not prod(sizes) or not sizes:
        return put_brackets(make_rows(values), sizes)
    gaps = list(map(_count_before_gap, part))
    rows = align_cells(render_numbers(values), values.shape[-1], gaps[-1])
    if is_bold is not None:
        rows = list(map(_paint_row, rows, is_bold.reshape(len(rows), -1).tolist()))
    text = put_brackets(rows, values.shape, gaps)
    if values.size < prod(sizes):
        text += f"\n// {values.size:,} of {prod(sizes):,} elements{more}"
    return text


def _paint_row(row: str, is_bold: Sequence[bool]) -> str:
    """A row of elements for a terminal, some bold and the others dim; dots are neither."""
    words = row.split(", ")
    elements = [i for i, word in enumerate(words) if word != DOTS]
    for i, bold in zip(elements, is_bold, strict=True):
        style = terminal.BOLD if bold else terminal.DIM
        words[i] = terminal.paint(words[i], style)
    return ", ".join(words)
