"""The stages of long work, such as "reverse" and "verify": passes tell how far they are, and a command may show it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    Advance = Callable[[int], None]  # is called with how many more are done
    # What shows a stage: it gets the name, the bytes or jobs in all (0 if nobody knows) and what they are.
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
def begun(name: str, total: int, unit: str = "bytes") -> Iterator[Advance]:
    """A stage, which ends with the context: the function to call with how many more bytes, or other units, are done."""
    if not _watchers:
        yield lambda _: None
        return
    with _watchers[-1](name, total, unit) as advance:
        yield advance
