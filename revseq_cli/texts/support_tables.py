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

from revseq_cli.ground.errors import listed
from revseq_cli.ground.tensors import DataType, braced
from revseq_cli.operator.spec import DIRECTML, INPUT, LENGTHS, OUTPUT, SUPPORT, FeatureLevel, span, support
from revseq_cli.texts.examples import role_of
from revseq_cli.texts.markup import blanks
from revseq_cli.texts.places import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from revseq_cli.operator.spec import Support

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
_OURS = "DML_REVERSE_SUBSEQUENCES_OPERATOR_DESC"
# Where the head of a page names the operator that it is about: title and UID of Microsoft's pages, and HTML's title.
_ABOUT = re.compile(
    r"(?:^(?:title|uid)[ \t]*:|<title>)[^\n<]{0,300}?\b(DML_\w{1,80}_OPERATOR_DESC)",
    re.IGNORECASE | re.MULTILINE | re.ASCII,
)
_HEAD = 8192  # characters
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
        findings += [*_sizes(plain), *_members(plain)]
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
    """The finding on the sentence's first level; those behind it are about data types, or other operators."""
    since, word = SUPPORT[0].since, sentence.levels[0]
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
    """The finding on the first member of the struct of C that is not the operator's; none where there is no struct."""
    wanted = [*_ROLES, "Axis"]
    struct = next((each for each in _STRUCT.finditer(text) if each[1] == _OURS), None)
    members = _words(_MEMBER, text, *struct.span(2)) if struct else []
    stated = [each.text for each in members]
    if struct and stated and stated != wanted:
        i = next(i for i, (a, b) in enumerate(itertools.zip_longest(stated, wanted)) if a != b)
        place, name = (members[i].start, stated[i]) if i < len(stated) else (struct.start(), "none")
        there = wanted[i] if i < len(wanted) else "no more"
        found = f"member {i + 1} of the struct is {name}"
        yield Finding(place, found, f"{there}; the struct has {listed(wanted)}", rule="statement")


def _missing_tables(tables: Sequence[Table]) -> Iterator[Finding]:
    """A note for each level that changes the operator and has no table, at the first table."""
    present = {_level(table.levels[0]) for table in tables if table.levels}
    if not present:
        return
    place = _start(tables[0])
    for level in _CHANGES:
        if level not in present:
            found = f"there is no table for {level}, which changes what the operator takes"
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
        why = "is no feature level" if level is None else "changes nothing for this operator"
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
        wrong = [word for word in row.kinds if word.text.title() != kind]
        yield from (Finding(word.start, f"{role} at {level}: the kind {word.text}", kind) for word in wrong)
        yield from _dimensions(row, wanted.dimension_counts, f"{role} at {level}")
        yield from _types(row, wanted.data_types(role), f"{role} at {level}")
    for role in _ROLES:
        if role not in present:
            yield Finding(_start(table), f"no row {role} for {level}", listed(_ROLES))


def _dimensions(row: Row, counts: range, where: str) -> Iterator[Finding]:
    if not row.dimensions:
        yield Finding(row.label.start, f"{where}: no dimension count", span(counts))
    for words in row.dimensions:
        numbers = [int(word.text) for word in words]
        is_span = len(numbers) == 2
        if {*numbers} != ({counts[0], counts[-1]} if is_span else {*counts}):
            shown = f"{numbers[0]} to {numbers[1]}" if is_span else listed(map(str, numbers))
            wrong = next((word for word in words if int(word.text) not in (counts[0], counts[-1])), words[-1])
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
                yield Finding(word.start, f"{where}: {word.text} is no data type", right)
        if missing:
            plural = "s" * (len(missing) > 1)
            yield Finding(words[0].start, f"{where}: missing data type{plural} {', '.join(missing)}", ", ".join(names))


def _start(table: Table) -> int:
    return table.levels[0].start if table.levels else table.rows[0].label.start


def _shown(word: Word) -> str:
    return word.text.replace("\\", "").upper()


def _level(word: Word) -> FeatureLevel | None:
    return _LEVELS.get(_shown(word))
