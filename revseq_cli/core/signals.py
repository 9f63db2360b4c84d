"""Long work: how the user stops it, and sees how far it is.

On Ctrl-C, SIGTERM and SIGHUP, on Windows on Ctrl-C and Ctrl-Break, it stops in an orderly way.

While there is nothing to undo, the system ends the process. Inside `deferred`, the first signal is noted, and `check`,
which all that takes long calls, raises Stopped; a second one ends the process at once. No handler raises an exception,
but where code waits for the reader of a pipe: it could leave a lock held, and h5py would swallow it.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, NoReturn

from revseq_cli.core import platform

Advance = Callable[[int], None]  # is called with how many more are done
# What shows a stage: it gets the name, the bytes or jobs in all (0 if nobody knows) and what they are.
Watcher = Callable[[str, int, str], AbstractContextManager[Advance]]

PATIENCE = 0.1  # seconds between two calls of `check` in all code that waits
_TWICE = 0.2  # seconds: a signal to a process and to its group, as `timeout` sends it, comes twice and is one
_received: list[tuple[int, float]] = []  # signals, and when they came
_is_command = _is_waiting = False
_depth = 0  # of contexts of `deferred`


class Stopped(BaseException):
    """A signal has asked the process to end. No Exception, so that no `except Exception` swallows it."""


def watch() -> None:
    """Let this process stop in an orderly way: it is the command, and not a program that uses the functions."""
    global _is_command
    _is_command = True


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Only note signals inside, where there is work to undo: `check`, or the end of the block, raises Stopped."""
    global _depth
    _depth += 1
    if _depth == 1:
        _handle(_note)
    try:
        yield
    finally:
        _depth -= 1
        if not _depth:
            _handle(signal.SIG_DFL)
    check()


def _handle(handler: Any) -> None:  # noqa: ANN401 - a function, or what `signal` has for one
    for number in platform.SIGNALS if _is_command else ():
        if signal.getsignal(number) is not signal.SIG_IGN:  # as SIGHUP under nohup
            signal.signal(number, handler)
            if handler is _note and number == signal.SIGINT:
                platform.handle_one(number)


def _note(number: int, _frame: object) -> None:
    _received.append((number, time.monotonic()))
    if _received[-1][1] - _received[0][1] > _TWICE:
        die()
    if _is_waiting:
        raise Stopped


@contextlib.contextmanager
def waiting() -> Iterator[None]:
    """Raise Stopped at once inside, where nothing but a call of the system is done, which may wait for another."""
    global _is_waiting
    _is_waiting = True
    try:
        yield
    finally:
        _is_waiting = False


def check() -> None:
    """Raise Stopped if a signal came."""
    if _received:
        raise Stopped


def die() -> NoReturn:
    """End the process by the signal that came, or by SIGINT."""
    platform.end_by(_received[0][0] if _received else signal.SIGINT)


def leave_to_parent() -> None:
    """In a worker: ignore what a terminal sends to the whole group, since the parent acts. SIGTERM ends the worker."""
    global _depth
    _depth = 0  # of the parent, whose fork this may be
    _received.clear()
    watchers.clear()
    for number in platform.SIGNALS:
        signal.signal(number, signal.SIG_DFL if number == signal.SIGTERM else signal.SIG_IGN)


# Passes tell how far their stages are, such as "reverse" and "verify". The last watcher shows it; a worker has none.
watchers: list[Watcher] = []


@contextlib.contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Show the stages that begin inside by `watcher`."""
    watchers.append(watcher)
    try:
        yield
    finally:
        watchers.pop()


def begun(name: str, total: int, unit: str = "bytes") -> AbstractContextManager[Advance]:
    """A stage, which ends with the context: the function to call with how many more units are done.

    A stage with a total of 0 is a wait, of which only the name is shown.
    """
    return watchers[-1](name, total, unit) if watchers else contextlib.nullcontext(lambda _: None)
