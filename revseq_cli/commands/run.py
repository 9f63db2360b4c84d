"""`revseq run`: validate, reverse, print or write."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from revseq_cli.commands import options
from revseq_cli.errors import UsageError

if TYPE_CHECKING:
    from revseq_cli.formats import Reference
    from revseq_cli.job import Job
    from revseq_cli.spec import FeatureLevel


@click.command(
    "run",
    epilog="Example: revseq run samples/example1.npy samples/example1-lengths.npy --axis 3 -o reversed.npy",
)
@options.job_options
@click.option(
    "-o", "--output", metavar="OUT", help="Write the OutputTensor to this new file, or - for standard output."
)
@click.option(
    "-f", "--format", "format_name", type=click.Choice(options.FORMAT_NAMES),
    help="The format of the output, and of inputs whose suffix says nothing.",
)  # fmt: skip
@click.option("--overwrite", is_flag=True, help="Replace OUT if it exists.")
@click.option("--example", is_flag=True, help="Print the whole docs-style example, not the OutputTensor alone.")
@click.option("--full", is_flag=True, help="Print every element on a terminal, too.")
@options.json_option
@options.output_options
def command(
    output: str | None,
    format_name: str | None,
    level: FeatureLevel,
    overwrite: bool,
    example: bool,
    full: bool,
    as_json: bool,
    quiet: bool,
    verbose: int,
    color: str,
    **job_options: Any,
) -> None:
    """Reverse the first LENGTH elements of every line of INPUT along an axis.

    INPUT and LENGTHS are x.npy, x.h5, x.h5::/group/name, x.json, x.txt, - for standard input, or the tensor itself as
    text that begins with a bracket. A docs-style text with InputTensor, SequenceTensor and Axis is a whole job and
    needs no LENGTHS; page.md::2 is the second example of a page. Without -o, the OutputTensor is printed.
    """
    voice = options.Voice(quiet, verbose, color)
    to_file = output not in (None, "-")
    if as_json and not to_file:
        raise UsageError("--json reports on a file", "-o with it", "-f json prints the tensor as JSON")
    if example and (to_file or format_name not in (None, "text")):
        raise UsageError("--example prints text", "neither -o nor -f with it", "add > example.txt instead")
    _refuse_binary_terminal(to_file, format_name)

    from revseq_cli import formats, job  # --help must not load NumPy

    work = job.load(options.request_of(format_name=format_name, **job_options))
    work.require(level)
    if to_file and output:
        _write(
            work,
            formats.Reference.parse(output, format_name),
            overwrite=overwrite,
            as_json=as_json,
            voice=voice,
        )
    else:
        _print(work, format_name, example=example, full=full)


def _refuse_binary_terminal(to_file: bool, format_name: str | None) -> None:
    if to_file or format_name not in ("npy", "h5"):
        return
    if format_name == "h5":
        raise UsageError("HDF5 cannot be written to a pipe", "a file", "add -o out.h5")
    if options.is_terminal():
        raise UsageError("a terminal takes no binary", "a pipe or a file", "add -o out.npy, or | and a command")


def _write(work: Job, output: Reference, *, overwrite: bool, as_json: bool, voice: options.Voice) -> None:
    """Reverse into a new file."""
    from revseq_cli import engine, formats, report

    plan = engine.plan_for(work.values, work.axis)
    sink = formats.create_sink(output, work.values, overwrite=overwrite, inputs=work.inputs)
    voice.detail(f"{work.values.name}: {work.values.desc}, axis {work.axis}, blocks: {len(plan)}")
    with sink:
        engine.reverse(work, sink, plan)
    voice.detail(f"wrote {output.path}: {work.values.desc.total_bytes} bytes of elements")
    if as_json:
        click.echo(report.run_json(work.values.desc, work.lengths.desc, work.axis, output.path))


def _print(work: Job, format_name: str | None, *, example: bool, full: bool) -> None:
    """Reverse in memory, and print."""
    from revseq_cli import engine, report
    from revseq_cli.formats import base, npy, text

    if format_name != "npy":
        text.require_text(work.values.desc, work.values.name)
    sink = base.HeldSink(work.values.desc, work.values.dtype)
    with sink:
        engine.reverse(work, sink, engine.plan_for(work.values, work.axis))
    if format_name == "npy":
        sys.stdout.buffer.write(npy.to_bytes(sink.values, work.values.order))
    elif format_name == "json":
        click.echo(text.write_json(sink.values))
    else:
        most = report.MOST_ON_TERMINAL if options.is_terminal() and not full else None
        tensors = {"OutputTensor": sink.values}
        if example:
            tensors = {"InputTensor": work.values.read(), "SequenceTensor": work.lengths.read(), **tensors}
        click.echo(report.notation_text(tensors, work.axis if example else None, most))
