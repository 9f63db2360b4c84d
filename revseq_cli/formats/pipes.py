"""Pipes, which can be read only once.

Standard input, named pipes, and what a shell makes of <(...).
"""

from __future__ import annotations

import contextlib
import functools
import os
import stat
import sys
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from revseq_cli.core import thresholds
from revseq_cli.core.errors import FormatError, UsageError
from revseq_cli.core.tensors import DataType
from revseq_cli.files import base
from revseq_cli.formats import table
from revseq_cli.formats.contract import Source
from revseq_cli.formats.memory import MemorySource
from revseq_cli.formats.npy import HEAD_BYTES, Header
from revseq_cli.formats.table import Format

_MOST_HEADER_BYTES = 1 << 40  # of safetensors; its own limit is 100 MB

if TYPE_CHECKING:
    import io

    from revseq_cli.formats.references import Reference


class PipedNpy(NamedTuple):
    """A .npy file that came through a pipe: its header, and the bytes of its elements."""

    name: str
    header: Header
    elements: NDArray[np.uint8]

    def source(self, asked: DataType | None) -> Source:
        """The tensor; `asked` is the data type of nameless bytes."""
        header = self.header.name_bytes(asked, self.name)
        values = np.frombuffer(self.elements, header.dtype, prod(header.sizes))
        values = values.reshape(header.sizes, order=header.order)
        return MemorySource(self.name, values, header.storage())


def is_pipe(path: str) -> bool:
    """Whether the path is that of a pipe, or - for standard input."""
    if path == "-":
        return True
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def name_pipe(path: str) -> str:
    """What messages call the pipe."""
    return "standard input" if path == "-" else path


def refuse_shared(references: Sequence[tuple[str, Reference]]) -> None:
    """UsageError if two of the tensors are one pipe."""
    pipes: dict[tuple[int, int], tuple[str, Reference]] = {}
    for name, reference in references:
        if not reference.is_piped:
            continue
        status = os.fstat(0) if reference.path == "-" else os.stat(reference.path)
        first, pipe = pipes.setdefault((status.st_dev, status.st_ino), (name, reference))
        if first != name:
            found = f"only one of {first} and {name} can be {pipe.name}"
            raise UsageError(found, hint="save the other to a file")


def needs_file(row: Format, name: str) -> FormatError:
    """The error for a format that cannot be read from the first byte to the last."""
    found = f".{row.name} cannot be read from a pipe"
    return FormatError(found, "a file", "save it to a file first", name)


@functools.cache
def read_pipe(path: str) -> bytes | PipedNpy:
    """All that comes through a pipe, which can be read only once.

    It is a tensor in .npy, or text.
    """
    name = name_pipe(path)
    with contextlib.ExitStack() as stack:
        stack.enter_context(base.trying_to("read", name))
        stream = cast("io.BufferedReader", sys.stdin.buffer)
        if path == "-":
            base.refuse_output(os.fstat(0), name)
        else:
            stream = stack.enter_context(open(path, "rb"))
        head = stream.read(64)
        kind = table.kind_of(head)
        if kind and kind.format is table.NPY:
            return read_npy(name, stream, head)
        if kind and kind.format in (table.HDF5, table.NPZ):
            raise needs_file(kind.format, name)
        if _begins_safetensors(head):
            raise needs_file(table.SAFETENSORS, name)
        from revseq_cli.formats.text import join  # few pipes have text

        return head + join(iter(lambda: stream.read(thresholds.PIECE), b""), name)


def _begins_safetensors(head: bytes) -> bool:
    """Whether it is the size of a header of safetensors and its first brace.

    Text has no size so small.
    """
    return head[8:9] == b"{" and int.from_bytes(head[:8], "little") < _MOST_HEADER_BYTES


def read_npy(name: str, stream: BinaryIO, head: bytes = b"") -> PipedNpy:
    """Read a .npy file, of which `head` has been read.

    Its elements are read into place, not copied.
    """
    head += stream.read(HEAD_BYTES - len(head))
    header = Header.of(head, len(head), name)
    size = header.end - header.offset
    try:
        elements = np.empty(size, np.uint8)
    except (MemoryError, ValueError):
        found = f"has {size:,} bytes, which do not fit into memory, where a pipe is held"
        raise FormatError(found, hint="save it to a file first", where=name) from None
    room = elements.data
    done = min(len(head) - header.offset, len(room))
    room[:done] = head[header.offset : header.offset + done]
    while done < len(room):
        count = stream.readinto(room[done:])  # type: ignore[attr-defined]
        if not count:
            break
        done += count
    bytes_after = len(head[header.end :] + stream.read(4))
    header.require_whole(header.offset + done + bytes_after, name)
    return PipedNpy(name, header, elements)
