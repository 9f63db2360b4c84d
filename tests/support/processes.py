"""The command as a process of its own session: started, watched, and seen to leave nothing."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

# The command as a user starts it; where no script of it is installed, as Python starts it.
_SCRIPT = Path(sys.executable).with_name("revseq.exe" if os.name == "nt" else "revseq")
COMMAND = (
    [str(_SCRIPT)] if _SCRIPT.exists() or os.name != "nt" else [sys.executable, "-m", "revseq_cli"]
)


def start(folder, *args, env=(), overwrite=True, suffix=".npy"):
    """The usual job of a folder, onto an old output."""
    job = ("run", f"x{suffix}", "n.npy", "--axis", "1", "-o", f"y{suffix}")
    command = [*COMMAND, *job, *["--overwrite"] * overwrite, *args]
    return subprocess.Popen(
        command,
        cwd=folder,
        env=os.environ | dict(env),
        stdout=-1,
        stderr=-1,
        start_new_session=True,
    )


# Run first in a command, lets so many threads and processes start, and no more.
FEW = """
import errno, multiprocessing.process, threading
def few(kind, most, error):
    real, left = kind.start, [most]
    def start(self):
        left[0] -= 1
        if left[0] < 0:
            raise error
        real(self)
    kind.start = start
few(threading.Thread, {threads}, RuntimeError("can't start new thread"))
few(multiprocessing.process.BaseProcess, {processes}, OSError(errno.EAGAIN, "Resource temporarily unavailable"))
"""

_PEAK = (
    "import resource, subprocess, sys; done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, text=True);"
    "print(done.stdout, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, done.returncode, sep='\\n')"
)


def peak(folder, *args):
    """Standard output, the most memory in KiB, and the status; measured from a small process, whose size counts too."""
    command = [sys.executable, "-c", _PEAK, *COMMAND, *map(str, args)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    out, memory, status = done.stdout.rsplit("\n", 3)[:3]
    return out, int(memory), int(status)


def members(group):
    """The living processes of a session."""
    found = subprocess.run(
        ["ps", "-s", str(group), "-o", "pid=,stat="], capture_output=True, text=True, check=False
    )
    return [
        int(line.split()[0]) for line in found.stdout.splitlines() if "Z" not in line.split()[1]
    ]


PATIENCE = 120  # seconds; what has not come by then, even on a busy machine, does not come


def until(condition):
    """Wait for it; AssertionError when it does not come."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def gone(process):
    """Wait until no process of its session is left."""
    until(lambda: not [pid for pid in members(process.pid) if pid != process.pid])


def handles_signals(pid):
    """Whether our own handlers are in place; before, it is Python that starts."""
    try:
        with open(f"/proc/{pid}/status") as f:
            caught = next(int(line.split()[1], 16) for line in f if line.startswith("SigCgt"))
    except (OSError, StopIteration):  # it ended
        return True
    return bool(caught >> (signal.SIGHUP - 1) & 1)


def workers(process):
    """The worker processes of a run."""
    return [
        pid
        for pid in members(process.pid)
        if pid != process.pid and b"resource_tracker" not in _cmdline(pid)
    ]


def _cmdline(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read()
    except OSError:
        return b""
