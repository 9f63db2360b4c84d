"""Examples on documentation pages: recomputed bit for bit, and the rows of wrong outputs rewritten in place."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from revseq_cli import files
from revseq_cli.core import signals
from revseq_cli.core.dtypes import bits, describe
from revseq_cli.core.errors import FormatError, RevseqError, UsageError
from revseq_cli.core.tensors import TensorDesc
from revseq_cli.files import base
from revseq_cli.files.new import FileTransaction, NewFile
from revseq_cli.formats.contract import Storage
from revseq_cli.formats.raw import MemorySource
from revseq_cli.formats.references import Reference
from revseq_cli.formats.table import TEXT, by_suffix, packing_of
from revseq_cli.formats.text import read_bytes, text_of
from revseq_cli.operator import kernel, spec
from revseq_cli.operator.spec import INPUT, LENGTHS, OUTPUT, FeatureLevel
from revseq_cli.pipeline.lengths import as_unsigned
from revseq_cli.text import numbers
from revseq_cli.text.examples import Example, NoExampleError, Text
from revseq_cli.text.notation import STRAY, PlacedError, TensorText, error_at, lines_of

# A page with none of these words has no example of this operator, whatever its encoding.
_OUR_WORDS = (b"SequenceTensor", b"SequenceLengthsTensor", b"REVERSE_SUBSEQUENCES")


@dataclass(frozen=True)
class Verdict:
    """What is found of an example: the `number`-th of its page, from 1, which begins at `line`.

    `findings` say what is wrong with it, each at its place. `fixed` says that its OutputTensor was rewritten.
    `expected` is what a wrong one should be, where its inputs are right.
    """

    number: int
    line: int
    findings: tuple[PlacedError, ...] = ()
    fixed: bool = False
    expected: NDArray[Any] | None = None

    @property
    def right(self) -> bool:
        """Whether the operator gives every element as it is written."""
        return not self.findings


@dataclass(frozen=True)
class Report:
    """The verdicts on a page, and how many examples of other operators it has."""

    verdicts: tuple[Verdict, ...]
    skipped: int = 0

    @property
    def right(self) -> bool:
        """Whether no example is wrong."""
        return all(verdict.right for verdict in self.verdicts)


def read_page(page: Reference) -> Text:
    """The text of a page; NoExampleError for a file that cannot have an example of this operator, text or not."""
    if page.is_piped:
        return page.text
    data, identity = read_bytes(page.path, packing_of(page.path))
    ascii_only = data.replace(b"\0", b"")  # of UTF-16
    if not any(word in ascii_only for word in _OUR_WORDS):
        raise NoExampleError("contains no example of this operator", where=page.path)
    return text_of(data, page.path, identity)


def pages_below(folder: str) -> Iterator[str]:
    """The paths of all pages below a folder, sorted; TensorIOError for a folder that cannot be read.

    Hidden files and folders, packed pages and links to folders are left out.
    """

    def refuse(error: OSError) -> None:
        raise base.failed(str(error.filename or folder), "read", error)

    for walked, folders, names in os.walk(folder, onerror=refuse):
        signals.check()
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        path = walked.removeprefix(os.curdir).lstrip(os.sep) if folder == os.curdir else walked
        for name in sorted(names):
            if (
                not name.startswith(".")
                and by_suffix(name, reading=True) is TEXT
                and not packing_of(name)
            ):
                yield os.path.join(path, name)


def verify(text: Text, level: FeatureLevel) -> Report:
    """Recompute every example of a page; NoExampleError for a page without an example of this operator."""
    ours, skipped = _examples(text)
    return Report(
        tuple(_examined(i, example, text, level) for i, example in enumerate(ours, 1)), skipped
    )


def _examples(text: Text) -> tuple[list[Example], int]:
    """The examples of this operator on a page, and how many there are of others."""
    examples = text.page_examples()
    ours = [example for example in examples if example.is_ours]
    skipped = len(examples) - len(ours)
    if not ours:
        others = f"; {skipped} of other operators" if skipped else ""
        wanted = "InputTensor, SequenceTensor, Axis and OutputTensor"
        raise NoExampleError(
            f"contains no example of this operator{others}", wanted, where=text.name
        )
    return ours, skipped


def _examined(number: int, example: Example, text: Text, level: FeatureLevel) -> Verdict:
    errors: list[PlacedError] = []
    expected = None
    try:
        if example.problem:
            raise example.problem
        output = example.tensor(OUTPUT)  # without it, nothing else matters
        values, lengths = _values(example.tensor(INPUT)), _values(example.tensor(LENGTHS))
        if (axis := example.axis()) is None:
            raise FormatError("no axis is given", f"0 to {values.ndim - 1}")
        for broken in spec.violations(
            describe(values), describe(lengths), axis, level, output.desc
        ):
            at = (
                example.axis_line
                if broken.property == "Axis"
                else example.tensors.get(broken.tensor)
            )
            found = f"{broken.tensor} {broken.property} is {broken.found}"
            errors.append(
                error_at(
                    text.text,
                    (at or example.first).start,
                    found,
                    f"{broken.wanted} ({broken.rule})",
                )
            )
        if not errors:
            # Without a level, any whole numbers are lengths.
            lengths = as_unsigned(
                MemorySource("SequenceTensor", lengths, Storage("text", {})), None
            ).read()
            expected = kernel.reverse(values, lengths, axis)
            errors += _compared(output, expected)
    except PlacedError as e:
        errors = [e]
    except RevseqError as e:
        errors = [error_at(text.text, example.first.start, e.found, e.wanted)]
    return Verdict(number, example.first.line, tuple(errors), expected=expected if errors else None)


def _values(tensor: TensorText) -> NDArray[Any]:
    """The values of a tensor of a page, which has a header."""
    return tensor.values(cast("TensorDesc", tensor.desc).data_type)


def _compared(output: TensorText, expected: NDArray[Any]) -> Iterator[PlacedError]:
    """What is wrong with the elements of an OutputTensor, at the first one."""
    written = _values(output)
    wrong = np.flatnonzero(bits(written).ravel() != bits(expected).ravel())
    if wrong.size:
        first = int(wrong[0])
        index = [int(i) for i in np.unravel_index(first, written.shape)]
        [found], [right] = (
            numbers.render(each.ravel()[first : first + 1]) for each in (written, expected)
        )
        message = f"OutputTensor at {index} is {found}, and the operator gives {right}"
        yield output.error(
            output.place(first), f"{message}; {wrong.size} of {written.size} elements differ"
        )


def fix(text: Text, before: Report, level: FeatureLevel) -> tuple[bytes, Report]:
    """The bytes of a page with every OutputTensor rewritten that `before` says is wrong; and the report then.

    Its rows are written as we print them. FormatError, at its place, for what cannot be put right so: a page is put
    right as a whole or not at all.
    """
    if text.identity is None:
        raise UsageError("cannot be changed", "the name of a file", where=text.name)
    if packing_of(text.name):
        raise FormatError("packed", "a page that is not", where=text.name)
    examples, _ = _examples(text)
    parts, end = [], 0
    for verdict, example in zip(before.verdicts, examples, strict=True):
        if not verdict.right:
            output = example.tensors.get(OUTPUT)
            if verdict.expected is None or not output or output.opened == output.stop:
                raise verdict.findings[0]
            start, stop = output.opened, output.stop
            while stray := STRAY.match(output.text, stop):
                stop = stray.end()
            if output.text[start:stop] != lines_of(text.text[start:stop]):
                raise output.error(
                    start, "the rows contain comments or markup, which would be lost"
                )
            margin = text.text[output.text.rfind("\n", 0, start) + 1 : start]
            line_end = next((end for end in ("\r\n", "\r") if end in text.text[:start]), "\n")
            line_end += margin if margin.isspace() else ""
            rows = numbers.body(numbers.rows_of(verdict.expected), verdict.expected.shape)
            parts += [text.text[end:start], rows.replace("\n", line_end)]
            end = stop
    fixed = replace(text, text="".join([*parts, text.text[end:]]))
    after = verify(fixed, level)
    if not after.right or len(after.verdicts) != len(before.verdicts):
        raise FormatError(
            "cannot be fixed: with other rows, it has other examples", where=text.name
        )
    pairs = zip(before.verdicts, after.verdicts, strict=True)
    verdicts = tuple(replace(new, fixed=not old.right) for old, new in pairs)
    return text.mark + fixed.text.encode(text.encoding), replace(after, verdicts=verdicts)


def write_page(text: Text, data: bytes) -> Sequence[str]:
    """Replace a page: its name has the old content or the complete new one. Notes of what went wrong."""
    file = NewFile(text.name, overwrite=True)
    with FileTransaction(file) as together:
        file.write(data)
        with files.open_file(text.name, text.identity):  # it is as it was when it was read
            pass
    return together.notes
