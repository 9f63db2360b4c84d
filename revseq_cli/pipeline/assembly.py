"""Jobs: a reversal of two open tensors, and the request that says how they make one."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.core import platform
from revseq_cli.core.errors import FormatError, UsageError, listed
from revseq_cli.core.tensors import DataType, TensorDesc, numbers_of
from revseq_cli.formats.contract import TextTypes
from revseq_cli.formats.references import Reference, refuse_shared
from revseq_cli.operator.spec import INPUT, LENGTHS, FeatureLevel
from revseq_cli.pipeline.alignment import SYSTEMS, Shape, align
from revseq_cli.pipeline.views import AlignedSource, LengthsSource, MaskSource, PaddingSource, missing_marks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Source
    from revseq_cli.formats.file_io import Identity
    from revseq_cli.pipeline.alignment import Places, System


@dataclass(frozen=True)
class Request:
    """A job as it is asked for, before anything is read; None stands for what is not given.

    `values` and `lengths` name tensors, or are tensors as text. `axis` and `batch_axis` are dimensions of the input, by
    their numbers, negative from the end, or by their names where its file has names. With `mask`, the lengths are the
    numbers of ones in the lines of a mask; with `padding`, they are those of the lines without that value at their
    ends. `like` names one of SYSTEMS, whose axes are the defaults. `level` is the feature level. `format` is the format
    of inputs whose bytes and suffix do not say theirs, or, with `override`, of all inputs. With `absolute`, paths are
    made absolute, since workers may have another working directory. `sizes` are those of an INPUT that is a raw
    buffer. `feed` names a tensor for each input of the model in `values`, as NAME=FILE. `typed` has the words of the
    command line, which hints repeat.
    """

    values: str
    lengths: str | None = None
    axis: int | str | None = None
    dtype: DataType | None = None
    lengths_dtype: DataType | None = None
    batch_axis: int | str | None = None
    like: str | None = None
    level: FeatureLevel = FeatureLevel.NONE
    format: str | None = None
    override: bool = False
    absolute: bool = False
    mask: bool = False
    padding: float | None = None
    sizes: tuple[int, ...] | None = None
    feed: tuple[str, ...] = ()
    typed: tuple[str, ...] = ()

    @property
    def system(self) -> System | None:
        """The system that `like` names."""
        return SYSTEMS[self.like] if self.like else None

    @property
    def types(self) -> TextTypes:
        """What is asked of INPUT where its file does not say it."""
        return TextTypes(self.dtype, DataType.FLOAT32, sizes=self.sizes)

    @property
    def types_of_lengths(self) -> TextTypes:
        """The data type of LENGTHS where they are a text."""
        return TextTypes(self.lengths_dtype, DataType.UINT32, cast_later=True)

    @functools.cached_property
    def references(self) -> tuple[Reference, Reference | None]:
        """References to INPUT and LENGTHS; UsageError where both are one pipe."""
        values = self.reference(self.values, "INPUT")
        if self.lengths is None:
            return values, None
        lengths = self.reference(self.lengths, "LENGTHS")
        refuse_shared([("INPUT", values), ("LENGTHS", lengths)])
        return values, lengths

    def reference(self, text: str, name: str) -> Reference:
        """A reference to one of the job's tensors; `name` is for messages about a text."""
        reference = Reference.input(text, self.format, name, override=self.override)
        return reference.absolute() if self.absolute else reference

    def axes(self, values: Source) -> tuple[int | None, int | None]:
        """The axis and the batch axis, counted from 0, by default those of the system; None where nothing says it.

        UsageError for a name that no dimension has. A number that is out of range stays.
        """
        axis, batch_axis = (_number_of(each, values) for each in (self.axis, self.batch_axis))
        if self.system:
            if axis is None:  # with the other of its two axes as the batch, it is the other one
                axis = self.system.batch_axis if batch_axis == self.system.axis else self.system.axis
            if batch_axis is None and axis is not None:
                batch_axis = self.system.batch_for(axis)
                batch_axis = None if batch_axis == axis or (batch_axis or 0) >= len(values.sizes) else batch_axis
        return axis, batch_axis


def _number_of(axis: int | str | None, values: Source) -> int | None:
    """The number of a dimension from 0 on; UsageError for a name unless just one dimension has it."""
    rank = len(values.sizes)
    if not isinstance(axis, str):
        return axis + rank if axis is not None and -rank <= axis < 0 else axis
    numbers = [d for d, name in enumerate(values.dimensions) if name == axis]
    if len(numbers) == 1:
        return numbers[0]
    if not rank:
        raise UsageError(f"no dimension is named {axis[:80]}", "a tensor with dimensions", where=values.name)
    span = f"{numbers_of(rank)}, by number"
    if numbers:
        found = f"{len(numbers)} dimensions are named {axis[:80]}: {listed(map(str, numbers))}"
        raise UsageError(found, span, where=values.name)
    names = [*filter(None, values.dimensions)]
    wanted = f"one of {listed(names)}, or {span}" if names else f"{span}: its dimensions have no names"
    is_number = len(axis) < 80 and axis.isdecimal()  # of another script, or of full width
    hint = f"{axis} is not written in the digits 0 to 9: type {int(axis)}" if is_number else ""
    raise UsageError(f"no dimension is named {axis[:80]}", wanted, hint, values.name)


@dataclass(frozen=True)
class Job:
    """One reversal: `values` along `axis` by `lengths`, both open, with their headers read.

    The lengths are unsigned, and have the sizes of the values, with 1 along the axis. `lengths_type` is their data type
    as it was given, which feature levels judge; None where it is that of `lengths`. `batch_axis` is the axis that has
    one length for each of its indices, if the lengths were given so.
    """

    values: Source
    lengths: Source
    axis: int
    batch_axis: int | None = None
    request: Request | None = None
    lengths_type: DataType | None = None

    @property
    def descs(self) -> tuple[TensorDesc, TensorDesc, int]:
        """What the constraints are about: the values, the lengths with the data type as given, and the axis."""
        desc = self.lengths.desc
        return self.values.desc, TensorDesc(self.lengths_type or desc.data_type, desc.sizes), self.axis

    @property
    def level(self) -> FeatureLevel:
        """The feature level that was asked for."""
        return self.request.level if self.request else FeatureLevel.NONE

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
        """The lengths in the dimensions in which they were given: of rank 1 with a batch axis."""
        return self.lengths.original if isinstance(self.lengths, AlignedSource) else self.lengths

    def clamping(self, clamped: int) -> tuple[str, ...]:
        """A note that so many of the given lengths exceed the axis size; none for 0."""
        if not clamped:
            return ()
        total, size = self.given_lengths.desc.element_count, self.values.sizes[self.axis]
        exceed, are = ("exceeds", "is") if clamped == 1 else ("exceed", "are")
        noun = "length" if total == 1 else "lengths"
        return (f"{clamped:,} of {total:,} {noun} {exceed} the axis size ({size:,}) and {are} clamped to {size:,}",)

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


def make(values: Source, lengths: Source | None, request: Request) -> Job:
    """The job of two open tensors; `lengths` is None where they are told by the padding of the values.

    UsageError and FormatError for what makes no job. The constraints are not checked here.
    """
    axis, batch_axis = request.axes(values)
    rank = len(values.sizes)
    if axis is None:
        names = [*filter(None, values.dimensions)]
        wanted = f"the dimension to reverse along, {numbers_of(rank)}" if rank else "a tensor with dimensions"
        raise UsageError("no axis is given", wanted + (f", or {listed(names)}" if names else ""), where=values.name)
    if not 0 <= axis < rank and (lengths is None or batch_axis is not None or request.mask):
        # There is no axis that lengths could lack, and the constraints could not tell it.
        if not rank:
            raise UsageError("has no dimensions", "a tensor with dimensions", where=values.name)
        raise UsageError(f"Axis is {axis}", numbers_of(rank), where=values.name)
    places: Places | None
    if lengths is None or request.padding is not None:
        if batch_axis is not None and (not 0 <= batch_axis < rank or batch_axis == axis):
            wanted = f"{numbers_of(rank)}, and not the reversed axis {axis}" if rank > 1 else "two dimensions or more"
            raise UsageError(f"the batch axis is {batch_axis}", wanted, where=values.name)
        lengths = PaddingSource(values, axis, batch_axis, request.padding or 0)
        places = tuple(d for d in range(rank) if d != axis) if batch_axis is None else (batch_axis,)
    else:
        if request.batch_axis is None and lengths.sizes == (1,) and batch_axis is not None:
            batch_axis = None  # one sequence, of which a system's batch axis says nothing
        places = align(Shape.of(values), Shape.of(lengths), axis, batch_axis, mask=request.mask)
        _compare_coordinates(values, lengths, places)
        if request.mask and places:
            along = places.index(axis)
            lengths, places = MaskSource(lengths, along), places[:along] + places[along + 1 :]
    lengths_type = request.lengths_dtype or lengths.desc.data_type
    lengths = unsigned(lengths, request.lengths_dtype)
    if places is None or (places == tuple(range(rank)) and len(places) == len(lengths.sizes)):
        return Job(values, lengths, axis, None, request, lengths_type)
    placed = [d for d in places if d is not None]
    batch = placed[0] if len(placed) == 1 else None
    return Job(values, AlignedSource(lengths, values.sizes, axis, places), axis, batch, request, lengths_type)


def unsigned(lengths: Source, asked: DataType | None) -> Source:
    """Lengths of any number type as unsigned integers, of the type that is `asked` for; reading checks them.

    Those of a type that no lengths have stay as they are, since the constraints refuse them.
    """
    data_type = lengths.desc.data_type
    if data_type.kind in ("bool", "complex"):
        return lengths
    wide = data_type.size == DataType.UINT64.size or data_type.kind == "float"
    own = data_type if data_type.kind == "uint" else DataType.UINT64 if wide else DataType.UINT32
    marks = () if isinstance(lengths, (MaskSource, PaddingSource)) else missing_marks(lengths)
    target = asked or own
    return lengths if target is data_type and not marks else LengthsSource(lengths, target, marks)


def refuse_packed(lengths: Source) -> None:
    """FormatError for lengths that stand for others by the attributes of their file."""
    attributes = lengths.meaning().attributes
    if np.any(attributes.get("scale_factor", 1) != 1) or np.any(attributes.get("add_offset", 0) != 0):
        told = listed(f"{name} {attributes[name]}" for name in ("scale_factor", "add_offset") if name in attributes)
        unpacked = f"xarray.open_dataset({lengths.path!r})[{lengths.key.rpartition('/')[2]!r}].values"
        hint = f"unpack them: python -c \"import numpy, xarray; numpy.save('lengths.npy', {unpacked})\""
        raise FormatError(f"its lengths are packed, by {told}", "lengths as they are", hint, lengths.name)


def _compare_coordinates(values: Source, lengths: Source, places: Places | None) -> None:
    """FormatError where a coordinate of lengths from another file differs: they would go to other lines."""
    if values.path == lengths.path:
        return
    for i, (name, place) in enumerate(zip(lengths.dimensions, places or (), strict=False)):
        if not name or place is None or values.dimensions[place : place + 1] != (name,):
            continue
        own, other = _coordinate(lengths, i), _coordinate(values, place)
        if own is None or other is None or own.shape != other.shape:
            continue
        if own.dtype.kind == other.dtype.kind == "f":
            narrow = min(own.dtype, other.dtype, key=lambda dtype: dtype.itemsize)
            own, other = own.astype(narrow), other.astype(narrow)
        differs = (own != other) & ((own == own) | (other == other))
        if differs.any():
            first = int(differs.argmax())
            found = f"its {name} is not that of {values.name}: {own[first]!s} and {other[first]!s} at [{first}]"
            wanted = "lengths for the same places, in the same order"
            hint = f"if their order is right: revseq convert {platform.typed(lengths.name)} lengths.npy, and use that"
            raise FormatError(found, wanted, hint, lengths.name)


def _coordinate(source: Source, d: int) -> NDArray[Any] | None:
    """The coordinate of a dimension, as numbers or texts; None where there is none to compare."""
    name = source.dimensions[d]
    for variable in source.meaning().coordinates:
        if variable.name == name:
            values = variable.values
            if values.dtype.kind in "SUO":
                return np.array([v.decode(errors="replace") if isinstance(v, bytes) else str(v) for v in values])
            scale, offset = (variable.attributes.get(word, n) for word, n in (("scale_factor", 1), ("add_offset", 0)))
            if scale != 1 or offset != 0:  # in FLOAT64, three times 0.1 would not be 0.3
                return (values * float(scale) + float(offset)).astype(np.float32)
            return values if values.dtype.kind in "biuf" else None
    return None
