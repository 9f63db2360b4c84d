"""10,000 jobs of 12 elements through `revseq batch`, start-up included; and as if each flush took longer.

The bar is 12 seconds on 2 cores that nothing else uses. Each job is flushed to disk like any other: its line in the
journal, the file before it gets its name, and then its folder.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent.parent
JOBS = 10_000
# The command itself, with so many seconds more for each flush.
SLOWER = """
import os, sys, time

flush, seconds = os.fsync, float(sys.argv.pop(1))
os.fsync = lambda fd: (flush(fd), time.sleep(seconds))
from revseq_cli.__main__ import main

main()
"""


def manifests(folder):
    """Of .npy, with files of its own for each job, and of the page's first example."""
    rows = {"npy": [], "text": []}
    for i in range(JOBS):
        np.save(folder / f"x{i}.npy", np.arange(i, i + 12, dtype=np.float32).reshape(3, 4))
        np.save(folder / f"n{i}.npy", np.array([[2], [4], [3]], np.uint32))
        names = {"input": f"x{i}.npy", "lengths": f"n{i}.npy", "axis": 1, "output": f"y{i}.npy"}
        rows["npy"].append(names)
        rows["text"].append({"input": str(ROOT / "samples/example1.txt"), "output": f"y{i}.npy"})
    for name, jobs in rows.items():
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, jobs)))
    return [f"{name}.jsonl" for name in rows]


def seconds(folder, manifest, delay, options):
    """Of one run, into a folder without outputs."""
    for path in folder.glob("y*"):
        path.unlink()
    began = time.perf_counter()
    command = [sys.executable, "-c", SLOWER, str(delay), "batch", manifest, *options]
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def main():
    where = sys.argv[1] if len(sys.argv) > 1 else os.curdir
    with tempfile.TemporaryDirectory(dir=where) as name:
        folder = Path(name)
        for manifest in manifests(folder):
            for delay in (0, 0.002):
                times = {options: [] for options in (("--jobs", "1"), ())}
                for _ in range(3):
                    for options, found in times.items():
                        found.append(seconds(folder, manifest, delay, options))
                told = ", ".join(
                    f"{' '.join(options) or 'on all cores'} {statistics.median(each):.2f} s"
                    for options, each in times.items()
                )
                print(f"{manifest:10}  {delay * 1000:.0f} ms more for each flush: {told}", flush=True)


if __name__ == "__main__":
    main()
