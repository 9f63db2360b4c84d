"""`revseq run`: check a job, reverse, and print or write the output."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from revseq_cli.commands import base, examples, options, pictures, streams
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
    from revseq_cli.passes.assembly import Job, Request


@base.command(
    "run",
    """Reverse the first LENGTH elements of every line of INPUT along an axis.

    INPUT and LENGTHS are x.npy, x.h5, x.h5::/group/name, x.npz::name, x.safetensors::name, x.zarr::array, x.json,
    x.txt, x.csv, x.npy.gz, - for standard input, another pipe as <(cat x.npy), or the tensor itself as text that begins
    with a bracket. A docs-style text with InputTensor, SequenceTensor and Axis is a whole job and needs no LENGTHS;
    page.md::2 is the second example of a page, and model.json a model of DxDispatch. Without -o, the OutputTensor is
    printed.
    """,
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
@click.option(
    "-f", "--format", "format_name", type=click.Choice(table.NAMES),
    help="The format of the output, or of an input whose first bytes and suffix do not tell it.",
)  # fmt: skip
@click.option("--overwrite", is_flag=True, help="Replace OUT, and a picture or page, if they exist.")
@examples.option
@click.option(
    "--picture",
    metavar="FILE.svg",
    type=click.Path(),
    help="Also draw input, lengths and output side by side, in this new SVG file.",
)
@click.option(
    "--html",
    metavar="FILE.html",
    type=click.Path(),
    help="Also write a web page of the job: the tensors, where each element comes from, constraints and levels.",
)
@options.full_option
@click.option("--dry-run", is_flag=True, help="Validate, show the plan, and write nothing.")
@click.option("--verify", is_flag=True, help="Read OUT back before it gets its name: reversed again, it must be INPUT.")
@click.option("--sha256", is_flag=True, help="With --json, also the SHA-256 of OUT's bytes.")
@options.layout_options
@options.resource_options
@options.progress_option
@options.json_option
@options.output_options
def command(
    output: str | None,
    format_name: str | None,
    overwrite: bool,
    example: str | None,
    picture: str | None,
    html: str | None,
    full: bool,
    dry_run: bool,
    verify: bool,
    sha256: bool,
    layout: Layout,
    resources: Resources,
    as_json: bool,
    console: Console,
    **job_options: Any,
) -> None:
    """Run the command."""
    to_file = output not in (None, "-")
    if as_json and not to_file and not dry_run:
        raise UsageError("--json reports on a file", "-o or --dry-run with it", "-f json prints the tensor as JSON")
    if verify and not to_file:
        raise UsageError("--verify reads a file back", "-o with it", "add -o out.npy")
    if sha256 and not (as_json and to_file and not dry_run):
        raise UsageError("--sha256 is a part of the JSON report", "-o and --json with it", "add -o out.npy --json")
    if example and (to_file or not (table.named(format_name) or table.TEXT).is_shown):
        raise UsageError("--example prints text", "neither -o nor -f with it", "add > example.txt instead")

    from revseq_cli.formats import references  # --help must not load NumPy
    from revseq_cli.passes import jobs  # --help must not load NumPy

    request = options.request_of(format_name=format_name, absolute=resources.elsewhere, **job_options)
    target = None
    if to_file and output is not None:
        target = Target.of(output, format_name, request, layout, overwrite=overwrite, verify=verify, sha256=sha256)
    else:
        _refuse_layout(layout)
    row = table.TEXT
    if target is None and not dry_run:
        printed = references.Reference.output("-", format_name, filter(None, request.references())).format
        printed = table.TEXT.name if example else printed
        row = streams.printed_format(printed, f"add -o out.{printed or 'npy'}", "-o {}")
    job = jobs.load(request)
    jobs.require(job)
    paths = {option: path for option, path in (("--picture", picture), ("--html", html)) if path is not None}
    drawings = None
    if paths:
        drawings = pictures.Drawings(job, paths, output if to_file else None, resources, overwrite=overwrite)
    if dry_run:
        _dry_run(job, target, resources, as_json=as_json)
    elif target:
        _write(target.delivery(job, resources), console, drawings, as_json=as_json)
    else:
        _print(job, row, resources, console, drawings, example=example, full=full)


@dataclass(frozen=True)
class Target:
    """The file to write, and the options for it."""

    reference: Reference
    layout: Layout
    overwrite: bool
    verify: bool
    sha256: bool

    @classmethod
    def of(
        cls, output: str, format_name: str | None, request: Request, layout: Layout, *,
        overwrite: bool, verify: bool, sha256: bool,
    ) -> Target:  # fmt: skip
        """The target for --output; its format is `format_name`, or else that of the suffix."""
        from revseq_cli.formats import references

        reference = references.Reference.output(output, format_name, filter(None, request.references()))
        return cls(reference, layout, overwrite, verify, sha256)

    def sink(self, job: Job) -> FileSink:
        """The sink of the file; every error that is known before writing is raised here."""
        from revseq_cli.formats import registry

        return registry.create_sink(
            self.reference, job.values, overwrite=self.overwrite, inputs=job.files, layout=self.layout
        )

    def delivery(self, job: Job, resources: Resources) -> Delivery:
        """The job with its sink and arrangement; every error that is known before writing is raised here."""
        from revseq_cli.passes.arrangement import arrange

        sink = self.sink(job)
        return Delivery(job, self, sink, arrange(job, resources, sink))


class Written(NamedTuple):
    """What is known of a new file: how many lengths are above the axis size, and its SHA-256 if it was asked for."""

    clamped: int
    sha256: str | None


@dataclass(frozen=True)
class Delivery:
    """A job whose output goes to a file, ready to run, for `run` and `batch`."""

    job: Job
    target: Target
    sink: FileSink
    arrangement: Arrangement

    def run(self, drawings: Drawings | None = None, complete: Callable[[Written], None] = lambda _: None) -> Written:
        """Reverse into the new file; `complete` gets the result before the file gets its name."""
        from revseq_cli.formats.storage.together import Together
        from revseq_cli.passes import reversal

        together = Together(self.sink.file, *(drawings.files if drawings else ()))
        with together, self.sink:
            clamped = reversal.reverse(self.job, self.sink, self.arrangement)
            self.sink.notes += (*self.job.notes, *self.job.clamping(clamped))
            if self.target.verify:
                reversal.verify(self.job, self.sink, self.arrangement)
                self.sink.notes += self.job.gaps()
            self.job.recheck()
            written = Written(clamped, self.sink.digest() if self.target.sha256 else None)
            if drawings:
                drawings.draw(self.sink.written())
            complete(written)
        self.sink.notes += tuple(together.notes)
        return written


def _refuse_layout(layout: Layout) -> None:
    if not layout.is_default:
        raise UsageError("--chunks, --compression and --keep-others are about a file", "-o with it", "add -o out.h5")


def _dry_run(job: Job, target: Target | None, resources: Resources, *, as_json: bool) -> None:
    """Show the plan; everything is checked, and nothing is written."""
    from revseq_cli.passes.arrangement import arrange
    from revseq_cli.report import objects, tables

    arrangement = arrange(job, resources, target.sink(job) if target else None)
    describe = objects.plan if as_json else tables.plan
    click.echo(describe(job.values.desc, job.lengths.desc, job.axis, arrangement))


def _write(delivery: Delivery, console: Console, drawings: Drawings | None, *, as_json: bool) -> None:
    """Reverse into a new file, and print notes or the report."""
    from revseq_cli.ground import stopping
    from revseq_cli.report import objects, tables

    values, lengths, axis = delivery.job.values.desc, delivery.job.lengths.desc, delivery.job.axis
    console.detail(tables.plan(values, lengths, axis, delivery.arrangement))
    with stopping.deferred(), console.told_if_stopped(delivery.target.reference.path):
        console.dashboard(delivery.arrangement)
        written = delivery.run(drawings)
    for note in delivery.sink.notes:
        console.note(note)
    path, verify = delivery.target.reference.path, delivery.target.verify
    console.detail(f"wrote {path}{', and verified it' if verify else ''}")
    if as_json:
        click.echo(objects.run(values, lengths, axis, path, delivery.sink.notes, verified=verify, **written._asdict()))


def _print(
    job: Job,
    row: Format,
    resources: Resources,
    console: Console,
    drawings: Drawings | None,
    *,
    example: str | None,
    full: bool,
) -> None:
    """Reverse in memory, and print the output in the format of `row`."""
    from revseq_cli.formats import textfiles
    from revseq_cli.formats.storage.together import Together
    from revseq_cli.passes import reversal
    from revseq_cli.report import view

    if row.is_text:
        textfiles.require_text(job.values.desc, job.values.name)
    result, clamped = reversal.reversed_in_memory(job, resources)
    most = view.MOST_ON_TERMINAL if streams.is_terminal() and not full else None
    if not row.is_shown:
        row.load().write_to(sys.stdout.buffer, result)
    elif example:
        click.echo(examples.text(job, result, most, console, example), color=True)
    else:
        click.echo(view.result_text(job.lengths, job.axis, result, most, console.marks), color=True)
    sys.stdout.flush()
    for note in (*job.notes, *job.clamping(clamped)):
        console.note(note)
    if drawings:
        with Together(*drawings.files) as together:
            drawings.draw(result)
        for note in together.notes:
            console.note(note)
