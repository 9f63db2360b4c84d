"""How whole commands scale with the cores: each part prints seconds, and the ratio to a peer measured in the same run.

    python tests/benchmarks/scaling.py [--folder /dev/shm/scaling] [--gib 4] [--runs 3] [PART ...]

Parts: `lines` (.npy, each engine and number of jobs, to `cp`, and what auto takes, to the best of all), `memory`
(the proportional set size of all processes together, to --memory), `disk` (write and then read the output once, to `cp`,
`sync` and `cat`; give a --folder on a disk). hdf5.py and cluster.py measure HDF5 and dask in the same way.
Runs the package of the current folder or of PYTHONPATH.
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

CORES = len(os.sched_getaffinity(0))
JOBS = [jobs for jobs in (1, 2, 4, 8, 16, 32) if jobs <= CORES]
COMMAND = [sys.executable, "-m", "revseq_cli"]
ENV = os.environ | {"PYTHONPATH": os.pathsep.join([os.environ.get("PYTHONPATH", ""), os.getcwd()])}
# Name -> data type, shape for 1 GiB, axis.
CASES = {
    "lines of 8": ("f4", (1 << 25, 8), 1),
    "lines of 128": ("f4", (1 << 21, 128), 1),
    "lines of 4096": ("f4", (1 << 16, 4096), 1),
    "axis in the middle": ("f4", (64, 4096, 1024), 1),
    "float64, lines of 128": ("f8", (1 << 20, 128), 1),
}


class Case:
    """The files of a case, made when it is entered and removed when it is left."""

    def __init__(self, folder, name, gib):
        dtype, shape, self.axis = CASES[name]
        self.name, self.x, self.n, self.out = name, folder / "x.npy", folder / "n.npy", folder / "y.npy"
        shape = (int(shape[0] * gib), *shape[1:])
        rng = np.random.default_rng(1)
        piece = rng.integers(0, 256, 1 << 24, np.uint8)
        with open(self.x, "wb") as f:
            header = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(f, header)
            left = int(np.prod(shape)) * np.dtype(dtype).itemsize
            f.writelines(piece[: left - done] for done in range(0, left, piece.size))
        lengths = [1 if d == self.axis else size for d, size in enumerate(shape)]
        np.save(self.n, rng.integers(0, shape[self.axis] + 1, lengths).astype(np.uint32))
        os.sync()

    def command(self, *options):
        files = (self.x, self.n, "--axis", self.axis, "-o", self.out)
        return [*COMMAND, "run", *map(str, (*files, "--feature-level", "none", *options))]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for path in (self.x, self.n, self.out):
            path.unlink(missing_ok=True)


def timed(case, *commands):
    """Seconds that the commands take one after another, from a state without an output."""
    case.out.unlink(missing_ok=True)
    began = time.perf_counter()
    for command in commands:
        subprocess.run(command, env=ENV, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def medians(case, runs, **commands):
    """Name -> median seconds; all in turn, the first time to warm up."""
    figures = {name: [] for name in commands}
    for run in range(runs + 1):
        for name, each in commands.items():
            seconds = timed(case, *each)
            if run:
                figures[name].append(seconds)
    return {name: statistics.median(each) for name, each in figures.items()}


def lines(case, runs):
    """Every engine and number of jobs, to `cp`; the reversal runs as users run it, with the output flushed."""
    commands = {"cp": [["cp", str(case.x), str(case.out)]], "serial": [case.command("--engine", "serial")]}
    for engine in ("threads", "processes"):
        commands |= {f"{engine} {jobs}": [case.command("--engine", engine, "--jobs", jobs)] for jobs in JOBS[1:]}
    commands |= {f"auto {jobs}": [case.command("--jobs", jobs)] for jobs in JOBS[1:]}
    found = medians(case, runs, **commands)
    for name, seconds in found.items():
        print(f"{case.name:22} {name:14} {seconds:7.2f} s  {seconds / found['cp']:5.2f} of cp", flush=True)
    for jobs in JOBS[1:]:
        allowed = [
            "serial",
            *(f"{engine} {few}" for engine in ("threads", "processes") for few in JOBS[1:] if few <= jobs),
        ]
        best = min(found[name] for name in allowed)
        print(f"{case.name:22} auto {jobs} to the best engine: {found[f'auto {jobs}'] / best:.2f}")
    for engine in ("threads", "processes", "auto"):
        series = [found["serial"], *(found[f"{engine} {jobs}"] for jobs in JOBS[1:])]
        worst = max((b / min(series[: i + 1]) for i, b in enumerate(series[1:])), default=1)
        print(f"{case.name:22} {engine}: more jobs take at most {worst:.2f} of what fewer take")


def disk(case, runs):
    """Write the output and read it once, as the next command does, to a plain copy."""
    copied = [["cp", str(case.x), str(case.out)], ["sync", str(case.out)]]
    read = ["cat", str(case.out)]
    ours = {f"{jobs} jobs": [case.command("--jobs", jobs)] for jobs in JOBS}
    found = medians(case, runs, cp=copied, **ours)
    both = medians(case, runs, cp=[*copied, read], **{name: [*each, read] for name, each in ours.items()})
    for name, seconds in found.items():
        ratios = f"{seconds / found['cp']:5.2f}, and read: {both[name]:7.2f} s  {both[name] / both['cp']:5.2f}"
        print(f"{case.name:22} {name:14} {seconds:7.2f} s  {ratios} of cp and sync", flush=True)


def memory(case, _runs):
    """The most memory of all processes together while they run, to what --memory allows."""
    for limit in (64, 256, 1024):
        for jobs in JOBS:
            case.out.unlink(missing_ok=True)
            options = ("--engine", "processes" if jobs > 1 else "serial", "--jobs", jobs, "--memory", f"{limit}MiB")
            peak = peak_of(case.command(*options))
            print(
                f"{case.name:22} --memory {limit:5} MiB, {jobs:2} jobs: {peak:7.0f} MiB, {peak - limit:+.0f}",
                flush=True,
            )


def peak_of(command):
    """The largest sum over all processes of a command of what is theirs, shared pages in equal parts, in MiB.

    Pages of files count only where they are mapped, and those of a file in memory belong to the file.
    """
    process = subprocess.Popen(command, env=ENV, start_new_session=True, stdout=subprocess.DEVNULL)
    most, done = [0.0], threading.Event()

    def sample():
        while not done.wait(0.02):
            most[0] = max(most[0], sum(map(proportional, members(process.pid))))

    sampler = threading.Thread(target=sample)
    sampler.start()
    assert process.wait() == 0
    done.set()
    sampler.join()
    return most[0]


def members(session):
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if int((folder / "stat").read_text().rsplit(")", 1)[1].split()[3]) == session:
                yield folder
        except OSError:
            continue


def proportional(folder):
    """Pss_Anon of a process: its anonymous memory, with a share of what it has in common with others."""
    try:
        text = (folder / "smaps_rollup").read_text()
    except OSError:
        return 0
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss_Anon:")) / 1024


PARTS = {"lines": lines, "disk": disk, "memory": memory}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm/scaling"))
    parser.add_argument("--gib", type=float, default=4)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--case", nargs="*", choices=CASES, default=list(CASES))
    options = parser.parse_args()
    options.folder.mkdir(exist_ok=True)
    print(f"{CORES} cores, {options.gib} GiB, medians of {options.runs}")
    for name in options.case:
        with Case(options.folder, name, options.gib) as case:
            for part in options.parts or PARTS:
                PARTS[part](case, options.runs)


if __name__ == "__main__":
    main()
