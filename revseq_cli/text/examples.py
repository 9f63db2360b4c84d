"""Examples of the operator on a page: which tensors and which Axis line belong together."""

from __future__ import annotations

import bisect
import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from revseq_cli.core.dtypes import bits
from revseq_cli.core.errors import FormatError, RevseqError, about
from revseq_cli.operator.spec import INPUT, LENGTHS, OUTPUT
from revseq_cli.text import notation
from revseq_cli.text.markup import remove_markup
from revseq_cli.text.notation import AxisLine
from revseq_cli.text.positions import error_at
from revseq_cli.text.tensor_text import TensorText

if TYPE_CHECKING:
    from revseq_cli.files.input_file import Identity

# The page's examples call the lengths SequenceTensor; the struct calls them SequenceLengthsTensor.
_PAGE_LABELS = {INPUT: INPUT, "SequenceTensor": LENGTHS, OUTPUT: OUTPUT}
LABELS = {**_PAGE_LABELS, LENGTHS: LENGTHS}
_OURS = "REVERSE_SUBSEQUENCES"
# A heading, a title or a field of front matter that names an operator, whose examples follow.
_OPERATOR = re.compile(
    r"(?:^[ \t>]*(?:#{1,6}[ \t]|(?:title|uid)[ \t]*:)|<(?:title|h[1-6])\b)[^\n]{0,300}?"
    r"\bDML_(?:OPERATOR_)?(?!FEATURE|TENSOR)([A-Z0-9_]{1,80})",
    re.MULTILINE | re.IGNORECASE | re.ASCII,
)
# What begins or ends a code block.
_FENCE = re.compile(r"```|~~~|<")
_ALL_PARTS = "InputTensor, SequenceTensor or SequenceLengthsTensor, Axis and OutputTensor"


class NoExampleError(FormatError):
    """A page that has no example of this operator."""


@dataclass
class Example:
    """One example of a page, of this operator or another: its tensors and its Axis line.

    Tensors have the operator's names for them, or else their labels. `more_outputs` are further
    OutputTensors in the same code block. `no_integer` is a line that begins with Axis: but has no
    integer: a mistake, or prose. An example that `can_share` may use the InputTensor of the example
    before. `problem` is what is wrong with it as an example of this operator.
    """

    page: str
    axis_line: AxisLine | None = None
    can_share: bool = True
    no_integer: AxisLine | None = None
    tensors: dict[str, TensorText] = field(default_factory=dict)
    more_outputs: list[TensorText] = field(default_factory=list)
    problem: FormatError | None = None
    is_ours: bool = False

    @property
    def first(self) -> TensorText:
        """The first of its tensors."""
        return min(self.tensors.values(), key=lambda item: item.start)

    def require_role(self, role: str) -> TensorText:
        """The tensor of that name in the operator; FormatError if the example lacks it."""
        if role not in self.tensors:
            noun = "lengths" if role == LENGTHS else role
            raise FormatError(f"the example has no {noun}", _ALL_PARTS)
        return self.tensors[role]

    def read_axis(self) -> int | None:
        """The axis, None without an Axis line; FormatError if no such line has an integer."""
        if self.axis_line:
            return self.axis_line.value
        if self.no_integer:
            found = f"Axis is {self.no_integer.words[:40]}"
            raise error_at(self.page, self.no_integer.start, found, "an integer")
        return None

    def add_axis(self, line: AxisLine) -> None:
        """Add an Axis line; a second one with an integer is a problem."""
        if line.value is None:
            self.no_integer = self.no_integer or line
        elif self.axis_line is None:
            self.axis_line = line
        else:
            self._add_problem(line.start, "a second Axis in one example", "each once")

    def add_tensor(self, item: TensorText) -> None:
        """Add a tensor; a second one of the operator's is a problem."""
        role = LABELS.get(item.name)
        if role in self.tensors:
            self._add_problem(item.start, f"a second {item.name} in one example", "each once")
        self.tensors.setdefault(role or item.name, item)

    def _add_problem(self, offset: int, found: str, expected: str) -> None:
        if not self.problem:
            self.problem = error_at(self.page, offset, found, expected)

    def ends_before_axis(self) -> bool:
        """Whether an Axis line belongs to the next example."""
        return OUTPUT in self.tensors and self.axis_line is not None

    def ends_before(self, item: TensorText) -> bool:
        """Whether that tensor belongs to the next example.

        tensor        begins the next example
        InputTensor   always
        lengths       if this example has both OutputTensor and lengths
        OutputTensor  if this example has an OutputTensor
        another one   if this example has an OutputTensor, or both lengths and an axis
        """
        role = LABELS.get(item.name)
        if role == INPUT:
            return True
        if role == LENGTHS:
            return self.tensors.keys() >= {LENGTHS, OUTPUT}
        if role == OUTPUT:
            return OUTPUT in self.tensors
        has_job = LENGTHS in self.tensors and self.axis_line is not None
        return OUTPUT in self.tensors or has_job

    def takes_output(self, item: TensorText) -> bool:
        """Whether a tensor is one more OutputTensor of this example, in the same code block."""
        if item.name != OUTPUT or not self.tensors.keys() >= {LENGTHS, OUTPUT}:
            return False
        last_output = [self.tensors[OUTPUT], *self.more_outputs][-1]
        if not item.text[last_output.body_stop : item.start].isspace():
            return False
        return not _FENCE.search(item.page, last_output.body_stop, item.start)

    def share_input(self, before: Example) -> None:
        """Take the InputTensor of the example before, if this one has lengths but no InputTensor.

        If this one has no Axis line, it also takes the axis.
        """
        lacks_input = self.tensors.keys() in ({LENGTHS}, {LENGTHS, OUTPUT})
        if not self.can_share or not lacks_input:
            return
        if INPUT not in before.tensors:
            return
        self.tensors[INPUT] = before.tensors[INPUT]
        if not self.axis_line and not self.no_integer:
            self.axis_line = before.axis_line

    def recognize(self, *, is_below_name: bool) -> None:
        """Find out whether it is an example of this operator, and set `is_ours`.

        It is one of this operator
        - anywhere, if it has lengths, which only this operator has, and no tensor of another name;
        - below the name of this operator, if it has two parts or more, and its OutputTensor may be
          a reversal. Then it is incomplete or has a wrong label, which is its problem.
        """
        unknown = [item for name, item in self.tensors.items() if name not in LABELS]
        if LENGTHS in self.tensors and not unknown:
            self.is_ours = True
        elif is_below_name and self._count_parts() > 1:
            self.is_ours = not self._shows_another_operator()
        if self.is_ours and unknown:
            missing = [label for label, role in _PAGE_LABELS.items() if role not in self.tensors]
            expected = " or ".join(missing) or "no more"
            self._add_problem(unknown[0].start, f"the label {unknown[0].name}", expected)

    def _count_parts(self) -> int:
        parts = self.tensors.keys() & {INPUT, LENGTHS, OUTPUT}
        return len(parts) + bool(self.axis_line)

    def _shows_another_operator(self) -> bool:
        """Whether the OutputTensor is not a reversal, whatever the lengths are: it may be a sum.

        False for an example with lengths, and for one that cannot be recomputed.
        """
        if LENGTHS in self.tensors or not self.tensors.keys() >= {INPUT, OUTPUT}:
            return False
        if not self.axis_line:
            return False
        try:
            values = read_values(self.tensors[INPUT])
            output = read_values(self.tensors[OUTPUT])
        except RevseqError:
            return False  # the mistake is reported where the example is recomputed
        return not _can_be_reversal(values, output, self.axis_line.value)


def read_values(tensor: TensorText) -> NDArray[Any]:
    """The values of a tensor that has a header; FormatError for others."""
    if not tensor.desc:
        raise FormatError("has no header")
    return tensor.parse_values(tensor.desc.data_type)


def _can_be_reversal(values: NDArray[Any], output: NDArray[Any], axis: int | None) -> bool:
    """Whether there are lengths for which the output is right; True if there is no such axis."""
    if values.shape != output.shape:
        return False
    if axis is None or not 0 <= axis < values.ndim:
        return True
    sequences = np.moveaxis(bits(values), axis, -1).reshape(-1, values.shape[axis])
    outputs = np.moveaxis(bits(output), axis, -1).reshape(sequences.shape)
    return all(map(_is_partly_reversed, sequences, outputs))


def _is_partly_reversed(sequence: NDArray[Any], output: NDArray[Any]) -> bool:
    """Whether the output is the sequence with its first elements reversed, of whatever length."""
    differing = np.flatnonzero(sequence != output)
    if not differing.size:
        return True
    # The first and the last element that moved are equally far from the ends of the part.
    length = int(differing[0] + differing[-1]) + 1
    return np.array_equal(sequence[:length][::-1], output[:length])


def find_examples(page: str, items: Iterable[TensorText | AxisLine]) -> list[Example]:
    """Every example of a page, of this operator or another, from the page's items.

    An example below a heading that names another operator is never one of this operator.
    """
    grouping = _Grouping(page)
    for item in items:
        if isinstance(item, AxisLine):
            grouping.add_axis(item)
        else:
            grouping.add_tensor(item)
    headings = _Headings(page)
    before: Example | None = None
    for example in grouping.examples:
        if before and before.is_ours:
            example.share_input(before)
        operator = headings.find_operator(example.first.start)
        if not operator or operator.startswith(_OURS):
            example.recognize(is_below_name=bool(operator))
        before = example
    return grouping.examples


class _Grouping:
    """The examples of a page, which gets its items one after another.

    An example ends with its OutputTensor, or before an InputTensor. An Axis line before the first
    tensor belongs to the next example, and so does one after an example that has an Axis line
    already.

    A listing of headers without values, as `run --dry-run` prints them, is left out:

        InputTensor            (Sizes:{2,3}, DataType:FLOAT32), 24 bytes
        SequenceLengthsTensor  (Sizes:{2,1}, DataType:UINT32), 8 bytes
    """

    def __init__(self, page: str) -> None:
        self.examples: list[Example] = []
        self._page = page
        self._next_axis: AxisLine | None = None  # of the example that comes next
        self._can_share_next = True  # whether that one may use the InputTensor of the one before
        self._is_in_listing = False  # whether the tensor before was in a listing

    def add_axis(self, line: AxisLine) -> None:
        last = self.examples[-1] if self.examples else None
        if last and not last.ends_before_axis():
            last.add_axis(line)
        elif line.value is not None:
            self._next_axis = line

    def add_tensor(self, item: TensorText) -> None:
        last = self.examples[-1] if self.examples else None
        is_next = last is None or last.ends_before(item)
        self._is_in_listing = self._is_listed(item, is_next=is_next)
        if self._is_in_listing:
            if item.name == INPUT:
                self._can_share_next = False  # the next example may be about this InputTensor
            return
        if last is None:
            self._begin_example(item)
        elif last.takes_output(item):
            last.more_outputs.append(item)
        elif is_next:
            self._begin_example(item)
        else:
            last.add_tensor(item)

    def _is_listed(self, item: TensorText, *, is_next: bool) -> bool:
        """Whether a tensor is part of a listing; with `is_next`, it belongs to the next example.

        A listing begins with an InputTensor, or with the first tensor of another operator.
        """
        if not item.is_described_only:
            return False
        if self._is_in_listing or item.name == INPUT:
            return True
        return is_next and item.name not in LABELS

    def _begin_example(self, item: TensorText) -> None:
        example = Example(self._page, self._next_axis, self._can_share_next)
        example.add_tensor(item)
        self.examples.append(example)
        self._next_axis = None
        self._can_share_next = True


class _Headings:
    """Where a page names operators: any of them in headings, and this one anywhere."""

    def __init__(self, page: str) -> None:
        self._operators: list[tuple[int, str]] = []
        if "DML_" in page.upper():
            matches = _OPERATOR.finditer(page)
            self._operators = [(match.start(), match[1].upper()) for match in matches]
        self._mention = page.find(_OURS)

    def find_operator(self, offset: int) -> str:
        """The operator that the last heading before the offset names.

        Without such a heading, it is this operator if the page names it before, and else "".
        """
        above = bisect.bisect(self._operators, (offset, "")) - 1
        if above >= 0:
            _, name = self._operators[above]
            return name
        return _OURS if 0 <= self._mention < offset else ""


@dataclass(frozen=True)
class Text:
    """A text; `name` is its source for messages.

    `identity` is the state of its file, None if it is not from a file. The file has that
    `encoding`, by Python's name, after that `mark`.
    """

    name: str
    text: str
    identity: Identity | None = None
    encoding: str = "utf-8"
    mark: bytes = b""

    @functools.cached_property
    def items(self) -> list[TensorText | AxisLine]:
        """The tensors and Axis lines in order, or the one tensor of a text without headers.

        FormatError for others.
        """
        with about(self.name):
            return notation.parse_notation(self.text, remove_markup(self.text))

    @functools.cached_property
    def examples(self) -> list[Example]:
        """The examples that page.md::1 and so on name: ours, or else all with an InputTensor."""
        examples = find_examples(self.text, self.items)
        ours = [example for example in examples if example.is_ours]
        return ours or [example for example in examples if INPUT in example.tensors]

    def example(self, number: int) -> Example:
        """The example of that number, counted from 1; FormatError if there is none."""
        count = len(self.examples)
        if not 1 <= number <= count:
            expected = f"1 to {count}" if count else "a page with examples"
            raise FormatError(f"no example {number}", expected, where=self.name)
        return self.examples[number - 1]

    def page_examples(self) -> list[Example]:
        """Every example of a page, of any operator; none of a text that is not a page."""
        return find_examples(self.text, notation.parse_page(self.text, remove_markup(self.text)))
