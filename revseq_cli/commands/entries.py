"""The jobs of a batch: their options, and their files, which are checked before any job runs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    can_be_typed,
    join_names,
    printable,
)
from revseq_cli.files.system_errors import refuse_standard_output
from revseq_cli.formats.references import Reference

# A column is an argument or an option of `run`, by its long name.
Columns = Mapping[str, click.Parameter]
Row = tuple[int, dict[str, str]]  # a job's number, and its columns with their texts

EXAMPLE = (
    'one job per line, such as {"input": "x.npy", "lengths": "n.npy", "axis": 1, "output": "y.npy"}'
)
TENSORS = ("input", "lengths")  # the columns of a job's inputs


@dataclass(frozen=True)
class Entry:
    """A job: its number, which is its line in a manifest, its options, and its files.

    `options` has the values of `run`'s parameters by Click's names. `output` is a real path, and
    `inputs` has the real paths of inputs by their columns. `bytes` is the size of the inputs.
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


@contextlib.contextmanager
def about_job(noun: str, number: int) -> Iterator[None]:
    """Add to an error that is raised inside which job it is about."""
    try:
        yield
    except (FormatError, UsageError) as e:
        raise FormatError(f"{noun} {number}: {e.found}", e.expected, e.hint) from None


def make_entries(
    rows: Iterable[Row],
    noun: str,
    columns: Columns,
    defaults: dict[str, Any],
) -> list[Entry]:
    """The jobs of rows, whose cells are parsed; FormatError for the first thing that is wrong."""
    context = click.get_current_context()
    entries: list[Entry] = []
    job_files = _JobFiles()
    for number, cells in rows:
        with about_job(noun, number):
            for name in ("input", "output"):
                if name not in cells:
                    raise FormatError(f"no {name}", "an input and an output for every job")
            options = dict(defaults)
            for name, text in cells.items():
                options[str(columns[name].name)] = _parse_cell(context, columns[name], name, text)
            entries.append(job_files.make_entry(number, options))
    if not entries:
        raise FormatError("contains no job", EXAMPLE)
    _refuse_shared_files(noun, entries)
    return entries


def _parse_cell(context: click.Context, parameter: click.Parameter, name: str, text: str) -> Any:
    """The value of a cell, as if it were typed; an error names the column."""
    if not can_be_typed(text):
        raise FormatError(f"{name}: {text[:40]!r} contains bytes that are not text")
    if isinstance(parameter.type, click.Path):  # which only looks at the file
        return text
    try:
        return parameter.type_cast_value(context, text)
    except click.BadParameter as e:
        refused = usage.describe_bad_value(parameter, text, e.message)
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
                is_own_output = writer is entry and name == "output"
                if not is_own_output:
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


class _JobFiles:
    """The files of all jobs; an input that several jobs share is inspected only once."""

    def __init__(self) -> None:
        self._resolve = files.make_resolver()
        self._inputs: dict[tuple[str, str], tuple[str, int]] = {}  # by names and columns

    def make_entry(self, line: int, options: dict[str, Any]) -> Entry:
        """The job with these options; UsageError for a pipe, and for a file that reports go to."""
        paths: dict[str, str] = {}
        total = 0
        for column in TENSORS:
            name = options.get(column)
            if not name:
                continue
            if (name, column) not in self._inputs:
                self._inputs[name, column] = self._inspect_input(name, column)
            path, size = self._inputs[name, column]
            total += size
            if path:
                paths[column] = path
        output = Reference.file(options["output"])
        _refuse_pipe(output, "output")
        return Entry(line, options, self._resolve(output.path), paths, total)

    def _inspect_input(self, name: str, column: str) -> tuple[str, int]:
        """The real path of an input, "" for a tensor that is typed, and its size in bytes."""
        reference = Reference.input(name)
        if reference.inline is not None:
            return "", 0
        _refuse_pipe(reference, column)
        path = self._resolve(reference.path)
        status = reference.status
        if reference.is_local_folder or status is None:
            return path, _size_of_folder(reference.path)
        refuse_standard_output(status, reference.path)
        return path, status.st_size


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
