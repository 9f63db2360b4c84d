"""HDF5 datasets as inputs.

A name is `file.h5::/group/name`, or that of a file with only one dataset.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from math import prod
from typing import Any

import h5py
import numpy as np
from h5py import h5d, h5p, h5t
from numpy.typing import NDArray

from revseq_cli.core.errors import FormatError, about
from revseq_cli.core.tensors import DataType, Region, chunk_boxes, chunk_start
from revseq_cli.files import open_file
from revseq_cli.files.input_file import Identity
from revseq_cli.formats.attributes import (
    FILL,
    Meaning,
    find_coordinates,
)
from revseq_cli.formats.contract import (
    Original,
    ReadTask,
    Source,
    Storage,
)
from revseq_cli.formats.hdf5.attribute_io import has_netcdf_mark, read_neutral_attributes
from revseq_cli.formats.hdf5.elements import (
    LOCK,
    describe_type,
    is_narrow,
    read_elements,
    require_numbers,
)
from revseq_cli.formats.hdf5.files import RAISED, open_dataset, open_hdf5
from revseq_cli.formats.hdf5.filters import (
    ends_in_blosc,
    filters_of,
    require_filters,
    require_whole_chunk,
)
from revseq_cli.formats.hdf5.links import find_dataset, groups_of
from revseq_cli.formats.hdf5.scales import (
    is_netcdf_dataset,
    read_coordinate_of,
    read_dimension_names,
)
from revseq_cli.formats.raw import RawReadTask, RawTensor, list_cut_alignments
from revseq_cli.formats.refusals import is_huge, make_damage_error, refuse_bomb
from revseq_cli.formats.table import describe_head, has_netcdf_suffix, is_hdf5

NETCDF4 = "NetCDF-4"  # what people call an HDF5 file that NetCDF wrote


class Hdf5Source(Source):
    """A dataset of an HDF5 file.

    `name` is what messages call the file, if not by its path. `asked` is the data type of opaque
    elements, which have none in the file. `hard_path` leads to it through hard links only.
    `properties` is its creation property list. `limits` are the largest sizes that it can have,
    None for a dimension without a limit. With `raw`, its elements lie in the file as they are, and
    are read without HDF5.
    """

    identity: Identity
    raw: RawTensor | None = None

    def __init__(
        self, path: str, key: str | None, name: str = "", asked: DataType | None = None
    ) -> None:
        name = name or path
        self.path = path
        self.identity = _require_hdf5(path, name)
        with open_hdf5(path, name, self.identity) as file:
            target = find_dataset(file, key, name)
            self.key = target.name.lstrip("/")
            self.name = f"{name}::{target.name}"
            self.hard_path = target.hard_path
            dataset = h5py.Dataset(target.item)
            self.properties = dataset.id.get_create_plist()
            with about(self.name):
                self.dtype = require_numbers(dataset, asked)
                self._require_readable(dataset)
            self.chunks = dataset.chunks
            self.sizes = dataset.shape
            self.limits = dataset.maxshape
            self.encoded = self.properties.get_nfilters() > 0
            self.dimensions = read_dimension_names(dataset)
            if not is_narrow(dataset.id.get_type()):
                self.raw = self._find_raw(dataset)
            details = {"dataset": f"/{self.key}"} | storage_details(dataset)
            label = NETCDF4 if has_netcdf_mark(file) else ""
            self.storage = Storage("h5", details, label)

    def _find_raw(self, dataset: h5py.Dataset) -> RawTensor | None:
        """The elements that lie in the file as they are; None if they do not."""
        if self.properties.get_layout() != h5d.CONTIGUOUS:
            return None
        if dataset.id.get_storage_size() == 0:  # HDF5 gives unwritten values an offset, too
            return None
        raw = RawTensor(self.path, self.name, dataset.id.get_offset(), self.dtype, self.sizes)
        size = self.identity.size
        if raw.end > size:
            raise make_damage_error(
                f"truncated: {size} bytes, and its values end at {raw.end}", self.name
            )
        return raw

    def _require_readable(self, dataset: h5py.Dataset) -> None:
        """FormatError for a dataset that cannot be read as a tensor."""
        if dataset.shape is None:
            raise FormatError("has a null dataspace: neither sizes nor elements", "a tensor")
        if self.properties.fill_value_defined() == h5d.FILL_VALUE_UNDEFINED:
            # Only such a dataset is asked this: HDF5 reads the index of all chunks to answer.
            status = dataset.id.get_space_status()
            if status == h5d.SPACE_STATUS_NOT_ALLOCATED:
                found = "none of its values was ever written, and it has no fill value"
                raise FormatError(found, "values")
        require_filters(dataset, self.name)
        declared = prod(dataset.shape) * self.dtype.itemsize
        remedy = "write it again without compression: h5repack -f NONE"
        if is_huge(declared):
            refuse_bomb(declared, dataset.id.get_storage_size(), remedy, self.name)

    def __getstate__(self) -> dict[str, Any]:
        """What workers get: all but the properties, which cannot be pickled."""
        return {name: value for name, value in self.__dict__.items() if name != "properties"}

    def original_for(self, output: str) -> Original | None:
        """Its file; None for an output that must be NetCDF, if the file is not."""
        if has_netcdf_suffix(output) and not has_netcdf_suffix(self.path):
            with open_hdf5(self.path, self.name) as file:
                if not is_netcdf_dataset(open_dataset(file, self.hard_path, self.name)):
                    return None
        return super().original_for(output)

    def meaning(self) -> Meaning:
        with open_hdf5(self.path, self.name) as file:
            dataset = open_dataset(file, self.hard_path, self.name)
            attributes, left = read_neutral_attributes(dataset)
            if dataset.id.get_type().get_class() == h5t.ENUM and self.dtype.kind != "b":
                left.append("the names of its enumeration")
            read = functools.partial(read_coordinate_of, dataset)
            meaning = find_coordinates(self.dimensions, read)
            groups = []
            for group in groups_of(dataset):
                group_attributes, _ = read_neutral_attributes(group)
                groups.append(group_attributes)
            storage_fill = self._find_storage_fill(dataset)
            default_fill = None
            if FILL not in attributes:
                default_fill = self._find_default_fill(dataset)
        unlimited = []
        for name, limit in zip(self.dimensions, self.limits, strict=False):
            if name and limit is None:
                unlimited.append(name)
        return meaning._replace(
            attributes=attributes,
            groups=tuple(groups),
            unlimited=tuple(unlimited),
            left=(*left, *meaning.left),
            default_fill=default_fill,
            storage_fill=storage_fill,
        )

    @property
    def has_own_fill(self) -> bool:
        """Whether somebody has set the fill value of the dataset."""
        return bool(self.properties.fill_value_defined() == h5d.FILL_VALUE_USER_DEFINED)

    def _find_storage_fill(self, dataset: h5py.Dataset) -> Any:  # noqa: ANN401 - a NumPy number
        """The fill value that somebody has set, or None."""
        if self.has_own_fill and self.dtype.kind in "biufc":
            return dataset.fillvalue
        return None

    def _find_default_fill(self, dataset: h5py.Dataset) -> Any:  # noqa: ANN401 - a NumPy number
        """NetCDF's own fill value, which it sets for a variable without that attribute, or None.

        Elements of one byte have none.
        """
        if not self.has_own_fill or self.dtype.itemsize == 1:
            return None
        if not is_netcdf_dataset(dataset):
            return None
        return dataset.fillvalue

    @property
    def cut_alignments(self) -> list[tuple[int, ...]]:
        """The sizes of a chunk, so that none is decoded twice, or the alignments of `raw`."""
        if self.raw:
            return list_cut_alignments(self.dtype, self.sizes)
        return super().cut_alignments

    def is_item(self, key: str) -> bool:
        return key in (f"/{self.key}", self.hard_path)

    def read_task(self, region: Region) -> ReadTask:
        if self.raw:
            return RawReadTask(self.raw, self.identity, region)
        return Hdf5ReadTask(self.path, self.name, self.hard_path, self.dtype, self.identity, region)


def _require_hdf5(path: str, name: str) -> Identity:
    """The state of a file; FormatError for a file that is not HDF5, and only has its suffix."""
    with open_file(path, name=name) as fd:
        if not is_hdf5(fd):
            seems, hint = describe_head(fd.read(64, 0))
            found = f"not an HDF5 file: it looks like {seems}"
            raise FormatError(found, "an HDF5 file by its suffix", hint, name)
        return fd.identity


def storage_details(dataset: h5py.Dataset) -> dict[str, str]:
    """How a dataset is stored, in words: its type, its chunks or layout, and its filters."""
    details = {}
    type_in_words = describe_type(dataset.id.get_type())
    if type_in_words:
        details["stored as"] = type_in_words
    properties: h5p.PropDCID = dataset.id.get_create_plist()
    layout = properties.get_layout()
    if layout == h5d.CHUNKED:
        details["chunks"] = str(properties.get_chunk())
    else:
        details["layout"] = "compact" if layout == h5d.COMPACT else "contiguous"
    if properties.get_nfilters():
        details["filters"] = ", ".join(filters_of(properties).values())
    return details


@dataclass(frozen=True)
class Hdf5ReadTask:
    """Reads one region of a dataset, from a file whose state must still be `unchanged`.

    `name` is for messages.
    """

    path: str
    name: str
    hard_path: str
    dtype: np.dtype[Any]
    unchanged: Identity
    region: Region

    def read(self) -> NDArray[Any]:
        """The values of the region; FormatError with the first chunk that cannot be read."""
        with LOCK, open_hdf5(self.path, self.name, self.unchanged) as file:
            dataset = open_dataset(file, self.hard_path, self.name)
            require_filters(dataset, self.name)
            if ends_in_blosc(dataset):
                self._require_whole_frames(dataset)
            try:
                return read_elements(dataset, self.region, self.dtype)
            except RAISED:
                self._refuse_damaged_chunk(dataset)
                raise

    def _refuse_damaged_chunk(self, dataset: h5py.Dataset) -> None:
        """FormatError with the first chunk that cannot be read."""
        if not dataset.chunks:
            return
        for box in chunk_boxes(self.region, dataset.chunks):
            try:
                read_elements(dataset, box, self.dtype)
            except RAISED:
                reason = "it fails its checksum or its filter"
                raise self._report_damage(box, dataset, reason) from None

    def _require_whole_frames(self, dataset: h5py.Dataset) -> None:
        """FormatError with the first chunk of a truncated Blosc frame, which Blosc overlooks."""
        for box in chunk_boxes(self.region, dataset.chunks):
            try:
                require_whole_chunk(dataset, tuple(chunk_start(box, dataset.chunks)))
            except FormatError as e:
                raise self._report_damage(box, dataset, e.found) from None

    def _report_damage(self, box: Region, dataset: h5py.Dataset, reason: str) -> FormatError:
        start = chunk_start(box, dataset.chunks)
        return make_damage_error(f"the chunk at {start} is damaged: {reason}", self.name)
