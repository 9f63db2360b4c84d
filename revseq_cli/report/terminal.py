"""The terminal: colours that can be read on black and on white, and lines that fit."""

from __future__ import annotations

import re
from typing import Any

# Each has a contrast of at least 4.5 on both. Of the 240 fixed colours of a terminal six have; the first 16 differ from
# terminal to terminal, and none of xterm's has.
GREEN, RED, BLUE, MAGENTA = 29, 131, 63, 163

GOOD, BAD = f"bold color({GREEN})", f"bold color({RED})"  # styles, as rich names them

_WIDTH = 80  # columns where standard output is no terminal
_LEAST = 20  # columns for a text; a terminal that has less of them cuts its lines


def counted(count: int, what: str) -> str:
    """A number of things, in words."""
    return f"{count:,} {what if count == 1 else what + 's'}"


def console(*, color: bool) -> Any:  # noqa: ANN401 - rich's Console, which is not loaded yet
    """A rich Console on standard output, 80 columns wide if that is no terminal."""
    import sys

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
