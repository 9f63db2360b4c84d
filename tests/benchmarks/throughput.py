"""Whole commands on large files, ours and each installed peer in turn in one run, every output flushed to disk.

    python tests/benchmarks/throughput.py [--folder DIR] [--gib 1] [--runs 5] [--case NAME ...] [--peer NAME ...]

Prints a table: for each case the median seconds, the ratio to `cp` and `sync` of the same file, and the peak memory
(anonymous memory of all processes together, sampled). Peers do what a user would write: a script that loads, calls
the library and saves. They check nothing; the first output of ours is checked against the definition.
"""

import argparse
import os
import platform
import statistics
import subprocess
import sys
import threading
import time
from datetime import date
from pathlib import Path

import numpy as np

COMMAND = str(Path(sys.executable).with_name("revseq"))

# Name -> data type, shape for 1 GiB, axis, whether lengths are constant along inner.
CASES = {
    "lines-128": ("f4", (1 << 21, 128), 1, False),
    "lines-8": ("f4", (1 << 25, 8), 1, False),
    "lines-4096": ("f4", (1 << 16, 4096), 1, False),
    "middle": ("f4", (64, 4096, 1024), 1, False),
    "uint8-128": ("u1", (1 << 23, 128), 1, False),
    "batch": ("f4", (2048, 128, 1024), 1, True),
    "first": ("f4", (4096, 1 << 16), 0, False),
    "float64-128": ("f8", (1 << 20, 128), 1, False),
}

NUMPY = """
import sys, numpy as np
x, n, axis = np.load(sys.argv[1]), np.load(sys.argv[2]), int(sys.argv[3])
size = x.shape[axis]
index = np.arange(size).reshape([-1 if d == axis else 1 for d in range(x.ndim)])
n = np.minimum(n, size).astype(np.int64)
np.save(sys.argv[4], np.take_along_axis(x, np.where(index < n, n - 1 - index, index), axis))
"""
TORCH = """
import sys, numpy as np, torch
x, n = torch.from_numpy(np.load(sys.argv[1])), torch.from_numpy(np.load(sys.argv[2]).astype(np.int64))
axis = int(sys.argv[3])
size = x.shape[axis]
index = torch.arange(size).reshape([-1 if d == axis else 1 for d in range(x.ndim)])
n = n.clamp(max=size)
np.save(sys.argv[4], torch.gather(x, axis, torch.where(index < n, n - 1 - index, index).expand(x.shape)).numpy())
"""
ONNXRUNTIME = """
import sys, numpy as np, onnxruntime
from onnx import TensorProto, helper
x, n, axis = np.load(sys.argv[1]), np.load(sys.argv[2]), int(sys.argv[3])
kind = helper.np_dtype_to_tensor_dtype(x.dtype)
n = n[(slice(None),) + (0,) * (x.ndim - 1)] if axis == 1 else n[(0, slice(None)) + (0,) * (x.ndim - 2)]
node = helper.make_node("ReverseSequence", ["x", "n"], ["y"], time_axis=axis, batch_axis=1 - axis)
info = helper.make_tensor_value_info
graph = helper.make_graph([node], "g", [info("x", kind, x.shape), info("n", TensorProto.INT64, n.shape)], [info("y", kind, x.shape)])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 10)], ir_version=9)
session = onnxruntime.InferenceSession(model.SerializeToString())
np.save(sys.argv[4], session.run(None, {"x": x, "n": n.astype(np.int64)})[0])
"""
SCRIPTS = {"numpy": NUMPY, "torch": TORCH, "onnxruntime": ONNXRUNTIME}


def make(folder, name, gib):
    """The case's files, made once, with lengths from 1 (ONNX Runtime refuses more than the axis)."""
    dtype, shape, axis, constant = CASES[name]
    shape = (int(shape[0] * gib), *shape[1:])
    x, n = folder / f"{name}-{gib}.npy", folder / f"{name}-{gib}-lengths.npy"
    if not x.exists():
        rng = np.random.default_rng(1)
        piece = rng.integers(0, 256, 1 << 24, np.uint8)
        with open(x, "wb") as f:
            np.lib.format.write_array_header_1_0(
                f, {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape}
            )
            left = int(np.prod(shape)) * np.dtype(dtype).itemsize
            f.writelines(piece[: left - done] for done in range(0, left, piece.size))
        lengths_shape = [1 if d == axis or (constant and d > axis) else size for d, size in enumerate(shape)]
        lengths = rng.integers(1, shape[axis] + 1, lengths_shape).astype(np.uint32)
        full = [1 if d == axis else size for d, size in enumerate(shape)]
        np.save(n, np.broadcast_to(lengths, full))
        os.sync()
    return x, n, axis


def commands(x, n, axis, out, name, jobs):
    """Name -> shell command of every peer that can do the case."""
    ours = f"{COMMAND} run {x} {n} --axis {axis} -o {out} --feature-level none"
    found = {
        "cp": f"cp {x} {out}",
        "cp+sync": f"cp {x} {out} && sync {out}",
        "revseq": f"{ours} --jobs {jobs}",
        "revseq, 1 job": f"{ours} --jobs 1",
    }
    for peer, script in SCRIPTS.items():
        able = peer != "onnxruntime" or (len(CASES[name][1]) == 2 or CASES[name][3])
        # Their indices take 17 bytes an element: more than this machine has, for uint8.
        able = able and (peer not in ("numpy", "torch") or CASES[name][0] != "u1")
        if (
            able
            and subprocess.run([sys.executable, "-c", f"import {peer}"], capture_output=True, check=False).returncode
            == 0
        ):
            found[peer] = f"{sys.executable} -c '{script}' {x} {n} {axis} {out} && sync {out}"
    return found


def timed(command, out):
    """Seconds, and the most anonymous memory that its processes had together, in MiB."""
    Path(out).unlink(missing_ok=True)
    os.sync()
    began = time.perf_counter()
    process = subprocess.Popen(["sh", "-c", command], start_new_session=True)
    peak, stop = [0], threading.Event()

    def sample():
        while not stop.wait(0.25):  # each look takes milliseconds, of a core that the command could use
            peak[0] = max(peak[0], anonymous(process.pid))

    sampler = threading.Thread(target=sample)
    sampler.start()
    status = process.wait()
    seconds = time.perf_counter() - began
    stop.set()
    sampler.join()
    assert status == 0, command
    return seconds, peak[0] / 1024


def anonymous(session):
    """KiB of anonymous memory of all processes of a session; what they share counts in parts."""
    total = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if int((folder / "stat").read_text().rsplit(")", 1)[1].split()[3]) == session:
                total += int((folder / "smaps_rollup").read_text().split("Pss_Anon:")[1].split()[0])
        except (OSError, IndexError):
            continue
    return total


def in_turn(commands, out, runs):
    """Name -> the median seconds, and the most MiB; all in turn, and once before that to warm the page cache."""
    figures = {name: [] for name in commands}
    for run in range(runs + 1):
        for name, command in commands.items():
            figure = timed(command, out)
            if run:
                figures[name].append(figure)
    out.unlink(missing_ok=True)
    columns = {name: [*zip(*each, strict=True)] for name, each in figures.items()}
    return {name: (statistics.median(seconds), max(mib)) for name, (seconds, mib) in columns.items()}


def checked(x, n, axis, out):
    """Whether a few lines of the output are what the definition says."""
    values, lengths, result = (np.load(path, mmap_mode="r") for path in (x, n, out))
    rng = np.random.default_rng(3)
    for _ in range(200):
        index = [int(rng.integers(size)) for size in values.shape]
        index[axis] = 0
        length = int(lengths[tuple(index)])
        index[axis] = slice(None)
        line = values[tuple(index)]
        expected = np.concatenate([line[:length][::-1], line[length:]])
        assert expected.tobytes() == result[tuple(index)].tobytes()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/revseq-bench"))
    parser.add_argument("--gib", type=float, default=1)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--case", nargs="*", choices=CASES, default=list(CASES))
    parser.add_argument("--peer", nargs="*")
    options = parser.parse_args()
    options.folder.mkdir(exist_ok=True)
    print(
        f"{date.today()}, {platform.machine()}, {os.cpu_count()} cores, {options.gib} GiB, {options.runs} runs, medians"
    )
    print("| case | command | seconds | to cp+sync | ours to it | MiB |\n|---|---|---|---|---|---|")
    for name in options.case:
        x, n, axis = make(options.folder, name, options.gib)
        out = options.folder / "out.npy"
        found = commands(x, n, axis, out, name, options.jobs)
        if options.peer:
            found = {peer: command for peer, command in found.items() if peer in options.peer}
        if "revseq" in found:
            timed(found["revseq"], out)
            checked(x, n, axis, out)
        figures = in_turn(found, out, options.runs)
        for peer, (seconds, mib) in figures.items():
            to_cp = f"{seconds / figures['cp+sync'][0]:.2f}" if "cp+sync" in figures else ""
            ours = f"{figures['revseq'][0] / seconds:.2f}" if "revseq" in figures else ""
            print(f"| {name} | {peer} | {seconds:.2f} | {to_cp} | {ours} | {mib:.0f} |", flush=True)


if __name__ == "__main__":
    main()
