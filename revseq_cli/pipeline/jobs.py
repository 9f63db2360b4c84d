"""Opens jobs: from a request, from an example in a text, or from a node of a model."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Protocol

from revseq_cli.core import system
from revseq_cli.core.errors import (
    FormatError,
    RevseqError,
    SeveralError,
    Suggestion,
    Suggestions,
    UsageError,
    about,
    can_be_typed,
)
from revseq_cli.core.tensors import DataType, TensorDesc
from revseq_cli.formats import file_io, registry
from revseq_cli.formats.contents import proposed, try_hint
from revseq_cli.formats.documents import TextTypes
from revseq_cli.formats.references import Reference, number_of
from revseq_cli.operator.spec import INPUT, LENGTHS, FeatureLevel, SpecError, lengths_sizes, violations
from revseq_cli.pipeline import conventions
from revseq_cli.pipeline.alignment import Shape
from revseq_cli.pipeline.assembly import Job, Parts, Request, assemble, axes_of, require_system
from revseq_cli.pipeline.views import pieces, with_rank

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from revseq_cli.formats.contract import Source
    from revseq_cli.formats.documents import Text
    from revseq_cli.operator.spec import Constraint
    from revseq_cli.text.examples import Example


_MOST = 100  # tensors of a file that are looked at
_MOST_TOLD = 3  # of those that cannot be opened
_OF_LENGTHS = re.compile(
    r"(^|[^a-z])((seq|sequence)?_?(len|lens|length|lengths|mask)|sequence_?tensor)([^a-z]|$)", re.IGNORECASE
)
_IN_CAMEL_CASE = re.compile(r"(?<=[a-z\d])(?=[A-Z])")
_LARGEST = 1 << 22  # bytes of a text that is parsed while somebody waits for a completion


class WholeJob(Protocol):
    """What has all parts of a job: an example in a text, or a node of a model of ONNX."""

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
                e.hint = f"add LENGTHS: {system.typed(self.text.name)} lengths.npy"
            raise e.about(self.text.name) from None
        from revseq_cli.formats.text import notation_source  # most jobs are no text

        return notation_source(self.text, item, types)

    def axis(self) -> int | None:
        """The axis, or None without an Axis line; FormatError for what is no axis."""
        with about(self.text.name):
            return self.example.axis()


def load(request: Request) -> Job:
    """Open the job: headers of files are read, and texts are read whole, each once."""
    try:
        return _made(*_opened(request))
    except (FormatError, UsageError) as e:
        if isinstance(e, SeveralError) or request.lengths is None:
            e.hint = _paired(request) or e.hint
        e.hint = e.hint if isinstance(e.hint, Suggestions) else exchanged(request) or e.hint
        raise


def _opened(request: Request) -> tuple[Parts, WholeJob | None]:
    """The open tensors of a request, and what has all parts of the job if it names such a thing."""
    reference, lengths_reference = request.references()
    whole: WholeJob | None = None
    if reference.is_onnx_model:
        from revseq_cli.formats.onnx_models import NodeJob  # few files are models

        whole = node = NodeJob(reference, request.feed, lengths_reference)
        if not lengths_reference:
            batch_axis = node.batch_axis() if request.batch_axis is None else request.batch_axis
            lengths_dtype = request.lengths_dtype or DataType.UINT32
            request = replace(request, batch_axis=batch_axis, lengths_dtype=lengths_dtype)
    elif request.feed:
        found = f"{reference.name} is not a model, and has no inputs to feed"
        raise UsageError(found, "INPUT such as model.onnx::name", "leave out --feed")
    elif in_text := example_of(reference):
        if in_text.example.problem:
            raise in_text.example.problem.about(in_text.text.name)
        whole = in_text
    return _parts(request, reference, lengths_reference, whole), whole


def load_whole(request: Request, whole: WholeJob) -> Job:
    """The job whose parts are all in `whole`, with the casts and axes of the request, which names it."""
    return _made(_parts(request, Reference(request.values), None, whole), whole)


def _parts(request: Request, reference: Reference, lengths: Reference | None, whole: WholeJob | None) -> Parts:
    types = request.types
    values = whole.tensor(INPUT, types) if whole else _open_values(request, reference, lengths, types)
    refuse_sizes([reference], request.sizes)
    _require_type(values, request.dtype)
    return Parts(values, _open_lengths(request, lengths, whole, values), request)


def _made(parts: Parts, whole: WholeJob | None) -> Job:
    request = parts.request
    try:
        if whole and request.axis is None:
            parts = parts.asking(axis=whole.axis())
        job = assemble(parts)
    except RevseqError as e:
        e.hint = e.hint or _choices(parts)
        raise
    notes = conventions.compared(parts.values, parts.lengths, job.alignment)
    job.lengths.notes = (*job.lengths.notes, *notes)
    for _ in pieces(job.given_lengths) if request.mask else ():
        pass  # the first line that is wrong is told now, whichever block would come to it first
    try:
        require_system(job)
    except RevseqError as e:
        e.hint = _without_system(job, parts)
        raise
    return job


def exchanged(request: Request) -> Suggestions | None:
    """What to type where INPUT and LENGTHS are exchanged: only the other way round they make a job. Else None."""
    if request.lengths is None:
        return None
    from revseq_cli.pipeline import suggestions  # only jobs that are refused need it

    def fit_as_typed(parts: Parts) -> bool:
        return bool(suggestions.fits(Shape.of(parts.lengths), Shape.of(parts.values), mask=request.mask))

    return _with_others(request, request.lengths, request.values, fit_as_typed)


def _paired(request: Request) -> Suggestions | None:
    """What to type where only one pair of tensors fits, in files of several of which one is not named. Else None."""
    pairs = _pairs(request)
    return _with_others(request, *pairs[0]) if len(pairs) == 1 else None


def _with_others(
    request: Request, values: str, lengths: str, doubt: Callable[[Parts], bool] = lambda _: False
) -> Suggestions | None:
    """What to type to make a job of other tensors; None where nothing does, or in `doubt`."""
    try:
        if any(each and each.is_piped for each in request.references()):
            return None
        parts, whole = _opened(replace(request, values=values, lengths=lengths))
        if whole or doubt(parts):
            return None
        job = _made(parts, whole)
        broken = violations(job.values.desc, job.lengths.desc, job.axis, request.level)
        found = _choices(job.parts) if broken and job.parts else Suggestions((Suggestion(()),))
    except RevseqError as e:
        found = e.hint if isinstance(e.hint, Suggestions) else ""
    if not isinstance(found, Suggestions):
        return None
    words = (("INPUT", values), ("LENGTHS", lengths))
    made = (replace(each, settings=words + each.settings) for each in found.choices)
    typed = (request.values,) if request.lengths is None else (request.values, request.lengths)
    return replace(found, choices=tuple(made), typed=typed)


def _choices(parts: Parts) -> Suggestions | str:
    """What to type for these tensors, or why nothing can be typed."""
    from revseq_cli.pipeline import suggestions  # only jobs that are refused need it

    if not parts.finds(parts.request.batch_axis):
        return ""
    if not parts.finds(parts.request.axis):
        parts = parts.asking(axis=None)
    return suggestions.choices(parts)


def _without_system(job: Job, parts: Parts) -> Suggestions | str:
    """What to type where another system refuses a length: axes that it takes, or the options without that system."""
    others = _choices(parts)
    if others and isinstance(others, str):  # no system takes these lengths
        return others
    added = len(job.values.sizes) - len(parts.values.sizes)
    axes = {"--axis": job.axis - added, "--batch-axis": (job.batch_axis or 0) - added}
    settings = tuple((name, str(axis)) for name, axis in axes.items())
    settings += (("--lengths-dtype", job.lengths.desc.data_type.name),)
    clamping = Suggestion((*settings, ("--like", "")), "DirectML clamps such lengths", settings)
    return Suggestions((*(others.choices if isinstance(others, Suggestions) else ()), clamping), sure=not others)


def require(job: Job) -> None:
    """Raise SpecError with every rule that the tensors break at the request's level, and with what to type instead."""
    level = job.parts.request.level if job.parts else FeatureLevel.V5_0
    if broken := violations(job.values.desc, job.lengths.desc, job.axis, level):
        raise SpecError(broken, job.names, choices_for(job, broken))


def choices_for(job: Job, broken: Sequence[Constraint]) -> Suggestions | str:
    """What to type for the tensors of a job that breaks constraints, or why there is nothing; "" if they say it."""
    if not job.parts:
        return ""
    found = _choices(job.parts)
    if not isinstance(found, Suggestions):
        return exchanged(job.parts.request) or found
    if len({each.hint for each in broken}) == 1:
        of_level = all({name for name, _ in each.settings} <= {"--rank", "--feature-level"} for each in found.choices)
        return "" if of_level else found
    return found


def load_tensor(request: Request, name: str, *, like: TensorDesc | None = None, lenient: bool = False) -> Source:
    """Open one tensor: the values of the request, which messages call `name` where they are text.

    A raw buffer of which nothing is said is one `like` that. UsageError for a tensor that has another data type than
    the request says, unless `lenient` says that this is meant for another tensor.
    """
    reference = request.reference(request.values, name)
    types = request.types._replace(cast_later=lenient)
    if like and reference.is_bare:
        types = types._replace(default=like.data_type, sizes=types.sizes or like.sizes)
    source = _proposing(reference, types)
    if not lenient:
        _require_type(source, request.dtype)
    return with_rank(source, request.rank)


def refuse_sizes(references: Sequence[Reference], sizes: tuple[int, ...] | None) -> None:
    """UsageError where sizes are given for tensors of which none is a raw buffer."""
    if sizes is not None and not any(each.is_bare for each in references):
        found = "sizes are given, but it is not a raw buffer"
        raise UsageError(found, "a .bin or .raw file", "leave out --sizes", references[0].name)


def _require_type(source: Source, dtype: DataType | None) -> None:
    """Raise UsageError for a tensor that has another data type than `dtype`."""
    if dtype and source.desc.data_type is not dtype:
        found = f"DataType is {source.desc.data_type.name}, and {dtype.name} is asked for"
        wanted = f"{source.desc.data_type.name}: revseq does not cast values, and numpy's astype does"
        raise UsageError(found, wanted, "leave out --dtype", source.name)


def example_of(reference: Reference) -> ExampleText | None:
    """The example that a reference such as `example.txt` or `page.md::2` names; None if it names something else.

    UsageError for a page of several examples without a number, and for a number that the page does not have.
    """
    number = number_of(reference.key)
    if (reference.key and number is None) or not registry.holds_text(reference):
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
    if number is not None and not 1 <= number <= len(examples):
        raise UsageError(f"no example {number}", f"1 to {len(examples)}", where=reference.name)
    return ExampleText(text, examples[(number or 1) - 1])


def _open_values(request: Request, reference: Reference, lengths: Reference | None, types: TextTypes) -> Source:
    """The values; where several are in the file and none is named, the error proposes what fits axis and lengths."""

    def fits(values: Source) -> bool:
        from revseq_cli.pipeline import suggestions  # only files of several tensors need it

        of_lengths = None
        with contextlib.suppress(RevseqError):  # it is told when there are values
            of_lengths = registry.open_source(lengths, request.types_of_lengths) if lengths else None
        axis = Parts(values, of_lengths or values, request).axis or 0
        if not of_lengths:
            return 0 <= axis < len(values.sizes)
        return suggestions.go_together(Parts(values, of_lengths, request))

    return _proposing(reference, types, fits)


def _open_lengths(request: Request, reference: Reference | None, whole: WholeJob | None, values: Source) -> Source:
    """The lengths, unpacked: given, or of the whole job."""
    types = request.types_of_lengths
    if reference and reference.is_bare:
        types = _types_of_bare(request, reference, values)

    def fits(lengths: Source) -> bool:
        from revseq_cli.pipeline import suggestions  # only files of several tensors need it

        own = (lengths.path, lengths.key) != (values.path, values.key)
        return own and suggestions.go_together(Parts(values, lengths, request))

    if reference:
        lengths = _proposing(reference, types, fits, lengths=True)
    elif whole:
        lengths = whole.tensor(LENGTHS, types)
    else:
        wanted = "a tensor of lengths, or an INPUT that is a complete job or a model"
        hint = "add LENGTHS after INPUT; in a batch, give each job its lengths"
        raise UsageError("no lengths are given", wanted, hint, values.name)
    if request.mask:
        return lengths
    conventions.refuse_missing(lengths)
    return conventions.unpacked(lengths, request.cast(types.default) or types.default)


def _types_of_bare(request: Request, reference: Reference, values: Source) -> TextTypes:
    """The sizes that lengths in a raw buffer need to have, and the data type that takes as many bytes for each."""
    axis, batch_axis = axes_of(Parts(values, values, request))
    known = (request.system and not request.mask and request.system.lengths) or (DataType.UINT32, DataType.UINT64)
    if axis is None or not {axis, batch_axis} - {None} <= {*range(len(values.sizes))}:
        return TextTypes(None, known[0], sizes=(-1,))
    needed = [(values.sizes[batch_axis],) if batch_axis is not None else lengths_sizes(values.sizes, axis)]
    if request.mask:
        known = (DataType.UINT8, *known)
        needed = [values.sizes]
        if batch_axis is not None:
            is_first = batch_axis < axis or (request.system is not None and request.system.masks_batch_first)
            needed += [tuple(values.sizes[d] for d in ((batch_axis, axis) if is_first else (axis, batch_axis)))]
    with file_io.opened(reference.path) as fd:
        total = file_io.identity(fd).size
    fits = ((data_type, sizes) for sizes in needed for data_type in known if data_type.size * prod(sizes) == total)
    data_type, sizes = next(fits, (known[0], needed[0]))
    return TextTypes(None, data_type, sizes=sizes)


def _is_of_lengths(key: str) -> bool:
    """Whether a tensor is named like lengths, or like a mask."""
    return bool(_OF_LENGTHS.search(_IN_CAMEL_CASE.sub("_", key.rpartition("/")[2])))


def _is_coordinate(source: Source) -> bool:
    """Whether it says where the indices of its own dimension are, as `lat` along lat."""
    return source.dimensions == (source.key.rpartition("/")[2],)


def _proposing(
    reference: Reference, types: TextTypes, fits: Callable[[Source], bool] = lambda _: True, *, lengths: bool = False
) -> Source:
    """Open a tensor; where several are in the file, the error proposes the only one that fits, or lists those.

    Of several that fit the name decides between values and `lengths`; a scalar and a coordinate fit nowhere. The error
    says why others cannot be opened.
    """
    try:
        return registry.open_source(reference, types)
    except SeveralError as e:
        sources, unopened = _looked_at(reference, types, e.names)
        found, is_judged = [], False
        for key, source in sources.items():
            with contextlib.suppress(RevseqError):  # it does not fit
                found += [key] if fits(source) else []
                is_judged = True
        named = [key for key in found if _is_of_lengths(key) == lengths]
        found = named or (found if lengths else [])
        unopened = {key: why for key, why in unopened.items() if _is_of_lengths(key) == lengths}
        if e.names and (is_judged or not sources):  # all are listed where the axis is a name that none has
            e.hint = ""
        if len(found) == 1 and len(e.names) <= _MOST:
            e.hint = try_hint(e.where, found[0])
        elif found:
            looked_at = f" among the first {_MOST}" * (len(e.names) > _MOST)
            words = [system.typed(f"{e.where}::{key}") for key in found if can_be_typed(key)]
            e.hint = f"those that fit{looked_at} are {proposed(words)}" if words else ""
        e.context = "\n".join(f"{e.where}::{key} cannot be opened: {unopened[key]}" for key in [*unopened][:_MOST_TOLD])
        raise


def _looked_at(
    reference: Reference, types: TextTypes, names: Sequence[str]
) -> tuple[dict[str, Source], dict[str, str]]:
    """The tensors of a file that may be meant, by their names; and why others cannot be opened."""
    sources, unopened = {}, {}
    for key in names[:_MOST]:
        try:
            source = registry.open_source(replace(reference, key=key), types)
        except RevseqError as error:
            unopened[key] = error.found
            continue
        if source.sizes and not _is_coordinate(source):
            sources[key] = source
    return sources, unopened


def _pairs(request: Request) -> list[tuple[str, str]]:
    """The names of every two tensors that make a job by sizes and names, where one is not named, as INPUT and LENGTHS.

    What is named stays; LENGTHS that are not given are in the file of INPUT, and have a name like lengths.
    """
    from revseq_cli.pipeline import suggestions  # only files of several tensors need it

    reference, given = request.references()
    values = _candidates(reference, request.values, request.types, lengths=False)
    other = given or replace(reference, key=None)
    lengths = _candidates(other, request.lengths, request.types_of_lengths, lengths=True)
    return [
        (name, name_of_lengths)
        for name, source in values.items()
        for name_of_lengths, its_lengths in lengths.items()
        if name != name_of_lengths and suggestions.go_together(Parts(source, its_lengths, request))
    ]


def _candidates(reference: Reference, typed: str | None, types: TextTypes, *, lengths: bool) -> dict[str, Source]:
    """The tensors that may be meant, by what names them: the one that was typed, or those of a file of several."""
    try:
        source = registry.open_source(reference, types)
    except SeveralError as e:
        sources, _ = _looked_at(reference, types, e.names if len(e.names) <= _MOST else ())
        return {f"{reference.path}::{key}": each for key, each in sources.items() if _is_of_lengths(key) == lengths}
    except RevseqError:  # it is told
        return {}
    return {} if typed is None else {typed: source}
