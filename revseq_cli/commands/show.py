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
    from revseq_cli.formats.contract import Source, TextTypes
    from revseq_cli.formats.listings import Contents
    from revseq_cli.formats.references import Reference
    from revseq_cli.report.objects import ShowRecord, StatisticsRecord, StoredRecord


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
    help="Also print the minimum, maximum and mean of all elements, and count NaNs, infinities "
    "and missing values.",
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
    """Show the data type, shape, bytes, storage and attributes of tensors, with a preview.

    TENSOR is named as in revseq run. page.md::2 shows every tensor in the second example on a page,
    and model.onnx lists the ReverseSequence nodes of an ONNX model.

    For a file with several tensors, or a group such as x.h5::/group, the command lists each tensor
    with its data type, its shape, the names of its dimensions, the number of its attributes, and
    its storage. Values are not read.

    --names prints one name per line, for scripts.

    If some of several TENSORs cannot be read, the command shows the others, and the exit status is
    1. It is 2 if none can be read, or if --stats finds the only file damaged.
    """
    from revseq_cli.formats.contract import TextTypes  # --help must not load NumPy

    types = TextTypes(dtype, DataType.FLOAT32, sizes=sizes)
    shown: list[_Part] = []
    errors: dict[str, RevseqError] = {}
    for name in tensors:
        text = ""
        try:
            parts, damaged = _open_parts(name, input_format, types, names=names, stats=stats)
            if not console.as_json:
                if names:
                    text = "\n".join(_list_names(parts))
                else:
                    text = "\n\n".join(_describe_part(part, console) for part in parts)
        except RevseqError as e:
            if len(tensors) == 1:
                raise
            parts = []
            damaged = {name: e.about(name)}
        if text:
            if shown and not names:
                click.echo()
            click.echo(text)
        for error in damaged.values():
            print_error(error, console.color)
        shown += parts
        errors |= damaged
    status = 0
    if errors:
        is_partial = bool(shown) and len(tensors) > 1
        status = 1 if is_partial else 2
    if console.as_json:
        console.report(_make_report(shown), status, errors.values())
    return status


@dataclass(frozen=True)
class _Part:
    """A tensor that is open, or the list of what a file holds; and the records of its tensors."""

    content: Source | Contents
    tensors: Sequence[StoredRecord]


def _list_names(parts: Sequence[_Part]) -> Iterator[str]:
    """The names of all tensors; on a terminal, or in several lines, without control characters."""
    is_terminal = sys.stdout.isatty()
    for part in parts:
        for tensor in part.tensors:
            name = tensor["name"]
            has_lines = len(name.splitlines()) > 1
            if is_terminal or has_lines:
                name = printable(name)
            yield name


def _describe_part(part: _Part, console: Console) -> str:
    from revseq_cli.formats.listings import Contents
    from revseq_cli.report import file_text, terminal

    width = terminal.width_of(sys.stdout)
    if isinstance(part.content, Contents):
        return file_text.contents_text(part.content, width)
    [record] = part.tensors
    return file_text.stored_text(
        part.content,
        record["attribute_values"] or {},
        record["statistics"],
        preview=not console.quiet,
        width=width,
    )


def _make_report(shown: Sequence[_Part]) -> ShowRecord:
    """What --json has of all tensors, and of what else is in their files."""
    from revseq_cli.formats.listings import Contents
    from revseq_cli.report import objects

    tensors: list[StoredRecord] = []
    others: list[objects.OtherRecord] = []
    for part in shown:
        tensors += part.tensors
        if not isinstance(part.content, Contents):
            continue
        for item in part.content.items:
            if not item.desc:
                name = part.content.name_of(item)
                others.append(
                    objects.OtherRecord(name=name, what=item.what, attributes=item.attributes)
                )
    return objects.ShowRecord(tensors=tensors, others=others)


def _open_parts(
    name: str, input_format: str | None, types: TextTypes, *, names: bool, stats: bool
) -> tuple[list[_Part], dict[str, RevseqError]]:
    """What has that name, and the errors of its tensors that are damaged, by their names.

    model.onnx is the list of its nodes, and page.md::2 the tensors of that example. A file or a
    group is a list, or with `stats` all of its tensors. A file of one tensor is this tensor, or
    with `names` a list, too.
    """
    from revseq_cli.formats import references
    from revseq_cli.pipeline import inputs

    reference = references.Reference.input(name, input_format, forces_format=True)
    if reference.is_onnx_model and not reference.format:
        return [_Part(_list_nodes(reference), ())], {}
    if reference.example_number is not None:
        example = inputs.find_example(reference)
        if example:
            parts = [
                _describe_tensor(example.open_role(role, types), f"{name}::{role}", stats=stats)
                for role in example.example.tensors
            ]
            return parts, {}
    contents = references.contents(reference, types)
    if contents and stats:
        inputs.refuse_sizes([reference], types.sizes)
        return _open_all(reference, name, contents, types)
    if contents:
        is_list = names or contents.sole_key is None
        if is_list:
            return [_Part(contents, list(_describe_items(contents)))], {}
    inputs.refuse_sizes([reference], types.sizes)
    return [_open_tensor(reference, name, types, stats=stats)], {}


def _open_all(
    reference: Reference, name: str, contents: Contents, types: TextTypes
) -> tuple[list[_Part], dict[str, RevseqError]]:
    """Each tensor of a file with its statistics; the errors of those that are damaged."""
    keys = [item.key for item in contents.items if item.desc or item.is_damaged]
    parts: list[_Part] = []
    damaged: dict[str, RevseqError] = {}
    for key in keys:
        one = replace(reference, key=key)
        try:
            parts.append(_open_tensor(one, name, types, stats=True))
        except RevseqError as e:
            if len(keys) == 1:
                raise
            if not isinstance(e, NoTensorError):
                where = f"{reference.path}::{key}"
                damaged[where] = e.about(where)
    return parts, damaged


def _open_tensor(reference: Reference, name: str, types: TextTypes, *, stats: bool) -> _Part:
    """A tensor, under its own name if it has one in its file, and else under this one."""
    from revseq_cli.formats.references import open_source

    source = open_source(reference, types)
    return _describe_tensor(source, source.name if source.key else name, stats=stats)


def _list_nodes(reference: Reference) -> Contents:
    """The ReverseSequence nodes of a model, or the one that is named."""
    from revseq_cli.formats.listings import Contents, Item
    from revseq_cli.formats.onnx.models import OPERATOR, Model  # few files are models

    model = Model(reference.path)
    nodes = list(model.nodes.values())
    if reference.key is not None:
        nodes = [model.choose_node(reference.key)]
    items = tuple(Item(node.key, what=f"{OPERATOR}, {model.describe_node(node)}") for node in nodes)
    return Contents(reference.path, "onnx", items)


def _describe_items(contents: Contents) -> Iterator[StoredRecord]:
    """The tensors that a file holds, by its list alone."""
    from revseq_cli.report import objects

    for item in contents.tensors:
        if item.desc:
            yield objects.StoredRecord(
                name=contents.name_of(item),
                data_type=item.desc.data_type.name,
                shape=item.desc.sizes,
                bytes=item.desc.total_bytes,
                dimensions=[name or None for name in item.dimensions],
                attributes=item.attributes,
                attribute_values=None,
                format=contents.format,
                storage=_as_keys(item.details),
                statistics=None,
            )


def _describe_tensor(source: Source, name: str, *, stats: bool) -> _Part:
    """A tensor with its attributes, and with `stats` its statistics."""
    from revseq_cli.report import objects

    attributes = _attributes_for_report(source)
    count = None if attributes is None else len(attributes)
    statistics = _count_statistics(source) if stats else None
    record = objects.StoredRecord(
        name=name,
        data_type=source.desc.data_type.name,
        shape=source.desc.sizes,
        bytes=source.desc.total_bytes,
        dimensions=[dimension or None for dimension in source.dimensions],
        attributes=count,
        attribute_values=attributes,
        format=source.storage.format,
        storage=_as_keys(source.storage.details),
        statistics=statistics,
    )
    return _Part(source, [record])


def _as_keys(details: Mapping[str, str]) -> dict[str, str]:
    """The properties of a storage, named as the other keys of a report are."""
    return {name.lower().replace(" ", "_"): value for name, value in details.items()}


def _attributes_for_report(source: Source) -> dict[str, Any] | None:
    """The attributes of a tensor; None if it has none, or they cannot be read."""
    try:
        meaning = source.meaning()
    except RevseqError:
        return None
    if not meaning:
        return None
    attributes = {}
    for name, value in meaning.attributes.items():
        attributes[name] = value.tolist() if hasattr(value, "tolist") else value
    return attributes


def _count_statistics(source: Source) -> StatisticsRecord:
    from revseq_cli.pipeline import passes
    from revseq_cli.pipeline.resources import Resources
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
