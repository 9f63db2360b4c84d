"""What an HDF5 dataset has beside its values, made anew in another file: groups, attributes, dimension scales."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.formats.contract import left_behind
from revseq_cli.formats.hdf5 import netcdf, types
from revseq_cli.formats.hdf5.files import opened
from revseq_cli.formats.hdf5.filters import UNCOMPRESSED, changed_filters
from revseq_cli.formats.hdf5.library import h5py
from revseq_cli.formats.hdf5.scales import attach, scales_of
from revseq_cli.formats.hdf5.source import Hdf5Source, refuse_other_files
from revseq_cli.ground.errors import FormatError, UsageError, Words, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Source

# Attributes that say who refers to whom among dimension scales; attaching the scales makes them anew.
_SCALE_REFERENCES = ("DIMENSION_LIST", "REFERENCE_LIST")


class _Carried(NamedTuple):
    """A dataset that comes into the new file: where it stands in the old one, and its path in the new one."""

    source: h5py.Dataset
    path: str


def create_dataset(
    file: h5py.File, name: str, like: Source, properties: h5py.h5p.PropDCID, where: str
) -> tuple[h5py.Dataset, list[str | Words]]:
    """A dataset of the sizes and data type of `like`, with all that can be carried over; and what could not be."""
    if not isinstance(like, Hdf5Source):
        space = h5py.h5s.create_simple(like.sizes)
        kind = types.kind_of(like.dtype)
        parent, _, own_name = name.rpartition("/")
        return _create(file.require_group(parent or "/"), own_name, (kind, space, properties), where), []
    with opened(like.path, like.name) as old:
        return _Copy(old[like.inner], file, name).carried_out(properties, where)


def keeps_order(like: Source) -> bool:
    """Whether the new file's root must remember in which order its links are made, as the old one's does.

    NetCDF's library opens no file for writing whose groups do not.
    """
    return isinstance(like, Hdf5Source) and bool(like.origin.link_order)


def refuse_clashes(like: Source, name: str, where: str) -> None:
    """UsageError where the output's name is needed for a scale that comes with it."""
    if not isinstance(like, Hdf5Source):
        return
    origin, hint = like.origin, Words.of("add {}", output=f"{where}::/{like.inner}")
    if origin.numbers_dimensions and (problem := netcdf.misplaced(origin.scales, name, classic=origin.is_classic)):
        raise UsageError(problem, "a name where NetCDF looks for its dimensions", hint, where)
    for scale in origin.scales:
        if f"{name}/".startswith(f"{scale}/") or f"{scale}/".startswith(f"{name}/"):
            raise UsageError(f"{name} is where the scale {scale} will stand", "another name", hint, where)


class _Copy:
    """Makes one dataset of an old file anew in a new one, with the groups on its way and the scales of its dimensions.

    Groups, datasets and attributes are made in the order in which the old file has them.
    """

    def __init__(self, source: h5py.Dataset, file: h5py.File, name: str) -> None:
        self._source, self._file, self._name = source, file, name
        self._notes: list[str | Words] = []

    def carried_out(self, properties: h5py.h5p.PropDCID, where: str) -> tuple[h5py.Dataset, list[str | Words]]:
        """The new dataset, without its values, and notes on what could not be carried over."""
        carried = [_Carried(self._source, self._name), *(_Carried(each, each.name) for each in self._scales())]
        ids = netcdf.new_dimension_ids(each.source for each in carried)
        self._copy_attributes(self._source.file["/"], self._file["/"])
        for source, path in sorted(carried, key=lambda each: _creation_orders(each.source)):
            group = self._group(path.rpartition("/")[0], source.name.rpartition("/")[0])
            own_name = path.rpartition("/")[2]
            if source is self._source:
                made = self._make_dataset(group, own_name, properties, where)
            else:
                self._source.file.copy(source, group, own_name, without_attrs=True)
            self._copy_attributes(source, group[own_name], ids)
        for d, scale in self._attached():
            if scale.name and scale.name in self._file:
                attach(made, d, self._file[scale.name])
        if (above := self._source.name.count("/") - self._name.count("/")) > 0:
            groups = "group" if above == 1 else "groups"
            self._notes.append(f"the attributes of {above} {groups} above {self._source.name} are not carried over")
        self._notes += changed_filters(made, self._source, properties)
        self._notes += netcdf.dangling(carried)
        self._count_others(carried)
        return made, self._notes

    @functools.cached_property
    def _old_names(self) -> list[bytes]:
        """The path of every object of the old file, which is visited once."""
        names: list[bytes] = []
        h5py.h5o.visit(self._source.file.id, names.append)
        return names

    def _make_dataset(self, group: h5py.Group, name: str, properties: h5py.h5p.PropDCID, where: str) -> h5py.Dataset:
        kind, space = self._source.id.get_type().copy(), self._source.id.get_space()
        limits = space.get_simple_extent_dims(maxdims=True)
        if properties.get_layout() != h5py.h5d.CHUNKED:  # only chunks can grow
            limits = self._source.shape
        return _create(group, name, (kind, h5py.h5s.create_simple(self._source.shape, limits), properties), where)

    def _group(self, path: str, like: str) -> h5py.Group:
        """The group of that path in the new file, made like the old file's group `like` where it is not there yet."""
        if not path:
            return self._file["/"]
        if path in self._file:
            return self._file[path]
        parent = self._group(path.rpartition("/")[0], like.rpartition("/")[0])
        name = path.rpartition("/")[2].encode()
        if not like:
            return h5py.Group(h5py.h5g.create(parent.id, name, gcpl=_group_properties(parent)))
        source = self._source.file[like]
        group = h5py.Group(h5py.h5g.create(parent.id, name, gcpl=_group_properties(source)))
        self._copy_attributes(source, group)
        return group

    def _scales(self) -> Iterator[h5py.Dataset]:
        """Each scale that must come along, once."""
        found: dict[str, h5py.Dataset] = {}
        for d, scale in self._attached():
            try:
                if scale.name is None:
                    raise FormatError("has no name")
                refuse_other_files(scale, scale.name)
            except FormatError as e:
                self._notes.append(f"a scale of dimension {d} {e.found}, and is not carried over")
            else:
                found.setdefault(scale.name, scale)
        for dataset in [self._source, *found.values()]:
            if missing := netcdf.missing_dimensions(dataset, [self._source, *found.values()]):
                for scale in netcdf.scales_by_number(self._source.file, self._old_names, missing):
                    found.setdefault(scale.name, scale)
        found.pop(self._source.name, None)
        return iter(found.values())

    def _attached(self) -> Iterator[tuple[int, h5py.Dataset]]:
        """Each dimension's scales, with the dimension's index."""
        return ((d, scale) for d in range(self._source.ndim) for scale in scales_of(self._source, d))

    def _copy_attributes(self, source: h5py.HLObject, target: h5py.HLObject, ids: dict[int, int] | None = None) -> None:
        """Every attribute with its own type, bit for bit; one that refers to other objects only makes a note.

        `ids` has the new numbers of NetCDF's dimensions.
        """
        for attribute in _attributes(source):
            name = attribute.get_name().decode("utf-8", "surrogateescape")
            kind = attribute.get_type().copy()
            if kind.detect_class(h5py.h5t.REFERENCE):
                if name in _SCALE_REFERENCES:
                    continue
                self._notes.append(
                    f"{printable(source.name)}: the attribute {printable(name)} holds references into its file, "
                    "and is not carried over"
                )
                continue
            values, memory_type = _values(attribute, kind), kind
            if ids and name in netcdf.ID_ATTRIBUTES:
                values, memory_type = netcdf.renumbered(np.asarray(source.attrs[name]), ids), None
                if values is None:
                    continue
            new = h5py.h5a.create(target.id, attribute.get_name(), kind, attribute.get_space())
            if values is not None:
                new.write(values, mtype=memory_type)

    def _count_others(self, carried: list[_Carried]) -> None:
        """Say how many objects of the old file are not in the new one."""
        seen = set()
        for each in carried:
            item: h5py.HLObject = each.source
            while item.name != "/":
                seen.add(h5py.h5o.get_info(item.id).addr)
                item = item.parent
        try:
            others = len(self._old_names) - len(seen)
        except (OSError, RuntimeError, KeyError, ValueError):  # what is damaged there is not asked for here
            self._notes.append("some other objects cannot be read, and none is carried over")
            return
        self._notes += left_behind(others, "object")


def _create(group: h5py.Group, name: str, made_of: tuple[Any, ...], where: str) -> h5py.Dataset:
    try:
        return h5py.Dataset(h5py.h5d.create(group.id, name.encode(), *made_of))
    except (OSError, RuntimeError, ValueError) as e:
        found = f"cannot be stored with these chunks and filters: {str(e)[:200]}"
        raise FormatError(found, "chunks and filters that HDF5 accepts", UNCOMPRESSED, where) from None


def _creation_orders(dataset: h5py.Dataset) -> list[int]:
    """The place of each step of the dataset's path among the links of its group, by the time when they were made."""
    parts = dataset.name.strip("/").split("/")
    paths = ("/".join(parts[: i + 1]).encode() for i in range(len(parts)))
    found = (dataset.file.id.links.get_info(path) for path in paths)
    return [link.corder if link.corder_valid else 0 for link in found]


def _group_properties(group: h5py.Group) -> h5py.h5p.PropGCID:
    """The properties to make a new group like this one; without times, so that the same job gives the same bytes.

    The group's own ones cannot serve: those of a large group hold the address of its links in the old file (HDF5 2.0),
    and a group that is made with them is broken.
    """
    old = group.id.get_create_plist()
    properties = h5py.h5p.create(h5py.h5p.GROUP_CREATE)
    properties.set_link_creation_order(old.get_link_creation_order())
    properties.set_attr_creation_order(old.get_attr_creation_order())
    properties.set_attr_phase_change(*old.get_attr_phase_change())
    properties.set_obj_track_times(False)
    return properties


def _attributes(item: h5py.HLObject) -> Iterator[h5py.h5a.AttrID]:
    """Every attribute, in the order in which they were made where the object remembers it, else by name."""
    tracked = item.id.get_create_plist().get_attr_creation_order() & h5py.h5p.CRT_ORDER_TRACKED
    order = h5py.h5.INDEX_CRT_ORDER if tracked else h5py.h5.INDEX_NAME
    for i in range(h5py.h5a.get_num_attrs(item.id)):
        yield h5py.h5a.open(item.id, index=i, index_type=order)


def _values(attribute: h5py.h5a.AttrID, kind: h5py.h5t.TypeID) -> NDArray[Any] | None:
    """An attribute's values as bytes, with the file's own type, so that nothing is converted; None where it is empty.

    Of what has any length, such as a text, they hold the place in memory.
    """
    if attribute.get_space().get_simple_extent_type() == h5py.h5s.NULL:
        return None
    values = np.zeros(attribute.shape, f"V{kind.get_size()}")
    attribute.read(values, mtype=kind)
    return values
