"""The bracket notation of Microsoft's reference pages, printed as they print it."""

from __future__ import annotations

import itertools
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.texts import literals

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from revseq_cli.ground.tensors import TensorDesc


def header(name: str, desc: TensorDesc) -> str:
    """The line above a body: `Name: (Sizes:{1,1,3,4}, DataType:FLOAT32)`."""
    return f"{name}: {desc}"


def body(rows: Sequence[str], sizes: tuple[int, ...], gaps: Sequence[int] = ()) -> str:
    """A tensor's rows in brackets, one row a line; a tensor of no dimensions has no brackets, and [] has no elements.

    A row that opens k brackets is indented by (rank - k) blanks. `gaps` has a number for each dimension: a "..." stands
    after so many of its indices, for those that were left out; 0 is for a dimension that is whole.
    """
    if not rows or not sizes:
        return rows[0] if rows else "[]"
    rank = len(sizes)
    gaps = gaps or (0,) * rank
    # From the innermost dimension but one outwards: the rows of one of its indices, and of all its indices.
    spans = [prod(sizes[d + 1 : -1]) for d in range(rank - 2, -1, -1)]
    blocks = [prod(sizes[d:-1]) for d in range(rank - 2, -1, -1)]
    starts = np.arange(len(rows) + 1)
    opened = (1 + sum(((starts % block == 0) for block in blocks), np.zeros(starts.size, int))).tolist()
    before = [" " * (rank - count) + "[" * count for count in range(rank + 1)]
    after = ["]" * count + "," for count in range(rank + 1)]
    lines = [before[o] + row + after[c] for row, o, c in zip(rows, opened, opened[1:], strict=False)]
    lines[-1] = lines[-1][:-1]
    for d, (span, block) in enumerate(zip(spans, blocks, strict=True)):
        if gap := gaps[rank - 2 - d]:
            for i in range(gap * span - 1, len(rows), block):
                lines[i] += "\n" + " " * (rank - 1 - d) + "..."
    return "\n".join(lines)


def aligned(texts: Sequence[str], width: int, gap: int = 0, mark: Callable[[int, str], str] | None = None) -> list[str]:
    """Rows of `width` elements, from the elements' texts in C order, right-justified.

    The first column has its own width, and all others share one, as on the reference page. A "..." stands after `gap`
    elements, unless that is 0. `mark` may add terminal codes to a text; its first argument is the element's place in
    C order.
    """
    starts = range(0, len(texts), width)
    first = max(map(len, texts[::width]))
    if width == 1 and not mark:
        return [text.rjust(first) for text in texts]
    other = max(max(map(len, texts[start + 1 : start + width]), default=0) for start in starts)
    rows = []
    for start in starts:
        stop = start + width
        cells = [texts[start].rjust(first), *map(str.rjust, texts[start + 1 : stop], itertools.repeat(other))]
        if mark:
            cells = [
                cell[: -len(text)] + mark(i, text)
                for i, (cell, text) in enumerate(zip(cells, texts[start:stop], strict=True), start)
            ]
        if gap:
            cells.insert(gap, "...")
        rows.append(", ".join(cells))
    return rows


def rows_of(values: NDArray[Any], render: Callable[[NDArray[Any]], list[str]] = literals.render) -> list[str]:
    """A tensor's rows, aligned; `render` gives the texts of elements that are no integers.

    Integers are printed by one template for a whole row, which is faster.
    """
    if not values.ndim or not values.size:
        return render(values)
    if values.dtype.kind not in "iu":
        return aligned(render(values), values.shape[-1])
    columns = values.reshape(-1, values.shape[-1])

    def longest(part: NDArray[Any]) -> int:
        return max(len(str(part.min())), len(str(part.max()))) if part.size else 0

    first, other = longest(columns[:, :1]), longest(columns[:, 1:])
    template = f"%{first}d" + f", %{other}d" * (columns.shape[1] - 1)
    if columns.shape[1] == 1:
        return list(map(template.__mod__, columns.ravel().tolist()))
    return [template % tuple(row) for row in columns.tolist()]


def tensor_text(name: str, desc: TensorDesc, values: NDArray[Any]) -> str:
    """A tensor's header and body, without a line break at the end."""
    return f"{header(name, desc)}\n{body(rows_of(values), desc.sizes)}"
