"""HDF5 datasets as inputs: `file.h5::/group/name`, or the file's only dataset."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from revseq_cli.core.errors import FormatError, about
from revseq_cli.formats import file_io
from revseq_cli.formats.contract import (
    ReadTask,
    Source,
    Storage,
    chunk_boxes,
    chunk_start,
    not_whole,
    refuse_bomb,
)
from revseq_cli.formats.hdf5 import names, types
from revseq_cli.formats.hdf5.files import RAISED, dataset_at, opened
from revseq_cli.formats.hdf5.filters import filters_of, require_filters
from revseq_cli.formats.meaning import ENCODING, FILL, Attributes, Meaning, Variable, as_texts, is_small, joined
from revseq_cli.formats.raw import RawReadTask, RawTensor, cut_alignments_of
from revseq_cli.formats.table import is_hdf5, is_netcdf, looks_like

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from revseq_cli.core.tensors import DataType
    from revseq_cli.formats.contract import Region

_LAYOUTS = {h5py.h5d.COMPACT: "compact", h5py.h5d.CONTIGUOUS: "contiguous", h5py.h5d.VIRTUAL: "virtual"}
_MATLAB_NUMBERS = {
    "double", "single", "logical", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"
}  # fmt: skip
_TEXTS_AT_ONCE = 8  # that are read before their lengths are looked at: many may lie at one place in the file


def _check(dataset: h5py.Dataset, dtype: np.dtype[Any], where: str) -> None:
    """FormatError for a dataset that cannot be read as a tensor of that dtype."""
    if dataset.shape is None:
        raise FormatError("has a null dataspace: neither sizes nor elements", "a tensor", where=where)
    if types.lacks_values(dataset):
        raise FormatError("none of its values was ever written, and it has no fill value", "values", where=where)
    require_filters(dataset, where)
    declared, stored = prod(dataset.shape) * dtype.itemsize, dataset.id.get_storage_size()
    refuse_bomb(declared, stored, "write it again without compression: h5repack -f NONE", where)


def refuse_other_programs(dataset: h5py.h5d.DatasetID) -> None:
    """FormatError for numbers that stand for something else: MATLAB's texts, and the sizes of its empty arrays."""
    kind = names.text_of(dataset, b"MATLAB_class").decode("ascii", "replace")
    if kind and kind not in _MATLAB_NUMBERS:
        raise FormatError(f"its data type is MATLAB's {kind}", "numbers")
    if h5py.h5a.exists(dataset, b"MATLAB_empty") and names.numbers_of(h5py.Dataset(dataset), "MATLAB_empty") == [1]:
        found = "is an empty array of MATLAB, whose numbers are its sizes"
        raise FormatError(found, "an array with elements")


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


class Hdf5Source(Source):
    """A dataset of an HDF5 file.

    `name` is what to call the file, where that is not its path; `asked` is the data type of opaque elements, whose type
    has no name in the file. `place` is a path to it of hard links. `properties` are those of its creation, and `limits`
    the largest sizes that it can have, None for a dimension that can grow.
    """

    def __init__(self, path: str, key: str | None, name: str = "", asked: DataType | None = None) -> None:
        name = name or path
        with file_io.opened(path, name=name) as fd:
            self.identity = file_io.identity(fd)
            head = file_io.read_some(fd, 64, 0, name)
            holds_hdf5 = is_hdf5(fd, name)
        if not holds_hdf5:
            seems, hint = looks_like(head)
            raise FormatError(f"is not an HDF5 file: it looks like {seems}", "an HDF5 file by its suffix", hint, name)
        with opened(path, name) as file:
            dataset, own_name, self.place = names.find(file, key, name)
            self.key = own_name.lstrip("/")
            self.name = f"{name}::{own_name}"
            kind = dataset.id.get_type()
            with about(self.name):
                refuse_other_programs(dataset.id)
                self.dtype = types.dtype_of(kind, asked)
            _check(dataset, self.dtype, self.name)
            inner = types.inner_sizes(kind)
            self.sizes, self.limits = (*dataset.shape, *inner), (*dataset.maxshape, *inner)
            self.chunks = (*dataset.chunks, *inner) if dataset.chunks else None
            self.properties = dataset.id.get_create_plist()
            self.encoded = self.properties.get_nfilters() > 0
            self._raw = self._as_raw(dataset, path)
            self.storage = self._describe(kind)
            self.dimensions, self.attributes = names.names_of(dataset), h5py.h5a.get_num_attrs(dataset.id)
        self.path, self._unchanged = path, self.identity

    def __getstate__(self) -> dict[str, Any]:
        """What workers get: all but the properties, which are about new files, and do not pickle."""
        return {name: value for name, value in self.__dict__.items() if name not in ("properties", "_meaning")}

    def _as_raw(self, dataset: h5py.Dataset, path: str) -> RawTensor | None:
        """Where a contiguous dataset's elements lie in the file; None for others, or where HDF5 converts them."""
        offset = offset_of(dataset)
        if offset is None or types.is_converted(dataset.id.get_type()):
            return None
        tensor = RawTensor(path, self.name, offset, self.dtype, self.sizes)
        if self.identity and tensor.end > self.identity.size:
            raise not_whole(f"is truncated: {self.identity.size} bytes, and its values end at {tensor.end}", self.name)
        return tensor

    def _describe(self, kind: h5py.h5t.TypeID) -> Storage:
        place = {"dataset": f"/{self.key}"}
        if self.place.replace(names.NOT_COORDINATE, "") != place["dataset"]:
            place["link to"] = self.place
        return Storage("h5", place | details_of(self.properties, types.meaning(kind)))

    def can_copy_to(self, path: str) -> bool:
        """Whether a copy of the file may have that name: only that of a NetCDF file is one."""
        if not is_netcdf(path) or is_netcdf(self.path):
            return True
        with opened(self.path, self.name) as file:
            return names.is_netcdf(dataset_at(file, self.place, self.name))

    def meaning(self) -> Meaning:
        """What the file says of the dataset."""
        return self._meaning

    @functools.cached_property
    def _meaning(self) -> Meaning:
        with opened(self.path, self.name) as file:
            dataset = dataset_at(file, self.place, self.name)
            attributes, left = names.attributes_of(dataset)
            is_enumeration = dataset.id.get_type().get_class() == h5py.h5t.ENUM and self.dtype.kind != "b"
            left += ["the names of its enumeration"] if is_enumeration else []
            coordinates, lost = _coordinates(dataset, self.dimensions)
            groups: list[Attributes] = []
            group = dataset.parent
            while True:
                groups.insert(0, names.attributes_of(group)[0])
                if group.name == "/":
                    break
                group = group.parent
            fill = None
            is_filled = self.properties.fill_value_defined() == h5py.h5d.FILL_VALUE_USER_DEFINED
            if is_filled and FILL not in attributes and self.dtype.itemsize > 1 and names.is_netcdf(dataset):
                fill = dataset.fillvalue
        unlimited = tuple(n for n, most in zip(self.dimensions, self.limits, strict=False) if n and most is None)
        left += [f"the variable {name}" for name in lost]
        return Meaning(self.dimensions, attributes, tuple(coordinates), tuple(groups), unlimited, tuple(left), fill)

    @property
    def cut_alignments(self) -> list[tuple[int, ...]]:
        """The chunk's sizes, so that no chunk is decoded twice; without chunks, those of elements as they are."""
        return cut_alignments_of(self.dtype, self.sizes) if self._raw else super().cut_alignments

    def read_task(self, region: Region) -> ReadTask:
        """A read task that opens the file and reads the region."""
        if self._raw:
            return RawReadTask(self._raw, self._unchanged, region)
        return Hdf5ReadTask(self.path, self.name, self.place, self.dtype, self._unchanged, region)


def _coordinates(dataset: h5py.Dataset, dimensions: tuple[str, ...]) -> tuple[list[Variable], list[str]]:
    """The coordinates of its dimensions, and the names of variables of dimensions that are none, or are large.

    The coordinate is the dimension's scale, or without scales the dataset of its name in the same group.
    """
    found, lost = [], []
    for d, (name, size) in enumerate(zip(dimensions, dataset.shape, strict=False)):
        if not name or name in dimensions[:d]:
            continue
        try:
            attached = [scale for scale in names.scales_of(dataset, d) if scale.name.rpartition("/")[2] == name]
            scale = attached[0] if attached else names.dataset_in(dataset.parent, name)
            if scale is None or scale == dataset or names.is_bare(scale.id):
                continue
            variable = _variable(scale, name, size)
        except (*RAISED, FormatError):  # damage matters where it is asked for
            variable = None
        if variable:
            found.append(variable)
        else:
            lost.append(name)
    return found, lost


def _variable(dataset: h5py.Dataset, name: str, size: int) -> Variable | None:
    """The coordinate of a dimension of that name and size; None for what is none, is of another type, or is large."""
    kind, sizes = dataset.dtype.kind, dataset.shape
    is_of_characters = kind == "S" and dataset.dtype.itemsize == 1 and len(sizes or ()) == 2  # NetCDF's way
    if kind not in "biufSO" or sizes is None or sizes[:1] != (size,) or len(sizes) != 1 + is_of_characters:
        return None
    if kind == "O" and h5py.check_string_dtype(dataset.dtype) is None:
        return None
    if not is_small(sizes, dataset.dtype.itemsize, dataset.chunks):
        return None
    require_filters(dataset, name)
    attributes, _ = names.attributes_of(dataset)
    if is_of_characters:
        attributes.pop(ENCODING, None)
        return Variable(name, (name,), attributes, joined(dataset[()]))
    if kind != "O":
        values = dataset[()]
        return Variable(name, (name,), attributes, as_texts(values) if kind == "S" else values)
    texts: list[bytes] = []
    for start in range(0, size, _TEXTS_AT_ONCE):
        texts += dataset[start : start + _TEXTS_AT_ONCE].tolist()
        if not is_small((sum(map(len, texts)),), 1):
            return None
    return Variable(name, (name,), attributes, as_texts(np.array(texts, object)))


@dataclass(frozen=True)
class Hdf5ReadTask:
    """One region of a dataset of a file that must be as it was when its header was read; `name` is for messages."""

    path: str
    name: str
    place: str
    dtype: np.dtype[Any]
    unchanged: file_io.Identity
    region: Region

    def read(self) -> NDArray[Any]:
        """The values of the region."""
        with file_io.opened(self.path, self.unchanged, self.name), opened(self.path, self.name) as file:
            dataset = dataset_at(file, self.place, self.name)
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
