"""The stages of long work, such as "reverse" and "verify": passes tell how far they are, and a command may show it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from typing import Protocol

    class Advance(Protocol):
        """Tells how many more are done and, where they are not bytes, how many bytes were written for these."""

        def __call__(self, count: int, written: int = 0, /) -> None:
            """Add them to what is done."""

    # What shows a stage: it gets the name, the bytes or jobs in all (0 if nobody knows) and what they are, and gives
    # the function to call with how many more are done.
    Watcher = Callable[[str, int, str], AbstractContextManager[Advance]]

_watchers: list[Watcher] = []


@contextlib.contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Show the stages that begin inside by `watcher`."""
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.pop()


def unwatch() -> None:
    """Show nothing any more: in a worker that is a fork, the parent shows what there is."""
    _watchers.clear()


@contextlib.contextmanager
def nothing(_name: str, _total: int, _unit: str) -> Iterator[Advance]:
    """Show nothing of a stage."""
    yield lambda _count, _written=0: None


@contextlib.contextmanager
def begun(name: str, total: int, unit: str = "bytes") -> Iterator[Advance]:
    """A stage, which ends with the context: the function to call with how many more bytes, or other units, are done."""
    with (_watchers[-1] if _watchers else nothing)(name, total, unit) as advance:
        yield advance
