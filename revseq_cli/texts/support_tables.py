"""The tables of a docs page that say what an operator takes at a feature level, in any language, and where they say it.

A table stands below a heading with DML_FEATURE_LEVEL_x_y. A row is that of a tensor; it has dimension counts, such as
"4 to 5", and data types. Rows are lines with bars, rows of HTML, of reStructuredText, or of a table that lost its bars.
A cell of a translated page may have the translation and the original side by side.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

# Markdown may have a backslash before each underscore.
LEVEL = re.compile(r"DML\\?_FEATURE\\?_LEVEL(?:\\?_[0-9A-Za-z]{1,9}){1,3}", re.IGNORECASE | re.ASCII)
_OPERATOR = re.compile(r"DML_[A-Z0-9_]{1,80}_OPERATOR_DESC")

# Marks in place of markup, each as long as what it stands for: a new block, a cell, a translation's end, a heading.
_BLOCK, _CELL, _BESIDE, _HEADING = "\x1e", "\x1f", "\x1d", "\x1c"
_MARKUP = re.compile(r"<(?P<close>/?)(?P<name>[a-zA-Z][a-zA-Z0-9]*)\b[^<>]{0,1000}>|&(?:#?\w{1,30});|\n", re.ASCII)
_ENDS_ROW = {"tr", "table", "tbody", "thead", "h1", "h2", "h3", "h4", "h5", "h6"}
_BLOCKS = _ENDS_ROW | {"p", "div", "li", "ul", "ol", "dl", "dt", "dd", "pre", "section", "article", "br", "body"}
_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
_LINK_TARGET = re.compile(r"\]\([^()\n]{0,500}\)")

_LABEL = re.compile(r"[A-Za-z]\w*Tensors?\b", re.ASCII)
# A row without bars begins with its label, and ends with its data types.
_BARE_ROW = re.compile(r"[\s>*\"-]*(?P<label>[A-Za-z]\w*Tensors?)\b[\"*]*(?=[\s,])(?![^\S\n]*[:=])", re.ASCII)
_DATA_TYPE = re.compile(r"(?<![A-Za-z0-9_])(?:[A-Za-z]{3,}[0-9]\w*|[A-Z]{4,}\w*)", re.ASCII)
_NUMBER = re.compile(r"\d{1,9}")
_ONLY_TYPES = re.compile(rf"(?:{_DATA_TYPE.pattern}|[\s,\u3001\uff0c;/\"*`.])+", re.ASCII)
_LIST_ROW = re.compile(r"\s*\*\s+-\s")  # of a list-table of reStructuredText
_LIST_CELL = re.compile(r"\s+-\s")
_BAR = re.compile(r"(?<!\\)\|")
_MARKED_HEADING = re.compile(r"[\s>]*#{1,6}\s")
_ORNAMENT = " \t>#*_`=-+|:" + _BLOCK + _CELL + _BESIDE + _HEADING


class Word(NamedTuple):
    """A word of a text, and the place where it begins."""

    text: str
    start: int


@dataclass
class Row:
    """A row of a table: its tensor, and its dimension counts and data types as they stand there.

    A page with translations beside the original says each of the two once for every language.
    """

    label: Word
    dimensions: list[list[Word]]
    types: list[list[Word]]


@dataclass
class Table:
    """A table: the feature levels that its heading names, its rows, and the operator whose section it is in, or ""."""

    levels: list[Word]
    operator: str
    rows: list[Row] = field(default_factory=list)


@dataclass
class Sentence:
    """A line that names feature levels, the line above it, and the operator, as in a Table."""

    levels: list[Word]
    text: str
    above: str
    operator: str


class _Piece(NamedTuple):
    """A part of the marked text, text[start:stop]."""

    text: str
    start: int

    def part(self, start: int, stop: int) -> _Piece:
        return _Piece(self.text[start:stop], self.start + start)

    def split(self, mark: re.Pattern[str]) -> list[_Piece]:
        ends = [0, *(end for match in mark.finditer(self.text) for end in match.span()), len(self.text)]
        return [self.part(a, b) for a, b in zip(ends[::2], ends[1::2], strict=True)]

    def words(self, pattern: re.Pattern[str]) -> list[Word]:
        return [Word(match[0], self.start + match.start()) for match in pattern.finditer(self.text)]


_Cell = list[_Piece]  # of several lines, in tables whose cells have them
_BARE_CELLS = 3  # of a row without bars: label, dimension counts, data types


def read(text: str) -> tuple[list[Table], list[Sentence]]:
    """Every table that has rows, and every line outside of tables that names a feature level."""
    tables: list[Table] = []
    sentences: list[Sentence] = []
    table, operator, above = Table([], ""), "", ""
    for piece, cells in _rows(_marked(text)):
        shown = piece.text.strip(_ORNAMENT + "\n")
        if row := _row(cells):
            if not table.levels and sentences and sentences[-1].text == above:  # it stands right above the table
                table = Table(sentences[-1].levels, operator)
            if not table.rows:
                tables.append(table)
            table.rows.append(row)
        if cells or not shown:
            continue
        is_heading = bool(_MARKED_HEADING.match(piece.text)) or _HEADING in piece.text
        if is_heading and (named := _OPERATOR.findall(shown)):
            operator = named[-1]
        levels = piece.words(LEVEL)
        if levels:
            sentences.append(Sentence(levels, shown, above, operator))
        if levels or is_heading:
            table = Table(levels if is_heading or LEVEL.match(shown) else [], operator)
        above = shown
    return tables, sentences


def _marked(text: str) -> str:
    """The text with marks and blanks for markup: every place is as it was."""
    text = _LINK_TARGET.sub(lambda match: "]" + " " * (len(match[0]) - 1), _without_comments(text))
    text = text.replace("\r\n", " \n").replace("\r", "\n")
    for mark in (_BLOCK, _CELL, _BESIDE, _HEADING):
        text = text.replace(mark, " ")
    parts, end, in_row, last = [], 0, False, ""
    for match in _MARKUP.finditer(text):
        between = text[end : match.start()]
        name = (match["name"] or "").lower()
        tag = f"/{name}" if match["close"] else name
        mark = ""
        if not name:
            mark = (" " if in_row else "\n") if match[0] == "\n" else html.unescape(match[0])[:1]
        elif name in (_ENDS_ROW if in_row else _BLOCKS):
            in_row = tag == "tr"
            mark = _BLOCK + _HEADING if tag in _HEADINGS else _BLOCK
        elif tag in ("td", "th"):
            mark = _CELL
        elif (last, tag) == ("/span", "span") and not between.strip():
            mark = _BESIDE
        parts += [between, mark.ljust(len(match[0]))]
        last = tag or last if match[0] == "\n" else tag
        end = match.end()
    return "".join([*parts, text[end:]])


def _without_comments(text: str) -> str:
    """The text with blanks for comments of HTML."""
    parts, end = [], 0
    while (start := text.find("<!--", end)) >= 0 and (stop := text.find("-->", start)) >= 0:
        parts += [text[end:start], re.sub(r"[^\r\n]", " ", text[start : stop + 3])]
        end = stop + 3
    return "".join([*parts, text[end:]])


def _rows(text: str) -> Iterator[tuple[_Piece, list[_Cell]]]:
    """Every block of the marked text: a line, or a row of a table with its cells."""
    held: tuple[_Piece, list[_Cell]] | None = None  # a row that may go on in the next line
    is_list = False
    for piece in _Piece(text, 0).split(re.compile(f"\n|(?={_BLOCK})")):
        cells = _cells(piece)
        begins = _LIST_ROW.match(piece.text)
        if held and not begins and (_in_list(piece, held[1]) if is_list else _goes_on(piece, cells, held[1])):
            continue
        if held:
            yield held
        is_list = bool(begins)
        if begins:
            cells = [[piece.part(begins.end(), len(piece.text))]]
        held = (piece, cells) if cells else None
        if not held:
            yield piece, []
    if held:
        yield held


def _in_list(piece: _Piece, row: list[_Cell]) -> bool:
    """Add a line to the row of a list-table, as a new cell or to the last one; False for a line behind the row."""
    if begins := _LIST_CELL.match(piece.text):
        row.append([piece.part(begins.end(), len(piece.text))])
        return True
    if piece.text[:1].isspace() and piece.text.strip():
        row[-1].append(piece)
        return True
    return False


def _goes_on(piece: _Piece, cells: list[_Cell], row: list[_Cell]) -> bool:
    """Add a line to the cells of the row above it, if it continues them; False for any other line."""
    if not cells and len(row) == _BARE_CELLS and piece.text[:2].isspace() and _DATA_TYPE.search(piece.text):
        if not _ONLY_TYPES.fullmatch(piece.text):
            return False
        row[-1].append(piece)
        return True
    if len(cells) != len(row) or cells[0][0].text.strip() or not any(cell[0].text.strip() for cell in cells):
        return False
    for cell, more in zip(row, cells, strict=True):
        cell += more
    return True


def _cells(piece: _Piece) -> list[_Cell]:
    """The cells of a line or of a row of HTML; none for other text."""
    for mark in (re.compile(_CELL), _BAR):
        if mark.search(piece.text):
            cells = piece.split(mark)
            cells = cells[not cells[0].text.strip(_ORNAMENT) :] if len(cells) > 1 else cells
            if cells and not cells[-1].text.strip() and len(cells) > 1:
                cells.pop()
            return [[cell] for cell in cells]
    row = _BARE_ROW.match(piece.text)
    types = _DATA_TYPE.search(piece.text, row.end()) if row else None
    if not row or not types or not _ONLY_TYPES.fullmatch(piece.text, types.start()):
        return []
    ends = row.end("label"), types.start(), len(piece.text)
    return [[piece.part(a, b)] for a, b in zip((0, *ends), ends, strict=False)]


def _row(cells: list[_Cell]) -> Row | None:
    """The row of a tensor; None for the line of titles and for tables of other things."""
    label = next((word for piece in cells[0] for word in piece.words(_LABEL)), None) if len(cells) > 1 else None
    if not label:
        return None
    others = cells[1:]
    typed = [i for i, cell in enumerate(others) if any(_DATA_TYPE.search(piece.text) for piece in cell)]
    counted = others[: typed[-1]] if typed else others
    dimensions = next((found for cell in reversed(counted) if (found := _said(cell, _NUMBER))), [])
    return Row(label, dimensions, _said(others[typed[-1]], _DATA_TYPE) if typed else [])


def _said(cell: _Cell, pattern: re.Pattern[str]) -> list[list[Word]]:
    """The words of a cell that the pattern finds, for each language."""
    languages = [piece.split(re.compile(_BESIDE)) for piece in cell]
    most = max(map(len, languages))
    pieces = [[each[i] for each in languages if i < len(each)] for i in range(most)]
    found = [[word for piece in each for word in piece.words(pattern)] for each in pieces]
    if all(
        words or any(_NUMBER.search(piece.text) for piece in each) for words, each in zip(found, pieces, strict=True)
    ):
        return found
    whole = [word for words in found for word in words]  # one language in several spans
    return [whole] if whole else []
