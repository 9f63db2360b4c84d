"""The engine of threads: for work that lets go of the interpreter's lock. Nobody waits for them without a bound.

The standard library's pool waits for a thread that ended before it had begun, and hears no signal meanwhile.
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
from revseq_cli.passes.engines.crew import SMALLER, Crew

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from revseq_cli.passes.arrangement import Arrangement


@contextlib.contextmanager
def crew(arrangement: Arrangement) -> Iterator[Crew]:
    """So many threads, which are gone when the context ends, however it ends."""
    pool = Threads(arrangement.workers)
    try:
        yield Crew(pool.submit, lambda: 2 * arrangement.workers, pool.attend)
    finally:
        pool.end()


class _Life:
    """A thread's: it says that it has ended. One that never began cannot, but then nobody holds this any more."""

    def __init__(self) -> None:
        self.ended = False


class Threads:
    """At most so many threads, started one by one; where the system gives fewer, those do the work."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._given: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._threads: list[weakref.ref[_Life]] = []

    def submit(self, task: Callable[[], Any]) -> Future[Any]:
        """Let a thread do it; EngineError where there is none."""
        if len(self._threads) < self._most:
            with starting():
                self._start()
        if not self._threads:
            raise EngineError("cannot start a worker: there are to be none")
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
        """Wait a moment, or until one of them is done; EngineError if a thread is gone, for want of memory."""
        if not wait(pending, stopping.PATIENCE, FIRST_COMPLETED).done and self._living() < len(self._threads):
            raise EngineError("a worker thread died", "memory for it", SMALLER)

    def end(self) -> None:
        """Return when each has done what it had begun; a second signal ends the process meanwhile."""
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
    """In a thread: one task after another."""
    try:
        while each := given.get():
            future, task = each
            if future.set_running_or_notify_cancel():
                settle(future, task)
            del each, future, task  # or the last result would be held until the next
    finally:
        life.ended = True


def settle(future: Future[Any], task: Callable[[], Any]) -> None:
    """Do the task here and now."""
    try:
        result = task()
    except BaseException as e:  # noqa: BLE001 - it is raised where the result is asked for
        future.set_exception(e)
    else:
        future.set_result(result)
