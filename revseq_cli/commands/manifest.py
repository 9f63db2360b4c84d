"""The jobs of a batch: from a manifest in JSON lines or CSV, or one for each file that matches a pattern or is listed.

A column of a manifest is an argument or an option of `run`, by its long name and with its type. All is checked before
any job runs.
"""

from __future__ import annotations

import csv
import glob
import io
import json
import os
import re
import string
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from revseq_cli.commands import base
from revseq_cli.core import platform
from revseq_cli.core.errors import FormatError, RevseqError, UsageError, can_be_typed, listed, nearest, printable
from revseq_cli.formats import file_io
from revseq_cli.formats.references import Reference
from revseq_cli.formats.table import by_suffix, is_store, packing_of
from revseq_cli.formats.text import LARGEST
from revseq_cli.report.terminal import numbered

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    Cells = list[tuple[str, str]]  # the columns of a job, each with its text
    Rows = Iterator[tuple[int, Cells | FormatError]]  # the number of each job, and its columns or what is wrong
    Columns = Mapping[str, click.Parameter]

_EXAMPLE = 'one job per line, such as {"input": "x.npy", "lengths": "n.npy", "axis": 1, "output": "y.npy"}'
_RECORDS = 'with pandas: to_json(..., orient="records", lines=True)'
_SEPARATORS = ",;\t"  # of cells: Excel writes semicolons where a comma stands in numbers
_MOST_PROBLEMS = 20  # of a manifest that a message lists

# What stands in braces; the help of `batch` says what becomes of it.
PLACEHOLDERS = ("stem", "match", "name", "suffix", "parent", "sub", "path")
PATTERN, OUTPUT = platform.quoted("data/*.npy"), platform.quoted("out/{stem}.npy")  # examples, for hints


class ManifestError(RevseqError, ValueError):
    """All that is wrong with a manifest, of which no job is run."""

    def __init__(self, problems: Sequence[RevseqError]) -> None:
        super().__init__(f"{len(problems)} problems")
        self.problems = problems

    def parts(self) -> Sequence[RevseqError]:
        """The first 20 problems, and one that counts the rest."""
        more = len(self.problems) - _MOST_PROBLEMS
        rest = [RevseqError(f"and {more} more")] if more > 0 else []
        return [*self.problems[:_MOST_PROBLEMS], *rest]


class Entry(NamedTuple):
    """A job: its number, which is its line in a manifest; its options by the names of their parameters.

    `place` is what messages call it, "line 3". `output` and `inputs`, by their columns, are real paths.
    """

    line: int
    place: str
    options: dict[str, Any]
    output: str
    inputs: dict[str, str]


class Jobs(NamedTuple):
    """All jobs of a batch: `name` is the manifest's, and `noun` what messages call a job of it."""

    name: str
    noun: str
    entries: list[Entry]

    def place(self, lines: Sequence[int]) -> str:
        """What messages call these jobs: "jobs.csv: lines 2, 3 and 5 to 7 (5 jobs)"."""
        count = f" ({len(lines):,} jobs)" if lines[1:] else ""
        return f"{printable(self.name)}: {numbered(self.noun, lines)}{count}"


def read(path: str, parameters: Iterable[click.Parameter], defaults: dict[str, Any]) -> Jobs:
    """The jobs of a manifest, or of standard input for -; ManifestError with everything that is wrong."""
    try:
        text = Reference(path).text
    except FormatError as e:
        if e.found.startswith("is not text"):
            e.hint, e.wanted = "", f"a manifest: {e.wanted}"
        raise
    begin = text.text.lstrip()
    is_json = text.name.lower().endswith((".json", ".jsonl")) or begin.startswith(("{", "["))
    columns = _columns(parameters)
    is_csv = text.name.lower().endswith(".csv") or not is_json
    rows = _csv_rows(text.text, columns) if is_csv else _json_rows(text.text)
    own = platform.real_path(path) if text.identity else ""
    return Jobs(text.name, "line", _entries(rows, text.name, "line", columns, defaults, own))


def of_files(
    paths: Sequence[str], pattern: str, templates: dict[str, str], parameters: Iterable[click.Parameter],
    defaults: dict[str, Any],
) -> Jobs:  # fmt: skip
    """A job for each of these files: `templates` has the names of its other files, by their columns.

    `pattern` is the one that they match, which may end with ::key, or empty. What is an output, or the lengths, of
    another job is no input. UsageError for a wrong placeholder, and for two jobs with one output.
    """
    name = f"--each {platform.quoted(pattern)}" if pattern else "the list of names"
    for column, template in templates.items():
        _check_template(template, f"--{column}")
    key = pattern.partition("::")[1] + pattern.partition("::")[2]
    made: dict[str, dict[str, str]] = {}
    for path in paths:
        values = placeholders(path, pattern.partition("::")[0])
        # A name that looks like a typed tensor, or like standard input, is one of this folder.
        is_odd = path.lstrip().startswith("[") or path == "-"
        row = {column: template.format(**values) for column, template in templates.items()}
        made[path] = {"input": (os.path.join(os.curdir, path) if is_odd else path) + key, **row}  # noqa: PTH118
    users: dict[str, set[str]] = {}  # of each file that is an output or lengths: the inputs whose jobs have it
    for path, row in made.items():
        for column in templates:
            users.setdefault(platform.file_key(row[column].partition("::")[0]), set()).add(path)
    rows = {path: row for path, row in made.items() if not users.get(platform.file_key(path), set()) - {path}}
    writers: dict[str, str] = {}
    for path, row in rows.items():
        if (other := writers.setdefault(row["output"], path)) != path:
            found = f"-o {templates['output']} is {row['output']} for {other} and for {path}"
            raise UsageError(found, "an output for each file", f"try -o {OUTPUT}, or with {{sub}} or {{match}} in it")
    jobs: Rows = ((n, list(row.items())) for n, row in enumerate(rows.values(), 1))
    return Jobs(name, "job", _entries(jobs, name, "job", _columns(parameters), defaults))


def matching(pattern: str) -> list[str]:
    """The files and Zarr stores that match, in the order of their names."""
    found = sorted(glob.glob(pattern.partition("::")[0], recursive=True))  # noqa: PTH207 - as it was typed
    return [path for path in found if not os.path.isdir(path) or is_store(path)]  # noqa: PTH112


def names_in(path: str) -> list[str]:
    """The names in a file, or on standard input for -: one a line, or with a NUL behind each."""
    if path == "-":
        data = sys.stdin.buffer.read()
    else:
        with file_io.opened(path) as fd:
            data = file_io.read_some(fd, file_io.identity(fd).size, 0, path)
    names = data.split(b"\0") if b"\0" in data else data.splitlines()
    return [os.fsdecode(name) for name in names if name]


def placeholders(path: str, pattern: str) -> dict[str, str]:
    """What each placeholder becomes for a file that matches the pattern, which may be empty."""
    parent, name = os.path.split(path.rstrip(os.sep))
    compression = packing_of(name)
    packed = name[-len(compression.suffix) :] if compression else ""
    stem, suffix = os.path.splitext(name.removesuffix(packed))  # noqa: PTH122 - a string
    if packed and not by_suffix(name, reading=True):  # what stands before .gz says no format
        stem, suffix = stem + suffix, ""
    of_name = os.path.basename(pattern)  # noqa: PTH119
    before, after = re.split(r"[*?\[]", of_name)[0], re.split(r"[*?\]]", of_name)[-1]
    match = stem if before == of_name else name[len(before) : len(name) - len(after)]
    fixed = os.path.dirname(re.split(r"[*?\[]", pattern)[0]) if pattern else parent  # noqa: PTH120
    sub = os.path.relpath(parent or os.curdir, fixed or os.curdir)
    values = {"path": path, "parent": parent or os.curdir, "name": name, "stem": stem, "suffix": suffix + packed}
    return values | {"sub": sub, "match": match}


def _check_template(template: str, option: str) -> None:
    wanted = f"one of {listed(f'{{{name}}}' for name in PLACEHOLDERS)}; a brace itself is {{{{ or }}}}"
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as e:
        raise UsageError(f"{option} {template}: {e}", wanted) from None
    for _, name, spec, conversion in parts:
        if name is not None and (name not in PLACEHOLDERS or spec or conversion):
            whole = name + (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "")
            raise UsageError(f"{option} {template}: {{{whole}}} is not a placeholder", wanted)


def _columns(parameters: Iterable[click.Parameter]) -> Columns:
    return {max(each.opts, key=len).lstrip("-"): each for each in parameters}


def _entries(
    rows: Rows, name: str, noun: str, columns: Columns, defaults: dict[str, Any], own: str = ""
) -> list[Entry]:
    """The jobs of rows; `own` is the path of the manifest itself. ManifestError with all that is wrong."""
    entries: list[Entry] = []
    problems: list[RevseqError] = []
    try:
        for line, cells in rows:
            place = f"{noun} {line}"
            try:
                if isinstance(cells, FormatError):
                    raise cells
                entries.append(_entry(line, place, _parsed(cells, columns), defaults))
            except (FormatError, UsageError) as e:
                problems.append(FormatError(f"{place}: {e.found}", e.wanted, e.hint))
    except FormatError as e:  # after which no row can be read
        problems.append(e)
    problems += _conflicts(entries, own)
    if not entries and not problems:
        problems.append(FormatError("contains no job", _EXAMPLE))
    if problems:
        raise ManifestError([each.about(name) for each in problems])
    return entries


def _json_rows(text: str) -> Rows:
    for line, raw in enumerate(text.split("\n"), 1):  # not splitlines, which also cuts inside strings
        if raw.strip():
            yield line, _json_row(raw)


def _json_row(raw: str) -> Cells | FormatError:
    """The columns of a line of JSON; numbers stay text, which the types of options read."""
    hint = _RECORDS if raw.lstrip().startswith("[") else ""
    try:
        row = json.loads(raw, parse_int=str, parse_float=str, parse_constant=str, object_pairs_hook=tuple)
    except json.JSONDecodeError as e:
        return FormatError(f"is not JSON: {e.msg}, column {e.pos + 1}", _EXAMPLE, hint)
    except RecursionError:
        row = None
    if not isinstance(row, tuple):
        return FormatError(f"is not a JSON object{', but a list' if hint else ''}", _EXAMPLE, hint)
    for name, value in row:
        if isinstance(value, tuple):
            return FormatError(f"{name} is an object", "text, a number, true or false", _RECORDS)
        if isinstance(value, list):
            return FormatError(f"{name} is a list", "text, a number, true or false", 'a tensor is text: "[[2], [4]]"')
    texts = ((name, str(value).lower() if isinstance(value, bool) else value) for name, value in row)
    return [(name, text) for name, text in texts if text is not None]


def _csv_rows(text: str, columns: Columns) -> Rows:
    csv.field_size_limit(LARGEST)  # a cell may be a whole tensor
    first = re.split(r"[\r\n]", text.lstrip(), maxsplit=1)[0]
    separator = next((each for each in _SEPARATORS if each in first), ",")
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    header: list[str] = []
    line = 1
    try:
        for cells in rows:
            if not header:
                header = [cell.strip() for cell in cells]
                if header:
                    _check(header, columns)
            elif cells and len(cells) != len(header):
                yield line, FormatError(f"has {len(cells)} cells", f"{len(header)}, as the first line has")
            elif cells:
                yield line, [(name, cell) for name, cell in zip(header, cells, strict=True) if cell]
            line = rows.line_num + 1  # a cell may hold line breaks
    except csv.Error as e:
        raise FormatError(f"line {line}: is not CSV: {e}") from None
    except FormatError as e:
        raise FormatError(f"line {line}: {e.found}", e.wanted, e.hint) from None


def _check(names: Sequence[str], columns: Columns) -> None:
    """FormatError for a column that is unknown or there twice, and for a job without input or output."""
    plain = [_plain(name) for name in names]
    for i, name in enumerate(plain):
        if name not in columns:
            is_index = not i and (name in ("", "index") or name.startswith("Unnamed:"))
            hint = "pandas wrote its index here: use to_csv(..., index=False)" if is_index else ""
            like = nearest(name, columns) or "input, lengths, axis, output"
            raise FormatError(f"unknown column {names[i][:40]!r}", f"{like}, or another of revseq batch --help", hint)
        if name in plain[:i]:
            raise FormatError(f"column {name} appears twice", "each column once")
    for name in ("input", "output"):
        if name not in plain:
            raise FormatError(f"no {name}", "an input and an output for every job")


def _parsed(cells: Cells, columns: Columns) -> dict[str, Any]:
    """The options of a job by the names of their parameters, parsed by their types."""
    _check([name for name, _ in cells], columns)
    options: dict[str, Any] = {}
    context = click.get_current_context()
    for name, text in cells:
        if not can_be_typed(text):
            raise FormatError(f"{name}: {text[:40]!r} contains bytes that are not text")
        column = columns[_plain(name)]
        try:
            options[str(column.name)] = column.type_cast_value(context, text)
        except click.BadParameter as e:
            raise UsageError(f"{name}: {base.message_of_click(e.message)}") from None
    return options


def _plain(name: str) -> str:
    """The name of a column with - for _, as options have it."""
    return name.strip().replace("_", "-")


def _entry(line: int, place: str, options: dict[str, Any], defaults: dict[str, Any]) -> Entry:
    """The job with these options; UsageError if one of its files is a pipe, or is where the messages go."""
    output = Reference.file(options["output"])
    inputs: dict[str, Reference] = {}
    for name in ("input", "lengths"):
        if name in options:
            inputs[name] = Reference.input(options[name])
    for name, reference in [*inputs.items(), ("output", output)]:
        if reference.is_piped:
            raise UsageError(f"{name} is {reference.path}, a pipe", "a file: the jobs of a batch share no pipe")
    paths = {name: platform.real_path(each.path) for name, each in inputs.items() if each.inline is None}
    for path in paths.values():
        if os.path.isfile(path):  # noqa: PTH113 - a manifest may have any text
            file_io.refuse_stream(os.stat(path), path)  # noqa: PTH116
    return Entry(line, place, defaults | options, platform.real_path(output.path), paths)


def _conflicts(entries: list[Entry], own: str) -> Iterator[RevseqError]:
    """The errors of outputs that are the manifest or another job's output, and of inputs that a job writes."""
    writers: dict[str, Entry] = {}
    for entry in entries:
        writers.setdefault(platform.name_key(entry.output), entry)
    for entry in entries:
        output = entry.options["output"]
        if own and platform.name_key(entry.output) == platform.name_key(own):
            yield FormatError(f"{entry.place}: its output {output} is the manifest itself", "another name")
        above = os.path.dirname(entry.output)  # noqa: PTH120 - a string
        for other in (_writer(entry.output, writers), _writer(above, writers)):
            if other not in (None, entry):
                found = f"{entry.place}: its output {output} is that of {other.place}"
                yield FormatError(found, "a different output for every job")
                break
        for name, path in entry.inputs.items():
            writer = _writer(path, writers)
            found = f"{entry.place}: its {name} {entry.options[name]}"
            if writer is entry:
                yield FormatError(f"{found} is its output, too", "another file: there is no in-place execution")
            elif writer:
                hint = "put the later job into a second manifest"
                yield FormatError(f"{found} is the output of {writer.place}", "inputs that no job writes", hint)


def _writer(path: str, writers: Mapping[str, Entry]) -> Entry | None:
    """The job whose output is that real path, or a folder above it."""
    key = platform.name_key(path)
    while key not in writers:
        key, below = os.path.dirname(key), key  # noqa: PTH120 - strings are faster
        if key == below:
            return None
    return writers[key]
