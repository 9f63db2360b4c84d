"""What several formats refuse, and the hints that name tensors to type instead."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from importlib import import_module
from types import ModuleType

from revseq_cli.core import platform
from revseq_cli.core.errors import (
    FormatError,
    UsageError,
    can_be_typed,
    join_names,
    nearest_name,
)

_MOST_PROPOSED = 10  # words to type, in a hint
# A decompression bomb, as Keras defines it, has more than this many bytes, and more than this many
# times what is stored.
_BOMB_BYTES = 4 << 30
_BOMB_RATIO = 1000
# A frame of Blosc begins with a header, at whose end are the bytes of the whole frame.
_BLOSC_HEADER = 16
_BLOSC_LENGTH = slice(12, 16)


def propose_keys(path: str, *keys: str) -> str:
    """A hint to name the tensor of that key in a file, or one of several, quoted for a shell."""
    return propose_names([f"{path}::{key}" for key in keys if can_be_typed(key)])


def propose_names(names: Sequence[str]) -> str:
    """A hint to type a name, or one of several, each on its own line; nothing without a name."""
    if not names:
        return ""
    if len(names) == 1:
        return f"did you mean: {platform.as_argument(names[0])}"
    head = "name one of them:"
    if len(names) > _MOST_PROPOSED:
        head = f"name one of them, here the first {_MOST_PROPOSED} of {len(names)}:"
    return "\n  ".join([head, *map(platform.as_argument, names[:_MOST_PROPOSED])])


def choose_tensor(
    names: Collection[str],
    key: str | None,
    path: str,
    noun: str = "tensor",
    is_tensor: Callable[[str], bool] | None = None,
) -> str:
    """`key` if the file has such a tensor, or without a key its only tensor; else FormatError.

    `noun` is the format's word for a tensor. The error proposes only names for which `is_tensor`
    holds, in a format that has other things with names.
    """
    if key is None and len(names) == 1:
        return next(iter(names))
    if key is not None and key in names:
        return key
    tensors = [name for name in names if is_tensor is None or is_tensor(name)]
    if key is not None:
        raise make_unknown_key_error(tensors, key, path, f"no such {noun}")
    if not names:
        raise FormatError(f"has no {noun}", where=path)
    raise FormatError(f"has {len(names)} {noun}s", hint=propose_keys(path, *tensors), where=path)


def make_unknown_key_error(names: Collection[str], key: str, path: str, found: str) -> FormatError:
    """The error for a key that is none of the `names` of a file."""
    near = nearest_name(key, names)
    hint = propose_keys(path, near) if near else ""
    expected = f"one of {join_names(names)}" if names else ""
    return FormatError(found, expected, hint, f"{path}::{key}")


def refuse_key(key: str | None, file: str, where: str) -> None:
    """UsageError for a key where a file, such as .npy, contains one tensor without a name."""
    if key is not None:
        hint = f"to name the file only, type {platform.as_argument(where)}"
        raise UsageError(f"{file} has one tensor without a name", "no name after ::", hint, where)


def make_name_error(key: str, noun: str, expected: str, where: str) -> UsageError:
    """The error for a key that no tensor of a format can have.

    `noun` is the format's word for a tensor.
    """
    return UsageError(f"{key[:80]!r} is not a valid {noun} name", expected, where=where)


def make_name_taken_error(key: str, path: str) -> UsageError:
    """The error for a new tensor of a name that INPUT's file already has for something else."""
    found = f"the copy of it already has a tensor {key}"
    return UsageError(found, hint="to write only this tensor, add --only", where=path)


def make_dimension_error(name: str, where: str) -> UsageError:
    """The error for a tensor to add to a file with another dimension of that name.

    That dimension has another size, or other coordinates.
    """
    path, _, key = where.partition("::")
    key = key.strip("/").rpartition("/")[2]
    found = f"its dimension {name} has another size or other coordinates than {name} there"
    other = platform.as_argument(f"{path}::{key}_group/{key}")
    hint = f"to put it into a group of its own, type {other}"
    return UsageError(found, hint=hint, where=where)


def is_huge(size: int) -> bool:
    """Whether this many bytes may be a decompression bomb: few stored bytes become this many."""
    return size > _BOMB_BYTES


def refuse_bomb(size: int, stored: int, remedy: str, where: str) -> None:
    """FormatError if `stored` bytes decompress to far more, `size` bytes.

    `remedy` is what to do with a file that the user trusts.
    """
    if is_huge(size) and size > _BOMB_RATIO * stored:
        found = f"decompresses to {size:,} bytes or more, but stores only {stored:,}"
        expected = f"at most {_BOMB_RATIO} times what is stored"
        raise FormatError(found, expected, f"if you trust the file, {remedy}", where)


def require_whole_frame(frame: memoryview | bytes) -> None:
    """FormatError for a frame of Blosc that is shorter than its header says.

    Blosc would decode whatever is after it in memory.
    """
    if len(frame) < _BLOSC_HEADER:
        raise FormatError(f"a Blosc frame is truncated: it has {len(frame)} bytes")
    whole = int.from_bytes(frame[_BLOSC_LENGTH], "little")
    if len(frame) < whole:
        raise FormatError(f"a Blosc frame is truncated: it has {len(frame)} of {whole} bytes")


def import_extra(package: str, found: str, where: str, name: str = "") -> ModuleType:
    """An optional package; FormatError about `where` if it is not installed.

    `found` is what needs it, and `name` what to install if that has another name.
    """
    try:
        return import_module(package)
    except ModuleNotFoundError:
        name = name or package
        hint = platform.pip(f"install {name}")
        raise FormatError(found, f"the package {name}", hint, where) from None


def make_damage_error(found: str, where: str) -> FormatError:
    """The error for a file that is truncated or damaged."""
    return FormatError(found, hint="copy or download the file again", where=where)
