"""What tests/support/cli_runner.py puts back: a run finds nothing of what the one before it changed."""

import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from needs import WINDOWS


def warned(module):
    """Whether a warning that this module gives is an error."""
    with warnings.catch_warnings(record=True):
        try:
            exec("import warnings; warnings.warn('of its own', RuntimeWarning)", {"__name__": module})
        except RuntimeWarning:
            return True
    return False


def test_warnings_are_errors_in_our_own_modules_alone():
    ours = (
        "revseq_cli",
        "revseq_cli.formats.zarr.sink",
        __name__,
        "tests.formats.test_zarr",
        "conftest",
        "oracle",
        "generated_jobs",
    )
    assert [each for each in ours if not warned(each)] == []
    others = (
        "zarr.core.array",
        "numpy",
        "distributed.client",
        "h5py._hl.files",
        "revseq_client",
        "testsuite",
        "oracledb",
    )
    assert [each for each in others if warned(each)] == []


# Carries out two orders that run code of their own; the second one writes what it finds to standard error.
_TWO = """
import os, sys
tests, *codes = sys.argv[1:]
sys.path.insert(0, tests)
import cli_runner
kept, error = cli_runner.Kept(cli_runner.load_command("windows", "kernel32")), os.dup(2)
for code in codes:
    streams = [os.open(os.devnull, os.O_RDONLY), os.open(os.devnull, os.O_WRONLY), os.dup(error)]
    assert cli_runner.carry_out({"args": ["--version"], "code": code}, ".", streams, kept) == 0
"""
_CHANGE = """
import os, signal
from revseq_cli.formats import file_io
from revseq_cli.core import signals
os.environ["LEFT"] = "1"
file_io.left, signals.at_once["left"], file_io._bounce.left = True, print, True
os.pread = None
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.chdir("..")
"""
_TELL = """
import os, signal, sys
from revseq_cli.formats import file_io
from revseq_cli.core import signals
found = "LEFT" in os.environ, hasattr(file_io, "left"), "left" in signals.at_once
found += hasattr(file_io._bounce, "left"), os.pread is None, signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
sys.stderr.write(f"{found} {os.path.basename(os.getcwd())}")
"""


@pytest.mark.skipif(WINDOWS, reason="os.pread is one of the things that are put back")
def test_what_a_run_changes_is_put_back(tmp_path):
    command = [sys.executable, "-c", _TWO, str(Path(__file__).parent / "support"), _CHANGE, _TELL]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, f"{(False,) * 6} {tmp_path.name}")
