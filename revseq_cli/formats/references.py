"""How a user names a tensor, and the format of that file: by option, by its first bytes, or by its suffix."""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import os
import re
import stat
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from revseq_cli.core import platform, thresholds
from revseq_cli.core.errors import (
    FormatError,
    MissingFileError,
    RevseqError,
    TensorIOError,
    UsageError,
    listed,
    nearest,
)
from revseq_cli.formats import file_io, npy, table
from revseq_cli.formats.contents import part_of, proposed, try_hint
from revseq_cli.formats.recognition import (
    HDF5_MAGIC,
    NPY_MAGIC,
    ZIP_MAGIC,
    Recognised,
    is_store,
    packing_of,
    recognised,
)
from revseq_cli.formats.table import (
    JSON,
    NPY,
    RAW,
    TEXT,
    ZARR,
    Format,
    Packing,
    by_suffix,
    inner_suffix,
    is_onnx_model,
    named,
    suffix_to_write,
    written,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from revseq_cli.text.examples import Text

_KINDS = {HDF5_MAGIC: "HDF5", ZIP_MAGIC: ".npz"}
# The formats of files that most people write: nobody means a rare one by a suffix that is unknown.
_USUAL = (
    ".npy", ".npz", ".h5", ".nc", ".safetensors", ".zarr", ".json", ".txt", ".csv", ".tsv", ".pb", ".bin",
)  # fmt: skip
_MOST_LOOKED_AT = 5000  # names of a folder, for one like the name of a file that is not there
# A tensor in an argument: it begins with a bracket, or is a call as NumPy and PyTorch print it.
_TYPED = re.compile(r"\s*(?:\[|(?:(?:np|numpy|torch)\.)?(?:array|tensor)\(\s*\[)")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?", re.ASCII)


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
        cls, text: str, format_name: str | None = None, name: str = "the argument", *, override: bool = False
    ) -> Reference:
        """An input as on the command line; `name` is for messages about a tensor in the argument itself.

        `format_name` counts for a file whose bytes and suffix say nothing, or, with `override`, for any file.
        """
        if tensor := text if _TYPED.match(text) else _as_number(text):
            _refuse_file(text, name)
            return cls(name, inline=tensor)
        reference = cls.file(text)
        counts = format_name and (override or is_about(format_name, reference))
        return replace(reference, format=format_name) if counts else reference

    @classmethod
    def output(
        cls, text: str, format_name: str | None, inputs: Iterable[Reference], stdout: str = "revseq run ... -o -"
    ) -> Reference:
        """An output; `format_name` does not count if the suffix is known and the option may be about an input.

        `stdout` is what to type for standard output, for messages.
        """
        reference, inputs = cls.file(text, writing=True), [*inputs]
        by_name = by_suffix(reference.path)
        is_about_input = format_name and by_name and any(is_about(format_name, each) for each in inputs)
        if not is_about_input:
            reference = replace(reference, format=format_name)
        row = named(reference.format) or by_name
        if reference.path != "-" and (reference.is_piped or reference.path.startswith("/dev/")):
            hint = _stdout_hint(reference, stdout)
            raise UsageError("is a pipe or a device", "a file, or - for standard output", hint, reference.path)
        if not reference.is_piped and os.path.isdir(reference.path) and row is not ZARR:  # noqa: PTH112 - see Reference.file
            raise _folder_error(reference, inputs)
        return reference

    @classmethod
    def file(cls, text: str, format_name: str | None = None, *, writing: bool = False) -> Reference:
        """A file, or `path::key`; a path that exists counts first, since a file's name may have :: in it."""
        if not text:
            raise UsageError("the name of a file is empty", "a name", "is a variable unset?")
        path, key = _split(_local(text))
        fault, hint = platform.name_fault(path, writing=writing)
        if fault:
            raise UsageError(fault, "the name of a file", hint or _two_colons_hint(path), path)
        return cls(path, key, format=format_name)

    def absolute(self) -> Reference:
        """The reference with an absolute path."""
        if self.is_piped or self.inline is not None:
            return self
        return replace(self, path=os.path.abspath(self.path))  # noqa: PTH100 - see Reference.file

    @functools.cached_property
    def is_piped(self) -> bool:
        """Whether it is standard input or another pipe, which can be read only once."""
        return self.inline is None and (self.path == "-" or _is_pipe(self.path))

    @property
    def name(self) -> str:
        """Its name in messages."""
        return _name_of(self.path) if self.inline is None else self.path

    @functools.cached_property
    def row(self) -> Format:
        """The format of an input: by option, else by first bytes, else by suffix; FormatError if none of them is known.

        The first bytes are read on the first call.
        """
        if self.inline is not None:
            return TEXT
        if self.is_piped:
            by_content = TEXT if isinstance(piped(self.path), bytes) else NPY
            return named(self.format) or by_content
        by_bytes = None if self.format or self.is_bare else self.row_by_bytes
        row = named(self.format) or by_bytes or by_suffix(self.path, reading=True)
        if row is None:
            raise _unknown(self, table.FORMATS)
        return row

    @property
    def is_bare(self) -> bool:
        """Whether it is a file of elements alone, whose sizes and data type the user names."""
        row = named(self.format) or by_suffix(self.path, reading=True)
        return self.inline is None and not self.is_piped and row is RAW

    @property
    def is_onnx_model(self) -> bool:
        """Whether it is a model of ONNX, by its suffix, or a node of one."""
        return self.inline is None and not self.is_piped and is_onnx_model(self.path)

    @functools.cached_property
    def row_by_bytes(self) -> Format | None:
        """The format by a file's first bytes, or None; the suffix decides between JSON and text."""
        by_itself, by_its_suffix = named(self._recognised.format), by_suffix(self.path, reading=True)
        return by_its_suffix if {by_itself, by_its_suffix} == {JSON, TEXT} else by_itself

    @property
    def packing(self) -> Packing | None:
        """How a file is packed; None for a pipe, whose content is unpacked already."""
        return None if self.is_piped or self.inline is not None or self.is_bare else self._recognised.packing

    @functools.cached_property
    def _recognised(self) -> Recognised:
        """What its first bytes say."""
        try:
            return recognised(self.path)
        except MissingFileError as e:
            e.hint = self._as_tensor() or self._with_two_colons() or self._near()
            raise

    def _as_tensor(self) -> str:
        """A hint at brackets around numbers, which are typed without them; "" for any other name."""
        numbers = self.path.replace(",", " ").split()
        if len(numbers) < 2 or not all(map(_NUMBER.fullmatch, numbers)):
            return ""
        tensor = ", ".join(numbers)
        return f"type {platform.quoted(f'[{tensor}]')}"

    def _with_two_colons(self) -> str:
        """A hint at the tensor that is named behind one colon; "" for any other name."""
        path, colon, key = self.path.rpartition(":")
        return try_hint(path, key) if colon and key and os.path.exists(path) else ""  # noqa: PTH110 - any text

    def _near(self) -> str:
        """A hint at the file of that name but for capitals, the suffix or a letter, or at several; "" without one."""
        path, key = Path(self.path), f"::{self.key}" * bool(self.key)
        name = path.name.casefold()
        try:
            others = [*itertools.islice(path.parent.iterdir(), _MOST_LOOKED_AT)]
        except OSError:
            return ""
        same = [each for each in others if name in (each.name.casefold(), each.stem.casefold())]
        begun = (each.name for each in others if (each.name[:1], each.suffix) == (path.name[:1], path.suffix))
        if path.suffix and not same and (mistyped := nearest(path.name, begun, 0.8)):
            same = [path.with_name(mistyped)]
        near = sorted(platform.typed(f"{each}{key}") for each in same if each.name != path.name)
        return f"{'one of' if len(near) > 1 else 'try'} {proposed(near)}" if near else ""

    @functools.cached_property
    def text(self) -> Text:
        """The whole text, read on the first call; FormatError if it is not text."""
        from revseq_cli.formats.text import read_text, text_of  # most tensors are not in text
        from revseq_cli.text.examples import Text

        if self.inline is not None:
            return Text(self.path, self.inline)
        if self.is_piped:
            data = piped(self.path)
            if not isinstance(data, bytes):
                raise FormatError("is not text: it looks like a .npy file", "UTF-8", where=self.name)
            return text_of(data, self.name)
        return read_text(self.path, self.packing)


def _refuse_file(text: str, name: str) -> None:
    """UsageError for the name of a file that begins as a tensor does; a tensor ends with a bracket, too."""
    if not text.rstrip().endswith(("]", ")")) and os.path.exists(_split(text)[0]):  # noqa: PTH110 - any text
        found = f"is not a tensor, but there is a file {text}"
        raise UsageError(found, "./ in front of such a name", f"try {platform.typed(text)}", name)


def _as_number(text: str) -> str:
    """A tensor of one number that is typed alone, such as a length for all lines; "" for the name of a file."""
    is_number = text.isascii() and text.isdecimal() and not os.path.lexists(text)
    return f"[{text}]" if is_number else ""


def _local(text: str) -> str:
    """The path of a URL of a file on this machine; any other text stays as it is."""
    if not text.startswith(("file:///", "file://localhost/")):
        return text
    from urllib.request import url2pathname  # few name a file so

    return url2pathname(text.removeprefix("file://").removeprefix("localhost"))


def _split(text: str) -> tuple[str, str | None]:
    """The path and the key of a file's name; without a key, None."""
    if "::" not in text:
        return text, None
    parts = text.split("::")
    splits: list[tuple[str, str | None]] = [
        ("::".join(parts[:i]), "::".join(parts[i:])) for i in range(len(parts) - 1, 0, -1)
    ]
    names = [split for split in ((text, None), *splits) if not any(platform.name_fault(split[0]))]
    # Path.exists raises for a name that is too long.
    if found := next((split for split in names if split[0] == "-" or os.path.exists(split[0])), None):  # noqa: PTH110
        return found
    return next((split for split in splits if part_of(split[1])), splits[0])


def format_to_write(reference: Reference, otherwise: Format | None = None) -> Format:
    """The format of an output: by option, else by suffix, else `otherwise`; FormatError where none of them says it."""
    row = named(reference.format) or by_suffix(reference.path)
    if row is None and not reference.key and (hint := _two_colons_hint(reference.path)):
        raise FormatError("one colon is a part of the name", "two before a tensor's", hint, reference.path)
    row = row or otherwise
    if row is None:
        raise _unknown(reference, written())
    if not row.suffixes:
        known = listed((each.name for each in written()), 30)
        raise FormatError(f"would be a file of {row.name}, which is only read", f"one of {known}", where=reference.path)
    return row


def _two_colons_hint(path: str) -> str:
    """What to type for a file and its tensor with one colon between them; nothing for another path."""
    file, _, key = path.rpartition(":")
    return try_hint(file, key) if by_suffix(file) and not any(platform.name_fault(file)) else ""


def _unknown(reference: Reference, rows: Sequence[Format]) -> RevseqError:
    """The error for a file of which nothing says which of these formats it has."""
    if os.path.isdir(reference.path):  # noqa: PTH112 - see Reference.file
        return TensorIOError("is a directory", "a tensor file", where=reference.path)
    if reference.is_onnx_model:
        hint = f"to list its nodes: revseq show {platform.quoted(reference.path)}"
        return FormatError("is a model of ONNX", "a tensor", hint, reference.path)
    suffix = inner_suffix(reference.path)
    fact = f"has the unknown suffix {suffix}" if suffix else "has no suffix"
    meant = nearest(suffix, _USUAL, 0.75) if suffix else ""
    wanted = f"one such as {meant or '.npy, .h5, .nc, .npz, .zarr or .txt'}: revseq help formats lists all"
    return FormatError(fact, wanted, f"add -f {'|'.join(row.name for row in rows)}", reference.path)


def _stdout_hint(reference: Reference, stdout: str) -> str:
    """What to type in place of a pipe or a device as output; a shell's own name of a pipe cannot be typed."""
    asked = named(reference.format)
    typed = f"{stdout} -f {asked.name if asked and asked.prints else NPY.name}"
    if reference.path in ("/dev/stdout", "/dev/fd/1"):
        return f"use {typed}"
    if reference.is_piped or reference.path.startswith("/dev/fd/"):
        return f"write to - and pipe it: {typed} | COMMAND"
    return f"write to - and redirect it: {typed} > {platform.quoted(reference.path)}"


def _folder_error(reference: Reference, inputs: Sequence[Reference]) -> TensorIOError:
    """The error for an output that is a folder, with a free name inside: that of the input, if it says the format."""
    asked = named(reference.format)
    given = [Path(each.path).name for each in inputs[:1] if each.inline is None]
    names = [*given, f"y{suffix_to_write(reference.format)}"]
    fitting = (name for name in names if (row := by_suffix(name)) and row is (asked or row))
    inside = (os.path.join(reference.path, name) for name in fitting)  # noqa: PTH118 - as the user wrote it
    free = next((each for each in inside if not os.path.lexists(each)), "")
    hint = f"try {platform.typed(free)}" if free and not is_store(reference.path) else ""
    return TensorIOError("is a directory", "the name of a file to write", hint, reference.path)


def is_about(format_name: str, reference: Reference) -> bool:
    """Whether that format may be meant for an input: its suffix is unknown, and its bytes show no other format."""
    if reference.inline is not None or reference.is_piped or by_suffix(reference.path, reading=True):
        return False
    with contextlib.suppress(RevseqError):  # raised again when it is opened
        row = reference.row_by_bytes
        return row is None or row.name == format_name
    return True


def refuse_shared(named: Sequence[tuple[str, Reference]]) -> None:
    """UsageError where two of the tensors are one pipe, which can be read only once."""
    pipes = [(name, each, _status_of(each.path)) for name, each in named if each.is_piped]
    for _, first, status in pipes:
        same = [name for name, _, other in pipes if os.path.samestat(status, other)]
        if len(same) > 1:
            both = "both " * (len(same) == 2)
            raise UsageError(f"{' and '.join(same)} are {both}{first.name}", "one of them", "save one to a file")


# Pipes, which can be read only once: standard input, named pipes, and what a shell makes of <(...).


def _status_of(pipe: str) -> os.stat_result:
    return os.fstat(0) if pipe == "-" else os.stat(pipe)  # noqa: PTH116 - it may be any text


def _is_pipe(path: str) -> bool:
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)  # noqa: PTH116 - it may be any text
    except (OSError, ValueError):
        return False


def _name_of(path: str) -> str:
    return "standard input" if path == "-" else path


@functools.cache
def piped(path: str) -> bytes | npy.Piped:
    """All that comes through a pipe, kept since it can be read only once: a tensor in .npy, or text."""
    name = _name_of(path)
    with file_io.trying_to("read", name), _pipe(path) as stream:
        head = stream.read(len(HDF5_MAGIC))
        if packing := packing_of(head):
            from revseq_cli.formats import packed  # most pipes are not

            data = head + stream.read()
            pieces = packed.unpacked(io.BytesIO(data), packing, name, len(data))
            stream = io.BufferedReader(io.BytesIO(b"".join(pieces)))
            head = stream.read(len(HDF5_MAGIC))
        if head.startswith(NPY_MAGIC):
            return npy.from_stream(name, stream, head)
        if kind := next((kind for magic, kind in _KINDS.items() if head.startswith(magic)), None):
            found, hint = f"{kind} cannot be read from a pipe", "save it to a file first"
            raise FormatError(found, "a real file", hint, name)
        from revseq_cli.formats.text import joined  # few pipes have text

        return head + joined(iter(lambda: stream.read(thresholds.PIECE), b""), name)


@contextlib.contextmanager
def _pipe(path: str) -> Iterator[io.BufferedReader]:
    """The pipe as a stream; a signal ends a process that waits for who writes into it."""
    if path == "-":
        yield cast("io.BufferedReader", sys.stdin.buffer)
        return
    with open(path, "rb") as stream:  # noqa: PTH123 - it may be any text
        file_io.refuse_stream(os.fstat(stream.fileno()), path)
        yield stream
