"""Scales of a file that fit a new dataset in it, so that its dimensions are those of the file."""

from __future__ import annotations

import h5py

from revseq_cli.core.errors import FormatError
from revseq_cli.formats.attributes import Meaning, Variable
from revseq_cli.formats.hdf5.attributes import is_bare, is_scale
from revseq_cli.formats.hdf5.files import RAISED
from revseq_cli.formats.hdf5.links import dataset_in, has_path
from revseq_cli.formats.hdf5.source import read_coordinate


def find_usable_scales(
    file: h5py.File, name: str, sizes: tuple[int, ...], meaning: Meaning
) -> dict[str, str]:
    """The paths of scales that a new dataset `name` can use, by the names of its dimensions.

    They are in its group or in one above it. What has a dimension's name in its own group, and does
    not fit, hides scales above.
    """
    group, _, own_name = name.rpartition("/")
    scales = {}
    for dimension, size in zip(meaning.dimensions, sizes, strict=False):
        if dimension in ("", own_name):
            continue
        groups = [group]
        if not has_path(file, f"{group}/{dimension}"):
            groups = _groups_above(group)
        coordinate = find_coordinate(meaning, dimension)
        for candidate in groups:
            if _has_fitting_scale(file, candidate, dimension, size, coordinate):
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


def find_coordinate(meaning: Meaning, name: str) -> Variable | None:
    """The coordinate of the dimension of that name, or None."""
    for coordinate in meaning.coordinates:
        if coordinate.name == name:
            return coordinate
    return None


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
        return coordinate.is_same_as(read_coordinate(scale, name))
    except (*RAISED, FormatError):
        return False
