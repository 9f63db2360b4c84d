"""`revseq batch`: many jobs in one process."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

import click

from revseq_cli.commands import base, options, run
from revseq_cli.errors import UsageError, printable, worded

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from concurrent.futures import Future

    from revseq_cli.job import Job
    from revseq_cli.manifest import Column, Entry
    from revseq_cli.report import Outcome
    from revseq_cli.spec import FeatureLevel

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
    exit status 1. With --json each job has schema, line, output, ok, error, bytes, verified and notes.
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
    from revseq_cli import formats, report, stopping  # --help must not load NumPy
    from revseq_cli.manifest import parse
    from revseq_cli.progress import Progress

    text = formats.load_text(formats.Reference(manifest))
    jobs = [job._replace(options=_defaults_of(job, defaults) | job.options) for job in parse(text, _columns())]
    if not as_json and any(job.options["sha256"] for job in jobs):
        raise UsageError("--sha256 is a part of the JSON report", "--json with it", "add --json")
    shown = voice.shows_progress and not (as_json and options.is_terminal())  # the lines go where the bar would be
    began = time.monotonic()
    outcomes: list[Outcome] = []
    with (
        stopping.deferred(),
        Progress(len(jobs), shown=shown, unit="jobs") as bar,
        contextlib.closing(_Batch(jobs, fail_fast, voice.verbose).outcomes()) as ended,
    ):
        try:
            for outcome in ended:
                outcomes.append(outcome)
                _tell(outcome, text.name, voice, as_json=as_json)
                bar.advance(1)
        except stopping.Stopped:
            done = sum(not outcome.error for outcome in outcomes)
            voice.note(f"stopped when {done} of {len(jobs)} outputs were reported; with --overwrite all can run again")
            raise
    if not (as_json or voice.quiet):
        report.print_batch(outcomes, len(jobs), time.monotonic() - began, color=voice.colored)
    return _FAILED if any(outcome.error for outcome in outcomes) else 0


def _defaults_of(job: Entry, defaults: dict[str, Any]) -> dict[str, Any]:
    """The options given for every job; what names a scheduler gives way to a job's own word for it."""
    named = {"scheduler": None, "scheduler_file": None}
    return defaults | named if named.keys() & job.options.keys() else defaults


def _columns() -> dict[str, Column]:
    """What a job may say: the options of `run` by their long names, and what parses them there."""
    from revseq_cli.manifest import Column

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


def _tell(outcome: Outcome, manifest: str, voice: options.Voice, *, as_json: bool) -> None:
    """What became of a job."""
    from revseq_cli import report

    where = f"{printable(manifest)}: line {outcome.line}"
    if as_json:
        click.echo(report.outcome_json(outcome))
    for note in outcome.notes:
        voice.note(f"{where}: {note}")
    if outcome.error:
        lines = str(outcome.error).split("\n")
        click.echo("\n".join(_placed(line, where) for line in lines), file=sys.stderr)
    else:
        voice.detail(f"{where}: wrote {outcome.output}{', and verified it' if outcome.verified else ''}")


def _placed(line: str, where: str) -> str:
    """A line of a message; each error in it begins with the line of the manifest."""
    return f"Error: {where}: {line.removeprefix('Error: ')}" if line.startswith("Error: ") else line


class _Batch:
    """Carries jobs out: small ones on threads, the others one after another with the whole machine for each."""

    def __init__(self, jobs: list[Entry], fail_fast: bool, verbose: int) -> None:
        from revseq_cli.manifest import Writers

        self._jobs, self._writers = jobs, Writers(jobs)
        self._fail_fast, self._verbose = fail_fast, verbose
        self._halted = threading.Event()  # no job is to begin any more

    def outcomes(self) -> Generator[Outcome, None, None]:
        """What became of each job that was begun, in the order of the manifest."""
        from concurrent.futures import ThreadPoolExecutor

        from revseq_cli import stopping
        from revseq_cli.pools import starting

        under_way: deque[Future[Outcome | None]] = deque()
        pool = ThreadPoolExecutor(_THREADS)
        try:
            for job in self._jobs:
                stopping.check()
                if self._halted.is_set():
                    break
                try:  # headers are read one after another: so the threads need share no parser
                    delivery = _delivery(**job.options)
                    self._refuse_outputs(job.line, delivery.work)
                except Exception as e:  # noqa: BLE001 - whatever it is, it is about this job alone
                    under_way.append(_settled(self._failed(job, e)))
                else:
                    if _is_small(delivery, job.options["memory"]):
                        with starting():
                            under_way.append(pool.submit(self._carry_out, job, delivery))
                    else:
                        yield from _ended(under_way, 0)
                        under_way.append(_settled(self._carry_out(job, delivery)))
                yield from _ended(under_way, _MOST_UNDER_WAY)
            yield from _ended(under_way, 0)
        finally:
            pool.shutdown(cancel_futures=True)

    def _refuse_outputs(self, line: int, work: Job) -> None:
        """A manifest does not say which files a model names; now that it has been read, they are known."""
        for source in (work.values, work.lengths):
            if source.described and (error := self._writers.refusal(source.name, os.path.realpath(source.path), line)):
                raise error

    def _carry_out(self, job: Entry, delivery: run.Delivery) -> Outcome | None:
        """Write the output of a job; None if it is not to begin any more."""
        from revseq_cli.report import Outcome

        if self._halted.is_set():
            return None
        try:
            digest = delivery.carry_out(lambda _: None)
        except Exception as e:  # noqa: BLE001 - see above
            return self._failed(job, e)
        size, notes = delivery.work.values.desc.total_bytes, delivery.sink.notes
        return Outcome(job.line, job.options["output"], None, size, delivery.target.verify, notes, digest)

    def _failed(self, job: Entry, error: Exception) -> Outcome:
        from revseq_cli import stopping
        from revseq_cli.report import Outcome

        stopping.check()  # what failed after a signal came may have failed because of it
        if self._fail_fast:
            self._halted.set()
        if self._verbose > 1:
            import traceback

            traceback.print_exception(error)
        return Outcome(job.line, job.options["output"], worded(error, job.options["output"]))


def _ended(under_way: deque[Future[Outcome | None]], most: int) -> Iterator[Outcome]:
    """The outcomes at the front that are known, and more until at most so many jobs are under way."""
    while under_way and (len(under_way) > most or under_way[0].done()):
        outcome = under_way.popleft().result()
        if outcome:
            yield outcome


def _settled(outcome: Outcome | None) -> Future[Outcome | None]:
    """What is known already, to be told in its turn."""
    from concurrent.futures import Future

    future: Future[Outcome | None] = Future()
    future.set_result(outcome)
    return future


def _is_small(delivery: run.Delivery, memory: int) -> bool:
    """Whether the engine has no use for more than one core, and the memory is enough for one such job a thread."""
    from revseq_cli.formats.base import HeldSource
    from revseq_cli.formats.text import TextSink

    work, arrangement = delivery.work, delivery.arrangement
    if arrangement.engine != "serial" or arrangement.memory * _THREADS > memory:
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
    from revseq_cli import job

    resources = options.take_resources(others)
    layout = options.take_layout(others)
    request = options.request_of(lengths=lengths, format_name=format_name, absolute=resources.elsewhere, **others)
    target = run.Target.of(output, format_name, request, layout, overwrite=overwrite, verify=verify, sha256=sha256)
    work = job.load(request)
    work.require(level)
    return target.delivery(work, resources)
