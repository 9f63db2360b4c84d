"""The jobs of a batch: from a manifest in JSON lines or CSV, or one for each of some files.

A column of a manifest is an argument or an option of `run`, by its long name and with its type. All
is checked before any job runs.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import io
import itertools
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from revseq_cli import files
from revseq_cli.commands import usage
from revseq_cli.core import platform
from revseq_cli.core.errors import (
    FormatError,
    UsageError,
    about,
    can_be_typed,
    join_names,
    nearest,
    printable,
)
from revseq_cli.files import base
from revseq_cli.formats.references import Reference
from revseq_cli.formats.table import by_suffix, find_compression, is_store
from revseq_cli.formats.text import LARGEST

Columns = Mapping[str, click.Parameter]
Row = tuple[int, dict[str, str]]  # a job's number, and its columns with their texts

_EXAMPLE = (
    'one job per line, such as {"input": "x.npy", "lengths": "n.npy", "axis": 1, "output": "y.npy"}'
)
_TENSORS = ("input", "lengths")  # the columns that may be lists in JSON
_SEPARATORS = ",;\t"  # of cells: Excel writes semicolons where a comma stands in numbers
# Examples, for hints.
PATTERN = platform.quote("data/*.npy")
OUTPUT = platform.quote("out/{stem}.npy")


@dataclass(frozen=True)
class Entry:
    """A job: its number, which is its line in a manifest, and its options by their parameters.

    `output` and `inputs`, by their columns, are real paths. `bytes` is the size of the inputs.
    With `remakes`, the output exists and is older than they are.
    """

    line: int
    options: dict[str, Any]
    output: str
    inputs: dict[str, str]
    bytes: int
    remakes: bool = False


@dataclass(frozen=True)
class Jobs:
    """All jobs of a batch: `name` is the manifest's, and `noun` what messages call a job of it."""

    name: str
    noun: str
    entries: list[Entry]

    def name_jobs(self, lines: Sequence[int]) -> str:
        """What messages call these jobs: "m.csv: line 2", or "m.csv: lines 2, 3, 5 (3 jobs)"."""
        name = printable(self.name)
        if len(lines) == 1:
            return f"{name}: {self.noun} {lines[0]}"
        numbers = join_names(map(str, sorted(lines)))
        return f"{name}: {self.noun}s {numbers} ({len(lines):,} jobs)"


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
    suffix = os.path.splitext(text.name)[1].lower()
    read_rows = _read_csv_rows
    is_json = suffix in (".json", ".jsonl")
    if not is_json and suffix != ".csv":
        is_json = text.text.lstrip().startswith(("{", "["))
    if is_json:
        read_rows = _read_json_rows
    with about(text.name):
        rows = read_rows(text.text, columns)
        entries = _make_entries(rows, "line", columns, defaults, files.make_resolver())
        if text.identity:
            _refuse_output(path, entries)
    return Jobs(text.name, "line", entries)


def _refuse_output(path: str, entries: Iterable[Entry]) -> None:
    """FormatError if the manifest itself is the output of a job."""
    manifest = files.name_key(files.real_path(path))
    for entry in entries:
        if files.name_key(entry.output) == manifest:
            output = entry.options["output"]
            problem = f"line {entry.line}: its output {output} is the manifest itself"
            raise FormatError(problem, "another name")


def make_jobs(
    paths: Sequence[str],
    pattern: str,
    templates: dict[str, str | None],
    columns: Columns,
    defaults: dict[str, Any],
) -> Jobs:
    """A job for each of these files.

    `templates` has the names of its other files, by their columns. `pattern` is the one that the
    files match, which may end with ::key; it is empty for a list of names. A file that is the
    output or the lengths of another job is not an input. UsageError for a wrong placeholder, and
    for two jobs with one output.
    """
    file_pattern, colons, key = pattern.partition("::")
    rows: dict[str, dict[str, str]] = {}
    used = set[str]()  # files that are the output or the lengths of another
    resolve = files.make_resolver()

    def key_of_file(name: str) -> str:
        return files.name_key(resolve(name))

    for path in paths:
        names = _fill_templates(templates, find_placeholders(path, file_pattern))
        # A name that looks like a typed tensor, or like standard input, is one of this folder.
        folder = ""
        if path == "-" or path.lstrip().startswith("["):
            folder = f"{os.curdir}{os.sep}"
        others = {key_of_file(name.partition("::")[0]) for name in names.values()}
        used |= others - {key_of_file(path)}
        rows[path] = {"input": folder + path + colons + key, **names}
    jobs = {path: row for path, row in rows.items() if key_of_file(path) not in used}
    if len({row["output"] for row in jobs.values()}) < len(jobs):
        template = str(templates["output"])
        hint = _hint_for_outputs(template, [*jobs], file_pattern)
        raise UsageError(f"-o {template} is one file for several inputs", hint=hint)
    name = f"--each {platform.quote(pattern)}" if pattern else "the list of names"
    with about(name):
        numbered = enumerate(jobs.values(), 1)
        return Jobs(name, "job", _make_entries(numbered, "job", columns, defaults, resolve))


def _fill_templates(
    templates: Mapping[str, str | None], values: Mapping[str, str]
) -> dict[str, str]:
    """The names of a job's other files; UsageError for an unknown placeholder."""
    names = {}
    for column, template in templates.items():
        if template is None:
            continue
        try:
            names[column] = template.format(**values)
        except (LookupError, ValueError, AttributeError) as e:
            choices = join_names(f"{{{name}}}" for name in values)
            expected = f"one of {choices}; a brace itself is {{{{ or }}}}"
            raise UsageError(f"a wrong placeholder in {template}: {e}", expected) from None
    return names


def _hint_for_outputs(
    template: str,
    paths: Sequence[str],
    file_pattern: str,
) -> str:
    """The option with the first template like this one that names a file for each input.

    A template without a suffix is the name of a folder, and the outputs have the inputs' suffix.
    Outputs that would be inputs go to the folder out.
    """
    suffix = os.path.splitext(template)[1]
    folder = os.path.dirname(template.partition("{")[0])
    if not suffix:
        folder = template.partition("{")[0]
        suffix = "{suffix}"
    inputs = set(map(os.path.normpath, paths))
    names = ("{stem}", "{match}", "{name}", "{parent}/{stem}", "{parent}/{name}")
    for name, parent in itertools.product(names, (folder, "out")):
        other = os.path.join(parent, name + suffix)
        outputs = {other.format(**find_placeholders(path, file_pattern)) for path in paths}
        if not inputs.isdisjoint(map(os.path.normpath, outputs)):
            continue
        has_empty_name = any(os.path.basename(path) == suffix for path in outputs)
        if len(outputs) == len(paths) and not has_empty_name:
            return f"to name a file for each input, use -o {platform.quote(other)}"
    return ""


def list_inputs(pattern: str) -> list[str]:
    """The files and Zarr stores that match, in the order of their names."""
    names = files.list_matching(pattern.partition("::")[0])
    return [name.rstrip("/") for name in names if not name.endswith("/") or is_store(name)]


def read_names(path: str) -> list[str]:
    """The names in a file, or on standard input for -: one a line, or with a NUL after each."""
    if path == "-":
        data = sys.stdin.buffer.read()
    else:
        with files.open_file(path) as fd:
            data = fd.read_all()
    names = data.split(b"\0") if b"\0" in data else data.splitlines()
    return [os.fsdecode(name) for name in names if name]


def find_placeholders(path: str, pattern: str) -> dict[str, str]:
    """What each placeholder becomes for a file that matches the pattern, which may be empty."""
    parent, name = os.path.split(path.rstrip(os.sep))
    compression = find_compression(name)
    compressed = name[-len(compression.suffix) :] if compression else ""
    stem, suffix = os.path.splitext(name.removesuffix(compressed))
    name_pattern = os.path.basename(pattern)
    match = stem
    # What is before the first wildcard of the pattern, and after the last one.
    before = re.split(r"[*?\[]", name_pattern)[0]
    after = re.split(r"[*?\]]", name_pattern)[-1]
    if before != name_pattern:
        match = name[len(before) : len(name) - len(after)]
    return {
        "stem": stem,
        "match": match,
        "name": name,
        "suffix": suffix + compressed,
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
) -> str:
    """A value of a JSON line as the text of an argument or an option."""
    if isinstance(value, list) and name in _TENSORS:
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
            with _about_job("line", rows.line_num):
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
                raise FormatError(f"{typed[0][:80]!r} is the name of a file", _EXAMPLE, hint)
            like = nearest(name, columns) or "input, lengths, axis, output"
            raise FormatError(
                f"unknown column {typed[i][:40]!r}", f"{like}, or another of revseq batch --help"
            )
        if name in names[:i]:
            raise FormatError(f"column {name} appears twice", "each column once")
    return names


def _make_entries(
    rows: Iterable[Row],
    noun: str,
    columns: Columns,
    defaults: dict[str, Any],
    resolve: Callable[[str], str],
) -> list[Entry]:
    """The jobs of rows; FormatError for a file of one job that another job writes."""
    context = click.get_current_context()
    entries: list[Entry] = []
    look_at = functools.cache(functools.partial(_look_at, resolve))
    for number, cells in rows:
        with _about_job(noun, number):
            for name in ("input", "output"):
                if name not in cells:
                    raise FormatError(f"no {name}", "an input and an output for every job")
            options = dict(defaults)
            for name, text in cells.items():
                options[str(columns[name].name)] = _parse_cell(context, columns[name], name, text)
            entries.append(_make_entry(number, options, resolve, look_at))
    if not entries:
        raise FormatError("contains no job", _EXAMPLE)
    _refuse_shared_files(noun, entries)
    return entries


def _parse_cell(
    context: click.Context,
    parameter: click.Parameter,
    name: str,
    text: str,
) -> Any:
    """The value of a cell, as if it were typed; an error names the column."""
    if not can_be_typed(text):
        raise FormatError(f"{name}: {text[:40]!r} contains bytes that are not text")
    if isinstance(parameter.type, click.Path):  # which only looks at the file
        return text
    try:
        return parameter.type_cast_value(context, text)
    except click.BadParameter as e:
        refused = usage.value_error(parameter, text, e.message)
        raise UsageError(f"{name}: {refused.found}", refused.expected) from None
    except UsageError as e:
        raise UsageError(f"{name}: {e.found}", e.expected) from None


def _refuse_shared_files(noun: str, entries: Sequence[Entry]) -> None:
    """FormatError for a file of one job that another job writes."""
    writers: dict[str, Entry] = {}
    for entry in entries:
        writers.setdefault(files.name_key(entry.output), entry)
    for entry in entries:
        for name, path in {"output": entry.output, **entry.inputs}.items():
            for writer in _find_writers(path, writers):
                if writer is not entry or name != "output":
                    raise _make_refusal(noun, entry, name, writer)


def _make_refusal(noun: str, entry: Entry, column: str, writer: Entry) -> FormatError:
    """The error for a file of a job that another job writes."""
    typed = entry.options[column]
    job = f"{noun} {entry.line}"
    other = f"{noun} {writer.line}"
    problem = f"{job}: its {column} {typed} is the output of {other}"
    if column != "output":
        return FormatError(problem, "a file that no job here writes")
    if typed == writer.options[column] or "::" not in typed:
        return FormatError(problem, "an output of its own")
    problem = f"{job}: its output {typed} is in the file that {other} writes"
    command = f"revseq run ... -o {platform.quote(typed)}"
    hint = f"to collect results in one file, write one after another: {command}"
    return FormatError(problem, "a file of its own", hint)


@dataclass(frozen=True)
class _Input:
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
    if reference.is_local_folder or status is None:
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
        problem = f"{column} is {reference.path}, a pipe"
        raise UsageError(problem, "a file: the jobs of a batch share no pipe")


def _make_entry(
    line: int,
    options: dict[str, Any],
    resolve: Callable[[str], str],
    look_at: Callable[[str, str], _Input],
) -> Entry:
    """The job with these options; UsageError for a pipe, and for a file that the reports go to."""
    inputs = {name: look_at(options[name], name) for name in _TENSORS if options.get(name)}
    output = Reference.file(options["output"])
    _refuse_pipe(output, "output")
    paths = {name: item.path for name, item in inputs.items() if item.path}
    size = sum(item.bytes for item in inputs.values())
    return Entry(line, options, resolve(output.path), paths, size)


def _find_writers(path: str, writers: Mapping[str, Entry]) -> Iterator[Entry]:
    """The jobs whose outputs are that real path, or folders above it."""
    key = files.name_key(path)
    while True:
        if key in writers:
            yield writers[key]
        parent = os.path.dirname(key)
        if parent == key:
            return
        key = parent
