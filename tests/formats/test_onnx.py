"""Tensors of ONNX in .pb files, held against the package onnx."""

import os

import numpy as np
import onnx
import oracle
import pytest
from onnx import TensorProto, numpy_helper
from onnx.backend.test.case import node
from onnx.backend.test.case.node import reversesequence  # noqa: F401 - its tests are made as it is loaded

from revseq_cli.core.errors import RevseqError
from revseq_cli.formats.onnx import TYPES, open_tensor

NODE_TESTS = [each for each in node._NodeTestCases if "reversesequence" in each.name]


def save(path, **fields):
    path.write_bytes(TensorProto(**{"dims": [3, 4], "data_type": 1, **fields}).SerializeToString())
    return path


@pytest.mark.parametrize("number", sorted(TYPES))
def test_every_data_type(revseq, tmp_path, number):
    """In raw_data as we write it, and in fields of numbers as onnx.helper does."""
    data_type = TYPES[number]
    values = oracle.random_values(np.random.default_rng(5), (3, 4), data_type)
    save(tmp_path / "x.pb", data_type=number, raw_data=values.tobytes())
    source = open_tensor(str(tmp_path / "x.pb"))
    assert source.desc.data_type is data_type
    assert oracle.same_bits(source.read(), values)
    revseq("run", "x.pb", "[1, 2, 3]", "--axis", 1, "--batch-axis", 0, "--feature-level", "none", "-o", "y.pb").ok()
    made = onnx.load_tensor(tmp_path / "y.pb")
    assert (made.data_type, list(made.dims)) == (number, [3, 4])
    right = oracle.expected(values, np.repeat([[1], [2], [3]], 4, 1), 1)
    assert made.raw_data == np.ascontiguousarray(right).tobytes()
    floats = {"FLOAT32": 4, "COMPLEX64": 4, "FLOAT64": 10, "COMPLEX128": 10}
    proto = TensorProto(dims=(3, 4), data_type=number)
    if field := floats.get(data_type.name):
        plain = np.nan_to_num(values) if data_type.kind == "float" else np.ones_like(values)
        (proto.float_data if field == 4 else proto.double_data).extend(plain.view(plain.real.dtype).ravel().tolist())
        values = plain
    else:
        words = values.view(f"u{data_type.size}") if data_type.kind in ("float", "minifloat", "bool") else values
        fields = {"INT64": proto.int64_data, "UINT32": proto.uint64_data, "UINT64": proto.uint64_data}
        fields.get(data_type.name, proto.int32_data).extend(words.ravel().tolist())
    (tmp_path / "z.pb").write_bytes(proto.SerializeToString())
    assert oracle.same_bits(open_tensor(str(tmp_path / "z.pb")).read(), values)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"raw_data": bytes(47)}, "is damaged"), ({"raw_data": bytes(49)}, "is damaged"), ({"raw_data": bytes(52)}, "is damaged"),
        ({}, "is damaged"), ({"data_type": 0, "raw_data": bytes(48)}, "is no tensor of ONNX"),
        ({"data_type": 8, "string_data": [b"a"] * 12}, "its data type is ONNX's number 8"),
        ({"data_type": 22, "raw_data": bytes(6)}, "its data type is ONNX's number 22"),
        ({"data_type": 99}, "its data type is ONNX's number 99"), ({"dims": [3, -4]}, "Sizes is {3,-4}"),
        ({"dims": [1 << 62, 1 << 62], "raw_data": b"x"}, "is damaged"), ({"dims": [1] * 65, "raw_data": bytes(4)}, "dimension count 65"),
        ({"data_location": 1}, "its elements are in another file"),
        ({"data_type": 7, "int64_data": [1] * 11}, "is damaged"), ({"data_type": 16, "int32_data": [1] * 11}, "is damaged"),
    ],
)  # fmt: skip
def test_tensors_that_are_none(revseq, tmp_path, fields, problem):
    save(tmp_path / "x.pb", **fields)
    revseq("convert", "x.pb", "y.npy").refused("x.pb: ", problem)
    assert not (tmp_path / "y.npy").exists()


def test_names(revseq, tmp_path):
    onnx.save_tensor(numpy_helper.from_array(np.arange(3.0), "a"), tmp_path / "x.pb")
    revseq("convert", "x.pb::a", "y.pb::b").ok()
    assert onnx.load_tensor(tmp_path / "y.pb").name == "b"
    revseq("convert", "x.pb::b", "z.pb").refused("x.pb::b: no such tensor", "wanted: one of a\n")
    revseq("convert", "x.pb", "z.pb::\udcff").refused("is no name of a tensor")


def test_a_file_that_changes_is_refused(tmp_path):
    path = save(tmp_path / "x.pb", raw_data=bytes(48))
    source = open_tensor(str(path))
    os.utime(path, ns=(1, 1))
    with pytest.raises(RevseqError, match="changed while it was read"):
        source.recheck()


def test_more_than_protobuf_can_hold(revseq, tmp_path):
    with open(tmp_path / "x.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": (1 << 31,)})
        file.truncate(file.tell() + (1 << 31))
    revseq("convert", "x.npy", "y.pb").refused("y.pb: would be a protobuf message", "out.npy")
    os.truncate(tmp_path / "x.npy", 1 << 32)
    os.rename(tmp_path / "x.npy", tmp_path / "x.pb")
    revseq("show", "x.pb", "-f", "onnx").refused("has 4294967296 bytes", "protobuf's limit")


def test_without_the_package(revseq, tmp_path):
    save(tmp_path / "x.pb", raw_data=bytes(48))
    np.save(tmp_path / "x.npy", np.arange(3.0))
    for args in (("show", "x.pb"), ("convert", "x.npy", "y.pb")):
        done = revseq(*args, code="import sys; sys.modules['onnx'] = None")
        done.refused("is a protobuf message of ONNX", "the package onnx", "pip install onnx")


@pytest.mark.parametrize("case", NODE_TESTS, ids=lambda case: case.name)
def test_onnx_own_tests_of_the_operator(revseq, tmp_path, case):
    """Its model, and its tensors as --feed."""
    onnx.save(case.model, tmp_path / "model.onnx")
    (inputs, outputs) = case.data_sets[0]
    feeds = []
    for info, values in zip(case.model.graph.input, inputs, strict=True):
        onnx.save_tensor(numpy_helper.from_array(values, info.name), tmp_path / f"{info.name}.pb")
        feeds += ["--feed", f"{info.name}={info.name}.pb"]
    onnx.save_tensor(numpy_helper.from_array(outputs[0]), tmp_path / "right.pb")
    revseq("diff", "right.pb", "--job", "model.onnx", *feeds, "--feature-level", "none").ok()
