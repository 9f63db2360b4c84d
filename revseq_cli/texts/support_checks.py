"""What a docs page says of feature levels in tables and in its Availability sentence, held against DirectML's own."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, NamedTuple

from revseq_cli.ground.errors import UsageError, listed
from revseq_cli.ground.tensors import DataType
from revseq_cli.operator.spec import INPUT, LENGTHS, OUTPUT, SUPPORT, FeatureLevel, span, support
from revseq_cli.texts import support_tables
from revseq_cli.texts.examples import role_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from revseq_cli.operator.spec import Support
    from revseq_cli.texts.support_tables import Row, Sentence, Table, Word

_OPERATOR = "DML_REVERSE_SUBSEQUENCES_OPERATOR_DESC"
_ROLES = (INPUT, LENGTHS, OUTPUT)
_CHANGES = {row.since: row for row in SUPPORT if row.since is not FeatureLevel.NONE}
# The title above the sentence that says from which level on an operator is there, and the verb of that sentence.
_AVAILABILITY = re.compile(
    r"availab|disponib|verfügbar|beschikba|tillgäng|tilgænge|tilgjenge|saatavuus|dostęp|dostupn|доступн|elérhető"
    r"|kullan\u0131labil|διαθεσιμ|זמינות|التوفر|التوافر|可用|가용성|使用可能|提供状況",
    re.IGNORECASE,
)
_INTRODUCED = re.compile(
    r"introdu|eingeführt|introdott|geïntroduceerd|wprowadz|zaveden|представлен|введен|引入|引進|导入|導入|도입",
    re.IGNORECASE,
)


class Remark(NamedTuple):
    """What is wrong at a place of the text, or only worth a note: the character at `start`, found and wanted."""

    start: int
    found: str
    wanted: str = ""
    is_note: bool = False


class Checked(NamedTuple):
    """How many tables and sentences about the operator's levels a page has, and the remarks on them in their order."""

    tables: int
    sentences: int
    remarks: tuple[Remark, ...]


def check(text: str, *, has_examples: bool) -> Checked:
    """Check all that a page says of the operator's levels; `has_examples` says that the page is about this operator.

    On a page of another operator nothing is checked.
    """
    if not support_tables.LEVEL.search(text):
        return Checked(0, 0, ())
    tables, sentences = support_tables.read(text)
    is_ours = has_examples or any(map(_is_surely_ours, tables))
    ours = [table for table in tables if _is_ours(table, page_is_ours=is_ours)]
    about = [each for each in sentences if is_ours and each.operator in ("", _OPERATOR)]
    titled = [each for each in about if _AVAILABILITY.search(each.above)]
    told = (titled or [each for each in about if _INTRODUCED.search(each.text)])[:1]
    remarks = [*_missing_tables(ours), *(remark for each in told for remark in _sentence(each))]
    seen: set[FeatureLevel] = set()
    for table in ours:
        remarks += _table(table, seen)
    return Checked(len(ours), len(told), tuple(sorted(remarks)))


def _is_surely_ours(table: Table) -> bool:
    roles = [role_of(row.label.text)[0] for row in table.rows]
    return LENGTHS in roles and None not in roles


def _is_ours(table: Table, *, page_is_ours: bool) -> bool:
    """Whether a table is this operator's: others have tensors of other names, and more than one of them."""
    roles = [role_of(row.label.text)[0] for row in table.rows]
    known = None not in roles or (roles.count(None) == 1 and {INPUT, LENGTHS} <= {*roles})
    return _is_surely_ours(table) or (known and page_is_ours and table.operator in ("", _OPERATOR))


def _sentence(sentence: Sentence) -> Iterator[Remark]:
    """The remark on the sentence's first level; those behind it are about data types, or other operators."""
    since, word = SUPPORT[0].since, sentence.levels[0]
    if _level(word) is not since:
        yield Remark(word.start, f"the operator is said to be there since {_shown(word)}", str(since))


def _missing_tables(tables: Sequence[Table]) -> Iterator[Remark]:
    """A note for each level that changes the operator and has no table, at the first table."""
    present = {_level(table.levels[0]) for table in tables if table.levels}
    if not present:
        return
    place = _start(tables[0])
    for level in _CHANGES:
        if level not in present:
            found = f"there is no table for {level}, which changes what the operator takes"
            yield Remark(place, found, is_note=True)


def _table(table: Table, seen: set[FeatureLevel]) -> Iterator[Remark]:
    """The remarks on a table; `seen` has the levels of those before it."""
    start = _start(table)
    if not table.levels:
        yield Remark(start, "a table without a feature level above it", "DML_FEATURE_LEVEL_x_y", is_note=True)
        return
    first, level = table.levels[0], _level(table.levels[0])
    yield from (
        Remark(word.start, f"the heading says {_shown(word)}, and {_shown(first)}", "one feature level")
        for word in table.levels
        if _shown(word) != _shown(first)
    )
    if level in seen:
        yield Remark(start, f"a second table for {level}", "one")
    if level not in _CHANGES:
        found = (
            f"{_shown(first)} is no feature level" if level is None else f"{level} changes nothing for this operator"
        )
        yield Remark(start, found, f"one of {listed(map(str, _CHANGES))}")
    if level is not None and (row := support(level)):
        seen.add(level)
        yield from _rows(table, row, str(level))


def _rows(table: Table, wanted: Support, level: str) -> Iterator[Remark]:
    """The remarks on the rows of a table for that level."""
    present: set[str] = set()
    for row in table.rows:
        role, is_exact = role_of(row.label.text)
        if role is None and (near := difflib.get_close_matches(row.label.text, _ROLES, 1, 0.85)):
            role, is_exact = near[0], False
        if role is None:
            yield Remark(row.label.start, f"a row {row.label.text} for {level}", listed(_ROLES))
            continue
        if not is_exact:
            yield Remark(row.label.start, f"the row is named {row.label.text}", role)
        if role in present:
            yield Remark(row.label.start, f"a second row {row.label.text} for {level}", "one")
        present.add(role)
        yield from _dimensions(row, wanted.dimension_counts, f"{role} at {level}")
        yield from _types(row, wanted.data_types(role), f"{role} at {level}")
    for role in _ROLES:
        if role not in present:
            yield Remark(_start(table), f"no row {role} for {level}", listed(_ROLES))


def _dimensions(row: Row, counts: range, where: str) -> Iterator[Remark]:
    if not row.dimensions:
        yield Remark(row.label.start, f"{where}: no dimension count", span(counts))
    for words in row.dimensions:
        numbers = [int(word.text) for word in words]
        is_span = len(numbers) == 2
        if {*numbers} != ({counts[0], counts[-1]} if is_span else {*counts}):
            shown = f"{numbers[0]} to {numbers[1]}" if is_span else listed(map(str, numbers))
            wrong = next((word for word in words if int(word.text) not in (counts[0], counts[-1])), words[-1])
            yield Remark(wrong.start, f"{where}: dimension count {shown}", span(counts))


def _types(row: Row, wanted: Iterable[DataType], where: str) -> Iterator[Remark]:
    names = [each.name for each in wanted]
    if not all(row.types) or not row.types:
        yield Remark(row.label.start, f"{where}: no data type", ", ".join(names))
    for words in filter(None, row.types):
        stated = [word.text.upper() for word in words]
        missing = [name for name in names if name not in stated]
        for i, word in enumerate(words):
            if stated[i] in names:
                if stated[i] in stated[:i]:
                    yield Remark(word.start, f"{where}: {word.text} twice", "once")
                elif word.text != stated[i]:
                    yield Remark(word.start, f"{where}: {word.text}", f"{stated[i]}, in capitals", is_note=True)
            elif _is_data_type(stated[i]):
                yield Remark(word.start, f"{where}: extra data type {word.text}", ", ".join(names))
            else:
                near = difflib.get_close_matches(stated[i], missing, 1, 0.6)
                missing = [name for name in missing if name not in near]
                yield Remark(word.start, f"{where}: {word.text} is no data type", near[0] if near else ", ".join(names))
        if missing:
            plural = "s" * (len(missing) > 1)
            yield Remark(words[0].start, f"{where}: missing data type{plural} {', '.join(missing)}", ", ".join(names))


def _start(table: Table) -> int:
    return table.levels[0].start if table.levels else table.rows[0].label.start


def _shown(word: Word) -> str:
    return word.text.replace("\\", "").upper()


def _level(word: Word) -> FeatureLevel | None:
    try:
        return FeatureLevel.parse(_shown(word))
    except UsageError:
        return None


def _is_data_type(name: str) -> bool:
    try:
        DataType.parse(name)
    except UsageError:
        return False
    return True
