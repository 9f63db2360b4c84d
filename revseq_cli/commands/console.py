"""What a command prints beside its result, and where it uses colour."""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from revseq_cli.commands.streams import colored, is_terminal
from revseq_cli.ground import stopping
from revseq_cli.ground.errors import printable
from revseq_cli.report.words import spelled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from revseq_cli.ground.errors import Words
    from revseq_cli.passes.arrangement import Arrangement
    from revseq_cli.report.view import Marks


@dataclass(frozen=True)
class Console:
    """What the command prints beside its result, on standard error, and its use of colour."""

    quiet: bool
    verbose: int
    color: str

    def detail(self, text: str) -> None:
        """Print lines about what is done, if -v is given."""
        if self.verbose and not self.quiet:
            click.echo("\n".join(map(printable, text.split("\n"))), file=sys.stderr)

    def note(self, text: str | Words) -> None:
        """Print a note, for example on what the result lacks, unless -q is given."""
        if not self.quiet:
            click.echo(printable(f"Note: {spelled(text)}"), file=sys.stderr)

    @contextlib.contextmanager
    def told_if_stopped(self, path: str) -> Iterator[None]:
        """Print what became of the output if a signal stops the work inside."""
        before = _state(path)
        try:
            yield
        except stopping.Stopped:
            after = _state(path)
            fate = "was not written" if after is None else "is unchanged" if after == before else "is complete"
            self.note(f"stopped; {path} {fate}")
            raise

    def library_notes(self) -> None:
        """Print notes on environment variables that were ignored, if HDF5 was loaded."""
        for text in notes_of_libraries():
            self.note(text)

    def dashboard(self, arrangement: Arrangement) -> None:
        """Print the address of a remote engine's dashboard, if -v is given."""
        if self.verbose and arrangement.engine.remote:
            self.detail(f"dashboard              {arrangement.engine.load().watched(arrangement)}")

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
