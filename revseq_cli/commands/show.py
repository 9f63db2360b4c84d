"""`revseq show`: data type, sizes and storage of tensors, with a preview; and what files hold."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from revseq_cli.commands import options
from revseq_cli.commands.console import Console, print_error
from revseq_cli.commands.groups import Group, make_command
from revseq_cli.commands.values import complete_files, expand_patterns
from revseq_cli.core.errors import NoTensorError, RevseqError, printable
from revseq_cli.core.tensors import DataType

if TYPE_CHECKING:
    from revseq_cli.formats.contents import Contents
    from revseq_cli.formats.contract import Source, TextTypes
    from revseq_cli.report.objects import StatisticsRecord, StoredRecord


@make_command(
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
    callback=expand_patterns,
    shell_complete=complete_files,
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
                lines = [tensor.name for part in new for tensor in part.tensors]
                texts = [
                    printable(name) if is_terminal or name.splitlines()[1:] else name
                    for name in lines
                ]
            elif not console.as_json:
                texts = [_text(part, console) for part in new]
        except RevseqError as e:
            if len(tensors) == 1:
                raise
            new, damaged = [], {name: e.about(name)}
        if texts:
            click.echo("\n".join(texts) if names else ("\n" if shown else "") + "\n\n".join(texts))
        for error in damaged.values():
            print_error(error, console.color)
        shown += new
        errors |= damaged
    status = _choose_status(tensors, shown, errors)
    if console.as_json:
        described = [tensor for part in shown for tensor in part.tensors]
        files = [part.of for part in shown if isinstance(part.of, Contents)]
        others = [
            objects.OtherRecord(file.name_of(item), item.what, item.attributes)
            for file in files
            for item in file.items
            if not item.desc
        ]
        console.report(objects.ShowRecord(described, others), status, errors.values())
    return status


def _choose_status(
    names: Sequence[str], shown: Sequence[_Shown], errors: Mapping[str, RevseqError]
) -> int:
    """The exit status: 1 if some of several tensors cannot be read, 2 if none can."""
    if not errors:
        return 0
    is_partial = bool(shown) and len(names) > 1
    return 1 if is_partial else 2


@dataclass(frozen=True)
class _Shown:
    """A tensor that is open, or what a file holds; and the records of its tensors."""

    of: Source | Contents
    tensors: Sequence[StoredRecord]


def _text(shown: _Shown, console: Console) -> str:
    from revseq_cli.formats.contents import Contents
    from revseq_cli.report import contents, terminal

    if isinstance(shown.of, Contents):
        return contents.file_text(shown.of, terminal.width_of(sys.stdout))
    [record] = shown.tensors
    return contents.tensor_text(
        shown.of,
        record.attribute_values or {},
        record.statistics,
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
    from revseq_cli.pipeline import inputs

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
            yield _describe_tensor(example.tensor(role, types), f"{name}::{role}", stats=stats)
        return
    contents = references.contents(reference, types)
    if contents and not stats and (headers or contents.only is None):
        yield _Shown(contents, list(_describe_items(contents)))
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
            yield _describe_tensor(source, source.name if source.key else name, stats=stats)
        except RevseqError as e:
            if len(keys) == 1:
                raise
            if not isinstance(e, NoTensorError):
                at = f"{reference.path}::{item_key}"
                damaged[at] = e.about(at)


def _describe_items(contents: Contents) -> Iterator[StoredRecord]:
    """The tensors that a file holds, by its list alone."""
    from revseq_cli.report import objects

    for item in contents.tensors:
        if item.desc:
            yield objects.StoredRecord(
                contents.name_of(item),
                item.desc.data_type.name,
                item.desc.sizes,
                bytes=item.desc.total_bytes,
                dimensions=[name or None for name in item.dimensions],
                attributes=item.attributes,
                attribute_values=None,
                format=contents.format,
                storage=_as_keys(item.details),
                statistics=None,
            )


def _describe_tensor(source: Source, name: str, *, stats: bool) -> _Shown:
    """A tensor with its attributes, and with `stats` its statistics."""
    from revseq_cli.report import objects

    attributes = _read_attributes(source)
    record = objects.StoredRecord(
        name,
        source.desc.data_type.name,
        source.desc.sizes,
        bytes=source.desc.total_bytes,
        dimensions=[dimension or None for dimension in source.dimensions],
        attributes=None if attributes is None else len(attributes),
        attribute_values=attributes,
        format=source.storage.format,
        storage=_as_keys(source.storage.details),
        statistics=_count_statistics(source) if stats else None,
    )
    return _Shown(source, [record])


def _as_keys(details: Mapping[str, str]) -> dict[str, str]:
    """The properties of a storage, named as the other keys of a report are."""
    return {name.lower().replace(" ", "_"): value for name, value in details.items()}


def _read_attributes(source: Source) -> dict[str, Any] | None:
    """The attributes of a tensor; None where it has none, or they cannot be read."""
    try:
        meaning = source.meaning()
    except RevseqError:
        return None
    if not meaning:
        return None
    values = meaning.attributes.items()
    return {key: value.tolist() if hasattr(value, "tolist") else value for key, value in values}


def _count_statistics(source: Source) -> StatisticsRecord:
    from revseq_cli.pipeline import passes
    from revseq_cli.pipeline.plan import Resources
    from revseq_cli.report.objects import StatisticsRecord

    counts = passes.compute_statistics(source, Resources())
    return StatisticsRecord(
        min=counts.least,
        max=counts.greatest,
        mean=counts.mean,
        nan=counts.nans,
        infinite=counts.infinite,
        missing=counts.missing,
    )
