"""Differential test: ONNX Runtime's ReverseSequence on random tensors, where both have the operator."""

import importlib.util

import numpy as np
import oracle
import pytest

import revseq_cli
from revseq_cli.core.tensors import DataType

if importlib.util.find_spec("onnxruntime") is None or importlib.util.find_spec("onnx") is None:
    pytest.skip("onnxruntime and onnx are not installed (the test extra has them)", allow_module_level=True)

import onnx
import onnxruntime
from onnx import TensorProto, helper

# ONNX has one length for each index of a batch axis; batch and time axis are 0 and 1, in either order.
TYPES = [t.name for t in DataType if t.kind in ("float", "int", "uint") and t.name != "FLOAT16"]


def session(name, rank, time_axis):
    proto = {"FLOAT64": "DOUBLE", "FLOAT32": "FLOAT"}.get(name, name)
    kind = getattr(TensorProto, proto)
    node = helper.make_node("ReverseSequence", ["x", "n"], ["y"], time_axis=time_axis, batch_axis=1 - time_axis)
    tensors = [
        helper.make_tensor_value_info("x", kind, [None] * rank),
        helper.make_tensor_value_info("n", TensorProto.INT64, [None]),
    ]
    graph = helper.make_graph([node], "g", tensors, [helper.make_tensor_value_info("y", kind, [None] * rank)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 10)], ir_version=9)
    onnx.checker.check_model(model)
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("time_axis", [0, 1])
@pytest.mark.parametrize("name", TYPES)
def test_agrees(name, time_axis):
    rng = np.random.default_rng(11)
    for rank in (2, 3, 4):
        run = session(name, rank, time_axis).run
        for _ in range(10):
            shape = tuple(int(n) for n in rng.integers(1, 7, rank))
            values = oracle.random_values(rng, shape, DataType[name])
            # ONNX Runtime before 2026 gave zeros for length 0, so the lengths begin at 1; vectors.json has length 0.
            lengths = rng.integers(1, shape[time_axis] + 1, shape[1 - time_axis])
            (expected,) = run(None, {"x": values, "n": lengths})
            ours = [1] * rank
            ours[1 - time_axis] = shape[1 - time_axis]
            widened = list(shape)
            widened[time_axis] = 1
            wide = np.broadcast_to(lengths.astype(np.uint64).reshape(ours), widened)
            assert oracle.same_bits(revseq_cli.reverse_subsequences(values, wide, time_axis), expected)
