"""The workers of a pass, with one interface for all engines, and the loop that gives them the tasks."""

from __future__ import annotations

import contextlib
import itertools
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


class Pool(Protocol):
    """Workers of our own, as threads or processes."""

    def submit(self, task: Callable[[], Any]) -> Future[Any]:
        """Give a task to one of them; EngineError if there is none."""

    def attend(self, pending: set[Future[Any]]) -> None:
        """Wait a moment for one of the pending tasks; EngineError if a worker died."""

    def end(self) -> None:
        """End them all."""


class Crew(NamedTuple):
    """Parallel workers: `submit` gives a task to one of them, `window` returns how many tasks may be under way now.

    `attend` waits for one of the pending tasks, for at most `stopping.PATIENCE`, so that signals are checked between.
    """

    submit: Callable[[Callable[[], Any]], Future[Any]]
    window: Callable[[], int]
    attend: Callable[[set[Future[Any]]], object]

    def results(self, tasks: Iterable[Callable[[], _Result]]) -> Generator[_Result, None, None]:
        """The result of each task, in the order in which they end; closing it cancels those under way."""
        tasks = iter(tasks)
        pending: set[Future[_Result]] = set()
        try:
            while True:
                more = max(0, self.window() - len(pending))
                pending |= {self.submit(task) for task in itertools.islice(tasks, more)}
                if not pending:
                    return
                self.attend(pending)
                stopping.check()
                ended = {future for future in pending if future.done()}
                pending -= ended
                while ended:  # keeps no future, so that a scheduler forgets each result before the next tasks
                    yield ended.pop().result()
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
