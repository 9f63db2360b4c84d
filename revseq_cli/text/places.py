"""Places in texts: lines and columns, counted from 1, and errors that have one."""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from revseq_cli.core.errors import FormatError, printable

_BEFORE, _WIDTH = 40, 75  # columns of a line that are shown before a place, and in all: it fits 80, indented
_LONE_RETURN = re.compile("\r(?!\n)")


class Place(NamedTuple):
    """A place in a text: its line and its column, in characters."""

    line: int
    column: int


class Lines:
    """The lines of a text, which may end as on any system; places that are asked for in order take the least time."""

    def __init__(self, text: str) -> None:
        self._text = _LONE_RETURN.sub("\n", text) if "\r" in text else text
        self._offset, self._line = 0, 1  # of the last place

    def line(self, offset: int) -> int:
        """The line of that character."""
        if offset < self._offset:
            self._offset, self._line = 0, 1
        self._line += self._text.count("\n", self._offset, offset)
        self._offset = offset
        return self._line

    def place(self, offset: int) -> Place:
        """The line and column of that character."""
        return Place(self.line(offset), offset - self._text.rfind("\n", 0, offset))

    def shown(self, offset: int) -> str:
        """The line around that character, printable, and a caret below it."""
        start, stop = self._text.rfind("\n", 0, offset) + 1, self._text.find("\n", offset)
        line = self._text[start : stop if stop >= 0 else len(self._text)]
        return shown_at(line.rstrip("\r"), offset - start)


class PlacedError(FormatError):
    """A FormatError about a place of a text: `offset` counts characters from 0, and `problem` is without the place."""

    def __init__(self, problem: str, wanted: str, offset: int, place: Place, context: str, where: str = "") -> None:
        super().__init__(f"line {place.line}, column {place.column}: {problem}", wanted, "", where, context)
        self.problem, self.offset, self.place = problem, offset, place

    def __reduce__(self) -> tuple[object, ...]:
        """How a worker sends it."""
        args = (self.problem, self.wanted, self.offset, self.place, self.context, self.where)
        return type(self), args, {"hint": self.hint}


def error_at(text: str, offset: int, found: str, wanted: str = "") -> PlacedError:
    """A FormatError about that place of the text: with line and column, the line itself, and a caret below it."""
    lines = Lines(text)
    return PlacedError(found, wanted, offset, lines.place(offset), lines.shown(offset))


def shown_at(line: str, column: int) -> str:
    """The line around that column, which counts from 0, and a caret below it; long ends are left out."""
    line = line.replace("\t", " ")
    before = printable(line[max(0, column - _BEFORE) : column])
    while _width(before) > _BEFORE:
        before = before[1:]
    rest = printable(line[column : column + _WIDTH])
    behind = rest
    while _width(behind) > _WIDTH - _width(before):
        behind = behind[:-1]
    more = "..." if len(behind) < len(rest) or len(line) > column + _WIDTH else ""
    return f"{before}{behind}{more}\n{' ' * _width(before)}^"


def _width(text: str) -> int:
    """The columns that a terminal needs for the text."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)
