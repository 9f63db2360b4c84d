"""HDF5 datasets: `file.h5::/group/name`, or the file's only dataset."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import h5py

from revseq_cli.errors import FormatError, RevseqError, TensorIOError, listed
from revseq_cli.formats import positioned
from revseq_cli.formats.base import HDF5_MAGIC, FileSink, Handing, Outlet, Source, Storage, Ticket, looks_like
from revseq_cli.formats.types import data_type_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from revseq_cli.formats.base import Parcel
    from revseq_cli.formats.newfile import NewFile
    from revseq_cli.plan import Region

# Where a tensor of another format stands in a new file, when -o does not say.
DEFAULT_DATASET = "/tensor"
# What h5py raises for a file that is damaged, whatever it was asked for.
_DAMAGE = (OSError, RuntimeError, KeyError, ValueError, TypeError, UnicodeDecodeError)


@contextlib.contextmanager
def _opened(path: str, where: str = "") -> Iterator[h5py.File]:
    """The file, for reading; what h5py raises while it is open is told in our form."""
    try:
        with h5py.File(path, "r") as file:
            yield file
    except RevseqError:
        raise
    except _DAMAGE as e:
        if "unable to lock file" in str(e):
            raise TensorIOError("is being written by another process", hint="try again later", where=path) from None
        raise TensorIOError(
            "HDF5 cannot read it: it is truncated or damaged, or a filter is missing", "a whole HDF5 file",
            where=where or path,
        ) from None  # fmt: skip


def _parts(inner: str, path: str) -> list[str]:
    """The steps of a dataset's path; FormatError for one that HDF5 would read in another way than it looks."""
    parts = inner.strip("/").split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise FormatError(f"{inner!r} is no dataset's name", "a path such as /group/name", where=path)
    return parts


def dataset_names(file: h5py.File) -> list[str]:
    """Every dataset that hard links lead to; other links are never followed."""
    names: list[str] = []
    pending: list[tuple[str, h5py.Group]] = [("", file)]
    seen = set()
    while pending:
        prefix, group = pending.pop()
        address = h5py.h5o.get_info(group.id).addr
        if address in seen:  # a group can be a member of itself
            continue
        seen.add(address)
        for key in group:
            if isinstance(group.get(key, getlink=True), h5py.HardLink):
                item = group[key]
                if isinstance(item, h5py.Dataset):
                    names.append(f"{prefix}/{key}")
                elif isinstance(item, h5py.Group):
                    pending.append((f"{prefix}/{key}", item))
    return sorted(names)


def _find(file: h5py.File, inner: str | None, path: str) -> h5py.Dataset:
    """The named dataset, or the only one; each step of the way is looked at before it is taken."""
    names = dataset_names(file)
    hint = f"try {path}::{names[0]}" if names else ""
    if inner is None:
        if not names:
            raise FormatError("has no dataset", "a tensor", where=path)
        if len(names) > 1:
            raise FormatError(f"has {len(names)} datasets: {listed(names)}", "the name of one", hint, path)
        inner = names[0]
    parts = _parts(inner, path)
    name = "/" + "/".join(parts)
    where = f"{path}::{name}"
    item: Any = file
    for part in parts:
        link = item.get(part, getlink=True) if isinstance(item, h5py.Group) else None
        if link is None:
            raise FormatError("no such dataset", f"one of {listed(names)}" if names else "", hint, where)
        if not isinstance(link, h5py.HardLink):
            kind = "an external link" if isinstance(link, h5py.ExternalLink) else "a soft link"
            raise FormatError(f"{part} is {kind}", "a dataset inside the file; links are not followed", where=where)
        item = item[part]
    if not isinstance(item, h5py.Dataset):
        inside = [each for each in names if each.startswith(f"{name}/")]
        found = f"is a group with {listed(inside)}" if inside else "is a group"
        raise FormatError(found, "a dataset", f"try {path}::{inside[0]}" if inside else "", where)
    return item


def _check(dataset: h5py.Dataset, where: str) -> None:
    """Refuse what is not a plain tensor, by what it is and not by what it is not."""
    properties = dataset.id.get_create_plist()
    if dataset.is_virtual:
        raise FormatError("is a virtual dataset, made of other files", "values in the file itself", where=where)
    if properties.get_external_count():
        raise FormatError("keeps its values in another file", "values in the file itself", where=where)
    if dataset.shape is None or not dataset.shape:
        raise FormatError("has dimension count 0", "1 to 64, and at most 8 in DirectML", where=where)
    if min(dataset.shape) < 1:
        raise FormatError(f"has sizes {dataset.shape}", "sizes of at least 1", where=where)
    try:
        data_type_of(dataset.dtype)
    except FormatError as e:
        raise e.about(where) from None
    kind = dataset.id.get_type()
    if isinstance(kind, h5py.h5t.TypeEnumID) and dataset.dtype != bool:
        raise FormatError("its data type is an enumeration", "numbers", where=where)
    # h5py would convert what NumPy lacks (bfloat16, odd integer widths) to the nearest type, and change the bits.
    if not kind.equal(h5py.h5t.py_create(dataset.dtype, logical=True)):
        raise FormatError(f"its data type only resembles {dataset.dtype}", "a type that NumPy has", where=where)


class Hdf5Source(Source):
    """A dataset of an HDF5 file."""

    reads_in_parallel = False

    def __init__(self, path: str, inner: str | None, name: str = "") -> None:
        with positioned.opened(path) as fd:
            self.identity = positioned.identity(fd)
            head = positioned.read_some(fd, 64, 0, path)
        if not head.startswith(HDF5_MAGIC) and not h5py.is_hdf5(path):  # a user block may stand before it
            seems, hint = looks_like(head)
            raise FormatError(f"is not an HDF5 file: it looks like {seems}", "an HDF5 file by its suffix", hint, path)
        with _opened(path) as file:
            dataset = _find(file, inner, path)
            self.dataset = dataset.name
            self.name = f"{name or path}::{dataset.name}"
            _check(dataset, self.name)
            self.dtype, self.sizes = dataset.dtype, dataset.shape
            self.chunks: tuple[int, ...] | None = dataset.chunks
            filters = {"filters": dataset.compression} if dataset.compression else {}
            layout = {"chunks": str(self.chunks)} if self.chunks else {"layout": "contiguous"}
        self.path, self._unchanged = path, self.identity
        self.storage = Storage("h5", {"dataset": self.dataset, **layout, **filters})

    @property
    def grain(self) -> tuple[int, ...]:
        """The chunk's sizes, so that no chunk is read twice."""
        return self.chunks or super().grain

    def ticket(self, region: Region) -> Ticket:
        """The right to read that region."""
        return Hdf5Ticket(self.path, self.dataset, self._unchanged, region)


@dataclass(frozen=True)
class Hdf5Ticket:
    """One region of a dataset; the file is opened where it is read, never inherited."""

    path: str
    dataset: str
    unchanged: positioned.Identity
    region: Region

    def read(self) -> NDArray[Any]:
        """The values of the region."""
        where = f"{self.path}::{self.dataset}"
        with positioned.opened(self.path, self.unchanged), _opened(self.path, where) as file:
            values: NDArray[Any] = file[self.dataset][self.region]
            return values


class Hdf5Sink(FileSink):
    """A new HDF5 file with one dataset; HDF5 has one writer, which is the parent."""

    def __init__(self, file: NewFile, like: Source, inner: str | None) -> None:
        super().__init__(file)
        own = like.dataset if isinstance(like, Hdf5Source) else DEFAULT_DATASET
        self._dataset = "/" + "/".join(_parts(inner or own, file.name))
        self._chunks = like.chunks if isinstance(like, Hdf5Source) else None
        self._dtype: np.dtype[Any] = like.dtype
        self._sizes = like.sizes
        self._file: h5py.File | None = None

    def start(self) -> None:
        """Create the file and its dataset."""
        with self._writing():
            self._file = h5py.File(self.file.temporary, "w")
            self._values = self._file.create_dataset(self._dataset, self._sizes, self._dtype, chunks=self._chunks)

    def outlet(self) -> Outlet:
        """Values go back to the parent."""
        return Handing()

    def receive(self, parcel: object) -> None:
        """Write one block."""
        region, values = cast("Parcel", parcel)
        with self._writing():
            self._values[region] = values

    def finish(self) -> None:
        """Flush, where a full disk shows."""
        with self._writing():
            if self._file:
                self._file.flush()
                self._file.close()

    def reopen(self) -> Source:
        """The complete file, as an input."""
        return Hdf5Source(self.file.temporary, self._dataset, self.file.name)

    def abandon(self) -> None:
        """Close the file before it is removed; what HDF5 still says of it is about a file that nobody keeps."""
        with contextlib.suppress(OSError, RuntimeError):
            if self._file:
                self._file.close()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """HDF5's errors in our form."""
        try:
            yield
        except (OSError, RuntimeError, ValueError) as e:
            number = getattr(e, "errno", None) or _errno_in(str(e))
            raise positioned.failed(self.file.name, "write", OSError(number, os.strerror(number))) from None


def _errno_in(message: str) -> int:
    """The system's error number that HDF5 has in its message, or that of any failed transfer."""
    found = re.search(r"errno = (\d+)", message)
    return int(found[1]) if found else errno.EIO
