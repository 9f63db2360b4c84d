"""`revseq help`: the help of a command."""

from __future__ import annotations

from typing import cast

import click

from revseq_cli.commands import base


def _commands(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    root = ctx.find_root()
    return [name for name in cast("click.Group", root.command).list_commands(root) if name.startswith(incomplete)]


@base.command(
    "help",
    """Show the help of COMMAND, as revseq COMMAND --help does, or that of revseq itself.""",
    examples=("revseq help run", "revseq help"),
)
@click.argument("name", metavar="[COMMAND]", required=False, shell_complete=_commands)
def command(name: str | None) -> None:
    """Run the command."""
    root = click.get_current_context().find_root()
    if name is None:
        click.echo(root.get_help())
        return
    _, found, _ = cast("click.Group", root.command).resolve_command(root, [name])
    if found:
        click.echo(found.get_help(click.Context(found, root, name)))
