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
from revseq_cli.formats.listings import Contents
from revseq_cli.formats.refusals import refuse_key, try_hint
from revseq_cli.formats.table import (
    JSON,
    NPY,
    ONNX,
    RAW,
    TEXT,
    ZARR,
    Compression,
    Format,
    by_name,
    by_suffix,
)

if TYPE_CHECKING:
    from revseq_cli.text.examples import Text

# A tensor in an argument: it begins with a bracket, or is a call as NumPy, PyTorch, JAX and
# TensorFlow print it.
_TYPED = re.compile(
    r"\s*(?:\[|<tf\.(?:Tensor|Variable)\b"
    r"|(?:(?:np|numpy|torch|jnp|jax|tf)\.)?(?:array|tensor|Array|DeviceArray|Tensor)\(\s*\[)"
)


@dataclass(frozen=True)
class Reference:
    """How a user names a tensor: `path::key`, or the tensor itself as text (`inline`).

    `format` is a format's name, which counts instead of first bytes and suffix.
    """

    path: str
    key: str | None = None
    inline: str | None = None
    format: str | None = None

    @classmethod
    def input(
        cls,
        text: str,
        format_name: str | None = None,
        name: str = "the argument",
        *,
        forces_format: bool = False,
    ) -> Reference:
        """An input as on the command line.

        `name` is for messages about a tensor in the argument itself. `format_name` is the format of
        a file whose bytes and suffix do not say theirs; with `forces_format`, of any file.
        """
        if _TYPED.match(text):
            return cls(name, inline=text)
        if text.isascii() and text.isdecimal() and not os.path.lexists(text):
            return cls(name, inline=f"[{text}]")
        reference = cls.file(text)
        if format_name and (forces_format or reference.may_be(format_name)):
            return replace(reference, format=format_name)
        return reference

    @classmethod
    def output(
        cls,
        text: str,
        format_name: str | None,
        stdout: str = "-o -",
    ) -> Reference:
        """An output, in this format or in that of its suffix.

        `stdout` is what to type for standard output, for messages.
        """
        reference = cls.file(text, format_name)
        path = reference.path
        if path == "-":
            return reference
        row = by_name(reference.format) or by_suffix(path)
        is_device = os.path.dirname(path) in ("/dev", "/dev/fd")
        if reference.is_piped or is_device:
            printed = row if row and row.prints else NPY
            hint = f"to write to standard output, type {stdout} -f {printed.name}"
            raise UsageError("is a pipe or a device", "a file, or -", hint, path)
        if reference.is_local_folder and row is not ZARR:
            if reference.key is not None and table.is_store(path):
                return reference
            name = os.path.join(path, f"y{table.suffix_to_write(format_name)}")
            hint = f"to write a file there, type {platform.as_argument(name)}"
            raise TensorIOError("is a folder", "the name of a file to write", hint, path)
        return reference

    @classmethod
    def file(cls, text: str, format_name: str | None = None) -> Reference:
        """A file, or `path::key`.

        A path that exists counts first, since a file's name may have :: in it.
        """
        if not text:
            raise UsageError("empty file name: is a shell variable unset?")
        text = files.parse_name(text)
        address = files.split_address(text, has_suffix=lambda path: by_suffix(path) is not None)
        if address:
            return cls(*address, format=format_name)
        path, key = _split_name(text)
        fault, hint = platform.name_fault(path)
        if fault:
            name, _, below = path.rpartition(":")
            hint = hint or (try_hint(name, below) if by_suffix(name) else "")
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
        return self.inline is None and (self.path == "-" or self._is_kind(stat.S_ISFIFO))

    @property
    def is_local_folder(self) -> bool:
        """Whether it is a folder of this machine."""
        return self._is_kind(stat.S_ISDIR)

    @functools.cached_property
    def status(self) -> os.stat_result | None:
        """The status of a file of this machine, as it was on the first call.

        None if there is none.
        """
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

        FormatError if none of them is known.

        The first bytes are read on the first call.
        """
        if self.inline is not None:
            return TEXT
        if self.is_piped:
            return by_name(self.format) or self._piped_row
        by_bytes = None if self.format or self.is_bare else self._kind[0]
        row = by_name(self.format) or by_bytes or by_suffix(self.path, reading=True)
        if row is None:
            raise recognition.unknown_format(self.path, self.key)
        return row

    @property
    def _piped_row(self) -> Format:
        """The format of what comes through the pipe: .npy, or a format of text."""
        content = pipes.read_pipe(self.path)
        if not isinstance(content, bytes):
            return NPY
        from revseq_cli.formats.text import choose_piped_format  # few pipes have text

        return choose_piped_format(self.text, self.key)

    @property
    def is_bare(self) -> bool:
        """Whether it is a file of only elements, whose shape and data type the user names."""
        row = by_name(self.format) or by_suffix(self.path, reading=True)
        return self.inline is None and not self.is_piped and row is RAW

    @property
    def is_onnx_model(self) -> bool:
        """Whether it is a model of ONNX, by its suffix, or a node of one."""
        return self.inline is None and not self.is_piped and self.path.lower().endswith(".onnx")

    @property
    def compression(self) -> Compression | None:
        """How a file is compressed; pipes are not decompressed."""
        return None if self.is_piped or self.inline is not None or self.is_bare else self._kind[1]

    @property
    def head(self) -> Head | None:
        """The first bytes of a .npy file, if they were read to find its format."""
        return self._kind[2] if "_kind" in vars(self) else None

    @functools.cached_property
    def _kind(self) -> tuple[Format | None, Compression | None, Head | None]:
        """The format and the compression that the first bytes say.

        The suffix decides between JSON and text.
        """
        is_folder = self.is_local_folder or recognition.is_tensor_folder(self.path)
        try:
            row, compression, head = recognition.find_format(self.path, is_folder=is_folder)
        except MissingFileError as e:
            e.hint = recognition.missing_file_hint(self.path, self.key)
            raise
        by_name = by_suffix(self.path, reading=True)
        if {row, by_name} == {JSON, TEXT}:
            row = by_name
        return row, compression, head

    def may_be(self, format_name: str) -> bool:
        """Whether an option with that format may be about this input.

        It is about a pipe, and about a file whose first bytes say that format. Where the bytes say
        nothing, it counts unless the suffix names a format that can be recognised by nothing else.
        """
        if self.inline is not None:
            return False
        if self.is_piped:
            return True
        try:
            by_bytes = self._kind[0]
        except RevseqError:  # raised again when it is opened
            by_bytes = None
        if by_bytes is not None:
            return by_bytes.name == format_name
        by_name = by_suffix(self.path, reading=True)
        return by_name is None or not (by_name.is_text or by_name is RAW)

    @functools.cached_property
    def text(self) -> Text:
        """The whole text, read on the first call; FormatError if it is not text."""
        from revseq_cli.formats.text import read_text, text_of  # most tensors are not in text
        from revseq_cli.text.examples import Text

        if self.inline is not None:
            return Text(self.path, self.inline)
        if not self.is_piped:
            return read_text(self.path, self.compression)
        data = pipes.read_pipe(self.path)
        if not isinstance(data, bytes):
            raise FormatError("is not text: it looks like a .npy file", where=self.name)
        return text_of(data, self.name)


def _split_name(text: str) -> tuple[str, str | None]:
    """The path and the key of `path::key`; the longest path that exists counts."""
    parts = text.split("::")
    for count in range(len(parts), 1, -1):
        path = "::".join(parts[:count])
        fault, _ = platform.name_fault(path)
        if not fault and os.path.exists(path):
            break
    else:
        count = 1
    key = "::".join(parts[count:]) if count < len(parts) else None
    return "::".join(parts[:count]), key


def contents(reference: Reference, types: TextTypes) -> Contents | None:
    """What a file or a group of it holds, as its headers say.

    None if the reference is to one tensor.
    """
    if reference.is_piped or reference.inline is not None or reference.compression:
        return None
    row = reference.row
    has_several = row is TEXT or (row.names and row is not ONNX)
    return row.load().contents(reference, types) if has_several else None


def open_source(reference: Reference, types: TextTypes) -> Source:
    """Read the header of the tensor.

    RevseqError if it is not a tensor that this program can read.
    """
    if reference.is_piped:
        return _open_piped(reference, types)
    row, path = reference.row, reference.path
    if reference.compression and row is NPY:
        from revseq_cli.formats.compressed import open_compressed  # few files are compressed

        refuse_key(reference.key, "a .npy file", path)
        return open_compressed(path, reference.compression, types.asked)
    compression = table.find_compression(path)
    if row is RAW and compression and not reference.format:
        from revseq_cli.formats.compressed import decompress_hint

        hint = decompress_hint(compression, path)
        raise FormatError("is compressed raw data", ".npy or text", hint, path)
    return row.load().open_source(reference, types)


def _open_piped(reference: Reference, types: TextTypes) -> Source:
    """The tensor that comes through a pipe."""
    row = reference.row
    if row.names or row is RAW:
        raise pipes.needs_file(row, reference.name)
    content = pipes.read_pipe(reference.path)
    if isinstance(content, pipes.PipedNpy):
        return content.source(types.asked)
    if not row.is_text:
        row = TEXT
    return row.load().open_source(reference, types)
