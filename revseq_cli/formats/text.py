"""The bracket notation of Microsoft's reference pages, in files, arguments and pipes."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any, BinaryIO

from revseq_cli.formats.contract import Storage, try_hint
from revseq_cli.formats.held import HeldSource
from revseq_cli.formats.json import open_json
from revseq_cli.formats.textfiles import TextSink, choose_type, write_text
from revseq_cli.ground.dtypes import describe, dtype_of
from revseq_cli.ground.errors import FormatError, listed
from revseq_cli.texts import notation, printing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Address, FileSink, Layout, Source
    from revseq_cli.formats.documents import Text, TextTypes
    from revseq_cli.formats.storage.newfile import NewFile


def open_source(address: Address, types: TextTypes) -> Source:
    """The tensor named by the key, or the only one; a text that begins with a brace is read as JSON."""
    return open_notation(address.text, address.key, types)


def create_sink(file: NewFile, like: Source, key: str, layout: Layout) -> FileSink:  # noqa: ARG001 - it has neither
    """The sink of a new text file."""
    return TextSink(file, like, write_notation, open_notation)


def write_to(stream: BinaryIO, source: Source) -> None:
    """Write the whole tensor into a pipe, with a header of its sizes and data type."""
    write_text(stream, write_notation(source.read()))


def notation_source(text: Text, item: notation.TensorText, types: TextTypes) -> Source:
    """The source of one tensor of a text; FormatError if a value does not fit its data type."""
    name = f"{text.name}: {item.name}" if item.name else text.name
    data_type = choose_type(item.desc.data_type if item.desc else None, types, name)
    try:
        values = item.values(data_type, dtype_of(data_type))
    except FormatError as e:
        raise e.about(name) from None
    return HeldSource(name, values, Storage("text", {"line": str(item.line)}), text.identity)


def open_notation(text: Text, key: str | None, types: TextTypes) -> Source:
    """The tensor `key` of a text, or the only one; FormatError, which lists all, if there is no such one."""
    if text.text.lstrip()[:1] == "{":
        return open_json(text, key, types)
    items = [item for item in text.items if isinstance(item, notation.TensorText)]
    named = [item for item in items if key is None or item.name == key]
    if len(named) == 1:
        return notation_source(text, named[0], types)
    if not items:
        wanted = "rows in brackets, with or without a header such as T: (Sizes:{3}, DataType:FLOAT32)"
        raise FormatError("holds no tensor", wanted, where=text.name)
    known = [f"{item.name} (line {item.line})" for item in items]
    found = f"{len(named)} tensors" if named else f"no tensor named {key}"
    counts = collections.Counter(item.name for item in items)
    unique = next((name for name, count in counts.items() if count == 1), None)
    hint = try_hint(text.name, unique) if unique else "give each tensor a name of its own"
    raise FormatError(f"holds {found}: {listed(known)}", "the name of one", hint, text.name)


def write_notation(values: NDArray[Any], name: str = "OutputTensor") -> str:
    """A tensor in the bracket notation: a header of `name`, sizes and data type, and the rows in brackets."""
    return printing.tensor_text(name, describe(values), values)
