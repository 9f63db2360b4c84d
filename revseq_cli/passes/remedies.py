"""Settings that make a job of two tensors: which axes their sizes allow, and whether lengths would be clamped.

A job that is refused, or lacks its axis, gets these as its hint. Each choice has passed the constraints of the feature
level, so that typing it makes a job that runs; what it means is said, so that it makes the one that the user wants.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from revseq_cli.ground.errors import Choice, Choices, FormatError, RevseqError, Settings
from revseq_cli.ground.tensors import DataType
from revseq_cli.operator.spec import FeatureLevel, support, violations
from revseq_cli.passes import folds
from revseq_cli.passes.assembly import assemble
from revseq_cli.passes.casts import CastSource

if TYPE_CHECKING:
    from revseq_cli.passes.assembly import Parts
    from revseq_cli.passes.folds import Span


class Fit(NamedTuple):
    """An axis, and for lengths of rank 1 a batch axis, that sizes allow."""

    axis: int
    batch_axis: int | None


def fits(values: tuple[int, ...], lengths: tuple[int, ...]) -> list[Fit]:
    """Every axis for which lengths of these sizes fit values of these sizes, and the batch axis where they need one."""
    rank = len(values)
    if len(lengths) == rank:
        return [Fit(axis, None) for axis in range(rank) if lengths == (*values[:axis], 1, *values[axis + 1 :])]
    if len(lengths) != 1:
        return []
    batches = [axis for axis in range(rank) if values[axis] == lengths[0]]
    return [Fit(axis, batch) for axis in range(rank) for batch in batches if batch != axis]


def choices(parts: Parts) -> Choices | None:
    """What to type for these tensors; None where nothing makes them a job.

    None, too, where the axes and the data type of the lengths are right: each constraint of the level has its own hint.
    The axes that the request names are kept, unless others clamp no length, and these do. Choices that clamp nothing
    come first, and of these the ones that change least of what the request names.
    """
    values, lengths, request = parts
    found = fits(values.sizes, lengths.sizes)
    if not found or not values.desc.element_count:
        return None
    try:
        whole = CastSource(lengths, DataType.UINT64)
        span = folds.span_of_lengths(whole, sorted({values.sizes[fit.axis] for fit in found}))
    except FormatError:  # a length that is negative or no integer, which no setting makes right
        return None
    asked = [_from_start(each, len(values.sizes)) for each in (request.axis, request.batch_axis)]

    def changed(fit: Fit) -> int:
        return sum(each not in (None, own) for each, own in zip(asked, fit, strict=True))

    def clamps(fit: Fit) -> bool:
        return span.above[values.sizes[fit.axis]] > 0

    kept = [fit for fit in found if not changed(fit)]
    if kept and (None not in asked or not all(map(clamps, kept))):
        found = kept
    found.sort(key=lambda fit: (clamps(fit), changed(fit)))
    doubtful = len(found) > 1 or clamps(found[0]) or (request.axis, request.batch_axis) != found[0]
    made = [(fit, _settings(parts, fit, span.greatest)) for fit in found]
    options = tuple(
        Choice(settings, _meaning(parts, fit, span), _axes(fit)) if doubtful else Choice(settings)
        for fit, settings in made
        if {name for name, _ in settings} & {"axis", "batch_axis", "lengths_dtype"}
    )
    return Choices(options) if options else None


def _axes(fit: Fit) -> Settings:
    return tuple((name, str(axis)) for name, axis in fit._asdict().items() if axis is not None)


def _from_start(axis: int | None, rank: int) -> int | None:
    """An axis that may be counted from the end, which is what somebody means who types a negative one."""
    return axis + rank if axis is not None and -rank <= axis < 0 else axis


def _meaning(parts: Parts, fit: Fit, span: Span) -> str:
    """What the axes make of the lengths: how many of what size, and which are clamped."""
    total, size = parts.lengths.desc.element_count, parts.values.sizes[fit.axis]
    what = f"{'line' if fit.batch_axis is None else 'sequence'}{'s' * (total != 1)}"
    above, noun = span.above[size], f"length{'s' * (total != 1)}"
    lengths = f"{above:,} of {total:,} {noun} above {size:,}" if above else f"{noun} {span}"
    return f"{total:,} {what} of {'' if fit.batch_axis is None else 'up to '}{size:,}, {lengths}"


def _settings(parts: Parts, fit: Fit, greatest: int) -> Settings:
    """The settings to change that make the job, as few as possible; none where nothing does.

    A higher level is one of them, but not to leave DirectML: the constraints have a hint at that.
    """
    request, rank = parts.request, len(parts.values.sizes)
    for level in (each for each in FeatureLevel if each >= request.level):
        for changed_rank, cast in itertools.product(_ranks(rank, request.rank, level), _casts(parts, greatest)):
            asked = replace(
                request, axis=fit.axis, batch_axis=fit.batch_axis, lengths_dtype=cast, rank=changed_rank, level=level
            )
            if _works(parts._replace(request=asked)):
                return (
                    *((name, value) for name, value in _axes(fit) if value != str(getattr(request, name))),
                    *[("batch_axis", "")] * (fit.batch_axis is None and request.batch_axis is not None),
                    *[("lengths_dtype", each.name) for each in [cast] if each and each is not request.cast],
                    *[("rank", str(changed_rank))] * (changed_rank != request.rank),
                    *[("feature_level", level.short)] * (level not in (request.level, FeatureLevel.NONE)),
                )
    return ()


def _works(parts: Parts) -> bool:
    """Whether the parts make a job that breaks no constraint."""
    try:
        job = assemble(parts)
    except RevseqError:
        return False
    return not violations(job.values.desc, job.lengths.desc, job.axis, parts.request.level)


def _ranks(rank: int, asked: int | None, level: FeatureLevel) -> list[int | None]:
    """The dimension counts to try: as asked, or as it is, then the nearest that the level has."""
    row = support(level)
    return [asked, min(max(rank, row.dimension_counts[0]), row.dimension_counts[-1])] if row else [asked]


def _casts(parts: Parts, greatest: int) -> list[DataType | None]:
    """The data types to try for the lengths: as asked, or as they are, then the unsigned ones that hold them all."""
    return [
        parts.request.lengths_dtype,
        *(each for each in (DataType.UINT32, DataType.UINT64) if greatest < 1 << 8 * each.size),
    ]
