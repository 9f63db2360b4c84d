"""The serial engine: one block after another, in the caller's thread."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from revseq_cli.passes.arrangement import Arrangement


class SerialCrew:
    """Runs each task when its result is asked for."""

    def results(self, tasks: Iterable[Callable[[], Any]]) -> Iterator[Any]:
        """The result of each task, in the order of the tasks."""
        return (task() for task in tasks)


@contextlib.contextmanager
def crew(_: Arrangement) -> Iterator[SerialCrew]:
    """The caller's thread as the only worker."""
    yield SerialCrew()
