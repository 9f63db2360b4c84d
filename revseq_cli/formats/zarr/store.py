"""Zarr stores, versions 2 and 3: their files of metadata, read without the package zarr.

A store is a folder with metadata in JSON and a file for each chunk or shard. No link is followed.
Source of the format: the specifications of versions 2 and 3 on zarr-specs.readthedocs.io.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

from revseq_cli import files
from revseq_cli.core import signals
from revseq_cli.core.errors import FormatError, MissingFileError, TensorIOError
from revseq_cli.files.input_file import Identity, identity_of
from revseq_cli.files.system_errors import refuse_standard_output, wrap_os_errors
from revseq_cli.text.json_objects import make_object

Version = Literal[2, 3]
# The files of metadata and of attributes in the folder of an array and of a group, by the format's
# version.
ARRAY_FILES: dict[int, tuple[str, ...]] = {2: (".zarray", ".zattrs"), 3: ("zarr.json",)}
GROUP_FILES: dict[int, tuple[str, ...]] = {2: (".zgroup", ".zattrs"), 3: ("zarr.json",)}
METADATA_FILES = {".zarray", ".zgroup", ".zattrs", "zarr.json"}
# The copy of the metadata of all arrays of a group: a file in version 2, and in version 3 a field
# of the group.
CONSOLIDATED = {2: ".zmetadata", 3: "consolidated_metadata"}
_LINKS = "files in the store itself; links are not followed"
_LARGEST_FILE = 1 << 24  # bytes of a file of metadata


class ZarrNode(NamedTuple):
    """An array or a group of a store, with its metadata and attributes as they are in JSON.

    A folder without metadata is a group, too: there may be arrays in it.
    """

    version: Version
    fields: dict[str, Any]
    attributes: dict[str, Any]
    is_array: bool


class ZarrStore(ABC):
    """The metadata of a store.

    The `key` of an array or a group is its path inside the store, "" for the store itself.
    `listing` has the states of all files of a store at an address, and is None for a local one.
    """

    listing: dict[str, Identity] | None = None

    def __init__(self, path: str) -> None:
        self.path = path

    @abstractmethod
    def read_metadata_file(self, name: str) -> bytes | None:
        """A file of metadata, or None; FormatError for a link, and for a file that is too large."""

    @abstractmethod
    def name_in_messages(self, name: str) -> str:
        """What messages call a file of metadata."""

    @abstractmethod
    def has_folder(self, key: str) -> bool:
        """Whether that path is a folder of the store that is reached without links."""

    def is_link(self, key: str) -> bool:  # noqa: ARG002 - there are none at addresses
        """Whether that path is a link, which is not followed."""
        return False

    @abstractmethod
    def folder_names(self, key: str) -> set[str]:
        """The names of the folders in a group."""

    def listing_of(self, key: str) -> dict[str, Identity] | None:
        """The part of `listing` with the files of an array, by their names in its folder."""
        if self.listing is None:
            return None
        start = prefix_of(key)
        listing = {}
        for name, identity in self.listing.items():
            if name.startswith(start):
                listing[name.removeprefix(start)] = identity
        return listing

    def read_json(self, name: str) -> dict[str, Any]:
        """The JSON object in a file of metadata, empty if there is no file."""
        data = self.read_metadata_file(name)
        if data is None:
            return {}
        where = self.name_in_messages(name)
        try:
            fields = json.loads(data, object_pairs_hook=make_object)
        except FormatError as e:
            raise e.about(where) from None
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict):
            raise FormatError("has damaged metadata", "an object of JSON", "fetch it again", where)
        return fields

    def read_node(self, key: str) -> ZarrNode | None:
        """The array or group at that path; None for nothing, a link, or a path outside."""
        if not self.has_folder(key):
            return None
        start = prefix_of(key)
        fields = self.read_json(f"{start}zarr.json")
        if fields:
            attributes = fields.get("attributes")
            if not isinstance(attributes, dict):
                attributes = {}
            return ZarrNode(3, fields, attributes, is_array=fields.get("node_type") == "array")
        fields = self.read_json(f"{start}.zarray")
        return ZarrNode(2, fields, self.read_json(f"{start}.zattrs"), is_array=bool(fields))

    def list_folders(self, key: str) -> list[str]:
        """The path of each folder in a group, the first one last, as a stack has them."""
        start = prefix_of(key)
        return [f"{start}{name}" for name in sorted(self.folder_names(key), reverse=True)]

    def list_arrays(self) -> list[str]:
        """The path of every array."""
        arrays = []
        pending = [""]
        while pending:
            key = pending.pop()
            node = self.read_node(key)
            if node and node.is_array:
                arrays.append(key)
            else:
                pending += self.list_folders(key)
        return sorted(arrays)


class _LocalStore(ZarrStore):
    """A store in a folder of this machine."""

    def read_metadata_file(self, name: str) -> bytes | None:
        path = Path(self.path, name)
        if path.is_symlink():
            raise FormatError("a link", _LINKS, where=str(path))
        if not path.exists():
            return None
        with files.open_file(str(path)) as fd:
            size = fd.identity.size
            if size > _LARGEST_FILE:
                raise FormatError(
                    f"has {size} bytes of metadata", f"at most {_LARGEST_FILE}", where=str(path)
                )
            return fd.read(size, 0)

    def name_in_messages(self, name: str) -> str:
        return str(Path(self.path, name))

    def has_folder(self, key: str) -> bool:
        folder = Path(self.path)
        for part in filter(None, key.split("/")):
            folder /= part
            if part in (".", "..") or folder.is_symlink():
                return False
        return folder.is_dir()

    def is_link(self, key: str) -> bool:
        return Path(self.path, key).is_symlink()

    def folder_names(self, key: str) -> set[str]:
        folder = Path(self.path, key)
        with wrap_os_errors(folder, "read"):
            entries = os.scandir(folder)
            return {entry.name for entry in entries if entry.is_dir(follow_symlinks=False)}


class _RemoteStore(ZarrStore):
    """A store at an address, whose files of metadata are all fetched at once.

    A web server lists no files. So a store there must be one array, or have a copy of all metadata
    in its root.
    """

    def __init__(self, path: str, listing: dict[str, Identity]) -> None:
        from revseq_cli.files.remote.folder import read_files  # most stores are local

        super().__init__(path)
        self.listing = listing
        known = {*METADATA_FILES, CONSOLIDATED[2]}
        names = [name for name in listing if name.rpartition("/")[2] in known]
        self._fetched = read_files(path, names or known)
        if not self._fetched:
            raise MissingFileError("no such store", where=path)
        if not files.can_list_files(path):
            self._fetched |= self._read_copies()

    def _read_copies(self) -> dict[str, bytes]:
        """The files of metadata whose copies are in the files at the root."""
        with contextlib.suppress(KeyError, TypeError, AttributeError):
            copies = self.read_json(CONSOLIDATED[2]).get("metadata")
            if copies is None:
                nodes = self.read_json("zarr.json")[CONSOLIDATED[3]]["metadata"]
                copies = {f"{key}/zarr.json": fields for key, fields in nodes.items()}
            return {name: json.dumps(fields).encode() for name, fields in copies.items()}
        return {}

    def read_metadata_file(self, name: str) -> bytes | None:
        return self._fetched.get(name)

    def name_in_messages(self, name: str) -> str:
        return f"{self.path}/{name}"

    def has_folder(self, key: str) -> bool:
        start = prefix_of(key)
        return any(name.startswith(start) for name in self._fetched)

    def folder_names(self, key: str) -> set[str]:
        start = prefix_of(key)
        names = set()
        for name in self._fetched:
            folder, slash, _ = name.removeprefix(start).partition("/")
            if slash and name.startswith(start):
                names.add(folder)
        return names


def read_store(path: str) -> ZarrStore:
    """The store in a folder or at an address, whose metadata are fetched now."""
    listing = files.list_files(path)
    if listing is None:
        return _LocalStore(path)
    return _RemoteStore(path, listing)


def open_store(path: str) -> ZarrStore:
    """The store in a folder or at an address; what was fetched is kept for the whole job."""
    kept = files.find_kept(path)
    if isinstance(kept, ZarrStore):
        return kept
    store = read_store(path)
    if store.listing is not None:
        files.keep(path, store)
    return store


def prefix_of(key: str) -> str:
    """What the paths of all files of an array or a group begin with, in its store."""
    return f"{key}/" if key else ""


def groups_above(key: str) -> list[str]:
    """The path of every group that an array is in, from "" for the store itself on."""
    if not key:
        return []
    parts = key.split("/")
    return ["/".join(parts[:i]) for i in range(len(parts))]


class FilesState(NamedTuple):
    """The state of all files in a folder: a digest of their names, sizes and times of change.

    `size` is that of all files together. `names` are their paths in the folder.
    """

    digest: str
    size: int
    names: list[str]


def read_files_state(
    folder: str, where: str, listing: dict[str, Identity] | None = None
) -> FilesState:
    """The state of the files in a folder or at an address.

    `listing` has the states of the single files, if they are known already. FormatError for
    anything that is neither a file nor a folder, such as a link.
    """
    digest = hashlib.sha256()
    size = 0
    names = []
    for name, identity in _list_identities(folder, where, listing):
        digest.update(f"{name!r} {identity}".encode("utf-8", "surrogateescape"))
        names.append(name)
        size += identity.size
    return FilesState(digest.hexdigest(), size, names)


def _list_identities(
    folder: str, where: str, listing: dict[str, Identity] | None
) -> Iterator[tuple[str, Identity]]:
    """The state of each file by its path in the folder, in an order that does not change."""
    if listing is None:
        listing = files.list_files(folder, again=True)
    if listing is not None:
        yield from sorted(listing.items())
        return
    pending = [""]
    with wrap_os_errors(where, "read"):
        try:
            while pending:
                inner = pending.pop()
                signals.check()
                for entry in sorted(os.scandir(Path(folder, inner)), key=lambda entry: entry.name):
                    name = inner + entry.name
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(f"{name}/")
                        continue
                    if not entry.is_file(follow_symlinks=False):
                        raise FormatError(f"{name} is not a regular file", _LINKS, where=where)
                    status = os.lstat(entry.path)
                    refuse_standard_output(status, entry.path)
                    yield name, identity_of(status)
        except FileNotFoundError:
            raise report_change(where) from None


def report_change(where: str) -> TensorIOError:
    """The error for a store that is not as it was."""
    return TensorIOError("changed while it was read", "a store that does not change", where=where)
