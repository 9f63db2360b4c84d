"""HDF5 datasets as inputs: `file.h5::/group/name`, or the file's only dataset."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from revseq_cli.formats.contract import Source, Storage, Ticket, refuse_bomb
from revseq_cli.formats.hdf5 import links, scales, types
from revseq_cli.formats.hdf5.files import RAISED, opened
from revseq_cli.formats.hdf5.filters import filters_in, filters_of, require_filters
from revseq_cli.formats.hdf5.index import coding_of, places_of
from revseq_cli.formats.hdf5.library import h5py
from revseq_cli.formats.hdf5.origin import Origin
from revseq_cli.formats.hdf5.places import ChunkTicket, damaged
from revseq_cli.formats.raw import RawTensor, RawTicket
from revseq_cli.formats.recognition import is_hdf5, looks_like
from revseq_cli.formats.regions import chunk_boxes
from revseq_cli.formats.storage import positioned
from revseq_cli.ground.errors import FormatError, TensorIOError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from revseq_cli.formats.regions import Region
    from revseq_cli.ground.tensors import DataType

_LAYOUTS = {h5py.h5d.COMPACT: "compact", h5py.h5d.CONTIGUOUS: "contiguous", h5py.h5d.VIRTUAL: "virtual"}


def names_in(path: str) -> list[str]:
    """The path of every dataset that hard links lead to."""
    with positioned.opened(path), opened(path) as file:
        return links.names_in(file)


def _check(dataset: h5py.Dataset, dtype: np.dtype[Any], where: str) -> None:
    """FormatError for a dataset that cannot be read as a tensor of that dtype."""
    refuse_other_files(dataset, where)
    if dataset.shape is None:
        raise FormatError("has a null dataspace: neither sizes nor elements", "a tensor", where=where)
    if types.lacks_values(dataset):
        raise FormatError("none of its values was ever written, and it has no fill value", "values", where=where)
    require_filters(dataset, where)
    declared, stored = prod(dataset.shape) * dtype.itemsize, dataset.id.get_storage_size()
    refuse_bomb(declared, stored, "if it is what you want, write it anew without compression: h5repack -f NONE", where)


def _dtype_of(dataset: h5py.Dataset, asked: DataType | None, where: str) -> np.dtype[Any]:
    try:
        return types.dtype_of(dataset.id.get_type(), asked)
    except FormatError as e:
        raise e.about(where) from None


def refuse_other_files(dataset: h5py.Dataset, where: str) -> None:
    """FormatError for a dataset whose values stand in other files."""
    properties = dataset.id.get_create_plist()
    if properties.get_layout() == h5py.h5d.VIRTUAL:
        raise FormatError("is a virtual dataset, made of other files", "values in the file itself", where=where)
    if properties.get_external_count():
        raise FormatError("keeps its values in another file", "values in the file itself", where=where)


def details_of(dataset: h5py.Dataset) -> dict[str, str]:
    """How a dataset is stored: what its type says beyond its data type, chunks or layout, and filters."""
    properties = dataset.id.get_create_plist()
    meaning, layout = types.meaning(dataset.id.get_type()), properties.get_layout()
    details = {"stored as": meaning} if meaning else {}
    details |= {"chunks": str(properties.get_chunk())} if layout == h5py.h5d.CHUNKED else {"layout": _LAYOUTS[layout]}
    if properties.get_nfilters():
        details["filters"] = ", ".join(filters_in(properties).values())
    return details


class Hdf5Source(Source):
    """A dataset of an HDF5 file.

    `name` is what to call the file, where that is not its path; `asked` is the data type of opaque elements, whose type
    has no name in the file. `origin` has the facts that a new HDF5 file takes over.
    """

    def __init__(self, path: str, key: str | None, name: str = "", asked: DataType | None = None) -> None:
        with positioned.opened(path) as fd:
            self.identity = positioned.identity(fd)
            head = positioned.read_some(fd, 64, 0, path)
            holds_hdf5 = is_hdf5(fd, path)
        if not holds_hdf5:
            seems, hint = looks_like(head, path)
            raise FormatError(f"is not an HDF5 file: it looks like {seems}", "an HDF5 file by its suffix", hint, path)
        with opened(path) as file:
            dataset, own_name, self._place = links.find(file, key, path)
            self.key = own_name.lstrip("/")
            self.name = f"{name or path}::{own_name}"
            self.dtype = _dtype_of(dataset, asked, self.name)
            _check(dataset, self.dtype, self.name)
            self.sizes, self.chunks = dataset.shape, dataset.chunks
            self.encoded = bool(filters_of(dataset))
            self._raw = self._as_raw(dataset, path)
            self._coding = coding_of(dataset, self.dtype)
            self.storage = self._describe(dataset)
            self.origin = Origin.of(dataset)
            self.dimensions, self.attributes = scales.names_of(dataset), h5py.h5a.get_num_attrs(dataset.id)
        self.path, self._unchanged = path, self.identity
        # HDF5 itself has one lock for all threads.
        self.reads_in_parallel = self._raw is not None or self._coding is not None

    def __getstate__(self) -> dict[str, Any]:
        """What workers get: all but the origin, which is about new files, and holds objects that do not pickle.

        Nor do they get the places of all chunks, which may be many: where a worker makes tickets, HDF5 reads.
        """
        return {name: value for name, value in self.__dict__.items() if name != "origin"} | {"_places": None}

    def _as_raw(self, dataset: h5py.Dataset, path: str) -> RawTensor | None:
        """Where a contiguous dataset's elements lie in the file; None for a chunked one, or one without elements."""
        offset = None if self.chunks else dataset.id.get_offset()
        if offset is None:
            return None
        end = offset + prod(self.sizes) * self.dtype.itemsize
        if self.identity and end > self.identity.size:
            found = f"is truncated: {self.identity.size} bytes, and its values end at {end}"
            raise FormatError(found, "the whole file", "fetch it again", self.name)
        return RawTensor(path, self.name, offset, self.dtype, self.sizes)

    def _describe(self, dataset: h5py.Dataset) -> Storage:
        place = {"dataset": f"/{self.key}"}
        if self._place != place["dataset"]:
            place["link to"] = self._place
        return Storage("h5", place | details_of(dataset))

    @property
    def grain(self) -> tuple[int, ...]:
        """The chunk's sizes, so that no chunk is decoded twice; else a run that is worth a system call of its own."""
        return self.chunks or (self._raw.grain if self._raw else super().grain)

    @property
    def finest_grain(self) -> tuple[int, ...]:
        """The chunk's sizes, or a line of the processor's cache."""
        return self.chunks or (self._raw.finest_grain if self._raw else super().finest_grain)

    def ticket(self, region: Region) -> Ticket:
        """A ticket that opens the file and reads the region."""
        if self._raw:
            return RawTicket(self._raw, self._unchanged, region)
        if self.chunks and self._coding is not None and self._places is not None:
            grid = tuple(slice(r.start // c, -(-r.stop // c)) for r, c in zip(region, self.chunks, strict=True))
            found = self._places[grid]
            if found["offset"].all():
                where = f"{self.path}::{self._place}"
                means = self.dtype, self.chunks, self._coding, self._unchanged
                return ChunkTicket(self.path, where, *means, region, found)
        return Hdf5Ticket(self.path, self._place, self.dtype, self._unchanged, region)

    @functools.cached_property
    def _places(self) -> NDArray[Any] | None:
        """Where each chunk lies; None where HDF5 cannot tell, and says why when it reads."""
        try:
            with positioned.opened(self.path, self._unchanged, self.name) as fd, opened(self.path, self.name) as file:
                return places_of(file[self._place], self.dtype, positioned.identity(fd).size)
        except (FormatError, TensorIOError, OverflowError, TypeError):  # the last two are h5py's for a damaged index
            return None


@dataclass(frozen=True)
class Hdf5Ticket:
    """One region of a dataset of a file that must be as it was when its header was read."""

    path: str
    dataset: str
    dtype: np.dtype[Any]
    unchanged: positioned.Identity
    region: Region

    def read(self) -> NDArray[Any]:
        """The values of the region."""
        where = f"{self.path}::{self.dataset}"
        with positioned.opened(self.path, self.unchanged), opened(self.path, where) as file:
            dataset = file[self.dataset]
            require_filters(dataset, where)
            try:
                return types.read(dataset, self.region, self.dtype)
            except RAISED:
                self._blame_chunk(dataset, where)
                raise

    def _blame_chunk(self, dataset: h5py.Dataset, where: str) -> None:
        """FormatError with the first chunk of the region that cannot be read."""
        if dataset.chunks:
            for box in chunk_boxes(self.region, dataset.chunks):
                try:
                    types.read(dataset, box, self.dtype)
                except RAISED:
                    raise damaged(box, where) from None
