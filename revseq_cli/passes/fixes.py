"""Wrong OutputTensors on a page put right in place: only their numbers, sizes and data types change."""

from __future__ import annotations

import difflib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.formats import registry, textfiles
from revseq_cli.formats.storage import positioned
from revseq_cli.formats.storage.together import Together
from revseq_cli.ground.bits import bits
from revseq_cli.ground.dtypes import dtype_of
from revseq_cli.ground.errors import FormatError, RevseqError, TensorIOError, UsageError
from revseq_cli.operator import kernel, spec
from revseq_cli.operator.spec import INPUT, OUTPUT
from revseq_cli.passes import pages, verification
from revseq_cli.texts import literals

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from revseq_cli.formats.documents import Text
    from revseq_cli.ground.tensors import DataType
    from revseq_cli.operator.spec import FeatureLevel
    from revseq_cli.passes.pages import Page, PageExample
    from revseq_cli.passes.verification import Report


class Edit(NamedTuple):
    """A part of a text, text[start:stop], and what takes its place."""

    start: int
    stop: int
    new: str


class Fix(NamedTuple):
    """A page put right: the bytes of its file, and the report on it then."""

    data: bytes
    report: Report


def fix(page: Page, report: Report, level: FeatureLevel, number: int | None) -> Fix:
    """Put every wrong OutputTensor right, or only that of example `number`; FormatError if one stays wrong.

    A page is put right as a whole or not at all, so that nobody takes a half for done.
    """
    _require_exact(page.text)
    counts: dict[int, int] = {}
    edits: list[Edit] = []
    for finding in report.findings:
        if finding.right:
            continue
        try:
            new = [*_edits(page.examples[finding.number - 1], level)]
        except TensorIOError:
            raise
        except RevseqError as e:
            raise FormatError(f"example {finding.number} cannot be fixed: {e.found}") from None
        edits += new
        counts[finding.number] = len(new)
    data = page.text.encoding.encode(_applied(page.text, edits))
    again = verification.verify(pages.page_of(textfiles.text_of(data, page.name)), level, number)
    for finding in again.findings:
        if not finding.right:
            reason = finding.problems[0].message if finding.problems else "its OutputTensor stays wrong"
            raise FormatError(f"example {finding.number} cannot be fixed: {reason}")
    findings = [replace(finding, fixed=counts.get(finding.number, 0)) for finding in again.findings]
    return Fix(data, again._replace(findings=findings))


def diff(page: Page, done: Fix) -> list[str]:
    """The unified diff of a page and its fix, line by line, without the ends of lines."""
    old, new = (_lines(text) for text in (page.text.whole, page.text.encoding.decode(done.data)))
    return list(difflib.unified_diff(old, new, page.name, page.name, lineterm=""))


def write(page: Page, done: Fix) -> Sequence[str]:
    """Replace the page by its fix: the name has the old content or the complete new one; notes of what went wrong."""
    file = registry.new_file(page.name, overwrite=True)
    with Together(file) as together:
        file.write(done.data)
        with positioned.opened(page.name, page.text.identity):  # it is as it was when it was read
            pass
    return together.notes


def _lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _require_exact(text: Text) -> None:
    """Refuse a text that is not written back byte for byte where nothing is changed."""
    if text.identity is None:
        raise UsageError("is standard input, and nothing in it can be replaced", "the name of a file", where=text.name)
    with positioned.opened(text.name, text.identity) as fd:
        data = positioned.read_some(fd, text.identity.size, 0, text.name)
    if text.encoding.encode(text.whole) != data:
        found = f"is packed, or not written in the usual way of {text.encoding.shown}, and would change as a whole"
        raise FormatError(found, "a page whose other bytes stay as they are", where=text.name)


def _edits(example: PageExample, level: FeatureLevel) -> Iterator[Edit]:
    """What to change in an OutputTensor; each number is written as the InputTensor has it."""
    work = example.job()
    if broken := spec.violations(work.values.desc, work.lengths.desc, work.axis, level):
        raise spec.SpecError(broken, {}).parts()[0]
    values, output = example.example.tensor(INPUT), example.example.tensor(OUTPUT)
    for old, new in zip(output.header_spans(), values.header_spans(), strict=True):
        before, after = output.text[slice(*old)], values.text[slice(*new)]
        if before.split() != after.split():
            yield Edit(*old, after)
    count = work.values.desc.element_count
    spans, given = output.spans(), values.spans()
    if len(spans) != count:
        raise FormatError(f"OutputTensor has {len(spans)} numbers, and not {count}")
    indices = kernel.reverse(np.arange(count).reshape(work.values.sizes), work.lengths.read(), work.axis).ravel()
    right = bits(work.values.read()).ravel()[indices]
    tokens = [output.text[slice(*span)] for span in spans]
    grid = _Grid(example.text.text, output.text, spans, work.values.sizes[-1])
    for i in _wrong(tokens, work.values.desc.data_type, right):
        yield grid.edit(i, values.text[slice(*given[indices[i]])])


def _wrong(tokens: list[str], data_type: DataType, right: NDArray[Any]) -> list[int]:
    """Which numbers are not `right`, the bits of all; one that the data type cannot hold is none of them."""
    dtype = dtype_of(data_type)
    try:
        return np.flatnonzero(bits(literals.parse(tokens, dtype, data_type.name)) != right).tolist()
    except literals.LiteralError:
        if len(tokens) > 1:
            return [i for i, token in enumerate(tokens) if _wrong([token], data_type, right[i : i + 1])]
        return [0]


class _Grid:
    """The numbers of a body as they stand in rows; as on the reference pages, they may be right-aligned in columns."""

    def __init__(self, text: str, plain: str, spans: list[tuple[int, int]], width: int) -> None:
        self._text, self._spans = text, spans
        ends = [stop - plain.rfind("\n", 0, start) for start, stop in spans]
        rows = [tuple(ends[i : i + width]) for i in range(0, len(ends), width)]
        self._aligned = len(rows) > 1 and len({*rows}) == 1

    def edit(self, i: int, new: str) -> Edit:
        """The change of a number: in an aligned body it ends where the old one ends, as far as blanks allow it."""
        start, stop = self._spans[i]
        if not self._aligned:
            return Edit(start, stop, new)
        blanks = start - len(self._text[:start].rstrip(" "))
        least = 0 if self._text[start - blanks - 1] == "[" else min(blanks, 1)
        eaten = min(max(0, len(new) - (stop - start)), blanks - least)
        return Edit(start - eaten, stop, new.rjust(stop - start))


def _applied(text: Text, edits: list[Edit]) -> str:
    """The whole text of the file with these changes, none of which overlap."""
    whole, parts, end = text.whole, [], 0
    for edit in sorted(edits):
        start, stop = text.span(edit.start, edit.stop)
        parts += [whole[end:start], edit.new]
        end = stop
    return "".join([*parts, whole[end:]])
