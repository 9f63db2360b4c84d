"""The tensors that a request names: opened, with their headers read.

A text may state no data type, and a raw buffer states neither data type nor shape. Options give
them; otherwise they are:

                               text                        raw buffer
    INPUT                      FLOAT32                     FLOAT32, one dimension
    LENGTHS                    UINT32                      those that fill the buffer
    A, compared with B         that of B                   those of B
    B, compared with A         that of A                   those of A
    A, compared with a job     that of INPUT               those of INPUT
    INPUT of such a job        that of A, if a float type  FLOAT32, one dimension

The numbers of a text that is written as text keep their digits: they are FLOAT64. So are those of A
and B if both state no data type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, TypeAlias

from revseq_cli import files
from revseq_cli.core import platform
from revseq_cli.core.errors import FormatError, RevseqError, UsageError, about
from revseq_cli.core.tensors import DataType, Sizes, TensorDesc
from revseq_cli.formats.contract import Source, TextTypes
from revseq_cli.formats.memory import MemorySource
from revseq_cli.formats.references import Reference, open_source
from revseq_cli.formats.refusals import propose_keys
from revseq_cli.formats.table import CSV, TEXT, TSV
from revseq_cli.operator.spec import INPUT, LENGTHS, lengths_sizes
from revseq_cli.pipeline.lengths import refuse_scaled
from revseq_cli.pipeline.request import Request
from revseq_cli.pipeline.views import as_bytes

if TYPE_CHECKING:
    from revseq_cli.formats.onnx.jobs import NodeJob
    from revseq_cli.text.examples import Example, Text

    CompleteJob: TypeAlias = "NodeJob | ExampleText"  # a tensor with its lengths and axes


def open_tensors(request: Request) -> tuple[Source, Source | None, Request]:
    """The tensors of a job, and the request with the axes that an example or a model states.

    Only headers are read, except that texts are read whole. The lengths are None if the padding
    gives them.
    """
    reference, lengths_reference = request.references
    complete = _find_complete_job(request)
    types = _find_types(request, reference)
    if complete:
        values = complete.open_role(INPUT, types)
        request = _take_axes(request, complete)
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
        lengths = _flatten_row(lengths)
    return values, lengths, request


def _find_complete_job(request: Request) -> CompleteJob | None:
    """The node of a model, or the example of a text, that INPUT names; None for other tensors."""
    reference, lengths_reference = request.references
    if reference.is_onnx_model:
        from revseq_cli.formats.onnx.jobs import NodeJob  # few files are models

        return NodeJob(reference, request.feed, lengths_reference)
    if request.feed:
        raise UsageError(
            "--feed is only for ONNX models",
            hint="to name a node of a model, type INPUT as model.onnx::name",
            where=reference.name,
        )
    example = find_example(reference)
    if example and example.example.problem:
        raise example.example.problem.about(example.text.name)
    return example


def _take_axes(request: Request, complete: CompleteJob) -> Request:
    """The request with the axes of a node or an example, if the user asks for no others."""
    if request.axis is None:
        request = replace(request, axis=complete.find_axis())
    if request.batch_axis is None and request.lengths is None:
        request = replace(request, batch_axis=complete.find_batch_axis())
    return request


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
            hint=f"to find the lengths in INPUT, leave out {platform.as_argument(reference.name)}",
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
        if reference.is_raw_buffer:
            types = _find_types_of_raw_buffer(request, reference, values)
        try:
            return open_source(reference, types)
        except RevseqError as error:
            from revseq_cli.pipeline import suggest  # most files have their lengths

            hint = suggest.find_attribute(reference)
            if hint:
                error.set_hint(hint)
            raise
    if complete:
        return complete.open_role(LENGTHS, types)
    from revseq_cli.pipeline import suggest  # most jobs have lengths

    hint = suggest.find_attribute_with_lengths(values)
    expected = "LENGTHS after INPUT, or --padding"
    raise UsageError("no lengths are given", expected, hint, values.name)


def _flatten_row(lengths: Source) -> Source:
    """The lengths, with one dimension if they are a table of one row, such as 3,2."""
    if lengths.storage.format not in (CSV.name, TSV.name):
        return lengths
    if len(lengths.sizes) != 2 or lengths.sizes[0] != 1:
        return lengths
    row = lengths.read().reshape(-1)
    return MemorySource(lengths.name, row, lengths.storage, lengths.identity)


def _find_types_of_raw_buffer(request: Request, reference: Reference, values: Source) -> TextTypes:
    """The shape of lengths in a raw buffer, and the data type with which they fill the buffer."""
    shapes = _list_shapes(request, values)
    if not shapes:
        # An error about the axis follows; until then, the buffer is a vector.
        return TextTypes(None, DataType.UINT32, sizes=(-1,))
    types = [DataType.UINT32, DataType.UINT64]
    if request.mask:
        types.insert(0, DataType.UINT8)
    with files.open_file(reference.path) as fd:
        total = fd.identity.size
    for sizes in shapes:
        for data_type in types:
            if data_type.size * prod(sizes) == total:
                return TextTypes(None, data_type, sizes=sizes)
    return TextTypes(None, types[0], sizes=shapes[0])


def _list_shapes(request: Request, values: Source) -> list[Sizes]:
    """The shapes that lengths or a mask may have; none if an axis is missing or out of range."""
    axis, batch_axis = request.axes(values)
    rank = len(values.sizes)
    if axis is None or not 0 <= axis < rank:
        return []
    if batch_axis is not None and not 0 <= batch_axis < rank:
        return []
    if not request.mask:
        if batch_axis is not None:
            return [(values.sizes[batch_axis],)]
        return [lengths_sizes(values.sizes, axis)]
    if batch_axis is None:
        return [values.sizes]
    in_order = sorted((axis, batch_axis))
    return [values.sizes, tuple(values.sizes[d] for d in in_order)]


def _find_types(request: Request, reference: Reference) -> TextTypes:
    """The data type and the shape of INPUT if its file states none."""
    default = DataType.FLOAT32 if reference.is_raw_buffer else request.text_type
    return TextTypes(request.dtype, default, request.sizes)


def load_any_type(request: Request, name: str, *, like: TensorDesc | None = None) -> Source:
    """Open the values of a request, which messages call `name` if they are text.

    If their file states a data type, they have that, even if the request has another one: an output
    of a BFLOAT16 job may be saved as FLOAT32. Otherwise they have that of the request, or else that
    of the tensor `like`, which also gives the shape of a raw buffer.
    """
    reference = request.reference(request.values, name)
    types = _find_types(request, reference)
    if like:
        types = types._replace(default=like.data_type)
    if like and reference.is_raw_buffer:
        types = types._replace(sizes=types.sizes or like.sizes)
    return open_source(reference, types)


def load_tensor(request: Request, name: str, *, like: TensorDesc | None = None) -> Source:
    """Open the values of a request as `load_any_type` does.

    UsageError if the request states another data type than the file.
    """
    return _require_type(load_any_type(request, name, like=like), request.dtype)


def load_pair(a: Request, b: Request) -> tuple[Source, Source]:
    """Open two tensors to compare. The one opened first says what the other one does not state.

        A                       B              first
        any                     raw buffer     A
        neither text nor raw    any            A
        text or raw buffer      other files    B

    A text B that states no data type is opened first as FLOAT64, and again like A if A states one.
    """
    a_reference = a.reference(a.values, "A")
    b_reference = b.reference(b.values, "B")
    a_has_type = not a_reference.is_raw_buffer and not a_reference.row.is_text
    if b_reference.is_raw_buffer or a_has_type:
        first = load_tensor(a, "A")
        return first, load_tensor(b, "B", like=first.desc)
    second = load_tensor(replace(b, text_type=DataType.FLOAT64), "B")
    first = load_tensor(a, "A", like=second.desc)
    if second.assumes_type and not first.assumes_type:
        second = load_tensor(b, "B", like=first.desc)
    return first, second


def take_type_of_a(request: Request, a: Request) -> Request:
    """The request of a job whose output is compared with A.

    If INPUT is text that states no data type, it has that of A, if that is a float type.
    """
    a_reference = a.reference(a.values, "A")
    input_reference, _ = request.references
    if input_reference.is_onnx_model or a_reference.is_raw_buffer:
        return request
    if not input_reference.row.is_text:
        return request
    text_type = load_tensor(replace(a, text_type=DataType.FLOAT64), "A").desc.data_type
    if text_type not in (DataType.FLOAT32, DataType.FLOAT64):
        return request
    return replace(request, text_type=text_type)


def refuse_sizes(tensors: Sequence[Reference], sizes: tuple[int, ...] | None) -> None:
    """UsageError for --sizes if none of the tensors is a raw buffer."""
    if sizes is None or any(tensor.is_raw_buffer for tensor in tensors):
        return
    raise UsageError(
        "--sizes is only for raw buffers, such as x.bin",
        hint="to take the shape of the file, leave out --sizes",
        where=tensors[0].name,
    )


def _require_type(source: Source, dtype: DataType | None) -> Source:
    """The tensor; UsageError if it does not have that data type; BOOL may be read as UINT8."""
    data_type = source.desc.data_type
    if data_type is DataType.BOOL and dtype is DataType.UINT8:
        return as_bytes(source)
    if dtype and data_type is not dtype:
        raise UsageError(
            f"its data type is {data_type.name}, not {dtype.name}, and --dtype does not cast",
            hint=f"to read it as {data_type.name}, leave out --dtype",
            where=source.name,
        )
    return source


@dataclass(frozen=True)
class ExampleText:
    """An example, and the text that it is in."""

    text: Text
    example: Example

    def open_role(self, role: str, types: TextTypes) -> Source:
        """The tensor with that name in the operator; FormatError if the example lacks it."""
        from revseq_cli.formats.text import open_notation  # most jobs are not text

        try:
            item = self.example.require_role(role)
        except FormatError as e:
            if role == LENGTHS:
                name = platform.as_argument(self.text.name)
                e.set_hint(f"to use lengths of a file, add LENGTHS: {name} lengths.npy")
            raise e.about(self.text.name) from None
        return open_notation(self.text, item, types)

    def find_axis(self) -> int | None:
        """The axis; None without an Axis line, FormatError for one that is not an integer."""
        with about(self.text.name):
            return self.example.read_axis()

    def find_batch_axis(self) -> int | None:
        """None: an example has a length for each sequence."""
        return None


def find_example(reference: Reference) -> ExampleText | None:
    """The example that a reference such as `example.txt` or `page.md::2` names; None if none.

    UsageError for a number that the page does not have, and for a page with several examples if
    the reference has no number.
    """
    if reference.inline is not None or reference.row is not TEXT:
        return None
    number = reference.example_number
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
            propose_keys(text.name, *keys),
            reference.name,
        )
    return ExampleText(text, text.example(1))
