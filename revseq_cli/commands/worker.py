"""What a worker of a batch does with a job: it opens it, and runs it unless it is too large to run beside others."""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from revseq_cli.commands import journal, options, run
from revseq_cli.commands.base import notes_of_libraries
from revseq_cli.commands.manifest import Writers
from revseq_cli.core import signals, system, thresholds
from revseq_cli.core.errors import FormatError, worded
from revseq_cli.formats import atomic_file
from revseq_cli.formats.in_memory import MemorySource
from revseq_cli.formats.references import Reference
from revseq_cli.formats.textfiles import TextSink
from revseq_cli.pipeline import jobs
from revseq_cli.pipeline.engines import ENGINES, SERIAL
from revseq_cli.report.results import Traffic

if TYPE_CHECKING:
    from collections.abc import MutableSequence, Sequence

    from revseq_cli.commands.journal import Journal, State
    from revseq_cli.commands.manifest import Entry
    from revseq_cli.pipeline.assembly import Job
    from revseq_cli.report.results import Outcome

_BEGUN = 1  # the mark of a job that has begun and no output yet
HALT, STOP = 1, 2  # the last mark: no more jobs begin; those under way stop, too
_INODE = (1 << 64) - 1  # a mark has 64 bits


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

    One that is large needs the machine for itself, and did not run. There may be notes of libraries for the user.
    """

    job: int
    outcome: Outcome | None = None
    is_large: bool = False
    notes: tuple[str, ...] = ()


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
            _require_each(entry, delivery)
            if setup.plans:
                outcome = _planned(entry, delivery)
            elif alone or _is_small(delivery, entry.options["memory"], setup.workers):
                outcome = self._write(job, entry, delivery, began)
            else:
                return Ended(job, is_large=True)
        except Exception as e:  # noqa: BLE001 - any error ends this job alone
            outcome = self._failed(entry, e)
        return Ended(job, outcome, notes=notes_of_libraries())

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

        def complete(_: run.Written) -> None:
            temporary = delivery.sink.file.temporary
            self._setup.marks[job] = _inode(temporary)
            if log:
                log.begin(entry, temporary)

        written = delivery.run(complete=complete)
        size, notes, clamped = delivery.total_bytes, tuple(delivery.sink.notes), sum(written.clamped)
        verified, sha256 = delivery.verify, written.sha256
        outcome = entry.outcome(bytes=size, verified=verified, notes=notes, clamped=clamped, sha256=sha256)
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


def _require_each(entry: Entry, delivery: run.Delivery) -> None:
    """FormatError if the names of a job's tensors, with commas between them, are the name of another tensor."""
    if len(delivery.every) < len(entry.parts):
        found = f"has a tensor {delivery.job.values.key}, which the names of {entry.place} are together"
        raise FormatError(found, "other names, or an output for each", where=delivery.job.values.path)


def _inode(path: str) -> int:
    return os.stat(path).st_ino & _INODE  # noqa: PTH116 - a string


def _opens_large(entry: Entry) -> bool:
    """Whether to open the job may already take much memory: it has a text, or a packed file, that is not small."""
    large = [name for name, path in entry.inputs.items() if size_of(path) > thresholds.SMALL_HELD]
    references = (Reference.input(entry.options[name]) for name in large)
    return any(reference.row.is_text or reference.compression for reference in references)


def size_of(path: str) -> int:
    """The bytes of a file; 0 where there is none."""
    return os.path.getsize(path) if os.path.isfile(path) else 0  # noqa: PTH113, PTH202 - strings


def _is_small(delivery: run.Delivery, memory: int, beside: int) -> bool:
    """Whether a job may run beside others: on one core, with room in the memory for as many such jobs."""
    job, arrangement = delivery.job, delivery.arrangement
    if delivery.others or arrangement.engine is not SERIAL or arrangement.need * beside > memory:
        return False
    # `need` does not count tensors that are held whole, and text needs many times the bytes of its numbers.
    held = any(isinstance(each, (MemorySource, TextSink)) for each in (job.values, job.lengths, delivery.sink))
    most = thresholds.SMALL_HELD if held else thresholds.SMALL_IN_FILES
    return job.values.desc.total_bytes + job.lengths.desc.total_bytes <= most


def _planned(entry: Entry, delivery: run.Delivery) -> Outcome:
    """The outcome of a job that is only planned."""
    plans = [each.planned.traffic for each in delivery.every]
    return entry.outcome(bytes=delivery.total_bytes, plan=Traffic(*map(sum, zip(*plans, strict=True))))


def _delivery(
    output: str, format_name: str | None, overwrite: bool, verify: bool, sha256: bool, **others: Any
) -> run.Delivery:
    """The job of these options: its headers are read, and nothing is written yet."""
    resources, layout = options.take_resources(others), options.take_layout(others)
    request = options.request_of(format_name=format_name, absolute=resources.elsewhere, **others)
    reference = Reference.output(output, format_name, filter(None, request.references()))
    every = jobs.load_each(request, keep_others=layout.keep_others)
    for job in every:
        jobs.require(job)
    return run.prepared(every, reference, layout, resources, overwrite=overwrite, verify=verify, sha256=sha256)
