"""Texts that have been read, their encodings, and the data types that the user asks for."""

from __future__ import annotations

import codecs
import contextlib
import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from revseq_cli.core.errors import FormatError, RevseqError
from revseq_cli.text import notation
from revseq_cli.text.places import Lines, PlacedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from revseq_cli.core.tensors import DataType
    from revseq_cli.formats.file_io import Identity


_HEAD = 4096  # bytes of a page that may state its charset; browsers look at 1024
# UTF-32's little-endian mark begins with that of UTF-16. PowerShell 5 and others write UTF-16, always with a mark.
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
# How HTML, XML and reStructuredText state a charset; each at the place where their own readers look for it.
_STATED = (
    re.compile(rb"<meta\s[^<>]{0,500}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE),
    re.compile(rb"\A\s*<\?xml\s[^<>]{0,200}?encoding\s*=\s*[\"']([\w.:-]{1,40})"),
    re.compile(rb"\A(?:[^\n]*\n)?\.\.[^\n]{0,200}?coding[:=]\s*([\w.-]{1,40})"),
)
# Codecs of Python that decode no texts of people: escapes, names of hosts, and what a mail is wrapped in.
_NO_TEXT = {"unicode-escape", "raw-unicode-escape", "idna", "punycode", "utf-7", "mbcs", "oem"}


class Encoding(NamedTuple):
    """An encoding by Python's name, and the mark before the text."""

    name: str = "utf-8"
    mark: bytes = b""

    @property
    def shown(self) -> str:
        """Its name for people, without the order of its bytes."""
        return self.name.upper().removesuffix("-LE").removesuffix("-BE")

    def decode(self, data: bytes) -> str:
        """The text, without its mark; UnicodeDecodeError for other bytes."""
        return data[len(self.mark) :].decode(self.name)

    def encode(self, text: str) -> bytes:
        """The bytes, with the mark; UnicodeEncodeError for characters that the encoding lacks."""
        return self.mark + text.encode(self.name)


def encoding_by_mark(head: bytes) -> Encoding:
    """The encoding of a text with these first bytes, as far as its mark tells it."""
    return next((Encoding(name, mark) for mark, name in _MARKS.items() if head.startswith(mark)), Encoding())


def encoding_of(data: bytes) -> Encoding:
    """The encoding of a text; FormatError for a charset that is stated, and unknown."""
    if (marked := encoding_by_mark(data)).mark:
        return marked
    head = data[:_HEAD]
    for wide in ("utf-16-le", "utf-16-be"):  # a page in UTF-16 without a mark: its first character tells the order
        if head.startswith("<".encode(wide)):
            head = head[: len(head) & ~1].decode(wide, "replace").encode("ascii", "replace")
            return Encoding(wide) if _stated(head).startswith("utf-16") else Encoding()
    name = _stated(head)
    # What could be read up to here is not UTF-16, whatever it says: browsers take it for UTF-8, too.
    return Encoding() if not name or name.startswith("utf-16") else Encoding(name)


def _stated(head: bytes) -> str:
    """The charset that the head of a page states, by Python's name; "" without one."""
    if b"<" not in head and b".." not in head:
        return ""
    match = next(filter(None, (pattern.search(head) for pattern in _STATED)), None)
    if not match:
        return ""
    stated = match[1].decode("ascii", "replace").lower()
    try:
        name = codecs.lookup(stated).name
        "".encode(name)  # refuses what decodes no text, such as rot13
    except (LookupError, UnicodeError):
        name = ""
    if not name or name in _NO_TEXT:
        raise FormatError(f"its head says that its charset is {stated}", "a known charset, such as utf-8")
    return name


class TextTypes(NamedTuple):
    """The data type that the user asked for, or None, and the `default` for a text that states none.

    A text that states another type than `asked` is refused, unless the caller casts it (`cast_later`). With
    `keep_digits`, a number that has more digits than the default type keeps is refused, too. Of a raw buffer `sizes`
    are the sizes, where -1 is as large as its bytes allow.
    """

    asked: DataType | None
    default: DataType
    cast_later: bool = False
    keep_digits: bool = False
    sizes: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Text:
    """A text; `name` is its source for messages, and `identity` its file's state, or None if it is not from a file.

    Its file has that `encoding`.
    """

    name: str
    text: str
    identity: Identity | None = None
    encoding: Encoding = Encoding()  # noqa: RUF009 - it is immutable

    @functools.cached_property
    def lines(self) -> Lines:
        """The lines of the file."""
        return Lines(self.text)

    def located(self, error: RevseqError) -> RevseqError:
        """The error with its place in the file, and the line as it stands there, if it is about a place of the text."""
        return error.moved(self.lines, error.offset) if isinstance(error, PlacedError) else error

    @contextlib.contextmanager
    def located_errors(self, name: str) -> Iterator[None]:
        """Give an error that is raised inside its place in the file; `name` is for messages."""
        try:
            yield
        except RevseqError as e:
            raise self.located(e).about(name) from None

    @functools.cached_property
    def items(self) -> tuple[notation.TensorText | notation.Attribute, ...]:
        """The tensors and attribute lines of the bracket notation, in order; FormatError for anything else."""
        with self.located_errors(self.name):
            return tuple(notation.parse(self.text))
