"""`revseq batch`: many jobs in one process."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from revseq_cli.commands import base, options, run
from revseq_cli.ground.errors import EngineError, TensorIOError, UsageError, printable, worded

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from concurrent.futures import Future

    from revseq_cli.commands.manifest import Column, Entry
    from revseq_cli.commands.survival import Event, Order
    from revseq_cli.ground.errors import RevseqError
    from revseq_cli.operator.spec import FeatureLevel
    from revseq_cli.passes.engines.threads import Threads
    from revseq_cli.passes.jobs import Job
    from revseq_cli.report.results import Outcome

_FAILED = 1

# Options of `run` that are about what one run prints, and not about its job.
_OF_ONE_RUN = {"example", "picture", "full", "dry_run", "progress", "as_json", "quiet", "verbose", "color"}
_COLUMNS = [each for each in run.command.params if each.name not in _OF_ONE_RUN]
_DEFAULTS = [each for each in _COLUMNS if each.name not in ("input", "lengths", "output")]

# Threads wait for the disk side by side. 1,000 jobs of 12 elements took 1.8 s on one thread and 2.1 s on eight where a
# flush takes 0.2 ms; with 2 ms more for each flush 6.5 s and 2.0 s. So each file and its folder are flushed as by
# `run`, and none of it is put off.
_THREADS = 8
_MOST_UNDER_WAY = 4 * _THREADS
_MOST_SMALL, _MOST_HELD = 1 << 25, 1 << 20  # bytes of a job that may run beside others, and of one in memory


@base.command(
    "batch",
    """Carry out every job of MANIFEST in one process.

    MANIFEST is JSON lines or CSV, or - for standard input: a job a line, with input, lengths, axis, output, and any
    option below by its long name. Options that are given here are the defaults for every job. Paths are relative to
    the current folder. The suffix .jsonl, .json or .csv decides on the format, or else whether it begins with a brace.

    The whole MANIFEST is checked before the first job begins. A job that fails does not stop the others, and makes the
    exit status 1; nor does one whose process dies, as over a crafted file. What standard output does not take is told
    on standard error, and makes the exit status 2. With --json each job has schema, line, output, ok, error, bytes,
    verified and notes.
    """,
    params=[*_DEFAULTS],
    epilog="Example: revseq batch samples/batch.jsonl",
)
@click.argument("manifest", metavar="MANIFEST", type=click.Path())
@click.option("--fail-fast", is_flag=True, help="Begin no job any more once one has failed.")
@click.option("--progress/--no-progress", default=True, help="A progress bar, if standard error is a terminal.")
@click.option("--json", "as_json", is_flag=True, help="Report as JSON, one object a line for each job.")
@options.output_options
def command(
    manifest: str,
    fail_fast: bool,
    as_json: bool,
    voice: options.Voice,
    **defaults: Any,
) -> int:
    """Carry the command out."""
    from revseq_cli.commands.manifest import parse, refuse_streams
    from revseq_cli.formats import references  # --help must not load NumPy
    from revseq_cli.ground import stopping  # --help must not load NumPy
    from revseq_cli.report import tables  # --help must not load NumPy
    from revseq_cli.report.progress import Progress

    text = references.Reference(manifest).text
    jobs = [job._replace(options=_defaults_of(job, defaults) | job.options) for job in parse(text, _columns())]
    if not as_json and any(job.options["sha256"] for job in jobs):
        raise UsageError("--sha256 is a part of the JSON report", "--json with it", "add --json")
    refuse_streams(jobs)  # before anything about them is told there
    shown = voice.shows_progress and not (as_json and options.is_terminal())  # the lines go where the bar would be
    began = time.monotonic()
    outcomes: list[Outcome] = []
    told = _Report(text.name, voice, as_json)
    with (
        stopping.deferred(),
        Progress(len(jobs), shown=shown, unit="jobs") as bar,
        contextlib.closing(_outcomes(jobs, fail_fast, voice)) as ended,
    ):
        try:
            for outcome in ended:
                outcomes.append(outcome)
                told.tell(outcome)
                bar.advance(1)
        except stopping.Stopped:
            done = sum(not outcome.error for outcome in outcomes)
            voice.note(f"stopped when {done} of {len(jobs)} outputs were reported; with --overwrite all can run again")
            raise
    told.require_all()
    if not (as_json or voice.quiet):
        tables.print_batch(outcomes, len(jobs), time.monotonic() - began, color=voice.colored)
    return _FAILED if any(outcome.error for outcome in outcomes) else 0


def _defaults_of(job: Entry, defaults: dict[str, Any]) -> dict[str, Any]:
    """The options given for every job; what names a scheduler gives way to a job's own word for it."""
    named = {"scheduler": None, "scheduler_file": None}
    return defaults | named if named.keys() & job.options.keys() else defaults


def _columns() -> dict[str, Column]:
    """What a job may say: the options of `run` by their long names, and what parses them there."""
    from revseq_cli.commands.manifest import Column

    context = click.get_current_context()

    def parsed(parameter: click.Parameter, word: str) -> Any:
        try:
            return parameter.type_cast_value(context, word)
        except click.BadParameter as e:
            raise UsageError(e.message[:200]) from None

    return {
        max(each.opts, key=len).lstrip("-"): Column(str(each.name), functools.partial(parsed, each))
        for each in _COLUMNS
    }


class _Report:
    """Tells what became of each job; where standard output fails, on standard error."""

    def __init__(self, manifest: str, voice: options.Voice, as_json: bool) -> None:
        self._manifest, self._voice, self._as_json = manifest, voice, as_json
        self._lost: list[OSError] = []

    def tell(self, outcome: Outcome) -> None:
        """What became of a job."""
        from revseq_cli.report.words import message

        where = f"{printable(self._manifest)}: line {outcome.line}"
        if self._as_json:
            self._print(outcome, where)
        for note in outcome.notes:
            self._voice.note(f"{where}: {note}")
        if outcome.error:
            lines = message(outcome.error).split("\n")
            click.echo("\n".join(_placed(line, where) for line in lines), file=sys.stderr)
        else:
            verified = ", and verified it" if outcome.verified else ""
            self._voice.detail(f"{where}: wrote {outcome.output}{verified}")

    def _print(self, outcome: Outcome, where: str) -> None:
        from revseq_cli.report import objects

        try:
            click.echo(objects.outcome(outcome))
        except OSError as e:
            self._lost.append(e)
            if not outcome.error:  # an error is told there anyway
                click.echo(f"{where}: wrote {printable(outcome.output)}", file=sys.stderr)

    def require_all(self) -> None:
        """TensorIOError if standard output has failed."""
        if self._lost:
            found = f"cannot write: {self._lost[0].strerror}; {len(self._lost)} of the jobs are told above instead"
            raise TensorIOError(found, where="standard output")


def _placed(line: str, where: str) -> str:
    """A line of a message; each error in it begins with the line of the manifest."""
    return f"Error: {where}: {line.removeprefix('Error: ')}" if line.startswith("Error: ") else line


class _Needed(NamedTuple):
    """What the process of the jobs has to know: all of them, and the default scheduler with where it was said."""

    jobs: list[Entry]
    fail_fast: bool
    voice: options.Voice
    scheduler: tuple[Any, Any]


def _outcomes(jobs: list[Entry], fail_fast: bool, voice: options.Voice) -> Generator[Outcome, None, None]:
    """What became of each job that was begun, in the order of the manifest."""
    from revseq_cli.commands.survival import Survivor
    from revseq_cli.report.results import Outcome

    context = click.get_current_context()
    scheduler = context.params.get("scheduler"), context.get_parameter_source("scheduler")

    def failed(job: int, error: RevseqError) -> Outcome:
        return Outcome(jobs[job].line, jobs[job].options["output"], error)

    needed = _Needed(jobs, fail_fast, voice, scheduler)
    return Survivor(_serve, needed, [job.output for job in jobs], fail_fast=fail_fast).outcomes(failed)


def _serve(needed: _Needed, order: Order, tell: Callable[[Event], None]) -> None:
    """Carry out what the order says, in the process that it is for."""
    from revseq_cli.formats.storage import newfile

    newfile.tag = order.tag
    context = click.Context(command, info_name="batch")
    scheduler, source = needed.scheduler
    context.params = {"scheduler": scheduler}
    if source:
        context.set_parameter_source("scheduler", source)
    with context.scope():
        try:
            _Batch(needed, order, tell).carry_out()
        finally:
            needed.voice.environment()  # it is here that HDF5 is needed


class _Batch:
    """Carries jobs out: small ones on threads, the others one after another with the whole machine for each."""

    def __init__(self, needed: _Needed, order: Order, tell: Callable[[Event], None]) -> None:
        from revseq_cli.commands.manifest import Writers

        self._jobs, self._fail_fast, self._verbose = needed.jobs, needed.fail_fast, needed.voice.verbose
        self._order, self._tell, self._writers = order, tell, Writers(needed.jobs)
        self._halted = threading.Event()  # no job is to begin any more

    def carry_out(self) -> None:
        """Begin each job in the order of the manifest; what becomes of it is told."""
        from revseq_cli.ground import stopping
        from revseq_cli.passes.engines.threads import Threads

        under_way: set[Future[Any]] = set()
        pool = Threads(0 if self._order.alone else _THREADS)
        try:
            for place in self._order.jobs:
                stopping.check()
                if self._halted.is_set():
                    break
                self._begin(place, pool, under_way)
                _await(under_way, pool, _MOST_UNDER_WAY)
            _await(under_way, pool, 0)
        finally:
            pool.end()

    def _begin(self, place: int, pool: Threads, under_way: set[Future[Any]]) -> None:
        """Headers are read one after another: so the threads need share no parser."""
        from revseq_cli.commands.survival import Event

        job = self._jobs[place]
        self._tell(Event("begun", place))
        try:
            delivery = _delivery(**job.options)
            self._refuse_outputs(job.line, delivery.work)
        except Exception as e:  # noqa: BLE001 - whatever it is, it is about this job alone
            self._tell(Event("ended", place, self._failed(job, e)))
            return
        if _is_small(delivery, job.options["memory"]):
            with contextlib.suppress(EngineError):  # where there are no threads it is done here
                under_way.add(pool.submit(functools.partial(self._carry_out, place, delivery)))
                return
        _await(under_way, pool, 0)
        self._carry_out(place, delivery)

    def _refuse_outputs(self, line: int, work: Job) -> None:
        """A manifest does not say which files a model names; now that it has been read, they are known."""
        for source in (work.values, work.lengths):
            if source.described and (error := self._writers.refusal(source.name, os.path.realpath(source.path), line)):
                raise error

    def _carry_out(self, place: int, delivery: run.Delivery) -> None:
        """Write the output of a job, if it is to begin."""
        from revseq_cli.commands.survival import Event
        from revseq_cli.report.results import Outcome

        job, outcome = self._jobs[place], None

        def done(digest: str | None) -> Outcome:
            size, notes = delivery.work.values.desc.total_bytes, tuple(delivery.sink.notes)
            return Outcome(job.line, job.options["output"], None, size, delivery.target.verify, notes, digest)

        def complete(digest: str | None) -> None:
            self._tell(Event("complete", place, done(digest), delivery.sink.file.temporary))

        if not self._halted.is_set():
            try:
                outcome = done(delivery.carry_out(lambda _: None, complete=complete))
            except Exception as e:  # noqa: BLE001 - see above
                outcome = self._failed(job, e)
        self._tell(Event("ended", place, outcome))

    def _failed(self, job: Entry, error: Exception) -> Outcome:
        from revseq_cli.ground import stopping
        from revseq_cli.report.results import Outcome

        stopping.check()  # what failed after a signal came may have failed because of it
        if self._fail_fast:
            self._halted.set()
        if self._verbose > 1:
            import traceback

            traceback.print_exception(error)
        return Outcome(job.line, job.options["output"], worded(error, job.options["output"]))


def _await(under_way: set[Future[Any]], pool: Threads, most: int) -> None:
    """Return when at most so many are under way."""
    from revseq_cli.ground import stopping

    while len(under_way) > most:
        pool.attend(under_way)
        stopping.check()
        for future in [each for each in under_way if each.done()]:
            under_way.remove(future)
            future.result()


def _is_small(delivery: run.Delivery, memory: int) -> bool:
    """Whether the engine has no use for more than one core, and the memory is enough for one such job a thread."""
    from revseq_cli.formats.held import HeldSource
    from revseq_cli.formats.textfiles import TextSink
    from revseq_cli.passes.engines.table import SERIAL

    work, arrangement = delivery.work, delivery.arrangement
    if arrangement.engine is not SERIAL or arrangement.need * _THREADS > memory:
        return False
    # What is held whole is no part of that memory, and text takes many times the bytes of its numbers.
    held = isinstance(delivery.sink, TextSink) or any(
        isinstance(each, HeldSource) for each in (work.values, work.lengths)
    )
    return work.values.desc.total_bytes + work.lengths.desc.total_bytes <= (_MOST_HELD if held else _MOST_SMALL)


def _delivery(
    output: str,
    format_name: str | None,
    level: FeatureLevel,
    overwrite: bool,
    verify: bool,
    sha256: bool,
    lengths: str | None = None,
    **others: Any,
) -> run.Delivery:
    """The job that options ask for, with headers read and nothing written."""
    from revseq_cli.passes import jobs

    resources = options.take_resources(others)
    layout = options.take_layout(others)
    request = options.request_of(lengths=lengths, format_name=format_name, absolute=resources.elsewhere, **others)
    target = run.Target.of(output, format_name, request, layout, overwrite=overwrite, verify=verify, sha256=sha256)
    work = jobs.load(request)
    work.require(level)
    return target.delivery(work, resources)
