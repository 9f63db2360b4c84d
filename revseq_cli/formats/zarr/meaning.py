"""What Zarr stores say of an array, as xarray has it in versions 2 and 3, to and from the neutral form."""

from __future__ import annotations

import base64
import functools
import struct
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.core.errors import RevseqError
from revseq_cli.formats.meaning import (
    FILL,
    TEXT_BYTES,
    Attributes,
    Meaning,
    Variable,
    as_fill,
    as_json,
    gathered,
    is_small,
    plain,
)
from revseq_cli.formats.zarr import metadata
from revseq_cli.formats.zarr.metadata import NUMCODECS, codec_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

DIMENSIONS = "_ARRAY_DIMENSIONS"  # in version 2, an attribute has their names


def _neutral(fields: dict[str, Any]) -> tuple[Attributes, list[str]]:
    """Attributes of JSON, and the names of those that have no place in the neutral form."""
    found = {name: plain(value) for name, value in fields.items() if name != DIMENSIONS}
    return {n: v for n, v in found.items() if v is not None}, [n for n, v in found.items() if v is None]


def encoded(attributes: Attributes) -> dict[str, Any]:
    """Attributes as JSON has them."""
    return {name: as_json(value) for name, value in attributes.items()}


def encoded_fill(fill: Any) -> object:  # noqa: ANN401 - a NumPy number
    """A fill value as xarray has it in an attribute of version 3: of floats, eight bytes in base 64."""
    if fill.dtype.kind == "f":
        return base64.standard_b64encode(struct.pack("<d", float(fill))).decode()
    return fill.item()


def _fill_of(stated: Attributes, dtype: np.dtype[Any]) -> Any:  # noqa: ANN401 - a NumPy number, or None
    """The fill value in an attribute, or None."""
    value = stated.get(FILL)
    return as_fill(metadata.decoded(value) if isinstance(value, str) else value, dtype)


def _stated(folder: Path, dtype: np.dtype[Any]) -> tuple[Attributes, Any, list[str]]:
    """The attributes of an array, its fill value, and the names of attributes without a place in the neutral form.

    In version 2, xarray's fill value is that of the array.
    """
    version, fields, attributes = metadata.described(folder)
    neutral, lost = _neutral(attributes)
    if version == 2 and DIMENSIONS in attributes and FILL not in neutral and fields.get("fill_value") is not None:
        neutral[FILL] = plain(metadata.decoded(fields["fill_value"]))
    fill = _fill_of(neutral, dtype)
    lost += [FILL] * (neutral.pop(FILL, None) is not None and fill is None)
    return neutral, fill, lost


def meaning_of(
    store: str, key: str, found: metadata.Metadata, opened: Callable[[str], Callable[[], NDArray[Any]]]
) -> Meaning:
    """What a store says of the array at that path; `opened` gives what reads another array of numbers."""
    own_name = key.rpartition("/")[2]
    attributes, fill, lost = _stated(Path(store, key), found.dtype)

    def find(word: str) -> Variable | None:
        other = f"{key.rpartition('/')[0]}/{word}".lstrip("/")
        return (
            None if "/" in word or not own_name or not metadata.holds(store, other) else _variable(store, other, opened)
        )

    given = ({} if fill is None else {FILL: fill}) | attributes
    attributes, variables = gathered(Variable(own_name, found.dimensions, attributes, 0, lambda: np.empty(0)), find)
    parents = [*Path(key).parents][::-1] if key else []
    groups = (metadata.attributes_of_group(store, "" if str(each) == "." else each.as_posix()) for each in parents)
    plain_groups = tuple({n: v for n, v in _neutral(each or {})[0].items() if n != "coordinates"} for each in groups)
    return Meaning(found.dimensions, attributes, fill, variables, plain_groups, given, tuple(lost))


def _variable(store: str, key: str, opened: Callable[[str], Callable[[], NDArray[Any]]]) -> Variable | None:
    """An array that goes with a tensor; None for what is neither numbers nor text, or large."""
    folder, name = Path(store, key), key.rpartition("/")[2]
    version, fields, attributes = metadata.described(folder)
    try:
        dimensions = metadata.dimensions_of(version, fields, attributes)
        if _is_text(version, fields):
            read: Callable[[], NDArray[Any]] = functools.partial(_texts, str(folder), version)
            return Variable(name, dimensions, _neutral(attributes)[0], prod(fields["shape"]) * TEXT_BYTES, read)
        found = metadata.read(str(folder), name)
        if not is_small(found.sizes, found.dtype.itemsize):
            return None
        neutral, fill, _ = _stated(folder, found.dtype)
        stated = neutral | ({} if fill is None else {FILL: fill})
        return Variable(name, dimensions, stated, prod(found.sizes) * found.dtype.itemsize, opened(key))
    except (RevseqError, KeyError, TypeError, AttributeError):  # damage matters where it is asked for
        return None


def _is_text(version: metadata.Version, fields: dict[str, Any]) -> bool:
    """Whether an array holds text, by codecs that run no code; and whether it is small, as far as its header says."""
    if not is_small(tuple(fields["shape"]), TEXT_BYTES):
        return False
    if version == 3:
        kind = fields["data_type"]
        is_text = (kind["name"] if isinstance(kind, dict) else kind) in ("string", "fixed_length_utf32")
        return is_text and {*codec_names(metadata.codecs(3, fields), "name")} <= {
            "vlen-utf8",
            "bytes",
            "zstd",
            "gzip",
            "blosc",
            "crc32c",
        }
    names = {*codec_names(metadata.codecs(2, fields), "id")}
    return fields["dtype"] == "|O" and "vlen-utf8" in names and names <= {"vlen-utf8", *NUMCODECS}


def _texts(folder: str, version: metadata.Version) -> NDArray[Any]:
    from revseq_cli.formats.zarr import store  # the package takes a while to load

    array = store.open_array(folder, version, "r")
    values = np.asarray(array[(...,)])
    return np.array([*map(str, values.reshape(-1))], object).reshape(values.shape)
