"""The scales of a dataset's dimensions, which are datasets themselves.

They give the dimensions names and coordinates, and those of a file can be used by a new dataset.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import h5py
import numpy as np
from h5py import h5a, h5d, h5g
from numpy.typing import NDArray

from revseq_cli.core.errors import FormatError
from revseq_cli.formats.attributes import (
    ENCODING,
    Meaning,
    NoCoordinateError,
    Variable,
    as_texts,
    is_small,
    join_characters,
)
from revseq_cli.formats.hdf5.attribute_io import (
    DIMENSION_ID,
    DIMENSION_IDS,
    LABELS,
    has_netcdf_mark,
    is_bare,
    is_scale,
    read_attribute,
    read_neutral_attributes,
)
from revseq_cli.formats.hdf5.files import RAISED, require_own_values
from revseq_cli.formats.hdf5.filters import require_filters
from revseq_cli.formats.hdf5.links import dataset_in, groups_of, has_path, list_objects

# Texts to read before their lengths are added: many may share their bytes in the file.
_TEXTS_AT_ONCE = 8


def find_scales(dataset: h5py.Dataset, dimension: int) -> list[h5py.Dataset]:
    """The scales of a dimension, in their order; none if the references to them are damaged.

    h5py's `dims` is not used: it opens the files of a scale that is a virtual dataset.
    """
    with contextlib.suppress(*RAISED, FormatError, IndexError):
        if is_scale(dataset):
            scale = _find_scale_of_scale(dataset, dimension)
            if scale:
                return [scale]
        if "DIMENSION_LIST" in dataset.attrs:
            return _follow_references(dataset, dataset.attrs["DIMENSION_LIST"][dimension])
    return []


def _find_scale_of_scale(dataset: h5py.Dataset, dimension: int) -> h5py.Dataset | None:
    """The scale of a dimension of a dataset that is a scale itself, or None.

    A scale is that of its own first dimension, and HDF5 attaches no others to it. NetCDF notes the
    numbers of all its dimensions.
    """
    if dimension == 0:
        return dataset
    numbers = read_attribute(dataset, DIMENSION_IDS)
    if numbers is None:
        return None
    numbers = np.ravel(numbers)
    if len(numbers) != dataset.ndim:
        return None
    return _find_dimension(int(numbers[dimension]), dataset)


def _follow_references(dataset: h5py.Dataset, references: Iterable[Any]) -> list[h5py.Dataset]:
    """The other datasets of the file to which references lead."""
    scales = []
    for item in [dataset.file[reference] for reference in references]:
        if isinstance(item, h5py.Dataset):
            require_own_values(item.id, "scale")
            if item != dataset:
                scales.append(item)
    return scales


def _find_dimension(number: int, dataset: h5py.Dataset) -> h5py.Dataset | None:
    """The scale of the dimension with that number, which is visible from the dataset's group."""
    for group in reversed(groups_of(dataset)):
        for name in group:
            if not isinstance(name, str):
                continue
            # Damage to other datasets does not matter here.
            with contextlib.suppress(*RAISED, FormatError):
                scale = dataset_in(group, name)
                if scale is None or read_attribute(scale, DIMENSION_ID) != number:
                    continue
                if is_scale(scale):  # variables have such numbers, too
                    return scale
    return None


def read_dimension_names(dataset: h5py.Dataset) -> tuple[str, ...]:
    """The names of the dimensions, "" for one without a name; empty if none has one.

    A dimension's name is its label, as h5py sets it, or else the name of its first scale, as in
    NetCDF.
    """
    attributes = (b"CLASS", b"DIMENSION_LIST", LABELS.encode())
    if not any(h5a.exists(dataset.id, name) for name in attributes):
        return ()
    labels = read_attribute(dataset, LABELS)
    if isinstance(labels, str):
        labels = [labels]
    names = [""] * dataset.ndim
    if isinstance(labels, list) and len(labels) == dataset.ndim:
        names = labels
    for d, name in enumerate(names):
        if name:
            continue
        scales = find_scales(dataset, d)
        if scales:
            names[d] = _dimension_name_of(scales[0])
    if not any(names):
        return ()
    return tuple(names)


def _dimension_name_of(scale: h5py.Dataset) -> str:
    """The name of the dimension that a scale describes: its own name in its group."""
    return str(scale.name).rpartition("/")[2]


def is_netcdf_dataset(dataset: h5py.Dataset) -> bool:
    """Whether NetCDF wrote the dataset, by the mark of its file or the numbers of its scales."""
    if has_netcdf_mark(dataset.file):
        return True
    for d in range(dataset.ndim):
        for scale in find_scales(dataset, d):
            if DIMENSION_ID in scale.attrs:
                return True
    return False


def is_netcdf_file(file: h5py.File) -> bool:
    """Whether NetCDF wrote the file, by its mark or the number of any dimension."""
    return has_netcdf_mark(file) or bool(dimension_ids(file))


def dimension_ids(file: h5py.File) -> list[int]:
    """The numbers that NetCDF has given to the dimensions of a file."""
    ids = []
    for _, item in list_objects(h5g.open(file.id, b"/")):
        if isinstance(item, h5d.DatasetID):
            number = read_attribute(h5py.Dataset(item), DIMENSION_ID)
            if number is not None and np.ndim(number) == 0:
                ids.append(int(number))
    return ids


# Coordinates


def read_coordinate_of(dataset: h5py.Dataset, d: int, name: str) -> Variable | None:
    """The coordinate of a dimension of that name; None if the dimension has no variable."""
    try:
        scale = find_named_scale(dataset, d, name)
        if scale is None or is_bare(scale):
            return None
        sizes = scale.shape or ()
        if sizes[:1] != (dataset.shape[d],):
            raise NoCoordinateError
        return _read_coordinate(scale, name)
    except (*RAISED, FormatError):  # whoever asks for the scale itself gets the reason
        raise NoCoordinateError from None


def find_named_scale(dataset: h5py.Dataset, d: int, name: str) -> h5py.Dataset | None:
    """The scale of that name of a dimension, or else the dataset of that name in the same group."""
    named = [scale for scale in find_scales(dataset, d) if _dimension_name_of(scale) == name]
    scale = named[0] if named else dataset_in(dataset.parent, name)
    return None if scale == dataset else scale


def _read_coordinate(scale: h5py.Dataset, name: str) -> Variable:
    """The coordinate that a dataset holds; FormatError for one that is large, or no coordinate."""
    sizes = scale.shape or ()
    kind = scale.dtype.kind
    is_of_characters = scale.dtype == "S1" and len(sizes) == 2  # NetCDF's way
    is_text = kind == "S" or h5py.check_string_dtype(scale.dtype)
    rank = 2 if is_of_characters else 1
    is_of_values = kind in "biuf" or is_text
    if len(sizes) != rank or not is_of_values:
        raise FormatError("no coordinate")
    if not is_small(sizes, scale.dtype.itemsize, scale.chunks):
        raise FormatError("a large coordinate")
    require_filters(scale, name)
    attributes, _ = read_neutral_attributes(scale)
    values = _read_texts(scale) if kind == "O" else scale[()]
    if is_of_characters:
        attributes.pop(ENCODING, None)
        values = join_characters(values)
    if is_text:
        values = as_texts(values)
    return Variable(name, attributes, values)


def _read_texts(scale: h5py.Dataset) -> NDArray[Any]:
    """Texts of any lengths; FormatError if they are large, which only reading them shows."""
    texts: list[bytes] = []
    for start in range(0, scale.shape[0], _TEXTS_AT_ONCE):
        texts += scale[start : start + _TEXTS_AT_ONCE].tolist()
        if not is_small((sum(map(len, texts)),), 1):
            raise FormatError("large")
    return np.array(texts, object)


# Scales of a file that a new dataset in it can use, so that its dimensions are those of the file


def find_usable_scales(
    file: h5py.File, name: str, sizes: tuple[int, ...], meaning: Meaning
) -> dict[str, str]:
    """The paths of scales that a new dataset `name` can use, by the names of its dimensions.

    They are in its group or in one above it. Anything that has a dimension's name in its own group
    hides the scales of that name above, whether it fits or not.
    """
    group, _, own_name = name.rpartition("/")
    scales = {}
    coordinate_of = {variable.name: variable for variable in meaning.coordinates}
    for dimension, size in zip(meaning.dimensions, sizes, strict=False):
        if dimension in ("", own_name):
            continue
        candidates = [group]
        if not has_path(file, f"{group}/{dimension}"):
            candidates = _groups_above(group)
        for candidate in candidates:
            if _has_fitting_scale(file, candidate, dimension, size, coordinate_of.get(dimension)):
                scales[dimension] = f"{candidate}/{dimension}"
                break
    return scales


def _groups_above(path: str) -> list[str]:
    """The paths of the groups that a group is in, the innermost first, and "" for the root last."""
    groups = []
    while path:
        path = path.rpartition("/")[0]
        groups.append(path)
    return groups


def _has_fitting_scale(
    file: h5py.File, group: str, name: str, size: int, coordinate: Variable | None
) -> bool:
    """Whether a group has a scale with that name and size, and the values of the coordinate."""
    if not has_path(file, f"{group}/{name}"):
        return False
    scale = dataset_in(file[group or "/"], name)
    if scale is None or not is_scale(scale):
        return False
    if scale.shape[:1] != (size,):
        return False
    if coordinate is None or is_bare(scale):
        return True
    try:
        return coordinate.is_same_as(_read_coordinate(scale, name))
    except (*RAISED, FormatError):
        return False
