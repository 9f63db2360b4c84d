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

NO_BATCH = "none"  # a batch axis that is typed: there is none


@dataclass(frozen=True)
class Request:
    """A job as the user asks for it, before anything is read; None for what is not given.

    `values` and `lengths` name tensors, or are tensors as text. `axis` and `batch_axis` are
    dimensions of INPUT: numbers, negative from the end, or names. The batch axis may also be
    NO_BATCH, which says that there is none. With `mask`, a length is the number of ones in a
    sequence of a mask. With `padding`, it is the number of elements of a sequence of INPUT up to
    the last one that differs from that value. `like` names one of SYSTEMS, whose axes are the
    defaults. `input_format` is the format of inputs whose first bytes and suffix do not say theirs;
    with `forces_format`, of all inputs. `output_format` is that of the output, if it is not its
    suffix's. With `absolute`, paths become absolute, because workers may have another working
    directory. `sizes` is the shape of an INPUT that is a raw buffer. `feed` names
    a tensor for each input of the model in `values`, as NAME=FILE. `typed` is the command line,
    which hints repeat. `in_python` says that a program asks, so that hints name its parameters.
    `text_type` is the data type of an INPUT in text that states none.
    """

    values: str
    lengths: str | None = None
    axis: int | str | None = None
    dtype: DataType | None = None
    lengths_dtype: DataType | None = None
    batch_axis: int | str | None = None
    like: str | None = None
    level: FeatureLevel = FeatureLevel.NONE
    input_format: str | None = None
    output_format: str | None = None
    forces_format: bool = False
    absolute: bool = False
    mask: bool = False
    padding: complex | None = None
    sizes: tuple[int, ...] | None = None
    feed: tuple[str, ...] = ()
    typed: tuple[str, ...] = ()
    in_python: bool = False
    text_type: DataType = DataType.FLOAT32

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
        reference = Reference.input(text, self.input_format, name, forces_format=self.forces_format)
        return reference.absolute() if self.absolute else reference

    def axes(self, values: Source) -> tuple[int | None, int | None]:
        """The axis and the batch axis, from 0; None where neither the user nor `like` states it.

        UsageError for a name that no dimension has. A number that is out of range stays as it is.
        """
        axis = _find_dimension(self.axis, values)
        if self.batch_axis == NO_BATCH:
            if NO_BATCH in values.dimensions:
                problem = f"{NO_BATCH} is a dimension, but also means that there is no batch axis"
                raise UsageError(problem, "the number of the dimension", where=values.name)
            if axis is None and self.like:
                axis, _ = SYSTEMS[self.like]
            return axis, None
        batch_axis = _find_dimension(self.batch_axis, values)
        if self.like is None:
            return axis, batch_axis
        own_axis, own_batch = SYSTEMS[self.like]
        if axis is None:
            axis = own_axis
            if batch_axis == own_axis:  # the user swaps the axes of the system
                axis = own_batch
        if batch_axis is None:
            batch_axis = _choose_batch_axis(self.like, axis, len(values.sizes))
        return axis, batch_axis

    def option(self, name: str, value: str = "") -> str:
        """An option as the user types it: `--batch-axis 0`, or in Python `batch_axis=0`."""
        if not self.in_python:
            return f"{name} {value}".strip()
        argument = value or "True"
        if value and not value.lstrip("-").isdecimal():
            argument = repr(value)
        return f"{name.removeprefix('--').replace('-', '_')}={argument}"


def _choose_batch_axis(like: str, axis: int, rank: int) -> int | None:
    """The batch axis of a system for a reversed axis; None where the system does not say one."""
    own_axis, own_batch = SYSTEMS[like]
    batch_axis = None
    if axis == own_batch:
        batch_axis = own_axis
    elif axis == own_axis or own_batch == 0:  # batches come first whatever axis is reversed
        batch_axis = own_batch
    if batch_axis is None or batch_axis >= rank:
        return None
    return batch_axis


def _find_dimension(axis: int | str | None, values: Source) -> int | None:
    """The number of a dimension from 0 on; UsageError unless exactly one dimension has its name."""
    rank = len(values.sizes)
    if isinstance(axis, str):
        numbers = [d for d, name in enumerate(values.dimensions) if name == axis]
        if len(numbers) == 1:
            return numbers[0]
        problem = "no dimension is named"
        if numbers:
            problem = f"{len(numbers)} dimensions are named"
        raise UsageError(f"{problem} {axis[:80]}", list_dimensions(values), where=values.name)
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
