"""`revseq convert`: a tensor in another format, with every bit kept."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from revseq_cli.commands import options
from revseq_cli.commands.console import Console, choose_printed_format, most_printed
from revseq_cli.commands.groups import Group, make_command
from revseq_cli.commands.run import keep_digits
from revseq_cli.commands.values import complete_files
from revseq_cli.core.errors import UsageError
from revseq_cli.formats import table
from revseq_cli.formats.table import Format

if TYPE_CHECKING:
    from revseq_cli.formats.contract import Source
    from revseq_cli.pipeline.resources import Resources


@make_command(
    "convert",
    examples=(
        'revseq convert "[[1, 2], [3, 4]]" x.npy --dtype INT8',
        'revseq convert "[[1, 2], [3, 4]]" - -f json',
    ),
)
@click.argument("src", metavar="SRC", shell_complete=complete_files)
@click.argument("dst", metavar="DST", shell_complete=complete_files)
@options.output_format_option
@options.input_format_option
@options.dtype_option
@options.sizes_option
@Group.WRITE.option(
    "--overwrite", is_flag=True, help="Replace DST if it exists; with FILE::name, only that tensor."
)
@options.full_option
@Group.WRITE.option(
    "--verify",
    is_flag=True,
    help="Read DST back before renaming it to its final name, and compare every bit with SRC.",
)
@options.resource_options
@options.output_options
def command(
    src: str,
    dst: str,
    format_name: str | None,
    input_format: str | None,
    overwrite: bool,
    full: bool,
    verify: bool,
    resources: Resources,
    console: Console,
    **opening: Any,
) -> None:
    """Write the tensor SRC to a new file DST, in the format given by DST's suffix.

    SRC is named as in revseq run; x.txt::InputTensor selects one tensor of a text. The command
    keeps the data type, the shape and every bit, even of NaNs, and refuses what DST's format cannot
    store. From .npy to .npy it also keeps memory order and byte order. DST contains only this
    tensor; but if DST is FILE::name and FILE exists, the tensor is added to FILE. Data are copied
    in blocks within --memory; text is held in memory whole.

    DST is a file, or - for standard output, which receives text, or the format that -f names.
    """
    from revseq_cli.formats.outputs import create_sink
    from revseq_cli.formats.references import Reference
    from revseq_cli.pipeline import inputs
    from revseq_cli.pipeline.passes import copy, verify_copy
    from revseq_cli.pipeline.plan import plan_pass
    from revseq_cli.report import objects

    is_printed = dst == "-"
    if is_printed:
        _refuse_options_of_files()
    request = options.make_request(resources, input=src, input_format=input_format, **opening)
    reference = Reference.output(dst, format_name, "-")
    printed_format = table.TEXT
    if is_printed:
        printed_format = choose_printed_format(reference.format, "to write a file, type {}")
        request = keep_digits(request, None, printed_format)
    else:
        request = keep_digits(request, dst)
    source = inputs.load_tensor(request, "SRC")
    inputs.refuse_sizes([Reference.input(src)], request.sizes)
    if is_printed:
        _print(source, printed_format, full=full)
        console.note(*source.notes)
        return
    sink = create_sink(
        reference,
        source,
        overwrite=overwrite,
        inputs=source.files,
        only=True,
        on_cluster=resources.on_cluster,
    )
    sink.add_notes(source.notes)
    plan = plan_pass(source, sink, resources)
    with console.write_files(sink):
        copy(source, sink, plan)
        if verify:
            verify_copy(source, sink, plan)
        source.recheck()
    if console.as_json:
        shown = objects.describe_tensor(source.name, source.desc)
        size = source.desc.total_bytes
        console.report(objects.ConvertRecord(input=shown, output=reference.path, bytes=size))


def _refuse_options_of_files() -> None:
    """UsageError for options that are about a new file."""
    about_files = options.find_typed_option("as_json", "verify")
    if about_files:
        problem = f"{about_files} is about a new file"
        raise UsageError(problem, "a DST that is a file", "give DST a name", "-")


def _print(source: Source, printed_format: Format, *, full: bool) -> None:
    """Print the tensor in that format; on a terminal, a long text is shortened without `full`."""
    from revseq_cli.formats.memory import MemorySource
    from revseq_cli.formats.text import require_text
    from revseq_cli.report import view

    if printed_format.is_text:
        require_text(source.desc, source.name)
    may_shorten = sys.stdout.isatty() and not full
    if printed_format is table.TEXT and may_shorten:
        text = view.tensor_text("OutputTensor", source, most_printed(full=full))
        source.recheck()
        click.echo(text)
        return
    in_memory = MemorySource.of(source)
    source.recheck()
    printed_format.load().write_to(sys.stdout.buffer, in_memory)
