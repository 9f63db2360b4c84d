"""The dask engine on a scheduler and two single-threaded worker processes over TCP, against the process engine, in turn.

    python tests/benchmarks/cluster.py [--folder DIR] [--gib 4] [--runs 3] [--blocks 100 100000]

The first table has the seconds of whole commands on lines of 128 FLOAT32 elements, every output flushed to disk; the
cluster runs already. The second has the client's peak memory for so many blocks of 4 KiB: it must not grow with them.
"""

import argparse
import contextlib
import statistics
import subprocess
import sys
import time
from pathlib import Path

import distributed
import numpy as np
import throughput


@contextlib.contextmanager
def cluster(folder, workers=2):
    """The file with the scheduler's address."""
    file = folder / "scheduler.json"
    file.unlink(missing_ok=True)
    here = ("--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", file)
    roles = [("scheduler", "--port", 0)] + [("worker", "--nthreads", 1, "--memory-limit", 0)] * workers
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
    started = [
        subprocess.Popen([sys.executable, "-m", "dask.__main__", *map(str, (*r, *here))], **silent) for r in roles
    ]
    try:
        while not file.exists():
            time.sleep(0.1)
        with distributed.Client(scheduler_file=str(file)) as client:
            client.wait_for_workers(workers)
        yield file
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait()


def speed(folder, file, gib, runs):
    x, n, axis = throughput.make(folder, "lines-128", gib)
    out = folder / "out.npy"
    ours = f"{throughput.COMMAND} run {x} {n} --axis {axis} -o {out} --feature-level none --engine"
    commands = {"dask": f"{ours} dask --scheduler-file {file}", "processes": f"{ours} processes --jobs 2"}
    found = {name: [] for name in commands}
    for _ in range(runs):
        for name, command in commands.items():
            found[name].append(throughput.timed(command, out)[0])
    out.unlink()
    seconds = {name: statistics.median(each) for name, each in found.items()}
    print("| engine | seconds | to processes |\n|---|---|---|")
    for name, each in seconds.items():
        print(f"| {name} | {each:.2f} | {each / seconds['processes']:.2f} |")


def memory(folder, file, blocks):
    """What the client holds at most, as the system counts it."""
    x, n, out = folder / "blocks.npy", folder / "blocks-lengths.npy", folder / "out.npy"
    np.save(x, np.zeros((blocks, 4096), np.uint8))
    np.save(n, np.full((blocks, 1), 7, np.uint32))
    command = [throughput.COMMAND, "run", x, n, "--axis", "1", "-o", out, "--feature-level", "none", "--engine", "dask"]
    began = time.perf_counter()
    command = [*map(str, command), "--scheduler-file", str(file), "--memory", "45000"]
    # From a small process: a child begins with the peak of the one that starts it.
    small = "import resource as r, subprocess, sys; subprocess.run(sys.argv[1:], check=True)"
    small += "; print(r.getrusage(r.RUSAGE_CHILDREN).ru_maxrss)"
    done = subprocess.run([sys.executable, "-c", small, *command], stdout=subprocess.PIPE, text=True, check=True)
    for each in (x, n, out):
        each.unlink()
    print(f"| {blocks:,} | {time.perf_counter() - began:.1f} | {int(done.stdout) / 1024:.0f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/revseq-bench"))
    parser.add_argument("--gib", type=float, default=4)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--blocks", type=int, nargs="*", default=[100, 100_000])
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with cluster(options.folder) as file:
        speed(options.folder, file, options.gib, options.runs)
        print("\n| blocks | seconds | client's MiB |\n|---|---|---|")
        for blocks in options.blocks:
            memory(options.folder, file, blocks)


if __name__ == "__main__":
    main()
