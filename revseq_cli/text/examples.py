"""Examples of the operator on a page: which tensors and which Axis line of the bracket notation belong together."""

from __future__ import annotations

import bisect
import functools
import html
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from revseq_cli.core.errors import FormatError, about
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
_WHOLE = "InputTensor, SequenceTensor or SequenceLengthsTensor, Axis and OutputTensor"


class NoExampleError(FormatError):
    """A page that has no example of this operator."""


@dataclass
class Example:
    """One example of a page, of this operator or another: its tensors and its Axis line.

    Tensors have the operator's names for them, or else their labels. `problem` is what is wrong with it as an example
    of this operator. `no_integer` is a line that begins with Axis: and has none, a mistake or prose.
    """

    page: str
    axis_line: AxisLine | None = None
    no_integer: AxisLine | None = None
    tensors: dict[str, TensorText] = field(default_factory=dict)
    problem: FormatError | None = None
    is_ours: bool = False

    @property
    def first(self) -> TensorText:
        """The first of its tensors."""
        return min(self.tensors.values(), key=lambda item: item.start)

    def tensor(self, role: str) -> TensorText:
        """The tensor of that name in the operator; FormatError where the example lacks it."""
        if role not in self.tensors:
            raise FormatError(
                f"the example has no {'lengths' if role == LENGTHS else role}", _WHOLE
            )
        return self.tensors[role]

    def axis(self) -> int | None:
        """The axis, None without an Axis line; FormatError where no such line has an integer."""
        if self.no_integer and not self.axis_line:
            raise error_at(
                self.page,
                self.no_integer.start,
                f"Axis is {self.no_integer.words[:40]}",
                "an integer",
            )
        return self.axis_line.value if self.axis_line else None

    def add(self, item: TensorText | AxisLine) -> None:
        """Add a tensor or an Axis line; a second one is a problem, but of a tensor that is none of the operator's."""
        if isinstance(item, AxisLine) and item.value is None:
            self.no_integer = self.no_integer or item
            return
        if isinstance(item, AxisLine):
            name, is_second = "Axis", self.axis_line is not None
            self.axis_line = self.axis_line or item
        else:
            name, is_second = item.name, LABELS.get(item.name) in self.tensors
            self.tensors.setdefault(LABELS.get(name, name), item)
        if is_second and not self.problem:
            self.problem = error_at(
                self.page, item.start, f"a second {name} in one example", "each once"
            )

    def ends_before(self, item: TensorText | AxisLine) -> bool:
        """Whether that item belongs to the next example."""
        is_complete = OUTPUT in self.tensors
        if isinstance(item, AxisLine):
            return is_complete and self.axis_line is not None
        role = LABELS.get(item.name)
        if role is None and LENGTHS in self.tensors and self.axis_line:
            return True
        return role == INPUT or (is_complete and (role != LENGTHS or LENGTHS in self.tensors))


def find_examples(page: str, items: Iterable[TensorText | AxisLine]) -> list[Example]:
    """Every example of a page, of this operator or another, from the items that `notation` finds in it.

    An example ends with its OutputTensor, or before an InputTensor. An Axis line before the first tensor belongs to the
    next example, and so does one behind an example that has an Axis line already.
    """
    examples: list[Example] = []
    ahead: AxisLine | None = None
    for item in items:
        if isinstance(item, TensorText):
            if not examples or examples[-1].ends_before(item):
                examples.append(Example(page, ahead))
                ahead = None
            examples[-1].add(item)
        elif examples and not examples[-1].ends_before(item):
            examples[-1].add(item)
        elif item.value is not None:
            ahead = item
    _judge(page, examples)
    return examples


def _judge(page: str, examples: list[Example]) -> None:
    """Tell which examples are this operator's.

    Where a heading above names another operator, none is. Else an example with lengths and no other tensors is, as only
    this operator has it; and below the name of this operator also one with two parts or more, which is incomplete.
    """
    named = (
        [(match.start(), match[1].upper()) for match in _OPERATOR.finditer(page)]
        if "DML_" in page.upper()
        else []
    )
    mention = page.find(_OURS)
    for before, example in zip([None, *examples], examples, strict=False):
        # One without an InputTensor shares that of the example before, and perhaps the axis.
        shares = example.tensors.keys() in ({LENGTHS}, {LENGTHS, OUTPUT})
        if shares and before and before.is_ours and INPUT in before.tensors:
            example.tensors[INPUT] = before.tensors[INPUT]
            example.axis_line = example.axis_line or (
                None if example.no_integer else before.axis_line
            )
        start = example.first.start
        other = next((item for name, item in example.tensors.items() if name not in LABELS), None)
        above = bisect.bisect(named, (start, "")) - 1
        operator = named[above][1] if above >= 0 else ""
        if operator and not operator.startswith(_OURS):
            continue
        is_told = bool(operator) or 0 <= mention < start
        parts = len(example.tensors.keys() & {INPUT, LENGTHS, OUTPUT}) + bool(example.axis_line)
        example.is_ours = (LENGTHS in example.tensors and not other) or (is_told and parts > 1)
        if example.is_ours and other and not example.problem:
            missing = [
                label
                for label, role in LABELS.items()
                if role not in example.tensors and label != LENGTHS
            ]
            wanted = " or ".join(missing) or "no more"
            example.problem = error_at(page, other.start, f"the label {other.name}", wanted)


@dataclass(frozen=True)
class Text:
    """A text; `name` is its source for messages, and `identity` its file's state, or None if it is not from a file.

    Its file has that `encoding`, by Python's name, behind that `mark`.
    """

    name: str
    text: str
    identity: Identity | None = None
    encoding: str = "utf-8"
    mark: bytes = b""

    @functools.cached_property
    def items(self) -> list[TensorText | AxisLine]:
        """The tensors and Axis lines, in order, or the one tensor of a text without headers; FormatError for others."""
        with about(self.name):
            return notation.parse(self.text, plain(self.text))

    @functools.cached_property
    def examples(self) -> list[Example]:
        """The examples that page.md::1 and so on name: those of this operator, or else all that have an InputTensor."""
        examples = find_examples(self.text, self.items)
        ours = [example for example in examples if example.is_ours]
        return ours or [example for example in examples if INPUT in example.tensors]

    def example(self, number: int) -> Example:
        """The example of that number, counted from 1; FormatError if there is no such one."""
        count = len(self.examples)
        if not 1 <= number <= count:
            wanted = f"1 to {count}" if count else "a page with examples"
            raise FormatError(f"no example {number}", wanted, where=self.name)
        return self.examples[number - 1]

    def page_examples(self) -> list[Example]:
        """Every example of a page, of this operator or another; none of a text that is no page."""
        return find_examples(self.text, notation.parse_page(self.text, plain(self.text)))


# Markup, which stands around examples.
_COMMENT = re.compile(r"//[^\n]*")
_TAG = re.compile(r"<!\[CDATA\[|\]\]>|<[/!a-zA-Z][^<>]{0,1000}>")
# These tags begin or end a line, as in a browser.
_BLOCK = re.compile(
    r"</?(?:p|div|li|ul|ol|dl|dt|dd|pre|section|article|main|body|h[1-6]|tr|td|th|table|summary|details|figure"
    r"|blockquote|br|hr)\b",
    re.IGNORECASE,
)
# Inline markup that shows nothing itself, so that a word goes on behind it, as highlighters write -1.
_INLINE = re.compile(
    r"</?(?:span|wbr|b|i|em|strong|code|tt|font|kbd|var|samp|mark|u)\b[^<>]{0,200}>", re.IGNORECASE
)
_TORN = re.compile(
    rf"(?<![\w.+-])[\w.+-]++(?:(?:{_INLINE.pattern}){{1,20}}[\w.]++)++", re.IGNORECASE
)
_REFERENCE = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]\w{1,30});", re.ASCII)
_QUOTE = re.compile(r"^[ \t]*>[> \t]*", re.MULTILINE)


def plain(text: str) -> str:
    """The text with blanks for comments and markup, and with line feeds alone; quick searches spare long texts most."""
    text = notation.lines_of(text)
    if "<" in text:  # a word without the markup in it stands where it begins
        text = _TORN.sub(lambda match: _INLINE.sub("", match[0]).ljust(len(match[0])), text)
    if "&" in text:
        text = _REFERENCE.sub(_character, text)
    for mark in ("**", "`", "\xa0", "\u3000"):
        text = text.replace(mark, " " * len(mark))
    if "<" in text or ">" in text:
        text = _QUOTE.sub(_blanks, _TAG.sub(_blanks, text))
    return _COMMENT.sub(_blanks, text) if "//" in text else text


def _blanks(match: re.Match[str]) -> str:
    """Blanks and line feeds for markup, and a line feed first for a tag that begins or ends a line."""
    blanks = re.sub(r"[^\n]", " ", match[0])
    return f"\n{blanks[1:]}" if _BLOCK.match(match[0]) else blanks


def _character(match: re.Match[str]) -> str:
    """What a reference of HTML stands for, beside blanks, so that a number is not torn apart."""
    character = html.unescape(match[0])
    if character.isspace():
        return " " * len(match[0])
    if len(character) != 1 or not character.isprintable() or character in "<>":
        return match[0]
    behind = match.string[match.end() : match.end() + 1]
    return (
        character.rjust(len(match[0]))
        if behind.isalnum() or behind == "."
        else character.ljust(len(match[0]))
    )
