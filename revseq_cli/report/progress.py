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
        stage = _Stage(self, name, total, unit)
        try:
            yield stage.advance
        finally:
            stage.remove_bar()

    def is_due(self) -> bool:
        """Whether it is time for a drawing."""
        now = time.monotonic()
        if now < self._next_drawing:
            return False
        self._next_drawing = now + _PAUSE
        return True

    def start_progress(self) -> Any:  # noqa: ANN401 - rich's Progress, which is not loaded yet
        """The bars, which are empty if there were none."""
        if self._progress is None:
            self._progress = _start_progress()
        return self._progress

    def remove_bar(self, bar: Any) -> None:  # noqa: ANN401 - rich's number of it
        """Remove a bar. With the last one, the display ends, so that other output can follow."""
        self._progress.remove_task(bar)
        if not self._progress.tasks:
            self._progress.stop()
            self._progress = None


class _Stage:
    """A stage; it has a bar after its first drawing."""

    def __init__(self, display: _Display, name: str, total: int, unit: str) -> None:
        self._display = display
        self._name = name
        self._total = total
        self._unit = unit
        self._done = 0
        self._bar: Any = None  # rich's number of it

    def advance(self, count: int) -> None:
        """Count this many more units as done."""
        self._done += count
        if not self._display.is_due():
            return
        progress = self._display.start_progress()
        if self._bar is None:
            self._bar = progress.add_task(self._name, total=self._total or None, unit=self._unit)
        progress.update(self._bar, completed=self._done, refresh=True)

    def remove_bar(self) -> None:
        if self._bar is not None:
            self._display.remove_bar(self._bar)


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
