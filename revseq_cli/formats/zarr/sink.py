"""New Zarr stores: one array, or a copy of the input's store; workers encode and write the chunks."""

from __future__ import annotations

import base64
import functools
import json
import struct
import warnings
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.core import dtypes, platform
from revseq_cli.core.dtypes import is_nameless
from revseq_cli.core.errors import UsageError, listed
from revseq_cli.core.tensors import parts
from revseq_cli.formats import file_io
from revseq_cli.formats.atomic_file import copy_file
from revseq_cli.formats.contents import TensorNameError, refuse_taken
from revseq_cli.formats.contract import BlockWriter, FileSink, Source
from revseq_cli.formats.meaning import FILL, NOTHING, fill_of, typed
from revseq_cli.formats.zarr import metadata, source

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from revseq_cli.core.tensors import Region
    from revseq_cli.formats.atomic_file import AtomicFile
    from revseq_cli.formats.meaning import Attributes, Meaning, Value, Variable

_GROUPS: dict[metadata.Version, dict[str, Any]] = {
    2: {"zarr_format": 2},
    3: {"zarr_format": 3, "node_type": "group", "attributes": {}},
}
# The copy of the metadata of all arrays of a group: a file in version 2, and in version 3 a field of the group.
_CONSOLIDATED = {2: ".zmetadata", 3: "consolidated_metadata"}


class ZarrSink(FileSink):
    """A new store with one array, or a copy of the input's store with that array replaced or added."""

    encoded = True

    def __init__(self, file: AtomicFile, template: Source, key: str, *, only: bool) -> None:
        super().__init__(file)
        source.require_package(file.name)
        self._data_type = template.desc.data_type
        self._variables: tuple[Variable, ...] = ()
        like = template if isinstance(template, source.ZarrSource) else None
        self._old = None if only else like
        self._key = _checked(key, file.name, like.key if like else "")
        self._replaces = self._old is not None and self._key == self._old.key
        said = (not self._old and template.meaning()) or NOTHING
        if like:
            self._version, self._shards = like.metadata.version, like.metadata.shards
            array = _copied(like)
        else:
            self._version = metadata.NEWEST
            self._shards, array = self._new_array(template, said)
        self.chunks = self._shards
        # The files of metadata that a store lacks, by their paths.
        self._files = {PurePosixPath(self._key, name): data for name, data in array.items()}
        self._files |= _groups(like, said, self._key, self._version)
        if self._old:
            if not self._replaces:
                self._require_place(self._old)
            self._old_files = metadata.files_in(self._old.store, self._old.name, self._old.at)
            self.kept = self._old_files.stored - self._old.stored * self._replaces
        else:
            self._variables = self._beside(said.coordinates)
            self.kept = sum(variable.values.nbytes for variable in self._variables)

    def _require_place(self, old: source.ZarrSource) -> None:
        """UsageError where the input's store has something else at the place of the array that is added."""
        if Path(old.store, self._key).exists():
            refuse_taken(self._key, [self._key], old.store)
        above = ("" if not parent.name else parent.as_posix() for parent in PurePosixPath(self._key).parents)
        if any(metadata.holds(old.store, key) for key in above):
            found = f"would lie inside an array of {old.store}"
            raise UsageError(found, "a name outside of it", "write the array alone with --only", self._key)

    def _new_array(self, template: Source, said: Meaning) -> tuple[tuple[int, ...], dict[str, bytes]]:
        """The chunks and the metadata of an array like one of another format."""
        dtype = template.dtype.newbyteorder("=")  # in the format, codecs have a byte order and data types have none
        if dtypes.is_minifloat(dtype):  # zarr lacks them, but has a type of bytes
            dtype = np.dtype(f"V{dtype.itemsize}")
        attributes = _encoded(typed({n: v for n, v in said.attributes.items() if n != FILL}, dtype))
        if (fill := fill_of(said.attributes, dtype)) is not None:
            attributes[FILL] = _encoded_fill(fill)
        self.notes += said.left_behind(can_grow=False)
        return _made(template.sizes, dtype, said.dimensions, attributes, self._version, self.file.name)

    def _beside(self, variables: tuple[Variable, ...]) -> tuple[Variable, ...]:
        """The variables that go into the array's group; a note on those that cannot."""
        own_name = PurePosixPath(self._key).name
        fits = tuple(each for each in variables if own_name and own_name != each.name and _is_name(each.name))
        if lost := [each.name for each in variables if each not in fits]:
            self.notes += (f"not copied, since they have no place beside the array: {listed(lost)}",)
        return fits

    @property
    def _folder(self) -> Path:
        return Path(self.file.temporary, self._key)

    def start(self) -> None:
        """Copy the store, or write the metadata of an array that it lacks, and of its groups."""
        if self._old:
            self._copy(self._old)
        with metadata.errors_worded(self.file.name, "write"):
            self._folder.mkdir(parents=True, exist_ok=True)
            for name, data in self._files.items():
                path = Path(self.file.temporary, name)
                if not path.exists():
                    path.write_bytes(data)
            for variable in self._variables:
                _write(self._folder.with_name(variable.name), variable, self._version, self.file.name)

    def _copy(self, old: source.ZarrSource) -> None:
        """Copy every file and folder of the old store but the chunks of an array that is replaced."""
        is_chunk = metadata.chunk_files(old.metadata, old.metadata.separator)
        inside = f"{old.key}/" if old.key else ""
        for name in self._old_files.names:
            if self._replaces and name.startswith(inside) and is_chunk(name.removeprefix(inside)):
                continue
            target = Path(self.file.temporary, name)
            with metadata.errors_worded(self.file.name, "write"):
                target.parent.mkdir(parents=True, exist_ok=True)
            copy_file(f"{old.at or old.store}/{name}", str(target), self.file.name)

    def finish(self) -> None:
        """Add the array to the copies of metadata above it; TensorIOError if the input's store has changed."""
        if not self._old:
            return
        if not self._replaces:
            for folder in PurePosixPath(self._key).parents:
                if _is_consolidated(Path(self._old.store, folder), self._version):
                    from revseq_cli.formats.zarr import store  # the package takes a while to load

                    key = "" if folder == PurePosixPath() else folder.as_posix()
                    with metadata.errors_worded(self.file.name, "write"), warnings.catch_warnings():
                        warnings.simplefilter("ignore")  # zarr warns that version 3 has none in its specification
                        store.consolidate(self.file.temporary, key, self._version)
        if metadata.files_in(self._old.store, self._old.name, self._old.at).digest != self._old_files.digest:
            raise metadata.changed(self._old.store)

    def block_writer(self, region: Region) -> BlockWriter:  # noqa: ARG002 - every region has the same one
        """Workers encode and write the chunks."""
        return self._block_writer

    @functools.cached_property
    def _block_writer(self) -> ZarrBlockWriter:
        at = f"{self.file.address}/{self._key}".rstrip("/") if self.file.address else ""
        array = source.Stored.of(str(self._folder), self._version, at, self.file.name)
        return ZarrBlockWriter(array, self.file.name, self._shards)

    def reopen(self) -> Source:
        """The complete store, as an input."""
        return source.ZarrSource(self.file.temporary, self._key, self.file.name, self._data_type, self.file.address)


@dataclass(frozen=True)
class ZarrBlockWriter:
    """Encodes and writes the chunks of a block, which no other block shares."""

    array: source.Stored
    name: str
    chunks: tuple[int, ...]

    def deliver(self, region: Region, values: NDArray[Any]) -> None:
        """Write the values chunk by chunk: given several, zarr would write the others after one has failed.

        A chunk is written again where another program, such as a virus scanner, has its new file open for a moment.
        """
        with metadata.errors_worded(self.name, "write"):
            array = source.opened(self.array, "r+")
            for box, part in parts(region, values, self.chunks):
                if is_nameless(array.dtype):  # elements of a type that zarr lacks become bytes, little-endian
                    stored = np.ascontiguousarray(part, part.dtype.newbyteorder("<")).view(array.dtype)
                else:
                    stored = np.asarray(part, array.dtype)
                file_io.patiently(functools.partial(array.__setitem__, box, stored), platform.keeps_name)


def _is_name(name: str) -> bool:
    """Whether the name of a variable can be that of a new array."""
    is_reserved = name in metadata.FILES or name.startswith("__")
    return bool(name.strip(".")) and not is_reserved and not {*"\0/\\"} & {*name}


def _write(folder: Path, variable: Variable, version: metadata.Version, where: str) -> None:
    """Write an array that goes with the tensor."""
    from revseq_cli.formats.zarr import store  # the package takes a while to load

    values, attributes = variable.values, dict(variable.attributes)
    is_text = values.dtype == object
    fill = None if is_text else fill_of(attributes, values.dtype)
    attributes.pop(FILL, None)
    stated = _encoded(attributes)
    if fill is not None and version == 3:
        stated[FILL] = _encoded_fill(fill)
    dtype = str if is_text else values.dtype.newbyteorder("=")
    _, files = _made(values.shape, dtype, variable.dimensions, stated, version, where, fill)
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    store.open_array(str(folder), version, "r+")[(...,)] = values.astype(dtype)


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
        fault, hint = platform.name_fault(part)  # each part is the name of a folder
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
        more |= {"attributes": attributes | {metadata.DIMENSIONS: [*dimensions]}, "fill_value": fill}
    with metadata.errors_worded(where, "write"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zarr warns that the specification has no data type for bytes
        created = asynchronous.create_array(files, shape=sizes, dtype=dtype, zarr_format=version, **more)
        array = store.done(created)
        return array.chunks, {name: data.to_bytes() for name, data in files.items()}


def _groups(
    like: source.ZarrSource | None, said: Meaning, key: str, version: metadata.Version
) -> dict[PurePosixPath, bytes]:
    """The metadata files of every group on the new array's path.

    A group that the input's store has at the same path keeps its attributes, and those of another format are in `said`.
    """
    files: dict[PurePosixPath, dict[str, Any]] = {}
    main, *others = metadata.GROUP_FILES[version]
    parents = [*PurePosixPath(key).parents][::-1]
    for parent in parents:
        files[parent / main] = _GROUPS[version]
        if like and parent in PurePosixPath(like.key).parents:
            kept = {name: metadata.read_object(Path(like.store, parent, name)) for name in (main, *others)}
            kept[main].pop(_CONSOLIDATED[3], None)
            files |= {parent / name: fields for name, fields in kept.items() if fields}
    if not like:
        for parent, attributes in zip(parents, said.groups, strict=False):
            files[parent / main] = _GROUPS[version] | {"attributes": _encoded(attributes)}
    return {path: json.dumps(fields).encode() for path, fields in files.items()}


def _is_consolidated(group: Path, version: metadata.Version) -> bool:
    if version == 2:
        return Path(group, _CONSOLIDATED[2]).exists()
    return _CONSOLIDATED[3] in metadata.read_object(group / metadata.GROUP_FILES[3][0])


def _encoded(attributes: Attributes) -> dict[str, Any]:
    """Attributes as JSON has them."""
    return {name: _as_json(value) for name, value in attributes.items()}


def _as_json(value: Value) -> object:
    return value.tolist() if isinstance(value, (np.generic, np.ndarray)) else value


def _encoded_fill(fill: Any) -> object:  # noqa: ANN401 - a NumPy number
    """A fill value as xarray has it in an attribute of version 3: of floats, eight bytes in base 64."""
    if fill.dtype.kind == "f":
        return base64.standard_b64encode(struct.pack("<d", float(fill))).decode()
    return fill.item()
