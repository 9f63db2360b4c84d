"""What tests need of the system. Those marked `needs("shell")` are skipped, with the reason, where it lacks that."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from functools import partialmethod
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import h5py
import numpy as np

from revseq_cli.core import platform

WINDOWS = os.name == "nt"
IS_WINE = WINDOWS and import_module("wine").IS_WINE
_STRACE = ["strace", "-qq", "-o", "/dev/null", "true"]


def _makes_links():
    """Whether a link that is made is one: Wine 8 says so and makes none."""
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(OSError):
        os.symlink(".", f"{folder}/link")
        return os.path.islink(f"{folder}/link")
    return False


# What a test may need: whether it is here, and why a test is skipped where it is not.
NEEDS = {
    "signals": (hasattr(signal, "SIGHUP"), "no signals reach another process, as SIGTERM, SIGHUP and SIGSTOP do"),
    "shell": (not WINDOWS and bool(shutil.which("sh")), "no POSIX shell"),
    "terminal": (bool(find_spec("termios")), "no terminals that a program makes"),
    "modes": (not WINDOWS, "no owner, group and mode of a file, and no umask"),
    "fifos": (hasattr(os, "mkfifo"), "no named pipes that are files"),
    "links": (_makes_links(), "no symbolic links"),
    "mounts": (bool(shutil.which("mount")), "no file system that the test can make"),
    "memory files": (os.path.isdir("/dev/shm") and platform.lies_in_memory("/dev/shm"), "no folder in memory"),
    "devices": (not WINDOWS and Path("/dev/full").exists(), "no devices that are files, as /dev/full is"),
    "proc": (not WINDOWS and Path("/proc/self/fd").exists(), "no /proc, which tells what a process has open"),
    "peak": (bool(find_spec("resource")), "no most memory of a process that has ended, as getrusage tells it"),
    "fork": (hasattr(os, "fork"), "no process that is forked and so has what a test changed in its parent"),
    "positioned calls": (hasattr(os, "pwrite"), "no positioned reads and writes of `os`, for which a test has its own"),
    "copies": (hasattr(os, "copy_file_range"), "no copies that the system makes by itself, as os.copy_file_range does"),
    "folder flushes": (not WINDOWS, "no flush of a folder: a name is on the disk when it is given"),
    "names by links": (not WINDOWS, "no new file that gets its name by a hard link, but by MoveFileEx"),
    "names of bytes": (not WINDOWS, "no names that are bytes: they are UTF-16, and half a character is one"),
    "cases": (not WINDOWS, "no two names in a folder that differ in case alone"),
    "colons": (not WINDOWS, "no colon in the name of a file"),
    "long doubles": (np.dtype("g").itemsize > 8, "no floats of C that are longer than FLOAT64"),
    "POSIX words": (not WINDOWS, "no words as a POSIX shell quotes and reads them"),
    "HDF5": (h5py.version.hdf5_version_tuple >= (2,), "this HDF5 puts the time into the root group of a file"),
    "superuser": (hasattr(os, "getuid") and not os.getuid(), "only the superuser can give files away"),
    "strace": (
        shutil.which("strace") and not subprocess.run(_STRACE, check=False).returncode,
        "strace is not installed, or may not trace",
    ),
    "ncdump": (
        all(map(shutil.which, ("ncdump", "ncgen", "nccopy", "h5dump"))),
        "ncdump, ncgen, nccopy and h5dump (Debian's netcdf-bin and hdf5-tools) are not installed",
    ),
    "safetensors": (
        int(version("safetensors").split(".")[1]) >= 5,
        "no safetensors that knows all data types: those after 0.4.3 do not start under Wine 8",
    ),
    "told deaths": (not IS_WINE, "no connection that ends when a process dies in a poll: Wine 8 keeps it open"),
    "zsh": (bool(shutil.which("zsh")), "zsh is not installed"),
    "fish": (bool(shutil.which("fish")), "fish is not installed"),
    "ps": (not WINDOWS and bool(shutil.which("ps")), "no sessions of processes, as ps tells them"),
}  # fmt: skip

# Modules of Python that Windows lacks; a test that uses one needs what it is about.
fcntl, pty, termios = (
    import_module(name) if find_spec("termios") else None for name in ("fcntl", "pty", "termios")
)


def existing_signals(*names):
    """The signals of those names; the name itself of one that the system lacks, for a test that needs signals."""
    return [getattr(signal, name, name) for name in names]


def lacking(marks):
    """The first thing that those marks need and this system lacks; None where it has them all."""
    return next((name for mark in marks for name in mark.args if not NEEDS[name][0]), None)


if WINDOWS:  # the texts that tests write are the same on every system
    Path.write_text = partialmethod(Path.write_text, newline="\n")
