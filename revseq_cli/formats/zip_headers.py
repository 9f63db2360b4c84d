"""The headers of zip archives: the local header before each member, and the directory at the end.

Source of the format: PKWARE's APPNOTE.TXT 6.3.10, whose sections are named below.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import zipfile
    from collections.abc import Iterator, Sequence

# APPNOTE 4.3.7, 4.3.12, 4.3.14, 4.3.15, 4.3.16 and 4.5.3: headers, the ends of the directory, and the extra field for
# sizes that need 64 bits; `_ELSEWHERE` stands in a header where the size is in that field.
LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR_64 = struct.Struct("<4sLQL")
END = struct.Struct("<4s4H2LH")
_FIELD = struct.Struct("<2H")
LOCAL_MAGIC, END_MAGIC = b"PK\3\4", b"PK\5\6"
_CENTRAL_MAGIC, _END_64_MAGIC, _LOCATOR_64_MAGIC = b"PK\1\2", b"PK\6\6", b"PK\6\7"
_ELSEWHERE, _ELSEWHERE_16 = 0xFFFFFFFF, 0xFFFF
# From here on, a size or an offset needs 64 bits, and a count of members more than 16.
_LARGE, _MANY = _ELSEWHERE, _ELSEWHERE_16
_FIELD_64 = 1
_VERSION_64 = 45
UTF8_FLAG = 1 << 11  # APPNOTE 4.4.4: the name is in UTF-8, instead of code page 437
_EARLIEST = 0 << 9 | 1 << 5 | 1  # 1 January 1980, so that the same values make the same file


class Entry(NamedTuple):
    """The directory's fields of one member; `extra` is without the field for sizes that need 64 bits.

    `stored` and `size` are bytes of the data, packed and unpacked; `offset` is that of the local header.
    """

    name: bytes
    flags: int
    method: int = 0
    date: int = _EARLIEST
    time: int = 0
    crc: int = 0
    stored: int = 0
    size: int = 0
    offset: int = 0
    version: int = 20
    made_by: int = 20
    disk: int = 0
    internal: int = 0
    external: int = 0
    extra: bytes = b""
    comment: bytes = b""

    @classmethod
    def of(cls, info: zipfile.ZipInfo) -> Entry:
        """The entry of a member that zipfile has read, with every field as in the directory."""
        year, month, day, hour, minute, second = info.date_time
        return cls(
            info.orig_filename.encode("utf-8" if info.flag_bits & UTF8_FLAG else "cp437"),
            info.flag_bits,
            info.compress_type,
            year - 1980 << 9 | month << 5 | day,
            hour << 11 | minute << 5 | second // 2,
            info.CRC,
            info.compress_size,
            info.file_size,
            info.header_offset,
            info.reserved << 8 | info.extract_version,
            info.create_system << 8 | info.create_version,
            info.volume,
            info.internal_attr,
            info.external_attr,
            b"".join(field for kind, field in _fields(info.extra) if kind != _FIELD_64),
            info.comment,
        )

    def local(self) -> bytes:
        """The local header of an uncompressed member, without `extra`: APPNOTE 4.3.7."""
        wide = self.size >= _LARGE
        extra = _field_64([self.size, self.size]) if wide else b""
        size = _ELSEWHERE if wide else self.size
        fields = (self._needs(wide=wide), self.flags, self.method, self.time, self.date, self.crc, size, size)
        return LOCAL.pack(LOCAL_MAGIC, *fields, len(self.name), len(extra)) + self.name + extra

    def central(self) -> bytes:
        """The member's header in the directory: APPNOTE 4.3.12."""
        values = (self.size, self.stored, self.offset)
        wide = [value for value in values if value >= _LARGE]
        size, stored, offset = (_ELSEWHERE if value >= _LARGE else value for value in values)
        extra = (_field_64(wide) if wide else b"") + self.extra
        fields = (self.made_by, self._needs(wide=bool(wide)), self.flags, self.method, self.time, self.date, self.crc)
        lengths = (len(self.name), len(extra), len(self.comment))
        others = (self.disk, self.internal, self.external, offset)
        header = _CENTRAL.pack(_CENTRAL_MAGIC, *fields, stored, size, *lengths, *others)
        return header + self.name + extra + self.comment

    def _needs(self, *, wide: bool) -> int:
        return max(self.version, _VERSION_64) if wide else self.version


def _field_64(values: Sequence[int]) -> bytes:
    return _FIELD.pack(_FIELD_64, 8 * len(values)) + struct.pack(f"<{len(values)}Q", *values)


def _fields(extra: bytes) -> Iterator[tuple[int, bytes]]:
    """The kind and bytes of each extra field: APPNOTE 4.5.1; an incomplete one at the end has the kind -1."""
    while extra:
        kind, size = _FIELD.unpack_from(extra) if len(extra) >= _FIELD.size else (-1, len(extra))
        yield kind, extra[: _FIELD.size + size]
        extra = extra[_FIELD.size + size :]


def directory(entries: Sequence[Entry], offset: int, comment: bytes) -> bytes:
    """A directory for the offset `offset`, with its end records: APPNOTE 4.3.14 to 4.3.16."""
    data = b"".join(entry.central() for entry in entries)
    size, count, ends = len(data), len(entries), b""
    if max(size, offset) >= _LARGE or count >= _MANY:
        version = _VERSION_64
        ends += _END_64.pack(_END_64_MAGIC, _END_64.size - 12, version, version, 0, 0, count, count, size, offset)
        ends += _LOCATOR_64.pack(_LOCATOR_64_MAGIC, 0, offset + size, 1)
    count, size, offset = (
        count if count < _MANY else _ELSEWHERE_16,
        *(each if each < _LARGE else _ELSEWHERE for each in (size, offset)),
    )
    return data + ends + END.pack(END_MAGIC, 0, 0, count, count, size, offset, len(comment)) + comment


class Around(NamedTuple):
    """An archive in which a new member replaces `entries[replaced]`, with its directory in `entries` and `comment`.

    `after` is the offset of the next member, and `end` that of the directory.
    """

    entries: list[Entry]
    replaced: int
    after: int
    end: int
    comment: bytes

    @classmethod
    def of(cls, entries: list[Entry], index: int, end: int, comment: bytes) -> Around:
        """The archive in which the member of that index is replaced."""
        offset = entries[index].offset
        after = min((each.offset for each in entries if each.offset > offset), default=end)
        return cls(entries, index, after, end, comment)

    @property
    def entry(self) -> Entry:
        """The member that is replaced."""
        return self.entries[self.replaced]

    def parts(self, new_end: int) -> list[tuple[int, int, int]]:
        """What is copied around a new member that ends at `new_end`: the old offset, the bytes, and the new offset."""
        return [(0, self.entry.offset, 0), (self.after, self.end - self.after, new_end)]

    def directory(self, entry: Entry, new_end: int) -> tuple[int, bytes]:
        """The offset of the new directory, and its bytes, with a new member that ends at `new_end`."""
        moved = new_end - self.after
        entries = [each._replace(offset=each.offset + moved * (each.offset > entry.offset)) for each in self.entries]
        entries[self.replaced] = entry
        return self.end + moved, directory(entries, self.end + moved, self.comment)
