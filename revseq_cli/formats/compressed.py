"""Files that are compressed by gzip, bzip2, xz or zstd, as Python's own modules read them."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator
from types import ModuleType

from revseq_cli import files
from revseq_cli.core import platform, signals, thresholds
from revseq_cli.core.errors import FormatError, RevseqError
from revseq_cli.core.tensors import DataType
from revseq_cli.files.input_file import Identity
from revseq_cli.files.system_errors import make_os_error
from revseq_cli.formats.contract import Source
from revseq_cli.formats.npy import HEAD_BYTES, Header
from revseq_cli.formats.raw import CompressedSource
from revseq_cli.formats.refusals import import_extra, make_damage_error, refuse_bomb
from revseq_cli.formats.table import Compression


def propose_decompression(compression: Compression, path: str) -> str:
    """How to decompress that file."""
    return f"decompress it first: {compression.program} {platform.quote(path)}"


def decompress(
    path: str, compression: Compression, unchanged: Identity | None = None
) -> Iterator[bytes]:
    """The content of a compressed file, piece by piece.

    FormatError for damage, and for a decompression bomb.
    """
    module = _import_module(compression, path)
    size = 0
    with files.open_file(path, unchanged) as fd, fd.stream() as file:
        stored = fd.identity.size
        try:
            with module.open(file) as stream:
                while piece := stream.read(thresholds.PIECE):
                    signals.check()
                    size += len(piece)
                    refuse_bomb(size, stored, propose_decompression(compression, path), path)
                    yield piece
        except (RevseqError, MemoryError):
            raise
        except Exception as e:  # noqa: BLE001 - each module has its own errors for damaged bytes
            raise _as_error(e, path) from None


def _import_module(compression: Compression, path: str) -> ModuleType:
    """The module that decompresses the file; FormatError if this Python lacks it."""
    try:
        return importlib.import_module(compression.module)
    except ModuleNotFoundError:
        found = f"compressed by {compression.name}, which this Python lacks"
        if not compression.package:
            raise FormatError(found, where=path) from None
        return import_extra(compression.package, found, path)


def _as_error(error: Exception, path: str) -> RevseqError:
    """The error for what a module raised while it decompressed the file."""
    if isinstance(error, OSError) and error.errno is not None:
        return make_os_error(path, "read", error)
    what = "truncated" if isinstance(error, EOFError) else "damaged"
    return make_damage_error(f"{what}: it cannot be decompressed", path)


def open_compressed(path: str, compression: Compression, asked: DataType | None) -> Source:
    """The tensor of a compressed .npy file; `asked` is the data type of untyped bytes."""
    with files.open_file(path) as fd:
        identity = fd.identity
    head = b""
    for piece in decompress(path, compression):
        head += piece
        if len(head) >= HEAD_BYTES:
            break
    header = Header.of(head, len(head), path).as_typed(asked, path)
    refuse_bomb(header.end, identity.size, propose_decompression(compression, path), path)
    storage = header.describe_storage(compression=compression.name)
    pieces = functools.partial(decompress, path, compression, identity)
    return CompressedSource(header.locate_elements(path, path), identity, storage, pieces)
