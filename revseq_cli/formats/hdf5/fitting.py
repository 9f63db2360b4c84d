"""Scales of a file that fit a new dataset in it, so that its dimensions are those of the file."""

from __future__ import annotations

from dataclasses import dataclass

import h5py

from revseq_cli.core.errors import FormatError
from revseq_cli.formats.attributes import Meaning, Variable
from revseq_cli.formats.hdf5.attributes import is_bare, is_scale
from revseq_cli.formats.hdf5.files import RAISED
from revseq_cli.formats.hdf5.links import dataset_in, has_path
from revseq_cli.formats.hdf5.source import read_coordinate


@dataclass(frozen=True)
class UsableScale:
    """A scale that a new dataset can use; `limit` is its largest size, or None without one."""

    path: str
    limit: int | None


def find_usable_scales(
    file: h5py.File, name: str, sizes: tuple[int, ...], meaning: Meaning
) -> dict[str, UsableScale]:
    """The scales that a new dataset `name` can use, by the names of its dimensions.

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
            scale = _find_scale_in(file, candidate, dimension, size, coordinate)
            if scale is not None:
                scales[dimension] = scale
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


def _find_scale_in(
    file: h5py.File, group: str, name: str, size: int, coordinate: Variable | None
) -> UsableScale | None:
    """The scale in a group with that name and size, and the coordinate's values; or None."""
    path = f"{group}/{name}"
    if not has_path(file, path):
        return None
    scale = dataset_in(file[group or "/"], name)
    if scale is None or not is_scale(scale):
        return None
    if scale.shape[:1] != (size,):
        return None
    if coordinate and not is_bare(scale):
        try:
            other = read_coordinate(scale, name)
        except (*RAISED, FormatError):
            return None
        if not coordinate.is_same_as(other):
            return None
    return UsableScale(path, scale.maxshape[0])
