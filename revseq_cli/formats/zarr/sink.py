"""New Zarr stores: one array, or a copy of the input's store; workers encode and write the chunks."""

from __future__ import annotations

import base64
import functools
import json
import struct
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from zarr.api import asynchronous

from revseq_cli.core import dtypes, platform
from revseq_cli.core.dtypes import is_nameless
from revseq_cli.core.errors import UsageError, listed
from revseq_cli.core.tensors import parts
from revseq_cli.formats import file_io
from revseq_cli.formats.atomic_file import copy_file
from revseq_cli.formats.attributes import FILL, NOTHING, fill_of, typed
from revseq_cli.formats.contents import TensorNameError, refuse_taken
from revseq_cli.formats.contract import BlockWriter, FileSink, Source
from revseq_cli.formats.zarr import metadata
from revseq_cli.formats.zarr.metadata import Version, node_at, read_object
from revseq_cli.formats.zarr.source import Stored, StrictStore, ZarrSource, done, errors_worded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from revseq_cli.core.tensors import Region
    from revseq_cli.formats.atomic_file import AtomicFile
    from revseq_cli.formats.attributes import Attributes, Variable

_GROUPS: dict[int, dict[str, Any]] = {
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
        self._data_type = template.desc.data_type
        self._version: Version = 3
        like = template if isinstance(template, ZarrSource) else None
        self._old = None if only else like
        self._key = _checked(key, file.name, like.key if like else "")
        self._above = _above(self._key)
        said = (not self._old and template.meaning()) or NOTHING
        self._variables: list[Variable] = []
        if like:
            self._version, self.chunks = like.metadata.version, like.metadata.shards
            paths = [Path(like.folder, name) for name in metadata.ARRAY_FILES[self._version]]
            array = {path.name: path.read_bytes() for path in paths if path.exists()}
        else:
            dtype = template.dtype.newbyteorder("=")  # codecs have a byte order, and data types have none
            if dtypes.is_minifloat(dtype):  # zarr lacks them, but has a type of bytes
                dtype = np.dtype(f"V{dtype.itemsize}")
            attributes = typed(said.attributes, dtype)
            self.chunks, array = _made(template.sizes, dtype, said.dimensions, attributes, 3, file.name)
            self.notes += said.left_behind(can_grow=False)
        # The files of metadata that a store lacks, by their paths.
        self._files = {f"{self._key}/{name}".lstrip("/"): data for name, data in array.items()}
        self._add_groups(like, said.groups)
        if self._old:
            self._keep_others(self._old)
        else:
            self._keep(said.coordinates)

    def _keep_others(self, old: ZarrSource) -> None:
        """Look at what is copied; UsageError where the input's store has no place for an array that is added."""
        self._old_files = metadata.files_in(old.store, old.name, old.at)
        self._copied, self.kept = self._old_files.names, self._old_files.stored
        if self._key == old.key:
            start, is_chunk = f"{old.key}/" if old.key else "", old.metadata.is_chunk(old.metadata.separator)
            self._copied = [n for n in self._copied if not (n.startswith(start) and is_chunk(n.removeprefix(start)))]
            self.kept -= old.stored
            return
        if Path(old.store, self._key).exists():
            refuse_taken(self._key, [self._key], old.store)
        nodes = [node_at(old.store, above) for above in self._above]
        if any(node and node.is_array for node in nodes):
            found = f"would lie inside an array of {old.store}"
            raise UsageError(found, "a name outside of it", "write the array alone with --only", self._key)

    def _keep(self, variables: tuple[Variable, ...]) -> None:
        """Take the variables that can go into the array's group, and note those that cannot."""
        own = self._key.rpartition("/")[2]
        self._variables = [each for each in variables if own and own != each.name and _is_name(each.name)]
        self.kept = sum(variable.values.nbytes for variable in self._variables)
        if lost := [each.name for each in variables if each not in self._variables]:
            self.notes += (f"not copied, since they have no place beside the array: {listed(lost)}",)

    def _add_groups(self, like: ZarrSource | None, groups: tuple[Attributes, ...]) -> None:
        """Add the metadata files of every group on the array's path.

        A group that the input's store has at the same path keeps its attributes; those of another format are in
        `groups`.
        """
        main, *others = metadata.GROUP_FILES[self._version]
        for i, above in enumerate(self._above):
            files = {main: _GROUPS[self._version]}
            if like and above in _above(like.key):
                stored = {name: read_object(Path(like.store, above, name)) for name in (main, *others)}
                stored[main].pop(_CONSOLIDATED[3], None)
                files |= {name: fields for name, fields in stored.items() if fields}
            elif i < len(groups) and not like:
                files = {main: _GROUPS[3] | {"attributes": _encoded(groups[i])}}
            for name, fields in files.items():
                self._files[f"{above}/{name}".lstrip("/")] = json.dumps(fields).encode()

    @property
    def _folder(self) -> Path:
        return Path(self.file.temporary, self._key)

    def start(self) -> None:
        """Copy the store, or write the metadata of an array that it lacks, and of its groups."""
        if old := self._old:
            for name in self._copied:
                target = Path(self.file.temporary, name)
                with errors_worded(self.file.name, "write"):
                    target.parent.mkdir(parents=True, exist_ok=True)
                copy_file(f"{old.at or old.store}/{name}", str(target), self.file.name)
        with errors_worded(self.file.name, "write"):
            self._folder.mkdir(parents=True, exist_ok=True)
            for name, data in self._files.items():
                path = Path(self.file.temporary, name)
                if not path.exists():
                    path.write_bytes(data)
            for variable in self._variables:
                self._write(variable)

    def _write(self, variable: Variable) -> None:
        """Write an array that goes with the tensor."""
        folder, values = self._folder.with_name(variable.name), variable.values
        dtype = str if values.dtype == object else values.dtype.newbyteorder("=")
        attributes, version = variable.attributes, self._version
        _, files = _made(values.shape, dtype, variable.dimensions, attributes, version, self.file.name)
        folder.mkdir()
        for name, data in files.items():
            (folder / name).write_bytes(data)
        Stored.of(str(folder), version).write((...,), values.astype(dtype))

    def finish(self) -> None:
        """Add the array to the copies of metadata above it; TensorIOError if the input's store has changed."""
        if not self._old:
            return
        for above in self._above if self._key != self._old.key else ():
            group = Path(self._old.store, above)
            if self._version == 3:
                is_consolidated = _CONSOLIDATED[3] in read_object(group / "zarr.json")
            else:
                is_consolidated = (group / _CONSOLIDATED[2]).exists()
            if is_consolidated:
                with errors_worded(self.file.name, "write"), warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # zarr warns that version 3 has none in its specification
                    store = StrictStore(self.file.temporary)
                    done(asynchronous.consolidate_metadata(store, path=above or None, zarr_format=self._version))
        if metadata.files_in(self._old.store, self._old.name, self._old.at).digest != self._old_files.digest:
            raise metadata.changed(self._old.store)

    def block_writer(self, region: Region) -> BlockWriter:  # noqa: ARG002 - every region has the same one
        """Workers encode and write the chunks."""
        return self._block_writer

    @functools.cached_property
    def _block_writer(self) -> _ZarrBlockWriter:
        at = f"{self.file.address}/{self._key}".rstrip("/") if self.file.address else ""
        array = Stored.of(str(self._folder), self._version, at, self.file.name)
        return _ZarrBlockWriter(array, self.file.name, self.chunks or ())

    def reopen(self) -> Source:
        """The complete store, as an input."""
        return ZarrSource(self.file.temporary, self._key, self.file.name, self._data_type, self.file.address)


@dataclass(frozen=True)
class _ZarrBlockWriter:
    """Encodes and writes the chunks of a block, which no other block shares."""

    array: Stored
    name: str
    chunks: tuple[int, ...]

    def deliver(self, region: Region, values: NDArray[Any]) -> None:
        """Write the values chunk by chunk: given several, zarr would write the others after one has failed.

        A chunk is written again where another program, such as a virus scanner, has its new file open for a moment.
        """
        with errors_worded(self.name, "write"):
            dtype = self.array.opened("r+").dtype
            for box, part in parts(region, values, self.chunks):
                if is_nameless(dtype):  # elements of a type that zarr lacks become bytes, little-endian
                    stored = np.ascontiguousarray(part, part.dtype.newbyteorder("<")).view(dtype)
                else:
                    stored = np.asarray(part, dtype)
                file_io.patiently(functools.partial(self.array.write, box, stored), platform.keeps_name)


def _above(key: str) -> list[str]:
    """The path of every group that an array at that path is in, "" for the store itself first; none for the store."""
    parts = key.split("/")
    return ["/".join(parts[:i]) for i in range(len(parts))] if key else []


def _is_name(name: str) -> bool:
    """Whether that may be the name of a new array or group; the format reserves those with two underscores."""
    is_reserved = name in metadata.FILES or name.startswith("__")
    return bool(name.strip(".")) and not is_reserved and not {*"\0/\\"} & {*name}


def _checked(key: str, where: str, old: str) -> str:
    """The path of a new array; TensorNameError for a part that no folder may have, or that the input's path lacks."""
    key = key.strip("/")
    for part in key.split("/") if key else ():
        if not _is_name(part) and (part not in old.split("/") or not part.startswith("__")):
            raise TensorNameError.of(key, "array", "a path such as group/name", where)
        fault, hint = platform.name_fault(part)  # each part is the name of a folder
        if fault:
            raise UsageError(fault, "a path such as group/name", hint, f"{where}::{key}")
    return key


def _made(
    sizes: tuple[int, ...],
    dtype: Any,  # noqa: ANN401 - of NumPy, or str
    dimensions: tuple[str, ...],
    attributes: Attributes,
    version: Version,
    where: str,
) -> tuple[tuple[int, ...], dict[str, bytes]]:
    """The sizes of chunks and the metadata files of a new array, as the package zarr chooses them.

    A fill value that marks missing values is that of the array in version 2, and an attribute in version 3, as xarray
    has it: of floats, eight bytes in base 64.
    """
    fill = None if dtype is str else fill_of(attributes, dtype)
    fields = _encoded({name: value for name, value in attributes.items() if name != FILL})
    more: dict[str, Any] = {}
    if version == 3:
        if fill is not None:
            is_float = fill.dtype.kind == "f"
            fields[FILL] = base64.b64encode(struct.pack("<d", fill)).decode() if is_float else fill.item()
        if dimensions:
            more["dimension_names"] = [name or None for name in dimensions]
    elif len(dimensions) == len(sizes):
        fields[metadata.DIMENSIONS] = [*dimensions]
        more["fill_value"] = fill
    files: dict[str, Any] = {}
    with errors_worded(where, "write"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zarr warns that the specification has no data type for bytes
        made = asynchronous.create_array(
            files, shape=sizes, dtype=dtype, zarr_format=version, attributes=fields or None, **more
        )
        return done(made).chunks, {name: data.to_bytes() for name, data in files.items()}


def _encoded(attributes: Attributes) -> dict[str, Any]:
    """Attributes as JSON has them."""
    arrays = (np.generic, np.ndarray)
    return {name: value.tolist() if isinstance(value, arrays) else value for name, value in attributes.items()}
