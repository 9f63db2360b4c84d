"""What is in the graphs of an ONNX model, and inside of their nodes.

A node may have subgraphs as attributes, such as the branches of If and the body of Loop.
"""

# ruff: noqa: ANN401 - the messages of the package onnx have no types

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from revseq_cli.core.errors import FormatError, join_names, printable

OPERATOR = "ReverseSequence"
RUNTIME = "ONNX Runtime"
_LONGEST_NAME = 40  # characters that are printed


def is_ours(node: Any) -> bool:
    """Whether a NodeProto is of the operator ReverseSequence."""
    return node.op_type == OPERATOR and node.domain in ("", "ai.onnx")


def shorten_name(name: object) -> str:
    """A name in a model, for messages."""
    return printable(str(name)[:_LONGEST_NAME])


def list_inputs(node: Any) -> Iterator[str]:
    """The values that a node reads, also inside of it; an input that is left out has no name."""
    yield from filter(None, node.input)
    for attribute in node.attribute:
        for graph in _list_subgraphs(attribute):
            for output in graph.output:
                yield output.name
            for inner in graph.node:
                yield from list_inputs(inner)


def _list_subgraphs(attribute: Any) -> list[Any]:
    graphs = list(attribute.graphs)
    if attribute.HasField("g"):
        graphs.append(attribute.g)
    return graphs


def walk_tensors(message: Any) -> Iterator[Any]:
    """Every TensorProto in a message: in subgraphs, functions and their attributes, too."""
    if message.DESCRIPTOR.name == "TensorProto":
        yield message
        return
    for field, value in message.ListFields():
        if not field.message_type:
            continue
        is_single = hasattr(value, "DESCRIPTOR")
        parts = [value] if is_single else value
        for part in parts:
            yield from walk_tensors(part)


def make_no_node_error(proto: Any, path: str) -> FormatError:
    """The error of a model whose graph has no node of the operator, with the nodes elsewhere."""
    names = list(_list_inner_nodes(proto.graph.node, ""))
    for function in proto.functions:
        where = f"the function {shorten_name(function.name)}"
        for node in function.node:
            if is_ours(node):
                names.append(f"{_name_node(node)} in {where}")
        names += _list_inner_nodes(function.node, f" of {where}")
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


def _list_inner_nodes(nodes: Iterable[Any], where: str) -> Iterator[str]:
    """The nodes of the operator in subgraphs, in words that say where they are.

    `where` says so of the outer nodes.
    """
    for node in nodes:
        for attribute in node.attribute:
            inside = f"{shorten_name(attribute.name)} of {node.op_type} {_name_node(node)}{where}"
            for graph in _list_subgraphs(attribute):
                for inner in graph.node:
                    if is_ours(inner):
                        yield f"{_name_node(inner)} in {inside}"
                yield from _list_inner_nodes(graph.node, f", in {inside}")


def _name_node(node: Any) -> str:
    """A node's name, or that of its output."""
    return shorten_name(node.name or next(iter(node.output), "?"))
