"""The jobs of a batch in worker processes: if a job ends its process, the others still run.

A library may crash over a crafted file, and a system that is short of memory kills a process that uses much of it. The
jobs that were under way then run again, each alone: if the process dies again, it was that job. Small jobs run side by
side; a worker opens each job, and gives back one that is too large for that, which then has the machine for itself.
"""

from __future__ import annotations

import functools
import os
import shutil
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from revseq_cli.commands import options, run
from revseq_cli.core import processes, signals, system, thresholds
from revseq_cli.core.errors import EngineError, worded
from revseq_cli.formats import atomic_file
from revseq_cli.formats.in_memory import MemorySource
from revseq_cli.formats.references import Reference
from revseq_cli.formats.textfiles import TextSink
from revseq_cli.pipeline import SERIAL
from revseq_cli.report.results import Outcome

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from concurrent.futures import Future

    from revseq_cli.commands.manifest import Entry
    from revseq_cli.core.errors import RevseqError
    from revseq_cli.pipeline.assembly import Request
    from revseq_cli.pipeline.plan import Resources

_OF_OUTPUT = ("output", "overwrite", "verify", "only")  # options that say nothing of the job itself
_LONGEST_CLEANUP = 1.0  # seconds: processes of a job end just after the worker that started them


# What tells a file from another one under its name; None where there is none.
_State = tuple[int, int] | None


class Setup(NamedTuple):
    """What each worker gets: the jobs, how many workers there are, and what is in the names of temporary files."""

    entries: list[Entry]
    workers: int
    plans: bool
    traceback: bool
    tag: str


class Ended(NamedTuple):
    """What has become of a job, by its index; one without an outcome is large, and did not run."""

    job: int
    outcome: Outcome | None


class Pool:
    """Runs jobs in worker processes; with `plans`, jobs are planned, and nothing is written.

    With `fail_fast`, no more jobs begin after one has failed.
    """

    def __init__(
        self, entries: list[Entry], left: list[int], cores: int | None, *, fail_fast: bool, plans: bool, traceback: bool
    ) -> None:
        most = _workers_for([entries[job] for job in left], cores)
        self._setup = Setup(entries, most, plans, traceback, os.urandom(4).hex())
        self._fail_fast = fail_fast
        self._queue, self._alone = deque(left), deque[int]()
        self._begun: dict[
            int, _State
        ] = {}  # the jobs under way, and what stood under the names of their outputs before
        self._ours: set[int] = set()  # jobs whose outputs were written, but whose worker died before it said so

    def ended(self) -> Generator[tuple[int, Outcome], None, None]:
        """Each job that has ended; what is under way is undone where this is closed."""
        while self._queue or self._alone:
            is_alone = bool(self._alone)
            workers = processes.Workers(1 if is_alone else self._setup.workers, functools.partial(_begin, self._setup))
            try:
                yield from self._run_alone(workers) if is_alone else self._run_side_by_side(workers)
            except processes.DiedError:
                signals.check()  # a signal to the whole process group may have ended it
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

    def _run_alone(self, workers: processes.Workers) -> Iterator[tuple[int, Outcome]]:
        future = self._submit(workers, [self._alone.popleft()], is_alone=True)
        yield from self._results(workers, {future})

    def _run_side_by_side(self, workers: processes.Workers) -> Iterator[tuple[int, Outcome]]:
        """Run the jobs of the queue, until one is to be alone."""
        count, pending = self._setup.workers, set["Future[Any]"]()
        window = count if self._fail_fast else 2 * count  # so that the next ones of a worker are there in time
        while True:
            while self._queue and not self._alone and len(pending) < window:
                # Fewer at the end, so that all workers end at about one time.
                size = 1 if self._fail_fast else min(thresholds.JOBS_TOGETHER, len(self._queue) // (4 * count))
                jobs = [self._queue.popleft() for _ in range(max(1, size))]
                pending.add(self._submit(workers, jobs, is_alone=False))
            if not pending:
                return
            yield from self._results(workers, pending)

    def _submit(self, workers: processes.Workers, jobs: list[int], *, is_alone: bool) -> Future[Any]:
        self._begun |= {job: self._state(job) for job in jobs}
        task = functools.partial(_run_jobs, jobs, is_alone=is_alone, ours=self._ours.intersection(jobs))
        return workers.submit(task)

    def _results(self, workers: processes.Workers, pending: set[Future[Any]]) -> Iterator[tuple[int, Outcome]]:
        """Wait until some of what is pending has ended, and take it out; a job that is too large will be alone."""
        from concurrent.futures import FIRST_COMPLETED, wait

        while not (done := wait(pending, signals.PATIENCE, FIRST_COMPLETED).done):
            signals.check()
            workers.check()
        signals.check()
        for future in done:
            results = workers.result(future)
            pending.remove(future)
            for job, outcome in results:
                del self._begun[job]
                if outcome:
                    yield job, self._seen(outcome)
                else:
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


def _workers_for(entries: list[Entry], cores: int | None) -> int:
    """How many workers are worth starting: up to `cores`, each with at least 32 jobs or 64 MiB of inputs.

    One where a cluster works.
    """
    if any(entry.options["engine"] == "dask" for entry in entries):
        return 1
    most = min(len(entries), cores or max(system.cores(), thresholds.JOB_WORKERS))
    many = len(entries) // thresholds.JOBS_OF_A_WORKER
    if many < most:
        many += sum(size_of(path) for entry in entries for path in entry.inputs.values()) // thresholds.WORTH_A_WORKER
    return max(1, min(most, many))


def size_of(path: str) -> int:
    """The bytes of a file; 0 where there is none."""
    return os.path.getsize(path) if os.path.isfile(path) else 0  # noqa: PTH113, PTH202 - strings


_setup: list[Setup] = []  # of this process, a worker


def _begin(setup: Setup) -> None:
    atomic_file.tag = setup.tag
    _setup[:] = [setup]


def _run_jobs(jobs: list[int], *, is_alone: bool, ours: set[int]) -> list[Ended]:
    """Run jobs, one after another; the outputs of those that are `ours` may be replaced."""
    with signals.deferred():
        return [_run_job(job, is_alone=is_alone, is_ours=job in ours) for job in jobs]


def _run_job(job: int, *, is_alone: bool, is_ours: bool) -> Ended:
    [setup] = _setup
    entry = setup.entries[job]
    try:
        if not is_alone and _opens_large(entry):
            return Ended(job, None)
        if is_ours and os.path.isdir(entry.output):  # noqa: PTH112 - a folder is never replaced
            shutil.rmtree(entry.output)
        if setup.plans:
            return Ended(job, _planned(entry))
        os.makedirs(os.path.dirname(entry.output), exist_ok=True)  # noqa: PTH103, PTH120 - a string
        delivery = _delivery(entry, overwrite=is_ours or entry.options["overwrite"])
        if not is_alone and not _is_small(delivery, entry.options["memory"], setup.workers):
            return Ended(job, None)
        size = delivery.job.values.desc.total_bytes
        clamped = delivery.run()
        notes = tuple(delivery.sink.notes)
        return Ended(job, _outcome(entry, bytes=size, verified=delivery.verify, notes=notes, clamped=clamped))
    except Exception as e:  # noqa: BLE001 - any error ends this job alone
        signals.check()  # a signal may have caused it
        if setup.traceback:
            import traceback

            traceback.print_exception(e)
        return Ended(job, _outcome(entry, worded(e, entry.options["output"])))


def _outcome(entry: Entry, error: RevseqError | None = None, **told: Any) -> Outcome:
    return Outcome(entry.line, entry.options["output"], error, **told)


def _opens_large(entry: Entry) -> bool:
    """Whether to open the job may already take much memory: it has a text, or a packed file, that is not small."""
    large = [name for name, path in entry.inputs.items() if size_of(path) > thresholds.SMALL_HELD]
    references = (Reference.input(entry.options[name]) for name in large)
    return any(reference.row.is_text or reference.packing for reference in references)


def _is_small(delivery: run.Delivery, memory: int, beside: int) -> bool:
    """Whether a job may run beside others: on one core, with room in the memory for as many such jobs."""
    job, plan = delivery.job, delivery.plan
    if plan.engine != SERIAL or plan.bytes * beside > memory:
        return False
    # `need` does not count tensors that are held whole, and text needs many times the bytes of its numbers.
    held = any(isinstance(each, (MemorySource, TextSink)) for each in (job.values, job.lengths, delivery.sink))
    most = thresholds.SMALL_HELD if held else thresholds.SMALL_IN_FILES
    return job.values.desc.total_bytes + job.lengths.desc.total_bytes <= most


def _planned(entry: Entry) -> Outcome:
    """The outcome of a job that is only planned; the folder of its output may still be missing."""
    if os.path.isdir(os.path.dirname(entry.output)):  # noqa: PTH112, PTH120 - a string
        planned = _delivery(entry, overwrite=entry.options["overwrite"]).planned
    else:
        planned = run.plan_of(*_request(entry))
    return _outcome(entry, bytes=planned.values.total_bytes, plan=planned.traffic)


def _delivery(entry: Entry, *, overwrite: bool) -> run.Delivery:
    request, resources = _request(entry)
    told = {name: entry.options[name] for name in ("verify", "only")}
    return run.delivery_of(request, entry.options["output"], resources, overwrite=overwrite, **told)


def _request(entry: Entry) -> tuple[Request, Resources]:
    given = {name: value for name, value in entry.options.items() if name not in _OF_OUTPUT}
    resources = options.take_resources(given)
    return options.request_of(absolute=resources.elsewhere, **given), resources
