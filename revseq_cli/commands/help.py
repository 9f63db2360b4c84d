"""`revseq help`: the help of a command, or a page of the manual."""

from __future__ import annotations

import sys
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from revseq_cli.commands import base
from revseq_cli.commands.cli import COMMANDS

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

TOPICS = ("formats", "porting")  # pages of the manual that are no help of a command


@base.command("help", examples=("revseq help run", "revseq help formats"))
@click.argument("name", metavar="[COMMAND|TOPIC]", required=False, type=click.Choice([*COMMANDS, *TOPICS]))
def command(name: str | None) -> None:
    """Show the help of COMMAND, or a page of the manual: TOPIC is formats or porting."""
    root = click.get_current_context().find_root()
    if name in TOPICS:
        from rich.markdown import Markdown

        from revseq_cli.report import terminal

        terminal.console(color=base.colored("auto", sys.stdout)).print(Markdown(_page(name).read_text("utf-8")))
        return
    if name and (found := cast("click.Group", root.command).get_command(root, name)):
        click.echo(found.get_help(click.Context(found, root, name)))
    else:
        click.echo(root.get_help())


def _page(topic: str) -> Traversable | Path:
    """The page in the installed package, or in a checkout."""
    installed = resources.files("revseq_cli") / "man" / f"{topic}.md"
    return installed if installed.is_file() else Path(__file__).parents[2] / "man" / f"{topic}.md"
