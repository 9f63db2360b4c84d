"""Opens the tensors of jobs, given one by one, as an example in a text, or as a node of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from revseq_cli.core import platform
from revseq_cli.core.errors import FormatError, RevseqError, UsageError, about
from revseq_cli.core.tensors import DataType, TensorDesc
from revseq_cli.formats import file_io
from revseq_cli.formats.contents import number_of, try_hint
from revseq_cli.formats.contract import Source, TextTypes
from revseq_cli.formats.references import Reference, open_source
from revseq_cli.formats.table import TEXT
from revseq_cli.operator.spec import INPUT, LENGTHS, SpecError, lengths_sizes, violations
from revseq_cli.pipeline.jobs import Job, Request, make
from revseq_cli.pipeline.lengths import View, as_bytes, refuse_packed

if TYPE_CHECKING:
    from revseq_cli.formats.onnx import NodeJob
    from revseq_cli.text.examples import Example, Text


def load(request: Request) -> Job:
    """Open the job, and require that it holds every constraint at its level; SpecError with all that it breaks."""
    job = open_job(request)
    if broken := violations(*job.descs, request.level):
        raise SpecError(broken, job.names, suggestion(job))
    return job


def open_job(request: Request) -> Job:
    """Open the job, whose constraints are not checked: headers are read, and texts are read whole, each once."""
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
    values = _typed(whole.tensor(INPUT, types) if whole else open_source(reference, types), request.dtype)
    if whole and request.axis is None:
        request = replace(request, axis=whole.axis())
    refuse_sizes([reference], request.sizes)
    lengths = _open_lengths(request, lengths_reference, whole, values)
    try:
        return make(values, lengths, request)
    except RevseqError as e:
        if not e.hint and lengths:
            e.hint = _hint(values, lengths, request)
        raise


def suggestion(job: Job) -> str:
    """What to type in place of a job that breaks constraints, for all of them; "" where each has its own hint."""
    if not job.request or job.request.padding is not None:
        return ""
    lengths = job.lengths
    while isinstance(lengths, View):
        lengths = lengths.source
    return _hint(job.values, lengths, job.request)


def _hint(values: Source, lengths: Source, request: Request) -> str:
    from revseq_cli.pipeline import suggest  # only jobs that are refused need it

    return suggest.hint(values, lengths, request)


def load_tensor(request: Request, name: str, *, like: TensorDesc | None = None, lenient: bool = False) -> Source:
    """Open one tensor: the values of the request, which messages call `name` where they are text.

    A raw buffer of which nothing is said is one `like` that. UsageError for a tensor that has another data type than
    the request says, unless `lenient` says that this is meant for another tensor.
    """
    reference = request.reference(request.values, name)
    types = TextTypes(request.dtype, DataType.FLOAT32, request.sizes)
    if like and reference.is_bare:
        types = types._replace(default=like.data_type, sizes=types.sizes or like.sizes)
    source = open_source(reference, types)
    return source if lenient else _typed(source, request.dtype)


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
        """The axis, or None without an Axis line; FormatError for what is no axis."""
        with about(self.text.name):
            return self.example.axis()


def example_of(reference: Reference) -> ExampleText | None:
    """The example that a reference such as `example.txt` or `page.md::2` names; None if it names something else.

    UsageError for a page of several examples without a number, and for a number that the page does not have.
    """
    number = number_of(reference.key)
    if (reference.key and number is None) or reference.inline is not None or reference.row is not TEXT:
        return None
    text = reference.text
    examples = text.examples
    if not examples and number is None:
        return None
    if number is None and len(examples) > 1:
        hint = try_hint(text.name, *(str(i + 1) for i in range(len(examples))))
        if reference.is_piped:  # it cannot be read again
            hint = "put ::1 after its name, as in revseq run -- -::1"
        raise UsageError(f"holds {len(examples)} examples", "the number of one", hint, reference.name)
    return ExampleText(text, text.example(1 if number is None else number))


def _open_lengths(
    request: Request, reference: Reference | None, whole: NodeJob | ExampleText | None, values: Source
) -> Source | None:
    """The lengths as they are: given, or of the whole job; None where the padding of the values tells them."""
    types = TextTypes(request.lengths_dtype, DataType.UINT32)
    if request.padding is not None:
        if reference or request.mask:
            wanted = f"no {'LENGTHS' if reference else '--mask'} with it"
            raise UsageError("--padding takes the lengths from the values", wanted, where=values.name)
        return None
    if reference:
        lengths = open_source(reference, _types_of_bare(request, reference, values) if reference.is_bare else types)
    elif whole:
        lengths = whole.tensor(LENGTHS, types)
    else:
        wanted = "a tensor of lengths, --padding, or an INPUT that is a complete job or a model"
        hint = "add LENGTHS after INPUT; in a batch, give each job its lengths"
        raise UsageError("no lengths are given", wanted, hint, values.name)
    if not request.mask:
        refuse_packed(lengths)
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
    with file_io.opened(reference.path) as fd:
        total = file_io.identity(fd).size
    fitting = ((t, sizes) for sizes in shapes for t in types if t.size * prod(sizes) == total)
    data_type, sizes = next(fitting, (types[0], shapes[0]))
    return TextTypes(None, data_type, sizes=sizes)
