"""Whether DirectML accepts a ReverseSequence node of an ONNX model, by what is known of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from revseq_cli.core.errors import FormatError
from revseq_cli.core.tensors import MOST_DIMENSIONS, DataType, TensorDesc
from revseq_cli.formats.onnx.models import Model, Node
from revseq_cli.formats.onnx.parts import find_needed
from revseq_cli.operator import spec
from revseq_cli.operator.spec import FeatureLevel


@dataclass(frozen=True)
class NodeVerdict:
    """Whether a level accepts a node, the lowest level that does, and a reason in words."""

    is_valid: bool
    lowest: FeatureLevel | None
    text: str


def judge_node(
    model: Model, node: Node, level: FeatureLevel, lengths_dtype: DataType | None
) -> NodeVerdict:
    """The verdict on a node; FormatError if it needs a sparse initializer, as when it is run.

    Where the model does not state them, the data type and the shape are assumed to fit: FLOAT32,
    dimensions that have the axes, sizes of 1. Lengths are INT64 in ONNX.
    """
    model.refuse_sparse(find_needed(model, [node.values, node.lengths], ()))
    known = model.stated[node.values]
    sizes = _assume_sizes(model, node)
    try:
        axis, batch_axis = node.find_axes(len(sizes), model.path)
    except FormatError as e:
        return NodeVerdict(False, None, e.found)
    values = TensorDesc(known.data_type or DataType.FLOAT32, sizes)
    lengths = TensorDesc(lengths_dtype or DataType.INT64, spec.lengths_sizes(sizes, axis))
    lowest = spec.lowest_level(values, lengths, axis)
    reasons = list(_list_reasons(spec.violations(values, lengths, axis, level)))
    batch_size = None
    if known.sizes is not None:
        batch_size = known.sizes[batch_axis]
    misfit = model.describe_misfit(node, batch_size)
    if misfit:
        reasons.append(misfit)
    if reasons:
        return NodeVerdict(False, lowest, "; ".join(reasons))
    text = describe_lowest(lowest, values, lengths, axis)
    if lowest is not FeatureLevel.NONE:
        text = f"accepted from {text} on"
    return NodeVerdict(True, lowest, text)


def _assume_sizes(model: Model, node: Node) -> tuple[int, ...]:
    """The sizes of a node's values, with 1 for those that the model leaves open."""
    known = model.stated[node.values].sizes
    if known is None:
        rank = max(2, -node.time_axis, -node.batch_axis)  # so that negative axes are in range
        return (1,) * min(rank, MOST_DIMENSIONS)
    return tuple(size if isinstance(size, int) else 1 for size in known)


def _list_reasons(violations: tuple[spec.Constraint, ...]) -> Iterator[str]:
    """What is wrong, and then each hint once."""
    for constraint in violations:
        yield f"{constraint.label()}: {constraint.found}"
    hints = dict.fromkeys(constraint.hint for constraint in violations)
    yield from filter(None, hints)


def describe_lowest(
    lowest: FeatureLevel | None, values: TensorDesc, lengths: TensorDesc, axis: int
) -> str:
    """The lowest level; if DirectML has none, also the lowest one for lengths of UINT32."""
    if lowest not in (None, FeatureLevel.NONE):
        return str(lowest)
    text = "the operator itself refuses it"
    if lowest:
        text = "no feature level of DirectML accepts it"
    if lengths.data_type.kind in ("int", "uint", "float"):
        with_cast = spec.lowest_level(values, replace(lengths, data_type=DataType.UINT32), axis)
        if with_cast not in (None, FeatureLevel.NONE):
            text += f"; with --lengths-dtype UINT32: {with_cast}"
    return text
