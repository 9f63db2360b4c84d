"""What all tests share: the real command, and the option that rewrites the golden samples."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
SAMPLES = ROOT / "samples"
COMMAND = Path(sys.executable).with_name("revseq")


def pytest_addoption(parser):
    parser.addoption("--rewrite-samples", action="store_true", help="write the golden samples anew, to be reviewed")


class Result:
    """What a run of the command left."""

    def __init__(self, done):
        self.status, self.raw, self.out = done.returncode, done.stdout, done.stdout.decode("utf-8", "replace")
        self.err = done.stderr.decode("utf-8", "replace")

    def ok(self):
        assert self.status == 0, self.err
        return self

    def refused(self, *words):
        """Exit 2, nothing on standard output, one error that has all the words, no traceback."""
        assert self.status == 2, self.out + self.err
        assert self.out == ""
        assert self.err.startswith("Error: ")
        assert "Traceback" not in self.err
        for word in words:
            assert word in self.err, self.err
        return self


@pytest.fixture
def files(tmp_path):
    """x.npy and n.npy of a small job."""
    np.save(tmp_path / "x.npy", np.arange(1, 13, dtype=np.float32).reshape(3, 4))
    np.save(tmp_path / "n.npy", np.array([[2], [4], [3]], np.uint32))
    return tmp_path


@pytest.fixture
def revseq(tmp_path):
    """Run the installed command in an empty folder."""

    def run(*args, stdin=b"", env=(), cwd=tmp_path):
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("REVSEQ_", "NO_COLOR", "FORCE_COLOR"))}
        done = subprocess.run(
            [COMMAND, *map(str, args)],
            input=stdin,
            capture_output=True,
            cwd=cwd,
            env=environment | dict(env),
            timeout=120,
            check=False,
        )
        return Result(done)

    return run
