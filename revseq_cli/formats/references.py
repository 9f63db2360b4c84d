"""How a user names a tensor, as path::key, and how its file is opened."""

from __future__ import annotations

import functools
import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from revseq_cli import files
from revseq_cli.core import platform
from revseq_cli.core.errors import (
    FormatError,
    MissingFileError,
    RevseqError,
    TensorIOError,
    UsageError,
)
from revseq_cli.formats import pipes, recognition, table
from revseq_cli.formats.contract import Head, Source, TextTypes
from revseq_cli.formats.refusals import propose_keys, refuse_key
from revseq_cli.formats.table import (
    JSON,
    NPY,
    RAW,
    TEXT,
    ZARR,
    Compression,
    Format,
    by_name,
    by_suffix,
)

if TYPE_CHECKING:
    from revseq_cli.formats.listings import Contents
    from revseq_cli.text.examples import Text


@dataclass(frozen=True)
class Reference:
    """How a user names a tensor, as `path::key`, or a tensor in the argument itself."""

    path: str
    key: str | None = None
    inline: str | None = None  # the text of a tensor in the argument; then `path` is for messages
    format: str | None = None  # a format's name, which overrides first bytes and suffix

    @classmethod
    def input(
        cls,
        text: str,
        format_name: str | None = None,
        name: str = "the argument",
        *,
        forces_format: bool = False,
    ) -> Reference:
        """An input as on the command line; `name` is for messages about a tensor in the argument.

        `format_name` counts if the bytes and the suffix of the file say nothing, and with
        `forces_format` always.
        """
        if platform.TYPED_TENSOR.match(text):
            return cls(name, inline=text)
        is_number = text.isascii() and text.isdecimal()
        if is_number and not os.path.lexists(text):
            return cls(name, inline=f"[{text}]")
        reference = cls.file(text)
        if format_name is None:
            return reference
        if forces_format or reference.may_take_format(format_name):
            return replace(reference, format=format_name)
        return reference

    @classmethod
    def output(
        cls,
        text: str,
        format_name: str | None,
        stdout: str = "-o -",
    ) -> Reference:
        """An output; `stdout` is what to type for standard output, for messages."""
        reference = cls.file(text, format_name)
        path = reference.path
        if path == "-":
            return reference
        row = by_name(reference.format) or by_suffix(path)
        is_device = os.path.dirname(path) in ("/dev", "/dev/fd")
        if reference.is_piped or is_device:
            if row is None or not row.can_print:
                row = NPY
            hint = f"to write to standard output, type {stdout} -f {row.name}"
            raise UsageError("is a pipe or a device", "a file, or -", hint, path)
        if reference.is_local_folder and row is not ZARR:
            if reference.key is not None and table.is_store(path):
                return reference
            name = os.path.join(path, f"y{table.choose_suffix(format_name)}")
            hint = f"to write a file there, type {platform.as_argument(name)}"
            raise TensorIOError("is a folder", "the name of a file to write", hint, path)
        return reference

    @classmethod
    def file(cls, text: str, format_name: str | None = None) -> Reference:
        """A file, or a tensor in it, as `path::key`."""
        if not text:
            raise UsageError("empty file name: is a shell variable unset?")
        text = files.parse_name(text)
        address = files.split_address(text, has_suffix=lambda path: by_suffix(path) is not None)
        if address:
            return cls(*address, format=format_name)
        path, key = _split_name(text)
        fault, hint = platform.name_fault(path)
        if fault:
            file, _, name = path.rpartition(":")
            if not hint and by_suffix(file):
                hint = propose_keys(file, name)
            raise UsageError(fault, "the name of a file", hint, path)
        return cls(path, key, format=format_name)

    def absolute(self) -> Reference:
        """The reference with an absolute path."""
        if self.is_piped or self.inline is not None:
            return self
        return replace(self, path=files.absolute(self.path))

    @functools.cached_property
    def is_piped(self) -> bool:
        """Whether it is standard input or another pipe, which can be read only once."""
        if self.inline is not None:
            return False
        return self.path == "-" or self._is_kind(stat.S_ISFIFO)

    @property
    def is_local_folder(self) -> bool:
        """Whether it is a folder of this machine."""
        return self._is_kind(stat.S_ISDIR)

    @functools.cached_property
    def status(self) -> os.stat_result | None:
        """The status of a file of this machine on the first call, or None."""
        try:
            return os.stat(self.path)
        except (OSError, ValueError):
            return None

    def _is_kind(self, is_kind: Callable[[int], bool]) -> bool:
        return self.status is not None and is_kind(self.status.st_mode)

    @property
    def name(self) -> str:
        """Its name in messages."""
        return pipes.name_pipe(self.path)

    @functools.cached_property
    def row(self) -> Format:
        """The format of an input: by option, else by first bytes, else by suffix.

        FormatError if none of them tells it.
        """
        if self.inline is not None:
            return TEXT
        row = by_name(self.format)
        if row:
            return row
        if self.is_piped:
            return self._find_piped_format()
        if not self.is_raw_buffer:
            row = self._recognition.format
        row = row or self._row_by_suffix
        if row is None:
            raise recognition.make_format_error(self.path, self.key)
        return row

    @property
    def _row_by_suffix(self) -> Format | None:
        return by_suffix(self.path, reading=True)

    def _find_piped_format(self) -> Format:
        """The format of what comes through the pipe: .npy, or a format of text."""
        content = pipes.read_pipe(self.path)
        if not isinstance(content, bytes):
            return NPY
        from revseq_cli.formats.text import choose_piped_format  # few pipes have text

        return choose_piped_format(self.text, self.key)

    @property
    def is_file(self) -> bool:
        """Whether it is a file, or a folder, and not a pipe or a tensor in the argument."""
        return self.inline is None and not self.is_piped

    @property
    def is_raw_buffer(self) -> bool:
        """Whether it is a file of only elements, whose shape and data type the user names."""
        row = by_name(self.format) or self._row_by_suffix
        return row is RAW and self.is_file

    @property
    def is_onnx_model(self) -> bool:
        """Whether it is a model of ONNX, by its suffix, or a node of one."""
        return self.path.lower().endswith(".onnx") and self.is_file

    @property
    def example_number(self) -> int | None:
        """The number of an example on a page, as in page.md::2; None for another key."""
        if self.key and re.fullmatch("[0-9]+", self.key):
            return int(self.key[:9])
        return None

    @property
    def compression(self) -> Compression | None:
        """How a file is compressed; pipes are not decompressed."""
        if self.is_raw_buffer or not self.is_file:
            return None
        return self._recognition.compression

    @property
    def head(self) -> Head | None:
        """The first bytes of a .npy file, by which it was recognized."""
        return self._recognition.head

    @functools.cached_property
    def _recognition(self) -> recognition.Recognition:
        """What the first bytes say; between JSON and other text, the suffix decides."""
        is_folder = self.is_local_folder or recognition.is_tensor_folder(self.path)
        try:
            recognized = recognition.recognize(self.path, is_folder=is_folder)
        except MissingFileError as e:
            raise e.set_hint(recognition.propose_for_missing_file(self.path, self.key)) from None
        row = self._row_by_suffix
        if {recognized.format, row} == {JSON, TEXT}:
            return replace(recognized, format=row)
        return recognized

    def may_take_format(self, format_name: str) -> bool:
        """Whether --input-format may count for this input: nothing says another format.

        The first bytes of a file say its format. If they do not, the suffixes of texts and raw
        buffers do, such as .csv and .bin, since these have no first bytes of their own.
        """
        if self.inline is not None:
            return False
        if self.is_piped:
            return True
        try:
            row = self._recognition.format
        except RevseqError:  # raised again when it is opened
            row = None
        if row is not None:
            return row.name == format_name
        row = self._row_by_suffix
        says_format = row is not None and (row.is_text or row is RAW)
        return not says_format

    @functools.cached_property
    def text(self) -> Text:
        """The whole text, read on the first call; FormatError if it is not text."""
        from revseq_cli.formats.text_files import (  # most tensors are not in text
            decode_text,
            read_text,
        )
        from revseq_cli.text.examples import Text

        if self.inline is not None:
            return Text(self.path, self.inline)
        if not self.is_piped:
            return read_text(self.path, self.compression)
        data = pipes.read_pipe(self.path)
        if not isinstance(data, bytes):
            raise FormatError("is not text: it looks like a .npy file", where=self.name)
        return decode_text(data, self.name)


def _split_name(text: str) -> tuple[str, str | None]:
    """The path and the key of `path::key`.

    A file's name may have :: in it, so the longest path that exists counts.
    """
    path, separator, key = text.partition("::")
    if not separator:
        return text, None
    parts = text.split("::")
    for count in range(len(parts), 1, -1):
        longer = "::".join(parts[:count])
        fault, _ = platform.name_fault(longer)
        if fault or not os.path.exists(longer):
            continue
        if longer == text:
            return text, None
        return longer, "::".join(parts[count:])
    return path, key


def contents(reference: Reference, types: TextTypes) -> Contents | None:
    """What a file or a group of it holds, as its headers say; None for a single tensor."""
    if reference.compression or not reference.is_file:
        return None
    row = reference.row
    if not row.can_list:
        return None
    if reference.key is not None and not row.has_groups:
        return None
    return row.load().contents(reference, types)


def open_source(reference: Reference, types: TextTypes) -> Source:
    """Read the header of the tensor.

    RevseqError if it is not a tensor that this program can read.
    """
    if reference.is_piped:
        return _open_piped(reference, types)
    row = reference.row
    path = reference.path
    if reference.compression and row is NPY:
        from revseq_cli.formats.compressed import open_compressed  # few files are compressed

        refuse_key(reference.key, "a .npy file", path)
        return open_compressed(path, reference.compression, types.asked)
    if row is RAW and not reference.format:
        _refuse_compressed_buffer(path)
    return row.load().open_source(reference, types)


def _refuse_compressed_buffer(path: str) -> None:
    """FormatError for a raw buffer with the suffix of a compression."""
    compression = table.find_compression(path)
    if compression:
        from revseq_cli.formats.compressed import propose_decompression

        hint = propose_decompression(compression, path)
        raise FormatError("is compressed raw data", ".npy or text", hint, path)


def _open_piped(reference: Reference, types: TextTypes) -> Source:
    """The tensor that comes through a pipe."""
    row = reference.row
    if row.has_names or row is RAW:
        raise pipes.make_pipe_error(row, reference.name)
    content = pipes.read_pipe(reference.path)
    if isinstance(content, pipes.PipedNpy):
        return content.open_source(types.asked)
    if not row.is_text:
        row = TEXT
    return row.load().open_source(reference, types)
