"""ONNX's tests of the operator ReverseSequence: a model of one node, and folders of tensors with its results.

ONNX's own have `model.onnx` beside `test_data_set_0` and so on, each with `input_0.pb`, `input_1.pb` and `output_0.pb`.
Source: onnx/backend/test/cmd_tools.py, and the operator's page.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from revseq_cli.formats.onnx import wire
from revseq_cli.formats.onnx.source import GRAPH, MOST_BYTES, NODE, open_tensor
from revseq_cli.formats.onnx.wire import package, parsed, text
from revseq_cli.formats.storage import positioned
from revseq_cli.ground.errors import FormatError, TensorIOError, about, listed
from revseq_cli.texts.examples import NoExampleError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from revseq_cli.formats.contract import Source

SUFFIX, _TENSOR_SUFFIX = ".onnx", ".pb"
_MODEL, _DATA_SET = f"model{SUFFIX}", "test_data_set_"
_OPERATOR, _DOMAINS = "ReverseSequence", ("", "ai.onnx")
AXES = {"time_axis": 0, "batch_axis": 1}  # the operator's attributes, and their defaults
_DESCRIBED = {NODE, 11, 12}  # the fields of a graph for nodes, inputs and outputs
_MOST_DESCRIBED = 1 << 20  # bytes of these; a model of one node has some hundred
_INT = 2  # the number of that type of an attribute


class DataSet(NamedTuple):
    """The tensors of one test, whose headers are read: `lengths` has one for each index of the batch axis."""

    name: str
    values: Source
    lengths: Source
    output: Source
    time_axis: int
    batch_axis: int


class _Node(NamedTuple):
    """The operator in a model: its attributes, and the numbers of its tensors among the model's."""

    values: int
    lengths: int
    output: int
    time_axis: int
    batch_axis: int


def is_test(path: str) -> bool:
    """Whether it is a model, or a folder of tests or of one test; of other folders, only their names are looked at."""
    folder = Path(path)
    if not os.path.isdir(path):  # noqa: PTH112 - it raises for no name
        return folder.suffix == SUFFIX
    with positioned.trying_to("read", path):
        names = os.listdir(path)  # noqa: PTH208
    return any(name == _MODEL or name.startswith(_DATA_SET) or name.endswith(_TENSOR_SUFFIX) for name in names)


def has_tests(folders: Iterable[str], names: Iterable[str]) -> bool:
    """Whether a folder of these folders and files is one of ONNX's tests."""
    return _MODEL in names and any(name.startswith(_DATA_SET) for name in folders)


def may_be_ours(folder: str) -> bool:
    """Whether the model in a folder may have the operator; the package onnx is not needed."""
    path = str(Path(folder) / _MODEL)
    with positioned.opened(path) as fd:
        return _OPERATOR.encode() in positioned.read_some(fd, min(positioned.identity(fd).size, MOST_BYTES), 0, path)


def data_sets(path: str) -> list[DataSet]:
    """Every test in a folder, the one test of a folder below a model's, or those beside a model.

    FormatError for a folder without a model or without tests; NoExampleError for a model of anything but this operator.
    """
    folder, model = _of_a_model(Path(path)) if os.path.isdir(path) else (None, Path(path))  # noqa: PTH112
    node = _node(str(model))
    return [_data_set(each, node) for each in ([folder] if folder else _beside(model))]


def _of_a_model(folder: Path) -> tuple[Path | None, Path]:
    """The model in a folder; or the folder, which is one test, and the model in the folder above."""
    inside, above = folder / _MODEL, _absolute(folder).parent / _MODEL
    if inside.exists():
        return None, inside
    if above.exists():
        return folder, above
    wanted = f"{_MODEL}, and tensors in {_DATA_SET}0 beside it"
    raise TensorIOError(f"has no {_MODEL}, nor has the folder above it", wanted, where=str(folder))


def _absolute(folder: Path) -> Path:
    """The whole path of a folder, without dots."""
    return Path(os.path.abspath(folder))  # noqa: PTH100 - Path.absolute leaves .. in it


def _beside(model: Path) -> list[Path]:
    """The folders of the tests beside a model, by their numbers."""
    found = ((re.fullmatch(f"{_DATA_SET}([0-9]{{1,9}})", each.name), each) for each in model.parent.iterdir())
    folders = sorted((int(number[1]), each) for number, each in found if number and each.is_dir())
    if not folders:
        raise TensorIOError("has no tests beside it", f"folders {_DATA_SET}0 and so on", where=str(model))
    return [each for _, each in folders]


def _data_set(folder: Path, node: _Node) -> DataSet:
    values, lengths = (open_tensor(str(folder / f"input_{number}.pb")) for number in (node.values, node.lengths))
    output = open_tensor(str(folder / f"output_{node.output}.pb"))
    return DataSet(_absolute(folder).name, values, lengths, output, node.time_axis, node.batch_axis)


def _node(path: str) -> _Node:
    """The operator of the model; FormatError if the model is anything else than this operator."""
    onnx = package(path)
    with positioned.opened(path) as fd:
        size = positioned.identity(fd).size
        if size > MOST_BYTES:
            raise FormatError(f"has {size} bytes", f"at most {MOST_BYTES}, protobuf's limit", where=path)
        graph = parsed(onnx.GraphProto, _described(fd, size, path))
    if graph is None:
        raise FormatError("is no model of ONNX", "a ModelProto", where=path)
    with about(path):
        return _only_node(graph)


def _described(fd: int, size: int, path: str) -> bytes:
    """The nodes, inputs and outputs of a model's graph, as a message; FormatError where there is none, or too much.

    The rest is not parsed: numbers take many times their bytes then.
    """
    try:
        graphs = [each for each in wire.fields(fd, size, path) if (each.number, each.wire_type) == (GRAPH, wire.LENGTH)]
        inside = (each for graph in graphs for each in wire.fields(fd, graph.end, path, graph.value))
        parts = [each for each in inside if each.number in _DESCRIBED]
    except FormatError:
        graphs = []
    if not graphs:
        raise FormatError("is no model of ONNX", "a ModelProto", where=path)
    total = sum(each.end - each.start for each in parts)
    if total > _MOST_DESCRIBED:
        raise FormatError(f"has {total} bytes of nodes, inputs and outputs", f"one node, {_OPERATOR}", where=path)
    return wire.read(fd, parts, path)


def _only_node(graph: Any) -> _Node:  # noqa: ANN401 - a GraphProto
    nodes = [(text(node.op_type, ""), text(node.domain, "")) for node in graph.node]
    if len(nodes) != 1 or nodes[0][0] != _OPERATOR or nodes[0][1] not in _DOMAINS:
        names = listed(f"{domain}::{name}" if domain else name for name, domain in nodes)
        raise NoExampleError(f"has {names or 'no node'}", f"one node, {_OPERATOR}")
    (node,) = graph.node
    axes = AXES | dict(_attributes(node))
    if set(axes.values()) != {0, 1}:
        found = " and ".join(f"{name} {axis}" for name, axis in axes.items())
        raise FormatError(f"{_OPERATOR} has {found}", "0 and 1, in either order")
    if (len(node.input), len(node.output)) != (2, 1):
        raise FormatError(f"{_OPERATOR} has {len(node.input)} inputs and {len(node.output)} outputs", "2 and 1")
    values, lengths = (_place(graph.input, name, "input") for name in node.input)
    return _Node(values, lengths, _place(graph.output, node.output[0], "output"), **axes)


def _attributes(node: Any) -> Iterator[tuple[str, int]]:  # noqa: ANN401 - a NodeProto
    for attribute in node.attribute:
        name = text(attribute.name, "")
        if name not in AXES or attribute.type != _INT:
            raise FormatError(f"{_OPERATOR} has the attribute {name[:80]}", f"integers {' and '.join(AXES)}")
        yield name, attribute.i


def _place(tensors: Any, name: str, what: str) -> int:  # noqa: ANN401 - a list of ValueInfoProto
    """The number of the model's tensor of that name, which its file has, too."""
    names = [text(each.name, "") for each in tensors]
    if text(name, "") not in names:
        found = f"the {what} {name[:80]} of {_OPERATOR} is no {what} of the graph"
        raise FormatError(found, f"one of {listed(names)}, whose values are in files")
    return names.index(name)
