"""How an output is created: its format, what it is a copy of, and reasons to refuse it early."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from revseq_cli import files
from revseq_cli.core import platform
from revseq_cli.core.errors import FormatError, RevseqError, UsageError, join_names
from revseq_cli.core.tensors import DataType, TensorDesc
from revseq_cli.files import base
from revseq_cli.formats import table
from revseq_cli.formats.contract import FileSink, Original, Source, TextTypes
from revseq_cli.formats.recognition import find_format, unknown_format
from revseq_cli.formats.references import Reference, open_source
from revseq_cli.formats.refusals import refuse_key
from revseq_cli.formats.table import HDF5, JSON, ONNX, ZARR, Format, by_name, by_suffix


def create_sink(
    reference: Reference,
    template: Source,
    *,
    overwrite: bool,
    inputs: Iterable[base.Identity] = (),
    only: bool = False,
    elsewhere: bool = False,
    axis: int | None = None,
    replaces_store: bool = False,
) -> FileSink:
    """The sink of a result with the shape and data type of `template`.

    RevseqError, before the work, for every reason to refuse it. With `only`, the output is no copy
    of INPUT's file. With `elsewhere`, workers are on machines that may not see the output's file.
    `axis` is that of the reversal. With `replaces_store`, a Zarr store of this machine may be
    replaced.
    """
    path = reference.path
    row = _choose_format(reference, template, only=only)
    if not row.names:
        refuse_key(reference.key, f"a {row.suffixes[0]} file", path)
    original = _find_own_file(reference, row, overwrite=overwrite)
    is_new_version = original is not None
    if replaces_store and row is ZARR:
        is_new_version = is_new_version or _is_only_store(path)
    if is_new_version:
        file = files.new_version(path, original.identity if original else None, inputs)
    else:
        # A file that another command creates there in the meantime, for its tensor, is kept.
        replaces = overwrite and (reference.key is None or not row.keeps_others)
        file = files.new_file(path, overwrite=replaces, inputs=inputs, is_folder=row is ZARR)
    if not original and not only:
        original = _find_input_file(template, row, path)
    key = _choose_key(reference, template, row, original)
    sink = row.load().create_sink(file, template, key, original)
    if elsewhere and not file.reaches_workers:
        sink.write_in_parent()
    sink.notes += _note_on_type(row, template, file.name) + _note_on_others(template)
    if _is_of_several(template):
        from revseq_cli.formats.leftovers import note_on_rest  # most files hold one tensor

        sink.notes += note_on_rest(sink, template, row, original, only=only, axis=axis)
    return sink


def _is_of_several(template: Source) -> bool:
    """Whether INPUT's file can hold several tensors."""
    row = by_name(template.storage.format)
    return row is not None and row.names


# What Zarr itself writes: metadata, and chunks such as 0.1, c/0/1 or c.
_ZARR_FILE = re.compile(r"zarr\.json|\.z(?:array|group|attrs|metadata)|(?:c|\d+)(?:\.\d+)*")


def _is_only_store(path: str) -> bool:
    """Whether it is a Zarr store of this machine with no other files than Zarr's."""
    if not os.path.isdir(path) or not table.is_store(path):
        return False
    names = (name for _, _, names in os.walk(path) for name in names)
    return all(map(_ZARR_FILE.fullmatch, names))


def adds_to_file(reference: Reference) -> bool:
    """Whether the output is a tensor to add to a file that exists."""
    if reference.key is None or not files.exists(reference.path):
        return False
    row = by_name(reference.format) or by_suffix(reference.path)
    return row is None or row.keeps_others


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
    path, key = reference.path, reference.key
    if key is None or not row.keeps_others:
        return None
    if not files.exists(path):
        return None
    if not files.is_replaceable(path):
        expected = "a new address: a tensor is added only to a file of this machine"
        raise UsageError("exists already", expected, where=f"{path}::{key}")
    kind = find_format(path, is_folder=files.is_folder(path))[0]
    if kind is not row:
        seems = f"a .{kind.name} file" if kind else "something else"
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
    needs_no_name = original is not None or row in (ZARR, ONNX)
    if template.key or needs_no_name:
        return template.key
    return "tensor"


def _note_on_type(row: Format, template: Source, name: str) -> tuple[str, ...]:
    """The note on a data type that INPUT does not state, and a binary output has."""
    if not template.assumes_type or row.is_text:
        return ()
    data_type = template.desc.data_type.name
    note = (
        f"{template.name} has no data type, so {name} is {data_type}; choose another with --dtype"
    )
    return (note,)


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
    if compression := table.find_compression(path):
        plain = path[: -len(compression.suffix)]
        typed = platform.as_argument(plain)
        hint = f"compress it afterwards with {compression.name}; for now, type {typed}"
        raise UsageError("compressed output is not supported", hint=hint, where=path)
    row = by_name(reference.format) or by_suffix(path)
    own = by_name(template.storage.format)
    has_one_colon = not reference.key and by_suffix(path.rpartition(":")[0])
    if row is None and reference.key:
        row = _find_own_format(path)
    may_be_copy = not only and not has_one_colon
    if row is None and may_be_copy:
        # A copy of the input's file, whatever its suffix: MATLAB's .mat may be HDF5.
        if own and own.keeps_others:
            row = own
    if row is None:
        raise unknown_format(path, reference.key, "-f")
    if not row.suffixes:
        known = join_names((row.name for row in table.list_outputs()), 30)
        found = f"{row.name} files can be read, but not written"
        raise FormatError(found, f"one of {known}", where=path)
    if row is HDF5 and table.is_netcdf(path):
        _refuse_small_float(template.desc, path)
    return row


def _find_own_format(path: str) -> Format | None:
    """The format of the file that a tensor is added to; None for a new file."""
    if not files.exists(path):
        return None
    return find_format(path, is_folder=files.is_folder(path))[0]


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
