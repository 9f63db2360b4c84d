"""ONNX's tests of the operator ReverseSequence: a model of one node, and folders of tensors with its results.

ONNX's own have `model.onnx` beside `test_data_set_0` and so on, each with `input_0.pb`, `input_1.pb` and `output_0.pb`.
Source: onnx/backend/test/cmd_tools.py, and the operator's page.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from revseq_cli.core.errors import FormatError, TensorIOError, listed
from revseq_cli.formats import file_io
from revseq_cli.formats.onnx.models import OPERATOR, Model, Node
from revseq_cli.formats.onnx.source import MOST_BYTES, open_tensor
from revseq_cli.formats.table import ONNX_MODEL, is_onnx_model
from revseq_cli.text.examples import NoExampleError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from revseq_cli.formats.contract import Source

_TENSOR_SUFFIX = ".pb"
_MODEL, _DATA_SET = f"model{ONNX_MODEL}", "test_data_set_"


class DataSet(NamedTuple):
    """The tensors of one test, whose headers are read: `inputs` are those of the model's one node, by their names."""

    name: str
    model: Model
    node: Node
    inputs: dict[str, Source]
    output: Source


def is_test(path: str) -> bool:
    """Whether it is a model, or a folder of tests or of one test; of other folders, only their names are looked at."""
    if not os.path.isdir(path):  # noqa: PTH112 - it raises for no name
        return is_onnx_model(path)
    with file_io.trying_to("read", path):
        names = os.listdir(path)  # noqa: PTH208
    return any(name == _MODEL or name.startswith(_DATA_SET) or name.endswith(_TENSOR_SUFFIX) for name in names)


def is_data_set(folder: str) -> bool:
    """Whether a folder is one test of the model in the folder above."""
    inside, above = Path(folder, _MODEL), _absolute(Path(folder)).parent / _MODEL
    return not inside.exists() and above.exists() and any(Path(folder).glob(f"output_*{_TENSOR_SUFFIX}"))


def has_tests(folders: Iterable[str], names: Iterable[str]) -> bool:
    """Whether a folder of these folders and files is one of ONNX's tests."""
    return _MODEL in names and any(name.startswith(_DATA_SET) for name in folders)


def may_be_ours(folder: str) -> bool:
    """Whether the model in a folder may have the operator; the package onnx is not needed."""
    path = str(Path(folder) / _MODEL)
    with file_io.opened(path) as fd:
        return OPERATOR.encode() in file_io.read_some(fd, min(file_io.identity(fd).size, MOST_BYTES), 0, path)


def data_sets(path: str) -> list[DataSet]:
    """Every test in a folder, the one test of a folder below a model's, or those beside a model.

    FormatError for a folder without a model or without tests; NoExampleError for a model of anything but this operator.
    """
    folder, model = _of_a_model(Path(path)) if os.path.isdir(path) else (None, Path(path))  # noqa: PTH112
    opened = _only_node(str(model))
    return [_data_set(each, *opened) for each in ([folder] if folder else _beside(model))]


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


def first_beside(model: str) -> tuple[str, ...]:
    """The folder of the first test beside a model, if there is one."""
    folder = Path(model).parent / f"{_DATA_SET}0"
    return (str(folder),) * folder.is_dir()


def inputs_in(folder: str, model: Model) -> dict[str, str]:
    """The file of each input of a model in a folder of tensors, which has them in the order of the inputs."""
    return {name: str(Path(folder, f"input_{number}{_TENSOR_SUFFIX}")) for number, name in enumerate(model.inputs)}


def _data_set(folder: Path, model: Model, node: Node, output: str) -> DataSet:
    files = inputs_in(str(folder), model)
    inputs: dict[str, Source] = {name: open_tensor(files[name]) for name in (node.values, node.lengths)}
    return DataSet(_absolute(folder).name, model, node, inputs, open_tensor(str(folder / output)))


def _only_node(path: str) -> tuple[Model, Node, str]:
    """A model, its node, and the name of the file with the output; NoExampleError if it has anything else.

    FormatError if the tensors of the node are not those of the model, which files have.
    """
    model = Model.open(path)
    nodes = model.proto.graph.node
    if len(nodes) != 1 or not model.nodes:
        names = listed(f"{each.domain}::{each.op_type}" if each.domain else each.op_type for each in nodes)
        raise NoExampleError(f"has {names or 'no node'}", f"one node, {OPERATOR}", where=path)
    node, inputs, outputs = model.node(None), [*model.inputs], [each.name for each in model.proto.graph.output]
    for what, name, known in (
        ("input", node.values, inputs), ("input", node.lengths, inputs), ("output", node.output, outputs),
    ):  # fmt: skip
        if name not in known:
            found = f"the {what} {name[:80]} of {OPERATOR} is not an {what} of the graph"
            raise FormatError(found, f"one of {listed(known)}, whose values are in files", where=path)
    return model, node, f"output_{outputs.index(node.output)}{_TENSOR_SUFFIX}"
