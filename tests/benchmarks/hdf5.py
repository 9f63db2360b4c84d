"""Compressed and contiguous HDF5 through whole commands: ours, a plain h5py script, h5repack, and cp, in turn.

    python tests/benchmarks/hdf5.py [--folder DIR] [--gib 1] [--runs 3] [--jobs 2]
    python tests/benchmarks/hdf5.py --cores [--folder /dev/shm] [--mib 256 2048] [--seconds 170]

The compressed case is int16, gzip 4 and shuffle, chunks (1, 256, 1024); the script keeps chunks and filters, works chunk by
chunk, and so does h5repack, which only copies. The contiguous case is float32, against cp and sync of the file. The case
"others" is a NetCDF file of twice the size with one variable of 64 MiB that is reversed by --keep-others, against cp and
sync of the file. Every output is flushed to disk. Memory is the anonymous memory of all processes together, sampled.

With --cores, it is int16 in four files: .npy, contiguous, chunks without filters, and chunks with gzip 4 and shuffle; by 1
job, 2, 4 and so on, up to the number of cores. It needs no netCDF4, and as many bytes as five times the largest of --mib.
The limit of gzip is as many processes that only inflate and deflate the same bytes with zlib, started as ours are. After
the first round, what takes longer than 5 s is left out; the best of all rounds is printed.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import h5py
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
    import netCDF4

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


KINDS = ("gzip", "zlib", ".npy", "contiguous", "chunks")
CHUNK = (1, 256, 1024)
# One of several processes: the file, the places of its chunks, how many processes there are, and which one it is.
ZLIB = """
import os, struct, sys, zlib
fd, places = os.open(sys.argv[1], os.O_RDONLY), open(sys.argv[2], "rb").read()
for i, (offset, size) in enumerate(struct.iter_unpack("<2q", places)):
    if i % int(sys.argv[3]) == int(sys.argv[4]):
        zlib.compress(zlib.decompress(os.pread(fd, size, offset)), 4)
"""


def make_all(folder, mib):
    """The same values in all four files. The values repeat after 64 MiB, so that little must be deflated here."""
    repeated = np.empty((min(128, 2 * mib), *CHUNK[1:]), "i2")
    rng = np.random.default_rng(1)
    for i in range(len(repeated)):
        repeated[i] = 3000 * np.sin(np.linspace(0, 6 + i % 7, CHUNK[2])) + rng.integers(-40, 40, CHUNK[1:])
    shape = (2 * mib, *CHUNK[1:])
    np.save(folder / "n.npy", rng.integers(1, CHUNK[1] + 1, (shape[0], 1, CHUNK[2])).astype("u4"))
    npy = np.lib.format.open_memmap(folder / "x.npy", "w+", "i2", shape)
    for i in range(0, shape[0], len(repeated)):
        npy[i : i + len(repeated)] = repeated[: shape[0] - i]
    with h5py.File(folder / "contiguous.h5", "w") as f:
        f.create_dataset("x", data=npy)
    with h5py.File(folder / "chunks.h5", "w") as f:
        f.create_dataset("x", data=npy, chunks=CHUNK)
    with h5py.File(folder / "gzip.h5", "w") as f:
        x = f.create_dataset("x", shape, "i2", chunks=CHUNK, compression="gzip", compression_opts=4, shuffle=True)
        x[: len(repeated)] = repeated
        for i in range(len(repeated), shape[0]):
            x.id.write_direct_chunk((i, 0, 0), x.id.read_direct_chunk((i % len(repeated), 0, 0))[1])
        f.flush()
        infos = []
        x.id.chunk_iter(infos.append)
    np.array([(each.byte_offset, each.size) for each in infos], "<i8").tofile(folder / "places")


def seconds(*commands):
    """How long the commands take together, started at once."""
    began = time.perf_counter()
    processes = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for command in commands]
    for process in processes:
        assert process.wait() == 0, process.args
    return time.perf_counter() - began


def measured(folder, kind, jobs):
    """Seconds of one kind of file, or of the limit."""
    if kind == "zlib":
        line = [sys.executable, "-c", ZLIB, str(folder / "gzip.h5"), str(folder / "places"), str(jobs)]
        return seconds(*([*line, str(i)] for i in range(jobs)))
    name, out = ("x.npy", "out.npy") if kind == ".npy" else (f"{kind}.h5", "out.h5")
    line = [sys.executable, "-m", "revseq_cli", "run", str(folder / name), str(folder / "n.npy"), "--axis", "1"]
    found = seconds([*line, "-o", str(folder / out), "--feature-level", "none", "--jobs", str(jobs)])
    (folder / out).unlink()
    return found


def on_cores(folder, sizes, limit):
    """The tables for --cores."""
    cores = len(os.sched_getaffinity(0))
    jobs = sorted({min(cores, 1 << i) for i in range(cores.bit_length() + 1)})
    ends = time.monotonic() + limit
    print(f"{time.strftime('%Y-%m-%d')}, {cores} cores, h5py {h5py.__version__}, HDF5 {h5py.version.hdf5_version}")
    for mib in sizes:
        own = Path(tempfile.mkdtemp(prefix="hdf5-", dir=folder))
        try:
            share = time.monotonic() + (ends - time.monotonic()) / (len(sizes) - sizes.index(mib))
            make_all(own, mib)
            best = {}
            # One job deflates 20 to 50 MiB a second.
            cases = [(kind, n) for n in jobs for kind in KINDS if kind not in ("gzip", "zlib") or mib / n <= 256]
            first = True
            while first or time.monotonic() + sum(best[each] for each in cases) < share:
                for case in cases:
                    best[case] = min(best.get(case, 1e9), measured(own, *case))
                cases = [each for each in cases if best[each] <= 5]
                first = False
            report(mib, jobs, best)
        finally:
            shutil.rmtree(own)


def report(mib, jobs, best):
    """Print the table of one size."""
    print(f"\n| {mib} MiB, seconds | " + " | ".join(f"{n} jobs" for n in jobs) + " |\n|---" + "|---" * len(jobs) + "|")

    def row(name, numbers):
        print(f"| {name} | " + " | ".join((numbers.get(n) and f"{numbers[n]:.2f}") or "" for n in jobs) + " |")

    found = {kind: {n: best[kind, n] for n in jobs if (kind, n) in best} for kind in KINDS}
    for kind in KINDS:
        row(kind, found[kind])
    for kind in ("gzip", "zlib"):
        if 1 in found[kind]:
            row(f"{kind}: times as fast as 1", {n: found[kind][1] / number for n, number in found[kind].items()})
    for kind, other in (("gzip", "zlib"), ("contiguous", ".npy"), ("chunks", ".npy")):
        row(f"{kind} to {other}", {n: number / found[other][n] for n, number in found[kind].items()})
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/revseq-bench"))
    parser.add_argument("--gib", type=float, default=1)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--cores", action="store_true")
    parser.add_argument("--mib", type=int, nargs="+", default=[256, 2048])
    parser.add_argument("--seconds", type=float, default=170)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.cores:
        on_cores(options.folder, options.mib, options.seconds)
        return
    print(
        f"{time.strftime('%Y-%m-%d')}, {options.gib} GiB, {options.jobs} jobs, medians of {options.runs} runs in turn"
    )
    print("| case | command | seconds | ours to it | MiB |\n|---|---|---|---|---|")
    for name, commands, out in cases(options.folder, options.gib, options.jobs):
        figures = throughput.in_turn(commands, out, options.runs)
        for peer, (seconds, peak) in figures.items():
            print(f"| {name} | {peer} | {seconds:.2f} | {figures['revseq'][0] / seconds:.2f} | {peak:.0f} |")


if __name__ == "__main__":
    main()
