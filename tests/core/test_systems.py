"""Each thing that some system lacks or does its own way is switched off or on here, and the files are the same."""

import ctypes
import errno
import json
import os
import platform
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from faults import refusing
from folders import content
from processes import until

from revseq_cli.commands import manifest
from revseq_cli.core import signals, system
from revseq_cli.core.errors import TensorIOError, UsageError
from revseq_cli.formats import file_io
from revseq_cli.formats.atomic_file import AtomicFile, FileTransaction, NewFolder
from revseq_cli.formats.documents import Text
from revseq_cli.formats.references import Reference
from revseq_cli.formats.zarr import source

if os.name == "nt":
    pytest.skip("POSIX systems alone have these", allow_module_level=True)

import fcntl

from revseq_cli.core import posix

IN_USE = PermissionError(errno.EACCES, "is being used by another process")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def in_use(monkeypatch):
    """Make one call of the system fail so many times as if another program had the file open, and none wait for long."""
    monkeypatch.setattr(system, "keeps_name", lambda error: error is IN_USE)
    monkeypatch.setattr(file_io, "_LONGEST_USE", 0.05)

    def use(name, times, owner=system):
        real, left = getattr(owner, name), [None] * times

        def busy(*args, **options):
            if left:
                left.pop()
                raise IN_USE
            return real(*args, **options)

        monkeypatch.setattr(owner, name, busy)
        return left

    return use


# What macOS lacks

WITHOUT = {
    "nothing": "", "positioned reads into memory": "del os.preadv\n", "reserved bytes": "del os.posix_fallocate\n",
    "copies by the system": "del os.copy_file_range\n", "cores of a process": "del os.sched_getaffinity\n",
}  # fmt: skip


@pytest.mark.parametrize(("lacking", "direct"), [*((lacking, True) for lacking in WITHOUT), ("nothing", False)])
def test_a_job_is_the_same_without(tmp_path, lacking, direct):
    """In a process of its own, on threads, with writes that are large enough to go past the page cache."""
    values = np.random.default_rng(1).integers(0, 255, (2, 9, 1 << 17), np.uint8)
    lengths = np.full((2, 1, 1 << 17), 7, np.uint32)
    np.save(tmp_path / "x.npy", values)
    np.save(tmp_path / "n.npy", lengths)
    code = "import os, sys\nfrom revseq_cli.core import system\n"
    code += WITHOUT[lacking] + "system.DIRECT = 0\n" * (not direct)
    job = ["run", "x.npy", "n.npy", "--axis", "1", "-o", "y.npy", "--engine", "processes", "--jobs", "2", "--verify"]
    code += f"sys.argv[1:] = {job}\nfrom revseq_cli.__main__ import main\nmain()"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    values[:, :7] = values[:, 6::-1].copy()
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), values)


def test_a_large_write_without_a_way_past_the_page_cache_has_no_edges(folder, monkeypatch):
    calls = []
    real = os.pwrite
    monkeypatch.setattr(system, "DIRECT", 0)
    monkeypatch.setattr(os, "pwrite", lambda fd, data, place: (calls.append(len(data)), real(fd, data, place))[1])
    Path("x").touch()
    data = os.urandom((3 << 20) + 5)
    with file_io.opened_to_write("x", "x") as fd:
        assert file_io.write_runs("x", fd, [(77, memoryview(data))], "x") == []
    assert calls == [len(data)]
    assert Path("x").read_bytes() == bytes(77) + data


@pytest.mark.parametrize("told", [True, False])
def test_a_store_where_a_listing_tells_no_numbers(folder, monkeypatch, told):
    zarr = pytest.importorskip("zarr", reason="zarr, an extra, is not installed")
    zarr.create_array("x.zarr", data=np.arange(12), chunks=(5,))
    found, opened = source.state("x.zarr", "x.zarr"), []
    real = file_io.opened
    monkeypatch.setattr(file_io, "opened", lambda path: (opened.append(path), real(path))[1])
    monkeypatch.setattr(system, "LISTS_STATUS", told)
    assert source.state("x.zarr", "x.zarr") == found
    assert len(opened) == (0 if told else 4)  # three chunks, and what is said of them


@pytest.mark.parametrize(
    ("number", "flushed"),
    [(None, ["full"]), (errno.ENOTSUP, ["full", "plain"]), (errno.ENOTTY, ["full", "plain"]), (errno.EIO, ["full"])],
)
def test_a_flush_that_reaches_the_disk(folder, monkeypatch, number, flushed):
    """Fsync of macOS does not; an error of what does is the last word."""
    found = []
    real = fcntl.fcntl

    def control(fd, command, *rest):
        if command != 51:
            return real(fd, command, *rest)
        found.append("full")
        return refusing(number)() if number else 0

    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", control)
    monkeypatch.setattr(os, "fsync", lambda _: found.append("plain"))
    Path("x").touch()
    for flush in (lambda: file_io.flush("x"), lambda: system.flush_folder(".")):
        if number == errno.EIO:
            with pytest.raises(OSError, match="Input/output error"):
                flush()
        else:
            flush()
        assert found == flushed
        found.clear()


@pytest.mark.parametrize(("answer", "same"), [(0, True), (1, False), (refusing(errno.EINVAL), False)])
def test_names_that_differ_in_case_alone(files, monkeypatch, answer, same):
    monkeypatch.chdir(files)
    monkeypatch.setattr(posix, "_IS_MAC", True)
    monkeypatch.setattr(os, "pathconf", answer if callable(answer) else lambda *_: answer)
    line = '{"input": "x.npy", "lengths": "n.npy", "output": "%s"}\n'
    columns = {name: manifest.Column(name, str) for name in ("input", "lengths", "output")}
    text = Text("jobs", line % "y.npy" + line % "Y.npy" + line.replace("x.npy", "Z.npy") % "z.npy")
    if not same:
        assert len(manifest.parse(text, columns, manifest.separator_of(text)).entries) == 3
        return
    with pytest.raises(manifest.ManifestError) as caught:
        manifest.parse(text, columns, manifest.separator_of(text))
    assert [each.found for each in caught.value.parts()] == [
        "line 2: its output Y.npy is that of line 1", "line 3: its input Z.npy is its output, too",
    ]  # fmt: skip


def test_a_system_with_case_is_not_asked(monkeypatch):
    monkeypatch.setattr(os, "pathconf", refusing(errno.EIO))
    assert system.name_key("/A/b") == "/A/b"


# What Windows does its own way


@pytest.mark.parametrize("overwrite", [True, False])
def test_a_name_is_tried_for_while_another_program_has_the_file_open(folder, in_use, overwrite):
    if overwrite:
        Path("y").write_bytes(b"old")
    left = in_use("take_name" if overwrite else "take_free_name", 2)
    with FileTransaction(file := AtomicFile("y", overwrite=overwrite)):
        file.write(b"new")
    assert not left
    assert content(folder) == {"y": b"new"}


def test_a_file_that_stays_open_stays_as_it_is(folder, in_use):
    for call in ("take_name", "take_free_name"):
        in_use(call, 1000)
    error = pytest.raises(TensorIOError, match="y: cannot write: is being used by another process")
    with error, FileTransaction(AtomicFile("y", overwrite=False)):
        pass
    assert content(folder) == {}
    Path("y").write_bytes(b"old")
    error = pytest.raises(TensorIOError, match="y: cannot replace: another program has it open")
    with error as caught, FileTransaction(file := AtomicFile("y", overwrite=True)):
        file.write(b"new")
    assert caught.value.hint == "close it there, and run the command again"
    assert content(folder) == {"y": b"old"}


def test_a_folder_and_what_is_removed_are_tried_for_too(folder, in_use):
    left = in_use("rename", 2, Path)
    with FileTransaction(NewFolder("y", overwrite=False)):
        pass
    assert not left
    Path("y").rmdir()
    left = in_use("unlink", 2, Path)
    file = AtomicFile("z", overwrite=False)
    file.create()
    file.remove()
    assert not left
    assert content(folder) == {}


def test_an_input_is_tried_for(folder, monkeypatch):
    calls = []

    def busy(path, flags):
        calls.append(path)
        if len(calls) < 3:
            raise IN_USE
        return os.open(path, flags)

    Path("x").write_bytes(b"data")
    monkeypatch.setattr(system, "open_file", busy)
    error = pytest.raises(TensorIOError, match="x: cannot open: is being used by another process")
    with error, file_io.opened("x"):
        pass
    assert len(calls) == 1  # here no error passes
    calls.clear()
    assert file_io.patiently(lambda: busy("x", os.O_RDONLY), lambda error: error is IN_USE) > 0
    assert len(calls) == 3


def test_a_signal_ends_the_wait_but_not_what_undoes_the_work(monkeypatch, in_use):
    monkeypatch.setattr(signals, "_received", [signal.SIGINT])
    calls = []

    def busy():
        calls.append(None)
        if len(calls) < 3:
            raise IN_USE

    with pytest.raises(signals.Stopped):
        file_io.patiently(busy, lambda _: True)
    assert len(calls) == 1
    file_io.patiently(busy, lambda _: True, stops=False)
    assert len(calls) == 3


def test_names_that_the_system_takes_for_others(folder, monkeypatch):
    monkeypatch.setattr(system, "name_fault", lambda path, **_: ("is a device" * path.startswith("NUL"), ""))
    Path("NUL.npy::a").touch()
    for name, key in (("NUL.npy", None), ("NUL.npy::a", "a")):
        with pytest.raises(UsageError, match=r"NUL\.npy: is a device"):
            Reference.file(name)
        assert Reference.file(f"x{name}") == Reference("xNUL.npy", key)
    with pytest.raises(TensorIOError, match=r"NUL\.npy: is a device"):
        AtomicFile("NUL.npy", overwrite=False)
    with pytest.raises(TensorIOError, match=r"NUL\.npy: is a device"), file_io.opened("NUL.npy"):
        pass


def test_a_protected_file_is_not_replaced(folder, monkeypatch):
    Path("my y").write_bytes(b"old")
    monkeypatch.setattr(system, "is_protected", lambda status: status.st_size == 3)
    with pytest.raises(TensorIOError, match="my y: is read-only") as caught:
        AtomicFile("my y", overwrite=True)
    assert caught.value.hint == "attrib -r 'my y'"


# The process of a batch stops when its parent says so in the memory that they share.
BATCH = """
import sys, time
from revseq_cli.__main__ import main
from revseq_cli.formats import raw
from revseq_cli.core import signals

def write(self, *rest):
    open("reached", "w").close()
    try:
        while True:
            signals.check()
            time.sleep(0.01)
    finally:
        open("stopped", "w").close()

raw.RawTensor.write = write
sys.argv[1:] = ["batch", "jobs.csv"]
main()
"""


def test_the_process_of_a_batch_needs_no_signal_to_stop(files):
    (files / "jobs.csv").write_text("input,lengths,axis,output\nx.npy,n.npy,1,y.npy\n")
    before = {path.name for path in files.iterdir()}
    # Alone, it is forked, and the jobs' process has all of this, too.
    env = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen([sys.executable, "-c", BATCH], cwd=files, env=env, stdout=-1, stderr=-1) as process:
        until(lambda: (files / "reached").exists() or process.poll() is not None)
        assert process.poll() is None
        assert list(files.glob(".revseq*"))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert (process.returncode, out) == (-signal.SIGINT, b"")
    assert err == b"" or err.startswith(b"Note: stopped after reporting 0 of 1 outputs")
    until(lambda: {path.name for path in files.iterdir()} == before | {"reached", "stopped", "jobs.csv.revseq-journal"})


@pytest.mark.parametrize("place", ["ours", "linked", "other", "none"])
def test_pip_is_that_of_this_python(folder, monkeypatch, place):
    """The shell may find another one's; then what is to be typed names this Python."""
    for name in ("my env", "other"):
        (folder / name).mkdir()
        for program in ("python3", "pip"):
            (folder / name / program).write_text("")
            (folder / name / program).chmod(0o755)
    (folder / "linked").symlink_to("my env")
    (folder / "none").mkdir()
    monkeypatch.setattr(sys, "executable", str(folder / "my env/python3"))
    monkeypatch.setenv("PATH", str(folder / {"ours": "my env"}.get(place, place)))
    long = f"'{folder}/my env/python3' -m pip install zarr"
    assert system.pip("install zarr") == ("pip install zarr" if place in ("ours", "linked") else long)
    monkeypatch.setattr(sys, "executable", "")  # a program that has Python inside
    assert system.pip("install zarr") == "pip install zarr"


@pytest.mark.parametrize("is_ours", [True, False])
def test_a_missing_package_names_the_pip_to_type(revseq, folder, is_ours):
    (folder / "pip").write_text("")
    (folder / "pip").chmod(0o755)
    np.save(folder / "x.npy", np.ones(3, "f4"))
    code = "import sys; sys.modules['zarr'] = None"
    code += f"; sys.executable = {str(folder / 'python3')!r}" * is_ours
    done = revseq("convert", "x.npy", "x.zarr", env={"PATH": str(folder)}, code=code).refused("the package zarr")
    command = "pip" if is_ours else f"{system.quoted(sys.executable)} -m pip"
    assert done.err.endswith(f"Hint: {command} install zarr\n")


# the C library's allocator, seen in what it does: pages that the system clears for arrays

# Faults of 64 arrays of 1 MiB, one after another: before, inside, and after the context.
CODE = """
import contextlib, json, resource
import numpy as np
from revseq_cli.core import system

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(64):
        np.ones(1 << 20, np.uint8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

np.ones(1 << 20, np.uint8)
found = [faults()]
with contextlib.suppress(OSError), system.keeping_freed_memory():
    found.append(faults())
    raise OSError
print(json.dumps([*found, faults()]))
"""


@pytest.mark.needs("peak")
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library keeps its settings")
def test_freed_memory_is_kept_inside_the_context_alone():
    """As in a worker of dask's, which sets the variable, and has other work after ours."""
    env = os.environ | {"MALLOC_TRIM_THRESHOLD_": "65536"}
    done = subprocess.run([sys.executable, "-c", CODE], env=env, capture_output=True, text=True, check=True)
    before, inside, after = json.loads(done.stdout)
    assert inside < before / 8
    assert inside < after / 8


@pytest.mark.parametrize("library", [OSError("Dynamic loading not supported"), SimpleNamespace()])
def test_a_c_library_without_settings_changes_nothing(monkeypatch, library):
    """A Python that loads no libraries, and a C library without the function."""

    def load(_):
        if isinstance(library, OSError):
            raise library
        return library

    monkeypatch.setattr(ctypes, "CDLL", load)
    posix._mallopt.cache_clear()
    system.keep_freed_memory()
    assert posix._mallopt() is None
    posix._mallopt.cache_clear()
