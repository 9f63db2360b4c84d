"""A tensor of ONNX in a .pb file, which is a TensorProto: read and written whole, by the package onnx, an extra.

Source: onnx/onnx.proto.
"""

from __future__ import annotations

from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from revseq_cli.core.dtypes import dtype_of, require_sizes
from revseq_cli.core.errors import FormatError
from revseq_cli.core.tensors import DataType
from revseq_cli.formats import file_io
from revseq_cli.formats.atomic_file import AtomicFile
from revseq_cli.formats.contents import chosen, extra, not_whole
from revseq_cli.formats.contract import Address, FileSink, Source, Storage, TextTypes
from revseq_cli.formats.raw import MemorySource, WholeSink
from revseq_cli.formats.table import looks_like

MOST_BYTES = (1 << 31) - 1  # of a protobuf message
# ONNX's numbers of the data types that this program has.
TYPES = {
    1: DataType.FLOAT32, 2: DataType.UINT8, 3: DataType.INT8, 4: DataType.UINT16, 5: DataType.INT16, 6: DataType.INT32,
    7: DataType.INT64, 9: DataType.BOOL, 10: DataType.FLOAT16, 11: DataType.FLOAT64, 12: DataType.UINT32,
    13: DataType.UINT64, 14: DataType.COMPLEX64, 15: DataType.COMPLEX128, 16: DataType.BFLOAT16,
    17: DataType.FLOAT8_E4M3FN, 18: DataType.FLOAT8_E4M3FNUZ, 19: DataType.FLOAT8_E5M2, 20: DataType.FLOAT8_E5M2FNUZ,
    24: DataType.FLOAT8_E8M0FNU,
}  # fmt: skip
_NUMBERS = {data_type: number for number, data_type in TYPES.items()}


def parsed(path: str, message: str, name: str = "") -> tuple[Any, file_io.Identity]:
    """A file as a message of that class, such as TensorProto, and the state in which it was read; FormatError if none.

    Fields that the package does not know are left out.
    """
    name = name or path
    onnx = extra("onnx", "is a protobuf message of ONNX", name)
    from google.protobuf.message import DecodeError  # onnx depends on it

    with file_io.opened(path, name=name) as fd:
        identity = file_io.identity(fd)
        if identity.size > MOST_BYTES:
            found = f"has {identity.size} bytes"
            raise FormatError(found, f"at most {MOST_BYTES}, protobuf's limit", "keep large tensors in .npy", name)
        data = file_io.read_some(fd, identity.size, 0, name)
    try:
        proto = getattr(onnx, message).FromString(data)
    except DecodeError:
        seems, hint = looks_like(data[:64])
        found = f"is no {message} of ONNX, or is damaged: it looks like {seems}"
        raise FormatError(found, f"a whole {message}", hint, name) from None
    proto.DiscardUnknownFields()
    return proto, identity


def open_source(address: Address, types: TextTypes) -> Source:  # noqa: ARG001 - the file names its type
    """The tensor of a file."""
    return open_tensor(address.path, address.key)


def open_tensor(path: str, key: str | None = None, name: str = "") -> Source:
    """The tensor of a file; `name` is for messages. FormatError for damage, or if `key` is another tensor's."""
    name = name or path
    proto, identity = parsed(path, "TensorProto", name)
    if proto.data_type not in TYPES:
        found = f"its data type is ONNX's number {proto.data_type}" if proto.data_type else "is no tensor of ONNX"
        raise FormatError(found, "a TensorProto of numbers of whole bytes", where=name)
    if proto.data_location or proto.HasField("segment"):
        found = "its elements are in another file" if proto.data_location else "is a part of a tensor"
        raise FormatError(found, "a tensor with its elements", "load and save it with the package onnx", name)
    key = chosen([str(proto.name)], key, name)
    require_sizes(tuple(proto.dims), name)
    try:
        values = _values_of(proto)
    except (ValueError, OverflowError, TypeError) as e:
        found = f"is damaged: its elements are not those of its sizes and its data type: {e}"
        raise not_whole(found, name) from None
    source = MemorySource(name, values, Storage("onnx", {"tensor": key} if key else {}), identity)
    source.path, source.key = path, key
    return source


def _values_of(proto: Any) -> NDArray[Any]:  # noqa: ANN401 - a TensorProto
    """The elements of a tensor; ValueError where they are too few or too many. Those of small floats are words."""
    from onnx import numpy_helper

    data_type = TYPES[proto.data_type]
    dtype = dtype_of(data_type)
    if proto.raw_data:
        flat = np.frombuffer(proto.raw_data, dtype.newbyteorder("<"))
    elif data_type.kind == "minifloat":  # older versions of the package make FLOAT32 of them
        flat = np.array(proto.int32_data, np.int64).astype(f"u{data_type.size}").view(dtype)
    elif data_type.kind == "complex":  # onnx 1.17 cannot read them
        parts = proto.float_data or proto.double_data
        flat = np.array(parts, f"f{data_type.size // 2}").view(dtype)
    else:
        flat = numpy_helper.to_array(proto).reshape(-1)
    return flat.reshape(tuple(proto.dims))


def write_to(stream: BinaryIO, source: Source) -> None:
    """Write the whole tensor into a pipe."""
    stream.write(_message(source.read(), source, source.key, "the output"))


def create_sink(file: AtomicFile, template: Source, key: str, *, only: bool) -> FileSink:  # noqa: ARG001 - it has none
    """The sink of a new file of one tensor, with or without a name."""
    empty = np.broadcast_to(np.zeros((), template.dtype), template.sizes)
    _message(empty[:0] if empty.ndim else empty, template, key, file.name)  # what refuses it does so now

    def message(values: NDArray[Any]) -> bytes:
        return _message(values, template, key, file.name)

    return WholeSink(file, template, message, lambda path: open_tensor(path, name=file.name))


def _message(values: NDArray[Any], template: Source, key: str, where: str) -> bytes:
    onnx, desc = extra("onnx", "is a protobuf message of ONNX", where), template.desc
    if desc.total_bytes > MOST_BYTES - (1 << 16):
        found = f"would be a protobuf message of more than {desc.total_bytes} bytes"
        raise FormatError(found, f"at most {MOST_BYTES}", "write a format without that limit, such as out.npy", where)
    data = np.ascontiguousarray(values, values.dtype.newbyteorder("<")).tobytes()
    try:
        proto = onnx.TensorProto(dims=desc.sizes, data_type=_NUMBERS[desc.data_type], name=key or None, raw_data=data)
    except UnicodeEncodeError:
        raise FormatError(f"{key!r} is no name of a tensor", "a name such as x", where=where) from None
    message: bytes = proto.SerializeToString(deterministic=True)
    return message
