"""`diff --on directml` for 20 jobs, in a Python for Windows that `.ci/directml` has made.

Lengths up to the axis size: ONNX Runtime's provider gives what revseq gives. Above it, DirectML's
own result is explained. The exit status is 1 if an answer is not as expected.
"""

import sys

import numpy as np
import onnxruntime
from click.testing import CliRunner

from revseq_cli.commands.cli import cli

open_session = onnxruntime.InferenceSession


def open_session_by_dxgi(*args, **options):
    """ONNX Runtime finds devices by DXCore, which this Wine lacks; with a number, it asks DXGI."""
    if options.get("providers") == ["DmlExecutionProvider"]:
        options["providers"] = [("DmlExecutionProvider", {"device_id": "0"})]
    return open_session(*args, **options)


def run_job(number, rng):
    """One job; whether its answer is as expected."""
    rank = 2 + number % 3
    sizes = tuple(int(n) for n in rng.integers(4, 9, rank))
    axis = number % rank
    is_above = number % 4 == 3
    lengths_sizes = tuple(1 if d == axis else n for d, n in enumerate(sizes))
    lengths = rng.integers(0, sizes[axis] + 1, lengths_sizes).astype(np.uint32)
    if is_above:
        lengths.flat[::2] = sizes[axis] + 1
    np.save("values.npy", rng.permutation(np.prod(sizes)).reshape(sizes).astype(np.float32))
    np.save("lengths.npy", lengths)
    words = ["diff", "--on", "directml", "values.npy", "lengths.npy", "--axis", str(axis)]
    done = CliRunner().invoke(cli, words, standalone_mode=False)
    status = done.return_value
    is_right = status == 0
    if is_above:
        is_right = status == 1 and "1.13 to 1.15" in done.output
    if not is_right:
        print(f"job {number}: status {status}, lengths {lengths.ravel()}, axis {axis} of {sizes}")
        print(done.output, done.exception)
    return is_right


def main():
    onnxruntime.InferenceSession = open_session_by_dxgi
    rng = np.random.default_rng(int(sys.argv[1]))
    answers = [run_job(number, rng) for number in range(20)]
    print(f"{len(answers)} jobs by diff --on directml, {answers.count(False)} not as expected")
    sys.stdout.flush()
    sys.exit(not all(answers))


if __name__ == "__main__":
    main()
