"""`revseq batch`: many jobs, side by side."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from revseq_cli.commands import base, options, run
from revseq_cli.commands.base import Group
from revseq_cli.core.errors import (
    DiskFullError,
    FileThereError,
    MissingFileError,
    UsageError,
    listed,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping

    from revseq_cli.commands.base import Console
    from revseq_cli.commands.manifest import Entry, Jobs
    from revseq_cli.core.errors import RevseqError
    from revseq_cli.report.objects import Outcome, Traffic

# A job of a batch has the options of `run` but those that say what it prints, and those with several values.
_COLUMNS = [each for each in run.command.params if not (each.multiple or getattr(each, "group", None) is Group.PRINT)]
_DEFAULTS = [each for each in _COLUMNS if each.name not in ("input", "lengths", "output")]


@base.command(
    "batch",
    params=[*_DEFAULTS],
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
@Group.PRINT.option("--dry-run", is_flag=True, help="Check every job and the free space on disks, and write nothing.")
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
    from revseq_cli.core import progress, signals
    from revseq_cli.report import tables

    jobs = _jobs(manifest, each, {"lengths": lengths, "output": output}, defaults, console)
    if jobs is None:
        return 0
    began = time.monotonic()
    report = _Report(jobs, each or "", console)
    with signals.deferred():
        entries = [_replacing(entry) for entry in jobs.entries] if resume else jobs.entries
        skipped = {n for n, entry in enumerate(entries) if resume and _is_up_to_date(entry)}
        left = [n for n in range(len(entries)) if n not in skipped]
        traceback = console.verbose > 1
        pool = Pool(entries, left, defaults["cores"], fail_fast=fail_fast, plans=dry_run, traceback=traceback)
        with progress.begun("batch", len(left), "jobs") as advance, contextlib.closing(pool.ended()) as ended:
            try:
                for outcome in _in_order(itertools.chain(((n, _skipped(entries[n])) for n in skipped), ended)):
                    report.add(outcome)
                    advance(not outcome.skipped)
            except signals.Stopped:
                done = sum(not outcome.error for outcome in report.outcomes)
                again = "nothing was written" if dry_run else "--resume runs the rest"
                console.note(f"stopped after reporting {done} of {len(entries)} outputs; {again}")
                raise
            finally:
                report.print_notes_and_errors()
    failed = any(outcome.error for outcome in report.outcomes)
    if dry_run:
        return int(not report.print_plans() or failed)
    if not (console.as_json or console.quiet):
        click.echo(tables.batch(report.outcomes, len(entries), time.monotonic() - began))
    return int(failed)


def _jobs(
    path: str | None, pattern: str | None, templates: dict[str, str | None], defaults: dict[str, Any], console: Console
) -> Jobs | None:
    """The jobs; None where a pattern matches no file. UsageError for both of MANIFEST and --each, or neither."""
    from revseq_cli.commands import manifest  # --help must not load NumPy

    given = {name: text for name, text in templates.items() if text is not None}
    if pattern is None and path is None:
        hint = f"add jobs.csv, or --each {manifest.PATTERN} -o {manifest.OUTPUT}"
        raise UsageError("no manifest is given", "one MANIFEST, or --each", hint)
    if pattern is not None and path is not None:
        quoted = f"quote the pattern, so that the shell does not put names in its place: --each {manifest.PATTERN}"
        raise UsageError("--each and MANIFEST are two ways to name jobs", "one of them", quoted)
    if "output" not in given and (pattern is not None or given):
        raise UsageError("the jobs have no output", "a name for each", f"add -o {manifest.OUTPUT}")
    if path is not None and not given:
        return manifest.read(path, _COLUMNS, defaults)
    if path is not None and path.lower().endswith((".csv", ".json", ".jsonl")):
        found = "-o and --lengths are for --each, and for a list of names"
        raise UsageError(
            found, "a column: each line of a manifest has its own output", "leave out -o and --lengths", path
        )
    names = manifest.names_in(path) if path is not None else manifest.matching(pattern or "")
    if not names:
        each = pattern or "''"
        console.note(f"no file matches --each {each}" if path is None else f"{path} has no name of a file")
        return None
    return manifest.of_files(names, pattern or "", given, _COLUMNS, defaults)


def _replacing(entry: Entry) -> Entry:
    return entry._replace(options=entry.options | {"overwrite": True})


def _is_up_to_date(entry: Entry) -> bool:
    """Whether the output, which is complete where it exists, is not older than the inputs."""
    if not os.path.exists(entry.output):  # noqa: PTH110 - a string
        return False
    return all(_newest(path) <= _newest(entry.output) for path in entry.inputs.values())


def _newest(path: str) -> int:
    """When a file, or anything in a folder, was changed last; in the future where there is none."""
    try:
        latest = os.stat(path).st_mtime_ns  # noqa: PTH116 - a string
    except OSError:
        return sys.maxsize
    below = Path(path).rglob("*") if os.path.isdir(path) else ()  # noqa: PTH112
    return max([latest, *(each.stat().st_mtime_ns for each in below)])


def _skipped(entry: Entry) -> Outcome:
    from revseq_cli.report.objects import Outcome

    return Outcome(entry.line, entry.options["output"], None, skipped=True)


def _in_order(ended: Iterable[tuple[int, Outcome]]) -> Iterator[Outcome]:
    """The outcomes, each with the index of its job, in the order of these, as soon as all before have ended."""
    following, waiting = 0, dict[int, "Outcome"]()
    for job, outcome in ended:
        waiting[job] = outcome
        while following in waiting:
            yield waiting.pop(following)
            following += 1
    yield from (waiting[job] for job in sorted(waiting))


class _Report:
    """Prints the result of each job: JSON on standard output, and the rest on standard error."""

    def __init__(self, jobs: Jobs, pattern: str, console: Console) -> None:
        self._jobs, self._pattern, self._console = jobs, pattern, console
        self._entries = {entry.line: entry for entry in jobs.entries}
        self._notes: dict[str, list[int]] = defaultdict(list)  # each with the lines of its jobs
        # By their reasons, of which a full disk is one: the errors, and the lines of their jobs.
        self._errors: dict[Hashable, tuple[list[RevseqError], list[int]]] = defaultdict(lambda: ([], []))
        self.outcomes: list[Outcome] = []

    def add(self, outcome: Outcome) -> None:
        """Keep the result of a job, and print what is no note and no error."""
        from revseq_cli.commands.manifest import placeholders
        from revseq_cli.report import objects
        from revseq_cli.report.terminal import reason

        entry, error = self._entries[outcome.line], outcome.error
        if error:
            errors, lines = self._errors[DiskFullError if isinstance(error, DiskFullError) else reason(error)]
            errors.append(error)
            lines.append(outcome.line)
        if self._pattern and isinstance(error, MissingFileError):
            values = placeholders(entry.options["input"].partition("::")[0], self._pattern.partition("::")[0])
            told = listed(f"{{{name}}} is {value or 'empty'}" for name, value in values.items())
            error.hint = f"for {entry.options['input']}, {told}"
        if isinstance(error, FileThereError):
            error.hint = "add --resume to skip what is done, or --overwrite to do all jobs again"
        self.outcomes.append(outcome)
        if self._console.as_json:
            click.echo(objects.outcome(outcome))
        for note in outcome.notes:
            self._notes[note].append(outcome.line)
        if not error:
            done = "skipped" if outcome.skipped else "planned" if outcome.plan else "wrote"
            verified = ", and verified it" if outcome.verified else ""
            self._console.detail(f"{self._jobs.place([outcome.line])}: {done} {outcome.output}{verified}")

    def print_notes_and_errors(self) -> None:
        """Print the notes, and then the errors: those that are equal once, for all their jobs, and so each hint."""
        from revseq_cli.report.terminal import together

        for note, lines in self._notes.items():
            self._console.note(f"{self._jobs.place(lines)}: {note}")
        printed = set()
        for errors, lines in self._errors.values():
            for part in together(errors):
                hint = part.hint
                part.hint = "" if hint in printed else hint
                printed.add(hint)
                self._console.error(part, self._jobs.place(lines))

    def print_plans(self) -> bool:
        """Print the plans of all jobs, and what they need of each file system; whether there is room for all."""
        from revseq_cli.report import objects, tables

        found = _needs(self.outcomes, {line: entry.output for line, entry in self._entries.items()})
        if self._console.as_json:
            click.echo(objects.text_of({"file_systems": found}))
        elif not self._console.quiet:
            click.echo(tables.batch_plan(self.outcomes, found))
        full = [each for each in found if each["needed_bytes"] > each["free_bytes"]]
        for each in full:
            needed = f"{each['needed_bytes']:,} bytes are needed, and {each['free_bytes']:,} are free"
            self._console.error(DiskFullError(needed, "", "free some space, or write to another disk", each["path"]))
        return not full


def _needs(planned: Iterable[Outcome], paths: Mapping[int, str]) -> list[dict[str, Any]]:
    """What the outputs need of each file system; `paths` has the real path of each job's output by its line.

    An output that replaces a file stands beside it until it is complete, and so does a temporary file. So what is
    needed is what all outputs have more than the files that they replace, and what the largest of these takes. Sizes
    are those of tensors: compression takes less, and text more.
    """
    from revseq_cli.commands.pool import size_of

    outputs: dict[int, list[tuple[Path, int, Traffic]]] = defaultdict(list)  # by device: folder, old size, plan
    for outcome in planned:
        if outcome.plan:
            path = Path(paths[outcome.line])
            folder = next(each for each in path.parents if each.is_dir())  # others are still to be made
            outputs[folder.stat().st_dev].append((folder, size_of(str(path)), outcome.plan))
    found = []
    for rows in outputs.values():
        folder = rows[0][0]
        more = sum(max(0, plan.size - old) for _, old, plan in rows)
        largest = max(min(old, plan.size) + plan.write_bytes - plan.size for _, old, plan in rows)
        root = next(each for each in (folder, *folder.parents) if os.path.ismount(each) or each == each.parent)
        free = shutil.disk_usage(folder).free
        found.append({"path": str(root), "needed_bytes": more + largest, "free_bytes": free})
    return found
