"""`revseq show`: data type, sizes and storage of tensors, with a preview."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from revseq_cli.commands import base, options, values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from revseq_cli.formats.contract import Source
    from revseq_cli.formats.documents import TextTypes
    from revseq_cli.formats.references import Reference
    from revseq_cli.ground.tensors import DataType


@base.command(
    "show",
    """Show data type, sizes, dimension count, bytes and storage of tensors, and a preview of their values.

    TENSOR is named as in revseq run; page.md::2 is every tensor of the second example of a page, and model.json those
    of a model of DxDispatch.
    """,
    epilog="Example: revseq show samples/example1.h5::/lengths",
)
@click.argument("tensors", metavar="TENSOR...", nargs=-1, required=True, type=values.Tensor())
@options.dtype_option
@click.option("--stats", is_flag=True, help="Read every element: minimum, maximum, mean, and how many are NaN.")
@options.format_option
@options.json_option
@options.progress_option
@options.output_options
def command(
    tensors: tuple[str, ...],
    dtype: DataType | None,
    stats: bool,
    format_name: str | None,
    as_json: bool,
    console: options.Console,
) -> None:
    """Run the command."""
    from revseq_cli.formats.documents import TextTypes
    from revseq_cli.formats.references import Reference
    from revseq_cli.ground.tensors import DataType
    from revseq_cli.passes import folds  # --help must not load NumPy
    from revseq_cli.passes.arrangement import Resources
    from revseq_cli.report import objects, tables  # --help must not load NumPy

    types = TextTypes(dtype, DataType.FLOAT32)
    sources = [
        source for name in tensors for source in _sources(Reference.input(name, format_name, override=True), types)
    ]
    statistics = [folds.statistics(source, Resources()) if stats else None for source in sources]
    if as_json:
        click.echo(objects.show(sources, statistics))
        return
    for i, (source, each) in enumerate(zip(sources, statistics, strict=True)):
        click.echo("\n" * (i > 0) + tables.show(source, each, preview=not console.quiet))


def _sources(reference: Reference, types: TextTypes) -> Iterator[Source]:
    """The tensor that the reference names, or all tensors of the example or of the model that it names."""
    from revseq_cli.formats.registry import model_of, open_source
    from revseq_cli.passes import jobs

    numbered = reference.key is not None and reference.key.isdecimal()
    several = model_of(reference) or (jobs.example_of(reference) if numbered else None)
    if several:
        yield from (several.tensor(role, types) for role in several.roles)
    else:
        yield open_source(reference, types)
