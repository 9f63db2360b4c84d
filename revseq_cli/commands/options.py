"""Options that several commands have, and the objects that commands make of them."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import click

from revseq_cli.commands.console import Console
from revseq_cli.commands.groups import Group, settings_of
from revseq_cli.commands.values import (
    Parsed,
    complete_files,
    parse_bytes,
    parse_dimension,
    parse_padding,
    parse_sizes,
)
from revseq_cli.core import platform
from revseq_cli.core.errors import UsageError
from revseq_cli.core.tensors import DataType
from revseq_cli.files import budget
from revseq_cli.formats import table
from revseq_cli.operator.spec import SYSTEMS, FeatureLevel
from revseq_cli.pipeline.resources import AUTO, DASK, ENGINES, Resources

if TYPE_CHECKING:
    from revseq_cli.files.input_file import Identity
    from revseq_cli.files.new import NewFile
    from revseq_cli.pipeline.request import Request

LEVEL = Parsed("level", FeatureLevel.parse, [level.short for level in FeatureLevel])
_DIMENSION = Parsed("dimension", parse_dimension)

output_format_option = Group.WRITE.option(
    "-f",
    "--format",
    "format_name",
    type=click.Choice([row.name for row in table.list_outputs()]),
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
    "--sizes", type=Parsed("sizes", parse_sizes), metavar="AxBxC",
    help="The shape of a raw buffer such as x.bin; --dtype gives its data type.",
)  # fmt: skip
picture_option = Group.PRINT.option(
    "--picture", metavar="FILE.svg", type=click.Path(),
    help="Also draw the tensors in this new SVG file.",
)  # fmt: skip
full_option = Group.PRINT.option(
    "--full", is_flag=True, help="Print every element, even on a terminal."
)


def _describe_systems() -> str:
    """The default axes of the systems, for the help."""
    names: dict[tuple[int, int], list[str]] = {}
    for name, axes in SYSTEMS.items():
        names.setdefault(axes, []).append(name)
    return ", or ".join(
        f"--axis {axis} --batch-axis {batch_axis} ({', '.join(systems)})"
        for (axis, batch_axis), systems in names.items()
    )


_JOB_OPTIONS = (
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
        help="Cast LENGTHS to this data type, if the feature level does not accept theirs. It is "
        "an error if that changes a value.  [default for text: UINT32]",
    ),
    Group.REVERSE.option(
        "--batch-axis", type=_DIMENSION, metavar="B|NAME",
        help="The dimension that has one length for each index. LENGTHS then has one element for "
        "each index, and any other dimensions have size 1. With none, every sequence has a "
        "length of its own.",
    ),
    Group.REVERSE.option(
        "--like", type=click.Choice([*SYSTEMS], case_sensitive=False),
        help=f"Use the default axes of this system: {_describe_systems()}.",
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
_ARGUMENTS = (
    click.argument("input", metavar="INPUT", shell_complete=complete_files),
    click.argument("lengths", metavar="[LENGTHS]", required=False, shell_complete=complete_files),
)


def job_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that adds the options of a job, for `make_request`."""
    return _add_options(_JOB_OPTIONS, function)


def job_parameters(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that adds INPUT, LENGTHS and the options of a job, for `make_request`."""
    return _add_options((*_ARGUMENTS, *_JOB_OPTIONS), function)


_RESOURCE_OPTIONS = (
    Group.WORK.session_option(
        "--engine", type=click.Choice((AUTO, *ENGINES)), default=AUTO,
        help="How to run: in this process (serial), in several processes, or on a dask cluster.",
    ),
    Group.WORK.session_option(
        "--jobs", "cores", type=click.IntRange(min=1, max=1024), metavar="N",
        help="Use at most N cores.  [default: all available]",
    ),
    Group.WORK.session_option(
        "--memory", type=Parsed("size", parse_bytes), default=f"{budget.DEFAULT_MEMORY >> 30}GiB",
        help="The most data that all workers together hold in memory. K, M and G are powers of "
        "1024; KB, MB and GB are powers of 1000.",
    ),
    Group.WORK.session_option(
        "--scheduler", metavar="ADDRESS",
        help="The scheduler for --engine dask, such as tcp://host:8786. With dask, --memory "
        "applies to each thread of its workers.  [default: dask's own configuration]",
    ),
)  # fmt: skip


def _remember(
    key: Literal["verbose", "color"],
) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """A callback that keeps the value of an option in the settings of the context."""

    def store(context: click.Context, _: click.Parameter, value: Any) -> Any:
        settings_of(context)[key] = value
        return value

    return store


_OUTPUT_OPTIONS = (
    Group.PRINT.option(
        "--json", "as_json", is_flag=True,
        help="Print the report as JSON, as revseq help json describes; errors, too.",
    ),
    Group.PRINT.option(
        "-q", "--quiet", is_flag=True,
        help="Print only results and errors: no notes, progress or text reports. Overrides -v.",
    ),
    Group.PRINT.option(
        "-v", "--verbose", count=True,
        callback=_remember("verbose"),
        help="Print which files are written, on standard error. -vv also shows tracebacks.",
    ),
    Group.PRINT.session_option(
        "--color", type=click.Choice(["auto", "always", "never"]), default="auto",
        callback=_remember("color"),
        help="When to print in colour. With auto, only on a terminal; NO_COLOR and FORCE_COLOR "
        "override that.",
    ),
)  # fmt: skip


def resource_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that adds the options for passes; the command gets them as `resources`."""

    @functools.wraps(function)
    def command(**parameters: Any) -> Any:
        resources = take_resources(parameters)
        return function(resources=resources, **parameters)

    return _add_options(_RESOURCE_OPTIONS, command)


def output_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that adds the options for reports and notes; the command gets a `console`."""

    @functools.wraps(function)
    def command(**parameters: Any) -> Any:
        console = _take_console(parameters)
        return function(console=console, **parameters)

    return _add_options(_OUTPUT_OPTIONS, command)


def _add_options(
    options: Sequence[Callable[..., Any]], function: Callable[..., Any]
) -> Callable[..., Any]:
    """The function of a command with these options, in this order."""
    for option in reversed(options):
        function = option(function)
    return function


def find_typed_option(*names: str) -> str:
    """The first of these options that was typed; "" if none was.

    A value from the environment does not count, since it is there for other commands, too.
    """
    context = click.get_current_context()
    options = {param.name: max(param.opts, key=len) for param in context.command.params}
    for name in names:
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            return options[name]
    return ""


def make_request(resources: Resources | None = None, **parameters: Any) -> Request:
    """The request that the parameters of a command state, named as Click has them."""
    from revseq_cli.pipeline.request import Request

    context = click.get_current_context(silent=True)
    typed: tuple[str, ...] = ()  # the command line, which hints repeat; a job of a batch has none
    if context and context.info_name != "batch":
        typed = tuple(sys.argv[1:])
    return Request(
        values=parameters.pop("input"),
        output_format=parameters.pop("format_name", None),
        absolute=resources is not None and resources.on_cluster,
        typed=typed,
        **parameters,
    )


def take_resources(parameters: dict[str, Any]) -> Resources:
    """Remove the resource options from the parameters, combine them, and limit the memory of files.

    UsageError for --scheduler without dask.
    """
    engine = parameters.pop("engine")
    cores = parameters.pop("cores")
    memory = parameters.pop("memory")
    scheduler = parameters.pop("scheduler")
    if engine != DASK:
        # One in the environment is there for other commands.
        if scheduler and scheduler != os.environ.get("REVSEQ_SCHEDULER"):
            raise UsageError(
                "--scheduler needs --engine dask", hint="to use dask, add --engine dask"
            )
        scheduler = None
    elif scheduler:
        _refuse_web_address(scheduler)
    budget.limit_memory(memory)
    return Resources(engine, cores or 0, memory, scheduler or "")


def _refuse_web_address(scheduler: str) -> None:
    """UsageError for the address of a web server, such as that of the scheduler's own pages."""
    if not scheduler.lower().startswith(("http://", "https://")):
        return
    host = urlsplit(scheduler).hostname or "host"
    hint = f"if the scheduler is on that host, add --scheduler tcp://{host}:8786"
    raise UsageError("--scheduler is a web address", "the address of a dask scheduler", hint)


def _take_console(parameters: dict[str, Any]) -> Console:
    context = click.get_current_context()
    console = Console(
        context.info_name or "",
        as_json=parameters.pop("as_json"),
        quiet=parameters.pop("quiet"),
        verbose=parameters.pop("verbose"),
        color=parameters.pop("color"),
    )
    settings_of(context)["notes"] = console.notes
    # A progress bar and lines of JSON on one terminal would break each other.
    mixes_lines = console.as_json and sys.stdout.isatty()
    is_silent = console.quiet or mixes_lines
    if sys.stderr.isatty() and not is_silent:
        from revseq_cli.report.progress import show_progress

        context.with_resource(show_progress())
    return console


def new_picture(path: str, inputs: Iterable[Identity], *, overwrite: bool) -> NewFile:
    """The new file of a picture; UsageError for a name that it cannot have."""
    from revseq_cli.files.new import NewLocalFile  # --help must not load NumPy

    if not path.lower().endswith(".svg"):
        hint = f"to write SVG, add --picture {platform.quote(os.path.splitext(path)[0] + '.svg')}"
        raise UsageError("--picture writes SVG", "a name that ends in .svg", hint, path)
    return NewLocalFile(path, overwrite=overwrite, inputs=inputs)


def write_picture(file: NewFile, svg: str) -> list[str]:
    """Write a picture; the notes on what could not be flushed or removed."""
    from revseq_cli.files.transactions import FileTransaction

    with FileTransaction(file) as transaction:
        file.write(svg.encode())
    return transaction.notes
