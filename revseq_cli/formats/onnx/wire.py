"""Protobuf messages of ONNX: where fields lie in a file, so that long ones are not read; the package parses the rest.

Source: protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from revseq_cli.formats.contract import extra, not_whole
from revseq_cli.formats.storage import positioned
from revseq_cli.ground import thresholds
from revseq_cli.ground.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import ModuleType

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
            base, piece = place, positioned.read_some(fd, thresholds.MESSAGE_PIECE, place, name)
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


def read(fd: int, places: Iterable[Field], name: str) -> bytes:
    """These fields, as a message."""
    return b"".join(positioned.read_some(fd, each.end - each.start, each.start, name) for each in places)


def count(fd: int, places: Iterable[Field], name: str) -> int:
    """How many numbers these fields hold, where a field of bytes is packed varints; none of them is parsed.

    In a packed field, each byte without its highest bit ends a number. Parsed numbers take many times their bytes.
    """
    found = 0
    for field in places:
        found += field.wire_type == VARINT
        packed = range(field.value, field.end, thresholds.MESSAGE_PIECE) if field.wire_type == LENGTH else ()
        for place in packed:
            piece = positioned.read_some(fd, min(thresholds.MESSAGE_PIECE, field.end - place), place, name)
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
    raise ValueError("a number without an end")


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
