"""Jupyter's notebooks as texts: their Markdown cells, and where each character of them stands in the file."""

from __future__ import annotations

import array
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from revseq_cli.ground.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator

SUFFIX = ".ipynb"
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]')
_UNIT = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\\]", re.DOTALL)
_Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Excerpt:
    """Parts of the text `whole` as one `text`; character i of it is written as whole[starts[i]:stops[i]]."""

    whole: str
    text: str
    starts: array.array[int]
    stops: array.array[int]

    def offset(self, place: int) -> int:
        """Where that character of the text stands in the whole."""
        return self.starts[place] if place < len(self.starts) else len(self.whole)

    def span(self, start: int, stop: int) -> tuple[int, int]:
        """Where text[start:stop] stands in the whole; FormatError where it is not in one piece."""
        if list(self.stops[start : stop - 1]) != list(self.starts[start + 1 : stop]):
            raise FormatError("a number is written in two strings of the notebook", "one string")
        return self.starts[start], self.stops[stop - 1]


class _String(NamedTuple):
    """A string of a JSON text: the keys and indices that lead to it, and where it stands, with its quotes."""

    path: _Path
    start: int
    stop: int


def markdown(whole: str) -> Excerpt:
    """The Markdown cells of a notebook, with an empty line behind each; FormatError for anything else."""
    try:
        notebook = json.loads(whole)
    except (ValueError, RecursionError) as e:
        raise FormatError(f"is no notebook: {e}", "JSON, as Jupyter writes it") from None
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list):
        raise FormatError("is no notebook: it has no list of cells", "a notebook of version 4")
    wanted = {i for i, cell in enumerate(cells) if isinstance(cell, dict) and cell.get("cell_type") == "markdown"}
    pieces, starts, stops, last = [], array.array("q"), array.array("q"), None
    for string in _strings(whole):
        match string.path:
            case ("cells", int(cell), "source", *rest) if cell in wanted and len(rest) < 2:
                if last not in (None, cell):
                    pieces.append("\n\n")
                    starts.extend([string.start] * 2)
                    stops.extend([string.start] * 2)
                last = cell
                for unit in _UNIT.finditer(whole, string.start + 1, string.stop - 1):
                    pieces.append(unit[0] if len(unit[0]) == 1 else json.loads(f'"{unit[0]}"'))
                    starts.append(unit.start())
                    stops.append(unit.end())
    return Excerpt(whole, "".join(pieces), starts, stops)


def _strings(text: str) -> Iterator[_String]:
    """Every string of a JSON text that is a value, and no key."""
    path: list[str | int] = []
    key = ""
    for token in _TOKEN.finditer(text):
        match token[0]:
            case "{":
                path.append("")
            case "[":
                path.append(0)
            case "}" | "]":
                path.pop()
            case ",":
                path[-1] = path[-1] + 1 if isinstance(path[-1], int) else ""
            case ":":
                path[-1] = key
            case string if path and path[-1] == "":
                key = json.loads(string)
            case _:
                yield _String(tuple(path), *token.span())
