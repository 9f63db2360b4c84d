"""`revseq diff`: how two tensors differ, or a tensor and what is right for a job, in bits or beyond a tolerance."""

from __future__ import annotations

import contextlib
import math
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from revseq_cli.commands import base, options, pictures
from revseq_cli.commands.base import Group
from revseq_cli.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from contextlib import AbstractContextManager

    from revseq_cli.commands.base import Console
    from revseq_cli.core.tensors import TensorDesc
    from revseq_cli.formats.atomic_file import AtomicFile
    from revseq_cli.formats.contract import Source
    from revseq_cli.pipeline.assembly import Job
    from revseq_cli.pipeline.comparison import Differences, Pair, Tolerance
    from revseq_cli.pipeline.plan import Resources
    from revseq_cli.report.results import Comparison

_MOST_SHOWN = 100_000
_MOST_STEPS = (1 << 64) - 1
# What settings say of tensors, with and without a job.
_OF_TENSORS = {"dtype", "format_name", "sizes", "rank", "atol", "rtol", "ulp", "equal_nan"}
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
@Group.PRINT.option(
    "--picture", metavar="FILE.svg", type=click.Path(),
    help="Also draw both tensors in this new SVG file, with the differences marked, and the axis of a job.",
)  # fmt: skip
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
    --axis N. It computes the right elements block by block. The report says how many lines are wrong, whether the
    errors lie inside the reversed part or behind it, and which mistake explains A: in lengths, in places, in values, or
    in parts that were not computed. A may also be the right output transposed, flattened, with other sizes of 1, cut to
    the longest length, or as UINT8 instead of INT8; the command then undoes that and reports it as a mistake.

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

    _require_tensors(tensors, _job_settings(settings), is_job=is_job, on=on)
    drawing = _Drawing(picture, overwrite) if picture is not None else None
    ways = _Ways(is_job or bool(on), on, max(first, 1), drawing)
    comparison = _judged(tensors, settings, ways, resources, console)
    if comparison.differences:
        comparison = comparison._replace(differences=comparison.differences.limited(first))
    console.note(*comparison.notes)
    if console.as_json or not console.quiet:
        click.echo((objects if console.as_json else tables).diff(comparison))
    return 0 if comparison.equal else 1


class _Drawing(NamedTuple):
    """The picture that is asked for."""

    path: str
    overwrite: bool


class _Ways(NamedTuple):
    """How A comes to be and is compared: with the output of a job, computed by a provider, and drawn."""

    of_job: bool = True
    on: str | None = None
    first: int = 1
    drawing: _Drawing | None = None


def _job_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Those that are about a job alone."""
    return {name: value for name, value in settings.items() if name not in _OF_TENSORS}


def _judged(
    tensors: Sequence[str], settings: dict[str, Any], ways: _Ways, resources: Resources, console: Console
) -> Comparison:
    """Compare A with B, or with the right output of a job."""
    from revseq_cli.formats.references import Reference
    from revseq_cli.pipeline import jobs, summaries
    from revseq_cli.pipeline.assembly import Job
    from revseq_cli.report.results import Comparison

    job_settings = _job_settings(settings)
    opening = {name: settings[name] for name in ("dtype", "format_name", "rank")} | {"absolute": resources.elsewhere}
    described: dict[str, Any] = {"sizes": settings["sizes"]}
    named = [Reference.input(each, settings["format_name"]) for each in tensors[:2]]
    jobs.refuse_sizes(named, settings["sizes"])
    # Both are those of INPUT, or else of A and B.
    bare = [{**opening, **(described if each.is_bare else {})} for each in named]
    job = None
    if ways.of_job:
        first = 0 if ways.on else 1  # of the tensors of the job
        job = _job(tensors[first:], bare[first] | job_settings)
        bare[0] = opening if named[first].is_bare else bare[0]
    a, right = _sides(tensors, bare, job, ways.on, resources)
    tolerance = _tolerance(settings)
    told, read, right = _reading(a, right, resources, tolerance)
    b = right.values if isinstance(right, Job) else right
    drawn = None
    if ways.drawing:
        path, overwrite = ways.drawing
        file = pictures.new_file(path, [*a.files, *right.files], overwrite=overwrite)
        drawn = partial(_draw, file, job, console)
    hint = _hint(a.desc, b.desc)
    if read.desc == b.desc:
        pair = _opened(read, right, resources)
        comparison = _compare(pair, (a, right), tolerance, ways.first, drawn)
        comparison = comparison.of_reading(told, a, "" if a.sizes == b.sizes else hint) if told else comparison
    else:
        comparison = Comparison(a, b, None, hint=hint)
        if ways.drawing:
            console.note("no picture is drawn: the tensors differ in sizes or data types")
    clamped = summaries.count_lengths(job, resources).clamped if job else 0
    clamping = job.clamping(clamped) if job else ()
    notes = (*a.notes, *right.notes, *clamping, *([f"A is read as follows: {told}"] if told else []))
    return comparison._replace(axis=job.axis if job else None, notes=notes)


def _job(tensors: Sequence[str], settings: dict[str, Any]) -> Job:
    """The job of INPUT and perhaps LENGTHS, which its feature level accepts."""
    from revseq_cli.pipeline import jobs

    values, lengths = (*tensors, None)[:2]
    job = jobs.load(options.request_of(input=values, lengths=lengths, **settings))
    jobs.require(job)
    return job


def _sides(
    tensors: Sequence[str], opening: Sequence[dict[str, Any]], job: Job | None, on: str | None, resources: Resources
) -> tuple[Source, Source | Job]:
    """A, or what a provider makes of the job; and what it is compared with: B, or the job."""
    from revseq_cli.pipeline import jobs
    from revseq_cli.porting import backends

    def loaded(i: int, like: TensorDesc | None = None) -> Source:
        lenient = not job and "sizes" in opening[1 - i] and "sizes" not in opening[i]
        request = options.request_of(input=tensors[i], **opening[i])
        return jobs.load_tensor(request, "AB"[i], like=like, lenient=lenient)

    if job:
        return backends.computed(job, on, resources.memory) if on else loaded(0, job.values.desc), job
    if "sizes" in opening[1]:  # B is a raw buffer
        a = loaded(0)
        return a, loaded(1, a.desc)
    b = loaded(1)
    return loaded(0, b.desc), b


def _hint(a: TensorDesc, b: TensorDesc) -> str:
    """The option that makes these tensors comparable, or "" if none does."""
    longer, shorter = sorted((a.sizes, b.sizes), key=len, reverse=True)
    if len(longer) == len(shorter) or longer != (1,) * (len(longer) - len(shorter)) + shorter:
        return ""
    return f"add --rank {len(b.sizes)}"  # the other tensor, or the job, stays as it is


def _reading(
    a: Source, right: Source | Job, resources: Resources, tolerance: Tolerance | None
) -> tuple[str, Source, Source | Job]:
    """What was done to A, if it can be read as a job's output, A as it was, and what it is compared with."""
    from revseq_cli.pipeline.assembly import Job
    from revseq_cli.porting import diagnosis

    return diagnosis.nearest_reading(a, right, resources, tolerance) if isinstance(right, Job) else ("", a, right)


def _require_tensors(tensors: Sequence[str], settings: Collection[str], *, is_job: bool, on: str | None) -> None:
    """UsageError for too few or too many tensors, and for options of a job without --job or --on."""
    given = base.typed(*settings)
    wanted = "A B, or A --job INPUT LENGTHS, or --on WHERE INPUT LENGTHS, where INPUT may be a complete job"
    if is_job and on:
        raise UsageError("--on computes A, and --job reads it from a file", wanted, "leave out --job")
    if given and not (is_job or on):
        raise UsageError(f"{given} applies only to a job", wanted, _ADD_JOB)
    least, most = (1, 2) if on else (2, 2 + is_job)
    if not least <= len(tensors) <= most:
        number = f"{len(tensors)} tensor{'s are' if len(tensors) != 1 else ' is'} given"
        raise UsageError(number, wanted, _ADD_JOB if len(tensors) == 3 and not (is_job or on) else "")
    from revseq_cli.formats.references import Reference, refuse_shared  # --help must not load NumPy

    names = ("INPUT", "LENGTHS") if on else ("A", "INPUT", "LENGTHS") if is_job else ("A", "B")
    refuse_shared([(name, Reference.input(each)) for name, each in zip(names, tensors, strict=False)])


def _tolerance(settings: dict[str, Any]) -> Tolerance | None:
    """The tolerance, or None to compare bits."""
    from revseq_cli.pipeline.comparison import Tolerance

    atol, rtol, ulp, equal_nan = (settings[name] for name in ("atol", "rtol", "ulp", "equal_nan"))
    return Tolerance.asked(atol, rtol, ulp, equal_nan=equal_nan)


def _opened(a: Source, b: Source | Job, resources: Resources) -> AbstractContextManager[Pair]:
    """The pass that compares `a` with `b`, or with the output of a job."""
    from revseq_cli.pipeline import comparison
    from revseq_cli.pipeline.assembly import Job
    from revseq_cli.porting import diagnosis

    return diagnosis.opened(a, b, resources) if isinstance(b, Job) else comparison.opened(a, b, resources)


def _compare(
    opened: AbstractContextManager[Pair],
    compared: Sequence[Source | Job],
    tolerance: Tolerance | None,
    first: int,
    drawn: Callable[[Pair, int, int, Tolerance | None], AbstractContextManager[None]] | None,
) -> Comparison:
    """Compare, look for mistakes, and draw the picture; TensorIOError where one of the `compared` has changed."""
    from revseq_cli.core import signals
    from revseq_cli.pipeline.comparison import NO_DIAGNOSIS
    from revseq_cli.report.results import Comparison

    with signals.deferred(), opened as pair:
        found = pair.compare(tolerance, first)
        why = pair.diagnosis(found, tolerance) if found.count else NO_DIAGNOSIS
        with drawn(pair, found.count, found.total, tolerance) if drawn else contextlib.nullcontext():
            for each in compared:
                each.recheck()
        hint = _tolerance_hint(pair, found, tolerance) if found.count else ""
        return Comparison(pair.a, pair.right, found.limited(first), None, why, hint)


def _tolerance_hint(pair: Pair, found: Differences, tolerance: Tolerance | None) -> str:
    """The options with which they are equal, if all that differs is as small as rounding; or that every NaN is one."""
    from revseq_cli.pipeline.comparison import Tolerance, rounding_of

    nans = " --equal-nan" if found.nans else ""
    if rtol := rounding_of(found):
        given = tolerance or Tolerance()
        wider = given._replace(relative=rtol, equal_nan=given.equal_nan or bool(nans))
        if not pair.compare(wider, 1).count:
            return f"the differences are as small as rounding: add --rtol {rtol:g}{nans}"
    return f"add{nans} to treat all NaNs as equal" if nans else ""


@contextlib.contextmanager
def _draw(
    file: AtomicFile, job: Job | None, console: Console, pair: Pair, count: int, total: int,
    tolerance: Tolerance | None,
) -> Iterator[None]:  # fmt: skip
    """Draw both tensors, and write the picture if nothing fails inside."""
    from revseq_cli.formats.atomic_file import FileTransaction
    from revseq_cli.pipeline.comparison import differing
    from revseq_cli.report import picture

    title = f"{count:,} of {total:,} elements differ"
    mask = differing(pair.a, pair.right, tolerance)
    tensors = (("A", pair.a), (pair.label, pair.right))
    axis, lengths = (job.axis, job.lengths) if job else (None, None)
    drawn = picture.of_differences(tensors, title, axis, lengths, mask)
    yield
    with FileTransaction(file) as together:
        file.write(drawn.encode())
    console.note(*together.notes)
