"""Tables with cells between tabs."""

from revseq_cli.formats.tables import Cells

_CELLS = Cells("tsv", "\t", "tab")
open_source, create_sink, write_to = _CELLS.open_source, _CELLS.create_sink, _CELLS.write_to
