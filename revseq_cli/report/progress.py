"""The progress bar on standard error."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Self


class Progress:
    """A bar that shows how many of all bytes or jobs are done; it appears after half a second of work."""

    _DELAY = 0.5  # seconds before the bar appears
    _PAUSE = 0.1  # seconds between two drawings

    def __init__(self, total: int, *, shown: bool, unit: str = "bytes") -> None:
        self._total, self._shown, self._unit, self._done = total, shown, unit, 0
        self._bar: Any = None
        self._drawn = 0.0

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        return self

    def advance(self, count: int) -> None:
        """Count so many more bytes or jobs as done, and redraw the bar if it is time."""
        self._done += count
        now = time.monotonic()
        if self._bar:
            due = now - self._drawn >= self._PAUSE
            self._bar.update(self._task, completed=self._done, refresh=due)
            self._drawn = now if due else self._drawn
        elif self._shown and now - self._began > self._DELAY:
            self._start()
            self._drawn = now

    def _start(self) -> None:
        from rich import progress
        from rich.console import Console

        counts: dict[str, tuple[progress.ProgressColumn, ...]] = {
            "bytes": (progress.DownloadColumn(binary_units=True), progress.TransferSpeedColumn()),
            "jobs": (progress.MofNCompleteColumn(), progress.TextColumn("jobs")),
        }
        columns = (progress.BarColumn(), *counts[self._unit], progress.TimeRemainingColumn())
        # Notes on standard error appear above the bar; rich would send standard output there, too. `advance` draws the
        # bar, not a thread of rich, which might not start, and which the end would have to wait for.
        self._bar = progress.Progress(
            *columns, console=Console(stderr=True), transient=True, redirect_stdout=False, auto_refresh=False
        )
        self._task = self._bar.add_task("", total=self._total, completed=self._done)
        self._bar.start()

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()
