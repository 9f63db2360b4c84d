"""Examples of the operator in a text: which tensors and which Axis line of the bracket notation belong together."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from revseq_cli.ground.errors import FormatError, listed
from revseq_cli.operator.spec import INPUT, LENGTHS, OUTPUT
from revseq_cli.texts import notation, places

if TYPE_CHECKING:
    from collections.abc import Iterable


# The page's examples call the lengths SequenceTensor; the struct has SequenceLengthsTensor.
LABELS = {INPUT: INPUT, "SequenceTensor": LENGTHS, LENGTHS: LENGTHS, OUTPUT: OUTPUT}
# What to say of an example that lacks a tensor.
_MISSING = {
    INPUT: ("the example has no InputTensor", "the values to reverse"),
    LENGTHS: ("the example has no lengths", "a tensor labelled SequenceTensor or SequenceLengthsTensor"),
    OUTPUT: ("the example has no OutputTensor", "the values to hold against the operator's"),
}


@functools.lru_cache(maxsize=1024)
def label_meant(label: str) -> str | None:
    """The label that is meant by one, which may be misspelled, or None; OutputTensors[0] is another operator's."""
    if label in LABELS:
        return label
    import difflib  # most labels are right

    small = {each.lower(): each for each in LABELS}
    near = difflib.get_close_matches(label.lower(), small, 1, 0.85) if label.isidentifier() else []
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
    another operator's. `problem` is what is wrong with it as an example of this one. `axes` has the Axis lines: at most
    two with an integer, or one with other words.
    """

    text: str
    tensors: dict[str, notation.TensorText] = field(default_factory=dict)
    axes: list[notation.Attribute] = field(default_factory=list)
    others: list[notation.TensorText] = field(default_factory=list)
    problem: FormatError | None = None

    @property
    def is_ours(self) -> bool:
        """Whether it has lengths, as only this operator's examples do, and no tensor that this operator lacks."""
        return LENGTHS in self.tensors and not self.others

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
    return examples


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
