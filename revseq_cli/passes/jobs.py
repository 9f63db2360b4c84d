"""What is to be done: input, lengths and axis, from options, an example in a text, or a model."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from revseq_cli.formats import registry
from revseq_cli.formats.documents import TextTypes
from revseq_cli.formats.references import Reference
from revseq_cli.formats.text import notation_source
from revseq_cli.ground.errors import FormatError, UsageError, Words
from revseq_cli.ground.tensors import DataType
from revseq_cli.operator.spec import INPUT, LENGTHS, FeatureLevel, require
from revseq_cli.passes.lengths import CastSource, WidenedSource
from revseq_cli.texts.examples import find_examples

if TYPE_CHECKING:
    from revseq_cli.formats.contract import Source
    from revseq_cli.formats.documents import Text
    from revseq_cli.formats.storage.positioned import Identity
    from revseq_cli.texts.examples import Example


@dataclass(frozen=True)
class Job:
    """One reversal whose headers have been read.

    `batch_axis` is the one whose indices have a length each, where that was asked for.
    """

    values: Source
    lengths: Source
    axis: int
    batch_axis: int | None = None

    @property
    def names(self) -> dict[str, str]:
        """What the user called each tensor."""
        return {INPUT: self.values.name, LENGTHS: self.lengths.name, "": self.values.name}

    @property
    def inputs(self) -> list[Identity]:
        """The files that must not be written."""
        return [*self.values.files, *self.lengths.files]

    def recheck(self) -> None:
        """TensorIOError if an input file is not as it was when its header was read."""
        for source in (self.values, self.lengths):
            source.recheck()

    def gaps(self) -> tuple[str, ...]:
        """What is not stored of the inputs and read as something else, in words."""
        return (*self.values.gaps(), *self.lengths.gaps())

    def require(self, level: FeatureLevel) -> None:
        """SpecError with every rule that the tensors break."""
        require(self.values.desc, self.lengths.desc, self.axis, level, self.names)


@dataclass(frozen=True)
class Request:
    """What the command line asks for; None where it does not say.

    `format` is that of inputs which themselves do not say, or, with `override`, of all of them. With `absolute`, files
    are named from the root, since those who read them may work in another folder.
    """

    values: str
    lengths: str | None = None
    axis: int | None = None
    dtype: DataType | None = None
    lengths_dtype: DataType | None = None
    batch_axis: int | None = None
    format: str | None = None
    override: bool = False
    absolute: bool = False

    def references(self) -> tuple[Reference, Reference | None]:
        """INPUT and LENGTHS."""
        values = self._reference(self.values, "INPUT")
        lengths = self._reference(self.lengths, "LENGTHS") if self.lengths is not None else None
        if lengths and values.is_stdin and lengths.is_stdin:
            raise UsageError("INPUT and LENGTHS are both standard input", "one of them", "save one to a file")
        return values, lengths

    def _reference(self, text: str, name: str) -> Reference:
        reference = Reference.input(text, self.format, name, override=self.override)
        return reference.absolute() if self.absolute else reference


class Whole(Protocol):
    """A text that is a whole job: it has both tensors and perhaps the axis."""

    def tensor(self, role: str, types: TextTypes) -> Source:
        """INPUT or LENGTHS; FormatError where it lacks that one."""

    def axis(self, hint: Words) -> int | None:
        """What it says, if it does; `hint` is what to type where that is no axis."""


@dataclass(frozen=True)
class ExampleText:
    """An example of the bracket notation, and the text that it stands in."""

    text: Text
    example: Example

    @property
    def roles(self) -> tuple[str, ...]:
        """The names in the operator of the tensors that it has."""
        return tuple(self.example.tensors)

    def tensor(self, role: str, types: TextTypes) -> Source:
        """The tensor of that name in the operator, read in one of the types; FormatError where it lacks that one."""
        try:
            item = self.example.tensor(role)
        except FormatError as e:
            if role == LENGTHS:
                e.hint = f"add LENGTHS: {shlex.quote(self.text.name)} lengths.npy"
            raise e.about(self.text.name) from None
        return notation_source(self.text, item, types)

    def axis(self, hint: Words) -> int | None:
        """The axis of its Axis line, None without one; FormatError, perhaps with `hint`, for what is no axis."""
        try:
            return self.example.axis(hint)
        except FormatError as e:
            raise e.about(self.text.name) from None


def load(request: Request) -> Job:
    """The job, with headers read; text is read whole, and once."""
    reference, lengths_reference = request.references()
    whole: Whole | None = registry.model_of(reference)
    if not whole and (found := example_of(reference)):
        if found.example.problem:
            raise found.example.problem.about(found.text.name)
        whole = found
    return _load(request, reference, lengths_reference, whole)


def load_example(text: Text, example: Example) -> Job:
    """The job that an example of that text is, as it stands."""
    return _load(Request(text.name), Reference(text.name), None, ExampleText(text, example))


def _load(request: Request, reference: Reference, lengths: Reference | None, whole: Whole | None) -> Job:
    types = TextTypes(request.dtype, DataType.FLOAT32)
    values = whole.tensor(INPUT, types) if whole else registry.open_source(reference, types)
    _require_type(values, request.dtype)
    axis = _axis(request, whole, values)
    return Job(values, _lengths(request, lengths, whole, values, axis), axis, request.batch_axis)


def load_tensor(
    text: str, name: str, dtype: DataType | None, format_name: str | None, *, absolute: bool = False
) -> Source:
    """One tensor as it stands on the command line; `name` is what to call it where that is the tensor itself.

    `dtype` is the data type of a text that does not say, `format_name` the format of a file whose suffix does not.
    With `absolute` the file is named from the root, as in a Request.
    """
    reference = Reference.input(text, format_name, name)
    source = registry.open_source(reference.absolute() if absolute else reference, TextTypes(dtype, DataType.FLOAT32))
    _require_type(source, dtype)
    return source


def _require_type(source: Source, dtype: DataType | None) -> None:
    """UsageError for a tensor that has another data type than the one that is asked for."""
    if dtype and source.desc.data_type is not dtype:
        raise UsageError(
            f"DataType is {source.desc.data_type.name}, and {dtype.name} is asked for",
            "types are never changed silently", Words.of("leave out {}", dtype=""), source.name,
        )  # fmt: skip


def example_of(reference: Reference) -> ExampleText | None:
    """The docs-style example that INPUT is, if it is one: `example.txt`, or `page.md::2`."""
    number = int(reference.inner) if reference.inner and reference.inner.isdecimal() else None
    if (reference.inner and number is None) or not registry.holds_text(reference):
        return None
    text = reference.text
    examples = [example for example in find_examples(text.text, text.items) if INPUT in example.tensors]
    ours = [example for example in examples if example.is_ours]
    examples = ours or examples
    if not examples and number is None:
        return None
    if number is None and len(examples) > 1:
        hint = "try revseq run -- -::1" if reference.is_stdin else f"try {shlex.quote(f'{text.name}::1')}"
        raise UsageError(f"holds {len(examples)} examples", "the number of one", hint, reference.name)
    if number is not None and not 1 <= number <= len(examples):
        raise UsageError(f"no example {number}", f"1 to {len(examples)}", where=reference.name)
    return ExampleText(text, examples[(number or 1) - 1])


def _axis(request: Request, whole: Whole | None, values: Source) -> int:
    last = max(0, len(values.sizes) - 1)
    hint = Words.of("add {}", axis=last)
    axis = request.axis if request.axis is not None or not whole else whole.axis(hint)
    if axis is None:
        wanted = f"the dimension to reverse along, 0 to {last}"
        raise UsageError("no axis is given", wanted, hint, values.name)
    return axis


def _lengths(request: Request, reference: Reference | None, whole: Whole | None, values: Source, axis: int) -> Source:
    """The lengths, cast and widened as asked."""
    types = TextTypes(request.lengths_dtype, DataType.UINT32, cast_later=True)
    if reference:
        lengths = registry.open_source(reference, types)
    elif whole:
        lengths = whole.tensor(LENGTHS, types)
    else:
        raise UsageError(
            "no lengths are given", "a tensor of lengths, or an INPUT that is a whole docs-style job or a model",
            Words.of("revseq run INPUT LENGTHS {}", axis="N"), values.name,
        )  # fmt: skip
    if request.lengths_dtype and lengths.desc.data_type is not request.lengths_dtype:
        lengths = CastSource(lengths, request.lengths_dtype)
    if request.batch_axis is not None:
        lengths = WidenedSource(lengths, values.sizes, axis, request.batch_axis)
    return lengths
