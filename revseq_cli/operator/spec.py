"""What DirectML accepts, as data: data types, feature levels, the support table, the constraints.

Source of every rule: Microsoft's reference page of DML_REVERSE_SUBSEQUENCES_OPERATOR_DESC, sections
"Tensor constraints" and "Tensor support", and DirectML's general limits on tensors.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Self

from revseq_cli.core.errors import RevseqError, UsageError, join_names
from revseq_cli.core.tensors import DataType, TensorDesc, in_braces, numbers_of

INPUT, LENGTHS, OUTPUT = "InputTensor", "SequenceLengthsTensor", "OutputTensor"

# The axis and the batch axis that other systems have by default.
SYSTEMS = {
    "onnx": (0, 1),  # time_axis and batch_axis of ReverseSequence, in all versions of its schema
    "tensorflow": (1, 0),  # the layout of its layers; tf.reverse_sequence has batch_axis=0
    "pytorch": (0, 1),  # torch.nn.utils.rnn without batch_first
}


class FeatureLevel(IntEnum):
    """DML_FEATURE_LEVEL_x_y with DirectML's own numbers; NONE has only the operator's own rules.

    Every level accepts all that the levels below it accept.
    """

    V1_0 = 0x1000
    V2_0 = 0x2000
    V2_1 = 0x2100
    V3_0 = 0x3000
    V3_1 = 0x3100
    V4_0 = 0x4000
    V4_1 = 0x4100
    V5_0 = 0x5000
    V5_1 = 0x5100
    V5_2 = 0x5200
    V6_0 = 0x6000
    V6_1 = 0x6100
    V6_2 = 0x6200
    V6_3 = 0x6300
    V6_4 = 0x6400
    NONE = 0xFFFF

    @property
    def short(self) -> str:
        """As it is typed: 5_0, or none."""
        return self.name.removeprefix("V").lower()

    def __str__(self) -> str:
        if self is FeatureLevel.NONE:
            return "feature level none"
        return f"DML_FEATURE_LEVEL_{self.short}"

    @classmethod
    def parse(cls, text: str) -> FeatureLevel:
        """The level written as 5_0, 5.0, DML_FEATURE_LEVEL_5_0 or none; UsageError otherwise."""
        key = text.strip().upper().removeprefix("DML_FEATURE_LEVEL_").replace(".", "_")
        for level in cls:
            if level.short.upper() == key:
                return level
        known = join_names((level.short for level in cls), len(cls))
        raise UsageError(f"{text[:40]!r} is not a feature level", f"one of {known}")


DIRECTML = tuple(level for level in FeatureLevel if level is not FeatureLevel.NONE)


@dataclass(frozen=True)
class Support:
    """One row of the support table: what the operator accepts from level `since` on."""

    since: FeatureLevel
    dimension_counts: range
    values: tuple[DataType, ...]
    lengths: tuple[DataType, ...]

    def data_types(self, tensor: str) -> tuple[DataType, ...]:
        return self.lengths if tensor == LENGTHS else self.values


_D = DataType
_UP_TO_4_BYTES = (
    _D.FLOAT32,
    _D.FLOAT16,
    _D.INT32,
    _D.INT16,
    _D.INT8,
    _D.UINT32,
    _D.UINT16,
    _D.UINT8,
)
_UP_TO_8_BYTES = tuple(data_type for data_type in _D if data_type.kind in ("float", "int", "uint"))
_REAL_NUMBERS = tuple(
    data_type for data_type in _D if data_type.kind in ("float", "int", "uint", "minifloat")
)

SUPPORT = (
    Support(FeatureLevel.V2_1, range(4, 5), _UP_TO_4_BYTES, (_D.UINT32,)),
    Support(FeatureLevel.V3_0, range(4, 6), _UP_TO_4_BYTES, (_D.UINT32,)),
    Support(FeatureLevel.V4_0, range(1, 9), _UP_TO_4_BYTES, (_D.UINT32,)),
    Support(FeatureLevel.V5_0, range(1, 9), _UP_TO_8_BYTES, (_D.UINT64, _D.UINT32)),
    # Not DirectML's: the operator's own rules, within what NumPy can hold. Lengths are whole
    # numbers of any type.
    Support(FeatureLevel.NONE, range(1, 65), tuple(_D), _REAL_NUMBERS),
)
DIRECTML_ROWS = SUPPORT[:-1]

MOST_ELEMENTS = 2**32 - 1  # of a tensor in DirectML, if they take 4 bytes or more
_TENSORS = "DirectML tensors"  # the rule for limits that all operators have
_NO_LEVEL = "no feature level of DirectML has it; without one, the operator's own rules hold"


def most_elements(data_type: DataType) -> int:
    """The most elements of a tensor in DirectML, which rounds sizes up to a multiple of 4 bytes.

    The page gives one number for all types, but DirectML 1.15.4 refuses tensors with more elements
    than this.
    """
    step = max(1, 4 // data_type.size)
    return MOST_ELEMENTS // step * step


def find_support(level: FeatureLevel) -> Support | None:
    """The newest row that is not above the level; None for a level that lacks the operator."""
    for row in reversed(SUPPORT):
        if row.since <= level:
            return row
    return None


@dataclass(frozen=True)
class Constraint:
    """One rule for a property of a tensor: what was found, what is expected, and whether it holds.

    `tensor` is INPUT, LENGTHS or OUTPUT. `rule` names the section of the page that states it.
    `matching` says that the property must match InputTensor's. A violation is a constraint that is
    not ok; only violations have hints.
    """

    tensor: str
    property: str
    found: str
    expected: str
    rule: str
    ok: bool = field(repr=False)
    hint: str = field(default="", repr=False)
    matching: bool = field(default=False, repr=False)

    def label(self) -> str:
        """The tensor and what is checked of it: each constraint of a job has a label of its own."""
        matching = "matching " if self.matching else ""
        return f"{self.tensor} {matching}{self.property}"


def lengths_sizes(sizes: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """The sizes of the lengths of a tensor of these sizes: one length for each sequence."""
    return (*sizes[:axis], 1, *sizes[axis + 1 :])


def select_violations(constraints: Iterable[Constraint]) -> tuple[Constraint, ...]:
    """The constraints that do not hold."""
    return tuple(constraint for constraint in constraints if not constraint.ok)


class SpecError(RevseqError, ValueError):
    """Tensors that break rules of the operator or of the feature level, with every broken rule.

    `names` has the user's name for each tensor; a tensor without one is called by its name in the
    operator. `hint` is for all violations together; without it, each has its own. `errors`, if
    there are any, are printed instead of the violations: they say in plain words what these mean
    together.
    """

    def __init__(
        self,
        violations: tuple[Constraint, ...],
        names: dict[str, str],
        hint: str = "",
        errors: Sequence[RevseqError] = (),
    ) -> None:
        super().__init__(f"{len(violations)} violations", hint=hint)
        self.violations = violations
        self.names = names
        self.errors = errors

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.violations, self.names, self.hint, self.errors)

    def __str__(self) -> str:
        return "\n".join(map(str, self.parts()))

    def show_hint(self) -> Self:
        """Add the hint for all violations, if there is one, to the message of the last part."""
        if self.hint:
            self.errors = self.parts()  # kept, since parts are made anew otherwise
            self.errors[-1].show_hint()
        return self

    def parts(self) -> Sequence[RevseqError]:
        """An error for each violation; the last one has the hint."""
        if self.errors:
            return self.errors
        parts = []
        for v in self.violations:
            hint = "" if self.hint else v.hint
            name = self.names.get(v.tensor, v.tensor)
            found = f"{v.property} is {v.found}"
            parts.append(RevseqError(found, f"{v.expected} ({v.rule})", hint, name))
        parts[-1].set_default_hint(self.hint)
        return parts


def constraints(
    values: TensorDesc,
    lengths: TensorDesc,
    axis: int,
    level: FeatureLevel,
    output: TensorDesc | None = None,
) -> list[Constraint]:
    """Every constraint of the operator and of the level, passed or failed, in the page's order.

    `output` describes the OutputTensor if a page or a model states it; otherwise it is like the
    input.
    """
    tensors = {INPUT: values, LENGTHS: lengths}
    if output:
        tensors[OUTPUT] = output
    row = find_support(level)
    input_has_dimensions = values.dimension_count > 0  # else all would fail for this one reason
    checked: list[Constraint] = []
    if level is not FeatureLevel.NONE:
        checked.append(_check_level(level, row))
    if row:
        for tensor, desc in tensors.items():
            checked += _check_support(tensor, desc, row, input_has_dimensions=input_has_dimensions)
    if level is not FeatureLevel.NONE:
        checked += [_check_sizes(tensor, desc) for tensor, desc in tensors.items()]
    if input_has_dimensions:
        checked += _check_operator(tensors, axis)
    return checked


def _check_level(level: FeatureLevel, row: Support | None) -> Constraint:
    """That the operator exists at the level."""
    first = SUPPORT[0].since
    rule = f"tensor support, {row.since} and above" if row else f"introduced in {first}"
    hint = "" if row else f"for the lowest level, add --feature-level {first.short}"
    expected = f"{first.short} or above"
    return Constraint(INPUT, "feature level", level.short, expected, rule, row is not None, hint)


def _check_support(
    tensor: str, desc: TensorDesc, row: Support, *, input_has_dimensions: bool
) -> Iterator[Constraint]:
    """The rank, the data type and the number of elements, by a row of the support table."""
    is_none = row.since is FeatureLevel.NONE
    rule = "operator's rules" if is_none else f"tensor support, {row.since} and above"
    if tensor == INPUT or input_has_dimensions:
        yield _check_dimension_count(tensor, desc.dimension_count, row, rule)
    data_type = desc.data_type
    types = row.data_types(tensor)
    expected = join_names((t.name for t in types), len(types))
    if is_none and tensor == LENGTHS:
        expected = "a type of numbers"
    ok = data_type in types
    hint = "" if ok else _type_hint(tensor, data_type)
    yield Constraint(tensor, "DataType", data_type.name, expected, rule, ok, hint)
    if not is_none:
        yield _check_element_count(tensor, desc)


def _check_dimension_count(tensor: str, count: int, row: Support, rule: str) -> Constraint:
    """The rank. There is no hint for a tensor without dimensions, which no level accepts."""
    counts = row.dimension_counts
    ok = count in counts
    hint = ""
    has_hint = count > 0 and row.since is not FeatureLevel.NONE
    if has_hint and not ok:
        hint = _level_hint([other for other in DIRECTML_ROWS if count in other.dimension_counts])
    return Constraint(tensor, "dimension count", str(count), span(counts), rule, ok, hint)


def _check_element_count(tensor: str, desc: TensorDesc) -> Constraint:
    """The number of elements, which DirectML limits."""
    most = most_elements(desc.data_type)
    ok = desc.element_count <= most
    hint = "" if ok else _NO_LEVEL
    expected = f"at most {most}"
    if most < MOST_ELEMENTS:
        expected += f": DirectML rounds sizes in bytes up to 4, and takes {MOST_ELEMENTS} elements"
    return Constraint(
        tensor, "element count", str(desc.element_count), expected, _TENSORS, ok, hint
    )


def _check_sizes(tensor: str, desc: TensorDesc) -> Constraint:
    ok = 0 not in desc.sizes
    return Constraint(tensor, "Sizes", in_braces(desc.sizes), "sizes of at least 1", _TENSORS, ok)


def _check_operator(tensors: dict[str, TensorDesc], axis: int) -> Iterator[Constraint]:
    """What the operator itself asks, at every level: ranks, the axis, and sizes that match."""
    values = tensors[INPUT]
    lengths = tensors[LENGTHS]
    output = tensors.get(OUTPUT)
    rank = values.dimension_count
    as_input = f", as {INPUT} has"
    for tensor, desc in tensors.items():
        if tensor != INPUT:
            count = desc.dimension_count
            expected = f"{rank}{as_input}"
            ok = count == rank
            yield _match(tensor, "dimension count", str(count), expected, ok)
    is_in_range = 0 <= axis < rank
    expected = f"{numbers_of(rank)}: less than the dimension count"
    yield Constraint(INPUT, "Axis", str(axis)[:40], expected, "Axis", is_in_range)
    if is_in_range and lengths.dimension_count == rank:
        sizes = lengths_sizes(values.sizes, axis)
        expected = f"{in_braces(sizes)}: as {INPUT}, and 1 along axis {axis}"
        ok = lengths.sizes == sizes
        yield _match(LENGTHS, "Sizes", in_braces(lengths.sizes), expected, ok, rule=LENGTHS)
    if output:
        expected = f"{in_braces(values.sizes)}{as_input}"
        ok = output.sizes == values.sizes
        yield _match(OUTPUT, "Sizes", in_braces(output.sizes), expected, ok, rule=OUTPUT)
        expected = f"{values.data_type.name}{as_input}"
        ok = output.data_type is values.data_type
        yield _match(OUTPUT, "DataType", output.data_type.name, expected, ok)


def _match(
    tensor: str, name: str, found: str, expected: str, ok: bool, rule: str = "tensor constraints"
) -> Constraint:
    """A constraint of a property that must match InputTensor's."""
    return Constraint(tensor, name, found, expected, rule, ok, matching=True)


@functools.lru_cache(maxsize=64)  # the jobs of a batch are often alike
def violations(
    values: TensorDesc,
    lengths: TensorDesc,
    axis: int,
    level: FeatureLevel,
    output: TensorDesc | None = None,
) -> tuple[Constraint, ...]:
    """The constraints that do not hold, all of them; empty for tensors that the level accepts."""
    return select_violations(constraints(values, lengths, axis, level, output))


def lowest_level(values: TensorDesc, lengths: TensorDesc, axis: int) -> FeatureLevel | None:
    """The lowest level that accepts these tensors; None if no level does."""
    return next(
        (level for level in FeatureLevel if not violations(values, lengths, axis, level)), None
    )


def span(counts: range) -> str:
    """Dimension counts as the reference page writes them: 4, or 1 to 8."""
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def _type_hint(tensor: str, data_type: DataType) -> str:
    """What to type for a data type that the level lacks: a cast, or the lowest level with it."""
    if tensor == LENGTHS and data_type.kind == "bool":
        return ""  # a mask that fits no axis: a cast would not help
    if tensor == LENGTHS and data_type is not DataType.UINT64:
        return "" if data_type.kind == "complex" else "add --lengths-dtype UINT32"
    if tensor != LENGTHS and data_type is DataType.BOOL:
        return "DirectML has no BOOL; UINT8 has the same bytes: add --dtype UINT8"
    return _level_hint([row for row in DIRECTML_ROWS if data_type in row.data_types(tensor)])


def _level_hint(rows: Sequence[Support]) -> str:
    """What to type for the level of the first of these rows; without rows, that no level helps."""
    if not rows:
        return _NO_LEVEL
    first = rows[0].since
    return f"{first} and above has it: to choose that level, add --feature-level {first.short}"
