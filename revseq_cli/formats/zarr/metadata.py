"""Metadata of Zarr arrays, and the codecs that they name: those that give back every bit; all others are refused.

Arrays are refused unless they hold plain numbers, in regular chunks, encoded by codecs that lose nothing and unpickle
nothing. No link is followed. Source of the format: the specifications of versions 2 and 3 on zarr-specs.readthedocs.io.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import hashlib
import json
import os
import re
import stat
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from revseq_cli.core import signals
from revseq_cli.core.dtypes import data_type_of, dtype_of, is_nameless, named, require_sizes
from revseq_cli.core.errors import MEMORY_ENDED, FormatError, RevseqError, TensorIOError
from revseq_cli.core.tensors import DataType, braced
from revseq_cli.formats import file_io, remote
from revseq_cli.text.numbers import unique

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SHARDING = "sharding_indexed"
_LINKS = "files in the store itself; links are not followed"
# What is wanted where zarr cannot do this with an array.
_WANTED = {"open": "metadata that the package zarr reads", "read": "a whole store", "write": ""}
PREFIX = "numcodecs."  # of their names in version 3


# The codecs of the package numcodecs that may lose nothing; those of the second line are checksums.
NUMCODECS = {
    "blosc", "bz2", "gzip", "zlib", "lz4", "lzma", "zstd", "shuffle", "base64", "delta", "astype", "packbits",
    "crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3",
}  # fmt: skip
_LOSSLESS = {
    2: NUMCODECS,
    3: {"bytes", "transpose", "gzip", "zstd", "blosc", "crc32c", *(f"{PREFIX}{name}" for name in NUMCODECS)},
}
# The other codecs of numcodecs and zarr, and why each is refused.
_OBJECTS, _ROUNDED = "is for texts and objects, not numbers", "rounds"
REFUSED = {
    **dict.fromkeys(("bitround", "quantize", "fixedscaleoffset", "cast_value", "scale_offset"), _ROUNDED),
    **dict.fromkeys(("categorize", "json2", "msgpack2", "vlen-array", "vlen-bytes", "vlen-utf8"), _OBJECTS),
    "pickle": "runs code when it is read",
    "zfpy": "rounds, but in one of its modes, and needs a package of its own",
    "pcodec": "needs a package of its own",
    "endian": "is an early name of bytes, which zarr does not read",
}


def codec_names(codecs: list[dict[str, Any]], key: str) -> Iterator[str]:
    """The name of every codec, also of those inside a shard."""
    for codec in codecs:
        yield str(codec[key])
        if codec[key] == SHARDING:
            inside = codec["configuration"]
            yield from codec_names([*inside["codecs"], *inside["index_codecs"]], key)


def require_lossless(version: int, codecs: list[dict[str, Any]], dtype: np.dtype[Any], where: str) -> None:
    """FormatError for a codec that may lose something of elements of that type, or that is unknown."""
    for codec in codecs:
        name = str(codec["id" if version == 2 else "name"])
        fields = codec if version == 2 else codec.get("configuration") or {}
        if name == SHARDING:
            require_lossless(version, fields["codecs"], dtype, where)
            require_lossless(version, fields["index_codecs"], np.dtype(np.uint64), where)
            continue
        plain_name = name.removeprefix(PREFIX)
        if name not in _LOSSLESS[version]:
            why = f", which {REFUSED[plain_name]}" if plain_name in REFUSED else ""
            wanted, hint = (
                "lossless codecs, such as zstd, gzip, blosc or shuffle",
                "write the array again with one of these",
            )
            raise FormatError(f"has the codec {name[:80]}{why}", wanted, hint, where)
        try:
            stored = _stored_as(plain_name, fields, dtype)
        except (KeyError, ValueError, TypeError, SyntaxError):
            stored = None
        if stored is None:
            found = f"has the codec {name}, which may change values of {dtype} as it is configured"
            raise FormatError(found, "integers of that type, stored in the same or a wider integer type", where=where)
        dtype = stored


def _stored_as(codec: str, fields: dict[str, Any], dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """The dtype that a codec makes of elements of that dtype; None where it may change one.

    Differences of integers wrap around, and their sums back; those of floats are rounded. A conversion of floats makes
    every signalling NaN a quiet one.
    """
    if codec == "packbits":
        return np.dtype(np.uint8) if dtype.kind == "b" else None
    if codec == "delta":
        read, stored = _type(fields["dtype"]), _type(fields.get("astype") or fields["dtype"])
    elif codec == "astype":
        read, stored = _type(fields.get("decode_dtype") or dtype.str), _type(fields["encode_dtype"])
    else:
        return dtype
    widens = {dtype.kind, stored.kind} <= set("iub") and np.can_cast(dtype, stored, "safe")
    return stored if read == dtype and widens and not (codec == "delta" and dtype.kind == "b") else None


def _type(text: object) -> np.dtype[Any]:
    if not isinstance(text, str) or len(text) > _LONGEST_TYPE:
        raise ValueError
    return np.dtype(text)


# The files of metadata and of attributes in the folder of an array and of a group, by the format's version.
_ATTRIBUTES = ".zattrs"
DIMENSIONS = "_ARRAY_DIMENSIONS"  # in version 2, an attribute has their names
ARRAY_FILES = {2: (".zarray", _ATTRIBUTES), 3: ("zarr.json",)}
GROUP_FILES = {2: (".zgroup", _ATTRIBUTES), 3: ("zarr.json",)}
FILES = {name for names in (*ARRAY_FILES.values(), *GROUP_FILES.values()) for name in names}
_LARGEST = 1 << 24
_LONGEST_TYPE = 16
_TYPES = {str(dtype_of(each)): dtype_of(each) for each in DataType if each.kind != "minifloat"}
# How the package zarr stores dtypes that the format lacks: as bytes without a data type.
_TYPES |= {f"raw_bytes {size}": np.dtype(f"V{size}") for size in sorted({each.size for each in DataType})}
Version = Literal[2, 3]
NEWEST: Version = 3


class Metadata(NamedTuple):
    """What an array is: `chunks` are the sizes of what is decoded alone, `shards` of what is written alone.

    `key_start` and `separator` make up the name of a chunk's or shard's file in the folder of the array: what it begins
    with, and what stands between its numbers.
    `dimensions` are the names of the dimensions, "" for one without, or nothing; `attributes` is their number.
    """

    version: Version
    dtype: np.dtype[Any]
    sizes: tuple[int, ...]
    chunks: tuple[int, ...]
    shards: tuple[int, ...]
    codecs: tuple[str, ...]
    key_start: str
    separator: str
    dimensions: tuple[str, ...] = ()
    attributes: int = 0


def chunk_files(metadata: Metadata, separator: str) -> Callable[[str], bool]:
    """A function that says whether a path in the array's folder is that of a chunk or shard, with that separator."""
    rank, start = len(metadata.sizes), metadata.key_start.replace(metadata.separator, separator)
    name = re.compile(re.escape(start) + re.escape(separator).join([r"(0|[1-9]\d{0,18})"] * rank), re.ASCII)
    counts = [-(-size // shard) for size, shard in zip(metadata.sizes, metadata.shards, strict=True)]

    def is_chunk(key: str) -> bool:
        if not rank:
            return key == ("c" if start else "0")
        match = name.fullmatch(key)
        return match is not None and all(int(i) < count for i, count in zip(match.groups(), counts, strict=True))

    return is_chunk


def arrays_in(store: str) -> list[str]:
    """The path of every array inside the store, "" for the store itself."""
    arrays, pending = [], [""]
    while pending:
        key = pending.pop()
        if _array_in(Path(store, key)):
            arrays.append(key)
        else:
            pending += folders_in(store, key)
    return sorted(arrays)


def folders_in(store: str, key: str) -> list[str]:
    """The path inside the store of each folder in a group, the first one last."""
    folder = Path(store, key)
    with file_io.trying_to("read", folder):
        names = [entry.name for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    return [f"{key}/{name}".lstrip("/") for name in sorted(names, reverse=True)]


def holds(store: str, key: str) -> bool:
    """Whether an array is at that path inside the store, without a link on the path."""
    folder = _folder_at(store, key)
    return folder is not None and _array_in(folder) is not None


def _folder_at(store: str, key: str) -> Path | None:
    """The folder at that path inside the store, if there is one; None where the path leads out of it or over a link."""
    folder = Path(store)
    for part in filter(None, key.split("/")):
        folder /= part
        if part in (".", "..") or folder.is_symlink():
            return None
    return folder if folder.is_dir() else None


def _array_in(folder: Path) -> tuple[Version, dict[str, Any]] | None:
    """The format's version and the metadata of the array in a folder; None for a group, or any other folder."""
    fields = read_object(folder / "zarr.json")
    if fields.get("node_type") == "array":
        return 3, fields
    fields = read_object(folder / ".zarray")
    return (2, fields) if fields else None


class Files(NamedTuple):
    """The files of a folder: a digest of their names, sizes and times, the bytes of all, and their paths inside it.

    The server of an address need not list its files.
    """

    digest: str
    stored: int
    names: list[str]
    are_listed: bool = True


def files_in(folder: str, where: str, at: str = "") -> Files:
    """The files of a folder, or `at` an address; FormatError for links, and for anything else but files and folders."""
    if at:
        listed = remote.listed(at)
        digest = hashlib.sha256(repr(sorted(listed.items())).encode("utf-8", "surrogateescape"))
        return Files(digest.hexdigest(), sum(each.size for each in listed.values()), [*listed], not remote.is_web(at))
    digest, stored, names, pending = hashlib.sha256(), 0, list[str](), [""]
    with file_io.trying_to("read", where):
        try:
            while pending:
                below = pending.pop()
                signals.check()
                for entry in sorted(os.scandir(Path(folder, below)), key=lambda entry: entry.name):
                    name = f"{below}/{entry.name}" if below else entry.name
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(status.st_mode):
                        pending.append(name)
                        known = file_io.identity_of(status)
                    elif stat.S_ISREG(status.st_mode):
                        names.append(name)
                        known = file_io.identity_of_entry(entry)
                        stored += known.size
                    else:
                        raise FormatError(f"{name} is not a regular file", _LINKS, where=where)
                    digest.update(f"{name!r} {known}".encode("utf-8", "surrogateescape"))
        except FileNotFoundError:
            raise changed(where) from None
    return Files(digest.hexdigest(), stored, names)


def changed(where: str) -> TensorIOError:
    """The error for a store that is not as it was."""
    return TensorIOError("changed while it was read", "a store that does not change", where=where)


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


def read(folder: str, where: str, asked: DataType | None = None) -> Metadata:
    """The metadata of an array; `asked` is the data type of elements that are stored as bytes without one."""
    version, fields = _array_in(Path(folder)) or (NEWEST, {})
    try:
        metadata = (_version_2 if version == 2 else _version_3)(fields, where)
        attributes = attributes_of(version, fields, folder)
        names = dimensions_of(version, fields, attributes)
        dtype = named(metadata.dtype, asked, where)
        metadata = metadata._replace(dtype=dtype, dimensions=names, attributes=len(attributes))
    except (KeyError, TypeError, AttributeError):
        raise FormatError("has damaged metadata", "those of a Zarr array", "fetch it again", where) from None
    sizes, chunks, shards = metadata.sizes, metadata.chunks, metadata.shards
    if not all(type(each) is int for each in (*sizes, *chunks, *shards)):
        raise FormatError("has damaged metadata", "integers for sizes and chunks", "fetch it again", where)
    require_sizes(sizes, where)
    fits = len(sizes) == len(chunks) == len(shards)
    if not fits or not all(0 < each < 1 << 63 for each in (*chunks, *shards)):
        problem = f"has the chunks {braced(chunks)[:200]}"
        raise FormatError(problem, "a size from 1 to 2^63 - 1 for each dimension", where=where)
    require_lossless(version, codecs(version, fields), metadata.dtype, where)
    return metadata


def dimensions_of(version: Version, fields: dict[str, Any], attributes: dict[str, Any]) -> tuple[str, ...]:
    """The name of each dimension of an array, "" for one without, or nothing."""
    names = fields.get("dimension_names") if version == 3 else attributes.get(DIMENSIONS)
    fits = isinstance(names, list) and len(names) == len(fields["shape"])
    words = tuple(each if isinstance(each, str) else "" for each in names) if fits and names else ()
    return words if any(words) else ()


def described(folder: Path) -> tuple[Version, dict[str, Any], dict[str, Any]]:
    """The version of an array, its metadata, and its attributes."""
    version, fields = _array_in(folder) or (NEWEST, {})
    return version, fields, attributes_of(version, fields, str(folder))


def attributes_of_group(store: str, key: str) -> dict[str, Any] | None:
    """The attributes of the group at that path inside the store; None for an array, and for what is not there.

    Any folder that is no array may have arrays in it.
    """
    folder = _folder_at(store, key)
    if folder is None or _array_in(folder):
        return None
    fields = read_object(folder / GROUP_FILES[3][0])
    return attributes_of(3 if fields else 2, fields, str(folder))


def attributes_of(version: Version, fields: dict[str, Any], folder: str) -> dict[str, Any]:
    """The attributes of an array or a group with that metadata."""
    if version == 2:
        return read_object(Path(folder, _ATTRIBUTES))
    attributes = fields.get("attributes", {})
    return attributes if isinstance(attributes, dict) else {}


def decoded(value: object) -> object:
    """A number that xarray or Zarr wrote as text; anything else as it is."""
    if not isinstance(value, str):
        return value
    with contextlib.suppress(ValueError):
        return float(value)
    with contextlib.suppress(ValueError, struct.error):
        return struct.unpack("<d", base64.b64decode(value))[0]
    return value


def codecs(version: Version, fields: dict[str, Any]) -> list[dict[str, Any]]:
    """The codecs of an array, in the order in which they encode."""
    if version == 3:
        return [_whole(each) for each in fields["codecs"]]
    return [*(fields["filters"] or []), *filter(None, [fields["compressor"]])]


def _version_2(fields: dict[str, Any], where: str) -> Metadata:
    chunks, names = tuple(fields["chunks"]), tuple(codec_names(codecs(2, fields), "id"))
    return Metadata(
        2, _dtype(fields["dtype"], where), tuple(fields["shape"]), chunks, chunks, names,
        "", str(fields.get("dimension_separator", ".")),
    )  # fmt: skip


def _whole(part: Any) -> Any:  # noqa: ANN401 - of JSON
    """A part of metadata that has a name, and may be a name alone."""
    return {"name": part} if isinstance(part, str) else part


def _version_3(fields: dict[str, Any], where: str) -> Metadata:
    kind, grid, steps = fields["data_type"], fields["chunk_grid"], codecs(3, fields)
    if grid["name"] != "regular":
        raise FormatError(f"has the chunk grid {str(grid['name'])[:80]}", "regular", where=where)
    raw = isinstance(kind, dict) and f"{kind['name']} {kind.get('configuration', {}).get('length_bytes')}"
    dtype = _TYPES.get(raw or str(kind))
    if dtype is None:
        raise FormatError(f"its data type is {str(kind)[:80]}", "that of a number, such as float32", where=where)
    shards = grid["configuration"]["chunk_shape"]
    sharding = [each["configuration"] for each in steps if each["name"] == SHARDING]
    keys = _whole(fields["chunk_key_encoding"])
    start, separator = ("", ".") if keys["name"] == "v2" else ("c", "/")
    separator = str(keys.get("configuration", {}).get("separator", separator))
    return Metadata(
        3,
        dtype,
        tuple(fields["shape"]),
        tuple(*[each["chunk_shape"] for each in sharding] or [shards]),
        tuple(shards),
        tuple(codec_names(steps, "name")),
        start and start + separator,
        separator,
    )


def _dtype(kind: object, where: str) -> np.dtype[Any]:
    try:
        dtype = np.dtype(kind if isinstance(kind, str) and len(kind) < _LONGEST_TYPE else object)
    except (TypeError, ValueError, SyntaxError):
        dtype = np.dtype(object)
    try:
        if not is_nameless(dtype):
            data_type_of(dtype)
    except FormatError as e:
        raise FormatError(f"its data type is {str(kind)[:80]}", e.wanted, where=where) from None
    return dtype


@contextlib.contextmanager
def errors_worded(where: str, doing: str) -> Iterator[None]:
    """Turn any error of zarr and of its codecs into a RevseqError about `where`; `doing` is a key of `_WANTED`."""
    try:
        yield
    except (RevseqError, *MEMORY_ENDED):
        raise
    except Exception as e:  # noqa: BLE001 - codecs raise errors of any class
        # EINVAL comes from an offset in the index of a damaged shard.
        if isinstance(e, OSError) and e.errno not in (None, errno.EINVAL):
            raise file_io.failed(where, doing, e) from None
        found = f"zarr cannot {doing} it: {str(e)[:200] or type(e).__name__}"
        raise FormatError(found, _WANTED[doing], where=where) from None
