"""How far long work is, on standard error: a bar on a terminal, and elsewhere a line now and then."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING, Any

from revseq_cli.ground import stages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from revseq_cli.ground.stages import Advance

WAYS = ("auto", "plain", "none")  # a bar on a terminal and lines elsewhere; lines; nothing

_BAR_DELAY = 0.5  # seconds of work before the bar appears
_BAR_PAUSE = 0.1  # seconds between two drawings
_LINE_PAUSE = 30.0  # seconds before the first line, and between two lines
_UNITS = ("bytes", "KB", "MB", "GB", "TB", "PB")


def amount(done: int, total: int, unit: str) -> str:
    """How much of the total is done, both in one unit: "1.2 of 4.0 GB"; without a total "1.2 GB"."""
    largest, factor, shown = max(done, total), 1, unit
    if unit == "bytes":
        steps = min(max(0, len(str(largest + largest // 19_999)) - 1) // 3, len(_UNITS) - 1)  # 999.95 MB is 1.0 GB
        factor, shown = 1000**steps, _UNITS[steps]
    digits = 0 if factor == 1 else 1
    numbers = [f"{each / factor:,.{digits}f}" for each in ((done, total) if total else (done,))]
    return f"{' of '.join(numbers)} {shown}"


def clock(seconds: float) -> str:
    """Minutes and seconds, "1:51"; with hours "2:01:51"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def line(stage: str, done: int, total: int, unit: str, seconds: float, written: int = 0) -> str:
    """How far a stage is after so many seconds: "reverse 30 %, 1.2 of 4.0 GB, 512.0 MB/s, left 0:06".

    `written` are the bytes that were written, where the unit is another one.
    """
    parts = [stage, amount(done, total, unit)]
    if total:
        parts[0] += f" {100 * done // total} %"
    if written:
        parts.append(amount(written, 0, "bytes"))
    moved = done if unit == "bytes" else written
    if seconds > 0 and (moved or unit == "bytes"):
        parts.append(f"{amount(int(moved / seconds), 0, 'bytes')}/s")
    if total and done:
        parts.append(f"left {clock(seconds * max(0, total - done) / done)}")
    return ", ".join(parts)


class Stage:
    """How far one stage is: its name, how many of `total` bytes or jobs are done, their bytes, and since when."""

    def __init__(self, name: str, total: int, unit: str) -> None:
        self.name, self.total, self.unit, self.done, self.written = name, total, unit, 0, 0
        self.began = time.monotonic()

    @property
    def text(self) -> str:
        """The stage for people."""
        return line(self.name, self.done, self.total, self.unit, time.monotonic() - self.began, self.written)


class Progress:
    """Shows the stages that begin inside the context, the latest where one is inside another.

    `way` is one of WAYS; `bar` says whether standard error is a terminal.
    """

    def __init__(self, way: str, *, bar: bool) -> None:
        self._shown = way != "none"
        self._with_bar = bar and way == "auto"
        self._stages: list[Stage] = []
        self._bar: Any = None

    def __enter__(self) -> None:
        self._due = time.monotonic() + (_BAR_DELAY if self._with_bar else _LINE_PAUSE)
        self._watching = contextlib.ExitStack()
        if self._shown:
            self._watching.enter_context(stages.watched(self._stage))

    def __exit__(self, *_: object) -> None:
        self._watching.close()

    @contextlib.contextmanager
    def _stage(self, name: str, total: int, unit: str) -> Iterator[Advance]:
        stage = Stage(name, total, unit)
        self._stages.append(stage)

        def advance(count: int, written: int = 0, /) -> None:
            stage.done += count
            stage.written += written
            if time.monotonic() >= self._due:
                self._show(self._stages[-1])

        try:
            yield advance
        finally:
            self._stages.remove(stage)
            if self._bar and not self._stages:  # the bar goes before anything else is printed
                self._bar.stop()
                self._bar = None

    def _show(self, stage: Stage) -> None:
        if self._with_bar:
            self._draw(stage)
        else:
            sys.stderr.write(f"{stage.text}\n")
        self._due = time.monotonic() + (_BAR_PAUSE if self._with_bar else _LINE_PAUSE)

    def _draw(self, stage: Stage) -> None:
        if not self._bar:
            from rich import progress
            from rich.console import Console

            # Notes on standard error appear above the bar; rich would send standard output there, too. `advance` draws
            # the bar, not a thread of rich, which might not start, which the end would have to wait for, and beside
            # which no process can be forked.
            self._bar = progress.Progress(
                progress.BarColumn(20), progress.TextColumn("{task.description}", markup=False),
                console=Console(stderr=True), transient=True, redirect_stdout=False, auto_refresh=False,
            )  # fmt: skip
            self._task = self._bar.add_task("")
            self._bar.start()
        self._bar.update(
            self._task, description=stage.text, completed=stage.done, total=stage.total or None, refresh=True
        )
