"""The jobs of a batch in worker processes: if a job ends its process, the others still run.

A library may crash over a crafted file, and a system that is short of memory kills a process that uses much of it. The
jobs that were under way then run again, each alone: if the process dies again, it was that job. Small jobs run side by
side, on one core each, and share the memory; a large one has the machine for itself.
"""

from __future__ import annotations

import functools
import os
import shutil
import sys
import time
import traceback
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from revseq_cli.commands import options, run
from revseq_cli.core import platform, processes, signals
from revseq_cli.core.errors import EngineError, worded
from revseq_cli.formats import atomic_file
from revseq_cli.formats.table import by_suffix, packing_of
from revseq_cli.pipeline import AUTO, SERIAL
from revseq_cli.pipeline.plan import plan_reversal
from revseq_cli.report.objects import Outcome, Planned

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator
    from concurrent.futures import Future

    from revseq_cli.commands.manifest import Entry

_OF_OUTPUT = ("output", "overwrite", "verify", "only")  # options that say nothing of the job itself
# Workers wait for the disk most of the time, so there are so many where there are fewer cores. Each has so many jobs,
# or bytes of inputs. The tensors of a small job have so many bytes, in files or held in memory.
_JOB_WORKERS, _JOBS_OF_A_WORKER, _WORTH_A_WORKER = 8, 32, 1 << 26
_SMALL_IN_FILES, _SMALL_HELD = 1 << 25, 1 << 20
_LONGEST_CLEANUP = 1.0  # seconds: processes of a job end just after the worker that started them


class Setup(NamedTuple):
    """What each worker gets: the jobs, how many of them share the memory, and a part of temporary files' names.

    With `plans`, jobs are planned, and nothing is written. With `shows_errors`, tracebacks are printed.
    """

    entries: list[Entry]
    workers: int
    plans: bool
    shows_errors: bool
    tag: str


class Pool:
    """Runs jobs in worker processes. With `fail_fast`, no more begin after one has failed."""

    def __init__(self, entries: list[Entry], jobs: Iterable[int], cores: int | None, *, fail_fast: bool) -> None:
        self._entries, self._fail_fast = entries, fail_fast
        sizes = {job: sum(map(_size_of, entries[job].inputs.values())) for job in jobs}
        large = {job for job, size in sizes.items() if _is_large(entries[job], size)}
        self._alone, self._queue = deque(sorted(large)), deque(job for job in sizes if job not in large)
        worth = len(self._queue) / _JOBS_OF_A_WORKER + sum(sizes[job] for job in self._queue) / _WORTH_A_WORKER
        # A job at an address waits most of the time.
        worth += sum(any(map(platform.is_remote, entries[job].inputs.values())) for job in self._queue)
        most = cores or max(platform.cores(), _JOB_WORKERS)
        self._workers = max(1, min(most, len(self._queue), int(worth)))
        # The jobs under way, and what stood under the names of their outputs before; and those whose outputs were
        # written, but whose worker died before it said so.
        self._begun: dict[int, Any] = {}
        self._written = set[int]()

    def outcomes(self, *, plans: bool, shows_errors: bool) -> Generator[tuple[int, Outcome], None, None]:
        """Each job that has ended; what is under way is undone where this is closed."""
        setup = Setup(self._entries, self._workers, plans, shows_errors, os.urandom(4).hex())
        while self._queue or self._alone:
            is_alone = bool(self._alone)
            workers = processes.Workers(1 if is_alone else self._workers, functools.partial(_begin, setup))
            try:
                for job, outcome in self._run(workers, is_alone=is_alone):
                    if outcome:
                        yield job, self._ended(outcome)
                    else:
                        self._alone.append(job)
            except processes.DiedError:
                self._close(workers, setup.tag)
                begun, self._begun = self._begun, {}
                for job, before in begun.items():
                    entry = self._entries[job]
                    if is_alone:
                        wanted = "files that the library can read, and enough memory"
                        error = EngineError(f"its process died: {workers.ended_by}", wanted)
                        yield job, self._ended(Outcome(entry.line, entry.options["output"], error))
                    else:
                        self._alone.append(job)
                        if options.file_state(entry.output) not in (None, before):
                            self._written.add(job)
            finally:
                self._close(workers, setup.tag)

    def _run(self, workers: processes.Workers, *, is_alone: bool) -> Iterator[tuple[int, Outcome | None]]:
        """Run the jobs that are to be alone, one after another, or the others side by side."""
        from concurrent.futures import FIRST_COMPLETED, wait

        queue, pending = (self._alone if is_alone else self._queue), dict["Future[Any]", int]()
        # Twice as many as there are workers, so that the next one of each is there in time.
        window = workers.workers if is_alone or self._fail_fast else 2 * workers.workers
        while queue or pending:
            while queue and len(pending) < window:
                job = queue.popleft()
                self._begun[job] = options.file_state(self._entries[job].output)
                task = functools.partial(_run_job, job, is_alone=is_alone, is_written=job in self._written)
                pending[workers.submit(task)] = job
            done = wait(pending, signals.PATIENCE, FIRST_COMPLETED).done
            signals.check()
            if not done:
                workers.check()
            for future in done:
                outcome = workers.result(future)
                job = pending.pop(future)
                del self._begun[job]
                yield job, outcome

    def _ended(self, outcome: Outcome) -> Outcome:
        if self._fail_fast and outcome.error:
            self._queue.clear()
            self._alone = deque(job for job in self._alone if job in self._written)
        return outcome

    def _close(self, workers: processes.Workers, tag: str) -> None:
        """Kill the workers, and remove what they have left of the jobs that were under way."""
        workers.close()
        folders = {Path(self._entries[job].output).parent for job in self._begun}
        end = time.monotonic() + _LONGEST_CLEANUP
        while left := [path for folder in folders for path in folder.glob(f".revseq-{tag}*.tmp")]:
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
    if os.path.isdir(path):  # noqa: PTH112 - a string
        return sum(each.stat().st_size for each in Path(path).rglob("*") if each.is_file())
    try:
        return os.stat(path).st_size  # noqa: PTH116
    except OSError:
        return 0


def _is_large(entry: Entry, size: int) -> bool:
    """Whether a job has the machine for itself: by its inputs, of which texts and packed files are held whole."""
    if entry.options["engine"] not in (AUTO, SERIAL):
        return True
    rows = [by_suffix(path, reading=True) for path in (*entry.inputs.values(), entry.output)]
    is_held = any(row and row.is_text for row in rows) or any(map(packing_of, entry.inputs.values()))
    return size > (_SMALL_HELD if is_held else _SMALL_IN_FILES)


_setup: list[Setup] = []  # of this process, a worker


def _begin(setup: Setup) -> None:
    atomic_file.tag = setup.tag
    _setup[:] = [setup]


def _run_job(job: int, *, is_alone: bool, is_written: bool) -> Outcome | None:
    """Run a job, whose output may be replaced if it `is_written`; None where its part of the memory is not enough."""
    [setup] = _setup
    entry = setup.entries[job]
    try:
        with signals.deferred():
            return _outcome_of(entry, setup, is_alone=is_alone, is_written=is_written)
    except Exception as e:  # noqa: BLE001 - any error ends this job alone
        signals.check()  # a signal may have caused it
        if setup.shows_errors:
            traceback.print_exception(e)
        if isinstance(e, EngineError) and not is_alone:
            return None
        return Outcome(entry.line, entry.options["output"], worded(e, entry.options["output"]))
    finally:
        if remote := sys.modules.get("revseq_cli.formats.remote"):
            remote.close()


def _outcome_of(entry: Entry, setup: Setup, *, is_alone: bool, is_written: bool) -> Outcome:
    job_options = {name: value for name, value in entry.options.items() if name not in _OF_OUTPUT}
    if not is_alone:
        job_options |= {"cores": 1, "memory": max(1, job_options["memory"] // setup.workers)}
    resources = options.take_resources(job_options)
    request = options.request_of(absolute=resources.elsewhere, **job_options)
    job = run.loaded(request)
    output, overwrite, verify, only = (entry.options[name] for name in _OF_OUTPUT)
    outcome = Outcome(entry.line, output, None, bytes=job.values.desc.total_bytes)
    folder = os.curdir if platform.is_remote(entry.output) else os.path.dirname(entry.output)  # noqa: PTH120 - strings
    if setup.plans and not os.path.isdir(folder):  # noqa: PTH112 - which would be made
        return outcome._replace(plan=Planned(job, plan_reversal(job, resources)).traffic)
    if is_written and os.path.isdir(entry.output):  # noqa: PTH112 - a folder is never replaced
        shutil.rmtree(entry.output)
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103
    delivery = run.Delivery.of(job, request, output, resources, overwrite=overwrite or is_written, only=only)
    if setup.plans:
        return outcome._replace(plan=delivery.planned.traffic)
    clamped = delivery.run(verify=verify)
    return outcome._replace(verified=verify, notes=tuple(delivery.sink.notes), clamped=clamped)
