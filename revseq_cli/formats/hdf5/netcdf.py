"""What NetCDF-4 and the CF conventions keep in attributes: dimension scales, names of datasets, the history.

h5py's `dims` and `is_scale` call HDF5's own functions, which do not check the types of these attributes: one of another
type crashes the process, and a `CLASS` of a dataset that has scales makes them fail.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.core.errors import listed, printable
from revseq_cli.formats.contract import DEFAULT_FILL
from revseq_cli.formats.hdf5 import types
from revseq_cli.formats.hdf5.files import RAISED
from revseq_cli.formats.hdf5.library import h5py
from revseq_cli.formats.meaning import NAMING, plain, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray


# On a dataset, the scales of each dimension; on a scale, the datasets and dimensions that use it.
_SCALES, _USES = b"DIMENSION_LIST", b"REFERENCE_LIST"
_LABELS = b"DIMENSION_LABELS"
_CLASS = b"CLASS"  # of a scale
_REFERENCES = h5py.vlen_dtype(h5py.ref_dtype)
_USE = np.dtype(
    {"names": ["dataset", "dimension"], "formats": [h5py.ref_dtype, "u4"], "offsets": [0, 8], "itemsize": 16}
)


def is_scale(dataset: h5py.h5d.DatasetID) -> bool:
    """Whether the dataset has the attribute that marks a dimension's scale."""
    return text_of(dataset, _CLASS) == b"DIMENSION_SCALE"


def attribute_of(item: h5py.h5o.ObjectID, name: bytes) -> h5py.h5a.AttrID | None:
    """The attribute of that name, if there is one."""
    return h5py.h5a.open(item, name) if h5py.h5a.exists(item, name) else None


def is_one_text(attribute: h5py.h5a.AttrID) -> bool:
    """Whether an attribute holds one text, and nothing else."""
    one = attribute.get_space().get_simple_extent_npoints() == 1
    return one and isinstance(attribute.get_type(), h5py.h5t.TypeStringID)


def text_of(item: h5py.h5o.ObjectID, name: bytes) -> bytes:
    """The text of an attribute, without padding; b"" where there is none, or it is no text, or not one."""
    attribute = attribute_of(item, name)
    if attribute is None or not is_one_text(attribute):
        return b""
    padding = b"\0 " if attribute.get_type().get_strpad() == h5py.h5t.STR_SPACEPAD else b"\0"
    return bytes(_values(attribute).reshape(-1)[0] or b"").rstrip(padding)


def scales_of(dataset: h5py.Dataset, dimension: int) -> list[h5py.Dataset]:
    """The scales of that dimension, in their order; references to anything but a dataset of the file are skipped.

    A scale may be one of its own dimensions'. Other datasets that refer to themselves are damaged, and have none there.
    """
    scales = (_dataset(reference, dataset) for reference in _references(dataset)[dimension])
    return [scale for scale in scales if scale is not None and (scale != dataset or is_scale(dataset.id))]


def names_of(dataset: h5py.Dataset) -> tuple[str, ...]:
    """The name of each dimension, "" for one without; nothing where none has one.

    It is the dimension's label, which h5py sets, or else the last part of the path of its first scale, which is how
    NetCDF names dimensions. A scale itself is the scale of its first dimension.
    """
    if not any(h5py.h5a.exists(dataset.id, name) for name in (_CLASS, _SCALES, _LABELS)):  # most datasets have none
        return ()
    names = [""] * dataset.id.rank
    with contextlib.suppress(*RAISED):  # damage there matters only where the scales are copied
        names = _labels(dataset)
        if is_scale(dataset.id) and names and not names[0]:
            names[0] = _last_part(dataset)
        for d, references in enumerate(_references(dataset)):
            if not names[d] and len(references):
                names[d] = next((_last_part(scale) for scale in scales_of(dataset, d)), "")
    inner = types.inner_sizes(dataset.id.get_type())
    return (*names, *("",) * len(inner)) if any(names) else ()


def _labels(dataset: h5py.Dataset) -> list[str]:
    """The label of each dimension, "" for one without."""
    none = [""] * dataset.id.rank
    attribute = attribute_of(dataset.id, _LABELS)
    if attribute is None or attribute.shape != (len(none),):
        return none
    if not isinstance(attribute.get_type(), h5py.h5t.TypeStringID):
        return none
    return [bytes(each or b"").rstrip(b"\0").decode("utf-8", "replace") for each in _values(attribute)]


def _last_part(scale: h5py.Dataset) -> str:
    return (scale.name or "").rpartition("/")[2]


def attach(dataset: h5py.Dataset, dimension: int, scale: h5py.Dataset) -> None:
    """Make the scale one of that dimension, in the attributes of both; those must not exist in other types."""
    references = _references(dataset)
    references[dimension] = np.append(references[dimension], np.array([scale.ref], h5py.ref_dtype))
    kind = h5py.h5t.vlen_create(h5py.h5t.STD_REF_OBJ)
    _write(dataset, _SCALES, kind, references)
    uses = np.zeros(1, _USE)
    uses[0] = (dataset.ref, dimension)
    uses = np.append(_uses(scale), uses)
    _write(scale, _USES, h5py.h5t.py_create(_USE, logical=True), uses)


def _references(dataset: h5py.Dataset) -> NDArray[Any]:
    """For each dimension, the references to its scales; none where the attribute has not the type that HDF5 writes."""
    none = np.empty(dataset.id.rank, _REFERENCES)
    for i in range(len(none)):
        none[i] = np.empty(0, h5py.ref_dtype)
    attribute = attribute_of(dataset.id, _SCALES)
    if attribute is None or attribute.shape != none.shape:
        return none
    kind = attribute.get_type()
    if not isinstance(kind, h5py.h5t.TypeVlenID):
        return none
    return _values(attribute) if kind.get_super().equal(h5py.h5t.STD_REF_OBJ) else none


def _uses(scale: h5py.Dataset) -> NDArray[Any]:
    """The datasets and dimensions that use the scale; none where the attribute has not the type that HDF5 writes."""
    attribute = attribute_of(scale.id, _USES)
    if attribute is None or len(attribute.shape or ()) != 1:
        return np.zeros(0, _USE)
    known = attribute.get_type().equal(h5py.h5t.py_create(_USE, logical=True))
    return _values(attribute) if known else np.zeros(0, _USE)


def _dataset(reference: h5py.Reference, holder: h5py.Dataset) -> h5py.Dataset | None:
    if not reference:
        return None
    try:
        item = h5py.h5r.dereference(reference, holder.id)
    except (OSError, RuntimeError, ValueError, KeyError):  # the dataset was deleted
        return None
    return h5py.Dataset(item) if isinstance(item, h5py.h5d.DatasetID) else None


def _values(attribute: h5py.h5a.AttrID) -> NDArray[Any]:
    values: NDArray[Any] = np.empty(attribute.shape, attribute.dtype)
    attribute.read(values)
    return values


def _write(holder: h5py.Dataset, name: bytes, kind: h5py.h5t.TypeID, values: NDArray[Any]) -> None:
    if h5py.h5a.exists(holder.id, name):
        h5py.h5a.delete(holder.id, name)
    h5py.h5a.create(holder.id, name, kind, h5py.h5s.create_simple(values.shape)).write(values)


# NetCDF-4 numbers the dimensions of a file from 0 on: a dimension's scale has its own number, and a variable the
# numbers of its dimensions. Its library reads no file whose numbers have gaps ("Invalid dimension ID or name").
_OWN_ID, _IDS = "_Netcdf4Dimid", "_Netcdf4Coordinates"
ID_ATTRIBUTES = (_OWN_ID, _IDS)

# How the attribute NAME of a dimension begins that has no variable of its name: its dataset has no values.
_BARE = b"This is a netCDF dimension but not a netCDF variable"

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
        return f"NetCDF's classic model, which this file follows, has no groups, such as {group}"
    above = [scale for scale in scales if not f"{group}/".startswith(f"{scale.rpartition('/')[0]}/")]
    return f"the dimension {above[0]} would not be visible from {name}" if above else ""


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


def named_by(dataset: h5py.Dataset) -> Iterator[tuple[str, str, h5py.Dataset]]:
    """Each dataset that an attribute names: with the attribute, and the word for it."""
    for key in NAMING:
        for word in words(key, plain(dataset.attrs.get(key, ()))):
            if (item := named(dataset, word)) is not None:
                yield key, word, item


def dangling(carried: dict[h5py.Dataset, str]) -> list[str]:
    """A note for each attribute that names a dataset which is not copied.

    `carried` has the datasets that are carried over, each with its path in the new file.
    """
    left: dict[tuple[str, str], list[str]] = {}
    for dataset, path in carried.items():
        for key, word, item in named_by(dataset):
            if item not in carried:
                left.setdefault((path, key), []).append(word)
    return [
        f"{printable(path)}: the attribute {key} names {listed(found)}, not copied"
        for (path, key), found in left.items()
    ]


def _numbers(dataset: h5py.Dataset, key: str) -> list[int]:
    """The integers of an attribute; none where it does not exist, or holds something else."""
    if key not in dataset.attrs:
        return []
    values = np.asarray(dataset.attrs[key])
    return values.reshape(-1).tolist() if values.dtype.kind in "iu" else []


def named(dataset: h5py.Dataset, word: str) -> h5py.Dataset | None:
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


def record_history(file: h5py.File, line: str) -> list[str]:
    """Put a line for a command before those of the global attribute `history`; a note where it is no text, or full.

    Source: the NetCDF Users' Guide, appendix on attribute conventions; and what NCO and CDO write.
    """
    root = file["/"].id
    old = attribute_of(root, _HISTORY)
    if old is not None and not is_one_text(old):
        return ["the attribute history is not a single text, so no line is added"]
    text = b"\n".join(filter(None, [line.encode(), text_of(root, _HISTORY)]))
    if len(text) > _MOST_HISTORY:
        return [f"the attribute history would have {len(text):,} bytes, so no line is added"]
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
