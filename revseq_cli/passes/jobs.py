"""Opens jobs: from a request, from an example in a text, or from a model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from revseq_cli.formats import registry
from revseq_cli.formats.documents import TextTypes
from revseq_cli.formats.references import Reference
from revseq_cli.formats.text import notation_source
from revseq_cli.ground import system
from revseq_cli.ground.errors import Choice, Choices, FormatError, RevseqError, UsageError, Words
from revseq_cli.ground.tensors import DataType
from revseq_cli.operator.spec import INPUT, LENGTHS, FeatureLevel, SpecError, violations
from revseq_cli.passes.assembly import Job, Parts, Request, assemble, require_system
from revseq_cli.passes.ranks import ranked
from revseq_cli.texts.examples import numbered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from revseq_cli.formats.contract import Source
    from revseq_cli.formats.documents import Text
    from revseq_cli.operator.spec import Constraint
    from revseq_cli.texts.examples import Example


class WholeJob(Protocol):
    """What has all parts of a job: an example in a text, a model, or a test of ONNX."""

    def tensor(self, role: str, types: TextTypes) -> Source:
        """The tensor of that name in the operator; FormatError where it is lacking."""

    def axis(self) -> int | None:
        """The axis, or None where none is given; FormatError for what is no axis."""


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
                e.hint = f"add LENGTHS: {system.quoted(self.text.name)} lengths.npy"
            raise e.about(self.text.name) from None
        return notation_source(self.text, item, types)

    def axis(self) -> int | None:
        """The axis, or None without an Axis line; FormatError for what is no axis."""
        try:
            return self.example.axis()
        except FormatError as e:
            raise self.text.located(e).about(self.text.name) from None


def load(request: Request) -> Job:
    """Open the job: headers of files are read, and texts are read whole, each once."""
    reference, lengths_reference = request.references()
    whole: WholeJob | None = registry.model_of(reference)
    if not whole and (in_text := example_of(reference)):
        if in_text.example.problem:
            raise in_text.text.located(in_text.example.problem).about(in_text.text.name)
        whole = in_text
    return _load(request, reference, lengths_reference, whole)


def load_example(text: Text, example: Example) -> Job:
    """The job of an example in that text, with nothing else given."""
    return load_whole(Request(text.name), ExampleText(text, example))


def load_whole(request: Request, whole: WholeJob) -> Job:
    """The job whose parts are all in `whole`, with the casts and axes of the request, which names it."""
    return _load(request, Reference(request.values), None, whole)


def _load(request: Request, reference: Reference, lengths: Reference | None, whole: WholeJob | None) -> Job:
    types = TextTypes(request.dtype, DataType.FLOAT32)
    values = whole.tensor(INPUT, types) if whole else registry.open_source(reference, types)
    _require_type(values, request.dtype)
    parts = Parts(values, _open_lengths(request, lengths, whole, values.name), request)
    try:
        if whole and request.axis is None:
            parts = parts._replace(request=replace(request, axis=whole.axis()))
        job = assemble(parts)
    except RevseqError as e:
        e.hint = e.hint or _choices(parts)
        raise
    try:
        require_system(job)
    except RevseqError as e:
        e.hint = _without_system(job, parts)
        raise
    return job


def _choices(parts: Parts) -> Choices | str:
    """What to type for these tensors, or why nothing can be typed."""
    from revseq_cli.passes import remedies  # only jobs that are refused need it

    if not parts.finds(parts.request.batch_axis):
        return ""
    if not parts.finds(parts.request.axis):
        parts = parts._replace(request=replace(parts.request, axis=None))
    return remedies.choices(parts)


def _without_system(job: Job, parts: Parts) -> Choices:
    """What to type where another system refuses a length: axes that it takes, or the options without that system."""
    others = _choices(parts)
    added = len(job.values.sizes) - len(parts.values.sizes)
    axes = {"axis": job.axis - added, "batch_axis": (job.batch_axis or 0) - added}
    settings = tuple((name, str(axis)) for name, axis in axes.items())
    settings += (("lengths_dtype", job.lengths.desc.data_type.name),)
    clamping = Choice((*settings, ("like", "")), "DirectML clamps such lengths", settings)
    return Choices((*(others.choices if isinstance(others, Choices) else ()), clamping))


def require(job: Job) -> None:
    """Raise SpecError with every rule that the tensors break at the request's level, and with what to type instead."""
    level = job.parts.request.level if job.parts else FeatureLevel.V5_0
    if broken := violations(job.values.desc, job.lengths.desc, job.axis, level):
        raise SpecError(broken, job.names, choices_for(job, broken))


def choices_for(job: Job, broken: Sequence[Constraint]) -> Choices | str:
    """What to type for the tensors of a job that breaks constraints, or why there is nothing; "" if they say it."""
    if not job.parts:
        return ""
    found = _choices(job.parts)
    if isinstance(found, Choices) and len({each.hint for each in broken}) == 1:
        of_level = all({name for name, _ in each.settings} <= {"rank", "feature_level"} for each in found.choices)
        return "" if of_level else found
    return found


def load_tensor(
    text: str,
    name: str,
    dtype: DataType | None,
    format_name: str | None,
    *,
    rank: int | None = None,
    absolute: bool = False,
) -> Source:
    """Open one tensor: `text` names it, or is the tensor itself, which messages then call `name`.

    `dtype` is the data type of a text that does not state one, and `format_name` the format of a file whose bytes and
    suffix do not say theirs. `rank` and `absolute` are as in a Request. UsageError for a tensor that has another data
    type.
    """
    reference = Reference.input(text, format_name, name)
    source = registry.open_source(reference.absolute() if absolute else reference, TextTypes(dtype, DataType.FLOAT32))
    _require_type(source, dtype)
    return ranked(source, rank)


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
    examples = numbered(text.text, text.items)
    if not examples and number is None:
        return None
    if number is None and len(examples) > 1:
        hint = f"try {system.quoted(f'{text.name}::1')}"
        if reference.is_piped:  # it cannot be read again
            hint = "put ::1 behind its name, as in revseq run -- -::1"
        raise UsageError(f"holds {len(examples)} examples", "the number of one", hint, reference.name)
    if number is not None and not 1 <= number <= len(examples):
        raise UsageError(f"no example {number}", f"1 to {len(examples)}", where=reference.name)
    return ExampleText(text, examples[(number or 1) - 1])


def _open_lengths(request: Request, reference: Reference | None, whole: WholeJob | None, values: str) -> Source:
    """The lengths as they are: given, or of the whole job; `values` is the name of the input."""
    types = TextTypes(request.lengths_dtype, DataType.UINT32, cast_later=True)
    if reference:
        return registry.open_source(reference, types)
    if whole:
        return whole.tensor(LENGTHS, types)
    raise UsageError(
        "no lengths are given", "a tensor of lengths, or an INPUT that is a whole docs-style job or a model",
        "add LENGTHS after INPUT; in a batch, give each job its lengths", values,
    )  # fmt: skip
