"""What HDF5 and NetCDF-4 files say of a dataset, to and from the neutral form.

A dimension is its scale: a dataset of the dimension's name, which NetCDF has also where there is no variable.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.core.errors import listed
from revseq_cli.formats.hdf5 import netcdf
from revseq_cli.formats.hdf5.files import RAISED, opened
from revseq_cli.formats.hdf5.library import h5py
from revseq_cli.formats.meaning import (
    ENCODING,
    FILL,
    TEXT_BYTES,
    Attributes,
    Meaning,
    Variable,
    as_fill,
    gathered,
    is_small,
    plain,
    typed,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Attributes that are about storage: of HDF5's scales, and of NetCDF's library.
_STORAGE = {
    "CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "DIMENSION_LABELS", "_Netcdf4Dimid", "_Netcdf4Coordinates",
    "_nc3_strict", "_NCProperties",
}  # fmt: skip


def attributes_of(item: h5py.HLObject) -> tuple[Attributes, list[str]]:
    """The attributes of a dataset or a group, and the names of those that have no place in the neutral form."""
    found, lost = Attributes(), []
    for name in item.attrs:
        if name in _STORAGE and (name != "CLASS" or netcdf.is_scale(item.id)):
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


def meaning_of(path: str, name: str, place: str, dtype: np.dtype[Any], dimensions: tuple[str, ...]) -> Meaning:
    """What the file says of the dataset at that place."""
    with opened(path, name) as file:
        dataset = file[place]
        given, lost = attributes_of(dataset)
        attributes = dict(given)
        fill = as_fill(stated := attributes.pop(FILL, None), dtype)
        lost += [FILL] * (fill is None and stated is not None)
        is_enumeration = dataset.id.get_type().get_class() == h5py.h5t.ENUM and dtype.kind != "b"
        lost += ["the names of its enumeration"] * is_enumeration
        grow = tuple(name for name, most in zip(dimensions, dataset.maxshape, strict=False) if name and most is None)
        attached = {
            scale.name.rpartition("/")[2]: scale
            for d in range(dataset.ndim)
            for scale in netcdf.scales_of(dataset, d)
            if scale.name
        }

        def find(word: str) -> Variable | None:
            item = attached.get(word) or netcdf.named(dataset, word)
            return None if item is None or item == dataset else _variable(path, name, item)

        own = Variable(dataset.name.rpartition("/")[2], dimensions, attributes, 0, lambda: np.empty(0))
        attributes, variables = gathered(own, find)
        groups: list[Attributes] = []
        group = dataset.parent
        while True:
            groups.insert(0, attributes_of(group)[0])
            if group.name == "/":
                break
            group = group.parent
    return Meaning(dimensions, attributes, fill, variables, tuple(groups), given, tuple(lost), grow)


def _variable(path: str, name: str, dataset: h5py.Dataset) -> Variable | None:
    """A dataset that goes with a tensor; None for a dimension alone, and for what is no numbers or text, or large."""
    if netcdf.is_bare_dimension(dataset.id) or dataset.shape is None or dataset.dtype.kind not in "biufSO":
        return None
    if dataset.dtype.kind == "O" and h5py.check_string_dtype(dataset.dtype) is None:
        return None
    if not is_small(dataset.shape, dataset.dtype.itemsize) or _is_elsewhere(dataset):
        return None
    dimensions, (attributes, _) = netcdf.names_of(dataset), attributes_of(dataset)
    if _is_of_characters(dataset):
        dimensions = dimensions[:-1]
        attributes.pop(ENCODING, None)
    read = functools.partial(_values, path, name, dataset.name)
    total = dataset.size * (TEXT_BYTES if dataset.dtype.kind == "O" else dataset.dtype.itemsize)
    return Variable(dataset.name.rpartition("/")[2], dimensions, attributes, total, read)


def _is_elsewhere(dataset: h5py.Dataset) -> bool:
    properties = dataset.id.get_create_plist()
    return any((properties.get_layout() == h5py.h5d.VIRTUAL, properties.get_external_count()))


def _is_of_characters(dataset: h5py.Dataset) -> bool:
    """Whether it is text in NetCDF's way: single characters, and a dimension for their number."""
    return all((dataset.dtype.kind == "S", dataset.dtype.itemsize == 1, dataset.ndim > 0))


def _values(path: str, name: str, place: str) -> NDArray[Any]:
    with opened(path, name) as file:
        dataset = file[place]
        values = np.asarray(dataset[()])
        if values.dtype.kind not in "SO":
            return values
        if _is_of_characters(dataset):
            values = np.ascontiguousarray(values).view(f"S{values.shape[-1]}")[..., 0]
    texts = [each.decode("utf-8", "replace") if isinstance(each, bytes) else each for each in values.reshape(-1)]
    return np.array(texts, object).reshape(values.shape)


def prepare(properties: h5py.h5p.PropDCID, meaning: Meaning, dtype: np.dtype[Any]) -> None:
    """Give a new dataset its fill value, and attributes that stay in order."""
    if meaning.attributes:
        properties.set_attr_creation_order(h5py.h5p.CRT_ORDER_TRACKED | h5py.h5p.CRT_ORDER_INDEXED)
    if meaning.fill is not None:
        properties.set_fill_value(np.array(meaning.fill, dtype))


def limits(meaning: Meaning, dimensions: tuple[str, ...], sizes: tuple[int, ...]) -> tuple[int | None, ...]:
    """The largest sizes that a new dataset can have: None for a dimension that can grow."""
    names = dimensions if len(dimensions) == len(sizes) else ("",) * len(sizes)
    return tuple(None if name in meaning.unlimited else size for name, size in zip(names, sizes, strict=True))


def write(dataset: h5py.Dataset, meaning: Meaning) -> list[str]:
    """Give a new dataset what the neutral form says of it, with the scales of its dimensions; notes on what it cannot.

    The new file has nothing but this dataset and the groups on its path.
    """
    group, notes = dataset.parent, [*meaning.notes(can_grow=True)]
    _write_groups(group, meaning)
    _write_attributes(dataset, typed(meaning.attributes, dataset.dtype), meaning.fill)
    made, lost = {dataset.name.rpartition("/")[2]: dataset}, []
    dimensions = {dataset: meaning.dimensions}
    for variable in meaning.variables:
        if variable.name in made or variable.name in group:
            lost.append(variable.name)
            continue
        made[variable.name] = new = _write_variable(group, variable, meaning)
        dimensions[new] = variable.dimensions
    _attach_scales(dimensions, made, meaning)
    return [*notes, *[f"not copied, since its name is taken: {listed(lost)}"] * bool(lost)]


def _attach_scales(
    dimensions: dict[h5py.Dataset, tuple[str, ...]], made: dict[str, h5py.Dataset], meaning: Meaning
) -> None:
    """Give each dimension of some datasets its scale: the one `made` for its name, or that of a dimension alone."""
    numbers: dict[str, int] = {}
    for each, names in dimensions.items():
        for d, name in enumerate(names[: each.ndim]):
            if name and name not in numbers:
                if name not in made:
                    made[name] = _bare(each.parent, name, each.shape[d], meaning)
                numbers[name] = _mark(made[name], len(numbers))
    for each, names in dimensions.items():
        if netcdf.is_scale(each.id):  # it has no scales, and names further dimensions by their numbers
            if each.ndim > 1 and all(names):
                each.attrs.create(netcdf.ID_ATTRIBUTES[1], np.array([numbers[name] for name in names], np.int32))
            continue
        for d, name in enumerate(names[: each.ndim]):
            if name:
                netcdf.attach(each, d, made[name])


def _write_groups(group: h5py.Group, meaning: Meaning) -> None:
    """The attributes of the groups on the path."""
    path = [group]
    while path[0].name != "/":
        path.insert(0, path[0].parent)
    for each, attributes in zip(path, meaning.groups, strict=False):
        _write_attributes(each, attributes)


def _write_variable(group: h5py.Group, variable: Variable, meaning: Meaning) -> h5py.Dataset:
    values, attributes = variable.read(), dict(variable.attributes)
    most = limits(meaning, variable.dimensions, values.shape)
    more = {"track_order": True} | ({"maxshape": most} if None in most else {})
    if values.dtype == object:
        attributes.pop(FILL, None)  # of text, which NetCDF has none for
        made = group.create_dataset(variable.name, data=values, dtype=h5py.string_dtype(), **more)
        _write_attributes(made, attributes)
        return made
    fill = as_fill(attributes.pop(FILL, None), values.dtype)
    made = group.create_dataset(variable.name, data=values, fillvalue=fill, **more)
    _write_attributes(made, typed(attributes, values.dtype), fill)
    return made


def _bare(group: h5py.Group, name: str, size: int, meaning: Meaning) -> h5py.Dataset:
    """The scale of a dimension that has no variable, as NetCDF's library makes it."""
    made = group.create_dataset(name, (size,), ">f4", maxshape=(None,) if name in meaning.unlimited else None)
    made.make_scale(f"This is a netCDF dimension but not a netCDF variable.{size:10d}")
    return made


def _mark(scale: h5py.Dataset, number: int) -> int:
    """Make it the scale of a dimension, with its number, if it is none yet."""
    if not netcdf.is_scale(scale.id):
        scale.make_scale(scale.name.rpartition("/")[2])
    scale.attrs.create(netcdf.ID_ATTRIBUTES[0], np.int32(number))
    return number


def _write_attributes(item: h5py.HLObject, attributes: Attributes, fill: Any = None) -> None:  # noqa: ANN401
    """Write attributes as NetCDF's library has them: texts of their length, and numbers in arrays."""
    if fill is not None:
        item.attrs.create(FILL, np.array([fill]))
    for name, value in attributes.items():
        if isinstance(value, list):
            item.attrs.create(name, np.array(value, object), dtype=h5py.string_dtype())
        elif isinstance(value, str):
            data = value.encode()
            is_plain = data and b"\0" not in data
            kind = h5py.string_dtype("ascii" if value.isascii() else "utf-8", len(data) if is_plain else None)
            item.attrs.create(name, data, dtype=kind)
        else:
            array = np.atleast_1d(value)
            item.attrs.create(name, array.astype("i1") if array.dtype.kind == "b" else array)
