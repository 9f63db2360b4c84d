"""An orderly stop on SIGINT, SIGTERM and SIGHUP; on Windows, on Ctrl-C, Ctrl-Break and a console that is closed.

Inside `deferred`, the process stops at the next `check`, and can undo its work; elsewhere it ends at once. After a
second signal it has half a second for that. No handler raises an exception: that could leave a lock held, h5py would
swallow it, and an import would report it.
"""

from __future__ import annotations

import contextlib
import signal
from typing import TYPE_CHECKING, NoReturn

from revseq_cli.core import system

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE = 0.1  # seconds between two calls of `check` in all code that waits
_received: list[int] = []
_hurried: list[None] = []  # one entry after a second signal
_watching: list[None] = []  # one entry after `watch`
_GRACE = 0.5  # seconds from a second signal to the end: to undo work
_CLEANUP = 0.25  # seconds after that for all functions of `at_once`: a folder may hold very many files
# Functions to call even after a second signal, the latest first. None may wait: they kill a process or remove a file.
at_once: dict[object, Callable[[], object]] = {}
# Connections and the like that outlive a pass; `close` closes them before the process ends.
ending = contextlib.ExitStack()
_told: list[Callable[[], bool]] = []  # after `obey`, whether the parent says to stop
_deferring: list[None] = []  # one entry for each `deferred` under way; a list, which threads change without a lock


class Stopped(BaseException):
    """A signal has asked the process to end. No Exception, so that no `except Exception` swallows it."""


def watch() -> None:
    """Install the handler for each signal."""
    _watching.append(None)
    system.watch(_handle)


def _handle(number: int) -> None:
    if not _deferring:
        system.end_by(number)
    _received.append(number)
    if len(_received) > 1:
        _hurry()


def _hurry() -> None:
    """End after _GRACE: the second signal may be one that went to both the process and its group."""
    if not _hurried:  # not len(_received) == 2: two signals may come before the first handler gets here
        _hurried.append(None)
        system.after(_GRACE, _end_at_once)


def _end_at_once() -> NoReturn:
    system.after(_CLEANUP, lambda: system.end_by(_received[0]))
    for each in reversed([*at_once.values()]):
        with contextlib.suppress(Exception):  # no time is left to report it
            each()
    system.end_by(_received[0])


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Only note signals inside, where there is work to undo: `check`, or the end of the block, raises Stopped."""
    if _watching:
        system.listen(_handle)
    _deferring.append(None)
    try:
        yield
    finally:
        _deferring.pop()
    check()


def is_deferred() -> bool:
    """Whether signals are only noted, so that code that waits must call `check`."""
    return bool(_deferring)


def leave_to_parent() -> None:
    """In a worker: ignore all signals but SIGTERM. A terminal sends them to the whole group, and the parent acts.

    SIGTERM ends the worker, since a broken pool ends its workers with it.
    """
    _forget_parent()
    for number in system.SIGNALS:
        signal.signal(number, signal.SIG_DFL if number == signal.SIGTERM else signal.SIG_IGN)
    system.unmask()


def close() -> None:
    """Close what is in `ending`; a signal that comes meanwhile raises Stopped at the end."""
    with deferred():
        ending.close()


def obey(is_to_stop: Callable[[], bool]) -> None:
    """In a worker with work to undo: `check` raises Stopped when the parent says so."""
    _told.append(is_to_stop)


def _forget_parent() -> None:
    """After a fork: what came to the parent, and what it has to undo, is not this process's."""
    for inherited in (_received, _hurried, at_once, _told):
        inherited.clear()


def check() -> None:
    """Raise Stopped if a signal came, or if the parent of `obey` says so."""
    if _received or (_told and _told[0]()):
        raise Stopped


def die() -> NoReturn:
    """End the process by the signal that came, or by SIGINT."""
    system.end_by(_received[0] if _received else signal.SIGINT)
