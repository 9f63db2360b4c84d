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

watchers: list[Watcher] = []  # the last one shows the stages; a worker has none, since the parent shows what there is


@contextlib.contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Show the stages that begin inside by `watcher`."""
    watchers.append(watcher)
    try:
        yield
    finally:
        watchers.pop()


def begun(name: str, total: int, unit: str = "bytes") -> AbstractContextManager[Advance]:
    """A stage, which ends with the context: the function to call with how many more bytes, or other units, are done."""
    return watchers[-1](name, total, unit) if watchers else contextlib.nullcontext(lambda _: None)
