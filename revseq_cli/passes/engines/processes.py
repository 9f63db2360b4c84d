"""The engine of processes, for work that holds Python's global lock, or HDF5's, which each process has for itself."""

from __future__ import annotations

import pickle
import traceback
from collections import deque
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from revseq_cli.ground import stopping
from revseq_cli.ground.errors import EngineError
from revseq_cli.ground.processes import Line, Process, exchange
from revseq_cli.passes.engines.crew import SMALLER, Crew, pooled

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from revseq_cli.passes.arrangement import Arrangement


def crew(arrangement: Arrangement) -> AbstractContextManager[Crew]:
    """The arrangement's number of processes."""
    return pooled(Processes(arrangement.workers), arrangement.workers)


class Processes:
    """At most `most` processes, each started when all others are busy; fewer, if the system allows no more."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._doing: dict[Process, Future[Any] | None] = {}

    def submit(self, task: Callable[[], Any]) -> Future[Any]:
        """Queue the task for the next free process; EngineError if no process can be started."""
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
        """Wait until a pending task is done, but at most `stopping.PATIENCE`; EngineError if a process has died."""
        done = any(future.done() for future in pending)
        for process, answer in exchange(self._doing, 0 if done else stopping.PATIENCE):
            future = self._doing[process]
            if future is None or isinstance(answer, EOFError):
                wanted = "workers that live; was one killed, or out of memory?"
                raise EngineError("a worker process died", wanted, SMALLER)
            self._doing[process] = None
            result, error, trace = answer
            if error is None:
                future.set_result(result)
            else:
                error.add_note(trace)
                future.set_exception(error)
        self._hand_out()

    def end(self) -> None:
        """Kill all processes, and wait until they are gone."""
        for process in self._doing:
            process.end()


def _do(line: Line) -> None:
    """The loop of a process: one task after another, until the parent closes the line."""
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
        except (pickle.PicklingError, TypeError, AttributeError) as e:  # some errors of codecs do not pickle
            line.send((None, EngineError(f"a worker failed: {answer[1] or e}"[:300]), answer[2]))
        del answer
