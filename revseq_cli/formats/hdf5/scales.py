"""Names of dimensions: HDF5's scales and labels, and what NetCDF-4 makes of them.

A dimension is a dataset of its name, which NetCDF has also where there is no variable. A variable that has the name of
a dimension and is not its coordinate lies under another name, behind `NOT_COORDINATE`. Sources: the HDF5 High Level
specification of dimension scales; libhdf5/nc4hdf.c of netCDF-C.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from revseq_cli.core.errors import FormatError
from revseq_cli.formats.hdf5 import types
from revseq_cli.formats.hdf5.files import RAISED, checked
from revseq_cli.formats.meaning import Attributes, plain

if TYPE_CHECKING:
    from numpy.typing import NDArray

NOT_COORDINATE = "_nc4_non_coord_"
# NetCDF-4 numbers the dimensions of a file from 0 on: a dimension's scale has its own number, and a variable the
# numbers of its dimensions. A scale of several dimensions names the further ones in no other way.
OWN_ID, IDS = "_Netcdf4Dimid", "_Netcdf4Coordinates"
# How the attribute NAME of a dimension begins that has no variable of its name: its dataset has no values.
BARE = "This is a netCDF dimension but not a netCDF variable."
_SCALES, _LABELS, _CLASS = b"DIMENSION_LIST", b"DIMENSION_LABELS", b"CLASS"
_REFERENCES = h5py.vlen_dtype(h5py.ref_dtype)
# Attributes that are about storage: of HDF5's scales, and of NetCDF's library.
STORAGE = {
    "CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "DIMENSION_LABELS", OWN_ID, IDS, "_nc3_strict",
    "_NCProperties",
}  # fmt: skip


def attributes_of(item: h5py.HLObject) -> tuple[Attributes, list[str]]:
    """The attributes of a dataset or a group, and the names of those that have no place in the neutral form."""
    found, lost = Attributes(), []
    for name in item.attrs:
        if name in STORAGE and (name != "CLASS" or is_scale(item.id)):
            continue
        try:
            value = item.attrs[name]
            value = "" if isinstance(value, h5py.Empty) and value.dtype.kind == "S" else plain(value)
        except RAISED:
            value = None
        if value is None:
            lost.append(name)
        else:
            found[name] = value
    return found, lost


def text_of(item: h5py.h5o.ObjectID, name: bytes) -> bytes:
    """The text of an attribute, without padding; b"" where there is none, or it is no text, or not one."""
    if not h5py.h5a.exists(item, name):
        return b""
    attribute = h5py.h5a.open(item, name)
    kind, space = attribute.get_type(), attribute.get_space()
    if not isinstance(kind, h5py.h5t.TypeStringID) or space.get_simple_extent_npoints() != 1:
        return b""
    padding = b"\0 " if kind.get_strpad() == h5py.h5t.STR_SPACEPAD else b"\0"
    return bytes(_values(attribute).reshape(-1)[0] or b"").rstrip(padding)


def is_scale(dataset: h5py.h5d.DatasetID) -> bool:
    """Whether the dataset has the attribute that marks a dimension's scale."""
    return text_of(dataset, _CLASS) == b"DIMENSION_SCALE"


def is_bare(dataset: h5py.h5d.DatasetID) -> bool:
    """Whether a scale is a dimension that has no variable, and so no values."""
    return text_of(dataset, b"NAME").startswith(BARE.encode())


def is_netcdf(dataset: h5py.Dataset) -> bool:
    """Whether NetCDF wrote the dataset's file: by a mark that it has since 2016, or by the number of a dimension."""
    if any(name in dataset.file.attrs for name in ("_NCProperties", "_nc3_strict")):
        return True
    with contextlib.suppress(*RAISED):  # damage there matters only where it is asked for
        return any(OWN_ID in scale.attrs for d in range(dataset.ndim) for scale in scales_of(dataset, d))
    return False


def scales_of(dataset: h5py.Dataset, dimension: int) -> list[h5py.Dataset]:
    """The scales of that dimension, in their order; references to anything but a dataset of the file are skipped.

    A scale is that of its first dimension, and may name those of others by their numbers. Other datasets that refer to
    themselves are damaged, and have none there.
    """
    if is_scale(dataset.id):
        if dimension == 0:
            return [dataset]
        numbers = numbers_of(dataset, IDS)
        if len(numbers) == dataset.ndim and (scale := _scale_of(numbers[dimension], dataset)):
            return [scale]
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
        names = labels_of(dataset)
        for d, name in enumerate(names):
            names[d] = name or next((_last_part(scale) for scale in scales_of(dataset, d)), "")
    inner = types.inner_sizes(dataset.id.get_type())
    return (*names, *("",) * len(inner)) if any(names) else ()


def labels_of(dataset: h5py.Dataset) -> list[str]:
    """The label of each dimension, "" for one without."""
    none = [""] * dataset.id.rank
    if not h5py.h5a.exists(dataset.id, _LABELS):
        return none
    attribute = h5py.h5a.open(dataset.id, _LABELS)
    if attribute.shape != (len(none),) or not isinstance(attribute.get_type(), h5py.h5t.TypeStringID):
        return none
    return [bytes(label or b"").rstrip(b"\0").decode("utf-8", "replace") for label in _values(attribute)]


def numbers_of(dataset: h5py.Dataset, key: str) -> list[int]:
    """The integers of an attribute; none where it does not exist, or holds something else."""
    if key not in dataset.attrs:
        return []
    values = np.asarray(dataset.attrs[key])
    return values.reshape(-1).tolist() if values.dtype.kind in "iu" else []


def _scale_of(number: int, dataset: h5py.Dataset) -> h5py.Dataset | None:
    """The scale of the dimension with that number, which is visible from the dataset's group."""
    group = dataset.parent
    while True:
        for name in _datasets_in(group):
            if h5py.h5a.exists(group.id, OWN_ID.encode(), obj_name=name):
                scale = h5py.Dataset(checked(h5py.h5d.open(group.id, name), dataset.name))
                if is_scale(scale.id) and numbers_of(scale, OWN_ID) == [number]:  # variables have such a number, too
                    return scale
        if group.name == "/":
            return None
        group = group.parent


def _datasets_in(group: h5py.Group) -> list[bytes]:
    """The names of the datasets that hard links of a group lead to."""
    links: list[bytes] = []
    group.id.links.iterate(
        lambda name, link: links.append(name) if link.type == h5py.h5l.TYPE_HARD else None, info=True
    )
    found = []
    for name in links:
        with contextlib.suppress(*RAISED):  # damage there matters only where it is asked for
            if h5py.h5o.get_info(group.id, name).type == h5py.h5o.TYPE_DATASET:
                found.append(name)
    return found


def _last_part(scale: h5py.Dataset) -> str:
    return (scale.name or "").rpartition("/")[2]


def _references(dataset: h5py.Dataset) -> NDArray[Any]:
    """For each dimension, the references to its scales; none where the attribute has not the type that HDF5 writes."""
    none = np.empty(dataset.id.rank, _REFERENCES)
    for i in range(len(none)):
        none[i] = np.empty(0, h5py.ref_dtype)
    if not h5py.h5a.exists(dataset.id, _SCALES):
        return none
    attribute = h5py.h5a.open(dataset.id, _SCALES)
    kind = attribute.get_type()
    if attribute.shape != none.shape or not isinstance(kind, h5py.h5t.TypeVlenID):
        return none
    return _values(attribute) if kind.get_super().equal(h5py.h5t.STD_REF_OBJ) else none


def _dataset(reference: h5py.Reference, holder: h5py.Dataset) -> h5py.Dataset | None:
    if not reference:
        return None
    try:
        item = h5py.h5r.dereference(reference, holder.id)
        return h5py.Dataset(checked(item, "scale")) if isinstance(item, h5py.h5d.DatasetID) else None
    except (*RAISED, FormatError):  # the dataset was deleted, or lies in another file
        return None


def _values(attribute: h5py.h5a.AttrID) -> NDArray[Any]:
    values: NDArray[Any] = np.empty(attribute.shape, attribute.dtype)
    attribute.read(values)
    return values
