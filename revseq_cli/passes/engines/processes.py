"""The engine of processes: for work that keeps the interpreter's lock, or HDF5's, which only processes get past."""

from __future__ import annotations

import contextlib
import pickle
import traceback
from collections import deque
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from revseq_cli.ground import stopping
from revseq_cli.ground.errors import EngineError
from revseq_cli.ground.processes import Line, Process, exchange
from revseq_cli.passes.engines.crew import SMALLER, Crew

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from revseq_cli.passes.arrangement import Arrangement


@contextlib.contextmanager
def crew(arrangement: Arrangement) -> Iterator[Crew]:
    """So many processes, which are gone when the context ends, however it ends."""
    pool = Processes(arrangement.workers)
    try:
        yield Crew(pool.submit, lambda: 2 * arrangement.workers, pool.attend)
    finally:
        pool.end()


class Processes:
    """At most so many processes, started one by one, each of which does a task at a time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._doing: dict[Process, Future[Any] | None] = {}

    def submit(self, task: Callable[[], Any]) -> Future[Any]:
        """Let a process do it; EngineError where none can be started, and with fewer than wished for it goes on."""
        if len(self._doing) < self._most and all(self._doing.values()):
            try:
                self._doing[Process(_do)] = None
            except EngineError:
                if not self._doing:
                    raise
                self._most = len(self._doing)
        future: Future[Any] = Future()
        self._waiting.append((future, task))
        self._hand_out()
        return future

    def _hand_out(self) -> None:
        for process, under_way in self._doing.items():
            if under_way is None and self._waiting:
                future, task = self._waiting.popleft()
                self._doing[process] = future
                process.send(task)

    def attend(self, pending: set[Future[Any]]) -> None:
        """Wait a moment, or until one of them is done; EngineError if a process has died."""
        done = any(future.done() for future in pending)
        for process, answer in exchange(self._doing, 0 if done else stopping.PATIENCE):
            future = self._doing[process]
            if future is None or isinstance(answer, EOFError):
                raise EngineError(
                    "a worker process died", "workers that live; was one killed, or out of memory?",
                    SMALLER,
                )  # fmt: skip
            self._doing[process] = None
            result, error, trace = answer
            if error is None:
                future.set_result(result)
            else:
                error.add_note(trace)
                future.set_exception(error)
        self._hand_out()

    def end(self) -> None:
        """Return when they are gone, whatever they do."""
        for process in self._doing:
            process.end()


def _do(line: Line) -> None:
    """In a process: one task after another."""
    while True:
        answer: tuple[Any, BaseException | None, str]
        try:
            answer = line.receive()(), None, ""
        except EOFError:
            raise
        except BaseException as e:  # noqa: BLE001 - it is raised where the result is asked for
            answer = None, e, traceback.format_exc()
        try:
            line.send(answer)
        except (pickle.PicklingError, TypeError, AttributeError) as e:  # of what codecs raise
            line.send((None, EngineError(f"a worker failed: {answer[1] or e}"[:300]), answer[2]))
        del answer
