"""Texts that have been read, and the data types that the user asks for."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from revseq_cli.formats.encodings import Encoding
from revseq_cli.ground.errors import FormatError
from revseq_cli.texts import notation
from revseq_cli.texts.places import Lines, PlacedError

if TYPE_CHECKING:
    from revseq_cli.formats.storage.positioned import Identity
    from revseq_cli.ground.errors import RevseqError
    from revseq_cli.ground.tensors import DataType
    from revseq_cli.texts.notebooks import Excerpt


class TextTypes(NamedTuple):
    """The data type that the user asked for, or None, and the `default` for a text that states none.

    A text that states another type than `asked` is refused, unless the caller casts it (`cast_later`).
    """

    asked: DataType | None
    default: DataType
    cast_later: bool = False


@dataclass(frozen=True)
class Text:
    """A text; `name` is its source for messages, and `identity` its file's state, or None if it is not from a file.

    Its file has that `encoding`. Of a notebook it is an `excerpt`.
    """

    name: str
    text: str
    identity: Identity | None = None
    encoding: Encoding = Encoding()  # noqa: RUF009 - it is immutable
    excerpt: Excerpt | None = None

    @property
    def whole(self) -> str:
        """The whole text of the file."""
        return self.excerpt.whole if self.excerpt else self.text

    @functools.cached_property
    def lines(self) -> Lines:
        """The lines of the file."""
        return Lines(self.whole)

    def offset(self, place: int) -> int:
        """Where that character of the text stands in the file's."""
        return self.excerpt.offset(place) if self.excerpt else place

    def span(self, start: int, stop: int) -> tuple[int, int]:
        """Where text[start:stop] stands in the file's text; FormatError where it is not in one piece there."""
        return self.excerpt.span(start, stop) if self.excerpt else (start, stop)

    def located(self, error: RevseqError) -> RevseqError:
        """The error with its place in the file, and the line as it stands there, if it is about a place of the text."""
        return error.moved(self.lines, self.offset(error.offset)) if isinstance(error, PlacedError) else error

    @functools.cached_property
    def items(self) -> tuple[notation.TensorText | notation.Attribute, ...]:
        """The tensors and attribute lines of the bracket notation, in order; FormatError for anything else."""
        try:
            return tuple(notation.parse(self.text))
        except FormatError as e:
            raise self.located(e).about(self.name) from None
