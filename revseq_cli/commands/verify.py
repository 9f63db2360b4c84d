"""`revseq verify`: the examples on docs pages, or the tests of ONNX, computed again."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NamedTuple

import click

from revseq_cli.commands import base, options, values
from revseq_cli.ground import system
from revseq_cli.ground.errors import FormatError, RevseqError, UsageError, listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from revseq_cli.commands.console import Console
    from revseq_cli.formats.references import Reference
    from revseq_cli.operator.spec import FeatureLevel
    from revseq_cli.passes.verification import Examples, Report

_WRONG, _FAILED = 1, 2  # exit statuses
_FORMATS = ("text", "github", "json", "sarif")


@base.command(
    "verify",
    """Recompute every example of the operator on docs pages, and compare bit for bit.

    PAGE is Markdown, HTML, reStructuredText, plain text or a notebook, in any language, or - for standard input;
    page.md::2 is its second example alone. Of a folder, every page in it and below is checked, but for hidden ones;
    pages without an example are skipped and counted. Examples of other operators are skipped, too.

    Tables of feature levels, and the sentence that says since which level the operator is there, are held against what
    DirectML has. A level without a table is only a note.

    What is wrong is told as path:line:column. The exit status is 0 if everything is right, 1 if something is wrong or
    one of several pages cannot be read or has no example, and 2 if that is so of all.

    PAGE can also be a test of ONNX's ReverseSequence: a folder with model.onnx and test_data_set_0, or that data set.
    """,
    examples=(
        'revseq run "[[1, 2, 3]]" "[[2]]" --axis 1 --example > page.md',
        "revseq verify page.md",
    ),
)
@click.argument("pages", metavar="PAGE...", nargs=-1, required=True, type=values.Tensor(names=False))
@click.option("--fix", is_flag=True, help="Rewrite wrong OutputTensors in place: each page as a whole, or not at all.")
@click.option("--dry-run", is_flag=True, help="With --fix, show what would change, and write nothing.")
@click.option("--allow-empty", is_flag=True, help="Skip and count a PAGE without an example, as in a folder.")
@options.level_option
@click.option(
    "--format", "form", type=click.Choice(_FORMATS), default=_FORMATS[0], show_default=True,
    help="How to report: github is for annotations of its actions, sarif for code scanning.",
)  # fmt: skip
@options.json_option
@options.progress_option
@options.output_options
def command(
    pages: tuple[str, ...],
    fix: bool,
    dry_run: bool,
    allow_empty: bool,
    level: FeatureLevel,
    form: str,
    as_json: bool,
    console: Console,
) -> int:
    """Run the command."""
    from revseq_cli.report import pages as reports_as  # --help must not load NumPy
    from revseq_cli.report.words import message

    if dry_run and not fix:
        raise UsageError("--dry-run shows what --fix would change", "--fix with it", "add --fix")
    reports, skipped = _checked(pages, level, console, _Fixing(fix, dry_run), allow_empty=allow_empty)
    for _, error in reports:
        if isinstance(error, RevseqError):
            click.echo(message(error, color=console.paints_errors), file=sys.stderr, color=console.paints_errors)
    told = reports_as.Pages(reports, skipped, level)
    write = reports_as.FOR_PROGRAMS.get("json" if as_json else form)
    if write and (text := write(told)):
        click.echo(text)
    elif not write and not console.quiet:
        reports_as.print_text(told, color=console.colored)
    return _status([report for _, report in reports])


class _Fixing(NamedTuple):
    """Whether wrong pages are to be fixed, and whether that is only to be shown."""

    asked: bool
    dry_run: bool


def _checked(
    pages: Iterable[str], level: FeatureLevel, console: Console, fixing: _Fixing, *, allow_empty: bool
) -> tuple[list[tuple[str, Report | RevseqError]], int]:
    """The name, and the result or the error, of each page or example of one; how many pages have no example."""
    from revseq_cli.passes.pages import NoExampleError

    reports: list[tuple[str, Report | RevseqError]] = []
    reported: set[tuple[str, str | None]] = set()
    empty: set[tuple[str, str | None]] = set()
    for place in _places(pages):
        key = path, _ = place.key
        if key in reported or (path, None) in reported:
            continue
        result: Report | RevseqError
        try:
            result = place.report(level, console, fixing)
        except NoExampleError as e:
            if not place.is_named or allow_empty:
                empty.add(key)
                continue
            result = e
        except RevseqError as e:
            result = e.about(place.name)
        reported.add(key)
        reports.append((place.name, result))
    if not reports and not allow_empty:
        found = f"no example of this operator in {len(empty)} pages"
        raise UsageError(found, "pages with examples, or tests of ONNX", "add --allow-empty", listed(pages))
    return reports, len(empty - reported)


def _status(results: Sequence[Report | RevseqError]) -> int:
    """The exit status for the results of all pages."""
    failed = [isinstance(each, RevseqError) for each in results]
    if failed and all(failed):
        return _FAILED
    return _WRONG if any(isinstance(each, RevseqError) or not each.right for each in results) else 0


class _Place(NamedTuple):
    """A page to check: one that the user has named, or one in a folder, which perhaps cannot be read."""

    name: str
    reference: Reference | None = None
    error: RevseqError | None = None

    @property
    def is_named(self) -> bool:
        """Whether the user has named it, and so means it to have examples."""
        return self.reference is not None

    @property
    def key(self) -> tuple[str, str | None]:
        """What is equal for two names of one page, or of one example in it."""
        if not self.reference:
            return system.file_key(self.name), None
        path = self.name if self.reference.is_piped else system.file_key(self.reference.path)
        return path, self.reference.key

    def report(self, level: FeatureLevel, console: Console, fixing: _Fixing) -> Report:
        """Recompute its examples, and fix them if that is asked for; RevseqError if it cannot be read."""
        from revseq_cli.passes import pages, verification

        if self.error:
            raise self.error
        number = _number(self.reference) if self.reference else None
        found = verification.examples_of(self.reference) if self.reference else pages.open_below(self.name)
        report = verification.verify(found, level, number)
        if not fixing.asked or all(finding.right for finding in report.findings):
            return report
        return _fixed(found, report, level, number, console, dry_run=fixing.dry_run)


def _places(named: Iterable[str]) -> Iterator[_Place]:
    """Every page that is named, and those below each folder that is no test of ONNX."""
    from revseq_cli.formats import references
    from revseq_cli.formats.onnx import testdata
    from revseq_cli.formats.table import TEXT
    from revseq_cli.passes import walks

    for name in named:
        reference = references.Reference.file(name, TEXT.name)
        if reference.is_piped or not os.path.isdir(reference.path) or testdata.is_test(reference.path):  # noqa: PTH112
            yield _Place(reference.name, reference)
            continue
        if reference.key is not None:
            raise UsageError("is a folder, whose examples have no numbers", "no :: behind it", where=reference.path)
        for each in walks.pages_below(reference.path):
            yield _Place(each) if isinstance(each, str) else _Place(each.where, error=each)


def _fixed(
    found: Examples, report: Report, level: FeatureLevel, number: int | None, console: Console, *, dry_run: bool
) -> Report:
    """The report on a page after its fix, or with the diff of it; with the reason where it cannot be fixed."""
    from revseq_cli.passes import fixes, pages

    if not isinstance(found, pages.Page):
        return report._replace(unfixed="only pages are rewritten")
    try:
        fix = fixes.fix(found, report, level, number)
    except FormatError as e:
        return report._replace(unfixed=e.found)
    if dry_run:
        return report._replace(diff=fixes.diff(found, fix))
    for note in fixes.write(found, fix):
        console.note(note)
    return fix.report


def _number(reference: Reference) -> int | None:
    """The number behind ::, or None for a whole page; UsageError for other text."""
    if reference.key is None:
        return None
    number, _, label = reference.key.partition("::")
    if not number.isdecimal() or label:
        hint = f"try {system.quoted(f'{reference.path}::{number}')}" if number.isdecimal() else ""
        raise UsageError(f"no example {reference.key[:40]}", "a number, as in page.md::2", hint, reference.path)
    return int(number[:9])
