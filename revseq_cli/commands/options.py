"""What commands share: their class, groups of options, the options themselves, and the console on which they print."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import inf
from typing import TYPE_CHECKING, Any, TextIO

import click
from click.shell_completion import CompletionItem

from revseq_cli import files
from revseq_cli.commands import usage
from revseq_cli.core import platform
from revseq_cli.core.errors import RevseqError, UsageError, printable
from revseq_cli.core.tensors import DataType
from revseq_cli.formats import table
from revseq_cli.formats.table import Format
from revseq_cli.operator.spec import SYSTEMS, FeatureLevel

if TYPE_CHECKING:
    from revseq_cli.files.base import Identity
    from revseq_cli.files.new import NewFile
    from revseq_cli.formats.contract import FileSink
    from revseq_cli.pipeline.plan import Resources
    from revseq_cli.pipeline.request import Request


class Group(Enum):
    """The groups of options in a help, with their titles. Click's own options are in the last one."""

    REVERSE = "What to reverse"
    READ = "What to read"
    CHECK = "What to check"
    COMPARE = "What to compare"
    WRITE = "What to write"
    PRINT = "What to print"
    WORK = "Resources"
    HELP = "Help"

    def option(self, *names: str, **attributes: Any) -> Callable[..., Any]:
        """A decorator that adds an option of this group to a command, as Click's."""
        return click.option(*names, cls=_Option, group=self, **attributes)

    def session_option(self, name: str, *more: str, **attributes: Any) -> Callable[..., Any]:
        """One that an environment variable sets, too: REVSEQ_MEMORY for --memory. Help shows both."""
        variable = f"REVSEQ_{name.lstrip('-').replace('-', '_').upper()}"
        return self.option(
            name, *more, envvar=variable, show_default=True, show_envvar=True, **attributes
        )


class _Option(click.Option):
    def __init__(self, *names: Any, group: Group, **attributes: Any) -> None:
        super().__init__(*names, **attributes)
        self.group = group

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The names and the help; a range such as Click's 1<=x<=8 is in words."""
        record = super().get_help_record(ctx)
        if record is None:
            return None
        names, text = record
        text = re.sub(r"(\d+)<=x<=\d{19,}", r"\1 or more", text)
        return names, re.sub(r"(\d+)<=x<=(\d+)", r"\1 to \2", text)


# What the context says of the command's output, for errors too: it is in `Context.meta`.
AS_JSON = "revseq.json"
NOTES = "revseq.notes"
VERBOSE = "revseq.verbose"
COLOR = "revseq.color"


def has_json(words: Sequence[str]) -> bool:
    """Whether --json is among the words of a command line, which may be wrong elsewhere."""
    return "--json" in itertools.takewhile(lambda word: word != "--", words)


class Command(click.Command):
    """A command whose help has its options in groups, and at its end examples, one a line, which run in any folder."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; with --json, an error in them is JSON, too."""
        ctx.meta[AS_JSON] = has_json(args)
        rest = super().parse_args(ctx, args)
        ctx.meta[AS_JSON] = ctx.params.get("as_json", False)
        return rest

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """What completes the word; of an option, the first words of its help describe it."""
        items = super().shell_complete(ctx, incomplete)
        for item in items:
            if item.help:
                item.help = re.split(r"[.:;] ", item.help)[0].rstrip(".")
        return items

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in their groups."""
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        for group in Group:
            rows = [
                o.get_help_record(ctx) for o in options if getattr(o, "group", Group.HELP) is group
            ]
            if rows:
                with formatter.section(group.value):
                    formatter.write_dl([*filter(None, rows)])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the examples, which are commands and stay on their lines."""
        with formatter.section("Examples"):
            formatter.write(
                "".join(f"  {example}\n" for example in (self.epilog or "").split("\n"))
            )


def command(
    name: str, examples: Sequence[str], **attributes: Any
) -> Callable[[Callable[..., Any]], Command]:
    """A decorator that makes a command of a function, whose docstring is the help."""
    return click.command(name, cls=Command, epilog="\n".join(examples), **attributes)


def expanded(
    context: click.Context,  # noqa: ARG001 - Click passes it
    parameter: click.Parameter,  # noqa: ARG001 - Click passes it
    words: tuple[str, ...],
) -> tuple[str, ...]:
    """A callback: on Windows, where shells do not, the names of files in place of each pattern."""
    return tuple(name for word in words for name in platform.names(word))


def typed(*names: str) -> str:
    """The first of these options that was typed, or set by its variable, as the user types it; else nothing."""
    context = click.get_current_context()
    options = {each.name: max(each.opts, key=len) for each in context.command.params}
    default = (click.core.ParameterSource.DEFAULT, click.core.ParameterSource.DEFAULT_MAP, None)
    return next(
        (options[name] for name in names if context.get_parameter_source(name) not in default), ""
    )


@dataclass(frozen=True)
class Console:
    """What the command prints: notes on standard error, its report as JSON, and its use of colour."""

    command: str
    as_json: bool
    quiet: bool
    verbose: int
    color: str
    notes: list[str] = field(default_factory=list)  # all of them, for the report

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

    def report(self, record: object, status: int = 0, errors: Iterable[RevseqError] = ()) -> None:
        """Print the report as JSON: the keys of all reports, and those of the record."""
        from revseq_cli.report import objects  # few commands print JSON

        text = objects.write_report(
            self.command, status, notes=self.notes, errors=errors, record=record
        )
        click.echo(text)

    @contextlib.contextmanager
    def writing(self, sink: FileSink, *others: NewFile) -> Iterator[None]:
        """Write a new file, and others with it, inside, and print what there is to say of it."""
        with written(sink, *others):
            yield
        self.note(*sink.notes)
        self.detail(f"wrote {sink.file.name}")

    @property
    def colored(self) -> bool:
        """Whether standard output gets colour."""
        return is_colored(self.color, sys.stdout)

    def paint(self, text: str, style: str) -> str:
        """The text for standard output, in that style if it gets colour."""
        from revseq_cli.report import terminal  # small jobs print nothing

        return terminal.paint(text, style) if self.colored else text


@contextlib.contextmanager
def written(sink: FileSink, *others: NewFile) -> Iterator[None]:
    """New files, which get their content inside, and their names at the end."""
    from revseq_cli.files.new import FileTransaction  # --help must not load NumPy

    with FileTransaction(sink.file, *others) as transaction, sink:
        yield
    sink.notes += tuple(transaction.notes)


def is_colored(color: str, stream: TextIO) -> bool:
    """Whether a stream gets colour, by the value of --color, NO_COLOR, FORCE_COLOR and the terminal, in that order."""
    if color != "auto":
        return color == "always"
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (
        stream.isatty() and os.environ.get("TERM") != "dumb"
    )


def print_error(error: RevseqError, color: str, place: str = "") -> None:
    """Print an error on standard error; `color` is the value of --color, and `place` has the lines of a manifest."""
    from revseq_cli.report.terminal import message, width_of

    in_color = is_colored(color, sys.stderr)
    text = message(error, color=in_color, place=place, width=width_of(sys.stderr))
    click.echo(text, file=sys.stderr, color=in_color)


def most_elements(*, full: bool) -> float:
    """How many elements of a tensor are printed: all in a pipe, and with `full`."""
    from revseq_cli.report import view  # --help must not load NumPy

    return view.MOST_ON_TERMINAL if sys.stdout.isatty() and not full else inf


def printed_format(format_name: str | None, file_hint: str) -> Format:
    """The format for standard output; UsageError for one that needs a file, or no terminal.

    Without a name it is text, or .npy where standard output is a file whose name ends in .npy.
    `file_hint` says what to type for a file, with {} for its name.
    """
    row = table.named(format_name) or table.TEXT
    if not format_name and platform.name_of_standard_output().lower().endswith(".npy"):
        row = table.NPY
    hint = file_hint.format(f"out{table.suffix_to_write(row.name)}")
    if not row.prints:
        printing = "|".join(each.name for each in table.FORMATS if each.prints)
        raise UsageError(
            f"{row.name} cannot be written to a pipe", f"a file, or -f {printing}", hint
        )
    if not row.is_text and sys.stdout.isatty():
        raise UsageError(
            "a terminal cannot show binary data",
            "a pipe or a file",
            f"{hint}, or add | and a command",
        )
    return row


def complete_files(
    context: click.Context,  # noqa: ARG001 - Click passes it
    parameter: click.Parameter,  # noqa: ARG001 - Click passes it
    incomplete: str,
) -> list[CompletionItem]:
    """A callback for completion: the shell completes the name of a file."""
    return [CompletionItem(incomplete, type="file")]


class Parsed(click.ParamType):  # type: ignore[type-arg] # older ones of Click take no argument
    """A value that `parse` makes of text."""

    def __init__(self, name: str, parse: Callable[[str], Any], values: Sequence[str] = ()) -> None:
        self.name = name
        self._parse = parse
        self._values = values

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 - Click passes it
        param: click.Parameter,  # noqa: ARG002 - Click passes it
        incomplete: str,
    ) -> list[CompletionItem]:
        """The values that begin so, if they can be listed."""
        begun = incomplete.upper()
        return [CompletionItem(value) for value in self._values if value.upper().startswith(begun)]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The parsed value; a UsageError gets the name of the option that was typed."""
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except UsageError as e:
            if param:
                e.about(usage.name_of(param, ctx))
            raise


def parse_dimension(text: str) -> int | str:
    """The number or the name of a dimension; UsageError for an empty text."""
    if not text.strip():
        raise UsageError(
            "the value is empty", "a number or a name", "check that the shell variable is set"
        )
    if number := re.fullmatch(r"([+-]?\d{1,40})(\.0*)?", text.strip(), re.ASCII):
        return int(number[1])
    return text


def parse_bytes(text: str) -> int:
    """A number of bytes from text such as 1GiB, 0.5G, 10KB or 4096; UsageError for other text, and for 0."""
    match = re.fullmatch(
        r"(\d{1,18}(?:\.\d{1,18})?)\s*(?:([KMGT])(I?B)?|B)?", text.strip().upper(), re.ASCII
    )
    size = 0
    if match:
        number, unit, suffix = match.groups(default="")
        factor = (1000 if suffix == "B" else 1024) ** " KMGT".index(unit or " ")
        size = int(float(number) * factor) if "." in number else int(number) * factor
    if not size:
        raise UsageError(
            f"{text[:40]!r} is not a size", "a number of bytes such as 1GiB, 0.5G or 100MB"
        )
    return size


def parse_numbers(text: str) -> tuple[int, ...]:
    """Integers of at least 0, as 2x3x4, 2,3,4 or {2,3,4}; UsageError for other text."""
    if not re.fullmatch(r"\{?\d{1,18}([x,] ?\d{1,18})*\}?", text, re.ASCII):
        raise UsageError(f"{text[:40]!r} is not one number for each dimension", "such as 2x3x4")
    return tuple(map(int, re.findall(r"\d+", text)))


def parse_padding(text: str) -> float:
    """A number, or nan; an integer stays one, of any size. UsageError for other text."""
    try:
        return int(text) if re.fullmatch(r"[+-]?\d{1,40}", text.strip(), re.ASCII) else float(text)
    except ValueError:
        raise UsageError(f"{text[:40]!r} is not a number", "a number, or nan") from None


LEVEL = Parsed("level", FeatureLevel.parse, [level.short for level in FeatureLevel])
_DIMENSION = Parsed("dimension", parse_dimension)


def together(*decorators: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """One decorator in place of several, which adds their options in this order."""
    return lambda function: functools.reduce(
        lambda made, decorator: decorator(made), reversed(decorators), function
    )


output_format_option = Group.WRITE.option(
    "-f",
    "--format",
    "format_name",
    type=click.Choice([row.name for row in table.written()]),
    help="The format of the output.  [default: the format of its suffix]",
)
input_format_option = Group.READ.option(
    "--input-format",
    type=click.Choice(table.NAMES),
    help="The format of inputs whose content and suffix do not show it.",
)
level_option = Group.CHECK.session_option(
    "--feature-level", "level", type=LEVEL, default="none",
    help="Check the job against this DirectML feature level: 5_0, 5.0 or DML_FEATURE_LEVEL_5_0. "
    "With none, only the operator's own rules apply.",
)  # fmt: skip
dtype_option = Group.READ.option(
    "--dtype", type=Parsed("type", DataType.parse, [data_type.name for data_type in DataType]),
    help="The data type of text without a header, or of untyped bytes such as |V2 in .npy. "
    " [default: FLOAT32; from text to text FLOAT64]",
)  # fmt: skip
sizes_option = Group.READ.option(
    "--sizes", type=Parsed("sizes", parse_numbers), metavar="AxBxC",
    help="The shape of a raw buffer such as x.bin; --dtype gives its data type.",
)  # fmt: skip
picture_option = Group.PRINT.option(
    "--picture", metavar="FILE.svg", type=click.Path(), help="Also draw the tensors in this new SVG file.",
)  # fmt: skip
full_option = Group.PRINT.option(
    "--full", is_flag=True, help="Print every element, even on a terminal."
)

# The options of a job, for `request_of`; and with INPUT and LENGTHS.
job_settings = together(
    Group.REVERSE.option(
        "--axis", type=_DIMENSION, metavar="N|NAME",
        help="The dimension to reverse along: its number (negative numbers count from the end) or, "
        "if the file names its dimensions, its name. A number is always a position, even if a "
        "dimension has that name.",
    ),
    dtype_option,
    sizes_option,
    Group.REVERSE.option(
        "--lengths-dtype", type=Parsed("type", DataType.parse_length, ["UINT32", "UINT64"]),
        help="Cast LENGTHS to this data type, if the feature level does not accept theirs. It is an "
        "error if that changes a value.  [default for text: UINT32]",
    ),
    Group.REVERSE.option(
        "--batch-axis", type=_DIMENSION, metavar="B|NAME",
        help="The dimension that has one length for each index. LENGTHS then has one element for "
        "each index, and any other dimensions have size 1. With none, every sequence has a "
        "length of its own.",
    ),
    Group.REVERSE.option(
        "--like", type=click.Choice([*SYSTEMS], case_sensitive=False),
        help="Use the default axes of this system: --axis 0 --batch-axis 1 (onnx, pytorch), or "
        "--axis 1 --batch-axis 0 (tensorflow).",
    ),
    Group.READ.option(
        "--feed", multiple=True, metavar="NAME=FILE",
        help="A tensor for an input of the ONNX model. May be given several times.",
    ),
    Group.REVERSE.option(
        "--mask", is_flag=True,
        help="LENGTHS is a mask with the shape of INPUT, or of its batch and reversed axes only. "
        "Each sequence of it is ones followed by zeros; the number of ones is the length.",
    ),
    Group.REVERSE.option(
        "--padding", type=Parsed("number", parse_padding), metavar="VALUE",
        help="Instead of LENGTHS: reverse each sequence up to its last element that differs from "
        "VALUE (a number, or nan). With --batch-axis, each index takes the length of its longest "
        "sequence. If INPUT has three or more dimensions, --batch-axis is required.",
    ),
)  # fmt: skip
job_options = together(
    click.argument("input", metavar="INPUT", shell_complete=complete_files),
    click.argument("lengths", metavar="[LENGTHS]", required=False, shell_complete=complete_files),
    job_settings,
)


def request_of(**fields: Any) -> Request:
    """The job options as a request: its fields by their names, but for INPUT."""
    from revseq_cli.pipeline.request import Request

    context = click.get_current_context(silent=True)
    typed = () if context is None or context.info_name == "batch" else tuple(sys.argv[1:])
    output_format = fields.pop("format_name", None)
    return Request(values=fields.pop("input"), output_format=output_format, typed=typed, **fields)


def _combined(
    name: str, combine: Callable[[dict[str, Any]], object], *options: Callable[..., Any]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that adds these options; the command gets in their place the parameter that `combine` makes."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @together(*options)
        @functools.wraps(function)
        def command(**parameters: Any) -> Any:
            combined = combine(parameters)
            return function(**parameters, **{name: combined})

        return command

    return decorate


def take_resources(parameters: dict[str, Any]) -> Resources:
    """Remove the resource options from the parameters, and combine them; UsageError for --scheduler without dask."""
    from revseq_cli.pipeline.plan import Resources  # it loads NumPy

    engine, cores, memory, scheduler = (
        parameters.pop(name) for name in ("engine", "cores", "memory", "scheduler")
    )
    if scheduler and engine != "dask" and "REVSEQ_SCHEDULER" not in os.environ:
        raise UsageError("--scheduler is about dask", "--engine dask", "add --engine dask")
    files.limit_memory(memory)
    return Resources(engine, cores or 0, memory, scheduler or "" if engine == "dask" else "")


def _take_console(parameters: dict[str, Any]) -> Console:
    context = click.get_current_context()
    console = Console(
        context.info_name or "",
        parameters.pop("as_json"),
        parameters.pop("quiet"),
        parameters.pop("verbose"),
        parameters.pop("color"),
    )
    context.meta[NOTES] = console.notes
    # Lines of JSON on the same terminal would break the bar of progress, which is shown until the command ends.
    if sys.stderr.isatty() and not console.quiet and not (console.as_json and sys.stdout.isatty()):
        from revseq_cli.report.terminal import progress

        context.with_resource(progress())
    return console


# The options for passes, as `resources`; and those for reports, notes and colours, as the command's `console`.
resource_options = _combined(
    "resources",
    take_resources,
    Group.WORK.session_option(
        "--engine", type=click.Choice(("auto", "serial", "processes", "dask")), default="auto",
        help="How to run: in this process (serial), in several processes, or on a dask cluster.",
    ),
    Group.WORK.session_option(
        "--jobs", "cores", type=click.IntRange(min=1, max=1024), metavar="N",
        help="Use at most N cores.  [default: all available]",
    ),
    Group.WORK.session_option(
        "--memory", type=Parsed("size", parse_bytes), default="1GiB",
        help="The most data that all workers together hold in memory. K, M and G are powers of "
        "1024; KB, MB and GB are powers of 1000.",
    ),
    Group.WORK.session_option(
        "--scheduler", metavar="ADDRESS",
        help="The scheduler for --engine dask, such as tcp://host:8786. With dask, --memory applies "
        "to each thread of its workers.  [default: dask's own configuration]",
    ),
)  # fmt: skip
output_options = _combined(
    "console",
    _take_console,
    Group.PRINT.option("--json", "as_json", is_flag=True, help="Print the report, or the error, as JSON."),
    Group.PRINT.option(
        "-q", "--quiet", is_flag=True,
        help="Print only results and errors: no notes, progress or text reports. Overrides -v.",
    ),
    Group.PRINT.option(
        "-v", "--verbose", count=True, callback=lambda ctx, _, value: ctx.meta.setdefault(VERBOSE, value),
        help="Print which files are written, on standard error. -vv also shows tracebacks.",
    ),
    Group.PRINT.session_option(
        "--color", type=click.Choice(["auto", "always", "never"]), default="auto",
        callback=lambda ctx, _, value: ctx.meta.setdefault(COLOR, value),
        help="When to print in colour. With auto, only on a terminal; NO_COLOR and FORCE_COLOR "
        "override that.",
    ),
)  # fmt: skip


def new_picture(path: str, inputs: Iterable[Identity], *, overwrite: bool) -> NewFile:
    """The new file of a picture; UsageError for a name that it cannot have."""
    from revseq_cli.files.new import NewFile  # --help must not load NumPy

    if not path.lower().endswith(".svg"):
        hint = f"try --picture {platform.quoted(os.path.splitext(path)[0] + '.svg')}"
        raise UsageError("--picture writes SVG", "a name that ends in .svg", hint, path)
    return NewFile(path, overwrite=overwrite, inputs=inputs)
