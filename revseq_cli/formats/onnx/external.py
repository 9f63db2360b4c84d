"""Where the elements of a tensor lie that ONNX keeps in a file of their own. Source: onnx's docs/ExternalData.md.

The file is in the folder of the tensor's file or below it: no other is read through a tensor.
"""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from revseq_cli.formats.onnx.package import text
from revseq_cli.ground.errors import FormatError, printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from revseq_cli.ground.tensors import TensorDesc

_LONGEST_NUMBER = 20  # digits


class Place(NamedTuple):
    """The file `location`, as the tensor names it, with its whole path; `length` and `checksum` may be missing."""

    location: str
    path: str
    offset: int
    length: int | None
    checksum: str

    def require(self, size: int, desc: TensorDesc, name: str) -> None:
        """FormatError unless the elements of `desc` lie inside of the file, which has `size` bytes."""
        length = max(0, size - self.offset) if self.length is None else self.length
        found = f"has {length} bytes at {self.offset} of {printable(self.location)}"
        if self.offset + length > size:
            raise FormatError(f"{found}, which has {size}", "bytes of the file", "fetch it again", name)
        if length != desc.total_bytes:
            raise FormatError(found, f"{desc.total_bytes}, as {desc} has", where=name)


def find(entries: Iterable[Any], path: str, name: str) -> Place:
    """The place that the entries of a tensor in the file `path` say; FormatError for one that is not allowed."""
    fields: dict[str, str] = {}
    for entry in entries:
        key = text(entry.key, name)
        if key in fields:
            raise FormatError(f"its external_data has {key[:80]} twice", "once", where=name)
        fields[key] = text(entry.value, name)
    location, checksum = fields.get("location", ""), fields.get("checksum", "").lower()
    if checksum and not re.fullmatch("[0-9a-f]{40}", checksum):
        raise FormatError(f"its checksum is {checksum[:80]}", "a SHA-1, of 40 hexadecimal digits", where=name)
    offset, length = _number(fields.get("offset", "0"), name), fields.get("length")
    return Place(location, _within(location, path, name), offset, _number(length, name) if length else None, checksum)


def _number(digits: str, name: str) -> int:
    if not re.fullmatch(f"[0-9]{{1,{_LONGEST_NUMBER}}}", digits):
        raise FormatError(f"its external_data has the number {digits[:80]}", "decimal digits", where=name)
    return int(digits)


def _within(location: str, path: str, name: str) -> str:
    """The path of the file; FormatError for one outside of the folder, also by way of a link."""
    folder = Path(path).parent
    plain = location and not set(location) & set("\\:\0") and ".." not in PurePosixPath(location).parts
    if plain and not location.startswith("/"):
        found, allowed = os.path.realpath(folder / location), os.path.realpath(folder)
        if Path(found).is_relative_to(allowed):
            return found
    raise FormatError(
        f"its elements are in the file {location[:80]!r}", "a relative path in the folder of the tensor's file",
        "nothing else is read through a tensor; with the package onnx, load and save it where its file is", name,
    )  # fmt: skip
