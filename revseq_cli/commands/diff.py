"""`revseq diff`: the elements of two tensors that differ, in bits or by more than a tolerance."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import click

from revseq_cli.commands import base, options, values
from revseq_cli.formats import table
from revseq_cli.ground.errors import UsageError

if TYPE_CHECKING:
    from revseq_cli.ground.tensors import DataType
    from revseq_cli.passes.arrangement import Resources

_MOST_SHOWN = 100_000


class _Tolerance(click.ParamType[float]):
    """A finite number of at least 0."""

    name = "number"

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number, or Click's usage error."""
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not 0 <= number < math.inf:
            self.fail(f"{str(value)[:40]!r} is not a number of at least 0", param, ctx)
        return number


@base.command(
    "diff",
    """Compare two tensors, each in any format, and show where they differ.

    A and B are named as in revseq run; one of several tensors in a text is x.txt::InputTensor. They are equal if data
    type, sizes and every bit of every element are the same: a NaN equals only a NaN of the same bits, and -0.0 is not
    0.0. Byte order and memory order do not matter.

    With --atol, --rtol or --equal-nan, values are compared as by numpy.isclose, floats in FLOAT64 and integers
    exactly: -0.0 is 0.0, and a NaN equals nothing, or with --equal-nan every NaN. Data type and sizes must be the same.

    The exit status is 0 if the tensors are equal, 1 if they differ, and 2 for what cannot be read.
    """,
    epilog="Example: revseq diff samples/example1.npy samples/example1.h5::/input",
)
@click.argument("a", metavar="A", type=values.Tensor())
@click.argument("b", metavar="B", type=values.Tensor())
@click.option("--atol", type=_Tolerance(), help="Elements this close are equal: |A - B| <= atol + rtol * |B|.")
@click.option("--rtol", type=_Tolerance(), help="The relative tolerance, a factor of |B|.")
@click.option("--equal-nan", is_flag=True, help="Compare by value; every NaN equals every other NaN.")
@click.option(
    "--first", type=click.IntRange(0, _MOST_SHOWN), default=10, show_default=True, metavar="N",
    help="How many differences to show.",
)  # fmt: skip
@options.dtype_option
@click.option(
    "-f", "--format", "format_name", type=click.Choice(table.NAMES),
    help="The format of a file whose first bytes and suffix do not tell it.",
)  # fmt: skip
@options.resource_options
@options.json_option
@options.output_options
def command(
    a: str,
    b: str,
    atol: float | None,
    rtol: float | None,
    equal_nan: bool,
    first: int,
    dtype: DataType | None,
    format_name: str | None,
    resources: Resources,
    as_json: bool,
    console: options.Console,
) -> int:
    """Run the command."""
    from revseq_cli.ground import stopping  # --help must not load NumPy
    from revseq_cli.passes import comparison, jobs  # --help must not load NumPy
    from revseq_cli.passes.differences import Tolerance
    from revseq_cli.report import objects, view  # --help must not load NumPy
    from revseq_cli.report.progress import Progress

    if a == b == "-":
        raise UsageError("A and B are both standard input", "one of them", "save one to a file")
    sources = [
        jobs.load_tensor(text, name, dtype, format_name, absolute=resources.elsewhere)
        for text, name in ((a, "A"), (b, "B"))
    ]
    by_value = equal_nan or atol is not None or rtol is not None
    tolerance = Tolerance(atol or 0, rtol or 0, equal_nan) if by_value else None
    differences = None
    if sources[0].desc == sources[1].desc:
        desc = sources[0].desc
        bar = Progress(desc.total_bytes, shown=console.shows_progress)
        with stopping.deferred(), bar:
            differences = comparison.compare(
                sources[0], sources[1], tolerance, first, resources,
                lambda elements: bar.advance(elements * desc.data_type.size),
            )  # fmt: skip
        for source in sources:
            source.recheck()
    for note in (*sources[0].notes, *sources[1].notes):
        console.note(note)
    if as_json:
        click.echo(objects.diff(sources[0], sources[1], differences))
    elif not console.quiet:
        click.echo(view.diff_text(sources[0], sources[1], differences))
    return 0 if differences and not differences.count else 1
