"""Jobs: the request that says one, and how two open tensors make it."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from revseq_cli.core.errors import UsageError, listed
from revseq_cli.core.tensors import DataType, TensorDesc, numbers_of
from revseq_cli.formats.contract import Source
from revseq_cli.formats.file_io import Identity
from revseq_cli.formats.references import Reference, refuse_shared
from revseq_cli.operator.spec import INPUT, LENGTHS, FeatureLevel
from revseq_cli.pipeline import SYSTEMS
from revseq_cli.pipeline.alignment import PlacedSource, Places, align, require_batch_axis, require_same_coordinates
from revseq_cli.pipeline.lengths import ScannedSource, unsigned


@dataclass(frozen=True)
class Request:
    """A job as it is asked for, before anything is read; None stands for what is not given.

    `values` and `lengths` name tensors, or are tensors as text. `axis` and `batch_axis` are dimensions of the input, by
    their numbers, negative from the end, or by their names where its file has names. With `mask`, the lengths are the
    numbers of ones in the lines of a mask; with `padding`, they are those of the lines without that value at their
    ends. `like` names one of SYSTEMS, whose axes are the defaults. `format` is the format of inputs whose bytes and
    suffix do not say theirs, or, with `override`, of all inputs. With `absolute`, paths are made absolute, since
    workers may have another working directory. `sizes` are those of an INPUT that is a raw buffer. `feed` names a
    tensor for each input of the model in `values`, as NAME=FILE. `typed` has the command line, which hints repeat.
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
        axis, batch_axis = (_number_of(d, values) for d in (self.axis, self.batch_axis))
        if self.like:
            own_axis, own_batch = SYSTEMS[self.like]
            if axis is None:  # with the other of its two axes as the batch, it is the other one
                axis = own_batch if batch_axis == own_axis else own_axis
            if batch_axis is None:
                if axis == own_batch:
                    batch_axis = own_axis
                elif axis == own_axis or not own_batch:  # batches come first whatever axis is reversed
                    batch_axis = own_batch
                batch_axis = batch_axis if batch_axis is not None and batch_axis < len(values.sizes) else None
        return axis, batch_axis


def _number_of(axis: int | str | None, values: Source) -> int | None:
    """The number of a dimension from 0 on; UsageError for a name unless just one dimension has it."""
    rank = len(values.sizes)
    if not isinstance(axis, str):
        return axis + rank if axis is not None and -rank <= axis < 0 else axis
    numbers = [d for d, name in enumerate(values.dimensions) if name == axis]
    if len(numbers) == 1:
        return numbers[0]
    names, wanted, hint = [*filter(None, values.dimensions)], f"{numbers_of(rank)}, by number", ""
    problem = f"no dimension is named {axis[:80]}"
    if numbers:
        problem = f"{len(numbers)} dimensions are named {axis[:80]}: {listed(map(str, numbers))}"
    elif rank:
        wanted = f"one of {listed(names)}, or {wanted}" if names else f"{wanted}: its dimensions have no names"
    if len(axis) < 80 and axis.isdecimal():  # of another script, or of full width
        hint = f"{axis} is not written in the digits 0 to 9: type {int(axis)}"
    raise UsageError(problem, wanted if rank else "a tensor with dimensions", hint, values.name)


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
        return self.lengths.source if isinstance(self.lengths, PlacedSource) else self.lengths

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
        self.values.recheck()
        self.lengths.recheck()


def make(values: Source, lengths: Source | None, request: Request) -> Job:
    """The job of two open tensors; `lengths` is None where the padding of the values tells them.

    UsageError and FormatError for what makes no job. The constraints are not checked here.
    """
    axis, batch_axis = request.axes(values)
    rank = len(values.sizes)
    if axis is None:
        names = listed(filter(None, values.dimensions))
        wanted = f"the dimension to reverse along, {numbers_of(rank)}" if rank else "a tensor with dimensions"
        raise UsageError("no axis is given", wanted + (f", or {names}" if names else ""), where=values.name)
    if not 0 <= axis < rank and (lengths is None or batch_axis is not None or request.mask):
        # There is no axis that lengths could lack, and the constraints could not tell it.
        if not rank:
            raise UsageError("has no dimensions", "a tensor with dimensions", where=values.name)
        raise UsageError(f"Axis is {axis}", numbers_of(rank), where=values.name)
    places: Places | None
    if lengths is None:
        require_batch_axis(batch_axis, axis, values)
        _require_padding(values, request.padding or 0)
        places = tuple(d for d in range(rank) if d != axis) if batch_axis is None else (batch_axis,)
        lengths = ScannedSource(values, axis, places, request.padding)
    else:
        if request.batch_axis is None and lengths.sizes == (1,):
            batch_axis = None  # one sequence, of which a system's batch axis says nothing
        places = align(values, lengths, axis, batch_axis, mask=request.mask)
        require_same_coordinates(values, lengths, places)
        if request.mask and places:
            along = places.index(axis)
            lengths = ScannedSource(lengths, along, [i for i in range(len(places)) if i != along])
            places = places[:along] + places[along + 1 :]
    lengths_type = request.lengths_dtype or lengths.desc.data_type
    lengths = unsigned(lengths, request.lengths_dtype)
    if places is None or places == tuple(range(rank)):
        return Job(values, lengths, axis, None, request, lengths_type)
    placed = [d for d in places if d is not None]
    batch = placed[0] if len(placed) == 1 else None
    return Job(values, PlacedSource(lengths, values.sizes, axis, places), axis, batch, request, lengths_type)


def _require_padding(values: Source, padding: float) -> None:
    """UsageError for a value that the data type does not have."""
    data_type = values.desc.data_type
    if data_type.kind in ("int", "uint"):
        least, greatest = np.iinfo(values.dtype).min, np.iinfo(values.dtype).max
        if not (least <= padding <= greatest and padding == int(padding)):
            wanted = f"a whole number from {least} to {greatest}, as {data_type.name} has"
            raise UsageError(f"the padding is {padding}", wanted, where=values.name)
