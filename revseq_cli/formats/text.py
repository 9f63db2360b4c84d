"""The formats of text: the bracket notation of Microsoft's reference pages, and JSON, in files, arguments and pipes.

Tables of numbers, .csv and .tsv, are tensors of rank 2. They state no data type, and are read with the one asked for.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any

from revseq_cli.core import system
from revseq_cli.core.dtypes import describe
from revseq_cli.core.errors import FormatError, SeveralError, about, listed
from revseq_cli.formats.contents import Contents, Item, refuse_key, try_hint
from revseq_cli.formats.contract import Storage
from revseq_cli.formats.references import number_of, part_of
from revseq_cli.formats.textfiles import TextFormat, held, require_text
from revseq_cli.text import notation, numbers
from revseq_cli.text.examples import part
from revseq_cli.text.numbers import Table, is_table, table_text
from revseq_cli.text.places import PlacedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from revseq_cli.core.tensors import TensorDesc
    from revseq_cli.formats.contract import Address, Source
    from revseq_cli.formats.documents import Text, TextTypes


def _contents(address: Address, types: TextTypes) -> Contents | None:
    """The tensors of a text, and the examples of a page; None for a text of one tensor, or of none."""
    text = address.text
    if address.key is not None or text.text.lstrip()[:1] == "{":
        return None
    items = [item for item in text.items if isinstance(item, notation.TensorText)]
    if len(items) < 2:
        return None
    counts = collections.Counter(item.name for item in items)
    found = []
    if max(counts.values()) > 1:  # a page: an example is named by its number
        for number, example in enumerate(text.examples, 1):
            items = [item for item in items if item not in example.tensors.values()]
            names = listed(item.name for item in example.tensors.values())
            found.append(Item(str(number), what=f"an example, line {example.line}: {names}"))
    found += [_item(text, item, types, alone=counts[item.name] == 1) for item in items]
    return Contents(address.path, "text", tuple(found))


def _item(text: Text, item: notation.TensorText, types: TextTypes, *, alone: bool) -> Item:
    """A tensor by its header, or by its values where it has none; `alone` says that no other has its name."""
    listed_item = Item(item.name, details={"line": str(item.line)})
    if not alone:
        return listed_item._replace(what=f"one of several of that name, line {item.line}")
    try:
        desc = item.desc or notation_source(text, item, types).desc
    except FormatError as e:
        return listed_item._replace(what=e.found)
    return listed_item._replace(desc=desc, sizes=desc.sizes)


def notation_source(text: Text, item: notation.TensorText, types: TextTypes, name: str = "") -> Source:
    """The source of one tensor of a text; FormatError if a value does not fit its data type."""
    name = name or (f"{text.name}: {item.name}" if item.name else text.name)
    with about(name):
        return held(item, types, text, Storage("text", {"line": str(item.line)}), name)


def open_notation(text: Text, key: str | None, types: TextTypes) -> Source:
    """The tensor `key` of a text, or the only one; FormatError, which lists all, if there is no such one."""
    if text.text.lstrip()[:1] == "{":
        return open_json(text, key, types)
    with about(text.name):
        if named_part := part_of(key):
            return notation_source(text, part(text.examples, *named_part), types, f"{text.name}::{key}")
    items = [item for item in text.items if isinstance(item, notation.TensorText)]
    named = [item for item in items if key is None or item.name == key]
    if len(named) == 1:
        return notation_source(text, named[0], types)
    if not items:
        if key is None and is_table(text.text):
            return _open_numbers(text, types)
        wanted = "rows in brackets, with or without a header such as T: (Sizes:{3}, DataType:FLOAT32)"
        raise FormatError("contains no tensor", wanted, where=text.name)
    known = [f"{item.name} (line {item.line})" for item in items]
    found = f"{len(named)} tensors" if named else f"no tensor named {key}"
    keys = [*_keys(text, items, named[0].name if named and key else "", key)]
    hint = try_hint(text.name, *keys) if keys else "give each tensor a name of its own"
    error = SeveralError(f"holds {found}: {listed(known)}", "the name of one", hint, text.name)
    if key is None and not text.examples:
        error.names = keys
    raise error


def _keys(text: Text, items: list[notation.TensorText], label: str, key: str | None) -> Iterator[str]:
    """What names one tensor of a text: of the example that the key numbers, of those with the label, or of all."""
    numbers = {number_of(key)}
    examples = dict(enumerate(text.examples, 1))
    for number, example in examples.items():
        if number in numbers or numbers.isdisjoint(examples):
            names = [item.name for item in example.tensors.values()]
            yield from (f"{number}::{name}" for name in names if label in ("", name))
    if not examples:
        counts = collections.Counter(item.name for item in items)
        yield from (name for name, count in counts.items() if name and count == 1)


def _open_numbers(text: Text, types: TextTypes) -> Source:
    """The source of bare numbers: a number a line, or one line, has rank 1; lines of several numbers have rank 2."""
    with about(text.name):
        return held(Table.of(text.text, is_flat=True), types, text, Storage("text", {"numbers": "alone"}), text.name)


def write_notation(values: NDArray[Any]) -> str:
    """A tensor in the bracket notation: a header with sizes and data type, and the rows in brackets."""
    return notation.tensor_text("OutputTensor", describe(values), values)


def open_json(text: Text, key: str | None, types: TextTypes) -> Source:
    """A nested list, or an object with Values and perhaps DataType and Sizes."""
    refuse_key(key, "a JSON file", text.name)
    with about(text.name):
        return held(numbers.parse(text.text), types, text, Storage("json", {}), text.name)


def write_json(values: NDArray[Any]) -> str:
    """The JSON object of a tensor, a row a line; NaN and infinities are strings."""
    return numbers.tensor_text(describe(values), values)


def _table_format(name: str, separator: str, word: str) -> TextFormat:
    """A format of tables by its name, and by what stands between cells, which people call `word`."""

    def read(text: Text, key: str | None, types: TextTypes) -> Source:
        refuse_key(key, f"a .{name} file", text.name)
        storage = Storage(name, {"separator": word})
        try:
            return held(Table.of(text.text, separator), types, text, storage, text.name)
        except FormatError as e:
            if isinstance(e, PlacedError) and text.text[e.offset : e.offset + 1] == ";":
                e.hint = f"tr ',;' '.,' < {system.quoted(text.name)} > new.csv"
            raise e.about(text.name) from None

    return TextFormat(read, lambda values: table_text(values, separator), _require_table)


def _require_table(desc: TensorDesc, where: str) -> None:
    """FormatError for a tensor that is no table of at least one cell."""
    require_text(desc, where)
    sizes = desc.sizes
    if len(sizes) == 2 and desc.element_count:
        return
    found, wanted = f"contains one table, and the tensor is {desc}", "2 dimensions, and no size of 0"
    raise FormatError(found, wanted, "write another format, such as out.npy", where)


TEXT, JSON = TextFormat(open_notation, write_notation, contents=_contents), TextFormat(open_json, write_json)
CSV, TSV = _table_format("csv", ",", "comma"), _table_format("tsv", "\t", "tab")
