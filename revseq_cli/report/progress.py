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
    due = time.monotonic() + _DELAY
    bars = None

    @contextlib.contextmanager
    def stage(name: str, total: int, unit: str) -> Iterator[Advance]:
        nonlocal bars
        done = 0
        task = None

        def advance(count: int) -> None:
            nonlocal due, bars, done, task
            done += count
            if time.monotonic() >= due:
                due = time.monotonic() + _PAUSE
                bars = bars or _make_bars()
                if task is None:
                    task = bars.add_task(name, total=total or None, unit=unit)
                bars.update(task, completed=done, refresh=True)

        try:
            yield advance
        finally:
            if bars and task is not None:  # the bar goes before anything else is printed
                bars.remove_task(task)
                if not bars.tasks:
                    bars.stop()
                    bars = None

    with signals.show_stages_by(stage):
        yield


def _make_bars() -> Any:  # noqa: ANN401 - rich's Progress, which is not loaded yet
    """Bars of work. rich gets no thread, since a process with threads cannot be forked safely."""
    from rich import progress as bars
    from rich.console import Console
    from rich.text import Text

    class Amount(bars.ProgressColumn):
        """How much of a stage is done, in its unit; nothing for one that is a wait."""

        def render(self, task: bars.Task) -> Text:
            if task.total is None:
                return Text("")
            unit = task.fields["unit"]
            if unit == "bytes":
                return bars.DownloadColumn().render(task)
            return Text(f"{int(task.completed):,}/{int(task.total):,} {unit}")

    console = Console(stderr=True)
    columns: list[Any] = [bars.TextColumn("{task.description}", markup=False)]
    if console.width >= _WIDE:
        columns.append(bars.BarColumn(20))
    columns.append(Amount())
    if console.width >= _WIDE:
        columns.append(bars.TimeRemainingColumn())
    shown = bars.Progress(
        *columns, console=console, transient=True, redirect_stdout=False, auto_refresh=False
    )
    shown.start()
    return shown
