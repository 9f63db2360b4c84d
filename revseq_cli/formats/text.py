"""The bracket notation of Microsoft's reference pages, in files, arguments and pipes."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any, BinaryIO

from revseq_cli.formats.contents import Contents, Item
from revseq_cli.formats.contract import Storage, try_hint
from revseq_cli.formats.held import HeldSource
from revseq_cli.formats.json import open_json
from revseq_cli.formats.textfiles import TextSink, choose_type, write_text
from revseq_cli.ground.dtypes import describe, dtype_of
from revseq_cli.ground.errors import FormatError, listed
from revseq_cli.texts import notation, printing
from revseq_cli.texts.examples import numbered, part

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Address, FileSink, Layout, Source
    from revseq_cli.formats.documents import Text, TextTypes
    from revseq_cli.formats.storage.newfile import NewFile
    from revseq_cli.texts.tables import Table


def open_source(address: Address, types: TextTypes) -> Source:
    """The tensor named by the key, or the only one; a text that begins with a brace is read as JSON."""
    return open_notation(address.text, address.key, types)


def create_sink(file: NewFile, like: Source, key: str, layout: Layout) -> FileSink:  # noqa: ARG001 - it has neither
    """The sink of a new text file."""
    return TextSink(file, like, write_notation, open_notation)


def write_to(stream: BinaryIO, source: Source) -> None:
    """Write the whole tensor into a pipe, with a header of its sizes and data type."""
    write_text(stream, write_notation(source.read()))


def contents(address: Address, types: TextTypes) -> Contents | None:
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
        for number, example in enumerate(numbered(text.text, text.items), 1):
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
    data_type = choose_type(item.desc.data_type if item.desc else None, types, name)
    try:
        values = item.values(data_type, dtype_of(data_type))
    except FormatError as e:
        raise text.located(e).about(name) from None
    return HeldSource(name, values, Storage("text", {"line": str(item.line)}), text.identity)


def open_notation(text: Text, key: str | None, types: TextTypes) -> Source:
    """The tensor `key` of a text, or the only one; FormatError, which lists all, if there is no such one."""
    if text.text.lstrip()[:1] == "{":
        return open_json(text, key, types)
    try:
        if key is not None and (item := part(text.text, text.items, key)):
            return notation_source(text, item, types, f"{text.name}::{key}")
    except FormatError as e:
        raise e.about(text.name) from None
    items = [item for item in text.items if isinstance(item, notation.TensorText)]
    named = [item for item in items if key is None or item.name == key]
    if len(named) == 1:
        return notation_source(text, named[0], types)
    if not items:
        from revseq_cli.texts import tables  # most texts have brackets

        if key is None and tables.is_table(text.text):
            return _open_numbers(text, tables.Table.of, types)
        wanted = "rows in brackets, with or without a header such as T: (Sizes:{3}, DataType:FLOAT32)"
        raise FormatError("holds no tensor", wanted, where=text.name)
    known = [f"{item.name} (line {item.line})" for item in items]
    found = f"{len(named)} tensors" if named else f"no tensor named {key}"
    unique = _unique(text, items, named[0].name if named and key else "", key)
    hint = try_hint(text.name, unique) if unique else "give each tensor a name of its own"
    raise FormatError(f"holds {found}: {listed(known)}", "the name of one", hint, text.name)


def _unique(text: Text, items: list[notation.TensorText], label: str, key: str | None) -> str:
    """What names one tensor of a text: of the example that the key numbers, of one that has the label, or any."""
    examples = dict(enumerate(numbered(text.text, text.items), 1))
    of_label = (n for n, each in examples.items() if label in [item.name for item in each.tensors.values()])
    number = int(key) if key and key.isdecimal() and int(key[:9]) in examples else next(of_label, 0)
    if number:
        return f"{number}::{label or next(iter(examples[number].tensors.values())).name}"
    counts = collections.Counter(item.name for item in items)
    return next((name for name, count in counts.items() if count == 1), "")


def _open_numbers(text: Text, table_of: Callable[[str], Table], types: TextTypes) -> Source:
    """The source of bare numbers: a number a line, or one line, has rank 1; lines of several numbers have rank 2."""
    data_type = choose_type(None, types, text.name)
    try:
        values = table_of(text.text).values(dtype_of(data_type), data_type.name)
    except FormatError as e:
        raise e.about(text.name) from None
    if 1 in values.shape:
        values = values.reshape(-1)
    return HeldSource(text.name, values, Storage("text", {"numbers": "alone"}), text.identity)


def write_notation(values: NDArray[Any], name: str = "OutputTensor") -> str:
    """A tensor in the bracket notation: a header of `name`, sizes and data type, and the rows in brackets."""
    return printing.tensor_text(name, describe(values), values)
