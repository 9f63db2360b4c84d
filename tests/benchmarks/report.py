"""The figures that are held against a goal, in one table: each is a ratio of two that are measured in turn in one run.

    python tests/benchmarks/report.py [--folder DIR] [--memory-folder /dev/shm] [--gib 0.5] [--runs 5] [--row WORD ...]

A row is of some words, so that --row kernel measures those of the kernel alone. Seconds are medians, but for those of one
process, which are the least processor time. Files of --folder are on a disk, and those of --memory-folder in memory: both
need some three times --gib. Where a package or a program is missing, or a core, the row says so.
"""

import argparse
import contextlib
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import h5py
import kernel as kernels
import numpy as np
import scaling

import revseq_cli
from revseq_cli.core import system
from revseq_cli.operator import kernel

ROOT = Path(__file__).parent.parent.parent
PYTHON, COMMAND = sys.executable, scaling.COMMAND
PAGE = ROOT / "samples" / "page.md"


class MissingError(Exception):
    """What a row needs, and this machine lacks."""


def shell(command, folder=None):
    """What runs a line in a shell, and takes its time."""

    def run():
        began = time.perf_counter()
        subprocess.run(["bash", "-c", command], cwd=folder, stdout=subprocess.DEVNULL, check=True)
        return time.perf_counter() - began

    return run


def in_process(work, times=1):
    """What calls a function some times, and takes the processor time of one call."""

    def run():
        began = time.process_time()
        for _ in range(times):
            work()
        return (time.process_time() - began) / times

    return run


def ratio(ours, peer, runs, pick=statistics.median):
    """How much longer ours takes than the peer, in turn; the first round warms the caches."""
    times = [(ours(), peer()) for _ in range(runs + 1)][1:]
    return pick(each for each, _ in times) / pick(each for _, each in times)


def case(options, folder, name, *, synced, memory=""):
    x, n, axis = scaling.make(folder, name, options.gib)
    out = folder / "out.npy"
    ours = f"rm -f {out}; {COMMAND} run {x} {n} --axis {axis} -o {out} --feature-level none {memory}"
    return ours, f"rm -f {out}; cp {x} {out}" + f" && sync {out}" * synced


def file_rows(options):
    """Whole commands on large files, to `cp` or to one core."""
    jobs = min(16, os.cpu_count())

    for name in ("first", "lines-128"):
        ours, copy = case(options, options.memory_folder, name, synced=False)
        yield (
            f"{name}, in memory, {jobs} jobs, to cp",
            lambda o=ours, c=copy: ratio(shell(f"{o} --jobs {jobs}"), shell(c), options.runs),
        )
    for memory in ("256M", "1G"):
        ours, copy = case(options, options.folder, "first", synced=True, memory=f"--memory {memory}")
        yield (
            f"first, on disk, within {memory}, to cp and sync",
            lambda o=ours, c=copy: ratio(shell(o), shell(c), options.runs),
        )
    for name in ("lines-8", "lines-128", "lines-4096", "float64-128"):
        ours, _ = case(options, options.memory_folder, name, synced=False)
        yield (
            f"two jobs to one, in memory, {name}",
            lambda o=ours: ratio(shell(f"{o} --jobs 2"), shell(f"{o} --jobs 1"), options.runs),
        )

    def others():
        path = options.folder / "others.nc"
        with h5py.File(path, "w") as f:
            for i in range(max(2, int(options.gib * 16))):
                f.create_dataset(f"v{i}", data=np.random.default_rng(i).integers(0, 99, (1 << 17, 128), np.int32))
        np.save(options.folder / "n.npy", np.full((1 << 17, 1), 77, np.uint32))
        out = options.folder / "out.nc"
        ours = f"rm -f {out}; {COMMAND} run {path}::v0 n.npy --axis 1 -o {out} --keep-others"
        return ratio(shell(ours, options.folder), shell(f"rm -f {out}; cp {path} {out}; sync {out}"), options.runs)

    yield "--keep-others, one variable of 64 MiB, to cp and sync", others


def packed_rows(options):
    """Chunks that filters decode and encode, and the workers of a cluster."""
    jobs = min(16, os.cpu_count())

    def recoded():
        if not shutil.which("ncpdq"):
            raise MissingError("ncpdq")
        path, out = options.folder / "packed.nc", options.folder / "out.nc"
        with h5py.File(path, "w") as f:
            packed = {"compression": "gzip", "shuffle": True, "chunks": (1 << 12, 128)}
            for i in range(max(2, int(options.gib * 16))):
                f.create_dataset(f"v{i}", data=smooth(1 << 17, i), **packed)
        np.save(options.folder / "n.npy", np.full((1 << 17, 1), 77, np.uint32))
        ours = f"rm -f {out}; {COMMAND} run {path}::v0 n.npy --axis 1 -o {out} --keep-others --jobs {jobs}"
        peer = f"rm -f {out}; ncpdq -O -4 -L 4 -a -phony_dim_1 -v v0 {path} {out}"
        return ratio(shell(ours, options.folder), shell(peer, options.folder), options.runs)

    yield "--keep-others, one packed variable of 64 MiB, to ncpdq of that variable", recoded

    path, out = options.memory_folder / "x.h5", options.memory_folder / "out.h5"
    reversed_in = f"rm -f {out}; {COMMAND} run {path}::x n.npy --axis 1 -o {out} --jobs"

    def make():
        with h5py.File(path, "w") as f:
            packed = {"compression": "gzip", "compression_opts": 4, "shuffle": True, "chunks": (1 << 10, 128)}
            f.create_dataset("x", data=smooth(1 << 19, 1), **packed)
        np.save(options.memory_folder / "n.npy", np.full((1 << 19, 1), 77, np.uint32))

    def decoded():
        make()
        run = [shell(f"{reversed_in} {count}", options.memory_folder) for count in (1, jobs)]
        return ratio(*run, options.runs)

    yield f"HDF5, gzip 4 and shuffle, 256 MiB, one job to {jobs}", decoded

    def to_h5py():
        make()
        peer = (
            "import h5py, numpy as np; n = np.minimum(np.load('n.npy'), 128); at = np.arange(128); f = h5py.File('x.h5')\n"
            "x = f['x']; y = h5py.File('out.h5', 'w').create_dataset_like('y', x)\nfor i in range(0, len(x), 1024):\n"
            "    m = n[i : i + 1024].astype(int); at_m = np.where(at < m, m - 1 - at, at)\n"
            "    y[i : i + 1024] = np.take_along_axis(x[i : i + 1024], at_m, 1)"
        )
        lines = (f"{reversed_in} {jobs}", f'{PYTHON} -c "{peer}"')
        return ratio(*(shell(each, options.memory_folder) for each in lines), options.runs)

    yield f"the same, {jobs} jobs, to a loop with h5py", to_h5py

    def clustered():
        ours, _ = case(options, options.memory_folder, "lines-128", synced=False)
        with cluster(options.folder, jobs) as engine:
            dask = f"{ours} {' '.join(map(str, engine))}"
            return ratio(shell(dask), shell(f"{ours} --jobs {jobs}"), options.runs)

    yield f"lines-128, in memory, {jobs} workers of dask to as many jobs", clustered


@contextlib.contextmanager
def cluster(folder, workers):
    """The options for a dask cluster that is ready: a scheduler and workers with one thread each."""
    try:
        import distributed
        import psutil
    except ImportError as e:
        raise MissingError(e.name) from None
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
        yield ["--engine", "dask", "--scheduler-file", str(file)]
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait()


def smooth(rows, seed):
    """Values of rows of 128 that deflate to about half."""
    steps = np.random.default_rng(seed).integers(-3, 4, (rows, 128))
    return np.cumsum(steps, 1).astype(np.float32)


def kernel_rows(options):
    """The kernel in one process, to ONNX Runtime's operator on one thread, and to a copy of the same bytes."""
    elements = {"u1": 1 << 24, "f4": 1 << 22}
    for name, shape, axis, differ, dtype in (
        ("lines of 8", (-1, 8), 1, (0,), "f4"), ("lines of 128", (-1, 128), 1, (0,), "f4"),
        ("UINT8, lines of 128", (-1, 128), 1, (0,), "u1"), ("one length, lines of 128", (-1, 128), 1, (), "f4"),
        ("first of 1024", (1024, -1), 0, (1,), "f4"), ("{128,128,256}, a length a batch", (-1, 128, 256), 1, (0,), "f4"),
    ):  # fmt: skip
        values, lengths = kernels.job(shape, axis, differ, dtype, elements[dtype])
        ours = in_process(lambda v=values, n=lengths, a=axis: kernel.reverse(v, n, a))

        def to_runtime(values=values, lengths=lengths, axis=axis, ours=ours):
            try:
                peer = kernels.onnxruntime_call(values, lengths, axis)
            except ImportError as e:
                raise MissingError(e.name) from None
            return ratio(ours, in_process(peer), options.runs, min)

        yield f"kernel, {name}, to ONNX Runtime", to_runtime
        yield f"kernel, {name}, to a copy", lambda o=ours, v=values: ratio(o, in_process(v.copy), options.runs, min)


def small_rows(options):
    """What starts, and small jobs."""
    folder = options.folder
    example = f"{COMMAND} run {ROOT / 'samples' / 'example1.txt'}"
    for name, ours, peer in (
        ("--help to python -c pass", f"{COMMAND} --help", f"{PYTHON} -c pass"),
        ("a small job to import numpy", example, f"{PYTHON} -c 'import numpy'"),
    ):
        yield name, lambda o=ours, p=peer: ratio(shell(o), shell(p), 4 * options.runs)

    def call():
        values, lengths = np.arange(12, dtype=np.float32).reshape(3, 4), np.array([[2], [0], [4]], np.uint32)

        def peer():
            clamped, index = np.minimum(lengths, 4).astype(np.intp), np.arange(4)
            return np.take_along_axis(values, np.where(index < clamped, clamped - 1 - index, index), 1)

        ours = in_process(lambda: revseq_cli.reverse_subsequences(values, lengths, 1), 2000)
        return ratio(ours, in_process(peer, 2000), 4 * options.runs, min)

    yield "a Python call on 3 x 4, to take_along_axis with its index", call

    np.save(folder / "x.npy", np.arange(12, dtype=np.float32).reshape(3, 4))
    np.save(folder / "n.npy", np.array([[2], [0], [4]], np.uint32))
    rows = [{"input": "x.npy", "lengths": "n.npy", "axis": 1, "output": f"out/y{i}.npy"} for i in range(1000)]
    (folder / "jobs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    # Nothing is deleted before: ext4 then passes over each of the freed places, and takes four times as long.
    fresh = "{ mkdir -p old; mv out old/$RANDOM$RANDOM; mkdir out; mv jobs.jsonl.revseq-journal old; } 2>/dev/null"
    for name, flush in (
        ("to as many calls in one process", "pass"),
        ("to calls that flush, too", "for n in (f'out/y{i}.npy', 'out'): d = os.open(n, 0); os.fsync(d); os.close(d)"),
    ):
        peer = (
            "import numpy as np, os, revseq_cli\nfor i in range(1000):\n"
            "    np.save(f'out/y{i}.npy', revseq_cli.reverse_subsequences(np.load('x.npy'), np.load('n.npy'), 1))\n"
            f"    {flush}"
        )
        ours, theirs = f"{fresh}; {COMMAND} batch jobs.jsonl", f'{fresh}; {PYTHON} -c "{peer}"'
        yield (
            f"batch of 1,000 small jobs, each flushed, {name}",
            lambda o=ours, p=theirs: ratio(shell(o, folder), shell(p, folder), options.runs),
        )


def command_rows(options):
    """Commands that others have, too, or that could be written by hand."""
    folder = options.folder

    def listing():
        if not shutil.which("h5ls"):
            raise MissingError("h5ls")
        path = folder / "many.h5"
        with h5py.File(path, "w") as f:
            for i in range(10_000):
                f[f"g{i % 100}/d{i}"] = np.zeros(3)
        return ratio(shell(f"{COMMAND} show {path}"), shell(f"h5ls -r {path}"), options.runs)

    yield "show of 10,000 datasets, to h5ls -r", listing

    def pages():
        with contextlib.suppress(FileExistsError):
            (folder / "pages").mkdir()
        for i in range(1000):
            shutil.copy(PAGE, folder / "pages" / f"{i}.md")
        return ratio(shell(f"{COMMAND} verify pages", folder), shell(f"{COMMAND} verify {PAGE}", folder), options.runs)

    yield "verify of 1,000 copies of a page, to one", pages

    def text():
        values = np.random.default_rng(1).standard_normal((1000, 1000)).astype(np.float32)
        (folder / "x.json").write_text(json.dumps(values.tolist()))
        np.save(folder / "n.npy", np.full((1000, 1), 500, np.uint32))
        peer = (
            "import json, numpy as np; x = np.array(json.load(open('x.json')), np.float32); n = np.load('n.npy');"
            "i = np.arange(1000); y = np.take_along_axis(x, np.where(i < n, n - 1 - i, i), 1);"
            "json.dump(y.tolist(), open('y.json', 'w'))"
        )
        ours = shell(f"rm -f y.json; {COMMAND} run x.json n.npy --axis 1 -o y.json", folder)
        return ratio(ours, shell(f'{PYTHON} -c "{peer}"', folder), options.runs)

    yield "JSON of 1,000,000 FLOAT32 in and out, to json and NumPy", text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path.cwd())
    parser.add_argument("--memory-folder", type=Path, default=Path("/dev/shm"))
    parser.add_argument("--gib", type=float, default=0.5)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--row", nargs="*", default=[""])
    options = parser.parse_args()
    system.keep_freed_memory()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # a user's Python keeps what it has compiled
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "h5py", "click", "rich"))
    print(f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()} {platform.release()}, {options.gib} GiB")
    print(f"Python {platform.python_version()}, {packages}\n\n| what | ratio |\n|---|---|")
    with contextlib.ExitStack() as stack:
        for name in ("folder", "memory_folder"):
            made = tempfile.TemporaryDirectory(dir=getattr(options, name))
            setattr(options, name, Path(stack.enter_context(made)))
        for rows in (kernel_rows, small_rows, command_rows, file_rows, packed_rows):
            for name, measured in rows(options):
                if any(word in name for word in options.row):
                    try:
                        told = f"{measured():.2f}"
                    except MissingError as e:
                        told = f"{e} is not here"
                    print(f"| {name} | {told} |", flush=True)


if __name__ == "__main__":
    main()
