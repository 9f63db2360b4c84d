"""What all commands share: the class of commands and groups of options, and the console on which a command prints."""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, TextIO

import click

from revseq_cli.core import platform, signals
from revseq_cli.core.errors import UsageError, printable, shortened
from revseq_cli.formats import table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from revseq_cli.core.errors import RevseqError
    from revseq_cli.formats.contract import FileSink
    from revseq_cli.formats.table import Format
    from revseq_cli.report.view import Marks, Room

_LONGEST_MESSAGE = 340  # characters


class Group(Enum):
    """The groups of options in a help, with their titles. Click's own options are in the last one.

    Those of `run` that say what to PRINT are no columns of a batch.
    """

    REVERSE = "What to reverse"
    READ = "What to read"
    COMPARE = "What to compare"
    WRITE = "What to write"
    PRINT = "What to print"
    WORK = "How to work"
    HELP = "Help"

    def option(self, *names: str, **attributes: Any) -> Callable[..., Any]:
        """A decorator that adds an option of this group to a command, as Click's."""
        return click.option(*names, cls=_Option, group=self, **attributes)

    def session_option(self, name: str, *more: str, **attributes: Any) -> Callable[..., Any]:
        """One that an environment variable sets, too: REVSEQ_MEMORY for --memory. Help shows both."""
        variable = f"REVSEQ_{name.lstrip('-').replace('-', '_').upper()}"
        return self.option(name, *more, envvar=variable, show_default=True, show_envvar=True, **attributes)


class _Option(click.Option):
    def __init__(self, *names: Any, group: Group, **attributes: Any) -> None:
        super().__init__(*names, **attributes)
        self.group = group


class Command(click.Command):
    """A command whose help has its options in groups, and at its end `examples`, which run in any folder."""

    def __init__(self, *names: Any, examples: Sequence[str], **attributes: Any) -> None:
        super().__init__(*names, **attributes)
        self.examples = examples

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Click's, but for a name of another tool."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as e:
            if e.option_name == "--force" and any(each.name == "overwrite" for each in self.params):
                found = "--force is an option of other tools"
                raise UsageError(found, "--overwrite", "use --overwrite in its place") from None
            raise

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in their groups."""
        for group in Group:
            options = [each for each in self.get_params(ctx) if getattr(each, "group", Group.HELP) is group]
            if rows := [row for each in options if (row := each.get_help_record(ctx))]:
                with formatter.section(group.value):
                    formatter.write_dl(rows)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the examples, each on a line of its own."""
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"  {example}\n")


def command(name: str, examples: Sequence[str], **attributes: Any) -> Callable[[Callable[..., Any]], Command]:
    """A decorator that makes a command of a function, whose docstring is the help."""
    return click.command(name, cls=Command, examples=examples, **attributes)


def expanded(context: click.Context, parameter: click.Parameter, words: tuple[str, ...]) -> tuple[str, ...]:  # noqa: ARG001
    """A callback: on Windows, where shells do not, the names of files in place of each pattern."""
    return tuple(name for word in words for name in platform.names(word))


def typed(*names: str) -> str:
    """The first of these options that was typed, or set by its variable, as the user types it; else nothing."""
    context = click.get_current_context()
    options = {each.name: max(each.opts, key=len) for each in context.command.params}
    default = (click.core.ParameterSource.DEFAULT, click.core.ParameterSource.DEFAULT_MAP, None)
    return next((options[name] for name in names if context.get_parameter_source(name) not in default), "")


def message_of_click(text: str) -> str:
    """A message of Click on one line, cut where a value of the user's makes it very long."""
    return shortened(" ".join(text.split()), _LONGEST_MESSAGE)


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

    def note(self, *texts: str) -> None:
        """Print notes, for example on what the result lacks, unless -q is given."""
        for text in () if self.quiet else texts:
            click.echo(printable(f"Note: {text}"), file=sys.stderr)

    def error(self, error: RevseqError, place: str = "") -> None:
        """Print the error of a part of the work, which goes on; `place` has the lines of a manifest."""
        print_error(error, self.color, place)

    @contextlib.contextmanager
    def writing(self, sink: FileSink, *, verify: bool) -> Iterator[None]:
        """Print what there is to say of a new file that is written inside; also what became of it after a signal."""
        path = sink.file.name
        before = file_state(path)
        with signals.deferred():
            try:
                yield
            except signals.Stopped:
                after = file_state(path)
                fate = "was not written" if after is None else "is unchanged" if after == before else "is complete"
                self.note(f"stopped; {path} {fate}")
                raise
        self.note(*sink.notes)
        self.detail(f"wrote {path}{', and verified it' if verify else ''}")

    @property
    def colored(self) -> bool:
        """Whether standard output gets colour."""
        return colored(self.color, sys.stdout)

    @property
    def marks(self) -> Marks | None:
        """How printed tensors highlight elements; None for no highlights, as in a pipe, which a program may read."""
        from revseq_cli.report import view

        is_shown = sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and self.color != "never"
        if not is_shown and self.color != "always":
            return None
        return view.COLORED if self.colored else view.UNCOLORED


def colored(color: str, stream: TextIO) -> bool:
    """Whether a stream gets colour, by the value of --color, NO_COLOR, FORCE_COLOR and the terminal, in that order."""
    if color != "auto":
        return color == "always"
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (stream.isatty() and os.environ.get("TERM") != "dumb")


def print_error(error: RevseqError, color: str, place: str = "") -> None:
    """Print an error on standard error, in lines that fit a terminal; `color` is the value of --color."""
    from revseq_cli.report.terminal import message

    try:
        width = os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError):  # it is no terminal, or does not say
        width = 0
    in_color = colored(color, sys.stderr)
    click.echo(message(error, color=in_color, width=width, place=place), file=sys.stderr, color=in_color)


def file_state(path: str) -> tuple[int, int] | None:
    """What tells a file from the one that replaces it; None where there is none."""
    if platform.is_remote(path):
        from revseq_cli.formats import remote  # few names are addresses

        found = remote.state(path, stops=False)
        return (found.inode, found.changed) if found else None
    try:
        status = os.stat(path)  # noqa: PTH116 - a string
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def room_for_tensors(*, full: bool, whole_rows: bool = False) -> Room:
    """The room for tensors that are printed: a terminal's, or as much as they take in a pipe, and with `full`.

    With `whole_rows`, long rows are not cut, since they are to be copied.
    """
    from revseq_cli.report import terminal, view  # --help must not load NumPy

    if full or not sys.stdout.isatty():
        return view.EVERYTHING
    import shutil  # most jobs print nothing on a terminal

    columns = float("inf") if whole_rows else shutil.get_terminal_size().columns
    return view.Room(view.MOST_ON_TERMINAL, columns, terminal.dots())


def printed_format(format_name: str | None, file_hint: str) -> Format:
    """The format for standard output, text for None; UsageError for one that needs a file, or no terminal.

    Text is refused, too, where a shell's > would put it into a file whose suffix says another format. `file_hint` says
    what to type for a file in place of {}.
    """
    name = platform.name_behind(1)
    promised = table.by_suffix(name) if not (format_name or table.packing_of(name)) else None
    if promised and promised is not table.TEXT:
        name = os.path.relpath(name)
        hint = f"add -f {promised.name}"
        if not promised.prints:
            hint = file_hint.format(f"{platform.quoted(name)} --overwrite")  # the shell has made the file
        raise UsageError("standard output goes there, and would be text", f"the format {promised.name}", hint, name)
    row = table.named(format_name) or table.TEXT
    hint = file_hint.format(f"out{table.suffix_to_write(row.name)}")
    if not row.prints:
        printing = "|".join(each.name for each in table.FORMATS if each.prints)
        raise UsageError(f"{row.name} cannot be written to a pipe", f"a file, or -f {printing}", hint)
    if not row.is_text and sys.stdout.isatty():
        raise UsageError("a terminal cannot show binary data", "a pipe or a file", f"{hint}, or add | and a command")
    return row
