"""`revseq batch`: many jobs, side by side."""

from __future__ import annotations

import contextlib
import functools
import heapq
import os
import re
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from revseq_cli.commands import base, options, run
from revseq_cli.ground import system
from revseq_cli.ground.errors import FormatError, TensorIOError, UsageError, printable

if TYPE_CHECKING:
    from collections.abc import Generator

    from revseq_cli.commands.batch_worker import Line, Setup
    from revseq_cli.commands.console import Console
    from revseq_cli.commands.journal import Journal
    from revseq_cli.commands.manifest import Column, Entry, Manifest
    from revseq_cli.ground.errors import RevseqError
    from revseq_cli.report.results import Outcome

_FAILED = 1

# The options of `run` that say what it prints; a job of a batch has the others.
_PRINTING = {"example", "picture", "html", "full", "dry_run", "progress", "as_json", "quiet", "verbose", "color"}
_COLUMNS = [each for each in run.command.params if each.name not in _PRINTING]
_DEFAULTS = [each for each in _COLUMNS if each.name not in ("input", "lengths", "output")]
_WHOLE = re.compile(r"(-?\d+)\.0+")  # an integer as pandas writes it in a column that lacks some


@base.command(
    "batch",
    """Run every job of MANIFEST, small jobs side by side.

    MANIFEST is JSON lines or CSV, or - for standard input. Each line is a job with input, lengths, axis, output, and
    any option below by its long name. Options given here are the defaults for all jobs. Paths are relative to the
    current folder. The suffix .jsonl, .json or .csv says the format; with another suffix, JSON begins with a brace.
    CSV cells stand between commas, semicolons or tabs, as in the first line.

    With --each there is no MANIFEST: each file that matches is an input. In --lengths and -o, {stem} stands for the
    input's name without its suffix, {name} for its name, {suffix}, {parent} for its folder, {path} for all of it, and
    {sub} for the folders that wildcards matched; ** matches folders of any depth. A brace itself is {{ or }}.

    The whole MANIFEST is checked before the first job begins. If a job fails, the others still run, and the exit status
    is 1; the same holds if its process dies, for example over a crafted file. If standard output fails, jobs are
    reported on standard error, and the exit status is 2. With --json each job has schema, line, output, ok, error,
    skipped, bytes, verified and notes.

    A batch that was stopped, killed or had failures goes on with --resume. It skips a job if the journal says that it
    is done, from the same options and the same files, and if neither these files nor the output have changed since. An
    output that the batch wrote itself is replaced where its job must be done again; any other is kept, unless
    --overwrite is given. The journal is removed when all jobs are done, but with --resume it stays.
    """,
    params=[*_DEFAULTS],
    examples=(
        r"""printf 'input,lengths,axis,output\n"[1, 2]",[2],0,y.npy\n' > jobs.csv""",
        "revseq batch jobs.csv",
    ),
)
@click.argument("manifest", metavar="[MANIFEST]", nargs=-1, type=click.Path())
@click.option("--each", metavar="PATTERN", help="A job for each file that matches, as 'data/*.npy', and no MANIFEST.")
@click.option("--lengths", metavar="NAME", help="With --each: the lengths of each job, as 'lengths/{stem}.npy'.")
@click.option("-o", "--output", metavar="NAME", help="With --each: the output of each job, as 'out/{stem}.npy'.")
@click.option("--resume", is_flag=True, help="Skip the jobs that are done, as the journal says.")
@click.option(
    "--journal", "journal_path", metavar="FILE", type=click.Path(),
    help="Where to note what is done.  [default: MANIFEST.revseq-journal; none without a file MANIFEST]",
)  # fmt: skip
@click.option(
    "--failed", metavar="FILE", type=click.Path(),
    help="Write the jobs that failed to this new manifest, in MANIFEST's format; empty if none did.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Check every job and the free space of disks, and write nothing.")
@click.option("--fail-fast", is_flag=True, help="Begin no more jobs after one has failed.")
@options.progress_option
@click.option("--json", "as_json", is_flag=True, help="Report as JSON, with one object on a line for each job.")
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
    as_json: bool,
    console: Console,
    **defaults: Any,
) -> int:
    """Run the command."""
    from revseq_cli.commands import batch_files  # --help must not load NumPy
    from revseq_cli.commands.manifest import refuse_streams
    from revseq_cli.formats.storage.together import Together
    from revseq_cli.ground import stopping
    from revseq_cli.report import tables

    jobs = _manifest(manifest, each, {"lengths": lengths, "output": output})
    jobs = jobs._replace(entries=[each._replace(options=_options(each, defaults)) for each in jobs.entries])
    if not as_json and any(entry.options["sha256"] for entry in jobs.entries):
        raise UsageError("--sha256 is a part of the JSON report", "--json with it", "add --json")
    refuse_streams(jobs.entries)  # before anything is printed
    path = batch_files.journal_path(jobs, journal_path, resume=resume)
    failures = None
    if failed is not None:
        failures = batch_files.failed_file(failed, jobs, path, overwrite=defaults["overwrite"])
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        stack.enter_context(stopping.deferred())
        journal = batch_files.open_journal(path, stack, console, resume=resume, looks=dry_run)
        work = _Work(
            jobs.entries, journal, console, defaults["cores"], resume=resume, fail_fast=fail_fast, plans=dry_run
        )
        report = _Report(jobs, console, as_json)
        _follow(work, report, console)
        wrong = {outcome.line for outcome in report.outcomes if outcome.error}
        if failures and not dry_run:
            with Together(failures):
                failures.write(jobs.part(wrong).encode("utf-8", "surrogateescape"))
        if journal and not (dry_run or resume or wrong) and len(report.outcomes) == len(jobs.entries):
            journal.remove()
    report.require_all()
    if dry_run:
        return report.tell_plans(resume=resume) or _FAILED * bool(wrong)
    if not (as_json or console.quiet):
        seconds, total = time.monotonic() - began, len(jobs.entries)
        tables.print_batch(report.outcomes, total, seconds, resumed=resume, color=console.colored)
    return _FAILED * bool(wrong)


def _follow(work: _Work, report: _Report, console: Console) -> None:
    """Run the jobs, and report each; a signal is noted with how to go on."""
    from revseq_cli.ground import stages, stopping

    with (
        stages.begun("batch", len(work.entries), "jobs") as advance,
        contextlib.closing(work.outcomes()) as ended,
    ):
        try:
            for outcome in ended:
                report.add(outcome)
                advance(1)
        except stopping.Stopped:
            done = sum(not outcome.error for outcome in report.outcomes)
            console.note(f"stopped when {done} of {len(work.entries)} outputs were reported; {work.again}")
            raise


def _manifest(given: tuple[str, ...], pattern: str | None, templates: dict[str, str | None]) -> Manifest:
    """The jobs of MANIFEST, or of --each; UsageError for both or neither."""
    from revseq_cli.commands import templates as each
    from revseq_cli.commands.manifest import parse, parse_jobs
    from revseq_cli.formats import references  # --help must not load NumPy

    if pattern is not None:
        if given:
            quoted = f"quote the pattern, so that the shell does not put names in its place: --each {each.PATTERN}"
            raise UsageError("--each and MANIFEST are two ways to name jobs", "one of them", quoted)
        if not templates["output"]:
            raise UsageError("--each lacks an output", "a name for each", f"add -o {each.OUTPUT}")
        return parse_jobs(each.jobs(pattern, {name: text for name, text in templates.items() if text}), _columns())
    if set_ := [f"--{name}" for name, text in templates.items() if text is not None]:
        raise UsageError(f"{set_[0]} goes with --each", "a column of that name in MANIFEST", f"leave out {set_[0]}")
    if len(given) != 1:
        found = f"{len(given)} manifests are given" if given else "no manifest is given"
        hint = "run them one after another" if given else f"add jobs.csv, or --each {each.PATTERN} -o {each.OUTPUT}"
        raise UsageError(found, "one MANIFEST, or --each", hint)
    try:
        text = references.Reference(given[0]).text
    except FormatError as e:
        e.drop_settings()  # they are about tensors, and a manifest is none
        raise
    return parse(text, _columns())


def _options(entry: Entry, defaults: dict[str, Any]) -> dict[str, Any]:
    """The options of a job, with the defaults: without a scheduler if the job names one, in either way."""
    neither = {"scheduler": None, "scheduler_file": None}
    defaults = defaults | neither if neither.keys() & entry.options.keys() else defaults
    return defaults | entry.options


def _columns() -> dict[str, Column]:
    """The columns of a manifest: the options of `run` by their long names, with their parsers."""
    from revseq_cli.commands.manifest import Column

    context = click.get_current_context()

    def parsed(parameter: click.Parameter, word: str) -> Any:
        if isinstance(parameter.type, (click.types.IntParamType, click.IntRange)) and (whole := _WHOLE.fullmatch(word)):
            word = whole[1]
        try:
            return parameter.type_cast_value(context, word)
        except click.BadParameter as e:
            raise UsageError(base.message_of_click(e.message)) from None

    return {
        max(each.opts, key=len).lstrip("-"): Column(str(each.name), functools.partial(parsed, each))
        for each in _COLUMNS
    }


class _Work:
    """The jobs of a batch, which workers run, but for those that are done."""

    def __init__(
        self, entries: list[Entry], journal: Journal | None, console: Console, cores: int | None, *,
        resume: bool, fail_fast: bool, plans: bool,
    ) -> None:  # fmt: skip
        self._journal, self._console, self._cores = journal, console, cores or system.cores()
        self._fail_fast, self._plans = fail_fast, plans
        self._skipped: list[Outcome] = []
        self._left = [*range(len(entries))]
        self.entries = entries
        if journal and resume:
            self._skip(journal)

    @property
    def again(self) -> str:
        """How to go on after a stop."""
        if self._plans:
            return "nothing was written"
        return "--resume runs the rest" if self._journal else "with --overwrite all can run again"

    def _skip(self, journal: Journal) -> None:
        """Leave out the jobs that are done; the others may replace what is ours."""
        from revseq_cli.ground import stopping
        from revseq_cli.report.results import Outcome

        found = []
        for entry in self.entries:
            stopping.check()
            found.append(journal.of(entry))
            if told := found[-1].told:
                self._skipped.append(Outcome(entry.line, entry.options["output"], None, skipped=True, **told))
        self._left = [index for index, each in enumerate(found) if each.told is None]
        self.entries = [
            entry._replace(options=entry.options | {"overwrite": True}) if each.is_ours else entry
            for entry, each in zip(self.entries, found, strict=True)
        ]
        kept = (entry.output for entry in self.entries if not entry.options["overwrite"])
        if not journal.outputs and any(map(os.path.lexists, kept)):
            gone = "a batch removes it when all its jobs are done, but with --resume"
            self._console.note(f"{journal.path} knows of no output: {gone}")
        if others := len(journal.outputs - {entry.output for entry in self.entries}):
            self._console.note(f"{journal.path} has {others:,} outputs that are of no job of this manifest")
        if journal.damaged:
            self._console.note(f"{journal.path}: {journal.damaged:,} damaged lines are left out")

    def outcomes(self) -> Generator[Outcome, None, None]:
        """The outcome of each job that began or was skipped, in the order of the manifest."""
        from revseq_cli.commands import batch_worker
        from revseq_cli.commands.journal import Writer
        from revseq_cli.commands.supervisor import Supervisor
        from revseq_cli.report.results import Outcome

        def failed(index: int, error: RevseqError) -> Outcome:
            return Outcome(self.entries[index].line, self.entries[index].options["output"], error)

        workers = batch_worker.workers_for([self.entries[i] for i in self._left], self._cores)
        writer = Writer(self._journal.path) if self._journal and not self._plans else None
        traceback = self._console.verbose > 1
        setup = batch_worker.Setup(self.entries, workers, self._fail_fast, traceback, writer, self._plans)
        outputs, context = [entry.output for entry in self.entries], click.get_current_context()
        scheduler = context.params.get("scheduler"), context.get_parameter_source("scheduler")
        supervisor = Supervisor(
            functools.partial(_serve, scheduler), setup, outputs, self._left, workers,
            fail_fast=self._fail_fast, again=f"the same command again; {self.again}",
        )  # fmt: skip
        with contextlib.closing(supervisor.outcomes(failed)) as ended:
            yield from heapq.merge(self._skipped, ended, key=lambda outcome: outcome.line)
        for note in supervisor.notes:
            self._console.note(note)


def _serve(scheduler: tuple[Any, Any], setup: Setup, tag: str, line: Line) -> tuple[str, ...]:
    """Run jobs in a worker; `scheduler` is the default one and Click's ParameterSource of it. Returns its notes."""
    from revseq_cli.commands.batch_worker import Worker
    from revseq_cli.commands.console import notes_of_libraries

    context = click.Context(command, info_name="batch")
    context.params = {"scheduler": scheduler[0]}
    if scheduler[1]:
        context.set_parameter_source("scheduler", scheduler[1])
    with context.scope():
        Worker(setup, tag, line).run_all()
    return notes_of_libraries()  # this process is the one that loads HDF5


class _Report:
    """Prints the result of each job: JSON on standard output, and the rest on standard error."""

    def __init__(self, jobs: Manifest, console: Console, as_json: bool) -> None:
        self._manifest, self._console, self._as_json = jobs.text.name, console, as_json
        self._places = {entry.line: entry.place for entry in jobs.entries}
        self._paths = {entry.line: entry.output for entry in jobs.entries}
        self._failures: list[OSError] = []  # of standard output
        self.outcomes: list[Outcome] = []

    def add(self, outcome: Outcome) -> None:
        """Keep the result of a job, and print it."""
        from revseq_cli.report.words import message, painted, spelled

        self.outcomes.append(outcome)
        where = f"{printable(self._manifest)}: {self._places[outcome.line]}"
        if self._as_json:
            self._print(outcome, where)
        for note in outcome.notes:
            self._console.note(f"{where}: {spelled(note)}")
        if outcome.error:
            lines = message(outcome.error).split("\n")
            placed = "\n".join(_placed(line, where) for line in lines)
            color = self._console.paints_errors
            click.echo(painted(placed) if color else placed, file=sys.stderr, color=color)
        elif outcome.skipped or outcome.plan:
            self._console.detail(f"{where}: {outcome.output} {'is done' if outcome.skipped else 'can be written'}")
        else:
            verified = ", and verified it" if outcome.verified else ""
            self._console.detail(f"{where}: wrote {outcome.output}{verified}")

    def _print(self, outcome: Outcome, where: str) -> None:
        from revseq_cli.report import objects

        try:
            click.echo(objects.outcome(outcome))
        except OSError as e:
            self._failures.append(e)
            if not outcome.error:  # `add` prints an error there in any case
                done = "done before" if outcome.skipped else "planned" if outcome.plan else "wrote"
                click.echo(f"{where}: {done} {printable(outcome.output)}", file=sys.stderr)

    def tell_plans(self, *, resume: bool) -> int:
        """Print the plans of all jobs, and what they need of each file system; 1 if one of these is too small."""
        from revseq_cli.commands import disks
        from revseq_cli.report import objects, tables

        found = disks.needs(self.outcomes, self._paths)
        if self._as_json:
            click.echo(objects.file_systems(found))
        elif not self._console.quiet:
            tables.print_plans(self.outcomes, found, resumed=resume, color=self._console.colored)
        full = [each for each in found if each.needed > each.free]
        for each in full:
            needed = f"{each.needed:,} bytes are needed, and {each.free:,} are free"
            click.echo(f"Error: {printable(each.path)}: {needed}", file=sys.stderr)
            click.echo("Hint: free some space, or write to another disk", file=sys.stderr)
        return _FAILED * bool(full)

    def require_all(self) -> None:
        """TensorIOError if standard output has failed."""
        if self._failures:
            found = f"cannot write: {self._failures[0].strerror}"
            found += f"; {len(self._failures)} of the jobs are reported on standard error instead"
            raise TensorIOError(found, where="standard output")


def _placed(line: str, where: str) -> str:
    """A line of a message; if an error begins there, with `where`, its line in the manifest."""
    return f"Error: {where}: {line.removeprefix('Error: ')}" if line.startswith("Error: ") else line
