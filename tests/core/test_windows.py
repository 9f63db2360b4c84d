"""What only Windows has: names, files that others have open, events of the console, and its own limits."""

import os
import signal
import stat
import subprocess
import sys
import time

import numpy as np
import pytest

if sys.platform != "win32":
    pytest.skip("Windows alone has these", allow_module_level=True)

import ctypes
from ctypes import wintypes

from revseq_cli import files
from revseq_cli.core import platform
from revseq_cli.core.errors import RevseqError
from revseq_cli.files import local
from revseq_cli.files.new import NewLocalFile
from revseq_cli.formats.references import Reference

ENDED = 0xC000013A  # what cmd.exe shows after Ctrl-C
LONGEST = 120  # seconds for what takes one, on a busy machine
# A job whose blocks take their time, those of workers too, which begin with this file. The first block leaves the file
# `reached` beside it; each line of its input is a signal.
HELD = """
import _thread, pathlib, sys, threading, time
from revseq_cli.formats import raw
from revseq_cli.__main__ import main

real = raw.RawTensor.write_region

def write(self, *rest):
    pathlib.Path(__file__).with_name("reached").touch()
    time.sleep(0.2)
    return real(self, *rest)

def send():
    for line in sys.stdin:
        _thread.interrupt_main(int(line))

raw.RawTensor.write_region = write
if __name__ == "__main__":
    threading.Thread(target=send, daemon=True).start()
    sys.argv = ["revseq", *sys.argv[1:]]
    main()
"""


@pytest.fixture
def process(tmp_path):
    """Run the command in a process of its own, with a pipe on each stream; what it writes on standard output."""

    def run(*args, stdin=b"", **options):
        command = [sys.executable, "-c", "from revseq_cli.__main__ import main; main()", *args]
        done = subprocess.run(
            command, input=stdin, capture_output=True, cwd=tmp_path, timeout=LONGEST, **options
        )
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout

    return run


@pytest.fixture
def job(tmp_path):
    """x.npy, n.npy and an old y.npy."""
    np.save(tmp_path / "x.npy", np.arange(1, 13, dtype=np.float32).reshape(3, 4))
    np.save(tmp_path / "n.npy", np.array([[2], [4], [3]], np.uint32))
    (tmp_path / "y.npy").write_bytes(b"old")
    return tmp_path


def opened_to_read(name):
    """What positioned reads find in the file."""
    with files.open_file(name) as fd:
        return fd.read(99, 0)


def opened(path):
    """A handle on a file, which others may not open, until it is closed."""
    kernel = ctypes.WinDLL("kernel32")
    kernel.CreateFileW.restype = wintypes.HANDLE
    handle = kernel.CreateFileW(str(path), 0x80000000, 0, None, 3, 0x80, None)
    assert handle != wintypes.HANDLE(-1).value
    return lambda: kernel.CloseHandle(wintypes.HANDLE(handle))


def left(folder):
    return sorted(each.name for each in folder.iterdir() if each.name not in ("x.npy", "n.npy"))


# Names


@pytest.mark.parametrize(
    "name", ["NUL", "sub/com1.npy", "x.npy:stream:$DATA", "out.npy ", r"\\.\C:\out.npy"]
)
def test_names_that_windows_would_take_for_others(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    for refuses in (
        Reference.file,
        lambda name: NewLocalFile(name, overwrite=True),
        opened_to_read,
    ):
        with pytest.raises(RevseqError, match="a device, a stream, or no name on Windows"):
            refuses(name)
    assert left(tmp_path) == []


def test_a_stream_is_no_way_around_a_file(revseq, job):
    """Each file has the stream ::$DATA, which is the file itself; behind :: stands the name of a tensor."""
    revseq("convert", "x.npy", "x.npy::$DATA", "--overwrite").refused("x.npy")
    assert np.load(job / "x.npy").size == 12


@pytest.mark.parametrize("key", ["AUX", "a/COM1", "a./b"])
def test_names_inside_a_zarr_store_are_names_of_folders(revseq, job, key):
    before = left(job)
    revseq("convert", "x.npy", f"z.zarr::{key}").refused(f"z.zarr::{key}: ", "no name on Windows")
    assert left(job) == before


def test_a_drive_is_no_key_and_no_stream(revseq, job):
    r"""C:\x.h5::/a is a file and a dataset; C:x is a file in the current folder of the drive."""
    drive, _ = os.path.splitdrive(job)
    revseq("convert", f"{job}\\x.npy", f"{job}\\out.h5::/a").ok()
    assert "dataset /a" in revseq("show", f"{job}\\out.h5::/a").out
    revseq("convert", f"{drive}x.npy", f"{drive}out.npy").ok()
    assert left(job) == ["out.h5", "out.npy", "y.npy"]


@pytest.mark.parametrize("suffix", ["npy", "h5"])
def test_paths_of_more_than_260_characters(revseq, job, suffix):
    folder = job
    for _ in range(3):
        folder = folder / ("d" * 100)
        os.mkdir(f"\\\\?\\{folder}")
    path = f"{folder}\\y.{suffix}"
    revseq("convert", "x.npy", os.path.relpath(path, job)).ok()
    revseq("diff", "x.npy", path).ok()
    revseq("convert", "x.npy", f"\\\\?\\{path}", "--overwrite").ok()
    assert os.listdir(f"\\\\?\\{folder}") == [f"y.{suffix}"]


# An output that is an input


def test_an_output_that_is_an_input_by_another_name(revseq, job, monkeypatch):
    monkeypatch.chdir(job)
    os.link(job / "x.npy", job / "hard.npy")
    ways = ["X.NPY", ".\\x.npy", f"\\\\?\\{job}\\x.npy", str(job).upper() + "\\x.npy", "hard.npy"]
    with files.open_file("x.npy") as fd:
        identity = fd.identity
    for way in ways:
        with pytest.raises(RevseqError, match="also an input"):
            NewLocalFile(way, overwrite=True, inputs=[identity])
    revseq("run", "x.npy", "n.npy", "--axis", "1", "-o", "X.NPY", "--overwrite").refused(
        "also an input"
    )
    assert np.load(job / "x.npy").size == 12


# Files that others have open


def test_an_output_that_is_an_input_behind_a_junction(revseq, job):
    import _winapi

    (job / "folder").mkdir()
    (job / "x.npy").rename(job / "folder" / "x.npy")
    try:
        _winapi.CreateJunction(str(job / "folder"), str(job / "junction"))
    except OSError as e:
        pytest.skip(f"no junctions here: {e}")
    done = revseq(
        "run", "folder\\x.npy", "n.npy", "--axis", "1", "-o", "junction\\x.npy", "--overwrite"
    )
    done.refused("also an input")


def test_an_input_that_nobody_may_open(revseq, job):
    close = opened(job / "x.npy")
    begin = time.monotonic()
    revseq("show", "x.npy").refused(
        "x.npy: cannot open: another program has it open", "Hint: close it there"
    )
    assert time.monotonic() - begin < LONGEST / 2
    close()
    revseq("show", "x.npy").ok()


@pytest.mark.parametrize("suffix", ["npy", "h5"])
def test_an_output_that_another_program_has_open(revseq, job, suffix):
    old = job / f"y.{suffix}"
    old.write_bytes(b"old")
    with old.open("rb") as file:
        done = revseq("run", "x.npy", "n.npy", "--axis", "1", "-o", old.name, "--overwrite")
        done.refused(f"{old.name}: cannot replace: another program has it open", "close it there")
        assert file.read() == b"old"
    assert old.read_bytes() == b"old"
    assert not list(job.glob(".revseq*"))


def test_others_may_rename_and_remove_what_is_read_and_written(tmp_path):
    (tmp_path / "x").write_bytes(b"data")
    with files.open_file(str(tmp_path / "x")) as fd:
        (tmp_path / "x").rename(tmp_path / "z")
        assert fd.read(9, 0) == b"data"
    file = NewLocalFile(str(tmp_path / "y"), overwrite=False)
    file.create()
    with local.open_to_write(file.temporary, "y"):
        file.remove()
    assert left(tmp_path) == ["z"]


def test_a_read_only_file_is_not_replaced(revseq, job):
    os.chmod(job / "y.npy", stat.S_IREAD)
    done = revseq("convert", "x.npy", "y.npy", "--overwrite").refused("y.npy: read-only")
    assert done.err.splitlines()[-1] == "Hint: attrib -r y.npy"
    assert (job / "y.npy").read_bytes() == b"old"
    os.chmod(job / "y.npy", stat.S_IWRITE)
    revseq("convert", "x.npy", "y.npy", "--overwrite").ok()


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("C:\\a\\x-1.npy::/b", "C:\\a\\x-1.npy::/b"), ("a&b", '"a&b"'), ("a b\\", '"a b\\\\"'), ("", '""'),
        ("[1, 2]", '"[1, 2]"'), ('{"a":1}', '"{\\"a\\":1}"'), ("ü.npy", "ü.npy"), ("--axis=1", "--axis=1"),
    ],
)  # fmt: skip
def test_words_that_a_shell_would_take_for_more_are_quoted(text, word):
    assert platform.quote(text) == word
    assert split(f"revseq {word}") == ["revseq", text]


def split(line):
    """The words of a line as a program gets them."""
    library, shell, count = ctypes.WinDLL("kernel32"), ctypes.WinDLL("shell32"), ctypes.c_int()
    shell.CommandLineToArgvW.restype = ctypes.POINTER(ctypes.c_wchar_p)
    library.LocalFree.argtypes = (ctypes.c_void_p,)
    found = shell.CommandLineToArgvW(ctypes.c_wchar_p(line), ctypes.byref(count))
    words = found[: count.value]
    library.LocalFree(found)
    return words


def test_hints_are_for_this_system(revseq, job):
    hint = (
        revseq("convert", "x.npy", "no such\\y.npy").refused("no such folder").err.splitlines()[-1]
    )
    subprocess.run(f"cmd /c {hint.removeprefix('Hint: ')}", check=True, timeout=LONGEST)
    revseq("convert", "x.npy", "no such\\y.npy").ok()


# Positioned reads and writes


def test_reads_and_writes_at_an_offset_beyond_4_gib(tmp_path):
    os.close(platform.create_file(str(tmp_path / "x"), 0o666))
    data, place = bytes(range(256)) * 5, (1 << 32) + 77
    with local.open_to_write(str(tmp_path / "x"), "x") as fd:
        fd.allocate(100)
        assert os.path.getsize(tmp_path / "x") == 100
        fd.write(data[:50], 10)
        assert fd.write_runs([(place, memoryview(data))]) == []
    with files.open_file(str(tmp_path / "x")) as fd:
        assert fd.read(5000, place - 3) == b"\0\0\0" + data
        assert fd.read(100, 0) == bytes(10) + data[:50] + bytes(40)
        assert fd.read(9, place + len(data)) == b""


# The end


@pytest.fixture
def held(tmp_path, tmp_path_factory):
    """Start a job that takes long, and return once it writes, with what sends events of the console to it."""
    np.save(tmp_path / "x.npy", np.zeros((64, 1 << 12), np.float32))
    np.save(tmp_path / "n.npy", np.full((64, 1), 9, np.uint32))
    (tmp_path / "y.npy").write_bytes(b"old")
    script = tmp_path_factory.mktemp("held") / "held.py"
    script.write_text(HELD)
    started = []

    def run(*args):
        job = (
            "run",
            "x.npy",
            "n.npy",
            "--axis",
            "1",
            "-o",
            "y.npy",
            "--overwrite",
            "--memory",
            "64KiB",
        )
        process = subprocess.Popen(
            [sys.executable, script, *job, *args], cwd=tmp_path, stdin=-1, stderr=-1, bufsize=0
        )
        started.append(process)
        deadline = time.monotonic() + LONGEST
        while not script.with_name("reached").exists():
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return process, lambda event: process.stdin.write(f"{event}\n".encode())

    yield run
    for process in started:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stderr.close()


@pytest.mark.parametrize("engine", ["serial", "processes"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGBREAK])
def test_ctrl_c_and_ctrl_break_end_a_job_in_order(held, tmp_path, engine, number):
    process, send = held("--engine", engine, "--jobs", "2")
    assert [name for name in left(tmp_path) if name.startswith(".revseq")]
    send(int(number))
    assert process.stderr.read() == b""
    assert process.wait(LONGEST) == ENDED
    assert (left(tmp_path), (tmp_path / "y.npy").read_bytes()) == (["y.npy"], b"old")


def test_a_process_that_is_ended_by_force_leaves_the_old_file(held, tmp_path):
    process, _ = held("--engine", "serial")
    process.kill()
    process.wait(LONGEST)
    assert (tmp_path / "y.npy").read_bytes() == b"old"


# Streams


def test_standard_output_has_the_bytes_of_other_systems(process, job):
    """Lines end with a line feed, text is UTF-8, and tensors go through unharmed."""
    (job / "ä.json").write_text("[1, 2]")
    out = process("show", "ä.json")
    assert out.startswith("ä.json\n".encode())
    assert b"\r" not in out
    values = np.arange(256, dtype=np.uint8).reshape(4, 64)
    np.save(job / "bytes.npy", values)
    data = process("convert", "bytes.npy", "-", "-f", "npy")
    assert data == (job / "bytes.npy").read_bytes()
    process("convert", "-", "again.npy", stdin=data)
    assert (job / "again.npy").read_bytes() == data


def test_a_reader_that_leaves(job):
    """As `| Select-Object -First 1` does."""
    np.save(job / "large.npy", np.zeros((1 << 12, 64), np.float32))
    start = "from revseq_cli.__main__ import main; main()"
    command = [sys.executable, "-c", start, "convert", "large.npy", "-", "-f", "text"]
    with subprocess.Popen(command, cwd=job, stdin=-1, stdout=-1, stderr=-1) as process:
        assert process.stdout.read(5) == b"Outpu"
        process.stdout.close()
        assert (process.stderr.read(), process.wait(LONGEST)) == (b"", 0)


def test_patterns_are_names(tmp_path, monkeypatch):
    """No shell of Windows puts names in their place; a tensor as text stays as it is typed."""
    monkeypatch.chdir(tmp_path)
    for name in ("b.npy", "a.npy", "1"):
        (tmp_path / name).touch()
    assert [platform.expand_pattern(each) for each in ("show", "*.npy", "[1]", "[*]", "--a=*", "?.h5", "", ".\\?.npy")] == [
        ["show"], ["a.npy", "b.npy"], ["[1]"], ["[*]"], ["--a=*"], ["?.h5"], [""], [".\\a.npy", ".\\b.npy"],
    ]  # fmt: skip
