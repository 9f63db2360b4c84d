"""Settings that make a job of two tensors: which axes their sizes allow, and whether lengths would be clamped.

A job that is refused, or lacks its axis, gets these as its hint. Each choice has passed the constraints of the feature
level, so that typing it makes a job that runs; what it means is said, so that it makes the one that the user wants.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from typing import TYPE_CHECKING, NamedTuple

from revseq_cli.core import thresholds
from revseq_cli.core.errors import ON, FormatError, RevseqError, Settings, Suggestion, Suggestions
from revseq_cli.core.tensors import DataType, braced
from revseq_cli.formats.in_memory import MemorySource
from revseq_cli.operator.spec import FeatureLevel, lengths_sizes, support, violations
from revseq_cli.pipeline import summaries
from revseq_cli.pipeline.alignment import Shape, align, are_named, is_single
from revseq_cli.pipeline.assembly import asked_axes, assemble, require_system
from revseq_cli.pipeline.views import CastSource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from revseq_cli.pipeline.assembly import Parts, Request
    from revseq_cli.pipeline.summaries import Span

_TYPED_NAME = re.compile(r"[^\W\d][\w.]*")  # of a dimension; any other is named by its number


class Fit(NamedTuple):
    """An axis, and for lengths of rank 1 a batch axis, that sizes allow."""

    axis: int
    batch_axis: int | None


def fits(values: Shape, lengths: Shape, *, mask: bool = False) -> list[Fit]:
    """Every axis for which such lengths, or such a `mask`, fit the values, and the batch axis where they need one."""
    rank = len(values.sizes)
    batches: list[int | None] = [*range(rank)] if mask or len(lengths.sizes) == 1 < rank else []
    batches += [None] if mask or not batches or is_single(lengths) else []
    found = (Fit(axis, batch) for axis in range(rank) for batch in batches if axis != batch)
    return [fit for fit in found if _fits(values, lengths, fit, mask=mask)]


def _fits(values: Shape, lengths: Shape, fit: Fit, *, mask: bool) -> bool:
    """Whether the sizes and names allow it."""
    try:
        found = align(values, lengths, *fit, mask=mask)
    except FormatError:
        return False
    return bool(found) or lengths.sizes == lengths_sizes(values.sizes, fit.axis)


def go_together(parts: Parts) -> bool:
    """Whether the tensors make a job by sizes and names, with the axes that are asked for."""
    with contextlib.suppress(RevseqError):  # of names of dimensions that the values lack
        return bool(_as_asked(parts, mask=parts.request.mask))
    return False


def _as_asked(parts: Parts, *, mask: bool) -> list[Fit]:
    """Where such lengths, or such a mask, fit the values with the axes that are asked for."""
    found, asked = fits(Shape.of(parts.values), Shape.of(parts.lengths), mask=mask), asked_axes(parts)
    return [fit for fit in found if all(wanted in (None, own) for wanted, own in zip(asked, fit, strict=True))]


def choices(parts: Parts) -> Suggestions | str:
    """What to type for these tensors; or why nothing can be typed, as far as that can be said.

    The exchange of the two axes that the request names comes first. Else the axes that it names are kept, unless others
    clamp fewer lengths; the choices that clamp least come first, and of these the ones that change least. The first is
    sure if it clamps nothing, gives up no axes that fit, does not go by size against a name, and no other is as near to
    the request. Lengths that may be a mask have that among the choices, and none is sure.
    """
    values, lengths, request = parts
    is_bool = lengths.desc.data_type.kind == "bool"
    found = [] if is_bool or request.mask else fits(Shape.of(values), Shape.of(lengths))
    if not found:
        return _why_none_fits(parts)
    if len(lengths.sizes) == 1 and lengths.chunks:  # or each job that is tried would decode its chunks
        parts = parts._replace(lengths=MemorySource.of(lengths))
    span = _span(parts, sorted({values.sizes[fit.axis] for fit in found}))
    if isinstance(span, str):
        return span
    ranking = _Ranking(parts, span, found)
    options = [(fit, settings) for fit in ranking.fits if (settings := _settings(parts, fit, span.greatest))]
    return _suggested(parts, span, ranking, options) if options else ""


def _suggested(parts: Parts, span: Span, ranking: _Ranking, options: Sequence[tuple[Fit, Settings]]) -> Suggestions:
    """The suggestions for fits, each with the settings that make a job of it; whether the first one is sure."""
    masks: tuple[Suggestion, ...] = ()
    if span.greatest <= 1:
        masks = _masks(parts, _as_asked(parts, mask=True))
        masks = masks or _masks(parts, fits(Shape.of(parts.values), Shape.of(parts.lengths), mask=True))
    first, is_single = options[0][0], len(options) == 1
    # A padded batch is as long as its longest sequence: else another axis may be meant, along which some are cropped.
    may_be_other = not is_single and None in ranking.asked and span.greatest != parts.values.sizes[first.axis]
    is_doubted = bool(masks) or _is_strange(parts) or may_be_other
    is_sure = not is_doubted and (is_single or ranking.is_clear([fit for fit, _ in options]))
    if is_single and not is_doubted and not ranking.clamped(first) and (parts.axis, parts.batch_axis) == first:
        return Suggestions((Suggestion(options[0][1]),), sure=is_sure)
    told = (Suggestion(settings, _meaning(parts, fit, span), _axes(parts, fit)) for fit, settings in options)
    return Suggestions((*told, *masks), sure=is_sure)


class _Ranking:
    """The fits that come into question, by how near each is to what the request asks for."""

    def __init__(self, parts: Parts, span: Span, found: list[Fit]) -> None:
        self._parts, self._span, self.asked = parts, span, asked_axes(parts)
        system, (axis, batch_axis) = parts.request.system, self.asked
        if system and not system.is_free and batch_axis is None:  # the default stays where it fits
            usual = system.batch_axis if axis is None else system.batch_for(axis)
            found = [fit for fit in found if fit.batch_axis == usual != axis] or found
        # Along an axis of size 1 nothing is reversed.
        found = [fit for fit in found if parts.values.sizes[fit.axis] > 1] or found
        self._kept = [fit for fit in found if not self.changed(fit)]
        if self._kept and (None not in self.asked or not all(map(self.clamped, self._kept))):
            found = self._kept
        self.fits = sorted(found, key=self.order)

    def clamped(self, fit: Fit) -> int:
        """How many lengths are above the size of its axis."""
        return self._span.above[self._parts.values.sizes[fit.axis]]

    def changed(self, fit: Fit) -> int:
        """How many axes that are asked for it gives up."""
        return sum(each not in (None, own) for each, own in zip(self.asked, fit, strict=True))

    def order(self, fit: Fit) -> tuple[bool, int, int]:
        """The key by which fits are sorted, the best first; the exchange of the two axes comes before all."""
        return self.asked != (fit.batch_axis, fit.axis), self.clamped(fit), self.changed(fit)

    def is_clear(self, ordered: list[Fit]) -> bool:
        """Whether the first of several is meant: it clamps nothing, and no other is as near to the request."""
        first, *others = ordered
        has_rival = any(self.order(fit) == self.order(first) for fit in others)
        return not (self.clamped(first) or has_rival or (self._kept and self.changed(first)))


def _masks(parts: Parts, found: Sequence[Fit]) -> tuple[Suggestion, ...]:
    """The choices among these fits that take ones and zeros for a mask."""
    found = [fit for fit in found if parts.values.sizes[fit.axis] > 1]
    found = [fit for fit in found if fit.batch_axis is None or fit._replace(batch_axis=None) not in found]
    asked = ((fit, parts.asking(**fit._asdict(), mask=True)) for fit in found)
    working = (fit for fit, each in asked if _works(each) and (not parts.request.mask or _is_mask(each)))
    settings = (
        (*_axes(parts, fit), *_left_out(fit, parts.request), *[("--mask", ON)] * (not parts.request.mask))
        for fit in working
    )
    return tuple(Suggestion(each, "a mask, of ones followed by zeros in each line", each) for each in settings)


def _is_mask(parts: Parts) -> bool:
    """Whether a mask has ones followed by zeros in each line; True for a large one, which is not read for a hint."""
    if parts.lengths.desc.element_count > thresholds.LENGTHS_AT_ONCE:
        return True
    try:
        assemble(parts).given_lengths.read()
    except RevseqError:
        return False
    return True


def _is_strange(parts: Parts) -> bool:
    """Whether only a size says where a dimension of the lengths goes: it has a name, and the values have others."""
    known = [*filter(None, Shape.of(parts.values).names)]
    named = zip(Shape.of(parts.lengths).names, parts.lengths.sizes, strict=True)
    lacking = [name for name, size in named if name and size != 1 and name not in known]
    return bool(known and lacking) and parts.batch_axis is None


def _why_none_fits(parts: Parts) -> Suggestions | str:
    """What to type or to do for lengths that fit along no axis; "" where nothing is known."""
    lengths, request = parts.lengths, parts.request
    if request.mask:
        masks = _masks(parts, _as_asked(parts, mask=True)) if request.axis is None else ()
        return Suggestions(masks, sure=len(masks) == 1) if masks else ""
    span = _span(parts, ())
    if lengths.desc.data_type.kind == "bool" or not (isinstance(span, str) or span.greatest > 1):
        if _works(parts.asking(mask=True)):
            return "if it is a mask, of ones followed by zeros in each line: add --mask"
        if masks := _masks(parts, _as_asked(parts, mask=True)):  # a square one may also be of time and batch
            return Suggestions(masks, sure=len(masks) == 1 and len({*lengths.sizes}) == len(lengths.sizes))
        if lengths.desc.data_type.kind == "bool":
            return "it is a mask: --mask takes one of ones followed by zeros in each line of its axis"
    return "" if any(Shape.of(lengths).names) else _other_sizes(parts)


def _span(parts: Parts, sizes: Sequence[int]) -> Span | str:
    """The span of the lengths, held against these axis sizes; or why they cannot be lengths."""
    lengths = parts.lengths
    if not (parts.values.desc.element_count and lengths.desc.element_count):
        return ""
    try:
        return summaries.span_of_lengths(CastSource(lengths, DataType.UINT64), sizes)
    except FormatError as e:  # negative, or no integer
        return f"no setting turns {lengths.name} into lengths: {e.found}"
    except RevseqError:  # it is told when the job runs
        return ""


def _other_sizes(parts: Parts) -> str:
    """How to reshape lengths that would fit in one way but for their sizes of 1, and with which axes; else their sizes.

    "" where that depends on an axis that is not given.
    """
    values, (axis, batch_axis) = parts.values.sizes, asked_axes(parts)
    without = tuple(size for size in parts.lengths.sizes if size != 1)
    ways = {each: lengths_sizes(values, each) for each in range(len(values))}
    ways = {each: full for each, full in ways.items() if without == tuple(size for size in full if size != 1)}
    batches = [each for each, size in enumerate(values) if (size,) == without and each != axis]
    if len({*ways.values()}) == 1 and batch_axis is None:
        full, other = next(iter(ways.values())), "" if axis in ways else f"--axis {next(iter(ways))}"
        return _reshaped(braced(full), str(full), other)
    if batches and len(values) > 1:
        chosen = "" if batch_axis in batches else f"--batch-axis {' or '.join(map(str, batches))}"
        return _reshaped(braced(without), f"({without[0]})", chosen)
    if axis is None or not 0 <= axis < len(values) or batch_axis is not None or len(parts.lengths.sizes) == len(values):
        return ""
    return f"lengths along axis {axis} have the sizes {braced(lengths_sizes(values, axis))}, one for each line"


def _reshaped(sizes: str, shape: str, other: str) -> str:
    """The hint to reshape lengths, and the `other` options that go with it."""
    text = f"lengths of these sizes would fit as {sizes}: numpy's lengths.reshape{shape}"
    return f"{text}, with {other}" if other else text


def _axes(parts: Parts, fit: Fit) -> Settings:
    """The axes as they are typed: by the names of dimensions, where they have some; not one that names decide."""
    names = Shape.of(parts.values).names
    typed = (name if _TYPED_NAME.fullmatch(name) else str(d) for d, name in enumerate(names))
    called = dict(enumerate(typed))
    needed = zip(("--axis", "--batch-axis"), _needed(parts, fit), strict=True)
    return tuple((option, called[axis]) for option, axis in needed if axis is not None)


def _needed(parts: Parts, fit: Fit) -> Fit:
    """The axes without the batch axis, where the dimensions' names alone place the lengths along it."""
    values, lengths, alone = Shape.of(parts.values), Shape.of(parts.lengths), fit._replace(batch_axis=None)
    decide = not (parts.request.system or parts.request.mask) and are_named(values, lengths)
    return alone if decide and _fits(values, lengths, alone, mask=False) else fit


def _meaning(parts: Parts, fit: Fit, span: Span) -> str:
    """What the axes make of the lengths: how many of what size, and which are clamped."""
    total, size = parts.lengths.desc.element_count, parts.values.sizes[fit.axis]
    what = f"{'line' if fit.batch_axis is None else 'sequence'}{'s' * (total != 1)}"
    above, noun = span.above[size], f"length{'s' * (total != 1)}"
    lengths = f"{above:,} of {total:,} {noun} above {size:,}" if above else f"{noun} {span}"
    left = [
        f", in place of {name.replace('_', ' ')} {getattr(parts.request, name)}"
        for (name, own), asked in zip(fit._asdict().items(), asked_axes(parts), strict=True)
        if asked not in (None, own)
    ]
    if len(left) > 1 and asked_axes(parts) == (fit.batch_axis, fit.axis):
        left = [", the two axes exchanged"]
    if fit.batch_axis is None and is_single(Shape.of(parts.lengths)) and len(parts.values.sizes) > 1:
        return f"every line of {size:,}, {lengths}{''.join(left)}"
    return f"{total:,} {what} of {'' if fit.batch_axis is None else 'up to '}{size:,}, {lengths}{''.join(left)}"


def _settings(parts: Parts, fit: Fit, greatest: int) -> Settings:
    """The settings to change that make the job, as few as possible; none where nothing does.

    A higher level is one of them, and where no level of DirectML takes such tensors, none.
    """
    request, rank, needed = parts.request, len(parts.values.sizes), _needed(parts, fit)
    usual = request.cast(parts.lengths.desc.data_type)
    axes = zip(("--axis", "--batch-axis"), fit, (parts.axis, parts.batch_axis), strict=True)
    changed_axes = [option for option, own, typed in axes if own != typed]
    for level in (each for each in FeatureLevel if each >= request.level):
        for changed_rank, cast in itertools.product(_ranks(rank, request.rank, level), _casts(parts, greatest)):
            if _works(parts.asking(**needed._asdict(), lengths_dtype=cast, rank=changed_rank, level=level)):
                return (
                    *(each for each in _axes(parts, fit) if each[0] in changed_axes),
                    *_left_out(needed, request),
                    *[("--lengths-dtype", each.name) for each in [cast] if each and each is not usual],
                    *[("--rank", str(changed_rank))] * (changed_rank != request.rank),
                    *[("--feature-level", level.short)] * (level is not request.level),
                )
    return ()


def _left_out(fit: Fit, request: Request) -> Settings:
    """The batch axis, if the request names one and the fit has none: it is to be left out."""
    return (("--batch-axis", ""),) if fit.batch_axis is None and request.batch_axis is not None else ()


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
    unsigned = (each for each in (DataType.UINT32, DataType.UINT64) if greatest < 1 << 8 * each.size)
    return [parts.request.lengths_dtype, *unsigned]
