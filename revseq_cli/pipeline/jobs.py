"""Jobs: what the user asks for (Request), and what is then open and aligned (Job)."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, NoReturn, TypeAlias

import numpy as np

from revseq_cli import files
from revseq_cli.core import platform
from revseq_cli.core.errors import (
    FormatError,
    RevseqError,
    UsageError,
    about,
    listed,
    printable,
)
from revseq_cli.core.tensors import DataType, TensorDesc, numbers_of
from revseq_cli.files.base import Identity
from revseq_cli.formats.contents import number_of, try_hint
from revseq_cli.formats.contract import Source, TextTypes
from revseq_cli.formats.pipes import refuse_shared
from revseq_cli.formats.references import Reference, open_source
from revseq_cli.formats.table import TEXT
from revseq_cli.operator.spec import INPUT, LENGTHS, SYSTEMS, FeatureLevel, lengths_sizes
from revseq_cli.pipeline.alignment import (
    AxisMap,
    PlacedSource,
    align,
    compare_coordinates,
    require_batch_axis,
)
from revseq_cli.pipeline.lengths import (
    ScannedSource,
    as_unsigned,
    find_missing_values,
    find_padding,
    refuse_scaled,
)
from revseq_cli.pipeline.views import as_bytes

if TYPE_CHECKING:
    from revseq_cli.formats.onnx import NodeJob
    from revseq_cli.text.examples import Example, Text

    CompleteJob: TypeAlias = "NodeJob | ExampleText"


NO_BATCH = "none"  # a batch axis that is typed: there is none


@dataclass(frozen=True)
class Request:
    """A job as the user asks for it, before anything is read; None for what is not given.

    `values` and `lengths` name tensors, or are tensors as text. `axis` and `batch_axis` are
    dimensions of INPUT: numbers, negative from the end, or names. The batch axis may also be
    NO_BATCH, which says that there is none. With `mask`, a length is the number of ones in a
    sequence of a mask. With `padding`, it is the number of elements of a sequence of INPUT up to
    the last one that differs from that value. `like` names one of SYSTEMS, whose axes are the
    defaults. `format` is the format of inputs whose first bytes and suffix do not say theirs; with
    `override`, of all inputs. With `absolute`, paths become absolute, because workers may have
    another working directory. `sizes` is the shape of an INPUT that is a raw buffer. `feed` names
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
    format: str | None = None
    override: bool = False
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
        reference = Reference.input(text, self.format, name, override=self.override)
        return reference.absolute() if self.absolute else reference

    def axes(self, values: Source) -> tuple[int | None, int | None]:
        """The axis and the batch axis, counted from 0; None where neither the user nor `like` says.

        UsageError for a name that no dimension has. A number that is out of range stays.
        """
        axis = _find_dimension(self.axis, values)
        if self.batch_axis == NO_BATCH:
            if axis is None and self.like:
                axis, _ = SYSTEMS[self.like]
            return axis, None
        batch_axis = _find_dimension(self.batch_axis, values)
        if self.like is None:
            return axis, batch_axis
        own_axis, own_batch = SYSTEMS[self.like]
        if axis is None:
            axis = own_axis
            if batch_axis == own_axis:
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
        raise UsageError(f"{problem} {axis[:80]}", _list_dimensions(values), where=values.name)
    if axis is not None and -rank <= axis < 0:
        return axis + rank
    return axis


def _list_dimensions(values: Source) -> str:
    """The numbers and the names of the dimensions, for an error."""
    if not values.sizes:
        return "a tensor with dimensions"
    numbers = numbers_of(len(values.sizes))
    names = [name for name in values.dimensions if name]
    if not names:
        return numbers
    return f"one of {listed(names)}, or {numbers}"


# Tensors


def open_tensors(request: Request) -> tuple[Source, Source | None, Request]:
    """The tensors of a job, and the request with the axes that an example or a model states.

    Only headers are read, but of texts all. The lengths are None if the padding gives them.
    """
    reference, lengths_reference = request.references
    complete: CompleteJob | None = None
    if reference.is_onnx_model:
        from revseq_cli.formats.onnx import NodeJob  # few files are models

        complete = node = NodeJob(reference, request.feed, lengths_reference)
        if not lengths_reference and request.batch_axis is None:
            request = replace(request, batch_axis=node.batch_axis())
    elif request.feed:
        raise UsageError(
            "--feed is only for ONNX models",
            hint="to name a node of a model, type INPUT as model.onnx::name",
            where=reference.name,
        )
    else:
        complete = find_example(reference)
        if complete and complete.example.problem:
            raise complete.example.problem.about(complete.text.name)
    types = TextTypes(request.dtype, request.text_type, request.sizes)
    if complete:
        values = complete.tensor(INPUT, types)
        if request.axis is None:
            request = replace(request, axis=complete.axis())
    else:
        values = open_source(reference, types)
    values = _require_type(values, request.dtype)
    refuse_sizes([reference], request.sizes)
    if request.padding is not None:
        _refuse_lengths(request, lengths_reference, values)
        return values, None, request
    lengths = _open_lengths(request, lengths_reference, complete, values)
    if not request.mask:
        refuse_scaled(lengths)
    return values, lengths, request


def _refuse_lengths(request: Request, reference: Reference | None, values: Source) -> None:
    """UsageError for lengths that are given together with --padding."""
    if request.mask:
        raise UsageError(
            "--padding and --mask cannot be combined",
            hint="to find the lengths in INPUT, leave out --mask",
            where=values.name,
        )
    if reference:
        raise UsageError(
            "--padding and LENGTHS cannot be combined",
            hint=f"to find the lengths in INPUT, leave out {platform.typed(reference.name)}",
            where=values.name,
        )


def _open_lengths(
    request: Request,
    reference: Reference | None,
    complete: CompleteJob | None,
    values: Source,
) -> Source:
    """The lengths from their own file, or from the example or the model that INPUT is."""
    types = TextTypes(request.lengths_dtype, DataType.UINT32)
    if reference:
        if reference.is_bare:
            types = _find_types_of_bare(request, reference, values)
        try:
            return open_source(reference, types)
        except RevseqError as error:
            hint = _find_attribute(reference)
            if hint:
                error.hint = hint
            raise
    if complete:
        return complete.tensor(LENGTHS, types)
    raise UsageError(
        "no lengths are given",
        "LENGTHS after INPUT, or --padding",
        _find_attribute_with_lengths(values),
        values.name,
    )


def _find_attribute(reference: Reference) -> str:
    """A hint for a name such as x.h5::/x/lengths, where lengths is an attribute of x; else ""."""
    if not reference.key or "/" not in reference.key.strip("/"):
        return ""
    key, _, attribute = reference.key.rpartition("/")
    try:
        source = open_source(replace(reference, key=key), TextTypes(None, DataType.UINT32))
    except RevseqError:
        return ""
    meaning = source.meaning()
    if meaning is None or attribute not in meaning.attributes:
        return ""
    return _write_attribute_hint(attribute, source)


def _find_attribute_with_lengths(values: Source) -> str:
    """A hint that names an attribute of INPUT with as many whole numbers as a dimension; else ""."""
    meaning = values.meaning()
    if meaning is None:
        return ""
    for name, value in meaning.attributes.items():
        numbers = np.asarray(value)
        if numbers.dtype.kind not in "iu" or numbers.size < 2:
            continue
        if numbers.size in values.sizes and numbers.min() >= 0:
            return _write_attribute_hint(name, values)
    return ""


def _write_attribute_hint(attribute: str, source: Source) -> str:
    command = f"revseq show --json {platform.typed(source.name)}"
    return (
        f"its attribute {printable(attribute)} is not a tensor: "
        f"to see its numbers and type them as LENGTHS, {command}"
    )


def _find_types_of_bare(request: Request, reference: Reference, values: Source) -> TextTypes:
    """The shape of lengths in a raw buffer, and the data type with which they fill the buffer."""
    axis, batch_axis = request.axes(values)
    rank = len(values.sizes)
    axes = [d for d in (axis, batch_axis) if d is not None]
    if axis is None or not all(0 <= d < rank for d in axes):
        return TextTypes(None, DataType.UINT32, sizes=(-1,))
    types = [DataType.UINT32, DataType.UINT64]
    shapes = [lengths_sizes(values.sizes, axis)]
    if request.mask:
        types = [DataType.UINT8, *types]
        shapes = [values.sizes]
        if batch_axis is not None:
            shapes.append(tuple(values.sizes[d] for d in sorted(axes)))
    elif batch_axis is not None:
        shapes = [(values.sizes[batch_axis],)]
    with files.open_file(reference.path) as fd:
        total = fd.identity.size
    for sizes in shapes:
        for data_type in types:
            if data_type.size * prod(sizes) == total:
                return TextTypes(None, data_type, sizes=sizes)
    return TextTypes(None, types[0], sizes=shapes[0])


def load_tensor(request: Request, name: str, *, like: TensorDesc | None = None) -> Source:
    """Open one tensor: the values of the request, which messages call `name` if they are text.

    A raw buffer without a shape and a data type has those of `like`, and a text without a data type
    has its type. UsageError if the request states another data type than the file.
    """
    reference = request.reference(request.values, name)
    types = TextTypes(request.dtype, request.text_type, request.sizes)
    if like:
        types = types._replace(default=like.data_type)
    if like and reference.is_bare:
        types = types._replace(sizes=types.sizes or like.sizes)
    return _require_type(open_source(reference, types), request.dtype)


def load_pair(a: Request, b: Request) -> tuple[Source, Source]:
    """Open two tensors to compare.

    A raw buffer is read like the other tensor, and so is a text that states no data type. The
    numbers of two such texts keep their digits.
    """
    a_reference = a.reference(a.values, "A")
    b_reference = b.reference(b.values, "B")
    if b_reference.is_bare or not (a_reference.is_bare or a_reference.row.is_text):
        first = load_tensor(a, "A")
        return first, load_tensor(b, "B", like=first.desc)
    second = load_tensor(replace(b, text_type=DataType.FLOAT64), "B")
    first = load_tensor(a, "A", like=second.desc)
    if second.assumes_type and not first.assumes_type:
        second = load_tensor(b, "B", like=first.desc)
    return first, second


def read_like(request: Request, a: Request) -> Request:
    """The request of a job whose output is compared with A.

    If INPUT is text that states no data type, it has the float type of A. Two such texts keep their
    digits.
    """
    a_reference = a.reference(a.values, "A")
    own = request.references[0]
    if own.is_onnx_model or a_reference.is_bare or not own.row.is_text:
        return request
    text_type = load_tensor(replace(a, text_type=DataType.FLOAT64), "A").desc.data_type
    if text_type not in (DataType.FLOAT32, DataType.FLOAT64):
        return request
    return replace(request, text_type=text_type)


def refuse_sizes(tensors: Sequence[Reference], sizes: tuple[int, ...] | None) -> None:
    """UsageError for --sizes if none of the tensors is a raw buffer."""
    if sizes is None or any(tensor.is_bare for tensor in tensors):
        return
    raise UsageError(
        "--sizes is only for raw buffers, such as x.bin",
        hint="to take the shape of the file, leave out --sizes",
        where=tensors[0].name,
    )


def _require_type(source: Source, dtype: DataType | None) -> Source:
    """The tensor; UsageError if `dtype` is not its data type, except that BOOL can be read as UINT8."""
    own = source.desc.data_type
    if own is DataType.BOOL and dtype is DataType.UINT8:
        return as_bytes(source)
    if dtype and own is not dtype:
        raise UsageError(
            f"its data type is {own.name}, not {dtype.name}, and --dtype does not cast",
            hint=f"to read it as {own.name}, leave out --dtype",
            where=source.name,
        )
    return source


@dataclass(frozen=True)
class ExampleText:
    """An example, and the text that it is in."""

    text: Text
    example: Example

    def tensor(self, role: str, types: TextTypes) -> Source:
        """The tensor with that name in the operator; FormatError if the example lacks it."""
        from revseq_cli.formats.text import notation_source  # most jobs are not text

        try:
            item = self.example.tensor(role)
        except FormatError as e:
            if role == LENGTHS:
                name = platform.typed(self.text.name)
                e.hint = f"to use lengths of a file, add LENGTHS: {name} lengths.npy"
            raise e.about(self.text.name) from None
        return notation_source(self.text, item, types)

    def axis(self) -> int | None:
        """The axis; None without an Axis line, FormatError for one that is not an integer."""
        with about(self.text.name):
            return self.example.axis()


def find_example(reference: Reference) -> ExampleText | None:
    """The example that a reference such as `example.txt` or `page.md::2` names; None if none.

    UsageError for a number that the page does not have, and for a page with several examples if
    the reference has no number.
    """
    if reference.inline is not None or reference.row is not TEXT:
        return None
    number = number_of(reference.key)
    if reference.key and number is None:
        return None
    text = reference.text
    examples = text.examples
    if number is not None:
        return ExampleText(text, text.example(number))
    if not examples:
        return None
    if len(examples) > 1:
        keys: list[str] = []
        if not reference.is_piped:
            keys = [str(i) for i in range(1, len(examples) + 1)]
        raise UsageError(
            f"has {len(examples)} examples",
            "the number of one of them",
            try_hint(text.name, *keys),
            reference.name,
        )
    return ExampleText(text, text.example(1))


# Jobs


@dataclass(frozen=True)
class Job:
    """One reversal: `values` along `axis` by `lengths`, both open, with their headers read.

    The lengths are unsigned, and have the shape of the values, but 1 along the axis.
    `lengths_type` is the data type that the user gave them, which feature levels judge; None if it
    is that of `lengths`. `batch_axis` is the axis that has one length for each of its indices, if
    the lengths were given so. `notes` are about its inputs, whatever their elements are.
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
            verb = "exceeds" if clamped == 1 else "exceed"
            are = "is" if clamped == 1 else "are"
            notes.append(
                f"{clamped:,} of {total:,} lengths {verb} the axis size and {are} clamped to {size:,}"
            )
        if self.is_padded and least is not None and least == size > 0:
            notes.append(self._describe_absent_padding())
        return tuple(notes)

    @property
    def is_padded(self) -> bool:
        """Whether the lengths are found by the padding of the values."""
        return self.request is not None and self.request.padding is not None

    def _describe_absent_padding(self) -> str:
        """The note for values in which no sequence ends with padding."""
        assert self.request  # noqa: S101 - for mypy
        padding = self.request.padding
        note = f"no sequence ends with {padding}, so each is reversed as a whole"
        if self.batch_axis is not None and len(self.values.sizes) > 2:
            note = (
                f"no index of axis {self.batch_axis} ends with frames of {padding}, "
                "so each is reversed as a whole"
            )
        marks = find_missing_values(self.values)
        if marks:
            note += f"; the fill value of {self.values.name} is {listed(map(str, marks))}"
        return note

    def recheck(self) -> None:
        """Raise TensorIOError if an input file has changed since its header was read."""
        self.values.recheck()
        self.lengths.recheck()


def make_job(values: Source, lengths: Source | None, request: Request) -> Job:
    """The job of two open tensors; `lengths` is None if the padding of the values gives them.

    UsageError and FormatError if they are no job. The constraints are not checked here.
    """
    axis, batch_axis = request.axes(values)
    rank = len(values.sizes)
    if axis is None:
        raise UsageError("no axis is given", _list_axes(values, request), where=values.name)
    is_needed = lengths is None or batch_axis is not None or request.mask
    if not 0 <= axis < rank and is_needed:
        # Otherwise the constraints report it.
        raise UsageError(*describe_axis(axis, rank), where=values.name)
    if lengths is None:
        return _make_padded_job(values, axis, batch_axis, request)
    if request.batch_axis is None and lengths.sizes == (1,):
        batch_axis = None  # one length for all sequences: the batch axis of `like` is no matter
    axis_map = align(values, lengths, axis, batch_axis, mask=request.mask)
    notes = (*values.notes, *lengths.notes, *compare_coordinates(values, lengths))
    if request.mask and axis_map:
        along = axis_map.index(axis)
        kept = [i for i in range(len(axis_map)) if i != along]
        lengths = ScannedSource(lengths, along, kept)
        axis_map = tuple(axis_map[i] for i in kept)
    lengths_type = request.lengths_dtype or lengths.desc.data_type
    lengths = as_unsigned(lengths, request.lengths_dtype)
    return _place_lengths(
        Job(values, lengths, axis, None, request, lengths_type, notes),
        axis_map,
    )


def describe_axis(axis: int, rank: int) -> tuple[str, str]:
    """What is wrong with an axis that is out of range, and what is expected."""
    expected = "a tensor with dimensions"
    if rank:
        expected = f"{-rank} to {rank - 1}"
    return f"axis {str(axis)[:40]} is out of range", expected


def _list_axes(values: Source, request: Request) -> str:
    """The option for the axis with what it takes, for an error."""
    dimensions = _list_dimensions(values)
    if not values.sizes:
        return dimensions
    name = "axis" if request.in_python else "--axis"
    return f"{name} {dimensions}"


def _place_lengths(job: Job, axis_map: AxisMap | None) -> Job:
    """The job with its lengths repeated along the axes of the values that the map lacks."""
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
    if len(values.sizes) > 2 and batch_axis is None and request.batch_axis != NO_BATCH:
        _refuse_unclear_frames(values, axis, request)
    marks = find_padding(values, request.padding)
    kept = tuple(d for d in range(len(values.sizes)) if d != axis)
    if batch_axis is not None:
        kept = (batch_axis,)
    lengths = as_unsigned(ScannedSource(values, axis, kept, marks), request.lengths_dtype)
    lengths_type = request.lengths_dtype or lengths.desc.data_type
    job = Job(values, lengths, axis, None, request, lengths_type, values.notes)
    return _place_lengths(job, kept)


def _refuse_unclear_frames(values: Source, axis: int, request: Request) -> NoReturn:
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
