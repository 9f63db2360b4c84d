"""Inputs that can be read only once: named pipes, and what shells make of <(...)."""

import json
import os
import signal
import subprocess
import threading

import numpy as np
import oracle
import pytest
from conftest import COMMAND, environment
from tensor_files import EXPECTED, N, X

TEXT = "InputTensor: (Sizes:{2}, DataType:INT8)\n[1, 2]\nSequenceTensor: (Sizes:{1}, DataType:UINT32)\n[2]\nAxis: 0\n"


@pytest.fixture
def folder(tmp_path):
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "n.npy", N)
    (tmp_path / "job.txt").write_text(TEXT)
    return tmp_path


pytestmark = pytest.mark.needs("fifos", "shell")


def test_process_substitution(folder, shell):
    for typed, expected in (
        ("revseq run <(cat x.npy) <(cat n.npy) --axis 1", EXPECTED),
        ("cat x.npy | revseq run - <(cat n.npy) --axis 1", EXPECTED),
        ("revseq run <(cat job.txt)::1", np.array([2, 1], np.int8)),
    ):
        assert shell(f"{typed} --overwrite -o y.npy", anew=True).ok().err == ""
        assert oracle.same_bits(np.load(folder / "y.npy"), expected)


@pytest.fixture
def filled(folder):
    """Makes a named pipe, into which a thread writes once."""

    def fill(name, data):
        os.mkfifo(folder / name)
        threading.Thread(target=(folder / name).write_bytes, args=(data,), daemon=True).start()

    return fill


@pytest.mark.parametrize(
    "typed",
    [
        "show p", "convert p y.h5", "diff x.npy p", "check p q --axis 1", "export p n.npy --axis 1 -o m.json",
        "diff right.npy --job p q --axis 1", "run p n.npy --axis 1 --engine processes -o y.npy",
    ],
)  # fmt: skip
def test_every_command_reads_a_pipe(revseq, filled, folder, typed):
    np.save(folder / "right.npy", EXPECTED)
    filled("p", (folder / "x.npy").read_bytes())
    if " q " in typed:
        filled("q", (folder / "n.npy").read_bytes())
    revseq(*typed.split()).ok()


def test_one_pipe_for_both_is_refused(revseq, folder):
    """Which reads nothing of it."""
    os.mkfifo(folder / "p")
    revseq("run", "p", "./p", "--axis", 1).refused(
        "only one of INPUT and LENGTHS can be p", "save the other to a file"
    )
    revseq("diff", "p", "p").refused("only one of A and B can be p")


def test_the_jobs_of_a_batch_share_no_pipe(revseq, folder):
    os.mkfifo(folder / "p")
    job = b'{"input": "p", "lengths": "n.npy", "axis": 1, "output": "y.npy"}'
    revseq("batch", "-", stdin=job).refused("line 1: input is p, a pipe", "share no pipe")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", ["contains no tensor"]), (b"\x89HDF\r\n\x1a\n" + bytes(99), [".h5 cannot be read from a pipe", "save it to a file first"]),
        (b"\x40\0\0\0\0\0\0\0" + b'{"x":' + bytes(99), [".safetensors cannot be read from a pipe", "save it to a file first"]),
        (b"\xff\xff\xff", ["not text: byte 0 is not UTF-8"]), (b"\x93NUMPY\1\0", ["truncated"]), (b"\x1f\x8b" + bytes(99), ["it looks like a gzip file", "Hint: unpack it: gunzip -c"]),
    ],
)  # fmt: skip
def test_what_a_pipe_cannot_hold(revseq, filled, data, words):
    filled("p", data)
    revseq("show", "p").refused("Error: p: ", *words)


def test_a_name_behind_a_pipe(revseq, filled, folder):
    filled("p", TEXT.encode())
    assert json.loads(revseq("convert", "p::InputTensor", "-", "-f", "json").ok().out)[
        "Values"
    ] == [1, 2]
    filled("q", TEXT.encode() * 2)
    revseq("run", "q").refused("2 examples")


def test_h53_a_signal_ends_the_wait_for_a_writer(folder):
    os.mkfifo(folder / "p")
    process = subprocess.Popen(
        [*COMMAND, "show", "p"], cwd=folder, stderr=subprocess.PIPE, env=environment()
    )
    writer = os.open(folder / "p", os.O_WRONLY)  # returns when it waits
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) == (None, b"")
    assert process.returncode == -signal.SIGINT
    os.close(writer)
