"""A tensor in a .pb file: its header is parsed, and its elements are read in place, or parsed where ONNX encodes them.

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

from revseq_cli.formats.contents import try_hint
from revseq_cli.formats.contract import Source, Storage, not_whole
from revseq_cli.formats.held import HeldSource
from revseq_cli.formats.onnx import wire
from revseq_cli.formats.onnx.wire import package, parsed, text
from revseq_cli.formats.raw import RawSource, RawTensor
from revseq_cli.formats.recognition import looks_like
from revseq_cli.formats.storage import positioned
from revseq_cli.ground.dtypes import dtype_of, require_dimensions, require_sizes
from revseq_cli.ground.errors import FormatError, listed, printable
from revseq_cli.ground.tensors import DataType, TensorDesc

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

    from numpy.typing import NDArray

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
    1: _Kind("dims", (wire.VARINT, wire.LENGTH)),
    2: _Kind("data_type", (wire.VARINT,)),
    3: _Kind("segment", (wire.LENGTH,)),
    4: _Kind("float_data", (wire.LENGTH, wire.FIXED32), holds_elements=True, as_stored=True),
    5: _Kind("int32_data", (wire.LENGTH, wire.VARINT), holds_elements=True),
    6: _Kind("string_data", (wire.LENGTH,)),
    7: _Kind("int64_data", (wire.LENGTH, wire.VARINT), holds_elements=True),
    8: _Kind("name", (wire.LENGTH,)),
    RAW: _Kind("raw_data", (wire.LENGTH,), holds_elements=True, as_stored=True),
    10: _Kind("double_data", (wire.LENGTH, wire.FIXED64), holds_elements=True, as_stored=True),
    11: _Kind("uint64_data", (wire.LENGTH, wire.VARINT), holds_elements=True),
    12: _Kind("doc_string", (wire.LENGTH,)),
    13: _Kind("external_data", (wire.LENGTH,)),
    14: _Kind("data_location", (wire.VARINT,)),
    16: _Kind("metadata_props", (wire.LENGTH,)),
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
    elements: dict[int, list[wire.Field]]
    identity: positioned.Identity


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


class HeldTensor(OnnxTensor, HeldSource):
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
        with positioned.opened(self.by, self.described):
            pass
        if self.checksum:
            self._require_checksum()

    def _require_checksum(self) -> None:
        digest = hashlib.sha1(usedforsecurity=False)
        with positioned.opened(self.path, self.identity) as fd:
            for piece in positioned.pieces(fd, 0, self.unchanged.size, self.path):
                digest.update(piece)
        if digest.hexdigest() != self.checksum:
            found = f"is damaged: its SHA-1 is {digest.hexdigest()}, and {self.by} says {self.checksum}"
            raise not_whole(found, self.path)


def open_tensor(path: str, key: str | None = None, name: str = "") -> OnnxTensor:
    """The tensor of a file; `name` is for messages, the path without it. FormatError if `key` is another tensor's."""
    name = name or path
    onnx = package(name)
    with positioned.opened(path, name=name) as fd:
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
    identity = positioned.identity(fd)
    if identity.size > MOST_BYTES:
        found = f"has {identity.size} bytes"
        raise FormatError(found, f"at most {MOST_BYTES}, protobuf's limit", "keep large tensors in .npy or .h5", name)
    places: dict[int, list[wire.Field]] = {}
    try:
        for field in wire.fields(fd, identity.size, name):
            kind = _FIELDS.get(field.number)
            if kind and field.wire_type not in kind.wire_types:
                raise FormatError(f"its field {field.number} is no {kind.name}", "a TensorProto", where=name)
            if field.number == _STRINGS:
                raise FormatError("its data type is STRING", _WANTED, where=name)
            if field.number == _SEGMENT:
                found = "holds no single tensor: it is a sequence, an optional, or a part of one"
                raise FormatError(found, "a TensorProto", where=name)
            if kind and (field.end > field.value or not kind.holds_elements):
                places.setdefault(field.number, []).append(field)
        require_dimensions(wire.count(fd, places.get(_DIMS, ()), name), name)
        elements = {number: found for number, found in places.items() if _FIELDS[number].holds_elements}
        rest = (each for number, found in places.items() if number not in elements for each in found)
        proto = parsed(onnx.TensorProto, wire.read(fd, rest, name))
        if proto is None or not proto.data_type:
            raise FormatError("has no data type" if proto else "is damaged", "a TensorProto", where=name)
    except FormatError as e:
        raise _another(fd, identity.size, e) from None
    return _Message(proto, elements, identity)


def _another(fd: int, total: int, error: FormatError) -> FormatError:
    """The error of a file that is no tensor, or a better one where it is clear what else it is."""
    seems, hint = looks_like(positioned.read_some(fd, 64, 0, error.where), error.where)
    if hint or not total:
        return FormatError(f"is not a TensorProto: it looks like {seems}", "a tensor of ONNX", hint, error.where)
    with contextlib.suppress(FormatError):  # it is no message at all
        if _has_nodes(fd, total, error.where):
            hint = "revseq verify runs a model on its test_data_set_0"
            return FormatError("is a model, not a tensor", "a TensorProto", hint, error.where)
    return error


def _has_nodes(fd: int, total: int, name: str) -> bool:
    """Whether a message is a model, whose graph has nodes; nothing of it is parsed."""
    found = {field.number: field for field in wire.fields(fd, total, name)}
    version, graph = (found.get(number) for number in (_IR_VERSION, GRAPH))
    if not version or not graph or (version.wire_type, graph.wire_type) != (wire.VARINT, wire.LENGTH):
        return False
    inner = (each for each in wire.fields(fd, graph.end, name, graph.value) if each.number == NODE)
    node = next(inner, None)
    return node is not None and node.wire_type == wire.LENGTH


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
        data = b"".join(positioned.read_some(fd, field.end - field.value, field.value, name) for field in found)
        values = np.frombuffer(data, dtype)
    else:
        found_count = wire.count(fd, found, name)
        if found_count != desc.element_count:
            raise FormatError(
                f"has {found_count} elements, and {desc} has {desc.element_count}", "the same", where=name
            )
        proto = parsed(onnx.TensorProto, wire.read(fd, found, name))
        if proto is None:
            raise FormatError("is damaged", "a TensorProto", where=name)
        values = _decoded(getattr(proto, kind.name), desc, name)
    held = HeldTensor(name, values.reshape(desc.sizes), storage, identity)
    held.path = path
    return held


def _only_place(message: _Message, desc: TensorDesc, name: str) -> tuple[int, list[wire.Field]]:
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


def _beside(message: _Message, desc: TensorDesc, path: str, name: str) -> OnnxTensor:
    """The tensor whose elements are in a file of their own, in the same folder or below it."""
    if message.elements:
        raise FormatError("has elements, and says that they are in another file", "one of the two", where=name)
    fields = _external(message.proto.external_data, name)
    location, checksum = fields.get("location", ""), fields.get("checksum", "").lower()
    if checksum and not re.fullmatch("[0-9a-f]{40}", checksum):
        raise FormatError(f"its checksum is {checksum[:80]}", "a SHA-1, of 40 hexadecimal digits", where=name)
    offset, file = _number(fields.get("offset", "0"), name), _within(location, path, name)
    stated = _number(fields["length"], name) if fields.get("length") else None
    with positioned.opened(file) as fd:
        identity = positioned.identity(fd)
    length = max(0, identity.size - offset) if stated is None else stated
    found = f"has {length} bytes at {offset} of {printable(location)}"
    if offset + length > identity.size:
        raise FormatError(f"{found}, which has {identity.size}", "bytes of the file", "fetch it again", name)
    if length != desc.total_bytes:
        raise FormatError(found, f"{desc.total_bytes}, as {desc} has", where=name)
    tensor = RawTensor(file, file, offset, _dtype(desc), desc.sizes)
    source = StoredTensor(tensor, identity, Storage("onnx", {"elements": location, "offset": str(offset)}))
    source.by, source.described, source.checksum = path, message.identity, checksum
    return source


def file_of_elements(proto: Any, path: str) -> positioned.Identity:  # noqa: ANN401 - a TensorProto
    """The file that has the elements of a tensor in the file `path`; FormatError for one outside of its folder."""
    with positioned.opened(_within(_external(proto.external_data, path).get("location", ""), path, path)) as fd:
        return positioned.identity(fd)


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
    if plain and not location.startswith("/"):
        found, allowed = os.path.realpath(folder / location), os.path.realpath(folder)
        if Path(found).is_relative_to(allowed):
            return found
    raise FormatError(
        f"its elements are in the file {location[:80]!r}", "a relative path in the folder of the tensor's file",
        "nothing else is read through a tensor; with the package onnx, load and save it where its file is", name,
    )  # fmt: skip
