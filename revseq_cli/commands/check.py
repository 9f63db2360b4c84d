"""`revseq check`: a job against every constraint of a feature level, or of all levels."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from revseq_cli.commands import base, options, pictures
from revseq_cli.commands.console import is_terminal
from revseq_cli.ground.errors import UsageError

if TYPE_CHECKING:
    from revseq_cli.commands.console import Console
    from revseq_cli.operator.spec import FeatureLevel


@base.command(
    "check",
    examples=(
        'revseq check "[[1, 2, 3], [4, 5, 6]]" "[[2], [3]]" --axis 1',
        'revseq check "[[1, 2, 3]]" "[[2]]" --axis 1 --feature-level all',
    ),
)
@options.job_options
@options.levels_option
@options.on_option
@click.option("--all", "every", is_flag=True, help="Print the constraints that pass, too.")
@pictures.example_option
@options.full_option
@options.format_option
@options.output_options
def command(
    on: str | None,
    every: bool,
    example: str | None,
    full: bool,
    levels: tuple[FeatureLevel, ...],
    console: Console,
    **job_options: Any,
) -> int:
    """Check a job against every constraint of a feature level, or of all levels.

    INPUT and LENGTHS are named as in revseq run; a docs-style text or a DxDispatch model is a whole job and needs no
    LENGTHS. Nor does model.onnx::node, a ReverseSequence node: without --feed, sizes and data types are inferred.

    If every constraint holds, --example prints the job as a whole example instead of the report.

    First comes the verdict, then each constraint that fails, with what is wanted and a hint, and with --all those that
    pass; then the job: the axis that is reversed and the batch axis, how many lengths lie above the axis size and are
    clamped, how many change nothing, and the lowest feature level that accepts the tensors.

    With --feature-level all, a table has pass or FAIL for every constraint at every level, and what fails at all of
    DirectML's levels stands below.

    With --on, the job also runs as ReverseSequence in ONNX Runtime, or on DirectML with --on directml. The report says
    whether the answer is right, and which levels it agrees with, as far as the data type shows it.

    The exit status is 0 if every constraint holds, and 1 if one does not. With --feature-level all it is 0 if one of
    DirectML's levels accepts the job. With --on, it is 1 also if the job runs wrongly there, or not at all.
    """
    from revseq_cli.formats import textfiles
    from revseq_cli.operator import spec  # --help must not load NumPy
    from revseq_cli.passes import jobs, reversal  # --help must not load NumPy
    from revseq_cli.passes.arrangement import Resources
    from revseq_cli.report import checks, objects, view  # --help must not load NumPy

    for option, given in (("--json", console.as_json), ("--on", on)):
        if example and given:
            raise UsageError("--example prints the job as text", f"no {option} with it", f"leave out {option}")
    if example and len(levels) > 1:
        raise UsageError("--example is for one feature level", "no --feature-level all", "try --feature-level 5_0")
    host = options.host_of(on)
    level = levels[0] if len(levels) == 1 else spec.DIRECTML[-1]
    job = jobs.load(options.request_of(override=True, level=level, inferred=not (example or host), **job_options))
    values, lengths = job.values.desc, job.lengths.desc
    constraints = {level: spec.constraints(values, lengths, job.axis, level) for level in levels}
    if example and not spec.broken(constraints[levels[0]]):
        textfiles.require_text(values, job.values.name)
        output, _ = reversal.reversed_in_memory(job, Resources())
        most = view.MOST_ON_TERMINAL if is_terminal() and not full else None
        click.echo(pictures.example_text(job, output, most, console, example), color=True)
        return 0
    result = pictures.result_of(job, constraints, Resources(), host)
    if not result.valid:
        result = result._replace(choices=jobs.choices_for(job, spec.broken(constraints[level])))
    if console.as_json:
        click.echo(objects.check(result))
    elif not console.quiet:
        checks.print_check(result, sys.argv[1:], every=every, color=console.colored)
    return 0 if result.right else 1
