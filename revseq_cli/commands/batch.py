"""`revseq batch`: many jobs, from a manifest or for each file that matches."""

from __future__ import annotations

import contextlib
import re
import time
from collections import Counter, defaultdict
from collections.abc import Generator, Hashable, Iterable, Sequence
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
    MissingFileError,
    OutputExistsError,
    RevseqError,
    UsageError,
)

if TYPE_CHECKING:
    from revseq_cli.commands.entries import Entry, Jobs
    from revseq_cli.commands.pool import Outcome

# Options of `run` that are not columns of a manifest: those for what it prints, and one that may be
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
# The others, by their long names, such as batch-axis.
_COLUMNS = {
    max(p.opts, key=len).lstrip("-"): p for p in run.command.params if p.name not in _NO_COLUMNS
}
_DEFAULT_OPTIONS = [
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
    params=_DEFAULT_OPTIONS,
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
    from revseq_cli.report import terminal  # --help must not load NumPy

    jobs = _read_jobs(manifest, pattern, {"lengths": lengths, "output": output}, defaults)
    if not jobs:
        if pattern is None:
            console.note(f"{manifest} names no file")
        else:
            shown = pattern or "''"
            console.note(f"no file matches --each {shown}")
        return 0
    start = time.monotonic()
    outcomes: list[Outcome] = []
    running = _run_jobs(
        jobs.entries,
        defaults["cores"],
        resume=resume,
        dry_run=dry_run,
        shows_errors=console.verbose > 1,
    )
    with signals.defer(), contextlib.closing(running):
        try:
            for outcome in running:
                outcomes.append(outcome)
                _print_outcome(outcome, jobs, console)
        finally:
            outcomes.sort(key=lambda outcome: outcome.line)
            _print_notes(outcomes, jobs, console)
            _print_errors(outcomes, jobs, console)
    has_failed = any(outcome.error for outcome in outcomes)
    if not console.as_json and not console.quiet:
        seconds = None if dry_run else time.monotonic() - start
        style = terminal.RED if has_failed else terminal.GREEN
        summary = console.paint(_summarize(outcomes, len(jobs.entries), seconds), style)
        click.echo(summary, color=console.in_color)
    return 1 if has_failed else 0


def _run_jobs(
    entries: Sequence[Entry], cores: int | None, *, resume: bool, dry_run: bool, shows_errors: bool
) -> Generator[Outcome, None, None]:
    """The outcomes of the jobs, as they end; with `resume`, first of those that are done."""
    from revseq_cli.commands.pool import Pool

    # Of files at addresses, the states are asked for folder by folder.
    paths: list[str] = []
    for entry in entries:
        paths += [*entry.inputs.values(), entry.output]
    files.cache_states(paths)
    to_do = [*entries]
    skipped: list[Outcome] = []
    if resume:
        to_do, skipped = _skip_complete(entries)
    pool = Pool(to_do, cores, dry_run=dry_run, shows_errors=shows_errors)
    counts = Counter(entry.inputs.get("lengths") for entry in to_do)
    common_lengths = [path for path, count in counts.items() if path and count > 1]
    with (
        files.fetch_for_jobs(common_lengths),  # each of them is downloaded once
        signals.begin_stage("batch", len(to_do), "jobs") as advance,
        contextlib.closing(pool.run()) as outcomes,
    ):
        yield from skipped
        for outcome in outcomes:
            if isinstance(outcome.error, OutputExistsError):
                outcome.error.set_hint(_RERUN_HINT)
            yield outcome
            advance(1)


def _skip_complete(entries: Iterable[Entry]) -> tuple[list[Entry], list[Outcome]]:
    """The jobs to do with --resume, and the outcomes of those that are done."""
    from revseq_cli.commands.pool import Outcome

    left: list[Entry] = []
    skipped: list[Outcome] = []
    for entry in entries:
        if _is_up_to_date(entry):
            skipped.append(Outcome(entry.line, entry.options["output"], None, skipped=True))
        else:
            left.append(replace(entry, remakes=files.exists(entry.output)))
    return left, skipped


def _read_jobs(
    path: str | None,
    pattern: str | None,
    names: dict[str, str | None],
    defaults: dict[str, Any],
) -> Jobs | None:
    """The jobs of MANIFEST, or for each file that matches --each; None if there are no files.

    `names` has --lengths and -o, by their columns. UsageError if both MANIFEST and --each are
    there, or neither, and for -o or --lengths where they do not apply.
    """
    from revseq_cli.commands import manifest, templates  # --help must not load NumPy

    if path is None and pattern is None:
        hint = f"for a job for each file, add --each {templates.PATTERN} -o {templates.OUTPUT}"
        raise UsageError("no manifest is given", "one MANIFEST, or --each", hint)
    if path is not None and pattern is not None:
        reason = "so that the shell does not expand the pattern, quote it"
        hint = f"{reason}: --each {templates.PATTERN}"
        raise UsageError("--each and MANIFEST are two ways to name jobs", "one of them", hint)
    if path is not None:
        _refuse_pattern(path)
        if not any(names.values()):
            return manifest.read(path, _COLUMNS, defaults)
        _require_list(path, names)
    if not names["output"]:
        hint = f"to name them after the inputs, add -o {templates.OUTPUT}"
        raise UsageError("the jobs have no output", "a name for each", hint)
    if path is not None:
        inputs = templates.read_names(path)
    else:
        inputs = templates.list_inputs(pattern or "")
    if not inputs:
        return None
    return templates.make_jobs(inputs, pattern or "", names, _COLUMNS, defaults)


def _refuse_pattern(path: str) -> None:
    """MissingFileError for a MANIFEST that is a pattern, and no file."""
    if re.search(r"[*?]", path) and not files.exists(path):
        hint = f"to run a job for each file that matches, type --each {platform.quote(path)}"
        raise MissingFileError("no such file", hint=hint, where=path)


def _require_list(path: str, names: dict[str, str | None]) -> None:
    """UsageError for -o or --lengths with a manifest, whose columns have these names."""
    if not path.lower().endswith((".csv", ".json", ".jsonl")):
        return
    problem = "-o and --lengths are for --each, and for a list of names"
    options_of_columns = {"output": "-o", "lengths": "--lengths"}
    typed = [options_of_columns[column] for column, name in names.items() if name]
    hint = f"leave out {' and '.join(typed)}"
    raise UsageError(problem, "columns of the manifest", hint, path)


def _is_up_to_date(entry: Entry) -> bool:
    """Whether the output is there and not older than the inputs; one that is there is complete."""
    from revseq_cli.formats.outputs import has_tensor

    output = files.time_of_change(entry.output)
    if output is None or not has_tensor(entry.options["output"]):
        return False
    for path in entry.inputs.values():
        changed = files.time_of_change(path)
        if changed is None or changed > output:
            return False
    return True


def _summarize(outcomes: Sequence[Outcome], jobs: int, seconds: float | None) -> str:
    """How many of all jobs are done, skipped, failed or not begun, with their bytes.

    `seconds` is how long they took; it is None for a dry run.
    """
    from revseq_cli.report import terminal

    failed = sum(outcome.error is not None for outcome in outcomes)
    skipped = sum(outcome.skipped for outcome in outcomes)
    done = len(outcomes) - failed - skipped
    not_begun = jobs - len(outcomes)
    if seconds is None:
        duration = ""
        counts = {"to do": done, "skipped": skipped, "wrong": failed, "not begun": not_begun}
    else:
        duration = f" in {seconds:.2f} s"
        counts = {"done": done, "skipped": skipped, "failed": failed, "not begun": not_begun}
    words = ", ".join(f"{count:,} {kind}" for kind, count in counts.items() if count)
    size = sum(outcome.bytes for outcome in outcomes)
    return f"{terminal.say_count(jobs, 'job')}: {words or 'nothing'}; {size:,} bytes{duration}"


def _print_json(outcome: Outcome) -> None:
    """Print the report on a job; its exit status is what `run` would end with."""
    from revseq_cli.report import objects

    record = objects.OutcomeRecord(
        line=outcome.line,
        output=outcome.output,
        bytes=outcome.bytes,
        clamped=outcome.clamped,
        skipped=outcome.skipped,
        planned=outcome.planned,
    )
    errors = [outcome.error] if outcome.error else []
    status = 2 if errors else 0
    report = objects.report_text("batch", status, notes=outcome.notes, errors=errors, record=record)
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


def _print_notes(outcomes: Iterable[Outcome], jobs: Jobs, console: Console) -> None:
    """Print the notes; those on one subject once, with the lines of all jobs that have it."""
    from revseq_cli.formats.leftovers import subject_of

    notes: dict[str, str] = {}
    lines: dict[str, list[int]] = defaultdict(list)
    for outcome in outcomes:
        for note in outcome.notes:
            subject = subject_of(note)
            notes.setdefault(subject, note)
            lines[subject].append(outcome.line)
    for subject, note in notes.items():
        console.note(f"{jobs.name_jobs(lines[subject])}: {note}")


def _print_errors(outcomes: Iterable[Outcome], jobs: Jobs, console: Console) -> None:
    """Print the errors; those with one reason once, with the lines of all jobs that have it."""
    from revseq_cli.report.terminal import combine, reason

    errors: dict[Hashable, list[RevseqError]] = defaultdict(list)
    lines: dict[Hashable, list[int]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.error is None:
            continue
        cause: Hashable = reason(outcome.error)
        if isinstance(outcome.error, DiskFullError):
            cause = DiskFullError  # whichever files are on that disk
        errors[cause].append(outcome.error)
        lines[cause].append(outcome.line)
    for cause, alike in errors.items():
        for error in combine(alike):  # several if each of them has several parts
            print_error(error, console.color, jobs.name_jobs(lines[cause]))
