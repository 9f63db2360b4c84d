"""Models of ONNX: their ReverseSequence nodes, what is known of them, and what one of them gets.

The package onnx parses a model and infers its sizes. What lies before a node is run by ONNX Runtime, on bytes that are
serialised anew from what was parsed: with elements of other files in them, and no library of operators.
Source: onnx/onnx.proto, docs/IR.md and docs/ExternalData.md.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.core import platform
from revseq_cli.core.dtypes import dtype_of, native
from revseq_cli.core.errors import FormatError, RevseqError, UsageError, can_be_typed, listed, nearest, printable
from revseq_cli.core.tensors import MOST_DIMENSIONS, DataType, TensorDesc
from revseq_cli.formats import file_io
from revseq_cli.formats.contents import chosen
from revseq_cli.formats.contract import Source, Storage, TextTypes, extra
from revseq_cli.formats.in_memory import MemorySource
from revseq_cli.formats.onnx import MOST_BYTES, TYPES, parsed, values_of
from revseq_cli.formats.references import Reference, open_source, refuse_shared

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from types import ModuleType

    from revseq_cli.formats.file_io import Identity

OPERATOR, RUNTIME = "ReverseSequence", "ONNX Runtime"
_INTEGERS = [number for number, data_type in TYPES.items() if data_type.kind == "int"]
_INT, _EXTERNAL = 2, 1  # the number of this type of an attribute, and of a data_location
_LARGEST = MOST_BYTES - (1 << 16)  # bytes of a model that is handed on
_WRITES_ALL = (1, 28)  # the first version of ONNX Runtime whose CPU provider writes lines of length 0
_FUNCTION = "the function "
_QUIET = 4  # ONNX Runtime prints only what ends the process


class Stated(NamedTuple):
    """What is known of a value: its data type, and its sizes, of which some may be names; None for what is not."""

    data_type: DataType | None
    sizes: tuple[int | str, ...] | None

    def __str__(self) -> str:
        sizes = "any" if self.sizes is None else "{" + ",".join(map(str, self.sizes)) + "}"
        return f"(Sizes:{sizes}, DataType:{self.data_type.name if self.data_type else 'any'})"

    def allows(self, desc: TensorDesc) -> bool:
        """Whether a tensor may be such a value."""
        sizes = desc.sizes if self.sizes is None else self.sizes
        fits = [isinstance(size, str) or size == other for size, other in zip(sizes, desc.sizes, strict=False)]
        return self.data_type in (None, desc.data_type) and len(sizes) == len(desc.sizes) and all(fits)


class Node(NamedTuple):
    """A ReverseSequence node: the names of its values, its axes as the model has them, and where it is inside of."""

    key: str
    values: str
    lengths: str
    output: str
    time_axis: int
    batch_axis: int
    inside: str = ""

    def ranks(self) -> list[int]:
        """The dimension counts of values that can have its axes, of which some may be negative."""
        both = self.time_axis, self.batch_axis
        return [r for r in range(2, MOST_DIMENSIONS + 1) if {axis + r if axis < 0 else axis for axis in both} == {0, 1}]

    def axes(self, rank: int, where: str) -> tuple[int, int]:
        """The axes of values of that dimension count, 0 and 1 in either order; FormatError for others."""
        time, batch = (axis + rank if axis < 0 else axis for axis in (self.time_axis, self.batch_axis))
        if rank < 2 or {time, batch} != {0, 1}:
            found = f"{OPERATOR} has time_axis {self.time_axis} and batch_axis {self.batch_axis} of {rank} dimensions"
            raise FormatError(found, "0 and 1, in either order", where=where)
        return time, batch


class Model:
    """A model that was parsed; FormatError for a file that is none."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.proto, self.identity = parsed(path, "ModelProto")
        if not self.proto.HasField("graph"):
            raise FormatError("is not an ONNX model", "a ModelProto", where=path)

    @cached_property
    def nodes(self) -> dict[str, Node]:
        """Every node of the operator by its key: its name, or that of its output where others have the name.

        FormatError for a node that is not as the operator has it.
        """
        functions = ((f"{_FUNCTION}{each.name}", node) for each in self.proto.functions for node in each.node)
        every = [*(("", node) for node in self.proto.graph.node), *_inner(self.proto.graph.node), *functions]
        ours = [(place, node) for place, node in every if _is_ours(node)]
        pairs = {(str(node.name), str(next(iter(node.output), ""))) for _, node in ours}
        counts = Counter(name for pair in pairs for name in {*pair})
        nodes: dict[str, Node] = {}
        for place, node in ours:
            if (len(node.input), len(node.output)) != (2, 1) or not all((*node.input, *node.output)):
                counted = [sum(map(bool, names)) for names in (node.input, node.output)]
                found = f"{OPERATOR} {node.name or 'without a name'} has {counted[0]} inputs and {counted[1]} outputs"
                raise FormatError(found, "2 and 1", where=self.path)
            names = [str(name) for name in (*node.input, *node.output)]
            own = str(node.name)
            key = own if own and counts[own] == 1 and can_be_typed(own) else names[2]
            nodes[key] = Node(key, names[0], names[1], names[2], *self._axes(node), place)
        return nodes

    def _axes(self, node: Any) -> tuple[int, int]:  # noqa: ANN401 - a NodeProto
        """The time axis and the batch axis."""
        axes = {"time_axis": 0, "batch_axis": 1}
        for attribute in node.attribute:
            if attribute.name not in axes or attribute.type != _INT:
                found = f"{OPERATOR} has the attribute {str(attribute.name)[:80]}"
                raise FormatError(found, f"integers {' and '.join(axes)}", where=self.path)
            axes[attribute.name] = attribute.i
        return axes["time_axis"], axes["batch_axis"]

    def node(self, key: str | None) -> Node:
        """The node of the graph with that name or output; without a key, the only one.

        FormatError if there is none, or it is inside of another; SeveralError where no key says which one.
        """
        if not self.nodes:
            seldom = "exporters of TensorFlow and Keras write such nodes, and those of PyTorch seldom do"
            raise FormatError(f"has no {OPERATOR} node", f"a model with one: {seldom}", where=self.path)
        outputs = {node.output: node.key for node in self.nodes.values()}
        own = [name for name, node in self.nodes.items() if not node.inside]
        key = outputs.get(key or "", key)
        if key is None and not own:
            key = next(iter(self.nodes))
        node = self.nodes[chosen(own if key is None else self.nodes, key, self.path, f"{OPERATOR} node")]
        if node.inside:
            found = f"{OPERATOR} {node.key} is inside {node.inside}"
            raise FormatError(
                found, f"a node of the graph itself: {RUNTIME} gives no values from inside", where=self.path
            )
        return node

    @cached_property
    def known(self) -> dict[str, Stated]:
        """What is known of each value of the graph: what the model states, and what the package onnx infers of it.

        It reads no other file.
        """
        from onnx import shape_inference

        made = self.proto
        # Else what is stated is all that is known; a model of 2 GiB cannot be handed to the package as bytes.
        with contextlib.suppress(shape_inference.InferenceError, ValueError):
            made = shape_inference.infer_shapes(made, data_prop=True)
        infos = (*made.graph.input, *made.graph.output, *made.graph.value_info)
        stated = {str(info.name): _stated(info.type.tensor_type) for info in infos}
        weights = made.graph.initializer
        return stated | {str(each.name): Stated(TYPES.get(each.data_type), tuple(each.dims)) for each in weights}

    def known_of(self, node: Node) -> Stated:
        """What is known of the values of a node, which are as its output; inside of a function, nothing is."""
        if node.inside.startswith(_FUNCTION):
            return Stated(None, None)
        both = [self.known.get(name, Stated(None, None)) for name in (node.values, node.output)]
        sizes = both[1].sizes if both[0].sizes is None else both[0].sizes
        return Stated(both[0].data_type or both[1].data_type, sizes)

    def misfit(self, node: Node, batch: int | str | None) -> str | None:
        """What is wrong with a node's lengths, as far as they are known, for a batch axis of this size."""
        if node.inside.startswith(_FUNCTION):
            return None
        if fault := self._fault_of_lengths(node.lengths):
            return fault
        lengths = self.known.get(node.lengths)
        if lengths is None or lengths.sizes is None:
            return None
        is_known = isinstance(batch, int) and all(isinstance(size, int) for size in lengths.sizes)
        if len(lengths.sizes) == 1 and (not is_known or lengths.sizes[0] == batch):
            return None
        wanted = f"{{{batch}}}" if isinstance(batch, int) else "one dimension"
        return f"the lengths {node.lengths} are {lengths}; wanted: {wanted}"

    def _fault_of_lengths(self, name: str) -> str | None:
        """What is wrong with the values of lengths that are constants in the model's own file."""
        try:
            values = self._constant(name)
        except (ValueError, OverflowError, TypeError) as e:
            return f"the lengths {name} are damaged: {e}"
        if values is None or not (values < 0).any():
            return None
        place = np.argwhere(values < 0)[0].tolist()
        return f"the lengths {name} are constant, and {values[tuple(place)]} at {place} is negative; wanted: 0 or more"

    def _constant(self, name: str) -> Any:  # noqa: ANN401 - an array
        """The integers of a constant; None for another value, or one in another file. ValueError for damage."""
        graph = self.proto.graph
        tensors = [each for each in graph.initializer if each.name == name and name not in self.inputs]
        for node in graph.node:
            if node.op_type == "Constant" and node.domain in ("", "ai.onnx") and name in node.output:
                for attribute in node.attribute:
                    if attribute.name == "value_ints":
                        return np.array(attribute.ints, np.int64)
                    tensors += [attribute.t] if attribute.name == "value" else []
        if not tensors or tensors[0].data_location == _EXTERNAL or tensors[0].data_type not in _INTEGERS:
            return None
        return values_of(tensors[0])

    def told(self, node: Node) -> str:
        """A node in words: its axes, and what is known of its values."""
        inside = f", inside {node.inside}" if node.inside else ""
        return f"time_axis {node.time_axis}, batch_axis {node.batch_axis}, {self.known_of(node)}{inside}"

    @cached_property
    def inputs(self) -> dict[str, Stated]:
        """The inputs of the model in its order, and what it states of them."""
        return {str(each.name): _stated(each.type.tensor_type) for each in self.proto.graph.input}

    @cached_property
    def _constants(self) -> set[str]:
        graph = self.proto.graph
        return {each.name for each in graph.initializer} | {each.values.name for each in graph.sparse_initializer}

    def needed(self, names: Iterable[str], fed: Iterable[str]) -> tuple[set[str], list[str]]:
        """These values and all that they are computed from; and the inputs among them that have no value at all."""
        makers = {output: node for node in self.proto.graph.node for output in node.output if output}
        pending, found = [*names], set[str]()
        while pending:
            name = pending.pop()
            if name not in found:
                found.add(name)
                pending += _read_by(makers[name]) if name in makers and name not in fed else ()
        return found, [name for name in self.inputs if name in found - self._constants - {*fed}]

    def cut(self, names: Sequence[str], fed: Iterable[str], files: list[Identity]) -> Any:  # noqa: ANN401
        """The model with these values as its outputs and no more than they need; all its elements are in it.

        `files` get the states of the other files that had some.
        """
        from onnx import helper

        needed, _ = self.needed(names, fed)
        whole, graph = self.proto, self.proto.graph
        opsets = [*whole.opset_import, *(opset for function in whole.functions for opset in function.opset_import)]
        # An older ONNX Runtime refuses a newer version of the format, whatever is in the model.
        lowest = max(helper.find_min_ir_version_for(opsets, True), 8 if whole.functions else 4)
        made = type(whole)(ir_version=min(lowest, max(whole.ir_version, 4)))
        made.opset_import.extend(whole.opset_import)
        made.functions.extend(whole.functions)
        made.graph.name = "cut"
        made.graph.node.extend(node for node in graph.node if not needed.isdisjoint(node.output))
        made.graph.input.extend(
            each for each in graph.input if each.name in needed - self._constants or each.name in fed
        )
        made.graph.initializer.extend(each for each in graph.initializer if each.name in needed - {*fed})
        made.graph.sparse_initializer.extend(
            each for each in graph.sparse_initializer if each.values.name in needed - {*fed}
        )
        for name in names:
            made.graph.output.add(name=name)
        room = _LARGEST - made.ByteSize()
        for tensor in _tensors(made):
            if tensor.data_location == _EXTERNAL:
                room -= self._load(tensor, room, files)
        return made

    def _load(self, tensor: Any, room: int, files: list[Identity]) -> int:  # noqa: ANN401 - a TensorProto
        """Take the elements of a tensor from the file that it names, which is in the model's folder; their bytes."""
        where = f"{self.path}: {tensor.name}" if tensor.name else self.path
        entries = {str(entry.key): str(entry.value) for entry in tensor.external_data}
        location, folder = entries.get("location", ""), Path(self.path).parent
        plain = location and not set(location) & set("\\:\0") and ".." not in PurePosixPath(location).parts
        real = Path(os.path.realpath(folder / location))
        if not plain or location.startswith("/") or not real.is_relative_to(os.path.realpath(folder)):
            found, wanted = f"its elements are in the file {location[:80]!r}", "a path in the folder of the model"
            raise FormatError(found, wanted, "a model may not refer to other files", where)
        numbers = [entries.get(key) or "0" for key in ("offset", "length")]
        if not all(number.isdecimal() and len(number) < 20 for number in numbers):
            raise FormatError(f"has the numbers {listed(numbers)} of its file", "decimal digits", where=where)
        offset, length = map(int, numbers)
        with file_io.opened(str(real)) as fd:
            identity = file_io.identity(fd)
            length = length or max(0, identity.size - offset)
            if offset + length > identity.size:
                found = f"has {length} bytes at {offset} of {printable(location)}, which has {identity.size}"
                raise FormatError(found, "bytes of the file", "fetch it again", where)
            if length > room:
                found = f"what lies before the node has more than {_LARGEST} bytes of elements"
                raise FormatError(found, "a model that protobuf can hold", where=self.path)
            tensor.raw_data = file_io.read_some(fd, length, offset, str(real))
        tensor.ClearField("data_location")
        tensor.ClearField("external_data")
        files.append(identity)
        return length


class NodeTensor(MemorySource):
    """A tensor that a model computes; `files` are all that it comes from, which no output may overwrite."""

    origins: Sequence[Identity] = ()

    @property
    def files(self) -> list[Identity]:
        """The model, the files with its elements, and those of its inputs."""
        return [*self.origins]


class NodeJob:
    """A node as a job: its values and lengths are given by `feeds`, or computed of them.

    `feeds` has NAME=FILE for inputs of the model. With `lengths`, these are given beside the model, for messages.
    UsageError for what is no input, and for inputs without a value.
    """

    def __init__(self, reference: Reference, feeds: Sequence[str], lengths: Reference | None) -> None:
        self.model = model = Model(reference.path)
        self.node = node = model.node(reference.key)
        named = self._named(feeds)
        references = {name: Reference.input(text, None, name) for name, text in named.items()}
        refuse_shared([*references.items(), *([("LENGTHS", lengths)] if lengths else [])])
        wanted = [node.values] if lengths else [node.values, node.lengths]
        needed, missing = model.needed(wanted, named)
        if missing:
            found, options = f"no values are given for {listed(missing)}", self._options(missing)
            raise UsageError(found, f"a tensor for each: {self._told(missing)}", f"add {options}", model.path)
        self.feeds = {name: self._opened(each, name) for name, each in references.items() if name in needed}
        self._computed = self._run([name for name in wanted if name not in self.feeds])
        values: Source = self._computed.get(node.values) or self.feeds[node.values]
        self._axes = node.axes(len(values.sizes), model.path)

    def tensor(self, role: str, types: TextTypes) -> Source:  # noqa: ARG002 - the model names their types
        """InputTensor, which are the values of the node, or its lengths."""
        name = self.node.values if role == "InputTensor" else self.node.lengths
        source: Source = self._computed.get(name) or self.feeds[name]
        return source

    def axis(self) -> int:
        """The axis that is reversed."""
        return self._axes[0]

    def batch_axis(self) -> int:
        """The axis of which each index has a length."""
        return self._axes[1]

    def _options(self, names: Iterable[str]) -> str:
        return " ".join(f"--feed {platform.quoted(f'{name}=FILE')}" for name in names)

    def _told(self, names: Iterable[str]) -> str:
        return listed(f"{name} {self.model.inputs[name]}" for name in names)

    def _named(self, feeds: Sequence[str]) -> dict[str, str]:
        """What is given for each input of the model."""
        inputs, named = self.model.inputs, dict[str, str]()
        wanted = f"once NAME=FILE for each of {self._told(inputs)}" if inputs else "a model that has inputs"
        for text in feeds:
            name = max((each for each in inputs if text.startswith(f"{each}=")), key=len, default="")
            if not name:
                typed, _, file = text.partition("=")
                near = nearest(typed, inputs)
                meant = f"{near}={file or 'FILE'}"
                hint = f"try --feed {platform.quoted(meant)}" if near else ""
                raise UsageError(f"{text[:80]!r} matches no input of the model", wanted, hint, self.model.path)
            if name in named:
                raise UsageError(f"the input {name} is given twice", wanted, where=self.model.path)
            named[name] = text.removeprefix(f"{name}=")
        return named

    def _opened(self, reference: Reference, name: str) -> Source:
        stated = self.model.inputs[name]
        source = open_source(reference, TextTypes(stated.data_type, DataType.FLOAT32))
        if not stated.allows(source.desc):
            raise FormatError(f"is {source.desc}", f"{name} {stated}, as the model states it", where=source.name)
        return source

    def _run(self, names: list[str]) -> dict[str, Source]:
        """These values, computed by ONNX Runtime."""
        model = self.model
        if not names:
            return {}
        runtime = package()
        others: list[Identity] = []
        cut = model.cut(names, self.feeds, others)
        is_old = version_of(runtime) < _WRITES_ALL
        before = [node for node in cut.graph.node if _is_ours(node)] if is_old else []
        counts = sorted({node.input[1] for node in before} - {*names})
        for name in counts:
            cut.graph.output.add(name=name)
        with saying(model.path, FormatError):
            options = runtime.SessionOptions()
            options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
            data, provider = cut.SerializeToString(), "CPUExecutionProvider"
            session = runtime.InferenceSession(data, options, providers=[provider], enable_fallback=0)
            given = {each.name: self.feeds[each.name] for each in session.get_inputs()}
            arrays = {name: np.asarray(native(source.read()), order="C") for name, source in given.items()}
            kinds = {each.name: each.type for each in session.get_outputs()}
            values = dict(zip(kinds, session.run(None, arrays), strict=True))
        if any((values[name] == 0).any() for name in counts) or (is_old and _has_inside(cut)):
            require_all_written(runtime, model.path)
        files = [model.identity, *others, *(file for source in given.values() for file in source.files)]
        notes = tuple(note for source in given.values() for note in source.notes)
        for source in given.values():
            source.recheck()
        return {name: self._source(name, values[name], kinds[name], files, notes) for name in names}

    def _source(self, name: str, values: Any, kind: str, files: list[Identity], notes: tuple[str, ...]) -> Source:  # noqa: ANN401
        """A value as a tensor; FormatError where it is none, or has another data type than ONNX Runtime says."""
        words = {"float": "FLOAT32", "double": "FLOAT64"}
        word = kind[7:-1] if kind.startswith("tensor(") else kind
        data_type = DataType.__members__.get(words.get(word, word.upper()))
        found = getattr(values, "dtype", None)  # a sparse tensor has none
        if data_type is None or found != dtype_of(data_type):
            told = f"the data type of {name} is {word[:80]}" + (f", returned as {found}" if data_type else "")
            raise FormatError(
                told, "a given tensor, or computed FLOAT16 to FLOAT64, integers or BOOL", where=self.model.path
            )
        source = NodeTensor(f"{self.model.path}: {name}", values, Storage("onnx", {}), self.model.identity)
        source.path, source.origins, source.notes = self.model.path, files, notes
        return source


def package(name: str = "onnxruntime") -> ModuleType:
    """ONNX Runtime, which prints nothing; FormatError where it is missing or damaged."""
    try:
        runtime = extra("onnxruntime", "is not installed", RUNTIME, name)
    except ImportError as e:  # as on a Windows without the libraries of Visual C++
        raise FormatError(f"cannot be loaded: {e}", "a package that Python can load", where=RUNTIME) from None
    runtime.set_default_logger_severity(_QUIET)
    return runtime


def version_of(runtime: ModuleType) -> tuple[int, ...]:
    """The first two numbers of its version."""
    return tuple(map(int, runtime.__version__.split(".")[:2]))


@contextlib.contextmanager
def saying(where: str, error: type[RevseqError]) -> Iterator[None]:
    """What ONNX Runtime says where it fails, as that error; its own errors have no class in common."""
    try:
        yield
    except RevseqError:
        raise
    except Exception as e:  # noqa: BLE001
        raise error(f"{RUNTIME} says {' '.join(str(e).split())[:400]}", where=where) from None


def require_all_written(runtime: ModuleType, where: str) -> None:
    """FormatError for a version that is wrong where a length is 0: microsoft/onnxruntime#28490."""
    if version_of(runtime) < _WRITES_ALL:
        found = f"has a length of 0, and {RUNTIME} {runtime.__version__} leaves such lines unwritten"
        upgrade = platform.pip("install --upgrade onnxruntime")
        raise FormatError(found, f"{RUNTIME} {'.'.join(map(str, _WRITES_ALL))} or newer", upgrade, where)


def _is_ours(node: Any) -> bool:  # noqa: ANN401 - a NodeProto
    return node.op_type == OPERATOR and node.domain in ("", "ai.onnx")


def _has_inside(model: Any) -> bool:  # noqa: ANN401 - a ModelProto
    """Whether a subgraph or a function has a node of the operator, whose lengths nobody can see."""
    inner = (node for _, node in _inner(model.graph.node))
    return any(map(_is_ours, (*inner, *(node for each in model.functions for node in each.node))))


def _subgraphs(node: Any) -> list[Any]:  # noqa: ANN401 - a NodeProto
    return [graph for each in node.attribute for graph in (*([each.g] if each.HasField("g") else ()), *each.graphs)]


def _inner(nodes: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Every node inside of these, at any depth, and what it is inside of."""
    for node in nodes:
        for graph in _subgraphs(node):
            yield from ((f"the {node.op_type} {node.name or next(iter(node.output), '')}", each) for each in graph.node)
            yield from _inner(graph.node)


def _read_by(node: Any) -> Iterator[str]:  # noqa: ANN401 - a NodeProto
    """The values that a node reads, also inside of it; an input that is left out has no name."""
    yield from filter(None, node.input)
    for graph in _subgraphs(node):
        yield from (each.name for each in graph.output)
        for each in graph.node:
            yield from _read_by(each)


def _tensors(message: Any) -> Iterator[Any]:  # noqa: ANN401 - any message
    """Every TensorProto in a message, wherever it is: in subgraphs, functions and their default attributes, too."""
    if message.DESCRIPTOR.name == "TensorProto":
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type:
            for part in (value,) if hasattr(value, "DESCRIPTOR") else value:
                yield from _tensors(part)


def _stated(kind: Any) -> Stated:  # noqa: ANN401 - a TypeProto.Tensor
    sizes = tuple(
        dim.dim_value if dim.HasField("dim_value") else printable(str(dim.dim_param)[:40]) or "?"
        for dim in kind.shape.dim
    )
    return Stated(TYPES.get(kind.elem_type), sizes if kind.HasField("shape") else None)
