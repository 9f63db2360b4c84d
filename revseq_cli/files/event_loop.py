"""An event loop without threads, which runs coroutines until they end or a signal comes.

All is done in the calling thread: workers can be forked, and a signal ends a wait.
"""

from __future__ import annotations

import asyncio
import functools
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from revseq_cli.core import signals

_Result = TypeVar("_Result")
# Seconds that cancelled work may take for what it undoes, such as to abort an upload.
_LONGEST_FAREWELL = 10.0


def thread_key() -> tuple[int, int]:
    """A key of this thread, which no thread of another process has, either."""
    return os.getpid(), threading.get_ident()


def once_per_thread(make: Callable[[], _Result]) -> Callable[[], _Result]:
    """A function that returns what `make` has made for this thread.

    A fork makes its own, and leaves its parent's as it is: it can use nothing that belongs to a
    loop of its parent.
    """

    @functools.cache
    def make_for(_key: tuple[int, int]) -> _Result:
        return make()

    return functools.wraps(make)(lambda: make_for(thread_key()))


class _Loop(asyncio.SelectorEventLoop):
    """An event loop without threads: work for another thread is done at once, in this one."""

    def run_in_executor(
        self, _: object, function: Callable[..., Any], *arguments: object
    ) -> asyncio.Future[Any]:
        """Call the function; the future has its result already."""
        future = self.create_future()
        try:
            future.set_result(function(*arguments))
        except Exception as e:  # noqa: BLE001 - it is raised where the result is asked for
            future.set_exception(e)
        return future


@once_per_thread
def _loop_of_thread() -> _Loop:
    loop = _Loop()
    loop.set_exception_handler(lambda *_: None)  # connections stay open until the process ends
    return loop


def run_together(
    *works: Coroutine[Any, Any, _Result], most: int = 0, stops: bool = True
) -> list[_Result]:
    """The results of coroutines, of which at most this many run at once.

    After an error, the others are cancelled, and have ended before it is raised. A signal does the
    same, and raises Stopped, unless `stops` is false.
    """
    if not works:
        return []
    return _loop_of_thread().run_until_complete(_watch(works, most or len(works), stops=stops))


async def _watch(
    works: tuple[Coroutine[Any, Any, _Result], ...], most: int, *, stops: bool
) -> list[_Result]:
    room = asyncio.Semaphore(most)

    async def wait_for_room(work: Coroutine[Any, Any, _Result]) -> _Result:
        async with room:
            return await work

    tasks = [asyncio.ensure_future(wait_for_room(work)) for work in works]
    results = asyncio.gather(*tasks)
    try:
        with signals.begin_stage("wait for the server", 0) as advance:
            while True:
                done, _ = await asyncio.wait({results}, timeout=signals.PATIENCE)
                if done:
                    return results.result()
                if stops:
                    signals.check()
                advance(0)
    except BaseException:  # an error of one, or a signal: no other may go on after that
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=_LONGEST_FAREWELL)
        raise
    finally:
        results.cancel()
