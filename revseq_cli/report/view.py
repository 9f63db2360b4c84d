"""How tensors are shown: in the notation, shortened, with what moved set apart; as a picture; in what two differ."""

from __future__ import annotations

import io
import itertools
import re
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.ground.errors import printable
from revseq_cli.ground.tensors import braced
from revseq_cli.operator import kernel
from revseq_cli.texts import literals, printing

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Source
    from revseq_cli.formats.regions import Region
    from revseq_cli.passes.differences import Differences

# A terminal shows tensors up to this many elements whole, and a preview or a picture up to fewer.
MOST_ON_TERMINAL = 1000
PREVIEW = 200
_EDGE = 3  # indices shown at either end of a dimension that is shortened


# For each dimension the indices that are shown of it.
Ends = list[list[slice]]


class Marks(NamedTuple):
    """How a terminal sets elements apart, as its codes: the reversed start of a line, and a length that is clamped."""

    moved: str
    clamped: str


COLORED = Marks("1;36", "1;33")
UNCOLORED = Marks("1;4", "1;4")  # bold and underlined


def example_text(
    values: Source, lengths: Source, axis: int, result: Source, most: int | None = None, marks: Marks | None = None
) -> str:
    """A whole docs-style example, which reads back as the same job; shortened where a tensor has more than `most`."""
    view = _View(lengths, axis, values.sizes, most, marks)
    parts = [
        view.tensor("InputTensor", values),
        view.lengths_tensor("SequenceTensor"),
        f"Axis: {axis}",
        view.tensor("OutputTensor", result),
    ]
    return "\n\n".join(parts)


def result_text(lengths: Source, axis: int, result: Source, most: int | None, marks: Marks | None) -> str:
    """The OutputTensor; on a terminal its reversed elements stand out, and clamped lengths are counted below it."""
    view = _View(lengths, axis, result.sizes, most, marks)
    return view.tensor("OutputTensor", result) + view.remark()


def picture(values: Source, lengths: Source, axis: int, result: Source) -> str:
    """An SVG of input, lengths and output side by side, with the reversed start of each line marked."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    view = _View(lengths, axis, values.sizes, PREVIEW, COLORED, more="")
    columns = []
    for name, source, text in (
        ("InputTensor", values, view.tensor("", values)),
        ("SequenceTensor", lengths, view.lengths_tensor("")),
        ("OutputTensor", result, view.tensor("", result)),
    ):
        _, _, rows = text.partition("\n")
        columns.append(Text.from_ansi(f"{name}\n{braced(source.sizes)} {source.desc.data_type.name}\n\n{rows}"))
    grid = Table.grid(padding=(0, 3))
    grid.add_row(*columns)
    width = sum(max(map(len, column.plain.split("\n"))) + 3 for column in columns)
    console = Console(record=True, width=width, file=io.StringIO(), color_system="standard", force_terminal=True)
    console.print(grid)
    svg = console.export_svg(title=f"Axis: {axis}", unique_id="revseq")
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)  # they would be fetched from the network


def first_differences(found: Differences) -> list[tuple[list[int], str, str]]:
    """The first elements that differ: index, and both values as a text has them."""
    return list(zip(found.indices.tolist(), literals.render(found.a), literals.render(found.b), strict=True))


def differences(a: Source, b: Source, found: Differences | None) -> str:
    """How two tensors differ; `found` is None where their data types or sizes do."""
    lines = [f"A: {a.desc}  {printable(a.name)}", f"B: {b.desc}  {printable(b.name)}"]
    if not found:
        unlike = {"DataType": a.desc.data_type != b.desc.data_type, "Sizes": a.sizes != b.sizes}
        return "\n".join([*lines, f"different {' and '.join(name for name, differs in unlike.items() if differs)}"])
    count, total = found.count, found.total
    lines.append(f"{count:,} of {total:,} elements differ" if count else f"equal, {total:,} elements")
    rows = [(str(index), *values) for index, *values in first_differences(found)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines += ["  " + "  ".join(map(str.rjust, row, widths)) for row in rows]
    largest = {"|A - B|": found.largest_absolute, "|A - B| / |B|": found.largest_relative}
    lines += [f"largest {name}: {number:.7g}" for name, number in largest.items() if number is not None]
    return "\n".join(lines)


class _View(NamedTuple):
    """How the tensors of a job are shown: the same indices of all of them, and marked or plain."""

    lengths: Source
    axis: int
    sizes: tuple[int, ...]
    most: int | None
    marks: Marks | None
    more: str = "; --full prints all"

    def tensor(self, name: str, source: Source) -> str:
        """Input or output, with the reversed starts of its lines marked."""
        return self._text(name, source, self._ends(), self.marks and _Dress(self._moved, self.marks.moved))

    def lengths_tensor(self, name: str) -> str:
        """The lengths, with those that are clamped marked."""
        ends = self._ends()
        ends[self.axis] = [slice(0, 1)]
        dress = self.marks and _Dress(self._clamped, self.marks.clamped)
        return self._text(name, self.lengths, ends, dress) + self.remark()

    def remark(self) -> str:
        """On a terminal, how many lengths are clamped."""
        if not self.marks or (self.most is not None and self.lengths.desc.element_count > self.most):
            return ""
        count = int((self.lengths.read() > self.sizes[self.axis]).sum())
        return f"\n// lengths clamped to {self.sizes[self.axis]}: {count}" if count else ""

    def _ends(self) -> Ends:
        return _ends(self.sizes, self.most)

    def _text(self, name: str, source: Source, ends: Ends, dress: _Dress | None) -> str:
        return f"{printing.header(name, source.desc)}\n{_rows(source, ends, self.more, dress)}"

    def _moved(self, region: Region) -> NDArray[np.bool_]:
        part = region[self.axis]
        of_lengths = (*region[: self.axis], slice(0, 1), *region[self.axis + 1 :])
        return kernel.moved(self.lengths.ticket(of_lengths).read(), self.sizes[self.axis], self.axis, part)

    def _clamped(self, region: Region) -> NDArray[np.bool_]:
        mask: NDArray[np.bool_] = self.lengths.ticket(region).read() > self.sizes[self.axis]
        return mask


class _Dress(NamedTuple):
    """Which elements of a region are set apart, and with which code of a terminal."""

    mask: Callable[[Region], NDArray[np.bool_]]
    code: str


def shortened(source: Source, most: int) -> str:
    """A tensor's rows; above `most` elements only the ends of its long dimensions, and a line that says so.

    Only what is shown is read.
    """
    return _rows(source, _ends(source.sizes, most))


def _rows(source: Source, ends: Ends, more: str = "", dress: _Dress | None = None) -> str:
    """The rows of what is kept of each dimension; below them, if that is not all, how much it is, and `more`."""
    sizes = source.sizes
    with source.at_hand() as near:
        if not prod(sizes) or not sizes:
            return printing.body(printing.rows_of(near.read(), _texts), sizes)
        values = _gathered(lambda region: near.ticket(region).read(), ends, near.chunks)
    gaps = [parts[0].stop if len(parts) > 1 else 0 for parts in ends]
    if dress:
        dressed = _gathered(dress.mask, ends).ravel()

        def mark(i: int, text: str) -> str:
            return f"\x1b[{dress.code}m{text}\x1b[0m" if dressed[i] else text

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
    """What is kept of each dimension: all, its two ends, or its first index; at most about `most` elements in all."""
    if most is None or prod(sizes) <= most:
        return [[slice(0, size)] for size in sizes]
    ends: Ends = []
    kept = 1
    for size in reversed(sizes):  # whole from the innermost out, as long as there is room
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
    """What is kept, side by side; of a tensor in chunks, each is read once, since it is decoded whole each time."""
    groups = [[[part] for part in parts] for parts in ends]
    if chunks:
        groups = [_by_chunk(parts, size) for parts, size in zip(ends, chunks, strict=True)]
    pieces = np.empty([len(parts) for parts in groups], dtype=object)
    for place, parts in zip(np.ndindex(pieces.shape), itertools.product(*groups), strict=True):
        found = read(tuple(slice(part[0].start, part[-1].stop) for part in parts))
        kept = [np.concatenate([np.arange(each.start, each.stop) - part[0].start for each in part]) for part in parts]
        pieces[place] = found[np.ix_(*kept)]
    return np.block(pieces.tolist())


def _by_chunk(parts: list[slice], size: int) -> list[list[slice]]:
    """Indices of a dimension, cut where its chunks of that size begin, and those of one chunk together."""
    cuts = [
        slice(max(part.start, start), min(part.stop, start + size))
        for part in parts
        for start in range(part.start // size * size, part.stop, size)
    ]
    return [list(group) for _, group in itertools.groupby(cuts, lambda cut: cut.start // size)]


def _texts(values: NDArray[Any]) -> list[str]:
    """Elements as text; a bool or a complex number, which the notation lacks, as Python shows it."""
    return list(map(str, values.ravel().tolist())) if values.dtype.kind in "bc" else literals.render(values)
