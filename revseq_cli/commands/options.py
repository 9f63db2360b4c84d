"""The options that several commands share, and what commands make of them: requests, resources, the console."""

from __future__ import annotations

import functools
import json
import sys
from typing import TYPE_CHECKING, Any

import click

from revseq_cli.commands import history
from revseq_cli.commands.base import SessionOption
from revseq_cli.commands.console import Console
from revseq_cli.commands.streams import is_terminal
from revseq_cli.commands.values import (
    COMPRESSIONS,
    DATA_TYPE,
    DIMENSION,
    LENGTHS_TYPE,
    LEVEL,
    LEVELS,
    Parsed,
    Tensor,
    bytes_text,
    complete_dimension,
    parse_bytes,
    parse_chunks,
    parse_compression,
)
from revseq_cli.formats import table
from revseq_cli.ground.errors import UsageError
from revseq_cli.ground.tensors import MOST_DIMENSIONS
from revseq_cli.passes.engines.table import AUTO, DEFAULT_MEMORY, ENGINES, NAMES
from revseq_cli.passes.systems import SYSTEMS
from revseq_cli.report.progress import WAYS, Progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from revseq_cli.formats.contract import Layout
    from revseq_cli.passes.arrangement import Resources
    from revseq_cli.passes.assembly import Request

_LARGEST_FILE = 1 << 20  # bytes; the file of a dask scheduler has a few thousand


def _feature_level(name: str, levels: Parsed, more: str = "") -> Callable[..., Any]:
    """The option --feature-level; the command gets its value as `name`."""
    text = "The feature level, as 5_0, 5.0 or DML_FEATURE_LEVEL_5_0; none lifts DirectML's limits"
    return click.option(
        "--feature-level", name, type=levels, default="5_0", show_default=True, envvar="REVSEQ_FEATURE_LEVEL",
        cls=SessionOption, help=f"{text}{more}.",
    )  # fmt: skip


level_option = _feature_level("level", LEVEL)
levels_option = _feature_level("levels", LEVELS, "; all compares every level")

rank_option = click.option(
    "--rank", type=click.IntRange(1, MOST_DIMENSIONS), metavar="N",
    help="The dimension count of the result: leading sizes of 1 are added or removed.",
)  # fmt: skip

_JOB_TENSORS = (
    click.argument("input", metavar="INPUT", type=Tensor()),
    click.argument("lengths", metavar="[LENGTHS]", required=False, type=Tensor()),
)
_JOB_SETTINGS = (
    click.option(
        "--axis",
        type=DIMENSION,
        metavar="N|NAME",
        shell_complete=complete_dimension,
        help="The dimension to reverse along: counted from 0, or its name where the file has names, as in NetCDF and "
        "Zarr. A number is never a name.",
    ),
    click.option(
        "--dtype",
        type=DATA_TYPE,
        help="The data type of a text INPUT without a header, or of untyped bytes, as |V2 in .npy.  [default: FLOAT32]",
    ),
    click.option(
        "--lengths-dtype",
        type=LENGTHS_TYPE,
        help="The data type of text LENGTHS; other numbers are cast to it exactly or refused.  [default: UINT32]",
    ),
    click.option(
        "--batch-axis",
        type=DIMENSION,
        metavar="B|NAME",
        shell_complete=complete_dimension,
        help="LENGTHS has rank 1: one length per index of this dimension.",
    ),
    click.option(
        "--like",
        type=click.Choice(tuple(SYSTEMS)),
        help="LENGTHS has rank 1, as there: the axes are by default that system's, and may be negative; lengths are "
        "cast exactly; what it refuses is an error.",
    ),
    rank_option,
)


_RESOURCES = (
    click.option(
        "--engine",
        type=click.Choice(NAMES),
        default=AUTO,
        show_default=True,
        envvar="REVSEQ_ENGINE",
        cls=SessionOption,
        help="What does the work.",
    ),
    click.option(
        "--jobs",
        "cores",
        type=click.IntRange(min=1, max=1024),
        metavar="N",
        envvar="REVSEQ_JOBS",
        cls=SessionOption,
        help="How many cores may be used.  [default: those this process may use]",
    ),
    click.option(
        "--memory",
        type=Parsed("size", parse_bytes),
        default=bytes_text(DEFAULT_MEMORY),
        show_default=True,
        envvar="REVSEQ_MEMORY",
        cls=SessionOption,
        help="The limit for the data that all workers together hold; K, M, G are powers of 1024, KB, MB, GB of 1000.",
    ),
    click.option(
        "--scheduler",
        metavar="ADDRESS",
        envvar="REVSEQ_SCHEDULER",
        cls=SessionOption,
        help="The scheduler for --engine dask, as tcp://host:8786; --memory is then for each thread of its workers. "
        "Without it, dask starts --jobs processes here.",
    ),
    click.option(
        "--scheduler-file",
        metavar="FILE",
        type=click.Path(),
        help="The file to which dask's scheduler wrote its address.",
    ),
)

_PROGRESS = (
    click.option(
        "--progress",
        type=click.Choice(WAYS),
        default=WAYS[0],
        show_default=True,
        envvar="REVSEQ_PROGRESS",
        cls=SessionOption,
        help="How to tell on standard error how far long work is. auto: by a bar on a terminal, and elsewhere by plain "
        "lines, one every 30 seconds.",
    ),
)

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
        help="Write this command into the global attribute history of a NetCDF output, as NCO does.",
    ),
)  # fmt: skip

dtype_option = click.option(
    "--dtype", type=DATA_TYPE,
    help="The data type of a text without a header, or of untyped bytes, such as |V2 in .npy.  [default: FLOAT32]",
)  # fmt: skip
format_option = click.option(
    "-f", "--format", "format_name", type=click.Choice(table.NAMES),
    help="The format of files, whatever their first bytes and their suffixes say.",
)  # fmt: skip
full_option = click.option("--full", is_flag=True, help="Print every element on a terminal, too.")
json_option = click.option("--json", "as_json", is_flag=True, help="Report as one JSON object.")

_OUTPUT = (
    click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors; it overrides -v."),
    click.option(
        "-v",
        "--verbose",
        count=True,
        callback=lambda ctx, _, value: ctx.meta.setdefault("revseq.verbose", value),
        help="Say what is done, on standard error; -vv shows tracebacks.",
    ),
    click.option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        show_default=True,
        envvar="REVSEQ_COLOR",
        cls=SessionOption,
        callback=lambda ctx, _, value: ctx.meta.setdefault("revseq.color", value),
        help="When to use colour. auto: on a terminal, or as NO_COLOR or FORCE_COLOR says, but not for "
        "tensors in a pipe. never: no highlights of other kinds, either.",
    ),
)


def _apply(decorators: tuple[Callable[..., Any], ...], function: Callable[..., Any]) -> Callable[..., Any]:
    for decorator in reversed(decorators):
        function = decorator(function)
    return function


def job_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add INPUT, LENGTHS and the options that say how to read them; their values are for `request_of`."""
    return _apply(_JOB_TENSORS + _JOB_SETTINGS, function)


def job_settings(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the same options without the arguments."""
    return _apply(_JOB_SETTINGS, function)


def resource_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for passes: `resources` has how much of the machine they may use."""

    @functools.wraps(function)
    def command(**parameters: Any) -> Any:
        return function(resources=take_resources(parameters), **parameters)

    return _apply(_RESOURCES, command)


def progress_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option of how to show progress, for `output_options` below it."""
    return _apply(_PROGRESS, function)


def layout_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for the storage of the output; the command gets them as `layout`."""

    @functools.wraps(function)
    def command(**parameters: Any) -> Any:
        return function(layout=take_layout(parameters), **parameters)

    return _apply(_LAYOUT, command)


def take_layout(parameters: dict[str, Any]) -> Layout:
    """Remove the layout options from the parameters, and combine them."""
    from revseq_cli.formats.contract import Layout

    parameters["history"] = history.line() if parameters["history"] else ""
    return Layout(**{name: parameters.pop(name) for name in Layout._fields})


def output_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for notes and colours; the command gets them as `console`."""

    @functools.wraps(function)
    def command(quiet: bool, verbose: int, color: str, progress: str = WAYS[0], **parameters: Any) -> Any:
        console = Console(quiet, verbose, color)
        try:
            # Lines of JSON on the same terminal would break the bar.
            bar = sys.stderr.isatty() and not (parameters.get("as_json") and is_terminal())
            with Progress("none" if quiet else progress, bar=bar):
                return function(console=console, **parameters)
        finally:
            console.library_notes()

    return _apply(_OUTPUT, command)


def take_resources(parameters: dict[str, Any]) -> Resources:
    """Remove the resource options from the parameters, and combine them; UsageError for those that do not fit."""
    names = ("engine", "cores", "memory", "scheduler", "scheduler_file")
    return _resources_of(**{name: parameters.pop(name) for name in names})


def _resources_of(
    engine: str, cores: int | None, memory: int, scheduler: str | None, scheduler_file: str | None
) -> Resources:
    from revseq_cli.passes.arrangement import Resources  # it loads NumPy

    context = click.get_current_context()
    source = context.get_parameter_source("scheduler")
    # REVSEQ_SCHEDULER is ignored by other engines. A job of a batch names a scheduler if it is not the default one.
    typed = source is click.core.ParameterSource.COMMANDLINE or scheduler != context.params.get("scheduler")
    given = typed and scheduler is not None
    if given and not str(scheduler).strip():
        raise UsageError("--scheduler is empty", "tcp://host:8786", "is a variable unset?")
    if scheduler_file is not None and not scheduler_file.strip():
        raise UsageError(
            "--scheduler-file is empty", "the file that dask's scheduler has written", "is a variable unset?"
        )
    if given and scheduler_file:
        raise UsageError("--scheduler and --scheduler-file are one thing said twice", "one of them")
    if engine == AUTO or not ENGINES[engine].remote:
        if given or scheduler_file:
            remote = " or ".join(each.name for each in ENGINES.values() if each.remote)
            raise UsageError(
                f"--scheduler and --scheduler-file are about {remote}", f"--engine {remote}", f"add --engine {remote}"
            )
        return Resources(engine, cores or 0, memory)
    address = _address_in(scheduler_file) if scheduler_file else scheduler
    return Resources(engine, cores or 0, memory, address or "")


def _address_in(path: str) -> str:
    """The address in the file that dask's scheduler wrote; UsageError if it has none."""
    from revseq_cli.formats.storage import positioned
    from revseq_cli.ground.errors import FormatError, TensorIOError
    from revseq_cli.texts import literals

    wanted = "what dask scheduler --scheduler-file writes"
    try:
        with positioned.opened(path) as fd:
            size = positioned.identity(fd).size
            if size > _LARGEST_FILE:
                raise UsageError(f"has {size} bytes", f"at most {_LARGEST_FILE}: {wanted}", where=path)
            scheduler = json.loads(positioned.read_some(fd, size, 0, path), object_pairs_hook=literals.unique)
        address = scheduler["address"]
    except (TensorIOError, FormatError) as e:
        raise UsageError(e.found, "a dask scheduler's file", where=path) from None
    except (ValueError, KeyError, TypeError, RecursionError) as e:
        if isinstance(e, UsageError):
            raise
        raise UsageError("has no address", wanted, where=path) from None
    if not isinstance(address, str) or not address.strip():
        raise UsageError(
            f"its address is {json.dumps(address)[:40] if address and str(address).strip() else 'empty'}",
            f"as tcp://host:8786: {wanted}",
            where=path,
        )
    return address


def request_of(
    input: str,  # noqa: A002 - the argument's name on the command line
    *,
    format_name: str | None,
    **others: Any,
) -> Request:
    """The job options as a request; `others` are its fields by their names."""
    from revseq_cli.passes.assembly import Request  # it loads NumPy

    return Request(values=input, format=format_name, **others)
