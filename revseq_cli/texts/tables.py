"""Tables of numbers as text: a row a line, with cells between commas, tabs or blanks."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from revseq_cli.ground.errors import FormatError
from revseq_cli.texts import literals
from revseq_cli.texts.places import error_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

_LINE = re.compile(r"^[^\S\n]*[^\s#].*", re.MULTILINE)
_WANTED = "a number in each cell; nan where there is none"


@dataclass(frozen=True)
class Table:
    """The rows of a text: the cells of each, and the place in the text where its line begins.

    With a separator, `header` may have the cells of a first line that are no numbers; without one, a line may have
    commas or blanks. Lines that begin with # are comments, as NumPy writes its header.
    """

    text: str
    separator: str | None
    header: list[str]
    rows: list[list[str]]
    starts: list[int]

    @classmethod
    def of(cls, text: str, separator: str | None = None) -> Table:
        """The table of a text; FormatError where lines differ in the number of their cells, and for other tables."""
        if separator == "," and ";" in text:
            found = "a semicolon, as Excel writes it where the comma is the decimal sign"
            raise error_at(text, text.index(";"), found, "commas between cells, and points in numbers")
        rows, starts = [], []
        for start, line in _lines(text):
            rows.append(_cells(line, separator))
            starts.append(start)
        if separator and rows and not rows[0][0] and any(rows[0]):
            found = "an empty cell at the start of the first line, as pandas writes it above the column of its index"
            raise error_at(text, starts[0], found, 'what to_csv("x.csv", index=False) writes')
        is_named = bool(separator and rows) and not any(map(_is_like_a_number, rows[0]))
        header = rows.pop(0) if is_named else []
        if not rows:
            raise FormatError("holds no number", "a table of numbers")
        starts, width = starts[bool(header) :], len(rows[0])
        for start, row in zip(starts, rows, strict=True):
            if len(row) != width:
                found = f"{len(row)} cell{'s' * (len(row) > 1)}, and the first line of numbers has {width}"
                raise error_at(text, start, found, "lines of one length")
        return cls(text, separator, header, rows, starts)

    @property
    def may_begin_with_names(self) -> bool:
        """Whether the first row may be names that pandas gives to columns: 0, 1, 2 and so on, above fractions."""
        counted = [*map(str, range(len(self.rows[0])))]
        return self.rows[0] == counted and len(self.rows) > 1 and any(set(cell) & set(".eE") for cell in self.rows[1])

    def values(self, dtype: Any, name: str) -> NDArray[Any]:  # noqa: ANN401 - a NumPy dtype
        """The numbers as an array of rank 2; FormatError, with line and column, for one that `dtype` cannot hold."""
        tokens = [*itertools.chain.from_iterable(self.rows)]
        flat = literals.parse_plain(",".join(tokens), dtype, name) if all(tokens) else None
        if flat is None or flat.size != len(tokens):
            try:
                flat = literals.parse(tokens, dtype, name)
            except literals.LiteralError as e:
                raise self._wrong(e) from None
        return flat.reshape(len(self.rows), len(self.rows[0]))

    def _wrong(self, error: literals.LiteralError) -> FormatError:
        """The error about one cell, at its place."""
        row, column = divmod(error.index, len(self.rows[0]))
        cell, start = self.rows[row][column], self.starts[row]
        line = self.text[start:].partition("\n")[0]
        if self.separator or "," in line:
            parts = line.split(self.separator or ",")
            offset = sum(len(part) + 1 for part in parts[:column])
            offset += len(parts[column]) - len(parts[column].lstrip())
        else:
            offset = [match.start() for match in re.finditer(r"\S+", line)][column]
        problem = error.problem if cell else "this cell is empty"
        return error_at(self.text, start + offset, problem, "" if cell and literals.is_number(cell) else _WANTED)


def is_table(text: str) -> bool:
    """Whether the first line of a text is numbers and nothing else."""
    _, line = next(_lines(text), (0, ""))
    cells = _cells(line, None)
    return bool(cells) and all(map(literals.is_number, cells))


def table_text(values: NDArray[Any], separator: str) -> str:
    """An array of rank 2 as text that reads back to the same bits; no line break at the end."""
    texts, width = literals.render(values), values.shape[1]
    return "\n".join(separator.join(texts[start : start + width]) for start in range(0, len(texts), width))


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Each line with content that is no comment, and where it begins."""
    return ((line.start(), line[0]) for line in _LINE.finditer(text))


def _cells(line: str, separator: str | None) -> list[str]:
    if not separator and "," not in line:
        return line.split()
    return [_unquoted(cell.strip()) for cell in line.rstrip("\r").split(separator or ",")]


def _unquoted(cell: str) -> str:
    return cell[1:-1].strip() if len(cell) > 1 and cell[0] == cell[-1] == '"' else cell


def _is_like_a_number(cell: str) -> bool:
    """Whether the cell is a number, or begins as one: 1.0.0 is a mistake, and no name."""
    return literals.is_number(cell) or bool(re.match(r"[+-]?\.?\d", cell))
