"""Progress bars for long work, on a terminal."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from revseq_cli.core import signals
from revseq_cli.core.signals import Advance

_DELAY = 0.5  # seconds of work before a bar appears
_PAUSE = 0.1  # seconds between two drawings
_WIDE = 60  # columns of a terminal with room for a bar, a speed and a time


@contextlib.contextmanager
def show_progress() -> Iterator[None]:
    """Show the stages that begin inside as bars on standard error, which must be a terminal."""
    with signals.show_stages_by(_Display().show_stage):
        yield


class _Display:
    """The bars of the stages that run now. rich is loaded when the first bar appears."""

    def __init__(self) -> None:
        self._next_drawing = time.monotonic() + _DELAY
        self._progress: Any = None  # rich's Progress while there are bars

    @contextlib.contextmanager
    def show_stage(self, name: str, total: int, unit: str) -> Iterator[Advance]:
        """Show a stage, as signals.Watcher says: a total of 0 is a wait."""
        bar = None
        done = 0

        def advance(count: int) -> None:
            nonlocal bar, done
            done += count
            if time.monotonic() < self._next_drawing:
                return
            self._next_drawing = time.monotonic() + _PAUSE
            if bar is None:
                bar = self._add_bar(name, total, unit)
            self._progress.update(bar, completed=done, refresh=True)

        try:
            yield advance
        finally:
            if bar is not None:
                self._remove_bar(bar)

    def _add_bar(self, name: str, total: int, unit: str) -> Any:  # noqa: ANN401 - rich's number
        if self._progress is None:
            self._progress = _start_progress()
        return self._progress.add_task(name, total=total or None, unit=unit)

    def _remove_bar(self, bar: Any) -> None:  # noqa: ANN401 - rich's number of it
        """Remove a bar; the last one goes before anything else is printed."""
        self._progress.remove_task(bar)
        if not self._progress.tasks:
            self._progress.stop()
            self._progress = None


def _start_progress() -> Any:  # noqa: ANN401 - rich's Progress, which is not loaded yet
    """Start rich's Progress, without a thread: a process with threads cannot be forked safely."""
    from rich import progress
    from rich.console import Console
    from rich.text import Text

    class Amount(progress.ProgressColumn):
        """How much of a stage is done, in its unit; nothing for one that is a wait."""

        def render(self, task: progress.Task) -> Text:
            if task.total is None:
                return Text("")
            unit = task.fields["unit"]
            if unit == "bytes":
                return progress.DownloadColumn().render(task)
            return Text(f"{int(task.completed):,}/{int(task.total):,} {unit}")

    console = Console(stderr=True)
    columns: list[Any] = [progress.TextColumn("{task.description}", markup=False), Amount()]
    if console.width >= _WIDE:
        columns.insert(1, progress.BarColumn(20))
        columns.append(progress.TimeRemainingColumn())
    display = progress.Progress(
        *columns, console=console, transient=True, redirect_stdout=False, auto_refresh=False
    )
    display.start()
    return display
