"""New Zarr stores: one array, whose chunks the workers encode and write; from Zarr to Zarr it keeps its metadata."""

from __future__ import annotations

import functools
import json
import os
import warnings
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.core import dtypes, system
from revseq_cli.core.dtypes import is_nameless
from revseq_cli.core.errors import UsageError, listed
from revseq_cli.formats import file_io
from revseq_cli.formats.atomic_file import copy_file
from revseq_cli.formats.contents import TensorNameError, refuse_taken
from revseq_cli.formats.contract import BlockWriter, FileSink, Source, parts
from revseq_cli.formats.meaning import FILL, fill_of, typed
from revseq_cli.formats.zarr import meaning, metadata, source

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from revseq_cli.formats.atomic_file import AtomicFile
    from revseq_cli.formats.contract import Layout, Region
    from revseq_cli.formats.file_io import Identity
    from revseq_cli.formats.meaning import Meaning, Variable

_GROUPS: dict[metadata.Version, dict[str, Any]] = {
    2: {"zarr_format": 2},
    3: {"zarr_format": 3, "node_type": "group", "attributes": {}},
}
# A field of a group of version 3: a copy of the metadata of all arrays, also of those that are not copied.
_CONSOLIDATED = "consolidated_metadata"


class ZarrSink(FileSink):
    """A new store with one array, or a copy of the input's with new chunks for that array, or with one added."""

    encoded = True

    def __init__(self, file: AtomicFile, template: Source, key: str, layout: Layout) -> None:
        super().__init__(file)
        self._data_type = template.desc.data_type
        said = template.meaning()
        source.require_package(file.name)
        self._inner = _checked(key, file.name, template.key if isinstance(template, source.ZarrSource) else "")
        if isinstance(template, source.ZarrSource):
            self._version, self._shards = template.metadata.version, template.metadata.shards
            array = _copied(template)
        else:
            self._version = metadata.NEWEST
            dtype = template.dtype.newbyteorder("=")  # in the format, codecs have a byte order and data types have none
            if dtypes.is_minifloat(dtype):  # zarr lacks them, but has a type of bytes
                dtype = np.dtype(f"V{dtype.itemsize}")
            attributes = meaning.encoded(typed({n: v for n, v in said.attributes.items() if n != FILL}, dtype))
            if (fill := fill_of(said.attributes, dtype)) is not None:
                attributes[FILL] = meaning.encoded_fill(fill)
            self._shards, array = _made(template.sizes, dtype, said.dimensions, attributes, self._version, file.name)
            self.notes += said.left_behind(can_grow=False)
        self.chunks = self._shards
        self._files = {PurePosixPath(self._inner, name): data for name, data in array.items()}
        self._files |= _groups(template, said, self._inner, self._version)
        self._old = template if not layout.only and isinstance(template, source.ZarrSource) else None
        self._variables = self._beside(said.coordinates) if not self._old else ()
        self._kept = sum(each.values.nbytes for each in self._variables)
        if self._old and self._inner != self._old.key and Path(self._old.store, self._inner).exists():
            refuse_taken(self._inner, [self._inner], self._old.store)
        self._old_state = source.state(self._old.store, self._old.name) if self._old else None
        if self._old and self._old_state:
            self._kept = self._old_state.stored - (self._old.stored if self._inner == self._old.key else 0)

    def _beside(self, variables: tuple[Variable, ...]) -> tuple[Variable, ...]:
        """The variables that go into the array's group; a note on those that cannot."""
        own_name = PurePosixPath(self._inner).name
        fits = [each for each in variables if own_name and own_name != each.name and _is_name(each.name)]
        if lost := [each.name for each in variables if each not in fits]:
            self.notes += (f"not copied, since they have no place beside the array: {listed(lost)}",)
        return tuple(fits)

    @property
    def _folder(self) -> Path:
        return Path(self.file.temporary, self._inner)

    def start(self) -> None:
        """Write the metadata, or copy the store."""
        if self._old:
            self._copy(self._old)
            if self._inner == self._old.key:
                return
        with source.errors_worded(self.file.name, "write"):
            self._folder.mkdir(parents=True, exist_ok=True)
            for name, data in self._files.items():
                path = Path(self.file.temporary, name)
                if not path.exists():  # of the groups of a copy
                    path.write_bytes(data)
            for variable in self._variables:
                _write(self._folder.with_name(variable.name), variable, self._version, self.file.name)

    def _copy(self, old: source.ZarrSource) -> None:
        """Copy every file and folder of the old store but the chunks of an array that is replaced."""
        place_of = metadata.chunk_places(old.metadata)
        for folder, _, names in os.walk(old.store, onerror=_raise):  # it follows no links
            target = Path(self.file.temporary, os.path.relpath(folder, old.store))
            with source.errors_worded(self.file.name, "write"):
                target.mkdir(exist_ok=True)
            for name in names:
                path = Path(folder, name)
                is_chunk = place_of(Path(os.path.relpath(path, old.folder)).as_posix()) is not None
                if self._inner != old.key or not is_chunk:
                    copy_file(str(path), str(target / name), self.file.name)

    def finish(self) -> None:
        """TensorIOError if the input's store has changed since it was copied."""
        if self._old and source.state(self._old.store, self._old.name) != self._old_state:
            raise source.changed(self._old.store)

    def block_writer(self, region: Region) -> BlockWriter:  # noqa: ARG002 - every region has the same one
        """Workers encode and write the chunks."""
        return self._block_writer

    @functools.cached_property
    def _block_writer(self) -> ZarrBlockWriter:
        path = self._folder / metadata.ARRAY_FILES[self._version][0]
        with file_io.opened(str(path), name=self.file.name) as fd:
            return ZarrBlockWriter(str(self._folder), self.file.name, self._version, self._shards, file_io.identity(fd))

    def reopen(self) -> Source:
        """The complete store, as an input."""
        return source.ZarrSource(self.file.temporary, self._inner, self.file.name, self._data_type)


@dataclass(frozen=True)
class ZarrBlockWriter:
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
                file_io.patiently(write, system.keeps_name)


def _is_name(name: str) -> bool:
    """Whether the name of a variable can be that of a new array."""
    return (
        bool(name.strip(".")) and name not in metadata.FILES and not name.startswith("__") and not {*"\0/\\"} & {*name}
    )


def _write(folder: Path, variable: Variable, version: metadata.Version, where: str) -> None:
    """Write an array that goes with the tensor."""
    from revseq_cli.formats.zarr import store  # the package takes a while to load

    values, attributes = variable.values, dict(variable.attributes)
    is_text = values.dtype == object
    fill = None if is_text else fill_of(attributes, values.dtype)
    attributes.pop(FILL, None)
    stated = meaning.encoded(attributes)
    if fill is not None and version == 3:
        stated[FILL] = meaning.encoded_fill(fill)
    dtype = str if is_text else values.dtype.newbyteorder("=")
    _, files = _made(values.shape, dtype, variable.dimensions, stated, version, where, fill)
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    store.open_array(str(folder), version, "r+")[(...,)] = values.astype(dtype)


def _stored(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The values in zarr's dtype: elements of a type that zarr lacks become bytes, little-endian."""
    if is_nameless(dtype):
        return np.ascontiguousarray(values, values.dtype.newbyteorder("<")).view(dtype)
    return np.asarray(values, dtype)


def _raise(error: OSError) -> None:
    raise file_io.failed(error.filename, "read", error)


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


def _copied(template: source.ZarrSource) -> dict[str, bytes]:
    """The metadata files of the input's array, which say chunks, codecs, fill value and attributes, byte by byte."""
    paths = [Path(template.folder, name) for name in metadata.ARRAY_FILES[template.metadata.version]]
    return {path.name: path.read_bytes() for path in paths if path.exists()}


def _made(
    sizes: tuple[int, ...],
    dtype: Any,  # noqa: ANN401 - of NumPy, or str
    dimensions: tuple[str, ...],
    attributes: dict[str, Any],
    version: metadata.Version,
    where: str,
    fill: Any = None,  # noqa: ANN401 - a NumPy number
) -> tuple[tuple[int, ...], dict[str, bytes]]:
    """The sizes of chunks and the metadata files of a new array, as the package zarr chooses them.

    `fill` is the fill value of version 2, which marks missing values there.
    """
    from zarr.api import asynchronous

    from revseq_cli.formats.zarr import store  # the package takes a while to load

    files: dict[str, Any] = {}
    more: dict[str, Any] = {"attributes": attributes} if attributes else {}
    if dimensions and version == 3:
        more["dimension_names"] = [name or None for name in dimensions]
    elif version == 2 and len(dimensions) == len(sizes):
        more |= {"attributes": attributes | {meaning.DIMENSIONS: [*dimensions]}, "fill_value": fill}
    with source.errors_worded(where, "write"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zarr warns that the specification has no data type for bytes
        created = asynchronous.create_array(files, shape=sizes, dtype=dtype, zarr_format=version, **more)
        array = store.done(created)
        return array.chunks, {name: data.to_bytes() for name, data in files.items()}


def _groups(template: Source, said: Meaning, key: str, version: metadata.Version) -> dict[PurePosixPath, bytes]:
    """The metadata files of every group on the new array's path, with the attributes of a group on the input's path.

    The groups of the two paths are paired from the arrays upwards, and the root of one store with that of the other.
    """
    files = {}
    main, *others = metadata.GROUP_FILES[version]
    parents = [*PurePosixPath(key).parents]
    old: dict[PurePosixPath, Path] = {}
    if isinstance(template, source.ZarrSource) and template.key:
        paths = parents, [*PurePosixPath(template.key).parents]
        pairs = [*zip(*(path[:-1] for path in paths), strict=False), *zip(*(path[-1:] for path in paths), strict=False)]
        old = {parent: Path(template.store, counterpart) for parent, counterpart in pairs}
    for parent in parents:
        kept = {name: metadata.read_object(old[parent] / name) for name in (main, *others) if parent in old}
        kept.get(main, {}).pop(_CONSOLIDATED, None)
        files[parent / main] = kept.get(main) or _GROUPS[version]
        files |= {parent / name: kept[name] for name in others if kept.get(name)}
    if not isinstance(template, source.ZarrSource):
        for parent, attributes in zip(parents[::-1], said.groups, strict=False):
            files[parent / main] = _GROUPS[version] | {"attributes": meaning.encoded(attributes)}
    return {path: json.dumps(fields).encode() for path, fields in files.items()}
