"""How an output is created: its format, what it is a copy of, and reasons to refuse it early."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from revseq_cli import files
from revseq_cli.core import platform
from revseq_cli.core.errors import (
    EXISTS_ALREADY,
    FormatError,
    RevseqError,
    UsageError,
    join_names,
)
from revseq_cli.core.tensors import DataType, TensorDesc
from revseq_cli.files.input_file import Identity
from revseq_cli.formats import table
from revseq_cli.formats.contract import FileSink, Original, Source, TextTypes
from revseq_cli.formats.recognition import make_format_error, recognize
from revseq_cli.formats.references import Reference, open_source
from revseq_cli.formats.refusals import refuse_key
from revseq_cli.formats.table import HDF5, JSON, ONNX, ZARR, Format, by_name, by_suffix

if TYPE_CHECKING:
    from revseq_cli.files.new import NewFile


def create_sink(
    reference: Reference,
    template: Source,
    *,
    overwrite: bool,
    inputs: Iterable[Identity] = (),
    only: bool = False,
    on_cluster: bool = False,
    axis: int | None = None,
    replaces_store: bool = False,
) -> FileSink:
    """The sink of a result with the shape and data type of `template`.

    RevseqError, before the work, for every reason to refuse it. With `only`, the output is not a
    copy of INPUT's file. With `on_cluster`, workers are on machines that may not see the output's
    file. `axis` is that of the reversal. With `replaces_store`, a Zarr store of this machine may be
    replaced.
    """
    path = reference.path
    row = _choose_format(reference, template, only=only)
    if not row.has_names:
        refuse_key(reference.key, f"a {row.suffixes[0]} file", path)
    own_file = _find_own_file(reference, row, overwrite=overwrite)
    if own_file:
        file = _create_version(own_file, inputs)
    elif replaces_store and _is_only_store(path, row):
        file = files.new_folder_version(path, inputs)
    else:
        # There was no file to add the tensor to. If another command creates it during the work, it
        # is not replaced, even with --overwrite.
        may_replace = overwrite and not _can_be_added(reference, row)
        file = files.new_file(path, overwrite=may_replace, inputs=inputs, is_folder=row is ZARR)
    original = own_file
    if original is None and not only:
        original = _find_input_file(template, row, path)
    key = _choose_key(reference, template, row, original)
    sink = row.load().create_sink(file, template, key, original)
    if on_cluster and not file.reaches_workers:
        sink.write_in_parent()
    sink.add_notes(_note_on_type(row, template, file.name))
    sink.add_notes(_note_on_others(template))
    input_row = by_name(template.storage.format)
    if input_row is not None and input_row.has_names:
        from revseq_cli.formats.leftovers import note_on_rest  # most files hold one tensor

        sink.add_notes(note_on_rest(sink, template, row, original, only=only, axis=axis))
    return sink


def _create_version(own_file: Original, inputs: Iterable[Identity]) -> NewFile:
    """A new version of the file or the Zarr store that the tensor is added to."""
    if own_file.identity is None:  # a store
        return files.new_folder_version(own_file.path, inputs)
    return files.new_version(own_file.path, own_file.identity, inputs)


def _can_be_added(reference: Reference, row: Format) -> bool:
    """Whether the output names a tensor in a file that can hold others.

    If that file exists, the tensor is added to it.
    """
    return reference.key is not None and row.keeps_others


# What Zarr itself writes: metadata, and chunks such as 0.1, c/0/1 or c.
_ZARR_FILE = re.compile(r"zarr\.json|\.z(?:array|group|attrs|metadata)|(?:c|\d+)(?:\.\d+)*")


def _is_only_store(path: str, row: Format) -> bool:
    """Whether it is a local Zarr store that has only Zarr's own files."""
    if row is not ZARR or not os.path.isdir(path):
        return False
    if not table.is_store(path):
        return False
    return all(all(map(_ZARR_FILE.fullmatch, names)) for _, _, names in os.walk(path))


def adds_to_file(reference: Reference) -> bool:
    """Whether the output names a tensor in a file that exists, to which it is added.

    If neither option nor suffix tells the format, it is that of the file.
    """
    if reference.key is None or not files.exists(reference.path):
        return False
    row = by_name(reference.format) or by_suffix(reference.path)
    return row is None or _can_be_added(reference, row)


def has_tensor(output: str) -> bool:
    """Whether an output's file, which exists, has the named tensor; True if none is named."""
    reference = Reference.file(output)
    if reference.key is None:
        return True
    try:
        open_source(reference, TextTypes(None, DataType.FLOAT32))
    except RevseqError:  # what is wrong with the file is an error of the job
        return False
    return True


def _find_own_file(reference: Reference, row: Format, *, overwrite: bool) -> Original | None:
    """The file that the tensor is added to, if it exists; FormatError for one of another format."""
    path = reference.path
    if not _can_be_added(reference, row) or not files.exists(path):
        return None
    if not files.can_be_added_to(path):
        expected = "a new address: a tensor is added only to a file of this machine"
        raise UsageError(EXISTS_ALREADY, expected, where=f"{path}::{reference.key}")
    own_row = _find_own_format(path)
    if own_row is not row:
        seems = f"a .{own_row.name} file" if own_row else "something else"
        found = f"is {seems}, to which no tensor can be added"
        raise FormatError(found, f"a .{row.name} file, or a new one", where=path)
    if row is ZARR:
        return Original(path, None, overwrite=overwrite)
    with files.open_file(path) as fd:
        return Original(path, fd.identity, overwrite=overwrite)


def _find_input_file(template: Source, row: Format, path: str) -> Original | None:
    """INPUT's file, of which an output of the same format is a copy."""
    if row.name != template.storage.format or not row.keeps_others:
        return None
    return template.original_for(path)


def _choose_key(
    reference: Reference, template: Source, row: Format, original: Original | None
) -> str:
    """The name of the tensor in the output: as typed, or INPUT's, or "tensor" if it needs one."""
    if reference.key is not None:
        return reference.key
    needs_name = original is None and row not in (ZARR, ONNX)
    if needs_name and not template.key:
        return "tensor"
    return template.key


def _note_on_type(row: Format, template: Source, name: str) -> tuple[str, ...]:
    """The note on the data type that a binary output gets if INPUT states none."""
    if not template.assumes_type or row.is_text:
        return ()
    data_type = template.desc.data_type.name
    fact = f"{template.name} has no data type, so {name} is {data_type}"
    return (f"{fact}; choose another with --dtype",)


def _note_on_others(template: Source) -> tuple[str, ...]:
    """The note on other columns of a table, or keys of an object, which are not in the output."""
    if not template.others:
        return ()
    noun = "key" if template.storage.format == JSON.name else "column"
    if len(template.others) > 1:
        noun += "s"
    return (f"not copied: {len(template.others):,} other {noun} ({join_names(template.others)})",)


def _choose_format(reference: Reference, template: Source, *, only: bool) -> Format:
    """The format of an output: by option, or by suffix, or that of the file it is a copy of.

    RevseqError for one that is never written.
    """
    path = reference.path
    _refuse_compression(path)
    row = by_name(reference.format) or by_suffix(path)
    if row is None:
        row = _find_copied_format(reference, template, only=only)
    if row is None:
        raise make_format_error(path, reference.key, "-f")
    if not row.suffixes:
        known = join_names((other.name for other in table.list_outputs()), 30)
        found = f"{row.name} files can be read, but not written"
        raise FormatError(found, f"one of {known}", where=path)
    if row is HDF5 and table.has_netcdf_suffix(path):
        _refuse_small_float(template.desc, path)
    return row


def _refuse_compression(path: str) -> None:
    """UsageError for an output with the suffix of a compression."""
    compression = table.find_compression(path)
    if compression:
        plain = path[: -len(compression.suffix)]
        typed = platform.as_argument(plain)
        hint = f"compress it afterwards with {compression.name}; for now, type {typed}"
        raise UsageError("compressed output is not supported", hint=hint, where=path)


def _find_copied_format(reference: Reference, template: Source, *, only: bool) -> Format | None:
    """The format of the file that an output without a known suffix is a copy of, or None.

    It is the output's own file, or INPUT's: MATLAB's .mat may be HDF5.
    """
    path = reference.path
    if not reference.key and by_suffix(path.rpartition(":")[0]):
        return None  # file.h5:name lacks a colon
    own_row = _find_own_format(path) if reference.key else None
    if own_row or only:
        return own_row
    input_row = by_name(template.storage.format)
    if input_row and input_row.keeps_others:
        return input_row
    return None


def _find_own_format(path: str) -> Format | None:
    """The format of the output's file; None for a new file."""
    if not files.exists(path):
        return None
    return recognize(path, is_folder=files.is_folder(path)).format


def _refuse_small_float(desc: TensorDesc, path: str) -> None:
    """FormatError for floats that NetCDF's library skips or crashes on; it can read BFLOAT16."""
    data_type = desc.data_type
    if data_type is DataType.BFLOAT16:
        return
    if data_type is DataType.FLOAT16 or data_type.kind == "minifloat":
        found = f"NetCDF has no {data_type.name}"
        name = os.path.splitext(path)[0] + ".h5"
        hint = f"to write HDF5 that is not NetCDF, type {platform.as_argument(name)}"
        raise FormatError(found, hint=hint, where=path)
