"""A tensor in a .pb file: its header is parsed, and its elements are read in place, or parsed where ONNX encodes them.

Of a model it only measures how much memory its parsed form would take: the package onnx parses it.

Source: protobuf.dev/programming-guides/encoding.

Source of the format: onnx/onnx.proto, and docs/ExternalData.md for elements in a file of their own.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.core import thresholds
from revseq_cli.core.dtypes import dtype_of, require_dimensions, require_sizes
from revseq_cli.core.errors import FormatError, listed, printable
from revseq_cli.core.tensors import DataType, TensorDesc
from revseq_cli.formats import file_io
from revseq_cli.formats.contents import try_hint
from revseq_cli.formats.contract import Source, Storage, extra, not_whole
from revseq_cli.formats.in_memory import MemorySource
from revseq_cli.formats.raw import RawSource, RawTensor
from revseq_cli.formats.recognition import looks_like

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import ModuleType

    from numpy.typing import NDArray


VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
_FIXED = {FIXED64: 8, FIXED32: 4}  # bytes
_LONGEST_VARINT = 10
_LONGEST_HEAD = 2 * _LONGEST_VARINT  # of a field: its key, and its length or its value
# The most fields of a message. A tensor has one for each dimension, and some more; its elements together are one.
_MOST_FIELDS = 1 << 16
_GO_ON = bytes(range(0x80, 0x100))  # the bytes of a number behind which there are more


class Field(NamedTuple):
    """A field of a message: its number and wire type, and the offsets of its first byte, its value and its end."""

    number: int
    wire_type: int
    start: int
    value: int
    end: int


def fields(fd: int, total: int, name: str, start: int = 0) -> Iterator[Field]:
    """Every field of the message from `start` to `total` of a file; FormatError for none, or a part of one."""
    place, base, count = start, 0, 0
    piece = b""
    while place < total:
        if place + _LONGEST_HEAD > base + len(piece):
            base, piece = place, file_io.read_some(fd, thresholds.MESSAGE_PIECE, place, name)
        try:
            field = _field(piece, place - base, base)
        except ValueError as e:
            raise FormatError(f"has {e} at byte {place} of {total}", "a protobuf message", where=name) from None
        if field.end > total:
            raise not_whole(f"is truncated: {total} bytes, and a field at byte {place} ends at {field.end}", name)
        if (count := count + 1) > _MOST_FIELDS:
            raise FormatError(
                f"has more than {_MOST_FIELDS} protobuf fields", "packed elements, in one field", where=name
            )
        yield field
        place = field.end


def fields_in(data: bytes, start: int, end: int, name: str) -> Iterator[Field]:
    """Every field of the message from `start` to `end` of these bytes; FormatError for none, or a part of one."""
    place, found = start, 0
    while place < end:
        try:
            field = _field(data, place, 0)
        except ValueError as e:
            raise FormatError(f"has {e} at byte {place}", "a protobuf message", where=name) from None
        if field.end > end:
            raise not_whole(f"is truncated: a field at byte {place} ends at {field.end}, behind {end}", name)
        if (found := found + 1) > _MOST_FIELDS:
            raise FormatError(f"has more than {_MOST_FIELDS} protobuf fields in a message", where=name)
        yield field
        place = field.end


def count_in(data: bytes, field: Field) -> int:
    """How many packed varints a field of these bytes has."""
    pieces = range(field.value, field.end, thresholds.PIPE_PIECE)
    return sum(
        len(data[place : min(place + thresholds.PIPE_PIECE, field.end)].translate(None, _GO_ON)) for place in pieces
    )


def read(fd: int, places: Iterable[Field], name: str) -> bytes:
    """These fields, as a message."""
    return b"".join(file_io.read_some(fd, each.end - each.start, each.start, name) for each in places)


def count(fd: int, places: Iterable[Field], name: str) -> int:
    """How many numbers these fields hold, where a field of bytes is packed varints; none of them is parsed.

    In a packed field, each byte without its highest bit ends a number. Parsed numbers take many times their bytes.
    """
    found = 0
    for field in places:
        found += field.wire_type == VARINT
        packed = range(field.value, field.end, thresholds.MESSAGE_PIECE) if field.wire_type == LENGTH else ()
        for place in packed:
            piece = file_io.read_some(fd, min(thresholds.MESSAGE_PIECE, field.end - place), place, name)
            found += len(piece.translate(None, _GO_ON))
    return found


def varint(value: int) -> bytes:
    """A number of at least 0 in seven bits a byte, the lowest first."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def head(number: int, length: int) -> bytes:
    """What stands before the bytes of a field of that length."""
    return varint(number << 3 | LENGTH) + varint(length)


def message(*fields: tuple[int, int | str | bytes]) -> bytes:
    """A message of these fields: their numbers, and integers of at least 0, texts or messages."""
    encoded = b""
    for number, value in fields:
        if isinstance(value, int):
            encoded += varint(number << 3 | VARINT) + varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            encoded += head(number, len(data)) + data
    return encoded


def _field(piece: bytes, at: int, base: int) -> Field:
    """The field that begins at `at` of a piece of the file, which begins at `base`; ValueError if none does."""
    key, value = _read_varint(piece, at)
    number, wire_type = key >> 3, key & 7
    if wire_type in _FIXED:
        end = value + _FIXED[wire_type]
    elif wire_type == VARINT:
        end = _read_varint(piece, value)[1]
    elif wire_type == LENGTH:
        length, value = _read_varint(piece, value)
        end = value + length
    else:  # groups, which ONNX does not have
        raise ValueError(f"a field of wire type {wire_type}")
    if not number:
        raise ValueError("a field of number 0")
    return Field(number, wire_type, base + at, base + value, base + end)


def _read_varint(piece: bytes, at: int) -> tuple[int, int]:
    """The number at `at`, and the offset behind it; ValueError where it does not end."""
    value = 0
    for i, byte in enumerate(piece[at : at + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return value, at + i + 1
    raise ValueError("an unfinished number")


def package(where: str) -> ModuleType:
    """The package, which takes a quarter of a second to load; FormatError about `where` if it is not installed."""
    return extra("onnx", "is a protobuf message of ONNX", where)


def parsed(kind: Any, data: bytes | bytearray) -> Any:  # noqa: ANN401 - classes of a package that is an extra
    """A message of that class, such as TensorProto, in the bytes; None if they are something else."""
    from google.protobuf.message import DecodeError  # onnx depends on it

    try:
        return kind.FromString(data)
    except DecodeError:
        return None


def text(value: object, where: str) -> str:
    """A text of a message, which protobuf gives as bytes where it is not UTF-8; FormatError for those."""
    if not isinstance(value, str):
        raise FormatError(f"has a text that is not UTF-8: {str(value)[:80]}", "UTF-8", where=where)
    return value


# ONNX's numbers of the data types that this program has.
TYPES = {
    1: DataType.FLOAT32, 2: DataType.UINT8, 3: DataType.INT8, 4: DataType.UINT16, 5: DataType.INT16, 6: DataType.INT32,
    7: DataType.INT64, 9: DataType.BOOL, 10: DataType.FLOAT16, 11: DataType.FLOAT64, 12: DataType.UINT32,
    13: DataType.UINT64, 14: DataType.COMPLEX64, 15: DataType.COMPLEX128, 16: DataType.BFLOAT16,
    17: DataType.FLOAT8_E4M3FN, 18: DataType.FLOAT8_E4M3FNUZ, 19: DataType.FLOAT8_E5M2, 20: DataType.FLOAT8_E5M2FNUZ,
    24: DataType.FLOAT8_E8M0FNU,
}  # fmt: skip
_WANTED = f"one of {listed((each.name for each in TYPES.values()), len(TYPES))}"
NUMBERS = {data_type: number for number, data_type in TYPES.items()}
MOST_BYTES = (1 << 31) - 1  # of a protobuf message
RAW = 9  # the number of the field raw_data
_LONGEST_NUMBER = 20  # digits
_IN_MEMORY = "_ORT_MEM_ADDR_"  # a location by which ONNX Runtime reads its own memory
EXTERNAL = 1  # the number of that data_location
_IR_VERSION, GRAPH, NODE = 1, 7, 1  # fields of a ModelProto, and one of its GraphProto


class _Kind(NamedTuple):
    """A field of a TensorProto: its name, the wire types that it can have, and whether it holds elements.

    With `as_stored`, its bytes are the elements, little-endian.
    """

    name: str
    wire_types: tuple[int, ...]
    holds_elements: bool = False
    as_stored: bool = False


_FIELDS = {
    1: _Kind("dims", (VARINT, LENGTH)),
    2: _Kind("data_type", (VARINT,)),
    3: _Kind("segment", (LENGTH,)),
    4: _Kind("float_data", (LENGTH, FIXED32), holds_elements=True, as_stored=True),
    5: _Kind("int32_data", (LENGTH, VARINT), holds_elements=True),
    6: _Kind("string_data", (LENGTH,)),
    7: _Kind("int64_data", (LENGTH, VARINT), holds_elements=True),
    8: _Kind("name", (LENGTH,)),
    RAW: _Kind("raw_data", (LENGTH,), holds_elements=True, as_stored=True),
    10: _Kind("double_data", (LENGTH, FIXED64), holds_elements=True, as_stored=True),
    11: _Kind("uint64_data", (LENGTH, VARINT), holds_elements=True),
    12: _Kind("doc_string", (LENGTH,)),
    13: _Kind("external_data", (LENGTH,)),
    14: _Kind("data_location", (VARINT,)),
    16: _Kind("metadata_props", (LENGTH,)),
}
_DIMS, _SEGMENT, _STRINGS = 1, 3, 6
# The field of each data type beside raw_data; for the others it is int32_data.
_INT32 = 5
_TYPED = {
    DataType.FLOAT32: 4, DataType.COMPLEX64: 4, DataType.FLOAT64: 10, DataType.COMPLEX128: 10, DataType.INT64: 7,
    DataType.UINT32: 11, DataType.UINT64: 11,
}  # fmt: skip


class _Message(NamedTuple):
    """A TensorProto without its elements, and where these lie."""

    proto: Any
    elements: dict[int, list[Field]]
    identity: file_io.Identity


class OnnxTensor(Source):
    """What every tensor from ONNX has: the texts about it, which stay when it is written to ONNX again."""

    doc_string = ""
    metadata: tuple[tuple[str, str], ...] = ()

    def describe(self, proto: Any, name: str) -> None:  # noqa: ANN401 - a TensorProto, whose package is an extra
        """Take the name and the texts of the message; FormatError for a text that is not UTF-8."""
        self.name = name
        self.key, self.doc_string = text(proto.name, name), text(proto.doc_string, name)
        if self.key:
            self.storage = Storage(self.storage.format, {"tensor": self.key, **self.storage.details})
        self.metadata = tuple((text(each.key, name), text(each.value, name)) for each in proto.metadata_props)


class MemoryTensor(OnnxTensor, MemorySource):
    """A tensor whose elements were parsed."""


class StoredTensor(OnnxTensor, RawSource):
    """A tensor whose elements are read in place: in its own file, or in another one that the file `by` names."""

    by = ""
    checksum = ""

    def recheck(self) -> None:
        """TensorIOError if a file is not as it was, FormatError if its SHA-1 is not the one that the tensor names."""
        super().recheck()
        if not self.by:
            return
        with file_io.opened(self.by, self.described):
            pass
        if self.checksum:
            self._require_checksum()

    def _require_checksum(self) -> None:
        digest = hashlib.sha1(usedforsecurity=False)
        with file_io.opened(self.path, self.identity) as fd:
            for piece in file_io.pieces(fd, 0, self.unchanged.size, self.path):
                digest.update(piece)
        if digest.hexdigest() != self.checksum:
            found = f"is damaged: its SHA-1 is {digest.hexdigest()}, and {self.by} says {self.checksum}"
            raise not_whole(found, self.path)


def open_tensor(path: str, key: str | None = None, name: str = "") -> OnnxTensor:
    """The tensor of a file; `name` is for messages, the path without it. FormatError if `key` is another tensor's."""
    name = name or path
    onnx = package(name)
    with file_io.opened(path, name=name) as fd:
        message = _scanned(onnx, fd, name)
        proto = message.proto
        desc = _desc(onnx, proto, name)
        if proto.data_location == EXTERNAL:
            source = _beside(message, desc, path, name)
        else:
            source = _inside(onnx, fd, message, desc, path, name)
    source.describe(proto, name)
    if key is not None and key != source.key:
        hint = try_hint(path, source.key)
        raise FormatError("no such tensor", listed([source.key or "no name after ::"]), hint, f"{name}::{key}")
    return source


def _scanned(onnx: ModuleType, fd: int, name: str) -> _Message:
    """The parsed message; FormatError if it is no TensorProto."""
    identity = file_io.identity(fd)
    if identity.size > MOST_BYTES:
        found = f"has {identity.size} bytes"
        raise FormatError(found, f"at most {MOST_BYTES}, protobuf's limit", "keep large tensors in .npy or .h5", name)
    places: dict[int, list[Field]] = {}
    try:
        for field in fields(fd, identity.size, name):
            kind = _FIELDS.get(field.number)
            if kind and field.wire_type not in kind.wire_types:
                raise FormatError(f"its field {field.number} is not a {kind.name}", "a TensorProto", where=name)
            if field.number == _STRINGS:
                raise FormatError("its data type is STRING", _WANTED, where=name)
            if field.number == _SEGMENT:
                found = "is not a single tensor, but a sequence, an optional, or a part of one"
                raise FormatError(found, "a TensorProto", where=name)
            if kind and (field.end > field.value or not kind.holds_elements):
                places.setdefault(field.number, []).append(field)
        require_dimensions(count(fd, places.get(_DIMS, ()), name), name)
        elements = {number: found for number, found in places.items() if _FIELDS[number].holds_elements}
        rest = (each for number, found in places.items() if number not in elements for each in found)
        proto = parsed(onnx.TensorProto, read(fd, rest, name))
        if proto is None or not proto.data_type:
            raise FormatError("has no data type" if proto else "is damaged", "a TensorProto", where=name)
    except FormatError as e:
        raise _another(fd, identity.size, e) from None
    return _Message(proto, elements, identity)


def _another(fd: int, total: int, error: FormatError) -> FormatError:
    """The error of a file that is no tensor, or a better one where it is clear what else it is."""
    seems, hint = looks_like(file_io.read_some(fd, 64, 0, error.where), error.where)
    if hint or not total:
        return FormatError(f"is not a TensorProto: it looks like {seems}", "a tensor of ONNX", hint, error.where)
    with contextlib.suppress(FormatError):  # it is no message at all
        if _has_nodes(fd, total, error.where):
            hint = "revseq verify runs a model on its test_data_set_0"
            return FormatError("is a model, not a tensor", "a TensorProto", hint, error.where)
    return error


def _has_nodes(fd: int, total: int, name: str) -> bool:
    """Whether a message is a model, whose graph has nodes; nothing of it is parsed."""
    found = {field.number: field for field in fields(fd, total, name)}
    version, graph = (found.get(number) for number in (_IR_VERSION, GRAPH))
    if not version or not graph or (version.wire_type, graph.wire_type) != (VARINT, LENGTH):
        return False
    inner = (each for each in fields(fd, graph.end, name, graph.value) if each.number == NODE)
    node = next(inner, None)
    return node is not None and node.wire_type == LENGTH


def _desc(onnx: ModuleType, proto: Any, name: str) -> TensorDesc:  # noqa: ANN401 - a TensorProto
    if proto.data_type not in TYPES:
        names = {number: word for word, number in onnx.TensorProto.DataType.items()}
        found = f"its data type is {names.get(proto.data_type, proto.data_type)}"
        raise FormatError(found, _WANTED, where=name)
    sizes = tuple(proto.dims)
    require_sizes(sizes, name)
    return TensorDesc(TYPES[proto.data_type], sizes)


def _dtype(desc: TensorDesc) -> np.dtype[Any]:
    return dtype_of(desc.data_type).newbyteorder("<")


def _inside(onnx: ModuleType, fd: int, message: _Message, desc: TensorDesc, path: str, name: str) -> OnnxTensor:
    """The tensor whose elements are in the message itself."""
    number, found = _only_place(message, desc, name)
    kind, identity = _FIELDS[number], message.identity
    storage = Storage("onnx", {"elements": kind.name})
    dtype = _dtype(desc)
    if kind.as_stored:
        stored = sum(field.end - field.value for field in found)
        if stored != desc.total_bytes:
            has = f"has {stored} bytes of elements, and {desc} has {desc.total_bytes}"
            raise FormatError(has, "the same", where=name)
        if len(found) <= 1:
            offset = found[0].value if found else identity.size
            return StoredTensor(RawTensor(path, name, offset, dtype, desc.sizes), identity, storage)
        data = b"".join(file_io.read_some(fd, field.end - field.value, field.value, name) for field in found)
        values = np.frombuffer(data, dtype)
    else:
        found_count = count(fd, found, name)
        if found_count != desc.element_count:
            raise FormatError(
                f"has {found_count} elements, and {desc} has {desc.element_count}", "the same", where=name
            )
        proto = parsed(onnx.TensorProto, read(fd, found, name))
        if proto is None:
            raise FormatError("is damaged", "a TensorProto", where=name)
        values = _decoded(getattr(proto, kind.name), desc, name)
    held = MemoryTensor(name, values.reshape(desc.sizes), storage, identity)
    held.path = path
    return held


def _only_place(message: _Message, desc: TensorDesc, name: str) -> tuple[int, list[Field]]:
    """The number of the field with the elements, and where it lies; it may lie in several pieces, but for raw_data."""
    typed = _TYPED.get(desc.data_type, _INT32)
    places = message.elements
    wanted = f"raw_data or {_FIELDS[typed].name}, which {desc.data_type.name} has"
    if not places:
        return RAW, []
    names = listed(_FIELDS[number].name for number in places)
    if len(places) > 1 or not places.keys() <= {RAW, typed}:
        raise FormatError(f"has its elements in {names}", wanted, where=name)
    ((number, found),) = places.items()
    if number == RAW and len(found) > 1:
        raise FormatError("has raw_data twice", "once", where=name)
    return number, found


def _decoded(numbers: Any, desc: TensorDesc, name: str) -> NDArray[Any]:  # noqa: ANN401 - of a message
    """The elements from integers, each in as many bytes as it needs; floats of 16 and 8 bits are words there."""
    data_type, dtype = desc.data_type, dtype_of(desc.data_type)
    word = dtype if data_type.kind in ("int", "uint") else np.dtype(f"u{data_type.size}")
    least, most = int(np.iinfo(word).min), 1 if data_type is DataType.BOOL else int(np.iinfo(word).max)
    wide = np.fromiter(
        numbers, np.uint64 if data_type in (DataType.UINT32, DataType.UINT64) else np.int64, len(numbers)
    )
    bad = np.flatnonzero((wide < least) | (wide > most))
    if bad.size:
        found = f"{wide[bad[0]]}, its element {bad[0]}, does not fit {data_type.name}"
        raise FormatError(found, f"{least} to {most}", where=name)
    return wide.astype(word).view(dtype)


class Beside(NamedTuple):
    """Where elements are: `size` bytes at an offset of another file, and the SHA-1 that it should have, or nothing."""

    file: str
    identity: file_io.Identity
    offset: int
    size: int
    location: str
    checksum: str


def _beside(message: _Message, desc: TensorDesc, path: str, name: str) -> OnnxTensor:
    """The tensor whose elements are in a file of their own, in the same folder or below it."""
    if message.elements:
        raise FormatError("has elements, and says that they are in another file", "one of the two", where=name)
    file, identity, offset, _, location, checksum = elements_beside(
        message.proto, desc.total_bytes, str(desc), path, name
    )
    tensor = RawTensor(file, file, offset, _dtype(desc), desc.sizes)
    source = StoredTensor(tensor, identity, Storage("onnx", {"elements": location, "offset": str(offset)}))
    source.by, source.described, source.checksum = path, message.identity, checksum
    return source


def elements_beside(proto: Any, size: int, desc: str, path: str, name: str) -> Beside:  # noqa: ANN401 - a TensorProto
    """Where a tensor in the file `path`, of `size` bytes as `desc` says, has its elements.

    FormatError for a file outside of the folder of `path`, or one that does not have them.
    """
    fields = _external(proto.external_data, name)
    location, checksum = fields.get("location", ""), fields.get("checksum", "").lower()
    if checksum and not re.fullmatch("[0-9a-f]{40}", checksum):
        raise FormatError(f"its checksum is {checksum[:80]}", "a SHA-1, of 40 hexadecimal digits", where=name)
    offset, file = _number(fields.get("offset", "0"), name), _within(location, path, name)
    stated = _number(fields["length"], name) if fields.get("length") else None
    with file_io.opened(file) as fd:
        identity = file_io.identity(fd)
    length = max(0, identity.size - offset) if stated is None else stated
    found = f"has {length} bytes at {offset} of {printable(location)}"
    if offset + length > identity.size:
        raise FormatError(f"{found}, which has {identity.size}", "bytes of the file", "fetch it again", name)
    if length != size:
        raise FormatError(found, f"{size}, as {desc} has", where=name)
    return Beside(file, identity, offset, size, location, checksum)


def _external(entries: Iterable[Any], name: str) -> dict[str, str]:
    """What a tensor says of the file with its elements; FormatError for what it says twice."""
    fields: dict[str, str] = {}
    for entry in entries:
        key = text(entry.key, name)
        if key in fields:
            raise FormatError(f"its external_data has {key[:80]} twice", "once", where=name)
        fields[key] = text(entry.value, name)
    return fields


def _number(digits: str, name: str) -> int:
    if not re.fullmatch(f"[0-9]{{1,{_LONGEST_NUMBER}}}", digits):
        raise FormatError(f"its external_data has the number {digits[:80]}", "decimal digits", where=name)
    return int(digits)


def _within(location: str, path: str, name: str) -> str:
    """The path of the file with the elements of a tensor of the file `path`: no other is read through a tensor.

    FormatError for one outside that folder, or behind a link out of it.
    """
    folder = Path(path).parent
    plain = location and not set(location) & set("\\:\0") and ".." not in PurePosixPath(location).parts
    if plain and not location.startswith("/") and _IN_MEMORY not in location:
        found, allowed = os.path.realpath(folder / location), os.path.realpath(folder)
        if Path(found).is_relative_to(allowed):
            return found
    raise FormatError(
        f"its elements are in the file {location[:80]!r}", "a relative path in the folder of the tensor's file",
        "a tensor may not refer to other files; with the package onnx, load and save it where its file is", name,
    )  # fmt: skip
