"""HDF5 datasets as inputs: `file.h5::/group/name`, or the file's only dataset."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shlex
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from revseq_cli.errors import FormatError, RevseqError, TensorIOError, worded
from revseq_cli.formats import hdf5_links, hdf5_types, positioned
from revseq_cli.formats.base import Source, Storage, Ticket, refuse_bomb
from revseq_cli.formats.hdf5_library import h5py
from revseq_cli.formats.raw import RawTensor, RawTicket
from revseq_cli.formats.recognition import HDF5_MAGIC, looks_like
from revseq_cli.plan import chunk_boxes

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from revseq_cli.plan import Region
    from revseq_cli.spec import DataType

# What h5py raises, for HDF5 or of its own; after what was tried, HDF5 has in brackets the innermost of its reasons.
_RAISED = (OSError, RuntimeError, KeyError, ValueError, TypeError)
_INNERMOST = re.compile(r"^[A-Z][^(]* \((.+)\)$", re.DOTALL)
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
# HDF5's own filters, and those of its registry that hdf5plugin brings: what files say of them is long, or empty.
_FILTERS = {
    1: "gzip", 2: "shuffle", 3: "fletcher32", 4: "szip", 5: "nbit", 6: "scaleoffset", 307: "bzip2", 32000: "lzf",
    32001: "blosc", 32004: "lz4", 32008: "bitshuffle", 32013: "zfp", 32015: "zstd", 32017: "sz", 32018: "fcidecomp",
    32024: "sz3", 32026: "blosc2", 32028: "sperr",
}  # fmt: skip

_LAYOUTS = {h5py.h5d.COMPACT: "compact", h5py.h5d.CONTIGUOUS: "contiguous"}


@contextlib.contextmanager
def opened(path: str, where: str = "") -> Iterator[h5py.File]:
    """The file, for reading; what h5py raises while it is open is told in our form."""
    try:
        with _open(path) as file:
            yield file
    except RevseqError:
        raise
    except _RAISED as e:
        if not _is_of_h5py(e):
            raise
        raise _worded(e, path, where or path) from None


def _is_of_h5py(error: Exception) -> bool:
    """Whether h5py raised it, and not a mistake of ours."""
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    return trace is not None and str(trace.tb_frame.f_globals.get("__name__")).partition(".")[0] == "h5py"


def _worded(error: Exception, path: str, where: str) -> RevseqError:
    """What h5py raised, in our form; only what HDF5 itself cannot read is called damaged."""
    words = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    if "memory allocation failed" in words:
        return worded(MemoryError(), where)
    if "unable to lock file" in words:
        return TensorIOError("is being written by another process", hint="try again later", where=path)
    if "already open for" in words:  # a mark in the file itself, which a writer that died leaves behind
        hint = f"try again later; if nobody writes it: h5clear -s {shlex.quote(path)}"
        return TensorIOError("is being written by another process", hint=hint, where=path)
    if number := error_number(error):
        return positioned.failed(where, "read", OSError(number, os.strerror(number)))
    if not (innermost := _INNERMOST.search(words)):  # h5py's own words, for what it does not know
        return FormatError(f"h5py cannot read it: {words[:200]}", "what h5py knows", where=where)
    reason = innermost[1][:200]
    newer = f", or of a newer version than HDF5 {h5py.version.hdf5_version}" if "version" in reason else ""
    return TensorIOError(f"HDF5 cannot read it: truncated or damaged{newer} ({reason})", "a whole file", where=where)


def _open(path: str) -> h5py.File:
    try:
        return h5py.File(path, "r")
    except OSError as e:
        if error_number(e) not in _NO_LOCKS:
            raise
        return h5py.File(path, "r", locking=False)  # a network file system without locks


def error_number(error: Exception) -> int:
    """The system's error number that HDF5 has in its message, or 0."""
    found = re.search(r"errno = (\d+)", str(error))
    return getattr(error, "errno", None) or (int(found[1]) if found else 0)


def names_in(path: str) -> list[str]:
    """The name of every dataset that hard links lead to."""
    with positioned.opened(path), opened(path) as file:
        return hdf5_links.names_in(file)


def _check(dataset: h5py.Dataset, dtype: np.dtype[Any], where: str) -> None:
    """Refuse what is not a plain tensor of that dtype, by what it is and not by what it is not."""
    refuse_other_files(dataset, where)
    if dataset.shape is None:
        raise FormatError("has a null dataspace: neither sizes nor elements", "a tensor", where=where)
    if hdf5_types.lacks_values(dataset):
        raise FormatError("none of its values was ever written, and it has no fill value", "values", where=where)
    require_filters(dataset, where)
    declared, stored = prod(dataset.shape) * dtype.itemsize, dataset.id.get_storage_size()
    refuse_bomb(declared, stored, "if it is what you want, write it anew without compression: h5repack -f NONE", where)


def _dtype_of(dataset: h5py.Dataset, asked: DataType | None, where: str) -> np.dtype[Any]:
    try:
        return hdf5_types.dtype_of(dataset.id.get_type(), asked)
    except FormatError as e:
        raise e.about(where) from None


def refuse_other_files(dataset: h5py.Dataset, where: str) -> None:
    """FormatError for a dataset whose values stand in other files."""
    if dataset.is_virtual:
        raise FormatError("is a virtual dataset, made of other files", "values in the file itself", where=where)
    if dataset.id.get_create_plist().get_external_count():
        raise FormatError("keeps its values in another file", "values in the file itself", where=where)


def filters_of(dataset: h5py.Dataset) -> dict[int, str]:
    """The filters that a chunk passes through, by HDF5's registered number."""
    properties = dataset.id.get_create_plist()
    found = (properties.get_filter(i) for i in range(properties.get_nfilters()))
    return {code: _FILTERS.get(code) or name.decode("utf-8", "replace")[:40] for code, _, _, name in found}


def require_filters(dataset: h5py.Dataset, where: str) -> None:
    """FormatError for a filter that neither HDF5 nor the package hdf5plugin brings."""
    for code, name in filters_of(dataset).items():
        if h5py.h5z.filter_avail(code):
            continue
        hint = "write it anew without that filter, where it is known"
        try:
            import hdf5plugin  # noqa: F401 - an extra; importing it registers its filters
        except ModuleNotFoundError:
            hint = "pip install 'revseq-cli[filters]'"
        if not h5py.h5z.filter_avail(code):
            raise FormatError(f"needs the filter {code} ({name})", "a filter that is installed", hint, where)


class Hdf5Source(Source):
    """A dataset of an HDF5 file; `name` is what to call the file, where that is not its path.

    `asked` is the data type of elements that have no name in the file.
    """

    def __init__(self, path: str, inner: str | None, name: str = "", asked: DataType | None = None) -> None:
        with positioned.opened(path) as fd:
            self.identity = positioned.identity(fd)
            head = positioned.read_some(fd, 64, 0, path)
        if not head.startswith(HDF5_MAGIC) and not h5py.is_hdf5(path):  # a user block may stand before it
            seems, hint = looks_like(head, path)
            raise FormatError(f"is not an HDF5 file: it looks like {seems}", "an HDF5 file by its suffix", hint, path)
        with opened(path) as file:
            dataset, own_name, self._place = hdf5_links.find(file, inner, path)
            self.inner = own_name.lstrip("/")
            self.name = f"{name or path}::{own_name}"
            self.dtype = _dtype_of(dataset, asked, self.name)
            _check(dataset, self.dtype, self.name)
            self.sizes, self.chunks = dataset.shape, dataset.chunks
            self.encoded = bool(filters_of(dataset))
            self._raw = self._as_raw(dataset, path)
            self.storage = self._describe(dataset)
        self.path, self._unchanged = path, self.identity
        self.reads_in_parallel = self._raw is not None  # HDF5 itself has one lock for all threads

    def _as_raw(self, dataset: h5py.Dataset, path: str) -> RawTensor | None:
        """A contiguous dataset's bytes in the file; None for one of chunks, or without bytes of its own."""
        offset = None if self.chunks else dataset.id.get_offset()
        if offset is None:
            return None
        end = offset + prod(self.sizes) * self.dtype.itemsize
        if self.identity and end > self.identity.size:
            found = f"is truncated: {self.identity.size} bytes, and its values end at {end}"
            raise FormatError(found, "the whole file", "fetch it again", self.name)
        return RawTensor(path, self.name, offset, self.dtype, self.sizes)

    def _describe(self, dataset: h5py.Dataset) -> Storage:
        details = {"dataset": f"/{self.inner}"}
        if self._place != details["dataset"]:
            details["link to"] = self._place
        if meaning := hdf5_types.meaning(dataset.id.get_type()):
            details["stored as"] = meaning
        details |= (
            {"chunks": str(self.chunks)}
            if self.chunks
            else {"layout": _LAYOUTS[dataset.id.get_create_plist().get_layout()]}
        )
        if self.encoded:
            details["filters"] = ", ".join(filters_of(dataset).values())
        return Storage("h5", details)

    @property
    def grain(self) -> tuple[int, ...]:
        """The chunk's sizes, so that no chunk is decoded twice; bytes that lie together otherwise."""
        return self.chunks or (self._raw.grain if self._raw else super().grain)

    @property
    def finest_grain(self) -> tuple[int, ...]:
        """The chunk's sizes, or the processor's cache line."""
        return self.chunks or (self._raw.finest_grain if self._raw else super().finest_grain)

    def ticket(self, region: Region) -> Ticket:
        """The right to read that region."""
        if self._raw:
            return RawTicket(self._raw, self._unchanged, region)
        return Hdf5Ticket(self.path, self._place, self.dtype, self._unchanged, region)


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
                return hdf5_types.read(dataset, self.region, self.dtype)
            except _RAISED:
                self._blame_chunk(dataset, where)
                raise

    def _blame_chunk(self, dataset: h5py.Dataset, where: str) -> None:
        """FormatError with the first chunk of the region that cannot be read."""
        if dataset.chunks:
            for box in chunk_boxes(self.region, dataset.chunks):
                try:
                    hdf5_types.read(dataset, box, self.dtype)
                except _RAISED:
                    place = [part.start for part in box]
                    found = f"the chunk at {place} is damaged: it fails its checksum or its filter"
                    raise FormatError(found, "the whole file", "fetch it again", where) from None
