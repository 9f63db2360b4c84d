"""Settings that make a job of two tensors: which axes their sizes allow, and whether lengths would be clamped.

A job that is refused, or lacks its axis, gets these as its hint. Each choice has passed the constraints of the feature
level, so that typing it makes a job that runs; what it means is said, so that it makes the one that the user wants.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from revseq_cli.formats.held import HeldSource
from revseq_cli.ground.errors import Choice, Choices, FormatError, RevseqError, Settings
from revseq_cli.ground.tensors import DataType, braced
from revseq_cli.operator.spec import FeatureLevel, support, violations
from revseq_cli.passes import folds
from revseq_cli.passes.assembly import assemble, from_start, require_system
from revseq_cli.passes.casts import CastSource

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def choices(parts: Parts) -> Choices | str:
    """What to type for these tensors; or why nothing can be typed, as far as that can be said.

    The axes that the request names are kept, unless others clamp fewer lengths. The choices that clamp least come
    first, and of these the ones that change least of what the request names.
    """
    values, lengths, _ = parts
    found = fits(values.sizes, lengths.sizes)
    if not found:
        return _other_sizes(values.sizes, lengths.sizes)
    if len(lengths.sizes) == 1 and not lengths.reads_anywhere:  # or each job that is tried would decode its chunks
        parts = parts._replace(lengths=HeldSource.of(lengths))
    span = _span(parts, sorted({values.sizes[fit.axis] for fit in found}))
    if isinstance(span, str):
        return span
    asked = [each and from_start(each, len(values.sizes)) for each in (parts.axis, parts.batch_axis)]

    def changed(fit: Fit) -> int:
        return sum(each not in (None, own) for each, own in zip(asked, fit, strict=True))

    def clamped(fit: Fit) -> int:
        return span.above[values.sizes[fit.axis]]

    # Along an axis of size 1 nothing is reversed.
    found = [fit for fit in found if values.sizes[fit.axis] > 1] or found
    kept = [fit for fit in found if not changed(fit)]
    if kept and (None not in asked or not all(map(clamped, kept))):
        found = kept
    found.sort(key=lambda fit: (clamped(fit), changed(fit)))
    options = [(fit, _settings(parts, fit, span.greatest)) for fit in found]
    options = [(fit, settings) for fit, settings in options if settings]
    if not options:
        return ""
    doubtful = len(options) > 1 or clamped(options[0][0]) or (parts.axis, parts.batch_axis) != options[0][0]
    return Choices(
        tuple(
            Choice(settings, _meaning(parts, fit, span), _axes(fit)) if doubtful else Choice(settings)
            for fit, settings in options
        ),
        sure=len(options) == 1 or not clamped(options[0][0]),
    )


def _span(parts: Parts, sizes: Sequence[int]) -> Span | str:
    """The span of the lengths, held against these axis sizes; or why they cannot be lengths."""
    lengths = parts.lengths
    if lengths.desc.data_type.kind == "bool":
        return f"{lengths.name} is a mask: the sum along its axis gives lengths"
    if not parts.values.desc.element_count:
        return ""
    try:
        return folds.span_of_lengths(CastSource(lengths, DataType.UINT64), sizes)
    except FormatError as e:  # negative, or no integer
        return f"no setting turns {lengths.name} into lengths: {e.found}"
    except RevseqError:  # it is told when the job runs
        return ""


def _other_sizes(values: tuple[int, ...], lengths: tuple[int, ...]) -> str:
    """How to reshape lengths that would fit but for their sizes of 1; "" where nothing would."""
    without = tuple(size for size in lengths if size != 1)
    for axis in range(len(values)):
        full = (*values[:axis], 1, *values[axis + 1 :])
        if without == tuple(size for size in full if size != 1):
            return f"lengths of these sizes would fit as {braced(full)}: numpy's lengths.reshape{full}"
    if len(without) == 1 and without[0] in values and len(values) > 1:
        return f"lengths of these sizes would fit as {braced(without)}: numpy's lengths.reshape({without[0]})"
    return ""


def _axes(fit: Fit) -> Settings:
    return tuple((name, str(axis)) for name, axis in fit._asdict().items() if axis is not None)


def _meaning(parts: Parts, fit: Fit, span: Span) -> str:
    """What the axes make of the lengths: how many of what size, and which are clamped."""
    total, size = parts.lengths.desc.element_count, parts.values.sizes[fit.axis]
    what = f"{'line' if fit.batch_axis is None else 'sequence'}{'s' * (total != 1)}"
    above, noun = span.above[size], f"length{'s' * (total != 1)}"
    lengths = f"{above:,} of {total:,} {noun} above {size:,}" if above else f"{noun} {span}"
    left = [
        f", in place of {name.replace('_', ' ')} {asked}"
        for name, own in fit._asdict().items()
        if (asked := getattr(parts, name)) is not None and own != from_start(asked, len(parts.values.sizes))
    ]
    return f"{total:,} {what} of {'' if fit.batch_axis is None else 'up to '}{size:,}, {lengths}{''.join(left)}"


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
                    *((name, value) for name, value in _axes(fit) if value != str(getattr(parts, name))),
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
        require_system(job)
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
