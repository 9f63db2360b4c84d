"""What a picture shows of tensors, as data: tables of cells, and the lengths of lines."""

from __future__ import annotations

import itertools
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.report import view
from revseq_cli.text import notation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from revseq_cli.core.tensors import TensorDesc
    from revseq_cli.formats.contract import Region, Source
    from revseq_cli.report.view import Ends, Limits

# The marks of cells and lengths: they are the names of classes in SVG and HTML, too.
COPIED, REVERSED, CLAMPED, DIFFERENT = "copied", "reversed", "clamped", "different"

Index = tuple[int, ...]


class Cell(NamedTuple):
    """An element at an index."""

    at: Index
    text: str
    mark: str


class Length(NamedTuple):
    """The length of a line: its text, its mark, and how many elements of the line it covers."""

    text: str
    mark: str
    covers: int


class Slice(NamedTuple):
    """The tables of all tensors at one index of the dimensions that a table does not have.

    `caption` tells that index where there are several. Each table is an array of cells, in rows and columns; each line
    along the axis has one of the lengths.
    """

    caption: str
    lengths: list[Length]
    tables: list[NDArray[Any]]


class Side(NamedTuple):
    """The indices that a dimension of a table shows; after the first `gap` of them others are left out, if it is not 0.

    A tensor without such a dimension has one index, which is "".
    """

    labels: list[str]
    gap: int


class Figure(NamedTuple):
    """Tensors beside each other: `sentence` says what the tables show, and `legend` what each mark means.

    None among the slices stands for those that are left out. The lines along the axis, if there is one, are columns of
    the tables if `down`, or else rows. `told` says how many elements are shown, if not all. `text` has the tensors in
    the bracket notation, for those who cannot see the tables.
    """

    title: str
    sentence: str
    tensors: list[tuple[str, TensorDesc]]
    slices: list[Slice | None]
    rows: Side
    columns: Side
    legend: dict[str, str]
    told: str
    text: str
    axis: int | None = None
    down: bool = False

    def cells(self, number: int) -> Iterator[Cell]:
        """The cells of the tensor with that number."""
        return (cell for part in self.slices if part for cell in part.tables[number].flat)


def sentence(axis: int) -> str:
    """What the operator does, in few words."""
    does = f"The first N elements of each line along axis {axis} are reversed; the rest are copied."
    return f"{does} N is the length given for the line."


def of_job(values: Source, lengths: Source, axis: int, result: Source, limits: Limits) -> Figure:
    """Input, with a length for each line, and output. A table has the axis, and the last other dimension."""
    size = values.sizes[axis]
    layout = _Layout.of(values.sizes, axis, limits)
    reversal = view.Reversal.of(lengths, axis, size, layout.ends)
    first = _Shown.of("InputTensor", values, layout.ends)
    second = _Shown.of("SequenceTensor", lengths, reversal.ends)
    third = _Shown.of("OutputTensor", result, layout.ends)
    marks = np.where(reversal.moved, REVERSED, COPIED)
    clamped = reversal.clamped
    each = zip(*(each.ravel().tolist() for each in (second.texts, clamped, reversal.covers)), strict=True)
    of_lines = [Length(f"{text} \u2192 {size}" if over else text, CLAMPED if over else "", n) for text, over, n in each]
    lines = [[*part.flat] for part in layout.tables(_objects(of_lines, clamped.shape))]
    tables = first.cells(marks), third.cells(marks)
    legend = {each: each for each in (REVERSED, COPIED) if (marks == each).any()}
    legend |= {CLAMPED: f"length clamped to the axis size ({size:,})"} if clamped.any() else {}
    return Figure(
        f"DML_REVERSE_SUBSEQUENCES along axis {axis}",
        sentence(axis),
        [(each.name, each.source.desc) for each in (first, second, third)],
        layout.slices(tables, lines),
        layout.side(-2), layout.side(-1), legend, first.told,
        "\n".join([first.text, second.text, f"Axis: {axis}", third.text]),
        axis, layout.down,
    )  # fmt: skip


def of_differences(
    tensors: Sequence[tuple[str, Source]], title: str, axis: int | None, mask: Callable[[Region], NDArray[np.bool_]],
    limits: Limits,
) -> Figure:  # fmt: skip
    """Tensors of one size, each with its name; those elements are marked that `mask` selects. A job has an axis."""
    sizes = tensors[0][1].sizes
    layout = _Layout.of(sizes, axis, limits)
    shown = [_Shown.of(name, source, layout.ends) for name, source in tensors]
    differs = view.gathered(mask, layout.ends) if prod(sizes) else np.zeros(sizes, bool)
    marks = np.where(differs, DIFFERENT, COPIED)
    slices = layout.slices([each.cells(marks) for each in shown], itertools.repeat([]))
    return Figure(
        title, title, [(name, source.desc) for name, source in tensors], slices, layout.side(-2), layout.side(-1),
        {DIFFERENT: "differs"} if differs.any() else {}, shown[0].told, "\n".join(each.text for each in shown),
        axis, layout.down,
    )  # fmt: skip


class _Shown(NamedTuple):
    """The part of a tensor that is shown, with the text of each element."""

    name: str
    source: Source
    ends: Ends
    texts: NDArray[Any]

    @classmethod
    def of(cls, name: str, source: Source, ends: Ends) -> _Shown:
        """The tensor, of which only what is shown is read."""
        values = view.elements(source, ends)
        return cls(name, source, ends, _objects(view.rendered(values), values.shape))

    @property
    def told(self) -> str:
        """How many elements are shown, or "" if all are."""
        return view.left_out(self.texts.size, self.source.sizes, self.ends) if self.texts.size else "no elements"

    @property
    def text(self) -> str:
        """The tensor in the bracket notation."""
        return f"{notation.header(self.name, self.source.desc)}\n{view.shown(self.source, self.ends)}\n"

    def cells(self, marks: NDArray[np.str_]) -> NDArray[Any]:
        """The cells, with their marks."""
        places = itertools.product(*map(view.indices, self.ends))
        return _objects([*map(Cell, places, self.texts.ravel().tolist(), marks.ravel().tolist())], self.texts.shape)


class _Layout(NamedTuple):
    """Which indices of tensors of these sizes are shown: tables have the last two dimensions of `order`.

    The first of these is the axis if `down`.
    """

    sizes: Index
    order: Sequence[int]
    ends: Ends
    down: bool

    @classmethod
    def of(cls, sizes: Index, axis: int | None, limits: Limits) -> _Layout:
        """The layout within the limits. Tables have the axis, if there is one, and the last other dimension."""
        last = len(sizes) - 1
        order, down = [*range(len(sizes))], axis is not None and axis < last
        if axis is not None and down:
            order.insert(last - 1, order.pop(axis))
        ends = view.ends_of(tuple(sizes[d] for d in order), limits)
        return cls(sizes, order, [ends[order.index(d)] for d in range(len(sizes))], down)

    def tables(self, values: NDArray[Any]) -> NDArray[Any]:
        """The shown elements of a tensor as an array of slices, rows and columns."""
        turned = values.transpose(self.order)
        count: int = prod(turned.shape[:-2])
        return turned.reshape(count, *(1, 1, *turned.shape)[-2:])

    def side(self, place: int) -> Side:
        """The indices of rows or columns, which have that place in the order."""
        if len(self.order) < -place:
            return Side([""], 0)
        parts, size = self.ends[self.order[place]], self.sizes[self.order[place]]
        labels = [*map(str, view.indices(parts))]
        return Side(labels, view.gap(parts) or len(labels) % max(size, 1))

    def slices(self, tensors: Sequence[NDArray[Any]], lengths: Iterable[list[Length]]) -> list[Slice | None]:
        """The slices of all tensors, whose cells are arranged as their elements; each slice has its lengths."""
        made: list[Slice | None] = []
        leading, place = [self.sizes[d] for d in self.order[:-2]], 0
        leads = itertools.product(*(view.indices(self.ends[d]) for d in self.order[:-2]))
        for lead, of_lines, *tables in zip(leads, lengths, *map(self.tables, tensors), strict=False):
            here = sum(i * prod(leading[d + 1 :]) for d, i in enumerate(lead))
            index = dict(zip(self.order, map(str, lead), strict=False))
            caption = f"[{', '.join(index.get(d, ':') for d in range(len(self.order)))}]" if prod(leading) > 1 else ""
            made += [*([None] if here > place else []), Slice(caption, of_lines, tables)]
            place = here + 1
        return [*made, *([None] if place < prod(leading) else [])]


def _objects(values: Sequence[Any], shape: Index) -> NDArray[Any]:
    """An array of these objects, which may be tuples."""
    return np.fromiter(values, object, len(values)).reshape(shape)
