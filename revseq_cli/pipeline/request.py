"""A request: a job as the user asks for it, before any file is read."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from revseq_cli.core.errors import UsageError, join_names
from revseq_cli.core.tensors import DataType, numbers_of
from revseq_cli.formats.contract import Source
from revseq_cli.formats.pipes import refuse_shared
from revseq_cli.formats.references import Reference
from revseq_cli.operator.spec import SYSTEMS, FeatureLevel

NO_BATCH = "none"  # what the user types as the batch axis to say that there is none


@dataclass(frozen=True)
class Request:
    """A job as the user asks for it, before anything is read; None for what is not given."""

    # INPUT and LENGTHS: names of tensors, or tensors as text.
    values: str
    lengths: str | None = None
    # Dimensions of INPUT: numbers, negative from the end, or names. The batch axis may be NO_BATCH.
    axis: int | str | None = None
    batch_axis: int | str | None = None
    like: str | None = None  # one of SYSTEMS, whose axes are the defaults
    # LENGTHS is a mask: a length is the number of ones in a sequence.
    mask: bool = False
    # A length is the number of elements up to the last one that differs from this number.
    padding: complex | None = None
    dtype: DataType | None = None
    lengths_dtype: DataType | None = None
    text_type: DataType = DataType.FLOAT32  # of an INPUT in text that states none
    sizes: tuple[int, ...] | None = None  # the shape of an INPUT that is a raw buffer
    level: FeatureLevel = FeatureLevel.NONE
    # The format of inputs whose first bytes and suffix do not say it; if forced, of all inputs.
    input_format: str | None = None
    forces_format: bool = False
    output_format: str | None = None  # if it is not that of the output's suffix
    absolute: bool = False  # paths become absolute, for workers with another working directory
    feed: tuple[str, ...] = ()  # NAME=FILE for each input of the model that INPUT is in
    typed: tuple[str, ...] = ()  # the command line, which hints repeat
    in_python: bool = False  # a program asks, so that hints name its parameters

    @functools.cached_property
    def references(self) -> tuple[Reference, Reference | None]:
        """References to INPUT and LENGTHS; UsageError if both are one pipe."""
        values = self.reference(self.values, "INPUT")
        if self.lengths is None:
            return values, None
        lengths = self.reference(self.lengths, "LENGTHS")
        refuse_shared([("INPUT", values), ("LENGTHS", lengths)])
        return values, lengths

    def reference(self, text: str, name: str) -> Reference:
        """A reference to one of the job's tensors; `name` is for messages about a text."""
        reference = Reference.input(text, self.input_format, name, forces_format=self.forces_format)
        return reference.absolute() if self.absolute else reference

    def axes(self, values: Source) -> tuple[int | None, int | None]:
        """The axis and the batch axis, from 0; None if neither the user nor `like` states it.

        UsageError for a name that no dimension has. A number that is out of range stays as it is.
        """
        axis = _find_dimension(self.axis, values)
        if self.batch_axis == NO_BATCH:
            if NO_BATCH in values.dimensions:
                found = f"{NO_BATCH} is a dimension, but also means that there is no batch axis"
                raise UsageError(found, "the number of the dimension", where=values.name)
            if axis is None and self.like:
                axis, _ = SYSTEMS[self.like]
            return axis, None
        batch_axis = _find_dimension(self.batch_axis, values)
        if self.like is None:
            return axis, batch_axis
        return _complete_axes(self.like, axis, batch_axis, len(values.sizes))

    def option(self, name: str, value: str = "") -> str:
        """An option as the user types it: `--batch-axis 0`, or in Python `batch_axis=0`."""
        if not self.in_python:
            return f"{name} {value}".strip()
        argument = value or "True"
        if value and not value.lstrip("-").isdecimal():
            argument = repr(value)
        return f"{name.removeprefix('--').replace('-', '_')}={argument}"


def _complete_axes(
    like: str, axis: int | None, batch_axis: int | None, rank: int
) -> tuple[int, int | None]:
    """The axis and the batch axis, those that are not typed by the layout of a system.

        typed             time first (0, 1)         batch first (1, 0)
        none              axis 0, batch axis 1      axis 1, batch axis 0
        axis 0            batch axis 1              batch axis 1
        axis 1            batch axis 0              batch axis 0
        axis 2            no batch axis             batch axis 0
        batch axis 0      axis 1                    axis 1
        batch axis 1      axis 0                    axis 0
        batch axis 2      axis 0                    axis 1

    There is no batch axis if the tensor has too few dimensions.
    """
    system_axis, system_batch = SYSTEMS[like]
    if axis is None:
        axis = system_axis
        if batch_axis == system_axis:
            axis = system_batch
    if batch_axis is not None:
        return axis, batch_axis
    if axis == system_batch:
        batch_axis = system_axis
    elif axis == system_axis or system_batch == 0:  # a batch that is first stays so for any axis
        batch_axis = system_batch
    if batch_axis is not None and batch_axis >= rank:
        return axis, None
    return axis, batch_axis


def _find_dimension(axis: int | str | None, values: Source) -> int | None:
    """The number of a dimension from 0 on; UsageError unless exactly one dimension has its name."""
    rank = len(values.sizes)
    if isinstance(axis, str):
        numbers = [d for d, name in enumerate(values.dimensions) if name == axis]
        if len(numbers) == 1:
            return numbers[0]
        found = "no dimension is named"
        if numbers:
            found = f"{len(numbers)} dimensions are named"
        raise UsageError(f"{found} {axis[:80]}", list_dimensions(values), where=values.name)
    if axis is not None and -rank <= axis < 0:
        return axis + rank
    return axis


def list_dimensions(values: Source) -> str:
    """The numbers and the names of the dimensions, for an error."""
    if not values.sizes:
        return "a tensor with dimensions"
    numbers = numbers_of(len(values.sizes))
    names = [name for name in values.dimensions if name]
    if not names:
        return numbers
    return f"one of {join_names(names)}, or {numbers}"
