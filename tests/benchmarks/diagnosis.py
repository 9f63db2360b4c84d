"""What `diff` takes to explain wrong outputs: of a large one to a right one, and of many small ones.

    python tests/benchmarks/diagnosis.py [--folder DIR] [--runs 3] [--row WORD ...] [--memory 64MiB]

Large files have 256 MiB each. Prints processor times and peaks of memory of whole commands, medians of runs in turn.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
SIZES, AXIS = (4096, 128, 128), 1


def reversed_by(x, lengths):
    """One line after the other; x has the sizes above, and one length for each outer index and inner one."""
    j = np.arange(x.shape[AXIS])[None, :, None]
    out = np.empty_like(x)
    for i in range(0, len(x), 64):
        n = lengths[i : i + 64]
        out[i : i + 64] = np.take_along_axis(x[i : i + 64], np.where(j < n, n - 1 - j, j), AXIS)
    return out


def half_minus(x, n):
    """Lengths are one too small in the lines with odd numbers."""
    fewer = n.copy()
    fewer.reshape(-1)[1::2] -= 1
    return reversed_by(x, fewer)


LARGE = {
    "right": reversed_by,
    "all minus one": lambda x, n: reversed_by(x, n - 1),
    "half minus one": half_minus,
    "rounded": lambda x, n: reversed_by(x, n).astype(np.float16).astype(np.float32),
    "swapped": lambda x, n: reversed_by(x, n)[np.arange(len(x)) ^ 1],
    "noise": lambda x, n: np.where(np.random.default_rng(3).random(x.shape, np.float32) < 1e-4, 0.5, reversed_by(x, n)),
}


def make_large(folder):
    rng = np.random.default_rng(1)
    x = rng.standard_normal(SIZES, np.float32)
    n = rng.integers(1, SIZES[AXIS] + 1, (SIZES[0], 1, SIZES[2])).astype(np.uint32)
    np.save(folder / "x.npy", x)
    np.save(folder / "n.npy", n)
    for name, make in LARGE.items():
        np.save(folder / f"{name}.npy", make(x, n).astype(np.float32))


def make_small(folder, count):
    """So many wrong outputs of the mistakes that the tests make, spread over all of them, and their manifest."""
    sys.path.append(str(ROOT / "tests/support"))
    import oracle
    from mistakes import JOBS, MISTAKES

    rows = []
    for number, job in enumerate(JOBS.values()):
        np.save(folder / f"x{number}.npy", job.x)
        np.save(folder / f"n{number}.npy", job.given)
        for name, (make, _) in MISTAKES.items():
            wrong = make(job)
            if wrong is not None and not oracle.same_bits(wrong, job.right):
                a = f"{number} {name}.npy".replace("/", "-")
                np.save(folder / a, np.asarray(wrong, job.x.dtype))
                batch = {} if job.batch is None else {"batch-axis": job.batch}
                rows.append({"a": a, "input": f"x{number}.npy", "lengths": f"n{number}.npy", "axis": job.axis, **batch})
    chosen = [rows[i] for i in np.linspace(0, len(rows) - 1, count).astype(int)]
    (folder / "jobs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in chosen))


def measured(folder, *args):
    """The processor time and the peak memory in MiB of a command, and what it prints."""
    command = [sys.executable, "-m", "revseq_cli", *args]
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(command, cwd=folder, stdout=out, env=os.environ | {"NO_COLOR": "1"})
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, out.read().decode()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--row", nargs="+", choices=["small", *LARGE], default=["small", *LARGE])
    parser.add_argument("--count", type=int, default=140)
    parser.add_argument("--memory")
    parser.add_argument("--told", action="store_true", help="print what is told of each")
    options = parser.parse_args()
    memory = ("--memory", options.memory) if options.memory else ()
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        folder = options.folder or Path(temporary)
        made = []
        if "small" in options.row and not (folder / "jobs.jsonl").exists():
            made.append(multiprocessing.Process(target=make_small, args=(folder, options.count)))
        if {*options.row} & {*LARGE} and not (folder / "x.npy").exists():
            made.append(multiprocessing.Process(target=make_large, args=(folder,)))
        for each in made:  # a process of its own: the peak of a command begins with that of what starts it
            each.start()
            each.join()
        commands = {
            name: ("diff", "--manifest", "jobs.jsonl")
            if name == "small"
            else ("diff", f"{name}.npy", "--job", "x.npy", "n.npy", "--axis", str(AXIS), *memory)
            for name in dict.fromkeys((*({"right"} if {*options.row} & {*LARGE} else ()), *options.row))
        }
        found = {name: [] for name in commands}
        for _ in range(options.runs):
            for name, command in commands.items():
                found[name].append(measured(folder, *command))
        print("| output | CPU in s | to a right one | peak in MiB |\n|---|---|---|---|")
        medians = {name: [statistics.median(each[i] for each in runs) for i in (0, 1)] for name, runs in found.items()}
        for name, (seconds, peak) in medians.items():
            ratio = f"{seconds / medians['right'][0]:.2f}" if name in LARGE else "–"
            print(f"| {name} | {seconds:.2f} | {ratio} | {peak:.0f} |")
            if options.told:
                print(found[name][0][2].rstrip())


if __name__ == "__main__":
    main()
