"""The exception family: what went wrong, what was wanted, and what to type next."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
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


class RevseqError(Exception):
    """What stops the work and is the user's to mend.

    `found` states the fact, `wanted` says what would have been right and which rule says so, `hint` can be typed,
    `where` names the file (and dataset) that it is about, and `context` has the lines of a text with a caret.
    """

    def __init__(self, found: str, wanted: str = "", hint: str = "", where: str = "", context: str = "") -> None:
        super().__init__(found)
        self.found, self.wanted, self.hint, self.where, self.context = found, wanted, hint, where, context

    def __reduce__(self) -> tuple[object, ...]:
        """For workers; OSError's own way would drop what it takes for a file name."""
        return type(self), (self.found, self.wanted, self.hint, self.where, self.context)

    def about(self, where: str) -> Self:
        """The same error, with the file that it is about; a name given further in stays."""
        self.where = self.where or where
        return self

    def __str__(self) -> str:
        lines = [f"Error: {self.where}: {self.found}" if self.where else f"Error: {self.found}"]
        lines += [f"  {line}" for line in self.context.split("\n") if self.context]
        lines += [f"  wanted: {self.wanted}"] * bool(self.wanted)
        lines += [f"Hint: {self.hint}"] * bool(self.hint)
        return "\n".join(printable(line[:_LONGEST_LINE]) for line in lines)


class UsageError(RevseqError, ValueError):
    """Options or arguments that do not go together."""


class FormatError(RevseqError, ValueError):
    """A tensor that cannot be what its file says it is."""


class TensorIOError(RevseqError, OSError):
    """A file that cannot be opened, read or written."""


class EngineError(RevseqError):
    """Work that could not be carried out within its memory or by its workers."""


def worded(error: Exception, where: str) -> RevseqError:
    """An error of any kind in our form; `where` is what was being written, if the error does not say."""
    match error:
        case RevseqError():
            return error
        case MemoryError():
            return RevseqError("out of memory", hint="try a smaller --memory; text needs more than a binary format")
        case FileNotFoundError(filename=None):  # what asks for the current folder names no file
            return RevseqError("the current folder is not there any more", "a folder that exists", "cd to one")
        case ImportError() if "failed to map segment" in str(error):  # the loader's word for no memory
            return RevseqError("out of memory", "room for the libraries", "ulimit -v unlimited")
        case OSError():  # files have theirs worded where they are opened
            return RevseqError(f"cannot write: {error.strerror or error}", where=error.filename or where)
        case _:
            return RevseqError(
                f"internal error: {type(error).__name__}: {str(error)[:200]}", hint="report it, with -vv"
            )
