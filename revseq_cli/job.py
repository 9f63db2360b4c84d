"""What is to be done: input, lengths and axis, from options or a docs-style text; the only reader of its labels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from revseq_cli import formats, notation
from revseq_cli.errors import FormatError, UsageError
from revseq_cli.formats.text import Text, TextTypes, notation_source
from revseq_cli.formats.views import CastSource, WidenedSource
from revseq_cli.spec import INPUT, LENGTHS, OUTPUT, DataType, FeatureLevel, require

if TYPE_CHECKING:
    from revseq_cli.formats.base import Source
    from revseq_cli.formats.positioned import Identity

# The page's examples call the lengths SequenceTensor; the struct has SequenceLengthsTensor.
LABELS = {INPUT: INPUT, "SequenceTensor": LENGTHS, LENGTHS: LENGTHS, OUTPUT: OUTPUT}


@dataclass(frozen=True)
class Job:
    """One reversal whose headers have been read."""

    values: Source
    lengths: Source
    axis: int

    @property
    def names(self) -> dict[str, str]:
        """What the user called each tensor."""
        return {INPUT: self.values.name, LENGTHS: self.lengths.name, "": self.values.name}

    @property
    def inputs(self) -> list[Identity]:
        """The files that must not be written."""
        return [source.identity for source in (self.values, self.lengths) if source.identity]

    def require(self, level: FeatureLevel) -> None:
        """SpecError with every rule that the tensors break."""
        require(self.values.desc, self.lengths.desc, self.axis, level, self.names)


@dataclass(frozen=True)
class Request:
    """What the command line asks for; None where it does not say."""

    values: str
    lengths: str | None = None
    axis: int | None = None
    dtype: DataType | None = None
    lengths_dtype: DataType | None = None
    batch_axis: int | None = None
    format: str | None = None


@dataclass
class Example:
    """One example of a docs-style text: its tensors by role, and its Axis."""

    tensors: dict[str, notation.TensorText] = field(default_factory=dict)
    axis: notation.Attribute | None = None


def load(request: Request) -> Job:
    """The job, with headers read; text is read whole."""
    example, text = _example(request)
    types = TextTypes(request.dtype, DataType.FLOAT32)
    if example and text:
        values = notation_source(text, example.tensors[INPUT], types)
    else:
        values = formats.open_source(_reference(request.values, request.format), types)
    if request.dtype and values.desc.data_type is not request.dtype:
        raise UsageError(
            f"DataType is {values.desc.data_type.name}, and --dtype says {request.dtype.name}",
            "types are never changed silently", "leave out --dtype", values.name,
        )  # fmt: skip
    axis = _axis(request, example, values)
    return Job(values, _lengths(request, example, text, values, axis), axis)


def _reference(name: str, format_name: str | None) -> formats.Reference:
    """A reference whose format option counts only where the suffix says nothing."""
    reference = formats.Reference.parse(name)
    return reference if formats.knows(reference) else formats.Reference.parse(name, format_name)


def _example(request: Request) -> tuple[Example | None, Text | None]:
    """The docs-style example that INPUT is, if it is one: `example.txt`, or `page.md::2`."""
    reference = _reference(request.values, request.format)
    number = int(reference.inner) if reference.inner and reference.inner.isdecimal() else None
    if (reference.inner and number is None) or not formats.may_hold_example(reference):
        return None, None
    text = formats.load_text(reference)
    try:
        examples = find_examples(text.text)
    except FormatError as e:
        raise e.about(text.name) from None
    if not examples and number is None:
        return None, None
    if number is None and len(examples) > 1:
        raise UsageError(f"holds {len(examples)} examples", "the number of one", f"try {text.name}::1", text.name)
    if not 1 <= (number or 1) <= len(examples):
        raise UsageError(f"no example {number}", f"1 to {len(examples)}", where=text.name)
    return examples[(number or 1) - 1], text


def find_examples(text: str) -> list[Example]:
    """Every example of a text: each begins with its InputTensor, and takes what follows up to the next one.

    An Axis that stands before the first InputTensor, or behind an example that has one already, belongs to the next.
    """
    examples: list[Example] = []
    ahead: notation.Attribute | None = None
    for item in notation.parse(text):
        if isinstance(item, notation.TensorText) and item.name in LABELS:
            role = LABELS[item.name]
            if role == INPUT:
                examples.append(Example(axis=ahead))
                ahead = None
            if examples and role not in examples[-1].tensors:
                examples[-1].tensors[role] = item
            elif examples:
                raise notation.error_at(text, item.start, f"a second {item.name} in one example", "each tensor once")
        elif isinstance(item, notation.Attribute) and item.name == "Axis":
            if examples and examples[-1].axis is None:
                examples[-1].axis = item
            elif examples and OUTPUT not in examples[-1].tensors:
                raise FormatError(f"line {item.line}: a second Axis in one example", "one Axis")
            else:
                ahead = item
    return examples


def _axis(request: Request, example: Example | None, values: Source) -> int:
    if request.axis is not None:
        return request.axis
    if example and example.axis:
        try:
            return int(example.axis.value)
        except ValueError:
            raise FormatError(
                f"line {example.axis.line}: Axis is {example.axis.value[:40]}", "an integer", where=values.name
            ) from None
    last = len(values.sizes) - 1
    raise UsageError(
        "no axis is given", f"the dimension to reverse along, 0 to {last}", f"add --axis {last}", values.name
    )


def _lengths(request: Request, example: Example | None, text: Text | None, values: Source, axis: int) -> Source:
    """The lengths, cast and widened as asked."""
    types = TextTypes(request.lengths_dtype, DataType.UINT32)
    if request.lengths is not None:
        lengths = formats.open_source(_reference(request.lengths, request.format), types)
    elif example and text:
        if LENGTHS not in example.tensors:
            wanted = "a tensor labelled SequenceTensor or SequenceLengthsTensor"
            raise FormatError("the example has no lengths", wanted, f"add LENGTHS: {text.name} lengths.npy", text.name)
        lengths = notation_source(text, example.tensors[LENGTHS], types)
    else:
        raise UsageError(
            "no lengths are given", "a tensor of lengths, or an INPUT that is a whole docs-style job",
            "revseq run INPUT LENGTHS --axis N", values.name,
        )  # fmt: skip
    if request.lengths_dtype and lengths.desc.data_type is not request.lengths_dtype:
        lengths = CastSource(lengths, request.lengths_dtype)
    if request.batch_axis is not None:
        lengths = WidenedSource(lengths, values.sizes, axis, request.batch_axis)
    return lengths
