"""Packed files: gzip, bzip2, xz and zstd, as Python's own modules read them.

A packed tensor is unpacked once, into a temporary file in the system's folder for those, and read there.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import tempfile
import weakref
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from revseq_cli.core import signals, system, thresholds
from revseq_cli.core.errors import FormatError, RevseqError
from revseq_cli.formats import file_io
from revseq_cli.formats.contract import refuse_bomb
from revseq_cli.formats.raw import RawSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

    from revseq_cli.formats.contract import ReadTask, Region, Storage
    from revseq_cli.formats.raw import RawTensor
    from revseq_cli.formats.table import Packing


def unpack_hint(packing: Packing, path: str) -> str:
    """How to unpack that file."""
    return f"unpack it first: {packing.unpack} {system.quoted(path)}"


def stream_of(file: BinaryIO, packing: Packing, name: str) -> BinaryIO:
    """What a packed file unpacks to, as a stream; FormatError where this Python lacks the module."""
    for module in filter(None, (packing.module, packing.package)):
        with contextlib.suppress(ModuleNotFoundError):
            stream: BinaryIO = importlib.import_module(module).open(file)
            return stream
    hint = system.pip(f"install {packing.package}") if packing.package else ""
    raise FormatError(f"is packed by {packing.name}, which this Python lacks", packing.package, hint, name)


@contextlib.contextmanager
def refusing_damage(name: str) -> Iterator[None]:
    """FormatError for packed bytes that are damaged or truncated; each module has errors of its own for them."""
    try:
        yield
    except (RevseqError, MemoryError):
        raise
    except OSError as e:
        if e.errno is not None:
            raise file_io.failed(name, "read", e) from None
        raise _damaged(name, e) from None
    except Exception as e:
        if not isinstance(e, (EOFError, ValueError, zlib.error)) and type(e).__name__ not in ("LZMAError", "ZstdError"):
            raise
        raise _damaged(name, e) from None


def _damaged(name: str, error: Exception) -> FormatError:
    what = "truncated" if isinstance(error, EOFError) else "damaged"
    return FormatError(f"is {what}: it cannot be unpacked", "the whole file", "fetch it again", name)


def pieces(path: str, packing: Packing, unchanged: file_io.Identity | None = None) -> Iterator[bytes]:
    """What a file unpacks to, piece by piece; FormatError for damage, and for a decompression bomb."""
    with file_io.opened(path, unchanged) as fd, io.FileIO(fd, closefd=False) as file, refusing_damage(path):
        stored, done = file_io.identity(fd).size, 0
        with stream_of(io.BufferedReader(file), packing, path) as stream:  # type: ignore[arg-type]
            while piece := stream.read(thresholds.UNPACKED_AT_ONCE):
                signals.check()
                done += len(piece)
                refuse_bomb(done, stored, unpack_hint(packing, path), path, "unpacks to {} bytes or more, of {}")
                yield piece


class UnpackedSource(RawSource):
    """A packed tensor, which is unpacked into a temporary file when its first region is read.

    `tensor` says where the elements lie in what `unpack` yields, piece by piece, which ends with the last element.
    """

    def __init__(
        self, tensor: RawTensor, identity: file_io.Identity, storage: Storage, unpack: Callable[[], Iterator[Any]]
    ) -> None:
        super().__init__(tensor, identity, storage)
        self._unpack, self._is_unpacked = unpack, False

    def read_task(self, region: Region) -> ReadTask:
        """A read task that reads the region of the temporary file."""
        if not self._is_unpacked:
            fd, path = tempfile.mkstemp(prefix="revseq-", suffix=".tmp")
            weakref.finalize(self, _remove, path, os.getpid())
            try:
                size = 0
                for piece in self._unpack():
                    file_io.write_all(fd, piece, size, path)
                    size += len(piece)
                self.unchanged = file_io.identity(fd)
            finally:
                os.close(fd)
            if size != self.tensor.end:
                found = f"unpacks to {size} bytes, and it promises {self.tensor.end}"
                raise FormatError(found, "the whole file and nothing else", "fetch it again", self.name)
            self.tensor, self._is_unpacked = replace(self.tensor, path=path), True
        return super().read_task(region)


def _remove(path: str, process: int) -> None:
    if os.getpid() == process:  # a fork has the source, too
        with contextlib.suppress(OSError):
            os.unlink(path)
