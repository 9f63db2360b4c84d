"""What a command prints next to its result: notes, errors and reports, and with which colours."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from math import inf
from typing import TYPE_CHECKING, TextIO

import click

from revseq_cli.core import platform
from revseq_cli.core.errors import RevseqError, UsageError, join_names, printable
from revseq_cli.formats import table
from revseq_cli.formats.table import Format

if TYPE_CHECKING:
    from revseq_cli.files.new import NewFile
    from revseq_cli.formats.contract import FileSink


class Console:
    """What the command prints: notes, and its report as JSON; and its use of colour."""

    def __init__(
        self, command: str, *, as_json: bool, quiet: bool, verbose: int, color: str
    ) -> None:
        self.command = command
        self.as_json = as_json
        self.quiet = quiet
        self.verbose = verbose
        self.color = color
        self.notes: list[str] = []  # all of them, for the report

    def detail(self, text: str) -> None:
        """Print a line about what is done, if -v is given."""
        if self.verbose and not self.quiet:
            click.echo(printable(text), file=sys.stderr)

    def note(self, *texts: str) -> None:
        """Print notes, for example on what the result lacks, unless -q is given."""
        self.notes.extend(texts)
        if self.quiet:
            return
        from revseq_cli.report import terminal  # small jobs print nothing

        for text in texts:
            note = terminal.fit(printable(f"Note: {text}"), terminal.width_of(sys.stderr))
            in_color = is_colored(self.color, sys.stderr)
            words = terminal.paint_labels(note) if in_color else note
            click.echo(words, file=sys.stderr, color=in_color)

    def report(
        self,
        record: Mapping[str, object] | None,
        status: int = 0,
        errors: Iterable[RevseqError] = (),
    ) -> None:
        """Print the report as JSON: the keys of all reports, and those of the record."""
        from revseq_cli.report import objects  # few commands print JSON

        text = objects.report_text(
            self.command, status, notes=self.notes, errors=errors, record=record
        )
        click.echo(text)

    @contextlib.contextmanager
    def write_files(self, sink: FileSink, *others: NewFile) -> Iterator[None]:
        """A context for new files: inside they are written, at its end they are named.

        Then their notes are printed.
        """
        from revseq_cli.files.transactions import FileTransaction  # --help must not load NumPy

        with FileTransaction(sink.file, *others) as transaction, sink:
            yield
        self.note(*sink.notes, *transaction.notes)
        self.detail(f"wrote {sink.file.name}")

    @property
    def in_color(self) -> bool:
        """Whether standard output gets colour."""
        return is_colored(self.color, sys.stdout)

    def paint(self, text: str, style: str) -> str:
        """The text for standard output, in that style if it gets colour."""
        from revseq_cli.report import terminal  # small jobs print nothing

        return terminal.paint(text, style) if self.in_color else text


def is_colored(color: str, stream: TextIO) -> bool:
    """Whether a stream gets colour.

    --color decides, then NO_COLOR, then FORCE_COLOR, then whether it is a terminal.
    """
    if color != "auto":
        return color == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def print_error(error: RevseqError, color: str, origin: str = "") -> None:
    """Print an error on standard error.

    `color` is the value of --color, and `origin` has the lines of the job in its manifest.
    """
    from revseq_cli.report.terminal import message, width_of

    in_color = is_colored(color, sys.stderr)
    text = message(error, color=in_color, origin=origin, width=width_of(sys.stderr))
    click.echo(text, file=sys.stderr, color=in_color)


def most_printed(*, full: bool) -> float:
    """How many elements of a tensor are printed: all with `full`, or if this is not a terminal."""
    from revseq_cli.report import view  # --help must not load NumPy

    if full or not sys.stdout.isatty():
        return inf
    return view.MOST_ON_TERMINAL


def choose_printed_format(format_name: str | None, file_hint: str) -> Format:
    """The format for standard output; UsageError for one that needs a file, or no terminal.

    Without a name, it is that of the suffix if standard output is a file, as in > y.csv, and
    text elsewhere. `file_hint` says what to type for a file, with {} for its name.
    """
    if not format_name:
        redirected = platform.name_of_standard_output()
        row = table.by_suffix(redirected)
        if row is None or table.find_compression(redirected):
            return table.TEXT
        if not row.can_print:
            file = platform.quote(redirected.removeprefix(os.getcwd() + os.sep))
            hint = f"leave out >, and {file_hint.format(file)} --overwrite"
            raise _make_pipe_refusal(row, "a file", hint).about(file)
        return row
    row = table.by_name(format_name) or table.TEXT
    hint = file_hint.format(f"out{table.choose_suffix(row.name)}")
    if not row.can_print:
        printing = join_names([row.name for row in table.FORMATS if row.can_print], 20)
        raise _make_pipe_refusal(row, f"a file, or -f with one of {printing}", hint)
    if not row.is_text and sys.stdout.isatty():
        raise UsageError("a terminal cannot show binary data", "a pipe or a file", hint)
    return row


def _make_pipe_refusal(row: Format, expected: str, hint: str) -> UsageError:
    return UsageError(f"{row.name} cannot be written to a pipe", expected, hint)
