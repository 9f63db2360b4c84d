"""The formats of text: the notation of Microsoft's pages, JSON, and tables of numbers.

Texts are files, arguments or what comes through pipes. Files are read, decoded and written as a
whole. Tables, .csv and .tsv, hold tensors of two dimensions.
"""

from __future__ import annotations

import collections
import contextlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from math import prod
from typing import Any, BinaryIO, Protocol

from numpy.typing import NDArray

from revseq_cli import files
from revseq_cli.core import platform
from revseq_cli.core.dtypes import describe_array
from revseq_cli.core.errors import FormatError, about
from revseq_cli.core.tensors import DataType, TensorDesc, in_braces
from revseq_cli.files.base import Identity
from revseq_cli.files.new import NewFile
from revseq_cli.formats import table
from revseq_cli.formats.contract import FileSink, Location, Original, Source, Storage, TextTypes
from revseq_cli.formats.listings import Contents, Item
from revseq_cli.formats.memory import MemorySource, WholeSink
from revseq_cli.formats.refusals import choose_tensor, try_hint
from revseq_cli.formats.table import Compression, Format, encoding_by_mark, looks_like
from revseq_cli.text import json_text, rows
from revseq_cli.text.examples import LABELS, Text
from revseq_cli.text.notation import TensorText
from revseq_cli.text.tables import Table, first_lines, is_table, write_table

# The most bytes of a text: it is parsed as a whole, and each number takes about a hundred bytes of
# memory.
LARGEST = 1 << 30
_MOST_BRACKETS = 1 << 26  # each takes some dozens of bytes while a text is parsed
_BINARY_HINT = "keep large tensors in .npy or .h5"
# For a number that the default type cannot hold, the types to propose. The bits of a NaN are those
# of a narrow float.
_OTHER_TYPES = (
    DataType.FLOAT32,
    DataType.FLOAT16,
    DataType.INT64,
    DataType.UINT64,
    DataType.FLOAT64,
    DataType.COMPLEX64,
    DataType.COMPLEX128,
)
_PART_OF_EXAMPLE = re.compile(r"([0-9]{1,9})::(\w+)")


# Texts


def read_text(path: str, compression: Compression | None = None) -> Text:
    """Read a text file, which may be compressed; FormatError if it is no text, or too large."""
    data, identity = read_bytes(path, compression)
    return text_of(data, path, identity)


def read_bytes(path: str, compression: Compression | None = None) -> tuple[bytes, Identity]:
    """The bytes of a text file, decompressed, and the state in which it was read.

    FormatError if they are too many.
    """
    with files.open_file(path) as fd:
        identity = fd.identity
        if identity.size > LARGEST:
            raise too_large(f"{identity.size} bytes", path)
        if not compression:
            return fd.read_all(), identity
        from revseq_cli.formats.compressed import decompress  # few texts are compressed

        return join(decompress(path, compression, identity), path), identity


def join(pieces: Iterable[bytes], name: str) -> bytes:
    """The pieces of a text as one; FormatError if they are too many bytes."""
    data = bytearray()
    for piece in pieces:
        data += piece
        if len(data) > LARGEST:
            raise too_large(f"more than {LARGEST} bytes", name)
    return bytes(data)


def too_large(size: str, name: str) -> FormatError:
    """The error for a text of that size."""
    expected = f"at most {LARGEST} bytes, since text is parsed as a whole"
    return FormatError(f"a text of {size}", expected, _BINARY_HINT, name)


def text_of(
    data: bytes,
    name: str,
    identity: Identity | None = None,
) -> Text:
    """The text of these bytes, without its mark; a FormatError says what they look like instead."""
    count = data.count(b"[") + data.count(b"{")
    if count > _MOST_BRACKETS:
        expected = f"at most {_MOST_BRACKETS}"
        raise FormatError(f"has {count} brackets", expected, _BINARY_HINT, name)
    encoding, mark = encoding_by_mark(data)
    try:
        text = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError as e:
        raise _not_text(data, name, encoding, len(mark) + e.start) from None
    return Text(name, text, identity, encoding, mark)


def _not_text(
    data: bytes,
    name: str,
    encoding: str,
    offset: int,
) -> FormatError:
    expected = "UTF-8, or UTF-16 with a mark"
    seems, hint = looks_like(data[:64])
    if seems != "something else" and "text" not in seems:
        return FormatError(f"not text: it looks like {seems}", expected, hint, name)
    standard = "UTF-16" if "16" in encoding else "UTF-8"
    hint = "" if "16" in encoding else "save it as UTF-8"
    return FormatError(f"not text: byte {offset} is not {standard}", expected, hint, name)


# Tensors in texts


class Parsed(Protocol):
    """A tensor of a text, whose numbers have not been read."""

    @property
    def data_type(self) -> DataType | None: ...
    @property
    def others(self) -> tuple[str, ...]: ...
    def values(self, data_type: DataType) -> NDArray[Any]: ...


class TextSource(MemorySource):
    """A tensor of a text, with what the text says besides its numbers."""

    def __init__(
        self,
        item: Parsed,
        types: TextTypes,
        text: Text,
        storage: Storage,
        name: str,
    ) -> None:
        stated = item.data_type
        values = item.values(stated or types.asked or types.default)
        super().__init__(name, values, storage, text.identity)
        self.assumes_type = not stated and not types.asked
        self.others = item.others
        if isinstance(item, Table):
            self.columns = item.header
            self.notes = _describe_header(item, text)


def _describe_header(table_of_numbers: Table, text: Text) -> tuple[str, ...]:
    """A note on a first line that is probably a header, and on a first column that is an index."""
    start, rest = "the first", f"of {text.name}, 0, 1, 2 and so on, is read as data; if it is"
    if table_of_numbers.counts_columns:
        command = table_of_numbers.command_without_header(_file_of(text))
        return (f"{start} line {rest} a header, remove it: {command}",)
    if table_of_numbers.counts_rows:
        command = table_of_numbers.command_without_index(_file_of(text))
        words = f": {command}" if command else ""
        return (f"{start} column {rest} an index, remove it{words}",)
    return ()


def _hint_for_columns(table_of_numbers: Table, file: str) -> str:
    """What to type for a table with words in it: one of its columns, or those after an index."""
    columns = table_of_numbers.columns_of_numbers
    command = table_of_numbers.command_without_index(file)
    if not table_of_numbers.has_index_of_words or not command:
        return try_hint(file, *columns)
    lines = ["this can mean two things:", f"all columns but the first: {command}"]
    lines += [f"one column: {platform.as_argument(f'{file}::{column}')}" for column in columns]
    return "\n  ".join(lines)


def read_numbers(
    item: Parsed,
    types: TextTypes,
    text: Text,
    storage: Storage,
    name: str,
) -> TextSource:
    """The source of a tensor of a text; `name` is for messages.

    The data type that the text states counts. If none is named, the error for a number that the
    default type cannot hold has a hint.
    """
    try:
        return TextSource(item, types, text, storage, name)
    except FormatError as e:
        is_assumed = not item.data_type and not types.asked
        if is_assumed and types.default.kind == "float" and not e.hint:
            e.hint = _propose_type(item)
        raise


def _propose_type(item: Parsed) -> str:
    """A hint to the first type that holds all numbers."""
    for data_type in _OTHER_TYPES:
        with contextlib.suppress(FormatError):
            item.values(data_type)
            return f"to read these numbers, add --dtype {data_type.name}"
    return ""


def require_text(desc: TensorDesc, where: str) -> None:
    """FormatError for a tensor that needs more brackets than are read back."""
    brackets = sum(prod(desc.sizes[:d]) for d in range(len(desc.sizes)))
    if brackets > _MOST_BRACKETS:
        found = f"would be a text of {brackets} brackets"
        expected = f"at most {_MOST_BRACKETS}, to be read back"
        raise FormatError(found, expected, "to write a binary format, type out.npy", where)


@dataclass(frozen=True)
class TextFormat:
    """A format of text, as the table calls it.

    `read` finds a tensor in a text, and `write` makes a text of values. `write` also gets the names
    of columns, if there are any. `require` raises FormatError for a tensor that no text can hold.
    `contents` is that of a format whose texts may hold several tensors.
    """

    read: Callable[[Text, str | None, TextTypes], Source]
    write: Callable[[NDArray[Any], tuple[str, ...]], str]
    require: Callable[[TensorDesc, str], None] = require_text
    contents: Callable[[Location, TextTypes], Contents | None] | None = None

    def open_source(
        self,
        location: Location,
        types: TextTypes,
    ) -> Source:
        """The tensor that the key names, or the only one."""
        return self.read(location.text, location.key, types)

    def create_sink(
        self,
        file: NewFile,
        template: Source,
        key: str,  # noqa: ARG002 - a tensor in text has no name
        original: Original | None,  # noqa: ARG002 - a file holds one tensor
    ) -> FileSink:
        """The sink of a new text file, which can be read back."""
        self.require(template.desc, file.name)
        columns = template.columns
        types = TextTypes(None, template.desc.data_type)

        def encode(values: NDArray[Any]) -> bytes:
            data = f"{self.write(values, columns)}\n".encode()
            if len(data) > LARGEST:
                raise too_large(f"{len(data)} bytes", file.name)
            return data

        def read_back(path: str) -> Source:
            return self.read(replace(read_text(path), name=file.name), None, types)

        return WholeSink(file, template, encode, read_back)

    def write_to(
        self,
        stream: BinaryIO,
        source: Source,
    ) -> None:
        """Write the tensor and a line break into a pipe."""
        self.require(source.desc, source.name)
        stream.write(f"{self.write(source.read(), source.columns)}\n".encode())


# The notation of the pages


def _name_tensors(text: Text) -> dict[str, TensorText]:
    """The tensors of a text by what follows ::, as InputTensor or 2::InputTensor.

    The number is that of an example, if a page has several. One that serves several examples has
    the number of the first.
    """
    tensors = [item for item in text.items if isinstance(item, TensorText)]
    counts = collections.Counter(item.name for item in tensors)
    names = {item.start: item.name for item in tensors if counts[item.name] == 1}
    if len(names) < len(tensors):
        for i, example in reversed([*enumerate(text.examples, 1)]):
            names |= {item.start: f"{i}::{role}" for role, item in example.tensors.items()}
    return {names[item.start]: item for item in tensors if item.start in names}


def _list_contents(location: Location, types: TextTypes) -> Contents | None:
    """The tensors of a text; None for a text of one tensor, or of none."""
    text = location.text
    if location.key is not None or _is_object(text):
        return None
    tensors = _name_tensors(text)
    if len(tensors) < 2:
        return None
    items = []
    for key, tensor in tensors.items():
        item = Item(key, details={"line": str(tensor.line)})
        try:
            desc = tensor.desc or notation_source(text, tensor, types).desc
            item = item._replace(desc=desc, sizes=desc.sizes)
        except FormatError as e:
            item = item.with_reason(e)
        items.append(item)
    return Contents(location.path, "text", tuple(items))


def _is_object(text: Text) -> bool:
    """Whether it is a JSON object."""
    return text.text.lstrip()[:1] == "{"


def notation_source(
    text: Text,
    item: TensorText,
    types: TextTypes,
    name: str = "",
) -> Source:
    """The source of one tensor of a text; FormatError if a value does not fit its data type."""
    if not name:
        name = f"{text.name}: {item.name}" if item.name else text.name
    storage = Storage("text", {"line": str(item.line)})
    with about(name):
        return read_numbers(item, types, text, storage, name)


def open_notation(
    text: Text,
    key: str | None,
    types: TextTypes,
) -> Source:
    """The tensor `key` of a text, or the only one.

    FormatError, which lists all, if there is no such one.
    """
    if _is_object(text):
        return open_json(text, key, types)
    if not text.items and key is None and is_table(text.text):
        return _open_table_of_numbers(text, types)
    of_example = _PART_OF_EXAMPLE.fullmatch(key or "")
    if of_example:
        number, label = of_example.groups()
        part = text.example(int(number)).tensors.get(LABELS.get(label, label))
        if part:
            return notation_source(text, part, types, f"{text.name}::{key}")
    tensors = [item for item in text.items if isinstance(item, TensorText)]
    named = [item for item in tensors if item.name == key]
    if len(named) == 1:
        return notation_source(text, named[0], types)
    if not tensors:
        expected = (
            "rows in brackets, with or without a header such as T: (Sizes:{3}, DataType:FLOAT32)"
        )
        raise FormatError("contains no tensor", expected, where=text.name)
    names = _name_tensors(text)
    if not names:
        raise FormatError("contains several tensors of one name", where=text.name)
    return notation_source(text, names[choose_tensor(names, key, text.name)], types)


def _open_table_of_numbers(text: Text, types: TextTypes) -> Source:
    """A number a line, or one line, has one dimension; lines of several numbers have two."""
    with about(text.name):
        numbers = Table(text.text, file=_file_of(text))
        return read_numbers(numbers, types, text, Storage("text", {"numbers": "alone"}), text.name)


def _file_of(text: Text) -> str:
    """The file of a text, as hints repeat it; "" if it is not from a file."""
    return text.name if text.identity else ""


def _write_notation(values: NDArray[Any], _: tuple[str, ...] = ()) -> str:
    """A tensor in the bracket notation: a header with shape and data type, and the rows."""
    return rows.write_tensor("OutputTensor", describe_array(values), values)


# JSON


def open_json(
    text: Text,
    key: str | None,
    types: TextTypes,
) -> Source:
    """A nested list, or an object with Values and perhaps DataType and Sizes.

    With a key, the value of that key.
    """
    name = text.name if key is None else f"{text.name}::{key}"
    with about(name):
        try:
            item = json_text.parse_json(text.text, key)
        except json_text.NotTensorError as e:
            e.hint = try_hint(text.name, *e.keys) if _file_of(text) else ""
            raise
        return read_numbers(item, types, text, Storage("json", {}), name)


def _write_json(values: NDArray[Any], _: tuple[str, ...] = ()) -> str:
    return json_text.write(values)


# Tables


def choose_piped_format(text: Text, key: str | None) -> Format:
    """The format of a text from a pipe, which has no suffix.

    A table with commas or tabs reads as a file does. If a column is named, other columns may hold
    words.
    """
    if _is_object(text) or text.items:
        return table.TEXT
    line = next(first_lines(text.text, 1), "")
    if key is None and not is_table(text.text):
        return table.TEXT
    if "," in line or ";" in line:
        return table.CSV
    return table.TSV if "\t" in line.strip() else table.TEXT


def _make_table_format(
    name: str,
    separator: str,
    word: str,
) -> TextFormat:
    """A format of tables by its name and the separator between cells, which people call `word`."""

    def read(
        text: Text,
        key: str | None,
        types: TextTypes,
    ) -> Source:
        source_name = text.name if key is None else f"{text.name}::{key}"
        with about(source_name):
            cells = Table(text.text, separator, key, _file_of(text))
            storage = Storage(name, {"separator": word})
            try:
                return read_numbers(cells, types, text, storage, source_name)
            except FormatError as e:
                if cells.header and _file_of(text) and not e.hint:
                    e.hint = _hint_for_columns(cells, _file_of(text))
                raise

    def write(values: NDArray[Any], columns: tuple[str, ...]) -> str:
        return write_table(values, columns, separator)

    return TextFormat(read, write, _require_table)


def _require_table(desc: TensorDesc, where: str) -> None:
    """FormatError for a tensor that is no table of at least one cell."""
    require_text(desc, where)
    if len(desc.sizes) == 2 and desc.element_count:
        return
    shape = in_braces(desc.sizes)
    found = f"a table has 2 dimensions and at least one cell, but the tensor has shape {shape}"
    raise FormatError(found, hint="to write another format, type out.npy", where=where)


TEXT = TextFormat(open_notation, _write_notation, contents=_list_contents)
JSON = TextFormat(open_json, _write_json)
CSV = _make_table_format("csv", ",", "comma")
TSV = _make_table_format("tsv", "\t", "tab")
