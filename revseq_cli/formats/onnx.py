"""ONNX: tensors in .pb files, and models, of which each ReverseSequence node of the graph is a job.

The package onnx, an extra, parses a file whole and infers the sizes of a model. What lies before a
node is run by ONNX Runtime, on bytes that are serialised anew from what was parsed: with elements
of other files in them, and no library of operators. Source: onnx/onnx.proto, docs/IR.md and
docs/ExternalData.md.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from revseq_cli.core import platform
from revseq_cli.core.dtypes import dtype_of, native, require_sizes
from revseq_cli.core.errors import (
    FormatError,
    RevseqError,
    UsageError,
    join_names,
    nearest,
    printable,
)
from revseq_cli.core.tensors import DataType
from revseq_cli.files import open_file
from revseq_cli.files.base import Identity
from revseq_cli.files.new import NewFile
from revseq_cli.formats import references
from revseq_cli.formats.contract import FileSink, Location, Original, Source, Storage, TextTypes
from revseq_cli.formats.memory import MemorySource, WholeSink
from revseq_cli.formats.pipes import refuse_shared
from revseq_cli.formats.references import Reference
from revseq_cli.formats.refusals import choose_tensor, damaged_file, import_extra
from revseq_cli.formats.table import looks_like

_MOST_BYTES = (1 << 31) - 1  # of a protobuf message
_LARGEST = _MOST_BYTES - (1 << 16)  # of the elements in one that is made here
# ONNX's numbers of the data types that this program has.
TYPES = {
    1: DataType.FLOAT32, 2: DataType.UINT8, 3: DataType.INT8, 4: DataType.UINT16,
    5: DataType.INT16, 6: DataType.INT32, 7: DataType.INT64,
    9: DataType.BOOL, 10: DataType.FLOAT16, 11: DataType.FLOAT64, 12: DataType.UINT32,
    13: DataType.UINT64, 14: DataType.COMPLEX64, 15: DataType.COMPLEX128, 16: DataType.BFLOAT16,
    17: DataType.FLOAT8_E4M3FN, 18: DataType.FLOAT8_E4M3FNUZ,
    19: DataType.FLOAT8_E5M2, 20: DataType.FLOAT8_E5M2FNUZ,
    24: DataType.FLOAT8_E8M0FNU,
}  # fmt: skip
_NUMBERS = {data_type: number for number, data_type in TYPES.items()}
OPERATOR, RUNTIME = "ReverseSequence", "ONNX Runtime"
_INT, _EXTERNAL = 2, 1  # the number of this type of an attribute, and of a data_location
_WRITES_ALL = (
    1,
    28,
)  # the first version of ONNX Runtime whose CPU provider writes lines of length 0
_QUIET = 4  # ONNX Runtime prints only what ends the process


def _read_proto(path: str, message: str, name: str) -> tuple[Any, Identity]:
    """A file as a message of that class, such as TensorProto, and the state in which it was read.

    FormatError if none.

    Fields that the package does not know are left out.
    """
    onnx = import_extra("onnx", "a protobuf message of ONNX", name)
    from google.protobuf.message import DecodeError  # onnx depends on it

    with open_file(path, name=name) as fd:
        identity = fd.identity
        if identity.size > _MOST_BYTES:
            found = f"has {identity.size} bytes"
            raise FormatError(
                found,
                f"at most {_MOST_BYTES}, protobuf's limit",
                "keep large tensors in .npy",
                name,
            )
        data = fd.read_all()
    try:
        proto = getattr(onnx, message).FromString(data)
    except DecodeError:
        seems, hint = looks_like(data[:64])
        found = f"no {message} of ONNX, or damaged: it looks like {seems}"
        raise FormatError(found, f"a whole {message}", hint, name) from None
    proto.DiscardUnknownFields()
    return proto, identity


def open_source(location: Location, types: TextTypes) -> Source:  # noqa: ARG001 - the file names it
    """The tensor of a file."""
    return open_tensor(location.path, location.key)


def open_tensor(path: str, key: str | None = None, name: str = "") -> Source:
    """The tensor of a file; `name` is for messages.

    FormatError for damage, or if `key` is another tensor's.
    """
    name = name or path
    proto, identity = _read_proto(path, "TensorProto", name)
    if proto.data_type not in TYPES:
        found = (
            f"its data type is ONNX's number {proto.data_type}"
            if proto.data_type
            else "no tensor of ONNX"
        )
        raise FormatError(found, "a TensorProto of numbers of whole bytes", where=name)
    if proto.data_location:
        hint = "load and save it with the Python package onnx"
        raise FormatError(
            "its elements are in another file", "a tensor with its elements", hint, name
        )
    key = choose_tensor([str(proto.name)], key, name)
    require_sizes(tuple(proto.dims), name)
    try:
        values = _values_of(proto)
    except (ValueError, OverflowError, TypeError) as e:
        found = f"damaged: its elements are not those of its sizes and its data type: {e}"
        raise damaged_file(found, name) from None
    source = MemorySource(name, values, Storage("onnx", {"tensor": key} if key else {}), identity)
    source.path, source.key = path, key
    return source


def _values_of(proto: Any) -> NDArray[Any]:  # noqa: ANN401
    """The elements of a tensor; ValueError where they are too few or too many.

    Those of small floats are words.
    """
    from onnx import numpy_helper

    data_type = TYPES[proto.data_type]
    dtype = dtype_of(data_type)
    if proto.raw_data:
        flat = np.frombuffer(proto.raw_data, dtype.newbyteorder("<"))
    elif data_type.kind == "minifloat":  # older versions of the package make FLOAT32 of them
        flat = np.array(proto.int32_data, np.int64).astype(f"u{data_type.size}").view(dtype)
    elif data_type.kind == "complex":  # onnx 1.17 cannot read them
        parts = proto.float_data or proto.double_data
        flat = np.array(parts, f"f{data_type.size // 2}").view(dtype)
    else:
        flat = numpy_helper.to_array(proto).reshape(-1)
    return flat.reshape(tuple(proto.dims))


def write_to(stream: BinaryIO, source: Source) -> None:
    """Write the whole tensor into a pipe."""
    stream.write(_join_message(_header(source, source.key, "the output"), source.read()))


def create_sink(
    file: NewFile,
    template: Source,
    key: str,
    original: Original | None = None,  # noqa: ARG001 - a file holds one tensor
) -> FileSink:
    """The sink of a new file of one tensor, with or without a name."""
    message = partial(_join_message, _header(template, key, file.name))
    return WholeSink(file, template, message, lambda path: open_tensor(path, name=file.name))


def _header(template: Source, key: str, where: str) -> Any:  # noqa: ANN401
    """A TensorProto that lacks its elements; FormatError for one that cannot be written."""
    onnx, desc = import_extra("onnx", "a protobuf message of ONNX", where), template.desc
    if desc.total_bytes > _LARGEST:
        found = f"would be a protobuf message of more than {desc.total_bytes} bytes"
        raise FormatError(
            found,
            f"at most {_MOST_BYTES}",
            "to write a format without that limit, type out.npy",
            where,
        )
    try:
        return onnx.TensorProto(
            dims=desc.sizes, data_type=_NUMBERS[desc.data_type], name=key or None
        )
    except UnicodeEncodeError:
        raise FormatError(
            f"{key!r} is not a tensor name", "a name such as x", where=where
        ) from None


def _join_message(proto: Any, values: NDArray[Any]) -> bytes:  # noqa: ANN401
    proto.raw_data = np.ascontiguousarray(values, values.dtype.newbyteorder("<")).tobytes()
    message: bytes = proto.SerializeToString(deterministic=True)
    return message


# Models.


class Stated(NamedTuple):
    """What is known of a value: its data type, and its sizes, of which some may be names.

    None for what is not.
    """

    data_type: DataType | None = None
    sizes: tuple[int | str, ...] | None = None

    @classmethod
    def of(cls, info: Any) -> Stated:  # noqa: ANN401 - a ValueInfoProto
        """What a model says of a value."""
        kind = info.type.tensor_type
        sizes = tuple(
            dim.dim_value
            if dim.HasField("dim_value")
            else printable(str(dim.dim_param)[:40]) or "?"
            for dim in kind.shape.dim
        )
        return cls(TYPES.get(kind.elem_type), sizes if kind.HasField("shape") else None)

    def __str__(self) -> str:
        sizes = "any" if self.sizes is None else "{" + ",".join(map(str, self.sizes)) + "}"
        return f"(Sizes:{sizes}, DataType:{self.data_type.name if self.data_type else 'any'})"


class Node(NamedTuple):
    """A ReverseSequence node: the names of its values, and its axes as the model has them."""

    key: str
    values: str
    lengths: str
    output: str
    time_axis: int
    batch_axis: int

    def axes(self, rank: int, where: str) -> tuple[int, int]:
        """The axes of values of that dimension count, 0 and 1 in either order.

        FormatError for others.
        """
        time, batch = (
            axis + rank if axis < 0 else axis for axis in (self.time_axis, self.batch_axis)
        )
        if rank < 2 or {time, batch} != {0, 1}:
            axes = f"time_axis {self.time_axis} and batch_axis {self.batch_axis}"
            found = f"{OPERATOR} has {axes} of {rank} dimensions"
            raise FormatError(found, "0 and 1, in either order", where=where)
        return time, batch


class Model:
    """A model that was parsed.

    FormatError for a file that is none, and for one without a node of the operator.

    Nodes inside of others and of functions are no jobs: ONNX Runtime gives no values from there.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.proto, self.identity = _read_proto(path, "ModelProto", path)
        if not self.proto.HasField("graph"):
            raise FormatError("not an ONNX model", "a ModelProto", where=path)
        graph = self.proto.graph
        self.inputs = {str(info.name): Stated.of(info) for info in graph.input}
        self._constants = {str(each.name) for each in graph.initializer}
        nodes = [self._node(node) for node in graph.node if _is_ours(node)]
        if not nodes:
            raise _no_node(self.proto, path)
        self._sparse = {str(each.values.name) for each in graph.sparse_initializer}
        self.nodes = _name_nodes(nodes)

    def _node(self, node: Any) -> Node:  # noqa: ANN401 - a NodeProto
        axes = {
            str(attribute.name): attribute.i
            for attribute in node.attribute
            if attribute.type == _INT
        }
        names = tuple(map(str, (*node.input, *node.output)))
        is_whole = (len(node.input), len(node.output), len(axes)) == (
            2,
            1,
            len(node.attribute),
        ) and all(names)
        if not is_whole or not axes.keys() <= {"time_axis", "batch_axis"}:
            found = f"{OPERATOR} {node.name or 'without a name'} is not as ONNX has it"
            raise FormatError(
                found,
                "2 inputs, 1 output, and the integers time_axis and batch_axis",
                where=self.path,
            )
        values, lengths, output = names
        key = str(node.name) or output
        return Node(
            key, values, lengths, output, axes.get("time_axis", 0), axes.get("batch_axis", 1)
        )

    def node(self, key: str | None) -> Node:
        """The node with that name, or else output.

        Without a key, the only one; or a FormatError.
        """
        outputs = {node.output: name for name, node in self.nodes.items()}
        if key not in self.nodes:
            key = outputs.get(key or "", key)
        return self.nodes[choose_tensor(self.nodes, key, self.path, f"{OPERATOR} node")]

    @cached_property
    def stated(self) -> defaultdict[str, Stated]:
        """What is known of each value of the graph.

        This is what the model states, and what the package onnx infers.

        It reads no other file.
        """
        from onnx import shape_inference

        made = self.proto
        # Else what is stated is all that is known; a model of 2 GiB cannot be handed to the package
        # as bytes.
        with contextlib.suppress(shape_inference.InferenceError, ValueError):
            made = shape_inference.infer_shapes(made, data_prop=True)
        known: defaultdict[str, Stated] = defaultdict(Stated)
        for info in (*made.graph.input, *made.graph.output, *made.graph.value_info):
            known[str(info.name)] = Stated.of(info)
        for weight in made.graph.initializer:
            known[str(weight.name)] = Stated(TYPES.get(weight.data_type), tuple(weight.dims))
        return known

    def misfit(self, node: Node, batch: int | str | None) -> str | None:
        """What is wrong with the sizes of a node's lengths.

        As far as they are known, for a batch axis of this size.
        """
        lengths = self.stated[node.lengths]
        if lengths.data_type not in (None, DataType.INT64):
            return f"the lengths {node.lengths} are {lengths}; expected INT64"
        if lengths.sizes is None:
            return None
        first, *others = lengths.sizes or (None,)
        is_one_each = first is not None and all(size == 1 for size in others)
        is_open = str in (type(batch), type(first)) or batch is None
        if is_one_each and (is_open or batch == first):
            return None
        expected = f"{{{batch}}}" if isinstance(batch, int) else "one dimension"
        return f"the lengths {node.lengths} are {lengths}; expected {expected}"

    def describe_node(self, node: Node) -> str:
        """A node in words: its axes, and what is known of its values."""
        return (
            f"time_axis {node.time_axis}, batch_axis {node.batch_axis}, {self.stated[node.values]}"
        )

    def find_needed(self, names: Iterable[str], fed: Iterable[str]) -> tuple[set[str], list[str]]:
        """These values and all that they are computed from.

        And the inputs among them that have no value at all.
        """
        makers = {
            output: node for node in self.proto.graph.node for output in node.output if output
        }
        pending, found = [*names], set[str]()
        while pending:
            name = pending.pop()
            if name not in found:
                found.add(name)
                pending += _read_by(makers[name]) if name in makers and name not in fed else ()
        return found, [name for name in self.inputs if name in found - self._constants - {*fed}]

    def refuse_sparse(self, names: set[str]) -> None:
        """FormatError where one of these values is a sparse initializer, which has no elements."""
        sparse = sorted(names & self._sparse)
        if sparse:
            found = f"{join_names(sparse)}: stored as a sparse initializer"
            hint = "save the model again with a dense initializer, onnx.numpy_helper.from_array"
            raise FormatError(found, "a dense one", hint, self.path)

    def cut_out(  # a ModelProto
        self, names: Sequence[str], fed: Iterable[str], files: list[Identity]
    ) -> Any:  # noqa: ANN401
        """The model with these values as its outputs and no more than they need.

        All its elements are in it.

        `files` get the states of the other files that had some.
        """
        needed, _ = self.find_needed(names, fed)
        whole, graph = self.proto, self.proto.graph
        made = type(whole)(ir_version=max(whole.ir_version, 4), opset_import=whole.opset_import)
        made.functions.extend(whole.functions)
        made.graph.name = "cut"
        made.graph.node.extend(node for node in graph.node if not needed.isdisjoint(node.output))
        given = (needed - self._constants) | {*fed}
        made.graph.input.extend(each for each in graph.input if each.name in given)
        made.graph.initializer.extend(
            each for each in graph.initializer if each.name in needed - {*fed}
        )
        for name in names:
            made.graph.output.add(name=name)
        room = _LARGEST - made.ByteSize()
        for tensor in _walk_tensors(made):
            if tensor.data_location == _EXTERNAL:
                room -= self._load_elements(tensor, room, files)
        return made

    def _load_elements(self, tensor: Any, room: int, files: list[Identity]) -> int:  # noqa: ANN401
        """Take the elements of a tensor from the file that it names.

        The file is in the model's folder. Returns the number of bytes.
        """
        where = f"{self.path}: {tensor.name}" if tensor.name else self.path
        entries = {str(entry.key): str(entry.value) for entry in tensor.external_data}
        location, folder = (
            entries.get("location", "").partition("\0")[0],
            Path(self.path).parent,
        )  # as C takes it
        real = os.path.realpath(folder / location)
        if not Path(real).is_relative_to(os.path.realpath(folder)):
            found, expected = (
                f"its elements are in the file {location[:80]!r}",
                "a path in the folder of the model",
            )
            raise FormatError(found, expected, "a model may not refer to other files", where)
        with open_file(real) as fd:
            identity = fd.identity
            try:
                start = int(entries.get("offset") or 0)
                count = int(entries.get("length") or max(0, identity.size - start))
            except ValueError:
                raise FormatError(
                    "the offset or length of its elements is not a number", "integers", where=where
                ) from None
            if not 0 <= start <= start + count <= identity.size:
                file = f"{printable(location)}, which has {identity.size}"
                found = f"has {count} bytes at {start} of {file}"
                raise FormatError(found, "bytes of the file", "fetch it again", where)
            if count > room:
                found = f"what the node needs has more than {_LARGEST} bytes of elements"
                raise FormatError(found, "a model that protobuf can hold", where=self.path)
            tensor.raw_data = fd.read(count, start)
        tensor.ClearField("data_location")
        tensor.ClearField("external_data")
        files.append(identity)
        return count


class NodeTensor(MemorySource):
    """A tensor that a model computes.

    `files` are all that it comes from, which no output may overwrite.
    """

    files: list[Identity] = []  # noqa: RUF012 - each has its own


class NodeJob:
    """A node as a job: its values and lengths are given by `feeds`, or computed of them.

    `feeds` has NAME=FILE for inputs of the model. `lengths` names those that are given
    instead of the model's, for messages. UsageError for what is no input, and for inputs without a
    value.
    """

    def __init__(
        self, reference: Reference, feeds: Sequence[str], lengths: Reference | None
    ) -> None:
        self.model = model = Model(reference.path)
        self.node = node = model.node(reference.key)
        named = {
            name: Reference.input(text, None, name)
            for name, text in self._split_feeds(feeds).items()
        }
        refuse_shared([*named.items(), *([("LENGTHS", lengths)] if lengths else [])])
        names = [node.values] if lengths else [node.values, node.lengths]
        needed, missing = model.find_needed(names, named)
        model.refuse_sparse(needed - named.keys())
        if missing:
            options = " ".join(f"--feed {platform.quote(f'{name}=FILE')}" for name in missing)
            expected = f"a tensor for each: {self._list_options(missing)}"
            raise UsageError(
                f"no values are given for {join_names(missing)}",
                expected,
                f"add {options}",
                model.path,
            )
        self._tensors: dict[str, Source] = {}
        for name in needed & named.keys():
            types = TextTypes(model.inputs[name].data_type, DataType.FLOAT32)
            self._tensors[name] = references.open_source(named[name], types)
        if computed := [name for name in names if name not in self._tensors]:
            self._tensors |= self._compute_tensors(computed)
        self._axes = node.axes(len(self._tensors[node.values].sizes), model.path)

    def open_tensor(self, role: str, types: TextTypes) -> Source:  # noqa: ARG002 - the model has them
        """InputTensor, which are the values of the node, or its lengths."""
        return self._tensors[self.node.values if role == "InputTensor" else self.node.lengths]

    def find_axis(self) -> int:
        """The axis that is reversed."""
        return self._axes[0]

    def find_batch_axis(self) -> int:
        """The axis of which each index has a length."""
        return self._axes[1]

    def _list_options(self, names: Iterable[str]) -> str:
        return join_names(f"{name} {self.model.inputs[name]}" for name in names)

    def _split_feeds(self, feeds: Sequence[str]) -> dict[str, str]:
        """What is given for each input of the model."""
        inputs, named = self.model.inputs, dict[str, str]()
        expected = (
            f"once NAME=FILE for each of {self._list_options(inputs)}"
            if inputs
            else "a model that has inputs"
        )
        for text in feeds:
            # The longest name that fits: an input may be called x=1.
            names = [name for name in inputs if text.startswith(f"{name}=")]
            name = max(names, key=len, default=text.partition("=")[0])
            file = text[len(name) + 1 :]
            if name not in inputs or not file:
                near = nearest(name, inputs)
                hint = ""
                if near:
                    meant = platform.quote(f"{near}={file or 'FILE'}")
                    hint = f"did you mean: --feed {meant}"
                raise UsageError(
                    f"{text[:80]!r} matches no input of the model", expected, hint, self.model.path
                )
            if name in named:
                raise UsageError(
                    f"the input {name} is given twice", expected, where=self.model.path
                )
            named[name] = file
        return named

    def _compute_tensors(self, names: list[str]) -> dict[str, Source]:
        """These values, computed by ONNX Runtime."""
        model, runtime = self.model, package()
        files = [model.identity]
        cut = model.cut_out(names, self._tensors, files)
        data = cut.SerializeToString()
        if OPERATOR.encode() in data:
            require_written(runtime, model.path, "depends on another ReverseSequence")
        with saying(model.path, FormatError):
            options = runtime.SessionOptions()
            options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
            session = runtime.InferenceSession(
                data, options, providers=["CPUExecutionProvider"], enable_fallback=0
            )
            sources = {each.name: self._tensors[each.name] for each in session.get_inputs()}
            arrays = {
                name: np.asarray(native(source.read()), order="C")
                for name, source in sources.items()
            }
            kinds = {each.name: each.type for each in session.get_outputs()}
            values = dict(zip(kinds, session.run(None, arrays), strict=True))
        for source in sources.values():
            source.recheck()
            files += source.files
        tensors: dict[str, Source] = {}
        for name in names:
            _require_tensor(name, values[name], kinds[name], model.path)
            tensors[name] = tensor = NodeTensor(
                f"{model.path}: {name}", values[name], Storage("onnx", {}), files[0]
            )
            tensor.path, tensor.files = model.path, files
        return tensors


def _is_ours(node: Any) -> bool:  # noqa: ANN401 - a NodeProto
    return node.op_type == OPERATOR and node.domain in ("", "ai.onnx")


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
        named[key] = node._replace(key=key)
    return named


def _no_node(proto: Any, path: str) -> FormatError:  # noqa: ANN401 - a ModelProto
    """The error of a model whose graph has no node of the operator, with the nodes elsewhere."""
    places = [*_inner_nodes(proto.graph.node, "")]
    for function in proto.functions:
        where = f"the function {printable(str(function.name)[:40])}"
        for node in function.node:
            if _is_ours(node):
                places.append(f"{_name_node(node)} in {where}")
        places += _inner_nodes(function.node, f" of {where}")
    if not places:
        seldom = (
            "exporters of TensorFlow and Keras write such nodes, and those of PyTorch seldom do"
        )
        expected = f"a model with one in its graph: {seldom}"
        return FormatError(f"has no {OPERATOR} node", expected, where=path)
    found = f"its {OPERATOR} nodes are inside others: {join_names(places)}"
    expected = f"one in the graph itself: {RUNTIME} returns no values from inside"
    hint = "save the inputs of the node as .npy, and use those"
    return FormatError(found, expected, hint, path)


def _inner_nodes(nodes: Iterable[Any], where: str) -> Iterator[str]:
    """The nodes of the operator in branches and bodies of nodes, with their places in words."""
    for node in nodes:
        for attribute in node.attribute:
            graphs = list(attribute.graphs)
            if attribute.HasField("g"):
                graphs.append(attribute.g)
            inside = f" of {node.op_type} {_name_node(node)}{where}"
            for graph in graphs:
                place = f"{printable(str(attribute.name)[:40])}{inside}"
                yield from (
                    f"{_name_node(each)} in {place}" for each in graph.node if _is_ours(each)
                )
                yield from _inner_nodes(graph.node, f", in {place}")


def _name_node(node: Any) -> str:  # noqa: ANN401 - a NodeProto
    """A node's name, or that of its output."""
    name = node.name or next(iter(node.output), "?")
    return printable(str(name)[:40])


def _require_tensor(name: str, values: Any, kind: str, where: str) -> None:  # noqa: ANN401
    """Refuse what is not a tensor of a type that we know.

    Or has another data type than ONNX Runtime says.
    """
    words = {"float": "FLOAT32", "double": "FLOAT64"}
    word = kind[7:-1] if kind.startswith("tensor(") else kind
    data_type = DataType.__members__.get(words.get(word, word.upper()))
    found = getattr(values, "dtype", None)  # a sparse tensor has none
    if data_type is None or found != dtype_of(data_type):
        problem = f"the data type of {name} is {word[:80]}" + (
            f", returned as {found}" if data_type else ""
        )
        raise FormatError(
            problem, "a given tensor, or computed FLOAT16 to FLOAT64, integers or BOOL", where=where
        )


def package(name: str = "onnxruntime") -> ModuleType:
    """ONNX Runtime, which prints nothing; FormatError where it is missing or damaged."""
    try:
        runtime = import_extra("onnxruntime", "not installed", RUNTIME, name)
    except ImportError as e:  # as on a Windows without the libraries of Visual C++
        raise FormatError(
            f"cannot be loaded: {e}", "a package that Python can load", where=RUNTIME
        ) from None
    runtime.set_default_logger_severity(_QUIET)
    return runtime


@contextlib.contextmanager
def saying(where: str, error: type[RevseqError]) -> Iterator[None]:
    """What ONNX Runtime says where it fails, as that error.

    Its own errors have no class in common.
    """
    try:
        yield
    except RevseqError:
        raise
    except Exception as e:  # noqa: BLE001
        raise error(f"{RUNTIME} says {' '.join(str(e).split())[:400]}", where=where) from None


def require_written(runtime: ModuleType, where: str, found: str) -> None:
    """FormatError for a version that does not write sequences of length 0.

    See microsoft/onnxruntime#28490.
    """
    if tuple(map(int, runtime.__version__.split(".")[:2])) < _WRITES_ALL:
        found = f"{found}, and {RUNTIME} {runtime.__version__} leaves lines of length 0 unwritten"
        expected = f"{RUNTIME} {'.'.join(map(str, _WRITES_ALL))} or newer"
        raise FormatError(found, expected, platform.pip("install --upgrade onnxruntime"), where)


def _read_by(node: Any) -> Iterator[str]:  # noqa: ANN401 - a NodeProto
    """The values that a node reads, also inside of it; an input that is left out has no name."""
    yield from filter(None, node.input)
    for attribute in node.attribute:
        for graph in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
            yield from (each.name for each in graph.output)
            for each in graph.node:
                yield from _read_by(each)


def _walk_tensors(message: Any) -> Iterator[Any]:  # noqa: ANN401 - any message
    """Every TensorProto in a message, wherever it is.

    In subgraphs, functions and their default attributes, too.
    """
    if message.DESCRIPTOR.name == "TensorProto":
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type:
            for part in (value,) if hasattr(value, "DESCRIPTOR") else value:
                yield from _walk_tensors(part)
