"""What a picture or a web page shows of tensors, as data: tables of cells, marks, and where elements come from."""

from __future__ import annotations

import itertools
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from revseq_cli.report import excerpts
from revseq_cli.texts import printing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Source
    from revseq_cli.formats.regions import Region
    from revseq_cli.ground.tensors import TensorDesc
    from revseq_cli.report.excerpts import Ends, Limits

# The marks of cells: they are the names of classes in SVG and HTML, too.
REVERSED, CLAMPED, DIFFERENT = "reversed", "clamped", "different"

Index = tuple[int, ...]


class Cell(NamedTuple):
    """An element at an index: `acts_as` is what a clamped length acts as, `origin` where one that moved comes from."""

    at: Index
    text: str
    mark: str = ""
    acts_as: str = ""
    origin: Index | None = None


class Row(NamedTuple):
    """A row of a table; None among the cells stands for what is left out. A tensor of one dimension has no label."""

    label: str
    cells: list[Cell | None]


class Block(NamedTuple):
    """The table of the last two dimensions at one index of the others, which the caption tells if there are several.

    None among the columns and the rows stands for what is left out.
    """

    caption: str
    columns: list[str | None]
    rows: list[Row | None]


class Panel(NamedTuple):
    """A tensor: None among the blocks stands for those left out, and `told` says how many elements are shown.

    `text` is the tensor in the bracket notation, for those who cannot see the tables.
    """

    name: str
    desc: TensorDesc
    blocks: list[Block | None]
    told: str
    text: str

    def cells(self) -> Iterable[Cell]:
        """All cells."""
        rows = (row for block in self.blocks if block for row in block.rows if row)
        return (cell for row in rows for cell in row.cells if cell)


class Figure(NamedTuple):
    """Tensors side by side; `legend` says what each mark means that occurs, and `heading` stands above."""

    title: str
    heading: str
    panels: list[Panel]
    legend: dict[str, str]
    axis: int | None = None

    @property
    def is_whole(self) -> bool:
        """Whether every element is shown."""
        return not any(panel.told for panel in self.panels)

    def swaps(self) -> list[tuple[Index, Index]]:
        """The pairs of indices whose elements change places; the lower index comes first."""
        moved = ((cell.at, cell.origin) for cell in self.panels[-1].cells() if cell.origin)
        return [(index, origin) for index, origin in moved if index < origin]


def of_job(values: Source, lengths: Source, axis: int, result: Source, limits: Limits) -> Figure:
    """Input, lengths and output of a job."""
    ends, size = excerpts.ends_of(values.sizes, limits), values.sizes[axis]
    reversal = excerpts.Reversal(lengths, axis, values.sizes)
    of_lengths = reversal.ends_of_lengths(ends)
    moved, origins = (each.ravel().tolist() for each in (reversal.moved(ends), reversal.origins(ends)))
    clamped = reversal.clamped(of_lengths).ravel().tolist()
    marks = [REVERSED if each else "" for each in moved]
    panels = [
        _panel("InputTensor", values, ends, lambda i, index, text: Cell(index, text, marks[i])),
        _panel(
            "SequenceTensor", lengths, of_lengths,
            lambda i, index, text: Cell(index, text, CLAMPED, str(size)) if clamped[i] else Cell(index, text),
        ),
        _panel(
            "OutputTensor", result, ends,
            lambda i, index, text: Cell(index, text, marks[i], origin=_origin(index, axis, origins[i])),
        ),
    ]  # fmt: skip
    legend = {REVERSED: "in the reversed start of its line"} if any(moved) else {}
    legend |= {CLAMPED: f"above the axis size {size:,}: acts as {size:,}"} if any(clamped) else {}
    title = f"DML_REVERSE_SUBSEQUENCES along axis {axis}"
    return Figure(title, f"Axis: {axis}", panels, legend, axis)


def of_differences(
    tensors: Sequence[tuple[str, Source]],
    title: str,
    mask: Callable[[Region], NDArray[np.bool_]],
    limits: Limits,
) -> Figure:
    """Tensors of one size, each with its name; those elements are marked that `mask` selects."""
    sizes = tensors[0][1].sizes
    ends = excerpts.ends_of(sizes, limits)
    differs = excerpts.gathered(mask, ends).ravel().tolist() if prod(sizes) else []
    panels = [
        _panel(name, source, ends, lambda i, index, text: Cell(index, text, DIFFERENT if differs[i] else ""))
        for name, source in tensors
    ]
    return Figure(title, title, panels, {DIFFERENT: "differs"} if any(differs) else {})


def cell_text(cell: Cell | None) -> str:
    """The text of a cell: the element, and of a clamped length also what it acts as."""
    if cell is None:
        return "..."
    return f"{cell.text} \u2192 {cell.acts_as}" if cell.acts_as else cell.text


def _origin(index: Index, axis: int, origin: int) -> Index | None:
    """Where the element at an index of the output comes from; None if it stays."""
    return None if origin == index[axis] else (*index[:axis], origin, *index[axis + 1 :])


def _panel(name: str, source: Source, ends: Ends, cell: Callable[[int, Index, str], Cell]) -> Panel:
    """The panel of a tensor; `cell` makes each cell from its place in C order, its index and its text."""
    values = excerpts.elements(source, ends)
    texts, gaps = excerpts.rendered(values), [*map(excerpts.gap, ends)]
    places = itertools.product(*map(excerpts.indices, ends))
    cells = {index: cell(i, index, text) for i, (index, text) in enumerate(zip(places, texts, strict=True))}
    rows = printing.aligned(texts, values.shape[-1], gaps[-1]) if texts and ends else texts
    told = excerpts.left_out(len(texts), source.sizes, ends)
    text = f"{printing.header(name, source.desc)}\n{printing.body(rows, values.shape, gaps)}"
    return Panel(
        name, source.desc, _blocks(cells, ends, source.sizes) if cells else [], told, text + f"\n{told}" * bool(told)
    )


def _blocks(cells: dict[Index, Cell], ends: Ends, sizes: Index) -> list[Block | None]:
    """The tables of the shown cells; a tensor of fewer than two dimensions has one row."""
    *leading, rows, columns = [[()]] * (2 - len(ends)) + [*map(_with_gap, ends)]
    blocks: list[Block | None] = []
    for parts in itertools.product(*leading):
        if None in parts:  # of neighbours that are left out, one is told
            blocks += [None] if blocks[-1] else []
            continue
        lead = sum(filter(None, parts), ())
        caption = f"[{', '.join([*map(str, lead), ':', ':'])}]" if prod(sizes[:-2]) > 1 else ""
        table = [
            row if row is None else Row(_label(row), [c if c is None else cells[lead + row + c] for c in columns])
            for row in rows
        ]
        blocks.append(Block(caption, [c if c is None else _label(c) for c in columns], table))
    return blocks


def _with_gap(parts: list[slice]) -> list[Index | None]:
    """The indices of a dimension that are shown, with None where others are left out."""
    shown: list[Index | None] = [(i,) for i in excerpts.indices(parts)]
    gap = excerpts.gap(parts)
    return [*shown[:gap], None, *shown[gap:]] if gap else shown


def _label(index: Index) -> str:
    """The number of a row or column; "" where the tensor has no such dimension."""
    return "".join(map(str, index))
