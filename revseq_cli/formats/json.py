"""Tensors in JSON: a bare nested list, or an object of DataType, Sizes and Values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

from revseq_cli.formats import models
from revseq_cli.formats.contract import Storage, try_hint
from revseq_cli.formats.held import HeldSource
from revseq_cli.formats.textfiles import TextSink, choose_type, write_text
from revseq_cli.ground.dtypes import describe, dtype_of
from revseq_cli.ground.errors import FormatError, UsageError, listed
from revseq_cli.texts import dxdispatch, json_tensors

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Address, FileSink, Layout, Source
    from revseq_cli.formats.documents import Text, TextTypes
    from revseq_cli.formats.storage.newfile import NewFile


def open_source(address: Address, types: TextTypes) -> Source:
    """The tensor of a JSON text, or the one of that name where it is a model of DxDispatch."""
    if not dxdispatch.is_model(address.text.text):
        return open_json(address.text, address.key, types)
    model = models.ModelText.read(address.text)
    if address.key in model.model.tensors:
        return model.tensor(address.key, types)
    found, known = f"is a model: {listed(model.model.tensors)}", list(model.model.tensors)
    raise FormatError(found, "the name of one", try_hint(address.path, known[0]), address.path)


def create_sink(file: NewFile, like: Source, key: str, layout: Layout) -> FileSink:  # noqa: ARG001 - it has neither
    """A new JSON file of one tensor."""
    return TextSink(file, like, write_json, open_json)


def write_to(stream: BinaryIO, source: Source) -> None:
    """The whole tensor as one JSON object."""
    write_text(stream, write_json(source.read()))


def open_json(text: Text, key: str | None, types: TextTypes) -> Source:
    """A nested list, or an object with Values and perhaps DataType and Sizes."""
    if key is not None:
        raise UsageError("a JSON file holds one tensor", "no name after ::", where=text.name)
    try:
        tensor = json_tensors.parse(text.text)
        data_type = choose_type(tensor.data_type, types, text.name)
        values = tensor.values(data_type, dtype_of(data_type))
    except (FormatError, UsageError) as e:
        raise e.about(text.name) from None
    return HeldSource(text.name, values, Storage("json", {}), text.identity)


def write_json(values: NDArray[Any]) -> str:
    """The JSON object of a tensor, a row a line; NaN and infinities are strings."""
    return json_tensors.tensor_text(describe(values), values)
