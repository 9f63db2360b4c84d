"""HDF5 datasets as inputs, and lists of what a file holds.

A name is `file.h5::/group/name`, or that of a file with only one dataset.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import h5py
import numpy as np
from h5py import h5d, h5g, h5t
from numpy.typing import NDArray

from revseq_cli.core.dtypes import data_type_of, require_sizes
from revseq_cli.core.errors import FormatError, about
from revseq_cli.core.tensors import DataType, Region, TensorDesc, chunk_boxes, chunk_start
from revseq_cli.files import base, open_file
from revseq_cli.formats.attributes import (
    ENCODING,
    FILL,
    Meaning,
    Variable,
    as_texts,
    is_small,
    joined,
)
from revseq_cli.formats.contents import (
    DIMENSION,
    GROUP,
    Contents,
    Item,
    not_whole,
    only_of,
    refuse_bomb,
)
from revseq_cli.formats.contract import (
    Address,
    Original,
    ReadTask,
    Source,
    Storage,
    TextTypes,
)
from revseq_cli.formats.hdf5 import files, storage
from revseq_cli.formats.hdf5.files import RAISED, dataset_at, opened
from revseq_cli.formats.hdf5.storage import LOCK, filters_of, require_filters
from revseq_cli.formats.raw import RawReadTask, RawTensor, cut_alignments_of
from revseq_cli.formats.table import is_hdf5, is_netcdf, looks_like

NETCDF4 = "NetCDF-4"  # what people call an HDF5 file that NetCDF wrote
# Texts that are read before their lengths are looked at: many may lie at one place in the file.
_TEXTS_AT_ONCE = 8


def open_source(address: Address, types: TextTypes) -> Source:
    """The named dataset of a file, or its only one."""
    return Hdf5Source(address.path, address.key, asked=types.asked)


class Hdf5Source(Source):
    """A dataset of an HDF5 file.

    `name` is what to call the file, where that is not its path; `asked` is the data type of opaque
    elements, whose type has no name in the file. `place` is a path to it of hard links.
    `properties` are those of its creation, and `limits` the largest sizes that it can have, None
    for a dimension that can grow. Elements that lie in the file as they are, at the offset of
    `raw`, are read and written without HDF5.
    """

    identity: base.Identity
    raw: RawTensor | None = None

    def __init__(
        self, path: str, key: str | None, name: str = "", asked: DataType | None = None
    ) -> None:
        name = name or path
        with open_file(path, name=name) as fd:
            self.identity = fd.identity
            if not is_hdf5(fd):
                seems, hint = looks_like(fd.read(64, 0))
                found = f"not an HDF5 file: it looks like {seems}"
                raise FormatError(found, "an HDF5 file by its suffix", hint, name)
        with opened(path, name, self.identity) as file:
            dataset, own_name, self.place = files.find(file, key, name)
            self.key, self.name, self.path = own_name.lstrip("/"), f"{name}::{own_name}", path
            self.properties, kind = dataset.id.get_create_plist(), dataset.id.get_type()
            with about(self.name):
                self.dtype = files.require_numbers(dataset, asked)
                self._check(dataset)
            self.chunks, self.sizes, self.limits = dataset.chunks, dataset.shape, dataset.maxshape
            self.encoded = self.properties.get_nfilters() > 0
            self.dimensions = files.names_of(dataset)
            # Of values that were never written, HDF5 would name a place, too.
            is_contiguous = (
                self.properties.get_layout() == h5d.CONTIGUOUS and dataset.id.get_storage_size() > 0
            )
            if is_contiguous and not storage.is_narrow(kind):
                self.raw = RawTensor(
                    path, self.name, dataset.id.get_offset(), self.dtype, self.sizes
                )
                if self.raw.end > self.identity.size:
                    found = f"truncated: {self.identity.size} bytes, and its values end at {self.raw.end}"
                    raise not_whole(found, self.name)
            details = _details_of(self.properties, storage.meaning(kind))
            details = {"dataset": f"/{self.key}"} | details
            label = NETCDF4 if files.has_mark(file) else ""
            self.storage = Storage("h5", details, label)

    def _check(self, dataset: h5py.Dataset) -> None:
        """FormatError for a dataset that cannot be read as a tensor."""
        if dataset.shape is None:
            raise FormatError("has a null dataspace: neither sizes nor elements", "a tensor")
        is_absent = dataset.id.get_space_status() == h5d.SPACE_STATUS_NOT_ALLOCATED
        if is_absent and self.properties.fill_value_defined() == h5d.FILL_VALUE_UNDEFINED:
            raise FormatError(
                "none of its values was ever written, and it has no fill value", "values"
            )
        require_filters(dataset, self.name)
        declared, stored = prod(dataset.shape) * self.dtype.itemsize, dataset.id.get_storage_size()
        refuse_bomb(
            declared, stored, "write it again without compression: h5repack -f NONE", self.name
        )

    def __getstate__(self) -> dict[str, Any]:
        """What workers get: all but the properties, which cannot be pickled."""
        return {name: value for name, value in self.__dict__.items() if name != "properties"}

    def original_for(self, name: str) -> Original | None:
        """Its file; None where the output's name is that of a NetCDF file, and its file is none."""
        if is_netcdf(name) and not is_netcdf(self.path):
            with opened(self.path, self.name) as file:
                if not files.is_netcdf(dataset_at(file, self.place, self.name)):
                    return None
        return super().original_for(name)

    def meaning(self) -> Meaning:
        with opened(self.path, self.name) as file:
            dataset = dataset_at(file, self.place, self.name)
            attributes, left = files.attributes_of(dataset)
            if dataset.id.get_type().get_class() == h5t.ENUM and self.dtype.kind != "b":
                left.append("the names of its enumeration")
            coordinates = list[Variable]()
            for d, name in enumerate(self.dimensions):
                if name and name not in self.dimensions[:d]:
                    try:
                        coordinates += _coordinate(dataset, d, name)
                    except (*RAISED, FormatError):  # damage matters where it is asked for
                        left.append(f"the variable {name}")
            groups = tuple(
                files.attributes_of(group)[0] for group in reversed(files.groups_of(dataset))
            )
            fill = None
            is_filled = self.properties.fill_value_defined() == h5d.FILL_VALUE_USER_DEFINED
            if (
                is_filled
                and FILL not in attributes
                and self.dtype.itemsize > 1
                and files.is_netcdf(dataset)
            ):
                fill = dataset.fillvalue
            storage_fill = None
            if is_filled and self.dtype.kind in "biufc":
                storage_fill = dataset.fillvalue
        unlimited = tuple(
            n for n, most in zip(self.dimensions, self.limits, strict=False) if n and most is None
        )
        return Meaning(
            self.dimensions,
            attributes,
            tuple(coordinates),
            groups,
            unlimited,
            tuple(left),
            fill,
            storage_fill,
        )

    @property
    def cut_alignments(self) -> list[tuple[int, ...]]:
        """The chunk's sizes, so that no chunk is decoded twice.

        Without chunks, those of elements as they are.
        """
        return cut_alignments_of(self.dtype, self.sizes) if self.raw else super().cut_alignments

    def is_item(self, key: str) -> bool:
        return key in (f"/{self.key}", self.place)

    def read_task(self, region: Region) -> ReadTask:
        if self.raw:
            return RawReadTask(self.raw, self.identity, region)
        return Hdf5ReadTask(self.path, self.name, self.place, self.dtype, self.identity, region)


def _details_of(properties: h5py.h5p.PropDCID, meaning: str) -> dict[str, str]:
    """How a dataset is stored.

    This is what its type says beyond its data type, its chunks or layout, and its filters.
    """
    layout = properties.get_layout()
    details = {"stored as": meaning} if meaning else {}
    if layout == h5d.CHUNKED:
        details["chunks"] = str(properties.get_chunk())
    else:
        details["layout"] = "compact" if layout == h5d.COMPACT else "contiguous"
    if properties.get_nfilters():
        details["filters"] = ", ".join(filters_of(properties).values())
    return details


def _coordinate(dataset: h5py.Dataset, d: int, name: str) -> list[Variable]:
    """The coordinate of a dimension of that name, if there is one.

    FormatError for what is none, or is large.
    """
    scale = find_scale(dataset, d, name)
    if scale is None or files.is_bare(scale):
        return []
    if (scale.shape or ())[:1] != (dataset.shape[d],):
        raise FormatError("no coordinate")
    return [read_coordinate(scale, name)]


def find_scale(dataset: h5py.Dataset, d: int, name: str) -> h5py.Dataset | None:
    """The scale of a dimension of that name.

    Without scales, it is the dataset of that name in the same group.
    """
    for scale in files.scales_of(dataset, d):
        if str(scale.name).rpartition("/")[2] == name:
            return None if scale == dataset else scale
    scale = files.dataset_in(dataset.parent, name)
    return None if scale == dataset else scale


def read_coordinate(scale: h5py.Dataset, name: str) -> Variable:
    """The coordinate of that name that a dataset holds.

    FormatError for what is none, or is large.
    """
    kind, sizes = scale.dtype.kind, scale.shape or ()
    is_of_characters = scale.dtype == "S1" and len(sizes) == 2  # NetCDF's way
    is_text = is_of_characters or kind == "S" or h5py.check_string_dtype(scale.dtype)
    is_one = len(sizes) == 1 + is_of_characters and (kind in "biuf" or is_text)
    if not is_one or not is_small(sizes, scale.dtype.itemsize, scale.chunks):
        raise FormatError("no coordinate, or a large one")
    require_filters(scale, name)
    attributes, _ = files.attributes_of(scale)
    values = _read_texts(scale) if kind == "O" else scale[()]
    if is_of_characters:
        attributes.pop(ENCODING, None)
        values = joined(values)
    return Variable(name, attributes, as_texts(values) if is_text else values)


def _read_texts(scale: h5py.Dataset) -> NDArray[Any]:
    """Texts of any lengths; FormatError where they are large, which no header says."""
    texts: list[bytes] = []
    for start in range(0, scale.shape[0], _TEXTS_AT_ONCE):
        texts += scale[start : start + _TEXTS_AT_ONCE].tolist()
        if not is_small((sum(map(len, texts)),), 1):
            raise FormatError("large")
    return np.array(texts, object)


@dataclass(frozen=True)
class Hdf5ReadTask:
    """One region of a dataset of a file that must be as it was when its header was read.

    `name` is for messages.
    """

    path: str
    name: str
    place: str
    dtype: np.dtype[Any]
    unchanged: base.Identity
    region: Region

    def read(self) -> NDArray[Any]:
        """The values of the region; FormatError with the first chunk that cannot be read."""
        with LOCK, opened(self.path, self.name, self.unchanged) as file:
            dataset = dataset_at(file, self.place, self.name)
            require_filters(dataset, self.name)
            if storage.ends_in_blosc(dataset):
                self._require_whole_frames(dataset)
            try:
                return storage.read(dataset, self.region, self.dtype)
            except RAISED:
                for box in chunk_boxes(self.region, dataset.chunks) if dataset.chunks else ():
                    try:
                        storage.read(dataset, box, self.dtype)
                    except RAISED:
                        reason = "it fails its checksum or its filter"
                        raise self._damaged(box, dataset, reason) from None
                raise

    def _require_whole_frames(self, dataset: h5py.Dataset) -> None:
        """FormatError with the first chunk whose Blosc frame is truncated.

        Blosc itself does not notice that.
        """
        for box in chunk_boxes(self.region, dataset.chunks):
            start = tuple(part.start // n * n for part, n in zip(box, dataset.chunks, strict=True))
            try:
                storage.require_whole_chunk(dataset, start)
            except FormatError as e:
                raise self._damaged(box, dataset, e.found) from None

    def _damaged(self, box: Region, dataset: h5py.Dataset, reason: str) -> FormatError:
        start = chunk_start(box, dataset.chunks)
        return not_whole(f"the chunk at {start} is damaged: {reason}", self.name)


# What a file holds: neither values nor other files are read.


def contents(address: Address, types: TextTypes) -> Contents | None:
    """What the file or the group holds; None where the address is that of a dataset."""
    items, datasets = list[Item](), dict[str, bool]()
    with opened(address.path) as file:
        group, _, place = files.follow(file, (address.key or "").strip("/"), address.path)
        if not isinstance(group, h5g.GroupID):
            return None
        for path, entry in files.entries(
            group, place
        ):  # one at a time: HDF5 is slow with many open objects
            item = Item(path, depth=path.count("/") - place.count("/") - 1)
            match entry:
                case h5g.GroupID():
                    item = item._replace(
                        what=GROUP, attributes=files.count_attributes(h5py.Group(entry))
                    )
                case h5t.TypeID():
                    item = item._replace(what="a data type")
                case h5d.DatasetID():
                    item, datasets[path] = _tensor(h5py.Dataset(entry), item, types.asked)
                case Exception():
                    item, datasets[path] = _unreadable(item, entry), False
                case str():
                    item = item._replace(what=entry)
            items.append(item)
        count = files.count_attributes(h5py.Group(group))
        label = NETCDF4 if files.has_mark(file) else ""
    meant = {*files.to_choose(datasets)} if address.key is None else set()
    only = only_of([item for item in items if item.key in meant])
    return Contents(address.path, "h5", tuple(items), only, place, count, is_tree=True, label=label)


def _unreadable(item: Item, error: Exception) -> Item:
    if isinstance(error, FormatError):
        return item.refused(error)
    return item._replace(what=f"cannot be read: {str(error)[:80]}", is_damaged=True)


def _tensor(dataset: h5py.Dataset, item: Item, asked: DataType | None) -> tuple[Item, bool]:
    """The item of a dataset, and whether the dataset is a scale.

    It has what the header says, or why the dataset is no tensor.
    """
    try:
        sizes = dataset.id.shape
        kind = dataset.id.get_type()
        item = item._replace(
            sizes=sizes,
            dimensions=files.names_of(dataset),
            attributes=files.count_attributes(dataset),
            details=_details_of(dataset.id.get_create_plist(), storage.meaning(kind)),
        )
        is_scale = files.is_scale(dataset)
        if sizes is None:
            return item._replace(what="no elements"), is_scale
        if is_scale and files.is_bare(dataset):
            return item._replace(what=DIMENSION), True
        try:
            data_type = data_type_of(files.require_numbers(dataset, asked))
        except FormatError as e:
            return item.refused(e), is_scale
        require_sizes(sizes, item.key)
        return item._replace(desc=TensorDesc(data_type, sizes)), is_scale
    except (*RAISED, FormatError) as e:
        return _unreadable(item, e), False
