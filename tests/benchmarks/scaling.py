"""How whole commands scale with the cores: each engine and number of jobs in turn, to `cp` and `sync` of the same file.

    python tests/benchmarks/scaling.py [--folder /dev/shm/scaling] [--gib 4] [--runs 3] [--case NAME ...] [--read]

The table has the peak memory, too, to be held against `--memory`: anonymous memory of all processes together, sampled. Behind
it, what auto takes is held against the best engine, and more jobs against fewer. With --read, each output is read once, as the
next command does: give a --folder on a disk.
"""

import argparse
import os
import statistics
import subprocess
import sys
import threading
import time
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
CORES = len(os.sched_getaffinity(0))
JOBS = [jobs for jobs in (1, 2, 4, 8, 16, 32) if jobs <= CORES]
MANY = ("processes", "auto")


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


def commands(x, n, axis, out, memory):
    """Name -> shell command."""
    ours = f"{COMMAND} run {x} {n} --axis {axis} -o {out} --feature-level none --memory {memory}"
    several = {f"{engine} {jobs}": f"{ours} --engine {engine} --jobs {jobs}" for engine in MANY for jobs in JOBS[1:]}
    return {"cp": f"cp {x} {out} && sync {out}", "serial": f"{ours} --engine serial"} | several


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm/scaling"))
    parser.add_argument("--gib", type=float, default=4)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--memory", default="1GiB")
    parser.add_argument("--case", nargs="*", choices=CASES, default=["lines-8", "lines-128", "lines-4096", "middle"])
    parser.add_argument("--read", action="store_true")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    print(f"{CORES} cores, {options.gib} GiB, medians of {options.runs}, --memory {options.memory}")
    print("| case | command | seconds | to cp | MiB |\n|---|---|---|---|---|")
    for name in options.case:
        x, n, axis = make(options.folder, name, options.gib)
        out = options.folder / "out.npy"
        wanted = commands(x, n, axis, out, options.memory)
        if options.read:
            wanted = {each: f"{command} && cat {out} > /dev/null" for each, command in wanted.items()}
        figures = in_turn(wanted, out, options.runs)
        for each, (seconds, mib) in figures.items():
            print(f"| {name} | {each} | {seconds:.2f} | {seconds / figures['cp'][0]:.2f} | {mib:.0f} |", flush=True)
        compare({each: seconds for each, (seconds, _) in figures.items()})
        for path in (x, n):
            path.unlink()


def compare(found):
    """Print what auto takes to the best engine, and the most that more jobs take to what fewer take."""
    for i, jobs in enumerate(JOBS[1:], 2):
        best = min(found["serial"], *(found[f"{engine} {few}"] for engine in MANY[:2] for few in JOBS[1:i]))
        print(f"auto {jobs} to the best engine: {found[f'auto {jobs}'] / best:.2f}")
    for engine in MANY:
        series = [found["serial"], *(found[f"{engine} {jobs}"] for jobs in JOBS[1:])]
        worst = max((seconds / min(series[:i]) for i, seconds in enumerate(series) if i), default=1)
        print(f"{engine}: more jobs take at most {worst:.2f} of what fewer take")


if __name__ == "__main__":
    main()
