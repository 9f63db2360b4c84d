"""The results of `verify`: for people, for editors, for GitHub's annotations, and as SARIF for code scanning."""

from __future__ import annotations

import os
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from revseq_cli import __version__
from revseq_cli.core.errors import RevseqError, printable
from revseq_cli.report import objects, terminal
from revseq_cli.report.results import difference_of
from revseq_cli.report.words import message
from revseq_cli.text.places import Finding, PlacedError, Spot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.text import Text

    from revseq_cli.operator.spec import FeatureLevel
    from revseq_cli.pages.verification import Report, Verdict


class Pages(NamedTuple):
    """The result or the error of each page by its name, how many pages have nothing to check, and the exit status."""

    reports: Sequence[tuple[str, Report | RevseqError]]
    skipped: int
    level: FeatureLevel
    exit_status: int


# The rules, and what each says.
_RULES = {
    "example": "The OutputTensor of an example is what the operator gives.",
    "feature-levels": "Tables and sentences about feature levels say what DirectML has.",
    "statement": "Sizes, axes and members that a page states are those of the operator.",
    "page": "A page can be read.",
}
_RIGHT, _WRONG = ("right", terminal.GOOD), ("WRONG", terminal.BAD)


def findings_of(report: Report | RevseqError) -> Iterator[Finding]:
    """Everything to tell of a page."""
    if isinstance(report, PlacedError):
        yield Finding(0, report.problem, report.wanted, rule="page", spot=Spot(report.place, report.context))
        return
    if isinstance(report, RevseqError):
        yield Finding(0, report.found, report.wanted, rule="page")
        return
    for verdict in report.verdicts:
        number = verdict.data_set or f"example {verdict.number}"
        for each in verdict.findings:
            yield each._replace(found=f"{number}: {each.found}", spot=each.spot or verdict.spot)
        if wrong := difference_of(verdict):
            text = f"OutputTensor at {{index}} is {{found}}{', as the operator has it' * verdict.is_right_here}"
            text += ", and {by} gives {expected}"
            text += "; {count} of {total} elements differ"
            yield Finding(0, f"{number}: {text.format(by=verdict.by, **wrong)}", rule="example", spot=verdict.wrong)
    yield from report.support.findings


def _line(page: str, finding: Finding) -> str:
    """As editors and compilers have it: path, line, column and message."""
    place = f"{page}:{finding.spot.place.line}:{finding.spot.place.column}" if finding.spot else page
    return f"{place}: {'note: ' * finding.is_note}{finding.message}"


def _whole(finding: Finding) -> str:
    """The message, and what it hints at."""
    return " ".join([finding.message, *(f"({hint})" for hint in finding.hints)])


def _text(pages: Pages) -> Iterator[Text]:
    """A line for each example, what is wrong with it as editors take it, and a summary; errors are left out."""
    from rich.text import Text

    reports = [(name, page) for name, page in pages.reports if not isinstance(page, RevseqError)]
    for name, page in reports:
        yield Text(printable(name), "bold")
        yield from _of_page(name, page)
    if reports:
        yield from map(Text, _summary([page for _, page in reports]))
    if pages.skipped:
        yield Text(f"{terminal.counted(pages.skipped, 'page')} without an example skipped")


def _of_page(name: str, page: Report) -> Iterator[Text]:
    """The lines about one page, below its name."""
    from rich.text import Text

    for verdict in page.verdicts:
        clamped = f", lengths that are clamped: {verdict.clamped}" if verdict.clamped else ""
        place = verdict.data_set or f"line {verdict.spot.place.line if verdict.spot else None}"
        yield Text.assemble(printable(f"  example {verdict.number}, {place}: "), _mark(verdict), clamped)
    if page.support.tables or page.support.sentences:
        is_wrong = any(map(_is_wrong_level, page.support.findings))
        counted = terminal.counted(page.support.tables, "table")
        yield Text.assemble(f"  feature levels, {counted}: ", _WRONG if is_wrong else _RIGHT)
    hints: dict[str, None] = {}
    for each in findings_of(page):
        yield Text(printable(_line(name, each)))
        yield from (Text(f"  {line}") for line in (each.spot.shown.split("\n") if each.spot else ()))
        hints |= dict.fromkeys(each.hints)
    yield from (Text(printable(f"Hint: {hint}")) for hint in hints)
    if page.unfixed:
        yield Text(printable(f"  not rewritten: {page.unfixed}"))
    # Tabs stay, so that the diff can be applied.
    yield from (Text("\t".join(map(printable, line.split("\t")))) for line in page.diff)


def _summary(reports: Sequence[Report]) -> Iterator[str]:
    """How many examples, tables and other statements there are on all pages, and how many are wrong."""
    verdicts = [verdict for page in reports for verdict in page.verdicts]
    foreign, skipped = sum(each.is_foreign for each in verdicts), sum(page.skipped for page in reports)
    wrong = sum(not each.right for each in verdicts) - foreign
    others = f", {foreign} not of DirectML" if foreign else ""
    others += f", {skipped} of other operators skipped" if skipped else ""
    yield f"{terminal.counted(len(verdicts), 'example')}, {wrong} wrong{others}"
    found = [each for page in reports for each in page.support.findings]
    if tables := sum(page.support.tables for page in reports):
        notes = sum(each.is_note for each in found)
        noted = f", {terminal.counted(notes, 'note')}" if notes else ""
        wrong = sum(map(_is_wrong_level, found))
        yield f"{terminal.counted(tables, 'table')} of feature levels, {wrong} wrong{noted}"
    if stated := sum(each.rule == "statement" for each in found):
        yield f"{terminal.counted(stated, 'other statement')} wrong"


def _is_wrong_level(finding: Finding) -> bool:
    return finding.rule == "feature-levels" and not finding.is_note


def _mark(verdict: Verdict) -> tuple[str, str]:
    """What an example is, with a style for the terminal."""
    if verdict.is_foreign:
        return "not of DirectML: --feature-level none", ""
    if verdict.fixed:
        return f"fixed, {terminal.counted(verdict.fixed, 'element')}", terminal.GOOD
    if verdict.is_right_here:
        return "right, but WRONG there", terminal.BAD
    return _RIGHT if verdict.right else _WRONG


def print_text(pages: Pages, *, color: bool) -> None:
    """Print the results for people; errors are left out."""
    console = terminal.console(color=color)
    for line in _text(pages):
        console.print(line, soft_wrap=True)


def _github(pages: Pages) -> str:
    """Commands to GitHub's runner, which shows each beside its line."""
    lines = []
    for page, each in _all(pages):
        properties = {"file": os.path.normpath(page)}
        if each.spot:
            properties |= {"line": str(each.spot.place.line), "col": str(each.spot.place.column)}
        properties["title"] = f"revseq: {each.rule}"
        shown = ",".join(f"{key}={_escaped(value, ':,')}" for key, value in properties.items())
        lines.append(f"::{_level(each, 'notice')} {shown}::{_escaped(_whole(each))}")
    return "\n".join(lines)


def _all(pages: Pages) -> Iterator[tuple[str, Finding]]:
    return ((name, each) for name, report in pages.reports for each in findings_of(report))


def _level(finding: Finding, note: str = "note") -> str:
    return note if finding.is_note else "error"


def _escaped(text: str, others: str = "") -> str:
    """A value in a command to GitHub's runner: with % and two digits for what would end it."""
    text = "".join(f"%{ord(c):02X}" if c in f"%\r\n{others}" else c for c in text)
    return printable(text)


def _sarif(pages: Pages) -> str:
    """SARIF 2.1.0."""
    rules = [{"id": rule, "shortDescription": {"text": text}} for rule, text in _RULES.items()]
    failed = any(isinstance(report, RevseqError) for _, report in pages.reports)
    run = {
        "tool": {"driver": {"name": "revseq", "version": __version__, "rules": rules}},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": not failed}],
        "results": [*starmap(_result, _all(pages))],
    }
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return objects.text_of({"$schema": schema, "version": "2.1.0", "runs": [run]})


def _result(page: str, each: Finding) -> dict[str, object]:
    location: dict[str, object] = {"artifactLocation": {"uri": _uri(page)}}
    if each.spot:
        location["region"] = {"startLine": each.spot.place.line, "startColumn": each.spot.place.column}
    return {
        "ruleId": each.rule,
        "ruleIndex": list(_RULES).index(each.rule),
        "level": _level(each),
        "message": {"text": printable(_whole(each)).replace("](", "] (")},  # which would be a link
        "locations": [{"physicalLocation": location}],
    }


def _uri(path: str) -> str:
    """A path as a URI: relative ones are to the folder where the command runs."""
    normal = Path(os.path.normpath(path))
    return normal.as_uri() if normal.is_absolute() else quote(os.fsencode(normal.as_posix()))


def _json(pages: Pages) -> str:
    """The report as JSON."""
    return objects.report("verify", pages, level=pages.level.short, pages=[*starmap(_page, pages.reports)])


def _page(name: str, report: Report | RevseqError) -> dict[str, Any]:
    """The members of a page; that of an error has none of its content."""
    findings = [{**each._asdict(), "level": _level(each), "message": _whole(each)} for each in findings_of(report)]
    if isinstance(report, RevseqError):
        told = {"error": message(report), "errors": objects.errors_of(report), "examples": [], "skipped": 0}
        return {"page": name, **told, "findings": findings}
    examples = [
        {
            **verdict._asdict(),
            "right": verdict.right,
            "hints": [*dict.fromkeys(hint for each in verdict.findings for hint in each.hints)],
            "difference": difference_of(verdict) or None,
        }
        for verdict in report.verdicts
    ]
    more = {"errors": [], "tables": report.support.tables, "sentences": report.support.sentences}
    return {**report._asdict(), **more, "page": name, "examples": examples, "findings": findings}


# The forms for programs.
FOR_PROGRAMS: dict[str, Callable[[Pages], str]] = {"github": _github, "json": _json, "sarif": _sarif}
