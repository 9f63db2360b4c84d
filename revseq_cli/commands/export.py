"""`revseq export`: a job as a model for Microsoft's DxDispatch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from revseq_cli.commands import base, options
from revseq_cli.ground.errors import FormatError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import FileSink, Source
    from revseq_cli.formats.storage.newfile import NewFile
    from revseq_cli.operator.spec import FeatureLevel
    from revseq_cli.passes.assembly import Job

_MOST_INLINE = 1000  # elements of a tensor whose values the model holds, without --inline and --files


@base.command(
    "export",
    """Write a job as a model of Microsoft's DxDispatch, which runs it on DirectML itself, on Windows.

    The model holds the values, or names .npy files that must stay beside it. It names an INPUT or LENGTHS that is there
    already; others are written as model.InputTensor.npy and model.SequenceLengthsTensor.npy. DxDispatch prints the
    result, or, if a tensor is in a file, writes it to model.OutputTensor.npy. revseq run MODEL.json computes the same
    bits here.
    """,
    epilog="Example: revseq export samples/example1.npy samples/example1-lengths.npy --axis 3 -o model.json",
)
@options.job_options
@options.level_option
@click.option("-o", "--output", metavar="MODEL.json", required=True, help="Write the model to this new file.")
@click.option(
    "--inline/--files",
    default=None,
    help="Values in the model itself, or in .npy files beside it.  [default: in the model up to 1,000 elements each]",
)
@click.option("--overwrite", is_flag=True, help="Replace MODEL.json, and its .npy files, if they exist.")
@options.format_option
@options.json_option
@options.output_options
def command(
    output: str,
    inline: bool | None,
    overwrite: bool,
    format_name: str | None,
    level: FeatureLevel,
    as_json: bool,
    console: options.Console,
    **job_options: Any,
) -> None:
    """Run the command."""
    from revseq_cli.formats import registry  # --help must not load NumPy
    from revseq_cli.operator.spec import FeatureLevel
    from revseq_cli.passes import jobs  # --help must not load NumPy
    from revseq_cli.report import objects  # --help must not load NumPy

    if not output.lower().endswith(".json"):
        raise UsageError("a model is JSON", "a name that ends in .json", "add -o model.json", output)
    if level is FeatureLevel.NONE:
        wanted = "a level of DirectML's, since the model is for it"
        raise UsageError("--feature-level none lifts DirectML's limits", wanted, "leave it out")
    job = jobs.load(options.request_of(format_name=format_name, override=True, level=level, **job_options))
    jobs.require(job)
    file = registry.new_file(output, overwrite=overwrite, inputs=job.inputs)
    places = list(_places(job, Path(output), inline, overwrite=overwrite))
    target = _target(Path(output), places)
    _refuse_names(Path(output), [place.content for place in places if isinstance(place.content, str)], target)
    notes = _write(job, file, places, target)
    written = [output, *(place.sink.file.name for place in places if place.sink)]
    for note in notes:
        console.note(note)
    console.detail(f"wrote {', '.join(written)}")
    if as_json:
        click.echo(objects.export(job.values.desc, job.lengths.desc, job.axis, written))


class _Place(NamedTuple):
    """Where the values of a tensor are: `content` has them, or the name of a file; `sink` writes a new file."""

    role: str
    source: Source
    content: NDArray[Any] | str
    sink: FileSink | None = None


def _places(job: Job, model: Path, inline: bool | None, *, overwrite: bool) -> Iterator[_Place]:
    """The places of InputTensor and SequenceLengthsTensor; new files are created, but not written yet."""
    from revseq_cli.formats.models import is_plain
    from revseq_cli.operator.spec import INPUT, LENGTHS
    from revseq_cli.texts import dxdispatch

    for role, source in ((INPUT, job.values), (LENGTHS, job.lengths)):
        if inline or (inline is None and source.desc.element_count <= _MOST_INLINE):
            values = source.read()
            if dxdispatch.fits_inline(values):
                yield _Place(role, source, values)
                continue
            if inline:
                raise FormatError(
                    "holds a NaN with other bits than the usual one", "the usual one, since DxDispatch has one word",
                    "add --files", source.name,
                )  # fmt: skip
        if is_plain(source, model.parent):
            yield _Place(role, source, Path(source.path).name)
            continue
        path = _beside(model, role)
        yield _Place(role, source, path.name, _sink(path, source, job, overwrite=overwrite))


def _refuse_names(model: Path, names: list[str], target: str | None) -> None:
    """UsageError for a file name that a reader of the model refuses, or for two that are one file on Windows."""
    from revseq_cli.formats.models import beside

    every = {*names, *([target] if target else [])}
    for name in sorted(every):
        if beside(model.parent, name) is None:
            raise UsageError(
                f"the model would name {name[:80]!r}", "a file of its own folder, whose name has neither : nor \\",
                "add -o model.json, or --inline", str(model),
            )  # fmt: skip
        if other := next((each for each in every if each != name and each.casefold() == name.casefold()), None):
            raise UsageError(
                f"the model would name both {name[:80]} and {other[:80]}, which are one file on Windows",
                "names that differ in more than case", "rename one, or add --inline", str(model),
            )  # fmt: skip


def _beside(model: Path, role: str) -> Path:
    return model.with_name(f"{model.stem}.{role}.npy")


def _sink(path: Path, source: Source, job: Job, *, overwrite: bool) -> FileSink:
    """The sink of a new .npy in C order and little-endian, since DxDispatch reads others wrongly."""
    import numpy as np

    from revseq_cli.formats import references, registry
    from revseq_cli.formats.held import HeldSource

    like = np.broadcast_to(np.zeros((), source.dtype.newbyteorder("<")), source.sizes)  # one element in memory
    described = HeldSource(source.name, like, source.storage)
    return registry.create_sink(references.Reference(str(path)), described, overwrite=overwrite, inputs=job.inputs)


def _target(model: Path, places: list[_Place]) -> str | None:
    """The name of the .npy file for the result; None if the model prints it, since no tensor is in a file."""
    from revseq_cli.operator.spec import OUTPUT

    files = [place.content for place in places if isinstance(place.content, str)]
    target = _beside(model, OUTPUT).name
    if target in files:
        raise UsageError("DxDispatch would write its result over it", "another name", "rename it", target)
    return target if files else None


def _write(job: Job, file: NewFile, places: list[_Place], target: str | None) -> list[str]:
    """Write all files, the model last, since it names the others; the notes for the user."""
    from revseq_cli.formats.storage.together import Together
    from revseq_cli.passes.arrangement import Resources, arrange_copy
    from revseq_cli.passes.copying import copy
    from revseq_cli.texts import dxdispatch

    contents = {place.role: (place.source.desc, place.content) for place in places}
    together = Together(*(place.sink.file for place in places if place.sink), file)
    with together:
        for place in places:
            if place.sink:
                with place.sink as sink:
                    copy(place.source, sink, arrange_copy(place.source, Resources(), sink))
        job.recheck()
        file.write(dxdispatch.model_text(contents, job.axis, target).encode())
    return together.notes
