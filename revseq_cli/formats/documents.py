"""Texts that have been read, their encodings, and the data types that the user asks for."""

from __future__ import annotations

import codecs
import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from revseq_cli.core.errors import about

if TYPE_CHECKING:
    from revseq_cli.core.tensors import DataType
    from revseq_cli.formats.file_io import Identity
    from revseq_cli.text import notation
    from revseq_cli.text.examples import Example
    from revseq_cli.text.places import Lines


# PowerShell 5 and others write UTF-16, always with a mark.
_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


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


class TextTypes(NamedTuple):
    """The data type that the user asked for, or None, and the `default` for a text that states none.

    A text that states another type than `asked` is refused, unless the caller casts it (`cast_later`). Of a raw buffer
    `sizes` are the sizes, where -1 is as large as its bytes allow.
    """

    asked: DataType | None
    default: DataType
    cast_later: bool = False
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
        from revseq_cli.text.places import Lines

        return Lines(self.text)

    @functools.cached_property
    def items(self) -> tuple[notation.TensorText | notation.AxisLine, ...]:
        """The tensors and Axis lines of the bracket notation, in order; FormatError for anything else."""
        from revseq_cli.text import notation  # most jobs have no text

        with about(self.name):
            return tuple(notation.parse(self.text))

    @functools.cached_property
    def examples(self) -> list[Example]:
        """The examples that page.md::1 and so on name."""
        from revseq_cli.text.examples import numbered

        return numbered(self.text, self.items)
