"""Pipes, which can be read only once: standard input, named pipes, and what a shell makes of <(...)."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import stat
import sys
from typing import TYPE_CHECKING, cast

from revseq_cli.core import thresholds
from revseq_cli.core.errors import FormatError
from revseq_cli.formats import file_io, npy
from revseq_cli.formats.recognition import HDF5_MAGIC, NPY_MAGIC, ZIP_MAGIC, packing_of

if TYPE_CHECKING:
    from collections.abc import Iterator

STDIN = "standard input"
_KINDS = {HDF5_MAGIC: "HDF5", ZIP_MAGIC: ".npz"}


def is_pipe(path: str) -> bool:
    """Whether the path is that of a pipe."""
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)  # noqa: PTH116 - it may be any text
    except (OSError, ValueError):
        return False


def are_one(path: str, other: str) -> bool:
    """Whether both paths are those of one pipe; - is standard input."""
    states = [os.fstat(0) if each == "-" else os.stat(each) for each in (path, other)]  # noqa: PTH116
    return os.path.samestat(*states)


def name_of(path: str) -> str:
    """What messages call a pipe; - is standard input."""
    return STDIN if path == "-" else path


@functools.cache
def contents(path: str) -> bytes | npy.Piped:
    """All that comes through a pipe, kept since it can be read only once: a tensor in .npy, or text."""
    name = name_of(path)
    with file_io.trying_to("read", name), _opened(path) as stream:
        head = stream.read(len(HDF5_MAGIC))
        if packing := packing_of(head):
            from revseq_cli.formats import packed  # most pipes are not

            data = head + stream.read()
            pieces = packed.unpacked(io.BytesIO(data), packing, name, len(data))
            stream = io.BufferedReader(io.BytesIO(b"".join(pieces)))
            head = stream.read(len(HDF5_MAGIC))
        if head.startswith(NPY_MAGIC):
            return npy.from_stream(name, stream, head)
        if kind := next((kind for magic, kind in _KINDS.items() if head.startswith(magic)), None):
            found, hint = f"{kind} cannot be read from a pipe", "save it to a file first"
            raise FormatError(found, "a real file", hint, name)
        from revseq_cli.formats.text import joined  # few pipes have text

        return head + joined(iter(lambda: stream.read(thresholds.PIPE_PIECE), b""), name)


@contextlib.contextmanager
def _opened(path: str) -> Iterator[io.BufferedReader]:
    """The pipe as a stream; a signal ends a process that waits for who writes into it."""
    if path == "-":
        yield cast("io.BufferedReader", sys.stdin.buffer)
        return
    with open(path, "rb") as stream:  # noqa: PTH123 - it may be any text
        file_io.refuse_stream(os.fstat(stream.fileno()), path)
        yield stream
