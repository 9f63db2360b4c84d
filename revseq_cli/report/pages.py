"""The results of `verify`: for people, for editors, for GitHub's annotations, and as SARIF for code scanning."""

from __future__ import annotations

import json
import os
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from revseq_cli import __version__
from revseq_cli.ground.errors import RevseqError, printable
from revseq_cli.report import colors, layout, objects
from revseq_cli.report.results import difference_of
from revseq_cli.report.words import message, spelled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.text import Text

    from revseq_cli.operator.spec import FeatureLevel
    from revseq_cli.passes.pages import Spot
    from revseq_cli.passes.verification import Finding, Report


class Pages(NamedTuple):
    """The result or the error of each page by its name, and how many pages have nothing to check."""

    reports: Sequence[tuple[str, Report | RevseqError]]
    skipped: int
    level: FeatureLevel


class Told(NamedTuple):
    """One thing to tell of a page, by the rule of that name; where it stands, if that is known."""

    page: str
    rule: str
    message: str
    spot: Spot | None = None
    is_note: bool = False
    hints: Sequence[str] = ()

    @property
    def line(self) -> str:
        """As editors and compilers have it: path, line, column and message."""
        place = f"{self.page}:{self.spot.place.line}:{self.spot.place.column}" if self.spot else self.page
        return f"{place}: {'note: ' * self.is_note}{self.message}"

    @property
    def whole(self) -> str:
        """The message, and what it hints at."""
        return " ".join([self.message, *(f"({hint})" for hint in self.hints)])


# The rules, and what each says.
_RULES = {
    "example": "The OutputTensor of an example is what the operator gives.",
    "feature-levels": "Tables and sentences about feature levels say what DirectML has.",
    "page": "A page can be read.",
}


def told(name: str, report: Report | RevseqError) -> Iterator[Told]:
    """Everything to tell of a page."""
    if isinstance(report, RevseqError):
        found = "; wanted: ".join(filter(None, (report.found, report.wanted)))
        yield Told(name, "page", found)
        return
    for finding in report.findings:
        yield from _of_finding(name, finding)
    for spot, (_, found, wanted, is_note) in report.remarks:
        yield Told(name, "feature-levels", f"{found}; wanted: {wanted}" if wanted else found, spot, is_note)


def _of_finding(name: str, finding: Finding) -> Iterator[Told]:
    if finding.right:
        return
    number = finding.data_set or f"example {finding.number}"
    hints = [*map(spelled, finding.hints)]
    for problem in finding.problems:
        yield Told(name, "example", f"{number}: {problem.message}", problem.spot or finding.spot, hints=hints)
    if wrong := difference_of(finding):
        text = (
            "OutputTensor at {index} is {found}, and the operator gives {expected}; {count} of {total} elements differ"
        )
        yield Told(name, "example", f"{number}: {text.format(**wrong)}", finding.wrong)


def _text(pages: Pages) -> Iterator[Text]:
    """A line for each example, what is wrong with it as editors take it, and a summary; errors are left out."""
    from rich.text import Text

    reports = [(name, page) for name, page in pages.reports if not isinstance(page, RevseqError)]
    for name, page in reports:
        yield Text(printable(name), "bold")
        for finding in page.findings:
            clamped = f", lengths that are clamped: {finding.clamped}" if finding.clamped else ""
            place = finding.data_set or f"line {finding.line}"
            line = Text(printable(f"  example {finding.number}, {place}: ")).append(_mark(finding)).append(clamped)
            yield line
        if page.support.tables or page.support.sentences:
            is_right = all(remark.is_note for _, remark in page.remarks)
            counted = _counted(page.support.tables, "table")
            yield Text(f"  feature levels, {counted}: ").append(_verdict(right=is_right))
        hints: dict[str, None] = {}
        for each in told(name, page):
            yield Text(printable(each.line))
            yield from (Text(f"  {line}") for line in (each.spot.shown.split("\n") if each.spot else ()))
            hints |= dict.fromkeys(each.hints)
        yield from (Text(printable(f"Hint: {hint}")) for hint in hints)
        if page.unfixed:
            yield Text(printable(f"  not rewritten: {page.unfixed}"))
        yield from (Text(_diff_line(line)) for line in page.diff)
    if reports:
        findings = [finding for _, page in reports for finding in page.findings]
        wrong, skipped = sum(not f.right for f in findings), sum(page.skipped for _, page in reports)
        others = f", {skipped} of other operators skipped" if skipped else ""
        yield Text(f"{_counted(len(findings), 'example')}, {wrong} wrong{others}")
        if tables := sum(page.support.tables for _, page in reports):
            remarks = [remark for _, page in reports for _, remark in page.remarks]
            notes = sum(remark.is_note for remark in remarks)
            noted = f", {_counted(notes, 'note')}" if notes else ""
            yield Text(f"{_counted(tables, 'table')} of feature levels, {len(remarks) - notes} wrong{noted}")
    if pages.skipped:
        yield Text(f"{_counted(pages.skipped, 'page')} without an example skipped")


def _mark(finding: Finding) -> Text:
    from rich.text import Text

    if finding.fixed:
        return Text(f"fixed, {_counted(finding.fixed, 'element')}", colors.style(colors.GREEN))
    return _verdict(right=finding.right)


def _verdict(*, right: bool) -> Text:
    from rich.text import Text

    return Text("right", colors.style(colors.GREEN)) if right else Text("WRONG", colors.style(colors.RED))


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _diff_line(line: str) -> str:
    """A line of a diff for a terminal: printable, but tabs stay, so that it can be applied."""
    return "\t".join(map(printable, line.split("\t")))


def print_text(pages: Pages, *, color: bool) -> None:
    """Print the results for people; errors are left out."""
    console = layout.console(color=color)
    for line in _text(pages):
        console.print(line, soft_wrap=True)


def _github(pages: Pages) -> str:
    """Commands to GitHub's runner, which shows each beside its line."""
    lines = []
    for each in _all(pages):
        properties = {"file": os.path.normpath(each.page)}
        if each.spot:
            properties |= {"line": str(each.spot.place.line), "col": str(each.spot.place.column)}
        properties["title"] = f"revseq: {each.rule}"
        shown = ",".join(f"{key}={_escaped(value, ':,')}" for key, value in properties.items())
        lines.append(f"::{'notice' if each.is_note else 'error'} {shown}::{_escaped(each.whole)}")
    return "\n".join(lines)


def _all(pages: Pages) -> Iterator[Told]:
    return (each for name, report in pages.reports for each in told(name, report))


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
        "results": [*map(_result, _all(pages))],
    }
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return json.dumps({"$schema": schema, "version": "2.1.0", "runs": [run]})


def _result(each: Told) -> dict[str, object]:
    location: dict[str, object] = {"artifactLocation": {"uri": _uri(each.page)}}
    if each.spot:
        location["region"] = {"startLine": each.spot.place.line, "startColumn": each.spot.place.column}
    return {
        "ruleId": each.rule,
        "ruleIndex": list(_RULES).index(each.rule),
        "level": "note" if each.is_note else "error",
        "message": {"text": printable(each.whole).replace("](", "] (")},  # which would be a link
        "locations": [{"physicalLocation": location}],
    }


def _uri(path: str) -> str:
    """A path as a URI: relative ones are to the folder where the command runs."""
    normal = Path(os.path.normpath(path))
    return normal.as_uri() if normal.is_absolute() else quote(os.fsencode(normal.as_posix()))


def _json(pages: Pages) -> str:
    """The report as JSON."""
    return objects.as_json(
        {"level": pages.level.short, "pages": [*starmap(_page, pages.reports)], "skipped": pages.skipped}
    )


def _page(name: str, report: Report | RevseqError) -> dict[str, Any]:
    findings = [
        {
            "line": each.spot.place.line if each.spot else None,
            "column": each.spot.place.column if each.spot else None,
            "rule": each.rule,
            "level": "note" if each.is_note else "error",
            "message": each.whole,
        }
        for each in told(name, report)
    ]
    if isinstance(report, RevseqError):
        return {"page": name, "error": message(report), "examples": [], "skipped": 0, "findings": findings}
    examples = [
        {
            "number": f.number,
            "line": f.line,
            "data_set": f.data_set,
            "right": f.right,
            "problems": [*map(str, f.problems)],
            "hints": [*map(spelled, f.hints)],
            "difference": difference_of(f) or None,
            "clamped": f.clamped,
            "fixed": f.fixed,
        }
        for f in report.findings
    ]
    counts = {"skipped": report.skipped, "tables": report.support.tables, "sentences": report.support.sentences}
    written = {"unfixed": report.unfixed or None, "diff": list(report.diff)}
    return {"page": name, "error": None, "examples": examples, **counts, **written, "findings": findings}


# The forms for programs.
FOR_PROGRAMS: dict[str, Callable[[Pages], str]] = {"github": _github, "json": _json, "sarif": _sarif}
