"""`batch --each`: a job for each file that matches a pattern, with names that are made from the file's."""

from __future__ import annotations

import glob
import json
import os
import re
import string
import zlib

from revseq_cli.commands.manifest import SUFFIX
from revseq_cli.formats.documents import Text
from revseq_cli.formats.recognition import is_store
from revseq_cli.formats.table import by_suffix, packing_of
from revseq_cli.ground import system
from revseq_cli.ground.errors import UsageError, listed

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


def jobs(pattern: str, templates: dict[str, str]) -> Text:
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


def told(found: str, pattern: str) -> str:
    """What each placeholder is for a file that matches the pattern, for a hint."""
    values = _values(found, pattern.partition("::")[0])
    return f"for {found}, {listed(f'{{{name}}} is {each}' for name, each in values.items())}"


def _fixed(pattern: str) -> str:
    """The folder before the first wildcard."""
    return os.path.dirname(re.split(r"[*?\[]", pattern)[0])  # noqa: PTH120 - a string


def _values(path: str, pattern: str) -> dict[str, str]:
    """What each placeholder becomes for a file that matches the pattern."""
    parent, name = os.path.split(path.rstrip(os.sep))
    packing = packing_of(name)
    packed = name[-len(packing.suffix) :] if packing else ""
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
            raise UsageError(f"{option} {template}: {{{whole}}} is no placeholder", wanted)
    return [(text, name or "") for text, name, _, _ in parts]
