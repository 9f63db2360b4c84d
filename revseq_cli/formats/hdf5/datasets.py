"""Datasets of new HDF5 files, which are created before their values are written.

A dataset is in a file of its own, in a copy of INPUT's file, or in a copy of the output's own file.
One that is not a copy of INPUT's gets what the neutral form says of it, and the scales of its
dimensions are made as by NetCDF's library.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from math import prod
from typing import Any, NamedTuple

import h5py
import numpy as np
from h5py import h5d, h5g, h5i, h5l, h5o, h5p, h5s, h5t

from revseq_cli.core import platform, signals
from revseq_cli.core.errors import FormatError, UsageError, join_names, printable, shorten
from revseq_cli.formats.attributes import NOTHING, Attributes, Variable, fill_of, fit_types
from revseq_cli.formats.contract import Original, Source
from revseq_cli.formats.hdf5 import files, storage
from revseq_cli.formats.hdf5.files import RAISED, open_dataset, open_hdf5
from revseq_cli.formats.hdf5.source import Hdf5Source, find_named_scale, read_coordinate
from revseq_cli.formats.hdf5.storage import take_filters
from revseq_cli.formats.refusals import dimension_conflict, name_taken
from revseq_cli.formats.table import is_netcdf

# The file format since HDF5 1.8 of 2008: in older ones, an attribute has at most 64 KiB.
_VERSIONS = ("v108", "latest")
_NO_COMPRESSION = {"", "bytes", "transpose", "crc32c"}  # codecs of Zarr
_LONGEST_COMMAND = 1000  # characters of a command in the history; it may have a tensor as text
_MOST_HISTORY = 60_000  # bytes; in older versions of the file format, 64 KiB are too many


class NewDataset(ABC):
    """A new dataset `name` for a tensor like `template`, in a file that messages call `where`.

    `options` are those with which h5py opens the file. `original` is the file that it is a copy of,
    or None. `properties` are those of the dataset's creation. With `is_raw`, workers write elements
    at their offset without HDF5. `left_out` says what the dataset does not keep of the tensor.
    """

    name: str
    template: Source
    where: str
    options: dict[str, Any]
    original: Original | None
    properties: h5p.PropDCID
    is_raw: bool
    left_out: tuple[str, ...] = ()

    @abstractmethod
    def create_in(self, file: h5py.File) -> tuple[h5py.Dataset, list[str]]:
        """The dataset without its new values, and notes."""


class OwnDataset(NewDataset):
    """A dataset in a new file of its own, with what the neutral form says of the tensor."""

    original: Original | None = None

    def __init__(self, name: str, template: Source, where: str) -> None:
        self.name = name
        self.template = template
        self.where = where
        self.meaning = (template.meaning() or NOTHING).without_pointers()
        self.left_out = self.meaning.left
        self.is_netcdf = is_netcdf(where)
        # NetCDF's library opens a file for writing only if all groups remember the order of their
        # links.
        tracks = True if self.is_netcdf or self.meaning.dimensions else None
        self.options = {"mode": "w", "libver": _VERSIONS, "track_order": tracks}
        self.like = template if isinstance(template, Hdf5Source) else None
        self.limits = self._choose_limits()
        self.properties = self._make_properties()
        is_contiguous = self.properties.get_layout() == h5d.CONTIGUOUS
        self.is_raw = is_contiguous and prod(template.sizes) > 0

    def _choose_limits(self) -> tuple[int | None, ...]:
        """The largest sizes that the dataset can have; None for a dimension without a limit."""
        if self.like:
            limits: tuple[int | None, ...] = self.like.limits
            return limits
        sizes = self.template.sizes
        names = self.meaning.dimensions or [""] * len(sizes)
        own_limits = list[int | None](sizes)
        for d, name in enumerate(names):
            if name in self.meaning.unlimited:
                own_limits[d] = None
        return tuple(own_limits)

    def _make_properties(self) -> h5p.PropDCID:
        """The properties of its creation: chunks, filters, and the fill value."""
        properties = h5p.create(h5p.DATASET_CREATE)
        properties.set_obj_track_times(False)  # so that the same job gives the same bytes
        properties.set_attr_creation_order(h5p.CRT_ORDER_TRACKED | h5p.CRT_ORDER_INDEXED)
        chunks = self._choose_chunks()
        if chunks:
            properties.set_chunk(chunks)
        codecs = {*self.template.storage.details.get("codecs", "").split(", ")}
        if self.like:
            take_filters(properties, self.like.properties, but=h5py.h5z.FILTER_NBIT)
        elif chunks and codecs - _NO_COMPRESSION:
            properties.set_shuffle()
            properties.set_deflate(4)
        dtype = self.template.dtype
        fill = fill_of(self.meaning.attributes, dtype)
        if fill is None:
            fill = self._find_fill()
        if fill is not None:
            properties.set_fill_value(np.array(fill, dtype))
        _allocate_early(properties)
        return properties

    def _choose_chunks(self) -> tuple[int, ...] | None:
        sizes = self.template.sizes
        chunks = self.template.chunks
        if not chunks and None in self.limits:
            with h5py.File(io.BytesIO(), "w") as scratch:
                dataset = scratch.create_dataset("x", sizes, self.template.dtype, chunks=True)
                chunks = dataset.chunks
        if not chunks:
            return None
        fitting = []
        for chunk, size, limit in zip(chunks, sizes, self.limits, strict=True):
            if limit is None:
                fitting.append(chunk)
            else:  # HDF5 refuses a chunk that is larger than a dimension with a limit
                fitting.append(min(chunk, max(1, size, limit)))
        return tuple(fitting)

    def _find_fill(self) -> Any:  # noqa: ANN401 - a NumPy number, or None
        """The fill value that somebody has set for INPUT's dataset, or None."""
        dtype = self.template.dtype
        if not self.like:
            return self.meaning.storage_fill
        if dtype.kind not in "iufc":
            return None
        if self.like.properties.fill_value_defined() != h5d.FILL_VALUE_USER_DEFINED:
            return None
        fill = np.zeros((), dtype)
        # HDF5 does not convert all types, such as a bitfield.
        with contextlib.suppress(*RAISED):
            self.like.properties.get_fill_value(fill)
        return fill

    def create_in(self, file: h5py.File) -> tuple[h5py.Dataset, list[str]]:
        """The dataset with its attributes, those of its groups, and its scales; and notes."""
        dataset, names, is_coordinate = self._create(file)
        with self._open_input() as old:
            self._describe_groups(dataset, old)
            self._describe_dataset(dataset, names, old, is_coordinate=is_coordinate)
        notes = _add_history(file) if self.is_netcdf else []
        return dataset, notes

    def _create(self, file: h5py.File) -> tuple[h5py.Dataset, list[str], bool]:
        """The dataset, the name of the scale of each dimension, and whether it is a coordinate."""
        above, _, name = self.name.rpartition("/")
        names = self._name_scales(file)
        is_coordinate = names[:1] == [name] and all(names)
        if name in names and not is_coordinate:
            if self.is_netcdf:
                name = files.NOT_COORDINATE + name
            else:  # where only h5netcdf would understand such a name
                for d, dimension in enumerate(names):
                    if dimension == name:
                        names[d] = ""
        if self.is_netcdf and any(names):
            # NetCDF's library opens no file where only some of a variable's dimensions have scales.
            used = {*names, name}
            free = (f"dim_{i}" for i in itertools.count() if f"dim_{i}" not in used)
            names = [dimension or next(free) for dimension in names]
        limits = tuple(h5s.UNLIMITED if limit is None else limit for limit in self.limits)
        space = h5s.create_simple(self.template.sizes, limits)
        kind = storage.make_type(self.template.dtype)
        dataset = _create_dataset(file, f"{above}/{name}", kind, space, self.properties)
        return dataset, names, is_coordinate

    @contextlib.contextmanager
    def _open_input(self) -> Iterator[h5py.Dataset | None]:
        """INPUT's dataset, for attributes that keep their types.

        None where INPUT is not HDF5, and for a NetCDF output: NetCDF's library does not read all
        types.
        """
        if self.like is None or self.is_netcdf:
            yield None
            return
        with open_hdf5(self.like.path, self.like.name) as file:
            yield open_dataset(file, self.like.hard_path, self.like.name)

    def _describe_groups(self, dataset: h5py.Dataset, old: h5py.Dataset | None) -> None:
        """Give the file and the groups above the dataset the attributes of those of INPUT."""
        groups = self.meaning.groups
        old_groups = list[h5py.Group | None]([None] * len(groups))
        if old:
            old_groups = files.groups_of(old)[::-1]
        if groups:
            _copy_attributes(dataset.file, groups[0], old_groups[0])
        # Groups correspond from the innermost on; there may be fewer in one of the files.
        new_groups = files.groups_of(dataset)[:-1]
        inner = zip(new_groups, groups[:0:-1], old_groups[:0:-1], strict=False)
        for group, attributes, old_group in inner:
            _copy_attributes(group, attributes, old_group)

    def _describe_dataset(
        self,
        dataset: h5py.Dataset,
        names: list[str],
        old: h5py.Dataset | None,
        *,
        is_coordinate: bool,
    ) -> None:
        """Give the dataset its scales, and then its attributes, with their types in `old`.

        The scales come first, since HDF5 attaches none to a dataset with an attribute CLASS. A
        coordinate is a scale, and has a CLASS of its own.
        """
        self._attach_scales(dataset, names, old, is_coordinate=is_coordinate)
        attributes = dict(self.meaning.attributes)
        if is_coordinate:
            attributes.pop("CLASS", None)
        _copy_attributes(dataset, attributes, old, self.template.dtype)

    def _name_scales(self, file: h5py.File) -> list[str]:  # noqa: ARG002 - it is new
        """The name of each dimension whose scale can have it in HDF5, and "" for the others."""
        sizes = dict[str, int]()
        names = []
        for name, size in zip(self.meaning.dimensions, self.template.sizes, strict=False):
            is_name = name.isprintable() and "/" not in name and name not in ("", ".", "..")
            # Dimensions of one name and two sizes cannot share a scale.
            is_one = is_name and sizes.setdefault(name, size) == size
            names.append(name if is_one else "")
        if self.like and not self.is_netcdf:
            self._drop_labels(names)
        return names

    def _drop_labels(self, names: list[str]) -> None:
        """Clear the names that are only labels in INPUT, which need no dataset."""
        coordinates = {variable.name for variable in self.meaning.coordinates}
        with self._open_input() as old:
            if old is None:
                return
            for d, name in enumerate(names):
                if name not in coordinates and not files.find_scales(old, d):
                    names[d] = ""

    def _attach_scales(
        self,
        dataset: h5py.Dataset,
        names: list[str],
        old: h5py.Dataset | None,
        *,
        is_coordinate: bool,
    ) -> None:
        """Attach its scale to each dimension of a dataset: its coordinate, or one without values.

        A dimension whose scale has another name, or that has none, gets its name as a label.
        """
        scales = dict[str, h5py.Dataset]()
        new = list[h5py.Dataset]()
        if is_coordinate:
            dataset.make_scale(names[0])
            scales[names[0]] = dataset
            new.append(dataset)
        coordinates = {coordinate.name: coordinate for coordinate in self.meaning.coordinates}
        for d, name in enumerate(names):
            if not name or name in scales:
                continue
            scale = self._open_own_scale(dataset.file, name)
            if scale is None:
                old_scale = find_named_scale(old, d, name) if old else None
                scale = self._create_scale(dataset, d, name, coordinates.get(name), old_scale)
                new.append(scale)
            scales[name] = scale
        for number, scale in enumerate(new, self._first_dimension_id(dataset.file)):
            scale.attrs.create(files.OWN_ID, np.int32(number))
        if is_coordinate:  # a scale has no scales
            ids = [scales[name].attrs.get(files.OWN_ID) for name in names]
            if len(ids) > 1 and None not in ids:
                dataset.attrs.create(files.IDS, np.array(ids, np.int32))
            return
        for d, name in enumerate(self.meaning.dimensions):
            if names[d]:
                dataset.dims[d].attach_scale(scales[names[d]])
            can_be_label = name != "" and name.isprintable()
            if can_be_label and name != names[d]:
                dataset.dims[d].label = name

    def _open_own_scale(self, file: h5py.File, name: str) -> h5py.Dataset | None:  # noqa: ARG002
        """The scale of that name that is in the file already: none in a new file."""
        return None

    def _first_dimension_id(self, file: h5py.File) -> int:  # noqa: ARG002 - it is new
        """The number of the first new dimension in NetCDF's count."""
        return 0

    def _create_scale(
        self,
        dataset: h5py.Dataset,
        d: int,
        name: str,
        coordinate: Variable | None,
        old: h5py.Dataset | None,
    ) -> h5py.Dataset:
        """A new scale for a dimension: its coordinate, or one without values, as in NetCDF."""
        options: dict[str, Any] = {"track_order": True}
        if self.limits[d] is None:
            options["maxshape"] = (None,)
        size = dataset.shape[d]
        parent = dataset.parent
        if coordinate is None:
            scale = parent.create_dataset(name, (size,), ">f4", **options)
            scale.make_scale(f"{files.BARE}{size:10d}")
            return scale
        attributes = coordinate.attributes
        values = _of_netcdf(coordinate.values)
        if values.dtype == object:
            options["dtype"] = h5py.string_dtype()
        fill = fill_of(attributes, values.dtype)
        scale = parent.create_dataset(name, data=values, fillvalue=fill, **options)
        _copy_attributes(scale, attributes, old, values.dtype)
        scale.make_scale(name)
        return scale


class AddedDataset(OwnDataset):
    """A dataset in a copy of the output's own file, next to all that is there.

    It uses the scales of the file that fit it. With `overwrite` it replaces a dataset of its name,
    whose space in the file is used again.
    """

    original: Original

    def __init__(self, name: str, template: Source, where: str, original: Original) -> None:
        self.original = original
        with open_hdf5(original.path, where, original.identity) as file:
            self._is_netcdf_file = is_netcdf(where) or files.is_netcdf_file(file)
            if name.count("/") > 1:
                _refuse_groups_of_classic_model(file, where)
            old = _find_old(file, name, original)
            if old is not None:
                original.require_replaceable(name)
                if files.is_scale(old):
                    found = "holds a dimension of the file, which other datasets may use"
                    raise UsageError(found, "another name", where=f"{where}::{name}")
            self._scales = self._find_fitting_scales(file, name, template, where)
        super().__init__(name, template, where)
        self.is_netcdf = self._is_netcdf_file
        self.options = {"mode": "r+", "libver": _VERSIONS}

    def _find_fitting_scales(
        self, file: h5py.File, name: str, template: Source, where: str
    ) -> dict[str, _Scale]:
        """The scales of the file that fit the dataset, by the names of its dimensions.

        UsageError in a NetCDF file where something that does not fit has such a name.
        """
        meaning = template.meaning() or NOTHING
        coordinates = {coordinate.name: coordinate for coordinate in meaning.coordinates}
        above, _, own = name.rpartition("/")
        scales = dict[str, _Scale]()
        for dimension, size in zip(meaning.dimensions, template.sizes, strict=False):
            if dimension in ("", own):
                continue
            coordinate = coordinates.get(dimension)
            scale = _find_fitting_scale(file, above, dimension, size, coordinate)
            if scale is None and _has(file, f"{above}/{dimension}"):
                if self._is_netcdf_file:
                    raise dimension_conflict(dimension, f"{where}::{name}")
                continue
            for group in _groups_above(above):
                scale = scale or _find_fitting_scale(file, group, dimension, size, coordinate)
            if scale:
                scales[dimension] = scale
        return scales

    def _choose_limits(self) -> tuple[int | None, ...]:
        """Those of the scales that the dataset uses, where it uses some."""
        limits = super()._choose_limits()
        if not self.meaning.dimensions:
            return limits
        own_limits = list(limits)
        for d, name in enumerate(self.meaning.dimensions):
            if name in self._scales:
                own_limits[d] = self._scales[name].limit
        return tuple(own_limits)

    def create_in(self, file: h5py.File) -> tuple[h5py.Dataset, list[str]]:
        old = _find_old(file, self.name, self.original)
        if old is not None:
            for d in range(old.ndim):
                for scale in files.find_scales(old, d):
                    old.dims[d].detach_scale(scale)
            file.id.unlink(h5i.get_name(old.id))
        dataset, names, is_coordinate = self._create(file)
        with self._open_input() as input_dataset:
            self._describe_dataset(dataset, names, input_dataset, is_coordinate=is_coordinate)
        notes = _add_history(file) if self.is_netcdf else []
        return dataset, notes

    def _name_scales(self, file: h5py.File) -> list[str]:
        """As in a file of its own, but "" for a name that something else in the file has."""
        above = self.name.rpartition("/")[0]
        names = super()._name_scales(file)
        for d, name in enumerate(names):
            if name not in self._scales and _has(file, f"{above}/{name}"):
                names[d] = ""
        return names

    def _open_own_scale(self, file: h5py.File, name: str) -> h5py.Dataset | None:
        scale = self._scales.get(name)
        return open_dataset(file, scale.path, self.where) if scale else None

    def _first_dimension_id(self, file: h5py.File) -> int:
        return max(files.dimension_ids(file), default=-1) + 1


class CopiedDataset(NewDataset):
    """A dataset in a copy of INPUT's file: INPUT's with other values, or one like it next to it.

    All else stays as it is, byte by byte, but NetCDF's history gets a line.
    """

    original: Original

    def __init__(self, name: str, template: Hdf5Source, where: str, original: Original) -> None:
        self.name = name
        self.template = template
        self.where = where
        self.original = original
        self.options = {"mode": "r+"}
        self.input = template
        self.is_added = name not in (f"/{template.key}", template.hard_path)
        self.is_raw = template.raw is not None
        self.properties = template.properties.copy()
        take_filters(self.properties, template.properties)
        if not self.is_added:
            return
        self.properties.set_obj_track_times(False)  # so that the same job gives the same bytes
        _allocate_early(self.properties)
        with open_hdf5(template.path, template.name) as file:
            if name.count("/") > 1:
                _refuse_groups_of_classic_model(file, where)
            if _find_old(file, name, original) is not None:
                raise name_taken(name, template.path)
            self._refuse_hidden_dimensions(file)

    def _refuse_hidden_dimensions(self, file: h5py.File) -> None:
        """UsageError for a name in a group from which NetCDF does not see the dimensions."""
        old = open_dataset(file, self.input.hard_path, self.template.name)
        if not files.is_netcdf(old):
            return
        parent = self.name.rpartition("/")[0]
        for d in range(old.ndim):
            for scale in files.find_scales(old, d)[:1]:
                home = str(scale.name).rpartition("/")[0]
                if not f"{parent}/".startswith(f"{home}/"):
                    found = f"a dimension of {home} would not be visible from {self.name}"
                    raise UsageError(found, f"a name in {home}", where=f"{self.where}::{self.name}")

    def create_in(self, file: h5py.File) -> tuple[h5py.Dataset, list[str]]:
        old = open_dataset(file, self.input.hard_path, self.where)
        notes: list[str] = []
        dataset = old
        if self.is_added:
            dataset, notes = self._create_like(file, old)
        if files.is_netcdf(old):
            notes += _add_history(file)
        if self.properties.get_nfilters() and not self.is_added:
            _shrink_chunks(old)
        return dataset, notes

    def _create_like(self, file: h5py.File, old: h5py.Dataset) -> tuple[h5py.Dataset, list[str]]:
        """A dataset like the old one, with its attributes and scales but without its values.

        HDF5's function that copies datasets copies their values, too.
        """
        kind = old.id.get_type()
        space = old.id.get_space()
        dataset = _create_dataset(file, self.name, kind, space, self.properties)
        for d in range(old.ndim):
            for scale in files.find_scales(old, d):
                dataset.dims[d].attach_scale(scale)
        lost = []
        for name in old.attrs:
            if files.is_of_scales(old, name):
                continue
            try:
                _copy_attribute(old.id, dataset.id, name)
            except RAISED:  # of a type that h5py lacks
                lost.append(str(name))
        notes = [f"not copied: {join_names(lost)}"] if lost else []
        return dataset, notes


def _groups_above(path: str) -> list[str]:
    """The paths of the groups that a group is in, the innermost first, and "" for the root last."""
    groups = []
    while path:
        path = path.rpartition("/")[0]
        groups.append(path)
    return groups


class _Scale(NamedTuple):
    """A scale that a new dataset can use; `limit` is its largest size, or None without one."""

    path: str
    limit: int | None


def _find_fitting_scale(
    file: h5py.File, group: str, name: str, size: int, coordinate: Variable | None
) -> _Scale | None:
    """The scale in a group with that name and size, and the coordinate's values; or None."""
    path = f"{group}/{name}"
    if not _has(file, path):
        return None
    scale = files.dataset_in(file[group or "/"], name)
    if scale is None or not files.is_scale(scale):
        return None
    if scale.shape[:1] != (size,):
        return None
    if coordinate and not files.is_bare(scale):
        try:
            other = read_coordinate(scale, name)
        except (*RAISED, FormatError):
            return None
        if not coordinate.is_same_as(other):
            return None
    return _Scale(path, scale.maxshape[0])


def _has(file: h5py.File, path: str) -> bool:
    """Whether something has that path, without following links."""
    group = h5g.open(file.id, b"/")
    *above, last = path.strip("/").split("/")
    for part in above:
        item = _member(group, part) if part else group
        if not isinstance(item, h5g.GroupID):
            return False
        group = item
    return bool(group.links.exists(files.encode_name(last)))


def _member(group: h5g.GroupID, name: str) -> h5o.ObjectID | None:
    """The group, dataset or data type of that name in a group; None for a link, or without one."""
    part = files.encode_name(name)
    if not group.links.exists(part) or group.links.get_info(part).type != h5l.TYPE_HARD:
        return None
    return h5o.open(group, part)


def _find_old(file: h5py.File, name: str, original: Original) -> h5py.Dataset | None:
    """The dataset at that path, or None; UsageError if something else is there or on the way."""
    item = h5g.open(file.id, b"/")
    path = ""
    for part in name.strip("/").split("/"):
        if not isinstance(item, h5g.GroupID):
            raise _other_object(path, original)
        if item.links.exists(files.encode_name(files.NOT_COORDINATE + part)):
            part = files.NOT_COORDINATE + part
        path = f"{path}/{part}"
        if not item.links.exists(files.encode_name(part)):
            return None
        item = _member(item, part)
    if not isinstance(item, h5d.DatasetID):
        raise _other_object(path, original)
    return h5py.Dataset(files.require_own_values(item, f"{original.path}::{name}"))


def _other_object(path: str, original: Original) -> UsageError:
    """The error for a new dataset where the file has something else at that path."""
    if original.is_input:
        return name_taken(path, original.path)
    return UsageError(f"has something else at {path}", "a name that is free", where=original.path)


def _refuse_groups_of_classic_model(file: h5py.File, where: str) -> None:
    """UsageError for a file that follows NetCDF's classic model."""
    if "_nc3_strict" in file.attrs:
        found = "NetCDF's classic model, which this file follows, has no groups"
        raise UsageError(found, "a name without /", where=where)


def _shrink_chunks(dataset: h5py.Dataset) -> None:
    """Write one byte instead of each stored chunk, before the new chunks are written.

    HDF5 then joins the free space of neighbours, into which new chunks of other sizes fit: a copy
    of a file of 7 MB has 0.3 % of dead space instead of 5 %. And HDF5 drops the old filter mask,
    which it would keep for a new chunk of the same size, so that nobody could read it. A signal
    stops this, since a file may have millions of chunks.
    """
    is_byte = prod(dataset.chunks) * dataset.id.get_type().get_size() == 1
    starts: list[tuple[int, ...]] = []
    dataset.id.chunk_iter(lambda chunk: starts.append(tuple(chunk.chunk_offset)))
    for start in sorted(starts):
        signals.check()
        dataset.id.write_direct_chunk(start, bytes(1 + is_byte))


def _allocate_early(properties: h5p.PropDCID) -> None:
    """Let HDF5 reserve contiguous elements at once; workers write every one of them."""
    if properties.get_layout() == h5d.CONTIGUOUS:
        properties.set_alloc_time(h5d.ALLOC_TIME_EARLY)
        properties.set_fill_time(h5d.FILL_TIME_NEVER)


def _create_dataset(
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


def _copy_attribute(old: h5d.DatasetID, new: h5d.DatasetID, text: str | bytes) -> None:
    """Copy an attribute with its type, which may be a named type of the file."""
    name = text if isinstance(text, bytes) else text.encode()
    attribute = h5py.h5a.open(old, name)
    kind = attribute.get_type()
    if h5i.get_file_id(old) != h5i.get_file_id(new) and kind.committed():
        kind = kind.copy()
    copy = h5py.h5a.create(new, name, kind, attribute.get_space())
    if attribute.shape is None:
        return
    if attribute.dtype.hasobject:
        values = np.empty(attribute.shape, attribute.dtype)
        attribute.read(values)
        copy.write(values)
    else:  # the bytes as they are
        values = np.empty(attribute.shape, f"V{kind.get_size()}")
        attribute.read(values, mtype=kind)
        copy.write(values, mtype=kind)


def _copy_attributes(
    item: h5py.HLObject,
    attributes: Attributes,
    old: h5py.HLObject | None,
    dtype: np.dtype[Any] | None = None,
) -> None:
    """Write attributes with their types in `old`, an object of INPUT's file.

    Those that it lacks, or whose types cannot be copied, are written as NetCDF does. `dtype` is
    that of the tensor, if the attributes are a tensor's.
    """
    rest = Attributes()
    fitting = attributes if dtype is None else fit_types(attributes, dtype)
    for name, value in fitting.items():
        if old is None or name not in old.attrs:
            rest[name] = value
            continue
        try:
            _copy_attribute(old.id, item.id, name)
        except RAISED:
            rest[name] = value
    _write_attributes(item, rest, dtype)


def _write_attributes(
    item: h5py.HLObject, attributes: Attributes, dtype: np.dtype[Any] | None = None
) -> None:
    """Write attributes as NetCDF does: texts with a fixed length, and numbers in arrays."""
    fitting = attributes if dtype is None else fit_types(attributes, dtype)
    for name, value in fitting.items():
        if isinstance(value, list):
            item.attrs.create(name, np.array(value, object), dtype=h5py.string_dtype())
        elif isinstance(value, str):
            data = value.encode()
            length = len(data) if data and b"\0" not in data else None
            encoding = "ascii" if value.isascii() else "utf-8"
            item.attrs.create(name, data, dtype=h5py.string_dtype(encoding, length))
        else:
            array = _of_netcdf(np.atleast_1d(value))
            if array.dtype.kind == "b":
                array = array.astype("i1")
            item.attrs.create(name, array)


def _of_netcdf(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """FLOAT16 as FLOAT32, since NetCDF's library crashes on the former; other values unchanged."""
    if values.dtype.newbyteorder("=") == np.float16:
        return values.astype(np.float32)
    return values


def _add_history(file: h5py.File) -> list[str]:
    """Add a line to the start of the global attribute `history`, as NCO does.

    Where the attribute is not a text, or is full, a note is returned instead.
    """
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    try:
        moment = time.gmtime(int(epoch)) if epoch else time.localtime()
    except (ValueError, OverflowError, OSError):
        expected = "seconds since 1970-01-01 UTC, such as 1700000000"
        raise UsageError(f"SOURCE_DATE_EPOCH is {str(epoch)[:40]!r}", expected) from None
    command = printable(" ".join(map(platform.quote, ["revseq", *sys.argv[1:]])))
    line = f"{time.asctime(moment)}: {shorten(command, _LONGEST_COMMAND)}"
    old = files.read_attribute(file, "history")
    text = f"{line}\n{old}" if old else line
    is_no_text = "history" in file.attrs and not isinstance(old, str)
    if is_no_text or len(text.encode()) > _MOST_HISTORY:
        return ["the attribute history is full, or is not a single text, so no line is added"]
    _write_attributes(file, {"history": text})
    return []
