"""The kernel alone, on one core: nanoseconds an element for each layout, and against ONNX Runtime on one thread.

    python tests/benchmarks/kernel.py

Arrays of 2^22 elements; the best of five, since it is the machine's noise that is to be left out. ONNX Runtime is
measured in the same process, in turn, where its ReverseSequence can do the job.
"""

import time
from math import prod

import numpy as np

from revseq_cli.ground import allocator
from revseq_cli.operator import kernel

TYPES = ("u1", "f2", "f4", "f8")
N = 1 << 22
# Shape (outer, axis, inner), and whether lengths are constant along inner.
LAYOUTS = [
    *(((N // size, size, 1), False) for size in (2, 4, 8, 32, 128, 511, 512, 1024, 4096, 1 << 16, N)),
    ((N // 32, 16, 2), False), ((64, 64, 1024), False), ((4, 511, 2048), False), ((4, 512, 2048), False),
    ((1, 4096, 1024), False), ((1, 1 << 16, 64), False), ((16, 1 << 16, 4), False), ((1, 2, N // 2), False),
    ((N // 32, 16, 2), True), ((64, 64, 1024), True), ((1024, 1024, 4), True),
]  # fmt: skip


def job(shape, constant, dtype):
    rng = np.random.default_rng(0)
    values = rng.integers(0, 256, (*shape, np.dtype(dtype).itemsize), np.uint8).view(dtype)[..., 0]
    lengths = rng.integers(1, shape[1] + 1, (shape[0], 1, 1 if constant else shape[2])).astype(np.uint32)
    return values, np.broadcast_to(lengths, (shape[0], 1, shape[2]))


def best(*functions):
    """The best time of each, taken in turn."""
    times = [[] for _ in functions]
    for _ in range(6):
        for function, each in zip(functions, times, strict=True):
            began = time.perf_counter()
            function()
            each.append(time.perf_counter() - began)
    return [min(each[1:]) for each in times]


def onnxruntime_session(values):
    import onnxruntime
    from onnx import TensorProto, helper

    kind = helper.np_dtype_to_tensor_dtype(values.dtype)
    info = helper.make_tensor_value_info
    shape = [None] * values.ndim
    node = helper.make_node("ReverseSequence", ["x", "n"], ["y"], time_axis=1, batch_axis=0)
    graph = helper.make_graph(
        [node], "g", [info("x", kind, shape), info("n", TensorProto.INT64, [None])], [info("y", kind, shape)]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 10)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def main():
    allocator.keep_freed()
    print("ns an element         " + "".join(f"{dtype:>8}" for dtype in TYPES))
    for shape, constant in LAYOUTS:
        row = []
        for dtype in TYPES:
            values, lengths = job(shape, constant, dtype)
            row.append(best(lambda v=values, n=lengths: kernel.reverse(v, n, 1))[0] / prod(shape) * 1e9)
        name = f"{shape} constant" if constant else f"{shape}"
        print(f"{name:30}" + "".join(f"{each:8.2f}" for each in row), flush=True)
    values = job((N, 1, 1), False, "f4")[0]
    print(f"{'copy, f4':30}{best(values.copy)[0] / N * 1e9:8.2f}")
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
    except ImportError:
        print("onnxruntime is not installed")
        return
    for shape, constant in [((N // s, s, 1), False) for s in (8, 128, 4096)] + [((256, 128, 128), True)]:
        values, lengths = job(shape, constant, "f4")
        session = onnxruntime_session(values)
        feed = {"x": values, "n": lengths[:, 0, 0].astype(np.int64)}
        ours, theirs = best(
            lambda v=values, n=lengths: kernel.reverse(v, n, 1), lambda s=session, f=feed: s.run(None, f)
        )
        print(f"{shape!s:24} ours {ours * 1e3:7.2f} ms, ONNX Runtime {theirs * 1e3:7.2f} ms, ratio {ours / theirs:.2f}")


if __name__ == "__main__":
    main()
