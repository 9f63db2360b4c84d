"""Places in texts: lines and columns, counted from 1, and errors that have one."""

from __future__ import annotations

import bisect
import re
import unicodedata
from typing import NamedTuple

from revseq_cli.ground.errors import FormatError, printable

_BEFORE, _WIDTH = 40, 75  # columns of a line that are shown before a place, and in all: it fits 80, indented
_LINE_END = re.compile("\r\n?|\n")


class Place(NamedTuple):
    """A place in a text: its line and its column, in characters."""

    line: int
    column: int


class Lines:
    """The lines of a text, which may end as on any system."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts = [0, *(end.end() for end in _LINE_END.finditer(text))]

    def place(self, offset: int) -> Place:
        """The line and column of that character."""
        line = bisect.bisect_right(self._starts, offset)
        return Place(line, offset - self._starts[line - 1] + 1)

    def shown(self, place: Place) -> str:
        """The line around that place, printable, and a caret below it."""
        line, column = place
        start = self._starts[line - 1]
        stop = self._starts[line] if line < len(self._starts) else len(self._text)
        return shown_at(self._text[start:stop].rstrip("\r\n"), column - 1)


class PlacedError(FormatError):
    """A FormatError about a place of a text: `offset` counts characters from 0, and `problem` is without the place."""

    def __init__(self, problem: str, wanted: str, offset: int, place: Place, context: str, where: str = "") -> None:
        super().__init__(f"line {place.line}, column {place.column}: {problem}", wanted, "", where, context)
        self.problem, self.offset, self.place = problem, offset, place

    def __reduce__(self) -> tuple[object, ...]:
        """How a worker sends it."""
        return type(self), (self.problem, self.wanted, self.offset, self.place, self.context, self.where)

    def moved(self, lines: Lines, offset: int) -> PlacedError:
        """The same error, about that place of another text."""
        place = lines.place(offset)
        return PlacedError(self.problem, self.wanted, offset, place, lines.shown(place), self.where)


def error_at(text: str, offset: int, found: str, wanted: str = "") -> PlacedError:
    """A FormatError about that place of the text: with line and column, the line itself, and a caret below it."""
    start = text.rfind("\n", 0, offset) + 1
    stop = text.find("\n", offset)
    line, column = text[start : stop if stop >= 0 else len(text)].rstrip("\r"), offset - start
    place = Place(text.count("\n", 0, offset) + 1, column + 1)
    return PlacedError(found, wanted, offset, place, shown_at(line, column))


def shown_at(line: str, column: int) -> str:
    """The line around that column, which counts from 0, and a caret below it; long ends are left out."""
    line = line.replace("\t", " ").replace("\x1e", " ")
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
