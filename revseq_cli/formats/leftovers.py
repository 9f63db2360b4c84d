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
from revseq_cli.formats.table import HDF5, NETCDF3, ZARR, Format

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
    """The note on what stays behind in INPUT's file, or is copied without being reversed.

    `original` is the file that an output of the format `row` is a copy of. `axis` is the one of the
    reversal; None if the tensor is only converted.
    """
    dimension = _name_dimension(source, axis)
    if original and original.is_input:
        return _note_on_unreversed(dimension, source)
    left = []
    if sink.left_out:
        left.append(join_names(sink.left_out))
    keeps_attributes = row in (HDF5, ZARR)
    if not keeps_attributes:
        left += list_losses(source.meaning() or NOTHING)
    advice = ""
    others = [] if original else _find_others(source)
    if others:
        left.append(_name_others(others, dimension, source))
        advice = _advise(source, sink.file.name, axis, only=only)
    if not left:
        return ()
    start = "not copied" if keeps_attributes else f"not kept in .{row.name}"
    return (f"{start}: {', '.join(left)}{advice}",)


def _name_others(others: Sequence[Item], dimension: str, source: Source) -> str:
    """How many other tensors there are, and their names; those along the dimension are first."""
    along = _find_along(others, dimension, source)
    rest = [item for item in others if item not in along]
    names = join_names(item.key for item in (*along, *rest))
    noun = "tensor" if len(others) == 1 else "tensors"
    return f"{len(others):,} other {noun} ({names})"


def _note_on_unreversed(dimension: str, source: Source) -> tuple[str, ...]:
    """The note on other tensors along the dimension, which are copied as they are."""
    if not dimension:
        return ()
    along = _find_along(_find_others(source), dimension, source)
    if not along:
        return ()
    names = join_names(item.key for item in along)
    verb = "has" if len(along) == 1 else "have"
    return (f"not reversed: {names}, which also {verb} the dimension {join_names([dimension])}",)


def _name_dimension(source: Source, axis: int | None) -> str:
    """The name of the dimension along which the tensor is reversed, or ""."""
    if axis is None or not source.dimensions:
        return ""
    return source.dimensions[axis]


def _find_others(source: Source) -> list[Item]:
    """The other tensors in its file, except for the coordinates of its dimensions."""
    meaning = source.meaning() or NOTHING
    variables = {variable.name for variable in meaning.coordinates}
    variables.update(meaning.uncopied)
    others = []
    for item in _list_items(source):
        if item.sizes is None or item.what == DIMENSION:
            continue
        if _last_part(item.key) not in variables and not source.is_item(item.key):
            others.append(item)
    return others


def _list_items(source: Source) -> Sequence[Item]:
    """What is in the tensor's file.

    Empty if the file cannot be listed: damage to other parts of it does not matter here.
    """
    row = table.by_name(source.storage.format)
    if row is None or not row.can_list:
        return ()
    if not source.container:
        return ()
    types = TextTypes(None, DataType.FLOAT32)
    try:
        contents = row.load().contents(Reference(source.container), types)
    except RevseqError:
        return ()
    return contents.items if contents else ()


def _find_along(others: Sequence[Item], dimension: str, source: Source) -> list[Item]:
    """Those of the others that have the dimension, except for bounds, which nobody reverses."""
    if not dimension:
        return []
    bounds = _name_bounds(source)
    along = []
    for item in others:
        if dimension in item.dimensions and _last_part(item.key) not in bounds:
            along.append(item)
    return along


def _name_bounds(source: Source) -> set[str]:
    """The names of the variables with the bounds of coordinates."""
    meaning = source.meaning() or NOTHING
    names = set()
    for variable in meaning.coordinates:
        for attribute in ("bounds", "climatology"):
            names.add(str(variable.attributes.get(attribute, "")))
    return names


def _last_part(key: str) -> str:
    """The name of an item inside its group."""
    return key.rpartition("/")[2]


def _advise(source: Source, output: str, axis: int | None, *, only: bool) -> str:
    """What to type to keep the other tensors, or to see them if the tensor is only converted.

    It is "" if the path `output` has the suffix of INPUT's file already.
    """
    path = source.container
    file = platform.quote(path)
    if source.storage.format == NETCDF3.name:
        return f"; to keep them, first make it NetCDF-4: nccopy -k nc4 {file} new.nc"
    if axis is None:
        return f"; to see them: revseq show {file}"
    if only:
        return "; to keep them, leave out --only"
    suffix = table.find_suffix(path)
    if suffix == table.find_suffix(output):
        return ""
    return f"; to keep them, write a {suffix} file: -o new{suffix}"
