"""Standard streams that are closed from the beginning: the work is done, and no file gets their numbers."""

import os
import subprocess

import numpy as np
import pytest
from processes import COMMAND

X = np.arange(12, dtype=np.float32).reshape(3, 4)
pytestmark = pytest.mark.needs("fork")


def run(folder, *args, closed):
    """The status and what came on the streams that are open."""
    np.save(folder / "x.npy", X)
    np.save(folder / "n.npy", np.array([2, 3, 4], np.uint32))

    def close():
        for number in closed:
            os.close(number)

    done = subprocess.run(
        [*COMMAND, *args],
        cwd=folder,
        stdout=None if 1 in closed else subprocess.PIPE,
        stderr=None if 2 in closed else subprocess.PIPE,
        stdin=None if 0 in closed else subprocess.DEVNULL,
        preexec_fn=close,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


JOB = ["x.npy", "n.npy", "--axis", "1", "--batch-axis", "0"]


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)])
def test_work_is_done_with_closed_streams(tmp_path, closed):
    status, _, err = run(tmp_path, "run", *JOB, "-o", "y.npy", closed=closed)
    assert (status, err or b"") == (0, b"")
    assert np.load(tmp_path / "y.npy")[0].tolist() == [1, 0, 2, 3]
    status, _, err = run(tmp_path, "diff", "x.npy", "x.npy", closed=closed)
    assert (status, err or b"") == (0, b"")
    assert run(tmp_path, "diff", "x.npy", "y.npy", closed=closed)[0] == 1
    pattern = ["--each", "x.npy", "--lengths", "n.npy", "--axis", "1", "--batch-axis", "0"]
    assert run(tmp_path, "batch", *pattern, "-o", "z.npy", closed=closed)[0] == 0
    assert np.load(tmp_path / "z.npy")[0].tolist() == [1, 0, 2, 3]


@pytest.mark.parametrize(
    "args", [["show", "x.npy"], ["run", *JOB], ["run", *JOB, "-o", "-", "-f", "npy"], ["--version"]]
)
def test_a_result_that_has_nowhere_to_go_is_an_error(tmp_path, args):
    status, _, err = run(tmp_path, *args, closed=(1,))
    assert status == 2
    assert b"standard output" in err
    assert b"Traceback" not in err
    assert run(tmp_path, *args, closed=(1, 2))[0] == 2


def test_closed_standard_input_is_empty(tmp_path):
    status, _, err = run(tmp_path, "run", "-", "n.npy", "--axis", "1", closed=(0,))
    assert status == 2
    assert b"standard input" in err
    assert b"Traceback" not in err
