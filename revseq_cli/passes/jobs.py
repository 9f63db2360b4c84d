"""Jobs: input, lengths and axis of a reversal, opened from a request, from an example in a text, or from a model."""

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
    from revseq_cli.formats.regions import Region
    from revseq_cli.formats.storage.positioned import Identity
    from revseq_cli.texts.examples import Example


@dataclass(frozen=True)
class Job:
    """One reversal: `values` along `axis` by `lengths`, both open, with their headers read.

    `batch_axis` is the axis that has one length for each of its indices, if the lengths were given so.
    """

    values: Source
    lengths: Source
    axis: int
    batch_axis: int | None = None

    @property
    def names(self) -> dict[str, str]:
        """What the user called each tensor, by its name in the operator."""
        return {INPUT: self.values.name, LENGTHS: self.lengths.name, "": self.values.name}

    @property
    def inputs(self) -> list[Identity]:
        """The files that are read, which no output may replace."""
        return [*self.values.files, *self.lengths.files]

    @property
    def given_lengths(self) -> Source:
        """The lengths as they were given: of rank 1 with a batch axis."""
        return self.lengths.original if isinstance(self.lengths, WidenedSource) else self.lengths

    def counted_lengths(self, region: Region) -> Region | None:
        """The part of a block's lengths to count so that each given length counts once; None if another block has it.

        A length is used at every index along the axis, and with a batch axis along all other dimensions.
        """
        repeats = [d == self.axis or self.batch_axis not in (None, d) for d in range(len(region))]
        if any(repeated and part.start for repeated, part in zip(repeats, region, strict=True)):
            return None
        return tuple(slice(0, 1) if repeated else slice(None) for repeated in repeats)

    def clamping(self, clamped: int) -> tuple[str, ...]:
        """A note that so many of the given lengths are above the axis size; none for 0."""
        if not clamped:
            return ()
        total, size = self.given_lengths.desc.element_count, self.values.sizes[self.axis]
        verbs = ("is", "acts") if clamped == 1 else ("are", "act")
        noun = "length" if total == 1 else "lengths"
        return (f"{clamped:,} of {total:,} {noun} {verbs[0]} above the axis size {size:,}, and {verbs[1]} as {size:,}",)

    def recheck(self) -> None:
        """Raise TensorIOError if an input file has changed since its header was read."""
        for source in (self.values, self.lengths):
            source.recheck()

    def gaps(self) -> tuple[str, ...]:
        """A sentence for each part of the inputs that is not stored, and what is read in its place."""
        return (*self.values.gaps(), *self.lengths.gaps())

    def require(self, level: FeatureLevel) -> None:
        """Raise SpecError with every rule that the tensors break at that feature level."""
        require(self.values.desc, self.lengths.desc, self.axis, level, self.names)


@dataclass(frozen=True)
class Request:
    """A job as it is asked for, before anything is read; None stands for what is not given.

    `values` and `lengths` name tensors, or are tensors as text. `format` is the format of inputs whose bytes and suffix
    do not say theirs, or, with `override`, of all inputs. With `absolute`, paths are made absolute, since workers may
    have another working directory.
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
        """References to INPUT and LENGTHS; UsageError where both are standard input."""
        values = self._reference(self.values, "INPUT")
        lengths = self._reference(self.lengths, "LENGTHS") if self.lengths is not None else None
        if lengths and values.is_stdin and lengths.is_stdin:
            raise UsageError("INPUT and LENGTHS are both standard input", "one of them", "save one to a file")
        return values, lengths

    def _reference(self, text: str, name: str) -> Reference:
        reference = Reference.input(text, self.format, name, override=self.override)
        return reference.absolute() if self.absolute else reference


class WholeJob(Protocol):
    """A text that has all parts of a job: an example, or a model."""

    def tensor(self, role: str, types: TextTypes) -> Source:
        """The tensor of that name in the operator; FormatError where the text lacks it."""

    def axis(self, hint: Words) -> int | None:
        """The axis, or None where the text has none; FormatError, perhaps with `hint`, for what is no axis."""


@dataclass(frozen=True)
class ExampleText:
    """An example, and the text that it is in."""

    text: Text
    example: Example

    @property
    def roles(self) -> tuple[str, ...]:
        """The names in the operator of the example's tensors."""
        return tuple(self.example.tensors)

    def tensor(self, role: str, types: TextTypes) -> Source:
        """The tensor of that name in the operator; FormatError where the example lacks it."""
        try:
            item = self.example.tensor(role)
        except FormatError as e:
            if role == LENGTHS:
                e.hint = f"add LENGTHS: {shlex.quote(self.text.name)} lengths.npy"
            raise e.about(self.text.name) from None
        return notation_source(self.text, item, types)

    def axis(self, hint: Words) -> int | None:
        """The axis, or None without an Axis line; FormatError, perhaps with `hint`, for what is no axis."""
        try:
            return self.example.axis(hint)
        except FormatError as e:
            raise e.about(self.text.name) from None


def load(request: Request) -> Job:
    """Open the job: headers of files are read, and texts are read whole, each once."""
    reference, lengths_reference = request.references()
    whole: WholeJob | None = registry.model_of(reference)
    if not whole and (in_text := example_of(reference)):
        if in_text.example.problem:
            raise in_text.example.problem.about(in_text.text.name)
        whole = in_text
    return _load(request, reference, lengths_reference, whole)


def load_example(text: Text, example: Example) -> Job:
    """The job of an example in that text, with nothing else given."""
    return _load(Request(text.name), Reference(text.name), None, ExampleText(text, example))


def _load(request: Request, reference: Reference, lengths: Reference | None, whole: WholeJob | None) -> Job:
    types = TextTypes(request.dtype, DataType.FLOAT32)
    values = whole.tensor(INPUT, types) if whole else registry.open_source(reference, types)
    _require_type(values, request.dtype)
    axis = _axis(request, whole, values)
    return Job(values, _lengths(request, lengths, whole, values, axis), axis, request.batch_axis)


def load_tensor(
    text: str, name: str, dtype: DataType | None, format_name: str | None, *, absolute: bool = False
) -> Source:
    """Open one tensor: `text` names it, or is the tensor itself, which messages then call `name`.

    `dtype` is the data type of a text that does not state one, and `format_name` the format of a file whose bytes and
    suffix do not say theirs. `absolute` is as in a Request. UsageError for a tensor that has another data type.
    """
    reference = Reference.input(text, format_name, name)
    source = registry.open_source(reference.absolute() if absolute else reference, TextTypes(dtype, DataType.FLOAT32))
    _require_type(source, dtype)
    return source


def _require_type(source: Source, dtype: DataType | None) -> None:
    """Raise UsageError for a tensor that has another data type than `dtype`."""
    if dtype and source.desc.data_type is not dtype:
        raise UsageError(
            f"DataType is {source.desc.data_type.name}, and {dtype.name} is asked for",
            "types are never changed silently", Words.of("leave out {}", dtype=""), source.name,
        )  # fmt: skip


def example_of(reference: Reference) -> ExampleText | None:
    """The example that a reference such as `example.txt` or `page.md::2` names; None if it names something else.

    UsageError for a page of several examples without a number, and for a number that the page does not have.
    """
    number = int(reference.key) if reference.key and reference.key.isdecimal() else None
    if (reference.key and number is None) or not registry.holds_text(reference):
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


def _axis(request: Request, whole: WholeJob | None, values: Source) -> int:
    last = max(0, len(values.sizes) - 1)
    hint = Words.of("add {}", axis=last)
    axis = request.axis if request.axis is not None or not whole else whole.axis(hint)
    if axis is None:
        wanted = f"the dimension to reverse along, 0 to {last}"
        raise UsageError("no axis is given", wanted, hint, values.name)
    return axis


def _lengths(
    request: Request, reference: Reference | None, whole: WholeJob | None, values: Source, axis: int
) -> Source:
    """The lengths: given, or of the whole job; cast and widened as the request asks."""
    types = TextTypes(request.lengths_dtype, DataType.UINT32, cast_later=True)
    if reference:
        lengths = registry.open_source(reference, types)
    elif whole:
        lengths = whole.tensor(LENGTHS, types)
    else:
        raise UsageError(
            "no lengths are given", "a tensor of lengths, or an INPUT that is a whole docs-style job or a model",
            "add LENGTHS after INPUT", values.name,
        )  # fmt: skip
    if request.lengths_dtype and lengths.desc.data_type is not request.lengths_dtype:
        lengths = CastSource(lengths, request.lengths_dtype)
    if request.batch_axis is not None:
        lengths = WidenedSource(lengths, values.sizes, axis, request.batch_axis)
    return lengths
