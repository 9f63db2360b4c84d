"""New HDF5 datasets, which are created before their values are written.

A dataset is in a file of its own, in a copy of the output's own file, or in a copy of INPUT's file.
The first two are here. They get what the neutral form says of the tensor, and the scales of their
dimensions are made as by NetCDF's library.
"""

from __future__ import annotations

import contextlib
import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import h5py
import numpy as np
from h5py import h5d, h5g, h5i, h5p, h5s, h5t

from revseq_cli.core.errors import UsageError
from revseq_cli.formats.attributes import NOTHING, Meaning, fill_of
from revseq_cli.formats.contract import Original, Source
from revseq_cli.formats.hdf5.attributes import (
    BARE,
    DIMENSION_ID,
    DIMENSION_IDS,
    is_scale,
)
from revseq_cli.formats.hdf5.files import (
    encode_name,
    open_dataset,
    open_hdf5,
    require_own_values,
)
from revseq_cli.formats.hdf5.fitting import find_coordinate, find_usable_scales
from revseq_cli.formats.hdf5.links import (
    NOT_COORDINATE,
    groups_of,
    has_path,
    open_member,
    stored_name,
)
from revseq_cli.formats.hdf5.new_attributes import add_history, copy_attributes, widen_float16
from revseq_cli.formats.hdf5.properties import Limits, choose_limits, make_properties
from revseq_cli.formats.hdf5.scales import dimension_ids, find_scales, is_netcdf_file
from revseq_cli.formats.hdf5.source import Hdf5Source, find_named_scale
from revseq_cli.formats.hdf5.types import make_type
from revseq_cli.formats.refusals import make_dimension_error, make_name_taken_error
from revseq_cli.formats.table import has_netcdf_suffix

# The file format since HDF5 1.8 of 2008: in older ones, an attribute has at most 64 KiB.
_VERSIONS = ("v108", "latest")


class NewDataset(ABC):
    """A new dataset `name` for a tensor like `template`, in a file that messages call `where`.

    `properties` are those of its creation. `options` are those with which h5py opens the file.
    `original` is the file that it is a copy of, or None. With `is_raw`, workers write elements at
    their offset without HDF5. `left_out` says what the dataset does not keep of the tensor.
    """

    options: dict[str, Any]
    original: Original | None = None
    is_raw: bool
    left_out: tuple[str, ...] = ()

    def __init__(self, name: str, template: Source, where: str, properties: h5p.PropDCID) -> None:
        self.name = name
        self.template = template
        self.where = where
        self.properties = properties

    @abstractmethod
    def create_in(self, file: h5py.File) -> tuple[h5py.Dataset, list[str]]:
        """The dataset without its new values, and notes."""


@dataclass(frozen=True)
class _Names:
    """The names that a new dataset and the scales of its dimensions get in their group.

    A dimension without a scale has "". A coordinate is itself the scale of its first dimension.
    """

    dataset: str
    scales: list[str]
    is_coordinate: bool


class _DescribedDataset(NewDataset):
    """A dataset that gets what the neutral form says of the tensor: its attributes and scales.

    `own_scales` are the paths of scales in the file that it uses, by the names of its dimensions.
    For the other names, scales are created. With `for_netcdf`, NetCDF's library can read all of it.
    """

    def __init__(
        self,
        name: str,
        template: Source,
        where: str,
        meaning: Meaning,
        limits: Limits,
        own_scales: dict[str, str],
        *,
        for_netcdf: bool,
    ) -> None:
        super().__init__(name, template, where, make_properties(template, meaning, limits))
        self.limits = limits
        self.meaning = meaning
        self.left_out = meaning.left
        self.own_scales = own_scales
        self.for_netcdf = for_netcdf
        self.hdf5_input = template if isinstance(template, Hdf5Source) else None
        is_contiguous = self.properties.get_layout() == h5d.CONTIGUOUS
        self.is_raw = is_contiguous and prod(template.sizes) > 0

    def _create_dataset(self, file: h5py.File, names: _Names) -> h5py.Dataset:
        """The dataset without attributes and scales."""
        group = self.name.rpartition("/")[0]
        limits = tuple(h5s.UNLIMITED if limit is None else limit for limit in self.limits)
        space = h5s.create_simple(self.template.sizes, limits)
        kind = make_type(self.template.dtype)
        return create_dataset(file, f"{group}/{names.dataset}", kind, space, self.properties)

    @contextlib.contextmanager
    def _open_input(self) -> Iterator[h5py.Dataset | None]:
        """INPUT's dataset, for attributes that keep their types.

        None where INPUT is not HDF5, and for NetCDF, whose library does not read all types.
        """
        if self.hdf5_input is None or self.for_netcdf:
            yield None
            return
        with open_hdf5(self.hdf5_input.path, self.hdf5_input.name) as file:
            yield open_dataset(file, self.hdf5_input.hard_path, self.hdf5_input.name)

    # Names

    def _choose_names(self, file: h5py.File) -> _Names:
        """The names of the dataset and of its scales, before they are in the file.

        A dataset that has the name of its first dimension is a coordinate, if all dimensions have
        scales. One that has the name of a dimension, and is no coordinate, gets a prefix as in
        NetCDF. In other HDF5 files, where only h5netcdf would understand the prefix, that
        dimension gets no scale.
        """
        name = self.name.rpartition("/")[2]
        scales = self._name_scales(file)
        if scales[:1] == [name] and all(scales):
            return _Names(name, scales, is_coordinate=True)
        if name in scales and self.for_netcdf:
            name = NOT_COORDINATE + name
        elif name in scales:
            scales = ["" if scale == name else scale for scale in scales]
        if self.for_netcdf and any(scales):
            _name_all_scales(scales, name)
        return _Names(name, scales, is_coordinate=False)

    def _name_scales(self, file: h5py.File) -> list[str]:
        """The name of each dimension whose scale can have it in the file, and "" for the others."""
        group = self.name.rpartition("/")[0]
        size_of = dict[str, int]()
        names = []
        for name, size in zip(self.meaning.dimensions, self.template.sizes, strict=False):
            # Dimensions of one name and two sizes cannot share a scale.
            can_be_used = _is_link_name(name) and size_of.setdefault(name, size) == size
            if can_be_used and name not in self.own_scales:
                can_be_used = not has_path(file, f"{group}/{name}")
            names.append(name if can_be_used else "")
        self._drop_labels(names)
        return names

    def _drop_labels(self, names: list[str]) -> None:
        """Clear the names that are only labels in INPUT, which need no dataset."""
        coordinates = {variable.name for variable in self.meaning.coordinates}
        with self._open_input() as input_dataset:
            if input_dataset is None:
                return
            for d, name in enumerate(names):
                if name not in coordinates and not find_scales(input_dataset, d):
                    names[d] = ""

    # Attributes and scales

    def _describe_dataset(
        self, dataset: h5py.Dataset, names: _Names, input_dataset: h5py.Dataset | None
    ) -> None:
        """Give the dataset its scales, and then its attributes, with their types in INPUT.

        The scales come first, since HDF5 attaches none to a dataset with an attribute CLASS. A
        coordinate is a scale, and has a CLASS of its own.
        """
        self._attach_scales(dataset, names, input_dataset)
        attributes = dict(self.meaning.attributes)
        if names.is_coordinate:
            attributes.pop("CLASS", None)
        copy_attributes(dataset, attributes, input_dataset, self.template.dtype)

    def _attach_scales(
        self, dataset: h5py.Dataset, names: _Names, input_dataset: h5py.Dataset | None
    ) -> None:
        """Attach its scale to each dimension.

        A dimension whose scale has another name, or that has none, gets its name as a label.
        """
        scales = self._open_scales(dataset, names, input_dataset)
        if names.is_coordinate:  # a scale has no scales
            _number_dimensions(dataset, [scales[name] for name in names.scales])
            return
        for d, name in enumerate(self.meaning.dimensions):
            scale_name = names.scales[d]
            if scale_name:
                dataset.dims[d].attach_scale(scales[scale_name])
            can_be_label = name != "" and name.isprintable()
            if can_be_label and name != scale_name:
                dataset.dims[d].label = name

    def _open_scales(
        self, dataset: h5py.Dataset, names: _Names, input_dataset: h5py.Dataset | None
    ) -> dict[str, h5py.Dataset]:
        """The scales by their names: the dataset itself, those of the file, and new ones."""
        scales = dict[str, h5py.Dataset]()
        new_scales = []
        if names.is_coordinate:
            dataset.make_scale(names.scales[0])
            scales[names.scales[0]] = dataset
            new_scales.append(dataset)
        for d, name in enumerate(names.scales):
            if not name or name in scales:
                continue
            if name in self.own_scales:
                scales[name] = open_dataset(dataset.file, self.own_scales[name], self.where)
                continue
            scales[name] = self._create_scale(dataset, d, name, input_dataset)
            new_scales.append(scales[name])
        first_id = max(dimension_ids(dataset.file), default=-1) + 1
        for number, scale in enumerate(new_scales, first_id):
            scale.attrs.create(DIMENSION_ID, np.int32(number))
        return scales

    def _create_scale(
        self, dataset: h5py.Dataset, d: int, name: str, input_dataset: h5py.Dataset | None
    ) -> h5py.Dataset:
        """A new scale for a dimension: its coordinate, or one without values, as in NetCDF."""
        options: dict[str, Any] = {"track_order": True}
        if self.limits[d] is None:
            options["maxshape"] = (None,)
        group = dataset.parent
        coordinate = find_coordinate(self.meaning, name)
        if coordinate is None:
            size = dataset.shape[d]
            scale = group.create_dataset(name, (size,), ">f4", **options)
            scale.make_scale(f"{BARE}{size:10d}")
            return scale
        values = widen_float16(coordinate.values)
        if values.dtype == object:
            options["dtype"] = h5py.string_dtype()
        fill = fill_of(coordinate.attributes, values.dtype)
        scale = group.create_dataset(name, data=values, fillvalue=fill, **options)
        input_scale = find_named_scale(input_dataset, d, name) if input_dataset else None
        copy_attributes(scale, coordinate.attributes, input_scale, values.dtype)
        scale.make_scale(name)
        return scale


class OwnDataset(_DescribedDataset):
    """A dataset in a new file of its own, whose groups are described, too."""

    def __init__(self, name: str, template: Source, where: str) -> None:
        meaning = (template.meaning() or NOTHING).without_pointers()
        for_netcdf = has_netcdf_suffix(where)
        limits = choose_limits(template, meaning)
        super().__init__(name, template, where, meaning, limits, {}, for_netcdf=for_netcdf)
        # NetCDF's library opens a file for writing only if all groups remember the order of their
        # links.
        tracks = for_netcdf or bool(meaning.dimensions)
        self.options = {"mode": "w", "libver": _VERSIONS, "track_order": tracks}

    def create_in(self, file: h5py.File) -> tuple[h5py.Dataset, list[str]]:
        names = self._choose_names(file)
        dataset = self._create_dataset(file, names)
        with self._open_input() as input_dataset:
            self._describe_groups(dataset, input_dataset)
            self._describe_dataset(dataset, names, input_dataset)
        notes = add_history(file) if self.for_netcdf else []
        return dataset, notes

    def _describe_groups(self, dataset: h5py.Dataset, input_dataset: h5py.Dataset | None) -> None:
        """Give the file and the groups above the dataset the attributes of those of INPUT.

        The files correspond, and so do the groups from the innermost on; one of the files may have
        fewer groups.
        """
        if not self.meaning.groups:
            return
        root, *inner = self.meaning.groups
        input_groups: Sequence[h5py.Group | None] = [None] * len(self.meaning.groups)
        if input_dataset:
            input_groups = groups_of(input_dataset)
        *input_inner, input_root = input_groups
        copy_attributes(dataset.file, root, input_root)
        new_inner = groups_of(dataset)[:-1]
        corresponding = zip(new_inner, reversed(inner), input_inner, strict=False)
        for group, attributes, input_group in corresponding:
            copy_attributes(group, attributes, input_group)


class AddedDataset(_DescribedDataset):
    """A dataset in a copy of the output's own file, next to all that is there.

    It uses the scales of the file that fit it. It may replace a dataset of its name, whose space in
    the file is used again.
    """

    original: Original

    def __init__(self, name: str, template: Source, where: str, original: Original) -> None:
        with open_hdf5(original.path, where, original.identity) as file:
            for_netcdf = has_netcdf_suffix(where) or is_netcdf_file(file)
            _require_free_or_replaceable(file, name, original, where)
            meaning = (template.meaning() or NOTHING).without_pointers()
            scales = find_usable_scales(file, name, template.sizes, meaning)
            if for_netcdf:
                _refuse_other_dimensions(file, name, meaning, scales, where)
            limits = list(choose_limits(template, meaning))
            for d, dimension in enumerate(meaning.dimensions):
                if dimension in scales:
                    limits[d] = open_dataset(file, scales[dimension], where).maxshape[0]
        super().__init__(
            name, template, where, meaning, tuple(limits), scales, for_netcdf=for_netcdf
        )
        self.original = original
        self.options = {"mode": "r+", "libver": _VERSIONS}

    def create_in(self, file: h5py.File) -> tuple[h5py.Dataset, list[str]]:
        old = find_old_dataset(file, self.name, self.original)
        if old is not None:
            for d in range(old.ndim):
                for scale in find_scales(old, d):
                    old.dims[d].detach_scale(scale)
            file.id.unlink(h5i.get_name(old.id))
        names = self._choose_names(file)
        dataset = self._create_dataset(file, names)
        with self._open_input() as input_dataset:
            self._describe_dataset(dataset, names, input_dataset)
        notes = add_history(file) if self.for_netcdf else []
        return dataset, notes


def _is_link_name(name: str) -> bool:
    """Whether HDF5 can have a link of that name, and users can see it."""
    return name.isprintable() and "/" not in name and name not in ("", ".", "..")


def _name_all_scales(names: list[str], taken: str) -> None:
    """Give free names to the dimensions that have none.

    NetCDF's library opens no file where only some of a variable's dimensions have scales.
    """
    used = {*names, taken}
    free_names = (name for name in map("dim_{}".format, itertools.count()) if name not in used)
    for d, name in enumerate(names):
        if not name:
            names[d] = next(free_names)


def _number_dimensions(dataset: h5py.Dataset, scales: Sequence[h5py.Dataset]) -> None:
    """Say in a scale of several dimensions which their scales are, where NetCDF numbers them."""
    ids = [scale.attrs.get(DIMENSION_ID) for scale in scales]
    if len(ids) > 1 and None not in ids:
        dataset.attrs.create(DIMENSION_IDS, np.array(ids, np.int32))


def _require_free_or_replaceable(
    file: h5py.File, name: str, original: Original, where: str
) -> None:
    """UsageError for a path that a new dataset cannot have, or one that may not be replaced."""
    if name.count("/") > 1:
        refuse_groups_of_classic_model(file, where)
    old = find_old_dataset(file, name, original)
    if old is None:
        return
    original.require_replaceable(name)
    if is_scale(old):
        found = "holds a dimension of the file, which other datasets may use"
        raise UsageError(found, "another name", where=f"{where}::{name}")


def _refuse_other_dimensions(
    file: h5py.File, name: str, meaning: Meaning, scales: dict[str, str], where: str
) -> None:
    """UsageError where a dimension cannot have its scale, since something else has its name."""
    group, _, own_name = name.rpartition("/")
    for dimension in meaning.dimensions:
        if dimension in ("", own_name) or dimension in scales:
            continue
        if has_path(file, f"{group}/{dimension}"):
            raise make_dimension_error(dimension, f"{where}::{name}")


# What else is in the file


def find_old_dataset(file: h5py.File, name: str, original: Original) -> h5py.Dataset | None:
    """The dataset at that path, or None; UsageError if something else is there or on the way."""
    item = h5g.open(file.id, b"/")
    path = ""
    for part in name.strip("/").split("/"):
        if not isinstance(item, h5g.GroupID):
            raise _refuse_other_object(path, original)
        link = stored_name(item, part)
        path = f"{path}/{link}"
        if not item.links.exists(encode_name(link)):
            return None
        item = open_member(item, link)
    if not isinstance(item, h5d.DatasetID):
        raise _refuse_other_object(path, original)
    return h5py.Dataset(require_own_values(item, f"{original.path}::{name}"))


def _refuse_other_object(path: str, original: Original) -> UsageError:
    """The error for a new dataset where the file has something else at that path."""
    if original.is_input:
        return make_name_taken_error(path, original.path)
    return UsageError(f"has something else at {path}", "a name that is free", where=original.path)


def refuse_groups_of_classic_model(file: h5py.File, where: str) -> None:
    """UsageError for a file that follows NetCDF's classic model."""
    if "_nc3_strict" in file.attrs:
        found = "NetCDF's classic model, which this file follows, has no groups"
        raise UsageError(found, "a name without /", where=where)


def create_dataset(
    file: h5py.File, path: str, kind: h5t.TypeID, space: h5s.SpaceID, properties: h5p.PropDCID
) -> h5py.Dataset:
    """A new dataset; groups above it that are missing are created, too."""
    group = file["/"]
    tracks = group.id.get_create_plist().get_link_creation_order() != 0 or None
    *parents, name = path.strip("/").split("/")
    for part in parents:
        group = group[part] if part in group else group.create_group(part, track_order=tracks)
    dataset = h5py.Dataset(h5d.create(group.id, None, kind, space, properties))
    group[name] = dataset  # a name in UTF-8
    return dataset
