"""How a user names a tensor, as path::key: the format of its file, how it is opened, and how an output is made."""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import os
import re
import stat
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from revseq_cli import files
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
from revseq_cli.core.tensors import DataType
from revseq_cli.files import base
from revseq_cli.formats import npy, table
from revseq_cli.formats.contents import Contents, proposed, refuse_key, try_hint
from revseq_cli.formats.contract import FileSink, Source, TextTypes
from revseq_cli.formats.table import (
    HDF5,
    JSON,
    NPY,
    ONNX,
    RAW,
    TEXT,
    ZARR,
    Format,
    Packing,
    by_suffix,
    named,
)

if TYPE_CHECKING:
    from revseq_cli.text.examples import Text

# A tensor in an argument: it begins with a bracket, or is a call as NumPy and PyTorch print it.
_TYPED = re.compile(r"\s*(?:\[|(?:(?:np|numpy|torch)\.)?(?:array|tensor)\(\s*\[)")
_USUAL = (
    ".npy",
    ".npz",
    ".h5",
    ".nc",
    ".safetensors",
    ".zarr",
    ".json",
    ".txt",
    ".csv",
    ".tsv",
    ".pb",
    ".bin",
)
_MOST_LOOKED_AT = 5000  # names of a folder, for one like the name of a file that is not there


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
        override: bool = False,
    ) -> Reference:
        """An input as on the command line; `name` is for messages about a tensor in the argument itself.

        `format_name` counts for a file whose bytes and suffix say nothing, or, with `override`, for any file.
        """
        if _TYPED.match(text):
            return cls(name, inline=text)
        if text.isascii() and text.isdecimal() and not os.path.lexists(text):
            return cls(name, inline=f"[{text}]")
        reference = cls.file(text)
        counts = format_name and (override or reference.may_be(format_name))
        return replace(reference, format=format_name) if counts else reference

    @classmethod
    def output(
        cls,
        text: str,
        format_name: str | None,
        inputs: Iterable[Reference],
        stdout: str = "revseq run ... -o -",
    ) -> Reference:
        """An output; `format_name` does not count if the suffix is known and the option may be about an input.

        `stdout` is what to type for standard output, for messages.
        """
        reference = cls.file(text)
        path = reference.path
        if not (
            format_name and by_suffix(path) and any(tensor.may_be(format_name) for tensor in inputs)
        ):
            reference = replace(reference, format=format_name)
        row = named(reference.format) or by_suffix(path)
        is_device = os.path.dirname(path) in ("/dev", "/dev/fd")
        if path != "-" and (reference.is_piped or is_device):
            hint = f"write to - and redirect or pipe it: {stdout} -f {row.name if row and row.prints else NPY.name}"
            raise UsageError("a pipe or a device", "a file, or - for standard output", hint, path)
        if path != "-" and os.path.isdir(path) and row is not ZARR:
            name = os.path.join(path, f"y{table.suffix_to_write(format_name)}")
            hint = f"try {platform.typed(name)}"
            raise TensorIOError("a directory", "the name of a file to write", hint, path)
        return reference

    @classmethod
    def file(cls, text: str, format_name: str | None = None) -> Reference:
        """A file, or `path::key`; a path that exists counts first, since a file's name may have :: in it."""
        if not text:
            raise UsageError("the name of a file is empty", "a name", "is a variable unset?")
        if text.startswith("file:///"):
            from urllib.request import url2pathname  # few name a file so

            text = url2pathname(text.removeprefix("file://"))
        if platform.is_remote(text):
            address, colons, key = text.partition("::")
            return cls(files.parse_name(address), key if colons else None, format=format_name)
        parts = text.split("::")
        for count in range(len(parts), 0, -1):
            path = "::".join(parts[:count])
            fault, hint = platform.name_fault(path)
            if not fault and (path == "-" or os.path.exists(path)):
                break
        if fault:
            name, _, key = path.rpartition(":")
            hint = hint or (try_hint(name, key) if by_suffix(name) else "")
            raise UsageError(fault, "the name of a file", hint, path)
        return cls(path, "::".join(parts[count:]) if parts[count:] else None, format=format_name)

    def absolute(self) -> Reference:
        """The reference with an absolute path."""
        if self.is_piped or self.inline is not None or platform.is_remote(self.path):
            return self
        return replace(self, path=os.path.abspath(self.path))

    @functools.cached_property
    def is_piped(self) -> bool:
        """Whether it is standard input or another pipe, which can be read only once."""
        if self.inline is not None or self.path == "-":
            return self.inline is None
        try:
            return stat.S_ISFIFO(os.stat(self.path).st_mode)
        except (OSError, ValueError):
            return False

    @property
    def name(self) -> str:
        """Its name in messages."""
        return "standard input" if self.path == "-" else self.path

    @functools.cached_property
    def row(self) -> Format:
        """The format of an input: by option, else by first bytes, else by suffix; FormatError if none of them is known.

        The first bytes are read on the first call.
        """
        if self.inline is not None:
            return TEXT
        if self.is_piped:
            return named(self.format) or (TEXT if isinstance(_piped(self.path), bytes) else NPY)
        by_bytes = None if self.format or self.is_bare else self._kind[0]
        row = named(self.format) or by_bytes or by_suffix(self.path, reading=True)
        if row is None:
            raise _unknown(self)
        return row

    @property
    def is_bare(self) -> bool:
        """Whether it is a file of elements alone, whose sizes and data type the user names."""
        row = named(self.format) or by_suffix(self.path, reading=True)
        return self.inline is None and not self.is_piped and row is RAW

    @property
    def is_onnx_model(self) -> bool:
        """Whether it is a model of ONNX, by its suffix, or a node of one."""
        return self.inline is None and not self.is_piped and self.path.lower().endswith(".onnx")

    @property
    def packing(self) -> Packing | None:
        """How a file is packed; pipes are not unpacked."""
        return None if self.is_piped or self.inline is not None or self.is_bare else self._kind[1]

    @functools.cached_property
    def _kind(self) -> tuple[Format | None, Packing | None]:
        """The format and the packing that the first bytes say; the suffix decides between JSON and text."""
        try:
            row, packing = _recognised(self.path)
        except MissingFileError as e:
            e.hint = self._meant()
            raise
        by_name = by_suffix(self.path, reading=True)
        return by_name if {row, by_name} == {JSON, TEXT} else row, packing

    def _meant(self) -> str:
        """What to type for a file that is not there: brackets around numbers, two colons, or a name that is near."""
        numbers = self.path.replace(",", " ").split()
        if len(numbers) > 1 and all(
            re.fullmatch(r"[+-]?\d+(\.\d+)?", number, re.ASCII) for number in numbers
        ):
            tensor = ", ".join(numbers)
            return f"type {platform.quoted(f'[{tensor}]')}"
        file, colon, key = self.path.rpartition(":")
        if colon and key and os.path.exists(file):
            return try_hint(file, key)
        path = Path(self.path)
        names = [other.name for other in itertools.islice(path.parent.glob("*"), _MOST_LOOKED_AT)]
        near = [
            name
            for name in names
            if path.name.casefold() in (name.casefold(), Path(name).stem.casefold())
        ]
        if path.suffix and not near:
            near = [*filter(None, [nearest(path.name, names, 0.8)])]
        key = f"::{self.key}" if self.key else ""
        return proposed([f"{path.with_name(name)}{key}" for name in sorted(near)])

    def may_be(self, format_name: str) -> bool:
        """Whether an option with that format may be about this input: neither its suffix nor its bytes say another."""
        if self.inline is not None or self.is_piped or by_suffix(self.path, reading=True):
            return False
        with contextlib.suppress(RevseqError):  # raised again when it is opened
            row, _ = self._kind
            return row is None or row.name == format_name
        return True

    @functools.cached_property
    def text(self) -> Text:
        """The whole text, read on the first call; FormatError if it is not text."""
        from revseq_cli.formats.text import read_text, text_of  # most tensors are not in text
        from revseq_cli.text.examples import Text

        if self.inline is not None:
            return Text(self.path, self.inline)
        if not self.is_piped:
            return read_text(self.path, self.packing)
        data = _piped(self.path)
        if not isinstance(data, bytes):
            raise FormatError("not text: it looks like a .npy file", "UTF-8", where=self.name)
        return text_of(data, self.name)


def _recognised(path: str) -> tuple[Format | None, Packing | None]:
    """What a file is by its first bytes, or a folder; FormatError for a kind that no format reads."""
    if _is_folder(path):
        return (ZARR if table.is_store(path) else None), None
    with files.open_file(path) as fd:
        size = fd.identity.size
        head = fd.read(64, 0)
        if (
            head[8:9] == b"{" and int.from_bytes(head[:8], "little") <= size - 8
        ):  # the length of a header
            return table.SAFETENSORS, None
        kind = table.kind_of(head)
        if (kind is None or kind.format is not NPY) and table.is_hdf5(fd):
            return HDF5, None
    if not kind or kind.format:
        return (kind.format if kind else None), None
    if not kind.packing:
        raise FormatError(
            f"not a tensor file: it looks like {kind.name}", "a tensor file", kind.advice, path
        )
    inside = table.kind_of(next(npy.unpacked(path, kind.packing), b""))
    if inside and not (inside.format and (inside.format is NPY or inside.format.is_text)):
        found, hint = (
            f"{inside.name}, packed by {kind.packing.name}",
            npy.unpack_hint(kind.packing, path),
        )
        raise FormatError(found, "a packed .npy or text file", hint, path)
    return (inside.format if inside else None), kind.packing


def _is_folder(path: str) -> bool:
    if platform.is_remote(path) and by_suffix(path) is ZARR:  # a web server lists no files
        return True
    return files.is_folder(path)


def _unknown(reference: Reference) -> RevseqError:
    """The error for a file of which nothing says which format it has."""
    path = reference.path
    if _is_folder(path):
        return TensorIOError("a directory", "a tensor file", where=path)
    if reference.is_onnx_model:
        return FormatError("a model of ONNX", "a tensor, such as x.pb", where=path)
    file, _, key = path.rpartition(":")
    if by_suffix(file) and not reference.key:
        return FormatError(
            "one colon is a part of the name", "two before a tensor's", try_hint(file, key), path
        )
    suffix = table.inner_suffix(path)
    meant = nearest(suffix, _USUAL, 0.75) if suffix else ""
    wanted = f"one such as {meant or '.npy, .h5, .nc, .npz, .zarr or .txt'}: revseq help formats lists all"
    problem = f"has the unknown suffix {suffix}" if suffix else "has no suffix"
    return FormatError(
        problem, wanted, f"add -f {'|'.join(row.name for row in table.written())}", path
    )


# Pipes, which can be read only once: standard input, named pipes, and what a shell makes of <(...).


def refuse_shared(references: Sequence[tuple[str, Reference]]) -> None:
    """UsageError where two of the tensors are one pipe."""
    pipes: dict[tuple[int, int], tuple[str, Reference]] = {}
    for name, reference in references:
        if reference.is_piped:
            status = os.fstat(0) if reference.path == "-" else os.stat(reference.path)
            first, pipe = pipes.setdefault((status.st_dev, status.st_ino), (name, reference))
            if first != name:
                raise UsageError(
                    f"{first} and {name} are both {pipe.name}", "one of them", "save one to a file"
                )


@functools.cache
def _piped(path: str) -> bytes | npy.Piped:
    """All that comes through a pipe, kept since it can be read only once: a tensor in .npy, or text."""
    name = Reference(path).name
    with contextlib.ExitStack() as stack:
        stack.enter_context(base.trying_to("read", name))
        stream = cast("io.BufferedReader", sys.stdin.buffer)
        if path == "-":
            base.refuse_output(os.fstat(0), name)
        else:
            stream = stack.enter_context(open(path, "rb"))
        head = stream.read(64)
        kind = table.kind_of(head)
        if kind and kind.format is NPY:
            return npy.from_stream(name, stream, head)
        if kind and kind.format in (HDF5, table.NPZ):
            raise _no_pipe(kind.format, name)
        from revseq_cli.formats.text import joined  # few pipes have text

        return head + joined(iter(lambda: stream.read(thresholds.PIECE), b""), name)


def _no_pipe(row: Format, name: str) -> FormatError:
    return FormatError(
        f".{row.name} cannot be read from a pipe", "a real file", "save it to a file first", name
    )


# Tensors


def contents(reference: Reference, types: TextTypes) -> Contents | None:
    """What a file or a group of it holds, as its headers say; None where the reference is to one tensor."""
    if reference.is_piped or reference.inline is not None or reference.packing:
        return None
    row = reference.row
    has_several = row is TEXT or (row.names and row is not ONNX)
    return row.load().contents(reference, types) if has_several else None


def open_source(reference: Reference, types: TextTypes) -> Source:
    """Read the header of the tensor; RevseqError if it is not a tensor that this program can read."""
    row = reference.row
    if reference.is_piped:
        if row.names or row is RAW:  # which are not read from the first byte to the last
            raise _no_pipe(row, reference.name)
        content = _piped(reference.path)
        if isinstance(content, npy.Piped):
            return content.source(types.asked)
        row = row if row.is_text else TEXT
    if reference.packing and row is NPY:
        refuse_key(reference.key, "a .npy file", reference.path)
        return npy.open_packed(reference.path, reference.packing, types.asked)
    packing = table.packing_of(reference.path)
    if row is RAW and packing and not reference.format:
        hint = npy.unpack_hint(packing, reference.path)
        raise FormatError("a packed raw buffer", "a packed .npy or text file", hint, reference.path)
    return row.load().open_source(reference, types)


def create_sink(
    reference: Reference,
    template: Source,
    *,
    overwrite: bool,
    inputs: Iterable[base.Identity] = (),
    only: bool = False,
    elsewhere: bool = False,
) -> FileSink:
    """The sink of a result with the sizes and data type of `template`; RevseqError now for all that could refuse it.

    Workers that are `elsewhere` need not see the temporary file of an output at an address.
    """
    path, key = reference.path, reference.key
    row = _format_to_write(reference, template, only=only)
    is_alike = row.name == template.storage.format
    leaves_others = is_alike and row.keeps_others and not (only or template.can_copy_to(path))
    only = only or leaves_others or not is_alike
    if not row.names:
        refuse_key(key, f"a {row.suffixes[0]} file", path, f"try {platform.typed(path)}")
    if key is not None and (only or not overwrite) and files.exists(path):
        problem = "names a dataset inside an existing file as output"
        hint = f"write to another file, such as {platform.quoted(f'new{Path(path).suffix}::{key}')}"
        raise UsageError(
            problem, "a new file: its other datasets would be lost", hint, f"{path}::{key}"
        )
    file = files.new_file(path, overwrite=overwrite, inputs=inputs, is_folder=row is ZARR)
    name = key if key is not None else template.key or ("" if row in (ZARR, ONNX) else "tensor")
    sink = row.load().create_sink(file, template, name, only=only)
    if leaves_others:
        sink.notes += (
            f"{file.name} has this tensor alone, without what else is in {template.path}",
        )
    if elsewhere and platform.is_remote(path) and not file.address:
        sink.in_workers = False
    if template.assumes_type and not row.is_text:
        data_type = template.desc.data_type.name
        sink.notes += (
            f"{template.name} states no data type: it is {data_type} in {file.name}; --dtype names another",
        )
    if row not in (HDF5, ZARR) and (meaning := template.meaning()):
        from revseq_cli.formats.attributes import lost_in  # most files say nothing

        sink.notes += lost_in(row.name, meaning)
    return sink


def _format_to_write(reference: Reference, template: Source, *, only: bool) -> Format:
    """The format of an output: by option, else by suffix, else the input's; RevseqError where it is never written."""
    path = reference.path
    if packing := table.packing_of(path):
        problem, wanted = "a packed file is only read", f"a name without {packing.suffix}"
        raise UsageError(problem, wanted, "write it plain, then pack it", path)
    row, own = named(reference.format) or by_suffix(path), named(template.storage.format)
    has_one_colon = not reference.key and by_suffix(path.rpartition(":")[0])
    if row is None and own and own.keeps_others and not (only or has_one_colon):
        row = own  # a copy of the input's whole file is what that is, whatever its suffix: MATLAB's .mat may be HDF5
    if row is None:
        raise _unknown(reference)
    if not row.suffixes:
        known = listed((row.name for row in table.written()), 30)
        raise FormatError(
            f"would be a file of {row.name}, which is only read", f"one of {known}", where=path
        )
    data_type = template.desc.data_type
    # NetCDF's library crashes on small floats, or skips them. It reads BFLOAT16 as FLOAT32.
    is_small = data_type is DataType.FLOAT16 or (
        data_type.kind == "minifloat" and data_type is not DataType.BFLOAT16
    )
    if row is HDF5 and table.is_netcdf(path) and is_small:
        raise FormatError(
            f"NetCDF has no {data_type.name}", "a file that ends in .h5, or FLOAT32", where=path
        )
    return row
