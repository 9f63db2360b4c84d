"""Pipes, which can be read only once: standard input, named pipes, and <(...) of a shell."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from revseq_cli.core import thresholds
from revseq_cli.core.errors import FormatError, UsageError
from revseq_cli.core.tensors import DataType
from revseq_cli.files.system_errors import refuse_standard_output, wrap_os_errors
from revseq_cli.formats import table
from revseq_cli.formats.contract import Source
from revseq_cli.formats.memory import MemorySource
from revseq_cli.formats.npy import HEAD_BYTES, Header
from revseq_cli.formats.table import Format

if TYPE_CHECKING:
    import io

    from revseq_cli.formats.references import Reference


class PipedNpy(NamedTuple):
    """A .npy file that came through a pipe: its header, and the bytes of its elements."""

    name: str
    header: Header
    elements: NDArray[np.uint8]

    def open_source(self, asked: DataType | None) -> Source:
        """The tensor; `asked` is the data type of untyped bytes."""
        header = self.header.as_typed(asked, self.name)
        values = np.frombuffer(self.elements, header.dtype, prod(header.sizes))
        values = values.reshape(header.sizes, order=header.order)
        return MemorySource(self.name, values, header.describe_storage())


def name_pipe(path: str) -> str:
    """What messages call the pipe."""
    return "standard input" if path == "-" else path


def refuse_shared(references: Sequence[tuple[str, Reference]]) -> None:
    """UsageError if two of the tensors are one pipe."""
    owners: dict[tuple[int, int], tuple[str, Reference]] = {}  # of pipes, by device and inode
    for name, reference in references:
        if not reference.is_piped:
            continue
        status = os.fstat(0) if reference.path == "-" else os.stat(reference.path)
        pipe = (status.st_dev, status.st_ino)
        owner, owned = owners.setdefault(pipe, (name, reference))
        if owner != name:
            found = f"only one of {owner} and {name} can be {owned.name}"
            raise UsageError(found, hint="save the other to a file")


def make_pipe_error(row: Format, name: str) -> FormatError:
    """The error for a format that cannot be read in one go, from the first byte to the last."""
    found = f".{row.name} cannot be read from a pipe"
    return FormatError(found, "a file", "save it to a file first", name)


@functools.cache
def read_pipe(path: str) -> bytes | PipedNpy:
    """All that comes through a pipe: a tensor in .npy, or the bytes of a text."""
    name = name_pipe(path)
    with contextlib.ExitStack() as stack:
        stack.enter_context(wrap_os_errors(name, "read"))
        stream = cast("io.BufferedReader", sys.stdin.buffer)
        if path == "-":
            refuse_standard_output(os.fstat(0), name)
        else:
            stream = stack.enter_context(open(path, "rb"))
        head = stream.read(64)
        kind = table.find_kind(head)
        if kind and kind.format is table.NPY:
            return read_npy(name, stream, head)
        if kind and kind.format in (table.HDF5, table.NPZ):
            raise make_pipe_error(kind.format, name)
        if table.is_safetensors(head):
            raise make_pipe_error(table.SAFETENSORS, name)
        from revseq_cli.formats.text_files import join_pieces  # few pipes have text

        return head + join_pieces(iter(lambda: stream.read(thresholds.PIECE), b""), name)


def read_npy(name: str, stream: BinaryIO, head: bytes = b"") -> PipedNpy:
    """Read a .npy file, of which `head` has been read."""
    head += stream.read(HEAD_BYTES - len(head))
    header = Header.of(head, len(head), name)
    size = header.end - header.offset
    try:
        elements = np.empty(size, np.uint8)
    except (MemoryError, ValueError):
        found = f"has {size:,} bytes, which do not fit into memory, where a pipe is held"
        raise FormatError(found, hint="save it to a file first", where=name) from None
    buffer = elements.data
    done = min(len(head) - header.offset, size)
    buffer[:done] = head[header.offset : header.offset + done]
    while done < size:
        count = stream.readinto(buffer[done:])  # type: ignore[attr-defined]
        if not count:
            break
        done += count
    # If there are bytes after the elements, some of them are in the head.
    rest = head[header.end :] + stream.read(4)
    header.require_whole(header.offset + done + len(rest), name)
    return PipedNpy(name, header, elements)
