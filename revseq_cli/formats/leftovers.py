"""The note on what of INPUT's file is not in an output, or is there without being reversed."""

from __future__ import annotations

from collections.abc import Sequence

from revseq_cli.core import platform
from revseq_cli.core.errors import RevseqError, join_names
from revseq_cli.core.tensors import DataType
from revseq_cli.formats import table
from revseq_cli.formats.attributes import NOTHING, list_losses
from revseq_cli.formats.contract import FileSink, Original, Source, TextTypes
from revseq_cli.formats.listings import DIMENSION, Item
from revseq_cli.formats.references import Reference
from revseq_cli.formats.table import HDF5, NETCDF3, ONNX, ZARR, Format

_STARTS = ("not kept in ", "not copied: ", "not reversed: ")


def subject_of(note: str) -> str:
    """What notes of one kind have in common: a batch prints only the first note of a kind."""
    if note.startswith(_STARTS):
        return note.partition(":")[0]
    return note


def note_on_rest(
    sink: FileSink,
    source: Source,
    row: Format,
    original: Original | None,
    *,
    only: bool,
    axis: int | None,
) -> tuple[str, ...]:
    """The note on what is left in INPUT's file, or is in a copy of it without being reversed.

    `original` is the file that an output of the format `row` is a copy of. `axis` is the one of the
    reversal, or None where the tensor is only converted.
    """
    if original and original.is_input:
        return _note_on_unreversed(source, axis)
    left = []
    if sink.left_out:
        left.append(join_names(sink.left_out))
    keeps_attributes = row in (HDF5, ZARR)
    if not keeps_attributes:
        left += list_losses(source.meaning() or NOTHING)
    advice = ""
    others = [] if original else _find_others(source)
    if others:
        left.append(_name_others(others, source, axis))
        advice = _advise(source, sink.file.name, axis, only=only)
    if not left:
        return ()
    start = "not copied" if keeps_attributes else f"not kept in .{row.name}"
    return (f"{start}: {', '.join(left)}{advice}",)


def _name_others(others: Sequence[Item], source: Source, axis: int | None) -> str:
    """How many other tensors there are, and their names; those along the axis are first."""
    along = _find_along(others, source, axis)
    rest = [item for item in others if item not in along]
    names = join_names(item.key for item in (*along, *rest))
    noun = "tensor" if len(others) == 1 else "tensors"
    return f"{len(others):,} other {noun} ({names})"


def _note_on_unreversed(source: Source, axis: int | None) -> tuple[str, ...]:
    """The note on tensors along the same dimension, which are copied as they are."""
    if axis is None or not any(source.dimensions):
        return ()
    along = _find_along(_find_others(source), source, axis)
    if not along:
        return ()
    dimension = source.dimensions[axis]
    names = join_names(item.key for item in along)
    verb = "has" if len(along) == 1 else "have"
    return (f"not reversed: {names}, which also {verb} the dimension {join_names([dimension])}",)


def _find_others(source: Source) -> list[Item]:
    """The other tensors in its file, except for the coordinates of its dimensions.

    Empty if the file cannot be listed: damage to other parts of it does not matter here.
    """
    row = table.by_name(source.storage.format)
    if row is None or not row.has_names:
        return []
    if row is ONNX or not source.container:
        return []
    types = TextTypes(None, DataType.FLOAT32)
    try:
        contents = row.load().contents(Reference(source.container), types)
    except RevseqError:
        return []
    if contents is None:
        return []
    meaning = source.meaning() or NOTHING
    variables = {variable.name for variable in meaning.coordinates}
    variables.update(meaning.uncopied)
    others = []
    for item in contents.items:
        if item.sizes is None or item.what == DIMENSION:
            continue
        name = item.key.rpartition("/")[2]
        if name not in variables and not source.is_item(item.key):
            others.append(item)
    return others


def _find_along(others: Sequence[Item], source: Source, axis: int | None) -> list[Item]:
    """Those of the others that have the dimension along which the tensor is reversed."""
    if axis is None or not any(source.dimensions):
        return []
    dimension = source.dimensions[axis]
    if not dimension:
        return []
    bounds = _name_bounds(source)
    along = []
    for item in others:
        name = item.key.rpartition("/")[2]
        if dimension in item.dimensions and name not in bounds:
            along.append(item)
    return along


def _name_bounds(source: Source) -> set[str]:
    """The names of the variables with the bounds of coordinates, which nobody reverses."""
    meaning = source.meaning() or NOTHING
    names = set()
    for variable in meaning.coordinates:
        for attribute in ("bounds", "climatology"):
            names.add(str(variable.attributes.get(attribute, "")))
    return names


def _advise(source: Source, output: str, axis: int | None, *, only: bool) -> str:
    """What to type to keep the other tensors, or to see them if the tensor is only converted.

    It is nothing where the path `output` has the suffix of INPUT's file already.
    """
    path = source.container
    file = platform.quote(path)
    if source.storage.format == NETCDF3.name:
        return f"; to keep them, first make it NetCDF-4: nccopy -k nc4 {file} new.nc"
    if axis is None:
        return f"; to see them: revseq show {file}"
    if only:
        return "; to keep them, leave out --only"
    suffix = table.inner_suffix(path)
    if suffix == table.inner_suffix(output):
        return ""
    return f"; to keep them, write a {suffix} file: -o new{suffix}"
