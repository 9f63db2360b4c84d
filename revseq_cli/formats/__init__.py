"""The registry of formats: open a tensor by its name, create the file of a result."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from revseq_cli.errors import FormatError, UsageError, listed
from revseq_cli.formats import npy, text
from revseq_cli.formats.newfile import NewFile
from revseq_cli.formats.text import Text, TextTypes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from revseq_cli.formats.base import Sink, Source
    from revseq_cli.formats.positioned import Identity

STDIN = "standard input"


@dataclass(frozen=True)
class Reference:
    """What a user calls a tensor: `path::inner`, or the tensor itself as text; `format` overrides the suffix."""

    path: str
    inner: str | None = None
    inline: str | None = None
    format: str | None = None

    @classmethod
    def parse(cls, text: str, format_name: str | None = None) -> Reference:
        """The reference in a command-line argument."""
        if text.lstrip().startswith("["):
            return cls("the argument", inline=text, format=format_name)
        path, separator, inner = text.rpartition("::")
        if not separator or Path(text).exists():  # a name may hold :: itself
            return cls(text, format=format_name)
        return cls(path, inner, format=format_name)


class Format(NamedTuple):
    """How one format is read and written; `load` takes its text where it is one."""

    name: str
    suffixes: tuple[str, ...]
    open: Callable[[Reference, TextTypes], Source]
    create: Callable[[NewFile, Source, str | None], Sink]
    is_text: bool = False


def _open_npy(reference: Reference, _: TextTypes) -> Source:
    if reference.inner is not None:
        raise UsageError("a .npy file holds one tensor", "no name after ::", where=reference.path)
    return npy.NpySource(reference.path)


def _create_npy(file: NewFile, like: Source, inner: str | None) -> Sink:
    _no_inner(file, inner)
    return npy.NpySink(file, like)


def _open_h5(reference: Reference, _: TextTypes) -> Source:
    from revseq_cli.formats import hdf5  # h5py costs as much as NumPy

    return hdf5.Hdf5Source(reference.path, reference.inner)


def _create_h5(file: NewFile, like: Source, inner: str | None) -> Sink:
    from revseq_cli.formats import hdf5

    return hdf5.Hdf5Sink(file, like, inner)


def _open_json(reference: Reference, types: TextTypes) -> Source:
    return text.open_json(load_text(reference), reference.inner, types)


def _create_json(file: NewFile, like: Source, inner: str | None) -> Sink:
    _no_inner(file, inner)
    return text.TextSink(file, like, text.write_json)


def _open_notation(reference: Reference, types: TextTypes) -> Source:
    return text.open_notation(load_text(reference), reference.inner, types)


def _create_notation(file: NewFile, like: Source, inner: str | None) -> Sink:
    _no_inner(file, inner)
    return text.TextSink(file, like, text.write_notation)


def _no_inner(file: NewFile, inner: str | None) -> None:
    if inner is not None:
        raise UsageError("holds one tensor", "no name after ::", where=file.name)


FORMATS = (
    Format("npy", (".npy",), _open_npy, _create_npy),
    Format("h5", (".h5", ".hdf5", ".hdf", ".he5", ".nc"), _open_h5, _create_h5),
    Format("json", (".json",), _open_json, _create_json, is_text=True),
    Format("text", (".txt", ".md"), _open_notation, _create_notation, is_text=True),
)
FORMAT_NAMES = tuple(each.name for each in FORMATS)


def format_of(reference: Reference) -> Format:
    """The format by option, else by suffix; FormatError for a suffix that none has."""
    if reference.inline is not None:
        return _named("text")
    if reference.format is not None:
        return _named(reference.format)
    suffix = Path(reference.path).suffix.lower()
    for each in FORMATS:
        if suffix in each.suffixes:
            return each
    known = listed((s for each in FORMATS for s in each.suffixes), 20)
    found = f"has the unknown suffix {suffix}" if suffix else "has no suffix"
    raise FormatError(found, f"one of {known}", f"add -f {'|'.join(FORMAT_NAMES)}", reference.path)


def knows(reference: Reference) -> bool:
    """Whether the reference itself says what format it is."""
    suffix = Path(reference.path).suffix.lower()
    return reference.inline is not None or reference.path == "-" or any(suffix in each.suffixes for each in FORMATS)


def may_hold_example(reference: Reference) -> bool:
    """Whether the reference is to a file in the bracket notation."""
    return reference.inline is None and reference.path != "-" and format_of(reference).name == "text"


def _named(name: str) -> Format:
    return next(each for each in FORMATS if each.name == name)


def load_text(reference: Reference) -> Text:
    """The whole text behind a reference to a text format."""
    if reference.inline is not None:
        return Text(reference.path, reference.inline)
    return text.read_text(reference.path)


def open_source(reference: Reference, types: TextTypes) -> Source:
    """The tensor, with its header read; RevseqError for what cannot be one."""
    if reference.path == "-" and reference.inline is None:
        return _open_stdin(reference, types)
    return format_of(reference).open(reference, types)


def _open_stdin(reference: Reference, types: TextTypes) -> Source:
    """Standard input, recognised by its first bytes."""
    data = sys.stdin.buffer.read()
    if data.startswith(npy.MAGIC):
        return npy.from_bytes(STDIN, data)
    if data.startswith(b"\x89HDF"):
        raise FormatError("HDF5 cannot be read from a pipe", "a real file", "save it to a file first", STDIN)
    return text.open_notation(Text(STDIN, text.decode(data, STDIN)), reference.inner, types)


def create_sink(reference: Reference, like: Source, *, overwrite: bool, inputs: Iterable[Identity] = ()) -> Sink:
    """The file of a result of the same sizes and data type as `like`; every reason to refuse it shows now."""
    if reference.inner is not None and Path(reference.path).exists():
        raise UsageError(
            "names a dataset inside an existing file as output", "a new file: its other datasets would be lost",
            f"write to another file, and copy it in: -o new.h5::{reference.inner}",
            f"{reference.path}::{reference.inner}",
        )  # fmt: skip
    wanted = format_of(reference)
    return wanted.create(NewFile(reference.path, overwrite=overwrite, inputs=inputs), like, reference.inner)
