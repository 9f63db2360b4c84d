"""How tensors are shown: in the page's notation, shortened, with what moved set apart; and as a picture."""

from __future__ import annotations

import io
import itertools
import re
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli import kernel, literals, notation
from revseq_cli.spec import braced

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from revseq_cli.formats.base import Source
    from revseq_cli.plan import Region

# A terminal shows tensors up to this many elements whole, and a preview or a picture up to fewer.
MOST_ON_TERMINAL = 1000
PREVIEW = 200
_EDGE = 3  # indices shown at either end of a dimension that is shortened


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
    view = _View(lengths, axis, values.sizes[axis], most, marks)
    parts = [
        view.tensor("InputTensor", values),
        view.lengths_tensor("SequenceTensor"),
        f"Axis: {axis}",
        view.tensor("OutputTensor", result),
    ]
    return "\n\n".join(parts)


def result_text(lengths: Source, axis: int, result: Source, most: int | None, marks: Marks | None) -> str:
    """The OutputTensor; on a terminal its reversed elements stand out, and clamped lengths are counted below it."""
    view = _View(lengths, axis, result.sizes[axis], most, marks)
    return view.tensor("OutputTensor", result) + view.remark()


def picture(values: Source, lengths: Source, axis: int, result: Source) -> str:
    """An SVG of input, lengths and output side by side, with the reversed start of each line marked."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    view = _View(lengths, axis, values.sizes[axis], PREVIEW, COLORED)
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


class _View(NamedTuple):
    """How the tensors of a job are shown: at most `most` elements each, and marked or plain."""

    lengths: Source
    axis: int
    size: int
    most: int | None
    marks: Marks | None

    def tensor(self, name: str, source: Source) -> str:
        """Input or output, with the reversed starts of its lines marked."""
        return self._text(name, source, self._moved, self.marks.moved if self.marks else "")

    def lengths_tensor(self, name: str) -> str:
        """The lengths, with those that are clamped marked."""
        text = self._text(name, self.lengths, self._clamped, self.marks.clamped if self.marks else "")
        return text + self.remark()

    def remark(self) -> str:
        """On a terminal, how many lengths are clamped."""
        if not self.marks or (self.most is not None and self.lengths.desc.element_count > self.most):
            return ""
        count = int((self.lengths.read() > self.size).sum())
        return f"\n// lengths clamped to {self.size}: {count}" if count else ""

    def _text(self, name: str, source: Source, mask: Callable[[Region], NDArray[np.bool_]], code: str) -> str:
        rows = shortened(source, self.most, "; --full prints all", mask if code else None, code)
        return f"{notation.header(name, source.desc)}\n{rows}"

    def _moved(self, region: Region) -> NDArray[np.bool_]:
        part = region[self.axis]
        of_lengths = (*region[: self.axis], slice(0, 1), *region[self.axis + 1 :])
        return kernel.moved(self.lengths.ticket(of_lengths).read(), self.size, self.axis, part)

    def _clamped(self, region: Region) -> NDArray[np.bool_]:
        mask: NDArray[np.bool_] = self.lengths.ticket(region).read() > self.size
        return mask


def shortened(
    source: Source,
    most: int | None,
    more: str = "",
    mask: Callable[[Region], NDArray[np.bool_]] | None = None,
    code: str = "",
) -> str:
    """A tensor's rows; above `most` elements only the ends of its long dimensions, and a line that says so, and `more`.

    Only what is shown is read. Elements for which `mask` is true are set apart with the terminal's `code`.
    """
    desc = source.desc
    ends = _ends(desc.sizes, desc.element_count if most is None else most)
    values = _gathered(lambda region: source.ticket(region).read(), ends)
    dressed = _gathered(mask, ends).ravel() if mask else np.zeros(values.size, dtype=bool)
    gaps = [
        parts[0].stop if parts[-1].stop < size or len(parts) > 1 else 0
        for parts, size in zip(ends, desc.sizes, strict=True)
    ]
    mark = (lambda i, text: f"\x1b[{code}m{text}\x1b[0m" if dressed[i] else text) if mask else None
    rows = notation.body(notation.aligned(_texts(values), values.shape[-1], gaps[-1], mark), values.shape, gaps)
    if values.size == desc.element_count:
        return rows
    return f"{rows}\n// {values.size:,} of {desc.element_count:,} elements{more}"


def _ends(sizes: tuple[int, ...], most: int) -> list[list[slice]]:
    """For each dimension all of it, or its two ends, or its first index: at most about `most` elements in all."""
    if prod(sizes) <= most:
        return [[slice(0, size)] for size in sizes]
    ends: list[list[slice]] = []
    kept = 1
    for size in reversed(sizes):  # whole from the innermost out, as long as there is room
        whole = size <= 2 * _EDGE + 1
        ends.append([slice(0, size)] if whole else [slice(0, _EDGE), slice(size - _EDGE, size)])
        if kept * (size if whole else 2 * _EDGE) > most:
            ends[-1] = [slice(0, 1)]
        kept *= sum(part.stop - part.start for part in ends[-1])
    return ends[::-1]


def _gathered(read: Callable[[Region], NDArray[Any]], ends: list[list[slice]]) -> NDArray[Any]:
    pieces = np.empty([len(parts) for parts in ends], dtype=object)
    for index, region in zip(np.ndindex(pieces.shape), itertools.product(*ends), strict=True):
        pieces[index] = read(region)
    return np.block(pieces.tolist())


def _texts(values: NDArray[Any]) -> list[str]:
    """Elements as text; a bool or a complex number, which the notation lacks, as Python shows it."""
    return list(map(str, values.ravel().tolist())) if values.dtype.kind in "bc" else literals.render(values)
