"""The jobs of a batch in worker processes: if a job ends its process, the others still run.

A library may crash over a crafted file, and a system that is short of memory kills a process that uses much of it. The
jobs that were under way then run again, each alone: if the process dies again, it was that job. Small jobs run side by
side, on one core each, and share the memory; a large one has the machine for itself.
"""

from __future__ import annotations

import functools
import os
import shutil
import stat
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from revseq_cli.commands import options, run
from revseq_cli.core import platform, processes, signals
from revseq_cli.core.errors import EngineError, worded
from revseq_cli.formats import atomic_file
from revseq_cli.formats.table import by_suffix, packing_of
from revseq_cli.pipeline import AUTO, SERIAL
from revseq_cli.report.objects import Outcome

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from concurrent.futures import Future

    from revseq_cli.commands.manifest import Entry
    from revseq_cli.core.errors import RevseqError

_OF_OUTPUT = ("output", "overwrite", "verify", "only")  # options that say nothing of the job itself
# Workers wait for the disk most of the time, so there are so many where there are fewer cores. Each has so many jobs,
# or bytes of inputs; small jobs, by the bytes of their tensors in files or held in memory, are submitted together.
_JOB_WORKERS, _JOBS_OF_A_WORKER, _WORTH_A_WORKER, _JOBS_TOGETHER = 8, 32, 1 << 26, 8
_SMALL_IN_FILES, _SMALL_HELD = 1 << 25, 1 << 20
_LONGEST_CLEANUP = 1.0  # seconds: processes of a job end just after the worker that started them
# What tells a file from another one under its name; None where there is none.
_State = tuple[int, int] | None


class Setup(NamedTuple):
    """What each worker gets: the jobs, how many of them share the memory, and a part of temporary files' names."""

    entries: list[Entry]
    workers: int
    plans: bool
    traceback: bool
    tag: str


class Pool:
    """Runs jobs in worker processes; with `plans`, jobs are planned, and nothing is written.

    With `fail_fast`, no more jobs begin after one has failed.
    """

    def __init__(
        self, entries: list[Entry], left: list[int], cores: int | None, *, fail_fast: bool, plans: bool, traceback: bool
    ) -> None:
        sizes = {job: sum(map(size_of, entries[job].inputs.values())) for job in left}
        large = {job: None for job in left if _is_large(entries[job], sizes[job])}
        small = [job for job in left if job not in large]
        # Up to `cores` workers, each for at least 32 jobs or 64 MiB of inputs.
        worth = len(small) // _JOBS_OF_A_WORKER
        worth += sum(sizes[job] for job in small) // _WORTH_A_WORKER
        most = min(len(small), cores or max(platform.cores(), _JOB_WORKERS))
        self._setup = Setup(entries, max(1, min(most, worth)), plans, traceback, os.urandom(4).hex())
        self._fail_fast = fail_fast
        self._queue, self._alone = deque(small), deque(large)
        self._begun: dict[
            int, _State
        ] = {}  # the jobs under way, and what stood under the names of their outputs before
        self._ours: set[int] = set()  # jobs whose outputs were written, but whose worker died before it said so

    def ended(self) -> Generator[tuple[int, Outcome], None, None]:
        """Each job that has ended; what is under way is undone where this is closed."""
        while self._queue or self._alone:
            is_alone = not self._queue or (self._fail_fast and bool(self._alone))
            workers = processes.Workers(1 if is_alone else self._setup.workers, functools.partial(_begin, self._setup))
            try:
                yield from self._run(workers, is_alone=is_alone)
            except processes.DiedError:
                self._close(workers)
                if is_alone:
                    [job] = self._begun
                    found = f"its process died: {workers.ended_by}"
                    error = EngineError(found, "files that the library can read, and enough memory")
                    yield job, self._seen(_outcome(self._setup.entries[job], error))
                else:
                    self._ours |= {job for job, before in self._begun.items() if self._state(job) not in (None, before)}
                    self._alone.extend(self._begun)
                self._begun.clear()
            finally:
                self._close(workers)

    def _run(self, workers: processes.Workers, *, is_alone: bool) -> Iterator[tuple[int, Outcome]]:
        """Run the jobs that are to be alone, one after another, or the others side by side."""
        from concurrent.futures import FIRST_COMPLETED, wait

        queue, count, pending = (self._alone if is_alone else self._queue), workers.workers, set["Future[Any]"]()
        window = (
            count if is_alone or self._fail_fast else 2 * count
        )  # so that the next ones of a worker are there in time
        while queue or pending:
            while queue and len(pending) < window:
                # Fewer at the end, so that all workers end at about one time.
                size = 1 if is_alone or self._fail_fast else min(_JOBS_TOGETHER, len(queue) // (4 * count))
                jobs = [queue.popleft() for _ in range(max(1, size))]
                self._begun |= {job: self._state(job) for job in jobs}
                ours = self._ours.intersection(jobs)
                pending.add(workers.submit(functools.partial(_run_jobs, jobs, is_alone=is_alone, ours=ours)))
            done = wait(pending, signals.PATIENCE, FIRST_COMPLETED).done
            signals.check()
            if not done:
                workers.check()
            for future in done:
                results = workers.result(future)
                pending.remove(future)
                for job, outcome in results:
                    del self._begun[job]
                    if outcome:
                        yield job, self._seen(outcome)
                    else:  # a part of the memory was not enough
                        self._alone.append(job)

    def _seen(self, outcome: Outcome) -> Outcome:
        """Let no more jobs begin after a failure, with `fail_fast`."""
        if self._fail_fast and outcome.error:
            self._queue.clear()
            self._alone = deque(job for job in self._alone if job in self._ours)
        return outcome

    def _state(self, job: int) -> _State:
        try:
            status = os.stat(self._setup.entries[job].output)  # noqa: PTH116 - a string
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns

    def _close(self, workers: processes.Workers) -> None:
        """Kill the workers, and remove what they have left of the jobs that were under way."""
        workers.close()
        folders = {os.path.dirname(self._setup.entries[job].output) for job in self._begun}  # noqa: PTH120 - strings
        end = time.monotonic() + _LONGEST_CLEANUP
        while left := [path for folder in folders for path in Path(folder).glob(f".revseq-{self._setup.tag}*.tmp")]:
            for path in left:
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)
            if time.monotonic() > end:
                return
            time.sleep(0.01)


def size_of(path: str) -> int:
    """The bytes of a file, or of all files in a folder; 0 where there is none."""
    try:
        status = os.stat(path)  # noqa: PTH116 - a string
    except OSError:
        return 0
    if stat.S_ISDIR(status.st_mode):
        return sum(each.stat().st_size for each in Path(path).rglob("*") if each.is_file())
    return status.st_size


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


def _run_jobs(jobs: list[int], *, is_alone: bool, ours: set[int]) -> list[tuple[int, Outcome | None]]:
    """Run jobs, one after another; the outputs of those that are `ours` may be replaced."""
    with signals.deferred():
        return [(job, _run_job(job, is_alone=is_alone, is_ours=job in ours)) for job in jobs]


def _run_job(job: int, *, is_alone: bool, is_ours: bool) -> Outcome | None:
    """Run a job; None where its part of the memory is not enough."""
    [setup] = _setup
    entry = setup.entries[job]
    try:
        return _outcome_of(entry, setup, is_alone=is_alone, is_ours=is_ours)
    except Exception as e:  # noqa: BLE001 - any error ends this job alone
        signals.check()  # a signal may have caused it
        if isinstance(e, EngineError) and not is_alone:
            return None
        if setup.traceback:
            import traceback

            traceback.print_exception(e)
        return _outcome(entry, worded(e, entry.options["output"]))


def _outcome_of(entry: Entry, setup: Setup, *, is_alone: bool, is_ours: bool) -> Outcome:
    given = {name: value for name, value in entry.options.items() if name not in _OF_OUTPUT}
    if not is_alone:
        given |= {"cores": 1, "memory": max(1, given["memory"] // setup.workers)}
    resources = options.take_resources(given)
    request = options.request_of(absolute=resources.elsewhere, **given)
    folder = os.path.dirname(entry.output)  # noqa: PTH120 - a string
    if setup.plans and not os.path.isdir(folder):  # noqa: PTH112 - which would be made
        planned = run.plan_of(request, resources)
        return _outcome(entry, bytes=planned.values.total_bytes, plan=planned.traffic)
    if is_ours and os.path.isdir(entry.output):  # noqa: PTH112 - a folder is never replaced
        shutil.rmtree(entry.output)
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103
    told = {name: entry.options[name] for name in ("verify", "only")}
    overwrite = is_ours or entry.options["overwrite"]
    delivery = run.delivery_of(request, entry.options["output"], resources, overwrite=overwrite, **told)
    size = delivery.job.values.desc.total_bytes
    if setup.plans:
        return _outcome(entry, bytes=size, plan=delivery.planned.traffic)
    clamped = delivery.run()
    return _outcome(entry, bytes=size, verified=delivery.verify, notes=tuple(delivery.sink.notes), clamped=clamped)


def _outcome(entry: Entry, error: RevseqError | None = None, **told: Any) -> Outcome:
    return Outcome(entry.line, entry.options["output"], error, **told)
