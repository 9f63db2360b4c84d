"""Files and pipes that are compressed as a whole, by gzip, Zstandard, xz or bzip2: their bytes, piece by piece.

A compressed file is one or more members, each compressed by itself, as these programs read and write it.
"""

from __future__ import annotations

import io
import itertools
import zlib
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from revseq_cli.core import signals, system, thresholds
from revseq_cli.core.errors import FormatError
from revseq_cli.formats import file_io
from revseq_cli.formats.contract import not_whole, refuse_bomb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from revseq_cli.formats.table import Compression

UNPACKS = "unpacks to {} bytes or more from {}"  # what is wrong with a bomb
_MEMORY = 1 << 28  # bytes for a dictionary of xz; its highest level takes a quarter


class _Inflater:
    """zlib's unpacker of gzip, with the ways of the others."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(16 + zlib.MAX_WBITS)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        """Whether the member has ended."""
        return self._zlib.eof

    @property
    def unused_data(self) -> bytes:
        """The bytes behind the member's end."""
        return self._zlib.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Take more bytes, and return at most `max_length` unpacked ones."""
        unpacked = self._zlib.decompress(self._zlib.unconsumed_tail + data, max_length)
        self.needs_input = not self._zlib.unconsumed_tail and len(unpacked) < max_length
        return unpacked


class _Library(NamedTuple):
    """How a library packs and unpacks a member, and what it raises for damage.

    An unpacker has what lzma.LZMADecompressor has.
    """

    unpacker: Callable[[Any], Any]
    packer: Callable[[Any], Any]
    damage: Callable[[Any], type[Exception]]


# At the levels that the programs take by default. No file says when it was made, so that equal tensors give equal
# files. zstd gets a checksum, which the others have anyway.
_LIBRARIES = {
    "gzip": _Library(
        lambda _: _Inflater(),
        lambda zlib: zlib.compressobj(6, zlib.DEFLATED, 16 + zlib.MAX_WBITS),
        lambda zlib: zlib.error,
    ),
    "zstd": _Library(
        lambda zstd: zstd.ZstdDecompressor(),
        lambda zstd: zstd.ZstdCompressor(options={zstd.CompressionParameter.checksum_flag: 1}),
        lambda zstd: zstd.ZstdError,
    ),
    "xz": _Library(
        lambda lzma: lzma.LZMADecompressor(lzma.FORMAT_XZ, _MEMORY),
        lambda lzma: lzma.LZMACompressor(),
        lambda lzma: lzma.LZMAError,
    ),
    "bzip2": _Library(lambda bz2: bz2.BZ2Decompressor(), lambda bz2: bz2.BZ2Compressor(), lambda _: OSError),
}  # fmt: skip


def library(compression: Compression, where: str) -> Any:  # noqa: ANN401 - one of several modules
    """The module that packs and unpacks; FormatError about the file `where` if there is none."""
    for name in filter(None, (compression.module, compression.package)):
        try:
            return import_module(name)
        except ImportError:  # in an older Python, or in one that was built without it
            continue
    wanted, hint = f"a Python that has {compression.module}", ""
    if compression.package:
        wanted, hint = f"the package {compression.package}", system.pip(f"install {compression.package}")
    raise FormatError(f"needs {compression.name}, which this Python lacks", wanted, hint, where)


def decompressed(pieces: Iterable[bytes], compression: Compression, where: str) -> Iterator[bytes]:
    """Unpack what the pieces hold, in pieces; FormatError for damage, a cut end, and a bomb."""
    means, module = _LIBRARIES[compression.name], library(compression, where)
    engine: Any = None
    read = done = members = 0
    for piece in pieces:
        signals.check()
        data, read = piece, read + len(piece)
        while data or (engine and not engine.needs_input):
            if engine is None and members:
                data = data.lstrip(b"\0")  # padding, for tapes
                if not data:
                    break
            engine = engine or means.unpacker(module)
            try:
                part, data = engine.decompress(data, thresholds.UNPACKED_AT_ONCE), b""
            except means.damage(module) as e:
                raise _damaged(e, members, compression, where) from None
            done += len(part)
            refuse_bomb(done, read, unpack_hint(compression, where), where, UNPACKS)
            if part:
                yield part
            if engine.eof:
                data, engine, members = engine.unused_data, None, members + 1
    if engine or not members:
        raise not_whole(f"is truncated: its {compression.name} data end after {read} bytes, too early", where)


def _damaged(error: Exception, members: int, compression: Compression, where: str) -> FormatError:
    if "emory" in str(error):
        found, wanted = (
            f"needs more memory to unpack than {compression.name} allows by default",
            "a smaller window",
        )
        return FormatError(found, wanted, unpack_hint(compression, where), where)
    found = f"is damaged: its {compression.name} data cannot be unpacked"
    if members:
        found = f"is damaged: something else follows its {compression.name} data"
    return FormatError(found, "the whole file and nothing else", "fetch it again", where)


def unpack_hint(compression: Compression, path: str) -> str:
    """How to unpack that file."""
    return f"unpack it first: {compression.unpack} {system.quoted(path)}"


def file_pieces(fd: int, where: str) -> Iterator[bytes]:
    """The bytes of an open file, in pieces."""
    for place in range(0, file_io.identity(fd).size, thresholds.PACKED_AT_ONCE):
        yield file_io.read_some(fd, thresholds.PACKED_AT_ONCE, place, where)


def head(fd: int, compression: Compression, count: int, where: str) -> bytes:
    """The first unpacked bytes of an open file: `count` of them, or fewer at its end."""
    data = b""
    for piece in decompressed(file_pieces(fd, where), compression, where):
        data += piece
        if len(data) >= count:
            break
    return data[:count]


def compressed(pieces: Iterable[bytes], compression: Compression, where: str) -> Iterator[bytes]:
    """The pieces packed as one member."""
    engine = _LIBRARIES[compression.name].packer(library(compression, where))
    for piece in pieces:
        signals.check()
        yield engine.compress(piece)
    yield engine.flush()


class Unpacking(io.RawIOBase):
    """What a pipe holds, unpacked, as a stream; `first` has been read from it already."""

    def __init__(self, stream: io.BufferedIOBase, first: bytes, compression: Compression, where: str) -> None:
        rest = iter(lambda: stream.read1(thresholds.PACKED_AT_ONCE), b"")
        self._pieces = decompressed(itertools.chain([first], rest), compression, where)
        self._left = b""

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - any buffer
        """Fill the buffer, or a part of it; 0 at the end."""
        self._left = self._left or next(self._pieces, b"")
        part, self._left = self._left[: len(buffer)], self._left[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)
