"""`revseq run`: check a job, reverse, and print or write the output."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from revseq_cli import files
from revseq_cli.commands import options
from revseq_cli.commands.console import Console, choose_printed_format, most_printed
from revseq_cli.commands.groups import Group, make_command
from revseq_cli.core.errors import EXISTS_ALREADY, UsageError
from revseq_cli.formats import table
from revseq_cli.formats.table import Format

if TYPE_CHECKING:
    from revseq_cli.files.new import NewFile
    from revseq_cli.formats.contract import FileSink, Source
    from revseq_cli.pipeline.jobs import Job
    from revseq_cli.pipeline.plan import Plan
    from revseq_cli.pipeline.request import Request
    from revseq_cli.pipeline.resources import Resources


@make_command(
    "run",
    examples=(
        'revseq run "[[1, 2, 3, 4], [5, 6, 7, 8]]" "[[3], [2]]" --axis 1',
        'revseq run "[[1, 2, 3], [4, 5, 6]]" "[2, 3]" --batch-axis 0 --axis 1 -o y.npy',
    ),
)
@options.job_parameters
@options.level_option
@Group.WRITE.option(
    "-o", "--output", metavar="OUT", type=click.Path(),
    help="Write the result to this new file, or to standard output if OUT is -.",
)  # fmt: skip
@options.output_format_option
@options.input_format_option
@Group.WRITE.option(
    "--overwrite",
    is_flag=True,
    help="Replace files that exist; with -o FILE::name, only that tensor.",
)
@Group.PRINT.option(
    "--example",
    is_flag=True,
    help="Print the complete job (inputs, axis and output) in the notation of Microsoft's pages.",
)
@options.picture_option
@options.full_option
@Group.PRINT.option(
    "--dry-run",
    is_flag=True,
    help="Check everything except the values, print the plan, and write nothing.",
)
@Group.WRITE.option(
    "--verify", is_flag=True,
    help="Before renaming the output to its final name, read it back and check that reversing it "
    "again gives INPUT.",
)  # fmt: skip
@Group.WRITE.option(
    "--only", is_flag=True,
    help="Write just this tensor. By default, an output in INPUT's format is a copy of INPUT's "
    "file with this tensor replaced or added.",
)  # fmt: skip
@options.resource_options
@options.output_options
def command(
    output: str | None,
    format_name: str | None,
    overwrite: bool,
    example: bool,
    picture: str | None,
    full: bool,
    dry_run: bool,
    verify: bool,
    only: bool,
    resources: Resources,
    console: Console,
    **job_parameters: Any,
) -> None:
    """Reverse the first N elements of each sequence of INPUT; LENGTHS gives N for each sequence.

    The result is printed, or written with -o. INPUT and LENGTHS can each be a file (x.npy, x.h5,
    x.h5::/group/name, x.npz::name, x.safetensors::name, x.zarr::array, x.json, x.txt, x.csv,
    x.csv::column, x.npy.gz), - (standard input), a pipe such as <(cat x.npy), an address such as
    s3://bucket/x.npy, or the tensor itself in brackets.

    If OUT has the format of INPUT (HDF5, NetCDF-4, .npz, .safetensors or Zarr), it is a copy of
    INPUT's file with the tensor replaced; with another name, as in -o y.h5::/name, the result is
    added to the copy. --only writes just the tensor. If OUT is FILE::name and FILE exists, the
    tensor is added to FILE, from any format.

    LENGTHS is not needed if INPUT is a complete job: text with InputTensor, SequenceTensor and
    Axis; the second example on a page (page.md::2); or a ReverseSequence node of an ONNX model
    (model.onnx::node), with the model's inputs given by --feed.
    """
    path = None if output == "-" else output
    if path is None:
        _refuse_options_of_files(dry_run=dry_run)
    if example:
        _require_printed_text(path, format_name)
    from revseq_cli.pipeline import loading
    from revseq_cli.pipeline.plan import plan_pass

    request = options.make_request(resources, format_name=format_name, **job_parameters)
    printed_format = table.TEXT
    if path is None and not dry_run:
        printed_format = choose_printed_format(format_name, "to write a file, add -o {}")
        if example and printed_format is not table.TEXT:
            file = f"a .{printed_format.name} file"
            raise UsageError(f"--example prints text, but standard output is {file}")
    request = keep_digits(request, path, printed_format)
    job = loading.load_job(request)
    sink: FileSink | None = None
    if path is not None:
        sink = new_sink(job, request, path, resources, overwrite=overwrite, only=only)
    drawings = _create_drawings(picture, path, job, overwrite=overwrite)
    if dry_run:
        _print_plan(job, plan_pass(job.values, sink, resources, job), path, console)
    elif sink:
        _write_output(
            job, sink, plan_pass(job.values, sink, resources, job), drawings, console, verify=verify
        )
    else:
        _print(job, printed_format, resources, console, drawings, example=example, full=full)


def _create_drawings(
    picture: str | None, path: str | None, job: Job, *, overwrite: bool
) -> list[NewFile]:
    """The new file of a picture, if one is asked for; UsageError if it is that of -o."""
    if not picture:
        return []
    drawing = options.new_picture(picture, job.files, overwrite=overwrite)
    if path and files.file_key(picture) == files.file_key(path):
        raise UsageError("-o and --picture are the same file", "two names", where=picture)
    return [drawing]


def _refuse_options_of_files(*, dry_run: bool) -> None:
    """UsageError for options that need an output file, if there is none."""
    if not dry_run and options.find_typed_option("as_json"):
        hint = "to print the tensor as JSON, replace --json with -f json"
        raise UsageError("--json needs -o or --dry-run", hint=hint)
    about_files = options.find_typed_option("verify", "only")
    if about_files:
        raise UsageError(f"{about_files} needs -o", hint="to write a file, add -o out.npy")


def _require_printed_text(path: str | None, format_name: str | None) -> None:
    """UsageError for --example with a file, or with a format."""
    output_format = table.by_name(format_name) or table.TEXT
    if path is None and output_format is table.TEXT:
        return
    typed = []
    if path is not None:
        typed.append("-o")
    if format_name:
        typed.append("-f")
    hint = f"to write a file, leave out {' and '.join(typed)}, and add > example.txt"
    raise UsageError("--example always prints text", hint=hint)


def keep_digits(
    request: Request, output: str | None, printed_format: Format = table.TEXT
) -> Request:
    """The request, in which text without a data type is FLOAT64 if the output is text.

    FLOAT64 keeps every digit. Text stays FLOAT32, as on Microsoft's pages, if the output is printed
    in their notation or a feature level is checked. Without `output`, the output is printed.
    """
    from dataclasses import replace

    from revseq_cli.core.tensors import DataType
    from revseq_cli.operator.spec import FeatureLevel

    if request.level is not FeatureLevel.NONE:
        return request
    if output is None:
        is_text = printed_format.is_text and printed_format is not table.TEXT
    else:
        path = output.partition("::")[0]
        chosen = table.by_name(request.output_format) or table.by_suffix(path)
        is_text = chosen is not None and chosen.is_text
    return replace(request, text_type=DataType.FLOAT64) if is_text else request


def new_sink(
    job: Job,
    request: Request,
    output: str,
    resources: Resources,
    *,
    overwrite: bool,
    only: bool,
    replaces_store: bool = False,
) -> FileSink:
    """The new file of that name for the output of a job; nothing is written yet.

    With `replaces_store`, an existing Zarr store may be replaced, since --resume makes it again.
    --overwrite never replaces a store, because that would remove a folder.
    """
    from revseq_cli.formats.outputs import adds_to_file, create_sink
    from revseq_cli.formats.references import Reference

    reference = Reference.output(output, request.output_format)
    if only and adds_to_file(reference):
        problem = f"--only writes a file of one tensor, and {reference.path} {EXISTS_ALREADY}"
        raise UsageError(problem, "a new file", "to add the tensor to it, leave out --only", output)
    return create_sink(
        reference,
        job.values,
        overwrite=overwrite,
        inputs=job.files,
        only=only,
        on_cluster=resources.on_cluster,
        axis=job.axis,
        replaces_store=replaces_store,
    )


def _write_output(
    job: Job, sink: FileSink, plan: Plan, drawings: list[NewFile], console: Console, *, verify: bool
) -> None:
    """Reverse into a new file, draw the picture, and print notes or the report."""
    from revseq_cli.pipeline import passes

    with console.write_files(sink, *drawings):
        clamped = passes.reverse_into_file(job, sink, plan, verified=verify)
        for drawing in drawings:
            drawing.write(_draw(job, sink.open_output()).encode())
    if console.as_json:
        from revseq_cli.report import objects

        record = objects.RunRecord(
            **objects.describe_job(job),
            output=sink.file.name,
            bytes=job.values.desc.total_bytes,
            clamped=clamped,
        )
        console.report(record)


def _print_plan(job: Job, plan: Plan, output: str | None, console: Console) -> None:
    """Print what --dry-run tells."""
    from revseq_cli.report import objects, view

    if not console.as_json:
        click.echo(view.plan_text(job, plan))
        console.note(*job.notes)
        return
    console.note(*job.notes)
    scheduler = plan.scheduler
    has_temporary_files = plan.detour.copies > 0 or plan.detour.tiling is not None
    downloads = [source.downloads for source in (job.values, job.lengths)]
    shown = objects.PlanRecord(
        blocks=plan.blocks.count,
        block_bytes=plan.blocks.elements * job.values.dtype.itemsize,
        engine=plan.engine,
        workers=None if scheduler else plan.workers,
        scheduler=scheduler or None,
        memory=plan.bytes,
        spooled=has_temporary_files,
        download_requests=sum(download.requests for download in downloads),
        download_bytes=sum(download.bytes for download in downloads),
    )
    record = objects.DryRunRecord(**objects.describe_job(job), output=output, plan=shown)
    console.report(record)


def _print(
    job: Job,
    printed_format: Format,
    resources: Resources,
    console: Console,
    drawings: list[NewFile],
    *,
    example: bool,
    full: bool,
) -> None:
    """Reverse in memory, and print the output in this format, or the job as an example."""
    from revseq_cli.formats.text import require_text
    from revseq_cli.pipeline import passes
    from revseq_cli.report import view

    if printed_format.is_text:
        require_text(job.values.desc, job.values.name)
    result, notes = passes.reverse_in_memory(job, resources)
    most = most_printed(full=full)
    if printed_format is not table.TEXT:
        printed_format.load().write_to(sys.stdout.buffer, result)
    elif example:
        click.echo(view.example_text(job.values, job.lengths, job.axis, result, most))
    else:
        text = view.result_text(job, result, most, in_color=console.in_color)
        click.echo(text, color=console.in_color)
    sys.stdout.flush()
    console.note(*notes)
    for drawing in drawings:
        console.note(*options.write_picture(drawing, _draw(job, result)))


def _draw(job: Job, result: Source) -> str:
    from revseq_cli.report import picture  # most jobs draw nothing

    return picture.draw_job(
        job.values,
        job.lengths,
        job.axis,
        result,
        batch_axis=job.batch_axis,
        name=job.values.name,
    )
