"""`revseq verify`: the examples on documentation pages, computed again."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from revseq_cli.commands import options
from revseq_cli.commands.options import Console, Group
from revseq_cli.core import signals
from revseq_cli.core.errors import FormatError, RevseqError, UsageError, listed, printable
from revseq_cli.operator.spec import FeatureLevel

if TYPE_CHECKING:
    from revseq_cli.formats.references import Reference
    from revseq_cli.pages import Report

    # Each page by its name, with the report on it, or the error that stopped it.
    Pages = Sequence[tuple[str, Report | RevseqError]]


@options.command(
    "verify",
    examples=(
        'revseq run "[[1, 2, 3]]" "[[2]]" --axis 1 --example > page.md',
        "revseq verify page.md",
    ),
)
@click.argument(
    "pages",
    metavar="PAGE...",
    nargs=-1,
    required=True,
    callback=options.expanded,
    shell_complete=options.complete_files,
)
@Group.WRITE.option(
    "--fix",
    is_flag=True,
    help="Rewrite the rows of wrong OutputTensors in place. Each page is corrected completely or not at all.",
)
@Group.WORK.option(
    "--allow-empty",
    is_flag=True,
    help="Skip and count a PAGE without an example, as for pages in a folder.",
)
@options.level_option
@Group.PRINT.option(
    "--format", "form", type=click.Choice(("text", "github", "json")), default="text", show_default=True,
    help="The form of the report. github prints annotations for GitHub Actions.",
)  # fmt: skip
@options.output_options
def command(
    pages: tuple[str, ...],
    fix: bool,
    allow_empty: bool,
    level: FeatureLevel,
    form: str,
    console: Console,
) -> int:
    """Recompute every example of the operator on documentation pages, and compare bit for bit.

    PAGE is Markdown, HTML, reStructuredText or plain text, in any language, or - for standard input. If PAGE is a
    folder, the command checks all pages in it and in the folders below, except hidden ones. It skips and counts pages
    without an example and examples of other operators.

    An example has the parts InputTensor, SequenceTensor or SequenceLengthsTensor, Axis and OutputTensor. An InputTensor
    that stands once may serve the examples behind it. One that lacks a part is wrong.

    The report gives each error as path:line:column. The exit status is 0 if everything is right, 1 if something is
    wrong or if some of several pages cannot be read or have no example, and 2 if this is true of all pages.
    """
    from revseq_cli.report import objects  # --help must not load NumPy

    results, skipped = _checked(pages, level, console, fix=fix, allow_empty=allow_empty)
    if not results and not allow_empty:
        hint = "add --allow-empty" if skipped else ""
        raise UsageError(
            f"no example of this operator in {skipped} pages",
            "pages with examples",
            hint,
            listed(pages),
        )
    errors = [result for _, result in results if isinstance(result, RevseqError)]
    for error in errors:
        options.print_error(error, console.color)
    status = 0
    if errors and len(errors) == len(results):
        status = 2
    elif errors or not all(
        isinstance(result, RevseqError) or result.right for _, result in results
    ):
        status = 1
    if console.as_json or form == "json":
        members = [_page(name, page) for name, page in results]
        click.echo(objects.text_of({"exit_status": status, "pages": members, "skipped": skipped}))
    elif form == "github":
        click.echo("".join(f"{line}\n" for line in _github(results)), nl=False)
    elif not console.quiet:
        for line in _text(results, skipped, console):
            click.echo(line, sys.stdout, color=console.colored)
    return status


def _checked(
    named: Sequence[str], level: FeatureLevel, console: Console, *, fix: bool, allow_empty: bool
) -> tuple[Pages, int]:
    """The name, and the report or the error, of each page; how many pages have no example."""
    from revseq_cli import pages
    from revseq_cli.formats.references import Reference
    from revseq_cli.formats.table import TEXT
    from revseq_cli.text.examples import NoExampleError

    places: list[tuple[Reference, bool]] = []  # and whether it is named itself
    for name in named:
        reference = Reference.file(name, TEXT.name)
        if reference.key is not None:
            raise UsageError(
                "all examples of a page are verified", "no :: after its name", where=reference.path
            )
        if reference.is_piped or not os.path.isdir(reference.path):
            places.append((reference, True))
        else:
            places += [(Reference(path), False) for path in pages.find_pages(reference.path)]
    results: list[tuple[str, Report | RevseqError]] = []
    skipped = 0
    with signals.begun("verify", len(places), "pages") as advance:
        for page, is_named in places:
            advance(1)
            try:
                results.append((page.name, _report(page, level, console, fix=fix)))
            except RevseqError as e:
                if isinstance(e, NoExampleError) and (allow_empty or not is_named):
                    skipped += 1
                else:
                    results.append((page.name, e.about(page.name)))
    return results, skipped


def _report(page: Reference, level: FeatureLevel, console: Console, *, fix: bool) -> Report:
    """Recompute the examples of a page, and rewrite them if that is asked for; RevseqError if it cannot be read."""
    from revseq_cli import pages

    text = pages.read_page(page)
    report = pages.verify(text, level)
    if not fix or report.right:
        return report
    try:
        data, fixed = pages.fix(text, report, level)
    except FormatError as e:
        console.note(f"{page.name} is not rewritten: {e.found}")
        return report
    console.note(*pages.write_page(text, data))
    return fixed


def _text(pages: Pages, skipped: int, console: Console) -> Iterator[str]:
    """A line for each example, what is wrong with it as editors take it, and a summary; errors are left out."""
    from revseq_cli.report import terminal

    reports = [(name, page) for name, page in pages if not isinstance(page, RevseqError)]
    for name, page in reports:
        yield printable(name)
        for verdict in page.verdicts:
            word = console.paint("WRONG", terminal.RED)
            if verdict.right:
                word = console.paint("fixed" if verdict.fixed else "right", terminal.GREEN)
            yield f"  example {verdict.number}, line {verdict.line}: {word}"
            for finding in verdict.findings:
                place = f"{name}:{finding.line}:{finding.column}"
                yield printable(f"{place}: example {verdict.number}: {finding.message}")
                yield from (printable(f"  {line}") for line in finding.context.split("\n"))
    if reports:
        verdicts = [verdict for _, page in reports for verdict in page.verdicts]
        others = sum(page.skipped for _, page in reports)
        told = f"{terminal.counted(len(verdicts), 'example')}, {sum(not verdict.right for verdict in verdicts)} wrong"
        yield f"{told}, {others} of other operators skipped" if others else told
    if skipped:
        yield f"{terminal.counted(skipped, 'page')} without an example skipped"


def _github(pages: Pages) -> Iterator[str]:
    """Commands to GitHub's runner, which shows each message beside its line."""
    from revseq_cli.text.notation import PlacedError

    def escaped(text: str, others: str = "") -> str:
        return printable("".join(f"%{ord(c):02X}" if c in f"%\r\n{others}" else c for c in text))

    for name, page in pages:
        file = f"::error file={escaped(os.path.normpath(name), ':,')}"
        if isinstance(page, PlacedError):
            yield f"{file},line={page.line},col={page.column},title=revseq::{escaped(page.problem)}"
        elif isinstance(page, RevseqError):
            yield f"{file},title=revseq::{escaped(page.found)}"
        else:
            for verdict in page.verdicts:
                for finding in verdict.findings:
                    message = escaped(f"example {verdict.number}: {finding.message}")
                    yield f"{file},line={finding.line},col={finding.column},title=revseq::{message}"


def _page(name: str, page: Report | RevseqError) -> dict[str, object]:
    """The members of a page in JSON; that of an error has none of its content."""
    from revseq_cli.report import objects

    if isinstance(page, RevseqError):
        return {"page": name, "errors": objects.errors_of(page), "examples": [], "skipped": 0}
    examples = []
    for verdict in page.verdicts:
        findings = [
            {"message": e.message, "line": e.line, "column": e.column} for e in verdict.findings
        ]
        example = {
            "number": verdict.number,
            "line": verdict.line,
            "right": verdict.right,
            "fixed": verdict.fixed,
        }
        examples.append({**example, "findings": findings})
    return {"page": name, "errors": [], "examples": examples, "skipped": page.skipped}
