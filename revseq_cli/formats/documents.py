"""Texts that have been read, and the data types that the user asks for."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from revseq_cli.ground.errors import FormatError
from revseq_cli.texts import notation

if TYPE_CHECKING:
    from revseq_cli.formats.storage.positioned import Identity
    from revseq_cli.ground.tensors import DataType


class TextTypes(NamedTuple):
    """The data type that the user asked for, or None, and the `default` for a text that states none.

    A text that states another type than `asked` is refused, unless the caller casts it (`cast_later`).
    """

    asked: DataType | None
    default: DataType
    cast_later: bool = False


@dataclass(frozen=True)
class Text:
    """A text; `name` is its source for messages, and `identity` its file's state, or None if it is not from a file."""

    name: str
    text: str
    identity: Identity | None = None

    @functools.cached_property
    def items(self) -> tuple[notation.TensorText | notation.Attribute, ...]:
        """The tensors and attribute lines of the bracket notation, in order; FormatError for anything else."""
        try:
            return tuple(notation.parse(self.text))
        except FormatError as e:
            raise e.about(self.name) from None
