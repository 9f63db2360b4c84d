"""JSON as text: a nested list, or an object of one tensor, or of several by their keys.

The values are read as the bracket notation is, so that no digit is lost, and only the rest as JSON.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revseq_cli.core.dtypes import describe_array, require_sizes
from revseq_cli.core.errors import FormatError, join_names
from revseq_cli.core.tensors import MOST_DIMENSIONS, DataType
from revseq_cli.text import numbers, rows
from revseq_cli.text.json_objects import make_object
from revseq_cli.text.notation import body_at
from revseq_cli.text.positions import error_at
from revseq_cli.text.tensor_text import TensorText

_WANTED = "a nested list, or an object of DataType, Sizes and Values"
_KEYS = frozenset({"DataType", "Sizes", "Values"})
# What is before the values: nothing in a text that is a list, or else all up to their key. A quote
# inside a string has a \ before it.
_BEFORE_VALUES = re.compile(r'\s*(?=\[)|(?s:.*?)(?<!\\)"Values"\s*:\s*')
_BLANKS = re.compile(r"\s*")
_AFTER_KEY = re.compile(r"\s*:\s*")
_AFTER_VALUE = re.compile(r"\s*(?:,\s*)?")
_NO_LINE_BREAK = re.compile(r"[^\r\n]")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", re.IGNORECASE)
_LONGEST_SIZE = 25  # digits of an integer outside the values; Python refuses thousands


class NotTensorError(FormatError):
    """A JSON text that is not a tensor; `keys` are those of its object that may be tensors."""

    def __init__(self, found: str, expected: str = "", keys: Sequence[str] = ()) -> None:
        super().__init__(found, expected)
        self.keys = tuple(keys)


def parse_json(text: str, key: str | None = None) -> TensorText:
    """The tensor of a JSON text, or of the value of one key of its object.

    FormatError if it is none.
    """
    if not text or text.isspace():
        raise FormatError("is empty", _WANTED)
    if key is not None:
        return _parse_member(text, key)
    before = _BEFORE_VALUES.match(text)
    if not before:
        raise _refuse(text, _load(text))
    values = body_at(text, before.end())
    entries = _load(text, values)
    if not isinstance(entries, dict):  # the text is only the values
        return values
    if set(entries) - _KEYS:
        raise _refuse(text, entries)
    data_type = None
    if entries.get("DataType") is not None:
        data_type = DataType.parse(str(entries["DataType"]))
    sizes = _read_sizes(entries.get("Sizes"))
    return replace(values, stated_type=data_type, stated_sizes=sizes)


def _load(text: str, values: TensorText | None = None) -> object:
    """The text as JSON; 0 stands for its values, as in {"Values": 0, "Sizes": [2]}."""
    around = text
    if values:
        start = values.body_start
        stop = values.body_stop
        if text.count("[", start, stop) != text.count("]", start, stop):
            values.parse_body()  # its error says where a bracket is missing
        around = f"{text[:start]}0{text[stop:]}"
    with _errors_in(text, values):
        return json.loads(around, object_pairs_hook=make_object, parse_int=_read_integer)


def _read_integer(digits: str) -> int:
    return int(digits[:_LONGEST_SIZE])


@contextlib.contextmanager
def _errors_in(text: str, values: TensorText | None = None) -> Iterator[None]:
    """Turn errors of Python's parser into errors about the text, in which it got 0 for values."""
    try:
        yield
    except json.JSONDecodeError as e:
        offset = e.pos
        if values and offset > values.body_start:
            offset += values.body_stop - values.body_start - len("0")
        raise error_at(text, offset, f"not JSON: {e.msg}") from None
    except RecursionError:
        expected = f"at most {MOST_DIMENSIONS} dimensions, and 8 in DirectML"
        raise FormatError("nested too deep", expected) from None


def _refuse(text: str, entries: object) -> NotTensorError:
    """The error for JSON that is not a tensor."""
    if not isinstance(entries, dict) or not entries:
        return NotTensorError("is JSON but not a tensor", _WANTED)
    members = _find_members(text)
    keys = [key for key, part in members.items() if text[part.start] == "["]
    found = f"is JSON but not a tensor: it has the keys {join_names(entries)}"
    return NotTensorError(found, _WANTED, keys)


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
    part = members[key]
    member = _NO_LINE_BREAK.sub(" ", text[: part.start]) + text[part]
    if text[part.start] in '[{"':
        tensor = parse_json(member)
    else:  # a number
        tensor = body_at(member, part.start)
    others = tuple(name for name in members if name != key)
    return replace(tensor, page=text, others=others)


def _find_members(text: str) -> dict[str, slice]:
    """Where the value of each key of the outer object is; FormatError for what is not JSON."""
    decoder = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)
    members: list[tuple[str, slice]] = []
    offset = _skip(_BLANKS, text, text.index("{") + 1)
    with _errors_in(text):
        while text[offset : offset + 1] not in ("}", ""):
            key, offset = decoder.raw_decode(text, offset)
            start = _skip(_AFTER_KEY, text, offset)
            _, stop = decoder.raw_decode(text, start)
            members.append((str(key), slice(start, stop)))
            offset = _skip(_AFTER_VALUE, text, stop)
    return make_object(members)


def _skip(pattern: re.Pattern[str], text: str, offset: int) -> int:
    """The offset after what the pattern matches there, if it does."""
    match = pattern.match(text, offset)
    return match.end() if match else offset


def write_json(values: NDArray[Any]) -> str:
    """The JSON object of a tensor, a row a line; what JSON has no number for is a string."""
    desc = describe_array(values)
    head = f'{{"DataType": "{desc.data_type.name}", "Sizes": {list(desc.sizes)}, "Values":\n'
    return head + rows.put_brackets(rows.make_rows(values, _render_json), desc.sizes) + "}"


def _render_json(values: NDArray[Any]) -> list[str]:
    """Each value as a number of JSON, or else as a string."""
    texts = numbers.render_numbers(values)
    if values.dtype.kind in "fiub":
        for i in np.flatnonzero(~np.isfinite(values)).tolist():
            texts[i] = f'"{texts[i]}"'
        return texts
    return [text if _NUMBER.fullmatch(text) else f'"{text}"' for text in texts]
