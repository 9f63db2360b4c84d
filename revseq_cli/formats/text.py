"""Tensors as text: JSON (a bare nested list, or an object) and the bracket notation in files and arguments."""

from __future__ import annotations

import collections
import functools
import itertools
import json
import shlex
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from revseq_cli.formats.contract import FileSink, Handing, HeldSource, Outlet, Source, Storage
from revseq_cli.formats.recognition import looks_like
from revseq_cli.formats.storage import positioned
from revseq_cli.ground.dtypes import describe, dtype_of, require_sizes
from revseq_cli.ground.errors import FormatError, UsageError, listed
from revseq_cli.ground.tensors import DataType, TensorDesc, braced
from revseq_cli.texts import literals, notation

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Parcel
    from revseq_cli.formats.storage.newfile import NewFile
    from revseq_cli.formats.storage.positioned import Identity

# Text is parsed whole, at about a hundred bytes of memory a number; what is larger belongs in a binary format.
LARGEST = 1 << 30
_MOST_BRACKETS = 1 << 26  # each is a list of its own, at about a hundred bytes


class TextTypes(NamedTuple):
    """The data type that the user asked for, if any, and the one for a text that does not say.

    A text that states another type than the one asked for is refused, unless it is to be cast later.
    """

    asked: DataType | None
    default: DataType
    cast_later: bool = False


@dataclass(frozen=True)
class Text:
    """A text, what to call the place that it comes from, and the identity of its file, if that is one."""

    name: str
    text: str
    identity: Identity | None = None

    @functools.cached_property
    def items(self) -> tuple[notation.TensorText | notation.Attribute, ...]:
        """Its tensors and attribute lines in the bracket notation, in order; FormatError for what is none."""
        try:
            return tuple(notation.parse(self.text))
        except FormatError as e:
            raise e.about(self.name) from None


def read_text(path: str) -> Text:
    """A text file: UTF-8, with or without a byte order mark."""
    with positioned.opened(path) as fd:
        identity = positioned.identity(fd)
        if identity.size > LARGEST:
            raise FormatError(
                f"is a text of {identity.size} bytes", f"at most {LARGEST}, since text is parsed whole",
                "keep large tensors in .npy or .h5", path,
            )  # fmt: skip
        data = positioned.read_some(fd, identity.size, 0, path)
    return Text(path, decode(data, path), identity)


def decode(data: bytes, name: str) -> str:
    """UTF-8 without its byte order mark; FormatError that says what the bytes look like."""
    if (count := data.count(b"[") + data.count(b"{")) > _MOST_BRACKETS:
        raise FormatError(
            f"has {count} brackets", f"at most {_MOST_BRACKETS}", "keep large tensors in .npy or .h5", name
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        seems, hint = looks_like(data[:64], name)
        known = seems != "something else" and "text" not in seems
        seems = f"it looks like {seems}" if known else f"byte {e.start} is not UTF-8"
        raise FormatError(f"is not text: {seems}", "UTF-8", hint, name) from None


def choose_type(stated: DataType | None, types: TextTypes, name: str) -> DataType:
    """The data type of a text: what it states, else what is asked, else the default; the first two must agree."""
    if stated and types.asked and stated is not types.asked and not types.cast_later:
        raise UsageError(
            f"its DataType is {stated.name}, and {types.asked.name} is asked for", "types are never changed silently",
            "leave the option out, or change the header", name,
        )  # fmt: skip
    return stated or types.asked or types.default


def notation_source(text: Text, item: notation.TensorText, types: TextTypes) -> Source:
    """One tensor of a text in the bracket notation."""
    name = f"{text.name}: {item.name}" if item.name else text.name
    data_type = choose_type(item.desc.data_type if item.desc else None, types, name)
    try:
        values = item.values(data_type, dtype_of(data_type))
    except FormatError as e:
        raise e.about(name) from None
    return HeldSource(name, values, Storage("text", {"line": str(item.line)}), text.identity)


def open_notation(text: Text, inner: str | None, types: TextTypes) -> Source:
    """The only tensor of a text, or the one of that name."""
    if text.text.lstrip()[:1] == "{":
        return open_json(text, inner, types)
    items = [item for item in text.items if isinstance(item, notation.TensorText)]
    named = [item for item in items if inner is None or item.name == inner]
    if len(named) == 1:
        return notation_source(text, named[0], types)
    if not items:
        wanted = "rows in brackets, with or without a header such as T: (Sizes:{3}, DataType:FLOAT32)"
        raise FormatError("holds no tensor", wanted, where=text.name)
    known = [f"{item.name} (line {item.line})" for item in items]
    found = f"{len(named)} tensors" if named else f"no tensor named {inner}"
    counts = collections.Counter(item.name for item in items)
    unique = next((name for name, count in counts.items() if count == 1), None)
    hint = f"try {shlex.quote(f'{text.name}::{unique}')}" if unique else "give each tensor a name of its own"
    raise FormatError(f"holds {found}: {listed(known)}", "the name of one", hint, text.name)


class _WordsNeededError(Exception):
    """A number of a JSON text does not fit as Python read it; it matters how it was written."""


class _Number(str):
    """A number of a JSON text, as it is written there."""

    __slots__ = ()


def open_json(text: Text, inner: str | None, types: TextTypes) -> Source:
    """A nested list, or an object with Values and perhaps DataType and Sizes."""
    if inner is not None:
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
    return head + notation.body(notation.rows_of(values, _quoted), desc.sizes) + "}"


def _quoted(values: NDArray[Any]) -> list[str]:
    """Floats as text; JSON has no word for NaN and infinities, which are strings."""
    texts = literals.render(values)
    for i in map(int, np.flatnonzero(~np.isfinite(values))):
        texts[i] = f'"{texts[i]}"'
    return texts


def write_notation(values: NDArray[Any], name: str = "OutputTensor") -> str:
    """Header and body, as a page shows a tensor."""
    return notation.tensor_text(name, describe(values), values)


def require_text(desc: TensorDesc, where: str) -> None:
    """FormatError for a data type that the text formats do not have."""
    if desc.data_type.name not in literals.WRITTEN:
        raise FormatError(
            f"{desc.data_type.name} cannot be written as text",
            hint="write a binary format, such as out.npy",
            where=where,
        )
    if (brackets := sum(prod(desc.sizes[:d]) for d in range(len(desc.sizes)))) > _MOST_BRACKETS:
        found, wanted = f"would be a text of {brackets} brackets", f"at most {_MOST_BRACKETS}, to be read back"
        raise FormatError(found, wanted, "write a binary format, such as out.npy", where)


class TextSink(FileSink):
    """A new text file; its values are gathered, and written at the end by `write`, to be read back by `read`."""

    def __init__(
        self, file: NewFile, like: Source, write: Callable[[NDArray[Any]], str], read: Callable[..., Source]
    ) -> None:
        require_text(like.desc, file.name)
        super().__init__(file)
        self._write, self._read = write, read
        self._values: NDArray[Any] = np.empty(like.sizes, like.dtype)

    def start(self) -> None:
        """Nothing is written before the end."""

    def outlet(self) -> Outlet:
        """Values go back to the parent."""
        return Handing()

    def receive(self, parcel: object) -> None:
        """Put a block in its place."""
        region, values = cast("Parcel", parcel)
        self._values[region] = values

    def finish(self) -> None:
        """Write the text."""
        self.file.write(f"{self._write(self._values)}\n".encode())

    def reopen(self) -> Source:
        """The complete file, as an input."""
        text = read_text(self.file.temporary)
        return self._read(Text(self.file.name, text.text, text.identity), None, TextTypes(None, DataType.FLOAT32))
