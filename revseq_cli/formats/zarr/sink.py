"""New Zarr stores: one array, whose chunks the workers encode and write; from Zarr to Zarr it keeps its metadata."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import warnings
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.formats.contents import TensorNameError
from revseq_cli.formats.contract import FileSink, Outlet, Source, parts
from revseq_cli.formats.storage import positioned
from revseq_cli.formats.storage.newfile import copy_file
from revseq_cli.formats.zarr import chunks, metadata, source
from revseq_cli.ground import minifloats, stopping, system
from revseq_cli.ground.dtypes import is_nameless
from revseq_cli.ground.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Region
    from revseq_cli.formats.storage.newfile import NewFile
    from revseq_cli.formats.storage.positioned import Identity

_GROUPS: dict[metadata.Version, dict[str, Any]] = {
    2: {"zarr_format": 2},
    3: {"zarr_format": 3, "node_type": "group", "attributes": {}},
}
# A field of a group of version 3: a copy of the metadata of all arrays, also of those that are not carried over.
_CONSOLIDATED = "consolidated_metadata"


class ZarrSink(FileSink):
    """A new store with one array; with `keep_others`, a copy of the input's store with new chunks for that array."""

    encoded = True
    writes_in_parallel = False  # most codecs hold Python's lock

    def __init__(self, file: NewFile, like: Source, key: str, *, keep_others: bool = False) -> None:
        super().__init__(file)
        self._data_type = like.desc.data_type
        source.require_package(file.name)
        self._inner = _checked(key, file.name, like.key if isinstance(like, source.ZarrSource) else "")
        if isinstance(like, source.ZarrSource):
            self._version, self._shards = like.metadata.version, like.metadata.shards
            array = _copied(like)
        else:
            self._version = metadata.NEWEST
            self._shards, array = _made(like, file.name)
        self.chunks = self._shards
        self._files = {PurePosixPath(self._inner, name): data for name, data in array.items()}
        self._files |= _groups(like, self._inner, self._version)
        self._old = like if keep_others and isinstance(like, source.ZarrSource) else None
        self._old_state = source.state(self._old.store, self._old.name) if self._old else None
        if self._old and self._old_state:
            self.kept = self._old_state.stored - self._old.stored

    @property
    def _folder(self) -> Path:
        return Path(self.file.temporary, self._inner)

    def start(self) -> None:
        """Write the metadata, or copy the store."""
        if self._old:
            self._copy(self._old)
            return
        with source.errors_worded(self.file.name, "write"):
            self._folder.mkdir(parents=True, exist_ok=True)
            for name, data in self._files.items():
                Path(self.file.temporary, name).write_bytes(data)

    def _copy(self, old: source.ZarrSource) -> None:
        """Copy every file and folder of the old store but the array's chunks."""
        place_of = chunks.places(old.metadata)
        for folder, _, names in os.walk(old.store, onerror=_raise):  # it follows no links
            target = Path(self.file.temporary, os.path.relpath(folder, old.store))
            with source.errors_worded(self.file.name, "write"):
                target.mkdir(exist_ok=True)
            for name in names:
                path = Path(folder, name)
                if place_of(Path(os.path.relpath(path, old.folder)).as_posix()) is None:
                    copy_file(str(path), str(target / name), self.file.name)

    def finish(self) -> None:
        """TensorIOError if the input's store has changed since it was copied."""
        if self._old and source.state(self._old.store, self._old.name) != self._old_state:
            raise source.changed(self._old.store)

    def outlet(self, region: Region) -> Outlet:  # noqa: ARG002 - every region has the same one
        """Workers encode and write the chunks."""
        return self._outlet

    @functools.cached_property
    def _outlet(self) -> ZarrOutlet:
        path = self._folder / metadata.ARRAY_FILES[self._version][0]
        with positioned.opened(str(path), name=self.file.name) as fd:
            return ZarrOutlet(str(self._folder), self.file.name, self._version, self._shards, positioned.identity(fd))

    def reopen(self) -> Source:
        """The complete store, as an input."""
        return source.ZarrSource(self.file.temporary, self._inner, self.file.name, self._data_type)

    def digest(self) -> str:
        """SHA-256 of what sha256sum prints for all files of the store, in the order of their paths inside the store."""
        self.complete()
        digests = []
        for path in Path(self.file.temporary).rglob("*"):
            if path.is_file():
                stopping.check()
                name = path.relative_to(self.file.temporary).as_posix()
                digests.append((name, hashlib.sha256(path.read_bytes()).hexdigest()))
        return hashlib.sha256("".join(f"{digest}  {name}\n" for name, digest in sorted(digests)).encode()).hexdigest()


@dataclass(frozen=True)
class ZarrOutlet:
    """Encodes and writes the chunks of a block, which no other block shares."""

    folder: str
    name: str
    version: metadata.Version
    chunks: tuple[int, ...]
    identity: Identity

    def deliver(self, region: Region, values: NDArray[Any]) -> None:
        """Write the values chunk by chunk: given several, zarr would write the others after one has failed.

        A chunk is written again where another program, such as a virus scanner, has its new file open for a moment.
        """
        with source.errors_worded(self.name, "write"):
            array = source.opened(self.folder, self.version, self.identity, "r+")
            for box, part in parts(region, values, self.chunks):
                write = functools.partial(array.__setitem__, box, _stored(part, array.dtype))
                positioned.patiently(write, system.keeps_name)


def _stored(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The values in zarr's dtype: elements of a type that zarr lacks become bytes, little-endian."""
    if is_nameless(dtype):
        return np.ascontiguousarray(values, values.dtype.newbyteorder("<")).view(dtype)
    return np.asarray(values, dtype)


def _raise(error: OSError) -> None:
    raise positioned.failed(error.filename, "read", error)


def _checked(key: str, where: str, old: str) -> str:
    """The path of a new array; TensorNameError for a part that no folder may have, or that the format reserves.

    The format also reserves parts that begin with two underscores; they pass where the input's path `old` has them.
    """
    parts = key.strip("/").split("/") if key.strip("/") else []
    for part in parts:
        is_reserved = part in metadata.FILES or (part.startswith("__") and part not in old.split("/"))
        if not part.strip(".") or is_reserved or {"\0", "\\"}.intersection(part):
            raise TensorNameError.of(key, "array", "a path such as group/name", where)
        fault, hint = system.name_fault(part, writing=True)  # each part is the name of a folder
        if fault:
            raise UsageError(fault, "a path such as group/name", hint, f"{where}::{key}")
    return "/".join(parts)


def _copied(like: source.ZarrSource) -> dict[str, bytes]:
    """The metadata files of the input's array, which say chunks, codecs, fill value and attributes, byte by byte."""
    paths = [Path(like.folder, name) for name in metadata.ARRAY_FILES[like.metadata.version]]
    return {path.name: path.read_bytes() for path in paths if path.exists()}


def _made(like: Source, where: str) -> tuple[tuple[int, ...], dict[str, bytes]]:
    """The sizes of chunks and the metadata file of a new array, as the package zarr chooses them."""
    from zarr.api import asynchronous

    from revseq_cli.formats.zarr import store  # the package takes a while to load

    files: dict[str, Any] = {}
    with source.errors_worded(where, "write"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zarr warns that the specification has no data type for bytes
        dtype = like.dtype.newbyteorder("=")  # in the format, codecs have a byte order and data types have none
        if minifloats.is_minifloat(dtype):  # zarr lacks them, but has a type of bytes
            dtype = np.dtype(f"V{dtype.itemsize}")
        array = store.done(asynchronous.create_array(files, shape=like.sizes, dtype=dtype, zarr_format=metadata.NEWEST))
        return array.chunks, {name: data.to_bytes() for name, data in files.items()}


def _groups(like: Source, key: str, version: metadata.Version) -> dict[PurePosixPath, bytes]:
    """The metadata files of every group on the new array's path, with the attributes of a group on the input's path.

    The groups of the two paths are paired from the arrays upwards, and the root of one store with that of the other.
    """
    files = {}
    main, *others = metadata.GROUP_FILES[version]
    parents = [*PurePosixPath(key).parents]
    old: dict[PurePosixPath, Path] = {}
    if isinstance(like, source.ZarrSource) and like.key:
        paths = parents, [*PurePosixPath(like.key).parents]
        pairs = [*zip(*(path[:-1] for path in paths), strict=False), *zip(*(path[-1:] for path in paths), strict=False)]
        old = {parent: Path(like.store, counterpart) for parent, counterpart in pairs}
    for parent in parents:
        kept = {name: metadata.read_object(old[parent] / name) for name in (main, *others) if parent in old}
        kept.get(main, {}).pop(_CONSOLIDATED, None)
        files[parent / main] = kept.get(main) or _GROUPS[version]
        files |= {parent / name: kept[name] for name in others if kept.get(name)}
    return {path: json.dumps(fields).encode() for path, fields in files.items()}
