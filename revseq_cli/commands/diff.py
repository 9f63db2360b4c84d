"""`revseq diff`: how two tensors differ, or a tensor and what is right for a job, in bits or beyond a tolerance."""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from revseq_cli.commands import base, options
from revseq_cli.commands.base import Group
from revseq_cli.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from revseq_cli.commands.base import Console
    from revseq_cli.core.tensors import TensorDesc
    from revseq_cli.formats.contract import Region, Source
    from revseq_cli.pipeline.assembly import Job
    from revseq_cli.pipeline.comparison import Pair, Tolerance
    from revseq_cli.pipeline.plan import Resources
    from revseq_cli.report.objects import Comparison

_MOST_SHOWN = 100_000
_MOST_STEPS = (1 << 64) - 1
# What settings say of tensors, with and without a job.
_OF_TENSORS = {"dtype", "format_name", "sizes", "atol", "rtol", "ulp", "equal_nan"}
_ADD_JOB = "add --job to compare A with the right output of a job, or --on cpu to run INPUT and LENGTHS there"


def _parse_tolerance(text: str) -> float:
    """A finite number of at least 0; UsageError for other text."""
    with contextlib.suppress(ValueError):
        if 0 <= (number := float(text)) < math.inf:
            return number
    raise UsageError(f"{text[:40]!r} is not a number of at least 0")


_TOLERANCE = options.Parsed("number", _parse_tolerance)


@base.command(
    "diff",
    examples=(
        'revseq diff "[1, 2]" "[1, 2.0000001]" --rtol 1e-6',
        'revseq diff "[[2, 1, 3]]" --job "[[1, 2, 3]]" "[[2]]" --axis 1',
    ),
)
@click.argument("tensors", metavar="A B", nargs=-1)
@Group.COMPARE.option(
    "--job", "is_job", is_flag=True, help="Compare A with the right output of a job: A --job INPUT [LENGTHS]."
)
@Group.COMPARE.option(
    "--on", metavar="PROVIDER",
    help="Compare what the job gives in ONNX Runtime on this provider: cpu, directml, or any other that is installed.",
)  # fmt: skip
@Group.COMPARE.option(
    "--atol", type=_TOLERANCE, help="The absolute tolerance. Elements are equal if |A - B| <= atol + rtol * |B|."
)
@Group.COMPARE.option("--rtol", type=_TOLERANCE, help="The relative tolerance, a factor of |B|.")
@Group.COMPARE.option(
    "--ulp", type=click.IntRange(0, _MOST_STEPS), metavar="N",
    help="Accept up to N steps of the data type between equal elements. Infinity follows the largest number.",
)  # fmt: skip
@Group.COMPARE.option("--equal-nan", is_flag=True, help="Treat all NaNs as equal. Values are compared, not bits.")
@Group.COMPARE.option(
    "--first", type=click.IntRange(0, _MOST_SHOWN), default=10, show_default=True, metavar="N",
    help="The largest number of differences to show.",
)  # fmt: skip
@options.picture_option
@Group.WRITE.option("--overwrite", is_flag=True, help="Replace the picture if it exists.")
@options.level_option
@options.job_settings
@options.format_of("a file, if its first bytes and its suffix do not show it")
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
    """Compare two tensors, each in any format, and show where they differ.

    Name A and B as in revseq run. x.txt::InputTensor is one of several tensors in a text. A and B are equal if they
    have the same data type, the same sizes, and the same bits in every element: a NaN equals only a NaN with the same
    bits, and -0.0 differs from 0.0. Byte order and memory order do not matter.

    With --job, the command compares A with the output that revseq run would write: revseq diff A --job INPUT LENGTHS
    --axis N. It computes the right elements block by block. The report says which lines are wrong, what stands there in
    place of what is right, and which mistake explains that: in lengths, in places, or in values. A small A may also be
    the right output transposed, flattened, with other sizes of 1, cut to the longest length, or in another data type;
    the command then undoes that and reports it as a mistake.

    The job may come from a ReverseSequence node of an ONNX model: A --job model.onnx::node --feed x=x.npy.

    With --on, A is the result of the job in ONNX Runtime, as ReverseSequence, in memory: revseq diff --on cpu INPUT
    LENGTHS --axis N. directml is on Windows, with the package onnxruntime-directml.

    With --atol, --rtol, --ulp or --equal-nan, the command compares values: -0.0 equals 0.0, and a NaN equals nothing,
    or every NaN with --equal-nan. Elements are equal if they are within --atol and --rtol, as in numpy.isclose, with
    floats in FLOAT64 and integers exact, or if they are at most --ulp steps of their data type apart. Data type and
    sizes must be the same.

    The exit status is 0 if the tensors are equal, 1 if they differ, and 2 if an error stopped the command.
    """
    from revseq_cli.report import objects, tables  # --help must not load NumPy

    _require_tensors(tensors, settings, is_job=is_job, on=on)
    tolerance = _tolerance(settings)
    sides = (
        _opened_job(tensors, settings, on, resources) if is_job or on else _opened_tensors(tensors, settings, resources)
    )
    drawing = _Drawing(picture, overwrite) if picture else None
    comparison = _compared(sides, tolerance, max(first, 1), drawing, resources)
    if comparison.differences:
        comparison = comparison._replace(differences=comparison.differences.limited(first))
    console.note(*comparison.notes)
    if console.as_json or not console.quiet:
        click.echo((objects if console.as_json else tables).diff(comparison))
    return 0 if comparison.equal else 1


class _Sides(NamedTuple):
    """What is compared: A, or the output of a provider, and B, or what is right for a job."""

    a: Source
    b: Source
    job: Job | None = None


class _Drawing(NamedTuple):
    """The picture that is asked for."""

    path: str
    overwrite: bool


def _require_tensors(tensors: Sequence[str], settings: dict[str, Any], *, is_job: bool, on: str | None) -> None:
    """UsageError for too few or too many tensors, and for options of a job without --job or --on."""
    of_job = base.typed(*settings.keys() - _OF_TENSORS)
    wanted = "A B, or A --job INPUT LENGTHS, or --on WHERE INPUT LENGTHS, where INPUT may be a complete job"
    if is_job and on:
        raise UsageError("--on computes A, and --job reads it from a file", wanted, "leave out --job")
    if of_job and not (is_job or on):
        raise UsageError(f"{of_job} applies only to a job", wanted, _ADD_JOB)
    least, most = (1, 2) if on else (2, 2 + is_job)
    if not least <= len(tensors) <= most:
        number = f"{len(tensors)} tensor{'s are' if len(tensors) != 1 else ' is'} given"
        raise UsageError(number, wanted, _ADD_JOB if len(tensors) == 3 and not (is_job or on) else "")
    from revseq_cli.formats.references import Reference, refuse_shared  # --help must not load NumPy

    names = ("INPUT", "LENGTHS") if on else ("A", "INPUT", "LENGTHS") if is_job else ("A", "B")
    refuse_shared([(name, Reference.input(typed)) for name, typed in zip(names, tensors, strict=False)])


def _opened_tensors(tensors: Sequence[str], settings: dict[str, Any], resources: Resources) -> _Sides:
    """A and B; a raw buffer of which nothing is said is like the other."""
    from revseq_cli.formats.references import Reference
    from revseq_cli.pipeline import jobs

    opening = {name: settings[name] for name in ("dtype", "format_name")} | {"absolute": resources.elsewhere}
    references = [Reference.input(text, settings["format_name"]) for text in tensors]
    jobs.refuse_sizes(references, settings["sizes"])

    def load(i: int, like: TensorDesc | None) -> Source:
        sizes = settings["sizes"] if references[i].is_bare else None
        request = options.request_of(input=tensors[i], sizes=sizes, **opening)
        lenient = references[1 - i].is_bare and not references[i].is_bare
        return jobs.load_tensor(request, "AB"[i], like=like, lenient=lenient)

    if references[1].is_bare:
        a = load(0, None)
        return _Sides(a, load(1, a.desc))
    b = load(1, None)
    return _Sides(load(0, b.desc), b)


def _opened_job(tensors: Sequence[str], settings: dict[str, Any], on: str | None, resources: Resources) -> _Sides:
    """The job of INPUT and LENGTHS, which its feature level accepts, with A, or what a provider makes of the job."""
    from revseq_cli.formats.references import Reference
    from revseq_cli.pipeline import jobs
    from revseq_cli.porting import backends

    reading = {name: settings[name] for name in ("dtype", "format_name")}
    of_job = {name: value for name, value in settings.items() if name not in _OF_TENSORS}
    values, *rest = tensors[0 if on else 1 :]
    reference = Reference.input(values, settings["format_name"])
    jobs.refuse_sizes([reference, Reference.input(tensors[0], settings["format_name"])], settings["sizes"])
    sizes = settings["sizes"] if reference.is_bare else None
    request = options.request_of(
        input=values, lengths=rest[0] if rest else None, sizes=sizes, absolute=resources.elsewhere, **reading, **of_job
    )
    job = jobs.load(request)
    jobs.require(job)
    if on:
        return _Sides(backends.computed(job, on, resources.memory), job.values, job)
    sizes = None if reference.is_bare or not Reference.input(tensors[0]).is_bare else settings["sizes"]
    a = options.request_of(input=tensors[0], sizes=sizes, absolute=resources.elsewhere, **reading)
    return _Sides(jobs.load_tensor(a, "A", like=job.values.desc), job.values, job)


def _tolerance(settings: dict[str, Any]) -> Tolerance | None:
    """The tolerance, or None to compare bits."""
    from revseq_cli.pipeline.comparison import Tolerance

    atol, rtol, ulp, equal_nan = (settings[name] for name in ("atol", "rtol", "ulp", "equal_nan"))
    return Tolerance.asked(atol, rtol, ulp, equal_nan=equal_nan)


def _compared(
    sides: _Sides, tolerance: Tolerance | None, first: int, drawing: _Drawing | None, resources: Resources
) -> Comparison:  # fmt: skip
    """Compare, look for mistakes, and draw the picture; TensorIOError where a file has changed meanwhile."""
    from revseq_cli.core import signals
    from revseq_cli.formats.atomic_file import FileTransaction
    from revseq_cli.pipeline import comparison, summaries
    from revseq_cli.porting import diagnose as porting
    from revseq_cli.report.objects import Comparison

    a, b, job = sides
    notes = [*a.notes, *(job or b).notes]
    if job:
        notes += job.clamping(summaries.count_lengths(job, resources).clamped)
    axis, undone, like = job.axis if job else None, "", a
    if job:
        undone, like, job = porting.reading(a, job, tolerance, resources.memory)
        b = job.values
    if like.desc != b.desc:
        if drawing:
            notes.append("no picture is drawn: the tensors differ in sizes or data types")
        return Comparison(a, b, None, axis, notes=notes)
    file = None
    if drawing:
        inputs = [*a.files, *(job or b).files]
        file = options.new_picture(drawing.path, inputs, overwrite=drawing.overwrite)
    opened = porting.opened(like, job, resources) if job else comparison.opened(like, b, resources)
    with signals.deferred(), opened as pair:
        found = comparison.compared("compare", pair, tolerance, first)
        why = porting.diagnose(pair, pair.job, found, tolerance, resources.memory, undone) if pair.job else None
        svg = _picture(pair, f"{found.count:,} of {found.total:,} elements differ", tolerance) if file else ""
        a.recheck()
        (job or b).recheck()
    if file:
        with FileTransaction(file) as together:
            file.write(svg.encode())
        notes += together.notes
    hint = f"the differences are as small as rounding: add {found.wider}" if found.wider else ""
    if hint.endswith("add --equal-nan"):
        hint = "add --equal-nan to treat all NaNs as equal"
    return Comparison(a, pair.right, found, axis, why, hint, notes)


def _picture(pair: Pair, title: str, tolerance: Tolerance | None) -> str:
    """Both tensors, with what differs marked."""
    from revseq_cli.pipeline.comparison import unequal
    from revseq_cli.report import picture

    def mask(region: Region) -> NDArray[Any]:
        return unequal(pair.a.read_task(region).read(), pair.right.read_task(region).read(), tolerance)

    tensors = (("A", pair.a), ("right" if pair.job else "B", pair.right))
    axis, lengths = (pair.job.axis, pair.job.lengths) if pair.job else (None, None)
    return picture.of_differences(tensors, title, axis, lengths, mask)
