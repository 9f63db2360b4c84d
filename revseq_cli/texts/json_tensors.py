"""Tensors in JSON: a nested list of numbers, or an object of DataType, Sizes and Values, parsed exactly and printed.

JSON has no word for NaN and infinities: they are strings. When a text is read, bare words are taken, too.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.ground.dtypes import require_sizes
from revseq_cli.ground.errors import FormatError, listed
from revseq_cli.ground.tensors import MOST_DIMENSIONS, DataType, TensorDesc, braced
from revseq_cli.texts import literals, places, printing

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

_WANTED = "a nested list, or an object of DataType, Sizes and Values"
_WANTED_DEPTH = f"at most {MOST_DIMENSIONS} dimensions, and 8 in DirectML"
_WORDS = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}


class _Number(str):
    """A number of a JSON text, as it is written there."""

    __slots__ = ()


class _WordsNeededError(Exception):
    """A number is not exact as Python reads it, so that it matters how it is written."""


@dataclass(frozen=True)
class JsonTensor:
    """A tensor of a JSON text: its entries Values, and perhaps DataType and Sizes, which are not checked yet."""

    text: str
    entries: dict[str, object]

    @property
    def data_type(self) -> DataType | None:
        """The data type that the text states, if it does; UsageError for one that does not exist."""
        return DataType.parse(str(self.entries["DataType"])) if self.entries.get("DataType") is not None else None

    def values(self, data_type: DataType, dtype: np.dtype[Any]) -> NDArray[Any]:
        """The values, as an array of the tensor's sizes and of `dtype`, which is that of `data_type`.

        FormatError, with an index, for what is no tensor, or a number that the data type cannot hold.
        """
        try:
            values = _values(self.entries["Values"], data_type, dtype)
        except _WordsNeededError:
            return _parsed(self.text, as_written=True).values(data_type, dtype)
        sizes = _sizes(self.entries["Sizes"]) if "Sizes" in self.entries else values.shape
        if values.ndim == 1 and values.size == TensorDesc(data_type, sizes).element_count:
            values = values.reshape(sizes)
        if values.shape != sizes:
            found = f"its Values have Sizes {braced(values.shape)}, and Sizes says {braced(sizes)}"
            raise FormatError(found, "nested lists of these sizes, or one flat list")
        return values


def parse(text: str) -> JsonTensor:
    """The tensor of a JSON text; FormatError for what is none."""
    try:
        return _parsed(text, as_written=literals.needs_care(text))
    except _WordsNeededError:
        return _parsed(text, as_written=True)


def _parsed(text: str, *, as_written: bool) -> JsonTensor:
    """The tensor, with numbers as Python reads them, or as they are written, which takes longer."""
    if not text or text.isspace():
        raise FormatError("is empty", _WANTED)
    number = _Number if as_written else None
    try:
        root = load(text, text, _WANTED_DEPTH, number, number, _WORDS.__getitem__)
    except FormatError:
        raise
    except ValueError:  # Python refuses thousands of digits
        raise _WordsNeededError from None
    if isinstance(root, list):
        root = {"Values": root}
    if not isinstance(root, dict) or "Values" not in root or set(root) - {"DataType", "Sizes", "Values"}:
        keys = f" with {listed(root)}" if isinstance(root, dict) else ""
        raise FormatError(f"is JSON, but not a tensor{keys}", _WANTED)
    return JsonTensor(text, root)


def load(
    text: str,
    plain: str,
    wanted_depth: str,
    parse_int: Callable[[str], Any] | None,
    parse_float: Callable[[str], Any] | None,
    parse_constant: Callable[[str], Any],
) -> object:
    """The JSON of `plain`, with the hooks of json.loads; FormatError for what is no JSON, and for a key given twice.

    `plain` is `text`, perhaps with blanks for comments: messages show the place in `text`. ValueError for an integer
    of thousands of digits, unless `parse_int` takes it.
    """
    try:
        return json.loads(
            plain, parse_int=parse_int, parse_float=parse_float, parse_constant=parse_constant,
            object_pairs_hook=literals.unique,
        )  # fmt: skip
    except json.JSONDecodeError as e:
        raise places.error_at(text, e.pos, f"is not JSON: {e.msg}") from None
    except RecursionError:
        raise FormatError("is nested too deep", wanted_depth) from None


def shown(entry: object) -> str:
    """An entry as it is written in the text, cut to 40 characters."""
    return str(entry)[:40] if isinstance(entry, _Number) else json.dumps(entry)[:40]


def _sizes(sizes: object) -> tuple[int, ...]:
    # 20 digits are more than any size has; int() refuses more than 4,300.
    if isinstance(sizes, list) and all(
        isinstance(s, int | _Number) and str(s).isdecimal() and len(str(s)) < 20 for s in sizes
    ):
        numbers = tuple(map(int, sizes))
        require_sizes(numbers, "")
        return numbers
    raise FormatError("Sizes is not a list of sizes", "integers of at least 0")


def _values(nested: object, data_type: DataType, dtype: np.dtype[Any]) -> NDArray[Any]:
    """A nested list as an array of its own sizes."""
    level: Any = [nested]
    sizes: list[int] = []
    while level and isinstance(level[0], list):
        _require_row(level, sizes)
        sizes.append(len(level[0]))
        level = list(itertools.chain.from_iterable(level))
        if len(sizes) > MOST_DIMENSIONS:
            raise FormatError("is nested too deep", _WANTED_DEPTH)
    flat = literals.from_json(level, dtype, data_type.name) if level else np.empty(0, dtype)
    if flat is not None:
        return flat.reshape(sizes)
    kinds = set(map(type, level))
    if float in kinds or kinds == {int}:
        raise _WordsNeededError
    try:
        if kinds != {_Number}:
            level = [_token(i, entry, sizes) for i, entry in enumerate(level)]
        return literals.parse(level, dtype, data_type.name).reshape(sizes)
    except literals.LiteralError as e:
        raise FormatError(f"at {_index(e.index, sizes)}: {e.problem}") from None


def _token(i: int, entry: object, sizes: list[int]) -> str:
    """A number as text; of strings, only those for NaN and infinities are numbers."""
    if type(entry) is int or isinstance(entry, _Number) or (isinstance(entry, str) and literals.is_special(entry)):
        return str(entry)
    raise FormatError(f"{shown(entry)} at {_index(i, sizes)} is not a number")


def _require_row(level: list[list[object]], sizes: list[int]) -> None:
    """Raise FormatError unless all entries of one depth are lists as long as the first."""
    for i, row in enumerate(level):
        if not isinstance(row, list):
            raise FormatError(f"{shown(row)} at {_index(i, sizes)} stands beside lists")
        if len(row) != len(level[0]):
            found = f"the list at {_index(i, sizes)} has {len(row)} entries, and the first one {len(level[0])}"
            raise FormatError(found, "all lists of one depth as long as the first")


def _index(flat: int, sizes: list[int]) -> str:
    index = []
    for size in reversed(sizes):
        flat, i = divmod(flat, size)
        index.append(i)
    return str(index[::-1])


def tensor_text(desc: TensorDesc, values: NDArray[Any]) -> str:
    """A tensor as a JSON object, with a line for each row; no line break at the end."""
    head = f'{{"DataType": "{desc.data_type.name}", "Sizes": {list(desc.sizes)}, "Values":\n'
    return head + printing.body(printing.rows_of(values, _quoted), desc.sizes) + "}"


def _quoted(values: NDArray[Any]) -> list[str]:
    """Floats as text, with quotes around NaN and infinities."""
    texts = literals.render(values)
    for i in map(int, np.flatnonzero(~np.isfinite(values))):
        texts[i] = f'"{texts[i]}"'
    return texts
