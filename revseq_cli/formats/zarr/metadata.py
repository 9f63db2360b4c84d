"""What a Zarr store says, read without the package zarr: groups, arrays, and codecs that give back every bit.

Arrays are refused unless they hold plain numbers, in regular chunks, encoded by codecs that lose nothing and unpickle
nothing. No link is followed. Source of the format: the specifications of versions 2 and 3 on zarr-specs.readthedocs.io.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from revseq_cli.core import platform, signals
from revseq_cli.core.dtypes import data_type_of, dtype_of, is_nameless, named, require_sizes
from revseq_cli.core.errors import FormatError, MissingFileError, RevseqError, TensorIOError
from revseq_cli.core.tensors import DataType, TensorDesc, braced
from revseq_cli.formats import file_io, remote
from revseq_cli.formats.contents import GROUP, Contents, Item, only_of
from revseq_cli.text.numbers import unique

if TYPE_CHECKING:
    from collections.abc import Callable

    from revseq_cli.formats.contract import Address, TextTypes

Version = Literal[2, 3]
_ATTRIBUTES = ".zattrs"
DIMENSIONS = "_ARRAY_DIMENSIONS"  # in version 2, an attribute has their names
# The files of metadata and of attributes in the folder of an array and of a group, by the format's version.
ARRAY_FILES: dict[int, tuple[str, ...]] = {2: (".zarray", _ATTRIBUTES), 3: ("zarr.json",)}
GROUP_FILES: dict[int, tuple[str, ...]] = {2: (".zgroup", _ATTRIBUTES), 3: ("zarr.json",)}
FILES = {name for names in (*ARRAY_FILES.values(), *GROUP_FILES.values()) for name in names}
_LINKS = "files in the store itself; links are not followed"
_LARGEST, _LONGEST_TYPE = 1 << 24, 16  # bytes of a file of metadata; characters of a dtype

# The codecs that lose nothing, by their names in both versions: of zarr itself, of numcodecs, and its checksums.
LOSSLESS = {
    "bytes", "transpose", "blosc", "bz2", "gzip", "zlib", "lz4", "lzma", "zstd", "shuffle", "base64",
    "crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3",
}  # fmt: skip
SHARDING, _TEXTS = "sharding_indexed", "vlen-utf8"
PREFIX = "numcodecs."  # of their names in version 3
_TYPES = {str(dtype_of(each)): dtype_of(each) for each in DataType if each.kind != "minifloat"}
# How the package zarr stores dtypes that the format lacks: as bytes without a data type.
_TYPES |= {f"raw_bytes {size}": np.dtype(f"V{size}") for size in {each.size for each in DataType}}
_TEXT_TYPES = {"fixed_length_utf32": ("U", 4), "null_terminated_bytes": ("S", 1)}  # each with the bytes of a character


def mirror(path: str) -> str:
    """A folder with the files of metadata of the store at an address; MissingFileError where there is none.

    A web server lists no files: its stores have copies of all metadata at one place, or are one array.
    """
    names = [name for name in remote.listed(path) if name.rpartition("/")[2] in (*FILES, ".zmetadata")]
    files = remote.contents(path, names or [*FILES, ".zmetadata"])
    if not files:
        raise MissingFileError("no such store", where=path)
    if remote.is_web(path):
        files |= _consolidated(files)
    folder = tempfile.mkdtemp(prefix="revseq-")
    remote.here().folders.append(folder)
    for name, data in files.items():
        target = Path(folder, name)
        if target.resolve().is_relative_to(Path(folder).resolve()):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
    return folder


def _consolidated(files: dict[str, bytes]) -> dict[str, bytes]:
    """The files of metadata of which those at the root of a store have copies."""
    with contextlib.suppress(ValueError, AttributeError, TypeError, KeyError):
        if ".zmetadata" in files:
            copies = json.loads(files[".zmetadata"])["metadata"]
        else:
            below = json.loads(files["zarr.json"])["consolidated_metadata"]["metadata"]
            copies = {f"{name}/zarr.json": fields for name, fields in below.items()}
        return {name: json.dumps(fields).encode() for name, fields in copies.items()}
    return {}


class Node(NamedTuple):
    """An array or a group in a store: its version, metadata and attributes; a folder with none may have arrays, too."""

    version: Version
    fields: dict[str, Any]
    attributes: dict[str, Any]
    is_array: bool


def node_at(store: str, key: str) -> Node | None:
    """What is at that path inside the store; None where nothing is, or the path leads out of it or over a link."""
    folder = Path(store)
    for part in filter(None, key.split("/")):
        folder /= part
        if part in (".", "..") or folder.is_symlink():
            return None
    if not folder.is_dir():
        return None
    if fields := read_object(folder / "zarr.json"):
        attributes = fields.get("attributes")
        is_array = fields.get("node_type") == "array"
        return Node(3, fields, attributes if isinstance(attributes, dict) else {}, is_array)
    fields = read_object(folder / ".zarray")
    return Node(2, fields, read_object(folder / _ATTRIBUTES), bool(fields))


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file of metadata, empty where there is no file; FormatError for a link, or anything else."""
    if path.is_symlink():
        raise FormatError("is a link", _LINKS, where=str(path))
    if not path.exists():
        return {}
    with file_io.opened(str(path)) as fd:
        size = file_io.identity(fd).size
        if size > _LARGEST:
            raise FormatError(f"has {size} bytes of metadata", f"at most {_LARGEST}", where=str(path))
        raw = file_io.read_some(fd, size, 0, str(path))
    try:
        fields = json.loads(raw, object_pairs_hook=unique)
    except FormatError as e:
        raise e.about(str(path)) from None
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise FormatError("has damaged metadata", "an object of JSON", "fetch it again", str(path))
    return fields


def folders_in(store: str, key: str) -> list[str]:
    """The path inside the store of each folder in a group, the first one last."""
    folder = Path(store, key)
    with file_io.trying_to("read", folder):
        names = [entry.name for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    return [f"{key}/{name}".lstrip("/") for name in sorted(names, reverse=True)]


def arrays_in(store: str) -> list[str]:
    """The path of every array inside the store, "" for the store itself."""
    arrays, pending = [], [""]
    while pending:
        key = pending.pop()
        node = node_at(store, key)
        if node and node.is_array:
            arrays.append(key)
        else:
            pending += folders_in(store, key)
    return sorted(arrays)


def contents(address: Address, types: TextTypes) -> Contents | None:
    """What the store or the group holds; None where the address is that of an array, or of nothing."""
    store, key = address.path, (address.key or "").strip("/")
    if platform.is_remote(store):
        store = mirror(store)
    group = node_at(store, key)
    if group is None or group.is_array:
        return None
    items, pending = [], [(below, 0) for below in folders_in(store, key)]
    while pending:  # depth first and by name
        below, depth = pending.pop()
        item = Item(below, depth=depth)
        try:
            node = node_at(store, below)
            if node and node.is_array:
                array = read(node, below, types.asked)
                desc = TensorDesc(data_type_of(array.dtype), array.sizes)
                item = item._replace(desc=desc, sizes=array.sizes, dimensions=array.dimensions, details=array.details)
            elif node:
                item = item._replace(what=GROUP)
                pending += [(inside, depth + 1) for inside in folders_in(store, below)]
            item = item._replace(attributes=len(node.attributes) if node else None)
        except RevseqError as e:  # what is wrong with its metadata is told in its place
            item = item.refused(e)
        items.append(item)
    only = None if address.key is not None else only_of([item for item in items if not item.is_group])
    return Contents(address.path, "zarr", tuple(items), only, key, len(group.attributes), is_tree=True)


class Metadata(NamedTuple):
    """What an array is: `chunks` are the sizes of what is decoded alone, `shards` of what is written alone.

    `key_start` and `separator` make up the name of a chunk's or shard's file in the folder of the array: what it begins
    with, and what stands between its numbers. `dimensions` are their names, "" for one without, or nothing.
    """

    version: Version
    dtype: np.dtype[Any]
    sizes: tuple[int, ...]
    chunks: tuple[int, ...]
    shards: tuple[int, ...]
    codecs: tuple[str, ...]
    key_start: str
    separator: str
    dimensions: tuple[str, ...]

    @property
    def details(self) -> dict[str, str]:
        """How the array is stored, in words: its chunks and codecs."""
        return {"chunks": str(self.chunks), "codecs": ", ".join(self.codecs)}

    def is_chunk(self, separator: str) -> Callable[[str], bool]:
        """A function: whether a path in the array's folder is that of a chunk or shard, with that separator."""
        rank, start = len(self.sizes), self.key_start.replace(self.separator, separator)
        name = re.compile(re.escape(start) + re.escape(separator).join([r"(0|[1-9]\d{0,18})"] * rank), re.ASCII)
        counts = [-(-size // shard) for size, shard in zip(self.sizes, self.shards, strict=True)]

        def is_chunk(key: str) -> bool:
            if not rank:
                return key == ("c" if start else "0")
            match = name.fullmatch(key)
            return match is not None and all(int(i) < count for i, count in zip(match.groups(), counts, strict=True))

        return is_chunk


def read(node: Node, where: str, asked: DataType | None = None, *, texts: bool = False) -> Metadata:
    """The metadata of an array of numbers, or with `texts` also of texts; FormatError for what cannot be read.

    `asked` is the data type of elements that are stored as bytes without one.
    """
    version, fields = node.version, node.fields
    try:
        if version == 2:
            steps = [*(fields["filters"] or []), *filter(None, [fields["compressor"]])]
            chunks = shards = tuple(fields["chunks"])
            start, separator = "", str(fields.get("dimension_separator", "."))
            names = node.attributes.get(DIMENSIONS)
            dtype = _dtype_of_2(fields["dtype"])
        else:
            grid, keys = fields["chunk_grid"], _whole(fields["chunk_key_encoding"])
            if grid["name"] != "regular":
                raise FormatError(f"has the chunk grid {str(grid['name'])[:80]}", "regular", where=where)
            steps, shards = [_whole(step) for step in fields["codecs"]], tuple(grid["configuration"]["chunk_shape"])
            inner = [step["configuration"]["chunk_shape"] for step in steps if step["name"] == SHARDING]
            chunks = tuple(*(inner or [shards]))
            start, separator = ("", ".") if keys["name"] == "v2" else ("c", "/")
            separator = str(keys.get("configuration", {}).get("separator", separator))
            start, names = start and start + separator, fields.get("dimension_names")
            dtype = _dtype_of_3(fields["data_type"])
        is_text = texts and dtype.kind in "USO"
        if not is_text:
            try:
                dtype = named(dtype, asked, where)
                data_type_of(dtype)
            except FormatError as e:
                kind = str(fields["dtype" if version == 2 else "data_type"])[:80]
                found_type = e.found if is_nameless(dtype) else f"its data type is {kind}"
                raise FormatError(found_type, e.wanted, e.hint, where) from None
        sizes = tuple(fields["shape"])
        if not all(type(size) is int for size in (*sizes, *chunks, *shards)):
            raise TypeError
        require_sizes(sizes, where)
        if not len(sizes) == len(chunks) == len(shards) or not all(0 < size < 1 << 63 for size in (*chunks, *shards)):
            wanted = "a size from 1 to 2^63 - 1 for each dimension"
            raise FormatError(f"has the chunks {braced(chunks)[:200]}", wanted, where=where)
        codecs = _lossless(version, steps, dtype, where, {*LOSSLESS, _TEXTS} if is_text else LOSSLESS)
        if dtype.kind == "O" and _TEXTS not in codecs:
            raise FormatError(f"its texts are not in {_TEXTS}", where=where)
    except (KeyError, TypeError, AttributeError):
        raise FormatError("has damaged metadata", "those of a Zarr array", "fetch it again", where) from None
    names = names if isinstance(names, list) and len(names) == len(sizes) else []
    words = tuple(name if isinstance(name, str) else "" for name in names)
    dimensions = words if any(words) else ()
    return Metadata(version, dtype, sizes, chunks, shards, tuple(codecs), start, separator, dimensions)


def _whole(part: Any) -> Any:  # noqa: ANN401 - of JSON
    """A part of metadata that has a name, and may be a name alone."""
    return {"name": part} if isinstance(part, str) else part


def _dtype_of_2(kind: object) -> np.dtype[Any]:
    try:
        return np.dtype(kind if isinstance(kind, str) and len(kind) < _LONGEST_TYPE else object)
    except (TypeError, ValueError, SyntaxError):
        return np.dtype(object)


def _dtype_of_3(kind: Any) -> np.dtype[Any]:  # noqa: ANN401 - of JSON
    if not isinstance(kind, dict):
        return _TYPES.get(str(kind), np.dtype(object))
    name, size = str(kind["name"]), kind.get("configuration", {}).get("length_bytes")
    if name in _TEXT_TYPES and type(size) is int and 0 < size < 1 << 20:
        letter, width = _TEXT_TYPES[name]
        return np.dtype(f"{letter}{size // width}")
    return _TYPES.get(f"{name} {size}", np.dtype(object))


def _lossless(version: int, steps: list[Any], dtype: np.dtype[Any], where: str, known: set[str]) -> list[str]:
    """The names of codecs, also of those inside a shard; FormatError for one that may change elements of that type."""
    names = []
    for step in steps:
        name = str(step["id" if version == 2 else "name"])
        fields = step if version == 2 else step.get("configuration") or {}
        names.append(name)
        if name == SHARDING:
            names += _lossless(version, fields["codecs"], dtype, where, known)
            names += _lossless(version, fields["index_codecs"], np.dtype(np.uint64), where, known)
            continue
        codec, kept = name.removeprefix(PREFIX), fields.get("astype") in (None, fields.get("dtype"))
        # Differences of integers wrap around, and their sums back; those of floats are rounded.
        is_delta = codec == "delta" and dtype.kind in "iu" and fields.get("dtype") == dtype.str and kept
        if codec not in known and not is_delta and not (codec == "packbits" and dtype.kind == "b"):
            found = f"has the codec {name[:80]}, which may change values of {dtype}"
            hint = "write the array again with one of these"
            raise FormatError(found, "lossless codecs, such as zstd, gzip, blosc or shuffle", hint, where)
    return names


class Files(NamedTuple):
    """The files of a folder: a digest of their names, sizes and times, the bytes of all, and their paths inside it."""

    digest: str
    stored: int
    names: list[str]


def files_in(folder: str, where: str, at: str = "") -> Files:
    """The files of a folder, or `at` an address; FormatError for links, and for anything else but files and folders."""
    if at:
        known = remote.listed(at)
        digest = hashlib.sha256(repr(sorted(known.items())).encode("utf-8", "surrogateescape"))
        return Files(digest.hexdigest(), sum(each.size for each in known.values()), [*known])
    digest, stored, names, pending = hashlib.sha256(), 0, list[str](), [""]
    with file_io.trying_to("read", where):
        try:
            while pending:
                below = pending.pop()
                signals.check()
                for entry in sorted(os.scandir(Path(folder, below)), key=lambda entry: entry.name):
                    name, status = f"{below}{entry.name}", entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(status.st_mode):
                        pending.append(f"{name}/")
                        identity = file_io.identity_of(status)
                    elif stat.S_ISREG(status.st_mode):
                        names.append(name)
                        identity = file_io.identity_of_entry(entry)
                        stored += identity.size
                    else:
                        raise FormatError(f"{name} is not a regular file", _LINKS, where=where)
                    digest.update(f"{name!r} {identity}".encode("utf-8", "surrogateescape"))
        except FileNotFoundError:
            raise changed(where) from None
    return Files(digest.hexdigest(), stored, names)


def refuse_streams(store: str) -> None:
    """TensorIOError if standard output or standard error goes to a file of the store, of whichever array."""
    inodes = file_io.stream_inodes()
    pending = [store] if inodes else []
    while pending:
        with file_io.trying_to("read", store), os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                elif entry.inode() in inodes:  # known without a system call, unlike the status
                    file_io.refuse_stream(os.lstat(entry.path), entry.path)


def changed(where: str) -> TensorIOError:
    """The error for a store that is not as it was."""
    return TensorIOError("changed while it was read", "a store that does not change", where=where)
