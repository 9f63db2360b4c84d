"""The options that several commands share, and what commands make of them: requests, resources, the console."""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from revseq_cli.commands.base import TYPED, AloneOption, SessionOption
from revseq_cli.commands.console import Console, is_terminal, notes_of_libraries
from revseq_cli.commands.values import (
    COMPRESSIONS,
    DATA_TYPE,
    DIMENSION,
    JUDGE,
    LENGTHS_TYPE,
    LEVEL,
    LEVELS,
    LIST,
    NUMBERS,
    Known,
    Parsed,
    Tensor,
    bytes_text,
    complete_dimension,
    parse_bytes,
    parse_chunks,
    parse_compression,
)
from revseq_cli.formats import table
from revseq_cli.ground import system
from revseq_cli.ground.errors import UsageError, printable, shortened
from revseq_cli.ground.tensors import MOST_DIMENSIONS
from revseq_cli.passes.engines.table import AUTO, DEFAULT_MEMORY, ENGINES, NAMES, SERIAL
from revseq_cli.passes.systems import SYNONYMS, SYSTEMS
from revseq_cli.report.progress import WAYS, Progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from revseq_cli.formats.contract import Layout
    from revseq_cli.passes.arrangement import Resources
    from revseq_cli.passes.assembly import Request
    from revseq_cli.passes.judges import Host

_LONGEST_COMMAND = 1000  # characters of a command; tensors may be typed as text
# The time of reproducible builds; source: reproducible-builds.org/specs/source-date-epoch.
_TIME_VARIABLE = "SOURCE_DATE_EPOCH"
_LARGEST_FILE = 1 << 20  # bytes; the file of a dask scheduler has a few thousand


class _Ambient(str):
    """The value of an environment variable, which a command that has no use for it ignores."""


def _from_session(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """The value of an option; marked where it came from the environment."""
    source = context.get_parameter_source(str(option.name))
    return _Ambient(value) if value and source is click.core.ParameterSource.ENVIRONMENT else value


def _session_option(name: str, *more: str, **attributes: Any) -> Callable[..., Any]:
    """An option that an environment variable sets, too: REVSEQ_MEMORY for --memory. Help shows both."""
    variable = f"REVSEQ_{name.lstrip('-').replace('-', '_').upper()}"
    shown = {"show_default": True, "show_envvar": True}
    return click.option(name, *more, cls=SessionOption, envvar=variable, **shown, **attributes)


def _feature_level(name: str, levels: Parsed, more: str = "") -> Callable[..., Any]:
    """The option --feature-level; the command gets its value as `name`."""
    text = "The feature level, as 5_0, 5.0 or DML_FEATURE_LEVEL_5_0; none lifts DirectML's limits"
    return _session_option("--feature-level", name, type=levels, default="5_0", help=f"{text}{more}.")


level_option = _feature_level("level", LEVEL)
levels_option = _feature_level("levels", LEVELS, "; all compares every level")

rank_option = click.option(
    "--rank", type=click.IntRange(1, MOST_DIMENSIONS), metavar="N",
    help="The dimension count of the result: leading sizes of 1 are added or removed.",
)  # fmt: skip

dtype_option = click.option(
    "--dtype", type=DATA_TYPE,
    help="The data type of a text without a header, or of untyped bytes, as |V2 in .npy.  [default: FLOAT32]",
)  # fmt: skip

_BUFFER = (
    click.option(
        "--sizes", type=NUMBERS, metavar="AxBxC", help="The sizes of a raw buffer, as x.bin; its type is --dtype.",
    ),
    click.option(
        "--strides", type=NUMBERS, metavar="AxBxC",
        help="The strides of a raw buffer, in elements, as in DML_BUFFER_TENSOR_DESC.  [default: it is packed]",
    ),
)  # fmt: skip

feed_option = click.option(
    "--feed", multiple=True, metavar="NAME=FILE",
    help="A tensor for an input of the ONNX model that INPUT names; or a folder as ONNX's test_data_set_0.",
)  # fmt: skip

_JOB_TENSORS = (
    click.argument("input", metavar="INPUT", type=Tensor()),
    click.argument("lengths", metavar="[LENGTHS]", required=False, type=Tensor()),
)
_JOB_SETTINGS = (
    click.option(
        "--axis", type=DIMENSION, metavar="N|NAME", shell_complete=complete_dimension,
        help="The dimension to reverse along: counted from 0, or its name where the file has names, as in NetCDF and "
        "Zarr. A number is never a name.",
    ),
    dtype_option,
    *_BUFFER,
    click.option(
        "--lengths-dtype", type=LENGTHS_TYPE,
        help="The data type of text LENGTHS; other numbers are cast to it exactly or refused.  [default: UINT32]",
    ),
    click.option(
        "--batch-axis", type=DIMENSION, metavar="B|NAME", shell_complete=complete_dimension,
        help="One length for each index of this dimension: LENGTHS has rank 1.",
    ),
    click.option(
        "--like", type=Known(SYSTEMS, SYNONYMS),
        help="LENGTHS as in that system: of rank 1, and cast exactly. The axes are by default the system's; what it "
        "refuses is an error.",
    ),
    feed_option,
    click.option(
        "--mask", is_flag=True,
        help="LENGTHS is a mask with the sizes of INPUT, or of batch and time: in each line ones, whose number is the "
        "length, followed by zeros.",
    ),
    rank_option,
)  # fmt: skip


_RESOURCES = (
    _session_option("--engine", type=click.Choice(NAMES), default=AUTO, help="What does the work."),
    _session_option(
        "--jobs", "cores", type=click.IntRange(min=1, max=1024), metavar="N",
        help="How many cores may be used.  [default: those this process may use]",
    ),
    _session_option(
        "--memory", type=Parsed("size", parse_bytes), default=bytes_text(DEFAULT_MEMORY),
        help="The limit for the data that all workers hold: K, M, G are powers of 1024, KB, MB, GB of 1000.",
    ),
    _session_option(
        "--scheduler", metavar="ADDRESS", callback=_from_session,
        help="The scheduler for --engine dask, as tcp://host:8786; --memory is then for each thread of its workers. "
        "Without it, dask starts --jobs processes here.",
    ),
    click.option(
        "--scheduler-file", metavar="FILE", type=click.Path(), help="The file of dask's scheduler, with its address.",
    ),
)  # fmt: skip

_LAYOUT = (
    click.option(
        "--chunks", type=Parsed("chunks", parse_chunks, ("keep", "auto")), metavar="keep|auto|NxM",
        default="keep", show_default=True,
        help="The chunks of an HDF5 output: those of an HDF5 INPUT, what h5py would choose, or these sizes.",
    ),
    click.option(
        "--compression", type=Parsed("compression", parse_compression, COMPRESSIONS), metavar="keep|none|gzip[:LEVEL]",
        default="keep", show_default=True,
        help="The compression of an HDF5 output; LEVEL is 0 to 9, or else 4.",
    ),
    click.option(
        "--keep-others", is_flag=True,
        help="Copy everything else in INPUT's file, too: the output is that file with this one tensor replaced.",
    ),
    click.option(
        "--history/--no-history", default=True, show_default=True,
        help="Add this command to the history of a NetCDF file: to that global attribute, as NCO does.",
    ),
)  # fmt: skip


on_option = click.option(
    "--on", cls=AloneOption, type=JUDGE, is_flag=False, flag_value=LIST, metavar="[WHERE]",
    help="Run the job elsewhere: WHERE is onnxruntime, onnxruntime:PROVIDER or directml. revseq diff --on lists what "
    "this machine has.",
)  # fmt: skip


def host_of(on: str | None) -> Host | None:
    """What --on names, or None without it; UsageError where it names nothing, as only `diff` alone may have it."""
    if not on:
        return None
    if on == LIST:
        wanted = "--on onnxruntime, --on onnxruntime:PROVIDER or --on directml"
        raise UsageError("--on has no WHERE", wanted, "to list what this machine has: revseq diff --on")
    engine = click.get_current_context().meta[TYPED].get("engine", AUTO)
    if engine not in (AUTO, SERIAL.name):
        found = f"the engine is {engine}, and ONNX Runtime has one session with threads of its own"
        raise UsageError(found, SERIAL.name, f"try --engine {SERIAL.name}")
    from revseq_cli.passes.judges import Host  # it loads NumPy

    return Host.of(on)


def format_of(files: str) -> Callable[..., Any]:
    """The option --format of these files."""
    return click.option("-f", "--format", "format_name", type=click.Choice(table.NAMES), help=f"The format of {files}.")


format_option = format_of("files, whatever their first bytes and their suffixes say")
full_option = click.option("--full", is_flag=True, help="Print every element on a terminal, too.")

_OUTPUT = (
    click.option("--json", "as_json", is_flag=True, help="Report as JSON."),
    click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors; it overrides -v."),
    click.option(
        "-v", "--verbose", count=True,
        callback=lambda ctx, _, value: ctx.meta.setdefault("revseq.verbose", value),
        help="Say what is done, on standard error; -vv shows tracebacks.",
    ),
    _session_option(
        "--color", type=click.Choice(["auto", "always", "never"]), default="auto",
        callback=lambda ctx, _, value: ctx.meta.setdefault("revseq.color", value),
        help="When to use colour. auto: on a terminal, or as NO_COLOR or FORCE_COLOR says, but not for "
        "tensors in a pipe. never: no highlights of other kinds, either.",
    ),
)  # fmt: skip
# How long work is shown, for `output_options` below it.
progress_option = _session_option(
    "--progress", type=click.Choice(WAYS), default=WAYS[0],
    help="How to show how far long work is, on standard error. auto: by a bar on a terminal, and elsewhere by "
    "plain lines, one every 30 seconds.",
)  # fmt: skip


def _adding(
    *options: Callable[..., Any], name: str = "", take: Callable[[dict[str, Any]], Any] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that adds the options; with `take`, the command gets what that makes of their values as `name`."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def command(**parameters: Any) -> Any:
            taken = {name: take(parameters)} if take else {}
            return function(**taken, **parameters)

        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _history() -> str:
    """The line about this command for the history of a NetCDF file, as NCO has it; UsageError for a wrong time."""
    command = printable(" ".join(map(system.quoted, ["revseq", *sys.argv[1:]])))
    return f"{time.asctime(_now())}: {shortened(command, _LONGEST_COMMAND)}"


def _now() -> time.struct_time:
    """The local time, or the one that SOURCE_DATE_EPOCH sets, in UTC."""
    text = os.environ.get(_TIME_VARIABLE)
    if not text:
        return time.localtime()
    try:
        return time.gmtime(int(text))
    except (ValueError, OverflowError, OSError):
        raise UsageError(f"{_TIME_VARIABLE} is {text[:40]!r}", "seconds since 1970-01-01 UTC, as 1700000000") from None


def take_layout(parameters: dict[str, Any]) -> Layout:
    """Remove the layout options from the parameters, and combine them."""
    from revseq_cli.formats.contract import Layout

    parameters["history"] = _history() if parameters["history"] else ""
    return Layout(**{name: parameters.pop(name) for name in Layout._fields})


def take_resources(parameters: dict[str, Any]) -> Resources:
    """Remove the resource options from the parameters, and combine them; UsageError for those that do not fit."""
    from revseq_cli.passes.arrangement import Resources  # it loads NumPy

    engine, cores, memory = parameters.pop("engine"), parameters.pop("cores") or 0, parameters.pop("memory")
    scheduler, file = parameters.pop("scheduler"), parameters.pop("scheduler_file")
    is_typed = scheduler is not None and not isinstance(scheduler, _Ambient)
    if is_typed and file:
        raise UsageError("--scheduler and --scheduler-file are one thing said twice", "one of them")
    if engine in ENGINES and ENGINES[engine].remote:
        return Resources(engine, cores, memory, (_address_in(file) if file else scheduler) or "")
    if is_typed or file:
        remote = " or ".join(each.name for each in ENGINES.values() if each.remote)
        found = f"--scheduler and --scheduler-file are about {remote}"
        raise UsageError(found, f"--engine {remote}", f"add --engine {remote}")
    return Resources(engine, cores, memory)


def _address_in(path: str) -> str:
    """The address in the file that dask's scheduler wrote; UsageError if it has none."""
    from revseq_cli.formats.storage import positioned
    from revseq_cli.ground.errors import TensorIOError

    wanted = "what dask scheduler --scheduler-file writes, with an address as tcp://host:8786"
    try:
        with positioned.opened(path) as fd:
            address = json.loads(positioned.read_some(fd, _LARGEST_FILE, 0, path))["address"]
    except TensorIOError as e:
        raise UsageError(e.found, wanted, where=path) from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UsageError("has no address", wanted, where=path) from None
    if not isinstance(address, str) or not address.strip():
        raise UsageError(f"its address is {json.dumps(address)[:40]}", wanted, where=path)
    return address


def take_console(parameters: dict[str, Any]) -> Console:
    """Remove the output options from the parameters, and combine them; progress is shown until the command ends."""
    console = Console(*(parameters.pop(name) for name in ("as_json", "quiet", "verbose", "color")))
    context, progress = click.get_current_context(), parameters.pop("progress", WAYS[0])
    context.call_on_close(lambda: console.note(*notes_of_libraries()))
    # Lines of JSON on the same terminal would break the bar.
    bar = sys.stderr.isatty() and not (console.as_json and is_terminal())
    context.with_resource(Progress("none" if console.quiet else progress, bar=bar))
    return console


def request_of(**fields: Any) -> Request:
    """The job options as a request: its fields by their names, but for INPUT and the format."""
    from revseq_cli.passes.assembly import Request  # it loads NumPy

    return Request(values=fields.pop("input"), format=fields.pop("format_name"), **fields)


# INPUT, LENGTHS and the options that say how to read them, for `request_of`; the options alone.
job_options, job_settings = _adding(*_JOB_TENSORS, *_JOB_SETTINGS), _adding(*_JOB_SETTINGS)
# What a raw buffer lacks, for a tensor that is no part of a job.
sizes_options, buffer_options = _adding(*_BUFFER), _adding(dtype_option, *_BUFFER)
# The options for passes: `resources` has how much of the machine they may use; and those for the storage of the output.
resource_options = _adding(*_RESOURCES, name="resources", take=take_resources)
layout_options = _adding(*_LAYOUT, name="layout", take=take_layout)
# Those for reports, notes and colours.
output_options = _adding(*_OUTPUT, name="console", take=take_console)
