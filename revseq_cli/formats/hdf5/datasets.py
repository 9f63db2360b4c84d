"""New HDF5 datasets, which are created before their values are written.

A dataset is in a file of its own, in a copy of the output's own file, or in a copy of INPUT's file.
In the first two, it gets what the neutral form says of the tensor, and the scales of its dimensions
are made as by NetCDF's library. In a copy of INPUT's file, it is INPUT's dataset with other values,
or a new one like it; all else in the file stays byte for byte the same, except that NetCDF's
history gets a line.
"""

from __future__ import annotations

import contextlib
import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

import h5py
import numpy as np
from h5py import h5d, h5i, h5p, h5s, h5t

from revseq_cli.core import signals
from revseq_cli.core.errors import UsageError, join_names
from revseq_cli.formats.attributes import NOTHING, Meaning, fill_of
from revseq_cli.formats.contract import Original, Source
from revseq_cli.formats.hdf5.attribute_io import (
    BARE,
    DIMENSION_ID,
    DIMENSION_IDS,
    add_history,
    copy_attribute,
    is_of_scales,
    is_scale,
    widen_float16,
    write_attributes,
)
from revseq_cli.formats.hdf5.elements import make_type
from revseq_cli.formats.hdf5.files import (
    RAISED,
    open_dataset,
    open_hdf5,
)
from revseq_cli.formats.hdf5.links import (
    NOT_COORDINATE,
    find_old_dataset,
    groups_of,
    has_path,
)
from revseq_cli.formats.hdf5.properties import (
    Limits,
    allocate_early,
    choose_limits,
    copy_properties,
    make_properties,
)
from revseq_cli.formats.hdf5.scales import (
    dimension_ids,
    find_named_scale,
    find_scales,
    find_usable_scales,
    is_netcdf_dataset,
    is_netcdf_file,
)
from revseq_cli.formats.hdf5.source import Hdf5Source
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
        """Create the dataset, whose values are written later; return it, and notes."""


class _Names(NamedTuple):
    """The names that a new dataset and the scales of its dimensions get in their group.

    A dimension without a scale has "". A coordinate is itself the scale of its first dimension. As
    in `filters`, a NamedTuple loads faster than a dataclass.
    """

    dataset: str
    scales: list[str]
    is_coordinate: bool


class _DescribedDataset(NewDataset):
    """A dataset that gets what the neutral form says of the tensor: its attributes and scales.

    `usable_scales` are the paths of scales in the file that it uses, by the names of its
    dimensions. For the other names, scales are created. With `for_netcdf`, all of it is such that
    NetCDF's library can read it.
    """

    def __init__(
        self,
        name: str,
        template: Source,
        where: str,
        meaning: Meaning,
        limits: Limits,
        usable_scales: dict[str, str],
        *,
        for_netcdf: bool,
    ) -> None:
        super().__init__(name, template, where, make_properties(template, meaning, limits))
        self.limits = limits
        self.meaning = meaning
        self.left_out = meaning.left
        self.usable_scales = usable_scales
        self.for_netcdf = for_netcdf
        self.hdf5_input = template if isinstance(template, Hdf5Source) else None
        self.coordinate_of = {variable.name: variable for variable in meaning.coordinates}
        is_contiguous = self.properties.get_layout() == h5d.CONTIGUOUS
        self.is_raw = is_contiguous and prod(template.sizes) > 0

    def create_in(self, file: h5py.File) -> tuple[h5py.Dataset, list[str]]:
        names = self._choose_names(file)
        group = self.name.rpartition("/")[0]
        limits = tuple(h5s.UNLIMITED if limit is None else limit for limit in self.limits)
        space = h5s.create_simple(self.template.sizes, limits)
        kind = make_type(self.template.dtype)
        dataset = _create_dataset(file, f"{group}/{names.dataset}", kind, space, self.properties)
        with self._open_input() as input_dataset:
            self._describe_groups(dataset, input_dataset)
            self._attach_scales(dataset, names, input_dataset)
            # Only now, since HDF5 attaches no scale to a dataset that has an attribute CLASS.
            attributes = dict(self.meaning.attributes)
            if names.is_coordinate:  # as a scale, it has a CLASS of its own
                attributes.pop("CLASS", None)
            write_attributes(dataset, attributes, input_dataset, self.template.dtype)
        notes = add_history(file) if self.for_netcdf else []
        return dataset, notes

    @contextlib.contextmanager
    def _open_input(self) -> Iterator[h5py.Dataset | None]:
        """INPUT's dataset, for attributes that keep their types.

        None if INPUT is not HDF5, and for NetCDF, whose library does not read all types.
        """
        if self.hdf5_input is None or self.for_netcdf:
            yield None
            return
        with open_hdf5(self.hdf5_input.path, self.hdf5_input.name) as file:
            yield open_dataset(file, self.hdf5_input.hard_path, self.hdf5_input.name)

    # Names

    def _choose_names(self, file: h5py.File) -> _Names:
        """The names of the dataset and of its scales, before they are in the file."""
        name = self.name.rpartition("/")[2]
        scales = self._choose_scale_names(file)
        # A dataset x(x, y) is the coordinate of x, if all of its dimensions have scales.
        is_coordinate = scales[:1] == [name] and all(scales)
        if is_coordinate:
            return _Names(name, scales, is_coordinate=True)
        # A dataset x(y, x) is not a coordinate, and the scale of x needs the name x, too. NetCDF
        # stores such a dataset with a prefix. In other HDF5 files, where only h5netcdf would
        # understand the prefix, the dimension x gets no scale.
        if name in scales and self.for_netcdf:
            name = NOT_COORDINATE + name
        elif name in scales:
            scales = ["" if scale == name else scale for scale in scales]
        # v(x, ) becomes v(x, dim_0): NetCDF's library opens no file where only some of a variable's
        # dimensions have scales.
        if self.for_netcdf and any(scales):
            _fill_in_names(scales, name)
        return _Names(name, scales, is_coordinate=False)

    def _choose_scale_names(self, file: h5py.File) -> list[str]:
        """For each dimension, the name that its scale gets, or "" if it gets no scale."""
        names = self._find_free_names(file)
        with self._open_input() as input_dataset:
            if input_dataset is not None:
                names = self._leave_out_labels(names, input_dataset)
        return names

    def _find_free_names(self, file: h5py.File) -> list[str]:
        """For each dimension, its name if its scale can have that in the file, or ""."""
        group = self.name.rpartition("/")[0]
        size_of = dict[str, int]()
        names = []
        for name, size in zip(self.meaning.dimensions, self.template.sizes, strict=False):
            if not _is_link_name(name):
                names.append("")
                continue
            # Dimensions of one name and two sizes cannot share a scale.
            has_one_size = size_of.setdefault(name, size) == size
            is_free = name in self.usable_scales or not has_path(file, f"{group}/{name}")
            names.append(name if has_one_size and is_free else "")
        return names

    def _leave_out_labels(self, names: list[str], input_dataset: h5py.Dataset) -> list[str]:
        """The names, with "" for one that is only a label in INPUT, and so needs no dataset."""
        kept = []
        for d, name in enumerate(names):
            is_only_label = name not in self.coordinate_of and not find_scales(input_dataset, d)
            kept.append("" if is_only_label else name)
        return kept

    # Attributes and scales

    def _describe_groups(self, dataset: h5py.Dataset, input_dataset: h5py.Dataset | None) -> None:
        """Give the file and the groups above the dataset the attributes of those of INPUT.

        One of the files may have fewer groups. The innermost ones correspond: if INPUT is /a/b/x,
        and the dataset /c/x, then c gets the attributes of b.
        """
        if not self.meaning.groups:
            return
        # Three lists, each with the root first.
        new_groups = groups_of(dataset)
        attributes_of = self.meaning.groups
        input_groups: Sequence[h5py.Group | None] = [None] * len(attributes_of)
        if input_dataset:
            input_groups = groups_of(input_dataset)
        write_attributes(new_groups[0], attributes_of[0], input_groups[0])
        inner = zip(
            reversed(new_groups[1:]),
            reversed(attributes_of[1:]),
            reversed(input_groups[1:]),
            strict=False,
        )
        for group, attributes, input_group in inner:
            write_attributes(group, attributes, input_group)

    def _attach_scales(
        self, dataset: h5py.Dataset, names: _Names, input_dataset: h5py.Dataset | None
    ) -> None:
        """Attach its scale to each dimension.

        A dimension whose scale has another name, or that has none, gets its name as a label.
        """
        scales = self._make_scales(dataset, names, input_dataset)
        if names.is_coordinate:
            # HDF5 attaches no scales to a scale. NetCDF notes the numbers of its dimensions.
            ids = [scales[name].attrs.get(DIMENSION_ID) for name in names.scales]
            if len(ids) > 1 and None not in ids:
                dataset.attrs.create(DIMENSION_IDS, np.array(ids, np.int32))
            return
        for d, name in enumerate(self.meaning.dimensions):
            scale_name = names.scales[d]
            if scale_name:
                dataset.dims[d].attach_scale(scales[scale_name])
            can_be_label = name != "" and name.isprintable()
            if can_be_label and name != scale_name:
                dataset.dims[d].label = name

    def _make_scales(
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
            if name in self.usable_scales:
                scales[name] = open_dataset(dataset.file, self.usable_scales[name], self.where)
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
        if name not in self.coordinate_of:
            size = dataset.shape[d]
            scale = group.create_dataset(name, (size,), ">f4", **options)
            scale.make_scale(f"{BARE}{size:10d}")
            return scale
        coordinate = self.coordinate_of[name]
        values = widen_float16(coordinate.values)
        if values.dtype == object:
            options["dtype"] = h5py.string_dtype()
        fill = fill_of(coordinate.attributes, values.dtype)
        scale = group.create_dataset(name, data=values, fillvalue=fill, **options)
        input_scale = find_named_scale(input_dataset, d, name) if input_dataset else None
        write_attributes(scale, coordinate.attributes, input_scale, values.dtype)
        scale.make_scale(name)
        return scale


class OwnDataset(_DescribedDataset):
    """A dataset in a new file of its own."""

    def __init__(self, name: str, template: Source, where: str) -> None:
        meaning = (template.meaning() or NOTHING).without_pointers()
        for_netcdf = has_netcdf_suffix(where)
        limits = choose_limits(template, meaning)
        super().__init__(name, template, where, meaning, limits, {}, for_netcdf=for_netcdf)
        # NetCDF's library opens a file for writing only if all groups remember the order of their
        # links.
        tracks = for_netcdf or bool(meaning.dimensions)
        self.options = {"mode": "w", "libver": _VERSIONS, "track_order": tracks}


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
        meaning = meaning._replace(groups=())  # those of the file stay as they are
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
        return super().create_in(file)


def _is_link_name(name: str) -> bool:
    """Whether HDF5 can have a link of that name, and users can see it."""
    return name.isprintable() and "/" not in name and name not in ("", ".", "..")


def _fill_in_names(names: list[str], taken: str) -> None:
    """Give the dimensions that have no name one that is free."""
    used = {*names, taken}
    free_names = (name for name in map("dim_{}".format, itertools.count()) if name not in used)
    for d, name in enumerate(names):
        if not name:
            names[d] = next(free_names)


def _require_free_or_replaceable(
    file: h5py.File, name: str, original: Original, where: str
) -> None:
    """UsageError for a path that a new dataset cannot have, or one that may not be replaced."""
    _refuse_groups_of_classic_model(file, name, where)
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
    """UsageError if a dimension cannot have its scale, since something else has its name."""
    group, _, own_name = name.rpartition("/")
    for dimension in meaning.dimensions:
        if dimension in ("", own_name) or dimension in scales:
            continue
        if has_path(file, f"{group}/{dimension}"):
            raise make_dimension_error(dimension, f"{where}::{name}")


class _DatasetInCopy(NewDataset):
    """A dataset in a copy of the file of INPUT, whose properties it has."""

    def __init__(self, name: str, template: Hdf5Source, where: str, original: Original) -> None:
        super().__init__(name, template, where, copy_properties(template.properties))
        self.original = original
        self.options = {"mode": "r+"}
        self.is_raw = template.raw is not None
        self._hard_path = template.hard_path


class ReplacedDataset(_DatasetInCopy):
    """INPUT's dataset, which gets other values."""

    def create_in(self, file: h5py.File) -> tuple[h5py.Dataset, list[str]]:
        dataset = open_dataset(file, self._hard_path, self.where)
        notes = add_history(file) if is_netcdf_dataset(dataset) else []
        if self.properties.get_nfilters():
            _shrink_chunks(dataset)
        return dataset, notes


def _shrink_chunks(dataset: h5py.Dataset) -> None:
    """Write one byte instead of each stored chunk, before the new chunks are written.

    HDF5 then joins the free space of neighbours, into which new chunks of other sizes fit: a copy
    of a file of 7 MB has 0.3 % of dead space instead of 5 %. HDF5 also drops the old filter mask,
    which it would keep for a new chunk of the same size: nobody could then decode that chunk. A
    signal stops this, since a file may have millions of chunks.
    """
    starts: list[tuple[int, ...]] = []
    dataset.id.chunk_iter(lambda chunk: starts.append(tuple(chunk.chunk_offset)))
    chunk_bytes = prod(dataset.chunks) * dataset.id.get_type().get_size()
    count = 2 if chunk_bytes == 1 else 1  # another size than that of a new chunk
    for start in sorted(starts):
        signals.check()
        dataset.id.write_direct_chunk(start, bytes(count))


class DatasetLikeInput(_DatasetInCopy):
    """A new dataset like INPUT's, under another name."""

    def __init__(self, name: str, template: Hdf5Source, where: str, original: Original) -> None:
        super().__init__(name, template, where, original)
        self.properties.set_obj_track_times(False)  # so that the same job gives the same bytes
        allocate_early(self.properties)
        with open_hdf5(template.path, template.name) as file:
            _refuse_groups_of_classic_model(file, name, where)
            if find_old_dataset(file, name, original) is not None:
                raise make_name_taken_error(name, template.path)
            self._refuse_hidden_dimensions(open_dataset(file, self._hard_path, template.name))

    def _refuse_hidden_dimensions(self, old: h5py.Dataset) -> None:
        """UsageError for a name in a group from which NetCDF does not see the dimensions."""
        if not is_netcdf_dataset(old):
            return
        parent = self.name.rpartition("/")[0]
        for d in range(old.ndim):
            for scale in find_scales(old, d)[:1]:
                home = str(scale.name).rpartition("/")[0]
                if not f"{parent}/".startswith(f"{home}/"):
                    found = f"a dimension of {home} would not be visible from {self.name}"
                    raise UsageError(found, f"a name in {home}", where=f"{self.where}::{self.name}")

    def create_in(self, file: h5py.File) -> tuple[h5py.Dataset, list[str]]:
        old = open_dataset(file, self._hard_path, self.where)
        # HDF5's function that copies datasets would copy its values, too.
        kind = old.id.get_type()
        dataset = _create_dataset(file, self.name, kind, old.id.get_space(), self.properties)
        for d in range(old.ndim):
            for scale in find_scales(old, d):
                dataset.dims[d].attach_scale(scale)
        lost = _copy_tensor_attributes(old, dataset)
        notes = [f"not copied: {join_names(lost)}"] if lost else []
        if is_netcdf_dataset(old):
            notes += add_history(file)
        return dataset, notes


def _copy_tensor_attributes(old: h5py.Dataset, new: h5py.Dataset) -> list[str]:
    """Copy all attributes but those of scales; the names of those whose types h5py lacks."""
    lost = []
    for name in old.attrs:
        if is_of_scales(old, name):
            continue
        try:
            copy_attribute(old.id, new.id, name)
        except RAISED:
            lost.append(str(name))
    return lost


def _refuse_groups_of_classic_model(file: h5py.File, name: str, where: str) -> None:
    """UsageError for a dataset in a group, if the file follows NetCDF's classic model."""
    if name.count("/") > 1 and "_nc3_strict" in file.attrs:
        found = "NetCDF's classic model, which this file follows, has no groups"
        raise UsageError(found, "a name without /", where=where)


def _create_dataset(
    file: h5py.File, path: str, kind: h5t.TypeID, space: h5s.SpaceID, properties: h5p.PropDCID
) -> h5py.Dataset:
    """A new dataset; groups above it that are missing are created, too."""
    group = file["/"]
    remembers_order = group.id.get_create_plist().get_link_creation_order() != 0
    track_order = True if remembers_order else None  # None leaves the choice to h5py
    *parents, name = path.strip("/").split("/")
    for part in parents:
        group = group[part] if part in group else group.create_group(part, track_order=track_order)
    dataset = h5py.Dataset(h5d.create(group.id, None, kind, space, properties))
    group[name] = dataset  # a name in UTF-8
    return dataset
