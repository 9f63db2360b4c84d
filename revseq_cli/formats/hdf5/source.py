"""HDF5 datasets as inputs: `file.h5::/group/name`, or the file's only dataset."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.core.errors import FormatError, about
from revseq_cli.formats import file_io
from revseq_cli.formats.contract import (
    Coordinate,
    ReadTask,
    Source,
    Storage,
    chunk_boxes,
    chunk_start,
    not_whole,
    refuse_bomb,
)
from revseq_cli.formats.hdf5 import links, meaning, netcdf, types
from revseq_cli.formats.hdf5.files import RAISED, opened
from revseq_cli.formats.hdf5.filters import filters_of, properties_of, require_filters
from revseq_cli.formats.hdf5.library import h5py
from revseq_cli.formats.meaning import CONVENTIONS, Meaning
from revseq_cli.formats.raw import RawReadTask, RawTensor, cut_alignments_of
from revseq_cli.formats.recognition import is_hdf5, looks_like

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from revseq_cli.core.tensors import DataType
    from revseq_cli.formats.contract import Region

_LAYOUTS = {h5py.h5d.COMPACT: "compact", h5py.h5d.CONTIGUOUS: "contiguous", h5py.h5d.VIRTUAL: "virtual"}


def names_in(path: str) -> list[str]:
    """The path of every dataset that hard links lead to."""
    with file_io.opened(path), opened(path) as file:
        return links.names_in(file)


def _check(dataset: h5py.Dataset, dtype: np.dtype[Any], where: str) -> None:
    """FormatError for a dataset that cannot be read as a tensor of that dtype."""
    refuse_other_files(dataset.id.get_create_plist(), where)
    if dataset.shape is None:
        raise FormatError("has a null dataspace: neither sizes nor elements", "a tensor", where=where)
    if types.lacks_values(dataset):
        raise FormatError("none of its values was ever written, and it has no fill value", "values", where=where)
    require_filters(dataset, where)
    declared, stored = prod(dataset.shape) * dtype.itemsize, dataset.id.get_storage_size()
    refuse_bomb(declared, stored, "write it again without compression: h5repack -f NONE", where)


def refuse_other_files(properties: h5py.h5p.PropDCID, where: str) -> None:
    """FormatError for a dataset whose values stand in other files; these are the properties of its creation."""
    if properties.get_layout() == h5py.h5d.VIRTUAL:
        raise FormatError("is a virtual dataset, made of other files", "values in the file itself", where=where)
    if properties.get_external_count():
        raise FormatError("keeps its values in another file", "values in the file itself", where=where)


def details_of(properties: h5py.h5p.PropDCID, meaning: str) -> dict[str, str]:
    """How a dataset is stored: what its type says beyond its data type, chunks or layout, and filters."""
    layout = properties.get_layout()
    details = {"stored as": meaning} if meaning else {}
    details |= {"chunks": str(properties.get_chunk())} if layout == h5py.h5d.CHUNKED else {"layout": _LAYOUTS[layout]}
    if properties.get_nfilters():
        details["filters"] = ", ".join(filters_of(properties).values())
    return details


def offset_of(dataset: h5py.Dataset) -> int | None:
    """Where the elements of a contiguous dataset begin in the file; None for others, and where none was ever written.

    HDF5 is not asked about those: in a file with a user block it would name a place in the middle of that block.
    """
    is_contiguous = dataset.id.get_create_plist().get_layout() == h5py.h5d.CONTIGUOUS
    return dataset.id.get_offset() if is_contiguous and dataset.id.get_storage_size() else None


class Origin(NamedTuple):
    """What a new HDF5 file takes over from the file of its input, beside attributes and scales.

    The facts are collected while the file is open for its header.

    `properties` ask for a dataset with the same storage. `link_order` says how the root group remembers the order in
    which its links were made, 0 for not at all. `scales` are the names of the scales of the dataset's dimensions;
    `numbers_dimensions` says whether NetCDF has numbered one of them, `is_classic` whether the file is of NetCDF's
    classic model, and `is_netcdf` whether it is NetCDF's at all.
    """

    properties: h5py.h5p.PropDCID
    link_order: int
    scales: tuple[str, ...]
    numbers_dimensions: bool
    is_classic: bool
    is_netcdf: bool

    @classmethod
    def of(cls, dataset: h5py.Dataset) -> Origin:
        """The facts about a dataset of an open file."""
        link_order = dataset.file["/"].id.get_create_plist().get_link_creation_order()
        try:
            attached = [scale for d in range(dataset.ndim) for scale in netcdf.scales_of(dataset, d) if scale.name]
            attached = [scale for scale in attached if scale != dataset]
            numbered, is_classic = any(map(netcdf.has_number, attached)), netcdf.is_classic(dataset.file)
            is_netcdf = netcdf.is_netcdf(dataset.file, [dataset, *attached])
        except RAISED:  # a damaged scale matters only where it is copied, which raises the same error
            attached, numbered, is_classic, is_netcdf = [], False, False, False
        names = tuple(scale.name for scale in attached)
        return cls(properties_of(dataset), link_order, names, numbered, is_classic, is_netcdf)


class Hdf5Source(Source):
    """A dataset of an HDF5 file.

    `name` is what to call the file, where that is not its path; `asked` is the data type of opaque elements, whose type
    has no name in the file. `origin` has the facts that a new HDF5 file takes over. `is_plain` is False for elements
    that a new file stores otherwise: arrays, which are further dimensions here, and integers of fewer bits than their
    bytes.
    """

    def __init__(self, path: str, key: str | None, name: str = "", asked: DataType | None = None) -> None:
        name = name or path
        with file_io.opened(path, name=name) as fd:
            self.identity = file_io.identity(fd)
            head = file_io.read_some(fd, 64, 0, name)
            holds_hdf5 = is_hdf5(fd, name)
        if not holds_hdf5:
            seems, hint = looks_like(head, name)
            raise FormatError(f"is not an HDF5 file: it looks like {seems}", "an HDF5 file by its suffix", hint, name)
        with opened(path, name) as file:
            dataset, own_name, self._place = links.find(file, key, name)
            self.key = own_name.lstrip("/")
            self.name = f"{name}::{own_name}"
            with about(self.name):
                self.dtype = types.dtype_of(dataset.id.get_type(), asked)
            _check(dataset, self.dtype, self.name)
            kind = dataset.id.get_type()
            self.is_plain = types.is_plain(kind)
            inner = types.inner_sizes(kind)
            self.sizes = (*dataset.shape, *inner)
            self.chunks = (*dataset.chunks, *inner) if dataset.chunks else None
            self.encoded = bool(filters_of(dataset.id.get_create_plist()))
            self._raw = self._as_raw(dataset, path)
            self.storage = self._describe(dataset)
            self.origin = Origin.of(dataset)
            self.dimensions, self.attributes = netcdf.names_of(dataset), h5py.h5a.get_num_attrs(dataset.id)
        self.path, self._unchanged = path, self.identity

    def __getstate__(self) -> dict[str, Any]:
        """What workers get: all but the origin, which is about new files, and holds objects that do not pickle."""
        return {name: value for name, value in self.__dict__.items() if name != "origin"}

    def _as_raw(self, dataset: h5py.Dataset, path: str) -> RawTensor | None:
        """Where a contiguous dataset's elements lie in the file; None for others, or where HDF5 converts them."""
        offset = offset_of(dataset)
        if offset is None or types.is_converted(dataset.id.get_type()):
            return None
        tensor = RawTensor(path, self.name, offset, self.dtype, self.sizes)
        if self.identity and tensor.end > self.identity.size:
            raise not_whole(f"is truncated: {self.identity.size} bytes, and its values end at {tensor.end}", self.name)
        return tensor

    def _describe(self, dataset: h5py.Dataset) -> Storage:
        place = {"dataset": f"/{self.key}"}
        if self._place != place["dataset"]:
            place["link to"] = self._place
        return Storage("h5", place | details_of(dataset.id.get_create_plist(), types.meaning(dataset.id.get_type())))

    @functools.cached_property
    def _conventions(self) -> dict[str, list[Any]]:
        with opened(self.path, self.name) as file:
            return netcdf.conventions_of(file[self._place], CONVENTIONS)

    def meaning(self) -> Meaning:
        """What the file says of the dataset."""
        return meaning.meaning_of(self.path, self.name, self._place, self.dtype, self.dimensions)

    def conventions(self) -> dict[str, list[Any]]:
        """The values of each attribute among CONVENTIONS that it has."""
        return self._conventions

    def coordinate(self, dimension: int) -> Coordinate | None:
        """The first scale of a dimension, if it has one value for each index."""
        with opened(self.path, self.name) as file:
            scale = next(iter(netcdf.scales_of(file[self._place], dimension)), None)
            if scale is None or not scale.name or scale.shape != (self.sizes[dimension],):
                return None
            if netcdf.is_bare_dimension(scale.id):
                return None
            refuse_other_files(scale.id.get_create_plist(), self.name)
            units, name = netcdf.text_of(scale.id, b"units"), scale.name
        return Coordinate(units.decode("utf-8", "replace"), functools.partial(self._read_scale, name))

    def _read_scale(self, name: str, part: slice) -> NDArray[Any]:
        with opened(self.path, self.name) as file:
            return np.asarray(file[name][part])

    @property
    def cut_alignments(self) -> list[tuple[int, ...]]:
        """The chunk's sizes, so that no chunk is decoded twice; without chunks, those of elements as they are."""
        return cut_alignments_of(self.dtype, self.sizes) if self._raw else super().cut_alignments

    def read_task(self, region: Region) -> ReadTask:
        """A read task that opens the file and reads the region."""
        if self._raw:
            return RawReadTask(self._raw, self._unchanged, region)
        return Hdf5ReadTask(self.path, self.name, self._place, self.dtype, self._unchanged, region)


@dataclass(frozen=True)
class Hdf5ReadTask:
    """One region of a dataset of a file that must be as it was when its header was read; `name` is for messages."""

    path: str
    name: str
    dataset: str
    dtype: np.dtype[Any]
    unchanged: file_io.Identity
    region: Region

    def read(self) -> NDArray[Any]:
        """The values of the region."""
        with file_io.opened(self.path, self.unchanged, self.name), opened(self.path, self.name) as file:
            dataset = file[self.dataset]
            require_filters(dataset, self.name)
            try:
                return types.read(dataset, self.region, self.dtype)
            except RAISED:
                self._blame_chunk(dataset)
                raise

    def _blame_chunk(self, dataset: h5py.Dataset) -> None:
        """FormatError with the first chunk of the region that cannot be read."""
        if dataset.chunks:
            for box in chunk_boxes(self.region[: dataset.ndim], dataset.chunks):
                try:
                    types.read(dataset, box, self.dtype)
                except RAISED:
                    place = chunk_start(box, dataset.chunks)
                    found = f"the chunk at {place} is damaged: it fails its checksum or its filter"
                    raise not_whole(found, self.name) from None
