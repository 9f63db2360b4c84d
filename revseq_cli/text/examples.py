"""Examples of the operator in a text: which tensors and which Axis line of the bracket notation belong together."""

from __future__ import annotations

import bisect
import functools
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from revseq_cli.core.errors import FormatError, listed
from revseq_cli.operator.spec import INPUT, LENGTHS, OUTPUT
from revseq_cli.text import notation, places

if TYPE_CHECKING:
    from collections.abc import Iterable


# The page's examples call the lengths SequenceTensor; the struct has SequenceLengthsTensor.
LABELS = {INPUT: INPUT, "SequenceTensor": LENGTHS, LENGTHS: LENGTHS, OUTPUT: OUTPUT}
_ROLES = {INPUT: INPUT, "SequenceTensor": LENGTHS, OUTPUT: OUTPUT}
# What parts two examples: a heading, in Markdown, HTML and reStructuredText, or a command.
_PARTS = re.compile(
    r"^[ \t>]*(?:#{1,6}\s|[$>]{1,3} ?\w|([=~^\-])\1{3,}[ \t]*$)|<h[1-6]\b", re.MULTILINE | re.IGNORECASE
)
# Where a page names an operator: in a heading, or at the start of a line.
_OPERATOR = re.compile(
    r"^[ \t>]*(?:#{1,6}[ \t].{0,300}?|(?:title|uid)[ \t]*:.{0,100}?|<[^\n]{0,300}?>)?"
    r"\bDML_(?:OPERATOR_)?([A-Z0-9_]{1,80})",
    re.MULTILINE | re.IGNORECASE | re.ASCII,
)
_OURS = "REVERSE_SUBSEQUENCES"
# What to say of an example that lacks a tensor.
_MISSING = {
    INPUT: ("the example has no InputTensor", "the values to reverse"),
    LENGTHS: ("the example has no lengths", "a tensor labelled SequenceTensor or SequenceLengthsTensor"),
    OUTPUT: ("the example has no OutputTensor", "the values to compare with the operator's"),
}


@functools.lru_cache(maxsize=1024)
def label_meant(label: str) -> str | None:
    """The label that is meant by one, which may be misspelled, or None; OutputTensors[0] is another operator's."""
    if label in LABELS:
        return label
    import difflib  # most labels are right

    small = {each.lower(): each for each in LABELS}
    joined = re.sub(r"[\s.-]", "", label).lower()
    near = difflib.get_close_matches(joined, small, 1, 0.85) if joined.isidentifier() else []
    return small[near[0]] if near else None


def role_of(label: str) -> tuple[str | None, bool]:
    """The tensor's name in the operator, or None, by a label; and whether the label is none that is misspelled."""
    meant = label_meant(label)
    return (LABELS[meant], meant == label) if meant else (None, True)


class NoExampleError(FormatError):
    """A page, or a test, that has no example of this operator."""


@dataclass
class Example:
    """One example of a text: its tensors by their names in the operator, and its Axis lines.

    `others` are tensors whose names this operator does not have; with them, or without lengths, the example is
    another operator's, unless `is_meant`: it stands where a page speaks of this one. `problem` is what is wrong with it
    as an example of this one. `axes` has the Axis lines: at most two with an integer, or one with other words. `again`
    has further OutputTensors right below it.
    """

    text: str
    tensors: dict[str, notation.TensorText] = field(default_factory=dict)
    axes: list[notation.Attribute] = field(default_factory=list)
    others: list[notation.TensorText] = field(default_factory=list)
    again: list[notation.TensorText] = field(default_factory=list)
    problem: FormatError | None = None
    is_meant: bool = False

    @property
    def is_ours(self) -> bool:
        """Whether it has lengths, as only this operator's examples do, and no tensor that this operator lacks."""
        return self.is_meant or (LENGTHS in self.tensors and not self.others)

    def mean(self) -> None:
        """Take it for an incomplete example of this operator, if it has two of the four parts or more."""
        if len(self.tensors) + bool(self.axes) < 2:
            return
        self.is_meant = True
        if self.others:
            wanted = " or ".join(self.missing()) or "no more"
            self._note_problem(self.others[0], f"the label {self.others[0].name}", wanted)

    def missing(self) -> list[str]:
        """The labels of the tensors that it lacks."""
        return [label for label, role in _ROLES.items() if role not in self.tensors]

    def is_output_of(self, other: Example) -> bool:
        """Whether it is an OutputTensor alone, right below an example that has all parts, and so has two of them."""
        alone = OUTPUT in self.tensors and len(self.tensors) == 1 and not (self.others or self.axes)
        return alone and other.is_ours and len(other.tensors) == len(_ROLES) and not _is_parted(other, self)

    def is_rest_of(self, other: Example) -> bool:
        """Whether it is one tensor of another name, and that example lacks its OutputTensor alone."""
        alone = len(self.others) == 1 and not (self.tensors or self.axes)
        return alone and {INPUT, LENGTHS} == {*other.tensors} and not (other.others or _is_parted(other, self))

    @property
    def line(self) -> int:
        """The line of its first tensor, counted from 1."""
        return min(item.line for item in [*self.tensors.values(), *self.others])

    def start(self, name: str = "") -> int:
        """The place of its Axis line, or of a tensor by its name in the operator; else of its first tensor."""
        if name == "Axis" and self.axes:
            return self.axes[0].start
        found = [self.tensors[name]] if name in self.tensors else [*self.tensors.values(), *self.others]
        return min(item.start for item in found)

    def tensor(self, role: str) -> notation.TensorText:
        """The tensor of that name in the operator; FormatError where the example lacks it."""
        if role not in self.tensors:
            raise FormatError(*_MISSING[role])
        return self.tensors[role]

    def axis(self) -> int | None:
        """The axis of its only Axis line, None without one.

        FormatError for a second line, and for a line that has no integer.
        """
        if len(self.axes) > 1:
            raise places.error_at(self.text, self.axes[1].start, "a second Axis in one example", "one Axis")
        if not self.axes:
            return None
        written = self.axes[0].value
        if _is_integer(written):
            return int(written.rstrip(",. "))
        wanted = "a colon : before the integer" if written.startswith("\uff1a") else "an integer"
        raise places.error_at(self.text, self.axes[0].start, f"Axis is {written[:40]}", wanted)

    def add(self, item: notation.TensorText) -> None:
        """Add a tensor; one with a misspelled name, or a second one of a name, makes the example's `problem`."""
        meant = label_meant(item.name)
        role = LABELS.get(meant or "")
        if meant and meant != item.name:
            self._note_problem(item, f"the label {item.name}", meant)
        if role is None:
            self.others.append(item)
        elif role in self.tensors:
            self._note_problem(item, f"a second {item.name} in one example", "each once")
        else:
            self.tensors[role] = item

    def _note_problem(self, item: notation.TensorText, found: str, wanted: str) -> None:
        self.problem = self.problem or places.error_at(self.text, item.start, found, wanted)

    def add_axis(self, item: notation.Attribute) -> None:
        """Add an Axis line; a line with an integer replaces one with other words."""
        if _is_integer(item.value):
            self.axes = [*(each for each in self.axes[:1] if _is_integer(each.value)), item]
        elif not self.axes:
            self.axes = [item]

    def ends_before(self, item: notation.TensorText | notation.Attribute) -> bool:
        """Whether that item belongs to the next example."""
        complete = OUTPUT in self.tensors
        if isinstance(item, notation.Attribute):
            return complete and bool(self.axes)
        role, _ = role_of(item.name)
        if role == INPUT:
            return bool(self.tensors or self.others)
        if role is None and LENGTHS in self.tensors and self.axes:
            return True
        return complete and not (role == LENGTHS and LENGTHS not in self.tensors)


def find_examples(text: str, items: Iterable[notation.TensorText | notation.Attribute]) -> list[Example]:
    """Every example of a text, of this operator or another, from the items that `notation.parse` finds in it.

    An example ends with its OutputTensor, or before an InputTensor. An Axis line before the first tensor belongs to the
    next example, and so does one behind an example that has an Axis line already.
    """
    examples: list[Example] = []
    ahead: list[notation.Attribute] = []
    for item in items:
        if isinstance(item, notation.TensorText):
            if item.name and (not examples or examples[-1].ends_before(item)):
                examples.append(Example(text, axes=ahead))
                ahead = []
            if item.name:
                examples[-1].add(item)
        elif item.name == "Axis":
            if examples and not examples[-1].ends_before(item):
                examples[-1].add_axis(item)
            elif _is_integer(item.value):  # prose has lines that begin with Axis:, too
                ahead = [*ahead[:1], item]
    return _completed(text, examples)


def _completed(text: str, examples: list[Example]) -> list[Example]:
    """The examples, where those that stand below the name of this operator, and are incomplete, count as its own.

    A name that only stands below, as under "See also", is no reason.
    """
    named = [(match.start(), match[1].upper()) for match in _OPERATOR.finditer(text)] if _OURS in text else []
    is_alone, mention = all(name.startswith(_OURS) for _, name in named), text.find(_OURS)
    found: list[Example] = []
    for example in examples:
        last = found[-1] if found else None
        if last and example.is_output_of(last):
            last.again += example.tensors.values()
            continue
        above = bisect.bisect(named, (example.start(), "")) - 1
        is_here = named[above][1].startswith(_OURS) if above >= 0 else is_alone and mention < example.start()
        if mention >= 0 and is_here and not example.is_ours:
            if last and example.is_rest_of(last):
                last.others += example.others
                last.mean()
                continue
            example.mean()
        found.append(example)
    return found


def _is_parted(first: Example, second: Example) -> bool:
    """Whether a heading or a command stands between two examples."""
    stop = max(item.stop for item in [*first.tensors.values(), *first.again])
    return _PARTS.search(first.text, stop, second.start()) is not None


def numbered(text: str, items: Iterable[notation.TensorText | notation.Attribute]) -> list[Example]:
    """The examples that page.md::1 and so on name: those of this operator, or else all that have an InputTensor."""
    examples = [example for example in find_examples(text, items) if INPUT in example.tensors]
    return [example for example in examples if example.is_ours] or examples


def _is_integer(value: str) -> bool:
    return re.fullmatch(r"[+-]?\d{1,18}[,. ]*", value, re.ASCII) is not None


def number_of(key: str | None) -> int | None:
    """The number of an example, which the key is, as in page.md::2; None for another key."""
    return int(key[:9]) if key and re.fullmatch("[0-9]+", key) else None


def part_of(key: str | None) -> tuple[int, str] | None:
    """The number of an example and the label of its tensor, as in 2::OutputTensor; None for another key."""
    match = re.fullmatch(r"([0-9]{1,9})::(\w+)", key or "")
    return (int(match[1]), match[2]) if match else None


def part(text: str, items: Iterable[notation.TensorText | notation.Attribute], key: str) -> notation.TensorText | None:
    """The tensor that a key such as 2::OutputTensor names; None for another key. FormatError if there is no such one.

    SequenceTensor and SequenceLengthsTensor name the same one, whichever the example has.
    """
    if not (named := part_of(key)):
        return None
    number, label = named
    examples = numbered(text, items)
    if not 1 <= number <= len(examples):
        raise FormatError(f"no example {number}", f"1 to {len(examples)}" if examples else "a page with examples")
    example = examples[number - 1]
    tensors = [*example.tensors.items(), *((other.name, other) for other in example.others)]
    found = next((item for role, item in tensors if label in (role, item.name) or LABELS.get(label) == role), None)
    if not found:
        raise FormatError(f"example {number} has no {label}", listed(item.name for _, item in tensors))
    return found
