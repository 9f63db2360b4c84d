"""The metadata of Zarr arrays, versions 2 and 3, and the attributes of arrays and groups.

Arrays are refused unless they hold plain numbers, in regular chunks, encoded by codecs that lose
nothing and unpickle nothing.
"""

from __future__ import annotations

import base64
import contextlib
import struct
from collections.abc import Iterable
from math import prod
from typing import Any, NamedTuple

import numpy as np

from revseq_cli.core.dtypes import as_typed, data_type_of, dtype_of, require_sizes
from revseq_cli.core.errors import DataTypeError, FormatError
from revseq_cli.core.tensors import DataType, in_braces
from revseq_cli.formats.attributes import FILL, MISSING, VALID, Attributes, as_neutral
from revseq_cli.formats.zarr.store import Version, ZarrNode

DIMENSIONS = "_ARRAY_DIMENSIONS"  # the attribute with their names in version 2, by xarray
_FEW_CHUNKS = 64  # the most chunks that are looked for, until one is there
_LONGEST_TYPE = 16  # characters of a dtype

# The codecs that lose nothing, by their names in both versions: those that compress, others of zarr
# itself and of numcodecs, and checksums.
_COMPRESSORS = {"blosc", "bz2", "gzip", "zlib", "lz4", "lzma", "zstd"}
_LOSSLESS = {
    *_COMPRESSORS, "bytes", "transpose", "shuffle", "base64",
    "crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3",
}  # fmt: skip
_PACKBITS = "packbits"  # it stores eight booleans in a byte, and is lossless only for these
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
# The letter of a dtype of texts, and the bytes of a character.
_TEXT_TYPES = {"fixed_length_utf32": ("U", 4), "null_terminated_bytes": ("S", 1)}
_TIME_TYPES = {"numpy.datetime64": "M8", "numpy.timedelta64": "m8"}


class ArrayMetadata(NamedTuple):
    """The metadata of an array.

    `chunks` are the sizes of what is decoded at once, and `shards` those of what is in one file.
    The name of such a file in the folder of the array is its numbers joined by `separator`, after a
    first part "c" if it `starts_with_c`: "c/0/3" or "0.3". `dimensions` are the names of
    dimensions, "" for one without a name, or empty.
    """

    version: Version
    dtype: np.dtype[Any]
    sizes: tuple[int, ...]
    chunks: tuple[int, ...]
    shards: tuple[int, ...]
    codecs: tuple[str, ...]
    starts_with_c: bool
    separator: str
    dimensions: tuple[str, ...]

    @property
    def details(self) -> dict[str, str]:
        """How the array is stored, in words: its chunks and codecs."""
        return {"chunks": str(self.chunks), "codecs": ", ".join(self.codecs)}

    @property
    def is_compressed(self) -> bool:
        """Whether any codec makes chunks smaller: shuffles, checksums and shards do not."""
        names = {name.removeprefix(_PREFIX) for name in self.codecs}
        return not names.isdisjoint({*_COMPRESSORS, _PACKBITS})

    @property
    def counts(self) -> list[int]:
        """The number of chunks or shards along each dimension."""
        return [-(-size // shard) for size, shard in zip(self.sizes, self.shards, strict=True)]

    @property
    def _scalar_name(self) -> str:
        """The name of the only chunk of an array without dimensions."""
        return "c" if self.starts_with_c else "0"

    def chunk_names(self) -> list[str]:
        """The names in the array's folder of up to 64 chunks or shards, spread over all of them."""
        if not self.sizes:
            return [self._scalar_name]
        count = prod(self.counts)
        if not count:
            return []
        steps = max(1, min(count, _FEW_CHUNKS) - 1)
        # From the first chunk, at step 0, to the last one.
        numbers = {step * (count - 1) // steps for step in range(steps + 1)}
        start = ["c"] if self.starts_with_c else []
        names = []
        for number in sorted(numbers):
            indices = np.unravel_index(number, self.counts)
            names.append(self.separator.join([*start, *map(str, indices)]))
        return names

    def is_chunk(self, name: str, separator: str = "") -> bool:
        """Whether a path in the array's folder is that of a chunk or shard.

        `separator` replaces that of the metadata.
        """
        if not self.sizes:
            return name == self._scalar_name
        parts = name.split(separator or self.separator)
        if self.starts_with_c:
            if parts[0] != "c":
                return False
            parts = parts[1:]
        if len(parts) != len(self.sizes):
            return False
        return all(map(_is_index, parts, self.counts))


def _is_index(text: str, count: int) -> bool:
    """Whether a text is a number below `count`, as Zarr writes it: without zeros before it."""
    if not text.isascii() or not text.isdecimal():
        return False
    number = int(text)
    return str(number) == text and number < count


def read_metadata(
    node: ZarrNode, where: str, asked: DataType | None = None, *, texts: bool = False
) -> ArrayMetadata:
    """The metadata of an array of numbers, or with `texts` also of texts and times.

    FormatError for other arrays. `asked` is the data type of elements that are stored as bytes
    without one.
    """
    try:
        fields = _read_fields_2(node) if node.version == 2 else _read_fields_3(node, where)
        numbers = (*fields.sizes, *fields.chunks, *fields.shards)
        if not all(type(number) is int for number in numbers):
            raise TypeError
        dtype = fields.dtype
        is_text = texts and dtype.kind in "USOmM"
        if not is_text:
            dtype = _require_tensor_type(dtype, fields.kind, asked, where)
        require_sizes(fields.sizes, where)
        _require_chunks(fields, where)
        lossless = {*_LOSSLESS, _TEXTS} if is_text else _LOSSLESS
        codecs = _require_lossless(fields.codecs, dtype, lossless, where)
    except (KeyError, TypeError, AttributeError):
        expected = "those of a Zarr array"
        raise FormatError("has damaged metadata", expected, "fetch it again", where) from None
    if dtype.kind == "O" and _TEXTS not in codecs:
        raise FormatError(f"its texts are not in {_TEXTS}", where=where)
    return ArrayMetadata(
        node.version,
        dtype,
        fields.sizes,
        fields.chunks,
        fields.shards,
        tuple(codecs),
        fields.starts_with_c,
        fields.separator,
        _dimensions_of(fields.names, len(fields.sizes)),
    )


# The fields of both versions


class _Codec(NamedTuple):
    """A codec by its name and the fields of its configuration."""

    name: str
    fields: dict[str, Any]


class _Fields(NamedTuple):
    """The fields of an array's metadata that both versions have, of which nothing is checked yet.

    `kind` is the data type as it is in JSON, and `names` are those of the dimensions. The others
    are as in ArrayMetadata.
    """

    kind: Any
    dtype: np.dtype[Any]
    sizes: tuple[Any, ...]
    chunks: tuple[Any, ...]
    shards: tuple[Any, ...]
    codecs: list[_Codec]
    names: Any
    starts_with_c: bool
    separator: str


def _read_fields_2(node: ZarrNode) -> _Fields:
    fields = node.fields
    chunks = tuple(fields["chunks"])
    codecs = [*(fields["filters"] or [])]
    if fields["compressor"]:
        codecs.append(fields["compressor"])
    return _Fields(
        fields["dtype"],
        _dtype_of_2(fields["dtype"]),
        tuple(fields["shape"]),
        chunks,
        chunks,
        [_Codec(str(codec["id"]), codec) for codec in codecs],
        node.attributes.get(DIMENSIONS),
        starts_with_c=False,
        separator=str(fields.get("dimension_separator", ".")),
    )


def _read_fields_3(node: ZarrNode, where: str) -> _Fields:
    fields = node.fields
    grid = fields["chunk_grid"]
    if grid["name"] != "regular":
        raise FormatError(f"has the chunk grid {str(grid['name'])[:80]}", "regular", where=where)
    shards = tuple(grid["configuration"]["chunk_shape"])
    codecs = _codecs_of_3(map(_with_name, fields["codecs"]))
    chunks = shards
    for codec in codecs:
        if codec.name == _SHARDING:
            chunks = tuple(codec.fields["chunk_shape"])
            break
    encoding = _with_name(fields["chunk_key_encoding"])
    starts_with_c = encoding["name"] != "v2"
    usual = "/" if starts_with_c else "."
    return _Fields(
        fields["data_type"],
        _dtype_of_3(fields["data_type"]),
        tuple(fields["shape"]),
        chunks,
        shards,
        codecs,
        fields.get("dimension_names"),
        starts_with_c,
        separator=str(encoding.get("configuration", {}).get("separator", usual)),
    )


def _codecs_of_3(codecs: Iterable[Any]) -> list[_Codec]:
    return [_Codec(str(codec["name"]), codec.get("configuration") or {}) for codec in codecs]


def _with_name(part: Any) -> Any:  # noqa: ANN401 - of JSON
    """A part of metadata that has a name, and may be only a name."""
    return {"name": part} if isinstance(part, str) else part


def _dimensions_of(names: Any, count: int) -> tuple[str, ...]:  # noqa: ANN401 - of JSON
    """The names of that many dimensions, "" for one without; none where no dimension has one."""
    if not isinstance(names, list) or len(names) != count:
        return ()
    dimensions = tuple(name if isinstance(name, str) else "" for name in names)
    return dimensions if any(dimensions) else ()


# Data types


def _dtype_of_2(kind: Any) -> np.dtype[Any]:  # noqa: ANN401 - of JSON
    """The dtype of a data type; that of Python's objects for one that no tensor has."""
    if not isinstance(kind, str) or len(kind) >= _LONGEST_TYPE:
        return np.dtype(object)
    try:
        return np.dtype(kind)
    except (TypeError, ValueError, SyntaxError):
        return np.dtype(object)


def _dtype_of_3(kind: Any) -> np.dtype[Any]:  # noqa: ANN401 - of JSON
    """The dtype of a data type; that of Python's objects for one that no tensor has."""
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
    key = name if size is None else f"{name} {size}"
    return _TYPES.get(key, np.dtype(object))


def _require_tensor_type(
    dtype: np.dtype[Any],
    kind: Any,  # noqa: ANN401 - of JSON
    asked: DataType | None,
    where: str,
) -> np.dtype[Any]:
    """The dtype of numbers, or of bytes that have the data type `asked`; FormatError for others."""
    dtype = as_typed(dtype, asked, where)
    try:
        data_type_of(dtype)
    except FormatError as e:
        raise DataTypeError(str(kind)[:80], e.expected, e.hint, where) from None
    return dtype


def _require_chunks(fields: _Fields, where: str) -> None:
    """FormatError for an unknown separator, and for chunks that no array of the shape can have."""
    if fields.separator not in (".", "/"):
        found = f"has the separator {fields.separator[:80]!r} between the numbers of chunks"
        raise FormatError(found, "one of . and /", where=where)
    has_all = len(fields.sizes) == len(fields.chunks) == len(fields.shards)
    numbers = (*fields.chunks, *fields.shards)
    if has_all and all(0 < number < 1 << 63 for number in numbers):
        return
    expected = "a size from 1 to 2^63 - 1 for each dimension"
    raise FormatError(f"has the chunks {in_braces(fields.chunks)[:200]}", expected, where=where)


# Codecs


def _require_lossless(
    codecs: list[_Codec], dtype: np.dtype[Any], lossless: set[str], where: str
) -> list[str]:
    """The names of codecs, also inside shards; FormatError for one that may change elements.

    `lossless` are the names of those that never do.
    """
    names = []
    for codec in codecs:
        names.append(codec.name)
        if codec.name == _SHARDING:
            inner = _codecs_of_3(codec.fields["codecs"])
            of_index = _codecs_of_3(codec.fields["index_codecs"])
            names += _require_lossless(inner, dtype, lossless, where)
            names += _require_lossless(of_index, np.dtype(np.uint64), lossless, where)
            continue
        is_always_lossless = codec.name.removeprefix(_PREFIX) in lossless
        if not is_always_lossless and not _is_lossless_for(dtype, codec):
            found = f"has the codec {codec.name[:80]}, which may change values of {dtype}"
            hint = "write the array again with one of these"
            expected = "lossless codecs, such as zstd, gzip, blosc or shuffle"
            raise FormatError(found, expected, hint, where)
    return names


def _is_lossless_for(dtype: np.dtype[Any], codec: _Codec) -> bool:
    """Whether a codec that is lossless only for some types keeps elements of this one."""
    name = codec.name.removeprefix(_PREFIX)
    if name == _PACKBITS:
        return dtype.kind == "b"
    if name != "delta" or dtype.kind not in "iu":
        return False
    # Differences of integers wrap around, and their sums back; those of floats are rounded.
    own_type = codec.fields.get("dtype")
    stored_type = codec.fields.get("astype")
    if stored_type is None:
        stored_type = own_type
    return bool(own_type == stored_type == dtype.str)


# Attributes


def attributes_of(node: ZarrNode) -> tuple[Attributes, list[str]]:
    """The attributes of an array or a group, and the names of those that the neutral form lacks.

    xarray stores its attribute _FillValue in two ways. In version 2 it is the array's own
    `fill_value`, unless that is 0, the default. In version 3 it is an attribute; for floats, its
    value is eight bytes in base 64.
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
        value = attributes[name]
        if isinstance(value, str):
            attributes[name] = _number_in(value)
    return attributes, lost


def _number_in(text: str) -> Any:  # noqa: ANN401 - a NumPy number, or the text
    """The number that a text holds, in digits or in base 64; the text if it holds none."""
    with contextlib.suppress(ValueError):
        return as_neutral(float(text))
    with contextlib.suppress(ValueError, struct.error):
        return as_neutral(struct.unpack("<d", base64.b64decode(text))[0])
    return text
