"""What a docs page says of feature levels in tables and in its Availability sentence, held against DirectML's own."""

from __future__ import annotations

import difflib
import itertools
import re
from typing import TYPE_CHECKING, NamedTuple

from revseq_cli.ground.errors import listed
from revseq_cli.ground.tensors import DataType, braced
from revseq_cli.operator.spec import DIRECTML, INPUT, LENGTHS, OUTPUT, SUPPORT, FeatureLevel, span, support
from revseq_cli.texts import support_tables
from revseq_cli.texts.examples import role_of
from revseq_cli.texts.places import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from revseq_cli.operator.spec import Support
    from revseq_cli.texts.support_tables import Row, Sentence, Table, Word

_OPERATOR = "DML_REVERSE_SUBSEQUENCES_OPERATOR_DESC"
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


class Checked(NamedTuple):
    """How many tables and sentences about the operator's levels a page has, and the findings there in their order."""

    tables: int = 0
    sentences: int = 0
    findings: tuple[Finding, ...] = ()


NOTHING = Checked()  # of a text that does not speak of levels


def other_operator(text: str) -> str:
    """The operator that the head of a page names, if it is another one; else ""."""
    named = [match[1].upper() for match in _ABOUT.finditer(text, 0, _HEAD)]
    return named[0] if named and _OPERATOR not in named else ""


def check(text: str, *, has_examples: bool) -> Checked:
    """Check all that a page says of the operator's levels; `has_examples` says that the page is about this operator.

    On a page of another operator nothing is checked.
    """
    tables, sentences = support_tables.read(text)
    is_sure = any(map(_is_surely_ours, tables))
    is_ours = has_examples or is_sure
    ours = [table for table in tables if _is_ours(table, page_is_ours=is_ours, has_others=is_sure)]
    about = [each for each in sentences if is_ours and each.operator in ("", _OPERATOR)]
    titled = [each for each in about if _AVAILABILITY.search(each.above)]
    told = (titled or [each for each in about if _INTRODUCED.search(each.text)])[:1]
    findings = [*_missing_tables(ours), *(each for said in told for each in _sentence(said))]
    if is_ours:
        marked = support_tables.marked(text)
        findings += [*_sizes(marked), *_members(marked)]
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
    return _is_surely_ours(table) or (known and page_is_ours and table.operator in ("", _OPERATOR))


def _sentence(sentence: Sentence) -> Iterator[Finding]:
    """The finding on the sentence's first level; those behind it are about data types, or other operators."""
    since, word = SUPPORT[0].since, sentence.levels[0]
    if _level(word) is not since:
        said = _shown(word).removeprefix("DML_FEATURE_LEVEL_")
        yield Finding(word.start, f"the page says introduced in {said}; it was {since.short}")


def _sizes(marked: str) -> Iterator[Finding]:
    """The findings on sentences that give sizes of the input and an axis, and what sizes the lengths have then."""
    for said in support_tables.sizes(marked):
        names = INPUT in said.text and LENGTHS in said.text and OUTPUT not in said.text
        pairs = ((said.first, said.second), (said.second, said.first))
        if names and not any(_of_lengths(a, said.axis) == b for a, b in pairs):
            wanted = _of_lengths(said.first, said.axis)
            shown = braced(wanted) if wanted else f"an axis below {len(said.first)}"
            found = f"lengths for {braced(said.first)} along axis {said.axis} have the sizes {braced(said.second)}"
            yield Finding(said.start, found, shown, rule="statement")


def _of_lengths(sizes: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """The sizes of the lengths; none where the axis is none."""
    return (*sizes[:axis], 1, *sizes[axis + 1 :]) if axis < len(sizes) else ()


def _members(marked: str) -> Iterator[Finding]:
    """The finding on the first member of the struct that is not the operator's."""
    wanted = [*_ROLES, "Axis"]
    start, members = support_tables.members(marked, _OPERATOR)
    stated = [each.text for each in members]
    if stated and stated != wanted:
        i = next(i for i, (a, b) in enumerate(itertools.zip_longest(stated, wanted)) if a != b)
        place, name = (members[i].start, stated[i]) if i < len(stated) else (start, "none")
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
