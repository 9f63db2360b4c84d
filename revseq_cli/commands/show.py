"""`revseq show`: data type, sizes and storage of tensors, with a preview; and what files hold."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import click

from revseq_cli.commands import base, options, streams, values
from revseq_cli.ground.errors import RevseqError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from revseq_cli.commands.console import Console
    from revseq_cli.formats.contents import Contents
    from revseq_cli.formats.contract import Source
    from revseq_cli.formats.documents import TextTypes
    from revseq_cli.formats.references import Reference
    from revseq_cli.ground.tensors import DataType
    from revseq_cli.report.results import Described

_SOME_FAILED, _ALL_FAILED = 1, 2  # exit statuses


@base.command(
    "show",
    """Show data type, sizes, dimension count, bytes and storage of tensors, and a preview of their values.

    TENSOR is named as in revseq run; page.md::2 is every tensor of the second example of a page, and model.json those
    of a model of DxDispatch.

    A file of several tensors, or a group as x.h5::/group, is listed: each tensor with its data type, sizes, the names
    of its dimensions, the number of its attributes, and its storage. No values are read. On a terminal, a long list is
    cut to one screen.

    --shape, --dtype and --names print a line for each tensor, for scripts: what is asked for, in this order, with tabs
    between. The name is what to type for the tensor.

    What cannot be read hides nothing else: the exit status is 1 if some of several TENSORs cannot be read, and 2 if
    none can.
    """,
    examples=(
        'revseq show "[[1, 2], [3, 4]]"',
        'revseq show "[[1, 2], [3, 4]]" --stats --json',
    ),
)
@click.argument("tensors", metavar="TENSOR...", nargs=-1, required=True, type=values.Tensor())
@click.option("--shape", is_flag=True, help="Print the sizes of each tensor alone, with blanks between them.")
@click.option(
    "--dtype", cls=base.AloneOption, type=values.DATA_TYPE, is_flag=False, flag_value=True, metavar="[TYPE]",
    help="Print the data type of each tensor alone. With a TYPE: the data type of a text without a header, or of "
    "untyped bytes, such as |V2 in .npy.  [default: FLOAT32]",
)  # fmt: skip
@click.option("--names", is_flag=True, help="Print the name of each tensor alone.")
@click.option("--stats", is_flag=True, help="Read every element: minimum, maximum, mean, and how many are NaN.")
@click.option("--full", is_flag=True, help="List everything on a terminal, too.")
@options.format_option
@options.json_option
@options.progress_option
@options.output_options
def command(
    tensors: tuple[str, ...],
    shape: bool,
    dtype: DataType | bool | None,
    names: bool,
    stats: bool,
    full: bool,
    format_name: str | None,
    as_json: bool,
    console: Console,
) -> int:
    """Run the command."""
    from revseq_cli.formats.documents import TextTypes
    from revseq_cli.ground.tensors import DataType
    from revseq_cli.report import objects  # --help must not load NumPy
    from revseq_cli.report.words import message

    asked = [name for name, given in (("shape", shape), ("dtype", dtype is True), ("names", names)) if given]
    if asked and (stats or as_json):
        found = f"--{asked[0]} prints lines for scripts"
        raise UsageError(found, "neither --stats nor --json with it", f"leave out --{asked[0]}: --json has all")
    types = TextTypes(dtype if isinstance(dtype, DataType) else None, DataType.FLOAT32)
    told: list[_Told] = []
    errors: dict[str, RevseqError] = {}
    failures = 0
    for name in tensors:
        try:
            new = [*_told(name, format_name, types, headers=bool(asked), stats=stats)]
            lines = [] if as_json else _lines(new, asked, full=full, preview=not console.quiet)
        except RevseqError as e:
            if len(tensors) == 1:
                raise
            errors[name] = e
            failures += 1
            click.echo(message(e), err=True)
            continue
        for line in [""] * bool(told and lines and not asked) + lines:
            click.echo(line)
        told += new
    if failures == len(tensors):
        return _ALL_FAILED
    if as_json:
        listed = [each.contents for each in told if each.contents]
        click.echo(objects.show([tensor for each in told for tensor in each.tensors], listed, errors))
    return _SOME_FAILED if errors else 0


class _Told(NamedTuple):
    """What is told of a tensor that is open, or of what a file holds."""

    tensors: Sequence[Described]
    source: Source | None = None
    contents: Contents | None = None

    def text(self, *, full: bool, preview: bool) -> str:
        """The same for people."""
        from revseq_cli.report import listing, tables

        if self.source:
            return tables.show(self.source, self.tensors[0].statistics, preview=preview)
        size = shutil.get_terminal_size()
        screen = (size.columns, size.lines) if streams.is_terminal() and not full else None
        return listing.listing(self.contents, screen) if self.contents else ""


def _lines(told: Sequence[_Told], asked: Sequence[str], *, full: bool, preview: bool) -> list[str]:
    """The lines for scripts, if any are asked for, or the text for people."""
    from revseq_cli.report import listing

    if asked:
        tensors = (tensor for each in told for tensor in each.tensors)
        return [*listing.columns(tensors, asked, is_terminal=streams.is_terminal())]
    return ["\n\n".join(each.text(full=full, preview=preview) for each in told)] if told else []


def _told(name: str, format_name: str | None, types: TextTypes, *, headers: bool, stats: bool) -> Iterator[_Told]:
    """What a name stands for: a tensor, those of an example or a model, or what a file or a group holds.

    With `headers`, a file of one tensor is told as its contents, too; with `stats`, each tensor of a file by itself.
    """
    from revseq_cli.formats import registry
    from revseq_cli.formats.references import Reference
    from revseq_cli.passes import folds, jobs
    from revseq_cli.passes.arrangement import Resources
    from revseq_cli.report.results import Described

    def opened(source: Source, typed: str) -> _Told:
        statistics = folds.statistics(source, Resources()) if stats else None
        notes = () if headers else (*source.notes, *source.gaps())
        return _Told([Described.of(source, typed, notes, statistics)], source)

    def one(reference: Reference) -> _Told:
        source = registry.open_source(reference, types)
        return opened(source, source.name if source.key else name)

    reference = Reference.input(name, format_name, override=True)
    model = registry.model_of(reference)
    numbered = reference.key is not None and reference.key.isdecimal()
    several = model or (jobs.example_of(reference) if numbered else None)
    contents = None if several else registry.contents(reference, types)
    if several:
        yield from (opened(several.tensor(role, types), f"{name}::{role}" if model else name) for role in several.roles)
    elif contents and stats:
        yield from (one(replace(reference, key=item.key)) for item in contents.tensors)
    elif contents and (headers or contents.only is None):
        yield _Told(Described.all_of(contents), contents=contents)
    else:
        yield one(reference)
