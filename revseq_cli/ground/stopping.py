"""An orderly stop on SIGINT, SIGTERM and SIGHUP: at once where nothing is at stake, and else at the next safe point.

A second signal ends what takes longer than half a second.

No handler raises an exception: out of nowhere it would leave locks held, h5py would swallow it, and an import would
report it.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
PATIENCE = 0.1  # seconds after which whoever waits looks whether a signal came
_received: list[int] = []
_hurried: list[None] = []  # one, once a second signal came
_GRACE = 0.5  # seconds that a second signal leaves for what is being undone
# What is done even then, in the order in which it came: it waits for nobody, as to kill a process or to remove a file.
at_once: dict[object, Callable[[], object]] = {}
# What outlives a pass, such as a connection, and must be closed before the process ends, however it ends.
ending = contextlib.ExitStack()
_parents: list[int] = []  # the process that is to be obeyed
_deferring: list[None] = []  # one for each `deferred` under way; a list, since threads add and remove without a lock


class Stopped(BaseException):
    """A signal has asked the process to end; not an Exception, so that nothing swallows it on the way."""


def watch() -> None:
    """Act on the signals from now on; one that the parent has set to be ignored stays ignored."""
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _handle)


def _handle(number: int, _: FrameType | None) -> None:
    if not _deferring:
        _end_by(number)
    _received.append(number)
    if len(_received) > 1:
        _hurry()


def _hurry() -> None:
    """Somebody is impatient, or has sent a signal to the process and to its group: it ends, but not within a moment."""
    if not hasattr(signal, "setitimer"):
        _end_at_once()
    if not _hurried:  # not by the number of signals: two of them may come before the first of their handlers gets here
        _hurried.append(None)
        _after(_GRACE, _end_at_once)


def _after(seconds: float, function: Callable[[], object]) -> None:
    signal.signal(signal.SIGALRM, lambda *_: function())
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _end_at_once() -> NoReturn:
    if hasattr(signal, "setitimer"):  # a folder may hold very many files
        _after(_GRACE / 2, lambda: _end_by(_received[0]))
    for each in reversed([*at_once.values()]):
        with contextlib.suppress(Exception):  # there is no more time to say so
            each()
    _end_by(_received[0])


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Note a signal meanwhile, and raise Stopped for it at the end, or at a `check`: there is something to undo."""
    _deferring.append(None)
    try:
        yield
    finally:
        _deferring.pop()
    check()


def is_deferred() -> bool:
    """Whether a signal is only noted, so that whoever waits has to look at it."""
    return bool(_deferring)


@contextlib.contextmanager
def shielded() -> Iterator[None]:
    """The same, and processes that start meanwhile hear nothing before they can ignore it: they inherit the mask."""
    with deferred(), masked():
        yield


@contextlib.contextmanager
def masked() -> Iterator[None]:
    """What this thread starts meanwhile, processes and threads, hears no signals; what comes is heard at the end."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def leave_to_parent() -> None:
    """In a worker: a terminal's signals reach the whole group, and the parent is the one to act on them.

    SIGTERM still ends it, since a pool that is broken ends its workers so.
    """
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL if number == signal.SIGTERM else signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


def close() -> None:
    """Close what outlives a pass; a signal that comes meanwhile counts afterwards."""
    with deferred():
        ending.close()


def obey_parent() -> None:
    """In a process that has something to undo: stop in order on SIGTERM, which the parent sends, or when it is gone."""
    for inherited in (_received, _hurried, at_once, _parents):  # by a fork
        inherited.clear()
    _parents.append(os.getppid())
    signal.signal(signal.SIGTERM, _handle)


def check() -> None:
    """Raise Stopped if a signal came, or if nobody is left to obey."""
    if _received or (_parents and os.getppid() != _parents[0]):
        raise Stopped


def die() -> NoReturn:
    """End by the signal that came."""
    _end_by(_received[0] if _received else signal.SIGINT)


def _end_by(number: int) -> NoReturn:
    """End as the signal would have ended us, so that a shell's loop stops too."""
    signal.signal(number, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    os.kill(os.getpid(), number)
    os._exit(128 + number)
