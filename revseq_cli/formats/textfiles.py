"""What all formats of text do alike: files are read and decoded whole, and written whole."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import numpy as np

from revseq_cli.core import thresholds
from revseq_cli.core.errors import FormatError, UsageError
from revseq_cli.core.tensors import DataType
from revseq_cli.formats import file_io
from revseq_cli.formats.contract import FileSink, Source
from revseq_cli.formats.documents import Encoding, Text, TextTypes, encoding_by_mark
from revseq_cli.formats.in_memory import Gathered, MemorySource
from revseq_cli.formats.recognition import looks_like
from revseq_cli.text import literals
from revseq_cli.text.places import error_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from revseq_cli.core.tensors import TensorDesc
    from revseq_cli.formats.atomic_file import AtomicFile
    from revseq_cli.formats.contents import Contents
    from revseq_cli.formats.contract import Address, Layout, Storage
    from revseq_cli.formats.file_io import Identity
    from revseq_cli.formats.table import Packing

# The most bytes of a text: it is parsed whole, and each number takes about a hundred bytes of memory.
LARGEST = 1 << 30
_MOST_BRACKETS = 1 << 26  # each becomes a list, which takes about a hundred bytes


def read_text(path: str, method: Packing | None = None) -> Text:
    """Read a text file, which may be packed; FormatError if it is none, or too large."""
    data, identity = read_bytes(path, method)
    return text_of(data, path, identity)


def read_bytes(path: str, method: Packing | None = None) -> tuple[bytes, Identity]:
    """The bytes of a text file, unpacked, and the state in which it was read; FormatError if they are too many."""
    with file_io.opened(path) as fd:
        identity = file_io.identity(fd)
        if identity.size > LARGEST:
            raise too_large(f"{identity.size} bytes", path)
        if method:
            from revseq_cli.formats import packed  # most files are not

            return joined(packed.pieces(path, method, identity), path), identity
        return file_io.read_some(fd, identity.size, 0, path), identity


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
    """The text of these bytes; FormatError if they are none."""
    encoding, text = decoded(data, name)
    return Text(name, text, identity, encoding)


def decoded(data: bytes, name: str) -> tuple[Encoding, str]:
    """The encoding of these bytes, and their text without a mark; a FormatError says what they look like instead."""
    if (count := data.count(b"[") + data.count(b"{")) > _MOST_BRACKETS:
        raise FormatError(
            f"has {count} brackets", f"at most {_MOST_BRACKETS}", "keep large tensors in .npy or .h5", name
        )
    encoding = encoding_by_mark(data)
    try:
        return encoding, encoding.decode(data)
    except UnicodeDecodeError as e:
        wanted = "UTF-8, or UTF-16 with a mark"
        seems, hint = looks_like(data[:64], name)
        if seems != "something else" and "text" not in seems:
            raise FormatError(f"is not text: it looks like {seems}", wanted, hint, name) from None
        start = len(encoding.mark) + e.start
        before = encoding.decode(data[:start])
        behind = data[start : start + 100].decode(encoding.name, "replace")
        found = f"not text: byte {start} is not {encoding.shown}"
        error = error_at(f"{before}{behind}", len(before), found, wanted).about(name)
        if encoding == Encoding() and b"\0" not in data:
            is_table = name.lower().endswith((".csv", ".tsv"))
            error.hint = "save it as UTF-8; in Excel, as CSV UTF-8" if is_table else "save it as UTF-8"
        raise error from None


class TypedText(Protocol):
    """A tensor of a text: the data type that it states, or None, and its values in a data type."""

    @property
    def data_type(self) -> DataType | None: ...  # noqa: D102

    def values(self, data_type: DataType) -> NDArray[Any]: ...  # noqa: D102


def held(item: TypedText, types: TextTypes, text: Text, storage: Storage, name: str) -> MemorySource:
    """The source of a tensor of a text; `name` is for messages.

    UsageError where the text states another data type than is asked for. Where none is named, a number that the default
    does not hold gets a hint.
    """
    stated = item.data_type
    if stated and types.asked and stated is not types.asked and not types.cast_later:
        raise UsageError(
            f"its DataType is {stated.name}, and {types.asked.name} is asked for",
            f"{stated.name}: revseq does not cast values, and numpy's astype does",
            "remove the option, or change the header", name,
        )  # fmt: skip
    data_type = stated or types.asked or types.default
    try:
        source = MemorySource(name, item.values(data_type), storage, text.identity)
    except FormatError as e:
        if not stated and not types.asked and data_type is DataType.FLOAT32 and not e.hint:
            for larger in (DataType.UINT64, DataType.INT64, DataType.FLOAT64):
                with contextlib.suppress(FormatError):
                    item.values(larger)
                    e.hint = f"add --dtype {larger.name}"
        raise
    source.assumes_type = not stated and not types.asked
    return source


def require_text(desc: TensorDesc, where: str) -> None:
    """FormatError for a data type that cannot be written as text, or for more brackets than can be read back."""
    if desc.data_type.name not in literals.WRITTEN:
        suffix = ".safetensors" if desc.data_type.kind == "minifloat" else ".npy"  # which has no such types
        hint = f"write a binary format, such as out{suffix}"
        raise FormatError(f"{desc.data_type.name} cannot be written as text", hint=hint, where=where)
    if (brackets := sum(prod(desc.sizes[:d]) for d in range(len(desc.sizes)))) > _MOST_BRACKETS:
        found, wanted = f"would be a text of {brackets} brackets", f"at most {_MOST_BRACKETS}, to be read back"
        raise FormatError(found, wanted, "write a binary format, such as out.npy", where)


@dataclass(frozen=True)
class TextFormat:
    """A format of text, as the table calls it: `read` finds a tensor in a text, and `write` makes a text of values.

    `require` raises FormatError for a tensor that no text can hold. `contents` is that of a format whose texts may hold
    several tensors.
    """

    read: Callable[[Text, str | None, TextTypes], Source]
    write: Callable[[NDArray[Any]], str]
    require: Callable[[TensorDesc, str], None] = require_text
    contents: Callable[[Address, TextTypes], Contents | None] | None = None

    def open_source(self, address: Address, types: TextTypes) -> Source:
        """The tensor that the key names, or the only one."""
        return self.read(address.text, address.key, types)

    def create_sink(self, file: AtomicFile, template: Source, key: str, layout: Layout) -> FileSink:  # noqa: ARG002 - it has neither
        """The sink of a new text file."""
        return TextSink(file, template, self)

    def write_to(self, stream: BinaryIO, source: Source) -> None:
        """Write the tensor and a line break into a pipe, piece by piece: its bytes are never all in memory."""
        self.require(source.desc, source.name)
        text, piece = self.write(source.read()), thresholds.TEXT_PIECE
        stream.writelines(text[start : start + piece].encode() for start in range(0, len(text), piece))
        stream.write(b"\n")


class TextSink(Gathered, FileSink):
    """A new text file; the values are gathered in memory, and written at the end."""

    def __init__(self, file: AtomicFile, template: Source, form: TextFormat) -> None:
        form.require(template.desc, file.name)
        super().__init__(file)
        self._form, self._data_type = form, template.desc.data_type
        self.values: NDArray[Any] = np.empty(template.sizes, template.dtype)

    def finish(self) -> None:
        """Write the text; FormatError for one that could not be read back."""
        data = f"{self._form.write(self.values)}\n".encode()
        if len(data) > LARGEST:
            raise too_large(f"{len(data)} bytes", self.file.name)
        self.file.write(data)

    def reopen(self) -> Source:
        """The complete file, as an input."""
        text = read_text(self.file.temporary)
        return self._form.read(Text(self.file.name, text.text, text.identity), None, TextTypes(None, self._data_type))
