"""What DirectML does with a job, and whether it accepts a ReverseSequence node of an ONNX model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from revseq_cli.core.errors import FormatError
from revseq_cli.core.tensors import MOST_DIMENSIONS, DataType, TensorDesc
from revseq_cli.operator import directml, spec
from revseq_cli.operator.directml import Departure
from revseq_cli.operator.spec import FeatureLevel
from revseq_cli.pipeline.folds import LengthCounts
from revseq_cli.pipeline.jobs import Job

if TYPE_CHECKING:
    from revseq_cli.formats.onnx.models import Model, Node

_DEVICE = Departure(directml.ALL, "FLOAT64 needs a device that has it: ask CheckFeatureSupport")
# The only version of this level is 1.0.200610, which is in tensorflow-directml.
_PRERELEASE = Departure("1.0, a prerelease that has level 2_1", "5 dimensions are accepted")


def list_departures(job: Job, counts: LengthCounts, level: FeatureLevel) -> Iterator[Departure]:
    """What DirectML itself does with the job that is not as the page says.

    `counts` are of the lengths as they were given.
    """
    values = job.values.desc
    if counts.total:
        # With a batch axis, each length is given once for several sequences.
        repeats = job.lengths.desc.element_count // counts.total
        size = values.sizes[job.axis]
        yield from directml.find_departures(size, counts.above * repeats, counts.wide * repeats)
    lowest = spec.lowest_level(*job.descs)
    is_accepted = lowest not in (None, FeatureLevel.NONE)
    if is_accepted and values.data_type is DataType.FLOAT64:
        yield _DEVICE
    if level is FeatureLevel.V2_1 and values.dimension_count == 5:
        yield _PRERELEASE


def describe_lowest(
    lowest: FeatureLevel | None, values: TensorDesc, lengths: TensorDesc, axis: int
) -> str:
    """The lowest level; if DirectML has none, also the lowest one for lengths of UINT32."""
    if lowest not in (None, FeatureLevel.NONE):
        return str(lowest)
    text = "the operator itself refuses it"
    if lowest is FeatureLevel.NONE:
        text = "no feature level of DirectML accepts it"
    if lengths.data_type.kind in ("int", "uint", "float"):
        with_cast = spec.lowest_level(values, replace(lengths, data_type=DataType.UINT32), axis)
        if with_cast not in (None, FeatureLevel.NONE):
            text += f"; with --lengths-dtype UINT32: {with_cast}"
    return text


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
    from revseq_cli.formats.onnx.parts import find_needed  # few jobs are nodes of a model

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
