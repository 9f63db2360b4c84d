"""`revseq levels`: the table of feature levels."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import click

from revseq_cli.commands import base, options
from revseq_cli.operator.spec import INPUT, LENGTHS, OUTPUT, FeatureLevel, span, support
from revseq_cli.report import terminal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from revseq_cli.commands.base import Console


@base.command("levels", examples=("revseq levels 4_0", "revseq levels --json"))
@click.argument("level", metavar="[LEVEL]", type=options.LEVEL, required=False)
@options.output_options
def command(level: FeatureLevel | None, console: Console) -> None:
    """Show what the operator accepts at each feature level, or only at LEVEL."""
    from revseq_cli.report import objects

    levels = (level,) if level else tuple(FeatureLevel)
    if console.as_json:
        click.echo(objects.levels(levels))
    else:
        _print(levels, color=console.colored)


def _print(levels: Sequence[FeatureLevel], *, color: bool) -> None:
    """Print what each level accepts; those that accept the same are told together."""
    console = terminal.console(color=color)
    for row, group in itertools.groupby(levels, support):
        terminal.print_lines(console, [" ".join(level.short for level in group)], "bold")
        if row is None:
            terminal.print_lines(console, ["  the operator does not exist yet"])
        else:
            accepted = {
                "dimension counts": span(row.dimension_counts),
                "elements": f"at most {row.most_elements}" if row.most_elements is not None else "any number",
                f"{INPUT}, {OUTPUT}": ", ".join(t.name for t in row.values),
                LENGTHS: ", ".join(t.name for t in row.lengths),
            }
            for name, text in accepted.items():
                terminal.print_lines(console, terminal.hanging(f"  {name:<27}", text, console.width))
    if len(levels) > 1:
        none = "none is no level of DirectML: it has the operator's own rules, which hold unless you choose a level."
        terminal.print_lines(console, ["", *terminal.hanging("", none, console.width)])
