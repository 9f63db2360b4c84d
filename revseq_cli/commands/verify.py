"""`revseq verify`: the examples on docs pages, or the tests of ONNX, computed again."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
from typing import TYPE_CHECKING, NamedTuple

import click

from revseq_cli.commands import base, options
from revseq_cli.commands.base import Group
from revseq_cli.core import progress, system
from revseq_cli.core.errors import EngineError, FormatError, RevseqError, UsageError, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from revseq_cli.commands.base import Console
    from revseq_cli.core.errors import TensorIOError
    from revseq_cli.formats.references import Reference
    from revseq_cli.operator.spec import FeatureLevel
    from revseq_cli.pages.verification import Report
    from revseq_cli.porting.backends import Host

_WRONG, _FAILED = 1, 2  # exit statuses
_MOST_TRIED = 1000  # pages that are hidden or packed, for a hint
_FORMATS = ("text", "github", "json", "sarif")


@base.command(
    "verify",
    examples=(
        'revseq run "[[1, 2, 3]]" "[[2]]" --axis 1 --example > page.md',
        "revseq verify page.md",
    ),
)
@click.argument("pages", metavar="PAGE...", nargs=-1, required=True, type=options.Tensor(names=False))
@Group.WRITE.option(
    "--fix", is_flag=True, help="Correct wrong OutputTensors in place. Each page is corrected completely or not at all."
)
@Group.PRINT.option("--dry-run", is_flag=True, help="Show what --fix would change, and write nothing.")
@Group.WORK.option(
    "--allow-empty", is_flag=True, help="Skip and count a PAGE without an example, as for pages in a folder."
)
@options.on_option
@options.level_option
@Group.PRINT.option(
    "--format", "form", type=click.Choice(_FORMATS), default=_FORMATS[0], show_default=True,
    help="The form of the report. github prints annotations for GitHub Actions, and sarif is for code scanning.",
)  # fmt: skip
@options.progress_option
@options.output_options
def command(
    pages: tuple[str, ...],
    fix: bool,
    dry_run: bool,
    allow_empty: bool,
    on: str | None,
    level: FeatureLevel,
    form: str,
    console: Console,
) -> int:
    """Recompute every example of the operator on documentation pages, and compare bit for bit.

    PAGE is Markdown, HTML, reStructuredText, plain text or a notebook, in any language, or - for standard input.
    page.md::2 is only its second example. If PAGE is a folder, the command checks all pages in it and in the folders
    below, except hidden ones. It skips and counts pages without an example and examples of other operators.

    The command also checks what a page says about DirectML: tables of feature levels, the sentence that names the first
    level with the operator, the members of the struct, and sizes in prose. A level without a table only gives a note.

    The report gives each error as path:line:column. The exit status is 0 if everything is right, 1 if something is
    wrong or if some of several pages cannot be read or have no example, and 2 if this is true of all pages.

    With --on, ONNX Runtime recomputes the examples as ReverseSequence, or DirectML with --on directml, as in revseq
    diff. The report says if only the device contradicts a page. A device that fails is an error.

    PAGE can also be a test of ONNX's ReverseSequence: a folder with model.onnx and test_data_set_0, or that data set.
    The command also finds such tests below a folder, which can be a test itself. A test can be right although
    DirectML's data types refuse it: --feature-level none recomputes it.
    """
    from revseq_cli.report import pages as reports_as  # --help must not load NumPy

    if dry_run and not fix:
        raise UsageError("--dry-run shows what --fix would change", "--fix with it", "add --fix")
    if on and fix:
        raise UsageError("--fix writes the operator's output", "no --on with it", "leave out --on")
    host = options.host_of(on)
    report = functools.partial(_report, host=host, level=level, console=console, fix=fix, dry_run=dry_run)
    reports, skipped = _checked(pages, allow_empty, report)
    for _, error in reports:
        if isinstance(error, RevseqError):
            console.error(error)
    status = _status([each for _, each in reports])
    told = reports_as.Pages(reports, skipped, level, status)
    write = reports_as.FOR_PROGRAMS.get("json" if console.as_json else form)
    if write and (text := write(told)):
        click.echo(text)
    elif not write and not console.quiet:
        reports_as.print_text(told, color=console.colored)
    return status


def _checked(
    pages: Iterable[str], allow_empty: bool, report: Callable[[_Place], Report]
) -> tuple[list[tuple[str, Report | RevseqError]], int]:
    """The name, and the report or the error, of each page or example of one; how many pages have no example."""
    from revseq_cli.text.examples import NoExampleError

    reports: list[tuple[str, Report | RevseqError]] = []
    reported: set[tuple[str, str | None]] = set()
    empty: set[tuple[str, str | None]] = set()
    places = [*_places(pages)]
    with contextlib.ExitStack() as stack:
        advance = stack.enter_context(progress.begun("verify", len(places), "pages")) if len(places) > 1 else None
        if advance:  # which shows how many pages are done, not how many examples of each
            stack.enter_context(progress.watched(progress.nothing))
        for place in places:
            key = path, _ = place.key
            result: Report | RevseqError | None = None
            try:
                if key not in reported and (path, None) not in reported:
                    result = report(place)
            except NoExampleError as e:
                empty.add(key)
                result = e if place.reference and not allow_empty else None
            except EngineError:  # no page is at fault
                raise
            except RevseqError as e:
                result = e.about(place.name)
            if result:
                reported.add(key)
                reports.append((place.name, result))
            if advance:
                advance(1)
    if not reports and not allow_empty:
        found = f"no example of this operator in {len(empty)} pages"
        left_out = _left_out(pages)
        hint = f"try revseq verify {system.typed(left_out)}" if left_out else "add --allow-empty" if empty else ""
        raise UsageError(found, "pages with examples, or tests of ONNX", hint, listed(pages))
    return reports, len(empty - reported)


def _left_out(named: Iterable[str]) -> str:
    """A page with examples below these folders that is hidden or packed, and verified where it is named; else ""."""
    from revseq_cli.formats.references import Reference
    from revseq_cli.formats.table import TEXT
    from revseq_cli.pages import verification

    below = (each for folder in named for each in verification.places_below(folder, everything=True))
    for each in itertools.islice(below, _MOST_TRIED):
        with contextlib.suppress(RevseqError):
            if isinstance(each, str) and verification.examples_of(Reference.file(each, TEXT.name)):
                return each
    return ""


def _status(results: Sequence[Report | RevseqError]) -> int:
    """The exit status for the results of all pages."""
    failed = [isinstance(each, RevseqError) for each in results]
    if failed and all(failed):
        return _FAILED
    return _WRONG if any(isinstance(each, RevseqError) or not each.right for each in results) else 0


class _Place(NamedTuple):
    """A page to check: one in a folder, which perhaps cannot be read, or one that the user has named.

    The latter has a `reference`, and the user means it to have examples. `key` is equal for two names of one page, or
    of one example in it.
    """

    name: str
    key: tuple[str, str | None]
    reference: Reference | None = None
    error: RevseqError | None = None


def _places(named: Iterable[str]) -> Iterator[_Place]:
    """Every page that is named, and those below each folder, which can be a test of ONNX itself."""
    from revseq_cli.formats import references
    from revseq_cli.formats.onnx import testdata
    from revseq_cli.formats.table import TEXT
    from revseq_cli.pages import verification

    for name in named:
        reference = references.Reference.file(name, TEXT.name)
        path = reference.path
        if reference.is_piped:
            yield _Place(reference.name, (reference.name, reference.key), reference)
            continue
        itself = _Place(reference.name, (system.file_key(path), reference.key), reference)
        is_test = testdata.is_test(path)
        if not os.path.isdir(path) or (is_test and reference.key is not None):  # noqa: PTH112
            yield itself
        elif reference.key is not None:
            raise UsageError("is a folder, whose examples have no numbers", "no :: after it", where=path)
        else:
            below = [*map(_found, verification.places_below(path))]
            others = [each for each in below if each.key != itself.key]
            if is_test and (not others or testdata.is_data_set(path)):
                yield itself
                below = others
            yield from below


def _found(below: str | TensorIOError) -> _Place:
    """A page or a test in a folder, or what cannot be read there."""
    error, where = (None, below) if isinstance(below, str) else (below, below.where)
    return _Place(where, (system.file_key(where), None), error=error)


def _report(
    place: _Place, host: Host | None, level: FeatureLevel, console: Console, *, fix: bool, dry_run: bool
) -> Report:
    """Recompute the examples of a page, and fix them if that is asked for; RevseqError if it cannot be read."""
    from revseq_cli.pages import fixes, verification

    if place.error:
        raise place.error
    number = _number(place.reference) if place.reference else None
    found = verification.examples_of(place.reference) if place.reference else verification.examples_below(place.name)
    report = verification.verify(found, level, number, host)
    console.note(*dict.fromkeys(note for each in report.verdicts for note in each.notes))
    if not fix or all(each.right for each in report.verdicts):
        return report
    try:
        fixed = fixes.fix(found, report, level, number)
    except FormatError as e:
        return report._replace(unfixed=e.found)
    if dry_run:
        return report._replace(diff=fixes.diff(fixed))
    console.note(*fixes.write(fixed))
    return fixed.report


def _number(reference: Reference) -> int | None:
    """The number behind ::, or None for a whole page; UsageError for other text."""
    from revseq_cli.text.examples import number_of  # --help must not load NumPy

    if reference.key is None:
        return None
    number, _, label = reference.key.partition("::")
    found = number_of(number)
    if found is None or label:
        hint = f"try {system.typed(f'{reference.path}::{number}')}" if found is not None else ""
        raise UsageError(f"no example {reference.key[:40]}", "a number, as in page.md::2", hint, reference.path)
    return found
