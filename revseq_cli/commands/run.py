"""`revseq run`: check a job, reverse, and print or write the output."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from revseq_cli.commands import base, options, pictures
from revseq_cli.commands.console import is_terminal, printed_format
from revseq_cli.formats import table
from revseq_cli.ground.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from revseq_cli.commands.console import Console
    from revseq_cli.commands.pictures import Drawings
    from revseq_cli.formats.contract import FileSink, Layout
    from revseq_cli.formats.references import Reference
    from revseq_cli.formats.table import Format
    from revseq_cli.passes.arrangement import Arrangement, Resources
    from revseq_cli.passes.assembly import Job


@base.command(
    "run",
    examples=(
        'revseq run "[[1, 2, 3, 4], [5, 6, 7, 8]]" "[[3], [2]]" --axis 1',
        'revseq run "[[1, 2, 3], [4, 5, 6]]" "[2, 3]" --batch-axis 0 --axis 1 -o y.npy',
    ),
)
@options.job_options
@options.level_option
@click.option(
    "-o",
    "--output",
    metavar="OUT",
    type=click.Path(),
    help="Write the OutputTensor to this new file, or - for standard output.",
)
@options.format_of("the output, or of an input whose first bytes and suffix do not tell it")
@click.option("--overwrite", is_flag=True, help="Replace OUT if it exists, and a picture or page.")
@pictures.example_option
@click.option(
    "--picture",
    metavar="FILE.svg",
    type=click.Path(),
    help="Also draw the job in this new SVG file: input, lengths and output side by side.",
)
@click.option(
    "--html",
    metavar="FILE.html",
    type=click.Path(),
    help="Also write a web page of the job: the tensors, where each element comes from, constraints and levels.",
)
@pictures.theme_option
@options.full_option
@click.option("--dry-run", is_flag=True, help="Show the plan and write nothing: all is validated.")
@click.option("--verify", is_flag=True, help="Read OUT back before it gets its name: reversed again, it must be INPUT.")
@click.option("--sha256", is_flag=True, help="Report the SHA-256 of OUT's bytes, with --json.")
@options.layout_options
@options.resource_options
@options.progress_option
@options.output_options
def command(
    output: str | None,
    format_name: str | None,
    overwrite: bool,
    example: str | None,
    picture: str | None,
    html: str | None,
    theme: str,
    full: bool,
    dry_run: bool,
    verify: bool,
    sha256: bool,
    layout: Layout,
    resources: Resources,
    console: Console,
    **job_options: Any,
) -> None:
    """Reverse the first LENGTH elements of every line of INPUT along an axis.

    INPUT and LENGTHS are x.npy, x.h5, x.h5::/group/name, x.npz::name, x.safetensors::name, x.zarr::array, x.json,
    x.txt, x.csv, x.npy.gz, - for standard input, another pipe as <(cat x.npy), or the tensor itself as text that begins
    with a bracket. A docs-style text with InputTensor, SequenceTensor and Axis is a whole job and needs no LENGTHS;
    page.md::2 is the second example of a page, and model.json a model of DxDispatch. model.onnx::node is a
    ReverseSequence node of an ONNX model: with --feed, the model computes the input and the lengths of the node.
    Without -o, the OutputTensor is printed.
    """
    to_file = output not in (None, "-")
    if console.as_json and not to_file and not dry_run:
        raise UsageError("--json reports on a file", "-o or --dry-run with it", "-f json prints the tensor as JSON")
    if verify and not to_file:
        raise UsageError("--verify reads a file back", "-o with it", "add -o out.npy")
    if sha256 and not (console.as_json and to_file and not dry_run):
        raise UsageError("--sha256 is a part of the JSON report", "-o and --json with it", "add -o out.npy --json")
    pictures.require_drawing(theme, picture, html)
    if example and (to_file or not (table.named(format_name) or table.TEXT).is_shown):
        raise UsageError("--example prints text", "neither -o nor -f with it", "add > example.txt instead")

    from revseq_cli.formats import references  # --help must not load NumPy
    from revseq_cli.passes import jobs  # --help must not load NumPy
    from revseq_cli.passes.arrangement import arrange
    from revseq_cli.report import objects, tables

    request = options.request_of(format_name=format_name, absolute=resources.elsewhere, **job_options)
    reference = references.Reference.output(output or "-", format_name, filter(None, request.references()))
    row = table.TEXT
    if not to_file:
        if not layout.is_default:
            found = "--chunks, --compression and --keep-others are about a file"
            raise UsageError(found, "-o with it", "add -o out.h5")
        if not dry_run:
            printed = table.TEXT.name if example else reference.format
            row = printed_format(printed, f"add -o out.{printed or 'npy'}", "-o {}")
    job = jobs.load(request)
    jobs.require(job)
    paths = {"--picture": picture, "--html": html}
    drawings = pictures.Drawings(job, paths, output if to_file else None, resources, overwrite=overwrite, theme=theme)
    if not to_file and not dry_run:
        _print(job, row, resources, console, drawings, form=example, full=full)
        return
    sink = create_sink(reference, job, layout, overwrite=overwrite) if to_file else None
    arrangement = arrange(job, resources, sink)
    if sink and not dry_run:
        _write(Delivery(job, sink, arrangement, verify, sha256), console, drawings)
    else:
        report, kept = objects if console.as_json else tables, sink.kept if sink else 0
        click.echo(report.plan(job.values.desc, job.lengths.desc, job.axis, arrangement, kept))


def create_sink(reference: Reference, job: Job, layout: Layout, *, overwrite: bool) -> FileSink:
    """The sink of the output; every error that is known before writing is raised here."""
    from revseq_cli.formats import registry

    return registry.create_sink(reference, job.values, overwrite=overwrite, inputs=job.files, layout=layout)


class Written(NamedTuple):
    """What is known of a new file: how many lengths are above the axis size, and its SHA-256 if it was asked for."""

    clamped: int
    sha256: str | None


@dataclass(frozen=True)
class Delivery:
    """A job whose output goes to a file, ready to run, for `run` and `batch`."""

    job: Job
    sink: FileSink
    arrangement: Arrangement
    verify: bool
    sha256: bool

    def run(self, drawings: Drawings | None = None, complete: Callable[[Written], None] = lambda _: None) -> Written:
        """Reverse into the new file; `complete` gets the result before the file gets its name."""
        from revseq_cli.formats.storage.newfile import Together
        from revseq_cli.passes import reversal

        together = Together(self.sink.file, *(drawings.files.values() if drawings else ()))
        with together, self.sink:
            clamped = reversal.reverse(self.job, self.sink, self.arrangement)
            self.sink.notes += (*self.job.notes, *self.job.clamping(clamped))
            if self.verify:
                reversal.verify(self.job, self.sink, self.arrangement)
                self.sink.notes += self.job.absent_notes()
            self.job.recheck()
            written = Written(clamped, self.sink.digest() if self.sha256 else None)
            if drawings:
                drawings.draw(self.sink.written())
            complete(written)
        self.sink.notes += tuple(together.notes)
        return written


def _write(delivery: Delivery, console: Console, drawings: Drawings) -> None:
    """Reverse into a new file, and print notes or the report."""
    from revseq_cli.report import objects, tables

    values, lengths, axis = delivery.job.values.desc, delivery.job.lengths.desc, delivery.job.axis
    console.detail(tables.plan(values, lengths, axis, delivery.arrangement, delivery.sink.kept))
    with console.writing(delivery.sink, delivery.arrangement, verify=delivery.verify):
        written = delivery.run(drawings)
    if console.as_json:
        sink = delivery.sink
        done = {"output": sink.file.name, "bytes": values.total_bytes, "verified": delivery.verify, "notes": sink.notes}
        job = {"values": values, "lengths": lengths, "axis": axis}
        click.echo(objects.report("run", {**job, **done, **written._asdict()}))


def _print(
    job: Job, row: Format, resources: Resources, console: Console, drawings: Drawings, *, form: str | None, full: bool
) -> None:
    """Reverse in memory, and print the output in the format of `row`, or the job as an example of that form."""
    from revseq_cli.formats import textfiles
    from revseq_cli.formats.storage.newfile import Together
    from revseq_cli.passes import reversal
    from revseq_cli.report import view

    if row.is_text:
        textfiles.require_text(job.values.desc, job.values.name)
    result, clamped = reversal.reversed_in_memory(job, resources)
    most = view.MOST_ON_TERMINAL if is_terminal() and not full else None
    if not row.is_shown:
        row.load().write_to(sys.stdout.buffer, result)
    elif form:
        click.echo(pictures.example_text(job, result, most, console, form, drawings.paths["--picture"]), color=True)
    else:
        click.echo(view.result_text(job.lengths, job.axis, result, most, console.marks), color=True)
    sys.stdout.flush()
    console.note(*job.notes, *job.clamping(clamped))
    if drawings:
        with Together(*drawings.files.values()) as together:
            drawings.draw(result)
        console.note(*together.notes)
