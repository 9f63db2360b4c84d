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
from revseq_cli.files.copies import copy_file
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
from revseq_cli.formats.zarr.arrays import (
    ZarrArray,
    attributes_as_json,
    make_array_files,
    wait_for,
    wrap_zarr_errors,
)
from revseq_cli.formats.zarr.metadata import attributes_of, read_metadata
from revseq_cli.formats.zarr.source import ZarrSource
from revseq_cli.formats.zarr.store import (
    CONSOLIDATED,
    GROUP_FILES,
    METADATA_FILES,
    Version,
    ZarrStore,
    groups_above,
    prefix_of,
    read_files_state,
    read_store,
    report_change,
)

_MOST_CHUNKS = 100_000  # as many files as a folder takes without slowing down


class ZarrSink(FileSink):
    """A new store with one array, or a copy of a store with that array added or replaced.

    `original` is the store that is copied: INPUT's, where INPUT's own array may be replaced, or the
    output's own. The path of the new array is `_key`, and its files of metadata are `_array_files`,
    by their names. `_new_files` are all files of metadata that the store gets if it lacks them, by
    their paths. `_coordinates` are written as arrays next to the new one.
    """

    encoded = True

    def __init__(
        self, file: NewFile, template: Source, key: str, original: Original | None
    ) -> None:
        super().__init__(file)
        self._data_type = template.desc.data_type
        own_store = _read_own_store(original)
        self._version = _choose_version(template, own_store)
        self._key = _require_path(key, file.name, template)
        meaning = _choose_meaning(template, original)
        self.chunks, self._array_files, lost_chunks = self._make_array(template, meaning)
        self._new_files = _make_group_files(
            self._key, self._version, template, own_store, meaning.groups
        )
        for name, data in self._array_files.items():
            self._new_files[f"{prefix_of(self._key)}{name}"] = data
        self._copy = _choose_copy(original, own_store, template, self._key)
        if own_store:
            self._refuse_other_sizes(own_store, meaning.dimensions, template.sizes)
        self._coordinates, lost_coordinates = self._choose_coordinates(meaning, own_store)
        unlimited = [f"the unlimited size of {name}" for name in meaning.unlimited]
        self.left_out = (*meaning.left, *unlimited, *lost_chunks, *lost_coordinates)

    # Metadata

    def _make_array(
        self, template: Source, meaning: Meaning
    ) -> tuple[tuple[int, ...], dict[str, bytes], list[str]]:
        """The sizes of the array's files and its files of metadata: those of INPUT's, or new.

        The list says what is lost: the chunks of INPUT, if they would be too many files.
        """
        if isinstance(template, ZarrSource) and template.metadata.version == self._version:
            return template.metadata.shards, dict(template.array.metadata_files), []
        # Codecs have a byte order, and data types have none.
        dtype = template.dtype.newbyteorder("=")
        if dtypes.is_minifloat(dtype):  # zarr lacks them, but has a type of bytes
            dtype = np.dtype(f"V{dtype.itemsize}")
        lost = []
        input_chunks, count = _cut_chunks(template)
        if count > _MOST_CHUNKS:
            lost.append(f"its chunks {input_chunks}, which would be {count:,} files")
            input_chunks = None
        chunks, array_files = make_array_files(
            self._version,
            template.sizes,
            dtype,
            meaning.dimensions,
            fit_types(meaning.attributes, dtype),
            self.file.name,
            input_chunks,
            meaning.storage_fill,
        )
        return chunks, array_files, lost

    # The rest of the store

    def _choose_coordinates(
        self, meaning: Meaning, own_store: ZarrStore | None
    ) -> tuple[list[Variable], list[str]]:
        """The coordinates to write next to the array, and in words those that are lost.

        UsageError if others are there.
        """
        own_name = self._key.rpartition("/")[2]
        new = []
        lost = []
        for variable in meaning.coordinates:
            has_room = own_name not in ("", variable.name) and _is_name(variable.name)
            if not has_room:
                lost.append(variable.name)
            elif own_store is None or not self._has_coordinate(own_store, variable):
                new.append(variable)
        if not lost:
            return new, []
        return new, [f"{join_names(lost)}, for which there is no room next to the array"]

    def _refuse_other_sizes(
        self, store: ZarrStore, dimensions: tuple[str, ...], sizes: tuple[int, ...]
    ) -> None:
        """UsageError if a dimension has another size in the group; xarray could not open it."""
        group = self._key.rpartition("/")[0]
        if store.read_node(group) is None:
            return
        size_of = dict(zip(dimensions, sizes, strict=False))
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

    def _has_coordinate(self, store: ZarrStore, variable: Variable) -> bool:
        """Whether the store has that coordinate; UsageError if something else has its name."""
        key = f"{prefix_of(self._key.rpartition('/')[0])}{variable.name}"
        node = store.read_node(key)
        if node is None:
            return False
        error = make_dimension_error(variable.name, f"{self.file.name}::{self._key}")
        if not node.is_array:
            raise error
        array = ZarrArray.of(store, key, node.version, store.path)
        with wrap_zarr_errors(store.path, "read"):
            (values,) = array.read_regions((...,))
        if values.dtype.kind in "USO":
            values = as_texts(values)
        if not variable.is_same_as(Variable(variable.name, attributes_of(node)[0], values)):
            raise error
        return True

    # Writing

    def start(self) -> None:
        """Copy the store, if it is a copy, and write what it lacks: metadata and coordinates."""
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
        _, files = make_array_files(
            self._version,
            values.shape,
            dtype,
            (variable.name,),
            variable.attributes,
            self.file.name,
        )
        folder.mkdir()
        for name, data in files.items():
            (folder / name).write_bytes(data)
        array = ZarrArray(str(folder), self._version, tuple(files.items()), "r+")
        array.write_regions([((...,), values.astype(dtype))])

    def finish(self) -> None:
        """Add the array to consolidated metadata; TensorIOError if INPUT's store has changed."""
        copy = self._copy
        if copy is None:
            return
        if not copy.replaces_input:
            for key in groups_above(self._key):
                self._consolidate(copy.store, key)
        if copy.original.is_input:
            copy.require_unchanged()

    def _consolidate(self, store: ZarrStore, key: str) -> None:
        """Write a group's consolidated metadata again, if the original store has such."""
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

    def block_writer(self) -> BlockWriter:
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

        They are written again if another program, such as a virus scanner, has its new file open
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


# The parts of a new store


def _read_own_store(original: Original | None) -> ZarrStore | None:
    """The output's own store, if the new one is a copy of it; None otherwise."""
    if original is None or original.is_input:
        return None
    return read_store(original.path)


def _choose_meaning(template: Source, original: Original | None) -> Meaning:
    """What INPUT says about itself, for the new array; nothing if INPUT's store is copied.

    The copy has all of it already.
    """
    if original and original.is_input:
        return NOTHING
    return (template.meaning() or NOTHING).without_pointers()


def _choose_copy(
    original: Original | None, own_store: ZarrStore | None, template: Source, key: str
) -> _StoreCopy | None:
    """The copy of the output's own store, or of INPUT's; None for a store of one array."""
    if original is None:
        return None
    if own_store:
        return _StoreCopy(original, own_store, key, template)
    input_store = cast("ZarrSource", template).store
    return _StoreCopy(original, input_store, key, template)


def _choose_version(template: Source, own_store: ZarrStore | None) -> Version:
    """The version of the store that the array is added to, or else of INPUT's array."""
    node = own_store.read_node("") if own_store else None
    if node:
        return node.version
    return template.metadata.version if isinstance(template, ZarrSource) else 3


def _cut_chunks(template: Source) -> tuple[tuple[int, ...] | None, int]:
    """The chunks of INPUT, cut to its sizes, and their number, each of which is a file."""
    if not template.chunks:
        return None, 0
    sizes = [max(1, size) for size in template.sizes]
    chunks = tuple(map(min, template.chunks, sizes))
    count = prod(-(-size // chunk) for size, chunk in zip(sizes, chunks, strict=True))
    return chunks, count


def _make_group_files(
    key: str,
    version: Version,
    template: Source,
    own_store: ZarrStore | None,
    attributes_of_groups: tuple[Attributes, ...],
) -> dict[str, bytes]:
    """The files of metadata of every group above the array `key`, by their paths.

    In the output's own store, new groups have no attributes. Elsewhere, a group gets those of
    INPUT's group of the same path; if INPUT has another format, those of its group as many levels
    below the root.
    """
    groups = groups_above(key)
    attributes_of_group = dict(zip(groups, attributes_of_groups, strict=False))
    files = {}
    for group in groups:
        if own_store:
            new = _describe_group(version, {})
        elif isinstance(template, ZarrSource):
            new = _describe_group(version, {}) | _read_group_of_input(template, group)
        else:
            new = _describe_group(version, attributes_of_group.get(group, {}))
        for name, fields in new.items():
            files[f"{prefix_of(group)}{name}"] = json.dumps(fields).encode()
    return files


def _describe_group(version: Version, attributes: Attributes) -> dict[str, dict[str, Any]]:
    """The file of metadata of a new group, by its name; version 2 keeps attributes elsewhere."""
    if version == 2:
        return {".zgroup": {"zarr_format": 2}}
    fields = {
        "zarr_format": 3,
        "node_type": "group",
        "attributes": attributes_as_json(attributes),
    }
    return {"zarr.json": fields}


def _read_group_of_input(source: ZarrSource, group: str) -> dict[str, dict[str, Any]]:
    """The files of metadata of a group that INPUT is in; none for another group."""
    if group not in groups_above(source.key):
        return {}
    files = {}
    for name in GROUP_FILES[source.metadata.version]:
        fields = source.store.read_json(f"{prefix_of(group)}{name}")
        if name == "zarr.json":
            fields.pop(CONSOLIDATED[3], None)
        if fields:
            files[name] = fields
    return files


def _is_name(name: str) -> bool:
    """Whether a new array or group may have that name; Zarr reserves those that begin with __."""
    if name in METADATA_FILES or name.startswith("__"):
        return False
    is_of_points = not name.strip(".")  # nothing, ".", ".." and so on
    return not is_of_points and not {*"\0/\\"} & {*name}


def _require_path(key: str, where: str, template: Source) -> str:
    """The path of a new array; UsageError for a part that no folder can have, or a reserved one.

    Reserved parts that are in the path of INPUT's array are allowed.
    """
    key = key.strip("/")
    input_parts = template.key.split("/") if isinstance(template, ZarrSource) else []
    for part in key.split("/") if key else ():
        is_reserved_in_input = part.startswith("__") and part in input_parts
        if not _is_name(part) and not is_reserved_in_input:
            raise make_name_error(key, "array", "a path such as group/name", where)
        fault, hint = platform.name_fault(part)  # each part is the name of a folder
        if fault:
            raise UsageError(fault, "a path such as group/name", hint, f"{where}::{key}")
    return key


# Copies of stores


class _StoreCopy:
    """A copy of the files of a store, except those of the array `key`, which is written anew.

    Where INPUT itself is replaced, only its chunks are left out, and all metadata stay.
    """

    def __init__(self, original: Original, store: ZarrStore, key: str, template: Source) -> None:
        """Choose the files to copy; UsageError if the store has no room for such an array."""
        self.original = original
        self.store = store
        self.replaces_input = original.input_key == key
        self._path = original.path
        state = read_files_state(self._path, self._path)
        self._digest = state.digest
        start = prefix_of(key)
        if not self.replaces_input:
            if any(name == key or name.startswith(start) for name in state.names):
                _require_replaceable_array(original, store, key)
            _refuse_arrays_above(original, store, key)
        self._names = []
        for name in state.names:
            is_left_out = name.startswith(start)
            if is_left_out and self.replaces_input:
                array = cast("ZarrSource", template).metadata
                is_left_out = array.is_chunk(name.removeprefix(start))
            if not is_left_out:
                self._names.append(name)

    def copy_files(self, folder: Path, where: str) -> None:
        """Copy the files to the folder of the new store, which messages call `where`."""
        for name in self._names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            copy_file(join(self._path, name), str(folder / name), where)

    def require_unchanged(self) -> None:
        """TensorIOError if the store is not as it was."""
        if read_files_state(self._path, self._path).digest != self._digest:
            raise report_change(self._path)


def _require_replaceable_array(original: Original, store: ZarrStore, key: str) -> None:
    """UsageError unless what has the array's path is an array that may be replaced."""
    original.require_replaceable(key)
    node = store.read_node(key)
    if node is None or not node.is_array:
        what = "a group" if node else "a file or a folder"
        expected = "a name that is free, or an array's"
        raise UsageError(f"{key} is {what}", expected, where=original.path)


def _refuse_arrays_above(original: Original, store: ZarrStore, key: str) -> None:
    """UsageError for a path inside another array."""
    for group in groups_above(key):
        node = store.read_node(group)
        if node and node.is_array:
            found = f"would lie inside an array of {original.path}"
            hint = "to write just the array, add --only" if original.is_input else ""
            raise UsageError(found, "a name outside of it", hint, key)
