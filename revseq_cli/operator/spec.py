"""What DirectML accepts, as data: data types, feature levels, the support table, the constraints.

Source of every rule: Microsoft's reference page of DML_REVERSE_SUBSEQUENCES_OPERATOR_DESC, sections "Tensor
constraints" and "Tensor support", and DirectML's general limits on tensors.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from revseq_cli.core.errors import RevseqError, UsageError, listed
from revseq_cli.core.tensors import DataType, TensorDesc, braced, numbers_of

INPUT, LENGTHS, OUTPUT = "InputTensor", "SequenceLengthsTensor", "OutputTensor"

# The axis and the batch axis that other systems have by default.
SYSTEMS = {
    "onnx": (0, 1),  # time_axis and batch_axis of ReverseSequence, in all versions of its schema
    "tensorflow": (1, 0),  # the layout of its layers; tf.reverse_sequence has batch_axis=0
    "pytorch": (0, 1),  # torch.nn.utils.rnn without batch_first
}


class FeatureLevel(IntEnum):
    """DML_FEATURE_LEVEL_x_y with DirectML's own numbers; NONE, above them all, has only the operator's own rules.

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
        return (
            "feature level none" if self is FeatureLevel.NONE else f"DML_FEATURE_LEVEL_{self.short}"
        )

    @classmethod
    def parse(cls, text: str) -> FeatureLevel:
        """The level written as 5_0, 5.0, DML_FEATURE_LEVEL_5_0 or none; UsageError otherwise."""
        key = text.strip().upper().removeprefix("DML_FEATURE_LEVEL_").replace(".", "_")
        for level in cls:
            if level.short.upper() == key:
                return level
        known = listed((level.short for level in cls), len(cls))
        raise UsageError(f"{text[:40]!r} is not a feature level", f"one of {known}")


DIRECTML = tuple(level for level in FeatureLevel if level is not FeatureLevel.NONE)


@dataclass(frozen=True)
class Support:
    """One row of the support table: what the operator accepts from level `since` on."""

    since: FeatureLevel
    dimension_counts: range
    values: tuple[DataType, ...]
    lengths: tuple[DataType, ...]
    most_elements: int | None = 2**32 - 1

    def data_types(self, tensor: str) -> tuple[DataType, ...]:
        return self.lengths if tensor == LENGTHS else self.values


_D = DataType
_FIRST = (_D.FLOAT32, _D.FLOAT16, _D.INT32, _D.INT16, _D.INT8, _D.UINT32, _D.UINT16, _D.UINT8)
_NUMBERS = ("uint", "int", "float", "minifloat")
_ALL = tuple(data_type for data_type in _D if data_type.kind in ("float", "int", "uint"))

SUPPORT = (
    Support(FeatureLevel.V2_1, range(4, 5), _FIRST, (_D.UINT32,)),
    Support(FeatureLevel.V3_0, range(4, 6), _FIRST, (_D.UINT32,)),
    Support(FeatureLevel.V4_0, range(1, 9), _FIRST, (_D.UINT32,)),
    Support(FeatureLevel.V5_0, range(1, 9), _ALL, (_D.UINT64, _D.UINT32)),
    # Not DirectML's: the operator's own rules, within what NumPy can hold. Lengths are whole numbers of any type.
    Support(
        FeatureLevel.NONE, range(1, 65), tuple(_D), tuple(t for t in _D if t.kind in _NUMBERS), None
    ),
)


def support(level: FeatureLevel) -> Support | None:
    """The row in force at that level: the newest that is not above it; None before the operator exists."""
    return max(
        (row for row in SUPPORT if row.since <= level), key=lambda row: row.since, default=None
    )


@dataclass(frozen=True)
class Constraint:
    """One rule applied to the tensors: its property, what was found and wanted, and whether the rule holds.

    `tensor` is INPUT, LENGTHS or OUTPUT. `matching` says that the property must match InputTensor's. A violation
    is a constraint that is not ok; only violations have hints.
    """

    tensor: str
    property: str
    found: str
    wanted: str
    rule: str
    ok: bool = field(repr=False)
    hint: str = field(default="", repr=False)
    matching: bool = field(default=False, repr=False)

    def label(self) -> str:
        """The tensor and what is checked of it: each constraint of a job has a label of its own."""
        return f"{self.tensor} {'matching ' if self.matching else ''}{self.property}"


def lengths_sizes(sizes: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """The sizes of the lengths of a tensor of these sizes: one length for each line along the axis."""
    return (*sizes[:axis], 1, *sizes[axis + 1 :])


def broken(constraints: Iterable[Constraint]) -> tuple[Constraint, ...]:
    """The constraints that do not hold."""
    return tuple(constraint for constraint in constraints if not constraint.ok)


class SpecError(RevseqError, ValueError):
    """Tensors that break rules of the operator or of the feature level; `violations` has every broken rule.

    `names` has the user's name for each tensor; a tensor that it lacks has its name in the operator. The `hint` is for
    all violations together; without one, each has its own. `errors` say in plain words what the violations mean
    together; they have the hint, and are printed instead.
    """

    def __init__(
        self,
        violations: tuple[Constraint, ...],
        names: dict[str, str],
        hint: str = "",
        errors: Sequence[RevseqError] = (),
    ) -> None:
        super().__init__(f"{len(violations)} violations", hint=hint)
        self.violations, self.names, self.errors = violations, names, errors

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.violations, self.names, self.hint, self.errors)

    def parts(self) -> Sequence[RevseqError]:
        """An error for each violation; the last one has the hint."""
        if self.errors:
            return self.errors
        parts = []
        for v in self.violations:
            hint, name = "" if self.hint else v.hint, self.names.get(v.tensor, v.tensor)
            parts.append(
                RevseqError(f"{v.property} is {v.found}", f"{v.wanted} ({v.rule})", hint, name)
            )
        parts[-1].hint = parts[-1].hint or self.hint
        return parts


def constraints(
    values: TensorDesc,
    lengths: TensorDesc,
    axis: int,
    level: FeatureLevel,
    output: TensorDesc | None = None,
) -> list[Constraint]:
    """Every constraint of the operator and of the feature level, passed or failed, in the order of the page.

    `output` describes the OutputTensor where a page or a model states it; otherwise it is like the input.
    """
    tensors = {INPUT: values, LENGTHS: lengths} | ({OUTPUT: output} if output else {})
    found: list[Constraint] = []

    def add(
        tensor: str,
        what: str,
        is_: object,
        wanted: str,
        rule: str,
        *,
        ok: bool,
        hint: str = "",
        matching: bool = False,
    ) -> None:
        found.append(Constraint(tensor, what, str(is_), wanted, rule, ok, hint, matching))

    rank, is_none, row, first = (
        values.dimension_count,
        level is FeatureLevel.NONE,
        support(level),
        SUPPORT[0].since,
    )
    rule = f"tensor support, {row.since} and above" if row else f"introduced in {first}"
    if is_none:
        rule = "operator's rules"
    else:
        hint = "" if row else f"try --feature-level {first.short}"
        add(
            INPUT,
            "feature level",
            level.short,
            f"{first.short} or above",
            rule,
            ok=bool(row),
            hint=hint,
        )
    for tensor, desc in tensors.items() if row else ():
        assert row  # noqa: S101 - for mypy
        count, counts = desc.dimension_count, row.dimension_counts
        # No level has a tensor without dimensions, and the operator has none either.
        hint = ""
        if count and not is_none and count not in counts:
            hint = _first_level([each for each in SUPPORT[:-1] if count in each.dimension_counts])
        if tensor == INPUT or rank:
            add(tensor, "dimension count", count, span(counts), rule, ok=count in counts, hint=hint)
        data_type, types = desc.data_type, row.data_types(tensor)
        wanted = (
            "a type of numbers"
            if is_none and tensor == LENGTHS
            else listed((t.name for t in types), len(types))
        )
        hint = "" if data_type in types else _type_hint(tensor, data_type)
        add(tensor, "DataType", data_type.name, wanted, rule, ok=data_type in types, hint=hint)
        if most := row.most_elements:
            few = desc.element_count <= most
            hint = "" if few else _NO_LEVEL
            add(
                tensor,
                "element count",
                desc.element_count,
                f"at most {most}",
                _TENSORS,
                ok=few,
                hint=hint,
            )
    for tensor, desc in () if is_none else tensors.items():
        add(
            tensor,
            "Sizes",
            braced(desc.sizes),
            "sizes of at least 1",
            _TENSORS,
            ok=0 not in desc.sizes,
        )
    if not rank:  # its one fault causes all others
        return found
    # What the operator itself asks, at every level:
    rule = "tensor constraints"
    for tensor, desc in [*tensors.items()][1:]:
        count = desc.dimension_count
        add(
            tensor,
            "dimension count",
            count,
            f"{rank}, as {INPUT} has",
            rule,
            ok=count == rank,
            matching=True,
        )
    in_range = 0 <= axis < rank
    wanted = f"{numbers_of(rank)}: less than the dimension count"
    add(INPUT, "Axis", str(axis)[:40], wanted, "Axis", ok=in_range)
    if in_range and lengths.dimension_count == rank:
        sizes = lengths_sizes(values.sizes, axis)
        wanted = f"{braced(sizes)}: as {INPUT}, and 1 along axis {axis}"
        add(
            LENGTHS,
            "Sizes",
            braced(lengths.sizes),
            wanted,
            LENGTHS,
            ok=lengths.sizes == sizes,
            matching=True,
        )
    if output:
        wanted, ok = f"{braced(values.sizes)}, as {INPUT} has", output.sizes == values.sizes
        add(OUTPUT, "Sizes", braced(output.sizes), wanted, OUTPUT, ok=ok, matching=True)
        wanted, ok = (
            f"{values.data_type.name}, as {INPUT} has",
            output.data_type is values.data_type,
        )
        add(OUTPUT, "DataType", output.data_type.name, wanted, rule, ok=ok, matching=True)
    return found


@functools.lru_cache(maxsize=64)  # the jobs of a batch are often alike
def violations(
    values: TensorDesc,
    lengths: TensorDesc,
    axis: int,
    level: FeatureLevel,
    output: TensorDesc | None = None,
) -> tuple[Constraint, ...]:
    """The constraints that do not hold, all of them; empty for tensors that the level accepts."""
    return broken(constraints(values, lengths, axis, level, output))


def lowest_level(values: TensorDesc, lengths: TensorDesc, axis: int) -> FeatureLevel | None:
    """The lowest level that accepts these tensors, computed from the table; None if no level does."""
    return next(
        (level for level in FeatureLevel if not violations(values, lengths, axis, level)), None
    )


def span(counts: range) -> str:
    """Dimension counts as the reference page writes them: 4, or 1 to 8."""
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


_TENSORS = "DirectML tensors"  # the rule behind limits of every operator
_NO_LEVEL = "no feature level of DirectML has it; without one, the operator's own rules hold"


def _type_hint(tensor: str, data_type: DataType) -> str:
    """What to type for a data type that the level does not have: a cast of lengths, else the lowest level with it."""
    if tensor == LENGTHS and data_type.kind == "bool":
        return "if it is a mask, of ones followed by zeros in each line: add --mask"
    if tensor == LENGTHS and data_type is not DataType.UINT64:
        return "" if data_type.kind == "complex" else "add --lengths-dtype UINT32"
    if tensor != LENGTHS and data_type is DataType.BOOL:
        return "DirectML has no BOOL; UINT8 has the same bytes: add --dtype UINT8"
    return _first_level([row for row in SUPPORT[:-1] if data_type in row.data_types(tensor)])


def _first_level(rows: Sequence[Support]) -> str:
    """The level of the first of the rows that have it."""
    return (
        f"{rows[0].since} and above has it: try --feature-level {rows[0].since.short}"
        if rows
        else _NO_LEVEL
    )
