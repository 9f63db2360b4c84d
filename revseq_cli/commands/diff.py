"""`revseq diff`: how two tensors differ, or how an output differs from the expected one."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
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

    from revseq_cli.files.input_file import Identity
    from revseq_cli.files.new import NewFile
    from revseq_cli.formats.contract import Source
    from revseq_cli.formats.references import Reference
    from revseq_cli.pipeline.folds import Differences, Tolerance
    from revseq_cli.pipeline.jobs import Job
    from revseq_cli.pipeline.passes import Pair
    from revseq_cli.pipeline.request import Request
    from revseq_cli.pipeline.resources import Resources
    from revseq_cli.porting.diagnose import Diagnosis
    from revseq_cli.report.comparison import Comparison
    from revseq_cli.report.sequences import ShownSequence

_OF_A = ("dtype", "input_format", "sizes")  # settings that say how A is read
_OF_TOLERANCE = ("atol", "rtol", "ulp", "equal_nan")
_MOST_DRAWN = 10_000  # differences among which a picture looks for wrong sequences
_FORMS = (
    "A B, or A --job INPUT LENGTHS, or --on PROVIDER INPUT LENGTHS, "
    "where INPUT may be a complete job"
)


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
@options.job_options
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
    from revseq_cli.pipeline.folds import tolerance_of  # --help must not load NumPy

    _require_tensors(tensors, settings, is_job=is_job, on=on)
    tolerance = tolerance_of(*(settings.pop(name) for name in _OF_TOLERANCE))
    with signals.defer():
        if on:
            inputs = _compute_output(on, tensors, settings, resources)
        elif is_job:
            inputs = _open_with_job(tensors, settings, resources)
        else:
            inputs = _open_tensors(tensors, settings, resources)
        drawing: NewFile | None = None
        if picture is not None:
            drawing = options.new_picture(picture, inputs.files, overwrite=overwrite)
        notes = [*inputs.notes, *_describe_lengths(inputs, resources)]
        svg = ""
        with _open_comparison(inputs, tolerance, resources, first) as opened:
            has_report = not console.as_json and not console.quiet
            result = _make_result(inputs, opened, first if has_report else 0)
            if drawing and opened:
                svg = _draw_picture(opened)
        inputs.recheck()
    if drawing and svg:
        notes += options.write_picture(drawing, svg)
    elif drawing:
        notes.append("no picture is drawn: the tensors differ in shapes or data types")
    return _print_result(result, notes, console)


@dataclass(frozen=True)
class _Inputs:
    """A, and what it is compared with: B, or the output that the `job` should give.

    `b` is B; with a job it is INPUT, which has the data type and the shape of that output.
    """

    a: Source
    b: Source
    job: Job | None = None
    notes: Sequence[str] = ()

    @property
    def sources(self) -> tuple[Source, Source | Job]:
        """What is read: A, and B or the job, which also has LENGTHS."""
        return self.a, self.job or self.b

    @property
    def files(self) -> list[Identity]:
        """All files that are read."""
        a, other = self.sources
        return [*a.files, *other.files]

    def recheck(self) -> None:
        """Raise an error if a file has changed since it was opened."""
        for item in self.sources:
            item.recheck()


@dataclass(frozen=True)
class _OpenComparison:
    """How two tensors of one shape and data type differ, as long as both can be read.

    If the second one is the expected output of a job, the `diagnosis` explains the differences.
    """

    pair: Pair
    differences: Differences
    tolerance: Tolerance | None
    diagnosis: Diagnosis | None = None

    def read_mask(self, region: Region) -> NDArray[Any]:
        """Which elements of a region differ."""
        from revseq_cli.pipeline.folds import unequal

        a = self.pair.a.read_task(region).read()
        return unequal(a, self.pair.b.read_task(region).read(), self.tolerance)


@contextlib.contextmanager
def _open_comparison(
    inputs: _Inputs, tolerance: Tolerance | None, resources: Resources, first: int
) -> Iterator[_OpenComparison | None]:
    """Compare, and keep the `first` differences; None for other shapes or data types."""
    from revseq_cli.pipeline import passes
    from revseq_cli.pipeline.plan import plan_pass

    a, b, job = inputs.a, inputs.b, inputs.job
    if job:
        from revseq_cli.porting.diagnose import open_diagnosis  # two tensors do not need it

        with open_diagnosis(a, job, tolerance, resources, first) as diagnosis:
            if diagnosis:
                yield _OpenComparison(diagnosis.pair, diagnosis.differences, tolerance, diagnosis)
            else:
                yield None
    elif a.desc == b.desc:
        pair = passes.Pair(a, b, plan_pass(a, b, resources))
        yield _OpenComparison(pair, passes.compare("compare", pair, tolerance, first), tolerance)
    else:
        yield None


def _describe_lengths(inputs: _Inputs, resources: Resources) -> Sequence[str]:
    """The notes on the lengths of the job, if there is one."""
    from revseq_cli.pipeline import passes

    job = inputs.job
    if job is None:
        return ()
    counts = passes.count_lengths(job, resources)
    return job.describe_lengths(counts.clamped, counts.least)


def _make_result(inputs: _Inputs, opened: _OpenComparison | None, most: int) -> Comparison:
    """What is reported, with at most this many wrong sequences of the output of a job."""
    from revseq_cli.report import comparison

    axis = inputs.job.axis if inputs.job else None
    if opened is None:
        return comparison.Comparison(inputs.a, inputs.b, None, axis=axis)
    result = comparison.Comparison(inputs.a, opened.pair.b, opened.differences, axis=axis)
    if opened.diagnosis is None:
        return result
    return replace(
        result,
        wrong_sequences=opened.diagnosis.wrong_sequences,
        mistakes=opened.diagnosis.mistakes,
        shown_sequences=_read_shown_sequences(opened, most),
    )


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
    hint = ""
    if len(tensors) == 3 and not has_job:
        hint = "to compare A with the expected output of a job, add --job"
    of_job = [name for name in settings if name not in (*_OF_A, *_OF_TOLERANCE)]
    typed = options.find_typed_option(*of_job)
    if is_job and on:
        problem = "--on computes A, and --job reads it from a file"
        raise UsageError(problem, _FORMS, "leave out --job")
    if typed and not has_job:
        raise UsageError(f"{typed} applies only to a job", _FORMS, hint)
    names = ["A", "B"]
    least = 2
    if is_job:
        names = ["A", "INPUT", "LENGTHS"]
    if on:
        names = ["INPUT", "LENGTHS"]
        least = 1
    if not least <= len(tensors) <= len(names):
        raise UsageError(f"tensors given: {len(tensors)}", _FORMS, hint)
    from revseq_cli.formats.pipes import refuse_shared  # --help must not load NumPy
    from revseq_cli.formats.references import Reference

    references = [Reference.input(text) for text in tensors]
    refuse_shared(list(zip(names, references, strict=False)))


def _open_tensors(
    tensors: Sequence[str], settings: dict[str, Any], resources: Resources
) -> _Inputs:
    """A and B."""
    from revseq_cli.pipeline import inputs

    inputs.refuse_sizes(_make_references(tensors, settings), settings["sizes"])
    opening = {name: settings[name] for name in _OF_A}
    a, b = (options.make_request(resources, input=text, **opening) for text in tensors)
    return _Inputs(*inputs.load_pair(a, b))


def _compute_output(
    provider: str, tensors: Sequence[str], settings: dict[str, Any], resources: Resources
) -> _Inputs:
    """The job of INPUT and LENGTHS, and as A what ONNX Runtime's provider computes for it."""
    from revseq_cli.pipeline import inputs, loading
    from revseq_cli.porting import providers

    inputs.refuse_sizes(_make_references(tensors[:1], settings), settings["sizes"])
    job = loading.load_job(_make_request(tensors, settings, resources))
    output, notes = providers.compute(job, provider, resources.memory)
    return _Inputs(output, job.values, job, notes)


def _open_with_job(
    tensors: Sequence[str], settings: dict[str, Any], resources: Resources
) -> _Inputs:
    """A, and the job of INPUT and LENGTHS that should give it.

    If A is a raw buffer, it has the data type and shape of INPUT unless an option says otherwise.
    """
    from revseq_cli.pipeline import inputs, loading

    name_of_a, *of_job = tensors
    of_input = dict(settings)
    of_a = {name: settings[name] for name in _OF_A}
    references = _make_references([of_job[0], name_of_a], settings)
    inputs.refuse_sizes(references, settings["sizes"])
    # --sizes is the shape of INPUT if that is a raw buffer, and else of A.
    if references[0].is_raw_buffer:
        of_a["sizes"] = None
    else:
        of_input["sizes"] = None
    request = _make_request(of_job, of_input, resources)
    a = options.make_request(resources, input=name_of_a, **of_a)
    job = loading.load_job(inputs.take_type_of_a(request, a))
    return _Inputs(inputs.load_any_type(a, "A", like=job.values.desc), job.values, job)


def _make_references(tensors: Sequence[str], settings: dict[str, Any]) -> list[Reference]:
    from revseq_cli.formats.references import Reference

    return [Reference.input(text, settings["input_format"]) for text in tensors]


def _make_request(of_job: Sequence[str], settings: dict[str, Any], resources: Resources) -> Request:
    """The request for the job of INPUT, and of LENGTHS if they are given."""
    lengths = of_job[1] if len(of_job) > 1 else None
    return options.make_request(resources, input=of_job[0], lengths=lengths, **settings)


def _read_shown_sequences(opened: _OpenComparison, most: int) -> tuple[ShownSequence, ...]:
    """The first wrong sequences of the output of a job; none if nothing differs."""
    from revseq_cli.report import sequences
    from revseq_cli.report.subject import Subject

    pair = opened.pair
    job = pair.job
    is_wanted = most > 0 and opened.differences.count > 0
    if job is None or not is_wanted:
        return ()
    subject = Subject(
        tensors=(("A", pair.a), ("expected", pair.b)),
        axis=job.axis,
        lengths=job.lengths,
        mask=opened.read_mask,
        differences=opened.differences,
    )
    return tuple(sequences.read_shown_sequences(subject, most))


def _draw_picture(opened: _OpenComparison) -> str:
    """Both tensors, with what differs marked, and what explains it."""
    from revseq_cli.pipeline import passes
    from revseq_cli.report import picture

    pair = opened.pair
    job = pair.job
    if job is None:
        # The report may show fewer differences than the picture, or none.
        differences = passes.compare("draw", pair, opened.tolerance, _MOST_DRAWN)
        tensors = (("A", pair.a), ("B", pair.b))
        return picture.draw_difference(tensors, differences, opened.read_mask)
    mistakes = opened.diagnosis.mistakes if opened.diagnosis else ()
    return picture.draw_difference(
        (("A", pair.a), ("expected", pair.b)),
        opened.differences,
        opened.read_mask,
        axis=job.axis,
        lengths=job.lengths,
        batch_axis=job.batch_axis,
        causes=tuple(mistake.text for mistake in mistakes),
    )
