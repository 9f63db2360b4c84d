"""The options that commands share.

Jobs (`run`, `check`): INPUT, LENGTHS, --axis, --feature-level, --dtype, --lengths-dtype, --batch-axis.
Everywhere: -f/--format, --json, -q/--quiet, -v/--verbose, --color.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from revseq_cli.errors import UsageError
from revseq_cli.spec import DataType, FeatureLevel

if TYPE_CHECKING:
    from collections.abc import Callable

    from revseq_cli.job import Request

# Spelt out, since the registry of formats would load NumPy for --help; a test holds the two together.
FORMAT_NAMES = ("npy", "h5", "json", "text")


class _Parsed(click.ParamType[Any]):
    """A value that a class of `spec` parses."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name, self._parse = name, parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The parsed value, or Click's usage error with our words."""
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except UsageError as e:
            self.fail(f"{e.found}; {e.wanted}", param, ctx)


LEVEL = _Parsed("level", FeatureLevel.parse)
DATA_TYPE = _Parsed("type", DataType.parse)

level_option = click.option(
    "--feature-level", "level", type=LEVEL, default="5_0", show_default=True, envvar="REVSEQ_FEATURE_LEVEL",
    show_envvar=True, help="The feature level, as 5_0, 5.0 or DML_FEATURE_LEVEL_5_0; none lifts DirectML's limits.",
)  # fmt: skip

_JOB = (
    click.argument("input", metavar="INPUT"),
    click.argument("lengths", metavar="[LENGTHS]", required=False),
    click.option("--axis", type=int, metavar="N", help="The dimension to reverse along, counted from 0."),
    level_option,
    click.option("--dtype", type=DATA_TYPE, help="The data type of a text INPUT without a header.  [default: FLOAT32]"),
    click.option(
        "--lengths-dtype",
        type=DATA_TYPE,
        help="The data type of text LENGTHS; other integers are cast to it exactly or refused.  [default: UINT32]",
    ),
    click.option(
        "--batch-axis",
        type=int,
        metavar="B",
        help="LENGTHS has rank 1: one length per index of this dimension.",
    ),
)

format_option = click.option(
    "-f", "--format", "format_name", type=click.Choice(FORMAT_NAMES),
    help="The format of files, whatever their suffix.",
)  # fmt: skip
json_option = click.option("--json", "as_json", is_flag=True, help="Report as one JSON object.")

_OUTPUT = (
    click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors; it wins over -v."),
    click.option("-v", "--verbose", count=True, help="Say what is done, on standard error; -vv shows tracebacks."),
    click.option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        show_default=True,
        help="Colour in reports; NO_COLOR and FORCE_COLOR count when it is auto.",
    ),
)


def _apply(decorators: tuple[Callable[..., Any], ...], function: Callable[..., Any]) -> Callable[..., Any]:
    for decorator in reversed(decorators):
        function = decorator(function)
    return function


def job_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """INPUT, LENGTHS and everything that says how to read them."""
    return _apply(_JOB, function)


def output_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """How much is said, and in which colours."""
    return _apply(_OUTPUT, function)


@dataclass(frozen=True)
class Voice:
    """How much the command says beside its result, and whether in colour."""

    quiet: bool
    verbose: int
    color: str

    def note(self, text: str) -> None:
        """Tell the user, unless asked to be quiet."""
        if not self.quiet:
            click.echo(text, err=True)

    def detail(self, text: str) -> None:
        """Tell a user who asked for it with -v."""
        if self.verbose and not self.quiet:
            click.echo(text, err=True)

    @property
    def colored(self) -> bool:
        """Whether standard output gets colour: --color, then NO_COLOR, then FORCE_COLOR, then the terminal."""
        if self.color != "auto":
            return self.color == "always"
        if os.environ.get("NO_COLOR"):
            return False
        return bool(os.environ.get("FORCE_COLOR")) or is_terminal()


def is_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def request_of(
    input: str,  # noqa: A002 - the argument's name on the command line
    lengths: str | None,
    axis: int | None,
    dtype: DataType | None,
    lengths_dtype: DataType | None,
    batch_axis: int | None,
    format_name: str | None,
) -> Request:
    """The job options as a request."""
    from revseq_cli.job import Request  # it loads NumPy

    return Request(input, lengths, axis, dtype, lengths_dtype, batch_axis, format_name)
