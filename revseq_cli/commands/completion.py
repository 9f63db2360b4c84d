"""`revseq completion`: Click's completion script for a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from revseq_cli.commands import base

VARIABLE = "_REVSEQ_COMPLETE"  # Click's name for it


@base.command("completion", examples=('eval "$(revseq completion bash)"',))
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script for SHELL.

    Put eval "$(revseq completion bash)" into ~/.bashrc, or the same with zsh into ~/.zshrc. For fish, write the script
    to ~/.config/fish/completions/revseq.fish.
    """
    root = click.get_current_context().find_root().command
    if completion := get_completion_class(shell):
        click.echo(completion(root, {}, "revseq", VARIABLE).source())
