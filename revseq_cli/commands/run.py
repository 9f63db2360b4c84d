"""`revseq run`: check a job, reverse, and print or write the output."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from revseq_cli.commands import base, options, pictures
from revseq_cli.commands.base import Group, printed_format, room_for_tensors
from revseq_cli.core.errors import UsageError
from revseq_cli.formats import table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from revseq_cli.commands.base import Console
    from revseq_cli.commands.pictures import Drawings
    from revseq_cli.formats.contract import FileSink, Layout
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
@Group.WRITE.option("--sha256", is_flag=True, help="Add the SHA-256 of OUT to the JSON report. Needs -o and --json.")
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
    """Reverse the start of every line of INPUT along an axis, as many elements as LENGTHS gives.

    Without -o, the command prints the OutputTensor.

    INPUT and LENGTHS can each be a file (x.npy, x.h5, x.h5::/group/name, x.npz::name, x.safetensors::name,
    x.zarr::array, x.json, x.txt, x.csv, x.npy.gz), - for standard input, another pipe such as <(cat x.npy), or the
    tensor itself, as text that begins with a bracket. With --keep-others, x.nc::air,sst reverses several tensors in
    one copy of their file.

    A complete job needs no LENGTHS: text with InputTensor, SequenceTensor and Axis; page.md::2, the second
    example of a page; model.json, a DxDispatch model; or model.onnx::node, a ReverseSequence node of an ONNX model.
    With --feed, the model computes the input and the lengths of the node.
    """
    to_file = output not in (None, "-")
    _require_file(to_file, dry_run=dry_run, as_json=console.as_json, verify=verify, sha256=sha256)
    pictures.require_drawing(theme, picture, html)
    if example and (to_file or not (table.named(format_name) or table.TEXT).is_shown):
        raise UsageError("--example prints text", "neither -o nor -f with it", "add > example.txt instead")

    from revseq_cli.formats import references  # --help must not load NumPy
    from revseq_cli.pipeline import jobs  # --help must not load NumPy
    from revseq_cli.pipeline.arrangement import arrange
    from revseq_cli.report import objects, tables

    request = options.request_of(format_name=format_name, absolute=resources.elsewhere, **job_options)
    reference = references.Reference.output(output or "-", format_name, filter(None, request.references()))
    if not (to_file or layout.is_default):
        found = "--chunks, --compression and --keep-others apply only to a file"
        raise UsageError(found, "-o with it", _output_of(request.references()[0], layout))
    row = table.TEXT
    if not to_file and not dry_run:
        printed = table.TEXT.name if example else reference.format
        row = printed_format(printed, f"add -o out{table.suffix_to_write(printed)}", "-o {}")
    every = jobs.load_each(request, keep_others=layout.keep_others)
    for job in every:
        jobs.require(job)
    job = every[0]
    if len(every) > 1 and (picture or html):
        raise UsageError("--picture and --html draw one job", "one tensor", where=request.values)
    paths = {"--picture": picture, "--html": html}
    drawings = pictures.Drawings(job, paths, output if to_file else None, resources, overwrite=overwrite, theme=theme)
    if not to_file and not dry_run:
        _print(job, row, resources, console, drawings, form=example, full=full)
        return
    if not to_file:
        click.echo((objects if console.as_json else tables).plans([_planned(job, arrange(job, resources))]))
        return
    delivery = prepared(every, reference, layout, resources, overwrite=overwrite, verify=verify, sha256=sha256)
    if not dry_run:
        _write(delivery, console, drawings)
    else:
        click.echo((objects if console.as_json else tables).plans([each.planned for each in delivery.every]))


def _require_file(to_file: bool, *, dry_run: bool, as_json: bool, verify: bool, sha256: bool) -> None:
    """UsageError for options that are about a file that is written, where there is none."""
    if as_json and not to_file and not dry_run:
        raise UsageError("--json reports on a file", "-o or --dry-run with it", "-f json prints the tensor as JSON")
    if verify and not to_file:
        raise UsageError("--verify reads a file back", "-o with it", "add -o out.npy")
    if sha256 and not (as_json and to_file and not dry_run):
        raise UsageError("--sha256 is a part of the JSON report", "-o and --json with it", "add -o out.npy --json")


def _output_of(values: Reference, layout: Layout) -> str:
    """A hint for a layout without an output: one that can have it."""
    from revseq_cli.formats import references

    if layout.changes_storage:
        return "add -o out.h5"
    name = references.name_of_copy(values)
    return f"add -o {name}" if name else "leave out --keep-others"


def prepared(
    jobs: Sequence[Job], reference: Reference, layout: Layout, resources: Resources, *, overwrite: bool, verify: bool,
    sha256: bool,
) -> Delivery:  # fmt: skip
    """The delivery of jobs whose outputs are in one new file; every error that is known before writing is raised."""
    from revseq_cli.formats import registry
    from revseq_cli.pipeline.arrangement import arrange

    files = [file for job in jobs for file in job.files]
    tensors = [job.values for job in jobs]
    sinks = registry.create_sinks(reference, tensors, overwrite=overwrite, inputs=files, layout=layout)
    passes = [(job, sink, arrange(job, resources, sink)) for job, sink in zip(jobs, sinks, strict=True)]
    others = tuple(Delivery(*each, verify, sha256) for each in passes[1:])
    return Delivery(*passes[0], verify, sha256, others)


class Written(NamedTuple):
    """How many lengths of each tensor exceed the axis size, and the SHA-256 of the new file if it was asked for."""

    clamped: tuple[int, ...]
    sha256: str | None


@dataclass(frozen=True)
class Delivery:
    """A job whose output goes to a file, ready to run, for `run` and `batch`.

    The `others` are of further tensors of INPUT's file, which are replaced in the same copy, one after another.
    """

    job: Job
    sink: FileSink
    arrangement: Arrangement
    verify: bool
    sha256: bool
    others: tuple[Delivery, ...] = ()

    @property
    def every(self) -> tuple[Delivery, ...]:
        """The delivery itself and the others."""
        return (self, *self.others)

    @property
    def total_bytes(self) -> int:
        """The bytes of all tensors that are reversed."""
        return sum(each.job.values.desc.total_bytes for each in self.every)

    @property
    def planned(self) -> Planned:
        """What is told before it runs."""
        return _planned(self.job, self.arrangement, self.sink.kept)

    def run(self, drawings: Drawings | None = None, complete: Callable[[Written], None] = lambda _: None) -> Written:
        """Reverse into the new file; `complete` gets the result before the file gets its name."""
        from revseq_cli.formats.atomic_file import FileTransaction
        from revseq_cli.pipeline import reversal

        together = FileTransaction(self.sink.file, *(drawings.files.values() if drawings else ()))
        with together, contextlib.ExitStack() as sinks:
            clamped = []
            for each in self.every:
                sinks.enter_context(each.sink)
                clamped.append(reversal.reverse(each.job, each.sink, each.arrangement))
                each.sink.complete()  # before the next tensor of the same file is replaced
                each.sink.notes += (*each.job.notes, *each.job.clamping(clamped[-1]))
            for each in self.every:
                if self.verify:
                    reversal.verify(each.job, each.sink, each.arrangement)
                    each.sink.notes += each.job.absent_notes()
                each.job.recheck()
            self.sink.notes = tuple(dict.fromkeys(note for each in self.every for note in each.sink.notes))
            written = Written(tuple(clamped), self.sink.digest() if self.sha256 else None)
            if drawings:
                drawings.draw(self.sink.written())
            complete(written)
        self.sink.notes += tuple(together.notes)
        return written


def _planned(job: Job, arrangement: Arrangement, kept: int = 0) -> Planned:
    """What is told of a job before it runs; `kept` bytes of INPUT's file are copied with it."""
    from revseq_cli.report.results import Planned

    return Planned(job.values.name, job.values.desc, job.lengths.desc, job.axis, arrangement, kept)


def _write(delivery: Delivery, console: Console, drawings: Drawings) -> None:
    """Reverse into a new file, and print notes or the report."""
    from revseq_cli.report import objects, tables

    planned = [each.planned for each in delivery.every]
    console.detail(tables.plans(planned))
    with console.writing(delivery.sink, delivery.arrangement, verify=delivery.verify):
        written = delivery.run(drawings)
    if console.as_json:
        tensors = [{**each._asdict(), "clamped": n} for each, n in zip(planned, written.clamped, strict=True)]
        done = {"output": delivery.sink.file.name, "bytes": delivery.total_bytes, "verified": delivery.verify}
        of_file = {"sha256": written.sha256, "notes": delivery.sink.notes}
        several = {"tensors": tensors if delivery.others else None}
        click.echo(objects.report("run", {**tensors[0], **done, **of_file, **several}))


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
