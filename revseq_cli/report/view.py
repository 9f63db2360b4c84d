"""Tensors for a person: the part that is shown, what lengths do to it, and its text, shortened and highlighted."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from math import inf, prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from revseq_cli.core.tensors import Region
from revseq_cli.formats.contract import Source
from revseq_cli.operator import kernel
from revseq_cli.report import terminal
from revseq_cli.text.numbers import DOTS, aligned, body, render, rows_of

# Tensors with more elements are shortened: on a terminal, and in a preview.
MOST_ON_TERMINAL = 1000
PREVIEW = 200
_EDGE = 3  # indices shown at either end of a dimension that is shortened


class Marks(NamedTuple):
    """The terminal codes that highlight the elements of reversed starts of lines, and the lengths that are clamped."""

    moved: str
    clamped: str


COLORED = Marks(terminal.code(terminal.BLUE), terminal.code(terminal.MAGENTA))
UNCOLORED = Marks("1;4", "1;4")  # bold and underlined


Ends = list["Sequence[int]"]  # for each dimension the indices that are shown: all, those at both ends, or the first
Highlight = tuple["NDArray[np.bool_]", str]  # which of the shown elements are highlighted, and the terminal code


class Room(NamedTuple):
    """What the rows of a tensor take at most: elements, and the columns of a line; and what stands for the rest."""

    elements: float = inf
    columns: float = inf
    dots: str = DOTS


EVERYTHING = Room()


def ends_of(
    sizes: tuple[int, ...], elements: float, indices: float = inf, columns: float = inf, tables: float = inf
) -> Ends:
    """The indices that are shown of a tensor: at most so many elements, indices of a dimension, columns and tables.

    A table has the last two dimensions.
    """
    longest = [indices] * len(sizes)
    longest[-1:] = [min(indices, columns)] * bool(sizes)
    if prod(sizes) <= elements and prod(sizes[:-2]) <= tables and all(map(operator.le, sizes, longest)):
        return [range(size) for size in sizes]
    ends: Ends = []
    for size, most in zip(reversed(sizes), reversed(longest), strict=True):  # the innermost are whole if there is room
        if len(ends) >= 2:  # the dimensions of the tables are done
            most = min(most, tables / prod(map(len, ends[2:])))
        choices: Ends = [] if size > 2 * _EDGE + 1 else [range(size)]
        choices += [[*range(edge), *range(size - edge, size)] for edge in (_EDGE, 1) if 2 * edge < size]
        kept = prod(map(len, ends))
        fitting = (shown for shown in choices if len(shown) <= most and kept * len(shown) <= elements)
        ends.append(next(fitting, range(1)))
    return ends[::-1]


def gap(shown: Sequence[int]) -> int:
    """Behind how many shown indices of a dimension others are left out; 0 if none are, or only the first is shown."""
    return len(shown) // 2 if shown and shown[-1] - shown[0] >= len(shown) else 0


def elements(source: Source, ends: Ends) -> NDArray[Any]:
    """The elements of a tensor at the indices in `ends`, as one array; only these are read."""
    if not prod(source.sizes) or not source.sizes:
        return source.read()
    return gathered(lambda region: source.read_task(region).read(), ends, source.chunks)


def gathered(read: Callable[[Region], NDArray[Any]], ends: Ends, chunks: tuple[int, ...] | None = None) -> NDArray[Any]:
    """What `read` gives for the indices in `ends`, as one array; both ends of a chunk at once, since it is decoded."""
    groups = [
        [shown[: gap(shown)], shown[gap(shown) :]] if gap(shown) and shown[0] // size != shown[-1] // size else [shown]
        for shown, size in zip(ends, chunks or (1,) * len(ends), strict=True)
    ]
    pieces = np.empty([len(parts) for parts in groups], dtype=object)
    for place, parts in zip(np.ndindex(pieces.shape), itertools.product(*groups), strict=True):
        region = read(tuple(slice(part[0], part[-1] + 1) for part in parts))
        for d, part in enumerate(parts):  # one dimension after another: NumPy takes no 64 arrays of indices at once
            if len(part) < region.shape[d]:
                region = region.take(np.array(part) - part[0], axis=d)
        pieces[place] = region
    return np.block(pieces.tolist())


def left_out(shown: int, sizes: tuple[int, ...], ends: Ends) -> str:
    """A phrase that says how many elements are shown, or "" if all are."""
    total = prod(sizes)
    if shown == total:
        return ""
    first = [str(d) for d, (indices, size) in enumerate(zip(ends, sizes, strict=True)) if len(indices) == 1 < size]
    alone = f"; only the first index of the dimensions {', '.join(first)}" if first else ""
    return f"{shown:,} of {total:,} elements{alone}"


class Reversal(NamedTuple):
    """What lengths do along an axis to the part of a tensor that is shown.

    `ends` are those of the lengths, and `clamped` says which of them are above the axis size. A length covers the first
    elements of its line, which are `moved` if they are more than one.
    """

    ends: Ends
    clamped: NDArray[np.bool_]
    covers: NDArray[np.intp]
    moved: NDArray[np.bool_]

    @classmethod
    def of(cls, lengths: Source, axis: int, size: int, ends: Ends) -> Reversal:
        """What these lengths do to a tensor of this axis size, of which `ends` are shown."""
        of_lengths = [*ends[:axis], range(1), *ends[axis + 1 :]]
        given = elements(lengths, of_lengths)
        covers = kernel.clamp(given, size)
        index = np.array(ends[axis]).reshape([-1 if d == axis else 1 for d in range(len(ends))])
        moved = (index < covers) & (covers > 1)
        return cls(of_lengths, given > size, covers, moved)


def example_text(
    values: Source, lengths: Source, axis: int, result: Source, room: Room = EVERYTHING, marks: Marks | None = None
) -> str:
    """A whole docs-style example, which reads back as the same job, unless it is shortened.

    A tensor with no room for all elements is shortened. With `marks`, elements are highlighted, and a line says how
    many lengths are clamped, if they are all shown.
    """
    size, ends = values.sizes[axis], ends_of(values.sizes, room.elements)
    reversal = Reversal.of(lengths, axis, size, ends)
    moved = (reversal.moved, marks.moved) if marks else None
    clamped = (reversal.clamped, marks.clamped) if marks else None
    of_lengths = _tensor("SequenceTensor", lengths, reversal.ends, clamped, room)
    if marks and reversal.clamped.any() and reversal.clamped.size == lengths.desc.element_count:
        of_lengths += f"\n// lengths clamped to {size}: {np.count_nonzero(reversal.clamped)}"
    first, last = (_tensor(f"{name}Tensor", tensor, ends, moved, room)
                   for name, tensor in (("Input", values), ("Output", result)))  # fmt: skip
    return "\n\n".join([first, of_lengths, f"Axis: {axis}", last])


def result_text(lengths: Source, axis: int, result: Source, room: Room, marks: Marks | None) -> str:
    """The OutputTensor, as far as there is room; with `marks`, reversed elements are highlighted."""
    ends = ends_of(result.sizes, room.elements)
    moved = (Reversal.of(lengths, axis, result.sizes[axis], ends).moved, marks.moved) if marks else None
    return _tensor("OutputTensor", result, ends, moved, room)


def _tensor(name: str, source: Source, ends: Ends, highlight: Highlight | None, room: Room) -> str:
    return f"{name}: {source.desc}\n{shown(source, ends, room, highlight, '--full prints all')}"


def shortened(source: Source, room: Room, more: str = "") -> str:
    """A tensor's rows as far as there is room: the ends of long dimensions, and a line that says what is left out.

    Only what is shown is read.
    """
    return shown(source, ends_of(source.sizes, room.elements), room, more=more)


def shown(
    source: Source, ends: Ends, room: Room = EVERYTHING, highlight: Highlight | None = None, more: str = ""
) -> str:
    """The rows of the indices in `ends`, as many columns as there is room for.

    If these are not all elements, a line below says how many and which, and `more`.
    """
    sizes, values = source.sizes, elements(source, ends)
    if not prod(sizes) or not sizes:
        return body(rows_of(values), sizes)
    texts, width, gaps = render(values), values.shape[-1], [*map(gap, ends)]
    columns = _columns(texts, values.shape, gaps[-1], room) if room.columns < inf else width
    told = [left_out(len(texts) // width * columns, sizes, ends)]
    if columns < width:
        texts = [text for i, text in enumerate(texts) if i % width < columns]
        gaps[-1] = columns
        told.append(f"the first {f'{columns} ' if columns > 1 else ''}of {sizes[-1]:,} in each row")
    told += [more] * bool(more)

    mark = None
    if highlight:
        marked, code = highlight[0][..., :columns].ravel().tolist(), highlight[1]

        def mark(i: int, text: str) -> str:
            return f"\x1b[{code}m{text}\x1b[0m" if marked[i] else text

    rows = aligned(texts, columns, gaps[-1], mark, room.dots)
    text = body(rows, (*values.shape[:-1], columns), gaps, room.dots)
    line = f"// {'; '.join(told)}"
    below = [line] if len(line) <= room.columns else [f"// {each}" for each in told]
    return "\n".join([text, *below]) if told[0] else text


def _columns(texts: list[str], sizes: tuple[int, ...], gap: int, room: Room) -> int:
    """How many columns of a tensor's rows are printed: all, or as many as there is room for before the dots.

    `texts` are the elements in C order, and dots stand after `gap` of a row in any case, unless that is 0.
    """
    width = sizes[-1]
    longest = [max(map(len, texts[n::width])) for n in range(width)]
    columns = room.columns - 2 * len(sizes)  # the brackets of a line, or its indent and a comma
    dots = len(f", {room.dots}")
    reach = [longest[0] + n * len(", ") + n * max(longest[1 : n + 1], default=0) for n in range(width)]
    if reach[-1] + (dots if gap else 0) <= columns:
        return width
    return max(1, sum(each + dots <= columns for each in reach[: gap or width - 1]))
