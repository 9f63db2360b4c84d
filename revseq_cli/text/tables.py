"""Tables of numbers: lines of cells, as NumPy, pandas, spreadsheets and people write them."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from revseq_cli.core import platform
from revseq_cli.core.errors import FormatError, join_names
from revseq_cli.core.tensors import DataType
from revseq_cli.text import numbers
from revseq_cli.text.numbers import is_number
from revseq_cli.text.positions import error_at, lines_of

_LINE = re.compile(r"^[^\S\n]*[^\s#].*", re.MULTILINE)  # of a table, that is not a comment
_NUMBER_START = re.compile(r"[+-]?\.?\d")  # 1.0.0 is a mistyped number, and no name
_EXCEL_LINE = re.compile(r"\s*sep=(?P<separator>[^\s])\s*", re.IGNORECASE)
_DECIMAL_COMMA = re.compile(r"\d,\d")
_REMOVE_COMMENTS = "sed 's/ *#.*//'"
_FEWEST_COUNTED = 3  # columns of a first line 0, 1, 2 that is probably a header


@dataclass(frozen=True)
class Table:
    """The rows of a text: their cells, and where the line of each begins.

    `header` are the names of columns, if there are any. If the table is only one column of a text,
    `first_column` is the index of that column, and `others` are the names of all others.
    """

    text: str
    separator: str | None
    header: tuple[str, ...]
    rows: list[list[str]]
    starts: list[int]
    has_one_dimension: bool
    first_column: int = 0
    others: tuple[str, ...] = ()

    @property
    def data_type(self) -> DataType | None:
        """None: a table states no data type."""
        return None

    @property
    def width(self) -> int:
        """How many cells a row has."""
        return len(self.rows[0])

    @property
    def counts_columns(self) -> bool:
        """Whether the first line is 0, 1, 2 and so on, which pandas writes as a header."""
        if self.header or not self.separator:
            return False
        if len(self.rows) < 2 or self.width < _FEWEST_COUNTED:
            return False
        return self.rows[0] == [str(i) for i in range(self.width)]

    @property
    def counts_rows(self) -> bool:
        """Whether the first column is 0, 1, 2 and so on, which pandas writes as an index."""
        if not self.separator or self.has_one_dimension:
            return False
        if len(self.rows) < _FEWEST_COUNTED or self.width < 2:
            return False
        return all(row[0] == str(i) for i, row in enumerate(self.rows))

    @property
    def has_index_of_words(self) -> bool:
        """Whether all columns after the first one hold numbers, and the first one does not."""
        count = len(self.columns_of_numbers)
        if count < 2 or count != self.width - 1:
            return False
        return not all(is_number(row[0]) for row in self.rows)

    @property
    def columns_of_numbers(self) -> list[str]:
        """The names of the columns that hold only numbers."""
        columns = zip(self.header, zip(*self.rows, strict=True), strict=False)
        return [name for name, cells in columns if all(map(is_number, cells))]

    def parse_values(self, data_type: DataType) -> NDArray[Any]:
        """The numbers as an array.

        FormatError, with its position, for one that the type cannot hold.
        """
        cells = [*itertools.chain.from_iterable(self.rows)]
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
        return values if self.has_one_dimension else values.reshape(-1, self.width)

    def take_column(self, name: str) -> Table:
        """Only the column of that name; FormatError if there is none, or more than one."""
        if name not in self.header:
            known = f"one of {join_names(self.header)}" if self.header else "a first line of names"
            raise FormatError(f"has no column {name[:80]!r}", known)
        count = self.header.count(name)
        if count > 1:
            raise FormatError(f"has {count} columns {name!r}", "one")
        index = self.header.index(name)
        if index >= self.width:
            cells = _count_cells(self.rows[0])
            found = f"this line has {cells}, the first line has {len(self.header)}"
            raise error_at(self.text, self.starts[0], found)
        return replace(
            self,
            header=(),
            rows=[[row[index]] for row in self.rows],
            has_one_dimension=True,
            first_column=index,
            others=tuple(other for other in self.header if other != name),
        )

    def _offset_of(self, index: int) -> int:
        """Where the cell at that index begins in the text."""
        row, column = divmod(index, self.width)
        column += self.first_column
        start = self.starts[row]
        line = self.text[start:].partition("\n")[0]
        if not self.separator and "," not in line:
            words = re.finditer(r"\S+", line)
            return start + next(itertools.islice(words, column, None)).start()
        mark = re.escape(self.separator or ",")
        # A cell in quotes may have separators.
        cells = re.finditer(rf'(?:^|{mark}) *+((?:"(?:[^"]|"")*+")?[^{mark}]*+)', line)
        return start + next(itertools.islice(cells, column, None)).start(1)


def parse_table(
    text: str, separator: str | None = None, column: str | None = None, file: str = ""
) -> Table:
    """The table of a text, or only its column of that name, which has one dimension.

    Without a separator, a line may have commas or blanks, and the table has one dimension if it has
    one line or one number a line. With one, a first line without a number is the header. Lines that
    begin with # are comments, as NumPy writes its header.

    FormatError for lines with different numbers of cells, and for tables of other kinds; `file` is
    the table's file, for hints.
    """
    text = lines_of(text)
    lines = [*_LINE.finditer(text)]
    if lines:
        _refuse_other_separators(text, lines[0], file)
    rows = [split_cells(line[0], separator) for line in lines]
    header: tuple[str, ...] = ()
    if rows and separator:
        if column is None:
            _refuse_unnamed_index(text, lines[0].start(), rows[0], separator, file)
        if _has_names(rows[0], column):
            header = tuple(rows[0])
            rows = rows[1:]
            lines = lines[1:]
    if not rows:
        raise FormatError("contains no number", "a table of numbers")
    _refuse_comments(text, lines, separator, file)
    starts = [line.start() for line in lines]
    _require_width(text, starts, rows)
    has_one_dimension = not separator and 1 in (len(rows), len(rows[0]))
    table = Table(text, separator, header, rows, starts, has_one_dimension)
    return table if column is None else table.take_column(column)


def _has_names(cells: Sequence[str], column: str | None) -> bool:
    """Whether a first line is a header: it has the name of the column, or no number."""
    if column is not None and column in cells:
        return True
    return not any(is_number(cell) or _NUMBER_START.match(cell) for cell in cells)


def _refuse_unnamed_index(
    text: str, start: int, cells: Sequence[str], separator: str, file: str
) -> None:
    """FormatError for a header without a name for the first column, which then is an index."""
    if cells[0] or not any(cells):
        return
    found = (
        "an empty cell at the start of the first line, as pandas writes it "
        "above the column of its index"
    )
    command = write_cut(text, separator, file)
    hint = f"to remove that column, {command}" if command else ""
    raise error_at(text, start, found, 'what to_csv("x.csv", index=False) writes', hint)


def _require_width(text: str, starts: Sequence[int], rows: Sequence[Sequence[str]]) -> None:
    """FormatError for a line with more or fewer cells than the first one."""
    width = len(rows[0])
    for start, row in zip(starts, rows, strict=True):
        if len(row) != width:
            found = f"this line has {_count_cells(row)}, the first line of numbers has {width}"
            raise error_at(text, start, found)


def _count_cells(row: Sequence[str]) -> str:
    return "1 cell" if len(row) == 1 else f"{len(row)} cells"


def _refuse_other_separators(text: str, line: re.Match[str], file: str) -> None:
    """FormatError for semicolons between cells, and for Excel's line that names a separator."""
    # This command writes commas for semicolons, and points for decimal commas.
    replace_semicolons = "tr ',;' '.,'" if _DECIMAL_COMMA.search(text) else "tr ';' ','"
    excel = _EXCEL_LINE.fullmatch(line[0])
    if excel:
        separator = excel["separator"]
        commands = ["tail -n +2"]
        if separator == ";":
            commands.append(replace_semicolons)
        found = f"the line sep={separator} of Excel names a separator"
        expected = "lines of numbers, with commas between the cells"
        hint = f"to remove that line, {write_filter(file, *commands)}"
        raise error_at(text, line.start(), found, expected, hint)
    if ";" in line[0] and '"' not in line[0]:
        offset = line.start() + line[0].index(";")
        hint = f"to put commas there, {write_filter(file, replace_semicolons)}"
        raise error_at(text, offset, "semicolons between the cells", "commas", hint)


def _refuse_comments(
    text: str, lines: Iterable[re.Match[str]], separator: str | None, file: str
) -> None:
    """FormatError for a comment after the numbers of a line."""
    for line in lines:
        before, mark, _ = line[0].partition("#")
        if not mark or '"' in before:
            continue
        cells = split_cells(before.strip(), separator)
        if all(map(is_number, filter(None, cells))):
            found = "a comment after the numbers"
            hint = f"to remove comments, {write_filter(file, _REMOVE_COMMENTS)}"
            offset = line.start() + len(before)
            raise error_at(text, offset, found, "comments on lines of their own", hint)


def write_cut(text: str, separator: str | None, file: str) -> str:
    """What to type for a table without its first column; "" if a cell may have a comma."""
    if '"' in text:
        return ""
    option = "" if separator == "\t" else f"-d{separator} "
    return write_filter(file, f"cut {option}-f2-")


def write_filter(file: str, *commands: str) -> str:
    """What to type so that a table goes through these commands into a new file."""
    first, *others = commands
    if not file:
        return "pipe it through " + " | ".join(commands)
    return " | ".join([f"{first} < {platform.quote(file)}", *others]) + " > new.csv"


def is_table(text: str) -> bool:
    """Whether half the cells of the first line are numbers, or all of the second."""
    lines = []
    for line in first_lines(text, 2):
        separator = ";" if ";" in line else None
        lines.append(split_cells(line, separator))
    if not lines:
        return False
    counts = [sum(map(is_number, cells)) for cells in lines]
    return 2 * counts[0] >= len(lines[0]) or counts[-1] == len(lines[-1])


def first_lines(text: str, count: int) -> Iterator[str]:
    """The first lines of a table that are not comments."""
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


def write_table(values: NDArray[Any], header: Sequence[str], separator: str) -> str:
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
