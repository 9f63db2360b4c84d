"""Tables of numbers: lines of cells, as NumPy, pandas, spreadsheets and people write them."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any

from numpy.typing import NDArray

from revseq_cli.core import platform
from revseq_cli.core.errors import FormatError, join_names
from revseq_cli.core.tensors import DataType
from revseq_cli.text import numbers
from revseq_cli.text.notation import error_at, lines_of
from revseq_cli.text.numbers import is_number

_LINE = re.compile(r"^[^\S\n]*[^\s#].*", re.MULTILINE)  # of a table, that is no comment
_NUMBER_START = re.compile(r"[+-]?\.?\d")  # 1.0.0 is a mistake, and no name
_EXCEL_LINE = re.compile(r"\s*sep=(?P<separator>[^\s])\s*", re.IGNORECASE)
_DECIMAL_COMMA = re.compile(r"\d,\d")
_FEWEST_COUNTED = 3  # columns of a first line 0, 1, 2 that is probably a header


class Table:
    """The rows of a text, and the position of the line of each.

    Without a separator, a line may have commas or blanks, and the table has one dimension if it has
    one line or one number a line. With one, a first line without a number is the header. Lines that
    begin with # are comments, as NumPy writes its header. With `column`, the table is only the
    column of that name, and has one dimension.

    FormatError for lines with different numbers of cells, and for tables of other kinds; `file` is
    the table's file, for hints.
    """

    data_type: DataType | None = None  # it states none
    others: tuple[str, ...] = ()  # the columns that were left out

    def __init__(
        self,
        text: str,
        separator: str | None = None,
        column: str | None = None,
        file: str = "",
    ) -> None:
        self.text = lines_of(text)
        self.separator = separator
        self.header: tuple[str, ...] = ()
        lines = [*_LINE.finditer(self.text)]
        self._refuse_other_separators(lines[:1], file)
        self._starts = [line.start() for line in lines]
        self._rows = [split_cells(line[0], separator) for line in lines]
        if separator and self._rows:
            self._take_header(column, file)
        if not self._rows:
            raise FormatError("contains no number", "a table of numbers")
        self._refuse_comments(lines[-len(self._rows) :], file)
        self.width = len(self._rows[0])
        self._require_width()
        self._first_column = 0
        self._has_one_dimension = False
        if column is not None:
            self._take_column(column)
        elif not separator:
            self._has_one_dimension = 1 in (len(self._rows), self.width)

    @property
    def counts_columns(self) -> bool:
        """Whether the first line is 0, 1, 2 and so on, which pandas writes as a header."""
        first = self._rows[0]
        if self.header or not self.separator or len(first) < _FEWEST_COUNTED:
            return False
        return len(self._rows) > 1 and first == [str(i) for i in range(self.width)]

    @property
    def counts_rows(self) -> bool:
        """Whether the first column is 0, 1, 2 and so on, which pandas writes as an index."""
        is_long = len(self._rows) >= _FEWEST_COUNTED
        if not self.separator or self._has_one_dimension or self.width < 2:
            return False
        return is_long and all(row[0] == str(i) for i, row in enumerate(self._rows))

    @property
    def has_index_of_words(self) -> bool:
        """Whether all columns after the first one hold numbers, and the first one does not."""
        if len(self.columns_of_numbers) < 2 or len(self.columns_of_numbers) != self.width - 1:
            return False
        return not all(is_number(row[0]) for row in self._rows)

    def command_without_index(self, file: str) -> str:
        """What to type for the table without its first column; "" if a cell may have a comma."""
        if '"' in self.text:
            return ""
        words = "cut -f2-" if self.separator == "\t" else f"cut -d{self.separator} -f2-"
        return _to_new_file(_command(words, file), file)

    def command_without_header(self, file: str) -> str:
        """What to type for the table without its first line."""
        return _to_new_file(_command("tail -n +2", file), file)

    @property
    def columns_of_numbers(self) -> list[str]:
        """The names of the columns that hold only numbers."""
        columns = zip(*self._rows, strict=True)
        return [
            name
            for name, cells in zip(self.header, columns, strict=False)
            if all(map(is_number, cells))
        ]

    def values(self, data_type: DataType) -> NDArray[Any]:
        """The numbers as an array.

        FormatError, with its position, for one that the type cannot hold.
        """
        cells = [*itertools.chain.from_iterable(self._rows)]
        try:
            values = numbers.parse_numbers(cells, data_type)
        except numbers.LiteralError as e:
            expected = ""
            if not is_number(cells[e.index]):
                expected = "a number in each cell, or nan for a missing one"
            problem = e.problem
            if not cells[e.index]:
                problem = "this cell is empty"
                expected += ', which to_csv("x.csv", na_rep="nan") of pandas writes'
            raise error_at(self.text, self._offset_of(e.index), problem, expected) from None
        return values if self._has_one_dimension else values.reshape(-1, self.width)

    def _offset_of(self, index: int) -> int:
        """Where the cell at that index begins in the text."""
        row, column = divmod(index, self.width)
        column += self._first_column
        start = self._starts[row]
        line = self.text[start:].partition("\n")[0]
        separator = self.separator or ("," if "," in line else "")
        cell = rf" *(?:[^{separator}]*.)" if separator else r"\s*(?:\S+\s+)"
        before = re.compile(rf"{cell}{{{column}}} *").match(self.text, start)
        return before.end() if before else start

    def _take_header(self, column: str | None, file: str) -> None:
        """Take a first line without a number, or with the name of the column, as the header."""
        first = self._rows[0]
        if column is not None and column in first:
            is_header = True
        else:
            is_header = not any(is_number(cell) or _NUMBER_START.match(cell) for cell in first)
            if column is None and not first[0] and any(first):
                found = (
                    "an empty cell at the start of the first line, as pandas writes it "
                    "above the column of its index"
                )
                expected = 'what to_csv("x.csv", index=False) writes'
                command = self.command_without_index(file)
                hint = f"to remove that column, {command}" if command else ""
                raise error_at(self.text, self._starts[0], found, expected, hint)
        if is_header:
            self.header = tuple(first)
            del self._rows[0]
            del self._starts[0]

    def _take_column(self, column: str) -> None:
        """Keep only the column of that name; FormatError if there is none, or more than one."""
        if column not in self.header:
            known = f"one of {join_names(self.header)}" if self.header else "a first line of names"
            raise FormatError(f"has no column {column[:80]!r}", known)
        if self.header.count(column) > 1:
            raise FormatError(f"has {self.header.count(column)} columns {column!r}", "one")
        self._first_column = self.header.index(column)
        self.others = tuple(name for name in self.header if name != column)
        self._rows = [[row[self._first_column]] for row in self._rows]
        self._has_one_dimension = True
        self.header = ()
        self.width = 1

    def _require_width(self) -> None:
        for start, row in zip(self._starts, self._rows, strict=True):
            if len(row) != self.width:
                cells = "1 cell" if len(row) == 1 else f"{len(row)} cells"
                found = f"this line has {cells}, the first line of numbers has {self.width}"
                raise error_at(self.text, start, found)

    def _refuse_other_separators(
        self,
        lines: Sequence[re.Match[str]],
        file: str,
    ) -> None:
        """FormatError for semicolons between cells, and for Excel's line that names a separator."""
        for line in lines:
            excel = _EXCEL_LINE.fullmatch(line[0])
            if excel:
                found = f"the line sep={excel['separator']} of Excel names a separator"
                words = [_command("tail -n +2", file)]
                if excel["separator"] == ";":
                    words.append(_replace_semicolons(self.text))
                expected = "lines of numbers, with commas between the cells"
                raise error_at(
                    self.text,
                    line.start(),
                    found,
                    expected,
                    _choose_hint("remove that line", words, file),
                )
            if ";" in line[0] and '"' not in line[0]:
                found = "semicolons between the cells"
                offset = line.start() + line[0].index(";")
                words = [_command(_replace_semicolons(self.text), file)]
                hint = _choose_hint("put commas there", words, file)
                raise error_at(self.text, offset, found, "commas", hint)

    def _refuse_comments(
        self,
        lines: Sequence[re.Match[str]],
        file: str,
    ) -> None:
        """FormatError for a comment after the numbers of a line."""
        for line in lines:
            before, mark, _ = line[0].partition("#")
            if not mark or '"' in before:
                continue
            cells = split_cells(before.strip(), self.separator)
            if all(map(is_number, filter(None, cells))):
                found = "a comment after the numbers"
                words = [_command("sed 's/ *#.*//'", file)]
                offset = line.start() + len(before)
                expected = "comments on lines of their own"
                hint = _choose_hint("remove comments", words, file)
                raise error_at(self.text, offset, found, expected, hint)


def _replace_semicolons(text: str) -> str:
    """The command that writes commas for semicolons, and points for decimal commas."""
    return "tr ',;' '.,'" if _DECIMAL_COMMA.search(text) else "tr ';' ','"


def _to_new_file(words: str, file: str) -> str:
    return f"{words} > new.csv" if file else f"pipe it through {words}"


def _command(words: str, file: str) -> str:
    return f"{words} < {platform.quote(file)}" if file else words


def _choose_hint(
    aim: str,
    commands: Sequence[str],
    file: str,
) -> str:
    """What to type for a table that can be read."""
    piped = " | ".join(commands)
    return f"to {aim}, {_to_new_file(piped, file)}"


def is_table(text: str) -> bool:
    """Whether half the cells of the first line are numbers, or all of the second."""
    lines = [split_cells(line, _guess_separator(line)) for line in first_lines(text, 2)]
    if not lines:
        return False
    counts = [sum(map(is_number, cells)) for cells in lines]
    return 2 * counts[0] >= len(lines[0]) or counts[-1] == len(lines[-1])


def _guess_separator(line: str) -> str | None:
    return ";" if ";" in line else None


def first_lines(text: str, count: int) -> Iterator[str]:
    """The first lines of a table that are no comments."""
    for line in itertools.islice(_LINE.finditer(lines_of(text)), count):
        yield line[0]


def split_cells(line: str, separator: str | None) -> list[str]:
    """The cells of a line; without a separator, commas or else blanks are between them."""
    if not separator and "," not in line:
        return line.split()
    separator = separator or ","
    if '"' in line:
        [cells] = csv.reader([line], delimiter=separator, skipinitialspace=True)
    else:
        cells = line.split(separator)
    return [cell.strip() for cell in cells]


def write_table(
    values: NDArray[Any],
    header: Sequence[str],
    separator: str,
) -> str:
    """The lines of a table of two dimensions, with a header if there is one."""
    texts = numbers.render_numbers(values)
    width = values.shape[1]
    starts = range(0, len(texts), width)
    lines = [separator.join(texts[start : start + width]) for start in starts]
    if header:
        first = io.StringIO()
        csv.writer(first, delimiter=separator, lineterminator="").writerow(header)
        lines.insert(0, first.getvalue())
    return "\n".join(lines)
