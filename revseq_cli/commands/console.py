"""What a command prints beside its result; where it uses colour, and what standard output takes."""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

import click

from revseq_cli.formats import table
from revseq_cli.ground import stopping, system
from revseq_cli.ground.errors import UsageError, printable
from revseq_cli.report.words import spelled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from revseq_cli.formats.contract import FileSink
    from revseq_cli.formats.table import Format
    from revseq_cli.ground.errors import Advice
    from revseq_cli.passes.arrangement import Arrangement
    from revseq_cli.report.view import Marks


@dataclass(frozen=True)
class Console:
    """What the command prints beside its result, on standard error, and its use of colour."""

    as_json: bool
    quiet: bool
    verbose: int
    color: str

    def detail(self, text: str) -> None:
        """Print lines about what is done, if -v is given."""
        if self.verbose and not self.quiet:
            click.echo("\n".join(map(printable, text.split("\n"))), file=sys.stderr)

    def note(self, *texts: str | Advice) -> None:
        """Print notes, for example on what the result lacks, unless -q is given."""
        for text in () if self.quiet else texts:
            click.echo(printable(f"Note: {spelled(text)}"), file=sys.stderr)

    @contextlib.contextmanager
    def writing(self, sink: FileSink, arrangement: Arrangement, *, verify: bool) -> Iterator[None]:
        """Print what there is to say of a new file that is written inside; also what became of it after a signal."""
        path = sink.file.name
        before = _state(path)
        with stopping.deferred():
            try:
                if self.verbose and arrangement.engine.remote:
                    self.detail(f"dashboard              {arrangement.engine.load().of(arrangement).dashboard}")
                yield
            except stopping.Stopped:
                after = _state(path)
                fate = "was not written" if after is None else "is unchanged" if after == before else "is complete"
                self.note(f"stopped; {path} {fate}")
                raise
        self.note(*sink.notes)
        self.detail(f"wrote {path}{', and verified it' if verify else ''}")

    @property
    def marks(self) -> Marks | None:
        """How printed tensors highlight elements; None for no highlights, as in a pipe, which a program may read."""
        from revseq_cli.report import view

        if self.color == "always":
            return view.COLORED
        if self.color == "never" or not is_terminal() or os.environ.get("TERM") == "dumb":
            return None
        return view.COLORED if self.colored else view.UNCOLORED

    @property
    def colored(self) -> bool:
        """Whether standard output gets colour, by --color, NO_COLOR, FORCE_COLOR and the terminal, in that order."""
        return colored(self.color, sys.stdout)

    @property
    def paints_errors(self) -> bool:
        """The same of standard error."""
        return colored(self.color, sys.stderr)


def _state(path: str) -> tuple[int, int] | None:
    """What tells a file from the one that replaces it; None where there is none."""
    try:
        status = os.stat(path)  # noqa: PTH116 - a string
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def notes_of_libraries() -> tuple[str, ...]:
    """Notes on environment variables that were ignored, if HDF5 was loaded."""
    library = sys.modules.get("revseq_cli.formats.hdf5.library")
    return tuple(library.notes) if library else ()


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
