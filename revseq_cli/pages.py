"""The examples on documentation pages: recomputed bit for bit, and wrong outputs corrected."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revseq_cli import files
from revseq_cli.core import signals
from revseq_cli.core.dtypes import bits, describe_array
from revseq_cli.core.errors import FormatError, RevseqError, UsageError
from revseq_cli.files.new import NewLocalFile
from revseq_cli.files.system_errors import make_os_error
from revseq_cli.files.transactions import FileTransaction
from revseq_cli.formats.contract import Storage
from revseq_cli.formats.memory import MemorySource
from revseq_cli.formats.references import Reference
from revseq_cli.formats.table import TEXT, by_suffix, find_compression
from revseq_cli.formats.text_files import decode_text, read_bytes
from revseq_cli.operator import kernel, spec
from revseq_cli.operator.spec import INPUT, LENGTHS, OUTPUT, FeatureLevel
from revseq_cli.pipeline.lengths import as_unsigned
from revseq_cli.text import numbers, rows
from revseq_cli.text.examples import Example, NoExampleError, Text, read_values
from revseq_cli.text.positions import PlacedError, error_at, lines_of
from revseq_cli.text.tensor_text import STRAY, TensorText

# A page with none of these words has no example of this operator, in any encoding.
_OUR_WORDS = (b"SequenceTensor", b"SequenceLengthsTensor", b"REVERSE_SUBSEQUENCES")


@dataclass(frozen=True)
class ExampleVerdict:
    """The result for an example: the `number`-th of its page, from 1, which begins at `line`.

    `findings` say what is wrong with it, each at its position. `fixed` says that its OutputTensors
    were rewritten. `expected` is what a wrong OutputTensor should be; None if none is wrong, or if
    the inputs are wrong.
    """

    number: int
    line: int
    findings: tuple[PlacedError, ...] = ()
    fixed: bool = False
    expected: NDArray[Any] | None = None

    @property
    def is_right(self) -> bool:
        """Whether the operator gives every element as it is written."""
        return not self.findings


@dataclass(frozen=True)
class PageReport:
    """The verdicts on a page, and how many examples of other operators it has."""

    verdicts: tuple[ExampleVerdict, ...]
    skipped: int = 0

    @property
    def is_right(self) -> bool:
        """Whether no example is wrong."""
        return all(verdict.is_right for verdict in self.verdicts)


def read_page(page: Reference) -> Text:
    """The text of a page.

    NoExampleError for a file that cannot have an example of this operator, text or not.
    """
    if page.is_piped:
        return page.text
    data, identity = read_bytes(page.path, find_compression(page.path))
    ascii_only = data.replace(b"\0", b"")  # of UTF-16
    if not any(word in ascii_only for word in _OUR_WORDS):
        raise NoExampleError("contains no example of this operator", where=page.path)
    return decode_text(data, page.path, identity)


def find_pages(folder: str) -> Iterator[str]:
    """The paths of all pages in a folder and below, sorted.

    TensorIOError for a folder that cannot be read. Hidden files and folders, compressed pages and
    links to folders are left out.
    """

    def refuse(error: OSError) -> None:
        raise make_os_error(str(error.filename or folder), "read", error)

    for path, folders, names in os.walk(folder, onerror=refuse):
        signals.check()
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if folder == os.curdir:  # of this folder, pages are named without it: x.md, not ./x.md
            path = path.removeprefix(os.curdir).lstrip(os.sep)
        for name in sorted(names):
            if _is_page(name):
                yield os.path.join(path, name)


def _is_page(name: str) -> bool:
    if name.startswith(".") or find_compression(name):
        return False
    return by_suffix(name, reading=True) is TEXT


def judge_page(text: Text, level: FeatureLevel) -> PageReport:
    """Recompute every example of a page.

    NoExampleError for a page without an example of this operator.
    """
    ours, skipped = _select_examples(text)
    verdicts = [_judge_example(i, example, text, level) for i, example in enumerate(ours, 1)]
    return PageReport(tuple(verdicts), skipped)


def _select_examples(text: Text) -> tuple[list[Example], int]:
    """The examples of this operator on a page, and how many there are of others."""
    examples = text.page_examples()
    ours = [example for example in examples if example.is_ours]
    skipped = len(examples) - len(ours)
    if not ours:
        found = "contains no example of this operator"
        if skipped:
            found += f"; {skipped} of other operators"
        parts = "InputTensor, SequenceTensor, Axis and OutputTensor"
        raise NoExampleError(found, parts, where=text.name)
    return ours, skipped


@dataclass(frozen=True)
class _ExampleInputs:
    """The inputs of an example."""

    values: NDArray[Any]
    lengths: NDArray[Any]
    axis: int


def _judge_example(
    number: int, example: Example, text: Text, level: FeatureLevel
) -> ExampleVerdict:
    """Recompute one example."""
    line = example.first.line
    try:
        inputs = _read_inputs(example)
        violations = _find_violations(example, inputs, text, level)
        if violations:
            return ExampleVerdict(number, line, tuple(violations))
        expected = _compute_expected(inputs)
        differences = tuple(_check_outputs(example, expected))
    except PlacedError as e:
        return ExampleVerdict(number, line, (e,))
    except RevseqError as e:
        finding = error_at(text.text, example.first.start, e.found, e.expected)
        return ExampleVerdict(number, line, (finding,))
    if not differences:
        return ExampleVerdict(number, line)
    return ExampleVerdict(number, line, differences, expected=expected)


def _read_inputs(example: Example) -> _ExampleInputs:
    """The inputs of an example; RevseqError if it cannot be recomputed."""
    if example.problem:
        raise example.problem
    example.require_role(OUTPUT)  # without it, nothing else matters
    values = read_values(example.require_role(INPUT))
    lengths = read_values(example.require_role(LENGTHS))
    axis = example.read_axis()
    if axis is None:
        raise FormatError("no axis is given", f"0 to {values.ndim - 1}")
    return _ExampleInputs(values, lengths, axis)


def _find_violations(
    example: Example, inputs: _ExampleInputs, text: Text, level: FeatureLevel
) -> list[PlacedError]:
    """The rules that an example breaks, with the first of its OutputTensors that breaks any."""
    errors: list[PlacedError] = []
    values = describe_array(inputs.values)
    lengths = describe_array(inputs.lengths)
    for output in _list_output_tensors(example):
        for violation in spec.violations(values, lengths, inputs.axis, level, output.desc):
            start = _find_start(example, output, violation)
            found = f"{violation.tensor} {violation.property} is {violation.found}"
            expected = f"{violation.expected} ({violation.rule})"
            errors.append(error_at(text.text, start, found, expected))
        if errors:
            break
    return errors


def _compute_expected(inputs: _ExampleInputs) -> NDArray[Any]:
    """The expected output; FormatError for a length that is not a whole number.

    Without a feature level, lengths may have any type of numbers.
    """
    source = MemorySource("SequenceTensor", inputs.lengths, Storage("text", {}))
    return kernel.reverse(inputs.values, as_unsigned(source, None).read(), inputs.axis)


def _check_outputs(example: Example, expected: NDArray[Any]) -> Iterator[PlacedError]:
    """What is wrong with the elements of each OutputTensor."""
    for output in _list_output_tensors(example):
        try:
            difference = _find_difference(output, expected)
        except PlacedError as e:  # its rows are not a tensor, but --fix can still rewrite them
            difference = e
        if difference:
            yield difference


def _list_output_tensors(example: Example) -> list[TensorText]:
    return [example.require_role(OUTPUT), *example.more_outputs]


def _find_start(example: Example, output: TensorText, violation: spec.Constraint) -> int:
    """Where the part of an example that violates a rule begins."""
    if violation.property == "Axis" and example.axis_line:
        return example.axis_line.start
    if violation.tensor == OUTPUT:
        return output.start
    return example.tensors.get(violation.tensor, example.first).start


def _find_difference(output: TensorText, expected: NDArray[Any]) -> PlacedError | None:
    """What is wrong with the elements of an OutputTensor, at the first one; None if nothing is."""
    written = read_values(output)
    wrong = np.flatnonzero(bits(written).ravel() != bits(expected).ravel())
    if not wrong.size:
        return None
    first = int(wrong[0])
    index = [int(i) for i in np.unravel_index(first, written.shape)]
    message = (
        f"OutputTensor{index} is {_render(written, first)}, "
        f"but should be {_render(expected, first)}; "
        f"{wrong.size} of {written.size} elements differ"
    )
    return output.error(output.offset_of(first), message)


def _render(values: NDArray[Any], index: int) -> str:
    """One element as text."""
    [text] = numbers.render_numbers(values.ravel()[index : index + 1])
    return text


def fix(text: Text, report: PageReport, level: FeatureLevel) -> tuple[bytes, PageReport]:
    """The bytes of a page with its wrong OutputTensors rewritten, and the new report.

    `report` says which are wrong. The rows are written as this program prints them. FormatError, at
    its position, for what new rows cannot correct: a page is corrected completely or not at all.
    """
    if text.identity is None:
        raise UsageError("--fix needs a file", where=text.name)
    if find_compression(text.name):
        raise FormatError("is compressed", where=text.name)
    examples, _ = _select_examples(text)
    parts: list[str] = []
    end = 0  # of what is in the parts
    for verdict, example in zip(report.verdicts, examples, strict=True):
        if verdict.is_right:
            continue
        if verdict.expected is None:
            raise verdict.findings[0]
        for output in _list_output_tensors(example):
            start, stop = _find_rows(output, text)
            parts.append(text.text[end:start])
            parts.append(_format_rows(output, verdict.expected, text))
            end = stop
    parts.append(text.text[end:])
    fixed = replace(text, text="".join(parts))
    data = text.mark + fixed.text.encode(text.encoding)
    return data, _check_fixed(fixed, report, level)


def _check_fixed(fixed: Text, report: PageReport, level: FeatureLevel) -> PageReport:
    """The report on a rewritten page; FormatError if not all of the same examples are right now."""
    fixed_report = judge_page(fixed, level)
    if not fixed_report.is_right or len(fixed_report.verdicts) != len(report.verdicts):
        found = "cannot be fixed: with other rows, it has other examples"
        raise FormatError(found, where=fixed.name)
    verdicts: list[ExampleVerdict] = []
    for verdict, fixed_verdict in zip(report.verdicts, fixed_report.verdicts, strict=True):
        verdicts.append(replace(fixed_verdict, fixed=not verdict.is_right))
    return replace(fixed_report, verdicts=tuple(verdicts))


def _find_rows(output: TensorText, text: Text) -> tuple[int, int]:
    """Where the rows of an OutputTensor begin and end.

    FormatError if they contain more than numbers.
    """
    start = output.body_start
    stop = output.body_stop
    if start == stop:
        raise output.error(output.start, f"{output.name} has no values")
    while stray := STRAY.match(output.text, stop):
        stop = stray.end()
    if output.text[start:stop] != lines_of(text.text[start:stop]):
        found = "the rows contain comments or markup, which would be lost"
        raise output.error(start, found)
    return start, stop


def _format_rows(output: TensorText, expected: NDArray[Any], text: Text) -> str:
    """The expected rows, with the page's line breaks and indent."""
    start = output.body_start
    line_break = "\n"
    for end in ("\r\n", "\r"):
        if end in text.text[:start]:
            line_break = end
            break
    margin = text.text[output.text.rfind("\n", 0, start) + 1 : start]
    if margin.isspace():
        line_break += margin
    written = rows.put_brackets(rows.make_rows(expected), expected.shape)
    return written.replace("\n", line_break)


def write_page(text: Text, data: bytes) -> Sequence[str]:
    """Replace a page in one step, and return notes; an error leaves the old page."""
    file = NewLocalFile(text.name, overwrite=True)
    with FileTransaction(file) as transaction:
        file.write(data)
        with files.open_file(text.name, text.identity):
            pass  # opening it raises if the page has changed since it was read
    return transaction.notes
