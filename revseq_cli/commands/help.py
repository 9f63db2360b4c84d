"""`revseq help`: the help of a command."""

from __future__ import annotations

from typing import cast

import click

from revseq_cli.commands import base, options
from revseq_cli.commands.cli import COMMANDS

_SCHEMA = "json"  # which is no command


@base.command(
    "help",
    examples=("revseq help run", "revseq help json"),
)
@click.argument("name", metavar="[COMMAND]", required=False, type=options.Parsed("command", str, (*COMMANDS, _SCHEMA)))
def command(name: str | None) -> None:
    """Show the help of COMMAND, as revseq COMMAND --help does. Without COMMAND, show the help of revseq itself.

    revseq help json prints a JSON Schema of all that --json prints.
    """
    root = click.get_current_context().find_root()
    if name == _SCHEMA:
        import json

        from revseq_cli.report import objects

        click.echo(json.dumps(objects.schema(), indent=2))
        return
    if name is None:
        click.echo(root.get_help())
        return
    _, found, _ = cast("click.Group", root.command).resolve_command(root, [name])
    if found:
        click.echo(found.get_help(click.Context(found, root, found.name)))
