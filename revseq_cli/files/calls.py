"""Calls of servers: an event loop without threads, several tries, and signals.

All is done in the calling thread: workers can be forked, and a signal ends a wait.
"""

from __future__ import annotations

import asyncio
import functools
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from revseq_cli.core import signals, thresholds
from revseq_cli.files import base
from revseq_cli.files.faults import ServerError, fault_of, is_passing, is_silence

_Result = TypeVar("_Result")
_PAUSES = (0.3, 1.0)  # seconds before the second try and the third
_LONGEST_PAUSE = 60.0  # seconds that a server may ask us to wait
_LONGEST_FAREWELL = 10.0  # seconds for what undoes work, such as to abort an upload


_MOST_AT_ONCE = 8  # requests: more of them are no quicker


def requests_at_once() -> int:
    """How many requests of a piece each wait together."""
    return max(1, min(_MOST_AT_ONCE, base.memory() // thresholds.FAR_PIECE))


def choose_piece(size: int) -> int:
    """The bytes of each range of a file that is fetched whole, and of each part of one that is put.

    Pieces are a little longer where the last one would be small: it would take a round by itself.
    """
    count = max(1, -(-(size - thresholds.FAR_PIECE // 8) // thresholds.FAR_PIECE))
    return max(1, -(-size // count))


class Loop(asyncio.SelectorEventLoop):
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


class Session:
    """The loop and the file systems of one thread of one process.

    A fork can use none of its parent.
    """

    def __init__(self) -> None:
        self.loop = Loop()
        # Connections are left to the end of the process.
        self.loop.set_exception_handler(lambda *_: None)
        self.systems: dict[object, Any] = {}


def thread() -> tuple[int, int]:
    """What tells this thread from others, in whatever process."""
    return os.getpid(), threading.get_ident()


@functools.cache  # what is a parent's stays, since to close it would disturb the parent
def _session_of(_: tuple[int, int]) -> Session:
    return Session()


def session() -> Session:
    """The session of this thread."""
    return _session_of(thread())


def run(*works: Coroutine[Any, Any, _Result], most: int = 0, stops: bool = True) -> list[_Result]:
    """Run coroutines together, at most so many at once, to their ends; Stopped after a signal.

    After an error or a signal, all that were begun are cancelled, and have ended where this
    returns.
    """

    async def watch() -> list[_Result]:
        room = asyncio.Semaphore(most or len(works) or 1)

        async def wait_for_room(work: Coroutine[Any, Any, _Result]) -> _Result:
            async with room:
                return await work

        tasks = [asyncio.ensure_future(wait_for_room(work)) for work in works]
        all_tasks = asyncio.gather(*tasks)
        try:
            with signals.begin_stage("wait for the server", 0) as advance:
                while True:
                    done, _ = await asyncio.wait({all_tasks}, timeout=signals.PATIENCE)
                    if done:
                        return all_tasks.result()
                    if stops:
                        signals.check()
                    advance(0)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=_LONGEST_FAREWELL)
            raise
        finally:
            all_tasks.cancel()

    if not works:
        return []
    return session().loop.run_until_complete(watch())


async def retry(call: Callable[[], Coroutine[Any, Any, _Result]]) -> _Result:
    """The result of a call, which is tried three times where the server is busy.

    Twice where it is silent.
    """
    was_silent = False
    for pause in _PAUSES:
        try:
            return await call()
        except Exception as e:
            fault = fault_of(e)
            if was_silent or not is_passing(fault):
                raise
            was_silent = is_silence(fault)
            asked = fault.cause.pause if isinstance(fault.cause, ServerError) else None
        await asyncio.sleep(min(asked or pause, _LONGEST_PAUSE))
    return await call()
