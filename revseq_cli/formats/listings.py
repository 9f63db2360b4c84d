"""Lists of what is in a file: its tensors, and all else that has a name in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

from revseq_cli.core.errors import DataTypeError, RevseqError
from revseq_cli.core.tensors import TensorDesc

DIMENSION = "dimension"  # `what` of an Item that only gives a dimension its name
GROUP = "group"  # `what` of an Item that has others in it


class Item(NamedTuple):
    """One thing in a file. A tensor has a `desc`, unless it is damaged."""

    key: str  # its name after ::
    desc: TensorDesc | None = None
    # What it is if it is not a tensor: a group, a link, its data type, or what is wrong with it.
    what: str = ""
    depth: int = 0  # the number of groups between it and what is listed
    sizes: tuple[int, ...] | None = None
    dimensions: tuple[str, ...] = ()  # as in a Source
    attributes: int | None = None  # how many it has
    details: dict[str, str] = {}  # noqa: RUF012 - of its storage; nobody changes it
    is_damaged: bool = False

    def with_reason(self, error: RevseqError) -> Self:
        """The item with the reason why it is not a tensor: its data type, or else damage."""
        if isinstance(error, DataTypeError):
            return self._replace(what=error.kind)
        return self._replace(what=error.found, is_damaged=True)

    @property
    def is_group(self) -> bool:
        """Whether other items are in it."""
        return self.what == GROUP


def find_sole_key(items: Sequence[Item]) -> str | None:
    """The key of the only item, if that is a tensor: the name of its file then means it."""
    if len(items) != 1:
        return None
    item = items[0]
    if item.desc or item.is_damaged:
        return item.key
    return None


class Contents(NamedTuple):
    """What is in a file, or in a group of it."""

    path: str
    format: str
    items: tuple[Item, ...]
    # The key of the tensor that the name of the file means; None if it has several, or none.
    sole_key: str | None = None
    key: str = ""  # the name of the group, "" for the whole file
    attributes: int | None = None  # how many it has
    is_tree: bool = False  # whether the parts of a key are the groups that the item is in
    label: str = ""  # as in a Storage

    @property
    def name(self) -> str:
        """What the user types for all of it."""
        return f"{self.path}::{self.key}" if self.key else self.path

    @property
    def tensors(self) -> list[Item]:
        """The tensors among the items."""
        return [item for item in self.items if item.desc]

    def name_of(self, item: Item) -> str:
        """What to type for an item."""
        return f"{self.path}::{item.key}" if item.key else self.path
