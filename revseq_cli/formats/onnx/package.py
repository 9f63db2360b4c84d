"""The package onnx, an extra, and the messages that it parses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from revseq_cli.ground.errors import FormatError

if TYPE_CHECKING:
    from types import ModuleType


def package(where: str) -> ModuleType:
    """The package; FormatError about the file `where` if it is not installed."""
    try:
        import onnx  # an extra, which takes a quarter of a second
    except ModuleNotFoundError:
        hint = "pip install 'revseq-cli[onnx]'"
        raise FormatError("is a protobuf message of ONNX", "the package onnx", hint, where) from None
    return onnx


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
