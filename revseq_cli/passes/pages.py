"""Docs pages as tests: every example of the operator on a page, and what the page says of feature levels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from revseq_cli.formats import textfiles
from revseq_cli.formats.documents import Text, TextTypes
from revseq_cli.formats.text import notation_source
from revseq_cli.ground.errors import FormatError, RevseqError
from revseq_cli.operator.spec import OUTPUT
from revseq_cli.passes import jobs, walks
from revseq_cli.texts import support_checks
from revseq_cli.texts.examples import Example, find_examples
from revseq_cli.texts.places import PlacedError

if TYPE_CHECKING:
    from revseq_cli.formats.contract import Source
    from revseq_cli.formats.references import Reference
    from revseq_cli.passes.assembly import Job
    from revseq_cli.texts.places import Place


class NoExampleError(FormatError):
    """A text that says nothing of this operator."""


class Spot(NamedTuple):
    """A place in a file, and its line with a caret below it."""

    place: Place
    shown: str


def spot_of(text: Text, start: int) -> Spot:
    """Where that character of a text stands in its file."""
    place = text.lines.place(text.offset(start))
    return Spot(place, text.lines.shown(place))


@dataclass(frozen=True)
class PageExample:
    """An example on a page."""

    text: Text
    example: Example
    data_set = None

    def job(self) -> Job:
        """Its job; FormatError where the example does not have all of its parts."""
        if self.example.problem:
            raise self.text.located(self.example.problem)
        self.example.tensor(OUTPUT)  # without it, nothing else matters
        return jobs.load_example(self.text, self.example)

    def output(self, work: Job) -> Source:
        """The OutputTensor that the page has."""
        types = TextTypes(None, work.values.desc.data_type)
        return notation_source(self.text, self.example.tensor(OUTPUT), types)

    def spot(self, about: str | RevseqError = "") -> Spot:
        """Where that part of the example begins, or what an error is about; else where the example begins."""
        if isinstance(about, str):
            return spot_of(self.text, self.example.start(about))
        if isinstance(about, PlacedError):
            return Spot(about.place, about.context)
        return self.spot()

    def spot_of_element(self, first: int) -> Spot:
        """Where the OutputTensor has the element of that number."""
        return spot_of(self.text, self.example.tensor(OUTPUT).spans()[first][0])


@dataclass(frozen=True)
class Page:
    """A page: its examples of this operator, how many of others it has, and what it says of feature levels."""

    text: Text
    examples: list[PageExample]
    skipped: int
    support: support_checks.Checked

    @property
    def name(self) -> str:
        """The name of the page."""
        return self.text.name

    @property
    def remarks(self) -> list[tuple[Spot, support_checks.Remark]]:
        """What is wrong, or worth a note, with what it says of feature levels, and where."""
        return [(spot_of(self.text, remark.start), remark) for remark in self.support.remarks]


def open_page(reference: Reference) -> Page:
    """The page behind a reference; NoExampleError for a text without an example or a table of this operator."""
    try:
        return page_of(reference.text)
    except RevseqError as e:
        e.drop_settings()  # they are about tensors, and verify does not have them
        raise


def open_below(path: str) -> Page:
    """The page of a file below a folder; NoExampleError for one that cannot have an example, whatever it is."""
    data, identity = textfiles.read_bytes(path)
    if not walks.may_have_examples(data):
        raise NoExampleError("holds no example of this operator", where=path)
    return page_of(textfiles.text_of(data, path, identity))


def page_of(text: Text) -> Page:
    """The examples and tables in a text; NoExampleError if it has none of this operator."""
    examples = find_examples(text.text, text.items)
    ours = [PageExample(text, example) for example in examples if example.is_ours]
    skipped = len(examples) - len(ours)
    support = support_checks.check(text.text, has_examples=bool(ours))
    if not ours and not support.tables:
        others = f"; {skipped} of other operators" if skipped else ""
        raise NoExampleError(
            f"holds no example of this operator{others}", "InputTensor, SequenceTensor, Axis and OutputTensor",
            where=text.name,
        )  # fmt: skip
    return Page(text, ours, skipped, support)
