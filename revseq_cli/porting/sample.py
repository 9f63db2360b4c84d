"""The evidence of a wrong output: all of a small tensor, or some sequences of a large one."""

from __future__ import annotations

from math import prod

import numpy as np

from revseq_cli.core.dtypes import native
from revseq_cli.core.tensors import Region, sizes_of
from revseq_cli.formats.contract import Source
from revseq_cli.pipeline.folds import Tolerance
from revseq_cli.pipeline.passes import Pair
from revseq_cli.porting.evidence import Evidence, clear_sign_of_zeros
from revseq_cli.porting.positions import Array, Shape
from revseq_cli.porting.restore import as_numbers
from revseq_cli.porting.sequences import Sequences

_MOST = 1 << 18  # elements of a sample
_MOST_LONG = 1 << 20  # elements of a sample of few long sequences
_LEAST = 1 << 12  # elements of a sample, also if the memory is small
_BYTES = 256  # of memory for each element of a sample
_COPIES = 4  # of a window: of three tensors, and of the one that is computed
_EXAMPLES = 12  # wrong sequences whose neighbours are in a sample


def read_evidence(
    pair: Pair,
    values: Source,
    sequences: Sequences,
    wrong: Array,
    tolerance: Tolerance | None,
    memory: int,
) -> Evidence | None:
    """The evidence of the sequences that are marked as wrong; None if none of them fit in memory.

    `values` is the input, and `sequences` are those of the whole tensor.
    """
    window: Region | None = tuple(slice(0, size) for size in sequences.shape)
    if _COPIES * pair.a.desc.total_bytes > memory:
        window = _choose_window(sequences, wrong, memory // _COPIES // pair.a.dtype.itemsize)
    if window is None:
        return None
    lengths = sequences.lengths
    part = Sequences(
        sizes_of(window), sequences.axis, lengths[_clip(window, lengths.shape)], sequences.width
    )
    most = max(_LEAST, memory // _BYTES)
    index: list[Array] | None = [np.arange(size) for size in part.shape]
    if prod(part.shape) > min(_MOST, most):
        index = _choose_sequences(part, wrong[_clip(window, wrong.shape)], most)
    if index is None:
        return None
    at = np.ix_(*index)
    expected = _read(pair.b, window)[at]
    return Evidence(
        part,
        index,
        [bounds.start for bounds in window],
        tolerance,
        values=_read(values, window),
        output=clear_sign_of_zeros(_read(pair.a, window)[at], expected),
        expected=expected,
        is_sample=sum(map(len, index)) < sum(sequences.shape),
    )


def _choose_window(sequences: Sequences, wrong: Array, most: int) -> Region | None:
    """A region of so many elements around the first wrong sequence; None if that is too long."""
    window = [slice(0, size) for size in sequences.shape]
    first = np.argwhere(wrong)[0]
    for d, size in enumerate(sequences.shape):
        if d == sequences.axis:
            continue
        others = prod(sizes_of(tuple(window))) // size
        count = min(max(1, most // others), size)
        start = min(int(first[d]), size - count)
        window[d] = slice(start, start + count)
    region = tuple(window)
    if prod(sizes_of(region)) > most:
        return None
    return region


def _clip(window: Region, sizes: Shape) -> Region:
    """The window in a tensor that has size 1 in some of the dimensions."""
    parts: list[slice] = []
    for bounds, size in zip(window, sizes, strict=True):
        parts.append(slice(0, 1) if size == 1 else bounds)
    return tuple(parts)


def _choose_sequences(sequences: Sequences, wrong: Array, most: int) -> list[Array] | None:
    """The indices of a sample in each dimension; None if not even one sequence has room.

    A sample has whole sequences. Of the n of them that have room, each of k other dimensions has
    about the k-th root of n indices: of some wrong sequences, of their neighbours, and of others.
    """
    shape = sequences.shape
    size = sequences.size
    room = min(_MOST, most) // size // 4  # of many sequences, a quarter is enough
    room_if_long = min(max(1, _MOST_LONG // size), most // size)
    room = max(room, room_if_long)
    if not room:
        return None
    examples = np.argwhere(wrong)
    examples = examples[np.linspace(0, len(examples) - 1, _EXAMPLES).astype(np.intp)]
    index = [np.arange(count) for count in shape]
    others = [d for d in range(len(shape)) if d != sequences.axis]
    others.sort(key=lambda d: shape[d])  # what a small dimension leaves, larger ones can use
    for i, d in enumerate(others):
        root = int(room ** (1 / (len(others) - i)))
        index[d] = _choose_indices(examples[:, d], shape[d], max(1, root))
        room //= len(index[d])
    return index


def _choose_indices(examples: Array, size: int, most: int) -> Array:
    """At most so many indices of a dimension: near to examples, spread over it, and examples."""
    count = min(most, size)
    step = 1 + 4 * _EXAMPLES // count  # if there is little room, few examples have neighbours
    near = examples[::step, None] + np.array([0, -1, 1])
    spread = np.linspace(0, size - 1, count).astype(np.intp)
    likely = np.concatenate([near.ravel(), spread, examples])
    inside = [i for i in dict.fromkeys(likely.tolist()) if 0 <= i < size]
    return np.array(sorted(inside[:count]))


def _read(source: Source, region: Region) -> Array:
    """The elements of a region as numbers, of minifloats as FLOAT32."""
    return np.ascontiguousarray(as_numbers(native(source.read_task(region).read())))
