"""The terminal: its colours, its width, and the text of errors."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TextIO

from revseq_cli.core.errors import RevseqError, join_names, shown_line

# Styles of a terminal. The colours are the user's own sixteen, which their theme makes readable.
# Colours only repeat what the words say.
BOLD = "1"
DIM = "2"
RED = "1;31"  # an error, and what is wrong
GREEN = "1;32"  # what is right
YELLOW = "1;33"  # a note
CYAN = "1;36"  # a hint
WRONG = "1;4;31"  # an element that differs: it is underlined, too

_LABELS = {"Error:": RED, "Hint:": CYAN, "Note:": YELLOW}
_LABEL = re.compile(f"^(?:{'|'.join(_LABELS)})", re.MULTILINE)
_STYLE = re.compile("\x1b\\[[0-9;]*m")
_EXPECTED = "  expected "
_MOST_FILES = 3  # that an error of several jobs names
_NAMES = 23  # columns of the names in a table of names and texts
_NARROW = 60  # columns of a terminal in which the text begins under its name


def say_count(count: int, noun: str) -> str:
    """A number of things, in words."""
    plural = "" if count == 1 else "s"
    return f"{count:,} {noun}{plural}"


def paint(text: str, style: str) -> str:
    """The text in that style, for a terminal."""
    return f"\x1b[{style}m{text}\x1b[0m"


def count_columns(text: str) -> int:
    """The columns that a text takes; its styles take none."""
    return len(_STYLE.sub("", text))


def paint_labels(text: str) -> str:
    """The text with Error:, Hint: and Note: in colour where they begin a line."""
    return _LABEL.sub(lambda label: paint(label[0], _LABELS[label[0]]), text)


def width_of(stream: TextIO) -> int | None:
    """The columns of a terminal; None for a stream that is not one: its lines may be long."""
    if not stream.isatty():
        return None
    import shutil  # small jobs print nothing

    return shutil.get_terminal_size().columns


def fit(text: str, width: int | None, indent: str = "  ") -> str:
    """The text with long lines wrapped; commands, and lines that are indented, stay as they are.

    A line that goes on is indented. Words are never broken: they may be commands. A command at the
    end of a long line gets a line of its own.
    """
    if width is None:
        return text
    lines = []
    for line in text.split("\n"):
        if len(line) <= width:
            lines.append(line)
        elif line.startswith(_EXPECTED):
            lines += _wrap_line(line, width, "    ")
        elif line.startswith((" ", "revseq ")):
            lines.append(line)
        else:
            lines += _wrap_line(line, width, indent)
    return "\n".join(lines)


def _wrap_line(line: str, width: int, indent: str) -> list[str]:
    import textwrap  # small jobs print nothing

    prose, colon, command = line.partition(": revseq ")
    if colon:
        prose += ":"
    lines = textwrap.wrap(
        prose,
        width,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    if command:
        lines.append(f"revseq {command}")
    return lines


def fit_rows(rows: Iterable[tuple[str, str]], width: int | None) -> Iterator[str]:
    """The lines of a table of names and texts, in which a text goes on under itself.

    On a narrow terminal, it begins in the line below its name.
    """
    for name, text in rows:
        if width is None:
            yield f"{name:<{_NAMES}}{text}"
        elif width < _NARROW:
            if name:
                yield name
            for line in fit(text, width - 2).split("\n"):
                yield f"  {line}"
        else:
            first, *others = fit(text, width - _NAMES).split("\n")
            yield f"{name:<{_NAMES}}{first}"
            for line in others:
                yield " " * _NAMES + line


def message(
    error: RevseqError, *, color: bool = False, origin: str = "", width: int | None = None
) -> str:
    """The lines that a command prints for an error.

    For each part, they say what is wrong, what is expected, and what to type. `origin` says which
    lines of a manifest the error is about.
    """
    lines = []
    for part in error.parts():
        lines.append(f"Error: {': '.join(filter(None, (origin, part.where, part.found)))}")
        if part.context:
            lines += [f"  {line}" for line in part.context.split("\n")]
        if part.expected:
            lines.append(f"{_EXPECTED}{part.expected}")
        if part.hint:
            lines += f"Hint: {part.hint}".split("\n")
    text = fit("\n".join(map(shown_line, lines)), width)
    return paint_labels(text) if color else text


def reason(error: RevseqError) -> Hashable:
    """A key that is equal for errors that differ only in their files."""
    return tuple((part.found, part.expected, part.context, part.hint) for part in error.parts())


def combine(errors: Sequence[RevseqError]) -> list[RevseqError]:
    """The parts of errors with one reason, each part once, with the files of all."""
    combined = []
    parts_of_errors = [error.parts() for error in errors]
    for alike in zip(*parts_of_errors, strict=True):  # the same part of each error
        first = alike[0]
        files = list(dict.fromkeys(part.where for part in alike))
        where = first.where
        if len(files) > 1:
            where = join_names(files, _MOST_FILES)
        combined.append(RevseqError(first.found, first.expected, first.hint, where, first.context))
    return combined
