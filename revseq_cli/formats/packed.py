"""Packed files: gzip, bzip2, xz and zstd, as Python's own modules read them."""

from __future__ import annotations

import contextlib
import importlib
import zlib
from typing import TYPE_CHECKING

from revseq_cli.core import platform, signals, thresholds
from revseq_cli.core.errors import FormatError, RevseqError
from revseq_cli.formats import file_io
from revseq_cli.formats.contents import refuse_bomb

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from revseq_cli.formats.table import Packing


def unpack_hint(packing: Packing, path: str) -> str:
    """How to unpack that file."""
    return f"unpack it first: {packing.unpack} {platform.quoted(path)}"


def stream_of(file: BinaryIO, packing: Packing, name: str) -> BinaryIO:
    """What a packed file unpacks to, as a stream; FormatError where this Python lacks the module."""
    for module in filter(None, (packing.module, packing.package)):
        with contextlib.suppress(ModuleNotFoundError):
            stream: BinaryIO = importlib.import_module(module).open(file)
            return stream
    hint = platform.pip(f"install {packing.package}") if packing.package else ""
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
    with file_io.opened(path, unchanged) as fd, file_io.stream_of(fd) as file:
        yield from unpacked(file, packing, path, file_io.identity(fd).size)


def unpacked(file: BinaryIO, packing: Packing, name: str, stored: int) -> Iterator[bytes]:
    """The same of `stored` packed bytes in a stream; `name` is for messages."""
    done = 0
    with refusing_damage(name), stream_of(file, packing, name) as stream:
        while piece := stream.read(thresholds.PIECE):
            signals.check()
            done += len(piece)
            refuse_bomb(done, stored, unpack_hint(packing, name), name, "unpacks to {} bytes or more, of {}")
            yield piece
