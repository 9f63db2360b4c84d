"""A node of a model as a whole job: ONNX Runtime computes what the node gets, and runs nothing behind it.

The model is data: no library of operators is ever loaded. Values inside of subgraphs and functions cannot be had.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.formats import registry
from revseq_cli.formats.contract import Source, Storage
from revseq_cli.formats.documents import TextTypes
from revseq_cli.formats.held import HeldSource
from revseq_cli.formats.onnx import testdata
from revseq_cli.formats.onnx.graphs import OPERATOR, Model
from revseq_cli.formats.references import refuse_shared
from revseq_cli.ground import system
from revseq_cli.ground.dtypes import dtype_of, native
from revseq_cli.ground.errors import Advice, FormatError, UsageError, listed, nearest
from revseq_cli.ground.tensors import DataType, Symbol, TensorDesc
from revseq_cli.operator.spec import INPUT
from revseq_cli.passes.runtime import NAME, PACKAGE, asked, package
from revseq_cli.passes.systems import CPU

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from revseq_cli.formats.contract import Region, Ticket
    from revseq_cli.formats.onnx.graphs import Node
    from revseq_cli.formats.references import Reference
    from revseq_cli.passes.assembly import Request

_FINDS_FILES = (1, 21)  # from this version of ONNX Runtime on, it takes the folder of other files
_FLOATS = {"float": DataType.FLOAT32, "double": DataType.FLOAT64}  # the types that ONNX Runtime calls otherwise


class Inferred(Source):
    """A tensor of which only sizes and data type are known, since the model has not run; `hint` says how it can."""

    def __init__(self, name: str, desc: TensorDesc, hint: Advice) -> None:
        self.name, self.sizes, self.dtype, self.hint = name, desc.sizes, dtype_of(desc.data_type), hint
        self.storage = Storage("onnx", {})
        self.notes = (Advice(f"sizes are inferred, and no values known: {hint.text} to run the model", hint.settings),)

    def ticket(self, region: Region) -> Ticket:  # noqa: ARG002 - no region can be read
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
    needed: Mapping[str, TensorDesc | None]
    inferred: bool = False

    def axis(self) -> int:
        """The time axis."""
        return self.node.time_axis

    def completed(self, request: Request) -> Request:
        """A request with what the lengths of the node are: one for each index of its batch axis, of INT64."""
        if request.lengths is not None:
            return request
        batch_axis = self.node.batch_axis if request.batch_axis is None else request.batch_axis
        return replace(request, batch_axis=batch_axis, lengths_dtype=request.cast or DataType.UINT32)

    def tensor(self, role: str, _: TextTypes) -> Source:
        """The tensor of that name in the operator; FormatError and UsageError where it cannot be computed."""
        name = self.node.values if role == INPUT else self.node.lengths
        source = self.feeds.get(name) or (self._inferred if self.inferred else self._captured)[name]
        if role == INPUT and len(source.sizes) < 2:
            found, wanted = f"dimension count is {len(source.sizes)}", f"2 or more, as {OPERATOR} has"
            raise FormatError(found, wanted, where=source.name)
        return source

    @cached_property
    def _session(self) -> Any:  # noqa: ANN401 - of a package that is an extra
        """A session with the model as far as the node, which gives the tensors of the node that are not given."""
        runtime = package()
        options = runtime.SessionOptions()
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        version = runtime.__version__
        if self.model.others and tuple(map(int, version.split(".")[:2])) < _FINDS_FILES:
            found = f"has elements in other files, which {NAME} {version} would look for in the current folder"
            newer = f"{NAME} {'.'.join(map(str, _FINDS_FILES))} or newer"
            raise FormatError(found, newer, f"pip install --upgrade {PACKAGE}", self.model.path)
        # Else it would look for elements in the current folder.
        folder = os.path.realpath(Path(self.model.path).parent)
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
        wanted = (each for each in (self.node.values, self.node.lengths) if each not in self.feeds)
        made = partial(runtime.InferenceSession, self.model.cut(*wanted), options, providers=[CPU])
        return self._asked(made, f"operators that {NAME} has; libraries of others are never loaded")

    def _asked(self, ask: Callable[[], Any], wanted: str = "") -> Any:  # noqa: ANN401 - what it answers
        """What ONNX Runtime answers to another thread: a signal finds this one waiting, and ends it at once."""
        with ThreadPoolExecutor(1) as pool:
            return asked(self.model.path, FormatError, pool.submit(ask).result, wanted, NAME)

    @cached_property
    def _captured(self) -> dict[str, Source]:
        """The tensors of the node that are not given, computed, by their names in the model."""
        if missing := {name: desc for name, desc in self.needed.items() if name not in self.feeds}:
            found, wanted = f"no values are given for {listed(missing)}", f"a tensor for each: {_told(missing)}"
            raise UsageError(found, wanted, _hint(missing), self.model.path)
        given = {each.name: self.feeds[each.name] for each in self._session.get_inputs()}
        arrays = {name: np.asarray(native(each.read()), order="C") for name, each in given.items()}
        made = self._asked(partial(self._session.run, None, arrays))
        captured: dict[str, Source] = {}
        for output, values in zip(self._session.get_outputs(), made, strict=True):
            source = HeldSource(f"{self.model.path}: {output.name}", values, Storage("onnx", {}), self.model.identity)
            source.path, source.origins = self.model.path, [*self.model.others]
            captured[output.name] = source
            source.notes = tuple(note for each in given.values() for note in each.notes)
            for each in given.values():
                each.recheck()
                source.origins += each.files
        return captured

    @cached_property
    def _inferred(self) -> dict[str, Source]:
        """The tensors of the node by their names, as sizes and data types, as far as ONNX Runtime finds them out."""
        values, lengths = (self._desc(each) for each in self._session.get_outputs())
        batch, hint = self.node.batch_axis, _hint(self.needed)
        if values.dimension_count < 2:
            raise FormatError(f"{NAME} does not find out the sizes of its input", "two or more", hint, self.model.path)
        both = (values.sizes[batch], *lengths.sizes)  # which are equal, and known from either, or not at all
        size = next((each for each in both if not isinstance(each, Symbol)), both[0])
        values = replace(values, sizes=(*values.sizes[:batch], size, *values.sizes[batch + 1 :]))
        lengths = replace(lengths, sizes=(size if isinstance(both[-1], Symbol) else both[-1],))
        both_descs = {self.node.values: values, self.node.lengths: lengths}
        return {name: Inferred(f"{self.model.path}: {name}", desc, hint) for name, desc in both_descs.items()}

    def _desc(self, output: Any) -> TensorDesc:  # noqa: ANN401 - what a session says of an output
        """Its data type and its sizes, none where they are not known; FormatError for a type that no tensor has."""
        word = output.type.removeprefix("tensor(").removesuffix(")")
        data_type = _FLOATS.get(word) or DataType.__members__.get(word.upper())
        if not data_type:
            raise FormatError(f"the data type of {output.name} is {word[:80]}", "one of tensors", where=self.model.path)
        return TensorDesc(data_type, tuple(n if isinstance(n, int) else Symbol(n or "") for n in output.shape))


def node_of(reference: Reference, lengths: Reference | None, request: Request) -> NodeJob | None:
    """The job of a node that a reference such as model.onnx::name names, with its inputs open; None for another one.

    UsageError for inputs that the model does not have, or not so, and where inputs are given to something else.
    """
    if reference.inline is not None or reference.is_piped or not testdata.is_model(reference.path):
        if request.feed:
            found = f"there are inputs of a model, and {reference.name} is none"
            raise UsageError(found, f"INPUT such as model{testdata.SUFFIX}::name", Advice.of("leave out {}", feed=""))
        return None
    model = Model.open(reference.path)
    node, named = model.node(reference.key), _named(request, model)
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
    for text in texts:
        name = max((each for each in model.inputs if text.startswith(f"{each}=")), key=len, default=None)
        if name is None or name in named:
            found = f"{text[:80]!r} is for no input" if name is None else f"the input {name} is given twice"
            hint = _hint([near]) if name is None and (near := nearest(text.partition("=")[0], model.inputs)) else ""
            raise UsageError(found, f"once NAME=FILE for each of {_told(model.inputs)}", hint, model.path)
        named[name] = text.removeprefix(f"{name}=")
    return named


def _opened(reference: Reference, name: str, wanted: TensorDesc | None) -> Source:
    """A tensor for an input; FormatError where the model states another data type, or other sizes."""
    source = registry.open_source(reference, TextTypes(None, wanted.data_type if wanted else DataType.FLOAT32))
    wanted = wanted or source.desc
    known = [each if isinstance(each, Symbol) else size for each, size in zip(wanted.sizes, source.sizes, strict=False)]
    if source.desc.data_type is not wanted.data_type or (len(source.sizes), known) != (len(known), [*wanted.sizes]):
        raise FormatError(f"is {source.desc}", f"{_told({name: wanted})}, as the model states it", where=source.name)
    return source


def _told(inputs: Mapping[str, TensorDesc | None]) -> str:
    """Inputs with their sizes and data types, as far as the model states them."""
    return listed(f"{name} {desc or ''}".strip() for name, desc in inputs.items())


def _hint(inputs: Iterable[str]) -> Advice:
    """What to type to give these inputs."""
    settings = tuple(("feed", system.quoted(f"{name}=FILE")) for name in inputs)
    return Advice(f"add {' '.join('{}' for _ in settings)}", settings)
