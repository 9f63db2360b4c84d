"""`revseq verify`: the examples on docs pages, or the tests of ONNX, computed again."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from revseq_cli.commands import base, options, values
from revseq_cli.ground.errors import RevseqError, UsageError

if TYPE_CHECKING:
    from revseq_cli.commands.console import Console
    from revseq_cli.formats.references import Reference
    from revseq_cli.operator.spec import FeatureLevel
    from revseq_cli.passes.verification import Report

_WRONG, _FAILED = 1, 2  # exit statuses


@base.command(
    "verify",
    """Recompute every example of the operator on docs pages, and compare bit for bit.

    PAGE is Markdown, HTML or plain text in any language, or - for standard input; page.md::2 is its second example
    alone. Examples of other operators are skipped and counted. The exit status is 0 if every example is right, 1 if
    one is wrong, and 2 for a page that cannot be read or has no example.

    PAGE can also be a test of ONNX's ReverseSequence: a folder with model.onnx and test_data_set_0, or that data set.
    """,
    examples=(
        'revseq run "[[1, 2, 3]]" "[[2]]" --axis 1 --example > page.md',
        "revseq verify page.md",
    ),
)
@click.argument("pages", metavar="PAGE...", nargs=-1, required=True, type=values.Tensor(names=False))
@options.level_option
@options.json_option
@options.progress_option
@options.output_options
def command(pages: tuple[str, ...], level: FeatureLevel, as_json: bool, console: Console) -> int:
    """Run the command."""
    from revseq_cli.formats import references  # --help must not load NumPy
    from revseq_cli.formats.table import TEXT
    from revseq_cli.passes.verification import examples_of, verify
    from revseq_cli.report import objects, tables  # --help must not load NumPy
    from revseq_cli.report.words import message

    reports: dict[str, Report | RevseqError] = {}
    for page in pages:
        reference = references.Reference.file(page, TEXT.name)
        try:
            reports[reference.name] = verify(examples_of(reference), level, _number(reference))
        except RevseqError as e:
            reports[reference.name] = e.about(reference.name)
    if as_json:
        click.echo(objects.pages(reports, level))
    errors = [each for each in reports.values() if isinstance(each, RevseqError)]
    for error in errors:
        click.echo(message(error, color=console.paints_errors), file=sys.stderr, color=console.paints_errors)
    if not (as_json or console.quiet):
        tables.print_pages(reports, color=console.colored)
    if errors:
        return _FAILED
    findings = [f for each in reports.values() if not isinstance(each, RevseqError) for f in each.findings]
    return 0 if all(finding.right for finding in findings) else _WRONG


def _number(reference: Reference) -> int | None:
    """The number behind ::, or None for a whole page; UsageError for other text."""
    if reference.key is None:
        return None
    if not reference.key.isdecimal():
        raise UsageError(f"no example {reference.key[:40]}", "a number, as in page.md::2", where=reference.path)
    return int(reference.key[:9])
