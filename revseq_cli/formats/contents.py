"""What is in a file: how its tensors are named, the one that a name means, and lists of all.

Refusals that several formats share are here, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from importlib import import_module
from types import ModuleType
from typing import NamedTuple, Self

from revseq_cli.core import platform
from revseq_cli.core.errors import (
    FormatError,
    RevseqError,
    UsageError,
    can_be_typed,
    listed,
    nearest_name,
)
from revseq_cli.core.tensors import TensorDesc

_MOST_PROPOSED = 10  # words to type, in a hint
# Keras's definition of a decompression bomb: more than so many bytes, and more than so many times
# what is stored.
_BOMB_BYTES, _BOMB_RATIO = 4 << 30, 1000
# A frame of Blosc begins with a header, which has the bytes of the whole frame at this place.
_BLOSC_HEADER, _BLOSC_LENGTH = 16, slice(12, 16)
DIMENSION = "dimension"  # what an Item is that gives a dimension its name, and has no values
GROUP = "group"  # what an Item is that has others in it


def try_hint(path: str, *keys: str) -> str:
    """A hint to name the tensor of that key in a file, or one of several, quoted for a shell."""
    return proposed([f"{path}::{key}" for key in keys if can_be_typed(key)])


def proposed(names: Sequence[str]) -> str:
    """A hint to type a name, or one of the first of several; nothing without one."""
    more = f" and {len(names) - _MOST_PROPOSED} more" if len(names) > _MOST_PROPOSED else ""
    words = ", ".join(map(platform.typed, names[:_MOST_PROPOSED])) + more
    return f"{'one of' if len(names) > 1 else 'try'} {words}" if names else ""


def chosen(
    names: Collection[str],
    key: str | None,
    path: str,
    noun: str = "tensor",
    is_tensor: Callable[[str], bool] | None = None,
) -> str:
    """`key` if the file has such a tensor, or without a key its only tensor; else FormatError.

    The error lists the names. Its hint has only those for which `is_tensor` holds, where a format
    has others, such as texts. `noun` is the format's word for a tensor.
    """
    if key is None and len(names) == 1:
        return next(iter(names))
    if key is not None and key in names:
        return key
    tensors = [name for name in names if is_tensor is None or is_tensor(name)]
    if key is not None:
        raise missing(tensors, key, path, f"no such {noun}")
    if not names:
        raise FormatError(f"has no {noun}", f"a {noun}", where=path)
    raise FormatError(
        f"has {len(names)} {noun}s: {listed(names)}",
        "the name of one",
        try_hint(path, *tensors),
        path,
    )


def missing(names: Collection[str], key: str, path: str, found: str) -> FormatError:
    """The error for a key that is none of the `names` of a file.

    Its hint has the name that was probably meant.
    """
    near = nearest_name(key, names)
    hint = try_hint(path, near) if near else ""
    return FormatError(found, f"one of {listed(names)}" if names else "", hint, f"{path}::{key}")


def refuse_key(key: str | None, file: str, where: str, hint: str = "") -> None:
    """UsageError for a key where a file, such as .npy, contains one tensor without a name."""
    if key is not None:
        raise UsageError(f"{file} has one tensor without a name", "no name after ::", hint, where)


def not_a_name(key: str, noun: str, wanted: str, where: str) -> UsageError:
    """The error for a key that no tensor of a format can have.

    `noun` is the format's word for a tensor.
    """
    return UsageError(f"{key[:80]!r} is not a valid {noun} name", wanted, where=where)


def taken(key: str, path: str) -> UsageError:
    """The error for a new tensor of a name that INPUT's file already has for something else."""
    found = f"has another tensor {key}"
    return UsageError(found, "a name that is free", "to leave out the copy, add --only", path)


def other_dimension(name: str, where: str) -> UsageError:
    """The error for a tensor to add to a file with another dimension of that name.

    That dimension has another size, or other coordinates.
    """
    path, _, key = where.partition("::")
    key = key.strip("/").rpartition("/")[2]
    found = f"its dimension {name} has another size or other coordinates than {name} there"
    hint = f"name a group of its own: {platform.typed(f'{path}::{key}_group/{key}')}"
    return UsageError(found, hint=hint, where=where)


def refuse_bomb(unpacked: int, stored: int, remedy: str, where: str) -> None:
    """FormatError if a file unpacks to far more bytes than it stores.

    `remedy` is for who wants it nevertheless.
    """
    if unpacked > _BOMB_BYTES and unpacked > _BOMB_RATIO * stored:
        wanted, hint = (
            f"at most {_BOMB_RATIO} times what is stored",
            f"if it is what you want, {remedy}",
        )
        raise FormatError(
            f"unpacks to {unpacked} bytes or more, and stores {stored}", wanted, hint, where
        )


def require_whole_frame(frame: memoryview | bytes) -> None:
    """FormatError for a frame of Blosc that is shorter than its header says.

    Blosc does not ask how many bytes there are, and decodes what lies after them in memory.
    """
    if len(frame) < _BLOSC_HEADER:
        raise FormatError(f"a Blosc frame is truncated: it has {len(frame)} bytes")
    whole = int.from_bytes(frame[_BLOSC_LENGTH], "little")
    if len(frame) < whole:
        raise FormatError(f"a Blosc frame is truncated: it has {len(frame)} of {whole} bytes")


def extra(package: str, found: str, where: str, name: str = "") -> ModuleType:
    """An optional package; FormatError about `where` if it is not installed."""
    try:
        return import_module(package)
    except ModuleNotFoundError:
        wanted = name or package
        raise FormatError(
            found, f"the package {wanted}", platform.pip(f"install {wanted}"), where
        ) from None


def not_whole(found: str, where: str) -> FormatError:
    """The error for a file that is truncated or damaged."""
    return FormatError(found, "the whole file", "fetch it again", where)


class Item(NamedTuple):
    """One thing in a file.

    `key` is its name behind `::`, and `depth` the number of groups between it and the place that is
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

    def refused(self, error: RevseqError) -> Self:
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
    return items[0].key if len(items) == 1 and (items[0].desc or items[0].is_damaged) else None


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


def number_of(key: str | None) -> int | None:
    """The number of an example, which the key is, as in page.md::2; None for another key."""
    return int(key[:9]) if key and re.fullmatch("[0-9]+", key) else None
