"""How far the work is: a bar on standard error."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Self


class Progress:
    """A bar on standard error with what is done of all bytes or jobs; it appears only when the work lasts."""

    _PATIENCE = 0.5  # seconds

    def __init__(self, total: int, *, shown: bool, unit: str = "bytes") -> None:
        self._total, self._shown, self._unit, self._done = total, shown, unit, 0
        self._bar: Any = None

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        return self

    def advance(self, count: int) -> None:
        """So many more are done."""
        self._done += count
        if self._bar:
            self._bar.update(self._task, completed=self._done)
        elif self._shown and time.monotonic() - self._began > self._PATIENCE:
            self._start()

    def _start(self) -> None:
        from rich import progress
        from rich.console import Console

        counts: dict[str, tuple[progress.ProgressColumn, ...]] = {
            "bytes": (progress.DownloadColumn(binary_units=True), progress.TransferSpeedColumn()),
            "jobs": (progress.MofNCompleteColumn(), progress.TextColumn("jobs")),
        }
        columns = (progress.BarColumn(), *counts[self._unit], progress.TimeRemainingColumn())
        # Standard error comes out above the bar; standard output, of which rich would make the same, stays what it is.
        self._bar = progress.Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
        self._task = self._bar.add_task("", total=self._total, completed=self._done)
        self._bar.start()

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()
