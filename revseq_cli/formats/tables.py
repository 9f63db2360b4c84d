"""Tables of numbers, .csv and .tsv: tensors of rank 2. They state no data type, and are read with the one asked for."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, BinaryIO

from revseq_cli.formats.contract import Storage
from revseq_cli.formats.held import HeldSource
from revseq_cli.formats.textfiles import TextSink, choose_type, write_text
from revseq_cli.ground import system
from revseq_cli.ground.dtypes import dtype_of
from revseq_cli.ground.errors import FormatError, UsageError, Words, listed
from revseq_cli.ground.tensors import DataType
from revseq_cli.texts.tables import Table, table_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Address, FileSink, Layout, Source
    from revseq_cli.formats.documents import Text, TextTypes
    from revseq_cli.formats.storage.newfile import NewFile
    from revseq_cli.ground.tensors import TensorDesc


@dataclass(frozen=True)
class Cells:
    """A format of tables: its name, and what stands between cells, which people call `word`."""

    name: str
    separator: str
    word: str

    def open_source(self, address: Address, types: TextTypes) -> Source:
        """The table of a file."""
        return self._open(address.text, address.key, types)

    def create_sink(self, file: NewFile, like: Source, key: str, layout: Layout) -> FileSink:  # noqa: ARG002 - it has neither
        """The sink of a new table."""
        _require_table(like.desc, file.name)
        sink = TextSink(file, like, self._text, self._open)
        if like.desc.data_type is not DataType.FLOAT32:
            text = f"{file.name} states no data type: {{}} reads it as it is"
            sink.notes += (Words.of(text, dtype=like.desc.data_type.name),)
        return sink

    def write_to(self, stream: BinaryIO, source: Source) -> None:
        """Write the whole tensor into a pipe."""
        _require_table(source.desc, source.name)
        write_text(stream, self._text(source.read()))

    def _text(self, values: NDArray[Any]) -> str:
        return table_text(values, self.separator)

    def _open(self, text: Text, key: str | None, types: TextTypes) -> Source:
        if key is not None:
            raise UsageError(f"a .{self.name} file holds one tensor", "no name after ::", where=text.name)
        data_type = choose_type(None, types, text.name)
        try:
            table = Table.of(text.text, self.separator)
            values = table.values(dtype_of(data_type), data_type.name)
        except FormatError as e:
            if "semicolon" in e.found:
                e.hint = f"tr ',;' '.,' < {system.quoted(text.name)} > new.csv"
            raise e.about(text.name) from None
        source = HeldSource(text.name, values, Storage(self.name, {"separator": self.word}), text.identity)
        if table.header:
            source.notes = (f"{text.name}: its first line is a header, and is left out: {listed(table.header)}",)
        elif table.may_begin_with_names:
            source.notes = (f"{text.name}: its first line counts 0, 1, 2: if these are names of columns, delete it",)
        return source


def _require_table(desc: TensorDesc, where: str) -> None:
    """FormatError for a tensor that is no table of at least one cell."""
    sizes = desc.sizes
    if len(sizes) == 2 and desc.element_count:
        return
    fits = desc.element_count and prod(sizes[:-2]) == 1
    hint = Words.of("add {}", rank=2) if fits else "write another format, such as out.npy"
    raise FormatError(f"holds one table, and the tensor is {desc}", "2 dimensions, and no size of 0", hint, where)
