"""`revseq run`: validate, reverse, print or write."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from revseq_cli.commands import base, options
from revseq_cli.formats import table
from revseq_cli.ground.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from revseq_cli.formats.contract import FileSink, Layout, Source
    from revseq_cli.formats.references import Reference
    from revseq_cli.formats.storage.newfile import NewFile
    from revseq_cli.formats.table import Format
    from revseq_cli.operator.spec import FeatureLevel
    from revseq_cli.passes.arrangement import Arrangement, Resources
    from revseq_cli.passes.jobs import Job, Request


@base.command(
    "run",
    """Reverse the first LENGTH elements of every line of INPUT along an axis.

    INPUT and LENGTHS are x.npy, x.h5, x.h5::/group/name, x.npz::name, x.safetensors::name, x.zarr::array, x.json,
    x.txt, - for standard input, or the tensor itself as text that begins with a bracket. A docs-style text with
    InputTensor, SequenceTensor and Axis is a whole job and needs no LENGTHS; page.md::2 is the second example of a
    page, and model.json a model of DxDispatch. Without -o, the OutputTensor is printed.
    """,
    epilog="Example: revseq run samples/example1.npy samples/example1-lengths.npy --axis 3 -o y.npy",
)
@options.job_options
@click.option(
    "-o",
    "--output",
    metavar="OUT",
    type=click.Path(),
    help="Write the OutputTensor to this new file, or - for standard output.",
)
@click.option(
    "-f", "--format", "format_name", type=click.Choice(table.NAMES),
    help="The format of the output; or of an input of which neither the first bytes nor the suffix say it.",
)  # fmt: skip
@click.option("--overwrite", is_flag=True, help="Replace OUT if it exists.")
@click.option("--example", is_flag=True, help="Print the whole docs-style example, not the OutputTensor alone.")
@click.option(
    "--picture",
    metavar="FILE.svg",
    type=click.Path(),
    help="Also draw input, lengths and output side by side, in this new file.",
)
@options.full_option
@click.option("--dry-run", is_flag=True, help="Validate, show the plan, and write nothing.")
@click.option("--verify", is_flag=True, help="Read OUT back before it gets its name: reversed again, it is the input.")
@click.option("--sha256", is_flag=True, help="With --json, also the SHA-256 of OUT's bytes.")
@options.layout_options
@options.resource_options
@options.json_option
@options.output_options
def command(
    output: str | None,
    format_name: str | None,
    level: FeatureLevel,
    overwrite: bool,
    example: bool,
    picture: str | None,
    full: bool,
    dry_run: bool,
    verify: bool,
    sha256: bool,
    layout: Layout,
    resources: Resources,
    as_json: bool,
    voice: options.Voice,
    **job_options: Any,
) -> None:
    """Carry the command out."""
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
        row = options.printed_format(printed, f"add -o out.{printed or 'npy'}")
    work = jobs.load(request)
    work.require(level)
    drawing = _drawing(picture, work, target, overwrite=overwrite) if picture is not None else None
    if dry_run:
        _dry_run(work, target, resources, as_json=as_json)
    elif target:
        _write(target.delivery(work, resources), voice, drawing, as_json=as_json)
    else:
        _print(work, row, resources, voice, drawing, example=example, full=full)


@dataclass(frozen=True)
class Target:
    """The file to write, and what is asked of it."""

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
        """The file of that name."""
        from revseq_cli.formats import references

        reference = references.Reference.output(output, format_name, filter(None, request.references()))
        return cls(reference, layout, overwrite, verify, sha256)

    def sink(self, work: Job) -> FileSink:
        """The file's sink; every reason to refuse it shows now."""
        from revseq_cli.formats import registry

        return registry.create_sink(
            self.reference, work.values, overwrite=self.overwrite, inputs=work.inputs, layout=self.layout
        )

    def delivery(self, work: Job, resources: Resources) -> Delivery:
        """The job, ready to be carried out; every reason to refuse it shows now."""
        from revseq_cli.passes.arrangement import arrange

        sink = self.sink(work)
        return Delivery(work, self, sink, arrange(work, resources, sink))


@dataclass(frozen=True)
class Delivery:
    """A job on its way into its file: how `run` and `batch` carry it out."""

    work: Job
    target: Target
    sink: FileSink
    arrangement: Arrangement

    @property
    def total_bytes(self) -> int:
        """Bytes of all passes."""
        return self.work.values.desc.total_bytes * (2 if self.target.verify else 1)

    def carry_out(
        self,
        advance: Callable[[int], None],
        drawing: NewFile | None = None,
        complete: Callable[[str | None], None] = lambda _: None,
    ) -> str | None:
        """Reverse into the new file; the digest, if it is asked for.

        `advance` hears of the bytes of each block, and `complete` of the digest when the file has but to get its name.
        """
        from revseq_cli.formats.storage.together import Together
        from revseq_cli.passes import reversal

        item_size = self.work.values.dtype.itemsize
        together = Together(*filter(None, [self.sink.file, drawing]))
        with together, self.sink:
            reversal.reverse(self.work, self.sink, self.arrangement, lambda elements: advance(elements * item_size))
            if self.target.verify:
                reversal.verify(self.work, self.sink, self.arrangement, lambda elements: advance(elements * item_size))
                self.sink.notes += self.work.gaps()
            self.work.recheck()
            digest = self.sink.digest() if self.target.sha256 else None
            if drawing:
                _draw(drawing, self.work, self.sink.written())
            complete(digest)
        self.sink.notes += tuple(together.notes)
        return digest


def _refuse_layout(layout: Layout) -> None:
    if layout != type(layout)():
        raise UsageError("--chunks, --compression and --keep-others are about a file", "-o with it", "add -o out.h5")


def _dry_run(work: Job, target: Target | None, resources: Resources, *, as_json: bool) -> None:
    """Everything but the work."""
    from revseq_cli.passes.arrangement import arrange
    from revseq_cli.report import objects, tables

    arrangement = arrange(work, resources, target.sink(work) if target else None)
    describe = objects.plan if as_json else tables.plan
    click.echo(describe(work.values.desc, work.lengths.desc, work.axis, arrangement))


def _write(delivery: Delivery, voice: options.Voice, drawing: NewFile | None, *, as_json: bool) -> None:
    """Reverse into a new file."""
    from revseq_cli.ground import stopping
    from revseq_cli.report import objects, tables
    from revseq_cli.report.progress import Progress

    values, lengths, axis = delivery.work.values.desc, delivery.work.lengths.desc, delivery.work.axis
    voice.detail(tables.plan(values, lengths, axis, delivery.arrangement))
    with stopping.deferred(), Progress(delivery.total_bytes, shown=voice.shows_progress) as bar:
        voice.workers(delivery.arrangement)
        digest = delivery.carry_out(bar.advance, drawing)
    for note in delivery.sink.notes:
        voice.note(note)
    path, verify = delivery.target.reference.path, delivery.target.verify
    voice.detail(f"wrote {path}{', and verified it' if verify else ''}")
    if as_json:
        click.echo(objects.run(values, lengths, axis, path, delivery.sink.notes, verified=verify, sha256=digest))


def _print(
    work: Job,
    row: Format,
    resources: Resources,
    voice: options.Voice,
    drawing: NewFile | None,
    *,
    example: bool,
    full: bool,
) -> None:
    """Reverse in memory, and print in the format of that row."""
    from revseq_cli.formats import textfiles
    from revseq_cli.formats.storage.together import Together
    from revseq_cli.passes import reversal
    from revseq_cli.report import view

    if row.is_text:
        textfiles.require_text(work.values.desc, work.values.name)
    result = reversal.reversed_in_memory(work, resources)
    most = view.MOST_ON_TERMINAL if options.is_terminal() and not full else None
    if not row.is_shown:
        row.load().write_to(sys.stdout.buffer, result)
    elif example:
        click.echo(view.example_text(work.values, work.lengths, work.axis, result, most, voice.marks), color=True)
    else:
        click.echo(view.result_text(work.lengths, work.axis, result, most, voice.marks), color=True)
    sys.stdout.flush()
    if drawing:
        with Together(drawing) as together:
            _draw(drawing, work, result)
        for note in together.notes:
            voice.note(note)


def _drawing(path: str, work: Job, target: Target | None, *, overwrite: bool) -> NewFile:
    """The file of the picture; every reason to refuse it shows now."""
    from revseq_cli.formats import registry

    if not path.lower().endswith(".svg"):
        raise UsageError("--picture writes SVG", "a name that ends in .svg", "add --picture jobs.svg", path)
    if target and os.path.realpath(target.reference.path) == os.path.realpath(path):
        raise UsageError("-o and --picture are one file", "two names", where=path)
    return registry.new_file(path, overwrite=overwrite, inputs=work.inputs)


def _draw(drawing: NewFile, work: Job, result: Source) -> None:
    from revseq_cli.report import view

    with work.lengths.at_hand() as lengths:
        drawing.write(view.picture(work.values, lengths, work.axis, result).encode())
