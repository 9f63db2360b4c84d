"""An orderly stop on SIGINT, SIGTERM and SIGHUP: a flag and an exception first, and in the end the signal itself."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from types import FrameType

_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
_received: list[int] = []


class Stopped(BaseException):
    """A signal asks the process to end; not an Exception, so that nothing swallows it on the way."""


def watch() -> None:
    """Turn the first of the signals into Stopped; one that the parent has set to be ignored stays ignored."""
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _handle)


def _handle(number: int, _: FrameType | None) -> None:
    if not _received:  # a second signal must not break the clean-up after the first
        _received.append(number)
        raise Stopped


def check() -> None:
    """Raise Stopped if a signal came; where a library swallowed the exception, this does not."""
    if _received:
        raise Stopped


def die() -> NoReturn:
    """End as the signal would have ended us, so that a shell's loop stops too."""
    number = _received[0] if _received else signal.SIGINT
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)
