"""Jobs: the request that says one, the tensors that it names, and how two open tensors make it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from revseq_cli import files
from revseq_cli.core import platform
from revseq_cli.core.errors import FormatError, UsageError, about, listed
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
    require_batch_axis,
    require_same_coordinates,
)
from revseq_cli.pipeline.lengths import ScannedSource, as_unsigned, refuse_scaled
from revseq_cli.pipeline.views import as_bytes

if TYPE_CHECKING:
    from revseq_cli.formats.onnx import NodeJob
    from revseq_cli.text.examples import Example, Text


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
                elif (
                    axis == own_axis or not own_batch
                ):  # batches come first whatever axis is reversed
                    batch_axis = own_batch
                batch_axis = (
                    batch_axis
                    if batch_axis is not None and batch_axis < len(values.sizes)
                    else None
                )
        return axis, batch_axis


def _number_of(axis: int | str | None, values: Source) -> int | None:
    """The number of a dimension from 0 on; UsageError for a name unless just one dimension has it."""
    rank = len(values.sizes)
    if not isinstance(axis, str):
        return axis + rank if axis is not None and -rank <= axis < 0 else axis
    numbers = [d for d, name in enumerate(values.dimensions) if name == axis]
    if len(numbers) == 1:
        return numbers[0]
    problem = f"{len(numbers)} dimensions are named" if numbers else "no dimension is named"
    raise UsageError(f"{problem} {axis[:80]}", _dimensions_of(values), where=values.name)


def _dimensions_of(values: Source) -> str:
    """What names a dimension, in words."""
    if not values.sizes:
        return "a tensor with dimensions"
    numbers, names = (
        f"{numbers_of(len(values.sizes))}, by number",
        [*filter(None, values.dimensions)],
    )
    return f"one of {listed(names)}, or {numbers}" if names else numbers


# Tensors


def opened(request: Request) -> tuple[Source, Source | None, Request]:
    """The tensors of a job, and the request with the axes that an example or a model has.

    Headers are read, texts whole, each once. The lengths are None where the padding of the values tells them.
    """
    reference, lengths_reference = request.references
    whole: NodeJob | ExampleText | None = None
    if reference.is_onnx_model:
        from revseq_cli.formats.onnx import NodeJob  # few files are models

        whole = node = NodeJob(reference, request.feed, lengths_reference)
        if not lengths_reference and request.batch_axis is None:
            request = replace(request, batch_axis=node.batch_axis())
    elif request.feed:
        problem = f"{reference.name} is not a model, and has no inputs to feed"
        raise UsageError(problem, "INPUT such as model.onnx::name", "leave out --feed")
    else:
        whole = example_of(reference)
        if whole and whole.example.problem:
            raise whole.example.problem.about(whole.text.name)
    types = TextTypes(request.dtype, DataType.FLOAT32, request.sizes)
    values = _typed(
        whole.tensor(INPUT, types) if whole else open_source(reference, types), request.dtype
    )
    if whole and request.axis is None:
        request = replace(request, axis=whole.axis())
    refuse_sizes([reference], request.sizes)
    return values, _opened_lengths(request, lengths_reference, whole, values), request


def _opened_lengths(
    request: Request,
    reference: Reference | None,
    whole: NodeJob | ExampleText | None,
    values: Source,
) -> Source | None:
    types = TextTypes(request.lengths_dtype, DataType.UINT32)
    if request.padding is not None:
        if reference or request.mask:
            wanted = f"no {'LENGTHS' if reference else '--mask'} with it"
            raise UsageError(
                "--padding takes the lengths from the values", wanted, where=values.name
            )
        return None
    if reference:
        lengths = open_source(
            reference, _types_of_bare(request, reference, values) if reference.is_bare else types
        )
    elif whole:
        lengths = whole.tensor(LENGTHS, types)
    else:
        wanted = "a tensor of lengths, --padding, or an INPUT that is a complete job or a model"
        hint = "add LENGTHS after INPUT; in a batch, give each job its lengths"
        raise UsageError("no lengths are given", wanted, hint, values.name)
    if not request.mask:
        refuse_scaled(lengths)
    return lengths


def _types_of_bare(request: Request, reference: Reference, values: Source) -> TextTypes:
    """The sizes that lengths in a raw buffer need to have, and the data type that takes as many bytes for each."""
    axis, batch_axis = request.axes(values)
    if axis is None or not {axis, batch_axis} - {None} <= {*range(len(values.sizes))}:
        return TextTypes(None, DataType.UINT32, sizes=(-1,))
    types, shapes = [DataType.UINT32, DataType.UINT64], [lengths_sizes(values.sizes, axis)]
    if request.mask:
        types, shapes = [DataType.UINT8, *types], [values.sizes]
        if batch_axis is not None:
            shapes.append(tuple(values.sizes[d] for d in sorted((batch_axis, axis))))
    elif batch_axis is not None:
        shapes = [(values.sizes[batch_axis],)]
    with files.open_file(reference.path) as fd:
        total = fd.identity.size
    fitting = ((t, sizes) for sizes in shapes for t in types if t.size * prod(sizes) == total)
    data_type, sizes = next(fitting, (types[0], shapes[0]))
    return TextTypes(None, data_type, sizes=sizes)


def load_tensor(request: Request, name: str, *, like: TensorDesc | None = None) -> Source:
    """Open one tensor: the values of the request, which messages call `name` where they are text.

    A raw buffer of which nothing is said is one `like` that. UsageError for another data type than the request says.
    """
    reference = request.reference(request.values, name)
    types = TextTypes(request.dtype, DataType.FLOAT32, request.sizes)
    if like and reference.is_bare:
        types = types._replace(default=like.data_type, sizes=types.sizes or like.sizes)
    return _typed(open_source(reference, types), request.dtype)


def refuse_sizes(tensors: Sequence[Reference], sizes: tuple[int, ...] | None) -> None:
    """UsageError where sizes are given for tensors of which none is a raw buffer."""
    if sizes is not None and not any(tensor.is_bare for tensor in tensors):
        problem = "sizes are given, but it is not a raw buffer"
        raise UsageError(problem, "a .bin or .raw file", "leave out --sizes", tensors[0].name)


def _typed(source: Source, dtype: DataType | None) -> Source:
    """The tensor, with the bytes of BOOL as UINT8 where that is asked for; UsageError for any other data type."""
    own = source.desc.data_type
    if (own, dtype) == (DataType.BOOL, DataType.UINT8):
        return as_bytes(source)
    if dtype and own is not dtype:
        problem = f"DataType is {own.name}, and {dtype.name} is asked for"
        wanted = f"{own.name}: revseq does not cast values, and numpy's astype does"
        raise UsageError(problem, wanted, "leave out --dtype", source.name)
    return source


@dataclass(frozen=True)
class ExampleText:
    """An example, and the text that it is in."""

    text: Text
    example: Example

    def tensor(self, role: str, types: TextTypes) -> Source:
        """The tensor of that name in the operator; FormatError where the example lacks it."""
        from revseq_cli.formats.text import notation_source  # most jobs are no text

        try:
            item = self.example.tensor(role)
        except FormatError as e:
            if role == LENGTHS:
                e.hint = f"add LENGTHS: {platform.typed(self.text.name)} lengths.npy"
            raise e.about(self.text.name) from None
        return notation_source(self.text, item, types)

    def axis(self) -> int | None:
        """The axis, or None without an Axis line; FormatError for one without an integer."""
        with about(self.text.name):
            return self.example.axis()


def example_of(reference: Reference) -> ExampleText | None:
    """The example that a reference such as `example.txt` or `page.md::2` names; None if it names something else.

    UsageError for a page of several examples without a number, and for a number that the page does not have.
    """
    number = number_of(reference.key)
    if (
        (reference.key and number is None)
        or reference.inline is not None
        or reference.row is not TEXT
    ):
        return None
    text = reference.text
    examples = text.examples
    if not examples and number is None:
        return None
    if number is None and len(examples) > 1:
        keys = [] if reference.is_piped else [str(i + 1) for i in range(len(examples))]
        hint = try_hint(text.name, *keys)
        raise UsageError(
            f"holds {len(examples)} examples", "the number of one", hint, reference.name
        )
    return ExampleText(text, text.example(1 if number is None else number))


# Jobs


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
        return (
            self.values.desc,
            TensorDesc(self.lengths_type or desc.data_type, desc.sizes),
            self.axis,
        )

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
        total, size = self.given_lengths.desc.element_count, self.values.sizes[self.axis]
        return (
            (f"{clamped:,} of {total:,} lengths are clamped to the axis size, {size:,}",)
            if clamped
            else ()
        )

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
        raise UsageError("no axis is given", _dimensions_of(values), where=values.name)
    if not 0 <= axis < rank and (lengths is None or batch_axis is not None or request.mask):
        # There is no axis that lengths could lack, and the constraints could not tell it.
        raise UsageError(f"Axis is {axis}", _dimensions_of(values), where=values.name)
    axis_map: AxisMap | None
    if lengths is None:
        require_batch_axis(batch_axis, axis, values)
        _require_padding(values, request.padding or 0)
        kept = tuple(d for d in range(rank) if d != axis) if batch_axis is None else (batch_axis,)
        axis_map = kept
        lengths = ScannedSource(values, axis, kept, request.padding)
    else:
        if request.batch_axis is None and lengths.sizes == (1,):
            batch_axis = None  # one sequence, of which a system's batch axis says nothing
        axis_map = align(values, lengths, axis, batch_axis, mask=request.mask)
        require_same_coordinates(values, lengths)
        if request.mask and axis_map:
            along = axis_map.index(axis)
            lengths = ScannedSource(lengths, along, [i for i in range(len(axis_map)) if i != along])
            axis_map = axis_map[:along] + axis_map[along + 1 :]
    lengths_type = request.lengths_dtype or lengths.desc.data_type
    lengths = as_unsigned(lengths, request.lengths_dtype)
    if axis_map is None or axis_map == tuple(range(rank)):
        return Job(values, lengths, axis, None, request, lengths_type)
    axes = [d for d in axis_map if d is not None]
    batch = axes[0] if len(axes) == 1 else None
    return Job(
        values,
        PlacedSource(lengths, values.sizes, axis, axis_map),
        axis,
        batch,
        request,
        lengths_type,
    )


def _require_padding(values: Source, padding: float) -> None:
    """UsageError for a value that the data type does not have."""
    data_type = values.desc.data_type
    if data_type.kind in ("int", "uint"):
        least, greatest = np.iinfo(values.dtype).min, np.iinfo(values.dtype).max
        if not (least <= padding <= greatest and padding == int(padding)):
            wanted = f"a whole number from {least} to {greatest}, as {data_type.name} has"
            raise UsageError(f"the padding is {padding}", wanted, where=values.name)
