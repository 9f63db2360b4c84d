"""Outputs in file systems that lie in memory: nothing is reserved there."""

import os
import subprocess
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from revseq_cli.core import platform
from revseq_cli.core.errors import TensorIOError
from revseq_cli.formats import file_io

pytestmark = pytest.mark.needs("memory files")


@pytest.fixture
def folder():
    """A folder in memory."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        yield Path(name)


@pytest.fixture
def small(tmp_path):
    """A file system of 24 MiB in memory."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=24m", "t", folder]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system needs the superuser")
    platform._devices_in_memory.cache_clear()
    yield folder
    subprocess.run(["umount", folder], check=True)


def opened(path):
    return file_io.opened_to_write(str(path), "y.npy")


def test_what_lies_in_memory(folder, tmp_path):
    for place, expected in ((folder, True), (Path(__file__).parent, False)):
        with open(place / "x" if expected else __file__, "ab") as f:
            assert platform.lies_in_memory(f.fileno()) is expected


@pytest.mark.parametrize(("blocks", "free", "fits"), [(10, 5, True), (10, 4, False), (0, 0, True)])
def test_a_file_that_does_not_fit_is_refused_before_it_is_written(folder, monkeypatch, blocks, free, fits):
    """A file system without a limit says that it has 0 blocks."""
    (folder / "y").write_bytes(bytes(4096))  # a page of the file that is there already counts as free
    space = SimpleNamespace(f_blocks=blocks, f_bavail=free, f_frsize=4096)
    monkeypatch.setattr(os, "fstatvfs", lambda _: space)
    with opened(folder / "y") as fd:
        if fits:
            file_io.allocate(fd, 6 * 4096, "y.npy")
            return
        with pytest.raises(TensorIOError, match=r"y\.npy: cannot write: No space left on device"):
            file_io.allocate(fd, 6 * 4096, "y.npy")
    assert (folder / "y").stat().st_size == 4096


@pytest.mark.parametrize("axis", [0, 1])
def test_the_output_of_many_workers(revseq, folder, axis):
    """The header of 128 bytes makes blocks, and runs of rows, begin inside a page, which two workers then write."""
    x = np.random.default_rng(1).integers(0, 2**32, (64, 120_000) if axis == 0 else (120_000, 64), np.uint32)
    n = np.random.default_rng(2).integers(0, 65, (1, 120_000) if axis == 0 else (120_000, 1)).astype(np.uint32)
    np.save(folder / "x.npy", x)
    np.save(folder / "n.npy", n)
    options = ("--engine", "processes", "--jobs", 6, "--verify")
    revseq("run", "x.npy", "n.npy", "--axis", axis, "-o", "y.npy", *options, cwd=folder).ok()
    index = np.arange(64).reshape(-1, 1) if axis == 0 else np.arange(64)
    expected = np.take_along_axis(x, np.where(index < n, n.astype(int) - 1 - index, index), axis)
    assert np.load(folder / "y.npy").tobytes() == expected.tobytes()


@pytest.mark.parametrize("jobs", [2, 6])
def test_memory_that_is_full_in_the_middle(revseq, small, jobs):
    """What others write meanwhile is no more seen by the check of the free space than by this one, which is off."""
    np.save(small.parent / "x.npy", np.ones((30_000, 256), np.uint32))
    np.save(small.parent / "n.npy", np.ones((30_000, 1), np.uint32))
    code = 'import os; os.fstatvfs = lambda fd, real=os.fstatvfs: type("Space", (), {"f_blocks": 0})\n'
    job = ("run", "x.npy", "n.npy", "--axis", 1, "-o", "small/y.npy", "--engine", "processes", "--jobs", jobs)
    done = revseq(*job, cwd=small.parent, code=code)
    done.refused("small/y.npy: cannot write: No space left on device")
    assert list(small.iterdir()) == []
