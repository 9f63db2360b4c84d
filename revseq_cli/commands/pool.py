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
import traceback
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from revseq_cli.commands import base, options, run
from revseq_cli.core import platform, processes, signals
from revseq_cli.core.errors import EngineError, worded
from revseq_cli.formats import atomic_file
from revseq_cli.formats.table import by_suffix, packing_of
from revseq_cli.pipeline import AUTO, SERIAL
from revseq_cli.report.objects import Outcome

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator
    from concurrent.futures import Future

    from revseq_cli.commands.manifest import Entry
    from revseq_cli.core.errors import RevseqError

_OF_OUTPUT = ("output", "overwrite", "verify", "only")  # options that say nothing of the job itself
# Workers wait for the disk most of the time, so there are so many where there are fewer cores. Each has so many jobs,
# or bytes of inputs; small jobs, by the bytes of their tensors in files or held in memory, are submitted together.
_JOB_WORKERS, _JOBS_OF_A_WORKER, _WORTH_A_WORKER, _JOBS_TOGETHER = 8, 32, 1 << 26, 8
_SMALL_IN_FILES, _SMALL_HELD = 1 << 25, 1 << 20
_LONGEST_CLEANUP = 1.0  # seconds: processes of a job end just after the worker that started them


@dataclass
class Pool:
    """Runs jobs in worker processes, which get a copy of it.

    With `plans`, jobs are planned, and nothing is written. With `fail_fast`, no more begin after one has failed.
    """

    entries: list[Entry]
    cores: int | None
    fail_fast: bool
    plans: bool
    traceback: bool
    tag: str = field(default_factory=lambda: os.urandom(4).hex())  # a part of temporary files' names
    workers: int = 1  # that share the memory
    _queue: deque[int] = field(default_factory=deque)
    _alone: deque[int] = field(default_factory=deque)
    # The jobs under way, and what stood under the names of their outputs before; and those whose outputs were written,
    # but whose worker died before it said so.
    _begun: dict[int, Any] = field(default_factory=dict)
    _written: set[int] = field(default_factory=set)

    def outcomes(self, jobs: Iterable[int]) -> Generator[tuple[int, Outcome], None, None]:
        """Each job that has ended; what is under way is undone where this is closed."""
        worth = 0.0
        for job in jobs:
            size = sum(map(size_of, self.entries[job].inputs.values()))
            if _is_large(self.entries[job], size):
                self._alone.append(job)
            else:
                self._queue.append(job)
                is_far = any(map(platform.is_remote, self.entries[job].inputs.values()))  # it waits most of the time
                worth += is_far or 1 / _JOBS_OF_A_WORKER + size / _WORTH_A_WORKER
        most = self.cores or max(platform.cores(), _JOB_WORKERS)
        self.workers = max(1, min(most, len(self._queue), int(worth)))
        while self._queue or self._alone:
            is_alone = bool(self._alone)
            workers = processes.Workers(1 if is_alone else self.workers, functools.partial(_begin, self))
            try:
                yield from self._run(workers, is_alone=is_alone)
            except processes.DiedError:
                self._close(workers)
                begun, self._begun = self._begun, {}
                if is_alone:
                    wanted = "files that the library can read, and enough memory"
                    error = EngineError(f"its process died: {workers.ended_by}", wanted)
                    yield from ((job, self._ended(_outcome(self.entries[job], error))) for job in begun)
                else:
                    after = {job: base.file_state(self.entries[job].output) for job in begun}
                    self._written |= {job for job, before in begun.items() if after[job] not in (None, before)}
                    self._alone.extend(begun)
            finally:
                self._close(workers)

    def _run(self, workers: processes.Workers, *, is_alone: bool) -> Iterator[tuple[int, Outcome]]:
        """Run the jobs that are to be alone, one after another, or the others side by side."""
        from concurrent.futures import FIRST_COMPLETED, wait

        queue, count, pending = (self._alone if is_alone else self._queue), workers.workers, set["Future[Any]"]()
        is_single = is_alone or self.fail_fast
        window = count if is_single else 2 * count  # so that the next ones of a worker are there in time
        while queue or pending:
            while queue and len(pending) < window:
                # Fewer at the end, so that all workers end at about one time.
                size = 1 if is_single else min(_JOBS_TOGETHER, len(queue) // (4 * count))
                jobs = [queue.popleft() for _ in range(max(1, size))]
                self._begun |= {job: base.file_state(self.entries[job].output) for job in jobs}
                task = functools.partial(_run_jobs, jobs, is_alone=is_alone, written=self._written.intersection(jobs))
                pending.add(workers.submit(task))
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
                        yield job, self._ended(outcome)
                    else:  # a part of the memory was not enough
                        self._alone.append(job)

    def _ended(self, outcome: Outcome) -> Outcome:
        """Let no more jobs begin after a failure, with `fail_fast`."""
        if self.fail_fast and outcome.error:
            self._queue.clear()
            self._alone = deque(job for job in self._alone if job in self._written)
        return outcome

    def _close(self, workers: processes.Workers) -> None:
        """Kill the workers, and remove what they have left of the jobs that were under way."""
        workers.close()
        folders = {Path(self.entries[job].output).parent for job in self._begun}
        end = time.monotonic() + _LONGEST_CLEANUP
        while left := [path for folder in folders for path in folder.glob(f".revseq-{self.tag}*.tmp")]:
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


_pools: list[Pool] = []  # that this process, a worker, belongs to


def _begin(pool: Pool) -> None:
    atomic_file.tag = pool.tag
    _pools[:] = [pool]


def _run_jobs(jobs: list[int], *, is_alone: bool, written: set[int]) -> list[tuple[int, Outcome | None]]:
    """Run jobs, one after another; None for one whose part of the memory is not enough.

    The outputs of those that are `written` may be replaced.
    """
    [pool] = _pools
    outcomes: list[tuple[int, Outcome | None]] = []
    with signals.deferred():
        for job in jobs:
            entry = pool.entries[job]
            try:
                outcomes.append((job, _outcome_of(entry, pool, is_alone=is_alone, is_written=job in written)))
            except Exception as e:  # noqa: BLE001 - any error ends this job alone
                signals.check()  # a signal may have caused it
                if pool.traceback:
                    traceback.print_exception(e)
                is_short = isinstance(e, EngineError) and not is_alone
                outcomes.append((job, None if is_short else _outcome(entry, worded(e, entry.options["output"]))))
    return outcomes


def _outcome_of(entry: Entry, pool: Pool, *, is_alone: bool, is_written: bool) -> Outcome:
    job_options = {name: value for name, value in entry.options.items() if name not in _OF_OUTPUT}
    if not is_alone:
        job_options |= {"cores": 1, "memory": max(1, job_options["memory"] // pool.workers)}
    resources = options.take_resources(job_options)
    request = options.request_of(absolute=resources.elsewhere, **job_options)
    job = run.loaded(request)
    size = job.values.desc.total_bytes
    folder = os.path.dirname(entry.output)  # noqa: PTH120 - a string
    if platform.is_remote(entry.output):  # where there are no folders
        folder = os.curdir
    if pool.plans and not os.path.isdir(folder):  # noqa: PTH112 - which would be made
        return _outcome(entry, bytes=size, plan=run.plan_of(job, resources).traffic)
    if is_written and os.path.isdir(entry.output):  # noqa: PTH112 - a folder is never replaced
        shutil.rmtree(entry.output)
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103
    output, verify, only = (entry.options[name] for name in ("output", "verify", "only"))
    overwrite = is_written or entry.options["overwrite"]
    delivery = run.Delivery.of(job, request, output, resources, overwrite=overwrite, only=only)
    if pool.plans:
        return _outcome(entry, bytes=size, plan=delivery.planned.traffic)
    clamped = delivery.run(verify=verify)
    return _outcome(entry, bytes=size, verified=verify, notes=tuple(delivery.sink.notes), clamped=clamped)


def _outcome(entry: Entry, error: RevseqError | None = None, **more: Any) -> Outcome:
    return Outcome(entry.line, entry.options["output"], error, **more)
