"""Gives random jobs to DirectML and holds each answer against revseq and the formulas, bit for bit.

    python tests/directml/fresh_jobs.py FOLDER --count 200 --seed 7

FOLDER is what `.ci/directml` has made. Jobs have all data types, ranks 1 to 8, and lengths up to
the axis size, above it, and around 2^32. The exit status is 1 if an answer is not as expected.
"""

import argparse
import subprocess
import sys
from math import prod
from pathlib import Path

import numpy as np

import revseq_cli
from revseq_cli.operator import spec

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
import formulas

# Numbers of DML_TENSOR_DATA_TYPE.
TYPES = {
    "FLOAT32": 1, "FLOAT16": 2, "UINT32": 3, "UINT16": 4, "UINT8": 5, "INT32": 6, "INT16": 7,
    "INT8": 8, "FLOAT64": 9, "UINT64": 10, "INT64": 11,
}  # fmt: skip
MOST_ELEMENTS = 4096
EDGES = [0, 1, 2, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1]
WIDE_EDGES = [2**32, 2**32 + 1, 2**32 + 3, 2**33 + 2, 2**40, 2**40 + 2, 2**63, 2**64 - 1]
# Where a float has NaNs that are quiet and that signal, infinities, zeros and denormals.
EXPONENTS = {"FLOAT16": 0x7C00, "FLOAT32": 0x7F800000, "FLOAT64": 0x7FF0000000000000}


def make_sizes(rng):
    """Sizes of a random rank, of at most so many elements."""
    sizes = [1] * int(rng.integers(1, 9))
    for d in rng.permutation(len(sizes)):
        room = MOST_ELEMENTS // prod(sizes)
        most = min(room, int(rng.choice([3, 8, 70, 1500])))
        sizes[d] = int(rng.integers(1, most + 1))
    return tuple(sizes)


def make_values(rng, name, sizes):
    """Random bits; of floats, often such as hardware might change."""
    dtype = np.dtype(name.lower())
    if name not in EXPONENTS or rng.random() < 0.6:
        return np.frombuffer(rng.bytes(prod(sizes) * dtype.itemsize), dtype).reshape(sizes)
    exponent = EXPONENTS[name]
    sign = 1 << (8 * dtype.itemsize - 1)
    quiet = (exponent & -exponent) >> 1
    words = [0, 1, quiet - 1, exponent, exponent | 1, exponent | quiet, exponent | quiet | 5]
    words += [sign | word for word in words]
    return rng.choice(np.array(words, f"u{dtype.itemsize}"), sizes).view(dtype)


def make_lengths(rng, sizes, axis):
    """Lengths up to the axis size, around it, or of any size, in either type."""
    dtype = np.dtype(rng.choice(["uint32", "uint64"]))
    size = sizes[axis]
    shape = spec.lengths_sizes(sizes, axis)
    within = rng.integers(0, size + 1, shape).astype(dtype)
    edges = EDGES + (WIDE_EDGES if dtype.itemsize == 8 else [])
    match int(rng.integers(4)):
        case 0:
            return within
        case 1:
            return rng.choice(np.array([0, 1, size - 1, size, size + 1, size + 2], dtype), shape)
        case 2:
            return rng.choice(np.array(edges, dtype), shape)
        case _:
            return np.where(
                rng.random(shape) < 0.5, within, rng.choice(np.array(edges, dtype), shape)
            )


def make_jobs(count, seed):
    rng = np.random.default_rng(seed)
    for number in range(count):
        sizes = make_sizes(rng)
        axis = int(rng.integers(len(sizes)))
        values = make_values(rng, [*TYPES][number % len(TYPES)], sizes)
        yield values, make_lengths(rng, sizes, axis), axis


def run_in_directml(folder, jobs):
    """The bytes that DirectML gives for each job; the whole run fails if it refuses one."""
    work = folder / "run"
    lines = []
    for number, (values, lengths, axis) in enumerate(jobs):
        (work / f"{number}.in").write_bytes(values.tobytes())
        (work / f"{number}.len").write_bytes(lengths.tobytes())
        fields = {
            "id": number, "axis": axis,
            "type": TYPES[values.dtype.name.upper()], "lengths": TYPES[lengths.dtype.name.upper()],
            "sizes": ",".join(map(str, values.shape)), "lsizes": ",".join(map(str, lengths.shape)),
            "in": f"{number}.in", "len": f"{number}.len", "out": f"{number}.out",
        }  # fmt: skip
        lines.append(" ".join(f"{key}={value}" for key, value in fields.items()))
    (work / "jobs.txt").write_text("\n".join(lines) + "\n")
    command = ["wine", "dmlrun.exe", "DirectML.dll", "jobs.txt", "results.txt"]
    subprocess.run([folder / "enter", *command], check=True, timeout=580)
    results = (work / "results.txt").read_text().splitlines()
    assert results == [f"{number} run 0x00000000" for number in range(len(jobs))], results[-1:]
    for number, (values, _, _) in enumerate(jobs):
        yield (work / f"{number}.out").read_bytes()[: values.nbytes]


def find_fault(values, lengths, axis, answer):
    """What is wrong with the answer: nothing, or a few words."""
    words = values.view(f"u{values.itemsize}")
    if formulas.compute_newer(words, lengths, axis).tobytes() != answer:
        return "is not what the formula gives"
    is_as_documented = int(lengths.max()) <= values.shape[axis]
    result = revseq_cli.reverse_subsequences(values, lengths, axis=axis)
    if is_as_documented and np.ascontiguousarray(result).tobytes() != answer:
        return "is not what revseq gives"
    return ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, required=True)
    asked = parser.parse_args()
    jobs = [*make_jobs(asked.count, asked.seed)]
    faults = within = 0
    for number, answer in enumerate(run_in_directml(asked.folder, jobs)):
        values, lengths, axis = jobs[number]
        within += int(lengths.max()) <= values.shape[axis]
        fault = find_fault(values, lengths, axis, answer)
        if fault:
            faults += 1
            shape = "x".join(map(str, values.shape))
            print(f"job {number}, {values.dtype} {shape}, axis {axis}: DirectML's answer {fault}")
    print(
        f"seed {asked.seed}: {len(jobs)} jobs in DirectML, {faults} not as expected; "
        f"{within} have no length above the axis size"
    )
    sys.exit(faults > 0)


if __name__ == "__main__":
    main()
