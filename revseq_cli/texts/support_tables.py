"""The tables of a docs page that say what an operator takes at a feature level, in any language, and where they say it.

A table stands below a heading with DML_FEATURE_LEVEL_x_y. A row is that of a tensor; it has dimension counts, such as
"4 to 5", and data types. Rows are lines with bars, rows of HTML, of reStructuredText, or of a table that lost its bars.
A cell of a translated page may have the translation and the original side by side.
"""

from __future__ import annotations

import html
import itertools
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from revseq_cli.texts.markup import blanks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Markdown may have a backslash before each underscore. A name that lacks an underscore, or has other letters, is wrong.
LEVEL = re.compile(
    r"DML(?:\\?_| )?FEA[A-Z]{2,6}(?:\\?_| )?L[A-Z]{1,5}"
    r"(?:\\?_[0-9A-Za-z]{1,9}|[0-9]{1,9})(?:\\?_[0-9A-Za-z]{1,9}){0,2}",
    re.IGNORECASE | re.ASCII,
)
_OPERATOR = re.compile(r"DML_[A-Z0-9_]{1,80}_OPERATOR_DESC")

_BRACED = re.compile(r"\{\s*(\d{1,9}(?:\s*,\s*\d{1,9}){1,63})\s*\}", re.ASCII)  # sizes, as {2,3,4,5}
_AXIS = re.compile(r"(?<![\w.{,-])\d{1,2}(?![\w}])", re.ASCII)
_STRUCT = re.compile(r"struct\s+(DML_[A-Z0-9_]{1,80}_OPERATOR_DESC)\s*\{([^{}]{0,2000})\}", re.ASCII)
_MEMBER = re.compile(r"\w+(?=\s*;)", re.ASCII)

# Marks in place of markup, each as long as what it stands for: a new block, a cell, a translation's end, a heading.
_BLOCK, _CELL, _BESIDE, _HEADING = "\x1e", "\x1f", "\x1d", "\x1c"
_MARKUP = re.compile(r"<(?P<close>/?)(?P<name>[a-zA-Z][a-zA-Z0-9]*)\b[^<>]{0,1000}>|&(?:#?\w{1,30});|\n", re.ASCII)
_ENDS_ROW = {"tr", "table", "tbody", "thead", "h1", "h2", "h3", "h4", "h5", "h6"}
_BLOCKS = _ENDS_ROW | {"p", "div", "li", "ul", "ol", "dl", "dt", "dd", "pre", "section", "article", "br", "body"}
_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
# Where a sentence ends: a full stop, another block, another language, an empty line.
_SENTENCE_END = re.compile(rf"[.。](?=\s)|[{_BLOCK}{_CELL}{_BESIDE}]|\n[ \t]*\n")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_LINE = re.compile(f"{_BLOCK}[^\n{_BLOCK}]*|[^\n{_BLOCK}]+")
_LINK_TARGET = re.compile(r"\]\([^()\n]{0,500}\)")

_ORNAMENT = " \t\n>#*_`=-+|:" + _BLOCK + _CELL + _BESIDE + _HEADING
_DATA_TYPE = re.compile(r"(?<![A-Za-z0-9_])(?:[A-Za-z]{3,}[0-9]\w*|[A-Z]{4,}\w*)", re.ASCII)
_ONLY_TYPES = re.compile(rf"(?:{_DATA_TYPE.pattern}|[\s,\u3001\uff0c;/\"*`.])+", re.ASCII)
_CELLS = re.compile(rf"{_CELL}|(?<!\\)\|")
_LIST_ROW = re.compile(r"\s*\*\s+-\s")  # of a list-table of reStructuredText
# What stands before the first cell of a row, and where that ends; a row without cells has no : or = behind its label,
# and ends with its data types.
_BEFORE = re.compile(rf"[\s>*\"`{_BLOCK}-]*(?:{_CELLS.pattern})?[^\S\n]*")
_CELL_END = re.compile(rf"{_CELLS.pattern}|\n\s+-\s")
_LABEL = re.compile(r"\b[A-Za-z]\w*Tensors?\b", re.ASCII)
_PHRASE = re.compile(rf"[^{re.escape(_ORNAMENT)}](?:.*[^{re.escape(_ORNAMENT)}])?", re.DOTALL)
_BARE = re.compile(r"[\"*`]*(?=[\s,])(?![^\S\n]*[:=])")
_GOES_ON = re.compile(r"[\s>]*\|[^\S\n]*\|.*\w")  # with an empty first cell
# The words of a row, and what stands between them: the first cell again, the next cell, a translation's end.
_IN_ROW = re.compile(
    rf"(?P<first>\n[\s>]*\|)|(?P<next>{_CELL_END.pattern})|(?P<beside>{_BESIDE})"
    rf"|(?P<kind>\b(?i:in|out)(?i:put)\b)|(?P<type>{_DATA_TYPE.pattern})|\d{{1,9}}",
    re.ASCII,
)
_MARKED_HEADING = re.compile(r"[\s>]*#{1,6}\s")


class Word(NamedTuple):
    """A word of a text, and the place where it begins."""

    text: str
    start: int


@dataclass
class Row:
    """A row of a table: its tensor, its kinds in English, and its dimension counts and data types as they stand there.

    A page with translations beside the original says each of the latter two once for every language. So it does with
    the tensor's name: `names` has each, and `label` is the first that looks like a name.
    """

    label: Word
    names: list[Word]
    kinds: list[Word]
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


class Sizes(NamedTuple):
    """A sentence with two lists of sizes and one other number, and what of each it says."""

    text: str
    first: tuple[int, ...]
    second: tuple[int, ...]
    axis: int
    start: int  # of the second list


def sizes(text: str) -> Iterator[Sizes]:
    """Every sentence, in any language, that may give an example of sizes and an axis."""
    ends = _SENTENCE_END.finditer(text) if _BRACED.search(text) else ()
    start = 0
    for stop in (*(end.start() for end in ends), len(text)):
        sentence = text[start:stop]
        if len(lists := [*_BRACED.finditer(sentence)]) == 2:
            first, second = (tuple(map(int, each[1].split(","))) for each in lists)
            if len(numbers := _AXIS.findall(_BRACED.sub("", sentence))) == 1:
                yield Sizes(sentence, first, second, int(numbers[0]), start + lists[1].start())
        start = stop + 1


def members(text: str, operator: str) -> tuple[int, list[Word]]:
    """Where the struct of an operator begins, and the names of its members; none where the text has no struct of C."""
    found = next((each for each in _STRUCT.finditer(text) if each[1] == operator), None)
    return (found.start(), _words(_MEMBER, text, *found.span(2))) if found else (0, [])


def _words(pattern: re.Pattern[str], text: str, start: int, stop: int) -> list[Word]:
    return [Word(match[0], match.start()) for match in pattern.finditer(text, start, stop)]


def read(text: str) -> tuple[list[Table], list[Sentence]]:
    """Every table that has rows, and every line outside of tables that names a feature level."""
    tables: list[Table] = []
    sentences: list[Sentence] = []
    table, operator, above = Table([], ""), "", ""
    plain = marked(text)
    for start, stop in _blocks(plain):
        block = plain[start:stop]
        shown = block.strip(_ORNAMENT)
        if row := _row(plain, start, stop):
            if not table.levels and sentences and sentences[-1].text == above:  # it stands right above the table
                table = Table(sentences[-1].levels, operator)
            if not table.rows:
                tables.append(table)
            table.rows.append(row)
        elif table.rows and not shown and _CELLS.search(block):  # the line below the titles of another table
            table, above = Table([], operator), ""
        if row or not shown or _CELLS.search(block):
            continue
        is_heading = bool(_MARKED_HEADING.match(block)) or _HEADING in block
        if is_heading and (named := _OPERATOR.findall(shown)):
            operator = named[-1]
        levels = _words(LEVEL, plain, start, stop)
        if levels:
            sentences.append(Sentence(levels, shown, above, operator))
        if levels or is_heading:
            table = Table(levels if is_heading or LEVEL.match(shown) else [], operator)
        above = shown
    return tables, sentences


def marked(text: str) -> str:
    """The text with marks and blanks for markup: every place is as it was."""
    text = _LINK_TARGET.sub(lambda match: "]" + " " * (len(match[0]) - 1), _COMMENT.sub(blanks, text))
    text = text.replace("\r\n", " \n").replace("\r", "\n")
    for mark in (_BLOCK, _CELL, _BESIDE, _HEADING):
        text = text.replace(mark, " ")
    parts, end, in_row, last = [], 0, False, ""
    for match in _MARKUP.finditer(text):
        between = text[end : match.start()]
        between = between.replace("|", " ") if in_row else between
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


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Where each block of the marked text begins and ends: a line, or a row of a table with all of its lines."""
    held = (0, 0)
    for start, stop in (match.span() for match in _LINE.finditer(text)):
        if text.count("\n", held[1], start) < 2 and _goes_on(text[slice(*held)], text[start:stop]):
            held = (held[0], stop)
            continue
        yield held
        held = (start, stop)
    yield held


def _goes_on(row: str, line: str) -> bool:
    """Whether a line belongs to the row above it."""
    if _LIST_ROW.match(row):
        return line[:1].isspace() and bool(line.strip()) and not _LIST_ROW.match(line)
    if _CELLS.search(row):
        return bool(_GOES_ON.match(line) and _row(row, 0, len(row)))
    is_types = line[:2].isspace() and _DATA_TYPE.search(line) and _ONLY_TYPES.fullmatch(line)
    return bool(is_types and _row(row, 0, len(row)))


def _row(text: str, start: int, stop: int) -> Row | None:
    """The row of a tensor; None for any other block, such as the line of titles."""
    before = _BEFORE.match(text, start, stop)
    begins = before.end() if before else start
    cell = _CELL_END.search(text, begins, stop)
    label = _LABEL.search(text, begins, cell.start() if cell else stop)
    if not label:
        return None
    if not cell:
        types = _DATA_TYPE.search(text, label.end(), stop)
        is_bare = label.start() == begins and _BARE.match(text, label.end())
        if not is_bare or not types or not _ONLY_TYPES.fullmatch(text, types.start(), stop):
            return None
    end = cell.start() if cell else label.end()
    cells: dict[int, dict[int, list[Word]]] = {}
    kinds: list[Word] = []
    column = language = 0
    for match in _IN_ROW.finditer(text, end, stop):
        word = Word(match[0], match.start())
        match match.lastgroup:
            case "first" | "next":
                column, language = column + 1 if match["next"] else 0, 0
            case "beside":
                language += 1
            case "kind":
                kinds.append(word)
                continue
        said = cells.setdefault(column, {}).setdefault(language, [])
        if match.lastgroup in (None, "type"):
            said.append(word)
    ordered = [[*cells[each].values()] for each in sorted(cells)]
    return _row_of(Word(label[0], label.start()), _names(text, begins, end), kinds, ordered)


def _names(text: str, start: int, stop: int) -> list[Word]:
    """The name in each language: what looks like one, or all that stands there."""
    names = []
    for half in text[start:stop].split(_BESIDE):
        found = _words(_LABEL, text, start, start + len(half)) or _words(_PHRASE, text, start, start + len(half))
        names += found[:1]
        start += len(half) + 1
    return names


def _row_of(label: Word, names: list[Word], kinds: list[Word], cells: list[list[list[Word]]]) -> Row:
    """The row of these cells, each of which has the numbers and data types of each language.

    The last data types count, and before them the last numbers.
    """
    typed = [i for i, cell in enumerate(cells) for words in cell if not all(map(_is_number, words))]
    last = typed[-1] if typed else 0
    types = _said(cells[last], lambda word: not _is_number(word)) if typed else []
    before = [[*itertools.takewhile(_is_number, words)] for words in cells[last]] if cells else []
    counted = cells[: last if typed else None] or [before]  # a row without cells has all words in one
    dimensions = next((found for cell in reversed(counted) if (found := _said(cell, _is_number))), [])
    return Row(label, names, kinds, dimensions, types)


def _is_number(word: Word) -> bool:
    return word.text.isdecimal()


def _said(languages: list[list[Word]], is_wanted: Callable[[Word], bool]) -> list[list[Word]]:
    """The words that are wanted, for each language; where one stands in several spans, there is one list."""
    found = [[*filter(is_wanted, words)] for words in languages]
    if all(each or any(map(_is_number, words)) for each, words in zip(found, languages, strict=True)):
        return found
    whole = [word for words in found for word in words]
    return [whole] if whole else []
