"""The kernel alone, on one core: nanoseconds an element for each layout, and against ONNX Runtime on one thread.

    python tests/benchmarks/kernel.py [--elements 4194304] [--runs 7] [--before FILE]

The least processor time of some runs, taken in turn, since it is the machine's noise that is to be left out; with
1048576 elements, arrays are of the size of blocks. ONNX Runtime is measured in the same process, where its
ReverseSequence can do the job, and so is another state of the kernel, from its file.
"""

import argparse
import importlib.util
import time
from math import prod

import numpy as np

from revseq_cli.core import system
from revseq_cli.operator import kernel

TYPES = ("u1", "f2", "f4", "f8")
# Name, the shape whose -1 takes all elements, the axis, and along which dimensions lengths differ.
LAYOUTS = [
    *((f"lines of {size}", (-1, size), 1, (0,)) for size in (2, 8, 31, 32, 128, 511, 512, 1024, 2047, 2048, 4096, 65536)),
    ("one line", (1, -1), 1, (0,)),
    ("{B,16,2}, a length per batch", (-1, 16, 2), 1, (0,)), ("{B,64,16}, a length per batch", (-1, 64, 16), 1, (0,)),
    ("{B,128,128}, a length per batch", (-1, 128, 128), 1, (0,)),
    ("{B,128,1024}, a length per batch", (-1, 128, 1024), 1, (0,)),
    ("{32,B,8}, a length per batch", (32, -1, 8), 0, (1,)), ("{128,B,256}, a length per batch", (128, -1, 256), 0, (1,)),
    ("{4096,B,64}, a length per batch", (4096, -1, 64), 0, (1,)),
    *((f"the first of {size}", (size, -1), 0, (1,)) for size in (2, 16, 255, 256, 512, 4096, 65536)),
    ("the middle, {N,16,2}", (-1, 16, 2), 1, (0, 2)), ("the middle, {N,64,1024}", (-1, 64, 1024), 1, (0, 2)),
    ("the middle, {4,N,512}", (4, -1, 512), 1, (0, 2)),
    *((f"one length, lines of {size}", (-1, size), 1, ()) for size in (8, 128, 4096)),
    ("one length, {B,128,128}", (-1, 128, 128), 1, ()), ("one length, the first of 4096", (4096, -1), 0, ()),
]  # fmt: skip


def job(shape, axis, differ, dtype, elements):
    """Values, and lengths of their full rank, as a file would have them."""
    shape = tuple(elements // -prod(shape) if size == -1 else size for size in shape)
    rng = np.random.default_rng(0)
    values = rng.integers(0, 256, (*shape, np.dtype(dtype).itemsize), np.uint8).view(dtype)[..., 0]
    lengths = rng.integers(1, shape[axis] + 1, [s if d in differ else 1 for d, s in enumerate(shape)]).astype(np.uint32)
    return values, np.broadcast_to(lengths, [1 if d == axis else size for d, size in enumerate(shape)]).copy()


def best(runs, values, *functions):
    """The least processor time of each, taken in turn; before each, the values are copied, so that caches are alike."""
    times = [[] for _ in functions]
    for _ in range(runs + 1):
        for function, each in zip(functions, times, strict=True):
            values.copy()
            began = time.thread_time()
            function()
            each.append(time.thread_time() - began)
    return [min(each[1:]) for each in times]


def loaded(path):
    """The kernel in a file."""
    spec = importlib.util.spec_from_file_location("kernel_before", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def onnxruntime_session(values, axis):
    import onnxruntime
    from onnx import TensorProto, helper

    kind = helper.np_dtype_to_tensor_dtype(values.dtype)
    info = helper.make_tensor_value_info
    shape = [None] * values.ndim
    node = helper.make_node("ReverseSequence", ["x", "n"], ["y"], time_axis=axis, batch_axis=1 - axis)
    graph = helper.make_graph(
        [node], "g", [info("x", kind, shape), info("n", TensorProto.INT64, [None])], [info("y", kind, shape)]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 10)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def onnxruntime_call(values, lengths, axis):
    """A function for the job, or None where ReverseSequence cannot do it."""
    others = [d for d in range(values.ndim) if d not in (axis, 1 - axis)]
    narrow = lengths[tuple(0 if d in others else slice(None) for d in range(values.ndim))].reshape(-1)
    if (
        axis > 1
        or (lengths != lengths[tuple(slice(0, 1) if d in others else slice(None) for d in range(values.ndim))]).any()
    ):
        return None
    session, feed = onnxruntime_session(values, axis), {"x": values, "n": narrow.astype(np.int64)}
    return lambda: session.run(None, feed)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--elements", type=int, default=1 << 22)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--before", help="a file with another state of the kernel")
    options = parser.parse_args()
    before = loaded(options.before) if options.before else None
    system.keep_freed_memory()
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401

        peer = onnxruntime_call
    except ImportError:
        print("onnxruntime is not installed")
        peer = None
    print(f"{'ns an element, and times':36}" + "".join(f"{dtype:>22}" for dtype in TYPES))
    print(f"{'as fast as ...':36}" + "  ours   before    ORT" * len(TYPES))
    for name, shape, axis, differ in LAYOUTS:
        row = f"{name:36}"
        for dtype in TYPES:
            values, lengths = job(shape, axis, differ, dtype, options.elements)
            others = {"before": before and (lambda v=values, n=lengths, a=axis: before.reverse(v, n, a))}
            others["ort"] = peer and peer(values, lengths, axis)
            functions = [lambda v=values, n=lengths, a=axis: kernel.reverse(v, n, a), *filter(None, others.values())]
            ours, *theirs = best(options.runs, values, *functions)
            ratios = dict(
                zip([other for other in others if others[other]], (each / ours for each in theirs), strict=True)
            )
            row += f"{ours / values.size * 1e9:6.2f}" + "".join(
                f"{ratios[other]:8.2f}" if other in ratios else f"{'-':>8}" for other in others
            )
        print(row, flush=True)
    values = job((-1, 1), 1, (0,), "f4", options.elements)[0]
    print(f"{'copy, f4':36}{best(options.runs, values, values.copy)[0] / values.size * 1e9:6.2f}")


if __name__ == "__main__":
    main()
