"""`revseq batch`: many jobs, from a manifest or for each file that matches."""

from __future__ import annotations

import contextlib
import itertools
import re
import time
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from revseq_cli import files
from revseq_cli.commands import options, run
from revseq_cli.commands.console import Console, print_error
from revseq_cli.commands.groups import Group, make_command
from revseq_cli.commands.values import complete_files
from revseq_cli.core import platform, signals
from revseq_cli.core.errors import (
    DiskFullError,
    FileThereError,
    MissingFileError,
    RevseqError,
    UsageError,
)

if TYPE_CHECKING:
    from revseq_cli.commands.manifest import Entry, Jobs
    from revseq_cli.report.outcomes import Outcome

# Options of `run` that are no columns of a manifest: those for what it prints, and one that may be
# given several times.
_NO_COLUMNS = {
    "feed",
    "example",
    "picture",
    "full",
    "dry_run",
    "as_json",
    "quiet",
    "verbose",
    "color",
}
_COLUMNS = {
    max(p.opts, key=len).lstrip("-"): p for p in run.command.params if p.name not in _NO_COLUMNS
}
_DEFAULTS = [
    param for name, param in _COLUMNS.items() if name not in ("input", "lengths", "output")
]
# For outputs that exist already.
_RERUN_HINT = (
    "add one of them:\n"
    "  to skip the jobs that are done: --resume\n"
    "  to run all jobs again: --overwrite"
)


@make_command(
    "batch",
    params=_DEFAULTS,
    examples=(
        r"""printf 'input,lengths,axis,output\n"[1, 2]",[2],0,y.npy\n' > jobs.csv""",
        "revseq batch jobs.csv",
    ),
)
@click.argument("manifest", metavar="[MANIFEST]", required=False, shell_complete=complete_files)
@Group.READ.option(
    "--each",
    "pattern",
    metavar="PATTERN",
    help="Run a job for each file that matches, such as 'data/*.npy'.",
)
@Group.READ.option(
    "--lengths", metavar="NAME",
    help="The lengths of each job, such as 'lengths/{stem}.npy' (with -o).",
)  # fmt: skip
@Group.WRITE.option(
    "-o", "--output", metavar="NAME",
    help="The output of each job, such as 'out/{stem}.npy' (with --each, or a list of inputs).",
)  # fmt: skip
@Group.WRITE.option(
    "--resume", is_flag=True,
    help="Skip jobs whose output is complete and not older than its inputs; replace older outputs.",
)  # fmt: skip
@Group.PRINT.option(
    "--dry-run",
    is_flag=True,
    help="Check everything except the values, print how many bytes would be written, "
    "and write nothing.",
)
@options.output_options
def command(
    manifest: str | None,
    pattern: str | None,
    lengths: str | None,
    output: str | None,
    resume: bool,
    dry_run: bool,
    console: Console,
    **defaults: Any,
) -> int:
    """Run all jobs in MANIFEST; small jobs run in parallel.

    MANIFEST is a JSON Lines or CSV file, or - for standard input. Each line is a job: input,
    lengths, axis, output, and any option below under its long name. In JSON, lengths may be a list.
    Options on the command line are the defaults for all jobs. Paths are relative to the current
    folder. The suffix .jsonl, .json or .csv determines the format; with any other suffix, a file
    that begins with a brace is JSON. The cells of CSV are separated by commas, semicolons or tabs,
    whichever the first line uses.

    With --each PATTERN instead of MANIFEST, each matching file is an input, unless it is the output
    or the lengths of another job. With -o but without --each, MANIFEST is a list of inputs, one a
    line, or each followed by a NUL as find -print0 writes them.

    In --lengths and -o, {stem} is replaced by the input's name without its suffix (s for s.npy.gz),
    {match} by what the wildcards matched, {name} by the name, {suffix} by the suffix, and {parent}
    by the folder. Type {{ or }} for a literal brace. In a pattern, ** matches any number of
    folders. Output folders are created.

    The whole MANIFEST is checked before the first job starts. If a job fails or its process dies,
    the others still run, and the exit status is 1. With --json, the command prints an object for
    each job.
    """
    from revseq_cli.commands.pool import Pool  # --help must not load NumPy
    from revseq_cli.report import terminal
    from revseq_cli.report.outcomes import summarize

    jobs = _read_jobs(manifest, pattern, {"lengths": lengths, "output": output}, defaults)
    if not jobs:
        if pattern is None:
            console.note(f"{manifest} names no file")
        else:
            console.note(f"no file matches --each {pattern or repr(pattern)}")
        return 0
    start = time.monotonic()
    outcomes: list[Outcome] = []
    with signals.defer():
        entries = jobs.entries
        skipped: list[Outcome] = []
        files.learn_states(
            [path for entry in entries for path in (*entry.inputs.values(), entry.output)]
        )
        if resume:
            entries, skipped = _skip_complete(entries)
        pool = Pool(entries, defaults["cores"], plans=dry_run, shows_errors=console.verbose > 1)
        with (
            files.bring_common_near(_list_common_lengths(entries)),
            signals.begin_stage("batch", len(entries), "jobs") as advance,
            contextlib.closing(pool.run()) as results,
        ):
            try:
                for outcome in itertools.chain(skipped, results):
                    outcomes.append(outcome)
                    if isinstance(outcome.error, FileThereError):
                        outcome.error.hint = _RERUN_HINT
                    _print_outcome(outcome, jobs, console)
                    if not outcome.skipped:
                        advance(1)
            finally:
                in_order = sorted(outcomes, key=lambda outcome: outcome.line)
                _print_notes_and_errors(in_order, jobs, console)
    if not console.as_json and not console.quiet:
        seconds = None if dry_run else time.monotonic() - start
        has_failed = any(outcome.error for outcome in outcomes)
        style = terminal.RED if has_failed else terminal.GREEN
        summary = console.paint(summarize(outcomes, len(jobs.entries), seconds), style)
        click.echo(summary, color=console.in_color)
    return int(any(outcome.error for outcome in outcomes))


def _list_common_lengths(entries: Iterable[Entry]) -> list[str]:
    """The files of lengths of more than one job."""
    counts = Counter(entry.inputs.get("lengths") for entry in entries)
    return [path for path, count in counts.items() if path and count > 1]


def _skip_complete(entries: Iterable[Entry]) -> tuple[list[Entry], list[Outcome]]:
    """The jobs to do with --resume, and the outcomes of those that are done."""
    from revseq_cli.report.outcomes import Outcome

    left: list[Entry] = []
    skipped: list[Outcome] = []
    for entry in entries:
        if _is_up_to_date(entry):
            skipped.append(Outcome(entry.line, entry.options["output"], None, skipped=True))
        else:
            left.append(replace(entry, remakes=files.exists(entry.output)))
    return left, skipped


def _read_jobs(
    path: str | None, pattern: str | None, templates: dict[str, Any], defaults: dict[str, Any]
) -> Jobs | None:
    """The jobs; None where no file matches or is named.

    UsageError if both MANIFEST and --each are there, or neither.
    """
    from revseq_cli.commands import manifest  # --help must not load NumPy

    if path is None and pattern is None:
        hint = f"for a job for each file, add --each {manifest.PATTERN} -o {manifest.OUTPUT}"
        raise UsageError("no manifest is given", "one MANIFEST, or --each", hint)
    if path is not None and pattern is not None:
        reason = "so that the shell does not expand the pattern, quote it"
        hint = f"{reason}: --each {manifest.PATTERN}"
        raise UsageError("--each and MANIFEST are two ways to name jobs", "one of them", hint)
    if path is not None:
        if re.search(r"[*?]", path) and not files.exists(path):
            hint = f"to run a job for each file that matches, type --each {platform.quote(path)}"
            raise MissingFileError("no such file", hint=hint, where=path)
        if not any(templates.values()):
            return manifest.read(path, _COLUMNS, defaults)
        if path.lower().endswith((".csv", ".json", ".jsonl")):
            problem = "-o and --lengths are for --each, and for a list of names"
            names = {"output": "-o", "lengths": "--lengths"}
            typed = [names[column] for column, template in templates.items() if template]
            hint = f"leave out {' and '.join(typed)}"
            raise UsageError(problem, "columns of the manifest", hint, path)
    if not templates["output"]:
        hint = f"to name them after the inputs, add -o {manifest.OUTPUT}"
        raise UsageError("the jobs have no output", "a name for each", hint)
    if path is not None:
        paths = manifest.read_names(path)
    else:
        paths = manifest.list_inputs(pattern or "")
    if not paths:
        return None
    return manifest.make_jobs(paths, pattern or "", templates, _COLUMNS, defaults)


def _is_up_to_date(entry: Entry) -> bool:
    """Whether the output, which is complete where it exists, is not older than the inputs."""
    from revseq_cli.formats.outputs import has_tensor

    output = files.time_of_change(entry.output)
    if output is None or not has_tensor(entry.options["output"]):
        return False
    for path in entry.inputs.values():
        changed = files.time_of_change(path)
        if changed is None or changed > output:
            return False
    return True


def _print_json(outcome: Outcome) -> None:
    """Print the report on a job; its exit status is what `run` would end with."""
    from revseq_cli.report import objects

    record = objects.OutcomeRecord(
        outcome.line,
        outcome.output,
        outcome.bytes,
        outcome.clamped,
        skipped=outcome.skipped,
        planned=outcome.planned,
    )
    errors = [outcome.error] if outcome.error else []
    status = 2 if errors else 0
    report = objects.write_report(
        "batch", status, notes=outcome.notes, errors=errors, record=record
    )
    click.echo(report)


def _print_outcome(outcome: Outcome, jobs: Jobs, console: Console) -> None:
    """Print the report on a job, or with -v what is written."""
    if console.as_json:
        _print_json(outcome)
    if outcome.error:
        return
    verb = "wrote"
    if outcome.skipped:
        verb = "skipped"
    elif outcome.planned:
        verb = "planned"
    console.detail(f"{jobs.name_jobs([outcome.line])}: {verb} {outcome.output}")


def _print_notes_and_errors(outcomes: Iterable[Outcome], jobs: Jobs, console: Console) -> None:
    """Print the notes, and then the errors; those that are alike once, with the lines of all."""
    from revseq_cli.formats.leftovers import subject_of
    from revseq_cli.report.terminal import combine, reason

    notes: dict[str, str] = {}
    lines_of_notes: dict[str, list[int]] = defaultdict(list)
    errors: dict[Hashable, dict[int, RevseqError]] = defaultdict(dict)
    for outcome in outcomes:
        for note in outcome.notes:
            subject = subject_of(note)
            notes.setdefault(subject, note)
            lines_of_notes[subject].append(outcome.line)
        error = outcome.error
        if isinstance(error, DiskFullError):
            errors[DiskFullError][outcome.line] = error
        elif error:
            errors[reason(error)][outcome.line] = error
    for subject, note in notes.items():
        console.note(f"{jobs.name_jobs(lines_of_notes[subject])}: {note}")
    for alike in errors.values():
        for part in combine([*alike.values()]):
            print_error(part, console.color, jobs.name_jobs([*alike]))
