"""Long work: how the user stops it, and how its progress is shown.

Ctrl-C, SIGTERM and SIGHUP stop it in an orderly way; on Windows, Ctrl-C and Ctrl-Break.

While there is nothing to undo, the system ends the process. Inside `defer`, the first signal is
only noted: `check`, which all long work calls, then raises Stopped. A second signal ends the
process at once.

A handler raises nothing, because that could leave a lock held, and h5py would swallow it. Only code
that waits for the reader of a pipe is interrupted, inside `stop_at_once`.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, NoReturn

from revseq_cli.core import platform

Advance = Callable[[int], None]  # is called with how many more units are done
# Shows a stage: it gets the name, the number of units (0 if it is not known) and the unit.
Watcher = Callable[[str, int, str], AbstractContextManager[Advance]]

PATIENCE = 0.1  # seconds between two calls of `check` in all code that waits
# Seconds within which signals count as one: `timeout` sends one to a process and to its group.
_ONE_SIGNAL = 0.2
_received: list[tuple[int, float]] = []  # signals, and when they came
_is_command = False
_stops_at_once = False
_depth = 0  # of contexts of `defer`
# The last of these shows the progress of stages, such as "reverse" and "verify". A worker has none.
watchers: list[Watcher] = []


class Stopped(BaseException):
    """A signal has asked the process to end.

    It is not an Exception, so that no `except Exception` swallows it.
    """


def handle_signals() -> None:
    """Let signals stop this process in an orderly way.

    Only the command does so, not a program that imports the package.
    """
    global _is_command
    _is_command = True


@contextlib.contextmanager
def defer() -> Iterator[None]:
    """Inside, where there is work to undo, signals are only noted.

    `check`, or the end of the context, then raises Stopped.
    """
    global _depth
    _depth += 1
    if _depth == 1:
        _set_handler(_note)
        _end_by_second_interrupt()
    try:
        yield
    finally:
        _depth -= 1
        if not _depth:
            _set_handler(signal.SIG_DFL)
    check()


def _set_handler(handler: Any) -> None:  # noqa: ANN401 - a function, or a constant of `signal`
    if not _is_command:
        return
    for number in platform.SIGNALS:
        is_ignored = signal.getsignal(number) is signal.SIG_IGN  # as SIGHUP under nohup
        if not is_ignored:
            signal.signal(number, handler)


def _end_by_second_interrupt() -> None:
    """Let a second Ctrl-C end the process even while C code runs, which calls no handler."""
    if signal.getsignal(signal.SIGINT) is _note:
        platform.end_by_second(signal.SIGINT)


def _note(number: int, _frame: object) -> None:
    _received.append((number, time.monotonic()))
    _, first = _received[0]
    _, last = _received[-1]
    if last - first > _ONE_SIGNAL:
        die()
    if _stops_at_once:
        raise Stopped


@contextlib.contextmanager
def stop_at_once() -> Iterator[None]:
    """Raise Stopped in the handler itself.

    It is for code that only waits in a system call, for as long as another process likes.
    """
    global _stops_at_once
    _stops_at_once = True
    try:
        yield
    finally:
        _stops_at_once = False


def check() -> None:
    """Raise Stopped if a signal came."""
    if _received:
        raise Stopped


def die() -> NoReturn:
    """End the process by the signal that came, or by SIGINT."""
    number: int = signal.SIGINT
    if _received:
        number, _ = _received[0]
    platform.end_by(number)


def leave_to_parent() -> None:
    """In a worker: ignore the signals of a terminal, which go to the whole group.

    The parent acts on them, and ends its workers. SIGTERM ends a worker.
    """
    global _depth
    _depth = 0  # of the parent, whose fork this may be
    _received.clear()
    watchers.clear()
    for number in platform.SIGNALS:
        if number != signal.SIGTERM:
            signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextlib.contextmanager
def show_stages_by(watcher: Watcher) -> Iterator[None]:
    """Let a watcher show the stages that begin inside."""
    watchers.append(watcher)
    try:
        yield
    finally:
        watchers.pop()


def begin_stage(name: str, total: int, unit: str = "bytes") -> AbstractContextManager[Advance]:
    """A stage, which ends with the context.

    The context gives the function to call with how many more units are done. A stage with a total
    of 0 is a wait, of which only the name is shown.
    """
    if not watchers:
        return contextlib.nullcontext(lambda _: None)
    show = watchers[-1]
    return show(name, total, unit)
