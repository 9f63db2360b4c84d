"""`revseq batch`: many jobs in worker processes, so that one that ends its process fails alone.

A library may crash over a crafted file, and a system that is short of memory kills a process that uses much of it. The
jobs that were under way then run again, each alone: if the process dies again, it was that job. Small jobs run side by
side, on one core each, and share the memory; a large one has the machine for itself.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import shutil
import sys
import time
import traceback
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from revseq_cli import files
from revseq_cli.commands import options, run
from revseq_cli.commands.options import Console, Group
from revseq_cli.core import platform, signals
from revseq_cli.core.errors import (
    DiskFullError,
    EngineError,
    FileThereError,
    RevseqError,
    UsageError,
    worded,
)
from revseq_cli.formats import table

if TYPE_CHECKING:
    from revseq_cli.commands.manifest import Entry, Jobs
    from revseq_cli.report.objects import Outcome

# Options of `run` that are no columns of a manifest: those that say what it prints, and one with several values.
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
_JOB_WORKERS = 8  # at least, also with fewer cores: workers wait for the disk most of the time
_JOBS_OF_A_WORKER = 32  # that make another worker worth its start,
_WORTH_A_WORKER = 1 << 26  # as so many bytes of inputs do
_SMALL_IN_FILES = 1 << 25  # bytes of the tensors of a small job, in files
_SMALL_HELD = 1 << 20  # the same, held in memory
_LONGEST_CLEANUP = 1.0  # seconds: processes of a job end just after the worker that started them


@options.command(
    "batch",
    params=_DEFAULTS,
    examples=(
        r"""printf 'input,lengths,axis,output\n"[1, 2]",[2],0,y.npy\n' > jobs.csv""",
        "revseq batch jobs.csv",
    ),
)
@click.argument("manifest", metavar="[MANIFEST]", required=False, type=click.Path())
@Group.READ.option(
    "--each", metavar="PATTERN", help="Run a job for each file that matches, such as 'data/*.npy'."
)
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
    "--dry-run",
    is_flag=True,
    help="Check all but the values, print how many bytes all jobs write, and write nothing.",
)
@options.output_options
def command(
    manifest: str | None,
    each: str | None,
    lengths: str | None,
    output: str | None,
    resume: bool,
    dry_run: bool,
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
    s.npy.gz), {match} for what the wildcards of the name matched, {name} for the name, {suffix} for the suffix, and
    {parent} for the folder. ** matches folders of any depth. Type {{ or }} for a brace. Folders of outputs are made.

    The command checks the whole MANIFEST before it starts the first job. If a job fails, or if its process dies, the
    other jobs still run and the exit status is 1. With --json it prints an object for each job.
    """
    from revseq_cli.report import view
    from revseq_cli.report.objects import Outcome

    jobs = _jobs(manifest, each, {"lengths": lengths, "output": output}, defaults)
    if not jobs:
        console.note(
            f"{manifest} names no file"
            if each is None
            else f"no file matches --each {each or repr(each)}"
        )
        return 0
    began, outcomes = time.monotonic(), list[Outcome]()
    with signals.deferred():
        skipped: list[Outcome] = []
        entries: list[Entry] = []
        files.learn_states(
            [path for entry in jobs.entries for path in (*entry.inputs.values(), entry.output)]
        )
        for entry in jobs.entries:
            if not resume:
                entries.append(entry)
            elif _is_up_to_date(entry):
                skipped.append(Outcome(entry.line, entry.options["output"], None, skipped=True))
            else:  # an output that is older than its inputs is replaced
                entries.append(entry._replace(options=entry.options | {"overwrite": True}))
        pool = _Pool(
            entries, defaults["cores"], _Setup(dry_run, console.verbose > 1, os.urandom(4).hex())
        )
        with (
            signals.begun("batch", len(entries), "jobs") as advance,
            contextlib.closing(pool.outcomes()) as ended,
        ):
            try:
                for outcome in itertools.chain(skipped, ended):
                    outcomes.append(outcome)
                    _print_outcome(outcome, jobs, console)
                    advance(0 if outcome.skipped else 1)
            finally:
                _print_notes_and_errors(
                    sorted(outcomes, key=lambda outcome: outcome.line), jobs, console
                )
    if not (console.as_json or console.quiet):
        seconds = time.monotonic() - began
        click.echo(view.batch(outcomes, len(jobs.entries), None if dry_run else seconds))
    return int(any(outcome.error for outcome in outcomes))


def _jobs(
    path: str | None, pattern: str | None, templates: dict[str, Any], defaults: dict[str, Any]
) -> Jobs | None:
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
    output = files.time_of_change(entry.output)
    return output is not None and all(
        (files.time_of_change(path) or sys.maxsize) <= output for path in entry.inputs.values()
    )


def _print_outcome(outcome: Outcome, jobs: Jobs, console: Console) -> None:
    from revseq_cli.report import objects

    if isinstance(outcome.error, FileThereError):
        outcome.error.hint = (
            "add --resume to skip what is done, or --overwrite to do all jobs again"
        )
    if console.as_json:
        click.echo(objects.outcome(outcome))
    if not outcome.error:
        done = "skipped" if outcome.skipped else "planned" if outcome.planned else "wrote"
        console.detail(f"{jobs.place([outcome.line])}: {done} {outcome.output}")


def _print_notes_and_errors(outcomes: Iterable[Outcome], jobs: Jobs, console: Console) -> None:
    """Print the notes, and then the errors: those that are equal once, with the lines of all their jobs."""
    from revseq_cli.report.terminal import reason, together

    notes: dict[str, list[int]] = defaultdict(list)
    errors: dict[Hashable, dict[int, RevseqError]] = defaultdict(dict)
    for outcome in outcomes:
        for note in outcome.notes:
            notes[note].append(outcome.line)
        if error := outcome.error:
            errors[DiskFullError if isinstance(error, DiskFullError) else reason(error)][
                outcome.line
            ] = error
    console.note(*(f"{jobs.place(lines)}: {note}" for note, lines in notes.items()))
    for alike in errors.values():
        for part in together([*alike.values()]):
            options.print_error(part, console.color, jobs.place([*alike]))


class _Setup(NamedTuple):
    """What jobs do: with `plans`, only plan; with `shows_errors`, print tracebacks. Temporary files have the `tag`."""

    plans: bool
    shows_errors: bool
    tag: str


class _Pool:
    """Runs jobs, by their indices, in worker processes."""

    def __init__(self, entries: list[Entry], cores: int | None, setup: _Setup) -> None:
        self._entries, self._setup = entries, setup
        sizes = [sum(map(_size_of, entry.inputs.values())) for entry in entries]
        self._alone, self._small = deque[int](), deque[int]()
        for job, entry in enumerate(entries):
            (self._alone if _is_large(entry, sizes[job]) else self._small).append(job)
        worth = (
            len(self._small) / _JOBS_OF_A_WORKER
            + sum(sizes[job] for job in self._small) / _WORTH_A_WORKER
        )
        # A job at an address waits most of the time.
        worth += sum(
            any(map(platform.is_remote, entries[job].inputs.values())) for job in self._small
        )
        self._workers = max(
            1, min(cores or max(platform.cores(), _JOB_WORKERS), len(self._small), int(worth))
        )
        self._begun: dict[
            int, bool
        ] = {}  # the jobs under way, and whether nothing stood at their outputs' names

    def outcomes(self) -> Generator[Outcome, None, None]:
        """Those of the jobs, as they end; what is under way is undone where this is closed."""
        from revseq_cli.pipeline import executors, passes
        from revseq_cli.report.objects import Outcome

        while queue := self._alone or self._small:
            is_alone = queue is self._alone
            workers, has_died = executors.Workers(1 if is_alone else self._workers), False
            try:
                begun = self._begin(queue, 0 if is_alone else self._workers)
                for job, outcome in passes.run(begun, workers, ahead=1 if is_alone else 2):
                    del self._begun[job]
                    if outcome:
                        yield outcome
                    else:
                        self._alone.append(job)
            except executors.DiedError:
                has_died = True
            finally:
                workers.close()
                self._remove_temporary_files()
            if has_died and is_alone:
                [entry] = (self._entries[job] for job in self._begun)
                wanted = "files that the library can read, and enough memory"
                error = EngineError("its process died", wanted)
                yield Outcome(entry.line, entry.options["output"], error)
            elif has_died:
                self._alone += self._begun
                for job, was_free in self._begun.items():
                    entry = self._entries[job]
                    if (
                        was_free and files.time_of_change(entry.output) is not None
                    ):  # the worker died before it said so
                        self._entries[job] = entry._replace(
                            options=entry.options | {"overwrite": True}
                        )
                        if os.path.isdir(entry.output):
                            shutil.rmtree(entry.output)
            self._begun.clear()

    def _begin(
        self, queue: deque[int], sharing: int
    ) -> Iterator[Callable[[], tuple[int, Outcome | None]]]:
        while queue:
            job = queue.popleft()
            self._begun[job] = files.time_of_change(self._entries[job].output) is None
            yield functools.partial(_run_job, job, self._entries[job], self._setup, sharing)

    def _remove_temporary_files(self) -> None:
        """Remove what killed workers have left of the jobs that were under way."""
        folders = {Path(self._entries[job].output).parent for job in self._begun}
        end = time.monotonic() + _LONGEST_CLEANUP
        while left := [
            path for folder in folders for path in folder.glob(f".revseq-{self._setup.tag}*.tmp")
        ]:
            for path in left:
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)
            if time.monotonic() > end:
                return
            time.sleep(0.01)


def _size_of(path: str) -> int:
    """The bytes of a file, or of all files in a folder; 0 where there is none."""
    files = Path(path).rglob("*") if os.path.isdir(path) else [path]
    return sum(os.path.getsize(file) for file in files if os.path.isfile(file))


def _is_large(entry: Entry, size: int) -> bool:
    """Whether a job has the machine for itself: by its inputs, of which texts and packed files are held whole."""
    if entry.options["engine"] not in ("auto", "serial"):
        return True
    rows = [table.by_suffix(path, reading=True) for path in (*entry.inputs.values(), entry.output)]
    is_held = any(row and row.is_text for row in rows) or any(
        map(table.packing_of, entry.inputs.values())
    )
    return size > (_SMALL_HELD if is_held else _SMALL_IN_FILES)


# In the workers


def _run_job(job: int, entry: Entry, setup: _Setup, sharing: int) -> tuple[int, Outcome | None]:
    """Run a job; no outcome where its part of the memory is not enough.

    `sharing` is the number of jobs that share the memory, or 0 where it is alone.
    """
    from revseq_cli.files import new
    from revseq_cli.report.objects import Outcome

    new.tag = setup.tag
    try:
        with signals.deferred():
            return job, _outcome_of(entry, setup, sharing)
    except Exception as e:  # noqa: BLE001 - any error ends this job alone
        signals.check()  # a signal may have caused it
        if setup.shows_errors:
            traceback.print_exception(e)
        if isinstance(e, EngineError) and sharing:
            return job, None
        output = entry.options["output"]
        return job, Outcome(entry.line, output, worded(e, output))
    finally:
        files.close()


def _outcome_of(entry: Entry, setup: _Setup, sharing: int) -> Outcome:
    from revseq_cli.pipeline import passes, suggest
    from revseq_cli.pipeline.plan import plan_reversal
    from revseq_cli.report.objects import Outcome

    settings = dict(entry.options)
    output, overwrite, verify, only = (
        settings.pop(name) for name in ("output", "overwrite", "verify", "only")
    )
    if sharing:
        settings |= {"cores": 1, "memory": max(1, settings["memory"] // sharing)}
    resources = options.take_resources(settings)
    request = options.request_of(absolute=resources.elsewhere, **settings)
    job = suggest.load(request)
    outcome = Outcome(entry.line, output, None, bytes=job.values.desc.total_bytes)
    folder = os.curdir if platform.is_remote(entry.output) else os.path.dirname(entry.output)
    if setup.plans and not os.path.isdir(folder):
        plan_reversal(job, resources)
        return outcome._replace(planned=True)
    os.makedirs(folder, exist_ok=True)
    sink = run.new_sink(job, request, output, resources, overwrite=overwrite, only=only)
    plan = plan_reversal(job, resources, sink)
    if setup.plans:
        return outcome._replace(planned=True)
    with options.written(sink):
        clamped = passes.write(job, sink, plan, verified=verify)
    return outcome._replace(notes=tuple(sink.notes), clamped=clamped)
