"""The worker processes of `revseq batch`, so that a job that ends its process fails alone.

A library may crash over a crafted file, and a system that is short of memory kills a process that
uses much of it. The jobs that were under way then run again, each alone: if the process dies again,
it was that job. Small jobs run side by side, on one core each, and share the memory; a large one
has the machine for itself.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pickle
import shutil
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import cast

from revseq_cli import files
from revseq_cli.commands import options, run
from revseq_cli.commands.manifest import Entry
from revseq_cli.core import platform, signals
from revseq_cli.core.errors import EngineError, put_into_words
from revseq_cli.files import new
from revseq_cli.files.local import UnnamedFile
from revseq_cli.files.new import FileGroup, NewFile
from revseq_cli.formats import table
from revseq_cli.pipeline import executors, passes, suggest
from revseq_cli.pipeline.plan import plan_reversal
from revseq_cli.report.outcomes import Outcome

_JOB_WORKERS = 8  # at least, also with fewer cores: workers wait for the disk most of the time
_JOBS_OF_A_WORKER = 32  # that make another worker worth its start,
_WORTH_A_WORKER = 1 << 26  # as so many bytes of inputs do
_SMALL_IN_FILES = 1 << 25  # bytes of the tensors of a small job, in files
_SMALL_HELD = 1 << 20  # the same, held in memory
_LONGEST_CLEANUP = 1.0  # seconds: processes of a job end just after the worker that started them
_GROUP_JOBS = 64  # at most, whose outputs are flushed together,
_GROUP_BYTES = 1 << 25  # with so many bytes of inputs


@dataclass(frozen=True)
class _Setup:
    """What jobs do: with `plans`, only plan; with `shows_errors`, print tracebacks.

    Their temporary files carry the `mark`. `journal` is the path of a `_Journal`.
    """

    plans: bool
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
        with open(self.path, "rb") as stream, contextlib.suppress(EOFError, pickle.UnpicklingError):
            while True:
                yield from pickle.load(stream)  # noqa: S301 - our own


class Pool:
    """Runs jobs, by their indices, in worker processes."""

    def __init__(
        self, entries: list[Entry], cores: int | None, *, plans: bool, shows_errors: bool
    ) -> None:
        self._entries = entries
        self._journal = _Journal()
        mark = os.urandom(4).hex()
        self._setup = _Setup(plans, shows_errors, mark, self._journal.path)
        self._alone = deque[int]()
        self._small = deque[int]()
        for job, entry in enumerate(entries):
            queue = self._alone if _is_large(entry) else self._small
            queue.append(job)
        self._workers = self._choose_workers(cores or max(platform.cores(), _JOB_WORKERS))
        self._under_way: set[int] = set()
        self._died: set[int] = set()  # jobs whose worker died; they run again

    def _choose_workers(self, most: int) -> int:
        """The number of workers that are worth their start for the small jobs."""
        worth = len(self._small) / _JOBS_OF_A_WORKER
        worth += sum(self._entries[job].bytes for job in self._small) / _WORTH_A_WORKER
        worth += sum(_is_far(self._entries[job]) for job in self._small)
        return max(1, min(most, len(self._small), int(worth)))

    def run(self) -> Generator[Outcome, None, None]:
        """The outcomes of the jobs, as they end; closing this undoes what is under way."""
        while self._alone or self._small:
            is_alone = bool(self._alone)
            try:
                yield from self._run_alone() if is_alone else self._run_small()
            except executors.DiedError:
                yield from self._read_journal()
                if is_alone:
                    for job in self._under_way:
                        self._remove_output_of(job)
                        yield self._describe_death(job)
                else:
                    self._died |= self._under_way
                    self._alone += sorted(self._under_way)
                self._under_way.clear()

    def _run_alone(self) -> Iterator[Outcome]:
        """Run one job after another, each with the whole machine."""
        groups = ([self._alone.popleft()] for _ in range(len(self._alone)))
        return self._run_groups(groups, workers=1, sharing=0, ahead=1)

    def _run_small(self) -> Iterator[Outcome]:
        """Run jobs side by side, which share the memory."""
        return self._run_groups(
            self._cut_groups(), workers=self._workers, sharing=self._workers, ahead=2
        )

    def _cut_groups(self) -> Iterator[list[int]]:
        """The small jobs in groups, whose outputs are flushed together.

        The last groups are small, so that all workers end together.
        """
        while self._small:
            most = min(_GROUP_JOBS, len(self._small) // (2 * self._workers))
            group = [self._small.popleft()]
            first = self._entries[group[0]]
            size = first.bytes
            if _is_far(first):
                most = 1
            while self._small and len(group) < most:
                size += self._entries[self._small[0]].bytes
                if size > _GROUP_BYTES:
                    break
                group.append(self._small.popleft())
            yield group

    def _run_groups(
        self, groups: Iterable[list[int]], *, workers: int, sharing: int, ahead: int
    ) -> Iterator[Outcome]:
        """The outcomes of groups of jobs; DiedError if a worker died: its jobs are `_under_way`."""
        executor = executors.Workers(workers)
        try:
            tasks = (self._begin(group, sharing) for group in groups)
            for results in executors.run_batches(tasks, executor, ahead=ahead):
                for job, outcome in results:
                    self._under_way.remove(job)
                    if outcome and outcome.error and job in self._died:
                        self._remove_output_of(job)
                    if outcome:
                        yield outcome
                    else:
                        self._alone.append(job)
        finally:
            executor.close()
            self._remove_temporary_files()

    def _begin(
        self, group: list[int], sharing: int
    ) -> Callable[[], list[tuple[int, Outcome | None]]]:
        self._under_way.update(group)
        jobs = [(job, self._entries[job]) for job in group]
        return functools.partial(_run_group, jobs, self._setup, sharing)

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

    def _remove_output_of(self, job: int) -> None:
        """Remove what workers that died have left of a Zarr store at an address."""
        files.remove_partial_store(self._entries[job].output, self._setup.mark)

    def _describe_death(self, job: int) -> Outcome:
        entry = self._entries[job]
        expected = "files that the library can read, and enough memory"
        return Outcome(
            entry.line, entry.options["output"], EngineError("its process died", expected)
        )

    def _remove_temporary_files(self) -> None:
        """Remove what killed workers have left of the jobs that were under way."""
        folders = {
            files.folder_of_temporary_files(self._entries[job].output) for job in self._under_way
        }
        pattern = f"{new.TEMPORARY_PREFIX}{self._setup.mark}*.tmp"
        end = time.monotonic() + _LONGEST_CLEANUP
        while left := [path for folder in folders for path in folder.glob(pattern)]:
            for path in left:
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)
            if time.monotonic() > end:
                return
            time.sleep(0.01)


def _is_far(entry: Entry) -> bool:
    """Whether a job waits for servers most of the time."""
    return any(map(files.waits_for_servers, (entry.output, *entry.inputs.values())))


def _is_large(entry: Entry) -> bool:
    """Whether a job has the machine for itself, by the size of its inputs.

    Texts and compressed files are held whole in memory.
    """
    if entry.options["engine"] not in ("auto", "serial"):
        return True
    paths = [*entry.inputs.values(), entry.output]
    rows = [table.by_suffix(path, reading=True) for path in paths]
    has_text = any(row is not None and row.is_text for row in rows)
    is_compressed = any(map(table.find_compression, entry.inputs.values()))
    most = _SMALL_HELD if has_text or is_compressed else _SMALL_IN_FILES
    return entry.bytes > most


# In the workers


def _run_group(
    jobs: list[tuple[int, Entry]], setup: _Setup, sharing: int
) -> list[tuple[int, Outcome | None]]:
    """Run jobs one after another, and name their outputs together at the end.

    The outcome is None for a job whose part of the memory is not enough. `sharing` is the number of
    workers that share the memory, or 0 for a job that has all of it.
    """
    new.mark_temporary_files(setup.mark)
    outcomes: dict[int, Outcome | None] = {}
    written: dict[NewFile, int] = {}
    with signals.defer():
        with new.FileGroup() as group:
            for job, entry in jobs:
                outcomes[job], file = _run_job(entry, setup, sharing, group)
                if file:
                    written[file] = job
            finished = [
                _Finished(written[file], file.identify(), cast("Outcome", outcomes[written[file]]))
                for file in group.flush()
            ]
            _write_journal(setup.journal, finished)
            group.take_names()
        files.close()
    for file, error in group.errors.items():
        entry = dict(jobs)[written[file]]
        outcomes[written[file]] = Outcome(entry.line, entry.options["output"], error)
    for file, note in group.notes.items():
        outcome = cast("Outcome", outcomes[written[file]])
        outcomes[written[file]] = replace(outcome, notes=(*outcome.notes, note))
    return list(outcomes.items())


def _write_journal(journal: str, finished: list[_Finished]) -> None:
    fd = os.open(journal, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(fd, pickle.dumps(finished))
    finally:
        os.close(fd)


def _run_job(
    entry: Entry, setup: _Setup, sharing: int, group: FileGroup
) -> tuple[Outcome | None, NewFile | None]:
    """Run a job into a file of the group: its outcome, and that file.

    Both are None as in `_run_group`.
    """
    try:
        return _write_output(entry, setup, sharing, group)
    except Exception as e:  # noqa: BLE001 - any error ends this job alone
        signals.check()  # a signal may have caused it
        if setup.shows_errors:
            traceback.print_exception(e)
        if isinstance(e, EngineError) and sharing:
            return None, None
        output = entry.options["output"]
        return Outcome(entry.line, output, put_into_words(e, output)), None


def _write_output(
    entry: Entry, setup: _Setup, sharing: int, group: FileGroup
) -> tuple[Outcome, NewFile | None]:
    files.forget_folders()
    settings = dict(entry.options)
    output = settings.pop("output")
    overwrite = settings.pop("overwrite")
    verify = settings.pop("verify")
    only = settings.pop("only")
    if sharing:
        settings["cores"] = 1
        settings["memory"] = max(1, settings["memory"] // sharing)
    resources = options.take_resources(settings)
    request = options.make_request(resources, **settings)
    request = run.keep_digits(request, output)
    job = suggest.load(request)
    outcome = Outcome(entry.line, output, None, bytes=job.values.desc.total_bytes)
    if not files.has_folder(entry.output):
        if setup.plans:
            plan_reversal(job, resources)
            return replace(outcome, planned=True), None
        files.make_folder(entry.output)
    sink = run.new_sink(
        job,
        request,
        output,
        resources,
        overwrite=overwrite or entry.remakes,
        only=only,
        replaces_store=entry.remakes,
    )
    plan = plan_reversal(job, resources, sink)
    if setup.plans:
        return replace(outcome, planned=True), None
    with group.create(sink.file), sink:
        clamped = passes.write(job, sink, plan, verified=verify)
    return replace(outcome, notes=tuple(sink.notes), clamped=clamped), sink.file
