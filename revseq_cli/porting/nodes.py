"""Whether DirectML accepts a ReverseSequence node of an ONNX model, by what is known of it."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from revseq_cli.core.errors import FormatError
from revseq_cli.core.tensors import MOST_DIMENSIONS, DataType, TensorDesc
from revseq_cli.formats.onnx import Model, Node
from revseq_cli.operator import spec
from revseq_cli.operator.spec import FeatureLevel


class Verdict(NamedTuple):
    """Whether a level accepts a node, the lowest level that does, and a reason in words."""

    is_valid: bool
    lowest: FeatureLevel | None
    text: str


def judge_node(
    model: Model, node: Node, level: FeatureLevel, lengths_dtype: DataType | None
) -> Verdict:
    """The verdict on a node; FormatError if it needs a sparse initializer, as when it is run.

    Where the model does not state them, the data type and the shape are assumed to fit: FLOAT32,
    dimensions that have the axes, sizes of 1. Lengths are INT64 in ONNX.
    """
    needed, _ = model.find_needed([node.values, node.lengths], ())
    model.refuse_sparse(needed)
    known = model.stated[node.values]
    open_sizes = known.sizes
    if open_sizes is None:
        rank = max(2, -node.time_axis, -node.batch_axis)  # so that negative axes are in range
        open_sizes = (1,) * min(rank, MOST_DIMENSIONS)
    sizes = tuple(map(_as_size, open_sizes))
    try:
        axis, batch_axis = node.axes(len(sizes), model.path)
    except FormatError as e:
        return Verdict(False, None, e.found)
    values = TensorDesc(known.data_type or DataType.FLOAT32, sizes)
    lengths = TensorDesc(lengths_dtype or DataType.INT64, spec.lengths_sizes(sizes, axis))
    lowest = spec.lowest_level(values, lengths, axis)
    failing = spec.violations(values, lengths, axis, level)
    wrong = [f"{constraint.label()}: {constraint.found}" for constraint in failing]
    hints = [constraint.hint for constraint in failing if constraint.hint]
    wrong += dict.fromkeys(hints)
    batch = None
    if known.sizes is not None:
        batch = known.sizes[batch_axis]
    misfit = model.misfit(node, batch)
    if misfit:
        wrong.append(misfit)
    if wrong:
        return Verdict(False, lowest, "; ".join(wrong))
    text = describe_lowest(lowest, values, lengths, axis)
    if lowest is not FeatureLevel.NONE:
        text = f"accepted from {text} on"
    return Verdict(True, lowest, text)


def _as_size(size: int | str | None) -> int:
    """The size of a dimension; 1 if the model leaves it open."""
    if isinstance(size, int):
        return size
    return 1


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
