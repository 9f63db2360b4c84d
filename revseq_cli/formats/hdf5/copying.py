"""Copies what an HDF5 dataset has beside its values into a new file: groups, attributes, scales, variables it names."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.core.errors import FormatError, UsageError, printable
from revseq_cli.core.tensors import braced
from revseq_cli.formats.hdf5 import meaning, netcdf, types
from revseq_cli.formats.hdf5.files import RAISED, opened
from revseq_cli.formats.hdf5.filters import UNCOMPRESSED, changed_filters, properties_of
from revseq_cli.formats.hdf5.library import h5py
from revseq_cli.formats.hdf5.netcdf import attach, scales_of
from revseq_cli.formats.hdf5.source import Hdf5Source, refuse_other_files
from revseq_cli.formats.meaning import MOST_VARIABLES, TEXT_BYTES, is_small

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Source

# Attributes that hold the references between datasets and their scales; attaching the scales writes new ones.
_SCALE_REFERENCES = ("DIMENSION_LIST", "REFERENCE_LIST")
# Classes of types that users define: NetCDF's library looks for one of the same members that has a name.
_OF_USERS = (h5py.h5t.ENUM, h5py.h5t.COMPOUND, h5py.h5t.OPAQUE, h5py.h5t.VLEN)
_NAMED_TYPE = h5py.h5o.TYPE_NAMED_DATATYPE
_MERGE_NAMED_TYPES = 0x40  # H5O_COPY_MERGE_COMMITTED_DTYPE_FLAG, for which h5py has no name


def create_dataset(
    file: h5py.File, name: str, template: Source, properties: h5py.h5p.PropDCID, where: str
) -> tuple[h5py.Dataset, list[str]]:
    """A new dataset of the sizes and data type of `template`, without values; and notes on what was not copied.

    Where `template` is an HDF5 dataset, its attributes, its scales and the groups on its path are copied.
    """
    if not isinstance(template, Hdf5Source):
        said = template.meaning()
        most = meaning.limits(said, said.dimensions, template.sizes)
        grown = tuple(h5py.h5s.UNLIMITED if size is None else size for size in most)
        space = h5py.h5s.create_simple(template.sizes, grown)
        kind = types.kind_of(template.dtype)
        group = file["/"]
        *parents, own_name = name.strip("/").split("/")
        for parent in parents:
            group = _group_like(group, group, parent)
        made = _create(group, own_name, (kind, space, properties), where)
        return made, [*meaning.write(made, said)]
    with opened(template.path, template.name) as old:
        return _Copy(old[template.key], file, name, template).carried_out(properties, where)


def companion_bytes(template: Source, name: str) -> int:
    """The bytes of what goes with the dataset at that path of a new file, as it will be stored; for texts a guess."""
    if not isinstance(template, Hdf5Source):
        return sum(each.total_bytes for each in template.meaning().variables)
    with opened(template.path, template.name) as old:
        _, *others = _Companions(old[template.key], name).with_source()
        texts = sum(each.size or 0 for each in others if _has_pointers(each.id.get_type()))
        stored: int = sum(each.id.get_storage_size() for each in others)
        return stored + texts * TEXT_BYTES


def keeps_order(template: Source, where: str) -> bool:
    """Whether the groups of the new file must remember the order in which their links are made.

    They do as in the old file, and in one with a suffix of NetCDF or with names of dimensions from another format:
    NetCDF's library opens no other for writing.
    """
    if where.lower().endswith((".nc", ".nc4")):
        return True
    return bool(template.origin.link_order if isinstance(template, Hdf5Source) else template.meaning().dimensions)


def refuse_clashes(template: Source, name: str, where: str) -> None:
    """UsageError where a scale that is carried over needs the output's path, or NetCDF would not find it from there."""
    hint = f"add -o {f'{where}::/{template.key}'}"
    if not isinstance(template, Hdf5Source):
        if name.rpartition("/")[2] in template.meaning().dimensions[1:]:
            raise UsageError(f"{name} is the place of the scale of that dimension", "another name", hint, where)
        return
    origin = template.origin
    if origin.numbers_dimensions and (problem := netcdf.misplaced(origin.scales, name, classic=origin.is_classic)):
        raise UsageError(problem, "a name where NetCDF looks for its dimensions", hint, where)
    for scale in origin.scales:
        if _overlap(name, scale):
            raise UsageError(f"{name} is the place of the scale {scale}", "another name", hint, where)


def _overlap(path: str, other: str) -> bool:
    """Whether both are the same path, or one leads to a group on the other."""
    return f"{path}/".startswith(f"{other}/") or f"{other}/".startswith(f"{path}/")


class _Companions:
    """Which datasets go with one to that path of a new file: its scales, and what attributes name."""

    def __init__(self, source: h5py.Dataset, name: str) -> None:
        self._source, self._name = source, name
        self.notes: list[str] = []

    @functools.cached_property
    def old_names(self) -> list[bytes]:
        """The path of every object of the old file, which is visited once."""
        names: list[bytes] = []
        h5py.h5o.visit(self._source.file.id, names.append)
        return names

    def with_source(self) -> list[h5py.Dataset]:
        """The dataset, its scales, and what attributes of these name, with its own scales: each once, if it can be."""
        carried = [self._source]
        for scale in self._scales(self._source):
            try:
                if scale.name is None:
                    raise FormatError("has no name")
                refuse_other_files(scale.id.get_create_plist(), scale.name)
            except FormatError as e:
                self.notes.append(f"the scale {printable(scale.name or '(unlinked)')} {e.found}, and is not copied")
            else:
                carried += [scale] * (scale not in carried)
        for holder in carried:  # which grows
            for _, word, item in netcdf.named_by(holder):
                if item in carried or len(carried) >= MOST_VARIABLES:
                    continue
                new = [each for each in (item, *self._scales(item)) if each not in carried]
                if self._finds(holder, word, item) and all(map(self._can_carry, new)):
                    carried += dict.fromkeys(new)
        return carried

    def _finds(self, holder: h5py.Dataset, word: str, item: h5py.Dataset) -> bool:
        """Whether the word means the same in the new file: not where the dataset goes to a group without it above."""
        old, new = (each.rpartition("/")[0] for each in (self._source.name, self._name))
        is_above = f"{new}/".startswith(f"{item.parent.name.rstrip('/')}/")
        return holder != self._source or new == old or word.startswith("/") or is_above

    def _can_carry(self, dataset: h5py.Dataset) -> bool:
        """Whether it can be copied as it is: HDF5 loses references, and text and lists are read at once."""
        if dataset.name is None or _overlap(self._name, dataset.name):
            return False
        try:
            refuse_other_files(dataset.id.get_create_plist(), dataset.name)
        except FormatError:
            return False
        kind = dataset.id.get_type()
        size_fits = not _has_pointers(kind) or is_small(dataset.shape or (), kind.get_size())
        return size_fits and not kind.detect_class(h5py.h5t.REFERENCE)

    def _scales(self, dataset: h5py.Dataset) -> list[h5py.Dataset]:
        """The scales of a dataset's dimensions, and of those that NetCDF names by number only."""
        scales = [scale for _, scale in _attached(dataset)]
        for each in [dataset, *scales]:
            if missing := netcdf.missing_dimensions(each, [dataset, *scales]):
                scales += netcdf.scales_by_number(self._source.file, self.old_names, missing)
        return scales


class _Copy:
    """Copies one dataset into a new file, without values, with the groups on its path and the datasets that go with it.

    Groups, datasets and attributes are created in the order in which they were created in the old file.
    """

    def __init__(self, source: h5py.Dataset, file: h5py.File, name: str, template: Hdf5Source) -> None:
        self._source, self._file, self._name, self._like = source, file, name, template
        self._companions = _Companions(source, name)
        self._notes = self._companions.notes
        self._types: set[str] = set()  # the paths of those that have one

    def carried_out(self, properties: h5py.h5p.PropDCID, where: str) -> tuple[h5py.Dataset, list[str]]:
        """The new dataset, without its values, and notes on what could not be carried over."""
        carried = {each: each.name for each in self._companions.with_source()} | {self._source: self._name}
        ids = netcdf.new_dimension_ids(carried)
        self._copy_attributes(self._source.file["/"], self._file["/"])
        for source, path in sorted(carried.items(), key=lambda each: _creation_orders(each[0])):
            group = self._group(path.rpartition("/")[0], source.name.rpartition("/")[0])
            own_name = path.rpartition("/")[2]
            if source == self._source:
                made = self._make_dataset(group, own_name, properties, where)
            else:
                try:
                    self._copy_dataset(source, group, own_name.encode("utf-8", "surrogateescape"))
                except RAISED:
                    if netcdf.is_scale(source.id):
                        raise
                    del carried[source]  # it is damaged, which matters only for itself
                    continue
            self._copy_attributes(source, group[own_name], ids)
        for source, path in carried.items():
            for d, scale in _attached(source):
                if scale in carried:
                    attach(self._file[path], d, self._file[carried[scale]])
        if (above := self._source.name.count("/") - self._name.count("/")) > 0:
            groups = "group" if above == 1 else "groups"
            self._notes.append(f"the attributes of {above} {groups} above {self._source.name} are not copied")
        self._notes += changed_filters(made, self._source, properties)
        self._notes += netcdf.dangling(carried)
        return made, self._notes

    def _make_dataset(self, group: h5py.Group, name: str, properties: h5py.h5p.PropDCID, where: str) -> h5py.Dataset:
        template, space = self._like, self._source.id.get_space()
        kind = self._like_type(self._source.id.get_type()) if template.is_plain else types.kind_of(template.dtype)
        inner = template.sizes[self._source.ndim :]
        limits = (*space.get_simple_extent_dims(maxdims=True), *inner)
        if properties.get_layout() != h5py.h5d.CHUNKED:  # only chunks can grow
            limits = template.sizes
        if not template.is_plain:
            stored = (
                f"plain numbers of sizes {braced(template.sizes)}" if inner else f"plain {template.desc.data_type.name}"
            )
            self._notes.append(
                f"{template.name} has {types.meaning(self._source.id.get_type())}; the output has {stored}"
            )
        return _create(group, name, (kind, h5py.h5s.create_simple(template.sizes, limits), properties), where)

    def _copy_dataset(self, source: h5py.Dataset, group: h5py.Group, name: bytes) -> None:
        """Copy a dataset without its attributes as it is stored, chunk by chunk; its type keeps its name."""
        kind = source.id.get_type()
        like = self._like_type(kind)
        if _has_pointers(kind) and source.shape is not None:  # HDF5 would break the fill value of a copy
            values, properties = np.zeros(source.shape, f"V{kind.get_size()}"), properties_of(source)
            source.id.read(h5py.h5s.ALL, h5py.h5s.ALL, values, mtype=kind)
            properties.set_obj_track_times(False)
            made = h5py.h5d.create(group.id, name, like, source.id.get_space(), properties)
            made.write(h5py.h5s.ALL, h5py.h5s.ALL, values, mtype=kind)
        else:
            properties = h5py.h5p.create(h5py.h5p.OBJECT_COPY)
            properties.set_copy_object(h5py.h5o.COPY_WITHOUT_ATTR_FLAG | _MERGE_NAMED_TYPES)
            h5py.h5o.copy(source.id, b".", group.id, name, properties)

    def _like_type(self, kind: h5py.h5t.TypeID) -> h5py.h5t.TypeID:
        """The same type for the new file, which gets the old file's name for it, so that NetCDF's library knows it."""
        path = self._type_name(kind)
        if not path or _overlap(self._name, path):
            return kind.copy()
        if path not in self._types:
            group, name = path.rsplit("/", 1)
            self._source.file.copy(path, self._group(group, group), name)  # with its times
            self._types.add(path)
        return self._file[path].id if kind.committed() else kind.copy()

    def _type_name(self, kind: h5py.h5t.TypeID) -> str:
        """The path of the type in the old file; in a NetCDF file, that of an equal one. "" where it has no name."""
        file = self._source.file
        if kind.committed():
            path: str = h5py.h5i.get_name(kind).decode("utf-8", "surrogateescape")
            return path
        if not self._like.origin.is_netcdf or kind.get_class() not in _OF_USERS:
            return ""
        named = (each for each in self._companions.old_names if h5py.h5o.get_info(file.id, each).type == _NAMED_TYPE)
        same = (each for each in named if h5py.h5t.open(file.id, each).equal(kind))
        return next((f"/{each.decode('utf-8', 'surrogateescape')}" for each in same), "")

    def _group(self, path: str, template: str) -> h5py.Group:
        """The group of that path in the new file; created like the old file's group `template`, if it is missing."""
        if not path:
            return self._file["/"]
        if path in self._file:
            return self._file[path]
        parent = self._group(path.rpartition("/")[0], template.rpartition("/")[0])
        name = path.rpartition("/")[2]
        source = self._source.file[template] if template else parent
        group = _group_like(parent, source, name)
        if template:
            self._copy_attributes(source, group)
        return group

    def _copy_attributes(self, source: h5py.HLObject, target: h5py.HLObject, ids: dict[int, int] | None = None) -> None:
        """Copy every attribute with its own type, bit for bit; one that holds references is left out, with a note.

        `ids` gives the new numbers of NetCDF's dimensions for the old ones.
        """
        for attribute in _attributes(source):
            name = attribute.get_name().decode("utf-8", "surrogateescape")
            kind = attribute.get_type().copy()
            if kind.detect_class(h5py.h5t.REFERENCE):
                if name in _SCALE_REFERENCES:
                    continue
                self._notes.append(
                    f"{printable(source.name)}: the attribute {printable(name)} contains references into its file, "
                    "and is not copied"
                )
                continue
            values, memory_type = _values(attribute, kind), kind
            if ids and name in netcdf.ID_ATTRIBUTES:
                values, memory_type = netcdf.renumbered(np.asarray(source.attrs[name]), ids), None
                if values is None:
                    continue
            like = self._like_type(attribute.get_type())
            new = h5py.h5a.create(target.id, attribute.get_name(), like, attribute.get_space())
            if values is not None:
                new.write(values, mtype=memory_type)


def _create(group: h5py.Group, name: str, made_of: tuple[Any, ...], where: str) -> h5py.Dataset:
    try:
        return h5py.Dataset(h5py.h5d.create(group.id, name.encode(), *made_of))
    except (OSError, RuntimeError, ValueError) as e:
        found = f"cannot be stored with these chunks and filters: {str(e)[:200]}"
        raise FormatError(found, "chunks and filters that HDF5 accepts", UNCOMPRESSED, where) from None


def _has_pointers(kind: h5py.h5t.TypeID) -> bool:
    """Whether elements are, or contain, text or lists of any length, which in memory are pointers."""
    is_fixed = isinstance(kind, h5py.h5t.TypeStringID) and not kind.is_variable_str()
    return not is_fixed and any(map(kind.detect_class, (h5py.h5t.VLEN, h5py.h5t.STRING)))


def _attached(dataset: h5py.Dataset) -> Iterator[tuple[int, h5py.Dataset]]:
    """Each scale of each dimension, with the index of the dimension."""
    return ((d, scale) for d in range(dataset.ndim) for scale in scales_of(dataset, d))


def _creation_orders(dataset: h5py.Dataset) -> list[int]:
    """For each part of the dataset's path, its number in the order in which the links of its group were created."""
    parts = dataset.name.strip("/").split("/")
    paths = ("/".join(parts[: i + 1]).encode() for i in range(len(parts)))
    links = (dataset.file.id.links.get_info(path) for path in paths)
    return [link.corder if link.corder_valid else 0 for link in links]


def _group_like(parent: h5py.Group, source: h5py.Group, name: str) -> h5py.Group:
    """A new group with the properties of another one; without times, so that the same job gives the same bytes.

    The other one's own ones cannot serve: those of a large group hold the address of its links in its file (HDF5 2.0),
    and a group that is made with them is broken. In a file with a suffix of NetCDF, it has the order of its parent.
    """
    old = (source if source.id.get_create_plist().get_link_creation_order() else parent).id.get_create_plist()
    properties = h5py.h5p.create(h5py.h5p.GROUP_CREATE)
    properties.set_link_creation_order(old.get_link_creation_order())
    properties.set_attr_creation_order(old.get_attr_creation_order())
    properties.set_attr_phase_change(*old.get_attr_phase_change())
    properties.set_obj_track_times(False)
    return h5py.Group(h5py.h5g.create(parent.id, name.encode(), gcpl=properties))


def _attributes(item: h5py.HLObject) -> Iterator[h5py.h5a.AttrID]:
    """Every attribute, in the order of creation where the object remembers it, else by name."""
    tracked = item.id.get_create_plist().get_attr_creation_order() & h5py.h5p.CRT_ORDER_TRACKED
    order = h5py.h5.INDEX_CRT_ORDER if tracked else h5py.h5.INDEX_NAME
    for i in range(h5py.h5a.get_num_attrs(item.id)):
        yield h5py.h5a.open(item.id, index=i, index_type=order)


def _values(attribute: h5py.h5a.AttrID, kind: h5py.h5t.TypeID) -> NDArray[Any] | None:
    """An attribute's values as bytes, in the file's own type, so that nothing is converted; None where it is empty.

    For elements of variable length, such as text, the bytes hold pointers into memory.
    """
    if attribute.get_space().get_simple_extent_type() == h5py.h5s.NULL:
        return None
    values = np.zeros(attribute.shape, f"V{kind.get_size()}")
    attribute.read(values, mtype=kind)
    return values
