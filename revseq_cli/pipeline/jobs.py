"""Jobs: two open tensors, aligned, with the axis along which the values are reversed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NoReturn

from revseq_cli import files
from revseq_cli.core.errors import UsageError, join_names
from revseq_cli.core.tensors import DataType, TensorDesc
from revseq_cli.files.input_file import Identity
from revseq_cli.formats.contract import Source
from revseq_cli.operator.spec import INPUT, LENGTHS, FeatureLevel
from revseq_cli.pipeline.alignment import align, compare_coordinates, require_batch_axis
from revseq_cli.pipeline.lengths import (
    ScannedSource,
    as_unsigned,
    find_missing_values,
    find_padding,
)
from revseq_cli.pipeline.request import NO_BATCH, Request, list_dimensions
from revseq_cli.pipeline.views import AxisMap, PlacedSource


@dataclass(frozen=True)
class Job:
    """One reversal: `values` along `axis` by `lengths`, both open, with their headers read.

    The lengths are unsigned, and have the shape of the values, but 1 along the axis. If one was
    given for each index of another axis, `batch_axis` is that axis. `lengths_type` is the
    data type that the user gave them, which feature levels judge; None if it is that of `lengths`.
    `notes` are about the headers of its inputs, not their elements.
    """

    values: Source
    lengths: Source
    axis: int
    batch_axis: int | None = None
    request: Request | None = None
    lengths_type: DataType | None = None
    notes: tuple[str, ...] = ()

    @property
    def descs(self) -> tuple[TensorDesc, TensorDesc, int]:
        """What the constraints judge: the values, the lengths as given, and the axis."""
        desc = self.lengths.desc
        lengths = TensorDesc(self.lengths_type or desc.data_type, desc.sizes)
        return self.values.desc, lengths, self.axis

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
        """The lengths in the dimensions in which they were given: with a batch axis, of rank 1."""
        if isinstance(self.lengths, PlacedSource):
            return self.lengths.source
        return self.lengths

    def describe_lengths(self, clamped: int, least: int | None) -> tuple[str, ...]:
        """Notes on the inputs of the job and on its lengths.

        `clamped` lengths are greater than the axis size. `least` is the shortest length; None if
        there are no lengths, or if they were not counted.
        """
        size = self.values.sizes[self.axis]
        notes = list(self.notes)
        if clamped:
            total = self.given_lengths.desc.element_count
            verbs = "exceed the axis size and are clamped"
            if clamped == 1:
                verbs = "exceeds the axis size and is clamped"
            note = f"{clamped:,} of {total:,} lengths {verbs} to {size:,}"
            if self.request and self.request.level is not FeatureLevel.NONE:
                note += ", but DirectML itself does not clamp: to see what it does, type check"
            notes.append(note)
        if self.padding is not None and least == size > 0:
            notes.append(self._describe_absent_padding())
        return tuple(notes)

    @property
    def padding(self) -> complex | None:
        """The padding of the values, by which the lengths are found; None if they are given."""
        if self.request is None:
            return None
        return self.request.padding

    def _describe_absent_padding(self) -> str:
        """The note for values in which no sequence ends with padding."""
        note = f"no sequence ends with {self.padding}, so each is reversed as a whole"
        if self.batch_axis is not None and len(self.values.sizes) > 2:
            note = (
                f"no index of axis {self.batch_axis} ends with frames of {self.padding}, "
                "so each is reversed as a whole"
            )
        marks = find_missing_values(self.values)
        if marks:
            note += f"; the fill value of {self.values.name} is {join_names(map(str, marks))}"
        return note

    def recheck(self) -> None:
        """Raise TensorIOError if an input file has changed since its header was read."""
        sources = (self.values, self.lengths)
        files.refresh_states([source.path for source in sources if source.identity])
        self.values.recheck()
        self.lengths.recheck()


def make_job(values: Source, lengths: Source | None, request: Request) -> Job:
    """The job of two open tensors; `lengths` is None if the padding of the values gives them.

    UsageError and FormatError if they do not make a job. The constraints are not checked here.
    """
    axis, batch_axis = request.axes(values)
    rank = len(values.sizes)
    if axis is None:
        raise UsageError("no axis is given", _list_axes(values, request), where=values.name)
    # An axis that is out of range breaks a constraint. It is an error here only if the lengths
    # cannot be placed without it.
    must_place = any([lengths is None, request.mask, batch_axis is not None])
    if must_place and not 0 <= axis < rank:
        raise make_axis_error(values, axis)
    if lengths is None:
        return _make_padded_job(values, axis, batch_axis, request)
    if request.batch_axis is None and lengths.sizes == (1,):
        batch_axis = None  # one length for all sequences: the batch axis of `like` does not matter
    axis_map = align(values, lengths, axis, batch_axis, mask=request.mask)
    notes = (*values.notes, *lengths.notes, *compare_coordinates(values, lengths))
    if request.mask and axis_map:
        time = axis_map.index(axis)  # the dimension of the mask along the axis
        kept = [i for i in range(len(axis_map)) if i != time]
        lengths = ScannedSource(lengths, time, kept)
        axis_map = tuple(axis_map[i] for i in kept)
    lengths_type = request.lengths_dtype or lengths.desc.data_type
    lengths = as_unsigned(lengths, request.lengths_dtype)
    job = Job(values, lengths, axis, None, request, lengths_type, notes)
    return _place_lengths(job, axis_map)


def make_axis_error(values: Source, axis: int, hint: str = "") -> UsageError:
    """The error for an axis that is out of range."""
    rank = len(values.sizes)
    expected = "a tensor with dimensions"
    if rank:
        expected = f"{-rank} to {rank - 1}"
    return UsageError(f"axis {str(axis)[:40]} is out of range", expected, hint, values.name)


def _list_axes(values: Source, request: Request) -> str:
    """The option for the axis with what it takes, for an error."""
    dimensions = list_dimensions(values)
    if not values.sizes:
        return dimensions
    name = "axis" if request.in_python else "--axis"
    return f"{name} {dimensions}"


def _place_lengths(job: Job, axis_map: AxisMap | None) -> Job:
    """The job with its lengths repeated along the axes of the values that the map lacks.

    Without a map, they do not fit, and a constraint says so.
    """
    rank = len(job.values.sizes)
    if axis_map is None or axis_map == tuple(range(rank)):
        return job
    axes = [d for d in axis_map if d is not None]
    batch_axis = None
    if len(axes) == 1:
        (batch_axis,) = axes
    placed = PlacedSource(job.lengths, job.values.sizes, job.axis, axis_map)
    return replace(job, lengths=placed, batch_axis=batch_axis)


def _make_padded_job(
    values: Source,
    axis: int,
    batch_axis: int | None,
    request: Request,
) -> Job:
    """The job whose lengths are found by the padding of the values."""
    assert request.padding is not None  # noqa: S101 - for mypy
    require_batch_axis(batch_axis, axis, values)
    is_unclear = batch_axis is None and request.batch_axis != NO_BATCH
    if is_unclear and len(values.sizes) > 2:
        _refuse_unclear_padding(values, axis, request)
    marks = find_padding(values, request.padding)
    kept = tuple(d for d in range(len(values.sizes)) if d != axis)
    if batch_axis is not None:
        kept = (batch_axis,)
    lengths = as_unsigned(ScannedSource(values, axis, kept, marks), request.lengths_dtype)
    lengths_type = request.lengths_dtype or lengths.desc.data_type
    job = Job(values, lengths, axis, None, request, lengths_type, values.notes)
    axis_map: AxisMap = kept  # the lengths run along the dimensions that are kept
    return _place_lengths(job, axis_map)


def _refuse_unclear_padding(values: Source, axis: int, request: Request) -> NoReturn:
    """UsageError that lists both readings of padding in three dimensions or more.

    If each sequence is taken for itself, the zeros inside frames count as padding, and frames of
    several elements are torn apart.
    """
    batch_axis = 0
    if axis == 0:
        batch_axis = 1
    keep = request.option("--batch-axis", str(batch_axis))
    tear = request.option("--batch-axis", NO_BATCH)
    padding = "padding" if request.in_python else "--padding"
    raise UsageError(
        f"with {len(values.sizes)} dimensions, {padding} can mean two things",
        hint="add the one that is meant:\n"
        f"  one length for each index of axis {batch_axis}, so that frames stay whole: {keep}\n"
        f"  a length of its own for each sequence along axis {axis}: {tear}",
        where=values.name,
    )
