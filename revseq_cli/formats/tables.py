"""Tables of numbers, .csv and .tsv: tensors of rank 2. They state no data type, and are read with the one asked for."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from revseq_cli.formats.contents import refuse_key
from revseq_cli.formats.contract import Storage
from revseq_cli.formats.textfiles import TextFormat, held, require_text
from revseq_cli.ground import system
from revseq_cli.ground.dtypes import dtype_of
from revseq_cli.ground.errors import Advice, FormatError, listed
from revseq_cli.texts.places import PlacedError
from revseq_cli.texts.tables import Table, table_text

if TYPE_CHECKING:
    from revseq_cli.formats.contract import Source
    from revseq_cli.formats.documents import Text, TextTypes
    from revseq_cli.ground.tensors import TensorDesc


def _format(name: str, separator: str, word: str) -> TextFormat:
    """A format of tables by its name, and by what stands between cells, which people call `word`."""

    def read(text: Text, key: str | None, types: TextTypes) -> Source:
        refuse_key(key, f"a .{name} file", text.name)
        storage = Storage(name, {"separator": word})
        try:
            table = Table.of(text.text, separator)
            source = held(lambda each: table.values(dtype_of(each), each.name), None, types, text, storage, text.name)
        except FormatError as e:
            if isinstance(e, PlacedError) and text.text[e.offset : e.offset + 1] == ";":
                e.hint = f"tr ',;' '.,' < {system.quoted(text.name)} > new.csv"
            raise e.about(text.name) from None
        if table.header:
            source.notes += (f"{text.name}: its first line is a header, and is left out: {listed(table.header)}",)
        elif table.may_begin_with_names:
            source.notes += (f"{text.name}: its first line counts 0, 1, 2: if these are names of columns, delete it",)
        return source

    return TextFormat(read, lambda values: table_text(values, separator), _require_table, states_type=False)


def _require_table(desc: TensorDesc, where: str) -> None:
    """FormatError for a tensor that is no table of at least one cell."""
    require_text(desc, where)
    sizes = desc.sizes
    if len(sizes) == 2 and desc.element_count:
        return
    fits = desc.element_count and prod(sizes[:-2]) == 1
    hint = Advice.of("add {}", rank=2) if fits else "write another format, such as out.npy"
    raise FormatError(f"holds one table, and the tensor is {desc}", "2 dimensions, and no size of 0", hint, where)


CSV, TSV = _format("csv", ",", "comma"), _format("tsv", "\t", "tab")
