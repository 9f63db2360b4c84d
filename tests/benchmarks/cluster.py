"""The dask engine on a scheduler and single-threaded worker processes over TCP, against the process engine, in turn.

    python tests/benchmarks/cluster.py [--folder DIR] [--gib 4] [--workers 2] [--runs 3] [--blocks 100 100000]

The cluster runs already, and has run a command. The first table has the seconds of whole commands on lines of 128
FLOAT32 elements, every output flushed, with as many jobs as workers; processor seconds are those of all processes, less
what an idle cluster takes. The second has commands on one line: what every command costs. The third has the client's
peak memory for so many blocks of 4 KiB, which must not grow with them, and the seconds that each more block takes.
Input and output are `--gib` each, and lie in `--folder`: 16 GiB with 16 workers take less than three minutes in memory.
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import distributed
import numpy as np
import psutil
import throughput

COMMAND = [sys.executable, "-m", "revseq_cli"]


@contextlib.contextmanager
def cluster(folder, workers):
    """The options for a cluster that is ready, and its scheduler and workers."""
    file = folder / "scheduler.json"
    file.unlink(missing_ok=True)
    here = ("--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", file)
    roles = [("scheduler", "--port", 0)] + [("worker", "--nthreads", 1, "--memory-limit", 0)] * workers
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
    started = [psutil.Popen([sys.executable, "-m", "dask.__main__", *map(str, (*r, *here))], **silent) for r in roles]
    try:
        while not file.exists():
            time.sleep(0.1)
        with distributed.Client(scheduler_file=str(file), set_as_default=False) as client:
            client.wait_for_workers(workers)
        yield ["--engine", "dask", "--scheduler-file", str(file)], started
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait()


def processor(started):
    """The processor's seconds of these processes and their children, and of our own children that have ended."""
    family = [each for process in started for each in (process, *process.children(recursive=True))]
    return sum(sum(each.cpu_times()[:2]) for each in family) + sum(os.times()[2:4])


def timed(command, started=()):
    """Seconds, and the processor's seconds."""
    before, began = processor(started), time.perf_counter()
    subprocess.run([*map(str, command)], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began, processor(started) - before


def in_turn(commands, runs, started):
    """The medians of each command's seconds and processor's seconds."""
    began = processor(started)
    time.sleep(2)
    idle = (processor(started) - began) / 2
    found = {name: [] for name in commands}
    for _ in range(runs):
        for name, (command, out) in commands.items():
            out.unlink(missing_ok=True)
            seconds, cores = timed(command, started)
            found[name].append((seconds, cores - idle * seconds))
            out.unlink()
    return {name: [statistics.median(each) for each in zip(*figures, strict=True)] for name, figures in found.items()}


def table(found, base, bar):
    print(f"\n| engine | seconds | to {base} | processor's seconds | to {base} |\n|---|---|---|---|---|")
    for name, figures in found.items():
        columns = (f"{each:.2f} | {each / found[base][i]:.2f}" for i, each in enumerate(figures))
        print(f"| {name} | {' | '.join(columns)} |", flush=True)
    print(bar)


def reverse(x, n, out, *options):
    return [*COMMAND, "run", x, n, "--axis", "1", "-o", out, "--feature-level", "none", *options]


def speed(folder, dask, started, options):
    x, n, _ = throughput.make(folder, "lines-128", options.gib)
    out, jobs = folder / "out.npy", options.workers
    engines = {"processes": ["--engine", "processes", "--jobs", jobs], "dask": dask}
    commands = {name: (reverse(x, n, out, *each), out) for name, each in engines.items()}
    bar = 1.2 if jobs <= 2 else 1.3
    table(in_turn(commands, options.runs, started), "processes", f"bar: dask in {bar} times the seconds of processes")
    x.unlink()
    n.unlink()


def fixed(folder, dask, started):
    x, n, out = folder / "line.npy", folder / "line-lengths.npy", folder / "out.npy"
    np.save(x, np.zeros((1, 128), "f4"))
    np.save(n, np.full((1, 1), 7, np.uint32))
    engines = {"serial": ["--engine", "serial"], "dask": dask}
    commands = {name: (reverse(x, n, out, *each), out) for name, each in engines.items()}
    in_turn(commands, 1, started)  # workers load what they need
    table(in_turn(commands, 5, started), "serial", "bar: dask in 1.00 s")


def memory(folder, dask, blocks):
    """What the client holds at most in MiB, as the system counts it, and the seconds of the command."""
    x, n, out = folder / "blocks.npy", folder / "blocks-lengths.npy", folder / "out.npy"
    np.save(x, np.zeros((blocks, 4096), np.uint8))
    np.save(n, np.full((blocks, 1), 7, np.uint32))
    # From a small process: a child begins with the peak of the one that starts it.
    small = "import resource as r, subprocess, sys; subprocess.run(sys.argv[1:], check=True)"
    small += "; print(r.getrusage(r.RUSAGE_CHILDREN).ru_maxrss)"
    command = [sys.executable, "-c", small, *reverse(x, n, out, *dask, "--memory", "45000")]
    began = time.perf_counter()
    done = subprocess.run([*map(str, command)], stdout=subprocess.PIPE, text=True, check=True)
    seconds = time.perf_counter() - began
    for each in (x, n, out):
        each.unlink()
    return seconds, int(done.stdout) / 1024


def many(folder, dask, counts):
    print("\n| blocks | seconds | ms for each more | client's MiB |\n|---|---|---|---|")
    fewest = None
    for blocks in sorted(counts):
        seconds, size = memory(folder, dask, blocks)
        fewest = fewest or (blocks, seconds)
        each = (seconds - fewest[1]) / (blocks - fewest[0]) * 1000 if blocks > fewest[0] else 0
        print(f"| {blocks:,} | {seconds:.2f} | {each:.3f} | {size:.0f} |", flush=True)
    print("bar: 1 ms, and 72 MiB with as many blocks as with few")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/revseq-bench"))
    parser.add_argument("--gib", type=float, default=4)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--blocks", type=int, nargs="*", default=[100, 100_000])
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    print(f"{os.cpu_count()} cores, {options.workers} workers, {options.gib} GiB, {options.runs} runs, medians")
    with cluster(options.folder, options.workers) as (dask, started):
        fixed(options.folder, dask, started)
        speed(options.folder, dask, started, options)
        many(options.folder, dask, options.blocks)


if __name__ == "__main__":
    main()
