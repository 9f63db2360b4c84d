"""The workers of a pass, and the loop that gives them the tasks: one class for each engine; `cluster` has dask's.

Waits for a worker are short and repeated, and signals are checked between: the standard library's pools wait forever
for a thread that died before it began, and handle no signal meanwhile.
"""

from __future__ import annotations

import _thread
import contextlib
import itertools
import pickle
import queue
import sys
import time
import weakref
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from revseq_cli.ground import allocator, stopping, thresholds
from revseq_cli.ground.errors import Advice, EngineError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from concurrent.futures import Future
    from typing import Self

    from revseq_cli.ground.processes import Line, Process
    from revseq_cli.passes.arrangement import Arrangement

_Result = TypeVar("_Result")
# A task, and its place among all.
_Numbered = tuple[int, "Callable[[], Any]"]

# A hint where a worker died, perhaps out of memory.
_SMALLER = Advice.of("try a smaller {}, or {}", memory="", engine="serial")


@dataclass(frozen=True)
class Bundle:
    """Tasks that a worker does one after another, where handing out costs much for each; it pickles if they do."""

    tasks: tuple[Callable[[], Any], ...]

    def __call__(self) -> list[Any]:
        """The results of the first tasks, as many as may travel together, and at least one; the others remain to do."""
        results, travels = [self.tasks[0]()], 0
        for task in self.tasks[1:]:
            travels += _weight(results[-1])
            if travels > thresholds.MOST_TRAVELS:
                break
            results.append(task())
        return results


def _weight(result: object) -> int:
    """How many bytes travel for a result, of which no array is copied to find out."""
    arrays: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(result, 5, buffer_callback=arrays.append)
    return len(pickled) + sum(array.raw().nbytes for array in arrays)


def bundle_size(left: int, workers: int, elements: int, travels: int) -> int:
    """How many of the tasks that are left make the next bundle.

    There are so many workers, the block of a task has so many elements, and so many bytes travel to a worker for it.
    """
    workers = max(1, workers)
    most = min(
        thresholds.MOST_TASKS,
        thresholds.MOST_REMEMBERED // workers,
        thresholds.MOST_ELEMENTS // max(1, elements),
        thresholds.MOST_TRAVELS // max(1, travels),
    )
    least = min(most // thresholds.LEAST_PART, -(-left // workers))
    return max(1, min(most, max(least, left // (2 * workers))))


class Crew:
    """Up to `most` workers of our own, each started when a task comes; if the system allows fewer, those do the work.

    An engine's class says how one starts (`_start`), how a free one gets a task (`_give`), how to wait for one of the
    tasks (`wait_for`), and how they all end (`close`).
    """

    def __init__(self, most: int) -> None:
        self._most, self._started = most, 0

    @classmethod
    def of(cls, arrangement: Arrangement) -> Self:
        """The crew for a pass."""
        return cls(arrangement.workers)

    @staticmethod
    def writers(arrangement: Arrangement) -> int:
        """How many processes write into one file at once."""
        return arrangement.workers if arrangement.engine.travels else 1

    def window(self) -> int:
        """How many bundles may be under way now: two for each worker, so that its next one is there in time."""
        return 2 * self._most

    def size(self, given: int) -> int:  # noqa: ARG002 - to hand out a task here costs little
        """How many tasks the next bundle has, after so many that were handed out."""
        return 1

    def submit(self, task: Callable[[], Any]) -> Future[Any]:
        """Give a task to the next free worker; EngineError if none can be started."""
        if self._started < self._most:
            try:
                self._start()
                self._started += 1
            except EngineError:
                if not self._started:
                    raise
                self._most = self._started
        from concurrent.futures import Future  # it takes 3 ms, and most jobs are serial

        future: Future[Any] = Future()
        self._give(future, task)
        return future

    def _start(self) -> None:
        """Start one more worker; EngineError if the system refuses."""
        raise NotImplementedError

    def _give(self, future: Future[Any], task: Callable[[], Any]) -> None:
        """Give a task to the next free worker, which sets the future."""
        raise NotImplementedError

    def wait_for(self, pending: set[Future[Any]]) -> None:
        """Wait until a pending task is done, but at most `stopping.PATIENCE`; EngineError if a worker has died."""
        raise NotImplementedError

    def close(self) -> None:
        """End the workers."""

    def taken(self, future: Future[list[_Result]]) -> list[_Result]:
        """The results of a bundle that has ended; its error is raised."""
        return future.result()

    def results(
        self, tasks: Iterable[Callable[[], _Result]], *, in_order: bool = False
    ) -> Generator[_Result, None, None]:
        """The result of each task, in the order in which their bundles end; closing it cancels those under way.

        With `in_order`, results come in the order of the tasks. Those that end too early are kept, and no more tasks
        are handed out than may be under way.
        """
        new, again = enumerate(tasks), deque[_Numbered]()
        pending: dict[Future[list[_Result]], list[_Numbered]] = {}
        kept: dict[int, _Result] = {}
        given, yielded, most = 0, 0, sys.maxsize
        try:
            while True:
                while len(pending) < self.window():
                    size = min(self.size(given), most)
                    first = [again.popleft() for _ in range(min(size, len(again)))]
                    has_room = not in_order or given - yielded < self.window() * size
                    more = itertools.islice(new, size - len(first) if has_room else 0)
                    if not (numbered := [*first, *more]):
                        break
                    pending[self.submit(Bundle(tuple(task for _, task in numbered)))] = numbered
                    given += len(numbered)
                if not pending:
                    return
                self.wait_for(set(pending))
                stopping.check()
                ended = [future for future in pending if future.done()]
                while ended:  # keeps no future, so that a scheduler forgets each result before the next tasks
                    numbered, done = pending.pop(ended[-1]), self.taken(ended.pop())
                    if left := numbered[len(done) :]:
                        again.extend(left)
                        given, most = given - len(left), min(most, len(done))
                    kept |= {number: result for (number, _), result in zip(numbered, done, strict=False)}
                    del done
                    while kept and (not in_order or yielded in kept):
                        yield kept.pop(yielded if in_order else next(iter(kept)))
                        yielded += 1
        finally:
            for future in pending:
                future.cancel()


class Serial(Crew):
    """The caller's thread as the only worker, which does each task when its result is asked for."""

    def results(self, tasks: Iterable[Callable[[], _Result]], **_: bool) -> Generator[_Result, None, None]:
        """The result of each task, always in the order of the tasks."""
        return (task() for task in tasks)


class _Life:
    """The state of a thread, which sets `ended`. That of a thread which never began is gone."""

    ended = False


class Threads(Crew):
    """Threads, for work that releases Python's global lock."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self._given: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._lives = weakref.WeakSet[_Life]()

    def _start(self) -> None:
        from revseq_cli.ground.processes import starting

        life = _Life()
        with starting():
            _thread.start_new_thread(_work, (self._given, life))
        self._lives.add(life)

    def _give(self, future: Future[Any], task: Callable[[], Any]) -> None:
        self._given.put((future, task))

    def wait_for(self, pending: set[Future[Any]]) -> None:
        """Wait until a pending task is done, but at most `stopping.PATIENCE`; EngineError if a thread has died."""
        from concurrent.futures import FIRST_COMPLETED, wait  # see submit

        if not wait(pending, stopping.PATIENCE, FIRST_COMPLETED).done and self._living() < self._started:
            raise EngineError("a worker thread died", "memory for it", _SMALLER)

    def close(self) -> None:
        """Cancel what is queued, and wait until each thread has done its task; a second signal ends the process."""
        with contextlib.suppress(queue.Empty):
            while given := self._given.get_nowait():
                given[0].cancel()
        for _ in range(self._started):
            self._given.put(None)
        pause = 0.0001
        while self._living():
            time.sleep(pause)
            pause = min(2 * pause, stopping.PATIENCE)

    def _living(self) -> int:
        return sum(not life.ended for life in self._lives)


def _work(given: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None], life: _Life) -> None:
    """The loop of a thread: one task after another, until it gets None."""
    try:
        while each := given.get():
            future, task = each
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(task())
                except BaseException as e:  # noqa: BLE001 - it is raised where the result is asked for
                    future.set_exception(e)
            del each, future, task  # else the last result would stay in memory until the next task
    finally:
        life.ended = True


class Processes(Crew):
    """Processes, for work that holds Python's global lock, or HDF5's, which each process has for itself."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self._given: dict[Process, deque[Future[Any]]] = {}  # the next one first

    def _start(self) -> None:
        from revseq_cli.ground.processes import Process

        self._given[Process(_serve)] = deque()

    def _give(self, future: Future[Any], task: Callable[[], Any]) -> None:
        process = min(self._given, key=lambda each: len(self._given[each]))
        process.send(task)
        self._given[process].append(future)

    def wait_for(self, pending: set[Future[Any]]) -> None:
        """Wait until a pending task is done, but at most `stopping.PATIENCE`; EngineError if a process has died."""
        from revseq_cli.ground.processes import exchange

        done = any(future.done() for future in pending)
        for process, answer in exchange(self._given, 0 if done else stopping.PATIENCE):
            if isinstance(answer, EOFError):
                wanted = "workers that live; was one killed, or out of memory?"
                raise EngineError("a worker process died", wanted, _SMALLER)
            future, (result, error, trace) = self._given[process].popleft(), answer
            if error is None:
                future.set_result(result)
            else:
                error.add_note(trace)
                future.set_exception(error)

    def close(self) -> None:
        """Kill all processes, and wait until they are gone."""
        for process in self._given:
            process.end()


def _serve(line: Line) -> None:
    """The loop of a process: one task after another, until the parent closes the line."""
    import traceback  # not every process is a worker

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


def results(
    tasks: Iterable[Callable[[], _Result]], arrangement: Arrangement, *, in_order: bool = False
) -> Iterator[_Result]:
    """Run the tasks with the arrangement's engine; Stopped by a signal.

    The results come in the order in which they end, or, with `in_order`, in that of the tasks.
    """
    allocator.keep_freed()
    with (
        stopping.deferred(),
        contextlib.closing(arrangement.engine.load().of(arrangement)) as crew,
        contextlib.closing(crew.results(tasks, in_order=in_order)) as ended,
    ):
        for result in ended:
            stopping.check()
            yield result
