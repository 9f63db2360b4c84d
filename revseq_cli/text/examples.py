"""Examples of the operator on a page: which tensors and which Axis line belong together."""

from __future__ import annotations

import bisect
import functools
import html
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
from revseq_cli.text.notation import AxisLine, TensorText, error_at

if TYPE_CHECKING:
    from revseq_cli.files.base import Identity

# The page's examples call the lengths SequenceTensor; the struct has SequenceLengthsTensor.
LABELS = {INPUT: INPUT, "SequenceTensor": LENGTHS, LENGTHS: LENGTHS, OUTPUT: OUTPUT}
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
    OutputTensors in the same code block. `problem` is what is wrong with it as an example of this
    operator. `no_integer` is a line that begins with Axis: and has no integer, a mistake or prose.
    An example that `can_share` may use the InputTensor of the example before.
    """

    page: str
    axis_line: AxisLine | None = None
    no_integer: AxisLine | None = None
    tensors: dict[str, TensorText] = field(default_factory=dict)
    more_outputs: list[TensorText] = field(default_factory=list)
    problem: FormatError | None = None
    is_ours: bool = False
    can_share: bool = True

    @property
    def first(self) -> TensorText:
        """The first of its tensors."""
        return min(self.tensors.values(), key=lambda item: item.start)

    def tensor(self, role: str) -> TensorText:
        """The tensor of that name in the operator; FormatError if the example lacks it."""
        if role not in self.tensors:
            noun = "lengths" if role == LENGTHS else role
            raise FormatError(f"the example has no {noun}", _ALL_PARTS)
        return self.tensors[role]

    def axis(self) -> int | None:
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
            self._add_problem(line.start, "a second Axis in one example")

    def add_tensor(self, item: TensorText) -> None:
        """Add a tensor; a second one of the operator's is a problem."""
        role = LABELS.get(item.name)
        if role in self.tensors:
            self._add_problem(item.start, f"a second {item.name} in one example")
        self.tensors.setdefault(role or item.name, item)

    def _add_problem(
        self,
        offset: int,
        found: str,
    ) -> None:
        if not self.problem:
            self.problem = error_at(self.page, offset, found, "each once")

    def ends_before_axis(self) -> bool:
        """Whether an Axis line belongs to the next example."""
        return OUTPUT in self.tensors and self.axis_line is not None

    def ends_before(self, item: TensorText) -> bool:
        """Whether that tensor belongs to the next example."""
        role = LABELS.get(item.name)
        if role == INPUT:
            return True
        has_lengths = LENGTHS in self.tensors
        if role is None and has_lengths and self.axis_line:
            return True
        return OUTPUT in self.tensors and (role != LENGTHS or has_lengths)

    def takes_output(self, item: TensorText) -> bool:
        """Whether a tensor is one more OutputTensor of this example, in the same code block."""
        if LABELS.get(item.name) != OUTPUT or not self.tensors.keys() >= {LENGTHS, OUTPUT}:
            return False
        before = [self.tensors[OUTPUT], *self.more_outputs][-1]
        if not item.text[before.stop : item.start].isspace():
            return False
        return not _FENCE.search(item.page, before.stop, item.start)


def find_examples(page: str, items: Iterable[TensorText | AxisLine]) -> list[Example]:
    """Every example of a page, of this operator or another, from the page's items.

    An example ends with its OutputTensor, or before an InputTensor. An Axis line before the first
    tensor belongs to the next example, and so does one after an example that has an Axis line
    already. Tensors without values, as `check` and `run --dry-run` print them, begin no example.
    """
    examples: list[Example] = []
    axis_before: AxisLine | None = None
    skips = False  # the item before was a tensor without values
    can_share = True
    for item in items:
        last = examples[-1] if examples else None
        if isinstance(item, AxisLine):
            if last and not last.ends_before_axis():
                last.add_axis(item)
            elif item.value is not None:
                axis_before = item
            continue
        begins = not last or last.ends_before(item)
        skips = item.is_described_only and (skips or _begins_description(item, begins=begins))
        if skips:
            can_share = can_share and item.name != INPUT
        elif last and not axis_before and last.takes_output(item):
            last.more_outputs.append(item)
        elif last and not begins:
            last.add_tensor(item)
        else:
            last = Example(page, axis_before, can_share=can_share)
            last.add_tensor(item)
            examples.append(last)
            axis_before = None
            can_share = True
    _find_ours(page, examples)
    return examples


def _begins_description(item: TensorText, *, begins: bool) -> bool:
    """Whether a tensor without values begins a description of tensors, and not an example."""
    role = LABELS.get(item.name)
    return role == INPUT or (role is None and begins)


def _find_ours(page: str, examples: list[Example]) -> None:
    """Set `is_ours` of each example of this operator.

    None is below a heading that names another operator. Elsewhere an example with lengths and no
    unknown tensors is one, since only this operator has lengths; and below the name of this
    operator also one with two parts or more, which is incomplete, unless its OutputTensor shows
    another operator.
    """
    operators: list[tuple[int, str]] = []
    if "DML_" in page.upper():
        operators = [(match.start(), match[1].upper()) for match in _OPERATOR.finditer(page)]
    mention = page.find(_OURS)
    before: Example | None = None
    for example in examples:
        _share_input(example, before)
        before = example
        start = example.first.start
        above = bisect.bisect(operators, (start, "")) - 1
        operator = operators[above][1] if above >= 0 else ""
        if operator and not operator.startswith(_OURS):
            continue
        is_below_name = bool(operator) or 0 <= mention < start
        unknown = [item for name, item in example.tensors.items() if name not in LABELS]
        if LENGTHS in example.tensors and not unknown:
            example.is_ours = True
        elif is_below_name:
            example.is_ours = _count_parts(example) > 1 and not _shows_another_operator(example)
        if example.is_ours and unknown and not example.problem:
            example.problem = _refuse_label(page, example, unknown[0])


def _share_input(example: Example, before: Example | None) -> None:
    """Give an example the InputTensor of the example before, and its axis, if it has none."""
    if not before or not before.is_ours or INPUT not in before.tensors:
        return
    if not example.can_share or example.tensors.keys() not in ({LENGTHS}, {LENGTHS, OUTPUT}):
        return
    example.tensors[INPUT] = before.tensors[INPUT]
    if not example.axis_line and not example.no_integer:
        example.axis_line = before.axis_line


def _count_parts(example: Example) -> int:
    parts = example.tensors.keys() & {INPUT, LENGTHS, OUTPUT}
    return len(parts) + bool(example.axis_line)


def _refuse_label(
    page: str,
    example: Example,
    item: TensorText,
) -> FormatError:
    """The error for a tensor that is none of the operator's."""
    missing = [
        label for label, role in LABELS.items() if role not in example.tensors and label != LENGTHS
    ]
    return error_at(page, item.start, f"the label {item.name}", " or ".join(missing) or "no more")


def _shows_another_operator(example: Example) -> bool:
    """Whether no lengths would give the OutputTensor, which may be a sum; False with lengths."""
    tensors = example.tensors
    if LENGTHS in tensors or not tensors.keys() >= {INPUT, OUTPUT} or not example.axis_line:
        return False
    axis = example.axis_line.value
    try:
        values, output = (read_values(tensors[role]) for role in (INPUT, OUTPUT))
    except RevseqError:
        return False  # the mistake is reported where the example is recomputed
    if values.shape != output.shape:
        return True
    if axis is None or not 0 <= axis < values.ndim:
        return False
    sequences = np.moveaxis(bits(values), axis, -1).reshape(-1, values.shape[axis])
    outputs = np.moveaxis(bits(output), axis, -1).reshape(sequences.shape)
    return not all(map(_is_partly_reversed, sequences, outputs))


def read_values(tensor: TensorText) -> NDArray[Any]:
    """The values of a tensor that has a header; FormatError for others."""
    if not tensor.desc:
        raise FormatError("has no header")
    return tensor.values(tensor.desc.data_type)


def _is_partly_reversed(sequence: NDArray[Any], output: NDArray[Any]) -> bool:
    """Whether the output is the sequence with its first elements reversed, of whatever length."""
    differing = np.flatnonzero(sequence != output)
    if not differing.size:
        return True
    # The first and the last element that moved are equally far from the ends of the part.
    length = int(differing[0] + differing[-1]) + 1
    return np.array_equal(sequence[:length][::-1], output[:length])


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
        """Every example of a page, of this operator or another; none of a text that is no page."""
        return find_examples(self.text, notation.parse_page(self.text, remove_markup(self.text)))


# The markup around examples. TensorFlow's <tf.Tensor: ...> is none.
_COMMENT = re.compile(r"//[^\n]*")
_TAG = re.compile(r"<!\[CDATA\[|\]\]>|<(?!tf\.)[/!a-zA-Z][^<>]{0,1000}>")
# These tags begin or end a line, as in a browser.
_BLOCK = re.compile(
    r"</?(?:p|div|li|ul|ol|dl|dt|dd|pre|section|article|main|body|h[1-6]|tr|td|th|table|summary"
    r"|details|figure|blockquote|br|hr)\b",
    re.IGNORECASE,
)
# Inline markup shows nothing itself, so that a word goes on after it, as highlighters write -1.
_INLINE = re.compile(
    r"</?(?:span|wbr|b|i|em|strong|code|tt|font|kbd|var|samp|mark|u)\b[^<>]{0,200}>",
    re.IGNORECASE,
)
_TORN = re.compile(
    rf"(?<![\w.+-])[\w.+-]++(?:(?:{_INLINE.pattern}){{1,20}}[\w.]++)++", re.IGNORECASE
)
_REFERENCE = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]\w{1,30});", re.ASCII)
_QUOTE = re.compile(r"^[ \t]*>[> \t]*", re.MULTILINE)


def remove_markup(text: str) -> str:
    """The text with blanks instead of comments and markup.

    Its only line breaks are line feeds. Quick searches spare long texts most of the work.
    """
    text = notation.lines_of(text)
    if "<" in text:  # a word without the markup inside it begins where it began
        text = _TORN.sub(_join_word, text)
    if "&" in text:
        text = _REFERENCE.sub(_replace_reference, text)
    for mark in ("**", "`", "\xa0", "\u3000"):
        text = text.replace(mark, " " * len(mark))
    if "<" in text or ">" in text:
        text = _QUOTE.sub(_blank, _TAG.sub(_blank, text))
    if "//" in text:
        text = _COMMENT.sub(_blank, text)
    return text


def _join_word(match: re.Match[str]) -> str:
    return _INLINE.sub("", match[0]).ljust(len(match[0]))


def _blank(match: re.Match[str]) -> str:
    """Blanks and line feeds for markup; a tag that begins or ends a line becomes a line feed."""
    blanks = re.sub(r"[^\n]", " ", match[0])
    return f"\n{blanks[1:]}" if _BLOCK.match(match[0]) else blanks


def _replace_reference(match: re.Match[str]) -> str:
    """The character that an HTML reference means, with blanks on the side where no number is."""
    width = len(match[0])
    character = html.unescape(match[0])
    if character.isspace():
        return " " * width
    if len(character) != 1 or not character.isprintable() or character in "<>":
        return match[0]
    after = match.string[match.end() : match.end() + 1]
    if after.isalnum() or after == ".":
        return character.rjust(width)
    return character.ljust(width)
