"""New Zarr stores: one array, or a copy of the input's store.

Workers encode and write the chunks.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import struct
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
from revseq_cli.core.dtypes import is_nameless
from revseq_cli.core.errors import FormatError, UsageError, join_names
from revseq_cli.core.tensors import Region, split_chunks
from revseq_cli.files import base, join
from revseq_cli.files.copies import copy_file
from revseq_cli.files.new import NewFile
from revseq_cli.formats.attributes import (
    FILL,
    NOTHING,
    Attributes,
    Meaning,
    Variable,
    as_texts,
    fill_of,
    fit_types,
)
from revseq_cli.formats.contract import BlockWriter, FileSink, Original, Source
from revseq_cli.formats.refusals import dimension_conflict, invalid_name
from revseq_cli.formats.zarr import metadata
from revseq_cli.formats.zarr.metadata import (
    ARRAY_FILES,
    CONSOLIDATED,
    GROUP_FILES,
    Node,
    Store,
    Version,
    attributes_of,
)
from revseq_cli.formats.zarr.source import (
    ZarrArray,
    ZarrSource,
    wait_for,
    wrap_zarr_errors,
)

_MOST_CHUNKS = 100_000  # as many files as a folder takes without slowing down
_GROUPS: dict[int, dict[str, Any]] = {
    2: {"zarr_format": 2},
    3: {"zarr_format": 3, "node_type": "group", "attributes": {}},
}


class ZarrSink(FileSink):
    """A new store with one array, or a copy of a store with that array replaced or added."""

    encoded = True

    def __init__(
        self, file: NewFile, template: Source, key: str, original: Original | None
    ) -> None:
        super().__init__(file)
        self._data_type = template.desc.data_type
        self._original = original
        self._like = template if isinstance(template, ZarrSource) else None
        self._store = self._find_store()
        self._version = self._choose_version()
        self._key = _require_path(key, file.name, self._like.key if self._like else "")
        self._groups = metadata.groups_above(self._key)
        meaning = NOTHING
        if not self._copies_input:
            meaning = (template.meaning() or NOTHING).without_pointers()
        sizes = tuple(f"the unlimited size of {name}" for name in meaning.unlimited)
        self.left_out = meaning.left + sizes
        self._array = self._make_array(template, meaning)
        # The files of metadata that a store lacks, by their paths.
        self._files = {
            f"{self._key}/{name}".lstrip("/"): data for name, data in self._array.items()
        }
        self._add_groups(meaning.groups)
        self._copied: list[str] = []
        self._variables: list[Variable] = []
        if original:
            self._keep_others(original)
        if not self._copies_input:
            self._add_coordinates(meaning.coordinates)

    @property
    def _keeps_own_name(self) -> bool:
        """Whether INPUT's array is replaced in a copy of its store, whose metadata all stay."""
        return self._original is not None and self._original.input_key == self._key

    @property
    def _copies_input(self) -> bool:
        """Whether the new store is a copy of INPUT's."""
        return self._original is not None and self._original.is_input

    def _find_store(self) -> Store | None:
        """The store of which the new one is a copy."""
        if not self._original:
            return None
        if self._like and self._original.is_input:
            return self._like.store
        return Store(self._original.path)

    def _choose_version(self) -> Version:
        """The version of the store that is copied, or else of INPUT's array."""
        if self._store and not self._copies_input:
            node = self._store.read_node("")
            if node:
                return node.version
        return self._like.metadata.version if self._like else 3

    def _make_array(self, template: Source, meaning: Meaning) -> dict[str, bytes]:
        """The files of metadata of the array: those of INPUT's array, or new ones."""
        if self._like and self._like.metadata.version == self._version:
            self.chunks = self._like.metadata.shards
            return dict(self._like.array.files)
        # Codecs have a byte order, and data types have none.
        dtype = template.dtype.newbyteorder("=")
        if dtypes.is_minifloat(dtype):  # zarr lacks them, but has a type of bytes
            dtype = np.dtype(f"V{dtype.itemsize}")
        attributes = fit_types(meaning.attributes, dtype)
        chunks = self._choose_chunks(template)
        self.chunks, files = _create_metadata(
            template.sizes,
            dtype,
            meaning.dimensions,
            attributes,
            self._version,
            self.file.name,
            chunks,
            meaning.storage_fill,
        )
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

    def _keep_others(self, original: Original) -> None:
        """Choose the files to copy; UsageError where the store has no room for such an array."""
        key = self._key
        store = cast("Store", self._store)
        self._digest, _, names = metadata.digest_files(original.path, original.path)
        start = f"{key}/" if key else ""
        if self._keeps_own_name:
            is_chunk = cast("ZarrSource", self._like).metadata.is_chunk
            self._copied = [
                name
                for name in names
                if not (name.startswith(start) and is_chunk(name.removeprefix(start)))
            ]
            return
        if any(name == key or name.startswith(start) for name in names):
            original.require_replaceable(key)
            node = store.read_node(key)
            if node is None or not node.is_array:
                found = f"{key} is a group" if node else f"{key} is a file or a folder"
                raise UsageError(found, "a name that is free, or an array's", where=original.path)
        self._copied = [name for name in names if not name.startswith(start)]
        for above in self._groups:
            node = store.read_node(above)
            if node and node.is_array:
                found = f"would lie inside an array of {original.path}"
                hint = "to write just the array, add --only" if original.is_input else ""
                raise UsageError(found, "a name outside of it", hint, key)

    def _add_groups(self, groups: tuple[Attributes, ...]) -> None:
        """Add the metadata files of every group on the array's path.

        A group gets the attributes of the one that INPUT's store has at the same path, or those in
        `groups` if INPUT has another format. In a copy of another store, new groups have none.
        """
        like = self._like
        if self._original and not self._original.is_input:
            like = None
            groups = ()
        main = GROUP_FILES[self._version][0]
        for i, above in enumerate(self._groups):
            files = {main: _GROUPS[self._version]}
            if like and above in metadata.groups_above(like.key):
                stored = {
                    name: like.store.read_json(f"{above}/{name}".lstrip("/"))
                    for name in GROUP_FILES[self._version]
                }
                stored[main].pop(CONSOLIDATED[3], None)
                files |= {name: fields for name, fields in stored.items() if fields}
            elif i < len(groups) and not like:
                files[main] = _GROUPS[3] | {"attributes": _as_json(groups[i])}
            for name, fields in files.items():
                self._files[f"{above}/{name}".lstrip("/")] = json.dumps(fields).encode()

    def _add_coordinates(self, coordinates: tuple[Variable, ...]) -> None:
        """Choose the coordinates to write next to the array; UsageError where others are there."""
        above, _, own = self._key.rpartition("/")
        if self._store:
            self._refuse_other_sizes(above, own)
        lost = []
        for variable in coordinates:
            has_room = own not in ("", variable.name) and _is_name(variable.name)
            if not has_room:
                lost.append(variable.name)
            elif not self._has_coordinate(f"{above}/{variable.name}".lstrip("/"), variable):
                self._variables.append(variable)
        if lost:
            self.left_out += (f"{join_names(lost)}, for which there is no room next to the array",)

    def _refuse_other_sizes(self, above: str, own: str) -> None:
        """UsageError where a dimension has another size in the group, which xarray cannot open."""
        store = cast("Store", self._store)
        if store.read_node(above) is None:
            return
        array = metadata.read(_node_of(self._version, self._array), self.file.name, self._data_type)
        sizes = dict(zip(array.dimensions, array.sizes, strict=False))
        for key in store.list_folders(above):
            node = store.read_node(key)
            if node is None or not node.is_array:
                continue
            if key.rpartition("/")[2] == own:
                continue
            with contextlib.suppress(FormatError):  # another array may be of any kind
                other = metadata.read(node, key, texts=True)
                for name, size in zip(other.dimensions, other.sizes, strict=False):
                    if name and sizes.get(name, size) != size:
                        raise dimension_conflict(name, f"{self.file.name}::{self._key}")

    def _has_coordinate(self, key: str, variable: Variable) -> bool:
        """Whether the store has that coordinate; UsageError where it has other values."""
        node = self._store.read_node(key) if self._store else None
        if node is None or self._store is None:
            return False
        array = ZarrArray.of(self._store, key, node.version, self._store.path)
        with wrap_zarr_errors(self._store.path, "read"):
            values = array.read((...,))
        if values.dtype.kind in "USO":
            values = as_texts(values)
        if not variable.is_same_as(Variable(variable.name, attributes_of(node)[0], values)):
            raise dimension_conflict(variable.name, f"{self.file.name}::{self._key}")
        return True

    def start(self) -> None:
        """Copy the store, or write the metadata of an array that it lacks, and of its groups."""
        folder = Path(self.file.temporary)
        original = self._original.path if self._original else ""
        with wrap_zarr_errors(self.file.name, "write"):
            for name in self._copied:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                copy_file(join(original, name), str(folder / name), self.file.name)
            (folder / self._key).mkdir(parents=True, exist_ok=True)
            for name, data in self._files.items():
                if not (folder / name).exists():
                    (folder / name).write_bytes(data)
            for variable in self._variables:
                self._write_variable(variable, (folder / self._key).with_name(variable.name))

    def _write_variable(self, variable: Variable, folder: Path) -> None:
        """Write a coordinate as a new array in that folder."""
        values = variable.values
        dtype = str if values.dtype == object else values.dtype.newbyteorder("=")
        _, files = _create_metadata(
            values.shape,
            dtype,
            (variable.name,),
            variable.attributes,
            self._version,
            self.file.name,
        )
        folder.mkdir()
        for name, data in files.items():
            (folder / name).write_bytes(data)
        array = ZarrArray(str(folder), self._version, tuple(files.items()), "r+")
        array.write((...,), values.astype(dtype))

    def finish(self) -> None:
        """Add the array to consolidated metadata; TensorIOError if INPUT's store has changed."""
        if not self._original:
            return
        if not self._keeps_own_name:
            for above in self._groups:
                self._consolidate(above)
        if self._original.is_input:
            path = self._original.path
            if metadata.digest_files(path, path)[0] != self._digest:
                raise metadata.report_change(path)

    def _consolidate(self, above: str) -> None:
        """Write a group's consolidated metadata again, where the store has them."""
        store = cast("Store", self._store)
        start = f"{above}/" if above else ""
        in_field = CONSOLIDATED[3] in store.read_json(f"{start}zarr.json")
        if not in_field and store.read_metadata_file(f"{start}{CONSOLIDATED[2]}") is None:
            return
        with wrap_zarr_errors(self.file.name, "write"), warnings.catch_warnings():
            # zarr warns that they are not in the specification of version 3.
            warnings.simplefilter("ignore")
            folder = LocalStore(self.file.temporary)
            wait_for(
                asynchronous.consolidate_metadata(
                    folder, path=above or None, zarr_format=self._version
                )
            )

    def block_writer(self, region: Region) -> BlockWriter:  # noqa: ARG002 - one for all regions
        folder = join(self.file.address or self.file.temporary, self._key)
        array = ZarrArray(folder, self._version, tuple(self._array.items()), "r+")
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
            base.patiently(functools.partial(self.array.write_each, chunks), platform.keeps_name)


def _as_stored(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The elements as zarr stores them: as little-endian bytes, if it lacks their type."""
    if is_nameless(dtype):
        return np.ascontiguousarray(values, values.dtype.newbyteorder("<")).view(dtype)
    return np.asarray(values, dtype)


def _node_of(version: Version, files: dict[str, bytes]) -> Node:
    """An array of those files of metadata."""
    fields = json.loads(files[ARRAY_FILES[version][0]])
    attributes = fields.get("attributes", {})
    if version == 2:
        attributes = json.loads(files.get(ARRAY_FILES[2][1], b"{}"))
    return Node(version, fields, attributes, is_array=True)


def _is_name(name: str) -> bool:
    """Whether a new array or group may have that name; Zarr reserves those that begin with __."""
    if name in metadata.FILES or name.startswith("__"):
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
            raise invalid_name(key, "array", "a path such as group/name", where)
        fault, hint = platform.name_fault(part)  # each part is the name of a folder
        if fault:
            raise UsageError(fault, "a path such as group/name", hint, f"{where}::{key}")
    return key


def _create_metadata(
    sizes: tuple[int, ...],
    dtype: Any,  # noqa: ANN401 - of NumPy, or str
    dimensions: tuple[str, ...],
    attributes: Attributes,
    version: Version,
    where: str,
    chunks: tuple[int, ...] | None = None,
    storage_fill: Any = None,  # noqa: ANN401 - a NumPy number, or None
) -> tuple[tuple[int, ...], dict[str, bytes]]:
    """The sizes of chunks and the metadata files of a new array; without `chunks`, zarr chooses.

    A fill value that marks missing values becomes that of the array. In version 3 it is also an
    attribute, as for xarray: that of floats is eight bytes in base 64. In version 2, xarray takes
    any fill value for one that marks missing values. So `storage_fill`, which does not, is left out
    where dimensions have names.
    """
    fill = None if dtype is str else fill_of(attributes, dtype)
    fields = _as_json({name: value for name, value in attributes.items() if name != FILL})
    more: dict[str, Any] = {}
    if version == 3:
        if fill is not None:
            is_float = fill.dtype.kind == "f"
            fields[FILL] = fill.item()
            if is_float:
                fields[FILL] = base64.b64encode(struct.pack("<d", fill)).decode()
        array_fill = storage_fill if fill is None else fill
        if array_fill is not None:
            more["fill_value"] = array_fill
        if dimensions:
            more["dimension_names"] = [name or None for name in dimensions]
    elif len(dimensions) == len(sizes):
        fields[metadata.DIMENSIONS] = [*dimensions]
        more["fill_value"] = fill
    elif storage_fill is not None:
        more["fill_value"] = storage_fill
    if chunks:
        more["chunks"] = chunks
    files: dict[str, Any] = {}
    with wrap_zarr_errors(where, "write"), warnings.catch_warnings():
        # zarr warns that the specification has no data type for bytes.
        warnings.simplefilter("ignore")
        work = asynchronous.create_array(
            files, shape=sizes, dtype=dtype, zarr_format=version, attributes=fields or None, **more
        )
        array = wait_for(work)
        return array.chunks, {name: data.to_bytes() for name, data in files.items()}


def _as_json(attributes: Attributes) -> dict[str, Any]:
    """Attributes as JSON has them."""
    fields = {}
    for name, value in attributes.items():
        is_array = isinstance(value, (np.generic, np.ndarray))
        fields[name] = value.tolist() if is_array else value
    return fields
