"""The manifest of a batch, in JSON lines or CSV.

A column of a manifest is an argument or an option of `run`, by its long name and with its type.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from revseq_cli import files
from revseq_cli.commands.entries import (
    EXAMPLE,
    TENSORS,
    Columns,
    Entry,
    Jobs,
    Row,
    about_job,
    make_entries,
)
from revseq_cli.commands.templates import OUTPUT
from revseq_cli.core import platform
from revseq_cli.core.errors import FormatError, UsageError, about, nearest
from revseq_cli.formats.references import Reference
from revseq_cli.formats.table import by_suffix
from revseq_cli.formats.text_files import LARGEST

_SEPARATORS = ",;\t"  # of cells: Excel writes semicolons where a comma stands in numbers


def read(
    path: str,
    columns: Columns,
    defaults: dict[str, Any],
) -> Jobs:
    """The jobs of a manifest, or of standard input for -.

    FormatError for the first thing that is wrong.
    """
    reference = Reference(path)
    row = by_suffix(path)
    if row is not None and not row.is_text:
        hint = f"to run one job, type revseq run {platform.as_argument(path)}"
        raise UsageError("a tensor, not a manifest", "JSON Lines or CSV", hint, path)
    text = reference.text
    read_rows = _read_json_rows if _is_json(text.name, text.text) else _read_csv_rows
    with about(text.name):
        rows = read_rows(text.text, columns)
        entries = make_entries(rows, "line", columns, defaults)
        if text.identity:
            _refuse_output(path, entries)
    return Jobs(text.name, "line", entries)


def _is_json(name: str, text: str) -> bool:
    """Whether a manifest is JSON: by its suffix, or if that says nothing, by its beginning."""
    suffix = os.path.splitext(name)[1].lower()
    if suffix in (".json", ".jsonl"):
        return True
    return suffix != ".csv" and text.lstrip().startswith(("{", "["))


def _refuse_output(path: str, entries: Iterable[Entry]) -> None:
    """FormatError if the manifest itself is the output of a job."""
    manifest = files.file_key(path)
    for entry in entries:
        if files.name_key(entry.output) == manifest:
            output = entry.options["output"]
            problem = f"line {entry.line}: its output {output} is the manifest itself"
            raise FormatError(problem, "another name")


def _read_json_rows(text: str, columns: Columns) -> Iterator[Row]:
    """Each line as a job."""
    # splitlines() would also cut inside strings.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        with about_job("line", number):
            pairs = _load_pairs(line)
            names = _check_names([column for column, _ in pairs], columns)
            cells: dict[str, str] = {}
            for name, (column, value) in zip(names, pairs, strict=True):
                if value is not None:
                    cells[name] = _as_cell(value, name, column)
        yield number, cells


def _load_pairs(line: str) -> tuple[tuple[str, Any], ...]:
    """The keys and values of an object; objects inside it are tuples of these, too.

    Numbers stay text, which the types of options read.
    """
    try:
        row = json.loads(
            line,
            parse_int=str,
            parse_float=str,
            parse_constant=str,
            object_pairs_hook=tuple,
        )
    except json.JSONDecodeError as e:
        raise FormatError(f"not JSON: {e.msg}, column {e.pos + 1}", EXAMPLE) from None
    except RecursionError:
        row = None
    if not isinstance(row, tuple):
        raise FormatError("not a JSON object", EXAMPLE)
    return row


def _as_cell(
    value: Any,
    name: str,
    column: str,
) -> str:
    """A value of a JSON line as the text of an argument or an option."""
    if isinstance(value, list) and name in TENSORS:
        return _as_tensor(value, column)
    if isinstance(value, list | tuple):
        raise FormatError(f"{column} is a list or an object", "text, a number, true or false")
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def _as_tensor(value: Any, column: str) -> str:
    """A list of a JSON line, whose numbers are text, as a tensor in brackets."""
    if isinstance(value, list):
        items = [_as_tensor(item, column) for item in value]
        return f"[{', '.join(items)}]"
    if isinstance(value, str):
        return value
    raise FormatError(f"{column} is a list that does not hold only numbers")


def _read_csv_rows(text: str, columns: Columns) -> Iterator[Row]:
    """Each row with the number of its last line, since cells may hold line breaks."""
    csv.field_size_limit(LARGEST)  # a cell may be a complete tensor
    first = re.split(r"[\r\n]", text, maxsplit=1)[0]
    separator = next((mark for mark in _SEPARATORS if mark in first), ",")
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    names: list[str] = []
    try:
        for row in filter(None, rows):
            with about_job("line", rows.line_num):
                if not names:
                    names = _check_names(row, columns)
                    continue
                if len(row) != len(names):
                    expected = f"{len(names)}, as in the first line"
                    raise FormatError("has too few or too many cells", expected)
                cells = {name: cell for name, cell in zip(names, row, strict=True) if cell}
                yield rows.line_num, cells
    except csv.Error as e:
        raise FormatError(f"line {rows.line_num}: not CSV: {e}") from None


def _check_names(typed: Sequence[str], columns: Columns) -> list[str]:
    """The names of columns, as options have them.

    FormatError for one that is unknown, or there twice.
    """
    names = [name.strip().replace("_", "-") for name in typed]
    for i, name in enumerate(names):
        if name not in columns:
            if len(typed) == 1 and files.exists(typed[0].strip()):
                hint = f"if this is a list of inputs, add -o {OUTPUT}"
                raise FormatError(f"{typed[0][:80]!r} is the name of a file", EXAMPLE, hint)
            like = nearest(name, columns) or "input, lengths, axis, output"
            raise FormatError(
                f"unknown column {typed[i][:40]!r}", f"{like}, or another of revseq batch --help"
            )
        if name in names[:i]:
            raise FormatError(f"column {name} appears twice", "each column once")
    return names
