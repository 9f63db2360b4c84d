"""Errors that say what is wrong, what is expected, and what to do next; and how texts are shown."""

from __future__ import annotations

import contextlib
import errno
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Self

_SHORTEST_NAME = 4  # letters of a name that is compared with others
_MOST_COMPARED = 5000  # names, to find the nearest one: 0.1 s
_LONGEST_NAME = 200  # characters of a name in a list
_LONGEST_LINE = 6000  # characters of a line in a message: a path may have 4,096
# Halves of surrogate pairs: no encoding has them, but texts in JSON may.
HALVES = re.compile("[\ud800-\udfff]")
# What the shell cannot pass: NUL and halves, except those by which Python writes bytes that are not
# UTF-8.
_NOT_IN_ARGUMENTS = re.compile("[\0\ud800-\udc7f\udd00-\udfff]")
# A web address, and its ? with all that follows, up to a blank, a quote, or the name of a tensor.
_QUERY = re.compile(r"(https?://[^\s?'\"]*)\?[^\s'\"]*?(?=::|[\s'\"]|$)", re.IGNORECASE)
# A user in an address. In one of Azure, a container precedes the @.
_USER = re.compile(r"(?<=://)(?<!\babfs://)(?<!\babfss://)(?<!\baz://)[^\s/'\"]*@", re.IGNORECASE)


def printable(text: str) -> str:
    r"""The text with a backslash escape for each control, surrogate or invisible character.

    Every name and text from a file goes through this function before it is printed on a terminal.
    """
    text = without_secrets(text)
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


_secrets: set[str] = set()


def hide(secret: str) -> None:
    """Keep a text, such as a password, out of every message of this process from now on."""
    _secrets.add(secret)


def without_secrets(text: str) -> str:
    """The text without the secrets that `hide` got, and without users and queries of addresses."""
    for secret in sorted(_secrets, key=len, reverse=True):
        text = text.replace(secret, "")
    if "://" not in text:
        return text
    return _QUERY.sub(r"\1", _USER.sub("", text))


def can_be_typed(text: str) -> bool:
    """Whether the shell could pass the text as an argument of a command."""
    return not _NOT_IN_ARGUMENTS.search(text)


def nearest(word: str, words: Iterable[str], least: float = 0.6) -> str:
    """The one of the first 5,000 words that was most likely meant.

    "" if none is near, or if two are equally near. Two words are near if difflib's ratio of them is
    at least `least`, and if they have the same digits: v2 is not v1 mistyped.
    """
    import difflib  # only errors need it

    typed = _fold(word)
    folded = {_fold(known): known for known in itertools.islice(words, _MOST_COMPARED)}
    near = [
        name
        for name in difflib.get_close_matches(typed, folded, 2, least)
        if re.findall(r"\d", name) == re.findall(r"\d", typed)
    ]
    if not near:
        return ""
    best, *others = [difflib.SequenceMatcher(None, name, typed).ratio() for name in near]
    is_tie = best in others
    return "" if is_tie else folded[near[0]]


def _fold(word: str) -> str:
    return word.strip("/").lower()


def nearest_name(name: str, names: Iterable[str], least: float = 0.6) -> str:
    """The name of a file or a tensor that was most likely meant; "" if none is near.

    Short names are near each other by chance: m.npy is not x.npy mistyped.
    """
    stem = name.rpartition("/")[2].partition(".")[0]
    if len(stem) < _SHORTEST_NAME:
        return ""
    return nearest(name, names, least)


def join_names(names: Iterable[str], most: int = 10) -> str:
    """The first `most` names as printable text, separated by commas, and the count of the rest.

    An empty name is printed as ''.
    """
    names = list(names)
    shown = [printable(shorten(name, _LONGEST_NAME)) or "''" for name in names[:most]]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(shown) + more


def shorten(text: str, most: int) -> str:
    """The text, or its first `most` characters and three dots if it has more."""
    return text if len(text) <= most else f"{text[:most]}..."


def shown_line(line: str) -> str:
    """A line of a message for a terminal: printable, and cut if it is very long."""
    return printable(line[:_LONGEST_LINE])


class RevseqError(Exception):
    """Why the work stops, and what the user can do.

    `found` states the fact, `expected` says what would be right and by which rule, `hint` what to
    do next. `where` names the file (and dataset). `context` has lines of a text file, with a caret
    below the place of the error.
    """

    def __init__(
        self, found: str, expected: str = "", hint: str = "", where: str = "", context: str = ""
    ) -> None:
        super().__init__(found)
        self.found = found
        self.expected = expected
        self.hint = hint
        self.where = where
        self.context = context

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle all parts: OSError's own method would drop those that it takes for a file name."""
        return type(self), (self.found,), vars(self)

    def about(self, where: str) -> Self:
        """Set `where` to the file if it names none yet, and return the error."""
        self.where = self.where or where
        return self

    def set_hint(self, hint: str) -> Self:
        """Say what to do next, instead of what the hint says so far, and return the error."""
        self.hint = hint
        return self

    def set_default_hint(self, hint: str) -> Self:
        """Say what to do next if the error has no hint yet, and return the error."""
        self.hint = self.hint or hint
        return self

    def set_default_context(self, context: str) -> Self:
        """Set the lines after the message if it has none yet, and return the error."""
        self.context = self.context or context
        return self

    def show_hint(self) -> Self:
        """Make the message say the hint, too, for a traceback, and return the error.

        A hint of one line is added to what is expected, and any other one follows the message.
        """
        if not self.hint:
            return self
        if self.expected and "\n" not in self.hint:
            self.expected = f"{self.expected}; {self.hint}"
        else:
            self.context = self.hint
        return self

    def parts(self) -> Sequence[RevseqError]:
        """The errors that this one combines; a single error gives itself."""
        return (self,)

    def __str__(self) -> str:
        """The message for a Python traceback: without the hint, which is for the command line."""
        text = self.found
        if self.where:
            text = f"{self.where}: {text}"
        if self.expected:
            text = f"{text}; expected {self.expected}"
        lines = [text]
        if self.context:
            lines += self.context.split("\n")
        return "\n".join(map(shown_line, lines))


@contextlib.contextmanager
def about(where: str) -> Iterator[None]:
    """Set `where` of an error that is raised inside, if it names no file yet."""
    try:
        yield
    except RevseqError as e:
        raise e.about(where) from None


class UsageError(RevseqError, ValueError):
    """Options or arguments that are wrong, or do not go together."""


class FormatError(RevseqError, ValueError):
    """Content of a file that is wrong, or that its format or data type cannot hold."""


class DataTypeError(FormatError):
    """Elements of a data type that no tensor has, which `kind` names."""

    def __init__(self, kind: str, expected: str = "", hint: str = "", where: str = "") -> None:
        super().__init__(f"its data type is {kind}", expected, hint, where)
        self.kind = kind


class NoTensorError(FormatError):
    """A part of a file that is undamaged, but no tensor.

    Its numbers stand for something else, for example, or its values are in another file.
    """


class TensorIOError(RevseqError, OSError):
    """A file that cannot be opened, read or written."""


class MissingFileError(TensorIOError):
    """A file that is not there."""


class OutputExistsError(TensorIOError):
    """A new file whose name is taken."""


EXISTS_ALREADY = "exists already"


def make_exists_error(name: str) -> OutputExistsError:
    """The error for an output whose name is taken, and which --overwrite would replace."""
    return OutputExistsError(EXISTS_ALREADY, hint="to replace it, add --overwrite", where=name)


class DiskFullError(TensorIOError):
    """A file for which there is no room."""


class EngineError(RevseqError):
    """Work that does not fit into its memory, or that its workers could not do."""


# What Python raises when memory runs out. It is a SystemError if a C function of a library has lost
# the MemoryError, and fails without setting an error.
MEMORY_ENDED = (MemoryError, SystemError)


def put_into_words(error: Exception, where: str) -> RevseqError:
    """Any exception as a RevseqError.

    `where` names the output, for an OSError that names no file.
    """
    match error:
        case RevseqError():
            return error
        case MemoryError() | SystemError() | OSError(errno=errno.ENOMEM):
            return RevseqError(
                "out of memory",
                hint="use a smaller --memory; text needs more memory than a binary format",
            )
        case FileNotFoundError(filename=None):  # from os.getcwd(): other calls name a file
            return RevseqError("the current folder no longer exists", hint="change to another one")
        case OSError(filename=None):  # of standard output; files raise TensorIOError
            return RevseqError(f"cannot write: {error.strerror or error}", where=where)
        case OSError():
            reason = error.strerror or error
            return RevseqError(f"cannot be accessed: {reason}", where=str(error.filename))
    return RevseqError(
        f"internal error: {type(error).__name__}: {str(error)[:200]}",
        hint="report it, with what it prints with -vv",
    )
