"""The exception family: what went wrong, what would be right, and what to do next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Self

_LONGEST = 200  # characters of a name in a list
_LONGEST_LINE = 6000  # of a message; the longest path has 4,096


def printable(text: str) -> str:
    r"""Text with every control, surrogate or invisible character as a backslash escape.

    Names and words from files pass through here before they reach a terminal.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def listed(names: Iterable[str], most: int = 10) -> str:
    """The first `most` names, comma-separated and made printable, with a count of the rest."""
    names = list(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return (
        ", ".join(printable(name if len(name) <= _LONGEST else f"{name[:_LONGEST]}...") for name in names[:most]) + more
    )


def shown_line(line: str) -> str:
    """A line of a message as a terminal may show it: printable, and not longer than a screen or two."""
    return printable(line[:_LONGEST_LINE])


@dataclass(frozen=True)
class Words:
    """A text for a user that names settings, such as the axis, without saying how they are set.

    `text` has {} in the place of each setting, and `settings` has their names and values in that order; a value may
    be "". Only `report.words` knows what a setting is called on the command line.
    """

    text: str
    settings: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, text: str, **settings: object) -> Words:
        """The text with settings by name: `Words.of("try {}", axis=1)`."""
        return cls(text, tuple((name, str(value)) for name, value in settings.items()))


class RevseqError(Exception):
    """What stops the work, and what the user can change.

    `found` states the fact, `wanted` says what would be right and which rule says so, `hint` what to do next, `where`
    names the file (and dataset), and `context` has the lines of a text with a caret below.
    """

    def __init__(
        self, found: str, wanted: str = "", hint: str | Words = "", where: str = "", context: str = ""
    ) -> None:
        super().__init__(found)
        self.found, self.wanted, self.hint, self.where, self.context = found, wanted, hint, where, context

    def __reduce__(self) -> tuple[object, ...]:
        """How a worker sends it; OSError's own way would drop what it takes for a file name."""
        return type(self), (self.found, self.wanted, self.hint, self.where, self.context)

    def about(self, where: str) -> Self:
        """The same error with the name of its file, unless it has one already."""
        self.where = self.where or where
        return self

    def parts(self) -> Sequence[RevseqError]:
        """The errors of which this one consists; most consist of themselves alone."""
        return (self,)

    def __str__(self) -> str:
        """What is wrong, for a Python traceback: without hints, which are about the command line."""
        if [*self.parts()] != [self]:
            return "\n".join(map(str, self.parts()))
        text = f"{self.where}: {self.found}" if self.where else self.found
        lines = [f"{text}; wanted: {self.wanted}" if self.wanted else text]
        return "\n".join(map(shown_line, [*lines, *(self.context.split("\n") if self.context else [])]))


class UsageError(RevseqError, ValueError):
    """Options or arguments that do not go together."""


class FormatError(RevseqError, ValueError):
    """A tensor that cannot be what its file says it is."""


class TensorIOError(RevseqError, OSError):
    """A file that cannot be opened, read or written."""


class EngineError(RevseqError):
    """Work that could not be carried out within its memory or by its workers."""


def worded(error: Exception, where: str) -> RevseqError:
    """An error of any kind as a RevseqError; `where` is what was being written, if the error does not say."""
    match error:
        case RevseqError():
            return error
        case MemoryError():
            return RevseqError(
                "out of memory", hint=Words.of("try a smaller {}; text needs more than a binary format", memory="")
            )
        case FileNotFoundError(filename=None):  # what asks for the current folder names no file
            return RevseqError("the current folder is not there any more", "a folder that exists", "cd to one")
        case ImportError() if "failed to map segment" in str(error):  # the loader's word for no memory
            return RevseqError("out of memory", "room for the libraries", "ulimit -v unlimited")
        case OSError():  # files have theirs worded where they are opened
            return RevseqError(f"cannot write: {error.strerror or error}", where=error.filename or where)
        case _:
            return RevseqError(
                f"internal error: {type(error).__name__}: {str(error)[:200]}",
                hint=Words.of("report it, with {}", traceback=""),
            )
