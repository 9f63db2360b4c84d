"""What a docs page says of feature levels, in tables and sentences of any language, held against DirectML's own.

A table stands below a heading with DML_FEATURE_LEVEL_x_y. A row is that of a tensor; it has dimension counts, such as
"4 to 5", and data types. Rows are lines with bars, rows of HTML, of reStructuredText, or of a table that lost its bars.
A cell of a translated page may have the translation and the original side by side.
"""

from __future__ import annotations

import difflib
import html
import itertools
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from revseq_cli.core.errors import listed
from revseq_cli.core.tensors import DataType, braced
from revseq_cli.operator.spec import DIRECTML, INPUT, LENGTHS, OUTPUT, SUPPORT, FeatureLevel, span, support
from revseq_cli.text.examples import role_of
from revseq_cli.text.markup import as_shown, blanks
from revseq_cli.text.places import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from revseq_cli.operator.spec import Support

# Markdown may have a backslash before each underscore. A name that lacks an underscore, or has other letters, is wrong.
LEVEL = re.compile(
    r"DML(?:\\?_| )?FEA[A-Z]{2,6}(?:\\?_| )?L[A-Z]{1,5}"
    r"(?:\\?_[0-9A-Za-z]{1,9}|[0-9]{1,9})(?:\\?_[0-9A-Za-z]{1,9}){0,2}",
    re.IGNORECASE | re.ASCII,
)
# A level without its prefix: "feature level 3.0" in the languages of Microsoft's pages, and FEATURE_LEVEL_3_0.
_LEVEL_IN_WORDS = re.compile(
    r"(?:(?<!_)feature[\s_-]*level|featureebene|funktionsebene|niveau de fonctionnalités?|nivel de características?"
    r"|nível de recursos?|livello (?:di )?(?:funzionalità|funzione)|poziomu? funkcji|уровн\w+ (?:функци|возможност)\w+"
    r"|기능 ?수준|功能(?:層級|等級|级别|等级|層次)|機能レベル)"
    r"[^\w\n.]{0,10}_?(?P<major>\d)[._](?P<minor>\d)(?![.\w]*\d)",
    re.IGNORECASE,
)
_OPERATOR = re.compile(r"DML_[A-Z0-9_]{1,80}_OPERATOR_DESC")

_BRACED = re.compile(r"\{\s*(\d{1,9}(?:\s*,\s*\d{1,9}){1,63})\s*\}", re.ASCII)  # sizes, as {2,3,4,5}
_AXIS = re.compile(r"(?<![\w.{,-])\d{1,2}(?![\w}])", re.ASCII)
_STRUCT = re.compile(r"struct\s+(DML_[A-Z0-9_]{1,80}_OPERATOR_DESC)\s*\{([^{}]{0,2000})\}", re.ASCII)
_MEMBER = re.compile(r"(?P<type>[^;{}]*?)(?P<name>\w+)\s*;", re.ASCII)
_ANNOTATION = re.compile(r"\b_[A-Z][a-z]\w*_(?:\([^()]*\))?|//[^\n]*|^[ \t]*>[> \t]*", re.ASCII | re.MULTILINE)
# In the section of members: "Type: UINT" in any language, below the name.
_TYPE_LINE = re.compile(
    r"\w+ ?[:\uff1a]\s*(?P<type>(?:const )?(?:[A-Z][A-Z0-9_]+|int|unsigned(?: int)?|u?int\d+_t|size_t)(?: const)?)"
)
_TENSOR_TYPE = re.compile(r"const DML_TENSOR_DESC ?\*|DML_TENSOR_DESC const ?\*")

# Marks in place of markup, each as long as what it stands for: a new block, a cell, a translation's end, a heading.
_BLOCK, _CELL, _BESIDE, _HEADING = "\x1e", "\x1f", "\x1d", "\x1c"
_MARKUP = re.compile(r"<(?P<close>/?)(?P<name>[a-zA-Z][a-zA-Z0-9]*)\b[^<>]{0,1000}>|&(?:#?\w{1,30});|\n", re.ASCII)
_ENDS_ROW = {"tr", "table", "tbody", "thead", "h1", "h2", "h3", "h4", "h5", "h6"}
_BLOCKS = _ENDS_ROW | {"p", "div", "li", "ul", "ol", "dl", "dt", "dd", "pre", "section", "article", "br", "body"}
_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
# Where a sentence ends: a full stop, another block, another language, an empty line.
_SENTENCE_END = re.compile(rf"[.。](?=\s)|[{_BLOCK}{_CELL}{_BESIDE}]|\n[ \t]*\n")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
# A name whose parts stand on lines of their own in a cell.
_TORN_NAME = re.compile(r"\b[A-Za-z]+[a-z](?:<(?i:br) ?/?>[A-Z][a-z]+)+\b", re.ASCII)
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
# What stands between the parts of a row: the first cell again, the next cell, a translation's end.
_BETWEEN = re.compile(rf"(?P<first>\n[\s>]*\|)|(?P<next>{_CELL_END.pattern})|(?P<beside>{_BESIDE})")
# What a row says of its kind, in the languages of Microsoft's pages.
_KINDS = {
    "Input": "input|eingabe|eingang|entrée|entrada|ingresso|wejście|вход|girdi|giriş|vstup|indata|입력|輸入|输入|入力",
    "Output": (
        "output|ausgabe|ausgang|sortie|salida|saída|uscita|wyjście|выход|çıktı|çıkış|výstup|utdata|출력|輸出|输出|出力"  # noqa: RUF001 - Turkish
    ),
}
_KIND = re.compile("|".join(rf"(?<!\w)(?P<{kind}>{words})(?!\w)" for kind, words in _KINDS.items()), re.IGNORECASE)
# How dimension counts are said: "4", "1 to 8" in the languages of Microsoft's pages, or each count.
_FROM = "from|between|da|dal|de|del|von|vom|zwischen|entre|tra|fra|od|от|с|从|從|自"  # noqa: RUF001 - Russian
_TO = (
    r"to|through|thru|bis|a|al|à|hasta|até|fino a|tot|till?|do|až|до|по|ile|đến|hingga|sampai|până la|έως|ως|ถึง|إلى|עד"
    r"|到|至|から|에서|부터|[\u2010-\u2015\u2212~\u301c\uff5e\u2026]|-{1,3}|\.{2,3}"
)
_BETWEEN_WORDS = ("between", "zwischen", "entre", "tra", "fra")
_AND = "and|und|et|e|y|и|和|與|与"
_UNIT = (
    r"(?:inclusive|only|dimensions?|dimensioni|dimensionen|dimensiones|dimensões|измерени\w"
    r"|개|個|个|维|維|차원|次元|까지|まで)"
)
_COUNTS = re.compile(
    rf"(?:(?P<from>{_FROM})\s*)?(?P<first>[0-9]{{1,9}})\s*{_UNIT}?(?:\s*(?:(?:{_TO})|(?P<and>{_AND}))\s*(?P<last>[0-9]{{1,9}}))?"
    rf"[\s(]*{_UNIT}?",
    re.IGNORECASE,
)
_EACH = re.compile(
    rf"[0-9]{{1,9}}(?:\s*(?:[,;/&\u3001\uff0c]+\s*(?:(?:{_AND}|or)\s)?|{_AND}|or|oder|o|ou|или|或|또는|および|または)\s*[0-9]{{1,9}})+",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d{1,9}")
_FROM_NUMBER = re.compile(rf"(?:(?<!\w)(?:{_FROM})\s*)?\d", re.IGNORECASE)
_NOTE = re.compile(r"(?<=\S)\s*\[[^\[\]\n]{1,40}\]_?|[\u2070-\u2079\u00b9\u00b2\u00b3\u2020\u2021\u00a7*`_\"\\]")
_MARKED_HEADING = re.compile(r"[\s>]*#{1,6}\s")
_OURS = "DML_REVERSE_SUBSEQUENCES_OPERATOR_DESC"
# Where the head of a page names the operator that it is about: title and UID of Microsoft's pages, and HTML's title.
_ABOUT = re.compile(
    r"(?:^(?:title|uid)[ \t]*:|<title>)[^\n<]{0,300}?\b(DML_\w{1,80}_OPERATOR_DESC)",
    re.IGNORECASE | re.MULTILINE | re.ASCII,
)
_HEAD = 8192  # characters
_MOST_COUNTS = 100  # of a phrase
_ROLES = (INPUT, LENGTHS, OUTPUT)
_LEVELS = {str(level): level for level in DIRECTML}
_CHANGES = {row.since: row for row in SUPPORT if row.since is not FeatureLevel.NONE}
# The title above the sentence that says from which level on an operator is there, and the verb of that sentence: in
# English, and as Microsoft's own pages translate it, into Italian, Korean and Chinese.
_AVAILABILITY = re.compile(r"availab|disponib|가용성|可用", re.IGNORECASE)
_INTRODUCED = re.compile(r"introdu|introdott|도입|引進|引入", re.IGNORECASE)


class Word(NamedTuple):
    """A word of a text, and the place where it begins."""

    text: str
    start: int


class Phrase(NamedTuple):
    """What a row says of its dimension counts in one language, and the numbers in it."""

    text: str
    start: int
    numbers: list[Word]

    @property
    def counts(self) -> list[int] | None:
        """The counts that it names; None for a phrase that is not known, or goes downwards."""
        said = _NOTE.sub("", self.text).strip(" \t\n,.:;()[]")
        if match := _COUNTS.fullmatch(said):
            first, last = int(match["first"]), int(match["last"] or match["first"])
            is_known = not match["and"] or (match["from"] or "").lower() in _BETWEEN_WORDS
            if is_known and (match["last"] or not match["from"]) and first <= last <= first + _MOST_COUNTS:
                return [*range(first, last + 1)]
        return sorted({int(each) for each in _NUMBER.findall(said)}) if _EACH.fullmatch(said) else None


@dataclass
class Row:
    """A row of a table: its tensor, its kinds in English, and its dimension counts and data types as they stand there.

    A page with translations beside the original says each of the latter two once for every language. So it does with
    the tensor's name: `names` has each, and `label` is the first that looks like a name.
    """

    label: Word
    names: list[Word]
    kinds: list[Word]
    dimensions: list[Phrase]
    types: list[list[Word]]


@dataclass
class Table:
    """A table: the feature levels that its heading names, its rows, and the operator whose section it is in, or ""."""

    levels: list[Word]
    operator: str
    rows: list[Row] = field(default_factory=list)


@dataclass
class Sentence:
    """A line that names feature levels, the line above it, and the operator, as in a Table.

    `first` has the first level, and that of the original beside a translation.
    """

    levels: list[Word]
    first: list[Word]
    text: str
    above: str
    operator: str


def _words(pattern: re.Pattern[str], text: str, start: int, stop: int) -> list[Word]:
    return [Word(match[0], match.start()) for match in pattern.finditer(text, start, stop)]


def read(text: str) -> tuple[list[Table], list[Sentence]]:
    """Every table that has rows, and every line outside of tables that names a feature level."""
    page = _Page(marked(text))
    for start, stop in _blocks(page.text):
        page.add(start, stop)
    return page.tables, page.sentences


@dataclass
class _Page:
    """What was read of a marked text: `above` is the last line that is no row, and `table` takes the next row."""

    text: str
    tables: list[Table] = field(default_factory=list)
    sentences: list[Sentence] = field(default_factory=list)
    table: Table = field(default_factory=lambda: Table([], ""))
    operator: str = ""
    above: str = ""

    def add(self, start: int, stop: int) -> None:
        """Read the next block."""
        block = self.text[start:stop]
        shown, has_cells = block.strip(_ORNAMENT), _CELLS.search(block)
        if row := _row(self.text, start, stop):
            self._add_row(row)
        elif shown and not has_cells:
            self._add_line(block, shown, start, stop)
        elif self.table.rows and not shown and has_cells:  # the line below the titles of another table
            self.table, self.above = Table([], self.operator), ""

    def _add_row(self, row: Row) -> None:
        last = self.sentences[-1] if self.sentences else None
        if last and not self.table.levels and last.text == self.above:  # it stands right above the table
            self.table = Table(last.levels, self.operator)
        if not self.table.rows:
            self.tables.append(self.table)
        self.table.rows.append(row)

    def _add_line(self, block: str, shown: str, start: int, stop: int) -> None:
        is_heading = bool(_MARKED_HEADING.match(block)) or _HEADING in block
        if is_heading and (named := _OPERATOR.findall(shown)):
            self.operator = named[-1]
        levels = [*_words(LEVEL, self.text, start, stop), *_in_words(self.text, start, stop, self.above)]
        levels.sort(key=lambda word: word.start)
        if levels:
            stated = [levels[0], *(word for word in _beside(levels, block, start, stop) if word != levels[0])]
            self.sentences.append(Sentence(levels, stated, shown, self.above, self.operator))
        if is_heading or LEVEL.search(block):
            names_levels = is_heading or LEVEL.match(shown)
            self.table = Table(levels if names_levels else [], self.operator)
        self.above = shown


def _in_words(text: str, start: int, stop: int, above: str) -> list[Word]:
    """The levels in words, in the sentence that says from which one on the operator is there."""
    if not (_INTRODUCED.search(text, start, stop) or _AVAILABILITY.search(above)):
        return []
    found = _LEVEL_IN_WORDS.finditer(text, start, stop)
    return [Word(f"DML_FEATURE_LEVEL_{each['major']}_{each['minor']}", each.start()) for each in found]


def _beside(levels: Sequence[Word], block: str, start: int, stop: int) -> list[Word]:
    """The first level in the original that stands beside a translation, if the block has one."""
    halves = [start + match.end() for match in re.finditer(_BESIDE, block)][:2]
    return [word for word in levels if halves and halves[0] <= word.start < (*halves[1:], stop)[0]][:1]


def marked(text: str) -> str:
    """The text with marks and blanks for markup: every place is as it was."""
    text = as_shown(_COMMENT.sub(blanks, text))
    text = _LINK_TARGET.sub(lambda match: "]" + " " * (len(match[0]) - 1), text)
    text = _TORN_NAME.sub(lambda match: re.sub("<[^<>]*>", "", match[0]).ljust(len(match[0])), text)
    text = text.replace("\r\n", " \n").replace("\r", "\n")
    for mark in (_BLOCK, _CELL, _BESIDE, _HEADING):
        text = text.replace(mark, " ")
    parts, end, in_row, has_bars, last = [], 0, False, False, ""
    for match in _MARKUP.finditer(text):
        between = text[end : match.start()]
        between = between.replace("|", " ") if in_row else between
        has_bars = match[0] != "\n" and (has_bars or "|" in between)
        name = (match["name"] or "").lower()
        tag = f"/{name}" if match["close"] else name
        mark = ""
        if not name:
            mark = _unnamed_mark(match[0], in_row=in_row)
        elif name == "br" and has_bars:  # in a cell of a table in Markdown
            mark = ""
        elif name in (_ENDS_ROW if in_row else _BLOCKS):
            in_row = tag == "tr"
            mark = _BLOCK + _HEADING if tag in _HEADINGS else _BLOCK
        elif tag in ("td", "th"):
            mark = _CELL
        elif (last, tag) == ("/span", "span") and not between.strip() and "sxs-lookup" in match[0]:
            mark = _BESIDE
        parts += [between, mark.ljust(len(match[0]))]
        last = tag or last if match[0] == "\n" else tag
        end = match.end()
    return "".join([*parts, text[end:]])


def _unnamed_mark(found: str, *, in_row: bool) -> str:
    """What stands for the end of a line, or for a character reference."""
    if found == "\n":
        return " " if in_row else "\n"
    return html.unescape(found)[:1]


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
    if not cell and not _lists_types(text, begins, label, stop):
        return None
    end = cell.start() if cell else label.end()
    names = _names(text, begins, end)
    return _row_of(Word(label[0], label.start()), names, _cells(text, end, stop))


def _lists_types(text: str, begins: int, label: re.Match[str], stop: int) -> bool:
    """Whether a row without cells has its label first, no other label, and data types up to its end."""
    types = _DATA_TYPE.search(text, label.end(), stop)
    is_bare = label.start() == begins and _BARE.match(text, label.end())
    if not is_bare or not types or not _ONLY_TYPES.fullmatch(text, types.start(), stop):
        return False
    return not _LABEL.search(text, label.end(), types.start())  # as in what a command prints of two tensors


def _cells(text: str, end: int, stop: int) -> list[list[list[Word]]]:
    """For each column behind the names, the parts of its cells in each language."""
    cells: dict[int, dict[int, list[Word]]] = {}
    column = language = 0
    for match in (*_BETWEEN.finditer(text, end, stop), None):
        part = Word(text[end : match.start() if match else stop], end)
        if part.text.strip():
            cells.setdefault(column, {}).setdefault(language, []).append(part)
        if not match:
            break
        end = match.end()
        if match["beside"]:
            language += 1
        else:
            column, language = column + 1 if match["next"] else 0, 0
    return [[*cells[each].values()] for each in sorted(cells)]


def _names(text: str, start: int, stop: int) -> list[Word]:
    """The name in each language: what looks like one, or all that stands there."""
    names = []
    for half in text[start:stop].split(_BESIDE):
        found = _words(_LABEL, text, start, start + len(half)) or _words(_PHRASE, text, start, start + len(half))
        names += found[:1]
        start += len(half) + 1
    return names


def _row_of(label: Word, names: list[Word], cells: list[list[list[Word]]]) -> Row:
    """The row of these cells, each of which has the parts of its text for each language.

    The last cell with data types counts, and before it the last one with numbers; in a row without cells, all stands in
    one.
    """
    typed = [i for i, cell in enumerate(cells) for parts in cell if _found(_DATA_TYPE, parts)]
    if not typed:
        before, types = cells, []
    else:
        before, types = cells[: typed[-1]], [_found(_DATA_TYPE, parts) for parts in cells[typed[-1]]]
    if typed and not before:
        before = [[_until(parts, types[0][0].start) if types[0] else parts for parts in cells[0]]]
    counted = next((cell for cell in reversed(before) if any(_found(_NUMBER, parts) for parts in cell)), [])
    kinds = [kind for cell in before for parts in cell for kind in _found(_KIND, parts)]
    return Row(label, names, kinds, [_phrase(parts) for parts in counted], types)


def _found(pattern: re.Pattern[str], parts: Iterable[Word]) -> list[Word]:
    """Each place where these parts of a text have what is sought."""
    return [Word(match[0], part.start + match.start()) for part in parts for match in pattern.finditer(part.text)]


def _until(parts: Iterable[Word], stop: int) -> list[Word]:
    return [Word(part.text[: max(0, stop - part.start)], part.start) for part in parts]


def _phrase(parts: Sequence[Word]) -> Phrase:
    """What these parts say of dimension counts: all of a cell, but for its kind; or from the first number on."""
    said = " ".join(part.text for part in parts)
    if _KIND.search(said) and (number := _FROM_NUMBER.search(said)):
        said = said[number.start() :]
    numbers = _found(_NUMBER, parts)
    start = numbers[0].start if numbers else parts[0].start + len(parts[0].text) - len(parts[0].text.lstrip())
    return Phrase(" ".join(said.split()), start, numbers)


class Checked(NamedTuple):
    """How many tables and sentences about the operator's levels a page has, and the findings there in their order."""

    tables: int = 0
    sentences: int = 0
    findings: tuple[Finding, ...] = ()


NOTHING = Checked()  # of a text that does not speak of levels


def other_operator(text: str) -> str:
    """The operator that the head of a page names, if it is another one; else ""."""
    named = [match[1].upper() for match in _ABOUT.finditer(text, 0, _HEAD)]
    return named[0] if named and _OURS not in named else ""


def check(text: str, *, has_examples: bool) -> Checked:
    """Check all that a page says of the operator's levels; `has_examples` says that the page is about this operator.

    On a page of another operator nothing is checked.
    """
    tables, sentences = read(text)
    is_sure = any(map(_is_surely_ours, tables))
    is_ours = has_examples or is_sure
    ours = [table for table in tables if _is_ours(table, page_is_ours=is_ours, has_others=is_sure)]
    about = [each for each in sentences if is_ours and each.operator in ("", _OURS)]
    titled = [each for each in about if _AVAILABILITY.search(each.above)]
    told = (titled or [each for each in about if _INTRODUCED.search(each.text)])[:1]
    findings = [*_missing_tables(ours), *(each for said in told for each in _sentence(said))]
    if is_ours:
        plain = marked(text)
        findings += [*_sizes(plain), *_members(plain), *_stated_types(plain)]
    seen: set[FeatureLevel] = set()
    for table in ours:
        findings += _table(table, seen)
    return Checked(len(ours), len(told), tuple(sorted(findings)))


def _is_surely_ours(table: Table) -> bool:
    roles = [role_of(row.label.text)[0] for row in table.rows]
    return LENGTHS in roles and None not in roles


def _is_ours(table: Table, *, page_is_ours: bool, has_others: bool) -> bool:
    """Whether a table is this operator's: others have tensors of other names, and more than one of them.

    Beside other tables of the operator, one row of three may be another tensor's, which is wrong.
    """
    roles = [role_of(row.label.text)[0] for row in table.rows]
    enough = {INPUT, LENGTHS} <= {*roles} or (has_others and len(roles) == len(_ROLES))
    known = None not in roles or (roles.count(None) == 1 and enough)
    return _is_surely_ours(table) or (known and page_is_ours and table.operator in ("", _OURS))


def _sentence(sentence: Sentence) -> Iterator[Finding]:
    """The findings on the sentence's first level, and on that of the original beside a translation.

    Those behind it are about data types, or other operators.
    """
    since = SUPPORT[0].since
    for word in sentence.first:
        if _level(word) is not since:
            said = _shown(word).removeprefix("DML_FEATURE_LEVEL_")
            yield Finding(word.start, f"the page says introduced in {said}; it was {since.short}")


def _sizes(text: str) -> Iterator[Finding]:
    """The findings on sentences, in any language, that give sizes of the input, an axis, and sizes of the lengths."""
    ends = _SENTENCE_END.finditer(text) if _BRACED.search(text) else ()
    start = 0
    for stop in (*(end.start() for end in ends), len(text)):
        sentence, begins, start = text[start:stop], start, stop + 1
        lists, numbers = [*_BRACED.finditer(sentence)], _AXIS.findall(_BRACED.sub("", sentence))
        if (
            len(lists) != 2
            or len(numbers) != 1
            or not (INPUT in sentence and LENGTHS in sentence)
            or OUTPUT in sentence
        ):
            continue
        first, second = (tuple(map(int, each[1].split(","))) for each in lists)
        axis = int(numbers[0])
        if second != _of_lengths(first, axis) and first != _of_lengths(second, axis):
            wanted = _of_lengths(first, axis)
            shown = braced(wanted) if wanted else f"an axis below {len(first)}"
            found = f"lengths for {braced(first)} along axis {axis} have the sizes {braced(second)}"
            yield Finding(begins + lists[1].start(), found, shown, rule="statement")


def _of_lengths(sizes: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """The sizes of the lengths; none where the axis is none."""
    return (*sizes[:axis], 1, *sizes[axis + 1 :]) if axis < len(sizes) else ()


def _members(text: str) -> Iterator[Finding]:
    """The findings on the struct of C: its first member that is not the operator's, and the types of members.

    None where there is no struct.
    """
    wanted = [*_ROLES, "Axis"]
    struct = next((each for each in _STRUCT.finditer(text) if each[1] == _OURS), None)
    members = [*_MEMBER.finditer(text, *struct.span(2))] if struct else []
    stated = [each["name"] for each in members]
    if struct and stated and stated != wanted:
        i = next(i for i, (a, b) in enumerate(itertools.zip_longest(stated, wanted)) if a != b)
        there = wanted[i] if i < len(wanted) else "no more"
        if i == len(stated):
            place, found, right = struct.start(), f"struct member {i + 1} ({there}) is missing", "all of "
        else:
            place, found = members[i].start("name"), f"struct member {i + 1} is {stated[i]}"
            right = f"{there}; the struct has "
        yield Finding(place, found, right + listed(wanted), rule="statement")
    for member in members:
        type_ = " ".join(_ANNOTATION.sub(" ", member["type"]).split())
        is_axis = member["name"] == "Axis"
        is_right = type_ == "UINT" if is_axis else _TENSOR_TYPE.fullmatch(type_)
        if member["name"] in wanted and not is_right:
            right = "UINT" if is_axis else "const DML_TENSOR_DESC*"
            yield Finding(
                member.start("name"), f"the type of {member['name']} is {type_[:60]}", right, rule="statement"
            )


def _stated_types(text: str) -> Iterator[Finding]:
    """The findings on the section of members, where each has its name on a line, and its type on the next one."""
    name = ""
    for start, stop in _blocks(text):
        halves = [*re.finditer(f"[^{_BESIDE}]+", text[start:stop])]
        plain = [" ".join(re.sub(r"[\\*`\[\]]", " ", half[0]).split()) for half in halves]
        right = "UINT" if name == "Axis" else "const DML_TENSOR_DESC"
        for half, said in zip(halves, plain, strict=True):
            match = _TYPE_LINE.fullmatch(said)
            if name and match and match["type"] not in (right, " ".join(reversed(right.split()))):
                place = text.find(match["type"].split()[0], start + half.start())
                shown = right + "*" * (name != "Axis")
                yield Finding(place, f"the type of {name} is {match['type'][:60]}", shown, rule="statement")
        if any(plain):
            label = plain[0].strip(_ORNAMENT).removeprefix("field ")
            name = label if label in (*_ROLES, "Axis") else ""


def _missing_tables(tables: Sequence[Table]) -> Iterator[Finding]:
    """A note for each level that changes the operator and has no table, at the first table."""
    present = {_level(table.levels[0]) for table in tables if table.levels}
    if not present:
        return
    place = _start(tables[0])
    for level in _CHANGES:
        if level not in present:
            found = f"there is no table for {level}, which changes what the operator accepts"
            yield Finding(place, found, is_note=True)


def _table(table: Table, seen: set[FeatureLevel]) -> Iterator[Finding]:
    """The findings on a table; `seen` has the levels of those before it."""
    start = _start(table)
    if not table.levels:
        yield Finding(start, "a table without a feature level above it", "DML_FEATURE_LEVEL_x_y", is_note=not seen)
        return
    first, level = table.levels[0], _level(table.levels[0])
    for word in table.levels:
        if _shown(word) != _shown(first):
            yield Finding(word.start, f"the heading says {_shown(word)}, and {_shown(first)}", "one feature level")
    if level in seen:
        yield Finding(start, f"a second table for {level}", "one")
    if level not in _CHANGES:
        why = "is not a feature level" if level is None else "changes nothing for this operator"
        yield Finding(start, f"{level or _shown(first)} {why}", f"one of {listed(map(str, _CHANGES))}")
    if level is not None and (row := support(level)):
        seen.add(level)
        yield from _rows(table, row, str(level))


def _rows(table: Table, wanted: Support, level: str) -> Iterator[Finding]:
    """The findings on the rows of a table for that level."""
    present: set[str] = set()
    for row in table.rows:
        role, _ = role_of(row.label.text)
        if role is None:
            yield Finding(row.label.start, f"a row {row.label.text} for {level}", listed(_ROLES))
            continue
        named = [name for name in row.names if role_of(name.text) != (role, True)]
        yield from (Finding(name.start, f"the row is named {name.text[:40]}", role) for name in named)
        if role in present:
            yield Finding(row.label.start, f"a second row {row.label.text} for {level}", "one")
        present.add(role)
        kind = "Output" if role == OUTPUT else "Input"
        wrong = [word for word in row.kinds if not re.fullmatch(_KINDS[kind], word.text, re.IGNORECASE)]
        yield from (Finding(word.start, f"{role} at {level}: the kind {word.text}", kind) for word in wrong)
        yield from _dimensions(row, wanted.dimension_counts, f"{role} at {level}")
        yield from _types(row, wanted.data_types(role), f"{role} at {level}")
    for role in _ROLES:
        if role not in present:
            yield Finding(_start(table), f"no row {role} for {level}", listed(_ROLES))


def _dimensions(row: Row, counts: range, where: str) -> Iterator[Finding]:
    if not row.dimensions:
        yield Finding(row.label.start, f"{where}: no dimension count", span(counts))
    for phrase in row.dimensions:
        said = phrase.counts
        if said is None:
            yield Finding(phrase.start, f"{where}: cannot read the dimension count {phrase.text[:40]}", span(counts))
        elif said != [*counts]:
            shown = span(range(said[0], said[-1] + 1)) if said == [*range(said[0], said[-1] + 1)] else phrase.text[:40]
            ends = (counts[0], counts[-1])
            wrong = next((word for word in phrase.numbers if int(word.text) not in ends), phrase.numbers[-1])
            yield Finding(wrong.start, f"{where}: dimension count {shown}", span(counts))


def _types(row: Row, wanted: Iterable[DataType], where: str) -> Iterator[Finding]:
    names = [each.name for each in wanted]
    if not all(row.types) or not row.types:
        yield Finding(row.label.start, f"{where}: no data type", ", ".join(names))
    for words in filter(None, row.types):
        stated = [word.text.upper() for word in words]
        missing = [name for name in names if name not in stated]
        for i, word in enumerate(words):
            if stated[i] in names:
                if stated[i] in stated[:i]:
                    yield Finding(word.start, f"{where}: {word.text} twice", "once")
                elif word.text != stated[i]:
                    yield Finding(word.start, f"{where}: {word.text}", f"{stated[i]}, in capitals", is_note=True)
            elif stated[i] in DataType.__members__:
                yield Finding(word.start, f"{where}: extra data type {word.text}", ", ".join(names))
            else:
                near = difflib.get_close_matches(stated[i], missing, 1, 0.6)
                missing = [name for name in missing if name not in near]
                right = near[0] if near else ", ".join(names)
                yield Finding(word.start, f"{where}: {word.text} is not a data type", right)
        if missing:
            plural = "s" * (len(missing) > 1)
            yield Finding(words[0].start, f"{where}: missing data type{plural} {', '.join(missing)}", ", ".join(names))


def _start(table: Table) -> int:
    return table.levels[0].start if table.levels else table.rows[0].label.start


def _shown(word: Word) -> str:
    return word.text.replace("\\", "").upper()


def _level(word: Word) -> FeatureLevel | None:
    return _LEVELS.get(_shown(word))
