"""Tables with cells between commas."""

from revseq_cli.formats.tables import Cells

_CELLS = Cells("csv", ",", "comma")
open_source, create_sink, write_to = _CELLS.open_source, _CELLS.create_sink, _CELLS.write_to
