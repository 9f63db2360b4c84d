"""Ctrl-C, SIGTERM and SIGHUP: at once while there is nothing to undo, and in an orderly way after that."""

import os
import signal
import subprocess
import sys
import time

import h5py
import numpy as np
import pytest
import tensor_files
from folders import names
from needs import existing_signals
from processes import COMMAND, gone, until

from revseq_cli.core import signals
from revseq_cli.pipeline.lengths import ScannedSource

NUMBERS = existing_signals("SIGINT", "SIGTERM", "SIGHUP")
pytestmark = pytest.mark.needs("signals")

# Inside `deferred`: what the process does until a second signal ends it.
LOOP = """
import ctypes, time
from revseq_cli.core import signals
signals.handle_signals()
with signals.defer():
    print("begun", flush=True)
    {}
"""
IN_PYTHON = """
    try:
        while True:
            time.sleep(0.01); signals.check()
    except signals.Stopped:
        print("stopped", flush=True)
        time.sleep(1000)
"""
# C code that holds Python's lock, in which no handler of Python is called, as libhdf5 in a damaged file.
IN_C = """
    library, memory = ctypes.PyDLL(None), ctypes.create_string_buffer(1 << 26)
    compare = ctypes.cast(library.memcmp, ctypes.c_void_p)
    library.qsort(memory, ctypes.c_size_t(1 << 26), ctypes.c_size_t(1), compare)
"""


def started(script):
    process = subprocess.Popen([sys.executable, "-c", script], stdout=-1, stderr=-1, text=True)
    assert process.stdout.readline() == "begun\n"
    return process


@pytest.mark.parametrize("number", NUMBERS)
def test_a_second_signal_ends_what_undoes_its_work(number):
    process = started(LOOP.format(IN_PYTHON))
    process.send_signal(number)
    assert process.stdout.readline() == "stopped\n"
    time.sleep(0.3)
    assert process.poll() is None
    process.send_signal(number)
    process.communicate()
    assert process.returncode == -number


@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux ends a process by itself after a first Ctrl-C"
)
def test_a_second_ctrl_c_ends_c_code():
    process = started(LOOP.format(IN_C))
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    process.communicate()
    assert (process.returncode, time.monotonic() - began < 1) == (-signal.SIGINT, True)


@pytest.mark.parametrize("number", NUMBERS)
def test_c_code_is_ended_while_there_is_nothing_to_undo(tmp_path, number):
    """As a damaged file lets libhdf5 loop for ever while its header is read."""
    (tmp_path / "x.npy").write_bytes(b"")
    code = (
        "import ctypes, sys; import revseq_cli.files as f\n"
        "def loops(*_):\n    print('begun', flush=True)\n    ctypes.PyDLL(None).sleep(1000)\n"
        "f.open_file = loops\nsys.argv = ['revseq', 'run', 'x.npy', '[1]', '--axis', '0', '-o', 'y.npy']\n"
        "import revseq_cli.__main__ as m; m.main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stdout=-1, stderr=-1, text=True
    )
    assert process.stdout.readline() == "begun\n"
    process.send_signal(number)
    _, err = process.communicate(timeout=5)
    assert (process.returncode, err) == (-number, "")


@pytest.mark.parametrize(
    ("engine", "number"), [*zip(["serial", "processes", "processes"], NUMBERS, strict=False)]
)
def test_one_signal_is_enough_and_leaves_nothing(held, small, engine, number):
    """Two at once are one, as timeout sends SIGTERM to the process and to its group: there is time to undo."""
    process, go = held(small, "--engine", engine, "--memory", "300K", "--jobs", "2")
    process.send_signal(number)
    if number == signal.SIGTERM:
        os.killpg(process.pid, number)
    go()
    _, err = process.communicate()
    gone(process)
    assert (process.returncode, err) == (-number, b"")
    assert names(small) == {"x.npy", "n.npy"}


def test_lengths_that_are_computed_of_the_data_are_stopped(monkeypatch):
    monkeypatch.setattr(signals, "_received", [(signal.SIGINT, 0.0)])
    with pytest.raises(signals.Stopped):
        ScannedSource(tensor_files.held(np.zeros((4, 8))), 1, (0,), 0.0).read()


def test_an_ignored_signal_stays_ignored(small):
    """As SIGHUP under nohup."""
    ignore = lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)  # noqa: E731
    job = [*COMMAND, "run", "x.npy", "n.npy", "--axis", "1", "-o", "z.npy", "--memory", "300K"]
    process = subprocess.Popen(job, cwd=small, preexec_fn=ignore)
    while process.poll() is None:
        process.send_signal(signal.SIGHUP)
        time.sleep(0.01)
    assert process.returncode == 0


@pytest.mark.needs("shell")
def test_a_reader_that_takes_nothing_does_not_keep_the_command(tmp_path):
    """Inside `deferred`, a write to a full pipe ends with the signal."""
    script = """
import sys, revseq_cli.__main__ as m
from revseq_cli.core import signals
signals.handle_signals()
sys.stdout = m._text_stream(sys.stdout)
try:
    with signals.defer():
        sys.stderr.write("begun\\n")
        sys.stderr.flush()
        while True:
            print("x" * 100_000, flush=True)
except signals.Stopped:
    signals.die()
"""
    process = subprocess.Popen([sys.executable, "-c", script], stdout=-1, stderr=-1)
    assert process.stderr.readline() == b"begun\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    until(lambda: process.poll() is not None)
    process.communicate()
    assert process.returncode == -signal.SIGTERM


def stop_after(folder, *args, seconds):
    """Ctrl-C after some time inside the work; the seconds until the command ended."""
    null = subprocess.DEVNULL
    with subprocess.Popen([*COMMAND, *args], cwd=folder, stdout=null, stderr=null) as process:
        time.sleep(seconds)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        process.wait(60)
    assert process.returncode == -signal.SIGINT
    return time.monotonic() - began


def test_ctrl_c_while_chunks_that_were_never_written_are_read(tmp_path):
    """HDF5 needs 5 s to find out that 400,000 chunks are not there, in a file of 447 bytes."""
    with h5py.File(tmp_path / "x.h5", "w", libver="latest") as file:
        file.create_dataset("x", (30_000_000,), "u1", chunks=(10,), compression="gzip")
    job = ("run", "x.h5::x", "[3]", "--axis", "0", "-o", "y.h5")
    assert stop_after(tmp_path, *job, seconds=3) < 3
    assert names(tmp_path) == {"x.h5"}


def test_ctrl_c_while_text_is_made(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((3000, 4000)))
    assert stop_after(tmp_path, "convert", "x.npy", "y.json", seconds=3) < 3
    assert names(tmp_path) == {"x.npy"}
