"""Jobs in processes of their own: if one of them ends its process, the others still run.

A library may crash over a crafted file, and a system that is short of memory kills a process that uses much of it. So
each worker sends an event when a job begins or ends, and this process starts another worker if one dies. If several
jobs were under way there, each of them runs again alone: if the worker dies again, it was that job.

Small jobs run side by side, on all workers. A worker gives back a job that needs the machine for itself. It runs alone,
like one that may have ended its process: when no other job runs.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from revseq_cli.ground import processes, stopping, thresholds
from revseq_cli.ground.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    from revseq_cli.commands.manifest import Entry
    from revseq_cli.report.results import Outcome

    # What a worker does with its orders, where None stands for a moment without one, and with the function that sends
    # its events. It gets the setup and the worker's tag, and returns notes for the user.
    Serve = Callable[[Any, str, Iterable["Order | None"], Callable[["Event"], object]], tuple[str, ...]]

# Seconds between two reads of events: to wake up for each event took a tenth of the time of small jobs.
_PAUSE = 0.005
_LONGEST_STOP = 10.0  # seconds that the workers have to undo their work after a signal


class Event(NamedTuple):
    """What a job, by its index in the batch, has done: `kind` is "begun", "large", "complete" or "ended".

    One that is large needs the machine for itself, and was not run. A complete job has an outcome, and `temporary` gets
    its name next. One that ended without an outcome did not run.
    """

    kind: str
    job: int
    outcome: Outcome | None = None
    temporary: str = ""


class Order(NamedTuple):
    """The job that a worker runs next; `alone` says that no other job runs meanwhile. After HALT no job begins."""

    job: int
    alone: bool = False


HALT = Order(-1)


class _Farewell(NamedTuple):
    """The last message of a worker, with notes for the user."""

    notes: tuple[str, ...]


class _Worker:
    """A process that runs jobs: `given` has each job that it has, with its last event, or None before the first."""

    def __init__(self, serve: Serve, setup: object) -> None:
        self.tag = os.urandom(4).hex()  # in the names of its temporary files
        self.given: dict[int, Event | None] = {}
        self.done = False
        self.process = processes.Process(_begin)
        self.process.send((serve, setup, self.tag))

    def give(self, job: int, *, alone: bool = False) -> None:
        """Send an order."""
        self.given[job] = None
        self.process.send(Order(job, alone))

    def give_from(self, queue: deque[int]) -> None:
        """Take jobs from the queue, as many as it may have."""
        while queue and len(self.given) < thresholds.WINDOW:
            self.give(queue.popleft())

    @property
    def under_way(self) -> list[Event]:
        """The last event of each job that has begun and not ended."""
        return [event for event in self.given.values() if event]


class Pool:
    """Runs jobs in up to `most` workers; `entries` has all jobs of the batch, and `jobs` says which of them to run.

    `serve` and `setup` must pickle. `again` is the hint where the work cannot go on. With `fail_fast`, no more jobs
    begin after one has failed.
    """

    def __init__(
        self, serve: Serve, setup: object, entries: Sequence[Entry], jobs: Sequence[int], most: int, *,
        fail_fast: bool, again: str,
    ) -> None:  # fmt: skip
        self._serve, self._setup, self._entries = serve, setup, entries
        self._most, self._fail_fast, self._again = most, fail_fast, again
        self._queue, self._alone = deque(jobs), deque[int]()  # the first of `_alone` may be under way
        self._workers: list[_Worker] = []
        self._ended: list[tuple[int, Outcome | None]] = []
        self._halted = False
        self.notes: dict[str, None] = {}  # of the workers, each once

    def ended(self) -> Generator[tuple[int, Outcome | None], None, None]:
        """Each job that has ended, with its outcome, or None if it did not begin."""
        stopping.at_once[self] = self._clean_all
        try:
            while self._hand_out():
                for process, event in processes.exchange([each.process for each in self._workers], stopping.PATIENCE):
                    if worker := next((each for each in self._workers if each.process is process), None):
                        self._take(event, worker)
                yield from self._ended
                self._ended.clear()
                stopping.check()
                time.sleep(_PAUSE)
            yield from self._ended
        except stopping.Stopped:
            self._stop()
            raise
        finally:
            stopping.at_once.pop(self, None)
            for worker in [*self._workers]:
                self._end(worker)

    def _hand_out(self) -> bool:
        """Give orders; whether there are workers left."""
        busy = any(each.given for each in self._workers)
        if not self._alone:
            self._fill()
        elif not busy and (self._workers or self._start()):
            self._workers[0].give(self._alone[0], alone=True)
        if not (self._queue or self._alone or any(each.given for each in self._workers)):
            for worker in self._workers:
                if not worker.done:
                    worker.done = True
                    worker.process.send(None)
        return bool(self._workers)

    def _fill(self) -> None:
        """Give jobs to the workers, as many as each may have, and start another one where all have enough."""
        for worker in self._workers:
            worker.give_from(self._queue)
        if self._queue and len(self._workers) < self._most and (another := self._start()):
            another.give_from(self._queue)

    def _start(self) -> _Worker | None:
        """Another worker; None where no process can be started: what there is does the work, or else this process."""
        try:
            worker = _Worker(self._serve, self._setup)
        except EngineError:
            self._most = len(self._workers)
            if not self._workers:
                orders = [Order(job, alone=True) for job in (*self._alone, *self._queue)]
                self._alone.clear()
                self._queue.clear()
                self._serve(self._setup, "", orders, self._note)
            return None
        self._workers.append(worker)
        return worker

    def _take(self, message: object, worker: _Worker) -> None:
        """Take in a message of a worker."""
        match message:
            case Event():
                self._note(message, worker)
            case _Farewell():  # it has done all that it was given, and was told that there is no more
                self.notes |= dict.fromkeys(message.notes)
                self._end(worker)
            case EOFError():
                self._died(worker)
            case BaseException():
                raise message

    def _note(self, event: Event, worker: _Worker | None = None) -> None:
        """Take in an event; that of a job in this process has no worker."""
        if worker and event.kind in ("begun", "complete"):
            worker.given[event.job] = event
            return
        if worker:
            worker.given.pop(event.job, None)
        if event.kind == "large" and not self._halted:
            self._alone.append(event.job)
        elif event.kind == "ended":
            if event.job in self._alone:
                self._alone.remove(event.job)
            self._ended.append((event.job, event.outcome))
            if self._fail_fast and event.outcome and event.outcome.error:
                self._halt()

    def _halt(self) -> None:
        """Let no more jobs begin."""
        self._halted = True
        self._queue.clear()
        self._alone.clear()
        for each in self._workers:
            each.process.send(HALT)

    def _died(self, worker: _Worker) -> None:
        """Fail the only job under way, or plan to run each of several alone; EngineError if there was none."""
        stopping.check()  # a signal to the whole process group may have ended it
        worker.process.end()
        by = worker.process.ended_by
        begun, rest = worker.under_way, [job for job, event in worker.given.items() if not event]
        complete = (each for each in begun if each.kind == "complete")
        named = [each for each in complete if _is_named(each.temporary, self._entries[each.job].output)]
        suspects = [each.job for each in begun if each not in named]
        self._end(worker)
        if not begun:
            raise EngineError(f"the process of the jobs died: {by}", hint=self._again)
        if not self._halted:
            self._queue.extendleft(reversed(rest))
            self._alone.extend(suspects if len(suspects) > 1 else ())
        for event in named:
            self._note(event._replace(kind="ended"))
        if len(suspects) == 1:
            error = EngineError(f"its process died: {by}", "files that their library can read, and memory for them")
            self._note(Event("ended", suspects[0], self._entries[suspects[0]].outcome(error)))

    def _stop(self) -> None:
        """Wait until the workers have undone their work after SIGTERM, for at most 10 seconds; they are killed then."""
        for worker in self._workers:
            worker.process.terminate()
        left = [each.process for each in self._workers]
        deadline = time.monotonic() + _LONGEST_STOP
        while left and time.monotonic() < deadline:
            for process, event in processes.exchange(left, stopping.PATIENCE):
                if isinstance(event, (_Farewell, BaseException)) and process in left:
                    left.remove(process)

    def _end(self, worker: _Worker) -> None:
        worker.process.end()
        self._clean(worker)
        self._workers.remove(worker)

    def _clean_all(self) -> None:
        """After a second signal; `stopping` has killed the processes before, since they began later."""
        for worker in self._workers:
            self._clean(worker)

    def _clean(self, worker: _Worker) -> None:
        """Remove temporary files that a killed process left beside the outputs of the jobs under way."""
        outputs = (self._entries[each.job].output for each in worker.under_way)
        for folder in {os.path.dirname(path) for path in outputs}:  # noqa: PTH120 - a string
            for path in Path(folder).glob(f".revseq-{worker.tag}*.tmp"):
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    with contextlib.suppress(OSError):  # README says that a kill may leave files
                        path.unlink()


def _is_named(temporary: str, output: str) -> bool:
    """Whether the temporary file has got its name; with hard links it has both names for a moment."""
    try:
        return Path(output).samefile(temporary)
    except OSError:
        return os.path.lexists(output) and not os.path.lexists(temporary)


def _orders(line: processes.Line) -> Iterator[Order | None]:
    """The orders that come, None for a moment without one, and HALT before all others; EOFError without a parent."""
    come = deque[Order | None]()
    while True:
        if not come:
            line.wait()
        closed = line.is_closed()  # takes in what has come
        come.extend(line.receive() for _ in range(len(line.come)))
        if HALT in come:
            come.remove(HALT)
            yield HALT
        elif come:
            if (order := come.popleft()) is None:
                return
            yield order
        elif closed:
            raise EOFError
        else:
            yield None


def _begin(line: processes.Line) -> None:
    """The main function of a worker; it stops in order on SIGTERM, or when its parent is gone."""
    stopping.obey_parent(line.is_closed)
    status = 1
    try:
        with stopping.deferred():
            try:
                serve, setup, tag = line.receive()
                line.send(_Farewell(serve(setup, tag, _orders(line), line.send)))
                status = 0
            finally:
                stopping.close()
    except (stopping.Stopped, EOFError, OSError):
        pass
    except Exception as e:  # noqa: BLE001 - the parent raises it
        line.send(e)
    os._exit(status)  # waits for no thread of a library, and calls no exit function
