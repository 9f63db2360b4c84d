"""Tensors for a person, in the bracket notation: shortened and highlighted."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

from revseq_cli.report import colors, excerpts
from revseq_cli.texts import printing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Source
    from revseq_cli.report.excerpts import Ends

# Tensors with more elements are shortened: on a terminal, and in a preview.
MOST_ON_TERMINAL = 1000
PREVIEW = 200


class Marks(NamedTuple):
    """The terminal codes that highlight the elements of reversed starts of lines, and the lengths that are clamped."""

    moved: str
    clamped: str


COLORED = Marks(colors.code(colors.BLUE), colors.code(colors.MAGENTA))
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


class _View(NamedTuple):
    """How the tensors of a job are shown: the same indices of each, with or without highlights."""

    lengths: Source
    axis: int
    sizes: tuple[int, ...]
    most: int | None
    marks: Marks | None

    def tensor(self, name: str, source: Source) -> str:
        """Input or output, with the reversed start of each line highlighted."""
        ends = self._ends()
        return self._text(name, source, ends, self.marks and _Highlight(self._reversal().moved(ends), self.marks.moved))

    def lengths_tensor(self, name: str) -> str:
        """The lengths, with those that are clamped highlighted."""
        ends = self._reversal().ends_of_lengths(self._ends())
        highlight = self.marks and _Highlight(self._reversal().clamped(ends), self.marks.clamped)
        return self._text(name, self.lengths, ends, highlight) + self._remark()

    def _remark(self) -> str:
        """With marks, a line that says how many lengths are clamped, if any; "" if the lengths are shortened."""
        if not self.marks or (self.most is not None and self.lengths.desc.element_count > self.most):
            return ""
        count = int((self.lengths.read() > self.sizes[self.axis]).sum())
        return f"\n// lengths clamped to {self.sizes[self.axis]}: {count}" if count else ""

    def _ends(self) -> Ends:
        return excerpts.ends_of(self.sizes, excerpts.Limits() if self.most is None else excerpts.Limits(self.most))

    def _reversal(self) -> excerpts.Reversal:
        return excerpts.Reversal(self.lengths, self.axis, self.sizes)

    def _text(self, name: str, source: Source, ends: Ends, highlight: _Highlight | None) -> str:
        return f"{printing.header(name, source.desc)}\n{_rows(source, ends, '; --full prints all', highlight)}"


class _Highlight(NamedTuple):
    """The terminal code for the elements that `mask` selects, of those that are shown."""

    mask: NDArray[np.bool_]
    code: str


def shortened(source: Source, most: int) -> str:
    """A tensor's rows; above `most` elements, only the ends of long dimensions, and a line that says so.

    Only what is shown is read.
    """
    return _rows(source, excerpts.ends_of(source.sizes, excerpts.Limits(most)))


def _rows(source: Source, ends: Ends, more: str = "", highlight: _Highlight | None = None) -> str:
    """The rows of the indices in `ends`; if these are not all, a line below says how many elements, and `more`."""
    sizes = source.sizes
    values = excerpts.elements(source, ends)
    if not prod(sizes) or not sizes:
        return printing.body(printing.rows_of(values, excerpts.rendered), sizes)
    gaps = [*map(excerpts.gap, ends)]
    if highlight:
        highlighted = highlight.mask.ravel()

        def mark(i: int, text: str) -> str:
            return f"\x1b[{highlight.code}m{text}\x1b[0m" if highlighted[i] else text

        rows = printing.aligned(excerpts.rendered(values), values.shape[-1], gaps[-1], mark)
    elif gaps[-1]:
        rows = printing.aligned(excerpts.rendered(values), values.shape[-1], gaps[-1])
    else:
        rows = printing.rows_of(values, excerpts.rendered)
    text = printing.body(rows, values.shape, gaps)
    told = excerpts.left_out(values.size, sizes, ends)
    return f"{text}\n// {told}{more}" if told else text
