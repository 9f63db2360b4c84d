"""`revseq batch`: many jobs, side by side."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import sys
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import click

from revseq_cli.commands import base, options, run
from revseq_cli.commands.base import Group
from revseq_cli.core import system
from revseq_cli.core.errors import (
    DiskFullError,
    FileThereError,
    MissingFileError,
    TensorIOError,
    UsageError,
    printable,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping

    from revseq_cli.commands.base import Console
    from revseq_cli.commands.journal import Journal
    from revseq_cli.commands.manifest import Entry, Manifest
    from revseq_cli.core.errors import RevseqError
    from revseq_cli.formats.atomic_file import AtomicFile
    from revseq_cli.report.results import FileSystem, Outcome, Traffic

_FAILED = 1

# A job of a batch has the options of `run` but those that say what it prints, and those with several values.
_COLUMNS = [each for each in run.command.params if not (each.multiple or getattr(each, "group", None) is Group.PRINT)]
_DEFAULTS = [each for each in _COLUMNS if each.name not in ("input", "lengths", "output")]
_NO_SCHEDULER = {"scheduler": None, "scheduler_file": None}


@base.command(
    "batch",
    params=[*_DEFAULTS],
    examples=(
        r"""printf 'input,lengths,axis,output\n"[1, 2]",[2],0,y.npy\n' > jobs.csv""",
        "revseq batch jobs.csv",
    ),
)
@click.argument("manifest", metavar="[MANIFEST]", nargs=-1, type=click.Path())
@Group.WORK.option(
    "--each", metavar="PATTERN", help="Run a job for each file that matches, such as 'data/*.npy', without a MANIFEST."
)
@Group.WORK.option(
    "--lengths", metavar="NAME", help="The lengths of each job, such as 'lengths/{stem}.npy', with --each."
)
@Group.WRITE.option(
    "-o", "--output", metavar="NAME", help="The output of each job, such as 'out/{stem}.npy', with --each."
)
@Group.WORK.option(
    "--resume", is_flag=True, help="Resume after an interruption. Skip the jobs that the journal lists as done."
)
@Group.WORK.option(
    "--journal", "journal_path", metavar="FILE", type=click.Path(),
    help="The file that lists finished jobs.  [default: MANIFEST.revseq-journal; beside the outputs with --each]",
)  # fmt: skip
@Group.WORK.option(
    "--failed", metavar="FILE", type=click.Path(),
    help="Write the jobs that failed to this new manifest, in MANIFEST's format, each with the options typed here. "
    "It is empty if none failed.",
)  # fmt: skip
@Group.PRINT.option("--dry-run", is_flag=True, help="Check every job and the free space on disks, and write nothing.")
@Group.WORK.option("--fail-fast", is_flag=True, help="Start no more jobs after one has failed.")
@options.progress_option
@options.output_options
def command(
    manifest: tuple[str, ...],
    each: str | None,
    lengths: str | None,
    output: str | None,
    resume: bool,
    journal_path: str | None,
    failed: str | None,
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

    With --each there is no MANIFEST: each file that matches is an input. In --lengths and -o, {stem} stands for the
    input's name without its suffix (s for s.npy.gz), {name} for its name, {suffix} for its suffix, {parent} for its
    folder, {path} for the whole path, and {sub} for the folders that wildcards matched. ** matches folders of any
    depth. Type {{ or }} for a brace.

    The command checks the whole MANIFEST before it starts the first job. If a job fails, or if its process dies, for
    example because of a crafted file, the other jobs still run and the exit status is 1. If standard output fails, the
    command reports jobs on standard error and the exit status is 2. With --json each job has schema, line, output, ok,
    error, skipped, bytes, verified and notes.

    --resume continues a batch that was stopped, killed or had failures. It skips a job if the journal lists it as done
    with the same options and the same files, and if neither these files nor the output have changed since. A job that
    must run again replaces an output that the batch itself wrote, but keeps any other output unless you give
    --overwrite. The journal remains when all jobs are done.
    """
    from revseq_cli.commands.journal import chosen_path, opened  # --help must not load NumPy
    from revseq_cli.commands.manifest import refuse_streams, with_defaults
    from revseq_cli.core import signals
    from revseq_cli.formats.atomic_file import FileTransaction
    from revseq_cli.report import tables

    jobs = _manifest(manifest, each, {"lengths": lengths, "output": output})
    entries = [each._replace(options=_NO_SCHEDULER | with_defaults(each.options, defaults)) for each in jobs.entries]
    jobs = jobs._replace(entries=entries)
    refuse_streams(jobs.entries)  # before anything is printed
    path = chosen_path(jobs, journal_path, resume=resume)
    failures = _failed_file(failed, jobs, path, overwrite=defaults["overwrite"]) if failed is not None else None
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        stack.enter_context(signals.deferred())
        journal = opened(path, stack, console, resume=resume, looks=dry_run)
        if journal and not resume and all(entry.options["overwrite"] for entry in jobs.entries):
            journal.clear()  # so that a batch that runs each night does not let it grow
        done: dict[int, Outcome | None] = {}
        if journal and resume:
            jobs, done = _resumed(jobs, journal, console)
        report = _Report(jobs, console, journal.outputs if journal and not resume else ())
        _run_all(jobs.entries, done, journal, report, defaults["cores"], fail_fast=fail_fast, plans=dry_run)
        wrong = {outcome.line for outcome in report.outcomes if outcome.error}
        if failures and not dry_run:
            with FileTransaction(failures):
                failures.write(jobs.part(wrong, _typed()).encode("utf-8", "surrogateescape"))
    report.require_all()
    if dry_run:
        return report.tell_plans(resume=resume) or _FAILED * bool(wrong)
    if not (console.as_json or console.quiet):
        seconds, total = time.monotonic() - began, len(jobs.entries)
        tables.print_batch(report.outcomes, total, seconds, resumed=resume, color=console.colored)
    return _FAILED * bool(wrong)


def _failed_file(path: str, jobs: Manifest, journal: str, *, overwrite: bool) -> AtomicFile:
    """The new manifest for --failed; UsageError for a name that says another format, or that is taken."""
    from revseq_cli.commands.manifest import JSON_SUFFIXES
    from revseq_cli.formats import registry

    suffix = path[path.rfind(".") :].lower() if "." in path else ""
    if path == "-":
        found = "--failed is standard output, which has the report"
        raise UsageError(found, "the name of a file", f"use --failed failed.{'csv' if jobs.separator else 'jsonl'}")
    if suffix in JSON_SUFFIXES if jobs.separator else suffix == ".csv":
        formats, right = ("CSV", "failed.csv") if jobs.separator else ("JSON lines", "failed.jsonl")
        raise UsageError(f"--failed {path} has another suffix", f"{formats}, as the jobs are", f"try --failed {right}")
    real = system.real_path(path)
    jobs.require_free(real, "--failed")
    if journal and system.name_key(real) == system.name_key(journal):
        raise UsageError("--failed and the journal are the same file", "two names", where=path)
    return registry.new_file(path, overwrite=overwrite, inputs=filter(None, [jobs.text.identity]))


def _resumed(jobs: Manifest, journal: Journal, console: Console) -> tuple[Manifest, dict[int, Outcome | None]]:
    """The jobs, of which those whose outputs are ours may replace them; the outcome of each that is done, by index."""
    from revseq_cli.core import signals

    entries, done = [*jobs.entries], dict[int, "Outcome | None"]()
    for index, entry in enumerate(jobs.entries):
        signals.check()
        found = journal.of(entry)
        if found.told is not None:
            done[index] = entry.outcome(skipped=True, **found.told)
        if found.is_ours:
            entries[index] = entry._replace(options=entry.options | {"overwrite": True})
    if others := len(journal.outputs - {entry.output for entry in entries}):
        console.note(f"{journal.path} lists {others:,} outputs that no job of this manifest has")
    if journal.damaged:
        console.note(f"{journal.path}: {journal.damaged:,} damaged lines are ignored")
    return jobs._replace(entries=entries), done


def _run_all(
    entries: list[Entry], done: dict[int, Outcome | None], journal: Journal | None, report: _Report,
    cores: int | None, *, fail_fast: bool, plans: bool,
) -> None:  # fmt: skip
    """Run the jobs that are not done, and report all; a signal is noted with how to go on."""
    from revseq_cli.commands.pool import Pool, workers_for
    from revseq_cli.core import progress, signals

    console, left = report.console, [index for index in range(len(entries)) if index not in done]
    again = "--resume runs the rest" if journal else "--overwrite runs all again"
    again = "nothing was written" if plans else again
    workers = workers_for([entries[index] for index in left], cores)
    pool = Pool(
        entries, left, workers, None if plans else journal,
        fail_fast=fail_fast, traceback=console.verbose > 1, plans=plans,
    )  # fmt: skip
    with progress.begun("batch", len(entries), "jobs") as advance, contextlib.closing(pool.ended()) as ended:
        try:
            for outcome in _in_order(itertools.chain(done.items(), ended)):
                report.add(outcome)
                advance(1, 0 if outcome.skipped else outcome.bytes or 0)
        except signals.Stopped:
            reported = len({outcome.output for outcome in report.outcomes if not outcome.error})
            console.note(f"stopped after reporting {reported} of {len(entries)} outputs; {again}")
            raise
        finally:
            report.tell()


def _in_order(ended: Iterable[tuple[int, Outcome | None]]) -> Iterator[Outcome]:
    """The outcomes, each with the index of its job, in the order of these, as soon as all before have ended."""
    following, waiting = 0, dict[int, "Outcome | None"]()
    for index, each in ended:
        waiting[index] = each
        while following in waiting:
            if outcome := waiting.pop(following):
                yield outcome
            following += 1
    yield from (outcome for _, outcome in sorted(waiting.items()) if outcome)


def _manifest(given: tuple[str, ...], pattern: str | None, templates: dict[str, str | None]) -> Manifest:
    """The jobs of MANIFEST, or of --each; UsageError for both or neither."""
    from revseq_cli.commands import manifest  # --help must not load NumPy

    if pattern is not None:
        if given:
            quoted = f"quote the pattern, so that the shell does not put names in its place: --each {manifest.PATTERN}"
            raise UsageError("--each and MANIFEST are two ways to name jobs", "one of them", quoted)
        if not templates["output"]:
            raise UsageError("--each lacks an output", "a name for each", f"add -o {manifest.OUTPUT}")
        given_templates = {name: text for name, text in templates.items() if text}
        columns = manifest.columns_of(_COLUMNS)
        made = manifest.parse(manifest.each_file(pattern, given_templates), columns, "", "job")
        return made._replace(pattern=pattern, journal=manifest.journal(pattern, templates["output"]))
    if set_ := [f"--{name}" for name, text in templates.items() if text is not None]:
        raise UsageError(
            f"{set_[0]} works only with --each", "a column of that name in MANIFEST", f"leave out {set_[0]}"
        )
    if len(given) != 1:
        found = f"{len(given)} manifests are given" if given else "no manifest is given"
        added = f"add jobs.csv, or --each {manifest.PATTERN} -o {manifest.OUTPUT}"
        hint = "run them one after another" if given else added
        raise UsageError(found, "one MANIFEST, or --each", hint)
    return manifest.read(given[0], manifest.columns_of(_COLUMNS))


def _typed() -> dict[str, str]:
    """The defaults of all jobs that were typed, as columns of a manifest."""
    values = click.get_current_context().meta[base.TYPED]
    given = {base.long_name(each).lstrip("-"): values[each.name] for each in _DEFAULTS if each.name in values}
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in given.items()}


class _Report:
    """Prints the result of each job: JSON on standard output, and the rest on standard error."""

    def __init__(self, jobs: Manifest, console: Console, done_before: Collection[str]) -> None:
        self._jobs, self.console, self._done_before = jobs, console, done_before
        self._entries = {entry.line: entry for entry in jobs.entries}
        self._notes: dict[str, list[int]] = defaultdict(list)  # each with the lines of its jobs
        # By their reasons, of which a full disk is one: the errors, and the lines of their jobs.
        self._errors: dict[Hashable, tuple[list[RevseqError], list[int]]] = defaultdict(lambda: ([], []))
        self._failures: list[OSError] = []  # of standard output
        self.outcomes: list[Outcome] = []

    def add(self, outcome: Outcome) -> None:
        """Keep the result of a job, and print what is no note and no error."""
        from revseq_cli.commands import manifest
        from revseq_cli.report.words import reason

        entry, error = self._entries[outcome.line], outcome.error
        where = f"{printable(self._jobs.text.name)}: {entry.place}"
        if self._jobs.pattern and isinstance(error, MissingFileError):
            error.hint = manifest.placeholders(entry.columns["input"], self._jobs.pattern)
        if isinstance(error, FileThereError) and entry.output in self._done_before:
            error.hint = "add --resume to skip what is done, or --overwrite to do all jobs again"
        self.outcomes.append(outcome)
        if self.console.as_json:
            self._print(outcome)
        for note in outcome.notes:
            self._notes[note].append(entry.line)
        if error:
            errors, lines = self._errors[DiskFullError if isinstance(error, DiskFullError) else reason(error)]
            errors.append(error)
            lines.append(entry.line)
        elif outcome.skipped or outcome.plan:
            self.console.detail(f"{where}: {outcome.output} {'is done' if outcome.skipped else 'can be written'}")
        else:
            verified = ", and verified it" if outcome.verified else ""
            self.console.detail(f"{where}: wrote {outcome.output}{verified}")

    def tell(self) -> None:
        """Print the notes, and then the errors: those that are equal once, for all their jobs, and so each hint."""
        from revseq_cli.report.words import hints, together

        for note, lines in self._notes.items():
            self.console.note(f"{self._jobs.place(lines)}: {note}")
        printed = set()
        for errors, lines in self._errors.values():
            for part in together(errors):
                hint = (*hints(part.hint, ()),)
                part.hint = "" if hint in printed else part.hint
                printed.add(hint)
                self.console.error(part, self._jobs.place(lines))

    def _print(self, outcome: Outcome) -> None:
        from revseq_cli.report import objects

        try:
            click.echo(objects.outcome(outcome))
        except OSError as e:
            self._failures.append(e)
            if not outcome.error:  # `add` prints an error there in any case
                done = "done before" if outcome.skipped else "planned" if outcome.plan else "wrote"
                place = self._jobs.place([outcome.line])
                click.echo(f"{place}: {done} {printable(outcome.output)}", file=sys.stderr)

    def tell_plans(self, *, resume: bool) -> int:
        """Print the plans of all jobs, and what they need of each file system; 1 if one of these is too small."""
        from revseq_cli.report import objects, tables

        found = needs(self.outcomes, {line: entry.output for line, entry in self._entries.items()})
        if self.console.as_json:
            click.echo(objects.report("batch --dry-run", file_systems=found))
        elif not self.console.quiet:
            tables.print_plans(self.outcomes, found, resumed=resume, color=self.console.colored)
        full = [each for each in found if each.needed > each.free]
        for each in full:
            needed = f"{each.needed:,} bytes are needed, and {each.free:,} are free"
            self.console.error(DiskFullError(needed, "", "free some space, or write to another disk", each.path))
        return _FAILED * bool(full)

    def require_all(self) -> None:
        """TensorIOError if standard output has failed."""
        if self._failures:
            found = f"cannot write: {self._failures[0].strerror}"
            found += f"; {len(self._failures)} of the jobs are reported on standard error instead"
            raise TensorIOError(found, where="standard output")


def needs(planned: Iterable[Outcome], paths: Mapping[int, str]) -> list[FileSystem]:
    """A row for each file system that outputs go to; `paths` has the real path of each job's output by its line.

    An output that replaces a file stands beside it until it is complete, and so does a temporary file. So what is
    needed is what all outputs have more than the files that they replace, and what the largest of these takes. Sizes
    are those of tensors: compression takes less, and text more.
    """
    from revseq_cli.commands.pool import size_of
    from revseq_cli.report.results import FileSystem

    outputs: dict[int, list[tuple[str, int, Traffic]]] = defaultdict(list)  # by device: folder, old size, plan
    for outcome in planned:
        if outcome.plan:
            path = paths[outcome.line]
            folder = os.path.dirname(path)  # noqa: PTH120 - a string
            outputs[os.stat(folder).st_dev].append((folder, size_of(path), outcome.plan))  # noqa: PTH116
    found = []
    for rows in outputs.values():
        folder, *_ = rows[0]
        more = sum(max(0, plan.size - old) for _, old, plan in rows)
        largest = max(min(old, plan.size) + plan.written - plan.size for _, old, plan in rows)
        found.append(FileSystem(_top(folder), more + largest, shutil.disk_usage(folder).free))
    return found


def _top(folder: str) -> str:
    """The highest folder of the file system that has this one."""
    while not os.path.ismount(folder) and os.path.dirname(folder) != folder:  # noqa: PTH120
        folder = os.path.dirname(folder)  # noqa: PTH120
    return folder
