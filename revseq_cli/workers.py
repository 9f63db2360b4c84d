"""The workers of a pass, which are threads, processes, or dask's, and how its tasks are handed out to them."""

from __future__ import annotations

import contextlib
import itertools
import os
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from revseq_cli import memory, stopping
from revseq_cli.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from concurrent.futures import Future
    from multiprocessing.process import BaseProcess

    from revseq_cli.arrangement import Arrangement

_Result = TypeVar("_Result")


class Crew(NamedTuple):
    """Workers: what hands a task to them, and how many tasks may be under way at this moment."""

    submit: Callable[[Callable[[], Any]], Future[Any]]
    window: Callable[[], int]


def results(tasks: Iterable[Callable[[], _Result]], arrangement: Arrangement) -> Iterator[_Result]:
    """What each task gives, in the order in which they end; a signal is looked at between two of them."""
    memory.keep_freed()
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
    from concurrent.futures import FIRST_COMPLETED, wait

    tasks = iter(tasks)
    pending: set[Future[_Result]] = set()
    try:
        while True:
            more = max(0, crew.window() - len(pending))
            pending |= {crew.submit(task) for task in itertools.islice(tasks, more)}
            if not pending:
                return
            ended, pending = wait(pending, stopping.PATIENCE, FIRST_COMPLETED)
            stopping.check()
            for future in ended:
                yield future.result()
    finally:
        for future in pending:
            future.cancel()


@contextlib.contextmanager
def _threads(arrangement: Arrangement) -> Iterator[Crew]:
    """They are gone when it ends, however it ends; so are those of the others."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(arrangement.workers) as pool:

        def submit(task: Callable[[], Any]) -> Future[Any]:
            with starting():
                return pool.submit(task)

        yield Crew(submit, lambda: 2 * arrangement.workers)


@contextlib.contextmanager
def _processes(arrangement: Arrangement) -> Iterator[Crew]:
    import multiprocessing
    from concurrent.futures import BrokenExecutor, ProcessPoolExecutor

    # Not fork: a worker must inherit neither an open HDF5 file nor a lock that a thread holds. Not a server that
    # forks either: it starts no faster, and leaves its folder in TMPDIR when we end by a signal.
    context = multiprocessing.get_context("spawn")
    with starting(), stopping.shielded():  # it starts Python's tracker of semaphores, which would die of a SIGHUP
        pool = ProcessPoolExecutor(arrangement.workers, context, _begin_process)

    def submit(task: Callable[[], Any]) -> Future[Any]:
        with starting(), stopping.shielded():  # a process that is half started could not be joined
            return pool.submit(task)

    try:
        yield Crew(submit, lambda: 2 * arrangement.workers)
    except BrokenExecutor:
        raise EngineError(
            "a worker process died", "workers that live; was one killed, or out of memory?",
            "try a smaller --memory, or --engine serial",
        ) from None  # fmt: skip
    finally:
        with contextlib.suppress(RuntimeError):  # where no process could be started, nor can its threads be joined
            pool.shutdown(wait=True, cancel_futures=True)


@contextlib.contextmanager
def starting() -> Iterator[None]:
    """EngineError where the system gives no more threads or processes."""
    from concurrent.futures import BrokenExecutor

    try:
        yield
    except BrokenExecutor:
        raise
    except (RuntimeError, OSError) as e:
        found, wanted = f"cannot start a worker: {e}", "threads and processes, as ulimit -u allows them"
        raise EngineError(found, wanted, "add --engine serial") from None


def _begin_process() -> None:
    """Leave signals to the parent, and end when it does."""
    import multiprocessing
    import threading

    stopping.leave_to_parent()
    memory.keep_freed()
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: BaseProcess) -> None:
    """A parent that was killed can send no word; without this its workers would wait for tasks for ever."""
    parent.join()
    os._exit(1)


@contextlib.contextmanager
def _dask(arrangement: Arrangement) -> Iterator[Crew]:
    from revseq_cli import cluster  # dask takes a second to load

    found = cluster.Pass(arrangement.scheduler, arrangement.workers)
    yield Crew(found.submit, found.window)


_CREWS: dict[str, Callable[[Arrangement], contextlib.AbstractContextManager[Crew]]] = {
    "threads": _threads,
    "processes": _processes,
    "dask": _dask,
}
