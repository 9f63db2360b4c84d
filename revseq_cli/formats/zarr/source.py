"""Zarr arrays as inputs: `store.zarr::array/path`, or the only array of the store; the package zarr decodes chunks."""

from __future__ import annotations

import functools
import os
import warnings
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from revseq_cli.core.dtypes import is_nameless
from revseq_cli.core.errors import MEMORY_ENDED, FormatError
from revseq_cli.formats import file_io
from revseq_cli.formats.contents import chosen
from revseq_cli.formats.contract import (
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
    from numpy.typing import NDArray

    from revseq_cli.core.tensors import DataType
    from revseq_cli.formats.contract import Region
    from revseq_cli.formats.file_io import Identity
    from revseq_cli.formats.meaning import Meaning
    from revseq_cli.formats.zarr.metadata import Metadata, Version


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
        self.metadata = metadata.read(self.folder, self.name, asked)
        version, self.dtype, self.sizes, self.chunks = self.metadata[:4]
        self.dimensions, self.attributes = self.metadata.dimensions, self.metadata.attributes
        files = metadata.files_in(self.folder, self.name)
        self._digest, self.stored = files.digest, files.stored  # bytes of the array's own files
        self._chunk_files = _chunk_files(self.metadata, files.names, self.name)
        declared = max(prod(self.sizes), prod(self.chunks)) * self.dtype.itemsize
        refuse_bomb(declared, self.stored, "write it again uncompressed", self.name)
        self.path = str(Path(self.folder, metadata.ARRAY_FILES[version][0]))
        with file_io.opened(self.path) as fd:
            self.identity = self._unchanged = file_io.identity(fd)
        with metadata.errors_worded(self.name, "open"):
            opened(self.folder, version, self._unchanged)
        about, details = {"version": str(version), "array": f"/{self.key}"}, details_of(self.metadata)
        self.storage = Storage("zarr", about | details)

    def recheck(self) -> None:
        """TensorIOError if any file of the array is not as it was."""
        if metadata.files_in(self.folder, self.name).digest != self._digest:
            raise metadata.changed(self.name)

    @property
    def least_bytes(self) -> int:
        """A chunk, what is read of it, and what its codecs hold: gzip's the stored bytes twice, and decoded parts."""
        codecs = {*self.metadata.codecs} - {"bytes"}  # which only says the byte order
        copies = 6 if "gzip" in codecs else 1 + 2 * bool(codecs)
        return copies * prod(self.metadata.chunks) * self.dtype.itemsize

    def absent_notes(self) -> tuple[str, ...]:
        """A note on absent chunks: the format reads them as the fill value, whether lost or never written."""
        noun = "shards" if self.metadata.shards != self.metadata.chunks else "chunks"
        total = prod(-(-size // shard) for size, shard in zip(self.sizes, self.metadata.shards, strict=True))
        absent = total - self._chunk_files
        note = f"{absent:,} of {total:,} {noun} of {self.name} are missing, and read as the fill value"
        return (note,) if absent else ()

    def meaning(self) -> Meaning:
        """What the store says of the array."""
        return meaning.meaning_of(self.store, self.key, self.metadata, lambda key: ZarrSource(self.store, key).read)

    def read_task(self, region: Region) -> ReadTask:
        """A read task that decodes the chunks of the region."""
        return ZarrReadTask(self.path, self.name, self.metadata, self._unchanged, region)


def details_of(found: Metadata) -> dict[str, str]:
    """How an array is stored: its chunks and codecs."""
    return {"chunks": str(found.chunks), "codecs": ", ".join(found.codecs)}


def _chunk_files(found: Metadata, names: list[str], where: str) -> int:
    """The number of files that are chunks or shards; FormatError where they have the names of another separator."""
    count = sum(map(metadata.chunk_files(found, found.separator), names))
    other = "." if found.separator == "/" else "/"
    if len(found.sizes) + bool(found.key_start) > 1 and found.sizes:
        wrong = next(filter(metadata.chunk_files(found, other), names), "")
        if wrong:
            text = f"has the chunk file {wrong}, and by its metadata {found.separator} stands between the numbers"
            field = "dimension_separator" if found.version == 2 else "separator"
            raise FormatError(text, f'"{field}": "{other}" in its metadata, or files of other names', where=where)
    return count


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
        chunks = self.metadata.chunks
        ends = zip(self.region, chunks, strict=True)
        touched = prod((-(-part.stop // chunk) - part.start // chunk) * chunk for part, chunk in ends)
        size = prod(part.stop - part.start for part in self.region)
        with file_io.opened(self.path, self.unchanged):
            try:
                if touched <= max(2 * size, prod(chunks)):
                    return self._values(self.region)
                # Of several chunks with far more elements, zarr would hold all at once.
                values = np.empty([part.stop - part.start for part in self.region], self.metadata.dtype)
                for box in chunk_boxes(self.region, chunks):
                    values[inside(box, self.region)] = self._values(box)
            except (FormatError, *MEMORY_ENDED):
                self._blame_chunk()
                raise
        return values

    def _values(self, region: Region) -> NDArray[Any]:
        with metadata.errors_worded(self.name, "read"):
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
                # The index of a damaged shard asks for any number of bytes.
                why = f": {e.found}" if isinstance(e, FormatError) else ", or takes more memory than there is"
                found = f"the chunk at {chunk_start(box, self.metadata.chunks)} is damaged{why}"
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
        pending += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        for entry in entries:
            if entry.inode() in inodes:  # known without a system call, unlike the status
                file_io.refuse_stream(os.lstat(entry.path), entry.path)
