"""Jobs: a reversal of two open tensors, and the request that says how they make one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from revseq_cli.core.errors import FormatError, UsageError, listed
from revseq_cli.core.tensors import DataType, numbers_of
from revseq_cli.formats import table
from revseq_cli.formats.documents import TextTypes
from revseq_cli.formats.references import Reference, refuse_shared
from revseq_cli.operator.spec import INPUT, LENGTHS, FeatureLevel
from revseq_cli.pipeline.alignment import Shape, align
from revseq_cli.pipeline.systems import SYSTEMS
from revseq_cli.pipeline.views import AlignedSource, CastSource, MaskSource, pieces, with_rank

if TYPE_CHECKING:
    from revseq_cli.formats.contract import Source
    from revseq_cli.formats.file_io import Identity
    from revseq_cli.pipeline.alignment import Alignment
    from revseq_cli.pipeline.systems import System


@dataclass(frozen=True)
class Job:
    """One reversal: `values` along `axis` by `lengths`, both open, with their headers read.

    `batch_axis` is the axis that has one length for each of its indices, if the lengths were given so. `parts` is what
    the job was made of, and `alignment` where the dimensions of what was given as lengths go, None where they are like
    the values'.
    """

    values: Source
    lengths: Source
    axis: int
    batch_axis: int | None = None
    parts: Parts | None = None
    alignment: Alignment | None = None

    @property
    def names(self) -> dict[str, str]:
        """What the user called each tensor, by its name in the operator."""
        return {INPUT: self.values.name, LENGTHS: self.lengths.name}

    @property
    def files(self) -> list[Identity]:
        """The files that are read, which no output may replace."""
        return [*self.values.files, *self.lengths.files]

    @property
    def given_lengths(self) -> Source:
        """The lengths as they were given: of rank 1 with a batch axis."""
        return self.lengths.original if isinstance(self.lengths, AlignedSource) else self.lengths

    @property
    def of_batch(self) -> Source | None:
        """The lengths of the batch axis, one for each index; None where each line has one of its own."""
        return self.lengths.source if isinstance(self.lengths, AlignedSource) and self.batch_axis is not None else None

    def clamping(self, clamped: int) -> tuple[str, ...]:
        """A note that so many of the given lengths exceed the axis size; none for 0."""
        if not clamped:
            return ()
        total, size = self.given_lengths.desc.element_count, self.values.sizes[self.axis]
        verbs = ("exceeds", "is") if clamped == 1 else ("exceed", "are")
        noun = "length" if total == 1 else "lengths"
        return (
            f"{clamped:,} of {total:,} {noun} {verbs[0]} the axis size ({size:,}) and {verbs[1]} clamped to {size:,}",
        )

    def recheck(self) -> None:
        """Raise TensorIOError if an input file has changed since its header was read."""
        for source in (self.values, self.lengths):
            source.recheck()

    @property
    def notes(self) -> tuple[str, ...]:
        """What is unusual about the inputs' files."""
        return tuple(dict.fromkeys((*self.values.notes, *self.lengths.notes)))

    def absent_notes(self) -> tuple[str, ...]:
        """A sentence for each part of the inputs that is not stored, and what is read in its place."""
        return (*self.values.absent_notes(), *self.lengths.absent_notes())


@dataclass(frozen=True)
class Request:
    """A job as it is asked for, before anything is read; None stands for what is not given.

    `values` and `lengths` name tensors, or are tensors as text. `axis` and `batch_axis` are dimensions of the input as
    it is, by their numbers, or by their names where its file has names, and `rank` is the dimension count that both
    tensors get, by leading sizes of 1. With `mask`, the lengths are the numbers of ones in the lines of a mask. `like`
    names one of SYSTEMS, whose axes are the defaults, and whose rules hold. `level` is the feature level. `format` is
    the format of inputs whose bytes and suffix do not say theirs, or, with `override`, of all inputs. With `absolute`,
    paths are made absolute, since workers may have another working directory. `sizes` are those of an INPUT
    that is a raw buffer. `feed` names a tensor for each input of the model in `values`, as NAME=FILE.
    """

    values: str
    lengths: str | None = None
    axis: int | str | None = None
    dtype: DataType | None = None
    lengths_dtype: DataType | None = None
    batch_axis: int | str | None = None
    rank: int | None = None
    like: str | None = None
    level: FeatureLevel = FeatureLevel.V5_0
    format: str | None = None
    override: bool = False
    absolute: bool = False
    mask: bool = False
    sizes: tuple[int, ...] | None = None
    feed: tuple[str, ...] = ()

    @property
    def system(self) -> System | None:
        """The system that `like` names."""
        return SYSTEMS[self.like] if self.like else None

    def cast(self, found: DataType) -> DataType | None:
        """The data type that lengths of that one are cast to; None where they stay as they are."""
        if self.lengths_dtype or not self.system:
            return self.lengths_dtype
        if not self.system.is_free:
            return DataType.UINT32
        return DataType.UINT64 if found.kind == "int" else None

    @property
    def types(self) -> TextTypes:
        """What is asked of INPUT where its file does not say it."""
        return TextTypes(self.dtype, DataType.FLOAT32, sizes=self.sizes)

    @property
    def types_of_lengths(self) -> TextTypes:
        """The data type of LENGTHS where they are a text."""
        return TextTypes(self.lengths_dtype, DataType.UINT32, cast_later=True)

    def references(self) -> tuple[Reference, Reference | None]:
        """References to INPUT and LENGTHS; UsageError where both are one pipe."""
        values = self.reference(self.values, "INPUT")
        lengths = self.reference(self.lengths, "LENGTHS") if self.lengths is not None else None
        if lengths:
            refuse_shared([("INPUT", values), ("LENGTHS", lengths)])
        return values, lengths

    def reference(self, text: str, name: str) -> Reference:
        """A reference to one of the job's tensors; `name` is for messages about a text."""
        reference = Reference.input(text, self.format, name, override=self.override)
        return reference.absolute() if self.absolute else reference


class Parts(NamedTuple):
    """What a job is made of: the tensors as they were opened, and the request with the axis of a whole text."""

    values: Source
    lengths: Source
    request: Request

    @property
    def axis(self) -> int | None:
        """The number of the request's axis, or None; UsageError for a name that no dimension has."""
        return _number_of(self.request.axis, self.values)

    @property
    def batch_axis(self) -> int | None:
        """The number of the request's batch axis, as `axis`."""
        return _number_of(self.request.batch_axis, self.values)

    def finds(self, axis: int | str | None) -> bool:
        """Whether it is no name, or that of one dimension."""
        return not isinstance(axis, str) or self.values.dimensions.count(axis) == 1

    def asking(self, **changes: Any) -> Parts:  # noqa: ANN401 - each of a type of its own
        """The same tensors, with a request that differs so."""
        return self._replace(request=replace(self.request, **changes))


def _number_of(axis: int | str | None, values: Source) -> int | None:
    """The number of the dimension of that name; UsageError unless there is just one."""
    if not isinstance(axis, str):
        return axis
    numbers = [d for d, name in enumerate(values.dimensions) if name == axis]
    if len(numbers) == 1:
        return numbers[0]
    span = f"{numbers_of(len(values.sizes))}, by number"
    if numbers:
        found = f"{len(numbers)} dimensions are named {axis[:80]}: {listed(map(str, numbers))}"
        raise UsageError(found, span, where=values.name)
    names = [*filter(None, values.dimensions)]
    wanted = f"one of {listed(names, len(names))}, or {span}" if names else f"{span}: its dimensions have no names"
    is_number = len(axis) < 80 and axis.isdecimal()  # of another script, or of full width
    hint = f"{axis} is not written in the digits 0 to 9: type {int(axis)}" if is_number else ""
    raise UsageError(f"no dimension is named {axis[:80]}", wanted, hint, values.name)


def assemble(parts: Parts) -> Job:
    """The job: lengths are cast and widened, and both tensors get the dimension count, as the request asks.

    UsageError and FormatError for what makes no job. Neither the constraints nor the rules of another system are
    checked here.
    """
    values, lengths, request = parts
    axis, batch_axis = _axes(parts)
    rank = len(values.sizes)
    added = 0 if request.rank is None else request.rank - rank
    _require_staying(values, added, {"axis": axis, "batch axis": batch_axis})
    if (batch_axis is not None or request.mask) and not 0 <= axis < rank:  # there is none for aligned lengths to lack
        raise UsageError(f"Axis is {axis}", numbers_of(rank) if rank else "a tensor with dimensions", "", values.name)
    if lengths.desc.data_type.kind == "bool" and not request.mask:
        raise FormatError("DataType is BOOL", "lengths, such as the sums of a mask along the axis", where=lengths.name)
    batch_first = request.system is not None and request.system.masks_batch_first
    alignment = align(Shape.of(values), Shape.of(lengths), axis, batch_axis, mask=request.mask, batch_first=batch_first)
    places = alignment.places if alignment else ()
    if request.mask:
        along = places.index(axis)
        lengths, places = MaskSource(lengths, along), places[:along] + places[along + 1 :]
    cast = request.cast(lengths.desc.data_type)
    if cast and lengths.desc.data_type is not cast:
        lengths = CastSource(lengths, cast, "--lengths-dtype")
    values = with_rank(values, request.rank)
    if alignment is None:
        return Job(values, with_rank(lengths, request.rank), axis + added, None, parts)
    places = tuple(None if d is None or d + added < 0 else d + added for d in places)
    aligned_axis = axis + added
    aligned = AlignedSource(lengths, values.sizes, aligned_axis, places, alignment.note)
    batch = places[0] if len(places) == 1 and places[0] != aligned_axis else None
    return Job(values, aligned, aligned_axis, batch, parts, alignment)


def _require_staying(values: Source, added: int, axes: dict[str, int | None]) -> None:
    """UsageError for an axis that does not stay where so many dimensions are added or, below 0, left out."""
    rank, first = len(values.sizes), max(0, -added)
    for name, axis in axes.items():
        if axis is not None and added and not first <= axis < rank:
            found = f"the {name} is {axis}, and the dimension count changes from {rank} to {rank + added}"
            stays = f"{first} to {rank - 1}: a dimension that stays, counted as {values.name} has it"
            raise UsageError(found, stays if rank > first else "a tensor with dimensions", where=values.name)


def _axes(parts: Parts) -> tuple[int, int | None]:
    """The axis and the batch axis of the request, or of the system that it names; UsageError without an axis."""
    values, lengths, request = parts
    axis, batch_axis = parts.axis, parts.batch_axis
    if system := request.system:
        if len(lengths.sizes) != 1 + request.mask and not system.is_free:
            found, wanted = f"dimension count is {len(lengths.sizes)}", f"{1 + request.mask}: {system.name} has"
            is_mask = lengths.desc.data_type.kind == "bool" and len(lengths.sizes) == 2  # of batch and time
            hint = "add --mask" if is_mask else f"leave out --like {request.like}"
            raise FormatError(found, f"{wanted} one length for each batch index", hint, lengths.name)
        _require_tensors_of(system, parts)
        axis, batch_axis = axes_of(parts)
        if axis is not None and batch_axis is not None:
            _require_axes_of(system, axis, batch_axis, parts)
    if axis is None:
        names = [*filter(None, values.dimensions)]
        known = ", or ".join(filter(None, [numbers_of(len(values.sizes)), listed(names, len(names))]))
        wanted = f"the dimension to reverse along, {known}"
        raise UsageError("no axis is given", wanted, where=values.name)
    return axis, batch_axis


def from_start(axis: int, rank: int) -> int:
    """The axis counted from 0; a negative one counts from the end."""
    return axis + rank if -rank <= axis < 0 else axis


def _require_tensors_of(system: System, parts: Parts) -> None:
    """FormatError or UsageError for values, lengths or a negative axis that the system does not take.

    Lengths that are text have no data type there, and those that a mask stands for have the one that they need.
    """
    values, lengths = parts.values, parts.lengths
    rank = len(values.sizes)
    for setting, axis in (("axis", parts.axis), ("batch_axis", parts.batch_axis)):
        if axis is not None and -rank <= axis < 0 and not system.negative_axes:
            found, wanted = f"the {setting.replace('_', ' ')} is {axis}", f"{numbers_of(rank)}, as {system.name} counts"
            has_it = not system.axes or axis + rank in system.axes
            hint = f"try --{setting.replace('_', '-')} {axis + rank}" if has_it else _as_directml(parts)
            raise UsageError(found, wanted, hint, values.name)
    if system.most_dimensions and rank > system.most_dimensions:
        wanted = f"at most {system.most_dimensions}, as {system.name} has it"
        raise FormatError(f"dimension count is {rank}", wanted, _as_directml(parts), values.name)
    data_type, stored = lengths.desc.data_type, table.named(lengths.storage.format)
    is_typed = not (parts.request.mask or data_type.kind == "bool" or (stored and stored.is_text))
    if system.lengths and is_typed and data_type not in system.lengths:
        wanted = f"{' or '.join(each.name for each in system.lengths)}, as {system.name} has lengths"
        raise FormatError(f"DataType is {data_type.name}", wanted, _as_directml(parts), lengths.name)


def asked_axes(parts: Parts) -> tuple[int | None, int | None]:
    """The axis and the batch axis that the request names, counted from 0."""
    rank = len(parts.values.sizes)
    axis, batch_axis = (each if each is None else from_start(each, rank) for each in (parts.axis, parts.batch_axis))
    return axis, batch_axis


def axes_of(parts: Parts) -> tuple[int | None, int | None]:
    """The same, by default those of the system that the request names."""
    (axis, batch_axis), system = asked_axes(parts), parts.request.system
    if system and axis is None:
        axis = system.axis
    if system and batch_axis is None and axis is not None:
        batch_axis = system.batch_for(axis)
    return axis, batch_axis


def _as_directml(parts: Parts) -> str:
    """How to ask for the same without the rules of the system: then its axes and the cast have to be named."""
    asked, (axis, batch_axis) = (parts.axis, parts.batch_axis), axes_of(parts)
    found = zip(("--axis", "--batch-axis"), asked, (axis, batch_axis), strict=True)
    missing = [f"{option} {number}" for option, typed, number in found if typed != number]
    if parts.request.lengths_dtype is None and not parts.request.mask:
        missing.append("--lengths-dtype UINT32")
    added = f", and add {' '.join(missing)}" if missing else ""
    return f"to reverse as DirectML does: leave out --like {parts.request.like}{added}"


def _require_axes_of(system: System, axis: int, batch_axis: int, parts: Parts) -> None:
    """UsageError for axes that the system does not have."""
    if not system.axes:
        return
    hint, where = _as_directml(parts), parts.values.name
    if axis not in system.axes:
        wanted = f"{' or '.join(map(str, system.axes))}, as {system.name} has it"
        raise UsageError(f"the axis is {axis}", wanted, hint, where)
    if batch_axis != system.batch_for(axis):
        wanted = f"{system.batch_for(axis)}, as {system.name} has it with the axis {axis}"
        exchanged = system.batch_axis
        if parts.axis is None and exchanged in system.axes and batch_axis == system.batch_for(exchanged):
            hint = f"add --axis {exchanged}"
        raise UsageError(f"the batch axis is {batch_axis}", wanted, hint, where)


def require_system(job: Job) -> None:
    """FormatError for a length above the axis size, if the system that the request names refuses it."""
    request = job.parts.request if job.parts else None
    if not (request and request.system and request.system.refuses):
        return
    lengths, size = job.given_lengths, job.values.sizes[job.axis]
    for [part], values in pieces(lengths):
        if (above := values > size).any():
            first = int(above.argmax())
            found = f"{values[first]} at [{part.start + first}] is above the axis size {size}"
            wanted = f"at most {size}: {request.system.refuses} refuses it"
            raise FormatError(found, wanted, where=lengths.name)
