"""Reading and printing numbers as text against Python's json for the same numbers, in one process, in turn.

    python tests/benchmarks/text.py [--numbers 1000000] [--runs 5]

Prints medians in seconds, and ours as a multiple of json's. One row of all numbers is as fast as rows of a thousand.
"""

import argparse
import json
import statistics
import time

import numpy as np

from revseq_cli.core.tensors import DataType
from revseq_cli.formats import text
from revseq_cli.formats.documents import Text, TextTypes
from revseq_cli.formats.text import open_json, write_json


def seconds(work, runs):
    found = []
    for _ in range(runs):
        began = time.perf_counter()
        result = work()
        found.append(time.perf_counter() - began)
    return statistics.median(found), result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--numbers", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    types = TextTypes(None, DataType.FLOAT32)
    rng = np.random.default_rng(1)
    print(
        "| values | sizes | json.dumps | notation | JSON | json.loads | notation | JSON |\n|---|---|---|---|---|---|---|---|"
    )
    one_nan = rng.standard_normal(options.numbers).astype("f4")
    one_nan[7] = np.nan
    for name, values in [
        ("FLOAT32", rng.standard_normal(options.numbers).astype("f4")),
        ("FLOAT32, one NaN", one_nan),
        ("FLOAT64", rng.standard_normal(options.numbers)),
        ("INT32", rng.integers(-1000, 1000, options.numbers, np.int32)),
        ("UINT64, all of it", rng.integers(0, 2**64 - 1, options.numbers, np.uint64)),
    ]:
        for sizes in ((-1, 1000), (1, -1), (-1, 1)):
            tensor = values.reshape(sizes)
            plain = tensor.tolist()
            dumps, dumped = seconds(lambda plain=plain: json.dumps(plain), options.runs)
            loads, _ = seconds(lambda dumped=dumped: json.loads(dumped), options.runs)
            row = [f"{dumps:.2f} s"]
            back = [f"{loads:.2f} s"]
            for write, read in ((text.write_notation, text.open_notation), (write_json, open_json)):
                wrote, written = seconds(lambda tensor=tensor, write=write: write(tensor), options.runs)
                written = Text("x", written)
                took, source = seconds(lambda read=read, t=written: read(t, None, types), options.runs)
                assert source.read().tobytes() == tensor.tobytes()
                row.append(f"{wrote / dumps:.1f}")
                back.append(f"{took / loads:.1f}")
            print(f"| {name} | {tensor.shape} | {' | '.join(row)} | {' | '.join(back)} |")


if __name__ == "__main__":
    main()
