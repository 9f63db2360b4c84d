"""Opens jobs, and says what to type in place of one that is refused: axes, batch axes and casts that make a job.

One choice that fits is proposed as a whole command line, or as options where none was typed. Several are listed with
what they mean, and none is proposed, since only the user knows which is meant.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from revseq_cli.core import platform, thresholds
from revseq_cli.core.errors import RevseqError, UsageError
from revseq_cli.core.tensors import DataType
from revseq_cli.formats.contract import Source
from revseq_cli.operator.spec import SYSTEMS, FeatureLevel, SpecError, lengths_sizes, violations
from revseq_cli.pipeline.jobs import Job, Request, make, opened
from revseq_cli.pipeline.lengths import Places, View, align, as_bytes, names_of, unsigned
from revseq_cli.pipeline.passes import counts_of
from revseq_cli.pipeline.plan import Resources

# Options with their values; None for one to leave out, and "" for one without a value.
Options = dict[str, str | None]
Axes = tuple[int | None, int | None]  # the axis and the batch axis

_AXES = "--axis", "--batch-axis"
_MOST_CHOICES = 6
_LONGEST_COMMAND = 1000  # characters; tensors may be typed as text


def load(request: Request) -> Job:
    """Open the job, and require that it holds every constraint at its level; SpecError with all that it breaks."""
    job = open_job(request)
    if broken := violations(*job.descs, request.level):
        raise SpecError(broken, job.names, suggestion(job))
    return job


def open_job(request: Request) -> Job:
    """Open the job, whose constraints are not checked: headers are read, and texts are read whole, each once."""
    values, lengths, request = opened(request)
    try:
        return make(values, lengths, request)
    except RevseqError as e:
        if not e.hint and lengths:
            e.hint = hint(values, lengths, request)
        raise


def suggestion(job: Job) -> str:
    """What to type in place of a job that breaks constraints, for all of them; "" where each has its own hint."""
    if not job.request or job.request.padding is not None:
        return ""
    lengths = job.lengths
    while isinstance(lengths, View):
        lengths = lengths.source
    return hint(job.values, lengths, job.request)


class Fit(NamedTuple):
    """An axis, and for lengths of one dimension a batch axis, that sizes and names allow; perhaps of a mask."""

    axis: int
    batch_axis: int | None
    mask: bool = False


def fits(values: Source, lengths: Source, *, mask: bool = False, batch_axis: int | None = None) -> list[Fit]:
    """Every axis for which such lengths, or such a mask, fit the values, with the batch axes where they need one.

    One that is typed is tried in any case.
    """
    fitting, rank = [], len(values.sizes)
    for axis in range(rank):
        alone = [Fit(axis, batch, mask) for batch in {batch_axis: None, None: None}]
        batches = [Fit(axis, batch, mask) for batch in range(rank) if batch != axis]
        first = [fit for fit in alone if _places(values, lengths, fit) is not None][:1]
        fitting += first or [fit for fit in batches if _places(values, lengths, fit) is not None]
    return fitting


def _places(values: Source, lengths: Source, fit: Fit) -> Places | None:
    """Where the dimensions of the lengths go; None where they do not fit."""
    try:
        return align(values, lengths, fit.axis, fit.batch_axis, mask=fit.mask)
    except RevseqError:
        return None


def hint(values: Source, lengths: Source, request: Request) -> str:
    """What to type for these tensors instead of what was typed; "" where nothing is known that would work."""
    try:
        axes = request.axes(values)
    except UsageError:  # for a name that no dimension has
        axes = None, None
    fitting = _candidates(values, lengths, request, axes)
    greatest = _greatest(lengths) if fitting else None
    if not request.mask and lengths.desc.data_type.kind in ("int", "float") and greatest is None:
        return ""  # some are no lengths
    choices: list[tuple[Options, str]] = []
    for fit in fitting:
        options = _options(values, lengths, request, axes, fit, greatest)
        if options and all(options != others for others, _ in choices):
            choices.append((options, _meaning(values, lengths, fit, greatest)))
    if len(choices) == 1:
        return _command(request.typed, choices[0][0])
    lines = [f"  {_as_typed(options)}: {meaning}" for options, meaning in choices[:_MOST_CHOICES]]
    if more := choices[_MOST_CHOICES:]:
        lines.append(f"  and {len(more)} more")
    return "\n".join(["type the one that is meant:", *lines]) if lines else ""


def _candidates(values: Source, lengths: Source, request: Request, axes: Axes) -> list[Fit]:
    """The fits that come into question: those with the axes that are asked for, or else all."""
    axis, batch_axis = axes
    is_mask = lengths.desc.data_type.kind == "bool" and not request.mask
    fitting = [] if is_mask else fits(values, lengths, mask=request.mask, batch_axis=batch_axis)
    if not request.mask and _may_be_mask(lengths):
        fitting += fits(values, lengths, mask=True, batch_axis=batch_axis)
    fitting = [fit for fit in fitting if values.sizes[fit.axis] > 1] or fitting  # else nothing is reversed
    own = SYSTEMS[request.like][1] if request.like else None
    fitting.sort(key=lambda fit: (fit.batch_axis != own, fit.mask))
    kept = [fit for fit in fitting if axis in (None, fit.axis) and batch_axis in (None, fit.batch_axis)]
    kept = kept or [fit for fit in fitting if fit.axis == axis]
    # Lengths of two dimensions are rather one for each line than a vector with one more dimension.
    whole = [fit for fit in fitting if len(lengths.sizes) == 2 and fit.batch_axis is None and not fit.mask]
    if whole and (not kept or axis is batch_axis is None):
        return [fit for fit in fitting if fit in whole or fit.mask]
    if any(fit.batch_axis is not None and not fit.mask for fit in kept):
        kept = list(dict.fromkeys([*kept, *whole]))
    return kept or fitting


def _may_be_mask(lengths: Source) -> bool:
    """Whether all are ones and zeros; a large mask is not read for a hint."""
    if lengths.desc.data_type.kind == "bool":
        return 1 not in lengths.sizes
    if len(lengths.sizes) < 2 or 1 in lengths.sizes or lengths.desc.element_count > thresholds.LENGTHS_AT_ONCE:
        return False
    with contextlib.suppress(RevseqError):
        elements = lengths.read()
        return bool(((elements == 0) | (elements == 1)).all())
    return False


def _greatest(lengths: Source) -> int | None:
    """The greatest length; None where some are no lengths."""
    if lengths.desc.data_type.kind not in ("bool", "complex"):
        with contextlib.suppress(RevseqError):
            return counts_of(unsigned(lengths, DataType.UINT64), 0, Resources()).greatest or 0
    return None


def _options(values: Source, lengths: Source, request: Request, axes: Axes, fit: Fit, greatest: int | None) -> Options:
    """The options that make the job, as few as possible; none where nothing does, or nothing is to change."""
    places, alone = (_places(values, lengths, f) for f in (fit, fit._replace(batch_axis=None)))
    needed = fit.batch_axis
    if places == alone and not request.like and request.batch_axis is None:
        needed = None  # names or sizes alone place the lengths along it
    options: Options = {}
    changed = replace(request, mask=fit.mask)
    if axes != (fit.axis, needed):
        typed = request.axis, request.batch_axis
        for option, was_typed, now, meant in zip(_AXES, typed, axes, (fit.axis, needed), strict=True):
            if meant is None and was_typed is not None:
                options[option] = None
            elif meant is not None and (meant != now or was_typed is None):
                name = names_of(values)[meant]
                options[option] = name if re.fullmatch(r"[^\W\d][\w.]*", name) else str(meant)
        changed = replace(changed, axis=fit.axis, batch_axis=needed)
    if fit.mask and not request.mask:
        options["--mask"] = ""
    casts = [request.lengths_dtype]
    if greatest is not None and not fit.mask:
        casts += [t for t in (DataType.UINT32, DataType.UINT64) if greatest < 1 << 8 * t.size]
    if values.desc.data_type is DataType.BOOL and request.level is not FeatureLevel.NONE:
        options["--dtype"], values = DataType.UINT8.name, as_bytes(values)
    for level, cast in itertools.product([level for level in FeatureLevel if level >= request.level], casts):
        with contextlib.suppress(RevseqError):
            job = make(values, lengths, replace(changed, level=level, lengths_dtype=cast))
            if violations(*job.descs, level):
                continue
            if cast and cast is not request.lengths_dtype:
                options["--lengths-dtype"] = cast.name
            if level is not request.level:
                options["--feature-level"] = level.short
            return options
    return {}


def _meaning(values: Source, lengths: Source, fit: Fit, greatest: int | None) -> str:
    """What the axes make of the lengths: how many of what size."""
    if fit.mask:
        return "a mask, of ones followed by zeros in each line"
    total, size = lengths.desc.element_count, values.sizes[fit.axis]
    what = f"a length for each of {total:,} lines"
    if fit.batch_axis is not None:
        what = f"a length for each of the {total:,} indices of axis {fit.batch_axis}"
    elif total == 1 and lengths.sizes != lengths_sizes(values.sizes, fit.axis):
        what = "one length for every line"
    return f"{what}, of {size:,} elements" + ("" if greatest is None else f"; the greatest is {greatest:,}")


def _command(typed: Sequence[str], options: Options) -> str:
    """The command line with these options in place of those that stand there, or the options alone."""
    command = " ".join(["revseq", *map(platform.quoted, _retyped(typed, options))])
    if typed and len(command) <= _LONGEST_COMMAND:
        return command
    used = _as_typed({name: value for name, value in options.items() if value is not None})
    removed = " and ".join(name for name, value in options.items() if value is None)
    return " and ".join([*([f"use {used}"] if used else []), *([f"leave out {removed}"] if removed else [])])


def _as_typed(options: Options) -> str:
    """The options as they are typed, also those to leave out."""
    words = (f"without {name}" if value is None else f"{name} {value}" for name, value in options.items())
    return " ".join(map(str.strip, words))


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
