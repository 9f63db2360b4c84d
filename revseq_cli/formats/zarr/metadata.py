"""The format Zarr, versions 2 and 3: the metadata of stores, read without the package zarr.

A store is a folder with metadata in JSON and a file for each chunk or shard. Arrays are refused
unless they hold plain numbers, in regular chunks, encoded by codecs that lose nothing and unpickle
nothing. No link is followed. Source of the format: the specifications of versions 2 and 3 on
zarr-specs.readthedocs.io.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import struct
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from revseq_cli import files
from revseq_cli.core import signals
from revseq_cli.core.dtypes import data_type_of, dtype_of, is_nameless, name_bytes, require_sizes
from revseq_cli.core.errors import FormatError, MissingFileError, RevseqError, TensorIOError
from revseq_cli.core.tensors import DataType, TensorDesc, in_braces
from revseq_cli.files import base, folders
from revseq_cli.formats.attributes import FILL, MISSING, VALID, Attributes, as_neutral
from revseq_cli.formats.contract import Location, TextTypes
from revseq_cli.formats.listings import GROUP, Contents, Item, find_sole_key
from revseq_cli.text.numbers import unique

Version = Literal[2, 3]
_ATTRIBUTES = ".zattrs"
DIMENSIONS = "_ARRAY_DIMENSIONS"  # the attribute with their names in version 2, by xarray
# The files of metadata and of attributes in the folder of an array and of a group, by the format's
# version.
ARRAY_FILES: dict[int, tuple[str, ...]] = {2: (".zarray", _ATTRIBUTES), 3: ("zarr.json",)}
GROUP_FILES: dict[int, tuple[str, ...]] = {2: (".zgroup", _ATTRIBUTES), 3: ("zarr.json",)}
FILES = {name for names in (*ARRAY_FILES.values(), *GROUP_FILES.values()) for name in names}
# The copy of the metadata of all arrays of a group: a file in version 2, and in version 3 a field
# of the group.
CONSOLIDATED = {2: ".zmetadata", 3: "consolidated_metadata"}
_LINKS = "files in the store itself; links are not followed"
_FEW_CHUNKS = 64  # so many chunks are looked for, until one is there
_LARGEST = 1 << 24  # bytes of a file of metadata
_LONGEST_TYPE = 16  # characters of a dtype

# The codecs that lose nothing, by their names in both versions: of zarr itself, of numcodecs, and
# its checksums.
_LOSSLESS = {
    "bytes", "transpose", "blosc", "bz2", "gzip", "zlib", "lz4", "lzma", "zstd", "shuffle",
    "base64", "crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3",
}  # fmt: skip
_SHARDING = "sharding_indexed"
_TEXTS = "vlen-utf8"
_PREFIX = "numcodecs."  # of names in version 3
_TYPES = {
    str(dtype_of(data_type)): dtype_of(data_type)
    for data_type in DataType
    if data_type.kind != "minifloat"
}
# How the package zarr stores dtypes that the format lacks: as bytes without a data type.
_TYPES |= {f"raw_bytes {data_type.size}": np.dtype(f"V{data_type.size}") for data_type in DataType}
_TEXT_TYPES = {
    "fixed_length_utf32": ("U", 4),
    "null_terminated_bytes": ("S", 1),
}  # each with the bytes of a character
_TIME_TYPES = {"numpy.datetime64": "M8", "numpy.timedelta64": "m8"}


class Node(NamedTuple):
    """An array or a group in a store: its version, metadata and attributes.

    A folder without metadata is a group, too: there may be arrays in it.
    """

    version: Version
    fields: dict[str, Any]
    attributes: dict[str, Any]
    is_array: bool


class Store:
    """The metadata of a store in a folder, or at an address, from where all are fetched at once.

    A web server lists no files. So a store there must be one array, or have a copy of all metadata
    in its root.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._fetched: dict[str, bytes] | None = None
        self.listing = files.take_listing(path)
        if self.listing is None:
            return
        known = {*FILES, CONSOLIDATED[2]}
        names = [name for name in self.listing if name.rpartition("/")[2] in known]
        self._fetched = folders.read_files(path, names or known)
        if not self._fetched:
            raise MissingFileError("no such store", where=path)
        if not files.lists_files(path):
            self._fetched |= self._read_copies()

    def listing_of(self, key: str) -> dict[str, base.Identity] | None:
        """The states of the files of an array, as the store was listed.

        None for a folder of this machine.
        """
        if self.listing is None:
            return None
        start = f"{key}/" if key else ""
        return {
            name.removeprefix(start): identity
            for name, identity in self.listing.items()
            if name.startswith(start)
        }

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
        """A file of metadata, or None; FormatError for a link, and for a file that is too large."""
        if self._fetched is not None:
            return self._fetched.get(name)
        path = Path(self.path, name)
        if path.is_symlink():
            raise FormatError("a link", _LINKS, where=str(path))
        if not path.exists():
            return None
        with files.open_file(str(path)) as fd:
            size = fd.identity.size
            if size > _LARGEST:
                raise FormatError(
                    f"has {size} bytes of metadata", f"at most {_LARGEST}", where=str(path)
                )
            return fd.read(size, 0)

    def read_json(self, name: str) -> dict[str, Any]:
        """The JSON object in a file of metadata, empty where there is no file."""
        data = self.read_metadata_file(name)
        if data is None:
            return {}
        where = f"{self.path}/{name}" if self._fetched else str(Path(self.path, name))
        try:
            fields = json.loads(data, object_pairs_hook=unique)
        except FormatError as e:
            raise e.about(where) from None
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict):
            raise FormatError("has damaged metadata", "an object of JSON", "fetch it again", where)
        return fields

    def read_node(self, key: str) -> Node | None:
        """What is at that path inside the store; None for nothing, a link, or a path outside."""
        start = f"{key}/" if key else ""
        if self._fetched is None:
            folder = Path(self.path)
            for part in filter(None, key.split("/")):
                folder /= part
                if part in (".", "..") or folder.is_symlink():
                    return None
            if not folder.is_dir():
                return None
        elif not any(name.startswith(start) for name in self._fetched):
            return None
        fields = self.read_json(f"{start}zarr.json")
        if fields:
            attributes = fields.get("attributes")
            if not isinstance(attributes, dict):
                attributes = {}
            return Node(3, fields, attributes, is_array=fields.get("node_type") == "array")
        fields = self.read_json(f"{start}.zarray")
        return Node(2, fields, self.read_json(f"{start}{_ATTRIBUTES}"), bool(fields))

    def is_link(self, key: str) -> bool:
        """Whether that path inside the store is a link, which is not followed."""
        return self._fetched is None and Path(self.path, key).is_symlink()

    def list_folders(self, key: str) -> list[str]:
        """The path inside the store of each folder in a group, the first one last."""
        start = f"{key}/" if key else ""
        if self._fetched is not None:
            rests = (name.removeprefix(start) for name in self._fetched if name.startswith(start))
            names = {rest.partition("/")[0] for rest in rests if "/" in rest}
        else:
            folder = Path(self.path, key)
            with base.trying_to("read", folder):
                names = {
                    entry.name
                    for entry in os.scandir(folder)
                    if entry.is_dir(follow_symlinks=False)
                }
        return [f"{start}{name}" for name in sorted(names, reverse=True)]

    def list_arrays(self) -> list[str]:
        """The path of every array inside the store, "" for the store itself."""
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


def open_store(path: str) -> Store:
    """The store; one at an address is read once by each job."""
    store = folders.find_kept(path)
    if not isinstance(store, Store):
        store = Store(path)
    if store.listing is not None:
        folders.keep(path, store)
    return store


def contents(location: Location, types: TextTypes) -> Contents | None:
    """What the store or the group holds.

    None where the location is that of an array, or of nothing.
    """
    store = open_store(location.path)
    key = (location.key or "").strip("/")
    group = store.read_node(key)
    if group is None or group.is_array:
        return None
    items = []
    pending = [(path, 0) for path in store.list_folders(key)]
    while pending:  # depth first and by name
        path, depth = pending.pop()
        item = Item(path, depth=depth)
        try:
            node = store.read_node(path)
            if node and node.is_array:
                array = read(node, path, types.asked)
                desc = TensorDesc(data_type_of(array.dtype), array.sizes)
                item = item._replace(
                    desc=desc, sizes=array.sizes, dimensions=array.dimensions, details=array.details
                )
            elif node:
                item = item._replace(what=GROUP)
                pending += [(inside, depth + 1) for inside in store.list_folders(path)]
            if node:
                item = item._replace(attributes=len(attributes_of(node)[0]))
        except RevseqError as e:  # what is wrong with its metadata is listed instead
            item = item.with_reason(e)
        items.append(item)
    sole_key = None
    if location.key is None:
        sole_key = find_sole_key([item for item in items if not item.is_group])
    return Contents(
        location.path,
        "zarr",
        tuple(items),
        sole_key,
        key,
        len(attributes_of(group)[0]),
        is_tree=True,
    )


def attributes_of(node: Node) -> tuple[Attributes, list[str]]:
    """The attributes of an array or a group.

    With them come the names of those that have no place in the neutral form.

    In version 2, xarray's fill value is that of the array, where a 0 is nobody's choice; in version
    3 one of floats is eight bytes, in base 64.
    """
    attributes = Attributes()
    lost = []
    for name, stored in node.attributes.items():
        if name == DIMENSIONS:
            continue
        value = as_neutral(stored)
        if value is None:
            lost.append(name)
        else:
            attributes[name] = value
    is_of_xarray = node.version == 2 and DIMENSIONS in node.attributes
    if is_of_xarray and FILL not in attributes:
        fill = node.fields.get("fill_value")
        if fill:
            attributes[FILL] = as_neutral(fill)
    for name in {*MISSING, *VALID} & attributes.keys():
        text = attributes[name]
        if isinstance(text, str):
            attributes[name] = _number_in(text)
    return attributes, lost


def _number_in(text: str) -> Any:  # noqa: ANN401 - a NumPy number, or the text
    """The number that a text holds, in digits or in base 64; the text where it holds none."""
    with contextlib.suppress(ValueError):
        return as_neutral(float(text))
    with contextlib.suppress(ValueError, struct.error):
        return as_neutral(struct.unpack("<d", base64.b64decode(text))[0])
    return text


class Metadata(NamedTuple):
    """The metadata of an array.

    `chunks` are the sizes of what is decoded at once, and `shards` those of what is in one file.
    The name of such a file in the folder of the array begins with `start`, and has its numbers
    between `separator`s. `dimensions` are their names, "" for one without a name, or empty.
    """

    version: Version
    dtype: np.dtype[Any]
    sizes: tuple[int, ...]
    chunks: tuple[int, ...]
    shards: tuple[int, ...]
    codecs: tuple[str, ...]
    start: str
    separator: str
    dimensions: tuple[str, ...]

    @property
    def details(self) -> dict[str, str]:
        """How the array is stored, in words: its chunks and codecs."""
        return {"chunks": str(self.chunks), "codecs": ", ".join(self.codecs)}

    @property
    def counts(self) -> list[int]:
        """The number of chunks or shards along each dimension."""
        return [-(-size // shard) for size, shard in zip(self.sizes, self.shards, strict=True)]

    def chunk_names(self) -> list[str]:
        """The paths in the array's folder of up to 64 chunks or shards, spread over all of them."""
        count = prod(self.counts)
        start = self.start and f"c{self.separator}"
        if not self.sizes:
            return ["c" if start else "0"]
        steps = max(1, min(count, _FEW_CHUNKS) - 1)
        numbers = sorted({i * (count - 1) // steps for i in range(steps + 1)}) if count else []
        return [
            start + self.separator.join(map(str, np.unravel_index(number, self.counts)))
            for number in numbers
        ]

    def is_chunk(self, name: str, separator: str = "") -> bool:
        """Whether a path in the array's folder is that of a chunk or shard, by this `separator`."""
        separator = separator or self.separator
        start = self.start and f"c{separator}"
        if not self.sizes:
            return name == ("c" if start else "0")
        if not name.startswith(start):
            return False
        numbers = name.removeprefix(start).split(separator)
        are_numbers = all(
            number.isascii() and number.isdecimal() and str(int(number)) == number
            for number in numbers
        )
        if not are_numbers or len(numbers) != len(self.sizes):
            return False
        return all(int(number) < count for number, count in zip(numbers, self.counts, strict=True))


def read(node: Node, where: str, asked: DataType | None = None, *, texts: bool = False) -> Metadata:
    """The metadata of an array of numbers, or with `texts` also of texts and times.

    FormatError for other arrays.

    `asked` is the data type of elements that are stored as bytes without one.
    """
    try:
        fields = _fields_of_2(node) if node.version == 2 else _fields_of_3(node.fields, where)
        numbers = (*fields.sizes, *fields.chunks, *fields.shards)
        if not all(type(number) is int for number in numbers):
            raise TypeError
        dtype = _read_dtype(fields.kind, node.version)
        is_text = texts and dtype.kind in "USOmM"
        if not is_text:
            dtype = _require_numbers(dtype, fields.kind, asked, where)
        require_sizes(fields.sizes, where)
        _require_chunks(fields, where)
        known = {*_LOSSLESS, _TEXTS} if is_text else _LOSSLESS
        codecs = _require_lossless(node.version, fields.steps, dtype, where, known)
    except (KeyError, TypeError, AttributeError):
        expected = "those of a Zarr array"
        raise FormatError("has damaged metadata", expected, "fetch it again", where) from None
    if dtype.kind == "O" and _TEXTS not in codecs:
        raise FormatError(f"its texts are not in {_TEXTS}", where=where)
    return Metadata(
        node.version,
        dtype,
        fields.sizes,
        fields.chunks,
        fields.shards,
        tuple(codecs),
        fields.start,
        fields.separator,
        _dimensions_of(fields.names, len(fields.sizes)),
    )


class _Fields(NamedTuple):
    """The fields of an array's metadata that both versions have, as they are in JSON.

    `steps` are the codecs, `names` those of the dimensions; the others are as in Metadata.
    """

    kind: Any
    sizes: tuple[Any, ...]
    chunks: tuple[Any, ...]
    shards: tuple[Any, ...]
    steps: list[Any]
    names: Any
    start: str
    separator: str


def _fields_of_2(node: Node) -> _Fields:
    fields = node.fields
    chunks = tuple(fields["chunks"])
    steps = [*(fields["filters"] or [])]
    if fields["compressor"]:
        steps.append(fields["compressor"])
    return _Fields(
        fields["dtype"],
        tuple(fields["shape"]),
        chunks,
        chunks,
        steps,
        node.attributes.get(DIMENSIONS),
        start="",
        separator=str(fields.get("dimension_separator", ".")),
    )


def _fields_of_3(fields: dict[str, Any], where: str) -> _Fields:
    grid = fields["chunk_grid"]
    if grid["name"] != "regular":
        raise FormatError(f"has the chunk grid {str(grid['name'])[:80]}", "regular", where=where)
    shards = tuple(grid["configuration"]["chunk_shape"])
    steps = [*map(_with_name, fields["codecs"])]
    chunks = shards
    for step in steps:
        if step["name"] == _SHARDING:
            chunks = tuple(step["configuration"]["chunk_shape"])
            break
    keys = _with_name(fields["chunk_key_encoding"])
    is_flat = keys["name"] == "v2"
    usual = "." if is_flat else "/"
    separator = str(keys.get("configuration", {}).get("separator", usual))
    return _Fields(
        fields["data_type"],
        tuple(fields["shape"]),
        chunks,
        shards,
        steps,
        fields.get("dimension_names"),
        start="" if is_flat else f"c{separator}",
        separator=separator,
    )


def _require_numbers(
    dtype: np.dtype[Any],
    kind: Any,  # noqa: ANN401 - of JSON
    asked: DataType | None,
    where: str,
) -> np.dtype[Any]:
    """The dtype of numbers, or of bytes that have the data type `asked`; FormatError for others."""
    try:
        dtype = name_bytes(dtype, asked, where)
        data_type_of(dtype)
    except FormatError as e:
        if not is_nameless(dtype):
            e.found = f"its data type is {str(kind)[:80]}"
        raise e.about(where) from None
    return dtype


def _require_chunks(fields: _Fields, where: str) -> None:
    """FormatError for an unknown separator, and for chunks that are not those of the shape."""
    if fields.separator not in (".", "/"):
        found = f"has the separator {fields.separator[:80]!r} between the numbers of chunks"
        raise FormatError(found, "one of . and /", where=where)
    has_all = len(fields.sizes) == len(fields.chunks) == len(fields.shards)
    numbers = (*fields.chunks, *fields.shards)
    if has_all and all(0 < number < 1 << 63 for number in numbers):
        return
    expected = "a size from 1 to 2^63 - 1 for each dimension"
    raise FormatError(f"has the chunks {in_braces(fields.chunks)[:200]}", expected, where=where)


def _dimensions_of(names: Any, count: int) -> tuple[str, ...]:  # noqa: ANN401 - of JSON
    """The names of that many dimensions, "" for one without; none where no dimension has one."""
    if not isinstance(names, list) or len(names) != count:
        return ()
    dimensions = tuple(name if isinstance(name, str) else "" for name in names)
    return dimensions if any(dimensions) else ()


def _with_name(part: Any) -> Any:  # noqa: ANN401 - of JSON
    """A part of metadata that has a name, and may be a name alone."""
    return {"name": part} if isinstance(part, str) else part


def _read_dtype(kind: Any, version: Version) -> np.dtype[Any]:  # noqa: ANN401 - of JSON
    """The dtype of a data type; that of Python's objects for one that no tensor has."""
    if version == 2:
        try:
            return np.dtype(kind if isinstance(kind, str) and len(kind) < _LONGEST_TYPE else object)
        except (TypeError, ValueError, SyntaxError):
            return np.dtype(object)
    kind = _with_name(kind)
    name = kind["name"]
    size = kind.get("configuration", {}).get("length_bytes")
    is_size = type(size) is int and 0 < size < 1 << 20
    if name in _TEXT_TYPES and is_size:
        letter, width = _TEXT_TYPES[name]
        return np.dtype(f"{letter}{size // width}")
    if name in _TIME_TYPES:
        unit = kind["configuration"]["unit"]
        count = kind["configuration"].get("scale_factor", 1)
        try:
            return np.dtype(f"{_TIME_TYPES[name]}[{int(count)}{unit}]")
        except (TypeError, ValueError):
            return np.dtype(object)
    return _TYPES.get(name if size is None else f"{name} {size}", np.dtype(object))


def _require_lossless(
    version: Version, steps: list[Any], dtype: np.dtype[Any], where: str, known: set[str]
) -> list[str]:
    """The names of codecs, also inside shards; FormatError for one that may change elements."""
    names = []
    for step in steps:
        name = str(step["id" if version == 2 else "name"])
        fields = step if version == 2 else step.get("configuration") or {}
        names.append(name)
        if name == _SHARDING:
            names += _require_lossless(version, fields["codecs"], dtype, where, known)
            names += _require_lossless(
                version, fields["index_codecs"], np.dtype(np.uint64), where, known
            )
            continue
        codec = name.removeprefix(_PREFIX)
        if codec not in known and not _keeps(codec, fields, dtype):
            found = f"has the codec {name[:80]}, which may change values of {dtype}"
            hint = "write the array again with one of these"
            expected = "lossless codecs, such as zstd, gzip, blosc or shuffle"
            raise FormatError(found, expected, hint, where)
    return names


def _keeps(codec: str, fields: dict[str, Any], dtype: np.dtype[Any]) -> bool:
    """Whether a codec that is lossless only for some types keeps elements of this one."""
    if codec == "packbits":
        return dtype.kind == "b"
    if codec != "delta" or dtype.kind not in "iu":
        return False
    # Differences of integers wrap around, and their sums back; those of floats are rounded.
    stored = fields.get("astype") in (None, fields.get("dtype"))
    return stored and fields.get("dtype") == dtype.str


def digest_files(
    folder: str, where: str, listing: dict[str, base.Identity] | None = None
) -> tuple[str, int, list[str]]:
    """A digest of the files in a folder or at an address, their bytes in all, and their names.

    The digest is of names, sizes and times. `listing` has the states of the files, if they are
    known already. FormatError for anything that is neither a file nor a folder, such as a link.
    """
    digest = hashlib.sha256()
    stored = 0
    names = []
    for name, identity in _list_identities(folder, where, listing):
        digest.update(f"{name!r} {identity}".encode("utf-8", "surrogateescape"))
        names.append(name)
        stored += identity.size
    return digest.hexdigest(), stored, names


def _list_identities(
    folder: str, where: str, listing: dict[str, base.Identity] | None
) -> Iterator[tuple[str, base.Identity]]:
    """The state of each file by its path in the folder, in an order that does not change."""
    if listing is None:
        listing = files.list_files(folder)
    if listing is not None:
        yield from sorted(listing.items())
        return
    pending = [""]
    with base.trying_to("read", where):
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
                    base.refuse_output(status, entry.path)
                    yield name, base.identity_of(status)
        except FileNotFoundError:
            raise report_change(where) from None


def groups_above(key: str) -> list[str]:
    """The path of every group that an array is in, from "" for the store itself on."""
    if not key:
        return []
    parts = key.split("/")
    return ["/".join(parts[:i]) for i in range(len(parts))]


def report_change(where: str) -> TensorIOError:
    """The error for a store that is not as it was."""
    return TensorIOError("changed while it was read", "a store that does not change", where=where)
