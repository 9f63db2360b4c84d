"""The formats of text: the notation of Microsoft's pages, JSON, and tables of numbers, in files, arguments and pipes.

Files are read and decoded whole, and written whole. Tables, .csv and .tsv, are tensors of rank 2.
"""

from __future__ import annotations

import collections
import contextlib
import csv
import itertools
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from math import prod
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from revseq_cli import files
from revseq_cli.core.dtypes import describe, require_sizes
from revseq_cli.core.errors import FormatError, about, listed
from revseq_cli.core.tensors import MOST_DIMENSIONS, DataType, TensorDesc
from revseq_cli.files.base import Identity
from revseq_cli.files.new import NewFile
from revseq_cli.formats.contents import Contents, Item, chosen, refuse_key
from revseq_cli.formats.contract import Address, FileSink, Original, Source, Storage, TextTypes
from revseq_cli.formats.raw import MemorySource, WholeSink
from revseq_cli.formats.table import Packing, encoding_by_mark, looks_like
from revseq_cli.text import numbers
from revseq_cli.text.examples import LABELS, Text
from revseq_cli.text.notation import TensorText, body_at, error_at, lines_of
from revseq_cli.text.numbers import is_number

# The most bytes of a text: it is parsed whole, and each number takes about a hundred bytes of memory.
LARGEST = 1 << 30
_MOST_BRACKETS = 1 << 26  # each takes some dozens of bytes while a text is parsed
_JSON = "a nested list, or an object of DataType, Sizes and Values"
# Where the values begin: of a text that is a list, and behind their key. A quote inside a string has a \ before it.
_VALUES = re.compile(r'\s*(?=\[)|(?s:.*?)(?<!\\)"Values"\s*:\s*')
_LINE = re.compile(r"^[^\S\n]*[^\s#].*", re.MULTILINE)  # of a table, that is no comment


def read_text(path: str, packing: Packing | None = None) -> Text:
    """Read a text file, which may be packed; FormatError if it is none, or too large."""
    data, identity = read_bytes(path, packing)
    return text_of(data, path, identity)


def read_bytes(path: str, packing: Packing | None = None) -> tuple[bytes, Identity]:
    """The bytes of a text file, unpacked, and the state in which it was read; FormatError if they are too many."""
    with files.open_file(path) as fd:
        identity = fd.identity
        if identity.size > LARGEST:
            raise too_large(f"{identity.size} bytes", path)
        if not packing:
            return fd.read_all(), identity
        from revseq_cli.formats.packed import unpack  # few texts are packed

        return joined(unpack(path, packing, identity), path), identity


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
    return FormatError(f"a text of {size}", wanted, "keep large tensors in .npy or .h5", name)


def text_of(data: bytes, name: str, identity: Identity | None = None) -> Text:
    """The text of these bytes, without its mark; a FormatError says what they look like instead."""
    if (count := data.count(b"[") + data.count(b"{")) > _MOST_BRACKETS:
        hint = "keep large tensors in .npy or .h5"
        raise FormatError(f"has {count} brackets", f"at most {_MOST_BRACKETS}", hint, name)
    encoding, mark = encoding_by_mark(data)
    try:
        return Text(name, data[len(mark) :].decode(encoding), identity, encoding, mark)
    except UnicodeDecodeError as e:
        wanted = "UTF-8, or UTF-16 with a mark"
        seems, hint = looks_like(data[:64])
        if seems != "something else" and "text" not in seems:
            raise FormatError(f"not text: it looks like {seems}", wanted, hint, name) from None
        found = f"not text: byte {len(mark) + e.start} is not {'UTF-16' if '16' in encoding else 'UTF-8'}"
        raise FormatError(found, wanted, "" if mark else "save it as UTF-8", name) from None


def held(
    item: TensorText | Table, types: TextTypes, text: Text, storage: Storage, name: str
) -> MemorySource:
    """The source of a tensor of a text; `name` is for messages.

    What the text states counts. Where no data type is named, a number that the default does not hold gets a hint.
    """
    stated = item.data_type
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
    """FormatError for a data type that cannot be written as text, or for more brackets than are read back."""
    if desc.data_type.kind not in numbers.WRITTEN:
        suffix = (
            ".safetensors" if desc.data_type.kind == "minifloat" else ".npy"
        )  # which has no such types
        hint = f"write a binary format, such as out{suffix}"
        raise FormatError(
            f"{desc.data_type.name} cannot be written as text", hint=hint, where=where
        )
    if (brackets := sum(prod(desc.sizes[:d]) for d in range(len(desc.sizes)))) > _MOST_BRACKETS:
        found, wanted = (
            f"would be a text of {brackets} brackets",
            f"at most {_MOST_BRACKETS}, to be read back",
        )
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

    def create_sink(
        self,
        file: NewFile,
        template: Source,
        key: str,  # noqa: ARG002 - a tensor in text has no name
        original: Original | None,  # noqa: ARG002 - a file holds one tensor
    ) -> FileSink:
        """The sink of a new text file, which can be read back."""
        self.require(template.desc, file.name)

        def message(values: NDArray[Any]) -> bytes:
            data = f"{self.write(values)}\n".encode()
            if len(data) > LARGEST:
                raise too_large(f"{len(data)} bytes", file.name)
            return data

        def read(path: str) -> Source:
            return self.read(
                replace(read_text(path), name=file.name),
                None,
                TextTypes(None, template.desc.data_type),
            )

        return WholeSink(file, template, message, read)

    def write_to(self, stream: BinaryIO, source: Source) -> None:
        """Write the tensor and a line break into a pipe."""
        self.require(source.desc, source.name)
        stream.write(f"{self.write(source.read())}\n".encode())


def _named(text: Text) -> dict[str, TensorText]:
    """The tensors of a text by what stands behind ::, as InputTensor, or 2::InputTensor where a page has several.

    One that serves several examples has the number of the first.
    """
    tensors = [item for item in text.items if isinstance(item, TensorText)]
    counts = collections.Counter(item.name for item in tensors)
    names = {item.start: item.name for item in tensors if counts[item.name] == 1}
    if len(names) < len(tensors):
        for i, example in reversed([*enumerate(text.examples, 1)]):
            names |= {item.start: f"{i}::{role}" for role, item in example.tensors.items()}
    return {names[item.start]: item for item in tensors if item.start in names}


def _contents(address: Address, types: TextTypes) -> Contents | None:
    """The tensors of a text; None for a text of one tensor, or of none."""
    text = address.text
    if address.key is not None or text.text.lstrip()[:1] == "{" or len(named := _named(text)) < 2:
        return None
    items = []
    for key, tensor in named.items():
        item = Item(key, details={"line": str(tensor.line)})
        try:
            desc = tensor.desc or notation_source(text, tensor, types).desc
            item = item._replace(desc=desc, sizes=desc.sizes)
        except FormatError as e:
            item = item.refused(e)
        items.append(item)
    return Contents(address.path, "text", tuple(items))


def notation_source(text: Text, item: TensorText, types: TextTypes, name: str = "") -> Source:
    """The source of one tensor of a text; FormatError if a value does not fit its data type."""
    name = name or (f"{text.name}: {item.name}" if item.name else text.name)
    with about(name):
        return held(item, types, text, Storage("text", {"line": str(item.line)}), name)


def open_notation(text: Text, key: str | None, types: TextTypes) -> Source:
    """The tensor `key` of a text, or the only one; FormatError, which lists all, if there is no such one."""
    if text.text.lstrip()[:1] == "{":
        return open_json(text, key, types)
    if not text.items and key is None and is_table(text.text):
        # A number a line, or one line, has rank 1; lines of several numbers have rank 2.
        with about(text.name):
            return held(
                Table(text.text), types, text, Storage("text", {"numbers": "alone"}), text.name
            )
    if of_example := re.fullmatch(r"([0-9]{1,9})::(\w+)", key or ""):
        number, label = of_example.groups()
        if part := text.example(int(number)).tensors.get(LABELS.get(label, label)):
            return notation_source(text, part, types, f"{text.name}::{key}")
    tensors = [item for item in text.items if isinstance(item, TensorText)]
    if len(alone := [item for item in tensors if item.name == key]) == 1:
        return notation_source(text, alone[0], types)
    named = _named(text)
    if tensors and not named:
        raise FormatError("contains several tensors of one name", where=text.name)
    if not tensors:
        wanted = (
            "rows in brackets, with or without a header such as T: (Sizes:{3}, DataType:FLOAT32)"
        )
        raise FormatError("contains no tensor", wanted, where=text.name)
    return notation_source(text, named[chosen(named, key, text.name)], types)


def write_notation(values: NDArray[Any]) -> str:
    """A tensor in the bracket notation: a header with sizes and data type, and the rows in brackets."""
    return numbers.tensor_text("OutputTensor", describe(values), values)


def open_json(text: Text, key: str | None, types: TextTypes) -> Source:
    """A nested list, or an object with Values and perhaps DataType and Sizes."""
    refuse_key(key, "a JSON file", text.name)
    with about(text.name):
        return held(_json_tensor(text.text), types, text, Storage("json", {}), text.name)


def _json_tensor(text: str) -> TensorText:
    """The tensor of a JSON text, a nested list or an object; FormatError for what is none.

    The values are read as the bracket notation is, and the rest, in which 0 stands for them, as JSON.
    """
    if not text or text.isspace():
        raise FormatError("empty", _JSON)
    values = _VALUES.match(text)
    tensor = body_at(text, values.end()) if values else None
    start, stop = (tensor.opened, tensor.stop) if tensor else (0, 0)
    if tensor and text.count("[", start, stop) != text.count("]", start, stop):
        _ = tensor.body  # which tells where a bracket is missing
    try:
        entries = json.loads(
            f"{text[:start]}0{text[stop:]}" if tensor else text,
            object_pairs_hook=numbers.unique,
            parse_int=lambda digits: int(
                digits[:25]
            ),  # of a size; Python refuses thousands of digits
        )
    except json.JSONDecodeError as e:
        at = e.pos + stop - start - 1 if tensor and e.pos > start else e.pos
        raise error_at(text, at, f"not JSON: {e.msg}") from None
    except RecursionError:
        raise FormatError(
            "nested too deep", f"at most {MOST_DIMENSIONS} dimensions, and 8 in DirectML"
        ) from None
    if tensor and not isinstance(entries, dict):
        return tensor
    if not tensor or set(entries) - {"DataType", "Sizes", "Values"}:
        keys = f" with {listed(entries)}" if isinstance(entries, dict) and entries else ""
        raise FormatError(f"is JSON, but not a tensor{keys}", _JSON)
    data_type = (
        None if entries.get("DataType") is None else DataType.parse(str(entries["DataType"]))
    )
    if (sizes := entries.get("Sizes")) is not None:
        if not isinstance(sizes, list) or not all(
            type(size) is int and 0 <= size < 1 << 63 for size in sizes
        ):
            raise FormatError("Sizes is not a list of sizes", "integers of at least 0")
        sizes = tuple(sizes)
        require_sizes(sizes, "")
    return replace(tensor, stated=(data_type, sizes))


def write_json(values: NDArray[Any]) -> str:
    """The JSON object of a tensor, a row a line; NaN and infinities are strings."""

    def quoted(values: NDArray[Any]) -> list[str]:
        texts = numbers.render(values)
        for i in np.flatnonzero(~np.isfinite(values)).tolist():
            texts[i] = f'"{texts[i]}"'
        return texts

    desc = describe(values)
    head = f'{{"DataType": "{desc.data_type.name}", "Sizes": {list(desc.sizes)}, "Values":\n'
    return head + numbers.body(numbers.rows_of(values, quoted), desc.sizes) + "}"


class Table:
    """The rows of a text, and the place in it where the line of each begins.

    FormatError where lines differ in the number of their cells, and for other tables. Without a separator, a line may
    have commas or blanks; with one, a first line that has no number is left out. Lines that begin with # are comments,
    as NumPy writes its header. A table without a separator has rank 1 where it is one line, or one number a line.
    """

    data_type = None  # it states none

    def __init__(self, text: str, separator: str | None = None) -> None:
        self.text, self.separator = lines_of(text), separator
        lines = [*_LINE.finditer(self.text)]
        rows, starts = (
            [_cells(line[0], separator) for line in lines],
            [line.start() for line in lines],
        )
        if separator and rows and not rows[0][0] and any(rows[0]):
            found = "an empty cell at the start of the first line, as pandas writes it above the column of its index"
            raise error_at(text, starts[0], found, 'what to_csv("x.csv", index=False) writes')
        # 1.0.0 is a mistake, and no name.
        if (
            separator
            and rows
            and not any(is_number(cell) or re.match(r"[+-]?\.?\d", cell) for cell in rows[0])
        ):
            rows, starts = rows[1:], starts[1:]
        if not rows:
            raise FormatError("contains no number", "a table of numbers")
        self.rows, self.starts, self.width = rows, starts, len(rows[0])
        for start, row in zip(starts, rows, strict=True):
            if len(row) != self.width:
                cells = f"{len(row)} cell{'s' if len(row) > 1 else ''}"
                found = f"{cells}, and the first line of numbers has {self.width}"
                raise error_at(text, start, found, "lines of one length")

    def values(self, data_type: DataType) -> NDArray[Any]:
        """The numbers as an array; FormatError, with line and column, for one that the type cannot hold."""
        try:
            values = numbers.parse([*itertools.chain.from_iterable(self.rows)], data_type)
        except numbers.LiteralError as e:
            row, column = divmod(e.index, self.width)
            cell, start = self.rows[row][column], self.starts[row]
            comma = "," in self.text[start:].partition("\n")[0]
            cells = (
                f" *(?:[^{self.separator or ','}]*.)"
                if self.separator or comma
                else r"\s*(?:\S+\s+)"
            )
            before = re.compile(f"{cells}{{{column}}} *").match(self.text, start)
            wanted = "" if is_number(cell) else "a number in each cell, or nan for a missing one"
            problem = e.problem if cell else "this cell is empty"
            raise error_at(self.text, before.end() if before else start, problem, wanted) from None
        is_line = not self.separator and 1 in (len(self.rows), self.width)
        return values if is_line else values.reshape(-1, self.width)


def is_table(text: str) -> bool:
    """Whether a text is lines of numbers: half the cells of the first line are, or all of the second."""
    lines = [_cells(line[0], None) for line in itertools.islice(_LINE.finditer(lines_of(text)), 2)]
    counts = [sum(map(is_number, cells)) for cells in lines]
    return bool(lines) and (2 * counts[0] >= len(lines[0]) or counts[-1] == len(lines[-1]))


def _cells(line: str, separator: str | None) -> list[str]:
    if not separator and "," not in line:
        return line.split()
    cells = line.split(separator or ",")
    if '"' in line:
        [cells] = csv.reader([line], delimiter=separator or ",", skipinitialspace=True)
    return [cell.strip() for cell in cells]


def _table_format(name: str, separator: str, word: str) -> TextFormat:
    """A format of tables by its name, and by what stands between cells, which people call `word`."""

    def read(text: Text, key: str | None, types: TextTypes) -> Source:
        refuse_key(key, f"a .{name} file", text.name)
        storage = Storage(name, {"separator": word})
        with about(text.name):
            return held(Table(text.text, separator), types, text, storage, text.name)

    def write(values: NDArray[Any]) -> str:
        texts, width = numbers.render(values), values.shape[1]
        return "\n".join(
            separator.join(texts[start : start + width]) for start in range(0, len(texts), width)
        )

    return TextFormat(read, write, _require_table)


def _require_table(desc: TensorDesc, where: str) -> None:
    """FormatError for a tensor that is no table of at least one cell."""
    require_text(desc, where)
    sizes = desc.sizes
    if len(sizes) == 2 and desc.element_count:
        return
    found, wanted = (
        f"contains one table, and the tensor is {desc}",
        "2 dimensions, and no size of 0",
    )
    raise FormatError(found, wanted, "write another format, such as out.npy", where)


TEXT, JSON = (
    TextFormat(open_notation, write_notation, contents=_contents),
    TextFormat(open_json, write_json),
)
CSV, TSV = _table_format("csv", ",", "comma"), _table_format("tsv", "\t", "tab")
