"""The .safetensors format: `file.safetensors::name`, or the only tensor of the file.

A file has the header's length in 8 bytes, a JSON header, and the elements in C order, little-endian.
Source: the section Format in the README of huggingface/safetensors, and what its own reader refuses.
"""

from __future__ import annotations

import json
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from revseq_cli.core.dtypes import dtype_of, require_dimensions, require_sizes
from revseq_cli.core.errors import HALVES, FormatError, listed
from revseq_cli.core.tensors import DataType, TensorDesc
from revseq_cli.formats import file_io
from revseq_cli.formats.contents import Contents, Item, TensorNameError, chosen, only_of, refuse_taken
from revseq_cli.formats.contract import Storage, not_whole
from revseq_cli.formats.raw import RawSink, RawSource, RawTensor
from revseq_cli.formats.table import looks_like
from revseq_cli.text.numbers import unique

if TYPE_CHECKING:
    import numpy as np

    from revseq_cli.formats.atomic_file import AtomicFile
    from revseq_cli.formats.contract import Address, FileSink, Layout, Source, TextTypes

# The format's data types, except those of less than a byte.
_TYPES = {
    "F64": DataType.FLOAT64, "F32": DataType.FLOAT32, "F16": DataType.FLOAT16, "BF16": DataType.BFLOAT16,
    "I64": DataType.INT64, "I32": DataType.INT32, "I16": DataType.INT16, "I8": DataType.INT8,
    "U64": DataType.UINT64, "U32": DataType.UINT32, "U16": DataType.UINT16, "U8": DataType.UINT8,
    "F8_E4M3": DataType.FLOAT8_E4M3FN, "F8_E5M2": DataType.FLOAT8_E5M2, "F8_E4M3FNUZ": DataType.FLOAT8_E4M3FNUZ,
    "F8_E5M2FNUZ": DataType.FLOAT8_E5M2FNUZ, "F8_E8M0": DataType.FLOAT8_E8M0FNU,
    "BOOL": DataType.BOOL, "C64": DataType.COMPLEX64,
}  # fmt: skip
_WANTED = f"one of {listed(_TYPES, len(_TYPES))}"
_NAMES = {data_type: name for name, data_type in _TYPES.items()}
# The reference reader's own limit, in bytes.
_LONGEST_HEADER = 100_000_000
_LENGTH_BYTES = 8
_ALIGNMENT = 8
_METADATA = "__metadata__"
_FIELDS = {"dtype", "shape", "data_offsets"}


def open_source(address: Address, types: TextTypes) -> Source:  # noqa: ARG001 - the file names its types
    """The tensor named by the key, or the only one."""
    return SafetensorsSource(address.path, address.key)


def create_sink(file: AtomicFile, template: Source, key: str, layout: Layout) -> FileSink:
    """The sink of a new file of one tensor, or of the input's file with one tensor replaced."""
    return SafetensorsSink(file, template, key, layout)


class _Entry(NamedTuple):
    """The header's fields of one tensor; `start` and `stop` are in bytes from the header's end."""

    dtype: str
    sizes: tuple[int, ...]
    start: int
    stop: int

    @property
    def data_type(self) -> DataType | None:
        """The data type; None for one that no tensor has."""
        return _TYPES.get(self.dtype)

    @property
    def fields(self) -> dict[str, Any]:
        """The tensor as the header has it."""
        return {"dtype": self.dtype, "shape": self.sizes, "data_offsets": (self.start, self.stop)}


class _Header(NamedTuple):
    """The header of a file in the state `identity`: the free text, the tensors, and the offset of their elements."""

    identity: file_io.Identity
    offset: int
    metadata: dict[str, str]
    entries: dict[str, _Entry]

    @classmethod
    def read(cls, path: str, name: str) -> _Header:
        """Read the header; FormatError unless it is right, and its tensors fill the file."""
        with file_io.opened(path) as fd:
            identity = file_io.identity(fd)
            offset, header = _read_header(fd, identity.size, path, name)
        metadata = header.pop(_METADATA, {})
        if not isinstance(metadata, dict) or not all(map(_is_text, metadata.values())):
            raise FormatError(f"has a damaged header: {_METADATA} is not an object of strings", "strings", where=name)
        entries = {key: _entry(fields, f"{name}::{key}") for key, fields in header.items()}
        _require_no_gaps(entries, identity.size - offset, name)
        return cls(identity, offset, metadata, entries)


class SafetensorsSource(RawSource):
    """A tensor of a .safetensors file; `name` is for messages, the path without it."""

    def __init__(self, path: str, key: str | None, name: str = "") -> None:
        name = name or path
        header = _Header.read(path, name)
        key = chosen(header.entries, key, name)
        where, entry = f"{name}::{key}", header.entries[key]
        if entry.data_type is None:
            raise FormatError(f"its data type is {entry.dtype[:80]}", _WANTED, where=where)
        require_sizes(entry.sizes, where)
        tensor = RawTensor(path, where, header.offset + entry.start, _dtype(entry.data_type), entry.sizes)
        super().__init__(tensor, header.identity, Storage("safetensors", {"tensor": key, "dtype": entry.dtype}))
        self.key, self.header = key, header


def _dtype(data_type: DataType) -> np.dtype[Any]:
    return dtype_of(data_type).newbyteorder("<")


def contents(address: Address, types: TextTypes) -> Contents | None:  # noqa: ARG001 - the file names its types
    """What the file holds; None where the address has the name of a tensor."""
    if address.key is not None:
        return None
    header = _Header.read(address.path, address.path)
    items = tuple(_item(key, entry) for key, entry in header.entries.items())
    return Contents(address.path, "safetensors", items, only_of(items), attributes=len(header.metadata))


def _item(key: str, entry: _Entry) -> Item:
    item = Item(key, sizes=entry.sizes, details={"dtype": entry.dtype})
    if entry.data_type is None:
        return item._replace(what=entry.dtype)
    return item._replace(desc=TensorDesc(entry.data_type, entry.sizes))


def _read_header(fd: int, total: int, path: str, name: str) -> tuple[int, dict[str, Any]]:
    """The offset of the elements, and the header, which is read only if the file is as long as it declares."""
    head = file_io.read_some(fd, 64, 0, path)
    length = int.from_bytes(head[:_LENGTH_BYTES], "little")
    if length > _LONGEST_HEADER:
        seems, hint = looks_like(head)
        found = f"is not a .safetensors file: it looks like {seems}" if hint else f"has a header of {length} bytes"
        raise FormatError(found, f"a header of at most {_LONGEST_HEADER} bytes", hint, name)
    offset = _LENGTH_BYTES + length
    if not head:
        raise not_whole("is an empty file", name)
    if offset > total:
        raise not_whole(f"is truncated: {total} bytes, and it promises a header of {length} bytes", name)
    raw = file_io.read_some(fd, length, _LENGTH_BYTES, path)
    try:
        header = json.loads(raw.decode(), object_pairs_hook=_unique) if raw.startswith(b"{") else None
    except FormatError as e:
        raise e.about(name) from None
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise FormatError("has a damaged header", "a JSON object of tensors", where=name)
    return offset, header


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object as a dictionary; FormatError for a key that stands twice or has half a surrogate pair."""
    fields = unique(pairs)
    if not all(map(_is_text, fields)):
        raise FormatError("has a damaged header", "keys of valid Unicode")
    return fields


def _is_text(value: object) -> bool:
    """Whether it is a string without half a surrogate pair, which the reference reader refuses."""
    return isinstance(value, str) and not HALVES.search(value)


def _entry(fields: object, where: str) -> _Entry:
    """One tensor of the header; FormatError if a field is missing or wrong, or offsets and shape do not agree."""
    if not isinstance(fields, dict) or set(fields) != _FIELDS or not isinstance(fields["dtype"], str):
        raise FormatError("has a damaged header", f"an object of {listed(sorted(_FIELDS))}", where=where)
    sizes, offsets = fields["shape"], fields["data_offsets"]
    if not _are_counts(sizes) or not _are_counts(offsets) or len(offsets) != 2:
        raise FormatError("has a damaged header", "shape and data_offsets are lists of integers from 0 on", where=where)
    require_dimensions(len(sizes), where)
    entry = _Entry(fields["dtype"], tuple(sizes), *offsets)
    if entry.data_type:
        wanted = prod(entry.sizes) * entry.data_type.size
        if entry.stop - entry.start != wanted:
            found = f"has {entry.stop - entry.start} bytes by its offsets, and {wanted} by its shape"
            raise FormatError(found, "the same", "fetch it again", where)
    return entry


def _are_counts(value: object) -> bool:
    return isinstance(value, list) and all(type(each) is int and 0 <= each < 1 << 63 for each in value)


def _require_no_gaps(entries: dict[str, _Entry], total: int, where: str) -> None:
    """FormatError unless the tensors fill all `total` bytes behind the header, without gap or overlap."""
    end = 0
    for entry in sorted(entries.values(), key=lambda each: (each.start, each.stop)):
        if entry.start != end or entry.stop < end:
            raise FormatError(
                f"its tensors have a gap or overlap at byte {end} of {total}", "each byte in one tensor", where=where
            )
        end = entry.stop
    if end > total:
        raise not_whole(f"is truncated: {total} bytes of elements, and it promises {end}", where)
    if end < total:
        raise FormatError(f"has {total - end} bytes after its last element", "tensors and nothing else", where=where)


class SafetensorsSink(RawSink):
    """A new file of one tensor in C order, little-endian, or a copy of the input's with that one replaced or added."""

    def __init__(self, file: AtomicFile, template: Source, key: str, layout: Layout) -> None:
        super().__init__(file)
        self._key = key
        self._old = template if isinstance(template, SafetensorsSource) and not layout.only else None
        self._copied: list[tuple[int, int, int]] = []  # parts of the input's file: offset, bytes, new offset
        if self._old and self._old.key == key:
            self.tensor = replace(self._old.tensor, path=file.temporary, name=file.name)
            end, size = self._old.tensor.end, self._old.unchanged.size
            self._copied = [(0, self._old.tensor.offset, 0), (end, size - end, end)]
        else:
            self._add(template)
        self._kept = sum(count for _, count, _ in self._copied)

    def _add(self, template: Source) -> None:
        """Place the tensor behind those of the input's file, which are copied."""
        if not self._key or self._key == _METADATA or not _is_text(self._key):
            raise TensorNameError.of(self._key, "tensor", "a name such as x", self.file.name)
        data_type = template.desc.data_type
        if data_type not in _NAMES:
            found, hint = f"{data_type.name} cannot be written as .safetensors", "write a binary format that has it"
            raise FormatError(found, _WANTED, f"{hint}, such as out.npy", self.file.name)
        header: dict[str, Any] = {}
        if isinstance(template, SafetensorsSource) and template.header.metadata:
            header[_METADATA] = template.header.metadata
        begin = 0
        if self._old:
            refuse_taken(self._key, self._old.header.entries, self._old.path)
            begin = self._old.unchanged.size - self._old.header.offset
            header |= {key: entry.fields for key, entry in self._old.header.entries.items()}
        header[self._key] = _Entry(_NAMES[data_type], template.sizes, begin, begin + template.desc.total_bytes).fields
        head = _header_bytes(header)
        self._copied = [(self._old.header.offset, begin, len(head))] if self._old else []
        self.place(template, head, behind=begin, dtype=_dtype(data_type))

    def start(self) -> None:
        """Reserve the bytes of the tensor, and write the header, or all but the elements of the input's file."""
        super().start()
        if self._old:
            self.file.fill_from(self._old.path, self._old.unchanged, self._copied)

    def reopen(self) -> Source:
        """The complete file, as an input."""
        return SafetensorsSource(self.file.temporary, self._key, self.file.name)


def _header_bytes(header: dict[str, Any]) -> bytes:
    """The header's length and the header, padded with spaces so that the elements begin at a multiple of 8."""
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    return len(text).to_bytes(_LENGTH_BYTES, "little") + text
