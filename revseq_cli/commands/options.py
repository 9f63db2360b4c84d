"""The options that several commands share, the types of their values, and what commands make of them."""

from __future__ import annotations

import functools
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from revseq_cli.commands.base import Console, Group, is_terminal
from revseq_cli.core import platform
from revseq_cli.core.errors import UsageError
from revseq_cli.core.tensors import DataType
from revseq_cli.formats import table
from revseq_cli.operator.spec import FeatureLevel
from revseq_cli.pipeline import AUTO, DASK, DEFAULT_MEMORY, ENGINES
from revseq_cli.pipeline.alignment import SYSTEMS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from revseq_cli.formats.atomic_file import AtomicFile
    from revseq_cli.formats.contract import Layout
    from revseq_cli.formats.file_io import Identity
    from revseq_cli.pipeline.assembly import Request
    from revseq_cli.pipeline.plan import Resources


_UNITS = " KMGT"  # powers of 1024
_LONGEST_NUMBER = 40  # characters


class Parsed(click.ParamType):  # type: ignore[type-arg] # older ones of Click take no argument
    """A value that `parse` makes of text."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name, self._parse = name, parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The parsed value, or Click's usage error with the message of the UsageError."""
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except UsageError as e:
            self.fail("; ".join(filter(None, (e.found, e.wanted))), param, ctx)


def parse_dimension(text: str) -> int | str:
    """The number or the name of a dimension; what looks like a number is one. UsageError for an empty text."""
    if not text.strip():
        raise UsageError("the dimension is empty", "a number or a name; is a variable unset?")
    number = re.fullmatch(r"([+-]?\d+)(\.\d*)?", text.strip(), re.ASCII)
    if not number and os.path.splitext(text)[1] and os.path.exists(text):  # noqa: PTH110, PTH122 - it may be any text
        raise UsageError(f"{text!r} is a file", "a number or a name")
    if not number:
        return text
    if len(text) <= _LONGEST_NUMBER and not (number[2] and float(number[2] + "0")):
        return int(number[1])
    raise UsageError(f"{text[:_LONGEST_NUMBER]!r} is not a dimension", "a whole number from 0 on, or a name")


def parse_bytes(text: str) -> int:
    """A number of bytes from text such as 1GiB, 0.5G, 10KB or 4096; UsageError for other text, and for 0."""
    number = r"(\d{1,18})(?:\.(\d{1,18})(?=\s*[KMGT]))?"
    match = re.fullmatch(number + r"\s*(?:([KMGT])(i?B)?|B?)", text.strip(), re.IGNORECASE | re.ASCII)
    size = 0
    if match:
        whole, part, unit, suffix = (each or "" for each in match.groups())
        base = 1000 if unit and suffix.upper() == "B" else 1024
        size = int(whole + part) * base ** _UNITS.index(unit.upper() or " ") // 10 ** len(part)
    if not size:
        raise UsageError(f"{text[:40]!r} is not a size", "a number of bytes, such as 1GiB, 0.5G or 100MB")
    return int(size)


def bytes_text(number: int) -> str:
    """The number of bytes as `parse_bytes` reads it, with the largest unit that gives a whole number: 1GiB."""
    units = [unit for unit in range(len(_UNITS)) if number % 1024**unit == 0]
    return f"{number // 1024 ** units[-1]}{_UNITS[units[-1]]}{'iB' if units[-1] else ''}"


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
        raise UsageError(f"{text[:_LONGEST_NUMBER]!r} is not a number", "a number, or nan") from None


LEVEL = Parsed("level", FeatureLevel.parse)
DIMENSION = Parsed("dimension", parse_dimension)
DATA_TYPE = Parsed("type", DataType.parse)
NUMBERS = Parsed("sizes", parse_numbers)
LENGTHS_TYPE = Parsed("type", DataType.parse_length)


level_option = Group.REVERSE.session_option(
    "--feature-level", "level", type=LEVEL, default="none",
    help="Validate against this feature level of DirectML, such as 5_0, 5.0 or DML_FEATURE_LEVEL_5_0. With none, the "
    "operator's own rules hold.",
)  # fmt: skip

dtype_option = Group.READ.option(
    "--dtype", type=DATA_TYPE,
    help="The data type of text without a header, or of untyped bytes, such as |V2 in .npy.  [default: FLOAT32]",
)  # fmt: skip

sizes_option = Group.READ.option(
    "--sizes", type=NUMBERS, metavar="AxBxC", help="The sizes of a raw buffer, such as x.bin. --dtype is its type.",
)  # fmt: skip

feed_option = Group.READ.option(
    "--feed", multiple=True, metavar="NAME=FILE",
    help="A tensor for an input of the ONNX model that INPUT names.",
)  # fmt: skip

_JOB_TENSORS = (
    click.argument("input", metavar="INPUT"),
    click.argument("lengths", metavar="[LENGTHS]", required=False),
)
_JOB_SETTINGS = (
    Group.REVERSE.option(
        "--axis", type=DIMENSION, metavar="N|NAME",
        help="The dimension to reverse along: its number, negative from the end, or its name, if the file has names, "
        "as in NetCDF and Zarr. A number always means a position, never a name.",
    ),
    dtype_option,
    sizes_option,
    Group.REVERSE.option(
        "--lengths-dtype", type=LENGTHS_TYPE,
        help="Cast LENGTHS to this data type, for a feature level that lacks theirs. A value that this would change is "
        "an error.  [default for text: UINT32]",
    ),
    Group.REVERSE.option(
        "--batch-axis", type=DIMENSION, metavar="B|NAME",
        help="The dimension with one length for each index: LENGTHS has its size N, or {1,N} or {N,1}.",
    ),
    Group.REVERSE.option(
        "--like", type=click.Choice([*SYSTEMS], case_sensitive=False),
        help="Take the axis and the batch axis from that system where they are not given: 0 and 1 of onnx and pytorch, "
        "1 and 0 of tensorflow.",
    ),
    feed_option,
    Group.REVERSE.option(
        "--mask", is_flag=True,
        help="LENGTHS is a mask with the sizes of INPUT, or only those of batch and time. Each of its lines has ones "
        "followed by zeros; the number of ones is the length.",
    ),
    Group.REVERSE.option(
        "--padding", type=Parsed("number", parse_padding), metavar="VALUE",
        help="In place of LENGTHS: each line is reversed up to its last element that is not VALUE, a number or nan. "
        "With --batch-axis, the length of an index is that of its longest line.",
    ),
)  # fmt: skip


_RESOURCES = (
    Group.WORK.session_option(
        "--engine", type=click.Choice((AUTO, *ENGINES)), default=AUTO, help="The engine that does the work.",
    ),
    Group.WORK.session_option(
        "--jobs", "cores", type=click.IntRange(min=1, max=1024), metavar="N",
        help="The largest number of cores to use.  [default: all that this process may use]",
    ),
    Group.WORK.session_option(
        "--memory", type=Parsed("size", parse_bytes), default=bytes_text(DEFAULT_MEMORY),
        help="The limit for the data that all workers together hold in memory. K, M and G are powers of 1024; KB, MB "
        "and GB are powers of 1000.",
    ),
    Group.WORK.session_option(
        "--scheduler", metavar="ADDRESS",
        help="The scheduler for --engine dask, such as tcp://host:8786. By default it is the one of dask's own "
        "configuration. --memory then limits each thread of its workers.",
    ),
)  # fmt: skip

only_option = Group.WRITE.option(
    "--only", is_flag=True,
    help="Write this tensor alone. By default, an output in INPUT's format is a copy of that file with the tensor "
    "replaced, or added under the name after ::.",
)  # fmt: skip


def format_of(files: str, group: Group = Group.WRITE) -> Callable[..., Any]:
    """The option --format of these files."""
    return group.option("-f", "--format", "format_name", type=click.Choice(table.NAMES), help=f"The format of {files}.")


format_option = format_of("files, in place of what their first bytes and suffixes say", Group.READ)
picture_option = Group.PRINT.option(
    "--picture", metavar="FILE.svg", type=click.Path(), help="Also draw the tensors side by side in this new SVG file.",
)  # fmt: skip
full_option = Group.PRINT.option("--full", is_flag=True, help="Print every element even on a terminal.")

_OUTPUT = (
    Group.PRINT.option("--json", "as_json", is_flag=True, help="Print reports and errors as JSON."),
    Group.PRINT.option(
        "-q", "--quiet", is_flag=True,
        help="Print the result and errors alone: no notes, no progress, no text reports. Overrides -v.",
    ),
    Group.PRINT.option(
        "-v", "--verbose", count=True,
        callback=lambda ctx, _, value: ctx.meta.setdefault("revseq.verbose", value),
        help="Print each step on standard error. -vv shows tracebacks.",
    ),
    Group.PRINT.session_option(
        "--color", type=click.Choice(["auto", "always", "never"]), default="auto",
        callback=lambda ctx, _, value: ctx.meta.setdefault("revseq.color", value),
        help="When to use colour. auto uses it on a terminal, unless NO_COLOR or FORCE_COLOR says otherwise.",
    ),
)  # fmt: skip


def new_picture(path: str, inputs: Iterable[Identity], *, overwrite: bool) -> AtomicFile:
    """The new file of a picture; UsageError for a name that it cannot have."""
    from revseq_cli.formats.atomic_file import AtomicFile  # --help must not load NumPy

    if not path.lower().endswith(".svg"):
        stem = path.removesuffix(Path(path).suffix).rstrip("/.") or "tensors"
        hint = f"try --picture {platform.quoted(f'{stem}.svg')}"
        raise UsageError("--picture writes SVG", "a name that ends in .svg", hint, path)
    return AtomicFile(path, overwrite=overwrite, inputs=inputs)


def layout_of(*, only: bool) -> Layout:
    """How to store an output."""
    from revseq_cli.formats.contract import Layout

    return Layout(only)


def take_resources(parameters: dict[str, Any]) -> Resources:
    """Remove the resource options from the parameters, and combine them; UsageError for a scheduler without dask."""
    from revseq_cli.pipeline.plan import Resources  # it loads NumPy

    engine, cores, memory = parameters.pop("engine"), parameters.pop("cores") or 0, parameters.pop("memory")
    scheduler = parameters.pop("scheduler") or ""
    if engine == DASK:
        return Resources(engine, cores, memory, scheduler)
    context = click.get_current_context(silent=True)  # the jobs of a batch have none
    if context and context.get_parameter_source("scheduler") is click.core.ParameterSource.COMMANDLINE:
        raise UsageError("--scheduler is about dask", f"--engine {DASK}", f"add --engine {DASK}")
    return Resources(engine, cores, memory)


def take_console(parameters: dict[str, Any]) -> Console:
    """Remove the output options from the parameters, and combine them; progress is shown until the command ends."""
    console = Console(*(parameters.pop(name) for name in ("as_json", "quiet", "verbose", "color")))
    # Lines of JSON on the same terminal would break the bar.
    if sys.stderr.isatty() and not console.quiet and not (console.as_json and is_terminal()):
        from revseq_cli.report.terminal import Progress

        click.get_current_context().with_resource(Progress())
    return console


def request_of(**fields: Any) -> Request:
    """The job options as a request: its fields by their names, but for INPUT and the format."""
    from revseq_cli.pipeline.assembly import Request

    context = click.get_current_context(silent=True)
    typed = () if context is None or context.info_name == "batch" else tuple(sys.argv[1:])
    return Request(values=fields.pop("input"), format=fields.pop("format_name"), typed=typed, **fields)


def _added(function: Callable[..., Any], options: Iterable[Callable[..., Any]]) -> Callable[..., Any]:
    for option in reversed([*options]):
        function = option(function)
    return function


def job_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that adds INPUT, LENGTHS and the options of a job, for `request_of`."""
    return _added(function, (*_JOB_TENSORS, *_JOB_SETTINGS))


def job_settings(function: Callable[..., Any]) -> Callable[..., Any]:
    """One that adds the options of a job alone."""
    return _added(function, _JOB_SETTINGS)


def resource_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """One that adds the options for passes; the command gets `resources`."""

    @functools.wraps(function)
    def command(**parameters: Any) -> Any:
        resources = take_resources(parameters)
        return function(resources=resources, **parameters)

    return _added(command, _RESOURCES)


def output_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """One that adds the options for reports, notes and colours; the command gets its `console`."""

    @functools.wraps(function)
    def command(**parameters: Any) -> Any:
        console = take_console(parameters)
        return function(console=console, **parameters)

    return _added(command, _OUTPUT)
