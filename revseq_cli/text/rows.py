"""The layout of tensors as text: rows in brackets, aligned as on Microsoft's pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revseq_cli.core import signals
from revseq_cli.core.tensors import TensorDesc
from revseq_cli.text.numbers import render_numbers

DOTS = "..."  # for what is left out


def write_tensor(name: str, desc: TensorDesc, values: NDArray[Any]) -> str:
    """A tensor's header and body, without a line break at the end."""
    body = put_brackets(make_rows(values), desc.sizes)
    return f"{name}: {desc}\n{body}"


def make_rows(
    values: NDArray[Any], as_texts: Callable[[NDArray[Any]], list[str]] = render_numbers
) -> list[str]:
    """A tensor's rows, aligned; `as_texts` gives the texts of elements."""
    texts = as_texts(values)
    if not values.ndim or not texts:
        return texts
    return align_cells(texts, values.shape[-1])


def align_cells(texts: Sequence[str], width: int, gap: int = 0) -> list[str]:
    """Rows of `width` elements, from the elements' texts in C order, right-justified.

    The first column has its own width, and all others share one, as on the reference page. Dots
    follow `gap` elements, unless that is 0. A signal stops it.
    """
    lengths = np.array([len(text) for text in texts])
    lengths = lengths.reshape(-1, width)
    first = int(lengths[:, 0].max())
    others = int(lengths[:, 1:].max(initial=0))
    cells = [f"%{first}s"]
    cells += [f"%{others}s"] * (width - 1)
    if gap:
        cells.insert(gap, DOTS)
    template = ", ".join(cells)
    rows = []
    for start in range(0, len(texts), width):
        signals.check()
        row = tuple(texts[start : start + width])
        rows.append(template % row)
    return rows


def put_brackets(rows: Sequence[str], sizes: tuple[int, ...], gaps: Sequence[int] = ()) -> str:
    """A tensor's rows in brackets, one row a line.

    A tensor without dimensions has no brackets, and one without elements is []. A row that opens
    k brackets is indented by (rank - k) blanks. `gaps` says for each dimension after how many of
    its indices others are left out, where dots stand; 0 if none are.
    """
    if not rows:
        return "[]"
    if not sizes:
        return rows[0]
    rank = len(sizes)
    counts = _count_opening(len(rows), sizes)
    opening = [" " * (rank - count) + "[" * count for count in range(rank + 1)]
    closing = ["]" * count + "," for count in range(rank + 1)]
    lines = []
    for row, count, next_count in zip(rows, counts, counts[1:], strict=False):
        lines.append(opening[count] + row + closing[next_count])
    lines[-1] = lines[-1].removesuffix(",")
    if gaps:
        _add_dots(lines, sizes, gaps)
    return "\n".join(lines)


def _count_opening(count: int, sizes: tuple[int, ...]) -> list[int]:
    """For each row, and one more after the last: how many brackets it opens.

    A row closes as many as the next one opens.
    """
    numbers = np.arange(count + 1)
    opening = np.ones(count + 1, int)
    for d in range(len(sizes) - 1):
        rows_inside = prod(sizes[d:-1])  # a bracket of dimension d
        opening += numbers % rows_inside == 0
    return opening.tolist()


def _add_dots(lines: list[str], sizes: tuple[int, ...], gaps: Sequence[int]) -> None:
    """Add dots on a line of their own to the last row before each gap.

    For the sizes (2, 4, 5) and the gaps (0, 3, 0), there are 8 rows, in 2 brackets of dimension 1.
    Each of these has 4 rows and a gap after the third: dots follow the rows 2 and 6.
    """
    for d in range(len(sizes) - 2, -1, -1):  # the dots of inner dimensions come first
        if not gaps[d]:
            continue
        rows_of_index = prod(sizes[d + 1 : -1])
        rows_of_bracket = sizes[d] * rows_of_index
        indent = " " * (d + 1)
        first = gaps[d] * rows_of_index - 1
        for row in range(first, len(lines), rows_of_bracket):
            lines[row] += f"\n{indent}{DOTS}"
