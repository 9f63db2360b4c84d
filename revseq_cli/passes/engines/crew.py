"""The workers of a pass as all engines have them, and how the tasks of a pass are handed out to them."""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from revseq_cli.ground import allocator, stopping
from revseq_cli.ground.errors import Words

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from concurrent.futures import Future

    from revseq_cli.passes.arrangement import Arrangement

_Result = TypeVar("_Result")

# A hint where a worker died for want of memory, or of processes.
SMALLER = Words.of("try a smaller {}, or {}", memory="", engine="serial")


class Crew(NamedTuple):
    """Workers side by side: `submit` hands a task to one of them, `window` says how many tasks may be under way now.

    `attend` waits a moment for one of the tasks under way, so that signals are looked at in between.
    """

    submit: Callable[[Callable[[], Any]], Future[Any]]
    window: Callable[[], int]
    attend: Callable[[set[Future[Any]]], object]

    def results(self, tasks: Iterable[Callable[[], _Result]]) -> Generator[_Result, None, None]:
        """What each task gives, in the order in which they end; those under way are cancelled when it is closed."""
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
                while ended:  # a result is let go before the next tasks, so that a scheduler forgets it
                    yield ended.pop().result()
        finally:
            for future in pending:
                future.cancel()


def results(tasks: Iterable[Callable[[], _Result]], arrangement: Arrangement) -> Iterator[_Result]:
    """What each task gives, in the order in which they end; signals are looked at between two of them."""
    allocator.keep_freed()
    with (
        stopping.deferred(),
        arrangement.engine.load().crew(arrangement) as crew,
        contextlib.closing(crew.results(tasks)) as ended,
    ):
        for result in ended:
            stopping.check()
            yield result
