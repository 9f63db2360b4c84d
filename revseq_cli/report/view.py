"""How tensors and plans look as text: the rows of a tensor, of which many may be left out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from math import inf, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revseq_cli.core import thresholds
from revseq_cli.core.errors import printable
from revseq_cli.core.tensors import TensorDesc
from revseq_cli.formats.contract import Source
from revseq_cli.operator import kernel
from revseq_cli.pipeline.jobs import Job
from revseq_cli.pipeline.plan import DASK, Plan
from revseq_cli.report import terminal
from revseq_cli.text.numbers import render_numbers
from revseq_cli.text.rows import align_cells, make_rows, put_brackets

# Tensors with more elements are shortened: on a terminal, and in a preview.
MOST_ON_TERMINAL = 1000
PREVIEW = 200
_MORE = "; --full prints all"
_NEAR_CHUNKS = 2  # that a preview of a tensor at an address reads
_EDGE = 3  # indices shown at either end of a dimension that is shortened

# For each dimension the indices that are shown: all, those at both ends, or the first.
Ends = list["Sequence[int]"]


def ends_of(sizes: tuple[int, ...], most: float) -> Ends:
    """The indices to show along each dimension, so that at most `most` elements are shown."""
    if prod(sizes) <= most:
        return [range(size) for size in sizes]
    ends: Ends = []
    for size in reversed(sizes):  # the innermost are whole if there is room
        count = prod(map(len, ends))
        fitting = (indices for indices in _choices(size) if count * len(indices) <= most)
        ends.append(next(fitting, range(1)))
    return ends[::-1]


def _choices(size: int) -> Iterator[Sequence[int]]:
    """What can be shown of a dimension: all of a short one, or some indices at both ends."""
    if size <= 2 * _EDGE + 1:
        yield range(size)
    for edge in (_EDGE, 1):
        if 2 * edge < size:
            yield [*range(edge), *range(size - edge, size)]


def _gap(shown: Sequence[int]) -> int:
    """How many of the shown indices are before the gap; 0 if there is no gap."""
    if shown and shown[-1] - shown[0] >= len(shown):
        return len(shown) // 2
    return 0


def choose_near_ends(source: Source, ends: Ends) -> Ends:
    """The indices in `ends` that lie in few chunks, for a tensor at an address.

    HDF5 asks for one chunk after another. The outermost dimensions lose their last indices first.
    """
    chunks = source.chunks or _find_blocks(source)
    chunk = prod(chunks) * source.dtype.itemsize
    most = max(1, min(_NEAR_CHUNKS, thresholds.FAR_PREVIEW // chunk))
    chosen = list(ends)
    for d, size in enumerate(chunks):
        if _count_chunks(chosen, chunks) <= most:
            break
        chosen[d] = [index for index in ends[d] if index < size]
    return chosen


def _find_blocks(source: Source) -> list[int]:
    """The sizes of what is fetched at once of a tensor without chunks."""
    left = thresholds.FAR_BLOCK // source.dtype.itemsize
    sizes: list[int] = []
    for size in reversed(source.sizes):
        sizes.append(max(1, min(size, left)))
        left //= sizes[-1]
    return sizes[::-1]


def _count_chunks(ends: Ends, chunks: Sequence[int]) -> int:
    """How many chunks have the indices in `ends`."""
    pairs = zip(ends, chunks, strict=True)
    return prod(len({index // size for index in shown}) for shown, size in pairs)


def elements(source: Source, ends: Ends) -> NDArray[Any]:
    """The elements of a tensor at the indices in `ends`, as one array.

    Both ends of a dimension are read at once if one chunk has them, since a chunk is decoded whole.
    """
    if not prod(source.sizes) or not source.sizes:
        return source.read()
    groups: list[list[Sequence[int]]] = []
    for shown, size in zip(ends, source.chunks or (1,) * len(ends), strict=True):
        edge = _gap(shown)
        group = [shown]
        if edge and shown[0] // size != shown[-1] // size:
            group = [shown[:edge], shown[edge:]]
        groups.append(group)
    pieces = np.empty([len(parts) for parts in groups], dtype=object)
    corners = [*itertools.product(*groups)]
    regions = [tuple(slice(part[0], part[-1] + 1) for part in parts) for parts in corners]
    values = source.read_each(regions)
    for index, parts, piece in zip(np.ndindex(pieces.shape), corners, values, strict=True):
        pieces[index] = _take(piece, parts)
    return np.block(pieces.tolist())


def _take(piece: NDArray[Any], parts: Sequence[Sequence[int]]) -> NDArray[Any]:
    """The elements of a piece at these indices of the tensor; the piece begins at the first."""
    # One dimension after another: NumPy takes no 64 arrays of indices at once.
    for d, part in enumerate(parts):
        if len(part) < piece.shape[d]:
            piece = piece.take(np.array(part) - part[0], axis=d)
    return piece


def example_text(
    values: Source, lengths: Source, axis: int, result: Source, most: float = inf
) -> str:
    """A whole docs-style example, which reads back as the same job, unless it is shortened."""
    parts = [
        tensor_text("InputTensor", values, most),
        tensor_text("SequenceTensor", lengths, most),
        f"Axis: {axis}",
    ]
    return "\n\n".join([*parts, tensor_text("OutputTensor", result, most)])


def tensor_text(name: str, source: Source, most: float) -> str:
    """A tensor with its header, and at most `most` of its elements."""
    return f"{name}: {source.desc}\n{show_rows(source, ends_of(source.sizes, most), _MORE)}"


def show_rows(
    source: Source, ends: Ends, more: str = "", marks: NDArray[np.bool_] | None = None
) -> str:
    """The rows of the indices in `ends`: only these are read.

    If elements are left out, a last line says how many are shown, and then `more`. Elements that
    `marks` selects are bold for a terminal, and the others dim.
    """
    sizes = source.sizes
    values = elements(source, ends)
    if not prod(sizes) or not sizes:
        return put_brackets(make_rows(values), sizes)
    gaps = [*map(_gap, ends)]
    rows = align_cells(render_numbers(values), values.shape[-1], gaps[-1])
    if marks is not None:
        rows = [
            _paint_row(row, marks_of_row, gaps[-1])
            for row, marks_of_row in zip(rows, marks.reshape(len(rows), -1), strict=True)
        ]
    text = put_brackets(rows, values.shape, gaps)
    if values.size == prod(sizes):
        return text
    return f"{text}\n// {values.size:,} of {prod(sizes):,} elements{more}"


def _paint_row(row: str, marks: NDArray[np.bool_], gap: int) -> str:
    """A row of elements for a terminal, those that are marked bold and the others dim."""
    words = row.split(", ")
    left_out = [gap] if gap else []
    cells = [i for i in range(len(words)) if i not in left_out]
    for i, is_marked in zip(cells, marks.tolist(), strict=True):
        style = terminal.BOLD if is_marked else terminal.DIM
        words[i] = terminal.paint(words[i], style)
    return ", ".join(words)


def result_text(job: Job, result: Source, most: float, *, in_color: bool) -> str:
    """The OutputTensor of a job; in colour, what was reversed is bold, and the rest dim."""
    if not in_color or not prod(result.sizes):
        return tensor_text("OutputTensor", result, most)
    ends = ends_of(result.sizes, most)
    of_lengths = [range(1) if d == job.axis else shown for d, shown in enumerate(ends)]
    size = result.sizes[job.axis]
    lengths = kernel.clamp(elements(job.lengths, of_lengths), size)
    shape = [1] * len(ends)
    shape[job.axis] = -1
    index = np.array(ends[job.axis]).reshape(shape)
    marks = (index < lengths) & (lengths > 1)
    return f"OutputTensor: {result.desc}\n{show_rows(result, ends, _MORE, marks)}"


def plan_text(job: Job, plan: Plan) -> str:
    """The text of `run --dry-run`."""
    values = job.values.desc
    lengths = job.lengths.desc
    detour = plan.detour
    cut = ", sequences are cut" if plan.blocks.cuts_sequences else ""
    block = plan.blocks.elements * job.values.dtype.itemsize
    lines = [
        f"InputTensor            {values}, {values.total_bytes:,} bytes",
        f"SequenceLengthsTensor  {lengths}, {lengths.total_bytes:,} bytes",
        f"Axis                   {axis_text(values, job.axis)}",
        f"blocks                 {plan.blocks.count:,} of {block:,} bytes{cut}",
    ]
    for source in (job.values, job.lengths):
        downloads = source.downloads
        if downloads.requests:
            count = terminal.say_count(downloads.requests, "request")
            lines.append(f"download               {count}, {downloads.bytes:,} bytes")
    if detour.copies:
        lines.append(f"unchunked copies       {detour.copies} of {values.total_bytes:,} bytes")
    if detour.tiling:
        run = detour.tiling.run_length * values.data_type.size
        enough = f"--memory {detour.enough}"
        lines += [
            f"temporary file         {values.total_bytes:,} bytes; none with {enough}",
            f"passes                 2, in runs of {run:,} bytes",
        ]
    engine = f"{plan.engine}, workers: {plan.workers}, {plan.bytes:,} bytes of memory"
    if plan.engine == DASK:
        where = printable(plan.transport.scheduler) or "dask's own configuration"
        engine = f"dask, all workers of {where}, {plan.bytes:,} bytes of memory for each thread"
    return "\n".join([*lines, f"engine                 {engine}"])


def axis_text(values: TensorDesc, axis: int) -> str:
    """The axis, with the number and the size of its sequences if the tensor has it."""
    if not 0 <= axis < values.dimension_count:
        return str(axis)
    count = prod((*values.sizes[:axis], *values.sizes[axis + 1 :]))
    sequences = terminal.say_count(count, "sequence")
    return f"{axis} ({sequences} of {terminal.say_count(values.sizes[axis], 'element')})"
