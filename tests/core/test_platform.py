"""What systems do in different ways: a job is the same without it; names, rights, flushes and memory."""

import contextlib
import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from faults import refusing
from folders import content
from needs import fcntl

from revseq_cli.core import platform, signals
from revseq_cli.core.errors import TensorIOError
from revseq_cli.files import local, system_errors
from revseq_cli.files.new import NewFolder, NewLocalFile
from revseq_cli.files.system_errors import retry_while_in_use
from revseq_cli.files.transactions import FileTransaction

pytestmark = pytest.mark.skipif(
    os.name == "nt", reason="tests/core/test_windows.py has what is Windows's own"
)
IN_USE = OSError(errno.EACCES, "is being used by another process")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def in_use(monkeypatch):
    """Make one call of the system fail so many times as if another program had the file open, and none wait for long."""
    monkeypatch.setattr(platform, "keeps_name", lambda error: error is IN_USE)
    monkeypatch.setattr(system_errors, "_LONGEST_USE", 0.05)

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
    job = [
        "run",
        "x.npy",
        "n.npy",
        "--axis",
        "1",
        "-o",
        "y.npy",
        "--engine",
        "processes",
        "--jobs",
        "2",
        "--verify",
    ]
    code += f"sys.argv[1:] = {job}\nfrom revseq_cli.__main__ import main\nif __name__ == '__main__':\n    main()"
    (tmp_path / "job.py").write_text(code)  # which a process that is spawned loads again
    done = subprocess.run(
        [sys.executable, "job.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
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
        for flush in (lambda: local.flush_file("x"), lambda: platform.sync_folder(".")):
            with pytest.raises(OSError, match=flushed) if flushed else contextlib.nullcontext():
                flush()


# What Windows does its own way


def test_what_another_program_has_open_is_tried_for(folder, in_use):
    left = in_use("rename_file", 2)
    with FileTransaction(file := NewLocalFile("y", overwrite=True)):
        file.write(b"new")
    assert not left
    assert content(folder) == {"y": b"new"}
    left = in_use("rename", 2, Path)
    with FileTransaction(NewFolder("folder", overwrite=False)):
        pass
    assert not left
    left = in_use("unlink", 2, Path)
    file = NewLocalFile("z", overwrite=False)
    file.create()
    file.remove()
    assert not left


def test_a_file_that_stays_open_stays_as_it_is(folder, in_use):
    in_use("rename_file", 1000)
    Path("y").write_bytes(b"old")
    error = pytest.raises(TensorIOError, match="y: cannot replace: another program has it open")
    with error, FileTransaction(file := NewLocalFile("y", overwrite=True)):
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
        retry_while_in_use(busy, lambda _: True)
    assert len(calls) == 1
    retry_while_in_use(busy, lambda _: True, stops=False)
    assert len(calls) == 3


def test_names_that_windows_would_take_for_others():
    names = (
        "NUL",
        "sub/com1.npy",
        "Com¹ .x.npy",
        "x.npy:stream",
        "out.npy.",
        "out /x.npy",
        "a?b.npy",
        "a\tb.npy",
    )
    for name in (*names, r"\\.\C:\x"):
        assert "on Windows" in platform._fault_on_windows(name), name
    for name in ("COM10.npy", "a b.npy", "ä'(&).npy", "../.x/./y.npy"):
        assert not platform._fault_on_windows(name), name


# Words


@pytest.mark.parametrize(
    ("text", "word"),
    [("a.npy", "a.npy"), ("a b", "'a b'"), ("it's", """'it'"'"'s'"""), ("a\nb", "$'a\\012b'"), ("\x1b'\\", "$'\\033\\047\\134'"),
     ("\udcff", "$'\\377'")],
)  # fmt: skip
def test_words_that_a_shell_would_take_for_more_are_quoted(text, word):
    assert platform.quote(text) == word
    done = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, check=True)
    assert done.stdout == os.fsencode(text)


def test_pip_is_that_of_this_python(folder, monkeypatch):
    """The shell may find another one's; then what is to be typed names this Python."""
    monkeypatch.setattr(sys, "executable", str(folder / "my env/python3"))
    for place, command in (("my env", "pip"), ("other", f"'{folder}/my env/python3' -m pip")):
        (folder / place).mkdir()
        (folder / place / "pip").touch(0o755)
        monkeypatch.setenv("PATH", str(folder / place))
        assert platform.pip("install zarr") == f"{command} install zarr"


@pytest.mark.parametrize("name", ["[1].npy", "jnp.array([1]).npy", "<tf.Tensor x.npy", "-x.npy"])
def test_a_file_that_looks_like_a_tensor_or_an_option_is_typed_with_its_folder(name):
    assert platform.as_argument(name) == platform.quote(f"./{name}")
