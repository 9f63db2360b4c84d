"""A job for each file that matches a pattern, or that a list names; templates name its files."""

from __future__ import annotations

import itertools
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from revseq_cli import files
from revseq_cli.commands.entries import Columns, Jobs, make_entries
from revseq_cli.core import platform
from revseq_cli.core.errors import UsageError, about, join_names
from revseq_cli.formats.table import find_compression, is_store

# Examples, for hints.
PATTERN = platform.quote("data/*.npy")
OUTPUT = platform.quote("out/{stem}.npy")


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


def make_jobs(
    paths: Sequence[str],
    pattern: str,
    templates: dict[str, str | None],
    columns: Columns,
    defaults: dict[str, Any],
) -> Jobs:
    """A job for each of these files.

    `templates` has the templates of the columns lengths and output. `pattern` is the one that the
    files match, which may end with ::key; it is empty for a list of names. A file that is the
    output or the lengths of another job is not an input. UsageError for a wrong placeholder, and
    for two jobs with one output.
    """
    file_pattern, colons, key = pattern.partition("::")
    resolve = files.make_resolver()

    def key_of_file(name: str) -> str:
        return files.name_key(resolve(name.partition("::")[0]))

    rows: dict[str, dict[str, str]] = {}
    used = set[str]()
    for path in paths:
        names = _fill_templates(templates, find_placeholders(path, file_pattern))
        rows[path] = {"input": _as_file_name(path) + colons + key, **names}
        others = set(map(key_of_file, names.values()))
        others.discard(key_of_file(path))  # a job that writes its own input is refused later
        used |= others
    jobs = {path: row for path, row in rows.items() if key_of_file(path) not in used}
    if len({row["output"] for row in jobs.values()}) < len(jobs):
        template = str(templates["output"])
        hint = _hint_for_outputs(template, [*jobs], file_pattern)
        raise UsageError(f"-o {template} is one file for several inputs", hint=hint)
    name = f"--each {platform.quote(pattern)}" if pattern else "the list of names"
    with about(name):
        numbered = enumerate(jobs.values(), 1)
        return Jobs(name, "job", make_entries(numbered, "job", columns, defaults))


def _as_file_name(path: str) -> str:
    """The path, in a form that is not taken for a typed tensor or for standard input."""
    if path == "-" or path.lstrip().startswith("["):
        return f"{os.curdir}{os.sep}{path}"
    return path


def find_placeholders(path: str, pattern: str) -> dict[str, str]:
    """What each placeholder becomes for a file that matches the pattern, which may be empty.

    For in/s1.npy.gz and in/s*.npy.gz, stem is s1, match is 1, name is s1.npy.gz, suffix is .npy.gz,
    and parent is in.
    """
    parent, name = os.path.split(path.rstrip(os.sep))
    compression = find_compression(name)
    compressed = name[-len(compression.suffix) :] if compression else ""
    stem, suffix = os.path.splitext(name.removesuffix(compressed))
    name_pattern = os.path.basename(pattern)
    match = stem
    # What is before the first wildcard, and after the last one, is the same in the name.
    before = re.split(r"[*?\[]", name_pattern)[0]
    after = re.split(r"[*?\]]", name_pattern)[-1]
    has_wildcard = before != name_pattern
    if has_wildcard:
        match = name[len(before) : len(name) - len(after)]
    return {
        "stem": stem,
        "match": match,
        "name": name,
        "suffix": suffix + compressed,
        "parent": parent or os.curdir,
    }


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


def _hint_for_outputs(template: str, paths: Sequence[str], file_pattern: str) -> str:
    """A hint to use a template that gives each input its own output; "" if none does.

    The placeholders are tried in turn, each in the folder of the template, then in the folder out.
    """
    suffix = os.path.splitext(template)[1]
    before = template.partition("{")[0]
    folder = os.path.dirname(before)
    if not suffix:
        # It names a folder, and outputs get the suffixes of the inputs.
        folder = before
        suffix = "{suffix}"
    inputs = set(map(os.path.normpath, paths))
    names = ("{stem}", "{match}", "{name}", "{parent}/{stem}", "{parent}/{name}")
    values = [find_placeholders(path, file_pattern) for path in paths]
    for name, parent in itertools.product(names, (folder, "out")):
        other = os.path.join(parent, name + suffix)
        outputs = {other.format(**of_input) for of_input in values}
        overwrites_input = not inputs.isdisjoint(map(os.path.normpath, outputs))
        # For x.npy and the pattern x*.npy, {match} is empty, and {match}.npy would be .npy.
        has_empty_name = any(not os.path.basename(name.format(**of_input)) for of_input in values)
        if overwrites_input or has_empty_name:
            continue
        if len(outputs) == len(paths):
            return f"to name a file for each input, use -o {platform.quote(other)}"
    return ""
