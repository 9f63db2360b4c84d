"""The terminal: colours that can be read on black and on white, lines that fit, and how far long work is."""

from __future__ import annotations

import contextlib
import re
import sys
import time
from typing import TYPE_CHECKING, Any

from revseq_cli.core import progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from revseq_cli.core.progress import Advance


# Each has a contrast of at least 4.5 on both. Of the 240 fixed colours of a terminal six have; the first 16 differ from
# terminal to terminal, and none of xterm's has.
GREEN, RED, BLUE, MAGENTA = 29, 131, 63, 163

GOOD, BAD = f"bold color({GREEN})", f"bold color({RED})"  # styles, as rich names them

_DOTS = "\u2026"
_WIDTH = 80  # columns where standard output is no terminal
_LEAST = 20  # columns for a text; a terminal that has less of them cuts its lines


def dots() -> str:
    """What stands on standard output for what is left out: one character, or three where its encoding lacks that."""
    try:
        _DOTS.encode(sys.stdout.encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return "..."
    return _DOTS


def counted(count: int, what: str) -> str:
    """A number of things, in words."""
    return f"{count:,} {what if count == 1 else what + 's'}"


def console(*, color: bool) -> Any:  # noqa: ANN401 - rich's Console, which is not loaded yet
    """A rich Console on standard output, 80 columns wide if that is no terminal."""
    from rich.console import Console  # rich is loaded where it is used

    return Console(
        width=None if sys.stdout.isatty() else _WIDTH,
        color_system="256" if color else None,
        no_color=not color,  # or rich would look at NO_COLOR itself
        force_terminal=color or None,
        legacy_windows=None if sys.stdout.isatty() else False,  # a file gets the same characters on every system
        highlight=False,
        emoji=False,
        markup=False,
    )


def hanging(head: str, text: str, width: int) -> list[str]:
    """The head and the text in lines of at most `width` columns; the text begins in the same column in each line.

    A line ends at a space or, in long sizes, behind a comma. A longer word stays whole, and so does what is copied: an
    option with its value, and a command, from `revseq` to the end of the text.
    """
    from rich.cells import cell_len  # some characters take two columns

    lines, room = [""], max(width - cell_len(head), _LEAST)
    for word in re.findall(r"\s*revseq .+|\s*--?[a-z][a-z-]*(?: \S+)?|\s*\S+", text):
        for piece in re.split(r"(?<=\d,)(?=\d)", word) if cell_len(word.strip()) > room else [word]:
            if lines[-1] and cell_len(lines[-1] + piece) > room:
                lines.append(piece.lstrip())
            else:
                lines[-1] += piece
    first, *others = lines
    return [head + first, *(" " * cell_len(head) + line for line in others)]


def beside(line: str, name: str, column: int, width: int) -> list[str]:
    """The line with the name at its end or, where that is too long, the name in a line of its own, and never cut."""
    from rich.cells import cell_len

    together = f"{line}  {name}"
    return [together] if cell_len(together) <= width else [line, " " * column + name]


def code(color: int) -> str:
    """The parameters of the terminal's code for it."""
    return f"1;38;5;{color}"


def painted(text: str, color: int) -> str:
    """The text in that colour, for a terminal."""
    return f"\x1b[{code(color)}m{text}\x1b[0m"


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
            self._watching.enter_context(progress.watched(self._stage))

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
