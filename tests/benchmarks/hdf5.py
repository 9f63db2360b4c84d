"""Compressed and contiguous HDF5 through whole commands: ours, a plain h5py script, h5repack, and cp, in turn.

    python tests/benchmarks/hdf5.py [--folder DIR] [--gib 1] [--runs 3] [--jobs 2]

The compressed case is int16, gzip 4 and shuffle, chunks (1, 256, 1024); the script keeps chunks and filters, works chunk by
chunk, and so does h5repack, which only copies. The contiguous case is float32, against cp and sync of the file. The case
"others" is a NetCDF file of twice the size with one variable of 64 MiB that is reversed by --keep-others, against cp and
sync of the file. Every output is flushed to disk. Memory is the anonymous memory of all processes together, sampled.
"""

import argparse
import shutil
import statistics
import sys
import time
from pathlib import Path

import h5py
import netCDF4
import numpy as np
import throughput

SCRIPT = """
import sys, h5py, numpy as np
n = np.load(sys.argv[2])
with h5py.File(sys.argv[1]) as f, h5py.File(sys.argv[3], "w") as g:
    x = f["x"]
    y = g.create_dataset_like("x", x)
    at = np.arange(x.shape[1])[:, None]
    for i in range(0, x.shape[0], 8):
        m = np.minimum(n[i:i+8], x.shape[1]).astype(np.int64)
        y[i:i+8] = np.take_along_axis(x[i:i+8], np.where(at < m, m - 1 - at, at), 1)
"""


def make_compressed(path, gib):
    """Smooth rows with some noise, which gzip brings to about half."""
    shape = (int(2048 * gib), 256, 1024)
    rng = np.random.default_rng(1)
    with h5py.File(path, "w") as f:
        x = f.create_dataset(
            "x", shape, "i2", chunks=(1, 256, 1024), compression="gzip", compression_opts=4, shuffle=True
        )
        for i in range(shape[0]):
            wave = 3000 * np.sin(np.linspace(0, 6 + i % 7, 1024))
            x[i] = wave + rng.integers(-40, 40, (256, 1024))
    return (shape[0], 1, shape[2])


def make_contiguous(path, gib):
    shape = (int((1 << 21) * gib), 128)
    rng = np.random.default_rng(1)
    with h5py.File(path, "w") as f:
        x = f.create_dataset("x", shape, "f4")
        for i in range(0, shape[0], 1 << 15):
            x[i : i + (1 << 15)] = rng.random((1 << 15, 128), np.float32)
    return (shape[0], 1)


def make_others(path, gib):
    """Variables of 64 MiB each, twice as many bytes as asked for; the first one is reversed."""
    rng = np.random.default_rng(1)
    with netCDF4.Dataset(path, "w") as f:
        for name, size in {"time": 1024, "lat": 128, "lon": 128}.items():
            f.createDimension(name, size)
        for i in range(int(32 * gib)):
            v = f.createVariable(
                "x" if i == 0 else f"other{i}", "f4", ("time", "lat", "lon"), chunksizes=(16, 128, 128)
            )
            v[:] = rng.random(v.shape, np.float32)
    return (1024, 1, 128)


def cases(folder, gib, jobs):
    """Name -> commands by name, and the file that they write."""
    out = folder / "out.h5"
    made = (("gzip", make_compressed, 256), ("contiguous", make_contiguous, 128), ("others", make_others, 128))
    for name, make, size in made:
        x, n = folder / f"{name}-{gib}.h5", folder / f"{name}-{gib}-lengths.npy"
        if not x.exists():
            lengths_shape = make(x, gib)
            np.save(n, np.random.default_rng(2).integers(1, size + 1, lengths_shape).astype(np.uint32))
        what = f"{x}::x" if name != "others" else f"{x}::x --keep-others"
        ours = f"{throughput.COMMAND} run {what} {n} --axis 1 -o {out} --jobs"
        commands = {"revseq": f"{ours} {jobs}", "revseq, 1 job": f"{ours} 1"}
        if name == "gzip":
            commands["h5py script"] = f"{sys.executable} -c '{SCRIPT}' {x} {n} {out} && sync {out}"
            if shutil.which("h5repack"):
                commands["h5repack"] = f"h5repack -f SHUF -f GZIP=4 -l CHUNK=1x256x1024 {x} {out} && sync {out}"
        commands["cp+sync"] = f"cp {x} {out} && sync {out}"
        yield name, commands, out


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/revseq-bench"))
    parser.add_argument("--gib", type=float, default=1)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    print(
        f"{time.strftime('%Y-%m-%d')}, {options.gib} GiB, {options.jobs} jobs, medians of {options.runs} runs in turn"
    )
    print("| case | command | seconds | ours to it | MiB |\n|---|---|---|---|---|")
    for name, commands, out in cases(options.folder, options.gib, options.jobs):
        found = {peer: [] for peer in commands}
        for _ in range(options.runs):
            for peer, command in commands.items():
                found[peer].append(throughput.timed(command, out))
        seconds = {peer: statistics.median(run[0] for run in runs) for peer, runs in found.items()}
        for peer, runs in found.items():
            peak = max(run[1] for run in runs)
            print(f"| {name} | {peer} | {seconds[peer]:.2f} | {seconds['revseq'] / seconds[peer]:.2f} | {peak:.0f} |")
        out.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
