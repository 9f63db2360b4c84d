"""The workers of a pass, with one interface for all engines, and the loop that gives them the tasks."""

from __future__ import annotations

import contextlib
import itertools
import pickle
import sys
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from revseq_cli.ground import allocator, stopping
from revseq_cli.ground.errors import Words

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from concurrent.futures import Future

    from revseq_cli.passes.arrangement import Arrangement

_Result = TypeVar("_Result")

# A hint where a worker died, perhaps out of memory.
SMALLER = Words.of("try a smaller {}, or {}", memory="", engine="serial")
# A batch has at most so many tasks and elements: handing it out costs little beside its work, and doing it again where
# its worker died costs little beside the pass.
_MOST_TASKS, _MOST_ELEMENTS = 1 << 8, 1 << 25
_MOST_TRAVELS = 1 << 18  # bytes of a batch's tasks, or of its results, where it has more than one
_MOST_REMEMBERED = 1 << 14  # tasks under way
# The last batches are smaller, so that all workers end together: half a worker's share of what is left, but no less
# than such a part of the largest batch, or handing them out would take longer than their work.
_LEAST_PART = 8


class Pool(Protocol):
    """Workers of our own, as threads or processes."""

    def submit(self, task: Callable[[], Any]) -> Future[Any]:
        """Give a task to one of them; EngineError if there is none."""

    def attend(self, pending: set[Future[Any]]) -> None:
        """Wait a moment for one of the pending tasks; EngineError if a worker died."""

    def end(self) -> None:
        """End them all."""


@dataclass(frozen=True)
class Batch:
    """Tasks that a worker does one after another, where handing out costs much for each; it pickles if they do."""

    tasks: tuple[Callable[[], Any], ...]

    def __call__(self) -> list[Any]:
        """The results of the first tasks, as many as may travel together, and at least one; the others remain to do."""
        results, travels = [self.tasks[0]()], 0
        for task in self.tasks[1:]:
            travels += _weight(results[-1])
            if travels > _MOST_TRAVELS:
                break
            results.append(task())
        return results


def _weight(result: object) -> int:
    """How many bytes travel for a result, of which no array is copied to find out."""
    arrays: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(result, 5, buffer_callback=arrays.append)
    return len(pickled) + sum(array.raw().nbytes for array in arrays)


def batch_size(left: int, workers: int, elements: int, travels: int) -> int:
    """How many of the tasks that are left make the next batch.

    There are so many workers, the block of a task has so many elements, and so many bytes travel to a worker for it.
    """
    workers = max(1, workers)
    most = min(
        _MOST_TASKS, _MOST_REMEMBERED // workers, _MOST_ELEMENTS // max(1, elements), _MOST_TRAVELS // max(1, travels)
    )
    least = min(most // _LEAST_PART, -(-left // workers))
    return max(1, min(most, max(least, left // (2 * workers))))


class Crew(NamedTuple):
    """Parallel workers: `submit` gives a batch to one of them, `window` returns how many batches may be under way now.

    `attend` waits for one of the pending batches, for at most `stopping.PATIENCE`, so that signals are checked between.
    `size` returns how many tasks the next batch has, after so many that were handed out.
    """

    submit: Callable[[Batch], Future[list[Any]]]
    window: Callable[[], int]
    attend: Callable[[set[Future[Any]]], object]
    size: Callable[[int], int] = lambda _: 1

    def results(self, tasks: Iterable[Callable[[], _Result]]) -> Generator[_Result, None, None]:
        """The result of each task, in the order in which their batches end; closing it cancels those under way."""
        new, again = iter(tasks), deque[Any]()
        pending: dict[Future[list[_Result]], Batch] = {}
        given, most = 0, sys.maxsize
        try:
            while True:
                while len(pending) < self.window():
                    size = min(self.size(given), most)
                    first = [again.popleft() for _ in range(min(size, len(again)))]
                    batch = Batch((*first, *itertools.islice(new, size - len(first))))
                    if not batch.tasks:
                        break
                    pending[self.submit(batch)] = batch
                    given += len(batch.tasks)
                if not pending:
                    return
                self.attend(set(pending))
                stopping.check()
                ended = [future for future in pending if future.done()]
                while ended:  # keeps no future, so that a scheduler forgets each result before the next tasks
                    batch, done = pending.pop(ended[-1]), ended.pop().result()
                    if left := batch.tasks[len(done) :]:
                        again.extend(left)
                        given, most = given - len(left), min(most, len(done))
                    yield from done
        finally:
            for future in pending:
                future.cancel()


@contextlib.contextmanager
def pooled(pool: Pool, workers: int) -> Iterator[Crew]:
    """A crew of workers of our own, which end with the context, also after an error."""
    try:
        yield Crew(pool.submit, lambda: 2 * workers, pool.attend)
    finally:
        pool.end()


def results(tasks: Iterable[Callable[[], _Result]], arrangement: Arrangement) -> Iterator[_Result]:
    """Run the tasks with the arrangement's engine: the results in the order in which they end; Stopped by a signal."""
    allocator.keep_freed()
    with (
        stopping.deferred(),
        arrangement.engine.load().crew(arrangement) as crew,
        contextlib.closing(crew.results(tasks)) as ended,
    ):
        for result in ended:
            stopping.check()
            yield result
