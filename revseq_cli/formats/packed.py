"""Packed files: gzip, bzip2, xz and zstd, as Python's own modules read them; packed tensors are unpacked once."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import weakref
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, BinaryIO

from revseq_cli.core import platform, signals, thresholds
from revseq_cli.core.errors import FormatError, RevseqError
from revseq_cli.core.tensors import DataType, Region
from revseq_cli.formats import file_io, npy
from revseq_cli.formats.contents import not_whole, refuse_bomb
from revseq_cli.formats.contract import ReadTask, Source, Storage
from revseq_cli.formats.file_io import Identity
from revseq_cli.formats.raw import RawSource, RawTensor
from revseq_cli.formats.table import Packing

_DAMAGE = ("LZMAError", "ZstdError")


def unpack_hint(packing: Packing, path: str) -> str:
    """How to unpack that file."""
    return f"unpack it first: {packing.unpack} {platform.quoted(path)}"


def _opened(file: BinaryIO, packing: Packing, name: str) -> BinaryIO:
    for module in filter(None, (packing.module, packing.package)):
        with contextlib.suppress(ModuleNotFoundError):
            stream: BinaryIO = importlib.import_module(module).open(file)
            return stream
    hint = platform.pip(f"install {packing.package}") if packing.package else ""
    raise FormatError(f"is packed by {packing.name}, which this Python lacks", packing.package, hint, name)


def pieces(path: str, packing: Packing, unchanged: file_io.Identity | None = None) -> Iterator[bytes]:
    """What a file unpacks to, piece by piece; FormatError for damage, and for a decompression bomb."""
    with file_io.opened(path, unchanged) as fd, file_io.stream_of(fd) as file:
        yield from unpacked(file, packing, path, file_io.identity(fd).size)


def unpacked(file: BinaryIO, packing: Packing, name: str, stored: int) -> Iterator[bytes]:
    """The same of `stored` packed bytes in a stream; `name` is for messages."""
    done = 0
    try:
        with _opened(file, packing, name) as stream:
            while piece := stream.read(thresholds.PIECE):
                signals.check()
                done += len(piece)
                refuse_bomb(done, stored, unpack_hint(packing, name), name)
                yield piece
    except (RevseqError, MemoryError):
        raise
    except Exception as e:
        if isinstance(e, OSError) and e.errno is not None:
            raise file_io.failed(name, "read", e) from None
        # Each module has errors of its own for packed bytes that are damaged or truncated.
        if not isinstance(e, (EOFError, OSError, ValueError, zlib.error)) and type(e).__name__ not in _DAMAGE:
            raise
        what = "truncated" if isinstance(e, EOFError) else "damaged"
        raise not_whole(f"is {what}: it cannot be unpacked", name) from None


def open_npy(path: str, packing: Packing, asked: DataType | None) -> Source:
    """The tensor of a packed .npy file."""
    with file_io.opened(path) as fd:
        identity = file_io.identity(fd)
    head = b""
    unpacking = pieces(path, packing)
    while len(head) < npy.HEAD_BYTES and (piece := next(unpacking, b"")):
        head += piece
    header = npy.Header.of(head, len(head), path).named(asked, path)
    refuse_bomb(header.end, identity.size, unpack_hint(packing, path), path)
    storage = header.storage()
    storage.details["compression"] = packing.name
    unpack = functools.partial(pieces, path, packing, identity)
    return UnpackedSource(header.tensor(path, path), identity, storage, unpack)


class UnpackedSource(RawSource):
    """A packed tensor, which is unpacked into a temporary file when its first region is read.

    `tensor` says where the elements lie in what `unpack` yields, piece by piece, which ends with the last element.
    """

    def __init__(
        self, tensor: RawTensor, identity: Identity, storage: Storage, unpack: Callable[[], Iterator[Any]]
    ) -> None:
        super().__init__(tensor, identity, storage)
        self._unpack, self._is_unpacked = unpack, False

    def read_task(self, region: Region) -> ReadTask:
        """A read task that reads the region of the temporary file."""
        if not self._is_unpacked:
            place, size = f"{self.name}, unpacked into the temporary folder", 0
            with file_io.trying_to("write", place):
                fd, path = _temporary_file(self)
            for piece in self._unpack():
                file_io.write_all(fd, piece, size, place)
                size += len(piece)
            if size != self.tensor.end:
                found = f"unpacks to {size} bytes, and it promises {self.tensor.end}"
                raise FormatError(found, "the whole file and nothing else", "fetch it again", self.name)
            with file_io.trying_to("read", place):
                self.unchanged, self._is_unpacked = file_io.identity(fd), True
            self.tensor = replace(self.tensor, path=path)
        return super().read_task(region)


def _temporary_file(owner: object) -> tuple[int, str]:
    """A new file in the system's folder for temporary ones, and its path; it ends with its owner.

    Where the system has /proc, it has no name: nothing is left of it, however the process ends.
    """
    import tempfile  # it takes a while to load

    fd, path = tempfile.mkstemp(prefix="revseq-", suffix=".tmp")
    name = f"/proc/{os.getpid()}/fd/{fd}"  # other processes can open it by that, too
    if os.path.exists(name):  # noqa: PTH110
        os.unlink(path)  # noqa: PTH108
        path = name
    weakref.finalize(owner, _remove, fd, path, os.getpid())
    return fd, path


def _remove(fd: int, path: str, process: int) -> None:
    if os.getpid() == process:  # a fork has the source, too
        with contextlib.suppress(OSError):
            os.close(fd)
            if not path.startswith("/proc/"):
                os.unlink(path)  # noqa: PTH108
