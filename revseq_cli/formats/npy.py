"""NumPy's .npy format.

Versions 1 to 3 are read and version 1 is written, in either byte order, in C and Fortran order. The
length of a header is checked here, since NumPy reads as many bytes as a header declares before
it looks at the length, and ignores trailing bytes. Source of the format: the docstring of
numpy.lib.format.
"""

from __future__ import annotations

import contextlib
import functools
import io
import re
import tokenize
import warnings
from collections.abc import Iterator
from math import prod
from typing import Any, BinaryIO, Literal, NamedTuple

import numpy as np
from numpy.lib import format as npy_format

from revseq_cli import files
from revseq_cli.core.dtypes import (
    as_typed,
    data_type_of,
    dtype_of,
    is_big_endian,
    is_minifloat,
    is_untyped,
    require_sizes,
)
from revseq_cli.core.errors import FormatError
from revseq_cli.core.tensors import DataType
from revseq_cli.files.new import NewFile, Scratch
from revseq_cli.files.transactions import FileTransaction
from revseq_cli.formats.contract import (
    FileSink,
    Head,
    Location,
    Original,
    Source,
    Storage,
    TextTypes,
)
from revseq_cli.formats.raw import RawSink, RawSource, RawTensor, view_bytes
from revseq_cli.formats.refusals import make_damage_error, refuse_key
from revseq_cli.formats.table import NPY_MAGIC, describe_head

# NumPy's own limit, in bytes; a header of 64 dimensions takes less than 1,500.
_LONGEST_HEADER = 10_000
# This many bytes of a file hold the whole header.
HEAD_BYTES = _LONGEST_HEADER + 12
_LENGTH_BYTES = {1: 2, 2: 4, 3: 4}
# What NumPy and Python's parser raise for a damaged one.
_DAMAGE = (
    ValueError,
    TypeError,
    LookupError,
    SyntaxError,
    RecursionError,
    MemoryError,
    tokenize.TokenError,
)
# The data type in a header that NumPy alone does not understand. NumPy writes f1 for FLOAT8_E5M2 of
# ml_dtypes, and cannot read it; it writes other such types as untyped bytes.
_DESCR = re.compile(rb"""(['"]descr['"]\s*:\s*['"])(?P<order>[<>|=])(?P<type>f1|V\d+)(?=['"])""")


def open_source(location: Location, types: TextTypes) -> Source:
    """The tensor of a .npy file."""
    refuse_key(location.key, "a .npy file", location.path)
    return open_npy(location.path, location.path, types.asked, location.head)


def create_sink(
    file: NewFile, template: Source, _key: str = "", _original: Original | None = None
) -> FileSink:
    """The sink of a new .npy file."""
    head = make_header(template.dtype, template.sizes, template.order)
    reopen = functools.partial(open_npy, file.temporary, file.name, template.desc.data_type)
    return RawSink(file, RawTensor.like(template, file, len(head)), reopen, head)


def write_to(stream: BinaryIO, source: Source) -> None:
    """Write the whole tensor into a pipe, in its own memory order."""
    values = source.read()
    stream.write(make_header(values.dtype, values.shape, source.order))
    if source.order == "F":
        values = values.T
    stream.write(view_bytes(np.ascontiguousarray(values)))


class Header(NamedTuple):
    """A parsed header."""

    version: int
    dtype: np.dtype[Any]
    sizes: tuple[int, ...]
    order: Literal["C", "F"]
    offset: int  # of the elements, from the first byte of the header
    big: bool  # whether untyped bytes are big-endian, which their dtype cannot say

    @classmethod
    def of(cls, head: bytes, total: int, where: str) -> Header:
        """Parse the first bytes of a file; FormatError if it has no tensor of numbers.

        The `total` bytes of the file are compared with the length of the header only:
        `require_whole` compares them with the elements.
        """
        if not head.startswith(NPY_MAGIC):
            seems, hint = describe_head(head)
            raise FormatError(f"is named .npy, but looks like {seems}", hint=hint, where=where)
        version = 1
        if total > 12:  # a shorter file may end before this byte, and is refused below
            version = head[6]
        if version not in _LENGTH_BYTES:
            raise FormatError(f"has .npy version {version}", "version 1, 2 or 3", where=where)
        start = 8 + _LENGTH_BYTES[version]
        length = int.from_bytes(head[8:start], "little")
        offset = start + length
        if length > _LONGEST_HEADER:
            found = f"has a header of {length} bytes"
            raise FormatError(found, f"at most {_LONGEST_HEADER}", where=where)
        if total < 12 or total < offset:
            raise make_damage_error(
                f"truncated: has {total} bytes, but its header has {length}", where
            )
        raw = head[start:offset]
        if raw.endswith(b"\r"):  # the last newline of the header is then the first element
            found = "was transferred in text mode: LF became CR LF"
            raise FormatError(found, hint="transfer it again in binary mode", where=where)
        sizes, is_fortran, dtype = _parse_fields(raw, where)
        require_sizes(sizes, where)
        order: Literal["C", "F"] = "F" if is_fortran else "C"
        descr = _DESCR.search(raw)
        big = descr is not None and descr["order"] == b">"
        return cls(version, dtype, sizes, order, offset, big)

    def as_typed(self, asked: DataType | None, where: str) -> Header:
        """The header with `asked` as the data type of untyped bytes.

        FormatError if they cannot have that data type, or if none is asked for.
        """
        return self._replace(dtype=as_typed(self.dtype, asked, where, big=self.big))

    def locate_elements(self, path: str, where: str, start: int = 0) -> RawTensor:
        """Where the elements are in a file that has this header at the offset `start`."""
        return RawTensor(path, where, start + self.offset, self.dtype, self.sizes, self.order)

    def describe_storage(self, format_name: str = "npy", **details: str) -> Storage:
        """How the tensor is stored; `details` are those of the file that contains the .npy file."""
        details |= {"version": str(self.version), "order": self.order}
        if self.dtype.itemsize > 1:
            details["byte order"] = "big-endian" if is_big_endian(self.dtype) else "little-endian"
        return Storage(format_name, details)

    @property
    def end(self) -> int:
        """The offset of the first byte after the elements."""
        return self.offset + prod(self.sizes) * self.dtype.itemsize

    def require_whole(self, total: int, where: str) -> None:
        """FormatError unless a file of `total` bytes ends with the last element.

        DxDispatch writes whole buffers of a multiple of 4 bytes.
        """
        if total < self.end:
            raise make_damage_error(f"truncated: has {total:,} of {self.end:,} bytes", where)
        rest = total - self.end
        is_padded = self.dtype.itemsize < 4 and (total - self.offset) % 4 == 0
        most = 3 if is_padded else 0
        if rest > most:
            found = f"has {rest} bytes after its last element: were two files joined?"
            raise FormatError(found, where=where)


_Fields = tuple[tuple[int, ...], bool, np.dtype[Any]]  # shape, Fortran order and dtype


def _parse_fields(raw: bytes, where: str) -> _Fields:
    """The fields of a header; FormatError for damage, and for what is not numbers."""
    descr = _DESCR.search(raw)
    is_e5m2 = descr is not None and descr["type"] == b"f1"
    if is_e5m2:
        raw = _DESCR.sub(rb"\1\2V1", raw)
    try:
        sizes, is_fortran, dtype = _parse_dictionary(raw)
    except _DAMAGE as e:
        reason = str(e).partition("(max_header_size")[0][:200]
        expected = "a dictionary of descr, fortran_order and shape"
        raise FormatError(f"has a damaged header: {reason}", expected, where=where) from None
    if is_e5m2:
        dtype = dtype_of(DataType.FLOAT8_E5M2)
    try:
        if not is_untyped(dtype):
            data_type_of(dtype)
    except FormatError as e:
        if dtype.hasobject:
            e.set_hint("a pickle is never loaded: save numbers")
        raise e.about(where) from None
    return sizes, is_fortran, dtype


@functools.lru_cache(maxsize=16)  # files of a batch have the same one, and each takes 0.1 ms
def _parse_dictionary(raw: bytes) -> _Fields:
    """The fields of a header, as NumPy parses them.

    They are read as version 2, which has room for any length. Version 3 differs only in the names
    of fields, which no tensor of numbers has.
    """
    stream = io.BytesIO(len(raw).to_bytes(4, "little") + raw)
    with warnings.catch_warnings():
        # Python's parser warns of some damage, and NumPy of Python 2's headers.
        warnings.simplefilter("ignore")
        return npy_format.read_array_header_2_0(stream)


def open_npy(path: str, where: str, asked: DataType | None, head: Head | None = None) -> RawSource:
    """The tensor of a .npy file; `asked` is the data type of untyped bytes."""
    if head is None:
        with files.open_file(path, name=where) as fd:
            head = Head(fd.identity, fd.read(HEAD_BYTES, 0))
    size = head.identity.size
    header = Header.of(head.data, size, where).as_typed(asked, where)
    header.require_whole(size, where)
    return RawSource(header.locate_elements(path, where), head.identity, header.describe_storage())


def make_header(dtype: np.dtype[Any], sizes: tuple[int, ...], order: str) -> bytes:
    """A header of version 1, in which data types that NumPy lacks are untyped bytes."""
    descr: object = npy_format.dtype_to_descr(dtype)
    if is_minifloat(dtype):
        mark = ">" if is_big_endian(dtype) else "<"
        descr = f"{mark}V{dtype.itemsize}"
    fields = {"descr": descr, "fortran_order": order == "F", "shape": sizes}
    stream = io.BytesIO()
    npy_format.write_array_header_1_0(stream, fields)
    return stream.getvalue()


@contextlib.contextmanager
def create_scratch(next_to: str, template: Source) -> Iterator[FileSink]:
    """The sink of a temporary .npy file next to the file `next_to`, which is removed in the end."""
    file = Scratch(next_to)
    with FileTransaction(file), create_sink(file, template) as sink:
        yield sink
