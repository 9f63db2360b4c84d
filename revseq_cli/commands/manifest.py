"""Manifests of `batch` and `diff`, in JSON lines or CSV, and those that `--each` makes.

A column is an argument or an option of a command, by its long name and with its parser. All is checked before any job
runs.
"""

from __future__ import annotations

import csv
import functools
import glob
import io
import json
import os
import re
import string
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from revseq_cli.commands import base
from revseq_cli.core import system
from revseq_cli.core.errors import FormatError, RevseqError, UsageError, can_be_typed, listed, printable
from revseq_cli.formats import file_io
from revseq_cli.formats.documents import Text
from revseq_cli.formats.recognition import is_store
from revseq_cli.formats.references import Reference
from revseq_cli.formats.table import by_suffix, packing_of
from revseq_cli.formats.textfiles import LARGEST
from revseq_cli.report.results import Outcome
from revseq_cli.report.words import numbered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from revseq_cli.formats.file_io import Identity

_EXAMPLE = '{"input": "x.npy", "lengths": "n.npy", "axis": 1, "output": "y.npy"}'
_RECORDS = 'with pandas: to_json(..., orient="records", lines=True)'
_TENSOR_TEXT = 'a tensor is text: "[[2], [4]]"'
JSON_SUFFIXES = (".jsonl", ".json")
_SEPARATORS = ",;\t"  # of cells: Excel writes semicolons where a comma stands in numbers
_TENSORS = ("input", "lengths")
SUFFIX = ".revseq-journal"
_MOST_PROBLEMS = 20  # of a manifest that a message lists
_WHOLE = re.compile(r"(-?\d+)\.0+")  # an integer as pandas writes it in a column that lacks some

# The columns of one job with their texts, as the manifest has them.
Pairs = list[tuple[str, str]]
# What stands in braces, and what becomes of it for data/a/x.npy and the pattern data/**/*.npy.
PLACEHOLDERS = {
    "path": "the whole path: data/a/x.npy",
    "parent": "its folder: data/a",
    "name": "the name: x.npy",
    "stem": "the name without its suffix, which is .npy.gz of x.npy.gz: x",
    "suffix": "the suffix: .npy",
    "sub": "the folders that ** or another wildcard matched: a",
}
PATTERN, OUTPUT = system.quoted("data/*.npy"), system.quoted("out/{stem}.npy")  # examples, for hints


class ManifestError(RevseqError, ValueError):
    """All that is wrong with a manifest, of which no job is run."""

    def __init__(self, problems: tuple[RevseqError, ...]) -> None:
        super().__init__(f"{len(problems)} problems")
        self.problems = problems

    def parts(self) -> Sequence[RevseqError]:
        """The first 20 problems, and one that counts the rest."""
        more = len(self.problems) - _MOST_PROBLEMS
        rest = [RevseqError(f"and {more} more")] if more > 0 else []
        return [*self.problems[:_MOST_PROBLEMS], *rest]


class Column(NamedTuple):
    """A column of a manifest: its key in an Entry's options, and its parser, which raises UsageError."""

    key: str
    parse: Callable[[str], Any]


class Entry(NamedTuple):
    """A job of a manifest: its line, its options, the real path of its output, and those of input and lengths.

    `place` is what messages call its line, and `columns` has the texts of the manifest's columns.
    """

    line: int
    options: dict[str, Any]
    output: str
    inputs: dict[str, str]
    place: str
    columns: dict[str, str]

    def outcome(self, error: RevseqError | None = None, **told: Any) -> Outcome:
        """The result of the job: the error that ended it, or what is told of it by the names of Outcome's fields."""
        return Outcome(self.line, self.options["output"], error, **told)


class Manifest(NamedTuple):
    """A manifest that was read: its jobs, and what separates the cells of CSV, or nothing in JSON lines.

    `noun` is what messages call a line. `pattern` is that of --each. `journal` is where the journal is by default, if
    it has a place.
    """

    text: Text
    entries: list[Entry]
    separator: str
    noun: str
    pattern: str = ""
    journal: str = ""

    def place(self, lines: Sequence[int]) -> str:
        """What messages call these lines, in the manifest: "jobs.csv: lines 2, 3 and 5 to 7 (5 jobs)"."""
        count = f" ({len(lines):,} jobs)" if lines[1:] else ""
        return f"{printable(self.text.name)}: {numbered(self.noun, lines)}{count}"

    def require_free(self, path: str, what: str) -> None:
        """UsageError if a file that the batch itself writes, at this real path, is the manifest or one of its jobs'."""
        key = system.name_key(path)
        if self.text.identity and key == system.file_key(self.text.name):
            raise UsageError(f"{what} would be the manifest itself", "another name", where=path)
        for entry in self.entries:
            if key in map(system.name_key, (entry.output, *entry.inputs.values())):
                raise UsageError(f"{what} would be a file of {entry.place}", "another name", where=path)

    def part(self, lines: set[int], defaults: Mapping[str, str]) -> str:
        """The manifest of the jobs of these lines, in the same format, with the defaults as columns."""
        rows = [with_defaults(each.columns, defaults) for each in self.entries if each.line in lines]
        if not self.separator:
            return "".join(f"{json.dumps(row)}\n" for row in rows)
        stream = io.StringIO(newline="")
        names = list(dict.fromkeys(name for row in rows for name in row))
        writer = csv.DictWriter(stream, names, delimiter=self.separator, lineterminator="\n")
        if rows:
            writer.writeheader()
        writer.writerows(rows)
        return stream.getvalue()


def with_defaults(row: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """A job with the defaults, but without theirs of a scheduler if it names one in either way."""
    names = {"scheduler", "scheduler-file", "scheduler_file"}
    dropped = names if names & row.keys() else set()
    return {**row, **{name: each for name, each in defaults.items() if name not in row and name not in dropped}}


def refuse_streams(entries: list[Entry]) -> None:
    """TensorIOError if standard output or standard error is a job's input, or a file in a store that is one."""
    if not file_io.stream_inodes():
        return
    for path in {path for entry in entries for path in entry.inputs.values()}:
        if os.path.isdir(path):  # noqa: PTH112 - a manifest may have any text
            from revseq_cli.formats.zarr import source

            source.refuse_streams(path)
        elif os.path.exists(path):  # noqa: PTH110
            file_io.refuse_stream(os.stat(path), path)  # noqa: PTH116


def separator_of(text: Text) -> str:
    """What separates the cells of a manifest: nothing in JSON lines, by the suffix or the first character.

    JSON begins with a brace or, by mistake, with a bracket.
    """
    suffix, start = Path(text.name).suffix.lower(), text.text.lstrip()
    if suffix in JSON_SUFFIXES or (suffix != ".csv" and start.startswith(("{", "["))):
        return ""
    first = re.split(r"[\r\n]", start, maxsplit=1)[0]
    return next((each for each in _SEPARATORS if each in first), ",")


def columns_of(parameters: Iterable[click.Parameter]) -> dict[str, Column]:
    """The columns for these options and arguments, by their long names, with their parsers."""
    context = click.get_current_context()

    def parsed(parameter: click.Parameter, word: str) -> Any:
        if isinstance(parameter.type, (click.types.IntParamType, click.IntRange)) and (whole := _WHOLE.fullmatch(word)):
            word = whole[1]
        try:
            return parameter.type_cast_value(context, word)
        except click.BadParameter as e:
            raise UsageError(base.message_of_click(e.message)) from None

    return {
        base.long_name(each).lstrip("-"): Column(str(each.name), functools.partial(parsed, each)) for each in parameters
    }


def read(path: str, columns: Mapping[str, Column], target: str = "output") -> Manifest:
    """The jobs of the manifest in that file."""
    try:
        text = Reference(path).text
    except FormatError as e:
        if e.found.startswith("is not text"):
            e.wanted, e.hint = f"a manifest: {e.wanted}", ""  # it is about a tensor
        raise
    return parse(text, columns, separator_of(text), target=target)


def parse(
    text: Text, columns: Mapping[str, Column], separator: str, noun: str = "line", target: str = "output"
) -> Manifest:
    """The jobs of a manifest; ManifestError with everything that is wrong with it. `noun` is what messages count.

    `target` is the column that each job has beside its input: what it writes, or else what is only read.
    """
    entries: list[Entry] = []
    problems: list[RevseqError] = []
    for line, row in _csv_rows(text, columns, separator, target) if separator else _json_rows(text):
        place = f"{noun} {line}"
        try:
            pairs = row()
            named = {_plain(name): each for name, each in pairs}
            entries.append(_entry(line, place, named, _options(pairs, columns, target), target))
        except (FormatError, UsageError) as e:
            problems.append(FormatError(f"{place}: {e.found}", e.wanted, e.hint))
    problems += _conflicts(entries, text) if target == "output" else ()
    if not entries and not problems:
        example = _EXAMPLE.replace("output", target)
        problems.append(FormatError("contains no job", f"one job per line, such as {example}"))
    if problems:
        raise ManifestError(tuple(each.about(text.name) for each in problems))
    return Manifest(text, entries, separator, noun, journal=f"{text.name}{SUFFIX}" if text.identity else "")


def _json_rows(text: Text) -> Iterator[tuple[int, Callable[[], Pairs]]]:
    """The lines of JSON lines, each with a function that reads its job."""
    for line, raw in enumerate(text.text.split("\n"), 1):  # not splitlines, which also cuts inside strings
        if raw.strip():
            yield line, functools.partial(_json_row, raw)


def _json_row(raw: str) -> Pairs:
    """A job from a line of JSON; numbers stay text, so that the parsers for CSV read them, too."""
    wanted = f"one job per line, such as {_EXAMPLE}"
    hint = _RECORDS if raw.lstrip().startswith("[") else ""
    try:
        row = json.loads(raw, parse_int=str, parse_float=str, parse_constant=str, object_pairs_hook=tuple)
    except json.JSONDecodeError as e:
        raise FormatError(f"is not JSON: {e.msg}, column {e.pos + 1}", wanted, hint) from None
    except RecursionError:
        row = None
    if not isinstance(row, tuple):
        raise FormatError(f"is not a JSON object{', but a list' if hint else ''}", wanted, hint)
    return [(name, _text(name, value)) for name, value in row if value is not None]


def _text(name: str, value: object) -> str:
    """A JSON value as the text that an option takes; FormatError for a list or an object."""
    match value:
        case str():
            return value
        case bool():
            return str(value).lower()
        case _:
            kind, hint = ("an object", _RECORDS) if isinstance(value, tuple) else ("a list", _TENSOR_TEXT)
            raise FormatError(f"{name} is {kind}", "text, a number, true or false", hint)


def _csv_rows(
    text: Text, columns: Mapping[str, Column], separator: str, target: str
) -> Iterator[tuple[int, Callable[[], Pairs]]]:
    """The rows of CSV, as those of JSON; FormatError for a wrong header or quote, after which no row can be read."""
    csv.field_size_limit(LARGEST)  # a cell may be a whole tensor
    rows = csv.reader(io.StringIO(text.text, newline=""), delimiter=separator, strict=True)
    header: list[str] = []
    line = 1
    try:
        for cells in rows:
            if header and cells:
                yield line, functools.partial(_csv_row, header, cells)
            elif cells:
                header = [cell.strip() for cell in cells]
                _check(header, columns, target)
            line = rows.line_num + 1  # a cell may hold line breaks
    except csv.Error as e:
        raise FormatError(f"line {line}: is not CSV: {e}", where=text.name) from None
    except FormatError as e:
        raise FormatError(f"line {line}: {e.found}", e.wanted, e.hint, text.name) from None


def _csv_row(header: list[str], cells: list[str]) -> Pairs:
    """A job from a row of CSV; an empty cell leaves its option out."""
    if len(cells) != len(header):
        raise FormatError(f"has {len(cells)} cells", f"{len(header)}, as the first line has")
    return [(name, cell) for name, cell in zip(header, cells, strict=True) if cell]


def _options(pairs: Pairs, columns: Mapping[str, Column], target: str) -> dict[str, Any]:
    """The parsed options of a job, by their keys."""
    options: dict[str, Any] = {}
    _check([name for name, _ in pairs], columns, target)
    for name, text in pairs:
        if not can_be_typed(text):
            raise FormatError(f"{name}: {text[:40]!r} contains bytes that are not text")
        column = columns[_plain(name)]
        try:
            options[column.key] = column.parse(text)
        except UsageError as e:
            raise UsageError(f"{name}: {e.found}", e.wanted, e.hint) from None
    return options


def _check(names: list[str], columns: Mapping[str, Column], target: str) -> None:
    """FormatError for a column that is unknown or there twice, and for a job without input or target."""
    plain = [_plain(name) for name in names]
    for i, name in enumerate(plain):
        if name not in columns:
            is_index = not i and (name in ("", "index") or name.startswith("Unnamed:"))
            hint = "pandas wrote its index here: use to_csv(..., index=False)" if is_index else ""
            raise FormatError(f"unknown column {names[i][:40]!r}", f"one of {listed(columns, 99)}", hint)
        if name in plain[:i]:
            raise FormatError(f"column {name} appears twice", "each column once")
    for name in ("input", target):
        if name not in plain:
            raise FormatError(f"no {name}", f"an input and an {target} for every job")


def _plain(name: str) -> str:
    """The name of a column with - for _, as options have it."""
    return name.strip().replace("_", "-")


def _entry(line: int, place: str, columns: dict[str, str], options: dict[str, Any], target: str) -> Entry:
    """The job with these options; UsageError if one of its files is -."""
    output = (Reference.file if target == "output" else Reference.input)(options[target])
    inputs = {name: Reference.input(options[name]) for name in _TENSORS if name in options}
    for name, reference in {**inputs, target: output}.items():
        if reference.is_piped:
            raise UsageError(f"{name} is {reference.path}, a pipe", "a file: the jobs of a batch share no pipe")
    paths = {name: system.real_path(each.path) for name, each in inputs.items() if each.inline is None}
    return Entry(line, options, system.real_path(output.path), paths, place, columns)


class Writers:
    """Which job writes a path. An output may be a folder, and is then written with all that is in it."""

    def __init__(self, entries: list[Entry]) -> None:
        self._entries: dict[str, Entry] = {}
        for entry in entries:
            self._entries.setdefault(system.name_key(entry.output), entry)

    def of(self, path: str) -> Entry | None:
        """The job whose output is that real path or a folder above it; None if there is none."""
        key = system.name_key(path)
        while key not in self._entries:
            key, below = os.path.dirname(key), key  # noqa: PTH120 - strings are faster
            if key == below:
                return None
        return self._entries[key]

    def refusal(self, what: str, path: str, entry: Entry) -> FormatError | None:
        """The error if a job writes `what`, an input of that job at `path`, since jobs run in any order; else None."""
        writer = self.of(path)
        if not writer:
            return None
        if writer.line == entry.line:
            wanted = "another file: there is no in-place execution, as in DirectML"
            return FormatError(f"{entry.place}: {what} is its output, too", wanted, "give the output another name")
        found, hint = f"{what} is the output of {writer.place}", "put the later job into a second manifest"
        return FormatError(f"{entry.place}: {found}", "inputs that no job of the batch writes", hint)


def _conflicts(entries: list[Entry], manifest: Text) -> Iterator[RevseqError]:
    """The errors of outputs that are the manifest or another job's output, and of inputs that a job writes."""
    writers = Writers(entries)
    for entry in entries:
        output, above = entry.options["output"], os.path.dirname(entry.output)  # noqa: PTH120 - a string
        if _is_at(entry.output, manifest.identity):
            yield FormatError(f"{entry.place}: its output {output} is the manifest itself", "another name")
        for other in (writers.of(entry.output), writers.of(above)):
            if other not in (None, entry):
                found = f"{entry.place}: its output {output} is that of {other.place}"
                yield FormatError(found, "a different output for every job")
                break
    for entry in entries:
        for name, path in entry.inputs.items():
            if error := writers.refusal(f"its {name} {entry.options[name]}", path, entry):
                yield error


def _is_at(path: str, identity: Identity | None) -> bool:
    try:
        return identity is not None and identity.names(os.stat(path))  # noqa: PTH116 - it may be too long for a path
    except OSError:
        return False


def each_file(pattern: str, templates: dict[str, str]) -> Text:
    """A manifest in JSON lines: a job for each file or Zarr store that matches, in the order of the names.

    `pattern` may end with ::key. `templates` has the names with placeholders of a job's other files, by their columns.
    """
    pieces = {column: _pieces(template, f"--{column}") for column, template in templates.items()}
    path, separator, key = pattern.partition("::")
    rows = []
    for found in sorted(glob.glob(path, recursive=True)):  # noqa: PTH207 - as it was typed
        if os.path.isdir(found) and not is_store(found):  # noqa: PTH112 - a string
            continue
        values = _values(found, path)
        # A name that looks like a typed tensor, or like standard input, is one of this folder.
        is_odd = found.lstrip().startswith("[") or found == "-"
        row = {"input": (os.path.join(os.curdir, found) if is_odd else found) + separator + key}  # noqa: PTH118 - a string
        for column, parts in pieces.items():
            row[column] = "".join(text + values.get(name, "") for text, name in parts)
        rows.append(json.dumps(row))
    if not rows:
        raise UsageError("no file matches", f"a pattern such as {PATTERN}", where=f"--each {system.quoted(pattern)}")
    return Text(f"--each {system.quoted(pattern)}", "\n".join(rows))


def journal(pattern: str, output: str) -> str:
    """Where the journal is: beside the outputs, with the name that they have in common, and a digest of the pattern.

    The folder is the one that all outputs are in or below, whichever files match.
    """
    first, *rest = _pieces(output.partition("::")[0], "--output")
    text, placeholder = first
    if not text and placeholder in ("path", "parent"):
        text = os.path.join(_fixed(pattern.partition("::")[0]), "")  # noqa: PTH118 - a string
    folder, begin = os.path.split(text)
    names = [begin, f"{{{placeholder}}}" if placeholder else "", *(f"{each}{{{name}}}" for each, name in rest)]
    name = "".join(names).replace("{}", "").replace("/", "-").replace(os.sep, "-")
    digest = zlib.crc32(os.fsencode(pattern))  # batches over other patterns have journals of their own
    return os.path.join(folder, f".{name}-{digest:08x}{SUFFIX}")  # noqa: PTH118 - a string


def placeholders(found: str, pattern: str) -> str:
    """What each placeholder is for a file that matches the pattern, for a hint."""
    values = _values(found, pattern.partition("::")[0])
    return f"for {found}, {listed(f'{{{name}}} is {each}' for name, each in values.items())}"


def _fixed(pattern: str) -> str:
    """The folder before the first wildcard."""
    return os.path.dirname(re.split(r"[*?\[]", pattern)[0])  # noqa: PTH120 - a string


def _values(path: str, pattern: str) -> dict[str, str]:
    """What each placeholder becomes for a file that matches the pattern."""
    parent, name = os.path.split(path.rstrip(os.sep))
    compression = packing_of(name)
    packed = name[-len(compression.suffix) :] if compression else ""
    stem, suffix = os.path.splitext(name.removesuffix(packed))  # noqa: PTH122 - a string
    if packed and not by_suffix(name, reading=True):  # what stands before .gz says no format
        stem, suffix = stem + suffix, ""
    suffix += packed
    sub = os.path.relpath(parent or os.curdir, _fixed(pattern) or os.curdir)
    return {"path": path, "parent": parent or os.curdir, "name": name, "stem": stem, "suffix": suffix, "sub": sub}


def _pieces(template: str, option: str) -> list[tuple[str, str]]:
    """The template as texts, each with the placeholder behind it or nothing; UsageError for a wrong one."""
    wanted = f"one of {listed('{' + each + '}' for each in PLACEHOLDERS)}; a brace itself is {{{{ or }}}}"
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as e:
        raise UsageError(f"{option} {template}: {e}", wanted) from None
    for _, name, spec, conversion in parts:
        if name is not None and (name not in PLACEHOLDERS or spec or conversion):
            whole = name + (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "")
            raise UsageError(f"{option} {template}: {{{whole}}} is not a placeholder", wanted)
    return [(text, name or "") for text, name, _, _ in parts]
