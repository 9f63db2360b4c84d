"""`revseq run`: check a job, reverse, and print or write the output."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from revseq_cli.commands import base, options, pictures
from revseq_cli.commands.base import Group, printed_format, room_for_tensors
from revseq_cli.core.errors import UsageError
from revseq_cli.formats import table

if TYPE_CHECKING:
    from collections.abc import Callable

    from revseq_cli.commands.base import Console
    from revseq_cli.commands.pictures import Drawings
    from revseq_cli.formats.contract import FileSink
    from revseq_cli.formats.references import Reference
    from revseq_cli.formats.table import Format
    from revseq_cli.pipeline.arrangement import Arrangement, Resources
    from revseq_cli.pipeline.assembly import Job
    from revseq_cli.report.results import Planned


@base.command(
    "run",
    examples=(
        'revseq run "[[1, 2, 3, 4], [5, 6, 7, 8]]" "[[3], [2]]" --axis 1',
        'revseq run "[[1, 2, 3], [4, 5, 6]]" "[2, 3]" --batch-axis 0 --axis 1 -o y.npy',
    ),
)
@options.job_options
@options.level_option
@Group.WRITE.option(
    "-o",
    "--output",
    metavar="OUT",
    type=click.Path(),
    help="Write the OutputTensor to this new file, or to standard output if it is -.",
)
@options.format_of("the output, or of an input if its first bytes and suffix do not show it")
@Group.WRITE.option("--overwrite", is_flag=True, help="Replace existing files: OUT, the picture and the page.")
@pictures.example_option
@Group.PRINT.option(
    "--picture",
    metavar="FILE.svg",
    type=click.Path(),
    help="Also draw the job in this new SVG file, with input, lengths and output side by side.",
)
@Group.PRINT.option(
    "--html",
    metavar="FILE.html",
    type=click.Path(),
    help="Also write a web page about the job, with the tensors, the origin of each element, constraints and levels.",
)
@pictures.theme_option
@options.full_option
@Group.PRINT.option(
    "--dry-run", is_flag=True, help="Show the plan and write nothing. The command still checks the whole job."
)
@Group.WRITE.option(
    "--verify",
    is_flag=True,
    help="Read OUT back before renaming it to its final name. Reversed again, it must equal INPUT.",
)
@options.only_option
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
    only: bool,
    resources: Resources,
    console: Console,
    **job_options: Any,
) -> None:
    """Reverse the start of every line of INPUT along an axis, as many elements as LENGTHS gives.

    Without -o, the command prints the OutputTensor.

    INPUT and LENGTHS can each be a file (x.npy, x.h5, x.h5::/group/name, x.npz::name, x.safetensors::name,
    x.zarr::array, x.json, x.txt, x.csv, x.npy.gz), - for standard input, another pipe such as <(cat x.npy), or the
    tensor itself, as text that begins with a bracket.

    An OUT in the format of INPUT's file (HDF5, NetCDF-4, .npz, .safetensors, Zarr) is a copy of that file with the
    tensor replaced, or added beside it under another name, as in -o y.h5::/name. --only writes the tensor alone.

    A complete job needs no LENGTHS: text with InputTensor, SequenceTensor and Axis; page.md::2, the second
    example of a page; or model.onnx::node, a ReverseSequence node of an ONNX model.
    With --feed, the model computes the input and the lengths of the node.
    """
    to_file = output not in (None, "-")
    _require_file(to_file, dry_run=dry_run, as_json=console.as_json, verify=verify, only=only)
    pictures.require_drawing(theme, picture, html)
    if example and (to_file or not (table.named(format_name) or table.TEXT).is_shown):
        raise UsageError("--example prints text", "neither -o nor -f with it", "add > example.txt instead")

    from revseq_cli.formats import references  # --help must not load NumPy
    from revseq_cli.pipeline import jobs  # --help must not load NumPy
    from revseq_cli.pipeline.arrangement import arrange
    from revseq_cli.report import objects, tables

    request = options.request_of(format_name=format_name, absolute=resources.elsewhere, **job_options)
    reference = references.Reference.output(output or "-", format_name, filter(None, request.references()))
    row = table.TEXT
    if not to_file and not dry_run:
        printed = table.TEXT.name if example else reference.format
        row = printed_format(printed, f"add -o out{table.suffix_to_write(printed)}", "-o {}")
    job = jobs.load(request)
    jobs.require(job)
    paths = {"--picture": picture, "--html": html}
    drawings = pictures.Drawings(job, paths, output if to_file else None, resources, overwrite=overwrite, theme=theme)
    if not to_file and not dry_run:
        _print(job, row, resources, console, drawings, form=example, full=full)
        return
    if not to_file:
        click.echo((objects if console.as_json else tables).plans([_planned(job, arrange(job, resources))]))
        return
    delivery = prepared(job, reference, resources, overwrite=overwrite, verify=verify, only=only)
    if not dry_run:
        _write(delivery, console, drawings)
    else:
        click.echo((objects if console.as_json else tables).plans([delivery.planned]))


def _require_file(to_file: bool, *, dry_run: bool, as_json: bool, verify: bool, only: bool) -> None:
    """UsageError for options that are about a file that is written, where there is none."""
    if as_json and not to_file and not dry_run:
        raise UsageError("--json reports on a file", "-o or --dry-run with it", "-f json prints the tensor as JSON")
    if verify and not to_file:
        raise UsageError("--verify reads a file back", "-o with it", "add -o out.npy")
    if only and not to_file:
        raise UsageError("--only is about a file", "-o with it", "leave out --only")


def prepared(
    job: Job, reference: Reference, resources: Resources, *, overwrite: bool, verify: bool, only: bool
) -> Delivery:
    """The delivery of a job into a new file; every error that is known before writing is raised."""
    from revseq_cli.formats import registry
    from revseq_cli.pipeline.arrangement import arrange

    layout = options.layout_of(only=only)
    sink = registry.create_sink(reference, job.values, overwrite=overwrite, inputs=job.files, layout=layout)
    return Delivery(job, sink, arrange(job, resources, sink), verify)


@dataclass(frozen=True)
class Delivery:
    """A job whose output goes to a file, ready to run, for `run` and `batch`."""

    job: Job
    sink: FileSink
    arrangement: Arrangement
    verify: bool

    @property
    def planned(self) -> Planned:
        """What is told before it runs."""
        return _planned(self.job, self.arrangement, self.sink.kept)

    def run(self, drawings: Drawings | None = None, complete: Callable[[], None] = lambda: None) -> int:
        """Reverse into the new file, and count the lengths that exceed the axis size.

        `complete` is called before the file gets its name.
        """
        from revseq_cli.formats.atomic_file import FileTransaction
        from revseq_cli.pipeline import reversal

        job, sink = self.job, self.sink
        together = FileTransaction(sink.file, *(drawings.files.values() if drawings else ()))
        with together, sink:
            clamped = reversal.reverse(job, sink, self.arrangement)
            sink.notes += (*job.notes, *job.clamping(clamped))
            if self.verify:
                reversal.verify(job, sink, self.arrangement)
                sink.notes += job.absent_notes()
            job.recheck()
            if drawings:
                drawings.draw(sink.written())
            sink.complete()
            complete()
        sink.notes += tuple(together.notes)
        return clamped


def _planned(job: Job, arrangement: Arrangement, kept: int = 0) -> Planned:
    """What is told of a job before it runs; `kept` bytes of INPUT's file are copied with it."""
    from revseq_cli.report.results import Planned

    return Planned(job.values.name, job.values.desc, job.lengths.desc, job.axis, arrangement, kept)


def _write(delivery: Delivery, console: Console, drawings: Drawings) -> None:
    """Reverse into a new file, and print notes or the report."""
    from revseq_cli.report import objects, tables

    planned = delivery.planned
    console.detail(tables.plans([planned]))
    with console.writing(delivery.sink, delivery.arrangement, verify=delivery.verify):
        clamped = delivery.run(drawings)
    if console.as_json:
        size, output = planned.values.total_bytes, delivery.sink.file.name
        done = {"output": output, "bytes": size, "verified": delivery.verify, "notes": delivery.sink.notes}
        click.echo(objects.report("run", {**planned._asdict(), "clamped": clamped, **done}))


def _print(
    job: Job, row: Format, resources: Resources, console: Console, drawings: Drawings, *, form: str | None, full: bool
) -> None:
    """Reverse in memory, and print the output in the format of `row`, or the job as an example of that form."""
    from revseq_cli.formats import textfiles
    from revseq_cli.formats.atomic_file import FileTransaction
    from revseq_cli.pipeline import reversal
    from revseq_cli.report import view

    if row.is_text:
        textfiles.require_text(job.values.desc, job.values.name)
    result, clamped = reversal.reversed_in_memory(job, resources)
    room = room_for_tensors(full=full, whole_rows=bool(form))
    if not row.is_shown:
        row.load().write_to(sys.stdout.buffer, result)
    elif form:
        click.echo(pictures.example_text(job, result, room, console, form, drawings.paths["--picture"]), color=True)
    else:
        click.echo(view.result_text(job.lengths, job.axis, result, room, console.marks), color=True)
    sys.stdout.flush()
    console.note(*job.notes, *job.clamping(clamped))
    if drawings:
        with FileTransaction(*drawings.files.values()) as together:
            drawings.draw(result)
        console.note(*together.notes)
