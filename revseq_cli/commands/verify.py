"""`revseq verify`: checks the examples of the operator in documentation."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from revseq_cli.commands import options
from revseq_cli.commands.console import Console, print_error
from revseq_cli.commands.groups import Group, make_command
from revseq_cli.commands.values import complete_files, expand_patterns
from revseq_cli.core import signals
from revseq_cli.core.errors import FormatError, RevseqError, UsageError, join_names, printable
from revseq_cli.operator.spec import FeatureLevel

if TYPE_CHECKING:
    from revseq_cli.formats.references import Reference
    from revseq_cli.pages import ExampleVerdict, PageReport
    from revseq_cli.report.objects import ExampleRecord, PageRecord


@make_command(
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
    callback=expand_patterns,
    shell_complete=complete_files,
)
@Group.WRITE.option(
    "--fix",
    is_flag=True,
    help="Correct wrong OutputTensors in the pages. A page is corrected completely or not at all.",
)
@Group.READ.option(
    "--allow-empty",
    is_flag=True,
    help="Skip and count pages without examples instead of failing.",
)
@options.level_option
@Group.PRINT.option(
    "--github", is_flag=True, help="Print the report as annotations for GitHub Actions."
)
@options.output_options
def command(
    pages: tuple[str, ...],
    fix: bool,
    allow_empty: bool,
    level: FeatureLevel,
    github: bool,
    console: Console,
) -> int:
    """Recompute every example of the operator in documentation, and compare them bit for bit.

    PAGE is a Markdown, HTML, reStructuredText or plain-text file, a folder, or - for standard
    input. In a folder, all pages are checked, also those in folders below, except hidden ones.
    Pages without examples and examples of other operators are skipped and counted.

    An example consists of InputTensor, SequenceTensor or SequenceLengthsTensor, Axis and
    OutputTensor. Several examples may share the InputTensor above them. An incomplete example
    counts as wrong.

    The report gives each error as path:line:column. The exit status is 0 if all examples are right,
    1 if one is wrong or if some of several pages cannot be read or have no examples, and 2 if none
    of the pages can be checked.
    """
    if github and console.as_json:
        raise UsageError("--json and --github are two forms of the report", "one of them")
    results, skipped = _check_pages(_find_pages(pages, allow_empty), level, console, fix=fix)
    if not results and not allow_empty:
        problem = f"no example of this operator in {skipped} pages"
        hint = "if that is right, add --allow-empty" if skipped else ""
        raise UsageError(problem, hint=hint, where=join_names(pages))
    for result in results:
        if result.error:
            print_error(result.error, console.color)
    status = _choose_status(results)
    if console.as_json:
        _print_json(results, skipped, status, console)
    elif github:
        click.echo("".join(f"{line}\n" for line in _write_annotations(results)), nl=False)
    elif not console.quiet:
        for line in _write_report(results, skipped, console):
            click.echo(line, sys.stdout, color=console.in_color)
    return status


@dataclass(frozen=True)
class _PageResult:
    """The report on the page of that name, or the error that stopped it."""

    name: str
    report: PageReport | None
    error: RevseqError | None = None


def _choose_status(results: Sequence[_PageResult]) -> int:
    """The exit status for the results of all pages."""
    has_report = any(result.report for result in results)
    if results and not has_report:
        return 2
    is_right = all(result.report and result.report.is_right for result in results)
    return 0 if is_right else 1


def _find_pages(names: Sequence[str], allow_empty: bool) -> list[tuple[Reference, bool]]:
    """The pages, each with whether it may lack examples; those in folders always may."""
    from revseq_cli import pages  # --help must not load NumPy
    from revseq_cli.formats.references import Reference
    from revseq_cli.formats.table import TEXT

    all_pages: list[tuple[Reference, bool]] = []
    for name in names:
        page = Reference.file(name, TEXT.name)
        if page.key is not None:
            hint = f"leave out ::{page.key}"
            raise UsageError("verify checks complete pages", hint=hint, where=page.path)
        if not page.is_piped and os.path.isdir(page.path):
            paths = pages.find_pages(page.path)
            all_pages += [(Reference(path), True) for path in paths]
        else:
            all_pages.append((page, allow_empty))
    return all_pages


def _check_pages(
    all_pages: Sequence[tuple[Reference, bool]], level: FeatureLevel, console: Console, *, fix: bool
) -> tuple[list[_PageResult], int]:
    """The results of the pages, and how many pages are skipped because they have no example."""
    from revseq_cli.text.examples import NoExampleError  # --help must not load NumPy

    results: list[_PageResult] = []
    skipped = 0
    with signals.begin_stage("verify", len(all_pages), "pages") as advance:
        for page, may_be_empty in all_pages:
            advance(1)
            try:
                report = _check_page(page, level, console, fix=fix)
                results.append(_PageResult(page.name, report))
            except RevseqError as e:
                if may_be_empty and isinstance(e, NoExampleError):
                    skipped += 1
                else:
                    results.append(_PageResult(page.name, None, e.about(page.name)))
    return results, skipped


def _check_page(page: Reference, level: FeatureLevel, console: Console, *, fix: bool) -> PageReport:
    """The report on a page, which is corrected with `fix`; RevseqError if it cannot be read."""
    from revseq_cli import pages

    text = pages.read_page(page)
    report = pages.judge_page(text, level)
    if not fix or report.is_right:
        return report
    try:
        data, fixed = pages.fix(text, report, level)
    except FormatError as e:
        console.note(f"{page.name} is not rewritten: {e.found}")
        return report
    console.note(*pages.write_page(text, data))
    return fixed


def _write_report(results: Sequence[_PageResult], skipped: int, console: Console) -> Iterator[str]:
    """A line for each example, its mistakes in a form that editors read, and a summary."""
    from revseq_cli.report import terminal

    verdicts: list[ExampleVerdict] = []
    others = 0
    for result in results:
        if result.report is None:
            continue
        yield printable(result.name)
        for verdict in result.report.verdicts:
            yield from _write_verdict(result.name, verdict, console)
        verdicts += result.report.verdicts
        others += result.report.skipped
    if any(result.report for result in results):
        wrong = sum(not verdict.is_right for verdict in verdicts)
        summary = f"{terminal.say_count(len(verdicts), 'example')}, {wrong} wrong"
        yield f"{summary}, {others} of other operators skipped" if others else summary
    if skipped:
        yield f"{terminal.say_count(skipped, 'page')} without an example skipped"


def _write_verdict(name: str, verdict: ExampleVerdict, console: Console) -> Iterator[str]:
    from revseq_cli.report import terminal

    word = console.paint("WRONG", terminal.RED)
    if verdict.is_right:
        right = "fixed" if verdict.fixed else "right"
        word = console.paint(right, terminal.GREEN)
    yield f"  example {verdict.number}, line {verdict.line}: {word}"
    for finding in verdict.findings:
        position = f"{name}:{finding.line}:{finding.column}"
        yield printable(f"{position}: example {verdict.number}: {finding.message}")
        for line in finding.context.split("\n"):
            yield printable(f"  {line}")


def _write_annotations(results: Sequence[_PageResult]) -> Iterator[str]:
    """Commands to GitHub's runner, which shows each message next to its line."""
    from revseq_cli.text.positions import PlacedError

    for result in results:
        file = f"::error file={_escape(os.path.normpath(result.name), ':,')}"
        error = result.error
        if isinstance(error, PlacedError):
            position = f"line={error.line},col={error.column}"
            yield f"{file},{position},title=revseq::{_escape(error.problem)}"
        elif error:
            yield f"{file},title=revseq::{_escape(error.found)}"
        elif result.report:
            for verdict in result.report.verdicts:
                for finding in verdict.findings:
                    message = _escape(f"example {verdict.number}: {finding.message}")
                    position = f"line={finding.line},col={finding.column}"
                    yield f"{file},{position},title=revseq::{message}"


def _escape(text: str, others: str = "") -> str:
    """The text as a part of such a command."""
    special = "%\r\n" + others
    escaped = "".join(f"%{ord(c):02X}" if c in special else c for c in text)
    return printable(escaped)


def _print_json(
    results: Sequence[_PageResult], skipped: int, status: int, console: Console
) -> None:
    from revseq_cli.report import objects

    pages: list[PageRecord] = []
    for result in results:
        if result.report:
            examples = [_describe_verdict(verdict) for verdict in result.report.verdicts]
            page = objects.PageRecord(
                name=result.name, examples=examples, skipped=result.report.skipped
            )
            pages.append(page)
    errors = [result.error for result in results if result.error]
    console.report(objects.VerifyRecord(pages=pages, skipped=skipped), status, errors)


def _describe_verdict(verdict: ExampleVerdict) -> ExampleRecord:
    from revseq_cli.report.objects import ExampleRecord, FindingRecord

    findings = [
        FindingRecord(line=finding.line, column=finding.column, message=finding.message)
        for finding in verdict.findings
    ]
    return ExampleRecord(
        number=verdict.number,
        line=verdict.line,
        right=verdict.is_right,
        fixed=verdict.fixed,
        findings=findings,
    )
