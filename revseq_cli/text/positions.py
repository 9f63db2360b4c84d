"""Errors at a position of a text: its line and column, and the line with a caret below it."""

from __future__ import annotations

from revseq_cli.core.errors import FormatError, printable

_BEFORE = 40  # columns of a line that are shown before the position
_WIDTH = 75  # columns that are shown in all: with an indent, they fit into 80


class PlacedError(FormatError):
    """A FormatError about a position in a text; `problem` is the fact without that position."""

    def __init__(
        self,
        problem: str,
        line: int = 0,
        column: int = 0,
        expected: str = "",
        hint: str = "",
        context: str = "",
    ) -> None:
        found = f"line {line}, column {column}: {problem}"
        super().__init__(found, expected, hint, context=context)
        self.problem = problem
        self.line = line
        self.column = column

    @property
    def message(self) -> str:
        """What is wrong there, and what is expected."""
        return f"{self.problem}; expected {self.expected}" if self.expected else self.problem


def error_at(
    text: str, offset: int, problem: str, expected: str = "", hint: str = ""
) -> PlacedError:
    """An error about a position of a text."""
    text = lines_of(text)
    number = text.count("\n", 0, offset) + 1
    start = text.rfind("\n", 0, offset) + 1
    line, _, _ = text[start:].partition("\n")
    index = offset - start
    return PlacedError(problem, number, index + 1, expected, hint, _point_at(line, index))


def _point_at(line: str, index: int) -> str:
    """The part of a line around that character, and a caret below it."""
    line = line.replace("\t", " ")
    before = printable(line[max(0, index - _BEFORE) : index])[-_BEFORE:]
    after = printable(line[index : index + _WIDTH]).rstrip()
    room = _WIDTH - len(before)
    is_cut = len(after) > room or len(line) > index + _WIDTH
    more = "..." if is_cut else ""
    return f"{before}{after[:room]}{more}\n{' ' * len(before)}^"


def lines_of(text: str) -> str:
    """The text with line feeds as its only line breaks, at the same offsets."""
    if "\r" not in text:
        return text
    return text.replace("\r\n", " \n").replace("\r", "\n")
