"""How a user names a tensor, and the format of that file: by option, by its first bytes, or by its suffix."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from revseq_cli.formats import npy, textfiles
from revseq_cli.formats.documents import Text
from revseq_cli.formats.recognition import HDF5_MAGIC, NPY_MAGIC, ZIP_MAGIC, format_by_bytes
from revseq_cli.formats.storage import positioned
from revseq_cli.formats.table import FORMATS, JSON, NAMES, TEXT, ZARR, Format, by_suffix, named
from revseq_cli.formats.textfiles import LARGEST
from revseq_cli.formats.zarr import metadata
from revseq_cli.ground import system
from revseq_cli.ground.errors import FormatError, RevseqError, TensorIOError, UsageError, Words, listed

if TYPE_CHECKING:
    from collections.abc import Iterable

STDIN = "standard input"


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
        if text.lstrip().startswith("["):
            return cls(name, inline=text)
        reference = cls.file(text)
        counts = format_name and (override or is_about(format_name, reference))
        return replace(reference, format=format_name) if counts else reference

    @classmethod
    def output(cls, text: str, format_name: str | None, inputs: Iterable[Reference]) -> Reference:
        """An output; `format_name` does not count if the suffix is known and the option may be about an input."""
        reference = cls.file(text)
        if format_name and by_suffix(reference.path) and any(is_about(format_name, each) for each in inputs):
            return reference
        return replace(reference, format=format_name)

    @classmethod
    def file(cls, text: str, format_name: str | None = None) -> Reference:
        """A file, or `path::key`; a path that exists counts first, since a file's name may have :: in it."""
        if not text:
            raise UsageError("the name of a file is empty", "a name", "is a variable unset?")
        path, key = _split(text)
        if fault := system.name_fault(path):
            raise UsageError(fault, "the name of a file", where=path)
        return cls(path, key, format=format_name)

    def absolute(self) -> Reference:
        """The reference with an absolute path."""
        if self.is_stdin or self.inline is not None:
            return self
        return replace(self, path=os.path.abspath(self.path))  # noqa: PTH100 - see Reference.file

    @property
    def is_stdin(self) -> bool:
        """Whether it is standard input."""
        return self.path == "-" and self.inline is None

    @property
    def name(self) -> str:
        """Its name in messages."""
        return STDIN if self.is_stdin else self.path

    @functools.cached_property
    def row(self) -> Format:
        """The format of an input: by option, else by first bytes, else by suffix; FormatError if none of them is known.

        The first bytes are read on the first call.
        """
        if self.inline is not None:
            return TEXT
        return named(self.format) or _by_bytes(self) or format_to_write(self)

    @functools.cached_property
    def text(self) -> Text:
        """The whole text, read on the first call; FormatError if it is not text."""
        if self.is_stdin:
            data = standard_input()
            if not isinstance(data, bytes):
                raise FormatError("is not text: it looks like a .npy file", "UTF-8", where=STDIN)
            return Text(STDIN, textfiles.decode(data, STDIN))
        return textfiles.read_text(self.path) if self.inline is None else Text(self.path, self.inline)


def _split(text: str) -> tuple[str, str | None]:
    """The path and the key of a file's name; without a key, None."""
    if "::" not in text:
        return text, None
    parts = text.split("::")
    splits: list[tuple[str, str | None]] = [
        ("::".join(parts[:i]), "::".join(parts[i:])) for i in range(len(parts) - 1, 0, -1)
    ]
    names = [split for split in ((text, None), *splits) if not system.name_fault(split[0])]
    # Path.exists raises for a name that is too long.
    return next((split for split in names if os.path.exists(split[0])), splits[0])  # noqa: PTH110


def _by_bytes(reference: Reference) -> Format | None:
    """The format by a file's first bytes, or None; the suffix decides between JSON and text."""
    if os.path.isdir(reference.path):  # noqa: PTH112 - see Reference.file
        return ZARR if metadata.is_store(Path(reference.path)) else None
    by_itself, by_its_suffix = named(format_by_bytes(reference.path)), by_suffix(reference.path)
    return by_its_suffix if {by_itself, by_its_suffix} == {JSON, TEXT} else by_itself


def format_to_write(reference: Reference) -> Format:
    """The format of an output: by option, else by suffix; FormatError for an unknown suffix."""
    if row := named(reference.format) or by_suffix(reference.path):
        return row
    if os.path.isdir(reference.path):  # noqa: PTH112 - see Reference.file
        raise TensorIOError("is a directory", "a tensor file", where=reference.path)
    suffix = Path(reference.path).suffix
    known = listed((s for each in FORMATS for s in each.suffixes), 30)
    fact = f"has the unknown suffix {suffix}" if suffix else "has no suffix"
    raise FormatError(fact, f"one of {known}", Words.of("add {}", format="|".join(NAMES)), reference.path)


def is_about(format_name: str, reference: Reference) -> bool:
    """Whether that format may be meant for an input: its suffix is unknown, and its bytes show no other format."""
    if reference.inline is not None or reference.is_stdin or by_suffix(reference.path):
        return False
    with contextlib.suppress(RevseqError):  # raised again when it is opened
        row = _by_bytes(reference)
        return row is None or row.name == format_name
    return True


@functools.cache
def standard_input() -> bytes | npy.Piped:
    """The whole of standard input, kept since it can be read only once: a tensor in .npy, or text."""
    stream = sys.stdin.buffer
    try:
        head = stream.read(len(HDF5_MAGIC))
        if head.startswith(NPY_MAGIC):
            return npy.from_stream(STDIN, stream, head)
        if head.startswith((HDF5_MAGIC, ZIP_MAGIC)):
            kind = "HDF5" if head.startswith(HDF5_MAGIC) else ".npz"
            raise FormatError(f"{kind} cannot be read from a pipe", "a real file", "save it to a file first", STDIN)
        data = head + stream.read(LARGEST + 1 - len(head))
    except TensorIOError:
        raise
    except OSError as e:
        raise positioned.failed(STDIN, "read", e) from None
    if len(data) > LARGEST:
        raise FormatError(f"is a text of more than {LARGEST} bytes", "less, since text is parsed whole", where=STDIN)
    return data
