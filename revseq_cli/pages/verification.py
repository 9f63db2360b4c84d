"""Written examples as tests of the operator: those on docs pages and ONNX's tests, computed again, bit for bit."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from revseq_cli.core import progress, signals
from revseq_cli.core.errors import EngineError, FormatError, RevseqError, TensorIOError
from revseq_cli.formats import file_io, textfiles
from revseq_cli.formats.documents import TextTypes
from revseq_cli.formats.onnx import testdata
from revseq_cli.formats.table import TEXT, by_suffix, compression_of
from revseq_cli.formats.text import notation_source
from revseq_cli.operator import spec
from revseq_cli.operator.spec import DIRECTML, OUTPUT, FeatureLevel
from revseq_cli.pages import support_tables
from revseq_cli.pipeline import jobs, summaries
from revseq_cli.pipeline.arrangement import Resources
from revseq_cli.pipeline.assembly import Request
from revseq_cli.porting import backends, diagnosis
from revseq_cli.porting.onnx_nodes import NodeJob
from revseq_cli.text.examples import NoExampleError, find_examples
from revseq_cli.text.places import Finding, PlacedError, Spot

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from revseq_cli.formats.contract import Source
    from revseq_cli.formats.documents import Text
    from revseq_cli.formats.references import Reference
    from revseq_cli.pipeline.assembly import Job
    from revseq_cli.pipeline.comparison import Differences
    from revseq_cli.porting.backends import Host

# Every tensor of an example has this in its label. A page without it need not be text in a known encoding.
_TENSOR = b"Tensor"


class PageExample(jobs.ExampleText):
    """An example on a page."""

    data_set = None

    def job(self) -> Job:
        """Its job; FormatError where the example does not have all of its parts."""
        if self.example.problem:
            raise self.text.located(self.example.problem)
        self.example.tensor(OUTPUT)  # without it, nothing else matters
        return jobs.load_whole(Request(self.text.name), self)

    def output(self, work: Job) -> Source:
        """The OutputTensor that the page has."""
        types = TextTypes(None, work.values.desc.data_type)
        return notation_source(self.text, self.example.tensor(OUTPUT), types)

    def again(self) -> list[PageExample]:
        """The same example with each further OutputTensor that stands below its own."""
        tensors = self.example.tensors
        more = (replace(self.example, tensors=tensors | {OUTPUT: each}, again=[]) for each in self.example.again)
        return [PageExample(self.text, each) for each in more]

    def spot(self, part: str = "") -> Spot:
        """Where that part of the example begins, or the example itself."""
        return _spot(self.text, self.example.start(part))

    def spot_of_element(self, first: int) -> Spot:
        """Where the OutputTensor has the element of that number."""
        return _spot(self.text, self.example.tensor(OUTPUT).spans()[first][0])


@dataclass(frozen=True)
class DataSetExample:
    """One of ONNX's tests: its lengths are cast and widened, as ONNX has them. It stands in no text."""

    tensors: testdata.DataSet

    @property
    def data_set(self) -> str:
        """The name of its folder."""
        return self.tensors.name

    def job(self) -> Job:
        """Its job; FormatError where its tensors do not fit together.

        ONNX's reference clamps a length above the axis size, as the operator does; only ONNX Runtime refuses it.
        """
        _, model, node, inputs, _ = self.tensors
        job = NodeJob(model, node, inputs, model.inputs)
        return jobs.load_whole(job.completed(Request(model.path)), job)

    def output(self, _: Job) -> Source:
        """The result in the folder."""
        return self.tensors.output

    def again(self) -> list[PageExample]:
        """No further result."""
        return []

    def spot(self, _: str = "") -> None:
        """No place: the tensors are no texts."""

    def spot_of_element(self, _: int) -> None:
        """No place either."""


@dataclass(frozen=True)
class Examples:
    """The examples of this operator in one place, of which `skipped` is the number of other operators' ones.

    `text` is that of a page; a folder of tests has none. `support` is what a page says of feature levels.
    """

    name: str
    examples: Sequence[PageExample | DataSetExample]
    skipped: int = 0
    support: support_tables.Checked = support_tables.NOTHING
    text: Text | None = None


class Verdict(NamedTuple):
    """What is said of one example: the `number`-th of its page or folder, from 1; its `spot`, or its `data_set`.

    `findings` has each reason why the operator cannot be applied. With `is_foreign`, DirectML alone cannot, and the
    output is right. `differences` compares the written OutputTensor (a) with the operator's (b), and is None where they
    are equal; `wrong` is the spot of the first wrong element. `clamped` counts the lengths above the axis size, and
    `fixed` the elements that were wrong before the page was fixed. `by` names what recomputed the example, and
    `is_right_here` says that a host alone gives something else than what is written: the operator gives that.
    """

    number: int
    spot: Spot | None
    data_set: str | None
    findings: tuple[Finding, ...] = ()
    differences: Differences | None = None
    wrong: Spot | None = None
    clamped: int = 0
    fixed: int = 0
    is_foreign: bool = False
    by: str = "the operator"
    is_right_here: bool = False
    notes: tuple[str, ...] = ()

    @property
    def right(self) -> bool:
        """Whether the operator can be applied, and gives every element as it is written."""
        return not self.findings and self.differences is None


class Report(NamedTuple):
    """The verdicts on the examples of a page or a folder, and how many examples of other operators were skipped.

    `support` is what a page says of feature levels. `unfixed` says why a page was not fixed that was to be, and `diff`
    has the lines of what would be.
    """

    verdicts: list[Verdict]
    skipped: int
    support: support_tables.Checked
    unfixed: str = ""
    diff: Sequence[str] = ()

    @property
    def right(self) -> bool:
        """Whether nothing is wrong; notes are only worth a look."""
        return all(each.right for each in self.verdicts) and all(each.is_note for each in self.support.findings)


def examples_of(reference: Reference) -> Examples:
    """The examples behind a reference; NoExampleError if there is none, RevseqError if it cannot be read."""
    if not reference.is_piped and testdata.is_test(reference.path):
        return _tests(reference.name, reference.path)
    try:
        return page_of(reference.text)
    except RevseqError as e:
        if e.found.startswith("is not text"):
            e.wanted, e.hint = f"a page: {e.wanted}", ""  # it is about a tensor
        raise


def examples_below(path: str) -> Examples:
    """The examples of a page or a test below a folder; NoExampleError for what cannot have any, whatever it is."""
    if os.path.isdir(path):  # noqa: PTH112
        if not testdata.may_be_ours(path):
            raise NoExampleError("is a test of another operator", where=path)
        return _tests(path, path)
    data, identity = textfiles.read_bytes(path)
    if _TENSOR not in data and _TENSOR not in data.replace(b"\0", b""):  # in any encoding that is read
        raise NoExampleError("contains no example of this operator", where=path)
    return page_of(textfiles.text_of(data, path, identity))


def _tests(name: str, path: str) -> Examples:
    return Examples(name, [*map(DataSetExample, testdata.data_sets(path))])


def page_of(text: Text) -> Examples:
    """The examples and tables in a text; NoExampleError if it has none of this operator."""
    if other := support_tables.other_operator(text.text):
        raise NoExampleError(f"is the page of {other}", where=text.name)
    examples = find_examples(text.text, text.items)
    ours = [PageExample(text, example) for example in examples if example.is_ours]
    skipped = len(examples) - len(ours)
    support = support_tables.check(text.text, has_examples=bool(ours))
    if not ours and not support.tables:
        others = f"; {skipped} of other operators" if skipped else ""
        wanted = "InputTensor, SequenceTensor, Axis and OutputTensor"
        raise NoExampleError(f"contains no example of this operator{others}", wanted, where=text.name)
    placed = tuple(each._replace(spot=_spot(text, each.start)) for each in support.findings)
    return Examples(text.name, ours, skipped, support._replace(findings=placed), text)


def _spot(text: Text, start: int) -> Spot:
    """Where that character of a text stands in its file."""
    offset = text.offset(start)
    return Spot(text.lines.place(offset), text.lines.shown(offset))


def places_below(folder: str, *, everything: bool = False) -> Iterator[str | TensorIOError]:
    """The paths of all pages and tests below a folder, sorted, or the error for a folder that cannot be read.

    Hidden files and folders are left out, and packed pages; with `everything` they are not. So are links to folders,
    which may lead anywhere, and in circles.
    """
    errors: list[TensorIOError] = []

    def note(error: OSError) -> None:
        errors.append(file_io.failed(str(error.filename or folder), "read", error))

    def is_seen(name: str) -> bool:
        return everything or not name.startswith(".")

    for walked, folders, names in os.walk(folder, onerror=note):
        yield from errors
        errors.clear()
        folders[:] = sorted(filter(is_seen, folders))
        path = walked.removeprefix(os.curdir).lstrip(os.sep) if folder == os.curdir else walked
        if testdata.has_tests(folders, names):
            yield path or folder
        for name in sorted(filter(is_seen, names)):
            if by_suffix(name, reading=True) is TEXT and (everything or not compression_of(name)):
                signals.check()
                yield os.path.join(path, name)  # noqa: PTH118
    yield from errors


def verify(found: Examples, level: FeatureLevel, number: int | None = None, host: Host | None = None) -> Report:
    """Recompute every example, or only example `number`, counted from 1; FormatError if there is none of that number.

    With a `host`, what it gives stands in the place of the operator.
    EngineError where the host fails.
    An example that is wrong has a verdict, and raises nothing. With a number, nothing else of the page is checked.
    """
    count = len(found.examples)
    if number is not None and not 1 <= number <= count:
        wanted = f"1 to {count}" if count else "a page with examples"
        raise FormatError(f"no example {number}", wanted, where=found.name)
    chosen = [(i, example) for i, example in enumerate(found.examples, 1) if number in (None, i)]
    verdicts = []
    with progress.begun("verify", len(chosen), "examples") as advance:
        for i, example in chosen:
            verdicts.append(_examine(i, example, level, host))
            advance(1)
    return Report(verdicts, found.skipped, found.support if number is None else support_tables.NOTHING)


def _examine(number: int, example: PageExample | DataSetExample, level: FeatureLevel, host: Host | None) -> Verdict:
    verdict = Verdict(number, example.spot(), example.data_set, by=host.name if host else "the operator")
    try:
        work = example.job()
        output = example.output(work)
        if broken := spec.violations(work.values.desc, work.lengths.desc, work.axis, level, output.desc):
            parts = spec.SpecError(broken, {}).parts()
            spots = (example.spot("Axis" if each.property == "Axis" else each.tensor) for each in broken)
            findings = tuple(map(_finding, parts, spots))
            # A docs page is about DirectML. ONNX's tests may have what DirectML lacks, and be right.
            foreign = example.data_set is not None and level in DIRECTML
            if foreign and _examine(number, example, FeatureLevel.NONE, host).right:
                return verdict._replace(findings=findings, is_foreign=True)
            return verdict._replace(findings=findings)
        resources = Resources()
        judged = backends.opened(host.backend(work), work, resources, output) if host else None
        with judged or diagnosis.opened(output, work, resources) as pair:
            wrong = pair.compare(None, 1)
        clamped = summaries.count_lengths(work, resources).clamped
        notes = backends.notes_on(host, work, clamped) if host else ()
    except (TensorIOError, EngineError):  # it says nothing about the example
        raise
    except RevseqError as e:
        found, spot = e.found, verdict.spot  # without hints, which are about other commands
        if isinstance(e, PlacedError):
            found, spot = e.problem, Spot(e.place, e.context)
        return verdict._replace(findings=(Finding(0, found, e.wanted, rule="example", spot=spot),))
    work.recheck()
    output.recheck()
    verdict = verdict._replace(clamped=clamped, notes=notes)
    if not wrong.count:
        others = (_examine(number, each, level, host)._replace(spot=verdict.spot) for each in example.again())
        return next((each for each in others if not each.right), verdict)
    first = int(np.ravel_multi_index(tuple(wrong.indices[0]), output.sizes))
    is_right_here = host is not None and _examine(number, example, level, None).right
    return verdict._replace(differences=wrong, wrong=example.spot_of_element(first), is_right_here=is_right_here)


def _finding(error: RevseqError, spot: Spot | None) -> Finding:
    """A violated constraint; with its hint only if that names the feature level alone: others are of other commands."""
    hint = error.hint
    hints = (hint,) if isinstance(hint, str) and "--feature-level" in hint else ()
    return Finding(0, f"{error.where} {error.found}".strip(), error.wanted, rule="example", spot=spot, hints=hints)
