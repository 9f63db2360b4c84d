"""`revseq check`: every constraint with found and wanted, pass or fail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from revseq_cli.commands import base, options
from revseq_cli.ground.errors import UsageError

if TYPE_CHECKING:
    from revseq_cli.operator.spec import FeatureLevel


@base.command(
    "check",
    """Hold a job against every constraint of a feature level.

    INPUT and LENGTHS are named as in revseq run; a docs-style text or a DxDispatch model is a whole job and needs no
    LENGTHS.

    Each constraint is shown with what was found and what is wanted, then the lowest feature level that accepts the
    tensors, and what the lengths do: how many lie above the axis size and are clamped, how many change nothing.
    The exit status is 0 if every constraint holds, and 1 if one does not.
    """,
    epilog="Example: revseq check samples/example1.txt --feature-level 2_1",
)
@options.job_options
@click.option(
    "--example", is_flag=True, help="If every constraint holds, print the job as a whole docs-style example instead."
)
@options.full_option
@options.format_option
@options.json_option
@options.output_options
def command(
    example: bool,
    full: bool,
    format_name: str | None,
    level: FeatureLevel,
    as_json: bool,
    voice: options.Voice,
    **job_options: Any,
) -> int:
    """Carry the command out."""
    from revseq_cli.formats import textfiles
    from revseq_cli.operator import spec  # --help must not load NumPy
    from revseq_cli.passes import folds, jobs, reversal  # --help must not load NumPy
    from revseq_cli.passes.arrangement import Resources
    from revseq_cli.report import objects, tables, view  # --help must not load NumPy
    from revseq_cli.report.results import Check

    if example and as_json:
        raise UsageError("--example prints text", "no --json with it", "leave out --json")
    work = jobs.load(options.request_of(format_name=format_name, override=True, **job_options))
    values, lengths = work.values.desc, work.lengths.desc
    found = spec.constraints(values, lengths, work.axis, level)
    holds = all(constraint.ok for constraint in found)
    if example and holds:
        textfiles.require_text(values, work.values.name)
        result = reversal.reversed_in_memory(work, Resources())
        most = view.MOST_ON_TERMINAL if options.is_terminal() and not full else None
        click.echo(view.example_text(work.values, work.lengths, work.axis, result, most, voice.marks), color=True)
        return 0
    lowest = spec.lowest_level(values, lengths, work.axis)
    # Lengths that the operator could not use at any level have no effect to count.
    counts = folds.count_lengths(work, Resources()) if lowest is not None else None
    checked = Check(work.names, values, lengths, work.axis, level, found, lowest, counts, work.batch_axis, work.gaps())
    if as_json:
        click.echo(objects.check(checked))
    elif not voice.quiet:
        tables.print_check(checked, color=voice.colored)
    return 0 if holds else 1
