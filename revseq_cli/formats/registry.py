"""The registry of formats: open a tensor by its name, create the file of a result."""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from revseq_cli.formats import models, npy, npz, safetensors, text
from revseq_cli.formats.contract import MOST_OTHERS, Layout, try_hint
from revseq_cli.formats.recognition import HDF5_MAGIC, NPY_MAGIC, ZIP_MAGIC, format_by_bytes
from revseq_cli.formats.storage import positioned
from revseq_cli.formats.storage.newfile import NewFile, NewFolder, Scratch
from revseq_cli.formats.text import Text, TextTypes
from revseq_cli.formats.zarr import metadata
from revseq_cli.ground.errors import FormatError, RevseqError, TensorIOError, UsageError, Words, listed
from revseq_cli.texts import dxdispatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from revseq_cli.formats.contract import FileSink, Source

STDIN = "standard input"


@dataclass(frozen=True)
class Reference:
    """What a user calls a tensor: `path::inner`, or the tensor itself as text; `format` overrides bytes and suffix."""

    path: str
    inner: str | None = None
    inline: str | None = None
    format: str | None = None

    @classmethod
    def input(
        cls, text: str, format_name: str | None = None, name: str = "the argument", *, override: bool = False
    ) -> Reference:
        """An input as it stands on the command line; `name` is what to call a tensor that stands there itself.

        The format is that of a file whose bytes and suffix say nothing, or, with `override`, of any.
        """
        if text.lstrip().startswith("["):
            return cls(name, inline=text)
        found = cls.file(text)
        meant = format_name and (override or is_about(format_name, found))
        return replace(found, format=format_name) if meant else found

    @classmethod
    def output(cls, text: str, format_name: str | None, inputs: Iterable[Reference]) -> Reference:
        """An output; `format_name` is not about it if its suffix says its format, and it may be about an input."""
        found = cls.file(text)
        if format_name and _by_suffix(found) and any(is_about(format_name, each) for each in inputs):
            return found
        return replace(found, format=format_name)

    @classmethod
    def file(cls, text: str, format_name: str | None = None) -> Reference:
        """A file, or what is named in it."""
        if not text:
            raise UsageError("the name of a file is empty", "a name", "is a variable unset?")
        if "::" not in text or os.path.exists(text):  # noqa: PTH110 - a name may hold :: itself, or be too long to ask for
            return cls(text, format=format_name)
        parts = text.split("::")
        splits = [("::".join(parts[:i]), "::".join(parts[i:])) for i in range(len(parts) - 1, 0, -1)]
        path, inner = next((split for split in splits if os.path.exists(split[0])), splits[0])  # noqa: PTH110
        return cls(path, inner, format=format_name)

    def absolute(self) -> Reference:
        """The same file, named from the root."""
        if self.is_stdin or self.inline is not None:
            return self
        return replace(self, path=os.path.abspath(self.path))  # noqa: PTH100 - see Reference.file

    @property
    def is_stdin(self) -> bool:
        """Whether it is standard input."""
        return self.path == "-" and self.inline is None

    @property
    def name(self) -> str:
        """What to call it in a message."""
        return STDIN if self.is_stdin else self.path

    @functools.cached_property
    def text(self) -> Text:
        """The whole text behind it, read when it is asked for first; FormatError for what is no text."""
        if self.is_stdin:
            data = _stdin()
            if not isinstance(data, bytes):
                raise FormatError("is not text: it looks like a .npy file", "UTF-8", where=STDIN)
            return Text(STDIN, text.decode(data, STDIN))
        return text.read_text(self.path) if self.inline is None else Text(self.path, self.inline)


class Format(NamedTuple):
    """How one format is read and written.

    `names` lists the tensors of a file, where they have names; `unnamed` is what a new one is called where nobody says.
    `is_folder` says whether a file of it is a folder to the system. `has_layout` says whether chunks and a compression
    can be chosen, and `keeps_others` whether a new file can be the input's with one tensor replaced.
    """

    name: str
    suffixes: tuple[str, ...]
    open: Callable[[Reference, TextTypes], Source]
    create: Callable[[NewFile, Source, str, Layout], FileSink]
    is_folder: bool = False
    names: Callable[[str], Iterable[str]] | None = None
    unnamed: str = "tensor"
    has_layout: bool = False
    keeps_others: bool = False


def _open_npy(reference: Reference, types: TextTypes) -> Source:
    if reference.inner is not None:
        raise UsageError("a .npy file holds one tensor", "no name after ::", where=reference.path)
    return npy.NpySource(reference.path, asked=types.asked)


def _create_npy(file: NewFile, like: Source, *_: object) -> FileSink:
    return npy.NpySink(file, like)


def _open_npz(reference: Reference, types: TextTypes) -> Source:
    return npz.open_member(reference.path, reference.inner, asked=types.asked)


def _create_npz(file: NewFile, like: Source, inner: str, layout: Layout) -> FileSink:
    return npz.NpzSink(file, like, inner, keep_others=layout.keep_others)


def _open_safetensors(reference: Reference, _: TextTypes) -> Source:
    return safetensors.SafetensorsSource(reference.path, reference.inner)


def _create_safetensors(file: NewFile, like: Source, inner: str, layout: Layout) -> FileSink:
    return safetensors.SafetensorsSink(file, like, inner, keep_others=layout.keep_others)


def _open_h5(reference: Reference, types: TextTypes) -> Source:
    from revseq_cli.formats.hdf5 import source  # h5py costs as much as NumPy

    return source.Hdf5Source(reference.path, reference.inner, asked=types.asked)


def _names_in_h5(path: str) -> Iterable[str]:
    from revseq_cli.formats.hdf5 import source

    return source.names_in(path)


def _create_h5(file: NewFile, like: Source, inner: str, layout: Layout) -> FileSink:
    from revseq_cli.formats.hdf5 import sink

    return sink.create(file, like, inner, layout)


def _open_zarr(reference: Reference, types: TextTypes) -> Source:
    from revseq_cli.formats.zarr import source  # an extra, which takes a while to load

    return source.ZarrSource(reference.path, reference.inner, asked=types.asked)


def _create_zarr(file: NewFile, like: Source, inner: str, layout: Layout) -> FileSink:
    from revseq_cli.formats.zarr import sink

    return sink.ZarrSink(file, like, inner, keep_others=layout.keep_others)


def _open_json(reference: Reference, types: TextTypes) -> Source:
    if dxdispatch.is_model(reference.text.text):
        model = models.ModelText.read(reference.text)
        if reference.inner in model.model.tensors:
            return model.tensor(reference.inner, types)
        found, known = f"is a model: {listed(model.model.tensors)}", list(model.model.tensors)
        raise FormatError(found, "the name of one", try_hint(reference.path, known[0]), reference.path)
    return text.open_json(reference.text, reference.inner, types)


def _create_json(file: NewFile, like: Source, *_: object) -> FileSink:
    return text.TextSink(file, like, text.write_json, text.open_json)


def _open_notation(reference: Reference, types: TextTypes) -> Source:
    return text.open_notation(reference.text, reference.inner, types)


def _create_notation(file: NewFile, like: Source, *_: object) -> FileSink:
    return text.TextSink(file, like, text.write_notation, text.open_notation)


# The last ones are those of fields that have HDF5 under a name of their own: NetCDF, AnnData, Loom, NeXus, NWB, EMD and
# HyperSpy. MATLAB's .mat is not among them, since it needs a header of its own to be read there.
_HDF5_SUFFIXES = (
    ".h5", ".hdf5", ".hdf", ".he5", ".nc", ".nc4", ".h5ad", ".loom", ".nxs", ".nwb", ".emd", ".hspy",
)  # fmt: skip
FORMATS = (
    Format("npy", (".npy",), _open_npy, _create_npy),
    Format("h5", _HDF5_SUFFIXES, _open_h5, _create_h5, names=_names_in_h5, has_layout=True, keeps_others=True),
    Format("npz", (".npz",), _open_npz, _create_npz, names=npz.names_in, keeps_others=True),
    Format(
        "safetensors", (".safetensors",), _open_safetensors, _create_safetensors, names=safetensors.names_in,
        keeps_others=True,
    ),
    # An array may be the store itself.
    Format(
        "zarr", (".zarr", ".zspy"), _open_zarr, _create_zarr, is_folder=True, names=metadata.arrays_in,
        unnamed="", keeps_others=True,
    ),
    Format("json", (".json",), _open_json, _create_json),
    Format("text", (".txt", ".md"), _open_notation, _create_notation),
)  # fmt: skip
_TEXTS = ("json", "text")
FORMAT_NAMES = tuple(each.name for each in FORMATS)


def _by_suffix(reference: Reference) -> Format | None:
    suffix = Path(reference.path).suffix.lower()
    return next((each for each in FORMATS if suffix in each.suffixes), None)


def _by_bytes(reference: Reference) -> Format | None:
    """The format that the file itself says it is; of the texts, the suffix knows which."""
    if os.path.isdir(reference.path):  # noqa: PTH112 - see Reference.file
        return _named("zarr" if metadata.is_store(Path(reference.path)) else None)
    found, by_suffix = _named(format_by_bytes(reference.path)), _by_suffix(reference)
    return by_suffix if by_suffix and {found, by_suffix} == {*map(_named, _TEXTS)} else found


def _named(name: str | None) -> Format | None:
    return next((each for each in FORMATS if each.name == name), None)


def format_of(reference: Reference) -> Format:
    """The format of an input: by option, else by its first bytes, else by its suffix; FormatError where none says."""
    if reference.inline is not None:
        reference = replace(reference, format="text")
    return _named(reference.format) or _by_bytes(reference) or format_to_write(reference)


def format_to_write(reference: Reference) -> Format:
    """The format of an output: by option, else by its suffix; FormatError for a suffix that none has."""
    found = _named(reference.format) or _by_suffix(reference)
    if found:
        return found
    if os.path.isdir(reference.path):  # noqa: PTH112 - see Reference.file
        raise TensorIOError("is a directory", "a tensor file", where=reference.path)
    suffix = Path(reference.path).suffix
    known = listed((s for each in FORMATS for s in each.suffixes), 30)
    fact = f"has the unknown suffix {suffix}" if suffix else "has no suffix"
    raise FormatError(fact, f"one of {known}", Words.of("add {}", format="|".join(FORMAT_NAMES)), reference.path)


def names_in(reference: Reference) -> Iterable[str]:
    """What the tensors of a file are called."""
    names = format_of(reference).names
    return names(reference.path) if names else ()


def is_about(format_name: str, reference: Reference) -> bool:
    """Whether such an option may be about an input: its suffix says nothing, and its bytes say nothing else."""
    if reference.inline is not None or reference.is_stdin or _by_suffix(reference):
        return False
    with contextlib.suppress(RevseqError):  # told when it is opened
        found = _by_bytes(reference)
        return found is None or found.name == format_name
    return True


def holds_text(reference: Reference) -> bool:
    """Whether the reference is to a text in the bracket notation, and not to a tensor in an argument."""
    if reference.is_stdin:
        return isinstance(_stdin(), bytes)
    return reference.inline is None and format_of(reference).name == "text"


def model_of(reference: Reference) -> models.ModelText | None:
    """The DxDispatch model that the reference is to, if it is one."""
    if reference.inner or reference.inline is not None:
        return None
    if not holds_text(reference) and (reference.is_stdin or format_of(reference).name != "json"):
        return None
    return models.ModelText.read(reference.text) if dxdispatch.is_model(reference.text.text) else None


@functools.cache
def _stdin() -> bytes | npy.Piped:
    """Standard input, whole, since it can be read only once: a tensor in .npy, or text."""
    stream = sys.stdin.buffer
    try:
        head = stream.read(len(HDF5_MAGIC))
        if head.startswith(NPY_MAGIC):
            return npy.from_stream(STDIN, stream, head)
        if head.startswith((HDF5_MAGIC, ZIP_MAGIC)):
            kind = "HDF5" if head.startswith(HDF5_MAGIC) else ".npz"
            raise FormatError(f"{kind} cannot be read from a pipe", "a real file", "save it to a file first", STDIN)
        data = head + stream.read(text.LARGEST + 1 - len(head))
    except TensorIOError:
        raise
    except OSError as e:
        raise positioned.failed(STDIN, "read", e) from None
    if len(data) > text.LARGEST:
        raise FormatError(
            f"is a text of more than {text.LARGEST} bytes", "less, since text is parsed whole", where=STDIN
        )
    return data


def open_source(reference: Reference, types: TextTypes) -> Source:
    """The tensor, with its header read; RevseqError for what cannot be one."""
    if not reference.is_stdin:
        return format_of(reference).open(reference, types)
    if reference.format and format_of(reference).names:  # what has names is read from here and there
        raise FormatError(
            f".{reference.format} cannot be read from a pipe", "a real file", "save it to a file first", STDIN
        )
    found = _stdin()
    if isinstance(found, npy.Piped):
        return found.source(types.asked)
    return text.open_notation(reference.text, reference.inner, types)


def new_file(
    path: str, *, overwrite: bool, inputs: Iterable[positioned.Identity] = (), folder: bool = False
) -> NewFile:
    """A new file or folder of that name, not yet created; RevseqError for a name that cannot be given."""
    metadata.refuse_name(path)
    return (NewFolder if folder else NewFile)(path, overwrite=overwrite, inputs=inputs)


def create_sink(
    reference: Reference,
    like: Source,
    *,
    overwrite: bool,
    inputs: Iterable[positioned.Identity] = (),
    layout: Layout = Layout(),  # noqa: B008 - it is immutable
) -> FileSink:
    """The file of a result of the same sizes and data type as `like`; every reason to refuse it shows now."""
    if reference.inner is not None and os.path.exists(reference.path):  # noqa: PTH110 - see Reference.file
        raise UsageError(
            "names a dataset inside an existing file as output",
            "a new file: its other datasets would be lost",
            "write to another file, and copy it in: "
            + shlex.quote(f"new{Path(reference.path).suffix}::{reference.inner}"),
            f"{reference.path}::{reference.inner}",
        )
    wanted = format_to_write(reference)
    file = new_file(reference.path, overwrite=overwrite, inputs=inputs, folder=wanted.is_folder)
    if reference.inner is not None and not wanted.names:
        raise UsageError("holds one tensor", "no name after ::", where=file.name)
    inner = reference.inner if reference.inner is not None else like.inner or wanted.unnamed
    _require_layout(layout, like, wanted, inner, file.name)
    try:
        sink = wanted.create(file, like, inner, layout)
    except (FormatError, UsageError) as e:
        if reference.inner is None and e.found.startswith(repr(inner[:80])):  # nobody typed that name
            e.hint = f"give it another name: {shlex.quote(f'{reference.path}::tensor')}"
        raise
    if wanted.keeps_others and like.storage.format == wanted.name and not layout.keep_others:
        sink.notes += _left_behind(like)
    return sink


def _left_behind(like: Source) -> tuple[Words, ...]:
    """A note on the other tensors of an input's file, if there are any."""
    count = like.others()
    tensors = "tensor is" if count == 1 else "tensors are"
    more = " or more" if count == MOST_OTHERS else ""
    text = f"{count:,}{more} other {tensors} not carried over: {{}} keeps them"
    return (Words.of(text, keep_others=""),) if count else ()


def _require_layout(layout: Layout, like: Source, wanted: Format, inner: str, where: str) -> None:
    """UsageError for a layout that the output's format does not have, or that fits neither input nor output."""
    if layout.changes_storage and not wanted.has_layout:
        raise UsageError("only HDF5 has chunks and a compression to choose", "an output such as out.h5", where=where)
    if not layout.keep_others:
        return
    if not wanted.keeps_others or like.storage.format != wanted.name:
        known = listed(each.name for each in FORMATS if each.keeps_others)
        found = f"the other tensors are kept by a copy of the input's file, and {like.name} is {like.storage.format}"
        fitting = next((each for each in FORMATS if each.keeps_others and each.name == like.storage.format), None)
        hint = Words.of("leave out {}", keep_others="")
        if fitting:
            hint = Words.of("leave out {}, or add {}", keep_others="", format=fitting.name)
        raise UsageError(found, f"input and output of one format, which is one of {known}", hint, where)
    if layout.changes_storage:
        found = "to keep the other tensors keeps the storage of every tensor as it is"
        raise UsageError(
            found, "neither chunks nor a compression with it", Words.of("leave out {}", keep_others=""), where
        )
    if inner.strip("/") != like.inner.strip("/"):
        found = f"the result takes the place of {like.name} among the others, and the output is named {inner}"
        raise UsageError(found, "no other name after ::", Words.of("add {}", output=where), where)


def create_scratch(beside: str, like: Source) -> FileSink:
    """A file for a tensor on its way, beside the output; it is gone when its sink is left."""
    return npy.NpySink(Scratch(beside), like)
