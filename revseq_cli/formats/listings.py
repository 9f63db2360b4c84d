"""Lists of what is in a file: its tensors, and all else that has a name in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple, Self

from revseq_cli.core.errors import RevseqError
from revseq_cli.core.tensors import TensorDesc

DIMENSION = "dimension"  # what an Item is that gives a dimension its name, and has no values
GROUP = "group"  # what an Item is that has others in it


class Item(NamedTuple):
    """One thing in a file.

    `key` is its name after `::`, and `depth` the number of groups between it and what is
    listed. A tensor has a `desc`, unless it `is_damaged`. `what` says what else it is: a group, a
    link, or the data type or the fault for which it is no tensor. `dimensions`, `attributes` and
    `details` are as in a Source; the latter are those of its storage.
    """

    key: str
    desc: TensorDesc | None = None
    what: str = ""
    depth: int = 0
    sizes: tuple[int, ...] | None = None
    dimensions: tuple[str, ...] = ()
    attributes: int | None = None
    details: dict[str, str] = {}  # noqa: RUF012 - nobody changes it
    is_damaged: bool = False

    def with_reason(self, error: RevseqError) -> Self:
        """The item with the reason why it is no tensor.

        The reason is a data type that no tensor has, or else damage.
        """
        what = error.found.removeprefix("its data type is ")
        return self._replace(what=what, is_damaged=what == error.found)

    @property
    def is_group(self) -> bool:
        """Whether other items are in it."""
        return self.what == GROUP


def only_of(items: Sequence[Item]) -> str | None:
    """The key of the only item, which the name of its file means.

    None for one of a data type that no tensor has.
    """
    if len(items) != 1:
        return None
    [item] = items
    if item.desc or item.is_damaged:
        return item.key
    return None


class Contents(NamedTuple):
    """What is in a file, or in a group of it: `key` is the group's name, "" for the whole file.

    `only` is the key of the tensor that the name of the file alone means; None where there are
    several, or none. In a tree, the parts of a key are the groups that the item is in. `label` is
    as in a Storage.
    """

    path: str
    format: str
    items: tuple[Item, ...]
    only: str | None = None
    key: str = ""
    attributes: int | None = None
    is_tree: bool = False
    label: str = ""

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


def parse_node_number(key: str | None) -> int | None:
    """The number of an example, which the key is, as in page.md::2; None for another key."""
    if key and re.fullmatch("[0-9]+", key):
        return int(key[:9])
    return None
