"""What to type in place of a job that is refused: axes, batch axes and casts that make one, as a command line.

One choice that fits is proposed as a whole command line, or as options where none was typed. Several are listed with
what they mean, and none is proposed, since only the user knows which is meant.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from revseq_cli.core import platform, thresholds
from revseq_cli.core.errors import FormatError, RevseqError, UsageError
from revseq_cli.core.tensors import DataType
from revseq_cli.operator.spec import FeatureLevel, lengths_sizes, violations
from revseq_cli.pipeline import assembly, summaries
from revseq_cli.pipeline.alignment import Shape, align
from revseq_cli.pipeline.plan import Resources
from revseq_cli.pipeline.views import as_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from revseq_cli.formats.contract import Source
    from revseq_cli.pipeline.alignment import Places
    from revseq_cli.pipeline.assembly import Request
    from revseq_cli.pipeline.summaries import LengthCounts

    # Options with their values; None for one to leave out, and "" for one without a value.
    Options = dict[str, str | None]

_MOST_CHOICES = 6
_LONGEST_COMMAND = 1000  # characters; tensors may be typed as text
_TYPED_NAME = re.compile(r"[^\W\d][\w.]*")  # of a dimension; any other is named by its number


class Fit(NamedTuple):
    """An axis, and for lengths of one dimension a batch axis, that sizes and names allow; perhaps of a mask."""

    axis: int
    batch_axis: int | None
    mask: bool = False


def fits(values: Shape, lengths: Shape, *, mask: bool = False, batch_axis: int | None = None) -> list[Fit]:
    """Every axis for which such lengths, or such a mask, fit the values, with the batch axes where they need one.

    One that is typed is tried in any case.
    """
    rank = len(values.sizes)
    found = []
    for axis in range(rank):
        typed = Fit(axis, batch_axis, mask)
        if batch_axis is not None and _places(values, lengths, typed) is not None:
            found.append(typed)
        elif _places(values, lengths, Fit(axis, None, mask)) is not None:
            found.append(Fit(axis, None, mask))
        else:
            batches = (Fit(axis, batch, mask) for batch in range(rank) if batch != axis)
            found += [fit for fit in batches if _places(values, lengths, fit) is not None]
    return found


def _places(values: Shape, lengths: Shape, fit: Fit) -> Places | None:
    """Where the dimensions of the lengths go; None where they do not fit."""
    try:
        return align(values, lengths, fit.axis, fit.batch_axis, mask=fit.mask)
    except FormatError:
        return None


def fits_as_asked(values: Source, lengths: Source, request: Request) -> list[Fit]:
    """Where the lengths fit with the axes that are asked for."""
    asked = _asked(values, request)
    found = fits(Shape.of(values), Shape.of(lengths), mask=request.mask, batch_axis=asked[1])
    return [fit for fit in found if _agrees(fit, asked)]


def _asked(values: Source, request: Request) -> tuple[int | None, int | None]:
    """The axes that are asked for, but for names that no dimension has."""
    try:
        return request.axes(values)
    except UsageError:
        return None, None


def _agrees(fit: Fit, asked: tuple[int | None, int | None]) -> bool:
    return asked[0] in (None, fit.axis) and asked[1] in (None, fit.batch_axis)


def hint(values: Source, lengths: Source, request: Request) -> str:
    """What to type for these tensors instead of what was typed; "" where nothing is known that would work."""
    found = _candidates(values, lengths, request)
    counts = {size: _counts(lengths, size) for size in {values.sizes[fit.axis] for fit in found}}
    if not request.mask and lengths.desc.data_type.kind in ("int", "float") and None in counts.values():
        return ""  # some are no lengths
    choices: list[tuple[Options, str]] = []
    for fit in found:
        of_fit = counts[values.sizes[fit.axis]]
        options = _options(values, lengths, request, fit, of_fit)
        if options and all(options != others for others, _ in choices):
            choices.append((options, _meaning(values, lengths, fit, of_fit)))
    if len(choices) == 1:
        return _command(request.typed, choices[0][0])
    lines = [f"  {_as_typed(options)}: {meaning}" for options, meaning in choices[:_MOST_CHOICES]]
    if more := choices[_MOST_CHOICES:]:
        lines.append(f"  and {len(more)} more")
    return "\n".join(["type the one that is meant:", *lines]) if lines else ""


def _candidates(values: Source, lengths: Source, request: Request) -> list[Fit]:
    """The fits that come into question: those with the axes that are asked for, or else all."""
    shapes = Shape.of(values), Shape.of(lengths)
    asked = _asked(values, request)
    is_mask = lengths.desc.data_type.kind == "bool" and not request.mask
    found = [] if is_mask else fits(*shapes, mask=request.mask, batch_axis=asked[1])
    if not request.mask and _may_be_mask(lengths):
        masks = fits(*shapes, mask=True, batch_axis=asked[1])
        found += [fit for fit in masks if all(size > 1 for size in lengths.sizes)]
    found = [fit for fit in found if values.sizes[fit.axis] > 1] or found  # else nothing is reversed
    own = request.system.batch_axis if request.system else None
    found = sorted(found, key=lambda fit: (fit.batch_axis != own, fit.mask))
    kept = [fit for fit in found if _agrees(fit, asked)] or [fit for fit in found if fit.axis == asked[0]]
    # Lengths of two dimensions are rather one for each line than a vector with one more dimension.
    whole = [fit for fit in found if len(lengths.sizes) == 2 and fit.batch_axis is None and not fit.mask]
    if whole and (asked == (None, None) or not kept):
        return [fit for fit in found if fit in whole or fit.mask]
    if any(fit.batch_axis is not None and not fit.mask for fit in kept):
        kept = list(dict.fromkeys([*kept, *whole]))
    return kept or found


def _may_be_mask(lengths: Source) -> bool:
    """Whether all are ones and zeros; a large mask is not read for a hint."""
    if lengths.desc.data_type.kind == "bool":
        return True
    if len(lengths.sizes) < 2 or not 0 < lengths.desc.element_count <= thresholds.LENGTHS_AT_ONCE:
        return False
    with contextlib.suppress(RevseqError):
        elements = lengths.read()
        return bool(((elements == 0) | (elements == 1)).all())
    return False


def _counts(lengths: Source, size: int) -> LengthCounts | None:
    """What the lengths are, and do to lines of a size; None where some are no lengths."""
    if lengths.desc.data_type.kind in ("bool", "complex"):
        return None
    with contextlib.suppress(RevseqError):
        return summaries.counts_of(assembly.unsigned(lengths, DataType.UINT64), size, Resources())
    return None


def _options(values: Source, lengths: Source, request: Request, fit: Fit, counts: LengthCounts | None) -> Options:
    """The options that make the job, as few as possible; none where nothing does, or nothing is to change."""
    named = _needed(values, lengths, request, fit)
    options: Options = {}
    for option, typed, axis in (
        ("--axis", request.axis, fit.axis),
        ("--batch-axis", request.batch_axis, named.batch_axis),
    ):
        own, *_ = _asked(values, replace(request, axis=typed, batch_axis=None)) if typed is not None else (None,)
        if axis is None and typed is not None:
            options[option] = None
        elif axis is not None and axis != own:
            options[option] = _called(values, axis)
    if fit.mask and not request.mask:
        options["--mask"] = ""
    changed = replace(request, axis=fit.axis, batch_axis=named.batch_axis, mask=fit.mask)
    if request.system and request.axis is None and request.axes(values) == changed.axes(values):
        options = {name: value for name, value in options.items() if name == "--mask"}
        changed = replace(changed, axis=None, batch_axis=request.batch_axis)
    casts = [request.lengths_dtype]
    if counts and not fit.mask:
        greatest = counts.greatest or 0
        casts += [each for each in (DataType.UINT32, DataType.UINT64) if greatest < 1 << 8 * each.size]
    if values.desc.data_type is DataType.BOOL and request.level is not FeatureLevel.NONE:
        options["--dtype"], values = DataType.UINT8.name, as_bytes(values)
    for level, cast in itertools.product([level for level in FeatureLevel if level >= request.level], casts):
        if _works(values, lengths, replace(changed, level=level, lengths_dtype=cast)):
            if cast is not request.lengths_dtype and cast:
                options["--lengths-dtype"] = cast.name
            if level is not request.level:
                options["--feature-level"] = level.short
            return options
    return {}


def _needed(values: Source, lengths: Source, request: Request, fit: Fit) -> Fit:
    """The fit without the batch axis, where it is not typed, and names or sizes alone place the lengths along it."""
    shapes, alone = (Shape.of(values), Shape.of(lengths)), fit._replace(batch_axis=None)
    if request.system or request.batch_axis is not None or _places(*shapes, alone) != _places(*shapes, fit):
        return fit
    return alone


def _called(values: Source, axis: int) -> str:
    name = Shape.of(values).names[axis]
    return name if _TYPED_NAME.fullmatch(name) else str(axis)


def _works(values: Source, lengths: Source, request: Request) -> bool:
    """Whether the tensors make a job that breaks no constraint."""
    try:
        job = assembly.make(values, lengths, request)
    except RevseqError:
        return False
    return not violations(*job.descs, request.level)


def _meaning(values: Source, lengths: Source, fit: Fit, counts: LengthCounts | None) -> str:
    """What the axes make of the lengths: how many of what size, and which are clamped."""
    if fit.mask:
        return "a mask, of ones followed by zeros in each line"
    total, size = lengths.desc.element_count, values.sizes[fit.axis]
    one = total == 1 and lengths.sizes != lengths_sizes(values.sizes, fit.axis) and fit.batch_axis is None
    what = "every line" if one else f"{total:,} line{'s' * (total != 1)}"
    what = what if fit.batch_axis is None else f"a length for each of the {total:,} indices of axis {fit.batch_axis}"
    if counts is None or counts.least is None:
        return f"{what}, of {size:,} elements"
    span = f"{counts.least:,}" if counts.least == counts.greatest else f"{counts.least:,} to {counts.greatest:,}"
    above = f", of which {counts.clamped:,} are above {size:,}" if counts.clamped else ""
    return f"{what}, of {size:,} elements; lengths {span}{above}"


def _command(typed: Sequence[str], options: Options) -> str:
    """The command line with these options in place of those that stand there, or the options alone."""
    command = " ".join(["revseq", *map(platform.quoted, _retyped(typed, options))]) if typed else ""
    if command and len(command) <= _LONGEST_COMMAND:
        return command
    used: Options = {name: value for name, value in options.items() if value is not None}
    removed = [name for name, value in options.items() if value is None]
    parts = [f"use {_as_typed(used)}"] if used else []
    parts += [f"leave out {' and '.join(removed)}"] if removed else []
    return " and ".join(parts)


def _as_typed(options: Options) -> str:
    """The options as they are typed, also those to leave out."""
    return " ".join(
        f"without {name}" if value is None else f"{name} {value}".rstrip() for name, value in options.items()
    )


def _retyped(typed: Sequence[str], options: Options) -> Iterator[str]:
    end = typed.index("--") if "--" in typed else len(typed)
    words = iter(typed[:end])
    for word in words:
        name, sign, _ = word.partition("=")
        if name not in options:
            yield word
        elif not sign and name != "--mask":
            next(words, None)
    for name, value in options.items():
        if value is not None:
            yield name
            yield from [value] if value else []
    yield from typed[end:]
