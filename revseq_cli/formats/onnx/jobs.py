"""A ReverseSequence node of an ONNX model as a job: its values and its lengths.

They are inputs of the model that the user gives, or ONNX Runtime computes them.
"""

# ruff: noqa: ANN401 - what ONNX Runtime returns has no type

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revseq_cli.core import platform
from revseq_cli.core.dtypes import dtype_of, native
from revseq_cli.core.errors import FormatError, UsageError, join_names, nearest
from revseq_cli.core.tensors import DataType
from revseq_cli.files.input_file import Identity
from revseq_cli.formats import references
from revseq_cli.formats.contract import Source, Storage, TextTypes
from revseq_cli.formats.memory import MemorySource
from revseq_cli.formats.onnx.models import OPERATOR, Model
from revseq_cli.formats.onnx.parts import cut_out, find_missing, find_needed
from revseq_cli.formats.onnx.runtime import (
    import_runtime,
    open_session,
    quote_errors,
    require_empty_written,
)
from revseq_cli.formats.pipes import refuse_shared
from revseq_cli.formats.references import Reference

_RUNTIME_TYPES = {"float": "FLOAT32", "double": "FLOAT64"}  # its other types have our names


class NodeTensor(MemorySource):
    """A tensor that a model computes.

    `files` are the states of all files that it depends on, the model's first: no output may
    overwrite them.
    """

    def __init__(self, name: str, values: NDArray[Any], path: str, files: list[Identity]) -> None:
        super().__init__(name, values, Storage("onnx", {}), files[0], path=path)
        self._files = files

    @property
    def files(self) -> list[Identity]:
        return self._files


class NodeJob:
    """A node as a job.

    `feeds` has NAME=FILE for inputs of the model, and `lengths`, if given, replaces the model's.
    UsageError for a name that is not an input, and for inputs without a value.
    """

    def __init__(
        self, reference: Reference, feeds: Sequence[str], lengths: Reference | None
    ) -> None:
        model = Model(reference.path)
        node = model.choose_node(reference.key)
        fed_files = _parse_feeds(model, feeds)
        typed_files = [*fed_files.items()]
        wanted = [node.values]
        if lengths:
            typed_files.append(("LENGTHS", lengths))
        else:
            wanted.append(node.lengths)
        refuse_shared(typed_files)
        needed = find_needed(model, wanted, fed_files)
        model.refuse_sparse(needed - fed_files.keys())
        _refuse_missing(model, find_missing(model, needed, fed_files))
        tensors = _open_feeds(model, fed_files, needed)
        computed = [name for name in wanted if name not in tensors]
        if computed:
            tensors |= _compute_tensors(model, computed, tensors)
        rank = len(tensors[node.values].sizes)
        self._axis, self._batch_axis = node.find_axes(rank, model.path)
        self._node = node
        self._tensors = tensors

    def open_role(self, role: str, _types: TextTypes) -> Source:
        """The values of the node as the InputTensor, or its lengths."""
        if role == "InputTensor":
            return self._tensors[self._node.values]
        return self._tensors[self._node.lengths]

    def find_axis(self) -> int:
        """The axis that is reversed."""
        return self._axis

    def find_batch_axis(self) -> int:
        """The axis that has one length for each index."""
        return self._batch_axis


def _parse_feeds(model: Model, feeds: Sequence[str]) -> dict[str, Reference]:
    """The files that are fed, by the names of the model's inputs."""
    expected = "a model that has inputs"
    if model.inputs:
        expected = f"once NAME=FILE for each of {_describe_inputs(model, model.inputs)}"
    fed_files: dict[str, Reference] = {}
    for text in feeds:
        # An input may be called x=1, so the longest name that fits counts.
        names = [name for name in model.inputs if text.startswith(f"{name}=")]
        name = max(names, key=len, default=text.partition("=")[0])
        file = text[len(name) + 1 :]
        if name not in model.inputs or not file:
            hint = ""
            near = nearest(name, model.inputs)
            if near:
                meant = platform.quote(f"{near}={file or 'FILE'}")
                hint = f"did you mean: --feed {meant}"
            found = f"{text[:80]!r} matches no input of the model"
            raise UsageError(found, expected, hint, model.path)
        if name in fed_files:
            raise UsageError(f"the input {name} is given twice", expected, where=model.path)
        fed_files[name] = Reference.input(file, None, name)
    return fed_files


def _open_feeds(
    model: Model, fed_files: Mapping[str, Reference], needed: set[str]
) -> dict[str, Source]:
    """The fed tensors that are needed; text has the data type that the model states."""
    tensors: dict[str, Source] = {}
    for name in needed & fed_files.keys():
        types = TextTypes(model.inputs[name].data_type, DataType.FLOAT32)
        tensors[name] = references.open_source(fed_files[name], types)
    return tensors


def _refuse_missing(model: Model, missing: list[str]) -> None:
    """UsageError if inputs are missing, with the options that give them."""
    if not missing:
        return
    options = " ".join(f"--feed {platform.quote(f'{name}=FILE')}" for name in missing)
    raise UsageError(
        f"no values are given for {join_names(missing)}",
        f"a tensor for each: {_describe_inputs(model, missing)}",
        f"add {options}",
        model.path,
    )


def _describe_inputs(model: Model, names: Iterable[str]) -> str:
    return join_names(f"{name} {model.inputs[name]}" for name in names)


def _compute_tensors(
    model: Model, names: list[str], fed: Mapping[str, Source]
) -> dict[str, Source]:
    """These values of a model, computed by ONNX Runtime from the tensors that are fed."""
    runtime = import_runtime()
    part = cut_out(model, names, fed)
    data = part.proto.SerializeToString()
    if OPERATOR.encode() in data:
        require_empty_written(runtime, model.path, "depends on another ReverseSequence")
    arrays: dict[str, NDArray[Any]] = {}
    with quote_errors(model.path, FormatError):
        session = open_session(runtime, data)
        for info in session.get_inputs():
            arrays[info.name] = np.asarray(native(fed[info.name].read()), order="C")
        outputs = session.get_outputs()
        results = session.run(None, arrays)
    files = [*part.files]
    for name in arrays:
        fed[name].recheck()
        files += fed[name].files
    tensors: dict[str, Source] = {}
    for info, values in zip(outputs, results, strict=True):
        _require_type(info.name, values, info.type, model.path)
        tensors[info.name] = NodeTensor(f"{model.path}: {info.name}", values, model.path, files)
    return tensors


def _require_type(name: str, values: Any, runtime_type: str, where: str) -> None:
    """FormatError for a value that is not a tensor, or whose data type is unknown here.

    A tensor must also have the data type that ONNX Runtime says.
    """
    word = runtime_type
    if word.startswith("tensor("):
        word = word.removeprefix("tensor(")[:-1]
    data_type = DataType.__members__.get(_RUNTIME_TYPES.get(word, word.upper()))
    dtype = getattr(values, "dtype", None)  # a sparse tensor has none
    if data_type and dtype == dtype_of(data_type):
        return
    found = f"the data type of {name} is {word[:80]}"
    if data_type:
        found += f", returned as {dtype}"
    expected = "a given tensor, or computed FLOAT16 to FLOAT64, integers or BOOL"
    raise FormatError(found, expected, where=where)
