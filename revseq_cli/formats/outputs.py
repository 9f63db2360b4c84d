"""How an output is made: its format, what it is a copy of, and every reason to refuse it before the work."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from revseq_cli import files
from revseq_cli.core import platform
from revseq_cli.core.errors import FormatError, UsageError, listed
from revseq_cli.core.tensors import DataType, TensorDesc
from revseq_cli.files import base
from revseq_cli.formats import table
from revseq_cli.formats.contents import refuse_key
from revseq_cli.formats.contract import FileSink, Source
from revseq_cli.formats.recognition import unknown_format
from revseq_cli.formats.references import Reference
from revseq_cli.formats.table import HDF5, ONNX, ZARR, Format, by_suffix, named


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
    row = _choose_format(reference, template, only=only)
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
    if key is None:
        key = template.key or ("" if row in (ZARR, ONNX) else "tensor")
    sink = row.load().create_sink(file, template, key, only=only)
    if leaves_others:
        sink.notes += (
            f"{file.name} has this tensor alone, without what else is in {template.path}",
        )
    if elsewhere and platform.is_remote(path) and not file.address:
        sink.in_workers = False
    sink.notes += _notes(row, template, file.name)
    return sink


def _notes(row: Format, template: Source, name: str) -> tuple[str, ...]:
    """What the user should know of the output: a data type that was assumed, and what the format does not keep."""
    notes: tuple[str, ...] = ()
    if template.assumes_type and not row.is_text:
        data_type = template.desc.data_type.name
        notes += (
            f"{template.name} states no data type: it is {data_type} in {name}; --dtype names another",
        )
    meaning = None if row in (HDF5, ZARR) else template.meaning()
    if meaning:
        from revseq_cli.formats.attributes import lost_in  # most files say nothing

        notes += lost_in(row.name, meaning)
    return notes


def _choose_format(reference: Reference, template: Source, *, only: bool) -> Format:
    """The format of an output: by option, else by suffix, else the input's; RevseqError for one that is never written."""
    path = reference.path
    if packing := table.packing_of(path):
        problem, wanted = "a packed file is only read", f"a name without {packing.suffix}"
        raise UsageError(problem, wanted, "write it plain, then pack it", path)
    row = named(reference.format) or by_suffix(path)
    own = named(template.storage.format)
    has_one_colon = not reference.key and by_suffix(path.rpartition(":")[0])
    if row is None and own and own.keeps_others and not (only or has_one_colon):
        # The output is a copy of the input's file, whatever its suffix: MATLAB's .mat may be HDF5.
        row = own
    if row is None:
        raise unknown_format(path, reference.key)
    if not row.suffixes:
        known = listed((row.name for row in table.written()), 30)
        found = f"would be a file of {row.name}, which is only read"
        raise FormatError(found, f"one of {known}", where=path)
    if row is HDF5 and table.is_netcdf(path):
        _refuse_small_float(template.desc, path)
    return row


def _refuse_small_float(desc: TensorDesc, path: str) -> None:
    """FormatError for floats that NetCDF's library crashes on, or skips; it reads BFLOAT16 as FLOAT32."""
    data_type = desc.data_type
    if data_type is DataType.BFLOAT16:
        return
    if data_type is DataType.FLOAT16 or data_type.kind == "minifloat":
        found = f"NetCDF has no {data_type.name}"
        raise FormatError(found, "a file that ends in .h5, or FLOAT32", where=path)
