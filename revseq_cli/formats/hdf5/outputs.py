"""What stands in a new HDF5 file: a copy of the input's with the dataset replaced or added, or the dataset alone.

Alone, it has what the neutral form says of it, with the scales of its dimensions as NetCDF's library makes them.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from revseq_cli.core import platform
from revseq_cli.core.errors import UsageError, listed, printable, shortened
from revseq_cli.formats.contents import refuse_taken
from revseq_cli.formats.contract import chunk_boxes
from revseq_cli.formats.hdf5 import names, types
from revseq_cli.formats.hdf5.files import RAISED, Recorder, dataset_at, in_memory, opened
from revseq_cli.formats.hdf5.filters import asked_for
from revseq_cli.formats.hdf5.source import Hdf5Source, offset_of
from revseq_cli.formats.meaning import FILL, Attributes, Meaning, Variable, fill_of, plain, typed
from revseq_cli.formats.table import is_netcdf

if TYPE_CHECKING:
    from revseq_cli.formats.atomic_file import AtomicFile
    from revseq_cli.formats.contract import Source

# The file format since HDF5 1.8 of 2008: in older ones, an attribute has at most 64 KiB.
_VERSIONS = ("v108", "latest")
_ORDERED = h5py.h5p.CRT_ORDER_TRACKED | h5py.h5p.CRT_ORDER_INDEXED
_NO_COMPRESSION = {"", "bytes", "transpose", "crc32c"}  # codecs of Zarr
_LONGEST_COMMAND = 1000  # characters of a command; tensors may be typed as text
_MOST_HISTORY = 60_000  # bytes; older versions of the file format have no room for an attribute of 64 KiB


class Output:
    """How the new file gets its dataset; `where` is the file's name in messages.

    `properties` are those of the dataset's creation, and `inner` the sizes of elements that are arrays. `kept` is the
    number of bytes that are copied with the dataset. `history` is the line for a NetCDF file.
    """

    properties: h5py.h5p.PropDCID
    inner: tuple[int, ...] = ()
    is_converted = False
    kept = 0
    history = ""

    def __init__(self, name: str, template: Source, where: str) -> None:
        self.name, self.template, self.where = name, template, where

    def prepare(self, file: AtomicFile) -> None:
        """Fill the file before HDF5 opens it; HDF5 itself begins an empty one."""

    def opened(self, recorder: Recorder, **options: int) -> h5py.File:
        """The file, which HDF5 opens through the recorder; `options` are h5py's."""
        raise NotImplementedError

    def dataset(self, file: h5py.File) -> tuple[h5py.Dataset, list[str]]:
        """The dataset in the file, without its values, and notes."""
        raise NotImplementedError


class _Copy(Output):
    """The new file is a copy of the input's. All else in it stays as it is, byte by byte, but a NetCDF history."""

    template: Hdf5Source

    def __init__(self, name: str, template: Hdf5Source, where: str) -> None:
        super().__init__(name, template, where)
        self.properties = template.properties.copy()
        _take_filters(self.properties, template.properties)
        with opened(template.path, template.name) as file:
            dataset = dataset_at(file, template.place, template.name)
            kind = dataset.id.get_type()
            self.inner, self.is_converted = types.inner_sizes(kind), types.is_converted(kind)
            self.kept = template.identity.size if template.identity else 0
            self.history = _history_line() if names.is_netcdf(dataset) else ""
            self.look(file, dataset)

    def look(self, file: h5py.File, dataset: h5py.Dataset) -> None:
        """Refuse a place in the file that the dataset cannot have."""
        raise NotImplementedError

    def prepare(self, file: AtomicFile) -> None:
        """Copy the input's file."""
        if self.template.identity:
            file.fill_from(self.template.path, self.template.identity)

    def opened(self, recorder: Recorder, **options: int) -> h5py.File:
        """The copy, for reading and writing."""
        return h5py.File(recorder, "r+", **options)


class Replaced(_Copy):
    """The dataset of the input gets other values."""

    def look(self, file: h5py.File, dataset: h5py.Dataset) -> None:  # noqa: ARG002 - its place is its own
        """Count the bytes of all but the values."""
        self.kept = max(0, self.kept - dataset.id.get_storage_size())

    def dataset(self, file: h5py.File) -> tuple[h5py.Dataset, list[str]]:
        """The dataset of the copy."""
        dataset = dataset_at(file, self.template.place, self.where)
        if dataset.chunks is None and offset_of(dataset) is None:
            # It was never written, and so has no offset yet; HDF5 gives it one when an element is written.
            first = tuple(slice(0, min(1, size)) for size in dataset.shape) + tuple(slice(0, n) for n in self.inner)
            types.write(dataset, first, types.read(dataset, first, self.template.dtype))
        if self.properties.get_nfilters():
            _clear_chunks(dataset)
        return dataset, _record_history(file, self.history)


class Added(_Copy):
    """A dataset like the input's gets another name in the same file, with its attributes and dimensions."""

    def look(self, file: h5py.File, dataset: h5py.Dataset) -> None:
        """Refuse a name that is taken, and one from which NetCDF would not find the dimensions."""
        self.properties.set_obj_track_times(False)  # so that the same job gives the same bytes
        _allocate_early(self.properties)
        if taken := _taken(file, self.name):
            refuse_taken(taken, [taken], self.template.path)
        group = self.name.rpartition("/")[0]
        if group and "_nc3_strict" in file.attrs:
            found = "NetCDF's classic model, which this file follows, has no groups"
            raise UsageError(found, "a name without /", where=f"{self.where}::{self.name}")
        attached = [scale for d in range(dataset.ndim) for scale in names.scales_of(dataset, d)[:1]]
        for home in [scale.name.rpartition("/")[0] for scale in attached]:
            if not f"{group}/".startswith(f"{home}/") and self.history:
                found = f"a dimension of {home} would not be visible from {self.name}"
                raise UsageError(found, f"a name in {home}", where=f"{self.where}::{self.name}")

    def dataset(self, file: h5py.File) -> tuple[h5py.Dataset, list[str]]:
        """The new dataset."""
        old = dataset_at(file, self.template.place, self.where)
        group, name = _parent(file, self.name)
        made = _create(group, name, old.id.get_type(), old.id.get_space(), self.properties)
        lost = []
        for name in old.attrs:
            if name not in names.STORAGE or (name == "CLASS" and not names.is_scale(old.id)):
                try:
                    _copy_attribute(old, made, name.encode("utf-8", "surrogateescape"))
                except RAISED:  # of a type that h5py lacks
                    lost.append(name)
        for d, label in enumerate(names.labels_of(old)):
            if label:
                made.dims[d].label = label
        if numbers := names.numbers_of(old, names.IDS):
            made.attrs.create(names.IDS, np.array(numbers, np.int32))
        for d in range(old.ndim):
            for scale in names.scales_of(old, d):
                made.dims[d].attach_scale(scale)
        return made, [*([f"not copied: {listed(lost)}"] if lost else []), *_record_history(file, self.history)]


class Alone(Output):
    """An empty file gets the dataset, with what the neutral form says of it."""

    def __init__(self, name: str, template: Source, where: str) -> None:
        super().__init__(name, template, where)
        self.meaning, sizes = template.meaning(), template.sizes
        self.is_netcdf = is_netcdf(where)
        if self.is_netcdf:
            self.meaning = _without_halves(self.meaning)
        self.history = _history_line() if self.is_netcdf else ""
        self.kept = sum(coordinate.values.nbytes for coordinate in self.meaning.coordinates)
        dims = self.meaning.dimensions or ("",) * len(sizes)
        self.limits = tuple(None if n in self.meaning.unlimited else s for n, s in zip(dims, sizes, strict=True))
        if isinstance(template, Hdf5Source):
            self.limits = template.limits
        self.properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        self.properties.set_obj_track_times(False)  # so that the same job gives the same bytes
        self.properties.set_attr_creation_order(_ORDERED)
        chunks = template.chunks
        if sizes and not chunks and (template.encoded or None in self.limits):
            with in_memory() as scratch:
                chunks = scratch.create_dataset("x", sizes, template.dtype, chunks=True).chunks
        if chunks:  # a chunk may be larger than what cannot grow
            fits = zip(chunks, sizes, self.limits, strict=True)
            self.properties.set_chunk(tuple(c if most is None else min(c, max(1, s, most)) for c, s, most in fits))
        if isinstance(template, Hdf5Source):
            _take_filters(self.properties, template.properties, but=h5py.h5z.FILTER_NBIT)
        elif chunks and {*template.storage.details.get("codecs", "").split(", ")} - _NO_COMPRESSION:
            self.properties.set_shuffle()
            self.properties.set_deflate(4)
        if (fill := _fill_of(template, self.meaning.attributes)) is not None:
            self.properties.set_fill_value(np.array(fill, template.dtype))
        _allocate_early(self.properties)

    def opened(self, recorder: Recorder, **options: int) -> h5py.File:
        """A new file. NetCDF's library opens one for writing only if all groups remember the order of their links."""
        tracks = True if self.is_netcdf or self.meaning.dimensions else None
        return h5py.File(recorder, "w", libver=_VERSIONS, track_order=tracks, **options)

    def dataset(self, file: h5py.File) -> tuple[h5py.Dataset, list[str]]:
        """The dataset, with its attributes, those of its groups, and the scales of its dimensions."""
        group, name = _parent(file, self.name)
        _write_attributes(file, self.meaning.groups[0] if self.meaning.groups else {})
        above = group
        for attributes in self.meaning.groups[:0:-1]:  # from the dataset upwards
            if above.name != "/":
                _write_attributes(above, attributes)
                above = above.parent
        dims = self._names_of_scales()
        is_coordinate = dims[:1] == [name] and all(dims)
        if name in dims and not is_coordinate:
            if self.is_netcdf:
                name = names.NOT_COORDINATE + name
            else:  # where only h5netcdf would understand such a name
                dims = ["" if each == name else each for each in dims]
        most = tuple(h5py.h5s.UNLIMITED if size is None else size for size in self.limits)
        space = h5py.h5s.create_simple(self.template.sizes, most)
        made = _create(group, name, types.kind_of(self.template.dtype), space, self.properties)
        _write_attributes(made, self.meaning.attributes, self.template.dtype)
        self._attach_scales(made, dims, is_coordinate=is_coordinate)
        notes = self.meaning.left_behind(can_grow=True)
        return made, [*notes, *_record_history(file, self.history)]

    def _names_of_scales(self) -> list[str]:
        """The name of each dimension whose scale can have it, "" for others: a dimension has one size."""
        sizes: dict[str, int] = {}
        dims = []
        for name, size in zip(self.meaning.dimensions, self.template.sizes, strict=False):
            fits = _is_name(name) and sizes.setdefault(name, size) == size
            dims.append(name if fits else "")
        return dims

    def _attach_scales(self, made: h5py.Dataset, dims: list[str], *, is_coordinate: bool) -> None:
        """Give each dimension of a dataset its scale: its coordinate, or one without values; others a label."""
        group, found = made.parent, dict[str, h5py.Dataset]()
        if is_coordinate:
            made.make_scale(dims[0])
            found[dims[0]] = made
        coordinates = {coordinate.name: coordinate for coordinate in self.meaning.coordinates}
        for d, name in enumerate(dims):
            if name and name not in found:
                if name in coordinates:
                    found[name] = _write_variable(group, coordinates[name], self.limits[d])
                    found[name].make_scale(name)
                else:  # as NetCDF's library makes it
                    size = made.shape[d]
                    found[name] = group.create_dataset(name, (size,), ">f4", maxshape=(self.limits[d],))
                    found[name].make_scale(f"{names.BARE}{size:10d}")
        for number, scale in enumerate(found.values()):
            scale.attrs.create(names.OWN_ID, np.int32(number))
        if is_coordinate:  # a scale has no scales
            numbers = [[*found].index(name) for name in dims]
            if len(numbers) > 1:
                made.attrs.create(names.IDS, np.array(numbers, np.int32))
            return
        for d, name in enumerate(self.meaning.dimensions):
            if dims[d]:
                made.dims[d].attach_scale(found[name])
            elif name and "\0" not in name and name.isprintable():
                made.dims[d].label = name


def _without_halves(meaning: Meaning) -> Meaning:
    """The same with FLOAT32 for each FLOAT16 in attributes and coordinates, since NetCDF lacks FLOAT16."""

    def widened(value: Any) -> Any:  # noqa: ANN401 - the value of an attribute, or an array
        is_half = getattr(value, "dtype", np.dtype("O")).newbyteorder("=") == np.float16
        return value.astype(np.float32) if is_half else value

    def attributes(old: Attributes) -> Attributes:
        return {name: widened(value) for name, value in old.items()}

    coordinates = tuple(
        c._replace(attributes=attributes(c.attributes), values=widened(c.values)) for c in meaning.coordinates
    )
    groups = tuple(attributes(group) for group in meaning.groups)
    return replace(meaning, attributes=attributes(meaning.attributes), coordinates=coordinates, groups=groups)


def _is_name(name: str) -> bool:
    """Whether HDF5 can have an object of that name in a group."""
    return name.isprintable() and "/" not in name and name not in ("", ".", "..")


def _fill_of(template: Source, attributes: Attributes) -> Any:  # noqa: ANN401 - a NumPy number, or None
    """The fill value of a tensor: that of its attributes, or else of the HDF5 dataset."""
    fill = fill_of(attributes, template.dtype)
    if fill is not None or not isinstance(template, Hdf5Source) or template.dtype.kind not in "iufc":
        return fill
    if template.properties.fill_value_defined() != h5py.h5d.FILL_VALUE_USER_DEFINED:
        return None
    value = np.zeros((), template.dtype)
    with contextlib.suppress(*RAISED):  # one of a type that HDF5 does not convert, such as a bitfield
        template.properties.get_fill_value(value)
    return value[()]


def _take_filters(properties: h5py.h5p.PropDCID, like: h5py.h5p.PropDCID, but: int = 0) -> None:
    """Ask for the filters that a dataset of some properties has, but for the one of that number."""
    if properties.get_nfilters():
        properties.remove_filter(h5py.h5z.FILTER_ALL)
    for code, flags, parameters in asked_for(like):
        if code != but:
            properties.set_filter(code, flags, parameters)


def _allocate_early(properties: h5py.h5p.PropDCID) -> None:
    """Let contiguous elements have their place at once; workers write every one of them."""
    if properties.get_layout() == h5py.h5d.CONTIGUOUS:
        properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)


def _taken(file: h5py.File, name: str) -> str:
    """The path itself if something is there, or the part of it that is there and no group; "" for neither."""
    group, place = file["/"], ""
    for part in name.strip("/").split("/"):
        place += f"/{part}"
        exists = [group.id.links.exists(each.encode()) for each in (part, names.NOT_COORDINATE + part)]
        if not any(exists):
            return ""
        is_hard = exists[0] and group.id.links.get_info(part.encode()).type == h5py.h5l.TYPE_HARD
        if place == name or not is_hard or h5py.h5o.get_info(group.id, part.encode()).type != h5py.h5o.TYPE_GROUP:
            return place
        group = group[part]
    return ""


def _parent(file: h5py.File, name: str) -> tuple[h5py.Group, str]:
    """The group of a path, which is made where it is not there, and the last part of the path."""
    group = file["/"]
    tracks = group.id.get_create_plist().get_link_creation_order() != 0
    *parents, last = name.strip("/").split("/")
    for part in parents:
        group = group[part] if part in group else group.create_group(part, track_order=tracks or None)
    return group, last


def _create(
    group: h5py.Group, name: str, kind: h5py.h5t.TypeID, space: h5py.h5s.SpaceID, properties: h5py.h5p.PropDCID
) -> h5py.Dataset:
    made = h5py.h5d.create(group.id, None, kind, space, properties)
    group[name] = dataset = h5py.Dataset(made)  # with a name in UTF-8
    return dataset


def _copy_attribute(old: h5py.Dataset, new: h5py.Dataset, name: bytes) -> None:
    """Give a dataset an attribute that another one of its file has, of the same type, which may have a name there."""
    attribute = h5py.h5a.open(old.id, name)
    kind, dtype = attribute.get_type(), attribute.dtype
    made = h5py.h5a.create(new.id, name, kind, attribute.get_space())
    if attribute.shape is None:
        return
    if dtype.hasobject:
        values = np.empty(attribute.shape, dtype)
        attribute.read(values)
        made.write(values)
    else:  # the bytes as they are
        values = np.empty(attribute.shape, f"V{kind.get_size()}")
        attribute.read(values, mtype=kind)
        made.write(values, mtype=kind)


def _write_attributes(item: h5py.HLObject, attributes: Attributes, dtype: np.dtype[Any] | None = None) -> None:
    """Write attributes as NetCDF's library has them: texts of their length, and numbers in arrays.

    Those that hold values of a tensor get its `dtype`; a fill value that it cannot hold is left out.
    """
    if dtype is not None:
        attributes = typed(attributes, dtype)
        fill = fill_of(attributes, dtype)
        attributes = ({} if fill is None else {FILL: fill}) | {n: v for n, v in attributes.items() if n != FILL}
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


def _write_variable(group: h5py.Group, variable: Variable, limit: int | None) -> h5py.Dataset:
    """A coordinate of a dimension that can have `limit` indices, None for any number."""
    values, more = variable.values, {"track_order": True}
    most = {"maxshape": (None,)} if limit is None else {}
    if values.dtype == object:
        made = group.create_dataset(variable.name, data=values, dtype=h5py.string_dtype(), **more, **most)
        _write_attributes(made, {n: v for n, v in variable.attributes.items() if n != FILL})  # NetCDF has none of text
        return made
    fill = fill_of(variable.attributes, values.dtype)
    made = group.create_dataset(variable.name, data=values, fillvalue=fill, **more, **most)
    _write_attributes(made, variable.attributes, values.dtype)
    return made


def _history_line() -> str:
    """The line about this command for the history of a NetCDF file, as NCO has it; UsageError for a wrong time."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    try:
        moment = time.gmtime(int(epoch)) if epoch else time.localtime()
    except (ValueError, OverflowError, OSError):
        wanted = "seconds since 1970-01-01 UTC, such as 1700000000"
        raise UsageError(f"SOURCE_DATE_EPOCH is {str(epoch)[:40]!r}", wanted) from None
    command = printable(" ".join(map(platform.quoted, ["revseq", *sys.argv[1:]])))
    return f"{time.asctime(moment)}: {shortened(command, _LONGEST_COMMAND)}"


def _record_history(file: h5py.File, line: str) -> list[str]:
    """Put a line before those of the global attribute `history`; a note where it is no text, or full.

    Source: the NetCDF Users' Guide, appendix on attribute conventions; and what NCO and CDO write.
    """
    if not line:
        return []
    old = plain(file.attrs["history"]) if "history" in file.attrs else ""
    if not isinstance(old, str):
        return ["the attribute history is not a single text, so no line is added"]
    text = f"{line}\n{old}" if old else line
    if len(text.encode()) > _MOST_HISTORY:
        return [f"the attribute history would have {len(text.encode()):,} bytes, so no line is added"]
    _write_attributes(file, {"history": text})
    return []


def _clear_chunks(dataset: h5py.Dataset) -> None:
    """Write one byte in place of each chunk, before all of them are written anew.

    Then HDF5 joins the free space of neighbours, which new chunks of other sizes fill: a copy of a file of 7 MB has
    0.3 % of dead space, instead of 5 %. It also drops the old filter mask, which HDF5 keeps where a chunk replaces one
    of the same size, and with which the new chunk could not be read.
    """
    raw = prod(dataset.chunks) * dataset.id.get_type().get_size()
    byte = bytes(2 if raw == 1 else 1)  # not the size of any chunk that comes
    for box in chunk_boxes(tuple(slice(0, size) for size in dataset.shape), dataset.chunks):
        dataset.id.write_direct_chunk(tuple(part.start for part in box), byte)
