"""A new .pb file of one tensor: the fields before its elements, and the elements as raw_data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from revseq_cli.formats.onnx import wire
from revseq_cli.formats.onnx.package import package
from revseq_cli.formats.onnx.source import MOST_BYTES, NUMBERS, RAW, OnnxTensor, open_tensor
from revseq_cli.formats.raw import RawSink, RawTensor
from revseq_cli.formats.storage import positioned
from revseq_cli.ground.dtypes import dtype_of
from revseq_cli.ground.errors import FormatError, UsageError

if TYPE_CHECKING:
    from revseq_cli.formats.contract import Source
    from revseq_cli.formats.storage.newfile import NewFile


def head_bytes(like: Source, key: str, where: str) -> bytes:
    """What stands before the elements of a tensor of that name; FormatError if the file would be too large."""
    desc, kept = like.desc, like if isinstance(like, OnnxTensor) else None
    try:
        proto = package(where).TensorProto(
            dims=desc.sizes, data_type=NUMBERS[desc.data_type], name=key or None,
            doc_string=(kept and kept.doc_string) or None,
        )  # fmt: skip
    except UnicodeEncodeError:
        raise UsageError(f"{key!r} is no tensor's name", "a name such as x", where=where) from None
    for name, value in kept.metadata if kept else ():
        proto.metadata_props.add(key=name, value=value)
    head: bytes = proto.SerializeToString(deterministic=True) + wire.head(RAW, desc.total_bytes)
    if len(head) + desc.total_bytes > MOST_BYTES:
        raise FormatError(
            f"would be a protobuf message of {len(head) + desc.total_bytes} bytes", f"at most {MOST_BYTES}",
            "write a format without that limit, such as out.npy", where,
        )  # fmt: skip
    return head


class OnnxSink(RawSink):
    """A new file, into which the workers write their regions."""

    def __init__(self, file: NewFile, like: Source, key: str) -> None:
        super().__init__(file)
        self._head = head_bytes(like, key, file.name)
        dtype = dtype_of(like.desc.data_type).newbyteorder("<")
        self.tensor = RawTensor(file.temporary, file.name, len(self._head), dtype, like.sizes)

    def start(self) -> None:
        """Reserve the bytes of the file, and write all that stands before the elements."""
        with positioned.opened_to_write(self.file.temporary, self.file.name) as fd:
            positioned.allocate(fd, self.tensor.end, self.file.name)
            positioned.write_all(fd, self._head, 0, self.file.name)

    def reopen(self) -> Source:
        """The complete file, as an input."""
        return open_tensor(self.file.temporary, name=self.file.name)
