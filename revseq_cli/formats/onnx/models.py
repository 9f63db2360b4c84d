"""Models of ONNX, each parsed once by the package onnx: their ReverseSequence nodes, and what runs before one of them.

A file of elements that a tensor names is found and checked here, wherever in the model the tensor is: another program
gets a model that is serialised anew, with the elements in it, or under names of ours in a folder of ours.
Source: onnx/onnx.proto, docs/IR.md and docs/ExternalData.md.

Source: onnx/onnx.proto and docs/IR.md.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

from revseq_cli.core import signals
from revseq_cli.core.errors import FormatError, about, can_be_typed
from revseq_cli.core.tensors import DataType, Symbol, TensorDesc, braced
from revseq_cli.formats import file_io
from revseq_cli.formats.contents import chosen
from revseq_cli.formats.onnx import source
from revseq_cli.formats.onnx.source import EXTERNAL, MOST_BYTES, TYPES, elements_beside, package, parsed, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import ExitStack

    from revseq_cli.formats.file_io import Identity
    from revseq_cli.formats.onnx.source import Beside


# Bits of an element, by ONNX's numbers of data types; the last ones are UINT4, INT4, FLOAT4E2M1, UINT2 and INT2.
_BITS = {number: 8 * data_type.size for number, data_type in TYPES.items()} | {21: 4, 22: 4, 23: 4, 25: 2, 26: 2}
_ELEMENTS = ("raw_data", "float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")
MOST_INSIDE = MOST_BYTES - (1 << 16)  # bytes of a model that is handed on, and of the elements in it
_DEEPEST = 100  # messages in messages, as protobuf has it
# Bytes that a model may take more once it is parsed: so many for a message in it, and so many for a number.
_MOST_MORE, _OF_A_MESSAGE, _OF_A_NUMBER = 1 << 28, 256, 8
_WHOLE = {1, 2, 3, 4}  # what protobuf calls CPPTYPE_INT32, INT64, UINT32 and UINT64


class Loaded(NamedTuple):
    """A model that was parsed, and the files with elements of its tensors, by their paths."""

    identity: Identity
    proto: Any
    others: dict[str, Identity]


def load(path: str) -> Loaded:
    """Parse a model, and find every file that it names.

    FormatError if it is none, if it would take far more memory than its bytes, and for a file outside of its folder.
    """
    kind = package(path).ModelProto
    with file_io.opened(path) as fd:
        identity = file_io.identity(fd)
        if identity.size > MOST_BYTES:
            raise FormatError(f"has {identity.size} bytes", f"at most {MOST_BYTES}, protobuf's limit", where=path)
        data = file_io.read_some(fd, identity.size, 0, path)
    try:
        _require_small(data, kind.DESCRIPTOR, path)
    except FormatError as e:
        raise FormatError(f"is not an ONNX model: it {e.found}", "a ModelProto", e.hint, path) from None
    proto = parsed(kind, data)
    if proto is None or not proto.HasField("graph"):
        raise FormatError("is not an ONNX model", "a ModelProto", where=path)
    proto.DiscardUnknownFields()
    found = (_beside(each, path) for each in _tensors(proto) if each.data_location == EXTERNAL)
    return Loaded(identity, proto, {each.file: each.identity for each in found})


class HandedOn(NamedTuple):
    """A model for another program: `data`, and the folder of ours with elements that it has no room for, or nothing."""

    data: bytes
    folder: str


def handed_on(proto: Any, path: str, others: dict[str, Identity], files: ExitStack) -> HandedOn:  # noqa: ANN401
    """A ModelProto, of parts of the model at `path`, for another program: all elements are in it, the smallest first.

    Initializers that are too large for protobuf are in a folder that `files` removes. FormatError for other tensors.
    """
    outside, folder = [], ""
    for each in _tensors(proto):
        if each.data_location == EXTERNAL:
            outside.append((_beside(each, path), each))
        each.ClearField("data_location")
        each.ClearField("external_data")
    initializers = {each.name for each in proto.graph.initializer}
    room = MOST_INSIDE - proto.ByteSize()
    for number, (beside, tensor) in enumerate(sorted(outside, key=lambda each: each[0].size)):
        room -= beside.size
        if room >= 0:
            tensor.raw_data = b"".join(bytes(piece) for piece in _pieces(beside, others))
        elif tensor.name in initializers:
            folder = folder or _new_folder(files)
            _copied(beside, others, Path(folder, str(number)))
            tensor.data_location = EXTERNAL
            for key, value in (("location", str(number)), ("offset", "0"), ("length", str(beside.size))):
                tensor.external_data.add(key=key, value=value)
        else:
            found = f"its tensors that are not initializers have more than {MOST_INSIDE} bytes in other files"
            raise FormatError(found, "large tensors as initializers", where=path)
    return HandedOn(proto.SerializeToString(), folder)


def _new_folder(files: ExitStack) -> str:
    """A folder for files of elements, which is removed also after a signal."""
    from tempfile import TemporaryDirectory  # few models need it

    files.enter_context(signals.deferred())
    with file_io.trying_to("write", "a temporary folder"):
        return files.enter_context(TemporaryDirectory(prefix="revseq-", ignore_cleanup_errors=True))


def _pieces(beside: Beside, others: dict[str, Identity]) -> Iterator[memoryview]:
    """The elements of a tensor, of the file as it was when the model was loaded."""
    with file_io.opened(beside.file, others[beside.file]) as fd:
        yield from file_io.pieces(fd, beside.offset, beside.size, beside.file)


def _copied(beside: Beside, others: dict[str, Identity], path: Path) -> None:
    with file_io.trying_to("write", path), path.open("xb") as file:
        for piece in _pieces(beside, others):
            file.write(piece)


def _beside(proto: Any, path: str) -> Beside:  # noqa: ANN401 - a TensorProto
    """Where the elements of a tensor of the model at `path` are; FormatError for a file that it may not name."""
    where = f"{path}: {text(proto.name, path)}" if proto.name else path
    if any(getattr(proto, name) for name in _ELEMENTS):
        raise FormatError("has elements, and says that they are in another file", "one of the two", where=where)
    if proto.data_type not in _BITS:
        raise FormatError(f"has elements of ONNX's data type {proto.data_type} in another file", where=where)
    bits = _BITS[proto.data_type]
    for size in proto.dims:
        if size < 0:
            raise FormatError(f"has a dimension of {size}", "sizes of at least 0", where=where)
        bits *= size
    return elements_beside(proto, -(-bits // 8), "the sizes of the tensor", path, where)


def _tensors(message: Any) -> Iterator[Any]:  # noqa: ANN401 - any message
    """Every TensorProto in a message, wherever it is: in subgraphs, functions and their default attributes, too."""
    if message.DESCRIPTOR.name == "TensorProto":
        yield message
        return
    for name, is_repeated in _inside(message.DESCRIPTOR):
        if is_repeated or message.HasField(name):
            for each in getattr(message, name) if is_repeated else (getattr(message, name),):
                yield from _tensors(each)


@cache
def _inside(descriptor: Any) -> tuple[tuple[str, bool], ...]:  # noqa: ANN401 - of a package that is an extra
    """The fields of a message that are messages, and whether there may be several."""
    return tuple((each.name, _is_repeated(each)) for each in descriptor.fields if each.message_type)


def _is_repeated(field: Any) -> bool:  # noqa: ANN401 - of a package that is an extra
    """Whether it is; older versions of protobuf say so in another way."""
    return bool(getattr(field, "is_repeated", None) or getattr(field, "label", 0) == 3)


def _require_small(data: bytes, kind: Any, path: str) -> None:  # noqa: ANN401 - of a package that is an extra
    """FormatError for bytes that take far more memory once they are parsed; nothing else is concluded of them."""
    pending, more = [(0, len(data), kind, 0)], 0
    while pending:
        start, end, descriptor, depth = pending.pop()
        if depth > _DEEPEST:
            raise FormatError(f"is more than {_DEEPEST} deep", where=path)
        for each in source.fields_in(data, start, end, path):
            field = descriptor.fields_by_number.get(each.number)
            if field is not None and field.message_type and each.wire_type == source.LENGTH:
                pending.append((each.value, each.end, field.message_type, depth + 1))
                more += _OF_A_MESSAGE
            else:
                more += _numbers(data, each, field) * _OF_A_NUMBER
        if more > _MOST_MORE:
            found = f"would take more than {_MOST_MORE} bytes of memory besides its own: elements are not in raw_data"
            raise FormatError(found, where=path)


def _numbers(data: bytes, each: source.Field, field: Any) -> int:  # noqa: ANN401 - of a package that is an extra
    """How many numbers a field has: one, or those of a packed field, whose varints take more bytes when parsed."""
    is_packed = field is not None and field.cpp_type in _WHOLE and each.wire_type == source.LENGTH
    return source.count_in(data, each) if is_packed else 1


OPERATOR, _DOMAINS = "ReverseSequence", ("", "ai.onnx")
AXES = {"time_axis": 0, "batch_axis": 1}  # the operator's attributes, and their defaults
_INT, _OF_TENSOR = 2, 4  # the numbers of these types of an attribute
_SMALL = 1 << 10  # bytes of a tensor from whose values sizes are inferred
_INT64, _BOOL = 7, 9  # and of these data types


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
    """A model as it was parsed. `others` are the files that have elements of its tensors, by their paths."""

    path: str
    identity: Identity
    proto: Any
    others: dict[str, Identity]

    @classmethod
    def open(cls, path: str) -> Model:
        """Parse a model, or find it while it is in use; FormatError if it is none, or for a file outside of its folder.

        So its nodes can be opened one after another, and each is a job as if it were alone.
        """
        model = _in_use.get(path)
        if model is None or not model.is_current():
            model = _in_use[path] = cls(path, *load(path))
        return model

    def is_current(self) -> bool:
        """Whether its file is as it was."""
        with file_io.opened(self.path) as fd:
            return file_io.identity(fd) == self.identity

    @cached_property
    def nodes(self) -> dict[str, Any]:
        """The nodes of the operator in the graph itself, by their keys: a node's name, or that of its output.

        A node may have no name, or one that others have, too. No other has its output.
        """
        ours = [*_ours(self.proto.graph.node)]
        counts = Counter(text(name, self.path) for node in ours for name in {node.name, _made_by(node)})
        own = {name for name, times in counts.items() if name and times == 1 and can_be_typed(name)}
        return {node.name if node.name in own else _made_by(node): node for node in ours}

    def node(self, key: str | None, *, any_axes: bool = False) -> Node:
        """The node of that name, or with that output; without a key, the only one.

        With `any_axes`, its axes may be others than ONNX has, as in TensorFlow.

        FormatError if there is none, or it is not as the operator has it; SeveralError where no key says which one.
        """
        import difflib  # only errors need it

        key = {_made_by(node): name for name, node in self.nodes.items()}.get(key or "", key)
        if not self.nodes or key not in (None, *self.nodes):
            self._refuse_inner(key)
        near = difflib.get_close_matches(key, self.nodes, 10) if key and key not in self.nodes else ()
        key = chosen(dict.fromkeys([*near, *self.nodes]), key, self.path, f"{OPERATOR} node")
        with about(f"{self.path}::{key}" if key else self.path):
            return _checked(self.nodes[key], any_axes=any_axes)

    @cached_property
    def inner(self) -> list[tuple[str, Any]]:
        """The nodes of the operator in subgraphs and functions, and where they are."""
        functions = ((f"function {each.name}", node) for each in self.proto.functions for node in _ours(each.node))
        return [*_inner(self.proto.graph.node), *functions]

    def _refuse_inner(self, key: str | None) -> None:
        """FormatError for the node of that key in a subgraph or a function; without a key, for any there."""
        for place, node in self.inner:
            if key in (None, node.name, _made_by(node)):
                axes = " and ".join(f"{name} {axis}" for name, axis in _axes(node).items())
                found = f"{OPERATOR} {node.name or _made_by(node)}, with {axes}, is inside the {place}"
                wanted = "a node of the graph itself: ONNX Runtime returns no values from inside"
                raise FormatError(found, wanted, where=self.path)

    def told(self) -> dict[str, str]:
        """Every node of the operator, by its key, in words: its axes, the sizes and data type that it reverses."""
        told = {key: self._told(node) for key, node in self.nodes.items()}
        inside = ((node.name or _made_by(node), place, node) for place, node in self.inner)
        return told | {key: f"{_axes_told(node)}, inside the {place}" for key, place, node in inside}

    def _told(self, node: Any) -> str:  # noqa: ANN401 - a NodeProto
        names = (*node.input[:1], *node.output[:1])  # which have the same sizes and data type
        known = max((self._known[name] for name in names if name in self._known), key=_how_much, default=None)
        return f"{_axes_told(node)}, {known or Stated(None, None)}"

    @cached_property
    def _known(self) -> dict[str, Stated]:
        """What is known of the values of the graph itself: what it states, and what follows from that.

        The package onnx infers it from all but large tensors; it reads no file, and computes no values.
        """
        from onnx import shape_inference

        whole, graph = self.proto, self.proto.graph
        made = type(whole)(ir_version=whole.ir_version)
        made.opset_import.extend(whole.opset_import)
        made.functions.extend(whole.functions)
        for kept, some in (
            (made.graph.node, graph.node), (made.graph.input, graph.input), (made.graph.output, graph.output),
            (made.graph.value_info, graph.value_info),
        ):  # fmt: skip
            kept.extend(some)
        for each in graph.initializer:
            if each.ByteSize() <= _SMALL:
                made.graph.initializer.append(each)
            else:
                tensor = made.graph.input.add(name=each.name).type.tensor_type
                tensor.elem_type = each.data_type
                tensor.shape.dim.extend(tensor.shape.Dimension(dim_value=size) for size in each.dims)
        with contextlib.suppress(shape_inference.InferenceError):  # else what is stated is all that is known
            made = shape_inference.infer_shapes(made, data_prop=True)
        values = (*made.graph.input, *made.graph.output, *made.graph.value_info)
        return {each.name: _stated(each.type.tensor_type, self.path) for each in values}

    @cached_property
    def inputs(self) -> dict[str, Stated]:
        """The inputs of the model that have no value of their own, in its order, and what it states of them."""
        graph = self.proto.graph
        own = {each.name for each in graph.initializer} | {each.values.name for each in graph.sparse_initializer}
        inputs = (each for each in graph.input if each.name not in own)
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

    def cut(self, *names: str, files: ExitStack) -> HandedOn:
        """The model with these values as its outputs, and with no more than they are computed from.

        It is serialised anew from what was parsed; elements that it has no room for are in a folder of `files`.
        """
        needed, whole = self.before(*names), self.proto
        made = type(whole)(ir_version=whole.ir_version)
        made.opset_import.extend(whole.opset_import)  # a constructor would refuse texts that are not UTF-8
        made.functions.extend(whole.functions)
        graph, parts = made.graph, whole.graph
        graph.name = "cut"
        graph.node.extend(each for each in parts.node if not needed.isdisjoint(each.output))
        for kept, some in (
            (graph.input, parts.input), (graph.initializer, parts.initializer), (graph.value_info, parts.value_info),
        ):  # fmt: skip
            kept.extend(each for each in some if each.name in needed)
        graph.sparse_initializer.extend(each for each in parts.sparse_initializer if each.values.name in needed)
        for name in names:
            graph.output.add(name=name)
        _write_lines_of_length_0(made)
        return handed_on(made, self.path, self.others, files)


_in_use: WeakValueDictionary[str, Model] = WeakValueDictionary()  # by their paths


def _write_lines_of_length_0(model: Any) -> None:  # noqa: ANN401 - a ModelProto
    """Let every node of the operator get lengths of 1 instead of 0, which change nothing either, wherever it is.

    ONNX Runtime up to 1.27 leaves lines of length 0 unwritten. Where there are no elements, it takes no length but 0.
    """
    lists = [model.graph.node, *(each.node for each in model.functions)]
    for nodes in lists:
        lists += [graph.node for each in nodes for graph in _subgraphs(each)]
    names = {str(name) for nodes in lists for node in nodes for name in (*node.input, *node.output)}
    prefix = "revseq"
    while any(name.startswith(prefix) for name in names):
        prefix += "_"
    new = (f"{prefix}{number}" for number in count())
    for nodes in reversed(lists):  # those inside first, since what is put back is a copy
        if any(_ours(nodes)):
            changed = [part for node in nodes for part in (*_lengths_for(node, new), node)]
            del nodes[:]
            nodes.extend(changed)


def _lengths_for(node: Any, new: Iterator[str]) -> Iterator[Any]:  # noqa: ANN401 - a NodeProto
    """Nodes with new names that give a node of the operator its lengths, which are n + (n = 0 and x has elements)."""
    if not any(_ours([node])) or len(node.input) != 2:
        return
    zero, is_0, size, has_any, both, one, lengths = islice(new, 7)
    constant = type(node)(op_type="Constant", output=[zero])
    tensor = constant.attribute.add(name="value", type=_OF_TENSOR).t
    tensor.data_type, tensor.raw_data = _INT64, bytes(8)
    yield constant
    x, n = node.input
    for operator, inputs, output, to in (
        ("Equal", [n, zero], is_0, None), ("Size", [x], size, None), ("Cast", [size], has_any, _BOOL),
        ("And", [is_0, has_any], both, None), ("Cast", [both], one, _INT64), ("Add", [n, one], lengths, None),
    ):  # fmt: skip
        made = type(node)(op_type=operator, input=inputs, output=[output])
        if to:
            made.attribute.add(name="to", type=_INT, i=to)
        yield made
    node.input[1] = lengths


def _ours(nodes: Iterable[Any]) -> Iterator[Any]:
    """Those of the operator."""
    return (node for node in nodes if (node.op_type, node.domain) in ((OPERATOR, each) for each in _DOMAINS))


def _made_by(node: Any) -> str:  # noqa: ANN401 - a NodeProto
    """The name of its first output."""
    return next(iter(node.output), "")


def _subgraphs(node: Any) -> Iterator[Any]:  # noqa: ANN401 - a NodeProto
    return (graph for each in node.attribute for graph in (*([each.g] * each.HasField("g")), *each.graphs))


def _axes_told(node: Any) -> str:  # noqa: ANN401 - a NodeProto
    try:
        return ", ".join(f"{name} {axis}" for name, axis in _axes(node).items())
    except FormatError as e:
        return e.found


def _how_much(stated: Stated) -> int:
    """How much is known of a value."""
    return (stated.data_type is not None) + (stated.sizes is not None)


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


def _checked(node: Any, *, any_axes: bool) -> Node:  # noqa: ANN401 - a NodeProto
    """The node; FormatError if it is not as the operator has it, or as TensorFlow has its own with `any_axes`."""
    axes = _axes(node)
    time, batch = axes.values()
    is_of_tensorflow = time != batch and min(time, batch) >= 0
    if {time, batch} != {0, 1} and not (any_axes and is_of_tensorflow):
        found = " and ".join(f"{name} {axis}" for name, axis in axes.items())
        hint = f"to take it as TensorFlow's: add --like tensorflow --axis {time}"
        raise FormatError(f"{OPERATOR} has {found}", "0 and 1, in either order", hint if is_of_tensorflow else "")
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
