"""The .safetensors format: `file.safetensors::name`, or the only tensor of the file.

A file has the header's length in 8 bytes, a JSON header, and the elements in C order,
little-endian. Source: the section Format in the README of huggingface/safetensors, and what its own
reader refuses.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple, cast

import numpy as np

from revseq_cli import files
from revseq_cli.core.dtypes import dtype_of, require_sizes
from revseq_cli.core.errors import HALVES, DataTypeError, FormatError, join_names
from revseq_cli.core.tensors import DataType, TensorDesc
from revseq_cli.files.copies import CopiedPart
from revseq_cli.files.input_file import Identity
from revseq_cli.files.new import NewFile
from revseq_cli.formats.contract import FileSink, Location, Original, Source, Storage, TextTypes
from revseq_cli.formats.listings import Contents, Item, find_sole_key
from revseq_cli.formats.raw import RawSink, RawSource, RawTensor
from revseq_cli.formats.refusals import choose_tensor, make_damage_error, make_name_error
from revseq_cli.text.json_objects import make_object

# The format's data types, except those of less than a byte.
_TYPES = {
    "F64": DataType.FLOAT64, "F32": DataType.FLOAT32, "F16": DataType.FLOAT16,
    "BF16": DataType.BFLOAT16,
    "I64": DataType.INT64, "I32": DataType.INT32, "I16": DataType.INT16, "I8": DataType.INT8,
    "U64": DataType.UINT64, "U32": DataType.UINT32, "U16": DataType.UINT16, "U8": DataType.UINT8,
    "F8_E4M3": DataType.FLOAT8_E4M3FN, "F8_E5M2": DataType.FLOAT8_E5M2,
    "F8_E4M3FNUZ": DataType.FLOAT8_E4M3FNUZ, "F8_E5M2FNUZ": DataType.FLOAT8_E5M2FNUZ,
    "F8_E8M0": DataType.FLOAT8_E8M0FNU,
    "BOOL": DataType.BOOL, "C64": DataType.COMPLEX64,
}  # fmt: skip
_EXPECTED = f"one of {join_names(_TYPES, len(_TYPES))}"
_NAMES = {data_type: name for name, data_type in _TYPES.items()}
_LONGEST_HEADER = 100_000_000  # the reference reader's own limit, in bytes
_LENGTH_BYTES = 8
_ALIGNMENT = 8  # of the first element
_METADATA = "__metadata__"
_FIELDS = ("dtype", "shape", "data_offsets")


class _Entry(NamedTuple):
    """What the header says of one tensor; `begin` and `stop` are bytes after the header's end."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    stop: int

    @classmethod
    def of(cls, fields: Any, where: str) -> _Entry:  # noqa: ANN401 - of JSON
        """One tensor of the header.

        FormatError if a field is missing or wrong, or offsets and shape do not agree.
        """
        if not isinstance(fields, dict) or set(fields) != set(_FIELDS):
            raise _make_entry_error(where)
        dtype, shape, offsets = (fields[name] for name in _FIELDS)
        if not isinstance(dtype, str) or not _are_sizes(shape):
            raise _make_entry_error(where)
        if not _are_sizes(offsets) or len(offsets) != 2:
            raise _make_entry_error(where)
        require_sizes(tuple(shape), where)
        begin, stop = offsets
        if dtype in _TYPES:
            size = prod(shape) * _TYPES[dtype].size
            if stop - begin != size:
                found = f"has the offsets {offsets}, and {size} bytes by its shape"
                raise make_damage_error(found, where)
        return cls(dtype, tuple(shape), begin, stop)


def _make_entry_error(where: str) -> FormatError:
    return FormatError("has a damaged header", f"an object of {join_names(_FIELDS)}", "", where)


def _are_sizes(values: object) -> bool:
    """Whether a value of JSON is a list of whole numbers of bytes or elements."""
    if not isinstance(values, list):
        return False
    return all(type(value) is int and 0 <= value < 1 << 63 for value in values)


class _Header(NamedTuple):
    """The header of a file."""

    identity: Identity  # the state of the file
    offset: int  # of the first element
    size: int  # of all elements, in bytes
    metadata: dict[str, str]
    entries: dict[str, _Entry]  # the tensors by their names

    @classmethod
    def read(cls, path: str, where: str, unchanged: Identity | None = None) -> _Header:
        """Read the header; FormatError unless it is right, and its tensors fill the file."""
        with files.open_file(path, unchanged, where) as fd:
            identity = fd.identity
            length = int.from_bytes(fd.read(_LENGTH_BYTES, 0), "little")
            if length > _LONGEST_HEADER:
                found = f"promises a header of {length} bytes"
                raise FormatError(found, f"at most {_LONGEST_HEADER}", where=where)
            offset = _LENGTH_BYTES + length
            if offset > identity.size:
                found = f"{identity.size} bytes, and it promises a header of {length} bytes"
                raise make_damage_error(f"truncated: {found}", where)
            raw = fd.read(length, _LENGTH_BYTES)
        fields = _parse_header(raw, where)
        metadata = fields.pop(_METADATA, {})
        entries = {key: _Entry.of(entry, f"{where}::{key}") for key, entry in fields.items()}
        size = identity.size - offset
        _require_no_gaps(entries, size, where)
        return cls(identity, offset, size, metadata, entries)


def _parse_header(raw: bytes, where: str) -> dict[str, Any]:
    """The JSON object of a header, whose free text can be written again; else FormatError."""
    try:
        fields = json.loads(raw.decode(), object_pairs_hook=make_object)
        # This fails for a text that has half a surrogate pair.
        json.dumps(fields, ensure_ascii=False).encode()
        texts = fields.get(_METADATA, {}).values()
        if not raw.startswith(b"{") or not all(isinstance(text, str) for text in texts):
            raise TypeError
    except FormatError as e:
        raise e.about(where) from None
    except (ValueError, RecursionError, TypeError, AttributeError):
        raise FormatError("has a damaged header", "a JSON object of tensors", where=where) from None
    return cast("dict[str, Any]", fields)


def _require_no_gaps(entries: dict[str, _Entry], size: int, where: str) -> None:
    """FormatError unless the tensors fill `size` bytes without gap or overlap."""
    end = 0
    for begin, stop in sorted((entry.begin, entry.stop) for entry in entries.values()):
        if begin != end:
            found = f"its tensors have a gap or overlap at byte {end}"
            raise FormatError(found, "each byte in one tensor", where=where)
        end = stop
    if end == size:
        return
    found = f"has {size} bytes of elements, and it promises {end}"
    if end > size:
        found = f"truncated: {found}"
    raise make_damage_error(found, where)


class SafetensorsSource(RawSource):
    """A tensor of a .safetensors file, which messages call `where`, or else by its path."""

    def __init__(self, path: str, key: str | None, where: str = "") -> None:
        where = where or path
        header = _Header.read(path, where)
        entries = header.entries
        key = choose_tensor(
            entries, key, where, is_tensor=lambda other: entries[other].dtype in _TYPES
        )
        entry = entries[key]
        where = f"{where}::{key}"
        if entry.dtype not in _TYPES:
            raise DataTypeError(entry.dtype[:80], _EXPECTED, where=where)
        dtype = _as_little_endian(_TYPES[entry.dtype])
        tensor = RawTensor(path, where, header.offset + entry.begin, dtype, entry.shape)
        storage = Storage("safetensors", {"tensor": key, "dtype": entry.dtype})
        super().__init__(tensor, header.identity, storage, key)
        self.header = header


def _as_little_endian(data_type: DataType) -> np.dtype[Any]:
    return dtype_of(data_type).newbyteorder("<")


def create_sink(file: NewFile, template: Source, key: str, original: Original | None) -> FileSink:
    """The sink of a new file of one tensor, or of a copy of a file with one replaced or added."""
    reopen = functools.partial(SafetensorsSource, file.temporary, key, file.name)
    if original:
        return _create_copy(file, template, key, original, reopen)
    metadata = {}
    if isinstance(template, SafetensorsSource):
        metadata = template.header.metadata
    head, tensor = _place_last(file, template, key, metadata, {})
    return RawSink(file, tensor, reopen, head)


def _create_copy(
    file: NewFile,
    template: Source,
    key: str,
    original: Original,
    reopen: Callable[[], Source],
) -> FileSink:
    """The sink of a copy of a file, from which a tensor of that name is left out.

    INPUT's own tensor is written where it was, and the header stays. Any other is added as the last
    one, and those after the one that is left out move up.
    """
    header = _Header.read(original.path, original.path, original.identity)
    others = dict(header.entries)
    replaced = others.pop(key, None)
    if replaced:
        original.require_replaceable(key)
    if replaced and original.is_input:
        begin = header.offset + replaced.begin
        end = header.offset + replaced.stop
        parts = [CopiedPart(0, begin, 0), CopiedPart(end, header.identity.size - end, end)]
        tensor = RawTensor.like(template, file, begin)
        return RawSink(file, tensor, reopen, original=original, parts=parts)
    # The bytes that are left out: none, at the end, if there is no tensor of that name.
    gap_begin = replaced.begin if replaced else header.size
    gap_stop = replaced.stop if replaced else header.size
    others = _move_up(others, gap_begin, gap_stop)
    head, tensor = _place_last(file, template, key, header.metadata, others)
    offset = len(head)
    parts = [
        CopiedPart(header.offset, gap_begin, offset),
        CopiedPart(header.offset + gap_stop, header.size - gap_stop, offset + gap_begin),
    ]
    return RawSink(file, tensor, reopen, head, original=original, parts=parts)


def _move_up(entries: dict[str, _Entry], gap_begin: int, gap_stop: int) -> dict[str, _Entry]:
    """The tensors after the gap is closed."""
    gap = gap_stop - gap_begin
    closed = {}
    for name, entry in entries.items():
        if entry.begin >= gap_stop:
            entry = entry._replace(begin=entry.begin - gap, stop=entry.stop - gap)
        closed[name] = entry
    return closed


def _place_last(
    file: NewFile, template: Source, key: str, metadata: dict[str, str], others: dict[str, _Entry]
) -> tuple[bytes, RawTensor]:
    """A header with the tensor after all others, and where the elements of the tensor are."""
    if key in ("", _METADATA) or HALVES.search(key):
        raise make_name_error(key, "tensor", "a name such as x", file.name)
    data_type = template.desc.data_type
    if data_type not in _NAMES:
        found = f"{data_type.name} cannot be written as .safetensors"
        hint = "to write a format that has it, type out.npy"
        raise FormatError(found, _EXPECTED, hint, file.name)
    begin = max((entry.stop for entry in others.values()), default=0)
    stop = begin + template.desc.total_bytes
    entries = {**others, key: _Entry(_NAMES[data_type], template.sizes, begin, stop)}
    head = _encode_header(metadata, entries)
    dtype = _as_little_endian(data_type)
    return head, RawTensor(file.temporary, file.name, len(head) + begin, dtype, template.sizes)


def _encode_header(metadata: dict[str, str], entries: dict[str, _Entry]) -> bytes:
    """The bytes of a file before its first element."""
    fields: dict[str, Any] = {}
    if metadata:
        fields[_METADATA] = metadata
    for name, entry in entries.items():
        offsets = (entry.begin, entry.stop)
        fields[name] = {"dtype": entry.dtype, "shape": entry.shape, "data_offsets": offsets}
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    return len(text).to_bytes(_LENGTH_BYTES, "little") + text


def open_source(location: Location, _types: TextTypes) -> Source:
    """The tensor named by the key, or the only one."""
    return SafetensorsSource(location.path, location.key)


def contents(location: Location, _types: TextTypes) -> Contents:
    """What the file holds."""
    header = _Header.read(location.path, location.path)
    items = []
    for key, entry in header.entries.items():
        item = Item(key, sizes=entry.shape, details={"dtype": entry.dtype})
        if entry.dtype in _TYPES:
            item = item._replace(desc=TensorDesc(_TYPES[entry.dtype], entry.shape))
        else:
            item = item._replace(what=entry.dtype)
        items.append(item)
    sole_key = find_sole_key(items)
    count = len(header.metadata)
    return Contents(location.path, "safetensors", tuple(items), sole_key, attributes=count)
