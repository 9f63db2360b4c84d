"""The .safetensors format: `file.safetensors::name`, or the only tensor of the file.

A file has the header's length in 8 bytes, a JSON header, and the elements in C order,
little-endian. Source: the section Format in the README of huggingface/safetensors, and what its own
reader refuses.
"""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple, cast

import numpy as np

from revseq_cli import files
from revseq_cli.core.dtypes import dtype_of, require_sizes
from revseq_cli.core.errors import HALVES, FormatError, join_names
from revseq_cli.core.tensors import DataType, TensorDesc
from revseq_cli.files import base
from revseq_cli.files.new import NewFile
from revseq_cli.formats.contract import Address, FileSink, Original, Source, Storage, TextTypes
from revseq_cli.formats.listings import Contents, Item, only_of
from revseq_cli.formats.raw import RawSink, RawSource, RawTensor
from revseq_cli.formats.refusals import choose_tensor, damaged_file, invalid_name
from revseq_cli.text.numbers import unique

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
_WANTED = f"one of {join_names(_TYPES, len(_TYPES))}"
_NAMES = {data_type: name for name, data_type in _TYPES.items()}
_LONGEST_HEADER = 100_000_000  # the reference reader's own limit, in bytes
_LENGTH_BYTES = _ALIGNMENT = 8
_METADATA = "__metadata__"


class _Entry(NamedTuple):
    """The header's fields of one tensor, by their names there.

    `data_offsets` are in bytes from the header's end.
    """

    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]

    @classmethod
    def of(cls, fields: Any, where: str) -> _Entry:  # noqa: ANN401 - of JSON
        """One tensor of the header.

        FormatError if a field is missing or wrong, or offsets and shape do not agree.
        """
        try:
            entry = cls(**fields)
            shape = tuple(entry.shape)
            begin, stop = entry.data_offsets
            if not isinstance(entry.dtype, str) or not all(map(_is_size, (*shape, begin, stop))):
                raise TypeError
        except (TypeError, ValueError):
            expected = f"an object of {join_names(cls._fields)}"
            raise FormatError("has a damaged header", expected, where=where) from None
        require_sizes(shape, where)
        data_type = _TYPES.get(entry.dtype)
        if data_type and stop - begin != prod(shape) * data_type.size:
            promised = prod(shape) * data_type.size
            found = f"has the offsets {[begin, stop]}, and {promised} bytes by its shape"
            raise damaged_file(found, where)
        return cls(entry.dtype, shape, (begin, stop))


def _is_size(value: object) -> bool:
    """Whether a value of JSON is a whole number of bytes or elements."""
    return type(value) is int and 0 <= value < 1 << 63


class _Header(NamedTuple):
    """The header of a file in the state `identity`.

    It has the free text, the tensors, and the offset of their elements.
    """

    identity: base.Identity
    offset: int
    metadata: dict[str, str]
    entries: dict[str, _Entry]

    @classmethod
    def read(cls, path: str, name: str, unchanged: base.Identity | None = None) -> _Header:
        """Read the header.

        FormatError unless it is right, and its tensors fill the file without gap or overlap.
        """
        with files.open_file(path, unchanged, name) as fd:
            identity = fd.identity
            length = int.from_bytes(fd.read(_LENGTH_BYTES, 0), "little")
            if length > _LONGEST_HEADER:
                found = f"promises a header of {length} bytes"
                raise FormatError(found, f"at most {_LONGEST_HEADER}", where=name)
            if _LENGTH_BYTES + length > identity.size:
                found = f"{identity.size} bytes, and it promises a header of {length} bytes"
                raise damaged_file(f"truncated: {found}", name)
            raw = fd.read(length, _LENGTH_BYTES)
        fields = _parse_header(raw, name)
        metadata = fields.pop(_METADATA, {})
        entries = {key: _Entry.of(entry, f"{name}::{key}") for key, entry in fields.items()}
        offset = _LENGTH_BYTES + length
        _require_no_gaps(entries, identity.size - offset, name)
        return cls(identity, offset, metadata, entries)


def _parse_header(raw: bytes, name: str) -> dict[str, Any]:
    """The JSON object of a header.

    FormatError unless its free text is text that can be written again.
    """
    try:
        fields = json.loads(raw.decode(), object_pairs_hook=unique)
        # This fails for a text that has half a surrogate pair.
        json.dumps(fields, ensure_ascii=False).encode()
        texts = fields.get(_METADATA, {}).values()
        if not raw.startswith(b"{") or not all(isinstance(text, str) for text in texts):
            raise TypeError
    except FormatError as e:
        raise e.about(name) from None
    except (ValueError, RecursionError, TypeError, AttributeError):
        raise FormatError("has a damaged header", "a JSON object of tensors", where=name) from None
    return cast("dict[str, Any]", fields)


def _require_no_gaps(entries: dict[str, _Entry], size: int, name: str) -> None:
    """FormatError unless the tensors fill `size` bytes without gap or overlap."""
    end = 0
    for begin, stop in sorted(entry.data_offsets for entry in entries.values()):
        if begin != end:
            found = f"its tensors have a gap or overlap at byte {end}"
            raise FormatError(found, "each byte in one tensor", where=name)
        end = stop
    if end != size:
        found = f"has {size} bytes of elements, and it promises {end}"
        raise damaged_file(f"truncated: {found}" if end > size else found, name)


class SafetensorsSource(RawSource):
    """A tensor of a .safetensors file; `name` is for messages, the path without it."""

    def __init__(self, path: str, key: str | None, name: str = "") -> None:
        name = name or path
        header = _Header.read(path, name)
        key = choose_tensor(
            header.entries,
            key,
            name,
            is_tensor=lambda key: header.entries[key].dtype in _TYPES,
        )
        where, entry = f"{name}::{key}", header.entries[key]
        if entry.dtype not in _TYPES:
            raise FormatError(f"its data type is {entry.dtype[:80]}", _WANTED, where=where)
        begin = header.offset + entry.data_offsets[0]
        tensor = RawTensor(path, where, begin, _dtype(_TYPES[entry.dtype]), entry.shape)
        storage = Storage("safetensors", {"tensor": key, "dtype": entry.dtype})
        super().__init__(tensor, header.identity, storage, key)
        self.header = header


def _dtype(data_type: DataType) -> np.dtype[Any]:
    return dtype_of(data_type).newbyteorder("<")


class _SafetensorsSink(RawSink):
    """A new file of one tensor in C order, little-endian.

    Or a copy of a file with that tensor replaced or added.
    """

    def __init__(
        self, file: NewFile, template: Source, key: str, original: Original | None
    ) -> None:
        super().__init__(file, functools.partial(SafetensorsSource, file.temporary, key, file.name))
        if not original:
            metadata = template.header.metadata if isinstance(template, SafetensorsSource) else {}
            self._make_header(template, key, metadata, {})
            return
        header = _Header.read(original.path, original.path, original.identity)
        if key in header.entries:
            original.require_replaceable(key)
        if original.is_input and key in header.entries:
            self._replace_in_place(cast("SafetensorsSource", template), original)
            return
        entries, parts = _pack(header, without=key)
        begin = self._make_header(template, key, header.metadata, entries)
        self.copy_parts(original, [(old, count, begin + new) for old, count, new in parts])

    def _replace_in_place(self, template: SafetensorsSource, original: Original) -> None:
        """Place INPUT's tensor where it is in the copy of its file, whose header stays."""
        self.tensor = replace(template.tensor, path=self.file.temporary, name=self.file.name)
        begin, end = template.tensor.offset, template.tensor.end
        self.copy_parts(original, [(0, begin, 0), (end, template.unchanged.size - end, end)])

    def _make_header(
        self, template: Source, key: str, metadata: dict[str, str], others: dict[str, _Entry]
    ) -> int:
        """Place the tensor after the others, which have no gaps.

        The offset at which the elements of all begin.
        """
        if not key or key == _METADATA or HALVES.search(key):
            raise invalid_name(key, "tensor", "a name such as x", self.file.name)
        data_type = template.desc.data_type
        if data_type not in _NAMES:
            found = f"{data_type.name} cannot be written as .safetensors"
            hint = "to write a format that has it, type out.npy"
            raise FormatError(found, _WANTED, hint, self.file.name)
        header: dict[str, Any] = {}
        if metadata:
            header[_METADATA] = metadata
        header |= {name: entry._asdict() for name, entry in others.items()}
        begin = max((entry.data_offsets[1] for entry in others.values()), default=0)
        offsets = begin, begin + template.desc.total_bytes
        header[key] = _Entry(_NAMES[data_type], template.sizes, offsets)._asdict()
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
        text += b" " * (-len(text) % _ALIGNMENT)  # so that elements begin at a multiple of it
        head = len(text).to_bytes(_LENGTH_BYTES, "little") + text
        self.place(template, head, dtype=_dtype(data_type))
        self.tensor = replace(self.tensor, offset=len(head) + begin)
        return len(head)


def _pack(header: _Header, without: str) -> tuple[dict[str, _Entry], list[tuple[int, int, int]]]:
    """The tensors of a file but one, and the parts of the file to copy.

    They are moved so that it leaves no gap.

    Each part is the offset in the file, the number of bytes, and the new offset among the elements.
    Tensors that follow each other are one part.
    """
    entries = dict(header.entries)
    gap = entries.pop(without, None)
    end = max((entry.data_offsets[1] for entry in header.entries.values()), default=0)
    if gap is None:
        return entries, [(header.offset, end, 0)]
    first, after = gap.data_offsets
    for name, entry in entries.items():
        begin, stop = entry.data_offsets
        if begin >= after:
            size = after - first
            entries[name] = entry._replace(data_offsets=(begin - size, stop - size))
    return entries, [(header.offset, first, 0), (header.offset + after, end - after, first)]


def open_source(address: Address, types: TextTypes) -> Source:  # noqa: ARG001
    """The tensor named by the key, or the only one."""
    return SafetensorsSource(address.path, address.key)


def create_sink(file: NewFile, template: Source, key: str, original: Original | None) -> FileSink:
    """The sink of a new file of one tensor, or of a copy of a file with one replaced or added."""
    return _SafetensorsSink(file, template, key, original)


def contents(address: Address, types: TextTypes) -> Contents | None:  # noqa: ARG001
    """What the file holds; None where the address has the name of a tensor."""
    if address.key is not None:
        return None
    header = _Header.read(address.path, address.path)
    items = []
    for key, entry in header.entries.items():
        desc = TensorDesc(_TYPES[entry.dtype], entry.shape) if entry.dtype in _TYPES else None
        what = "" if desc else entry.dtype
        items.append(Item(key, desc, what, sizes=entry.shape, details={"dtype": entry.dtype}))
    return Contents(
        address.path, "safetensors", tuple(items), only_of(items), attributes=len(header.metadata)
    )
