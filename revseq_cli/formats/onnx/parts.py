"""The part of an ONNX model that some values need, as a model that ONNX Runtime can run.

It is serialised anew from what was parsed, with the elements of other files in it, and without
libraries of operators.
"""

# ruff: noqa: ANN401 - the messages of the package onnx have no types

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from revseq_cli.core.errors import FormatError, printable
from revseq_cli.files import open_file
from revseq_cli.files.input_file import Identity
from revseq_cli.formats.onnx.models import Model, list_subgraphs
from revseq_cli.formats.onnx.tensors import MOST_ELEMENT_BYTES

_EXTERNAL = 1  # the number of this data_location
_LEAST_VERSION = 4  # of ONNX's format, in which initializers need not be inputs


@dataclass(frozen=True)
class Part:
    """A part of a model as a ModelProto, and the states of the files that it comes from."""

    proto: Any
    files: list[Identity]


def find_needed(model: Model, names: Sequence[str], given: Collection[str]) -> set[str]:
    """These values and all that they are computed from, where some values are given."""
    makers: dict[str, Any] = {}
    for node in model.proto.graph.node:
        for output in node.output:
            makers[output] = node
    makers.pop("", None)  # an output that is left out has no name
    needed: set[str] = set()
    pending = [*names]
    while pending:
        name = pending.pop()
        if name in needed:
            continue
        needed.add(name)
        if name in makers and name not in given:
            pending += _list_inputs(makers[name])
    return needed


def _list_inputs(node: Any) -> Iterator[str]:
    """The values that a node and its subgraphs read; an input that is left out has no name."""
    yield from filter(None, node.input)
    for attribute in node.attribute:
        for graph in list_subgraphs(attribute):
            for output in graph.output:
                yield output.name
            for inner in graph.node:
                yield from _list_inputs(inner)


def find_missing(model: Model, needed: set[str], given: Collection[str]) -> list[str]:
    """The inputs among needed values that have no value at all."""
    without_value = needed - model.constants - {*given}
    return [name for name in model.inputs if name in without_value]


def cut_out(model: Model, names: Sequence[str], given: Collection[str]) -> Part:
    """The model with these values as its outputs and no more than they need.

    The caller has refused sparse initializers, which are not copied. FormatError for elements that
    cannot be read from their files, or are too many for protobuf.
    """
    needed = find_needed(model, names, given)
    whole = model.proto
    proto = type(whole)(
        ir_version=max(whole.ir_version, _LEAST_VERSION), opset_import=whole.opset_import
    )
    proto.functions.extend(whole.functions)
    graph = proto.graph
    graph.name = "cut"
    # A given value is an input, even if the model has a constant for it. Both sets also have values
    # that nodes compute, which are neither inputs nor initializers of the model.
    may_be_inputs = (needed - model.constants) | {*given}
    may_be_constants = needed - {*given}
    graph.node.extend(node for node in whole.graph.node if not needed.isdisjoint(node.output))
    graph.input.extend(info for info in whole.graph.input if info.name in may_be_inputs)
    graph.initializer.extend(
        tensor for tensor in whole.graph.initializer if tensor.name in may_be_constants
    )
    for name in names:
        graph.output.add(name=name)
    files = [model.identity]
    room = MOST_ELEMENT_BYTES - proto.ByteSize()
    for tensor in _walk_tensors(proto):
        if tensor.data_location == _EXTERNAL:
            files.append(_load_elements(tensor, model.path, room))
            room -= len(tensor.raw_data)
    return Part(proto, files)


def _walk_tensors(message: Any) -> Iterator[Any]:
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
            yield from _walk_tensors(part)


def _load_elements(tensor: Any, model_path: str, room: int) -> Identity:
    """Put the elements of a tensor, at most `room` bytes, into it; returns the state of their file.

    The file, which the tensor names, has to be in the model's folder.
    """
    where = f"{model_path}: {tensor.name}" if tensor.name else model_path
    entries = {str(entry.key): str(entry.value) for entry in tensor.external_data}
    location = entries.get("location", "").partition("\0")[0]  # as C takes it
    with open_file(_find_file(location, model_path, where)) as fd:
        identity = fd.identity
        try:
            start = int(entries.get("offset") or 0)
            count = int(entries.get("length") or max(0, identity.size - start))
        except ValueError:
            found = "the offset or length of its elements is not a number"
            raise FormatError(found, "integers", where=where) from None
        if not 0 <= start <= start + count <= identity.size:
            file = f"{printable(location)}, which has {identity.size}"
            found = f"has {count} bytes at {start} of {file}"
            raise FormatError(found, "bytes of the file", "fetch it again", where)
        if count > room:
            found = f"what the node needs has more than {MOST_ELEMENT_BYTES} bytes of elements"
            raise FormatError(found, "a model that protobuf can hold", where=model_path)
        tensor.raw_data = fd.read(count, start)
    tensor.ClearField("data_location")
    tensor.ClearField("external_data")
    return identity


def _find_file(location: str, model_path: str, where: str) -> str:
    """The path of a file with elements; FormatError for one outside of the model's folder."""
    folder = Path(model_path).parent
    path = os.path.realpath(folder / location)
    if Path(path).is_relative_to(os.path.realpath(folder)):
        return path
    raise FormatError(
        f"its elements are in the file {location[:80]!r}",
        "a path in the folder of the model",
        "a model may not refer to other files",
        where,
    )
