"""Raw buffers: a file has only the elements, little-endian, in C order.

The user names the shape and the data type.
"""

from __future__ import annotations

import functools
from math import prod
from typing import BinaryIO

import numpy as np

from revseq_cli import files
from revseq_cli.core.dtypes import dtype_of, require_sizes
from revseq_cli.core.errors import FormatError, UsageError
from revseq_cli.core.tensors import in_braces
from revseq_cli.files.new import NewFile
from revseq_cli.formats.contract import FileSink, Location, Original, Source, Storage, TextTypes
from revseq_cli.formats.raw import RawSink, RawSource, RawTensor, view_bytes
from revseq_cli.formats.refusals import refuse_key


def open_source(location: Location, types: TextTypes) -> Source:
    """The tensor of a file."""
    refuse_key(location.key, "a raw buffer", location.path)
    return _open_buffer(location.path, location.path, types)


def create_sink(file: NewFile, template: Source, _key: str, _original: Original | None) -> FileSink:
    """The sink of a new file."""
    data_type = template.desc.data_type
    types = TextTypes(data_type, data_type, template.sizes)
    path = file.temporary
    dtype = template.dtype.newbyteorder("<")
    tensor = RawTensor(path, file.name, 0, dtype, template.sizes)
    return RawSink(file, tensor, functools.partial(_open_buffer, path, file.name, types))


def write_to(stream: BinaryIO, source: Source) -> None:
    """Write all elements into a pipe."""
    values = np.ascontiguousarray(source.read(), source.dtype.newbyteorder("<"))
    stream.write(view_bytes(values))


def _open_buffer(path: str, where: str, types: TextTypes) -> RawSource:
    """The tensor of a file; FormatError unless it takes all bytes."""
    with files.open_file(path, name=where) as fd:
        identity = fd.identity
    data_type = types.asked or types.default
    element_count = identity.size // data_type.size
    if types.sizes is None:
        found = f"raw data of {identity.size:,} bytes need --sizes"
        hint = f"for a vector of {data_type.name}, add --sizes {element_count}"
        raise UsageError(found, "a size for each dimension, such as 2x3x4", hint, where)
    sizes = _fill_in_size(types.sizes, element_count)
    require_sizes(sizes, where)
    size = prod(sizes) * data_type.size
    if identity.size != size:
        expected = f"{size:,}: {data_type.name} {in_braces(sizes)}"
        raise FormatError(f"has {identity.size:,} bytes", expected, where=where)
    tensor = RawTensor(path, where, 0, dtype_of(data_type).newbyteorder("<"), sizes)
    return RawSource(tensor, identity, Storage("raw", {}))


def _fill_in_size(sizes: tuple[int, ...], element_count: int) -> tuple[int, ...]:
    """The sizes, with the one that the file's elements leave instead of -1."""
    others = prod(size for size in sizes if size >= 0)
    left = element_count // max(1, others)
    return tuple(left if size < 0 else size for size in sizes)
