"""`revseq diff`: how two tensors differ, or how an output differs from the expected one."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from revseq_cli.commands import options
from revseq_cli.commands.console import Console
from revseq_cli.commands.groups import Group, make_command
from revseq_cli.commands.values import complete_files
from revseq_cli.core.errors import UsageError
from revseq_cli.core.tensors import Region

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from revseq_cli.files.base import Identity
    from revseq_cli.files.new import NewFile
    from revseq_cli.formats.contract import Source
    from revseq_cli.pipeline.folds import Differences, Tolerance
    from revseq_cli.pipeline.jobs import Job
    from revseq_cli.pipeline.passes import Pair
    from revseq_cli.pipeline.plan import Resources
    from revseq_cli.porting.diagnose import Diagnosis
    from revseq_cli.report.comparison import Comparison, WrongSequence
    from revseq_cli.report.subject import Mask

# Settings that apply to tensors with and without a job.
_OF_TENSORS = {"dtype", "input_format", "sizes", "atol", "rtol", "ulp", "equal_nan"}
_MOST_DRAWN = 10_000  # differences among which a picture looks for wrong sequences
_FORMS = (
    "A B, or A --job INPUT LENGTHS, or --on PROVIDER INPUT LENGTHS, "
    "where INPUT may be a complete job"
)
_ADD_JOB = "to compare A with the expected output of a job, add --job"


@make_command(
    "diff",
    examples=(
        'revseq diff "[1, 2]" "[1, 2.0000001]" --rtol 1e-6',
        'revseq diff "[[2, 1, 3]]" --job "[[1, 2, 3]]" "[[2]]" --axis 1',
    ),
)
@click.argument("tensors", metavar="A B", nargs=-1, shell_complete=complete_files)
@Group.COMPARE.option(
    "--job",
    "is_job",
    is_flag=True,
    help="Compare A with the expected output of a job: A --job INPUT [LENGTHS].",
)
@Group.COMPARE.option(
    "--on", metavar="PROVIDER",
    help="Run the job in ONNX Runtime on this provider (cpu, directml or any other installed) "
    "and compare the result.",
)  # fmt: skip
@Group.COMPARE.option(
    "--atol",
    type=float,
    help="The absolute tolerance. Elements are equal if |A - B| <= atol + rtol * |B|.",
)
@Group.COMPARE.option("--rtol", type=float, help="The relative tolerance, a factor of |B|.")
@Group.COMPARE.option(
    "--ulp", type=click.IntRange(0, (1 << 64) - 1), metavar="N",
    help="Treat elements as equal if they are at most N representable values apart. Infinity "
    "counts as the value after the largest number.",
)  # fmt: skip
@Group.COMPARE.option(
    "--equal-nan", is_flag=True, help="Treat all NaNs as equal. Values are compared, not bits."
)
@Group.COMPARE.option(
    "--first", type=click.IntRange(0, 100_000), default=10, show_default=True, metavar="N",
    help="Show at most N differences, or N wrong sequences of a job.",
)  # fmt: skip
@options.picture_option
@Group.WRITE.option("--overwrite", is_flag=True, help="Replace the picture if it exists.")
@options.level_option
@options.job_settings
@options.input_format_option
@options.resource_options
@options.output_options
def command(
    tensors: tuple[str, ...],
    is_job: bool,
    on: str | None,
    first: int,
    picture: str | None,
    overwrite: bool,
    resources: Resources,
    console: Console,
    **settings: Any,
) -> int:
    """Compare two tensors, in any formats, and show where they differ.

    A and B are named as in revseq run; x.txt::InputTensor selects one tensor of a text. A and B are
    equal if they have the same data type, the same shape, and the same bits in every element: a NaN
    equals only a NaN with the same bits, and -0.0 differs from 0.0. Byte order and memory order do
    not matter. If one of them is text without a data type, it takes the data type of the other.

    With --job, A is compared with what revseq run would write: revseq diff A --job INPUT LENGTHS
    --axis N. The report says which sequences are wrong, what they contain instead, and which
    mistake explains it: wrong lengths, positions or values. If a small A is the expected output
    transposed, flattened, with dimensions of size 1 added or left out, cut to the longest length,
    or in another data type, the command undoes that and reports it as a mistake.

    The job may be a ReverseSequence node of an ONNX model: A --job model.onnx::node --feed x=x.npy.

    With --on, A is what ONNX Runtime's ReverseSequence computes for the job, in memory: revseq diff
    --on cpu INPUT LENGTHS --axis N. The provider directml needs Windows and the package
    onnxruntime-directml.

    With --atol, --rtol, --ulp or --equal-nan, values are compared instead of bits: -0.0 equals 0.0,
    and NaN equals nothing unless you add --equal-nan. Elements are equal if they are within --atol
    and --rtol, as in numpy.isclose (computed in FLOAT64, and exactly for integers), or at most
    --ulp representable values apart. The data types and the shapes must be the same.

    The exit status is 0 if the tensors are equal, 1 if they differ, and 2 if an error stopped the
    command.
    """
    from revseq_cli.core import signals
    from revseq_cli.pipeline import folds, passes  # --help must not load NumPy
    from revseq_cli.pipeline.plan import plan_pass
    from revseq_cli.porting import diagnose
    from revseq_cli.report import comparison

    _require_tensors(tensors, settings, is_job=is_job, on=on)
    limits = [settings.pop(name) for name in ("atol", "rtol", "ulp", "equal_nan")]
    tolerance = folds.tolerance_of(*limits)

    with signals.defer(), contextlib.ExitStack() as stack:
        job: Job | None = None
        notes: list[str] = []
        if is_job or on:
            a, job, notes = _open_job(tensors, settings, on, resources)
            b = job.values
        else:
            a, b = _open_tensors(tensors, settings, resources)
        other = job or b  # whose files are read, too
        inputs = [*a.files, *other.files]
        drawing = _choose_picture(picture, inputs, overwrite=overwrite)
        pair: Pair | None = None
        differences: Differences | None = None
        diagnosis: Diagnosis | None = None
        if job:
            counts = passes.count_lengths(job, resources)
            notes += job.describe_lengths(counts.clamped, counts.least)
            diagnosis = stack.enter_context(
                diagnose.open_diagnosis(a, job, tolerance, resources, first)
            )
        elif a.desc == b.desc:
            pair = passes.Pair(a, b, plan_pass(a, b, resources))
            differences = passes.compare("compare", pair, tolerance, first)
        if diagnosis:
            pair = diagnosis.pair
            differences = diagnosis.differences
            b = pair.right
        svg = ""
        sequences: tuple[WrongSequence, ...] = ()
        if pair and differences:
            if drawing:
                svg = _draw_picture(pair, differences, tolerance, diagnosis)
            if not console.as_json and not console.quiet:
                sequences = _read_wrong_sequences(pair, differences, tolerance, first)
        elif drawing:
            notes.append("no picture is drawn: the tensors differ in shapes or data types")
        a.recheck()
        other.recheck()
    if drawing and svg:
        notes += _write_picture(drawing, svg)
    axis = job.axis if job else None
    result = comparison.Comparison(a, b, differences, axis=axis, sequences=sequences)
    if diagnosis:
        result = replace(
            result, wrong_sequences=diagnosis.wrong_sequences, mistakes=diagnosis.mistakes
        )
    return _print_result(result, notes, console)


def _choose_picture(
    picture: str | None, inputs: Sequence[Identity], *, overwrite: bool
) -> NewFile | None:
    """The new file for a picture, if one is asked for."""
    if picture is None:
        return None
    return options.new_picture(picture, inputs, overwrite=overwrite)


def _write_picture(drawing: NewFile, svg: str) -> list[str]:
    """Write a picture; the notes on what could not be flushed or removed."""
    from revseq_cli.files.new import FileTransaction

    with FileTransaction(drawing) as transaction:
        drawing.write(svg.encode())
    return transaction.notes


def _print_result(result: Comparison, notes: Sequence[str], console: Console) -> int:
    """Print the report; the exit status."""
    from revseq_cli.report import comparison, terminal

    status = 0 if result.equal else 1
    console.note(*notes)
    if console.as_json:
        console.report(result.as_record(), status)
    elif not console.quiet:
        width = terminal.width_of(sys.stdout)
        text = comparison.comparison_text(result, width, in_color=console.in_color)
        click.echo(text, color=console.in_color)
    return status


def _require_tensors(
    tensors: Sequence[str], settings: dict[str, Any], *, is_job: bool, on: str | None
) -> None:
    """UsageError for too few or too many tensors, and for options of a job where there is none."""
    has_job = is_job or on is not None
    of_job = options.find_typed_option(*settings.keys() - _OF_TENSORS)
    if is_job and on:
        problem = "--on computes A, and --job reads it from a file"
        raise UsageError(problem, _FORMS, "leave out --job")
    if of_job and not has_job:
        hint = _ADD_JOB if len(tensors) == 3 else ""
        raise UsageError(f"{of_job} applies only to a job", _FORMS, hint)
    names = ["A", "B"]
    least = 2
    if is_job:
        names = ["A", "INPUT", "LENGTHS"]
    if on:
        names = ["INPUT", "LENGTHS"]
        least = 1
    if not least <= len(tensors) <= len(names):
        hint = _ADD_JOB if len(tensors) == 3 and not has_job else ""
        raise UsageError(f"tensors given: {len(tensors)}", _FORMS, hint)
    from revseq_cli.formats.pipes import refuse_shared  # --help must not load NumPy
    from revseq_cli.formats.references import Reference

    references = [Reference.input(text) for text in tensors]
    refuse_shared(list(zip(names, references, strict=False)))


def _open_tensors(
    tensors: Sequence[str], settings: dict[str, Any], resources: Resources
) -> tuple[Source, Source]:
    """A and B."""
    from revseq_cli.formats.references import Reference
    from revseq_cli.pipeline import inputs

    references = [Reference.input(text, settings["input_format"]) for text in tensors]
    inputs.refuse_sizes(references, settings["sizes"])
    opening = {name: settings[name] for name in ("dtype", "input_format", "sizes")}
    opening["absolute"] = resources.elsewhere
    a, b = (options.request_of(input=text, **opening) for text in tensors)
    return inputs.load_pair(a, b)


def _open_job(
    tensors: Sequence[str], settings: dict[str, Any], on: str | None, resources: Resources
) -> tuple[Source, Job, list[str]]:
    """A, or what a provider computes of the job; the job of INPUT and LENGTHS; and notes.

    A raw buffer without a stated shape or data type has that of INPUT.
    """
    from revseq_cli.formats.references import Reference
    from revseq_cli.pipeline import inputs, suggest

    of_job = tensors if on else tensors[1:]
    lengths = of_job[1] if len(of_job) > 1 else None
    references = [
        Reference.input(text, settings["input_format"]) for text in (of_job[0], tensors[0])
    ]
    sizes = settings.pop("sizes")
    inputs.refuse_sizes(references, sizes)
    # --sizes is about INPUT if that is a raw buffer, and else about A.
    sizes_of_input = sizes if references[0].is_bare else None
    sizes_of_a = None if references[0].is_bare else sizes
    absolute = resources.elsewhere
    request = options.request_of(
        input=of_job[0], lengths=lengths, sizes=sizes_of_input, absolute=absolute, **settings
    )
    if on:
        from revseq_cli.porting import runtime

        job = suggest.load(request)
        output, notes = runtime.compute(job, on, resources.memory)
        return output, job, notes
    reading = {name: settings[name] for name in ("dtype", "input_format")}
    a = options.request_of(input=tensors[0], sizes=sizes_of_a, absolute=absolute, **reading)
    job = suggest.load(inputs.read_like(request, a))
    return inputs.load_output(a, "A", like=job.values.desc), job, []


def _mask_of(pair: Pair, tolerance: Tolerance | None) -> Mask:
    """A function that reads which elements of a region differ."""
    from revseq_cli.pipeline.folds import unequal

    def read_mask(region: Region) -> NDArray[Any]:
        a = pair.a.read_task(region).read()
        return unequal(a, pair.right.read_task(region).read(), tolerance)

    return read_mask


def _read_wrong_sequences(
    pair: Pair, differences: Differences, tolerance: Tolerance | None, most: int
) -> tuple[WrongSequence, ...]:
    """The first wrong sequences of the output of a job."""
    from revseq_cli.report import comparison
    from revseq_cli.report.subject import Subject

    job = pair.job
    if job is None or not differences.count:
        return ()
    tensors = (("A", pair.a), ("expected", pair.right))
    mask = _mask_of(pair, tolerance)
    subject = Subject("", (), tensors, job.axis, job.lengths, mask=mask, differences=differences)
    return tuple(comparison.read_wrong_sequences(subject, most))


def _draw_picture(
    pair: Pair,
    differences: Differences,
    tolerance: Tolerance | None,
    diagnosis: Diagnosis | None,
) -> str:
    """Both tensors, with what differs marked, and what explains it."""
    from revseq_cli.pipeline import passes
    from revseq_cli.report import picture

    mask = _mask_of(pair, tolerance)
    job = pair.job
    name = "expected" if job else "B"
    tensors = (("A", pair.a), (name, pair.right))
    if job is None:
        # The report may show fewer differences than the picture, or none.
        differences = passes.compare("draw", pair, tolerance, _MOST_DRAWN)
        return picture.of_difference(tensors, differences, mask)
    causes = [mistake.text for mistake in diagnosis.mistakes] if diagnosis else []
    return picture.of_difference(
        tensors,
        differences,
        mask,
        axis=job.axis,
        lengths=job.lengths,
        batch_axis=job.batch_axis,
        causes=tuple(causes),
    )
