"""What tests/rerun.py puts back: a run finds nothing of what the one before it changed."""

import subprocess
import sys
from pathlib import Path

import pytest
from needs import WINDOWS

# Carries out two orders that run code of their own; the second one writes what it finds to standard error.
_TWO = """
import os, sys
tests, *codes = sys.argv[1:]
sys.path.insert(0, tests)
import rerun
kept, error = rerun.Kept(rerun.load_command("windows", "kernel32")), os.dup(2)
for code in codes:
    streams = [os.open(os.devnull, os.O_RDONLY), os.open(os.devnull, os.O_WRONLY), os.dup(error)]
    assert rerun.carry_out({"args": ["--version"], "code": code}, ".", streams, kept) == 0
"""
_CHANGE = """
import os, signal, revseq_cli.formats.storage.positioned as positioned
from revseq_cli.ground import stopping
os.environ["LEFT"] = "1"
positioned.left, stopping.at_once["left"], positioned._bounce.left = True, print, True
os.pread = None
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.chdir("..")
"""
_TELL = """
import os, signal, sys, revseq_cli.formats.storage.positioned as positioned
from revseq_cli.ground import stopping
found = "LEFT" in os.environ, hasattr(positioned, "left"), "left" in stopping.at_once
found += hasattr(positioned._bounce, "left"), os.pread is None, signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
sys.stderr.write(f"{found} {os.path.basename(os.getcwd())}")
"""


@pytest.mark.skipif(WINDOWS, reason="os.pread is one of the things that are put back")
def test_what_a_run_changes_is_put_back(tmp_path):
    command = [sys.executable, "-c", _TWO, str(Path(__file__).parent), _CHANGE, _TELL]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, f"{(False,) * 6} {tmp_path.name}")
