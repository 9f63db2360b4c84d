"""New Zarr stores: one array, or a copy of the input's store; workers encode and write the chunks."""

from __future__ import annotations

import base64
import functools
import json
import struct
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from zarr.api import asynchronous
from zarr.storage import LocalStore

from revseq_cli.core import dtypes, platform
from revseq_cli.core.dtypes import is_nameless
from revseq_cli.core.errors import UsageError, listed
from revseq_cli.core.tensors import Region, parts
from revseq_cli.files import base, join
from revseq_cli.files.copies import copy_file
from revseq_cli.files.new import NewFile
from revseq_cli.formats.attributes import FILL, NOTHING, Attributes, Variable, fill_of, typed
from revseq_cli.formats.contents import not_a_name, taken
from revseq_cli.formats.contract import BlockWriter, FileSink, Source
from revseq_cli.formats.zarr import metadata
from revseq_cli.formats.zarr.metadata import CONSOLIDATED, GROUP_FILES, Version
from revseq_cli.formats.zarr.source import Stored, ZarrSource, done, errors_worded

_GROUPS: dict[int, dict[str, Any]] = {
    2: {"zarr_format": 2},
    3: {"zarr_format": 3, "node_type": "group", "attributes": {}},
}


class ZarrSink(FileSink):
    """A new store with one array, or a copy of the input's store with that array replaced or added."""

    encoded = True

    def __init__(self, file: NewFile, template: Source, key: str, *, only: bool) -> None:
        super().__init__(file)
        self._data_type = template.desc.data_type
        self._version: Version = 3
        like = template if isinstance(template, ZarrSource) else None
        self._old = None if only else like
        self._key = _checked(key, file.name, like.key if like else "")
        self._above = _above(self._key)
        said = (not self._old and template.meaning()) or NOTHING
        if like:
            self._version, self.chunks = like.metadata.version, like.metadata.shards
            self._array = dict(like.array.files)
        else:
            dtype = template.dtype.newbyteorder(
                "="
            )  # codecs have a byte order, and data types have none
            if dtypes.is_minifloat(dtype):  # zarr lacks them, but has a type of bytes
                dtype = np.dtype(f"V{dtype.itemsize}")
            attributes = typed(said.attributes, dtype)
            self.chunks, self._array = _made(
                template.sizes, dtype, said.dimensions, attributes, 3, file.name
            )
            self.notes += said.left_behind(can_grow=False)
        # The files of metadata that a store lacks, by their paths.
        self._files = {
            f"{self._key}/{name}".lstrip("/"): data for name, data in self._array.items()
        }
        self._add_groups(like, said.groups)
        self._copied: list[str] = []
        self._variables: list[Variable] = []
        if self._old:
            self._keep_others(self._old)
            return
        own = self._key.rpartition("/")[2]
        self._variables = [
            v for v in said.coordinates if own and own != v.name and _is_name(v.name)
        ]
        if lost := [
            variable.name for variable in said.coordinates if variable not in self._variables
        ]:
            self.notes += (
                f"not copied, since they have no place beside the array: {listed(lost)}",
            )

    def _keep_others(self, old: ZarrSource) -> None:
        """Look at what is copied; UsageError where the input's store has no place for an array that is added."""
        self._digest, _, self._copied = metadata.files_in(old.at, old.name)
        start = f"{self._key}/" if self._key else ""
        if self._key == old.key:
            is_chunk = old.metadata.is_chunk
            self._copied = [
                n
                for n in self._copied
                if not (n.startswith(start) and is_chunk(n.removeprefix(start)))
            ]
            return
        if any(name == self._key or name.startswith(start) for name in self._copied):
            raise taken(self._key, old.at)
        nodes = map(old.store.node, self._above)
        if any(node and node.is_array for node in nodes):
            found = f"would lie inside an array of {old.at}"
            raise UsageError(
                found, "a name outside of it", "write the array alone with --only", self._key
            )

    def _add_groups(self, like: ZarrSource | None, groups: tuple[Attributes, ...]) -> None:
        """Add the metadata files of every group on the array's path.

        A group that the input's store has at the same path keeps its attributes; those of another format are in
        `groups`.
        """
        for i, above in enumerate(self._above):
            main = GROUP_FILES[self._version][0]
            files = {main: _GROUPS[self._version]}
            if like and above in _above(like.key):
                stored = {
                    name: like.store.read(f"{above}/{name}".lstrip("/"))
                    for name in GROUP_FILES[self._version]
                }
                stored[main].pop(CONSOLIDATED[3], None)
                files |= {name: fields for name, fields in stored.items() if fields}
            elif i < len(groups) and not like:
                files[main] = _GROUPS[3] | {"attributes": _encoded(groups[i])}
            for name, fields in files.items():
                self._files[f"{above}/{name}".lstrip("/")] = json.dumps(fields).encode()

    def start(self) -> None:
        """Copy the store, or write the metadata of an array that it lacks, and of its groups."""
        folder = Path(self.file.temporary)
        with errors_worded(self.file.name, "write"):
            for name in self._copied:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                copy_file(
                    join(self._old.at if self._old else "", name),
                    str(folder / name),
                    self.file.name,
                )
            (folder / self._key).mkdir(parents=True, exist_ok=True)
            for name, data in self._files.items():
                if not (folder / name).exists():
                    (folder / name).write_bytes(data)
            for variable in self._variables:
                at, values = (folder / self._key).with_name(variable.name), variable.values
                dtype = str if values.dtype == object else values.dtype.newbyteorder("=")
                attributes, version = variable.attributes, self._version
                _, files = _made(
                    values.shape, dtype, (variable.name,), attributes, version, self.file.name
                )
                at.mkdir()
                for name, data in files.items():
                    (at / name).write_bytes(data)
                Stored(str(at), version, tuple(files.items()), "r+").write(
                    (...,), values.astype(dtype)
                )

    def finish(self) -> None:
        """Add the array to the copies of metadata above it; TensorIOError if the input's store has changed."""
        if not (old := self._old):
            return
        for above in self._above if self._key != old.key else ():
            start, name = f"{above}/" if above else "", CONSOLIDATED[2]
            if (
                CONSOLIDATED[3] in old.store.read(f"{start}zarr.json")
                or old.store.data(f"{start}{name}") is not None
            ):
                with errors_worded(self.file.name, "write"), warnings.catch_warnings():
                    warnings.simplefilter(
                        "ignore"
                    )  # zarr warns that version 3 has none in its specification
                    store = LocalStore(self.file.temporary)
                    done(
                        asynchronous.consolidate_metadata(
                            store, path=above or None, zarr_format=self._version
                        )
                    )
        if metadata.files_in(old.at, old.name)[0] != self._digest:
            raise metadata.changed(old.at)

    def block_writer(self, region: Region) -> BlockWriter:  # noqa: ARG002 - every region has the same one
        at = join(self.file.address or self.file.temporary, self._key)
        array = Stored(at, self._version, tuple(self._array.items()), "r+")
        return _ZarrBlockWriter(array, self.file.name, self.chunks or ())

    def reopen(self) -> Source:
        return ZarrSource(
            self.file.temporary, self._key, self.file.name, self._data_type, self.file.address
        )


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
            dtype = self.array.opened().dtype
            for box, part in parts(region, values, self.chunks):
                if is_nameless(
                    dtype
                ):  # elements of a type that zarr lacks become bytes, little-endian
                    stored = np.ascontiguousarray(part, part.dtype.newbyteorder("<")).view(dtype)
                else:
                    stored = np.asarray(part, dtype)
                base.patiently(
                    functools.partial(self.array.write, box, stored), platform.keeps_name
                )


def _above(key: str) -> list[str]:
    """The path of every group that an array at that path is in, "" for the store itself first; none for the store."""
    parts = key.split("/")
    return ["/".join(parts[:i]) for i in range(len(parts))] if key else []


def _is_name(name: str) -> bool:
    """Whether that may be the name of a new array or group; the format reserves those with two underscores."""
    is_reserved = name in metadata.FILES or name.startswith("__")
    return bool(name.strip(".")) and not is_reserved and not {*"\0/\\"} & {*name}


def _checked(key: str, where: str, old: str) -> str:
    """The path of a new array; UsageError for a part that no folder may have, or that is reserved and not in `old`."""
    key = key.strip("/")
    for part in key.split("/") if key else ():
        if not _is_name(part) and (part not in old.split("/") or not part.startswith("__")):
            raise not_a_name(key, "array", "a path such as group/name", where)
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
            fields[FILL] = (
                base64.b64encode(struct.pack("<d", fill)).decode() if is_float else fill.item()
            )
        if dimensions:
            more["dimension_names"] = [name or None for name in dimensions]
    elif len(dimensions) == len(sizes):
        fields[metadata.DIMENSIONS] = [*dimensions]
        more["fill_value"] = fill
    files: dict[str, Any] = {}
    with errors_worded(where, "write"), warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # zarr warns that the specification has no data type for bytes
        made = asynchronous.create_array(
            files, shape=sizes, dtype=dtype, zarr_format=version, attributes=fields or None, **more
        )
        return done(made).chunks, {name: data.to_bytes() for name, data in files.items()}


def _encoded(attributes: Attributes) -> dict[str, Any]:
    """Attributes as JSON has them."""
    arrays = (np.generic, np.ndarray)
    return {
        name: value.tolist() if isinstance(value, arrays) else value
        for name, value in attributes.items()
    }
