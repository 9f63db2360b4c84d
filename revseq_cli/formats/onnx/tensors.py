"""ONNX tensors in .pb files: the message TensorProto of onnx/onnx.proto.

The package onnx, an extra, parses a file whole.
"""

# ruff: noqa: ANN401 - the messages of the package onnx have no types

from __future__ import annotations

from functools import partial
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from revseq_cli.core.dtypes import dtype_of, require_sizes
from revseq_cli.core.errors import DataTypeError, FormatError
from revseq_cli.core.tensors import DataType
from revseq_cli.files import open_file
from revseq_cli.files.input_file import Identity
from revseq_cli.files.new import NewFile
from revseq_cli.formats.contract import FileSink, Location, Original, Source, Storage, TextTypes
from revseq_cli.formats.memory import MemorySource, WholeSink
from revseq_cli.formats.refusals import choose_tensor, import_extra, make_damage_error
from revseq_cli.formats.table import describe_head

_MOST_BYTES = (1 << 31) - 1  # of a protobuf message
MOST_ELEMENT_BYTES = _MOST_BYTES - (1 << 16)  # in a message that is made here
# ONNX's numbers of the data types that this program has.
TYPES = {
    1: DataType.FLOAT32, 2: DataType.UINT8, 3: DataType.INT8, 4: DataType.UINT16,
    5: DataType.INT16, 6: DataType.INT32, 7: DataType.INT64,
    9: DataType.BOOL, 10: DataType.FLOAT16, 11: DataType.FLOAT64, 12: DataType.UINT32,
    13: DataType.UINT64, 14: DataType.COMPLEX64, 15: DataType.COMPLEX128, 16: DataType.BFLOAT16,
    17: DataType.FLOAT8_E4M3FN, 18: DataType.FLOAT8_E4M3FNUZ,
    19: DataType.FLOAT8_E5M2, 20: DataType.FLOAT8_E5M2FNUZ,
    24: DataType.FLOAT8_E8M0FNU,
}  # fmt: skip
_NUMBERS = {data_type: number for number, data_type in TYPES.items()}


def read_proto(path: str, message: str, where: str) -> tuple[Any, Identity]:
    """A file as a message of that class, such as TensorProto, and the state in which it was read.

    Fields that the package does not know are left out. FormatError if the file has no such message.
    """
    onnx = import_extra("onnx", "a protobuf message of ONNX", where)
    from google.protobuf.message import DecodeError  # onnx depends on it

    with open_file(path, name=where) as fd:
        identity = fd.identity
        if identity.size > _MOST_BYTES:
            raise FormatError(
                f"has {identity.size} bytes",
                f"at most {_MOST_BYTES}, protobuf's limit",
                "keep large tensors in .npy",
                where,
            )
        data = fd.read_all()
    try:
        proto = getattr(onnx, message).FromString(data)
    except DecodeError:
        seems, hint = describe_head(data[:64])
        found = f"no {message} of ONNX, or damaged: it looks like {seems}"
        raise FormatError(found, f"a whole {message}", hint, where) from None
    proto.DiscardUnknownFields()
    return proto, identity


def open_source(location: Location, _types: TextTypes) -> Source:
    """The tensor of a file."""
    return read_tensor_file(location.path, location.key)


def read_tensor_file(path: str, key: str | None = None, where: str = "") -> Source:
    """The tensor of a file, which messages call `where`, or else by its path.

    FormatError for damage, or if `key` is another tensor's.
    """
    where = where or path
    proto, identity = read_proto(path, "TensorProto", where)
    if proto.data_type not in TYPES:
        expected = "a TensorProto of numbers of whole bytes"
        if not proto.data_type:
            raise FormatError("no tensor of ONNX", expected, where=where)
        raise DataTypeError(f"ONNX's number {proto.data_type}", expected, where=where)
    if proto.data_location:
        raise FormatError(
            "its elements are in another file",
            "a tensor with its elements",
            "load and save it with the Python package onnx",
            where,
        )
    key = choose_tensor([str(proto.name)], key, where)
    require_sizes(tuple(proto.dims), where)
    try:
        values = _read_elements(proto)
    except (ValueError, OverflowError, TypeError) as e:
        found = f"damaged: its elements are not those of its sizes and its data type: {e}"
        raise make_damage_error(found, where) from None
    storage = Storage("onnx", {"tensor": key} if key else {})
    return MemorySource(where, values, storage, identity, path=path, key=key)


def _read_elements(proto: Any) -> NDArray[Any]:
    """The elements of a tensor; ValueError if they are too few or too many."""
    from onnx import numpy_helper

    data_type = TYPES[proto.data_type]
    dtype = dtype_of(data_type)
    if proto.raw_data:
        flat = np.frombuffer(proto.raw_data, dtype.newbyteorder("<"))
    elif data_type.kind == "minifloat":  # older versions of the package convert them to FLOAT32
        flat = np.array(proto.int32_data, np.int64).astype(f"u{data_type.size}").view(dtype)
    elif data_type.kind == "complex":  # onnx 1.17 cannot read them
        parts = proto.float_data or proto.double_data
        flat = np.array(parts, f"f{data_type.size // 2}").view(dtype)
    else:
        flat = numpy_helper.to_array(proto).reshape(-1)
    return flat.reshape(tuple(proto.dims))


def write_to(stream: BinaryIO, source: Source) -> None:
    """Write the whole tensor into a pipe."""
    header = _make_header(source, source.key, "the output")
    stream.write(_encode_tensor(header, source.read()))


def create_sink(file: NewFile, template: Source, key: str, _original: Original | None) -> FileSink:
    """The sink of a new file of one tensor, with or without a name."""
    encode = partial(_encode_tensor, _make_header(template, key, file.name))
    return WholeSink(file, template, encode, lambda path: read_tensor_file(path, where=file.name))


def _make_header(template: Source, key: str, where: str) -> Any:
    """A TensorProto that lacks its elements; FormatError for one that cannot be written."""
    onnx = import_extra("onnx", "a protobuf message of ONNX", where)
    desc = template.desc
    if desc.total_bytes > MOST_ELEMENT_BYTES:
        raise FormatError(
            f"would be a protobuf message of more than {desc.total_bytes} bytes",
            f"at most {_MOST_BYTES}",
            "to write a format without that limit, type out.npy",
            where,
        )
    number = _NUMBERS[desc.data_type]
    try:
        return onnx.TensorProto(dims=desc.sizes, data_type=number, name=key or None)
    except UnicodeEncodeError:
        found = f"{key!r} is not a tensor name"
        raise FormatError(found, "a name such as x", where=where) from None


def _encode_tensor(header: Any, values: NDArray[Any]) -> bytes:
    """The bytes of the message with these elements."""
    little_endian = values.dtype.newbyteorder("<")
    header.raw_data = np.ascontiguousarray(values, little_endian).tobytes()
    message: bytes = header.SerializeToString(deterministic=True)
    return message
