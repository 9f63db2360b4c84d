"""The formats of text: the notation of Microsoft's pages, JSON, and tables of numbers.

Texts are files, arguments or what comes through pipes, and each is parsed and written as a whole.
Tables, .csv and .tsv, hold tensors of two dimensions.
"""

from __future__ import annotations

import collections
import contextlib
import re
from abc import ABC, abstractmethod
from dataclasses import replace
from math import prod
from typing import Any, BinaryIO

from numpy.typing import NDArray

from revseq_cli.core import platform
from revseq_cli.core.dtypes import describe_array
from revseq_cli.core.errors import FormatError, about
from revseq_cli.core.tensors import DataType, TensorDesc, in_braces
from revseq_cli.files.new import NewFile
from revseq_cli.formats import table
from revseq_cli.formats.contract import FileSink, Location, Original, Source, Storage, TextTypes
from revseq_cli.formats.listings import Contents, Item
from revseq_cli.formats.memory import MemorySource, WholeSink
from revseq_cli.formats.refusals import choose_tensor, propose_keys
from revseq_cli.formats.table import Format
from revseq_cli.formats.text_files import MOST_BRACKETS, read_text, refuse_large
from revseq_cli.text import json_text, rows
from revseq_cli.text.examples import LABELS, Text
from revseq_cli.text.tables import (
    Table,
    first_lines,
    is_table,
    parse_table,
    write_cut,
    write_filter,
    write_table,
)
from revseq_cli.text.tensor_text import TensorText

# The types to propose for a number that the default type cannot hold, in this order. FLOAT16 is
# there for a NaN that is written with its bits: only FLOAT16 has the NaN nan(0x7e01).
_OTHER_TYPES = (
    DataType.FLOAT32,
    DataType.FLOAT16,
    DataType.INT64,
    DataType.UINT64,
    DataType.FLOAT64,
    DataType.COMPLEX64,
    DataType.COMPLEX128,
)
_PART_OF_EXAMPLE = re.compile(r"(?P<number>[0-9]{1,9})::(?P<label>\w+)")

# A tensor of a text, whose numbers have not been read.
Unread = TensorText | Table


class TextSource(MemorySource):
    """A tensor of a text, with what the text says besides its numbers; `name` is for messages.

    The data type that the text states counts. If nobody names one, the error for a number that the
    default type cannot hold has a hint.
    """

    def __init__(
        self, item: Unread, types: TextTypes, text: Text, storage: Storage, name: str
    ) -> None:
        stated = item.data_type
        self.assumes_type = not stated and not types.asked
        try:
            values = item.parse_values(stated or types.asked or types.default)
        except FormatError as e:
            if self.assumes_type and types.default.kind == "float":
                e.set_default_hint(_propose_type(item))
            raise
        super().__init__(name, values, storage, text.identity)
        self.others = item.others
        if isinstance(item, Table):
            self.columns = item.header
            self.notes = _describe_header(item, text)


def _propose_type(item: Unread) -> str:
    """A hint to the first type that holds all numbers."""
    for data_type in _OTHER_TYPES:
        with contextlib.suppress(FormatError):
            item.parse_values(data_type)
            return f"to read these numbers, add --dtype {data_type.name}"
    return ""


def _describe_header(numbers: Table, text: Text) -> tuple[str, ...]:
    """A note on a first line that is probably a header, or a first column that is an index."""
    is_counted = f"of {text.name}, 0, 1, 2 and so on, is read as data"
    if numbers.counts_columns:
        command = write_filter(_file_of(text), "tail -n +2")
        return (f"the first line {is_counted}; if it is a header, remove it: {command}",)
    if numbers.counts_rows:
        note = f"the first column {is_counted}; if it is an index, remove it"
        command = write_cut(numbers.text, numbers.separator, _file_of(text))
        if command:
            note += f": {command}"
        return (note,)
    return ()


def _file_of(text: Text) -> str:
    """The path of a text's file, for hints; "" if the text is not from a file."""
    return text.name if text.identity else ""


def require_text(desc: TensorDesc, where: str) -> None:
    """FormatError for a tensor that needs more brackets than are read back."""
    brackets = sum(prod(desc.sizes[:d]) for d in range(len(desc.sizes)))
    if brackets > MOST_BRACKETS:
        found = f"would be a text of {brackets} brackets"
        expected = f"at most {MOST_BRACKETS}, to be read back"
        raise FormatError(found, expected, "to write a binary format, type out.npy", where)


class TextFormat(ABC):
    """A format of text, with the functions of a FormatModule."""

    @abstractmethod
    def find_tensor(self, text: Text, key: str | None, types: TextTypes) -> Source:
        """The tensor of a text that the key names, or the only one."""

    @abstractmethod
    def format_tensor(self, values: NDArray[Any], columns: tuple[str, ...] = ()) -> str:
        """The text of a tensor; `columns` are the names of its columns, if it has any."""

    def require_shape(self, desc: TensorDesc, where: str) -> None:
        """FormatError for a tensor that no text of the format can hold."""
        require_text(desc, where)

    def open_source(self, location: Location, types: TextTypes) -> Source:
        """The tensor that the key names, or the only one."""
        return self.find_tensor(location.text, location.key, types)

    def create_sink(
        self, file: NewFile, template: Source, _key: str, _original: Original | None
    ) -> FileSink:
        """The sink of a new text file, which can be read back."""
        self.require_shape(template.desc, file.name)
        types = TextTypes(None, template.desc.data_type)

        def encode(values: NDArray[Any]) -> bytes:
            data = f"{self.format_tensor(values, template.columns)}\n".encode()
            refuse_large(data, file.name)
            return data

        def read_back(path: str) -> Source:
            text = replace(read_text(path), name=file.name)
            return self.find_tensor(text, None, types)

        return WholeSink(file, template, encode, read_back)

    def write_to(self, stream: BinaryIO, source: Source) -> None:
        """Write the tensor and a line break into a pipe."""
        self.require_shape(source.desc, source.name)
        stream.write(f"{self.format_tensor(source.read(), source.columns)}\n".encode())


# The notation of the pages


class _Notation(TextFormat):
    """Tensors in brackets, with or without a header such as T: (Sizes:{3}, DataType:FLOAT32).

    A text without a header may also be JSON or lines of numbers.
    """

    def find_tensor(self, text: Text, key: str | None, types: TextTypes) -> Source:
        if _is_object(text):
            return JSON.find_tensor(text, key, types)
        has_no_tensors = key is None and not text.items
        if has_no_tensors and is_table(text.text):
            return _open_numbers(text, types)
        tensor = _find_in_example(text, key)
        if tensor:
            return open_notation(text, tensor, types, f"{text.name}::{key}")
        return open_notation(text, _find_by_name(text, key), types)

    def format_tensor(self, values: NDArray[Any], _columns: tuple[str, ...] = ()) -> str:
        """A header with shape and data type, and the rows."""
        return rows.write_tensor("OutputTensor", describe_array(values), values)

    def contents(self, location: Location, types: TextTypes) -> Contents | None:
        """The tensors of a text; None for a text of one tensor, or of none."""
        text = location.text
        if _is_object(text):
            return None
        tensors = _name_tensors(text)
        if len(tensors) < 2:
            return None
        items = []
        for key, tensor in tensors.items():
            item = Item(key, details={"line": str(tensor.line)})
            try:
                desc = tensor.desc or open_notation(text, tensor, types).desc
                item = item._replace(desc=desc, sizes=desc.sizes)
            except FormatError as e:
                item = item.with_reason(e)
            items.append(item)
        return Contents(location.path, "text", tuple(items))


def _is_object(text: Text) -> bool:
    """Whether it is a JSON object."""
    return text.text.lstrip()[:1] == "{"


def _open_numbers(text: Text, types: TextTypes) -> Source:
    """The tensor of lines of numbers, without brackets.

    A number a line, or one line, has one dimension; lines of several numbers have two.
    """
    storage = Storage("text", {"numbers": "alone"})
    with about(text.name):
        numbers = parse_table(text.text, file=_file_of(text))
        return TextSource(numbers, types, text, storage, text.name)


def open_notation(text: Text, tensor: TensorText, types: TextTypes, name: str = "") -> Source:
    """The source of one tensor of a text; FormatError if a value does not fit its data type."""
    if not name:
        name = f"{text.name}: {tensor.name}" if tensor.name else text.name
    storage = Storage("text", {"line": str(tensor.line)})
    with about(name):
        return TextSource(tensor, types, text, storage, name)


def _list_tensors(text: Text) -> list[TensorText]:
    return [item for item in text.items if isinstance(item, TensorText)]


def _find_in_example(text: Text, key: str | None) -> TensorText | None:
    """The tensor of a key such as 2::InputTensor, if there is such an example; None otherwise."""
    match = _PART_OF_EXAMPLE.fullmatch(key or "")
    if match is None:
        return None
    label = match["label"]
    return text.example(int(match["number"])).tensors.get(LABELS.get(label, label))


def _find_by_name(text: Text, key: str | None) -> TensorText:
    """The tensor `key` of a text, or the only one.

    FormatError, which lists all, if there is no such one.
    """
    tensors = _list_tensors(text)
    named = [tensor for tensor in tensors if tensor.name == key]
    if len(named) == 1:
        return named[0]
    if not tensors:
        header = "T: (Sizes:{3}, DataType:FLOAT32)"
        expected = f"rows in brackets, with or without a header such as {header}"
        raise FormatError("contains no tensor", expected, where=text.name)
    keys = _name_tensors(text)
    if not keys:
        raise FormatError("contains several tensors of one name", where=text.name)
    return keys[choose_tensor(keys, key, text.name)]


def _name_tensors(text: Text) -> dict[str, TensorText]:
    """The tensors of a text by what follows ::, as InputTensor or 2::InputTensor.

    If several tensors have one name, those of examples have the number of their example. Tensors
    that have no key of their own are left out.
    """
    tensors = _list_tensors(text)
    counts = collections.Counter(tensor.name for tensor in tensors)
    keys = {tensor.start: tensor.name for tensor in tensors if counts[tensor.name] == 1}
    if len(keys) < len(tensors):
        keys.update(_number_tensors(text))
    return {keys[tensor.start]: tensor for tensor in tensors if tensor.start in keys}


def _number_tensors(text: Text) -> dict[int, str]:
    """The keys of the tensors of examples, such as 2::InputTensor, by where they start.

    One that serves several examples has the number of the first.
    """
    keys: dict[int, str] = {}
    for number, example in enumerate(text.examples, 1):
        for role, tensor in example.tensors.items():
            keys.setdefault(tensor.start, f"{number}::{role}")
    return keys


# JSON


class _Json(TextFormat):
    """A nested list, or an object with Values and perhaps DataType and Sizes.

    With a key, it is the value of that key of an object.
    """

    def find_tensor(self, text: Text, key: str | None, types: TextTypes) -> Source:
        name = text.name if key is None else f"{text.name}::{key}"
        with about(name):
            try:
                tensor = json_text.parse_json(text.text, key)
            except json_text.NotTensorError as e:
                hint = propose_keys(text.name, *e.keys) if _file_of(text) else ""
                e.set_hint(hint)
                raise
            return TextSource(tensor, types, text, Storage("json", {}), name)

    def format_tensor(self, values: NDArray[Any], _columns: tuple[str, ...] = ()) -> str:
        return json_text.write_json(values)


# Tables


class _Tables(TextFormat):
    """Tables with one character between the cells, which people call `word`."""

    def __init__(self, name: str, separator: str, word: str) -> None:
        self._name = name
        self._separator = separator
        self._word = word

    def find_tensor(self, text: Text, key: str | None, types: TextTypes) -> Source:
        name = text.name if key is None else f"{text.name}::{key}"
        file = _file_of(text)
        with about(name):
            cells = parse_table(text.text, self._separator, key, file)
            storage = Storage(self._name, {"separator": self._word})
            try:
                return TextSource(cells, types, text, storage, name)
            except FormatError as e:
                if cells.header and file:
                    e.set_default_hint(_hint_for_columns(cells, file))
                raise

    def format_tensor(self, values: NDArray[Any], columns: tuple[str, ...] = ()) -> str:
        return write_table(values, columns, self._separator)

    def require_shape(self, desc: TensorDesc, where: str) -> None:
        """FormatError for a tensor that is not a table of at least one cell."""
        require_text(desc, where)
        if len(desc.sizes) == 2 and desc.element_count:
            return
        expected = "a table has 2 dimensions and at least one cell"
        found = f"{expected}, but the tensor has shape {in_braces(desc.sizes)}"
        raise FormatError(found, hint="to write another format, type out.npy", where=where)


def _hint_for_columns(cells: Table, file: str) -> str:
    """What to type for a table with words in it: one of its columns, or those after an index."""
    columns = cells.columns_of_numbers
    command = write_cut(cells.text, cells.separator, file)
    if not cells.has_index_of_words or not command:
        return propose_keys(file, *columns)
    lines = ["this can mean two things:", f"all columns but the first: {command}"]
    lines += [f"one column: {platform.as_argument(f'{file}::{column}')}" for column in columns]
    return "\n  ".join(lines)


def choose_piped_format(text: Text, key: str | None) -> Format:
    """The format of a text from a pipe, which has no suffix.

    A table with commas or tabs is read as from a file of tables. With a key, which is then the name
    of a column, other columns may hold words.
    """
    if _is_object(text) or text.items:
        return table.TEXT
    if key is None and not is_table(text.text):
        return table.TEXT
    line = next(first_lines(text.text, 1), "")
    if "," in line or ";" in line:
        return table.CSV
    if "\t" in line.strip():
        return table.TSV
    return table.TEXT


TEXT = _Notation()
JSON = _Json()
CSV = _Tables("csv", ",", "comma")
TSV = _Tables("tsv", "\t", "tab")
