"""A worker of a batch: it opens jobs, runs small ones side by side, and others when it is their turn."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
from collections import deque
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from revseq_cli.commands import journal, options, run
from revseq_cli.commands.manifest import Writers
from revseq_cli.commands.supervisor import HALT, WINDOW, Event, Order
from revseq_cli.formats.held import HeldSource
from revseq_cli.formats.references import Reference
from revseq_cli.formats.storage import newfile
from revseq_cli.formats.textfiles import TextSink
from revseq_cli.ground import stopping, system
from revseq_cli.ground.errors import EngineError, worded
from revseq_cli.passes import jobs
from revseq_cli.passes.engines.table import ENGINES, SERIAL
from revseq_cli.passes.engines.threads import Threads
from revseq_cli.report.results import Outcome, Planned, traffic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence, Sized

    from revseq_cli.commands.journal import State, Writer
    from revseq_cli.commands.manifest import Entry
    from revseq_cli.passes.assembly import Job

# Several threads wait for the disk at once. Where a flush takes 0.2 ms, 1,000 jobs of 12 elements took 1.8 s on one
# thread and 2.1 s on eight; with 2 ms more for each flush, 6.5 s and 2.0 s. So each job flushes its file and its folder
# as `run` does, and runs on a thread of its own only where jobs have waited for long.
THREADS = 8  # of all workers together, but at least two each
_LONG_WAIT = 0.0005  # seconds that a job has waited on average
_LEAST_THREADS = 2
_WORTH_A_WORKER = 1 << 26  # bytes of inputs; a worker takes 0.2 s to start
_MOST_SMALL, _MOST_HELD = 1 << 25, 1 << 20  # bytes of the tensors of a small job: in files, or held in memory


class Setup(NamedTuple):
    """What each worker gets: the jobs, and how many workers there are at most.

    `journal` is where it notes what is done, if there is one. With `plans`, jobs are planned and nothing is written.
    """

    entries: list[Entry]
    workers: int
    fail_fast: bool
    traceback: bool
    journal: Writer | None
    plans: bool

    @property
    def beside(self) -> int:
        """How many small jobs run at once."""
        return self.workers * self.threads

    @property
    def threads(self) -> int:
        """The number of threads of a worker."""
        return max(_LEAST_THREADS, THREADS // self.workers)


def workers_for(entries: Sequence[Entry], cores: int) -> int:
    """How many workers are worth starting for these jobs: up to one for each core; one where a cluster works.

    Each has at least 32 jobs, or 64 MiB of inputs.
    """
    if any(ENGINES[name].remote for entry in entries if (name := entry.options["engine"]) in ENGINES):
        return 1
    many = len(entries) // WINDOW
    if many < cores:
        many += sum(_size(path) for entry in entries for path in entry.inputs.values()) // _WORTH_A_WORKER
    return max(1, min(cores, len(entries), many))


class Line(Protocol):
    """Where orders come from, and events go to."""

    @property
    def come(self) -> Sized:
        """What has come and was not received."""

    def receive(self) -> Order | None:
        """The next order, for which it waits; None if there is no more."""

    def wait(self) -> None:
        """Wait until something may have come, for a moment."""

    def is_closed(self) -> bool:
        """Whether nobody sends any more; it also takes in what has come."""

    def send(self, event: Event) -> object:
        """Send an event."""


class Worker:
    """Runs the jobs of the orders that come from a line, and sends the events of each."""

    def __init__(self, setup: Setup, tag: str, line: Line) -> None:
        newfile.tag = tag
        self._setup, self._line, self._writers = setup, line, Writers(setup.entries)
        self._orders: deque[Order | None] = deque()
        self._halted = threading.Event()  # set after a failure with --fail-fast: no more jobs begin
        self._pool, self._under_way = Threads(setup.threads), set[Future[Any]]()
        self._waited = 0.0  # seconds that a job on no thread has waited, on average

    def run_all(self) -> None:
        """Carry out the orders until there is no more."""
        try:
            while order := self._next():
                if order.kind != "go":  # it is for a job that did not wait for it any more
                    self._begin(order)
                self._await(2 * self._setup.threads)
            self._await(0)
        finally:
            self._pool.end()

    def _next(self) -> Order | None:
        """The next order. All that have come are taken in, since the last may be to begin no more jobs."""
        while not self._take_in():
            if self._under_way:
                self._attend()
            else:
                self._line.wait()
        return self._orders.popleft()

    def _take_in(self) -> bool:
        """Take in the orders that have come; whether there are any."""
        closed = self._line.is_closed()
        while self._line.come:
            self._orders.append(self._line.receive())
        if HALT in self._orders:
            self._orders.remove(HALT)
            self._halted.set()
        if closed and not self._orders:
            raise EOFError
        return bool(self._orders)

    def _begin(self, order: Order) -> None:
        """Read the headers of a job, here, so that threads share no parser; then run it, or let a thread do so."""
        entry, alone = self._setup.entries[order.job], order.kind == "alone"
        if self._halted.is_set():
            self._line.send(Event("ended", order.job))
            return
        self._line.send(Event("begun", order.job))
        try:
            if not alone and _opens_large(entry):
                self._wait_for_turn(order.job)
                alone = True
            began = time.time_ns()
            delivery = _delivery(**entry.options)
            self._refuse_outputs(entry, delivery.job)
        except Exception as e:  # noqa: BLE001 - any error ends this job alone
            self._line.send(Event("ended", order.job, self._failed(entry, e)))
            return
        if self._setup.plans:
            self._line.send(Event("ended", order.job, _planned(entry, delivery)))
            return
        read = journal.states_read(entry, delivery.job, began) if self._setup.journal else {}
        run_it = functools.partial(self._run, order.job, delivery, read)
        if not alone and _is_small(delivery, entry.options["memory"], self._setup.beside):
            self._run_small(run_it)
            return
        if not alone:
            self._wait_for_turn(order.job)
        self._await(0)
        run_it()

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

    def _wait_for_turn(self, job: int) -> None:
        """Wait until the job has the machine for itself, or no more jobs are to begin."""
        self._await(0)
        self._line.send(Event("waits", job))
        go = Order("go", job)
        while go not in self._orders and not self._halted.is_set():
            self._line.wait()
            self._take_in()
        if go in self._orders:
            self._orders.remove(go)

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
            return Outcome(entry.line, entry.options["output"], None, size, delivery.target.verify, notes, *written)

        def complete(written: run.Written) -> None:
            temporary = delivery.sink.file.temporary
            self._line.send(Event("complete", index, done(written), temporary))
            if self._setup.journal:
                self._setup.journal.begin(entry, temporary)

        if not self._halted.is_set():
            try:
                outcome = done(delivery.run(complete=complete))
                if self._setup.journal:
                    outcome = self._setup.journal.note(entry, read, outcome)
            except Exception as e:  # noqa: BLE001 - any error ends this job alone
                outcome = self._failed(entry, e)
        self._line.send(Event("ended", index, outcome))

    def _failed(self, entry: Entry, error: Exception) -> Outcome:
        """The outcome of a job that an exception ended; raises Stopped after a signal, which may have caused it."""
        stopping.check()
        if self._setup.fail_fast:
            self._halted.set()
        if self._setup.traceback:
            import traceback

            traceback.print_exception(error)
        return Outcome(entry.line, entry.options["output"], worded(error, entry.options["output"]))

    def _await(self, most: int) -> None:
        """Wait until at most `most` jobs are under way on threads; an exception of one is raised here."""
        while len(self._under_way) > most:
            self._attend()

    def _attend(self) -> None:
        """Wait a moment for a job on a thread."""
        self._pool.attend(self._under_way)
        stopping.check()
        for future in [each for each in self._under_way if each.done()]:
            self._under_way.remove(future)
            future.result()


def _opens_large(entry: Entry) -> bool:
    """Whether to open the job may already take much memory: it has a text, or a packed file, that is not small."""
    large = (Reference.input(entry.options[name]) for name, path in entry.inputs.items() if _size(path) > _MOST_HELD)
    return any(reference.row.is_text or reference.packing for reference in large)


def _size(path: str) -> int:
    """The bytes of a file; 0 where there is none."""
    return os.path.getsize(path) if os.path.isfile(path) else 0  # noqa: PTH113, PTH202 - strings


def _is_small(delivery: run.Delivery, memory: int, beside: int) -> bool:
    """Whether a job may run beside others: on one core, with room in the memory for as many such jobs."""
    job, arrangement = delivery.job, delivery.arrangement
    if arrangement.engine is not SERIAL or arrangement.need * beside > memory:
        return False
    # `need` does not count tensors that are held whole, and text needs many times the bytes of its numbers.
    held = isinstance(delivery.sink, TextSink) or any(
        isinstance(each, HeldSource) for each in (job.values, job.lengths)
    )
    return job.values.desc.total_bytes + job.lengths.desc.total_bytes <= (_MOST_HELD if held else _MOST_SMALL)


def _planned(entry: Entry, delivery: run.Delivery) -> Outcome:
    """The outcome of a job that is only planned."""
    values = delivery.job.values
    tensor = size = values.desc.total_bytes
    read, written = traffic(values.desc, delivery.job.lengths.desc, delivery.arrangement)
    if delivery.target.layout.keep_others and values.identity:
        size = max(size, values.identity.size)  # a copy of the whole file
    plan = Planned(read, written + size - tensor, size)
    return Outcome(entry.line, entry.options["output"], None, tensor, plan=plan)


def _delivery(
    output: str,
    format_name: str | None,
    overwrite: bool,
    verify: bool,
    sha256: bool,
    lengths: str | None = None,
    **others: Any,
) -> run.Delivery:
    """The job of these options: its headers are read, and nothing is written yet."""
    resources = options.take_resources(others)
    layout = options.take_layout(others)
    request = options.request_of(lengths=lengths, format_name=format_name, absolute=resources.elsewhere, **others)
    target = run.Target.of(output, format_name, request, layout, overwrite=overwrite, verify=verify, sha256=sha256)
    job = jobs.load(request)
    jobs.require(job)
    return target.delivery(job, resources)
