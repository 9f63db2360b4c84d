"""Texts as a whole: their bytes, their encoding, and how large they may be."""

from __future__ import annotations

from collections.abc import Iterable

from revseq_cli import files
from revseq_cli.core.errors import FormatError
from revseq_cli.files.input_file import Identity
from revseq_cli.formats.table import Compression, describe_head, find_encoding
from revseq_cli.text.examples import Text

# The most bytes of a text: it is parsed as a whole, and each number takes about a hundred bytes of
# memory.
LARGEST = 1 << 30
MOST_BRACKETS = 1 << 26  # each takes some dozens of bytes while a text is parsed
_BINARY_HINT = "keep large tensors in .npy or .h5"


def read_text(path: str, compression: Compression | None = None) -> Text:
    """Read a text file; FormatError if it is not text, or too large."""
    data, identity = read_bytes(path, compression)
    return decode_text(data, path, identity)


def read_bytes(path: str, compression: Compression | None = None) -> tuple[bytes, Identity]:
    """The bytes of a text file, decompressed, and the state in which it was read.

    FormatError if they are too many.
    """
    with files.open_file(path) as fd:
        identity = fd.identity
        if identity.size > LARGEST:
            raise _make_size_error(f"{identity.size} bytes", path)
        if not compression:
            return fd.read_all(), identity
        from revseq_cli.formats.compressed import decompress  # few texts are compressed

        return join_pieces(decompress(path, compression, identity), path), identity


def join_pieces(pieces: Iterable[bytes], where: str) -> bytes:
    """The pieces of a text as one; FormatError if they are too many bytes."""
    data = bytearray()
    for piece in pieces:
        data += piece
        if len(data) > LARGEST:
            raise _make_size_error(f"more than {LARGEST} bytes", where)
    return bytes(data)


def refuse_large(data: bytes, where: str) -> None:
    """FormatError for a text that would be too large to be read."""
    if len(data) > LARGEST:
        raise _make_size_error(f"{len(data)} bytes", where)


def _make_size_error(size: str, where: str) -> FormatError:
    """The error for a text of that size."""
    expected = f"at most {LARGEST} bytes, since text is parsed as a whole"
    return FormatError(f"a text of {size}", expected, _BINARY_HINT, where)


def decode_text(data: bytes, name: str, identity: Identity | None = None) -> Text:
    """The text of these bytes, without its mark.

    FormatError, which says what they look like, if they are not text.
    """
    count = data.count(b"[") + data.count(b"{")
    if count > MOST_BRACKETS:
        raise FormatError(f"has {count} brackets", f"at most {MOST_BRACKETS}", _BINARY_HINT, name)
    encoding, mark = find_encoding(data)
    try:
        text = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError as e:
        raise _make_decoding_error(data, name, encoding, len(mark) + e.start) from None
    return Text(name, text, identity, encoding, mark)


def _make_decoding_error(data: bytes, name: str, encoding: str, offset: int) -> FormatError:
    """The error for bytes that cannot be decoded from that offset on."""
    expected = "UTF-8, or UTF-16 with a mark"
    seems, hint = describe_head(data[:64])
    if seems != "something else" and "text" not in seems:
        return FormatError(f"not text: it looks like {seems}", expected, hint, name)
    standard = "UTF-8"
    hint = "save it as UTF-8"
    if "16" in encoding:
        standard = "UTF-16"
        hint = ""
    return FormatError(f"not text: byte {offset} is not {standard}", expected, hint, name)
