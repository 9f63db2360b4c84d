"""`revseq batch`: many jobs, side by side."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from revseq_cli.commands import options, run
from revseq_cli.commands.options import Group
from revseq_cli.core.errors import DiskFullError, FileThereError, UsageError
from revseq_cli.formats import table

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

    from revseq_cli.commands.manifest import Entry, Jobs
    from revseq_cli.commands.options import Console
    from revseq_cli.core.errors import RevseqError
    from revseq_cli.report.objects import Outcome

# A job of a batch has the options of `run` but those that say what it prints, and those with several values.
_COLUMNS = {
    max(each.opts, key=len).lstrip("-"): each
    for each in run.command.params
    if not each.multiple and getattr(each, "group", None) is not Group.PRINT
}
_DEFAULTS = [each for name, each in _COLUMNS.items() if name not in ("input", "lengths", "output")]


@options.command(
    "batch",
    params=_DEFAULTS,
    examples=(
        r"""printf 'input,lengths,axis,output\n"[1, 2]",[2],0,y.npy\n' > jobs.csv""",
        "revseq batch jobs.csv",
    ),
)
@click.argument("manifest", metavar="[MANIFEST]", required=False, type=click.Path())
@Group.READ.option("--each", metavar="PATTERN", help="Run a job for each file that matches, such as 'data/*.npy'.")
@Group.READ.option(
    "--lengths", metavar="NAME",
    help="The lengths of each job, such as 'lengths/{stem}.npy', where -o names its output.",
)  # fmt: skip
@Group.WRITE.option(
    "-o", "--output", metavar="NAME", help="The output of each job, such as 'out/{stem}.npy', without a manifest.",
)  # fmt: skip
@Group.WORK.option(
    "--resume", is_flag=True,
    help="Skip each job whose output exists and is not older than its inputs; one that is older is replaced.",
)  # fmt: skip
@Group.PRINT.option(
    "--dry-run", is_flag=True, help="Check all but the values, print what all jobs read and write, and write nothing."
)
@Group.WORK.option("--fail-fast", is_flag=True, help="Start no more jobs after one has failed.")
@options.output_options
def command(
    manifest: str | None,
    each: str | None,
    lengths: str | None,
    output: str | None,
    resume: bool,
    dry_run: bool,
    fail_fast: bool,
    console: Console,
    **defaults: Any,
) -> int:
    """Run every job of MANIFEST, small jobs side by side.

    MANIFEST is JSON lines or CSV, or - for standard input. Each line is a job with input, lengths, axis, output, and
    any option below by its long name. Options on the command line are the defaults for all jobs. Paths are relative to
    the current folder. The suffix .jsonl, .json or .csv determines the format; with any other suffix, JSON must begin
    with a brace. Commas, semicolons or tabs separate CSV cells, whichever the first line uses.

    With --each there is no MANIFEST: each file that matches is an input, unless it is the output or the lengths of
    another. With -o but without --each, MANIFEST is a list of inputs, one a line, or with a NUL behind each, as
    find -print0 writes them. In --lengths and -o, {stem} stands for the input's name without its suffix (s for
    s.npy.gz), {match} for what the wildcards of the name matched, {name} for the name, {suffix} for the suffix,
    {parent} for the folder, {path} for the whole path, and {sub} for the folders that wildcards matched. ** matches
    folders of any depth. Type {{ or }} for a brace. Folders of outputs are made.

    The command checks the whole MANIFEST before it starts the first job. If a job fails, or if its process dies, the
    other jobs still run and the exit status is 1. With --json it prints an object for each job.
    """
    from revseq_cli.commands.pool import Pool  # --help must not load NumPy
    from revseq_cli.core import signals
    from revseq_cli.report import tables
    from revseq_cli.report.objects import Outcome

    jobs = _jobs(manifest, each, {"lengths": lengths, "output": output}, defaults)
    if not jobs:
        nothing = f"{manifest} names no file" if each is None else f"no file matches --each {each or repr(each)}"
        console.note(nothing)
        return 0
    began = time.monotonic()
    entries = [each._replace(options=each.options | {"overwrite": True}) if resume else each for each in jobs.entries]
    outcomes: list[Outcome] = []
    with signals.deferred():
        done = {n for n, entry in enumerate(entries) if resume and _is_up_to_date(entry)}
        left = [n for n in range(len(entries)) if n not in done]
        skipped = (
            (n, Outcome(entries[n].line, entries[n].options["output"], None, skipped=True)) for n in sorted(done)
        )
        pool = Pool(entries, left, defaults["cores"], fail_fast=fail_fast)
        ending = pool.outcomes(plans=dry_run, shows_errors=console.verbose > 1)
        with signals.begun("batch", len(left), "jobs") as advance, contextlib.closing(ending) as ended:
            try:
                for outcome in _in_order(itertools.chain(skipped, ended)):
                    outcomes.append(outcome)
                    _print_outcome(outcome, jobs, console)
                    advance(not outcome.skipped)
            except signals.Stopped:
                count = sum(not outcome.error for outcome in outcomes)
                again = "nothing was written" if dry_run else "--resume runs the rest"
                console.note(f"stopped after reporting {count} of {len(entries)} outputs; {again}")
                raise
            finally:
                _print_notes_and_errors(outcomes, jobs, console)
    if not (console.as_json or console.quiet):
        seconds = time.monotonic() - began
        click.echo(tables.batch_plan(outcomes) if dry_run else tables.batch(outcomes, len(entries), seconds))
    return int(any(outcome.error for outcome in outcomes))


def _jobs(path: str | None, pattern: str | None, templates: dict[str, Any], defaults: dict[str, Any]) -> Jobs | None:
    """The jobs; None where no file matches or is named. UsageError for both of MANIFEST and --each, or neither."""
    from revseq_cli.commands import manifest  # --help must not load NumPy

    if path is not None and pattern is not None:
        quoted = f"quote the pattern, so that the shell does not put names in its place: --each {manifest.PATTERN}"
        raise UsageError("--each and MANIFEST are two ways to name jobs", "one of them", quoted)
    if path is not None and not any(templates.values()):
        return manifest.read(path, _COLUMNS, defaults)
    if path is not None and path.lower().endswith((".csv", ".json", ".jsonl")):
        found = "-o and --lengths are for --each, and for a list of names"
        raise UsageError(found, "columns of the manifest", "leave out -o and --lengths", path)
    if path is None and pattern is None:
        hint = f"add jobs.csv, or --each {manifest.PATTERN} -o {manifest.OUTPUT}"
        raise UsageError("no manifest is given", "one MANIFEST, or --each", hint)
    if not templates["output"]:
        raise UsageError("the jobs have no output", "a name for each", f"add -o {manifest.OUTPUT}")
    paths = manifest.names_in(path) if path is not None else manifest.matching(pattern or "")
    return manifest.of_files(paths, pattern or "", templates, _COLUMNS, defaults) if paths else None


def _is_up_to_date(entry: Entry) -> bool:
    """Whether the output, which is complete where it exists, is not older than the inputs."""
    output = _newest(entry.output)
    return output is not None and all((_newest(path) or sys.maxsize) <= output for path in entry.inputs.values())


def _newest(path: str) -> int | None:
    """When a file, or anything in a folder, was changed last, in nanoseconds; None where there is none."""
    if remote := table.remote_of(path):
        return cast("int | None", remote.newest(path))
    try:
        latest = os.stat(path).st_mtime_ns  # noqa: PTH116 - a string
    except OSError:
        return None
    below = Path(path).rglob("*") if os.path.isdir(path) else ()  # noqa: PTH112
    return max([latest, *(each.stat().st_mtime_ns for each in below)])


def _in_order(ended: Iterable[tuple[int, Outcome]]) -> Iterator[Outcome]:
    """The outcomes, each with the index of its job, in the order of these, as soon as all before have ended."""
    following, waiting = 0, dict[int, "Outcome"]()
    for job, outcome in ended:
        waiting[job] = outcome
        while following in waiting:
            yield waiting.pop(following)
            following += 1
    yield from (waiting[job] for job in sorted(waiting))


def _print_outcome(outcome: Outcome, jobs: Jobs, console: Console) -> None:
    from revseq_cli.report import objects

    if isinstance(outcome.error, FileThereError):
        outcome.error.hint = "add --resume to skip what is done, or --overwrite to do all jobs again"
    if console.as_json:
        click.echo(objects.outcome(outcome))
    if not outcome.error:
        done = "skipped" if outcome.skipped else "planned" if outcome.plan else "wrote"
        verified = ", and verified it" if outcome.verified else ""
        console.detail(f"{jobs.place([outcome.line])}: {done} {outcome.output}{verified}")


def _print_notes_and_errors(outcomes: Iterable[Outcome], jobs: Jobs, console: Console) -> None:
    """Print the notes, and then the errors: those that are equal once, with the lines of all their jobs."""
    from revseq_cli.report.terminal import reason, together

    notes: dict[str, list[int]] = defaultdict(list)
    errors: dict[Hashable, dict[int, RevseqError]] = defaultdict(dict)
    for outcome in outcomes:
        for note in outcome.notes:
            notes[note].append(outcome.line)
        if error := outcome.error:
            errors[DiskFullError if isinstance(error, DiskFullError) else reason(error)][outcome.line] = error
    console.note(*(f"{jobs.place(lines)}: {note}" for note, lines in notes.items()))
    for alike in errors.values():
        for part in together([*alike.values()]):
            console.error(part, jobs.place([*alike]))
