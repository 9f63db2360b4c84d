"""New Zarr stores: one array, or a copy of a store with that array added or replaced.

Workers encode and write the chunks.
"""

from __future__ import annotations

import contextlib
import functools
import json
import warnings
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from zarr.api import asynchronous
from zarr.storage import LocalStore

from revseq_cli.core import dtypes, platform
from revseq_cli.core.dtypes import is_untyped
from revseq_cli.core.errors import FormatError, UsageError, join_names
from revseq_cli.core.tensors import Region, split_chunks
from revseq_cli.files import join
from revseq_cli.files.new import NewFile
from revseq_cli.files.system_errors import retry_while_in_use
from revseq_cli.formats.attributes import (
    NOTHING,
    Attributes,
    Meaning,
    Variable,
    as_texts,
    fit_types,
)
from revseq_cli.formats.contract import BlockWriter, FileSink, Original, Source
from revseq_cli.formats.refusals import make_dimension_error, make_name_error
from revseq_cli.formats.zarr.arrays import ZarrArray, wait_for, wrap_zarr_errors
from revseq_cli.formats.zarr.attributes import as_json, attributes_of
from revseq_cli.formats.zarr.copies import StoreCopy
from revseq_cli.formats.zarr.metadata import read_metadata
from revseq_cli.formats.zarr.new_metadata import NewArray
from revseq_cli.formats.zarr.source import ZarrSource
from revseq_cli.formats.zarr.store import (
    ARRAY_FILES,
    CONSOLIDATED,
    GROUP_FILES,
    METADATA_FILES,
    Version,
    ZarrNode,
    ZarrStore,
    groups_above,
    prefix_of,
    read_store,
)

_MOST_CHUNKS = 100_000  # as many files as a folder takes without slowing down
_GROUPS: dict[int, dict[str, Any]] = {
    2: {"zarr_format": 2},
    3: {"zarr_format": 3, "node_type": "group", "attributes": {}},
}


class ZarrSink(FileSink):
    """A new store with one array, or a copy of a store with that array added or replaced.

    The copy is of INPUT's store, in which INPUT may be replaced, or of the output's own store:
    `_store` is the one that is copied, or None. `_input` is INPUT if it is a Zarr array. The path
    of the new array is `_key`, and `_groups` are the paths of the groups above it.
    """

    encoded = True

    def __init__(
        self, file: NewFile, template: Source, key: str, original: Original | None
    ) -> None:
        super().__init__(file)
        self._data_type = template.desc.data_type
        self._input = template if isinstance(template, ZarrSource) else None
        self._original = original
        self._copies_input = original is not None and original.is_input
        self._store = self._open_original()
        self._version = self._choose_version()
        self._key = _require_path(key, file.name, self._input.key if self._input else "")
        self._groups = groups_above(self._key)
        meaning = NOTHING
        if not self._copies_input:
            meaning = (template.meaning() or NOTHING).without_pointers()
        sizes = tuple(f"the unlimited size of {name}" for name in meaning.unlimited)
        self.left_out = meaning.left + sizes
        self._array_files = self._make_array_files(template, meaning)
        # The files of metadata that the store gets if it lacks them, by their paths.
        self._new_files = self._make_group_files(meaning.groups)
        for name, data in self._array_files.items():
            self._new_files[f"{prefix_of(self._key)}{name}"] = data
        self._copy = self._make_copy()
        self._coordinates: list[Variable] = []
        if not self._copies_input:
            self._coordinates = self._choose_coordinates(meaning.coordinates)

    @property
    def _replaces_input(self) -> bool:
        """Whether INPUT's array is replaced in a copy of its store, whose metadata all stay."""
        return self._original is not None and self._original.input_key == self._key

    def _open_original(self) -> ZarrStore | None:
        """The store of which the new one is a copy, or None."""
        if not self._original:
            return None
        if self._input and self._original.is_input:
            return self._input.store
        return read_store(self._original.path)

    def _choose_version(self) -> Version:
        """The version of the store that is copied, or else of INPUT's array."""
        if self._store and not self._copies_input:
            node = self._store.read_node("")
            if node:
                return node.version
        return self._input.metadata.version if self._input else 3

    # Metadata

    def _make_array_files(self, template: Source, meaning: Meaning) -> dict[str, bytes]:
        """The files of metadata of the array: those of INPUT's array, or new ones."""
        if self._input and self._input.metadata.version == self._version:
            self.chunks = self._input.metadata.shards
            return dict(self._input.array.metadata_files)
        # Codecs have a byte order, and data types have none.
        dtype = template.dtype.newbyteorder("=")
        if dtypes.is_minifloat(dtype):  # zarr lacks them, but has a type of bytes
            dtype = np.dtype(f"V{dtype.itemsize}")
        array = NewArray(
            self._version,
            template.sizes,
            dtype,
            meaning.dimensions,
            fit_types(meaning.attributes, dtype),
            self._choose_chunks(template),
            meaning.storage_fill,
        )
        self.chunks, files = array.create_metadata(self.file.name)
        return files

    def _choose_chunks(self, template: Source) -> tuple[int, ...] | None:
        """The chunks of INPUT, cut to its sizes; None to let zarr choose, where they are too many.

        Each chunk is a file.
        """
        if not template.chunks:
            return None
        sizes = [max(1, size) for size in template.sizes]
        chunks = tuple(map(min, template.chunks, sizes))
        count = prod(-(-size // chunk) for size, chunk in zip(sizes, chunks, strict=True))
        if count <= _MOST_CHUNKS:
            return chunks
        self.left_out += (f"its chunks {chunks}, which would be {count:,} files",)
        return None

    def _make_group_files(self, groups: tuple[Attributes, ...]) -> dict[str, bytes]:
        """The files of metadata of every group on the array's path, by their paths.

        A group gets the attributes of the one that INPUT's store has at the same path, or those in
        `groups` if INPUT has another format. In a copy of another store, new groups have none.
        """
        attributes_of_group = dict(zip(self._groups, groups, strict=False))
        files = {}
        for key in self._groups:
            group = self._make_group(key, attributes_of_group.get(key, {}))
            for name, fields in group.items():
                files[f"{prefix_of(key)}{name}"] = json.dumps(fields).encode()
        return files

    def _make_group(self, key: str, attributes: Attributes) -> dict[str, dict[str, Any]]:
        """The files of metadata of a group by their names."""
        main_name = GROUP_FILES[self._version][0]
        new = {main_name: _GROUPS[self._version]}
        if self._store and not self._copies_input:
            return new
        if self._input:
            return new | self._read_group_of_input(key)
        return {main_name: _GROUPS[3] | {"attributes": as_json(attributes)}}

    def _read_group_of_input(self, key: str) -> dict[str, dict[str, Any]]:
        """The files of metadata of a group that INPUT is in; none for another group."""
        source = cast("ZarrSource", self._input)
        if key not in groups_above(source.key):
            return {}
        files = {}
        for name in GROUP_FILES[self._version]:
            fields = source.store.read_json(f"{prefix_of(key)}{name}")
            if name == "zarr.json":
                fields.pop(CONSOLIDATED[3], None)
            if fields:
                files[name] = fields
        return files

    # The rest of the store

    def _make_copy(self) -> StoreCopy | None:
        """The copy of the original; UsageError where it has no room for such an array."""
        if self._original is None or self._store is None:
            return None
        replaced = None
        if self._replaces_input:
            replaced = cast("ZarrSource", self._input).metadata
        return StoreCopy(self._original, self._store, self._key, replaced)

    def _choose_coordinates(self, coordinates: tuple[Variable, ...]) -> list[Variable]:
        """The coordinates to write next to the array; UsageError where others are there."""
        own_name = self._key.rpartition("/")[2]
        if self._store:
            self._refuse_other_sizes(self._store)
        new = []
        lost = []
        for variable in coordinates:
            has_room = own_name not in ("", variable.name) and _is_name(variable.name)
            if not has_room:
                lost.append(variable.name)
            elif not self._has_coordinate(variable):
                new.append(variable)
        if lost:
            self.left_out += (f"{join_names(lost)}, for which there is no room next to the array",)
        return new

    def _refuse_other_sizes(self, store: ZarrStore) -> None:
        """UsageError where a dimension has another size in the group, which xarray cannot open."""
        group = self._key.rpartition("/")[0]
        if store.read_node(group) is None:
            return
        own_node = _node_of(self._version, self._array_files)
        array = read_metadata(own_node, self.file.name, self._data_type)
        size_of = dict(zip(array.dimensions, array.sizes, strict=False))
        for key in store.list_folders(group):
            node = store.read_node(key)
            if node is None or not node.is_array:
                continue
            if key == self._key:
                continue
            with contextlib.suppress(FormatError):  # another array may be of any kind
                other = read_metadata(node, key, texts=True)
                for name, size in zip(other.dimensions, other.sizes, strict=False):
                    if name and size_of.get(name, size) != size:
                        raise make_dimension_error(name, f"{self.file.name}::{self._key}")

    def _has_coordinate(self, variable: Variable) -> bool:
        """Whether the store has that coordinate; UsageError where it has other values."""
        if self._store is None:
            return False
        key = f"{prefix_of(self._key.rpartition('/')[0])}{variable.name}"
        node = self._store.read_node(key)
        if node is None:
            return False
        array = ZarrArray.of(self._store, key, node.version, self._store.path)
        with wrap_zarr_errors(self._store.path, "read"):
            values = array.read_region((...,))
        if values.dtype.kind in "USO":
            values = as_texts(values)
        if not variable.is_same_as(Variable(variable.name, attributes_of(node)[0], values)):
            raise make_dimension_error(variable.name, f"{self.file.name}::{self._key}")
        return True

    # Writing

    def start(self) -> None:
        """Copy the store, or write the metadata of an array that it lacks, and of its groups."""
        folder = Path(self.file.temporary)
        with wrap_zarr_errors(self.file.name, "write"):
            if self._copy:
                self._copy.copy_files(folder, self.file.name)
            (folder / self._key).mkdir(parents=True, exist_ok=True)
            for name, data in self._new_files.items():
                if not (folder / name).exists():
                    (folder / name).write_bytes(data)
            for variable in self._coordinates:
                self._write_coordinate(variable, (folder / self._key).with_name(variable.name))

    def _write_coordinate(self, variable: Variable, folder: Path) -> None:
        """Write a coordinate as a new array in that folder."""
        values = variable.values
        dtype = str if values.dtype == object else values.dtype.newbyteorder("=")
        new = NewArray(self._version, values.shape, dtype, (variable.name,), variable.attributes)
        _, files = new.create_metadata(self.file.name)
        folder.mkdir()
        for name, data in files.items():
            (folder / name).write_bytes(data)
        array = ZarrArray(str(folder), self._version, tuple(files.items()), "r+")
        array.write_regions([((...,), values.astype(dtype))])

    def finish(self) -> None:
        """Add the array to consolidated metadata; TensorIOError if INPUT's store has changed."""
        if self._store and not self._replaces_input:
            for key in self._groups:
                self._consolidate(self._store, key)
        if self._copy and self._copies_input:
            self._copy.require_unchanged()

    def _consolidate(self, store: ZarrStore, key: str) -> None:
        """Write a group's consolidated metadata again, where the original store has them."""
        start = prefix_of(key)
        in_field = CONSOLIDATED[3] in store.read_json(f"{start}zarr.json")
        if not in_field and store.read_metadata_file(f"{start}{CONSOLIDATED[2]}") is None:
            return
        with wrap_zarr_errors(self.file.name, "write"), warnings.catch_warnings():
            # zarr warns that they are not in the specification of version 3.
            warnings.simplefilter("ignore")
            folder = LocalStore(self.file.temporary)
            work = asynchronous.consolidate_metadata(
                folder, path=key or None, zarr_format=self._version
            )
            wait_for(work)

    def block_writer(self, region: Region) -> BlockWriter:  # noqa: ARG002 - one for all regions
        folder = join(self.file.address or self.file.temporary, self._key)
        array = ZarrArray(folder, self._version, tuple(self._array_files.items()), "r+")
        return _ZarrBlockWriter(array, self.file.name, self.chunks or ())

    def reopen(self) -> Source:
        return ZarrSource(
            self.file.temporary, self._key, self.file.name, self._data_type, self.file.address
        )


@dataclass(frozen=True)
class _ZarrBlockWriter:
    """Encodes and writes the chunks of a block, which no other block shares."""

    array: ZarrArray
    name: str
    chunks: tuple[int, ...]

    def deliver(self, region: Region, values: NDArray[Any]) -> None:
        """Write the values chunk by chunk: a few at once, since each may be a request.

        They are written again where another program, such as a virus scanner, has its new file open
        for a moment.
        """
        with wrap_zarr_errors(self.name, "write"):
            dtype = self.array.open().dtype
            chunks = [
                (box, _as_stored(part, dtype))
                for box, part in split_chunks(region, values, self.chunks)
            ]
            write = functools.partial(self.array.write_regions, chunks)
            retry_while_in_use(write, platform.keeps_name)


def _as_stored(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The elements as zarr stores them: as little-endian bytes, if it lacks their type."""
    if is_untyped(dtype):
        return np.ascontiguousarray(values, values.dtype.newbyteorder("<")).view(dtype)
    return np.asarray(values, dtype)


def _node_of(version: Version, files: dict[str, bytes]) -> ZarrNode:
    """An array of those files of metadata."""
    fields = json.loads(files[ARRAY_FILES[version][0]])
    attributes = fields.get("attributes", {})
    if version == 2:
        attributes = json.loads(files.get(ARRAY_FILES[2][1], b"{}"))
    return ZarrNode(version, fields, attributes, is_array=True)


def _is_name(name: str) -> bool:
    """Whether a new array or group may have that name; Zarr reserves those that begin with __."""
    if name in METADATA_FILES or name.startswith("__"):
        return False
    is_of_points = not name.strip(".")  # nothing, ".", ".." and so on
    return not is_of_points and not {*"\0/\\"} & {*name}


def _require_path(key: str, where: str, old: str) -> str:
    """The path of a new array; UsageError for a part that no folder can have, or a reserved one.

    Reserved parts that are in the path `old` are allowed.
    """
    key = key.strip("/")
    for part in key.split("/") if key else ():
        is_reserved_in_old = part.startswith("__") and part in old.split("/")
        if not _is_name(part) and not is_reserved_in_old:
            raise make_name_error(key, "array", "a path such as group/name", where)
        fault, hint = platform.name_fault(part)  # each part is the name of a folder
        if fault:
            raise UsageError(fault, "a path such as group/name", hint, f"{where}::{key}")
    return key
