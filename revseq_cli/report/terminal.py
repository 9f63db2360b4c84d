"""The terminal: colours that can be read on black and on white, errors, and how far long work is."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from revseq_cli.core import signals
from revseq_cli.core.errors import RevseqError, listed, shown_line
from revseq_cli.core.signals import Advance

# Each has a contrast of at least 4.5 on both. Of the 240 fixed colours of a terminal six have; the first 16 differ from
# terminal to terminal, and none of xterm's has.
GREEN, RED, BLUE = 29, 131, 63


def counted(count: int, what: str) -> str:
    """A number of things, in words."""
    return f"{count:,} {what if count == 1 else what + 's'}"


def painted(text: str, color: int) -> str:
    """The text in that colour, for a terminal."""
    return f"\x1b[1;38;5;{color}m{text}\x1b[0m"


_MOST_FILES = 3  # that an error of several jobs names
# The words that stand out at the starts of lines.
_COLORS = {"Error:": RED, "Hint:": BLUE}
_WORDS = re.compile(f"^(?:{'|'.join(_COLORS)})", re.MULTILINE)


def message(error: RevseqError, *, color: bool = False, place: str = "") -> str:
    """The lines that a command prints for an error: for each part what is wrong, what is wanted, and a hint.

    `place` has the lines of the job in its manifest.
    """
    lines = []
    for part in error.parts():
        lines.append(f"Error: {': '.join(filter(None, (place, part.where, part.found)))}")
        lines += [f"  {line}" for line in part.context.split("\n") if part.context]
        lines += [f"  wanted: {part.wanted}"] if part.wanted else []
        lines += f"Hint: {part.hint}".split("\n") if part.hint else []
    text = "\n".join(map(shown_line, lines))
    return _WORDS.sub(lambda word: painted(word[0], _COLORS[word[0]]), text) if color else text


def reason(error: RevseqError) -> Hashable:
    """What is equal for errors that differ only in the files where they are."""
    return tuple((each.found, each.wanted, each.context, each.hint) for each in error.parts())


def together(errors: Sequence[RevseqError]) -> list[RevseqError]:
    """The parts of errors with one reason, each part once, with the files of all."""
    made = []
    for alike in zip(*(error.parts() for error in errors), strict=True):
        first, files = alike[0], [*dict.fromkeys(each.where for each in alike)]
        where = listed(files, _MOST_FILES) if files[1:] else first.where
        made.append(RevseqError(first.found, first.wanted, first.hint, where, first.context))
    return made


_DELAY = 0.5  # seconds of work before a bar appears
_PAUSE = 0.1  # seconds between two drawings


@contextlib.contextmanager
def progress() -> Iterator[None]:
    """Show the stages that begin inside the context as bars on standard error, which must be a terminal."""
    due, bars = time.monotonic() + _DELAY, None

    @contextlib.contextmanager
    def stage(name: str, total: int, unit: str) -> Iterator[Advance]:
        nonlocal bars
        done, task = 0, None

        def advance(count: int) -> None:
            nonlocal due, bars, done, task
            done += count
            if time.monotonic() >= due:
                due = time.monotonic() + _PAUSE
                bars = bars or _bars(unit)
                task = bars.add_task(name, total=total or None) if task is None else task
                bars.update(task, completed=done, refresh=True)

        try:
            yield advance
        finally:
            if bars and task is not None:  # the bar goes before anything else is printed
                bars.remove_task(task)
                if not bars.tasks:
                    bars.stop()
                    bars = None

    with signals.watched(stage):
        yield


def _bars(unit: str) -> Any:  # noqa: ANN401 - rich's Progress, which is not loaded yet
    """Bars of work in that unit, without the thread of rich, beside which no process could be forked."""
    from rich import progress as bars
    from rich.console import Console

    text = bars.TextColumn("{task.description}", markup=False)
    amount = (
        [bars.DownloadColumn(), bars.TransferSpeedColumn()]
        if unit == "bytes"
        else [bars.MofNCompleteColumn()]
    )
    shown = bars.Progress(
        text, bars.BarColumn(20), *amount, bars.TimeRemainingColumn(),
        console=Console(stderr=True), transient=True, redirect_stdout=False, auto_refresh=False,
    )  # fmt: skip
    shown.start()
    return shown
