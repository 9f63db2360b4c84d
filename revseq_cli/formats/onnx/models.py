"""ONNX models, of which each ReverseSequence node of the graph is a job.

Source: onnx/onnx.proto, docs/IR.md and docs/ExternalData.md.
"""

# ruff: noqa: ANN401 - the messages of the package onnx have no types

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from revseq_cli.core.errors import FormatError, join_names, printable
from revseq_cli.core.tensors import DataType
from revseq_cli.formats.onnx.runtime import RUNTIME
from revseq_cli.formats.onnx.tensors import TYPES, read_proto
from revseq_cli.formats.refusals import choose_tensor

OPERATOR = "ReverseSequence"
_LONGEST_NAME = 40  # characters of a name that are printed
_INT = 2  # the number of this type of an attribute
OpenSize = int | str  # the size of a dimension, or the name that a model has for it


@dataclass(frozen=True)
class Stated:
    """What is known of a value: its data type, and its sizes; None for what is not known."""

    data_type: DataType | None = None
    sizes: tuple[OpenSize, ...] | None = None

    def __str__(self) -> str:
        sizes = "any"
        if self.sizes is not None:
            sizes = "{" + ",".join(map(str, self.sizes)) + "}"
        data_type = self.data_type.name if self.data_type else "any"
        return f"(Sizes:{sizes}, DataType:{data_type})"


def _read_stated(info: Any) -> Stated:
    """What a ValueInfoProto says of a value."""
    tensor = info.type.tensor_type
    data_type = TYPES.get(tensor.elem_type)
    if not tensor.HasField("shape"):
        return Stated(data_type)
    sizes: list[OpenSize] = []
    for dim in tensor.shape.dim:
        if dim.HasField("dim_value"):
            sizes.append(dim.dim_value)
        else:
            sizes.append(_shorten_name(dim.dim_param) or "?")
    return Stated(data_type, tuple(sizes))


@dataclass(frozen=True)
class Node:
    """A ReverseSequence node: the names of its values, and its axes as the model has them."""

    key: str
    values: str
    lengths: str
    output: str
    time_axis: int
    batch_axis: int

    def find_axes(self, rank: int, where: str) -> tuple[int, int]:
        """The time axis and the batch axis for values with this many dimensions, from 0.

        FormatError unless they are 0 and 1, in either order.
        """
        time = self.time_axis
        if time < 0:
            time += rank
        batch = self.batch_axis
        if batch < 0:
            batch += rank
        if rank < 2 or {time, batch} != {0, 1}:
            axes = f"time_axis {self.time_axis} and batch_axis {self.batch_axis}"
            found = f"{OPERATOR} has {axes} of {rank} dimensions"
            raise FormatError(found, "0 and 1, in either order", where=where)
        return time, batch


class Model:
    """A model that was parsed, with its inputs and its nodes of the operator by their names.

    FormatError for a file that is not a model, or whose graph has no node of the operator. Nodes
    inside other nodes or functions are not jobs, since ONNX Runtime returns no values from there.
    """

    def __init__(self, path: str) -> None:
        proto, identity = read_proto(path, "ModelProto", path)
        if not proto.HasField("graph"):
            raise FormatError("not an ONNX model", "a ModelProto", where=path)
        graph = proto.graph
        nodes = [_read_node(node, path) for node in graph.node if _is_ours(node)]
        if not nodes:
            raise _make_no_node_error(proto, path)
        self.path = path
        self.proto = proto
        self.identity = identity
        self.inputs = {str(info.name): _read_stated(info) for info in graph.input}
        self.constants = {str(tensor.name) for tensor in graph.initializer}
        self.nodes = _name_nodes(nodes)
        self._sparse = {str(tensor.values.name) for tensor in graph.sparse_initializer}

    def choose_node(self, key: str | None) -> Node:
        """The node with that name, or else the one with that output.

        Without a key, the only node. FormatError if there is none, or if there are several and no
        key.
        """
        names = {node.output: name for name, node in self.nodes.items()}
        if key is not None and key not in self.nodes:
            key = names.get(key, key)
        return self.nodes[choose_tensor(self.nodes, key, self.path, f"{OPERATOR} node")]

    @cached_property
    def stated(self) -> defaultdict[str, Stated]:
        """What the model states of each value of the graph, and what the package onnx infers.

        No other file is read.
        """
        from onnx import shape_inference

        proto = self.proto
        # If the package fails, what the model states is all that is known: it may be wrong, or too
        # large to be handed over as bytes.
        with contextlib.suppress(shape_inference.InferenceError, ValueError):
            proto = shape_inference.infer_shapes(proto, data_prop=True)
        graph = proto.graph
        known: defaultdict[str, Stated] = defaultdict(Stated)
        for info in (*graph.input, *graph.output, *graph.value_info):
            known[str(info.name)] = _read_stated(info)
        for tensor in graph.initializer:
            known[str(tensor.name)] = Stated(TYPES.get(tensor.data_type), tuple(tensor.dims))
        return known

    def describe_misfit(self, node: Node, batch_size: OpenSize | None) -> str:
        """What is wrong with a node's lengths, as far as they are known; "" if nothing is.

        `batch_size` is the size of the batch axis, None if it is not known.
        """
        lengths = self.stated[node.lengths]
        if lengths.data_type not in (None, DataType.INT64):
            return f"the lengths {node.lengths} are {lengths}; expected INT64"
        if lengths.sizes is None or _may_have_lengths(lengths.sizes, batch_size):
            return ""
        expected = f"{{{batch_size}}}" if isinstance(batch_size, int) else "one dimension"
        return f"the lengths {node.lengths} are {lengths}; expected {expected}"

    def describe_node(self, node: Node) -> str:
        """A node in words: its axes, and what is known of its values."""
        axes = f"time_axis {node.time_axis}, batch_axis {node.batch_axis}"
        return f"{axes}, {self.stated[node.values]}"

    def refuse_sparse(self, names: set[str]) -> None:
        """FormatError if one of these values is a sparse initializer, which has no elements."""
        sparse = sorted(names & self._sparse)
        if sparse:
            found = f"{join_names(sparse)}: stored as a sparse initializer"
            hint = "save the model again with a dense initializer, onnx.numpy_helper.from_array"
            raise FormatError(found, "a dense one", hint, self.path)


def _may_have_lengths(sizes: tuple[OpenSize, ...], batch_size: OpenSize | None) -> bool:
    """Whether a tensor of these sizes may have one length for each index of the batch axis.

    A size that is only a name may be any number.
    """
    if not sizes:
        return False
    first, *others = sizes
    if any(size != 1 for size in others):
        return False
    if isinstance(first, int) and isinstance(batch_size, int):
        return first == batch_size
    return True


def _read_node(node: Any, path: str) -> Node:
    """A NodeProto of the operator; FormatError for one that breaks ONNX's definition of it."""
    axes: dict[str, int] = {}
    for attribute in node.attribute:
        if attribute.type == _INT:
            axes[str(attribute.name)] = attribute.i
    names = [str(name) for name in (*node.input, *node.output)]
    has_names = all(names) and (len(node.input), len(node.output)) == (2, 1)
    has_axes = len(axes) == len(node.attribute) and axes.keys() <= {"time_axis", "batch_axis"}
    if not has_names or not has_axes:
        found = f"{OPERATOR} {node.name or 'without a name'} is not as ONNX has it"
        expected = "2 inputs, 1 output, and the integers time_axis and batch_axis"
        raise FormatError(found, expected, where=path)
    values, lengths, output = names
    return Node(
        str(node.name) or output,
        values,
        lengths,
        output,
        time_axis=axes.get("time_axis", 0),
        batch_axis=axes.get("batch_axis", 1),
    )


def _name_nodes(nodes: Sequence[Node]) -> dict[str, Node]:
    """The nodes by their names; those that share a name by their outputs.

    An output that is the name of another node names that node only.
    """
    counts = Counter(node.key for node in nodes)
    named: dict[str, Node] = {}
    for node in nodes:
        key = node.key
        if counts[key] > 1:
            key = node.output
            if key in counts:
                key = f"output:{key}"
        named[key] = replace(node, key=key)
    return named


def _is_ours(node: Any) -> bool:
    """Whether a NodeProto is of the operator ReverseSequence."""
    return node.op_type == OPERATOR and node.domain in ("", "ai.onnx")


def _shorten_name(name: object) -> str:
    """A name in a model, for messages."""
    return printable(str(name)[:_LONGEST_NAME])


def list_subgraphs(attribute: Any) -> list[Any]:
    """The graphs inside a node, such as the branches of If and the body of Loop."""
    graphs = list(attribute.graphs)
    if attribute.HasField("g"):
        graphs.append(attribute.g)
    return graphs


def _make_no_node_error(proto: Any, path: str) -> FormatError:
    """The error of a model whose graph has no node of the operator, with the nodes elsewhere."""
    names = list(_list_inner_nodes(proto.graph.node, []))
    for function in proto.functions:
        where = f"the function {_shorten_name(function.name)}"
        for node in function.node:
            if _is_ours(node):
                names.append(f"{_label_node(node)} in {where}")
        names += _list_inner_nodes(function.node, [], f" of {where}")
    if not names:
        exporters = "exporters of TensorFlow and Keras write such nodes"
        expected = f"a model with one in its graph: {exporters}, and those of PyTorch seldom do"
        return FormatError(f"has no {OPERATOR} node", expected, where=path)
    return FormatError(
        f"its {OPERATOR} nodes are inside others: {join_names(names)}",
        f"one in the graph itself: {RUNTIME} returns no values from inside",
        "save the inputs of the node as .npy, and use those",
        path,
    )


def _list_inner_nodes(nodes: Iterable[Any], outer: Sequence[str], owner: str = "") -> Iterator[str]:
    """The nodes of the operator in subgraphs, as "r in then_branch of If c, in body of Loop l".

    `outer` are the subgraphs around `nodes`, the innermost first: ["body of Loop l"]. `owner` is
    the end of these words, as " of the function f".
    """
    for node in nodes:
        for attribute in node.attribute:
            subgraph = f"{_shorten_name(attribute.name)} of {node.op_type} {_label_node(node)}"
            subgraphs = [subgraph, *outer]
            for graph in list_subgraphs(attribute):
                for inner in graph.node:
                    if _is_ours(inner):
                        yield f"{_label_node(inner)} in {', in '.join(subgraphs)}{owner}"
                yield from _list_inner_nodes(graph.node, subgraphs, owner)


def _label_node(node: Any) -> str:
    """A node's name, or that of its output."""
    return _shorten_name(node.name or next(iter(node.output), "?"))
