"""Which codecs of Zarr give back every bit, and with which configurations; all others are refused by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.ground.errors import FormatError, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    # From the configuration of a codec and the dtype of what it encodes to the dtype of what it makes, or None where it
    # may lose something.
    Rule = Callable[[dict[str, Any], np.dtype[Any]], np.dtype[Any] | None]

SHARDING = "sharding_indexed"
PREFIX = "numcodecs."  # of their names in version 3
_LONGEST_TYPE = 16


def _keep(_: dict[str, Any], dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Of codecs that take any bytes."""
    return dtype


def _delta(fields: dict[str, Any], dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """Differences of integers wrap around, and their sums back; those of floats are rounded."""
    stored = _type(fields.get("astype") or fields["dtype"])
    return stored if _type(fields["dtype"]) == dtype and dtype.kind != "b" and _widens(dtype, stored) else None


def _astype(fields: dict[str, Any], dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """Between integers alone: a conversion of floats makes every signalling NaN a quiet one."""
    stored = _type(fields["encode_dtype"])
    return stored if _type(fields.get("decode_dtype") or dtype.str) == dtype and _widens(dtype, stored) else None


def _packbits(_: dict[str, Any], dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    return np.dtype(np.uint8) if dtype.kind == "b" else None


def _widens(dtype: np.dtype[Any], stored: np.dtype[Any]) -> bool:
    """Whether every value of the integers or truth values `dtype` is one of `stored`."""
    return {dtype.kind, stored.kind} <= set("iub") and np.can_cast(dtype, stored, "safe")


def _type(text: object) -> np.dtype[Any]:
    """The dtype of that name; ValueError or TypeError for anything else."""
    if not isinstance(text, str) or len(text) > _LONGEST_TYPE:
        raise ValueError
    return np.dtype(text)


# The codecs of the package numcodecs that may lose nothing.
NUMCODECS: dict[str, Rule] = {
    **dict.fromkeys(("blosc", "bz2", "gzip", "zlib", "lz4", "lzma", "zstd", "shuffle", "base64"), _keep),
    **dict.fromkeys(("crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3"), _keep),  # checksums
    "delta": _delta, "astype": _astype, "packbits": _packbits,
}  # fmt: skip
_RULES: dict[int, dict[str, Rule]] = {
    2: NUMCODECS,
    3: {
        **dict.fromkeys(("bytes", "transpose", "gzip", "zstd", "blosc", "crc32c", SHARDING), _keep),
        **{f"{PREFIX}{name}": rule for name, rule in NUMCODECS.items()},
    },
}
# The other codecs of numcodecs and zarr, and why each is refused.
_OBJECTS, _ROUNDED = "is about texts and objects, not numbers", "rounds"
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
    rules, key = _RULES[version], "id" if version == 2 else "name"
    for codec in codecs:
        name = str(codec[key])
        fields = codec if version == 2 else codec.get("configuration") or {}
        if name == SHARDING:
            require_lossless(version, fields["codecs"], dtype, where)
            require_lossless(version, fields["index_codecs"], np.dtype(np.uint64), where)
            continue
        known = f"codecs that lose nothing: {listed(rules, len(rules))}"
        if name not in rules:
            why = REFUSED.get(name.removeprefix(PREFIX), "")
            hint = "write the array anew with one of these"
            raise FormatError(f"has the codec {name[:80]}{why and f', which {why}'}", known, hint, where)
        try:
            made = rules[name](fields, dtype)
        except (KeyError, ValueError, TypeError, SyntaxError):
            made = None
        if made is None:
            found = f"has the codec {name}, which may lose something of {dtype} as it is configured"
            raise FormatError(found, "integers of that type, kept as such of the same or a wider type", where=where)
        dtype = made
