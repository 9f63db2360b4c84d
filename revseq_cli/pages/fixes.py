"""Wrong OutputTensors on a page put right in place: only their numbers, sizes and data types change."""

from __future__ import annotations

import difflib
import itertools
import json
import re
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.core.dtypes import bits, dtype_of
from revseq_cli.core.errors import FormatError, RevseqError, TensorIOError, UsageError
from revseq_cli.formats import file_io, registry, textfiles
from revseq_cli.formats.atomic_file import FileTransaction
from revseq_cli.operator import kernel, spec
from revseq_cli.operator.spec import INPUT, OUTPUT
from revseq_cli.pages import verification
from revseq_cli.pages.verification import PageExample
from revseq_cli.text import literals, notation
from revseq_cli.text.examples import label_meant

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from revseq_cli.core.tensors import DataType
    from revseq_cli.formats.documents import Text
    from revseq_cli.operator.spec import FeatureLevel
    from revseq_cli.pages.verification import Examples, Report
    from revseq_cli.text.examples import Example


_AROUND = 3  # lines before and behind a change in a diff


class Edit(NamedTuple):
    """A part of a text, text[start:stop], and what takes its place."""

    start: int
    stop: int
    new: str


class Fix(NamedTuple):
    """A page put right: the text of its file as it was, the bytes as they are then, and the report on it then."""

    text: Text
    data: bytes
    report: Report


def fix(page: Examples, report: Report, level: FeatureLevel, number: int | None) -> Fix:
    """Put every wrong OutputTensor right, or only that of example `number`; FormatError if one stays wrong.

    A page is put right as a whole or not at all, so that nobody takes a half for done.
    """
    if not (text := page.text):
        raise FormatError("only pages can be fixed")
    _require_exact(text)
    page, report, counts = _mended(page, text, report, level, number)
    edits: list[Edit] = []
    for verdict, example in zip(report.verdicts, _of_page(page, report), strict=True):
        if verdict.right:
            continue
        try:
            new = [edit for each in (example, *example.again()) for edit in _edits(each, level)]
        except TensorIOError:
            raise
        except RevseqError as e:
            raise FormatError(f"example {verdict.number} cannot be fixed: {e.found}") from None
        edits += new
        counts[verdict.number] = counts.get(verdict.number, 0) + len(new)
    data = text.encoding.encode(_applied(page.text or text, edits))
    again = verification.verify(verification.page_of(textfiles.text_of(data, text.name)), level, number)
    for verdict in again.verdicts:
        if not verdict.right:
            reason = verdict.findings[0].message if verdict.findings else "its OutputTensor stays wrong"
            raise FormatError(f"example {verdict.number} cannot be fixed: {reason}")
    verdicts = [verdict._replace(fixed=counts.get(verdict.number, 0)) for verdict in again.verdicts]
    return Fix(text, data, again._replace(verdicts=verdicts))


def _of_page(page: Examples, report: Report) -> list[PageExample]:
    """The example of each verdict."""
    return [e for v in report.verdicts if isinstance(e := page.examples[v.number - 1], PageExample)]


def _mended(
    page: Examples, text: Text, report: Report, level: FeatureLevel, number: int | None
) -> tuple[Examples, Report, dict[int, int]]:
    """The page with the characters that a tensor is written with, for those that look like them; their counts."""
    slips = {v.number: [*_slips(e)] for v, e in zip(report.verdicts, _of_page(page, report), strict=True) if v.findings}
    if any(slips.values()):
        mended = _applied(text, [edit for edits in slips.values() for edit in edits])
        page = verification.page_of(textfiles.text_of(text.encoding.encode(mended), text.name))
        report = verification.verify(page, level, number)
    return page, report, {number: len(edits) for number, edits in slips.items()}


def _slips(example: PageExample) -> Iterator[Edit]:
    """What to change where a character looks like one that a tensor is written with, but in comments and markup."""
    ours, text = example.example, example.text.text
    for tensor in (*ours.tensors.values(), *ours.again):
        for i, character in enumerate(tensor.text[tensor.start : tensor.stop], tensor.start):
            if not character.isascii() and text[i] == character and (right := notation.plain(character)):
                yield Edit(i, i + 1, right)
    yield from _renamed(ours)
    outputs = [each for each in (ours.tensors.get(OUTPUT), *ours.again) if each]
    values = ours.tensors.get(INPUT)
    for output in outputs:
        if values and not values.unread_header() and (span := output.unread_header()) and text[slice(*span)].isascii():
            _, end = values.label_span()
            _, stop = values.header_spans()[1]
            yield Edit(*span, OUTPUT + values.text[end : stop + 1])


def _renamed(example: Example) -> Iterator[Edit]:
    """The right label for one that is misspelled, and for the only one that no tensor of the operator has."""
    for role, tensor in example.tensors.items():
        meant = label_meant(tensor.name)
        if meant and meant != tensor.name and not (role == OUTPUT and tensor.unread_header()):
            yield Edit(*tensor.label_span(), meant)
    missing = example.missing()
    if example.is_meant and len(missing) == len(example.others) == 1:
        yield Edit(*example.others[0].label_span(), missing[0])


def diff(done: Fix) -> list[str]:
    """The unified diff of a page and its fix, line by line, without the ends of lines."""
    name = done.text.name
    old, new = (_lines(text) for text in (done.text.whole, done.text.encoding.decode(done.data)))
    if len(old) != len(new):  # a header with line breaks in it
        return list(difflib.unified_diff(old, new, name, name, lineterm=""))
    changed = [i for i, each in enumerate(old) if each != new[i]]
    starts = [i for i, line in enumerate(changed) if not i or line - changed[i - 1] > 2 * _AROUND + 1]
    lines = [f"--- {name}", f"+++ {name}"]
    for first, behind in zip(starts, [*starts[1:], len(changed)], strict=False):
        lines += _hunk(old, new, changed[first], changed[behind - 1])
    return lines


def _hunk(old: list[str], new: list[str], first: int, last: int) -> Iterator[str]:
    """The part of a unified diff for the changes from line `first` to line `last`; both texts have as many lines."""
    start, stop = max(0, first - _AROUND), min(len(old), last + _AROUND + 1)
    span = f"{start + 1},{stop - start}" if stop - start > 1 else f"{stop}"
    yield f"@@ -{span} +{span} @@"
    for is_same, group in itertools.groupby(range(start, stop), lambda i: old[i] == new[i]):
        places = [*group]
        yield from (f"{' ' if is_same else '-'}{old[i]}" for i in places)
        yield from () if is_same else (f"+{new[i]}" for i in places)


def write(done: Fix) -> Sequence[str]:
    """Replace the page by its fix: the name has the old content or the complete new one; notes of what went wrong."""
    name = done.text.name
    file = registry.new_file(name, overwrite=True)
    with FileTransaction(file) as together:
        file.write(done.data)
        with file_io.opened(name, done.text.identity):  # it is as it was when it was read
            pass
    return together.notes


def _lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _require_exact(text: Text) -> None:
    """Refuse a text that is not written back byte for byte where nothing is changed."""
    if text.identity is None:
        raise UsageError("is standard input, and cannot be changed", "the name of a file", where=text.name)
    with file_io.opened(text.name, text.identity) as fd:
        data = file_io.read_some(fd, text.identity.size, 0, text.name)
    if text.encoding.encode(text.whole) != data:
        found = f"is packed, or not written in the usual way of {text.encoding.shown}, so all of it would change"
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
    sizes, count = work.values.sizes, work.values.desc.element_count
    given = values.spans()
    indices = kernel.reverse(np.arange(count).reshape(sizes), work.lengths.read(), work.axis).ravel()
    right = [values.text[slice(*given[i])] for i in indices]
    if (spans := _readable(output, sizes)) is None:
        yield from _by_line(example.text, _rewritten(example, right, sizes))
        return
    tokens = [output.text[slice(*span)] for span in spans]
    edit = partial(_aligned_edit, example.text.text) if _is_aligned(output.text, spans, sizes[-1]) else Edit
    for i in _wrong(tokens, work.values.desc.data_type, bits(work.values.read()).ravel()[indices]):
        yield edit(*spans[i], right[i])


def _readable(output: notation.TensorText, sizes: tuple[int, ...]) -> list[tuple[int, int]] | None:
    """Where each number of the rows stands; None where the rows are not those of a tensor of these sizes."""
    try:
        shape, spans = output.shape(), output.spans()
    except FormatError:
        return None
    is_whole = output.rows_span() == (output.opened, output.stop)
    return spans if is_whole and sizes[len(sizes) - len(shape) :] == shape and len(spans) == prod(sizes) else None


def _rewritten(example: PageExample, tokens: list[str], sizes: tuple[int, ...]) -> Edit:
    """New rows for an OutputTensor whose rows are none, as the InputTensor's are laid out, or else in columns.

    FormatError where comments or markup stand in them, which would be lost.
    """
    values, output, text = example.example.tensor(INPUT), example.example.tensor(OUTPUT), example.text.text
    start, stop = output.rows_span()
    if output.text[start:stop] != text[start:stop]:
        raise FormatError("the rows of OutputTensor contain comments or markup, which would be lost")
    old = values.text[values.opened : values.stop]
    margin = text[text.rfind("\n", 0, values.opened) + 1 : values.opened]
    given = [values.text[slice(*span)] for span in values.spans()]
    break_ = "\r\n" if "\r\n" in text[values.start : values.stop] else "\n"
    new = notation.body(notation.aligned(tokens, sizes[-1]), sizes).replace("\n", f"{break_}{margin}")
    in_columns = notation.body(notation.aligned(given, sizes[-1]), sizes).replace("\n", f"\n{margin}")
    if re.sub(r" (?=\n)", "", old) != in_columns and old == text[values.opened : values.stop]:
        parts, end = [], values.opened
        for (first, behind), token in zip(values.spans(), tokens, strict=True):
            parts += [text[end:first], token]
            end = behind
        new = "".join([*parts, text[end : values.stop]])
    return Edit(start, stop, f"{break_}{margin}{new}" if start == stop else new)


def _by_line(text: Text, edit: Edit) -> Iterator[Edit]:
    """The change, as one of each line: those of a notebook stand in strings of their own."""
    old, new = text.text[edit.start : edit.stop].split("\n"), edit.new.split("\n")
    if len(old) != len(new):
        yield edit
        return
    start = edit.start
    for before, after in zip(old, new, strict=True):
        if before != after:
            yield Edit(start, start + len(before), after)
        start += len(before) + 1


def _wrong(tokens: list[str], data_type: DataType, right: NDArray[Any]) -> list[int]:
    """Which numbers are not `right`, the bits of all; one that the data type cannot hold is none of them."""
    dtype = dtype_of(data_type)
    try:
        return np.flatnonzero(bits(literals.parse(tokens, dtype, data_type.name)) != right).tolist()
    except literals.LiteralError:
        if len(tokens) > 1:
            return [i for i, token in enumerate(tokens) if _wrong([token], data_type, right[i : i + 1])]
        return [0]


def _is_aligned(text: str, spans: list[tuple[int, int]], width: int) -> bool:
    """Whether the numbers of a body, in rows of `width`, are right-aligned in columns, as on the reference pages."""
    ends = [stop - text.rfind("\n", 0, start) for start, stop in spans]
    rows = [tuple(ends[i : i + width]) for i in range(0, len(ends), width)]
    return len(rows) > 1 and len({*rows}) == 1


def _aligned_edit(text: str, start: int, stop: int, new: str) -> Edit:
    """The change of a number in an aligned body: it ends where the old one ends, as far as blanks allow it."""
    blanks = start - 1 - next(i for i in range(start - 1, -1, -1) if text[i] != " ")
    least = 0 if text[start - blanks - 1] == "[" else min(blanks, 1)
    eaten = min(max(0, len(new) - (stop - start)), blanks - least)
    return Edit(start - eaten, stop, new.rjust(stop - start))


def _applied(text: Text, edits: list[Edit]) -> str:
    """The whole text of the file with these changes, none of which overlap."""
    whole, parts, end = text.whole, [], 0
    for edit in sorted(edits):
        start, stop = text.span(edit.start, edit.stop)
        parts += [whole[end:start], _as_json(text, edit) if text.excerpt else edit.new]
        end = stop
    return "".join([*parts, whole[end:]])


def _as_json(text: Text, edit: Edit) -> str:
    """What takes the place of a part of a notebook: lines are parted as the notebook parts the one above."""
    above = text.text.rfind("\n", 0, edit.start)
    parted = text.whole[text.offset(above) : text.offset(above + 1)] if above >= 0 else ""
    between = parted if re.fullmatch(r'\\n(?:"\s*,\s*")?', parted) else r"\n"
    return between.join(json.dumps(line, ensure_ascii=False)[1:-1] for line in edit.new.split("\n"))
