"""Jobs in processes of their own: if one of them ends its process, the others still run.

A library may crash over a crafted file, and a system that is short of memory kills a process that uses much of it. So
each worker sends an event when a job begins or ends, and this process starts another worker if one dies. If several
jobs were under way there, each of them runs again alone: if the worker dies again, it was that job.

Small jobs run side by side, on all workers. A job that needs the machine for itself waits for its turn: no other job
begins, and it goes on when all others have ended.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from revseq_cli.ground import processes, stopping
from revseq_cli.ground.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from revseq_cli.report.results import Outcome

# Seconds between two reads of events: to wake up for each event took a tenth of the time of small jobs.
_PAUSE = 0.005
WINDOW = 32  # jobs that a worker has at most, so that it has work until the next read
_LONGEST_STOP = 10.0  # seconds that the workers have to undo their work after a signal


class Event(NamedTuple):
    """What a job, by its index in the batch, has done: `kind` is "begun", "waits", "complete" or "ended".

    One that waits needs the machine for itself. A complete job has an outcome, and `temporary` gets its name next. One
    that ended without an outcome did not run.
    """

    kind: str
    job: int
    outcome: Outcome | None = None
    temporary: str = ""


class Order(NamedTuple):
    """What a worker is to do with a job: `kind` is "run", "alone", "go" or "halt".

    "alone" says that no other job runs meanwhile, and "go" the same to a job that waits. After "halt" no job begins.
    """

    kind: str
    job: int


class Farewell(NamedTuple):
    """The last message of a worker, with notes for the user."""

    notes: tuple[str, ...]


HALT = Order("halt", -1)


class _Worker:
    """A process that runs jobs: `given` has each job that it has, with its last event, or None before the first."""

    def __init__(self, serve: Callable[..., tuple[str, ...]], setup: object) -> None:
        self.tag = secrets.token_hex(4)  # in the names of its temporary files
        self.given: dict[int, Event | None] = {}
        self.done = False
        self.process = processes.Process(_begin)
        self.process.send((serve, setup, self.tag))

    def give(self, kind: str, job: int) -> None:
        """Send an order about a job."""
        self.given.setdefault(job, None)
        self.process.send(Order(kind, job))

    def give_from(self, queue: deque[int]) -> None:
        """Take jobs from the queue, as many as it may have."""
        while queue and len(self.given) < WINDOW:
            self.give("run", queue.popleft())

    @property
    def under_way(self) -> list[Event]:
        """The last event of each job that has begun and not ended."""
        return [event for event in self.given.values() if event]

    @property
    def waiting(self) -> int | None:
        """The job that waits for its turn, if one does."""
        return next((event.job for event in self.under_way if event.kind == "waits"), None)

    @property
    def is_idle(self) -> bool:
        """Whether none of its jobs runs."""
        return not self.given or self.waiting is not None


class Supervisor:
    """Runs jobs in up to `most` workers; `outputs` has the real path of each output, and `jobs` are those to run.

    A worker calls `serve(setup, tag, line)`, which receives orders from the line until None, sends events, and returns
    notes for the user; `serve` and `setup` must pickle. `again` is the hint where the work cannot go on.
    """

    def __init__(
        self, serve: Callable[..., tuple[str, ...]], setup: object, outputs: Sequence[str], jobs: Sequence[int],
        most: int, *, fail_fast: bool, again: str = "",
    ) -> None:  # fmt: skip
        self._serve, self._setup, self._outputs, self._fail_fast = serve, setup, outputs, fail_fast
        self._jobs, self._most, self._again = jobs, most, again
        self._queue, self._suspects = deque(jobs), deque[int]()
        self._turn: int | None = None  # the job that has the machine for itself
        self._workers: list[_Worker] = []
        self._ended: dict[int, Outcome | None] = {}
        self._halted = False
        self.notes: dict[str, None] = {}  # of the workers, each once

    def outcomes(self, failed: Callable[[int, EngineError], Outcome]) -> Generator[Outcome, None, None]:
        """The outcome of each job that began, in their order; `failed` makes that of a job whose process died."""
        told = iter(self._jobs)
        following = next(told, None)
        with contextlib.closing(self._rounds(failed)) as rounds:
            for _ in rounds:
                while following in self._ended:
                    if outcome := self._ended.pop(following):
                        yield outcome
                    following = next(told, None)
        yield from (outcome for _, outcome in sorted(self._ended.items()) if outcome)

    def _rounds(self, failed: Callable[[int, EngineError], Outcome]) -> Generator[None, None, None]:
        """Run all jobs; yield whenever some may have ended."""
        stopping.at_once[self] = self._clean_all
        try:
            while self._hand_out():
                for process, event in processes.exchange([each.process for each in self._workers], stopping.PATIENCE):
                    if worker := next((each for each in self._workers if each.process is process), None):
                        self._take(event, worker, failed)
                yield
                stopping.check()
                time.sleep(_PAUSE)
            yield
        except stopping.Stopped:
            self._stop()
            raise
        finally:
            stopping.at_once.pop(self, None)
            for worker in [*self._workers]:
                self._end(worker)

    def _hand_out(self) -> bool:
        """Give orders; whether there are workers left."""
        self._give_turn()
        if self._turn is None and not self._suspects and not any(each.waiting is not None for each in self._workers):
            self._fill()
        if not self._queue and not self._suspects and not any(each.given for each in self._workers):
            for worker in self._workers:
                if not worker.done:
                    worker.done = True
                    worker.process.send(None)
        return bool(self._workers)

    def _fill(self) -> None:
        """Give jobs to the workers, and start another one where all have enough."""
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
                jobs = [*self._suspects, *self._queue]
                self._suspects.clear()
                self._queue.clear()
                self._serve(self._setup, "", _Here(self, jobs))
            return None
        self._workers.append(worker)
        return worker

    def _give_turn(self) -> None:
        """Let a job that needs it have the machine for itself, if no other job runs: one that waits, or a suspect."""
        if self._turn is not None or not all(each.is_idle for each in self._workers):
            return
        waiting = [(each.waiting, each) for each in self._workers if each.waiting is not None]
        if waiting:
            self._turn, worker = min(waiting, key=lambda each: each[0])
            worker.give("go", self._turn)
        elif self._suspects and (self._workers or self._start()):
            self._turn = self._suspects.popleft()
            self._workers[0].give("alone", self._turn)

    def _take(self, event: object, worker: _Worker, failed: Callable[[int, EngineError], Outcome]) -> None:
        """Take in a message of a worker."""
        match event:
            case Event():
                self.note(event, worker)
            case Farewell():  # it has done all that it was given, and was told that there is no more
                self.notes |= dict.fromkeys(event.notes)
                self._end(worker)
            case EOFError():
                self._died(worker, failed)
            case BaseException():
                raise event

    def note(self, event: Event, worker: _Worker | None = None) -> None:
        """Take in an event."""
        if event.kind != "ended":
            if worker:
                worker.given[event.job] = event
            return
        if worker:
            worker.given.pop(event.job, None)
        self._turn = None if self._turn == event.job else self._turn
        self._ended[event.job] = event.outcome
        if self._fail_fast and not self._halted and event.outcome and event.outcome.error:
            self._halted = True
            self._queue.clear()
            self._suspects.clear()
            for each in self._workers:
                each.process.send(HALT)

    def _died(self, worker: _Worker, failed: Callable[[int, EngineError], Outcome]) -> None:
        """Fail the only job under way, or plan to run each of several alone; EngineError if there was none."""
        stopping.check()  # a signal to the whole process group may have ended it
        worker.process.end()
        begun = worker.under_way
        complete = (each for each in begun if each.kind == "complete")
        named = [each for each in complete if _is_named(each.temporary, self._outputs[each.job])]
        self._clean(worker)
        for event in named:
            self.note(event._replace(kind="ended"), worker)
        suspects = [event.job for event in worker.under_way]
        rest = [job for job, event in worker.given.items() if not event]
        by = worker.process.ended_by
        self._end(worker)
        if not begun:
            raise EngineError(f"the process of the jobs died: {by}", hint=self._again)
        if self._turn in suspects:
            self._turn = None
        if len(suspects) == 1:
            error = EngineError(f"its process died: {by}", "files that their library can read, and memory for them")
            self.note(Event("ended", suspects[0], failed(suspects[0], error)))
        elif not self._halted:
            self._suspects.extend(suspects)
        if not self._halted:
            self._queue.extendleft(reversed(rest))

    def _stop(self) -> None:
        """Wait until the workers have undone their work after SIGTERM, for at most 10 seconds; they are killed then."""
        for worker in self._workers:
            worker.process.terminate()
        left = [each.process for each in self._workers]
        deadline = time.monotonic() + _LONGEST_STOP
        while left and time.monotonic() < deadline:
            for process, event in processes.exchange(left, stopping.PATIENCE):
                if isinstance(event, (Farewell, BaseException)) and process in left:
                    left.remove(process)

    def _end(self, worker: _Worker) -> None:
        worker.process.end()
        self._clean(worker)
        self._workers.remove(worker)

    def _clean_all(self) -> None:
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            self._clean(worker)

    def _clean(self, worker: _Worker) -> None:
        """Kill the process, and remove temporary files that it left beside the outputs of the jobs under way."""
        worker.process.kill()
        for folder in {os.path.dirname(self._outputs[each.job]) for each in worker.under_way}:  # noqa: PTH120 - a string
            for path in Path(folder).glob(f".revseq-{worker.tag}*.tmp"):
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    with contextlib.suppress(OSError):  # README says that a kill may leave files
                        path.unlink()


class _Here:
    """What this process has in place of a line, where no other can be started: each job has the machine for itself."""

    def __init__(self, supervisor: Supervisor, jobs: Sequence[int]) -> None:
        self.send = supervisor.note
        self.come: deque[Order | None] = deque([*(Order("alone", job) for job in jobs), None])

    def receive(self) -> Order | None:
        """The next order; None at the end."""
        return self.come.popleft()

    def wait(self) -> None:
        """Nothing to wait for: all orders are there."""

    def is_closed(self) -> bool:
        """Never: the line is within one process."""
        return False


def _is_named(temporary: str, output: str) -> bool:
    """Whether the temporary file has got its name; with hard links it has both names for a moment."""
    try:
        return Path(output).samefile(temporary)
    except OSError:
        return os.path.lexists(output) and not os.path.lexists(temporary)


def _begin(line: processes.Line) -> None:
    """The main function of a worker; it stops in order on SIGTERM, or when its parent is gone."""
    stopping.obey_parent(line.is_closed)
    status = 1
    try:
        with stopping.deferred():
            try:
                serve, setup, tag = line.receive()
                line.send(Farewell(serve(setup, tag, line)))
                status = 0
            finally:
                stopping.close()
    except (stopping.Stopped, EOFError, OSError):
        pass
    except Exception as e:  # noqa: BLE001 - the parent raises it
        line.send(e)
    os._exit(status)  # waits for no thread of a library, and calls no exit function
