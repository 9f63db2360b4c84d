"""The results of `verify`: for people and editors, for GitHub's annotations, and as JSON."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING

from revseq_cli.core.errors import RevseqError, printable
from revseq_cli.report import objects, terminal
from revseq_cli.report.terminal import message
from revseq_cli.text.notation import PlacedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.text import Text

    from revseq_cli.pages import Report

    # Each page by its name, with the report on it, or the error that stopped it.
    Pages = Sequence[tuple[str, Report | RevseqError]]


def print_text(pages: Pages, skipped: int, *, color: bool) -> None:
    """Print a line for each example, what is wrong with it as editors take it, and a summary; errors are left out."""
    console = terminal.console(color=color)
    for line in _text(pages, skipped):
        console.print(line, soft_wrap=True)


def _text(pages: Pages, skipped: int) -> Iterator[Text]:
    from rich.text import Text

    reports = [(name, page) for name, page in pages if not isinstance(page, RevseqError)]
    for name, page in reports:
        yield Text(printable(name), "bold")
        for verdict in page.verdicts:
            word, style = ("fixed" if verdict.fixed else "right", terminal.GOOD)
            if not verdict.right:
                word, style = "WRONG", terminal.BAD
            clamped = f", lengths that are clamped: {verdict.clamped}" if verdict.clamped else ""
            yield Text.assemble(f"  example {verdict.number}, line {verdict.line}: ", (word, style), clamped)
            for each in verdict.findings:
                place = f"{name}:{each.line}:{each.column}"
                yield Text(printable(f"{place}: example {verdict.number}: {each.message}"))
                yield from (Text(f"  {line}") for line in each.context.split("\n"))
        if page.unfixed:
            yield Text(printable(f"  not rewritten: {page.unfixed}"))
    if reports:
        verdicts = [verdict for _, page in reports for verdict in page.verdicts]
        others = sum(page.skipped for _, page in reports)
        yield Text(
            f"{terminal.counted(len(verdicts), 'example')}, {sum(not each.right for each in verdicts)} wrong"
            + (f", {others} of other operators skipped" if others else "")
        )
    if skipped:
        yield Text(f"{terminal.counted(skipped, 'page')} without an example skipped")


def github(pages: Pages) -> str:
    """Commands to GitHub's runner, which shows each message beside its line."""
    lines = []
    for name, page in pages:
        file = f"file={_escaped(os.path.normpath(name), ':,')}"
        if isinstance(page, RevseqError):
            place = f",line={page.place.line},col={page.place.column}" if isinstance(page, PlacedError) else ""
            found = page.problem if isinstance(page, PlacedError) else page.found
            lines.append(f"::error {file}{place},title=revseq::{_escaped(found)}")
            continue
        for verdict in page.verdicts:
            for each in verdict.findings:
                place = f"line={each.line},col={each.column}"
                told = _escaped(f"example {verdict.number}: {each.message}")
                lines.append(f"::error {file},{place},title=revseq::{told}")
    return "\n".join(lines)


def _escaped(text: str, others: str = "") -> str:
    """A value in a command to GitHub's runner: with % and two digits for what would end it."""
    return printable("".join(f"%{ord(c):02X}" if c in f"%\r\n{others}" else c for c in text))


def json(pages: Pages, skipped: int, status: int) -> str:
    """The report as one JSON object."""
    return objects.text_of({"exit_status": status, "pages": [_page(*page) for page in pages], "skipped": skipped})


def _page(name: str, page: Report | RevseqError) -> dict[str, object]:
    """The members of a page; that of an error has none of its content."""
    if isinstance(page, RevseqError):
        return {"page": name, "error": message(page), "errors": objects.errors_of(page), "examples": [], "skipped": 0}
    examples = [{**asdict(verdict), "right": verdict.right} for verdict in page.verdicts]
    told = {"examples": examples, "skipped": page.skipped, "unfixed": page.unfixed or None}
    return {"page": name, "error": None, "errors": [], **told}
