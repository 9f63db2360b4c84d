"""`revseq levels`: what the operator accepts at each feature level of DirectML."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from revseq_cli.commands import options
from revseq_cli.commands.console import Console
from revseq_cli.commands.groups import make_command
from revseq_cli.core.tensors import DataType
from revseq_cli.operator import spec
from revseq_cli.operator.spec import INPUT, LENGTHS, FeatureLevel, Support

if TYPE_CHECKING:
    from revseq_cli.report.objects import LevelRecord

_NOT_YET = f"the operator does not exist before {spec.SUPPORT[0].since.short}"
# Rows of the matrix: the data types of DirectML that come together, as the page's tables have them.
_VALUE_TYPES = {
    "FLOAT16-32": (DataType.FLOAT16, DataType.FLOAT32),
    "FLOAT64": (DataType.FLOAT64,),
    "INT8-32": (DataType.INT8, DataType.INT16, DataType.INT32),
    "INT64": (DataType.INT64,),
    "UINT8-32": (DataType.UINT8, DataType.UINT16, DataType.UINT32),
    "UINT64": (DataType.UINT64,),
    "other types": (DataType.BOOL, DataType.COMPLEX64, DataType.BFLOAT16),
}
_LENGTH_TYPES = {
    "UINT32 lengths": (DataType.UINT32,),
    "UINT64 lengths": (DataType.UINT64,),
    "other lengths": (DataType.INT64, DataType.FLOAT32),
}
_NEWEST = spec.DIRECTML_ROWS[-1].since.short


@make_command("levels", examples=("revseq levels 4_0", "revseq levels --json"))
@click.argument("level", metavar="[LEVEL]", type=options.LEVEL, required=False)
@options.output_options
def command(level: FeatureLevel | None, console: Console) -> None:
    """Show what the operator accepts at each DirectML feature level, or at LEVEL.

    A column of the table applies from its level up to the level of the next column.
    """
    from revseq_cli.report import objects, terminal  # --help must not load NumPy

    levels = (level,) if level else tuple(FeatureLevel)
    if console.as_json:
        console.report(objects.LevelsRecord(levels=list(map(_describe_level, levels))))
        return
    if level and not spec.find_support(level):
        click.echo(_NOT_YET)
        return
    if not level:
        levels = tuple(row.since for row in spec.SUPPORT)
    for line in _make_matrix(levels):
        click.echo(line)
    click.echo()
    for note in _make_notes(levels):
        click.echo(terminal.fit(note, terminal.width_of(sys.stdout)))


def _describe_level(level: FeatureLevel) -> LevelRecord:
    """What --json has of a level; before the operator exists, only its name."""
    from revseq_cli.report.objects import LevelRecord

    row = spec.find_support(level)
    if not row:
        return LevelRecord(
            level=level.short,
            input_data_types=None,
            lengths_data_types=None,
            dimension_counts=None,
            most_elements=None,
        )
    most = None
    if level is not FeatureLevel.NONE:
        # The limit depends on the size of an element.
        most = {str(kind.size): spec.most_elements(kind) for kind in reversed(row.values)}
    return LevelRecord(
        level=level.short,
        input_data_types=[kind.name for kind in row.data_types(INPUT)],
        lengths_data_types=[kind.name for kind in row.data_types(LENGTHS)],
        dimension_counts=[row.dimension_counts[0], row.dimension_counts[-1]],
        most_elements=most,
    )


def _make_matrix(levels: Sequence[FeatureLevel]) -> list[str]:
    """The lines of the table: a column for each of the levels, which all have the operator."""
    columns = []
    for level in levels:
        row = spec.find_support(level)
        if row:
            columns.append([level.short, *_make_column(row)])
    names = ["from level", "rank", *_VALUE_TYPES, *_LENGTH_TYPES]
    if len(levels) == 1:
        names[0] = "level"
    lines = []
    for name, *cells in zip(names, *columns, strict=True):
        lines.append(f"{name:<14}" + "".join(f"{cell:>5}" for cell in cells))
    return lines


def _make_column(row: Support) -> Iterator[str]:
    """The ranks, and an x for each row of types that is accepted."""
    counts = row.dimension_counts
    yield str(counts[0]) if len(counts) == 1 else f"{counts[0]}-{counts[-1]}"
    for types in _VALUE_TYPES.values():
        yield _mark(types, row.values)
    for types in _LENGTH_TYPES.values():
        yield _mark(types, row.lengths)


def _mark(types: Sequence[DataType], accepted: Sequence[DataType]) -> str:
    return "x" if {*types} <= {*accepted} else "-"


def _make_notes(levels: Sequence[FeatureLevel]) -> Iterator[str]:
    """What the table cannot say."""
    if len(levels) > 1:
        yield "A level between two columns accepts what the column before it accepts"
        yield f"Levels above {_NEWEST} accept what {_NEWEST} accepts"
    rows = [row for row in map(spec.find_support, levels) if row]
    rows_of_directml = [row for row in rows if row.since is not FeatureLevel.NONE]
    if rows_of_directml:
        most = spec.MOST_ELEMENTS
        bits_16 = spec.most_elements(DataType.UINT16)
        bits_8 = spec.most_elements(DataType.UINT8)
        yield f"A tensor has at most {most} elements,"
        yield f"  or {bits_16} of 16 bits, or {bits_8} of 8 bits"
    if any(DataType.FLOAT64 in row.values for row in rows_of_directml):
        yield "FLOAT64 also needs a device that supports it: see CheckFeatureSupport"
    if FeatureLevel.V2_1 in levels:
        yield "The prerelease of DirectML with level 2_1 also accepts rank 5"
    if FeatureLevel.NONE in levels:
        yield "With none, only the operator's own rules apply, and not DirectML's"
