"""Jobs in processes of their own: if one of them ends its process, the others still run.

A library may crash over a crafted file, and a system that is short of memory kills a process that uses much of it. Each
worker marks the jobs that it begins in memory that it shares with this process. If a worker dies, all workers end, and
the jobs that were under way run again, each alone in the only worker: if that dies, too, it was that job.

Small jobs run side by side, on all workers. A job that needs the machine for itself also runs alone.
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
from typing import TYPE_CHECKING

from revseq_cli.commands import worker
from revseq_cli.core import processes, signals, thresholds
from revseq_cli.core.errors import EngineError
from revseq_cli.pipeline import executors

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from revseq_cli.commands.journal import Journal
    from revseq_cli.commands.manifest import Entry
    from revseq_cli.report.results import Outcome

_LONGEST_STOP = 10.0  # seconds that the workers have to undo their work after a signal
_LONGEST_CLEANUP = 1.0  # seconds: processes of a job end just after the worker that started them


class _Jobs(executors.Processes):
    """Processes for jobs, of which several small ones are submitted together; there are so many jobs left."""

    def __init__(self, workers: int, setup: worker.Setup, left: int) -> None:
        self.workers = self._workers = workers
        self._left = left
        begin = functools.partial(worker.begin_process, setup)
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

    def __init__(self, setup: worker.Setup) -> None:
        worker.begin(setup)


class Pool:
    """Runs jobs in up to `most` workers; `entries` has all jobs of the batch, and `jobs` says which of them to run.

    With `fail_fast`, no more jobs begin after one has failed.
    """

    def __init__(
        self, entries: list[Entry], jobs: Sequence[int], most: int, journal: Journal | None, *,
        fail_fast: bool, traceback: bool, plans: bool,
    ) -> None:  # fmt: skip
        self._marks, tag = multiprocessing.RawArray("Q", len(entries) + 1), os.urandom(4).hex()
        self._setup = worker.Setup(entries, most, fail_fast, traceback, journal, plans, self._marks, tag)
        self._queue, self._alone = deque(jobs), deque[int]()
        self._given: dict[int, None] = {}  # jobs without a result, in their order
        self._processes: _Jobs | None = None
        self._is_alone = self._is_here = False  # the job under way; all jobs, since no process can be started
        self.notes: dict[str, None] = {}  # of the workers, each once

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
            self._marks[-1] = worker.STOP
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
                self.notes |= dict.fromkeys(each.notes)
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

    def _tasks(self) -> Iterator[Callable[[], worker.Ended]]:
        """What the workers do next."""
        is_alone = self._is_alone
        jobs = deque([self._alone.popleft()]) if is_alone else self._queue
        while jobs and (is_alone or not self._alone):
            job = jobs.popleft()
            self._given[job] = None
            yield functools.partial(worker.run_job, job, alone=is_alone)

    def _see(self, outcome: Outcome | None) -> None:
        """Let no more jobs begin after a failure, with `fail_fast`."""
        if self._setup.fail_fast and outcome and outcome.error:
            self._marks[-1] = worker.HALT
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
