"""The serial engine: one block after another, in the thread that asks."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from revseq_cli.passes.arrangement import Arrangement


class InTurn:
    """The crew of one: each task is done when its result is asked for."""

    def results(self, tasks: Iterable[Callable[[], Any]]) -> Iterator[Any]:
        """What each task gives, in their order."""
        return (task() for task in tasks)


@contextlib.contextmanager
def crew(_: Arrangement) -> Iterator[InTurn]:
    """Nothing to start and nothing to end."""
    yield InTurn()
