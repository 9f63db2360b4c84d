"""The engine of threads, for work that releases Python's global lock.

Waits for a thread are short and repeated, and signals are checked between: the standard library's pool waits forever
for a thread that died before it began, and handles no signal meanwhile.
"""

from __future__ import annotations

import _thread
import contextlib
import queue
import time
import weakref
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import TYPE_CHECKING, Any

from revseq_cli.ground import stopping
from revseq_cli.ground.errors import EngineError
from revseq_cli.ground.processes import starting
from revseq_cli.passes.engines.crew import SMALLER, Crew, pooled

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from revseq_cli.passes.arrangement import Arrangement


def crew(arrangement: Arrangement) -> AbstractContextManager[Crew]:
    """The arrangement's number of threads."""
    return pooled(Threads(arrangement.workers), arrangement.workers)


class _Life:
    """The state of one thread, which sets `ended`. Of a thread that never began, the weak reference to it dies."""

    def __init__(self) -> None:
        self.ended = False


class Threads:
    """At most `most` threads, each started when a task comes; if the system allows fewer, those do the work."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._given: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._threads: list[weakref.ref[_Life]] = []

    def submit(self, task: Callable[[], Any]) -> Future[Any]:
        """Queue the task for the next free thread; EngineError if no thread can be started."""
        if len(self._threads) < self._most:
            with starting():
                self._start()
        if not self._threads:
            raise EngineError("cannot start a worker: the pool is for 0 threads")
        future: Future[Any] = Future()
        self._given.put((future, task))
        return future

    def _start(self) -> None:
        life = _Life()
        try:
            _thread.start_new_thread(_serve, (self._given, life))
        except RuntimeError:
            if not self._threads:
                raise
            self._most = len(self._threads)
        else:
            self._threads.append(weakref.ref(life))

    def attend(self, pending: set[Future[Any]]) -> None:
        """Wait until a pending task is done, but at most `stopping.PATIENCE`; EngineError if a thread has died."""
        if not wait(pending, stopping.PATIENCE, FIRST_COMPLETED).done and self._living() < len(self._threads):
            raise EngineError("a worker thread died", "memory for it", SMALLER)

    def end(self) -> None:
        """Cancel what is queued, and wait until each thread has done its task; a second signal ends the process."""
        with contextlib.suppress(queue.Empty):
            while given := self._given.get_nowait():
                given[0].cancel()
        for _ in self._threads:
            self._given.put(None)
        pause = 0.0001
        while self._living():
            time.sleep(pause)
            pause = min(2 * pause, stopping.PATIENCE)

    def _living(self) -> int:
        lives = [each() for each in self._threads]
        return sum(life is not None and not life.ended for life in lives)


def _serve(given: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None], life: _Life) -> None:
    """The loop of a thread: one task after another, until it gets None."""
    try:
        while each := given.get():
            future, task = each
            if future.set_running_or_notify_cancel():
                settle(future, task)
            del each, future, task  # else the last result would stay in memory until the next task
    finally:
        life.ended = True


def settle(future: Future[Any], task: Callable[[], Any]) -> None:
    """Run the task in this thread, and set the future's result or exception."""
    try:
        result = task()
    except BaseException as e:  # noqa: BLE001 - it is raised where the result is asked for
        future.set_exception(e)
    else:
        future.set_result(result)
