"""What a trusted file tool survives, part 2: systems that fail. Their numbers are those of failure_modes.md.

After each the output is the old one or the complete new one, the inputs are untouched, nothing else is left, and what
went wrong is said in one message. The long loops are marked: pytest -m long.
"""

import contextlib
import errno
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import h5py
import numpy as np
import oracle
import pytest
import safetensors.numpy
import zarr
from conftest import COMMAND
from folders import content, names
from needs import WINDOWS, existing_signals
from processes import gone, handles_signals, start, until, workers

from revseq_cli.files.new import NewLocalFile
from revseq_cli.files.transactions import FileTransaction

JOB = ("run", "x.npy", "n.npy", "--axis", "1")
SMALL = oracle.reverse(
    np.arange(1, 13, dtype=np.float32).reshape(3, 4), np.array([[2], [4], [3]], np.uint32), 1
)


def remove(path):
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


# outputs that cannot be


@pytest.mark.parametrize(
    ("output", "words"),
    [("none/y.npy", "no such folder"), ("folder.npy", "is a folder"), ("y.dat", "unknown suffix"),
     ("x.npy/y.npy", "cannot write"), ("old.h5::a", "exists already"), ("y.npy::a", "has one tensor"),
     ("y" * 300 + ".npy", "a name of 304 characters" if WINDOWS else "cannot write"),
     ("y.npy/", "type y.npy\n"), ("y.h5/.", "type y.h5\n"), ("folder.npy/", "is a folder")],
)  # fmt: skip
def test_h38_outputs_that_cannot_be(revseq, files, output, words):
    (files / "folder.npy").mkdir()
    with h5py.File(files / "old.h5", "w") as f:
        f["a"] = np.zeros(3)
    before = names(files)
    revseq(*JOB, "-o", output).refused(words)
    assert names(files) == before
    revseq(*JOB, "-o", "y.zarr/").ok()  # which is a folder


@pytest.mark.needs("fifos")
def test_h39_pipes_and_devices(revseq, files):
    os.mkfifo(files / "pipe.npy")
    os.symlink("/dev/null", files / "null.npy")
    for output in ("pipe.npy", "null.npy", "/dev/full"):
        revseq(*JOB, "-o", output, "-f", "npy", "--overwrite").refused(output, "a pipe or a device")


# disks that fill or fail


@pytest.mark.needs("shell")
@pytest.mark.parametrize(
    ("source", "output", "only"),
    [*(("x.npy", output, False) for output in ("y.npy", "y.h5", "y.npz", "y.safetensors", "y.json")),
     *((source, "y.h5", only) for source in ("chunks.h5", "gzip.h5") for only in (True, False))],
)  # fmt: skip
def test_h40_a_full_disk_at_any_byte(shell, files, source, output, only):
    values = np.random.default_rng(1).integers(0, 2**32, (300, 300), np.uint32)
    np.save(files / "x.npy", values)
    for name, options in (
        ("chunks.h5", {"chunks": (30, 300)}),
        ("gzip.h5", {"chunks": (30, 100), "compression": 1}),
    ):
        with h5py.File(files / name, "w") as f:
            f.create_dataset("x", data=values, **options)
    np.save(files / "n.npy", np.ones((300, 1), np.uint32))
    before = names(files)
    for limit in (0, 3, 300):
        (files / output).write_bytes(b"old")
        job = ("run", source, *JOB[2:], "-o", output, "--overwrite", *["--only"] * only)
        done = shell(f"ulimit -f {limit}; revseq {' '.join(job)}")
        assert (done.status, done.err) == (2, f"Error: {output}: cannot write: File too large\n")
        assert (files / output).read_bytes() == b"old"
        assert names(files) == before | {output}


@pytest.mark.needs("mounts")
def test_h38_a_read_only_file_system(small_disk, files, revseq):
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    revseq(*JOB, "-o", "disk/y.npy").refused("disk/y.npy: cannot write: Read-only file system")


@pytest.mark.needs("shell")
def test_h38_a_current_folder_that_is_gone(tmp_path, shell):
    (tmp_path / "gone").mkdir()
    done = shell(
        "rmdir ../gone && exec revseq run [1] [1] --axis 0 -o y.npy", tmp_path / "gone", anew=True
    )
    done.refused("Error: the current folder no longer exists", "Hint: change to another")


# Each call of the operating system that a run makes, and what may go wrong with it.
CALLS = [
    ("open", errno.EMFILE), ("fstat", errno.EIO), ("preadv", errno.EIO), ("posix_fallocate", errno.ENOSPC),
    ("pwrite", errno.ENOSPC), ("write", errno.ENOSPC), ("fsync", errno.EIO), ("close", errno.EIO), ("fchmod", errno.EPERM),
    ("fchown", errno.EPERM), ("replace", errno.EIO), ("link", errno.EIO), ("unlink", errno.EIO),
]  # fmt: skip
# Those that are about what is written, and for the package zarr the writes of Python's file objects.
WRITING = ("pwrite", "write", "fsync", "close", "replace", "link")
# A tensor of 48 bytes goes through tiles, where its job has little memory.
SMALLER = {"WORTH_TILES": 0, "CACHE_LINE": 4, "CHEAP_RUN": 4}
JOBS = {
    "run npy": (*JOB, "-o", "y.npy", "--overwrite"),
    "run tiles": ("run", "f.npy", *JOB[2:], "-o", "y.npy", "--overwrite", "--memory", "100"),
    "run chunks": ("run", "c.h5", *JOB[2:], "-o", "y.h5", "--overwrite"),
    "run npz": (*JOB, "-o", "y.npz", "--overwrite"),
    **{f"run {suffix}": (*JOB, "-o", f"y.{suffix}") for suffix in ("h5", "safetensors", "zarr")},
    "convert npz": ("convert", "small.npz", "y.npz", "--overwrite"),
}
FAULTY = [
    pytest.param(
        job, *call, marks=() if hasattr(os, call[0]) else pytest.mark.needs("positioned calls")
    )
    for job in JOBS
    for call in CALLS
    if (job in ("run npy", "run tiles", "convert npz") or call[0] in WRITING)
    and (call[0] != "write" or job == "run zarr")
]


@pytest.fixture
def faulty(revseq, tmp_path_factory):
    """A run of which the n-th call of one function fails: what it left, and whether there were so many calls."""
    told = tmp_path_factory.getbasetemp() / "failed"

    def run(folder, call, number, n, *args):
        done = revseq(
            *args,
            cwd=folder,
            fault={"call": call, "number": number, "n": n, "told": str(told)},
            thresholds=SMALLER,
        )
        done.failed = bool(told.read_bytes())
        return done

    return run


@pytest.fixture
def jobs(files):
    """The inputs of all those jobs, and nothing else."""
    np.savez_compressed(files / "small.npz", x=SMALL)
    np.save(files / "f.npy", np.asfortranarray(np.load(files / "x.npy")))
    with h5py.File(files / "c.h5", "w") as f:
        f.create_dataset("x", data=np.load(files / "x.npy"), chunks=(2, 2))
    return files


@pytest.mark.parametrize(("job", "call", "number"), FAULTY)
def test_h41_the_nth_call_that_fails(faulty, jobs, job, call, number):
    args = JOBS[job]
    old = b"old" if "--overwrite" in args else None
    output = jobs / next(word for word in args if word.startswith("y."))
    inputs = content(jobs)
    for n in range(1, 200):
        if old:
            output.write_bytes(old)
        done = faulty(jobs, call, number, n, *args)
        left = names(jobs) - inputs.keys() - {output.name}
        assert not left or call == "unlink"
        assert {name: each for name, each in content(jobs).items() if name in inputs} == inputs
        # What fails after the file has its name is told, and the file is whole.
        assert done.status or (call, n) != ("fsync", 1)  # a flush is not tried again
        if not is_whole(output):
            assert output.read_bytes() == old if old else not output.exists()
            assert done.status
        if done.status:
            done.refused()
            assert "internal error" not in done.err
            assert any(name in done.err for name in (*inputs, output.name)), done.err
        for name in left | {output.name}:
            remove(jobs / name)
        if not done.failed:
            assert done.status == 0, done.err
            return
    raise AssertionError("more calls than expected")


def bytes_below(path):
    """The bytes of a file, or of each file of a folder."""
    if path.is_file():
        return path.read_bytes()
    files = [file for file in path.rglob("*") if file.is_file()]
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


@pytest.mark.parametrize("suffix", ["npz", "h5", "safetensors", "zarr"])
@pytest.mark.parametrize("call", ["pwrite", "write", "fsync", "close", "replace", "open"])
def test_h41_a_file_that_gets_a_tensor(faulty, revseq, jobs, suffix, call):
    """-o FILE::name: after an error FILE is as it was."""
    revseq(*JOB, "-o", f"FILE.{suffix}::old").ok()
    file, before, inputs = jobs / f"FILE.{suffix}", jobs / "before", names(jobs)
    os.rename(file, before)
    for n in range(1, 200):
        (shutil.copytree if before.is_dir() else shutil.copy)(before, file)
        done = faulty(jobs, call, errno.EIO, n, *JOB, "-o", f"{file.name}::new")
        if done.status:
            done.refused()
            assert "internal error" not in done.err
            assert any(name in done.err for name in (*inputs, file.name)), done.err
            assert bytes_below(file) == bytes_below(before)
        assert revseq("diff", f"{file.name}::old", f"{before.name}::old").ok()
        left = names(jobs) - inputs - {before.name}
        assert not left or "could not be removed" in done.err
        for name in left | {file.name}:
            remove(jobs / name)
        if not done.failed:
            assert done.status == 0, done.err
            return
    raise AssertionError("more calls than expected")


@pytest.mark.needs("shell")
@pytest.mark.parametrize("suffix", ["npz", "h5", "safetensors", "zarr"])
def test_h40_a_full_disk_while_a_file_gets_a_tensor(shell, revseq, files, suffix):
    values = np.random.default_rng(1).integers(0, 2**32, (300, 300), np.uint32)
    np.save(files / "x.npy", values)
    np.save(files / "n.npy", np.ones((300, 1), np.uint32))
    revseq(*JOB, "-o", f"FILE.{suffix}::old").ok()
    before, there = bytes_below(files / f"FILE.{suffix}"), names(files)
    for limit in (0, 3) if suffix == "zarr" else (0, 3, 100, 300):  # a chunk has 350 KB
        done = shell(f"ulimit -f {limit}; revseq {' '.join(JOB)} -o FILE.{suffix}::new")
        assert done.status == 2
        assert done.err.startswith(f"Error: FILE.{suffix}")
        assert "File too large" in done.err
        assert bytes_below(files / f"FILE.{suffix}") == before
        assert names(files) == there


READERS = {
    ".npy": np.load,
    ".npz": lambda path: next(iter(np.load(path).values())),
    ".safetensors": lambda path: next(iter(safetensors.numpy.load_file(path).values())),
    ".zarr": lambda path: zarr.open_array(path, mode="r")[...],
    ".h5": lambda path: next(iter(h5py.File(path).values()))[()],
}


def is_whole(path):
    if not path.exists() or (path.is_file() and path.read_bytes() == b"old"):
        return False
    return READERS[path.suffix](path).tobytes() == SMALL.tobytes()


@pytest.mark.needs("folder flushes", "names by links")
@pytest.mark.parametrize(
    ("call", "n", "words"),
    [("fsync", 2, "its folder could not be flushed: "), ("unlink", 1, "could not be removed: ")],
)
def test_h42_what_fails_when_the_output_is_complete_is_a_note(faulty, files, call, n, words):
    """A folder that cannot be flushed, or a temporary file that stays as a second name of the output."""
    done = faulty(files, call, errno.EIO, n, *JOB, "-o", "y.npy").ok()
    assert re.fullmatch(f"Note: y.npy is written, but .*{words}Input/output error\n", done.err)
    assert is_whole(files / "y.npy")


# What runs first in the process: a disk that stores another bit than it is given.
_LYING = """
import os
def pwrite(fd, data, offset, real=os.pwrite):
    changed = bytearray(data)
    if offset:
        changed[-1] ^= 1
    return real(fd, changed, offset)
os.pwrite = pwrite
"""


@pytest.mark.needs("positioned calls")
@pytest.mark.parametrize("job", [(*JOB, "-o", "y.npy"), ("convert", "x.npy", "y.npy")])
def test_h41_verify_finds_what_the_disk_has_changed(revseq, files, job):
    revseq(*job, code=_LYING).ok()
    written = np.load(files / "y.npy")
    revseq(*job, "--overwrite", "--verify", code=_LYING).refused("y.npy: ", "at [2, 3]")
    assert np.array_equal(np.load(files / "y.npy"), written)
    assert names(files) == {"x.npy", "n.npy", "y.npy"}
    revseq(*job, "--overwrite", "--verify").ok()


@pytest.mark.needs("modes")
def test_h61_what_was_private_is_at_no_time_for_others(tmp_path):
    path = tmp_path / "y.npy"
    path.touch(0o600)
    with FileTransaction(file := NewLocalFile(str(path), overwrite=True)):
        assert os.stat(file.temporary).st_mode & 0o777 == 0o600
    assert path.stat().st_mode & 0o777 == 0o600


# signals


def content_of(path):
    """Its bytes; of HDF5 and Zarr those of its values, since chunks lie in the order in which they were done."""
    if path.is_dir() or h5py.is_hdf5(path):
        return READERS[path.suffix](path).tobytes()
    return path.read_bytes() if path.exists() else None


# Starts the command as its script does, and gets a signal when a module is imported.
_STARTING = """
import os, signal, sys
wanted = sys.argv[1]
def hook(event, arguments):
    if event == "import" and arguments[0] == wanted:
        os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(hook)
sys.argv[1:] = ["show", "[1]"]
from revseq_cli.__main__ import main
main()
"""


@pytest.mark.needs("signals")
@pytest.mark.parametrize(
    "module", ["revseq_cli.core.signals", "click", "revseq_cli.commands.cli", "numpy"]
)
def test_h43_ctrl_c_while_the_command_starts(module):
    done = subprocess.run(
        [sys.executable, "-c", _STARTING, module], capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (-signal.SIGINT, b"")


# Commands for the kill loops, their outputs, and how often each signal ends them.
LOOPS = {
    "run npy": ((*JOB, "-o", "y.npy", "--overwrite", "--memory", "1M"), ("y.npy",), 60),
    "run h5": (
        ("run", "x.h5", *JOB[2:], "-o", "y.h5", "--overwrite", "--memory", "1M"),
        ("y.h5",),
        60,
    ),
    "convert npz": (("convert", "x.npy", "y.npz", "--overwrite", "--memory", "1M"), ("y.npz",), 20),
    "convert zarr": (("convert", "x.npy", "y.zarr", "--memory", "16M"), ("y.zarr",), 20),
    "batch": (("batch", "m.csv", "--overwrite", "-q", "--memory", "1M"), ("y.npy", "y.npz"), 20),
}


@pytest.mark.needs("signals")
@pytest.mark.long
@pytest.mark.parametrize("number", existing_signals("SIGINT", "SIGTERM", "SIGHUP", "SIGKILL"))
@pytest.mark.parametrize("job", LOOPS)
def test_h43_h44_kill_loops(tmp_path, job, number, revseq):
    """A signal at any moment, to the command or, as Ctrl-C on a terminal, to its workers, too."""
    args, outputs, times = LOOPS[job]
    rng = np.random.default_rng(2)
    sizes = (3000, 512) if job == "run h5" else (1 << 14, 1 << 10)
    np.save(tmp_path / "x.npy", rng.integers(0, 2**32, sizes, np.uint32))
    np.save(tmp_path / "n.npy", rng.integers(0, 513, (sizes[0], 1), np.uint32))
    with h5py.File(tmp_path / "x.h5", "w") as f:  # hard for gzip
        values = rng.integers(0, 1 << 30, (3000, 512), np.int32)
        f.create_dataset("x", data=values, chunks=(8, 512), compression="gzip", compression_opts=9)
    (tmp_path / "m.csv").write_text(
        "input,lengths,axis,output\nx.npy,n.npy,1,y.npy\nx.npy,n.npy,1,y.npz\n"
    )
    inputs = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    seconds = []
    for _ in range(3):
        for name in outputs:
            remove(tmp_path / name)
        began = time.monotonic()
        revseq(*args).ok()
        seconds.append(time.monotonic() - began)
    whole = {name: content_of(tmp_path / name) for name in outputs}
    chance = random.Random(f"{job}{number}")
    stopped = 0
    for _ in range(times):
        for name in outputs:
            remove(tmp_path / name)
            if not name.endswith(".zarr"):  # a folder is never replaced
                (tmp_path / name).write_bytes(b"old")
        command = [
            *COMMAND,
            *args,
            "--engine",
            chance.choice(["serial", "processes"]),
            "--jobs",
            "2",
        ]
        process = subprocess.Popen(
            command, cwd=tmp_path, stdout=-1, stderr=-1, start_new_session=True
        )
        until(lambda process=process: handles_signals(process.pid))
        time.sleep(chance.uniform(0, min(seconds)))
        chance.choice([os.killpg, os.kill])(process.pid, number)
        _, err = process.communicate()
        gone(process)
        assert process.returncode in (-number, 0), err
        stopped += process.returncode != 0
        # After SIGKILL, Python's own tracker may say which semaphores it cleaned up.
        assert re.fullmatch(rb"(Note: [^\n]*\n)*", err) or number == signal.SIGKILL
        for (
            name,
            right,
        ) in whole.items():  # the new output if the signal came just behind its last step
            left = content_of(tmp_path / name)
            assert left == right or (
                process.returncode and left == (None if name.endswith(".zarr") else b"old")
            )
        for name in names(tmp_path) - set(inputs) - set(outputs):
            assert number == signal.SIGKILL
            assert re.fullmatch(r"\.revseq-.*\.tmp", name)
            remove(tmp_path / name)
    assert stopped > times // 10  # how many is a matter of the machine
    assert {name: (tmp_path / name).read_bytes() for name in inputs} == inputs


def test_h44_what_a_kill_leaves_is_in_nobodys_way(held, small):
    for already in range(2):
        (small / "y.npy").write_bytes(b"old")
        process, _ = held(small, "--memory", "300K", "--engine", "processes")
        assert len(names(small)) == 4 + already
        process.kill()
        process.communicate()
        assert (small / "y.npy").read_bytes() == b"old"
    left = names(small) - {"x.npy", "n.npy", "y.npy"}
    assert len(left) == 2
    again = start(small)
    again.communicate()
    assert again.returncode == 0
    assert names(small) - {"x.npy", "n.npy", "y.npy"} == left


# workers


@pytest.mark.needs("signals")
def test_h45_a_worker_that_is_killed(held, small):
    process, _ = held(small, "--engine", "processes", "--memory", "300K", "--jobs", "2")
    for pid in workers(process):
        with contextlib.suppress(
            ProcessLookupError
        ):  # the second one may end as soon as the first one is dead
            os.kill(pid, signal.SIGKILL)
    _, err = process.communicate()
    gone(process)
    assert process.returncode == 2
    assert b"Error: a worker process died" in err
    assert b"out of memory?" in err
    assert names(small) == {"x.npy", "n.npy"}


# streams


@pytest.mark.needs("devices")
@pytest.mark.parametrize(
    "args", [("run", "--help"), ("--version",), ("run", "[1, 2]", "[2]", "--axis", "0")]
)
def test_h48_a_full_standard_output(forked, args):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*forked.command, *args], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert done.stderr == "Error: standard output: cannot write: No space left on device\n"


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize(
    ("args", "status"),
    [(("--help",), 0), (JOB, 0), ((*JOB, "-f", "npy"), 0), (("diff", "x.npy", "n.npy"), 1), (("diff", "x.npy", "x.npy"), 0),
     (("check", *JOB[1:], "--feature-level", "1_0"), 1), (("run", "x.npy", "absent.npy", "--axis", "1"), 2)],
)  # fmt: skip
def test_h49_a_reader_that_leaves(forked, tmp_path, args, status, stream):
    np.save(tmp_path / "x.npy", np.zeros((100, 1000), np.float32))
    np.save(tmp_path / "n.npy", np.ones((100, 1), np.uint32))
    read, write = os.pipe()
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: write}
    done = subprocess.Popen([*forked.command, *args], cwd=tmp_path, **streams)
    os.close(write)
    os.close(read)
    _, err = done.communicate()
    assert done.returncode == status
    if stream == "stdout" and status != 2:
        assert err == b""


# inputs that move


@pytest.mark.needs("ps")
@pytest.mark.parametrize(
    ("engine", "change"),
    [("serial", "cut"), ("serial", "rewrite"),
     *(("processes", change) for change in ("cut", "touch", "rewrite", "append", "replace"))],
)  # fmt: skip
def test_h46_h51_h52_an_input_that_changes_while_it_is_read(
    held, small, tmp_path_factory, engine, change
):
    """One message, and no worker goes on."""
    other = tmp_path_factory.mktemp("other")
    shutil.copy(small / "x.npy", other)
    process, go = held(small, "--engine", engine, "--memory", "300K", "--jobs", "2")
    if change == "cut":
        os.truncate(small / "x.npy", 1000)
    elif change == "touch":
        os.utime(small / "x.npy", ns=(5, 5))
    elif change == "replace":
        (other / "x.npy").rename(small / "x.npy")
    else:
        with open(small / "x.npy", "r+b") as f:
            f.seek(-4 if change != "append" else 0, os.SEEK_END)
            f.write(b"\xff\xff\xff\x7f")
    go()
    _, err = process.communicate()
    gone(process)
    assert process.returncode == 2
    assert err.count(b"Error: ") == 1
    assert b"x.npy: changed while it was read" in err or change == "cut"
    assert names(small) == {"x.npy", "n.npy"}


# What runs first in the process: the input changes behind the last read of it.
_BEHIND = """
import os
def preadv(fd, buffers, offset, real=os.preadv):
    count = real(fd, buffers, offset)
    if offset:
        os.utime("x.npy", ns=(5, 5))
    return count
os.preadv = preadv
"""


@pytest.mark.needs("positioned calls")
@pytest.mark.parametrize(
    "args",
    [(*JOB, "-o", "y.npy"), JOB, (*JOB, "-f", "npy"), ("convert", "x.npy", "y.npy"), ("convert", "x.npy", "y.json"),
     ("convert", "x.npy", "-"), ("convert", "x.npy", "-", "-f", "json"), ("convert", "x.npy", "-", "-f", "npy"),
     ("diff", "x.npy", "x.npy"), ("diff", "x.npy", "x.npy", "--picture", "d.svg"), ("export", *JOB[1:], "-o", "m.json")],
)  # fmt: skip
def test_h51_an_input_that_changes_behind_its_last_block(revseq, files, args):
    revseq(*args, code=_BEHIND).refused("x.npy: changed while it was read")
    assert names(files) == {"x.npy", "n.npy"}


# others who write


def test_h54_two_runs_to_one_output(held, small):
    ends = [held(small, "--memory", "300K") for _ in range(2)]
    assert len(names(small)) == 2 + 2
    for process, go in ends:
        go()
        _, err = process.communicate()
        assert (process.returncode, err) == (0, b"")
    assert names(small) == {"x.npy", "n.npy", "y.npy"}
    whole = oracle.expected(np.load(small / "x.npy"), np.load(small / "n.npy"), 1)
    assert np.array_equal(np.load(small / "y.npy"), whole)


WRITER = "import h5py, sys; f = h5py.File(sys.argv[1], 'a', libver='latest'); {}; print(flush=True); sys.stdin.read()"


@pytest.mark.parametrize("mode", ["pass", "f.swmr_mode = True"])
def test_h55_h56_a_file_that_another_process_writes(revseq, jobs, mode):
    with h5py.File(jobs / "c.h5", "w", libver="latest") as f:
        f["x"] = SMALL
    before = names(jobs)
    with subprocess.Popen(
        [sys.executable, "-c", WRITER.format(mode), jobs / "c.h5"], stdin=-1, stdout=-1
    ) as writer:
        writer.stdout.readline()
        revseq("run", "c.h5", *JOB[2:], "-o", "y.h5").refused(
            "c.h5: being written by another process"
        )
        writer.stdin.close()
    assert names(jobs) == before


# What runs first: files that cannot be locked.
_WITHOUT_LOCKS = """
import errno, h5py
class File(h5py.File):
    def __init__(self, name, mode="r", **options):
        if isinstance(name, str) and mode == "r" and options.get("locking") is not False:
            raise OSError(f"Unable to open file (unable to lock file, errno = {errno.ENOLCK}, error message = No locks)")
        super().__init__(name, mode, **options)
h5py.File = File
"""


def test_h55_a_file_system_without_locks(revseq, jobs):
    assert (
        revseq("run", "c.h5", *JOB[2:], "-o", "y.h5", "--engine", "serial", code=_WITHOUT_LOCKS)
        .ok()
        .err
        == ""
    )
    assert is_whole(jobs / "y.h5")


# little room


@pytest.mark.needs("devices")
@pytest.mark.parametrize("tmpdir", ["/nonexistent", "/dev/full"])
def test_h59_nothing_is_made_in_tmpdir(small, tmpdir):
    process = start(
        small, "--engine", "processes", "--memory", "300K", "--jobs", "2", env={"TMPDIR": tmpdir}
    )
    _, err = process.communicate()
    assert (process.returncode, err) == (0, b"")


@pytest.mark.needs("shell")
@pytest.mark.long
def test_h60_little_memory(files, shell):
    np.save(files / "x.npy", np.zeros((1000, 30_000), np.float32))
    np.save(files / "n.npy", np.ones((1000, 1), np.uint32))
    (files / "x.json").write_text(f"[[{'1,' * 20_000_000}1]]")
    before = names(files)
    little = f"ulimit -v {700 << 10}; revseq run"
    shell(f"{little} x.json [[1]] --axis 1", anew=True).refused("out of memory", "Hint: ")
    assert names(files) == before
    shell(f"{little} x.npy n.npy --axis 1 -o y.npy --memory 1M", anew=True).ok()


@pytest.mark.needs("shell", "modes")
def test_h61_permissions_of_the_result(files, shell, revseq):
    shell("umask 027; revseq run x.npy n.npy --axis 1 -o new.npy").ok()
    assert (files / "new.npy").stat().st_mode & 0o777 == 0o640
    for mode in (0o600, 0o444, 0o755):
        (files / "new.npy").chmod(mode)
        revseq(*JOB, "-o", "new.npy", "--overwrite").ok()
        assert (files / "new.npy").stat().st_mode & 0o777 == mode
