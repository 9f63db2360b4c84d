"""What is to be done: input, lengths and axis, from options, a docs-style text or a model; the reader of its labels."""

from __future__ import annotations

import difflib
import re
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from revseq_cli.formats import registry
from revseq_cli.formats.text import Text, TextTypes, notation_source
from revseq_cli.ground.errors import FormatError, UsageError, Words
from revseq_cli.ground.tensors import DataType
from revseq_cli.operator.spec import INPUT, LENGTHS, OUTPUT, FeatureLevel, require
from revseq_cli.passes.lengths import CastSource, WidenedSource
from revseq_cli.texts import notation

if TYPE_CHECKING:
    from revseq_cli.formats.contract import Source
    from revseq_cli.formats.storage.positioned import Identity

# The page's examples call the lengths SequenceTensor; the struct has SequenceLengthsTensor.
_LENGTHS_LABELS = ("SequenceTensor", LENGTHS)
LABELS = {INPUT: INPUT, "SequenceTensor": LENGTHS, LENGTHS: LENGTHS, OUTPUT: OUTPUT}


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

    def references(self) -> tuple[registry.Reference, registry.Reference | None]:
        """INPUT and LENGTHS."""
        values = self._reference(self.values, "INPUT")
        lengths = self._reference(self.lengths, "LENGTHS") if self.lengths is not None else None
        if lengths and values.is_stdin and lengths.is_stdin:
            raise UsageError("INPUT and LENGTHS are both standard input", "one of them", "save one to a file")
        return values, lengths

    def _reference(self, text: str, name: str) -> registry.Reference:
        reference = registry.Reference.input(text, self.format, name, override=self.override)
        return reference.absolute() if self.absolute else reference


class Whole(Protocol):
    """A text that is a whole job: it has both tensors and perhaps the axis."""

    @property
    def text(self) -> Text:
        """Where it stands."""

    def tensor(self, role: str, types: TextTypes) -> Source:
        """INPUT or LENGTHS; FormatError where it lacks that one."""

    def axis(self, hint: Words) -> int | None:
        """What it says, if it does; `hint` is what to type where that is no axis."""


# What to say of an example that lacks a tensor.
_MISSING = {
    INPUT: ("the example has no InputTensor", "the values to reverse", ""),
    LENGTHS: (
        "the example has no lengths",
        "a tensor labelled SequenceTensor or SequenceLengthsTensor",
        "add LENGTHS: {} lengths.npy",
    ),
}


@dataclass
class Example:
    """One example of a docs-style text: its tensors by role, and its Axis lines.

    `others` are tensors whose names this operator does not have; with them, or without lengths, the example is
    another operator's. `problem` is what is wrong with it as an example of this one. `axes` has the Axis lines: at most
    two with an integer, or one with other words.
    """

    text: Text
    tensors: dict[str, notation.TensorText] = field(default_factory=dict)
    axes: list[notation.Attribute] = field(default_factory=list)
    others: list[notation.TensorText] = field(default_factory=list)
    problem: FormatError | None = None

    @property
    def is_ours(self) -> bool:
        """Whether it has what only this operator's examples have: lengths, and nothing else that we do not know."""
        return LENGTHS in self.tensors and not self.others

    @property
    def line(self) -> int:
        """Where its first tensor stands."""
        return min(item.line for item in [*self.tensors.values(), *self.others])

    def add(self, item: notation.TensorText) -> None:
        """One more of its tensors."""
        role = LABELS.get(item.name)
        if role is None and (near := difflib.get_close_matches(item.name, _LENGTHS_LABELS, 1, 0.85)):
            role = LENGTHS
            found = f"the label {item.name}"
            self.problem = self.problem or notation.error_at(self.text.text, item.start, found, near[0])
        if role is None:
            self.others.append(item)
        elif role in self.tensors:
            found = f"a second {item.name} in one example"
            self.problem = self.problem or notation.error_at(self.text.text, item.start, found, "each once")
        else:
            self.tensors[role] = item

    def tensor(self, role: str, types: TextTypes) -> Source:
        """INPUT or LENGTHS, read in one of the types."""
        if role not in self.tensors:
            found, wanted, hint = _MISSING[role]
            raise FormatError(found, wanted, hint.format(shlex.quote(self.text.name)), self.text.name)
        return notation_source(self.text, self.tensors[role], types)

    def axis(self, hint: Words) -> int | None:
        """The axis of its only Axis line."""
        if len(self.axes) > 1:
            raise FormatError(
                f"line {self.axes[1].line}: a second Axis in one example", "one Axis", where=self.text.name
            )
        if not self.axes:
            return None
        written = self.axes[0].value
        if _is_integer(written):
            return int(written.rstrip(",. "))
        found = f"line {self.axes[0].line}: Axis is {written[:40]}"
        raise FormatError(found, "an integer", hint, self.text.name)

    def add_axis(self, item: notation.Attribute) -> None:
        """An Axis line; what is no integer gives way to one that is."""
        if _is_integer(item.value):
            self.axes = [*(each for each in self.axes[:1] if _is_integer(each.value)), item]
        elif not self.axes:
            self.axes = [item]

    def ends_before(self, item: notation.TensorText | notation.Attribute) -> bool:
        """Whether that item belongs to the next example."""
        complete = OUTPUT in self.tensors
        if isinstance(item, notation.Attribute):
            return complete and bool(self.axes)
        role = LABELS.get(item.name)
        if role == INPUT:
            return bool(self.tensors or self.others)
        if role is None and LENGTHS in self.tensors and self.axes:
            return True
        return complete and not (role == LENGTHS and LENGTHS not in self.tensors)


def load(request: Request) -> Job:
    """The job, with headers read; text is read whole."""
    reference, lengths_reference = request.references()
    if model := registry.model_of(reference):
        return _load(request, reference, lengths_reference, model)
    example = example_of(reference)
    if example and example.problem:
        raise example.problem.about(example.text.name)
    return _load(request, reference, lengths_reference, example)


def load_example(example: Example) -> Job:
    """The job that an example is, as it stands."""
    name = example.text.name
    return _load(Request(name), registry.Reference(name), None, example)


def _load(
    request: Request, reference: registry.Reference, lengths: registry.Reference | None, whole: Whole | None
) -> Job:
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
    reference = registry.Reference.input(text, format_name, name)
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


def example_of(reference: registry.Reference) -> Example | None:
    """The docs-style example that INPUT is, if it is one: `example.txt`, or `page.md::2`."""
    number = int(reference.inner) if reference.inner and reference.inner.isdecimal() else None
    if (reference.inner and number is None) or not registry.holds_text(reference):
        return None
    text = registry.load_text(reference)
    examples = [example for example in find_examples(text) if INPUT in example.tensors]
    ours = [example for example in examples if example.is_ours]
    examples = ours or examples
    if not examples and number is None:
        return None
    if number is None and len(examples) > 1:
        hint = "try revseq run -- -::1" if reference.is_stdin else f"try {shlex.quote(f'{text.name}::1')}"
        raise UsageError(f"holds {len(examples)} examples", "the number of one", hint, reference.name)
    if number is not None and not 1 <= number <= len(examples):
        raise UsageError(f"no example {number}", f"1 to {len(examples)}", where=reference.name)
    return examples[(number or 1) - 1]


def find_examples(text: Text) -> list[Example]:
    """Every example of a text, of this operator or another: it ends with its OutputTensor, or before an InputTensor.

    An Axis that stands before the first tensor, or behind an example that has one already, belongs to the next.
    """
    examples: list[Example] = []
    ahead: list[notation.Attribute] = []
    try:
        for item in notation.parse(text.text):
            if isinstance(item, notation.TensorText):
                if item.name and (not examples or examples[-1].ends_before(item)):
                    examples.append(Example(text, axes=ahead))
                    ahead = []
                if item.name:
                    examples[-1].add(item)
            elif item.name == "Axis":
                if examples and not examples[-1].ends_before(item):
                    examples[-1].add_axis(item)
                elif _is_integer(item.value):  # prose has lines that begin with Axis:, too
                    ahead = [*ahead[:1], item]
    except FormatError as e:
        raise e.about(text.name) from None
    return examples


def _is_integer(value: str) -> bool:
    return re.fullmatch(r"[+-]?\d{1,18}[,. ]*", value, re.ASCII) is not None


def _axis(request: Request, whole: Whole | None, values: Source) -> int:
    last = max(0, len(values.sizes) - 1)
    hint = Words.of("add {}", axis=last)
    axis = request.axis if request.axis is not None or not whole else whole.axis(hint)
    if axis is None:
        wanted = f"the dimension to reverse along, 0 to {last}"
        raise UsageError("no axis is given", wanted, hint, values.name)
    return axis


def _lengths(
    request: Request, reference: registry.Reference | None, whole: Whole | None, values: Source, axis: int
) -> Source:
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
