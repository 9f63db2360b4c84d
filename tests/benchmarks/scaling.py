"""How whole commands scale with the cores: each engine and number of jobs in turn, to `cp` and `sync` of the same file.

    python tests/benchmarks/scaling.py [--folder /dev/shm/scaling] [--gib 4] [--runs 3] [--case NAME ...] [--read]

The table has the peak memory, too, to be held against `--memory`. Behind it, what auto takes is held against the best engine,
and more jobs against fewer. With --read, each output is read once, as the next command does: give a --folder on a disk.
hdf5.py and cluster.py measure HDF5 and dask in the same way.
"""

import argparse
import os
from pathlib import Path

import throughput

CORES = len(os.sched_getaffinity(0))
JOBS = [jobs for jobs in (1, 2, 4, 8, 16, 32) if jobs <= CORES]
MANY = ("threads", "processes", "auto")


def commands(x, n, axis, out, memory):
    """Name -> shell command."""
    ours = f"{throughput.COMMAND} run {x} {n} --axis {axis} -o {out} --feature-level none --memory {memory}"
    several = {f"{engine} {jobs}": f"{ours} --engine {engine} --jobs {jobs}" for engine in MANY for jobs in JOBS[1:]}
    return {"cp": f"cp {x} {out} && sync {out}", "serial": f"{ours} --engine serial"} | several


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm/scaling"))
    parser.add_argument("--gib", type=float, default=4)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--memory", default="1GiB")
    parser.add_argument(
        "--case", nargs="*", choices=throughput.CASES, default=["lines-8", "lines-128", "lines-4096", "middle"]
    )
    parser.add_argument("--read", action="store_true")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    print(f"{CORES} cores, {options.gib} GiB, medians of {options.runs}, --memory {options.memory}")
    print("| case | command | seconds | to cp | MiB |\n|---|---|---|---|---|")
    for name in options.case:
        x, n, axis = throughput.make(options.folder, name, options.gib)
        out = options.folder / "out.npy"
        wanted = commands(x, n, axis, out, options.memory)
        if options.read:
            wanted = {each: f"{command} && cat {out} > /dev/null" for each, command in wanted.items()}
        figures = throughput.in_turn(wanted, out, options.runs)
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
