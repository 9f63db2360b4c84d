"""Docs pages as tests: every example of the operator on a page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from revseq_cli.formats.documents import Text, TextTypes
from revseq_cli.formats.text import notation_source
from revseq_cli.ground.errors import FormatError, RevseqError
from revseq_cli.operator.spec import OUTPUT
from revseq_cli.passes import jobs
from revseq_cli.texts.examples import Example, find_examples

if TYPE_CHECKING:
    from revseq_cli.formats.contract import Source
    from revseq_cli.formats.references import Reference
    from revseq_cli.passes.assembly import Job


@dataclass(frozen=True)
class PageExample:
    """An example on a page."""

    text: Text
    example: Example
    data_set = None

    @property
    def line(self) -> int:
        """The line on which it begins."""
        return self.example.line

    def job(self) -> Job:
        """Its job; FormatError where the example does not have all of its parts."""
        if self.example.problem:
            raise self.example.problem
        self.example.tensor(OUTPUT)  # without it, nothing else matters
        return jobs.load_example(self.text, self.example)

    def output(self, work: Job) -> Source:
        """The OutputTensor that the page has."""
        types = TextTypes(None, work.values.desc.data_type)
        return notation_source(self.text, self.example.tensor(OUTPUT), types)

    def line_of(self, first: int) -> int | None:
        """The line of the OutputTensor's element of that number."""
        return self.example.tensor(OUTPUT).line_of(first)


@dataclass(frozen=True)
class Page:
    """A page: its examples of this operator, and how many of other operators it has."""

    name: str
    examples: list[PageExample]
    skipped: int


def open_page(reference: Reference) -> Page:
    """The page behind a reference; FormatError for a text without an example of this operator."""
    try:
        return page_of(reference.text)
    except RevseqError as e:
        e.hint = ""  # it names options that verify does not have
        raise


def page_of(text: Text) -> Page:
    """The examples in a text; FormatError if it has none of this operator."""
    examples = find_examples(text.text, text.items)
    ours = [PageExample(text, example) for example in examples if example.is_ours]
    skipped = len(examples) - len(ours)
    if not ours:
        others = f"; {skipped} of other operators" if skipped else ""
        raise FormatError(
            f"holds no example of this operator{others}", "InputTensor, SequenceTensor, Axis and OutputTensor",
            where=text.name,
        )  # fmt: skip
    return Page(text.name, ours, skipped)
