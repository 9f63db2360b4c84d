"""A node of a model as a whole job: ONNX Runtime computes what the node gets, and runs nothing behind it.

The model is data: no library of operators is ever loaded. Values inside of subgraphs and functions cannot be had.
"""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.core import system
from revseq_cli.core.dtypes import data_type_of, dtype_of, native
from revseq_cli.core.errors import FormatError, MissingFileError, UsageError, listed, nearest
from revseq_cli.core.tensors import DataType, Symbol, TensorDesc
from revseq_cli.formats import registry
from revseq_cli.formats.contract import Source, Storage
from revseq_cli.formats.documents import TextTypes
from revseq_cli.formats.in_memory import MemorySource
from revseq_cli.formats.onnx import testdata
from revseq_cli.formats.onnx.models import OPERATOR, Model, Stated, known
from revseq_cli.formats.references import refuse_shared
from revseq_cli.formats.table import ONNX_MODEL
from revseq_cli.operator.spec import INPUT
from revseq_cli.porting.backends import CPU, NAME, package, saying

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from revseq_cli.formats.contract import ReadTask, Region
    from revseq_cli.formats.onnx.models import Node
    from revseq_cli.formats.references import Reference
    from revseq_cli.pipeline.assembly import Request

PACKAGE = "onnxruntime"
COMPUTED = "a given tensor, or computed FLOAT16 to FLOAT64, INT8 to INT64, UINT8 to UINT64, BOOL"
_FINDS_FILES = (1, 21)  # from this version of ONNX Runtime on, it takes the folder of other files
_FLOATS = {"float": DataType.FLOAT32, "double": DataType.FLOAT64}  # the types that ONNX Runtime calls otherwise


class Inferred(Source):
    """A tensor of which only sizes and data type are known, since the model has not run; `hint` says how it can."""

    def __init__(self, name: str, desc: TensorDesc, hint: str) -> None:
        self.name, self.sizes, self.dtype, self.hint = name, desc.sizes, dtype_of(desc.data_type), hint
        self.storage, self.has_values = Storage("onnx", {}), False
        self.notes = (f"sizes are inferred, and no values known: {hint} to run the model",)

    def read_task(self, region: Region) -> ReadTask:  # noqa: ARG002 - no region can be read
        """FormatError, since there are no values."""
        raise FormatError("its values are not known before the model runs", "its inputs", self.hint, self.name)


@dataclass(frozen=True)
class NodeJob:
    """The job of a node: `feeds` has what is given to its model, by name, and `needed` what has to be given.

    With `inferred`, nothing is given, and the job has no values.
    """

    model: Model
    node: Node
    feeds: dict[str, Source]
    needed: Mapping[str, Stated]
    inferred: bool = False

    def axis(self) -> int:
        """The time axis."""
        return self.node.time_axis

    def completed(self, request: Request) -> Request:
        """A request with what the lengths of the node are: one for each index of its batch axis, cast to UINT32."""
        if request.lengths is not None:
            return request
        batch_axis = self.node.batch_axis if request.batch_axis is None else request.batch_axis
        return replace(request, batch_axis=batch_axis, lengths_dtype=request.lengths_dtype or DataType.UINT32)

    def tensor(self, role: str, _: TextTypes) -> Source:
        """The tensor of that name in the operator; FormatError and UsageError where it cannot be computed."""
        name = self.node.values if role == INPUT else self.node.lengths
        source = self.feeds.get(name) or (self._inferred if self.inferred else self._captured)[name]
        rank = len(source.sizes)
        if rank < 2 if role == INPUT else rank != 1:
            wanted = f"{'2 or more' if role == INPUT else 1}, as {OPERATOR} has"
            raise FormatError(f"dimension count is {rank}", wanted, where=source.name)
        return source

    @cached_property
    def _session(self) -> Any:  # noqa: ANN401 - of a package that is an extra
        """A session with the model as far as the node, which gives the tensors of the node that are not given."""
        runtime = package()
        options = runtime.SessionOptions()
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        wanted = (each for each in (self.node.values, self.node.lengths) if each not in self.feeds)
        with ExitStack() as files:
            data, folder = self.model.cut(*wanted, files=files)
            if folder:
                self._require_newer(runtime.__version__)
                options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
            made = partial(runtime.InferenceSession, data, options, providers=[CPU], enable_fallback=0)
            return self._asked(made)

    def _require_newer(self, version: str) -> None:
        """FormatError where ONNX Runtime would look for our files of elements in the current folder."""
        if tuple(map(int, version.split(".")[:2])) < _FINDS_FILES:
            found = f"has more elements than fit into a model, and {NAME} {version} does not find them in other files"
            newer = f"{NAME} {'.'.join(map(str, _FINDS_FILES))} or newer"
            raise FormatError(found, newer, system.pip(f"install --upgrade {PACKAGE}"), self.model.path)

    def _asked(self, ask: Callable[[], Any]) -> Any:  # noqa: ANN401 - what it answers
        """What ONNX Runtime answers to another thread: a signal finds this one waiting, and ends it at once."""
        with ThreadPoolExecutor(1) as pool, saying(self.model.path, FormatError):
            return pool.submit(ask).result()

    @cached_property
    def _captured(self) -> dict[str, Source]:
        """The tensors of the node that are not given, computed, by their names in the model."""
        if missing := {name: desc for name, desc in self.needed.items() if name not in self.feeds}:
            found, wanted = f"no values are given for {listed(missing)}", f"a tensor for each: {_told(missing)}"
            raise UsageError(found, wanted, _hint(missing), self.model.path)
        given = {each.name: self.feeds[each.name] for each in self._session.get_inputs()}
        arrays = {name: np.asarray(native(each.read()), order="C") for name, each in given.items()}
        outputs = {each.name: dtype_of(self._inferred_of(each)[0]) for each in self._session.get_outputs()}
        made = self._asked(partial(self._session.run, None, arrays))
        captured: dict[str, Source] = {}
        notes = tuple(note for each in given.values() for note in each.notes)
        origins = [*self.model.others.values(), *(file for each in given.values() for file in each.files)]
        for (name, dtype), values in zip(outputs.items(), made, strict=True):
            given_as = getattr(values, "dtype", type(values).__name__)  # a sparse tensor has none
            if given_as != dtype:
                found = f"{NAME} returns {name}, of {data_type_of(dtype).name}, as {given_as}"
                raise FormatError(found, COMPUTED, where=self.model.path)
            source = MemorySource(f"{self.model.path}: {name}", values, Storage("onnx", {}), self.model.identity)
            source.path, source.origins, source.notes = self.model.path, origins, notes
            captured[name] = source
        for each in given.values():
            each.recheck()
        return captured

    @cached_property
    def _inferred(self) -> dict[str, Source]:
        """The tensors of the node by their names, as sizes and data types, as far as ONNX Runtime finds them out."""
        (values, sizes), (lengths, counts) = (self._inferred_of(each) for each in self._session.get_outputs())
        batch, hint, where = self.node.batch_axis, _hint(self.needed), self.model.path
        if sizes is None:
            raise FormatError(
                f"{NAME} cannot infer the sizes of {self.node.values}", "values of its inputs", hint, where
            )
        counts = (Symbol(""),) if counts is None else counts
        if len(sizes) > batch and len(counts) == 1:  # there is a length for each index
            counts = (known(counts[0], sizes[batch]),)
            sizes = (*sizes[:batch], known(sizes[batch], counts[0]), *sizes[batch + 1 :])
        descs = {self.node.values: TensorDesc(values, sizes), self.node.lengths: TensorDesc(lengths, counts)}
        return {name: Inferred(f"{where}: {name}", desc, hint) for name, desc in descs.items()}

    def _inferred_of(self, output: Any) -> tuple[DataType, tuple[int, ...] | None]:  # noqa: ANN401 - of a session
        """Its data type and its sizes, None where they are not known; FormatError for a type that we do not have."""
        found = re.fullmatch(r"tensor\((\w+)\)", output.type)
        word = found[1] if found else output.type
        data_type = _FLOATS.get(word) or DataType.__members__.get(word.upper())
        if not data_type:
            raise FormatError(f"the data type of {output.name} is {word[:80]}", COMPUTED, where=self.model.path)
        # Of a scalar, ONNX Runtime says what it says where it knows no sizes: what the model states counts.
        sizes = tuple(n if isinstance(n, int) else Symbol(n or "") for n in output.shape) or None
        return data_type, self.model.inputs.get(output.name, Stated(data_type, sizes)).sizes


def node_of(reference: Reference, lengths: Reference | None, request: Request) -> NodeJob | None:
    """The job of a node that a reference such as model.onnx::name names, with its inputs open; None for another one.

    UsageError for inputs that the model does not have, or not so, and where inputs are given to something else.
    """
    if not reference.is_onnx_model:
        if request.feed:
            found = f"{reference.name} is not a model, and has no inputs to feed"
            raise UsageError(found, f"INPUT such as model{ONNX_MODEL}::name", "leave out --feed")
        return None
    model = Model.open(reference.path)
    any_axes = request.like == "tensorflow" and request.axis is not None
    node, named = model.node(reference.key, any_axes=any_axes), _named(request, model)
    names = model.before(node.values, node.lengths)
    needed = {name: desc for name, desc in model.inputs.items() if name in names}
    references = {name: request.reference(named[name], name) for name in needed if name in named}
    refuse_shared([*references.items(), *([("LENGTHS", lengths)] if lengths else [])])
    feeds = {name: _opened(each, name, needed[name]) for name, each in references.items()}
    for name, each in feeds.items():
        each.described = each.described or model.identity
        each.notes += (f"{name} is {each.name}",) * (not request.feed)
    return NodeJob(model, node, feeds, needed, inferred=request.inferred and bool(needed) and not feeds)


def _named(request: Request, model: Model) -> dict[str, str]:
    """What is given for each input of a model; UsageError for what is none, or is given twice."""
    texts = request.feed or (() if request.inferred else testdata.first_beside(model.path))
    if len(texts) == 1 and os.path.isdir(texts[0]):  # noqa: PTH112 - any text
        return testdata.inputs_in(texts[0], model)
    named: dict[str, str] = {}
    wanted = f"once NAME=FILE for each of {_told(model.inputs)}" if model.inputs else "a model that has inputs"
    for text in texts:
        if "=" not in text and not os.path.exists(text):  # noqa: PTH110
            raise MissingFileError("no such folder", f"a folder of tensors, or {wanted}", where=text)
        name = max((each for each in model.inputs if text.startswith(f"{each}=")), key=len, default=None)
        if name is None or name in named:
            found = (
                f"{text[:80]!r} matches no input of the model" if name is None else f"the input {name} is given twice"
            )
            typed, _, file = text.partition("=")
            near = nearest(typed, model.inputs) if name is None else ""
            meant = system.quoted(f"{near}={file or 'FILE'}")
            hint = f"try --feed {meant}" if near else ""
            raise UsageError(found, wanted, hint, model.path)
        named[name] = text.removeprefix(f"{name}=")
    return named


def _opened(reference: Reference, name: str, wanted: Stated) -> Source:
    """A tensor for an input; FormatError where the model states another data type, or other sizes."""
    types = TextTypes(None, wanted.data_type or DataType.FLOAT32)
    if reference.is_bare:
        sizes = tuple(-1 if isinstance(size, Symbol) else size for size in wanted.sizes or (-1, -1))
        if sizes.count(-1) > 1:
            found = f"is a raw buffer, and the model states no sizes of {name}"
            hint = "make it a .npy with revseq convert, which takes sizes"
            raise FormatError(found, "a file that has sizes", hint, reference.name)
        types = types._replace(sizes=sizes)
    source = registry.open_source(reference, types)
    if not wanted.allows(source.desc):
        raise FormatError(f"is {source.desc}", f"{_told({name: wanted})}, as the model states it", where=source.name)
    return source


def _told(inputs: Mapping[str, Stated]) -> str:
    """Inputs with their sizes and data types, as far as the model states them."""
    return listed(f"{name} {stated}".strip() for name, stated in inputs.items())


def _hint(inputs: Iterable[str]) -> str:
    """What to type to give these inputs."""
    return " ".join(["add", *(f"--feed {system.quoted(f'{name}=FILE')}" for name in inputs)])
