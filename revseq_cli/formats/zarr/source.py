"""Zarr arrays as inputs: `store.zarr::array/path`, or the only array of the store; the package zarr decodes chunks."""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import os
import stat
import warnings
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from revseq_cli.core import signals
from revseq_cli.core.dtypes import is_nameless
from revseq_cli.core.errors import MEMORY_ENDED, FormatError, RevseqError, TensorIOError
from revseq_cli.formats import file_io
from revseq_cli.formats.contents import chosen
from revseq_cli.formats.contract import (
    MOST_OTHERS,
    ReadTask,
    Source,
    Storage,
    chunk_boxes,
    chunk_start,
    extra,
    inside,
    refuse_bomb,
)
from revseq_cli.formats.recognition import looks_like
from revseq_cli.formats.zarr import meaning, metadata

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from revseq_cli.core.tensors import DataType
    from revseq_cli.formats.contract import Region
    from revseq_cli.formats.file_io import Identity
    from revseq_cli.formats.meaning import Meaning
    from revseq_cli.formats.zarr.metadata import Metadata, ShardIndex, Version

# What is wanted where zarr cannot do this with an array.
_WANTED = {"open": "metadata that the package zarr reads", "read": "a whole store", "write": ""}
# Of a shard's index: the bytes for each chunk, which are its offset and size, and both for one that it does not hold.
_ENTRY_BYTES, _NONE = 16, (1 << 64) - 1
_LINKS = "files in the store itself; links are not followed"


class _State(NamedTuple):
    """The state of a folder: a digest of the names, sizes and times of all files, and the bytes in all."""

    digest: str
    stored: int


class ZarrSource(Source):
    """An array of a Zarr store.

    `name` is what to call the store, where that is not its path; `asked` is the data type of elements that are stored
    as bytes without one.
    """

    encoded = True

    def __init__(self, path: str, key: str | None, name: str = "", asked: DataType | None = None) -> None:
        name = name or path
        require_package(name)
        _require_folder(path, name)
        refuse_streams(path)
        key = key and key.strip("/")
        if key is None or not metadata.holds(path, key):  # a store may have very many arrays
            key = chosen(metadata.arrays_in(path), key, name)
        self.key = key
        self.name = f"{name}::{self.key}" if self.key else name
        self.store, self.folder = path, str(Path(path, self.key))
        self._state = state(self.folder, self.name)
        self.stored = self._state.stored  # bytes of the array's own files
        self.metadata = metadata.read(self.folder, self.name, asked)
        version, self.dtype, self.sizes, self.chunks = self.metadata[:4]
        self.dimensions, self.attributes = self.metadata.dimensions, self.metadata.attributes
        declared = max(prod(self.sizes), prod(self.chunks)) * self.dtype.itemsize
        refuse_bomb(declared, self._state.stored, "write it again uncompressed", self.name)
        self.path = str(Path(self.folder, metadata.ARRAY_FILES[version][0]))
        with file_io.opened(self.path) as fd:
            self.identity = self._unchanged = file_io.identity(fd)
        with errors_worded(self.name, "open"):
            opened(self.folder, version, self._unchanged)
        about, details = {"version": str(version), "array": f"/{self.key}"}, details_of(self.metadata)
        self.storage = Storage("zarr", about | details)

    def recheck(self) -> None:
        """TensorIOError if any file of the array is not as it was."""
        if state(self.folder, self.name) != self._state:
            raise changed(self.name)

    def others(self) -> int:
        """The number of other arrays in its store; MOST_OTHERS may stand for more."""
        return metadata.count_others(self.store, self.key, MOST_OTHERS) if self.key else 0

    @property
    def least_bytes(self) -> int:
        """A chunk, what is read of it, and what its codecs hold: gzip's the stored bytes twice, and decoded parts."""
        codecs = {*self.metadata.codecs} - {"bytes"}  # which only says the byte order
        copies = 6 if "gzip" in codecs else 1 + 2 * bool(codecs)
        return copies * prod(self.metadata.chunks) * self.dtype.itemsize

    def absent_notes(self) -> tuple[str, ...]:
        """A note on absent chunks: the format reads them as the fill value, whether lost or never written."""
        absent, total = _absent(self.folder, self.metadata)
        note = f"{absent:,} of {total:,} chunks of {self.name} are missing, and read as the fill value"
        return (note,) if absent else ()

    def meaning(self) -> Meaning:
        """What the store says of the array."""
        return meaning.meaning_of(self.store, self.key, self.metadata, lambda key: ZarrSource(self.store, key).read)

    def read_task(self, region: Region) -> ReadTask:
        """A read task that reads the region from the chunks."""
        return ZarrReadTask(self.path, self.name, self.metadata, self._unchanged, region)


def details_of(found: Metadata) -> dict[str, str]:
    """How an array is stored: its chunks and codecs."""
    return {"chunks": str(found.chunks), "codecs": ", ".join(found.codecs)}


@dataclass(frozen=True)
class ZarrReadTask:
    """One region of an array; its metadata file, `path`, must be as it was when it was read."""

    path: str
    name: str
    metadata: Metadata
    unchanged: Identity
    region: Region

    def read(self) -> NDArray[Any]:
        """The values of the region."""
        with file_io.opened(self.path, self.unchanged):
            try:
                return self._by_chunks() if self._decodes_much else self._values(self.region)
            except (FormatError, *MEMORY_ENDED):
                self._blame_chunk()
                raise

    @property
    def _decodes_much(self) -> bool:
        """Whether the region touches several chunks of far more elements, all of which zarr would hold at once."""
        chunks = self.metadata.chunks
        ends = zip(self.region, chunks, strict=True)
        touched = prod((-(-part.stop // chunk) - part.start // chunk) * chunk for part, chunk in ends)
        return bool(touched > max(2 * prod(part.stop - part.start for part in self.region), prod(chunks)))

    def _by_chunks(self) -> NDArray[Any]:
        values = np.empty([part.stop - part.start for part in self.region], self.metadata.dtype)
        for box in chunk_boxes(self.region, self.metadata.chunks):
            values[inside(box, self.region)] = self._values(box)
        return values

    def _values(self, region: Region) -> NDArray[Any]:
        with errors_worded(self.name, "read"):
            array = opened(os.path.dirname(self.path), self.metadata.version, self.unchanged)  # noqa: PTH120 - a string
            values = np.asarray(array[region])
            nameless = is_nameless(values.dtype)
            return values.view(self.metadata.dtype) if nameless else np.asarray(values, self.metadata.dtype)

    def _blame_chunk(self) -> None:
        """FormatError with the first chunk of the region that cannot be read."""
        for box in chunk_boxes(self.region, self.metadata.chunks):
            try:
                self._values(box)
            except (FormatError, *MEMORY_ENDED) as e:
                place = f"the chunk at {chunk_start(box, self.metadata.chunks)}"
                if isinstance(e, FormatError):
                    found = f"{place} is damaged: {e.found}"
                else:  # the index of a damaged shard asks for any number of bytes
                    found = f"{place} is damaged, or takes more memory than there is"
                raise FormatError(found, "the whole store", "fetch it again", self.name) from None


@functools.lru_cache(maxsize=8)
def opened(folder: str, version: Version, _: Identity, mode: Literal["r", "r+"] = "r") -> Any:  # noqa: ANN401 - zarr's Array
    """The array of the package zarr, opened once in each process for each state of its metadata.

    Every chunk that is written is stored, also one of nothing but the fill value: to zarr, all NaNs are equal.
    """
    from revseq_cli.formats.zarr import store  # the package takes a while to load

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zarr warns about codecs that the specification does not have
        return store.open_array(folder, version, mode)


@contextlib.contextmanager
def errors_worded(where: str, doing: str) -> Iterator[None]:
    """Turn any error of zarr and of its codecs into a RevseqError about `where`; `doing` is a key of `_WANTED`."""
    try:
        yield
    except (RevseqError, *MEMORY_ENDED):
        raise
    except Exception as e:  # noqa: BLE001 - codecs raise errors of any class
        # EINVAL comes from an offset in the index of a damaged shard.
        if isinstance(e, OSError) and e.errno not in (None, errno.EINVAL):
            raise file_io.failed(where, doing, e) from None
        found = f"zarr cannot {doing} it: {str(e)[:200] or type(e).__name__}"
        raise FormatError(found, _WANTED[doing], where=where) from None


def _absent(folder: str, found: Metadata) -> tuple[int, int]:
    """The number of chunks that are not stored, neither in files nor in shards, and the number of all chunks."""
    sizes, chunks, shards, index = found.sizes, found.chunks, found.shards, found.shard_index
    per_shard = tuple(shard // chunk for shard, chunk in zip(shards, chunks, strict=True))
    stored = 0
    for path, place in _files(folder, found):
        signals.check()
        # A shard at the end of a dimension has fewer chunks with elements.
        counts = tuple(
            -(-min(shard, size - i * shard) // chunk)
            for i, shard, size, chunk in zip(place, shards, sizes, chunks, strict=True)
        )
        stored += _held(path, index, per_shard, counts) if index else prod(counts)
    total = prod(-(-size // chunk) for size, chunk in zip(sizes, chunks, strict=True))
    return total - stored, total


def _files(folder: str, found: Metadata) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Each file of a chunk or shard, with its index in each dimension."""
    place_of = metadata.chunk_places(found)
    firsts = [found.separator.join("0" * count) for count in range(1, len(found.sizes) + 1)]
    pending = [""]
    while pending:
        below = pending.pop()
        with file_io.trying_to("read", Path(folder, below)):
            entries = list(os.scandir(Path(folder, below)))
        for entry in entries:
            key = f"{below}/{entry.name}" if below else entry.name
            place = place_of(key)
            if entry.is_dir(follow_symlinks=False):
                if place is not None:
                    raise FormatError("is a folder in place of a chunk", "a chunk", "fetch it again", entry.path)
                pending.append(key)
            elif place is not None:
                yield entry.path, place
            elif any(place_of(f"{key}/{first}") is not None for first in firsts):  # chunks lie below it
                raise FormatError("is a file in place of a folder of chunks", "a folder", "fetch it again", entry.path)


def _held(path: str, index: ShardIndex, per_shard: tuple[int, ...], counts: tuple[int, ...]) -> int:
    """The number of chunks that a shard holds, among the first `counts` in each dimension."""
    wanted = prod(per_shard) * _ENTRY_BYTES
    with file_io.opened(path) as fd:
        size = file_io.identity(fd).size
        offset = 0 if index.at_start else size - wanted - index.checksum_bytes
        if offset < 0 or size < wanted:
            raise FormatError(f"is truncated: {size} bytes, and its index has {wanted}", "the whole file", where=path)
        data = file_io.read_some(fd, wanted, offset, path)
    entries = np.frombuffer(data, f"{index.byte_order}u8").reshape(*per_shard, 2)
    held = (entries != _NONE).any(axis=-1)
    return int(held[tuple(map(slice, counts))].sum())


def require_package(where: str) -> None:
    """FormatError where the package zarr is not installed."""
    extra("zarr", "is a Zarr store", where)


def _require_folder(path: str, name: str) -> None:
    """TensorIOError for a store that does not exist, FormatError for a file."""
    if Path(path).is_dir():
        return
    with file_io.opened(path) as fd:
        seems, hint = looks_like(file_io.read_some(fd, 64, 0, path), path)
    raise FormatError(f"is not a Zarr store: it looks like {seems}", "a folder", hint, name)


def refuse_streams(store: str) -> None:
    """TensorIOError if standard output or standard error goes to a file of the store, of whichever array."""
    inodes = file_io.stream_inodes()
    pending = [store] if inodes else []
    while pending:
        with file_io.trying_to("read", store):
            entries = list(os.scandir(pending.pop()))
        pending += [each.path for each in entries if each.is_dir(follow_symlinks=False)]
        for entry in entries:
            if entry.inode() in inodes:  # known without a system call, unlike the status
                file_io.refuse_stream(os.lstat(entry.path), entry.path)


def changed(where: str) -> TensorIOError:
    """The error for a store that is not as it was."""
    return TensorIOError("changed while it was read", "a store that does not change", where=where)


def state(folder: str, where: str) -> _State:
    """The state of the folder; FormatError for links, and for anything else but files and folders."""
    digest, stored, pending = hashlib.sha256(), 0, [folder]
    with file_io.trying_to("read", where):
        try:
            while pending:
                for entry in sorted(os.scandir(pending.pop()), key=lambda each: each.name):
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(status.st_mode):
                        pending.append(entry.path)
                        known = file_io.identity_of(status)
                    elif stat.S_ISREG(status.st_mode):
                        known = file_io.identity_of_entry(entry)
                        stored += known.size
                    else:
                        raise FormatError(f"{entry.name} is not a regular file", _LINKS, where=where)
                    digest.update(f"{entry.path!r} {known}".encode("utf-8", "surrogateescape"))
        except FileNotFoundError:
            raise changed(where) from None
    return _State(digest.hexdigest(), stored)
