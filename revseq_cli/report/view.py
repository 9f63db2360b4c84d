"""Tensors for a person: in the bracket notation, shortened and highlighted, and as pictures."""

from __future__ import annotations

import io
import itertools
import re
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.ground.tensors import braced
from revseq_cli.operator import kernel
from revseq_cli.report import colors
from revseq_cli.texts import literals, printing

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Source
    from revseq_cli.formats.regions import Region
    from revseq_cli.ground.tensors import TensorDesc

# Tensors with more elements are shortened: on a terminal, and in a preview or a picture.
MOST_ON_TERMINAL = 1000
PREVIEW = 200
_EDGE = 3  # indices shown at either end of a dimension that is shortened


# For each dimension the slices of indices that are shown: the whole dimension, its two ends, or its first index.
Ends = list[list[slice]]


class Marks(NamedTuple):
    """The terminal codes that highlight the elements of reversed starts of lines, and the lengths that are clamped."""

    moved: str
    clamped: str


COLORED = Marks(colors.code(colors.BLUE), colors.code(colors.MAGENTA))
PICTURED = Marks("1;36", "1;33")  # on the dark ground of a picture
UNCOLORED = Marks("1;4", "1;4")  # bold and underlined


def example_text(
    values: Source, lengths: Source, axis: int, result: Source, most: int | None = None, marks: Marks | None = None
) -> str:
    """A whole docs-style example, which reads back as the same job, unless it is shortened.

    A tensor of more than `most` elements is shortened. With `marks`, elements are highlighted.
    """
    view = _View(lengths, axis, values.sizes, most, marks)
    parts = [
        view.tensor("InputTensor", values),
        view.lengths_tensor("SequenceTensor"),
        f"Axis: {axis}",
        view.tensor("OutputTensor", result),
    ]
    return "\n\n".join(parts)


def result_text(lengths: Source, axis: int, result: Source, most: int | None, marks: Marks | None) -> str:
    """The OutputTensor, shortened if it has more than `most` elements; with `marks`, reversed ones are highlighted."""
    return _View(lengths, axis, result.sizes, most, marks).tensor("OutputTensor", result)


def picture(values: Source, lengths: Source, axis: int, result: Source) -> str:
    """An SVG of input, lengths and output side by side, with the reversed start of each line highlighted."""
    view = _View(lengths, axis, values.sizes, PREVIEW, PICTURED, more="")
    tensors = [
        ("InputTensor", values, view.tensor("", values)),
        ("SequenceTensor", lengths, view.lengths_tensor("")),
        ("OutputTensor", result, view.tensor("", result)),
    ]
    return _drawn(f"Axis: {axis}", [(name, source.desc, text.partition("\n")[2]) for name, source, text in tensors])


def picture_of_differences(
    a: Source, b: Source, labels: tuple[str, str], title: str, mask: Callable[[Region], NDArray[np.bool_]]
) -> str:
    """An SVG of two tensors of one size side by side, with the elements highlighted that `mask` selects."""
    ends, highlight = _ends(a.sizes, PREVIEW), _Highlight(mask, PICTURED.moved)
    tensors = zip(labels, (a, b), strict=True)
    return _drawn(title, [(label, each.desc, _rows(each, ends, "", highlight)) for label, each in tensors])


def _drawn(title: str, tensors: list[tuple[str, TensorDesc, str]]) -> str:
    """An SVG of tensors side by side, each with its name, desc and rows."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    columns = [
        Text.from_ansi(f"{name}\n{braced(desc.sizes)} {desc.data_type.name}\n\n{rows}") for name, desc, rows in tensors
    ]
    grid = Table.grid(padding=(0, 3))
    grid.add_row(*columns)
    width = sum(max(map(len, column.plain.split("\n"))) + 3 for column in columns)
    console = Console(
        record=True, width=width, file=io.StringIO(), color_system="standard", force_terminal=True, legacy_windows=False
    )
    console.print(grid)
    svg = console.export_svg(title=title, unique_id="revseq")
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)  # they would be fetched from the network


class _View(NamedTuple):
    """How the tensors of a job are shown: the same indices of each, with or without highlights.

    `more` is what is added where a tensor is shortened.
    """

    lengths: Source
    axis: int
    sizes: tuple[int, ...]
    most: int | None
    marks: Marks | None
    more: str = "; --full prints all"

    def tensor(self, name: str, source: Source) -> str:
        """Input or output, with the reversed start of each line highlighted."""
        return self._text(name, source, self._ends(), self.marks and _Highlight(self._moved, self.marks.moved))

    def lengths_tensor(self, name: str) -> str:
        """The lengths, with those that are clamped highlighted."""
        ends = self._ends()
        ends[self.axis] = [slice(0, 1)]
        highlight = self.marks and _Highlight(self._clamped, self.marks.clamped)
        return self._text(name, self.lengths, ends, highlight) + self._remark()

    def _remark(self) -> str:
        """With marks, a line that says how many lengths are clamped, if any; "" if the lengths are shortened."""
        if not self.marks or (self.most is not None and self.lengths.desc.element_count > self.most):
            return ""
        count = int((self.lengths.read() > self.sizes[self.axis]).sum())
        return f"\n// lengths clamped to {self.sizes[self.axis]}: {count}" if count else ""

    def _ends(self) -> Ends:
        return _ends(self.sizes, self.most)

    def _text(self, name: str, source: Source, ends: Ends, highlight: _Highlight | None) -> str:
        return f"{printing.header(name, source.desc)}\n{_rows(source, ends, self.more, highlight)}"

    def _moved(self, region: Region) -> NDArray[np.bool_]:
        part = region[self.axis]
        of_lengths = (*region[: self.axis], slice(0, 1), *region[self.axis + 1 :])
        return kernel.moved(self.lengths.ticket(of_lengths).read(), self.sizes[self.axis], self.axis, part)

    def _clamped(self, region: Region) -> NDArray[np.bool_]:
        mask: NDArray[np.bool_] = self.lengths.ticket(region).read() > self.sizes[self.axis]
        return mask


class _Highlight(NamedTuple):
    """The terminal code for the elements of a region that `mask` selects."""

    mask: Callable[[Region], NDArray[np.bool_]]
    code: str


def shortened(source: Source, most: int) -> str:
    """A tensor's rows; above `most` elements, only the ends of long dimensions, and a line that says so.

    Only what is shown is read.
    """
    return _rows(source, _ends(source.sizes, most))


def _rows(source: Source, ends: Ends, more: str = "", highlight: _Highlight | None = None) -> str:
    """The rows of the indices in `ends`; if these are not all, a line below says how many elements, and `more`."""
    sizes = source.sizes
    with source.at_hand() as ready:
        if not prod(sizes) or not sizes:
            return printing.body(printing.rows_of(ready.read(), _texts), sizes)
        values = _gathered(lambda region: ready.ticket(region).read(), ends, ready.chunks)
    gaps = [parts[0].stop if len(parts) > 1 else 0 for parts in ends]
    if highlight:
        highlighted = _gathered(highlight.mask, ends).ravel()

        def mark(i: int, text: str) -> str:
            return f"\x1b[{highlight.code}m{text}\x1b[0m" if highlighted[i] else text

        rows = printing.aligned(_texts(values), values.shape[-1], gaps[-1], mark)
    elif gaps[-1]:
        rows = printing.aligned(_texts(values), values.shape[-1], gaps[-1])
    else:
        rows = printing.rows_of(values, _texts)
    text = printing.body(rows, values.shape, gaps)
    if values.size == source.desc.element_count:
        return text
    first = [d for d, (parts, size) in enumerate(zip(ends, sizes, strict=True)) if parts == [slice(0, 1)] and size > 1]
    alone = f"; only the first index of the dimensions {', '.join(map(str, first))}" if first else ""
    return f"{text}\n// {values.size:,} of {source.desc.element_count:,} elements{alone}{more}"


def _ends(sizes: tuple[int, ...], most: int | None) -> Ends:
    """The indices that are shown of a tensor: at most about `most` elements."""
    if most is None or prod(sizes) <= most:
        return [[slice(0, size)] for size in sizes]
    ends: Ends = []
    kept = 1
    for size in reversed(sizes):  # the innermost dimensions are shown whole, as long as there is room
        choices = [] if size > 2 * _EDGE + 1 else [[slice(0, size)]]
        choices += [[slice(0, edge), slice(size - edge, size)] for edge in (_EDGE, 1) if 2 * edge < size]
        fitting = (parts for parts in choices if kept * _count(parts) <= most)
        ends.append(next(fitting, [slice(0, 1)]))
        kept *= _count(ends[-1])
    return ends[::-1]


def _count(parts: list[slice]) -> int:
    return sum(part.stop - part.start for part in parts)


def _gathered(
    read: Callable[[Region], NDArray[Any]], ends: Ends, chunks: tuple[int, ...] | None = None
) -> NDArray[Any]:
    """The elements at the indices in `ends`, as one array; a chunk is read once, since it is decoded whole."""
    groups = [[[part] for part in parts] for parts in ends]
    if chunks:
        groups = [_by_chunk(parts, size) for parts, size in zip(ends, chunks, strict=True)]
    pieces = np.empty([len(parts) for parts in groups], dtype=object)
    for place, parts in zip(np.ndindex(pieces.shape), itertools.product(*groups), strict=True):
        region = read(tuple(slice(part[0].start, part[-1].stop) for part in parts))
        kept = [np.concatenate([np.arange(each.start, each.stop) - part[0].start for each in part]) for part in parts]
        pieces[place] = region[np.ix_(*kept)]
    return np.block(pieces.tolist())


def _by_chunk(parts: list[slice], size: int) -> list[list[slice]]:
    """Slices of a dimension, cut where chunks of that size begin; those in one chunk make one list."""
    cuts = [
        slice(max(part.start, start), min(part.stop, start + size))
        for part in parts
        for start in range(part.start // size * size, part.stop, size)
    ]
    return [list(group) for _, group in itertools.groupby(cuts, lambda cut: cut.start // size)]


def _texts(values: NDArray[Any]) -> list[str]:
    """Elements as text; BOOL and complex ones, which the notation lacks, as Python prints them."""
    return list(map(str, values.ravel().tolist())) if values.dtype.kind in "bc" else literals.render(values)
