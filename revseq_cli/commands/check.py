"""`revseq check`: every constraint of a feature level, pass or fail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from revseq_cli.commands import base, options
from revseq_cli.ground.errors import UsageError

if TYPE_CHECKING:
    from revseq_cli.operator.spec import FeatureLevel


@base.command(
    "check",
    """Check a job against every constraint of a feature level.

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
    console: options.Console,
    **job_options: Any,
) -> int:
    """Run the command."""
    from revseq_cli.formats import textfiles
    from revseq_cli.operator import spec  # --help must not load NumPy
    from revseq_cli.passes import folds, jobs, reversal  # --help must not load NumPy
    from revseq_cli.passes.arrangement import Resources
    from revseq_cli.report import objects, tables, view  # --help must not load NumPy
    from revseq_cli.report.results import Check

    if example and as_json:
        raise UsageError("--example prints text", "no --json with it", "leave out --json")
    job = jobs.load(options.request_of(format_name=format_name, override=True, level=level, **job_options))
    values, lengths = job.values.desc, job.lengths.desc
    constraints = spec.constraints(values, lengths, job.axis, level)
    valid = all(constraint.ok for constraint in constraints)
    if example and valid:
        textfiles.require_text(values, job.values.name)
        output, _ = reversal.reversed_in_memory(job, Resources())
        most = view.MOST_ON_TERMINAL if options.is_terminal() and not full else None
        click.echo(view.example_text(job.values, job.lengths, job.axis, output, most, console.marks), color=True)
        return 0
    lowest = spec.lowest_level(values, lengths, job.axis)
    # Lengths that no level accepts have no effects to count.
    counts = folds.count_lengths(job, Resources()) if lowest is not None else None
    result = Check(job.names, values, lengths, job.axis, level, constraints, lowest, counts, job.batch_axis, job.gaps())
    if as_json:
        click.echo(objects.check(result))
    elif not console.quiet:
        tables.print_check(result, color=console.colored)
    return 0 if valid else 1
