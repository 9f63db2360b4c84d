"""Tensors in JSON: a bare nested list, or an object of DataType, Sizes and Values."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from revseq_cli.formats import models
from revseq_cli.formats.contract import Storage, try_hint
from revseq_cli.formats.held import HeldSource
from revseq_cli.formats.textfiles import TextSink, choose_type
from revseq_cli.ground.dtypes import describe, dtype_of, require_sizes
from revseq_cli.ground.errors import FormatError, UsageError, listed
from revseq_cli.ground.tensors import DataType, TensorDesc, braced
from revseq_cli.texts import dxdispatch, literals, notation, printing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Address, FileSink, Layout, Source
    from revseq_cli.formats.documents import Text, TextTypes
    from revseq_cli.formats.storage.newfile import NewFile


def open_source(address: Address, types: TextTypes) -> Source:
    """The tensor of a JSON text, or the one of that name where it is a model of DxDispatch."""
    if not dxdispatch.is_model(address.text.text):
        return open_json(address.text, address.key, types)
    model = models.ModelText.read(address.text)
    if address.key in model.model.tensors:
        return model.tensor(address.key, types)
    found, known = f"is a model: {listed(model.model.tensors)}", list(model.model.tensors)
    raise FormatError(found, "the name of one", try_hint(address.path, known[0]), address.path)


def create_sink(file: NewFile, like: Source, key: str, layout: Layout) -> FileSink:  # noqa: ARG001 - it has neither
    """A new JSON file of one tensor."""
    return TextSink(file, like, write_json, open_json)


def write_to(stream: BinaryIO, source: Source) -> None:
    """The whole tensor as one JSON object."""
    stream.write(f"{write_json(source.read())}\n".encode())


class _WordsNeededError(Exception):
    """A number of a JSON text does not fit as Python read it; it matters how it was written."""


class _Number(str):
    """A number of a JSON text, as it is written there."""

    __slots__ = ()


def open_json(text: Text, key: str | None, types: TextTypes) -> Source:
    """A nested list, or an object with Values and perhaps DataType and Sizes."""
    if key is not None:
        raise UsageError("a JSON file holds one tensor", "no name after ::", where=text.name)
    try:
        return _json_source(text, types, words=literals.needs_care(text.text))
    except _WordsNeededError:
        return _json_source(text, types, words=True)


def _json_source(text: Text, types: TextTypes, words: bool) -> Source:
    found = _load(text, words)
    if isinstance(found, list):
        found = {"Values": found}
    if not isinstance(found, dict) or "Values" not in found or set(found) - {"DataType", "Sizes", "Values"}:
        keys = f" with {listed(found)}" if isinstance(found, dict) else ""
        raise FormatError(
            f"is JSON, but not a tensor{keys}", "a nested list, or an object of DataType, Sizes and Values",
            where=text.name,
        )  # fmt: skip
    stated = found.get("DataType")
    try:
        data_type = choose_type(DataType.parse(str(stated)) if stated is not None else None, types, text.name)
    except UsageError as e:
        raise e.about(text.name) from None
    values = _json_values(found["Values"], data_type, text.name)
    sizes = _json_sizes(found["Sizes"], text.name) if "Sizes" in found else values.shape
    if values.ndim == 1 and values.size == TensorDesc(data_type, sizes).element_count:
        values = values.reshape(sizes)
    if values.shape != sizes:
        found_sizes = f"its Values have Sizes {braced(values.shape)}, and Sizes says {braced(sizes)}"
        raise FormatError(found_sizes, "nested lists of these sizes, or one flat list", where=text.name)
    return HeldSource(text.name, values, Storage("json", {}), text.identity)


def _load(text: Text, words: bool) -> object:
    """What the JSON text says; with `words` its numbers are left as they are written, which takes longer."""
    number = _Number if words else None
    try:
        return json.loads(
            text.text, parse_int=number, parse_float=number, parse_constant=_constant, object_pairs_hook=literals.unique
        )
    except json.JSONDecodeError as e:
        if not text.text.strip():
            raise FormatError(
                "is empty", "a nested list, or an object of DataType, Sizes and Values", where=text.name
            ) from None
        raise notation.error_at(text.text, e.pos, f"is not JSON: {e.msg}").about(text.name) from None
    except RecursionError:
        raise FormatError("is nested too deep", "at most 64 dimensions, and 8 in DirectML", where=text.name) from None
    except FormatError as e:
        raise e.about(text.name) from None
    except ValueError:  # Python refuses thousands of digits
        raise _WordsNeededError from None


def _constant(word: str) -> str:
    """NaN and infinities may be bare words."""
    return {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}[word]


def _json_sizes(sizes: object, name: str) -> tuple[int, ...]:
    # 20 digits are more than any size has; int() refuses more than 4,300.
    if isinstance(sizes, list) and all(
        isinstance(s, int | _Number) and str(s).isdecimal() and len(str(s)) < 20 for s in sizes
    ):
        found = tuple(map(int, sizes))
        require_sizes(found, name)
        return found
    raise FormatError("Sizes is not a list of sizes", "integers of at least 0", where=name)


def _json_values(nested: object, data_type: DataType, name: str) -> NDArray[Any]:
    """A nested list as an array; FormatError with the index of what does not fit."""
    level: Any = nested
    sizes: list[int] = []
    level = [level]
    while level and isinstance(level[0], list):
        _check_row(level, sizes, name)
        sizes.append(len(level[0]))
        level = list(itertools.chain.from_iterable(level))
        if len(sizes) > 64:
            raise FormatError("is nested too deep", "at most 64 dimensions, and 8 in DirectML", where=name)
    flat = literals.from_json(level, dtype_of(data_type), data_type.name) if level else np.empty(0, dtype_of(data_type))
    if flat is not None:
        return flat.reshape(sizes)
    kinds = set(map(type, level))
    if float in kinds or kinds == {int}:
        raise _WordsNeededError
    try:
        if kinds != {_Number}:
            level = [_token(i, entry, sizes, name) for i, entry in enumerate(level)]
        return literals.parse(level, dtype_of(data_type), data_type.name).reshape(sizes)
    except literals.LiteralError as e:
        raise FormatError(f"at {_index(e.index, sizes)}: {e.problem}", where=name) from None


def _token(i: int, entry: object, sizes: list[int], name: str) -> str:
    """A number as text: "nan" and its kin are strings; other strings, and true, false and null, are no numbers."""
    if type(entry) is int or isinstance(entry, _Number) or (isinstance(entry, str) and literals.is_special(entry)):
        return str(entry)
    raise FormatError(f"{_shown(entry)} at {_index(i, sizes)} is not a number", where=name)


def _check_row(level: list[list[object]], sizes: list[int], name: str) -> None:
    """All lists of one depth are as long as the first."""
    for i, row in enumerate(level):
        if not isinstance(row, list):
            raise FormatError(f"{_shown(row)} at {_index(i, sizes)} stands beside lists", where=name)
        if len(row) != len(level[0]):
            found = f"the list at {_index(i, sizes)} has {len(row)} entries, and the first one {len(level[0])}"
            raise FormatError(found, "all lists of one depth as long as the first", where=name)


def _shown(entry: object) -> str:
    """An entry as it stands in the text, cut."""
    return str(entry)[:40] if isinstance(entry, _Number) else json.dumps(entry)[:40]


def _index(flat: int, sizes: list[int]) -> str:
    index = []
    for size in reversed(sizes):
        flat, i = divmod(flat, size)
        index.append(i)
    return str(index[::-1])


def write_json(values: NDArray[Any]) -> str:
    """The JSON object of a tensor, a row a line; NaN and infinities are strings."""
    desc = describe(values)
    head = f'{{"DataType": "{desc.data_type.name}", "Sizes": {list(desc.sizes)}, "Values":\n'
    return head + printing.body(printing.rows_of(values, _quoted), desc.sizes) + "}"


def _quoted(values: NDArray[Any]) -> list[str]:
    """Floats as text; JSON has no word for NaN and infinities, which are strings."""
    texts = literals.render(values)
    for i in map(int, np.flatnonzero(~np.isfinite(values))):
        texts[i] = f'"{texts[i]}"'
    return texts
