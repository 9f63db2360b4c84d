"""What systems do in different ways: a job is the same without it; names, rights, flushes and memory."""

import contextlib
import errno
import os
import subprocess
import sys
from pathlib import Path
from platform import libc_ver

import numpy as np
import pytest
from faults import refusing
from folders import content
from needs import fcntl

from revseq_cli.core import platform, signals
from revseq_cli.core.errors import TensorIOError, UsageError
from revseq_cli.formats import file_io
from revseq_cli.formats.atomic_file import AtomicFile, FileTransaction, NewFolder
from revseq_cli.formats.references import Reference

pytestmark = pytest.mark.skipif(os.name == "nt", reason="tests/core/test_windows.py has what is Windows's own")
IN_USE = OSError(errno.EACCES, "is being used by another process")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def in_use(monkeypatch):
    """Make one call of the system fail so many times as if another program had the file open, and none wait for long."""
    monkeypatch.setattr(platform, "keeps_name", lambda error: error is IN_USE)
    monkeypatch.setattr(file_io, "_LONGEST_USE", 0.05)

    def use(name, times, owner=platform):
        real, left = getattr(owner, name), [None] * times

        def busy(*args, **options):
            if left:
                left.pop()
                raise IN_USE
            return real(*args, **options)

        monkeypatch.setattr(owner, name, busy)
        return left

    return use


# What other systems lack

WITHOUT = {
    "calls": "del os.preadv, os.posix_fallocate, os.copy_file_range, os.sched_getaffinity\nplatform.DIRECT = 0\n",
    "forks": "platform.can_fork = lambda: False\n",
}


@pytest.mark.parametrize("lacking", WITHOUT)
def test_a_job_is_the_same_without(tmp_path, lacking):
    """In a process of its own, with writes that are large enough to go past the page cache."""
    values = np.random.default_rng(1).integers(0, 255, (2, 9, 1 << 17), np.uint8)
    np.save(tmp_path / "x.npy", values)
    np.save(tmp_path / "n.npy", np.full((2, 1, 1 << 17), 7, np.uint32))
    code = "import os, sys\nfrom revseq_cli.core import platform\n" + WITHOUT[lacking]
    job = ["run", "x.npy", "n.npy", "--axis", "1", "-o", "y.npy", "--engine", "processes", "--jobs", "2", "--verify"]
    code += f"sys.argv[1:] = {job}\nfrom revseq_cli.__main__ import main\nif __name__ == '__main__':\n    main()"
    (tmp_path / "job.py").write_text(code)  # which a process that is spawned loads again
    done = subprocess.run([sys.executable, "job.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    values[:, :7] = values[:, 6::-1].copy()
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), values)


def test_a_flush_that_reaches_the_disk_of_a_mac(folder, monkeypatch):
    """Fsync of macOS does not; an error of what does is the last word, where the file system has it."""
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(os, "fsync", refusing(errno.EPERM))
    Path("x").touch()
    for answer, flushed in (
        (lambda *_: 0, ""),
        (refusing(errno.ENOTSUP), "permitted"),
        (refusing(errno.EIO), "output error"),
    ):
        monkeypatch.setattr(fcntl, "fcntl", answer)
        for flush in (lambda: file_io.flush("x"), lambda: platform.flush_folder(".")):
            with pytest.raises(OSError, match=flushed) if flushed else contextlib.nullcontext():
                flush()


# What Windows does its own way


def test_what_another_program_has_open_is_tried_for(folder, in_use):
    for overwrite in (False, True):
        left = in_use("take_name", 2)
        with FileTransaction(file := AtomicFile("y", overwrite=overwrite)):
            file.write(b"new" * (1 + overwrite))
        assert not left
        assert content(folder) == {"y": b"new" * (1 + overwrite)}
    left = in_use("rename", 2, Path)
    with FileTransaction(NewFolder("folder", overwrite=False)):
        pass
    assert not left
    Path("folder").rmdir()
    left = in_use("unlink", 2, Path)
    file = AtomicFile("z", overwrite=False)
    file.create()
    file.remove()
    assert not left
    assert [*content(folder)] == ["y"]


def test_a_file_that_stays_open_stays_as_it_is(folder, in_use):
    in_use("take_name", 1000)
    error = pytest.raises(TensorIOError, match="y: cannot write: is being used by another process")
    with error, FileTransaction(AtomicFile("y", overwrite=False)):
        pass
    assert content(folder) == {}
    Path("y").write_bytes(b"old")
    error = pytest.raises(TensorIOError, match="y: cannot replace: another program has it open")
    with error, FileTransaction(file := AtomicFile("y", overwrite=True)):
        file.write(b"new")
    assert content(folder) == {"y": b"old"}


def test_a_signal_ends_the_wait_but_not_what_undoes_the_work(monkeypatch, in_use):
    monkeypatch.setattr(signals, "_received", [(2, 0.0)])
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
    monkeypatch.setattr(platform, "name_fault", lambda path, **_: ("is a device" * path.startswith("NUL"), ""))
    with pytest.raises(UsageError, match=r"NUL\.npy: is a device"):
        Reference.file("NUL.npy")
    with pytest.raises(TensorIOError, match=r"NUL\.npy: is a device"):
        AtomicFile("NUL.npy", overwrite=False)
    with pytest.raises(TensorIOError, match=r"NUL\.npy: is a device"), file_io.opened("NUL.npy"):
        pass


def test_names_that_windows_would_take_for_others():
    names = ("NUL", "sub/com1.npy", "Com¹ .x.npy", "x.npy:stream", "out.npy.", "out /x.npy", "a?b.npy", "a\tb.npy")
    for name in (*names, r"\\.\C:\x"):
        assert "on Windows" in platform._fault_on_windows(name), name
    for name in ("COM10.npy", "a b.npy", "ä'(&).npy", "../.x/./y.npy"):
        assert not platform._fault_on_windows(name), name


def test_a_protected_file_is_not_replaced(folder, monkeypatch):
    Path("my y").write_bytes(b"old")
    monkeypatch.setattr(platform, "is_protected", lambda status: status.st_size == 3)
    with pytest.raises(TensorIOError, match="my y: is read-only") as caught:
        AtomicFile("my y", overwrite=True)
    assert caught.value.hint == "attrib -r 'my y'"


# Words


@pytest.mark.parametrize(
    ("text", "word"),
    [("a.npy", "a.npy"), ("a b", "'a b'"), ("it's", """'it'"'"'s'"""), ("a\nb", "$'a\\012b'"), ("\x1b'\\", "$'\\033\\047\\134'"),
     ("\udcff", "$'\\377'")],
)  # fmt: skip
def test_words_that_a_shell_would_take_for_more_are_quoted(text, word):
    assert platform.quoted(text) == word
    done = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, check=True)
    assert done.stdout == os.fsencode(text)


@pytest.mark.parametrize("place", ["my env", "linked", "other"])
def test_pip_is_that_of_this_python(folder, monkeypatch, place):
    """The shell may find another one's; then what is to be typed names this Python."""
    for name in ("my env", "other"):
        (folder / name).mkdir()
        (folder / name / "pip").touch(0o755)
    (folder / "linked").symlink_to("my env")
    monkeypatch.setattr(sys, "executable", str(folder / "my env/python3"))
    monkeypatch.setenv("PATH", str(folder / place))
    long = f"'{folder}/my env/python3' -m pip install zarr"
    assert platform.pip("install zarr") == (long if place == "other" else "pip install zarr")


# The C library's allocator, seen in what it does: pages that the system clears for arrays

FAULTS = """
import resource
import numpy as np
from revseq_cli.core import platform

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(64):
        np.ones(1 << 20, np.uint8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

np.ones(1 << 20, np.uint8)
before = faults()
platform.keep_freed_memory()
faults()
assert faults() < before / 8
"""


@pytest.mark.needs("peak")
@pytest.mark.skipif(libc_ver()[0] != "glibc", reason="another C library keeps its settings")
def test_freed_memory_is_kept():
    subprocess.run([sys.executable, "-c", FAULTS], check=True)
