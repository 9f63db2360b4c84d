"""`revseq levels`: the table of feature levels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from revseq_cli.commands import base, options

if TYPE_CHECKING:
    from revseq_cli.commands.base import Console
    from revseq_cli.operator.spec import FeatureLevel


@base.command("levels", examples=("revseq levels 4_0", "revseq levels --json"))
@click.argument("level", metavar="[LEVEL]", type=options.LEVEL, required=False)
@options.output_options
def command(level: FeatureLevel | None, console: Console) -> None:
    """Show what the operator accepts at each feature level, or only at LEVEL."""
    from revseq_cli.operator.spec import FeatureLevel
    from revseq_cli.report import checks, objects

    levels = (level,) if level else tuple(FeatureLevel)
    if console.as_json:
        click.echo(objects.levels(levels))
    else:
        checks.print_levels(levels, color=console.colored)
