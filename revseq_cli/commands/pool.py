"""The worker processes of `revseq batch`, so that a job that ends its process fails alone.

A library may crash over a crafted file, and a system that is short of memory kills a process that
uses much of it. The jobs that were under way then run again, each alone: if the process dies again,
it was that job. Small jobs run side by side, on one core each, and share the memory; a large one
has the machine for itself.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import functools
import os
import pickle
import shutil
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from revseq_cli import files
from revseq_cli.commands import options, run
from revseq_cli.commands.entries import Entry
from revseq_cli.core import platform, signals
from revseq_cli.core.errors import EngineError, RevseqError, put_into_words
from revseq_cli.files.local import UnnamedFile
from revseq_cli.files.new import NewFile, mark_temporary_files, temporary_pattern
from revseq_cli.files.transactions import FileGroup
from revseq_cli.formats import table
from revseq_cli.pipeline import executors, loading, passes
from revseq_cli.pipeline.plan import plan_pass
from revseq_cli.pipeline.resources import AUTO, SERIAL

# Workers mostly wait for the disk, so this many help even on fewer cores.
_JOB_WORKERS = 8
# Another worker is worth its start for this many jobs, or this many bytes of inputs.
_JOBS_OF_A_WORKER = 32
_BYTES_OF_A_WORKER = 1 << 26
# A job is small if its inputs have at most this many bytes; fewer if memory holds them whole.
_SMALL_IN_FILES = 1 << 25
_SMALL_HELD = 1 << 20
# The outputs of a group of jobs are flushed together. It has at most this many jobs and bytes.
_GROUP_JOBS = 64
_GROUP_BYTES = 1 << 25
# Seconds: the processes that a worker has started may live a little longer than the worker.
_LONGEST_CLEANUP = 1.0


@dataclass(frozen=True)
class Outcome:
    """The result of a job, which is in that `line` of the manifest.

    `error` is None if its output is written. With `skipped`, the output is up to date; with
    `planned`, it is not written, since this is a dry run.
    """

    line: int
    output: str
    error: RevseqError | None
    bytes: int = 0
    notes: Sequence[str] = ()
    clamped: int = 0
    skipped: bool = False
    planned: bool = False


@dataclass(frozen=True)
class _Setup:
    """How jobs run: with `dry_run`, only planned; with `shows_errors`, with tracebacks printed.

    Their temporary files carry the `mark`. `journal` is the path of a `_Journal`.
    """

    dry_run: bool
    shows_errors: bool
    mark: str
    journal: str


@dataclass(frozen=True)
class _Finished:
    """A job whose output is written, but without its name yet; `identity` says which file it is."""

    job: int
    identity: tuple[int, int] | None
    outcome: Outcome


class _Journal:
    """A temporary file in which workers note what they are about to name.

    After the death of a worker it tells an output of this batch from a file of another program.
    """

    def __init__(self) -> None:
        self._file = UnnamedFile("the temporary folder")
        self.path = self._file.path

    def read(self) -> Iterator[_Finished]:
        """All that workers have noted, except an entry that a killed worker left incomplete."""
        with open(self.path, "rb") as stream:
            for line in stream:
                with contextlib.suppress(binascii.Error, EOFError, pickle.UnpicklingError):
                    yield from pickle.loads(base64.b64decode(line))  # noqa: S301 - our own


class Pool:
    """Runs jobs in worker processes. A job is an index into the entries.

    A job waits in `_alone` or in `_small`, and is `_under_way` from its start to its outcome. A
    small job whose worker dies, or whose part of the memory is not enough, goes to `_alone`. If its
    worker dies again there, it has failed.
    """

    def __init__(
        self, entries: list[Entry], cores: int | None, *, dry_run: bool, shows_errors: bool
    ) -> None:
        self._entries = entries
        self._journal = _Journal()
        mark = os.urandom(4).hex()
        self._setup = _Setup(dry_run, shows_errors, mark, self._journal.path)
        self._alone = deque[int]()
        self._small = deque[int]()
        for job, entry in enumerate(entries):
            queue = self._alone if _is_large(entry) else self._small
            queue.append(job)
        self._worker_count = self._choose_workers(cores or max(platform.cores(), _JOB_WORKERS))
        self._under_way: set[int] = set()
        self._repeated: set[int] = set()  # jobs whose worker died once

    def _choose_workers(self, most: int) -> int:
        """The number of workers that are worth their start for the small jobs."""
        entries = [self._entries[job] for job in self._small]
        worth = len(entries) / _JOBS_OF_A_WORKER
        worth += sum(entry.bytes for entry in entries) / _BYTES_OF_A_WORKER
        worth += sum(map(_is_remote, entries))
        return max(1, min(most, len(entries), int(worth)))

    def run(self) -> Generator[Outcome, None, None]:
        """The outcomes of the jobs, as they end; closing this undoes what is under way."""
        while self._alone or self._small:
            if self._alone:
                yield from self._run_alone()
            else:
                yield from self._run_small()

    def _run_alone(self) -> Iterator[Outcome]:
        """Run one job after another, each with the whole machine."""
        # A job is taken only when it starts: those after one that dies wait for the next call.
        groups = ([self._alone.popleft()] for _ in range(len(self._alone)))
        try:
            yield from self._run_groups(groups, workers=1, sharers=0, ahead=1)
        except executors.DiedError:
            yield from self._read_journal()
            for job in self._under_way:
                self._remove_partial_output(job)
                expected = "files that the library can read, and enough memory"
                error = EngineError("its process died", expected)
                yield _make_failure(self._entries[job], error)
            self._under_way.clear()

    def _run_small(self) -> Iterator[Outcome]:
        """Run jobs side by side, which share the memory."""
        workers = self._worker_count
        groups = self._cut_groups()
        try:
            yield from self._run_groups(groups, workers=workers, sharers=workers, ahead=2)
        except executors.DiedError:
            yield from self._read_journal()
            self._repeated |= self._under_way
            self._alone.extend(sorted(self._under_way))
            self._under_way.clear()

    def _cut_groups(self) -> Iterator[list[int]]:
        """The small jobs in groups, whose outputs are flushed together.

        The last groups are small, so that all workers end together.
        """
        while self._small:
            most = min(_GROUP_JOBS, len(self._small) // (2 * self._worker_count))
            first = self._entries[self._small[0]]
            if _is_remote(first) or most < 1:
                most = 1
            yield self._take_small(most)

    def _take_small(self, most: int) -> list[int]:
        """The next small jobs: one, or up to `most` that are not too large together."""
        group: list[int] = []
        size = 0
        while self._small and len(group) < most:
            size += self._entries[self._small[0]].bytes
            if group and size > _GROUP_BYTES:
                break
            group.append(self._small.popleft())
        return group

    def _run_groups(
        self, groups: Iterable[list[int]], *, workers: int, sharers: int, ahead: int
    ) -> Iterator[Outcome]:
        """The outcomes of groups of jobs; DiedError if a worker died: its jobs are `_under_way`.

        `sharers` is the number of workers that share the memory, or 0 for jobs that have all of it.
        """
        tasks = (self._begin(group, sharers) for group in groups)
        try:
            with executors.Workers(workers) as executor:
                for results in executors.run_batches(tasks, executor, ahead=ahead):
                    for job, outcome in results:
                        self._under_way.remove(job)
                        if sharers and isinstance(outcome.error, EngineError):
                            self._alone.append(job)  # its part of the memory was not enough
                            continue
                        if outcome.error and job in self._repeated:
                            # Its first worker died, and may have left a part of a Zarr store.
                            self._remove_partial_output(job)
                        yield outcome
        finally:
            self._remove_temporary_files()

    def _begin(self, group: list[int], sharers: int) -> Callable[[], list[tuple[int, Outcome]]]:
        """What a worker calls to run these jobs, which are under way from now on."""
        self._under_way.update(group)
        jobs = [(job, self._entries[job]) for job in group]
        return functools.partial(_run_group, jobs, self._setup, sharers)

    def _read_journal(self) -> Iterator[Outcome]:
        """The outcomes of jobs whose outputs got their names before their worker died."""
        for finished in self._journal.read():
            if finished.job not in self._under_way or not finished.identity:
                continue
            with contextlib.suppress(OSError):  # there is no such output
                status = os.stat(self._entries[finished.job].output)
                if finished.identity == (status.st_dev, status.st_ino):
                    self._under_way.remove(finished.job)
                    yield finished.outcome

    def _remove_partial_output(self, job: int) -> None:
        """Remove what workers that died have left of a Zarr store at an address."""
        files.remove_partial_store(self._entries[job].output, self._setup.mark)

    def _remove_temporary_files(self) -> None:
        """Remove what killed workers have left of the jobs that were under way."""
        folders = {
            files.folder_of_temporary_files(self._entries[job].output) for job in self._under_way
        }
        pattern = temporary_pattern(self._setup.mark)
        end = time.monotonic() + _LONGEST_CLEANUP
        while left := [path for folder in folders for path in folder.glob(pattern)]:
            for path in left:
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                    continue
                with contextlib.suppress(OSError):  # on Windows, a process may have it open
                    path.unlink()
            if time.monotonic() > end:
                return
            time.sleep(0.01)


def _is_remote(entry: Entry) -> bool:
    """Whether a job waits for servers most of the time."""
    return any(map(files.waits_for_servers, (entry.output, *entry.inputs.values())))


def _is_large(entry: Entry) -> bool:
    """Whether a job has the machine for itself, by the size of its inputs.

    Texts and compressed files are held whole in memory.
    """
    if entry.options["engine"] not in (AUTO, SERIAL):
        return True
    paths = [*entry.inputs.values(), entry.output]
    rows = [table.by_suffix(path, reading=True) for path in paths]
    has_text = any(row is not None and row.is_text for row in rows)
    has_compressed = any(map(table.find_compression, entry.inputs.values()))
    most = _SMALL_IN_FILES
    if has_text or has_compressed:
        most = _SMALL_HELD
    return entry.bytes > most


def _make_failure(entry: Entry, error: RevseqError) -> Outcome:
    """The outcome of a job that has no output for this reason."""
    return Outcome(entry.line, entry.options["output"], error)


# In the workers


def _run_group(
    jobs: list[tuple[int, Entry]], setup: _Setup, sharers: int
) -> list[tuple[int, Outcome]]:
    """Run jobs one after another, and name their outputs together at the end.

    `sharers` is as in `Pool._run_groups`.
    """
    mark_temporary_files(setup.mark)
    outcomes: dict[int, Outcome] = {}
    outputs: dict[int, NewFile] = {}  # what is written, and has no name yet
    with signals.defer():
        with FileGroup() as group:
            for job, entry in jobs:
                try:
                    outcomes[job], output = _run_job(entry, setup, sharers, group)
                except Exception as e:  # noqa: BLE001 - any error ends only this job
                    signals.check()  # a signal may have caused it
                    if setup.shows_errors:
                        traceback.print_exception(e)
                    error = put_into_words(e, entry.options["output"])
                    outcomes[job] = _make_failure(entry, error)
                    continue
                if output:
                    outputs[job] = output
            flushed = group.flush_all()
            finished = [
                _Finished(job, output.identify(), outcomes[job])
                for job, output in outputs.items()
                if output in flushed
            ]
            _write_journal(setup.journal, finished)
            group.take_names()
        files.close()
    entries = dict(jobs)
    for job, file in outputs.items():
        if file in group.errors:
            outcomes[job] = _make_failure(entries[job], group.errors[file])
        if file in group.notes:
            notes = (*outcomes[job].notes, group.notes[file])
            outcomes[job] = replace(outcomes[job], notes=notes)
    return [*outcomes.items()]


def _write_journal(journal: str, finished: list[_Finished]) -> None:
    # An entry is a line of its own, also after one that a killed worker left incomplete.
    line = b"\n" + base64.b64encode(pickle.dumps(finished)) + b"\n"
    with open(journal, "ab", buffering=0) as file:
        file.write(line)


def _run_job(
    entry: Entry, setup: _Setup, sharers: int, group: FileGroup
) -> tuple[Outcome, NewFile | None]:
    """Run a job into a file of the group: its outcome, and that file if it is written."""
    files.forget_folders()
    parameters = dict(entry.options)
    output = parameters.pop("output")
    overwrite = parameters.pop("overwrite")
    verify = parameters.pop("verify")
    only = parameters.pop("only")
    if sharers:
        parameters["cores"] = 1
        parameters["memory"] = max(1, parameters["memory"] // sharers)
    resources = options.take_resources(parameters)
    request = run.keep_digits(options.make_request(resources, **parameters), output)
    job = loading.load_job(request)
    outcome = Outcome(entry.line, output, None, bytes=job.values.desc.total_bytes)
    planned = replace(outcome, planned=True)
    if not files.has_parent(entry.output):
        if setup.dry_run:  # nothing is written, not even the folder that a sink needs
            plan_pass(job.values, None, resources, job)
            return planned, None
        files.make_parent(entry.output)
    sink = run.new_sink(
        job,
        request,
        output,
        resources,
        overwrite=overwrite or entry.remakes,
        only=only,
        replaces_store=entry.remakes,
    )
    plan = plan_pass(job.values, sink, resources, job)
    if setup.dry_run:
        return planned, None
    with group.add(sink.file), sink:
        clamped = passes.reverse_into_file(job, sink, plan, verified=verify)
    return replace(outcome, notes=tuple(sink.notes), clamped=clamped), sink.file
