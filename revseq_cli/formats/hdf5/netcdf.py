"""Attributes of NetCDF-4 and the CF conventions: those that name other datasets by number or word, and the history."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.formats.contract import DEFAULT_FILL
from revseq_cli.formats.hdf5.files import RAISED
from revseq_cli.formats.hdf5.library import h5py
from revseq_cli.formats.hdf5.scales import attribute_of, is_one_text, is_scale, text_of
from revseq_cli.ground.errors import listed, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

# NetCDF-4 numbers the dimensions of a file from 0 on: a dimension's scale has its own number, and a variable the
# numbers of its dimensions. Its library reads no file whose numbers have gaps ("Invalid dimension ID or name").
_OWN_ID, _IDS = "_Netcdf4Dimid", "_Netcdf4Coordinates"
ID_ATTRIBUTES = (_OWN_ID, _IDS)

# How the attribute NAME of a dimension begins that has no variable of its name: its dataset has no values.
_BARE = b"This is a netCDF dimension but not a netCDF variable"

# Attributes whose words are names of variables, by the CF conventions 1.11, appendix A. A word that ends with a colon
# says what the next one is.
_NAMING = (
    "ancillary_variables", "bounds", "cell_measures", "climatology", "coordinates", "formula_terms", "geometry",
    "grid_mapping", "instance_dimension", "interior_ring", "node_coordinates", "node_count", "part_node_count",
    "sample_dimension",
)  # fmt: skip


_HISTORY = b"history"
_MOST_HISTORY = 60_000  # bytes; older versions of the file format have no room for an attribute of 64 KiB


def new_dimension_ids(datasets: Iterable[h5py.Dataset]) -> dict[int, int]:
    """The new number for the old one of each dimension whose scale is among the datasets: from 0 on, without gaps."""
    numbers = sorted({number for each in datasets if is_scale(each.id) for number in _numbers(each, _OWN_ID)})
    return {old: new for new, old in enumerate(numbers)}


def has_number(scale: h5py.Dataset) -> bool:
    """Whether NetCDF has numbered the dimension of that scale."""
    return bool(_numbers(scale, _OWN_ID))


def is_bare_dimension(dataset: h5py.h5d.DatasetID) -> bool:
    """Whether a scale is a dimension that has no variable, and so no values."""
    return text_of(dataset, b"NAME").startswith(_BARE)


def is_netcdf(file: h5py.File, scales: Iterable[h5py.Dataset]) -> bool:
    """Whether NetCDF wrote the file: by a mark that it has since 2016, or by the number of a dimension."""
    return "_NCProperties" in file.attrs or is_classic(file) or any(map(has_number, scales))


def conventions_of(dataset: h5py.Dataset, names: Iterable[str]) -> dict[str, list[Any]]:
    """The values of those attributes that it has, and the fill value that NetCDF's library sets without _FillValue."""
    found: dict[str, list[Any]] = {}
    for name in names:
        with contextlib.suppress(*RAISED):
            if name in dataset.attrs:
                values = np.asarray(dataset.attrs[name])
                texts = (
                    each.decode("utf-8", "replace") if isinstance(each, bytes) else each for each in values.reshape(-1)
                )
                found[name] = [*texts]
    is_filled = dataset.id.get_create_plist().fill_value_defined() == h5py.h5d.FILL_VALUE_USER_DEFINED
    if is_filled and "_FillValue" not in found and dataset.dtype.itemsize > 1 and is_netcdf(dataset.file, ()):
        found[DEFAULT_FILL] = [dataset.fillvalue]
    return found


def is_classic(file: h5py.File) -> bool:
    """Whether the file is of NetCDF's classic model."""
    return "_nc3_strict" in file.attrs


def misplaced(scales: Iterable[str], name: str, *, classic: bool) -> str:
    """Why NetCDF's library would not find a variable's dimensions if it had that name, or nothing.

    It looks for their scales in the variable's own group and above; and files of its classic model have no groups.
    """
    group = name.rpartition("/")[0]
    if group and classic:
        return f"NetCDF's classic model, which this file has, knows no groups, such as {group}"
    above = [scale for scale in scales if not f"{group}/".startswith(f"{scale.rpartition('/')[0]}/")]
    return f"the dimension {above[0]} would be out of sight of {name}" if above else ""


def renumbered(values: NDArray[Any], ids: dict[int, int]) -> NDArray[Any] | None:
    """An attribute's numbers of dimensions, changed to the new ones; None where one of them has no new number."""
    if values.dtype.kind not in "iu" or any(number not in ids for number in values.reshape(-1).tolist()):
        return None
    return np.array([ids[number] for number in values.reshape(-1).tolist()], values.dtype).reshape(values.shape)


def missing_dimensions(dataset: h5py.Dataset, known: Iterable[h5py.Dataset]) -> set[int]:
    """The numbers of the dimensions that the dataset names by number only, and that no known scale has.

    A coordinate variable of two dimensions does so: it is the scale of its first one, and a scale has no scales.
    """
    return set(_numbers(dataset, _IDS)) - {number for each in known for number in _numbers(each, _OWN_ID)}


def scales_by_number(file: h5py.File, names: Iterable[bytes], wanted: set[int]) -> Iterator[h5py.Dataset]:
    """The scales of the dimensions with these numbers, among the objects of the file with these names."""
    for name in names:
        if h5py.h5a.exists(file.id, _OWN_ID.encode(), obj_name=name):
            item = file[name]
            if isinstance(item, h5py.Dataset) and is_scale(item.id) and wanted & {*_numbers(item, _OWN_ID)}:
                yield item


def dangling(carried: Iterable[tuple[h5py.Dataset, str]]) -> list[str]:
    """A note for each attribute that names a dataset which is not carried over.

    `carried` are the datasets that are carried over, each with its path in the new file.
    """
    carried = list(carried)
    addresses = {_address(dataset) for dataset, _ in carried}
    notes = []
    for dataset, path in carried:
        for key in _NAMING:
            named = ((word, _named(dataset, word)) for word in _words(dataset, key))
            left = [word for word, item in named if item is not None and _address(item) not in addresses]
            if left:
                notes.append(f"{printable(path)}: the attribute {key} names {listed(left)}, not carried over")
    return notes


def _numbers(dataset: h5py.Dataset, key: str) -> list[int]:
    """The integers of an attribute; none where it does not exist, or holds something else."""
    if key not in dataset.attrs:
        return []
    values = np.asarray(dataset.attrs[key])
    return values.reshape(-1).tolist() if values.dtype.kind in "iu" else []


def _words(dataset: h5py.Dataset, key: str) -> list[str]:
    """The names in an attribute of text; none where it does not exist, or holds something else."""
    words: list[str] = []
    for value in np.asarray(dataset.attrs.get(key, ()), object).reshape(-1):  # one text, or a list of them
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        words += text.split() if isinstance(text, str) else []
    return [word for word in words if not word.endswith(":")]


def _named(dataset: h5py.Dataset, word: str) -> h5py.Dataset | None:
    """The dataset that a word in an attribute means: in the dataset's own group, or else in one above it."""
    group = dataset.parent
    while True:
        named = _by_hard_links(dataset.file if word.startswith("/") else group, word)
        if named is not None or group.name == "/":
            return named
        group = group.parent


def _by_hard_links(group: h5py.Group, word: str) -> h5py.Dataset | None:
    item = group
    for part in word.strip("/").split("/"):
        if part == "..":
            item = item.parent
            continue
        if not isinstance(item, h5py.Group) or not isinstance(item.get(part, getlink=True), h5py.HardLink):
            return None
        item = item[part]
    return item if isinstance(item, h5py.Dataset) else None


def _address(item: h5py.HLObject) -> int:
    address: int = h5py.h5o.get_info(item.id).addr
    return address


def record_history(file: h5py.File, line: str) -> list[str]:
    """Put a line for a command before those of the global attribute `history`; a note where it is no text, or full.

    Source: the NetCDF Users' Guide, appendix on attribute conventions; and what NCO and CDO write.
    """
    root = file["/"].id
    old = attribute_of(root, _HISTORY)
    if old is not None and not is_one_text(old):
        return ["the attribute history is not one text, and gets no line"]
    text = b"\n".join(filter(None, [line.encode(), text_of(root, _HISTORY)]))
    if len(text) > _MOST_HISTORY:
        return [f"the attribute history would have {len(text):,} bytes, and gets no line"]
    kind = _kind(text, old)
    space = h5py.h5s.create(h5py.h5s.SCALAR) if old is None else old.get_space()
    if old is not None:
        h5py.h5a.delete(root, _HISTORY)
    new, sizes = h5py.h5a.create(root, _HISTORY, kind, space), space.get_simple_extent_dims()
    if kind.is_variable_str():  # h5py makes the pointers that HDF5 wants
        new.write(np.array([text], h5py.string_dtype()).reshape(sizes))
    else:
        new.write(np.frombuffer(text, f"V{len(text)}").reshape(sizes), mtype=kind)
    return []


def _kind(text: bytes, old: h5py.h5a.AttrID | None) -> h5py.h5t.TypeStringID:
    """HDF5's type for the text: of any length where the old one is, else as NetCDF writes text."""
    kind = h5py.h5t.C_S1.copy() if old is None else old.get_type().copy()
    if not text.isascii():
        kind.set_cset(h5py.h5t.CSET_UTF8)
    if not kind.is_variable_str():
        kind.set_size(len(text))
    return kind
