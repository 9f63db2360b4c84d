"""Standard output and standard error: whether they are terminals, whether they get colour, and which format."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, TextIO

from revseq_cli.formats import table
from revseq_cli.ground import system
from revseq_cli.ground.errors import UsageError

if TYPE_CHECKING:
    from revseq_cli.formats.table import Format


def colored(color: str, stream: TextIO) -> bool:
    """Whether a stream gets colour, by the value of --color, NO_COLOR, FORCE_COLOR and the terminal, in that order."""
    if color != "auto":
        return color == "always"
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (stream.isatty() and os.environ.get("TERM") != "dumb")


def is_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout.isatty()


def printed_format(format_name: str | None, to_name: str, output: str) -> Format:
    """The format for standard output, text for None.

    UsageError for one that needs a file, and for binary on a terminal, with the hint `to_name`: how to name a file; and
    for a file that a shell's > names after another format than text, which is not asked for. `output` says how to name
    a file {}.
    """
    if format_name is None:
        _refuse_redirection(system.name_behind(1), output)
    row = table.named(format_name) or table.TEXT
    if not row.prints:
        printing = "|".join(each.name for each in table.FORMATS if each.prints)
        raise UsageError(f".{row.name} cannot be written to a pipe", f"a file, or -f {printing}", to_name)
    if not row.is_text and is_terminal():
        raise UsageError("a terminal takes no binary", "a pipe or a file", f"{to_name}, or add | and a command")
    return row


def _refuse_redirection(path: str, output: str) -> None:
    """UsageError where a shell's > sends standard output to a file that would be text under another format's suffix."""
    row = table.by_suffix(path)
    if row is None or row.is_shown:
        return
    name = os.path.relpath(path)
    hint = f"use {output.format(system.quoted(name))} --overwrite, and no >"  # the shell has made the file
    if row.prints and not table.packing_of(path):
        hint = f"add -f {row.name}"
    raise UsageError("standard output goes there, and would be text", f"the format {row.name}", hint, name)
