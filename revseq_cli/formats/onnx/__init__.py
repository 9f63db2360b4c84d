"""ONNX: a tensor in a .pb file, which is a TensorProto, nodes of models, and the test data of ONNX's operators.

`source` finds the fields of a tensor and reads its elements in place, which may be in a file of their own. `models`
parses a model once, by the package onnx, an extra, finds its nodes, and makes what other programs get of it. `testdata`
finds the tensors that test one.
This module is the format as the table of formats calls it, and writes tensors. It is loaded when a file needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from revseq_cli.core.dtypes import dtype_of
from revseq_cli.core.errors import FormatError
from revseq_cli.formats.contents import TensorNameError
from revseq_cli.formats.onnx import source
from revseq_cli.formats.onnx.source import MOST_BYTES, NUMBERS, RAW, OnnxTensor, open_tensor, package
from revseq_cli.formats.raw import RawSink
from revseq_cli.formats.textfiles import binary_suffix

if TYPE_CHECKING:
    from revseq_cli.formats.atomic_file import AtomicFile
    from revseq_cli.formats.contract import Address, FileSink, Layout, Source
    from revseq_cli.formats.documents import TextTypes


def open_source(address: Address, types: TextTypes) -> Source:  # noqa: ARG001 - the file names its type
    """The tensor of a file."""
    return open_tensor(address.path, address.key)


def create_sink(file: AtomicFile, template: Source, key: str, layout: Layout) -> FileSink:  # noqa: ARG001 - it has neither
    """The sink of a new file of one tensor, with or without a name."""
    return OnnxSink(file, template, key)


def write_to(stream: BinaryIO, source: Source) -> None:
    """Write the whole tensor into a pipe."""
    stream.write(_head_bytes(source, source.key, "the output"))
    values = np.ascontiguousarray(source.read(), dtype_of(source.desc.data_type).newbyteorder("<"))
    stream.write(values.reshape(-1).view(np.uint8).data)


def _head_bytes(template: Source, key: str, where: str) -> bytes:
    """What stands before the elements of a tensor of that name; FormatError if the file would be too large."""
    desc, kept = template.desc, template if isinstance(template, OnnxTensor) else None
    try:
        proto = package(where).TensorProto(
            dims=desc.sizes, data_type=NUMBERS[desc.data_type], name=key or None,
            doc_string=(kept and kept.doc_string) or None,
        )  # fmt: skip
    except UnicodeEncodeError:
        raise TensorNameError.of(key, "tensor", "a name such as x", where) from None
    for name, value in kept.metadata if kept else ():
        proto.metadata_props.add(key=name, value=value)
    head: bytes = proto.SerializeToString(deterministic=True) + source.head(RAW, desc.total_bytes)
    if len(head) + desc.total_bytes > MOST_BYTES:
        raise FormatError(
            f"would be a protobuf message of {len(head) + desc.total_bytes} bytes", f"at most {MOST_BYTES}",
            f"write a format without that limit, such as out{binary_suffix(desc.data_type)}", where,
        )  # fmt: skip
    return head


class OnnxSink(RawSink):
    """A new file, into which the workers write their regions."""

    def __init__(self, file: AtomicFile, template: Source, key: str) -> None:
        super().__init__(file)
        dtype = dtype_of(template.desc.data_type).newbyteorder("<")
        self.place(template, _head_bytes(template, key, file.name), dtype=dtype)

    def reopen(self) -> Source:
        """The complete file, as an input."""
        return open_tensor(self.file.temporary, name=self.file.name)
