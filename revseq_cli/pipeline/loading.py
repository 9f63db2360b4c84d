"""From a request to a job: the tensors are opened, and the constraints are checked."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from revseq_cli.core.errors import RevseqError
from revseq_cli.core.tensors import in_braces
from revseq_cli.formats.contract import Source
from revseq_cli.operator.spec import (
    LENGTHS,
    Constraint,
    FeatureLevel,
    SpecError,
    lengths_sizes,
    violations,
)
from revseq_cli.pipeline.alignment import describe_count
from revseq_cli.pipeline.blocks import drop_axis
from revseq_cli.pipeline.inputs import open_tensors
from revseq_cli.pipeline.jobs import Job, make_axis_error, make_job
from revseq_cli.pipeline.request import Request


def load_job(request: Request) -> Job:
    """Open a job and check its constraints at its level; SpecError with all that it violates."""
    job = open_job(request)
    require_valid(job, request.level)
    return job


def open_job(request: Request) -> Job:
    """Open a job without checking its constraints: headers are read, and texts are read whole."""
    values, lengths, request = open_tensors(request)
    return make_with_hint(values, lengths, request)


def make_with_hint(values: Source, lengths: Source | None, request: Request) -> Job:
    """The job of two open tensors; an error for what is not a job has a hint, if anything helps."""
    try:
        return make_job(values, lengths, request)
    except RevseqError as e:
        if lengths and not e.hint:
            from revseq_cli.pipeline.suggest import find_hint  # most jobs are valid

            e.set_hint(find_hint(values, lengths, request))
        raise


def require_valid(job: Job, level: FeatureLevel) -> None:
    """SpecError with all constraints that the job violates at this level."""
    broken = violations(*job.descs, level)
    if not broken:
        return
    from revseq_cli.pipeline.suggest import find_job_hint  # most jobs are valid

    hint = find_job_hint(job)
    misfit = describe_misfit(job, broken, hint)
    errors = [misfit] if misfit else []
    raise SpecError(broken, job.names, hint, errors)


def describe_misfit(job: Job, broken: Sequence[Constraint], hint: str = "") -> RevseqError | None:
    """All violations as one error, if they only say that the axis or the lengths do not fit."""
    if not broken or not all(map(_is_about_fit, broken)):
        return None
    values = job.values
    if not 0 <= job.axis < len(values.sizes):
        return make_axis_error(values, job.axis, hint)
    full = lengths_sizes(values.sizes, job.axis)
    without_axis = drop_axis(values.sizes, job.axis)
    shapes = in_braces(full)
    if without_axis:
        shapes += f" or {in_braces(without_axis)}"
    expected = (
        f"{prod(full):,}, one for each sequence along axis {job.axis} of {values.name}: {shapes}"
    )
    if not hint:
        expected += _list_batch_axes(job)
    return RevseqError(describe_count(job.lengths), expected, hint, job.lengths.name)


def _is_about_fit(constraint: Constraint) -> bool:
    """Whether it says that the axis is in range, or that the lengths match the values."""
    if constraint.property == "Axis":
        return True
    return constraint.matching and constraint.tensor == LENGTHS


def _list_batch_axes(job: Job) -> str:
    """How many lengths there would be with each batch axis; "" if the user already typed one."""
    request = job.request
    sizes = job.values.sizes
    if request is None or request.batch_axis is not None:
        return ""
    if len(sizes) < 3:
        return ""
    text = ""
    for d, size in enumerate(sizes):
        if d != job.axis:
            text += f"; {size:,} with {request.option('--batch-axis', str(d))}"
    return text
