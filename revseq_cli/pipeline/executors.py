"""The executors of this machine, and the loop that gives them the tasks of a pass; `cluster` has dask's.

Processes are those of concurrent.futures. The loop waits for a moment only, and looks at signals between.
"""

from __future__ import annotations

import contextlib
import itertools
import pickle
import sys
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from revseq_cli.core import signals, system, thresholds

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from concurrent.futures import Future

    from revseq_cli.pipeline.arrangement import Arrangement

_Result = TypeVar("_Result")
# A task, and its place among all.
_Numbered = tuple[int, "Callable[[], Any]"]


@dataclass(frozen=True)
class Batch:
    """Tasks that a worker does one after another, where a submission costs much for each; it pickles if they do."""

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


def batch_size(left: int, workers: int, tasks: int, travels: int) -> int:
    """How many of the tasks that are left make the next batch.

    There are so many workers, a batch may have so many tasks, and so many bytes travel to a worker for a task.
    """
    workers = max(1, workers)
    most = min(
        thresholds.MOST_TASKS,
        thresholds.MOST_REMEMBERED // workers,
        tasks,
        thresholds.MOST_TRAVELS // max(1, travels),
    )
    least = min(most // thresholds.LEAST_PART, -(-left // workers))
    return max(1, min(most, max(least, left // (2 * workers))))


class Executor:
    """What the loop needs of an engine: an executor of concurrent.futures, and how much it gets at once."""

    def __init__(self, arrangement: Arrangement) -> None:
        self._workers = arrangement.workers

    def window(self) -> int:
        """How many batches may be under way now: two for each worker, so that its next one is there in time."""
        return 2 * self._workers

    def size(self, given: int) -> int:  # noqa: ARG002
        """How many tasks the next batch has, after so many that were submitted."""
        return 1

    def submit(self, batch: Batch) -> Future[Any]:
        """Submit a batch; EngineError if no worker can be started."""
        raise NotImplementedError

    def result(self, future: Future[Any]) -> Any:  # noqa: ANN401 - whatever the tasks give
        """The results of a batch that has ended; its error is raised."""
        return future.result()

    def check(self) -> None:
        """EngineError if a worker has died whose batch will never end."""

    def cancel(self, futures: Iterable[Future[Any]]) -> None:
        """Cancel batches that nobody waits for any more."""
        for future in futures:
            future.cancel()

    def close(self) -> None:
        """End the workers."""

    def results(
        self, tasks: Iterable[Callable[[], _Result]], *, in_order: bool = False
    ) -> Generator[_Result, None, None]:
        """The result of each task, in the order in which their batches end; closing it cancels those under way.

        With `in_order`, results come in the order of the tasks. Those that end too early are kept, and no more tasks
        are submitted than may be under way.
        """
        from concurrent.futures import FIRST_COMPLETED, wait  # it takes 3 ms, and most jobs are serial

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
                    pending[self.submit(Batch(tuple(task for _, task in numbered)))] = numbered
                    given += len(numbered)
                if not pending:
                    return
                ended = [*wait(pending, signals.PATIENCE, FIRST_COMPLETED).done]
                signals.check()
                if not ended:
                    self.check()
                while ended:  # keeps no future, so that a scheduler forgets each result before the next tasks
                    numbered, done = pending.pop(ended[-1]), self.result(ended.pop())
                    if left := numbered[len(done) :]:
                        again.extend(left)
                        given, most = given - len(left), min(most, len(done))
                    kept |= {number: result for (number, _), result in zip(numbered, done, strict=False)}
                    del done
                    while kept and (not in_order or yielded in kept):
                        yield kept.pop(yielded if in_order else next(iter(kept)))
                        yielded += 1
        finally:
            self.cancel(pending)


class Serial(Executor):
    """The caller's thread as the only worker, which does each task when its result is asked for.

    It loads no concurrent.futures, since small jobs would start later.
    """

    def results(self, tasks: Iterable[Callable[[], _Result]], **_: bool) -> Generator[_Result, None, None]:
        """The result of each task, always in the order of the tasks."""
        return (task() for task in tasks)


class Processes(Executor):
    """Processes, for work that holds Python's global lock, or HDF5's, which each process has for itself."""

    _travels = 0  # bytes of a task

    def __init__(self, arrangement: Arrangement) -> None:
        from revseq_cli.core.processes import Workers

        super().__init__(arrangement)
        self._plan = arrangement.plan
        self._processes = Workers(arrangement.workers)

    def size(self, given: int) -> int:
        """How many tasks the next batch has; the first has one, which shows how many bytes travel."""
        if not given:
            return 1
        most = thresholds.MOST_ELEMENTS_HERE // max(1, self._plan.block_elements)
        return batch_size(self._plan.block_count - given, self._workers, most, self._travels)

    def submit(self, batch: Batch) -> Future[Any]:
        """Submit a batch; EngineError if no process can be started."""
        from revseq_cli.core.processes import packed  # see results

        message = packed(batch)
        self._travels = max(self._travels, len(message) // len(batch.tasks))
        return self._processes.submit(message)

    def result(self, future: Future[Any]) -> Any:  # noqa: ANN401 - whatever the tasks give
        """The results of a batch that has ended; its error is raised."""
        return self._processes.result(future)

    def check(self) -> None:
        """EngineError if a process has died."""
        self._processes.check()

    def cancel(self, futures: Iterable[Future[Any]]) -> None:
        """Leave it to `close`: Python's executor prints a traceback if a worker dies after a future was cancelled."""

    def close(self) -> None:
        """Kill all processes, and wait until they are gone."""
        self._processes.close()


def results(
    tasks: Iterable[Callable[[], _Result]], arrangement: Arrangement, *, in_order: bool = False
) -> Iterator[_Result]:
    """Run the tasks with the arrangement's engine; Stopped by a signal.

    The results come in the order in which they end, or, with `in_order`, in that of the tasks.
    """
    system.keep_freed_memory()
    with (
        signals.deferred(),
        contextlib.closing(arrangement.engine.load()(arrangement)) as executor,
        contextlib.closing(executor.results(tasks, in_order=in_order)) as ended,
    ):
        for result in ended:
            signals.check()
            yield result
