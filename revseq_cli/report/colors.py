"""The colours of messages and results: each has a contrast of at least 4.5 on black and on white.

Of the 240 fixed colours of a terminal six have; the first 16 differ from terminal to terminal, and none of xterm's has.
"""

GREEN, RED, BLUE, MAGENTA = 29, 131, 63, 163


def style(color: int) -> str:
    """A bold style of that colour, as rich names it."""
    return f"bold color({color})"


def code(color: int) -> str:
    """The parameters of the terminal's code for it."""
    return f"1;38;5;{color}"


def painted(text: str, color: int) -> str:
    """The text in that colour, for a terminal."""
    return f"\x1b[{code(color)}m{text}\x1b[0m"
