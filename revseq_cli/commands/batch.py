"""`revseq batch`: many jobs in one process."""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from revseq_cli.commands import base, options, run
from revseq_cli.ground import system
from revseq_cli.ground.errors import EngineError, FormatError, TensorIOError, UsageError, printable, worded

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from concurrent.futures import Future

    from revseq_cli.commands.manifest import Column, Entry
    from revseq_cli.commands.supervisor import Event, Order
    from revseq_cli.ground.errors import RevseqError
    from revseq_cli.passes.assembly import Job
    from revseq_cli.passes.engines.threads import Threads
    from revseq_cli.report.results import Outcome

_FAILED = 1

# The options of `run` that say what it prints; a job of a batch has the others.
_PRINTING = {"example", "picture", "full", "dry_run", "progress", "as_json", "quiet", "verbose", "color"}
_COLUMNS = [each for each in run.command.params if each.name not in _PRINTING]
_DEFAULTS = [each for each in _COLUMNS if each.name not in ("input", "lengths", "output")]

# Several threads wait for the disk at once. Where a flush takes 0.2 ms, 1,000 jobs of 12 elements took 1.8 s on one
# thread and 2.1 s on eight; with 2 ms more for each flush, 6.5 s and 2.0 s. So each job flushes its file and its folder
# as `run` does.
_THREADS = 8
_MOST_UNDER_WAY = 4 * _THREADS
_MOST_SMALL, _MOST_HELD = 1 << 25, 1 << 20  # bytes of the tensors of a small job: in files, or held in memory


@base.command(
    "batch",
    """Run every job of MANIFEST in one process.

    MANIFEST is JSON lines or CSV, or - for standard input. Each line is a job with input, lengths, axis, output, and
    any option below by its long name. Options given here are the defaults for all jobs. Paths are relative to the
    current folder. The suffix .jsonl, .json or .csv says the format; with another suffix, JSON begins with a brace.

    The whole MANIFEST is checked before the first job begins. If a job fails, the others still run, and the exit status
    is 1; the same holds if its process dies, for example over a crafted file. If standard output fails, jobs are
    reported on standard error, and the exit status is 2. With --json each job has schema, line, output, ok, error,
    bytes, verified and notes.
    """,
    params=[*_DEFAULTS],
    examples=(
        r"""printf 'input,lengths,axis,output\n"[1, 2]",[2],0,y.npy\n' > jobs.csv""",
        "revseq batch jobs.csv",
    ),
)
@click.argument("manifest", metavar="MANIFEST", type=click.Path())
@click.option("--fail-fast", is_flag=True, help="Begin no more jobs after one has failed.")
@options.progress_option
@click.option("--json", "as_json", is_flag=True, help="Report as JSON, with one object on a line for each job.")
@options.output_options
def command(
    manifest: str,
    fail_fast: bool,
    as_json: bool,
    console: options.Console,
    **defaults: Any,
) -> int:
    """Run the command."""
    from revseq_cli.commands.manifest import parse, refuse_streams
    from revseq_cli.formats import references  # --help must not load NumPy
    from revseq_cli.ground import stages, stopping
    from revseq_cli.report import tables  # --help must not load NumPy

    try:
        text = references.Reference(manifest).text
    except FormatError as e:
        e.hint = ""  # it names options about the formats of tensors
        raise
    entries = [each._replace(options=_defaults_for(each, defaults) | each.options) for each in parse(text, _columns())]
    if not as_json and any(entry.options["sha256"] for entry in entries):
        raise UsageError("--sha256 is a part of the JSON report", "--json with it", "add --json")
    refuse_streams(entries)  # before anything is printed
    began = time.monotonic()
    outcomes: list[Outcome] = []
    report = _Report(text.name, console, as_json)
    with (
        stopping.deferred(),
        stages.begun("batch", len(entries), "jobs") as advance,
        contextlib.closing(_outcomes(entries, fail_fast, console)) as ended,
    ):
        try:
            for outcome in ended:
                outcomes.append(outcome)
                report.add(outcome)
                advance(1)
        except stopping.Stopped:
            done = sum(not outcome.error for outcome in outcomes)
            reported = f"{done} of {len(entries)} outputs were reported"
            console.note(f"stopped when {reported}; with --overwrite all can run again")
            raise
    report.require_all()
    if not (as_json or console.quiet):
        tables.print_batch(outcomes, len(entries), time.monotonic() - began, color=console.colored)
    return _FAILED if any(outcome.error for outcome in outcomes) else 0


def _defaults_for(entry: Entry, defaults: dict[str, Any]) -> dict[str, Any]:
    """The defaults for a job: without a scheduler if the job names one, in either way."""
    neither = {"scheduler": None, "scheduler_file": None}
    return defaults | neither if neither.keys() & entry.options.keys() else defaults


def _columns() -> dict[str, Column]:
    """The columns of a manifest: the options of `run` by their long names, with their parsers."""
    from revseq_cli.commands.manifest import Column

    context = click.get_current_context()

    def parsed(parameter: click.Parameter, word: str) -> Any:
        try:
            return parameter.type_cast_value(context, word)
        except click.BadParameter as e:
            raise UsageError(base.message_of_click(e.message)) from None

    return {
        max(each.opts, key=len).lstrip("-"): Column(str(each.name), functools.partial(parsed, each))
        for each in _COLUMNS
    }


class _Report:
    """Prints the result of each job: JSON on standard output, and the rest on standard error."""

    def __init__(self, manifest: str, console: options.Console, as_json: bool) -> None:
        self._manifest, self._console, self._as_json = manifest, console, as_json
        self._failures: list[OSError] = []  # of standard output

    def add(self, outcome: Outcome) -> None:
        """Print the result of a job."""
        from revseq_cli.report.words import message, painted, spelled

        where = f"{printable(self._manifest)}: line {outcome.line}"
        if self._as_json:
            self._print(outcome, where)
        for note in outcome.notes:
            self._console.note(f"{where}: {spelled(note)}")
        if outcome.error:
            lines = message(outcome.error).split("\n")
            placed = "\n".join(_placed(line, where) for line in lines)
            color = self._console.paints_errors
            click.echo(painted(placed) if color else placed, file=sys.stderr, color=color)
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
                click.echo(f"{where}: wrote {printable(outcome.output)}", file=sys.stderr)

    def require_all(self) -> None:
        """TensorIOError if standard output has failed."""
        if self._failures:
            found = f"cannot write: {self._failures[0].strerror}"
            found += f"; {len(self._failures)} of the jobs are reported on standard error instead"
            raise TensorIOError(found, where="standard output")


def _placed(line: str, where: str) -> str:
    """A line of a message; if an error begins there, with `where`, its line in the manifest."""
    return f"Error: {where}: {line.removeprefix('Error: ')}" if line.startswith("Error: ") else line


class _Setup(NamedTuple):
    """What the process that runs the jobs gets; `scheduler` is the default one and Click's ParameterSource of it."""

    entries: list[Entry]
    fail_fast: bool
    console: options.Console
    scheduler: tuple[Any, Any]


def _outcomes(entries: list[Entry], fail_fast: bool, console: options.Console) -> Generator[Outcome, None, None]:
    """Run the jobs in another process; the outcome of each job that began, in the order of the manifest."""
    from revseq_cli.commands.supervisor import Supervisor
    from revseq_cli.report.results import Outcome

    context = click.get_current_context()
    scheduler = context.params.get("scheduler"), context.get_parameter_source("scheduler")

    def failed(index: int, error: RevseqError) -> Outcome:
        return Outcome(entries[index].line, entries[index].options["output"], error)

    setup = _Setup(entries, fail_fast, console, scheduler)
    return Supervisor(_serve, setup, [entry.output for entry in entries], fail_fast=fail_fast).outcomes(failed)


def _serve(setup: _Setup, order: Order, send: Callable[[Event], None]) -> None:
    """Run the jobs of an order, in the process that got it."""
    from revseq_cli.formats.storage import newfile

    newfile.tag = order.tag
    context = click.Context(command, info_name="batch")
    scheduler, source = setup.scheduler
    context.params = {"scheduler": scheduler}
    if source:
        context.set_parameter_source("scheduler", source)
    with context.scope():
        try:
            _Batch(setup, order, send).run_all()
        finally:
            setup.console.library_notes()  # this process is the one that loads HDF5


class _Batch:
    """Runs jobs: small ones side by side on threads, each of the others alone, with the whole machine."""

    def __init__(self, setup: _Setup, order: Order, send: Callable[[Event], None]) -> None:
        from revseq_cli.commands.manifest import Writers

        self._entries, self._fail_fast, self._verbose = setup.entries, setup.fail_fast, setup.console.verbose
        self._order, self._send, self._writers = order, send, Writers(setup.entries)
        self._halted = threading.Event()  # set after a failure with --fail-fast: no more jobs begin

    def run_all(self) -> None:
        """Run the jobs, which begin in the order of the manifest, and send the events of each."""
        from revseq_cli.ground import stopping
        from revseq_cli.passes.engines.threads import Threads

        under_way: set[Future[Any]] = set()
        pool = Threads(0 if self._order.alone else _THREADS)
        try:
            for index in self._order.jobs:
                stopping.check()
                if self._halted.is_set():
                    break
                self._begin(index, pool, under_way)
                _await(under_way, pool, _MOST_UNDER_WAY)
            _await(under_way, pool, 0)
        finally:
            pool.end()

    def _begin(self, index: int, pool: Threads, under_way: set[Future[Any]]) -> None:
        """Read the headers of a job, here, so that threads share no parser; then run it, or let a thread do so."""
        from revseq_cli.commands.supervisor import Event

        entry = self._entries[index]
        self._send(Event("begun", index))
        try:
            delivery = _delivery(**entry.options)
            self._refuse_outputs(entry.line, delivery.job)
        except Exception as e:  # noqa: BLE001 - any error ends this job alone
            self._send(Event("ended", index, self._failed(entry, e)))
            return
        if _is_small(delivery, entry.options["memory"]):
            with contextlib.suppress(EngineError):  # no thread can be started
                under_way.add(pool.submit(functools.partial(self._run, index, delivery)))
                return
        _await(under_way, pool, 0)
        self._run(index, delivery)

    def _refuse_outputs(self, line: int, job: Job) -> None:
        """FormatError if a file that the job's model names is an output; the manifest does not have these names."""
        for source in (job.values, job.lengths):
            if source.described and (error := self._writers.refusal(source.name, system.real_path(source.path), line)):
                raise error

    def _run(self, index: int, delivery: run.Delivery) -> None:
        """Write the output of a job, unless no more jobs are to begin."""
        from revseq_cli.commands.supervisor import Event
        from revseq_cli.report.results import Outcome

        entry, outcome = self._entries[index], None

        def done(written: run.Written) -> Outcome:
            size, notes = delivery.job.values.desc.total_bytes, tuple(delivery.sink.notes)
            return Outcome(entry.line, entry.options["output"], None, size, delivery.target.verify, notes, *written)

        def complete(written: run.Written) -> None:
            self._send(Event("complete", index, done(written), delivery.sink.file.temporary))

        if not self._halted.is_set():
            try:
                outcome = done(delivery.run(complete=complete))
            except Exception as e:  # noqa: BLE001 - any error ends this job alone
                outcome = self._failed(entry, e)
        self._send(Event("ended", index, outcome))

    def _failed(self, entry: Entry, error: Exception) -> Outcome:
        """The outcome of a job that an exception ended; raises Stopped after a signal, which may have caused it."""
        from revseq_cli.ground import stopping
        from revseq_cli.report.results import Outcome

        stopping.check()
        if self._fail_fast:
            self._halted.set()
        if self._verbose > 1:
            import traceback

            traceback.print_exception(error)
        return Outcome(entry.line, entry.options["output"], worded(error, entry.options["output"]))


def _await(under_way: set[Future[Any]], pool: Threads, most: int) -> None:
    """Wait until at most `most` futures are under way; an exception of one is raised here."""
    from revseq_cli.ground import stopping

    while len(under_way) > most:
        pool.attend(under_way)
        stopping.check()
        for future in [each for each in under_way if each.done()]:
            under_way.remove(future)
            future.result()


def _is_small(delivery: run.Delivery, memory: int) -> bool:
    """Whether a job may run beside others: on one core, with room in the memory for one such job on each thread."""
    from revseq_cli.formats.held import HeldSource
    from revseq_cli.passes.engines.table import SERIAL

    job, arrangement = delivery.job, delivery.arrangement
    if arrangement.engine is not SERIAL or arrangement.need * _THREADS > memory:
        return False
    # `need` does not count tensors that are held whole, and text needs many times the bytes of its numbers.
    held = delivery.sink.gathers or any(isinstance(each, HeldSource) for each in (job.values, job.lengths))
    return job.values.desc.total_bytes + job.lengths.desc.total_bytes <= (_MOST_HELD if held else _MOST_SMALL)


def _delivery(
    output: str,
    format_name: str | None,
    overwrite: bool,
    verify: bool,
    sha256: bool,
    lengths: str | None = None,
    **others: Any,
) -> run.Delivery:
    """The job of these options: its headers are read, and nothing is written yet."""
    from revseq_cli.passes import jobs

    resources = options.take_resources(others)
    layout = options.take_layout(others)
    request = options.request_of(lengths=lengths, format_name=format_name, absolute=resources.elsewhere, **others)
    target = run.Target.of(output, format_name, request, layout, overwrite=overwrite, verify=verify, sha256=sha256)
    job = jobs.load(request)
    jobs.require(job)
    return target.delivery(job, resources)
