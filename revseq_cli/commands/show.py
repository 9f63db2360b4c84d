"""`revseq show`: data type, sizes and storage of tensors, with a preview; and what files hold."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from revseq_cli.commands import options
from revseq_cli.commands.options import Console, Group
from revseq_cli.core.errors import NoTensorError, RevseqError, printable
from revseq_cli.core.tensors import DataType

if TYPE_CHECKING:
    from revseq_cli.formats.contents import Contents
    from revseq_cli.formats.contract import Source, TextTypes


@options.command(
    "show",
    examples=(
        'revseq show "[[1, 2], [3, 4]]"',
        'revseq show "[[1, 2], [3, 4]]" --stats --json',
    ),
)
@click.argument(
    "tensors",
    metavar="TENSOR...",
    nargs=-1,
    required=True,
    callback=options.expanded,
    shell_complete=options.complete_files,
)
@options.dtype_option
@options.sizes_option
@Group.PRINT.option(
    "--names", is_flag=True, help="Print only names, in the form that other commands accept."
)
@Group.PRINT.option(
    "--stats", is_flag=True,
    help="Also print the minimum, maximum and mean of all elements, and count NaNs, infinities and missing values.",
)  # fmt: skip
@options.input_format_option
@options.output_options
def command(
    tensors: tuple[str, ...],
    dtype: DataType | None,
    sizes: tuple[int, ...] | None,
    names: bool,
    stats: bool,
    input_format: str | None,
    console: Console,
) -> int:
    """Show the data type, shape, size in bytes, storage and attributes of tensors, with a preview of the values.

    TENSOR is named as in revseq run. page.md::2 shows every tensor in the second example on a page, and model.onnx
    lists the ReverseSequence nodes of an ONNX model.

    For a file with several tensors, or a group such as x.h5::/group, the command lists each tensor with its data type,
    its shape, the names of its dimensions, the number of its attributes, and its storage. Values are not read.

    --names prints one name per line, for scripts.

    If some of several TENSORs cannot be read, the command shows the others, and the exit status is 1. It is 2 if none
    can be read, or if --stats finds the only file damaged.
    """
    from revseq_cli.formats.contents import Contents
    from revseq_cli.formats.contract import TextTypes
    from revseq_cli.report import objects  # --help must not load NumPy

    types = TextTypes(dtype, DataType.FLOAT32, sizes=sizes)
    shown: list[_Shown] = []
    is_terminal = sys.stdout.isatty()
    errors: dict[str, RevseqError] = {}
    for name in tensors:
        new, texts, damaged = list[_Shown](), list[str](), dict[str, RevseqError]()
        try:
            new = [*_shown(name, input_format, types, damaged, headers=names, stats=stats)]
            if names and not console.as_json:
                lines = [tensor["name"] for part in new for tensor in part.tensors]
                texts = [
                    printable(name) if is_terminal or name.splitlines()[1:] else name
                    for name in lines
                ]
            elif not console.as_json:
                texts = [_text(part, console) for part in new]
        except RevseqError as e:
            if len(tensors) == 1:
                raise
            new, damaged = [], {name: e}
        if texts:
            click.echo("\n".join(texts) if names else ("\n" if shown else "") + "\n\n".join(texts))
        for error in damaged.values():
            options.print_error(error, console.color)
        shown += new
        errors |= damaged
    status = (1 if shown and tensors[1:] else 2) if errors else 0
    if console.as_json:
        files = [part.of for part in shown if isinstance(part.of, Contents)]
        click.echo(
            objects.show(
                [tensor for part in shown for tensor in part.tensors], files, errors, status
            )
        )
    return status


class _Shown(NamedTuple):
    """A tensor that is open, or what a file holds; and what is told of its tensors."""

    of: Source | Contents
    tensors: Sequence[dict[str, Any]]


def _text(shown: _Shown, console: Console) -> str:
    from revseq_cli.formats.contents import Contents
    from revseq_cli.report import contents, terminal

    if isinstance(shown.of, Contents):
        return contents.file_text(shown.of, terminal.width_of(sys.stdout))
    [told] = shown.tensors
    attributes = told.get("attribute_values") or {}
    return contents.tensor_text(
        shown.of,
        attributes,
        told.get("statistics"),
        preview=not console.quiet,
        width=terminal.width_of(sys.stdout),
    )


def _shown(
    name: str,
    input_format: str | None,
    types: TextTypes,
    damaged: dict[str, RevseqError],
    *,
    headers: bool,
    stats: bool,
) -> Iterator[_Shown]:
    """What a name stands for: a tensor, those of an example, or what a file, a group or a model holds.

    With `headers`, a file of one tensor is shown as its contents, too; with `stats`, each tensor of a file by itself.
    The errors of some of several go into `damaged`.
    """
    from revseq_cli.formats import references
    from revseq_cli.formats.contents import Contents, Item, number_of
    from revseq_cli.formats.contract import Storage
    from revseq_cli.pipeline import inputs
    from revseq_cli.report import objects

    reference = references.Reference.input(name, input_format, override=True)
    key = reference.key
    if reference.is_onnx_model and not reference.format:
        from revseq_cli.formats.onnx import OPERATOR, Model  # few files are models

        model = Model(reference.path)
        nodes = model.nodes.values() if key is None else [model.node(key)]
        items = tuple(Item(node.key, what=f"{OPERATOR}, {model.told(node)}") for node in nodes)
        yield _Shown(Contents(reference.path, "onnx", items), ())
        return
    example = inputs.find_example(reference) if number_of(key) is not None else None
    if example:
        for role in example.example.tensors:
            yield _opened(example.tensor(role, types), f"{name}::{role}", stats=stats)
        return
    contents = references.contents(reference, types)
    if contents and not stats and (headers or contents.only is None):
        told = []
        for item in contents.tensors:
            if item.desc:
                row, storage = contents.name_of(item), Storage(contents.format, item.details)
                told.append(
                    objects.described(row, item, item.desc, storage, attributes=item.attributes)
                )
        yield _Shown(contents, told)
        return
    inputs.refuse_sizes([reference], types.sizes)
    keys = (
        [item.key for item in contents.items if item.desc or item.is_damaged]
        if contents and stats
        else [key]
    )
    for item_key in keys:
        try:
            source = references.open_source(replace(reference, key=item_key), types)
            yield _opened(source, source.name if source.key else name, stats=stats)
        except RevseqError as e:
            if len(keys) == 1:
                raise
            if not isinstance(e, NoTensorError):
                at = f"{reference.path}::{item_key}"
                damaged[at] = e.about(at)


def _opened(source: Source, name: str, *, stats: bool) -> _Shown:
    """What is told of a tensor, with `stats` of its statistics, too."""
    from revseq_cli.pipeline import passes
    from revseq_cli.pipeline.plan import Resources
    from revseq_cli.report import objects

    more: dict[str, Any] = {}
    with contextlib.suppress(RevseqError):  # of attributes that cannot be read
        if meaning := source.meaning():
            values = meaning.attributes.items()
            more["attribute_values"] = {
                key: v.tolist() if hasattr(v, "tolist") else v for key, v in values
            }
            more["attributes"] = len(values)
    if stats:
        more["statistics"] = objects.statistics(passes.statistics(source, Resources()))
    return _Shown(source, [objects.described(name, source, source.desc, source.storage, **more)])
