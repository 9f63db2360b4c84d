"""Models of ONNX: their nodes of the operator ReverseSequence, and what has to run before one of them.

Of a model, names are parsed. Elements of tensors and numbers in attributes stay in the file, since numbers that are
parsed take many times their bytes. Source: onnx/onnx.proto and docs/IR.md.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

from revseq_cli.formats.contents import chosen
from revseq_cli.formats.onnx import wire
from revseq_cli.formats.onnx.source import EXTERNAL, GRAPH, MOST_BYTES, NODE, TYPES, file_of_elements
from revseq_cli.formats.onnx.wire import package, parsed, text
from revseq_cli.formats.storage import positioned
from revseq_cli.ground.errors import FormatError, about, can_be_typed
from revseq_cli.ground.tensors import DataType, Symbol, TensorDesc, braced

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from revseq_cli.formats.storage.positioned import Identity

OPERATOR, _DOMAINS = "ReverseSequence", ("", "ai.onnx")
AXES = {"time_axis": 0, "batch_axis": 1}  # the operator's attributes, and their defaults
_INT = 2  # the number of that type of an attribute
_INITIALIZER, _INPUT, _OUTPUT, _TENSOR = 5, 11, 12, "tensor"
# What is parsed of a message: the fields that are kept, and those with messages of which parts are kept.
_PARTS: dict[str, tuple[set[int], dict[int, str]]] = {
    "model": (set(), {GRAPH: "graph", 25: "function"}),
    "function": ({1}, {7: "node"}),
    "graph": ({_INPUT, _OUTPUT}, {NODE: "node", _INITIALIZER: _TENSOR, 15: "sparse"}),
    "node": ({1, 2, 3, 4, 7}, {5: "attribute"}),
    "attribute": ({1, 3, 20}, {5: _TENSOR, 6: "graph", 10: _TENSOR, 11: "graph", 22: "sparse", 23: "sparse"}),
    "sparse": (set(), {1: _TENSOR, 2: _TENSOR}),
    _TENSOR: ({8, 13, 14}, {}),
}
_MOST_PARSED = 1 << 26  # bytes of these parts; a model of ten thousand nodes has some 3 MB
_DEEPEST = 100  # messages in messages, as protobuf has it


class Node(NamedTuple):
    """A node of the operator: the names of its tensors, and its attributes."""

    values: str
    lengths: str
    output: str
    time_axis: int
    batch_axis: int


class Stated(NamedTuple):
    """What a model states of a tensor: its data type, None for none of ours, and its sizes, None where it has none."""

    data_type: DataType | None
    sizes: tuple[int, ...] | None

    def __str__(self) -> str:
        sizes = "any" if self.sizes is None else braced(self.sizes)
        return f"(Sizes:{sizes}, DataType:{self.data_type.name if self.data_type else 'any'})"

    def allows(self, desc: TensorDesc) -> bool:
        """Whether a tensor is as stated."""
        sizes = desc.sizes if self.sizes is None else self.sizes
        is_type = self.data_type in (None, desc.data_type)
        return is_type and len(sizes) == len(desc.sizes) and desc.sizes == tuple(map(known, sizes, desc.sizes))


def known(size: int, other: int) -> int:
    """The size, or the other one where only a Symbol stands for it."""
    return other if isinstance(size, Symbol) else size


@dataclass(frozen=True)
class Model:
    """A model, of which `proto` has the names. `others` are the files that have elements of its tensors."""

    path: str
    identity: Identity
    proto: Any
    others: tuple[Identity, ...]

    @classmethod
    def open(cls, path: str) -> Model:
        """Read the names in a model; FormatError if it is none, or names a file outside of its folder."""
        onnx = package(path)
        tensors: list[bytes] = []
        with positioned.opened(path) as fd:
            identity = positioned.identity(fd)
            if identity.size > MOST_BYTES:
                raise FormatError(f"has {identity.size} bytes", f"at most {MOST_BYTES}, protobuf's limit", where=path)
            try:
                whole = wire.Field(0, wire.LENGTH, 0, 0, identity.size)
                proto = parsed(onnx.ModelProto, _names(fd, whole, "model", path, tensors))
            except FormatError as e:
                raise FormatError(f"is no model of ONNX: it {e.found}", "a ModelProto", e.hint, path) from None
        described = [parsed(onnx.TensorProto, each) for each in tensors]
        if proto is None or None in described or not proto.HasField("graph"):
            raise FormatError("is no model of ONNX", "a ModelProto", where=path)
        others = (file_of_elements(each, path) for each in described if each.data_location == EXTERNAL)
        return cls(path, identity, proto, tuple(others))

    @cached_property
    def nodes(self) -> dict[str, Any]:
        """The nodes of the operator in the graph itself, by their keys: a node's name, or that of its output.

        A node may have no name, or one that others have, too. No other has its output.
        """
        ours = [*_ours(self.proto.graph.node)]
        counts = Counter(text(name, self.path) for node in ours for name in {node.name, _made_by(node)})
        own = {name for name, count in counts.items() if name and count == 1 and can_be_typed(name)}
        return {node.name if node.name in own else _made_by(node): node for node in ours}

    def node(self, key: str | None) -> Node:
        """The node of that name, or with that output; without a key, the only one.

        FormatError if there is none, or it is not as the operator has it; SeveralError where no key says which one.
        """
        import difflib  # only errors need it

        key = {_made_by(node): name for name, node in self.nodes.items()}.get(key or "", key)
        if not self.nodes or key not in (None, *self.nodes):
            self._refuse_inner(key)
        near = difflib.get_close_matches(key, self.nodes, 10) if key and key not in self.nodes else ()
        key = chosen(dict.fromkeys([*near, *self.nodes]), key, self.path, f"{OPERATOR} node")
        with about(f"{self.path}::{key}" if key else self.path):
            return _checked(self.nodes[key])

    def _refuse_inner(self, key: str | None) -> None:
        """FormatError for the node of that key in a subgraph or a function; without a key, for any there."""
        functions = ((f"function {each.name}", node) for each in self.proto.functions for node in _ours(each.node))
        for place, node in (*_inner(self.proto.graph.node), *functions):
            if key in (None, node.name, _made_by(node)):
                axes = " and ".join(f"{name} {axis}" for name, axis in _axes(node).items())
                found = f"{OPERATOR} {node.name or _made_by(node)}, with {axes}, is inside of the {place}"
                wanted = "a node of the graph itself: ONNX Runtime gives no values from inside"
                raise FormatError(found, wanted, where=self.path)

    @cached_property
    def inputs(self) -> dict[str, Stated]:
        """The inputs of the model that have no value of their own, in its order, and what it states of them."""
        own = {each.name for each in self.proto.graph.initializer}
        inputs = (each for each in self.proto.graph.input if each.name not in own)
        return {text(each.name, self.path): _stated(each.type.tensor_type, self.path) for each in inputs}

    def before(self, *names: str) -> set[str]:
        """These values, and all values that they are computed from."""
        makers = {output: node for node in self.proto.graph.node for output in node.output if output}
        pending, found = [*names], set[str]()
        while pending:
            if (name := pending.pop()) not in found:
                found.add(name)
                pending += _read_by(makers[name]) if name in makers else ()
        return found

    def cut(self, *names: str) -> bytes:
        """The model with these values as its outputs, and with no more than they are computed from."""
        needed, graph = self.before(*names), self.proto.graph
        parts = {NODE: graph.node, _INPUT: graph.input, _INITIALIZER: graph.initializer, _OUTPUT: ()}
        is_kept = {number: iter([_is_one_of(needed, each) for each in some]) for number, some in parts.items()}
        with positioned.opened(self.path, self.identity) as fd:
            fields = [*wire.fields(fd, self.identity.size, self.path)]
            graphs = [each for each in fields if (each.number, each.wire_type) == (GRAPH, wire.LENGTH)]
            inside = (each for one in graphs for each in wire.fields(fd, one.end, self.path, one.value))
            kept = [each for each in inside if next(is_kept.get(each.number, repeat(True)), False)]
            rest = wire.read(fd, (each for each in fields if each not in graphs), self.path)
            inner = [
                wire.read(fd, kept, self.path),
                *(wire.message((_OUTPUT, wire.message((1, each)))) for each in names),
            ]
        return b"".join([rest, wire.head(GRAPH, sum(map(len, inner))), *inner])


def _names(fd: int, message: wire.Field, kind: str, path: str, tensors: list[bytes], depth: int = 0) -> bytes:
    """The parts of a message that are parsed; those of each tensor go to `tensors`. FormatError for too much."""
    kept, inner = _PARTS[kind]
    made = bytearray()
    for each in wire.fields(fd, message.end, path, message.value):
        is_kept = each.number in kept
        if depth > _DEEPEST or len(made) + is_kept * (each.end - each.start) > _MOST_PARSED:
            found = f"has more than {_MOST_PARSED} bytes of names, or is more than {_DEEPEST} deep"
            raise FormatError(found, where=path)
        if is_kept:
            made += wire.read(fd, [each], path)
        elif each.number in inner and each.wire_type == wire.LENGTH:
            part = _names(fd, each, inner[each.number], path, tensors, depth + 1)
            made += wire.head(each.number, len(part)) + part
    if kind == _TENSOR:
        tensors.append(bytes(made))
    return bytes(made)


def _ours(nodes: Iterable[Any]) -> Iterator[Any]:
    """Those of the operator."""
    return (node for node in nodes if (node.op_type, node.domain) in ((OPERATOR, each) for each in _DOMAINS))


def _is_one_of(names: set[str], part: Any) -> bool:  # noqa: ANN401 - a NodeProto, or what has a name
    """Whether it is one of these values, or a node that has one as an output."""
    return not names.isdisjoint(getattr(part, "output", [part.name]))


def _made_by(node: Any) -> str:  # noqa: ANN401 - a NodeProto
    """The name of its first output."""
    return next(iter(node.output), "")


def _subgraphs(node: Any) -> Iterator[Any]:  # noqa: ANN401 - a NodeProto
    return (graph for each in node.attribute for graph in (*([each.g] * each.HasField("g")), *each.graphs))


def _inner(nodes: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """The nodes of the operator inside of these nodes, and where they are."""
    for node in nodes:
        for graph in _subgraphs(node):
            yield from ((f"{node.op_type} {node.name or _made_by(node)}", each) for each in _ours(graph.node))
            yield from _inner(graph.node)


def _read_by(node: Any) -> Iterator[str]:  # noqa: ANN401 - a NodeProto
    """The values that a node reads, also inside of it; of the others there, none is outside.

    An input that is left out has no name.
    """
    yield from filter(None, node.input)
    for graph in _subgraphs(node):
        yield from (each.name for each in graph.output)
        for each in graph.node:
            yield from _read_by(each)


def _checked(node: Any) -> Node:  # noqa: ANN401 - a NodeProto
    """The node; FormatError if it is not as the operator has it."""
    axes = _axes(node)
    if set(axes.values()) != {0, 1}:
        found = " and ".join(f"{name} {axis}" for name, axis in axes.items())
        raise FormatError(f"{OPERATOR} has {found}", "0 and 1, in either order")
    if (len(node.input), len(node.output)) != (2, 1) or not all((*node.input, *node.output)):
        raise FormatError(f"{OPERATOR} has {len(node.input)} inputs and {len(node.output)} outputs", "2 and 1")
    values, lengths, output = (text(each, "") for each in (*node.input, *node.output))
    return Node(values, lengths, output, **axes)


def _axes(node: Any) -> dict[str, Any]:  # noqa: ANN401 - a NodeProto
    axes = dict(AXES)
    for each in node.attribute:
        name = text(each.name, "")
        if name not in AXES or each.type != _INT:
            raise FormatError(f"{OPERATOR} has the attribute {name[:80]}", f"integers {' and '.join(AXES)}")
        axes[name] = each.i
    return axes


def _stated(tensor: Any, path: str) -> Stated:  # noqa: ANN401 - a TypeProto.Tensor
    """Data type and sizes, as far as there are any."""
    sizes = (each.dim_value or Symbol(text(each.dim_param, path)) for each in tensor.shape.dim)
    return Stated(TYPES.get(tensor.elem_type), tuple(sizes) if tensor.HasField("shape") else None)
