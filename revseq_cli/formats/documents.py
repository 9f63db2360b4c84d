"""Texts that have been read, and the data types that the user asks for in them."""

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
    """The data type that the user asked for, if any, and the one for a text that does not say.

    A text that states another type than the one asked for is refused, unless it is to be cast later.
    """

    asked: DataType | None
    default: DataType
    cast_later: bool = False


@dataclass(frozen=True)
class Text:
    """A text, what to call the place that it comes from, and the identity of its file, if that is one."""

    name: str
    text: str
    identity: Identity | None = None

    @functools.cached_property
    def items(self) -> tuple[notation.TensorText | notation.Attribute, ...]:
        """Its tensors and attribute lines in the bracket notation, in order; FormatError for what is none."""
        try:
            return tuple(notation.parse(self.text))
        except FormatError as e:
            raise e.about(self.name) from None
