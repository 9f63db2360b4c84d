"""Zarr arrays as inputs: `store.zarr::array/path`, or the only array of the store; the package zarr decodes chunks."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import warnings
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from revseq_cli.core import platform
from revseq_cli.core.dtypes import data_type_of, is_nameless
from revseq_cli.core.errors import MEMORY_ENDED, FormatError, RevseqError
from revseq_cli.core.tensors import TensorDesc, chunk_boxes, chunk_start, inside
from revseq_cli.formats import file_io, remote
from revseq_cli.formats.contents import GROUP, Contents, Item, chosen, extra, only_of, refuse_bomb
from revseq_cli.formats.contract import ReadTask, Source, Storage
from revseq_cli.formats.file_io import Identity  # noqa: TC001 - of a NamedTuple
from revseq_cli.formats.meaning import (
    FILL,
    MISSING,
    MOST_BYTES,
    VALID,
    Attributes,
    Meaning,
    Variable,
    as_texts,
    is_small,
    plain,
)
from revseq_cli.formats.table import looks_like
from revseq_cli.formats.zarr import metadata

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from revseq_cli.core.tensors import DataType, Region
    from revseq_cli.formats.contract import Address, TextTypes
    from revseq_cli.formats.zarr.metadata import Metadata, Version


_TEXT_BYTES = 1 << 6  # of a text without a fixed length, as far as a header says


class ZarrSource(Source):
    """An array of a Zarr store.

    `name` is what to call the store, where that is not its path; `asked` is the data type of elements that are stored
    as bytes without one. A store `at` an address has the files of metadata in the folder `path`, too.
    """

    encoded = True

    def __init__(self, path: str, key: str | None, name: str = "", asked: DataType | None = None, at: str = "") -> None:
        name = name or path
        require_package(name)
        if platform.is_remote(path):
            at, path = path, remote.mirror(path)
        _require_folder(path, name)
        refuse_streams(path)
        key = key and key.strip("/")
        if key is None or not metadata.holds(path, key):  # a store may have very many arrays
            key = chosen(metadata.arrays_in(path), key, name)
        self.key = key
        self.name = f"{name}::{self.key}" if self.key else name
        self.store, self.folder, self.at = path, str(Path(path, self.key)), at
        self.metadata = metadata.read(self.folder, self.name, asked)
        version, self.dtype, self.sizes, self.chunks = self.metadata[:4]
        self.dimensions = self.metadata.dimensions
        files = self._files()
        self._digest, self.stored = files.digest, files.stored  # bytes of the array's own files
        self._chunk_files = _chunk_files(self.metadata, files.names, self.name) if files.are_listed else None
        declared = max(prod(self.sizes), prod(self.chunks)) * self.dtype.itemsize
        if files.are_listed:
            refuse_bomb(declared, self.stored, "write it again uncompressed", self.name)
        self.path = str(Path(self.folder, metadata.ARRAY_FILES[version][0]))
        self.array = Stored.of(self.folder, version, f"{at}/{self.key}".rstrip("/") if at else "")
        self.identity = self.array.unchanged
        with metadata.errors_worded(self.name, "open"):
            opened(self.array)
        about, details = {"version": str(version), "array": f"/{self.key}"}, details_of(self.metadata)
        total = prod(-(-size // shard) for size, shard in zip(self.sizes, self.metadata.shards, strict=True))
        if (
            absent := 0 if self._chunk_files is None else total - self._chunk_files
        ):  # they are read as the fill value, whether lost or never written
            noun = "shards" if self.metadata.shards != self.metadata.chunks else "chunks"
            details["missing"] = f"{absent:,} of {total:,} {noun}"
        self.storage = Storage("zarr", about | details)

    def recheck(self) -> None:
        """TensorIOError if any file of the array is not as it was."""
        if self._files().digest != self._digest:
            raise metadata.changed(self.name)

    def _files(self) -> metadata.Files:
        return metadata.files_in(self.folder, self.name, f"{self.at}/{self.key}" if self.at else "")

    def can_copy_to(self, path: str) -> bool:  # noqa: ARG002 - the name says nothing
        """Whether all of its store is known: a web server lists no files."""
        return not remote.is_web(self.at)

    @property
    def least_bytes(self) -> int:
        """A chunk, what is read of it, and what its codecs hold: gzip's the stored bytes twice, and decoded parts."""
        codecs = {*self.metadata.codecs} - {"bytes"}  # which only says the byte order
        copies = 6 if "gzip" in codecs else 1 + 2 * bool(codecs)
        return copies * prod(self.metadata.chunks) * self.dtype.itemsize

    def meaning(self) -> Meaning:
        """What the store says of the array."""
        return meaning_of(self)

    def read_task(self, region: Region) -> ReadTask:
        """A read task that decodes the chunks of the region."""
        return ZarrReadTask(self.array, self.name, self.metadata, region)


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
    """One region of an array, whose metadata must be as they were."""

    array: Stored
    name: str
    metadata: Metadata
    region: Region

    def read(self) -> NDArray[Any]:
        """The values of the region."""
        chunks = self.metadata.chunks
        ends = zip(self.region, chunks, strict=True)
        touched = prod((-(-part.stop // chunk) - part.start // chunk) * chunk for part, chunk in ends)
        size = prod(part.stop - part.start for part in self.region)
        with self.array.required():
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
            values = np.asarray(opened(self.array)[region])
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


class Stored(NamedTuple):
    """Where an array is: in a folder whose file of metadata is as it was at `unchanged`, or `at` an address.

    Of the latter `files` has the metadata, which a worker elsewhere finds in no folder, and need not be stored yet.
    """

    folder: str
    version: Version
    unchanged: Identity
    at: str = ""
    files: tuple[tuple[str, bytes], ...] = ()

    @classmethod
    def of(cls, folder: str, version: Version, at: str = "", name: str = "") -> Stored:
        """The array in a folder, or at an address and with its metadata in the folder; `name` is for messages."""
        paths = [Path(folder, each) for each in metadata.ARRAY_FILES[version]]
        with file_io.opened(str(paths[0]), name=name) as fd:
            unchanged = file_io.identity(fd)
        files = [(path.name, path.read_bytes()) for path in paths if path.exists()] if at else []
        return cls(folder, version, unchanged, at, tuple(files))

    def required(self) -> AbstractContextManager[object]:
        """A context, which begins with a TensorIOError where the folder's metadata have changed."""
        path = str(Path(self.folder, metadata.ARRAY_FILES[self.version][0]))
        return contextlib.nullcontext() if self.at else file_io.opened(path, self.unchanged)


def opened(array: Stored, mode: Literal["r", "r+"] = "r") -> Any:  # noqa: ANN401 - zarr's Array
    """The array of the package zarr, opened once in each process for each state of its metadata.

    Every chunk that is written is stored, also one of nothing but the fill value: to zarr, all NaNs are equal.
    """
    return _opened(array, mode, remote.thread() if array.at else None)


@functools.lru_cache(maxsize=8)
def _opened(array: Stored, mode: Literal["r", "r+"], _: object) -> Any:  # noqa: ANN401 - zarr's Array
    from revseq_cli.formats.zarr import store  # the package takes a while to load

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zarr warns about codecs that the specification does not have
        return store.open_array(array.folder, array.version, mode, array.at, array.files)


def require_package(where: str) -> None:
    """FormatError where the package zarr is not installed."""
    extra("zarr", "is a Zarr store", where)


def _require_folder(path: str, name: str) -> None:
    """TensorIOError for a store that does not exist, FormatError for a file."""
    if Path(path).is_dir():
        return
    with file_io.opened(path) as fd:
        seems, hint = looks_like(file_io.read_some(fd, 64, 0, path))
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


# What a store says of an array, as xarray has it in versions 2 and 3, in the neutral form.


def _neutral(fields: dict[str, Any]) -> tuple[Attributes, list[str]]:
    """Attributes of JSON, and the names of those that have no place in the neutral form."""
    found = {name: plain(value) for name, value in fields.items() if name != metadata.DIMENSIONS}
    return {n: v for n, v in found.items() if v is not None}, [n for n, v in found.items() if v is None]


def _stated(folder: Path) -> tuple[Attributes, list[str]]:
    """The attributes of an array, and the names of those that have no place in the neutral form.

    In version 2, xarray's fill value is that of the array, where a 0 is nobody's choice; in version 3 one of floats is
    eight bytes, in base 64.
    """
    version, fields, attributes = metadata.described(folder)
    neutral, lost = _neutral(attributes)
    if version == 2 and metadata.DIMENSIONS in attributes and FILL not in neutral and fields.get("fill_value"):
        neutral[FILL] = plain(fields["fill_value"])
    for name in {*MISSING, *VALID} & neutral.keys():
        neutral[name] = plain(metadata.decoded(neutral[name]))
    return neutral, lost


def meaning_of(array: ZarrSource) -> Meaning:
    """What its store says of an array."""
    store, key, found = array.store, array.key, array.metadata
    attributes, left = _stated(Path(store, key))
    coordinates = []
    for name, size in zip(found.dimensions, found.sizes, strict=False):
        other = f"{key.rpartition('/')[0]}/{name}".lstrip("/")
        if not name or "/" in name or not key or other == key or not metadata.holds(store, other):
            continue
        try:
            coordinate = _coordinate(array, other, size)
        except RevseqError as e:
            left.append(f"the variable {name} ({e.found})")
            continue
        if coordinate:
            coordinates.append(coordinate)
        else:
            left.append(f"the variable {name}")
    parents = [*Path(key).parents][::-1] if key else []
    groups = (metadata.attributes_of_group(store, "" if str(each) == "." else each.as_posix()) for each in parents)
    plain_groups = tuple({n: v for n, v in _neutral(each or {})[0].items() if n != "coordinates"} for each in groups)
    return Meaning(found.dimensions, attributes, tuple(coordinates), plain_groups, left=tuple(left))


def _coordinate(array: ZarrSource, key: str, size: int) -> Variable | None:
    """The coordinate of a dimension of that name and size; None for what is none, or is large."""
    folder, name, at = Path(array.store, key), key.rpartition("/")[2], f"{array.at}/{key}" if array.at else ""
    try:
        version, fields, attributes = metadata.described(folder)
        dimensions = metadata.dimensions_of(version, fields, attributes)
        if dimensions != (name,) or fields["shape"] != [size]:
            return None
        if metadata.files_in(str(folder), name, at).stored > MOST_BYTES:
            return None
        if bytes_of_text := _text_bytes(version, fields):
            chunks = fields["chunks"] if version == 2 else fields["chunk_grid"]["configuration"]["chunk_shape"]
            if not is_small((size,), bytes_of_text, tuple(chunks)):
                return None
            return Variable(name, dimensions, _stated(folder)[0], _texts(Stored.of(str(folder), version, at)))
        found = metadata.read(str(folder), name)
        if not is_small(found.sizes, found.dtype.itemsize, found.shards):
            return None
        return Variable(name, dimensions, _stated(folder)[0], ZarrSource(array.store, key, at=array.at).read())
    except (KeyError, TypeError, AttributeError):
        raise FormatError("has damaged metadata") from None


def _text_bytes(version: metadata.Version, fields: dict[str, Any]) -> int:
    """The bytes of a text of an array, as far as its header says; 0 for one of numbers, or whose codecs run code."""
    codecs = {*metadata.codec_names(metadata.codecs(version, fields), "id" if version == 2 else "name")}
    kind = fields["dtype"] if version == 2 else fields["data_type"]
    if version == 2:
        if kind == "|O":
            return _TEXT_BYTES if "vlen-utf8" in codecs and codecs <= {"vlen-utf8", *metadata.NUMCODECS} else 0
        fixed = re.fullmatch(r"[<>|][US](\d{1,6})", kind)
        return 4 * int(fixed[1]) if fixed and codecs <= {*metadata.NUMCODECS} else 0
    name, settings = (kind["name"], kind.get("configuration", {})) if isinstance(kind, dict) else (kind, {})
    if not codecs <= {"vlen-utf8", "bytes", "zstd", "gzip", "blosc", "crc32c"}:
        return 0
    if name in ("fixed_length_utf32", "null_terminated_bytes"):
        return int(settings["length_bytes"])
    return _TEXT_BYTES if name == "string" else 0


def _texts(array: Stored) -> NDArray[Any]:
    """The texts of an array, which the strict store reads, as a tensor's chunks."""
    with metadata.errors_worded(array.folder, "read"):
        return as_texts(np.asarray(opened(array)[(...,)]))


# What is in a store.


def contents(address: Address, types: TextTypes) -> Contents | None:
    """What the store or the group holds; None where the address is that of an array, or of nothing."""
    store, key = address.path, (address.key or "").strip("/")
    if platform.is_remote(store):
        store = remote.mirror(store)
    found = metadata.attributes_of_group(store, key)
    if found is None:
        return None
    items = tuple(_items(store, key, types.asked))
    arrays = [item for item in items if not item.is_group]
    return Contents(
        address.path, "zarr", items, None if address.key is not None else only_of(arrays), key, len(found), is_tree=True
    )


def _items(store: str, key: str, asked: DataType | None) -> Iterator[Item]:
    """Everything in a group, depth first and by name."""
    pending = [(each, 0) for each in metadata.folders_in(store, key)]
    while pending:
        below, depth = pending.pop()
        item = _item(store, below, depth, asked)
        yield item
        if item.is_group:
            pending += [(each, depth + 1) for each in metadata.folders_in(store, below)]


def _item(store: str, key: str, depth: int, asked: DataType | None) -> Item:
    """The array or the group in a folder; what is wrong with its metadata is told in its place."""
    item = Item(key, depth=depth)
    try:
        if (attributes := metadata.attributes_of_group(store, key)) is not None:
            return item._replace(what=GROUP, attributes=len(attributes))
        found = metadata.read(str(Path(store, key)), key, asked)
        item = item._replace(
            sizes=found.sizes, dimensions=found.dimensions, attributes=found.attributes, details=details_of(found)
        )
        return item._replace(desc=TensorDesc(data_type_of(found.dtype), found.sizes))
    except RevseqError as e:
        return item.refused(e)
