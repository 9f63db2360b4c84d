"""`revseq diff`: how two tensors differ, or a tensor and what is right for a job, in bits or beyond a tolerance."""

from __future__ import annotations

import contextlib
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from revseq_cli.commands import base, options, pictures, values
from revseq_cli.ground.errors import Advice, UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from contextlib import AbstractContextManager

    from revseq_cli.commands.console import Console
    from revseq_cli.formats.contract import Source
    from revseq_cli.formats.storage.newfile import NewFile
    from revseq_cli.ground.tensors import DataType, TensorDesc
    from revseq_cli.passes.arrangement import Resources
    from revseq_cli.passes.assembly import Job
    from revseq_cli.passes.comparison import Pair, Tolerance
    from revseq_cli.passes.judges import Host
    from revseq_cli.report.results import Comparison

_MOST_SHOWN = 100_000
_MOST_STEPS = (1 << 64) - 1
_ADD_JOB = "add --job to compare A with what is right for a job, or --on onnxruntime to run INPUT and LENGTHS there"


def _parse_tolerance(text: str) -> float:
    """A finite number of at least 0; UsageError for other text."""
    with contextlib.suppress(ValueError):
        if 0 <= (number := float(text)) < math.inf:
            return number
    raise UsageError(f"{text[:40]!r} is not a number of at least 0")


_TOLERANCE = values.Parsed("number", _parse_tolerance)


@base.command(
    "diff",
    examples=(
        'revseq diff "[1, 2]" "[1, 2.0000001]" --rtol 1e-6',
        'revseq diff "[[2, 1, 3]]" --job "[[1, 2, 3]]" "[[2]]" --axis 1',
    ),
)
@click.argument("tensors", metavar="A B", nargs=-1, type=values.Tensor())
@click.option("--job", "is_job", is_flag=True, help="Compare A with the output of a job: A --job INPUT [LENGTHS].")
@options.on_option
@click.option("--atol", type=_TOLERANCE, help="The largest difference of equal elements: |A - B| <= atol + rtol * |B|.")
@click.option("--rtol", type=_TOLERANCE, help="The same as a factor of |B|.")
@click.option(
    "--ulp", type=click.IntRange(0, _MOST_STEPS), metavar="N",
    help="Elements up to N numbers of their type apart are equal; behind the largest one comes infinity.",
)  # fmt: skip
@click.option("--equal-nan", is_flag=True, help="Every NaN equals every other NaN; values are compared, not bits.")
@click.option(
    "--as", "cast", type=values.DATA_TYPE, metavar="TYPE",
    help="Cast A and B to this data type, each element exactly, or refuse.",
)  # fmt: skip
@click.option(
    "--as-printed", is_flag=True,
    help="A is a log of DxDispatch with a printed buffer; floats are compared in the six digits that it prints.",
)  # fmt: skip
@click.option(
    "--first", type=click.IntRange(0, _MOST_SHOWN), default=10, show_default=True, metavar="N",
    help="How many differences to show.",
)  # fmt: skip
@click.option(
    "--picture", metavar="FILE.svg", type=click.Path(),
    help="Also draw both tensors side by side, with the differences marked, in this new SVG file.",
)  # fmt: skip
@pictures.theme_option
@click.option("--overwrite", is_flag=True, help="Replace the picture if it exists.")
@options.level_option
@options.job_settings
@options.format_of("a file, where its first bytes and its suffix do not tell it")
@options.resource_options
@options.progress_option
@options.output_options
def command(
    tensors: tuple[str, ...],
    is_job: bool,
    on: str | None,
    atol: float | None,
    rtol: float | None,
    ulp: int | None,
    equal_nan: bool,
    cast: DataType | None,
    as_printed: bool,
    first: int,
    picture: str | None,
    theme: str,
    overwrite: bool,
    dtype: DataType | None,
    format_name: str | None,
    sizes: tuple[int, ...] | None,
    strides: tuple[int, ...] | None,
    rank: int | None,
    resources: Resources,
    console: Console,
    **job_settings: Any,
) -> int:
    """Compare two tensors, each in any format, and show where they differ.

    A and B are named as in revseq run; one of several tensors in a text is x.txt::InputTensor. They are equal if data
    type, sizes and every bit of every element are the same: a NaN equals only a NaN of the same bits, and -0.0 is not
    0.0. Byte order and memory order do not matter.

    With --job, A is compared with what revseq run would write: revseq diff A --job INPUT LENGTHS --axis N. The right
    elements are computed block by block. The report says in how many lines A is wrong, whether inside the reversed part
    or behind it, and it names each usual mistake that explains A completely: of lengths, of places in a line or in
    memory, of values, or of parts that are not done. If A is what is right transposed, flattened, with other
    sizes of 1, or INT8 saved as UINT8, it is compared so; that is a mistake, too.

    The job may be that of a ReverseSequence node of an ONNX model: A --job model.onnx::node --feed x=x.npy.

    With --on, the job of INPUT and LENGTHS runs as ReverseSequence in ONNX Runtime, and what that gives is A: revseq
    diff --on onnxruntime INPUT LENGTHS --axis N. onnxruntime:PROVIDER names another provider than its CPU's, and
    directml is onnxruntime:DmlExecutionProvider, on Windows. --on alone lists what this machine has.

    With --atol, --rtol, --ulp or --equal-nan, values are compared: -0.0 is 0.0, and a NaN equals nothing, or with
    --equal-nan every NaN. Elements are equal if they are as close as --atol and --rtol say, as numpy.isclose has it,
    floats in FLOAT64 and integers exactly, or if they are at most --ulp numbers of their data type apart. Data type and
    sizes must be the same.

    The exit status is 0 if the tensors are equal, 1 if they differ, and 2 for what cannot be read.
    """
    from revseq_cli.formats.references import Reference
    from revseq_cli.passes import jobs, judges, summaries  # --help must not load NumPy
    from revseq_cli.passes.assembly import Job
    from revseq_cli.report import objects, tables  # --help must not load NumPy
    from revseq_cli.report.results import Comparison

    pictures.require_drawing(theme, picture)
    if on == values.LIST and not tensors:
        return _list_judges(console)
    host = options.host_of(on)
    _require_tensors(tensors, job_settings, is_job=is_job, on=on)
    for option, given in (("--as", cast), ("--ulp", ulp), ("--on", on)):
        if as_printed and given is not None:
            found = f"--as-printed compares six digits, and {option} exact values"
            raise UsageError(found, "one of them", f"leave out {option}")
    opening = {"dtype": dtype, "format_name": format_name, "rank": rank, "absolute": resources.elsewhere}
    described: dict[str, Any] = {"sizes": sizes, "strides": strides}
    named = [Reference.input(each, format_name) for each in tensors[:2]]
    jobs.refuse_sizes(named, **described)
    # Both are those of INPUT, or else of A and B.
    bare = [{**opening, **(described if each.is_bare else {})} for each in named]
    job = None
    if is_job or on:
        job = _job(tensors[is_job:], bare[is_job] | job_settings)
        bare[0] = opening if named[is_job].is_bare else bare[0]
    a, right = _sides(tensors, bare, job, cast, host, as_printed=as_printed)
    b = right.values if isinstance(right, Job) else right
    drawing = None
    if picture is not None:
        drawing = pictures.new_file("--picture", picture, [*a.files, *right.files], overwrite=overwrite)
    tolerance, hint = _tolerance(atol, rtol, ulp, equal_nan=equal_nan), _hint(a.desc, b.desc)
    told, read = _reading(a, None if as_printed else job, resources, tolerance)
    if as_printed or read.desc == b.desc:
        pair = _opened(read, right, resources, as_printed=as_printed)
        comparison = _compare(pair, (a, right), tolerance, first, drawing, theme, console)
        comparison = comparison.of_reading(told, a, "" if a.sizes == b.sizes else hint) if told else comparison
    else:
        comparison = Comparison(a, b, None, hint=hint)
        if drawing:
            console.note("no picture is drawn: the tensors have other sizes or data types")
    clamped = summaries.count_lengths(job, resources).clamped if job else 0
    clamping = (*job.clamping(clamped), *(judges.clamping(clamped) if on else ())) if job else ()
    notes = (*a.notes, *right.notes, *clamping, *([f"A is read so: {told}"] if told else []))
    comparison = comparison._replace(axis=job.axis if job else None, notes=notes)
    console.note(*comparison.notes)
    if console.as_json or not console.quiet:
        click.echo((objects if console.as_json else tables).diff(comparison))
    return 0 if comparison.equal else 1


def _job(tensors: Sequence[str], settings: dict[str, Any]) -> Job:
    """The job of INPUT and perhaps LENGTHS, which its feature level accepts."""
    from revseq_cli.passes import jobs

    values, lengths = (*tensors, None)[:2]
    job = jobs.load(options.request_of(input=values, lengths=lengths, **settings))
    jobs.require(job)
    return job


def _sides(
    tensors: Sequence[str],
    opening: Sequence[dict[str, Any]],
    job: Job | None,
    cast: DataType | None,
    host: Host | None,
    *,
    as_printed: bool,
) -> tuple[Source, Source | Job]:
    """A, or what a judge makes of the job; and what it is compared with: B, or the job; cast if that is asked for."""
    from revseq_cli.passes import exports, jobs, judges, views

    def loaded(i: int, like: TensorDesc | None = None) -> Source:
        lenient = not job and "sizes" in opening[1 - i] and "sizes" not in opening[i]
        request = options.request_of(input=tensors[i], **opening[i])
        return asked(jobs.load_tensor(request, "AB"[i], like=like, lenient=lenient))

    def asked(source: Source) -> Source:
        return views.cast(source, cast) if cast else source

    if not job:
        if "sizes" in opening[1] and not as_printed:  # B is a raw buffer
            a = loaded(0)
            return a, loaded(1, a.desc)
        b = loaded(1)
        return exports.printed(tensors[0], b.desc) if as_printed else loaded(0, b.desc), b
    job = replace(job, values=asked(job.values))
    if host:
        return judges.JudgedOutput(job, host.judge(job)), job
    return exports.printed(tensors[0], job.values.desc) if as_printed else loaded(0, job.values.desc), job


def _list_judges(console: Console) -> int:
    """Print what --on has on this machine."""
    from revseq_cli.passes import judges
    from revseq_cli.report import objects, tables

    machine = judges.machine()
    if console.as_json or not console.quiet:
        click.echo((objects if console.as_json else tables).judges(machine))
    return 0


def _hint(a: TensorDesc, b: TensorDesc) -> str | Advice:
    """Options that make these tensors comparable, or "" if none do."""
    from revseq_cli.passes import views

    settings = {}
    if a.sizes != b.sizes:
        longer, shorter = sorted((a.sizes, b.sizes), key=len, reverse=True)
        if longer != (1,) * (len(longer) - len(shorter)) + shorter:
            return ""
        settings["rank"] = str(len(b.sizes))  # the other tensor, or the job, stays as it is
    if a.data_type is not b.data_type:
        common = views.common_type(a.data_type, b.data_type)
        if common is None:
            return ""
        settings["cast"] = common.name
    return Advice.of(f"add {' '.join('{}' for _ in settings)}", **settings)


def _reading(a: Source, job: Job | None, resources: Resources, tolerance: Tolerance | None) -> tuple[str, Source]:
    """What was done to A, if it can be read as the output, and A as it was: of several, the one that differs least."""
    from revseq_cli.passes import oracle

    found = {}
    if job and a.desc != job.values.desc:
        for told, read in oracle.readings(a, job.values.desc):
            with oracle.opened(read, job, resources) as pair:
                found[told] = pair.compare(tolerance, 1).count, read
    told = min(found, key=lambda each: found[each][0], default="")
    return told, found[told][1] if found else a


def _require_tensors(tensors: Sequence[str], settings: Collection[str], *, is_job: bool, on: str | None) -> None:
    """UsageError for too few or too many tensors, and for options of a job without --job or --on."""
    context = click.get_current_context()
    typed = context.meta[base.TYPED].keys() & {*settings}
    given = [base.long_name(each) for each in context.command.params if each.name in typed]
    wanted = "A B, or A --job INPUT LENGTHS, or --on WHERE INPUT LENGTHS, where INPUT may be a whole job"
    if is_job and on:
        raise UsageError("--on has an output in the place of A, and --job a tensor", wanted, "leave out --job")
    if given and not (is_job or on):
        raise UsageError(f"{given[0]} is about a job", wanted, _ADD_JOB)
    least, most = (1, 2) if on else (2, 2 + is_job)
    if not least <= len(tensors) <= most:
        number = f"{len(tensors)} tensor{'s are' if len(tensors) != 1 else ' is'} given"
        raise UsageError(number, wanted, _ADD_JOB if len(tensors) == 3 and not (is_job or on) else "")
    from revseq_cli.formats.references import Reference, refuse_shared  # --help must not load NumPy

    names = ("INPUT", "LENGTHS") if on else ("A", "INPUT", "LENGTHS") if is_job else ("A", "B")
    refuse_shared([(name, Reference.input(each)) for name, each in zip(names, tensors, strict=False)])


def _tolerance(atol: float | None, rtol: float | None, ulp: int | None, *, equal_nan: bool) -> Tolerance | None:
    """The tolerance, or None to compare bits."""
    from revseq_cli.passes.comparison import Tolerance

    by_value = equal_nan or any(each is not None for each in (atol, rtol, ulp))
    return Tolerance(atol or 0, rtol or 0, equal_nan, ulp or 0) if by_value else None


def _opened(a: Source, b: Source | Job, resources: Resources, *, as_printed: bool) -> AbstractContextManager[Pair]:
    """The pass that compares `a` with `b`, or with the output of a job."""
    from revseq_cli.passes import comparison, exports, judges, oracle
    from revseq_cli.passes.assembly import Job

    def seen(source: Source) -> Source:
        return exports.as_printed(source, a) if as_printed else source

    if isinstance(a, judges.JudgedOutput) and isinstance(b, Job):
        return judges.opened(a.judge, b, resources)
    if isinstance(b, Job):
        return oracle.opened(a, b, resources, seen)
    return comparison.opened(a, seen(b), resources)


def _compare(
    opened: AbstractContextManager[Pair],
    compared: Sequence[Source | Job],
    tolerance: Tolerance | None,
    first: int,
    drawing: NewFile | None,
    theme: str,
    console: Console,
) -> Comparison:
    """Compare, look for mistakes, and draw the picture; TensorIOError where one of the `compared` has changed."""
    from revseq_cli.formats.storage.newfile import Together
    from revseq_cli.ground import stopping
    from revseq_cli.passes.comparison import differing
    from revseq_cli.report import figures, svg
    from revseq_cli.report.results import Comparison

    with stopping.deferred(), opened as pair:
        found = pair.compare(tolerance, max(first, 1))
        mistakes = pair.mistakes(found, tolerance) if found.count else ()
        picture = ""
        if drawing:
            title = f"{found.count:,} of {found.total:,} elements differ"
            mask = differing(pair.a, pair.right, tolerance)
            tensors = (("A", pair.a), (pair.label, pair.right))
            picture = svg.drawn(lambda limits: figures.of_differences(tensors, title, mask, limits), theme)
        for each in compared:
            each.recheck()
        if drawing:
            with Together(drawing) as together:
                drawing.write(picture.encode())
            console.note(*together.notes)
        hint = Advice.of("add {} to take every NaN for the same", equal_nan="") if found.nans else ""
        return Comparison(pair.a, pair.right, found.limited(first), None, mistakes, hint)
