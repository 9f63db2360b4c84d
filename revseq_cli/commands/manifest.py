"""The jobs of a batch: from a manifest in JSON lines or CSV, or one for each file that matches a pattern.

A column of a manifest is an argument or an option of `run`, by its long name and with its type. All is checked before
any job runs.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from revseq_cli import files
from revseq_cli.commands import usage
from revseq_cli.core import platform
from revseq_cli.core.errors import (
    FormatError,
    UsageError,
    about,
    can_be_typed,
    listed,
    nearest,
    printable,
)
from revseq_cli.files import base
from revseq_cli.formats.references import Reference
from revseq_cli.formats.table import by_suffix, is_store, packing_of
from revseq_cli.formats.text import LARGEST

Columns = Mapping[str, click.Parameter]
Row = tuple[int, dict[str, str]]  # a job's number, and its columns with their texts

_EXAMPLE = (
    'one job per line, such as {"input": "x.npy", "lengths": "n.npy", "axis": 1, "output": "y.npy"}'
)
_TENSORS = ("input", "lengths")  # the columns that may be lists in JSON
_SEPARATORS = ",;\t"  # of cells: Excel writes semicolons where a comma stands in numbers
PATTERN, OUTPUT = (
    platform.quoted("data/*.npy"),
    platform.quoted("out/{stem}.npy"),
)  # examples, for hints


class Entry(NamedTuple):
    """A job: its number, which is its line in a manifest; its options by the names of their parameters.

    `output` and `inputs`, by their columns, are real paths. `bytes` is the size of the inputs.
    With `remakes`, the output exists and is older than they are.
    """

    line: int
    options: dict[str, Any]
    output: str
    inputs: dict[str, str]
    bytes: int
    remakes: bool = False


class Jobs(NamedTuple):
    """All jobs of a batch: `name` is the manifest's, and `noun` what messages call a job of it."""

    name: str
    noun: str
    entries: list[Entry]

    def place(self, lines: Sequence[int]) -> str:
        """What messages call these jobs: "jobs.csv: line 2", or "jobs.csv: lines 2, 3, 5 (3 jobs)"."""
        if len(lines) == 1:
            return f"{printable(self.name)}: {self.noun} {lines[0]}"
        return f"{printable(self.name)}: {self.noun}s {listed(map(str, sorted(lines)))} ({len(lines):,} jobs)"


def read(
    path: str,
    columns: Columns,
    defaults: dict[str, Any],
) -> Jobs:
    """The jobs of a manifest, or of standard input for -; FormatError for the first thing that is wrong."""
    reference = Reference(path)
    row = by_suffix(path)
    if row is not None and not row.is_text:
        hint = f"to run one job, type revseq run {platform.typed(path)}"
        raise UsageError("a tensor, not a manifest", "JSON Lines or CSV", hint, path)
    text = reference.text
    suffix = os.path.splitext(text.name)[1].lower()
    is_json = suffix in (".json", ".jsonl") or (
        suffix != ".csv" and text.text.lstrip().startswith(("{", "["))
    )
    with about(text.name):
        rows = (_read_json_rows if is_json else _read_csv_rows)(text.text, columns)
        entries = _entries(rows, "line", columns, defaults, files.make_resolver())
        for entry in entries if text.identity else ():
            if files.name_key(entry.output) == files.name_key(files.real_path(path)):
                found = f"line {entry.line}: its output {entry.options['output']} is the manifest itself"
                raise FormatError(found, "another name")
    return Jobs(text.name, "line", entries)


def of_files(
    paths: Sequence[str],
    pattern: str,
    templates: dict[str, str | None],
    columns: Columns,
    defaults: dict[str, Any],
) -> Jobs:
    """A job for each of these files: `templates` has the names of its other files, by their columns.

    `pattern` is the one that they match, which may end with ::key, or empty. What is an output, or the lengths, of
    another job is no input. UsageError for a wrong placeholder, and for two jobs with one output.
    """
    of_names, colons, key = pattern.partition("::")
    rows: dict[str, dict[str, str]] = {}
    used = set[str]()  # files that are the output or the lengths of another
    resolve = files.make_resolver()

    def file_key(name: str) -> str:
        return files.name_key(resolve(name))

    for path in paths:
        values = placeholders(path, of_names)
        try:
            names = {
                column: template.format(**values)
                for column, template in templates.items()
                if template is not None
            }
        except (LookupError, ValueError, AttributeError) as e:
            wanted = (
                f"one of {listed(f'{{{name}}}' for name in values)}; a brace itself is {{{{ or }}}}"
            )
            found = f"a wrong placeholder in {' or '.join(filter(None, templates.values()))}: {e}"
            raise UsageError(found, wanted) from None
        # A name that looks like a typed tensor, or like standard input, is one of this folder.
        folder = f"{os.curdir}{os.sep}" if path.lstrip().startswith("[") or path == "-" else ""
        others = {file_key(name.partition("::")[0]) for name in names.values()}
        used |= others - {file_key(path)}
        rows[path] = {"input": folder + path + colons + key, **names}
    jobs = {path: row for path, row in rows.items() if file_key(path) not in used}
    if len({row["output"] for row in jobs.values()}) < len(jobs):
        template = str(templates["output"])
        found = f"-o {template} is one file for several inputs"
        raise UsageError(found, hint=_hint_for_outputs(template, [*jobs], of_names))
    name = f"--each {platform.quoted(pattern)}" if pattern else "the list of names"
    with about(name):
        numbered = enumerate(jobs.values(), 1)
        return Jobs(name, "job", _entries(numbered, "job", columns, defaults, resolve))


def _hint_for_outputs(
    template: str,
    paths: Sequence[str],
    of_names: str,
) -> str:
    """The option with the first template like this one that names a file for each input.

    A template without a suffix is the name of a folder, and the outputs have the inputs' suffix.
    """
    suffix = os.path.splitext(template)[1]
    folder = os.path.dirname(template.partition("{")[0])
    if not suffix:
        folder, suffix = template.partition("{")[0], "{suffix}"
    for name in ("{stem}", "{match}", "{name}", "{parent}/{stem}", "{parent}/{name}"):
        other = os.path.join(folder, name + suffix)
        outputs = {other.format(**placeholders(path, of_names)) for path in paths}
        if len(outputs) == len(paths):
            return f"to name a file for each input, use -o {platform.quoted(other)}"
    return ""


def matching(pattern: str) -> list[str]:
    """The files and Zarr stores that match, in the order of their names."""
    names = files.list_matching(pattern.partition("::")[0])
    return [name.rstrip("/") for name in names if not name.endswith("/") or is_store(name)]


def names_in(path: str) -> list[str]:
    """The names in a file, or on standard input for -: one a line, or with a NUL behind each."""
    if path == "-":
        data = sys.stdin.buffer.read()
    else:
        with files.open_file(path) as fd:
            data = fd.read_all()
    names = data.split(b"\0") if b"\0" in data else data.splitlines()
    return [os.fsdecode(name) for name in names if name]


def placeholders(path: str, pattern: str) -> dict[str, str]:
    """What each placeholder becomes for a file that matches the pattern, which may be empty."""
    parent, name = os.path.split(path.rstrip(os.sep))
    compression = packing_of(name)
    packed = name[-len(compression.suffix) :] if compression else ""
    stem, suffix = os.path.splitext(name.removesuffix(packed))
    of_name = os.path.basename(pattern)
    before, after = re.split(r"[*?\[]", of_name)[0], re.split(r"[*?\]]", of_name)[-1]
    match = stem if before == of_name else name[len(before) : len(name) - len(after)]
    return {
        "stem": stem,
        "match": match,
        "name": name,
        "suffix": suffix + packed,
        "parent": parent or os.curdir,
    }


@contextlib.contextmanager
def _about_job(noun: str, number: int) -> Iterator[None]:
    """Say of an error that is raised inside which job it is about."""
    try:
        yield
    except (FormatError, UsageError) as e:
        raise FormatError(f"{noun} {number}: {e.found}", e.expected, e.hint) from None


def _read_json_rows(text: str, columns: Columns) -> Iterator[Row]:
    """Each line as a job."""
    # splitlines() would also cut inside strings.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        with _about_job("line", number):
            pairs = _load_pairs(line)
            names = _check_names([column for column, _ in pairs], columns)
            cells: dict[str, str] = {}
            for name, (column, value) in zip(names, pairs, strict=True):
                if value is not None:
                    cells[name] = _as_cell(value, name, column)
        yield number, cells


def _load_pairs(line: str) -> tuple[tuple[str, Any], ...]:
    """The keys and values of an object; numbers stay text, which the types of options read."""
    try:
        row = json.loads(
            line,
            parse_int=str,
            parse_float=str,
            parse_constant=str,
            object_pairs_hook=tuple,
        )
    except json.JSONDecodeError as e:
        raise FormatError(f"not JSON: {e.msg}, column {e.pos + 1}", _EXAMPLE) from None
    except RecursionError:
        row = None
    if not isinstance(row, tuple):
        raise FormatError("not a JSON object", _EXAMPLE)
    return row


def _as_cell(
    value: Any,
    name: str,
    column: str,
) -> str:  # noqa: ANN401 - what JSON has
    """A value of a JSON line as the text of an argument or an option."""
    if isinstance(value, list) and name in _TENSORS:
        return _as_tensor(value, column)
    if isinstance(value, list | tuple):
        raise FormatError(f"{column} is a list or an object", "text, a number, true or false")
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def _as_tensor(value: Any, column: str) -> str:  # noqa: ANN401 - what JSON has
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
            with _about_job("line", rows.line_num):
                if not names:
                    names = _check_names(row, columns)
                    continue
                if len(row) != len(names):
                    found = "has too few or too many cells"
                    raise FormatError(found, f"{len(names)}, as in the first line")
                cells = {name: cell for name, cell in zip(names, row, strict=True) if cell}
                yield rows.line_num, cells
    except csv.Error as e:
        raise FormatError(f"line {rows.line_num}: not CSV: {e}") from None


def _check_names(typed: Sequence[str], columns: Columns) -> list[str]:
    """The names of columns as options have them; FormatError for one that is unknown or twice there."""
    names = [name.strip().replace("_", "-") for name in typed]
    for i, name in enumerate(names):
        if name not in columns:
            if len(typed) == 1 and files.exists(typed[0].strip()):
                hint = f"if this is a list of inputs, add -o {OUTPUT}"
                raise FormatError(f"{typed[0][:80]!r} is the name of a file", _EXAMPLE, hint)
            like = nearest(name, columns) or "input, lengths, axis, output"
            raise FormatError(
                f"unknown column {typed[i][:40]!r}", f"{like}, or another of revseq batch --help"
            )
        if name in names[:i]:
            raise FormatError(f"column {name} appears twice", "each column once")
    return names


def _entries(
    rows: Iterable[Row],
    noun: str,
    columns: Columns,
    defaults: dict[str, Any],
    resolve: Callable[[str], str],
) -> list[Entry]:
    """The jobs of rows; FormatError for an output that is another job's output, and for an input that a job writes."""
    context = click.get_current_context()
    entries: list[Entry] = []
    look_at = functools.cache(functools.partial(_look_at, resolve))
    for number, cells in rows:
        with _about_job(noun, number):
            if lacking := next((name for name in ("input", "output") if name not in cells), None):
                raise FormatError(f"no {lacking}", "an input and an output for every job")
            options = dict(defaults)
            for name, text in cells.items():
                if not can_be_typed(text):
                    raise FormatError(f"{name}: {text[:40]!r} contains bytes that are not text")
                if isinstance(columns[name].type, click.Path):  # which only looks at the file
                    options[str(columns[name].name)] = text
                    continue
                try:
                    options[str(columns[name].name)] = columns[name].type_cast_value(context, text)
                except click.BadParameter as e:
                    refused = usage.value_error(columns[name], text, e.message)
                    raise UsageError(f"{name}: {refused.found}", refused.expected) from None
                except UsageError as e:
                    raise UsageError(f"{name}: {e.found}", e.expected) from None
            entries.append(_entry(number, options, resolve, look_at))
    if not entries:
        raise FormatError("contains no job", _EXAMPLE)
    writers: dict[str, Entry] = {}
    for entry in entries:
        writers.setdefault(files.name_key(entry.output), entry)
    for entry in entries:
        for name, path in {"output": entry.output, **entry.inputs}.items():
            is_output = name == "output"
            if writer := next(
                (w for w in _writers(path, writers) if w is not entry or not is_output), None
            ):
                raise _refuse_file_of_another(noun, entry, name, writer)
    return entries


def _refuse_file_of_another(noun: str, entry: Entry, column: str, writer: Entry) -> FormatError:
    """The error for a file of a job that another job writes."""
    typed = entry.options[column]
    found = f"{noun} {entry.line}: its {column} {typed} is the output of {noun} {writer.line}"
    if column != "output":
        return FormatError(found, "a file that no job here writes")
    if typed == writer.options[column] or "::" not in typed:
        return FormatError(found, "an output of its own")
    found = (
        f"{noun} {entry.line}: its output {typed} is in the file that {noun} {writer.line} writes"
    )
    hint = f"to collect results in one file, write one after another: revseq run ... -o {platform.quoted(typed)}"
    return FormatError(found, "a file of its own", hint)


class _Input(NamedTuple):
    """An input of a job: its real path, "" for a tensor that is typed, and its size in bytes."""

    path: str
    bytes: int


def _look_at(
    resolve: Callable[[str], str],
    name: str,
    column: str,
) -> _Input:
    """Look at an input of a job; UsageError if it is a pipe, or is where the reports go."""
    reference = Reference.input(name)
    if reference.inline is not None:
        return _Input("", 0)
    _refuse_pipe(reference, column)
    status = reference.status
    if reference.is_folder or status is None:
        return _Input(resolve(reference.path), _size_of_folder(reference.path))
    base.refuse_output(status, reference.path)
    return _Input(resolve(reference.path), status.st_size)


def _size_of_folder(path: str) -> int:
    """The bytes of all files in a folder; 0 if there is none."""
    total = 0
    for below in Path(path).rglob("*"):
        with contextlib.suppress(OSError):  # it may be gone by now
            total += below.lstat().st_size
    return total


def _refuse_pipe(reference: Reference, column: str) -> None:
    if reference.is_piped:
        found = f"{column} is {reference.path}, a pipe"
        raise UsageError(found, "a file: the jobs of a batch share no pipe")


def _entry(
    line: int,
    options: dict[str, Any],
    resolve: Callable[[str], str],
    look_at: Callable[[str, str], _Input],
) -> Entry:
    """The job with these options; UsageError if one of its files is a pipe, or is where the reports go."""
    inputs = {
        name: look_at(options[name], name) for name in ("input", "lengths") if options.get(name)
    }
    output = Reference.file(options["output"])
    _refuse_pipe(output, "output")
    paths = {name: item.path for name, item in inputs.items() if item.path}
    size = sum(item.bytes for item in inputs.values())
    return Entry(line, options, resolve(output.path), paths, size)


def _writers(path: str, writers: Mapping[str, Entry]) -> Iterator[Entry]:
    """The jobs whose outputs are that real path, or folders above it."""
    key, below = files.name_key(path), ""
    while key != below:
        if key in writers:
            yield writers[key]
        key, below = os.path.dirname(key), key
