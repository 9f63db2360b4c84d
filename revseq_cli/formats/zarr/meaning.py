"""What Zarr stores say of an array, as xarray has it in versions 2 and 3, to and from the neutral form."""

from __future__ import annotations

import base64
import re
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.core.errors import FormatError, RevseqError
from revseq_cli.formats.meaning import (
    FILL,
    MISSING,
    MOST_BYTES,
    VALID,
    Attributes,
    Meaning,
    Value,
    Variable,
    as_texts,
    is_small,
    plain,
)
from revseq_cli.formats.zarr import metadata
from revseq_cli.formats.zarr.metadata import NUMCODECS, codec_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

_TEXT_BYTES = 1 << 6  # of a text without a fixed length, as far as a header says
DIMENSIONS = "_ARRAY_DIMENSIONS"  # in version 2, an attribute has their names


def _neutral(fields: dict[str, Any]) -> tuple[Attributes, list[str]]:
    """Attributes of JSON, and the names of those that have no place in the neutral form."""
    found = {name: plain(value) for name, value in fields.items() if name != DIMENSIONS}
    return {n: v for n, v in found.items() if v is not None}, [n for n, v in found.items() if v is None]


def encoded(attributes: Attributes) -> dict[str, Any]:
    """Attributes as JSON has them."""
    return {name: _as_json(value) for name, value in attributes.items()}


def _as_json(value: Value) -> object:
    return value.tolist() if isinstance(value, (np.generic, np.ndarray)) else value


def encoded_fill(fill: Any) -> object:  # noqa: ANN401 - a NumPy number
    """A fill value as xarray has it in an attribute of version 3: of floats, eight bytes in base 64."""
    if fill.dtype.kind == "f":
        return base64.standard_b64encode(struct.pack("<d", float(fill))).decode()
    return fill.item()


def _stated(folder: Path) -> tuple[Attributes, list[str]]:
    """The attributes of an array, and the names of those that have no place in the neutral form.

    In version 2, xarray's fill value is that of the array, where a 0 is nobody's choice; in version 3 one of floats is
    eight bytes, in base 64.
    """
    version, fields, attributes = metadata.described(folder)
    neutral, lost = _neutral(attributes)
    if version == 2 and DIMENSIONS in attributes and FILL not in neutral and fields.get("fill_value"):
        neutral[FILL] = plain(fields["fill_value"])
    for name in {*MISSING, *VALID} & neutral.keys():
        neutral[name] = plain(metadata.decoded(neutral[name]))
    return neutral, lost


def meaning_of(
    store: str, key: str, found: metadata.Metadata, opened: Callable[[str], Callable[[], NDArray[Any]]]
) -> Meaning:
    """What a store says of the array at that path; `opened` gives what reads another array of numbers."""
    attributes, left = _stated(Path(store, key))
    coordinates = []
    for name, size in zip(found.dimensions, found.sizes, strict=False):
        other = f"{key.rpartition('/')[0]}/{name}".lstrip("/")
        if not name or "/" in name or not key or other == key or not metadata.holds(store, other):
            continue
        try:
            coordinate = _coordinate(store, other, size, opened)
        except RevseqError as e:
            left.append(f"the variable {name} ({e.found})")
            continue
        if coordinate:
            coordinates.append(coordinate)
        else:
            left.append(f"the variable {name}")
    parents = [*Path(key).parents][::-1] if key else []
    groups = (metadata.attributes_of_group(store, "" if str(each) == "." else each.as_posix()) for each in parents)
    plain_groups = tuple({n: v for n, v in _neutral(each or {})[0].items() if n != "coordinates"} for each in groups)
    return Meaning(found.dimensions, attributes, tuple(coordinates), plain_groups, left=tuple(left))


def _coordinate(
    store: str, key: str, size: int, opened: Callable[[str], Callable[[], NDArray[Any]]]
) -> Variable | None:
    """The coordinate of a dimension of that name and size; None for what is none, or is large."""
    folder, name = Path(store, key), key.rpartition("/")[2]
    try:
        version, fields, attributes = metadata.described(folder)
        dimensions = metadata.dimensions_of(version, fields, attributes)
        if dimensions != (name,) or fields["shape"] != [size]:
            return None
        if metadata.files_in(str(folder), name).stored > MOST_BYTES:
            return None
        if bytes_of_text := _text_bytes(version, fields):
            chunks = fields["chunks"] if version == 2 else fields["chunk_grid"]["configuration"]["chunk_shape"]
            if not is_small((size,), bytes_of_text, tuple(chunks)):
                return None
            return Variable(name, dimensions, _stated(folder)[0], _texts(str(folder), version))
        found = metadata.read(str(folder), name)
        if not is_small(found.sizes, found.dtype.itemsize, found.shards):
            return None
        return Variable(name, dimensions, _stated(folder)[0], opened(key)())
    except (KeyError, TypeError, AttributeError):
        raise FormatError("has damaged metadata") from None


def _text_bytes(version: metadata.Version, fields: dict[str, Any]) -> int:
    """The bytes of a text of an array, as far as its header says; 0 for one of numbers, or whose codecs run code."""
    codecs = {*codec_names(metadata.codecs(version, fields), "id" if version == 2 else "name")}
    kind = fields["dtype"] if version == 2 else fields["data_type"]
    if version == 2:
        if kind == "|O":
            return _TEXT_BYTES if "vlen-utf8" in codecs and codecs <= {"vlen-utf8", *NUMCODECS} else 0
        fixed = re.fullmatch(r"[<>|][US](\d{1,6})", kind)
        return 4 * int(fixed[1]) if fixed and codecs <= {*NUMCODECS} else 0
    name, settings = (kind["name"], kind.get("configuration", {})) if isinstance(kind, dict) else (kind, {})
    if not codecs <= {"vlen-utf8", "bytes", "zstd", "gzip", "blosc", "crc32c"}:
        return 0
    if name in ("fixed_length_utf32", "null_terminated_bytes"):
        return int(settings["length_bytes"])
    return _TEXT_BYTES if name == "string" else 0


def _texts(folder: str, version: metadata.Version) -> NDArray[Any]:
    """The texts of an array, which the strict store reads, as a tensor's chunks."""
    from revseq_cli.formats.zarr import store  # the package takes a while to load

    with metadata.errors_worded(folder, "read"):
        return as_texts(np.asarray(store.open_array(folder, version, "r")[(...,)]))
