"""Lines along the first axis in little memory: through a temporary file, directly, and `cp` and `sync`, in turn.

    python tests/benchmarks/tiling.py [--folder DIR] [--gib 1] [--rows 32768] [--memory 64MiB ...] [--runs 3] [--cold]

Prints for each memory and each way the median seconds, the ratio to
`cp` and `sync` of the same round, and the seconds of all cores. With --cold, the input leaves the page cache before
each run. It takes three times the tensor's size on the disk. The outputs of both ways are compared.
"""

import argparse
import filecmp
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

WAY = (
    "import sys; from revseq_cli.core import thresholds; thresholds.SHORT_RUN = {short};"
    "from revseq_cli.__main__ import main; sys.exit(main())"
)
WAYS = {"tiles": 1 << 30, "direct": 0}


def make(folder, gib, rows):
    """The input and its lengths, made once."""
    x, n = folder / f"tiling-{gib}-{rows}.npy", folder / f"tiling-{gib}-{rows}-lengths.npy"
    columns = int(gib * (1 << 28)) // rows
    if not n.exists():
        rng = np.random.default_rng(1)
        piece = rng.integers(0, 256, 1 << 24, np.uint8)
        with open(x, "wb") as f:
            np.lib.format.write_array_header_1_0(f, {"descr": "<f4", "fortran_order": False, "shape": (rows, columns)})
            f.writelines(piece for _ in range(rows * columns * 4 // piece.size))
            f.flush()
            os.fsync(f.fileno())
        np.save(n, rng.integers(0, rows + 1, (1, columns)).astype(np.uint32))
    return x, n


def timed(command, x, out, *, cold):
    """Seconds, and seconds of all cores."""
    out.unlink(missing_ok=True)
    if cold:
        with open(x, "rb") as f:
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True)
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ours(way, x, n, out, memory, *more):
    job = ["run", x, n, "--axis", "0", "-o", out, "--feature-level", "none", "-q", "--memory", memory, *more]
    return [sys.executable, "-c", WAY.format(short=WAYS[way]), *map(str, job)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, default=Path("/tmp"))
    parser.add_argument("--gib", type=float, default=1)
    parser.add_argument("--rows", type=int, default=1 << 15)
    parser.add_argument("--memory", nargs="+", default=["64MiB", "256MiB", "1GiB"])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--way", nargs="+", choices=WAYS, default=list(WAYS))
    args = parser.parse_args()
    x, n = make(args.folder, args.gib, args.rows)
    outputs = {way: args.folder / f"tiling-{way}.npy" for way in WAYS}
    copy = args.folder / "tiling-copy.npy"
    try:
        for memory in args.memory:
            found = {way: [] for way in args.way}
            for _ in range(args.runs):
                base, _ = timed(["sh", "-c", f"cp {x} {copy} && sync {copy}"], x, copy, cold=args.cold)
                copy.unlink()
                for way in args.way:
                    seconds, cores = timed(ours(way, x, n, outputs[way], memory), x, outputs[way], cold=args.cold)
                    found[way].append((seconds, seconds / base, cores))
            if len(found) == 2:
                assert filecmp.cmp(*outputs.values(), shallow=False)
            for way, runs in found.items():
                seconds, ratio, cores = (statistics.median(column) for column in zip(*runs, strict=True))
                print(f"{memory:8} {way:8} {seconds:8.2f} s  {ratio:6.2f} times cp and sync  {cores:6.2f} s of cores")
            sys.stdout.flush()
    finally:
        for path in (*outputs.values(), copy):
            path.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
