"""What a worker of a batch does: it opens jobs, runs small ones side by side, and the others when they are alone."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NamedTuple

from revseq_cli.commands import journal, options, run
from revseq_cli.commands.console import notes_of_libraries
from revseq_cli.commands.manifest import Writers
from revseq_cli.commands.pool import HALT, Event
from revseq_cli.formats.held import HeldSource
from revseq_cli.formats.references import Reference
from revseq_cli.formats.storage import newfile
from revseq_cli.formats.textfiles import TextSink
from revseq_cli.ground import stopping, system, thresholds
from revseq_cli.ground.errors import EngineError, worded
from revseq_cli.passes import jobs
from revseq_cli.passes.arrangement import arrange
from revseq_cli.passes.engines.crew import Threads
from revseq_cli.passes.engines.table import ENGINES, SERIAL
from revseq_cli.report.results import Traffic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from revseq_cli.commands.journal import Journal, State
    from revseq_cli.commands.manifest import Entry
    from revseq_cli.commands.pool import Order
    from revseq_cli.passes.assembly import Job
    from revseq_cli.report.results import Outcome

# Several threads wait for the disk at once. Where a flush takes 0.2 ms, 1,000 jobs of 12 elements took 1.8 s on one
# thread and 2.1 s on eight; with 2 ms more for each flush, 6.5 s and 2.0 s. So each job flushes its file and its folder
# as `run` does, and runs on a thread of its own only where jobs have waited for long.
_LONG_WAIT = 0.0005  # seconds that a job has waited on average


class Setup(NamedTuple):
    """What each worker gets: the jobs, and how many workers there are at most.

    `journal` is where it notes what is done, if there is one. With `plans`, jobs are planned and nothing is written.
    """

    entries: list[Entry]
    workers: int
    fail_fast: bool
    traceback: bool
    journal: Journal | None
    plans: bool

    @property
    def beside(self) -> int:
        """How many small jobs run at once."""
        return self.workers * self.threads

    @property
    def threads(self) -> int:
        """The number of threads of a worker."""
        return max(thresholds.LEAST_JOB_THREADS, thresholds.JOB_THREADS // self.workers)


def workers_for(entries: Sequence[Entry], cores: int) -> int:
    """How many workers are worth starting for these jobs: up to one for each core; one where a cluster works.

    Each has at least 32 jobs, or 64 MiB of inputs.
    """
    if any(ENGINES[name].remote for entry in entries if (name := entry.options["engine"]) in ENGINES):
        return 1
    many = len(entries) // thresholds.WINDOW
    if many < cores:
        many += sum(size_of(path) for entry in entries for path in entry.inputs.values()) // thresholds.WORTH_A_WORKER
    return max(1, min(cores, len(entries), many))


def serve(setup: Setup, tag: str, orders: Iterable[Order | None], send: Callable[[Event], object]) -> tuple[str, ...]:
    """Run the jobs of the orders, and send the events of each; returns notes for the user. See `pool`."""
    newfile.tag = tag
    worker = _Worker(setup, send)
    try:
        for order in orders:
            worker.obey(order)
        worker.finish(0)
    finally:
        worker.close()
    return notes_of_libraries()  # this process is the one that loads HDF5


class _Worker:
    """Runs the jobs of orders, and sends the events of each."""

    def __init__(self, setup: Setup, send: Callable[[Event], object]) -> None:
        self._setup, self._send, self._writers = setup, send, Writers(setup.entries)
        self._halted = threading.Event()  # set after a failure with --fail-fast: no more jobs begin
        self._pool, self._under_way = Threads(setup.threads), set[Future[Any]]()
        self._waited = 0.0  # seconds that a job on no thread has waited, on average
        self.close = self._pool.close

    def obey(self, order: Order | None) -> None:
        """Carry out an order; without one, see what the threads do."""
        if order is None:
            self._look_at_threads()
        elif order == HALT:
            self._halted.set()
        elif self._halted.is_set():
            self._send(Event("ended", order.job))
        else:
            self._begin(order)
            self.finish(2 * self._setup.threads)

    def _begin(self, order: Order) -> None:
        """Read the headers of a job, here, so that threads share no parser; then run it, or let a thread do so."""
        entry = self._setup.entries[order.job]
        self._send(Event("begun", order.job))
        try:
            if not order.alone and _opens_large(entry):
                self._send(Event("large", order.job))
                return
            began = time.time_ns()
            delivery = _delivery(**entry.options)
            self._refuse_outputs(entry, delivery.job)
        except Exception as e:  # noqa: BLE001 - any error ends this job alone
            self._send(Event("ended", order.job, self._failed(entry, e)))
            return
        if self._setup.plans:
            self._send(Event("ended", order.job, _planned(entry, delivery)))
            return
        is_small = _is_small(delivery, entry.options["memory"], self._setup.beside)
        if not (is_small or order.alone):
            self._send(Event("large", order.job))
            return
        read = journal.states_read(entry, delivery.job, began) if self._setup.journal else {}
        run_it = functools.partial(self._run, order.job, delivery, read)
        if order.alone:
            self.finish(0)
            run_it()
        else:
            self._run_small(run_it)

    def _run_small(self, run_it: Callable[[], None]) -> None:
        """Run a small job: on a thread, if the jobs before have waited for the disk, or else here, and see."""
        if self._waited > _LONG_WAIT or self._under_way:
            with contextlib.suppress(EngineError):  # no thread can be started
                self._under_way.add(self._pool.submit(run_it))
                return
        began, worked = time.monotonic(), time.thread_time()
        run_it()
        waited = time.monotonic() - began - (time.thread_time() - worked)
        self._waited += (waited - self._waited) / 8  # the average of the last jobs

    def _refuse_outputs(self, entry: Entry, job: Job) -> None:
        """FormatError if a file that the job's model names is an output; the manifest does not have these names."""
        for source in (job.values, job.lengths):
            if source.described and (error := self._writers.refusal(source.name, system.real_path(source.path), entry)):
                raise error

    def _run(self, index: int, delivery: run.Delivery, read: dict[str, State]) -> None:
        """Write the output of a job, unless no more jobs are to begin."""
        entry, outcome = self._setup.entries[index], None

        def done(written: run.Written) -> Outcome:
            size, notes = delivery.job.values.desc.total_bytes, tuple(delivery.sink.notes)
            return entry.outcome(bytes=size, verified=delivery.verify, notes=notes, **written._asdict())

        def complete(written: run.Written) -> None:
            temporary = delivery.sink.file.temporary
            self._send(Event("complete", index, done(written), temporary))
            if self._setup.journal:
                self._setup.journal.begin(entry, temporary)

        if not self._halted.is_set():
            try:
                outcome = done(delivery.run(complete=complete))
                if self._setup.journal:
                    outcome = self._setup.journal.note(entry, read, outcome)
            except Exception as e:  # noqa: BLE001 - any error ends this job alone
                outcome = self._failed(entry, e)
        self._send(Event("ended", index, outcome))

    def _failed(self, entry: Entry, error: Exception) -> Outcome:
        """The outcome of a job that an exception ended; raises Stopped after a signal, which may have caused it."""
        stopping.check()
        if self._setup.fail_fast:
            self._halted.set()
        if self._setup.traceback:
            import traceback

            traceback.print_exception(error)
        return entry.outcome(worded(error, entry.options["output"]))

    def finish(self, most: int) -> None:
        """Wait until at most `most` jobs are under way on threads; an exception of one is raised here."""
        while len(self._under_way) > most:
            self._look_at_threads()

    def _look_at_threads(self) -> None:
        """Wait a moment for a job on a thread, if there is one."""
        if self._under_way:
            self._pool.wait_for(self._under_way)
        stopping.check()
        for future in [each for each in self._under_way if each.done()]:
            self._under_way.remove(future)
            future.result()


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
    held = any(isinstance(each, (HeldSource, TextSink)) for each in (job.values, job.lengths, delivery.sink))
    most = thresholds.SMALL_HELD if held else thresholds.SMALL_IN_FILES
    return job.values.desc.total_bytes + job.lengths.desc.total_bytes <= most


def _planned(entry: Entry, delivery: run.Delivery) -> Outcome:
    """The outcome of a job that is only planned."""
    values, lengths = delivery.job.values.desc, delivery.job.lengths.desc
    plan = Traffic.of(values, lengths, delivery.arrangement, delivery.sink.kept)
    return entry.outcome(bytes=values.total_bytes, plan=plan)


def _delivery(
    output: str, format_name: str | None, overwrite: bool, verify: bool, sha256: bool, **others: Any
) -> run.Delivery:
    """The job of these options: its headers are read, and nothing is written yet."""
    resources, layout = options.take_resources(others), options.take_layout(others)
    request = options.request_of(format_name=format_name, absolute=resources.elsewhere, **others)
    reference = Reference.output(output, format_name, filter(None, request.references()))
    job = jobs.load(request)
    jobs.require(job)
    sink = run.create_sink(reference, job, layout, overwrite=overwrite)
    return run.Delivery(job, sink, arrange(job, resources, sink), verify, sha256)
