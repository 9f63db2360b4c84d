"""Plain numbers as text: nested lists of JSON, and tables with a row a line.

JSON has no word for NaN and infinities: they are strings. When a text is read, bare words are taken, too.
"""

from __future__ import annotations

import csv
import itertools
import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.core.dtypes import require_sizes
from revseq_cli.core.errors import FormatError, listed
from revseq_cli.core.tensors import MOST_DIMENSIONS, DataType
from revseq_cli.text import notation, numbers
from revseq_cli.text.notation import error_at
from revseq_cli.text.numbers import is_number

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from revseq_cli.core.tensors import TensorDesc


_WANTED = "a nested list, or an object of DataType, Sizes and Values"
# Where the values begin: of a text that is a list, and behind their key. A quote inside a string has a \ before it.
_VALUES = re.compile(r'\s*(?=\[)|(?s:.*?)(?<!\\)"Values"\s*:\s*')


def parse(text: str) -> notation.TensorText:
    """The tensor of a JSON text, a nested list or an object; FormatError for what is none.

    The values are read as the bracket notation is, and the rest as JSON.
    """
    if not text or text.isspace():
        raise FormatError("is empty", _WANTED)
    values = _VALUES.match(text)
    tensor = notation.body_at(text, values.end()) if values else None
    if tensor and text.count("[", tensor.opened, tensor.stop) != text.count("]", tensor.opened, tensor.stop):
        _ = tensor.body  # which tells where a bracket is missing
    entries = _rest(text, tensor)
    if tensor and not isinstance(entries, dict):
        return tensor
    if not tensor or set(entries) - {"DataType", "Sizes", "Values"}:
        keys = f" with {listed(entries)}" if isinstance(entries, dict) and entries else ""
        raise FormatError(f"is JSON, but not a tensor{keys}", _WANTED)
    data_type = None if entries.get("DataType") is None else DataType.parse(str(entries["DataType"]))
    sizes = entries.get("Sizes")
    if sizes is not None:
        if not isinstance(sizes, list) or not all(type(size) is int and 0 <= size < 1 << 63 for size in sizes):
            raise FormatError("Sizes is not a list of sizes", "integers of at least 0")
        sizes = tuple(sizes)
        require_sizes(sizes, "")
    return replace(tensor, stated=(data_type, sizes))


def _rest(text: str, tensor: notation.TensorText | None) -> Any:  # noqa: ANN401 - of JSON
    """The JSON of a text, in which 0 stands for the tensor; FormatError for what is none."""
    start, stop = (tensor.opened, tensor.stop) if tensor else (0, 0)
    try:
        return json.loads(f"{text[:start]}0{text[stop:]}" if tensor else text, object_pairs_hook=numbers.unique)
    except json.JSONDecodeError as e:
        at = e.pos + stop - start - 1 if tensor and e.pos > start else e.pos
        raise error_at(text, at, f"is not JSON: {e.msg}") from None
    except RecursionError:
        raise FormatError("is nested too deep", f"at most {MOST_DIMENSIONS} dimensions, and 8 in DirectML") from None
    except FormatError:
        raise
    except ValueError:  # Python refuses an integer of so many digits
        raise FormatError("has a number of thousands of digits", f"at most {numbers.LONGEST}") from None


def tensor_text(desc: TensorDesc, values: NDArray[Any]) -> str:
    """A tensor as a JSON object, with a line for each row; no line break at the end."""
    head = f'{{"DataType": "{desc.data_type.name}", "Sizes": {list(desc.sizes)}, "Values":\n'
    return head + numbers.body(numbers.rows_of(values, _quoted), desc.sizes) + "}"


def _quoted(values: NDArray[Any]) -> list[str]:
    """The texts, with quotes around NaN and infinities."""
    texts = numbers.render(values)
    for i in np.flatnonzero(~np.isfinite(values)).tolist():
        texts[i] = f'"{texts[i]}"'
    return texts


_LINE = re.compile(r"^[^\S\n]*[^\s#].*", re.MULTILINE)


@dataclass(frozen=True)
class Table:
    """The rows of a text: the cells of each, and the place in the text where its line begins.

    Without a separator, a line may have commas or blanks; with one, a first line that has no number is left out. Lines
    that begin with # are comments, as NumPy writes its header. One without a separator has rank 1 where it is one line,
    or one number a line.
    """

    text: str
    separator: str | None
    rows: list[list[str]]
    starts: list[int]

    @classmethod
    def of(cls, text: str, separator: str | None = None) -> Table:
        """The table of a text; FormatError where lines differ in the number of their cells, and for other tables."""
        lines = [*_LINE.finditer(_plain(text))]
        rows, starts = [_cells(line[0], separator) for line in lines], [line.start() for line in lines]
        if separator and rows and not rows[0][0] and any(rows[0]):
            found = "an empty cell at the start of the first line, as pandas writes it above the column of its index"
            raise error_at(text, starts[0], found, 'what to_csv("x.csv", index=False) writes')
        # 1.0.0 is a mistake, and no name.
        if separator and rows and not any(is_number(cell) or re.match(r"[+-]?\.?\d", cell) for cell in rows[0]):
            rows, starts = rows[1:], starts[1:]
        if not rows:
            raise FormatError("contains no number", "a table of numbers")
        width = len(rows[0])
        for start, row in zip(starts, rows, strict=True):
            if len(row) != width:
                found = f"{len(row)} cell{'s' if len(row) > 1 else ''}, and the first line of numbers has {width}"
                raise error_at(text, start, found, "lines of one length")
        return cls(text, separator, rows, starts)

    data_type = None  # it states none

    def values(self, data_type: DataType) -> NDArray[Any]:
        """The numbers as an array; FormatError, with line and column, for one that the type cannot hold."""
        width = len(self.rows[0])
        try:
            values = numbers.parse([*itertools.chain.from_iterable(self.rows)], data_type)
            return values if not self.separator and 1 in (len(self.rows), width) else values.reshape(-1, width)
        except numbers.LiteralError as e:
            row, column = divmod(e.index, width)
            cell, start = self.rows[row][column], self.starts[row]
            line = _plain(self.text[start:]).partition("\n")[0]
            cells = f"[^{self.separator or ','}]*." if self.separator or "," in line else r"\S+\s+"
            before = re.match(rf"\s*(?:{cells}){{{column}}} *", line)
            problem = e.problem if cell else "this cell is empty"
            wanted = "" if is_number(cell) else "a number in each cell, or nan for a missing one"
            raise error_at(self.text, start + (before.end() if before else 0), problem, wanted) from None


def is_table(text: str) -> bool:
    """Whether a text is lines of numbers: half the cells of the first line are, or all of the second."""
    lines = [_cells(line[0], None) for line in itertools.islice(_LINE.finditer(_plain(text)), 2)]
    counts = [sum(map(is_number, cells)) for cells in lines]
    return bool(lines) and (2 * counts[0] >= len(lines[0]) or counts[-1] == len(lines[-1]))


def table_text(values: NDArray[Any], separator: str) -> str:
    """An array of rank 2 as text that reads back to the same bits; no line break at the end."""
    texts, width = numbers.render(values), values.shape[1]
    return "\n".join(separator.join(texts[start : start + width]) for start in range(0, len(texts), width))


def _plain(text: str) -> str:
    """The text with line feeds alone, at the same places."""
    return text.replace("\r\n", " \n").replace("\r", "\n")


def _cells(line: str, separator: str | None) -> list[str]:
    if not separator and "," not in line:
        return line.split()
    cells = line.split(separator or ",")
    if '"' in line:
        [cells] = csv.reader([line], delimiter=separator or ",", skipinitialspace=True)
    return [cell.strip() for cell in cells]
