"""The scales of a dataset's dimensions, which are datasets themselves, and the names they give."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import h5py
import numpy as np
from h5py import h5a, h5d, h5g

from revseq_cli.core.errors import FormatError
from revseq_cli.formats.hdf5.attributes import (
    DIMENSION_ID,
    DIMENSION_IDS,
    LABELS,
    has_netcdf_mark,
    is_scale,
    read_attribute,
)
from revseq_cli.formats.hdf5.files import RAISED, require_own_values
from revseq_cli.formats.hdf5.links import dataset_in, groups_of, list_objects


def find_scales(dataset: h5py.Dataset, dimension: int) -> list[h5py.Dataset]:
    """The scales of a dimension, in their order; none where the references to them are damaged.

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

    HDF5 attaches no scales to a scale, which is that of its own first dimension. NetCDF says by
    numbers which are those of its other dimensions.
    """
    if dimension == 0:
        return dataset
    numbers = np.ravel(read_attribute(dataset, DIMENSION_IDS))
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
    for group in groups_of(dataset):
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
            names[d] = dimension_name_of(scales[0])
    if not any(names):
        return ()
    return tuple(names)


def dimension_name_of(scale: h5py.Dataset) -> str:
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
