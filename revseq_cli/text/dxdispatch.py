"""DxDispatch's JSON models, parsed to a job and printed from one.

Source of the format: DxDispatch/ in Microsoft's repository DirectML. doc/Guide.md and models/_schema.json describe it,
but for the command `writeFile`, which the schema lacks. src/model/JsonParsers.cpp is the reader: it accepts comments,
trailing commas, and enumerations without their prefix; field names are case sensitive.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.core.errors import FormatError, listed
from revseq_cli.core.tensors import MOST_DIMENSIONS, DataType, TensorDesc
from revseq_cli.operator.spec import INPUT, LENGTHS, OUTPUT
from revseq_cli.text import literals, numbers
from revseq_cli.text.markup import blanks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

OPERATOR = "DML_OPERATOR_REVERSE_SUBSEQUENCES"
TENSORS = (INPUT, LENGTHS, OUTPUT)
# A model of a hundred bytes may ask for any number of generated values.
_MOST_GENERATED = 1 << 32
_DISPATCHABLE = "reverse"
_SIZE_LIMIT = 1 << 32  # sizes and the axis are UINT32
# Strings match first, since they may hold what looks like a comment. What is never closed matches up to the end of the
# text, so that time is linear.
_STRING = r'("(?:[^"\\]++|\\.)*+"?)'
_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_LAST_COMMA = re.compile(rf"{_STRING}|,(?=\s*[\]}}])", re.DOTALL)
_KINDS = {dict: "an object", list: "a list", str: "a string", int: "an integer"}


@dataclass(frozen=True)
class Tensor:
    """A tensor of a model: its desc, the name of its resource, and that resource's `initialValues`."""

    desc: TensorDesc
    resource: str
    initial: Any

    @property
    def path(self) -> str | None:
        """The name of the file that holds the values; None where they are in the model itself."""
        if not isinstance(self.initial, dict) or "sourcePath" not in self.initial:
            return None
        return str(_entry(self.initial, f"resource {self.resource}", "sourcePath", str))

    def values(self, dtype: np.dtype[Any]) -> NDArray[Any]:
        """The values of a model that holds them itself, in the tensor's sizes and as `dtype`.

        FormatError for other than so many numbers, and for one that the data type cannot hold exactly.
        """
        place = f"resource {self.resource}"
        if isinstance(self.initial, list):
            flat = _numbers(self.initial, self.desc.data_type, dtype, place)
        else:
            flat = self._generated(dtype, place)
        self._require(flat.size, place)
        return flat.reshape(self.desc.sizes)

    def _require(self, count: int, place: str) -> None:
        if count != self.desc.element_count:
            wanted = f"{str(self.desc.element_count)[:40]} values for {self.desc}"
            raise FormatError(f"{place} has {str(count)[:40]} values", wanted)

    def _generated(self, dtype: np.dtype[Any], place: str) -> NDArray[Any]:
        key = next((key for key in _GENERATORS if isinstance(self.initial, dict) and key in self.initial), None)
        if key is None:
            wanted = f"a list, or an object with sourcePath, {' or '.join(_GENERATORS)}"
            raise FormatError(f"initialValues of {place} is {_shown(self.initial)}", wanted)
        count = _entry(self.initial, place, "valueCount", int)
        self._require(count, place)
        if self.desc.total_bytes > _MOST_GENERATED:
            found = f"{place} asks for {self.desc.total_bytes} bytes of generated values"
            raise FormatError(found, f"at most {_MOST_GENERATED}", "keep large tensors in .npy files")
        names, generate = _GENERATORS[key]
        for name in names:
            if name not in self.initial:
                raise FormatError(f"{place} has no {name}", "a number")
        given = _numbers([self.initial[name] for name in names], self.desc.data_type, dtype, place)
        return generate(given, count, place)


def _repeated(value: NDArray[Any], count: int, _: str) -> NDArray[Any]:
    return np.broadcast_to(value, count)


def _counted(ends: NDArray[Any], count: int, place: str) -> NDArray[Any]:
    """A sequence from `ends`, which are its start and its delta; added up in the data type, as DxDispatch does."""
    start, delta = ends.tolist()
    if ends.dtype.kind in "iub":
        least, most = literals.bounds(ends.dtype)
        if not least <= start + delta * (count - 1) <= most:
            raise FormatError(f"the sequence of {place} leaves its data type", f"{least} to {most}")
    steps = np.full(count, ends[1])
    steps[0] = ends[0]
    with np.errstate(all="ignore"):
        return np.add.accumulate(steps, dtype=ends.dtype)


_GENERATORS: Mapping[str, tuple[tuple[str, ...], Callable[[NDArray[Any], int, str], NDArray[Any]]]] = {
    "value": (("value",), _repeated),
    "valueStart": (("valueStart", "valueDelta"), _counted),
}


@dataclass(frozen=True)
class Model:
    """The one job of a model: InputTensor and SequenceLengthsTensor, by their names in the operator, and the axis."""

    tensors: dict[str, Tensor]
    axis: int


def is_model(text: str) -> bool:
    """Whether a text is a model and not a tensor; nothing is parsed, since no JSON tensor has these words."""
    begins = text[:1000].lstrip().startswith(("{", "//", "/*"))
    return begins and '"dispatchables"' in text and '"resources"' in text


def parse(text: str) -> Model:
    """The job of a model that dispatches this operator once, and nothing else; FormatError otherwise."""
    root = _loaded(text)
    if not isinstance(root, dict):
        raise FormatError("is JSON, but not a model", "an object of resources, dispatchables and commands")
    name, dispatchable = _the_dispatchable(_entry(root, "the model", "dispatchables", dict))
    place = f"dispatchable {name}"
    desc = _entry(dispatchable, place, "Desc" if "Desc" in dispatchable else "desc", dict)
    descs = {tensor: _tensor_desc(_entry(desc, place, tensor, dict), tensor) for tensor in TENSORS}
    if descs[OUTPUT] != descs[INPUT]:
        raise FormatError(f"{OUTPUT} of {place} is {descs[OUTPUT]}", f"{descs[INPUT]}, as {INPUT} is")
    bindings = _bindings(_entry(root, "the model", "commands", list), name)
    resources = _entry(root, "the model", "resources", dict)
    tensors = {tensor: _tensor(resources, bindings, tensor, descs[tensor]) for tensor in (INPUT, LENGTHS)}
    target = _bound(bindings, OUTPUT)
    _entry(resources, "resources", target, dict)
    if target in {tensor.resource for tensor in tensors.values()}:
        wanted = "a resource of its own: the operator does not execute in place"
        raise FormatError(f"{OUTPUT} is bound to {target}, which is an input", wanted)
    return Model(tensors, _uint32(_entry(desc, place, "Axis", int), f"Axis of {place}", 0))


def _loaded(text: str) -> object:
    """The JSON of a text, with blanks for comments and trailing commas, so that places in messages are right."""
    plain = text
    for pattern in (_COMMENT, _LAST_COMMA):
        plain = pattern.sub(lambda match: match[1] or blanks(match), plain)
    return numbers.load(text, plain, "a model of DxDispatch", parse_float=_float, parse_constant=_constant)


def _float(word: str) -> float:
    number = float(word)
    if math.isinf(number):
        raise FormatError(f"has the number {word[:40]}, which is too large", 'at most 1.8e308, or "inf"')
    return number


def _constant(word: str) -> object:
    raise FormatError(f"has the bare word {word}", 'the strings "nan", "inf" and "-inf"')


def _shown(entry: object) -> str:
    """An entry of JSON, cut to 40 characters."""
    return json.dumps(entry)[:40]


def _entry(holder: dict[str, Any], place: str, key: str, kind: type) -> Any:  # noqa: ANN401 - it is of that kind
    """The value of a key, of that kind; FormatError where there is none, or one of another kind."""
    if key not in holder:
        raise FormatError(f"{place} has no {key}", f"{key}, {_KINDS[kind]}; names are case sensitive")
    if type(holder[key]) is not kind:
        raise FormatError(f"{key} of {place} is {_shown(holder[key])}", _KINDS[kind])
    return holder[key]


def _the_dispatchable(dispatchables: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Name and content of the only dispatchable; FormatError for others beside it, which could compute a tensor."""
    types = {name: str(each.get("type")) if isinstance(each, dict) else "?" for name, each in dispatchables.items()}
    if len(types) == 1 and {*types.values()} <= {OPERATOR, OPERATOR.removeprefix("DML_OPERATOR_")}:
        return next(iter(dispatchables.items()))
    held = listed(f"{name[:40]} ({kind[:60]})" for name, kind in types.items()) or "none"
    raise FormatError(f"contains work other than one {OPERATOR}; its dispatchables: {held}", f"one, of type {OPERATOR}")


def _tensor_desc(written: dict[str, Any], tensor: str) -> TensorDesc:
    """The desc of a DML_TENSOR_DESC, whose fields may be one level deeper, in `Desc`."""
    written = _entry(written, tensor, "Desc", dict) if "Desc" in written else written
    sizes = tuple(_uint32(size, f"a size of {tensor}", 1) for size in _entry(written, tensor, "Sizes", list))
    count = written.get("DimensionCount", len(sizes))
    if len(sizes) > MOST_DIMENSIONS:
        raise FormatError(f"{tensor} has {len(sizes)} Sizes", f"at most {MOST_DIMENSIONS}, and 8 in DirectML")
    if not sizes or count != len(sizes):
        raise FormatError(f"{tensor} has {len(sizes)} Sizes, and DimensionCount {_shown(count)}", "as many of both")
    packed = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
    if written.get("Strides") not in (None, packed):
        raise FormatError(f"Strides of {tensor} is {_shown(written['Strides'])}", f"packed tensors: {packed}, or none")
    name = _entry(written, tensor, "DataType", str)
    return TensorDesc(DataType.parse(name.removeprefix("DML_TENSOR_DATA_TYPE_")), sizes)


def _uint32(number: Any, place: str, least: int) -> int:  # noqa: ANN401 - anything that JSON has
    if type(number) is not int or not least <= number < _SIZE_LIMIT:
        raise FormatError(f"{place} is {_shown(number)}", f"{least} to {_SIZE_LIMIT - 1}, a UINT")
    return number


def _bindings(commands: list[Any], name: str) -> dict[str, Any]:
    """The bindings of the only dispatch command: for each tensor, its resource."""
    dispatches = [each for each in commands if isinstance(each, dict) and str(each.get("type")).lower() == "dispatch"]
    if len(dispatches) != 1 or dispatches[0].get("dispatchable") != name:
        raise FormatError(f"its commands dispatch {len(dispatches)} times", f"once, the dispatchable {name}")
    bindings: dict[str, Any] = _entry(dispatches[0], "the dispatch command", "bindings", dict)
    return bindings


def _bound(bindings: dict[str, Any], tensor: str) -> str:
    """The name of a tensor's resource."""
    bound = bindings.get(tensor)
    if isinstance(bound, dict) and set(bound) == {"name"}:
        bound = bound["name"]
    if not isinstance(bound, str):
        raise FormatError(f"{tensor} is bound to {_shown(bound)}", "the name of a resource")
    return bound


def _tensor(resources: dict[str, Any], bindings: dict[str, Any], tensor: str, desc: TensorDesc) -> Tensor:
    """A tensor with its resource's values; FormatError for a resource of another data type."""
    bound = _bound(bindings, tensor)
    place = f"resource {bound}"
    resource = _entry(resources, "resources", bound, dict)
    if "initialValues" not in resource:
        raise FormatError(f"{place} has no initialValues", "a list, or an object")
    if resource.get("initialValuesOffsetInBytes", 0) != 0:
        raise FormatError(f"{place} has an initialValuesOffsetInBytes", "values from the start")
    bound_tensor = Tensor(desc, bound, resource["initialValues"])
    stated = resource.get("initialValuesDataType", desc.data_type.name if bound_tensor.path is not None else None)
    if str(stated).removeprefix("DML_TENSOR_DATA_TYPE_") != desc.data_type.name:
        wanted = f"{desc.data_type.name}, as {tensor}: both must be the same"
        raise FormatError(f"initialValuesDataType of {place} is {_shown(stated)}", wanted)
    return bound_tensor


def _numbers(entries: list[Any], data_type: DataType, dtype: np.dtype[Any], place: str) -> NDArray[Any]:
    """Numbers of JSON, and strings for NaN and infinities, as an array of shape (n,); FormatError for all else."""
    if not entries:
        raise FormatError(f"{place} has no values", "one or more")
    for i, each in enumerate(entries):
        if type(each) not in (int, float) and not (isinstance(each, str) and literals.is_special(each)):
            raise FormatError(f"{_shown(each)} at [{i}] of {place} is not a number")
    try:
        return literals.parse(list(map(str, entries)), dtype, data_type.name)
    except literals.LiteralError as e:
        raise FormatError(f"at [{e.index}] of {place}: {e.problem}") from None


def fits_inline(values: NDArray[Any]) -> bool:
    """Whether a model can hold the values themselves: it has no text for a NaN of other bits than the usual one."""
    if values.dtype.kind != "f":
        return True
    return not any(text.startswith("nan(") for text in literals.render(values[np.isnan(values)]))


def command_line(model: str) -> str:
    """What to type on Windows, in the folder of the model, to run it.

    The folder matters: DxDispatch looks for inputs beside the model, but writes results into the current folder, unless
    its options say otherwise (src/dxdispatch/dxDispatchWrapper.cpp).
    """
    name = f".\\{model}" if model.startswith("-") else model  # or it would be an option
    return f"dxdispatch.exe {name}" if re.fullmatch(r"[\w.\\-]+", name) else f'dxdispatch.exe "{name}"'


def sentinel(data_type: DataType) -> int:
    """What every element of OutputTensor is before the operator runs: a number that few tensors have.

    What still has it then was never written. FLOAT16 holds -12344 exactly.
    """
    if data_type.kind == "uint":
        return 0xCD if data_type.size == 1 else 0xCDCD
    return -123 if data_type.size == 1 else -12344


def model_text(
    contents: Mapping[str, tuple[TensorDesc, NDArray[Any] | str]], axis: int, target: str, *, printed: bool
) -> str:
    """The text of a job's model.

    `contents` has InputTensor and SequenceLengthsTensor by their names, each with its desc, and with its values or the
    name of the file that holds them. The model writes the result to the file `target`, and prints it with `printed`.
    It writes first: in src/dxdispatch/Executor.cpp a `print` that fails ends the run, and a `writeFile` does not.
    """
    desc, _ = contents[INPUT]
    blank = {"valueCount": desc.element_count, "value": sentinel(desc.data_type)}
    resources = {name: _resource(*each) for name, each in (*contents.items(), (OUTPUT, (desc, blank)))}
    descs = {name: {"DataType": each.data_type.name, "Sizes": list(each.sizes)} for name, (each, _) in contents.items()}
    bindings = {name: name for name in TENSORS}
    # Without `dimensions` the .npy would be flat.
    sizes = {"dimensions": list(desc.sizes)}
    commands = [
        {"type": "dispatch", "dispatchable": _DISPATCHABLE, "bindings": bindings},
        {"type": "writeFile", "resource": OUTPUT, "targetPath": target, **sizes},
    ]
    if printed:
        commands.append({"type": "print", "resource": OUTPUT})
    dispatchable = {"type": OPERATOR, "desc": {**descs, OUTPUT: descs[INPUT], "Axis": axis}}
    model = {"resources": resources, "dispatchables": {_DISPATCHABLE: dispatchable}, "commands": commands}
    return _spread(model, 4) + "\n"


def _resource(desc: TensorDesc, values: NDArray[Any] | dict[str, Any] | str) -> dict[str, Any]:
    """A resource of that desc: values, what makes them, or the name of their file.

    The data type of files is stated, since some versions of DxDispatch do not read it.
    """
    initial = {"sourcePath": values} if isinstance(values, str) else values
    # DirectML wants buffers of whole 4 bytes, and DxDispatch rounds up only what it computes itself.
    size = -(-desc.total_bytes // 4) * 4
    written = initial if isinstance(initial, dict) else _written(initial)
    return {"initialValuesDataType": desc.data_type.name, "initialValues": written, "sizeInBytes": size}


def _written(values: NDArray[Any]) -> list[int | float | str]:
    """The values for JSON; floats as FLOAT64, whose text gives the narrower types exactly however a reader rounds."""
    flat = values.ravel()
    if flat.dtype.kind != "f":
        return flat.tolist()
    return [each if math.isfinite(each) else str(each) for each in flat.astype(np.float64).tolist()]


def _spread(value: object, levels: int, indent: str = "") -> str:
    """JSON with a line for each entry of the `levels` outer levels, and one line for each value below."""
    entries: list[tuple[str, object]] = []
    if levels and isinstance(value, dict):
        entries = [(f"{json.dumps(key)}: ", each) for key, each in value.items()]
    elif levels and isinstance(value, list):
        entries = [("", each) for each in value]
    if not any(isinstance(each, dict | list) for _, each in entries):
        return json.dumps(value)
    inner = f"{indent}  "
    rows = ",\n".join(f"{inner}{key}{_spread(each, levels - 1, inner)}" for key, each in entries)
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n{rows}\n{indent}{closing}"
