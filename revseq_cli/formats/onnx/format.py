"""ONNX's tensors as the table of formats calls them."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from revseq_cli.formats.onnx.sink import OnnxSink, head_bytes
from revseq_cli.formats.onnx.source import open_tensor
from revseq_cli.ground.dtypes import dtype_of

if TYPE_CHECKING:
    from revseq_cli.formats.contract import Address, FileSink, Layout, Source
    from revseq_cli.formats.documents import TextTypes
    from revseq_cli.formats.storage.newfile import NewFile


def open_source(address: Address, types: TextTypes) -> Source:  # noqa: ARG001 - the file names its type
    """The tensor of a file."""
    return open_tensor(address.path, address.key)


def create_sink(file: NewFile, like: Source, key: str, layout: Layout) -> FileSink:  # noqa: ARG001 - it has neither
    """The sink of a new file of one tensor, with or without a name."""
    return OnnxSink(file, like, key)


def names_in(path: str) -> list[str]:
    """The name of the tensor, if it has one."""
    key = open_tensor(path).key
    return [key] if key else []


def write_to(stream: BinaryIO, source: Source) -> None:
    """Write the whole tensor into a pipe."""
    stream.write(head_bytes(source, source.key, "the output"))
    values = np.ascontiguousarray(source.read(), dtype_of(source.desc.data_type).newbyteorder("<"))
    stream.write(values.reshape(-1).view(np.uint8).data)
