"""Dimension scales of HDF5 datasets, read and written as attributes.

h5py's `dims` and `is_scale` call HDF5's own functions, which do not check the types of these attributes: one of another
type crashes the process, and a `CLASS` of a dataset that has scales makes them fail.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.formats.hdf5 import types
from revseq_cli.formats.hdf5.files import RAISED
from revseq_cli.formats.hdf5.library import h5py

if TYPE_CHECKING:
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
