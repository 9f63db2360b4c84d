"""Text files for the formats `text` and `json`: read and decoded whole, written whole."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from revseq_cli.formats import encodings
from revseq_cli.formats.contract import FileSink, Source
from revseq_cli.formats.documents import Text, TextTypes
from revseq_cli.formats.held import Gathered
from revseq_cli.formats.recognition import looks_like
from revseq_cli.formats.storage import positioned
from revseq_cli.ground.errors import FormatError, UsageError
from revseq_cli.texts import literals, notebooks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from revseq_cli.formats.storage.newfile import NewFile
    from revseq_cli.formats.storage.positioned import Identity
    from revseq_cli.formats.table import Packing
    from revseq_cli.ground.tensors import DataType, TensorDesc

# The most bytes of a text: it is parsed whole, and each number takes about a hundred bytes of memory.
LARGEST = 1 << 30
_PIECE = 1 << 20  # characters
_MOST_BRACKETS = 1 << 26  # each becomes a list, which takes about a hundred bytes


def read_text(path: str, method: Packing | None = None) -> Text:
    """Read a text file, which may be packed; FormatError if it is none, or too large."""
    data, identity = read_bytes(path, method)
    return text_of(data, path, identity)


def read_bytes(path: str, method: Packing | None = None) -> tuple[bytes, Identity]:
    """The bytes of a text file, unpacked, and the state in which it was read; FormatError if they are too many."""
    with positioned.opened(path) as fd:
        identity = positioned.identity(fd)
        if identity.size > LARGEST:
            raise too_large(f"{identity.size} bytes", path)
        if method:
            from revseq_cli.formats import packing  # most files are not packed

            return joined(packing.unpacked(packing.file_pieces(fd, path), method, path), path), identity
        return positioned.read_some(fd, identity.size, 0, path), identity


def joined(pieces: Iterable[bytes], name: str) -> bytes:
    """The pieces of a text as one; FormatError if they are too many bytes."""
    data = bytearray()
    for piece in pieces:
        data += piece
        if len(data) > LARGEST:
            raise too_large(f"more than {LARGEST} bytes", name)
    return bytes(data)


def too_large(size: str, name: str) -> FormatError:
    """The error for a text of that size."""
    wanted = f"at most {LARGEST} bytes, since text is parsed whole"
    return FormatError(f"is a text of {size}", wanted, "keep large tensors in .npy or .h5", name)


def text_of(data: bytes, name: str, identity: Identity | None = None) -> Text:
    """The text of these bytes; of a notebook, that of its Markdown cells. FormatError if they are none."""
    encoding, whole = _decoded(data, name)
    excerpt = None
    if name.lower().endswith(notebooks.SUFFIX):
        try:
            excerpt = notebooks.markdown(whole)
        except FormatError as e:
            raise e.about(name) from None
    return Text(name, excerpt.text if excerpt else whole, identity, encoding, excerpt)


def decode(data: bytes, name: str) -> str:
    """The text of these bytes, without a byte order mark; a FormatError says what they look like if they are none."""
    return _decoded(data, name)[1]


def _decoded(data: bytes, name: str) -> tuple[encodings.Encoding, str]:
    if (count := data.count(b"[") + data.count(b"{")) > _MOST_BRACKETS:
        raise FormatError(
            f"has {count} brackets", f"at most {_MOST_BRACKETS}", "keep large tensors in .npy or .h5", name
        )
    try:
        encoding = encodings.of(data)
    except FormatError as e:
        raise e.about(name) from None
    try:
        return encoding, encoding.decode(data)
    except UnicodeDecodeError as e:
        seems, hint = looks_like(data[:64], name)
        if seems == "something else" or "text" in seems:
            seems = f"byte {e.start + len(encoding.mark)} is not {encoding.shown}"
            may_be_text = encoding == encodings.Encoding() and b"\0" not in data
            hint = "save it as UTF-8; in Excel, as CSV UTF-8" if may_be_text else ""
        else:
            seems = f"it looks like {seems}"
        wanted = "UTF-8, or UTF-16 with a mark, or the charset that a page's head states"
        raise FormatError(f"is not text: {seems}", wanted, hint, name) from None


def choose_type(stated: DataType | None, types: TextTypes, name: str) -> DataType:
    """The data type of a text: the stated one, else the asked one, else the default; UsageError if two disagree."""
    if stated and types.asked and stated is not types.asked and not types.cast_later:
        raise UsageError(
            f"its DataType is {stated.name}, and {types.asked.name} is asked for", "types are never changed silently",
            "leave the option out, or change the header", name,
        )  # fmt: skip
    return stated or types.asked or types.default


def require_text(desc: TensorDesc, where: str) -> None:
    """FormatError for a data type that cannot be written as text, or for more brackets than can be read back."""
    if desc.data_type.name not in literals.WRITTEN:
        raise FormatError(
            f"{desc.data_type.name} cannot be written as text",
            hint="write a binary format, such as out.npy",
            where=where,
        )
    if (brackets := sum(prod(desc.sizes[:d]) for d in range(len(desc.sizes)))) > _MOST_BRACKETS:
        found, wanted = f"would be a text of {brackets} brackets", f"at most {_MOST_BRACKETS}, to be read back"
        raise FormatError(found, wanted, "write a binary format, such as out.npy", where)


def write_text(stream: BinaryIO, text: str) -> None:
    """Write a text and a line break into a pipe, piece by piece: its bytes are never in memory as a whole."""
    stream.writelines(text[start : start + _PIECE].encode() for start in range(0, len(text), _PIECE))
    stream.write(b"\n")


class TextSink(Gathered, FileSink):
    """A new text file; the values are gathered in memory, and written at the end.

    `write` makes the text of the values, and `read` parses it to verify it.
    """

    def __init__(
        self, file: NewFile, like: Source, write: Callable[[NDArray[Any]], str], read: Callable[..., Source]
    ) -> None:
        require_text(like.desc, file.name)
        super().__init__(file)
        self._write, self._read, self._data_type = write, read, like.desc.data_type
        self.values: NDArray[Any] = np.empty(like.sizes, like.dtype)

    def finish(self) -> None:
        """Write the text."""
        self.file.write(f"{self._write(self.values)}\n".encode())

    def reopen(self) -> Source:
        """The complete file, as an input."""
        text = read_text(self.file.temporary)
        return self._read(Text(self.file.name, text.text, text.identity), None, TextTypes(None, self._data_type))
