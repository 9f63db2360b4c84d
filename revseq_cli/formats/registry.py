"""Opens a tensor by its reference, and creates the file of a result, in any format."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from revseq_cli.core import platform
from revseq_cli.core.errors import FormatError, RevseqError, UsageError
from revseq_cli.core.tensors import DataType
from revseq_cli.formats import npy
from revseq_cli.formats.atomic_file import AtomicFile, FileTransaction, NewFolder, Scratch
from revseq_cli.formats.contents import TensorNameError, refuse_key
from revseq_cli.formats.contract import Layout
from revseq_cli.formats.meaning import lost_in
from revseq_cli.formats.references import Reference, format_to_write, piped
from revseq_cli.formats.table import HDF5, NPY, ONNX, RAW, TEXT, ZARR, Format, is_netcdf, named, packing_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from revseq_cli.formats import file_io
    from revseq_cli.formats.contents import Contents
    from revseq_cli.formats.contract import FileSink, Source, TextTypes


def contents(reference: Reference, types: TextTypes) -> Contents | None:
    """What a file or a group of it holds, as its headers say; None where the reference is to one tensor."""
    if reference.is_piped or reference.inline is not None or reference.packing:
        return None
    row = reference.row
    has_several = row is TEXT or (row.names and row is not ONNX)
    return row.load().contents(reference, types) if has_several else None


def holds_text(reference: Reference) -> bool:
    """Whether the reference is to a file or pipe of text in the bracket notation."""
    if reference.is_piped:
        return isinstance(piped(reference.path), bytes)
    return reference.inline is None and reference.row is TEXT


def open_source(reference: Reference, types: TextTypes) -> Source:
    """Read the header of the tensor; RevseqError if it is not a tensor that this program can read."""
    if reference.is_piped:
        return _open_pipe(reference, types)
    row = reference.row
    if reference.packing and not row.is_text:
        if row is not NPY:
            found, hint = f"a packed .{row.name} file cannot be read", f"{reference.packing.unpack} {reference.path}"
            raise UsageError(found, "a packed .npy or text file", hint, reference.path)
        refuse_key(reference.key, "a .npy file", reference.path)
        return npy.open_packed(reference.path, reference.packing, types.asked)
    return reference.row.load().open_source(reference, types)


def _open_pipe(reference: Reference, types: TextTypes) -> Source:
    asked = named(reference.format)
    if asked and (asked.names or asked is RAW):  # formats with names are not read from first byte to last
        found, hint = f".{asked.name} cannot be read from a pipe", "save it to a file first"
        raise FormatError(found, "a real file", hint, reference.name)
    content = piped(reference.path)
    if isinstance(content, npy.Piped):
        return content.source(types.asked)
    row = asked if asked and asked.is_text else TEXT
    return row.load().open_source(reference, types)


def new_file(
    path: str, *, overwrite: bool, inputs: Iterable[file_io.Identity] = (), folder: bool = False
) -> AtomicFile:
    """A new file or folder, not yet created; RevseqError where nothing may be written to that path."""
    return (NewFolder if folder else AtomicFile)(path, overwrite=overwrite, inputs=inputs)


def create_sink(
    reference: Reference,
    template: Source,
    *,
    overwrite: bool,
    inputs: Iterable[file_io.Identity] = (),
    layout: Layout = Layout(),  # noqa: B008 - it is immutable
) -> FileSink:
    """The sink of a result with the sizes and data type of `template`; RevseqError now for all that could refuse it."""
    own = named(template.storage.format)
    # A copy of the input's whole file is what that is, whatever its suffix: MATLAB's .mat may be HDF5.
    if packing := packing_of(reference.path):
        found = "a packed file is only read"
        raise UsageError(found, f"a name without {packing.suffix}", "write it plain, then pack it", reference.path)
    row = format_to_write(reference, own if own and own.keeps_others and not layout.only else None)
    if row is HDF5 and is_netcdf(reference.path):
        _require_type_of_netcdf(template, reference)
    if row is not own or not template.can_copy_to(reference.path):
        layout = layout._replace(only=True)
    # Only a copy of the input's file, made again, may replace a file of several.
    exists = os.path.exists(reference.path)  # noqa: PTH110 - see Reference.file
    if not row.names:
        refuse_key(
            reference.key,
            f"a {row.suffixes[0]} file",
            reference.path,
            _without_key(reference.path, overwrite=overwrite),
        )
    if reference.key is not None and exists and (layout.only or not overwrite):
        raise UsageError(
            "names a dataset inside an existing file as output",
            "a new file: its other datasets would be lost",
            "write to another file, and copy it in: "
            + platform.quoted(f"new{Path(reference.path).suffix}::{reference.key}"),
            f"{reference.path}::{reference.key}",
        )
    file = new_file(reference.path, overwrite=overwrite, inputs=inputs, folder=row is ZARR)
    key = reference.key if reference.key is not None else template.key or ("" if row in (ZARR, ONNX) else "tensor")
    try:
        sink = row.load().create_sink(file, template, key, layout)
    except TensorNameError as e:
        if reference.key is None:  # the name is the input's, not the user's
            e.hint = f"give it another name: {platform.typed(f'{reference.path}::tensor')}"
        raise
    if template.assumes_type and not row.is_text:
        data_type = template.desc.data_type.name
        sink.notes += (f"{template.name} states no data type: it is {data_type} in {file.name}; --dtype names another",)
    if row not in (HDF5, ZARR):
        sink.notes += _lost(row, template)
    return sink


def _without_key(path: str, *, overwrite: bool) -> str:
    """A hint at the same file without a name in it, or at a new one beside it; "" where both are there."""
    if overwrite or not os.path.lexists(path):
        return f"try {platform.typed(path)}" if path else ""
    new = Path(path).with_name(f"new{Path(path).suffix}")
    return "" if os.path.lexists(new) else f"try {platform.typed(str(new))}"


def _require_type_of_netcdf(template: Source, reference: Reference) -> None:
    """FormatError for elements that NetCDF's library does not know: it crashes on small floats, or skips them."""
    data_type = template.desc.data_type
    # It reads BFLOAT16 as FLOAT32, booleans as an enumeration, and complex numbers as compounds.
    if data_type is DataType.FLOAT16 or (data_type.kind == "minifloat" and data_type is not DataType.BFLOAT16):
        other = str(Path(reference.path).with_suffix(".h5"))
        other = other if reference.key is None else f"{other}::{reference.key}"
        hint = f"write it to {platform.typed(other)}, or cast it to FLOAT32 before"
        raise FormatError(f"NetCDF has no {data_type.name}", "a data type of NetCDF", hint, reference.path)


def _lost(row: Format, template: Source) -> tuple[str, ...]:
    """A note on what the input's file says of the tensor, for which the format has no place."""
    try:
        return lost_in(row.name, template.meaning())
    except RevseqError as e:  # who writes such a format does not need it
        return (f"names and attributes of {template.name} cannot be read: {e.found}",)


@contextlib.contextmanager
def scratch(beside: str, template: Source) -> Iterator[FileSink]:
    """The sink of a temporary .npy file next to the file `beside`, which is removed in the end."""
    file = Scratch(beside)
    with FileTransaction(file), npy.NpySink(file, template) as sink:
        yield sink
