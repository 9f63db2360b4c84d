"""DxDispatch, as far as its source says what it does with a model: for tests, since it runs on Windows only.

What it reads is src/model/JsonParsers.cpp and NpyReaderWriter.cpp of DxDispatch/ in microsoft/DirectML, what it does
src/dxdispatch/Executor.cpp, and what models may have is in models/_schema.json. No code of ours is used here.
"""

import json
from math import prod

import numpy as np
import oracle

TYPES = {
    **{f"FLOAT{bits}": f"<f{bits // 8}" for bits in (16, 32, 64)},
    **{f"INT{bits}": f"<i{bits // 8}" for bits in (8, 16, 32, 64)},
    **{f"UINT{bits}": f"<u{bits // 8}" for bits in (8, 16, 32, 64)},
}


def run(folder, model):
    """Run the model in that folder: its result is written there as by writeFile."""
    parsed = json.loads((folder / model).read_text("ascii"))
    assert set(parsed) == {"resources", "dispatchables", "commands"}
    buffers = {name: _buffer(resource, folder) for name, resource in parsed["resources"].items()}
    for command in parsed["commands"]:
        kind = command.pop("type")
        if kind == "dispatch":
            assert set(command) == {"dispatchable", "bindings"}
            _dispatch(
                parsed["dispatchables"][command["dispatchable"]], command["bindings"], buffers
            )
        else:
            assert (kind, set(command)) == ("writeFile", {"resource", "targetPath", "dimensions"})
            data, dtype, size = buffers[command["resource"]]
            assert prod(command["dimensions"]) * dtype.itemsize == size
            write_npy(folder / command["targetPath"], data, dtype, command["dimensions"])


def _buffer(resource, folder):
    """The bytes of a resource, its data type, and how many of the bytes have initial values."""
    assert set(resource) == {"initialValuesDataType", "initialValues", "sizeInBytes"}
    dtype = np.dtype(TYPES[resource["initialValuesDataType"]])
    values, size = resource["initialValues"], resource["sizeInBytes"]
    if "sourcePath" in values:
        data = _npy(folder / values["sourcePath"], dtype)
    else:
        assert set(values) == {"value", "valueCount"}
        data = np.full(values["valueCount"], values["value"], dtype).tobytes()
    assert 0 < len(data) <= size
    assert (
        size % 4 == 0
    )  # DirectML's own condition; only a size that is left out would be rounded up
    return bytearray(data.ljust(size, b"\0")), dtype, len(data)


def _npy(path, dtype):
    """All bytes behind the header, as ReadNpy takes them."""
    with path.open("rb") as file:
        assert np.lib.format.read_magic(file) == (1, 0)
        sizes, fortran, found = np.lib.format.read_array_header_1_0(file)
        assert not fortran  # "Fortran stride order unsupported."
        assert found == dtype  # and not big-endian, whose bytes it swaps wrongly
        data = file.read()
    assert len(data) >= prod(sizes) * dtype.itemsize
    return data


def _dispatch(operator, bindings, buffers):
    assert set(operator) == {"type", "desc"}
    assert operator["type"] == "DML_OPERATOR_REVERSE_SUBSEQUENCES"
    desc = dict(operator["desc"])
    axis = desc.pop("Axis")
    assert set(desc) == set(bindings) == {"InputTensor", "SequenceLengthsTensor", "OutputTensor"}
    assert len(set(bindings.values())) == 3
    tensors = {}
    for name, tensor in desc.items():
        data, dtype, _ = buffers[bindings[name]]
        assert set(tensor) == {"DataType", "Sizes"}
        assert TYPES[tensor["DataType"]] == dtype.newbyteorder("<").str.replace("|", "<")
        tensors[name] = np.frombuffer(data, dtype, prod(tensor["Sizes"])).reshape(tensor["Sizes"])
    result = oracle.reverse(
        tensors["InputTensor"], tensors["SequenceLengthsTensor"], axis
    ).tobytes()
    assert desc["OutputTensor"] == desc["InputTensor"]
    output = buffers[bindings["OutputTensor"]][0]
    output[:] = result.ljust(
        len(output), b"\xee"
    )  # nobody says what DirectML leaves in the padding


def write_npy(path, data, dtype, sizes):
    """A .npy file as WriteNpy makes it: a header without blanks behind the colons, and all bytes of the buffer."""
    shape = "".join(f"{size}," for size in sizes)
    text = f"{{'descr':'<{dtype.kind}{dtype.itemsize}', 'fortran_order':False, 'shape':({shape}), }}".encode()
    length = -(-(10 + len(text) + 1) // 64) * 64
    head = (
        b"\x93NUMPY\x01\x00" + (length - 10).to_bytes(2, "little") + text.ljust(length - 11) + b"\n"
    )
    path.write_bytes(head + bytes(data))
