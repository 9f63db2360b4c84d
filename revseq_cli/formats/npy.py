"""NumPy's .npy format: reads versions 1 to 3 and writes version 1, in either byte order, in C and Fortran order.

The header is parsed here, since NumPy reads as many bytes as a header declares before it checks the length, and ignores
trailing bytes. Source of the format: the docstring of numpy.lib.format.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import io
import re
import warnings
from math import prod
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, NamedTuple, cast

import numpy as np
from numpy.lib import format as npy_format

from revseq_cli.core import dtypes, platform
from revseq_cli.core.dtypes import data_type_of, dtype_of, is_big_endian, is_nameless, named, require_sizes
from revseq_cli.core.errors import FormatError
from revseq_cli.core.tensors import DataType
from revseq_cli.formats import file_io
from revseq_cli.formats.atomic_file import AtomicFile, FileTransaction, Scratch
from revseq_cli.formats.contents import refuse_key
from revseq_cli.formats.contract import Source, Storage, not_whole, refuse_bomb
from revseq_cli.formats.in_memory import MemorySource
from revseq_cli.formats.raw import RawSink, RawSource, RawTensor, UnpackedSource
from revseq_cli.formats.table import NPY_MAGIC, looks_like

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Address, FileSink, Layout, TextTypes
    from revseq_cli.formats.table import Packing

# NumPy's own limit, in bytes; a header of 64 dimensions takes less than 1,500.
_LONGEST_HEADER = 10_000
_MOST_BEHIND = 4  # bytes behind the last element that a message tells of
# So many bytes of a file hold the whole header.
HEAD_BYTES = _LONGEST_HEADER + 12
_LENGTH_BYTES = {1: 2, 2: 4, 3: 4}
_FIELDS = {"descr", "fortran_order", "shape"}
_ENCODINGS = {1: "latin1", 2: "latin1", 3: "utf-8"}
# NumPy writes this for FLOAT8_E5M2 of ml_dtypes, and cannot read it; it writes other such types as nameless bytes.
_E5M2 = re.compile(r"[<>|=]f1")
# What editors add behind the last line of what they take for a text.
_LINE_ENDS = {b"\n": "one newline", b"\r\n": "one newline, CR LF,"}


def open_source(address: Address, types: TextTypes) -> Source:
    """The tensor of a .npy file."""
    refuse_key(address.key, "a .npy file", address.path)
    return NpySource(address.path, asked=types.asked)


def create_sink(file: AtomicFile, template: Source, key: str, layout: Layout) -> FileSink:  # noqa: ARG001 - it has neither
    """The sink of a new .npy file."""
    return NpySink(file, template)


def write_to(stream: BinaryIO, source: Source) -> None:
    """Write the whole tensor into a pipe, in its own memory order."""
    values = source.read()
    stream.write(header_bytes(values.dtype, values.shape, source.order))
    stream.write(np.ascontiguousarray(values.T if source.order == "F" else values).reshape(-1).view(np.uint8).data)


class Header:
    """A parsed header; `offset` is that of the elements, in bytes from its first byte."""

    def __init__(self, head: bytes, total: int, name: str) -> None:
        """Parse the first bytes of a file of `total` bytes; FormatError if it holds no numeric tensor.

        `total` is only held against the header's length; `check_size` compares it with the elements.
        """
        self._name = name
        if not head.startswith(NPY_MAGIC):
            seems, hint = looks_like(head)
            raise FormatError(f"is not a .npy file: it looks like {seems}", "a .npy file by its suffix", hint, name)
        if total < 12:
            raise self._truncated(total, "a header")
        self.version = head[6]
        if self.version not in _LENGTH_BYTES:
            raise self._wrong(f"has .npy version {self.version}", "version 1, 2 or 3")
        start = 8 + _LENGTH_BYTES[self.version]
        length = int.from_bytes(head[8:start], "little")
        if length > _LONGEST_HEADER:
            raise self._wrong(f"has a header of {length} bytes", f"at most {_LONGEST_HEADER}")
        if start + length > total:
            raise self._truncated(total, f"a header of {length} bytes")
        raw = head[start : start + length]
        if raw.endswith(b"\r"):  # in place of the header's last newline, which stands where the elements begin
            found, wanted = "was changed as text: each newline in it became CR LF", "the bytes as they were written"
            raise self._wrong(found, wanted, "fetch it again as a binary file; for git: *.npy binary in .gitattributes")
        fields = self._fields(raw)
        self.dtype = self._dtype(fields["descr"])
        self.sizes = self._sizes(fields["shape"])
        self.order = "F" if fields["fortran_order"] else "C"
        self.offset = start + length

    def named(self, asked: DataType | None) -> Self:
        """Set the data type of nameless bytes to `asked`, which the user names for them; return the header."""
        self.dtype = named(self.dtype, asked, self._name, big=self._is_big)
        return self

    def tensor(self, path: str, start: int = 0) -> RawTensor:
        """Where the elements lie in a file that has this header at the offset `start`."""
        return RawTensor(path, self._name, start + self.offset, self.dtype, self.sizes, self.order)

    @property
    def storage(self) -> Storage:
        """The properties that `show` prints."""
        return Storage("npy", {"version": str(self.version), "order": self.order, **_byte_order(self.dtype)})

    def _wrong(self, found: str, wanted: str, hint: str = "") -> FormatError:
        return FormatError(found, wanted, hint, self._name)

    def _truncated(self, total: int, promised: str) -> FormatError:
        return not_whole(f"is truncated: {total} bytes, and it promises {promised}", self._name)

    def _fields(self, raw: bytes) -> dict[str, Any]:
        if not (fields := _parsed(raw, _ENCODINGS[self.version])):
            raise self._wrong("has a damaged header", "a dictionary of descr, fortran_order and shape, each once")
        if not isinstance(fields["fortran_order"], bool):
            raise self._wrong("has a damaged header", "fortran_order is True or False")
        return fields

    def _dtype(self, descr: object) -> np.dtype[Any]:
        self._is_big = str(descr).startswith(">")  # NumPy drops the byte order of nameless bytes
        if isinstance(descr, str) and _E5M2.fullmatch(descr):
            return dtype_of(DataType.FLOAT8_E5M2)
        try:
            dtype = npy_format.descr_to_dtype(cast("Any", descr))
        except (TypeError, ValueError, LookupError, RecursionError, SyntaxError):
            raise self._wrong(f"has the data type {str(descr)[:80]}", "a number's") from None
        if dtype.hasobject:
            raise self._wrong("has the data type object, Python's pickled objects", "numbers; a pickle is never loaded")
        if dtype.names:
            found = f"its data type is {str(dtype)[:80]}, which is structured"
            raise self._wrong(found, "a number's", "save each field as a tensor")
        try:
            if not is_nameless(dtype):
                data_type_of(dtype)
        except FormatError as e:
            raise self._wrong(f"{e.found}, which is not a number", e.wanted) from None
        return dtype

    def _sizes(self, shape: object) -> tuple[int, ...]:
        if not isinstance(shape, tuple) or not all(type(size) is int for size in shape):
            raise self._wrong("has a damaged header", "shape is a tuple of integers")
        require_sizes(shape, self._name)
        return shape

    @property
    def end(self) -> int:
        """The offset of the first byte behind the elements."""
        return self.offset + prod(self.sizes) * self.dtype.itemsize

    def check_size(self, total: int, behind: bytes = b"", path: str = "") -> str:
        """FormatError unless a file of `total` bytes ends with the last element; a note on padding that is ignored.

        DxDispatch writes whole buffers of a multiple of 4 bytes. `behind` has the first bytes behind the last element,
        and `path` is a file that a command can cut.
        """
        if total < self.end:
            raise self._truncated(total, f"{self.end} in all")
        if total == self.end:
            return ""
        line_end, extra = _LINE_ENDS.get(behind), f"{total - self.end} bytes"
        if not line_end and total - self.end < 4 and (total - self.offset) % 4 == 0 and self.dtype.itemsize < 4:
            return f"{self._name}: padding of {extra} after the last element is ignored"
        cut = f"head -c {self.end} < {platform.quoted(path)} > new.npy" if path and line_end else ""
        hint = cut if line_end else "were two files joined? split them"
        raise self._wrong(f"has {line_end or extra} after its last element", "one tensor and nothing else", hint)


@functools.lru_cache(maxsize=64)  # the files of a batch are often alike
def _parsed(raw: bytes, encoding: str) -> dict[str, Any] | None:
    """The fields of a header, which nobody may change; None for a damaged one."""
    try:
        text = raw.decode(encoding)
        text = re.sub(r"(?<=\d)L\b", "", text)  # Python 2 wrote sizes so
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python's parser warns about some damaged headers
            node = ast.parse(text.strip(), mode="eval").body
            fields = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    # Of a key that stands twice, some readers take the first value, and others the last.
    once = isinstance(node, ast.Dict) and len(node.keys) == len(_FIELDS)
    return fields if once and isinstance(fields, dict) and set(fields) == _FIELDS else None


class NpySource(RawSource):
    """A .npy file; `name` is for messages, the path without it; `asked` is the data type of nameless bytes."""

    def __init__(self, path: str, name: str = "", asked: DataType | None = None) -> None:
        name = name or path
        with file_io.opened(path, name=name) as fd:
            identity = file_io.identity(fd)
            head = file_io.read_some(fd, HEAD_BYTES, 0, name)
            header = Header(head, identity.size, name).named(asked)
            behind = file_io.read_some(fd, _MOST_BEHIND, min(header.end, identity.size), name)
        note = header.check_size(identity.size, behind, path)
        self.notes = (note,) if note else ()
        super().__init__(header.tensor(path), identity, header.storage)


def open_packed(path: str, packing: Packing, asked: DataType | None) -> Source:
    """The tensor of a packed .npy file."""
    from revseq_cli.formats import packed  # most files are not

    with file_io.opened(path) as fd:
        identity = file_io.identity(fd)
    head = b""
    for piece in packed.pieces(path, packing):
        head += piece
        if len(head) >= HEAD_BYTES:
            break
    header = Header(head, len(head), path).named(asked)
    refuse_bomb(header.end, identity.size, packed.unpack_hint(packing, path), path)
    storage = Storage("npy", header.storage.details | {"compression": packing.name})
    unpack = functools.partial(packed.pieces, path, packing, identity)
    return UnpackedSource(header.tensor(path), identity, storage, unpack)


def _byte_order(dtype: np.dtype[Any]) -> dict[str, str]:
    return {} if dtype.itemsize == 1 else {"byte order": "big-endian" if is_big_endian(dtype) else "little-endian"}


class Piped(NamedTuple):
    """A .npy that came through a pipe, with the bytes of its elements."""

    name: str
    header: Header
    elements: NDArray[np.uint8]

    def source(self, asked: DataType | None) -> Source:
        """The tensor; `asked` is the data type of nameless bytes."""
        header = self.header.named(asked)
        order: Literal["C", "F"] = "F" if header.order == "F" else "C"
        values = np.frombuffer(self.elements, header.dtype, prod(header.sizes))
        return MemorySource(self.name, values.reshape(header.sizes, order=order), header.storage)


def from_stream(name: str, stream: BinaryIO, head: bytes = b"") -> Piped:
    """Read a .npy from a pipe, of which `head` has been read already; the elements are read into place, not copied."""
    head += stream.read(HEAD_BYTES - len(head))
    header = Header(head, len(head), name)
    size = header.end - header.offset
    try:
        elements = np.empty(size, np.uint8)
    except (MemoryError, ValueError):
        found = f"declares {size} bytes, which do not fit into the memory"
        raise FormatError(found, "less, since a pipe is held in memory", "save it to a file first", name) from None
    room = elements.data
    done = min(len(head) - header.offset, len(room))
    room[:done] = head[header.offset : header.offset + done]
    while done < len(room) and (count := stream.readinto(room[done:])):  # type: ignore[attr-defined]
        done += count
    behind = head[header.end :] + stream.read(_MOST_BEHIND)
    header.check_size(header.offset + done + len(behind), behind)
    return Piped(name, header, elements)


def header_bytes(dtype: np.dtype[Any], sizes: tuple[int, ...], order: str) -> bytes:
    """A header of version 1; for data types that NumPy lacks it says nameless bytes, as NumPy does."""
    descr: object = npy_format.dtype_to_descr(dtype)
    if dtypes.is_minifloat(dtype):
        descr = f"{'>' if is_big_endian(dtype) else '<'}V{dtype.itemsize}"
    fields = {"descr": descr, "fortran_order": order == "F", "shape": sizes}
    stream = io.BytesIO()
    npy_format.write_array_header_1_0(stream, fields)
    return stream.getvalue()


class NpySink(RawSink):
    """A new .npy file, into which the workers write their regions."""

    def __init__(self, file: AtomicFile, template: Source) -> None:
        super().__init__(file)
        self._data_type = template.desc.data_type
        self.place(template, header_bytes(template.dtype, template.sizes, template.order))

    def reopen(self) -> Source:
        """The complete file, as an input."""
        return NpySource(self.file.temporary, self.file.name, self._data_type)


@contextlib.contextmanager
def scratch(beside: str, template: Source) -> Iterator[FileSink]:
    """The sink of a temporary .npy file next to the file `beside`, which is removed in the end."""
    file = Scratch(beside)
    with FileTransaction(file), NpySink(file, template) as sink:
        yield sink
