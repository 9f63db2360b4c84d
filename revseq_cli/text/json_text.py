"""JSON as text: a nested list, or an object of one tensor, or of several by their keys.

The values are read as the bracket notation is, so that no digit is lost, and only the rest as JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revseq_cli.core.dtypes import describe_array, require_sizes
from revseq_cli.core.errors import FormatError, join_names
from revseq_cli.core.tensors import MOST_DIMENSIONS, DataType
from revseq_cli.text import numbers, rows
from revseq_cli.text.notation import TensorText, body_at, error_at

_WANTED = "a nested list, or an object of DataType, Sizes and Values"
_KEYS = frozenset({"DataType", "Sizes", "Values"})
# Where the values begin: of a text that is a list, and after their key. A quote inside a string has
# a \ before it.
_VALUES = re.compile(r'\s*(?=\[)|(?s:.*?)(?<!\\)"Values"\s*:\s*')
_BLANKS = re.compile(r"\s*")
_AFTER_KEY = re.compile(r"\s*:\s*")
_NO_LINE_BREAK = re.compile(r"[^\r\n]")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", re.IGNORECASE)
_LONGEST_SIZE = 25  # digits of an integer outside the values; Python refuses thousands


class NotTensorError(FormatError):
    """A JSON text that is no tensor; `keys` are those of its object that may be tensors."""

    keys: tuple[str, ...] = ()


def parse_json(text: str, key: str | None = None) -> TensorText:
    """The tensor of a JSON text, or of the value of one key of its object.

    FormatError if it is none.
    """
    if not text or text.isspace():
        raise FormatError("is empty", _WANTED)
    if key is not None:
        return _parse_member(text, key)
    values = _VALUES.match(text)
    tensor = body_at(text, values.end()) if values else None
    entries = _load_around(text, tensor)
    if tensor and not isinstance(entries, dict):
        return tensor
    if not tensor or not isinstance(entries, dict) or set(entries) - _KEYS:
        raise _refuse(text, entries)
    data_type = None
    if entries.get("DataType") is not None:
        data_type = DataType.parse(str(entries["DataType"]))
    return replace(tensor, stated=(data_type, _read_sizes(entries.get("Sizes"))))


def _load_around(text: str, tensor: TensorText | None) -> object:
    """The text as JSON, in which 0 stands for the values."""
    start = tensor.opened if tensor else 0
    stop = tensor.stop if tensor else 0
    if tensor and text.count("[", start, stop) != text.count("]", start, stop):
        _ = tensor.body  # the error says where a bracket is missing
    around = f"{text[:start]}0{text[stop:]}" if tensor else text
    try:
        return json.loads(around, object_pairs_hook=numbers.unique, parse_int=_read_integer)
    except json.JSONDecodeError as e:
        offset = e.pos
        if tensor and offset > start:
            offset += stop - start - 1
        raise error_at(text, offset, f"not JSON: {e.msg}") from None
    except RecursionError:
        raise _too_deep() from None


def _read_integer(digits: str) -> int:
    return int(digits[:_LONGEST_SIZE])


def _too_deep() -> FormatError:
    return FormatError(
        "nested too deep", f"at most {MOST_DIMENSIONS} dimensions, and 8 in DirectML"
    )


def _refuse(text: str, entries: object) -> NotTensorError:
    """The error for JSON that is no tensor."""
    if not isinstance(entries, dict) or not entries:
        return NotTensorError("is JSON but not a tensor", _WANTED)
    error = NotTensorError(
        f"is JSON but not a tensor: it has the keys {join_names(entries)}", _WANTED
    )
    members = _find_members(text)
    error.keys = tuple(key for key, (start, _) in members.items() if text[start] == "[")
    return error


def _read_sizes(sizes: object) -> tuple[int, ...] | None:
    if sizes is None:
        return None
    if not isinstance(sizes, list) or not all(map(_is_size, sizes)):
        raise FormatError("Sizes is not a list of sizes", "integers of at least 0")
    require_sizes(tuple(sizes), "")
    return tuple(sizes)


def _is_size(size: object) -> bool:
    return type(size) is int and 0 <= size < 1 << 63


def _parse_member(text: str, key: str) -> TensorText:
    """The tensor of one key; the rest of the text becomes blanks, so that positions stay."""
    if not text.lstrip().startswith("{"):
        raise FormatError(f"has no key {key[:80]!r}", "an object with keys")
    members = _find_members(text)
    if key not in members:
        raise FormatError(f"has no key {key[:80]!r}", f"one of {join_names(members)}")
    start, stop = members[key]
    before = _NO_LINE_BREAK.sub(" ", text[:start])
    member = before + text[start:stop]
    tensor = parse_json(member) if text[start] in '[{"' else body_at(member, start)  # a number
    others = tuple(name for name in members if name != key)
    return replace(tensor, page=text, others=others)


def _find_members(text: str) -> dict[str, tuple[int, int]]:
    """Where the value of each key of the outer object begins and ends.

    FormatError for what is not JSON.
    """
    decoder = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)
    members: list[tuple[str, tuple[int, int]]] = []
    offset = _skip(_BLANKS, text, text.index("{") + 1)
    try:
        while text[offset : offset + 1] not in ("}", ""):
            key, offset = decoder.raw_decode(text, offset)
            start = _skip(_AFTER_KEY, text, offset)
            _, offset = decoder.raw_decode(text, start)
            members.append((str(key), (start, offset)))
            offset = _skip(_BLANKS, text, offset)
            if text[offset : offset + 1] == ",":
                offset = _skip(_BLANKS, text, offset + 1)
    except json.JSONDecodeError as e:
        raise error_at(text, e.pos, f"not JSON: {e.msg}") from None
    except RecursionError:
        raise _too_deep() from None
    return numbers.unique(members)


def _skip(
    pattern: re.Pattern[str],
    text: str,
    offset: int,
) -> int:
    match = pattern.match(text, offset)
    return match.end() if match else offset


def write(values: NDArray[Any]) -> str:
    """The JSON object of a tensor, a row a line; what JSON has no number for is a string."""
    desc = describe_array(values)
    head = f'{{"DataType": "{desc.data_type.name}", "Sizes": {list(desc.sizes)}, "Values":\n'
    as_texts: Callable[[NDArray[Any]], list[str]] = _quote_special
    return head + rows.put_brackets(rows.make_rows(values, as_texts), desc.sizes) + "}"


def _quote_special(values: NDArray[Any]) -> list[str]:
    texts = numbers.render_numbers(values)
    if values.dtype.kind in "fiub":
        for i in np.flatnonzero(~np.isfinite(values)).tolist():
            texts[i] = f'"{texts[i]}"'
        return texts
    return [text if _NUMBER.fullmatch(text) else f'"{text}"' for text in texts]
