"""Errors as messages on a terminal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from revseq_cli.core.errors import RevseqError, listed, shown_line
from revseq_cli.report import terminal

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

_MOST_FILES, _MOST_RUNS = 3, 8  # files, and runs of lines, that an error of several jobs names
# The words that stand out at the starts of lines.
_COLORS = {"Error:": terminal.RED, "Hint:": terminal.BLUE}
_WORDS = re.compile(f"^(?:{'|'.join(_COLORS)})", re.MULTILINE)


def message(error: RevseqError, *, color: bool = False, width: int = 0, place: str = "") -> str:
    """The lines that a command prints for an error: for each part what is wrong, what is wanted, and a hint.

    `place` has the lines of the job in its manifest. Lines are broken at words to fit a terminal of that `width`, if it
    is not 0; hints are not, since they are copied, and neither are lines of a file.
    """
    text = "\n".join(_message(part, width, place) for part in error.parts())
    return painted(text) if color else text


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


def numbered(noun: str, numbers: Iterable[int]) -> str:
    """What messages call things with these numbers: "line 3", or "lines 2, 3 and 5 to 7"."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    texts = [text for run in runs[:_MOST_RUNS] for text in ([f"{run[0]} to {run[-1]}"] if run[2:] else map(str, run))]
    if more := sum(map(len, runs[_MOST_RUNS:])):
        texts.append(f"{more:,} more")
    *others, last = texts
    return f"{noun}{'s' * (sum(map(len, runs)) > 1)} {', '.join(others)}{' and ' * bool(others)}{last}"


def painted(text: str) -> str:
    """A message with colours for a terminal."""
    return _WORDS.sub(lambda word: terminal.painted(word[0], _COLORS[word[0]]), text)


def _message(error: RevseqError, width: int, place: str) -> str:
    lines = _broken("Error: ", ": ".join(filter(None, (place, error.where, error.found))), width)
    lines += [shown_line(f"  {line}") for line in error.context.split("\n") if error.context]
    lines += _broken("  wanted: ", error.wanted, width) if error.wanted else []
    if error.hint:
        first, *more = error.hint.split("\n")
        lines += [shown_line(f"Hint: {first}"), *map(shown_line, more)]
    return "\n".join(lines)


def _broken(head: str, text: str, width: int) -> list[str]:
    """The lines of a head and a text; one line where the width is 0."""
    line = shown_line(f"{head}{text}")
    return terminal.hanging(head, line.removeprefix(head), width) if width else [line]
