"""The workers of a pass, which are threads, processes, or dask's, and how its tasks are handed out to them."""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from revseq_cli.ground import allocator, stopping

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from concurrent.futures import Future

    from revseq_cli.passes.arrangement import Arrangement
    from revseq_cli.passes.pools import Processes, Threads

_Result = TypeVar("_Result")


class Crew(NamedTuple):
    """Workers: what hands a task to them, how many may be under way at this moment, and what waits for one of them.

    That wait is for a moment only, so that signals are looked at.
    """

    submit: Callable[[Callable[[], Any]], Future[Any]]
    window: Callable[[], int]
    attend: Callable[[set[Future[Any]]], object]


def results(tasks: Iterable[Callable[[], _Result]], arrangement: Arrangement) -> Iterator[_Result]:
    """What each task gives, in the order in which they end; a signal is looked at between two of them."""
    allocator.keep_freed()
    with stopping.deferred(), contextlib.ExitStack() as stack:
        if arrangement.engine == "serial":
            found: Iterator[_Result] = (task() for task in tasks)
        else:
            crew = stack.enter_context(_CREWS[arrangement.engine](arrangement))
            found = stack.enter_context(contextlib.closing(_submitted(tasks, crew)))
        for result in found:
            stopping.check()
            yield result


def _submitted(tasks: Iterable[Callable[[], _Result]], crew: Crew) -> Generator[_Result, None, None]:
    tasks = iter(tasks)
    pending: set[Future[_Result]] = set()
    try:
        while True:
            more = max(0, crew.window() - len(pending))
            pending |= {crew.submit(task) for task in itertools.islice(tasks, more)}
            if not pending:
                return
            crew.attend(pending)
            stopping.check()
            ended = {future for future in pending if future.done()}
            pending -= ended
            while ended:  # none is held any longer, so that a scheduler forgets it before it hears of the next ones
                yield ended.pop().result()
    finally:
        for future in pending:
            future.cancel()


@contextlib.contextmanager
def _pool(pool: Threads | Processes, workers: int) -> Iterator[Crew]:
    """They are gone when it ends, however it ends; so are those of a cluster of our own."""
    try:
        yield Crew(pool.submit, lambda: 2 * workers, pool.attend)
    finally:
        pool.end()


def _threads(arrangement: Arrangement) -> contextlib.AbstractContextManager[Crew]:
    from revseq_cli.passes.pools import Threads

    return _pool(Threads(arrangement.workers), arrangement.workers)


def _processes(arrangement: Arrangement) -> contextlib.AbstractContextManager[Crew]:
    from revseq_cli.passes.pools import Processes

    return _pool(Processes(arrangement.workers), arrangement.workers)


@contextlib.contextmanager
def _dask(arrangement: Arrangement) -> Iterator[Crew]:
    from concurrent.futures import FIRST_COMPLETED, wait

    from revseq_cli.passes import cluster  # dask takes a second to load

    found = cluster.Pass(arrangement.scheduler, arrangement.workers)
    yield Crew(found.submit, found.window, lambda pending: wait(pending, stopping.PATIENCE, FIRST_COMPLETED))


_CREWS: dict[str, Callable[[Arrangement], contextlib.AbstractContextManager[Crew]]] = {
    "threads": _threads,
    "processes": _processes,
    "dask": _dask,
}
