"""`revseq verify`: docs pages as tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from revseq_cli.commands import base, options
from revseq_cli.ground.errors import RevseqError, UsageError

if TYPE_CHECKING:
    from revseq_cli.formats.references import Reference
    from revseq_cli.operator.spec import FeatureLevel
    from revseq_cli.passes.pages import PageReport

_WRONG, _FAILED = 1, 2


@base.command(
    "verify",
    """Recompute every example of the operator on docs pages, and compare bit for bit.

    PAGE is Markdown, HTML or plain text in any language, or - for standard input; page.md::2 is its second example
    alone. Examples of other operators are skipped and counted. The exit status is 0 if every example is right, 1 if
    one is wrong, and 2 for a page that cannot be read or has no example.
    """,
    epilog="Example: revseq verify samples/page.md",
)
@click.argument("pages", metavar="PAGE...", nargs=-1, required=True, type=click.Path())
@options.level_option
@options.json_option
@options.output_options
def command(pages: tuple[str, ...], level: FeatureLevel, as_json: bool, voice: options.Voice) -> int:
    """Carry the command out."""
    from revseq_cli.formats import references  # --help must not load NumPy
    from revseq_cli.formats.table import TEXT
    from revseq_cli.passes.pages import verify
    from revseq_cli.report import objects, tables  # --help must not load NumPy
    from revseq_cli.report.words import message

    found: dict[str, PageReport | RevseqError] = {}
    for page in pages:
        reference = references.Reference.file(page, TEXT.name)
        try:
            found[reference.name] = verify(reference.text, level, _number(reference))
        except RevseqError as e:
            e.hint = ""  # hints are about options that other commands have
            found[reference.name] = e.about(reference.name)
    if as_json:
        click.echo(objects.pages(found, level))
    for each in found.values():
        if isinstance(each, RevseqError):
            click.echo(message(each), err=True)
    if not (as_json or voice.quiet):
        tables.print_pages(found, color=voice.colored)
    pages_read = list(found.values())
    if any(isinstance(each, RevseqError) for each in pages_read):
        return _FAILED
    return (
        0 if all(f.right for each in pages_read if not isinstance(each, RevseqError) for f in each.findings) else _WRONG
    )


def _number(reference: Reference) -> int | None:
    """The example that is asked for, of a whole page none."""
    if reference.key is None:
        return None
    if not reference.key.isdecimal():
        raise UsageError(f"no example {reference.key[:40]}", "a number, as in page.md::2", where=reference.path)
    return int(reference.key[:9])
