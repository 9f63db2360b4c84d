"""Jobs in processes of their own: if one of them ends its process, the others still run.

A library may crash over a crafted file, and a system that is short of memory kills a process that uses much of it. Each
worker marks the jobs that it begins in memory that it shares with this process. If a worker dies, all workers end, and
the jobs that were under way run again, each alone in the only worker: if that dies, too, it was that job.

Small jobs run side by side, on all workers. A job that needs the machine for itself also runs alone: a worker opens
each job, and gives back one that is too large to run beside others.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import shutil
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from revseq_cli.commands import journal, options, run
from revseq_cli.commands.manifest import Writers
from revseq_cli.core import processes, signals, system, thresholds
from revseq_cli.core.errors import EngineError, worded
from revseq_cli.formats import atomic_file
from revseq_cli.formats.in_memory import MemorySource
from revseq_cli.formats.references import Reference
from revseq_cli.formats.textfiles import TextSink
from revseq_cli.pipeline import executors, jobs
from revseq_cli.pipeline.engines import ENGINES, SERIAL

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, MutableSequence, Sequence

    from revseq_cli.commands.journal import Journal, State
    from revseq_cli.commands.manifest import Entry
    from revseq_cli.pipeline.assembly import Job
    from revseq_cli.report.results import Outcome

_BEGUN = 1  # the mark of a job that has begun and no output yet
HALT, STOP = 1, 2  # the last mark: no more jobs begin; those under way stop, too
_INODE = (1 << 64) - 1  # a mark has 64 bits
_LONGEST_STOP = 10.0  # seconds that the workers have to undo their work after a signal
_LONGEST_CLEANUP = 1.0  # seconds: processes of a job end just after the worker that started them


class Setup(NamedTuple):
    """What each worker gets: the jobs, and how many workers there are at most.

    `journal` is where it notes what is done, if there is one. With `plans`, jobs are planned and nothing is written.
    `marks` is memory that all workers share with their parent. It has a number for each job: 0, _BEGUN, or the inode of
    the complete file that gets the name of its output; and one more, which is HALT or STOP, or 0 before.
    `tag` is in the names of temporary files.
    """

    entries: list[Entry]
    workers: int
    fail_fast: bool
    traceback: bool
    journal: Journal | None
    plans: bool
    marks: MutableSequence[int]
    tag: str


class Ended(NamedTuple):
    """What has become of a job, by its index in the batch; without an outcome it did not run.

    One that is large needs the machine for itself, and did not run.
    """

    job: int
    outcome: Outcome | None = None
    is_large: bool = False


def workers_for(entries: Sequence[Entry], cores: int | None) -> int:
    """How many workers are worth starting for these jobs: up to `cores`, if that is given; one where a cluster works.

    Each has at least 32 jobs, or 64 MiB of inputs.
    """
    if any(ENGINES[name].remote for entry in entries if (name := entry.options["engine"]) in ENGINES):
        return 1
    most = min(len(entries), cores or max(system.cores(), thresholds.JOB_WORKERS))
    many = len(entries) // thresholds.JOBS_OF_A_WORKER
    if many < most:
        many += sum(size_of(path) for entry in entries for path in entry.inputs.values()) // thresholds.WORTH_A_WORKER
    return max(1, min(most, many))


class _Jobs(executors.Processes):
    """Processes for jobs, of which several small ones are submitted together; there are so many jobs left."""

    def __init__(self, workers: int, setup: Setup, left: int) -> None:
        self.workers = self._workers = workers
        self._left = left
        begin = functools.partial(begin_process, setup)
        self._processes = processes.Workers(workers, begin, _LONGEST_STOP)

    def size(self, given: int) -> int:
        """How many jobs are submitted together; fewer at the end, so that all workers end at about one time."""
        return max(1, min(thresholds.JOBS_TOGETHER, (self._left - given) // (4 * self.workers)))

    @property
    def ended_by(self) -> str:
        """How the only worker has ended."""
        return self._processes.ended_by


class _Here(executors.Serial):
    """No processes, where none can be started: this one does the jobs."""

    def __init__(self, setup: Setup) -> None:
        begin(setup)


class Pool:
    """Runs jobs in up to `most` workers; `entries` has all jobs of the batch, and `left` says which of them to run.

    With `fail_fast`, no more jobs begin after one has failed.
    """

    def __init__(
        self, entries: list[Entry], left: Sequence[int], most: int, journal: Journal | None, *,
        fail_fast: bool, traceback: bool, plans: bool,
    ) -> None:  # fmt: skip
        self._marks, tag = multiprocessing.RawArray("Q", len(entries) + 1), os.urandom(4).hex()
        self._setup = Setup(entries, most, fail_fast, traceback, journal, plans, self._marks, tag)
        self._queue, self._alone = deque(left), deque[int]()
        self._given: dict[int, None] = {}  # jobs without a result, in their order
        self._processes: _Jobs | None = None
        self._is_alone = self._is_here = False  # the job under way; all jobs, since no process can be started

    def ended(self) -> Generator[tuple[int, Outcome | None], None, None]:
        """Each job that has ended, with its outcome, or None if it did not begin."""
        signals.at_once[self] = self._clean
        try:
            while self._queue or self._alone:
                try:
                    yield from self._run_some()
                except processes.DiedError:
                    yield from self._died()
                except processes.StartError:
                    self._is_here = True
                    self._take_back()
        except BaseException:  # also GeneratorExit and signals: in any case the jobs under way are to stop
            self._marks[-1] = STOP
            raise
        finally:
            self._close()
            signals.at_once.pop(self, None)

    def _run_some(self) -> Iterator[tuple[int, Outcome | None]]:
        """Run the next job that has to be alone, or else jobs of the queue until there is such a job."""
        self._is_alone = bool(self._alone)
        executor = self._executor(1 if self._is_alone else self._setup.workers)
        with contextlib.closing(executor.results(self._tasks())) as ended:
            for each in ended:
                del self._given[each.job]
                if each.is_large:
                    self._alone.append(each.job)
                else:
                    yield each.job, each.outcome
                    self._see(each.outcome)

    def _executor(self, workers: int) -> executors.Executor:
        if self._is_here:
            return _Here(self._setup)
        if self._processes and self._processes.workers != workers:
            self._close()
        self._processes = self._processes or _Jobs(workers, self._setup, len(self._queue))
        return self._processes

    def _tasks(self) -> Iterator[Callable[[], Ended]]:
        """What the workers do next."""
        is_alone = self._is_alone
        queue = deque([self._alone.popleft()]) if is_alone else self._queue
        while queue and (is_alone or not self._alone):
            job = queue.popleft()
            self._given[job] = None
            yield functools.partial(run_job, job, alone=is_alone)

    def _see(self, outcome: Outcome | None) -> None:
        """Let no more jobs begin after a failure, with `fail_fast`."""
        if self._setup.fail_fast and outcome and outcome.error:
            self._marks[-1] = HALT
            self._queue.clear()

    def _died(self) -> Iterator[tuple[int, Outcome]]:
        """Fail the job that was alone, or plan to run each of those under way alone.

        If no job has begun, no process can live: Python ends all if it cannot start a thread of its executor.
        """
        signals.check()  # a signal to the whole process group may have ended it
        died = self._processes
        given = [*self._given]
        if not self._take_back():
            self._is_here = True
        elif self._is_alone:
            self._alone.remove(given[0])
            by = died.ended_by if died else ""
            error = EngineError(f"its process died: {by}", "files that the library can read, and enough memory")
            outcome = self._setup.entries[given[0]].outcome(error)
            yield given[0], outcome
            self._see(outcome)

    def _take_back(self) -> bool:
        """End the workers, and plan to run what was given anew, that which had begun alone; whether something had."""
        self._close()
        begun = [job for job in self._given if self._marks[job]]
        self._alone.extend(begun)
        self._queue.extendleft(job for job in reversed(self._given) if job not in begun)
        self._given.clear()
        return bool(begun)

    def _close(self) -> None:
        """End the workers, and remove what they have left."""
        if self._processes:
            self._processes.close()
            self._processes = None
        end = time.monotonic() + _LONGEST_CLEANUP
        while self._clean() and time.monotonic() < end:
            time.sleep(0.01)

    def _clean(self) -> bool:
        """Remove temporary files that killed processes left beside outputs; whether there were any."""
        folders = {os.path.dirname(self._setup.entries[job].output) for job in self._given}  # noqa: PTH120 - a string
        left = [path for folder in folders for path in Path(folder).glob(f".revseq-{self._setup.tag}*.tmp")]
        for path in left:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):  # README says that a kill may leave files
                    path.unlink()
        return bool(left)


_workers: list[_Worker] = []  # of this process: one, after `begin`


def begin(setup: Setup) -> None:
    """Make this process ready for `run`."""
    atomic_file.tag = setup.tag
    _workers[:] = [_Worker(setup)]


def begin_process(setup: Setup) -> None:
    """Make a process of its own ready for `run`: it stops when its parent says so, and closes all at its end."""
    from multiprocessing.util import Finalize

    begin(setup)
    signals.obey(lambda: setup.marks[-1] == STOP)
    Finalize(None, signals.ending.close, exitpriority=1)


def run_job(job: int, *, alone: bool) -> Ended:
    """Run a job; `alone` says that no other one runs meanwhile. Stopped if the parent says so."""
    with signals.deferred():
        return _workers[0].carry_out(job, alone=alone)


class _Worker:
    """Runs jobs, one after another."""

    def __init__(self, setup: Setup) -> None:
        self._setup, self._writers = setup, Writers(setup.entries)

    def carry_out(self, job: int, *, alone: bool) -> Ended:
        """Run a job, unless no more jobs are to begin, or it is large and not alone."""
        setup = self._setup
        if setup.marks[-1] and setup.marks[job] <= _BEGUN:
            return Ended(job)
        entry = self._entry(job)
        setup.marks[job] = _BEGUN
        try:
            if not alone and _opens_large(entry):
                return Ended(job, is_large=True)
            began = time.time_ns()
            delivery = _delivery(**entry.options)
            self._refuse_outputs(entry, delivery.job)
            if setup.plans:
                outcome = _planned(entry, delivery)
            elif alone or _is_small(delivery, entry.options["memory"], setup.workers):
                outcome = self._write(job, entry, delivery, began)
            else:
                return Ended(job, is_large=True)
        except Exception as e:  # noqa: BLE001 - any error ends this job alone
            outcome = self._failed(entry, e)
        return Ended(job, outcome)

    def _entry(self, job: int) -> Entry:
        """The job. If its process died just after its output got its name, that may be replaced, or is removed."""
        entry, inode = self._setup.entries[job], self._setup.marks[job]
        if inode <= _BEGUN or not os.path.exists(entry.output) or _inode(entry.output) != inode:  # noqa: PTH110
            return entry
        if os.path.isdir(entry.output):  # noqa: PTH112 - a string
            shutil.rmtree(entry.output)
        return entry._replace(options=entry.options | {"overwrite": True})

    def _refuse_outputs(self, entry: Entry, job: Job) -> None:
        """FormatError if a file that the job's model names is an output; the manifest does not have these names."""
        for source in (job.values, job.lengths):
            if source.described and (error := self._writers.refusal(source.name, system.real_path(source.path), entry)):
                raise error

    def _write(self, job: int, entry: Entry, delivery: run.Delivery, began: int) -> Outcome:
        """Write the output of a job, whose headers were read after that time."""
        log = self._setup.journal
        read: dict[str, State] = journal.states_read(entry, delivery.job, began) if log else {}

        def complete() -> None:
            temporary = delivery.sink.file.temporary
            self._setup.marks[job] = _inode(temporary)
            if log:
                log.begin(entry, temporary)

        clamped = delivery.run(complete=complete)
        size, notes = delivery.job.values.desc.total_bytes, tuple(delivery.sink.notes)
        outcome = entry.outcome(bytes=size, verified=delivery.verify, notes=notes, clamped=clamped)
        return log.note(entry, read, outcome) if log else outcome

    def _failed(self, entry: Entry, error: Exception) -> Outcome:
        """The outcome of a job that an exception ended; raises Stopped after a signal, which may have caused it."""
        signals.check()
        if self._setup.fail_fast:
            self._setup.marks[-1] = HALT
        if self._setup.traceback:
            import traceback

            traceback.print_exception(error)
        return entry.outcome(worded(error, entry.options["output"]))


def _inode(path: str) -> int:
    return os.stat(path).st_ino & _INODE  # noqa: PTH116 - a string


def _opens_large(entry: Entry) -> bool:
    """Whether to open the job may already take much memory: it has a text, or a packed file, that is not small."""
    large = [name for name, path in entry.inputs.items() if size_of(path) > thresholds.SMALL_HELD]
    references = (Reference.input(entry.options[name]) for name in large)
    return any(reference.row.is_text or reference.packing for reference in references)


def size_of(path: str) -> int:
    """The bytes of a file; 0 where there is none."""
    return os.path.getsize(path) if os.path.isfile(path) else 0  # noqa: PTH113, PTH202 - strings


def _is_small(delivery: run.Delivery, memory: int, beside: int) -> bool:
    """Whether a job may run beside others: on one core, with room in the memory for as many such jobs."""
    job, arrangement = delivery.job, delivery.arrangement
    if arrangement.engine is not SERIAL or arrangement.need * beside > memory:
        return False
    # `need` does not count tensors that are held whole, and text needs many times the bytes of its numbers.
    held = any(isinstance(each, (MemorySource, TextSink)) for each in (job.values, job.lengths, delivery.sink))
    most = thresholds.SMALL_HELD if held else thresholds.SMALL_IN_FILES
    return job.values.desc.total_bytes + job.lengths.desc.total_bytes <= most


def _planned(entry: Entry, delivery: run.Delivery) -> Outcome:
    """The outcome of a job that is only planned."""
    return entry.outcome(bytes=delivery.job.values.desc.total_bytes, plan=delivery.planned.traffic)


def _delivery(
    output: str, format_name: str | None, overwrite: bool, verify: bool, only: bool, **others: Any
) -> run.Delivery:
    """The job of these options: its headers are read, and nothing is written yet."""
    resources = options.take_resources(others)
    request = options.request_of(format_name=format_name, absolute=resources.elsewhere, **others)
    reference = Reference.output(output, format_name, filter(None, request.references()))
    job = jobs.load(request)
    jobs.require(job)
    return run.prepared(job, reference, resources, overwrite=overwrite, verify=verify, only=only)
